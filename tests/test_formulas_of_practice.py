"""Formulas of practice keep their digits as far as their condition allows: values and gradients, in both types.

An error counts in units of the last place times one plus the condition number of the result.
"""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import sympy
from every import every
from sympy import Rational, Symbol, acos, asin, atan, cos, coth, digamma, erf, exp, log, loggamma, pi, sin, sqrt, tanh

import sympy_tensordiff as td

n, i = td.indices("n i")
LETTERS = Symbol("s", real=True), Symbol("t", real=True), Symbol("u", real=True)
s, t, u = LETTERS
TENSORS = [td.TensorSymbol(name, n) for name in "xyz"]
ULPS = 8
HALF = Rational(1, 2)


def sizes(low, high, signs=(1,)):
    """Return a function that draws numbers between ``low`` and ``high`` uniformly in their logarithms."""
    return lambda rng, count: np.exp(rng.uniform(np.log(low), np.log(high), count)) * rng.choice(signs, count)


def near(position):
    """Return the position of the list near whose numbers others are drawn."""
    return position


def near_points(number, low, high, signs=(1, -1)):
    """Return a function that draws numbers whose distance from `number` is between ``low`` and ``high``."""
    return lambda rng, count: number + sizes(low, high, signs)(rng, count)


BOTH = (1, -1)
SOFTPLUS = log(1 + exp(s)) - log(1 + exp(t))
# The formula, how its arguments are drawn, and the variables of its gradient, all if left out.
FORMULAS = {
    "log of a rising factorial": (loggamma(s + t) - loggamma(s), [sizes(1e-2, 1e6), sizes(1e-3, 10)]),
    "constant of Student's t": (loggamma((s + 1) / 2) - loggamma(s / 2), [sizes(1e-2, 1e8)]),
    "log of the beta function": (loggamma(s) + loggamma(t) - loggamma(s + t), [sizes(1e-3, 1e6), sizes(1e-3, 1e3)]),
    "difference of digammas": (digamma(s + 1) - digamma(s), [sizes(0.1, 1e6)]),
    "exponentials": (exp(s) - exp(t), [sizes(1e-9, 80, (1, -1)), sizes(1e-9, 80, (1, -1))]),
    "two compartments": (exp(-s * t) - exp(-u * t), [sizes(0.1, 1), sizes(1e-9, 30), sizes(2, 10)]),
    "logistic functions": (1 / (1 + exp(-s)) - 1 / (1 + exp(-t)), [sizes(0.1, 30, (1, -1)), near(0)]),
    "hyperbolic tangents": (tanh(s) - tanh(t), [sizes(0.1, 9, (1, -1)), near(0)]),
    "angles": (atan(s) - atan(t), [sizes(0.1, 1e6), near(0)]),
    "soft pluses": (SOFTPLUS, [sizes(1e-9, 1, (1, -1)), sizes(1e-9, 1, (1, -1))]),
    "Cauchy distribution": (HALF + atan(s) / pi, [sizes(1e-3, 1e8, (1, -1))]),
    "Gudermann": (2 * atan(exp(s)) - pi / 2, [sizes(1e-9, 30, (1, -1))]),
    "angle of a cosine": (pi / 2 - acos(s), [sizes(1e-6, 0.9, (1, -1))]),
    "interest": ((1 + s) ** t - 1, [sizes(1e-9, 0.2), sizes(1, 10)]),
    "interest by the month": ((1 + s) ** 12 - 1, [sizes(1e-9, 3, (1, -1))]),
    "instalments": ((1 + s / u) ** (t * u) - 1, [sizes(1e-6, 0.2), sizes(1, 10), sizes(1, 365)], (0, 1)),
    "annuity": ((1 - (1 + s) ** -t) / s, [sizes(1e-9, 0.2), sizes(1, 10)], (1,)),
    "pressure of air": (s * (1 - (1 - t / 44330) ** Rational(1051, 200)), [sizes(1, 10), sizes(1e-3, 1e4)]),
    "rational quadratic": ((1 + s**2 / (2 * t)) ** -t, [sizes(1e-6, 1e3), sizes(0.1, 1e6)]),
    "Vasicek": ((1 - exp(-s * t)) / s, [sizes(1e-9, 10), sizes(0.1, 30)]),
    "Nelson and Siegel": ((1 - exp(-s / t)) * t / s - exp(-s / t), [sizes(1e-9, 30), sizes(0.5, 5)]),
    "Cauchy loss": (t**2 / 2 * log(1 + (s / t) ** 2), [sizes(1e-9, 1e9, (1, -1)), sizes(0.1, 10)]),
    "pseudo-Huber loss": (t**2 * (sqrt(1 + (s / t) ** 2) - 1), [sizes(1e-9, 1e-2, (1, -1)), sizes(0.1, 10)]),
    "Charbonnier": (sqrt(s**2 + t**2) - t, [sizes(1e-9, 1e9, (1, -1)), sizes(0.1, 10)]),
    "phase": (2 * pi / t * (sqrt(s**2 + u**2) - s), [sizes(1, 1e3), sizes(0.5, 1), sizes(1e-4, 1)]),
    "speed of light": (1 - s / sqrt(1 + s**2), [sizes(1e-3, 1e9)]),
    "tight binding": (
        (s + t + u - sqrt((s + t + u) ** 2 - 4 * s * t)) / 2,
        [sizes(1e-6, 1e3), sizes(1e-3, 1e3), sizes(0.1, 10)],
    ),
    "weak acid": ((sqrt(s**2 + 4 * s * t) - s) / 2, [sizes(1e-9, 1e3), sizes(1e-9, 0.1)]),
    "Michaelis and Menten": (1 - t / (s + t), [sizes(0.1, 10), sizes(1e-9, 1e9)]),
    "rocket": (s * log(t / (t - u)), [sizes(1, 5), sizes(1, 10), sizes(1e-9, 0.5)]),
    "entropy of a step": ((s + t) * log(s + t) - s * log(s), [sizes(0.1, 10), sizes(1e-9, 1e-2)]),
    "third side": (sqrt(s**2 + t**2 - 2 * s * t * cos(u)), [sizes(0.5, 2), near(0), sizes(1e-9, 2)], ()),
    "GELU": (s * (1 + erf(s / sqrt(2))) / 2, [sizes(1e-6, 30, (1, -1))]),
    "squares": (s**2 - 2 * s * t + t**2, [sizes(0.1, 10, BOTH), near(0)]),
    "squares with a factor": (u * s**2 - 2 * s * t * u + t**2 * u, [sizes(1e-3, 1e3), near(0), sizes(0.1, 10)]),
    "normal distributions": (log(t / s) + (s**2 / t**2 - 1) / 2, [sizes(0.1, 10), near(0)]),
    "scales": (log(s / t) + t / s - 1, [sizes(0.1, 10), near(0)]),
    "variances": (s**2 - 1 - 2 * log(s), [near_points(1, 1e-12, 0.9)]),
    "divergence from one": (s * log(s) - s + 1, [near_points(1, 1e-12, 0.9)]),
    "divergence from a number": (s * log(s / 3) - s + 3, [near_points(3, 1e-12, 2.5)]),
    "Itakura and Saito": (s - log(s) - 1, [near_points(1, 1e-12, 0.9)]),
    "Lennard and Jones": (s**-12 - 2 * s**-6 + 1, [near_points(1, 1e-9, 0.5)]),
    "inverse of softplus": (log(exp(s) - 1) - s, [sizes(1e-9, 900)]),
    "forward rate": (exp(-s * t) / exp(-(s + Rational(1, 1000)) * t) - 1, [sizes(1e-3, 0.2), sizes(1e-3, 30)]),
    "quotient of exponentials": (exp(s * u) / exp(t * u) - 1, [sizes(0.1, 10, BOTH), near(0), sizes(1e-3, 3)]),
    "logarithms of squares": (log(1 + (s + t) ** 2) - log(1 + s**2), [sizes(1e-3, 1e9), sizes(1e-9, 10)]),
    "quaternion": (2 * acos(s) / sqrt(1 - s**2), [near_points(1, 1e-7, 1.99, (-1,))]),
    "linked returns": ((1 + s) * (1 + t) * (1 + u) - 1, [sizes(1e-12, 0.3), sizes(1e-12, 0.3), sizes(1e-12, 0.3)]),
    "Morse": (t * ((1 - exp(-s)) ** 2 - 1), [sizes(1e-9, 40), sizes(0.1, 10)]),
    "odds with a background": (log(1 + t * exp(s)), [sizes(1e-3, 80, BOTH), sizes(1e-9, 1e3)]),
    "Brillouin": (6 * coth(6 * s / 5) / 5 - coth(s / 5) / 5, [sizes(1e-9, 60)]),
    "rotation": (1 / s**2 - (1 + cos(s)) / (2 * s * sin(s)), [sizes(1e-9, 1.9)]),
    "ellipsoid": (asin(s) / s - sqrt(1 - s**2), [sizes(1e-9, 0.99)]),
    "Hull and White": (
        t - 2 * (1 - exp(-s * t)) / s + (1 - exp(-2 * s * t)) / (2 * s),
        [sizes(1e-6, 1), sizes(0.1, 30)],
    ),
    "Student's slope by its tail": (log(1 + s**2) - s**2 / (1 + s**2), [sizes(1e-9, 1e9, BOTH)]),
    "Gouy": (atan(s / t) - s / t, [sizes(1e-6, 10, BOTH), sizes(0.1, 10)]),
}


