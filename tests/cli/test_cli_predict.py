"""stopwise predict: the library's numbers, in batches, with a word about what was met on the way."""

import os
import subprocess
import sys
import weakref
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import stopwise as sw
from commands import run, run_json
from stopwise.exceptions import ExtrapolationWarning
from stopwise.io import read_model


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fitted")
    rng = np.random.default_rng(11)
    frame = pd.DataFrame({"a": rng.uniform(size=50), "kind": rng.choice(["u", "v"], 50), "b": rng.uniform(size=50)})
    frame["y"] = np.sin(5 * frame["a"]) + (frame["kind"] == "u") + 0.1 * rng.normal(size=50)
    frame.to_csv(folder / "train.csv", index=False)
    path = folder / "model.stopwise"
    assert run("fit", folder / "train.csv", "--target", "y", "--kernel", "gaussian", "--out", path).exit_code == 0
    return path, frame


def assert_equal(path, actual, expected):
    """Equal but for the order in which a batch's products are summed: rounding of the largest terms."""
    rounding = 16 * np.finfo(np.float64).eps * np.abs(sw.load(path).dual_coef_).sum()
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=rounding)


def by_library(path, frame, **options):
    """A kernel and weights by hand: the text column stands between the numbers as two of 0 and 1."""
    matrix = np.column_stack([frame["a"], frame["kind"] == "u", frame["kind"] == "v", frame["b"]]).astype(float)
    fitted = read_model(path).model._fitted
    plain = sw.KernelGradientRegressor()
    plain._fitted = replace(fitted, columns_in=None, recipe=None, feature_names=None)
    return plain.predict(matrix, **options)


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "tsv", "parquet"])
def test_predictions_are_the_librarys(fitted, tmp_path, suffix):
    path, frame = fitted
    shuffled = frame[["b", "y", "kind", "a"]].assign(more="ignored")
    data, out = tmp_path / f"new.{suffix}", tmp_path / "out.csv"
    shuffled.to_parquet(data) if suffix == "parquet" else shuffled.to_csv(
        data, index=False, sep="\t" if suffix == "tsv" else ","
    )
    assert run("predict", path, data, "--std", "--out", out).exit_code == 0
    written = pd.read_csv(out)
    mean, std = by_library(path, frame, return_std=True)
    assert_equal(path, written["prediction"], mean)
    np.testing.assert_allclose(written["std"], std, rtol=1e-6)


def test_predictions_go_to_standard_output_parquet_or_json(fitted, tmp_path):
    path, frame = fitted
    frame.to_csv(tmp_path / "new.csv", index=False)
    expected = by_library(path, frame)
    lines = run("predict", path, tmp_path / "new.csv").stdout.split()
    assert lines[0] == "prediction"
    assert_equal(path, [float(line) for line in lines[1:]], expected)
    assert run("predict", path, tmp_path / "new.csv", "--out", tmp_path / "o.parquet").exit_code == 0
    assert_equal(path, pq.read_table(tmp_path / "o.parquet")["prediction"], expected)
    printed = run_json("predict", path, tmp_path / "new.csv", "--std")
    assert_equal(path, printed["prediction"], expected)
    assert len(printed["std"]) == printed["rows"] == 50
    assert "prediction" not in run_json("predict", path, tmp_path / "new.csv", "--out", tmp_path / "o.csv")


@pytest.mark.parametrize("name", ["model", "rows", "warnings", "prediction", "id", "tree, old"])
def test_names_of_rows_have_a_place_of_their_own_in_json(fitted, tmp_path, name):
    path, frame = fitted
    frame.assign(**{name: [f"0{at}" for at in range(50)]}).to_csv(tmp_path / "new.csv", index=False)
    printed = run_json("predict", path, tmp_path / "new.csv", "--id", name)
    assert (printed["id_column"], printed["id"][7], printed["rows"]) == (name, "07", 50)
    assert (printed["model"], printed["warnings"]) == (str(path), [])
    assert_equal(path, printed["prediction"], by_library(path, frame))
    written = run_json("predict", path, tmp_path / "new.csv", "--id", name, "--out", tmp_path / "o.csv")
    assert written["id_column"] == name
    assert "id" not in written
    lines = (tmp_path / "o.csv").read_text().splitlines()
    assert lines[8].startswith("07,")


def test_a_feature_that_names_rows_too_is_carried_through_as_it_is_written(fitted, tmp_path):
    path, frame = fitted
    cells = ["00001", "2.50", "1e3", "NA"] * 5_000  # more rows than a batch
    new = pd.concat([frame[:4]] * 5_000).assign(b=cells)
    new.to_csv(tmp_path / "new.csv", index=False)
    printed = run_json("predict", path, tmp_path / "new.csv", "--id", "b")
    assert printed["id"] == [None if cell == "NA" else cell for cell in cells]
    assert printed["missing"] == 5_000
    assert printed["prediction"] == run_json("predict", path, tmp_path / "new.csv")["prediction"]


