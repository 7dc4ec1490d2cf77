"""Numbers as people write them: in thousands, with units, as ledgers have them, as times and durations."""

import datetime as dt
import decimal
import re

import numpy as np
import pandas as pd
import pytest

import stopwise as sw
from commands import run, run_json
from stopwise.tables import Asked, Column, Kind, Reading, Roles, Table, TableEncoder, TableError, open_tables, prepare
from stopwise.tables.reading.cells import as_number, measure, parse_cells
from stopwise.tables.reading.times import as_days, as_hours


@pytest.mark.parametrize("group", [",", " ", "'", "\u2019", "\u00a0", "\u202f"])
@pytest.mark.parametrize("value", [1_234, 12_345_678, 1_234_567_890])
def test_thousands_are_in_groups_of_three_however_many(group, value):
    assert as_number(f"{value:,}".replace(",", group)) == value
    assert as_number(f"-{value:,}.25".replace(",", group)) == -value - 0.25
    assert as_number(f"{value:,}".replace(",", group) + "5") is None


@pytest.mark.parametrize("value", [5.0, 1_234_567.5])
def test_ledgers_write_what_is_owed_in_brackets_or_with_the_sign_behind(value):
    for cell in (f"({value:,})", f"({value})", f"{value:,}-"):
        assert as_number(cell) == -value
    assert measure(f"(${value:,})", ".") == (-value, "$")
    for cell in ("()", "(-5)", "5--", "(a)", "-", "(5"):
        assert as_number(cell) is None


@pytest.mark.parametrize("unit", ["kg", "mm Hg", "°C", "m/s", "km²", "USD", '"', "Stück"])
@pytest.mark.parametrize("blank", ["", " "])
def test_a_unit_may_stand_behind_a_number(unit, blank):
    assert measure(f"-1,234.5{blank}{unit}", ".") == (-1234.5, unit)
    assert measure(f"1.234,5{blank}{unit}", ",") == (1234.5, unit)


@pytest.mark.parametrize("cell", ["5", "A12", "group1", "Room 12", "5-6 kg", "14:22", "2020-01-01", "1/8 in", "kg", ""])
def test_what_has_no_number_or_no_unit_is_no_measure(cell):
    assert measure(cell, ".") is None


def test_currencies_stand_in_front():
    assert measure("USD 636.96", ".") == (636.96, "USD")
    assert measure("R$ 5", ".") == (5.0, "R$")


@pytest.mark.parametrize("sign", "$€£¥")
def test_signs_of_currencies_and_of_percent_are_units_wherever_they_stand(sign):
    for cell in (f"{sign}1,234.5", f"{sign} 1,234.5", f"1,234.5{sign}", f"1,234.5 {sign}"):
        assert measure(cell, ".") == (1234.5, sign)
        assert as_number(cell) is None
    for cell in (f"-{sign}5", f"{sign}-5", f"({sign}5)", f"(5{sign})"):
        assert measure(cell, ".") == (-5.0, sign)
    assert measure("5,5 %", ",") == measure("5.5%", ".") == (5.5, "%")
    assert measure(f"USD {sign}5", ".") == (5.0, f"USD {sign}")


@pytest.mark.parametrize(("one", "other"), [("${}", "€{}"), ("{}%", "{}"), ("£{}", "{} £ "), ("¥{}", "{}")])
def test_signs_go_the_way_of_other_units(one, other, tmp_path):
    """A column of both is no numbers; a model of one refuses another, and says where there is none."""
    cells = [f"{at}.5" for at in range(30)]
    mixed = "".join(f"{(one if at % 2 else other).format(cell)},{cell}\n" for at, cell in enumerate(cells))
    same = one.format(1).strip("1 ") == other.format(1).strip("1 ")
    assert ("holds numbers as text" in fitted(tmp_path, "a,y\n" + mixed).stderr) is not same
    pure = "a,y\n" + "".join(f"{one.format(cell)},{cell}\n" for cell in cells)
    assert "is read as numbers of" in fitted(tmp_path, pure, "--out", tmp_path / "m.stopwise").stderr
    (tmp_path / "new.csv").write_text("a\n" + "".join(f"{other.format(cell)}\n" for cell in cells))
    said = run("predict", tmp_path / "m.stopwise", tmp_path / "new.csv")
    assert said.exit_code == (2 if other == "€{}" else 0)
    assert ("is in '€', and the fit's was in '$': convert it" in said.stderr) is (other == "€{}")
    assert said.stderr.count("is without a unit, and the fit's was in") == (other == "{}")


