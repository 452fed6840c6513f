"""Conditions on indices that are not linear as written become constraints, checked by counting points."""

import itertools
import random

import numpy as np
import pytest
import sympy
from counting import conditions_on_loops, masks, visits
from every import every
from exact_checks import assert_derivative_exact, assert_second_exact
from sympy import (
    ITE,
    Abs,
    And,
    Eq,
    Heaviside,
    Implies,
    Integer,
    KroneckerDelta,
    Max,
    Min,
    Mod,
    Ne,
    Not,
    Or,
    Piecewise,
    Rational,
    Xor,
    exp,
    floor,
    sign,
)

import sympy_tensordiff as td
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.errors import IndexExpressionError
from sympy_tensordiff.graph.decision_trees import CASES_LIMIT
from sympy_tensordiff.graph.nodes import Graph
from sympy_tensordiff.graph.read import Reader
from sympy_tensordiff.graph.write import write
from sympy_tensordiff.reference import evaluate
from sympy_tensordiff.symbolic.index_notation.index_conditions import linear_condition

i, j, k, p, q, N, W = td.indices("i j k p q N W")
x, y = td.TensorSymbol("x", N), td.TensorSymbol("y", N)
X, B = td.TensorSymbol("X", (N, N)), td.TensorSymbol("B", (N, N))


def pair_sum(body):
    return td.IndexedSum(body, (i, 0, N - 1), (j, 0, N - 1))


def where(condition, value=None):
    return Piecewise((x[i] * y[j] * B[i, j] if value is None else value, condition), (0, True))


# ---------------------------------------------------------------------------- one relation after the other

SAME = {
    "a band": (Abs(i - j) <= 2, And(i - j <= 2, j - i <= 2)),
    "a strict band with a factor": (2 * Abs(i - j) < 5, And(i - j <= 2, j - i <= 2)),
    "a band of symbolic width": (Abs(i - j) <= W, And(i - j <= W, j - i <= W)),
    "a square": ((i - j) ** 2 <= 8, And(i - j <= 2, j - i <= 2)),
    "a strict square": ((i - j) ** 2 < 9, And(i - j <= 2, j - i <= 2)),
    "a fraction of a square": ((i - j) ** 2 / 2 <= 4, And(i - j <= 2, j - i <= 2)),
    "a square of a fraction": ((i / 2 - j / 2) ** 2 <= 1, And(i - j <= 2, j - i <= 2)),
    "two squares": ((i - j) ** 2 <= N**2, sympy.true),
    "a cube": ((i - j) ** 3 <= 20, i - j <= 2),
    "the larger one": (Max(i, j) < 3, And(i < 3, j < 3)),
    "the smaller one": (Min(i, 2 * j) >= 2, And(i >= 2, j >= 1)),
    "a larger one inside": (Abs(Max(i, j) - 1) <= 1, And(i <= 2, j <= 2)),
    "a product": (Eq((i - j) * (i - j), 0), Eq(i, j)),
    "a negated one": (Not(Or(Abs(i - j) > 2, Max(i, j) >= 3)), And(i - j <= 2, j - i <= 2, i < 3, j < 3)),
    "a sign": (Eq(sign(i - j), 1), i > j),
    "a step": (Heaviside(i - j, 1) > 0, i >= j),
    "a delta": (KroneckerDelta(i, j) > 0, Eq(i, j)),
    "a choice": (Piecewise((i, i < 3), (3, True)) <= j, Or(And(i < 3, i <= j), And(i >= 3, j >= 3))),
    "a remainder": (Mod(i + j, 3) < 1, Eq(Mod(i + j, 3), 0)),
    "the largest remainder": (Mod(i, 3) > 1, Eq(Mod(i, 3), 2)),
    "no remainder": (Eq(Mod(i, 3), 5), sympy.false),
    "a quotient": (Eq(floor(i / 2), j), And(i >= 2 * j, i <= 2 * j + 1)),
    "a chain": (And(i <= j, j <= i + 2), And(j - i >= 0, j - i < 3)),
    "an implication": (And(Implies(i >= j, Abs(i - j) <= 2), i >= j), And(i >= j, i - j <= 2)),
    "a choice of conditions": (ITE(i >= j, Abs(i - j) <= 2, sympy.false), And(i >= j, i - j <= 2)),
    "one of two": (Xor(Abs(i - j) <= 2, i < j - 2), i <= j + 2),
}


