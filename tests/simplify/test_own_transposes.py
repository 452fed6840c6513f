"""Products that are their own transposes: seen, whatever the grouping and the order, and never where they are not."""

import numpy as np
import pytest

import sympy_tensordiff as td

d, n, m = td.indices("d n m")
A, X, B = td.TensorSymbol("A", (n, n)), td.TensorSymbol("X", (n, m)), td.TensorSymbol("B", (n, n))
S = td.TensorSymbol("S", (n, n), symmetric=True)
P = td.TensorSymbol("P", (n, n), positive=True)
u, v, w = (td.TensorSymbol(name, n) for name in "uvw")

SYMMETRIC = [
    X @ X.T,
    X @ X.T + A + A.T,
    td.inv(td.DeltaTensor(n) + X @ X.T),
    P @ S @ P,
    td.inv(P) @ S @ td.inv(P),
    (A.T @ P) @ A,
    A.T @ (P @ A),
    A @ ((B @ S) @ B.T) @ A.T,
    td.inv(A @ P @ A.T + B @ B.T),
    td.exp(A @ S @ A.T),
    A @ B + B.T @ A.T,
    (A @ B) @ A + A.T @ (B.T @ A.T),
    td.outer(u, v) + td.outer(v, u),
    td.outer(A @ u, A @ u),
    td.einsum("ij,j,kj->ik", A, u, A),
    td.exp(-td.sum((X[:, None, :] - X) ** 2, axis=2)),
    td.inv(td.DeltaTensor(n) + td.exp(-td.sum((X[:, None, :] - X) ** 2, axis=2))),
    td.cos(u[:, None] - u),
    (u[:, None] - u) * td.sin(u[:, None] - u),
    td.sum(td.abs(X[:, None, :] - X), axis=2) * td.outer(v, v),
]
OTHERS = [A @ B, P @ S, A @ S @ B.T, A @ A, td.outer(u, v), A.T @ B @ A, P @ S @ A, td.inv(P @ S), A @ B + A.T @ B.T,
          td.exp(u[:, None] - u), td.exp(td.sum((X[:, None, :] - X) ** 3, axis=2)), td.cos(u[:, None] - 2 * u),
          td.sum((X[:, None, :] - X) ** 2, axis=2) @ S, td.sum(td.exp(X[:, None, :] - X), axis=2)]  # fmt: skip


def _values(rng: np.random.Generator) -> dict:
    half = rng.standard_normal((4, 4))
    return {
        A: half, B: rng.standard_normal((4, 4)), S: half + half.T, P: half @ half.T + 4 * np.eye(4),
        X: rng.standard_normal((4, 3)), **{symbol: rng.standard_normal(4) for symbol in (u, v, w)},
    }  # fmt: skip


def _used(expr: object, values: dict) -> dict:
    return {symbol: value for symbol, value in values.items() if symbol in expr.free_symbols}


@pytest.mark.parametrize("matrix", SYMMETRIC, ids=str)
def test_the_gradient_of_a_quadratic_form_of_a_symmetric_matrix_has_one_term(matrix):
    gradient = td.gradient(td.dot(w, matrix @ w), w)
    values = _values(np.random.default_rng(0))
    dense = td.evaluate(matrix, _used(matrix, values))
    assert np.allclose(dense, dense.T)
    found = td.evaluate(gradient, _used(gradient, values))
    assert np.allclose(found, 2 * dense @ values[w])
    assert str(gradient).startswith("2*")


@pytest.mark.parametrize("matrix", OTHERS, ids=str)
def test_other_products_are_not_taken_for_symmetric_ones(matrix):
    gradient = td.gradient(td.dot(w, matrix @ w), w)
    values = _values(np.random.default_rng(1))
    dense = td.evaluate(matrix, _used(matrix, values))
    assert not np.allclose(dense, dense.T)
    assert np.allclose(td.evaluate(gradient, _used(gradient, values)), (dense + dense.T) @ values[w])


def test_antisymmetric_tensors_are_summed_over_one_axis():
    distances = td.sum((X[:, None, :] - X) ** 2, axis=2)
    gradient = td.gradient(td.dot(w, td.exp(-distances) @ w), X)
    assert str(gradient).count("EinsumProduct") == 1
    assert td.check_derivative(td.dot(w, td.exp(-distances) @ w), X, {n: 3, m: 2}) < 1e-6
    differences = td.gradient(td.sum(td.sin(u[:, None] - u) ** 2), u)
    assert str(differences) == "4*sum(sin(u[:, None] - u)*cos(u[:, None] - u), axis=1)"


def test_repeated_axes_of_a_result_are_not_exchanged():
    """The unit tensor of four axes with two of them exchanged was taken for symmetric in a pair that it is not."""
    assert td.check_derivative(td.gradient(td.det(S), S), S, {n: 3}) < 1e-6


def test_a_product_that_occurs_twice_is_multiplied_out_with_labels_of_its_own():
    """``outer(B u, B u)`` became ``B diag(u**2) B.T`` where a sum of ``x - mean(x)`` next to it was 0."""
    x, y = td.TensorSymbol("x", m), td.TensorSymbol("y", m)
    scaled = td.einsum("i,a,b->ab", x + y - td.mean(x), B @ u, B @ u)
    assert "diag" not in str(td.gradient(td.sum(td.tanh(scaled)) + td.sum(x), x))
    gradient = td.gradient(td.sum(td.tanh(scaled)), y)
    values = _values(np.random.default_rng(2)) | {x: np.array([0.1, -0.2, 0.4]), y: np.array([0.3, 0.2, -0.1])}
    outer = np.outer(values[B] @ values[u], values[B] @ values[u])
    expected = (outer * (1 - np.tanh(values[y].sum() * outer) ** 2)).sum()
    assert np.allclose(td.evaluate(gradient, _used(gradient, values)), expected)


def test_a_product_that_is_a_factor_and_a_term_is_multiplied_out_with_own_labels():
    product, z = A @ u, v
    loss = td.tanh(td.dot(product, z + product - td.mean(product) - product))
    values = _values(np.random.default_rng(3))
    gradient = td.gradient(loss, z)
    first = values[A] @ values[u]
    expected = (1 - np.tanh(first @ (values[v] - first.mean())) ** 2) * first
    assert np.allclose(td.evaluate(gradient, _used(gradient, values)), expected)
    variance = td.gradient(td.dot(product, product - td.mean(product)), u)
    expected = 2 * values[A].T @ (first - first.mean())
    assert np.allclose(td.evaluate(variance, _used(variance, values)), expected)
