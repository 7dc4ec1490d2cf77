"""The classifier: scikit-learn's contract, labels of any type, probabilities that mean something, clear refusals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import stopwise as sw
from stopwise.estimators.fitted import fitted_of

GIVEN = sw.kernels.Gaussian(0.7)


@pytest.fixture(scope="module")
def moons():
    return make_moons(120, noise=0.3, random_state=0)


def run(check, estimator):
    """Some checks seed numpy's global generator themselves; it is put back as it was."""
    state = np.random.get_state()  # noqa: NPY002
    try:
        check(estimator)
    finally:
        np.random.set_state(state)  # noqa: NPY002


@parametrize_with_checks([sw.KernelGradientClassifier(sw.kernels.Gaussian(1.0))])
def test_every_check_of_scikit_learn_passes(estimator, check):
    run(check, estimator)


@pytest.mark.deep
@pytest.mark.filterwarnings("ignore:4 rows are too few:stopwise.estimators.doubts.TrustWarning")
@parametrize_with_checks([sw.KernelGradientClassifier()])
def test_every_check_of_scikit_learn_passes_with_everything_chosen(estimator, check):
    run(check, estimator)


@pytest.mark.parametrize(
    "labels",
    [np.array(["no", "yes"]), np.array(["no", "yes"], dtype=object), np.array([False, True]), np.array([-1.0, 7.0])],
)
def test_labels_of_any_type_come_back_and_change_nothing_else(moons, labels):
    X, y = moons
    plain = sw.KernelGradientClassifier(GIVEN).fit(X, y)
    named = sw.KernelGradientClassifier(GIVEN).fit(X, labels[y])
    assert set(named.predict(X)) <= set(labels)
    assert np.array_equal(named.predict_proba(X), plain.predict_proba(X))
    assert named.score(X, labels[y]) == plain.score(X, y)


@pytest.mark.parametrize(("loss", "share"), [("logistic", 1.0), ("exponential", 0.5)])
def test_scores_are_the_log_odds_of_the_second_class(moons, loss, share):
    """What is fitted is this share of them: under the exponential loss half."""
    X, y = moons
    model = sw.KernelGradientClassifier(GIVEN, loss=loss).fit(X, y)
    odds, p = model.decision_function(X), model.predict_proba(X)
    np.testing.assert_allclose(odds, np.log(p[:, 1] / p[:, 0]), rtol=1e-9, atol=1e-9)
    assert np.allclose(GIVEN(X, model.X_fit_) @ model.dual_coef_[:, 0] + model.intercept_[0], share * odds)


def test_scores_of_several_classes_sum_to_zero_and_order_the_classes():
    X, y = load_iris(return_X_y=True)
    model = sw.KernelGradientClassifier(sw.kernels.Gaussian(2.0)).fit(X[::2], y[::2])
    scores, p = model.decision_function(X), model.predict_proba(X)
    assert np.allclose(scores.sum(axis=1), 0, atol=1e-9)
    assert np.allclose(np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True), p)
    assert model.score(X[1::2], y[1::2]) > 0.93


def test_balanced_weights_are_those_weights(moons):
    X, y = moons
    rare = np.append(np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:15])
    X, y = X[rare], y[rare]
    weights = len(y) / (2 * np.bincount(y))[y]
    one = sw.KernelGradientClassifier(GIVEN, class_weight="balanced").fit(X, y)
    other = sw.KernelGradientClassifier(GIVEN).fit(X, y, sample_weight=weights)
    assert np.allclose(one.predict_proba(X), other.predict_proba(X))


def curve(n_classes, n=90):
    """Labels that a curve in one covariate makes likely."""
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(n, 1))
    return X, np.digitize(4 * (X[:, 0] - 0.5) + rng.logistic(size=n) / 2, [0.0, 1.0][: n_classes - 1]), rng


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_table_twice_and_equal_weights_of_rows_or_classes_are_no_weights(n_classes):
    X, y, _ = curve(n_classes)
    plain = sw.KernelGradientClassifier().fit(X, y)
    equal = sw.KernelGradientClassifier(class_weight=dict.fromkeys(range(n_classes), 3))
    for other in (
        sw.KernelGradientClassifier().fit(np.tile(X, (2, 1)), np.tile(y, 2)),
        sw.KernelGradientClassifier().fit(X, y, sample_weight=np.full(len(y), 2.0)),
        sw.KernelGradientClassifier().fit(X, y, sample_weight=np.full(len(y), 1e-3)),
        equal.fit(X, y),
    ):
        assert np.allclose(other.predict_proba(X), plain.predict_proba(X), atol=1e-6)
        assert other.stop_.evidence.criterion == pytest.approx(plain.stop_.evidence.criterion)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_whole_number_weights_are_rows_written_down_so_often(n_classes):
    X, y, rng = curve(n_classes)
    times = rng.integers(0, 4, len(y))
    rows = rng.permutation(np.repeat(np.arange(len(y)), times))
    for settings in ({}, {"class_weight": "balanced"}):
        one = sw.KernelGradientClassifier(**settings).fit(X, y, sample_weight=times)
        other = sw.KernelGradientClassifier(**settings).fit(X[rows], y[rows])
        assert np.allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-6)


