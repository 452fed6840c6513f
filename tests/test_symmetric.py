"""Symmetric and positive definite matrices: how they read, their derivatives, and the factors of the kernels."""

import pickle

import numpy as np
import pytest
import sympy

import sympy_tensordiff as td
from sympy_tensordiff import reference
from sympy_tensordiff.errors import (
    ArgumentError,
    ArgumentTypeError,
    NotPositiveDefiniteError,
    ShapeError,
    SingularMatrixError,
)
from sympy_tensordiff.graph.nodes import Graph
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.simplify.symmetry import exchange_sign
from sympy_tensordiff.testing.values import random_values

n, m, i, j, p, q = td.indices("n m i j p q")
S = td.TensorSymbol("S", (n, n), symmetric=True)
K = td.TensorSymbol("K", (n, n), symmetric=True, positive=True)
A = td.TensorSymbol("A", (n, n))
B = td.TensorSymbol("B", (n, m))
w, x, y = td.TensorSymbol("w", n), td.TensorSymbol("x", n), td.TensorSymbol("y", n)

FUNCTIONS = {
    "bilinear": x @ S @ y,
    "quadratic": x @ S @ x,
    "logdet": td.logdet(S @ S + A @ A.T + td.DeltaTensor(n)),
    "solution": y @ td.inv(S) @ x,
    "adjugate": y @ td.adj(S) @ x,
    "determinant": S[0, 0] * S[1, 0] * td.det(S),
    "entries": td.sum(td.exp(S) * A),
    "sums": td.IndexedSum(S[i, j] * S[i + 1, j] * (i + 2 * j + 1), (i, 0, n - 2), (j, 0, n - 1)),
    "one triangle": td.IndexedSum(S[i, j] ** 3, (j, 0, i), (i, 0, n - 1)),
    "rows and sums": td.IndexedSum((S @ S)[i, j] * x[i] ** 2 * y[j], (i, 0, n - 1), (j, 0, n - 1)),
}


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_derivatives_of_both_orders_are_those_of_symmetric_steps(function):
    expr = FUNCTIONS[function]
    assert td.check_derivative(expr, S, {n: 3}) < 1e-6
    gradient = td.gradient(expr, S)
    assert td.check_derivative(gradient, S, {n: 2 if function == "adjugate" else 3}) < 1e-6


@pytest.mark.parametrize("function", ["quadratic", "determinant", "sums", "one triangle", "rows and sums"])
def test_derivatives_are_exact_and_agree(function):
    """The gradient, the Jacobian, products with the Hessian and derivatives of entries are one symmetric derivative."""
    expr = FUNCTIONS[function]
    sizes = {n: 3}
    values = random_values((expr, S, x, y, A), sizes, seed=4)
    exact = reference.derivative(expr, (S,), values, sizes)
    assert (exact == exact.T).all()

    def value(result):
        return np.asarray(reference.evaluate(result, values, sizes), dtype=object)

    assert (value(td.gradient(expr, S)) == exact).all()
    entry = td.diff(expr, S[p, q])
    for at in np.ndindex(3, 3):
        assert reference.evaluate(entry, values, {**sizes, p: at[0], q: at[1]}) == exact[at]
    second = reference.hessian(expr, S, values, sizes)
    direction = values[A]
    along = np.tensordot(second, direction, 2)
    assert (value(td.hvp(expr, S, A)) == along).all()
    assert (value(td.jvp(td.gradient(expr, S), S, A)) == along).all()
    assert (value(td.hessian(expr, S)) == second).all()
    assert value(td.jvp(expr, S, A))[()] == np.tensordot(exact, direction, 2)


