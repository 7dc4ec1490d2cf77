"""How a text table is written is found out, said, and may be given instead."""

import pytest

from stopwise.tables import Given, TableError
from stopwise.tables.reading.cells import as_number, parse_dates, parse_numbers
from stopwise.tables.reading.sniffing import find_decimal, sniff
from stopwise.tables.reading.times import as_hours


@pytest.fixture
def found(tmp_path):
    def of(text, expected=("y",), written="utf-8", **given):
        path = tmp_path / "table"
        path.write_bytes(text.encode(written))
        return sniff(path, Given(**given), expected)

    return of


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("decimal", [".", ","])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_separator_decimal_mark_and_encoding_are_found_together(found, separator, decimal, encoding):
    quote = '"' if separator == decimal else ""
    cells = [[f"{quote}{i}.5{quote}".replace(".", decimal), "fünf", f"{i}"] for i in range(9)]
    text = "\n".join(separator.join(row) for row in [["größe", "name", "y"], *cells]) + "\n"
    dialect = found(text, written=encoding)
    assert (dialect.layout.separator, dialect.decimal, dialect.header) == (separator, decimal, True)
    marked = {"utf-16", "utf-32", "utf-8-sig"}
    assert dialect.layout.encoding == encoding if encoding not in marked else dialect.layout.encoding in marked


def test_what_was_found_is_said_in_words(found):
    dialect = found("made in May\n\nx;y\n1,5;2\n2,5;3\n")
    said = "semicolons between fields, decimal ',', utf-8 text, a header, 1 row above it passed over"
    assert dialect.sentence == said


@pytest.mark.parametrize(
    ("given", "attribute", "value"),
    [
        ({"separator": ","}, "layout.separator", ","),
        ({"decimal": "."}, "decimal", "."),
        ({"encoding": "cp1250"}, "layout.encoding", "cp1250"),
        ({"quote": "'"}, "layout.quote", "'"),
        ({"header": False}, "header", False),
    ],
)
def test_each_guess_can_be_overruled(found, given, attribute, value):
    dialect = found("x;y\n1,5;2,5\n2,5;3,5\n", **given)
    for name in attribute.split("."):
        dialect = getattr(dialect, name)
    assert dialect == value


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"separator": ";;"}, "one character"),
        ({"decimal": ";"}, "decimal mark must be"),
        ({"quote": "x"}, "quote mark must be"),
        ({"encoding": "klingon"}, "no encoding is named"),
        ({"encoding": "zlib"}, "no encoding is named 'zlib'"),
        ({"encoding": "idna"}, "no encoding is named 'idna'"),
    ],
)
def test_what_cannot_be_is_refused(given, words):
    with pytest.raises(TableError, match=words):
        Given(**given)


@pytest.mark.parametrize(
    ("text", "header"),
    [
        ("1,2,3\n4,5,6\n", False),
        ("x,2,3\n4,5,6\n", True),
        ("a,b\nc,d\n", True),
        ("2020-01-01,5\n2020-01-02,6\n", False),
        ("north,5\nsouth,6\n", False),
        ("place,2019\nnorth,6\n", False),
    ],
)
def test_a_header_is_a_row_unlike_the_rows_below(found, text, header):
    assert found(text, expected=()).header is header


def test_a_row_that_names_the_target_is_a_header_whatever_it_looks_like(found):
    assert found("place,2019\nnorth,6\nsouth,8\n", expected=("2019",)).header
    assert not found("place,2019\nnorth,6\nsouth,8\n", expected=("2020",)).header


def test_a_decimal_comma_in_one_column_is_no_separator(found):
    dialect = found("y\n1,5\n2,5\n")
    assert (dialect.width, dialect.decimal) == (1, ",")


@pytest.mark.parametrize(
    ("cells", "decimal"),
    [
        (["1,5", "2"], ","),
        (["1.5", "2"], "."),
        (["1.234,5", "7"], ","),
        (["1,234.5", "7"], "."),
        (["1,234", "0,5"], ","),
        (["1.234", "5.678"], "."),
        (["a,b", "c.d"], "."),
        ([], "."),
    ],
)
def test_the_decimal_mark_is_the_one_that_makes_numbers(cells, decimal):
    assert find_decimal(iter(cells)) == decimal


@pytest.mark.parametrize(
    ("cell", "decimal", "value"),
    [
        ("1.5", ".", 1.5),
        ("1,5", ",", 1.5),
        ("1.234,5", ",", 1234.5),
        ("1'234.5", ".", 1234.5),
        ("1\u202f234,5", ",", 1234.5),
        ("\u22123", ".", -3.0),
        ("$1,200.50", ".", None),
        ("12 %", ".", None),
        ("1e-3", ".", 0.001),
        ("inf", ".", float("inf")),
        ("1_000", ".", None),
        ("1,23,456", ".", None),
        ("0,123", ".", None),
        ("", ".", None),
        ("twelve", ".", None),
    ],
)
def test_a_cell_is_a_number_or_is_not(cell, decimal, value):
    assert as_number(cell, decimal) == value


def test_gaps_among_numbers_are_nan():
    values = parse_numbers(["1", "NA", "", "?", "-", "2.5"], ".")
    assert [None if v != v else v for v in values] == [1.0, None, None, None, None, 2.5]
    assert parse_numbers(["1", "x"], ".") is None


@pytest.mark.parametrize(
    ("cell", "how", "iso"),
    [
        ("2020-02-03", "year-month-day", "2020-02-03"),
        ("2020/2/3 14:05", "year-month-day", "2020-02-03T14:05"),
        ("2020-02-03T14:05:06.5Z", "year-month-day", "2020-02-03T14:05:06.5"),
        ("2020-02-03 14:05:06+02:00", "year-month-day", "2020-02-03T14:05:06"),
        ("03.02.2020", "day/month/year", "2020-02-03"),
        ("2/3/20 12:30 AM", "month/day/year", "2020-02-03T00:30"),
        ("3 Feb 2020", "day month-name year", "2020-02-03"),
        ("03-FEB-69", "day month-name year", "1969-02-03"),
        ("February 3, 2020", "month-name day, year", "2020-02-03"),
        ("20200203", "yearmonthday", "2020-02-03"),
        ("2020-02", "year-month", "2020-02-01"),
        ("3.2.2020", "%d.%m.%Y", "2020-02-03"),
        ("30.02.2020", "day/month/year", None),
        ("2020-02-03", "day/month/year", None),
        ("3 Foo 2020", "day month-name year", None),
    ],
)
def test_a_cell_is_a_date_or_is_not(cell, how, iso):
    found = parse_dates([cell, ""], how)
    if iso is None:
        assert found is None
    else:
        assert str(found[0]).startswith(iso)
        assert str(found[1]) == "NaT"


def test_times_of_day_are_hours():
    assert [as_hours("08:30"), as_hours("23:59:30")] == [8.5, 23 + 59.5 / 60]
    assert as_hours("8.30") is None
