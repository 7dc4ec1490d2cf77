"""What a Krylov space knows of its stop: brackets hold the stop of all eigenpairs, and close as the space grows."""

from dataclasses import replace

import numpy as np
import pytest

import stopwise as sw
from stopwise.engine.operators import Dense
from stopwise.engine.solvers.dense_solver import decide
from stopwise.engine.solvers.krylov_certainty import Verdict, decided_by_bound, judge, reads_traces, with_bracket
from stopwise.engine.solvers.krylov_solver import krylov_path
from stopwise.engine.solvers.plan import Plan
from stopwise.engine.spectrum.block_krylov import BlockKrylov, NumpyStore
from stopwise.engine.spectrum.eigenpairs import dense_spectrum
from stopwise.path import make_path
from stopwise.problem import make_problem
from stopwise.rules import Reason

N = 150
KERNEL = sw.kernels.Gaussian(0.3)
CRITICAL = Plan(KERNEL, sw.filters.GradientDescent(), sw.rules.Critical(hilbert_radius=3.0), sw.noise.Known(0.3))
GCV = replace(CRITICAL, rule=sw.rules.GCV(), filter=sw.filters.Ridge())


def problem():
    rng = np.random.default_rng(4)
    x = rng.uniform(-1, 1, (N, 2))
    y = np.sin(3 * x[:, 0]) * x[:, 1] + 0.3 * rng.normal(size=N)
    return make_problem(x, y[:, None], None, intercept=True, seed=0)


def exact_stop(given, plan):
    """The stop on the path of all eigenpairs."""
    operator = Dense(given.gram(plan.kernel), centred=True)
    path = make_path(
        dense_spectrum(operator),
        plan.filter,
        given.responses[:, 0],
        intercept=True,
        scale=float(given.scale[0]),
        offset=float(given.offset[0]),
    )
    return decide(given, plan, path, 0)[0]


def verdicts(given, plan, probes=15):
    """What is known after each product with K, until there is nothing more to know."""
    operator = Dense(given.gram(plan.kernel), centred=True)
    store = NumpyStore(N, N, operator.centre, np.arange(N))
    space = BlockKrylov(operator, store, given.responses, probes, one_sided=decided_by_bound(plan))
    out, previous, more = [], None, True
    while more:
        more = space.grow()
        verdict = judge(given, plan, krylov_path(given, plan, operator, space), space, 0, previous)
        previous = verdict.stop
        out.append(verdict)
    assert space.complete
    return out


@pytest.mark.parametrize("plan", [CRITICAL, GCV], ids=["critical", "gcv"])
def test_a_complete_space_knows_the_stop_and_says_so(plan):
    given = problem()
    last, expected = verdicts(given, plan)[-1], exact_stop(given, plan)
    assert last.settled
    assert last.low == last.high == last.stop.step_sum
    assert last.stop.step_sum == pytest.approx(expected.step_sum, rel=1e-5)
    assert last.residual < 1e-10


@pytest.mark.parametrize("constant", [2 * np.e, 4.0])
@pytest.mark.parametrize("noise", [0.1, 0.3, 1.0])
def test_with_radius_and_noise_given_an_unfinished_space_is_never_late(noise, constant):
    given = problem()
    rule = sw.rules.Critical(hilbert_radius=3.0, constant=constant)
    plan = replace(CRITICAL, rule=rule, noise=sw.noise.Known(noise))
    expected = exact_stop(given, plan)
    found = verdicts(given, plan)
    assert len(found) >= 5
    for verdict in found:
        assert verdict.stop.step_sum <= expected.step_sum * (1 + 1e-9)
        assert verdict.low <= expected.step_sum * (1 + 1e-9)
    assert any(verdict.settled for verdict in found[:-1])


@pytest.mark.parametrize("plan", [CRITICAL, GCV], ids=["critical", "gcv"])
def test_what_is_called_settled_is_within_the_tolerance(plan):
    given = problem()
    expected = exact_stop(given, plan)
    settled = [verdict for verdict in verdicts(given, plan, probes=30) if verdict.settled]
    assert settled
    for verdict in settled:  # a minimum is flat: its place is known to the root of rounding
        assert verdict.low <= expected.step_sum * (1 + 1e-6)
        assert verdict.high >= expected.step_sum * (1 - 1e-6)
        close = abs(np.log(verdict.stop.step_sum / expected.step_sum)) <= plan.tol
        assert close or abs(verdict.stop.iteration - expected.iteration) <= 1


def test_without_an_earlier_stop_to_compare_with_nothing_statistical_is_settled():
    given = problem()
    first = verdicts(given, GCV)[0]
    assert not first.settled
    assert (first.low, first.high) == (0.0, np.inf)


def test_plans_are_told_apart_by_what_decides_them():
    self_radius = replace(CRITICAL, rule=sw.rules.Critical(hilbert_radius="self"))
    measured = replace(CRITICAL, noise=sw.noise.ResidualGCV())
    assert decided_by_bound(CRITICAL)
    assert reads_traces(CRITICAL)
    assert not decided_by_bound(measured)  # the noise is read off the path
    assert reads_traces(measured)
    assert not decided_by_bound(self_radius)
    for rule in (sw.rules.GCV(), sw.rules.SURE(), sw.rules.LeaveOneOut()):
        assert not decided_by_bound(replace(CRITICAL, rule=rule))
        assert reads_traces(replace(CRITICAL, rule=rule))
    assert not reads_traces(replace(CRITICAL, rule=sw.rules.Fixed(step_sum=3.0)))


@pytest.mark.parametrize("settled", [True, False])
def test_a_stop_that_is_not_settled_ends_for_want_of_budget_and_tells_its_bracket(settled):
    given = problem()
    stop = exact_stop(given, CRITICAL)
    spectrum = dense_spectrum(Dense(given.gram(KERNEL), centred=True))
    told = with_bracket(Verdict(stop, 0.3, 4.0, 9.0, 1e-3, settled), spectrum, 17, "krylov")
    assert told.reason is (stop.reason if settled else Reason.BUDGET)
    assert told.step_sum == stop.step_sum
    assert told.certainty.bracket == (4.0, 9.0)
    assert (told.certainty.products, told.certainty.columns) == (17, len(spectrum.eigenvalues))
    assert (told.certainty.engine, told.certainty.settled) == ("krylov", settled)
    assert told.certainty.estimate_residual == 1e-3
