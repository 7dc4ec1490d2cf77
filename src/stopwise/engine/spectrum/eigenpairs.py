"""Every eigenpair of a held matrix, and what rounding may have done to it."""

from typing import cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise.engine.operators.held_matrix import Dense
from stopwise.spectrum import Basis, Density, Spectrum, known_spectrum


class IndefiniteMatrix(ValueError):
    """A Gram matrix with an eigenvalue that is negative beyond rounding."""


def clean_eigenvalues(values: Array, precision: float, *, rounding: float = 0.0) -> Array:
    """Rounding's tiny negatives set to zero; a really negative one is an error that names it.

    `rounding`: what the arithmetic before the eigenvalues could have left behind on its own (centring a matrix that
    is nearly constant leaves little else); values up to it, of either sign, are zero.
    """
    values = np.where(np.abs(values) <= rounding, 0.0, values)
    largest, smallest = float(values.max(initial=0.0)), float(values.min(initial=0.0))
    if -smallest > np.sqrt(precision) * max(largest, -smallest * 1e-3):
        raise IndefiniteMatrix(
            f"the kernel matrix is not positive semi-definite: its smallest eigenvalue is {smallest:g} (largest "
            f"{largest:g}); pass a positive semi-definite kernel"
        )
    return cast(Array, np.maximum(values, 0.0))


def dense_spectrum(operator: Dense) -> Spectrum:
    """Every eigenpair, by LAPACK."""
    values, vectors = operator.eigh()
    precision = float(np.finfo(operator.gram.dtype).eps)
    # The trace before centring bounds every entry that was rounded on the way.
    weights = operator.root_weights**2
    before = float(np.abs(operator.gram.diagonal()).astype(np.float64) @ weights) / operator.n_samples
    projected = 1 if operator.fixed is None else 1 + operator.fixed.shape[1]
    values = clean_eigenvalues(values, precision, rounding=4 * projected * precision * before)
    density = Density(values, np.ones_like(values), operator.n_samples)
    largest = float(values.max(initial=0.0)) * (1 + 4 * precision * np.sqrt(max(values.size, 1)))
    return known_spectrum(values, density, largest, Basis(vectors))
