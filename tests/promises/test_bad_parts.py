"""Kernels, schedules and landmarks that cannot be are refused when they are made or asked, with bound and value."""

import pytest

from hostile import NAMES, refused, rows

KERNELS = r"""
k.Gaussian(nan) | length_scale must be positive and finite, got nan
k.Gaussian(inf) | length_scale must be positive and finite, got inf
k.Gaussian(-1) | length_scale must be positive and finite, got -1
k.Gaussian([]) | length_scale must be positive and finite, got []
k.Gaussian([[1.0]]) | length_scale must be positive and finite, got [[1.0]]
k.Gaussian([1.0, 0.0]) | length_scale must be positive and finite, got [1.0, 0.0]
k.Gaussian("wide") | length_scale must be a number, one number per feature, or "auto"; got 'wide'
k.Gaussian("1.0") | length_scale must be a number, one number per feature, or "auto"; got '1.0'
k.Gaussian(None) | length_scale must be a number, one number per feature, or "auto"; got None
k.Gaussian(1j) | length_scale must hold real numbers, got 1j
k.Gaussian(True) | length_scale must be a number, one number per feature, or "auto"; got True
k.Gaussian({1: 2}) | length_scale must hold real numbers, got {1: 2}
k.Gaussian(object()) | length_scale must hold real numbers, got <object object
k.Laplace([1.0, nan]) | length_scale must be positive and finite, got [1.0, nan]
k.Laplace("") | length_scale must be a number, one number per feature, or "auto"; got ''
k.Matern(0.0) | length_scale must be positive and finite, got 0.0
k.Matern(1.0, 0.7) | smoothness must be 0.5, 1.5 or 2.5, got 0.7
k.Matern(1.0, nan) | smoothness must be 0.5, 1.5 or 2.5, got nan
k.Matern(1.0, "rough") | smoothness must be 0.5, 1.5 or 2.5, got 'rough'
k.Matern(1.0, None) | smoothness must be 0.5, 1.5 or 2.5, got None
k.Matern(1.0, [1.5]) | smoothness must be 0.5, 1.5 or 2.5, got [1.5]
k.Sobolev(0) | Sobolev order must be 1 or 2, got 0
k.Sobolev(1.5) | Sobolev order must be 1 or 2, got 1.5
k.Sobolev("1") | Sobolev order must be 1 or 2, got '1'
k.Sobolev(None) | Sobolev order must be 1 or 2, got None
k.Sobolev([1]) | Sobolev order must be 1 or 2, got [1]
k.Sobolev(interval=(0, 0)) | interval needs two finite ends, left < right; got (0.0, 0.0)
k.Sobolev(interval=(0, nan)) | interval needs two finite ends, left < right; got (0.0, nan)
k.Sobolev(interval=(0, inf)) | interval needs two finite ends, left < right; got (0.0, inf)
k.Sobolev(interval=(0, 1, 2)) | interval must be (left, right) or "auto", got (0, 1, 2)
k.Sobolev(interval=1.0) | interval must be (left, right) or "auto", got 1.0
k.Sobolev(interval="wide") | interval must be (left, right) or "auto", got 'wide'
k.Sobolev(interval=("a", "b")) | interval must hold real numbers, got ('a', 'b')
k.Sobolev(interval=None) | interval must be (left, right) or "auto", got None
k.Sobolev(anchored="yes") | anchored must be True or False, got 'yes'
k.Sobolev(interval=(-1e308, 1e308)) | interval needs two finite ends, left < right; got (-1e+308, 1e+308)
k.PeriodicSobolev(0) | PeriodicSobolev order must be 1, 2 or 3, got 0
k.PeriodicSobolev(4) | PeriodicSobolev order must be 1, 2 or 3, got 4
k.PeriodicSobolev(None) | PeriodicSobolev order must be 1, 2 or 3, got None
k.PeriodicSobolev([1]) | PeriodicSobolev order must be 1, 2 or 3, got [1]
k.PeriodicSobolev(interval=(2, 1)) | interval needs two finite ends, left < right; got (2.0, 1.0)
k.Polynomial(0) | degree must be an integer of at least 1, got 0
k.Polynomial(-2) | degree must be an integer of at least 1, got -2
k.Polynomial(1.5) | degree must be an integer of at least 1, got 1.5
k.Polynomial(2.0) | degree must be an integer of at least 1, got 2.0
k.Polynomial(nan) | degree must be an integer of at least 1, got nan
k.Polynomial("2") | degree must be an integer of at least 1, got '2'
k.Polynomial(True) | degree must be an integer of at least 1, got True
k.Polynomial(None) | degree must be an integer of at least 1, got None
k.Constant(0.0) | the value of a constant kernel must be positive and finite, got 0.0
k.Constant(-1.0) | the value of a constant kernel must be positive and finite, got -1.0
k.Constant(nan) | the value of a constant kernel must be positive and finite, got nan
k.Constant("1") | the value of a constant kernel must be a positive number, got '1'
k.Constant(None) | the value of a constant kernel must be a positive number, got None
k.Scaled(k.Linear(), 0.0) | the factor of a scaled kernel must be positive and finite, got 0.0
k.Scaled(k.Linear(), nan) | the factor of a scaled kernel must be positive and finite, got nan
k.Scaled(k.Linear(), "2") | the factor of a scaled kernel must be a positive number, got '2'
k.Scaled("linear", 2.0) | what is scaled must be a kernel, got 'linear'
k.Sum(k.Linear(), 1.0) | each part of a sum must be a kernel, got 1.0
k.Sum(k.Linear(), None) | each part of a sum must be a kernel, got None
k.Product(k.Linear(), "linear") | each part of a product must be a kernel, got 'linear'
k.Linear() + "1" | each part of a sum must be a kernel, got '1': sw.kernels.as_kernel makes one from a name,
k.Linear() + None | each part of a sum must be a kernel, got None
k.Linear() * [1] | each part of a product must be a kernel, got [1]
k.Linear() + nan | the value of a constant kernel must be positive and finite, got nan
k.Linear() * 0 | the factor of a scaled kernel must be positive and finite, got 0.0
k.Linear() * inf | the factor of a scaled kernel must be positive and finite, got inf
k.Linear() + 1j | each part of a sum must be a kernel, got 1j
k.Linear() - 1 | unsupported operand type(s) for -: 'Linear' and 'int'
k.FromCallable(3) | a kernel function must be callable as k(X, Z), got 3
k.FromCallable("linear") | a kernel function must be callable as k(X, Z), got 'linear'
k.FromSklearn(None) | not a kernel of sklearn.gaussian_process.kernels: None
k.FromCallable(lambda a, b: "no")(x) | what the kernel <lambda> returned must hold real numbers, got 'no'
k.FromCallable(lambda a, b: None)(x) | the kernel <lambda> returned an array of shape () where (20, 20) was
k.FromCallable(lambda a, b: [[1, 2], [3]])(x) | what the kernel <lambda> returned must hold real numbers, got [[1,
k.FromCallable(lambda a, b: (a @ b.T) * 1j)(x) | what the kernel <lambda> returned must hold real numbers
k.Gaussian(1.0)(np.zeros((2, 2, 2))) | covariates must have 2 dimensions (rows, features); got 3
k.Gaussian(1.0)(np.zeros((3, 2)), np.zeros((3, 1))) | both sides of a kernel need the same number of features; got 2
k.Gaussian(1.0)([["a"]]) | covariates must hold real numbers, got array([['a']], dtype='<U1')
k.Gaussian(1.0)([[nan]]) | covariates must be finite, got nan
k.Gaussian(1.0)([[inf, 1.0]]) | covariates must be finite, got inf
k.Gaussian(1.0)([[1j]]) | covariates must hold real numbers, got array([[0.+1.j]])
k.Gaussian(1.0)(3.0) | covariates must have 2 dimensions (rows, features); got 0
k.Gaussian(1.0)(None) | covariates must have 2 dimensions (rows, features); got 0
k.Gaussian("auto")(x) | length_scale="auto" is chosen when an estimator is fitted; give a
k.Gaussian((1.0, 2.0))(x) | length_scale has 2 entries for 1 features: give one number, or one per feature
k.Linear()([[1e200]]) | the linear kernel overflows: a row has squared length inf, whose
k.Linear()([[nan]]) | covariates must be finite, got nan
k.Polynomial(2)([[1e200]]) | the polynomial2 kernel overflows: a row has squared length inf, whose
k.Polynomial(500)([[10.0]]) | the polynomial500 kernel overflows: a row has squared length 100,
k.Sobolev(1)([[nan]]) | covariates must be finite, got nan
k.Sobolev(1)([[2.0]]) | the sobolev1 kernel lives on [0, 1] but the covariate runs from 2 to
k.Sobolev(1)(np.zeros((2, 2))) | the sobolev1 kernel takes 1 covariate, got 2
k.Sobolev(1, interval="auto")(x) | interval="auto" is read off the data when an estimator is fitted;
k.PeriodicSobolev(1)([[nan]]) | covariates must be finite, got nan
k.PeriodicSobolev(1)([[inf]]) | covariates must be finite, got inf
k.Precomputed()(np.zeros((2, 3))) | a precomputed kernel matrix must be square, got shape
k.Precomputed()(np.zeros((2, 3)), np.zeros((2, 2))) | kernel matrix at predict needs one column per training row, 2;
k.Precomputed().pair(x[0], x[0]) | a precomputed kernel has no pair function: its values are the matrix
k.Gaussian(1.0).diagonal([["a"]]) | covariates must hold real numbers, got array([['a']], dtype='<U1')
k.as_kernel("gauss") | unknown kernel 'gauss': the names are "auto", "sobolev1", "sobolev2",
k.as_kernel("") | unknown kernel '': the names are "auto", "sobolev1", "sobolev2",
k.as_kernel("polynomial0") | unknown kernel 'polynomial0': the names are "auto", "sobolev1",
k.as_kernel("polynomial-1") | unknown kernel 'polynomial-1': the names are "auto", "sobolev1",
k.as_kernel(None) | kernel, a name, a scikit-learn kernel or a callable; got NoneType
k.as_kernel(3) | stopwise kernel, a name, a scikit-learn kernel or a callable; got int
k.as_kernel([k.Linear()]) | kernel, a name, a scikit-learn kernel or a callable; got list
k.as_kernel(k.Gaussian) | kernel must be a kernel, not its class: write Gaussian(...)
k.as_kernel(b"linear") | kernel, a name, a scikit-learn kernel or a callable; got bytes
"""

