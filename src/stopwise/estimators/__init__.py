"""scikit-learn estimators: fit and predict."""

from stopwise.estimators.regressors import KernelGradientRegressor, KernelRidgeRegressor

__all__ = ["KernelGradientRegressor", "KernelRidgeRegressor"]
