"""A table with text and gaps, fitted as it is.

Three kilns, a fifth of the temperatures lost: levels become features, gaps are filled in, and flagged where that helps.
"""

import numpy as np
from matplotlib import pyplot

import stopwise as sw
from stopwise.examples import load_example

frame = load_example("kiln").frame
frame.loc[frame.index % 5 == 0, "celsius"] = np.nan
X, y = frame.drop(columns="strength"), frame["strength"]
model = sw.KernelGradientRegressor("gaussian").fit(X, y)

levels = ["north", "old", "river"]
means = [model.predict(X.assign(kiln=level)).mean() for level in levels]
ends = np.array([model.predict_interval(X.assign(kiln=level), of="mean").mean(axis=0) for level in levels])
for level, mean in zip(levels, means, strict=True):
    print(f"{level:6} {mean:6.2f}")
pyplot.figure(figsize=(5.6, 3.8))
pyplot.errorbar(levels, means, yerr=[means - ends[:, 0], ends[:, 1] - means], fmt="o", color="#0072B2", capsize=4)
pyplot.ylabel("strength")
pyplot.show()
