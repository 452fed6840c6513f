"""Derivatives of SymPy's matrices: a matrix of one entry is a scalar, and results are matrices where they are."""

import numpy as np
import pytest
import sympy
from every import every
from sympy import Determinant, Inverse, KroneckerProduct, MatrixSymbol, Trace

import sympy_tensordiff as td
from sympy_tensordiff.errors import ArgumentTypeError, ShapeError
from sympy_tensordiff.reference import evaluate
from sympy_tensordiff.testing import random_values

i, n, m, p, q = td.indices("i n m p q")
a, b, t = sympy.symbols("a b t")
X, S, P = MatrixSymbol("X", n, m), MatrixSymbol("S", n, n), MatrixSymbol("P", 3, 3)
T = MatrixSymbol("T", n, n)
w, v, y = MatrixSymbol("w", n, 1), MatrixSymbol("v", n, 1), MatrixSymbol("y", m, 1)
z = sympy.Function("z")
residual = X.T * w - y

MATRICES = [
    (td.gradient, (w.T * X * X.T * w, w), 2 * X * X.T * w),
    (td.gradient, (w.T * X * X.T * w, X), 2 * w * w.T * X),
    (td.gradient, ((w.T * X * X.T * w)[0, 0], w), 2 * X * X.T * w),
    (td.gradient, (w.T * S * w + w.T * w, w), (S + S.T) * w + 2 * w),
    (td.gradient, (residual.T * residual, w), 2 * X * residual),
    (td.gradient, (Trace(S * X * X.T), X), (S + S.T) * X),
    (td.gradient, (sympy.log(Determinant(S)), S), Inverse(S.T)),
    (td.gradient, (w.T * Inverse(S) * w, S), -Inverse(S.T) * w * w.T * Inverse(S.T)),
    (td.gradient, (w.T * w, v), sympy.ZeroMatrix(n, 1)),
    (td.diff, (Trace(S**4), S), 4 * S.T**3),
    (td.jacobian, (Trace(X.T * X), X), 2 * X),
    (td.vjp, (X.T * w, w, y), X * y),
    (td.jvp, (X.T * w, w, v), X.T * v),
    (td.gradient, (Trace(residual * residual.T), X), 2 * w * residual.T),
    (td.hvp, (w.T * S * w, w, v), (S + S.T) * v),
    (td.gradient, (Trace(KroneckerProduct(S, T) * KroneckerProduct(T, S)), S), 2 * Trace(S * T) * T.T),
]


@pytest.mark.parametrize(("function", "given", "expected"), MATRICES, ids=map(str, range(len(MATRICES))))
def test_derivatives_by_matrices_are_matrices(function, given, expected):
    result = function(*given)
    assert result == expected
    tensors = [td.lift(part) for part in given]
    if getattr(tensors[0], "shape", None) == (1, 1):
        tensors[0] = tensors[0][0, 0]
    tensor = function(*tensors)
    assert not tensor.has(sympy.MatrixExpr)
    values = random_values(td.lift(expected) + tensor, {n: 2, m: 3}, 1, low=0.5, high=2)
    sizes = {n: 2, m: 3}
    assert np.allclose(evaluate(result, values, sizes).astype(float), evaluate(tensor, values, sizes).astype(float))


def test_several_variables_and_higher_orders():
    loss = a * w.T * X * X.T * w
    by_a, by_w, by_x = td.gradient(loss, (a, w, X))
    assert td.lift(by_w) == td.lift(2 * a * X * X.T * w) and by_x == 2 * a * w * w.T * X
    assert str(by_a) == "trace(X @ X.T @ w @ w.T)"
    assert td.hessian(w.T * S * w, w).shape == (n, 1, n, 1)
    assert td.gradient(td.gradient(w.T * S * w, w).T * v, w) == (S + S.T) * v
    assert td.gradient(sympy.Matrix([[a**2]]), a) == 2 * a
    kernel = td.lambdify((w, X), td.gradient(w.T * X * X.T * w, w), backend="numpy")
    w0, x0 = np.array([[1.0], [2.0]]), np.array([[1.0, 2.0], [3.0, 4.0]])
    assert np.allclose(kernel(w0, x0), 2 * x0 @ x0.T @ w0)


def test_tensors_stay_tensors():
    x = sympy.IndexedBase("x", shape=n)
    for result in (
        td.gradient(td.lift(w.T * w)[0, 0], w),  # written with tensors
        td.gradient(w.T * w, td.lift(w)),
        td.gradient(sympy.Sum(x[i] * w[i, 0], (i, 0, n - 1)), w),  # x would be another matrix
        td.gradient(Determinant(S), S),  # SymPy has no symbolic adjugate
        td.jacobian(X.T * w, w),  # four axes
        td.vjp(X.T * w, w, td.TensorSymbol("y", (m, 1))),
    ):
        assert not isinstance(result, sympy.MatrixExpr) and td.lift(result) == result
    with pytest.raises(ShapeError, match=r"gradient takes a scalar, not a tensor of shape \(n, 1\)"):
        td.gradient(w, w)
    with pytest.raises(ShapeError, match=r"hessian takes a scalar, not a tensor of shape \(n, 1\)"):
        td.hessian(w, w)


@every(
    "call",
    [
        lambda array: td.gradient(a**2 + b, array),
        lambda array: td.hessian(a**2 + b, array),
        lambda array: td.jacobian(sympy.Matrix([a**2, a * b]), array),
        lambda array: td.diff(a**2 + b, array),
        lambda array: td.jvp(a**2 + b, array, array),
        lambda array: td.check_derivative(a**2 + b, array),
    ],
)
def test_arrays_of_variables_are_refused(call):
    for array in (sympy.Matrix([a, b]), sympy.ImmutableMatrix([[a, b]]), sympy.Array([a, b])):
        with pytest.raises(ArgumentTypeError, match=r"use a tuple of its entries; td.gradient, .* take \(a, b\)"):
            call(array)


def test_values_of_functions_are_refused():
    for call in (td.diff, td.gradient, td.check_derivative):
        with pytest.raises(
            ArgumentTypeError, match=r"with respect to z\(i\): .* write IndexedBase\('z'\) with the entries z\[i\]"
        ):
            call(sympy.Sum(z(i) ** 2, (i, 0, n - 1)), z(i))
        with pytest.raises(
            ArgumentTypeError, match=r"with respect to z\(t\): .*a symbol in its place, .subs\(z\(t\), Symbol\('z'\)"
        ):
            call(z(t) ** 2, z(t))
