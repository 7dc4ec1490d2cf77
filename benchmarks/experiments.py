"""How much faster is the rules experiment than the same rules as plain loops?

    python benchmarks/experiments.py [--trials 500] [--slow-trials 4] [--out FILE]

One run measures both on the same sample sizes (10, ..., 100, 200, 300), step 1, one reading of each rule: the critical
rule, minimax, hold-out, SURE, GCV, discrepancy and the oracle. The loops are in tests/helpers/reference.py: the descent
is run step by step and each criterion is a matrix formula on each iterate. What depends on the design alone (Gram and
hat matrices, the stops of the critical rule and of minimax) is made once and not timed, which favours the loops; on our
side everything is timed. Both see the same responses, and `same` is the share of errors on which they agree (the loops
give up after 400 iterations). Processor time, one thread.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "helpers"))

import reference
import stopwise as sw
from stopwise.experiments.batched_stops import errors
from stopwise.experiments.rules import ONE_EACH, compare, entries
from stopwise.experiments.setting import FIG3_SIZES, descent, fig_setting, generator
from stopwise.experiments.trials import draw_trials

LIMIT = 400
"""Iterations the loops may take: where a criterion has not turned by then, they stop there."""


class Loops:
    """The seven rules on one design, written out."""

    def __init__(self, n):
        self.setting = fig_setting(n)
        self.X = self.setting.x[:, None]
        self.K = reference.gram(reference.sobolev(1), self.X) / n
        self.values, vectors = reference.eigenpairs(self.K)
        self.shrinkages = [np.prod([1 - self.values] * t, axis=0) if t else np.ones(n) for t in range(LIMIT + 1)]
        self.hats = [vectors @ np.diag(1 - left) @ vectors.T for left in self.shrinkages]
        self.train, self.test = sw.rules.HoldOut(split="odd-even").rows(n, 0)
        self.inner = reference.gram(reference.sobolev(1), self.X[self.train]) / len(self.train)
        self.outer = reference.gram(reference.sobolev(1), self.X, self.X[self.train]) / np.sqrt(len(self.train))
        scores = reference.minimax_scores(self.values, self.shrinkages, 1.0, 1.0)
        self.settled = {
            "critical": reference.stopping_time(self.values, [1.0] * LIMIT, 1.0),
            "minimax": reference.lowest(scores),
        }

    def trial(self, y):
        """The error of each rule on one response."""
        truth, steps = self.setting.truth, [1.0] * LIMIT
        fits = reference.descent_fits(self.K, y, steps)
        chosen = {
            **self.settled,
            "sure": self.first_rise(lambda t: reference.sure(self.hats[t], y, 1.0)),
            "gcv": self.first_rise(lambda t: reference.gcv(self.hats[t], y)),
            "discrepancy": reference.discrepancy([np.mean((y - fit) ** 2) for fit in fits], 1.0),
            "oracle": self.first_rise(lambda t: np.mean((fits[t] - truth) ** 2)),
        }
        found = {name: np.mean((fits[LIMIT if t is None else t] - truth) ** 2) for name, t in chosen.items()}
        omegas = reference.descent_omega(self.inner, y[self.train], steps)
        held = self.first_rise(lambda t: np.mean((y[self.test] - self.outer[self.test] @ omegas[t]) ** 2))
        return {**found, "holdout": np.mean((self.outer @ omegas[held] - truth) ** 2)}

    @staticmethod
    def first_rise(score):
        """The first t with score(t + 1) > score(t), without looking past it."""
        before = score(0)
        for t in range(LIMIT):
            after = score(t + 1)
            if after > before:
                return t
            before = after
        return LIMIT


def fast_seconds(n, trials):
    """Seconds for one trial of all seven rules, vectorised, the design's own work included."""
    started = time.process_time()
    setting = fig_setting(n)
    compare(drawn(setting, trials), one_each(setting), "known", 1.0)
    return (time.process_time() - started) / trials


def slow_seconds(n, trials):
    """Seconds for one trial as loops, and the share of errors that are ours."""
    loops = Loops(n)
    batch = drawn(loops.setting, trials)
    started = time.process_time()
    found = [loops.trial(y) for y in batch.responses.T]
    seconds = (time.process_time() - started) / trials
    ours = {entry.rule.name: errors(entry.rule, batch)[1] for entry in one_each(loops.setting)}
    same = [np.isclose(one[name], ours[name][j], rtol=1e-6) for j, one in enumerate(found) for name in one]
    return seconds, float(np.mean(same))


def one_each(setting):
    """One reading of each rule: those that the figure draws."""
    return [entry for entry in entries(setting) if ONE_EACH.get(entry.rule.name) == entry.reading]


def drawn(setting, trials):
    """The same first responses whatever the number of trials."""
    return draw_trials(setting, descent(1.0), generator(0, "benchmark", setting.n), trials)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=500)
    parser.add_argument("--slow-trials", type=int, default=4)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    table, totals = [], np.zeros(2)
    print(f"{'n':>5} {'loops, ms':>12} {'ours, ms':>12} {'ratio':>8} {'same':>6}   (one trial, seven rules)")
    with threadpool_limits(1):
        for n in FIG3_SIZES:
            slow, same = slow_seconds(n, options.slow_trials)
            fast = fast_seconds(n, options.trials)
            totals += slow, fast
            table.append({"n": n, "loops_ms": 1e3 * slow, "ours_ms": 1e3 * fast, "ratio": slow / fast, "same": same})
            print(f"{n:>5} {1e3 * slow:>12.2f} {1e3 * fast:>12.4f} {slow / fast:>8.0f} {same:>6.2f}")
    print(f"{'all':>5} {1e3 * totals[0]:>12.2f} {1e3 * totals[1]:>12.4f} {totals[0] / totals[1]:>8.0f}")
    if options.out:
        options.out.write_text(json.dumps({"rows": table, "ratio": totals[0] / totals[1]}, indent=2) + "\n")


if __name__ == "__main__":
    main()
