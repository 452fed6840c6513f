"""Formulas of tensors, and the laws that keep their digits, in both types of numbers: values and gradients."""

from __future__ import annotations

import mpmath
import numpy as np
import sympy
from every import every
from sympy import (
    Rational,
    Symbol,
    acos,
    atan,
    besseli,
    cos,
    cosh,
    erf,
    erfc,
    exp,
    log,
    pi,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
)

import sympy_tensordiff as td

n, i = td.indices("n i")
x, y = td.TensorSymbol("x", n), td.TensorSymbol("y", n)
A, B = td.TensorSymbol("A", (n, n)), td.TensorSymbol("B", (n, n))
s = Symbol("s", real=True)
ULPS = 8
TYPES = (np.float64, np.float32)

SMALL, LARGE = (lambda u: u**0.5, lambda u: u**-0.6)
"""Sizes of arguments by the unit roundoff: those at which naive formulas have few digits left."""


def both(size):
    """Return arguments of both signs and about one size."""
    return lambda u: np.array([1.1, -0.7, 0.3]) * (size(u) if callable(size) else size)


def positive(size):
    """Return positive arguments of about one size."""
    return lambda u: abs(both(size)(u))


def shifted(start, step=1.0):
    """Return arguments that differ by about `step` from `start`."""
    return lambda u: start + step * np.array([0.0, 1.0, -0.75])


def total(entry):
    """Return the function of lists that sums the function `entry` of their entries."""
    return lambda *lists: mpmath.fsum(entry(*entries) for entries in zip(*lists, strict=True))


def matrix(v):
    """Return 9 numbers as a matrix."""
    return mpmath.matrix([v[0:3], v[3:6], v[6:9]])


def mean(v):
    """Return the mean of a list."""
    return mpmath.fsum(v) / len(v)


def softmax(v):
    """Return the softmax of a list."""
    powers = [mpmath.exp(a) for a in v]
    return [power / mpmath.fsum(powers) for power in powers]


def scores(scale):
    """Return a matrix of scores, as nine numbers."""
    return lambda u: np.array([0.5, -1.0, 2.0, 1.5, 0.25, -0.5, 1.0, 0.75, -2.0]) * scale


def near_identity(scale):
    """Return a matrix near a multiple of the unit matrix, as nine numbers."""
    return lambda u: (np.eye(3) + np.array([[0.1, 0.2, 0], [0, -0.1, 0.3], [0.1, 0, 0.2]])).ravel() * scale


S = td.sum
log_sum = lambda v: mpmath.log(mpmath.fsum(map(mpmath.exp, v)))  # noqa: E731
SIGMOID = 1 / (1 + td.exp(-x))

