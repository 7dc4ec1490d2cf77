"""What README and docs show runs, and what the map of the paper names is there."""

import contextlib
import importlib
import io
import re
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.S | re.M)
SMALLER = {"experiments.md": {"trials=200": "trials=4, sizes=(10, 20)"}}
"""What is shown at full size and run at a smaller one."""

if not (ROOT / "docs").is_dir():
    pytest.skip("the documentation is not here (an installed package?)", allow_module_level=True)


def blocks(page):
    return [text for language, text in BLOCK.findall(page.read_text(encoding="utf-8")) if language == "python"]


def run(page, text, names):
    for shown, ran in SMALLER.get(page.name, {}).items():
        text = text.replace(shown, ran)
    exec(compile(text, str(page), "exec"), names)


RUNNABLE = [page for page in PAGES if blocks(page) and page.name not in ("scale.md", "tutorial.md")]
"""The first needs a cluster, the second runs as a notebook."""


@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: page.stem)
def test_the_code_of_a_page_runs_from_top_to_bottom(page, monkeypatch, tmp_path):
    if any("sw.plot" in text or "report" in text for text in blocks(page)):
        pytest.importorskip("matplotlib").use("Agg")
        pytest.importorskip("jinja2")
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page"}
    monkeypatch.setitem(sys.modules, "page", type(sys)("page"))  # dataclasses look their module up
    with contextlib.redirect_stdout(io.StringIO()):
        for text in blocks(page):
            run(page, text, names)


@pytest.mark.filterwarnings("ignore::stopwise.exceptions.ExtrapolationWarning")
def test_the_five_minutes_show_the_score_that_they_name():
    page, names = ROOT / "docs" / "start.md", {}
    with contextlib.redirect_stdout(io.StringIO()):
        for text in blocks(page)[:3]:
            run(page, text, names)
    said = re.search(r"left out is (\.\d+)", page.read_text(encoding="utf-8"))[1]
    assert names["scores"].mean() == pytest.approx(float(said), abs=0.005)


@pytest.mark.dask
@pytest.mark.filterwarnings("ignore")
def test_the_code_about_clusters_runs_on_a_small_one(tmp_path):
    pytest.importorskip("dask.dataframe")
    distributed = pytest.importorskip("distributed")
    import pandas as pd

    state = np.random.get_state()  # noqa: NPY002  (dask draws from it to guess the size of text, as pandas 2 keeps it)
    rng = np.random.default_rng(9)
    table = pd.DataFrame(rng.uniform(size=(400, 2)), columns=["a", "b"])
    table["y"] = np.sin(5 * table["a"]) + 0.1 * rng.normal(size=400)
    table.to_parquet(tmp_path / "part.parquet")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
    ) as cluster:
        changes = {
            "tcp://scheduler:8786": cluster.scheduler_address,
            "s3://bucket/table/": str(tmp_path),
            "=1000": "=50",
        }
        names = {}
        for text in blocks(ROOT / "docs" / "scale.md"):
            for shown, ran in changes.items():
                text = text.replace(shown, ran)
            exec(text, names)
        assert names["predictions"].compute().shape == (400,)
        names["client"].close()
    np.random.set_state(state)  # noqa: NPY002


def test_readme_shows_the_output_of_its_example():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.search(r"<!-- output -->\n```text\n(.*?)```", text, re.S)[1]
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(blocks(ROOT / "README.md")[0], {})
    assert out.getvalue() == shown


def test_readme_links_and_pictures_are_there():
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:|#|_generated/)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def named(pattern):
    return sorted(set(re.findall(pattern, (ROOT / "docs" / "paper.md").read_text(encoding="utf-8"))))


@pytest.mark.parametrize("test", named(r"`([\w/]+\.py::test_\w+)`"))
def test_every_test_on_the_map_exists(test):
    file, name = test.split("::")
    assert f"def {name}(" in (ROOT / "tests" / file).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", named(r"`(stopwise(?:\.\w+)+)`"))
def test_every_function_on_the_map_exists(name):
    parts = name.split(".")
    found = importlib.import_module(parts[0])
    for i, part in enumerate(parts[1:], 2):
        if not hasattr(found, part):
            importlib.import_module(".".join(parts[:i]))
        found = getattr(found, part)


def test_every_erratum_is_on_the_map():
    seen = set(re.findall(r"^\| (E\d+) \|", (ROOT / "docs" / "paper.md").read_text(encoding="utf-8"), re.M))
    assert seen == {f"E{i}" for i in range(1, 15)}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("script", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.stem)
def test_an_example_runs_prints_and_draws(script, monkeypatch, tmp_path):
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib import pyplot

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pyplot, "show", lambda: None)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(script.read_text(encoding="utf-8"), str(script), "exec"), {"__name__": "__main__"})
    assert out.getvalue()
    assert len(pyplot.get_fignums()) == 1
    assert list(tmp_path.iterdir()) == []
