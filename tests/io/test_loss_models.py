"""Models under a loss come back from their files exactly, and bent files are refused."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_moons

import stopwise as sw
from stopwise.io.model import describe

KERNEL = sw.kernels.Gaussian(0.7)


@pytest.mark.parametrize("labels", [np.array(["no", "yes"]), np.array([3, 8]), np.array([False, True])])
def test_a_classifier_comes_back_with_its_labels(tmp_path, labels):
    X, y = make_moons(60, noise=0.3, random_state=0)
    model = sw.KernelGradientClassifier(KERNEL, class_weight="balanced").fit(X, labels[y])
    sw.save(model, tmp_path / "model.stopwise")
    again = sw.load(tmp_path / "model.stopwise")
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert np.array_equal(again.predict(X), model.predict(X))
    assert again.stop_ == model.stop_
    assert str(again.calibration_) == str(model.calibration_)


@pytest.mark.parametrize("settings", [{"loss": "huber"}, {"loss": "quantile", "quantile": 0.9}, {"loss": "poisson"}])
def test_a_regressor_under_a_loss_comes_back(tmp_path, settings):
    rng = np.random.default_rng(0)
    X = rng.random((60, 1))
    model = sw.KernelGradientRegressor(KERNEL, **settings).fit(X, rng.poisson(3, 60))
    sw.save(model, tmp_path / "model.stopwise")
    again = sw.load(tmp_path / "model.stopwise")
    assert np.array_equal(again.predict(X), model.predict(X))
    assert again.loss_ == model.loss_


def test_a_file_whose_classes_and_weights_disagree_is_refused(tmp_path):
    from stopwise.io.container import write_container

    X, y = make_moons(40, noise=0.3, random_state=0)
    document, tensors = describe(sw.KernelGradientClassifier(KERNEL).fit(X, y))
    tensors["classes"] = np.array([0, 1, 2])
    document["learned"]["classes"]["shape"] = [3] if "shape" in document["learned"]["classes"] else None
    write_container(tmp_path / "bent.stopwise", document, tensors)
    with pytest.raises(sw.io.ModelFileError if hasattr(sw.io, "ModelFileError") else ValueError, match="usable model"):
        sw.load(tmp_path / "bent.stopwise")
