"""Every sentence that `explain` can say, reached by a fit whose numbers make it true."""

import re
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import stopwise as sw
from stopwise.rules import explanation
from stopwise.rules.base import in_steps, rounded
from stopwise.rules.explanation import explain

KERNEL = sw.kernels.Laplace(0.3)


def wave(n=60, noise=0.3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 1))
    return X, np.sin(6 * X[:, 0]) + noise * rng.normal(size=n)


def said(model):
    return explain(model), model.stop_


def test_a_crossing_tells_both_sides_before_and_after():
    text, stop = said(sw.KernelGradientRegressor(KERNEL, rule="critical", noise_std=0.3).fit(*wave()))
    assert stop.reason is sw.Reason.CROSSING
    numbers = [float(v) for v in re.findall(r"data, ([\d.e-]+), is still within its threshold, ([\d.e-]+)", text)[0]]
    assert numbers[0] <= numbers[1]
    after = [float(v) for v in re.findall(r"above \(([\d.e-]+) > ([\d.e-]+)\)", text)[0]]
    assert after[0] > after[1]
    text, stop = said(sw.KernelRidgeRegressor(KERNEL, rule="critical", noise_std=0.3).fit(*wave()))
    assert stop.reason is sw.Reason.CROSSING
    assert "meets its threshold" in text
    bare = replace(stop, evidence=replace(stop.evidence, complexity=None))
    assert explain(_with(sw.KernelRidgeRegressor(KERNEL).fit(*wave()), bare)).endswith("crosses its threshold.")


def test_the_default_rule_says_that_it_is_earlier_than_the_smallest():
    model = sw.KernelRidgeRegressor(KERNEL).fit(*wave())
    text, stop = said(model)
    lowest = float(re.search(r"smallest on the path \(at step_sum ([\d.e+]+)\)", text)[1])
    assert stop.step_sum < lowest
    errors = model.path_.leave_one_out_error(np.array([stop.step_sum, lowest]))
    assert errors[0] >= errors[1]


def test_a_default_stop_at_the_smallest_error_is_not_said_to_be_earlier():
    X, y = wave()
    ridge = sw.KernelRidgeRegressor(KERNEL, rule=sw.rules.Prudent(allowance=0.0)).fit(X, y)
    assert said(ridge)[0].endswith(": the point whose leave-one-out error is smallest.")
    far = sw.KernelGradientRegressor(KERNEL).fit(X, y)
    assert far.stop_.step_sum < 0.9 * far.stop_.evidence.lowest_step_sum
    near = replace(far.stop_.evidence, lowest_step_sum=far.stop_.step_sum * 1.0002)
    text = explain(_with(far, replace(far.stop_, evidence=near)))
    assert "the point of the clock at which ridge's leave-one-out error is smallest; none earlier comes within" in text
    assert "cannot tell" not in text


@pytest.mark.parametrize("estimator", [sw.KernelGradientRegressor, sw.KernelRidgeRegressor])
def test_the_default_rule_at_the_end_of_the_path_tells_the_error_and_asks_for_no_noise_level(estimator):
    X = np.random.default_rng(0).uniform(size=(60, 2))
    model = estimator(sw.kernels.Gaussian(8.0)).fit(X, np.sin(5 * X[:, 0]) * np.cos(3 * X[:, 1]))
    text, stop = said(model)
    assert stop.reason is sw.Reason.CAP
    told = float(re.search(r"leave-one-out error is smallest, ([\d.e+-]+) \(root mean square\)", text)[1])
    ridge = model.path_.along(sw.filters.Ridge())
    here, before = np.sqrt(ridge.leave_one_out_error(stop.step_sum * np.array([1.0, 0.1]))) * ridge.scale
    assert told == pytest.approx(here, rel=0.05)
    assert told < before
    assert "noise" not in text
    assert "cannot fit" not in text


@pytest.mark.parametrize(("rule", "words"), [("gcv", "generalised cross-validation"), ("loo", "leave-one-out error")])
def test_a_minimum_is_smaller_than_its_neighbours(rule, words):
    model = sw.KernelRidgeRegressor(KERNEL, rule=rule).fit(*wave())
    text, stop = said(model)
    assert words in text
    assert "is smallest there" in text
    criterion = model.path_.gcv if rule == "gcv" else model.path_.leave_one_out_error
    here, before, after = criterion(stop.step_sum * np.array([1.0, 0.8, 1.25]))
    assert here <= min(before, after)


