"""The house from its imports: which room uses which, and where each equation of the paper stands.

    python docs/house.py

writes `house.md` and `_static/house.svg` beside this file; `make docs` does so each time. Nothing is imported to find
the arrows: every import statement of src/ counts, wherever in a file it stands.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cached_property
from importlib import import_module
from inspect import getsourcefile, unwrap
from pathlib import Path

HERE = Path(__file__).parent
SOURCE = HERE.parent / "src" / "stopwise"

ROOMS = {
    "exceptions": "what can go wrong, by name",
    "_support": "arrays, checks, threads, memory, progress, doors to optional libraries",
    "tables": "files to frames to numeric rows",
    "examples": "data to try things on",
    "copies": "which rows are copies?",
    "kernels": "what is k(x, z)?",
    "schedules": "how far after t steps?",
    "filters": "how much is still missing?",
    "losses": "value, slope, curvature, link",
    "spectrum": "eigenvalues, and how sure",
    "path": "the estimate at any clock reading",
    "complexity": "where does variance overtake bias?",
    "noise": "how loud is the noise?",
    "rules": "when do we stop, and why?",
    "problem": "the data: checked, merged, centred",
    "sample": "a few distinct rows, standardised",
    "engine": "how is all that had from n rows?",
    "landmarks": "the door to landmark sampling",
    "selection": 'what "auto" chooses',
    "estimators": "scikit-learn's face: fit, predict",
    "views": "a model as facts and curves",
    "plot": "figures",
    "io": "model files",
    "pages": "the report",
    "cli": "what a person types",
    "experiments": "the papers' simulations",
}
"""The rooms in the order of imports, each with its question: a room uses rooms above it, never below."""
ENGINE = {
    "operators": (0, "K V and its trace"),
    "spectrum": (1, "eigenvalues, how sure"),
    "solves": (2, "(K + s I)⁻¹ B"),
    "line": (3, "one covariate, n steps"),
    "landmarks": (4, "n rows by m of them"),
    "gpu": (5, "the same on a device"),
    "cluster": (5, "the same on Dask"),
    "loss_fits": (5, "other losses"),
    "solvers": (6, "Problem → Solution"),
}
"""The engine's rooms, with their rank: a room uses rooms of a lower rank; rooms of one rank do not know one another."""
GROUND = ("exceptions", "_support")
"""Rooms that every other may use: no arrows are drawn from them."""
DOORS = {("stopwise.cli.app", "stopwise.experiments.command")}
"""Imports against the order, on purpose: `stopwise reproduce` opens the experiments when it is asked for."""
TOP = ("stopwise", "stopwise.__main__")
"""The package itself, which shows what the rooms hold."""


def modules(source: Path = SOURCE) -> dict[str, Path]:
    """Every module of the package, and its file."""
    found = {}
    for file in sorted(source.rglob("*.py")):
        parts = ("stopwise", *file.relative_to(source).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def imports(source: Path = SOURCE) -> set[tuple[str, str]]:
    """Pairs (a module, a module it imports), inside the package."""
    known = modules(source)
    return {
        (module, target)
        for module, file in known.items()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        for name in _named(node)
        for target in [_inside(name, known)]
        if target and target != module
    }


def _named(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0, "imports are written in full"
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


def _inside(name: str, known: dict[str, Path]) -> str | None:
    while name and name not in known:
        name = name.rpartition(".")[0]
    return name or None


def room(module: str) -> str:
    """The room at the top that a module stands in."""
    return module.split(".")[1]


def arrows(source: Path = SOURCE) -> set[tuple[str, str]]:
    """Pairs (room, room that uses it), the ground and the package itself aside."""
    pairs = {(room(b), room(a)) for a, b in imports(source) - DOORS if a not in TOP and b not in TOP}
    return {(a, b) for a, b in pairs if a != b and a not in GROUND and b not in GROUND}


def engine_arrows(source: Path = SOURCE) -> set[tuple[str, str]]:
    """The same between the engine's rooms."""
    inside = [(a.split("."), b.split(".")) for a, b in imports(source)]
    pairs = {(b[2], a[2]) for a, b in inside if a[1:2] == b[1:2] == ["engine"] and len(a) > 2 and len(b) > 2}
    return {(a, b) for a, b in pairs if a != b}


def where(name: str) -> tuple[str, str]:
    """The file that defines a dotted name, from src on, and what to look for in it."""
    known = modules()
    base = _inside(name, known)
    thing = import_module(base)
    for part in filter(None, name[len(base) + 1 :].split(".")):
        thing = getattr(thing, part)
    thing = thing.fget if isinstance(thing, property) else thing.func if isinstance(thing, cached_property) else thing
    thing = unwrap(thing)
    file = Path(getsourcefile(thing)).resolve().relative_to(SOURCE.resolve().parent)
    return file.as_posix(), f"`{thing.__qualname__}`" if hasattr(thing, "__qualname__") else "the whole file"


def equations() -> list[tuple[str, list[tuple[str, str]]]]:
    """What the paper defines or claims, and where: (words, [(file, function)]), from the tables of paper.md."""
    rows = re.findall(r"^\| ([^|]+) \| (`stopwise[^|]+) \|", (HERE / "paper.md").read_text(encoding="utf-8"), re.M)
    return [(words, [where(name) for name in re.findall(r"`(stopwise[\w.]+)`", here)]) for words, here in rows]


def page() -> str:
    """house.md."""
    known = modules()
    files = Counter(room(module) for module in known if module not in TOP)
    table = [f"| `{name}` | {ROOMS[name]} | {files[name]} |" for name in ROOMS if name in files]
    engine = [f"`{name}` ({words})" for name, (_, words) in ENGINE.items() if f"stopwise.engine.{name}" in known]
    paper = []
    for words, places in equations():
        links = [f"[{file}](../src/{file}): {function}" for file, function in places]
        paper.append(f"| {words} | {', '.join(links)} |")
    return PAGE.format(rooms="\n".join(table), engine=", ".join(engine), equations="\n".join(paper))


PAGE = """\
# The house

Data enters at one end and leaves at the other, and imports point the same way: a room uses rooms above it, never below.
`python docs/house.py` draws this page from the import statements of src/, and a test holds the order.

![Rooms and arrows: an arrow leads from a room to one that uses it](_static/house.svg)

An arrow leads from a room to one that uses it. Arrows that follow from others are left out, and so are those from the
ground: exceptions and `_support`, which every room may use. One import points the other way, on purpose:
`stopwise reproduce` opens the experiments when it is asked for.

## Rooms

| room | its question | files |
|---|---|---|
{rooms}

Inside the engine, in their order: {engine}.

## From the paper to a file

What the paper (RWY14) defines or claims, and the function that holds it. [The map](paper.md) names a test for each row,
and says what E1 to E14 are.

| in the paper | file and function |
|---|---|
{equations}
"""


def main() -> None:
    """Write both files."""
    from house_picture import picture

    (HERE / "house.md").write_text(page(), encoding="utf-8")
    (HERE / "_static" / "house.svg").write_text(picture(), encoding="utf-8")


if __name__ == "__main__":
    main()
