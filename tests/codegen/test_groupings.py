"""Sums that differ in parentheses are one value in a kernel: functions of them are computed once."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import sympy

import sympy_tensordiff as td
from sympy_tensordiff.codegen.lower.groupings import with_common_groupings
from sympy_tensordiff.graph.nodes import Graph
from sympy_tensordiff.graph.read import Reader

n = td.indices("n")
i = td.indices("i")
x, y, z, v = (td.TensorSymbol(name, n) for name in "xyzv")


def grouped(*expressions):
    """The expressions with common groupings, and how many different additions they have."""
    graph = Graph()
    reader = Reader(graph)
    return graph, with_common_groupings(graph, [reader.read(expression) for expression in expressions])


@pytest.mark.parametrize(
    ("nested", "flat", "ratio"),
    [
        (y - (x - z), y + z - x, 1),
        (y - (x - z), 3 * x - 3 * y - 3 * z, -3),
        (2 * (x - y) - 4 * (z - v), x - y - 2 * z + 2 * v, Fraction(1, 2)),
        (x - (y - (z - v)), x - y + z - v, 1),
        (x - y, 3 * y - 3 * x, -3),  # no parentheses: the first
        (td.exp(y - (x - z)) - (x - v), td.exp(y + z - x) - x + v, 1),
        ((x - y) * z + v * (x - z) / 2, (y - x) * z + v * (z - x) / 2, -1),  # products with opposite sums
    ],
)
def test_multiples_of_one_sum_are_one_node(nested, flat, ratio):
    graph, (one, other) = grouped(nested, flat)
    assert other is graph.scale(ratio, one)
    graph, (other, one) = grouped(flat, nested)  # in either order
    assert graph.scale(ratio, one) is other or graph.scale(1 / Fraction(ratio), other) is one


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (y - (x - z), y + z + x),
        (y - (x - y), 2 * y - x),  # terms are collected: another value in floating point numbers
        (y - (x - z), y - x),
    ],
)
def test_other_sums_stay(one, other):
    graph = Graph()
    reader = Reader(graph)
    nodes = [reader.read(one), reader.read(other)]
    assert with_common_groupings(graph, nodes) == nodes


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
def test_a_function_and_its_derivative_share_an_exponential(backend):
    f = td.sum(td.exp(y - (x * v - z)) ** 2)
    function = td.lambdify((x, v, y, z), (f, *td.gradient(f, (x, v))), backend, parallel=False)
    assert function.source.partition("def fill_")[2].count("exp(") == 1
    a, b, c, d = np.random.default_rng(0).normal(size=(4, 5))
    value, by_x, by_v = function(a, b, c, d)
    squares = np.exp(c - (a * b - d)) ** 2
    np.testing.assert_allclose(value, squares.sum(), rtol=1e-13)
    np.testing.assert_allclose(by_x, -2 * b * squares, rtol=1e-13)
    np.testing.assert_allclose(by_v, -2 * a * squares, rtol=1e-13)


def test_differences_of_neighbours_stay_exact():
    """The derivative has the parentheses of the function, and with them its digits: (u + 1) - u is exactly 1."""
    u, w = td.TensorSymbol("u", n), td.TensorSymbol("w", n)
    f = td.sum(((x - u) - (y - w)) ** 2) / 2
    function = td.lambdify((x, u, y, w), (f, td.gradient(f, x)), "llvm", parallel=False)
    large = np.array([1e16, 3e15])
    value, gradient = function(large + 2, large, large + 2, large)
    assert value == 0
    np.testing.assert_array_equal(gradient, 0)


def test_a_sum_that_becomes_a_transpose_keeps_its_shape():
    """Operands of a product are ordered by age: after flattening, products with ``C`` are those of ``C`` first."""
    graph = Graph()
    reader = Reader(graph)
    m = td.indices("m")
    one, other, third = (reader.read(td.TensorSymbol(name, (n, m))) for name in "ABD")
    nested = graph.add((one, graph.neg(graph.add((other, graph.neg(third))))))
    nested_sine = graph.call(sympy.sin, (nested,))
    C, E = (reader.read(td.TensorSymbol(name, (m, n))) for name in "CE")
    products = [graph.ein(1, [(x, (0, 1)), (y, (1, 0))], (0, 1)) for x, y in ((nested, C), (nested_sine, E))]
    total = graph.call(sympy.exp, (graph.add(products),))
    (found,) = with_common_groupings(graph, [graph.select(graph.compare("lt", graph.zero, one), total, graph.zero)])
    assert found.shape == one.shape
