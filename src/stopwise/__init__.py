"""stopwise: kernel regression that knows when to stop."""

from importlib import import_module
from typing import Any

from stopwise import filters, kernels, landmarks, noise, rules, schedules
from stopwise.complexity import (
    critical_radius,
    critical_step_sum,
    local_complexity,
    population_critical_radius,
)
from stopwise.estimators import KernelGradientRegressor, KernelRidgeRegressor
from stopwise.io import load, save
from stopwise.rules import Reason, Stop, stopping_time

__version__ = "0.1.0"

__all__ = [
    "KernelGradientRegressor",
    "KernelRidgeRegressor",
    "Reason",
    "Stop",
    "__version__",
    "critical_radius",
    "critical_step_sum",
    "filters",
    "kernels",
    "landmarks",
    "load",
    "local_complexity",
    "noise",
    "population_critical_radius",
    "rules",
    "save",
    "schedules",
    "stopping_time",
]


def __getattr__(name: str) -> Any:
    """`sw.plot`, brought in when it is first asked for: nothing else needs matplotlib."""
    if name == "plot":
        return import_module("stopwise.plot")
    raise AttributeError(f"module 'stopwise' has no attribute {name!r}")
