"""Values and forms of sums in which operands are factored out."""

from __future__ import annotations

import numpy as np
import pytest
import sympy

import sympy_tensordiff as td

n = td.indices("n")
h, s, t = (td.TensorSymbol(name, n) for name in "hst")
W = td.TensorSymbol("W", (n, n))


@pytest.mark.parametrize(
    ("residual", "printed"),
    [
        (W @ h + h - s * h, "2*outer((W + DeltaTensor(n) - diag(s)) @ h, h)"),
        (W @ h + 3 * h - s * h, "2*outer((W + 3*DeltaTensor(n) - diag(s)) @ h, h)"),
        (W @ h - s * h, "2*outer((W - diag(s)) @ h, h)"),
        (W @ h + h, "2*outer(h + W @ h, h)"),
    ],
)
def test_a_vector_among_matrices_is_multiplied_by_a_unit_matrix(residual, printed):
    """``W h + h - s*h`` is ``(W + 1 - diag(s)) h`` with the unit matrix as 1, not with a matrix of ones."""
    value = td.sum(residual**2)
    gradient = td.gradient(value, W)
    assert str(gradient) == printed
    td.check_derivative(value, W)
    td.check_derivative(value, h)
    td.check_derivative(gradient, h)


def test_a_number_with_scalars_and_diagonals():
    total = td.sum((W @ h + h * td.norm(t) + h - s * h + h * td.exp(s)) ** 2)
    td.check_derivative(total, W)
    td.check_derivative(total, h)


def test_terms_that_cancel_or_join():
    """A number, a sine and cosine squared, the sum of a softmax, and what subtracts itself in a product."""
    n, i = td.indices("n i")
    x, y, z = (td.TensorSymbol(name, n) for name in "xyz")
    A, B, C = (td.TensorSymbol(name, (n, n)) for name in "ABC")
    soft = td.softmax(z)
    turned = td.IndexedSum((td.cos(x[i]) * y[i] - td.sin(x[i]) * z[i]) ** 2, (i, 0, n - 1))
    turned += td.IndexedSum((td.sin(x[i]) * y[i] + td.cos(x[i]) * z[i]) ** 2, (i, 0, n - 1))
    for function, wrt, text in [
        (turned, y, "TensorComprehension(2*y[p], (p, n))"),
        (td.sum((td.cos(A) * B - td.sin(A) * C) ** 2 + (td.sin(A) * B + td.cos(A) * C) ** 2), B, "2*B"),
        (td.sum(soft * (z - td.logsumexp(z))), z, "softmax(z)*(z - (z.T @ softmax(z)))"),
        (td.sum(x * soft), z, "softmax(z)*(x - (x.T @ softmax(z)))"),
        (td.sum(B * td.softmax(A, axis=1)), A, "softmax(A, axis=1)*(B - sum(B*softmax(A, axis=1), axis=1)[:, None])"),
    ]:
        assert str(td.gradient(function, wrt)) == text
        assert td.check_derivative(function, wrt, {n: 3}) < 1e-6
    growth = td.TensorComprehension((1 - x[i]) * x[i], (i, n))
    assert str(td.jvp(growth, x, y)) == "TensorComprehension((1 - 2*x[i])*y[i], (i, n))"
    degrees = td.sum(A + td.DeltaTensor(n), axis=1)
    assert "sum(A, axis=1) + 1" in str(td.gradient(td.sum(td.log(degrees) * y), y))


def test_powers_of_a_common_divisor_are_not_summed():
    """The cofactor of ``2/t**2 - 6/t**4`` is ``2 - 6/t**2``, along the axis that only the divisor has."""
    x, u = td.TensorSymbol("x", n), sympy.Symbol("u")
    points = np.array([0.5, -1.25, 2.0])
    total = td.sum(1 / td.tanh(x))
    for order in (1, 2, 3):
        gradient = td.gradient(total, x)
        wanted = sympy.lambdify(u, sympy.diff(1 / sympy.tanh(u), u, order), "numpy")(points)
        np.testing.assert_allclose(td.evaluate(gradient, {x: points}), wanted, rtol=1e-12)
        total = td.sum(gradient)


def test_a_common_factor_does_not_double_the_product_of_a_large_matrix():
    """``(S - X C X^T S) X`` multiplies the large ``S`` twice, ``S X - X C X^T S X`` once."""
    n, m = td.indices("n m")
    X, S = td.TensorSymbol("X", (n, m)), td.TensorSymbol("S", (n, n), symmetric=True)
    gradient = td.gradient(td.trace(td.inv(X.T @ X) @ X.T @ S @ X), X)
    assert str(gradient) == "2*(S @ X - X @ inv(X.T @ X) @ X.T @ S @ X) @ inv(X.T @ X)"
    assert "+ 2*m*n**2 +" in str(td.cost(gradient).operations)


def test_a_product_and_its_transpose_stay_after_another_simplification():
    n = td.indices("n")
    x, y, S = td.TensorSymbol("x", n), td.TensorSymbol("y", n), td.TensorSymbol("S", (n, n), symmetric=True)
    gradient = td.gradient(td.dot(td.inv(S) @ x, y), S)
    assert str(td.simplify_deltas(gradient)) == str(gradient)


def test_an_operand_and_its_transpose_between_symmetric_matrices_are_added():
    n = td.indices("n")
    S, R = (td.TensorSymbol(name, (n, n), symmetric=True) for name in "SR")
    A, T = td.TensorSymbol("A", (n, n)), td.TensorSymbol("T", (n, n))
    assert str(td.simplify_deltas(S @ T @ S + S @ T.T @ S)) == "S @ (T + T.T) @ S"
    assert str(td.vjp(td.inv(A + A.T), A, T)) == "-inv(A + A.T) @ (T + T.T) @ inv(A + A.T)"
    for other in (R @ T.T @ S, S @ T @ R, -(S @ T.T @ S), A @ T.T @ A):
        assert "T + T.T" not in str(td.simplify_deltas(S @ T @ S + other))
    rng = np.random.default_rng(0)
    a, t = rng.normal(size=(2, 3, 3))
    found = td.evaluate(td.vjp(td.inv(A + A.T), A, T), {A: a, T: t})
    inverse = np.linalg.inv(a + a.T)
    np.testing.assert_allclose(found, -inverse @ (t + t.T) @ inverse, rtol=1e-12)


def test_a_sum_is_multiplied_out_where_its_terms_cancel_with_others():
    """And only then: ``(A + B) @ (x + y) - A @ x`` has no fewer terms."""
    n = td.indices("n")
    A, B = td.TensorSymbol("A", (n, n)), td.TensorSymbol("B", (n, n))
    x, y = td.TensorSymbol("x", n), td.TensorSymbol("y", n)
    forms = {
        "A @ x": (A + td.DeltaTensor(n)) @ x - x,
        "sum(x)*y": td.sum(x + 1) * y - n * y,
        "(A + B) @ (x + y) - A @ x": (A + B) @ (x + y) - A @ x,
    }
    for text, expression in forms.items():
        assert str(td.simplify_deltas(expression)) == text
