"""What "auto" chooses: inspectable, in user units, and the same whatever the units, the order or the copies of rows."""

import numpy as np
import pandas as pd
import pytest

import stopwise as sw
from stopwise.kernels.base import Scaled, parts
from stopwise.problem import make_problem
from stopwise.sample import look_at_features, make_sample
from stopwise.selection.candidates import judge
from stopwise.selection.choice import KERNELS, search_for
from stopwise.selection.kernel_search import Budget, Round, Search
from stopwise.selection.learning import part_at

ESTIMATORS = [sw.KernelGradientRegressor, sw.KernelRidgeRegressor]
each_estimator = pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda cls: cls.__name__)


def data(n=90, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.normal(size=n)


@each_estimator
@pytest.mark.parametrize("kernel", ["auto", "gaussian", "laplace"])
def test_units_change_nothing_but_units(estimator, kernel):
    X, y = data()
    new = data(seed=1)[0]
    scale, shift = np.array([1e-4, -30.0, 7e5]), np.array([2e-4, 1e3, -1e6])
    plain = estimator(kernel).fit(X, y)
    moved = estimator(kernel).fit(X * scale + shift, 50.0 - 3e3 * y)
    np.testing.assert_allclose(moved.predict(new * scale + shift), 50.0 - 3e3 * plain.predict(new), rtol=1e-6)
    assert moved.noise_std_ == pytest.approx(3e3 * plain.noise_std_, rel=1e-6)
    assert moved.kernel_.name == plain.kernel_.name
    np.testing.assert_allclose(moved.kernel_.scales, plain.kernel_.scales * np.abs(scale), rtol=1e-6)


def test_units_change_nothing_for_a_subsample_either():
    """Powers of two leave every bit; other units leave what a flat minimum, known to sqrt(eps), leaves of the fit."""
    X, y = data(n=700, d=2)
    plain = sw.KernelRidgeRegressor(relevance=False).fit(X, y)
    assert plain.selection_.n_rows == 600
    scale, unit = np.array([-(2.0**10), 2.0**-10]), 2.0**-10
    doubled = sw.KernelRidgeRegressor(relevance=False).fit(X * scale, unit * y)
    np.testing.assert_array_equal(doubled.predict(X * scale), unit * plain.predict(X))
    scale, unit = np.array([-1e3, 1e-3]), 1e-3
    moved = sw.KernelRidgeRegressor(relevance=False).fit(X * scale + 5.0, unit * y)
    close = np.sqrt(np.finfo(float).eps) * np.abs(unit * y).max()
    np.testing.assert_allclose(moved.predict(X * scale + 5.0), unit * plain.predict(X), rtol=0, atol=close)


@each_estimator
def test_the_order_of_rows_does_not_matter(estimator):
    X, y = data()
    order = np.random.default_rng(4).permutation(len(y))
    np.testing.assert_allclose(
        estimator().fit(X[order], y[order]).predict(X), estimator().fit(X, y).predict(X), rtol=1e-6, atol=1e-9
    )


@each_estimator
def test_an_integer_weight_is_so_many_copies_of_a_row(estimator):
    X, y = data(n=60)
    weights = np.random.default_rng(2).integers(1, 4, size=60)
    weighted = estimator().fit(X, y, sample_weight=weights)
    repeated = estimator().fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-6, atol=1e-8)
    assert weighted.selection_.reason == repeated.selection_.reason


def test_merged_copies_have_the_evidence_of_the_rows_written_out():
    rng = np.random.default_rng(6)
    X = np.repeat(rng.normal(size=(20, 2)), 3, axis=0)
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=60)
    problem = make_problem(X, y[:, None], None, intercept=True, seed=0)
    merged = make_sample(problem, look_at_features(X, None), 600)
    assert (merged.n_rows, merged.n_samples) == (20, 60)
    score = judge(merged, part_at(sw.kernels.Gaussian(), np.ones(2)))
    standard = (X - X.mean(axis=0)) / X.std(axis=0)
    gram = sw.kernels.Gaussian()(standard) / 60
    centring = np.eye(60) - 1 / 60
    values, vectors = np.linalg.eigh(centring @ gram @ centring)
    z = vectors.T @ ((y - y.mean()) / y.std())
    for ratio, evidence in zip(score.ratios[::9], score.evidence_curve[::9, 0], strict=True):
        s2 = (z**2 / (1 + ratio * np.maximum(values, 0))).sum() / 59
        written_out = (59 * np.log(s2) + np.log1p(ratio * np.maximum(values, 0)).sum()) / 60
        assert evidence == pytest.approx(written_out, rel=1e-8)


