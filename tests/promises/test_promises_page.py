"""Every test that docs/promises.md names is there, and there are as many cases as it says."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "promises.md"
COUNTED = re.compile(r"\| (?:more than )?([\d,]+) \| `(tests/promises/test_\w+\.py)` \|$", re.MULTILINE)
"""Rows of a table that tell how many cases a whole file holds."""


def test_every_test_that_the_page_names_is_there():
    page = PAGE.read_text(encoding="utf-8")
    code = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    there = set(re.findall(r"def (test_\w+)\(", code))
    named = set(re.findall(r"`(test_\w+)`", page))
    assert len(named) >= 25
    assert named <= there, sorted(named - there)
    files = set(re.findall(r"`(tests/[\w/]+\.py)`", page))
    assert all((ROOT / file).exists() for file in files)
    for number in range(1, 14):
        assert re.search(rf"^\| {number} \| .* \| `test_", page, re.MULTILINE)


def test_there_are_at_least_as_many_bad_inputs_as_the_page_says():
    table = PAGE.read_text(encoding="utf-8").split("cases, at least")[1].split("\n\n")[0]
    said = {file: int(count.replace(",", "")) for count, file in COUNTED.findall(table)}
    together = int(re.search(r"\*\*together\*\* \| \*\*([\d,]+)\*\*", table)[1].replace(",", ""))
    assert len(said) == 7
    assert sum(said.values()) == together
    asked = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *said]
    listed = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    there = Counter(line.split("::")[0] for line in listed.splitlines() if "::" in line)
    assert all(there[file] >= count for file, count in said.items()), there


def test_sums_of_the_page_are_right():
    for table in re.findall(r"(?:^\|.*\n)+", PAGE.read_text(encoding="utf-8"), re.MULTILINE):
        rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines()]
        if not rows[-1][0].startswith("**together"):
            continue
        for at, total in enumerate(rows[-1][1:], 1):
            if total:
                parts = [row[at].replace(",", "") for row in rows[2:-1]]
                numbers = [sum(int(part) for part in cell.split("+")) for cell in parts]
                assert sum(numbers) == int(total.strip("*").replace(",", "")), rows[-1]
