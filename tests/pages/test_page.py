"""The report is one safe, bounded file whose embedded numbers are the library's."""

import base64
import json
import re
import sys
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import stopwise as sw
import stopwise.exceptions
from stopwise.cli import main
from stopwise.examples import load_example
from stopwise.tables import shown
from stopwise.views import importance
from stopwise.views.comparison import predict_at
from stopwise.views.effects import background
from stopwise.views.facts import rmse_leave_one_out
from stopwise.views.shown_rows import rows_of
from stopwise.views.source_columns import columns_of

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
    return np.frombuffer(base64.b64decode(part["base64"]), dtype=f"<{part['kind']}").reshape(part["shape"])


def fits(response, part, at=None):
    """Embedded fits at a position of the slider, by default the chosen one, in the units of y."""
    at = response["chosen"] if at is None else at
    return response["offset"] + response["scale"] * unpack(part["fits"])[at].astype(float)


@pytest.fixture(scope="module")
def curve():
    rng = np.random.default_rng(3)
    X = pd.DataFrame({"hours": np.sort(rng.uniform(0, 9, 80))})
    y = np.sin(X["hours"].to_numpy()) + 0.3 * rng.normal(size=80)
    return sw.KernelGradientRegressor("matern32").fit(X, y), X, y


def headline(page):
    cells = [attributes for _, attributes in Elements(page).seen if "data-headline" in attributes]
    return {cell["data-headline"]: float(cell["data-value"]) for cell in cells}


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


def test_the_top_tells_the_librarys_error_on_left_out_rows_beside_the_noise_and_the_interval(curve):
    model, _, y = curve
    told = headline(report.render(model))
    error = rmse_leave_one_out(model.path_)
    assert told["error"] == pytest.approx(error, rel=1e-12)
    assert told["r2"] == pytest.approx(1 - error**2 / np.var(y), rel=1e-9)
    assert told["noise"] == model.noise_std_
    left_out = np.abs(model.path_.leave_one_out(model.step_sum_))
    assert np.mean(left_out <= told["interval"] * (1 + 1e-6)) == pytest.approx(0.9, abs=1.5 / len(y))


def test_embedded_curve_and_bands_are_the_prediction_and_its_intervals(curve):
    model, X, y = curve
    data = data_of(report.render(model, X=X, y=y))
    one = data["responses"][0]
    at = unpack(data["curve"]["x"])
    step_sum = unpack(one["clocks"])[one["chosen"]]
    assert step_sum == model.step_sum_
    new = pd.DataFrame({"hours": at})
    with pytest.warns(sw.exceptions.ExtrapolationWarning):  # the curve is drawn a little beyond the data
        mean = model.predict(new)
    assert fits(one, one["curve"]) == pytest.approx(mean, abs=1e-6)
    for position in (0, 50, -1):
        there = predict_at(model, at[:, None], unpack(one["clocks"])[position])
        assert fits(one, one["curve"], position) == pytest.approx(there, abs=1e-5)
    assert fits(one, one["points"]) == pytest.approx(model.path_.fit(), abs=1e-6)
    assert data["level"] == 0.9
    for of in ("new", "mean"):
        ends = model.predict_interval(new, data["level"], of)
        assert unpack(one["curve"][of]) == pytest.approx((ends[:, 1] - ends[:, 0]) / 2, rel=1e-9)
    assert data["curve"]["inside"] == [X["hours"].min(), X["hours"].max()]


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
    assert data_of(page)["responses"][0]["target"] == NASTY[0]


@pytest.mark.parametrize("solver", ["krylov", "nystrom", "line"])
def test_the_file_stays_small_whatever_the_number_of_rows_and_says_what_it_leaves_out(solver, tmp_path):
    rng = np.random.default_rng(4)
    x = np.sort(rng.uniform(0.01, 1, 1200))
    y = np.sin(9 * x) + 0.3 * rng.normal(size=x.size)
    settings = {"solver": solver, "rule": "gcv", "noise_std": 0.3, "n_landmarks": 100}
    model = sw.KernelGradientRegressor("sobolev1", **settings).fit(x[:, None], y)
    report.write(model, tmp_path / "page.html", X=x[:, None], y=y)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert len(page.encode()) < 2_500_000
    assert "300 of 1,200 rows are drawn" in page
    data = data_of(page)
    one, at = data["responses"][0], unpack(data["curve"]["x"])
    assert fits(one, one["curve"]) == pytest.approx(model.predict(at[:, None]), abs=1e-5)