def drawn(makers, dtype, count):
    """Return lists of arguments of one type."""
    rng = np.random.default_rng(1)
    eps = float(np.finfo(dtype).eps)
    lists = []
    for make in makers:
        if isinstance(make, int):
            offsets = np.exp(rng.uniform(np.log(eps) * 0.8, np.log(0.5), count)) * rng.choice((1, -1), count)
            lists.append(lists[make] * (1 + offsets))
        else:
            lists.append(make(rng, count))
    return [one.astype(dtype) for one in lists]


def results(name):
    """Return the tensors, the value and the gradient of a formula, and the same as expressions of letters."""
    formula, makers, *positions = FORMULAS[name]
    letters, tensors = LETTERS[: len(makers)], TENSORS[: len(makers)]
    wrt = positions[0] if positions else range(len(makers))
    entry = formula.subs({letter: tensor[i] for letter, tensor in zip(letters, tensors, strict=True)})
    slopes = td.gradient(td.IndexedSum(entry, (i, 0, n - 1)), tuple(tensors[k] for k in wrt)) if wrt else ()
    entries = [formula, *(formula.diff(letters[k]) for k in wrt)]
    return tensors, (td.TensorComprehension(entry, (i, n)), *slopes), entries


def exact_results(name, entries, lists):
    """Return the exact values of each result, and the condition number at each point."""
    letters = LETTERS[: len(lists)]
    found = []
    with mpmath.workdps(450):
        points = [[mpmath.mpf(a) for a in at] for at in zip(*(one.tolist() for one in lists), strict=True)]
        for entry in entries:
            function, *slopes = (
                sympy.lambdify(letters, one, "mpmath") for one in (entry, *(entry.diff(letter) for letter in letters))
            )
            values = [function(*at) for at in points]
            conditions = [
                sum(abs(a * slope(*at) / value) for a, slope in zip(at, slopes, strict=True)) if value else mpmath.inf
                for at, value in zip(points, values, strict=True)
            ]
            found.append((values, conditions))
    return found


