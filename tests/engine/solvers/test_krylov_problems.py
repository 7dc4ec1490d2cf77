"""Random problems: the matrix-free stop, fit and weights are the dense ones, and brackets hold the stop.

Scales. Fits and predictions are compared relative to the largest |y|, weights relative to the largest dense weight, a
criterion relative to its minimum plus the noise level. Rounding moves an eigenvalue by a few eps lambda_1, and with it
everything at the clock reading eta by a share of about 50 eps lambda_1 eta (`rounding`): stops must agree to that share
where it is the larger, and estimates are compared at readings where it is below what they must agree to.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import stopwise as sw
import stopwise.engine.solvers.krylov_solver as krylov_module
from problems import DEEP, DESIGNS, FILTERS, KERNELS, MONOTONE, design, estimator, examples, response
from stopwise.engine.operators import Dense
from stopwise.engine.spectrum.block_krylov import BlockKrylov, NumpyStore
from stopwise.exceptions import StopwiseWarning

NOISE = 0.4
LARGEST = 2000 if DEEP else 300
GIVEN = {
    "critical, R = 0.5": sw.rules.Critical(hilbert_radius=0.5),
    "critical, R = 3": sw.rules.Critical(hilbert_radius=3.0),
    "critical, R = 30": sw.rules.Critical(hilbert_radius=30.0),
    "discrepancy": sw.rules.Discrepancy(),
}
CRITERIA = {
    "sure": (sw.rules.SURE(), lambda path, at: sw.rules.SURE().criterion(path, NOISE / path.scale, at)),
    "gcv": (sw.rules.GCV(), lambda path, at: path.gcv(at)),
    "loo": (sw.rules.LeaveOneOut(), lambda path, at: path.leave_one_out_error(at)),
    "minimax": (
        sw.rules.Minimax(hilbert_radius=2.0),
        lambda path, at: sw.rules.Minimax().criterion(path, NOISE / path.scale, 2.0 / path.scale, at),
    ),
}

# Sizes are spread evenly on a log scale: large problems are drawn, and small ones often.
sizes = st.integers(0, 1000).map(lambda u: round(8 * (LARGEST / 8) ** (u / 1000)))
PROBLEM = {
    "seed": st.integers(0, 10_000),
    "n": sizes,
    "kernel": st.sampled_from(sorted(KERNELS)),
    "layout": st.sampled_from(DESIGNS),
    "kind": st.sampled_from(["smooth", "noise"]),
    "intercept": st.booleans(),
}


def fit(solver, filter_, kernel, rule, x, y, **more):
    """A fit with the noise level given; that a bracket stays open or residuals look odd is no news here."""
    model = estimator(filter_, KERNELS[kernel], rule=rule, noise_std=NOISE, solver=solver, random_state=3, **more)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StopwiseWarning)
        return model.fit(x, y)


@contextmanager
def columns(wanted: bool) -> Iterator[pytest.MonkeyPatch]:
    """Small problems treated like large ones, whose eigenvalues are bounded from columns of the matrix."""
    with pytest.MonkeyPatch.context() as patch:
        if wanted:
            patch.setattr(krylov_module.KrylovSolver, "columns", krylov_module.ColumnBounds(0, 5.0))
        yield patch


def draw(seed, n, layout, kind):
    x = design(layout, n, seed)
    return x, response(kind, x, seed)


def rounding(model, step_sum, eps=2.2e-16):
    """The share by which rounding may move what is read at a clock reading."""
    return 50 * eps * model.path_.spectrum.largest_bound * step_sum


def assert_same_estimate(krylov, dense, kernel, x, y, close, eps=2.2e-16):
    """Fit, predictions and weights agree to a share `close` at one step sum: dense's stop, or as far as digits go."""
    at = min(dense.step_sum_, close / rounding(dense, 1.0, eps)) * (1 + 1e-9)  # past the iterate, whatever its rounding
    path = replace(krylov.path_, filter=dense.path_.filter)  # automatic steps follow lambda_1 up to its own error
    kept = dense.eigenvalues_ * at >= 1
    if dense.path_.filter.name == "cutoff" and kept.any() and not kept.all():
        lowest, highest = dense.eigenvalues_[kept].min(), dense.eigenvalues_[~kept].max()
        if lowest - highest < 50 * eps / close * dense.eigenvalues_[0]:
            return  # a cut through a cluster: which of its eigenvectors are kept is chance
        at = 2 / (lowest + highest)  # between the two, not on one of them
    size = np.abs(y - y.mean() * dense.fit_intercept).max()
    assert np.abs(path.fit(at) - dense.path_.fit(at)).max() <= close * size
    ours, theirs = path.dual_coef(at), dense.path_.dual_coef(at)
    assert np.abs(ours - theirs).max() <= close * np.abs(theirs).max()
    new = np.concatenate([0.9 * x[:4] + 0.1 * x[-4:], x[:1]])
    cross = kernel(new, x) - (kernel(x).mean(axis=0) if dense.fit_intercept else 0.0)
    assert np.abs(cross @ ours - cross @ theirs).max() <= close * size


