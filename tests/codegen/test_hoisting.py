"""Divisions and products of few indices are computed before the loops over further indices, once for each value."""

import numpy as np
import pytest
from cost_judge.oracle import executed, figures

import sympy_tensordiff as td

n, m, d, i, j, k = td.indices("n m d i j k")
x, y, s = td.TensorSymbol("x", (n, d)), td.TensorSymbol("y", (m, d)), td.TensorSymbol("s", d)
A, u, v, w = (td.TensorSymbol(name, shape) for name, shape in (("A", (n, m)), ("u", m), ("v", m), ("w", n)))
ARGUMENTS = x, y, s, A, u, v, w
SIZES = {"n": 30, "m": 20, "d": 10}


def table(body, *axes):
    return td.TensorComprehension(body, *axes)


scaled = td.IndexedSum((x[i, k] - y[j, k]) ** 2 / s[k] ** 2, (k, 0, d - 1))
HOISTED = {  # an expression, the shapes of its temporaries, and the most operations
    "a divisor in a sum": (table(td.exp(-scaled), (i, n), (j, m)), ["d"], 4 * 6000 + 700),
    "a divisor of an entry": (table(A[i, j] / (1 + u[j]), (i, n), (j, m)), ["m"], 600 + 40),
    "factors of a sum": (table(td.IndexedSum(u[j] * v[j] ** 2 * A[i, j], (j, 0, m - 1)), (i, n)), ["m"], 1200 + 40),
    "factors of an entry": (table(td.tanh(u[j] * v[j] * A[i, j]), (i, n), (j, m)), ["m"], 1200 + 20),
    "two divisors": (table(s[k] / (w[i] * u[j]), (i, n), (j, m), (k, d)), ["m", "n"], 2 * 6000 + 50),
}


@pytest.mark.in_turns(4)
@pytest.mark.parametrize("name", [*HOISTED])
def test_values_of_few_indices_are_computed_once(name):
    expression, shapes, most = HOISTED[name]
    program = executed(ARGUMENTS, expression)
    assert [" ".join(map(str, array.shape)) for array in program.temporaries] == shapes
    assert figures(program, SIZES).operations <= most
    arrays = [np.random.default_rng(1).uniform(0.5, 2, [SIZES[str(e)] for e in one.shape]) for one in ARGUMENTS]
    found = td.lambdify(ARGUMENTS, expression, "numba")(*arrays)
    np.testing.assert_allclose(found, td.evaluate(expression, dict(zip(ARGUMENTS, arrays, strict=True))), rtol=1e-12)


NOT_HOISTED = {
    "an addition is as cheap as a read": table(A[i, j] * (1 + u[j]), (i, n), (j, m)),
    "each value is used once": table(A[i, j] / (1 + A[i, j]) ** 2, (i, n), (j, m)),
    "an array over i and j is larger than those that it reads": table(s[k] / (w[i] + u[j]), (i, n), (j, m), (k, d)),
}


@pytest.mark.parametrize("name", [*NOT_HOISTED])
def test_what_saves_nothing_is_not_stored(name):
    assert not executed(ARGUMENTS, NOT_HOISTED[name]).temporaries


B = td.TensorSymbol("B", (n, d))
ROWS = {  # a gradient is an outer product; the operations next to those for each entry of the result
    "of a layer": (td.dot(w, td.tanh(B @ s)), 1),
    "of a gated layer": (td.dot(w, td.tanh(B @ s) / (1 + (B @ s) ** 2)), 1),
    "of a normalised layer": (td.dot(w, td.softplus((B @ s) / td.norm(B @ s))), 4),
}


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("backend", ["numba", "llvm"])
@pytest.mark.parametrize("name", [*ROWS])
def test_the_cotangent_in_an_outer_product_is_computed_once_for_each_row(name, backend):
    value, most = ROWS[name]
    gradient = td.gradient(value, B)
    arguments = B, s, w
    sizes = {"n": 30, "d": 200}
    product = 2 * 30 * 200
    assert figures(executed(arguments, gradient), sizes).operations <= product + most * 30 * 200 + 80 * 30
    arrays = [
        np.random.default_rng(1).uniform(-1, 1, [{"n": 3, "d": 5}[str(e)] for e in one.shape]) for one in arguments
    ]
    expected = td.evaluate(gradient, dict(zip(arguments, arrays, strict=True)))
    np.testing.assert_allclose(td.lambdify(arguments, gradient, backend)(*arrays), expected, rtol=1e-12)


@pytest.mark.usefixtures("uncompiled")
def test_reciprocals_of_norms_are_not_multiplied_together():
    """Each entry divided by two norms is finite where the product of their reciprocals is not."""
    rows = td.IndexedSum(x[i, k] ** 2, (k, 0, d - 1))
    others = td.IndexedSum(y[i, k] ** 2, (k, 0, d - 1))
    value = table(x[i, k] / td.sqrt(rows) / td.sqrt(others), (i, m), (k, d))
    with np.errstate(all="ignore"):
        arrays = [np.full((2, 3), size) for size in (1e-170, 1e-170)]
        found = td.lambdify((x, y), value, "numba")(*arrays)
    np.testing.assert_allclose(found, np.full((2, 3), 1e170 / 3), rtol=1e-12)
