"""The pages hang together: each is listed once, the notebook is the tutorial, every public name has an example."""

import importlib.util
import inspect
import io
import json
import re
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest

import stopwise as sw

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
if not (DOCS / "conf.py").is_file():
    pytest.skip("the docs are not here", allow_module_level=True)


def script(name):
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def listed():
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    lines = [line for tree in re.findall(r"```\{toctree\}\n(.*?)```", text, re.S) for line in tree.splitlines()]
    return [line for line in lines if line and not line.startswith(":")]


def test_the_sidebar_lists_every_page_once():
    pages = [page.stem for page in DOCS.glob("*.md") if page.stem != "index"]
    assert sorted(listed()) == sorted([*pages, "_generated/gallery"])


def test_the_notebook_is_the_tutorial():
    made = script("notebook").notebook((DOCS / "tutorial.md").read_text(encoding="utf-8"))
    assert (DOCS / "tutorial.ipynb").read_text(encoding="utf-8") == made, "run python docs/notebook.py"


@pytest.mark.filterwarnings("ignore")
def test_the_notebook_runs_from_top_to_bottom(monkeypatch, tmp_path):
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib import pyplot

    monkeypatch.chdir(tmp_path)
    cells = json.loads((DOCS / "tutorial.ipynb").read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    names = {"__name__": "notebook"}
    with redirect_stdout(io.StringIO()):
        for text in code:
            exec(compile(text, "tutorial.ipynb", "exec"), names)
    assert len(pyplot.get_fignums()) == 10, "ten pictures"


ROOMS = ("filters", "kernels", "landmarks", "losses", "noise", "rules", "schedules")
BEHIND = {
    "Filter",
    "SteppedFilter",
    "Kernel",
    "Radial",
    "Stationary",
    "Rows",
    "Product",
    "Scaled",
    "Sum",
    "Loss",
    "Convexity",
    "NoiseEstimator",
    "Sample",
    "Rule",
    "Certainty",
    "Data",
    "Evidence",
    "HeldOut",
    "DependentRowsWarning",
    "Schedule",
    "InvalidSchedule",
}
"""Types that people meet as results or as bases of their own parts, not by their name."""


def public():
    modules = {"KernelGradientRegressor"} | {n for n in sw.__all__ if not inspect.ismodule(getattr(sw, n))}
    names = modules - {"__version__"} | {"report"} | set(sw.plot.__all__) | {"TableEncoder"}
    for room in ROOMS:
        found = importlib.import_module(f"stopwise.{room}")
        own = {name for name, part in vars(found).items() if inspect.isclass(part) and not name.startswith("_")}
        known = {
            name for name in own if getattr(found, name).__module__.startswith(("stopwise." + room, "stopwise.engine"))
        }
        names |= known - BEHIND
    return sorted(names)


@pytest.mark.parametrize("name", public())
def test_every_public_name_has_an_example(name):
    text = (DOCS / "reference.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.S | re.M))
    assert re.search(rf"\b{name}\b", code)


def test_every_name_of_the_glossary_is_where_it_says():
    rows = re.findall(r"^\|(.+)\|$", (ROOT / "GLOSSARY.md").read_text(encoding="utf-8"), re.M)
    places = 0
    for row in rows:
        *_, names, where, _ = (cell.strip() for cell in row.split("|"))
        for place in re.findall(r"`([^`]+)`", where):
            file = ROOT / (place if place.startswith("tests/") else f"src/stopwise/{place}")
            code = "\n".join(part.read_text(encoding="utf-8") for part in sorted(file.rglob("*.py")) or [file])
            for name in re.findall(r"`([^`]+)`", names):
                places += 1
                assert re.search(rf"\b{name.rpartition('.')[-1]}\b", code), f"{name} is not in {place}"
    assert places > 30


def test_the_link_checker_finds_what_is_broken(tmp_path):
    good = '<a href="b.html#place">b</a><img src="a.svg"><a href="https://elsewhere.org">out</a>'
    (tmp_path / "a.html").write_text(good)
    (tmp_path / "a.svg").write_text("<svg/>")
    (tmp_path / "b.html").write_text('<h1 id="place">b</h1><link rel="canonical" href="https://home.org/b.html">')
    check = script("links").problems
    assert list(check(tmp_path)) == []
    (tmp_path / "c.html").write_text(
        '<a href="none.html">x</a><a href="b.html#nowhere">y</a><script src="https://cdn.org/x.js"></script>'
    )
    told = sorted(check(tmp_path))
    assert len(told) == 3
    assert "fetches https://cdn.org/x.js" in told[0]
    assert "b.html#nowhere" in told[1]
    assert "none.html, which is not there" in told[2]
    assert "links" not in sys.modules
