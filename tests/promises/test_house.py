"""The house: imports point one way, room by room; no name twice; no room too full; the page that draws it is true."""

import importlib.util
import itertools
import re
import sys
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "stopwise"
if not (ROOT / "docs" / "house.py").is_file():
    pytest.skip("the docs are not here", allow_module_level=True)


def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


house, drawing = script("house"), script("house_picture")
ORDER = list(house.ROOMS)
FILES = sorted(file for file in SOURCE.rglob("*.py") if not file.name.startswith("__"))
FOLDERS = sorted({file.parent for file in FILES})


def against_the_order(pairs):
    """(a module, one it imports) where the second stands in a later room of the house."""
    rooms = [(a, b) for a, b in pairs - house.DOORS if a not in house.TOP]
    return sorted((a, b) for a, b in rooms if b in house.TOP or ORDER.index(house.room(b)) > ORDER.index(house.room(a)))


def test_every_room_has_a_place_in_the_order():
    assert {house.room(module) for module in house.modules() if module not in house.TOP} <= set(ORDER)
    inside = [module.split(".") for module in house.modules() if module.startswith("stopwise.engine.")]
    assert {parts[2] for parts in inside} <= set(house.ENGINE)


def test_a_room_imports_only_from_rooms_before_it():
    assert against_the_order(house.imports()) == []


def test_a_room_of_the_engine_imports_only_from_ranks_before_it():
    wrong = [(a, b) for b, a in house.engine_arrows() if house.ENGINE[b][0] >= house.ENGINE[a][0]]
    assert wrong == []


def test_no_file_imports_itself_by_way_of_others():
    """Take away files that use none of those left, again and again: nothing may remain."""
    known = house.modules()
    uses = {module: set() for module in known}
    for a, b in house.imports() - house.DOORS:
        if a not in house.TOP and not b.startswith(a + "."):  # a room's own door shows what stands behind it
            uses[a].add(b)
    while free := [module for module, used in uses.items() if not used & uses.keys()]:
        for module in free:
            del uses[module]
    assert sorted(uses) == []


def test_the_doors_against_the_order_are_there():
    assert house.imports() >= house.DOORS
    assert all(ORDER.index(house.room(b)) > ORDER.index(house.room(a)) for a, b in house.DOORS)


def test_names_are_used_once_unless_for_the_same_part_in_sibling_rooms():
    homes = defaultdict(list)
    for file in FILES:
        homes[file.name].append(file.parent)
    twice = {name: folders for name, folders in homes.items() if len({folder.parent for folder in folders}) > 1}
    assert twice == {}


def test_no_two_test_files_share_a_name():
    names = [file.name for file in (ROOT / "tests").rglob("*.py") if file.name != "__init__.py"]
    assert sorted(set(names)) == sorted(names)


def test_no_test_changes_a_private_constant():
    """What a test varies is a parameter, or a public field of a named type."""
    patched = re.compile(r"""setattr\([^)\n]*["'.]_[A-Z][A-Z_]*["']""")
    files = sorted(file for file in (ROOT / "tests").rglob("*.py") if patched.search(file.read_text(encoding="utf-8")))
    assert files == []


def test_the_top_level_has_at_most_fourteen_folders_and_fourteen_modules():
    assert len([folder for folder in FOLDERS if folder.parent == SOURCE]) <= 14
    assert len([file for file in FILES if file.parent == SOURCE]) <= 14


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.relative_to(SOURCE).as_posix())
def test_no_room_but_the_experiments_has_more_than_twelve_files(folder):
    if folder != SOURCE and folder.name != "experiments":
        assert len([file for file in FILES if file.parent == folder]) <= 12


def test_a_planted_import_against_the_order_is_found(tmp_path):
    files = {
        "kernels/plain.py": "from stopwise.rules import Rule\n",
        "rules/__init__.py": "def late():\n    import stopwise.engine.solvers.best\n",
        "engine/solvers/best.py": "from stopwise import kernels\nfrom stopwise.kernels.plain import thing\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert against_the_order(house.imports(tmp_path)) == [
        ("stopwise.kernels.plain", "stopwise.rules"),
        ("stopwise.rules", "stopwise.engine.solvers.best"),
    ]


def test_the_picture_shows_every_room_and_every_arrow_follows_from_those_drawn():
    svg = drawing.picture()
    shown = set(re.findall(r'class="name"[^>]*>([^<]+)<', svg))
    known = {house.room(module) for module in house.modules() if module not in house.TOP}
    assert known - set(house.GROUND) <= shown
    drawn = drawing.reduced(house.arrows())
    for _ in ORDER:
        drawn |= {(a, d) for (a, b), (c, d) in itertools.product(drawn, drawn) if b == c}
    assert house.arrows() <= drawn


def test_the_page_leads_from_each_row_of_the_map_to_a_file():
    text = house.page()
    links = re.findall(r"\]\((\.\./src/[^)]+)\)", text)
    assert all((ROOT / "docs" / link).is_file() for link in links)
    rows = re.findall(r"^\| ([^|]+) \| `stopwise", (ROOT / "docs" / "paper.md").read_text(encoding="utf-8"), re.M)
    assert len(rows) >= 40
    assert all(f"| {row} | [" in text for row in rows)


def test_the_page_and_its_picture_are_those_of_the_house_as_it_stands():
    assert (ROOT / "docs" / "house.md").read_text(encoding="utf-8") == house.page()
    assert (ROOT / "docs" / "_static" / "house.svg").read_text(encoding="utf-8") == drawing.picture()