@examples(40, 300)
@given(rule=st.sampled_from(sorted(GIVEN)), filter_=st.sampled_from(FILTERS), **PROBLEM)
def test_critical_and_discrepancy_stop_where_dense_stops(seed, n, kernel, layout, kind, intercept, rule, filter_):
    filter_ = "descent" if rule == "discrepancy" and filter_ == "nu-method" else filter_  # 200,000 steps in vain
    x, y = draw(seed, n, layout, kind)
    dense = fit("dense", filter_, kernel, GIVEN[rule], x, y, fit_intercept=intercept)
    krylov = fit("krylov", filter_, kernel, GIVEN[rule], x, y, fit_intercept=intercept, tol=0)
    share = rounding(dense, dense.step_sum_)
    if dense.stop_.iteration is not None and share * dense.stop_.iteration < 0.01:
        assert krylov.stop_.iteration == dense.stop_.iteration
    # The nu-method's clock is in units of lambda_1, known to a thousandth; a flat residual meets its threshold nearby.
    close = 1e-3 if filter_ == "nu-method" else 1e-6 if rule == "discrepancy" else 1e-9
    if dense.stop_.reason is not sw.Reason.CAP:  # which is where rounding ends each solver's own spectrum
        assert krylov.step_sum_ == pytest.approx(dense.step_sum_, rel=max(close, share))
    assert krylov.stop_.reason is dense.stop_.reason
    assert_same_estimate(krylov, dense, KERNELS[kernel], x, y, 1e-8)


def assert_as_small_a_criterion(seed, n, kernel, layout, kind, intercept, rule, filter_):
    x, y = draw(seed, n, layout, kind)
    chosen, criterion = CRITERIA[rule]
    dense = fit("dense", filter_, kernel, chosen, x, y, fit_intercept=intercept)
    krylov = fit("krylov", filter_, kernel, chosen, x, y, fit_intercept=intercept, tol=0)
    at = krylov.step_sum_
    if krylov.stop_.iteration is not None:
        at = float(dense.path_.filter.step_sum(krylov.stop_.iteration))
    if filter_ == "cutoff":
        at *= 1 + rounding(dense, at)  # the threshold is an eigenvalue: past dense's own, whatever its rounding
    best, reached = (float(criterion(dense.path_, np.asarray([s]))[0]) for s in (dense.step_sum_, at))
    assert reached - best <= max(1e-6, rounding(dense, at)) * (abs(best) + (NOISE / dense.path_.scale) ** 2)
    assert_same_estimate(krylov, dense, KERNELS[kernel], x, y, 1e-8)


@examples(50, 300)
@given(rule=st.sampled_from(sorted(CRITERIA)), filter_=st.sampled_from(MONOTONE), **PROBLEM)
def test_a_minimised_criterion_is_as_small_as_dense_can_make_it(**problem):
    assert_as_small_a_criterion(**problem)


@examples(3, 60)
@given(rule=st.sampled_from(sorted(CRITERIA)), **{**PROBLEM, "n": st.integers(8, 120)})
def test_so_it_is_along_the_nu_method_whose_steps_are_run_one_by_one(**problem):
    assert_as_small_a_criterion(**problem, filter_="nu-method")


@examples(30, 300)
@given(rule=st.sampled_from(sorted(GIVEN) + sorted(CRITERIA)), filter_=st.sampled_from(MONOTONE), **PROBLEM)
def test_asked_for_float32_an_exact_stop_is_that_of_dense(seed, n, kernel, layout, kind, intercept, rule, filter_):
    x, y = draw(seed, n, layout, kind)
    x = x.astype(np.float32).astype(np.float64)  # both see the same numbers
    chosen = {**GIVEN, **{name: asked for name, (asked, _) in CRITERIA.items()}}[rule]
    dense = fit("dense", filter_, kernel, chosen, x, y, fit_intercept=intercept)
    assume(dense.stop_.reason is not sw.Reason.CAP)
    krylov = fit(
        "krylov", filter_, kernel, chosen, x.astype(np.float32), y, precision="float32", tol=0, fit_intercept=intercept
    )
    close = max(1e-3, rounding(dense, dense.step_sum_))
    assert krylov.step_sum_ == pytest.approx(dense.step_sum_, rel=close) or ties(chosen, dense, krylov.step_sum_, 1e-9)
    assert_same_estimate(krylov, dense, KERNELS[kernel], x, y, 1e-4)


