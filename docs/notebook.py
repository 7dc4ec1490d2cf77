"""The tutorial as a notebook, made from its page: `python docs/notebook.py` writes docs/tutorial.ipynb again."""

import json
import re
from pathlib import Path

PAGE = Path(__file__).parent / "tutorial.md"
NOTEBOOK = PAGE.with_suffix(".ipynb")
_BLOCK = re.compile(r"^```python\n(.*?)^```\n", re.S | re.M)


def cells(text):
    """Prose and code in turn; what a picture shows is said in the page only."""
    for i, part in enumerate(_BLOCK.split(text)):
        source = re.sub(r"^# picture: .*\n?", "", part, flags=re.M).strip()
        if source:
            yield ("code" if i % 2 else "markdown"), source


def notebook(text):
    """The notebook as JSON text, without outputs."""
    made = []
    for i, (kind, source) in enumerate(cells(text)):
        cell = {"cell_type": kind, "id": f"cell-{i}", "metadata": {}, "source": source.splitlines(keepends=True)}
        made.append(cell | ({"execution_count": None, "outputs": []} if kind == "code" else {}))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    whole = {"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    NOTEBOOK.write_text(notebook(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
