"""Awkward tables fit and predict through the command line with no option but --target."""

import json

import awkward
import numpy as np
import pytest

from commands import run
from stopwise.tables import Asked, Reading, open_tables

NAMES = [*awkward.texts(4), *awkward.archives(4), "sheet.xlsx", "typed.parquet"]
FIT = ("--target", awkward.TARGET, "--kernel", "gaussian", "--rule", "gcv", "--json")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("awkward")
    awkward.write(folder)
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_an_awkward_table_fits_and_predicts_with_its_target_alone(folder, name, tmp_path):
    fitted = run("fit", folder / name, *FIT, "--out", tmp_path / "m.stopwise")
    assert fitted.exit_code == 0, fitted.stderr
    found = json.loads(fitted.stdout)
    rows = awkward.ROWS * (2 if name == "duplicate_rows.csv" else 1)
    assert found["rows"] == rows - (name == "gaps_in_target.csv")
    assert {"weight", "day"} <= set(found["features"])
    predicted = run("predict", tmp_path / "m.stopwise", folder / name, "--json")
    assert predicted.exit_code == 0, predicted.stderr
    values = np.array(json.loads(predicted.stdout)["prediction"], dtype=float)
    truth = np.array(awkward.numbers()[awkward.TARGET])
    assert np.corrcoef(np.resize(truth, rows), values)[0, 1] > 0.7


@pytest.mark.parametrize("name", NAMES)
def test_the_target_is_read_to_the_last_digit(folder, name):
    with open_tables(folder / name, Asked(expected={awkward.TARGET})) as tables:
        table = tables.whole(Reading(), [awkward.TARGET])
    truth = awkward.numbers()[awkward.TARGET]
    values = table.columns[awkward.TARGET].as_numbers
    missing = np.isnan(values)
    assert missing.sum() == (name == "gaps_in_target.csv")
    np.testing.assert_array_equal(values[~missing], np.resize(truth, len(values))[~missing])


@pytest.mark.parametrize("name", ["american_dates.csv", "british_dates.csv", "month_names.csv", "compact_dates.csv"])
def test_dates_are_the_same_however_they_are_written(folder, name):
    with open_tables(folder / name) as tables:
        days = tables.whole().columns["day"].values
    np.testing.assert_array_equal(days, np.array(awkward.numbers()["day"], dtype="datetime64[us]"))
