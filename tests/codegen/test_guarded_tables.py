"""Tables that are meant for some sizes only: they are filled where the condition around their use holds."""

from __future__ import annotations

import numpy as np
import pytest
import sympy
from sympy import Eq, Mod, Ne, Piecewise

import sympy_tensordiff as td
from sympy_tensordiff.errors import OutOfShapeError
from sympy_tensordiff.reference import evaluate

N = sympy.Symbol("N", integer=True, positive=True)
i, j, k = td.indices("i j k")
x, y = td.TensorSymbol("x", N), td.TensorSymbol("y", N)

# Inside of y for N = 1 and N = 3 only, in two ways that no single check of the sizes can say.
NEXT = td.TensorComprehension(y[i + Mod(N, 2) - 1], (i, N))
PAST = td.TensorComprehension(y[3 * N + i], (i, 4))


def squared(table, last):
    """A sum of which the slope holds the sum again, so that the table stands in both."""
    total = td.IndexedSum(table[i] * x[j] ** 2, (i, 0, last), (j, 0, N - 1))
    return total / sympy.sqrt(1 + total**2)


BEHIND = {
    "one remainder": Piecewise((squared(NEXT, N - 1), Eq(Mod(N, 2), 1)), (0, True)),
    "other remainders": Piecewise((squared(PAST, 3), Ne(Mod(N, 3), 1)), (1, True)),
    "a number": Piecewise((squared(PAST, 3), Eq(N, 5)), (1, True)),
    "at least": Piecewise((squared(PAST, 3), N >= 5), (1, True)),
    "for a loop index": td.IndexedSum(Piecewise((squared(PAST, 3) * x[k], N + k >= 9), (0, True)), (k, 0, N - 1)),
}


@pytest.mark.parametrize("name", BEHIND)
def test_table_behind_a_condition_on_sizes(name):
    function = BEHIND[name]
    results = (function, *td.gradient(function, (x, y)))
    kernel = td.lambdify([x, y], results, "numpy")
    inside = 0
    for size in range(1, 7):
        values = {x: np.arange(1.0, size + 1), y: np.arange(size) - 0.5}
        try:
            expected = [evaluate(result, values) for result in results]
        except OutOfShapeError:
            with pytest.raises(OutOfShapeError, match="the sizes of the arguments do not fit the expression"):
                kernel(values[x], values[y])
            continue
        inside += 1
        for got, exact in zip(kernel(values[x], values[y]), expected, strict=True):
            np.testing.assert_allclose(got, exact.astype(float) if hasattr(exact, "astype") else float(exact))
    assert inside


def test_table_that_no_sizes_allow():
    function = td.IndexedSum(PAST[i], (i, 0, 3))
    with pytest.raises(OutOfShapeError, match="whatever the sizes"):
        td.lambdify([x, y], function, "numpy")


@pytest.mark.parametrize("temporaries", [True, False])
def test_tables_that_some_sizes_leave_empty_do_not_serve_others(temporaries):
    """The first reader needs the table for few sizes, and the second one its entries for all of them."""
    n, m = sympy.symbols("n m", integer=True, positive=True)
    p = sympy.Symbol("p", integer=True)
    x, w = td.TensorSymbol("x", n), td.TensorSymbol("w", m)
    table = td.TensorComprehension(td.IndexedSum(x[i] * w[j] ** 2, (j, 0, m - 1)), (i, n))
    first = sympy.Piecewise((table[n - 1], m <= n), (0, True)) * sympy.KroneckerDelta(p, 1)
    even = sympy.Eq(sympy.Mod(p, 2), 0) & (p <= 2 * n - 2)
    second = sympy.Piecewise((table[sympy.floor(p / 2)], even), (0, True))
    function = td.TensorComprehension(first + second, (p, 9))
    kernel = td.lambdify([x, w], function, backend="numpy", temporaries=temporaries)
    assert kernel([1.0, 2.0], np.ones(3)).tolist() == [3, 0, 6, 0, 0, 0, 0, 0, 0]
    assert kernel([1.0, 2.0, 3.0], np.ones(3)).tolist() == [3, 9, 6, 0, 9, 0, 0, 0, 0]
