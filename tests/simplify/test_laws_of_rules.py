"""Parts of rules on their own: lengths of formulas, choices, logarithms of quotients, limits of numbers of terms."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import pytest
import sympy
from every import every

import sympy_tensordiff as td
from sympy_tensordiff.graph.nodes import Graph
from sympy_tensordiff.graph.read import Reader
from sympy_tensordiff.graph.write import write
from sympy_tensordiff.simplify import (
    close_values,
    gamma_differences,
    logistic,
    nearby,
    perfect_squares,
    quotients,
    removable,
    sums_over_equal_ranges,
)
from sympy_tensordiff.simplify.cancellation import _Rewriter

a, b, c, u, v = sympy.symbols("a b c u v")
n = td.indices("n")
A, B, S = (td.TensorSymbol(name, (n, n)) for name in "ABS")
x = td.TensorSymbol("x", n)


def graph_and_nodes(*expressions):
    reader = Reader(Graph())
    reader.use(expressions)
    return reader, [reader.read(expression) for expression in expressions]


@every(
    "formula, number",
    [(2 * a, 2), (a * b, 1), (a, 1), (-a / 3, Fraction(-1, 3)), (a + b, 1), (3 * (A @ B), 3), (A @ B, 1), (-x, -1)],
)
def test_the_number_in_front_of_a_product(formula, number):
    _, (node,) = graph_and_nodes(formula)
    assert quotients._coefficient(node) == number


@every(
    "formula, operators",
    {
        "scalar": (a, 0),
        "product": (a * b * c, 2),
        "sum": (a + b + 1, 2),
        "square": (a**2, 1),
        "reciprocal": (1 / a, 0),
        "multiple": (2 * a, 1),
        "opposite": (-a * b, 1),
        "function": (sympy.exp(a * b), 2),
        "tensor product": (A * B, 1),
        "contraction": (A @ B, 2),
        "contraction of three": (A @ B @ S, 4),
    },
)
def test_the_length_counts_operators(formula, operators):
    """A contraction has one sign more than an element-wise product; divisors add less than a sign."""
    reader, (node,) = graph_and_nodes(formula)
    assert quotients.Quotients(reader.graph).length(node) // quotients.SIGN == operators


def test_a_choice_with_a_number_in_front():
    """The number and the choice that `_select` returns have the given branches as their product."""
    graph = Graph()
    one, other = (graph.scalar(sympy.Symbol(name)) for name in "ab")
    condition = graph.compare("lt", one, other)
    numbers = (1, -1, 2, -2, Fraction(1, 3))
    for left, right in product(numbers, numbers):
        number, choice = sums_over_equal_ranges._select(graph, condition, {0: (left, one), 1: (right, other)})
        assert choice is graph.select(
            condition, graph.scale(Fraction(left) / number, one), graph.scale(Fraction(right) / number, other)
        )
        assert abs(number) == (abs(left) if abs(left) == abs(right) else 1)
    for number, branch in product(numbers, (0, 1)):
        factor, choice = sums_over_equal_ranges._select(graph, condition, {branch: (number, one)})
        sides = [one if side == branch else graph.zero for side in (0, 1)]
        assert choice is graph.select(condition, *sides) and factor == number


@every(
    "argument, is_written",
    [((u + 1) / (u + v), True), ((u + v) / (u + v + 1), True), (u / (u + 1), True), (u / v, False), (u / v**2, False)],
)
def test_logarithms_of_quotients_of_close_values(argument, is_written):
    """Only a divisor that is a sum gives a choice, whose values are those of the logarithm on both sides."""
    reader, (node,) = graph_and_nodes(argument)
    found = nearby.log_of_quotient(reader.graph, node)
    assert (found is not None) == is_written
    if found is not None:
        written = write(reader, found)
        for one, other in [(3.0, 0.75), (0.25, 2.0), (40.0, 1.0), (0.01, 0.01)]:
            at = {u: one, v: other}
            assert float(written.subs(at)) == pytest.approx(math.log(argument.subs(at)), rel=1e-12)


@every("function, inverse", [(sympy.asin, sympy.asin), (sympy.acos, sympy.acos), (sympy.atan, sympy.atan)], ids=str)
def test_angles_with_a_fraction_of_pi(function, inverse):
    """``f(u) + fraction*pi``, where it has another form, is equal to it."""
    graph = Graph()
    node = graph.scalar(u)
    rule, reader = close_values._ANGLES[function], Reader(graph)
    for fraction in (Fraction(1, 2), Fraction(-1, 2), Fraction(-1, 4)):
        found = rule(graph, node, fraction)
        if found is not None:
            written = write(reader, found)
            for value in (0.3, -0.7, 0.999):
                expected = inverse(value) + float(fraction) * math.pi
                assert float(written.subs(u, value)) == pytest.approx(float(expected), rel=1e-9)
    assert rule(graph, node, Fraction(-1, 2)) is not None
    assert (rule(graph, node, Fraction(1, 2)) is None) == (function is sympy.acos)


def test_long_additions_keep_their_sigmoids():
    """``1 - sigmoid(u)`` among as many terms as the limit is ``sigmoid(-u)``; among one more it stays."""
    others = sympy.symbols("p:10")
    for count in range(logistic._MAX_TERMS - 3, logistic._MAX_TERMS + 2):
        formula = sympy.Add(*others[: count - 2]) + 1 - td.sigmoid(u)
        reader, (root,) = graph_and_nodes(formula)
        assert len(root.args) == count
        (found,) = logistic.without_overflow(reader.graph, [root], numbers=False)
        expected = sympy.Add(*others[: count - 2]) + td.sigmoid(-u) if count <= logistic._MAX_TERMS else formula
        assert write(reader, found) == expected


@every(
    "formula, is_possible",
    [
        (a * sympy.log(b), True),
        (a * sympy.sin(sympy.log(b)), True),
        (a * (b + 1), True),
        (a * sympy.sin(b + 1), True),
        (a * sympy.log(b * c), True),
        (a * sympy.sin(b), False),
        (a * (b + c), False),
        (a * b, False),
    ],
)
def test_products_to_which_a_rule_may_apply(formula, is_possible):
    """A function with a rule, or a sum with a number, at any depth; whatever its own arguments are."""
    reader, (node,) = graph_and_nodes(formula)
    assert _Rewriter(reader.graph, {}).may_apply(node) == is_possible


@every("one, other", [(u, v), (2 * u, v), (u, 3 * v), (u, v * c), (u * c, v**2), (-u, v)])
def test_sums_with_a_known_ratio(one, other):
    """``a + b`` with a multiple of ``a/b`` among the ratios is ``b*(1 + a/b)``; it stays with another ratio."""
    reader, (node, ratio, below) = graph_and_nodes(one + other, one / other, other)
    graph = reader.graph
    known = graph.split_coefficient(ratio)[1]
    assert removable._by_ratio(graph, node, {known}) is graph.mul((below, graph.add((graph.one, ratio))))
    (wrong,) = (reader.read(a / b),)
    assert removable._by_ratio(graph, node, {wrong}) is node


@every("one, other", list(product((a, 4 * a, a * b, a / 9), (b, c, b * c / 4, 2 * b))))
def test_a_square_of_roots(one, other):
    """``p + q - 2*sqrt(p*q)`` is a choice between a square and the sum; both have the value of the sum for p, q > 0."""
    reader = Reader(Graph())
    reader.use((one, other, u))
    graph = reader.graph
    p, q, more = map(reader.read, (one, other, u))
    root = graph.pow(graph.mul((p, q)), graph.const(Fraction(1, 2)))
    for terms in ((p, q), (q, p), (p, more, q)):
        for number, is_square in ((-2, True), (2, False), (-3, False), (-1, False)):
            total = graph.add((*terms, graph.scale(number, root)))
            found = perfect_squares.square_of_roots(graph, total)
            assert (found is not None) == is_square
            if found is not None:
                assert any(part.op == "select" for part in (found, *found.args))
                for values in ((2.0, 3.0, 5.0, 7.0), (0.5, 0.25, 4.0, -1.0)):
                    at = dict(zip((a, b, c, u), values, strict=True))
                    before, after = (float(write(reader, node).subs(at)) for node in (total, found))
                    assert after == pytest.approx(before, rel=1e-12, abs=1e-12)


@every("number", [removable._number, gamma_differences._number], ids=["series", "gamma"])
def test_coefficients_are_short_fractions_or_floats(number):
    limit = 10**6
    for value in (Fraction(1, 3), Fraction(-5, 7), Fraction(limit - 1, 2), Fraction(2, limit - 1)):
        assert number(value) == value and isinstance(number(value), Fraction)
    for value in (Fraction(limit + 1, 3), Fraction(3, limit + 1), Fraction(limit, 7), Fraction(7, limit)):
        assert number(value) == pytest.approx(float(value), rel=1e-15) and isinstance(number(value), float)
    assert number(Fraction(4)) == 4 and isinstance(number(Fraction(4)), int)
