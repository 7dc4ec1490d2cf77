"""stopwise once more, slowly: every formula as a loop over points, steps or eigenvalues.

Nothing here imports the package. The fast code is checked against these lines, so they stay plain: a Gram
matrix is a double loop, the descent is run step by step, a hat matrix is built from unit responses, a rule
is a search.
K stands for Gram / n throughout, `noise_std` for a standard deviation; E1, E2, ... are the errata of RWY14.
"""

import math

import mpmath
import numpy as np
from scipy.linalg import expm
from scipy.optimize import brentq

# --- kernels: one pair of points at a time --------------------------------------------------------


def on_interval(pair, interval):
    """The kernel of [0, 1] carried over to another interval by an affine map."""
    low, high = interval
    return lambda x, z: pair((np.asarray(x) - low) / (high - low), (np.asarray(z) - low) / (high - low))


def sobolev(order, anchored=True):
    def pair(x, z):
        low, high = min(x[0], z[0]), max(x[0], z[0])
        if order == 1:
            return low + (0.0 if anchored else 1.0)
        # the integral of (x-u)_+ (z-u)_+ over u in [0, 1]
        return low**2 * (3 * high - low) / 6 + (0.0 if anchored else 1 + x[0] * z[0])

    return pair


def spline_by_quadrature(x, z, n_nodes=20_000):
    """Order 2 anchored, straight from its defining integral (midpoint rule)."""
    total = 0.0
    for i in range(n_nodes):
        u = (i + 0.5) / n_nodes
        total += max(x - u, 0.0) * max(z - u, 0.0)
    return total / n_nodes


def periodic_sobolev(order):
    def pair(x, z):
        gap = (x[0] - z[0]) % 1.0
        bernoulli = float(mpmath.bernpoly(2 * order, gap))
        return 1 + (-1) ** (order - 1) * (2 * math.pi) ** (2 * order) / math.factorial(2 * order) * bernoulli

    return pair


def periodic_by_cosines(x, z, order, n_terms=20_000):
    """The same kernel as its Fourier series: 1 + 2 sum k^(-2 order) cos(2 pi k (x - z))."""
    total = 1.0
    for k in range(1, n_terms + 1):
        total += 2 * k ** (-2.0 * order) * math.cos(2 * math.pi * k * (x - z))
    return total


def distance(x, z, length_scale):
    total = 0.0
    scales = np.broadcast_to(np.asarray(length_scale, float), np.shape(x))
    for a, b, scale in zip(x, z, scales, strict=True):
        total += ((a - b) / scale) ** 2
    return math.sqrt(total)


def gaussian(length_scale=1.0):
    return lambda x, z: math.exp(-(distance(x, z, length_scale) ** 2) / 2)


def laplace(length_scale=1.0):
    return lambda x, z: math.exp(-distance(x, z, length_scale))


def matern(smoothness, length_scale=1.0):
    def pair(x, z):
        s = math.sqrt(2 * smoothness) * distance(x, z, length_scale)
        return {0.5: 1.0, 1.5: 1 + s, 2.5: 1 + s + s**2 / 3}[smoothness] * math.exp(-s)

    return pair


def linear():
    return lambda x, z: sum(a * b for a, b in zip(x, z, strict=True))


def polynomial(degree):
    return lambda x, z: (1 + linear()(x, z)) ** degree


def gram(pair, X, Z=None):
    Z = X if Z is None else Z
    return np.array([[pair(x, z) for z in Z] for x in X], dtype=float)


def centre(matrix):
    """Subtract row and column means: the Gram matrix once the intercept is left free."""
    n = len(matrix)
    averaging = np.full((n, n), 1.0 / n)
    return (np.eye(n) - averaging) @ matrix @ (np.eye(n) - averaging)


def eigenvalues(K):
    """Descending, rounding below zero cleared."""
    return np.maximum(np.linalg.eigvalsh(K)[::-1], 0.0)


def eigenpairs(K):
    values, vectors = np.linalg.eigh(K)
    return np.maximum(values[::-1], 0.0), vectors[:, ::-1]


