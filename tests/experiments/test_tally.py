"""Tallies merge to what all trials at once would give, and tables come out the same."""

import numpy as np
import pytest

from stopwise.experiments.claims import Claim, as_json, as_markdown
from stopwise.experiments.tally import Key, as_csv, computed, merged, one, pick, tally, tally_max, tally_ratio
from stopwise.experiments.task import CHUNK, Config

KEY = Key("rules", "mse", 10, "sure", "local", "known", 0.25)


def test_merged_chunks_are_the_whole(rng):
    values = rng.normal(size=100)
    parts = merged([tally(KEY, values[:30]), tally(KEY, values[30:90]), tally(KEY, values[90:])])
    (row,) = [part.row(5) for part in parts]
    assert row.mean == pytest.approx(values.mean(), rel=1e-12)
    assert row.standard_error == pytest.approx(values.std(ddof=1) / 10, rel=1e-12)
    assert (row.trials, row.seed) == (100, 5)


def test_a_ratio_of_means_has_the_error_of_the_delta_method(rng):
    y = rng.uniform(1, 2, size=4000)
    x = 3 * y + rng.normal(size=4000)
    chunks = merged([tally_ratio(KEY, x[:1500], y[:1500]), tally_ratio(KEY, x[1500:], y[1500:])])[0].row(0)
    assert chunks.mean == pytest.approx(x.mean() / y.mean(), rel=1e-12)
    blocks = x.reshape(100, 40).mean(axis=1) / y.reshape(100, 40).mean(axis=1)
    assert chunks.standard_error == pytest.approx(blocks.std(ddof=1) / 10, rel=0.2)


def test_trials_that_share_a_split_count_as_one_draw(rng):
    shared = rng.normal(size=20)[np.arange(200) % 20]
    row = tally(KEY, shared, groups=np.arange(200) % 20).row(0)
    assert row.standard_error == pytest.approx(shared[:20].std(ddof=1) / np.sqrt(20), rel=1e-12)
    assert row.trials == 200


def test_the_largest_is_kept_and_a_value_comes_once():
    assert merged([tally_max(KEY, np.array([1.0, 3.0])), tally_max(KEY, np.array([2.0]))])[0].row(0).mean == 3.0
    with pytest.raises(ValueError, match="came twice"):
        merged([computed(KEY, 1.0), computed(KEY, 1.0)])
    assert computed(KEY, 1.0).row(0).standard_error == 0.0


def test_a_single_draw_has_no_standard_error():
    assert tally(KEY, np.array([1.0])).row(0).standard_error is None


def test_the_table_is_tidy_and_rows_are_found_by_their_columns():
    rows = [computed(KEY, 1 / 3).row(7), tally(Key("path", "error", 100, at=3.0), np.array([1.0, 2.0])).row(7)]
    lines = as_csv(rows).splitlines()
    assert lines[0] == (
        "experiment,quantity,kernel,n,rule,reading,noise,alpha,at,mean,standard_error,exact,trials,seed"
    )
    assert lines[1] == "rules,mse,sobolev1,10,sure,local,known,0.25,,0.3333333333,0,,0,7"
    assert pick(rows, experiment="path", n=(100, 200)) == rows[1:]
    with pytest.raises(LookupError, match="0 rows"):
        one(rows, rule="gcv")


def test_claims_are_written_for_machines_and_for_people():
    claim = Claim("k", "a | b", "Fig. 1", "1.0", "holds", command="stopwise reproduce path")
    assert '"verdict": "holds"' in as_json([claim])
    assert "| a \\| b | Fig. 1 | 1.0 | **holds** | `stopwise reproduce path` |" in as_markdown([claim], "about")


def test_chunks_cover_all_trials_and_none_is_a_single_one():
    for trials in (2, CHUNK, CHUNK + 1, CHUNK + 2, 10_000):
        sizes = [size for _, size in Config(trials=trials).chunks()]
        assert sum(sizes) == trials
        assert min(sizes) >= 2


@pytest.mark.parametrize(
    ("options", "message"),
    [({"trials": 1}, "at least 2"), ({"sizes": (2,)}, "between 4 and 3000"), ({"alphas": (1.5,)}, "at most 1")],
)
def test_a_configuration_out_of_bounds_says_the_bound(options, message):
    with pytest.raises(ValueError, match=message):
        Config(**options)
