"""The bytes of a model file: a safetensors file whose metadata carry one JSON document and a checksum of everything."""

import errno
import hashlib
import json
import os
import re
import stat
from typing import Any

import numpy as np
import safetensors
from safetensors.numpy import save_file

from stopwise._support.arrays import Array
from stopwise.exceptions import ModelFileError
from stopwise.io.atomic import atomic_path, checked_name

FORMAT = "stopwise"
_CHECKSUM = "sha256"


def checksum(document: str, tensors: dict[str, Array]) -> str:
    """SHA-256 over the document and every tensor's name, type, shape and bytes."""
    digest = hashlib.sha256()

    def add(part: bytes) -> None:
        digest.update(len(part).to_bytes(8, "little") + part)

    add(document.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        add(name.encode())
        add(f"{tensor.dtype.str}{tensor.shape}".encode())
        digest.update(np.ascontiguousarray(tensor).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _text(document: dict[str, Any]) -> str:
    return json.dumps(document, allow_nan=False, ensure_ascii=True)


def write_container(path: str | os.PathLike[str], document: dict[str, Any], tensors: dict[str, Array]) -> None:
    """Write document and tensors; the file at `path` is the old one or the new one, never a part."""
    sealed = {_CHECKSUM: checksum(_text(document), tensors)} | document
    with atomic_path(path) as temporary:
        try:
            save_file(tensors, temporary, {FORMAT: _text(sealed)})
        except safetensors.SafetensorError as problem:
            # The system's refusal, such as a full disk, comes as an error of safetensors with its number in the words.
            number = re.search(r"os error (\d+)", str(problem))
            words = os.strerror(int(number[1])) if number else f"the model could not be written: {problem}"
            raise OSError(int(number[1]) if number else errno.EIO, words, os.fspath(path)) from problem


def _parse(path: str | os.PathLike[str]) -> tuple[str, dict[str, Array]]:
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            text = (file.metadata() or {}).get(FORMAT)
            tensors = {name: np.array(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118
    except (safetensors.SafetensorError, ValueError, TypeError, KeyError, AttributeError, OverflowError) as problem:
        raise ModelFileError(f"{path} is not a whole model file: it is truncated, damaged or not one") from problem
    if text is None:
        raise ModelFileError(f"{path} is not a stopwise model: its header says nothing of stopwise")
    return text, tensors


def read_container(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Array], bool]:
    """Document, tensors, and whether the checksum agrees; ModelFileError where that much cannot be read."""
    path = checked_name(path)
    if os.path.isdir(path):
        raise ModelFileError(f"{path} is a folder, not a model file")
    mode = os.stat(path).st_mode  # a missing file is the system's own error, with its own words
    if not stat.S_ISREG(mode):
        raise ModelFileError(f"{path} is a pipe or a device, not a model file: save it to a file first")
    text, tensors = _parse(path)
    try:
        document = json.loads(text)
        stated = document.pop(_CHECKSUM)
        return document, tensors, stated == checksum(_text(document), tensors)
    except (ValueError, RecursionError, KeyError, AttributeError, TypeError) as problem:
        raise ModelFileError(f"{path} is damaged: its header is not what stopwise writes") from problem
