"""Sphinx: the pages in this folder, and the reference from the docstrings."""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import gallery
import pictures
import run_code

from stopwise import __version__

project = "stopwise"
author = "The stopwise developers"
project_copyright = author
version = release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc", "formulas"]
html_math_renderer = "mathtext"
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["schemas"]
html_theme = "furo"
html_title = "stopwise"
html_static_path = ["_static"]
html_css_files = ["page.css"]
html_show_sourcelink = False
html_copy_source = False
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


RUN = ("index", "tutorial", "why", "choosing")
"""Pages whose code is run while they are read: what it prints and draws is put under it."""


def draw(app):
    """Before any page is read."""
    gallery.write(app.srcdir)
    pictures.write(app.srcdir)


def run_page(app, name, source):
    """Put results under the code of a page."""
    if name in RUN:
        source[0] = run_code.with_results(source[0], app.srcdir, name)


def setup(app):
    """Before numpydoc reads the docstrings."""
    app.connect("autodoc-process-docstring", plain_formulas, priority=100)
    app.connect("builder-inited", draw)
    app.connect("source-read", run_page)
