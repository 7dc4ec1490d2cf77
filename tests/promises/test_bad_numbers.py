"""Plain functions, paths, files and figures: a question without an answer is refused with the value that made it so."""

import pytest

import stopwise as sw
from hostile import KERNEL, X, refused, rows, y
from hostile import NAMES as SHARED

MODEL = sw.KernelGradientRegressor(KERNEL).fit(X, y)
NAMES = SHARED | {
    "pytest": pytest,
    "model": MODEL,
    "path": MODEL.path_,
    "rpath": MODEL.path_.along("ridge"),
}
FILES = r"""
sw.save(None, "/tmp/x.stopwise") | sw.save writes ... and KernelGradientClassifier; got NoneType
sw.save(sw.KernelRidgeRegressor(), "/tmp/x.stopwise") | This KernelRidgeRegressor instance is not fitted yet. Call
sw.save(path, "/tmp/x.stopwise") | sw.save writes ... and KernelGradientClassifier; got Path
sw.save(model, None) | a file's name must be text or a path, got None
sw.save(model, 3) | a file's name must be text or a path, got 3
sw.save(model, "") | a file's name must be text without null characters, got ''
sw.save(model, "/tmp") | /tmp is a folder: name a file
sw.save(model, "/absent/x") | the folder /absent does not exist: make it first
sw.save(model, "/tmp/a\0b") | a file's name must be text without null characters, got '/tmp/a\x00b'
sw.save(model, "/tmp/" + "a" * 300) | [Errno 36] File name too long:
sw.save(sw.KernelRidgeRegressor, "/tmp/x.stopwise") | sw.save writes KernelGradientRegressor and
sw.load(None) | a file's name must be text or a path, got None
sw.load(3) | a file's name must be text or a path, got 3
sw.load("") | a file's name must be text without null characters, got ''
sw.load("/tmp") | /tmp is a folder, not a model file
sw.load("/absent") | [Errno 2] No such file or directory: '/absent'
sw.load("/dev/null") | /dev/null is a pipe or a device, not a model file: save it to a file first
sw.load("/etc/passwd") | /etc/passwd is not a whole model file: it is truncated, damaged or not one
sw.load("/tmp/a\0b") | a file's name must be text without null characters, got '/tmp/a\x00b'
sw.load(b"/absent") | a file's name must be text or a path, got b'/absent'
sw.load([1]) | a file's name must be text or a path, got [1]
sw.plot.crossing(3) | this estimator is not fitted yet: call fit before drawing it
sw.plot.fit(sw.KernelRidgeRegressor()) | this estimator is not fitted yet: call fit before drawing it
sw.plot.path(None) | this estimator is not fitted yet: call fit before drawing it
sw.plot.spectrum(path) | this estimator is not fitted yet: call fit before drawing it
sw.plot.residuals(None) | this estimator is not fitted yet: call fit before drawing it
"""

