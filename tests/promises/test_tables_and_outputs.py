"""No input is destroyed, outputs are what their names say, closed pipes end well: each fails on the first version."""

import gzip
import json
import os
import re
import shlex
import subprocess
import sys

import numpy as np
import openpyxl
import pandas as pd
import pyarrow.parquet as pq
import pytest

from commands import run, run_json
from warm import stand_in

ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}
TABLE = "a,y\n" + "".join(f"{i},{i % 3}\n" for i in range(20))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    for name in ("part1.csv", "part2.csv"):
        (tmp_path / "data" / name).write_text(TABLE)
    (tmp_path / "t.csv").write_text(TABLE)
    (tmp_path / "new.csv").write_text("tree;a\noak;1,5\nelm;2,5\nash;\n")
    assert run("fit", "t.csv", "--target", "y", "--kernel", "gaussian", "--out", "m.stopwise").exit_code == 0
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        "predict m.stopwise data --out data/part1.csv",
        "predict m.stopwise data --out link.csv",
        "predict m.stopwise data --out hard.csv",
        "predict m.stopwise t.csv --out m.stopwise",
        "fit data --target y --out data/part2.csv",
        "fit data --target y --report data/part2.csv",
        "fit t.csv --target y --report link2.csv",
        "compare data --target y --figure data/part1.csv",
    ],
)
def test_no_output_replaces_an_input(folder, command):
    (folder / "link.csv").symlink_to(folder / "data" / "part1.csv")
    (folder / "link2.csv").symlink_to(folder / "t.csv")
    os.link(folder / "data" / "part2.csv", folder / "hard.csv")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    result = run(*command.split())
    assert result.exit_code == 2
    assert "is the input: name another file to write to" in result.stderr
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def read_back(path):
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pandas()
    if path.suffix == ".xlsx":
        rows = list(openpyxl.load_workbook(path).active.values)
        return pd.DataFrame(rows[1:], columns=rows[0])
    return pd.read_csv(path, sep="\t" if ".tsv" in path.name else ",")


@pytest.mark.parametrize("suffix", ["csv", "tsv", "csv.gz", "tsv.gz", "csv.bz2", "csv.xz", "parquet", "xlsx"])
def test_predictions_are_written_as_the_name_says_with_the_names_of_rows(folder, suffix):
    expected = run_json("predict", "m.stopwise", "t.csv")["prediction"]
    out = folder / f"out.{suffix}"
    assert run("predict", "m.stopwise", "t.csv", "--out", out, "--id", "y").exit_code == 0
    written = read_back(out)
    assert list(written.columns) == ["y", "prediction"]
    np.testing.assert_allclose(written["prediction"].astype(float), expected, rtol=1e-12, atol=1e-13)
    assert [int(v) for v in written["y"]] == [i % 3 for i in range(20)]
    magic = {"gz": b"\x1f\x8b", "bz2": b"BZh", "xz": b"\xfd7zXZ", "parquet": b"PAR1", "xlsx": b"PK"}
    assert out.read_bytes().startswith(magic.get(suffix.split(".")[-1], b"y"))


def test_text_in_a_spreadsheet_is_text_whatever_it_looks_like(folder):
    names = ["=1+1", "#DIV/0!", "+4", "true", "=HYPERLINK(A1)"]
    (folder / "named.csv").write_text("=A1,a\n" + "".join(f"{name},{at}\n" for at, name in enumerate(names)))
    assert run("predict", "m.stopwise", "named.csv", "--id", "=A1", "--out", "o.xlsx").exit_code == 0
    rows = list(openpyxl.load_workbook(folder / "o.xlsx").active.rows)
    assert [row[0].value for row in rows] == ["=A1", *names]
    assert {row[0].data_type for row in rows} == {"s"}
    assert {row[1].data_type for row in rows[1:]} == {"n"}


