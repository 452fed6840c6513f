"""Jacobians in the mode of less work: forward where the variable has few entries, reverse where the value has."""

from __future__ import annotations

import numpy as np
import sympy
from cost_judge.oracle import executed, figures
from every import every

import sympy_tensordiff as td

n, m, d = td.indices("n m d")
a, b = td.indices("a b")


def network(entries, inputs, layers, *, indexed=False):
    """A network of `layers` with skip connections, its arguments, input first; a scalar input for inputs=()."""
    x = td.TensorSymbol("x", inputs) if inputs != () else sympy.Symbol("x", real=True)
    W, U = td.TensorSymbol("W", (n, inputs) if inputs != () else n), td.TensorSymbol("U", (entries, n))
    V = [td.TensorSymbol(f"V{layer}", (n, n)) for layer in range(layers)]
    if inputs == ():
        state = td.tanh(W * x)
    elif indexed:
        state = table(sympy.tanh(td.IndexedSum(W[a, b] * x[b], (b, 0, inputs - 1))), n)
    else:
        state = td.tanh(W @ x)
    for matrix in V:
        state = (
            table(state[a] + sympy.tanh(td.IndexedSum(matrix[a, b] * state[b], (b, 0, n - 1))), n)
            if indexed
            else state + td.tanh(matrix @ state)
        )
    value = table(td.IndexedSum(U[a, b] * state[b], (b, 0, n - 1)), entries) if indexed else U @ state
    return value, (x, W, U, *V)


def table(entry, extent):
    return td.TensorComprehension(entry, (a, extent))


def operations(expr):
    found = td.cost(expr).operations
    return found.subs(dict.fromkeys(found.free_symbols, 100))


@every("indexed", [False, True])
@every("shape", [(m, 2), (2, m), (m, ()), (m, d)])
def test_a_jacobian_takes_the_work_of_few_functions(shape, indexed):
    """At most five times the work of the function for each entry of the value or the variable, whichever has fewer."""
    if shape[1] == () and indexed:
        return
    value, (x, *_) = network(*shape, 2, indexed=indexed)
    sweeps = min(shape[0] if shape[0] == 2 else 100, {2: 2, (): 1}.get(shape[1], 100))
    assert operations(td.jacobian(value, x)) <= 5 * sweeps * operations(value)


@every("indexed", [False, True])
@every("shape", [(7, 2), (2, 7), (6, ())])
def test_values(shape, indexed):
    value, arguments = network(*shape, 2, indexed=indexed and shape[1] != ())
    jacobian = td.jacobian(value, arguments[0])
    function = td.lambdify(arguments, (value, jacobian), "numpy")
    rng = np.random.default_rng(1)
    arrays = [rng.normal(size=[4 if e == n else e for e in getattr(one, "shape", ())]) for one in arguments]
    for direction in np.eye(arrays[0].size).reshape(-1, *arrays[0].shape):
        ends = [function(arrays[0] + step * direction, *arrays[1:])[0] for step in (1e-6, -1e-6)]
        column = np.tensordot(function(*arrays)[1], direction, direction.ndim)
        np.testing.assert_allclose(column, (ends[0] - ends[1]) / 2e-6, rtol=1e-6, atol=1e-8)


def test_the_forward_form_keeps_the_structure_of_its_variable():
    """By a symmetric matrix, a Jacobian is symmetric in its axes; both forms are the same by definition."""
    S, x = td.TensorSymbol("S", (2, 2), symmetric=True), td.TensorSymbol("x", (n, 2))
    value = table(td.IndexedSum(sympy.exp(S[b, 0] * S[0, 1]) * x[a, b], (b, 0, 1)), n)
    jacobian = td.jacobian(value, S)
    rng = np.random.default_rng(2)
    matrix, rows = rng.normal(size=(2, 2)), rng.normal(size=(5, 2))
    matrix += matrix.T
    found = td.lambdify((S, x), jacobian, "numpy")(matrix, rows)
    np.testing.assert_allclose(found, np.swapaxes(found, 1, 2))
    direction = np.array([[0.3, -0.2], [-0.2, 0.9]])
    ends = [td.lambdify((S, x), value, "numpy")(matrix + h * direction, rows) for h in (1e-6, -1e-6)]
    np.testing.assert_allclose(np.tensordot(found, direction, 2), (ends[0] - ends[1]) / 2e-6, rtol=1e-6, atol=1e-8)


def test_blocks_of_a_hessian_by_variables_of_different_sizes():
    """In index notation, a block is swept along the variable with fewer entries, whether it is of a row or a column."""
    x, W, y = td.TensorSymbol("x", 2), td.TensorSymbol("W", (n, 2)), td.TensorSymbol("y", n)
    state = table(sympy.tanh(td.IndexedSum(W[a, b] * x[b], (b, 0, 1)) * y[a]), n)
    f = td.IndexedSum(state[a] ** 2 * y[a], (a, 0, n - 1))
    ((_, right), (left, _)) = td.hessian(f, (x, y))
    assert operations(right) <= 30 * operations(f) and operations(left) <= 30 * operations(f)
    rng = np.random.default_rng(3)
    arrays = [rng.normal(size=size) for size in (2, 4, (4, 2))]
    upper, lower = td.lambdify((x, y, W), (right, left), "numpy")(*arrays)
    np.testing.assert_allclose(upper, lower.T)


# ---------------------------------------------------------------- conditions


@every(
    "function",
    [
        lambda A, B, V: td.sum(B @ td.exp(-((A @ td.relu(A @ V)) ** 2))),
        lambda A, B, V: td.logsumexp(B @ td.relu(A @ V)),
        lambda A, B, V: td.logsumexp(td.exp(-((A @ td.relu(A @ V)) ** 2))),
        lambda A, B, V: td.sum(B @ td.sqrt(1 + (A @ td.relu(A @ V)) ** 2)),
    ],
)
def test_what_is_finite_in_the_function_counts_no_chosen_terms(function):
    """Slopes that are numbers wherever the function is need no condition: 0 times a number is 0."""
    A, B = td.TensorSymbol("A", (n, n)), td.TensorSymbol("B", (n, n))
    V, T = td.TensorSymbol("V", (n, m)), td.TensorSymbol("T", (n, m))
    value = function(A, B, V)
    for product in (td.hvp(value, V, T), td.vjp(td.gradient(value, V), V, T)):
        assert "sum(greater" not in str(product) and "sum(where" not in str(product)


def test_a_hessian_in_index_notation_takes_the_work_of_its_products():
    """The norm of a softmax of a layer: conditions are around all slopes, and are summed by the reverse sweep."""
    i, j, k = td.indices("i j k")
    W, q, v = td.TensorSymbol("W", (n, d)), td.TensorSymbol("q", d), td.TensorSymbol("v", d)
    scores = td.TensorComprehension(td.IndexedSum(W[i, j] * td.relu(q[j]), (j, 0, d - 1)), (i, n))
    power = td.TensorComprehension(td.exp(scores[i]), (i, n))
    share = td.TensorComprehension(power[i] / td.IndexedSum(power[k], (k, 0, n - 1)), (i, n))
    value = sympy.sqrt(td.IndexedSum(share[i] ** 2, (i, 0, n - 1)))
    counts = [
        figures(executed((W, q, v), result), {"n": 40, "d": 30}).operations
        for result in (td.hvp(value, q, v), td.hessian(value, q))
    ]
    assert counts[1] <= 30 * counts[0]
