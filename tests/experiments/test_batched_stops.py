"""Stops for many trials at once are the stops of each trial by itself."""

import numpy as np
import pytest

import reference
import stopwise as sw
from stopwise.experiments.batched_stops import errors, stops
from stopwise.experiments.setting import Setting, descent, equispaced, fig_setting, generator, tent
from stopwise.experiments.trials import draw_trials
from stopwise.rules.search import first_true_each, minimise_each

rules = sw.rules


def some_trials(n=24, alpha=1.0, count=12, seed=3):
    return draw_trials(fig_setting(n), descent(alpha), generator(seed, "test", n), count, n_splits=3)


def one_by_one(rule, trials):
    """What the fallback for unknown rules does: ask `select` for each trial."""
    return stops.dispatch(object)(rule, trials)


EXACT = [
    rules.Critical(),
    rules.Critical(1.0),
    rules.Critical(hilbert_radius="auto"),
    rules.Critical(hilbert_radius="self"),
    rules.Minimax(1.0),
    rules.Minimax(),
    rules.Discrepancy(),
    *[cls(reading=reading) for cls in (rules.SURE, rules.GCV) for reading in ("local", "literal", "global")],
]


@pytest.mark.parametrize("rule", EXACT, ids=repr)
@pytest.mark.parametrize("estimated", [False, True], ids=["known", "estimated"])
def test_batched_stops_are_those_of_select(rule, estimated):
    trials = some_trials(alpha=0.25)
    if estimated:
        trials = trials.told_by(sw.noise.HallMarron())
    np.testing.assert_allclose(stops(rule, trials), one_by_one(rule, trials), rtol=1e-12)


@pytest.mark.parametrize("reading", ["local", "literal", "global"])
def test_the_batched_oracle_is_the_oracle(reading):
    trials = some_trials(alpha=0.25)
    rule = rules.Oracle(trials.setting.truth, reading)
    np.testing.assert_allclose(stops(rule, trials), one_by_one(rule, trials), rtol=1e-12)


def test_the_default_seldom_leaves_the_constant_fit_where_there_is_next_to_no_signal():
    """Radius 0.1 of the robustness table: the best fit errs by .0005, and a degree of freedom costs .01."""
    x = equispaced(100)
    trials = draw_trials(Setting(x, 0.1 * tent(x)), descent(0.25), generator(0, "robustness radius 0.1", 100, 0), 1000)
    chosen, squared = errors(rules.Prudent(), trials)
    best = errors(rules.Oracle(trials.setting.truth), trials)[1]
    assert np.mean(chosen == 0) > 0.85
    assert squared.mean() < 10 * best.mean()
    some = np.flatnonzero(chosen > 0)[:40]
    single = [rules.Prudent().select(trials.path.column(j), 1.0, trials.data(j)).step_sum for j in some]
    assert np.mean(np.array(single) > 0) > 0.9  # `select` looks at every eighth reading first


@pytest.mark.parametrize("split", ["odd-even", "random", "halves"])
@pytest.mark.parametrize("reading", ["local", "literal", "global"])
def test_a_batched_hold_out_errs_like_one_trial_at_a_time(split, reading):
    """The search is coarser where errors are flat, so errors are compared rather than stops."""
    trials = some_trials()
    rule = rules.HoldOut(reading=reading, split=split)
    batched, single = trials.errors(stops(rule, trials)), trials.errors(one_by_one(rule, trials))
    np.testing.assert_allclose(batched, single, rtol=2e-2)


def test_held_out_errors_are_those_of_the_descent_run_step_by_step():
    trials = some_trials(n=12, count=2)
    x, y = trials.setting.x[:, None], trials.responses
    train, test = rules.HoldOut(split="odd-even").rows(12, 0)
    slow = reference.holdout_scores(reference.sobolev(1), x, y[:, 1], train, test, [1.0] * 8)
    half = trials.half(train, test, np.arange(2))
    np.testing.assert_allclose(half.error(np.array([1]), np.arange(9.0))[:, 0], slow, rtol=1e-10)
    fits = half.fit(np.array([3.0, 5.0]))
    weights = reference.descent_omega(reference.gram(reference.sobolev(1), x[train]) / 6, y[train, 1], [1.0] * 5)[-1]
    expected = reference.gram(reference.sobolev(1), x, x[train]) @ weights / np.sqrt(6)
    np.testing.assert_allclose(fits[:, 1], expected, rtol=1e-10)


def test_errors_are_those_of_the_descent_run_step_by_step():
    trials = some_trials(n=12, count=3)
    K = reference.gram(reference.sobolev(1), trials.setting.x[:, None]) / 12
    counts = np.array([0, 4, 9])
    slow = [
        np.mean((reference.descent_fits(K, trials.responses[:, j], [1.0] * 9)[t] - trials.setting.truth) ** 2)
        for j, t in enumerate(counts)
    ]
    np.testing.assert_allclose(trials.errors(counts.astype(float)), slow, rtol=1e-11)


def test_without_a_refit_the_error_is_that_of_the_training_half():
    trials = some_trials(n=16, count=4)
    rule = rules.HoldOut(refit=False, reading="local", split="odd-even")
    step_sums, squared = errors(rule, trials)
    for j in range(4):
        model = sw.KernelGradientRegressor.as_published(
            "sobolev1", noise_std=1.0, schedule=sw.schedules.Constant(1.0)
        ).set_params(rule=rule)
        fit = model.fit(trials.setting.x[:, None], trials.responses[:, j]).predict(trials.setting.x[:, None])
        assert model.step_sum_ == step_sums[j]
        assert squared[j] == pytest.approx(np.mean((fit - trials.setting.truth) ** 2), rel=1e-9)


def test_a_first_rise_is_found_wherever_it_is():
    """Planted minima, some past the iterations that are looked at one by one."""
    path = some_trials(n=10).path
    planted = np.array([0.0, 1.0, 31.0, 32.0, 33.0, 500.0, 5_000.0])

    def bowl(columns, step_sum):
        return (np.log1p(step_sum)[:, None] - np.log1p(planted[columns])) ** 2

    np.testing.assert_array_equal(minimise_each(path, planted.size, bowl, "local"), planted)
    np.testing.assert_array_equal(minimise_each(path, planted.size, bowl, "global"), planted)
    literal = minimise_each(path, planted.size, bowl, "literal")
    np.testing.assert_array_equal(literal, np.maximum(planted - 1, 0))


def test_a_criterion_that_never_rises_ends_at_the_cap():
    path = some_trials(n=10).path
    falling = minimise_each(path, 2, lambda c, s: -np.log1p(s)[:, None] * np.ones(c.size), "local")
    np.testing.assert_array_equal(falling, np.full(2, path.filter.snap(path.step_sum_cap)))


def test_a_first_crossing_is_found_and_a_missing_one_is_nan():
    path = some_trials(n=10).path
    planted = np.array([1.0, 7.0, 900.0, np.inf])
    found = first_true_each(path, 4, lambda c, s: s[:, None] >= planted[c])
    np.testing.assert_array_equal(found, [1.0, 7.0, 900.0, np.nan])


def test_searches_that_count_iterations_say_so():
    path = fig_setting(10).path(sw.filters.Ridge())
    with pytest.raises(TypeError, match="ridge filter has none"):
        minimise_each(path, 1, lambda c, s: s[:, None])