# The formula, the same of lists of numbers, and the arguments by the unit roundoff.
TENSORS = {
    "exponentials": (S(td.exp(x) - 1), total(mpmath.expm1), {x: both(SMALL)}),
    "logarithms": (S(td.log(1 + x)), total(mpmath.log1p), {x: positive(SMALL)}),
    "complements": (
        S(td.log(1 - td.exp(x))),
        total(lambda a: mpmath.log(1 - mpmath.exp(a))),
        {x: lambda u: -positive(0.1)(u)},
    ),
    "phi": (S((td.exp(x) - 1) / x), total(lambda a: mpmath.expm1(a) / a), {x: both(SMALL)}),
    "curvature": (S((1 - td.cos(x)) / x**2), total(lambda a: (1 - mpmath.cos(a)) / a**2), {x: both(SMALL)}),
    "sinc": (S(td.sin(x) / x), total(lambda a: mpmath.sin(a) / a), {x: both(SMALL)}),
    "roots": (
        S(td.sqrt(x + 1) - td.sqrt(x)),
        total(lambda a: mpmath.sqrt(a + 1) - mpmath.sqrt(a)),
        {x: positive(LARGE)},
    ),
    "reciprocals": (S(1 / (x + 1) - 1 / x), total(lambda a: 1 / (a + 1) - 1 / a), {x: positive(LARGE)}),
    "hyperbola": (S(td.sqrt(x**2 + 1) - 1), total(lambda a: mpmath.sqrt(a**2 + 1) - 1), {x: both(SMALL)}),
    "probit": (
        S(td.elementwise(lambda a: log(erfc(a)), x)),
        total(lambda a: mpmath.log(mpmath.erfc(a))),
        {x: positive(6)},
    ),
    "log-cosh": (S(td.log(td.cosh(x))), total(lambda a: mpmath.log(mpmath.cosh(a))), {x: both(SMALL)}),
    "log-cosh, large": (S(td.log(td.cosh(x))), total(lambda a: mpmath.log(mpmath.cosh(a))), {x: both(500)}),
    "slope of tanh": (
        td.IndexedSum(1 - tanh(x[i]) ** 2, (i, 0, n - 1)),
        total(lambda a: mpmath.sech(a) ** 2),
        {x: positive(15)},
    ),
    "softplus": (S(td.log(1 + td.exp(x))), total(lambda a: mpmath.log1p(mpmath.exp(a))), {x: both(60)}),
    "log-sum-exp": (td.logsumexp(x), log_sum, {x: shifted(1000)}),
    "softmax": (
        S(td.softmax(x) * y),
        lambda a, b: mpmath.fsum(p * c for p, c in zip(softmax(a), b, strict=True)),
        {x: shifted(1000), y: positive(2)},
    ),
    "attention": (
        S(td.softmax(A, axis=1) @ x),
        lambda a, v: mpmath.fsum(
            p * c for row in range(3) for p, c in zip(softmax(a[3 * row : 3 * row + 3]), v, strict=True)
        ),
        {A: scores(1), x: positive(1)},
    ),
    "variance": (td.mean(x**2) - td.mean(x) ** 2, lambda v: mean([(a - mean(v)) ** 2 for a in v]), {x: shifted(10)}),
    "unbiased variance": (
        (S(x**2) - S(x) ** 2 / n) / (n - 1),
        lambda v: mpmath.fsum((a - mean(v)) ** 2 for a in v) / (len(v) - 1),
        {x: shifted(10)},
    ),
    "covariance": (
        td.mean(x * y) - td.mean(x) * td.mean(y),
        lambda v, w: mean([(a - mean(v)) * (b - mean(w)) for a, b in zip(v, w, strict=True)]),
        {x: shifted(10), y: shifted(-10, 2.0)},
    ),
    "determinants": (
        log(td.det(A) * td.det(B)),
        lambda a, b: mpmath.log(mpmath.det(matrix(a))) + mpmath.log(mpmath.det(matrix(b))),
        {A: near_identity(2.0**50), B: near_identity(2.0**-70)},
    ),
    "background": (td.log(1 + S(td.exp(x))), lambda v: log_sum([0, *v]), {x: shifted(800)}),
    "background, small": (
        td.log(1 + S(y * td.exp(x))),
        lambda v, w: mpmath.log1p(mpmath.fsum(b * mpmath.exp(a) for a, b in zip(v, w, strict=True))),
        {x: lambda u: -shifted(0.4 / u**0.2)(u), y: positive(2)},
    ),
    "share of the background": (
        log(1 + td.IndexedSum(exp(x[i]), (i, 0, n - 1))) - log(td.IndexedSum(exp(x[i]), (i, 0, n - 1))),
        lambda v: mpmath.log1p(1 / mpmath.fsum(map(mpmath.exp, v))),
        {x: positive(3)},
    ),
    "entropy": (S(x * td.log(x)), total(lambda a: a * mpmath.log(a)), {x: positive(0.3)}),
    "divergence": (S(x * td.log(x / y)), total(lambda a, b: a * mpmath.log(a / b)), {x: positive(2), y: positive(0.1)}),
    "logistic loss": (
        -S(y * td.log(SIGMOID) + (1 - y) * td.log(1 - SIGMOID)),
        total(lambda a, b: b * mpmath.log1p(mpmath.exp(-a)) + (1 - b) * mpmath.log1p(mpmath.exp(a))),
        {x: both(60), y: positive(0.5)},
    ),
    "norm": (td.norm(x), lambda v: mpmath.sqrt(mpmath.fsum(a**2 for a in v)), {x: both(3)}),
    "Bessel": (
        S(td.elementwise(lambda a: log(besseli(0, a)), x)),
        total(lambda a: mpmath.log(mpmath.besseli(0, a))),
        {x: positive(700)},
    ),
    "sines": (
        S(td.sin(x + y) - td.sin(x)),
        total(lambda a, b: mpmath.sin(a + b) - mpmath.sin(a)),
        {x: both(1), y: both(SMALL)},
    ),
    "tangents": (
        S(td.tan(x + y) - td.tan(x)),
        total(lambda a, b: mpmath.tan(a + b) - mpmath.tan(a)),
        {x: both(1), y: positive(SMALL)},
    ),
    "angles": (
        S(td.atan(x + 1) - td.atan(x)),
        total(lambda a: mpmath.atan(a + 1) - mpmath.atan(a)),
        {x: positive(lambda u: u**-0.4)},
    ),
    "third roots": (
        td.IndexedSum(sympy.cbrt(x[i] + 1) - sympy.cbrt(x[i]), (i, 0, n - 1)),
        total(lambda a: mpmath.cbrt(a + 1) - mpmath.cbrt(a)),
        {x: positive(LARGE)},
    ),
    "second difference": (
        S(1 / (x + 1) - 2 / x + 1 / (x - 1)),
        total(lambda a: 2 / (a * (a**2 - 1))),
        {x: positive(lambda u: u**-0.4)},
    ),
    "segments": (S(x - td.sin(x)), total(lambda a: a - mpmath.sin(a)), {x: positive(0.1)}),
    "Langevin": (S(1 / td.tanh(x) - 1 / x), total(lambda a: mpmath.coth(a) - 1 / a), {x: positive(0.1)}),
    "Bernoulli": (S(x / (td.exp(x) - 1)), total(lambda a: a / mpmath.expm1(a)), {x: both(SMALL)}),
    "least squares": (
        S((A @ x - y) ** 2),
        lambda a, v, w: mpmath.fsum(
            (mpmath.fsum(a[3 * row + k] * v[k] for k in range(3)) - w[row]) ** 2 for row in range(3)
        ),
        {A: scores(1), x: positive(1), y: lambda u: np.array([-4.0, -3.0, 5.0])},
    ),
    "inverse of softplus": (
        S(td.log(td.exp(x) - 1)),
        total(lambda a: a + mpmath.log1p(-mpmath.exp(-a))),
        {x: positive(1000)},
    ),
    "area sine": (S(td.log(x + td.sqrt(x**2 + 1))), total(mpmath.asinh), {x: positive(SMALL)}),
    "tails": (S(1 - td.erf(x)), total(mpmath.erfc), {x: positive(3)}),
    "powers of 2": (
        td.IndexedSum(2 ** x[i] - 1, (i, 0, n - 1)),
        total(lambda a: mpmath.expm1(a * mpmath.log(2))),
        {x: both(SMALL)},
    ),
    "arc lengths": (
        S(td.elementwise(lambda a: acos(1 - a), x)),
        total(lambda a: mpmath.acos(1 - a)),
        {x: positive(SMALL)},
    ),
}


