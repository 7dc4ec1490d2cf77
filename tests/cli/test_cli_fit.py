"""stopwise fit, info and compare: the library's own numbers, one command away."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import stopwise as sw
from commands import run, run_json
from stopwise.examples import EXAMPLES, load_example
from stopwise.rules import Reason
from stopwise.rules.explanation import explain
from stopwise.views import comparison
from stopwise.views.facts import rmse_leave_one_out

FIT_KEYS = [
    *("rows", "features", "target", "kernel", "length_scale", "relevance", "noise_std", "hilbert_radius", "rule"),
    *("constant", "iteration", "step_sum", "reason", "degrees_of_freedom", "unpenalised", "rmse_fit"),
    *("rmse_loo", "loo_rows", "solver", "seconds", "warnings", "model", "report", "table", "encoded"),
]
NASTY = [
    "<script>alert(1)</script>",
    'say "hi", twice',
    "two\nlines",
    "🎈" + "x" * 10_000,
    "[red]a[/red]",
    "\x1b[31mred",
]


@pytest.fixture
def table(tmp_path, rng):
    frame = pd.DataFrame(rng.uniform(size=(40, 2)), columns=["a", "b"])
    frame["y"] = np.sin(6 * frame["a"]) + frame["b"] + 0.1 * rng.normal(size=40)
    frame.to_csv(tmp_path / "table.csv", index=False)
    return tmp_path / "table.csv", frame


def test_the_example_is_fitted_and_explained():
    result = run("fit", "--example", "motorcycle")
    assert result.exit_code == 0
    for word in (
        "160 rows",
        "length scale",
        "noise level",
        "radius",
        "step_sum",
        "degrees of freedom",
        "leave-one-out",
    ):
        assert word in result.stdout
    example = load_example("motorcycle")
    model = sw.KernelGradientRegressor(random_state=0).fit(
        example.frame[["milliseconds"]], example.frame[example.target]
    )
    assert explain(model) in result.stdout
    assert "\x1b" not in result.stdout


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_examples_are_the_same_every_time_and_can_be_fitted(name):
    pd.testing.assert_frame_equal(load_example(name).frame, load_example(name).frame)
    printed = run_json("fit", "--example", name, "--kernel", "gaussian")
    assert printed["rmse_loo"] < 0.6 * load_example(name).frame[load_example(name).target].std()


def test_fit_prints_the_librarys_numbers(table, tmp_path):
    path, frame = table
    printed = run_json(
        "fit", path, "--target", "y", "--kernel", "gaussian", "--rule", "sure", "--out", tmp_path / "m.stopwise"
    )
    assert list(printed) == FIT_KEYS
    model = sw.KernelGradientRegressor("gaussian", rule="sure", random_state=0).fit(frame[["a", "b"]], frame["y"])
    assert printed["rows"] == 40
    assert printed["features"] == ["a", "b"]
    assert printed["iteration"] == model.n_iter_
    assert printed["step_sum"] == model.step_sum_
    assert printed["noise_std"] == model.noise_std_
    assert printed["length_scale"] == list(np.atleast_1d(model.kernel_.length_scale))
    assert printed["reason"] == "MINIMUM"
    assert printed["degrees_of_freedom"] == model.path_.degrees_of_freedom()
    assert printed["rmse_fit"] == pytest.approx(
        np.sqrt(np.mean((frame["y"] - model.predict(frame[["a", "b"]])) ** 2)), rel=1e-9
    )
    assert printed["rmse_loo"] == pytest.approx(rmse_leave_one_out(model.path_), rel=1e-12)
    loaded = sw.load(tmp_path / "m.stopwise")
    np.testing.assert_array_equal(loaded.predict(frame[["a", "b"]]), model.predict(frame[["a", "b"]]))


@pytest.mark.parametrize(
    "options",
    [
        ("--filter", "ridge", "--rule", "gcv", "--kernel", "matern52"),
        ("--filter", "flow", "--kernel", "matern32", "--length-scale", "0.5"),
        ("--features", "a", "--kernel", "sobolev2", "--no-intercept", "--rule", "critical"),
        (
            "--features",
            "a,b",
            "--length-scale",
            "0.5,2",
            "--kernel",
            "laplace",
            "--noise-std",
            "0.1",
            "--rule",
            "discrepancy",
        ),
        ("--exclude", "b", "--kernel", "laplace", "--noise-std", "rice", "--rule", "holdout", "--seed", "5"),
        ("--kernel", "polynomial3", "--rule", "loo"),
    ],
    ids=" ".join,
)
def test_options_reach_the_estimator(table, options):
    printed = run_json("fit", table[0], "--target", "y", *options)
    chosen = dict(zip(options[::2], options[1::2], strict=False))
    assert printed["rule"] == chosen.get("--rule", printed["rule"])
    assert (printed["iteration"] is None) == (chosen.get("--filter") in ("ridge", "flow"))
    assert printed["length_scale"] == {"0.5": 0.5, "0.5,2": [0.5, 2.0]}.get(
        chosen.get("--length-scale"), printed["length_scale"]
    )


def test_a_sobolev_kernel_is_stretched_over_data_outside_the_unit_interval(table, tmp_path):
    _, frame = table
    frame.assign(a=100 * frame["a"]).to_csv(tmp_path / "wide.csv", index=False)
    wide = run_json("fit", tmp_path / "wide.csv", "--target", "y", "--features", "a", "--kernel", "sobolev1")
    assert wide["degrees_of_freedom"] > 2


def test_text_columns_and_missing_values_are_reported(tmp_path):
    rows = "\n".join(f"{i},{i % 7},{'uv'[i % 2]},{i * 0.1 + (i % 2)}" for i in range(30))
    (tmp_path / "t.csv").write_text(f"a,b,kind,y\n{rows}\n,1,u,3\n")
    printed = run_json("fit", tmp_path / "t.csv", "--target", "y", "--missing", "drop", "--kernel", "gaussian")
    assert printed["features"] == ["a", "b", "kind=u", "kind=v"]
    assert printed["warnings"][0] == "1 of 31 rows left out for missing values (row 31)"
    assert printed["rows"] == 30


def test_hostile_column_names_are_only_names(tmp_path, rng):
    frame = pd.DataFrame(rng.normal(size=(30, len(NASTY))), columns=NASTY)
    frame["y'\"\n<b>"] = frame[NASTY[0]] + 0.1 * rng.normal(size=30)
    frame.to_csv(tmp_path / "t.csv", index=False)
    fit = ["fit", tmp_path / "t.csv", "--target", "y'\"\n<b>", "--kernel", "gaussian"]
    printed = run_json(*fit, "--out", tmp_path / "m.stopwise")
    assert printed["features"] == NASTY
    for command in (fit, ["info", tmp_path / "m.stopwise"]):
        shown = run(*command).stdout
        assert "\x1b" not in shown
        assert "[red]a[/red]" in shown
        assert all(len(line) < 1000 for line in shown.splitlines())
    again = run_json("predict", tmp_path / "m.stopwise", tmp_path / "t.csv")
    np.testing.assert_array_equal(again["prediction"], sw.load(tmp_path / "m.stopwise").predict(frame[NASTY]))


def test_info_says_what_fit_said(table, tmp_path):
    fitted = run_json("fit", table[0], "--target", "y", "--kernel", "gaussian", "--out", tmp_path / "m.stopwise")
    told = run_json("info", tmp_path / "m.stopwise")
    shared = set(fitted) & set(told) - {"model"}
    assert {key: told[key] for key in shared} == {key: fitted[key] for key in shared}
    assert told["columns"] == ["a", "b"]
    assert told["why"] == explain(sw.load(tmp_path / "m.stopwise"))
    assert "KernelGradientRegressor" in run("info", tmp_path / "m.stopwise").stdout
    assert run("info", tmp_path / "m.stopwise", "-q").output == ""


def test_info_knows_models_of_several_responses_saved_from_python(table, tmp_path):
    _, frame = table
    model = sw.KernelRidgeRegressor("gaussian").fit(frame[["a", "b"]].to_numpy(), frame[["y", "a"]].to_numpy())
    sw.save(model, tmp_path / "m.stopwise")
    told = run_json("info", tmp_path / "m.stopwise")
    assert told["step_sum"] == model.step_sum_
    assert told["target"] is None
    assert told["why"].count("Response") == 2
    assert run("info", tmp_path / "m.stopwise").exit_code == 0


@pytest.mark.parametrize("words", [["--target", "y"], ["--target", "y", "--loss", "huber"], ["--target", "label"]])
def test_info_counts_the_rows_that_fit_counted_and_tells_copies_apart(table, tmp_path, words):
    frame = table[1].assign(label=np.where(table[1]["y"] > 1, "high", "low"))
    pd.concat([frame, frame[:15]]).to_csv(tmp_path / "copies.csv", index=False)
    idle = ["--exclude", "label" if "y" in words else "y"]
    options = [*words, *idle, "--kernel", "gaussian", "--out", tmp_path / "m.stopwise"]
    fitted, told = run_json("fit", tmp_path / "copies.csv", *options), run_json("info", tmp_path / "m.stopwise")
    assert (told["rows"], told["kept_rows"]) == (fitted["rows"], 40) == (55, 40)
    kept = "40 after merging copies" if told.get("loss") is None else "predictions weigh 40"
    assert f"55 rows ({kept}), 2 features" in run("info", tmp_path / "m.stopwise").stdout


def test_info_counts_all_rows_of_batches_landmarks_and_rows_without_weight(table, tmp_path):
    X, y = table[1][["a", "b"]].to_numpy(), table[1]["y"].to_numpy()
    settings = {"kernel": sw.kernels.Gaussian(0.5), "n_landmarks": X[:7]}
    first, second = (sw.KernelGradientRegressor(**settings).partial_fit(X[i::4], y[i::4]) for i in range(2))
    merged = first.merge(second).partial_fit(X[2::4], y[2::4]).partial_fit(X[3::4], y[3::4])
    weighted = sw.KernelGradientRegressor(settings["kernel"]).fit(X, y, sample_weight=np.arange(40) % 4 > 0)
    for model, kept in ((merged, 7), (weighted, 30)):
        sw.save(model, tmp_path / "m.stopwise")
        told = run_json("info", tmp_path / "m.stopwise")
        assert (told["rows"], told["kept_rows"]) == (40, kept)
        assert f"40 rows (predictions weigh {kept})" in run("info", tmp_path / "m.stopwise").stdout


def test_info_of_a_file_that_does_not_say_how_many_rows_there_were_says_so(table, tmp_path):
    model = sw.KernelGradientRegressor("gaussian", loss="huber").fit(table[1][["a", "b"]], table[1]["y"])
    model._fitted = replace(model._fitted, n_given=0)
    sw.save(model, tmp_path / "m.stopwise")
    told = run_json("info", tmp_path / "m.stopwise")
    assert (told["rows"], told["kept_rows"]) == (None, 40)
    assert "rows of unknown number (predictions weigh 40)" in run("info", tmp_path / "m.stopwise").stdout


def test_compare_puts_every_rule_on_one_path(table):
    path, frame = table
    printed = run_json("compare", path, "--target", "y", "--holdout", "0.25", "--kernel", "gaussian")
    assert (printed["rows"], printed["holdout_rows"]) == (30, 10)
    rows = {row["rule"]: row for row in printed["rules"]}
    assert list(rows) == [*comparison.RULES, comparison.RIDGE]
    order = np.random.default_rng(0).permutation(40)
    held, kept = np.sort(order[:10]), np.sort(order[10:])
    X, y = frame[["a", "b"]].to_numpy(), frame["y"].to_numpy()
    for rule in ("critical", "minimax", "sure", "gcv", "loo", "discrepancy", "holdout", "prudent"):
        model = sw.KernelGradientRegressor("gaussian", rule=rule, random_state=0).fit(X[kept], y[kept])
        assert rows[rule]["step_sum"] == pytest.approx(model.step_sum_, rel=1e-9)
        error = np.sqrt(np.mean((model.predict(X[held]) - y[held]) ** 2))
        assert rows[rule]["rmse_holdout"] == pytest.approx(error, rel=1e-6)
    shown = run("compare", path, "--target", "y", "--kernel", "gaussian").stdout
    assert all(rule in shown for rule in rows)


def test_cross_validated_ridge_agrees_with_scikit_learn(rng):
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.model_selection import KFold

    X = rng.uniform(size=(40, 2))
    y = np.sin(5 * X[:, 0]) + 0.2 * rng.normal(size=40)
    model = sw.KernelGradientRegressor(sw.kernels.Gaussian(0.3), fit_intercept=False).fit(X, y)
    grid = sw.rules.clock_grid(model.path_.along(sw.filters.Ridge()), ratio=1.25)[1:]
    errors = np.zeros_like(grid)
    for train, test in KFold(5, shuffle=True, random_state=3).split(X):
        for i, nu in enumerate(grid):
            ridge = KernelRidge(alpha=len(train) / nu, kernel="rbf", gamma=0.5 / 0.3**2).fit(X[train], y[train])
            errors[i] += np.sum((ridge.predict(X[test]) - y[test]) ** 2)
    assert comparison.cross_validated_ridge(model, X, y, 3) == pytest.approx(grid[np.argmin(errors)])


@pytest.mark.parametrize("intercept", [True, False])
def test_predictions_at_other_stops_are_those_of_a_model_stopped_there(intercept, rng):
    X = rng.uniform(size=(30, 2))
    y = X[:, 0] + rng.normal(size=30)
    settings = {"kernel": sw.kernels.Gaussian(0.5), "fit_intercept": intercept}
    model = sw.KernelGradientRegressor(**settings).fit(X, y)
    readings = [0.0, 3.0, 50.0]
    together = comparison.predict_at(model, X, readings)
    for column, reading in enumerate(readings):
        alone = sw.KernelGradientRegressor(rule=sw.rules.Fixed(step_sum=reading), **settings).fit(X, y)
        np.testing.assert_allclose(together[:, column], alone.predict(X), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("rule", "settings", "words"),
    [
        (sw.rules.Critical(1.2, "self"), {}, "one step later it is above"),
        ("sure", {}, "Stein's unbiased estimate of the risk is smallest there"),
        ("holdout", {}, "the error on the held-out rows is smallest there"),
        ("discrepancy", {"noise_std": 0.2}, "has come down to the noise level"),
        (sw.rules.Fixed(iteration=1), {}, "stopped after 1 step (step_sum"),
        ("critical", {"noise_std": 1e6}, "took no step: at this noise level no step is justified"),
        ("discrepancy", {"noise_std": 1e-9}, "where the path ends"),
        (sw.rules.Critical(1.2, "self"), {"filter": "flow"}, "meets its threshold"),
    ],
    ids=str,
)
def test_every_reason_has_its_sentence(rule, settings, words, rng):
    x = np.linspace(0, 1, 60)[:, None]
    y = np.sin(6 * x[:, 0]) + 0.2 * rng.normal(size=60)
    settings = {"kernel": sw.kernels.Gaussian(0.3), "noise_std": 0.2} | settings
    model = sw.KernelGradientRegressor(rule=rule, **settings).fit(x, y)
    assert words in explain(model)


def test_no_reason_is_without_a_sentence():
    from stopwise.rules.explanation import _WHY

    assert set(_WHY) == set(Reason)


def test_a_linear_part_is_told_with_its_degrees_of_freedom(tmp_path, rng):
    X = rng.normal(size=(200, 3))
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=X @ [1.0, -2.0, 3.0] + 0.3 * rng.normal(size=200))
    frame.to_csv(tmp_path / "line.csv", index=False)
    told = run("fit", str(tmp_path / "line.csv"), "--target", "y").stdout
    assert "and a linear part" in told
    assert ", beside 3 of the linear part" in told
    assert run_json("fit", str(tmp_path / "line.csv"), "--target", "y", "--json")["unpenalised"] == 4
    one = run("fit", str(tmp_path / "line.csv"), "--target", "y", "--kernel", "gaussian").stdout
    assert "linear part" not in one


def test_a_fit_of_responses_too_large_to_be_squared_is_explained_with_its_errors(tmp_path, rng):
    """It was done, and then ended with an error that told of intervals nobody had asked for."""
    x = rng.uniform(size=40)
    pd.DataFrame({"x": x, "y": 1e200 * np.sin(6 * x)}).to_csv(tmp_path / "t.csv", index=False)
    told = run("fit", tmp_path / "t.csv", "--target", "y", "--kernel", "gaussian")
    assert "Gradient descent stopped after" in told.stdout
    assert "unknown" not in told.stdout
    large, small = (
        sw.KernelGradientRegressor("gaussian").fit(x[:, None], scale * np.sin(6 * x)) for scale in (2.0**650, 1.0)
    )
    errors = [rmse_leave_one_out(model.path_, model.stop_.step_sum) for model in (large, small)]
    assert errors[0] == 2.0**650 * errors[1]
    with pytest.raises(ValueError, match="overflows above"):
        large.predict_interval(x[:1, None])


def test_a_model_that_is_not_saved_is_said_to_be(table, tmp_path):
    command = ["fit", str(table[0]), "--target", "y", "--kernel", "gaussian"]
    assert "not saved: add --out" in run(*command).stdout
    assert "not saved" not in run(*command, "--out", str(tmp_path / "m.stopwise")).stdout


def test_a_column_that_counts_the_rows_is_pointed_out_unless_asked_for(tmp_path, rng):
    frame = pd.DataFrame({"number": range(1, 31), "a": rng.normal(size=30), "y": rng.normal(size=30)})
    frame.to_csv(tmp_path / "numbered.csv", index=False)
    command = ["fit", str(tmp_path / "numbered.csv"), "--target", "y", "--kernel", "gaussian"]
    assert "'number' counts the rows and is used as a feature" in run(*command).stderr
    for more in (["--id", "number"], ["--exclude", "a"], ["--features", "number,a"]):
        assert "counts the rows" not in run(*command, *more).stderr


def test_a_comparison_has_held_out_errors_where_rows_are_held_out(table):
    command = ["compare", str(table[0]), "--target", "y", "--kernel", "gaussian"]
    assert "held-out" not in run(*command).stdout
    assert "held-out" in run(*command, "--holdout", "0.25").stdout
