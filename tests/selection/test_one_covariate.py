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
