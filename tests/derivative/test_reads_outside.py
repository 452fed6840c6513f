"""An input that reads outside of a tensor for every size is refused by all that read it; no other input is."""

import re

import numpy as np
import pytest
import sympy
from every import every
from sympy import Abs, Eq, KroneckerDelta, Max, Min, Mod, Piecewise, floor

import sympy_tensordiff as td
from sympy_tensordiff import IndexedMax, IndexedProduct, IndexedSum, TensorComprehension, TensorSymbol
from sympy_tensordiff.errors import OutOfShapeError

i, j, k, p, n, m = td.indices("i j k p n m")
x, y, A = TensorSymbol("x", n), TensorSymbol("y", m), TensorSymbol("A", (n, m))
first, chosen = TensorSymbol("first", n, dtype=int), TensorSymbol("chosen", m, dtype=int)
own = sympy.IndexedBase("x", shape=n)
c = sympy.Symbol("c", real=True)
ahead = TensorComprehension(x[i + 1] ** 2, (i, n))

COUNTED = "for i = n the index is n, not in 0 … n - 1; indices count from 0, write (i, 0, n - 1)"
OUTSIDE = {
    "counted from 1": (IndexedSum(x[i] ** 2, (i, 1, n)), f"x[i] is read outside of the shape of x, .*{COUNTED}"),
    "SymPy's own sum": (sympy.Sum(own[i] ** 2, (i, 1, n)), COUNTED),
    "an axis counted from 1": (IndexedSum(A[j, i], (j, 0, n - 1), (i, 1, m)), "along axis 1, .*write (i, 0, m - 1)"),
    "a product": (IndexedProduct(x[i], (i, 1, n)), COUNTED),
    "a maximum": (IndexedMax(x[i], (i, 1, n)), COUNTED),
    "one too many": (IndexedSum(x[i], (i, 0, n)), "for i = n the index is n, .*; write (i, 0, n - 1)"),
    "the next": (TensorComprehension(x[i + 1] - x[i], (i, n)), "x[i + 1] .*for i = n - 1 .*; write (i, n - 1)"),
    "the one before": (IndexedSum(x[i - 1], (i, 0, n - 1)), "for i = 0 the index is -1, .*; write (i, 1, n - 1)"),
    "from the end": (TensorComprehension(x[n - i], (i, n)), "for i = 0 the index is n, .*; fix the range, the index"),
    "a stride": (TensorComprehension(x[2 * i + 2], (i, n)), "for i = n - 1 the index is 2*n, not in 0 … n - 1; fix"),
    "two indices": (
        IndexedSum(x[i + k] * y[k], (k, 0, m - 1), (i, 0, n)),
        "for i = n, k = m - 1 the index is m + n - 1",
    ),
    "a triangle": (IndexedSum(x[j] * c, (j, 0, i), (i, 0, n)), "for i = n, j = n the index is n"),
    "a loop that is empty at first": (IndexedSum(x[j + n], (j, 0, i - 1), (i, 0, n)), "x[j + n] .*whatever the sizes"),
    "a quotient": (IndexedSum(x[floor(i / 2)], (i, 0, 2 * n)), "x[floor(i/2)] .*whatever the sizes; fix the range"),
    "an absolute value": (IndexedSum(x[Abs(i)], (i, -n, n)), "for i = -n the index is Abs(n), .*; fix the range"),
    "a remainder": (IndexedSum(x[Mod(i, 2) + n], (i, 0, 5)), "x[n + Mod(i, 2)] .*whatever the sizes"),
    "a bound": (
        IndexedSum(x[i], (i, 0, Max(n, m))) * y[0],
        "i = Max(m, n) the index is Max(m, n), .*write (i, 0, n - 1)",
    ),
    "one table in another": (
        IndexedSum(ahead[j], (j, 0, n - 1)),
        "x[j + 1] .*for j = n - 1 the index is n.*write (j, 0, n - 2)",
    ),
    "a whole tensor": (td.sum(ahead * x), "for i = n - 1 the index is n"),
    "the condition of a choice": (IndexedSum(Piecewise((c, x[i] > 0), (0, True)), (i, 1, n)), COUNTED),
    "data": (IndexedSum(y[first[i]], (i, 1, n)) * c, "first[i] is read .*" + COUNTED),
    "data in a range": (
        IndexedSum(y[k], (k, first[i], first[i + 1] - 1), (i, 0, n - 1)),
        "first[i + 1] .*for i = n - 1 .*write (i, 0, n - 2)",
    ),
    "behind a sum that has values": (IndexedSum(td.sum(ahead), (i, 0, m - 1)) * y[0], "x[i + 1] .*whatever the sizes"),
}
INSIDE = {
    "as it should be": IndexedSum(x[i] ** 2, (i, 0, n - 1)),
    "too long for some sizes": IndexedSum(x[i], (i, 0, m)) * y[0],
    "empty for the least size": IndexedSum(x[i], (i, 2, n)),
    "a sum that may be empty": IndexedSum(x[n + j], (j, 0, m - 2)) * y[0],
    "a table behind a sum that may be empty": IndexedSum(td.sum(ahead), (j, 0, m - 2)) * y[0],
    "a table that is not read there": IndexedSum(ahead[j], (j, 0, n - 2)),
    "a condition on indices": IndexedSum(Piecewise((x[i], i < n), (0, True)), (i, 1, n)),
    "a condition on values": IndexedSum(Piecewise((x[i + 1], c > 0), (0, True)), (i, 0, n - 1)),
    "a delta": IndexedSum(KroneckerDelta(i, 2 * j) * x[j], (i, 0, 2 * n - 1), (j, 0, n)),
    "a remainder": IndexedSum(x[Mod(i, n)], (i, 0, 5 * n)),
    "a bound": IndexedSum(x[i], (i, 0, Min(n - 1, m))) * y[0],
    "a free index": x[p] ** 2 * x[p + 1],
    "a parameter": IndexedSum(x[i], (i, m, m + n)),
    "data": IndexedSum(x[chosen[j]], (j, 0, m - 1)),
    "data, past the end if they are positive": IndexedSum(x[chosen[j] + n], (j, 0, m - 1)),
    "an equation": IndexedSum(Piecewise((x[i + n], Eq(i, 3)), (0, True)), (i, 0, 5)),
}
wrt, tangent = TensorSymbol("x", n), TensorSymbol("t", n)
BY = {name: c if expr.has(c) else y if "data" in name else wrt for name, (expr, _) in OUTSIDE.items()}


