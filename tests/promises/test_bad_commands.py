"""Every command with options and tables that cannot work: one line that names the trouble, exit code 2, no new file."""

import gzip
import os
import zipfile

import numpy as np
import pandas as pd
import pytest

import stopwise as sw
from commands import run
from hostile import watchdog

GOOD = "a,b,y\n" + "".join(f"{2 * i},{i % 4},{i % 3}\n" for i in range(20))
TEXTS = {
    "good.csv": GOOD,
    "nothing.csv": "",
    "spaces.csv": "   \n\n",
    "header.csv": "a,b,y\n",
    "one.csv": "a,b,y\n1,2,3\n",
    "ragged.csv": "a,b,y\n1,2,3\n1,2\n",
    "wide.csv": "a,b,y\n1,2,3\n1,2,3,4\n",
    "quote.csv": 'a,b,y\n1,"2,3\n4,5,6\n',
    "words.csv": "a,b,y\n" + "".join(f"{2 * i},word{i},1\n" for i in range(30)),
    "answer.csv": "a,b,y\n1,2,yes\n2,3,no\n4,5,yes\n",
    "gap.csv": "a,b,y\n1,,3\n4,5,6\n7,8,9\n",
    "hole.csv": "a,b,y\n1,2,\n4,5,6\n7,8,9\n",
    "holes.csv": "a,b,y\n,2,3\n,5,6\n,8,9\n",
    "infinite.csv": "a,b,y\n1,2,3\n4,inf,6\n7,8,9\n",
    "huge.csv": "a,b,y\n1,2,3\n4,1e308,6\n7,8,9\n",
    "overflow.csv": "a,b,y\n1,2,3\n4,1e999,6\n7,8,9\n",
    "large.csv": "a,b,y\n1,2,1e308\n4,3,-1e308\n7,8,9\n",
    "dates.csv": "a,b,y\n2020-01-01,2,3\n2020-01-02,5,6\n2020-01-03,8,9\n",
    "twice.csv": "a,a,y\n" + "".join(f"{i},{i % 4},{i % 3}\n" for i in range(20)),
    "target.csv": "y\n1\n2\n3\n",
    "semicolon.csv": GOOD.replace(",", ";"),
    "named.stopwise": "not a model",
    "objects.json": '[\n  {"a": 1, "y": 2},\n  {"a": 2, "y": 3}\n]\n',
    "lines.json": '{"a": 1, "y": 2}\n{"a": 2, "y": 3}\n',
    "lists.json": '[["a", "y"], [1, 2], [2, 3]]',
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder of tables that are wrong in one way each."""
    path = tmp_path_factory.mktemp("commands")
    for name, text in TEXTS.items():
        (path / name).write_text(text)
    (path / "latin.csv").write_bytes(b"a,b,y\n1,2,3\n4,caf\xe9,6\n7,8,9\n")
    (path / "latinhead.csv").write_bytes(b"a,caf\xe9,y\n1,2,3\n4,5,6\n7,8,9\n")
    (path / "zeros.csv").write_bytes(bytes(1000))
    (path / "wide16.csv").write_bytes(GOOD.encode("utf-16"))
    (path / "cut.csv.gz").write_bytes(gzip.compress(GOOD.encode() * 50)[:-20])
    with zipfile.ZipFile(path / "two.csv.zip", "w") as archive:
        archive.writestr("a.csv", GOOD)
        archive.writestr("b.csv", GOOD)
    with zipfile.ZipFile(path / "none.csv.zip", "w"):
        pass
    pd.DataFrame({"a": [[1], [2], [3]], "y": [1.0, 2.0, 3.0]}).to_parquet(path / "lists.parquet")
    pd.DataFrame({"a": pd.date_range("2020", periods=3), "y": [1.0, 2.0, 3.0]}).to_parquet(path / "dates.parquet")
    for name in ("empty", "mixed", "unlike"):
        (path / name).mkdir()
    (path / "mixed" / "a.csv").write_text(GOOD)
    (path / "mixed" / "b.csv").write_text("a,c,y\n1,2,3\n")
    (path / "unlike" / "a.csv").write_text(GOOD)
    (path / "unlike" / "b.csv").write_text("a,b,y\n1,word,3\n")
    os.mkfifo(path / "pipe.csv")
    X = np.random.default_rng(0).uniform(size=(20, 2))
    sw.save(sw.KernelRidgeRegressor(sw.kernels.Gaussian(0.5)).fit(X, X[:, 0]), path / "two.stopwise")
    sw.save(sw.KernelRidgeRegressor("sobolev1").fit(X[:, :1], X[:, 0]), path / "line.stopwise")
    whole = (path / "two.stopwise").read_bytes()
    (path / "cut.stopwise").write_bytes(whole[: len(whole) // 2])
    return path


FIT = r"""
nothing.csv --target y | nothing.csv is empty
spaces.csv --target y | the table is empty
header.csv --target y | a fit needs at least 2 rows; the table has 0
one.csv --target y | a fit needs at least 2 rows; the table has 1
ragged.csv --target y | ragged.csv, line 3: 2 fields where the header has 3
wide.csv --target y | wide.csv, line 3: 4 fields where the header has 3
words.csv --target y --many error | the text column 'b' names rows: 30 values in 30 rows
answer.csv --target y --as y=text | the column 'y' must hold numbers, but it holds text (row 1: 'yes')
gap.csv --target y --missing refuse | 1 of 3 rows have missing values (row 1), in 'b': choose --missing impute
hole.csv --target y --missing refuse | 1 of 3 rows have missing values (row 1), in 'y'
hole.csv --target y --missing drop --features y | the target 'y' cannot be a feature too
holes.csv --target y --features a | no feature is left: 'a' (it is empty)
infinite.csv --target y | the column 'b' holds infinity in 1 rows
overflow.csv --target y | the column 'b' holds infinity in 1 rows
huge.csv --target y | X must lie between -1e+300 and 1e+300, got 1e+308
large.csv --target y | y must lie between -1e+305 and 1e+305, got 1e+308
dates.csv --target a | the column 'a' must hold numbers, but it holds dates
twice.csv --target y | twice.csv has two columns named 'a', the 1st and the 2nd: rename one
target.csv --target y | no feature is left
semicolon.csv --target y --separator , | no column named 'y'
latin.csv --target y --encoding utf-8 | latin.csv cannot be read as a table: 'utf-8' codec
latin.csv --target y --encoding klingon | no encoding is named 'klingon'
latinhead.csv --target y --encoding utf-8 | latinhead.csv cannot be read as a table: 'utf-8' codec
zeros.csv --target y | zeros.csv is not a kind of file stopwise reads
wide16.csv --target y --encoding ascii | wide16.csv
cut.csv.gz --target y | cut.csv.gz cannot be read as a table
two.csv.zip --target y | two.csv.zip holds 2 files: a zip archive must hold one table
none.csv.zip --target y | none.csv.zip
lists.parquet --target y | the column 'a' holds 'list'
dates.parquet --target a | the column 'a' must hold numbers, but it holds dates
empty --target y | the folder empty holds no table
mixed --target y | has other columns than the first file: 'b', 'c'
unlike --target b | the column 'b' must hold numbers, but it holds text
pipe.csv --target y | nobody writes to the pipe pipe.csv
good.csv --target | Option '--target' requires an argument
good.csv --target Y | no column named 'Y'; the columns are 'a', 'b', 'y'
good.csv --target y --target a --target nothing | no column named 'nothing'
good.csv --target y --features a,c | no column named 'a,c'
good.csv --target y --features= | no column named ''
good.csv --target y --exclude c | no column named 'c'
good.csv --target y --exclude a,b | no feature is left
good.csv --target y --separator , --decimal , | --separator and --decimal are both ','
good.csv --target y --as b | --as wants COLUMN=KIND
good.csv --target y --as c=text | --as: no column named 'c'
answer.csv --target b --as y=number | the column 'y' cannot be read as number (row 1: 'yes'): mend that cell
dates.csv --target y --as a=%d/%m/%Y | the column 'a' cannot be read as %d/%m/%Y (row 1: '2020-01-01'): mend
good.csv --target y --as b=colour | cannot be read as 'colour'
good.csv --target y --features a --exclude a | cannot be a feature and left out at once
good.csv --target y --exclude y | cannot be left out
good.csv --target y --id y | cannot be both the target and the name of rows
good.csv --target y --id a --features a | cannot be a feature and left out at once
good.csv --target y --dates noon | of dates one can keep trend, year, week, day; got 'noon'
good.csv --target y --solver dense --landmarks 5 | --landmarks is for --solver nystrom or dask
good.csv --target y --landmarks 5 | --landmarks is for --solver nystrom or dask, and --solver is auto: say which
good.csv --target y --sheet first | --sheet is for spreadsheets, and good.csv is none: leave it out
good.csv --target y --solver dask --sheet first | --sheet is for tables read whole, and --solver dask reads chunks
good.csv --target y --solver dask --as b=text | --as is for tables read whole
good.csv --target y --solver dask --gap 3 | --gap is for tables read whole
objects.json --target y | objects.json is JSON, which is not read: write it as .csv ... stopwise reads text with
lines.json --target y | lines.json is JSON, which is not read
lists.json --target y | lists.json is JSON, which is not read
good.csv --target y --missing mean | 'mean' is not one of
good.csv --target y --max-levels -1 | -1 is not in the range
good.csv --target y --max-levels many | 'many' is not a valid integer
good.csv --target y --separator ;; | a separator must be one character, such as ';' or '\t', got ';;'
good.csv --target y --separator= | a separator must be one character, such as ';' or '\t', got ''
good.csv --target y --kernel | Option '--kernel' requires an argument
good.csv --target y --kernel polynomial0 | unknown kernel 'polynomial0'
good.csv --target y --kernel sobolev1 | takes 1 covariate, got 2
good.csv --target y --kernel polynomial999 | the polynomial999 kernel overflows
good.csv --target y --kernel gaussian --length-scale 0 | length_scale must be positive and finite, got 0.0
good.csv --target y --kernel gaussian --length-scale nan | length_scale must be positive and finite, got nan
good.csv --target y --kernel gaussian --length-scale 1,2,3 | length_scale has 3 entries for 2 features
good.csv --target y --kernel gaussian --length-scale 1,, | could not convert
good.csv --target y --kernel linear --length-scale 1 | length
good.csv --target y --noise-std 0 | noise_std must be a positive, finite standard deviation, got 0.0
good.csv --target y --noise-std nan | noise_std must be a positive, finite standard deviation, got nan
good.csv --target y --noise-std inf | noise_std must be a positive, finite standard deviation, got inf
good.csv --target y --noise-std rice | Rice orders rows along 1 covariate, got 2
good.csv --target y --noise-std= | noise_std must be a positive number
good.csv --target y --rule best | 'best' is not one of
good.csv --target y --filter newton | 'newton' is not one of
good.csv --target y --solver fast | 'fast' is not one of
good.csv --target y --solver line --kernel gaussian | solver="line" takes one covariate and the kernels sobolev1
good.csv --target y --landmarks 0 | 0 is not in the range
good.csv --target y --landmarks few | 'few' is not a valid integer
good.csv --target y --seed -1 | -1 is not in the range
good.csv --target y --seed x | 'x' is not a valid integer
good.csv --target y --out / | is a folder
good.csv --target y --out nowhere/m.stopwise | does not exist: make it first
good.csv --target y --report nowhere/r.html | does not exist: make it first
good.csv --target y --report . | is a folder
good.csv --target y --report same --out same | same
good.csv extra.csv --target y | unexpected extra argument
--example nothing | 'nothing' is not one of
--example motorcycle --target nothing | no column named 'nothing'
"""
OTHERS = """
predict | Missing argument 'MODEL'
predict two.stopwise | Missing argument 'DATA'
predict nowhere.stopwise good.csv | nowhere.stopwise: No such file
predict named.stopwise good.csv | named.stopwise is not a whole model file
predict cut.stopwise good.csv | cut.stopwise is not a whole model file
predict empty good.csv | empty is a folder, not a model file
predict pipe.csv good.csv | pipe.csv is a pipe or a device
predict two.stopwise nowhere.csv | nowhere.csv does not exist
predict two.stopwise pipe.csv | nobody writes to the pipe pipe.csv
predict two.stopwise good.csv | the table must have 2 columns; it has 3
predict two.stopwise target.csv | the table must have 2 columns; it has 1
predict line.stopwise answer.csv | the table must have 1 columns; it has 3
predict two.stopwise empty | the folder empty holds no table
predict two.stopwise good.csv --missing mean | 'mean' is not one of
predict two.stopwise good.csv --out two.stopwise | is the input
predict two.stopwise good.csv --out good.csv | is the input
predict two.stopwise good.csv --out nowhere/p.csv | does not exist: make it first
predict two.stopwise good.csv --std=yes | Option '--std' does not take a value
info | Missing argument 'MODEL'
info nowhere.stopwise | nowhere.stopwise: No such file
info named.stopwise | named.stopwise is not a whole model file
info cut.stopwise | cut.stopwise is not a whole model file
info good.csv | good.csv is not a whole model file
info pipe.csv | pipe.csv is a pipe or a device
compare | give a table to fit, DATA, or --example
compare good.csv | name the column to predict with --target
compare good.csv --target y --landmarks 5 | --landmarks is for --solver nystrom or dask
compare good.csv --target y --holdout -0.1 | -0.1 is not in the range
compare good.csv --target y --holdout nan | holdout
compare good.csv --target y --holdout 0.9 | a comparison needs at least 10 rows to fit to, got 2
compare one.csv --target y | a fit needs at least 2 rows
compare good.csv --target y --figure nowhere/c.png | does not exist: make it first
compare good.csv --target y --figure c.docx | docx
compare good.csv --target y --kernel cubic | unknown kernel 'cubic'
compare good.csv --target y --noise-std -3 | noise_std must be a positive, finite standard deviation, got -3.0
reproduce nothing | no experiment is called 'nothing': there are path, rates
reproduce --trials 0 | 0 is not in the range
reproduce --trials 1.5 | '1.5' is not a valid integer
reproduce --n 1 | sample sizes must lie between 4 and 3000, got (1,)
reproduce --n 5000 | sample sizes must lie between 4 and 3000, got (5000,)
reproduce --n 10,,20 | is not a list of numbers separated by commas
reproduce --n nan | is not a list of numbers separated by commas
reproduce --alpha 0 | step sizes must lie above 0 and at most 1, got (0.0,)
reproduce --alpha nan | step sizes must lie above 0 and at most 1, got (nan,)
reproduce --alpha fast | is not a list of numbers separated by commas
reproduce --jobs 0 | jobs must be 1 or more
reproduce --jobs some | 'some' is not a valid integer
reproduce --seed -1 | -1 is not in the range
reproduce path --trials 2 --n 10 --out good.csv | good.csv
nothing | No such command 'nothing'
--nothing | No such option
"""


def lines(table, prefix=""):
    parts = [line.strip().split(" | ", 1) for line in table.strip().splitlines()]
    return [pytest.param(prefix + call, words, id=prefix + call) for call, words in parts]


def state(folder):
    return {path: None if path.is_dir() or path.is_fifo() else path.read_bytes() for path in folder.rglob("*")}


@pytest.mark.parametrize(("arguments", "words"), [*lines(FIT, "fit "), *lines(OTHERS)])
def test_a_command_that_cannot_work_says_why_in_one_line(folder, monkeypatch, arguments, words):
    monkeypatch.chdir(folder)
    before = state(folder)
    with watchdog(30):
        result = run(*arguments.split())
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    position = -1
    for part in words.split(" ... "):
        position = result.stderr.find(part, position + 1)
        assert position >= 0, result.stderr
    assert "Traceback" not in result.stderr
    assert state(folder) == before