def test_leave_one_out_leaves_one_replicate_out():
    rng = np.random.default_rng(7)
    X = np.repeat(rng.normal(size=(15, 1)), rng.integers(1, 4, size=15), axis=0)
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=len(X))
    problem = make_problem(X, y[:, None], None, intercept=True, seed=0)
    sample = make_sample(problem, look_at_features(X, None), 600)
    ridge = judge(sample, part_at(sw.kernels.Matern(), np.ones(1)))
    at, total = 20, 0.0
    penalty = sample.n_samples / ridge.ratios[at]
    gram = sw.kernels.Matern()((X - X.mean()) / X.std())
    y = (y - y.mean()) / y.std()
    for value in np.unique(y):
        out, kept = y == value, y != value
        # ridge with a free constant, solved as it is written
        inner, ones = gram[np.ix_(kept, kept)], np.ones((kept.sum(), 1))
        system = np.block([[inner + penalty * np.eye(len(inner)), ones], [ones.T, np.zeros((1, 1))]])
        solved = np.linalg.solve(system, np.append(y[kept], 0.0))
        predicted = gram[np.ix_(out, kept)] @ solved[:-1] + solved[-1]
        total += float(((value - predicted) ** 2).sum())
    assert ridge.left_out[:, at, 0].sum() == pytest.approx(total, rel=1e-8)


@each_estimator
def test_a_constant_feature_is_dropped_with_its_reason(estimator):
    X, y = data()
    with_constant = np.column_stack([X[:, 0], np.full(len(y), 3.5), X[:, 1:]])
    model = estimator().fit(with_constant, y)
    assert model.selection_.features[1] == {"feature": 1, "used": False, "why": "constant: always 3.5"}
    # a search finds its minimum to the root of the rounding, 1.5e-8; another layout of the rows rounds otherwise
    np.testing.assert_allclose(model.predict(with_constant), estimator().fit(X, y).predict(X), rtol=1e-8, atol=1e-7)
    assert model.n_features_in_ == 4


def test_where_no_feature_varies_the_fit_is_the_mean():
    X, y = np.ones((20, 2)), np.arange(20.0)
    model = sw.KernelRidgeRegressor().fit(X, y)
    np.testing.assert_allclose(model.predict(X), 9.5)
    assert "constant" in model.selection_.reason


def test_the_table_says_what_was_tried_and_what_was_chosen():
    X, y = data()
    model = sw.KernelRidgeRegressor().fit(X, y)
    table = model.selection_
    plain = {"gaussian", "matern32", "productmatern32", "laplace", "productlaplace"}
    names = {row["kernel"] for row in table if not row["chosen"]}
    assert names == plain | {"linear"} | {f"linear + {name}" for name in plain}
    assert sum(row["chosen"] for row in table) == 1
    assert table[0] is table.chosen
    first = next(part for part in parts(model.kernel_) if hasattr(part, "scales"))
    np.testing.assert_allclose(table.chosen["length_scale"], first.scales)
    assert 0.1 < table.chosen["left_out_rmse"] < np.std(y)
    frame = table.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert len(frame) == len(table) > 10
    assert str(table).splitlines()[-1] == table.reason


def test_an_explicit_kernel_sees_covariates_as_given():
    X, y = data()
    model = sw.KernelRidgeRegressor(sw.kernels.Gaussian(2.0)).fit(X, y)
    assert model.kernel_ == sw.kernels.Gaussian(2.0)
    assert model.selection_ is None


def test_a_sobolev_kernel_takes_its_interval_from_the_data_when_told_to():
    X = np.linspace(-3, 12, 50)[:, None]
    y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=50)
    model = sw.KernelRidgeRegressor(sw.kernels.Sobolev(interval="auto")).fit(X, y)
    assert model.kernel_.interval == (-3.0, 12.0)
    unit = sw.KernelRidgeRegressor(sw.kernels.Sobolev()).fit((X + 3) / 15, y)
    np.testing.assert_allclose(model.predict(X), unit.predict((X + 3) / 15), rtol=1e-8)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("linear", [False, True])