@pytest.mark.parametrize("name", ["p.json", "p.csv.zip", "p.xls", "p.gz", "p.parquet.gz"])
def test_a_name_that_says_something_else_is_refused_before_the_work(folder, name):
    result = run("predict", "m.stopwise", "t.csv", "--out", name)
    assert result.exit_code == 2
    assert "predictions are written as .csv or .tsv" in result.stderr
    assert not (folder / name).exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("fit --out p.csv", "a model is written as .stopwise, and 'p.csv' ends in .csv"),
        ("fit --out m.stopwise.gz", "a model is written as .stopwise, and 'm.stopwise.gz' ends in .gz"),
        ("compare --figure c", "a figure is written as .png or .svg or .pdf, and 'c' ends in no ending"),
        ("fit --out -", "- is standard output, and a model is written to a file: name one ending in .stopwise"),
        ("fit --report r.pdf", "a report is written as .html or .htm, and 'r.pdf' ends in .pdf"),
        ("compare --figure c.html", "a figure is written as .png or .svg or .pdf, and 'c.html' ends in .html"),
    ],
)
def test_models_reports_and_figures_of_another_name_are_refused_before_the_work(folder, words, said):
    command, option, name = words.split()
    result = run(command, "t.csv", "--target", "nobody asks yet", option, name)
    assert (result.exit_code, result.stderr) == (2, f"stopwise: {said}\n")
    assert not (folder / name).exists()


@pytest.mark.parametrize("name", ["m", "model.v2", "my.model", "model.bin"])
def test_a_model_may_have_any_name_that_says_nothing_else(folder, name):
    assert run("fit", "t.csv", "--target", "y", "--kernel", "gaussian", "--out", name).exit_code == 0
    assert run("info", name).exit_code == 0


@pytest.mark.parametrize(
    ("words", "start"), [("fit --out", b"{"), ("fit --report", b"<"), ("compare --figure", b"PNG")]
)
def test_a_pipe_is_written_to_and_stays_a_pipe(folder, words, start):
    """It became a file, and whoever read it waited."""
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["timeout", "60", "cat", pipe], stdout=subprocess.PIPE)
    command, option = words.split()
    result = run(command, "t.csv", "--target", "y", "--kernel", "gaussian", option, pipe)
    assert pipe.is_fifo()
    assert start in reader.communicate()[0][:60]
    assert result.exit_code == 0, result.stderr


def test_the_same_predictions_are_the_same_bytes_when_packed(folder):
    for name in ("one.csv.gz", "two.csv.gz"):
        assert run("predict", "m.stopwise", "t.csv", "--out", name).exit_code == 0
    assert (folder / "one.csv.gz").read_bytes() == (folder / "two.csv.gz").read_bytes()


def test_a_semicolon_file_with_gaps_is_predicted_with_its_names(folder):
    printed = run("predict", "m.stopwise", "new.csv", "--id", "tree", "--missing", "drop").stdout.splitlines()
    assert printed[0] == "tree,prediction"
    assert [line.split(",")[0] for line in printed[1:]] == ["oak", "elm", "ash"]
    assert printed[3] == "ash,"


def shell(line, folder):
    line = re.sub(r"(?<![.\w])stopwise ", f"{shlex.join(stand_in())} ", line)
    return subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, env=ENVIRONMENT, cwd=folder, check=False
    )


@pytest.mark.parametrize(
    ("line", "last"),
    [
        ("stopwise predict m.stopwise t.csv --out /dev/stdout | wc -l", "21"),
        ("stopwise predict m.stopwise t.csv -q --out >(wc -l); sleep 1", "21"),
        ("stopwise predict m.stopwise <(cat t.csv) | wc -l", "21"),
        ("cat t.csv | stopwise predict m.stopwise - | wc -l", "21"),
        ("gzip -c t.csv | stopwise predict m.stopwise - --out - | wc -l", "21"),
        ("echo first > o.txt; stopwise predict m.stopwise t.csv --out /dev/stdout >> o.txt; head -n 1 o.txt", "first"),
    ],
)
def test_streams_are_read_and_written(folder, line, last):
    done = shell(line, folder)
    assert done.stdout.split()[-1] == last, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("stopwise fit t.csv --target y --kernel gaussian | true; echo ${PIPESTATUS[0]}", "0"),
        ("stopwise info m.stopwise | true; echo ${PIPESTATUS[0]}", "0"),
        ("stopwise predict m.stopwise t.csv --json | true; echo ${PIPESTATUS[0]}", "0"),
        ("stopwise --help | true; echo ${PIPESTATUS[0]}", "0"),
        ("stopwise info m.stopwise >&-; echo $?", "0"),
        ("stopwise predict m.stopwise t.csv >&- 2>&-; echo $?", "0"),
        ("stopwise fit nothing.csv --target y >&- 2>&-; echo $?", "2"),
        ("stopwise fit nothing.csv --target y 2>&1 | true; echo ${PIPESTATUS[0]}", "2"),
    ],
)
def test_closed_streams_end_with_a_promised_code_and_no_traceback(folder, line, code):
    done = shell(line, folder)
    assert done.stdout.split()[-1] == code
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


