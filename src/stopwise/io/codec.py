"""Values to JSON and back, arrays aside as named tensors.

Plain JSON stands for itself. Everything else is an object with a "$" that says what it is: a number JSON has no word
for, a numpy scalar, an array by the name of its tensor, a tuple, a dictionary, an enum member, or one of the types in
`types`. Nothing else can be written, and nothing else is understood.
"""

import dataclasses
import math
from typing import Any

import numpy as np

from stopwise._support.arrays import Array
from stopwise.exceptions import CannotSave
from stopwise.io.types import ENUMS, build, find_type, type_name

_SCALARS = {np.dtype(name).name for name in ("f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?")}


class Encoder:
    """Turns values into JSON, collecting arrays in `tensors`; one array met twice is stored once."""

    def __init__(self) -> None:
        self.tensors: dict[str, Array] = {}
        self._seen: dict[Any, dict[str, Any]] = {}
        self._alive: list[Array] = []

    def encode(self, value: object, where: str) -> Any:
        """The JSON that stands for a value; `where` names it in errors and tensors."""
        if value is None or isinstance(value, bool | str) or type(value) is int:
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"$": "float", "is": repr(value)}
        if isinstance(value, np.generic) and value.dtype.name in _SCALARS:
            return {"$": "scalar", "dtype": value.dtype.name, "is": self.encode(value.item(), where)}
        if isinstance(value, np.ndarray):
            return self._array(value, where)
        if isinstance(value, list | tuple):
            parts = [self.encode(part, f"{where}[{i}]") for i, part in enumerate(value)]
            return parts if isinstance(value, list) else {"$": "tuple", "is": parts}
        if isinstance(value, dict) and all(isinstance(key, str) for key in value):
            return {"$": "dict", "is": {key: self.encode(part, f"{where}.{key}") for key, part in value.items()}}
        return self._typed(value, where)

    def _typed(self, value: object, where: str) -> dict[str, Any]:
        for kind, enum in ENUMS.items():
            if isinstance(value, enum):
                return {"$": kind, "is": value.name}
        cls: type[Any] = type(value)
        known = type_name(cls)
        if known is not None:
            fields = {f.name: self.encode(getattr(value, f.name), f"{where}.{f.name}") for f in dataclasses.fields(cls)}
            return {"$": known, "fields": fields}
        raise CannotSave(
            f"this model cannot be saved: {where} is a {cls.__module__}.{cls.__qualname__}, which a model file cannot "
            "hold; set it to a number, a name or a stopwise type"
        )

    def _array(self, value: Array, where: str) -> dict[str, Any]:
        if value.dtype.kind in "OUT":
            if not all(isinstance(part, str) for part in value.ravel()):
                raise CannotSave(f"this model cannot be saved: {where} is an array of Python objects, not of numbers")
            return {"$": "strings", "shape": list(value.shape), "is": [str(part) for part in value.ravel()]}
        if value.dtype.kind not in "fiub" or value.dtype.itemsize > 8:
            raise CannotSave(f"this model cannot be saved: {where} is an array of {value.dtype}")
        key = (value.__array_interface__["data"][0], value.shape, value.strides, value.dtype.str)
        if key not in self._seen:
            self._alive.append(value)
            tensor, layout = pack(value)
            self.tensors[where] = tensor
            self._seen[key] = {"$": "array", "tensor": where, **layout}
        return self._seen[key]


def pack(value: Array) -> tuple[Array, dict[str, Any]]:
    """An array as it lies in memory, row by row, and how to lay it out again.

    Sums and matrix products round differently on other layouts, so an exact copy has to keep them.
    """
    flipped = [axis for axis in range(value.ndim) if value.strides[axis] < 0]
    straight = np.flip(value, tuple(flipped)) if flipped else value
    axes = sorted(range(value.ndim), key=lambda axis: -straight.strides[axis])
    layout: dict[str, Any] = {} if axes == sorted(axes) else {"axes": axes}
    tensor = np.ascontiguousarray(straight.transpose(axes)).reshape([value.shape[axis] for axis in axes])
    return tensor, layout | ({"flipped": flipped} if flipped else {})


def unpack(tensor: Array, axes: list[int] | None = None, flipped: list[int] | None = None) -> Array:
    """The array that `pack` took apart."""
    out = tensor if axes is None else tensor.transpose([int(i) for i in np.argsort(axes)])
    return np.flip(out, tuple(flipped)) if flipped else out


class Decoder:
    """Turns JSON back into values; only what `Encoder` writes is understood."""

    def __init__(self, tensors: dict[str, Array]) -> None:
        self._tensors = tensors
        self._arrays: dict[str, Array] = {}

    def decode(self, data: Any) -> Any:
        """The value that this JSON stands for."""
        if isinstance(data, list):
            return [self.decode(part) for part in data]
        if not isinstance(data, dict):
            return data
        kind: str = data["$"]
        value: Any = data.get("is")
        match kind:
            case "float":
                return {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}[value]
            case "scalar" if data["dtype"] in _SCALARS:
                return np.dtype(data["dtype"]).type(self.decode(value))
            case "tuple":
                return tuple(self.decode(part) for part in value)
            case "dict":
                return {key: self.decode(part) for key, part in value.items()}
            case "strings":
                return np.array([str(part) for part in value], dtype="O").reshape(data["shape"])
            case "array":
                name = data["tensor"]
                if name not in self._arrays:
                    self._arrays[name] = unpack(self._tensors[name], data.get("axes"), data.get("flipped"))
                return self._arrays[name]
        if kind in ENUMS:
            return ENUMS[kind][value]
        return build(find_type(kind), {name: self.decode(part) for name, part in data["fields"].items()})
