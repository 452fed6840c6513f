"""Derivatives of gathers by data against the exact interpreter, first and second, and what they look like."""

import numpy as np
import pytest
import sympy
from every import every
from sympy import Eq, KroneckerDelta, Max, Min, Mod, Ne, Piecewise, floor

import sympy_tensordiff as td
from sympy_tensordiff.errors import ArgumentError
from sympy_tensordiff.reference import evaluate
from sympy_tensordiff.reference.derivatives import derivative
from sympy_tensordiff.testing import random_values
from sympy_tensordiff.testing.exact import assert_equal
from sympy_tensordiff.testing.integer_data import data_ranges
from sympy_tensordiff.testing.values import to_double

d, e, i, j, k, m, n, p, t = td.indices("d e i j k m n p t")
x, y, v = td.TensorSymbol("x", 7), td.TensorSymbol("y", 7), td.TensorSymbol("v", 5)
X = td.TensorSymbol("X", (4, 3))
z, flat = td.TensorSymbol("z", n), td.TensorSymbol("flat", n * m)
idx, jdx, label = (td.TensorSymbol(name, 4, dtype=int) for name in ("idx", "jdx", "label"))
pairs = td.TensorSymbol("pairs", (4, 2), dtype=int)
row, col = td.TensorSymbol("row", 5, dtype=int), td.TensorSymbol("col", 5, dtype=int)
corners = td.TensorSymbol("corners", (3, 2), dtype=int)
start = td.TensorSymbol("start", 5, dtype=int)
place = td.TensorSymbol("place", (), dtype=int)

total, table, delta = td.IndexedSum, td.TensorComprehension, KroneckerDelta
squares = table(x[i] ** 2, (i, 7))
sparse = table(total(v[e] * x[col[e]] * delta(i, row[e]), (e, 0, 4)), (i, 4))

CASES = {
    "a sum of squares": total(x[idx[i]] ** 2, (i, 0, 3)),
    "take": table(x[idx[i]], (i, 4)),
    "two axes": table(X[i, pairs[i, k]] ** 2, (i, 4), (k, 2)),
    "an offset": total(x[2 * idx[i] + k] ** 2 * y[k], (k, 0, 2), (i, 0, 3)),
    "a stride": total(x[2 * k + idx[i]] ** 2 * y[i], (k, 0, 1), (i, 0, 3)),
    "by data of data": total(x[idx[jdx[i]]] ** 3, (i, 0, 3)),
    "beside the index": total(x[i + idx[i]] ** 2, (i, 0, 3)),
    "as a number": total(x[idx[i]] * idx[i] ** 2, (i, 0, 3)),
    "rounded": total(x[floor(col[e] / 2)] ** 2 * v[e], (e, 0, 4)),
    "a remainder": total(Piecewise((x[k] ** 2 * v[e], Eq(Mod(2 * k + col[e], 3), 0)), (0, True)), (k, 0, 3), (e, 0, 4)),
    "a case": table(Piecewise((x[idx[i]] ** 2, Eq(idx[i], 1)), (x[i], True)), (i, 4)),
    "a range": total(Piecewise((x[k] ** 2 * x[idx[i]], idx[i] < k), (0, True)), (k, 0, 3), (i, 0, 3)),
    "a sparse product": sparse,
    "its square": total(sparse[i] ** 2, (i, 0, 3)),
    "rows of a sparse matrix": table(total(v[e] * x[col[e]], (e, start[i], start[i + 1] - 1)), (i, 4)),
    "a histogram": table(total(delta(p, label[i]) * x[i] ** 2, (i, 0, 3)), (p, 3)),
    "a mesh": total((X[corners[t, 0], d] - X[corners[t, 1], d]) ** 2, (d, 0, 2), (t, 0, 2)),
    "an embedding": total(X[jdx[i], d] ** 2 * x[d], (d, 0, 2), (i, 0, 3)),
    "two tables of indices": total(x[idx[i]] * x[jdx[i]], (i, 0, 3)),
    "the same twice": total(x[idx[i]] * x[idx[j]] * y[i], (i, 0, 3), (j, 0, 3)),
    "in a function": sympy.log(total(sympy.exp(x[idx[i]] / 8) + y[i] ** 2, (i, 0, 3))),
    "of a table": table(squares[idx[i]] ** 2, (i, 4)),
    "two data": total(delta(idx[i], jdx[j]) * x[i] ** 2 * y[j], (i, 0, 3), (j, 0, 3)),
    "a symbolic stride": total(flat[m * idx[i]] ** 2, (i, 0, 3)),
    "of a flat matrix": total(flat[m * idx[i] + k] ** 2 * x[k], (k, 0, m - 1), (i, 0, 3)),
    "at a clamp": total(x[sympy.Min(idx[i] + k, 6)] ** 2 * y[k], (k, 0, 2), (i, 0, 3)),
    "a table behind a delta": table(squares[idx[i]] * y[i + idx[i]] ** 2, (i, 4)),
    "data that others protect": total(y[j + 2 * idx[i]] ** 2 * x[idx[pairs[i, j]]], (j, 0, 1), (i, 0, 3)),
    "in a product": td.IndexedProduct(x[idx[k]] + y[k], (k, 0, 2)),
    "one entry": x[idx[0]] ** 2 * y[place],
    "of a symbolic size": total(z[idx[i]] ** 2, (i, 0, 3)),
}
STARTS = {start: [0, 2, 2, 3, 5]}


