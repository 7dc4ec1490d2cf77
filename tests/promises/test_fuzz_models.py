"""Model files damaged in every way: a right answer or ModelFileError, soon, and within little memory."""

import contextlib
import json
import struct
import tracemalloc

import numpy as np
import pytest

import stopwise as sw
from hostile import KERNEL, X, watchdog, y
from stopwise.io import ModelFileError, read_model
from stopwise.io.container import read_container, write_container

FILES = 25
DEEP_FILES = 500
"""Damaged files of each kind, by default and in a deep run."""
MEMORY = 50 * 2**20


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Files of three kinds of fit, with their models: bytes, model."""
    folder, out = tmp_path_factory.mktemp("fuzz"), []
    several = sw.KernelGradientRegressor(KERNEL + sw.kernels.Linear(), rule="gcv")
    for model in (
        sw.KernelRidgeRegressor(KERNEL).fit(X, y),
        several.fit(X, np.column_stack([y, -y]), np.arange(20) % 3),
        sw.KernelGradientRegressor(KERNEL, n_landmarks=6).partial_fit(X, y),
    ):
        sw.save(model, folder / "model.stopwise")
        out.append(((folder / "model.stopwise").read_bytes(), model))
    return out


def header(content):
    size = struct.unpack("<Q", content[:8])[0]
    return json.loads(content[8 : 8 + size]), content[8 + size :]


def packed(head, body):
    text = head if isinstance(head, bytes) else json.dumps(head).encode()
    return struct.pack("<Q", len(text)) + text + body


def flip(rng, content):
    out = bytearray(content)
    for _ in range(rng.integers(1, 9)):
        out[rng.integers(len(out))] ^= 1 << rng.integers(8)
    return bytes(out)


def cut(rng, content):
    return content[: rng.integers(len(content))]


def grow(rng, content):
    at = rng.integers(len(content))
    return content[:at] + rng.bytes(rng.integers(1, 4000)) + content[at:]


def swap_blocks(rng, content):
    size = int(rng.integers(8, 200))
    first, second = sorted(rng.integers(0, len(content) - size, 2))
    out = bytearray(content)
    out[first : first + size], out[second : second + size] = (
        content[second : second + size],
        content[first : first + size],
    )
    return bytes(out)


def repeat_a_block(rng, content):
    size, at = int(rng.integers(1, 500)), rng.integers(len(content))
    return content[:at] + content[at : at + size] * int(rng.integers(2, 20)) + content[at + size :]


def claim_a_size(rng, content):
    sizes = [0, 1, len(content), 2**31, 2**40, 2**63 - 1, 2**64 - 1, int(rng.integers(2**62))]
    return struct.pack("<Q", sizes[rng.integers(len(sizes))]) + content[8:]


def claim_a_shape(rng, content):
    head, body = header(content)
    tensor = head[rng.choice([name for name in head if name != "__metadata__"])]
    tensor["shape"] = [int(v) for v in rng.choice([0, 1, 3, -1, 10**6, 2**40, 2**62], rng.integers(0, 4))]
    return packed(head, body)


def claim_offsets(rng, content):
    head, body = header(content)
    tensor = head[rng.choice([name for name in head if name != "__metadata__"])]
    tensor["data_offsets"] = [int(v) for v in rng.integers(-10, 2 * len(body), 2)]
    return packed(head, body)


def claim_a_type(rng, content):
    head, body = header(content)
    tensor = head[rng.choice([name for name in head if name != "__metadata__"])]
    tensor["dtype"] = str(rng.choice(["F64", "F32", "F16", "BF16", "I8", "BOOL", "U64", "C64", "X", ""]))
    return packed(head, body)


def nest_deeply(rng, content):
    depth = int(rng.integers(1, 30_000))
    return packed(b'{"__metadata__":' + b"[" * depth + b"]" * depth + b"}", b"")


def other_json(rng, content):
    values = [None, [], {}, 3, "x", {"__metadata__": 3}, {"__metadata__": {}}, {"__metadata__": {"stopwise": "{}"}}]
    values += [{"__metadata__": {"stopwise": text}} for text in ("null", "[]", "3", "[" * 9999, '{"sha256": 3}', "{")]
    return packed(values[rng.integers(len(values))], rng.bytes(rng.integers(0, 64)))


DAMAGE = (
    *(flip, cut, grow, swap_blocks, repeat_a_block, claim_a_size, claim_a_shape, claim_offsets, claim_a_type),
    *(nest_deeply, other_json),
)


def refused_or_same(path, model):
    """Loading ends soon, in our error or in the very same model, and takes little memory."""
    tracemalloc.start()
    try:
        with watchdog(10):
            again = sw.load(path)
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        assert repr(again.stop_) == repr(model.stop_)
    except ModelFileError:
        return 1
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < MEMORY
    return 0


def damage_many(saved, folder, damage, seed, count):
    rng, path, refused = np.random.default_rng(seed), folder / "damaged.stopwise", 0
    for turn in range(count):
        content, model = saved[turn % len(saved)]
        path.write_bytes(damage(rng, content))
        refused += refused_or_same(path, model)
    return refused


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_a_damaged_model_is_refused_or_the_same(saved, tmp_path, damage):
    assert damage_many(saved, tmp_path, damage, 1, FILES) > FILES // 2


@pytest.mark.deep
@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_many_more_damaged_models_are_refused_or_the_same(saved, tmp_path, damage):
    assert damage_many(saved, tmp_path, damage, 2, DEEP_FILES) > DEEP_FILES // 2


# ---- damage by someone who mends the checksum -----------------------------------------------------------------------

STRANGE = [
    None,
    True,
    -1,
    0,
    10**30,
    1e308,
    "",
    "x",
    [],
    {},
    {"$": "dict", "is": {}},
    {"$": "tuple", "is": []},
    {"$": "x"},
]
STRANGE += [
    {"$": "float", "is": "nan"},
    {"$": "array", "tensor": "X_fit_"},
    {"$": "scalar", "dtype": "float64", "is": 1e308},
]


def leaves(data, at=()):
    parts = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in parts:
        yield (*at, key)
        yield from leaves(value, (*at, key))


def tampered(rng, path, content, target):
    path.write_bytes(content)
    document, tensors, _ = read_container(path)
    places = list(leaves(document))
    place = places[rng.integers(len(places))]
    inner = document
    for key in place[:-1]:
        inner = inner[key]
    if rng.random() < 0.2:
        del inner[place[-1]]
    else:
        inner[place[-1]] = STRANGE[rng.integers(len(STRANGE))]
    write_container(target, document, tensors)


def tamper_many(saved, folder, seed, count):
    """A value of the document is replaced: the model is refused, or answers finite numbers or our errors."""
    rng, refused = np.random.default_rng(seed), 0
    for turn in range(count):
        content, _ = saved[turn % len(saved)]
        tampered(rng, folder / "whole.stopwise", content, folder / "tampered.stopwise")
        with watchdog(10):
            try:
                model = read_model(folder / "tampered.stopwise").model
            except ModelFileError:
                refused += 1
                continue
            with contextlib.suppress(ValueError, TypeError, ImportError):
                assert np.isfinite(model.predict(X)).all()
    return refused


def test_a_tampered_model_is_refused_or_works(saved, tmp_path):
    assert tamper_many(saved, tmp_path, 3, 60) > 20


@pytest.mark.deep
def test_many_more_tampered_models_are_refused_or_work(saved, tmp_path):
    assert tamper_many(saved, tmp_path, 4, 1500) > 500
