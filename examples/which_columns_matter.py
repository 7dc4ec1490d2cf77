"""Which columns matter: diabetes in 442 people, ten measurements.

A column matters as much as left-out rows are predicted worse when its values are shuffled among them.
"""

from matplotlib import pyplot
from sklearn.datasets import load_diabetes
from sklearn.inspection import permutation_importance
from sklearn.model_selection import train_test_split

import stopwise as sw

data = load_diabetes(as_frame=True)
X, X_new, y, y_new = train_test_split(data.data, data.target, random_state=0)
model = sw.KernelGradientRegressor("matern32").fit(X, y)
found = permutation_importance(model, X_new, y_new, n_repeats=5, random_state=0)
print(f"R^2 on {len(X_new)} rows that were not fitted: {model.score(X_new, y_new):.2f}")
order = found.importances_mean.argsort()
pyplot.figure(figsize=(5.6, 3.8))
pyplot.barh(
    X.columns[order],
    found.importances_mean[order],
    xerr=found.importances_std[order],
    color="#0072B2",
    ecolor="#7F7F7F",
)
pyplot.xlabel("fall of R^2 when shuffled")
pyplot.show()
