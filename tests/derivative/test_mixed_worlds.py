"""Whole tensors and index notation in one expression: derivatives, their form, and their growth."""

import numpy as np
import sympy
from every import every
from sympy import exp, log, sin

import sympy_tensordiff as td
from sympy_tensordiff.derivative.elementwise import Differentiation
from sympy_tensordiff.graph.nodes import reachable

n, m = td.indices("n m")
i, j, k, p, q = td.indices("i j k p q")
A, X = td.TensorSymbol("A", (n, n)), td.TensorSymbol("X", (n, n))
B = td.TensorSymbol("B", (n, m))
x, y, w = td.TensorSymbol("x", n), td.TensorSymbol("y", n), td.TensorSymbol("w", m)
c = sympy.Symbol("c", real=True)
Ax = td.einsum("ij,j->i", A, x)

TENSORS = {
    "a comprehension is an operand": td.einsum("ij,j->i", A, td.TensorComprehension(x[i] * x[n - 1 - i], (i, n))),
    "entries of an einsum": td.TensorComprehension(sin(Ax[i]) + Ax[n - 1 - i] * x[i], (i, n)),
    "a sum over entries of an einsum": td.IndexedSum(td.exp(Ax)[i] * Ax[i], (i, 0, n - 1)),
    "a determinant as a scalar of entries": td.TensorComprehension(td.det(X) * x[i] + X[i, 0], (i, n)),
    "native scalars around": c * log(td.det(X) ** 2 + 1) + sin(td.trace(X)) * x[0],
    "one entry": td.einsum("ij,j->i", td.inv(X), x)[2],
    "entries behind a guard": td.TensorComprehension(
        sympy.Piecewise((td.exp(Ax)[i - 1], i >= 1), (0, True)) * x[i], (i, n)
    ),
    "a shared part in both worlds": td.einsum(
        "i,i->", td.exp(Ax), td.TensorComprehension(td.exp(Ax)[n - 1 - i], (i, n))
    ),
    "a closed scalar inside of a sum": td.IndexedSum(x[i] * td.logsumexp(x), (i, 0, n - 1)),
    "a table under functions": td.sum(td.tanh(td.TensorComprehension(B[i, 0] * x[i] + w[0], (i, n)))),
    "a matrix of entries inverted": td.einsum(
        "ij,j->i", td.inv(td.TensorComprehension(X[j, i] * c, (i, n), (j, n))), x
    ),
}  # fmt: skip


@every("name", [*TENSORS])
def test_against_central_differences(name):
    expr = TENSORS[name]
    rng = np.random.default_rng(3)
    values = {s: rng.uniform(0.3, 0.9, [{n: 5, m: 3}[e] for e in s.shape]) for s in (A, X, B, x, w)}
    values[X] = values[X] + 3 * np.eye(5)
    values[c] = np.float64(0.7)
    symbols = [s for s in (A, X, B, x, w, c) if s in expr.free_symbols]
    jacobians = td.jacobian(expr, tuple(symbols))
    function = td.lambdify((*symbols, n), (expr, *jacobians), backend="numpy")
    at = [values[s] for s in symbols]
    _, *found = function(*at, 5)
    for place, jacobian in enumerate(found):
        direction, step = rng.uniform(-1, 1, np.shape(at[place])), 1e-5
        ahead, behind = (
            function(*at[:place], at[place] + s * direction, *at[place + 1 :], 5)[0] for s in (step, -step)
        )
        expected = (ahead - behind) / (2 * step)
        got = np.tensordot(jacobian, direction, np.ndim(direction))
        np.testing.assert_allclose(got, expected, rtol=2e-6, atol=1e-7)


def nodes_of_chain(depth):
    z = x
    for _ in range(depth):
        z = td.TensorComprehension(exp(td.einsum("ij,j->i", A, z)[n - 1 - i]) + x[i], (i, n))
    work = Differentiation(td.sum(z))
    return len(reachable(*work.pullbacks([work.leaf(x), work.leaf(A)], work.graph.one)))


def test_chains_through_both_worlds_grow_linearly():
    sizes = [nodes_of_chain(depth) for depth in (4, 8, 12)]
    assert sizes[2] - sizes[1] == sizes[1] - sizes[0]


def test_a_triangle_of_sums_is_no_einsum():
    """``Sum_(k <= j) 1`` is a number for each j: the index does not leave the table."""
    v, t = td.TensorSymbol("v", 2), td.TensorSymbol("t", 2)
    table = td.TensorComprehension(td.IndexedSum(v[q], (k, 0, j), (q, 0, 1)), (i, 3), (j, 4))
    for expr in (table, td.sum(table, axis=0)):
        tangent = td.lambdify([v, t], td.jvp(expr, v, t), "numpy")(np.ones(2), np.array([1.0, 2]))
        entries = 3 * np.arange(1.0, 5) if expr is table else 9 * np.arange(1.0, 5)
        np.testing.assert_array_equal(tangent, np.broadcast_to(entries, tangent.shape))
    np.testing.assert_array_equal(td.lambdify([v], td.gradient(td.sum(table), v), "numpy")(np.ones(2)), [30, 30])


def test_terms_that_leave_a_sum_of_products_are_scalars():
    """The rest of a term without a common factor may be a scalar that is a sum over other operands."""
    a, u, v = td.TensorSymbol("a", ()), td.TensorSymbol("u", 3), td.TensorSymbol("v", 2)
    total = td.logsumexp(a * td.outer(v, u))
    mixed = td.jacobian(td.gradient(total, v), a)
    at = 0.7, np.array([0.3, -0.2, 0.9]), np.array([1.1, 0.4])
    gradient = td.lambdify([a, u, v], td.gradient(total, v), "numpy")
    expected = (gradient(at[0] + 1e-5, *at[1:]) - gradient(at[0] - 1e-5, *at[1:])) / 2e-5
    np.testing.assert_allclose(td.lambdify([a, u, v], mixed, "numpy")(*at), expected, rtol=1e-7)


def test_tables_of_derivatives_have_their_axes_in_order():
    gradient = td.gradient(td.inv(X)[0, 1], X)
    tables = gradient.atoms(td.TensorComprehension)
    assert len(tables) == 1 and not gradient.atoms(td.EinsumProduct)
    assert td.check_derivative(td.inv(X)[0, 1], X, sizes={n: 3}) < 1e-6
