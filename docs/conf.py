"""Sphinx: the pages in this folder, and the reference from the docstrings."""

import re

from stopwise import __version__

project = "stopwise"
author = "The stopwise developers"
project_copyright = author
version = release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["schemas"]
html_theme = "furo"
html_title = "stopwise"
html_static_path = ["_static"]
templates_path = []
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autosummary_generate = False
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
nitpicky = False


def plain_formulas(app, what, name, obj, options, lines):
    """Norm bars and names that end in an underscore are what they look like, outside of code."""
    for i, line in enumerate(lines):
        parts = line.split("`")
        parts[::2] = [re.sub(r"(?<=\w)_(?!\w)", r"\\_", part.replace("|", r"\|")) for part in parts[::2]]
        lines[i] = "`".join(parts)


def setup(app):
    """Before numpydoc reads the docstrings."""
    app.connect("autodoc-process-docstring", plain_formulas, priority=100)
