"""Rules, noise estimators and filters that cannot be, or are asked what has no answer."""

import pytest

import stopwise as sw
from hostile import KERNEL, X, refused, rows, y
from hostile import NAMES as SHARED

MODEL = sw.KernelGradientRegressor(KERNEL).fit(X, y)
NAMES = SHARED | {"pytest": pytest, "path": MODEL.path_, "rpath": MODEL.path_.along("ridge")}

RULES = r"""
r.Critical(constant=0) | constant must be "auto" or a positive number, got 0
r.Critical(constant=nan) | constant must be "auto" or a positive number, got nan
r.Critical(constant="two") | constant must be "auto" or a positive number, got 'two'
r.Critical(constant=None) | constant must be "auto" or a positive number, got None
r.Critical(constant=True) | constant must be "auto" or a positive number, got True
r.Critical(constant=1j) | constant must be "auto" or a positive number, got 1j
r.Critical(constant=[2.0]) | constant must be "auto" or a positive number, got [2.0]
r.Critical(constant=np.array([1.0, 2.0])) | constant must be "auto" or a positive number, got array([1., 2.])
r.Critical(hilbert_radius=0) | hilbert_radius must be positive and finite, got 0
r.Critical(hilbert_radius=-1) | hilbert_radius must be positive and finite, got -1
r.Critical(hilbert_radius=nan) | hilbert_radius must be positive and finite, got nan
r.Critical(hilbert_radius=inf) | hilbert_radius must be positive and finite, got inf
r.Critical(hilbert_radius="big") | hilbert_radius must be a positive number or one of "auto", "self"; got 'big'
r.Critical(hilbert_radius=None) | hilbert_radius must be a positive number or one of "auto", "self"; got None
r.Critical(hilbert_radius=[1.0]) | hilbert_radius must be a positive number or one of "auto", "self"; got [1.0]
r.Critical(hilbert_radius=True) | hilbert_radius must be a positive number or one of "auto", "self"; got True
r.Critical(hilbert_radius=1j) | hilbert_radius must be a positive number or one of "auto", "self"; got 1j
r.Critical(hilbert_radius=np.complex128(1)) | a positive number or one of "auto", "self"; got ... (1+0j)
r.Minimax(hilbert_radius="self") | hilbert_radius must be a positive number or one of "auto"; got 'self'
r.Minimax(hilbert_radius=-1) | hilbert_radius must be positive and finite, got -1
r.Minimax(hilbert_radius=nan) | hilbert_radius must be positive and finite, got nan
r.Minimax(reading="last") | reading must be "local", "literal" or "global", got 'last'
r.SURE(reading=None) | reading must be "local", "literal" or "global", got None
r.SURE(reading=["global"]) | reading must be "local", "literal" or "global", got ['global']
r.GCV(reading="") | reading must be "local", "literal" or "global", got ''
r.GCV(reading=1) | reading must be "local", "literal" or "global", got 1
r.LeaveOneOut(reading="first") | reading must be "local", "literal" or "global", got 'first'
r.HoldOut(0) | fraction must lie strictly between 0 and 1, got 0
r.HoldOut(1) | fraction must lie strictly between 0 and 1, got 1
r.HoldOut(-0.5) | fraction must lie strictly between 0 and 1, got -0.5
r.HoldOut(nan) | fraction must lie strictly between 0 and 1, got nan
r.HoldOut("half") | fraction must lie strictly between 0 and 1, got 'half'
r.HoldOut(None) | fraction must lie strictly between 0 and 1, got None
r.HoldOut(True) | fraction must lie strictly between 0 and 1, got True
r.HoldOut(reading="x") | reading must be "local", "literal" or "global", got 'x'
r.HoldOut(split="random2") | split must be "random", "odd-even" or "halves", got 'random2'
r.HoldOut(split=None) | split must be "random", "odd-even" or "halves", got None
r.HoldOut(split=[1]) | split must be "random", "odd-even" or "halves", got [1]
r.HoldOut(refit="no") | refit must be True or False, got 'no'
r.Oracle(None).select(path) | truth must be finite, got nan
r.Oracle([1, 2]).select(path) | truth must be one value per training row, 20; got (2,)
r.Oracle("truth").select(path) | could not convert string to float: 'truth'
r.Oracle(np.full(20, nan)).select(path) | truth must be finite, got nan
r.Oracle(y, reading="x") | reading must be "local", "literal" or "global", got 'x'
r.Fixed() | Fixed needs exactly one of iteration and step_sum
r.Fixed(iteration=1, step_sum=1.0) | Fixed needs exactly one of iteration and step_sum
r.Fixed(iteration=-1) | a fixed stop must be a finite number of at least 0, got iteration=-1
r.Fixed(iteration=1.5) | iteration must be a whole number, got 1.5
r.Fixed(iteration=nan) | a fixed stop must be a finite number of at least 0, got iteration=nan
r.Fixed(iteration="1") | a fixed stop must be a finite number of at least 0, got iteration='1'
r.Fixed(iteration=True) | a fixed stop must be a finite number of at least 0, got iteration=True
r.Fixed(step_sum=-1.0) | a fixed stop must be a finite number of at least 0, got step_sum=-1.0
r.Fixed(step_sum=nan) | a fixed stop must be a finite number of at least 0, got step_sum=nan
r.Fixed(step_sum=inf) | a fixed stop must be a finite number of at least 0, got step_sum=inf
r.Fixed(step_sum="1") | a fixed stop must be a finite number of at least 0, got step_sum='1'
r.Fixed(step_sum=[1.0]) | a fixed stop must be a finite number of at least 0, got step_sum=[1.0]
r.Fixed(step_sum=1j) | a fixed stop must be a finite number of at least 0, got step_sum=1j
r.Fixed(step_sum=np.complex64(1)) | be a finite number of at least 0, got step_sum= ... (1+0j)
r.Fixed(iteration=3).select(rpath) | the ridge filter has no iterations: give step_sum
r.Fixed(iteration=10**400) | 0000000000000000000000000000000000000000000000000000000000000000000000
r.Prudent(-1) | allowance must be a number of at least 0 standard errors, got -1
r.Prudent(nan) | allowance must be a number of at least 0 standard errors, got nan
r.Prudent(inf) | allowance must be a number of at least 0 standard errors, got inf
r.Prudent("little") | allowance must be a number of at least 0 standard errors, got 'little'
r.Prudent(None) | allowance must be a number of at least 0 standard errors, got None
r.Prudent(1j) | allowance must be a number of at least 0 standard errors, got 1j
r.as_rule("best") | "discrepancy", "holdout", "evidence", "auto", "prudent" or a sw.rules instance; got 'best'
r.as_rule(None) | "discrepancy", "holdout", "evidence", "auto", "prudent" or a sw.rules instance; got None
r.as_rule(["gcv"]) | "discrepancy", "holdout", "evidence", "auto", "prudent" or a sw.rules instance; got ['gcv']
r.as_rule(r.GCV) | rule must be one of ... or a sw.rules instance; got <class
r.as_rule(3) | "loo", "discrepancy", "holdout", "evidence", "auto", "prudent" or a sw.rules instance; got 3
r.SURE().select(path) | the rule SURE needs a noise level: give noise_std
r.SURE().select(path, nan) | noise_std must be finite and at least 0, got nan
r.SURE().select(path, -1.0) | noise_std must be finite and at least 0, got -1.0
r.SURE().select(path, inf) | noise_std must be finite and at least 0, got inf
r.Critical().select(path, nan) | noise_std must be finite and at least 0, got nan
r.Critical().select(path, -1.0) | noise_std must be finite and at least 0, got -1.0
r.Minimax().select(path, nan) | noise_std must be finite and at least 0, got nan
r.Discrepancy().select(path, nan) | noise_std must be finite and at least 0, got nan
r.Discrepancy().select(path, -1) | noise_std must be finite and at least 0, got -1
r.HoldOut().select(path) | the rule HoldOut needs rows to hold out: it works on row data, not on
r.SURE("literal").select(rpath, 1.0) | reading="literal" counts iterations: it needs a filter with steps
r.minimise(path, lambda q: q, "x") | reading must be "local", "literal" or "global", got 'x'
r.minimise(path, lambda q: q * nan) | the criterion of a rule must be a number or infinity, got NaN at step_sum 0
"""

