"""Kills in the middle of work, and memory that runs out: earlier results stay, and doing it again gives the same."""

import json
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import little_memory
import stopwise as sw
from children import ENVIRONMENT, after, hidden, in_child
from commands import run
from hostile import KERNEL, X, y

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
COMMAND = [sys.executable, "-m", "stopwise"]

# ---- kill -9 during `stopwise reproduce` ----------------------------------------------------------------------------

REPRODUCE = ["reproduce", "bounds", "--trials", "4", "--n", "12,16", "--jobs", "1", "-q"]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    assert run(*REPRODUCE, "--out", str(folder)).exit_code == 0
    return contents(folder)


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


STAGES = {
    "a piece of work": ("stopwise.experiments.runner._call", 1),
    "the table": ("stopwise.experiments.runner.replace_file", 1),
    "the claims": ("stopwise.experiments.runner.replace_file", 2),
    "the first figure": ("stopwise.experiments.figure_files.replace_file", 1),
    "the last figure": ("stopwise.experiments.figure_files.replace_file", 2),
    "a move into place": ("os.replace", 2),
}


@pytest.mark.parametrize("before", [False, pytest.param(True, marks=pytest.mark.deep)], ids=["new", "older results"])
@pytest.mark.parametrize("stage", STAGES)
def test_experiments_killed_at_any_stage_give_the_same_bytes_when_run_again(
    tmp_path, monkeypatch, undisturbed, stage, before
):
    pytest.importorskip("matplotlib")
    out, (name, turn) = tmp_path / "results", STAGES[stage]
    if before:
        out.mkdir()
        (out / "results.csv").write_bytes(b"older")
    module, attribute = name.rsplit(".", 1)
    real, calls = getattr(sys.modules[module], attribute), []

    def fatal(*arguments):
        calls.append(arguments)
        return (after(real) if len(calls) == turn else real)(*arguments)

    monkeypatch.setattr(name, fatal)
    assert in_child(lambda: run(*REPRODUCE, "--out", str(out))) == -signal.SIGKILL
    monkeypatch.undo()
    for path, found in contents(out).items():
        assert os.path.basename(os.path.dirname(path)).startswith(".") or found in (undisturbed[path], b"older")
    assert run(*REPRODUCE, "--out", str(out)).exit_code == 0
    assert contents(out) == undisturbed


@pytest.mark.deep
@pytest.mark.parametrize("seconds", np.linspace(1.0, 6.0, 11))
def test_experiments_killed_at_any_time_give_the_same_bytes_when_run_again(tmp_path, undisturbed, seconds):
    pytest.importorskip("matplotlib")
    words = [*COMMAND, *REPRODUCE, "--out", str(tmp_path)]
    with subprocess.Popen(words, env=ENVIRONMENT) as child:
        time.sleep(seconds)
        child.kill()
    for path, found in contents(tmp_path).items():
        assert os.path.basename(os.path.dirname(path)).startswith(".") or found == undisturbed[path]
    assert run(*REPRODUCE, "--out", str(tmp_path)).exit_code == 0
    assert contents(tmp_path) == undisturbed


# ---- kill -9 during `stopwise predict` and `stopwise fit` -----------------------------------------------------------


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("table")
    lines = [f"{a},{b},{c}" for (a, b), c in zip(X, y, strict=True)]
    (folder / "data.csv").write_text("\n".join(["a,b,y", *lines]) + "\n")
    words = ("--target", "y", "--kernel", "linear", "--out", str(folder / "m.stopwise"))
    assert run("fit", str(folder / "data.csv"), *words).exit_code == 0
    return folder


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("name", ["stopwise.cli.predict.Predictor.predict", "os.fsync", "os.replace"])
def test_predictions_killed_at_any_stage_are_whole_or_the_old_ones(table, tmp_path, monkeypatch, kind, name):
    import importlib

    importlib.import_module("stopwise.cli.predict")
    out = tmp_path / f"p.{kind}"
    out.write_bytes(b"old")
    words = ("predict", str(table / "m.stopwise"), str(table / "data.csv"), "--out", str(out))
    with monkeypatch.context() as patch:
        if name.startswith("os."):
            patch.setattr(name, after(getattr(os, name[3:])))
        else:
            predictor = sys.modules["stopwise.cli.predict"].Predictor
            patch.setattr(predictor, "predict", after(predictor.predict))
        assert in_child(lambda: run(*words)) == -signal.SIGKILL
    assert (out.read_bytes() == b"old") is (name != "os.replace")
    assert run(*words).exit_code == 0
    assert hidden(tmp_path) == []
    expected = sw.load(table / "m.stopwise")
    found = np.genfromtxt(out, skip_header=1) if kind == "csv" else parquet(out)
    np.testing.assert_allclose(found, expected.predict(named(X, expected)), rtol=1e-12)


def parquet(path):
    import pandas as pd

    return pd.read_parquet(path)["prediction"].to_numpy()


def named(rows, model):
    import pandas as pd

    return pd.DataFrame(rows, columns=model.feature_names_in_)


# ---- memory runs out ------------------------------------------------------------------------------------------------

PROGRAM = Path(little_memory.__file__)


