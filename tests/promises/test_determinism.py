"""The same seed gives the same bits; threads and tiles change rounding alone; nothing global is touched.

Measured with Critical at n = 700 on two cores, dense and krylov, over 1 to 4 BLAS threads, 1 to 3 jobs and tiles of 50
to 500 rows: the same iterate each time, fits within 1.1e-13 of |y| and predictions within 1.5e-13 (a sum over tiles or
LAPACK's panels is taken in another order). `SAME` is asserted for all four solvers at n = 200 and leaves a factor of
some 70 for other machines. With one setting of threads and tiles the bits are the same.
"""

from __future__ import annotations

import pickle
import random
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from threadpoolctl import threadpool_info, threadpool_limits

import stopwise as sw
from problems import MONOTONE, design, estimator, response
from stopwise.engine.operators.tiles import Tiled
from stopwise.engine.solvers.krylov_solver import Host, KrylovSolver
from stopwise.engine.solvers.plan import Plan
from stopwise.estimators.prediction.host import Tile, predict_in_tiles
from stopwise.problem import make_problem

SAME = 1e-11
SOLVERS = ["dense", "krylov", "line", "nystrom"]
RULES = ["critical", "minimax", "sure", "gcv", "loo", "discrepancy", "holdout", "auto"]
# The worst case has no settled bracket on a line of a few hundred rows: its fits tell so, and are left out here.
PAIRS = [(s, r) for s in SOLVERS for r in RULES if r != "holdout" and (s, r) != ("line", "minimax")]
NOISES = ["hall-marron", "rice", "gsjs", "nearest-neighbour", "spectral-tail", "gcv", "evidence"]


def data(solver, n=200):
    """Clean rows: a smooth truth, noise of 0.3, and one covariate where the solver needs it."""
    rng = np.random.default_rng(2014)
    x = rng.random((n, 1 if solver == "line" else 3))
    return x, np.sin(6 * x[:, 0]) + x[:, -1] + 0.3 * rng.standard_normal(n)


def make(solver, rule="sure", filter_="descent", **more):
    kernel = sw.kernels.Sobolev(1, anchored=False) if solver == "line" else sw.kernels.Matern(0.7, 1.5)
    if solver == "nystrom":
        more.setdefault("n_landmarks", 60)
    return estimator(filter_, kernel, **{"rule": rule, "noise_std": 0.3, "solver": solver, "random_state": 7, **more})


def bits(model):
    """What a model is, as bytes: stop, weights and intercept."""
    parts = (model.step_sum_, model.noise_std_, model.intercept_, model.dual_coef_)
    return b"".join(np.ascontiguousarray(part, dtype=np.float64).tobytes() for part in parts)


# ---- the same bits, or the same to rounding ---------------------------------------------------------------------


@pytest.mark.parametrize("rule", [sw.rules.Critical(hilbert_radius=5.0), "auto", "sure"], ids=str)
@pytest.mark.parametrize("solver", SOLVERS)
def test_the_same_seed_gives_the_same_bits(solver, rule):
    x, y = data(solver)
    plain = make(solver, rule).fit(x, y)
    assert bits(make(solver, rule).fit(x, y)) == bits(plain)
    assert bits(clone(plain).fit(x.copy(), y.tolist())) == bits(plain)
    by_columns = clone(plain).fit(np.asfortranarray(x), y)  # BLAS sums rows and columns in different orders
    assert np.abs(by_columns.path_.fit() - plain.path_.fit()).max() <= SAME * np.abs(y).max()


@pytest.mark.parametrize("solver", SOLVERS)
def test_threads_change_rounding_alone(solver):
    x, y = data(solver)
    rule = sw.rules.Critical(hilbert_radius=5.0)
    plain = make(solver, rule, n_jobs=1).fit(x, y)
    for threads in (1, 2, 4):
        for jobs in (2, 3, None):
            with threadpool_limits(threads):
                model = make(solver, rule, n_jobs=jobs).fit(x, y)
                predicted = model.predict(x)
            assert model.n_iter_ == plain.n_iter_
            assert np.abs(model.path_.fit() - plain.path_.fit()).max() <= SAME * np.abs(y).max()
            assert np.abs(predicted - plain.predict(x)).max() <= SAME * np.abs(y).max()
            assert np.abs(model.dual_coef_ - plain.dual_coef_).max() <= 10 * SAME * np.abs(plain.dual_coef_).max()