def jacobian(expr, wrt):
    return td.jacobian(expr, wrt) if getattr(expr, "shape", ()) else td.gradient(expr, wrt)


@every("name", [*CASES])
def test_first_and_second_derivatives(name):
    f = CASES[name]
    values = {**random_values((f, flat), {n: 5, m: 2}, 1), **STARTS}
    variables = [s for s in (x, y, v, X, z, flat) if s in f.free_symbols]
    for first in variables:
        slope = jacobian(f, first)
        assert_equal(evaluate(slope, values), derivative(f, (first,), values), f"{name} by {first}")
        for second in variables:
            got = evaluate(td.jacobian(slope, second), values)
            assert_equal(got, derivative(f, (first, second), values), f"{name} by {first} and {second}")


SHOWN = {
    "a sum of squares": (x, "TensorComprehension(2*x[p]*IndexedSum(KroneckerDelta(p, idx[i]), (i, 0, 3)), (p, 7))"),
    "two axes": (
        X,
        "TensorComprehension(2*KroneckerDelta(i, p)*KroneckerDelta(q, pairs[i, k])*X[i, q], "
        "(i, 4), (k, 2), (p, 4), (q, 3))",
    ),
    "an offset": (
        x,
        "TensorComprehension(2*x[p]*IndexedSum(Piecewise((y[p - 2*idx[i]], (p >= 2*idx[i]) & (p <= 2*idx[i] + 2)), "
        "(0, True)), (i, 0, 3)), (p, 7))",
    ),
    "a sparse product": (v, "TensorComprehension(KroneckerDelta(i, row[p])*x[col[p]], (i, 4), (p, 5))"),
    "rows of a sparse matrix": (
        v,
        "TensorComprehension(Piecewise((x[col[p]], (p >= start[i]) & (p <= start[i + 1] - 1)), (0, True)), "
        "(i, 4), (p, 5))",
    ),
}


@every("name", [*SHOWN])
def test_what_can_be_solved_is_solved(name):
    wrt, text = SHOWN[name]
    assert str(jacobian(CASES[name], wrt)) == text


def test_a_hessian_of_entries_is_diagonal():
    text = str(td.hessian(CASES["a sum of squares"], x))
    assert "(2*KroneckerDelta(p, q)*IndexedSum(KroneckerDelta(p, idx[i]), (i, 0, 3)), (p, 7), (q, 7))" in text
    twice = td.hessian(total(x[2 * idx[i]] ** 2, (i, 0, 3)), x)
    assert "KroneckerDelta(p, q)*IndexedSum(KroneckerDelta(p, 2*idx[i])" in str(twice)


