"""Guards: as equations where they are some, without what sums say already, and joined where their bodies are equal."""

import itertools
import random

import numpy as np
import pytest
from every import every
from sympy import And, Eq, Max, Min, Mod, Ne, Piecewise, Symbol, ceiling, floor, log

from sympy_tensordiff import (
    IndexedSum,
    TensorComprehension,
    TensorSymbol,
    gradient,
    indices,
    jacobian,
    lambdify,
    simplify_deltas,
)
from sympy_tensordiff.graph.nodes import Graph
from sympy_tensordiff.integer.affine import Affine, Row
from sympy_tensordiff.integer.implication import remove_redundant
from sympy_tensordiff.reference import evaluate
from sympy_tensordiff.reference.derivatives import derivative
from sympy_tensordiff.simplify.joining import Joining, union
from sympy_tensordiff.testing.exact import assert_equal
from sympy_tensordiff.testing.values import call_arguments, random_values, to_double

i, j, k, N, W = indices("i j k N W")
x, X = TensorSymbol("x", N), TensorSymbol("X", (N, N))
y = TensorSymbol("y", 3)
BOX = range(-4, 5)


def where(value, *conditions):
    return Piecewise((value, And(*conditions)), (0, True))


def random_rows(rng):
    rows = []
    for _ in range(rng.randint(1, 3)):
        form = Affine({v: rng.choice([-2, -1, 0, 1, 1]) for v in "pq"}, rng.randint(-3, 3))
        rows.append(Row(rng.choice(["ge", "ge", "ge", "eq"]), form))
    return tuple(rows)


def test_a_union_has_the_points_of_both_and_no_other():
    found = 0
    box = tuple(Row("ge", sign * Affine.variable(v) + 4) for v in "pq" for sign in (1, -1))
    points = [dict(zip("pq", point, strict=True)) for point in itertools.product(BOX, BOX)]
    for seed in range(150):
        rng = random.Random(seed)
        first, second = random_rows(rng), random_rows(rng)
        if rng.random() < 0.5:  # beside the first, or overlapping it
            second = (*first[1:], Row("ge", -first[0].form - rng.randint(-1, 1)))
        rows = union(first, second, box)
        if rows is None:
            continue
        found += 1
        for point in points:
            either = all(row.holds(point) for row in first) or all(row.holds(point) for row in second)
            assert all(row.holds(point) for row in rows) == either, (first, second, rows, point)
    assert found > 60


SPLIT = IndexedSum(X[i, j] * x[j], (j, 0, i - 1)) + X[i, i] * x[i] + IndexedSum(X[i, j] * x[j], (j, i + 1, N - 1))
BANDS = IndexedSum(where(X[i, j] ** 2, i - j >= 0, i - j <= 2), (i, 0, N - 1), (j, 0, N - 1)) + IndexedSum(
    where(X[i, j] ** 2, j - i >= 1, j - i <= 3), (i, 0, N - 1), (j, 0, N - 1)
)
WRAPPED = IndexedSum((x[i] - Piecewise((x[i + 1], i < N - 1), (x[0], True))) ** 2, (i, 0, N - 1))
ENDS = IndexedSum((x[i + 1] - x[i]) ** 2, (i, 0, N - 2)) + x[0] ** 2 + x[N - 1] ** 2
SQUARES = IndexedSum(x[i] ** 2, (i, 1, N - 2)) + x[0] ** 2 + x[N - 1] ** 2
TWINS = IndexedSum(x[i] * x[k], (k, ceiling(i / 2), floor((i + 1) / 2)), (i, 0, N - 1))
EVEN = IndexedSum(where(x[2 * i], Eq(Mod(2 * i, 2), 0)) + x[2 * i + 2], (i, 0, floor((N - 1) / 2) - 1))
WINDOWS = IndexedSum((x[i] - x[k]) ** 2, (k, i, Min(N - 1, i + W)), (i, 0, N - 1))

