"""Every solver, rule, filter and precision: predictions are fits, and order, place and units change nothing."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stopwise as sw
from problems import DESIGNS, FILTERS, KERNELS, MONOTONE, RESPONSES, design, estimator, examples, response
from stopwise.engine.operators import Dense
from stopwise.engine.spectrum.block_krylov import BlockKrylov, NumpyStore

RULES = {
    "critical": lambda unit: sw.rules.Critical(hilbert_radius=2.0 * unit),
    "critical, self": lambda unit: sw.rules.Critical(hilbert_radius="self"),
    "critical, auto": lambda unit: sw.rules.Critical(hilbert_radius="auto"),
    "minimax": lambda unit: sw.rules.Minimax(),
    "sure": lambda unit: sw.rules.SURE(),
    "gcv": lambda unit: sw.rules.GCV(),
    "loo": lambda unit: sw.rules.LeaveOneOut(),
    "discrepancy": lambda unit: sw.rules.Discrepancy(),
    "auto": lambda unit: "auto",
}
PROBLEM = {
    "seed": st.integers(0, 10_000),
    "n": st.integers(8, 60),
    "kernel": st.sampled_from(sorted(KERNELS)),
    "layout": st.sampled_from(DESIGNS),
    "intercept": st.booleans(),
}


def draw(seed, n, layout, kind="smooth"):
    x = design(layout, n, seed)
    return x, response(kind, x, seed)


def rounding(model):
    """The share of |y| by which rounding may move the estimate at the stop: 50 eps lambda_1 step_sum."""
    eps = 1.2e-7 if model.precision == "float32" else 2.2e-16
    return 50 * eps * float(model.eigenvalues_.max(initial=0.0)) * model.step_sum_


def quietly(model, x, y):
    """Fit where an open bracket or a doubtful estimate is no news."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sw.exceptions.StopwiseWarning)
        return model.fit(x, y)


@examples(100, 1200)
@given(
    solver=st.sampled_from(["dense", "krylov", "nystrom"]),
    rule=st.sampled_from(sorted(RULES)),
    filter_=st.sampled_from(MONOTONE),
    precision=st.sampled_from(["float64", "float32"]),
    kind=st.sampled_from(RESPONSES),
    **PROBLEM,
)
def test_predictions_at_training_rows_are_the_fitted_values(
    seed, n, kernel, layout, intercept, solver, rule, filter_, precision, kind
):
    x, y = draw(seed, n, layout, kind)
    unit = float(np.abs(y).max())
    more = {"fit_intercept": intercept, "solver": solver, "precision": precision, "n_landmarks": max(2, n // 2)}
    if solver != "nystrom":
        del more["n_landmarks"]
    model = quietly(estimator(filter_, KERNELS[kernel], rule=RULES[rule](unit), noise_std=0.3 * unit, **more), x, y)
    fitted, predicted = model.path_.fit(), model.predict(x)
    told = model.stop_.details.get("residual", 0.0) * math.sqrt(n)  # |K a - f| over |y|, as a matrix-free solver says
    close = (1e-9 if precision == "float64" else 1e-5) + rounding(model) + told
    assert np.abs(predicted - fitted).max() <= close * unit
    assert np.sqrt(np.mean((y - fitted) ** 2)) == pytest.approx(float(model.path_.residual_norm()), abs=close * unit)
    if kind == "constant" and intercept:
        assert np.allclose(predicted, y, rtol=1e-12)


@examples(60, 1000)
@given(
    rule=st.sampled_from(sorted(RULES)),
    filter_=st.sampled_from(MONOTONE),
    solver=st.sampled_from(["dense", "krylov"]),
    **PROBLEM,
)
def test_the_order_of_rows_does_not_matter(seed, n, kernel, layout, intercept, rule, filter_, solver):
    x, y = draw(seed, n, layout)
    order = np.random.default_rng([seed, 3]).permutation(n)
    model = estimator(filter_, KERNELS[kernel], rule=RULES[rule](1.0), noise_std=0.4, fit_intercept=intercept)
    model.set_params(solver=solver, tol=0)
    plain = quietly(model, x, y)
    fitted, stop, criterion = plain.path_.fit(), plain.stop_, plain.stop_.details.get("criterion")
    share = rounding(plain)
    mixed = quietly(model, x[order], y[order])
    if share < 1e-6 and criterion is None:
        assert mixed.step_sum_ == pytest.approx(stop.step_sum, rel=1e-6)
    if criterion is not None and math.isfinite(criterion):
        # a leverage may come within 1e-10 of 1: an ulp of it is then a share of 2e-6
        assert mixed.stop_.details["criterion"] == pytest.approx(criterion, rel=3e-5, abs=1e-9 + share)
    if mixed.step_sum_ == pytest.approx(stop.step_sum, rel=1e-6) and filter_ != "cutoff":
        assert np.abs(mixed.path_.fit() - fitted[order]).max() <= (1e-5 + share) * np.abs(y).max()


@examples(60, 1000)
@given(
    rule=st.sampled_from([name for name in sorted(RULES) if name != "critical"]),
    filter_=st.sampled_from(MONOTONE),
    power=st.integers(-300, 300),
    **PROBLEM,
)
def test_units_that_are_powers_of_two_leave_every_bit(seed, n, kernel, layout, intercept, rule, filter_, power):
    """Estimated noise, every rule that estimates its radius: y times 2^k gives the fit times 2^k, to the last bit."""
    x, y = draw(seed, n, layout)
    model = estimator(filter_, KERNELS[kernel], rule=RULES[rule](1.0), fit_intercept=intercept, solver="dense")
    plain = quietly(model, x, y)
    stop, fitted, noise = plain.step_sum_, plain.predict(x), plain.noise_std_
    scaled = quietly(model, x, math.ldexp(1.0, power) * y)
    assert scaled.step_sum_ == stop
    assert scaled.noise_std_ == math.ldexp(noise, power)
    assert np.array_equal(scaled.predict(x), np.ldexp(fitted, power))


@examples(12, 120)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(30, 60),
    columns=st.integers(1, 3),
    shift=st.floats(-100, 100),
    scale=st.sampled_from([1e-6, 1e-3, 0.3, 7.0, 1000.0]),
    unit=st.sampled_from([1e-6, 0.1, 1e3]),
    ridge=st.booleans(),
)
def test_with_nothing_given_units_and_origins_of_features_and_response_do_not_matter(
    seed, n, columns, shift, scale, unit, ridge
):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n, columns))
    y = np.sin(3 * x[:, 0]) + 0.3 * rng.standard_normal(n)
    model = sw.KernelRidgeRegressor() if ridge else sw.KernelGradientRegressor()
    plain = quietly(model, x, y)
    kernel, degrees = plain.kernel_.name, float(plain.path_.degrees_of_freedom())
    fitted = plain.path_.fit()
    moved = quietly(model, scale * (x + shift), unit * (y + shift))
    assert moved.kernel_.name == kernel
    assert float(moved.path_.degrees_of_freedom()) == pytest.approx(degrees, rel=1e-2, abs=1e-2)
    assert np.allclose(moved.path_.fit() / unit - shift, fitted, rtol=0, atol=5e-3 * np.std(y))