def test_a_tangent_is_gathered():
    assert str(td.jvp(CASES["take"], x, y)) == "TensorComprehension(y[idx[i]], (i, 4))"


def test_a_sum_loses_a_delta_of_data():
    f = total(total(y[k] * delta(k, idx[i]), (k, 0, 6)) ** 2, (i, 0, 3))
    assert str(td.simplify_deltas(total(y[k] * delta(k, idx[0]), (k, 0, 6)))) == (
        "Piecewise((y[idx[0]], (idx[0] >= 0) & (idx[0] <= 6)), (0, True))"
    )
    values = {y: [1, 2, 3, 4, 5, 6, 7], idx: [0, -1, 6, 7]}
    assert evaluate(td.simplify_deltas(f), values) == evaluate(f, values) == 1 + 49
    assert_equal(evaluate(td.gradient(f, y), values), derivative(f, (y,), values), "behind a delta")


def test_data_are_read_where_other_conditions_hold():
    # p runs over more than idx has, and data of one condition may be read by what another one says.
    f = total(x[idx[jdx[i]]] * x[jdx[i]], (i, 0, 3))
    values = {x: list(range(1, 8)), idx: [1, 0, 6, 2], jdx: [3, 3, 0, 1]}
    assert_equal(evaluate(td.hessian(f, x), values), derivative(f, (x, x), values), "data of data")
    g = table(total(delta(p, label[i]) * x[i] ** 2, (i, 0, 3)), (p, 3))
    assert "Piecewise((2*KroneckerDelta(p, label[q])*x[q], q <= 3), (0, True))" in str(td.jacobian(g, x))


RANGES = {
    "an index": (x[idx[i]], {"idx": (0, 6)}),
    "with an offset": (total(x[2 * idx[i] - k], (k, -1, 1), (i, 0, 3)), {"idx": (1, 2)}),
    "negative": (total(x[3 - idx[i]], (i, 0, 3)), {"idx": (-3, 3)}),
    "rounded": (total(x[floor(idx[i] / 2)], (i, 0, 3)), {"idx": (0, 13)}),
    "a share each": (total(x[idx[i] + jdx[i]], (i, 0, 3)), {"idx": (0, 3), "jdx": (0, 3)}),
    "of data": (total(x[idx[jdx[i]]], (i, 0, 3)), {"idx": (0, 6), "jdx": (0, 3)}),
    "of a size": (total(z[idx[i]], (i, 0, 3)), {"idx": (0, 4)}),
    "compared": (table(total(delta(p, label[i]), (i, 0, 3)), (p, 3)), {"label": (-1, 3)}),
    "bounds": (total(v[e], (e, start[0], start[1] - 1)), {"start": (1, 4)}),
    "a number": (total(idx[i] * x[i], (i, 0, 3)), {"idx": (-2, 3)}),
}


@pytest.mark.parametrize("name", RANGES)
def test_ranges_of_random_data(name):
    expr, ranges = RANGES[name]
    assert data_ranges([expr], {n: 5, i: 2}) == ranges
    values = random_values(expr, {n: 5, i: 2}, 3)
    evaluate(expr, values)
    for name_, (low, high) in ranges.items():
        (data,) = (np.asarray(array) for tensor, array in values.items() if str(tensor) == name_)
        assert low <= data.min()
        assert data.max() <= high


def test_no_value_is_inside():
    with pytest.raises(ArgumentError, match="no value of idx keeps all reads inside"):
        random_values(total(x[idx[i]] + x[idx[i] + 8], (i, 0, 3)))


