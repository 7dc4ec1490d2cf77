"""The factor in the lower half of its matrix, by blocks and by one call of LAPACK."""

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st

from stopwise._support.array_library import factor_lower_half, library_of


def positive(n, dtype, seed):
    generator = np.random.default_rng(seed)
    root = generator.normal(size=(n, n + 5))
    return np.asarray(root @ root.T + np.eye(n), dtype=dtype, order="F")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(n=st.integers(1, 60), largest=st.integers(1, 70), seed=st.integers(0, 10**6))
def test_blocks_give_the_factor_of_lapack_and_leave_the_upper_half(dtype, n, largest, seed):
    matrix = positive(n, dtype, seed)
    expected = scipy.linalg.cholesky(matrix, lower=True)
    above = np.triu_indices(n, 1)
    matrix[above] = np.nan  # what is read spoils the factor
    assert factor_lower_half(matrix, largest)
    assert np.isnan(matrix[above]).all()
    np.testing.assert_allclose(np.tril(matrix), expected, rtol=0, atol=2e3 * np.finfo(dtype).eps * expected.max())


def test_thousands_of_rows_below_a_block_are_solved_by_parts():
    matrix = positive(2_800, np.float32, 0)
    expected = scipy.linalg.cholesky(matrix, lower=True)
    assert factor_lower_half(matrix, 700)
    np.testing.assert_allclose(np.tril(matrix), expected, rtol=0, atol=1e-4 * expected.max())


@pytest.mark.parametrize("row", [0, 5, 6, 14])
@pytest.mark.parametrize("largest", [6, 20])
def test_a_matrix_that_is_not_positive_definite_is_refused_wherever_it_shows(row, largest):
    matrix = positive(15, np.float64, 1)
    matrix[row, row] = -1.0
    assert not factor_lower_half(matrix, largest)


def test_the_door_clears_what_is_above_the_diagonal_and_takes_any_order():
    matrix = positive(9, np.float64, 2)
    expected = scipy.linalg.cholesky(matrix, lower=True)
    for given_as in (matrix.copy(order="F"), np.ascontiguousarray(matrix), np.repeat(matrix, 2, axis=1)[:, ::2]):
        np.testing.assert_allclose(library_of(matrix).cholesky(given_as), expected, rtol=1e-12)
    assert library_of(matrix).cholesky(-matrix) is None
