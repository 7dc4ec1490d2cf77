"""What RWY14's discussion leaves open: every rule where its assumptions fail, in units of the oracle's error."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from stopwise import rules
from stopwise._support.arrays import Array
from stopwise.experiments.batched_stops import errors
from stopwise.experiments.claims import FAILS, Claim, under
from stopwise.experiments.setting import (
    Noise,
    Setting,
    correlated_noise,
    descent,
    equispaced,
    gaussian_noise,
    generator,
    heavy_noise,
    tent,
)
from stopwise.experiments.tally import Key, Row, Tally, pick, tally, tally_ratio
from stopwise.experiments.task import Config, Task, by_chunk
from stopwise.experiments.trials import draw_trials
from stopwise.rules import Rule

NAME = "robustness"
SIZES = (100,)


def jump(x: Array) -> Array:
    """A step of height 1 at one half: outside every Sobolev space."""
    return np.where(x > 0.5, 1.0, 0.0)


@dataclass(frozen=True)
class Scenario:
    """One way in which the rule's assumptions (radius 1, truth in the space, normal noise, sigma known) fail."""

    name: str
    truth: Callable[[Array], Array] = tent
    radius: float = 1.0
    noise: Noise = gaussian_noise
    told: float = 1.0


SCENARIOS = (
    Scenario("as assumed"),
    Scenario("radius 0.1", radius=0.1),
    Scenario("radius 10", radius=10.0),
    Scenario("truth outside", truth=jump),
    Scenario("heavy tails", noise=heavy_noise),
    Scenario("autocorrelated", noise=correlated_noise),
    Scenario("noise told half", told=0.5),
    Scenario("noise told double", told=2.0),
)

RULES: tuple[tuple[Rule, str], ...] = (
    (rules.Critical(), "constant 2e, radius 1"),
    (rules.Critical(hilbert_radius="auto"), "constant 2e, radius auto"),
    (rules.Critical(hilbert_radius="self"), "radius self"),
    (rules.Minimax(1.0), "radius 1"),
    (rules.Minimax(), "radius auto"),
    (rules.SURE("local"), "local"),
    (rules.SURE(), "global"),
    (rules.GCV(), "global"),
    (rules.LeaveOneOut(), "global"),
    (rules.Discrepancy(), "first"),
    (rules.HoldOut(), "global, random, refit"),
    (rules.Prudent(), "the default"),
    (rules.MarginalLikelihood(), "of ridge"),
)


def tasks(config: Config) -> list[Task]:
    """A chunk of trials for each scenario."""
    alpha = (config.alphas or (0.25,))[0]
    each = product(config.sizes or SIZES, range(len(SCENARIOS)))
    return [task for n, which in each for task in by_chunk(config, NAME, chunk, n, which, alpha, config.extra_rules)]


def chunk(n: int, which: int, alpha: float, extra: Sequence[Rule], seed: int, index: int, size: int) -> list[Tally]:
    """The error of every rule over that of the oracle (global minimum) on the same responses."""
    scenario, x = SCENARIOS[which], equispaced(n)
    setting = Setting(x, scenario.radius * scenario.truth(x), noise=scenario.noise)
    drawn = draw_trials(setting, descent(alpha), generator(seed, f"{NAME} {scenario.name}", n, index), size)
    trials = replace(drawn, told=np.full(size, scenario.told), memory={})
    rival = errors(rules.Oracle(setting.truth), trials)[1]
    found = [tally(_key("mse", n, "oracle", "global", scenario, alpha), rival)]
    for rule, reading in [*RULES, *((rule, "as given") for rule in extra)]:
        squared = errors(rule, trials)[1]
        found.append(tally_ratio(_key("mse / oracle", n, rule.name, reading, scenario, alpha), squared, rival))
    return found


def _key(quantity: str, n: int, rule: str, reading: str, scenario: Scenario, alpha: float) -> Key:
    return Key(NAME, quantity, n, rule, reading, scenario.name, alpha)


def claims(rows: Sequence[Row]) -> list[Claim]:
    """Whether the rivals are the more robust, as the paper supposes they might be."""
    n = max(row.n for row in rows)
    table = {(r.noise, r.rule, r.reading): r for r in pick(rows, quantity="mse / oracle", n=n)}
    ours = {name: table[name, "critical", "constant 2e, radius 1"] for name in {key[0] for key in table}}
    found = []
    for key, claim, name in (
        ("robust-radius", "Hold-out and SURE stand a misjudged Hilbert radius better than the rule", "radius 10"),
        ("robust-outside", "Hold-out and SURE stand a truth outside the space better", "truth outside"),
        ("robust-noise", "Hold-out and SURE stand a misjudged noise level better", "noise told half"),
        ("robust-correlation", "Hold-out and SURE stand correlated noise better", "autocorrelated"),
    ):
        rivals = {"SURE": table[name, "sure", "global"], "hold-out": table[name, "holdout", "global, random, refit"]}
        better = [word for word, row in rivals.items() if row.mean < ours[name].mean]
        seen = ", ".join(f"{word} {_times(row)}" for word, row in {"rule": ours[name], **rivals}.items())
        seen = f"n = {n}, {name}: {seen}"
        seen += f", discrepancy {_times(table[name, 'discrepancy', 'first'])}"
        seen += f", rule with the fit's own norm {_times(table[name, 'critical', 'radius self'])}"
        verdict = "holds" if len(better) == 2 else under(f"{better[0]} alone") if better else FAILS
        numbers = {"rule": ours[name].mean} | {word: row.mean for word, row in rivals.items()}
        found.append(Claim(key, claim, "text after Fig. 3; discussion", seen, verdict, numbers))
    return found


def _times(row: Row) -> str:
    return f"{row.mean:.2f} (s.e. {row.standard_error or 0:.1g}) times the oracle"
