"""stopwise: kernel regression that knows when to stop."""

from importlib import import_module
from typing import Any

from stopwise import filters, kernels, landmarks, losses, noise, rules, schedules, tables
from stopwise.complexity import (
    critical_radius,
    critical_step_sum,
    local_complexity,
    population_critical_radius,
)
from stopwise.estimators import KernelGradientClassifier, KernelGradientRegressor, KernelRidgeRegressor
from stopwise.io import load, save
from stopwise.rules import Reason, Stop, stopping_time
from stopwise.rules.explanation import explain
from stopwise.views.comparison import compare

__version__ = "0.1.0"

__all__ = [
    "KernelGradientClassifier",
    "KernelGradientRegressor",
    "KernelRidgeRegressor",
    "Reason",
    "Stop",
    "__version__",
    "compare",
    "critical_radius",
    "critical_step_sum",
    "explain",
    "filters",
    "kernels",
    "landmarks",
    "load",
    "local_complexity",
    "losses",
    "noise",
    "population_critical_radius",
    "rules",
    "save",
    "schedules",
    "stopping_time",
    "tables",
]


_LAZY = {"plot": ("stopwise.plot", None), "report": ("stopwise.pages", "write")}


def __getattr__(name: str) -> Any:
    """`sw.plot` and `sw.report`, brought in when first asked for: nothing else needs matplotlib and jinja2."""
    if name not in _LAZY:
        raise AttributeError(f"module 'stopwise' has no attribute {name!r}")
    module, function = _LAZY[name]
    try:
        found = import_module(module)
    except ModuleNotFoundError as problem:
        needs = f'sw.{name} needs {problem.name}: pip install "stopwise[report]"'
        raise ModuleNotFoundError(needs, name=problem.name) from None
    return found if function is None else getattr(found, function)
