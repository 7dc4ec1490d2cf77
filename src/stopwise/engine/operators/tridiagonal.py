"""Masses on a chain of springs: solves with diag(masses) + a tridiagonal stiffness, without a subtraction anywhere.

Formed as a matrix, a stiff spring swallows the masses beside it: at a million random places 1/gap reaches 10^12, and
five digits of every solution are gone. Eliminating from one end adds numbers of one sign only.
"""

from typing import cast

import numpy as np
from scipy.linalg import lapack

from stopwise._support.arrays import Array


def carried_masses(masses: Array, springs: Array) -> Array:
    """m_0 = masses_0 + springs_0 (its spring is fixed to the wall), m_i = masses_i + springs_i m / (m + springs_i).

    The recurrence is a fraction of two positive linear ones, so stretches of the chain are taken together: all at once
    one element after the other, then joined end to end, then all at once again from the right start.
    """
    first = masses[0] + springs[0]
    n = masses.size - 1
    if n == 0:
        return np.array([first])
    length = max(1, int(np.sqrt(n)))
    stretches = -(-n // length)
    padding = stretches * length - n
    # Elements past the end weigh nothing on infinitely stiff springs: they carry on what they are given.
    w = np.append(masses[1:], np.zeros(padding)).reshape(stretches, length).T.copy()
    soft = np.append(1.0 / springs[1:], np.zeros(padding)).reshape(stretches, length).T.copy()
    starts = _starts(w, soft, float(first))
    inside = np.empty_like(w)
    m = starts
    for step in range(length):
        m = w[step] + m / (1.0 + m * soft[step])
        inside[step] = m
    return np.append(first, inside.T.reshape(-1)[:n])


def _starts(w: Array, soft: Array, first: float) -> Array:
    """The mass carried into each stretch, from what each stretch does to any mass: m -> (a m + b) / (c m + d)."""
    stretches = w.shape[1]
    a, b, c, d = np.ones(stretches), np.zeros(stretches), np.zeros(stretches), np.ones(stretches)
    for mass, softness in zip(w, soft, strict=True):
        c, d = c + softness * a, d + softness * b
        a, b = a + mass * c, b + mass * d
        size = a + d
        a, b, c, d = a / size, b / size, c / size, d / size
    starts = np.empty(stretches)
    m = first
    for i, (p, q, r, s) in enumerate(zip(a.tolist(), b.tolist(), c.tolist(), d.tolist(), strict=True)):
        starts[i] = m
        m = (p * m + q) / (r * m + s)
    return starts


def solve(masses: Array, springs: Array, block: Array) -> Array:
    """(diag(masses) + stiffness)^-1 block, for springs between neighbours and from the first to the wall."""
    m = carried_masses(masses, springs)
    pivots = m + np.append(springs[1:], 0.0)
    if m.size == 1:
        return cast(Array, block / pivots[:, None])
    solution, failed = lapack.dpttrs(pivots, -springs[1:] / pivots[:-1], block)
    assert not failed
    return cast(Array, solution)
