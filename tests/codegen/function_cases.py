"""Expressions with functions of the user's that may be called for positive numbers only."""

from __future__ import annotations

import math
import re

import numpy as np
import sympy
from sympy import Function, Piecewise

import sympy_tensordiff as td

i, j, k, n = td.indices("i j k n")
x, y = td.TensorSymbol("x", n), td.TensorSymbol("y", n)
g, h = Function("g"), Function("h")
X, Y = np.array([0.3, 1.5, 2.5, 0.75]), np.array([1.0, 2.0, 0.5, 0.25])
MIXED = np.array([-1.0, 0.5, 0.0, -3.0, 2.0, 1.0])
SIGNS = np.array([1.0, 2.0, -1.0, 0.5, 0.25, -2.0])


def S(body):  # noqa: N802
    return td.IndexedSum(body, (k, 0, n - 1))


def T(body):  # noqa: N802
    return td.TensorComprehension(body, (i, n))


def root(t):
    if not t > 0:
        raise ValueError
    return math.sqrt(t)


def slope(t):
    if not t > 0:
        raise ValueError
    return 0.5 / math.sqrt(t)


def product(s, t):
    if not s > 0:
        raise ValueError
    return s * t * t


def by_second(s, t):
    if not s > 0:
        raise ValueError
    return 2 * s * t


def by_first(s, t):
    return t * t + 0 * s


FUNCTIONS = {"g": root, "g'": slope, "h": product, ("h", (0, 1)): by_second, ("h", (1, 0)): by_first}
POSITIVE = x[i] > 0

EXPRESSIONS = {
    "a branch": T(Piecewise((g(x[i]) ** 2 * sympy.sin(g(x[i])), POSITIVE), (x[i], True))),
    "a branch of a sum": T(S(Piecewise((g(x[k]) * y[i] + sympy.log(g(x[k])), x[k] > 0), (0, True)))),
    "a sum in a branch": T(Piecewise((S(g(x[i]) * y[k]), POSITIVE), (1, True))),
    "two conditions": T(S(Piecewise((h(x[i], y[k]), (x[i] > 0) & (y[k] > 0)), (1, True)))),
    "nested": T(Piecewise((Piecewise((g(x[i]) ** 2 + g(x[i]), y[i] > 0), (1, True)), POSITIVE), (0, True))),
    "one inside of another": T(Piecewise((g(h(x[i], y[i]) + 1), POSITIVE), (y[i], True))),
    "an index and a value": T(Piecewise((g(x[i]) * x[i - 1], (i > 0) & POSITIVE), (0, True))),
    "the other branch": T(Piecewise((0, x[i] <= 0), (g(x[i]), True))),
    "no default": T(Piecewise((g(x[i]), POSITIVE), (1, x[i] <= 0))),
}
CASES = {
    **EXPRESSIONS,
    **{f"by x: {name}": td.gradient(td.IndexedSum(e[j], (j, 0, n - 1)), x) for name, e in EXPRESSIONS.items()},
}


def expected(name):
    """The same in SymPy's functions, evaluated entry by entry by the oracle."""
    from sympy_tensordiff.reference import evaluate

    lam = {g: sympy.Lambda(x[0], sympy.sqrt(x[0])), h: sympy.Lambda((x[0], x[1]), x[0] * x[1] ** 2)}
    values = {x: [sympy.Rational(str(v)) for v in MIXED], y: [sympy.Rational(str(v)) for v in SIGNS], **lam}
    return np.asarray(evaluate(CASES[name], values), dtype=float)


def check(name, backend):
    """Fail where a kernel differs from the oracle, or calls a function where it must not."""
    functions = FUNCTIONS
    if backend == "numpy":
        functions = {key: np.vectorize(f, otypes=[float]) for key, f in FUNCTIONS.items()}
    called = set(re.findall(r"\('(\w)', \(", td.generate_code([x, y], CASES[name])))
    used = {key: f for key, f in functions.items() if key[0] in called}
    got = td.lambdify([x, y], CASES[name], backend, functions=used)(MIXED, SIGNS)
    np.testing.assert_allclose(got, expected(name), rtol=1e-12, atol=1e-12, err_msg=name)
