"""Twenty thousand rows of one covariate, exactly.

On a line a Sobolev kernel needs no matrix: time and memory grow with the number of rows.
"""

import numpy as np
from matplotlib import pyplot

import stopwise as sw

rng = np.random.default_rng(14)
x = np.sort(rng.uniform(0, 1, 20_000))
y = np.sin(30 * x) * x + rng.normal(size=x.size)
model = sw.KernelGradientRegressor("sobolev2").fit(x[:, None], y)
freedom = float(model.path_.degrees_of_freedom())
print(f"solver {model.solver_}, {freedom:.0f} degrees of freedom")
at = np.linspace(0, 1, 400)[:, None]
pyplot.figure(figsize=(5.6, 3.8))
pyplot.plot(x[::100], y[::100], ".", color="#7F7F7F", markersize=2, label="every 100th row")
pyplot.plot(at, model.predict(at), color="#0072B2", label="fit")
pyplot.plot(at, np.sin(30 * at) * at, ":", color="#009E73", label="truth")
pyplot.legend(frameon=False)
pyplot.show()