def slopes(function, lists, position):
    """Return the gradient with respect to one of the lists, by differences with 400 digits."""
    step = mpmath.mpf(10) ** -120
    found = []
    for k in range(len(lists[position])):
        ends = []
        for sign in (1, -1):
            moved = [list(one) for one in lists]
            moved[position][k] += sign * step
            ends.append(function(*moved))
        found.append((ends[0] - ends[1]) / (2 * step))
    return found


def off(found, wanted, dtype):
    """Return the largest error of numbers in units of the last place of the largest one."""
    size = max(abs(one) for one in wanted)
    errors = [
        abs(mpmath.mpf(float(a)) - w) if np.isfinite(a) else mpmath.inf for a, w in zip(found, wanted, strict=True)
    ]
    return float(max(errors) / size / mpmath.mpf(float(np.finfo(dtype).eps)))


@every("backend", ["numpy", "llvm"], turns=8)
def test_formulas_of_tensors(backend, thorough):
    """Values within 8 units in the last place; gradients within 8 units of their largest entry."""
    every_formula = backend == "numpy" or thorough  # compilation takes most of the time
    for name, (formula, function, makers) in [*TENSORS.items()][:: 1 if every_formula else 5]:
        arguments = tuple(makers)
        kernel = td.lambdify(arguments, (formula, *td.gradient(formula, arguments)), backend)
        for dtype in TYPES if name != "Bessel" or backend == "numpy" else TYPES[:1]:
            arrays = [make(float(np.finfo(dtype).eps)).astype(dtype) for make in makers.values()]
            shaped = [a.reshape(3, 3) if a.size == 9 else a for a in arrays]
            with np.errstate(all="ignore"):
                value, *gradients = kernel(*shaped)
            with mpmath.workdps(400):
                lists = [[mpmath.mpf(float(a)) for a in array] for array in arrays]
                assert off([value], [function(*lists)], dtype) <= ULPS, (name, dtype, "value")
                for position, gradient in enumerate(gradients):
                    wanted = slopes(function, lists, position)
                    assert off(gradient.ravel(), wanted, dtype) <= ULPS, (name, dtype, arguments[position])


