"""The command line and targets of text: fit, predict and info, and what is refused."""

from __future__ import annotations

import csv
from unittest import mock

import pytest
from helpers.commands import run, run_json
from sklearn.datasets import load_iris

from stopwise import KernelGradientClassifier


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("iris") / "iris.csv"
    data = load_iris()
    with path.open("w", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(["length", "width", "species"])
        for x, code in list(zip(data.data, data.target, strict=True))[::2]:
            rows.writerow([x[2], x[3], data.target_names[code]])
    return path


def test_a_target_of_text_is_fitted_predicted_and_told(table, tmp_path):
    model, out = tmp_path / "iris.stopwise", tmp_path / "out.csv"
    facts = run_json("fit", table, "--target", "species", "--kernel", "gaussian", "--out", model)
    assert facts["classes"] == ["setosa", "versicolor", "virginica"]
    assert "holds text: a classifier of its 3 values" in facts["warnings"][0]
    assert facts["loss"] == "softmax"
    assert run("predict", model, table, "--out", out, "-q").exit_code == 0
    rows = list(csv.DictReader(out.read_text().splitlines()))
    truth = list(csv.DictReader(table.read_text().splitlines()))
    hits = [row["prediction"] == given["species"] for row, given in zip(rows, truth, strict=True)]
    assert sum(hits) > 0.9 * len(hits)
    assert all(abs(sum(float(v) for k, v in row.items() if k.startswith("probability")) - 1) < 1e-9 for row in rows)
    inside = run_json("predict", model, table)
    assert inside["prediction"] == [row["prediction"] for row in rows]
    assert run_json("info", model)["estimator"] == "KernelGradientClassifier"
    told = run("info", model)
    assert told.exit_code == 0
    assert "setosa, versicolor, virginica" in told.stdout


@pytest.mark.parametrize(("no", "yes"), [("no", "yes"), ("0", "1")])
def test_the_note_on_yes_and_no_says_how_to_have_a_classifier(tmp_path, no, yes):
    path = tmp_path / "t.csv"
    path.write_text("x,y\n" + "".join(f"{at},{yes if at > 19 else no}\n" for at in range(40)))
    (note,) = run_json("fit", path, "--target", "y", "--kernel", "gaussian")["warnings"]
    cure = note.split("say ")[1].replace("'", "").split()
    facts = run_json("fit", path, "--target", "y", "--kernel", "gaussian", *cure)
    assert facts["classes"] == [no, yes]


@pytest.mark.parametrize("loss", ["poisson", "huber", "quantile"])
def test_numbers_are_fitted_and_predicted_under_their_loss(tmp_path, loss):
    counts, model = tmp_path / "counts.csv", tmp_path / "model.stopwise"
    counts.write_text("x,y\n" + "".join(f"{i / 10},{i % 4 + i // 10}\n" for i in range(40)))
    facts = run_json("fit", counts, "--target", "y", "--loss", loss, "--kernel", "gaussian", "--out", model)
    assert facts["loss"] == loss
    predicted = run_json("predict", model, counts)["prediction"]
    assert len(predicted) == 40
    assert predicted[-1] > predicted[0]


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["--loss", "huber"], "--loss is for a target of numbers"),
        (["--solver", "krylov"], "--solver is for a target of numbers"),
    ],
)
def test_what_classes_cannot_have_is_refused_and_nothing_is_written(table, tmp_path, words, match):
    out = tmp_path / "model.stopwise"

    done = run("fit", table, "--target", "species", "--out", out, *words)
    assert done.exit_code == 2
    assert match in done.output
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("words", [["--interval", "0.9"], ["--std"], ["--interval", "0.9", "--json"]])
def test_deviations_and_intervals_of_classes_are_refused_and_nothing_is_written(table, tmp_path, words):
    model, out = tmp_path / "iris.stopwise", tmp_path / "out.csv"
    assert run("fit", table, "--target", "species", "--kernel", "gaussian", "--out", model, "-q").exit_code == 0
    for more in ([], ["--out", out]):
        done = run("predict", model, table, *words, *more)
        assert (done.exit_code, done.stdout) == (2, "")
        assert done.stderr == f"stopwise: {words[0]} is for models of --loss squared; this one has the loss softmax\n"
    assert list(tmp_path.iterdir()) == [model]


def test_rules_for_classes_are_compared_with_logistic_regression(table, tmp_path):
    found = run_json("compare", table, "--target", "species", "--kernel", "gaussian", "--holdout", "0.3")
    assert [row["rule"] for row in found["rules"]] == ["prudent", "loo", "logistic regression, 5-fold"]
    assert found["holdout_rows"] == 23
    assert all(row["accuracy_holdout"] > 0.8 and row["log_loss_holdout"] < 0.6 for row in found["rules"])
    assert found["rules"][1]["left_out_loss"] <= found["rules"][0]["left_out_loss"]
    told = run("compare", table, "--target", "species", "--kernel", "gaussian")
    assert told.exit_code == 0
    assert "left-out loss" in told.stdout
    drawn = run("compare", table, "--target", "species", "--figure", tmp_path / "a.png")
    assert drawn.exit_code == 2
    assert "--figure is for a target of numbers" in drawn.output
    assert not list(tmp_path.iterdir())


def test_the_published_path_is_compared_for_two_classes(table, tmp_path):
    two = tmp_path / "two.csv"
    two.write_text("\n".join(line for line in table.read_text().splitlines() if "setosa" not in line))
    found = run_json("compare", two, "--target", "species", "--kernel", "gaussian")
    assert [row["rule"] for row in found["rules"]][2] == "critical"
    assert found["rules"][2]["iteration"] is not None


def test_a_number_of_landmarks_reaches_fits_and_comparisons_of_classes(table):
    asked, fit = (table, "--target", "species", "--kernel", "gaussian", "--landmarks", 7), KernelGradientClassifier.fit
    with mock.patch.object(KernelGradientClassifier, "fit", autospec=True, side_effect=fit) as seen:
        assert run("fit", *asked).exit_code == run("compare", *asked).exit_code == 0
    assert len(seen.call_args_list) > 1
    assert {call.args[0].n_landmarks for call in seen.call_args_list} == {7}