def test_left_out_rows_are_those_of_ridge_fitted_without_them(intercept, linear):
    if linear and not intercept:
        return
    X, y = data(25)
    X[3] = X[4]  # replicates are left out one at a time, and their errors added
    problem = make_problem(X, y[:, None], None, intercept=intercept, seed=0)
    features = look_at_features(X, None)
    sample = make_sample(problem, features, 600)
    sample = sample.with_linear() if linear else sample
    kernel = sw.kernels.ProductMatern(2.0)
    ridge = judge(sample, part_at(sw.kernels.ProductMatern(), np.full(3, 2.0)))
    rows, at = features.standardise(X), int(ridge.best[0])
    gram, design = ridge.ratios[at] / 25 * kernel(rows), sample.design(rows)
    target = y - (y.mean() if intercept else 0.0)
    target = target / np.sqrt(np.mean(target**2))
    errors, p = np.zeros(sample.n_rows), design.shape[1]
    for i in range(25):
        kept = np.arange(25) != i
        fixed = design[kept]
        system = np.block([[gram[np.ix_(kept, kept)] + np.eye(24), fixed], [fixed.T, np.zeros((p, p))]])
        solved = np.linalg.solve(system, np.append(target[kept], np.zeros(p)))
        predicted = gram[i, kept] @ solved[:24] + design[i] @ solved[24:]
        errors[np.argmin(np.abs(sample.covariates - rows[i]).sum(axis=1))] += (target[i] - predicted) ** 2
    assert ridge.errors[:, 0] == pytest.approx(errors, rel=1e-6)


def test_a_straight_truth_is_fitted_by_least_squares():
    rng = np.random.default_rng(11)
    X = rng.normal(size=(100, 4)) * [1.0, 1e3, 1e-3, 5.0]
    y = X @ [1.0, 2e-3, -1e3, 0.0] + rng.normal(size=100)
    model = sw.KernelGradientRegressor().fit(X, y)
    assert model.selection_.chosen["linear"]
    assert model.n_iter_ < 1000
    design = np.column_stack([np.ones(100), X])
    np.testing.assert_allclose(model.linear_coef_, np.linalg.lstsq(design, y, rcond=None)[0][1:], rtol=0.2, atol=0.05)
    assert not sw.KernelGradientRegressor("gaussian").fit(X, y).selection_.chosen["linear"]


def slow_signal(ratios, gram, y):
    """The ratio of the highest evidence of all on a grid, times its noise variance: every matrix written out."""
    n = len(y)
    contrasts = np.linalg.svd(np.ones((n, 1)))[0][:, 1:]
    z, found = contrasts.T @ y, []
    for ratio in ratios:
        matrix = contrasts.T @ (np.eye(n) + ratio / n * gram) @ contrasts
        level = z @ np.linalg.solve(matrix, z) / (n - 1)
        found.append(((n - 1) * np.log(level) + np.linalg.slogdet(matrix)[1], level * ratio / n))
    return min(found)[1]


def test_in_a_small_sample_kernels_have_the_variance_of_a_process_with_one_of_them_by_their_posterior_odds():
    rng = np.random.default_rng(12)
    X = rng.normal(size=(40, 3))
    y = np.sin(X[:, 0]) + rng.normal(size=40)
    model = sw.KernelRidgeRegressor().fit(X, y)
    chosen, *alone = model.selection_
    assert not chosen["per_feature"]
    sample = make_sample(make_problem(X, y[:, None], None, intercept=True, seed=0), look_at_features(X, None), 100)
    kernels, weights, signals = {kernel.name: kernel for kernel in KERNELS}, {}, []
    for row in alone:
        scales = np.array(row["length_scale"]) / X.std(axis=0)
        judged = judge(sample, part_at(kernels[row["kernel"]], scales))
        gram = kernels[row["kernel"]].with_length_scale(scales)(sample.covariates)
        signals.append(slow_signal(judged.ratios, gram, sample.means[:, 0]))
        assert judged.signal == pytest.approx(signals[-1], rel=1e-8)
        weights[row["kernel"]] = np.exp(-20 * row["evidence"]) * signals[-1]
    assert max(signals) > 1.2 * min(signals)
    shares = {name: each / sum(weights.values()) for name, each in weights.items()}
    found = {part.inner.name: part.factor for part in parts(model.kernel_) if isinstance(part, Scaled)}
    assert set(found) == {name for name, share in shares.items() if share > 0.5 / 64}
    for name, share in found.items():
        assert share == pytest.approx(shares[name], abs=1 / 64)
    assert model.kernel_.diagonal(X[:3]) == pytest.approx(1.0)


def test_noisy_data_get_a_sum_of_kernels_and_the_table_says_so():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(120, 3))
    y = np.sin(3 * X[:, 0]) + np.abs(X[:, 1]) + rng.normal(size=120)
    model = sw.KernelRidgeRegressor().fit(X, y)
    assert isinstance(model.kernel_, sw.kernels.Sum)
    assert "a sum of kernels" in model.selection_.reason
    assert model.kernel_.diagonal(X[:3]) == pytest.approx(1.0)
    assert isinstance(sw.KernelRidgeRegressor("matern32").fit(X, y).kernel_, sw.kernels.Matern)