def test_intervals_are_columns_and_those_of_the_library(fitted, tmp_path):
    path, frame = fitted
    frame.to_csv(tmp_path / "new.csv", index=False)
    printed = run_json("predict", path, tmp_path / "new.csv", "--interval", "0.8", "--std")
    assert {"prediction", "std", "lower", "upper"} <= printed.keys()
    lower, value, upper = (np.array(printed[name]) for name in ("lower", "prediction", "upper"))
    np.testing.assert_allclose((lower + upper) / 2, value)
    wider = run_json("predict", path, tmp_path / "new.csv", "--interval", "0.9")
    assert np.all(np.array(wider["upper"]) > upper)
    assert run("predict", path, tmp_path / "new.csv", "--interval", "1.5").exit_code == 2


def test_rows_outside_the_range_of_training_are_counted(fitted, tmp_path):
    path, frame = fitted
    new = frame.assign(a=[*([7.0] * 3), *frame["a"][3:]], b=[-1.0, *frame["b"][1:]], kind=[*frame["kind"][:-1], "w"])
    new.to_csv(tmp_path / "new.csv", index=False)
    printed = run_json("predict", path, tmp_path / "new.csv")
    assert printed["outside"] == 3
    assert printed["outside_by_feature"] == {"a": 3, "b": 1}
    assert printed["unseen_text"] == 1
    assert printed["warnings"][0].startswith("3 of 50 rows lie outside the range of the training data (extrapolation)")
    spoken = run("predict", path, tmp_path / "new.csv", "--out", tmp_path / "o.csv")
    assert "3 of 50 rows lie outside" in spoken.stderr
    assert run("predict", path, tmp_path / "new.csv", "--out", tmp_path / "o.csv", "-q").output == ""


def test_the_library_warns_of_extrapolation_with_the_same_count(fitted):
    model = read_model(fitted[0]).model
    X = pd.DataFrame({"a": [7.0, 7.0, 7.0, 0.5], "kind": "u", "b": 0.5})
    with pytest.warns(ExtrapolationWarning, match=r"3 of 4 rows lie outside the range .* in feature 'a'"):
        model.predict(X)


def test_inside_the_range_nothing_is_said(recwarn, rng):
    X = rng.uniform(size=(20, 2))
    sw.KernelRidgeRegressor("gaussian").fit(X, X[:, 0]).predict(X)
    assert not [w for w in recwarn if issubclass(w.category, ExtrapolationWarning)]


def test_missing_values_are_refused_left_blank_or_filled(fitted, tmp_path):
    path, frame = fitted
    new = frame.assign(a=[np.nan, *frame["a"][1:]], kind=[*frame["kind"][:-1], None])
    new.to_csv(tmp_path / "new.csv", index=False)
    refused = run("predict", path, tmp_path / "new.csv", "--out", tmp_path / "o.csv", "--missing", "refuse")
    assert refused.exit_code == 2
    assert (
        refused.stderr
        == "stopwise: row 1 has a missing value: choose --missing impute or --missing drop (no prediction)\n"
    )
    assert not (tmp_path / "o.csv").exists()
    blank = run_json("predict", path, tmp_path / "new.csv", "--missing", "drop")
    assert [i for i, value in enumerate(blank["prediction"]) if value is None] == [0, 49]
    assert (blank["missing"], blank["unpredicted"]) == (2, 2)
    assert blank["warnings"][-1] == "2 of 50 rows have missing values and no prediction"
    filled = run_json("predict", path, tmp_path / "new.csv")
    assert filled["warnings"][-1] == "2 of 50 rows have missing values, which are filled in"
    # No gap among the text of training: a gap is then none of the known levels.
    expected = by_library(path, new.assign(a=new["a"].fillna(frame["a"].median())))
    assert_equal(path, filled["prediction"], expected)


def test_a_sobolev_model_leaves_rows_beyond_its_interval_blank(tmp_path):
    x = np.linspace(10, 20, 30)
    pd.DataFrame({"x": x, "y": np.sin(x)}).to_csv(tmp_path / "t.csv", index=False)
    model = tmp_path / "m.stopwise"
    assert run("fit", tmp_path / "t.csv", "--target", "y", "--kernel", "sobolev2", "--out", model).exit_code == 0
    pd.DataFrame({"x": [12.0, 25.0]}).to_csv(tmp_path / "new.csv", index=False)
    printed = run_json("predict", model, tmp_path / "new.csv")
    assert printed["prediction"][1] is None
    assert (printed["outside"], printed["unpredicted"]) == (1, 1)


