"""A table for people: as text in columns, and in HTML for notebooks (escaped, nothing but inline style)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_STYLE = "border-collapse: collapse; font-family: system-ui, sans-serif; font-size: 0.92em; margin: 0.4em 0"
_CELL = "padding: 0.2em 1em 0.2em 0; text-align: left; vertical-align: top"


def text_table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Names of columns and rows of text, each column as wide as its widest cell."""
    lines = [names, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(names))]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def html_table(heading: str, names: Sequence[str], rows: Iterable[Sequence[str]], bold: int | None = None) -> str:
    """A heading, the names of columns (none: no head) and rows of text; one row may be bold."""
    head = "".join(f'<th style="{_CELL}">{escape(name)}</th>' for name in names)
    body = []
    for i, row in enumerate(rows):
        weight = "; font-weight: 600" if i == bold else ""
        body.append("<tr>" + "".join(f'<td style="{_CELL}{weight}">{escape(cell)}</td>' for cell in row) + "</tr>")
    top = f"<thead><tr>{head}</tr></thead>" if names else ""
    return f'<div><div>{escape(heading)}</div><table style="{_STYLE}">{top}<tbody>{"".join(body)}</tbody></table></div>'
