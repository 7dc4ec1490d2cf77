"""Every stopping rule on one path, and cross-validated ridge beside them."""

from matplotlib import pyplot

import stopwise as sw
from stopwise.examples import load_example

example = load_example("motorcycle")
X, y = example.frame[["milliseconds"]].to_numpy(), example.frame[example.target].to_numpy()
found = sw.compare(X, y, kernel="matern32", holdout=0.25)
print("rule            freedom  leave-one-out  held-out")
for row in found.rows:
    print(f"{row.rule:14} {row.degrees_of_freedom:8.1f} {row.rmse_loo:14.2f} {row.rmse_holdout:9.2f}")
sw.plot.compare(found)
pyplot.show()
