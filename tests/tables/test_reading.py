"""Tables from files: every kind gives the same numbers, and what cannot be used says why."""

import bz2
import gzip
import lzma
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import run
from stopwise.tables import (
    Asked,
    Column,
    Given,
    Kind,
    Reading,
    Roles,
    Table,
    TableEncoder,
    TableError,
    open_tables,
    prepare,
    quoted,
    shown,
    told_apart,
)
from stopwise.tables.frames import as_table

NASTY = ["<script>alert(1)</script>", 'say "hi", twice', "two\nlines", "🎈" + "x" * 10_000, "[red]a[/red]", "\x1b[31m"]


def read(path, expected=("y",), reading=None, **given):
    with open_tables(path, Asked(Given(**given), expected=expected)) as tables:
        return tables.whole(reading)


def write(path, text):
    path.write_text(text)
    return path


@pytest.fixture
def frame(rng):
    table = pd.DataFrame(rng.normal(size=(30, len(NASTY))), columns=NASTY)
    table["kiln, old"] = rng.choice(["north", "so'uth", "ea\nst"], size=30)
    table["y"] = rng.normal(size=30)
    return table


def write_zip(path, content):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("inside.csv", content)


def write_zst(path, content):
    with pa.CompressedOutputStream(pa.OSFile(str(path), "wb"), "zstd") as handle:
        handle.write(content)


WRITERS = {
    "csv": lambda path, content: path.write_bytes(content),
    "csv.gz": lambda path, content: path.write_bytes(gzip.compress(content)),
    "csv.bz2": lambda path, content: path.write_bytes(bz2.compress(content)),
    "csv.xz": lambda path, content: path.write_bytes(lzma.compress(content)),
    "csv.zip": write_zip,
    "csv.zst": write_zst,
    "CSV": lambda path, content: path.write_bytes(b"\xef\xbb\xbf" + content),
}


@pytest.mark.parametrize("suffix", [*WRITERS, "tsv", "parquet", "xlsx"])
def test_every_kind_of_file_gives_the_same_numbers(suffix, frame, tmp_path):
    path = tmp_path / f"table.{suffix}"
    frame = frame.drop(columns=NASTY[5]) if suffix == "xlsx" else frame  # a sheet cannot hold control characters
    if suffix == "parquet":
        frame.to_parquet(path)
    elif suffix == "xlsx":
        frame.to_excel(path, index=False)
    elif suffix == "tsv":
        frame.to_csv(path, index=False, sep="\t")
    else:
        WRITERS[suffix](path, frame.to_csv(index=False).encode())
    table = read(path)
    assert table.names == list(frame.columns)
    for name in frame.columns:
        values = table.columns[name].values
        if suffix == "xlsx" and values.dtype.kind == "f":  # sheets are written with 16 digits
            np.testing.assert_allclose(values, frame[name], rtol=1e-15)
        else:
            np.testing.assert_array_equal(values, frame[name].to_numpy())


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_batches_hold_the_rows_of_the_whole(suffix, frame, tmp_path):
    path = tmp_path / f"table.{suffix}"
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
    with open_tables(path, Asked(expected=("y",))) as tables:
        parts = list(tables.batches(tables.types(Reading()), 7))
        whole = tables.whole()
    assert [len(part) for part in parts] == [7, 7, 7, 7, 2]
    for name in whole.names:
        together = np.concatenate([part.columns[name].values for part in parts])
        np.testing.assert_array_equal(together, whole.columns[name].values)


def test_a_folder_is_its_files_in_order_of_name(frame, tmp_path):
    frame[:10].to_csv(tmp_path / "a.csv", index=False, sep=";", decimal=",")
    frame[10:20][list(reversed(frame.columns))].to_csv(tmp_path / "b.tsv", index=False, sep="\t")
    frame[20:].to_parquet(tmp_path / "c.parquet")
    write(tmp_path / ".hidden.csv", "no,table\n")
    write(tmp_path / "notes.txt", "not a table")
    np.testing.assert_array_equal(read(tmp_path).columns["y"].values, frame["y"])
    frame[["y"]].to_csv(tmp_path / "d.csv", index=False)
    with pytest.raises(TableError, match="other columns than the first file"):
        read(tmp_path)


