"""Rules that only long tables tested, as mutants showed: factors of inverses, quotients of sums of exponentials."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import sympy
from every import every

import sympy_tensordiff as td

n, i = td.indices("n i")
F, R = (td.TensorSymbol(name, (n, n)) for name in "FR")
x = td.TensorSymbol("x", n)


@pytest.mark.parametrize("product", [td.inv(F @ R) @ F, F @ td.inv(R @ F)])
def test_a_factor_of_an_inverse_cancels(product):
    assert td.simplify_deltas(product) == td.inv(R)


def test_the_gradient_of_logdet_has_the_inverse_of_one_factor():
    assert str(td.gradient(td.logdet(F @ R), F)) == "inv(F).T"
    assert str(td.gradient(td.logdet(F @ F.T), F)) == "2*inv(F).T"


@pytest.mark.parametrize("sign", [1, -1])
def test_a_quotient_of_sums_of_exponentials_is_a_tangent(sign):
    """It is ``tanh``, whose slope is 0 where the exponentials overflow."""
    grow, fall = sympy.exp(x[i]), sympy.exp(-x[i])
    total = td.sum(td.TensorComprehension(sign * (grow - fall) / (grow + fall), (i, n)))
    points = np.array([800.0, -800.0, 0.3])
    value, slope = td.lambdify([x], (total, td.gradient(total, x)), "numpy")(points)
    np.testing.assert_allclose(value, sign * np.tanh(points).sum(), rtol=1e-14)
    np.testing.assert_allclose(slope, [0, 0, sign / np.cosh(0.3) ** 2], rtol=1e-14)


s, t = sympy.symbols("s t", positive=True)
FAR = {
    "a tail": (sympy.exp(s**6) * sympy.erfc(s**3), 40),
    "a logarithm of a tail": (sympy.log(sympy.erfc(s**3)), 40),
    "divided by a tail": (sympy.exp(-(s**6)) / sympy.erfc(s**3), 40),
    "a tail of a root": (sympy.exp(s) * sympy.erfc(sympy.sqrt(s)), 1600),
}
DIVIDED = {
    "expm1": (sympy.exp(s) * (t / (sympy.exp(s) - 1) + s / (sympy.exp(s) - 1) ** 2), t),
    "sinh": (sympy.cosh(s) * (t / sympy.sinh(s) + s / sympy.sinh(s)), s + t),
}


@every("name", [*FAR], turns=4)
def test_tails_of_powers_are_scaled_by_their_own_squares(name):
    formula, at = FAR[name]
    entry = td.TensorComprehension(formula.subs(s, x[i]), (i, n))
    points = np.array([0.3, at])
    with mpmath.workdps(2000):
        wanted = [[float(f(mpmath.mpf(p))) for p in points] for f in map(as_mpmath, (formula, formula.diff(s)))]
    got = td.lambdify([x], (entry, td.gradient(td.sum(entry), x)), "numpy")(points)
    np.testing.assert_allclose(got[0], wanted[0], rtol=1e-12)
    np.testing.assert_allclose(got[1], wanted[1], rtol=1e-5)  # the terms of the third one are 1e10 times as large


def as_mpmath(formula):
    return sympy.lambdify(s, formula, "mpmath")


@every("name", [*DIVIDED])
def test_divisors_leave_sums_that_a_growing_function_multiplies(name):
    formula, limit = DIVIDED[name]
    value = td.lambdify([x], td.TensorComprehension(formula.subs({s: x[i], t: 0.7}), (i, n)), "numpy")
    wanted = [float(formula.subs({s: 2, t: 0.7})), float(limit.subs({s: 800, t: 0.7}))]
    np.testing.assert_allclose(value(np.array([2.0, 800.0])), wanted, rtol=1e-14)


@pytest.mark.parametrize("power", [1, 2])
def test_factors_before_a_choice_are_those_of_every_branch(power):
    """``s*s`` in one branch and ``s`` in the other have ``s`` in common, not ``s*s``."""
    n = td.indices("n")
    x, t, s = td.TensorSymbol("x", n), td.TensorSymbol("t", n), td.TensorSymbol("s", ())
    u = s * x
    function = td.where(td.greater(x, 0.2), u ** (power + 1), -3 * u**power)
    at, along, number = np.array([0.5, -0.7, 1.1]), np.array([1.0, 2.0, -1.5]), 0.6
    found = td.lambdify([x, t, s], td.jvp(function, x, t), "numpy")(at, along, number)
    v = number * at
    wanted = number * along * np.where(at > 0.2, (power + 1) * v**power, -3 * power * v ** (power - 1))
    np.testing.assert_allclose(found, wanted, rtol=1e-13)