SCHEDULES = r"""
s.Constant(0) | must be positive and finite, at most min(1, 1/lambda_1); got 0
s.Constant(-1) | must be positive and finite, at most min(1, 1/lambda_1); got -1
s.Constant(nan) | must be positive and finite, at most min(1, 1/lambda_1); got nan
s.Constant(inf) | must be positive and finite, at most min(1, 1/lambda_1); got inf
s.Constant("0.25") | step_size must be a number, got '0.25'
s.Constant(True) | step_size must be a number, got True
s.Constant(None) | step_size must be a number, got None
s.Constant([0.25]) | step_size must be a number, got [0.25]
s.Constant(1j) | step_size must be a number, got 1j
s.PolynomialDecay(0.0) | must be positive and finite, at most min(1, 1/lambda_1); got 0.0
s.PolynomialDecay("fast") | step_size must be a number, got 'fast'
s.PolynomialDecay(1.0, -0.1) | non-increasing broken: power must be at least 0, got -0.1
s.PolynomialDecay(1.0, 1.1) | infinite travel broken: power must be at most 1, got 1.1
s.PolynomialDecay(1.0, nan) | power must be a finite number, got nan
s.PolynomialDecay(1.0, "0.5") | power must be a finite number, got '0.5'
s.PolynomialDecay(1.0, None) | power must be a finite number, got None
s.PolynomialDecay(1.0, True) | power must be a finite number, got True
s.Sequence([]) | a sequence of steps needs at least one step size in one dimension, got []
s.Sequence(0.25) | a sequence of steps needs at least one step size in one dimension, got 0.25
s.Sequence([[0.25]]) | a sequence of steps needs at least one step size in one dimension, got [[0.25]]
s.Sequence([0.25, nan]) | boundedness broken: steps must be positive and finite, got nan
s.Sequence([0.25, -0.1]) | boundedness broken: steps must be positive and finite, got -0.1
s.Sequence([0.0]) | infinite travel broken: the last step is 0 and goes on for ever, so
s.Sequence([0.1, 0.2]) | non-increasing broken: step 1 is 0.2, above step 0 = 0.1; steps must
s.Sequence([0.1, 0.0]) | infinite travel broken: the last step is 0 and goes on for ever, so
s.Sequence(["a"]) | steps must hold real numbers, got ['a']
s.Sequence(None) | a sequence of steps needs at least one step size in one dimension, got None
s.Sequence([1j]) | steps must hold real numbers, got [1j]
s.Sequence("0.25") | steps must hold real numbers, got '0.25'
s.Sequence({0.25}) | steps must hold real numbers, got {0.25}
s.Constant(0.25).step_sum(-1) | iteration must be a whole number of at least 0, got -1.0
s.Constant(0.25).step_sum(nan) | iteration must be a whole number of at least 0, got nan
s.Constant(0.25).iteration(-1.0) | step_sum must be at least 0, got -1.0
s.Constant(0.25).iteration(nan) | step_sum must be at least 0, got nan
s.Sequence([0.25]).step_sum(-1) | iteration must be a whole number of at least 0, got -1.0
s.Sequence([0.25]).step_sum(nan) | iteration must be a whole number of at least 0, got nan
s.Sequence([0.25]).iteration(nan) | step_sum must be at least 0, got nan
s.Sequence([0.25]).iteration(-1.0) | step_sum must be at least 0, got -1.0
s.PolynomialDecay().step_sum(-1) | iteration must be a whole number of at least 0, got -1.0
s.PolynomialDecay().step_sum(nan) | iteration must be a whole number of at least 0, got nan
s.PolynomialDecay().step_sum(1.5) | iteration must be a whole number of at least 0, got 1.5
s.PolynomialDecay().iteration(nan) | step_sum must be at least 0, got nan
s.Sequence([0.25]).step_size(-1) | iteration must be a whole number of at least 0, got -1.0
s.PolynomialDecay().step_size(-1) | iteration must be a whole number of at least 0, got -1.0
s.Constant(0.25).step_sum("a") | iteration must hold real numbers, got 'a'
s.Constant(0.25).check(nan) | the largest eigenvalue must be finite and at least 0, got nan
s.Constant(0.25).check(inf) | the largest eigenvalue must be finite and at least 0, got inf
s.Constant(0.25).check(-1) | the largest eigenvalue must be finite and at least 0, got -1
s.as_schedule("fast", 1.0) | "auto", a number, a sequence or a sw.schedules instance; got 'fast'
s.as_schedule(None, 1.0) | be "auto", a number, a sequence or a sw.schedules instance; got None
s.as_schedule(5.0, 1.0) | boundedness broken: the largest step size is 5, above min(1,
s.as_schedule("auto", nan) | the largest eigenvalue must be finite and at least 0, got nan
s.as_schedule({}, 1.0) | schedule must be "auto", a number, a sequence or a sw.schedules instance; got {}
"""

