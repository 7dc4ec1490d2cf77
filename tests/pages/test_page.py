"""The report is one safe, bounded file whose embedded numbers are the library's."""

import base64
import json
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import stopwise as sw
from stopwise.cli import main
from stopwise.tables import shown

report = pytest.importorskip("stopwise.pages")

NASTY = [
    "</script><script>alert(1)</script>",
    "\"quotes\" & 'more'",
    "new\nline\u2028\u2029",
    "\U0001f600",
    "n" * 10_000,
]


class Elements(HTMLParser):
    """Every element's name and attributes."""

    def __init__(self, page):
        super().__init__()
        self.seen = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))


def data_of(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1])


def unpack(part):
    return np.frombuffer(base64.b64decode(part["base64"]), dtype="<f8").reshape(part["shape"])


@pytest.fixture(scope="module")
def curve():
    rng = np.random.default_rng(3)
    X = pd.DataFrame({"hours": np.sort(rng.uniform(0, 9, 80))})
    y = np.sin(X["hours"].to_numpy()) + 0.3 * rng.normal(size=80)
    return sw.KernelGradientRegressor("matern32").fit(X, y), X, y


def test_the_page_opens_with_the_answer_and_holds_the_command(curve):
    model, X, y = curve
    page = report.render(model, X=X, y=y, target="level", command="stopwise fit a.csv --target level", warnings=["odd"])
    assert page.index("<h1>level</h1>") < page.index("Gradient descent stopped after") < page.index('id="stop"')
    assert "stopwise fit a.csv --target level" in page
    assert "<li>odd</li>" in page
    assert sw.__version__ in page


def test_nothing_is_fetched_from_anywhere(curve):
    model, X, y = curve
    page = report.render(model, X=X, y=y)
    for tag, attributes in Elements(page).seen:
        assert tag not in ("link", "img", "iframe", "object", "embed")
        assert not {"src", "href"} & attributes.keys()
    assert "default-src 'none'" in page
    assert "url(" not in page.split("<script")[0]


def smoother(model, at):
    """The rows L(x) with f(x) = L(x) y: the estimate is linear in the responses."""
    rows, basis = model.X_fit_, model.path_.spectrum.basis.vectors
    weight = model.path_.filter.weight(model.eigenvalues_, model.step_sum_)
    block = model.kernel_(np.asarray(at)[:, None], rows) - model.kernel_(rows, rows).mean(axis=0)
    block = block - block.mean(axis=1, keepdims=True)
    return (block @ (basis * weight) @ basis.T + 1) / len(rows)


def test_embedded_curve_and_band_are_the_prediction(curve):
    model, X, y = curve
    data = data_of(report.render(model, X=X, y=y))
    at, psi = unpack(data["curve"]["x"]), unpack(data["curve"]["rows"])
    pairs, step_sum = unpack(data["pairs"]), unpack(data["clocks"])[data["chosen"]]
    assert step_sum == model.step_sum_
    weight = model.path_.filter.weight(pairs, step_sum)
    mean = model.predict(pd.DataFrame({"hours": at}))
    fitted = data["offset"] + data["scale"] * psi @ (weight * unpack(data["coefficients"]))
    assert fitted == pytest.approx(mean, abs=1e-9)
    band = data["noise"] * np.sqrt(psi**2 @ weight**2 + 1 / data["n"])
    assert band == pytest.approx(model.noise_std_ * np.linalg.norm(smoother(model, at), axis=1), abs=1e-9)


def test_nasty_names_are_text():
    rng = np.random.default_rng(8)
    X = pd.DataFrame(rng.uniform(size=(40, len(NASTY))), columns=NASTY)
    model = sw.KernelGradientRegressor("gaussian").fit(X, X.sum(axis=1) + 0.1 * rng.normal(size=40))
    page = report.render(
        model, X=X, y=X.sum(axis=1), target=NASTY[0], command=f"stopwise fit {NASTY[0]}", warnings=NASTY
    )
    scripts = [attributes for tag, attributes in Elements(page).seen if tag == "script"]
    assert len(scripts) == 3
    assert "<script>alert" not in page
    assert "&lt;/script&gt;" in page
    assert "\u2028" not in page
    assert "n" * 1000 not in page
    assert data_of(page)["target"] == NASTY[0]