def test_a_column_has_one_kind_in_all_files_of_a_folder(tmp_path):
    write(tmp_path / "a.csv", "code,y\n1,2\n2,3\n")
    write(tmp_path / "b.csv", "code,y\nA,2\nB,3\n")
    assert read(tmp_path).columns["code"].values.tolist() == ["1", "2", "A", "B"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("a,y\n1,2\n3\n", "line 3: 1 field where the header has 2"),
        ("a,y,y\n1,2,3\n", "two columns named 'y', the 2nd and the 3rd"),
        ("a,y\n" + "1,2\n" * 300 + "\x00\x01", None),
    ],
)
def test_a_table_that_cannot_be_read_says_why_on_one_line(content, message, tmp_path):
    path = write(tmp_path / "table.csv", content)
    with pytest.raises(TableError, match=message) as problem:
        read(path)
    assert "\n" not in str(problem.value)


@pytest.mark.parametrize("given", [{}, {"encoding": "utf-8"}, {"encoding": "utf-16"}])
def test_text_in_an_encoding_that_is_not_found_says_which_option_names_it(tmp_path, given):
    path = tmp_path / "t.csv"
    path.write_bytes("高,y\n1,2\n3,4\n".encode("shift_jis"))
    with pytest.raises(TableError, match="its text is in another encoding: say which, such as --encoding"):
        read(path, **given)
    assert read(path, encoding="shift_jis").names == ["高", "y"]


def test_leading_blank_lines_do_not_make_the_header_a_row(tmp_path):
    assert read(write(tmp_path / "t.csv", "\n\n\na,y\n1,2\n3,4\n")).columns["a"].values.tolist() == [1, 3]


def test_an_empty_cell_of_the_only_column_is_a_row_with_a_gap(tmp_path):
    table = read(write(tmp_path / "t.csv", "a\n1\n\n3\n"), expected=("a",))
    assert table.columns["a"].missing.tolist() == [False, True, False]


def test_rows_and_headers_over_a_mebibyte_are_read(tmp_path):
    name, cell = "h" * 1_500_000, "c" * 3_000_000
    table = read(write(tmp_path / "t.csv", f"{name},kind,y\n1,{cell},2\n3,d,4\n"))
    assert table.names == [name, "kind", "y"]
    assert table.columns["kind"].values.tolist() == [cell, "d"]


def test_columns_are_typed_by_all_their_cells(tmp_path):
    late = "a,y\n" + "1,2\n" * 40_000 + "x,3\n"
    table = read(write(tmp_path / "t.csv", late))
    assert table.columns["a"].kind is Kind.TEXT
    assert table.columns["a"].values[-1] == "x"


@pytest.mark.parametrize("gap", [None, 7])
def test_long_whole_numbers_in_parquet_are_numbers_and_keep_their_digits_as_text(tmp_path, gap):
    """Numbers of accounts past 2^53 made the file one that cannot be read."""
    table = pa.table({"id": pa.array([2**60 + 1, gap, 5], pa.int64()), "y": [1.0, 2.0, 3.0]})
    pq.write_table(table, tmp_path / "t.parquet")
    known = np.array([2.0**60, np.nan if gap is None else gap, 5.0])
    np.testing.assert_array_equal(read(tmp_path / "t.parquet").columns["id"].values, known)
    np.testing.assert_array_equal(as_table(table).columns["id"].values, known)
    names = read(tmp_path / "t.parquet", reading=Reading(words={"id": "text"})).columns["id"]
    assert names.values.tolist() == [str(2**60 + 1), None if gap is None else str(gap), "5"]


