"""stopwise: kernel regression that knows when to stop."""

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
