"""Kills and broken disks while files are written: the old file or the new one, a clear error, nothing left behind."""

import errno
import os
import shutil
import signal
import subprocess
import threading

import numpy as np
import pytest

import stopwise as sw
from children import ENVIRONMENT, after, die, hidden, in_child
from commands import run
from hostile import KERNEL, X, y
from stopwise.experiments.runner import replace_file
from stopwise.io import atomic
from warm import stand_in

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning"),
]
MODEL = sw.KernelRidgeRegressor(KERNEL).fit(X, y)


def half_written(tensors, filename, metadata):
    filename.write_bytes(b"half")
    (filename.parent / ".tmpAbCdEf").write_bytes(b"what the writer keeps beside it")
    die()


POINTS = {
    "before the temporary folder": ("stopwise.io.atomic._Room", die, False),
    "after it": ("stopwise.io.atomic._locked", after(atomic._locked), False),
    "before writing": ("stopwise.io.container.save_file", die, False),
    "in the middle of writing": ("stopwise.io.container.save_file", half_written, False),
    "before the permissions": ("os.chmod", die, False),
    "before it is on the disk": ("os.fsync", die, False),
    "after it is on the disk": ("os.fsync", after(os.fsync), False),
    "before the move": ("os.replace", die, False),
    "after the move": ("os.replace", after(os.replace), True),
    "before the folder is on the disk": ("stopwise.io.atomic._sync_folder", die, True),
}


@pytest.mark.parametrize("existing", [False, True], ids=["a new file", "an old file"])
@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_any_point_of_a_save_leaves_the_old_file_or_the_new(tmp_path, monkeypatch, point, existing):
    path, (name, fault, moved) = tmp_path / "model.stopwise", POINTS[point]
    if existing:
        path.write_bytes(b"old")
    monkeypatch.setattr(name, fault)
    assert in_child(lambda: sw.save(MODEL, path)) == -signal.SIGKILL
    monkeypatch.undo()
    if moved:
        np.testing.assert_array_equal(sw.load(path).predict(X), MODEL.predict(X))
    elif existing:
        assert path.read_bytes() == b"old"
    else:
        assert not path.exists()
    sw.save(MODEL, path)
    assert hidden(tmp_path) == []
    np.testing.assert_array_equal(sw.load(path).predict(X), MODEL.predict(X))


def test_tidying_up_leaves_alone_what_is_alive_or_not_ours(tmp_path):
    path = tmp_path / "model.stopwise"
    others = [".model.stopwise.tmp", ".model.stopwise.0123456789ab.tmp2", ".other.stopwise.0123456789ab.tmp"]
    for name in others:
        (tmp_path / name).mkdir()
    with atomic.atomic_path(path) as slow:
        slow.write_bytes(b"slow")
        sw.save(MODEL, path)
        assert slow.read_bytes() == b"slow"
    assert path.read_bytes() == b"slow"
    assert sorted(hidden(tmp_path)) == sorted(others)