NOISE = r"""
z.Known(0) | noise_std must be a positive, finite standard deviation, got 0
z.Known(-1) | noise_std must be a positive, finite standard deviation, got -1
z.Known(nan) | noise_std must be a positive, finite standard deviation, got nan
z.Known(inf) | noise_std must be a positive, finite standard deviation, got inf
z.Known("1") | noise_std must be a positive, finite standard deviation, got '1'
z.Known(None) | noise_std must be a positive, finite standard deviation, got None
z.Known(True) | noise_std must be a positive, finite standard deviation, got True
z.Known([1.0]) | noise_std must be a positive, finite standard deviation, got [1.0]
z.Known(1j) | noise_std must be a positive, finite standard deviation, got 1j
z.HallMarron(0) | bandwidth must be "auto" or positive and finite, got 0
z.HallMarron(-1) | bandwidth must be "auto" or positive and finite, got -1
z.HallMarron(nan) | bandwidth must be "auto" or positive and finite, got nan
z.HallMarron(inf) | bandwidth must be "auto" or positive and finite, got inf
z.HallMarron("wide") | bandwidth must be "auto" or positive and finite, got 'wide'
z.HallMarron(None) | bandwidth must be "auto" or positive and finite, got None
z.HallMarron([1.0]) | bandwidth must be "auto" or positive and finite, got [1.0]
z.HallMarron(True) | bandwidth must be "auto" or positive and finite, got True
z.SpectralTail(-1).estimate(None, None, path=path) | leading must be "auto" or a whole number of at least 0, got -1
z.SpectralTail(20).estimate(None, None, path=path) | leading must lie between 0 and n - 1 = 19, got 20
z.SpectralTail(1.5).estimate(None, None, path=path) | leading must be "auto" or a whole number of at least 0, got 1.5
z.SpectralTail("half").estimate(None, None, path=path) | leading must be "auto" or a whole number of at least 0, got
z.SpectralTail(None).estimate(None, None, path=path) | leading must be "auto" or a whole number of at least 0, got
z.SpectralTail(nan).estimate(None, None, path=path) | leading must be "auto" or a whole number of at least 0, got nan
z.SpectralTail().estimate(x, y) | the noise estimator SpectralTail reads a spectrum: give path=
z.Evidence().estimate(x, y) | the noise estimator Evidence reads a spectrum: give path=
z.ResidualGCV().estimate(x, y) | the noise estimator ResidualGCV reads a spectrum: give path=
z.Evidence().estimate(x, y, path=3) | path must be a path, such as model.path_; got 3
z.Rice().estimate(None, y) | the noise estimator Rice needs rows: give X and y
z.Rice().estimate(x, None) | the noise estimator Rice needs rows: give X and y
z.Rice().estimate(x, y[:5]) | X and y must have one row each per sample; got (20, 1) and
z.Rice().estimate(x, np.column_stack([y, y])) | X and y must have one row each per sample; got (20, 1) and
z.Rice().estimate(np.zeros((20, 2)), y) | Rice orders rows along 1 covariate, got 2
z.Rice().estimate(x * nan, y) | X and y must be finite: they hold NaN or infinity
z.Rice().estimate(x, y * inf) | X and y must be finite: they hold NaN or infinity
z.Rice().estimate(x[:1], y[:1]) | Rice needs at least 2 rows, got 1
z.Rice().estimate(x[:0], y[:0]) | Rice needs at least 2 rows, got 0
z.Rice().estimate([["a"]] * 20, y) | ['a'], ['a'], ['a'], ['a'], ['a'], ['a'], ['a'], ['a'], ['a'], ['a...
z.Rice().estimate(x, ["a"] * 20) | 'a', 'a', 'a', 'a', 'a', 'a', 'a', 'a', 'a', 'a', 'a', 'a', 'a',...
z.Rice().estimate(x, y, weights=np.full(20, -1.0)) | weights must be at least 0, got -1.0
z.Rice().estimate(x, y, weights=np.full(20, nan)) | weights must be finite, got nan
z.Rice().estimate(x, y, weights=np.ones(3)) | weights must have one entry per row, 20; got shape
z.Rice().estimate(x, y, weights=np.zeros(20)) | Rice needs at least 2 rows, got 0
z.Rice().estimate(x, 1j * y) | y must hold real numbers, got
z.Rice().estimate(1j * x, y) | covariates must hold real numbers, got
z.GasserSrokaJennen().estimate(x[:2], y[:2]) | GasserSrokaJennen needs at least 3 rows, got 2
z.GasserSrokaJennen().estimate(np.zeros((20, 2)), y) | GasserSrokaJennen orders rows along 1 covariate, got 2
z.HallMarron(1e-9).estimate(x, y) | HallMarron has no degrees of freedom left (n = 20, 1 covariates):
z.HallMarron(1e-300).estimate(x, y) | HallMarron has no degrees of freedom left (n = 20, 1 covariates):
z.as_noise("loud") | "gcv", "evidence", "auto", or a sw.noise instance; got 'loud'
z.as_noise(None) | noise_std must be a number, a name or a sw.noise instance; got NoneType
z.as_noise(True) | noise_std must be a number, a name or a sw.noise instance; got bool
z.as_noise(-1) | noise_std must be a positive, finite standard deviation, got -1
z.as_noise([1.0]) | noise_std must be a number, a name or a sw.noise instance; got list
z.as_noise(1j) | noise_std must be a number, a name or a sw.noise instance; got complex
z.as_noise(z.Rice) | noise_std must be a number, a name or a sw.noise instance; got ABCMeta
"""