@pytest.mark.parametrize(
    ("word", "kind", "cells", "values"),
    [
        ("date", Kind.DATE, ["2021-01-02", None, "2021-03-04"], ["2021-01-02", "NaT", "2021-03-04"]),
        ("%d.%m.%y", Kind.DATE, ["02.01.21", "", "04.03.21"], ["2021-01-02", "NaT", "2021-03-04"]),
        ("number", Kind.NUMBER, ["1.5", None, "-2"], [1.5, np.nan, -2.0]),
        ("boolean", Kind.BOOLEAN, ["ja", "nein", None], [1.0, 0.0, np.nan]),
    ],
)
def test_text_in_parquet_is_read_as_an_option_or_a_model_says(tmp_path, word, kind, cells, values):
    """A note said how to have dates, and that was refused."""
    pq.write_table(pa.table({"a": pa.array(cells), "y": [1.0, 2.0, 3.0]}), tmp_path / "t.parquet")
    for reading in (Reading(words={"a": word}), *[Reading(kinds={"a": kind})] * ("%" not in word)):
        column = read(tmp_path / "t.parquet", reading=reading).columns["a"]
        assert column.kind is kind
        np.testing.assert_array_equal(column.values, np.array(values, dtype=column.values.dtype))
    cells[1] = "?!"
    pq.write_table(pa.table({"a": pa.array(cells), "y": [1.0, 2.0, 3.0]}), tmp_path / "t.parquet")
    with pytest.raises(TableError, match=r"the column 'a' cannot be read as .* \(row 2: '\?!'\)"):
        read(tmp_path / "t.parquet", reading=Reading(words={"a": word}))


def test_dates_in_a_spreadsheet_are_written_as_text_without_idle_zeros(tmp_path):
    days = pd.to_datetime(["2021-01-02T00:00", "2021-01-03T04:05"])
    pd.DataFrame({"day": days, "y": [1, 2]}).to_excel(tmp_path / "t.xlsx", index=False)
    named = read(tmp_path / "t.xlsx", reading=Reading(words={"day": "text"})).columns["day"]
    assert named.values.tolist() == ["2021-01-02", "2021-01-03T04:05:00"]
    np.testing.assert_array_equal(read(tmp_path / "t.xlsx").columns["day"].values, days.to_numpy("datetime64[us]"))


@pytest.mark.parametrize(
    ("words", "cells", "values"),
    [
        ({"a": "text"}, ["1", "2"], ["1", "2"]),
        ({"a": "number"}, ["1", "NA"], [1.0, None]),
        ({"a": "date"}, ["2020-01-02", "3 Jan 2020", "-"], ["2020-01-02", "2020-01-03", None]),
        ({"a": "%d %m %Y"}, ["02 01 2020", "03 01 2020"], ["2020-01-02", "2020-01-03"]),
        ({"a": "day/month/year"}, ["02/01/2020", "03/01/2020"], ["2020-01-02", "2020-01-03"]),
        ({"a": "boolean"}, ["yes", "?"], [1.0, None]),
        ({"a": "boolean"}, ["1", "0"], [1.0, 0.0]),
        ({"a": "boolean"}, ["Y", "n", "t", "F", "On", "off"], [1.0, 0.0, 1.0, 0.0, 1.0, 0.0]),
        ({"a": "boolean"}, ["ja", "nein", "VRAI", "FAUX"], [1.0, 0.0, 1.0, 0.0]),
    ],
)
def test_what_a_column_is_can_be_said(tmp_path, words, cells, values):
    path = write(tmp_path / "t.csv", "a,y\n" + "".join(f"{cell},{at}\n" for at, cell in enumerate(cells)))
    column = read(path, reading=Reading(words=words)).columns["a"]
    assert [
        None if gap else str(v)[: len(str(w))] for v, w, gap in zip(column.values, values, column.missing, strict=True)
    ] == [None if value is None else str(value) for value in values]


@pytest.mark.parametrize("word", ["number", "date", "boolean", "%Y", "day/month/year"])
@pytest.mark.parametrize("before", [0, 20_000])
def test_the_first_cell_that_is_not_what_was_said_is_named(tmp_path, word, before):
    """20,000 rows are more than a batch, so the row must be counted from the first of the table."""
    path = write(tmp_path / "t.csv", "a,y\n" + ",1\n" * before + "abc,1\nabd,2\n")
    with pytest.raises(TableError) as problem:
        read(path, reading=Reading(words={"a": word}))
    assert f"the column 'a' cannot be read as {word} (row {before + 1:,}: 'abc'): mend" in str(problem.value)
    gone = Reading(words={"a": word}, marks=frozenset(["abc", "abd"]))
    assert read(path, reading=gone).columns["a"].missing.all()


