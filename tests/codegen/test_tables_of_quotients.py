"""A table has an axis for each combination of indices that its entries depend on, and no more.

Indices inside of quotients may cancel once the equations around them are solved: ``floor((p + q)/2) - floor(q/2)`` is
``p/2`` where q is even.
"""

from __future__ import annotations

import numpy as np
import pytest
import sympy

import sympy_tensordiff as td
from sympy_tensordiff.testing import call_arguments, random_values

i, j, k, l = td.indices("i j k l")
x, y = td.TensorSymbol("x", 12), td.TensorSymbol("y", (16, 10))
w = td.TensorSymbol("w", (4, 1, 1))


def found_by_random_programs():
    u = x[i + k + l - j - 2]
    v = y[j + 4 * k - 2 * i - 2 * l + 12, 7 - j - 2 * l]
    inner = td.IndexedSum((u + v**2) / ((u + v**2) ** 2 + 2), (l, 2, 3))
    return td.IndexedSum(w[i, j, k] * (i + 1) * sympy.sin(inner), (i, 0, 3), (j, 0, 0), (k, 0, 0))


def nested(a, b, c):
    """``Sum_i w_i*sin(Sum_l x[i + l]*y[a*i + b*l, c*l]**2)``: the index of the sine is a quotient in the derivative."""
    inner = td.IndexedSum(x[i + l] * y[a * i + b * l, c * l] ** 2, (l, 0, 2))
    return td.IndexedSum(w[i, 0, 0] * sympy.sin(inner), (i, 0, 3))


CASES = {"found": found_by_random_programs(), **{str(f): nested(*f) for f in [(2, 2, 2), (3, 3, 2), (2, 4, 3)]}}


@pytest.mark.parametrize("name", CASES)
def test_second_derivatives(name):
    result = td.hessian(CASES[name], y)
    symbols, arguments = call_arguments((CASES[name],), random_values((CASES[name],)))
    kernel, gradient = (td.lambdify(symbols, f, "numpy") for f in (result, td.gradient(CASES[name], y)))
    found = kernel(*arguments)
    where = symbols.index(y)
    step = 1e-5 * np.random.default_rng(1).normal(size=y.shape)
    ends = [gradient(*(a + sign * step if n == where else a for n, a in enumerate(arguments))) for sign in (1, -1)]
    np.testing.assert_allclose(np.tensordot(found, step, 2), (ends[0] - ends[1]) / 2, rtol=1e-6, atol=1e-14)
