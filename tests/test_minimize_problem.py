"""Functions of a flat vector for SciPy: against values and derivatives by hand, and through SciPy's own optimisers."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
import sympy
from every import every

import sympy_tensordiff as td
from sympy_tensordiff.errors import ArgumentError

i, n, m, d = td.indices("i n m d")
x, y = td.TensorSymbol("x", n), td.TensorSymbol("y", m)
X, W = td.TensorSymbol("X", (m, d)), td.TensorSymbol("W", (d, 2))
b = sympy.Symbol("b", real=True)
ROSENBROCK = td.IndexedSum(100 * (x[i + 1] - x[i] ** 2) ** 2 + (1 - x[i]) ** 2, (i, 0, n - 2))
CHAIN = td.TensorComprehension(x[i + 1] - x[i] ** 2, (i, n - 1))


@every("method", ["BFGS", "Newton-CG", "trust-exact", "trust-krylov", "trust-constr", "L-BFGS-B"], turns=8)
def test_methods_of_scipy(method):
    """The shape of the variable follows from the length of the vector."""
    problem = td.minimize_problem(ROSENBROCK, x, backend="numpy")
    second = {} if "BFGS" in method else {"hess": problem.hess}
    result = scipy.optimize.minimize(problem.fun, np.full(4, 0.7), jac=problem.jac, method=method, **second)
    np.testing.assert_allclose(result.x, 1, atol=1e-3)
    np.testing.assert_allclose(problem.hess(result.x), scipy.optimize.rosen_hess(result.x), rtol=1e-10)
    p = np.arange(4.0)
    np.testing.assert_allclose(problem.hessp(result.x, p), problem.hess(result.x) @ p, rtol=1e-10, atol=1e-9)
    value, slope = problem.fun_and_jac(result.x)
    assert isinstance(problem.fun(result.x), float) and value == problem.fun(result.x)
    np.testing.assert_array_equal(slope, problem.jac(result.x))


def test_operators_of_scipy():
    problem = td.minimize_problem(ROSENBROCK, x, backend="numpy")
    start = np.full(4, 0.7)
    operator = problem.hess_operator(start)
    np.testing.assert_allclose(operator.toarray(), problem.hess(start), rtol=1e-12)
    result = scipy.optimize.minimize(
        problem.fun, start, jac=problem.jac, hess=problem.hess_operator, method="trust-constr"
    )
    np.testing.assert_allclose(result.x, 1, atol=1e-3)


def test_several_variables():
    """The sizes follow from the data; the Hessian has the blocks of all pairs of variables."""
    draw = np.random.default_rng(0)
    features, targets = draw.normal(size=(6, 3)), draw.normal(size=6)
    residual = td.sum(X @ W, axis=1) + b - y
    loss = td.dot(residual, residual)
    problem = td.minimize_problem(loss, (W, b), data={X: features, y: targets}, backend="numpy")
    matrix = np.hstack([np.repeat(features, 2, axis=1), np.ones((6, 1))])  # the residual is linear
    point = draw.normal(size=7)
    np.testing.assert_allclose(problem.fun(point), np.sum((matrix @ point - targets) ** 2))
    np.testing.assert_allclose(problem.jac(point), 2 * matrix.T @ (matrix @ point - targets))
    np.testing.assert_allclose(problem.hess(point), 2 * matrix.T @ matrix, atol=1e-12)
    np.testing.assert_allclose(problem.hessp(point, point), 2 * matrix.T @ matrix @ point)
    parts = problem.unravel(point)
    assert list(parts) == ["W", "b"] and parts["W"].shape == (3, 2) and parts["b"] == point[6]
    np.testing.assert_array_equal(problem.ravel(parts), point)
    np.testing.assert_array_equal(problem.ravel({b: parts["b"], W: parts["W"]}), point)
    residuals = td.minimize_problem(residual, (W, b), data={X: features, y: targets}, backend="numpy")
    np.testing.assert_allclose(residuals.jac(point).toarray(), matrix)


def test_residuals_for_least_squares():
    problem = td.minimize_problem(CHAIN, x, backend="numpy")
    jacobian = problem.jac(np.arange(4.0))
    assert scipy.sparse.issparse(jacobian) and jacobian.nnz == 6
    np.testing.assert_array_equal(jacobian.toarray(), [[0, 1, 0, 0], [0, -2, 1, 0], [0, 0, -4, 1]])
    result = scipy.optimize.least_squares(problem.fun, np.full(4, 0.5), jac=problem.jac)
    assert result.cost < 1e-12
    with pytest.raises(ArgumentError, match=r"hess is for a scalar loss, and this one has the shape \(n - 1,\)"):
        problem.hess(np.arange(4.0))


def test_residuals_without_a_pattern():
    inverse = td.minimize_problem(td.inv(td.TensorSymbol("M", (2, 2))), td.TensorSymbol("M", (2, 2)), backend="numpy")
    point = np.array([2.0, 1.0, 0.0, 1.0])
    matrix = np.linalg.inv(point.reshape(2, 2))
    wanted = -np.einsum("ik,lj->ijkl", matrix, matrix).reshape(4, 4)
    assert isinstance(inverse.jac(point), np.ndarray)
    np.testing.assert_allclose(inverse.jac(point), wanted, atol=1e-12)


def test_sizes_that_need_a_start():
    total = td.IndexedSum(x[i] ** 2, (i, 0, n - 1)) + td.IndexedSum(y[i] ** 2, (i, 0, m - 1))
    with pytest.raises(ArgumentError, match="a vector of length 5 does not determine the sizes m, n: give start"):
        td.minimize_problem(total, (x, y), backend="numpy").fun(np.ones(5))
    problem = td.minimize_problem(total, (x, y), start=(np.ones(2), np.ones(3)), backend="numpy")
    assert problem.fun(np.ones(5)) == 5
    with pytest.raises(ArgumentError, match=r"the vector of unknowns has the shape \(4,\), the problem needs \(5,\)"):
        problem.jac(np.ones(4))
    by_name = td.minimize_problem(total, (x, y), backend="numpy")
    assert by_name.ravel({"x": np.ones(2), "y": np.zeros(3)}).tolist() == [1, 1, 0, 0, 0]
    pairs = td.TensorSymbol("pairs", (n, 2))
    with pytest.raises(ArgumentError, match="a vector of length 3 fits the variables in 0 ways: give start"):
        td.minimize_problem(td.sum(pairs), pairs, backend="numpy").fun(np.ones(3))


def test_refusals():
    with pytest.raises(ArgumentError, match="y occurs in the expression, but not in wrt or data: add it to data"):
        td.minimize_problem(td.sum(x * y[0]), x)
    with pytest.raises(ArgumentError, match="x is in wrt and in data: give what does not change in data"):
        td.minimize_problem(td.sum(x), x, data={x: np.ones(2)})
    with pytest.raises(ArgumentError, match="start has 2 arrays, there are 1 variables"):
        td.minimize_problem(td.sum(x), (x,), start=(np.ones(2), np.ones(2)))
    problem = td.minimize_problem(td.sum(x), x, start=np.ones(2))
    with pytest.raises(ArgumentError, match="values are given for z, the variables are x"):
        problem.ravel({"z": 1.0})
    with pytest.raises(ArgumentError, match=r"the value of x has the shape \(3,\), it needs \(2,\)"):
        problem.ravel({"x": np.ones(3)})
