"""The figures of `stopwise reproduce`: nothing that is written on them is cut off."""

import pytest

from stopwise.experiments import Config, run
from stopwise.experiments.figure_files import _STYLE, FIGURES

pytest.importorskip("matplotlib").use("Agg")
NAMES = ["path", "rules", "ridge", "classes", "bounds", "boosting", "robustness"]


@pytest.fixture(scope="module")
def rows():
    return run(NAMES, Config(trials=2, sizes=(10, 20)), jobs=1).rows


@pytest.mark.parametrize("name", NAMES)
def test_every_word_of_a_figure_is_inside_of_it(name, rows):
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    with rc_context(_STYLE):
        for stem, figure in FIGURES[name]([row for row in rows if row.experiment == name]).items():
            FigureCanvasAgg(figure).draw()
            drawn, paper = figure.get_tightbbox(), figure.bbox_inches.padded(0.01)
            assert paper.x0 <= drawn.x0 <= drawn.x1 <= paper.x1, stem
            assert paper.y0 <= drawn.y0 <= drawn.y1 <= paper.y1, stem