@pytest.fixture
def matrices():
    rng = np.random.default_rng(2)
    root = rng.normal(size=(4, 4))
    return {"K": root @ root.T + np.eye(4), "S": root + root.T, "A": root, "y": rng.normal(size=4)}


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("matrix", [K, S, A], ids=str)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_one_factorization_for_all(matrix, dtype, backend, matrices):
    results = (
        td.inv(matrix),
        td.inv(matrix) @ y,
        td.inv(matrix).T @ B,
        td.det(matrix),
        td.log(td.abs(td.det(matrix))),
        -2 * td.inv(matrix).T,
    )
    kernel = td.lambdify((matrix, y, B), results, backend=backend)
    assert kernel.plan.count("n*n*n/3") == 1
    given = matrices[matrix.name].astype(dtype)
    right = np.arange(8.0).reshape(4, 2).astype(dtype)
    vector = matrices["y"].astype(dtype)
    found = kernel(given, vector, right)
    inverse = np.linalg.inv(matrices[matrix.name])
    expected = (
        inverse,
        inverse @ matrices["y"],
        inverse.T @ right,
        np.linalg.det(matrices[matrix.name]),
        np.linalg.slogdet(matrices[matrix.name])[1],
        -2 * inverse.T,
    )
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == dtype
        np.testing.assert_allclose(
            one, other, rtol=1e-9 if dtype is np.float64 else 2e-3, atol=1e-3 * (dtype is np.float32)
        )


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_many_matrices_are_factorized_once(backend):
    """Definite ones by Cholesky's method where they may be that, one by one; a nearly singular one is in the middle."""
    each = td.TensorSymbol("T", (m, n, n))
    right = td.TensorSymbol("R", (m, n))
    loss = td.sum(td.inv(each) ** 2) + td.sum(td.logdet(each))
    results = (td.inv(each), td.det(each), td.log(td.abs(td.det(each))), td.gradient(loss, each))
    kernel = td.lambdify((each,), results, backend)
    assert kernel.plan.count("/3 products") == 1 and "equations" not in kernel.plan
    rng = np.random.default_rng(3)
    values = rng.normal(size=(5, 3, 3))
    values[2] = values[2] @ values[2].T + np.eye(3)
    values[3, 0] = values[3, 1] + 1e-6 * values[3, 0]
    for found, expected in zip(kernel(values), (np.linalg.inv, np.linalg.det, None, None), strict=True):
        if expected is not None:
            np.testing.assert_allclose(found, expected(values), rtol=1e-7)
    positive = values.copy()
    positive[np.linalg.det(values) < 0] *= -1
    inverses = np.linalg.inv(positive).transpose(0, 2, 1)
    gradient = inverses - 2 * inverses @ np.linalg.inv(positive) @ inverses
    np.testing.assert_allclose(kernel(positive)[3], gradient, rtol=1e-6)
    np.testing.assert_allclose(kernel(positive)[2], np.linalg.slogdet(positive)[1], rtol=1e-9)
    mixed = td.einsum("bij,bkj->bik", each, each) - 9 * td.DeltaTensor(n)[None]
    solutions = td.lambdify((each, right), (td.solve(mixed, right[:, :, None]), td.det(mixed)), backend)
    given, columns = values @ values.transpose(0, 2, 1) - 9 * np.eye(3), rng.normal(size=(5, 3))
    given_solutions, determinants = solutions(values, columns)
    np.testing.assert_allclose(given_solutions, np.linalg.solve(given, columns[..., None]), rtol=1e-7)
    np.testing.assert_allclose(determinants, np.linalg.det(given), rtol=1e-9)
    values[3, 0] = values[3, 1]
    with pytest.raises(SingularMatrixError, match="the matrix T is singular"):
        kernel(values)


def test_symmetric_by_its_entries():
    """A covariance in index notation takes Cholesky's method where it can, and is its own transpose."""
    entry = sympy.exp(-((x[i] - x[j]) ** 2) * w[0]) + abs(x[j] - x[i])
    covariance = td.TensorComprehension(entry, (i, n), (j, n)) + td.DeltaTensor(n)
    both = td.lambdify((x, y, w), (td.inv(covariance) @ y, td.inv(covariance).T @ y, td.logdet(covariance)), "numpy")
    assert "Cholesky's where there are such" in both.plan and both.plan.count("by factors") == 2
    skew = td.TensorComprehension((x[i] - x[j]) ** 3, (i, n), (j, n)) + td.DeltaTensor(n)
    assert "Cholesky" not in td.lambdify((x, y), (td.inv(skew) @ y, td.logdet(skew)), "numpy").plan
    points, right = np.array([0.0, 0.3, 1.0]), np.array([1.0, 2.0, -1.0])
    for scale in (4.0, -2.0):  # definite, and not
        gaps = points[:, None] - points
        dense = np.exp(-(gaps**2) * scale) + np.abs(gaps) + np.eye(3)
        one, other, logarithm = both(points, right, np.full(3, scale))
        np.testing.assert_allclose(one, np.linalg.solve(dense, right))
        np.testing.assert_allclose(other, one)
        sign, value = np.linalg.slogdet(dense)
        np.testing.assert_allclose(logarithm, value if sign > 0 else np.nan)


