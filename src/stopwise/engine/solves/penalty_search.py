"""The default rule at a handful of penalties: the earliest stop within an allowance of the smallest left-out error.

Each reading costs a factor or a solve, so few are made. Between them the left-out residual of each row is interpolated
in log penalty (it is a ratio of smooth sums there), which gives means and paired standard errors at any penalty.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise.engine.solves.search_start import STRIDE, SearchStart, standard_error, start_from
from stopwise.filters import Filter, Ridge, sum_of_ridges
from stopwise.rules import Certainty, Reason, Rule, Stop
from stopwise.rules.base import stop_at
from stopwise.rules.prudent import SIGMAS, TIE, constant_stands

_LENGTHEN = 1.5
"""Strides to ever smaller penalties grow by this, so that a start that is far off costs few readings."""
_FINE = 0.02
"""Spacing of interpolated readings, in log penalty: the error of a stop moved by that is below 1e-4 of itself."""
_ORDER = 5
"""Readings that an interpolating polynomial goes through."""
_MOST_READINGS = 24
"""After so many the search ends with what it has: six to eight are enough in practice."""
OF_LARGEST = 1e3
"""The largest penalty read, times the largest eigenvalue of the unscaled matrix: nothing is fitted there."""
_TOGETHER, _READ_OFF = 8.0, 4.0
"""What a bound allows for beside `SIGMAS`: the variance that leaving rows out together adds, in units of their share;
and times the gap between two orders of interpolation. Chosen so that at most one in a hundred of 200 random problems
exceeds the bound (tests/engine/solvers/test_solves_solver.py)."""


@dataclass(frozen=True)
class FoundPenalty:
    """A penalty, the smallest error on the way to it, and how far sampling and interpolation may be off."""

    penalty: float
    criterion: float
    """Mean squared left-out residual at the penalty."""
    lowest: float
    lowest_penalty: float
    standard_error: float
    """Of criterion - lowest, for all rows: what the data cannot tell."""
    regret: float
    """A bound on what sampling, interpolation and unread penalties may lose, as a share of the criterion."""
    at_start: bool
    """No step is justified: the largest penalty is within the allowance."""
    at_end: bool
    """The smallest penalty allowed is the best."""
    lasting: float = 0.0
    """The part of the regret that no more rows lower: of penalties that are not affordable, of solves for sure."""
    unsolved: float = 0.0
    """The part of the regret that unfinished solves have."""
    left_out: Array | None = field(default=None, repr=False, compare=False)
    """Residuals of the rows left out at the penalty, where they are kept: of a sum of ridges near the filter,"""
    ridges: tuple[Array, Array] | None = field(default=None, repr=False, compare=False)
    """whose clock readings and weights these are."""

    def evidence(self, rule: Rule, n_samples: float) -> dict[str, Any]:
        """The fields of a stop's `Evidence` that rows left out give."""
        return {
            "rule": rule.name,
            "criterion": self.criterion,
            "lowest": self.lowest,
            "lowest_step_sum": n_samples / self.lowest_penalty,
            "standard_error": self.standard_error,
            "allowance": rule.left_out_allowance,
        }

    def stop(self, filter: Filter, rule: Rule, n_samples: float, certainty: Certainty) -> Stop:
        step_sum = 0.0 if self.at_start else n_samples / self.penalty
        reason = Reason.CAP if self.at_end else Reason.MINIMUM
        return replace(stop_at(filter, step_sum, reason, **self.evidence(rule, n_samples)), certainty=certainty)