@pytest.mark.parametrize("solver", ["krylov", "nystrom", "line"])
def test_the_file_stays_small_whatever_the_number_of_rows_and_says_what_it_leaves_out(solver, tmp_path):
    rng = np.random.default_rng(4)
    x = np.sort(rng.uniform(0.01, 1, 1200))
    y = np.sin(9 * x) + 0.3 * rng.normal(size=x.size)
    model = sw.KernelGradientRegressor("sobolev1", solver=solver, rule="gcv", noise_std=0.3).fit(x[:, None], y)
    report.write(model, tmp_path / "page.html", X=x[:, None], y=y)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert len(page.encode()) < 2_500_000
    assert "300 of 1,200 rows are drawn" in page
    data = data_of(page)
    kept = unpack(data["pairs"])
    weight = model.path_.filter.weight(kept, model.step_sum_)
    fitted = data["offset"] + data["scale"] * unpack(data["curve"]["rows"]) @ (weight * unpack(data["coefficients"]))
    at = unpack(data["curve"]["x"])
    assert fitted == pytest.approx(model.predict(at[:, None]), abs=1e-8 + 20 * data["omitted"])


def test_many_columns_keep_the_file_small():
    rng = np.random.default_rng(6)
    X = pd.DataFrame(rng.normal(size=(60, 300)), columns=[f"{j} " + "long" * 500 for j in range(300)])
    model = sw.KernelGradientRegressor("gaussian").fit(X, X.iloc[:, 0] + rng.normal(size=60))
    page = report.render(model, X=X, y=X.iloc[:, 0])
    assert len(page) < 2_500_000
    assert "and 260 more features" in page


@pytest.mark.parametrize("filter", ["flow", "cutoff", "nu-method"])
@pytest.mark.parametrize("intercept", [True, False])
def test_every_filter_has_a_page(filter, intercept, rng):
    x = np.linspace(0.02, 1, 50)
    model = sw.KernelGradientRegressor("sobolev1", filter=filter, fit_intercept=intercept)
    model.fit(x[:, None], np.sin(5 * x) + 0.2 * rng.normal(size=50))
    data = data_of(report.render(model))
    clocks = unpack(data["clocks"])
    assert clocks[data["chosen"]] == model.step_sum_
    if filter == "nu-method":
        assert data["table"]["rmse_fit"] == pytest.approx(list(model.path_.residual_norm(clocks)), rel=1e-12)


def test_unusual_models_have_a_page_too(rng):
    x = np.linspace(0, 1, 30)[:, None]
    y = np.sin(5 * x[:, 0]) + 0.2 * rng.normal(size=30)
    precomputed = sw.KernelGradientRegressor("precomputed").fit(np.minimum(x, x.T) + 1, y)
    assert "stopped after" in report.render(precomputed)
    weighted = sw.KernelRidgeRegressor("gaussian").fit(x, y, sample_weight=np.arange(30) % 3)
    assert "inverse penalty" in report.render(weighted)
    constant = sw.KernelGradientRegressor("gaussian").fit(np.ones((9, 2)), np.ones(9))
    assert "took no step" in report.render(constant)
    two = sw.KernelGradientRegressor("gaussian").fit(x, np.stack([y, -y], axis=1))
    assert "this page shows the first" in report.render(two)


def test_the_command_writes_the_page_beside_the_model(tmp_path):
    page = tmp_path / "r.html"
    done = CliRunner().invoke(main, ["fit", "--example", "motorcycle", "--report", str(page), "-q"])
    assert done.exit_code == 0, done.output
    assert "<h1>acceleration</h1>" in page.read_text(encoding="utf-8")


def test_a_table_with_nasty_columns_gives_a_report_by_command(tmp_path):
    rng = np.random.default_rng(14)
    table = pd.DataFrame(rng.uniform(size=(40, len(NASTY))), columns=NASTY)
    table["<b>target</b>"] = table.sum(axis=1) + 0.1 * rng.normal(size=40)
    table.to_csv(tmp_path / "nasty.csv", index=False)
    page = tmp_path / "r.html"
    arguments = ["fit", str(tmp_path / "nasty.csv"), "--target", "<b>target</b>", "--report", str(page), "-q"]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    text = page.read_text(encoding="utf-8")
    assert "<h1>&lt;b&gt;target&lt;/b&gt;</h1>" in text
    assert len([tag for tag, _ in Elements(text).seen if tag == "script"]) == 3
    assert {profile["name"] for profile in data_of(text)["profiles"]} <= {shown(name.strip(), 80) for name in NASTY}