FUNCTIONS = r"""
sw.local_complexity([1.0], nan) | radius must be at least 0, got nan
sw.local_complexity([1.0], -1) | radius must be at least 0, got -1.0
sw.local_complexity([1.0], "1") | radius must hold real numbers, got '1'
sw.local_complexity([1.0], None) | radius must be at least 0, got nan
sw.local_complexity([1.0], 1j) | radius must hold real numbers, got 1j
sw.local_complexity([], 1.0) | eigenvalues must be a non-empty one-dimensional array, got shape
sw.local_complexity(None, 1.0) | eigenvalues must be a non-empty one-dimensional array, got shape
sw.local_complexity([[1.0]], 1.0) | eigenvalues must be a non-empty one-dimensional array, got shape
sw.local_complexity([nan], 1.0) | eigenvalues must be finite and at least 0; got nan
sw.local_complexity([inf], 1.0) | eigenvalues must be finite and at least 0; got inf
sw.local_complexity([-1.0], 1.0) | eigenvalues must be finite and at least 0; got -1.0
sw.local_complexity(["a"], 1.0) | eigenvalues must hold real numbers, got ['a']
sw.local_complexity([1j], 1.0) | eigenvalues must hold real numbers, got [1j]
sw.local_complexity([1.0], 1.0, n_samples=0) | n_samples must be positive and finite, got 0
sw.local_complexity([1.0], 1.0, n_samples=-1) | n_samples must be positive and finite, got -1
sw.local_complexity([1.0], 1.0, n_samples=nan) | n_samples must be positive and finite, got nan
sw.local_complexity([1.0], 1.0, n_samples=inf) | n_samples must be positive and finite, got inf
sw.local_complexity([1.0], 1.0, n_samples="many") | n_samples must be a positive number, got 'many'
sw.local_complexity([1.0], 1.0, n_samples=True) | n_samples must be a positive number, got True
sw.local_complexity([1.0], 1.0, trace=nan) | trace must be a finite number, got nan
sw.local_complexity([1.0], 1.0, trace=0.5) | trace must be at least the sum of the eigenvalues given, 1; got 0.5
sw.local_complexity([1.0], 1.0, trace=inf) | trace must be a finite number, got inf
sw.local_complexity([1.0], 1.0, trace="x") | trace must be a finite number, got 'x'
sw.local_complexity([1e308, 1e308], 1.0) | the eigenvalues (up to 1e+308) add up past what a float holds:
sw.critical_radius([1.0], 0) | noise_std must be positive and finite, got 0
sw.critical_radius([1.0], -1) | noise_std must be positive and finite, got -1
sw.critical_radius([1.0], nan) | noise_std must be positive and finite, got nan
sw.critical_radius([1.0], inf) | noise_std must be positive and finite, got inf
sw.critical_radius([1.0], "1") | noise_std must be a positive number, got '1'
sw.critical_radius([1.0], None) | noise_std must be a positive number, got None
sw.critical_radius([1.0], True) | noise_std must be a positive number, got True
sw.critical_radius([1.0], [1.0]) | noise_std must be a positive number, got [1.0]
sw.critical_radius([1.0], 1j) | noise_std must be a positive number, got 1j
sw.critical_radius([1.0], 1.0, hilbert_radius=0) | hilbert_radius must be positive and finite, got 0
sw.critical_radius([1.0], 1.0, hilbert_radius="auto") | hilbert_radius must be a positive number, got 'auto'
sw.critical_radius([1.0], 1.0, hilbert_radius=nan) | hilbert_radius must be positive and finite, got nan
sw.critical_radius([1.0], 1.0, constant=0) | constant must be positive and finite, got 0
sw.critical_radius([1.0], 1.0, constant=None) | constant must be a positive number, got None
sw.critical_radius([1.0], 1e-300) | the critical step_sum is beyond what a float holds (noise_std
sw.critical_radius([1.0], 1e300) | the critical step_sum is beyond what a float holds (noise_std
sw.critical_radius([0.0], 1.0) | all eigenvalues are zero: there is no positive critical radius; the
sw.critical_step_sum([1.0], nan) | noise_std must be positive and finite, got nan
sw.critical_step_sum([1.0], 1e-300) | the critical step_sum is beyond what a float holds (noise_std
sw.critical_step_sum([1.0], 1e300) | the critical step_sum is beyond what a float holds (noise_std
sw.critical_step_sum([1.0], 1e200, constant=1e200) | the critical step_sum is beyond what a float holds (noise_std
sw.critical_step_sum([], 1.0) | eigenvalues must be a non-empty one-dimensional array, got shape
sw.critical_step_sum([0.0, 0.0], 1.0) | all eigenvalues are zero: there is no positive critical radius; the
sw.population_critical_radius([1.0], 0, 1.0) | n_samples must be positive and finite, got 0
sw.population_critical_radius([1.0], -5, 1.0) | n_samples must be positive and finite, got -5
sw.population_critical_radius([1.0], nan, 1.0) | n_samples must be positive and finite, got nan
sw.population_critical_radius([1.0], "n", 1.0) | n_samples must be a positive number, got 'n'
sw.population_critical_radius([1.0], 10, 0) | noise_std must be positive and finite, got 0
sw.population_critical_radius([1.0], 10, nan) | noise_std must be positive and finite, got nan
sw.population_critical_radius([1.0], 10, 1.0, constant=-1) | constant must be positive and finite, got -1
sw.population_critical_radius([1.0], 10, 1.0, trace=0.1) | trace must be at least the sum of the eigenvalues given,
sw.population_critical_radius([1.0], 10, 1.0, trace=nan) | trace must be a finite number, got nan
sw.population_critical_radius([1.0], 10, 1.0, trace="t") | trace must be a finite number, got 't'
sw.population_critical_radius([nan], 10, 1.0) | eigenvalues must be finite and at least 0; got nan
sw.population_critical_radius(["a"], 10, 1.0) | eigenvalues must hold real numbers, got ['a']
sw.population_critical_radius([], 10, 1.0) | eigenvalues must be a non-empty one-dimensional array, got shape
sw.population_critical_radius([0.0], 10, 1.0) | all eigenvalues are zero: there is no positive critical radius; the
sw.population_critical_radius([1.0], 10, 1e-200) | the critical step_sum is beyond what a float holds (noise_std
sw.population_critical_radius([1.0], 10, 1e200) | the critical step_sum is beyond what a float holds (noise_std
sw.population_critical_radius([-1.0], 10, 1.0) | eigenvalues must be finite and at least 0; got -1.0
sw.stopping_time([1.0], 5.0, 1.0) | boundedness broken: the largest step size is 5, above min(1,
sw.stopping_time([1.0], -0.1, 1.0) | must be positive and finite, at most min(1, 1/lambda_1); got -0.1
sw.stopping_time([1.0], 0.0, 1.0) | must be positive and finite, at most min(1, 1/lambda_1); got 0.0
sw.stopping_time([1.0], nan, 1.0) | must be positive and finite, at most min(1, 1/lambda_1); got nan
sw.stopping_time([1.0], "fast", 1.0) | "auto", a number, a sequence or a sw.schedules instance; got 'fast'
sw.stopping_time([1.0], None, 1.0) | be "auto", a number, a sequence or a sw.schedules instance; got None
sw.stopping_time([1.0], [], 1.0) | a sequence of steps needs at least one step size in one dimension, got []
sw.stopping_time([1.0], [0.5, 0.6], 1.0) | non-increasing broken: step 1 is 0.6, above step 0 = 0.5; steps must
sw.stopping_time([1.0], 0.25, 0) | noise_std must be positive and finite, got 0
sw.stopping_time([1.0], 0.25, nan) | noise_std must be positive and finite, got nan
sw.stopping_time([1.0], 0.25, 1.0, hilbert_radius=-1) | hilbert_radius must be positive and finite, got -1
sw.stopping_time([1.0], 0.25, 1.0, constant=0) | constant must be "auto" or a positive number, got 0
sw.stopping_time([], 0.25, 1.0) | eigenvalues must be a non-empty one-dimensional array, got shape
sw.stopping_time([nan], 0.25, 1.0) | eigenvalues must be finite and at least 0; got nan
sw.stopping_time([2.0], 1.0, 1.0) | boundedness broken: the largest step size is 1, above min(1,
sw.stopping_time([1.0], 0.25, 1.0, n_samples=nan) | n_samples must be positive and finite, got nan
sw.stopping_time([1.0], 0.25, 1.0, trace=-1) | trace must be at least the sum of the eigenvalues given, 1; got -1
sw.stopping_time([1e-320], 0.25, 1.0) | the kernel matrix is too small: its largest eigenvalue is
"""