LANDMARKS = r"""
l.Uniform(0) | count must be a whole number of at least 1, got 0
l.Uniform(-1) | count must be a whole number of at least 1, got -1
l.Uniform(1.5) | count must be a whole number of at least 1, got 1.5
l.Uniform("many") | count must be a whole number of at least 1, got 'many'
l.Uniform(True) | count must be a whole number of at least 1, got True
l.Uniform(None) | count must be a whole number of at least 1, got None
l.Leverage(0) | count must be a whole number of at least 1, got 0
l.Leverage(10, 0) | count must be a whole number of at least 1, got 0
l.Leverage(10, 1.5) | count must be a whole number of at least 1, got 1.5
l.Leverage(nan) | count must be a whole number of at least 1, got nan
"""


@pytest.mark.parametrize(("call", "words"), rows(KERNELS))
def test_a_kernel_that_cannot_be_says_why(call, words):
    refused(lambda: eval(call, NAMES), words)


@pytest.mark.parametrize(("call", "words"), rows(SCHEDULES))
def test_steps_that_cannot_be_say_why(call, words):
    refused(lambda: eval(call, NAMES), words)


@pytest.mark.parametrize(("call", "words"), rows(LANDMARKS))
def test_landmarks_that_cannot_be_say_why(call, words):
    refused(lambda: eval(call, NAMES), words)


