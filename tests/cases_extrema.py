"""Greatest and least values over ranges: those of the peers' tests, and operands in and around them."""

from __future__ import annotations

from functools import partial

from cases import Case, case
from sympy import Abs, Max, Min, Piecewise, exp, log, sqrt

from sympy_tensordiff.symbolic.index_notation.indices import indices
from sympy_tensordiff.symbolic.index_notation.sums import IndexedMax, IndexedMin
from sympy_tensordiff.symbolic.index_notation.sums import IndexedSum as Sum
from sympy_tensordiff.symbolic.index_notation.tensors import TensorComprehension as Tensor
from sympy_tensordiff.symbolic.index_notation.tensors import TensorSymbol

i, j, k, l, n, m = indices("i j k l n m")
SIZES = {n: 3, m: 4}
A, B, C = TensorSymbol("A", (n, m)), TensorSymbol("B", (m, n)), TensorSymbol("C", (n, n))
x, y = TensorSymbol("x", n), TensorSymbol("y", m)
TIES = {
    A: [[0, 1, 2, 2], [1, 1, 0, 1], [2, -1, 2, 0]],
    B: [[1, 0, 2], [2, 2, 1], [0, 1, 1], [1, 2, 0]],
    C: [[1, 2, 2], [0, 0, 0], [-1, 1, 1]],
    x: [1, 2, 2],
    y: [2, 0, 2, 1],
}
"""Many entries are equal."""


@case("L18")
def _l18() -> Case:
    v = TensorSymbol("x", 4)
    values = {v: [2, 2, 3, 3]}
    return Case(IndexedMax(v[i], (i, 0, 3)), (v,), values=values, value=3, gradient={v: [0, 0, 0.5, 0.5]})


@case("L18_min")
def _l18_min() -> Case:
    v = TensorSymbol("x", 4)
    values = {v: [2, 2, 3, 3]}
    return Case(IndexedMin(v[i], (i, 0, 3)), (v,), values=values, value=2, gradient={v: [0.5, 0.5, 0, 0]})


@case("L19")
def _l19() -> Case:
    matrix, vector = TensorSymbol("x", (3, 3)), TensorSymbol("y", 3)
    body = matrix[i, j] ** 2 / sqrt(vector[i]) + exp(vector[j])
    return Case(Tensor(IndexedMax(body, (j, 0, 2)), (i, 3)), (matrix, vector), low=0.5)


@case("V17")
def _v17() -> Case:
    square = TensorSymbol("A", (3, 3))
    return Case(Tensor(IndexedMax(square[i, k] * square[k, j] + 5, (k, 0, 2)), (i, 3), (j, 3)), (square,))


@case("V28")
def _v28() -> Case:
    image = TensorSymbol("X", (1, 2, 4, 4))
    body = IndexedMax(image[n, m, i + 2 * k, j + 2 * l], (k, 0, 1), (l, 0, 1))
    return Case(Tensor(body, (n, 1), (m, 2), (i, 2), (j, 2)), (image,))


def _pooling(width: int, dilation: int) -> Case:
    """The greatest value of a window, 2 of them along each axis."""
    size = dilation * (width - 1) + 2
    image = TensorSymbol("X", (size, size))
    body = IndexedMax(image[i + dilation * k, j + dilation * l], (k, 0, width - 1), (l, 0, width - 1))
    values = {image: [[(5 * r + 3 * c * c) % 4 for c in range(size)] for r in range(size)]}
    return Case(Tensor(body, (i, 2), (j, 2)), (image,), values=values)


