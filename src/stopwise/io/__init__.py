"""Model files: safetensors with a JSON header, written in one step, read without running anything."""

from stopwise.exceptions import CannotSave, ModelFileError
from stopwise.io.atomic import atomic_path
from stopwise.io.model import SCHEMA, Saved, load, read_model, save, write_model

__all__ = [
    "SCHEMA",
    "CannotSave",
    "ModelFileError",
    "Saved",
    "atomic_path",
    "load",
    "read_model",
    "save",
    "write_model",
]
