"""The opponents: each takes training rows, responses and new rows, and answers with predictions.

All kernel methods see standardised covariates and a centred response. Cross-validation over penalties uses one
eigendecomposition per fold and bandwidth, which gives what `GridSearchCV(KernelRidge)` gives (`check_grid_search`
compares them) in a fraction of its time; its CPU time is measured on the real thing, `grid_search`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import product

import numpy as np
import scipy.linalg
from scipy.spatial.distance import cdist, pdist
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import stopwise as sw

Method = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
PENALTIES = np.logspace(-6, 2, 17)
PROFILES = {
    "gaussian": lambda r: np.exp(-0.5 * r**2),
    "matern32": lambda r: (1 + np.sqrt(3) * r) * np.exp(-np.sqrt(3) * r),
    "laplace": lambda r: np.exp(-r),
}
PRODUCTS = {"product-matern32": PROFILES["matern32"], "product-laplace": PROFILES["laplace"]}


def kernel_matrix(kernel: str, rows: np.ndarray, others: np.ndarray, scale: float) -> np.ndarray:
    """A kernel of the distance, or the product over features of one of each feature's difference."""
    if kernel in PROFILES:
        return PROFILES[kernel](cdist(rows, others) / scale)
    out = np.ones((len(rows), len(others)))
    for left, right in zip(rows.T, others.T, strict=True):
        out *= PRODUCTS[kernel](np.abs(left[:, None] - right[None, :]) / scale)
    return out