@pytest.mark.parametrize("rows", [16, 33, 64, 199, 200, 5000])
def test_the_size_of_tiles_changes_rounding_alone(rows):
    x, y = data("krylov")
    plain = make("krylov", sw.rules.Critical(hilbert_radius=5.0)).fit(x, y)
    problem = make_problem(x, y[:, None], None, intercept=True, seed=7)
    plan = Plan(plain.kernel_, sw.filters.GradientDescent(), plain.rule, sw.noise.Known(0.3))
    solver = KrylovSolver("krylov", Host(lambda problem, plan: Tiled(plan.kernel, x, centred=True, tile_rows=rows)))
    solution = solver.solve(problem, plan)
    assert solution.stops[0].iteration == plain.n_iter_
    there = solution.path.column(0).fit(solution.stops[0].step_sum)
    assert np.abs(there - plain.path_.fit()).max() <= SAME * np.abs(y).max()
    tile = Tile(rows, 200 * rows)
    predicted = predict_in_tiles(plain.kernel_, x, x, plain.dual_coef_, tile=tile) + plain.intercept_
    assert np.abs(predicted - plain.predict(x)).max() <= SAME * np.abs(y).max()


def test_random_state_decides_the_probes_and_nothing_else_does():
    x, y = data("nystrom")
    seeds = [make("nystrom", random_state=s).fit(x, y) for s in (7, 8, None, 0, np.random.RandomState(7))]
    assert bits(seeds[0]) != bits(seeds[1])
    assert bits(seeds[2]) == bits(seeds[3])  # None means 0
    assert bits(seeds[4]) == bits(make("nystrom", random_state=np.random.RandomState(7)).fit(x, y))


# ---- nothing global ---------------------------------------------------------------------------------------------


def work(rule, solver):
    x, y = data(solver, 80)
    model = make(solver, rule).fit(x, y)
    model.predict(x, return_std=True, interval="new")
    model.score(x, y)
    return model


def everything(tmp_path):
    """Every public way of drawing numbers: fits by each solver, rule and noise estimator, and what comes after."""
    yield from (lambda solver=solver, rule=rule: work(rule, solver) for solver, rule in PAIRS)
    yield lambda: work("holdout", "dense")
    x, y = data("line", 80)
    yield from (lambda name=name: make("line", noise_std=name).fit(x, y) for name in NOISES)
    for cls in (sw.KernelGradientRegressor, sw.KernelRidgeRegressor):
        yield lambda cls=cls: cls().fit(x, y)
        yield lambda cls=cls: cls(kernel="auto", solver="nystrom", random_state=3).fit(x, y).partial_fit(x, y)
    yield lambda: sw.KernelGradientRegressor.as_published("sobolev1", noise_std="auto").fit(x, y)
    yield lambda: sw.stopping_time(np.ones(9), 0.5, 1.0)
    yield lambda: sw.population_critical_radius(np.ones(9), 100, 1.0)
    yield lambda: sw.save(work("sure", "dense"), tmp_path / "model.stopwise")
    yield lambda: sw.load(tmp_path / "model.stopwise").predict(x.repeat(3, axis=1))


def test_no_fit_draws_from_or_seeds_a_global_generator(tmp_path):
    work("sure", "dense").score(*data("dense", 80))  # imports what others load late: rich draws an id as it starts
    for job in everything(tmp_path):
        np.random.seed(5)  # noqa: NPY002
        random.seed(5)
        before, plain = np.random.get_state(), random.getstate()  # noqa: NPY002
        job()
        after = np.random.get_state()  # noqa: NPY002
        assert np.array_equal(before[1], after[1])
        assert before[2:] == after[2:]
        assert random.getstate() == plain


@pytest.fixture(autouse=True)
def own_random_state():
    """The test above seeds the global generator: put it back."""
    before = np.random.get_state()  # noqa: NPY002
    yield
    np.random.set_state(before)  # noqa: NPY002


