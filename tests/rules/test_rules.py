"""Every rule against plain loops over dense hat matrices, along every filter."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
import stopwise as sw
from problems import examples
from stopwise.engine.operators import Dense
from stopwise.engine.spectrum.eigenpairs import dense_spectrum
from stopwise.path import make_path

N = 10
N_STEPS = 120
STEPPED = ["descent", "nu-method"]
CONTINUOUS = ["ridge", "flow"]
READINGS = {"local": reference.first_rise, "literal": reference.literal_rise, "global": reference.lowest}
seeds = st.integers(0, 2**32 - 1)


class Problem:
    """A random spectrum (singular at times), a smooth truth, a response, and all hat matrices of one filter."""

    def __init__(self, seed, filter_name, noise_std=None):
        rng = np.random.default_rng(seed)
        vectors = np.linalg.qr(rng.normal(size=(N, N)))[0]
        self.values = np.sort(rng.uniform(0.05, 1.0, size=N))[::-1]
        self.values[: rng.integers(1, 4)] = self.values[0]  # ties
        # filters without steps can go so far that a full rank leaves nothing but rounding to divide by
        self.values[N - rng.integers(filter_name not in STEPPED, 3) :] = 0.0
        self.K = vectors @ np.diag(self.values) @ vectors.T
        self.truth = self.K @ rng.normal(size=N) * 2
        self.noise_std = rng.uniform(0.1, 1.0) if noise_std is None else noise_std
        self.y = self.truth + self.noise_std * rng.normal(size=N)
        self.coefficients = vectors.T @ self.y
        self.step = 0.3 * min(1.0, 1 / self.values[0])
        self.name = filter_name
        self.filter = {
            "descent": lambda: sw.filters.GradientDescent(sw.schedules.Constant(self.step)),
            "nu-method": sw.filters.NuMethod,
            "ridge": sw.filters.Ridge,
            "flow": sw.filters.GradientFlow,
            "cutoff": sw.filters.CutOff,
        }[filter_name]()
        self.path = make_path(dense_spectrum(Dense(N * self.K)), self.filter, self.y)
        self.clock = self._clock()

    def long_clock(self, n_steps):
        if self.name == "descent":
            return [self.step * t for t in range(n_steps + 1)]
        return [reference.nu_method_clock(t, self.values[0]) for t in range(n_steps + 1)]

    def _clock(self):
        if self.name in STEPPED:
            return self.long_clock(N_STEPS)
        if self.name == "cutoff":
            kept = sorted({1 / value * (1 + 1e-9) for value in self.values if value > 0})
            return [0.0, *kept]
        return [0.0, *np.geomspace(1e-4, 1e5, 400)]

    def hats(self):
        if self.name == "descent":
            return reference.hat_matrices(lambda y: reference.descent_fits(self.K, y, [self.step] * N_STEPS), N)
        if self.name == "nu-method":
            return reference.hat_matrices(lambda y: reference.nu_method_fits(self.K, y, N_STEPS), N)
        return [self.hat_at(step_sum) for step_sum in self.clock]

    def hat_at(self, step_sum):
        fit = {"ridge": reference.ridge_fit, "flow": reference.flow_fit, "cutoff": reference.cutoff_fit}[self.name]
        if step_sum == 0:
            return np.zeros((N, N))
        return reference.hat_matrix(lambda y: fit(self.K, y, step_sum), N)


CRITERIA = {
    "sure": (lambda p, reading: sw.rules.SURE(reading=reading), lambda p, hat: reference.sure(hat, p.y, p.noise_std)),
    "gcv": (lambda p, reading: sw.rules.GCV(reading=reading), lambda p, hat: reference.gcv(hat, p.y)),
    "loo": (
        lambda p, reading: sw.rules.LeaveOneOut(reading=reading),
        lambda p, hat: np.mean(reference.loo_shortcut(hat, p.y) ** 2),
    ),
    "oracle": (
        lambda p, reading: sw.rules.Oracle(p.truth, reading=reading),
        lambda p, hat: np.mean((hat @ p.y - p.truth) ** 2),
    ),
    "minimax": (
        lambda p, reading: sw.rules.Minimax(hilbert_radius=1.5, reading=reading),
        lambda p, hat: reference.minimax_risk(p.values, shrinkage_of(p, hat), p.noise_std, 1.5),
    ),
}


def shrinkage_of(problem, hat):
    _, vectors = reference.eigenpairs(problem.K)
    return 1 - np.diag(vectors.T @ hat @ vectors)


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("name", CRITERIA)
@pytest.mark.parametrize("filter_name", STEPPED)
@given(seed=seeds)
def test_a_risk_rule_stops_where_its_loop_does_along_filters_with_steps(filter_name, name, reading, seed):
    problem = Problem(seed, filter_name)
    rule, score = CRITERIA[name]
    scores = [score(problem, hat) for hat in problem.hats()]
    stop = rule(problem, reading).select(problem.path, problem.noise_std)
    expected = READINGS[reading](scores)
    if reading == "global":
        # past step 64 iterates are sampled, 3 % apart: enough for the smooth scores of descent, but not where the
        # nu-method overshoots or a ratio of two vanishing numbers dips between two samples
        smooth = filter_name == "descent" and name in ("sure", "oracle", "minimax")
        seen = scores if smooth else scores[:65]
        assert stop.details["criterion"] <= min(seen) + 1e-6 * abs(min(seen))
    elif expected is not None:
        assert stop.iteration == expected
    if stop.iteration > N_STEPS or expected is None:
        # the loop ended while the score still fell: the rule must have gone on
        assert stop.iteration >= N_STEPS - 1
        return
    if reading != "literal":
        assert stop.details["criterion"] == pytest.approx(scores[stop.iteration], rel=1e-6)
    assert stop.step_sum == pytest.approx(problem.clock[stop.iteration], rel=1e-12)
    if stop.reason is sw.Reason.CAP:
        assert stop.iteration == int(problem.path.filter.iteration(problem.path.step_sum_cap))
    else:
        assert stop.reason is (sw.Reason.MINIMUM if stop.iteration else sw.Reason.ZERO)


@pytest.mark.parametrize("name", CRITERIA)
@pytest.mark.parametrize("filter_name", [*CONTINUOUS, "cutoff"])
@examples(8, 250)
@given(seed=st.integers(0, 10**6))
def test_no_point_of_a_fine_grid_beats_the_stop_along_filters_without_steps(filter_name, name, seed):
    problem = Problem(seed, filter_name)
    rule, score = CRITERIA[name]
    stop = rule(problem, "global").select(problem.path, problem.noise_std)
    assert stop.iteration is None
    achieved = score(problem, problem.hat_at(stop.step_sum * (1 + 1e-9)))
    assert stop.details["criterion"] == pytest.approx(achieved, rel=1e-6)
    last = stop.step_sum if stop.reason is sw.Reason.CAP else 1e5
    clock = problem.clock if filter_name == "cutoff" else [0.0, *np.geomspace(1e-4, last, 60)]
    lowest = min(score(problem, problem.hat_at(step_sum)) for step_sum in clock)
    assert achieved <= lowest + 1e-6 * abs(lowest)


@pytest.mark.parametrize("filter_name", STEPPED)
@given(seed=seeds, factor=st.floats(0.3, 3))
def test_the_discrepancy_rule_stops_at_the_first_residual_down_to_the_noise(filter_name, seed, factor):
    problem = Problem(seed, filter_name)
    noise_std = factor * problem.noise_std
    residuals = [np.mean((problem.y - hat @ problem.y) ** 2) for hat in problem.hats()]
    stop = sw.rules.Discrepancy().select(problem.path, noise_std)
    expected = reference.discrepancy(residuals, noise_std)
    if expected is None:
        assert stop.iteration > N_STEPS or stop.reason is sw.Reason.CAP
    else:
        assert stop.iteration == expected
        assert stop.reason is (sw.Reason.THRESHOLD if expected else sw.Reason.ZERO)


@pytest.mark.parametrize("filter_name", [*CONTINUOUS, "cutoff"])
@given(seed=seeds, factor=st.floats(0.3, 3))
def test_the_discrepancy_rule_meets_the_noise_level_along_filters_without_steps(filter_name, seed, factor):
    problem = Problem(seed, filter_name)
    noise_std = factor * problem.noise_std
    stop = sw.rules.Discrepancy().select(problem.path, noise_std)

    def residual(step_sum):
        return np.mean((problem.y - problem.hat_at(step_sum) @ problem.y) ** 2)

    if stop.reason is sw.Reason.CAP:
        never_fitted = problem.coefficients[problem.values == 0]
        assert np.sum(never_fitted**2) / N > noise_std**2
    elif stop.reason is sw.Reason.ZERO:
        assert np.mean(problem.y**2) <= noise_std**2
    else:
        assert stop.reason is sw.Reason.THRESHOLD
        assert residual(stop.step_sum * (1 + 1e-9)) <= noise_std**2 * (1 + 1e-9)
        assert residual(stop.step_sum * (1 - 1e-6)) > noise_std**2


@pytest.mark.parametrize("filter_name", [*STEPPED, *CONTINUOUS, "cutoff"])
@given(seed=seeds, hilbert_radius=st.floats(0.3, 10), constant=st.sampled_from(["auto", 1.0, 3.0]))
def test_the_critical_rule_carries_over_to_every_filter(filter_name, seed, hilbert_radius, constant):
    problem = Problem(seed, filter_name)
    rule = sw.rules.Critical(constant=constant, hilbert_radius=hilbert_radius)
    stop = rule.select(problem.path, problem.noise_std)
    number = {"ridge": 4.0}.get(filter_name, 2 * math.e) if constant == "auto" else constant
    critical = 1 / reference.critical_radius(problem.values, problem.noise_std, hilbert_radius, number) ** 2
    assert stop.details["critical_step_sum"] == pytest.approx(critical, rel=1e-9)
    if filter_name in STEPPED:
        expected = sum(1 for step_sum in problem.long_clock(20_000) if 0 < step_sum <= critical)
        assert stop.iteration == expected
    else:
        assert stop.iteration is None
        assert stop.step_sum == pytest.approx(critical, rel=1e-9)
        assert stop.details["complexity"] == pytest.approx(stop.details["threshold"], rel=1e-8)


@given(seed=seeds)
def test_an_automatic_radius_is_the_debiased_norm_of_the_stopped_descent(seed):
    problem = Problem(seed, "descent", noise_std=0.3)
    stop = sw.rules.Critical(hilbert_radius="auto", constant=2.0).select(problem.path, 0.3)
    steps = list(itertools.repeat(problem.step, 20_000))
    radius, iteration = reference.estimated_radius(problem.values, problem.coefficients, steps, 0.3, constant=2.0)
    assert stop.details["hilbert_radius"] == pytest.approx(radius, rel=1e-8)
    assert stop.iteration == iteration


@given(seed=seeds, noise_std=st.floats(0.5, 3.0))
def test_a_self_consistent_radius_is_the_norm_of_the_fit_at_hand(seed, noise_std):
    problem = Problem(seed, "descent", noise_std=0.5)
    stop = sw.rules.Critical(hilbert_radius="self").select(problem.path, noise_std)
    weights = reference.descent_omega(problem.K, problem.y, [problem.step] * N_STEPS)
    norms = [omega @ problem.K @ omega for omega in weights]
    expected = reference.self_consistent_stop(problem.values, problem.clock, norms, noise_std)
    if expected is None or expected >= 64:  # beyond, iterates are looked at more and more sparsely
        assert stop.iteration >= 64
        return
    assert stop.iteration == expected
    if expected:
        assert stop.details["hilbert_radius"] == pytest.approx(math.sqrt(norms[expected]), rel=1e-9)


def test_the_minimax_rule_bounds_the_risk_of_every_truth_in_the_ball(rng):
    problem = Problem(4, "flow")
    stop = sw.rules.Minimax(hilbert_radius=1.5).select(problem.path, 0.3)
    hat = problem.hat_at(stop.step_sum)
    bound = stop.details["criterion"]
    root = reference.square_root(problem.K)
    risks = []
    for _ in range(200):
        direction = rng.normal(size=N)
        # f = sqrt(n) sqrt(K) u has Hilbert norm |u|, for u in the range of K
        direction = root @ direction
        truth = 1.5 * math.sqrt(N) * root @ (direction / np.linalg.norm(direction))
        risks.append(reference.risk(hat, truth, 0.3))
    assert max(risks) <= bound * (1 + 1e-9)
    values, vectors = reference.eigenpairs(problem.K)
    worst = [reference.risk(hat, 1.5 * math.sqrt(N * v) * u, 0.3) for v, u in zip(values, vectors.T, strict=True)]
    assert max(worst) == pytest.approx(bound, rel=1e-9)


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize(
    ("split", "train", "test"),
    [("odd-even", slice(0, None, 2), slice(1, None, 2)), ("halves", slice(0, 12), slice(12, None))],
)
def test_hold_out_follows_the_error_on_the_rows_left_out(split, train, test, fit_intercept, reading):
    rng = np.random.default_rng(8)
    X = rng.uniform(size=(24, 1))
    y = 2 + np.sin(5 * X[:, 0]) + 0.3 * rng.normal(size=24)
    rows = np.arange(24)
    scores = reference.holdout_scores(
        reference.laplace(0.5), X, y, rows[train], rows[test], [0.5] * 800, fit_intercept=fit_intercept
    )
    expected = READINGS[reading](scores)
    assert 0 < expected < 799
    rule = sw.rules.HoldOut(split=split, reading=reading)
    model = sw.KernelGradientRegressor(
        sw.kernels.Laplace(0.5), rule=rule, noise_std=0.3, schedule=0.5, fit_intercept=fit_intercept
    ).fit(X, y)
    assert model.n_iter_ == expected
    full = reference.gram(reference.laplace(0.5), X) / 24
    full = reference.centre(full) if fit_intercept else full
    offset = y.mean() if fit_intercept else 0.0
    refitted = reference.descent_fits(full, y - offset, [0.5] * expected)[-1] + offset
    np.testing.assert_allclose(model.predict(X), refitted, atol=1e-10)


def test_hold_out_without_refit_keeps_the_training_fit():
    rng = np.random.default_rng(8)
    X = rng.uniform(size=(24, 1))
    y = np.sin(5 * X[:, 0]) + 0.3 * rng.normal(size=24)
    rule = sw.rules.HoldOut(split="odd-even", refit=False)
    model = sw.KernelGradientRegressor(
        sw.kernels.Laplace(0.5), rule=rule, noise_std=0.3, schedule=0.5, fit_intercept=False
    ).fit(X, y)
    K = reference.gram(reference.laplace(0.5), X[::2]) / 12
    omega = reference.descent_omega(K, y[::2], [0.5] * model.n_iter_)[-1]
    new = np.linspace(0, 1, 7)[:, None]
    expected = reference.gram(reference.laplace(0.5), new, X[::2]) @ omega / math.sqrt(12)
    np.testing.assert_allclose(model.predict(new), expected, atol=1e-10)


def test_a_random_hold_out_is_set_by_its_seed(rng):
    X = rng.uniform(size=(40, 1))
    y = np.sin(5 * X[:, 0]) + 0.3 * rng.normal(size=40)

    def stops(seed):
        model = sw.KernelGradientRegressor(sw.kernels.Laplace(0.5), rule="holdout", random_state=seed).fit(X, y)
        return model.stop_.step_sum

    assert stops(1) == stops(1)
    assert len({stops(seed) for seed in range(6)}) > 1


def test_a_fixed_stop_is_kept_and_says_so():
    problem = Problem(1, "descent")
    stop = sw.rules.Fixed(iteration=37).select(problem.path)
    assert (stop.iteration, stop.reason) == (37, sw.Reason.FIXED)
    assert stop.step_sum == pytest.approx(37 * problem.step, rel=1e-14)
    between = sw.rules.Fixed(step_sum=37.5 * problem.step).select(problem.path)
    assert between.iteration == 37
    ridge = sw.rules.Fixed(step_sum=2.5).select(Problem(1, "ridge").path)
    assert (ridge.iteration, ridge.step_sum) == (None, 2.5)


@pytest.mark.parametrize("name", ["critical", "minimax", "sure", "gcv", "loo", "discrepancy", "holdout", "auto"])
@pytest.mark.parametrize("filter_name", ["descent", "flow", "cutoff", "nu-method"])
def test_every_named_rule_stops_every_filter_with_a_reason(name, filter_name, rng):
    X = rng.uniform(size=(30, 1))
    y = np.sin(5 * X[:, 0]) + 0.3 * rng.normal(size=30)
    kernel = sw.kernels.Laplace(0.3)
    model = sw.KernelGradientRegressor(kernel, rule=name, filter=filter_name, random_state=0).fit(X, y)
    assert isinstance(model.stop_.reason, sw.Reason)
    assert model.step_sum_ == model.stop_.step_sum
    assert 0 <= model.step_sum_ < math.inf
    assert np.all(np.isfinite(model.predict(X)))


def test_a_scaled_response_stops_at_the_same_iterate(rng):
    """R and sigma in the units of y: only their ratio to y matters to a rule that reads y."""
    X = rng.uniform(size=(30, 1))
    y = np.sin(5 * X[:, 0]) + 0.3 * rng.normal(size=30)
    for rule in ("auto", "sure", "gcv", "loo", "discrepancy", "minimax", sw.rules.Critical(hilbert_radius="auto")):
        one = sw.KernelGradientRegressor(sw.kernels.Laplace(0.5), rule=rule, noise_std=0.3).fit(X, y)
        big = sw.KernelGradientRegressor(sw.kernels.Laplace(0.5), rule=rule, noise_std=300.0).fit(X, 1000 * y)
        assert one.n_iter_ == big.n_iter_
        np.testing.assert_allclose(big.predict(X), 1000 * one.predict(X), rtol=1e-8)


@pytest.mark.parametrize("kernel", ["gaussian", "precomputed"])
def test_hold_out_without_refit_predicts_from_its_training_half_alone(kernel):
    rng = np.random.default_rng(5)
    x = rng.standard_normal((60, 2))
    y = np.sin(x[:, 0]) + 0.2 * rng.standard_normal(60)
    gaussian = sw.kernels.Gaussian(1.5)
    rule = sw.rules.HoldOut(refit=False)
    given = gaussian(x) if kernel == "precomputed" else x
    model = sw.KernelRidgeRegressor(kernel if kernel == "precomputed" else gaussian, rule=rule, noise_std=0.2)
    model.fit(given, y)
    train = model.stop_.details["train_rows"]
    alone = sw.KernelRidgeRegressor(gaussian, rule=sw.rules.Fixed(step_sum=model.step_sum_), noise_std=0.2)
    alone.fit(x[train], y[train])
    new = gaussian(x[:7], x) if kernel == "precomputed" else x[:7]
    mean, std = model.predict(new, return_std=True)
    expected, spread = alone.predict(x[:7], return_std=True)
    assert np.allclose(mean, expected, atol=1e-10)
    assert np.allclose(std / spread, (std / spread)[0], atol=1e-10)  # one stop was chosen on the rows, one was given


def test_steps_that_are_too_many_to_count_are_an_end_and_no_crossing():
    """With steps 1/(t + 1) the clock is a logarithm: the crossing would take e^1000 of them."""
    steps = sw.schedules.PolynomialDecay(0.5, 1.0)
    stop = sw.stopping_time(1 / np.arange(1, 200.0) ** 2, steps, noise_std=0.01)
    assert stop.step_sum < stop.evidence.critical_step_sum
    assert stop.evidence.next_complexity < stop.evidence.next_threshold
    assert stop.reason is sw.Reason.CAP
    assert sw.stopping_time(1 / np.arange(1, 200.0) ** 2, steps, noise_std=10.0).reason is not sw.Reason.CAP


def test_a_hold_out_whose_training_part_does_not_fit_says_so_before_it_is_made(rng, monkeypatch):
    X = rng.uniform(size=(400, 1))
    y = np.sin(5 * X[:, 0]) + 0.3 * rng.normal(size=400)
    monkeypatch.setattr("stopwise.engine.solvers.dense_solver.free_bytes", lambda: 10**6)
    with pytest.raises(MemoryError, match=r"^the training part of hold-out needs about .* for 200 rows .* default"):
        sw.KernelGradientRegressor("sobolev1", rule="holdout", solver="line").fit(X, y)
