"""Formulas as pictures inside the page, drawn by matplotlib: no script, no network, the colour of the text."""

import io
import re

import matplotlib

matplotlib.use("Agg")
from matplotlib import font_manager, mathtext, rc_context
from sphinx.util.math import get_node_equation_number

_SIZE = 13
"""Points of the font; the page scales by em."""


def drawn(formula):
    """An SVG element that stands on the line of the text around it."""
    out = io.BytesIO()
    with rc_context({"svg.fonttype": "path", "mathtext.fontset": "cm", "svg.hashsalt": "stopwise"}):
        font = font_manager.FontProperties(size=_SIZE)
        depth = mathtext.math_to_image(f"${formula}$", out, prop=font, dpi=72, format="svg")
    text = out.getvalue().decode()
    text = text[text.index("<svg") :]
    wide, high = (float(value) / _SIZE for value in re.search(r'width="([\d.]+)pt" height="([\d.]+)pt"', text).groups())
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    text = text.replace("fill: #ffffff", "fill: none").replace("#000000", "currentColor")
    style = f"width:{wide:.2f}em;height:{high:.2f}em;vertical-align:{-depth / _SIZE:.2f}em"
    return re.sub(
        r"<svg[^>]*?viewBox",
        f'<svg class="formula" role="img" fill="currentColor" style="{style}" viewBox',
        text,
        count=1,
        flags=re.S,
    )


def _labelled(formula):
    escaped = formula.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    return drawn(formula).replace('role="img"', f'role="img" aria-label="{escaped}"', 1)


def inline(self, node):
    """A formula in a line."""
    from docutils import nodes

    self.body.append(_labelled(node.astext()))
    raise nodes.SkipNode


def block(self, node):
    """A formula of its own."""
    from docutils import nodes

    get_node_equation_number(self, node) if node.get("number") else None
    self.body.append(f'<p class="formula">{_labelled(node.astext())}</p>')
    raise nodes.SkipNode


def setup(app):
    """Take the place of MathJax, which asks the network."""
    app.add_html_math_renderer("mathtext", (inline, None), (block, None))
