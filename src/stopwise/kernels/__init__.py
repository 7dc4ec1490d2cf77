"""Kernels: what is k(x, z)?"""

import re

from stopwise._support.checks import did_you_mean
from stopwise.kernels.base import Constant, Kernel, Product, Rows, Scaled, Sum, as_matrix, common_origin, take_rows
from stopwise.kernels.foreign import FromCallable, FromSklearn, Precomputed
from stopwise.kernels.inner import Linear, Polynomial
from stopwise.kernels.radial import Gaussian, Laplace, Matern, Radial
from stopwise.kernels.separable import ProductLaplace, ProductMatern
from stopwise.kernels.sobolev import PeriodicSobolev, Sobolev
from stopwise.kernels.stationary import Stationary
from stopwise.kernels.warped import Warped

__all__ = [
    "Constant",
    "FromCallable",
    "FromSklearn",
    "Gaussian",
    "Kernel",
    "Laplace",
    "Linear",
    "Matern",
    "PeriodicSobolev",
    "Polynomial",
    "Precomputed",
    "Product",
    "ProductLaplace",
    "ProductMatern",
    "Radial",
    "Rows",
    "Scaled",
    "Sobolev",
    "Stationary",
    "Sum",
    "Warped",
    "as_kernel",
    "as_matrix",
    "common_origin",
    "take_rows",
]

_NAMED: dict[str, Kernel] = {
    "sobolev1": Sobolev(1),
    "sobolev2": Sobolev(2),
    "periodicsobolev1": PeriodicSobolev(1),
    "periodicsobolev2": PeriodicSobolev(2),
    "periodicsobolev3": PeriodicSobolev(3),
    "gaussian": Gaussian("auto"),
    "laplace": Laplace("auto"),
    "matern12": Matern("auto", 0.5),
    "matern32": Matern("auto", 1.5),
    "matern52": Matern("auto", 2.5),
    "productlaplace": ProductLaplace("auto"),
    "productmatern32": ProductMatern("auto"),
    "linear": Linear(),
    "precomputed": Precomputed(),
}
_ALSO = {"rbf": "gaussian", "laplacian": "laplace", "matern": "matern32", "poly": "polynomial3"}
"""Names that other libraries use."""


def as_kernel(kernel: object) -> Kernel:
    """A kernel from an instance, a name, a scikit-learn Gaussian-process kernel, or a callable k(X, Z)."""
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, str):
        kernel = _ALSO.get(kernel, kernel)
        if kernel in _NAMED:
            return _NAMED[kernel]
        degree = re.fullmatch(r"polynomial([1-9]\d*)", kernel)
        if degree:
            return Polynomial(int(degree[1]))
        if kernel == "auto":
            raise ValueError(
                '"auto" is no kernel: it lets an estimator choose one from the data (kernel="auto"); name one here, '
                'such as "gaussian"'
            )
        known = ", ".join(f'"{name}"' for name in _NAMED)
        names = f'the names are "auto", {known} and "polynomial<degree>"'
        raise ValueError(f"unknown kernel {kernel!r}: {names}{did_you_mean(kernel, ['auto', *_NAMED, *_ALSO])}")
    if isinstance(kernel, type):
        raise TypeError(f"kernel must be a kernel, not its class: write {kernel.__name__}(...)")
    if hasattr(kernel, "diag") and hasattr(kernel, "is_stationary"):
        return FromSklearn(kernel)
    if callable(kernel):
        return FromCallable(kernel)
    raise TypeError(
        f"kernel must be a stopwise kernel, a name, a scikit-learn kernel or a callable; got {type(kernel).__name__}"
    )