def functions(expression, by):
    """All that differentiates, or computes a value."""
    shape = getattr(expression, "shape", ())
    direction = TensorSymbol("d", by.shape) if isinstance(by, TensorSymbol) else sympy.Integer(1)
    yield lambda: td.vjp(expression, by, TensorSymbol("f", shape) if shape else sympy.Integer(1))
    yield lambda: td.jvp(expression, by, direction)
    yield lambda: td.jacobian(expression, by)
    yield lambda: td.diff(expression, by)
    yield lambda: td.check_derivative(expression, by)
    yield lambda: td.lambdify([x, y, A, first, chosen, c], expression, "numpy")
    if not shape:
        yield lambda: td.gradient(expression, by)
        yield lambda: td.hessian(expression, by)
        yield lambda: td.hvp(expression, by, direction)


def pattern(message):
    return ".*".join(re.escape(piece) for piece in message.split(".*"))


@every("name", [*OUTSIDE])
def test_all_that_reads_the_input_refuses_it(name):
    expression, message = OUTSIDE[name]
    for call in functions(expression, BY[name]):
        with pytest.raises(OutOfShapeError, match=pattern(message)):
            call()


@every("name", [*INSIDE])
def test_no_other_input_is_refused(name):
    by = c if INSIDE[name].has(c) else wrt
    td.gradient(INSIDE[name], by)
    td.jvp(INSIDE[name], by, tangent if by is wrt else sympy.Integer(1))


def test_plain_diff_and_cotangents_are_refused_too():
    with pytest.raises(OutOfShapeError, match=pattern(COUNTED)):
        OUTSIDE["counted from 1"][0].diff(x[p])
    with pytest.raises(OutOfShapeError, match=r"x\[i \+ 1\] is read"):
        td.vjp(TensorComprehension(x[i] ** 2, (i, n)), x, ahead)


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_a_read_behind_a_condition_on_values_is_0_where_it_leaves_its_tensor(backend):
    pairs = IndexedSum(Piecewise((x[i + 1] * x[i], x[i] > 0), (x[i - 2], True)), (i, 0, n - 1))
    value, slope = td.lambdify([x], (pairs, td.gradient(pairs, x)), backend)(np.array([1.0, 2.0, -3.0, 4.0]))
    assert value == 1 * 2 + 2 * -3 + 1
    np.testing.assert_array_equal(slope, [2 + 1, 1 - 3, 2, 0])
