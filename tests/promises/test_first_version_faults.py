"""Faults of the first version, each mended: these tests fail on it."""

import subprocess
import sys

import numpy as np
import pytest

import stopwise as sw


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(60, 2))
    return X, np.sin(X[:, 0]) + 0.2 * rng.normal(size=60)


def test_a_refit_that_is_refused_leaves_a_precomputed_model_as_it_was(rows):
    X, y = rows
    gram = np.exp(-((X[:, None] - X) ** 2).sum(axis=-1))
    weights = np.ones(60)
    weights[[3, 7]] = 0
    model = sw.KernelGradientRegressor("precomputed").fit(gram, y, sample_weight=weights)
    before = model.predict(gram)
    for refused in (
        lambda: model.fit(gram[:, :10], y),
        lambda: model.fit(gram, y * np.nan),
        lambda: model.refit(y[:9]),
    ):
        with pytest.raises(ValueError):  # noqa: PT011 -- which of many does not matter here
            refused()
    np.testing.assert_array_equal(model.predict(gram), before)


def test_a_refused_fit_on_other_columns_leaves_names_and_width_as_they_were(rows):
    X, y = rows
    model = sw.KernelGradientRegressor("gaussian").fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="square"):
        model.set_params(kernel="precomputed").fit(np.ones((60, 5)), y)
    assert model.n_features_in_ == 2
    np.testing.assert_array_equal(model.predict(X), before)


@pytest.mark.parametrize("solver", ["dense", "krylov", "nystrom"])
def test_the_stop_names_the_rule_that_decided(rows, solver):
    X, y = rows
    model = sw.KernelGradientRegressor("gaussian", solver=solver).fit(X, y)
    evidence = model.stop_.evidence
    read_left_out_rows = evidence.standard_error is not None
    assert evidence.rule == ("prudent" if read_left_out_rows else "critical")
    assert model.stop_.details["rule"] == evidence.rule
    assert model.stop_.certainty.engine == solver


def test_residual_means_one_thing_and_the_residual_of_the_weights_has_its_own_name(rows):
    X, y = rows
    dense = sw.KernelGradientRegressor("gaussian", rule="discrepancy", noise_std=0.2, solver="dense").fit(X, y)
    krylov = sw.KernelGradientRegressor("gaussian", rule="discrepancy", noise_std=0.2, solver="krylov").fit(X, y)
    assert krylov.stop_.details["residual"] == pytest.approx(dense.stop_.details["residual"], rel=1e-6)
    assert krylov.stop_.details["estimate_residual"] < 1e-5
    assert "estimate_residual" not in dense.stop_.details


@pytest.mark.dask
def test_dask_needs_no_main_guard(tmp_path):
    pytest.importorskip("distributed")
    script = tmp_path / "plain.py"
    script.write_text(
        "import numpy as np, stopwise as sw\n"
        "X = np.random.default_rng(0).normal(size=(300, 2))\n"
        "m = sw.KernelGradientRegressor('gaussian', solver='dask', n_landmarks=20).fit(X, X[:, 0])\n"
        "print(m.solver_)\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "dask"
