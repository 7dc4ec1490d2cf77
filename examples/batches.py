"""Rows that arrive in batches: the same fit as all at once."""

import numpy as np
from matplotlib import pyplot

import stopwise as sw

rng = np.random.default_rng(16)
X = rng.uniform(0, 6, size=(1200, 1))
y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=1200)
model = sw.KernelGradientRegressor(sw.kernels.Gaussian(0.8), n_landmarks=40)
at = np.linspace(0.1, 5.9, 200)[:, None]
pyplot.figure(figsize=(5.6, 3.8))
for i, colour in enumerate(("#56B4E9", "#009E73", "#0072B2")):
    model.partial_fit(X[i * 400 : (i + 1) * 400], y[i * 400 : (i + 1) * 400])
    error = np.sqrt(np.mean((model.predict(at) - np.sin(at[:, 0])) ** 2))
    print(f"{(i + 1) * 400:,} rows: distance to the truth {error:.3f}")
    pyplot.plot(at, model.predict(at), color=colour, label=f"{(i + 1) * 400:,} rows")
pyplot.legend(frameon=False)
pyplot.show()
