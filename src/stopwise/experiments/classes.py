"""RWY14's corollaries: polynomial kernels at the rate rank/n, Sobolev classes at n^(-2 nu / (2 nu + 1))."""

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
from scipy.optimize import brentq

from stopwise._support.arrays import Array
from stopwise.experiments.batched_stops import stops
from stopwise.experiments.claims import Claim, verdict
from stopwise.experiments.rates import slope
from stopwise.experiments.setting import Setting, bare_path, descent, equispaced, generator, tent
from stopwise.experiments.tally import Key, Row, Tally, by_size, column, computed, pick, tally
from stopwise.experiments.task import Config, Task, by_chunk
from stopwise.experiments.trials import draw_trials
from stopwise.kernels import Kernel, Polynomial, Sobolev
from stopwise.rules import Critical, Minimax

NAME = "classes"
KERNELS: dict[str, Kernel] = {kernel.name: kernel for kernel in (Polynomial(2), Polynomial(3), Sobolev(1), Sobolev(2))}
RANKS = {"polynomial2": 3, "polynomial3": 4}  # E4
RATES = {"polynomial2": -1.0, "polynomial3": -1.0, "sobolev1": -2 / 3, "sobolev2": -4 / 5}
SIZES = (50, 100, 200, 400)
LIMIT_SIZES = tuple(float(10**k) for k in range(2, 13))


def truth_of(kernel: str, x: Array) -> Array:
    """A function of Hilbert norm 1 in each class."""
    if kernel == "sobolev1":
        return tent(x)
    if kernel == "sobolev2":
        return np.asarray(x**2 / 2)
    degree = RANKS[kernel] - 1
    return np.asarray(features(degree, x).sum(axis=1) / math.sqrt(degree + 1))


def features(degree: int, x: Array) -> Array:
    """(1 + x z)^d = sum_j binom(d, j) x^j z^j: the d + 1 coordinates in which the kernel is an inner product (E4)."""
    return np.stack([math.sqrt(math.comb(degree, j)) * x**j for j in range(degree + 1)], axis=1)


@lru_cache(maxsize=8)
def population(kernel: str) -> Array:
    """Eigenvalues of the kernel's integral operator under the uniform law on [0, 1], descending."""
    if kernel in RANKS:
        nodes, weights = np.polynomial.legendre.leggauss(RANKS[kernel] + 4)
        phi = features(RANKS[kernel] - 1, (nodes + 1) / 2) * np.sqrt(weights / 2)[:, None]
        return np.sort(np.linalg.eigvalsh(phi.T @ phi))[::-1]
    j = np.arange(1, 200_001)
    if kernel == "sobolev1":
        return np.asarray(4 / ((2 * j - 1) ** 2 * np.pi**2))
    # Order 2, anchored: f'''' = f / lambda with f = f' = 0 at 0 and f'' = f''' = 0 at 1, the clamped beam:
    # lambda = beta^-4 where cos(beta) cosh(beta) = -1; the roots settle on odd multiples of pi / 2.
    beta = (2 * j - 1) * np.pi / 2
    beta[:8] = [brentq(lambda b: math.cos(b) + 1 / math.cosh(b), b - 0.5, b + 0.5, xtol=1e-14) for b in beta[:8]]
    return np.asarray(beta**-4.0)


def tasks(config: Config) -> list[Task]:
    """Simulation at sizes at hand, exact limits once."""
    alpha = (config.alphas or (0.25,))[0]
    found = [Task(NAME, limit, (kernel, alpha)) for kernel in KERNELS]
    for kernel in KERNELS:
        for n in config.sizes or SIZES:
            found += by_chunk(config, NAME, chunk, kernel, n, alpha)
    return found


def _step(kernel: str, alpha: float) -> float:
    """alpha, or what the largest eigenvalue allows: at most 1/lambda_1."""
    return min(alpha, 0.5 / float(population(kernel)[0]))


