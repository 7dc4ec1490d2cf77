"""Fit a curve, ask why it stopped there, and look along the path."""

import numpy as np
from matplotlib import pyplot

import stopwise as sw
from stopwise.examples import load_example

example = load_example("motorcycle")
model = sw.KernelGradientRegressor().fit(example.frame[["milliseconds"]], example.frame[example.target])
print(sw.explain(model))

# Every other stop is there too, without running descent again.
for step_sum in np.geomspace(1, 100 * model.step_sum_, 5):
    freedom = float(model.path_.degrees_of_freedom(step_sum))
    print(f"step_sum {step_sum:12.1f}: {freedom:5.1f} degrees of freedom")
sw.plot.fit(model)
pyplot.show()
