"""The exact engine on a cluster: rows on the client, products and the Krylov basis on workers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise._support.dask import dask
from stopwise.engine.cluster.chunks import Chunks, Rows
from stopwise.engine.cluster.cluster_operator import ChunkedGram, OnCluster
from stopwise.engine.cluster.cluster_store import ClusterBasis, ClusterStore
from stopwise.engine.operators import Operator
from stopwise.engine.solvers.krylov_solver import KrylovSolver, canonical_order
from stopwise.engine.solvers.plan import Plan, Solution
from stopwise.engine.spectrum.block_krylov import Store
from stopwise.problem import Problem, make_problem


def chunk_covariates(rows: Rows, features: Any, dtype: str) -> Array:
    """The covariates of one chunk, as the kernel takes them."""
    if rows.weights is not None and not np.all(rows.weights > 0):
        raise ValueError('rows of weight zero must be left out before solver="krylov" on a cluster')
    covariates = rows.covariates if features is None else rows.covariates[:, features]
    return covariates.astype(dtype, copy=False)


class ClusterKrylov:
    """Block Krylov with row-chunked products on a connected client."""

    name = "krylov"

    def __init__(self, client: Any, chunks: Chunks, features: Any) -> None:
        self.client, self.chunks, self.features = client, chunks, features
        self._order: Array | None = None

    def whole(self, *, intercept: bool, seed: int) -> Problem:
        """All rows on the client: n d numbers, never n^2."""
        rows: list[Rows] = self.client.gather(self.client.compute(list(self.chunks.parts)))
        covariates = np.concatenate([part.covariates for part in rows])
        if self.features is not None:
            covariates = covariates[:, self.features]
        weights = None if rows[0].weights is None else np.concatenate([part.weights for part in rows])
        responses = np.concatenate([part.responses for part in rows])
        return make_problem(covariates, responses, weights, intercept=intercept, seed=seed)

    def _operator(self, problem: Problem, plan: Plan) -> Operator:
        take = dask().delayed(chunk_covariates, pure=False)
        dtype = np.dtype(plan.dtype).name
        chunks = self.client.compute([take(part, self.features, dtype) for part in self.chunks.parts])
        self._order = canonical_order(problem)
        gram = ChunkedGram(
            self.client,
            plan.kernel,
            problem.covariates,
            chunks,
            self.chunks.lengths,
            weights=problem.weights,
            centred=problem.intercept,
        )
        return cast(Operator, OnCluster(gram))

    def _store(self, operator: OnCluster, limit: int) -> Store:
        assert self._order is not None
        return ClusterStore(operator, self._order)

    def solve(self, problem: Problem, plan: Plan) -> Solution:
        """As `KrylovSolver.solve`; a basis too large for the client is left behind, and with it fitted values."""
        solution = KrylovSolver(self.name, self._operator, self._store).solve(problem, plan)
        spectrum = solution.path.spectrum
        basis: Any = spectrum.basis
        kept = None if isinstance(basis, ClusterBasis) else basis
        return replace(solution, path=replace(solution.path, spectrum=replace(spectrum, basis=kept)))