def logarithmic(low, high, signs=(1,)):
    """Return a function that draws numbers between ``low`` and ``high`` uniformly in their logarithms."""
    return lambda rng, count: np.exp(rng.uniform(np.log(low), np.log(high), count)) * rng.choice(signs, count)


BOTH = (1, -1)
BELOW_40 = logarithmic(1e-9, 40, BOTH)
# Each law: a formula that it rewrites, and the points at which its value and its derivative are compared.
LAWS = {
    "exp(u) - 1": (exp(s) - 1, logarithmic(1e-30, 10, BOTH)),
    "log(1 + u)": (log(1 + s), logarithmic(1e-30, 1e6)),
    "log(1 - exp(u))": (log(1 - exp(s)), logarithmic(1e-30, 60, (-1,))),
    "1 - cos(u)": (1 - cos(s), logarithmic(1e-12, 1, BOTH)),
    "cosh(u) - 1": (cosh(s) - 1, logarithmic(1e-12, 10, BOTH)),
    "1 - tanh(u)**2": (1 - tanh(s) ** 2, logarithmic(1e-3, 40, BOTH)),
    "1 - erf(u)": (1 - erf(s), logarithmic(1e-3, 3)),
    "1 + erf(u)": (1 + erf(s), logarithmic(1e-3, 3, (-1,))),
    "sqrt(a) - sqrt(b)": (sqrt(s + 1) - sqrt(s), logarithmic(1e-3, 1e18)),
    "1/a - 1/b": (1 / (s + 1) - 1 / s, logarithmic(1e-3, 1e9)),
    "sqrt(1 + u**2) - 1": (sqrt(s**2 + 1) - 1, logarithmic(1e-12, 1e9, BOTH)),
    "third roots": (sympy.cbrt(s + 1) - sympy.cbrt(s), logarithmic(1e-3, 1e9)),
    "fifth roots": ((s + 1) ** Rational(1, 5) - s ** Rational(1, 5), logarithmic(1, 1e3)),
    "sum of reciprocals": (1 / (s + 1) - 2 / s + 1 / (s - 1), logarithmic(2, 1e6)),
    "angles": (atan(s + 1) - atan(s), logarithmic(1e-3, 1e6)),
    "tangents": (tan(s + Rational(1, 1024)) - tan(s), logarithmic(1e-3, 1.2)),
    "exponentials": (exp(s + Rational(1, 1024)) - exp(s), logarithmic(1e-3, 10)),
    "logarithms": (log(s + 1) - log(s), logarithmic(1e-3, 1e18)),
    "sinh(u)/u": (sinh(s) / s, logarithmic(1e-12, 5, BOTH)),
    "sin(u)/u": (sin(s) / s, logarithmic(1e-12, 1.5, BOTH)),
    "(1 - cos(u))/u**2": ((1 - cos(s)) / s**2, logarithmic(1e-12, 2, BOTH)),
    "1/tanh(u) - 1/u": (1 / tanh(s) - 1 / s, logarithmic(1e-3, 20, BOTH)),
    "log(cosh(u))": (log(cosh(s)), logarithmic(1e-12, 60, BOTH)),
    "log(sinh(u))": (log(sinh(s)), logarithmic(1e-3, 0.5)),
    "log(erfc(u))": (log(erfc(s)), logarithmic(1e-3, 1e3)),
    "exp(u**2)*erfc(u)": (exp(s**2) * erfc(s), logarithmic(1e-3, 1e3)),
    "besseli": (log(besseli(0, s)), logarithmic(1e-3, 1e3)),
    "asinh": (log(s + sqrt(s**2 + 1)), logarithmic(1e-12, 1e3)),
    "acos(1 - u)": (acos(1 - s), logarithmic(1e-12, 1)),
    "log(1 + c*exp(u))": (log(1 + 3 * exp(s)), logarithmic(1e-9, 80, BOTH)),
    "log(1 + exp(u) + exp(v))": (log(1 + exp(s) + 2 * exp(2 * s)), logarithmic(1e-9, 30, BOTH)),
    "softplus(u) - u": (log(1 + exp(s)) - s, logarithmic(1e-3, 60)),
    "exp(u)/expm1(u)**2": (1 / (exp(s) - 1), logarithmic(1e-3, 80)),
    "erf(u)/u": (erf(s) / s, logarithmic(1e-12, 2, BOTH)),
    "logit": (log(s / (1 - s)), logarithmic(0.4, 0.6)),
    "power less one": ((2 + cos(s)) ** (s**2) - 1, logarithmic(1e-6, 1)),
    "log(1 + a/b) - a/(a + b)": (log(1 + s**2 / pi) - s**2 / (s**2 + pi), logarithmic(1e-9, 30, BOTH)),
    "entropy of two": ((1 + exp(-s)) ** -1 * log(1 + exp(-s)) + (1 + exp(s)) ** -1 * log(1 + exp(s)), BELOW_40),
}


