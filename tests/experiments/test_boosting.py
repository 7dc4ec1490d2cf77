"""Kernel boosting as published: products by running sums, iterates of plain descent, and verdicts from rows."""

import numpy as np

from stopwise.experiments import boosting
from stopwise.experiments.runner import run
from stopwise.experiments.task import Config


def test_products_are_those_of_the_matrix():
    x = np.arange(1, 31) / 30
    block = np.random.default_rng(0).normal(size=(30, 4))
    matrix = (1 + np.minimum.outer(x, x)) / 30
    assert np.allclose(boosting.product(x, block), matrix @ block)


def test_errors_are_those_of_plain_descent():
    x = np.arange(1, 21) / 20
    truth, matrix = np.abs(x - 0.5) - 0.25, (1 + np.minimum.outer(x, x)) / 20
    draws = boosting.generator(3, boosting.NAME, 20, 1, 0).random((20, 2))
    y = np.where(draws < 1 / (1 + np.exp(-truth[:, None])), 1.0, -1.0)
    f = np.zeros((20, 2))
    for _ in range(boosting.stops(20)[0]):
        f += 0.75 * matrix @ (y / (1 + np.exp(y * f)))
    found = boosting.chunk("logistic", 20, 0.75, 3, 0, 2)[0]
    assert np.isclose(found.value, ((f - truth[:, None]) ** 2).mean())


def test_a_small_run_has_a_verdict_on_every_claim():
    outcome = run(["boosting"], Config(trials=10, sizes=(10, 20)))
    assert len(outcome.claims) == 4
    assert {claim.verdict for claim in outcome.claims} <= {"holds", "does not hold", boosting.UNTOLD}
