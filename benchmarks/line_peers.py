"""The peers of `line.py`: one covariate, each as fit(x, y, new) -> (mean, half width at 90 percent or None)."""

from __future__ import annotations

import os
import subprocess
import tempfile
import warnings
from collections.abc import Callable

import numpy as np

Answer = tuple[np.ndarray, np.ndarray | None]
NORMAL_90 = 1.6448536269514722


def scipy_spline(x: np.ndarray, y: np.ndarray, new: np.ndarray) -> Answer:
    from scipy.interpolate import make_smoothing_spline

    order = np.argsort(x)
    return make_smoothing_spline(x[order], y[order])(new), None


def csaps_spline(x: np.ndarray, y: np.ndarray, new: np.ndarray) -> Answer:
    from csaps import CubicSmoothingSpline

    order = np.argsort(x)
    return CubicSmoothingSpline(x[order], y[order])(new), None


def pygam(splines: int) -> Callable[[np.ndarray, np.ndarray, np.ndarray], Answer]:
    def fit(x: np.ndarray, y: np.ndarray, new: np.ndarray) -> Answer:
        from pygam import LinearGAM, s

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = LinearGAM(s(0, n_splines=splines)).gridsearch(x[:, None], y, progress=False)
            bounds = model.confidence_intervals(new[:, None], width=0.9)
        return model.predict(new[:, None]), (bounds[:, 1] - bounds[:, 0]) / 2

    return fit


def celerite(x: np.ndarray, y: np.ndarray, new: np.ndarray) -> Answer:
    """Matern 3/2 and white noise, all by maximum likelihood from a fair start."""
    import celerite2
    from celerite2 import terms
    from scipy.optimize import minimize

    order = np.argsort(x)
    x, y = x[order], y[order]

    def process(p: np.ndarray) -> celerite2.GaussianProcess:
        gp = celerite2.GaussianProcess(terms.Matern32Term(sigma=np.exp(p[0]), rho=np.exp(p[1])), mean=p[3])
        gp.compute(x, diag=np.full(len(x), np.exp(2 * p[2])), quiet=True)
        return gp

    def cost(p: np.ndarray) -> float:
        value = process(p).log_likelihood(y)
        return -value if np.isfinite(value) else 1e25

    spread, span = np.log(y.std()), float(x[-1] - x[0])
    start = [spread, np.log(0.2 * span), spread - 0.7, y.mean()]
    bounds = [
        (spread - 8, spread + 8),
        (np.log(1e-3 * span), np.log(1e2 * span)),
        (spread - 8, spread + 3),
        (None, None),
    ]
    found = minimize(cost, start, method="L-BFGS-B", bounds=bounds)
    mean, variance = process(found.x).predict(y, t=new, return_var=True) if len(x) <= 20_000 else (None, None)
    if mean is None:
        return process(found.x).predict(y, t=new), None
    return mean, NORMAL_90 * np.sqrt(np.maximum(variance, 0))


def lowess(x: np.ndarray, y: np.ndarray, new: np.ndarray) -> Answer:
    from statsmodels.nonparametric.smoothers_lowess import lowess as smooth

    fitted = smooth(y, x, delta=0.01 * np.ptp(x))
    return np.interp(new, fitted[:, 0], fitted[:, 1]), None


def r_spline(x: np.ndarray, y: np.ndarray, new: np.ndarray) -> Answer:
    """R's smooth.spline with its default (GCV)."""
    with tempfile.TemporaryDirectory() as folder:
        rows, places, out = (os.path.join(folder, name) for name in ("rows.csv", "places.csv", "out.csv"))
        np.savetxt(rows, np.c_[x, y], delimiter=",", header="x,y", comments="")
        np.savetxt(places, new)
        code = (
            f'd <- read.csv("{rows}"); z <- scan("{places}", quiet=TRUE); f <- smooth.spline(d$x, d$y); '
            f'write(format(predict(f, z)$y, digits=15), "{out}", ncolumns=1)'
        )
        subprocess.run(["Rscript", "-e", code], check=True, capture_output=True)
        return np.loadtxt(out), None


PEERS: dict[str, Callable[[np.ndarray, np.ndarray, np.ndarray], Answer]] = {
    "scipy make_smoothing_spline": scipy_spline,
    "csaps": csaps_spline,
    "pyGAM, 20 splines": pygam(20),
    "pyGAM, 60 splines": pygam(60),
    "celerite2, own optimiser": celerite,
    "statsmodels lowess": lowess,
    "R smooth.spline": r_spline,
}