@every("condition, rows", SAME.values(), ids=SAME.keys(), turns=8)
def test_other_notations_of_rows_are_rows(condition, rows):
    function, plain = pair_sum(where(condition)), pair_sum(where(rows))
    for size in (1, 2, 5):
        sizes = {N: size, W: 1}
        if function.has(x):
            assert_derivative_exact(function, x, sizes=sizes)
    result = td.gradient(function, x)
    assert not masks(result) and not masks(td.simplify_deltas(function))
    assert not result.has(Abs, sign, Heaviside)
    if not condition.has(Piecewise, Xor):
        assert result == td.gradient(plain, x)


def test_cases_do_not_overlap_at_ties():
    # Every pair of indices counts once: the sum of ones is the number of pairs.
    for condition in (Max(i, j) >= 2, Abs(i - j) >= 1, Min(i, j) <= 1, (i - 1) * (j - 1) >= 0, Ne(Abs(i - 2), 1)):
        function = pair_sum(where(condition, x[i]))
        assert_derivative_exact(function, x, sizes={N: 4})
        assert not masks(td.gradient(function, x))


def random_relation(rng):
    def linear():
        return rng.choice([i, j, k, i - j, 2 * i - k, j - k + 1, Integer(rng.randint(-2, 3)), i / 2, 3 * j - 1])

    def term(depth):
        kind = rng.randint(0, 8)
        if kind < 2 or depth > 1:
            return linear()
        if kind < 5:
            args = [term(depth + 1) for _ in range(2)]
            return {2: Max(*args), 3: Min(*args), 4: Abs(args[0])}[kind]
        if kind == 5:
            return linear() ** rng.choice([2, 3, 4])
        if kind == 6:
            step = Heaviside(linear(), rng.choice([0, 1, Rational(1, 2)]))
            return rng.choice([sign(linear()), step, KroneckerDelta(linear(), linear())])
        return term(depth + 1) + rng.choice([-2, 1, 3]) * term(depth + 1)

    relations = [sympy.Lt, sympy.Le, sympy.Gt, sympy.Ge, Eq, Ne]
    return rng.choice(relations)(term(0), term(0))


@pytest.mark.in_turns(4)
def test_random_relations_mean_the_same():
    def is_linear(expr):
        expr = sympy.expand(expr)
        return expr.is_polynomial(i, j, k) and sympy.Poly(expr, i, j, k).total_degree() < 2

    rng, changed = random.Random(3), 0
    while changed < 12:
        relation = random_relation(rng)
        linear = linear_condition(relation, is_linear)
        if linear == relation:
            continue
        changed += 1
        for point in itertools.product((-2, 0, 3), repeat=3):
            values = dict(zip((i, j, k), map(Integer, point), strict=True))
            assert linear.xreplace(values) == relation.xreplace(values), (relation, linear, values)


# ---------------------------------------------------------------------------- loops

COUNTED = {
    "a band": (Abs(i - j) <= 1, lambda a, b: abs(a - b) <= 1),
    "a square": ((i - j) ** 2 <= 5, lambda a, b: (a - b) ** 2 <= 5),
    "the larger one": (Max(i, j) < 3, lambda a, b: max(a, b) < 3),
    "outside of a square": (Max(i, j) >= 3, lambda a, b: max(a, b) >= 3),
    "outside of a band": (Abs(i - j) >= 2, lambda a, b: abs(a - b) >= 2),
    "remainders": (Ne(Mod(i + j, 3), 0), lambda a, b: (a + b) % 3 != 0),
    "one remainder": (Mod(i, 4) >= 3, lambda a, b: a % 4 >= 3),
    "one of two": (Xor(i < 2, Max(i, j) < 4), lambda a, b: (a < 2) != (max(a, b) < 4)),
    "with a value": (And(Abs(i - j) <= 1, y[j] > 0), lambda a, b: abs(a - b) <= 1),
}


