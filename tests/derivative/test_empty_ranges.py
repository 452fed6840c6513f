"""Nodes that stand in a sum that is empty for some indices, which no linear condition tells."""

import pytest
import sympy
from every import every
from exact_checks import assert_kernel_exact

from sympy_tensordiff import (
    IndexedProduct,
    IndexedSum,
    TensorComprehension,
    TensorSymbol,
    gradient,
    indices,
    jacobian,
    vjp,
)
from sympy_tensordiff.errors import OutOfShapeError
from sympy_tensordiff.reference import differentiate, evaluate, hvp
from sympy_tensordiff.testing.exact import as_scalar, assert_equal
from sympy_tensordiff.testing.values import random_values

i, k, m, N = indices("i k m N")
x, y = TensorSymbol("x", (4,)), TensorSymbol("y", (N + 3,))
G, along = TensorSymbol("G", (4,)), TensorSymbol("along", (N + 3,))


def test_a_node_in_a_sum_that_is_empty_between_the_integers_is_not_read_there() -> None:
    # At i = 3 no integer lies between 3/2 and 5/3; y is read at -1 there, in a sum that is empty for N = -1.
    squares = IndexedSum(y[2 - i + k] ** 2, (k, 0, N))
    low, high = sympy.ceiling(i / 2), sympy.floor((i + 2) / 3)
    function = TensorComprehension(IndexedSum(x[i] * m / (squares + 1), (m, low, high)), (i, 4))
    first = vjp(function, y, G)
    second = gradient(as_scalar(first, along), y)
    for size in (-1, 0, 1, 3):
        values = random_values((function, x, y, G, along), {N: size}, seed=size + 1)
        ((exact_first, exact_second),) = hvp(as_scalar(function, G), {y: values[along]}, values)
        assert_equal(evaluate(first, values), exact_first, f"first, N = {size}")
        assert_equal(evaluate(second, values), exact_second, f"second, N = {size}")


@pytest.mark.parametrize("reduction", [IndexedProduct, IndexedSum])
def test_ranges_that_only_their_quotients_show_to_be_empty(reduction) -> None:
    # floor(i/2) + 2 <= m <= floor(i/2) has no point; m is what a table reads beside it.
    z = TensorSymbol("z", (1,))
    entry = TensorComprehension(z[0] ** (k + 3 * m), (k, 3))[m - 2 * N]
    never = IndexedSum(reduction(entry, (N, -2 * i, 1 - 2 * i)), (m, sympy.floor(i / 2) + 2, sympy.floor(i / 2)))
    assert_kernel_exact(TensorComprehension(never + z[0] ** 2, (i, 1)), [z], order=2)


def test_a_node_in_a_sum_over_some_remainders_is_not_read_where_none_is_met() -> None:
    # At i = 3 the values 6 and 7 leave the remainders 2 and 3; no rows over i say so, and y is read at -1 there.
    squares = IndexedSum(y[2 - i + k] ** 2, (k, 0, N))
    chosen = sympy.Piecewise((m * x[i] / (squares + 1), sympy.Mod(m, 4) <= 1), (0, True))
    function = TensorComprehension(IndexedSum(chosen, (m, 2 * i, 2 * i + 1)), (i, 4))
    first = vjp(function, y, G)
    for size in (-1, 0, 1, 3):
        values = random_values((function, x, y, G, along), {N: size}, seed=size + 1)
        ((exact_first, _),) = hvp(as_scalar(function, G), {y: values[along]}, values)
        assert_equal(evaluate(first, values), exact_first, f"first, N = {size}")


a, c, M = sympy.Symbol("a", real=True), TensorSymbol("c", (2 * N + 1,)), indices("M")
w, H, step = TensorSymbol("w", (N + 9,)), TensorSymbol("H", (M,)), TensorSymbol("step", (N + 9,))
OUTSIDE = w[5 * M - N - 6]
SOME = sympy.Eq(N - 5 * i, 2) | (N + 2 * i > 4)
LESS = a < c[N - M - i + 3]


def where(condition, value, otherwise=0):
    return sympy.Piecewise((value, condition), (otherwise, True), evaluate=False)


