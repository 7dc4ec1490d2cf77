"""The gallery: every script in examples/ with its picture, its output and its code, made while the pages are built."""

import ast
from html import escape
from pathlib import Path

from run_code import FOLDER, drawing, run, save

EXAMPLES = Path(__file__).parents[1] / "examples"


def write(source):
    """The page and its pictures, under docs/_generated."""
    folder = Path(source) / FOLDER
    folder.mkdir(exist_ok=True)
    cards, sections = [], []
    for script in sorted(EXAMPLES.glob("*.py")):
        code = script.read_text(encoding="utf-8")
        title, _, rest = ast.get_docstring(ast.parse(code)).partition("\n")
        with drawing():
            printed = run(code, {"__name__": "__main__"})
            pictured = save(folder / f"{script.stem}.svg")
        if not pictured:
            raise ValueError(f"{script.name} draws nothing: an example of the gallery ends with a picture")
        body = code.split('"""', 2)[2].strip()
        cards.append(
            f'<a class="card" href="#{script.stem.replace("_", "-")}">'
            f'<img src="../_images/{script.stem}.svg" alt="{escape(title)}"><span>{escape(title)}</span></a>'
        )
        sections.append(
            f"({script.stem.replace('_', '-')})=\n## {title.rstrip('.')}\n\n{rest.strip()}\n\n"
            f"![{title}]({script.stem}.svg)\n\n```text\n{printed.strip()}\n```\n\n"
            f"`examples/{script.name}`\n\n```python\n{body}\n```\n"
        )
    grid = '```{raw} html\n<div class="cards">' + "".join(cards) + "</div>\n```\n"
    intro = (
        "Short scripts, each with its picture. They run as tests; the pictures are drawn when these pages are built.\n"
    )
    (folder / "gallery.md").write_text(f"# Gallery\n\n{intro}\n{grid}\n" + "\n".join(sections), encoding="utf-8")
