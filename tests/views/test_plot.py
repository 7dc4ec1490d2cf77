"""Figures show what the model holds, and nothing needs matplotlib until it is asked to draw."""

import subprocess
import sys

import numpy as np
import pytest

import stopwise as sw
from stopwise.views.comparison import compare

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")


@pytest.fixture(scope="module")
def published():
    x = np.arange(1, 101) / 100
    y = np.abs(x - 0.5) - 0.5 + np.random.default_rng(0).normal(size=100)
    return sw.KernelGradientRegressor.as_published("sobolev1", noise_std=1.0, schedule=0.25).fit(x[:, None], y)


@pytest.fixture(scope="module")
def several():
    rng = np.random.default_rng(5)
    X = rng.uniform(size=(60, 2))
    return sw.KernelGradientRegressor("matern32").fit(X, np.sin(4 * X[:, 0]) + 0.1 * rng.normal(size=60))


def lines(ax):
    return {line.get_label(): line for line in ax.get_lines()}


def test_importing_stopwise_imports_no_matplotlib():
    code = "import sys, stopwise\nassert 'matplotlib' not in sys.modules\nprint(stopwise.plot.crossing.__name__)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_matplotlib_the_error_names_the_extra():
    code = "import sys; sys.modules['matplotlib'] = None\nimport stopwise as sw\nsw.plot"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert 'pip install "stopwise[report]"' in done.stderr


def test_an_unknown_name_is_still_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'plots'"):
        _ = sw.plots


def test_the_crossing_changes_sides_at_the_stop(published):
    drawn = lines(sw.plot.crossing(published))
    at, complexity = drawn["local complexity"].get_data()
    threshold = drawn["threshold"].get_ydata()
    stop = published.stop_.step_sum
    assert np.all((complexity <= threshold)[at <= stop])
    assert np.all((complexity > threshold)[at > stop])
    assert complexity[np.argmin(np.abs(at - stop))] == pytest.approx(published.stop_.details["complexity"], rel=1e-12)


def test_another_rule_says_that_the_threshold_did_not_decide(several):
    assert any("did not decide" in label for label in lines(sw.plot.crossing(several)))


def test_the_path_draws_the_criteria_of_the_rules(published):
    drawn = lines(sw.plot.path(published))
    at, gcv = drawn["GCV"].get_data()
    path = published.path_
    assert gcv == pytest.approx(path.scale * np.sqrt(path.gcv(at)), rel=1e-12)
    assert drawn["in sample"].get_ydata() == pytest.approx(path.residual_norm(at), rel=1e-12)
    left_out = path.scale * np.sqrt(path.leave_one_out_error(at))
    assert drawn["leave-one-out"].get_ydata() == pytest.approx(left_out, rel=1e-12)


def test_the_spectrum_splits_at_one_over_the_step_sum(published):
    drawn = lines(sw.plot.spectrum(published))
    fitted = next(line for label, line in drawn.items() if label.startswith("mostly fitted"))
    assert np.all(fitted.get_ydata() >= 1 / published.step_sum_)


def test_the_fit_of_one_covariate_is_the_prediction(published):
    at, curve = lines(sw.plot.fit(published))["fit"].get_data()
    assert curve == pytest.approx(published.predict(at[:, None]), abs=1e-12)


def test_the_fit_of_several_covariates_is_predicted_against_observed(several):
    ax = sw.plot.fit(several)
    assert ax.get_xlabel() == "predicted response"
    assert ax.get_lines()[1].get_xdata() == pytest.approx(several.path_.fit(), abs=1e-12)


def test_residuals_are_observed_minus_fitted(several):
    drawn = sw.plot.residuals(several).get_lines()[0]
    norm = np.sqrt(np.mean(np.asarray(drawn.get_ydata()) ** 2))
    assert norm == pytest.approx(several.path_.residual_norm(), rel=1e-10)


