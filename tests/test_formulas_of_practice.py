"""Formulas of practice keep their digits as far as their condition allows: values and gradients, in both types.

An error counts in units of the last place times one plus the condition number of the result.
"""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import sympy
from every import every
from sympy import Rational, Symbol, acos, atan, cos, digamma, erf, exp, log, loggamma, pi, sqrt, tanh

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
}


def drawn(makers, dtype, count):
    """Return lists of arguments of one type."""
    rng = np.random.default_rng(1)
    eps = float(np.finfo(dtype).eps)
    lists = []
    for make in makers:
        if isinstance(make, int):
            apart = np.exp(rng.uniform(np.log(eps) * 0.8, np.log(0.5), count)) * rng.choice((1, -1), count)
            lists.append(lists[make] * (1 + apart))
        else:
            lists.append(make(rng, count))
    return [one.astype(dtype) for one in lists]


@every("name", [*FORMULAS], turns=4)
def test_values_and_gradients_are_as_accurate_as_their_condition_allows(name, thorough):
    formula, makers, *positions = FORMULAS[name]
    letters, tensors = LETTERS[: len(makers)], TENSORS[: len(makers)]
    wrt = positions[0] if positions else range(len(makers))
    entry = formula.subs({letter: tensor[i] for letter, tensor in zip(letters, tensors, strict=True)})
    slopes = td.gradient(td.IndexedSum(entry, (i, 0, n - 1)), tuple(tensors[k] for k in wrt)) if wrt else ()
    kernel = td.lambdify(tensors, (td.TensorComprehension(entry, (i, n)), *slopes), "numpy")
    results = [formula, *(formula.diff(letters[k]) for k in wrt)]
    functions = [sympy.lambdify(letters, one, "mpmath") for one in results]
    derivatives = [[sympy.lambdify(letters, one.diff(letter), "mpmath") for letter in letters] for one in results]
    for dtype in (np.float64, np.float32):
        eps, tiny, largest = (float(getattr(np.finfo(dtype), field)) for field in ("eps", "tiny", "max"))
        lists = drawn(makers, dtype, 400 if thorough else 12)
        with np.errstate(all="ignore"), mpmath.workdps(120):
            for values, function, slopes_of in zip(kernel(*lists), functions, derivatives, strict=True):
                for value, *at in zip(values.tolist(), *(one.tolist() for one in lists), strict=True):
                    exact = [mpmath.mpf(a) for a in at]
                    right = function(*exact)
                    if tiny / eps < abs(right) < largest:
                        condition = sum(abs(a * f(*exact) / right) for a, f in zip(exact, slopes_of, strict=True))
                        error = abs((value - right) / right) / eps
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
def test_gradients_of_small_norms_stand_beside_unit_vectors(backend):
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
