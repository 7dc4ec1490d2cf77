"""In any order of calls, a model is exactly what the last successful one made it."""

import tempfile
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sklearn.base import clone

import stopwise as sw

RNG = np.random.default_rng(7)
X = RNG.normal(size=(30, 2))
Y = np.c_[np.sin(X[:, 0]), X[:, 1] ** 2]
POINTS = X[np.unique([X.argmin(axis=0), X.argmax(axis=0), [2, 3]])]  # no batch lies outside their range
NEW = RNG.normal(size=(4, 2))


class Interrupted(sw.kernels.Gaussian):
    """A kernel whose evaluation is interrupted, as by Ctrl-C."""

    def block(self, left, right):
        raise KeyboardInterrupt


def face(model):
    """What people see of a model: predictions, stop, columns; None before it is fitted."""
    if not model.__sklearn_is_fitted__():
        return None
    mean, std = model.predict(NEW, return_std=True)
    return [*mean.ravel(), *np.ravel(std), model.stop_.step_sum, model.n_features_in_, len(model.X_fit_)]


class Models(RuleBasedStateMachine):
    """One model, and beside it what it should look like."""

    sequences: ClassVar[int] = 0

    @initialize(solver=st.sampled_from(["nystrom", "dense"]))
    def begin(self, solver):
        Models.sequences += 1
        landmarks = {"n_landmarks": POINTS} if solver == "nystrom" else {}
        self.model = sw.KernelGradientRegressor(
            sw.kernels.Gaussian(1.0), solver=solver, n_jobs=1, random_state=0, **landmarks
        )
        self.batches, self.expected = None, None

    @property
    def takes_batches(self):
        return self.model.solver == "nystrom"

    @property
    def is_fitted(self):
        return self.expected is not None

    def fresh(self):
        return clone(self.model)

    @rule(column=st.integers(0, 1), count=st.integers(8, 30))
    def fit(self, column, count):
        self.model.fit(X[:count], Y[:count, column])
        self.expected = face(self.fresh().fit(X[:count], Y[:count, column]))
        self.batches = [(count, column)]

    @rule(bad=st.sampled_from(["columns", "nan", "length", "interrupt"]))
    def a_fit_that_fails(self, bad):
        kernel = self.model.kernel
        try:
            if bad == "columns":
                self.model.fit(np.ones((9, 3)), np.full(9, np.nan))
            elif bad == "nan":
                self.model.fit(X * np.nan, Y[:, 0])
            elif bad == "length":
                self.model.fit(X[:9], Y[:8, 0])
            else:
                self.model.set_params(kernel=Interrupted(1.0)).fit(np.c_[X, X], Y[:, 0])
            raise AssertionError("should have failed")
        except (ValueError, KeyboardInterrupt):
            self.model.set_params(kernel=kernel)

    @precondition(lambda self: self.takes_batches)
    @rule(count=st.integers(1, 12))
    def partial_fit(self, count):
        column = 0 if self.batches is None else self.batches[0][1]
        batch = (X[-count:], Y[-count:, column])
        if self.batches is None:
            self.expected = face(self.fresh().partial_fit(*batch))
        else:
            self.expected = face(_twin(self.model).partial_fit(*batch))
        self.batches = self.batches or [(count, column)]
        self.model.partial_fit(*batch)

    @precondition(lambda self: self.is_fitted and self.takes_batches)
    @rule()
    def a_batch_that_fails(self):
        with pytest.raises(ValueError, match=r"features|finite|NaN"):
            self.model.partial_fit(np.ones((3, 5)), np.ones(3))

    @precondition(lambda self: self.is_fitted)
    @rule(rule_name=st.sampled_from(["gcv", "auto", "critical"]))
    def set_params(self, rule_name):
        self.model.set_params(rule=rule_name)

    @precondition(lambda self: self.is_fitted and not self.takes_batches)
    @rule(column=st.integers(0, 1))
    def refit(self, column):
        count = self.batches[0][0]
        self.model.refit(Y[:count, column])
        self.expected = face(self.fresh().fit(X[:count], Y[:count, column]))

    @precondition(lambda self: self.is_fitted)
    @rule()
    def predictions_change_nothing(self):
        self.model.predict(X, return_std=True)
        self.model.score(X, Y[:, 0])
        if not self.takes_batches:
            self.model.predict_interval(X, level=0.8)  # eight rows have no ninth to cover more with

    @precondition(lambda self: self.is_fitted and self.takes_batches)
    @rule()
    def merge(self):
        other = self.fresh().partial_fit(X[:10], Y[:10, 0])
        twin = _twin(self.model)
        self.expected = face(twin.merge(other))
        self.model.merge(other)

    @precondition(lambda self: self.is_fitted)
    @rule()
    def a_merge_that_fails(self):
        with pytest.raises(ValueError, match="no sums"):
            self.model.merge(sw.KernelGradientRegressor("gaussian"))

    @precondition(lambda self: self.is_fitted)
    @rule()
    def a_refit_that_fails(self):
        with pytest.raises(ValueError, match=r"one entry for each|keeps none"):
            self.model.refit(np.ones(1000))

    @precondition(lambda self: self.is_fitted)
    @rule()
    def save_and_load(self):
        self.model = _twin(self.model)

    @rule()
    def cloning_changes_nothing(self):
        assert face(clone(self.model)) is None

    @invariant()
    def it_is_what_the_last_success_made_it(self):
        if hasattr(self, "model"):
            found = face(self.model)
            assert (found is None) == (self.expected is None)
            if found is not None:
                np.testing.assert_allclose(found, self.expected, rtol=1e-9, atol=1e-12)


def _twin(model):
    """The same model, out of a file."""
    with tempfile.TemporaryDirectory() as folder:
        sw.save(model, f"{folder}/twin.stopwise")
        return sw.load(f"{folder}/twin.stopwise")


def run(count, record_property):
    """So many sequences of up to fifteen calls."""
    before = Models.sequences
    run_state_machine_as_test(
        Models, settings=settings(max_examples=count, stateful_step_count=15, deadline=None, derandomize=True)
    )
    record_property("tally", f"sequences of calls on a model: {Models.sequences - before}")
    assert Models.sequences - before >= count


def test_a_model_is_what_the_last_success_made_it(record_property):
    run(20, record_property)


@pytest.mark.deep
def test_a_model_is_what_the_last_success_made_it_in_thousands_of_sequences(record_property):
    run(2000, record_property)
