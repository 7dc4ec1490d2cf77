"""The pictures of README and documentation: run this after a change of figures, `python docs/pictures.py`."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import numpy as np
from matplotlib import pyplot

import stopwise as sw
from stopwise.examples import load_example
from stopwise.views.comparison import compare

FOLDER = Path(__file__).parent / "_static"


def save(figure, name):
    """A small PNG."""
    figure.savefig(FOLDER / f"{name}.png", dpi=110)
    pyplot.close(figure)


def main():
    """Draw them all."""
    example = load_example("motorcycle")
    X, y = example.frame[["milliseconds"]], example.frame[example.target]
    model = sw.KernelGradientRegressor(rule=sw.rules.Critical(hilbert_radius="self")).fit(X, y)
    figure, axes = pyplot.subplots(1, 2, figsize=(9.2, 3.4), layout="constrained")
    sw.plot.fit(model, axes[0]).set(title="The fit", ylabel="acceleration")
    sw.plot.crossing(model, axes[1]).set(title="Why it stopped there")
    save(figure, "stop")

    auto = sw.KernelGradientRegressor().fit(X, y)
    for name, draw in (("path", sw.plot.path), ("spectrum", sw.plot.spectrum), ("residuals", sw.plot.residuals)):
        save(draw(auto).figure, name)
    save(sw.plot.compare(compare(X.to_numpy(), y.to_numpy(), holdout=0.25)).figure, "compare")

    figure, axes = pyplot.subplots(1, 3, figsize=(9.6, 3.1), layout="constrained", sharey=True)
    at = np.linspace(X.to_numpy().min(), X.to_numpy().max(), 300)[:, None]
    for ax, steps, title in zip(
        axes, (4, model.n_iter_, 3_000_000), ("too early", "the stop", "too late"), strict=True
    ):
        fixed = sw.KernelGradientRegressor(model.kernel_, rule=sw.rules.Fixed(iteration=steps)).fit(X.to_numpy(), y)
        ax.plot(X, y, ".", color="#7F7F7F", alpha=0.6, markersize=4)
        ax.plot(at, fixed.predict(at), color="#0072B2")
        ax.set(title=f"{title}: {steps:,} steps", xlabel="milliseconds")
        ax.spines[["top", "right"]].set_visible(False)
    save(figure, "three-stops")


if __name__ == "__main__":
    main()
