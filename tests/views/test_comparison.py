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


def wave(rng, n=80):
    x = np.sort(rng.uniform(size=n))[:, None]
    return x, np.sin(6 * x[:, 0]) + 0.2 * rng.normal(size=n)


@pytest.mark.parametrize(
    ("rule", "name"),
    [("gcv", "gcv"), (sw.rules.LeaveBlockOut(8), "leave-block-out, given"), (sw.rules.Prudent(0.0), "prudent, given")],
    ids=str,
)
def test_the_rule_that_was_given_stands_under_its_own_name(rule, name, rng):
    x, y = wave(rng)
    by_name = {row.rule: row.step_sum for row in sw.compare(x, y, kernel="gaussian", rule=rule).rows}
    plain = {row.rule: row.step_sum for row in sw.compare(x, y, kernel="gaussian", rule="prudent").rows}
    assert by_name.keys() - plain.keys() == {name} - plain.keys()
    assert by_name[name] == sw.KernelGradientRegressor("gaussian", rule=rule).fit(x, y).step_sum_
    if not isinstance(rule, sw.rules.LeaveBlockOut):  # which chooses another length scale
        assert by_name["prudent"] == plain["prudent"]


def test_the_rule_that_was_given_stands_under_its_own_name_for_classes(frame):
    rows = sw.compare(frame[["a"]], frame["label"], kernel="gaussian", rule="loo").rows
    names = {row.rule: row.step_sum for row in rows}
    plain = {row.rule: row.step_sum for row in sw.compare(frame[["a"]], frame["label"], kernel="gaussian").rows}
    assert names["loo"] == pytest.approx(plain["loo"], rel=1e-6)
    assert names["prudent"] == pytest.approx(plain["prudent"], rel=1e-6)


def test_on_a_line_every_row_is_that_of_all_eigenpairs(rng):
    x, y = wave(rng, 300)
    line, dense = (sw.compare(x, y, kernel="sobolev1", solver=solver).rows for solver in ("line", "dense"))
    for one, other in zip(line, dense, strict=True):
        assert one.rmse_loo == pytest.approx(other.rmse_loo, rel=0.003)
        assert one.degrees_of_freedom == pytest.approx(other.degrees_of_freedom, rel=0.15), one.rule


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"kernel": "precomputed"}, "a comparison splits rows, and a precomputed matrix is of all of them"),
        ({"loss": "huber"}, "a comparison is of rules on one path of squares, got loss='huber'"),
        ({"solver": "nystrom", "n_landmarks": 10}, 'solver="nystrom" has them on landmarks: use "dense" or "krylov"'),
    ],
    ids=["a matrix", "a loss", "landmarks"],
)
def test_a_fit_that_cannot_be_compared_is_refused_in_words(settings, match, rng):
    x, y = wave(rng, 40)
    if settings.get("kernel") == "precomputed":
        x = sw.kernels.Gaussian(0.2)(x)
    with pytest.raises(ValueError, match=match):
        sw.compare(x, y, **{"kernel": "gaussian"} | settings)


@pytest.fixture
def curve(rng):
    x = rng.uniform(size=(600, 1))
    return x, np.sin(6 * x[:, 0]) + 0.3 * rng.normal(size=600)


def held_out_stop(*rows, **settings):
    return next(row.step_sum for row in sw.compare(*rows, **settings).rows if row.rule == "holdout")


def test_the_hold_out_of_a_comparison_is_fitted_by_the_solver_of_the_comparison(curve, monkeypatch):
    exact = sw.KernelGradientRegressor(sw.kernels.Matern(0.5), rule="holdout", random_state=0).fit(*curve).stop_

    def none(operator):
        raise AssertionError("all eigenpairs were asked for")

    monkeypatch.setattr("stopwise.engine.solvers.dense_solver.dense_spectrum", none)
    found = held_out_stop(*curve, kernel=sw.kernels.Matern(0.5), solver="line")
    assert found == pytest.approx(exact.step_sum, rel=0.01)


def test_the_hold_out_of_a_comparison_keeps_copies_together(curve):
    x, y = curve
    once, twice = (held_out_stop(np.tile(x, (k, 1)), np.tile(y, k), kernel=sw.kernels.Matern(0.5)) for k in (1, 2))
    assert once == twice