RIGHT = """
k.Gaussian(1.0)([[1e308], [-1e308]]).tolist() == [[1, 0], [0, 1]]
k.Gaussian(1e-300)([[1.0], [2.0]]).tolist() == [[1, 0], [0, 1]]
k.Gaussian(1e300)([[1.0], [2.0]]).tolist() == [[1, 1], [1, 1]]
k.Laplace(1.0)([[1e200], [-1e200], [0.0]]).tolist() == np.eye(3).tolist()
k.Matern(1.0)([[1e200], [-1e200], [0.0]]).tolist() == np.eye(3).tolist()
k.Matern(1.0, 2.5)([[1e200], [-1e200], [0.0]]).tolist() == np.eye(3).tolist()
k.Gaussian(1.0)(np.empty((0, 1))).shape == (0, 0)
k.Gaussian(1.0)([[True], [False]])[0, 1] == np.exp(-0.5)
k.Gaussian(1.0)(np.array([[1], [0]], dtype=object))[0, 1] == np.exp(-0.5)
k.Gaussian(np.float32(0.5)) == k.Gaussian(0.5)
k.Gaussian(np.array([0.5, 0.25])) == k.Gaussian((0.5, 0.25))
k.Polynomial(np.int64(2))([[2.0]])[0, 0] == 25
s.Sequence(v for v in [0.5, 0.25]) == s.Sequence([0.5, 0.25])
s.Sequence(np.array([1, 1], dtype=bool)).step_sum(3) == 3
s.Constant(np.float32(0.25)).step_sum(4) == 1
s.Constant(0.25).iteration(inf) == inf
float(s.Constant(1e-300).step_sum(10)) == 1e-299
"""


@pytest.mark.parametrize("claim", RIGHT.strip().splitlines())
def test_odd_but_meaningful_parts_work(claim):
    assert eval(claim, NAMES)
