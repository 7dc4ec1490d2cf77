"""The oldest set is the one pyproject.toml declares, and the lock file holds every direct dependency, by hash."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OLDEST, LOCK = "constraints/oldest.txt", "constraints/dev.lock"


def declared(*extras):
    """Direct dependencies by name, with those of some extras; the parts of dask are released together with it."""
    wanted = {}
    for requirement in map(Requirement, PROJECT["dependencies"] + lines_of(extras)):
        wanted[canonicalize_name(requirement.name)] = requirement
    return wanted | {"distributed": wanted["dask"]}


def lines_of(extras):
    """What some extras ask for; one that names others of this project's stands for what those ask for."""
    out = []
    for line in (line for extra in extras for line in PROJECT["optional-dependencies"][extra]):
        requirement = Requirement(line)
        out += lines_of(requirement.extras) if requirement.name == PROJECT["name"] else [line]
    return out


def pinned(path):
    pairs = re.findall(r"^([\w.-]+)==([\w.]+)", (ROOT / path).read_text(), re.MULTILINE)
    return {canonicalize_name(name): Version(version) for name, version in pairs}


def lowest(requirement):
    (bound,) = [s.version for s in requirement.specifier if s.operator == ">="]
    return Version(bound)


def test_the_oldest_set_names_every_dependency_and_no_other():
    assert pinned(OLDEST).keys() == declared("report", "dask", "dev").keys()


@pytest.mark.parametrize("name", sorted(declared("report", "dask", "dev")))
def test_the_oldest_set_is_at_the_declared_bound(name):
    """The first release under it, that is: where 1.11 was withdrawn, 1.11.1 is the oldest 1.11."""
    version, bound = pinned(OLDEST)[name], lowest(declared("report", "dask", "dev")[name])
    assert version >= bound
    assert version.release[: len(bound.release)] == bound.release


def test_the_lock_file_holds_every_dependency_within_its_bounds_and_with_a_hash():
    locked = pinned(LOCK)
    wanted = declared("report", "dask", "browser", "dev")
    assert not [name for name, r in wanted.items() if name not in locked or locked[name] not in r.specifier]
    blocks = re.split(r"^(?=\S)", re.sub(r"^\s*#.*\n", "", (ROOT / LOCK).read_text(), flags=re.MULTILINE), flags=re.M)
    assert [block.split()[0] for block in blocks if block and "--hash=sha256:" not in block] == []
    assert len([block for block in blocks if block]) == len(locked)


@pytest.mark.parametrize("path", [OLDEST, LOCK])
def test_neither_file_names_a_place_to_download_from(path):
    assert not re.search(r"://|index-url|find-links|trusted-host", (ROOT / path).read_text())