CASES = {
    "below, at and above": (IndexedSum(SPLIT**2, (i, 0, N - 1)), X, 1, "p >= q", 0),
    "bands side by side": (BANDS, X, 1, "Piecewise", 1),
    # At N = 1 the two ends of a circle are one.
    "wrapped": (WRAPPED, x, 2, "Piecewise", 0),
    "ends": (ENDS, x, 2, "Piecewise", 0),
    # At N = 1 the ends coincide, and count twice.
    "squares": (SQUARES, x, 2, "Piecewise", 1),
    "single values": (TWINS, x, 2, "Piecewise", 0),
    "exact floors": (EVEN, x, 1, "floor", 0),
    "empty sums": (WINDOWS, x, 2, "IndexedSum", 0),
}


@every("name", [*CASES])
def test_guards_are_joined_and_values_kept(name):
    function, variable, order, text, count = CASES[name]
    result = gradient(function, variable)
    for _ in range(order - 1):
        result = jacobian(result, variable)
    assert str(result).count(text) == count, result
    for size in (1, 2, 4):
        values = random_values((function, variable), {N: size, W: size - 2}, size, low=-2, high=2)
        expected = derivative(function, (variable,) * order, values)
        assert_equal(evaluate(result, values), expected, f"{name}, N = {size}")
        arguments, arrays = call_arguments((function, variable), values)
        assert_equal(lambdify(arguments, result, "numpy")(*arrays), to_double(expected), f"{name}, N = {size}", 1e-12)


def test_joined_texts():
    rows = IndexedSum(X[i, j], (j, 0, i - 1)) + X[i, i] + IndexedSum(X[i, j], (j, i + 1, N - 1))
    assert str(gradient(IndexedSum(rows, (i, 0, N - 1)), X)) == "TensorComprehension(1, (p, N), (q, N))"
    assert "4*KroneckerDelta(p, q)" in str(jacobian(gradient(ENDS, x), x))
    overlap = IndexedSum(where(x[i] * x[j], i <= j), (i, 0, N - 1), (j, 0, N - 1))
    assert str(jacobian(gradient(overlap, x), x)) == "TensorComprehension(KroneckerDelta(p, q) + 1, (p, N), (q, N))"
    kept = IndexedSum(x[j], (j, Max(0, i - 2), i))
    assert "Piecewise" not in str(gradient(IndexedSum(kept**2, (i, 0, N - 1)), x))


def test_a_count_needs_a_length_of_0_only():
    function = IndexedSum(1, (i, 1, N - 1)) * x[0] ** 2 + IndexedSum(x[0], (i, 0, N - 1))
    result = gradient(function, x)
    assert "IndexedSum" not in str(result)
    for size in (1, 3):
        values = random_values((function, x), {N: size}, size)
        assert_equal(evaluate(result, values), derivative(function, (x,), values), f"N = {size}")
    # A range that may lack more than its values has no such length.
    assert "N >= 3" in str(gradient(IndexedSum(x[0], (i, 2, N - 1)), x))


@pytest.mark.parametrize(
    ("where_not_0", "at_0"),
    [(y[3 - i] ** i, 1), (y[3 - i] ** i, y[1] ** i), (y[i] * y[3 - i] ** i, y[i]), (i * log(y[i]) + y[i], y[i])],
)
def test_what_vanishes_where_a_guard_is_widened_is_not_read_there(where_not_0, at_0):
    function = TensorComprehension(Piecewise((where_not_0, Ne(i, 0)), (at_0, True)), (i, 3))
    result = simplify_deltas(function)
    values = lambdify(y, result, backend="numpy")(np.array([0.0, 2.0, 3.0]))
    assert_equal(values, lambdify(y, function, backend="numpy")(np.array([0.0, 2.0, 3.0])), "the widened guard", 1e-12)
    assert np.isfinite(values).all()
    assert "i >= 1" in str(result)


def test_a_term_that_stands_twice_counts_twice():
    graph = Graph()
    p = graph.fresh("p")
    body = graph.scalar(Symbol("a"))
    form = Affine.variable(p)
    rows = [Row("eq", form), Row("eq", form), Row("ge", form - 1), Row("ge", form - 1)]
    terms = [graph.guard([row], body) for row in rows]
    joining = Joining(graph, remove_redundant, lambda rows: {})
    facts = (Row("ge", form), Row("ge", 5 - form))
    while (new := joining.joined(terms, facts)) is not None:
        terms = new
    for value in range(6):
        at = [graph.substitute(term, {p: Affine.of(value)}) for term in terms]
        assert graph.add(at) is graph.scale(2, body), value
