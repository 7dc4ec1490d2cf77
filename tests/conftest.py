"""Profiles for hypothesis, and the fixtures that every test file shares."""

import os

import numpy as np
import pytest
from hypothesis import settings

# "default" draws the same examples each time; "deep" (make test-deep) draws many new ones
settings.register_profile("default", derandomize=True, deadline=None, max_examples=25)
settings.register_profile("deep", deadline=None, max_examples=500, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_configure(config):
    """Folds of a cross-validation leave their training range all the time; tests of the warning itself ask for it."""
    config.addinivalue_line("filterwarnings", "ignore:.* rows lie outside the range of the training data")


@pytest.fixture
def rng():
    """A generator of the test's own, the same in every run."""
    return np.random.default_rng(20140115)


@pytest.fixture(autouse=True)
def global_random_state_is_left_alone():
    """Neither the package nor a test may draw from, or seed, numpy's global generator."""
    before = np.random.get_state()  # noqa: NPY002
    yield
    after = np.random.get_state()  # noqa: NPY002
    assert before[2:] == after[2:]
    assert np.array_equal(before[1], after[1])
