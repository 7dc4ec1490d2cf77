"""RWY14 Fig. 1: the error along the path, and where the rule stops on it."""

from collections.abc import Callable, Sequence

import numpy as np

from stopwise.complexity import TWO_E
from stopwise.experiments.claims import Claim, shown, verdict
from stopwise.experiments.setting import Setting, descent, fig_setting, generator
from stopwise.experiments.tally import Key, Row, Tally, computed, one, pick, tally
from stopwise.experiments.task import Config, Task
from stopwise.kernels import Gaussian, Kernel, Sobolev
from stopwise.rules import Critical, Oracle
from stopwise.rules.search import minimise

NAME = "path"
KERNELS: dict[str, Kernel] = {"sobolev1": Sobolev(1), "gaussian": Gaussian(1.0)}
LAST, SINGLE, BAND = 100, 3, (0.1, 0.9)
"""The last iteration drawn, single trials drawn, and the quantiles over trials of the band around the mean."""


def tasks(config: Config) -> list[Task]:
    """One panel each: kernel and step size. Quantiles need all trials at once; a path is short."""
    n = max(config.sizes or (100,))
    panels = [("sobolev1", 0.25), ("gaussian", 0.25), ("sobolev1", 1.0)]
    if config.alphas:
        panels = [(kernel, alpha) for kernel in KERNELS for alpha in config.alphas]
    return [Task(NAME, panel, (*which, n, config), config.trials) for which in panels]


def panel(kernel: str, alpha: float, n: int, config: Config) -> list[Tally]:
    """Mean, band and single trials of the error at t = 0, ..., 100, beside the exact risk."""
    setting = fig_setting(n, kernel=KERNELS[kernel])
    counts = np.arange(LAST + 1)
    sums, oracle = descent(alpha).step_sum(counts), Oracle(setting.truth)
    parts = []
    for index, size in config.chunks():
        rng = generator(config.seed, NAME, n, index)
        parts.append(oracle.criterion(setting.path(descent(alpha), setting.draw(rng, size)), sums))
    realised = np.concatenate(parts, axis=1)
    exact = setting.path(descent(alpha)).risk(setting.truth, 1.0, sums)
    low, high = np.quantile(realised, BAND, axis=1)

    def key(quantity: str, at: int | None = None) -> Key:
        return Key(NAME, quantity, n, "critical", alpha=alpha, kernel=kernel, noise="known", at=at)

    found = []
    for t in counts:
        found.append(tally(key("error", int(t)), realised[t], exact=float(exact[t])))
        found.append(computed(key("error, 10%", int(t)), low[t], trials=config.trials))
        found.append(computed(key("error, 90%", int(t)), high[t], trials=config.trials))
        singles = enumerate(realised[t, :SINGLE], start=1)
        found += [computed(key(f"error, trial {j}", int(t)), error, trials=1) for j, error in singles]
    return found + _landmarks(setting, alpha, key)


def _landmarks(setting: Setting, alpha: float, key: Callable[[str], Key]) -> list[Tally]:
    """Where the rule stops, where the mean curve is lowest, and the risk at both."""
    path = setting.path(descent(alpha))
    stop = Critical(TWO_E).select(path, 1.0)
    best = minimise(path, lambda s: path.risk(setting.truth, 1.0, s))
    return [
        computed(key("stop"), float(stop.iteration or 0)),
        computed(key("best iteration"), float(best.iteration or 0)),
        computed(key("risk at the stop"), float(path.risk(setting.truth, 1.0, stop.step_sum))),
        computed(key("least risk"), float(path.risk(setting.truth, 1.0, best.step_sum))),
    ]


def claims(rows: Sequence[Row]) -> list[Claim]:
    """Where the mean curve turns."""
    found = []
    for kernel, alpha in sorted({(row.kernel, row.alpha) for row in rows}, key=str):
        mine = pick(rows, kernel=kernel, alpha=alpha)
        best, stop = one(mine, quantity="best iteration"), one(mine, quantity="stop")
        least, at_stop = one(mine, quantity="least risk"), one(mine, quantity="risk at the stop")
        seen = (
            f"the mean curve is lowest at t = {best.mean:.0f} ({least.mean:.4f}); the rule stops at "
            f"t = {stop.mean:.0f} ({at_stop.mean:.4f})"
        )
        curve = {row.at: row for row in pick(mine, quantity="error")}
        if stop.mean in curve:
            seen += f", simulated {shown(curve[stop.mean])}"
        claim = f"Error is smallest before or around 20 iterations ({kernel} kernel, step {alpha:g})"
        numbers = {"best iteration": best.mean, "least risk": least.mean, "stop": stop.mean}
        found.append(Claim(f"fig1-{kernel}-{alpha:g}", claim, "Fig. 1", seen, verdict(best.mean <= 25), numbers))
    return found