def single_precision_holds(seed):
    """Whether products in float32 settled at a bracket that holds dense's stop; None where they did not settle.

    A space that holds every direction must hold dense's estimate too, within 1e-4.
    """
    rng = np.random.default_rng([seed, 7])
    kernel, rule, filter_ = (str(rng.choice(sorted(names))) for names in (KERNELS, GIVEN, MONOTONE))
    n, intercept = int(8 * (LARGEST / 8) ** rng.random()), bool(rng.integers(2))
    x, y = draw(seed, n, rng.choice(DESIGNS), rng.choice(["smooth", "noise"]))
    x = x.astype(np.float32).astype(np.float64)  # both see the same numbers
    step = {"schedule": 0.9 * min(1.0, 1 / KERNELS[kernel].diagonal(x).mean())} if filter_ == "descent" else {}
    dense = fit("dense", filter_, kernel, GIVEN[rule], x, y, fit_intercept=intercept, **step)
    single = {"precision": "float32", "tol": 0.01, "fit_intercept": intercept, **step}
    krylov = fit("krylov", filter_, kernel, GIVEN[rule], x.astype(np.float32), y, **single)
    if dense.stop_.reason is sw.Reason.CAP or not krylov.stop_.details["settled"]:
        return None
    low, high = krylov.stop_.details["bracket"]
    share, one_step = max(1e-3, rounding(dense, dense.step_sum_, 1.2e-7)), step.get("schedule", 0.0)
    if not low * (1 - share) - one_step <= dense.step_sum_ <= high * (1 + share) + one_step:
        return False
    if krylov.stop_.details["columns"] < n - 1:
        return True
    try:
        assert_same_estimate(krylov, dense, KERNELS[kernel], x, y, 1e-4, 1.2e-7)
    except AssertionError:
        return False
    return True


def test_products_in_float32_give_a_bracket_that_holds_the_stop_and_an_estimate_within_1e4(record_property):
    outcomes = [single_precision_holds(seed) for seed in range(200 if DEEP else 30)]
    settled = [holds for holds in outcomes if holds is not None]
    record_property("tally", f"float32: {sum(settled)} of {len(settled)} settled hold dense's stop and estimate")
    assert len(settled) >= len(outcomes) // 2
    assert len(settled) - sum(settled) <= 0.01 * len(settled)


@examples(50, 1500)
@given(
    cap=st.floats(0, 1),
    radius=st.floats(-1, 2),
    tol=st.sampled_from([0.0, 0.01]),
    filter_=st.sampled_from(FILTERS),
    by_columns=st.booleans(),
    **{**PROBLEM, "n": st.integers(8, 300)},
)
def test_with_products_capped_anywhere_critical_never_stops_late(
    seed, n, kernel, layout, kind, intercept, filter_, cap, radius, tol, by_columns
):
    """The crossing is never past dense's; nor is the iterate, where the step size does not depend on the spectrum."""
    x, y = draw(seed, n, layout, kind)
    rule = sw.rules.Critical(hilbert_radius=10.0**radius)
    step = {"schedule": 0.3 * min(1.0, 1 / KERNELS[kernel].diagonal(x).mean())} if filter_ == "descent" else {}
    dense = fit("dense", filter_, kernel, rule, x, y, fit_intercept=intercept, **step)
    with columns(by_columns) as patch:
        patch.setattr(krylov_module.Host, "column_limit", lambda self, problem, plan: 1 + round(cap * (n - 1)))
        krylov = fit("krylov", filter_, kernel, rule, x, y, fit_intercept=intercept, tol=tol, **step)
    crossing = dense.stop_.details["critical_step_sum"]
    assert krylov.stop_.details["critical_step_sum"] <= crossing * (1 + 1e-9)
    assert krylov.step_sum_ <= crossing * (1 + 1e-9)
    if filter_ == "descent":
        assert krylov.n_iter_ <= dense.n_iter_


