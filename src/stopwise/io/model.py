"""Models to files and back: what is written, in which schema, and how older ones are brought up to date."""

import os
import platform
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from importlib import metadata
from typing import Any, cast

from stopwise._support.arrays import Array
from stopwise.estimators import KernelGradientClassifier, KernelGradientRegressor, KernelRidgeRegressor
from stopwise.estimators.fitted import Fitted, fitted_of
from stopwise.estimators.loss_fit import LossFitted, loss_of
from stopwise.estimators.prediction.response_groups import ResponseGroups, groups_of
from stopwise.exceptions import CannotSave, ModelFileError
from stopwise.io.codec import Decoder, Encoder
from stopwise.io.container import read_container, write_container
from stopwise.io.first_schema import fitted_fields, plain_fields, table_fields
from stopwise.io.types import build, check_kernel
from stopwise.io.validate import check_learned
from stopwise.rules import as_rule
from stopwise.tables.recipe import FittedTable
from stopwise.views.facts import Model

SCHEMA = 2
Document = dict[str, Any]
MIGRATIONS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {1: fitted_fields}
"""From what was learned in a schema to the next one. To change it: raise SCHEMA and add the step from the old one."""
OLDEST = 1

_ESTIMATORS = {cls.__name__: cls for cls in (KernelGradientRegressor, KernelRidgeRegressor, KernelGradientClassifier)}
_LIFTED = {"kernel": "kernel", "stop": "stops", "solver": "solver", "feature_names": "feature_names"}
"""Parts that stand at the top of the document, where people look for them."""
_MALFORMED = (ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


@dataclass(frozen=True)
class Saved:
    """A model read from a file, with what the command line knew of its table (or None) and the library versions."""

    model: Model
    table: FittedTable | None
    versions: dict[str, str]
    schema: int


def versions() -> dict[str, str]:
    """The releases that a model was made, or a page written, with."""
    names = ("stopwise", "numpy", "scipy", "scikit-learn")
    return {"python": platform.python_version()} | {name: metadata.version(name) for name in names}


def describe(model: Model, table: FittedTable | None = None) -> tuple[Document, dict[str, Array]]:
    """The JSON document and the tensors that a model's file holds."""
    cls = type(model)
    if _ESTIMATORS.get(cls.__name__) is not cls:
        known = " and ".join(_ESTIMATORS)
        raise CannotSave(f"sw.save writes {known}; got {cls.__name__} (save the estimator inside it, if it has one)")
    fitted = fitted_of(model).at_home()
    groups = groups_of(model)
    for part in [fitted] if groups is None else groups.fits:
        check_kernel(part.kernel)
    try:
        check_learned(fitted)
    except ValueError as problem:
        raise CannotSave(f"a file cannot hold this model, since {problem}: rescale X or y, and fit again") from problem
    encoder = Encoder()
    parameters = model.get_params(deep=False)
    encoded = {each.name: encoder.encode(getattr(fitted, each.name), each.name) for each in fields(fitted)}
    document = {"format": "stopwise model", "schema": SCHEMA, "estimator": cls.__name__, "versions": versions()}
    document |= {key: encoded.pop(name) for key, name in _LIFTED.items() if name in encoded}
    document["parameters"] = {
        name: encoder.encode(value, f"the parameter {name}") for name, value in parameters.items()
    }
    document["learned"] = encoded
    document["table"] = encoder.encode(table, "table")
    return document, encoder.tensors


def write_model(model: Model, path: str | os.PathLike[str], table: FittedTable | None = None) -> None:
    """Save a fitted model, with the description of the table it was fitted to."""
    write_container(path, *describe(model, table))


def _check_schema(path: str | os.PathLike[str], document: Document, whole: bool) -> None:
    """Raise ModelFileError, with what to do, for a document that this version cannot read."""
    schema = document.get("schema")
    if document.get("format") != "stopwise model" or type(schema) is not int:
        raise ModelFileError(f"{path} is damaged: its header does not describe a stopwise model")
    made_by = (document.get("versions") or {}).get("stopwise", "unknown")
    if schema > SCHEMA:
        raise ModelFileError(
            f"{path} has schema {schema} and this version of stopwise reads up to {SCHEMA}: it was made by stopwise "
            f"{made_by}; upgrade to that version or a newer one"
        )
    if schema < OLDEST:
        raise ModelFileError(
            f"{path} has schema {schema} and this version of stopwise reads from {OLDEST} on: fit the model again, or "
            f"open it with stopwise {made_by}"
        )
    if not whole:
        raise ModelFileError(f"{path} is damaged or was tampered with: its content does not match its checksum")


def _rebuild(document: Document, tensors: dict[str, Array]) -> tuple[Model, FittedTable | None]:
    decoder = Decoder(tensors)
    cls = _ESTIMATORS[document["estimator"]]
    model = cls(**{name: decoder.decode(value) for name, value in document["parameters"].items()})
    encoded = {name: document[key] for key, name in _LIFTED.items() if key in document} | document["learned"]
    learned = {name: decoder.decode(value) for name, value in encoded.items()}
    for schema in range(document["schema"], SCHEMA):
        learned = MIGRATIONS[schema](learned)
    table = None
    if document["schema"] == 1 and document["table"] is not None:
        table, recipe = table_fields(plain_fields(document["table"]))
        learned |= {"recipe": recipe, "columns_in": tuple(recipe.names)}
    elif document["table"] is not None:
        table = decoder.decode(document["table"])
    model._validate_params()
    model._fitted = _checked(model, learned)
    return model, table


def _checked(model: Model, learned: dict[str, Any]) -> Fitted | LossFitted | ResponseGroups:
    """What a model learned, rebuilt and checked, and its parameters: every one is one that a fit would take."""
    if "loss" in learned:
        under_loss = build(LossFitted, learned)
        check_learned(under_loss)
        loss_of(model, 1 if under_loss.classes is None else len(under_loss.classes))
        as_rule(model.rule)
        model.kernel_parameter()
        return cast(LossFitted, under_loss)
    if "fits" in learned:
        groups: ResponseGroups = build(ResponseGroups, learned)
        check_learned(groups)
        for part in groups.fits:
            model.plan(part.kernel)
        model.random_seed()
        return groups
    fitted: Fitted = replace(build(Fitted, learned), device=None)  # where it was fitted is no place here
    check_learned(fitted)
    model.plan(fitted.kernel)
    model.random_seed()
    return fitted


def read_model(path: str | os.PathLike[str]) -> Saved:
    """Load a model and what was saved beside it."""
    document, tensors, whole = read_container(path)
    try:
        _check_schema(path, document, whole)
        model, table = _rebuild(document, tensors)
        return Saved(model, table, dict(document["versions"]), int(document["schema"]))
    except ModelFileError:
        raise
    except _MALFORMED as problem:
        raise ModelFileError(f"{path} does not hold a usable model: {problem}") from problem


def save(model: Model, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator to a `.stopwise` file.

    The file is safetensors with a JSON header: numbers and names, no code. It takes its place in one step, so a kill
    or a full disk leaves the file that was there before. Raises `CannotSave` for what a file cannot hold: callable,
    scikit-learn and precomputed kernels, and parameters that are objects of other libraries.
    """
    write_model(model, path)


def load(path: str | os.PathLike[str]) -> Model:
    """Read an estimator back from a `.stopwise` file, exactly as it was saved.

    Nothing in the file is run. Schema, checksum, types and shapes are checked; `ModelFileError` says what is wrong.
    The checksum finds damage; it is no signature, and a file from a stranger can still hold a misleading model.
    """
    return read_model(path).model
