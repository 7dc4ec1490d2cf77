"""Ridge on a line in 50 digits: a plain Kalman filter and its adjoint in mpmath, O(n), with nothing clever in it.

Written from the textbook alone (Hartikainen & Sarkka 2010 for the states, de Jong 1989 for the adjoint) and carried in
`DIGITS`, so many that what cancels at gaps of 1e-12 (up to 60 digits) leaves 50. `dense` is the whole matrix, O(n^3).
"""

from __future__ import annotations

from dataclasses import dataclass

import mpmath as mp
import numpy as np

import stopwise as sw

DIGITS = 120


def kernel_of(kernel):
    """k(s, t) on mpmath numbers, written out from the docs."""
    if isinstance(kernel, sw.kernels.Sobolev):

        def spline(s, t):
            low, high = min(s, t), max(s, t)
            value = low if kernel.order == 1 else low * low * (3 * high - low) / 6
            return value if kernel.anchored else value + 1 + (s * t if kernel.order == 2 else 0)

        return spline
    rate = mp.sqrt(2 * kernel.smoothness) / mp.mpf(float(kernel.scales[0]))

    def matern(s, t):
        r = rate * abs(s - t)
        return mp.exp(-r) * {0.5: 1, 1.5: 1 + r, 2.5: 1 + r + r * r / 3}[kernel.smoothness]

    return matern


@dataclass(frozen=True)
class Exact:
    """Rounded to double at the very end; by row, or by new place."""

    residuals: np.ndarray
    leverages: np.ndarray
    log_determinant: float
    mean: np.ndarray
    variance: np.ndarray


def dense(kernel, x, y, penalty, new) -> Exact:
    """From the whole matrix, with an intercept."""
    with mp.workdps(DIGITS):
        k, a, n = kernel_of(kernel), mp.mpf(penalty), len(x)
        places, fresh = numbers(x), numbers(new)
        matrix = mp.matrix(
            [[k(s, t) + (a if i == j else 0) for j, t in enumerate(places)] for i, s in enumerate(places)]
        )
        inverse, ones, values = matrix**-1, mp.matrix([1] * n), mp.matrix(numbers(y))
        image = inverse * ones
        total = (ones.T * image)[0]
        projected = inverse - image * image.T / total
        dual = projected * values
        constant = (image.T * values)[0] / total
        determinant = mp.log(mp.det(matrix)) - n * mp.log(a) + mp.log(total * a / n)
        mean, variance = [], []
        for z in fresh:
            cross = mp.matrix([k(z, t) for t in places])
            mean.append((cross.T * dual)[0] + constant)
            spread = k(z, z) - (cross.T * inverse * cross)[0]
            variance.append(spread + (1 - (cross.T * image)[0]) ** 2 / total)
        left = [a * projected[i, i] for i in range(n)]
        return Exact(
            floats(a * d for d in dual), floats(1 - v for v in left), float(determinant), floats(mean), floats(variance)
        )


def by_states(kernel, x, y, penalty, new) -> Exact:
    """The same from the states; x and new in any order, all distinct."""
    with mp.workdps(DIGITS):
        a, n = mp.mpf(penalty), len(x)
        together = np.concatenate([x, new])
        order = np.argsort(together, kind="stable")
        places, values = numbers(together[order]), numbers(np.append(y, np.zeros(len(new)))[order])
        kept, determinant = _forward(kernel, places, values, order < n, a)
        solved, told = _backward(kept)
        duals, image = ([row[c] for row in solved.values()] for c in (0, 1))
        total = sum(image)
        constant = sum(duals) / total
        residuals, leverages = [None] * n, [None] * n
        mean, variance = [None] * len(new), [None] * len(new)
        for t, (u, ones, diagonal) in solved.items():
            residuals[order[t]] = a * (u - ones * constant)
            leverages[order[t]] = 1 - a * (diagonal - ones**2 / total)
        for t, (f, one, spread) in told.items():
            mean[order[t] - n] = f + (1 - one) * constant
            variance[order[t] - n] = spread + (1 - one) ** 2 / total
        determinant += mp.log(total * a / n)
        return Exact(floats(residuals), floats(leverages), float(determinant), floats(mean), floats(variance))


def numbers(values):
    """Doubles as they are."""
    return [mp.mpf(float(v)) for v in values]


def floats(values):
    return np.array([float(v) for v in values])


