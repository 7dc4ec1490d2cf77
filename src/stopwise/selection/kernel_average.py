"""Averages of kernels, where the data cannot tell the best one from them.

Kernels that predict left-out rows equally well may still part where there are no rows: a Gaussian that fits like a
Matern inside the data can run off a little outside. So the winner shares its place with the best of each other kind
unless it is better by more than chance: their average predicts as well, and never as badly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from stopwise.selection.length_scale import Candidate
from stopwise.selection.sample import Sample
from stopwise.selection.scores import Ridge

HEDGED_ROWS = 2500
"""Up to so many distinct rows: beyond, chance is small and a sum of kernels costs as many times more."""
_OWN_SHARE, _ISOTROPIC_SHARE = 0.6, 0.25
_CHANCE, _WORSE = 1.5, 2.0
"""Paired standard errors by which the average may be worse and still be taken, and how many times as large the error:
where a single row makes the standard error, it hides any difference."""


def families(tried: Sequence[Candidate]) -> list[Candidate]:
    """The best candidate of each kernel with one length scale, on the most rows it was scored on; best first."""
    best: dict[object, Candidate] = {}
    for candidate in tried:
        held = best.get(candidate.kernel)
        if not candidate.per_feature and (held is None or _order(candidate) < _order(held)):
            best[candidate.kernel] = candidate
    return sorted(best.values(), key=_order)


def _order(candidate: Candidate) -> tuple[int, float]:
    return -candidate.n_rows, round(candidate.score.total, 9)


def hedged(sample: Sample, best: Candidate, tried: Sequence[Candidate]) -> Candidate:
    """The winner, or the average it cannot be told from; one with a length scale per feature only if that is better.

    One length scale is averaged with the best of every kernel; one per feature with the best that has only one.
    """
    kinds = families(tried)
    if sample.n_distinct > HEDGED_ROWS or not kinds or (len(kinds) == 1 and not best.per_feature):
        return best
    if best.per_feature:
        shares, allowed = [(1 - _ISOTROPIC_SHARE, best), (_ISOTROPIC_SHARE, kinds[0])], 0.0
    else:
        others = [kind for kind in kinds if kind.kernel != best.kernel]
        shares = [(_OWN_SHARE, best), *(((1 - _OWN_SHARE) / len(others), kind) for kind in others)]
        allowed = _CHANCE
    together = replace(best, parts=tuple((share, part.kernel, part.scales) for share, part in shares))
    alone, joined = (Ridge(sample, candidate.gram(sample.covariates)) for candidate in (best, together))
    before, after = alone.left_out_rows(), joined.left_out_rows()
    gap = after - before
    error = float(gap.std()) / np.sqrt(gap.size)
    if float(gap.mean()) >= allowed * error or float(after.mean()) >= _WORSE * float(before.mean()):
        return best
    return replace(together, score=joined.score(), n_rows=sample.n_rows)
