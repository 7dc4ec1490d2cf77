"""Every parameter and method of the estimators: a setting without a meaning is refused by name, before any result."""

import numpy as np
import pytest

import stopwise as sw
from hostile import KERNEL, NAMES, X, refused, rows, watchdog, y

BOTH = r"""
fit("auto", rule=None) | "discrepancy", "holdout", "evidence", "auto", "prudent" or a sw.rules instance; got None
fit("auto", rule=1.0) | "discrepancy", "holdout", "evidence", "auto", "prudent" or a sw.rules instance; got 1.0
fit("auto", rule=r.GCV) | or a sw.rules instance; got <class 'stopwise.rules.risk.GCV'>
fit("auto", rule=r.Oracle([1.0])) | truth must be one value per training row, 20; got (1,)
fit("auto", noise_std=nan) | noise_std must be a positive, finite standard deviation, got nan
fit("auto", noise_std="loud") | noise_std must be a positive number ... got 'loud'
fit("auto", noise_std="rice") | Rice orders rows along 1 covariate, got 2
fit("auto", noise_std="gsjs") | GasserSrokaJennen orders rows along 1 covariate, got 2
fit("auto", noise_std=z.SpectralTail(50)) | leading must lie between 0 and n - 1 = 19, got 50
fit("auto", relevance="yes") | 'relevance' parameter of ... Got 'yes'
fit("auto", relevance=None) | 'relevance' parameter of ... Got None
fit("auto", relevance=1) | 'relevance' parameter of ... Got 1
fit("auto", fit_intercept=None) | 'fit_intercept' parameter of ... Got None
fit("auto", fit_intercept=1) | 'fit_intercept' parameter of ... Got 1
fit("auto", fit_intercept="no") | 'fit_intercept' parameter of ... Got 'no'
fit("auto", solver=None) | 'solver' parameter of ... Got None
fit("auto", solver="gpu") | 'solver' parameter of ... Got 'gpu'
fit("auto", solver="line") | solver="line" takes one covariate and the kernels sobolev1
fit(KERNEL, solver="line") | solver="line" takes one covariate and the kernels sobolev1
fit("precomputed", solver="nystrom") | landmarks need a kernel that can be evaluated between any row and a
fit("auto", n_landmarks=0) | 'n_landmarks' parameter of ... Got 0
fit("auto", n_landmarks=-1) | 'n_landmarks' parameter of ... Got -1
fit("auto", n_landmarks=1.5) | 'n_landmarks' parameter of ... Got 1.5
fit("auto", n_landmarks="many") | 'n_landmarks' parameter of ... Got 'many'
fit("auto", n_landmarks=None) | 'n_landmarks' parameter of ... Got None
fit(KERNEL, solver="nystrom", n_landmarks=0) | 'n_landmarks' parameter of ... Got 0
fit(KERNEL, solver="nystrom", n_landmarks=[[nan, 1.0]]) | landmarks must be finite and at most 1e300: they hold NaN,
fit(KERNEL, solver="nystrom", n_landmarks=[[1.0]]) | landmarks need one column per feature, 2; got 1
fit(KERNEL, solver="nystrom", n_landmarks=[1.0, 2.0]) | array, a row each (one covariate: shape (m, 1)); got shape
fit(KERNEL, solver="nystrom", n_landmarks=[]) | array, a row each (one covariate: shape (m, 1)); got shape
fit(KERNEL, solver="nystrom", n_landmarks=[["a", "b"]]) | n_landmarks must hold real numbers, got array([['a', 'b']],
fit(KERNEL, solver="nystrom", n_landmarks=np.array([[1j, 1]])) | n_landmarks must hold real numbers, got
fit(KERNEL, solver="nystrom", n_landmarks=np.full((5, 2), 1e308)) | landmarks must be finite and at most 1e300: they
fit(KERNEL, solver="nystrom", n_landmarks=True) | n_landmarks must be a whole number, points or "auto", got True
fit("auto", precision=None) | 'precision' parameter of ... Got None
fit("auto", precision="float16") | 'precision' parameter of ... Got 'float16'
fit("auto", precision=64) | 'precision' parameter of ... Got 64
fit("auto", tol=-1) | 'tol' parameter of ... Got -1
fit("auto", tol=nan) | 'tol' parameter of ... Got nan
fit("auto", tol=inf) | 'tol' parameter of ... Got inf
fit("auto", tol="x") | 'tol' parameter of ... Got 'x'
fit("auto", tol=None) | 'tol' parameter of ... Got None
fit("auto", n_jobs=0) | n_jobs must not be 0: give a number of threads, or -1 for all cores
fit("auto", n_jobs=1.5) | 'n_jobs' parameter of ... Got 1.5
fit("auto", n_jobs="all") | 'n_jobs' parameter of ... Got 'all'
fit(KERNEL, n_jobs=0, solver="krylov") | n_jobs must not be 0: give a number of threads, or -1 for all cores
fit(KERNEL, n_jobs=10**6, solver="krylov") | n_jobs must be at most 1024, got 1000000
fit("auto", random_state=-1) | 'random_state' parameter of ... Got -1
fit("auto", random_state="x") | 'random_state' parameter of ... Got 'x'
fit("auto", random_state=1.5) | 'random_state' parameter of ... Got 1.5
fit("auto", random_state=nan) | 'random_state' parameter of ... Got nan
fit("auto", random_state=2**40) | 'random_state' parameter of ... Got 1099511627776
fit("auto", random_state=np.random.default_rng(0)) | 'random_state' parameter of ... Got Generator
fit("auto", verbose=-1) | 'verbose' parameter of ... Got -1
fit("auto", verbose="loud") | 'verbose' parameter of ... Got 'loud'
fit("auto", verbose=None) | 'verbose' parameter of ... Got None
fit(None) | kernel, a name, a scikit-learn kernel or a callable; got NoneType
fit(3) | stopwise kernel, a name, a scikit-learn kernel or a callable; got int
fit("cubic") | unknown kernel 'cubic': the names are "auto", "sobolev1", "sobolev2",
fit(k.Gaussian) | kernel must be a kernel, not its class: write Gaussian(...)
fit(lambda a, b: None) | the kernel <lambda> returned an array of shape () where (20, 20) was
fit(lambda a, b: a @ b.T * 1j) | what the kernel <lambda> returned must hold real numbers
fit(lambda a, b: np.full((len(a), len(b)), inf)) | the kernel <lambda> returned NaN or infinity: every kernel value
fit(lambda a, b: (a @ b.T) + np.arange(len(b))) | a Gram matrix must be symmetric: entries differ from their mirror
fit(k.Linear() + k.Sobolev(1)) | the sobolev1 kernel takes 1 covariate, got 2
fit(k.Gaussian((1.0, 2.0, 3.0))) | length_scale has 3 entries for 2 features: give one number, or one per feature
fit(k.Polynomial(10**9)) | the polynomial1000000000 kernel overflows: a row has squared length
fit(1e-300 * k.Gaussian(0.5)) | the kernel matrix is too small: its largest eigenvalue is
gram(lambda gram: gram[:, :19]) | a precomputed kernel matrix must be square, got shape
gram(lambda gram: gram + np.triu(np.ones((20, 20)), 1)) | a Gram matrix must be symmetric: entries differ from their
gram(lambda gram: -gram) | the kernel matrix is not positive semi-definite: its smallest
gram(lambda gram: gram - 2 * np.eye(20)) | the kernel matrix is not positive semi-definite: its smallest
gram(lambda gram: gram * nan) | Input X contains NaN.
gram(lambda gram: gram * 1e308) | X must lie between -1e+300 and 1e+300, got 1e+308 in magnitude
gram(lambda gram: gram * 1e-300) | the kernel matrix is too small: its largest eigenvalue is
gram(lambda gram: gram + 1j) | Complex data not supported
gram(lambda gram: gram[0]) | Expected 2D array, got 1D array instead
model.predict(X, return_std="yes") | return_std must be True or False, got 'yes'
model.predict(X, interval="old") | interval must be None or "new", got 'old'
model.predict(X, interval=0.9) | interval must be None or "new", got 0.9
model.merge(None) | holds no sums to merge: fit it by
model.merge(model) | holds no sums to merge: fit it by
stream.merge(3) | int holds no sums to merge: fit it by partial_fit, or with solver="nystrom"
stream.merge(model) | holds no sums to merge: fit it by partial_fit
stream.merge(wider) | only fits with the same kernel and landmarks merge: give both the
stream.merge(bare) | only fits with the same fit_intercept and number of responses merge
stream.merge(double) | only fits with the same fit_intercept and number of responses merge
stream.partial_fit(X[:, :1], y) | X has 1 features ... expecting 2 features
stream.partial_fit(X, np.column_stack([y, y])) | y must have as many columns as before, 1; got 2
stream.partial_fit(X, y, np.full(20, -1.0)) | sample_weight must be finite and at least 0, got -1.0
model.refit(None) | Input y contains NaN
model.refit(y[:3]) | y must have one entry for each of the 20 rows of the fit, got shape (3,)
model.refit(y * nan) | Input y contains NaN
model.refit(["a"] * 20) | text in y is for sw.KernelGradientClassifier
stream.refit(y) | refit needs the rows of the fit
model.merge(E()) | holds no sums to merge
E().set_params(kernal=3) | Invalid parameter 'kernal'
E(kernal=3) | unexpected keyword argument 'kernal'
E().predict(X) | instance is not fitted yet
E().predict(X, return_std=True) | instance is not fitted yet
E().score(X, y) | instance is not fitted yet
E().refit(y) | instance is not fitted yet
E().merge(model) | holds no sums to merge
E().to("cpu") | instance is not fitted yet
E(KERNEL, solver="dense").partial_fit(X, y) | which solver="nystrom" makes; got solver='dense'
E(KERNEL, n_landmarks=0).partial_fit(X, y) | 'n_landmarks' parameter of ... Got 0
E(KERNEL, noise_std=-1).partial_fit(X, y) | noise_std must be a positive, finite standard deviation, got -1
E(KERNEL, rule="best").partial_fit(X, y) | or a sw.rules instance; got 'best'
E(KERNEL, tol=-1).fit(X, y) | 'tol' parameter of ... Got -1
"""
DESCENT = r"""
descent(schedule=None) | be "auto", a number, a sequence or a sw.schedules instance; got None
descent(schedule="slow") | "auto", a number, a sequence or a sw.schedules instance; got 'slow'
descent(schedule=0) | must be positive and finite, at most min(1, 1/lambda_1); got 0
descent(schedule=-1) | must be positive and finite, at most min(1, 1/lambda_1); got -1
descent(schedule=nan) | must be positive and finite, at most min(1, 1/lambda_1); got nan
descent(schedule=inf) | must be positive and finite, at most min(1, 1/lambda_1); got inf
descent(schedule=1e6) | boundedness broken: the largest step size is 1e+06, above min(1,
descent(schedule=True) | step_size must be a number, got True
descent(schedule=[]) | a sequence of steps needs at least one step size in one dimension, got []
descent(schedule=[0.1, 0.2]) | non-increasing broken: step 1 is 0.2, above step 0 = 0.1; steps must
descent(schedule=[0.1, nan]) | boundedness broken: steps must be positive and finite, got nan
descent(schedule=["a"]) | steps must hold real numbers, got ['a']
descent(schedule={"a": 1}) | be "auto", a number, a sequence or a sw.schedules instance; got {'a'
descent(schedule=s.Constant) | or a sw.schedules instance; got <class 'stopwise.schedules.Constant'>
descent(schedule=1j) | step_size must be a number, got 1j
descent(filter="newton") | "cutoff", "nu-method", "ridge" or a sw.filters instance; got 'newton'
descent(filter=None) | "cutoff", "nu-method", "ridge" or a sw.filters instance; got None
descent(filter=3) | "cutoff", "nu-method", "ridge" or a sw.filters instance; got 3
descent(filter=f.Ridge) | or a sw.filters instance; got <class 'stopwise.filters.Ridge'>
descent(filter=f.GradientDescent(-1.0)) | must be positive and finite, at most min(1, 1/lambda_1); got -1.0
descent(filter="ridge", rule=r.Fixed(iteration=3)) | the ridge filter has no iterations: give step_sum
descent(filter="flow", rule=r.SURE("literal")) | reading="literal" counts iterations: it needs a filter with steps
sw.KernelGradientRegressor.as_published("cubic") | unknown kernel 'cubic'
sw.KernelGradientRegressor.as_published("auto") | "auto" is no kernel: it lets an estimator choose one from the data
sw.KernelGradientRegressor.as_published(KERNEL, noise_std=-1).fit(X, y) | noise_std must be a positive, finite
sw.KernelGradientRegressor.as_published(KERNEL, schedule=7.0).fit(X, y) | boundedness broken: the largest step size
sw.KernelGradientRegressor.as_published("gaussian", nothing=1) | unexpected keyword argument 'nothing'
"""
RIGHT = """
fit(KERNEL, rule=r.Fixed(step_sum=1e300)).stop_.reason is sw.Reason.CAP
fit("auto", rule=r.Fixed(step_sum=1e300)).stop_.reason is sw.Reason.CAP
fit(KERNEL, noise_std=1e300, rule="sure").stop_.reason is sw.Reason.ZERO
fit(KERNEL, noise_std=1e300, rule="minimax").stop_.reason is sw.Reason.ZERO
fit(KERNEL, noise_std=1e300, rule="discrepancy").stop_.reason is sw.Reason.ZERO
fit(KERNEL, noise_std=1e300, rule="critical").step_sum_ < 1e-100
fit(KERNEL, noise_std=1e-300, rule="critical").stop_.reason is sw.Reason.CAP
fit(KERNEL, noise_std=1e-300, rule="discrepancy").step_sum_ > 1e6
fit(KERNEL, noise_std=1e-300, rule="minimax").step_sum_ > 1e6
fit("auto", noise_std=1e-300).step_sum_ == fit("auto").step_sum_
fit(KERNEL, solver="nystrom", n_landmarks=10**9).step_sum_ > 0
fit(KERNEL, solver="nystrom", n_landmarks=1).dual_coef_.shape == (1,)
fit(KERNEL, solver="nystrom", n_landmarks=np.zeros((5, 2))).step_sum_ > 0
fit("auto", n_jobs=-5).solver_ == "dense"
fit("auto", random_state=np.random.RandomState(0)).solver_ == "dense"
fit(k.Gaussian(1e-300)).predict(X[:, ::-1]) == pytest.approx(y.mean(), rel=1e-12)
fit(k.Gaussian(1e300)).step_sum_ == 0
fit(k.Polynomial(200)).predict(X[:, ::-1]) == pytest.approx(y.mean(), rel=1e-12)
fit(1e-200 * KERNEL, rule="discrepancy").stop_.reason is sw.Reason.THRESHOLD
fit(1e-200 * KERNEL, rule="gcv").predict(X) == pytest.approx(fit(KERNEL, rule="gcv").predict(X), rel=1e-2)
fit(lambda a, b: -np.ones((len(a), len(b)))).step_sum_ == 0
gram(lambda gram: gram * 0).step_sum_ == 0
gram(lambda gram: np.ones((20, 20))).step_sum_ == 0
gram(lambda gram: gram.astype(np.float32)).step_sum_ == pytest.approx(gram(lambda gram: gram).step_sum_, rel=1e-3)
gram(lambda gram: gram.tolist()).step_sum_ == gram(lambda gram: gram).step_sum_
gram(lambda gram: np.asfortranarray(gram)).step_sum_ == gram(lambda gram: gram).step_sum_
"""


