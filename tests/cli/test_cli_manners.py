"""How commands end: one line and 2 on bad input, 130 on Ctrl-C, nothing half-written, no traceback."""

import importlib
import os
import pty
import signal
import subprocess
import sys
import time
import types
from pathlib import Path

import click
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import stopwise as sw
from commands import run, run_json
from stopwise._support.progress import Progress, say
from stopwise.cli import main, output
from warm import stand_in

ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.csv").write_text("a,y\n" + "".join(f"{i},{i % 3}\n" for i in range(20)))
    (tmp_path / "bad.csv").write_text("a,y\n1,2\n3\n")
    (tmp_path / "gaps.csv").write_text("a,y\n1,2\n,3\n4,5\n")
    (tmp_path / "few.csv").write_text("a,y\n1,2\n2,3\n4,5\n")
    (tmp_path / "other.csv").write_text("b\n1\n2\n")
    (tmp_path / "empty.csv").write_text("a,y\n")
    (tmp_path / "broken.stopwise").write_bytes(b"broken")
    X = np.arange(20.0)[:, None]
    sw.save(sw.KernelRidgeRegressor("gaussian").fit(X, X[:, 0] % 3), tmp_path / "good.stopwise")
    assert run("fit", "good.csv", "--target", "y", "--kernel", "gaussian", "--out", "named.stopwise").exit_code == 0
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("fit", "give a table to fit, DATA, or --example motorcycle"),
        ("fit good.csv --example motorcycle --target y", "DATA and --example are both given"),
        ("fit good.csv", "name the column to predict with --target; the columns are 'a', 'y'"),
        ("fit good.csv --target z", "no column named 'z'"),
        ("fit good.csv --target y --features z", "no column named 'z'"),
        ("fit good.csv --target y --features y", "cannot be a feature too"),
        ("fit good.csv --target y --exclude a", "no feature is left"),
        ("fit absent.csv --target y", "absent.csv does not exist"),
        ("fit bad.csv --target y", "bad.csv, line 3: 1 field where the header has 2"),
        ("fit empty.csv --target y", "at least 2 rows"),
        (
            "fit gaps.csv --target y --missing refuse",
            "1 of 3 rows have missing values (row 2), in 'a': choose --missing impute or --missing drop",
        ),
        ("fit good.csv --target y --kernel nonsense", "unknown kernel 'nonsense'"),
        ("fit good.csv --target y --kernel precomputed", "takes a matrix, not a table"),
        ("fit good.csv --target y --rule nonsense", "'nonsense' is not one of"),
        ("fit good.csv --target y --noise-std -1", "noise_std must be a positive"),
        ("fit good.csv --target y --noise-std nonsense", "noise_std must be a positive number"),
        ("fit good.csv --target y --length-scale 1", "--length-scale needs --kernel"),
        ("fit good.csv --target y --kernel gaussian --length-scale x", "could not convert"),
        ("fit good.csv --target y --kernel gaussian --length-scale 1,2", "length_scale has 2 entries for 1 features"),
        ("fit good.csv --target y --out absent/m.stopwise", "does not exist: make it first"),
        ("fit good.csv --target y --out .", "is a folder"),
        ("fit good.csv --target y --out good.csv", "is the input"),
        ("fit good.csv --target y --max-levels 0", "0 is not in the range"),
        ("fit good.csv --nonsense", "No such option"),
        ("nonsense", "No such command"),
        ("predict good.stopwise", "Missing argument 'DATA'"),
        ("predict broken.stopwise good.csv", "not a whole model file"),
        ("predict absent.stopwise good.csv", "absent.stopwise: No such file"),
        ("predict good.csv good.csv", "not a whole model file"),
        ("predict named.stopwise other.csv", "other.csv lacks columns the model was fitted to: 'a'"),
        ("predict named.stopwise empty.csv", "no rows to predict"),
        ("predict named.stopwise gaps.csv --missing refuse", "row 2 has a missing value"),
        ("predict named.stopwise bad.csv", "bad.csv, line 3: 1 field where the header has 2"),
        ("predict named.stopwise good.csv --out named.stopwise", "is the input"),
        ("info broken.stopwise", "not a whole model file"),
        ("info .", "is a folder"),
        ("compare good.csv --target y --holdout 2", "2.0 is not in the range"),
        ("compare few.csv --target y", "a comparison needs at least 10 rows to fit to, got 3"),
    ],
)
@pytest.mark.parametrize("more", ["", "--json"])
def test_bad_input_is_one_line_and_exit_code_2(folder, arguments, message, more):
    before = {path: path.read_bytes() for path in folder.iterdir()}
    result = run(*arguments.split(), *more.split()) if arguments else run()
    assert result.exit_code == 2
    assert result.stdout == ""
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_help_version_and_completion_are_there():
    for command in ("", "fit", "predict", "compare", "info", "reproduce"):
        result = run(*command.split(), "--help")
        assert result.exit_code == 0
        assert "Usage: " in result.stdout
    assert run("--version").stdout == f"stopwise, version {sw.__version__}\n"
    environment = ENVIRONMENT | {
        "_STOPWISE_COMPLETE": "bash_complete",
        "COMP_WORDS": "stopwise fit --kernel lap",
        "COMP_CWORD": "3",
    }
    done = subprocess.run(
        ["stopwise"], capture_output=True, text=True, env=environment | path_of_scripts(), check=False
    )
    assert "laplace" in done.stdout