def square_root(K):
    values, vectors = eigenpairs(K)
    return vectors @ np.diag(np.sqrt(values)) @ vectors.T


# --- the paths: lists of fitted values, one entry per iterate -------------------------------------


def descent_theta(K, y, steps):
    """RWY14 eq. (5) in root coordinates; fitted values are sqrt(n) sqrt(K) theta (E3)."""
    n, root = len(y), square_root(K)
    theta = np.zeros(n)
    fits = [np.zeros(n)]
    for step in steps:
        theta = theta - step * (K @ theta - root @ y / math.sqrt(n))
        fits.append(math.sqrt(n) * root @ theta)
    return fits


def descent_omega(K, y, steps):
    """Weights of f = (1/sqrt n) sum_i omega_i k(., x_i), with the corrected update (E2)."""
    n = len(y)
    weights = [np.zeros(n)]
    for step in steps:
        omega = weights[-1]
        weights.append(omega - step * (K @ omega - y / math.sqrt(n)))
    return weights


def fits_of_weights(K, weights):
    return [math.sqrt(len(omega)) * K @ omega for omega in weights]  # E3


def descent_fits(K, y, steps):
    """Fitted values themselves, with the sign of E1."""
    fits = [np.zeros(len(y))]
    for step in steps:
        fits.append(fits[-1] - step * (K @ fits[-1]) + step * (K @ y))
    return fits


def ridge_fit(K, y, inverse_penalty):
    """argmin (1/2n) |y - f|^2 + |f|_H^2 / (2 inverse_penalty)."""
    n = len(y)
    return K @ np.linalg.solve(K + np.eye(n) / inverse_penalty, y)


def flow_fit(K, y, step_sum):
    return y - expm(-step_sum * K) @ y


def cutoff_fit(K, y, step_sum):
    """Projection on the eigenvectors whose eigenvalue is at least 1 / step_sum."""
    values, vectors = eigenpairs(K)
    fit = np.zeros(len(y))
    for value, vector in zip(values, vectors.T, strict=True):
        if value * step_sum >= 1:
            fit += vector * (vector @ y)
    return fit


def nu_method_fits(K, y, n_steps, nu=1.0):
    """The semi-iteration of Brakhage, on K divided by its largest eigenvalue."""
    scaled = K / eigenvalues(K)[0]
    previous, fit = np.zeros(len(y)), np.zeros(len(y))
    fits = [fit]
    for k in range(1, n_steps + 1):
        if k == 1:
            mu, omega = 0.0, (4 * nu + 2) / (4 * nu + 1)
        else:
            below = (k + 2 * nu - 1) * (2 * k + 4 * nu - 1)
            mu = (k - 1) * (2 * k - 3) * (2 * k + 2 * nu - 1) / (below * (2 * k + 2 * nu - 3))
            omega = 4 * (2 * k + 2 * nu - 1) * (k + nu - 1) / below
        previous, fit = fit, fit + mu * (fit - previous) + omega * scaled @ (y - fit)
        fits.append(fit)
    return fits


def nu_method_clock(iteration, largest_eigenvalue, nu=1.0):
    return 2 * iteration * (iteration + 2 * nu) / ((4 * nu + 1) * largest_eigenvalue)


def hat_matrix(smoother, n):
    """The matrix of a linear smoother, a unit response for each column."""
    hat = np.zeros((n, n))
    for i in range(n):
        unit = np.zeros(n)
        unit[i] = 1.0
        hat[:, i] = smoother(unit)
    return hat


def hat_matrices(path, n):
    """The same for a smoother that returns one fit for each iterate."""
    columns = [path(unit) for unit in np.eye(n)]
    return [np.column_stack([column[t] for column in columns]) for t in range(len(columns[0]))]


# --- local complexity and the rule of the paper ---------------------------------------------------


def local_complexity(values, radius, n_samples=None):
    n = len(values) if n_samples is None else n_samples
    total = 0.0
    for value in values:
        total += min(value, radius**2)
    return math.sqrt(total / n)


