"""Kernel boosting as published: f <- f - alpha K phi'(y, f) on the sample, K = Gram / n (Wei, Yang & Wainwright 2017).

In features Phi with Phi Phi' = Gram this is theta <- theta - (alpha / n) Phi' phi'(y, Phi theta), from theta = 0. For a
loss with curvature between m and M on the range of the iterates and alpha <= min(1/M, M), Theorem 1 covers
T = m / (8 M delta_n^2) steps, where delta_n is the critical radius of the kernel with constant 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from stopwise._support.arrays import Array
from stopwise.complexity import critical_radius
from stopwise.engine.loss_fits.loss_minimiser import LossProblem, Minimiser
from stopwise.losses import Loss
from stopwise.rules import Evidence, Reason, Stop

MOST_STEPS = 10_000


@dataclass(frozen=True)
class PublishedStop:
    """How many steps of which size the theorem covers, and from what."""

    steps: int
    step_size: float
    critical_radius: float
    noise_std: float


def published_stop(loss: Loss, eigenvalues: Array, reach: float, noise_std: float | None = None) -> PublishedStop:
    """T = floor(m / (8 M delta_n^2)) for eigenvalues of Gram / n; the noise is the slopes' sub-Gaussian parameter."""
    convexity = loss.convexity(reach)
    noise = convexity.noise_std if noise_std is None else noise_std
    if noise is None:
        raise ValueError(f"the slopes of the loss {loss.name!r} are not bounded: give noise_std, that of the responses")
    radius = critical_radius(eigenvalues, noise, constant=1.0)
    steps = math.floor(convexity.least / (8 * convexity.most * radius**2))
    return PublishedStop(steps, convexity.step_size, radius, noise)


def published_fit(problem: LossProblem, stop: PublishedStop) -> tuple[Minimiser, Stop]:
    """The last iterate the theorem covers, and the stop."""
    steps = min(stop.steps, MOST_STEPS)
    theta = np.zeros((problem.features.shape[1], problem.loss.width))
    rate = stop.step_size / problem.n_samples
    for _ in range(steps):
        theta = theta - rate * (problem.features.T @ problem.slopes(problem.features @ theta))
    reason = Reason.ZERO if steps == 0 else Reason.CAP if steps < stop.steps else Reason.CROSSING
    evidence = Evidence(
        rule="critical", constant=1.0, noise_std=stop.noise_std, critical_step_sum=1 / stop.critical_radius**2
    )
    told = Stop(steps, steps * stop.step_size, reason, evidence)
    return Minimiser(steps * stop.step_size, theta, problem), told
