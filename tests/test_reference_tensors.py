"""The oracle on whole tensors, against NumPy, SymPy's matrices and values worked out by hand."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import sympy
from every import every
from fuzz.equality import assert_equal
from sympy import Symbol

import sympy_tensordiff as td
from sympy_tensordiff import DeltaTensor, TensorSymbol, einsum
from sympy_tensordiff.errors import ArgumentError, ShapeError
from sympy_tensordiff.reference import differentiate, evaluate, hessian
from sympy_tensordiff.testing import random_values, to_double

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


# ---------------------------------------------------------------- matrices


def test_inverses_are_exact():
    at = [[0, 2, 1], [1, 1, Fraction(1, 3)], [3, 0, -1]]
    inverse = evaluate(td.inv(X), {X: at})
    assert np.array_equal(np.array(at, dtype=object) @ inverse, np.identity(3))
    scaled = [[Fraction(1, 10**30), 10**20, 0], [1, 1, 10**10], [0, 1, 3]]
    assert np.array_equal(np.array(scaled, dtype=object) @ evaluate(td.inv(X), {X: scaled}), np.identity(3))


@pytest.mark.parametrize("rank", SINGULAR)
def test_singular_matrices_have_no_inverse(rank):
    with pytest.raises(ArgumentError, match="cannot invert a singular matrix"):
        evaluate(td.inv(X), {X: SINGULAR[rank]})


def test_second_derivatives_of_powers_by_base_and_exponent():
    second = hessian(td.sum(x**y), x, {x: [2, 3, 1], y: [3, 2, 1]}, second=y)
    expected = np.diag([4 + 12 * np.log(2), 3 + 6 * np.log(3), 1])
    assert_equal(to_double(second), expected, "x**y", 1e-14)


# ---------------------------------------------------------------- together with index notation


def test_shapes_are_checked_again():
    wrong = einsum("ij,jk->ik", A, B)
    with pytest.raises(ShapeError, match="the axes j of ij,jk->ik have the lengths 4 and 3"):
        evaluate(wrong._of_shape((wrong.args[0], A, A), wrong.shape), drawn(A))
    with pytest.raises(ShapeError, match="operands of an element-wise operation have the shapes"):
        evaluate((A + X @ A)._of_shape((A, B), A.shape), drawn(A, B))
