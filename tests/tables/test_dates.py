"""Cells as dates: quarters, weeks, zones, patterns, and what is said of columns that may hold dates."""

import datetime as dt

import numpy as np
import pytest

from commands import run
from stopwise.tables.reading.cells import parse_dates


def fitted(tmp_path, text, *more):
    (tmp_path / "t.csv").write_text(text)
    return run("fit", tmp_path / "t.csv", "--target", "y", "--kernel", "gaussian", *more)


@pytest.mark.parametrize("day", [dt.date(2020, 12, 28) + dt.timedelta(days=37 * at) for at in range(20)])
def test_weeks_are_those_of_the_calendar_and_begin_on_monday(day):
    year, week, weekday = day.isocalendar()
    monday = np.datetime64(day - dt.timedelta(days=weekday - 1))
    for cell in (f"{year}-W{week:02d}", f"{year}W{week:02d}"):
        assert parse_dates([cell], "year week")[0] == monday
    assert parse_dates([f"{year}-W{week:02d}-{weekday}"], "year week")[0] == np.datetime64(day)
    assert parse_dates([f"{year}-W{week:02d}"], "%G-W%V")[0] == monday
    for pattern in ("%Y-W%W", "%Y-W%U"):  # the week that begins on Monday, and the one that begins on Sunday
        begins = monday if pattern[-1] == "W" or weekday < 7 else monday + 7
        assert parse_dates([day.strftime(pattern)], pattern)[0] == begins or day.strftime("%W") == "00"
    assert parse_dates(["2021-W53"], "year week") is None


def test_a_pattern_that_reads_no_date_says_why(tmp_path):
    for pattern, words in (("%Q", "'Q' is a bad directive"), ("%Y-W%V", "Use the ISO year '%G' instead")):
        said = fitted(tmp_path, "when,y\n2021-W02,1\n2021-W03,2\n", "--as", f"when={pattern}").stderr
        assert f"no date can be read by the pattern '{pattern}'" in said
        assert words in said


def test_quarters_begin_in_their_first_month():
    cells = [f"{2000 + at // 4} Q{at % 4 + 1}" for at in range(8)]
    months = [f"{2000 + at // 4}-{at % 4 * 3 + 1:02d}" for at in range(8)]
    np.testing.assert_array_equal(parse_dates(cells, "year quarter"), parse_dates(months, "year-month"))
    swapped = [" ".join(reversed(cell.split())) for cell in cells]
    np.testing.assert_array_equal(parse_dates(swapped, "quarter year"), parse_dates(months, "year-month"))


@pytest.mark.parametrize("stray", ["2020-02-31", "2O20-02-11", "2020-13-01", "soon"])
def test_one_cell_that_is_no_date_is_named_and_can_be_made_a_gap(stray, tmp_path):
    """It neither makes months of all dates nor levels of them."""
    rows = [f"2020-02-{at % 28 + 1:02d},{at}.5\n" for at in range(40)]
    rows[9] = f"{stray},1.5\n"
    text = "when,y\n" + "".join(rows)
    assert f"'when' holds dates, but not in all rows (row 10: '{stray}')" in fitted(tmp_path, text).stderr
    assert f"(row 10: '{stray}'): mend that cell" in fitted(tmp_path, text, "--as", "when=date").stderr
    assert fitted(tmp_path, text, "--gap", stray).exit_code == 0


def test_levels_that_may_be_dates_are_made_dates_as_the_note_says(tmp_path):
    days = [f"2021-03-{at % 9 + 10}" if at % 2 else f"{at % 9 + 10}/03/2021" for at in range(40)]
    text = "day,y\n" + "".join(f"{day},{at % 7}.5\n" for at, day in enumerate(days))
    assert "if it is dates, say --as COLUMN=date" in fitted(tmp_path, text).stderr
    made = fitted(tmp_path, text, "--as", "day=date")
    assert "text" not in made.stderr
    assert "dates 'day' (trend, week)" in made.stdout


def test_a_zone_follows_a_time_only():
    for cell, how in (("2020-02-31", "year-month"), ("2020-02+01", "year-month"), ("2020-01-01+02", "year-month-day")):
        assert parse_dates([cell], how) is None
    for cell in ("2020-02-03T14:05+02", "2020-02-03 14:05:06-0330", "2020-02-03T14:05Z"):
        assert str(parse_dates([cell], "year-month-day")[0]).startswith("2020-02-03T14:05")


def test_of_any_dates_the_day_stands_first_in_all_cells_or_in_none():
    cells = ["03/04/2020", "2020-05-06", "26/09/2020"]
    assert [str(day)[:10] for day in parse_dates(cells, "any")] == ["2020-04-03", "2020-05-06", "2020-09-26"]
    assert [str(day)[:10] for day in parse_dates(cells[:2], "any")] == ["2020-03-04", "2020-05-06"]
    assert str(parse_dates(["09/26/2020", "26/09/2020"], "any")[1])[:10] == "2020-09-26"
