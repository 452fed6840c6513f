"""Nothing is read outside of its shape where a cotangent that is made of guards is 0, at any order."""

import numpy as np
import pytest
from sympy import And, Eq, KroneckerDelta, Min, Mod, Ne, Piecewise, cos, exp, floor, log, sin, sqrt

from sympy_tensordiff import (
    IndexedMax,
    IndexedProduct,
    IndexedSum,
    TensorComprehension,
    TensorSymbol,
    gradient,
    indices,
    jacobian,
    lambdify,
    simplify_deltas,
)
from sympy_tensordiff.derivative import elementwise
from sympy_tensordiff.graph.nodes import Graph
from sympy_tensordiff.integer.affine import Affine, Row
from sympy_tensordiff.integer.data import DataEntry
from sympy_tensordiff.integer.extrema import greatest
from sympy_tensordiff.reference import differentiate, evaluate
from sympy_tensordiff.reference.derivatives import derivative
from sympy_tensordiff.simplify.bounds import tighten
from sympy_tensordiff.simplify.clamps import decided_rows
from sympy_tensordiff.simplify.reads import explicit_reads
from sympy_tensordiff.testing.exact import assert_equal
from sympy_tensordiff.testing.values import call_arguments, random_values, to_double

i, j, k, N, M = indices("i j k N M")
x, y, u = TensorSymbol("x", N), TensorSymbol("y", N), TensorSymbol("u", (M, N))

D, w, v = TensorSymbol("D", 8, dtype=int), TensorSymbol("w", 3), TensorSymbol("v", 3)


def where(value, *conditions):
    return Piecewise((value, And(*conditions)), (0, True))


