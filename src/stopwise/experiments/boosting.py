"""Kernel boosting as published: logistic and exponential loss on the first-order Sobolev class (WYW17, Section 5).

Kernel 1 + min(x, z), x_i = i/n, truth abs(x - 1/2) - 1/4, labels of which the truth is the population minimiser; steps
T = (7n)^kappa of f <- f - alpha K phi'(y, f). The constants of the paper's figure are from memory: what is asked here
is which kappa is best, and how the error falls with n.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from stopwise._support.arrays import Array
from stopwise.engine.operators.running_sums import SortedLine
from stopwise.experiments.claims import Claim, shown, verdict
from stopwise.experiments.rates import slope_of
from stopwise.experiments.setting import equispaced, generator
from stopwise.experiments.tally import Key, Row, Tally, by_size, one, pick, tally
from stopwise.experiments.task import Config, Task, by_chunk
from stopwise.kernels import Sobolev
from stopwise.losses import Exponential, Logistic, Loss

NAME = "boosting"
SIZES = (100, 200, 400, 800)
KAPPAS = (1 / 3, 2 / 3, 1.0)
STEP_SIZE, MOST_TRIALS = 0.75, 300
"""The largest n is run for 7n steps in every trial, so that there are fewer trials than elsewhere."""
UNTOLD, LARGEST_ERROR = "cannot be told from these trials", 0.05
"""The verdict where stops are within two standard errors, or a slope is known no better than this."""
LOSSES: dict[str, Loss] = {"logistic": Logistic(), "exponential": Exponential()}


def tasks(config: Config) -> list[Task]:
    """A chunk of trials for each loss and size."""
    alpha = (config.alphas or (STEP_SIZE,))[0]
    few = replace(config, trials=min(config.trials, MOST_TRIALS))
    which = itertools.product(LOSSES, config.sizes or SIZES)
    return [task for name, n in which for task in by_chunk(few, NAME, chunk, name, n, alpha)]


def stops(n: int) -> list[int]:
    """T = (7n)^kappa, rounded."""
    return [round((7 * n) ** kappa) for kappa in KAPPAS]


def product(x: Array, block: Array) -> Array:
    """K block for the kernel 1 + min(x, z) over n; x ascending."""
    return SortedLine(Sobolev(1, anchored=False), x).own(block) / len(x)


def chunk(name: str, n: int, alpha: float, seed: int, index: int, size: int) -> list[Tally]:
    """Squared errors ||f_T - f*||_n^2 of each trial at each stop."""
    loss, x = LOSSES[name], equispaced(n)
    truth = np.abs(x - 0.5)[:, None] - 0.25
    draws = generator(seed, NAME, n, sorted(LOSSES).index(name), index).random((n, size))
    y = (draws < loss.natural(truth)[:, 1:]).astype(np.float64)
    f, done, found = np.zeros((n, size)), 0, []
    for kappa, stop in zip(KAPPAS, stops(n), strict=True):
        for _ in range(stop - done):
            f = f - alpha * product(x, loss.slope(y.ravel(), f.reshape(-1, 1)).reshape(n, size))
        done, error = stop, ((f - truth) ** 2).mean(axis=0)
        found.append(tally(Key(NAME, "error", n, "published", name, "labels", alpha, at=round(kappa, 2)), error))
    return found


def claims(rows: Sequence[Row]) -> list[Claim]:
    """Which kappa is best, and how fast the error falls with it."""
    return [claim for name in LOSSES for claim in (_best(rows, name), _rate(rows, name))]


def _best(rows: Sequence[Row], name: str) -> Claim:
    largest = max(row.n for row in pick(rows, reading=name))
    last = [one(rows, reading=name, n=largest, at=round(kappa, 2)) for kappa in KAPPAS]
    order = sorted(last, key=lambda row: row.mean)
    first, second = order[:2]
    gap = (second.mean - first.mean) / math.hypot(first.standard_error or 0, second.standard_error or 0)
    seen = f"n = {largest}: " + "; ".join(f"kappa {row.at:.2f}: {shown(row)}" for row in last)
    told = verdict(first.at == round(KAPPAS[1], 2)) if gap > 2 else UNTOLD
    numbers = {f"kappa {row.at:.2f}": row.mean for row in last}
    text = f"Of T = (7n)^kappa, kappa = .33, .67 and 1, the {name} loss is best stopped with .67"
    return Claim(f"boosting-{name}-kappa", text, "WYW17, Section 5", seen, told, numbers)


def _rate(rows: Sequence[Row], name: str) -> Claim:
    found = {kappa: slope_of(by_size(rows, reading=name, at=round(kappa, 2))) for kappa in KAPPAS}
    slope, error = found[KAPPAS[1]]
    seen = "; ".join(f"kappa {kappa:.2f}: slope {s:.3f} (s.e. {e:.1g})" for kappa, (s, e) in found.items())
    seen += "; the rate is asymptotic, and these are small samples"
    numbers = {f"slope, kappa {kappa:.2f}": s for kappa, (s, _) in found.items()}
    text = f"With kappa = .67 the error under the {name} loss falls like n^(-2/3)"
    told = verdict(abs(slope + 2 / 3) < 2 * error) if error < LARGEST_ERROR else UNTOLD
    return Claim(f"boosting-{name}-rate", text, "WYW17, Section 5", seen, told, numbers)