def test_a_bare_command_prints_its_help():
    result = run()
    assert result.exit_code == 0
    assert result.stdout.startswith("Usage: stopwise")
    assert result.stderr == ""


def test_a_table_from_a_pipe_is_the_table(folder):
    command = [*stand_in(), "fit", "-", "--target", "y", "--json", "--kernel", "gaussian"]
    child = subprocess.run(
        command, input=gzip.compress(TABLE.encode()), capture_output=True, env=ENVIRONMENT, check=False
    )
    assert child.returncode == 0
    assert b'"rows": 20' in child.stdout


WITHOUT = """
import json, sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("pandas", "pyarrow", "polars", "openpyxl"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
import stopwise
from click.testing import CliRunner
from stopwise.cli import main
json.dump({command: CliRunner().invoke(main, command.split()).output for command in sys.argv[1:]}, sys.stdout)
"""
WORKS_WITHOUT = {
    "fit new.csv --target a --features tree --kernel gaussian": "Fitted 'a'",
    "predict m.stopwise t.csv": "prediction",
    "predict m.stopwise t.csv --out o.parquet": "writing Parquet needs pyarrow: pip install 'stopwise[parquet]'",
    "predict m.stopwise t.csv --out o.xlsx": "writing spreadsheets needs openpyxl: pip install 'stopwise[excel]'",
    "fit t.parquet --target y": "reading Parquet needs pyarrow: pip install 'stopwise[parquet]'",
    "fit t.xlsx --target y": "reading spreadsheets needs openpyxl: pip install 'stopwise[excel]'",
}


def test_the_command_line_works_without_pandas_pyarrow_and_openpyxl(folder):
    pd.read_csv("t.csv").to_parquet("t.parquet")
    pd.read_csv("t.csv").to_excel("t.xlsx", index=False)
    child = [sys.executable, "-c", WITHOUT, *WORKS_WITHOUT]
    done = subprocess.run(child, capture_output=True, text=True, env=ENVIRONMENT, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    for command, words in WORKS_WITHOUT.items():
        assert words in told[command]
        assert "Traceback" not in told[command]


ROWS = "".join(f"{i},{i % 3}.5\n" for i in range(30))


@pytest.mark.parametrize(
    ("text", "features"),
    [("\n\n\na,y\n" + ROWS, ["a"]), ("h" * 1_500_000 + ",y\n" + ROWS, ["h" * 1_500_000])],
    ids=["blank lines first", "a header over a mebibyte"],
)
def test_a_table_with_an_odd_header_is_read_as_it_is(text, features, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "odd.csv").write_text(text)
    told = run_json("fit", "odd.csv", "--target", "y", "--kernel", "gaussian", "--out", "odd.stopwise")
    assert (told["rows"], told["features"]) == (30, features)


def test_a_second_column_of_the_target_s_name_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "twice.csv").write_text("x,y,y\n1,2,3\n2,3,4\n3,4,5\n")
    done = run("fit", "twice.csv", "--target", "y", "--out", "twice.stopwise")
    assert done.exit_code == 2
    assert "two columns named 'y'" in done.stderr
    assert not (tmp_path / "twice.stopwise").exists()


def test_an_empty_cell_of_the_only_column_is_predicted_and_counted(folder):
    (folder / "one.csv").write_text("a\n1\n\n3\n")
    told = run_json("predict", "m.stopwise", "one.csv")
    assert (told["rows"], told["missing"], len(told["prediction"])) == (3, 1, 3)