@dataclass
class PenaltySearch:
    """`left_out(penalty)`: left-out residuals of some rows in weighted coordinates, (m,).

    `weight`: the samples that these rows stand for; `total`: those that all rows stand for, for whose standard
    error the allowance is meant. Equal where every row is read. `shares`: what their squares are multiplied by
    (`left_out_weights` over weights), None for one.
    """

    left_out: Callable[[float], Array]
    weight: float
    total: float
    smallest: float
    largest: float
    shares: Array | None = None
    allowance: float = 0.5
    together: float = 0.0
    """The share of rows left out at once, zero for one row: errors are then not quite those of leave-one-out."""
    guessed: Callable[[], float] = float
    """Standard error that guesses add to differences of mean squares; asked for when readings are done."""
    unsolved: Callable[[float], float] = lambda penalty: 0.0
    """Root mean square by which unfinished solves may put residuals off at a penalty that was read."""
    stride: float = STRIDE
    agree: float = 1e-4
    """Two orders of interpolation agree on an error to this share: then it is read off without another solve."""
    affordable: float = 0.0
    """No reading is made below: its solve would take too long. What another stride might gain is part of the regret."""
    filter: Filter = field(default_factory=Ridge)
    """What is fitted at the stop: its left-out residuals are kept, while ridge's choose the stop."""
    known: dict[float, Array] = field(default_factory=dict)
    off: dict[float, float] = field(default_factory=dict)
    """What `unsolved` says of each; nothing of those that were given."""

    def run(self, starts: Sequence[float], also: Sequence[float] = ()) -> FoundPenalty:
        """Readings around penalties until the rule's stop lies between them and interpolation can be trusted there.

        Around each of several `starts` a minimum is looked for, and the best of them decides. `also`: log penalties to
        read beside them, such as those that fewer rows left open.
        """
        low, high = self._range
        at = math.log(starts[0])
        for place in (at + self.stride, at, at - self.stride):  # the cheapest solve first: it starts the next
            self._read(min(max(place, low), high))
        for place in (*map(math.log, starts[1:]), *also):
            self._read(min(max(place, low), high))
        while len(self.known) < _MOST_READINGS:
            wanted = self._wanted(low, high, several=len(starts) > 1)
            if wanted is None:
                break
            self._read(wanted)
        return self.found()

    @property
    def _range(self) -> tuple[float, float]:
        smallest = max(self.smallest, self.affordable)
        return math.log(smallest), math.log(max(self.largest, smallest))

    def start(self, energy: float) -> SearchStart:
        """Where a search on more rows starts; `energy`: the sum of squares of these rows' responses."""
        _, _, (grid, squares, _) = self._decide()
        return start_from(grid, squares, energy)

    def still_open(self) -> tuple[float, ...]:
        """Log penalties read whose error might be the smallest of all rows', for all that chance allows."""
        places = sorted(self.known)
        squares = self._squares(np.stack([self.known[place] for place in places]))
        lowest = int(np.argmin(squares.sum(1)))
        gap = squares - squares[lowest]
        sure, rough = self._rough(np.array(places), squares.sum(1) / self.weight, lowest)
        above = gap.sum(1) / self.weight <= self._chance(gap, rough) + sure
        return tuple(place for place, may_be in zip(places, above, strict=True) if may_be)

    def _chance(self, gap: Array, rough: Array) -> Array:
        """How far means of paired differences (g, m) may be off: sampling, rows left out together, guesses, solves.

        `rough`: standard errors (g,) that unfinished solves add.
        """
        unsure = max(1 - self.weight / self.total, min(_TOGETHER * self.together, 1.0))
        sampled = self._spread(gap) * math.sqrt(max(unsure, 0.0))
        return cast(Array, SIGMAS * np.hypot(np.hypot(sampled, self.guessed()), rough))

    def _rough(self, at: Array, means: Array, chosen: int) -> tuple[Array, Array]:
        """What unfinished solves do to differences of means (g,) at readings from that at one of them.

        A residual e that is off by d has the square e^2 + 2 e d + d^2. The last is lost for sure, (g,); the middle one
        has mean zero, since the responses of rows left out took no part in d, and this standard error, (g,).
        """
        places = sorted(self.known)
        off = np.interp(at, places, [self.off.get(place, 0.0) for place in places])
        spread = 2 * off * np.sqrt(means / len(self.known[places[0]]))
        apart = np.arange(len(at)) != chosen
        return apart * np.maximum(off, off[chosen]) ** 2, apart * np.hypot(spread, spread[chosen])

    def _read(self, place: float) -> None:
        if place not in self.known:
            self.known[place] = self.left_out(math.exp(place))
            self.off[place] = self.unsolved(math.exp(place))

    def _wanted(self, low: float, high: float, *, several: bool) -> float | None:
        """The next reading: beyond an end that the stop has run into, or where interpolation is least sure.

        `several`: so for every minimum, not the smallest alone, as long as it may be the smallest.
        """
        places = sorted(self.known)
        best, stop, (grid, _, means) = self._decide()
        minima = _minima(grid, means) if several else [best]
        if minima[0] <= places[0] + _FINE and places[0] > low:
            return max(places[0] - _LENGTHEN * max(places[1] - places[0], self.stride), low)
        if max(minima[-1], stop) >= places[-1] - _FINE and places[-1] < high:
            return min(places[-1] + (self.stride if minima[-1] >= places[-1] - _FINE else 2 * self.stride), high)
        for place in (best, stop):
            if self._unread(place) > self.agree:
                return place
        for place in minima:
            unsure = self._unread(place)
            if unsure > self.agree and means[grid == place][0] * (1 - _READ_OFF * unsure) < means.min():
                return place
        return None

    def _unread(self, place: float) -> float:
        """What another reading there might change of the mean squared error, relative to it; zero beside a reading."""
        return self._doubt(place) if min(abs(place - p) for p in self.known) > _FINE else 0.0

    def _squares(self, residuals: Array) -> Array:
        """Squared residuals times their shares."""
        return cast(Array, residuals**2 if self.shares is None else self.shares * residuals**2)

    def _last_gain(self) -> float:
        """By what share the smallest penalty's error is below that of the next reading; infinite for one reading."""
        if len(self.known) < 2:
            return math.inf
        least, second = (float(self._squares(self.known[place]).sum()) for place in sorted(self.known)[:2])
        return max(second - least, 0.0) / max(least, np.finfo(float).tiny)

    def _interpolated(self, at: Array, order: int = _ORDER) -> Array:
        """Residuals at other readings, (g, m): by the polynomial through the nearest ones."""
        places = np.array(sorted(self.known))
        values = np.stack([self.known[p] for p in places.tolist()])
        order = min(order, len(places))
        weights = np.zeros((len(at), len(places)))
        for row, place in enumerate(at):
            near = np.sort(np.argsort(np.abs(places - place), kind="stable")[:order])
            for i in near:
                others = near[near != i]
                weights[row, i] = np.prod((place - places[others]) / (places[i] - places[others]))
        return cast(Array, weights @ values)

    def _left_out_at(self, stop: float) -> dict[str, Any]:
        """Residuals of the rows left out at the stop, under a sum of ridges near the filter that is fitted there."""
        places, top = np.array([stop, *sorted(self.known)]), self.largest / (OF_LARGEST * self.total)
        readings = self.total / np.exp(places)
        weights = sum_of_ridges(self.filter.bind(top), readings, top)
        each = np.vstack([self._interpolated(places[:1]), *(self.known[p] for p in places[1:])])
        return {"left_out": weights @ each, "ridges": (readings, weights)}

    def _doubt(self, place: float) -> float:
        """How far two orders of interpolation are apart in the mean squared error, relative to it."""
        at = np.array([place])
        order = min(_ORDER, len(self.known))
        many, few = (self._squares(self._interpolated(at, points)).sum() for points in (order, order - 1))
        return abs(float(many - few)) / max(float(many), np.finfo(float).tiny)

    def _grid(self) -> Array:
        places = sorted(self.known)
        between = np.linspace(places[0], places[-1], max(2, math.ceil((places[-1] - places[0]) / _FINE)))
        return np.unique(np.concatenate([between, places]))

    def _decide(self) -> tuple[float, float, tuple[Array, Array, Array]]:
        """Log penalties of the smallest error and of the stop; and the grid with squares and mean errors on it.

        The stop is the largest penalty where the constant fit stands.
        """
        grid = self._grid()
        squares = self._squares(self._interpolated(grid))
        means = squares.sum(1) / self.weight
        at = int(np.argmin(means))
        above, spread = self._excess(squares, squares[at])
        stop = int(np.flatnonzero(above <= self.allowance * spread + TIE * means[at])[-1])
        if self.allowance > 0 and grid[-1] >= self._range[1] - 1e-9 and self._constant_stands():
            stop = len(grid) - 1
        return float(grid[at]), float(grid[stop]), (grid, squares, means)

    def _constant_stands(self) -> bool:
        """Whether no reading is to be preferred to that of the largest penalty."""
        along = self._squares(np.stack([self.known[place] for place in sorted(self.known, reverse=True)]))
        return constant_stands(along.sum(1), lambda: self._excess(along, along[0]))

    def _excess(self, squares: Array, best: Array) -> tuple[Array, Array]:
        """How much larger means of squares (g, m) are than that of one reading, and all rows' standard error of it."""
        gap = squares - best
        return gap.sum(1) / self.weight, self._spread(gap) * math.sqrt(self.weight / self.total)

    def _spread(self, gap: Array) -> Array:
        """Standard error of the mean of paired differences, (g, m) -> (g,)."""
        return standard_error(gap) / self.weight

    def found(self) -> FoundPenalty:
        """The rule's stop, by the readings made so far."""
        low, high = self._range
        best, stop, (grid, squares, means) = self._decide()
        here, lowest = int(np.searchsorted(grid, stop)), int(np.searchsorted(grid, best))
        gap = squares[here] - squares
        share = math.sqrt(self.weight / self.total)
        criterion = float(means[here])
        sure, rough = self._rough(grid, means, here)
        chances = self._chance(gap, 0.0 * rough), self._chance(gap, rough), self._chance(gap, rough) + sure
        # Another stop than the rule's could be better by what the rule allows; only what sampling adds is lost.
        above = (gap.sum(1) - float(gap[lowest].sum())) / self.weight
        least = max(criterion, np.finfo(float).tiny)
        exact, by_chance, sampled = (
            max(float((above + each).max()), 0.0) / least if float(each.max()) > 0 else 0.0 for each in chances
        )
        between = [place for place in {best, stop} if min(abs(place - p) for p in self.known) > 1e-12]
        doubt = sum(map(self._doubt, between))
        ends_early = self.affordable > self.smallest and best <= low + _FINE
        unread = self._last_gain() if ends_early else 0.0
        # Between readings a stop is known to a step of the grid; at an end of the range it is the end itself.
        at_an_end = stop <= low + 1e-9 or stop >= high - 1e-9
        step = 0.0 if at_an_end else abs(float(means[min(here + 1, len(grid) - 1)] - means[max(here - 1, 0)])) / 2
        return FoundPenalty(
            penalty=math.exp(stop),
            criterion=criterion,
            lowest=float(means[lowest]),
            lowest_penalty=math.exp(best),
            standard_error=float(self._spread(gap[lowest : lowest + 1])[0]) * share,
            regret=sampled + _READ_OFF * (step / least + doubt) + unread,
            lasting=unread + sampled - by_chance,
            unsolved=sampled - exact,
            at_start=stop >= high - 1e-9,
            at_end=stop <= low + 1e-9 and not ends_early,
            **self._left_out_at(stop),
        )


def _minima(grid: Array, values: Array) -> list[float]:
    """Where values along a grid are lower than on either side, its ends included."""
    inner = np.concatenate([[np.inf], values, [np.inf]])
    return [float(place) for place in grid[(values < inner[:-2]) & (values <= inner[2:])]]