@every("condition, holds", COUNTED.values(), ids=COUNTED.keys(), turns=8)
def test_loops_run_over_the_tuples_that_count(condition, holds):
    function = pair_sum(where(condition, sympy.sin(B[i, j] * x[i])))
    tuples = sum(holds(a, b) for a in range(7) for b in range(7))
    for result in (function, td.gradient(function, x)):
        program = build_program((x, y, B), result, temporaries=False)
        assert visits(program, "B", {N: 7}) == tuples
        assert not any(conditions_on_loops(kernel.body) for kernel in program.kernels)
    assert_derivative_exact(function, x, sizes={N: 4})


def test_the_second_derivative_of_a_band_runs_over_the_band():
    function = pair_sum(where(Abs(i - j) <= 2, (x[i] - x[j]) ** 4))
    assert_second_exact(function, x, sizes={N: 5})
    second = td.hvp(function, x, y)
    assert not masks(second)
    program = build_program((x, y), second, temporaries=False)
    assert not any(conditions_on_loops(kernel.body) for kernel in program.kernels)


# ---------------------------------------------------------------------------- indicators as factors


def test_signs_and_steps_of_indices_are_cases():
    n = td.simplify_deltas(td.IndexedSum(Heaviside(i - 3, 1) * x[i], (i, 0, N - 1)))
    assert n.has(td.IndexedSum) and not n.has(Heaviside)
    for weight in (Heaviside(i - j, 1), Heaviside(i - j), sign(i - j), sign(i - j) ** 2, KroneckerDelta(i, j) ** 3):
        function = pair_sum(weight * x[i] ** 2 * B[i, j])
        assert_derivative_exact(function, x, sizes={N: 4})
        result = td.gradient(function, x)
        assert not masks(result) and not result.has(sign, Heaviside)


def test_deltas_of_what_is_no_index():
    assert sympy.diff(td.IndexedSum(KroneckerDelta(Mod(i, 2), 0) * x[i] ** 2, (i, 0, N - 1)), x[p]) == Piecewise(
        (2 * x[p], Eq(Mod(p, 2), 0)), (0, True)
    )
    for delta in (KroneckerDelta(Max(i, j), 2), KroneckerDelta(Abs(i - j), 1), KroneckerDelta((i - j) ** 2, 4)):
        function = pair_sum(delta * x[i] ** 2 * B[i, j])
        assert_derivative_exact(function, x, sizes={N: 4})
        assert not masks(td.gradient(function, x))
    with pytest.raises(IndexExpressionError, match="not linear in its indices"):
        td.gradient(pair_sum(KroneckerDelta(i * j, 2) * x[i]), x)


# ---------------------------------------------------------------------------- inside of functions


def test_cases_inside_of_functions_are_ranges():
    function = td.IndexedSum(exp(x[i] + Piecewise((x[i + 1], i <= N - 2), (0, True))), (i, 0, N - 1))
    assert td.simplify_deltas(function) == exp(x[N - 1]) + td.IndexedSum(exp(x[i] + x[i + 1]), (i, 0, N - 2))
    for condition in (i <= j, Eq(Mod(i + j, 3), 0), Abs(i - j) <= 1):
        function = pair_sum(exp(Piecewise((x[i] * B[i, j], condition), (x[j], True))))
        assert not masks(td.simplify_deltas(function))
        program = build_program((x, B), function, temporaries=False)
        assert visits(program, "B", {N: 6}) == sum(
            bool(condition.subs({i: a, j: b})) for a in range(6) for b in range(6)
        )
        assert_derivative_exact(function, x, sizes={N: 3})


def test_many_cases_inside_of_a_function_stay():
    shifts = (-2, -1, 1, 2)
    inside = sum(Piecewise((x[i + n], (i + n >= 0) & (i + n <= N - 1)), (0, True)) for n in shifts)
    function = td.IndexedSum(exp(inside), (i, 0, N - 1))
    assert len(td.simplify_deltas(function).atoms(td.IndexedSum)) == 1
    assert_derivative_exact(function, x, sizes={N: 4})


@pytest.mark.in_turns(6)
def test_conditions_of_many_cases_stay():
    odd = Xor(*(Abs(i - 4 * n) <= 1 for n in range(CASES_LIMIT + 2)))
    function = td.IndexedSum(Piecewise((x[i] ** 2, odd), (0, True)), (i, 0, N - 1))
    assert td.gradient(function, x).has(Abs)
    assert_derivative_exact(function, x, sizes={N: 9})


