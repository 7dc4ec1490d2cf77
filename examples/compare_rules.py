"""Every stopping rule on one path, and cross-validated ridge beside them."""

from stopwise.examples import load_example
from stopwise.views.comparison import compare

example = load_example("motorcycle")
X, y = example.frame[["milliseconds"]].to_numpy(), example.frame[example.target].to_numpy()
print("rule            freedom  leave-one-out  held-out")
for row in compare(X, y, holdout=0.25).rows:
    print(f"{row.rule:14} {row.degrees_of_freedom:8.1f} {row.rmse_loo:14.2f} {row.rmse_holdout:9.2f}")