def test_labels_that_agree_by_chance_are_an_observation_each():
    """On ten levels of X the likelihood of 0/1 labels is that of their sums."""
    rng = np.random.default_rng(5)
    X = rng.integers(0, 10, (500, 1)) / 9
    y = (rng.uniform(size=500) < 0.2 + 0.6 * X[:, 0]).astype(int)
    given = sw.KernelGradientClassifier(GIVEN).fit(X, y)
    table, times = np.unique(np.column_stack([X, y]), axis=0, return_counts=True)
    summed = sw.KernelGradientClassifier(GIVEN).fit(table[:, :1], table[:, 1].astype(int), sample_weight=times)
    assert np.allclose(given.predict_proba(X), summed.predict_proba(X), atol=1e-6)
    assert fitted_of(given).n_samples == 500
    nudged = sw.KernelGradientClassifier(GIVEN).fit(X + 1e-7 * rng.normal(size=X.shape), y)
    assert np.allclose(given.predict_proba(X), nudged.predict_proba(X), atol=5e-3)


def test_balanced_weights_order_rare_positives_as_well_and_tell_the_loss_they_have():
    rng = np.random.default_rng(0)

    def draw(n):
        X = rng.normal(size=(n, 2))
        return X, rng.uniform(size=n) < 1 / (1 + np.exp(3 - 1.5 * np.sin(2 * X[:, 0]) - X[:, 1]))

    (X, y), (new, seen) = draw(400), draw(4000)
    plain, even = (sw.KernelGradientClassifier(class_weight=each).fit(X, y) for each in (None, "balanced"))
    ranks = [roc_auc_score(seen, model.predict_proba(new)[:, 1]) for model in (plain, even)]
    assert ranks[1] > ranks[0] - 0.03
    weights = 1 / np.bincount(seen)[seen.astype(int)]
    truth = log_loss(seen, even.predict_proba(new), sample_weight=weights)
    assert even.stop_.evidence.criterion == pytest.approx(truth, rel=0.1)


def test_left_out_probabilities_are_calibrated_or_made_so(moons):
    X, y = moons
    found = sw.KernelGradientClassifier(GIVEN).fit(X, y).calibration_
    assert found.counts.sum() == pytest.approx(len(y))
    assert abs(found.slope - 1) <= 2 * found.standard_error or found.temperature == pytest.approx(1 / found.slope)
    assert "calibration slope" in str(found)


def test_the_published_path_runs_and_says_so(moons):
    X, y = moons
    model = sw.KernelGradientClassifier.as_published(sw.kernels.Gaussian(1.0)).fit(X, y)
    assert model.stop_.iteration >= 0
    assert "Functional descent" in sw.explain(model)


def test_the_stop_is_explained_and_shown(moons):
    X, y = moons
    model = sw.KernelGradientClassifier(GIVEN).fit(X, y)
    assert "left-out loss" in sw.explain(model)
    assert "left-out loss" in model._repr_html_inner()


def test_landmarks_stand_for_all_rows(moons):
    X, y = moons
    exact = sw.KernelGradientClassifier(GIVEN).fit(X, y)
    some = sw.KernelGradientClassifier(GIVEN, n_landmarks=60).fit(X, y)
    assert (exact.solver_, some.solver_) == ("exact", "landmarks")
    assert len(some.X_fit_) == 60
    assert np.abs(exact.predict_proba(X) - some.predict_proba(X)).max() < 0.05


def test_places_with_both_labels_are_no_landmarks(moons):
    X, y = moons
    both = sw.KernelGradientClassifier(GIVEN).fit(np.concatenate([X, X[:20]]), np.append(y, 1 - y[:20]))
    assert both.solver_ == "exact"
    assert len(both.X_fit_) == len(X)


def test_a_precomputed_matrix_serves_as_well_as_its_kernel(moons):
    X, y = moons
    one = sw.KernelGradientClassifier(GIVEN).fit(X, y)
    other = sw.KernelGradientClassifier("precomputed").fit(GIVEN(X), y)
    assert np.allclose(one.predict_proba(X[:9]), other.predict_proba(GIVEN(X[:9], X)), atol=1e-6)