@pytest.fixture(
    scope="module", params=[sw.KernelGradientRegressor, sw.KernelRidgeRegressor], ids=lambda cls: cls.__name__
)
def names(request):
    """The calls' vocabulary: fits by one estimator, and fitted models to misuse."""
    E = request.param

    def fit(kernel, **settings):
        return E(kernel, **settings).fit(KERNEL(X) if kernel == "precomputed" else X, y)

    def stream(kernel=KERNEL, response=y, **settings):
        return E(kernel, n_landmarks=X[:4], **settings).partial_fit(X, response)

    words = NAMES | {"E": E, "fit": fit, "KERNEL": KERNEL, "pytest": pytest}
    words |= {
        "gram": lambda change: E("precomputed").fit(change(KERNEL(X)), y),
        "model": fit(KERNEL),
        "stream": stream(),
    }
    words |= {"wider": stream(sw.kernels.Gaussian(0.6)), "bare": stream(fit_intercept=False)}
    return words | {"double": stream(response=np.column_stack([y, y]))}


@pytest.mark.parametrize(("call", "words"), rows(BOTH))
def test_a_setting_without_a_meaning_is_named(names, call, words):
    refused(lambda: eval(call, names), words)


@pytest.mark.parametrize(("call", "words"), rows(DESCENT))
def test_steps_and_filters_without_a_meaning_are_named(call, words):
    def descent(**settings):
        return sw.KernelGradientRegressor(KERNEL, **settings).fit(X, y)

    refused(lambda: eval(call, NAMES | {"descent": descent, "KERNEL": KERNEL}), words)


@pytest.mark.parametrize("claim", RIGHT.strip().splitlines())
def test_an_extreme_setting_with_a_meaning_gets_it(names, claim):
    with watchdog():
        assert eval(claim, names)