def test_a_solver_that_knows_the_path_near_its_stop_alone_has_a_slider_that_ends_there():
    rng = np.random.default_rng(4)
    X = rng.uniform(size=(400, 2))
    y = np.sin(5 * X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=400)
    model = sw.KernelGradientRegressor(sw.kernels.Gaussian(0.3), solver="factor").fit(X, y)
    exact = sw.KernelGradientRegressor(sw.kernels.Gaussian(0.3), solver="dense").fit(X, y)
    page = report.render(model)
    one = data_of(page)["responses"][0]
    assert "the slider ends where that knowledge does" in page
    last = unpack(one["clocks"])[-1]
    assert last < 1000 * model.step_sum_
    drawn = np.unique(np.linspace(0, 399, 300).round().astype(int))
    assert fits(one, one["points"]) == pytest.approx(exact.path_.fit(model.step_sum_)[drawn], abs=1e-3)
    assert fits(one, one["points"], -1) == pytest.approx(exact.path_.fit(last)[drawn], abs=0.1 * np.std(y))


def test_many_columns_keep_the_file_small():
    rng = np.random.default_rng(6)
    X = pd.DataFrame(rng.normal(size=(30, 120)), columns=[f"{j} " + "long" * 500 for j in range(120)])
    model = sw.KernelGradientRegressor("gaussian").fit(X, X.iloc[:, 0] + rng.normal(size=30))
    page = report.render(model, X=X, y=X.iloc[:, 0])
    assert len(page) < 2_500_000
    assert "and 80 more columns" in page


@pytest.mark.parametrize("filter", ["flow", "cutoff", "nu-method"])
@pytest.mark.parametrize("intercept", [True, False])
def test_every_filter_has_a_page(filter, intercept, rng):
    x = np.linspace(0.02, 1, 50)
    model = sw.KernelGradientRegressor("sobolev1", filter=filter, fit_intercept=intercept)
    model.fit(x[:, None], np.sin(5 * x) + 0.2 * rng.normal(size=50))
    data = data_of(report.render(model))["responses"][0]
    clocks = unpack(data["clocks"])
    assert clocks[data["chosen"]] == model.step_sum_
    if filter == "nu-method":
        assert data["numbers"]["rmse_fit"] == pytest.approx(list(model.path_.residual_norm(clocks)), rel=1e-12)


def test_unusual_models_have_a_page_too(rng):
    x = np.linspace(0, 1, 30)[:, None]
    y = np.sin(5 * x[:, 0]) + 0.2 * rng.normal(size=30)
    precomputed = sw.KernelGradientRegressor("precomputed").fit(np.minimum(x, x.T) + 1, y)
    assert "stopped after" in report.render(precomputed)
    weighted = sw.KernelRidgeRegressor("gaussian").fit(x, y, sample_weight=np.arange(30) % 3)
    assert "inverse penalty" in report.render(weighted)
    constant = sw.KernelGradientRegressor("gaussian").fit(np.ones((9, 2)), np.ones(9))
    assert "took no step" in report.render(constant)


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
    effects = data_of(text)["responses"][0]["effects"]
    assert {each["name"] for each in effects} <= {shown(name.strip(), 80) for name in NASTY}


# ---- columns --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kiln():
    """Numbers and a category, with a linear part."""
    example = load_example("kiln")
    X, y = example.frame.drop(columns=example.target), example.frame[example.target]
    return sw.KernelGradientRegressor(rule="gcv").fit(X, y), X, y


