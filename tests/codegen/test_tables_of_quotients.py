"""A table has an axis for each combination of indices that its entries depend on, and no more.

Indices inside of quotients may cancel once the equations around them are solved: ``floor((p + q)/2) - floor(q/2)`` is
``p/2`` where q is even.
"""

from __future__ import annotations

import numpy as np
import pytest
import sympy
from fuzz.count import count

import sympy_tensordiff as td
from sympy_tensordiff.codegen.program import build_program
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


@pytest.mark.in_turns(8)
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


def test_remainders_are_copied_once_in_the_order_of_the_loops():
    """The loops divide nowhere: not once for each weight, and no table has an entry for each pair of remainders."""
    N, K = 40, 5
    signal, weights, target = td.TensorSymbol("s", N), td.TensorSymbol("h", K), td.TensorSymbol("t", N)
    filtered = td.IndexedSum(weights[k] * signal[(i + k) % N], (k, 0, K - 1))
    loss = td.IndexedSum((filtered - target[i]) ** 2, (i, 0, N - 1))
    program = build_program([signal, weights, target], td.gradient(loss, weights))
    assert count(program, {}).iterations <= 2 * N * K + 4 * (N + K)
    assert sorted(len(array.shape) for array in program.temporaries) == [1, 1]
    result = td.lambdify((signal, weights, target), td.gradient(loss, weights), "numpy")
    s, h, t = (np.random.default_rng(0).normal(size=m) for m in (N, K, N))
    windows = s[(np.arange(N)[:, None] + np.arange(K)) % N]
    np.testing.assert_allclose(result(s, h, t), 2 * windows.T @ (windows @ h - t), rtol=1e-12)


def test_no_copy_is_longer_than_the_loops_run():
    """``100*i + k`` takes 5,903 values for 180 pairs of indices."""
    signal, weights = td.TensorSymbol("s", 7), td.TensorSymbol("h", 3)
    value = td.IndexedSum(weights[k] * signal[(100 * i + k) % 7], (k, 0, 2))
    program = build_program([signal, weights], td.TensorComprehension(value, (i, 60)))
    assert not program.temporaries