def test_cells_that_mean_nothing_can_be_named(tmp_path):
    path = write(tmp_path / "t.csv", "a,y\n-9999,1\n2,3\n")
    assert read(path, reading=Reading(marks=frozenset(["-9999"]))).columns["a"].missing.tolist() == [True, False]


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".xlsx"])
def test_a_code_for_nothing_is_that_in_every_kind_of_file_and_however_it_is_written(tmp_path, suffix):
    frame = pd.DataFrame({"a": [1.5, -9999.0, 3.0], "k": ["u", "-9999", "v"], "y": [1.0, 2.0, -9999.0]})
    write = {".csv": frame.to_csv, ".parquet": frame.to_parquet, ".xlsx": frame.to_excel}
    write[suffix](tmp_path / f"t{suffix}", index=False)
    table = read(tmp_path / f"t{suffix}", reading=Reading(marks=frozenset({"-9999"}), words={"k": "text"}))
    missing = {name: column.missing.tolist() for name, column in table.columns.items()}
    assert missing == {"a": [False, True, False], "k": [False, True, False], "y": [False, False, True]}


def test_numbers_that_may_mean_that_there_is_none_are_pointed_out(tmp_path):
    x = [f"{at % 7}.5" for at in range(40)]
    plain = "x,d,y\n" + "".join(f"{cell},{at % 2},{at % 9}\n" for at, cell in enumerate(x))
    coded = plain.replace("\n3.5,", "\n-999,").replace(",8\n", ",1e5\n")
    notes = [run("fit", write(tmp_path / "t.csv", text), "--target", "y").stderr for text in (plain, coded)]
    assert "holds" not in notes[0]
    for name, code, count in (("x", "-999", 6), ("y", "100000", 4)):
        words = f"'{name}' holds {code} in {count} rows, further from its other values than these are from one another"
        assert f"{words}: if it means no value, say --gap {code}" in notes[1].replace("\n", " ")
    named = ("--gap", "-999", "--gap", "100000")
    assert "holds" not in run("fit", tmp_path / "t.csv", "--target", "y", *named).stderr


def test_a_table_without_a_header_has_numbered_columns(tmp_path):
    assert read(write(tmp_path / "t.csv", "1,2\n3,4\n"), expected=()).names == ["column_1", "column_2"]


def test_two_of_one_name_in_parquet_are_refused(tmp_path):
    twice = pa.table([pa.array([1.0, 2.0]), pa.array([3.0, 4.0])], names=["a", "a"])
    pq.write_table(twice, tmp_path / "t.parquet")
    with pytest.raises(TableError, match="two columns named 'a'"):
        read(tmp_path / "t.parquet")


@pytest.mark.parametrize("content", [b"\x1f\x8b broken", b"PK\x03\x04 broken", b"PAR1 broken", b"\xd0\xcf\x11\xe0 old"])
def test_broken_files_are_a_plain_error(content, tmp_path):
    (tmp_path / "table").write_bytes(content)
    with pytest.raises(TableError, match=r"table (cannot be read|is an old)"):
        read(tmp_path / "table")


def numbers(**columns):
    return Table({name: Column(Kind.NUMBER, np.array(values, dtype=float)) for name, values in columns.items()})


GAPPY = {"a": [1, np.nan, 5, 3], "b": [2, 1, 4, 3], "y": [1, 2, 3, np.nan]}


@pytest.mark.parametrize(
    ("missing", "kept", "notes"),
    [
        (
            "impute",
            [1, 2, 3],
            ("1 of 4 rows left out: no 'y' (row 4)", "1 of 4 rows have missing values, which are filled in (row 2)"),
        ),
        (
            "drop",
            [1, 3],
            ("1 of 4 rows left out: no 'y' (row 4)", "1 of 4 rows left out for missing values (row 2)"),
        ),
    ],
)
def test_rows_with_gaps_are_filled_or_left_out_and_named(missing, kept, notes):
    training = prepare(numbers(**GAPPY), Roles("y"), ["a", "b"], missing)
    assert training.target.tolist() == kept
    assert training.notes == notes


@pytest.mark.parametrize(
    ("cells", "missing", "why"),
    [
        (["1,", "2,", "3,4"], "impute", r"1 of 3 can be used \(2 of 3 rows left out: no 'y' \(rows 1, 2\)\)"),
        ([",1", ",2", "3,4"], "drop", r"1 of 3 can be used \(2 of 3 rows left out for missing values \(rows 1, 2\)\)"),
    ],
)
def test_too_few_rows_say_why_the_others_are_of_no_use(tmp_path, cells, missing, why):
    table = read(write(tmp_path / "t.csv", "\n".join(["a,y", *cells])))
    with pytest.raises(TableError, match=why):
        prepare(table, Roles("y"), ["a"], missing)