@pytest.mark.parametrize("hour", range(24))
def test_hours_before_and_after_noon_are_those_of_the_clock(hour):
    moment = dt.datetime(2020, 1, 1, hour, 7)
    for pattern in ("%H:%M", "%I:%M %p", "%I:%M%p"):
        assert as_hours(moment.strftime(pattern)) == pytest.approx(hour + 7 / 60, abs=1e-12)
    assert as_hours("13:00 pm") is None
    assert as_hours("0:30 am") is None


@pytest.mark.parametrize(
    ("cell", "hours"),
    [("2h 7m", 2 + 7 / 60), ("1d 2h", 26), ("90 s", 0.025), ("1 hour, 30 minutes", 1.5), ("-2h", -2), ("PT2H30M", 2.5)]
    + [("P1DT6H", 30), ("P2D", 48), ("h", None), ("P", None), ("PT", None), ("5", None), ("2m 1h", None)],
)
def test_durations_are_days(cell, hours):
    found = parse_cells([cell, "NA"], as_days)
    assert found is None if hours is None else found[0] * 24 == pytest.approx(hours) and np.isnan(found[1])


@pytest.mark.parametrize("seconds", [0, 59, 3600, 86_399, 90_061, -1, -3600, -100_000])
def test_durations_are_read_as_python_and_pandas_write_them(seconds):
    span = dt.timedelta(seconds=seconds)
    for text in (str(pd.Timedelta(span)), pd.Timedelta(abs(span)).isoformat()):
        sign = 1 if text.startswith("P") and seconds < 0 else 0
        assert as_days(text) == pytest.approx((-1) ** sign * seconds / 86_400, abs=1e-12)
    if span.days:
        assert as_days(str(span)) == pytest.approx(seconds / 86_400)


WRITTEN = {
    "thousands": lambda x: f'"{int(x * 1e6):,}"',
    "kilograms": lambda x: f"{x:.2f}kg",
    "dollars": lambda x: f"USD {x:.2f}",
    "ledger": lambda x: f'"({x * 1e3:,.0f})"' if x > 5 else f'"{x * 1e3:,.0f}"',
    "afternoon": lambda x: (dt.datetime(2020, 1, 1, 8) + dt.timedelta(hours=x)).strftime("%I:%M %p"),
    "duration": lambda x: f"{int(x)}h {int(60 * (x % 1))}m",
}


@pytest.mark.filterwarnings("ignore:'[ay]' is read as")
@pytest.mark.parametrize("name", WRITTEN)
def test_a_column_and_a_target_of_such_numbers_are_fitted_as_numbers(name, tmp_path, rng):
    x = rng.uniform(0, 10, size=60)
    cells = [(WRITTEN[name](value), WRITTEN[name](10 - value), f"{value:.4f}") for value in x]
    path = tmp_path / "t.csv"
    path.write_text("a,y,z\n" + "".join(",".join(row) + "\n" for row in cells))
    found = run_json("fit", path, "--target", "y", "--kernel", "gaussian", "--json", "--out", tmp_path / "m.stopwise")
    assert found["features"] == ["a", "z"]
    assert found["rows"] == 60
    predicted = run_json("predict", tmp_path / "m.stopwise", path, "--json")["prediction"]
    with open_tables(path, Asked(expected={"y"})) as tables:
        truth = tables.whole(Reading()).columns["y"].as_numbers
    assert np.corrcoef(np.array(predicted, dtype=float), truth)[0, 1] > 0.95