PATHS = r"""
path.fit(nan) | step_sum must be at least 0 and finite, got nan
path.fit(-1.0) | step_sum must be at least 0 and finite, got -1.0
path.fit(inf) | step_sum must be at least 0 and finite, got inf
path.fit("1") | step_sum must hold real numbers, got '1'
path.fit([1.0, nan]) | step_sum must be at least 0 and finite, got [1.0, nan]
path.fit([[1.0]]) | step_sum must be a number or a list of numbers, got shape
path.fit(1j) | step_sum must hold real numbers, got 1j
path.fit(iteration=-1) | iteration must be a whole number of at least 0, got -1
path.fit(iteration=1.5) | iteration must be a whole number of at least 0, got 1.5
path.fit(iteration=nan) | iteration must be a whole number of at least 0, got nan
path.fit(iteration=inf) | iteration must be a whole number of at least 0, got inf
path.fit(iteration="1") | iteration must hold real numbers, got '1'
path.fit(1.0, iteration=1) | give step_sum or iteration, not both
rpath.fit(iteration=1) | the ridge filter has no iterations: give step_sum
rpath.fit() | no stop has been chosen on this path: give step_sum or iteration
path.fit(iteration=10**400) | iteration must hold real numbers, got 1000
path.residual_norm(-1) | step_sum must be at least 0 and finite, got -1
path.residual_norm(nan) | step_sum must be at least 0 and finite, got nan
path.hilbert_norm(nan) | step_sum must be at least 0 and finite, got nan
path.hilbert_norm("a") | step_sum must hold real numbers, got 'a'
path.degrees_of_freedom(nan) | step_sum must be at least 0 and finite, got nan
path.degrees_of_freedom(-1) | step_sum must be at least 0 and finite, got -1
path.leave_one_out(nan) | step_sum must be at least 0 and finite, got nan
path.leave_one_out(-1) | step_sum must be at least 0 and finite, got -1
path.dual_coef(nan) | step_sum must be at least 0 and finite, got nan
path.dual_coef(iteration=0.5) | iteration must be a whole number of at least 0, got 0.5
path.squared_bias(y[:3], 1.0) | truth must be one value per training row, 20; got (3,)
path.squared_bias(None, 1.0) | truth must be finite, got nan
path.squared_bias(y * nan, 1.0) | truth must be finite, got nan
path.squared_bias(["a"] * 20, 1.0) | truth must hold real numbers, got ['a', 'a'
path.squared_bias(y, nan) | step_sum must be at least 0 and finite, got nan
path.variance(nan, 1.0) | noise_std must be finite, got nan
path.variance(-1.0, 1.0) | noise_std must be at least 0, got -1.0
path.variance("1", 1.0) | noise_std must hold real numbers, got '1'
path.variance(1.0, -1.0) | step_sum must be at least 0 and finite, got -1.0
path.risk(y, -1.0, 1.0) | noise_std must be at least 0, got -1.0
path.risk(y, 1.0, nan) | step_sum must be at least 0 and finite, got nan
path.risk(y[:2], 1.0, 1.0) | truth must be one value per training row, 20; got (2,)
path.gcv(nan) | step_sum must be at least 0 and finite, got nan
path.gcv(-1.0) | step_sum must be at least 0 and finite, got -1.0
path.mean_squared_residual(nan) | step_sum must be finite, got nan
path.squared_hilbert_norm(nan) | step_sum must be finite, got nan
path.complexity_sum(nan) | step_sum must be finite, got nan
path.complexity_sum(-1.0) | step_sum must be at least 0, got -1.0
path.squared_gain_sum(nan) | step_sum must be finite, got nan
path.leverage_left(nan) | step_sum must be finite, got nan
path.leave_one_out_error(nan) | step_sum must be finite, got nan
path.debiased_squared_norm(nan, 1.0) | step_sum must be finite, got nan
path.along(None) | "cutoff", "nu-method", "ridge" or a sw.filters instance; got None
path.column(3) | this path has 1 response(s), numbered from 0; got 3
path.stopped_at(3).fit() | a stop is needed for each of 1 response(s), as a tuple; got 3
path.stopped_at((nan,)).fit() | step_sum must be finite, got nan
"""


