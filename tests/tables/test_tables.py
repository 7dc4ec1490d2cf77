"""Tables: whatever they are called and wherever they lie, the same numbers come out."""

import bz2
import gzip
import lzma
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from stopwise.tables import (
    Columns,
    Numeric,
    TableError,
    find_sources,
    prepare,
    quoted,
    read_training,
    read_whole,
    shown,
    told_apart,
)

NASTY = ["<script>alert(1)</script>", 'say "hi", twice', "two\nlines", "🎈" + "x" * 10_000, "[red]a[/red]", "\x1b[31m"]


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


@pytest.mark.parametrize("suffix", [*WRITERS, "tsv", "parquet"])
def test_every_kind_of_file_gives_the_same_numbers(suffix, frame, tmp_path):
    path = tmp_path / f"table.{suffix}"
    if suffix == "parquet":
        frame.to_parquet(path)
    elif suffix == "tsv":
        frame.to_csv(path, index=False, sep="\t")
    else:
        WRITERS[suffix](path, frame.to_csv(index=False).encode())
    training = read_training(path, "y")
    np.testing.assert_array_equal(training.target, frame["y"])
    np.testing.assert_array_equal(training.features.to_numpy()[:, : len(NASTY)], frame[NASTY])
    assert list(training.features.columns[len(NASTY) :]) == [
        f"kiln, old={level}" for level in ("ea\nst", "north", "so'uth")
    ]
    batches = [training.columns.encode(batch)[0] for batch in find_sources(path)[0].batches(training.columns.types, 7)]
    np.testing.assert_array_equal(np.concatenate(batches), training.features.to_numpy())


def test_a_folder_is_its_files_in_order_of_name(frame, tmp_path):
    frame[:10].to_csv(tmp_path / "a.csv", index=False)
    frame[10:20][list(reversed(frame.columns))].to_csv(tmp_path / "b.tsv", index=False, sep="\t")
    frame[20:].to_parquet(tmp_path / "c.parquet")
    (tmp_path / ".hidden.csv").write_text("no,table\n")
    (tmp_path / "notes.txt").write_text("not a table")
    np.testing.assert_array_equal(read_training(tmp_path, "y").target, frame["y"])
    frame[["y"]].to_csv(tmp_path / "d.csv", index=False)
    with pytest.raises(TableError, match=r"other columns than the first file"):
        read_training(tmp_path, "y")