def test_a_unit_is_said_must_be_the_same_in_all_rows_and_can_be_overruled(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,y\n" + "".join(f"{at % 3} kg,{at}\n" for at in range(20)) + ",3\n")
    command = ["fit", path, "--target", "y", "--kernel", "gaussian"]
    assert "'a' is read as numbers of 'kg': if it is text, say --as 'a=text'" in run(*command).stderr
    assert run_json(*command, "--json", "--as", "a=text")["features"][:2] == ["a=0 kg", "a=1 kg"]
    path.write_text("a,y\n" + "".join(f"{at % 3} {'kg' if at else 'g'},{at}\n" for at in range(20)))
    assert run_json(*command, "--json")["features"] == ["a=0 g", "a=0 kg", "a=1 kg", "a=2 kg"]


@pytest.mark.filterwarnings("ignore:'[at]' is read as")
def test_a_model_remembers_units_and_refuses_others(tmp_path):
    new, model = tmp_path / "new.csv", tmp_path / "m.stopwise"
    text = "a,t,y\n" + "".join(f"{at} kg,{at}h 5m,{at % 7}.5\n" for at in range(30))
    assert fitted(tmp_path, text, "--out", model).exit_code == 0
    answers = []
    for row, refused in (
        ("5 kg,5h 5m", ""),
        ("5,5h 5m", ""),
        ("5 g,5h 5m", "'g'.*'kg'"),
        ("5 kg,5:05", "'hours'.*'days'"),
    ):
        new.write_text(f"a,t\n{row}\n")
        said = run("predict", model, new)
        assert said.exit_code == (2 if refused else 0)
        assert bool(re.search(refused, said.stderr))
        answers += [said.stdout] * (not refused)
    assert answers[0] == answers[1] != ""
    (tmp_path / "folder").mkdir()
    for unit in ("kg", "g"):
        (tmp_path / "folder" / f"{unit}.csv").write_text(f"a,y\n1 {unit},1\n2 {unit},2\n")
    with (
        open_tables(tmp_path / "folder") as tables,
        pytest.raises(TableError, match="'a' is in 'g' here and in 'kg' there"),
    ):
        tables.whole()
    spans = pd.DataFrame({"a": pd.to_timedelta(np.arange(12), unit="h")})
    hours = pd.DataFrame({"a": [dt.time(at) for at in range(12)]})
    with pytest.raises(TableError, match="is in 'hours', and the fit's was in 'days'"):
        TableEncoder().fit(spans).transform(hours)


def test_a_way_of_writing_must_hold_in_every_batch_of_rows(tmp_path):
    """What later rows allow, and earlier ones did not, is no reading of the column."""
    for early, late in (("2020-01-{:02d}", "03/{:02d}/2020"), ("{}", "{} kg"), ("{} kg", "{}")):
        cells = [early.format(at % 28 + 1) for at in range(20_000)] + [late.format(at % 28 + 1) for at in range(5)]
        (tmp_path / "t.csv").write_text("a,y\n" + "".join(f"{cell},1\n" for cell in cells))
        with open_tables(tmp_path / "t.csv") as tables:
            column = tables.whole().columns["a"]
        assert column.kind is Kind.TEXT
        assert column.values.tolist() == cells


def test_an_error_names_the_first_cell_that_is_no_number(tmp_path):
    (tmp_path / "t.csv").write_text("a,y\n1.5,1\n2.5,2\nx,3\n")
    with open_tables(tmp_path / "t.csv") as tables, pytest.raises(TableError, match="row 3: 'x' is not"):
        tables.whole(Reading(kinds={"a": Kind.NUMBER}))


def number_table(**columns):
    return Table({name: Column(Kind.NUMBER, np.array(values, dtype=float)) for name, values in columns.items()})


def test_a_last_row_of_sums_is_left_out_and_said():
    a, y = [1.25, 2.25, 4.25, 8.5], [3.0, 1.0, 1.0, 4.0]
    summed = prepare(number_table(a=[*a, sum(a)], y=[*y, sum(y)]), Roles("y"), ["a"])
    assert summed.target.tolist() == y
    assert len(summed.table) == 4
    assert summed.notes == ("the last row is left out: it holds the sums of the others",)
    rounded = [1.3, 2.3, 4.3, 8.5]  # of what was rounded, the sum may be off in the last digit
    assert prepare(number_table(a=[*rounded, 16.3], y=[*y, 9.0]), Roles("y"), ["a"]).target.tolist() == y
    for other in (number_table(a=[*a, 16.0], y=[*y, 9.0]), number_table(a=[*a, 2.0], y=[*y, 9.0])):
        assert prepare(other, Roles("y"), ["a"]).target.tolist() == [*y, 9.0]


def test_the_word_before_the_sums_of_a_last_row_makes_no_text_of_dates_or_numbers(tmp_path, rng):
    """They were levels of text, one a day."""
    x, y = rng.uniform(1, 9, 40).round(1), rng.uniform(1, 9, 40).round(1)
    rows = [f"2021-03-{at % 9 + 10};{at},5;{x[at]};{y[at]}\n".replace(".", ",") for at in range(40)]
    last = f"Total;Sum;{x.sum():.1f};{y.sum():.1f}\n".replace(".", ",")
    summed = fitted(tmp_path, "day;size;x;y\n" + "".join(rows) + last)
    assert summed.stderr.count("the last row is left out: it holds the sums of the others") == 1
    without = fitted(tmp_path, "day;size;x;y\n" + "".join(rows))
    columns = [line for line in without.stdout.splitlines() if "columns " in line or "data " in line]
    assert "2 of numbers, dates 'day' (trend, week)" in columns[0]
    assert columns == [line for line in summed.stdout.splitlines() if "columns " in line or "data " in line]


def test_long_numbers_that_may_name_rows_are_pointed_out(tmp_path, rng):
    rows = "".join(f"{9007199254740993 + 2 * at},{x:.3f},{x**2:.3f}\n" for at, x in enumerate(rng.normal(size=30)))
    (tmp_path / "t.csv").write_text("account,x,y\n" + rows)
    said = run("fit", tmp_path / "t.csv", "--target", "y", "--kernel", "gaussian").stderr
    assert "'account' has whole numbers of 16 digits and more" in said
    assert "say --id 'account'" in said
    assert "'account' has lost its digits" in said
    assert run("fit", tmp_path / "t.csv", "--target", "y", "--kernel", "gaussian", "--id", "account").stderr == ""


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ([f"{at}/8" for at in range(30)], "names rows: 30 values in 30 rows, such as '0/8'"),
        ([f"{at}.5{'kM'[at % 2]}" for at in range(30)], "holds numbers as text, such as '0.5k', '1.5M'"),
        ([f"2020-01-{at + 1:02d}" if at % 2 else f"{at + 1} Jan 2020" for at in range(30)], "holds dates as text"),
    ],
)
def test_text_that_is_left_out_says_what_it_is_like(cells, words, tmp_path):
    with pytest.raises(TableError, match="no feature is left") as raised:
        TableEncoder().fit(pd.DataFrame({"a": cells}))
    assert words in str(raised.value)
    (tmp_path / "t.csv").write_text("a,y\n" + "".join(f"{cell},{at}\n" for at, cell in enumerate(cells)))
    assert words in run("fit", tmp_path / "t.csv", "--target", "y").stderr


