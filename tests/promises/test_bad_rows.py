"""Rows, responses and weights of every odd kind, through every method that takes them: a right answer or our error."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import stopwise as sw
from hostile import KERNEL, X, refused, watchdog, y
from stopwise.exceptions import StopwiseWarning

pytestmark = [
    pytest.mark.filterwarnings("ignore:X has feature names"),
    pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning"),
]
ESTIMATORS = [sw.KernelGradientRegressor, sw.KernelRidgeRegressor]
each_estimator = pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda cls: cls.__name__)


def spoilt(values, entry):
    out = np.array(values, dtype=float)
    out.flat[3] = entry
    return out


def frame(**columns):
    return pd.DataFrame({"a": X[:, 0], **columns})


def read_only(values):
    out = values.copy()
    out.flags.writeable = False
    return out


BAD_X = {
    "NaN": (lambda: spoilt(X, np.nan), "X contains NaN"),
    "infinity": (lambda: spoilt(X, -np.inf), "X contains infinity"),
    "None among objects": (lambda: np.where(X > 0.9, None, X.astype(object)), "X contains NaN"),
    "masked": (lambda: np.ma.masked_array(X, mask=X > 0.9), "masked entries, which count as missing"),
    "complex": (lambda: X + 1j, "Complex data not supported"),
    "text": (lambda: [["red", "blue"]] * 20, "could not convert string to float: 'red' ... encode"),
    "dates": (lambda: np.full((20, 2), np.datetime64("2020-01-01")), "X holds dates or durations"),
    "durations": (lambda: np.full((20, 2), np.timedelta64(3, "s")), "X holds dates or durations"),
    "sparse": (lambda: scipy.sparse.csr_array(X), "Sparse data was passed for X"),
    "no rows": (lambda: X[:0], "0 sample(s)"),
    "no columns": (lambda: X[:, :0], "0 feature(s)"),
    "one dimension": (lambda: X[:, 0], "Expected 2D array, got 1D array"),
    "three dimensions": (lambda: X[:, :, None], "Found array with dim 3"),
    "a number": (lambda: np.float64(3), "Expected 2D array, got scalar"),
    "None": (lambda: None, "Expected 2D array, got scalar"),
    "a word": (lambda: "X", "could not convert string to float: 'X'"),
    "a dictionary": (lambda: {"a": [1, 2]}, "X and y must be arrays of plain numbers"),
    "a generator": (lambda: (row for row in X), "X must be an array, got a generator"),
    "ragged": (lambda: [[1, 2]] * 19 + [[1]], "must all have the same number of entries"),
    "named fields": (lambda: np.array([(1.0, 2.0)] * 20, dtype=[("a", "f8"), ("b", "f8")]), "arrays of plain numbers"),
    "np.matrix": (lambda: np.asmatrix(X), "np.matrix is not supported"),
    "an integer past floats": (lambda: [[10**400, 1]] * 20, "a number is too large for a float"),
    "a frame with a name twice": (lambda: pd.DataFrame(X, columns=["a", "a"]), "columns of X share the name 'a'"),
    "a frame of mixed names": (lambda: pd.DataFrame(X, columns=["a", 1]), "Feature names are only supported if all"),
    "an empty frame": (lambda: pd.DataFrame(), "X is empty"),
    "a series": (lambda: pd.Series(X[:, 0]), "Expected a 2-dimensional container"),
}
TOO_LARGE = {"1e308": lambda: X * 1e308, "one entry of 1e308": lambda: spoilt(X, 1e308)}
"""Refused in a fit alone: a prediction that far away is known."""
FRAMES = {
    "a frame with NaN": (lambda: pd.DataFrame(spoilt(X, np.nan)), "X contains NaN"),
    "a frame with NA": (lambda: frame(b=pd.array([1, None] * 10, dtype="Int64")), "X contains NaN"),
    "a frame of categories": (lambda: frame(b=pd.Categorical(["u", "v"] * 10)), "could not convert string ... encode"),
    "a frame of text": (lambda: frame(b=["u", "v"] * 10), "could not convert string ... encode"),
    "a frame of dates": (lambda: frame(b=pd.date_range("2020", periods=20)), "X holds dates or durations"),
}
"""What a fit to a frame encodes; a model that was fitted to an array has no names to encode it by."""
SAME_X = {
    "float16 values": lambda: X.astype(np.float16),
    "long doubles": lambda: X.astype(np.longdouble),
    "integers": lambda: (X * 9).astype(int),
    "booleans": lambda: X > 0.5,
    "objects": lambda: X.astype(object),
    "numbers as text": lambda: X.astype(str),
    "nothing masked": lambda: np.ma.masked_array(X, mask=False),
    "a list": lambda: X.tolist(),
    "tuples": lambda: tuple(map(tuple, X)),
    "every second row of an array": lambda: np.repeat(X, 2, axis=0)[::2],
    "columns first": lambda: np.asfortranarray(X),
    "backwards": lambda: X[::-1].copy()[::-1],
    "the other byte order": lambda: X.astype(">f8"),
    "read-only": lambda: read_only(X),
    "a frame": lambda: pd.DataFrame(X, columns=["a", "b"]),
    "a frame of nullable integers": lambda: frame(b=pd.array([1, 2] * 10, dtype="Int64")),
    "a frame of truths": lambda: frame(b=[True, False] * 10),
    "1e200": lambda: X * 1e200,
    "1e-300": lambda: X * 1e-300,
    "zeros": lambda: X * 0,
}
BAD_Y = {
    "NaN": (lambda: spoilt(y, np.nan), "contains NaN"),
    "infinity": (lambda: spoilt(y, np.inf), "contains infinity"),
    "None among objects": (lambda: np.where(y > 0.5, None, y.astype(object)), "contains NaN"),
    "nothing but None": (lambda: [None] * 20, "contains NaN"),
    "masked": (lambda: np.ma.masked_array(y, mask=y > 0.5), "masked entries, which count as missing"),
    "complex": (lambda: y + 1j, "Complex data not supported"),
    "words": (lambda: ["low", "high"] * 10, "could not convert string to float ... encode"),
    "categories": (lambda: pd.Series(pd.Categorical(["low", "high"] * 10)), "could not convert string ... encode"),
    "dates": (lambda: pd.Series(pd.date_range("2020", periods=20)), "y holds dates or durations"),
    "sparse": (lambda: scipy.sparse.csr_array(y[:, None]), "Sparse data was passed for y"),
    "NA": (lambda: pd.Series(pd.array([1, None] * 10, dtype="Int64")), "contains NaN"),
    "three dimensions": (lambda: y[:, None, None], "Found array with dim 3"),
    "no columns": (lambda: np.empty((20, 0)), "0 feature(s)"),
    "too short": (lambda: y[:19], "19"),
    "too long": (lambda: np.append(y, 1), "21"),
    "empty": (lambda: y[:0], "0 sample(s)"),
    "a number": (lambda: 3.0, "at least 1 dimension ... array(3.)"),
    "a generator": (lambda: (value for value in y), "y must be an array, got a generator"),
    "a frame with a name twice": (
        lambda: pd.DataFrame(np.column_stack([y, y]), columns=["a", "a"]),
        "columns of y share the name 'a'",
    ),
    "an integer past floats": (lambda: [10**400] * 20, "a number is too large for a float"),
    "1e308": (lambda: y * 1e308, "y must lie between -1e+305 and 1e+305, got 1.05622e+308"),
    "both ends of the floats": (lambda: np.where(y > 0, 1.7e308, -1.7e308), "y must lie between ... got 1.7e+308"),
}
BAD_WEIGHTS = {
    "negative": (lambda: spoilt(np.ones(20), -1), "sample_weight must be finite and at least 0, got -1.0"),
    "NaN": (lambda: spoilt(np.ones(20), np.nan), "sample_weight must be finite and at least 0, got nan"),
    "infinite": (lambda: spoilt(np.ones(20), np.inf), "sample_weight must be finite and at least 0, got inf"),
    "nothing but None": (lambda: [None] * 20, "sample_weight must be finite and at least 0, got nan"),
    "all zero": (lambda: np.zeros(20), "not have zero weight, got 0"),
    "too short": (lambda: np.ones(19), "sample_weight must have one entry per row, 20; got shape (19,)"),
    "a column": (lambda: np.ones((20, 1)), "sample_weight must have one entry per row, 20; got shape (20, 1)"),
    "a negative number": (lambda: -2.0, "sample_weight must be finite and at least 0, got -2.0"),
    "a word": (lambda: "balanced", "sample_weight must hold real numbers, got 'balanced'"),
    "words": (lambda: ["1"] * 20, "sample_weight must hold real numbers, got ['1'"),
    "complex": (lambda: np.ones(20) + 0j, "sample_weight must hold real numbers"),
    "masked": (lambda: np.ma.masked_array(np.ones(20), mask=X[:, 0] > 0.5), "sample_weight has ... masked entries"),
    "sparse": (lambda: scipy.sparse.csr_array(np.ones((20, 1))), "sample_weight must hold real numbers"),
    "a generator": (lambda: (1 for _ in y), "sample_weight must be an array, got a generator"),
    "1e308": (lambda: np.full(20, 1e308), "sample_weight must be 0 or lie between 1e-100 and 1e+100, got 1e+308"),
    "1e-300": (lambda: np.full(20, 1e-300), "sample_weight must be 0 or lie between 1e-100 and 1e+100, got 1e-300"),
    "600 orders of magnitude": (lambda: np.geomspace(1e-300, 1e300, 20), "sample_weight must be 0 or lie between"),
}
METHODS = {
    "fit": lambda estimator, *rows: estimator(KERNEL).fit(*rows),
    "fit with everything chosen": lambda estimator, *rows: estimator().fit(*rows),
    "partial_fit": lambda estimator, *rows: estimator(KERNEL, n_landmarks=5).partial_fit(*rows),
    "second partial_fit": lambda estimator, *rows: (
        estimator(KERNEL, n_landmarks=5).partial_fit(X, y).partial_fit(*rows)
    ),
    "score": lambda estimator, *rows: estimator(KERNEL).fit(X, y).score(*rows),
}
each_method = pytest.mark.parametrize("method", METHODS)


def cases(table):
    return pytest.mark.parametrize(("make", "words"), table.values(), ids=table)


@each_estimator
@each_method
@cases(BAD_X)
def test_covariates_that_are_none_are_refused_everywhere(estimator, method, make, words):
    refused(lambda: METHODS[method](estimator, make(), y), words)


@each_estimator
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@cases(FRAMES)
def test_frames_are_encoded_where_arrays_would_be_refused(estimator, method, make, words):
    assert np.isfinite(METHODS[method](estimator, make(), y).predict(make())).all()
    refused(lambda: METHODS["second partial_fit"](estimator, make(), y), words)


@each_estimator
@pytest.mark.parametrize("std", [False, True])
@cases(BAD_X | FRAMES)
def test_nothing_is_predicted_from_them(estimator, std, make, words):
    model = estimator(KERNEL).fit(X, y)
    refused(lambda: model.predict(make(), return_std=std), words)


@each_estimator
@pytest.mark.parametrize("method", [name for name in METHODS if name != "score"])
@pytest.mark.parametrize("make", TOO_LARGE.values(), ids=TOO_LARGE)
def test_covariates_at_the_end_of_the_floats_are_not_fitted(estimator, method, make):
    refused(lambda: METHODS[method](estimator, make(), y), "X must lie between -1e+300 and 1e+300, got")


@each_estimator
@pytest.mark.parametrize("make", SAME_X.values(), ids=SAME_X)
def test_the_same_numbers_in_another_kind_of_array_give_the_same_fit(estimator, make):
    numbers = np.asarray(make()).astype(float)
    with watchdog():
        plain = estimator(KERNEL).fit(numbers, y)
        np.testing.assert_allclose(estimator(KERNEL).fit(make(), y).predict(make()), plain.predict(numbers), rtol=1e-9)
        np.testing.assert_allclose(plain.predict(make()), plain.predict(numbers), rtol=1e-9)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StopwiseWarning)
            assert np.isfinite(estimator().fit(make(), y).predict(make())).all()


@each_estimator
@pytest.mark.parametrize("make", TOO_LARGE.values(), ids=TOO_LARGE)
def test_far_away_predictions_are_those_of_an_empty_neighbourhood(estimator, make):
    model = estimator(KERNEL).fit(X, y)
    rows = make()
    far = np.abs(rows).max(axis=1) > 1e300
    np.testing.assert_allclose(model.predict(rows)[far], model.intercept_)


@each_estimator
@each_method
@cases(BAD_Y)
def test_responses_that_are_none_are_refused_everywhere(estimator, method, make, words):
    refused(lambda: METHODS[method](estimator, X, make()), words)


@each_estimator
@cases({name: case for name, case in BAD_Y.items() if name != "too long"})
def test_no_new_response_is_made_of_them(estimator, make, words):
    model = estimator(KERNEL).fit(X, y)
    before = model.predict(X)
    refused(lambda: model.refit(make()), words)
    np.testing.assert_array_equal(model.predict(X), before)


@each_estimator
@each_method
@cases(BAD_WEIGHTS)
def test_weights_that_are_none_are_refused_everywhere(estimator, method, make, words):
    refused(lambda: METHODS[method](estimator, X, y, make()), words)


@each_estimator
@pytest.mark.parametrize("total", [1.0, 0.2])
def test_weights_that_add_up_to_little_are_ratios_like_any_others(estimator, total):
    weights = np.full(20, total / 20)
    few = estimator(KERNEL).fit(X, y, weights).predict(X)
    np.testing.assert_allclose(few, estimator(KERNEL).fit(X, y, 1e6 * np.asarray(weights)).predict(X), rtol=1e-6)


@each_estimator
@pytest.mark.parametrize("kind", [list, pd.Series, np.float32, np.int8, object], ids=lambda kind: kind.__name__)
def test_weights_of_any_kind_count(estimator, kind):
    counts = np.arange(20) % 3
    given = kind(counts) if kind in (list, pd.Series) else counts.astype(kind)
    repeated = estimator(KERNEL).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    np.testing.assert_allclose(estimator(KERNEL).fit(X, y, given).predict(X), repeated.predict(X), rtol=1e-6)


@each_estimator
def test_what_a_fit_was_given_is_left_as_it_was(estimator):
    rows, response, weights = X.copy(), y.copy(), np.ones(20)
    estimator().fit(rows, response, weights).predict(rows)
    for before, after in ((X, rows), (y, response), (np.ones(20), weights)):
        np.testing.assert_array_equal(before, after)
