"""The paper's own setting: a first-order Sobolev kernel, known noise, step size 1/4."""

import numpy as np
from matplotlib import pyplot

import stopwise as sw

x = np.arange(1, 201) / 200
truth = np.abs(x - 0.5) - 0.5
y = truth + np.random.default_rng(7).normal(size=x.size)
kernel, steps = sw.kernels.Sobolev(order=1), sw.schedules.Constant(0.25)
model = sw.KernelGradientRegressor.as_published(kernel, noise_std=1.0, schedule=steps).fit(x[:, None], y)
radius = sw.critical_radius(model.eigenvalues_, 1.0)
print(f"critical radius {radius:.4f}, so step_sum {1 / radius**2:.2f}; stopped after {model.n_iter_} steps")
print(f"mean squared distance to the truth {np.mean((model.predict(x[:, None]) - truth) ** 2):.4f}")
sw.plot.crossing(model)
pyplot.show()
