"""Intervals that widen where there are no data.

The inner band is where the curve is, the outer one where a new observation falls, both at 90 percent.
"""

import numpy as np
from matplotlib import pyplot

import stopwise as sw

rng = np.random.default_rng(2)
x = np.concatenate([rng.uniform(0, 3, 70), rng.uniform(5.5, 9, 60)])
y = np.sin(x) + 0.25 * rng.normal(size=x.size)
model = sw.KernelGradientRegressor("gaussian").fit(x[:, None], y)

at = np.linspace(x.min(), x.max(), 300)[:, None]
pyplot.figure(figsize=(5.6, 3.8))
for of, alpha in (("new", 0.15), ("mean", 0.3)):
    low, high = model.predict_interval(at, level=0.9, of=of).T
    pyplot.fill_between(at[:, 0], low, high, alpha=alpha, color="#0072B2", linewidth=0, label=of)
pyplot.plot(x, y, ".", color="#7F7F7F", markersize=4)
pyplot.plot(at, model.predict(at), color="#0072B2")
pyplot.legend(frameon=False)
width = np.diff(model.predict_interval([[1.5], [4.2]]), axis=1)[:, 0]
print(f"width of the interval among the data {width[0]:.2f}, in the gap {width[1]:.2f}")
pyplot.show()
