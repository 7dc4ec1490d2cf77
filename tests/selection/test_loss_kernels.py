"""Kernels for classes: where features are skewed, the search proposes as many more with them drawn in."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss

import stopwise as sw
from stopwise.kernels import Warped
from stopwise.kernels.base import parts


def buyers(n, seed):
    """Labels by a smooth function of the logarithms of two skewed features."""
    rng = np.random.default_rng(seed)
    logs = rng.normal(size=(n, 2)) * (1.2, 0.9)
    odds = 3 * np.sin(logs[:, 0]) + 2 * logs[:, 1]
    return np.exp(logs) * (1e4, 3.0), (rng.random(n) < 1 / (1 + np.exp(-odds))).astype(int)


def tried_with_loss(model):
    return [row for row in model.selection_ if row.get("left_out_loss") is not None]


def test_skewed_features_are_drawn_in_where_the_loss_is_lower(tmp_path):
    (X, y), (new, truth) = buyers(250, 0), buyers(1000, 1)
    model = sw.KernelGradientClassifier().fit(X, y)
    assert isinstance(model.kernel_, Warped)
    assert "drawn in" in model.selection_.reason
    assert [row["power"] for row in model.selection_.features] == list(model.kernel_.power)
    loss, plain, by_logs = (
        log_loss(truth, fitted.predict_proba(rows))
        for fitted, rows in (
            (model, new),
            (sw.KernelGradientClassifier("gaussian").fit(X, y), new),
            (sw.KernelGradientClassifier().fit(np.log(X), y), np.log(new)),
        )
    )
    assert loss < 0.97 * plain
    assert loss < 1.05 * by_logs
    sw.save(model, tmp_path / "m.stopwise")
    assert np.array_equal(sw.load(tmp_path / "m.stopwise").predict_proba(new), model.predict_proba(new))


def test_length_scales_are_told_in_the_units_that_the_kernel_sees():
    X, y = buyers(250, 0)
    X = np.column_stack([X[:, 0], np.full(250, 7.0), X[:, 1]])
    model = sw.KernelGradientClassifier(relevance=False).fit(X, y)
    seen = model.kernel_.places(X[:, [0, 2]])
    told = [row for row in model.selection_.features if row["used"]]
    assert [row["feature"] for row in told] == [0, 2]
    np.testing.assert_allclose([row["spread"] for row in told], seen.std(axis=0))
    np.testing.assert_allclose([row["length_scale"] for row in told], model.kernel_.inner.length_scale)


def test_as_many_more_kernels_are_tried_and_none_where_no_feature_is_skewed():
    X, y = buyers(250, 0)
    skewed, even = (tried_with_loss(sw.KernelGradientClassifier().fit(rows, y)) for rows in (X, np.log(X)))
    assert sum(row["kernel"].startswith("warped") for row in skewed) == len(skewed) / 2
    assert not any(row["kernel"].startswith("warped") for row in even)


@pytest.mark.parametrize("kernel", ["gaussian", sw.kernels.Gaussian(1e4)])
def test_a_kernel_asked_for_sees_features_as_they_are(kernel):
    assert not isinstance(sw.KernelGradientClassifier(kernel).fit(*buyers(120, 0)).kernel_, Warped)


@pytest.mark.parametrize(
    "model",
    [
        sw.KernelGradientClassifier(),
        sw.KernelGradientClassifier("gaussian", relevance=True),
        sw.KernelGradientRegressor(loss="poisson"),
    ],
    ids=str,
)
def test_levels_of_text_share_one_length_scale_as_under_squares(model):
    """A constant column before them is dropped, so that their numbers among the kept columns are others."""
    rng = np.random.default_rng(0)
    kinds = rng.choice(["red", "green", "blue", "white"], size=150, p=[0.5, 0.3, 0.15, 0.05])
    frame = pd.DataFrame({"flat": 1.0, "a": rng.normal(size=150), "kind": kinds, "b": rng.lognormal(size=150)})
    mean = np.sin(2 * frame["a"]) + frame["kind"].map({"red": 0, "green": 1, "blue": -1, "white": 2})
    y = rng.poisson(np.exp(mean))
    model.fit(frame, np.where(y > 1, "many", "few") if "Classifier" in str(model) else y)
    flat, a, *levels, b = model.selection_.features
    assert not flat["used"]
    assert len(levels) == 4
    for told in ("length_scale", "relevance", "spread"):
        assert len({row[told] for row in levels}) == 1
    assert len({row["length_scale"] for row in (a, b, levels[0])}) == 3
    for part in parts(model.kernel_):
        scales = np.broadcast_to(getattr(part.core, "length_scale", 1.0), 6)
        assert np.ptp(scales[1:5]) == 0


def test_a_sum_of_kernels_is_told_without_a_length_scale_of_its_own(tmp_path):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(150, 3))
    y = rng.poisson(np.exp(np.sin(2 * X[:, 0]) + 0.5 * np.abs(X[:, 1])))
    model = sw.KernelGradientRegressor(loss="poisson").fit(X, y)
    assert "+" in model.selection_.chosen["kernel"]
    assert model.selection_.chosen["length_scale"] is None
    assert "nan" not in str(model.selection_)
    sw.save(model, tmp_path / "m.stopwise")
    assert sw.load(tmp_path / "m.stopwise").selection_ == model.selection_


def test_counts_see_features_as_they_are():
    X, y = buyers(250, 0)
    model = sw.KernelGradientRegressor(loss="poisson").fit(X, y)
    assert not any(row["kernel"].startswith("warped") for row in tried_with_loss(model))


def test_neither_units_nor_the_order_of_rows_nor_copies_for_weights_change_a_fit():
    X, y = buyers(120, 2)
    new, rng = buyers(60, 3)[0], np.random.default_rng(0)
    times = rng.integers(1, 4, size=120)
    model = sw.KernelGradientClassifier().fit(X, y, sample_weight=times)
    assert isinstance(model.kernel_, Warped)
    copied = rng.permutation(np.repeat(np.arange(120), times))
    again = sw.KernelGradientClassifier().fit(X[copied], y[copied])
    np.testing.assert_allclose(again.predict_proba(new), model.predict_proba(new), atol=1e-6)
    other = sw.KernelGradientClassifier().fit(X * (1e-3, 64.0) + 8.0, y, sample_weight=times)
    np.testing.assert_allclose(other.predict_proba(new * (1e-3, 64.0) + 8.0), model.predict_proba(new), atol=1e-4)