BRACKETED = {
    "critical, R = 3": sw.rules.Critical(hilbert_radius=3.0),
    "critical, R auto": sw.rules.Critical(hilbert_radius="auto"),
    "critical, R self": sw.rules.Critical(hilbert_radius="self"),
    "discrepancy": sw.rules.Discrepancy(),
    "minimax": sw.rules.Minimax(),
    "sure": sw.rules.SURE(),
    "gcv": sw.rules.GCV(),
    "loo": sw.rules.LeaveOneOut(),
}
MANY = [name for name in BRACKETED if name not in ("minimax", "gcv", "loo")]
"""Rules asked on many and large problems in the deep run."""


def bracket_of_one(rule, seed, smallest, largest):
    """Whether a random problem settled, and whether its bracket, read in iterates, holds dense's stop."""
    rng = np.random.default_rng([seed, 5])
    kernel = rng.choice(["gaussian", "laplace", "matern32", "matern52", "sum", "product", "narrow gaussian"])
    x, y = draw(seed, int(rng.integers(smallest, largest)), rng.choice(DESIGNS), "smooth")
    filter_, intercept = rng.choice(MONOTONE), bool(rng.integers(2))
    dense = fit("dense", filter_, kernel, rule, x, y, fit_intercept=intercept)
    tol = float(rng.choice([0.01, 0.05]))
    with columns(bool(rng.integers(2))):
        krylov = fit("krylov", filter_, kernel, rule, x, y, fit_intercept=intercept, tol=tol)
    low, high = krylov.stop_.details["bracket"]
    low = float(krylov.path_.filter.snap(low)) if math.isfinite(low) else low
    share = 1e-6 + 4 * rounding(dense, dense.step_sum_)  # a flat minimum has half the digits
    holds = low * (1 - share) <= dense.step_sum_ <= high * (1 + share)
    return krylov.stop_.details["settled"], holds or ties(rule, dense, krylov.step_sum_)


def ties(rule, dense, step_sum, share=1e-6):
    """Whether the criterion is so flat (a Gram matrix near the identity) that dense's own minimum is no better."""
    if not isinstance(rule, sw.rules.GCV | sw.rules.LeaveOneOut):
        return False
    lowest = dense.stop_.details["criterion"]
    return float(rule.criterion(dense.path_, np.array([step_sum]))[0]) <= lowest * (1 + share)


@pytest.mark.parametrize("name", BRACKETED)
def test_settled_brackets_hold_the_stop_of_dense(name, record_property):
    # GCV of dense can have its minimum where nothing is left to divide by, beyond what any unfinished space sees.
    n_problems, largest = ((120, 1200) if name in MANY else (150 if name == "gcv" else 60, 700)) if DEEP else (6, 260)
    outcomes = [bracket_of_one(BRACKETED[name], seed, 150, largest) for seed in range(n_problems)]
    settled = [holds for is_settled, holds in outcomes if is_settled]
    record_property(
        "tally", f"brackets, {name}: {sum(settled)} of {len(settled)} settled hold dense's stop ({n_problems} problems)"
    )
    assert len(settled) >= n_problems // 2
    assert len(settled) - sum(settled) <= 0.01 * len(settled)


def test_a_complete_space_beside_an_intercept_leaves_nothing_of_the_response_unseen():
    """Rounding taken for unseen response once hid residuals below 1e-8 of |y|, and GCV found another minimum."""
    x, y = draw(13, 15, "ties", "smooth")
    dense = fit("dense", "flow", "narrow gaussian", sw.rules.GCV(), x, y)
    krylov = fit("krylov", "flow", "narrow gaussian", sw.rules.GCV(), x, y, tol=0)
    assert krylov.stop_.details["columns"] == 14
    assert krylov.path_.unseen_energy == 0
    assert krylov.step_sum_ == pytest.approx(dense.step_sum_, rel=1e-6)
    for step_sum in (10.0, 100.0, 300.0):
        assert krylov.path_.residual_norm(step_sum) == pytest.approx(dense.path_.residual_norm(step_sum), rel=1e-9)


@pytest.mark.parametrize("width", [1, 15, 47])
@pytest.mark.parametrize("seed", range(4))
def test_a_complete_space_beside_an_intercept_finds_every_eigenvalue(seed, width):
    """Rounding once let the constant in, in the place of an eigenvector, and Critical stopped late for its absence."""
    n = 100 + 40 * seed
    operator = Dense(KERNELS["sum"](design("many columns", n, seed)), centred=True)
    start = operator.centre(np.random.default_rng(seed).standard_normal((n, 1)))
    space = BlockKrylov(operator, NumpyStore(n, n, operator.centre), start, width, seed=seed)
    while space.grow():
        pass
    assert np.allclose(space.spectrum().eigenvalues, operator.eigh()[0][: n - 1], rtol=0, atol=1e-12)