@examples(60, 1000)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(8, 80),
    order=st.sampled_from([1, 2]),
    anchored=st.booleans(),
    intercept=st.booleans(),
    tied=st.booleans(),
    radius=st.floats(-0.5, 1.5),
    filter_=st.sampled_from(FILTERS),
)
def test_on_one_covariate_all_four_solvers_agree(seed, n, order, anchored, intercept, tied, radius, filter_):
    rng = np.random.default_rng(seed)
    x = np.round(rng.random((n, 1)), 2 if tied else 12)
    y = np.sin(6 * x[:, 0]) + 0.3 * rng.standard_normal(n)
    kernel, rule = sw.kernels.Sobolev(order, anchored=anchored), sw.rules.Critical(hilbert_radius=10.0**radius)
    more = {"rule": rule, "noise_std": 0.3, "fit_intercept": intercept, "tol": 0}
    dense = quietly(estimator(filter_, kernel, solver="dense", **more), x, y)
    new = rng.random((7, 1)) * np.ptp(x) + x.min()
    share = (1e-7 if filter_ == "nu-method" else 1e-8) + rounding(dense)  # whose clock is in units of lambda_1
    for solver, extra in (("krylov", {}), ("line", {}), ("nystrom", {"n_landmarks": x})):
        other = quietly(estimator(filter_, kernel, solver=solver, **extra, **more), x, y)
        assert other.stop_.iteration == dense.stop_.iteration
        assert other.step_sum_ == pytest.approx(dense.step_sum_, rel=1e-7)
        if filter_ != "cutoff":
            assert np.abs(other.path_.fit() - dense.path_.fit()).max() <= share * np.abs(y).max()
            assert np.abs(other.predict(new) - dense.predict(new)).max() <= 10 * share * np.abs(y).max()


@examples(60, 3000)
@given(width=st.integers(1, 16), blocks=st.integers(1, 8), **PROBLEM)
def test_ritz_values_never_exceed_eigenvalues(seed, n, kernel, layout, intercept, width, blocks):
    x, y = draw(seed, n, layout)
    operator = Dense(KERNELS[kernel](x), centred=intercept)
    exact = operator.eigh()[0]
    start = operator.centre(y[:, None])
    space = BlockKrylov(operator, NumpyStore(n, n, operator.centre), start, min(width, n - 1), seed=seed)
    for _ in range(blocks):
        space.grow()
    spectrum, slack = space.spectrum(), 1e-13 * exact[0]
    ritz = spectrum.eigenvalues
    assert np.all(ritz <= exact[: ritz.size] + slack)
    if width >= 8 and blocks >= 2:  # as every fit has; a random start that small could miss the first eigenvector
        assert spectrum.largest_bound >= exact[0] - slack
    assert spectrum.bound.trace == pytest.approx(operator.trace, rel=1e-9)