def derivative_in_multiple_precision(name, formula):
    """Return the derivative of a law's formula, written so that mpmath computes it."""
    if name == "log(erfc(u))":
        return lambda a: -2 * mpmath.exp(-(a**2)) / (mpmath.sqrt(mpmath.pi) * mpmath.erfc(a))
    return sympy.lambdify(s, formula.diff(s), "mpmath")


@every("name", [*LAWS], turns=10)
def test_laws_at_random_points(name, thorough):
    """Values and derivatives within 12 units in the last place, in both types."""
    formula, draw = LAWS[name]
    table = td.TensorComprehension(formula.subs(s, x[i]), (i, n))
    derivative = td.gradient(td.IndexedSum(formula.subs(s, x[i]), (i, 0, n - 1)), x)
    kernel = td.lambdify(x, (table, derivative), "numpy")
    exact = sympy.lambdify(s, formula, "mpmath"), derivative_in_multiple_precision(name, formula)
    for dtype in TYPES:
        points = draw(np.random.default_rng(0), 8000 if thorough else 24).astype(dtype)
        with np.errstate(all="ignore"):
            found = kernel(points)
        tiny = float(np.finfo(dtype).tiny) / float(np.finfo(dtype).eps)
        with mpmath.workdps(150):
            for values, function in zip(found, exact, strict=True):
                for at, value in zip(points.tolist(), values.tolist(), strict=True):
                    wanted = function(mpmath.mpf(at))
                    if abs(wanted) > tiny:
                        assert off([value], [wanted], dtype) <= 12, (name, dtype, at, value, mpmath.nstr(wanted, 12))


def logistic(a):
    """Return ``1/(1 + exp(-a))``."""
    return 1 / (1 + mpmath.exp(-a))


# Functions that arrays store, with their exact values, slopes and second derivatives.
STORED = {
    "tanh": (td.tanh, mpmath.tanh, lambda a: mpmath.sech(a) ** 2, lambda a: -2 * mpmath.tanh(a) * mpmath.sech(a) ** 2),
    "sigmoid": (
        td.sigmoid,
        logistic,
        lambda a: logistic(a) * logistic(-a),
        lambda a: -mpmath.tanh(a / 2) * logistic(a) * logistic(-a),
    ),
    "softplus": (
        td.softplus,
        lambda a: mpmath.log1p(mpmath.exp(a)),
        logistic,
        lambda a: logistic(a) * logistic(-a),
    ),
    "log(sigmoid)": (
        lambda a: td.log(td.sigmoid(a)),
        lambda a: -mpmath.log1p(mpmath.exp(-a)),
        lambda a: logistic(-a),
        lambda a: -logistic(a) * logistic(-a),
    ),
    "tanh**2": (
        lambda a: td.tanh(a) ** 2,
        lambda a: mpmath.tanh(a) ** 2,
        lambda a: 2 * mpmath.tanh(a) * mpmath.sech(a) ** 2,
        lambda a: 2 * mpmath.sech(a) ** 4 - 4 * mpmath.tanh(a) ** 2 * mpmath.sech(a) ** 2,
    ),
    "1 - erf**2": (
        lambda a: 1 - td.erf(a) ** 2,
        lambda a: mpmath.erfc(a) * mpmath.erfc(-a),
        lambda a: -4 * mpmath.erf(a) * mpmath.exp(-(a**2)) / mpmath.sqrt(mpmath.pi),
        lambda a: 8 * mpmath.exp(-(a**2)) / mpmath.sqrt(mpmath.pi)
        * (a * mpmath.erf(a) - mpmath.exp(-(a**2)) / mpmath.sqrt(mpmath.pi)),
    ),
}  # fmt: skip
RESULTS = ("v", "g", "vg", "h", "gh", "vgh")
"""Which of value, gradient and product with the Hessian one kernel returns."""
TAILS = np.array([-80.0, -30, -15, -5, -1.5, -1e-3, 1e-6, 0.3, 1, 5, 15, 30, 80])


