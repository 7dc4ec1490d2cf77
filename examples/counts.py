"""Counts: a Poisson loss keeps the mean above zero."""

import numpy as np
from matplotlib import pyplot

import stopwise as sw

rng = np.random.default_rng(6)
hour = np.sort(rng.uniform(0, 24, 150))
rate = 6 * np.exp(-(((hour - 8) / 2) ** 2)) + 9 * np.exp(-(((hour - 17.5) / 2.5) ** 2)) + 0.2
cars = rng.poisson(rate)
model = sw.KernelGradientRegressor("gaussian", loss="poisson").fit(hour[:, None], cars)
at = np.linspace(hour.min(), hour.max(), 300)[:, None]
print(sw.explain(model))
print(f"smallest mean {model.predict(at).min():.3f}: never below zero")
pyplot.figure(figsize=(5.6, 3.8))
pyplot.plot(hour, cars, ".", color="#7F7F7F", markersize=4)
pyplot.plot(at, model.predict(at), color="#0072B2", label="fit")
pyplot.plot(hour, rate, ":", color="#009E73", label="truth")
pyplot.xlabel("hour")
pyplot.legend(frameon=False)
pyplot.show()