def test_an_effect_is_the_mean_prediction_with_the_column_set(kiln):
    model = kiln[0]
    assert model.linear_coef_ is not None
    data = data_of(report.render(model))
    one = data["responses"][0]
    order = [each["name"] for each in one["effects"]]
    assert order[0] == "celsius"
    rows = rows_of(model)
    some = background(model, rows, 25)
    frame = pd.DataFrame({"celsius": some[:, 0], "hours": some[:, 1]})
    frame["kiln"] = np.array(["north", "old", "river"])[some[:, 2:].argmax(axis=1)]
    for effect in one["effects"]:
        for at, label, mean in zip(effect["x"], effect["labels"] or effect["x"], effect["means"][0], strict=True):
            value = label if effect["labels"] else at
            assert mean == pytest.approx(model.predict(frame.assign(**{effect["name"]: value})).mean(), abs=1e-8)
        assert fits(one, effect) == pytest.approx(effect["means"][0], abs=1e-5)


def test_categories_are_dots_with_intervals_and_numbers_are_lines(kiln):
    effects = {each["name"]: each for each in data_of(report.render(kiln[0]))["responses"][0]["effects"]}
    assert effects["kiln"]["labels"] == ["north", "old", "river"]
    assert all(half > 0 for half in effects["kiln"]["half"])
    assert effects["celsius"]["labels"] is None


def test_the_two_strongest_columns_share_a_map_that_marks_where_there_are_no_rows():
    rng = np.random.default_rng(2)
    first = rng.uniform(size=120)
    X = np.column_stack([first, first + 0.05 * rng.normal(size=120), rng.normal(size=120)])
    model = sw.KernelGradientRegressor("gaussian").fit(X, 3 * X[:, 0] + 2 * X[:, 1] + 0.1 * rng.normal(size=120))
    heat = data_of(report.render(model))["responses"][0]["heat"]
    assert {heat["x"]["name"], heat["y"]["name"]} == {"feature 1", "feature 2"}
    empty = np.array(heat["empty"])
    assert empty[0, -1]
    assert empty[-1, 0]
    assert not np.diagonal(empty).any()


def test_a_stand_in_without_rows_left_out_is_the_ridge_fit_itself(kiln):
    _, X, y = kiln
    model = sw.KernelRidgeRegressor(rule="gcv").fit(X, y)
    rows = rows_of(model)
    values = importance._ridge(model, rows, 0)(rows.features)
    assert values[:, 0] == pytest.approx(model.path_.fit(), abs=1e-6)


def test_the_column_that_matters_ranks_first_and_one_that_does_not_near_nothing():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(150, 4))
    y = np.sin(2 * X[:, 2]) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=150)
    model = sw.KernelGradientRegressor(sw.kernels.Gaussian(2.0)).fit(X, y)
    ranked = importance.ranking(model, rows_of(model), columns_of(model))
    assert [each.column for each in ranked.found[:2]] == [2, 1]
    rises = {each.column: each.rise for each in ranked.found}
    assert rises[2] > 5 * max(abs(rises[0]), abs(rises[3]))


def test_a_shuffled_column_is_judged_by_fits_that_never_saw_the_row():
    """Against the slow way: five fits by the estimator itself."""
    rng = np.random.default_rng(7)
    X = rng.uniform(size=(60, 2))
    y = np.sin(6 * X[:, 0]) + 0.2 * rng.normal(size=60)
    model = sw.KernelRidgeRegressor(sw.kernels.Matern(0.5)).fit(X, y)
    left = importance.left_out_rows(model, rows_of(model), 0, 2)
    total = 0.0
    for rows, values in left.folds:
        others = np.setdiff1d(np.arange(60), rows)
        again = sw.KernelRidgeRegressor(model.kernel_, rule=sw.rules.Fixed(step_sum=model.step_sum_))
        again.fit(left.rows.features[others], left.rows.responses[others, 0])
        predicted = again.predict(left.rows.features[rows])
        assert values(left.rows.features[rows])[:, 0] == pytest.approx(predicted, abs=1e-8)
        total += ((left.rows.responses[rows, 0] - predicted) ** 2).sum()
    assert left.error() == pytest.approx(np.sqrt(total / 60), rel=1e-9)


# ---- several responses, classes, other losses -----------------------------------------------------------------------


