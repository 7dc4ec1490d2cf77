"""Two classes, and how sure.

Probabilities are calibrated on left-out rows: nine of ten rows said to be 90 percent sure are right.
"""

import numpy as np
from matplotlib import pyplot
from sklearn.datasets import make_moons

import stopwise as sw

X, y = make_moons(150, noise=0.25, random_state=1)
model = sw.KernelGradientClassifier("gaussian").fit(X, np.where(y == 1, "moon", "sun"))
print(sw.explain(model))
print(model.calibration_)
(left, bottom), (right, top) = X.min(axis=0), X.max(axis=0)
across, up = np.linspace(left, right, 80), np.linspace(bottom, top, 60)
grid = np.stack(np.meshgrid(across, up), axis=-1).reshape(-1, 2)
pyplot.figure(figsize=(5.6, 3.8))
chance = model.predict_proba(grid)[:, 0].reshape(60, 80)
pyplot.contourf(across, up, chance, levels=np.linspace(0, 1, 11), cmap="PuOr", alpha=0.8)
pyplot.colorbar(label="probability of a moon")
pyplot.scatter(X[:, 0], X[:, 1], c=np.where(y == 1, "#4B2A7B", "#A3560B"), s=10)
pyplot.show()