@pytest.mark.in_turns(6)
def test_conditions_of_few_cases_next_to_many_become_ranges():
    odd = Xor(*(Abs(i - 4 * n) <= 1 for n in range(CASES_LIMIT + 3)))
    function = pair_sum(Piecewise((x[i] ** 2 * y[j], odd & (Abs(i - j) <= 1)), (0, True)))
    by_y = td.gradient(function, y)
    assert {len(distance.free_symbols) for distance in by_y.atoms(Abs)} == {1}
    assert_derivative_exact(function, y, sizes={N: 9})


NEAR = (i + 48) * (j + 1)


@pytest.mark.usefixtures("uncompiled")
@every("condition", [Eq(NEAR / 49, q), Eq(NEAR, q / 49), q <= NEAR / 49, q / 49 < NEAR], ids=str, turns=8)
@every("backend", ["numpy", "numba"])
def test_masks_of_indices_compare_integers(backend, condition):
    # In double precision, 49*(1/49) is less than 1.
    z = td.TensorSymbol("z", 50)
    total = td.IndexedSum(Piecewise((z[q], condition), (0, True)), (q, 0, 49))
    kernel = td.lambdify(z, td.TensorComprehension(total, (i, 2), (j, 2)), backend)
    places = itertools.product(range(2), range(2))
    expected = [sum(c + 1 for c in range(50) if condition.subs({i: a, j: b, q: c})) for a, b in places]
    np.testing.assert_array_equal(kernel(np.arange(1.0, 51)).ravel(), expected)


@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_products_of_indices_are_compared_as_integers_in_single_precision(backend):
    # Of the integers above 2**24 single precision has the even ones only.
    z, least = td.TensorSymbol("z", 2), 5000 * 5001 + 1
    function = td.TensorComprehension(Piecewise((z[0], (i + 5000) * (j + 5001) >= least), (z[1], True)), (i, 4), (j, 4))
    found = td.lambdify(z, function, backend)(np.array([1, 2], np.float32))
    np.testing.assert_array_equal(found, [[2, 1, 1, 1], [1] * 4, [1] * 4, [1] * 4])


@pytest.mark.in_turns(4)
def test_no_case_of_a_maximum_is_evaluated_in_a_remainder():
    # SymPy 1.14 takes Mod(n + Max(0, 2*i), 6) for Mod(n, 6).
    bounded = Max(0, Min(2 * i, N - 1))
    for condition in (Ne(Mod(bounded, 6), 0), Mod(bounded + N, 6) < 3, floor((bounded + N) / 6) > 1):
        function = td.TensorComprehension(where(condition, i + 1), (i, 5))
        for size in range(1, 11):
            found = evaluate(td.simplify_deltas(function), {N: size})
            assert (found == evaluate(function, {N: size})).all()


# ---------------------------------------------------------------- conditions on values


def test_a_condition_on_a_sum_is_not_expanded():
    """It is not a condition on indices, and SymPy would rewrite the conditions in it."""

    class Opaque(sympy.Function):
        def _eval_expand_mul(self, **hints):
            raise AssertionError("expanded")

    x, n = td.TensorSymbol("x", 4), td.indices("n")
    chosen = Piecewise((x[0], td.IndexedSum(Opaque(x[n]), (n, 0, 3)) > 0), (0, True))
    compiled = td.lambdify([x], chosen, "numpy", functions={"Opaque": np.abs})
    assert compiled(np.array([3.0, 0, 0, 0])) == 3


def test_comparisons_of_numbers_are_decided_in_what_is_written():
    """A comparison of a choice is written as a choice of comparisons, of which some compare numbers."""
    graph = Graph()
    reader = Reader(graph)
    a, b = (reader.read(td.TensorSymbol(name, ())) for name in "ab")
    choice = graph.select(graph.compare("lt", graph.zero, a), b, graph.zero)
    node = graph.select(graph.compare("lt", graph.zero, choice), b, graph.zero)
    assert "0 > 0" not in str(write(reader, node))