def test_a_range_protects_data_in_a_delta_beside_it():
    # Of two sums over k that share no index, the data of one are inside only where the other is not empty.
    wide = td.TensorSymbol("wide", (5, 6), dtype=int)
    first = 3 * n + 6 * j - 3 * m
    read = x[wide[sympy.Max(0, sympy.Min(m - 1, 2 * n + k + 2)), 8 - 2 * m]]
    f = total(y[j] * total(read, (k, first, first + 2)) ** 2, (j, 0, m - 1))
    values = {x: list(range(1, 8)), y: [2, 3, 5, 7, 1, 1, 1], wide: np.arange(30).reshape(5, 6) % 7, n: 1, m: 3}
    assert_equal(evaluate(td.hessian(f, x), values), derivative(f, (x, x), values), "beside a range")


def test_a_condition_on_data_outside_of_their_tensor_is_never_tested():
    # Where idx[1] is 0 the function reads outside, so that it is not: at i == 1 nothing is left.
    chosen = delta(0, idx[i]) * delta(p, idx[i - 2]) * x[i]
    table = td.TensorComprehension(total(chosen * delta(2 * i, j), (i, 0, 3), (j, 1, 3)), (p, 3))
    assert td.simplify_deltas(table) == td.TensorComprehension(sympy.S.Zero, (p, 3))


def test_factors_of_choices_protect_data_beside_them():
    # By z and by s at once, the cotangent of the slope by x is a sum of choices in which one sum has a factor more.
    s, one = sympy.Symbol("s", real=True), td.TensorSymbol("one", 1, dtype=int)
    chosen = delta(Mod(n + i, 2), Min(2, floor(Min(2 * m - 1, 3 * n) / 2)))
    f = total(s * z[n - 1] ** 2 / (chosen * x[one[-i] + 2] ** 2 + 1) * y[i], (i, 0, m - 1))
    along_z, along_s = td.TensorSymbol("along_z", n), sympy.Symbol("along_s", real=True)
    slope = td.IndexedSum(td.gradient(f, z)[p] * along_z[p], (p, 0, n - 1)) + td.gradient(f, s) * along_s
    values = {
        x: list(range(1, 8)),
        y: [1] * 7,
        z: [1, 2, 3],
        along_z: [0, 0, 2],
        s: 5,
        along_s: 3,
        one: [-1],
        n: 3,
        m: 3,
    }
    assert_equal(evaluate(td.gradient(slope, x), values), derivative(slope, (x,), values), "beside a factor")


def test_data_come_behind_what_says_that_they_can_be_read():
    # The last condition and the second one hold n, which selects the data of all three: they protect none of these.
    first = td.TensorSymbol("first", n + 5, dtype=int)
    entry = first[floor(n / 2)]
    body = x[i] ** 2 * z[0]
    for condition in (Eq(i, n + first[entry]), entry <= n + 4, entry >= 0):
        body = Piecewise((body, condition), (0, True))
    f = total(body, (i, 0, 6))
    slope = td.gradient(f, x)
    kernel = td.lambdify((x, z, first), (f, slope), "numpy")
    counted = []
    for selected in (-1, 3, 8):
        values = {x: list(range(1, 8)), z: [5, 0, 0], first: [9, selected, 9, -2, 9, 9, 9, 9], n: 3}
        expected = derivative(f, (x,), values)
        assert_equal(evaluate(slope, values), expected, "the slope")
        arrays = [np.array(values[tensor]) for tensor in (x, z, first)]
        assert_equal(kernel(*arrays)[1], to_double(expected), "the kernel")
        counted.append(sum(expected))
    assert counted == [0, 2 * 2 * 5, 0]


