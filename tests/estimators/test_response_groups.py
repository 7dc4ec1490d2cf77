"""Several responses: a kernel each, unless they are predicted better by one that they share."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone

import stopwise as sw
from stopwise.estimators.prediction.response_groups import groups_of
from stopwise.views.facts import describe

pytestmark = pytest.mark.filterwarnings("ignore::stopwise.estimators.doubts.TrustWarning")


def unlike(n=90, seed=0):
    """A wave along one feature, a bend along another, and a constant."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + 40, 3))
    truth = np.column_stack([np.sin(4 * X[:, 0]), np.exp(-(X[:, 1] ** 2)) + 0.2 * X[:, 2], np.full(len(X), 3.0)])
    y = truth + 0.1 * rng.normal(size=truth.shape) * [1, 1, 0]
    return X[:n], y[:n], X[n:]


def alike(n=70, seed=1):
    """One wave across two of ten features, measured four times."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 10))
    return X, (np.sin(2 * X[:, 0]) + np.abs(X[:, 1]))[:, None] + 0.7 * rng.normal(size=(n, 4))


@pytest.fixture(scope="module")
def fitted():
    X, y, new = unlike()
    return X, y, new, sw.KernelGradientRegressor().fit(X, y)


def test_unlike_responses_are_each_fitted_as_if_alone(fitted):
    X, y, new, model = fitted
    both, std = model.predict(new, return_std=True)
    ends = model.predict_interval(new, 0.8)
    for j in range(2):
        alone = sw.KernelGradientRegressor().fit(X, y[:, j])
        one, its_std = alone.predict(new, return_std=True)
        assert np.allclose(both[:, j], one, rtol=1e-9)
        assert np.allclose(std[:, j], its_std, rtol=1e-9)
        assert np.allclose(ends[:, j], alone.predict_interval(new, 0.8), rtol=1e-9)
        assert model.stop_[j].iteration == alone.stop_.iteration
        assert model.kernel_[j] == alone.kernel_
        assert model.noise_std_[j] == pytest.approx(alone.noise_std_, rel=1e-9)
    assert model.kernel_[0] != model.kernel_[1]
    assert np.allclose(both[:, 2], 3.0)


def test_what_was_learned_adds_up_to_the_predictions(fitted):
    X, _, new, model = fitted
    assert model.X_fit_.shape == X.shape
    assert model.dual_coef_.shape == (len(X), 3)
    slopes = np.zeros((3, 3)) if model.linear_coef_ is None else model.linear_coef_
    for j, kernel in enumerate(model.kernel_):
        values = kernel(new, model.X_fit_) @ model.dual_coef_[:, j] + model.intercept_[j] + new @ slopes[:, j]
        assert np.allclose(values, model.predict(new)[:, j])
        assert np.allclose(model.path_[j].fit(), model.predict(X)[:, j])


def test_responses_that_share_their_features_share_a_kernel():
    X, y = alike()
    model = sw.KernelGradientRegressor().fit(X, y)
    together = max(model.kernel_.count(kernel) for kernel in model.kernel_) if groups_of(model) else 4
    assert together >= 3


def test_a_kernel_that_was_given_is_shared(fitted):
    X, y, _, _ = fitted
    assert groups_of(sw.KernelRidgeRegressor("matern32", relevance=False).fit(X, y[:, [0, 0]])) is None
    assert groups_of(sw.KernelRidgeRegressor(sw.kernels.Gaussian(1.0)).fit(X, y)) is None


def test_on_a_line_every_response_has_its_own_length_scale():
    x = np.linspace(0, 1, 400)[:, None]
    noise = 0.1 * np.random.default_rng(0).normal(size=(400, 2))
    y = np.column_stack([np.sin(3 * x[:, 0]), np.sin(60 * x[:, 0])]) + noise
    model = sw.KernelRidgeRegressor().fit(x, y)
    slow, quick = (float(np.ravel(kernel.length_scale)[0]) for kernel in model.kernel_)
    assert slow > 3 * quick
    assert np.array_equal(model.predict(x)[:, 1], sw.KernelRidgeRegressor().fit(x, y[:, 1]).predict(x))
    assert len(model.alpha_) == 2


def test_files_copies_and_pickles_predict_the_same(fitted, tmp_path):
    _, _, new, model = fitted
    sw.save(model, tmp_path / "m.stopwise")
    for again in (sw.load(tmp_path / "m.stopwise"), pickle.loads(pickle.dumps(model)), model.to("cpu")):
        assert np.array_equal(again.predict(new), model.predict(new))
        assert np.allclose(again.predict_interval(new), model.predict_interval(new), rtol=1e-9)
        assert again.kernel_ == model.kernel_
        assert again.stop_ == model.stop_
    assert not hasattr(clone(model), "_fitted")


def test_reports_and_sentences_tell_of_every_response(fitted, tmp_path):
    X, y, _, model = fitted
    told = sw.explain(model).splitlines()
    assert [line.split(":")[0] for line in told] == ["Response 1", "Response 2", "Response 3"]
    facts = describe(model)
    assert facts["kernel"] == [kernel.name for kernel in model.kernel_]
    assert len(facts["rmse_loo"]) == len(facts["step_sum"]) == len(facts["degrees_of_freedom"]) == 3
    alone = describe(sw.KernelGradientRegressor().fit(X, y[:, 1]))
    assert facts["rmse_loo"][1] == pytest.approx(alone["rmse_loo"])
    sw.report(model, tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8").count("<option") == 3
    assert model.kernel_[0].name in model._repr_html_inner()


def test_new_responses_take_the_place_of_the_old(fitted):
    _, y, new, model = fitted
    again = pickle.loads(pickle.dumps(model)).refit(2 * y)
    assert np.allclose(again.predict(new), 2 * model.predict(new))
    assert again.kernel_ == model.kernel_
    with pytest.raises(ValueError, match="as many columns as before, 3"):
        again.refit(y[:, 0])
    assert np.allclose(again.predict(new), 2 * model.predict(new))


def test_rows_far_off_are_told_of_once(fitted):
    X, y, _, _ = fitted
    model = sw.KernelGradientRegressor().fit(X, y)
    with pytest.warns(sw.exceptions.ExtrapolationWarning) as told:
        model.predict(X + 100)
    assert len(told) == 1
