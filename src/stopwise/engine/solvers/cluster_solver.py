"""The exact engine on a cluster: rows and the Krylov basis on the client, products on workers."""

from __future__ import annotations

import numpy as np

from stopwise._support.arrays import Array, Index
from stopwise._support.dask import Client, dask
from stopwise.engine.cluster.chunks import Chunks, Rows
from stopwise.engine.cluster.cluster_operator import ChunkedGram
from stopwise.engine.operators import Operator
from stopwise.engine.solvers.krylov_solver import Host, KrylovSolver
from stopwise.engine.solvers.plan import Plan, Solution
from stopwise.problem import Problem, make_problem


def chunk_covariates(rows: Rows, features: Index | None, dtype: str) -> Array:
    """The covariates of one chunk, as the kernel takes them."""
    if rows.weights is not None and not np.all(rows.weights > 0):
        raise ValueError('rows of weight zero must be left out before solver="krylov" on a cluster')
    covariates = rows.covariates if features is None else rows.covariates[:, features]
    return covariates.astype(dtype, copy=False)


class ClusterKrylov:
    """Block Krylov with row-chunked products on a connected client."""

    name = "krylov"

    def __init__(self, client: Client, chunks: Chunks, features: Index | None) -> None:
        self.client, self.chunks, self.features = client, chunks, features

    def whole(self, *, intercept: bool, seed: int) -> Problem:
        """All rows on the client: n d numbers, never n^2."""
        rows: list[Rows] = self.client.gather(self.client.compute(list(self.chunks.parts)))
        covariates = np.concatenate([part.covariates for part in rows])
        if self.features is not None:
            covariates = covariates[:, self.features]
        weights = None if rows[0].weights is None else np.concatenate([part.weights for part in rows])
        responses = np.concatenate([part.responses for part in rows])
        if weights is not None:  # rows stay where their chunk is: copies are not looked for
            weights = weights / weights.mean()
        return make_problem(covariates, responses, weights, intercept=intercept, seed=seed)

    def _operator(self, problem: Problem, plan: Plan) -> Operator:
        take = dask().delayed(chunk_covariates, pure=False)
        dtype = np.dtype(plan.dtype).name
        chunks = self.client.compute([take(part, self.features, dtype) for part in self.chunks.parts])
        weights, centred, lengths = problem.weights, problem.intercept, self.chunks.lengths
        rows = problem.covariates
        return ChunkedGram(self.client, plan.kernel, rows, chunks, lengths, weights=weights, centred=centred)

    def solve(self, problem: Problem, plan: Plan) -> Solution:
        return KrylovSolver(self.name, Host(self._operator)).solve(problem, plan)
