"""What a notebook shows: where a fit stopped and why, also of a step inside a pipeline, in the words of the data."""

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import stopwise as sw


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"hours <b>": np.linspace(0, 1, 40)})
    return X, pd.Series(np.sin(5 * X.iloc[:, 0]) + 0.2 * rng.normal(size=40), name="level")


def test_a_stop_shows_its_reason_and_evidence(data):
    stop = sw.KernelGradientRegressor("gaussian").fit(*data).stop_
    text = stop._repr_html_()
    assert f"{stop.iteration:,} steps" in text
    assert stop.reason.value in text
    assert f"{stop.evidence.criterion:.6g}" in text


def test_a_selection_shows_every_candidate_and_the_chosen_in_bold(data):
    selection = sw.KernelGradientRegressor().fit(*data).selection_
    text = selection._repr_html_()
    assert text.count("<tr>") == len(selection) + 1
    assert selection.reason in text
    assert text.index("font-weight") < text.index("</tr>", text.index("<tbody>"))


def test_the_explanation_stays_inside_a_pipeline(data):
    pipeline = make_pipeline(StandardScaler(), sw.KernelGradientRegressor("rbf"))
    assert "stopped after" not in pipeline._repr_html_()
    assert "stopped after" in pipeline.fit(*data)._repr_html_()


def test_figures_are_labelled_by_the_data(data):
    pytest.importorskip("matplotlib").use("Agg")
    model = sw.KernelGradientRegressor("gaussian").fit(*data)
    assert sw.plot.fit(model).get_ylabel() == "level"
    assert sw.plot.fit(model).get_xlabel() == "hours <b>"
    assert sw.plot.residuals(model).get_xlabel() == "fitted level"
    several = pd.DataFrame({"up": data[1], "down": -data[1]})
    model = sw.KernelGradientRegressor("gaussian").fit(data[0], several)
    assert sw.plot.fit(model, response=1).get_ylabel() == "down"


def test_the_name_of_the_response_survives_a_file(data, tmp_path):
    model = sw.KernelGradientRegressor("gaussian").fit(*data)
    sw.save(model, tmp_path / "m.stopwise")
    assert sw.load(tmp_path / "m.stopwise")._fitted.response_names == ("level",)


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "matern"])
def test_names_of_other_libraries_are_understood(kernel, data):
    known = {"rbf": "gaussian", "laplacian": "laplace", "matern": "matern32"}[kernel]
    assert sw.kernels.as_kernel(kernel) == sw.kernels.as_kernel(known)


@pytest.mark.parametrize(
    ("setting", "meant"),
    [
        ({"kernel": "gausian"}, "gaussian"),
        ({"kernel": "rfb"}, "rbf"),
        ({"rule": "prudnt"}, "prudent"),
        ({"filter": "decent"}, "descent"),
        ({"noise_std": "hal-marron"}, "hall-marron"),
        ({"loss": "huberr"}, "huber"),
    ],
)
def test_a_misspelt_name_is_asked_about(setting, meant, data):
    with pytest.raises(ValueError, match=f"did you mean '{meant}'"):
        sw.KernelGradientRegressor(**setting).fit(*data)


@pytest.mark.parametrize("holdout", [0.0, 0.25])
def test_a_comparison_is_a_table_of_what_is_known(data, holdout):
    found = sw.compare(*data, kernel="gaussian", holdout=holdout)
    lines = str(found).splitlines()
    assert len(lines) == 1 + len(found.rows)
    assert ("rmse holdout" in lines[0]) == bool(holdout)
    assert lines[1].startswith("prudent ")
    assert f"{found.rows[0].rmse_loo:.4g}" in lines[1]
    page = found._repr_html_()
    assert page.count("<tr>") == len(lines)
    assert "critical, self" in page
