"""Guards and choices by one condition are merged, with the same values."""

import pytest
import sympy
from exact_checks import assert_derivative_exact, assert_second_exact
from sympy import KroneckerDelta, Min, Ne, Piecewise, sqrt

import sympy_tensordiff as td

i, k, n, p = td.indices("i k n p")
x, z, w = td.TensorSymbol("x", 8), td.TensorSymbol("z", 8), td.TensorSymbol("w", 3)


def derivative(body):
    """The derivative of ``sum_i body`` by ``x[p]``, checked against the oracle in both orders."""
    total = td.IndexedSum(body, (i, 0, 7))
    assert_derivative_exact(total, x)
    assert_second_exact(total, x)
    return sympy.diff(total, x[p])


def test_choices_by_one_condition_are_one_choice():
    result = derivative(Piecewise((x[i] ** 2, x[i] > 0), (x[i], True)))
    assert result == Piecewise((2 * x[p], x[p] > 0), (1, True))


def test_equal_bodies_of_opposite_guards_lose_their_guards():
    df = td.TensorSymbol("df", 4)
    f = td.TensorComprehension((x[2 * i] + x[2 * i + 1]) / 2, (i, 4))
    assert_derivative_exact(f, x)
    assert td.vjp(f, x, df) == td.TensorComprehension(df[sympy.floor(p / 2)] / 2, (p, 8))
    assert not derivative(Piecewise((x[i] * z[i], i > 2), (z[i] * x[i], True))).has(Piecewise)


def test_guards_that_are_not_opposite_are_not_merged():
    result = derivative(Piecewise((x[i] ** 2, i > 4), (x[i], i < 4), (0, True)))
    assert len(result.atoms(Piecewise)) == 2


def test_a_difference_takes_the_minus_in():
    result = derivative(sqrt((z[i] - x[i]) ** 2 + 1))
    assert result == (x[p] - z[p]) / sqrt((x[p] - z[p]) ** 2 + 1)


j = td.indices("j")
a, b, c, d = (td.TensorSymbol(name, 4) for name in "abcd")
CHOICE = Piecewise((b[i], a[j] > 0), (c[j], True))


@pytest.mark.parametrize(
    "inner",
    [
        CHOICE * KroneckerDelta(i, 3 * j - 3) + b[j],
        Piecewise((b[i], a[i] > 0), (c[j], True)) * KroneckerDelta(i, 3 * j - 3),
        CHOICE * KroneckerDelta(j, 3 * i - 5) + b[i],
        CHOICE * KroneckerDelta(i, j - 3) * b[3 - j] + Piecewise((b[j], Ne(i, j)), (0, True)),
    ],
)
def test_what_is_compared_asks_its_outer_conditions_first(inner):
    function = td.TensorComprehension(Min(inner, d[i]), (i, 4), (j, 4))
    for variable in (b, d):
        assert_derivative_exact(function, variable)


def test_a_comparison_of_choices_is_a_choice_of_comparisons():
    inner = Piecewise((Piecewise((b[i], a[i - 2] > 0), (c[i], True)), i >= 2), (0, True))
    function = td.TensorComprehension(Min(inner, d[i]), (i, 4))
    case = "ITE(i >= 2, ITE(a[i - 2] > 0, d[i] < b[i], d[i] < c[i]), d[i] < 0)"
    assert case in str(td.jacobian(function, d))
    assert_derivative_exact(function, d)


def test_deltas_of_what_nothing_chooses_are_no_cases_of_a_comparison():
    indices = td.indices("i_0 i_1 i_2 i_3")
    total = sum(KroneckerDelta(index, n) * b[index] for n, index in enumerate(indices))
    function = td.TensorComprehension(sympy.Max(total, a[1]), *((index, 4) for index in indices))
    assert "ITE" not in str(td.jacobian(function, a))
    assert_derivative_exact(function, a)


def test_what_is_above_and_below_a_value_is_all_but_that():
    data = td.TensorSymbol("data", 8, dtype=int)
    assert derivative(Piecewise((x[i] ** 2, Ne(i, 3)), (0, True))) == Piecewise((2 * x[p], Ne(p, 3)), (0, True))
    masked = derivative(Piecewise((x[i] ** 2, Ne(data[i], 0)), (0, True)))
    assert masked == Piecewise((2 * x[p], Ne(data[p], 0)), (0, True))
    several = derivative(Piecewise((x[i] ** 2, Ne(2 * data[i] - i, 3)), (0, True)))
    assert str(several) == "Piecewise((2*x[p], Ne(p, 2*data[p] - 3)), (0, True))"