def critical_radius(values, noise_std, hilbert_radius=1.0, constant=2 * math.e, n_samples=None):
    """The one root of Rhat(eps) = R eps^2 / (c sigma), by bracketing on the logarithm of eps (E7)."""

    def excess(log_radius):
        radius = math.exp(log_radius)
        threshold = hilbert_radius * radius**2 / (constant * noise_std)
        return math.log(local_complexity(values, radius, n_samples)) - math.log(threshold)

    low, high = -1.0, 1.0
    while excess(low) < 0:
        low -= 1.0
    while excess(high) > 0:
        high += 1.0
    return math.exp(brentq(excess, low, high, xtol=1e-15, rtol=8.9e-16))


def critical_radius_in_digits(values, noise_std, hilbert_radius=1.0, constant=None, n_samples=None, digits=40):
    """The same root by bisection in long arithmetic."""
    with mpmath.workdps(digits):
        n = len(values) if n_samples is None else n_samples
        c = 2 * mpmath.e if constant is None else mpmath.mpf(constant)
        exact = [mpmath.mpf(float(value)) for value in values]
        target = mpmath.mpf(hilbert_radius) ** 2 * n / (c * mpmath.mpf(noise_std)) ** 2
        low, high = mpmath.mpf(0), mpmath.mpf(1)
        while travel(exact, high) < target:
            high *= 2
        for _ in range(4 * digits):
            middle = (low + high) / 2
            low, high = (middle, high) if travel(exact, middle) < target else (low, middle)
        return float(1 / mpmath.sqrt(high))


def travel(values, step_sum):
    """eta d(eta), the increasing side of the rule."""
    return step_sum * sum(min(1, step_sum * value) for value in values)


def stopping_time(values, steps, noise_std, hilbert_radius=1.0, constant=2 * math.e):
    """RWY14 eq. (6), read literally: the first t >= 1 past the threshold, less one (E10)."""
    step_sum = 0.0
    for t, step in enumerate(steps, start=1):
        step_sum += step
        threshold = hilbert_radius / (constant * noise_std * step_sum)
        if local_complexity(values, 1 / math.sqrt(step_sum)) > threshold:
            return t - 1
    raise ValueError("not enough steps to cross")


def population_critical_radius(values, n_samples, noise_std, constant=40.0):
    """40 R(eps) = eps^2 / sigma, with R averaged over n_samples (E8)."""
    return critical_radius(values, noise_std, 1.0, constant, n_samples)


# --- exact risk and the criteria, by dense matrices -----------------------------------------------


def squared_bias(hat, truth):
    return np.sum((truth - hat @ truth) ** 2) / len(truth)


def variance(hat, noise_std):
    return noise_std**2 * np.sum(hat**2) / len(hat)


def risk(hat, truth, noise_std):
    return squared_bias(hat, truth) + variance(hat, noise_std)


def minimax_risk(values, shrinkage, noise_std, hilbert_radius=1.0):
    """The largest risk over truths of the ball: all its radius spent on the worst eigenvector."""
    worst, spread = 0.0, 0.0
    for value, left in zip(values, shrinkage, strict=True):
        worst = max(worst, hilbert_radius**2 * value * left**2)
        spread += (1 - left) ** 2
    return worst + noise_std**2 * spread / len(values)


def sure(hat, y, noise_std):
    n = len(y)
    left = np.eye(n) - hat
    return (n * noise_std**2 + np.sum((left @ y) ** 2) - 2 * noise_std**2 * np.trace(left)) / n


def gcv(hat, y):
    """Infinite once no degree of freedom is left."""
    n = len(y)
    left = np.eye(n) - hat
    share = np.trace(left) / n
    return np.mean((left @ y) ** 2) / share**2 if share > 1e-8 else math.inf


def loo_shortcut(hat, y):
    """Infinite at a row whose leverage is one or more."""
    residual = y - hat @ y
    return np.array([e / (1 - h) if h < 1 - 1e-10 else math.inf for e, h in zip(residual, np.diag(hat), strict=True)])


