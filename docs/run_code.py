"""Pages that show what their code does: blocks are run while the page is read, output and pictures put under them."""

import contextlib
import io
import re
import warnings
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

BLOCK = re.compile(r"^```python\n(.*?)^```\n", re.S | re.M)
PICTURE = re.compile(r"^# picture: (.*)\n?", re.M)
FOLDER = "_generated"
INK = "#7d8590"
STYLE = {
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.titlecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.labelcolor": INK,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "savefig.transparent": True,
    "svg.fonttype": "none",
    "svg.hashsalt": "stopwise",
    "font.family": "sans-serif",
}
"""No background and one grey that reads on white and on black: a picture fits the page in light and in dark."""


@contextlib.contextmanager
def drawing():
    """Figures in the style of the pages, and none left behind; nobody is there to look at a window."""
    show, pyplot.show = pyplot.show, lambda: None
    try:
        with matplotlib.rc_context(STYLE), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        pyplot.show = show
        pyplot.close("all")


def run(code, names):
    """What a piece of code prints; it draws into pyplot's current figure."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "page", "exec"), names)
    return printed.getvalue()


def save(path):
    """The current figure as SVG; True where there is one."""
    if not pyplot.get_fignums():
        return False
    path.parent.mkdir(exist_ok=True)
    pyplot.gcf().savefig(path, format="svg", metadata={"Date": None})
    pyplot.close("all")
    return True


def with_results(text, source, name):
    """A page with the output and the picture of every block under it; "# picture: ..." is what the picture shows."""
    names, count = {"__name__": "page"}, 0

    def shown(block):
        nonlocal count
        code = block[1]
        printed = run(code, names)
        alt = PICTURE.search(code)
        out = f"```python\n{PICTURE.sub('', code)}```\n"
        out += f"\n```text\n{printed}```\n" if printed else ""
        file = Path(source) / FOLDER / f"{name}-{count + 1}.svg"
        if save(file):
            count += 1
            out += f"\n![{alt[1] if alt else name}]({FOLDER}/{file.name})\n"
        return out

    with drawing():
        return BLOCK.sub(shown, text)
