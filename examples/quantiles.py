"""Quantiles: where a tenth, a half and nine tenths of the observations lie below."""

import numpy as np
from matplotlib import pyplot

import stopwise as sw

rng = np.random.default_rng(10)
age = np.sort(rng.uniform(0, 10, 100))
height = 60 + 30 * np.sqrt(age) + (1 + age) * rng.exponential(size=100)
pyplot.figure(figsize=(5.6, 3.8))
pyplot.plot(age, height, ".", color="#7F7F7F", markersize=4)
for quantile, colour in ((0.1, "#56B4E9"), (0.5, "#0072B2"), (0.9, "#D55E00")):
    model = sw.KernelGradientRegressor("gaussian", loss="quantile", quantile=quantile).fit(age[:, None], height)
    below = np.mean(height <= model.predict(age[:, None]))
    print(f"quantile {quantile}: {below:.0%} of the observations are below")
    pyplot.plot(age, model.predict(age[:, None]), color=colour, label=f"{quantile:.0%}")
pyplot.legend(frameon=False)
pyplot.show()