def test_columns_that_say_nothing_are_left_out_of_the_kernel_and_names_are_kept(moons):
    X, y = moons
    frame = pd.DataFrame({"a": X[:, 0], "constant": 1.0, "b": X[:, 1]})
    model = sw.KernelGradientClassifier().fit(frame, y)
    assert list(model.feature_names_in_) == ["a", "constant", "b"]
    assert model.X_fit_.shape[1] == 2
    assert model.score(frame, y) > 0.8
    assert sum(row["chosen"] for row in model.selection_) == 1


@pytest.mark.parametrize("name", ["laplace", "matern32", "gaussian"])
def test_a_kernel_asked_for_by_name_is_the_one_that_is_used_even_where_a_straight_line_would_do(name):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = rng.random(200) < 1 / (1 + np.exp(-2 * X[:, 0] - X[:, 1]))
    model = sw.KernelGradientClassifier(name).fit(X, y)
    assert model.kernel_.name == name
    judged = [row for row in model.selection_ if row.get("left_out_loss") is not None]
    assert {row["kernel"] for row in judged} == {name}
    assert len(judged) == 3  # at its best length scale, a longer one, and nearly straight


X4 = np.arange(8.0).reshape(4, 2)


@pytest.mark.parametrize(
    ("y", "match"),
    [
        (["a", "a", "a", "a"], "at least 2 classes, got one class, 'a': look"),
        (["a", "a", "a", "b"], "has 1 row"),
        ([0.0, 1.0, np.nan, 1.0], "1 missing label"),
        (np.array(["a", None, "b", "b"], dtype=object), "1 missing label"),
        ([0.5, 1.5, 2.5, 0.5], "Unknown label type"),
    ],
)
def test_bad_labels_are_refused_and_leave_nothing_behind(y, match):
    model = sw.KernelGradientClassifier(GIVEN)
    with pytest.raises(ValueError, match=match):
        model.fit(X4, y)
    with pytest.raises(NotFittedError):
        model.predict(X4)


@pytest.mark.parametrize("weight", [0, -1, np.nan, np.inf])
def test_class_weights_that_are_no_weights_are_refused(moons, weight):
    with pytest.raises(ValueError, match="class_weight must be finite and above 0"):
        sw.KernelGradientClassifier(GIVEN, class_weight={0: 1, 1: weight}).fit(*moons)


def test_too_few_rows_to_choose_by_are_warned_of():
    with pytest.warns(sw.exceptions.StopwiseWarning, match="4 rows are too few to choose a kernel by"):
        sw.KernelGradientClassifier().fit(X4, [0, 1, 0, 1])


def test_mixed_labels_are_refused():
    with pytest.raises(TypeError, match="of one type"):
        sw.KernelGradientClassifier(GIVEN).fit(X4, np.array(["a", 1, "a", 1], dtype=object))


def test_unseen_labels_in_score_are_refused(moons):
    X, y = moons
    model = sw.KernelGradientClassifier(GIVEN).fit(X, y)
    with pytest.raises(ValueError, match="has not seen"):
        model.score(X, np.where(y == 1, 5, 0))


def test_the_exponential_loss_is_for_two_classes_and_rules_for_squares_are_refused(moons):
    X, y = moons
    with pytest.raises(ValueError, match="two classes"):
        sw.KernelGradientClassifier(GIVEN, loss="exponential").fit(X, y + (X[:, 0] > 1))
    with pytest.raises(ValueError, match="is a rule for"):
        sw.KernelGradientClassifier(GIVEN, rule="sure").fit(X, y)
    with pytest.raises(ValueError, match="loss must be one of"):
        sw.KernelGradientClassifier(GIVEN, loss="hinge").fit(X, y)


def test_what_is_told_of_a_stop_and_of_length_scales_is_of_the_fit_itself():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(150, 3)) * [1.0, 5.0, 0.2]
    label = np.where(X[:, 0] + 0.5 * rng.normal(size=150) > 0, "a", np.where(X[:, 1] > 2, "b", "c"))
    model = sw.KernelGradientClassifier(random_state=0).fit(X, label)
    told = model.stop_.evidence
    assert told.lowest <= told.criterion
    assert (told.lowest == told.criterion) == (told.lowest_step_sum == model.stop_.step_sum)
    scales = np.broadcast_to(model.kernel_.length_scale, 3)
    np.testing.assert_allclose([row["length_scale"] for row in model.selection_.features], scales)
    assert max(row["relevance"] for row in model.selection_.features) == pytest.approx(1.0)
