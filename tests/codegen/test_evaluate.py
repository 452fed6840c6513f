"""`evaluate`: values without compiling."""

import numpy as np
import pytest

import sympy_tensordiff as td
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError

n, m, i, k = td.indices("n m i k")
A, x = td.TensorSymbol("A", (n, m)), td.TensorSymbol("x", m)
MATRIX, VECTOR = np.arange(6.0).reshape(2, 3), np.array([1.0, 2.0, 4.0])


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ({A: MATRIX}, ArgumentError, "x occurs in the expression, but not in values: add it to values"),
        ({A: MATRIX, x: VECTOR[:2]}, ArgumentError, "argument x has length 2 on axis 0, expected 3"),
        ([MATRIX], ArgumentTypeError, r"the values of td.evaluate are a mapping such as \{x: array\}, not \["),
    ],
)
def test_values_that_do_not_fit(values, error, message):
    with pytest.raises(error, match=message):
        td.evaluate(A @ x, values)


def test_a_size_that_no_shape_determines():
    ones = td.ones(n) * td.sum(x)
    with pytest.raises(ArgumentError, match="n is determined by no array's shape; add it to values"):
        td.evaluate(ones, {x: VECTOR})
    assert td.evaluate(ones, {x: VECTOR, n: 2}).tolist() == [7, 7]