def test_no_fit_changes_the_settings_of_threads_errors_or_warnings():
    def settings():
        return [(pool["user_api"], pool["num_threads"]) for pool in threadpool_info()], np.geterr(), warnings.filters[:]

    before = settings()
    for solver in SOLVERS:
        work("auto", solver)
    assert settings() == before


# ---- no warnings on clean data ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("solver", "rule"), PAIRS)
def test_clean_data_give_no_warning(solver, rule):
    x, y = data(solver)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for filter_ in MONOTONE:
            model = make(solver, rule, filter_, tol=0.05).fit(x, y)
            model.predict(x, return_std=True)


@pytest.mark.parametrize(("seed", "rule"), [(21, sw.rules.GCV()), (31, sw.rules.LeaveOneOut()), (31, "auto")], ids=str)
def test_a_minimum_beside_infinite_readings_gives_no_warning(seed, rule):
    """Next to interpolation both criteria are infinite, and scipy's search once told so."""
    x = design("ties", 15, seed)
    y = response("smooth", x, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", sw.exceptions.StopwiseWarning)
        for solver in ("dense", "krylov"):
            estimator("flow", sw.kernels.Gaussian(0.3), rule=rule, noise_std=0.4, solver=solver).fit(x, y)


def test_import_and_the_command_line_give_no_warning():
    run = [sys.executable, "-W", "error", "-c", "import stopwise, stopwise.cli, stopwise.experiments, stopwise.io"]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# ---- many threads, many processes -------------------------------------------------------------------------------


# Beyond 512 rows a line predicts by running sums. Every thread calibrates what it is the first to ask for.
@pytest.mark.parametrize(("solver", "n", "count"), [*((solver, 120, 40) for solver in SOLVERS), ("line", 520, 12)])
def test_many_threads_predict_the_same_bits_from_one_model(solver, n, count):
    x, y = data(solver, n)
    model = make(solver, sw.rules.Critical(hilbert_radius=5.0)).fit(x, y)
    model = pickle.loads(pickle.dumps(model))  # nothing computed yet that a first call could leave behind
    new, gate = x[:6], threading.Barrier(count)

    def predict(_):
        gate.wait()
        mean, std = model.predict(new, return_std=True)
        return mean.tobytes() + std.tobytes()

    with threadpool_limits(1), ThreadPoolExecutor(count) as pool:
        answers = set(pool.map(predict, range(count)))
    assert len(answers) == 1
    mean, std = model.predict(new, return_std=True)
    assert np.allclose(np.frombuffer(answers.pop()), np.concatenate([mean, std]), rtol=0, atol=SAME)


@pytest.mark.parametrize("rule", ["sure", "auto", sw.rules.Critical(hilbert_radius="self")], ids=str)
@pytest.mark.parametrize("solver", SOLVERS)
def test_a_pickled_model_is_the_same_model(solver, rule):
    x, y = data(solver)
    model = make(solver, rule).fit(x, y)
    again = pickle.loads(pickle.dumps(model))
    assert bits(again) == bits(model)
    (mean, std), (mean_again, std_again) = model.predict(x, return_std=True), again.predict(x, return_std=True)
    assert np.array_equal(mean, mean_again)
    # numpy 1.26 rounds a product with reversed columns, which a pickle puts in order, in another way: 7e-15 were seen
    assert np.allclose(std, std_again, rtol=0, atol=1e-13)
    assert again.stop_.reason is model.stop_.reason
    assert again.get_params().keys() == model.get_params().keys()


def fit_elsewhere(model, x, y):
    """In a process of its own, on one thread."""
    with threadpool_limits(1):
        return bits(model.fit(x, y)), model


def test_other_processes_fit_and_predict_the_same_bits():
    jobs = [(make(solver, rule, n_jobs=1), *data(solver)) for solver in SOLVERS for rule in ("sure", "auto")]
    here = [fit_elsewhere(clone(model), x, y)[0] for model, x, y in jobs]
    there = joblib.Parallel(n_jobs=2)(joblib.delayed(fit_elsewhere)(*job) for job in jobs)
    assert [answer for answer, _ in there] == here
    for (_, fitted), (_, x, y) in zip(there, jobs, strict=True):
        assert fitted.predict(x).shape == y.shape