def path_of_scripts():
    return {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def test_quiet_says_nothing(folder):
    for command in (
        "fit good.csv --target y --kernel gaussian",
        "compare good.csv --target y --kernel linear",
        "info good.stopwise",
    ):
        assert run(*command.split(), "-q").output == ""


def test_colours_appear_on_a_terminal_only(folder):
    command = [*stand_in(), "info", "named.stopwise"]
    environment = {key: value for key, value in ENVIRONMENT.items() if key not in ("NO_COLOR", "FORCE_COLOR")} | {
        "TERM": "xterm"
    }
    piped = subprocess.run(command, capture_output=True, env=environment, check=True)
    assert b"\x1b" not in piped.stdout
    leader, follower = pty.openpty()
    with subprocess.Popen(command, stdout=follower, stderr=follower, env=environment) as child:
        os.close(follower)
        shown = b""
        while part := read_some(leader):
            shown += part
    os.close(leader)
    assert child.returncode == 0
    assert b"\x1b[1m" in shown


def read_some(handle):
    try:
        return os.read(handle, 4096)
    except OSError:
        return b""


def test_progress_is_silent_at_first_and_speaks_later(monkeypatch, capsys):
    with output.Notes(quiet=False).progress("waiting"):
        pass
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(output, "PATIENCE", 0.01)
    with output.Notes(quiet=False).progress("waiting") as progress:
        while not progress._said:
            time.sleep(0.01)
    assert capsys.readouterr().err == "waiting ...\n"
    with output.Notes(quiet=True).progress("waiting"):
        time.sleep(0.05)
    assert capsys.readouterr().err == ""


def test_progress_without_patience_speaks_at_once_and_says_where_it_ended(capsys):
    with Progress(1, "fitting 10 rows") as progress:
        progress.show("step_sum in [1, 2]")
        say("solver='dense'")
    assert capsys.readouterr().err == "fitting 10 rows ...\nsolver='dense'\nstep_sum in [1, 2] ...\n"
    with Progress(0) as progress:
        progress.show("something")
        say("nothing")
    assert capsys.readouterr().err == ""


SLOW = """
import importlib, sys, time
from stopwise.cli import main
predict = importlib.import_module("stopwise.cli.predict")
original = predict.Predictor.predict
def slowly(*given):
    found = original(*given)
    print("predicting", file=sys.stderr, flush=True)
    time.sleep(60)
    return found
predict.Predictor.predict = slowly
main(sys.argv[1:], prog_name="stopwise")
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_is_clean(folder, number, code):
    (folder / "out.csv").write_text("old")
    command = [*stand_in(), "-c", SLOW, "predict", "named.stopwise", "good.csv", "--out", "out.csv", "-q"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT) as child:
        assert child.stderr.readline() == "predicting\n"
        assert len(list(folder.glob(".out.csv*"))) == 1
        time.sleep(0.1)
        child.send_signal(number)
        _, errors = child.communicate(timeout=50)
    assert child.returncode == code
    assert "Traceback" not in errors
    assert (folder / "out.csv").read_text() == "old"
    assert list(folder.glob(".out.csv*")) == []


def test_a_reader_who_leaves_early_is_no_error(folder):
    (folder / "many.csv").write_text("a\n" + "1.5\n" * 200_000)
    command = f"{sys.executable} -m stopwise predict named.stopwise many.csv | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=ENVIRONMENT, check=False)
    assert done.stdout == "prediction\n0\n"
    assert "Traceback" not in done.stderr


def test_a_report_is_asked_of_the_report_room(folder, monkeypatch):
    asked = {}

    def write(model, path, **details):
        asked.update(details)
        Path(path).write_text("<html>")

    monkeypatch.setitem(sys.modules, "stopwise.pages", types.SimpleNamespace(write=write))
    assert run("fit", "good.csv", "--target", "y", "--kernel", "linear", "--report", "r.html").exit_code == 0
    assert (folder / "r.html").read_text() == "<html>"
    assert sorted(asked) == ["X", "command", "target", "warnings", "y"]
    assert asked["X"].matrix.shape == (20, 1)


def test_a_report_that_fails_leaves_neither_report_nor_model(folder, monkeypatch):
    def write(model, path, **details):
        Path(path).write_text("half")
        raise ValueError("no ink")

    monkeypatch.setitem(sys.modules, "stopwise.pages", types.SimpleNamespace(write=write))
    result = run("fit", "good.csv", "--target", "y", "--kernel", "linear", "--report", "r.html", "--out", "m.stopwise")
    assert (result.exit_code, result.stderr) == (2, "stopwise: no ink\n")
    assert not list(folder.glob("*.html"))
    assert not list(folder.glob("m.stopwise*"))
    assert not list(folder.glob(".*"))


@pytest.mark.parametrize(
    ("arguments", "module"),
    [("fit good.csv --target y --report r.html", "pages"), ("compare good.csv --target y --figure c.png", "plot")],
)
def test_a_missing_extra_is_named(folder, monkeypatch, arguments, module):
    real = importlib.import_module

    def without_matplotlib(name, *rest):
        if name == f"stopwise.{module}":
            raise ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib")
        return real(name, *rest)

    monkeypatch.setattr(importlib, "import_module", without_matplotlib)
    result = run(*arguments.split())
    assert result.exit_code == 2
    assert "needs matplotlib: pip install 'stopwise[report]'" in result.stderr


def test_a_figure_is_asked_of_the_plot_room(folder, monkeypatch):
    class Figure:
        def savefig(self, path, **options):
            Path(path).write_bytes(options["format"].encode())

    drawn = []
    axes = types.SimpleNamespace(figure=Figure())
    monkeypatch.setitem(sys.modules, "stopwise.plot", types.SimpleNamespace(compare=lambda c: drawn.append(c) or axes))
    assert run("compare", "good.csv", "--target", "y", "--kernel", "linear", "--figure", "c.svg").exit_code == 0
    assert (folder / "c.svg").read_bytes() == b"svg"
    assert len(drawn[0].rows) > 5


def test_reproduce_is_imported_when_it_is_asked_for(monkeypatch):
    @click.command("reproduce")
    def reproduce():
        click.echo("reproducing")

    monkeypatch.setitem(sys.modules, "stopwise.experiments.command", types.ModuleType("stopwise.experiments.command"))
    sys.modules["stopwise.experiments.command"].reproduce = reproduce
    assert CliRunner().invoke(main, ["reproduce"]).output == "reproducing\n"


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["--example", "motorcycle", "table.csv"], "DATA and --example are both given"),
        (["--example", "motorcycle", "--quantile", "0.9"], "--quantile is for --loss quantile"),
        (["--example", "kiln", "--target", "strenght"], "did you mean 'strength'"),
    ],
)
def test_options_that_contradict_each_other_are_told_so(words, match):
    done = run("fit", *words)
    assert done.exit_code == 2
    assert match in done.stderr


def test_warnings_speak_the_words_of_the_command_line(tmp_path):
    table = tmp_path / "few.csv"
    table.write_text("x,y\n" + "".join(f"{i},{i * i}\n" for i in range(6)))
    done = run("fit", str(table), "--target", "y")
    assert done.exit_code == 0
    assert "give --kernel and --length-scale" in done.stderr
    assert "length_scale" not in done.stderr


@pytest.mark.parametrize("words", [["fit"], ["fit", "--missing", "drop"], ["compare"], ["compare", "--holdout", "0.2"]])
def test_an_outlier_is_named_by_its_row_of_the_file_in_every_word(words, tmp_path, rng):
    command, *more = words
    frame = pd.DataFrame({"x": rng.uniform(size=120), "z": rng.uniform(size=120)})
    frame["y"] = np.sin(6 * frame["x"]) + 0.1 * rng.normal(size=120)
    frame.loc[50, "y"], frame.loc[[2, 5, 10, 20], "y"], frame.loc[[7, 90], "z"] = 30.0, np.nan, np.nan
    frame.to_csv(tmp_path / "g.csv", index=False)
    report = ["--report", tmp_path / "g.html"] if command == "fit" else []
    said = run_json(command, tmp_path / "g.csv", "--target", "y", *more, *report)["warnings"]
    assert [line.split(" lies ")[0] for line in said if "further" in line] == ["row 51 (counted from 1)"]
    page = (tmp_path / "g.html").read_text() if report else ""
    assert page.count("row 51 (counted from 1)") == 2 * bool(report)
    assert "counted from 0" not in page
