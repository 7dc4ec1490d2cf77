"""Of kernels that rows on a line barely tell apart, the roughest is taken."""

import numpy as np
import pytest

import stopwise as sw
from stopwise.engine.line.scores import ScaleFound
from stopwise.selection.choice import roughest_of_the_best


def found(states, score):
    return ScaleFound(states, 1.0, score, 0.0, 0.0, 1.0, 300)


@pytest.mark.parametrize(
    ("scores", "states"),
    [
        ({3: -2.0, 2: -1.9, 1: -1.8}, 3),  # 10 and 20 of 4 allowed: told apart
        ({3: -2.0, 2: -1.97, 1: -1.9}, 2),  # 3, and 10
        ({3: -1.99, 2: -1.9, 1: -2.0}, 1),  # the roughest is the best
        ({3: -2.0, 2: -1.9, 1: -1.961}, 1),  # 3.9: one in between may be worse
        ({3: -2.0}, 3),
    ],
)
def test_the_roughest_within_four_of_the_lowest_score_is_taken(scores, states):
    candidates = [found(p, score) for p, score in scores.items()]
    assert roughest_of_the_best(candidates, 100.0).states == states
    assert roughest_of_the_best(candidates[::-1], 100.0).states == states


def fitted(truth, noise, n=1500):
    rng = np.random.default_rng(3)
    x = rng.random(n)
    model = sw.KernelGradientRegressor().fit(x[:, None], truth(x) + noise * rng.standard_normal(n))
    return model, {row["kernel"]: n * row["score"] for row in model.selection_}


def test_a_wave_is_told_from_rough_curves_and_gets_the_smooth_kernel():
    model, scores = fitted(lambda x: np.sin(12 * x), 0.1)
    assert scores["matern52"] < min(scores.values()) + 1e-9
    assert scores["matern52"] < scores["matern32"] - 4
    assert model.kernel_.smoothness == 2.5


def test_a_bend_in_noise_is_not_told_and_gets_the_roughest_of_the_tied_kernels():
    model, scores = fitted(lambda x: x + 2 * np.maximum(x - 0.6, 0), 1.0)
    tied = [name for name in ("laplace", "matern32", "matern52") if scores[name] <= min(scores.values()) + 4]
    assert len(tied) > 1
    assert model.selection_[0]["chosen"]
    assert model.selection_[0]["kernel"] == tied[0]


@pytest.mark.filterwarnings("ignore:left-out blocks:stopwise.rules.DependentRowsWarning")
def test_where_neighbours_share_their_noise_no_tie_is_broken_towards_the_rougher():
    rng = np.random.default_rng(901)
    x, noise = np.sort(rng.random(400)), rng.standard_normal(400)
    for i in range(1, 400):
        noise[i] = 0.8 * noise[i - 1] + 0.6 * noise[i]
    model = sw.KernelGradientRegressor(rule=sw.rules.LeaveBlockOut(20)).fit(x[:, None], np.sin(6 * x) + 0.5 * noise)
    scores = [row["score"] for row in model.selection_]
    assert scores[0] == min(scores)
    assert 20 * (sorted(scores)[1] - scores[0]) < 4  # twenty means of blocks barely tell the kernels apart


def skewed(n, seed=0):
    rng = np.random.default_rng(seed)
    x, new = np.exp(rng.standard_normal((n, 1))), np.exp(rng.standard_normal((400, 1)))
    return x, np.sin(2 * np.log(x[:, 0])) + 0.2 * rng.standard_normal(n), new, np.sin(2 * np.log(new[:, 0]))


def test_a_skewed_covariate_is_drawn_in_however_many_rows_it_has():
    """It was below 300 places only: of a wave in log x, 320 rows were predicted worse than 280."""
    errors = []
    for n in (280, 320, 1_200):
        x, y, new, truth = skewed(n)
        model = sw.KernelGradientRegressor().fit(x, y)
        errors.append(np.sqrt(np.mean((model.predict(new) - truth) ** 2)))
        assert isinstance(model.kernel_, sw.kernels.Warped)
        assert model.selection_.features[0]["power"] < 0.5
        assert "drawn in by" in model.selection_.reason
    assert model.solver_ == "line"
    assert errors[1] < 1.1 * errors[0]
    assert errors[2] < 0.6 * errors[0]


def test_a_covariate_that_is_not_skewed_or_gains_nothing_is_taken_as_it_is():
    x, y, _, _ = skewed(600)
    even = sw.KernelGradientRegressor().fit(np.sort(np.random.default_rng(1).random((600, 1)), axis=0), y)
    assert [row["warped"] for row in even.selection_] == [False] * 3
    straight = sw.KernelGradientRegressor().fit(x, 3 * x[:, 0] + 0.1 * np.random.default_rng(2).standard_normal(600))
    assert [row["warped"] for row in straight.selection_] == [False] * 3 + [True] * 3
    assert not isinstance(straight.kernel_, sw.kernels.Warped)