@pytest.fixture(scope="module")
def ends():
    """How work ended that may not grow, in forks of a process that has run no other test."""
    done = subprocess.run([sys.executable, PROGRAM], env=ENVIRONMENT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc")
@pytest.mark.parametrize("work", little_memory.WORK)
def test_memory_that_runs_out_is_a_memory_error_with_words(ends, work):
    assert ends[work] == little_memory.WORDS


def test_threads_that_cannot_be_started_are_a_memory_error_with_words(monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("threading.Thread.start", refuse)
    rng = np.random.default_rng(0)  # more rows than two tiles hold: of fewer, fewer threads have something to do
    x, targets = rng.uniform(size=(1_200, 1)), rng.normal(size=1_200)
    with pytest.raises(MemoryError, match="3 threads could not be started: free memory, or set n_jobs=1"):
        sw.KernelGradientRegressor(KERNEL, solver="krylov", rule="gcv", n_jobs=3).fit(x, targets)


SHORT = {
    "reading": ("stopwise.cli.table_options.open_tables", MemoryError("malloc of size 131072 failed")),
    "fitting": ("stopwise.estimators.regressors.choose_solver", MemoryError("Unable to allocate 9 GiB")),
    "writing": ("stopwise.io.container.save_file", MemoryError()),
}


@pytest.mark.parametrize("stage", SHORT)
def test_a_command_out_of_memory_is_one_line_and_the_old_model_stays(table, tmp_path, monkeypatch, stage):
    out, (name, problem) = tmp_path / "m.stopwise", SHORT[stage]
    out.write_bytes(b"old")

    def fail(*_, **__):
        raise problem

    monkeypatch.setattr(name, fail)
    result = run("fit", str(table / "data.csv"), "--target", "y", "--kernel", "linear", "--out", str(out))
    assert result.exit_code == 2
    assert result.stderr.startswith("stopwise: not enough memory")
    assert result.stderr.count("\n") == 1
    assert out.read_bytes() == b"old"
    assert hidden(tmp_path) == []


def test_a_command_without_a_thread_to_show_progress_with_does_its_work(table, monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("threading.Thread.start", refuse)
    assert run("info", str(table / "m.stopwise")).exit_code == 0
    assert run("fit", str(table / "data.csv"), "--target", "y", "--kernel", "linear").exit_code == 0


# ---- kill -9 of a dask client and its workers -----------------------------------------------------------------------


def family(pid):
    """The process and all its descendants."""
    listed = subprocess.run(["ps", "-eo", "pid,ppid"], capture_output=True, text=True, check=True).stdout.split()[2:]
    children = {}
    for child, parent in zip(map(int, listed[::2]), map(int, listed[1::2]), strict=True):
        children.setdefault(parent, []).append(child)
    out = [pid]
    for one in out:
        out += children.get(one, [])
    return out


def alive(pids):
    return [pid for pid in pids if os.path.exists(f"/proc/{pid}")]


@pytest.mark.deep
@pytest.mark.dask
@pytest.mark.parametrize("seconds", [2.0, 4.0, 6.0, 8.0])
def test_a_killed_client_takes_its_cluster_along_and_writes_nothing(tmp_path, seconds):
    pytest.importorskip("distributed")
    rows = np.random.default_rng(0).uniform(size=(200_000, 3))
    np.savetxt(tmp_path / "data.csv", rows, delimiter=",", header="a,b,y", comments="")
    out = tmp_path / "m.stopwise"
    out.write_bytes(b"old")
    words = [
        "fit",
        tmp_path / "data.csv",
        "--target",
        "y",
        "--solver",
        "dask",
        "--landmarks",
        "800",
        "--out",
        out,
        "-q",
    ]
    with subprocess.Popen([*COMMAND, *map(str, words)], env=ENVIRONMENT, start_new_session=True) as child:
        time.sleep(seconds)
        processes = family(child.pid)
        child.kill()
    deadline = time.monotonic() + 60
    while alive(processes) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert alive(processes) == []
    if child.returncode == -signal.SIGKILL:
        assert out.read_bytes() == b"old"
    assert hidden(tmp_path) == []


@pytest.mark.deep
@pytest.mark.dask
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seconds", [0.05, 0.2, 0.5, 1.0])
def test_a_worker_killed_at_any_time_costs_no_row(seconds):
    distributed = pytest.importorskip("distributed")
    import threading

    import dask.array as da

    rng = np.random.default_rng(1)
    rows = rng.uniform(size=(60_000, 3))
    response = rows[:, 0] + 0.1 * rng.normal(size=60_000)
    whole = sw.KernelRidgeRegressor(KERNEL, solver="nystrom", n_landmarks=200).fit(rows, response)
    settings = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": logging.CRITICAL}
    with distributed.LocalCluster(**settings) as cluster, distributed.Client(cluster) as client:
        victim = next(iter(client.run(os.getpid).values()))
        threading.Timer(seconds, os.kill, (victim, signal.SIGKILL)).start()
        chunks = da.from_array(rows, chunks=(2000, 3)), da.from_array(response, chunks=2000)
        fitted = sw.KernelRidgeRegressor(KERNEL, n_landmarks=200).fit(*chunks)
    np.testing.assert_allclose(fitted.predict(rows[:100]), whole.predict(rows[:100]), atol=1e-8)