@pytest.mark.parametrize(("call", "words"), rows(FUNCTIONS))
def test_a_function_of_eigenvalues_names_what_it_cannot_take(call, words):
    refused(lambda: eval(call, NAMES), words)


@pytest.mark.parametrize(("call", "words"), rows(PATHS))
def test_a_path_names_what_it_cannot_be_asked(call, words):
    refused(lambda: eval(call, NAMES), words)


@pytest.mark.parametrize(("call", "words"), rows(FILES))
def test_a_file_that_cannot_be_is_named(call, words):
    refused(lambda: eval(call, NAMES), words, OSError)


RIGHT = """
sw.local_complexity([1.0], inf) == 1
sw.local_complexity([1.0], 1e200) == 1
sw.local_complexity([1e300], 1e200) == pytest.approx(1e150)
sw.local_complexity([1.0], []).shape == (0,)
sw.local_complexity([0.0], 1.0, trace=0.0) == 0
sw.local_complexity([np.float32(1), True], 1) == 1
sw.critical_radius([1e-300], 1.0) == pytest.approx((1e-300 * (2 * np.e) ** 2) ** 0.25)
sw.critical_radius([1e300], 1.0) == pytest.approx(2 * np.e)
sw.critical_radius(np.array([1.0]), np.array(1.0)) == sw.critical_radius([1.0], 1)
sw.stopping_time([0.0, 0.0], 0.25, 1.0).reason is sw.Reason.ZERO
sw.stopping_time([1.0], 0.25, 1e-200).reason is sw.Reason.CAP
sw.stopping_time([1.0], s.PolynomialDecay(), 1e-12).reason is sw.Reason.CAP
path.fit([]).shape == (0, 20)
np.allclose(path.fit(1e300), y, atol=1e-6)
np.allclose(rpath.fit(1e300), y, atol=1e-6)
np.allclose(path.fit(iteration=10**18), y, atol=1e-6)
path.degrees_of_freedom([]).shape == (0,)
path.leave_one_out([]).shape == (0, 20)
"""


@pytest.mark.parametrize("claim", RIGHT.strip().splitlines())
def test_extremes_with_an_answer_get_it(claim):
    assert eval(claim, NAMES)
