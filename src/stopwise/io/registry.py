"""The types a model file may name, and those it never can.

A file names types; it never carries them. What it may name are the frozen dataclasses of this package, by room and
class ("kernels.Gaussian"), each rebuilt through its own constructor from its own fields.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import inspect
import pkgutil
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import stopwise
from stopwise.exceptions import CannotSave
from stopwise.kernels import FromCallable, FromSklearn, Kernel, Precomputed
from stopwise.rules import Reason
from stopwise.spectrum import Basis

_INSTEAD = "fit with a sw.kernels kernel (they combine by + and *), or keep the Python object with joblib.dump"
REFUSED: dict[type[Any], str] = {
    FromCallable: f"a callable kernel is code, and a model file holds none: {_INSTEAD}",
    FromSklearn: f"a scikit-learn kernel is an object of another library that a model file cannot rebuild: {_INSTEAD}",
    Precomputed: (
        "a precomputed kernel is known by its matrix alone, so the kernel function that predictions need cannot be "
        "saved: keep dual_coef_ and intercept_ yourself (predict is k(new, training) @ dual_coef_ + intercept_), or "
        "fit with a sw.kernels kernel"
    ),
}
STAND_INS: dict[str, Callable[[Any], Any]] = {
    # Vectors on a GPU come home to be saved.
    "operators.DeviceBasis": lambda basis: Basis(np.asarray(basis.rows), basis.rotation),
}
_ELSEWHERE = tuple(f"stopwise.{name}" for name in ("cli", "experiments", "report", "plot", "__main__"))
ENUMS: dict[str, type[Reason]] = {"rules.Reason": Reason}


def type_name(cls: type[Any]) -> str:
    """A class's name in a file: its room and its own name."""
    return f"{cls.__module__.split('.')[1]}.{cls.__qualname__}"


@cache
def _types_in(n_modules: int) -> dict[str, type[Any]]:
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("stopwise.")]
    classes = [cls for module in modules for cls in vars(module).values() if inspect.isclass(cls)]
    ours = [cls for cls in classes if cls.__module__.startswith("stopwise.") and dataclasses.is_dataclass(cls)]
    return {type_name(cls): cls for cls in ours if not inspect.isabstract(cls) and cls not in REFUSED}


def known_types() -> dict[str, type[Any]]:
    """Every type a file may name, by its name there, of the modules imported so far."""
    return _types_in(len(sys.modules))


def find_type(name: str) -> type[Any]:
    """The type of that name; rooms that are only imported when needed (solvers) are looked into last."""
    if name not in known_types():
        for module in pkgutil.walk_packages(stopwise.__path__, "stopwise."):
            if not module.name.startswith(_ELSEWHERE):
                with contextlib.suppress(ImportError):
                    importlib.import_module(module.name)
    if name not in known_types():
        raise ValueError(f"the file names the type {name!r}, which this version of stopwise does not have")
    return known_types()[name]


def check_kernel(kernel: Any) -> None:
    """Raise CannotSave, saying what and why, if a part of this kernel cannot be written down."""
    if type(kernel) in REFUSED:
        raise CannotSave(f"this model cannot be saved: {REFUSED[type(kernel)]}")
    if dataclasses.is_dataclass(kernel):
        for field in dataclasses.fields(kernel):
            part = getattr(kernel, field.name)
            if isinstance(part, Kernel):
                check_kernel(part)


def build(cls: type[Any], fields: dict[str, Any]) -> Any:
    """An instance from its fields, through the constructor and so through its checks."""
    expected = [field.name for field in dataclasses.fields(cls)]
    if sorted(expected) != sorted(fields):
        raise ValueError(f"{type_name(cls)} has the fields {expected}, the file gives {sorted(fields)}")
    if cls.__dataclass_params__.init:
        return cls(**fields)
    # Constructors written by hand take the fields in the same order under friendlier names.
    return cls(*(fields[name] for name in expected))