def loo_by_refits(raw_gram, y, alpha, fit_intercept=False):
    """Ridge refitted without each row in turn, at a fixed alpha; the error made on the row left out."""
    n = len(y)
    errors = np.zeros(n)
    for i in range(n):
        keep = [j for j in range(n) if j != i]
        inner, outer, target = raw_gram[np.ix_(keep, keep)], raw_gram[i, keep], y[keep]
        if fit_intercept:
            # bordered system: the constant is not penalised
            system = np.block([[inner + alpha * np.eye(n - 1), np.ones((n - 1, 1))], [np.ones((1, n - 1)), 0.0]])
            solution = np.linalg.solve(system, np.append(target, 0.0))
            prediction = outer @ solution[:-1] + solution[-1]
        else:
            prediction = outer @ np.linalg.solve(inner + alpha * np.eye(n - 1), target)
        errors[i] = y[i] - prediction
    return errors


# --- rules as searches over a list of criterion values --------------------------------------------


def first_rise(scores):
    """The local minimiser: the smallest t with score(t + 1) > score(t) (E12)."""
    for t in range(len(scores) - 1):
        if scores[t + 1] > scores[t]:
            return t
    return None


def literal_rise(scores):
    """As printed: one iterate before the local minimiser, and none before the start (E12)."""
    local = first_rise(scores)
    return None if local is None else max(local - 1, 0)


def lowest(scores):
    best = 0
    for t, score in enumerate(scores):
        if score < scores[best]:
            best = t
    return best


def discrepancy(residual_mean_squares, noise_std):
    """The first iterate whose mean squared residual is down to the noise level."""
    for t, value in enumerate(residual_mean_squares):
        if value <= noise_std**2:
            return t
    return None


def holdout_scores(pair, X, y, train, test, steps, fit_intercept=False):
    """Mean squared error on the test rows of the descent run on the training rows (E11)."""
    offset = np.mean(y[train]) if fit_intercept else 0.0
    inner, outer = gram(pair, X[train]), gram(pair, X[test], X[train])
    if fit_intercept:
        outer = outer - outer.mean(axis=1, keepdims=True) - inner.mean(axis=0) + inner.mean()
        inner = centre(inner)
    n = len(train)
    scores = []
    for omega in descent_omega(inner / n, y[train] - offset, steps):
        prediction = outer @ omega / math.sqrt(n) + offset
        scores.append(np.mean((y[test] - prediction) ** 2))
    return scores


def minimax_scores(values, shrinkages, noise_std, hilbert_radius):
    return [minimax_risk(values, left, noise_std, hilbert_radius) for left in shrinkages]


def self_consistent_stop(values, step_sums, squared_norms, noise_std, constant=1.2):
    """The last iterate before the rule, with the norm of the fit itself for a radius, first ceases to hold."""
    n, held = len(values), False
    for t in range(1, len(step_sums)):
        holds = travel(values, step_sums[t]) <= n * squared_norms[t] / (constant * noise_std) ** 2
        if held and not holds:
            return t - 1
        held = held or holds
    return None if held else 0


def estimated_radius(values, coefficients, steps, noise_std, constant=2 * math.e):
    """R <- max(R, sqrt N(T(R))) from sd(y) / sqrt(trace), N the debiased squared norm of the stopped descent."""
    n = len(values)
    radius = math.sqrt(np.sum(coefficients**2) / n / np.sum(values))
    while True:
        t = stopping_time(values, steps, noise_std, radius, constant)
        total = 0.0
        for value, coefficient in zip(values, coefficients, strict=True):
            gain = 1.0
            for step in steps[:t]:
                gain *= 1 - step * value
            gain = 1 - gain
            if value > 0:
                total += gain**2 * (coefficient**2 - noise_std**2) / value / n
        grown = max(radius, math.sqrt(max(total, 0.0)))
        if grown <= radius * (1 + 1e-10):
            return radius, t
        radius = grown


# --- noise level, in the units of y ---------------------------------------------------------------


