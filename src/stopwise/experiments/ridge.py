"""RWY14 Fig. 4: the ridge path beside the descent path, on one clock."""

import math
from collections.abc import Sequence

import numpy as np

from stopwise._support.arrays import Array
from stopwise.experiments.claims import FAILS, Claim, under, verdict
from stopwise.experiments.setting import Setting, descent, fig_setting, generator
from stopwise.experiments.tally import Key, Row, Tally, computed, pick, tally
from stopwise.experiments.task import Config, Task, by_chunk
from stopwise.filters import Filter, Ridge
from stopwise.path import Path
from stopwise.rules import Critical, Oracle

NAME = "ridge"
VARIANCES = (1.0, 2.0)
CLOCK = np.arange(1.0, 101.0)
"""Clock readings: nu of ridge, eta_t of descent with unit steps."""


def tasks(config: Config) -> list[Task]:
    """A chunk of trials for each noise variance, and the exact comparison."""
    n, alpha = max(config.sizes or (100,)), (config.alphas or (1.0,))[0]
    found = [Task(NAME, exact, (n, alpha))]
    for variance in VARIANCES:
        found += by_chunk(config, NAME, chunk, n, variance, alpha)
    return found


def _filters(alpha: float) -> dict[str, Filter]:
    return {"descent": descent(alpha), "ridge": Ridge()}


def _key(quantity: str, setting: Setting, name: str, alpha: float, at: float | None = None) -> Key:
    noise = f"variance {setting.noise_std**2:.0f}"
    return Key(NAME, quantity, setting.n, "critical", name, noise, alpha if name == "descent" else None, at=at)


def chunk(n: int, variance: float, alpha: float, seed: int, index: int, size: int) -> list[Tally]:
    """Mean error along both paths on the same responses, and at both chosen points."""
    setting = fig_setting(n, noise_std=math.sqrt(variance))
    responses = setting.draw(generator(seed, NAME, n, round(variance), index), size)
    found = []
    for name, filter in _filters(alpha).items():
        path = setting.path(filter, responses)
        chosen = Critical().select(setting.path(filter), setting.noise_std).step_sum
        clock = np.append(CLOCK, chosen)
        realised = Oracle(setting.truth).criterion(path, clock)
        means = path.risk(setting.truth, setting.noise_std, clock)
        for i, at in enumerate(CLOCK):
            found.append(tally(_key("error", setting, name, alpha, at), realised[i], exact=float(means[i])))
        found.append(tally(_key("error at the stop", setting, name, alpha), realised[-1], exact=float(means[-1])))
    return found


def exact(n: int, alpha: float) -> list[Tally]:
    """Both chosen points, the largest gap between the paths, and the factor between clocks that makes it least."""
    found = []
    for variance in VARIANCES:
        setting = fig_setting(n, noise_std=math.sqrt(variance))
        paths = {name: setting.path(filter) for name, filter in _filters(alpha).items()}
        for name, path in paths.items():
            stop = Critical().select(path, setting.noise_std)
            found.append(computed(_key("stop", setting, name, alpha), stop.step_sum))
        factors = np.arange(1.0, 3.001, 0.01)
        gaps = [largest_gap(setting, paths, CLOCK, factor * CLOCK) for factor in factors]
        best, slow = int(np.argmin(gaps)), {"descent": setting.path(descent(0.25))}
        numbers = {
            "largest gap, same clock": gaps[0],
            "best factor": float(factors[best]),
            "largest gap, best factor": gaps[best],
            "largest gap, t = nu, step 0.25": largest_gap(setting, paths | slow, 0.25 * CLOCK, CLOCK),
        }
        found += [computed(_key(word, setting, "both", alpha), value) for word, value in numbers.items()]
    return found


def largest_gap(setting: Setting, paths: dict[str, Path], descent_clock: Array, ridge_clock: Array) -> float:
    """max over the clock of the difference between the two exact risks."""
    clocks = {"descent": descent_clock, "ridge": ridge_clock}
    first, second = (paths[name].risk(setting.truth, setting.noise_std, clock) for name, clock in clocks.items())
    return float(np.abs(first - second).max())


def claims(rows: Sequence[Row]) -> list[Claim]:
    """Alike on one clock, and of one order at their stops."""
    return [_paths_claim(rows), _stops_claim(rows)]


def _paths_claim(rows: Sequence[Row]) -> Claim:
    numbers = {f"{row.quantity}, {row.noise}": row.mean for row in pick(rows, reading="both")}
    same = {row.noise: row.mean for row in pick(rows, quantity="largest gap, same clock")}
    apart = max(row.mean for row in pick(rows, quantity="largest gap, t = nu, step 0.25"))
    gaps = ", ".join(f"{value:.4f} at {noise}" for noise, value in same.items())
    seen = (
        f"largest gap between the mean errors when eta_t = nu: {gaps}; "
        f"smallest at nu = {numbers['best factor, variance 1']:.2f} eta_t; "
        f"{apart:.4f} if t itself is set against nu with step 0.25"
    )
    words = under("one clock, eta_t = nu (step 1)") if max(same.values()) < 0.02 else FAILS
    claim = "The ridge and descent paths have much the same error"
    return Claim("fig4", claim, "Fig. 4", seen, words, numbers)


def _stops_claim(rows: Sequence[Row]) -> Claim:
    stops = {(row.reading, row.noise): row.mean for row in pick(rows, quantity="error at the stop")}
    noises = sorted({noise for _, noise in stops})
    ratios = [stops["descent", noise] / stops["ridge", noise] for noise in noises]
    seen = "; ".join(f"{v}: descent {stops['descent', v]:.4f}, ridge {stops['ridge', v]:.4f}" for v in noises)
    claim = "The same rule gives both estimates errors of the same order"
    return Claim("fig4-stops", claim, "Proposition 1", seen, verdict(all(0.5 < ratio < 2 for ratio in ratios)))