def test_the_discrepancy_principle_tells_residual_and_level():
    model = sw.KernelRidgeRegressor(KERNEL, rule="discrepancy", noise_std=0.3).fit(*wave())
    text, stop = said(model)
    assert stop.reason is sw.Reason.THRESHOLD
    here, level = (float(v) for v in re.search(r"residual, ([\d.]+), .* level, ([\d.]+)\.", text).groups())
    assert here == pytest.approx(float(model.path_.residual_norm()), rel=1e-3)
    assert here <= level * 1.001
    assert level == pytest.approx(0.3, rel=0.02)
    bare = replace(stop, evidence=replace(stop.evidence, residual=None))
    assert explain(_with(model, bare)).endswith("has come down to the noise level.")


def test_a_given_stop_is_called_given_and_one_past_the_end_is_cut():
    text, stop = said(sw.KernelRidgeRegressor(KERNEL, rule=sw.rules.Fixed(step_sum=3.0)).fit(*wave()))
    assert (stop.step_sum, text) == (
        3.0,
        "Ridge stopped at an inverse penalty of 3: the stop was given, not read off the data.",
    )
    text, stop = said(sw.KernelRidgeRegressor(KERNEL, rule=sw.rules.Fixed(step_sum=1e40)).fit(*wave()))
    assert stop.step_sum < 1e40
    assert "a step_sum of 1e+40 was asked for" in text


def test_no_step_is_said_with_its_own_reason():
    X, y = wave()
    model = sw.KernelGradientRegressor(KERNEL, rule="critical", noise_std=1e4).fit(X, y)
    text, stop = said(model)
    assert stop.iteration == 0
    assert f"no step is justified, and the estimate is the constant {y.mean():.4g}" in text
    np.testing.assert_allclose(model.predict(X), y.mean())
    assert "the response does not vary" in said(sw.KernelRidgeRegressor(KERNEL).fit(X, np.full(60, 3.0)))[0]
    same = sw.KernelRidgeRegressor(KERNEL).fit(np.zeros_like(X), y)
    assert "the kernel sees no difference between rows" in said(same)[0]
    np.testing.assert_allclose(same.predict(X), y.mean())


def test_the_end_of_the_path_is_near_the_points_only_where_it_is():
    X, y = wave(n=40, noise=0.0)
    model = sw.KernelRidgeRegressor(KERNEL, rule="sure", noise_std=1e-12).fit(X, y)
    text, stop = said(model)
    assert stop.reason is sw.Reason.CAP
    assert "runs near the points" in text
    assert float(model.path_.degrees_of_freedom()) > 20
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 2))
    model = sw.KernelRidgeRegressor(sw.kernels.Linear(), rule="sure", noise_std=1e-12).fit(X, X @ [1.0, 2.0])
    text, stop = said(model)
    assert stop.reason is sw.Reason.CAP
    assert "2 degrees of freedom of 400" in text
    left = float(re.search(r"left of the response, ([\d.e+-]+) \(root mean square\), this kernel cannot fit", text)[1])
    assert left == pytest.approx(float(model.path_.residual_norm()), rel=0.1)
    assert float(model.path_.degrees_of_freedom()) == pytest.approx(2, rel=1e-2)
    further = model.path_.degrees_of_freedom(np.array([1e6 * stop.step_sum]))
    assert float(further[0]) < 2.01


def test_a_path_of_another_filter_than_ridge_says_whose_error_the_default_reads():
    X, y = wave()
    text, stop = said(sw.KernelGradientRegressor(KERNEL).fit(X, y))
    assert "at which ridge's leave-one-out error is within" in text
    ridge = sw.KernelRidgeRegressor(KERNEL, rule=sw.rules.Prudent(allowance=0.0)).fit(X, y)
    assert float(re.search(r"at step_sum ([\d.e+]+)\)", text)[1]) == pytest.approx(ridge.step_sum_, rel=1e-2)
    assert stop.step_sum <= ridge.step_sum_
    text, _ = said(sw.KernelGradientRegressor(KERNEL, rule="loo").fit(X, y))
    assert "the leave-one-out error, by the leverage shortcut, is smallest there." in text


def test_rows_left_out_in_groups_are_called_so():
    X, y = wave(n=100)
    model = sw.KernelRidgeRegressor(KERNEL).fit(X, y, groups=np.repeat(np.arange(20), 5))
    text, stop = said(model)
    assert stop.evidence.rule == "leave-block-out"
    assert "whose error on blocks or groups of rows left out is within" in text


