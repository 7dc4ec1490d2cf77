"""RWY14 Fig. 4: the ridge path beside the descent path, on one clock."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from stopwise._typing import Array
from stopwise.experiments.claims import FAILS, HOLDS, Claim, under
from stopwise.experiments.setting import Setting, descent, fig_setting, generator
from stopwise.experiments.tally import Key, Row, Tally, computed, pick, tally
from stopwise.experiments.task import Config, Task
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
        found += [
            Task(NAME, chunk, (n, variance, alpha, config.seed, index, size), size) for index, size in config.chunks()
        ]
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
        best = int(np.argmin(gaps))
        numbers = {
            "largest gap, same clock": gaps[0],
            "best factor": float(factors[best]),
            "largest gap, best factor": gaps[best],
            "largest gap, t = nu, step 0.25": largest_gap(
                setting, {**paths, "descent": setting.path(descent(0.25))}, 0.25 * CLOCK, CLOCK
            ),
        }
        found += [computed(_key(word, setting, "both", alpha), value) for word, value in numbers.items()]
    return found


def largest_gap(setting: Setting, paths: dict[str, Path], descent_clock: Array, ridge_clock: Array) -> float:
    """max over the clock of the difference between the two exact risks."""
    risks = [
        path.risk(setting.truth, setting.noise_std, clock)
        for path, clock in zip((paths["descent"], paths["ridge"]), (descent_clock, ridge_clock), strict=True)
    ]
    return float(np.abs(risks[0] - risks[1]).max())


def claims(rows: Sequence[Row]) -> list[Claim]:
    """Alike on one clock."""
    numbers: dict[str, float] = {}
    for row in pick(rows, reading="both"):
        numbers[f"{row.quantity}, {row.noise}"] = row.mean
    same = {row.noise: row.mean for row in pick(rows, quantity="largest gap, same clock")}
    gap, gaps = max(same.values()), ", ".join(f"{value:.4f} at {noise}" for noise, value in same.items())
    apart = max(value for name, value in numbers.items() if name.startswith("largest gap, t = nu"))
    factor = numbers.get("best factor, variance 1", math.nan)
    seen = (
        f"largest gap between the mean errors when eta_t = nu: {gaps}; smallest at nu = {factor:.2f} eta_t; "
        f"{apart:.4f} if t itself is set against nu with step 0.25"
    )
    verdict = under("one clock, eta_t = nu (step 1)") if gap < 0.02 else FAILS
    found = [
        Claim(
            "fig4",
            "The ridge and descent paths have much the same error",
            "Fig. 4",
            seen,
            verdict,
            "stopwise reproduce ridge",
            numbers,
        )
    ]
    stops = {(row.reading, row.noise): row.mean for row in pick(rows, quantity="error at the stop")}
    worst = max(max(stops[a, v] / stops[b, v] for a, b in _PAIRS) for v in {noise for _, noise in stops})
    seen = "; ".join(
        f"{noise}: descent {stops['descent', noise]:.4f}, ridge {stops['ridge', noise]:.4f}"
        for noise in sorted({noise for _, noise in stops})
    )
    claim = "The same rule gives both estimates errors of the same order"
    verdict = HOLDS if worst < 2 else FAILS
    return [*found, Claim("fig4-stops", claim, "Proposition 1", seen, verdict, "stopwise reproduce ridge")]


_PAIRS = (("descent", "ridge"), ("ridge", "descent"))