@every(
    "entry",
    [
        where(SOME & LESS, where(OUTSIDE > 0, w[20 - 3 * M - 2 * N]), a),
        where(SOME & LESS, where(a > -1, where(OUTSIDE > 0, w[0]))),
        where(SOME & LESS, sympy.Max(OUTSIDE, w[0])),
        where(LESS, where(a > 0, w[0] * OUTSIDE**2)),
        where(LESS, sympy.sin(w[0] * OUTSIDE**2)),
    ],
    ids=["condition", "inner condition", "maximum", "product", "function"],
)
def test_what_is_read_outside_where_nothing_is_chosen_is_not_read_by_the_derivative(entry) -> None:
    # Cotangents arrive as sums over i, which may be empty, and choose nothing, where w is read at -4.
    function = TensorComprehension(entry, (i, M))
    slope = vjp(function, w, H)
    checked = 0
    for number, (size, length) in enumerate([(3, 1), (5, 1), (4, 4), (5, 2)] * 4):
        values = random_values((function, c, w, a, H, step), {N: size, M: length}, seed=number)
        try:
            evaluate(function, values)
        except OutOfShapeError:
            continue
        checked += 5 * length < size + 6
        ((exact, _),) = hvp(as_scalar(function, H), {w: values[step]}, values)
        assert_equal(evaluate(slope, values), exact, f"N = {size}, M = {length}, values {number}")
    assert checked


def test_a_table_that_only_some_sizes_need_is_read_for_these_only() -> None:
    # No case of the sizes N = 2, M = 4 reads z; the cotangents of T are tables, which stand in both of the others.
    z = TensorSymbol("z", (N + 15,))
    T = TensorComprehension(where(sympy.Ne(sympy.Mod(N - M, 3), 1), z[3 * M + 2 * k - 5 * N + 14]), (k, M + 8))
    function = TensorComprehension(z[i] * T[m - 3 * M - 4 * N + 22] ** 3, (i, 2), (m, 2))
    F, direction = TensorSymbol("F", (2, 2)), TensorSymbol("direction", (N + 15,))
    first = vjp(function, z, F)
    second = gradient(as_scalar(first, direction), z)
    for sizes in ({N: 2, M: 4}, {N: 4, M: 2}, {N: 1, M: 3}):
        values = random_values((function, z, F, direction), sizes, seed=1)
        ((exact_first, exact_second),) = hvp(as_scalar(function, F), {z: values[direction]}, values)
        assert_equal(evaluate(first, values), exact_first, f"first at {sizes}")
        assert_equal(evaluate(second, values), exact_second, f"second at {sizes}")


def test_conditions_inside_of_a_sum_do_not_leave_it_with_its_indices() -> None:
    # The table is read outside where no equation of the sum holds; what protects it is not over the sum's own indices.
    n = indices("n")
    u, v, s = TensorSymbol("u", (11,)), TensorSymbol("v", (3 * N + 1,)), TensorSymbol("s", (M + 1, 2))
    chosen = sympy.Piecewise(
        (u[M - 5 * i + 8], sympy.Eq(2 * M - 6 * N, -14)), (v[sympy.floor((5 * M + 4 * N) / 3) - 6], True)
    )
    delta = sympy.KroneckerDelta(2 * N - 5 * M - 2 * n, m - i - 26)
    total = IndexedSum((2 * M + i + 2 * n) * delta, (n, 2 - i, 4 - i), (m, 0, 2))
    table = TensorComprehension(s[M, 1], (k, N + 7))[N + sympy.floor(-5 * M / 2) + 9]
    function = TensorComprehension(chosen * table * total, (i, N))
    values = random_values((function, u, v, s), {N: 3, M: 2}, seed=1)
    for variable in (u, v, s):
        got, exact = evaluate(jacobian(function, variable), values), differentiate(function, variable, values)
        assert_equal(got, exact, f"jacobian by {variable}")


def test_a_node_that_is_no_number_stays_in_a_sum_over_many_remainders() -> None:
    # At i = 1 and at i = 3 no value leaves one of the 18 remainders, too many for sums of their own: 1/y is inside.
    chosen = sympy.Piecewise((m * x[i] * sympy.log(y[i]), sympy.Mod(11 * m, 40) <= 17), (0, True))
    function = TensorComprehension(IndexedSum(chosen, (m, 2 * i, 2 * i + 1)), (i, 4))
    values = {x: [1, 2, 3, 5], y: [2, 0, 4, 0], G: [1, 1, 2, 1], N: 1}
    expected = differentiate(as_scalar(function, G), y, values)
    assert_equal(evaluate(vjp(function, y, G), values), expected, "beside many remainders")