@pytest.mark.parametrize(
    ("rule", "words", "reads_noise"),
    [
        ("auto", "no step predicts rows that were left out clearly better", False),
        ("gcv", "the generalised cross-validation score is smallest without any step", False),
        ("critical", "at this noise level no step is justified", True),
    ],
)
def test_no_step_is_explained_by_what_the_rule_reads(rule, words, reads_noise):
    X = np.random.default_rng(0).uniform(size=(200, 1))
    y = np.random.default_rng(4).normal(size=200)
    estimator = sw.KernelGradientRegressor if reads_noise else sw.KernelRidgeRegressor  # ridge may stop short of a step
    loud, quiet = (said(estimator(KERNEL, rule=rule, noise_std=s).fit(X, y)) for s in (1e3, 0.1))
    assert loud[1].reason is sw.Reason.ZERO
    assert words in loud[0]
    assert ("a smaller noise_std would change that" in loud[0]) is reads_noise
    assert (quiet[1].step_sum > 0) is reads_noise


def test_two_sides_that_differ_in_their_last_digits_are_told_with_these():
    assert explanation._apart(0.1 + 0.2, 0.3) == ("0.30000000000000004", "0.29999999999999999")
    assert explanation._apart(0.25, 0.25) == ("0.25", "0.25")


def test_every_rule_that_minimises_says_what():
    X, y = wave()
    truth = np.sin(6 * X[:, 0])
    rules = {
        "Stein's unbiased estimate of the risk": "sure",
        "the worst risk over the Hilbert ball": "minimax",
        "the error on the held-out rows": sw.rules.HoldOut(0.3),
        "the error against the known truth": sw.rules.Oracle(truth),
    }
    for words, rule in rules.items():
        text, stop = said(sw.KernelRidgeRegressor(KERNEL, rule=rule, noise_std=0.3).fit(X, y))
        assert stop.reason is sw.Reason.MINIMUM
        assert f"{words} is smallest there." in text
    model = sw.KernelRidgeRegressor(KERNEL, rule=sw.rules.Oracle(truth)).fit(X, y)
    near = model.step_sum_ * np.array([1.0, 0.8, 1.25])
    errors = [np.mean((model.path_.fit(at) - truth) ** 2) for at in near]
    assert errors[0] <= min(errors[1:])
    text, stop = said(sw.KernelRidgeRegressor(KERNEL, rule="evidence").fit(X, y))
    assert "minus the log of the evidence is smallest there." in text


@pytest.mark.parametrize(
    ("filter", "words"),
    [
        ("descent", "Gradient descent stopped after 44 steps (step_sum 44)"),
        ("flow", "Gradient flow stopped at a step_sum of "),
        ("nu-method", "The nu-method stopped after 5 steps (step_sum "),
        ("cutoff", "The spectral cut-off stopped at a step_sum of "),
    ],
)
def test_every_filter_is_named_with_its_own_clock(filter, words):
    text, stop = said(sw.KernelGradientRegressor(KERNEL, filter=filter, rule="gcv").fit(*wave()))
    assert text.startswith(words)
    assert f"{stop.step_sum:.4g}" in text
    if stop.iteration is not None:
        assert f"after {stop.iteration} steps" in text


def test_several_responses_have_a_line_each():
    X, y = wave()
    model = sw.KernelGradientRegressor(KERNEL, rule=sw.rules.Fixed(iteration=1)).fit(X, np.column_stack([y, 2 * y]))
    lines = explain(model).splitlines()
    assert [line.split(":")[0] for line in lines] == ["Response 1", "Response 2"]
    assert all("after 1 step (" in line for line in lines)


def test_fits_under_a_loss_are_explained_by_their_own_numbers():
    X, y = wave()
    given = sw.KernelGradientRegressor(KERNEL, loss="huber", rule=sw.rules.Fixed(step_sum=3.0)).fit(X, y)
    assert explain(given) == "The fit is the minimiser at a step_sum of 3, which was given."
    text, stop = said(sw.KernelGradientRegressor(KERNEL, loss="huber").fit(X, y))
    here, allowed, lowest = (
        float(v) for v in re.search(r"loss, ([\d.]+) a row, is within ([\d.]+) .* smallest, ([\d.]+) \(", text).groups()
    )
    assert lowest <= here <= lowest + (allowed * stop.evidence.standard_error) * 1.01
    counts = np.random.default_rng(4).poisson(np.exp(2 * y))
    smallest = sw.rules.Prudent(allowance=0.0)
    text, stop = said(sw.KernelGradientRegressor(KERNEL, loss="poisson", rule=smallest).fit(X, counts))
    assert stop.step_sum == stop.evidence.lowest_step_sum
    assert stop.evidence.lowest == stop.evidence.criterion
    here = float(re.search(r"left-out loss, (-?[\d.]+) a row, is the smallest", text)[1])
    assert here == pytest.approx(stop.evidence.lowest, rel=1e-3)
    constant = replace(stop, reason=sw.Reason.ZERO)
    assert explain(_Stopped(constant)).startswith("The fit is constant")


