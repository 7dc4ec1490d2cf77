"""Files written by the first version load here and predict the same."""

from pathlib import Path

import numpy as np
import pytest

import stopwise as sw
from stopwise.io.types import ALIASES, TYPES

FOLDER = Path(__file__).parent / "first_version"
EXPECTED = dict(np.load(FOLDER / "expected.npz"))
NAMES = sorted(path.stem for path in FOLDER.glob("*.stopwise"))


def test_the_first_versions_files_are_here():
    assert {"dense", "krylov", "nystrom", "ridge", "several"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_the_first_version_predicts_the_same(name):
    model = sw.load(FOLDER / f"{name}.stopwise")
    mean, std = model.predict(EXPECTED[f"{name}_X"], return_std=True)
    np.testing.assert_allclose(mean, EXPECTED[name], rtol=1e-12, atol=1e-12)
    assert np.all(std > 0)


@pytest.mark.parametrize("name", NAMES)
def test_it_can_be_saved_again_and_stays_the_same(name, tmp_path):
    model = sw.load(FOLDER / f"{name}.stopwise")
    sw.save(model, tmp_path / "again.stopwise")
    again = sw.load(tmp_path / "again.stopwise")
    np.testing.assert_array_equal(again.predict(EXPECTED[f"{name}_X"]), model.predict(EXPECTED[f"{name}_X"]))


def test_every_alias_leads_to_a_type_and_hides_none():
    assert set(ALIASES.values()) <= set(TYPES)
    assert not set(ALIASES) & set(TYPES)