def test_what_selects_data_has_no_cases():
    # Of both indices of a minimum one is outside of the data: an entry of data is one unknown, not a choice of two.
    mirrored, clamped = label[Min(i, 6 - i)], label[Max(i - 3, 0)]
    values = {x: list(range(1, 8)), label: [2, 0, 1, 0]}
    for condition in (
        mirrored >= 1,
        Ne(mirrored, 2),
        clamped + Max(i, 4) >= 5,
        Max(clamped, i) >= 3,
        floor(clamped / 2) + floor(Max(i, 2) / 2) >= 2,
    ):
        f = total(Piecewise((x[i] ** 2, condition), (x[i], True)), (i, 0, 6))
        assert evaluate(td.simplify_deltas(f), values) == evaluate(f, values)
        assert_equal(evaluate(td.gradient(f, x), values), derivative(f, (x,), values), str(condition))
    assert str(td.gradient(total(Piecewise((x[i], mirrored >= 1), (0, True)), (i, 0, 6)), x).body) == (
        "Piecewise((1, label[Min(p, 6 - p)] >= 1), (0, True))"
    )


REMAINDERS = {
    # What is rounded stands in a test of data that its own index selects: no unknown in its place solves anything.
    "of the data's own index": (
        total(delta(idx[i], Mod(1 - i, 4)) * x[floor(i / 2)], (i, 0, 3)),
        "IndexedSum(KroneckerDelta(3 - idx[i], Mod(i + 2, 4)), (i, 2*p, Min(3, 2*p + 1)))",
    ),
    # The unknown has a single value, which the sum would be solved for again, and so on.
    "of another index": (
        total(
            delta(idx[j], Mod(2 * i, n)) * Piecewise((x[j - floor(i / 2) + 3], 2 * j > n), (0, True)) * z[0],
            (j, 0, 3),
            (i, 0, n - 1),
        ),
        None,
    ),
}


@pytest.mark.parametrize("name", REMAINDERS)
def test_remainders_beside_data_are_not_solved_for_again(name):
    f, text = REMAINDERS[name]
    slope = td.gradient(f, x)
    assert text is None or str(slope.body) == text
    values = {x: list(range(1, 8)), z: [5, 0, 0], idx: [1, 2, 1, 2], n: 3}
    expected = derivative(f, (x,), values)
    assert any(expected)
    assert_equal(evaluate(slope, values), expected, name)


# What is read at i - 2 is inside where the other condition holds, with the data below; SymPy sorts both.
PROTECTED = {
    "a delta beside another": total(delta(0, idx[i]) * delta(1, idx[i - 2]) * x[i] ** 2, (i, 0, 3)),
    "sorted the other way": total(delta(1, idx[i - 2]) * delta(2, jdx[i]) * x[i] ** 2, (i, 0, 3)),
    "a delta behind a case": total(Piecewise((delta(k, idx[i - 2]) * x[i] ** 2, Eq(idx[i], 0)), (0, True)), (i, 0, 3)),
    "a condition on indices": total(Piecewise((x[i] ** 2, Eq(idx[i - 2], 1) & (i >= 2)), (x[i], True)), (i, 0, 3)),
    "one of two": total(Piecewise((x[i] ** 2, (idx[i - 2] >= 1) | (i < 2)), (x[i], True)), (i, 0, 3)),
    "values": total(Piecewise((x[i] ** 2, (x[i - 2] >= 1) & (i >= 2)), (x[i], True)), (i, 0, 3)),
}


@every("name", [*PROTECTED])
def test_conditions_protect_each_other(name):
    f = PROTECTED[name]
    values = {x: [3, 1, 5, -2, 0, 0, 7], idx: [1, 1, 0, 0], jdx: [1, 1, 1, 2], k: 1}
    arguments = (*(tensor for tensor in (x, idx, jdx) if f.has(tensor)), *((k,) if f.has(k) else ()))
    arrays = [np.array(values[a]) for a in arguments]
    slope, exact = td.gradient(f, x), derivative(f, (x,), values)
    assert any(exact)
    assert_equal(evaluate(slope, values), exact, name)
    assert_equal(evaluate(td.hessian(f, x), values), derivative(f, (x, x), values), name)
    value, gradient = td.lambdify(arguments, (f, slope), "numpy")(*arrays)
    assert value == float(evaluate(f, values))
    assert_equal(gradient, to_double(exact), name)