def test_rows_with_gaps_can_be_refused():
    with pytest.raises(TableError, match=r"2 of 4 rows have missing values \(rows 2, 4\), in 'a', 'y'"):
        prepare(numbers(**GAPPY), Roles("y"), ["a", "b"], "refuse")
    with pytest.raises(TableError, match="at least 2 rows; 1 of 2"):
        prepare(numbers(a=[1, 2], y=[1, np.nan]), Roles("y"), ["a"])


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        (Roles("z"), "no column named 'z'"),
        (Roles("y", features=["y"]), "cannot be a feature too"),
        (Roles("y", exclude=["y"]), "cannot be left out"),
        (Roles("y", id="y"), "both the target and the name of rows"),
        (Roles("y", features=["a"], exclude=["a"]), "'a' cannot be a feature and left out at once"),
        (Roles("y", exclude=["a"]), "no feature is left"),
    ],
)
def test_wishes_that_contradict_one_another_are_said(roles, message):
    with pytest.raises(TableError, match=message):
        roles.chosen(["a", "y"])


def test_names_of_rows_are_no_feature_unless_asked_for():
    assert Roles("y", row_names="i").chosen(["i", "a", "y"]) == ["a"]
    assert Roles("y", features=["i"], row_names="i").chosen(["i", "a", "y"]) == ["i"]


def test_a_feature_name_never_stands_for_two_features():
    frame = pd.DataFrame({"t": ["u", "v"], "t=u": [1.0, 2.0]})
    assert list(TableEncoder().fit(frame).get_feature_names_out()) == ["t=u", "t=v", "t=u [2]"]
    assert told_apart(["a", "b", "a", "a [2]", "a"]) == ["a", "b", "a [3]", "a [2]", "a [4]"]


def test_names_are_shown_on_one_line_without_control_characters():
    assert shown("two\nlines\x1b[31m") == "two\\nlines\\x1b[31m"
    assert shown("x" * 10_000) == "x" * 60 + "... (10,000 characters)"
    assert quoted("abcdefg", 3) == "'a', 'b', 'c' and 4 more"


def test_dates_whose_day_could_be_their_month_are_said(tmp_path):
    path = write(tmp_path / "t.csv", "when,y\n01/02/2020,1\n03/04/2020,2\n")
    with pytest.warns(UserWarning, match="are read as month/day/year, and each could be day/month/year"):
        assert str(read(path).columns["when"].values[0]).startswith("2020-01-02")
    write(tmp_path / "sure.csv", "when,dotted,y\n01/13/2020,01.02.2020,1\n03/04/2020,03.04.2020,2\n")
    assert str(read(tmp_path / "sure.csv").columns["dotted"].values[0]).startswith("2020-02-01")
    (tmp_path / "u.csv").write_text("when;y\n01/02/2020;1,5\n03/04/2020;2,5\n")
    with pytest.warns(UserWarning, match="are read as day/month/year"):
        assert str(read(tmp_path / "u.csv").columns["when"].values[0]).startswith("2020-02-01")


def test_times_of_several_zones_are_said(tmp_path):
    def moments(*zones):
        rows = "".join(f"2021-03-01 1{at}:30{zone},{at}\n" for at, zone in enumerate(zones))
        return read(write(tmp_path / "t.csv", f"when,y\n{rows}")).columns["when"].values.tolist()

    words = r"times in 'when' are of several zones \(\+02:00, UTC\), and are read as clocks there showed them"
    with pytest.warns(UserWarning, match=words):
        several = moments("+02:00", "Z", "+02:00")
    assert several == moments("Z", "+00:00", " GMT") == moments(" CET", " CET", " CET") == moments("", "", "")


def test_a_target_that_is_true_or_false_is_said_to_be_fitted_as_numbers():
    table = Table({"a": Column(Kind.NUMBER, np.arange(3.0)), "y": Column(Kind.BOOLEAN, np.array([0.0, 1.0, 1.0]))})
    training = prepare(table, Roles("y"), ["a"])
    assert training.notes == (
        "'y' is true or false: it is fitted as the numbers 1 and 0; for a classifier with probabilities say "
        "--as 'y=text'",
    )
    assert training.target.tolist() == [0, 1, 1]