def test_several_responses_share_a_page_with_a_menu():
    rng = np.random.default_rng(9)
    X = pd.DataFrame(rng.uniform(size=(60, 2)), columns=["a", "b"])
    Y = pd.DataFrame({"up": 3 * X["a"] + 0.1 * rng.normal(size=60), "down": -X["b"] + 0.1 * rng.normal(size=60)})
    model = sw.KernelGradientRegressor("gaussian").fit(X, Y)
    page = report.render(model, y=Y)
    options = [attributes["value"] for tag, attributes in Elements(page).seen if tag == "option"]
    assert options == ["0", "1"]
    told = data_of(page)["responses"]
    assert [each["target"] for each in told] == ["up", "down"]
    assert [unpack(each["clocks"])[each["chosen"]] for each in told] == model.step_sum_
    assert [each["effects"][0]["name"] for each in told] == ["a", "b"]


@pytest.fixture(scope="module")
def flowers():
    rng = np.random.default_rng(13)
    X = pd.DataFrame({"width": rng.normal(size=90), "colour": rng.choice(["red", "blue"], 90)})
    chance = 1 / (1 + np.exp(-3 * X["width"] - 2 * (X["colour"] == "red")))
    y = pd.Series(np.where(rng.uniform(size=90) < chance, "yes", "no"), name="blooms")
    return sw.KernelGradientClassifier("gaussian").fit(X, y), X, y


def test_the_page_of_classes_counts_every_left_out_row_once(flowers):
    model, X, y = flowers
    page = report.render(model, X=X, y=y)
    told, data = headline(page.replace("%", "")), data_of(page)
    probability, code = unpack(data["left_out"]["p"]), unpack(data["left_out"]["code"])
    assert len(probability) == len(y)
    assert told["accuracy"] == pytest.approx(100 * np.mean((probability > 0.5) == code), abs=0.051)
    assert "<h1>blooms</h1>" in page
    assert data["classes"] == ["no", "yes"]
    assert [each["name"] for each in data["effects"]] == ["width", "colour"]
    assert np.allclose(np.sum(data["effects"][0]["means"], axis=0), 1)
    assert data["clock"]["lowest"] == model.stop_.evidence.lowest
    assert data["heat"]
    assert page.index("The two strongest together") < page.index('<figure id="heat"')


def test_the_slider_of_classes_has_fits_along_the_clock_and_the_chosen_stop_among_them(flowers):
    model, X, y = flowers
    clock = data_of(report.render(model, X=X, y=y))["clock"]
    assert np.all(np.diff(clock["at"]) > 0)
    assert clock["at"][clock["home"]] == pytest.approx(model.step_sum_)
    assert clock["loss"][clock["home"]] == pytest.approx(model.stop_.evidence.criterion, rel=1e-6)
    assert min(clock["loss"]) >= clock["lowest"] - 1e-9
    assert clock["certainty"][0] < clock["certainty"][-1]
    for at in (0, clock["home"], -1):
        fixed = sw.KernelGradientClassifier(model.kernel_, rule=sw.rules.Fixed(step_sum=clock["at"][at])).fit(X, y)
        _, observed, counts = clock["reliability"][at]
        assert sum(counts) == pytest.approx(len(y))
        assert np.average(observed, weights=counts) == pytest.approx(np.mean(y == "yes"))
        assert abs(clock["accuracy"][at] - fixed.score(X, y)) < 0.1


def test_a_class_effect_is_the_mean_probability_with_the_column_set(flowers):
    model, X, y = flowers
    effect = data_of(report.render(model, X=X, y=y))["effects"][1]
    rows = rows_of(model, X, y)
    some = background(model, rows, 2)
    frame = pd.DataFrame({"width": some[:, 0], "colour": "red"})
    assert effect["labels"] == ["blue", "red"]
    assert effect["means"][1][1] == pytest.approx(model.predict_proba(frame)[:, 1].mean(), abs=1e-9)


def test_without_its_rows_a_classifier_has_a_page_that_says_so(flowers):
    page = report.render(flowers[0])
    assert "which such a fit does not keep" in page
    assert "numbers headline" not in page  # no empty frame for numbers that there are not


