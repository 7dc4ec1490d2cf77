"""A model in a file: exact, safe to open, and usable from the command line."""

import tempfile
from pathlib import Path

import numpy as np
from matplotlib import pyplot

import stopwise as sw

rng = np.random.default_rng(3)
X = rng.uniform(-1, 1, size=(80, 2))
y = np.sin(3 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=80)
kernel = sw.kernels.Gaussian(0.5) + 0.1 * sw.kernels.Linear()
model = sw.KernelRidgeRegressor(kernel, rule="gcv").fit(X, y)
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "waves.stopwise"
    sw.save(model, path)
    again = sw.load(path)
    print(
        f"{path.stat().st_size:,} bytes; the same to the last bit: {np.array_equal(model.predict(X), again.predict(X))}"
    )

try:
    sw.save(sw.KernelRidgeRegressor(lambda left, right: left @ right.T).fit(X, y), "never.stopwise")
except TypeError as problem:
    print(problem)

# What the loaded model says over the square.
(left, bottom), (right, top) = X.min(axis=0), X.max(axis=0)
across, up = np.linspace(left, right, 60), np.linspace(bottom, top, 60)
grid = np.stack(np.meshgrid(across, up), axis=-1).reshape(-1, 2)
pyplot.figure(figsize=(5.6, 3.8))
pyplot.contourf(across, up, again.predict(grid).reshape(60, 60), levels=15, cmap="PuOr")
pyplot.colorbar()
pyplot.plot(X[:, 0], X[:, 1], ".", color="#7F7F7F")
pyplot.show()