def _key(quantity: str, kernel: str, n: float, reading: str, alpha: float) -> Key:
    return Key(NAME, quantity, int(n), "critical", reading, "known", alpha, kernel)


def chunk(kernel: str, n: int, alpha: float, seed: int, index: int, size: int) -> list[Tally]:
    """The rule's error on x = i/n against a truth of norm 1, beside its exact mean."""
    x, step = equispaced(n), _step(kernel, alpha)
    setting = Setting(x, truth_of(kernel, x), KERNELS[kernel])
    trials = draw_trials(setting, descent(step), generator(seed, f"{NAME} {kernel}", n, index), size)
    chosen = stops(Critical(), trials)
    exact = trials.exact_risk(float(chosen[0]))
    return [tally(_key("mse", kernel, n, "grid", step), trials.errors(chosen), exact=exact)]


def limit(kernel: str, alpha: float) -> list[Tally]:
    """Squared critical radius and worst case over the ball from the population's own eigenvalues."""
    found, step = [], _step(kernel, alpha)
    values = population(kernel)
    for n in LIMIT_SIZES:
        if n * values[-1] > 1e-3 and kernel not in RANKS:
            continue  # the eigenvalues kept would no longer be all that matter
        path = bare_path(values, int(n), descent(step))
        stop = Critical().select(path, 1.0)
        worst = float(Minimax(1.0).criterion(path, 1.0, 1.0, np.asarray(stop.step_sum)))
        squared = 1 / stop.details["critical_step_sum"]
        found.append(computed(_key("squared critical radius", kernel, n, "population", step), squared))
        found.append(computed(_key("worst case over the ball", kernel, n, "population", step), worst))
    return found


def claims(rows: Sequence[Row]) -> list[Claim]:
    """One verdict for each class, on the last two decades of n."""
    return [_class_claim(pick(rows, kernel=kernel), kernel) for kernel in KERNELS if pick(rows, kernel=kernel)]


def _class_claim(rows: Sequence[Row], kernel: str) -> Claim:
    numbers = {}
    last = max(row.n for row in pick(rows, reading="population"))
    for quantity in ("squared critical radius", "worst case over the ball"):
        far = [r for r in pick(rows, quantity=quantity, reading="population") if r.n >= last // 100]
        numbers[f"slope of {quantity}"] = slope(column(far, "n"), column(far, "mean"))
    rate = RATES[kernel]
    seen = ", ".join(f"{name} {value:.3f}" for name, value in numbers.items())
    seen += f" over n = {last // 100:.0e} to {last:.0e}"
    ok = all(abs(value - rate) < 0.03 for value in numbers.values())
    where, claim = "Corollary 1", f"The error of the {kernel} class falls like n^({rate:.3g})"
    if kernel in RANKS:
        rank, radii = RANKS[kernel], pick(rows, quantity="squared critical radius", reading="population")
        worst = pick(rows, quantity="worst case over the ball", n=last)[0].mean
        numbers["worst case x n / rank"] = worst * last / rank
        numbers["largest squared radius x n / rank"] = max(r.mean * r.n / rank for r in radii)
        seen += (
            f"; squared radius at most {numbers['largest squared radius x n / rank']:.1f} rank/n at every n, "
            f"worst case {numbers['worst case x n / rank']:.2f} rank/n at the last; "
            f"the slope is -1 from n = {_settled(rows):.0e} on"
        )
        where = "Corollary 2"
        claim = f"The error of the {kernel} class is at most a constant times rank / n, rank {rank} (E4)"
    return Claim(f"class-{kernel}", claim, where, seen, verdict(ok), numbers)


def _settled(rows: Sequence[Row]) -> float:
    """The n from which the local slope of the critical radius stays within 0.05 of -1."""
    part = by_size(rows, quantity="squared critical radius", reading="population")
    local = [slope([a.n, b.n], [a.mean, b.mean]) for a, b in pairwise(part)]
    off = [i for i, value in enumerate(local) if abs(value + 1) > 0.05]
    return float(part[off[-1] + 1].n if off else part[0].n)
