"""Weights are relative precisions.

Half of the rows were measured four times as precisely, and say so: the fit listens to them.
"""

import numpy as np
from matplotlib import pyplot

import stopwise as sw

rng = np.random.default_rng(4)
x = np.sort(rng.uniform(0, 1, 120))
truth = np.sin(7 * x)
loud = rng.uniform(size=120) < 0.5
y = truth + np.where(loud, 1.0, 0.25) * rng.normal(size=120)
weights = np.where(loud, 1 / 1.0**2, 1 / 0.25**2)

pyplot.figure(figsize=(5.6, 3.8))
pyplot.scatter(x, y, s=np.where(loud, 8, 24), color="#7F7F7F", alpha=0.7)
for name, given, colour in (("no weights", None, "#D55E00"), ("weights", weights, "#0072B2")):
    model = sw.KernelGradientRegressor("gaussian").fit(x[:, None], y, sample_weight=given)
    error = np.sqrt(np.mean((model.predict(x[:, None]) - truth) ** 2))
    print(f"{name:10}: distance to the truth {error:.3f}")
    pyplot.plot(x, model.predict(x[:, None]), color=colour, label=name)
pyplot.plot(x, truth, ":", color="#009E73", label="truth")
pyplot.legend(frameon=False)
pyplot.show()