def pooled(x, y):
    """Distinct covariates in order, the mean response and the count at each, and the squares within ties."""
    groups = {}
    for point, value in zip(x, y, strict=True):
        groups.setdefault(float(point), []).append(float(value))
    points = sorted(groups)
    means = [sum(groups[p]) / len(groups[p]) for p in points]
    within = sum((value - mean) ** 2 for p, mean in zip(points, means, strict=True) for value in groups[p])
    return points, means, [len(groups[p]) for p in points], within


def rice(x, y):
    points, means, counts, within = pooled(x, y)
    total, free = within, len(y) - len(points)
    for i in range(len(points) - 1):
        total += (means[i + 1] - means[i]) ** 2 / (1 / counts[i] + 1 / counts[i + 1])
        free += 1
    return math.sqrt(total / free)


def gasser_sroka_jennen(x, y):
    points, means, counts, within = pooled(x, y)
    total, free = within, len(y) - len(points)
    for i in range(1, len(points) - 1):
        a = (points[i + 1] - points[i]) / (points[i + 1] - points[i - 1])
        b = 1 - a
        gap = a * means[i - 1] + b * means[i + 1] - means[i]
        total += gap**2 / (a**2 / counts[i - 1] + b**2 / counts[i + 1] + 1 / counts[i])
        free += 1
    return math.sqrt(total / free)


def hall_marron(X, y, bandwidth):
    """Nadaraya-Watson with a Gaussian window; the divisor is the trace that makes it unbiased for noise alone."""
    n = len(y)
    smoother = gram(gaussian(bandwidth), X)
    for i in range(n):
        smoother[i] = smoother[i] / np.sum(smoother[i])
    residual = y - smoother @ y
    return math.sqrt(np.sum(residual**2) / (n - 2 * np.trace(smoother) + np.sum(smoother**2)))


def rule_of_thumb_bandwidth(X):
    n, d = X.shape
    return [1.06 * np.std(X[:, j]) * n ** (-1 / (d + 4)) for j in range(d)]


def nearest_neighbour(X, y, detrend):
    """Half the mean squared gap to the nearest other row, columns standardised, a linear trend taken out first."""
    n, d = X.shape
    X = np.column_stack([(X[:, j] - np.mean(X[:, j])) / np.std(X[:, j]) for j in range(d)])
    if detrend:
        design = np.column_stack([np.ones(n), X])
        y = y - design @ np.linalg.solve(design.T @ design, design.T @ y)
    total = 0.0
    for i in range(n):
        nearest = min((j for j in range(n) if j != i), key=lambda j: distance(X[i], X[j], 1.0))
        total += (y[i] - y[nearest]) ** 2 / 2
    return math.sqrt(total / n)


def spectral_tail(K, y, leading):
    _, vectors = eigenpairs(K)
    total = 0.0
    for j in range(leading, len(y)):
        total += (vectors[:, j] @ y) ** 2
    return math.sqrt(total / (len(y) - leading))


def minus_twice_log_likelihood(K, y, ratio):
    """y ~ N(0, s^2 (I + ratio K)) with s^2 at its best; returns (score, s^2)."""
    n = len(y)
    covariance = np.eye(n) + ratio * K
    variance_at_best = y @ np.linalg.solve(covariance, y) / n
    return n * math.log(variance_at_best) + np.linalg.slogdet(covariance)[1], variance_at_best


def evidence(K, y, ratios):
    """The noise at the largest likelihood times the noise's share of the variance of a row."""

    def score(ratio):
        share = 1 / (1 + ratio * np.trace(K) / len(y))
        return minus_twice_log_likelihood(K, y, ratio)[0] - 2 * math.log(share)

    best = min(ratios, key=score)
    return math.sqrt(minus_twice_log_likelihood(K, y, best)[1])


def residual_of_gcv(K, y, inverse_penalties):
    """RSS / (n - df) of the ridge fit with the smallest GCV on a grid."""
    n = len(y)
    hats = [hat_matrix(lambda unit, nu=nu: ridge_fit(K, unit, nu), n) for nu in inverse_penalties]
    best = min(hats, key=lambda hat: gcv(hat, y))
    return math.sqrt(np.sum((y - best @ y) ** 2) / (n - np.trace(best)))