def test_a_target_of_dates_and_a_table_without_header_say_what_to_do(tmp_path):
    (tmp_path / "t.csv").write_text("a,y\n" + "".join(f"{at},2020-01-{at + 1:02d}\n" for at in range(20)))
    assert "give it as days since some day" in run("fit", tmp_path / "t.csv", "--target", "y").stderr
    (tmp_path / "u.csv").write_text("".join(f"{at},{at}.5\n" for at in range(20)))
    assert "numbered since the table has no header" in run("fit", tmp_path / "u.csv", "--target", "y").stderr


def test_text_of_pandas_own_kind_may_have_gaps():
    frame = pd.DataFrame({"a": pd.array(["u", "v", None] * 4, dtype="string")})
    assert list(TableEncoder().fit(frame).get_feature_names_out()) == ["a=u", "a=v", "a=(missing)"]


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ([1.5, 2.5, "n/k", 4.5], r"holds 'float', 'str' .*row 3: 'n/k'"),
        ([1j, 2j, 3j, 4j], "holds 'complex'"),
        ([[1], [2], [3], [4]], r"holds 'list' .*row 1: \[1\]"),
    ],
)
def test_a_column_of_several_sorts_names_a_row_of_the_rarest(cells, words):
    with pytest.raises(TableError, match=words):
        TableEncoder().fit(pd.DataFrame({"a": pd.Series(cells, dtype=object)}))


def test_a_period_is_the_date_that_it_begins_at():
    months = pd.period_range("2000-01", periods=30, freq="M")
    gappy = pd.DataFrame({"a": months.where(np.arange(30) != 4)})
    starts = pd.DataFrame({"a": months.to_timestamp().where(np.arange(30) != 4)})
    encoded = TableEncoder().fit(gappy).transform(gappy)
    np.testing.assert_array_equal(encoded, TableEncoder().fit(starts).transform(starts))