@pytest.mark.parametrize("loss", ["huber", "quantile", "poisson"])
def test_other_losses_have_a_page_by_command(loss, tmp_path):
    rng = np.random.default_rng(17)
    x = rng.uniform(size=60)
    pd.DataFrame({"x": x, "y": rng.poisson(np.exp(2 * x))}).to_csv(tmp_path / "t.csv", index=False)
    page = tmp_path / "r.html"
    words = ["fit", str(tmp_path / "t.csv"), "--target", "y", "--loss", loss, "--kernel", "gaussian", "-q"]
    done = CliRunner().invoke(main, [*words, "--report", str(page)])
    assert done.exit_code == 0, done.output
    text = page.read_text(encoding="utf-8")
    assert "left-out rows below the fit" in text
    assert "The two strongest together" not in text  # there is one column


def test_outliers_are_marked_and_named():
    rng = np.random.default_rng(19)
    x = np.linspace(0, 1, 80)
    y = np.sin(6 * x) + 0.1 * rng.normal(size=80)
    y[33] += 5
    with pytest.warns(match="row 33"):
        model = sw.KernelGradientRegressor("matern32").fit(x[:, None], y)
    page = report.render(model)
    assert np.flatnonzero(data_of(page)["responses"][0]["points"]["outlying"]).tolist() == [33]
    assert "row 33 (counted from 0)" in page


def test_a_report_of_an_unfitted_model_says_so():
    with pytest.raises(NotFittedError):
        sw.report(sw.KernelGradientRegressor(), "nowhere.html")


def test_a_pipelines_report_is_that_of_its_last_step(rng):
    X = rng.normal(size=(40, 1)) * 7 + 3
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=40)
    pipeline = make_pipeline(StandardScaler(), sw.KernelGradientRegressor("gaussian")).fit(X, y)
    of_step = report.render(pipeline[-1], X=pipeline[0].transform(X), y=y)
    assert data_of(report.render(pipeline, X=X, y=y)) == data_of(of_step)


@pytest.mark.parametrize("given", [False, True])
def test_a_pipeline_that_encodes_a_frame_has_the_report_of_the_fit_to_the_frame(rng, given):
    frame = pd.DataFrame({"size": rng.normal(size=80), "kind": rng.choice(["a", "b", "c"], 80)})
    y = pd.Series(frame["size"] + (frame["kind"] == "a") + 0.1 * rng.normal(size=80), name="price")
    pipeline = make_pipeline(sw.tables.TableEncoder(), sw.KernelGradientRegressor("gaussian")).fit(frame, y)
    alone = sw.KernelGradientRegressor("gaussian").fit(frame, y)
    data = {"X": frame, "y": y} if given else {}
    assert data_of(report.render(pipeline, **data)) == data_of(report.render(alone, **data))
    with pytest.raises(NotFittedError):
        report.render(make_pipeline(sw.tables.TableEncoder(), sw.KernelGradientRegressor()))


def test_without_jinja2_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    for name in [name for name in sys.modules if name.startswith("stopwise.pages")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ModuleNotFoundError, match=r'sw.report needs jinja2: pip install "stopwise\[report\]"'):
        _ = sw.report


def test_a_fit_whose_noise_neighbours_share_has_a_report_without_intervals(tmp_path):
    generator = np.random.default_rng(3)
    x = np.linspace(0, 1, 120)
    noise = np.convolve(generator.normal(size=130), 0.8 ** np.arange(11), mode="valid")
    model = sw.KernelGradientRegressor(noise_std=sw.noise.AR1()).fit(x[:, None], np.sin(6 * x) + 0.2 * noise)
    sw.report(model, tmp_path / "page.html")
    assert "% within ±" not in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_of_a_response_that_does_not_vary_the_page_compares_no_errors():
    x = np.linspace(0, 1, 20)[:, None]
    model = sw.KernelGradientRegressor("gaussian").fit(x, np.full(20, 3.0))
    page = report.render(model, X=x, y=np.full(20, 3.0))
    assert "standard errors" not in page
    assert "cannot tell from the smallest." in page


def test_a_page_says_why_a_constant_fit_stood_against_a_smaller_error_later():
    rng = np.random.default_rng(318)
    x, y = rng.uniform(size=(80, 1)), rng.normal(size=80)
    model = sw.KernelRidgeRegressor(sw.kernels.Matern(0.2, smoothness=1.5)).fit(x, y)
    assert model.stop_.constant_stood
    page = report.render(model)
    assert "rises from the constant fit on and is nowhere later clearly below" in page
    assert "cannot tell from the smallest" not in page