@pytest.mark.parametrize("table", [False, True])
def test_a_mask_protects_the_data_in_an_index(table):
    """``pairs[2 - n]`` is outside for ``n = 3``, where the condition on other data does not hold."""
    data, other = td.TensorSymbol("data", 5, dtype=int), td.TensorSymbol("other", 1, dtype=int)
    held = Ne(Mod(Max(-1, n - 3) + Max(0, Min(n - 1, other[0])), 4), 0)
    values = td.TensorSymbol("values", n + 8)
    chosen = Piecewise((values[abs(data[2 - n])], held), (0, True))
    function = td.TensorComprehension(chosen, (i, 4))[Min(n, 2)] if table else chosen
    found = td.diff(function, values)
    numbers = {data: [1, 2, 0, 1, 1], other: [0], values: np.arange(1.0, 12.0)}
    assert not np.any(evaluate(found, {**numbers, n: 3}))
    assert evaluate(found, {**numbers, n: 1, values: np.arange(1.0, 10.0), data: [0, 3, 0, 0, 0]})[3] == 1


@pytest.mark.parametrize("wrt", ["table", "values"])
def test_data_that_the_range_of_an_index_keeps_inside(wrt):
    """The tests of ``data`` in a second derivative tell of the sizes what the index told that has gone for them."""
    size, length = sympy.symbols("N M", integer=True, positive=True)
    values, table = td.TensorSymbol("values", size + 11), td.TensorSymbol("table", (8, 2 * size + 3))
    data, weights = td.TensorSymbol("data", length + 6, dtype=int), td.TensorSymbol("weights", size)
    held = KroneckerDelta(1 - k, data[Max(5, Min(7, 2 * size + 1)) - 5] + 11)
    chosen = td.IndexedSum(held, (k, -5 * i, 2 - 5 * i))
    first, last = length + size + 1, 4 * size + i - length
    product = td.IndexedProduct(values[2 * i + t - 4 * length - 2 * size + 15], (t, first, last))
    misfit = product - table[6 - 3 * i, floor((length + i) / sympy.Integer(5))]
    body = misfit**2 * chosen if wrt == "table" else product * chosen
    shape = (table if wrt == "table" else values).shape
    along = td.TensorSymbol("along", shape)
    slope = td.vjp(td.TensorComprehension(body, (i, size)), table if wrt == "table" else values, weights)
    indices = (d, e)[: len(shape)]
    limits = [(v, 0, extent - 1) for v, extent in zip(indices, shape, strict=True)]
    second = td.diff(td.IndexedSum(slope[indices] * along[indices], *limits), values)
    numbers = {data: [0, -40, -1, 1, 1, 0, 1, 2], size: 1, length: 2, values: np.ones(12), weights: np.ones(1)}
    numbers |= {table: np.ones((8, 5)), along: np.ones((8, 5) if wrt == "table" else 12)}
    assert not np.any(evaluate(second, numbers))


@pytest.mark.parametrize(
    "body",
    [
        Piecewise((z[idx[i]] ** 2, (idx[i] >= 0) & (idx[i] < n)), (0, True)) * v[i],
        total(z[j] ** 2 * delta(j, idx[i]), (j, 0, n - 1)) * v[i],
    ],
)
def test_no_guard_says_what_is_declared_of_data(body):
    slope = td.diff(total(body, (i, 0, 3)), v[p])
    guard = "(p <= 3) & (idx[p] >= 0) & (idx[p] <= n - 1)"
    assert str(slope) == f"Piecewise((z[idx[p]]**2, {guard}), (0, True))"
    bounded = body.subs(idx, td.TensorSymbol("idx", 4, dtype=int, below=n))
    slope = td.diff(total(bounded, (i, 0, 3)), v[p])
    assert str(slope) == "Piecewise((z[idx[p]]**2, p <= 3), (0, True))"