def test_a_zero_byte_is_named_by_its_line(tmp_path):
    assert "a zero byte in line 3" in fitted(tmp_path, "x,y\n1,2\n2,\0003\n3,4\n").stderr


def test_decimals_are_numbers_and_a_frame_needs_columns_and_known_responses():
    frame = pd.DataFrame({"a": [decimal.Decimal(at) / 4 for at in range(10)]})
    assert TableEncoder().fit(frame).transform(frame)[:, 0].tolist() == [at / 4 for at in range(10)]
    with pytest.raises(TableError, match="no columns"):
        TableEncoder().fit(pd.DataFrame(index=range(5)))
    with pytest.raises(ValueError, match=r"Input y contains NaN\. Leave those rows out"):
        sw.KernelGradientRegressor().fit(frame, [np.nan] * 10)


def fitted(tmp_path, text, *more):
    (tmp_path / "t.csv").write_text(text)
    return run("fit", tmp_path / "t.csv", "--target", "y", "--kernel", "gaussian", *more)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_what_is_said_to_be_text_has_no_slips(tmp_path, suffix):
    frame = pd.DataFrame({"code": [f"{at % 40}" if at % 9 else "1A" for at in range(200)], "y": np.arange(200.0) % 7})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    words = ("fit", tmp_path / f"t{suffix}", "--target", "y", "--kernel", "gaussian", "--max-levels", "20")
    assert "'code' holds numbers, but not in all rows (row 1: '1A')" in run(*words).stderr
    said = run(*words, "--as", "code=text")
    assert said.exit_code == 0
    assert "rarest levels of 'code'" in said.stderr


def test_a_model_that_knows_a_column_to_be_true_or_false_reads_it_as_it_was_said(tmp_path):
    rows = [f"{'yn'[at % 2]},{at},{at % 2}.5\n" for at in range(20)]
    model = tmp_path / "m.stopwise"
    assert fitted(tmp_path, "b,x,y\n" + "".join(rows), "--as", "b=boolean", "--out", model).exit_code == 0
    found = [run_json("predict", model, write(tmp_path, cells))["prediction"] for cells in ("yn", "10", "tf")]
    assert found[0] == found[1] == found[2]


def write(folder, cells):
    (folder / "new.csv").write_text("b,x\n" + "".join(f"{cell},5\n" for cell in cells))
    return folder / "new.csv"


def test_comments_between_rows_and_rules_below_a_header_are_no_rows(tmp_path):
    rows = [f"{at},{at % 7}.5\n" for at in range(30)]
    rows[7] += "# checked until here\n"
    assert " 30 rows, 1 feature" in fitted(tmp_path, "x,y\n" + "".join(rows) + "# the end, my friend, of it\n").stdout
    drawn = "| x | y |\n|---|---|\n" + "".join(f"| {at} | {at % 7}.5 |\n" for at in range(30))
    assert "1 of 31 rows left out: no 'y' (row 1)" in fitted(tmp_path, drawn).stderr


def test_a_target_in_other_capitals_is_found_and_a_slip_in_it_is_named(tmp_path):
    rows = [f"{at},{at % 7}.5\n" for at in range(30)]
    assert "did you mean 'Y'?" in fitted(tmp_path, "X,Y\n" + "".join(rows)).stderr
    for slip in ("O.3", "1_000"):
        rows[9] = f"9,{slip}\n"
        said = fitted(tmp_path, "x,y\n" + "".join(rows)).stderr
        assert f"(row 10: '{slip}'): mend that, or make it a gap" in said


def test_a_target_with_another_decimal_mark_is_said_to_have_one(tmp_path):
    rows = "".join(f"{at},{at}.5\n" for at in range(30))
    said = fitted(tmp_path, "x,y\n" + rows, "--decimal", ",").stderr
    assert "must hold numbers, but it holds text (row 1: '0.5', with another decimal mark or as text)" in said


def test_numbers_beyond_all_measure_are_no_sums(tmp_path):
    table = number_table(a=[1e308, 1e308, 1e308, np.inf], y=[1.0, 1.0, 1.0, 3.0])
    assert len(prepare(table, Roles("y"), ["a"]).target) == 4