def standardise(train: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    scaler = StandardScaler().fit(train)
    return scaler.transform(train), scaler.transform(new)


def bandwidths(rows: np.ndarray) -> np.ndarray:
    """Median distance x 2^k, k = -3..6; -7..4 with at most three covariates."""
    distances = pdist(rows)
    exponents = np.arange(-7, 5) if rows.shape[1] <= 3 else np.arange(-3, 7)
    return np.median(distances[distances > 0]) * 2.0**exponents


def _folds(n_rows: int) -> list[tuple[np.ndarray, np.ndarray]]:
    return list(KFold(5, shuffle=True, random_state=0).split(np.zeros(n_rows)))


def _cv_errors(gram: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Squared error over five folds at each penalty."""
    total = np.zeros(len(PENALTIES))
    for train, test in _folds(len(y)):
        values, vectors = scipy.linalg.eigh(gram[np.ix_(train, train)], driver="evd")
        inverse = 1 / (np.maximum(values, 0)[:, None] + PENALTIES)
        duals = vectors @ ((vectors.T @ y[train])[:, None] * inverse)
        total += ((gram[np.ix_(test, train)] @ duals - y[test][:, None]) ** 2).mean(axis=0)
    return total / 5


def cross_validated(kernels: list[str], search_bandwidth: bool = True) -> Method:
    """Kernel ridge with penalty, bandwidth and kernel of the smallest five-fold error."""

    def method(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
        X, new = standardise(X, new)
        mean = y.mean()
        scales = bandwidths(X) if search_bandwidth else [np.median(pdist(X))]
        best = (np.inf,)
        for kernel in kernels:
            for scale in scales:
                errors = _cv_errors(kernel_matrix(kernel, X, X, scale), y - mean)
                at = int(np.argmin(errors))
                if errors[at] < best[0]:
                    best = (errors[at], kernel, scale, PENALTIES[at])
        _, kernel, scale, penalty = best
        gram = kernel_matrix(kernel, X, X, scale) + penalty * np.eye(len(y))
        dual = scipy.linalg.solve(gram, y - mean, assume_a="pos")
        return mean + kernel_matrix(kernel, new, X, scale) @ dual

    return method


def grid_search(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
    """scikit-learn's own grid search over (penalty, bandwidth) of a Gaussian kernel: for its time, and as a check."""
    X, new = standardise(X, new)
    grid = {"alpha": PENALTIES, "gamma": 1 / (2 * bandwidths(X) ** 2)}
    folds = KFold(5, shuffle=True, random_state=0)
    search = GridSearchCV(KernelRidge(kernel="rbf"), grid, cv=folds, scoring="neg_mean_squared_error")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nearly singular matrices at the smallest penalties
        return y.mean() + search.fit(X, y - y.mean()).predict(new)


def gaussian_process(kind: str, *, per_feature: bool = False) -> Method:
    """scikit-learn's Gaussian process: marginal likelihood over signal, length scale(s) and noise."""

    def method(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
        X, new = standardise(X, new)
        start = np.full(X.shape[1] if per_feature else 1, np.sqrt(X.shape[1]))
        start = start if per_feature else float(start[0])
        bounds = (1e-3, 1e5)
        radial = RBF(start, bounds) if kind == "rbf" else Matern(start, bounds, nu=1.5)
        kernel = ConstantKernel(1.0, (1e-4, 1e6)) * radial + WhiteKernel(0.1, (1e-10, 10.0))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a length scale at its bound
            model = GaussianProcessRegressor(kernel, normalize_y=True, random_state=0)
            return model.fit(X, y).predict(new)

    return method


def nystroem(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
    X, new = standardise(X, new)
    gamma = 1 / (2 * np.median(pdist(X)) ** 2)
    features = Nystroem(gamma=gamma, n_components=min(300, len(X)), random_state=0)
    model = make_pipeline(features, RidgeCV(PENALTIES))
    return model.fit(X, y).predict(new)


def linear_ridge(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Ridge regression on the features themselves, its penalty by leave-one-out."""
    X, new = standardise(X, new)
    return RidgeCV(np.logspace(-4, 6, 41)).fit(X, y).predict(new)


def lightgbm(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
    from lightgbm import LGBMRegressor

    return LGBMRegressor(random_state=0, verbosity=-1, n_jobs=1).fit(X, y).predict(new)


def recursive_features(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
    """xRFM, a kernel machine with a learned metric: 18 settings tuned on a fifth of the rows, which it keeps aside."""
    import torch
    from xrfm import xRFM

    X, new = (rows.astype(np.float32) for rows in standardise(X, new))
    mean, spread = y.mean(), y.std() or 1.0
    target = ((y - mean) / spread)[:, None].astype(np.float32)
    order = np.random.default_rng(0).permutation(len(y))
    held, kept = order[: max(len(y) // 5, 2)], order[max(len(y) // 5, 2) :]
    best = (np.inf, np.zeros(len(new)))
    for kernel, bandwidth, penalty in product(["l2", "l1"], [3.0, 10.0, 30.0], [1e-4, 1e-2, 1.0]):
        shape = {"kernel": kernel, "bandwidth": bandwidth, "exponent": 1.0, "diag": kernel == "l1"}
        settings = {
            "model": {**shape, "bandwidth_mode": "constant"},
            "fit": {"reg": penalty, "iters": 3, "verbose": False},
        }
        model = xRFM(settings, device=torch.device("cpu"), tuning_metric="mse", verbose=False, random_state=0)
        try:
            model.fit(X[kept], target[kept], X[held], target[held])
            error = float(np.mean((np.ravel(model.predict(X[held])) - target[held, 0]) ** 2))
        except (RuntimeError, ValueError):  # singular at the smallest penalties
            continue
        if error < best[0]:
            best = (error, np.ravel(model.predict(new)))
    return mean + spread * best[1]


def random_forest(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
    return RandomForestRegressor(random_state=0, n_jobs=1).fit(X, y).predict(new)


def hold_out(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Gradient descent on a Gaussian kernel at the median distance, stopped by a fifth held out."""
    X, new = standardise(X, new)
    kernel = sw.kernels.Gaussian(float(np.median(pdist(X))))
    model = sw.KernelGradientRegressor(kernel, rule=sw.rules.HoldOut(0.2), noise_std="gcv")
    return model.fit(X, y).predict(new)


def as_published(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
    """The paper's rule on the same kernel: radius 1, constant 2e, noise by Hall and Marron; y standardised."""
    X, new = standardise(X, new)
    kernel = sw.kernels.Gaussian(float(np.median(pdist(X))))
    mean, spread = y.mean(), y.std()
    noise = "auto"
    try:
        sw.noise.HallMarron().estimate(X, (y - mean) / spread)
    except ValueError:  # no degrees of freedom left in many dimensions
        noise = "nearest-neighbour"
    model = sw.KernelGradientRegressor.as_published(kernel, noise_std=noise)
    return mean + spread * model.fit(X, (y - mean) / spread).predict(new)


RIVALS: dict[str, Method] = {
    "cv-penalty": cross_validated(["gaussian"], search_bandwidth=False),
    "cv-gaussian": cross_validated(["gaussian"]),
    "cv-kernels": cross_validated([*PROFILES, *PRODUCTS]),
    "ridge-cv": linear_ridge,
    "gp-rbf": gaussian_process("rbf"),
    "gp-matern32": gaussian_process("matern32"),
    "nystroem": nystroem,
    "lightgbm": lightgbm,
    "forest": random_forest,
    "hold-out": hold_out,
    "published": as_published,
}