def test_the_plan_says_whose_factors(matrices):
    both = td.lambdify((K, y), (td.inv(K) @ y, td.logdet(K)), "numpy")
    assert "factors = Cholesky factors of K" in both.plan and "inv(K)[i, j]*y[j] by factors" in both.plan
    assert "factors" not in td.lambdify((S, y), td.inv(S) @ y, "numpy").plan
    shifted = td.lambdify(
        (K, S), (td.inv(2 * K + 3 * td.DeltaTensor(n)), td.inv(K + S), td.inv(K - td.DeltaTensor(n))), "numpy"
    )
    assert shifted.plan.count("Cholesky") == 1
    again = pickle.loads(pickle.dumps(both))
    assert "from scipy.linalg import lapack" in again.source
    np.testing.assert_allclose(again(matrices["K"], matrices["y"])[1], np.linalg.slogdet(matrices["K"])[1])


@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_other_matrices_are_refused_at_the_call(backend):
    definite = td.lambdify((K,), td.inv(K), backend)
    with pytest.raises(NotPositiveDefiniteError, match="the matrix K is not positive definite: Cholesky's method"):
        definite(np.array([[1.0, 2.0], [2.0, 1.0]]))
    kernel = td.lambdify((S,), (td.inv(S), td.det(S)), backend)
    with pytest.raises(SingularMatrixError, match="the matrix S is singular"):
        kernel(np.ones((2, 2)))
    kernel(np.array([[1.0, 2.0], [2.0, 1.0]]))
    given = np.array([[1.0, 2.0], [2.5, 1.0]])
    for _ in range(2):  # calls like the last one are not checked again otherwise
        with pytest.raises(
            ArgumentError, match=r"argument S is declared symmetric, but its entries \[0, 1\] and \[1, 0"
        ):
            kernel(given)
    given[1, 0] = 2 + 1e-9  # rounding
    kernel(given)


def test_what_cannot_be_symmetric():
    for shape in (n, (n, m), (n, n, n), ()):
        with pytest.raises(ShapeError, match="T is declared symmetric=True, which means a symmetric matrix, but its"):
            td.TensorSymbol("T", shape, symmetric=True)
    with pytest.raises(ShapeError, match="positive=True, which means a positive definite matrix"):
        td.TensorSymbol("T", n, positive=True)
    with pytest.raises(ArgumentError, match="is declared symmetric=True and of integers: only real matrices are that"):
        td.TensorSymbol("T", (n, n), dtype=int, symmetric=True)
    with pytest.raises(ArgumentTypeError, match="tensor T has symmetric=1: it must be True or False"):
        td.TensorSymbol("T", (n, n), symmetric=1)
    with pytest.raises(ShapeError, match="two different tensors are called A"):
        td.gradient(td.sum(A @ td.TensorSymbol("A", (n, n), symmetric=True)), A)


def test_a_declared_matrix_is_a_citizen():
    for symbol in (S, K):
        assert symbol.func(*symbol.args) == symbol
        assert eval(sympy.srepr(symbol), {**vars(sympy), **vars(td)}) == symbol
        assert pickle.loads(pickle.dumps(symbol)) is symbol
    assert td.TensorSymbol("S", (n, n)) != S and K.positive and K.symmetric and not S.positive and not A.symmetric


def test_entries_of_computed_symmetric_matrices_have_one_order():
    """The gradient of a Gaussian process by its inputs is one sum; the kernel is a table of differences."""
    places, k = td.TensorSymbol("X", (n, m)), td.indices("k")
    squares = td.TensorComprehension(td.IndexedSum((places[i, k] - places[j, k]) ** 2, (k, 0, m - 1)), (i, n), (j, n))
    kernel = td.exp(-squares / 2) + td.DeltaTensor(n)
    fit = x @ td.inv(kernel) @ x
    gradient = td.gradient(fit, places)
    assert isinstance(gradient.body, sympy.Mul) and len(gradient.body.atoms(td.IndexedSum)) == 2
    values = random_values((fit,), {n: 3, m: 2}, seed=2, kind="float")
    right = np.asarray(reference.derivative(fit, (places,), values), float)
    np.testing.assert_allclose(np.asarray(reference.evaluate(gradient, values), float), right, rtol=1e-9)


def test_entrywise_operations_on_operands_of_fewer_axes_are_not_symmetric():
    graph = Graph()
    size = Affine.variable("n")
    matrix, vector = graph.tensor("M", (size, size)), graph.tensor("v", (size,))
    symmetric = graph.compare("lt", graph.zero, graph.add([matrix, graph.ein(1, [(matrix, (0, 1))], (1, 0))]))
    condition = graph.logic("and", [symmetric, graph.compare("lt", graph.zero, vector)])
    assert exchange_sign(graph, symmetric, 0, 1) == 1
    assert exchange_sign(graph, condition, 0, 1) == 0
