"""The regressor under other losses than squares."""

from __future__ import annotations

import numpy as np
import pytest

import stopwise as sw

KERNEL = sw.kernels.Gaussian(0.3)


@pytest.fixture(scope="module")
def sine():
    rng = np.random.default_rng(0)
    X = rng.random((250, 1))
    truth = 3 * np.sin(6 * X[:, 0])
    return X, truth, truth + rng.normal(size=250)


def test_squares_are_untouched_by_the_parameter(sine):
    X, _, y = sine
    one, other = sw.KernelGradientRegressor(KERNEL), sw.KernelGradientRegressor(KERNEL, loss=sw.losses.Squared())
    assert np.array_equal(one.fit(X, y).predict(X), other.fit(X, y).predict(X))


@pytest.mark.filterwarnings("ignore:row")
def test_outliers_do_not_rule_huber(sine):
    X, truth, y = sine
    rng = np.random.default_rng(1)
    hit = rng.permutation(250)[:8]
    spoilt = y.copy()
    spoilt[hit] += rng.choice([-1, 1], 8) * rng.uniform(30, 100, 8)

    def error(loss, y):
        fitted = sw.KernelGradientRegressor(KERNEL, loss=loss).fit(X, y).predict(X)
        return np.mean((fitted - truth) ** 2)

    assert error("huber", spoilt) <= 1.3 * error("huber", y)
    assert error("squared", spoilt) > 5 * error("huber", spoilt)


@pytest.mark.parametrize(("settings", "degree"), [({"loss": "huber"}, 2), ({"loss": "quantile", "quantile": 0.8}, 1)])
def test_what_is_told_of_losses_is_in_the_units_of_y(sine, settings, degree):
    X, _, y = sine
    one, other = (sw.KernelGradientRegressor("gaussian", **settings).fit(X, factor * y) for factor in (1, 100))
    for name in ("criterion", "lowest", "standard_error"):
        assert other.stop_.details[name] == pytest.approx(100**degree * one.stop_.details[name], rel=1e-3)
    for name in ("left_out_loss", "score"):
        assert other.selection_.tried[0][name] == pytest.approx(100**degree * one.selection_.tried[0][name], rel=1e-3)
    assert f"{other.stop_.details['criterion']:.4g} a row" in sw.explain(other)
    fresh = np.random.default_rng(9).random((2000, 1))
    new = 300 * np.sin(6 * fresh[:, 0]) + 100 * np.random.default_rng(10).normal(size=2000)
    seen = np.mean(other.loss_.value(new, other.predict(fresh)[:, None]))
    assert other.stop_.details["criterion"] == pytest.approx(seen, rel=0.2)
    if degree == 1:
        assert other.calibration_.shift == pytest.approx(100 * one.calibration_.shift, rel=1e-2)


def test_units_of_y_do_not_matter(sine):
    X, _, y = sine
    for loss in ("huber", "quantile"):
        one = sw.KernelGradientRegressor(KERNEL, loss=loss).fit(X, y).predict(X)
        other = sw.KernelGradientRegressor(KERNEL, loss=loss).fit(X, 1e6 * y + 3e7).predict(X)
        assert np.allclose((other - 3e7) / 1e6, one, atol=1e-4)


@pytest.mark.parametrize("loss", ["huber", "quantile", "poisson"])
def test_weights_are_copies_and_have_no_unit(sine, loss):
    X, _, y = sine
    X, y = X[:60], np.round(np.abs(y[:60])) if loss == "poisson" else y[:60]
    rng = np.random.default_rng(4)
    times = rng.integers(0, 4, len(y))
    again = rng.permutation(np.repeat(np.arange(len(y)), times))

    def fit(*rows, weights=None):
        return sw.KernelGradientRegressor(loss=loss).fit(*rows, sample_weight=weights).predict(X)

    plain, weighted = fit(X, y), fit(X, y, weights=times)
    for other in (fit(np.tile(X, (2, 1)), np.tile(y, 2)), fit(X, y, weights=np.full(len(y), 1e-3))):
        assert np.allclose(other, plain, rtol=1e-6)
    for other in (fit(X[again], y[again]), fit(X, y, weights=0.3 * times)):
        assert np.allclose(other, weighted, rtol=1e-6)


@pytest.mark.parametrize("settings", [{"loss": "huber"}, {"loss": "quantile"}, {"loss": "quantile", "quantile": 0.9}])
@pytest.mark.parametrize("noise", [1e-2, 0.0])
def test_data_nearly_free_of_noise_are_fitted_as_closely_as_that(noise, settings):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (120, 2))
    truth = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1]
    model = sw.KernelGradientRegressor(**settings).fit(X, truth + noise * rng.normal(size=120))
    assert np.sqrt(np.mean((model.predict(X) - truth) ** 2)) < 2 * noise + 2e-3


def test_what_a_loss_has_learned_has_the_shapes_of_squares(sine):
    X, _, y = sine
    one, other = (sw.KernelGradientRegressor(KERNEL, loss=loss).fit(X, y) for loss in ("squared", "huber"))
    assert other.dual_coef_.shape == one.dual_coef_.shape
    by_hand = KERNEL(X, other.X_fit_) @ other.dual_coef_ + other.intercept_
    assert np.allclose(by_hand, other.predict(X))