def test_many_writers_at_once_leave_one_whole_file(tmp_path):
    path, problems = tmp_path / "model.stopwise", []

    def save():
        try:
            for _ in range(10):
                sw.save(MODEL, path)
        except Exception as problem:  # noqa: BLE001 (told below)
            problems.append(problem)

    threads = [threading.Thread(target=save) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert [in_child(save), in_child(save)] == [0, 0]
    for thread in threads:
        thread.join()
    assert problems == []
    assert os.listdir(tmp_path) == ["model.stopwise"]
    np.testing.assert_array_equal(sw.load(path).predict(X), MODEL.predict(X))


# ---- the system says no ---------------------------------------------------------------------------------------------

ERRORS = [errno.ENOSPC, errno.EROFS, errno.EIO, errno.EDQUOT, errno.EACCES, errno.EMFILE]
CALLS = ["os.mkdir", "stopwise.io.container.save_file", "os.chmod", "os.fsync", "os.replace"]


@pytest.mark.parametrize("number", ERRORS, ids=errno.errorcode.get)
@pytest.mark.parametrize("call", CALLS)
def test_a_save_the_system_refuses_says_so_and_leaves_the_old_file(tmp_path, monkeypatch, call, number):
    path = tmp_path / "model.stopwise"
    path.write_bytes(b"old")

    def refuse(*_, **__):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(call, refuse)
    with pytest.raises(OSError, match=os.strerror(number)):
        sw.save(MODEL, path)
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["model.stopwise"]


def write(path, meanwhile):
    with atomic.atomic_path(path) as temporary:
        temporary.write_bytes(b"new")
        meanwhile()


def test_a_target_that_goes_away_while_it_is_written_is_made_again(tmp_path):
    path = tmp_path / "model.stopwise"
    path.write_bytes(b"old")
    write(path, path.unlink)
    assert path.read_bytes() == b"new"


def test_a_folder_in_the_place_of_the_target_is_an_error(tmp_path):
    path = tmp_path / "model.stopwise"
    with pytest.raises(IsADirectoryError):
        write(path, path.mkdir)
    assert hidden(tmp_path) == []


def test_a_folder_that_goes_away_while_it_is_written_to_is_an_error(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(FileNotFoundError):
        write(folder / "model.stopwise", lambda: shutil.rmtree(folder))


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("table")
    rng = np.random.default_rng(3)
    data = rng.uniform(size=(3000, 2))
    lines = [f"{a},{b},{a + b}" for a, b in data]
    (folder / "data.csv").write_text("\n".join(["a,b,y", *lines[:60]]) + "\n")
    (folder / "new.csv").write_text("\n".join(["a,b,y", *lines]) + "\n")
    words = (
        "fit",
        str(folder / "data.csv"),
        "--target",
        "y",
        "--kernel",
        "gaussian",
        "--out",
        str(folder / "m.stopwise"),
    )
    assert run(*words).exit_code == 0
    return folder


WRITERS = {
    "fit --out": (["fit", "{t}/data.csv", "--target", "y", "--kernel", "linear", "--out", "{o}"], "out.stopwise"),
    "fit --report": (["fit", "{t}/data.csv", "--target", "y", "--kernel", "linear", "--report", "{o}"], "r.html"),
    "predict --out csv": (["predict", "{t}/m.stopwise", "{t}/new.csv", "--out", "{o}"], "p.csv"),
    "predict --out parquet": (["predict", "{t}/m.stopwise", "{t}/new.csv", "--out", "{o}"], "p.parquet"),
    "compare --figure": (
        ["compare", "{t}/data.csv", "--target", "y", "--kernel", "linear", "--figure", "{o}"],
        "c.png",
    ),
}
each_writer = pytest.mark.parametrize("writer", WRITERS)


def words_of(writer, table, folder):
    words, name = WRITERS[writer]
    if writer in ("fit --report", "compare --figure"):
        pytest.importorskip("matplotlib")
        pytest.importorskip("jinja2")
    return [word.format(t=table, o=folder / name) for word in words], folder / name


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 16 KB, mounted here; only root may."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting a small disk needs root")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@each_writer
def test_a_full_disk_is_one_line_and_the_old_file_stays(table, small_disk, writer):
    words, out = words_of(writer, table, small_disk)
    out.write_bytes(b"old")
    (small_disk / "filler").write_bytes(bytes(4096))
    result = run(*words)
    assert result.exit_code == 2, result.output
    assert "No space left on device" in result.stderr
    assert result.stderr.count("\n") == 1
    assert out.read_bytes() == b"old"
    assert sorted(os.listdir(small_disk)) == sorted([out.name, "filler"])


@each_writer
def test_a_read_only_disk_is_one_line_and_the_old_file_stays(table, small_disk, writer):
    words, out = words_of(writer, table, small_disk)
    out.write_bytes(b"old")
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    result = run(*words)
    assert result.exit_code == 2, result.output
    assert "Read-only file system" in result.stderr
    assert result.stderr.count("\n") == 1
    assert os.listdir(small_disk) == [out.name]
    assert out.read_bytes() == b"old"


@each_writer
def test_a_limit_on_the_size_of_files_is_one_line_and_the_old_file_stays(table, tmp_path, writer):
    import resource

    words, out = words_of(writer, table, tmp_path)
    out.write_bytes(b"old")

    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
        result = run(*words)
        assert "File too large" in result.stderr
        os._exit(result.exit_code)

    assert in_child(limited) == 2
    assert out.read_bytes() == b"old"
    assert os.listdir(tmp_path) == [out.name]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("command", ["predict", "predict --json", "info", "info --json"])
def test_standard_output_that_is_full_is_one_line(table, command):
    first, *rest = command.split()
    words = [first, table / "m.stopwise", *([table / "new.csv"] if first == "predict" else []), *rest]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*stand_in(), *map(str, words)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "stopwise: No space left on device"
    assert "Traceback" not in done.stderr


def test_results_of_experiments_are_replaced_whole(tmp_path, monkeypatch):
    target = replace_file(tmp_path / "results.csv", b"old")
    monkeypatch.setattr("os.replace", die)
    assert in_child(lambda: replace_file(target, b"new")) == -signal.SIGKILL
    assert target.read_bytes() == b"old"
    monkeypatch.undo()
    replace_file(target, b"new")
    assert os.listdir(tmp_path) == ["results.csv"]
    assert target.read_bytes() == b"new"
