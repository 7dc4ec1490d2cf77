"""Outliers: squares chase them, Huber's loss does not."""

import warnings

import numpy as np
from matplotlib import pyplot

import stopwise as sw

rng = np.random.default_rng(8)
x = np.sort(rng.uniform(0, 1, 90))
truth = np.cos(5 * x)
y = truth + 0.15 * rng.normal(size=90)
y[::11] += 6

pyplot.figure(figsize=(5.6, 3.8))
pyplot.plot(x, y, ".", color="#7F7F7F", markersize=4)
for loss, colour in (("squared", "#D55E00"), ("huber", "#0072B2")):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the squared fit warns of these rows
        model = sw.KernelGradientRegressor("gaussian", loss=loss).fit(x[:, None], y)
    print(f"{loss:8}: distance to the truth {np.sqrt(np.mean((model.predict(x[:, None]) - truth) ** 2)):.3f}")
    pyplot.plot(x, model.predict(x[:, None]), color=colour, label=loss)
pyplot.legend(frameon=False)
pyplot.show()
