"""A model file forged field by field, with its checksum mended, is refused or predicts finite numbers."""

import copy
import functools
import itertools
import signal
import tracemalloc
import warnings

import numpy as np
import pytest

import stopwise as sw
from stopwise.exceptions import ModelFileError
from stopwise.io.container import read_container, write_container

MOST_BYTES, MOST_SECONDS = 200 * 2**20, 5
VALUES = (
    *("text", "\x1b[31mred\x1b[0m\x07", "", 7, -1, 0, 10**18, -(10**18), 1e300, 2.5, True, None, [], {}),
    *([1, 2, 3], {"$": "float", "is": "nan"}, {"$": "float", "is": "inf"}, {"$": "tuple", "is": [0, 0]}),
    *({"$": "dict", "is": {}}, {"$": "kernels.Linear", "fields": {}}, {"$": "no.Such", "fields": {}}),
)


def filled(tensor, number, whole):
    """A tensor of the same kind, all one number."""
    return np.full_like(tensor, number if tensor.dtype.kind == "f" else whole)


CHANGES = (
    lambda t: t[:0],
    lambda t: t[:-1],
    lambda t: np.concatenate([t, t]),
    lambda t: t.T.copy(),
    lambda t: t.reshape(-1),
    lambda t: filled(t, np.nan, 0),
    lambda t: filled(t, np.inf, 1),
    lambda t: filled(t, 1e300, 100),
    lambda t: filled(t, -1.0, True),
    lambda t: -t if t.dtype.kind == "f" else t[:1],
    lambda t: t.astype(np.int8),
    lambda t: t.astype(np.float32),
)


def places(node, where=()):
    """Every place in a JSON document, as the keys that lead there."""
    yield where
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in children:
        yield from places(child, (*where, key))


LEFT_OUT = object()


def forged(document, tensors, where, value):
    """The document with another value at a place, or without it; and the tensors."""
    out = copy.deepcopy(document)
    node = out
    for key in where[:-1]:
        node = node[key]
    if value is LEFT_OUT:
        del node[where[-1]]
    else:
        node[where[-1]] = value
    return out, tensors


def forged_tensor(document, tensors, name, change):
    return document, {**tensors, name: np.ascontiguousarray(change(tensors[name]))}


def forgeries(document, tensors):
    """Every field with every wrong value, then every tensor with every wrong change: how to make each, not yet made."""
    for where in filter(None, places(document)):
        for value in (*VALUES, LEFT_OUT):
            yield functools.partial(forged, document, tensors, where, value)
    for name in tensors:
        for change in CHANGES:
            yield functools.partial(forged_tensor, document, tensors, name, change)


def models(rng):
    X = rng.normal(size=(24, 2))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=24)
    yield sw.KernelGradientRegressor().fit(X, y), X
    yield sw.KernelGradientRegressor("gaussian", solver="nystrom", n_landmarks=6).fit(X, np.c_[y, -y]), X
    yield sw.KernelRidgeRegressor("matern32", solver="krylov", rule="critical").fit(X, y), X
    yield sw.KernelRidgeRegressor("matern32", solver="factor", tol=0.5).fit(X, y), X


def harmless(path, X):
    """Load and predict within the limits; whether the file was refused."""

    def late(*_):
        raise TimeoutError("took too long")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(MOST_SECONDS)
    tracemalloc.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                model = sw.load(path)
            except ModelFileError:
                return True
            width = model.n_features_in_
            new = X if width == X.shape[1] else np.zeros((3, width))
            assert np.isfinite(model.predict(new)).all()
            if not getattr(model._fitted, "shared_noise", False):  # a fit that says so has no standard deviations
                assert np.isfinite(model.predict(new, return_std=True)[1]).all()
            return False
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        assert peak < MOST_BYTES


def attack(tmp_path, rng, every, kinds=(forged, forged_tensor)):
    """Forge, load, predict; how many files, and how many were refused."""
    tried = refused = 0
    for number, (model, X) in enumerate(models(rng)):
        source, target = tmp_path / f"{number}.stopwise", tmp_path / "forged.stopwise"
        sw.save(model, source)
        document, tensors, _ = read_container(source)
        made = (forgery for forgery in forgeries(document, tensors) if forgery.func in kinds)
        for forgery in itertools.islice(made, number % every, None, every):
            write_container(target, *forgery())
            try:
                refused += harmless(target, X)
            except Exception as error:
                raise AssertionError(f"{forgery.args[2:]}: {type(error).__name__}: {error}") from error
            tried += 1
    return tried, refused


def test_a_forged_field_is_refused_or_harmless(tmp_path, rng, record_property):
    tried, refused = attack(tmp_path, rng, every=151)
    record_property("tally", f"forged model files: {refused} of {tried} refused, the others predict finite numbers")
    assert tried > 200


@pytest.mark.deep
def test_thousands_of_forged_fields_are_refused_or_harmless(tmp_path, rng, record_property):
    tried, refused = attack(tmp_path, rng, every=5)
    record_property("tally", f"forged model files: {refused} of {tried} refused, the others predict finite numbers")
    assert tried >= 3000


@pytest.mark.deep
def test_every_forged_tensor_is_refused_or_harmless(tmp_path, rng, record_property):
    tried, refused = attack(tmp_path, rng, every=1, kinds=(forged_tensor,))
    record_property("tally", f"forged tensors: {refused} of {tried} refused, the others predict finite numbers")
    assert tried > 600


def test_a_claim_of_many_columns_allocates_nothing(tmp_path, rng):
    model, X = next(models(rng))
    sw.save(model, tmp_path / "m.stopwise")
    document, tensors, _ = read_container(tmp_path / "m.stopwise")
    document["learned"]["n_features"] = 400_000_000
    write_container(tmp_path / "m.stopwise", document, tensors)
    assert harmless(tmp_path / "m.stopwise", X)
