"""Derivatives of quotients and remainders in indices read as a person writes them; what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import sympy
from every import every
from exact_checks import assert_derivative_exact, assert_second_exact
from sympy import Eq, KroneckerDelta, Max, Mod, Piecewise, floor, frac

import sympy_tensordiff as td
from sympy_tensordiff.errors import ArgumentError, IndexExpressionError, UnsupportedError
from sympy_tensordiff.reference import evaluate

i, j, k, n, p = td.indices("i j k n p")
a, b = td.indices("a b")
N, M, K = td.indices("N M K")
Table, Sum = td.TensorComprehension, td.IndexedSum


def x(*shape):
    return td.TensorSymbol("x", shape)


def w(*shape):
    return td.TensorSymbol("w", shape)


def pullback(function, variable):
    return td.vjp(function, variable, td.TensorSymbol("G", function.shape))


# ---------------------------------------------------------------- what they look like


# ---------------------------------------------------------------- what is refused

LINE = x(12)
REFUSED = {
    "product in a floor": (floor(i * j / 2), IndexExpressionError, r"floor\(i\*j/2\) is not linear in its indices"),
    "power in a floor": (floor(i**2 / 2), IndexExpressionError, r"floor\(i\*\*2/2\) is not linear in its indices"),
    "divided by an index": (floor(11 / (i + 1)), IndexExpressionError, "divides by an index in a range"),
    "remainder by an index": (
        Mod(11, i + 1),
        IndexExpressionError,
        "is not linear in its|divides by an index in a range",
    ),
    "size of any sign": (floor(i / n), UnsupportedError, "divided by n, which is not known to be positive"),
    "difference of any sign": (
        Mod(i, N - 2),
        UnsupportedError,
        "; give N - 2 a name of its own, and write the extents",
    ),
    "remainder by a size of any sign": (Mod(i, n - 1), UnsupportedError, "divided by n - 1, which is not known to be"),
    "stride without a unit pivot": (n * floor(i / 2), IndexExpressionError, "one index needs the coefficient 1"),
}


@every("name", [*REFUSED])
def test_what_is_no_index_is_refused(name):
    index, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        pullback(Table(LINE[index], (i, 3), (j, 4)), LINE)


def test_a_multiple_by_a_symbol_in_a_remainder_is_refused():
    for factor in (k, 17):
        message = "an index equation multiplies i by a symbol, and holds no .* use a number up to 16 as the stride"
        with pytest.raises(UnsupportedError, match=message):
            pullback(Table(x(N)[Mod(factor * i, N)], (i, 3)), x(N))


@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_fractional_parts_of_indices_are_exact(backend: str) -> None:
    """2/3 + 7/3 as doubles is less than 3, and its fractional part was nearly 1."""
    s = td.indices("s")
    parts = Table(frac((i + s) / 3) + 2 * frac(i / 6 + s / 2), (i, 9))
    assert np.allclose(td.lambdify(s, parts, backend)(7), [(i + 7) % 3 / 3 + (i + 21) % 6 / 3 for i in range(9)])


def test_a_divisor_is_not_positive_because_of_the_read_that_it_divides():
    function = Table(LINE[Mod(i, n)], (i, 3))
    with pytest.raises(UnsupportedError, match="divided by n, which is not known to be positive"):
        pullback(function, LINE)


def test_a_range_that_is_divided_does_not_make_its_divisor_positive():
    function = Table(Sum(LINE[k], (k, 0, floor(i / n))), (i, 3))
    with pytest.raises(UnsupportedError, match="divided by n, which is not known to be positive"):
        pullback(function, LINE)


# ---------------------------------------------------------------- multiples next to sizes

MULTIPLES = {
    "doubled": ((2 * i,), (i, N)),
    "doubled and shifted": ((2 * i + 1,), (i, N)),
    "backwards": ((-2 * i,), (i, N)),
    "tripled": ((3 * i,), (i, 2 * N)),
    "two indices": ((2 * i + 3 * j,), (i, N), (j, 3)),
    "twice": ((2 * i, 3 * i), (i, N)),
}


@every("name", [*MULTIPLES], turns=8)
def test_remainders_of_multiples_by_a_size(name):
    forms, *limits = MULTIPLES[name]
    function = Table(sympy.prod(x(N)[Mod(form, N)] for form in forms) ** 2, *limits)
    result = pullback(function, x(N))
    assert not any(found.body.has(Eq) for found in result.atoms(Sum))  # no loop tests anything
    for size in (1, 2, 3, 4, 6):
        fixed = function.subs(N, size)
        G = td.TensorSymbol("G", fixed.shape)
        values = {x(size): np.arange(1, size + 1), G: np.arange(3, 3 + np.prod(fixed.shape)).reshape(fixed.shape)}
        given = {x(N): values[x(size)], td.TensorSymbol("G", function.shape): values[G]}
        assert (evaluate(result, given) == evaluate(pullback(fixed, x(size)), values)).all()


def test_remainders_of_sizes_decide_how_a_multiple_is_solved():
    result = pullback(Table(x(N)[Mod(2 * i, N)], (i, N)), x(N))
    even = "Piecewise((IndexedSum(G[floor((N*i + p)/2)], (i, 0, 1)), Eq(Mod(N, 2), 0) & Eq(Mod(p, 2), 0)), (0, True))"
    assert even in str(result)
    odd = "Piecewise((G[floor((N*p + p)/2) - N*floor(p/2)], Eq(Mod(N, 2), 1)), (0, True))"
    assert odd in str(result)  # the quotient of 2*i is the remainder of p, and no quotient by N is left
    assert len(result.atoms(Sum)) == 1


# ---------------------------------------------------------------- divisors that are positive


@pytest.mark.parametrize("declared", ["positive", "nonnegative"])
def test_calls_with_numbers_other_than_declared_are_refused(declared):
    least = sympy.Symbol("m", integer=True, **{declared: True})
    divided = td.lambdify((LINE, least), Table(LINE[floor(i / (least + 1))], (i, 11)), "numpy")
    assert divided(np.arange(12.0), 1).tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5]
    with pytest.raises(ArgumentError, match=r"m has to be at least \d \(m = -1 from argument m\)"):
        divided(np.arange(12.0), -1)


MIRROR = x(N)[Mod(i, 2 * N - 2) - 2 * Max(0, Mod(i, 2 * N - 2) - N + 1)]


def test_a_divisor_that_can_be_0_and_not_negative_is_taken_for_positive():
    function = Table(MIRROR**2, (i, 3 * N))
    both = td.lambdify((x(N), td.TensorSymbol("G", 3 * N)), (function, pullback(function, x(N))), "numpy")
    value, slope = both(np.array([1.0, 2.0, 3.0]), np.ones(9))
    assert value.tolist() == [1, 4, 9, 4, 1, 4, 9, 4, 1]
    assert slope.tolist() == [6, 16, 12]
    with pytest.raises(ArgumentError, match=r"N has to be at least 2 \(N = 1 from axis 0 of x\)"):
        both(np.ones(1), np.ones(3))


def test_a_condition_that_makes_a_divisor_positive_is_kept():
    function = Table(Piecewise((MIRROR**2, N >= 2), (x(N)[0] ** 3, True)), (i, N))
    value = td.lambdify(x(N), function, "numpy")
    assert value(np.array([2.0])).tolist() == [8]
    assert value(np.array([2.0, 3.0])).tolist() == [4, 9]
    slope = pullback(function, x(N))
    G = td.TensorSymbol("G", N)
    assert evaluate(slope, {x(N): np.array([2, 3]), G: np.array([1, 1])}).tolist() == [4, 6]


def test_a_remainder_between_free_indices_stays():
    entry = x(N)[Mod(i + p, N)].diff(x(N)[k])
    assert entry == KroneckerDelta(k, Mod(i + p, N))
    for result in (entry, 2 * entry, entry + KroneckerDelta(i, p), Piecewise((entry, i < 3), (0, True))):
        assert td.simplify_deltas(result) == result
    with pytest.raises(UnsupportedError, match="divided by N, which is not known to be positive"):
        td.simplify_deltas(Sum(entry, (i, 0, 3)))


# ---------------------------------------------------------------- bounds that are remainders

REMAINDERS = {
    "an upper bound": (Sum(x(5)[Mod(j, 3)] ** 2, (j, 0, Mod(i, 3)), (i, 0, 5)), "4*(3 - p)*x[p], p <= 2"),
    "shifted": (Sum(x(5)[Mod(j + 1, 4)] ** 2, (j, 0, Mod(i, 3)), (i, 0, 5)), "4*(4 - p)*x[p], (p >= 1) & (p <= 3)"),
    "a lower bound": (Sum(x(5)[Mod(j, 3)] ** 2, (j, Mod(i, 3), 2), (i, 0, 5)), "4*(p + 1)*x[p], p <= 2"),
    "with a stride": (Sum(x(5)[Mod(2 * j, 5)] ** 2, (j, 0, Mod(i, 3)), (i, 0, 5)), "(Mod(2*p + 2, 5) + 1)*x[p]"),
    "two bounds": (Sum(x(5)[Mod(j, 3)] ** 2, (j, Mod(i, 2), Mod(i, 3)), (i, 0, 5)), "p <= 2"),
    "of a size": (Sum(x(5)[Mod(j, 3)] ** 2, (j, 0, Mod(i, 4)), (i, 0, N - 1)), "p <= 2"),
    "by a size": (Sum(x(N)[Mod(j, 3)] ** 2, (j, 0, Mod(i, N)), (i, 0, 6)), "p <= 2"),
    "in a function": (
        Sum(sympy.sin(Sum(x(5)[Mod(j + 1, 3)] ** 2, (j, 0, Mod(i, 3)))), (i, 0, 5)),
        "IndexedSum(x[Mod(j + 1, 3)]**2, (j, 0, i))), (i, Mod(p + 2, 3), 2))",
    ),
}


@every("name", [*REMAINDERS], turns=8)
def test_bounds_that_are_remainders(name):
    """The sum over ``i`` has values only where ``j <= Mod(i, 3)``: that is at most 2, which no other row tells."""
    function, shown = REMAINDERS[name]
    (variable,) = function.atoms(td.TensorSymbol)
    assert shown in str(td.gradient(function, variable))
    sizes = {N: 4} if function.has(N) else {}
    assert_derivative_exact(function, variable, sizes)
    assert_second_exact(function, variable, sizes)