def test_rows_without_a_prediction_are_told_by_their_reason(tmp_path):
    x = np.linspace(10, 20, 30)
    pd.DataFrame({"x": x, "y": np.sin(x)}).to_csv(tmp_path / "t.csv", index=False)
    model = tmp_path / "m.stopwise"
    assert run("fit", tmp_path / "t.csv", "--target", "y", "--kernel", "sobolev2", "--out", model).exit_code == 0
    pd.DataFrame({"x": [12.0, 25.0, np.nan]}).to_csv(tmp_path / "new.csv", index=False)
    beyond = "1 of 3 rows lie where the kernel is not defined and have no prediction"
    filled = run_json("predict", model, tmp_path / "new.csv")
    assert filled["warnings"][1:] == ["1 of 3 rows have missing values, which are filled in", beyond]
    blank = run_json("predict", model, tmp_path / "new.csv", "--missing", "drop")
    assert blank["warnings"][1:] == ["1 of 3 rows have missing values and no prediction", beyond]
    assert (filled["unpredicted"], blank["unpredicted"]) == (1, 2)


def test_models_from_python_predict_by_name_by_position_and_for_several_responses(tmp_path, rng):
    X = pd.DataFrame(rng.uniform(size=(30, 2)), columns=["a", "b"])
    Y = np.column_stack([X["a"], X["b"]])
    X[["b", "a"]].to_csv(tmp_path / "new.csv", index=False)
    named = sw.KernelRidgeRegressor("gaussian").fit(X, Y)
    sw.save(named, tmp_path / "named.stopwise")
    printed = run_json("predict", tmp_path / "named.stopwise", tmp_path / "new.csv", "--std")
    np.testing.assert_allclose(printed["prediction_2"], named.predict(X)[:, 1], rtol=1e-9)
    assert {"prediction_1", "std_1", "std_2"} <= set(printed)
    unnamed = sw.KernelRidgeRegressor("gaussian").fit(X[["b", "a"]].to_numpy(), Y[:, 0])
    sw.save(unnamed, tmp_path / "unnamed.stopwise")
    printed = run_json("predict", tmp_path / "unnamed.stopwise", tmp_path / "new.csv")
    np.testing.assert_allclose(printed["prediction"], unnamed.predict(X[["b", "a"]].to_numpy()), rtol=1e-9)
    X.assign(c=1.0).to_csv(tmp_path / "wide.csv", index=False)
    assert (
        "must have 2 columns; it has 3" in run("predict", tmp_path / "unnamed.stopwise", tmp_path / "wide.csv").stderr
    )


PEAK = """
import resource, runpy, sys
limit = int(sys.argv[1])
sys.argv = ["stopwise", *sys.argv[2:]]
if limit:
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
try:
    runpy.run_module("stopwise", run_name="__main__")
finally:
    # ru_maxrss would remember the test runner that this process was forked from.
    marks = dict(line.split(":") for line in open("/proc/self/status") if line.startswith("VmHWM"))
    sys.stderr.write(str(int(marks["VmHWM"].split()[0]) * 1024))
"""


def peak_memory(limit, *arguments):
    command = [sys.executable, "-c", PEAK, str(limit), *map(str, arguments)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stderr)


def test_batches_are_let_go(fitted, tmp_path, monkeypatch):
    """One is predicted while the next is read: fifty-seven stayed in memory."""
    path, frame = fitted
    pd.concat([frame] * 1_700).to_csv(tmp_path / "new.csv", index=False)
    predictor, seen, most = sys.modules["stopwise.cli.predict"].Predictor, [], [0]
    predict = predictor.predict

    def watched(self, batch, names):
        seen.append(weakref.ref(batch))
        most.append(sum(each() is not None for each in seen))
        return predict(self, batch, names)

    monkeypatch.setattr(predictor, "predict", watched)
    assert run("predict", path, tmp_path / "new.csv", "--out", tmp_path / "out.csv").exit_code == 0
    assert len(seen) > 4
    assert max(most) <= 2


@pytest.mark.skipif(sys.platform != "linux", reason="memory limits are Linux's")
def test_memory_does_not_grow_with_the_file(fitted, tmp_path):
    path, frame = fitted
    text = frame[["a", "kind", "b"]].to_csv(index=False).split("\n", 1)
    peaks = []
    for name, copies in (("small.csv", 800), ("large.csv", 3_000)):
        (tmp_path / name).write_text(text[0] + "\n" + text[1] * copies)
        peaks.append(peak_memory(500_000_000, "predict", path, tmp_path / name, "--out", tmp_path / "out.csv", "-q"))
    assert (tmp_path / "large.csv").stat().st_size > 5_000_000
    assert peaks[1] < 500_000_000
    assert peaks[1] < peaks[0] + 15_000_000
    written = pd.read_csv(tmp_path / "out.csv")["prediction"].to_numpy()
    assert_equal(path, written.reshape(3_000, 50), np.tile(by_library(path, frame), (3_000, 1)))