def test_a_comparison_marks_every_rule(rng):
    x = np.linspace(0, 1, 60)
    found = compare(x[:, None], np.sin(6 * x) + 0.2 * rng.normal(size=60), kernel="gaussian", holdout=0.2)
    labels = " ".join(lines(sw.plot.compare(found)))
    assert all(row.rule in labels for row in found.rows)


@pytest.mark.parametrize("holdout", [0.0, 0.2])
def test_hollow_marks_of_a_comparison_are_explained_where_there_are_any(rng, holdout):
    x = np.linspace(0, 1, 60)
    found = compare(x[:, None], np.sin(6 * x) + 0.2 * rng.normal(size=60), kernel="gaussian", holdout=holdout)
    drawn = sw.plot.compare(found)
    hollow = [line for line in drawn.get_lines() if line.get_markerfacecolor() == "none"]
    assert bool(hollow) == (holdout > 0) == ("hollow: rows held out" in lines(drawn))


def test_models_compare_by_name_or_in_order(published, several):
    assert {"one", "two"} <= set(lines(sw.plot.compare({"one": published, "two": several})))
    assert len([label for label in lines(sw.plot.compare([published, several])) if label[0] in "12"]) == 2
    with pytest.raises(ValueError, match="nothing to compare"):
        sw.plot.compare([])


def test_figures_draw_on_the_axes_given(published):
    from matplotlib import pyplot

    for draw in (sw.plot.crossing, sw.plot.path, sw.plot.spectrum, sw.plot.fit, sw.plot.residuals):
        ax = pyplot.figure().add_subplot()
        assert draw(published, ax) is ax


@pytest.mark.parametrize("filter", ["flow", "cutoff", "nu-method"])
def test_every_filter_can_be_drawn(filter, rng):
    x = np.linspace(0, 1, 40)
    model = sw.KernelGradientRegressor("sobolev1", filter=filter).fit(x[:, None], x + 0.1 * rng.normal(size=40))
    for draw in (sw.plot.crossing, sw.plot.path, sw.plot.spectrum, sw.plot.fit, sw.plot.residuals):
        draw(model)


def test_one_of_several_responses_is_drawn(rng):
    x = np.linspace(0, 1, 40)
    Y = np.stack([x, -x], axis=1) + 0.1 * rng.normal(size=(40, 2))
    model = sw.KernelGradientRegressor("sobolev1").fit(x[:, None], Y)
    at, curve = lines(sw.plot.fit(model, response=1))["fit"].get_data()
    assert curve == pytest.approx(model.predict(at[:, None])[:, 1], abs=1e-12)
    with pytest.raises(ValueError, match="response must be from 0 to 1"):
        sw.plot.fit(model, response=2)


def test_an_unfitted_model_cannot_be_drawn():
    with pytest.raises(ValueError, match="not fitted"):
        sw.plot.crossing(sw.KernelGradientRegressor())


@pytest.mark.parametrize("name", ["crossing", "path", "spectrum", "fit", "residuals"])
@pytest.mark.parametrize("loss", ["huber", "logistic"])
def test_a_fit_under_another_loss_is_told_from_one_that_is_not_fitted(name, loss, rng):
    x = rng.uniform(size=(40, 1))
    made = {"huber": sw.KernelGradientRegressor, "logistic": sw.KernelGradientClassifier}[loss]
    model = made("gaussian", loss=loss).fit(x, np.arange(40) % 2)
    with pytest.raises(ValueError, match=rf"of squares, and this model has the loss {loss}: sw\.report"):
        getattr(sw.plot, name)(model)


def test_a_notebook_shows_the_stop_of_a_fitted_model(published):
    html = published._repr_mimebundle_()["text/html"]
    assert "stopped after 10 steps" in html
    assert "stopwise-stop" in published._repr_html_()
    assert "stopwise-stop" not in sw.KernelGradientRegressor()._repr_html_()
    assert "&gt;" in html.split("stopwise-stop")[1]
