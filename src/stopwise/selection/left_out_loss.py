"""Kernel and length scales for a loss: proposed by least squares, judged by the left-out loss.

The search for squares proposes: its own choice, the best of each kernel with one length scale, and longer ones, up to
nearly linear. Each is then walked along the clock with the loss itself on some hundred rows. As for squares the lowest
sum of left-out loss and evidence wins (`LossPath.score`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise._support.threads import blas_threads
from stopwise.engine.loss_fits.loss_path import LossPath, walk
from stopwise.engine.loss_fits.loss_rows import LossRows, enough_landmarks, kernel_problem
from stopwise.kernels import Gaussian, Kernel, Laplace
from stopwise.kernels.radial import Radial
from stopwise.losses import Loss
from stopwise.problem import make_problem
from stopwise.selection.choice import Chosen, choose_kernel, search_for
from stopwise.selection.kernel_search import Budget, Search
from stopwise.selection.result import Selection
from stopwise.selection.rows import Features, look_at_features

JUDGED_CLASSES, JUDGED_NUMBERS = (400, 150), (800, 200)
"""Rows and landmarks that candidates are judged on: of counts and residuals a few rows carry most of the loss."""
BUDGET = Budget(
    rows=200, more_rows=200, unseen_rows=300, steps_together=4, first_steps=3, steps=6, sharing=1, learned_further=0
)
"""The search that proposes; it is a quarter of what squares get, since the loss itself judges."""
LONGER, STRAIGHT = 4.0, 300.0
"""How much longer than the best a Gaussian's length scale is tried, and how many standard deviations (times the root of
their number) make it a linear kernel: curves are then penalised 10^5 times as much as lines."""
_KINDS: dict[str, Radial] = {"gaussian": Gaussian(), "laplace": Laplace()}
"""The smoothest and the roughest: an average of the two may be proposed as well."""


def choose_for_loss(
    rows: LossRows, loss: Loss, targets: Array, given: Kernel | None, relevance: bool | str, intercept: bool, seed: int
) -> Chosen:
    """The kernel for a loss; `targets` (n, q) stand for the responses where squares propose."""
    problem = make_problem(rows.covariates, targets, rows.weights, intercept=True, seed=seed)
    if given is not None and not given.needs_scale:
        return choose_kernel(problem, given, relevance)
    with blas_threads(1):
        kernels = tuple(_KINDS.values()) if given is None else (cast(Radial, given).with_length_scale(1.0),)
        wanted = relevance is True or (relevance == "auto" and given is None)
        proposed = search_for(problem, Search(kernels, per_feature=wanted, forced=relevance is True, budget=BUDGET))
        table = cast(Selection, proposed.table)
        x = rows.covariates if proposed.features is None else rows.covariates[:, proposed.features]
        n_judged, n_landmarks = JUDGED_CLASSES if loss.for_classes else JUDGED_NUMBERS
        picked = np.sort(np.random.default_rng(seed).permutation(len(rows.y))[:n_judged])
        sample = LossRows(x[picked], rows.y[picked], rows.weights[picked])
        if len(table) == 0 or len(np.unique(sample.y)) < 2:
            return proposed
        features = look_at_features(rows.covariates, rows.weights)
        candidates = [proposed.kernel] if relevance is True else _candidates(proposed.kernel, table, features)
        some = min(n_landmarks, len(sample.y))
        problems = ((each, kernel_problem(each, sample, loss, some, seed, intercept)) for each in candidates)
        judged = [(kernel, walk(problem, final=False)) for kernel, problem in problems]
    best, path = min(judged, key=lambda pair: round(pair[1].score, 9))
    table = _told(table, judged, best, len(sample.y))
    if isinstance(best, Radial):  # an average keeps the table of what was proposed
        scales = np.broadcast_to(np.asarray(best.length_scale, dtype=np.float64), features.spread.size)
        table = replace(table, features=features.table(scales, True))
    count = enough_landmarks(len(rows.y), len(sample.y), path.chosen.degrees_of_freedom / loss.width)
    return replace(proposed, kernel=best, table=table, landmarks=count)


def _candidates(proposed: Kernel, table: Selection, features: Features) -> list[Kernel]:
    """The proposal, the best of each kernel with one length scale, and the first of these at longer ones."""
    one_scale = [row for row in table if row["kernel"] in _KINDS and not row["per_feature"]]
    scored = [row for row in one_scale if row["score"] is not None and math.isfinite(row["score"])]
    ranked = sorted(scored, key=lambda row: (-row["rows"], row["score"]))
    best = {row["kernel"]: row for row in reversed(ranked)}
    out = [proposed, *(_KINDS[name].with_length_scale(row["length_scale"]) for name, row in best.items())]
    if best:
        smooth = best.get("gaussian", ranked[0])
        out.append(_KINDS[smooth["kernel"]].with_length_scale(LONGER * np.asarray(smooth["length_scale"])))
        out.append(Gaussian(tuple(STRAIGHT * math.sqrt(features.spread.size) * features.spread)))
    return list(dict.fromkeys(reversed(out)))


def _told(table: Selection, judged: Sequence[tuple[Kernel, LossPath]], best: Kernel, n_rows: int) -> Selection:
    rows = [
        {
            "kernel": kernel.name,
            "length_scale": list(np.atleast_1d(getattr(kernel, "length_scale", math.nan))),
            "rows": n_rows,
            "left_out_loss": path.lowest,
            "score": path.score,
            "chosen": kernel is best,
        }
        for kernel, path in sorted(judged, key=lambda pair: pair[0] is not best)
    ]
    told = "left-out loss" if rows[0]["score"] == rows[0]["left_out_loss"] else "sum of left-out loss and evidence"
    reason = f"{best.name} has the lowest {told}, {rows[0]['score']:.4g} a row, of {len(judged)} kernels"
    return replace(table, tried=(*rows, *({**row, "chosen": False} for row in table.tried)), reason=reason)
