"""The types a model file may name: an explicit table, so that a class can move house without breaking a file.

A file names types; it never carries them. Each name stands for one frozen dataclass of this package, rebuilt through
its own constructor from its own fields. Nothing outside the table can be written or read.
"""

import dataclasses
from typing import Any

from stopwise import filters, kernels, landmarks, losses, noise, path, problem, rules, schedules, spectrum
from stopwise.engine.landmarks.decomposition import Spread
from stopwise.engine.landmarks.features import FeatureRows, Landmarks, Moments, Stream
from stopwise.engine.landmarks.row_sample import RowSample
from stopwise.estimators.calibration import Calibration
from stopwise.estimators.fitted import Fitted
from stopwise.estimators.intake import Intake
from stopwise.exceptions import CannotSave
from stopwise.io.validate import check_fields
from stopwise.kernels import FromCallable, FromSklearn, Kernel, Precomputed
from stopwise.kernels.base import Constant, Product, Scaled, Sum, parts
from stopwise.rules import Certainty, Evidence, Reason
from stopwise.selection.result import Selection
from stopwise.tables.encodings import Categories, Dates, Numbers
from stopwise.tables.recipe import FittedTable, Recipe

_INSTEAD = "fit with a sw.kernels kernel (they combine by + and *), or keep the Python object with joblib.dump"
REFUSED: dict[type[Any], str] = {
    FromCallable: f"a callable kernel is code, and a model file holds none: {_INSTEAD} (not of a lambda)",
    FromSklearn: f"a scikit-learn kernel is an object of another library that a model file cannot rebuild: {_INSTEAD}",
    Precomputed: (
        "a precomputed kernel is known by its matrix alone, so the kernel function that predictions need cannot be "
        "saved: keep dual_coef_ and intercept_ yourself (predict is k(new, training) @ dual_coef_ + intercept_), or "
        "fit with a sw.kernels kernel"
    ),
}
ENUMS: dict[str, type[Reason]] = {"rules.Reason": Reason}

_ROOMS: dict[str, tuple[type[Any], ...]] = {
    "kernels": (
        *(kernels.Gaussian, kernels.Laplace, kernels.Matern, kernels.Linear, kernels.Polynomial),
        *(kernels.ProductLaplace, kernels.ProductMatern, kernels.Warped),
        *(kernels.Sobolev, kernels.PeriodicSobolev, Constant, Scaled, Sum, Product),
    ),
    "losses": (
        *(losses.Squared, losses.Huber, losses.Quantile, losses.Poisson),
        *(losses.Logistic, losses.Exponential, losses.Softmax, Calibration),
    ),
    "schedules": (schedules.Constant, schedules.PolynomialDecay, schedules.Sequence),
    "filters": (filters.GradientDescent, filters.GradientFlow, filters.Ridge, filters.CutOff, filters.NuMethod),
    "noise": (
        *(noise.Known, noise.HallMarron, noise.Rice, noise.GasserSrokaJennen, noise.NearestNeighbour),
        *(noise.SpectralTail, noise.ResidualGCV, noise.Evidence, noise.AR1, noise.LeftOutTogether),
    ),
    "rules": (
        *(rules.Critical, rules.Minimax, rules.SURE, rules.GCV, rules.LeaveOneOut, rules.MarginalLikelihood),
        *(rules.Prudent, rules.Discrepancy, rules.HoldOut, rules.LeaveBlockOut, rules.Oracle, rules.Fixed),
        *(rules.Stop, Evidence, Certainty),
    ),
    "spectrum": (spectrum.Basis, spectrum.Density, spectrum.Spectrum),
    "path": (path.Path,),
    "problem": (problem.Trend,),
    "landmarks": (landmarks.Uniform, landmarks.Leverage, Landmarks, Moments, RowSample, FeatureRows, Spread, Stream),
    "selection": (Selection,),
    "estimators": (Intake, Fitted),
    "tables": (FittedTable, Recipe, Numbers, Dates, Categories),
}
TYPES: dict[str, type[Any]] = {f"{room}.{cls.__name__}": cls for room, types in _ROOMS.items() for cls in types}
"""Every type a file may name, by its name there."""
ALIASES = {
    "estimators.Selection": "selection.Selection",
    "estimators.Stream": "landmarks.Stream",
    "nystrom.Spread": "landmarks.Spread",
    "operators.FeatureRows": "landmarks.FeatureRows",
    "operators.Landmarks": "landmarks.Landmarks",
    "operators.Moments": "landmarks.Moments",
}
"""Names that earlier versions wrote, and what they are called now."""
_NAMES = {cls: name for name, cls in TYPES.items()}


def type_name(cls: type[Any]) -> str | None:
    """A class's name in a file; None for what a file cannot hold."""
    return _NAMES.get(cls)


def find_type(name: str) -> type[Any]:
    """The type of that name, by today's name or an earlier one."""
    found = TYPES.get(ALIASES.get(name, name))
    if found is None:
        raise ValueError(f"the file names the type {name!r}, which this version of stopwise does not have")
    return found


def check_kernel(kernel: Kernel) -> None:
    """Raise CannotSave, saying what and why, if a part of this kernel cannot be written down."""
    for part in parts(kernel):
        if type(part) in REFUSED:
            raise CannotSave(f"this model cannot be saved: {REFUSED[type(part)]}")


def _stop_of_first_schema(fields: dict[str, Any]) -> dict[str, Any]:
    """Evidence and certainty of a stop that kept both in one dictionary."""
    details = dict(fields["details"])
    if "bracket" in details or "products" in details:
        details["estimate_residual"] = details.pop("residual", None)
    known = {kind: {each.name for each in dataclasses.fields(kind)} for kind in (Evidence, Certainty)}
    evidence = {name: value for name, value in details.items() if name in known[Evidence]}
    certain = {name: value for name, value in details.items() if name in known[Certainty]}
    certainty = Certainty("unknown", **certain) if certain else None
    return {
        **{name: fields[name] for name in ("iteration", "step_sum", "reason")},
        "evidence": Evidence(**evidence),
        "certainty": certainty,
    }


def build(cls: type[Any], fields: dict[str, Any]) -> Any:
    """An instance from its fields, through the constructor and so through its checks.

    A field that a later version added, and that the file does not have, takes its default.
    """
    known = dataclasses.fields(cls)
    if cls is rules.Stop and "details" in fields:
        fields = _stop_of_first_schema(fields)
    if cls is Selection and "notes" in fields:
        fields = {**{name: fields[name] for name in ("tried", "features", "reason")}, **fields["notes"]}
    if cls is Moments:
        fields = {"n_observations": fields.get("weight"), **fields}  # before weights had no unit, they were the same
    needed = {f.name for f in known if f.default is f.default_factory is dataclasses.MISSING}
    if not needed <= set(fields) <= {f.name for f in known}:
        name = type_name(cls) or cls.__name__
        raise ValueError(f"{name} has the fields {[f.name for f in known]}, the file gives {sorted(fields)}")
    check_fields(cls, fields)
    if cls.__dataclass_params__.init:
        return cls(**fields)
    # Constructors written by hand take the fields in the same order under friendlier names.
    return cls(*(fields[f.name] for f in known))