def test_a_fit_under_a_loss_that_an_interpolated_loss_stopped_is_not_said_to_be_within_the_allowance():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(80, 2))
    y = np.sin(5 * X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=80)
    stop = sw.KernelGradientRegressor(KERNEL, loss="huber").fit(X, y).stop_
    above = stop.evidence.lowest + 0.6 * stop.evidence.standard_error
    later = replace(stop, step_sum=1.1 * stop.evidence.lowest_step_sum)
    for told in (later, replace(stop, evidence=replace(stop.evidence, criterion=above))):
        text = explain(_Stopped(told))
        assert "interpolated between the fits that were made, is within 0.5 standard errors of the smallest" in text
        assert f"here it is {told.evidence.criterion:.4g} a row" in text
        assert "the earliest whose left-out loss, 0" not in text


def test_an_unsettled_spectrum_and_noise_that_varies_are_said():
    X, y = wave(n=300)
    model = sw.KernelRidgeRegressor(KERNEL).fit(X, y)
    bare = replace(model.stop_, reason=sw.Reason.BUDGET, certainty=None)
    assert explain(_with(model, bare)).endswith("budget, and the exact stop may lie elsewhere.")
    assert "residuals are not even" not in explain(model)
    rng = np.random.default_rng(2)
    loud = np.sin(6 * X[:, 0]) + 0.05 * 12 ** X[:, 0] * rng.normal(size=300)
    text = explain(sw.KernelRidgeRegressor(sw.kernels.Gaussian(0.2)).fit(X, loud))
    times = float(re.search(r"up to ([\d.]+) times as large", text)[1])
    assert 4 < times < 30


def test_counts_are_rounded_where_nobody_counts():
    assert rounded(1) == "1"
    assert rounded(12_345) == "12,345"
    assert rounded(17_541_671_059) == "1.8e10"
    assert rounded(3_000_000) == "3.0e6"
    assert [in_steps(count) for count in (0, 1, 2_000)] == ["0 steps", "1 step", "2,000 steps"]
    stop = sw.Stop(1, 0.5, sw.Reason.FIXED)
    assert "Stopped at 1 step, step_sum 0.5" in stop._repr_html_()


@dataclass(frozen=True)
class Own(sw.rules.Rule):
    """A rule that is not ours: it stops at a reading, for a reason."""

    at: float
    reason: sw.Reason
    name: ClassVar[str] = "own"

    def select(self, path, noise_std=None, data=None):
        return sw.rules.stop_at(path.filter, self.at, self.reason, threshold=0.5)


def test_of_a_rule_that_is_not_ours_only_what_it_said_is_said():
    X, y = wave()
    for reason, words in (
        (sw.Reason.THRESHOLD, ": there the criterion of the rule own has reached its threshold."),
        (sw.Reason.MINIMUM, ": the criterion of the rule own is smallest there."),
    ):
        text = explain(sw.KernelRidgeRegressor(KERNEL, rule=Own(3.0, reason)).fit(X, y))
        assert text == f"Ridge stopped at an inverse penalty of 3{words}"
        text = explain(sw.KernelRidgeRegressor(KERNEL, rule=Own(0.0, reason)).fit(X, y))
        assert (
            text == f"Ridge took no step: the rule own asks for none, and the estimate is the constant {y.mean():.4g}."
        )
    assert "noise" not in sw.Reason.THRESHOLD.value


@dataclass(frozen=True)
class Nameless(sw.rules.Rule):
    """What is returned need not be a stop."""

    answer: object

    def select(self, path, noise_std=None, data=None):
        return self.answer


def test_a_rule_that_is_not_ours_has_a_name_and_must_return_a_stop():
    X, y = wave()
    stop = sw.rules.stop_at(sw.filters.Ridge(), 3.0, sw.Reason.MINIMUM)
    assert "the criterion of the rule nameless" in explain(
        sw.KernelRidgeRegressor(KERNEL, rule=Nameless(stop)).fit(X, y)
    )
    with pytest.raises(TypeError, match=r"Nameless.select must return a Stop, as sw.rules.stop_at makes one; got 3.0"):
        sw.KernelRidgeRegressor(KERNEL, rule=Nameless(3.0)).fit(X, y)


