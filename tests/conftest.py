"""Profiles for hypothesis, the order of tests, and the fixtures that every test file shares."""

import os
import random
import re
import secrets
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import settings

# "default" draws the same examples each time; "deep" (make test-deep) draws many new ones
settings.register_profile("default", derandomize=True, deadline=None, max_examples=25)
settings.register_profile("deep", deadline=None, max_examples=500, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


EXTRAS = {"browser": "selenium", "dask": "distributed", "torch": "torch"}
"""What tests with these marks import; STOPWISE_MUST_RUN names those that may not be skipped."""


def pytest_addoption(parser):
    parser.addoption("--order", metavar="SEED", help="repeat the order of an earlier run; 0: as written (random)")


def pytest_configure(config):
    """Check for the extras asked for, choose one order for all workers, and let rows outside the training range be.

    Folds of a cross-validation leave that range all the time; tests of the warning itself ask for it.
    """
    wanted = filter(None, os.environ.get("STOPWISE_MUST_RUN", "").split(","))
    if missing := [mark for mark in wanted if find_spec(EXTRAS[mark]) is None]:
        raise pytest.UsageError(f"STOPWISE_MUST_RUN asks for tests whose extras are not installed: {missing}")
    given = config.getoption("order") or os.environ.get("STOPWISE_ORDER")
    config.order = getattr(config, "workerinput", {}).get("order", given or str(secrets.randbelow(10**6)))
    config.addinivalue_line("filterwarnings", "ignore:.* rows lie outside the range of the training data")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    node.workerinput["order"] = node.config.order


def pytest_report_header(config):
    return f"random order: repeat it with --order={config.order}"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Files in random order, and the tests of a file too: none may rest on what ran before."""
    if config.order != "0":
        keys = {item: random.Random(f"{config.order} {item.nodeid}").random() for item in items}
        files = {item.path: random.Random(f"{config.order} {item.path.name}").random() for item in items}
        items.sort(key=lambda item: (files[item.path], str(item.path), keys[item]))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Note on the report how many examples hypothesis drew: reports travel from pytest-xdist's workers."""
    report = (yield).get_result()
    if call.when == "call":
        drawn = re.findall(r"(\d+) passing", getattr(item, "hypothesis_statistics", ""))
        report.user_properties.append(("examples", sum(map(int, drawn))))


def pytest_terminal_summary(terminalreporter):
    """How many examples ran, and the tallies that tests recorded with `record_property("tally", ...)`."""
    reports = [r for kind in ("passed", "failed") for r in terminalreporter.stats.get(kind, []) if r.when == "call"]
    notes = [note for report in reports for note in report.user_properties]
    counts = [value for name, value in notes if name == "examples" and value]
    if counts:
        terminalreporter.write_line(f"{sum(counts):,} examples in {len(counts)} property tests")
    for name, value in notes:
        if name == "tally":
            terminalreporter.write_line(value)


@pytest.fixture
def rng():
    """A generator of the test's own, the same in every run."""
    return np.random.default_rng(20140115)


@pytest.fixture(autouse=True)
def no_figure_is_left_to_the_next_test():
    """Figures that a test drew are closed, in whatever order tests run."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture(autouse=True)
def global_random_state_is_left_alone():
    """Neither the package nor a test may draw from, or seed, numpy's global generator."""
    before = np.random.get_state()  # noqa: NPY002
    yield
    after = np.random.get_state()  # noqa: NPY002
    assert before[2:] == after[2:]
    assert np.array_equal(before[1], after[1])