@every("name", [*FORMULAS], turns=8)
def test_values_and_gradients_are_as_accurate_as_their_condition_allows(name, thorough):
    tensors, tables, entries = results(name)
    kernel = td.lambdify(tensors, tables, "numpy")
    for dtype in (np.float64, np.float32):
        eps, tiny, largest = (float(getattr(np.finfo(dtype), field)) for field in ("eps", "tiny", "max"))
        lists = drawn(FORMULAS[name][1], dtype, 400 if thorough else 12)
        with np.errstate(all="ignore"):
            found = kernel(*lists)
        for values, (wanted, conditions) in zip(found, exact_results(name, entries, lists), strict=True):
            for k, (value, right, condition) in enumerate(zip(values.tolist(), wanted, conditions, strict=True)):
                if tiny / eps < abs(right) < largest:
                    error = abs((value - right) / right) / eps
                    at = [one[k] for one in lists]
                    assert error <= ULPS * (1 + condition), (name, dtype, at, value, mpmath.nstr(right, 12))


@pytest.mark.in_turns(4)
@pytest.mark.parametrize("backend", ["numpy", "llvm"])
def test_they_are_the_same_functions_elsewhere(backend):
    """Conventions and other branches: negative numbers, infinite ones, masked scores, and both orders of the terms."""
    x, y, _ = TENSORS

    def values(formula, *at):
        table = td.TensorComprehension(formula, (i, n))
        return td.lambdify((x, y), table, backend)(*(np.array(one, float) for one in at)).tolist()

    inf = np.inf
    assert values(exp(x[i]) - exp(y[i]), [-inf, -inf, inf, 3], [-inf, 0, 0, 3]) == [0, -1, inf, 0]
    assert values(atan(x[i]) - atan(y[i]), [inf, -2], [5, 3]) == pytest.approx(
        [np.arctan(1 / 5), -np.arctan(2) - np.arctan(3)]
    )
    assert values(HALF + atan(x[i]) / pi, [-inf, 0, inf], [1, 1, 1]) == [0, 0.5, 1]
    assert values((1 + x[i]) ** y[i] - 1, [-3, -1, 2, 8], [3, 2, 3, HALF]) == pytest.approx([-9, -1, 26, 2])
    assert values((1 + x[i]) ** y[i], [-3, -1, 2, -0.25], [3, 2, 3, 2]) == [-8, 0, 27, 0.5625]
    assert values(x[i] / (x[i] + y[i]) - 1, [0, 2], [3, -1]) == [-1, 1]
    assert values(log(x[i] / (x[i] - y[i])), [2, -3, 1], [1, 1, -1e9]) == pytest.approx(
        [np.log(2), np.log(0.75), -np.log(1 + 1e9)]
    )
    # log-gamma functions of negative arguments, and of a negative step
    assert values(loggamma(x[i] + y[i]) - loggamma(x[i]), [5, 0.75], [-3, 2]) == pytest.approx(
        [-np.log(24), float(loggamma(2.75) - loggamma(0.75))]
    )
    for first, second in ((x[i], y[i]), (y[i], x[i])):
        pair = loggamma(first) + loggamma(second) - loggamma(first + second)
        assert values(pair, [3, 1e6], [0.5, 2]) == pytest.approx([np.log(16 / 15), -np.log(1e6) - np.log(1e6 + 1)])


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
def test_gradients_of_small_norms_are_near_unit_vectors(backend):
    """A comparison of the sum of squares with 0 would be one of a square that underflows."""
    x = TENSORS[0]
    unit = np.array([3.0, 4, 12]) / 13
    for scale in (1e-200, 1e200):
        for found in td.lambdify(x, (td.gradient(td.norm(x), x), x / td.norm(x)), backend)(13 * unit * scale):
            np.testing.assert_allclose(found, unit, rtol=1e-15)


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
def test_second_derivatives_of_hypot_at_the_ends_of_the_range(backend):
    x, y, _ = TENSORS
    first = td.gradient(td.sum(td.hypot(x, y)), x)
    second = td.gradient(td.sum(first), (x, y))
    for scale in (1e200, 1e-200):
        found = td.lambdify((x, y), second, backend)(np.array([3.0]) * scale, np.array([4.0]) * scale)
        np.testing.assert_allclose(np.ravel(found), np.array([0.128, -0.096]) / scale, rtol=1e-14)


def test_a_difference_of_exponentials_in_a_logarithm_does_not_overflow():
    x, y, _ = TENSORS
    for formula, right in (
        (log(exp(x[i]) - exp(y[i])), 1000 + np.log(1 - np.exp(-1))),
        ((exp(x[i]) - exp(y[i])) / (exp(x[i]) + exp(y[i])), np.tanh(0.5)),
    ):
        kernel = td.lambdify((x, y), td.TensorComprehension(formula, (i, n)), "numpy")
        assert kernel(np.array([1000.0]), np.array([999.0]))[0] == pytest.approx(right)