@dataclass(frozen=True)
class Twice(sw.filters.Filter):
    """Ridge of what ridge leaves, each at half the clock."""

    def _shrinkage(self, eigenvalues, step_sum):
        return 1 / (1 + step_sum * eigenvalues / 2) ** 2

    def _gain(self, eigenvalues, step_sum):
        return 1 - self._shrinkage(eigenvalues, step_sum)


def test_a_filter_that_is_not_ours_is_called_by_its_name():
    X, y = wave(n=40)
    model = sw.KernelGradientRegressor(KERNEL, filter=Twice(), rule=sw.rules.Fixed(step_sum=50.0)).fit(X, y)
    assert explain(model).startswith("The filter twice stopped at a step_sum of 50: the stop was given")
    ridge = sw.KernelRidgeRegressor(KERNEL, rule=sw.rules.Fixed(step_sum=25.0))
    once = ridge.fit(X, y).predict(X)
    np.testing.assert_allclose(model.predict(X), once + ridge.fit(X, y - once).predict(X), atol=1e-12)


class Components(sw.filters.CutOff):
    """Ours, called otherwise."""


@pytest.mark.parametrize("rule", ["loo", "gcv", "sure"])
@pytest.mark.parametrize("solver", ["dense", "nystrom"])
def test_a_cut_off_called_otherwise_stops_between_the_same_eigenvalues(rule, solver):
    """There alone its criterion changes: where searches went by its name, others were taken for the best."""
    X, y = wave()
    fits = [
        sw.KernelGradientRegressor(KERNEL, filter=filter, rule=rule, solver=solver, noise_std=0.2).fit(X, y)
        for filter in (sw.filters.CutOff(), Components())
    ]
    assert fits[0].stop_.step_sum == fits[1].stop_.step_sum


def test_without_an_allowance_nothing_is_within_it():
    X, y = wave()
    exact = sw.rules.Prudent(allowance=0.0)
    smallest = {
        ": the point whose leave-one-out error is smallest.": sw.KernelRidgeRegressor(KERNEL, rule=exact),
        "at which ridge's leave-one-out error is smallest.": sw.KernelGradientRegressor(KERNEL, rule=exact),
        "left out is smallest.": sw.KernelRidgeRegressor(KERNEL, rule=sw.rules.LeaveBlockOut(6, allowance=0.0)),
        "the smallest on the path.": sw.KernelGradientRegressor(KERNEL, rule=exact, loss="huber"),
    }
    for words, model in smallest.items():
        text = explain(model.fit(X, y))
        assert words in text
        assert "standard errors" not in text


def test_the_default_rule_has_one_name_that_is_accepted():
    model = sw.KernelRidgeRegressor(KERNEL, rule="prudent").fit(*wave())
    assert model.stop_ == sw.KernelRidgeRegressor(KERNEL).fit(*wave()).stop_
    assert model.stop_.evidence.rule == "prudent"
    rows = {row.rule: row for row in sw.compare(*wave(), kernel=KERNEL).rows}
    assert "prudent" in rows
    assert "auto" not in rows


def _with(model, stop):
    """The same model, stopped for another reason."""
    model._fitted = replace(model._fitted, stops=(stop,))
    return model


class _Stopped:
    """A fit under a loss, of which `explain` reads the stop alone."""

    def __init__(self, stop):
        self.stop_ = stop


def test_a_pipeline_is_explained_by_its_last_step():
    X, y = wave()
    pipeline = make_pipeline(StandardScaler(), sw.KernelGradientRegressor(KERNEL))
    with pytest.raises(NotFittedError):
        explain(pipeline)
    assert explain(pipeline.fit(X, y)) == explain(pipeline[-1])


def test_an_unsettled_stop_says_how_much_the_fit_depends_on_it():
    X, y = wave(n=300)
    model = sw.KernelRidgeRegressor(KERNEL, solver="nystrom", n_landmarks=20).fit(X, y)
    certainty = replace(model.stop_.certainty, bracket=(3.0, 40.0))
    text = explain(_with(model, replace(model.stop_, reason=sw.Reason.BUDGET, certainty=certainty)))
    first, last = (model.path_.fit(step_sum) for step_sum in (3.0, 40.0))
    change, left = np.sqrt(np.mean((last - first) ** 2)), np.sqrt(np.mean((y - model.predict(X)) ** 2))
    assert "between step_sum 3 and 40. Between them fitted values change by" in text
    assert text.endswith(f"by {change:.2g} (root mean square, {100 * change / left:.2g}% of what is left of y).")
