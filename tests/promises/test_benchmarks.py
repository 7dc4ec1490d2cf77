"""Benchmarks on sets that cannot be fitted."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def run(script, *words, folder):
    command = [sys.executable, str(BENCHMARKS / script), *map(str, words)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def sets():
    """A set of numbers, and one with an infinity."""
    rng = np.random.default_rng(0)
    good = rng.uniform(size=(61, 3))
    bad = good.copy()
    bad[5, 0] = np.inf
    return {"good": good, "bad": bad}


def test_a_set_with_infinities_is_named_and_the_other_sets_are_measured(tmp_path):
    np.savez(tmp_path / "sets.npz", **sets())
    said = run("real_data.py", "--from", "sets.npz", "--methods", "stopwise", "--splits", 1, folder=tmp_path)
    assert "bad is left out: it holds 1 entry that no fit takes" in said
    with (tmp_path / "build" / "bench-real" / "results.csv").open() as lines:
        assert [line["set"] for line in csv.DictReader(lines)] == ["good"]


def test_the_intervals_of_other_sets_are_measured_too(tmp_path):
    parts = {
        f"{name}|0|{part}": value
        for name, table in sets().items()
        for part, value in {
            "X": table[:40, :2],
            "y": table[:40, 2],
            "new": table[40:, :2],
            "truth": table[40:, 2],
        }.items()
    }
    np.savez(tmp_path / "splits.npz", **parts)
    said = run("intervals.py", "--from", "splits.npz", "--no-mapie", "--json", "real.json", folder=tmp_path)
    assert "bad, split 0, is left out" in said
    assert [line["set"] for line in json.loads((tmp_path / "real.json").read_text())] == ["good"]
