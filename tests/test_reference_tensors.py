"""The oracle on whole tensors, against NumPy, SymPy's matrices and values worked out by hand."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import sympy
from every import every
from sympy import Piecewise, Rational, Symbol

import sympy_tensordiff as td
from sympy_tensordiff import DeltaTensor, IndexedSum, TensorComprehension, TensorSymbol, einsum
from sympy_tensordiff.errors import ArgumentError, ShapeError
from sympy_tensordiff.reference import derivative, differentiate, evaluate, hessian
from sympy_tensordiff.testing import assert_equal, random_values, to_double

i, j, k, n = td.indices("i j k n")
alpha = Symbol("alpha", real=True)
x, y = TensorSymbol("x", 3), TensorSymbol("y", 3)
A, B, X = TensorSymbol("A", (3, 4)), TensorSymbol("B", (4, 5)), TensorSymbol("X", (3, 3))
T = TensorSymbol("T", (3, 3, 4))
# Of rank 2, 1 and 0.
SINGULAR = {2: [[1, 2, 3], [4, 5, 6], [7, 8, 9]], 1: [[1, 2, -3], [2, 4, -6], [-1, -2, 3]], 0: np.zeros((3, 3), int)}


def drawn(*expressions, seed=0):
    return random_values(expressions, seed=seed)


# ---------------------------------------------------------------- values


@every(
    "subscripts, operands",
    [
        ("ij,jk->ki", (A, B)),
        ("iij->ji", (T,)),
        ("iij,j->", (T, TensorSymbol("c", 4))),
        ("i,i,i->i", (x, y, x)),
        ("ij,k->k", (A, x)),
        ("i,j,kl->lij", (x, y, X)),
        ("ii->", (X,)),
        ("i->", (x,)),
        ("ij,jk,kl,l->i", (X, A, B, TensorSymbol("d", 5))),
        ("ijk,ijk->", (T, T)),
    ],
)
def test_einsum_products_are_those_of_numpy(subscripts, operands):
    values = drawn(*operands)
    expected = np.einsum(subscripts, *(to_double(values[operand]) for operand in operands))
    got = evaluate(einsum(subscripts, *operands), values)
    assert_equal(to_double(got), expected, subscripts, 1e-13)
    assert all(isinstance(entry, Fraction) for entry in np.asarray(got).flat)


def test_numbers_and_scalars_are_factors():
    values = {x: [1, 2, 3], alpha: Fraction(1, 2)}
    assert evaluate(einsum(",i,->i", 3, x, alpha), values).tolist() == [Fraction(3, 2), 3, Fraction(9, 2)]


def test_elementwise_operations_broadcast_scalars_only():
    values = {x: [1, 2, 4], y: [3, 5, -1], alpha: 2}
    assert evaluate(x + y, values).tolist() == [4, 7, 3]
    assert evaluate(alpha - x, values).tolist() == [1, 0, -2]
    assert evaluate(x * y / alpha, values).tolist() == [Fraction(3, 2), 5, -2]
    assert evaluate(x**y, values).tolist() == [1, 32, Fraction(1, 4)]
    assert evaluate(2**x, values).tolist() == [2, 4, 16]
    assert evaluate(1 / x, values).tolist() == [1, Fraction(1, 2), Fraction(1, 4)]


def test_constant_tensors():
    assert evaluate(td.ones((2, 3)) * 5 + td.zeros((2, 3)), {}).tolist() == [[5] * 3] * 2
    delta = evaluate(DeltaTensor((2, n)), {}, {n: 3})
    assert np.array_equal(delta, np.einsum("ik,jl->ijkl", np.identity(2), np.identity(3)))
    assert evaluate(DeltaTensor(()) + 1, {}) == 2


def test_functions_of_whole_tensors():
    f = sympy.Function("f")
    u = Symbol("u", real=True)
    values = {x: [1, -2, 4], y: [0, 1, 1], alpha: 3, f: sympy.Lambda(u, u**2 + 1)}
    assert evaluate(td.relu(x) + td.sign(x) + td.abs(x), values).tolist() == [3, 1, 9]
    assert evaluate(td.maximum(x, y), values).tolist() == [1, 1, 4]
    assert evaluate(td.elementwise(lambda a, b: alpha * a * b, x, y), values).tolist() == [0, -6, 12]
    assert evaluate(td.elementwise(f, x), values).tolist() == [2, 5, 17]
    assert differentiate(td.elementwise(f, x), x, values).diagonal().tolist() == [2, -4, 8]
    assert evaluate(td.sigmoid(x * 0), values).tolist() == [Fraction(1, 2)] * 3


def test_logarithms_of_sums_of_exponentials_are_stable():
    got = evaluate(td.logsumexp(A, axis=1), {A: [[1000, 1000, -1000, -1000], [0, 0, 0, 0], [-2000, -2000, -2000, 0]]})
    assert_equal(to_double(got), np.array([1000 + np.log(2), np.log(4), 0]), "logsumexp", 1e-15)
    assert_equal(to_double(differentiate(td.logsumexp(x), x, {x: [5000, 5000, 0]})), [0.5, 0.5, 0], "slope", 1e-15)


# ---------------------------------------------------------------- matrices


def test_inverses_are_exact():
    at = [[0, 2, 1], [1, 1, Fraction(1, 3)], [3, 0, -1]]
    inverse = evaluate(td.inv(X), {X: at})
    assert np.array_equal(np.array(at, dtype=object) @ inverse, np.identity(3))
    scaled = [[Fraction(1, 10**30), 10**20, 0], [1, 1, 10**10], [0, 1, 3]]
    assert np.array_equal(np.array(scaled, dtype=object) @ evaluate(td.inv(X), {X: scaled}), np.identity(3))


@pytest.mark.parametrize("rank", SINGULAR)
def test_singular_matrices_have_no_inverse(rank):
    with pytest.raises(ArgumentError, match="inverse is needed is singular"):
        evaluate(td.inv(X), {X: SINGULAR[rank]})


@pytest.mark.parametrize("rank", SINGULAR)
def test_determinants_and_adjugates_exist_at_singular_matrices(rank):
    values = {X: SINGULAR[rank]}
    matrix = sympy.Matrix(SINGULAR[rank])
    assert evaluate(td.det(X), values) == 0
    assert np.array_equal(evaluate(td.adj(X), values), np.array(matrix.adjugate()))
    assert np.array_equal(differentiate(td.det(X), X, values), np.array(matrix.adjugate()).T)
    t, direction = Symbol("t"), sympy.Matrix(3, 3, [3, 1, -2, 0, 5, 7, 2, -1, 1])
    slope = (matrix + t * direction).adjugate().diff(t).subs(t, 0)
    got = np.tensordot(differentiate(td.adj(X), X, values), np.array(direction), 2)
    assert np.array_equal(got, np.array(slope))


def test_cofactors_are_the_derivatives_of_the_determinant():
    values = drawn(X)
    for order in range(1, 5):
        expected = differentiate(td.TensorCofactor(order - 1, X), X, values)
        assert np.array_equal(evaluate(td.TensorCofactor(order, X), values), expected)
    assert evaluate(td.TensorCofactor(0, X), values) == evaluate(td.det(X), values)
    assert derivative(td.det(X), (X, X, X), values).shape == (3,) * 6


def test_the_derivative_of_the_inverse():
    values = drawn(X, seed=3)
    inverse = evaluate(td.inv(X), values)
    assert np.array_equal(differentiate(td.inv(X), X, values), -np.einsum("ik,lj->ijkl", inverse, inverse))


def test_second_derivatives_of_powers_by_base_and_exponent():
    second = hessian(td.sum(x**y), x, {x: [2, 3, 1], y: [3, 2, 1]}, second=y)
    expected = np.diag([4 + 12 * np.log(2), 3 + 6 * np.log(3), 1])
    assert_equal(to_double(second), expected, "x**y", 1e-14)


# ---------------------------------------------------------------- together with index notation


def test_entries_of_whole_tensors():
    values = drawn(A, B)
    product = A @ B
    assert evaluate(product[1, 2], values) == evaluate(product, values)[1, 2]
    total = IndexedSum(product[i, k] * k, (k, 0, 4))
    assert evaluate(total, values, {i: 1}) == sum(evaluate(product, values)[1] * np.arange(5))


def test_comprehensions_are_operands():
    squares = TensorComprehension(x[i] ** 2 - j, (i, 3), (j, 4))
    assert evaluate(einsum("ij->i", squares), {x: [1, 2, 3]}).tolist() == [-2, 10, 30]


def test_operands_that_depend_on_an_index_around_them():
    rows = TensorComprehension(k * x[i], (i, 3))
    at = {x: [1, 2, 3], y: [1, 1, 2]}
    assert evaluate(IndexedSum(einsum("i,i->", rows, y) ** 2, (k, 0, 2)), at) == 81 * (0 + 1 + 4)
    table = TensorComprehension(einsum("i->", rows) + k, (k, 4))
    assert evaluate(table, at).tolist() == [0, 7, 14, 21]


def test_what_a_condition_excludes_is_not_computed():
    inverse = td.inv(X)[0, 0]
    values = {X: SINGULAR[2], alpha: -1, x: [1, 2, 3]}
    assert evaluate(Piecewise((inverse, alpha > 0), (5, True)) * td.sum(x), values) == 30
    assert evaluate(einsum("i,->i", x, Piecewise((inverse, alpha > 0), (2, True))), values).tolist() == [2, 4, 6]
    guarded = sympy.Mul(sympy.KroneckerDelta(i, 1), inverse, evaluate=False)
    assert evaluate(td.sum(x) + einsum("i,->", x, guarded), values, {i: 0}) == 6


def test_deep_and_shared_tensors():
    T = x
    for _ in range(3_000):
        T = (T + T) / 2
    at = {x: [1, 2, 3]}
    assert evaluate(T, at).tolist() == [1, 2, 3]
    assert evaluate(td.sum(T), at) == 6
    assert np.array_equal(differentiate(T, x, at), np.identity(3))


def test_scalars_between_deep_tensors():
    T = x
    for _ in range(1_200):
        T = T * (1 + td.sum(T) / 6) / 2
    assert evaluate(T, {x: [1, 2, 3]}).tolist() == [1, 2, 3]


def test_shapes_are_checked_again():
    wrong = einsum("ij,jk->ik", A, B)
    with pytest.raises(ShapeError, match="the axes j of ij,jk->ik have the lengths 4 and 3"):
        evaluate(wrong._of_shape((wrong.args[0], A, A), wrong.shape), drawn(A))
    with pytest.raises(ShapeError, match="operands of an element-wise operation have the shapes"):
        evaluate((A + X @ A)._of_shape((A, B), A.shape), drawn(A, B))


@pytest.mark.parametrize("power", [Rational(1, 2), 3])
def test_results_are_not_shared_with_inputs(power):
    values = {x: [1, 4, 9]}
    first = evaluate(x**power, values)
    first[0] = 0
    assert evaluate(x**power, values)[0] == 1