FILTERS = r"""
f.NuMethod(0.5) | nu must be above 0.5 and finite, got 0.5
f.NuMethod(-1) | nu must be above 0.5 and finite, got -1
f.NuMethod(nan) | nu must be above 0.5 and finite, got nan
f.NuMethod(inf) | nu must be above 0.5 and finite, got inf
f.NuMethod("1") | nu must be above 0.5 and finite, got '1'
f.NuMethod(None) | nu must be above 0.5 and finite, got None
f.NuMethod(1j) | nu must be above 0.5 and finite, got 1j
f.NuMethod(1.0).weight([1.0], 1.0) | bind this filter to a largest eigenvalue first: filter.bind(largest_eigenvalue)
f.NuMethod(1.0).step_sum(3) | bind this filter to a largest eigenvalue first: filter.bind(largest_eigenvalue)
f.GradientDescent().step_sum(1) | bind this filter to a largest eigenvalue first: filter.bind(largest_eigenvalue)
f.GradientDescent().gain([1.0], 1.0) | bind this filter to a largest eigenvalue first: filter.bind(largest_eigenvalue)
f.GradientDescent("fast").bind(1.0) | "auto", a number, a sequence or a sw.schedules instance; got 'fast'
f.GradientDescent(5.0).bind(1.0) | boundedness broken: the largest step size is 5, above min(1,
f.GradientDescent(-1.0).bind(1.0) | must be positive and finite, at most min(1, 1/lambda_1); got -1.0
f.GradientDescent(0.5).bind(nan) | the largest eigenvalue must be finite and at least 0, got nan
f.GradientDescent().bind(nan) | the largest eigenvalue must be finite and at least 0, got nan
f.NuMethod().bind(nan) | the largest eigenvalue must be finite and at least 0, got nan
f.Ridge().gain([1.0], -1.0) | step_sum must be at least 0, got -1.0
f.Ridge().gain([1.0], nan) | step_sum must be finite, got nan
f.Ridge().gain([nan], 1.0) | eigenvalues must be finite, got nan
f.Ridge().gain([-1.0], 1.0) | eigenvalues must be at least 0, got -1.0
f.Ridge().shrinkage([1.0], -1.0) | step_sum must be at least 0, got -1.0
f.GradientFlow().gain([1.0], -1.0) | step_sum must be at least 0, got -1.0
f.GradientFlow().shrinkage([1.0], nan) | step_sum must be finite, got nan
f.CutOff().gain([1.0], nan) | step_sum must be finite, got nan
f.GradientDescent().bind(1.0).gain([1.0], nan) | step_sum must be finite, got nan
f.GradientDescent().bind(1.0).gain([1.0], -1.0) | step_sum must be at least 0, got -1.0
f.NuMethod().bind(1.0).gain([1.0], nan) | step_sum must be finite, got nan
f.NuMethod().bind(1.0).gain([1.0], -1.0) | step_sum must be at least 0, got -1.0
f.NuMethod().bind(1.0).gain([1.0], inf) | step_sum must be finite, got inf
f.Ridge().gain([1e308], 1e308) | step_sum times the largest eigenvalue must be finite, got 1e+308 times 1e+308
f.Ridge().weight([1e308], 1e308) | step_sum times the largest eigenvalue must be finite, got 1e+308 times 1e+308
f.Ridge().gain([0.0, 1.0], inf) | step_sum must be finite, got inf
f.GradientFlow().gain([0.0, 1.0], inf) | step_sum must be finite, got inf
f.CutOff().gain([0.0, 1.0], inf) | step_sum must be finite, got inf
f.GradientDescent().bind(1.0).gain([0.0, 1.0], inf) | step_sum must be finite, got inf
f.Ridge().gain(["a"], 1.0) | eigenvalues must hold real numbers, got ['a']
f.as_filter("fast") | "cutoff", "nu-method", "ridge" or a sw.filters instance; got 'fast'
f.as_filter(None) | "cutoff", "nu-method", "ridge" or a sw.filters instance; got None
f.as_filter(f.Ridge) | or a sw.filters instance; got <class 'stopwise.filters.Ridge'>
f.as_filter(3) | "cutoff", "nu-method", "ridge" or a sw.filters instance; got 3
"""


