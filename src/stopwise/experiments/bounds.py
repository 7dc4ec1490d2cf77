"""RWY14 Theorems 1 and 2 and the ridge proposition: how often the bounds hold, and how much room they leave."""

import math
from collections.abc import Sequence

import numpy as np

from stopwise import complexity as theory
from stopwise._support.arrays import Array
from stopwise.experiments.claims import Claim, verdict
from stopwise.experiments.random_design import make_design
from stopwise.experiments.setting import FIG3_SIZES, Setting, descent, fig_setting, generator
from stopwise.experiments.tally import Key, Row, Tally, computed, pick, tally, tally_max
from stopwise.experiments.task import Config, Task, by_chunk
from stopwise.filters import Filter, Ridge, SteppedFilter
from stopwise.kernels import FromCallable
from stopwise.path import Path
from stopwise.rules import Critical, Oracle, clock_grid

NAME = "bounds"
ALPHAS = (0.25, 1.0)
RANDOM_SIZES = (30, 100, 300)
DESIGNS, DRAWS = 200, 50
"""Random designs for each size, and draws of the noise on each."""
EXAMPLE = ", identity kernel at clock 2"


def tasks(config: Config) -> list[Task]:
    """Upper bounds by chunk of trials; the lower bound exactly; Theorem 2 on random designs."""
    alphas, sizes, seed = config.alphas or ALPHAS, config.sizes or FIG3_SIZES, config.seed
    found = [Task(NAME, lower, (sizes, alphas)), Task(NAME, identity_kernel, ())]
    for n in sizes:
        found += by_chunk(config, NAME, upper, n, alphas)
    designs = max(2, min(config.trials // DRAWS, DESIGNS))
    for n in config.sizes or RANDOM_SIZES:
        found.append(Task(NAME, random, (n, alphas[0], seed, designs), designs * DRAWS))
    return found


def _key(quantity: str, n: int, reading: str, alpha: float | None) -> Key:
    return Key(NAME, quantity, n, "critical", reading, "known", alpha)


def upper(n: int, alphas: Sequence[float], seed: int, index: int, size: int) -> list[Tally]:
    """Theorem 1(a), (b) for each step size, and the ridge proposition, on the same responses."""
    setting = fig_setting(n)
    responses = setting.draw(generator(seed, NAME, n, index), size)
    found = []
    for alpha in alphas:
        found += _upper(setting, responses, descent(alpha), "descent", alpha)
    return found + _upper(setting, responses, Ridge(), "ridge", None)


def _upper(setting: Setting, responses: Array, filter: Filter, name: str, alpha: float | None) -> list[Tally]:
    path = setting.path(filter, responses)
    stop = Critical().select(setting.path(filter), setting.noise_std)
    last, critical = stop.step_sum, stop.details["critical_step_sum"]
    if isinstance(filter, SteppedFilter):
        clock = filter.step_sum(np.arange(1, (stop.iteration or 0) + 1))
        allowed = theory.bound_before_stop(clock)
    else:
        clock = np.geomspace(last / 100, last, 40)
        allowed = theory.ridge_bound_before_stop(clock)
    oracle, radius = Oracle(setting.truth), 1 / math.sqrt(critical)
    at_stop = oracle.criterion(path, np.array([last]))[0]

    def key(quantity: str) -> Key:
        return _key(quantity, setting.n, name, alpha)

    found = [tally(key("bound (b) holds"), (at_stop <= theory.bound_at_stop(radius)).astype(float))]
    found.append(tally_max(key("error / squared radius, largest"), at_stop / radius**2))
    if clock.size:  # T = 0 leaves part (a) nothing to say (E10)
        errors = oracle.criterion(path, clock)
        found.append(tally(key("bound (a) holds"), (errors <= allowed[:, None]).all(axis=0).astype(float)))
        found.append(tally_max(key("clock x error, largest"), (clock[:, None] * errors).max(axis=0)))
    return found


def lower(sizes: Sequence[int], alphas: Sequence[float]) -> list[Tally]:
    """Theorem 1(c): exact risk over the bound past the stop, as printed and as proved (E5), and for ridge."""
    found = []
    for n in sizes:
        setting = fig_setting(n)
        filters: list[tuple[str, float | None, Filter]] = [("descent", alpha, descent(alpha)) for alpha in alphas]
        for name, alpha, filter in [*filters, ("ridge", None, Ridge())]:
            path = setting.path(filter)
            clock = clock_grid(path)
            clock = clock[clock > Critical().select(path, 1.0).step_sum]
            for word, ratio in lower_ratios(path, setting.truth, clock).items():
                found.append(computed(_key(f"risk / bound (c) {word}, smallest", n, name, alpha), ratio))
    return found


def lower_ratios(path: Path, truth: Array, clock: Array) -> dict[str, float]:
    """The smallest of risk over bound on a clock: as printed, with the complexity squared, and as proved (E5)."""
    risk, complexity = path.risk(truth, 1.0, clock), theory.local_complexity_of(path.density, clock**-0.5)
    bounds = {
        "as printed": clock * complexity / 4,
        "with a square": clock * complexity**2 / 4,
        "as proved": theory.risk_lower_bound(path.density.values, clock, 1.0),
    }
    return {word: float((risk / bound).min()) for word, bound in bounds.items()}


def identity_kernel() -> list[Tally]:
    """E5's counterexample: k(x, z) = 1 where x = z, truth 0, sigma = alpha = 1, n = 100, at clock 2, and for ridge."""
    n, found = 100, []
    kernel = FromCallable(lambda X, Z: (X == Z.T).astype(float))
    setting = Setting(np.arange(1.0, n + 1), np.zeros(n), kernel)
    for name, filter in (("descent", descent(1.0)), ("ridge", Ridge())):
        for word, ratio in lower_ratios(setting.path(filter), setting.truth, np.array([2.0])).items():
            quantity, reading = f"risk / bound (c) {word}, smallest", name + EXAMPLE
            found.append(computed(Key(NAME, quantity, n, "critical", reading, "known", 1.0, "identity"), ratio))
    return found


def random(n: int, alpha: float, seed: int, designs: int) -> list[Tally]:
    """Theorem 2: population error over squared population radius, and the two radii beside each other."""
    rng = generator(seed, NAME + " random", n)
    leading = 4 / ((2 * np.arange(1, 2001) - 1) ** 2 * np.pi**2)
    radius = theory.population_critical_radius(leading, n, 1.0, trace=0.5)
    same = theory.population_critical_radius(leading, n, 1.0, constant=theory.TWO_E, trace=0.5)
    errors, empirical = np.empty((designs, DRAWS)), np.empty(designs)
    for i in range(designs):
        design = make_design(rng, n, descent(alpha))
        stop = Critical().select(design.path, 1.0)
        empirical[i] = 1 / math.sqrt(stop.details["critical_step_sum"])
        responses = design.setting.draw(rng, DRAWS)
        errors[i] = design.population_errors(np.full(DRAWS, stop.step_sum), responses)

    def key(quantity: str) -> Key:
        return _key(quantity, n, "random design", alpha)

    return [
        tally(key("population error / squared population radius"), errors.mean(axis=1) / radius**2),
        tally_max(key("population error / squared population radius, largest"), errors.ravel() / radius**2),
        tally(key("empirical / population radius, constant 2e"), empirical / same),
        tally(key("empirical / population radius, as printed"), empirical / radius),
    ]


def claims(rows: Sequence[Row]) -> list[Claim]:
    """Coverage of each part, with the room it leaves."""
    found = []
    for name, label, where in (("descent", "thm1", "Theorem 1"), ("ridge", "ridge", "Proposition 1")):
        mine = pick(rows, reading=name)
        first = 4 / math.e if name == "descent" else 2.0
        for part, quantity, limit in (("a", "clock x error", first), ("b", "error / squared radius", 12.0)):
            found.append(_coverage(mine, part, f"{quantity}, largest", limit, f"{label}-{part}", f"{where}({part})"))
        examples = pick(rows, reading=name + EXAMPLE)
        for short, word in (("printed", "as printed"), ("square", "with a square"), ("proved", "as proved")):
            found.append(_lower_claim([*mine, *examples], word, f"{label}-c-{short}", where))
    return found + _random_claims(rows)


def _coverage(rows: Sequence[Row], part: str, quantity: str, limit: float, key: str, where: str) -> Claim:
    holds, sizes = pick(rows, quantity=f"bound ({part}) holds"), pick(rows, quantity=quantity)
    least, largest = min(row.mean for row in holds), max(row.mean for row in sizes)
    trials = sum(row.trials for row in holds)
    seen = f"holds in {least:.2%} of {trials:,} trials at worst; largest value {largest:.2f} against {limit:.4g}"
    numbers = {"coverage": least, "largest": largest, "bound": limit}
    if at_100 := pick(sizes, n=100):
        numbers["largest at n = 100"] = max(row.mean for row in at_100)
        seen += f" ({numbers['largest at n = 100']:.2f} at n = 100)"
    bound = "4 / (e eta)" if "Theorem" in where else "2 / nu"
    before, after = f"Up to the stop the error is at most {bound}", "At the stop it is at most 12 critical_radius^2"
    return Claim(key, before if part == "a" else after, where, seen, verdict(least == 1), numbers)


_LOWER = {
    "as printed": "sigma^2/4 eta Rhat(eta^-1/2)",
    "with a square": "sigma^2/4 eta Rhat(eta^-1/2)^2, the complexity squared",
    "as proved": "sigma^2/(4n) sum min(1, (eta lambda)^2), what the lemmas prove (E5)",
}


def _lower_claim(rows: Sequence[Row], word: str, key: str, where: str) -> Claim:
    ratios = pick(rows, quantity=f"risk / bound (c) {word}, smallest")
    least = min(row.mean for row in ratios)
    seen = f"smallest risk over bound {least:.3g}"
    for row in pick(ratios, kernel="identity"):
        seen += f" ({row.mean:.3g} for the kernel 1{{x = z}} at clock 2)"
    claim = f"Past the stop the risk is at least {_LOWER[word]}"
    return Claim(key, claim, f"{where}(c)", seen, verdict(least >= 1), {"smallest": least})


def _random_claims(rows: Sequence[Row]) -> list[Claim]:
    ratio = pick(rows, quantity="population error / squared population radius, largest")
    if not ratio:
        return []
    largest = max(row.mean for row in ratio)
    radii = pick(rows, quantity="empirical / population radius, constant 2e")
    text = ", ".join(f"{row.mean:.3f} at n = {row.n}" for row in radii)
    seen = f"largest population error {largest:.3f} squared population radii; empirical over population radius {text}"
    claim = "On random designs the population error is at most a constant times the squared population radius"
    return [Claim("thm2", claim, "Theorem 2", seen, verdict(largest < 12), {"largest": largest})]
