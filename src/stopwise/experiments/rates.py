"""RWY14 Fig. 2: how fast the error falls with the sample size, at hand and in the limit."""

import math
from collections.abc import Sequence

import numpy as np

from stopwise import noise as levels
from stopwise._support.arrays import Array, ArrayLike
from stopwise.experiments.batched_stops import stops
from stopwise.experiments.claims import FAILS, Claim, under, verdict
from stopwise.experiments.random_design import make_design
from stopwise.experiments.setting import FIG3_SIZES, descent, fig_setting, generator, grid_path
from stopwise.experiments.tally import Key, Row, Tally, column, computed, pick, tally
from stopwise.experiments.task import Config, Task, by_chunk
from stopwise.experiments.trials import Trials, draw_trials
from stopwise.rules import Critical, Minimax

NAME = "rates"
SIZES = tuple(range(10, 301, 10))
RANDOM_SIZES = (10, 20, 50, 100, 200, 300)
LIMIT_SIZES = (10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
QUICK = levels.HallMarron(), levels.Rice(), levels.GasserSrokaJennen(), levels.SpectralTail()
SLOW = levels.NearestNeighbour(), levels.ResidualGCV(), levels.Evidence()
"""Estimators that search for each response by itself: on fewer trials, at every fifth size."""
SLOW_TRIALS = 250
DESIGNS, DRAWS, DESIGN_CHUNK = 400, 25, 100
"""Random designs for each size (the mean over noise is exact given the design), draws on each for Hall-Marron, and
designs of one task."""


def tasks(config: Config) -> list[Task]:
    """Fixed designs by chunk of trials, random designs by chunk of designs, and the limit once."""
    alpha, seed = (config.alphas or (0.25,))[0], config.seed
    found = [Task(NAME, limit, (alpha,))]
    for n in config.sizes or SIZES:
        found += by_chunk(config, NAME, fixed, n, alpha)
    for n in config.sizes or RANDOM_SIZES:
        designs = max(2, min(config.trials // DRAWS, DESIGNS))
        for index, first in enumerate(range(0, designs, DESIGN_CHUNK)):
            count = min(DESIGN_CHUNK, designs - first)
            found.append(Task(NAME, random, (n, alpha, seed, index, count), count * DRAWS))
    return found


def _key(quantity: str, n: int, reading: str, noise: str, alpha: float) -> Key:
    return Key(NAME, quantity, n, "critical", reading, noise, alpha)


def fixed(n: int, alpha: float, seed: int, index: int, size: int) -> list[Tally]:
    """The rule's error on x = i/n with the noise level known or estimated."""
    trials = draw_trials(fig_setting(n), descent(alpha), generator(seed, NAME, n, index), size)
    known = stops(Critical(), trials)
    exact = trials.exact_risk(float(known[0]))
    found = [tally(_key("mse", n, "fixed design", "known", alpha), trials.errors(known), exact=exact)]
    found += [_estimated(trials, estimator, alpha) for estimator in QUICK]
    if index == 0 and n % 50 == 0:
        responses, told = trials.responses[:, :SLOW_TRIALS], trials.told[:SLOW_TRIALS]
        few = Trials(trials.setting, trials.filter, responses, told, trials.groups, trials.seeds)
        found += [_estimated(few, estimator, alpha) for estimator in SLOW]
    return found


def _estimated(trials: Trials, estimator: levels.NoiseEstimator, alpha: float) -> Tally:
    told = trials.told_by(estimator)
    errors = told.errors(stops(Critical(), told))
    return tally(_key("mse", trials.setting.n, "fixed design", estimator.name, alpha), errors)


def random(n: int, alpha: float, seed: int, index: int, count: int) -> list[Tally]:
    """Sample and population error on uniform random designs; given the design, exact over the noise."""
    rng = generator(seed, NAME + " random", n, index)
    exact, sampled = np.empty((2, count)), np.empty((2, count))
    for i in range(count):
        design = make_design(rng, n, descent(alpha))
        trials = draw_trials(design.setting, descent(alpha), rng, DRAWS, 1)
        at = float(stops(Critical(), trials)[0])
        exact[:, i] = design.path.risk(design.setting.truth, 1.0, at), design.population_risk(at)
        told = trials.told_by(levels.HallMarron())
        chosen = stops(Critical(), told)
        errors = told.errors(chosen), design.population_errors(chosen, told.responses)
        sampled[:, i] = errors[0].mean(), errors[1].mean()
    found = []
    for quantity, ours, theirs in zip(("mse", "population mse"), exact, sampled, strict=True):
        found.append(tally(_key(quantity, n, "random design", "known", alpha), ours))
        found.append(tally(_key(quantity, n, "random design", "hall-marron", alpha), theirs))
    return found


def limit(alpha: float) -> list[Tally]:
    """Squared critical radius, worst case over the ball and risk of the tent, on grids of up to a million points."""
    found = []
    for n in LIMIT_SIZES:
        path = grid_path(n, descent(alpha))
        stop = Critical().select(path, 1.0)
        at = np.asarray(stop.step_sum)
        numbers = {
            "squared critical radius": 1 / stop.details["critical_step_sum"],
            "worst case over the ball": float(Minimax(1.0).criterion(path, 1.0, 1.0, at)),
            "risk of this truth": float(path.mean_squared_residual(at)) + float(path.squared_gain_sum(at)) / n,
        }
        found += [computed(_key(name, n, "exact grid", "known", alpha), value) for name, value in numbers.items()]
    return found


def slope(sizes: ArrayLike, values: ArrayLike) -> float:
    """The least-squares slope of log value on log size."""
    return float(np.polyfit(np.log(np.asarray(sizes)), np.log(np.asarray(values)), 1)[0])


def slope_of(rows: Sequence[Row]) -> tuple[float, float]:
    """The slope of log mean on log n over rows of several sizes, and its Monte-Carlo standard error."""
    log_n = np.log(column(rows, "n"))
    weights = (log_n - log_n.mean()) / ((log_n - log_n.mean()) ** 2).sum()
    errors = column(rows, "standard_error") / column(rows, "mean")
    return slope(column(rows, "n"), column(rows, "mean")), float(np.sqrt(weights**2 @ errors**2))


def straightness(sizes: Array, values: Array, power: float) -> float:
    """R^2 of a line through value^power against size."""
    return float(np.corrcoef(sizes, values**power)[0, 1] ** 2)


def claims(rows: Sequence[Row]) -> list[Claim]:
    """Is it a line, what is the slope at hand, and what is it in the limit?"""
    found = []
    known = pick(rows, quantity="mse", reading="fixed design", noise="known")
    if len(known) >= 3:
        found += _line(known)
    far = [row for row in pick(rows, reading="exact grid") if row.n >= 10_000]
    if far:
        slopes = {
            name: slope(column(part, "n"), column(part, "mean"))
            for name in ("squared critical radius", "worst case over the ball", "risk of this truth")
            if (part := pick(far, quantity=name))
        }
        ok = all(abs(slopes[name] + 2 / 3) < 0.02 for name in list(slopes)[:2])
        seen = "slopes from n = 10,000 to 1,000,000: " + ", ".join(f"{k} {v:.3f}" for k, v in slopes.items())
        words = under("large n (10,000 and more), for the critical radius and the worst case") if ok else FAILS
        claim = "The error falls like n^(-2/3) for the first-order Sobolev class"
        found.append(Claim("rate-limit", claim, "eq. (optimal rate), Corollary 1", seen, words, slopes))
    return found + _random_claim(rows)


def _line(known: Sequence[Row]) -> list[Claim]:
    sizes, values = column(known, "n"), column(known, "exact")
    fit = straightness(sizes, values, -1.5)
    drawn = np.isin(sizes, FIG3_SIZES)
    powers = [p for p in np.arange(-4.0, -0.2, 0.25) if straightness(sizes, values, p) >= 0.99]
    at_hand = slope(sizes, values)
    seen = f"R^2 = {fit:.4f}"
    if powers:
        seen += f", but every power from {powers[0]:g} to {powers[-1]:g} gives R^2 of at least .99"
    seen += f"; largest simulated standard error {column(known, 'standard_error').max():.1g}"
    span = f"n = {sizes[0]:.0f} to {sizes[-1]:.0f}"
    rate = f"the slope of log MSE on log n over {span} is {at_hand:.3f}, not -0.667"
    numbers = {"R^2": fit, "slope": at_hand}
    if drawn.sum() >= 3:
        line, steep = straightness(sizes[drawn], values[drawn], -1.5), slope(sizes[drawn], values[drawn])
        numbers |= {"R^2 at the sizes of Fig. 3": line, "slope at the sizes of Fig. 3": steep}
        rate += f" ({steep:.3f} over the sizes of Fig. 3)"
        seen += f"; R^2 = {line:.4f} at the sizes of Fig. 3"
    linear, shows = "MSE^(-3/2) is linear in n over 10..300", "That line shows the rate n^(-2/3)"
    return [
        Claim("fig2-linear", linear, "Fig. 2 (b)", seen, verdict(fit > 0.99), numbers),
        Claim("fig2-rate", shows, "Fig. 2 (b)", rate, verdict(abs(at_hand + 2 / 3) < 0.05), numbers),
    ]


def _random_claim(rows: Sequence[Row]) -> list[Claim]:
    drawn = {r.n: r for r in pick(rows, quantity="population mse", reading="random design", noise="known")}
    fixed_rows = {r.n: r for r in pick(rows, quantity="mse", reading="fixed design", noise="known")}
    common = sorted(drawn.keys() & fixed_rows.keys())
    if not common:
        return []
    ratios = [drawn[n].mean / float(fixed_rows[n].exact or math.nan) for n in common]
    n = common[-1]
    seen = (
        f"population error {drawn[n].mean:.4f} (s.e. {drawn[n].standard_error or 0:.1g}) on random designs against "
        f"{fixed_rows[n].exact:.4f} on the grid at n = {n}; ratios {min(ratios):.2f} to {max(ratios):.2f} over n"
    )
    alike = verdict(max(abs(math.log(r)) for r in ratios) < 0.25)
    claim = "Uniform random designs behave like the equispaced one"
    return [Claim("fig2-random", claim, "text after Fig. 2", seen, alike, {"ratio": ratios[-1]})]