def _forward(kernel, places, values, observed, a):
    """Per place: A, the state before it (means of y and of ones; covariance), and 1 / F, v, K of a row."""
    move, covariance = states_of(kernel)
    p, kept, determinant, last = len(covariance), [], mp.mpf(0), None
    means = [[mp.mpf(0)] * 2 for _ in range(p)]
    for place, value, row in zip(places, values, observed, strict=True):
        matrix, noise = move(place if last is None else place - last, last is None)
        last = place
        means = times(matrix, means)
        covariance = plus(times(times(matrix, covariance), flipped(matrix)), noise)
        if not row:
            kept.append((matrix, means, covariance, None))
            continue
        variance = covariance[0][0] + a
        innovation = [value - means[0][0], 1 - means[0][1]]
        gain = [line[0] / variance for line in covariance]
        kept.append((matrix, means, covariance, (1 / variance, innovation, gain)))
        determinant += mp.log(variance / a)
        means = [
            [m + g * v for m, v in zip(line, innovation, strict=True)] for line, g in zip(means, gain, strict=True)
        ]
        covariance = [
            [c - g * other for c, other in zip(line, covariance[0], strict=True)]
            for line, g in zip(covariance, gain, strict=True)
        ]
    return kept, determinant


def _backward(kept):
    """C^-1 y, C^-1 1 and the diagonal of C^-1 by row; posterior means of both and the variance by new place."""
    p = len(kept[0][1])
    r, told = [[mp.mpf(0)] * 2 for _ in range(p)], [[mp.mpf(0)] * p for _ in range(p)]
    solved, new = {}, {}
    for t in range(len(kept) - 1, -1, -1):
        matrix, means, covariance, row = kept[t]
        if row is None:
            first = [covariance[0]]
            moved = times(first, r)[0]
            less = times(times(first, told), flipped(first))[0][0]
            new[t] = (means[0][0] + moved[0], means[0][1] + moved[1], covariance[0][0] - less)
        else:
            inverse, innovation, gain = row
            along = times([gain], told)[0]
            own = inverse + sum(s * g for s, g in zip(along, gain, strict=True))
            step = [v * inverse - s for v, s in zip(innovation, times([gain], r)[0], strict=True)]
            solved[t] = (*step, own)
            r = [[r[0][0] + step[0], r[0][1] + step[1]], *r[1:]]
            told = [list(line) for line in told]
            corner = told[0][0] - 2 * along[0] + own
            for i in range(1, p):
                told[0][i] = told[i][0] = told[i][0] - along[i]
            told[0][0] = corner
        back = flipped(matrix)
        r, told = times(back, r), times(times(back, told), matrix)
    return solved, new


def states_of(kernel):
    """How the state moves over a gap (matrix and noise), and its covariance where it starts."""
    if isinstance(kernel, sw.kernels.Sobolev):
        start = mp.mpf(0 if kernel.anchored else 1)
        if kernel.order == 1:
            return (lambda g, first: ([[mp.mpf(1)]], [[g]])), [[start]]

        def spline(g, first):
            return [[mp.mpf(1), g], [mp.mpf(0), mp.mpf(1)]], [[g**3 / 3, g**2 / 2], [g**2 / 2, g]]

        return spline, [[start, mp.mpf(0)], [mp.mpf(0), start]]
    rate = mp.sqrt(2 * kernel.smoothness) / mp.mpf(float(kernel.scales[0]))
    one, zero, third = mp.mpf(1), mp.mpf(0), mp.mpf(1) / 3
    limit = {
        0.5: [[one]],
        1.5: [[one, zero], [zero, one]],
        2.5: [[one, zero, -third], [zero, third, zero], [-third, zero, one]],
    }[kernel.smoothness]

    def matern(g, first):
        s = zero if first else rate * g
        shift = {
            0.5: [[one]],
            1.5: [[1 + s, s], [-s, 1 - s]],
            2.5: [
                [1 + s + s * s / 2, s + s * s, s * s / 2],
                [-s * s / 2, 1 + s - s * s, s - s * s / 2],
                [s * s / 2 - s, s * s - 3 * s, 1 - 2 * s + s * s / 2],
            ],
        }[kernel.smoothness]
        matrix = [[mp.exp(-s) * entry for entry in line] for line in shift]
        lost = times(times(matrix, limit), flipped(matrix))
        return matrix, [[c - d for c, d in zip(*lines, strict=True)] for lines in zip(limit, lost, strict=True)]

    return matern, limit


def times(left, right):
    columns = flipped(right)
    return [[sum(a * b for a, b in zip(row, column, strict=True)) for column in columns] for row in left]


def plus(left, right):
    return [[a + b for a, b in zip(*lines, strict=True)] for lines in zip(left, right, strict=True)]


def flipped(matrix):
    return [list(column) for column in zip(*matrix, strict=True)]
