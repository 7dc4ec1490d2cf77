"""Every test that docs/promises.md names is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_test_that_the_page_names_is_there():
    page = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8")
    code = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    there = set(re.findall(r"def (test_\w+)\(", code))
    named = set(re.findall(r"`(test_\w+)`", page))
    assert len(named) >= 25
    assert named <= there, sorted(named - there)
    files = set(re.findall(r"`(tests/[\w/]+\.py)`", page))
    assert all((ROOT / file).exists() for file in files)
    for number in range(1, 14):
        assert re.search(rf"^\| {number} \| .* \| `test_", page, re.MULTILINE)
