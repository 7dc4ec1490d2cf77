"""A trend and a season: kernels add up.

A periodic kernel for the year, a smooth one for the slow drift.
"""

import numpy as np
from matplotlib import pyplot

import stopwise as sw

rng = np.random.default_rng(12)
t = np.sort(rng.uniform(0, 4, 160))
y = 0.4 * t**1.5 + np.sin(2 * np.pi * t) + 0.3 * np.cos(4 * np.pi * t) + 0.25 * rng.normal(size=160)
year = sw.kernels.PeriodicSobolev(order=2)
kernel = lambda a, b: year(a % 1.0, b % 1.0) + 0.3 * sw.kernels.Gaussian(2.0)(a, b)  # noqa: E731
model = sw.KernelGradientRegressor(kernel).fit(t[:, None], y)
print(sw.explain(model))
at = np.linspace(0, 4, 400)[:, None]
pyplot.figure(figsize=(5.6, 3.8))
pyplot.plot(t, y, ".", color="#7F7F7F", markersize=4)
pyplot.plot(at, model.predict(at), color="#0072B2")
pyplot.xlabel("years")
pyplot.show()