def test_repeated_names_are_told_apart(tmp_path):
    assert told_apart(["a", "b", "a", "a [2]", "a"]) == ["a", "b", "a [3]", "a [2]", "a [4]"]
    path = tmp_path / "table.csv"
    path.write_text("a,a,y,a\n1,2,3,4\n5,6,7,8\n")
    assert read_training(path, "y").features.to_dict("list") == {"a": [1, 5], "a [2]": [2, 6], "a [3]": [4, 8]}
    repeated = pa.table([pa.array([1.0, 2.0]), pa.array([3.0, 4.0])], names=["a", "a"])
    pa.parquet.write_table(repeated, tmp_path / "table.parquet")
    batch = next(find_sources(tmp_path / "table.parquet")[0].batches({"a [2]": None}, 10))
    assert batch.column("a [2]").to_pylist() == [3.0, 4.0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "Empty CSV"),
        ("a,y\n", "at least 2 rows; the table has 0"),
        ("a,y\n1,2\n", "at least 2 rows; the table has 1"),
        ("a,y\n1,2\n3\n", "Expected 2 columns, got 1"),
        ("a,y\n1,x\n2,3\n", r"'y' must hold numbers, but it holds string \(row 1: 'x'\)"),
        ("a,y\n1,inf\n2,3\n", "'y' holds infinity in 1 rows"),
        ("a,y\n,1\n,2\n", "'a' is empty"),
        ("y\n1\n2\n", "no feature is left"),
        ("a,b\n1,2\n3,4\n", "no column named 'y'"),
        ("a;y\n1;2\n3;4\n", "separated by ';'"),
        ("a,y\n2020-01-01,1\n2021-01-01,2\n", r"neither numbers nor text \(date32\[day\]\): 'a'"),
        (
            "a,y\n,1\n2,\n3,4\n",
            "2 of 3 rows have missing values, in 'a', 'y': choose --missing drop or --missing median",
        ),
        ("a,y\n" + "".join(f"n{i},1\n" for i in range(30)), r"more than 20 levels: 'a' \(the first has 30"),
        ("a,y\n" + "".join(f"{i}{'k' * (i == 25)},1\n" for i in range(30)), r"row 26: '25k'"),
    ],
)
def test_a_table_that_cannot_be_used_says_why_on_one_line(content, message, tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(content)
    with pytest.raises(TableError, match=message) as problem:
        read_training(path, "y")
    assert "\n" not in str(problem.value)


@pytest.mark.parametrize("content", [b"\x1f\x8b broken", b"not gzip at all"])
def test_broken_compression_is_a_plain_error(content, tmp_path):
    path = tmp_path / "table.csv.gz"
    path.write_bytes(content)
    with pytest.raises(TableError, match="cannot be read as a table"):
        read_training(path, "y")


@pytest.mark.parametrize(("name", "message"), [("absent.csv", "does not exist"), ("table.xlsx", "not a kind of file")])
def test_files_that_are_absent_or_of_another_kind_are_named(name, message, tmp_path):
    (tmp_path / "table.xlsx").write_bytes(b"")
    with pytest.raises(TableError, match=message):
        read_whole(tmp_path / name)


def test_text_that_is_not_utf8_is_refused(tmp_path):
    (tmp_path / "table.csv").write_bytes(b"a,y\n1,caf\xe9\n2,3\n")
    with pytest.raises(TableError, match="not UTF-8"):
        read_training(tmp_path / "table.csv", "y")
    (tmp_path / "header.csv").write_bytes(b"caf\xe9,y\n1,2\n2,3\n")
    with pytest.raises(TableError, match="cannot be read as a table"):
        read_training(tmp_path / "header.csv", "y")


def gappy():
    return pa.table(
        {"a": [1.0, None, 5.0, 3.0], "t": ["u", "v", None, "v"], "f": [True, False, True, None], "y": [1, 2, 3, None]}
    )


def test_rows_with_missing_values_are_dropped_where_asked():
    table = pa.concat_tables([gappy(), gappy()])
    training = prepare(table, "y", missing="drop")
    np.testing.assert_array_equal(training.features.to_numpy(), [[1.0, 1.0, 0.0, 1.0]] * 2)
    assert training.notes == ("6 of 8 rows left out for missing values",)


def test_too_few_whole_rows_are_an_error():
    with pytest.raises(TableError, match="at least 2 rows; 1 of 4"):
        prepare(gappy(), "y", missing="drop")


def test_gaps_are_filled_by_medians_and_commonest_levels_where_asked():
    training = prepare(gappy(), "y", missing="median")
    np.testing.assert_array_equal(training.features["a"], [1, 3, 5])
    np.testing.assert_array_equal(training.features["t=v"], [0, 1, 1])
    np.testing.assert_array_equal(training.features["f"], [1, 0, 1])
    assert training.notes == (
        "1 of 4 rows left out for missing values",
        "gaps in 2 rows filled by medians (text: by the commonest level)",
    )


def test_nan_inside_parquet_counts_as_missing(tmp_path):
    pa.parquet.write_table(pa.table({"a": [1.0, float("nan"), 2.0], "y": [1.0, 2.0, 3.0]}), tmp_path / "t.parquet")
    with pytest.raises(TableError, match="1 of 3 rows have missing values, in 'a'"):
        read_training(tmp_path / "t.parquet", "y")


def test_whole_numbers_decimals_booleans_and_categories_are_read():
    table = pa.table(
        {
            "whole": pa.array([1, 2, 3], pa.int8()),
            "decimal": pa.array([1, 2, 3], pa.decimal128(5, 2)),
            "flag": [True, False, True],
            "category": pa.array(["u", "v", "u"]).dictionary_encode(),
            "y": [1.0, 2.0, 3.0],
        }
    )
    training = prepare(table, "y")
    expected = {
        "whole": [1, 2, 3],
        "decimal": [1, 2, 3],
        "flag": [1, 0, 1],
        "category=u": [1, 0, 1],
        "category=v": [0, 1, 0],
    }
    assert training.features.to_dict("list") == expected


def test_text_never_seen_in_training_is_counted_and_encoded_as_zeros():
    columns = prepare(pa.table({"t": ["u", "v"], "y": [1.0, 2.0]}), "y").columns
    matrix, missing, unseen = columns.encode(pa.table({"t": ["w", "u", None]}))
    np.testing.assert_array_equal(matrix, [[0, 0], [1, 0], [np.nan, np.nan]])
    assert missing.tolist() == [False, False, True]
    assert unseen.tolist() == [True, False, False]


def test_a_feature_name_never_stands_for_two_features():
    table = pa.table({"t": ["u", "v"], "t=u": [1.0, 2.0], "y": [1.0, 2.0]})
    assert list(prepare(table, "y").features.columns) == ["t=u", "t=v", "t=u [2]"]


def test_names_are_shown_on_one_line_without_control_characters():
    assert shown("two\nlines\x1b[31m") == "two\\nlines\\x1b[31m"
    assert shown("x" * 10_000) == "x" * 60 + "... (10,000 characters)"
    assert quoted("abcdefg", 3) == "'a', 'b', 'c' and 4 more"


def test_missing_columns_of_a_batch_never_go_unnoticed():
    columns = Columns(None, (Numeric("a", 0.0),))
    with pytest.raises(KeyError, match="a"):
        columns.encode(pa.table({"b": [1.0]}))
