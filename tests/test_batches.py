"""Inverses, determinants and solutions of many matrices: in the last two axes, and by an index around them."""

import numpy as np
import pytest
import sympy

import sympy_tensordiff as td
from sympy_tensordiff import reference
from sympy_tensordiff.errors import ShapeError, SingularMatrixError, UnsupportedError
from sympy_tensordiff.testing.values import call_arguments, random_values, to_double

n, m, N, b, i, j = td.indices("n m N b i j")
SIZES = {N: 3, n: 2, m: 2}
A, X = td.TensorSymbol("A", (N, n, n)), td.TensorSymbol("X", (n, n))
T = td.transpose(A, (0, 2, 1))
y, Y = td.TensorSymbol("y", (N, n)), td.TensorSymbol("Y", (N, n, m))
x, B = td.TensorSymbol("x", n), td.TensorSymbol("B", (n, m))
four = td.TensorSymbol("four", (2, N, n, n))

CASES = {
    "inv": td.inv(A),
    "inv of four axes": td.inv(four),
    "inv of transposes": td.inv(T),
    "det": td.det(A),
    "adj": td.adj(A),
    "logarithm": td.log(td.abs(td.det(A))),
    "columns": td.solve(A, Y),
    "transposed": td.solve(T, Y),
    "one vector": td.solve(A, x),
    "one right-hand side": td.solve(A, B),
    "one matrix": td.solve(X, Y),
    "stacks of stacks": td.solve(four, Y),
    "vectors": td.einsum("bij,bj->bi", td.inv(A), y),
    "around": td.IndexedSum(td.dot(y[b, :], td.inv(A[b]) @ y[b, :]) + td.det(A[b]) ** 2, (b, 0, N - 1)),
    "entries": td.TensorComprehension(td.inv(A[b])[i, j] * x[i], (b, N), (i, n), (j, n)),
    "of sums": td.TensorComprehension(td.trace(td.inv(A[b] @ X + td.DeltaTensor(n))), (b, N)),
    "adjugates around": td.IndexedSum(td.adj(A[b])[0, 1] * x[0], (b, 0, N - 1)),
}


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("case", CASES)
def test_values_and_derivatives(case):
    expr = CASES[case]
    values = random_values(expr, SIZES, seed=3)
    arguments, arrays = call_arguments(expr, values)
    expected = to_double(reference.evaluate(expr, values, SIZES))
    for backend in ("numpy", "numba"):
        found = td.lambdify(arguments, expr, backend)(*arrays)
        assert np.shape(found) == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    variable = four if expr.has(four) else A if expr.has(A) else X
    squares = td.sum(td.square(expr)) if getattr(expr, "shape", ()) else expr
    slope, direction = td.gradient(squares, variable), td.TensorSymbol("direction", variable.shape)
    exact = reference.derivative(squares, (variable,), values, SIZES)
    assert (reference.evaluate(slope, values, SIZES) == exact).all()
    along = random_values(direction, SIZES, seed=4)
    moved = reference.evaluate(td.jvp(squares, variable, direction), {**values, **along}, SIZES)
    assert moved == np.sum(exact * along[direction])
    assert sympy.latex(slope)


@pytest.mark.parametrize("case", ["inv", "det", "logarithm", "columns", "around"])
def test_second_derivatives(case):
    expr = CASES[case]
    squares = td.sum(td.square(expr)) if getattr(expr, "shape", ()) else expr
    assert td.check_derivative(td.gradient(squares, A), A, {N: 2, n: 2, m: 1}) < 1e-6


def test_the_matrices_of_an_index_are_those_of_the_tensor():
    """Matrices read at an outer index take one library call for all of them, shared with the tensor's own."""
    expr = td.IndexedSum(td.log(td.det(A[b])) + td.inv(A[b])[0, 0], (b, 0, N - 1))
    plan = td.lambdify((A,), (expr, td.inv(A), td.gradient(expr, A)), "numpy").plan
    assert plan.count("inv(A by factors)") == plan.count("fill factors") == 1
    vectors = td.lambdify((A, Y), td.solve(A, Y), "numpy")
    assert "by solving equations" in vectors.plan and "N*n*n*n/3 + " in vectors.plan


def test_what_is_refused():
    with pytest.raises(ShapeError, match="TensorInverse needs a square matrix, but axis 1 of Y has extent n"):
        td.inv(Y)
    with pytest.raises(ShapeError, match="axis 0 of operand 0 with extent N, and axis 0 of operand 1 with extent 4"):
        td.solve(A, td.TensorSymbol("Z", (4, n, m)))
    with pytest.raises(ShapeError, match="solve: 2 is a scalar; give a vector, or matrices in its last two axes"):
        td.solve(A, 2)
    dependent = td.IndexedSum(td.inv(A[b])[0, 0], (b, 0, i), (i, 0, N - 1))
    with pytest.raises(UnsupportedError, match="give the index around it a range that starts at 0 and ends at a size"):
        td.gradient(dependent, A)
    with pytest.raises(SingularMatrixError, match="the matrix A is singular"):
        td.lambdify((A,), td.inv(A), "numpy")(np.ones((2, 2, 2)))


def test_empty_batches_and_matrices():
    run = td.lambdify((A,), (td.inv(A), td.det(A)), "numpy")
    inverse, determinant = run(np.ones((0, 2, 2)))
    assert inverse.shape == (0, 2, 2) and determinant.shape == (0,)
    inverse, determinant = run(np.ones((3, 0, 0)))
    assert inverse.shape == (3, 0, 0) and determinant.tolist() == [1, 1, 1]
