"""Kernel boosting as published: f <- f - alpha K phi'(y, f) on the sample, K = Gram / n (Wei, Yang & Wainwright 2017).

In features Phi with Phi Phi' = Gram this is theta <- theta - (alpha / n) Phi' phi'(y, Phi theta), from theta = 0. For a
loss with curvature between m and M on the range of the iterates and alpha <= min(1/M, M), Theorem 1 covers
T = m / (8 M delta_n^2) steps, where delta_n is the critical radius of the kernel with constant 1.
"""

from __future__ import annotations

import math

import numpy as np

from stopwise._support.arrays import Array
from stopwise.complexity import critical_radius
from stopwise.engine.loss_fits.loss_minimiser import LossProblem, Minimiser
from stopwise.losses import Loss
from stopwise.rules import Evidence, Reason, Stop

MOST_STEPS = 10_000


def published_stop(loss: Loss, eigenvalues: Array, reach: float, noise_std: float | None = None) -> Stop:
    """T = floor(m / (8 M delta_n^2)) for eigenvalues of Gram / n; the noise is the slopes' sub-Gaussian parameter."""
    convexity = loss.convexity(reach)
    noise = convexity.noise_std if noise_std is None else noise_std
    if noise is None:
        raise ValueError(f"the slopes of the loss {loss.name!r} are not bounded: give noise_std, that of the responses")
    radius = critical_radius(eigenvalues, noise, constant=1.0)
    covered = math.floor(convexity.least / (8 * convexity.most * radius**2))
    steps = min(covered, MOST_STEPS)
    reason = Reason.ZERO if steps == 0 else Reason.CAP if steps < covered else Reason.CROSSING
    evidence = Evidence(rule="critical", constant=1.0, noise_std=noise, critical_step_sum=1 / radius**2)
    return Stop(steps, steps * min(1 / convexity.most, convexity.most), reason, evidence)


def published_fit(problem: LossProblem, stop: Stop) -> Minimiser:
    """The iterate at a stop that counts steps."""
    theta, steps = np.zeros((problem.features.shape[1], problem.loss.width)), stop.iteration or 0
    for _ in range(steps):
        slopes = problem.parts(problem.features @ theta)[1]
        theta = theta - stop.step_sum / steps / problem.n_samples * (problem.features.T @ slopes)
    return Minimiser(stop.step_sum, theta, problem)
