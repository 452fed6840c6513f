"""Cases and choices that belong together are written as one, and mean the same."""

import pytest
import sympy
from exact_checks import assert_derivative_exact, assert_second_exact
from sympy import Eq, KroneckerDelta, Min, Mod, Ne, Piecewise, sqrt

import sympy_tensordiff as td
from sympy_tensordiff.graph.nodes import Graph
from sympy_tensordiff.integer.affine import Affine, Row

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


def test_choices_by_one_condition_are_one_choice_whatever_else_they_are_multiplied_by():
    result = derivative(Piecewise((x[i] ** 2 * z[i], z[i] > 0), (x[i] ** 3, True)) + x[i])
    assert result == Piecewise((2 * x[p] * z[p], z[p] > 0), (3 * x[p] ** 2, True)) + 1


def test_choices_by_different_conditions_stay_apart():
    result = derivative(Piecewise((x[i] ** 2, z[i] > 0), (0, True)) + Piecewise((x[i], z[i] > 1), (0, True)))
    assert len(result.atoms(Piecewise)) == 2


def test_a_case_and_its_opposite_are_one_choice():
    result = derivative(Piecewise((x[i] ** 2, Eq(Mod(i, 2), 1)), (x[i], True)))
    assert result == Piecewise((1, Eq(Mod(p, 2), 0)), (2 * x[p], True))
    result = derivative(Piecewise((x[i] ** 2, i > 2), (x[i] ** 3, True)))
    assert result == Piecewise((2 * x[p], p >= 3), (3 * x[p] ** 2, True))
    assert result == derivative(Piecewise((x[i] ** 3, i <= 2), (x[i] ** 2, True)))


def test_a_case_and_its_opposite_under_a_common_condition():
    A = td.TensorSymbol("A", (8, 8))
    body = Piecewise((A[i, k] ** 2, (i > 2) & (k < 6)), (A[i, k] ** 3, k < 6), (0, True))
    total = td.IndexedSum(body, (i, 0, 7), (k, 0, 7))
    assert_derivative_exact(total, A)
    choice = Piecewise((2 * A[p, n], (p >= 3) & (n <= 5)), (3 * A[p, n] ** 2, n <= 5), (0, True))
    assert sympy.diff(total, A[p, n]) == choice


def test_an_edge_and_the_rest_are_one_choice():
    result = derivative(Piecewise((x[i] ** 2, i > 0), (x[i], True)))
    assert result == Piecewise((2 * x[p], p >= 1), (1, True))
    result = derivative(Piecewise((x[i] ** 2, i < 7), (x[i], True)))
    assert result == Piecewise((1, p >= 7), (2 * x[p], True))
    # In the middle there are two sides.
    assert derivative(Piecewise((x[i] ** 2, i > 3), (x[i], i >= 3), (0, True))).has(sympy.KroneckerDelta)


def test_what_holds_in_a_case_and_in_its_opposite_holds_always():
    df = td.TensorSymbol("df", 4)
    f = td.TensorComprehension((x[2 * i] + x[2 * i + 1]) / 2, (i, 4))
    assert_derivative_exact(f, x)
    assert td.vjp(f, x, df) == td.TensorComprehension(df[sympy.floor(p / 2)] / 2, (p, 8))
    assert not derivative(Piecewise((x[i] * z[i], i > 2), (z[i] * x[i], True))).has(Piecewise)


def test_cases_that_are_no_opposites_stay_apart():
    result = derivative(Piecewise((x[i] ** 2, i > 4), (x[i], i < 4), (0, True)))
    assert len(result.atoms(Piecewise)) == 2


def test_a_difference_takes_the_minus_in():
    result = derivative(sqrt((z[i] - x[i]) ** 2 + 1))
    assert result == (x[p] - z[p]) / sqrt((x[p] - z[p]) ** 2 + 1)


def test_a_range_that_others_leave_one_value():
    # Near the lower edge x[0] is repeated; there k <= -i with k >= 0 and i >= 0 leaves i = k = 0.
    edge = Piecewise((x[0], i + k < 1), (x[i + k - 1], True))
    f = td.TensorComprehension(td.IndexedSum(edge * w[k], (k, 0, 1)), (i, 8))
    assert_derivative_exact(f, x)
    assert_derivative_exact(f, w)
    df = td.TensorSymbol("df", 8)
    at_edge = td.vjp(f, x, df).body.coeff(sympy.KroneckerDelta(0, p))
    assert at_edge == df[0] * w[0]


def test_a_size_stands_on_the_right():
    N = td.indices("N")
    y = td.TensorSymbol("y", 2 * n)
    total = td.IndexedSum(y[i] ** 2, (i, 1, N - 2))
    choice = sympy.diff(total, y[p])
    assert choice == Piecewise((2 * y[p], (p >= 1) & (p <= N - 2)), (0, True))


def test_products_of_many_choices_stay_small():
    # The terms of the derivative share all conditions; written case by case there would be 2**24 of them.
    y = td.TensorSymbol("y", 24)
    product = sympy.Mul(*(Piecewise((y[m] ** 2 + 2, y[m] > 0), (y[m] + 3, True)) for m in range(24)))
    gradient = td.gradient(product, y).body
    assert sum(1 for _ in sympy.preorder_traversal(gradient)) < 24 * 24 * 100


def test_many_cases_with_opposites_are_joined_without_recursion():
    graph = Graph()
    v = [graph.fresh(f"v{m}") for m in range(1500)]
    forms = [Affine.variable(m) for m in v]
    values = [graph.scalar(sympy.Symbol(f"s{m}", real=True)) for m in v]
    cases = [
        graph.guard([row], value)
        for form, value in zip(forms, values, strict=True)
        for row in (Row("ge", form), Row("ge", -form - 1))
    ]
    assert graph.add(cases) is graph.add(values)


def test_long_and_deep_choices_are_left_apart():
    graph = Graph()
    conditions = [graph.compare("lt", graph.scalar(sympy.Symbol(f"c{m}", real=True)), graph.zero) for m in range(1000)]
    first, second = (graph.scalar(sympy.Symbol(name, real=True)) for name in "ab")
    long = [graph.mul([v, *(graph.select(c, graph.one, graph.zero) for c in conditions)]) for v in (first, second)]
    assert graph.add(long).op == "add"
    for c in conditions:
        first, second = graph.select(c, graph.one, first), graph.select(c, second, graph.one)
    assert graph.add([first, second]).op == "add"


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
