"""The peers of `cpu.py`, each as an estimator with `fit` and `predict`."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

PENALTIES = np.geomspace(1e-4, 1e2, 10)


def grid_search(gamma: float) -> Any:
    """Five folds, ten penalties."""
    return GridSearchCV(KernelRidge(kernel="rbf", gamma=gamma), {"alpha": PENALTIES}, cv=5)


def landmarks(gamma: float) -> Any:
    return make_pipeline(Nystroem(gamma=gamma, n_components=500, random_state=0), RidgeCV(PENALTIES))


def gaussian_process(scale: float) -> Any:
    kernel = ConstantKernel(1.0) * RBF(scale) + WhiteKernel(0.1)
    return GaussianProcessRegressor(kernel, normalize_y=True)


class Himalaya:
    """himalaya's ridge with its own cross-validation, on the Gaussian kernel's matrix."""

    def __init__(self, gamma: float) -> None:
        self.gamma = gamma

    def fit(self, x: np.ndarray, y: np.ndarray) -> Himalaya:
        from himalaya.kernel_ridge import KernelRidgeCV

        self.middle = y.mean()
        self.model = KernelRidgeCV(alphas=PENALTIES, kernel="rbf", kernel_params={"gamma": self.gamma}, cv=5)
        self.model.fit(x, (y - self.middle)[:, None])
        return self

    def predict(self, x: np.ndarray) -> np.ndarray:
        return self.model.predict(x)[:, 0] + self.middle


class Spline:
    """scipy's smoothing spline with its own choice of penalty."""

    def fit(self, x: np.ndarray, y: np.ndarray) -> Spline:
        from scipy.interpolate import make_smoothing_spline

        self.spline = make_smoothing_spline(x[:, 0], y)
        return self

    def predict(self, x: np.ndarray) -> np.ndarray:
        return self.spline(x[:, 0])


class Csaps:
    """csaps with the smoothing it computes itself."""

    def fit(self, x: np.ndarray, y: np.ndarray) -> Csaps:
        from csaps import CubicSmoothingSpline

        self.spline = CubicSmoothingSpline(x[:, 0], y)
        return self

    def predict(self, x: np.ndarray) -> np.ndarray:
        order = np.argsort(x[:, 0])
        out = np.empty(len(x))
        out[order] = self.spline(x[order, 0])
        return out


class PyGam:
    """pyGAM with its default grid of penalties."""

    def fit(self, x: np.ndarray, y: np.ndarray) -> PyGam:
        from pygam import LinearGAM, s

        self.model = LinearGAM(s(0, n_splines=60)).gridsearch(x, y, progress=False)
        return self

    def predict(self, x: np.ndarray) -> np.ndarray:
        return self.model.predict(x)
