"""What callers hand over: real, finite numbers within their bounds, or an error that says bound, value and remedy."""

import difflib
import math
import sys
from collections.abc import Iterable
from numbers import Real
from typing import TypeGuard, cast

import numpy as np

from stopwise._support.arrays import Array


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a real number; True and False are not."""
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)


def is_finite(value: object) -> TypeGuard[float]:
    """Whether a value is a real number that a float can hold."""
    try:
        return is_number(value) and math.isfinite(value)
    except OverflowError:
        return False


def positive(value: object, what: str, remedy: str = "") -> float:
    """A positive, finite number."""
    single = value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value
    if not is_number(single):
        raise TypeError(f"{what} must be a positive number, got {value!r}{remedy}")
    if not is_finite(single) or single <= 0:
        raise ValueError(f"{what} must be positive and finite, got {value!r}{remedy}")
    return float(single)


def flag(value: object, what: str) -> None:
    """True or False, and nothing that merely counts as one of them."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{what} must be True or False, got {value!r}")


def real_array(values: object, what: str) -> Array:
    """An array of floats from real numbers of any type; text, complex numbers and ragged lists are refused."""
    try:
        array = np.asarray(values)
        if array.dtype.kind in "fiubO":
            return cast(Array, array.astype(np.float64, copy=False))
    except (TypeError, ValueError, OverflowError):
        pass
    raise TypeError(f"{what} must hold real numbers, got {_short(values)}: convert text, take one part of complex ones")


def finite_array(values: object, what: str) -> Array:
    """A `real_array` without NaN and infinity."""
    array = real_array(values, what)
    wrong = ~np.isfinite(array)
    if wrong.any():
        raise ValueError(f"{what} must be finite, got {float(array[wrong].flat[0])!r}: leave out or fill such values")
    return array


def place_of_infinity(values: object) -> str:
    """Where the first infinite entry of X or y stands, for an error that names these; nothing where none is seen."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return ""
    found = np.argwhere(np.isinf(array)).tolist()
    if not found:
        return ""
    words = ", ".join(f"{axis} {at}" for axis, at in zip(("row", "column"), found[0], strict=False))
    return f" ({array[tuple(found[0])]:g} in {words}, counted from 0)"


def at_least_zero(values: object, what: str) -> Array:
    """A `finite_array` of numbers of at least 0."""
    array = real_array(values, what)
    if array.size and not 0 <= array.min() <= array.max() < math.inf:
        lowest = float(finite_array(array, what).min())
        raise ValueError(f"{what} must be at least 0, got {lowest!r}")
    return array


def _short(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:80]}..."


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """The end of an error about an unknown name: the known one nearest to it; nothing where none is near."""
    folded = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), list(folded), n=1, cutoff=0.6) if isinstance(name, str) else []
    return f"; did you mean {folded[near[0]]!r}?" if near else ""


_INSIDE = ("stopwise", "sklearn", "joblib")


def calling_level() -> int:
    """The `stacklevel` of a warning at the line that called the library, through scikit-learn and joblib or not."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in _INSIDE:
        frame, level = frame.f_back, level + 1
    return level
