"""Torch takes seconds to import: it is asked only where it could answer."""

import importlib.metadata
from types import SimpleNamespace

import pytest

from stopwise._support import torch as door


@pytest.fixture
def asked(monkeypatch):
    """A torch that counts how often it is imported and always sees a GPU."""
    count = []
    library = SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: True))
    monkeypatch.setattr(door, "has_torch", lambda: True)
    monkeypatch.setattr(door, "torch", lambda: count.append(1) or library)
    return count


def test_a_build_for_processors_alone_is_not_imported_to_look_for_a_gpu(asked, monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "2.13.0+cpu")
    assert not door.has_gpu()
    assert not asked


@pytest.mark.parametrize("version", ["2.13.0", "2.11.0+cu128", "2.11.0+rocm6.4"])
def test_any_other_build_is_asked(asked, monkeypatch, version):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: version)
    assert door.has_gpu()
    assert asked


def test_a_torch_that_no_installer_knows_of_is_asked(asked, monkeypatch):
    def unknown(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", unknown)
    assert door.has_gpu()
    assert asked
