"""Comparisons in Python: one response or labels, and clear words for anything else."""

import numpy as np
import pandas as pd
import pytest

import stopwise as sw


@pytest.fixture
def frame(rng):
    made = pd.DataFrame({"a": rng.normal(size=90), "kind": rng.choice(["x", "y", "z"], 90)})
    made["label"] = np.where(made["a"] + (made["kind"] == "x") + 0.3 * rng.normal(size=90) > 0, "yes", "no")
    return made


@pytest.mark.parametrize("holdout", [0.0, 0.3])
def test_text_labels_are_compared_as_classes(frame, holdout):
    found = sw.compare(frame[["a", "kind"]], frame["label"], kernel="gaussian", holdout=holdout)
    assert [row.rule for row in found.rows] == ["prudent", "loo", "critical", "logistic regression, 5-fold"]
    assert (found.n_rows, found.n_holdout) == ((63, 27) if holdout else (90, 0))
    assert "left out loss" in str(found).splitlines()[0]
    if holdout:
        assert found.rows[0].accuracy_holdout > 0.7


def test_labels_of_an_array_are_those_of_a_series(frame):
    X = frame[["a"]].to_numpy()
    by_array = sw.compare(X, frame["label"].to_numpy(dtype="U3"), kernel="gaussian")
    assert by_array.rows[0].step_sum == sw.compare(X, frame["label"], kernel="gaussian").rows[0].step_sum


def test_a_comparison_of_classes_is_no_figure(frame):
    pytest.importorskip("matplotlib").use("Agg")
    found = sw.compare(frame[["a"]], frame["label"], kernel="gaussian")
    with pytest.raises(ValueError, match="this model has the loss logistic"):
        sw.plot.compare(found)


def test_one_column_is_one_response(rng):
    x, y = rng.uniform(size=(30, 1)), rng.normal(size=30)
    stops = [[row.step_sum for row in sw.compare(x, each, kernel="gaussian").rows] for each in (y, y[:, None])]
    assert stops[0] == stops[1]


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda y: np.c_[y, -y], r"one response, y of shape \(n,\), got shape \(30, 2\): compare one column at a time"),
        (lambda y: np.c_[y, -y].astype(str), r"got shape \(30, 2\): compare one column"),
        (lambda y: y[0], r"got shape \(\): compare one column"),
        (lambda y: y[:20], "inconsistent numbers of samples"),
        (lambda y: np.where(y > 0, y, np.nan), "NaN"),
        (lambda y: np.where(y > 0, "a", None), "missing labels"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_words(change, match, rng):
    x, y = rng.uniform(size=(30, 1)), rng.normal(size=30)
    with pytest.raises(ValueError, match=match):
        sw.compare(x, change(y), kernel="gaussian")
