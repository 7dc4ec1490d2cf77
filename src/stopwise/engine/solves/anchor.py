"""Ridge at all penalties near one, by one factor: C = A + a I is factored once, near the stop.

Solves with C span a space that holds ridge at the penalties around a (`GrowingSpace`), and Lanczos on C^-1 brackets
diagonal entries of the inverse there (`InverseEntries`). Together they leave out a random sample of rows, each alone
and exactly: e_i = [P y]_i / P_ii. A reading then costs next to nothing, and further points only where a bracket is too
wide; a penalty that is out of reach gets a factor of its own.

Where a sample alone would not do, every row is left out (`grow`): P_ii at the anchor is exact for all rows, and
how it changes with the penalty is learned from the sample, by a cubic. Rows with the largest errors are read like the
sample. It also corrects the mean squared error, and tells how much of the differences between penalties is guessed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stopwise._support.arrays import Array
from stopwise.engine.solves.costs import LEAST_LEFT_OUT, SINGLE_ROWS, UNSEEN
from stopwise.engine.solves.factor import Factor, left_alone
from stopwise.engine.solves.half_held import HalfHeld
from stopwise.engine.solves.inverse_entries import InverseEntries
from stopwise.engine.solves.resolvent_space import GrowingSpace
from stopwise.engine.solves.systems import KNOWN, RidgeSystem

_MOST_SOLVES = 40
"""Solves with the responses for one reading."""
FACTORS = 2.0
"""Points for the rows left out may take as long as so many factors: they serve several readings."""
_POINT = 6.0
"""A factor takes as long as n / 6 m points of m rows: n^3 / 6 multiplications against 2 n^2 m, at half the speed."""
_BRACKET = 2e-3
"""How far apart the two ends of a mean squared left-out error may be, relative to it, where some rows are left out
(chance is larger than that), instead of `KNOWN`; the value between them is off by about an eighth of it."""
EVERY_ROW = SINGLE_ROWS
"""Up to here every row is left out, with a factor at each penalty: a sample may miss the few rows that err most."""
_HEAVY = 3
"""Beside the sample, rows with the largest errors are read: one for so many of the sample."""
_SHARE = 1e-3
"""How much of the equations a solve may leave, relative to the left-out error,"""
_FINEST = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-5}
"""and relative to the responses: what rounding leaves of them."""


class _Anchor:
    """A factor at one penalty, and what was found out with it."""

    def __init__(self, held: HalfHeld, penalty: float, responses: Array) -> None:
        self.penalty, self.factor, self._order = penalty, held.factor(penalty), held.order
        self._space = GrowingSpace(self.factor, responses, held.n_samples)
        self._entries: dict[tuple[int, int, int], InverseEntries] = {}
        self.heaviest: Array | None = None
        """The rows with the largest left-out residuals here, once they are known."""

    def ridge(self, penalty: float, tol: float) -> Array | None:
        """P y at a penalty near; None where too many solves would be needed."""
        for _ in range(_MOST_SOLVES):
            solution, left = self._space.ridge(penalty)
            if left <= tol or not self._space.extend():
                return solution
        return None

    def extend(self, most: int) -> bool:
        """One more point for the rows that have the fewest; False where all have `most`."""
        fewest = min(self._entries.values(), key=lambda entries: entries.points, default=None)
        if fewest is None or fewest.points >= most:
            return False
        fewest.extend()
        return True

    @cached_property
    def whole_diagonal(self) -> Array:
        """P_ii at the anchor for all rows, in their own order."""
        return self.factor.inverse_diagonal()

    def inverse_diagonal(self, penalty: float, rows: Array) -> Array:
        """P_ii at a penalty near for some rows of the order that is held, and values on either side of it, (3, m)."""
        made, key = self.factor, (len(rows), int(rows[0]), int(rows[-1]))
        if penalty == self.penalty and len(rows) == len(made.lower):
            return np.stack([self.whole_diagonal[self._order]] * 3)
        if key not in self._entries:
            self._entries[key] = InverseEntries(made.lower, rows, made.penalty + made.shift)
        found = np.stack(self._entries[key].at(penalty - self.penalty))
        if made.constant is not None:
            found -= made.constant[rows] ** 2 / (made.scale + penalty + made.shift)
        return found


@dataclass(frozen=True)
class _Guess:
    """Residuals of some rows at one penalty: true ones, and those that were guessed as if they were not known."""

    rows: Array
    true: Array
    guessed: Array
    stand_for: float
    """Rows that were guessed without knowing better: sqrt(k (k / m - 1)) for m known ones among k."""

    def missed(self, other: _Guess) -> float:
        """Standard error of what guesses miss of differences in sums of squares; of the responses, the largest."""
        own, others = (each.true**2 - each.guessed**2 for each in (self, other))
        if np.array_equal(self.rows, other.rows):
            return self.stand_for * float((own - others).std(0).max())
        return math.hypot(self.stand_for * float(own.std(0).max()), other.stand_for * float(others.std(0).max()))


class AnchorSystem(RidgeSystem):
    """A matrix of which one half is held and the other takes a factor.

    The rows left out are the last ones of a random order; `counts`: observations that each row stands for; `shares`:
    what squares are multiplied by in comparisons; `fits_double`: memory would hold the matrix in float64, if penalties
    should ask for it.
    """

    def __init__(
        self,
        held: HalfHeld,
        responses: Array,
        counts: Array | None = None,
        *,
        shares: Array | None = None,
        fits_double: bool = True,
    ) -> None:
        super().__init__(responses, held.n_samples)
        self._held, self._counts, self._fits_double = held, counts, fits_double
        self._shares = np.ones(len(responses)) if shares is None else shares
        n = len(responses)
        self._groups = [slice(0 if n <= EVERY_ROW else max(n - LEAST_LEFT_OUT, 0), n)]
        self._anchor: _Anchor | None = None
        self._every_row = False
        self._guesses: dict[float, _Guess] = {}
        self._expected, self._error = math.nan, 1.0

    @property
    def _sample(self) -> Array:
        return np.concatenate([self._held.order[group] for group in self._groups])

    @property
    def rows_left_out(self) -> Array:
        return np.arange(len(self.responses)) if self._every_row else self._sample

    @property
    def weight(self) -> float:
        return float((self._held.root_weights[self.rows_left_out] ** 2).sum())

    @property
    def rounding(self) -> float:
        return 1e-6 if self._held.dtype == np.float32 else 1e-12

    @property
    def search_tol(self) -> float:
        return min(max(UNSEEN * self._error, 1e-6), 1e-4)

    @property
    def affordable(self) -> float:
        """A factor takes as long at any penalty, but float32 would round some away."""
        return 0.0 if self._fits_double else self._held.finest

    @property
    def factored(self) -> float | None:
        return None if self._anchor is None else self._anchor.penalty

    def multiply(self, block: Array) -> Array:
        self.tally.columns += block.shape[1]
        return self.n_samples * self._held.multiply(block)

    def expect(self, penalty: float, share: float) -> None:
        self._expected, self._error = penalty, min(share, 1.0)

    def grow(self) -> bool:
        """Guess the rows beside the sample, or take twice as many into it; False where it has all."""
        first = self._groups[-1].start
        if first > 0 and self._every_row:
            self._groups.append(slice(max(first - (len(self.responses) - first), 0), first))
        self._every_row = self._every_row or first > 0
        self._guesses.clear()
        return first > 0

    def guessed(self) -> float:
        known = list(self._guesses.values())
        return max((a.missed(b) for k, a in enumerate(known) for b in known[:k]), default=0.0) / self.n_samples

    def at(self, penalty: float, tol: float = 0.0) -> Factor:
        """The factor that is there if it is this penalty's, else another one."""
        if self._anchor is None or not math.isclose(self._anchor.penalty, penalty, rel_tol=1e-9):
            self._move(penalty)
        assert self._anchor is not None
        return self._anchor.factor

    def left_out(self, penalty: float) -> Array:
        """Each row alone."""
        if self._anchor is None:
            self._move(self._expected if self._reaches(self._expected, penalty) else penalty)
        found = self._read(penalty)
        if found is None:
            self._move(penalty)
            found = self._read(penalty)
        assert found is not None  # at the anchor itself nothing is bracketed
        return found

    def _move(self, penalty: float) -> None:
        self._anchor = None  # its memory is the next one's
        if penalty < 0.99 * self._held.finest:  # which may itself be asked for
            if not self._fits_double:
                raise MemoryError(
                    f"a penalty of {penalty:g} is below the rounding of float32 ({self._held.finest:g}), and "
                    f"{len(self.responses)} rows in float64 do not fit into memory: use "
                    'solver="nystrom" or an earlier stop'
                )
            self._held.in_float64()
        self.tally.products += 1
        self._anchor = _Anchor(self._held, penalty, self.responses)

    @property
    def _widest(self) -> float:
        return _BRACKET if self._groups[-1].start > 0 else KNOWN

    @property
    def _most_points(self) -> int:
        """Points that pay: where rows are few, a factor at each penalty is cheaper."""
        n = len(self.responses)
        return int(FACTORS / _POINT * n / (n - self._groups[-1].start))

    def _reaches(self, anchor: float, penalty: float) -> bool:
        """Whether so many points will do: k of them leave about 2 s^(2k + 1) (Golub & Meurant), s as below."""
        if self._most_points == 0:
            return penalty == anchor
        root = math.sqrt(penalty / anchor)
        ratio = abs(root - 1) / (root + 1)
        return bool(2 * ratio ** (2 * self._most_points + 1) <= self._widest)

    def _read(self, penalty: float) -> Array | None:
        """The same, or None where the anchor is too far off."""
        anchor = self._anchor
        if anchor is None or not self._reaches(anchor.penalty, penalty):
            return None
        solution = anchor.ridge(penalty, max(_SHARE * self._error, _FINEST[self._held.dtype]))
        places = self._places(anchor)
        while solution is not None:
            lefts = penalty * np.concatenate([anchor.inverse_diagonal(penalty, rows) for rows in places], axis=1)
            rows, residual = self._held.order[np.concatenate(places)], penalty * solution
            counts = None if self._counts is None else self._counts[rows]
            found, *ends = (left_alone(residual[rows], left, counts) for left in lefts)
            gap = np.abs((ends[0] ** 2).sum(0) - (ends[1] ** 2).sum(0))
            if np.all(gap <= self._widest * (found**2).sum(0)):
                return self._beside(anchor, penalty, residual, lefts[0], found, rows) if self._every_row else found
            if not anchor.extend(self._most_points):
                break
        return None

    def _places(self, anchor: _Anchor) -> list[Array]:
        """Which rows are read, as numbers in the order that is held: the sample, and those with the largest errors."""
        places = [np.arange(group.start, group.stop) for group in self._groups]
        if not self._every_row or self._groups[-1].start == 0:
            return places
        if anchor.heaviest is None:
            residual, left = anchor.factor.residual(self.responses), anchor.penalty * anchor.whole_diagonal
            errors = left_alone(residual, left, self._counts) ** 2
            size = (errors / errors.sum(0).clip(np.finfo(float).tiny)).sum(1)
            anchor.heaviest = np.argsort(-size)[: len(self._sample) // _HEAVY]
        heavy = np.flatnonzero(np.isin(self._held.order, np.setdiff1d(anchor.heaviest, self._sample)))
        return [*places, heavy] if heavy.size else places

    def _beside(
        self, anchor: _Anchor, penalty: float, residual: Array, left: Array, found: Array, rows: Array
    ) -> Array:
        """Residuals of all rows, from those `found` for some `rows` and what a fit leaves of these themselves, a P_ii.

        Chance is in those rows of the sample that are not among the heaviest.
        """
        here, n = anchor.penalty * anchor.whole_diagonal, len(self.responses)
        terms = ((here - here.mean()) / max(float(here.std()), 1e-300))[:, None] ** np.arange(4)
        change = np.linalg.lstsq(terms[rows], np.log(left / here[rows]), rcond=None)[0]
        every = left_alone(residual, np.minimum(here * np.exp(terms @ change), 1.0), self._counts)
        heavy = np.zeros(0, dtype=int) if anchor.heaviest is None else anchor.heaviest
        light = ~np.isin(rows, heavy)
        root = np.sqrt(self._shares[rows[light], None])
        true, guessed = root * found[light], root * every[rows[light]]
        factor = np.sqrt((true**2).sum(0) / (guessed**2).sum(0).clip(np.finfo(float).tiny))
        count, whole = int(light.sum()), n - len(heavy)
        stand_for = math.sqrt(whole * max(whole / max(count, 1) - 1, 0.0))
        self._guesses[penalty] = _Guess(rows[light], true, factor * guessed, stand_for)
        every *= factor
        every[rows] = found
        return every