@pytest.mark.parametrize(("call", "words"), rows(RULES))
def test_a_rule_that_cannot_be_says_why(call, words):
    refused(lambda: eval(call, NAMES), words)


@pytest.mark.parametrize(("call", "words"), rows(NOISE))
def test_a_noise_level_that_cannot_be_says_why(call, words):
    refused(lambda: eval(call, NAMES), words)


@pytest.mark.parametrize(("call", "words"), rows(FILTERS))
def test_a_filter_that_cannot_be_says_why(call, words):
    refused(lambda: eval(call, NAMES), words)


RIGHT = """
z.HallMarron().estimate(x * 1e200, y) == pytest.approx(z.HallMarron().estimate(x, y), rel=1e-12)
z.HallMarron().estimate(x * 1e-300, y) == pytest.approx(z.HallMarron().estimate(x, y), rel=1e-12)
z.HallMarron(1e300).estimate(x, y) == pytest.approx(np.std(y, ddof=1))
z.NearestNeighbour().estimate(X * 1e200, y) == pytest.approx(z.NearestNeighbour().estimate(X, y), rel=1e-9)
z.NearestNeighbour().estimate(X * 1e-300, y) == pytest.approx(z.NearestNeighbour().estimate(X, y), rel=1e-9)
z.NearestNeighbour().estimate(np.zeros((20, 0)), y) == pytest.approx(np.std(y, ddof=1))
z.NearestNeighbour().estimate(X[:, 0], y) == z.NearestNeighbour().estimate(X[:, :1], y)
z.Rice().estimate(x * 1e308, y * 1e300) == pytest.approx(1e300 * z.Rice().estimate(x, y))
z.Rice().estimate(x, y, weights=[1] * 20) == z.Rice().estimate(x, y)
z.GasserSrokaJennen().estimate(x * 1e308, y) == pytest.approx(z.GasserSrokaJennen().estimate(x, y))
r.Critical().select(path, 0.0).reason is sw.Reason.CAP
r.SURE().select(path, 1e300).reason is sw.Reason.ZERO
r.Fixed(iteration=10**300).select(path).reason is sw.Reason.CAP
r.Fixed(step_sum=1e308).select(path).details["asked_step_sum"] == pytest.approx(1e308)
r.minimise(path, lambda sums: np.where(sums > 3, inf, -sums)).step_sum == 3
f.GradientDescent().bind(1.0).gain([2.0], 1.0).tolist() == [1]
"""


@pytest.mark.parametrize("claim", RIGHT.strip().splitlines())
def test_odd_but_meaningful_choices_work(claim):
    assert eval(claim, NAMES)
