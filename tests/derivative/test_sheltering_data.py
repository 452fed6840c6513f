"""Data that are read inside of their tensor wherever they stand shelter others, as numbers and sizes do."""

import itertools

import numpy as np
import pytest
from sympy import Abs, Eq, KroneckerDelta, Max, Min, Mod, Ne, Piecewise, ceiling, floor

import sympy_tensordiff as td
from sympy_tensordiff.errors import DataIndexError
from sympy_tensordiff.reference import differentiate, evaluate, hvp
from sympy_tensordiff.testing.exact import as_scalar, assert_equal
from sympy_tensordiff.testing.values import random_values

i, j, c, M, N = td.indices("i j c M N")
place = td.TensorSymbol("place", 5, dtype=int)
x, y, w = td.TensorSymbol("x", 8), td.TensorSymbol("y", 8), td.TensorSymbol("w", 2)
VALUES = {place: np.array([2, 1, 1, 1, 1]), y: np.arange(1, 9), w: np.array([3, 5]), x: np.arange(2, 10)}


@pytest.mark.parametrize("selected", [c, floor(c / 2), Mod(c, 3)], ids=str)
def test_a_range_that_ends_at_data_shelters_data_of_its_index(selected):
    # place[-2*i] is read at i = 1 nowhere: the range from 3 to place[0] == 2 is empty.
    inner = td.IndexedSum(KroneckerDelta(selected, place[-2 * i]) * y[c], (c, 3 * i, place[0]))
    function = td.TensorComprehension(x[i] ** 2 * inner, (i, 2))
    terms = [sum(VALUES[y][c] for c in range(3) if selected.subs(td.indices("c"), c) == 2), 0]
    expected = [a**2 * b for a, b in zip((2, 3), terms, strict=True)]
    assert_equal(evaluate(td.simplify_deltas(function), VALUES), np.array(expected), "value")
    by_x = [2 * a * b * g for a, b, g in zip((2, 3), terms, (3, 5), strict=True)]
    assert_equal(evaluate(td.vjp(function, x, w), VALUES), np.array([*by_x, 0, 0, 0, 0, 0, 0]), "by x")
    by_y = [4 * 3 * (c < 3 and selected.subs(td.indices("c"), c) == 2) for c in range(8)]
    assert_equal(evaluate(td.vjp(function, y, w), VALUES), np.array(by_y), "by y")


def test_contributions_that_other_conditions_protect_stay_apart():
    # Both are 0 where place[M - 2] is outside, for M = 1, but not for one reason.
    places, pairs = td.TensorSymbol("place", N + 1, dtype=int), td.TensorSymbol("pairs", (5, 3), dtype=int)
    alpha, x = td.TensorSymbol("alpha", ()), td.TensorSymbol("x", 2 * N + 5)
    cotangent, along = td.TensorSymbol("G", (M, 4)), td.TensorSymbol("along", x.shape)
    elsewhere = (M + j - 3 * i < 1) | Ne(Mod(i - j, 6), 0) | Eq(Mod(floor((j + 1) / M), 3), 1)
    chosen = KroneckerDelta(places[M + j - 4], 0) * td.IndexedSum(x[pairs[3 - c, Mod(2 * i, 3)] + 2], (c, 0, 3))
    entry = (alpha - x[2 * j]) ** 2 * Piecewise((1, elsewhere), (chosen, True))
    function = td.TensorComprehension(entry, (i, M), (j, 4))
    second = td.gradient(as_scalar(td.vjp(function, x, cotangent), along), alpha)
    for size in (1, 4):
        given = {places: np.array([1, 0, 2, 0]), pairs: np.ones((5, 3), int)}
        values = random_values((function, x, alpha, cotangent, along), {N: 3, M: size}, seed=1, given=given)
        along_x = {x: values[along], alpha: 0}
        (_, (_, exact)) = hvp(as_scalar(function, cotangent), along_x, values)
        assert_equal(evaluate(second, values), exact, f"M = {size}")


@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_a_scatter_keeps_the_loops_that_shelter_where_it_adds(backend):
    # jdx[2*c - 4] is read where idx[i] allows it only: at c = 0 it would be outside.
    idx, jdx = td.TensorSymbol("idx", 8, dtype=int), td.TensorSymbol("jdx", 6, dtype=int)
    squares = td.TensorComprehension(x[5 * c] ** 2, (c, 2))
    body = KroneckerDelta(floor(c / 2) + 1, idx[i] + 2) * squares[Mod(jdx[2 * c - 4], 2)]
    function = td.TensorComprehension(td.IndexedSum(body, (c, 0, 2)), (i, 2))
    values = {x: np.arange(1, 9), w: np.array([3, 5]), idx: np.array([2, 0, 1, 0, 1, 0, 0, 0]), jdx: np.full(6, 3)}
    kernel = td.lambdify([w, x, idx, jdx], td.vjp(function, x, w), backend)
    found = kernel(values[w] * 1.0, values[x] * 1.0, values[idx], values[jdx])
    np.testing.assert_array_equal(found, [0, 0, 0, 0, 0, 60, 0, 0])