# Widths and dilations from 1 to 3.
for number in range(9):
    case(f"V{63 + number}")(partial(_pooling, number // 3 + 1, number % 3 + 1))


@case("multi_dot")
def _multi_dot() -> Case:
    left, right = TensorSymbol("A", (3, 3)), TensorSymbol("B", (3, 2))
    once = Tensor(Sum(left[i, k] * right[k, j], (k, 0, 2)), (i, 3), (j, 2))
    twice = Tensor(Sum(left[i, k] * once[k, j], (k, 0, 2)), (i, 3), (j, 2))
    return Case(Tensor(IndexedMax(twice[i, j], (i, 0, 2)), (j, 2)), (left, right))


FUNCTIONS = {
    "of_everything": IndexedMax(A[i, j], (j, 0, m - 1), (i, 0, n - 1)),
    "of_rows_of_all": IndexedMax(IndexedMin(A[i, j] * x[i], (j, 0, m - 1)), (i, 0, n - 1)),
    "in_a_sum": Sum(x[i] * IndexedMax(A[i, j] - y[j], (j, 0, m - 1)), (i, 0, n - 1)),
    "of_sums": Tensor(IndexedMax(Sum(A[i, l] * B[l, k], (l, 0, m - 1)), (k, 0, n - 1)), (i, n)),
    "of_a_sum_squared": IndexedMax(Sum(A[i, l] * y[l], (l, i, m - 1)), (i, 0, n - 1)) ** 2,
    "up_to": Tensor(IndexedMax(x[j] * x[i], (j, 0, i)), (i, n)),
    "in_a_window": Tensor(IndexedMin(A[i, j] + x[i], (j, Max(0, k - 1), Min(m - 1, k + 1))), (i, n), (k, m)),
    "of_values_chosen": IndexedMax(Piecewise((y[j] ** 2, y[j] > 1), (x[0] * y[j], True)), (j, 0, m - 1)),
    "of_products": IndexedMax(x[i] * y[j], (i, 0, n - 1), (j, 0, m - 1)),
    "of_a_diagonal": IndexedMax(C[i, i] + C[0, i], (i, 0, n - 1)) * C[1, 1],
    "of_equal_entries": IndexedMax(C[i, j] - C[j, i], (j, 0, i), (i, 0, n - 1)),
    "of_multiples_of_indices": IndexedMin(i * x[i] + j * y[j], (j, i, m - 1), (i, 0, n - 1)),
    "of_a_constant": Tensor(IndexedMax(x[i] ** 2 + 1, (j, i, m - 1)), (i, n)),
    "of_numbers": IndexedMax(Max(y[j], 1) * A[0, j], (j, 0, m - 1)),
    "inside": IndexedMax(Abs(y[j] - IndexedMin(y[k], (k, 0, j))), (j, 0, m - 1)),
    "in_a_function": Sum(exp(IndexedMax(A[i, j] * y[j], (j, 0, m - 1)) / 4), (i, 0, n - 1)),
    "of_a_row": Tensor(IndexedMax(Tensor(A[i, j] * y[j], (j, m))[k], (k, 0, m - 1)), (i, n)),
    "soft": log(Sum(exp(A[i, 0] - IndexedMax(x[j], (j, 0, n - 1))), (i, 0, n - 1))),
    "of_strides": Tensor(IndexedMax(y[2 * k + i] ** 2, (k, 0, 1)), (i, 2)),
}
VARIABLES = (A, B, C, x, y)


def _greatest(name: str) -> Case:
    function = FUNCTIONS[name]
    variables = tuple(v for v in VARIABLES if function.has(v))
    return Case(function, variables, SIZES, values={v: TIES[v] for v in variables})


for name in FUNCTIONS:
    case(f"range_greatest_{name}")(partial(_greatest, name))


def _soft() -> Case:
    """The logarithms of sums of exponentials and the averages that they weigh, where exponentials overflow."""
    square, weight = TensorSymbol("S", (3, 3)), TensorSymbol("w", 3)
    total = Sum(exp(square[i, j]), (j, 0, 2))
    function = Tensor(log(total) + Sum(exp(square[i, j]) * weight[j], (j, 0, i)) / total, (i, 3))
    values = {square: [[1000, 999, -1000], [-1000, -1001, -1002], [5, 0, 1000]]}
    return Case(function, (square, weight), values=values)


case("range_soft")(_soft)