def test_a_truth_rough_along_the_axes_gets_a_product_of_kernels():
    rng = np.random.default_rng(13)
    X = rng.uniform(-1, 1, size=(200, 4))
    y = np.where(X[:, 0] > 0.2, 1.0, 0.0) * np.where(X[:, 1] > -0.3, 2.0, 1.0) + 0.5 * (X[:, 2] > 0)
    assert "product" in sw.KernelRidgeRegressor().fit(X, y).selection_.chosen["kernel"]


def test_several_responses_share_one_kernel():
    X, y = data()
    model = sw.KernelRidgeRegressor().fit(X, np.column_stack([y, -4 * y, 1e3 * y]))
    alone = sw.KernelRidgeRegressor().fit(X, y)
    np.testing.assert_allclose(model.predict(X)[:, 2], 1e3 * alone.predict(X), rtol=1e-5)


def test_the_sample_is_drawn_from_distinct_rows_only():
    rng = np.random.default_rng(1)
    X = rng.integers(0, 12, size=(5_000, 2)).astype(float)
    problem = make_problem(X, rng.normal(size=(5_000, 1)), None, intercept=True, seed=0)
    sample = make_sample(problem, look_at_features(X, None), 600)
    assert sample.n_rows == sample.n_distinct == 144
    assert sample.n_samples == 5_000
    means = pd.DataFrame(X).assign(y=problem.responses[:, 0]).groupby([0, 1]).y.mean()
    spread = problem.responses[:, 0].var()
    np.testing.assert_allclose(np.sort(sample.means[:, 0]), np.sort(means / np.sqrt(spread)), atol=1e-12)


@pytest.mark.filterwarnings("ignore::stopwise.estimators.doubts.TrustWarning")
def test_length_scales_learned_from_noise_do_not_outlast_rows_that_took_no_part():
    """Mostly zeros, the rest unlike anything in X: of these twelve tables ten had one length scale per feature."""
    chosen = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(100, 6))
        y = np.where(rng.uniform(size=100) < 0.8, 0.0, rng.exponential(size=100))
        chosen += sw.KernelRidgeRegressor().fit(X, y).selection_.chosen["per_feature"]
    assert chosen <= 4
    y = np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=100)
    assert sw.KernelRidgeRegressor().fit(X, y).selection_.chosen["per_feature"]


def test_each_part_of_a_sample_is_last_in_turn():
    X, y = data(100)
    problem = make_problem(X, y[:, None], None, intercept=True, seed=0)
    sample = make_sample(problem, look_at_features(X, None), 100)
    last = []
    for rows in sample.parted(3):
        assert sorted(rows.means[:, 0]) == sorted(sample.means[:, 0])
        last += rows.means[-33:, 0].tolist()
    assert len(set(last)) == 99


@pytest.mark.filterwarnings("ignore::stopwise.estimators.doubts.TrustWarning")
def test_what_unseen_rows_speak_against_has_no_share_in_an_average(monkeypatch):
    X, y = data(120)
    one_scale = lambda finalists, *rows: [c for c in finalists if not c.per_feature]  # noqa: E731
    monkeypatch.setattr(Search, "_held_up", lambda _, finalists: one_scale(finalists))
    kernel = sw.KernelRidgeRegressor().fit(X, y).kernel_
    parts = [kernel]
    while any(isinstance(part, sw.kernels.Sum) for part in parts):
        parts = [half for part in parts for half in ([part.first, part.second] if hasattr(part, "second") else [part])]
    spread = X.std(axis=0)
    for part in parts:
        scales = getattr(part, "inner", part).scales / spread
        np.testing.assert_allclose(scales, scales[0], rtol=1e-12)


def test_of_very_many_rows_each_kernel_is_learned_on_some_and_the_best_few_on_more():
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, size=(500, 2))
    y = np.abs(X[:, 0]) + np.sign(X[:, 1]) + 0.1 * rng.normal(size=500)
    problem = make_problem(X, y[:, None], None, intercept=True, seed=0)
    tables = {}
    for most in (200, 300):
        budget = Budget(rows=100, rounds=(Round(most, kept=None), Round(300, kept=2)), unseen_rows=0)
        tables[most] = search_for(problem, Search(KERNELS, budget=budget)).table
    finalists = {most: [row["kernel"] for row in table if row["rows"] == 300] for most, table in tables.items()}
    assert len(finalists[300]) >= len(KERNELS)
    assert 2 <= len(finalists[200]) <= 4
    assert tables[200].chosen["kernel"] == tables[300].chosen["kernel"]