def test_a_table_is_not_filled_where_a_congruence_shelters_its_data():
    jdx, pairs = td.TensorSymbol("jdx", 6, dtype=int), td.TensorSymbol("pairs", (5, 3), dtype=int)
    z, cotangent = td.TensorSymbol("z", (7, 5, 2)), td.TensorSymbol("G", (2, 3))
    first = j + ceiling(i / 2)
    least = td.IndexedMin(j - 4 * i - c, (c, first + 1, first + 3))
    read = z[5 * j - 6 * i - 4, pairs[j - 1, Mod(Max(c - i, Min(2, j)) + 2, 3)], floor(Max(0, i) / 5)]
    inner = td.IndexedSum(KroneckerDelta(jdx[4 - 2 * j] + 1, Mod(c, 4)) * read, (c, 2 * i - 1, 2 * j - 3 * i))
    function = td.TensorComprehension(least * inner**2, (i, 2), (j, 3))
    given = {jdx: np.array([0, 1, 2, 1, 0, 0]), pairs: np.arange(15).reshape(5, 3) % 5}
    values = random_values((function, z, cotangent), {}, seed=2, given=given)
    by_z = td.vjp(function, z, cotangent)
    exact = differentiate(as_scalar(function, cotangent), z, values)
    assert_equal(evaluate(by_z, values), exact, "exactly")
    kernel = td.lambdify([cotangent, z, jdx, pairs], by_z, "numpy")
    found = kernel(*(values[v].astype(float) for v in (cotangent, z)), values[jdx], values[pairs])
    np.testing.assert_allclose(found, exact.astype(float), rtol=1e-12)


def test_data_decide_in_a_call_whether_a_read_leaves_its_tensor():
    pairs, places = td.TensorSymbol("pairs", (5, 3), dtype=int), td.TensorSymbol("place", 1, dtype=int)
    z = td.TensorSymbol("z", (6, 6))
    chosen = Ne(Mod(Max(-i - 1, 2 * i - 1), 5), 3) & Ne(Max(0, Min(1, i)) + 4 * places[Max(3, i + 1) - 3], 0)
    entry = Piecewise((z[pairs[i - 1, floor(2 * i / 3)] + 1, 5 - 4 * i], chosen), (0, True))
    kernel = td.lambdify([z, pairs, places], td.TensorComprehension(entry, (i, 2)), "numpy")
    matrix = np.arange(36.0).reshape(6, 6)
    np.testing.assert_array_equal(kernel(matrix, np.ones((5, 3), int), np.zeros(1, int)), [0, matrix[2, 1]])
    with pytest.raises(DataIndexError, match=r"place\[0\] is 1: the index (5\*)?i - 1 of axis 0 of pairs"):
        kernel(matrix, np.ones((5, 3), int), np.ones(1, int))


@pytest.mark.parametrize("condition", [Ne(Mod(M, 4), 2), (M <= 1) | (M >= 3)], ids=str)
def test_choices_that_no_rows_express_shelter_data_in_conditions(condition):
    # jdx[-2] is asked for at i = 0, j = 3 only where the condition holds, which is one of several cases.
    jdx, z, cotangent = td.TensorSymbol("jdx", 6, dtype=int), td.TensorSymbol("z", 9), td.TensorSymbol("G", (2, N))
    inner = td.IndexedSum(KroneckerDelta(jdx[i - 2 * j + 4] - 5, floor(j / 2 - c / 2)) * z[i], (c, j, 3))
    function = td.TensorComprehension(Piecewise((inner, condition), (z[0], True)), (i, 2), (j, N))
    by_z = td.vjp(function, z, cotangent)
    for sizes in ({N: 3, M: 4}, {N: 4, M: 2}):
        values = random_values((function, z, cotangent), sizes, seed=1, given={jdx: np.array([3, 4, 1, 3, 4, 3])})
        assert_equal(evaluate(by_z, values), differentiate(as_scalar(function, cotangent), z, values), f"{sizes}")