@pytest.mark.parametrize("level", [0.1, 0.9])
def test_quantiles_cover_as_often_as_asked(sine, level):
    X, _, y = sine
    rng = np.random.default_rng(2)
    model = sw.KernelGradientRegressor(KERNEL, loss="quantile", quantile=level).fit(X, y)
    new = rng.random((4000, 1))
    covered = np.mean(3 * np.sin(6 * new[:, 0]) + rng.normal(size=4000) <= model.predict(new))
    assert abs(covered - level) < 0.04
    assert "shifted" in str(model.calibration_)


def test_poisson_predicts_means_of_counts(sine):
    X, _, _ = sine
    mean = np.exp(1 + np.sin(6 * X[:, 0]))
    y = np.random.default_rng(3).poisson(mean)
    found = sw.KernelGradientRegressor(KERNEL, loss="poisson").fit(X, y).predict(X)
    assert np.all(found > 0)
    assert np.mean((found - mean) ** 2) < 0.1 * np.mean((y - mean) ** 2)


def test_a_given_scale_is_kept_in_the_units_of_y(sine):
    X, _, y = sine
    model = sw.KernelGradientRegressor(KERNEL, loss=sw.losses.Huber(2.5)).fit(X, y)
    assert model.loss_.threshold == pytest.approx(2.5)


@pytest.mark.parametrize(
    ("settings", "y", "match"),
    [
        ({"loss": "poisson"}, [1, 2, -1, 0], "at least 0, got -1"),
        ({"loss": "poisson"}, [0, 0, 0, 0], "every one is 0"),
        ({"loss": "quantile", "quantile": 1.0}, [1, 2, 3, 4], "quantile"),
        ({"loss": "logistic"}, [1, 2, 3, 4], "loss must be one of"),
        ({"loss": "huber", "solver": "krylov"}, [1, 2, 3, 4], "solver"),
        ({"loss": "huber", "rule": "gcv"}, [1, 2, 3, 4], "is a rule for"),
        ({"loss": "huber"}, [[1, 2], [2, 3], [3, 4], [4, 5]], "one response"),
    ],
)
def test_what_a_loss_cannot_take_is_refused(settings, y, match):
    with pytest.raises(ValueError, match=match):
        sw.KernelGradientRegressor(KERNEL, **settings).fit(np.arange(4.0)[:, None], y)


def test_deviations_and_batches_are_for_squares(sine):
    X, _, y = sine
    model = sw.KernelGradientRegressor(KERNEL, loss="huber").fit(X, y)
    with pytest.raises(ValueError, match="fit two quantiles"):
        model.predict(X, return_std=True)
    with pytest.raises(ValueError, match='are for loss="squared"'):
        sw.KernelGradientRegressor(KERNEL, loss="huber", solver="nystrom").partial_fit(X, y)


def test_what_only_squares_leave_is_refused_in_words(sine):
    X, _, y = sine
    model = sw.KernelGradientRegressor(KERNEL, loss="huber").fit(X, y)
    assert not hasattr(model, "path_")
    for name in ("path_", "noise_std_", "eigenvalues_"):
        with pytest.raises(AttributeError, match=r'fitted under the huber loss.*loss="squared"'):
            getattr(model, name)
    with pytest.raises(ValueError, match=r'refit is for loss="squared".*huber loss: use fit'):
        model.refit(-y)
    with pytest.raises(ValueError, match="huber loss: use fit"):
        model.set_params(loss="squared").refit(-y)


@pytest.mark.parametrize("loss", ["huber", "quantile", "poisson"])
def test_a_response_that_does_not_vary_is_called_that(loss):
    model = sw.KernelGradientRegressor(loss=loss).fit(np.arange(20.0)[:, None], np.full(20, 3.0))
    assert sw.explain(model) == "The fit is constant: the response does not vary."
    assert np.allclose(model.predict([[2.5]]), 3.0)


@pytest.mark.parametrize("loss", ["huber", "quantile", "poisson"])
def test_too_few_rows_to_choose_by_are_warned_of(loss):
    with pytest.warns(sw.exceptions.StopwiseWarning, match="4 rows are too few to choose a kernel by"):
        sw.KernelGradientRegressor(loss=loss).fit(np.arange(4.0)[:, None], [1, 3, 2, 5])


@pytest.mark.parametrize("loss", ["quantile", "poisson"])
def test_the_published_path_refuses_losses_without_bounded_curvature(sine, loss):
    X, _, y = sine
    model = sw.KernelGradientRegressor.as_published("sobolev1", noise_std=1.0, loss=loss)
    with pytest.raises(ValueError, match=f"bounded from above and away from 0.*{loss}"):
        model.fit(X, np.round(np.abs(y)))


def test_kernels_for_counts_are_judged_on_more_rows_than_kernels_for_classes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 2))
    rate = np.exp(X[:, 0])
    counted = sw.KernelGradientRegressor(loss="poisson").fit(X, rng.poisson(rate))
    sorted_out = sw.KernelGradientClassifier().fit(X, rng.random(900) < rate / (1 + rate))
    for model, rows in ((counted, 800), (sorted_out, 400)):
        judged = [row for row in model.selection_.tried if "left_out_loss" in row]
        assert {row["rows"] for row in judged} == {rows}
        lowest = min(row["left_out_loss"] for row in judged)
        assert next(row for row in judged if row["chosen"])["left_out_loss"] <= 1.05 * lowest