def tails(name, dtype):
    """Return points in both tails of a function in `STORED`, and between them."""
    points = TAILS.astype(dtype)
    return points[abs(points) < 6] if name == "1 - erf**2" else points  # squares in exponents lose digits


@every("backend, dtype, name", [(b, d, f) for b in ("numpy", "llvm") for d in TYPES for f in STORED], turns=8)
def test_derivatives_with_stored_values(backend, dtype, name):
    """In each combination of value, gradient and product with the Hessian, each entry is within 8 units of its own last
    place, also where ``1 - tanh(u)**2`` of the stored value has no digits left.
    """
    function, *exact = STORED[name]
    eps, tiny = float(np.finfo(dtype).eps), float(np.finfo(dtype).tiny)
    value = function(x)
    total = td.sum(value)
    results = dict(zip("vgh", (value, td.gradient(total, x), td.hvp(total, x, y)), strict=True))
    points = tails(name, dtype)
    ones = np.ones_like(points)
    with mpmath.workdps(400):
        wanted = {key: [one(mpmath.mpf(float(a))) for a in points] for key, one in zip("vgh", exact, strict=True)}
    for keys in RESULTS:
        with np.errstate(all="ignore"):
            found = td.lambdify((x, y), [results[key] for key in keys], backend)(points, ones)
        for key, entries in zip(keys, found, strict=True):
            for at, entry, one in zip(points, entries, wanted[key], strict=True):
                error = abs(mpmath.mpf(float(entry)) - one) / max(abs(one), tiny / eps) / eps
                assert error <= ULPS, (keys, key, at, float(error))


def test_factors_of_a_series_have_one_form():
    """In the derivative of a squared residual, the residual is computed once, not for the series and next to it."""
    i, k, n, d = td.indices("i k n d")
    P, x, s = td.TensorSymbol("P", n), td.TensorSymbol("x", (n, d)), td.TensorSymbol("s", 2)
    u = x[i, k] / s[0]
    price = td.IndexedSum(sympy.exp(-s[1] * ((1 - sympy.exp(-u)) / u - sympy.exp(-u))), (k, 0, d - 1))
    gradient = td.gradient(td.IndexedSum((P[i] - price) ** 2, (i, 0, n - 1)), s)
    text = td.generate_code((P, x, s), gradient, "numba")
    assert text[text.index("def fill") : text.index("def checked")].count("plus(s0, t0[k])") == 1
    numbers = np.array([[0.0, 1e-9, 1e-3, 0.4], [2.0, 1e-5, 3.0, 0.1]])
    found = td.lambdify((P, x, s), gradient, "llvm")(np.array([3.0, 4.5]), numbers, np.array([0.9, 0.6]))
    with mpmath.workdps(40):

        def value(a, b):
            def term(t):
                u = mpmath.mpf(t) / a
                return mpmath.exp(-b * ((1 - mpmath.exp(-u)) / u - mpmath.exp(-u) if u else mpmath.mpf(0)))

            rows = zip((3.0, 4.5), numbers.tolist(), strict=True)
            return mpmath.fsum((p - mpmath.fsum(map(term, row))) ** 2 for p, row in rows)

        wanted = [mpmath.diff(value, (0.9, 0.6), order) for order in ((1, 0), (0, 1))]
    np.testing.assert_allclose(found, [float(w) for w in wanted], rtol=1e-13)