def test_a_rounded_range_shelters_data_that_stand_for_an_index():
    # k is jdx[j + l - 2] + 1: at l < 2 the range of c is empty for each of its values, which no projection tells.
    jdx, y, cotangent = td.TensorSymbol("jdx", 3, dtype=int), td.TensorSymbol("y", 21), td.TensorSymbol("G", 3)
    k, l = td.indices("k l")
    chosen = KroneckerDelta(k, jdx[j + l - 2] + 1) * y[3 * c + j]
    inner = td.IndexedSum(chosen, (c, Mod(Max(3, Min(6, 3 * k)), 5), 4 * l - k - 2))
    function = td.TensorComprehension(td.IndexedSum(inner, (l, 0, 2), (k, 0, 2)), (j, 3))
    by_y = td.vjp(function, y, cotangent)
    for entries in itertools.product((-1, 0, 1), repeat=3):
        values = random_values((function, y, cotangent), {}, seed=3, given={jdx: np.array(entries)})
        assert_equal(evaluate(by_y, values), differentiate(as_scalar(function, cotangent), y, values), f"{entries}")


def test_a_quotient_that_data_stand_for_shelters_them():
    # A read of pairs[-2, 1] came with the second derivative: p was held to 1 by a quotient alone.
    pairs, p = td.TensorSymbol("pairs", (5, 3), dtype=int), td.indices("p")
    cotangent, along = td.TensorSymbol("G", (3, 3, 2)), td.TensorSymbol("along", 5)
    x, y = td.TensorSymbol("x", 4), td.TensorSymbol("y", 5)
    chosen = KroneckerDelta(pairs[2 - 2 * p, j - 1] - 4, Mod(i, 2)) * x[i - 3 * p + 3]
    inner = td.IndexedSum(chosen, (c, i - p + 3, 4 * j + p - 2))
    entry = Piecewise((y[Max(j, 2 * p - 2 * j)], Eq(Mod(3 * j - 3 * i - 6 * p, 5), 0)), (0, True))
    function = td.TensorComprehension(entry * inner**3, (i, 3), (j, 3), (p, 2))
    second = td.gradient(as_scalar(td.vjp(function, y, cotangent), along), x)
    given = {pairs: np.array([[0, 4, 9], [9, 9, 9], [9, -1, 9], [9, 9, 9], [9, 9, 9]])}
    values = random_values((function, x, y, cotangent, along), {}, seed=4, given=given)
    exact = hvp(as_scalar(function, cotangent), {x: np.zeros(4, int), y: values[along]}, values)[0][1]
    assert_equal(evaluate(second, values), exact, "by y, then by x")


@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_equations_shelter_data_beside_conditions_of_many_cases(backend):
    # idx is read at 3*m with 0 <= m <= 1 only where the equation holds, which is none of the masks.
    idx, jdx, y = (
        td.TensorSymbol("idx", 8, dtype=int),
        td.TensorSymbol("jdx", 6, dtype=int),
        td.TensorSymbol("y", (8, 4)),
    )
    greatest, cotangent = Max(3 * c - 1, jdx[floor((c + 2) / 4)]), td.TensorSymbol("G", 2)
    chosen = KroneckerDelta(idx[3 * i] - 1, floor(c / 2)) * y[c + 3 * greatest - i + 1, 3 * c - 3 * i + 3]
    inner = td.IndexedSum(Piecewise((chosen, Mod(i, 5) >= 1), (0, True)), (c, 0, 2))
    function = td.TensorComprehension(inner, (i, 2))
    by_y = td.vjp(function, y, cotangent)
    given = {idx: np.array([0, 9, 9, 1, 9, 9, 9, 9]), jdx: np.array([0, 1, 9, 9, 9, 9])}
    values = random_values((function, y, cotangent), {}, seed=5, given=given)
    exact = differentiate(as_scalar(function, cotangent), y, values)
    assert_equal(evaluate(by_y, values), exact, "exactly")
    kernel = td.lambdify([cotangent, idx, jdx], by_y, backend)
    found = kernel(values[cotangent].astype(float), values[idx], values[jdx])
    np.testing.assert_allclose(found, exact.astype(float), rtol=1e-12)


@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_a_condition_that_is_computed_once_shelters_all_that_it_chooses(backend):
    z, y = td.TensorSymbol("z", (2, 3)), td.TensorSymbol("y", 3)
    even = Eq(Mod(j + Max(i - 3, Abs(Min(i + j - 1, 3 * i + j + 5) + 1)), 2), 0)
    above = z[1 - 4 * i, j]
    entry = y[i] * Piecewise((above, even), (y[1], True)) ** 2 + Piecewise((above, even), (y[0], True))
    kernel = td.lambdify([y, z], td.TensorComprehension(entry, (i, 2), (j, 2)), backend)
    found = kernel(np.array([3.0, 5, 7]), np.array([[1.0, 1, 1], [11, 13, 17]]))
    np.testing.assert_array_equal(found, [[3 * 11**2 + 11, 3 * 13**2 + 13], [5 * 5**2 + 3] * 2])


