"""Gross outliers are named, ordinary noise is not; extrapolation is said once, and only where it matters."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest

import stopwise as sw
from stopwise.estimators.doubts import TrustWarning
from stopwise.exceptions import ExtrapolationWarning
from stopwise.tables.encodings import Categories
from stopwise.tables.recipe import Recipe
from stopwise.tables.table import Table, text_column


def wave(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 1))
    return X, np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=n), rng


@pytest.mark.parametrize("kernel", ["auto", sw.kernels.Gaussian(0.2)], ids=str)
def test_ten_gross_outliers_are_named(kernel):
    X, y, rng = wave()
    bad = np.sort(rng.permutation(300)[:10])
    y[bad] += 10 * rng.choice([-1, 1], size=10)
    with pytest.warns(TrustWarning, match="lie further from what the other rows predict") as caught:
        sw.KernelGradientRegressor(kernel).fit(X, y)
    named = re.search(r"rows ([\d, ]+) and 2 more", str(caught[0].message))[1]
    assert {int(row) for row in named.split(",")} <= set(bad.tolist())


def test_rows_are_numbered_as_they_were_given():
    X, y, _ = wave(60)
    y[17] = 50.0
    again = np.append(np.arange(20), np.arange(60))
    with pytest.warns(TrustWarning, match=r"row 17 \(counted from 0\)"):
        sw.KernelGradientRegressor(sw.kernels.Gaussian(0.2)).fit(X[again], y[again])


def test_a_comparison_that_holds_rows_out_numbers_them_as_they_were_given():
    X, y, _ = wave(120)
    y[50] = 50.0
    held = np.random.default_rng(1).permutation(120)[:24]
    assert (held < 50).any()
    assert 50 not in held
    with pytest.warns(TrustWarning) as caught:
        sw.compare(X, y, holdout=0.2, seed=1, kernel="gaussian")
    assert [str(warning.message).split(" lies")[0] for warning in caught] == ["row 50 (counted from 0)"]


def test_normal_noise_has_no_outliers():
    for seed in range(4):
        X, y, _ = wave(100, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            sw.KernelGradientRegressor(sw.kernels.Gaussian(0.2)).fit(X, y)


def test_noise_with_a_long_tail_has_no_outliers_but_one_beside_it_has():
    X, y, rng = wave(1_000, 5)
    y = np.sin(6 * X[:, 0]) + 0.1 * rng.standard_t(3, size=len(y))  # some rows lie beyond eight standard deviations
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sw.KernelGradientRegressor(sw.kernels.Gaussian(0.2)).fit(X, y)
    X, y, _ = wave(1_000, 5)
    y[123] += 5
    for solver in ("dense", "factor"):
        with pytest.warns(TrustWarning, match=r"row 123 \(counted"):
            sw.KernelGradientRegressor(sw.kernels.Gaussian(0.2), solver=solver).fit(X, y)


@pytest.mark.parametrize("off", [0.5, 2.0])
def test_an_outlier_is_off_by_more_than_the_responses_spread(off):
    X, _, rng = wave(500, 6)
    y = np.sin(6 * X[:, 0]) + 0.01 * rng.normal(size=500)
    y[77] += off * y.std()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sw.KernelGradientRegressor(sw.kernels.Gaussian(0.3)).fit(X, y)
    assert any("row 77 (" in str(warning.message) for warning in caught) == (off > 1)


@pytest.mark.parametrize("kind", ["0/1", "counts", "ratings"])
def test_the_rare_values_of_a_response_on_steps_are_no_outliers_but_one_far_off_its_steps_is(kind):
    rng = np.random.default_rng(1)
    X, few = rng.uniform(size=(400, 2)), rng.permutation(400)[:12]
    y = rng.poisson(0.03, size=400).astype(float) if kind == "counts" else np.zeros(400)
    if kind != "counts":
        y[few] = 1.0
    if kind == "ratings":
        y[few[:3]] = 2.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sw.KernelGradientRegressor().fit(X, 3 + y)
    y[77] = -999.0
    with pytest.warns(TrustWarning, match=r"row 77 \(counted"):
        sw.KernelGradientRegressor().fit(X, 3 + y)


def test_extrapolation_is_said_once_and_only_where_it_matters():
    X, y, rng = wave()
    model = sw.KernelGradientRegressor(sw.kernels.Gaussian(0.2)).fit(X, y)
    inside = rng.uniform(X.min(), X.max(), size=(200, 1))
    gap = np.diff(np.sort(X[:, 0])).max()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(inside)
        model.predict(np.append(inside, [[X.max() + 0.5 * gap]], axis=0))
    far = np.append(inside, [[X.max() + 2 * gap]], axis=0)
    with pytest.warns(ExtrapolationWarning, match="1 of 201 rows"):
        model.predict(far)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(far)
    model.fit(X, y)
    with pytest.warns(ExtrapolationWarning, match="3 of 203 rows"):
        model.predict(np.append(inside, np.full((3, 1), X.max() + 0.5 * gap), axis=0))


def test_text_never_seen_in_training_is_told_of_with_its_column():
    rng = np.random.default_rng(0)
    level, x = rng.integers(0, 4, size=80), rng.uniform(size=80)
    frame = pd.DataFrame({"shop": np.array(list("abcd"))[level], "x": x})
    new = pd.DataFrame({"shop": ["a", "z", "b", "y"], "x": [0.2, 0.4, 0.6, 0.5]})
    y = level + x + 0.1 * rng.normal(size=80)
    for model in (sw.KernelGradientRegressor().fit(frame, y), sw.KernelGradientClassifier().fit(frame, y > 2)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.predict(new.iloc[[0, 2]])
        told = "2 of 4 rows hold text or a gap never seen in training, in column 'shop'"
        with pytest.warns(ExtrapolationWarning, match=told):
            model.predict(new)


@pytest.mark.parametrize(("gap", "unknown", "told"), [(False, None, "text or a gap"), (True, "z", "text")])
def test_a_gap_where_training_had_none_is_not_told_of_as_text(gap, unknown, told):
    rng = np.random.default_rng(0)
    level, x = rng.integers(0, 4, size=80), rng.uniform(size=80)
    shop = np.array(list("abcd"), dtype=object)[level]
    shop[:4] = None if gap else shop[:4]
    model = sw.KernelGradientRegressor().fit(pd.DataFrame({"shop": shop, "x": x}), level + x)
    new = pd.DataFrame({"shop": ["a", unknown], "x": [0.2, 0.4]})
    with pytest.warns(ExtrapolationWarning, match=f"1 of 2 rows hold {told} never seen in training, in column 'shop'"):
        model.predict(new)


def test_where_rare_levels_are_pooled_only_a_gap_is_none_of_them():
    recipe = Recipe((Categories("shop", ("a", "b"), pooled=True),))
    encoded = recipe.encode(Table({"shop": text_column(["a", "z", None])}))
    assert recipe.unknown_text(encoded.matrix) == [("shop", "a gap", 1)]


def test_a_periodic_kernel_has_no_outside():
    X, y, _ = wave()
    kernel = sw.kernels.PeriodicSobolev(1, interval=(0.0, 1.0))
    model = sw.KernelGradientRegressor(kernel).fit(0.2 + 0.6 * X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(np.linspace(0, 1, 50)[:, None])


def test_interpolation_is_doubted_only_where_rows_left_out_are_missed():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(80, 1))
    exact = np.cos(5 * X[:, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = sw.KernelRidgeRegressor(sw.kernels.Laplace(1.0)).fit(X, exact)
    assert model.path_.degrees_of_freedom() > 0.95 * 80
    with pytest.warns(TrustWarning, match="interpolates"):
        sw.KernelRidgeRegressor(sw.kernels.Gaussian(1e-3), rule=sw.rules.Fixed(step_sum=1e12), noise_std=1e-9).fit(
            X, exact
        )


def test_where_others_are_drawn_towards_outliers_none_is_named_but_tails_are_spoken_of():
    rng = np.random.default_rng(2)
    X = rng.uniform(-1, 1, size=(500, 2))
    y = np.sin(9 * X[:, 0]) * np.cos(9 * X[:, 1]) + 0.05 * rng.normal(size=500)
    y[:5] += 3  # rows beside these are predicted from them, and lie between
    with pytest.warns(TrustWarning, match="heavy-tailed") as caught:
        model = sw.KernelRidgeRegressor(sw.kernels.Laplace(1.0), solver="factor").fit(X, y)
    assert len(caught) == 1
    assert model.path_.degrees_of_freedom() > model.path_.spectrum.eigenvalues.size


def test_a_long_tail_is_doubted_only_where_the_stop_rests_on_a_noise_level():
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, size=(600, 1))
    y = np.sin(3 * X[:, 0]) + 0.1 * rng.standard_t(1.2, size=600)
    kernel = sw.kernels.Gaussian(0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sw.KernelRidgeRegressor(kernel).fit(X, y)
    with pytest.warns(TrustWarning, match="heavy-tailed"):
        sw.KernelRidgeRegressor(kernel, rule=sw.rules.Critical(hilbert_radius=3.0)).fit(X, y)
