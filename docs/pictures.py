"""The pictures beside the text, all of one fit: that of `make demo`. `python docs/pictures.py` draws README's again."""

from pathlib import Path

import numpy as np
from run_code import FOLDER, drawing, save

from matplotlib import pyplot  # isort: skip

import stopwise as sw
from stopwise.examples import load_example

README = Path(__file__).parent / "_static" / "stop.png"


def demo():
    """The fit of `make demo`."""
    example = load_example("motorcycle")
    X, y = example.frame[["milliseconds"]], example.frame[example.target]
    return sw.KernelGradientRegressor().fit(X, y), X, y


def three_stops(model, X, y):
    """The same descent stopped too early, where the rule says, and too late."""
    _, axes = pyplot.subplots(1, 3, figsize=(9.6, 3.1), layout="constrained", sharey=True)
    at = np.linspace(X.to_numpy().min(), X.to_numpy().max(), 300)[:, None]
    stops = ((4, "too early"), (model.n_iter_, "the stop"), (3_000_000, "too late"))
    for ax, (steps, title) in zip(axes, stops, strict=True):
        fixed = sw.KernelGradientRegressor(model.kernel_, rule=sw.rules.Fixed(iteration=steps)).fit(X.to_numpy(), y)
        ax.plot(X, y, ".", color="#7F7F7F", alpha=0.6, markersize=4)
        ax.plot(at, fixed.predict(at), color="#0072B2")
        ax.set(title=f"{title}: {steps:,} steps", xlabel="milliseconds")
        ax.spines[["top", "right"]].set_visible(False)


def write(source):
    """Those of the pages, under docs/_generated."""
    model, X, y = demo()
    drawn = {
        "three-stops": lambda: three_stops(model, X, y),
        "spectrum": lambda: sw.plot.spectrum(model),
        "path": lambda: sw.plot.path(model),
    }
    for name, draw in drawn.items():
        with drawing():
            draw()
            save(Path(source) / FOLDER / f"{name}.svg")


def write_readme():
    """README's: the fit, and the error on left-out rows that stopped it."""
    model, _, _ = demo()
    figure, axes = pyplot.subplots(1, 2, figsize=(9.2, 3.4), layout="constrained")
    sw.plot.fit(model, axes[0])
    sw.plot.path(model, axes[1]).set(title="Why it stopped there")
    axes[1].legend(frameon=False, fontsize="small", loc="upper right")
    figure.savefig(README, dpi=110)
    pyplot.close(figure)


if __name__ == "__main__":
    write_readme()