idx, jdx, z = td.TensorSymbol("idx", 8, dtype=int), td.TensorSymbol("jdx", 5, dtype=int), td.TensorSymbol("z", 9)
p = td.indices("p")
LEAVING = z[3 * p - idx[c]]
SQUARED_SUMS = {
    "of entries": td.IndexedSum(LEAVING, (c, 0, jdx[4 - 2 * p])) ** 2,
    "of a window": td.IndexedSum(LEAVING, (c, Max(0, jdx[4 - 2 * p] - 1), 2)) ** 2,
    "of several": td.IndexedSum(td.IndexedSum(y[i] * LEAVING, (c, 0, Min(2, jdx[4 - 2 * p]))) ** 2, (i, 0, 1)),
}


@pytest.mark.parametrize("backend", ["numpy", "numba"])
@pytest.mark.parametrize("name", SQUARED_SUMS)
def test_data_keep_data_inside_that_end_the_range_of_another_index(name, backend):
    # With p as (r + idx[c])/3, the second derivative reads jdx[4 - 2*p] in the range of an index that is not c.
    cotangent, along = td.TensorSymbol("G", 3), td.TensorSymbol("along", 9)
    function = td.TensorComprehension(SQUARED_SUMS[name], (p, 3))
    second = td.gradient(as_scalar(td.vjp(function, z, cotangent), along), z)
    given = {idx: np.array([0, -1, -2, -1, 0, -1, 0, -2]), jdx: np.array([1, 0, 2, 0, 1])}
    values = random_values((function, y, z, cotangent, along), {}, seed=6, given=given)
    exact = hvp(as_scalar(function, cotangent), {y: np.zeros(8, int), z: values[along]}, values)[-1][1]
    assert_equal(evaluate(second, values), exact, "twice by z")
    kernel = td.lambdify([along, cotangent, y, idx, jdx], second, backend)
    found = kernel(*(values[v].astype(float) for v in (along, cotangent, y)), values[idx], values[jdx])
    np.testing.assert_allclose(found, exact.astype(float), rtol=1e-12)


width, (k, l) = td.TensorSymbol("width", 4, dtype=int), td.indices("k l")
WINDOWS = td.IndexedSum(y[i + k + l], (l, 0, width[k]))
OF_WINDOWS = {
    "a sum": td.IndexedSum(WINDOWS, (k, 0, width[i])) ** 2,
    "a product": td.IndexedProduct(WINDOWS, (k, 0, width[i])),
    "lengths in the index": td.IndexedSum(y[i - width[k] + 3] * x[k + width[i]], (k, 0, width[i])) ** 2,
}


@pytest.mark.parametrize("backend", ["numpy", "numba"])
@pytest.mark.parametrize("name", OF_WINDOWS)
def test_lengths_of_windows_keep_those_of_others_inside(name, backend):
    # The derivative by y[q] has i = q - k - l: k runs to q, and only k <= width[i] keeps width[k] inside.
    function = td.TensorComprehension(OF_WINDOWS[name], (i, 4))
    cotangent, along = td.TensorSymbol("G", 4), td.TensorSymbol("along", 8)
    by_y = td.vjp(function, y, cotangent)
    second = td.gradient(as_scalar(by_y, along), y)
    drawn = random_values((function, x, y, cotangent, along), {}, seed=7, given={width: np.array([2, 0, 1, 1])})
    exact = hvp(as_scalar(function, cotangent), {x: np.zeros(8, int), y: drawn[along]}, drawn)[-1]
    assert_equal(evaluate(by_y, drawn), differentiate(as_scalar(function, cotangent), y, drawn), "by y")
    assert_equal(evaluate(second, drawn), exact[1], "twice by y")
    kernel = td.lambdify([along, cotangent, x, y, width], (by_y, second), backend)
    found = kernel(*(drawn[v].astype(float) for v in (along, cotangent, x, y)), drawn[width])
    np.testing.assert_allclose(found[1], exact[1].astype(float), rtol=1e-12)
    assert_equal(evaluate(td.jacobian(by_y, y), drawn), differentiate(by_y, y, drawn), "the dense second derivative")


def test_a_length_that_no_loop_selects_is_read_where_a_test_in_the_loop_allows_it_only():
    # Of the entries of x, which has more than width, those below width[i] alone are meant.
    greatest = td.IndexedMax(td.IndexedSum(x[k] * y[i + k + l], (l, 0, width[k])), (k, 0, width[i]))
    function, cotangent = td.TensorComprehension(greatest, (i, 4)), td.TensorSymbol("G", 4)
    values = random_values((function, x, y, cotangent), {}, seed=8, given={width: np.array([2, 0, 1, 1])})
    exact = differentiate(as_scalar(function, cotangent), x, values)
    assert_equal(evaluate(td.vjp(function, x, cotangent), values), exact, "by x")
