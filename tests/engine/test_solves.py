"""Solves agree with inverses written out, on numpy and on torch, at any penalty."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stopwise._support.torch import has_torch
from stopwise.engine.operators.centring import centred, centred_gram
from stopwise.engine.solves.factor import factor
from stopwise.engine.solves.preconditioned import ROUGH, Preconditioned
from stopwise.engine.solves.preconditioner import randomly_pivoted, stand_in_of
from stopwise.engine.solves.shifted_descent import as_resolvents, is_smooth
from stopwise.engine.spectrum.eigenpairs import IndefiniteMatrix
from stopwise.filters import CutOff, GradientDescent, GradientFlow, NuMethod, Ridge
from stopwise.kernels import Gaussian, Laplace, Matern
from stopwise.schedules import PolynomialDecay

if has_torch():
    import torch


class Setting:
    """A small weighted problem with copies in its covariates, and its centred matrix, as numpy or torch arrays."""

    def __init__(self, kind: str, n: int = 120, intercept: bool = True, weighted: bool = True) -> None:
        generator = np.random.default_rng(3)
        self.kind = kind
        self.x = generator.uniform(-1, 1, (n, 2))
        self.x[:10] = self.x[10:20]
        self.y = np.sin(4 * self.x[:, 0]) + 0.2 * generator.normal(size=n)
        self.w = generator.uniform(0.5, 3.0, n) if weighted else np.ones(n)
        self.gram = Matern(0.7, smoothness=1.5)(self.x)
        self.n_samples = float(self.w.sum())
        q = np.sqrt(self.w / self.n_samples)
        self.constant = self.take(q) if intercept else None
        centred = self.y - np.average(self.y, weights=self.w) if intercept else self.y
        self.response = self.take(np.sqrt(self.w) * centred)
        self.matrix = centred_gram(self.take(self.gram), self.take(np.sqrt(self.w)), self.constant)

    def take(self, values):
        if self.kind == "numpy":
            return np.array(values)
        return torch.from_numpy(np.array(values))

    def host(self, values):
        return np.asarray(values)

    def factor(self, penalty):
        return factor(lambda: self.matrix + 0.0, penalty, self.constant)

    def centre(self, block):
        if self.constant is None:
            return block
        means = self.constant @ block
        return block - (self.constant[:, None] * means if block.ndim == 2 else self.constant * means)

    def stand_in(self, rank):
        features = self.pivoted(rank)[0]
        return stand_in_of(features, features.T @ features, self.constant)

    def pivoted(self, rank):
        uncentred = centred_gram(self.take(self.gram), self.take(np.sqrt(self.w)), None)
        generator = np.random.default_rng([20250101, 0])
        return randomly_pivoted(lambda rows: uncentred[:, rows], uncentred.diagonal() + 0.0, rank, generator)

    def gradients(self, penalty, rank=40, **options):
        return Preconditioned(lambda b: self.matrix @ b, self.stand_in(rank), penalty, self.centre, **options)

    def ridge_without(self, rows, penalty):
        """Predictions at `rows` of a ridge fit on the others, from the normal equations with their intercept."""
        kept = np.setdiff1d(np.arange(len(self.y)), rows)
        system = self.gram[np.ix_(kept, kept)] + penalty * np.diag(1 / self.w[kept])
        if self.constant is None:
            return self.gram[np.ix_(rows, kept)] @ np.linalg.solve(system, self.y[kept])
        size = len(kept)
        bordered = np.block([[system, np.ones((size, 1))], [np.ones((1, size)), np.zeros((1, 1))]])
        solution = np.linalg.solve(bordered, np.append(self.y[kept], 0.0))
        return self.gram[np.ix_(rows, kept)] @ solution[:-1] + solution[-1]


NO_TORCH = pytest.mark.skipif(not has_torch(), reason="torch is not installed")
KINDS = ["numpy", pytest.param("torch", marks=[pytest.mark.torch, NO_TORCH])]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("penalty", [2.0, 1e-3, 1e-6])
def test_a_factor_leaves_rows_out_as_refitting_without_them_does(kind, intercept, penalty):
    setting = Setting(kind, intercept=intercept)
    residuals = setting.host(setting.factor(penalty).left_out(setting.response)) / np.sqrt(setting.w)
    for row in (0, 15, 77):
        expected = setting.y[row] - setting.ridge_without(np.array([row]), penalty)[0]
        assert residuals[row] == pytest.approx(expected, rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("penalty", [1e-30, 0.0])
def test_a_penalty_below_rounding_gets_the_smallest_shift_that_has_a_factor(penalty):
    setting = Setting("numpy")
    made = setting.factor(penalty)
    assert 0 < made.shift < 1e-10 * np.trace(setting.matrix)
    assert np.all(np.isfinite(made.inverse(setting.response)))


def test_a_matrix_that_is_really_indefinite_is_refused():
    matrix = np.diag([3.0, 1.0, -0.5])
    with pytest.raises(IndefiniteMatrix, match="not positive semi-definite"):
        factor(lambda: matrix.copy(), 1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_random_pivots_never_exceed_the_matrix_and_find_its_rank(kind):
    setting = Setting(kind)
    features, pivots, _ = setting.pivoted(60)
    rows = setting.host(centred(features, setting.constant))
    left = setting.host(setting.matrix) - rows @ rows.T
    assert np.linalg.eigvalsh(left).min() > -1e-12 * np.trace(left)
    assert len(set(pivots.tolist())) == features.shape[1] == 60
    whole, _, trace_left = setting.pivoted(120)
    assert whole.shape[1] <= 111  # ten rows are written twice
    assert trace_left < 1e-9 * np.trace(setting.host(setting.matrix))


@pytest.mark.parametrize("kind", KINDS)
def test_a_stand_in_is_halved_at_any_penalty_and_two_halves_invert_it(kind):
    setting = Setting(kind)
    stand_in = setting.stand_in(30)
    rows = setting.host(centred(stand_in.features, setting.constant))
    for penalty in (1.0, 1e-6):
        matrix = rows @ rows.T + penalty * np.eye(len(rows))
        block = setting.take(np.random.default_rng(0).normal(size=(len(rows), 3)))
        twice = setting.host(stand_in.inverse_root(stand_in.inverse_root(block, penalty), penalty))
        assert np.allclose(matrix @ twice, setting.host(block), atol=1e-5)
        again = setting.host(stand_in.root(stand_in.inverse_root(block, penalty), penalty))
        assert np.allclose(again, setting.host(block), atol=1e-7)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("penalty", [2.0, 1e-3, 1e-7])
def test_conjugate_gradients_solve_what_the_factor_solves_and_their_bound_holds(kind, penalty):
    setting = Setting(kind)
    gradients = setting.gradients(penalty, tol=1e-8)
    block = setting.take(np.random.default_rng(1).normal(size=(120, 5)))
    found = gradients.solve(block)
    solved, off = found.solution, found.off
    exact = setting.host(setting.factor(penalty).inverse(block))
    gaps = penalty * np.linalg.norm(setting.host(solved) - exact, axis=0)
    sizes = np.linalg.norm(setting.host(setting.centre(block)), axis=0)
    assert np.all(off <= 1e-8)
    assert np.all(gaps <= 1.01 * off * sizes + 4e-8)  # the factor's own rounding: 1e-8 on one processor, more on others
    start = solved + 1e-3 * block
    before = gradients.tally.products
    again = gradients.inverse(block, start)
    assert gradients.tally.products >= before
    assert np.allclose(penalty * setting.host(again), penalty * exact, atol=1e-6)


@pytest.mark.parametrize(("share", "steps"), [(2.0, 0), (4.0, 1)])
def test_a_start_within_three_tolerances_is_not_solved_again(share, steps):
    setting, penalty, tol = Setting("numpy"), 1e-2, 1e-5
    exact = setting.factor(penalty).inverse(setting.response)
    gradients = setting.gradients(penalty, tol=tol)
    left = np.linalg.eigh(setting.matrix)[1][:, 1:2]  # after the constant: what is left lies where A is smallest
    off, seen = setting.factor(penalty).inverse(left), gradients.stand_in.inverse_root(left, penalty)
    limit = tol * np.linalg.norm(setting.response) / penalty**0.5
    start = exact + share * limit / np.linalg.norm(seen) * off[:, 0]
    found = gradients.inverse(setting.response, start)
    assert (gradients.tally.columns > 0) == (steps > 0)
    assert penalty * np.linalg.norm(found - exact) <= 3 * tol * np.linalg.norm(setting.response)


@pytest.mark.parametrize("kind", KINDS)
def test_rough_columns_cost_fewer_products_and_leave_the_others_their_digits(kind):
    setting, penalty = Setting(kind), 1e-3
    block = setting.take(np.random.default_rng(1).normal(size=(120, 5)))
    exact = setting.host(setting.factor(penalty).residual(block))
    sizes = np.linalg.norm(setting.host(setting.centre(block)), axis=0)
    costs = []
    for rough in (0, 3, 5):
        gradients = setting.gradients(penalty, rank=10, tol=1e-8)
        gaps = np.linalg.norm(setting.host(gradients.residual(block, rough)) - exact, axis=0) / sizes
        assert np.all(gaps[: 5 - rough] <= 1e-7)
        assert np.all(gaps <= ROUGH)
        costs.append(gradients.tally.products)
    assert costs[2] < costs[1] <= costs[0]


def test_dependent_right_hand_sides_and_zeros_do_no_harm():
    setting = Setting("numpy")
    column = setting.response
    block = np.column_stack([column, 2 * column, np.zeros_like(column)])
    solved = setting.gradients(1e-2).inverse(block)
    exact = setting.factor(1e-2).inverse(block)
    assert np.allclose(solved, exact, atol=1e-4 * np.abs(exact).max())


def test_products_too_rough_for_the_penalty_are_made_again_in_float64():
    setting = Setting("numpy")
    rough = setting.matrix - 1e-4 * np.eye(120)  # what rounding in single precision amounts to
    stand_in = setting.stand_in(40)
    gradients = Preconditioned(
        lambda b: rough @ b, stand_in, 1e-6, setting.centre, careful=lambda b: setting.matrix @ b
    )
    solved = gradients.inverse(setting.response)
    exact = setting.factor(1e-6).inverse(setting.response)
    assert gradients.tally.exact == 1
    assert 1e-6 * np.abs(solved - exact).max() < 1e-5
    with pytest.raises(ArithmeticError, match="below the rounding"):
        Preconditioned(lambda b: rough @ b, stand_in, 1e-6, setting.centre).inverse(setting.response)


@pytest.mark.parametrize("rank", [12, 60])
@pytest.mark.parametrize("penalty", [1e-3, 1e-6, 1e-9])
def test_a_solve_leaves_no_more_of_its_equations_than_asked_for_and_tells_it(rank, penalty):
    """Directions with large eigenvalues count next to nothing in a P y, and wholly in predictions A P y."""
    x = np.linspace(-1, 1, 120)[:, None]
    gram, q, tol = Gaussian(0.7)(x), np.full(120, 120**-0.5), 1e-3
    matrix, y = centred_gram(gram.copy(), None, q), np.sign(x[:, 0] - 0.2) - np.sign(x[:, 0] - 0.2).mean()
    features = randomly_pivoted(lambda at: gram[:, at], np.ones(120), rank, np.random.default_rng(0))[0]
    stand_in = stand_in_of(features, features.T @ features, q)
    found = Preconditioned(lambda b: matrix @ b, stand_in, penalty, lambda b: centred(b, q), tol=tol).solve(y)
    left = np.linalg.norm(y - matrix @ found.solution - penalty * found.solution) / np.linalg.norm(y)
    assert left <= 3 * tol
    assert found.residual[0] == pytest.approx(left, rel=1e-2, abs=1e-6)


def test_rough_products_refined_in_float64_leave_no_more_than_asked_for_at_few_such_products():
    setting, penalty, tol = Setting("numpy"), 1e-3, 1e-4
    errors = np.random.default_rng(6).normal(size=setting.matrix.shape)
    errors *= 0.1 * penalty / np.linalg.norm(errors, axis=1).max()
    careful = []
    gradients = Preconditioned(
        lambda b: (setting.matrix + errors + errors.T) @ b,
        setting.stand_in(40),
        penalty,
        setting.centre,
        tol=tol,
        rounding=0.2 * penalty,
        careful=lambda b: careful.append(b) or setting.matrix @ b,
    )
    found = gradients.solve(setting.response)
    left = setting.response - setting.matrix @ found.solution - penalty * found.solution
    size = np.linalg.norm(setting.response)
    assert found.residual[0] == pytest.approx(np.linalg.norm(left) / size)
    assert found.residual[0] <= 3 * tol
    assert 2 <= len(careful) <= 4
    rough = replace(gradients, careful=None).solve(setting.response)
    off = setting.response - setting.matrix @ rough.solution - penalty * rough.solution
    assert 3 * tol < np.linalg.norm(off) / size <= rough.residual[0]  # what is hidden is told
    made = len(careful)
    unseen = replace(gradients, unseen=1.1 * rough.residual[0]).solve(setting.response)
    assert len(careful) == made  # no product in float64 where nobody would see it
    assert unseen.residual[0] == pytest.approx(rough.residual[0])


def test_a_residual_that_rounding_of_products_explains_is_not_chased():
    """Products that differ each time by errors of a known length: the residual cannot be seen below that."""
    setting, generator, length = Setting("numpy"), np.random.default_rng(5), 1e-3
    exact = setting.factor(1e-2).inverse(setting.response)
    off, products = {}, {}
    for rounding in (0.0, 2 * length):

        def rough(block):
            errors = length * generator.normal(size=setting.matrix.shape) / np.sqrt(len(setting.matrix))
            return (setting.matrix + errors) @ block

        gradients = Preconditioned(rough, setting.stand_in(40), 1e-2, setting.centre, tol=1e-4, rounding=rounding)
        off[rounding] = np.linalg.norm(gradients.inverse(setting.response) - exact) / np.linalg.norm(exact)
        products[rounding] = gradients.tally.products
    assert products[2 * length] < 0.8 * products[0.0]
    assert off[2 * length] < 1.5 * off[0.0] + length


@pytest.mark.parametrize("penalty", [1e-1, 1e-2, 1e-3, 1e-4])
@pytest.mark.parametrize("fixed", [True, False])
def test_what_rounding_does_to_fitted_values_is_told_and_not_twice(penalty, fixed):
    """Errors of products that are the same each time, as entries of the matrix are, or others each time."""
    setting, generator = Setting("numpy"), np.random.default_rng(7)
    values = np.linalg.eigvalsh(setting.matrix)
    kept = float(np.sqrt(np.mean((values / (values + penalty)) ** 2)))

    def errors():
        return 0.05 * penalty * generator.normal(size=setting.matrix.shape) / np.sqrt(len(setting.matrix))

    same = errors()
    gradients = Preconditioned(
        lambda b: (setting.matrix + (same if fixed else errors())) @ b,
        setting.stand_in(40),
        penalty,
        setting.centre,
        tol=1e-4,
        rounding=0.06 * penalty,
        kept=kept,
    )
    found, exact = gradients.solve(setting.response), setting.factor(penalty).inverse(setting.response)
    off = np.linalg.norm(setting.matrix @ (found.solution - exact)) / np.linalg.norm(setting.response)
    assert off <= 1.2 * found.residual[0]  # which is a root mean square, and this is one draw
    if fixed:
        assert found.residual[0] < 2 * off
    elif penalty <= 1e-3:  # a look is within the rounding of its own product, of which nothing was fitted
        rounded = 0.06 * penalty * np.linalg.norm(found.solution) / np.linalg.norm(setting.response)
        assert found.residual[0] <= kept * rounded + 3e-4


def weighted(polynomial, resolvent, block, step_sum):
    """weight(K) block, weight = (1 - S) / lambda = (step_sum / pole) u p(u), by the Chebyshev recurrence."""
    before, now = block, 2 * resolvent.residual(block) - block
    total = float(polynomial.coefficients[0]) * before
    for c in polynomial.coefficients[1:]:
        total = total + float(c) * now
        before, now = now, 2 * (2 * resolvent.residual(now) - now) - before
    return (step_sum / polynomial.pole) * resolvent.residual(total)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", [1, 7, 200])
def test_descent_by_shifted_solves_is_descent_run_step_by_step(kind, steps):
    setting = Setting(kind)
    matrix, response = setting.host(setting.matrix) / setting.n_samples, setting.host(setting.response)
    largest = float(np.linalg.eigvalsh(matrix)[-1])
    for schedule in ("auto", PolynomialDecay(step_size=0.9, power=0.5)):
        filter = GradientDescent(schedule).bind(largest)
        fit, weights = np.zeros_like(response), np.zeros_like(response)
        sums = filter.step_sum(np.arange(steps + 1.0))
        for step in np.diff(sums):
            weights = weights + step * (response - fit)
            fit = matrix @ weights
        polynomial = as_resolvents(filter, float(sums[-1]), largest)
        solver = setting.factor(polynomial.penalty(setting.n_samples, float(sums[-1])))
        found = setting.host(weighted(polynomial, solver, setting.response, float(sums[-1])))
        assert polynomial.error <= 1e-6
        assert np.abs(matrix @ found - fit).max() < 3e-6 * response.std()


@pytest.mark.parametrize("filter", [GradientFlow(), GradientDescent(), Ridge(), NuMethod()])
def test_a_filter_late_on_the_clock_is_a_polynomial_in_one_resolvent(filter):
    largest, step_sum = 0.8, 1e5
    filter = filter.bind(largest)
    step_sum = float(filter.snap(step_sum))
    polynomial = as_resolvents(filter, step_sum, largest, 1e-4)
    values = np.concatenate([[0.0], np.geomspace(1e-9, largest, 300)])
    u = 1 / (1 + step_sum * values / polynomial.pole)
    inner = np.polynomial.chebyshev.chebval(2 * u - 1, polynomial.coefficients)
    gaps = np.abs((1 - u) * inner - filter.gain(values, step_sum))
    assert gaps[0] == 0
    assert gaps.max() <= 1.2 * polynomial.error + 1e-12
    if not isinstance(filter, NuMethod):
        assert polynomial.error <= 1e-4


@pytest.mark.parametrize("schedule", ["auto", 0.01, [0.5, 0.4, 0.1], PolynomialDecay(0.5, 0.3)])
def test_few_solves_follow_descent_by_any_schedule(schedule):
    assert is_smooth(GradientDescent(schedule))


@pytest.mark.parametrize("filter", [GradientFlow(), Ridge(), CutOff(), NuMethod(), NuMethod(2.0)])
def test_few_solves_follow_flow_and_ridge_but_no_cut_and_no_accelerated_descent(filter):
    assert is_smooth(filter) == isinstance(filter, GradientFlow | Ridge)


def test_a_cut_is_no_polynomial_and_its_error_says_so():
    assert as_resolvents(CutOff(), 1e3, 1.0).error > 0.05


@pytest.mark.parametrize("kernel", [Gaussian(0.5), Laplace(0.5)])
def test_penalties_far_below_the_largest_eigenvalue_keep_their_digits(kernel):
    generator = np.random.default_rng(8)
    x = generator.uniform(-1, 1, (150, 2))
    x[100:] = x[:50] + 0.0
    y = np.cos(5 * x[:, 1]) + 0.1 * generator.normal(size=150)
    q = np.full(150, 150**-0.5)
    matrix = centred_gram(kernel(x), None, q)
    values, vectors = np.linalg.eigh(matrix)
    values = np.maximum(values, 0)
    for ratio in (1e-6, 1e-9, 1e-11):
        penalty = ratio * float(values[-1])
        made = factor(lambda: matrix.copy(), penalty, q)
        centred = y - y.mean()
        expected = vectors @ (penalty / (values + penalty) * (vectors.T @ centred))
        expected -= expected.mean()
        assert np.abs(made.residual(centred) - expected).max() < 1e-4 * y.std()