FUNCTIONS = {
    "neighbours": (x, IndexedSum(sin(x[i] * x[i + 1]), (i, 0, N - 2))),
    "padded": (x, IndexedSum(exp((where(x[i - 2], i >= 2) + x[i]) ** 2 + where(x[i + 1], i <= N - 2)), (i, 0, N - 1))),
    "quotient": (
        x,
        IndexedSum(1 / ((where(x[i + 1], i <= N - 2) + where(x[i - 1], i >= 1) * x[i]) ** 2 + 1), (i, 0, N - 1)),
    ),
    "wrapped": (x, IndexedSum(log((x[i] - Piecewise((x[i + 1], i <= N - 2), (x[0], True))) ** 2 + 2), (i, 0, N - 1))),
    "strided": (x, IndexedSum(cos(where(x[2 * i] * x[2 * i + 1], 2 * i <= N - 2)), (i, 0, N - 1))),
    "summed": (x, IndexedSum(sin(x[i - 1] * x[i]) * y[j], (j, 0, i - 1), (i, 0, N - 1))),
    "pairs": (x, IndexedSum(where(1 / ((x[i] - x[j]) ** 2 + 1), i < j, j <= i + 1), (i, 0, N - 1), (j, 0, N - 1))),
    "total variation": (x, IndexedSum(sqrt((x[i + 1] - x[i]) ** 2 + 1), (i, 0, N - 2))),
    "total variation of an image": (
        u,
        IndexedSum(sqrt((u[i + 1, j] - u[i, j]) ** 2 + (u[i, j + 1] - u[i, j]) ** 2 + 1), (i, 0, M - 2), (j, 0, N - 2)),
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_third_derivatives_read_inside(name, monkeypatch):
    variable, function = FUNCTIONS[name]
    results = []

    def twice(graph, nodes, *rest):
        first = tighten(graph, nodes, *rest)
        results.append((first, tighten(graph, first, *rest)))
        return first

    monkeypatch.setattr(elementwise, "tighten", twice)
    third = jacobian(jacobian(gradient(function, variable), variable), variable)
    assert len(results) == 3
    for first, second in results:
        assert first == second  # what is tight stays as it is
    for size in (1, 3) if variable is x else (2,):
        values = random_values((function, variable), {N: size, M: 2}, size, low=-1, high=1)
        expected = derivative(function, (variable,) * 3, values)
        assert_equal(evaluate(third, values), expected, f"{name}, N = {size}")
        arguments, arrays = call_arguments((function, variable), values)
        result = lambdify(arguments, third, "numpy")(*arrays)
        assert_equal(result, to_double(expected), f"{name}, N = {size}, NumPy", 1e-9)


def test_a_factor_is_guarded_beside_an_addition_of_guards():
    graph = Graph()
    p, n = graph.fresh("p"), graph.fresh("N")
    form, extent = Affine.variable(p), Affine.variable(n)
    tensor = graph.tensor("x", (extent,))
    a, b, before = (graph.read(tensor, [form - shift]) for shift in (0, 0, 1))
    facts = (Row("ge", form), Row("ge", extent - 1 - form))
    first, second = (graph.guard([Row("ge", form - low)], graph.call(sin, [a])) for low in (1, 2))
    nested = graph.add([graph.mul([graph.add([first, graph.mul([second, b])]), b]), second])
    for factor in (nested, graph.add([nested, graph.mul([a, b])])):
        nodes = tighten(graph, [graph.mul([factor, before])], facts, frozenset([n]))
        (result,) = explicit_reads(graph, nodes, facts)
        guarded = graph.guard([Row("ge", form - 1)], before)
        assert result == graph.mul([*graph.factors(nodes[0])[:0], factor, guarded])


DATA = TensorSymbol("data", 3, dtype=int)


@pytest.mark.parametrize("factor", [1, y[i]])
def test_conditions_on_data_stay_behind_an_addition_of_guards(factor):
    function = where(factor * x[DATA[-2 * i]], ~(Eq(Mod(M, 2), 0) & Ne(floor((M + 5) / N), 9)))
    function = TensorComprehension(function, (i, N))
    first = jacobian(function, x)
    for sizes, reads in (({N: 4, M: 4}, False), ({N: 1, M: 4}, True), ({N: 1, M: 3}, True)):
        values = random_values((function, x), sizes, 1, given={DATA: np.array([0, 9, 9])})
        expected = differentiate(function, x, values)
        assert expected.any() == reads
        assert_equal(evaluate(first, values), expected, str(sizes))


SHELTERED = (i, N, j + DATA[M - 3]), (j, N, 2 * M - 1)


@pytest.mark.parametrize(
    "function",
    [
        IndexedSum(y[0] ** 2, *SHELTERED),
        IndexedProduct(y[0], *SHELTERED),
        IndexedMax(y[0] * j, *SHELTERED),
        IndexedSum(k * y[0], (k, 0, i), *SHELTERED),
    ],
)
def test_bounds_of_a_loop_hold_no_data_that_are_read_inside_of_it(function):
    told, first = simplify_deltas(function), gradient(function, y)
    for sizes, reads in (({N: 3, M: 1}, False), ({N: 1, M: 3}, True), ({N: 2, M: 5}, True)):
        values = random_values((function,), sizes, 1, given={DATA: np.array([2, 9, 0])})
        assert_equal(evaluate(told, values), evaluate(function, values), str(sizes))
        expected = differentiate(function, y, values)
        assert expected.any() == reads
        assert_equal(evaluate(first, values), expected, str(sizes))


def chosen_by(place, read):
    """Two entries that data choose: the delta becomes ends of the range of j."""
    return KroneckerDelta(floor(j / 2), DATA[place]) * read


@pytest.mark.parametrize(
    "terms",
    [
        IndexedSum(chosen_by(i - 4, x[j] ** 2), (j, 0, i - 4)),
        x[i] * IndexedSum(chosen_by(i - 4, x[j] ** 2), (j, 3 - i, i - 4)),
        IndexedSum(chosen_by(i - 4, x[j + k] ** 2), (j, 0, i - k - 4), (k, 0, 3)),
        IndexedSum(IndexedSum(chosen_by(k - 4, x[j + k] ** 2), (j, 0, k - 4)), (k, 0, Min(i, 6))),
        IndexedSum(IndexedSum(chosen_by(2 * k - i, x[j] ** 2), (j, i, 2 * k)), (k, -2, 1)),
        IndexedSum(IndexedSum(chosen_by(i - 4, x[j] ** 2), (j, k, i - 6 + k)), (k, 1, i)),
        IndexedSum(IndexedSum(chosen_by(i - 4, x[j] ** 2 * y[k]), (j, 0, 3)), (k, 0, i - 4)),
    ],
)
def test_data_in_a_range_are_read_only_where_the_range_as_written_has_values(terms):
    function = TensorComprehension(terms, (i, 7))
    weighted = IndexedSum(function[i] * y[i], (i, 0, 6))
    values = random_values((weighted, x), {N: 9}, 1, given={DATA: np.array([0, 2, 1])})
    assert_equal(evaluate(simplify_deltas(function), values), evaluate(function, values), "value")
    for wrt in (x, y):
        expected = differentiate(weighted, wrt, values)
        assert expected.any()
        assert_equal(evaluate(gradient(weighted, wrt), values), expected, f"by {wrt}")
    arguments, arrays = call_arguments((function, x), values)
    for result in (function, simplify_deltas(function)):
        got = lambdify(arguments, result, "numpy")(*arrays)
        assert_equal(got, to_double(evaluate(function, values)), "NumPy", 1e-9)


def test_an_index_that_becomes_data_leaves_behind_what_it_said_of_others():
    a, z, w = TensorSymbol("a", 5), TensorSymbol("z", (6, 4)), TensorSymbol("w", (6, 4))
    chosen = KroneckerDelta(j, DATA[floor(i / 5)]) * a[3 - i] * z[floor(-j / 2) - 2 * i + 5, j + 1]
    slope = IndexedSum(gradient(IndexedSum(chosen, (i, 0, 2), (j, 0, 2)), z)[i, j] * w[i, j], (i, 0, 5), (j, 0, 3))
    second = gradient(slope, a)
    values = random_values((slope,), {}, 1, given={DATA: np.array([2, -9, 9])})
    expected = differentiate(slope, a, values)
    assert expected.any()
    assert_equal(evaluate(second, values), expected, "by the other factor")


def test_an_entry_of_a_table_that_two_conditions_ask_for_is_read_inside():
    """Contributions under conditions of their own do not ask for all entries that a loop makes."""
    p, c = indices("p c")
    z = TensorSymbol("z", 2 * M + 9)
    square = Piecewise((z[3 * N + 3 * c + j + 5 * p - 12] ** 2, Ne(Mod(N + c - 6 * i, 5), 1)), (0, True))
    table = TensorComprehension(z[N + c + 4 * i - 3] * square, (i, 3), (c, 4))
    first = table[floor((p - 4 * M - 4 * N) / 3) - i + 14, 3 * i + p - 6 * M - 5 * N - j + 38]
    second = table[i + p - 2, floor((i - 2 * p) / 3) - 2 * M + 8]
    asked = Eq(5 * i + 2 * j, 10) | (Eq(j, 1) & Eq(M + i + 2 * p, 9))
    function = TensorComprehension(Piecewise((first * second, asked), (0, True)), (i, N), (j, 2), (p, 2))
    total = IndexedSum(function[i, j, p], (i, 0, N - 1), (j, 0, 1), (p, 0, 1))
    result = gradient(total, z)
    for sizes in ({N: 1, M: 3}, {N: 4, M: 4}):
        values = random_values((total, z), sizes, 1)
        assert_equal(evaluate(result, values), differentiate(total, z, values), f"at {sizes}")


def test_tests_of_data_do_not_decide_which_data_are_read():
    """Together they tell that ``n >= 3``, but each may be the first that is tested."""
    n = Affine.variable("n")
    clamped = DataEntry("idx", (greatest([n - 2, Affine()]),))
    entry = Affine.variable(clamped)
    rows = (Row("ge", entry - 1), Row("ge", n - 2 - entry), Row("ge", 5 - entry))
    assert decided_rows(rows, ()) == rows
    inside = Affine.variable(DataEntry("idx", (n - 2,)))
    plain = Row("ge", n - 2)
    assert decided_rows((*rows, plain), ()) == (*(row.substitute({clamped: inside}) for row in rows), plain)


@pytest.mark.parametrize("read", [D[6 - i - 2 * j], D[D[6 - i - 2 * j]]])
def test_a_test_of_data_that_leaves_a_sum_takes_its_empty_range_along(read):
    count = IndexedSum(KroneckerDelta(1, read), (k, i, 2))
    function = TensorComprehension(count / (w[j] ** 2 + 1), (i, 4), (j, 3))
    values = {D: np.array([1, 0, 2, 1, 0, 1, 3, 1]), w: np.array([2, 3, 5])}
    assert_equal(evaluate(simplify_deltas(function), values), evaluate(function, values), "where the sum is empty")


@pytest.mark.parametrize("protecting", [i >= 2, Eq(D[i], 0)], ids=["index", "data"])
@pytest.mark.parametrize("around", [lambda value: value, exp], ids=["alone", "in a function"])
def test_cases_by_data_are_made_only_where_the_data_are_read(protecting, around):
    """A sum is split by ``k < D[i - 2]`` where the condition beside it holds, and stays whole where it does not."""
    value = around(where(w[k], protecting, Eq(D[i - 2], k)) + 1) * v[k]
    cases = around(Piecewise((w[k], protecting & Eq(D[i - 2], k)), (v[k], True)))
    given = {D: np.array([1, 2, 0, 1, 0, 2, 1, 0])}
    for summand in (value, cases):
        function = TensorComprehension(IndexedSum(summand, (k, 0, 2)), (i, 8))
        total = IndexedSum(function[i] * (i + 1), (i, 0, 7))
        values = random_values((total, w, v), {}, 1, given=given)
        assert_equal(evaluate(simplify_deltas(function), values), evaluate(function, values), "value", 1e-20)
        for wrt in (w, v):
            expected = differentiate(total, wrt, values)
            assert expected.any()
            assert_equal(evaluate(gradient(total, wrt), values), expected, f"by {wrt}", 1e-20)


@pytest.mark.parametrize("around", [log, lambda value: 1 / value], ids=["log", "quotient"])
def test_a_clamp_that_ranges_decide_chooses_once(around):
    """Data at ``Min(i, 2)`` are those at ``i``: what they choose does not come out of a sum again and again."""
    function = TensorComprehension(around(w[i]) * IndexedSum(KroneckerDelta(1, D[Min(i, 2)]) * v[k], (k, 0, i)), (i, 3))
    values = {D: np.array([1, 0, 1, 3, 2, 0, 0, 0]), w: np.array([1, 1, 1]), v: np.array([2, 3, 5])}
    simplified = simplify_deltas(function)
    assert not simplified.has(Min)
    assert_equal(evaluate(simplified, values), evaluate(function, values), "value")
