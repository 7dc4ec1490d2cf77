"""scikit-learn estimators: fit and predict."""

from stopwise.estimators.classifier import KernelGradientClassifier
from stopwise.estimators.regressors import KernelGradientRegressor, KernelRidgeRegressor

__all__ = ["KernelGradientClassifier", "KernelGradientRegressor", "KernelRidgeRegressor"]
