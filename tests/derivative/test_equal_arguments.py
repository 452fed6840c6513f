"""Named functions with equal arguments: their partial derivatives are different ones, whatever SymPy says of `Subs`."""

from __future__ import annotations

import itertools
from fractions import Fraction
from functools import partial
from math import factorial

import numpy as np
import pytest
import sympy
from every import every
from fuzz.special_checks import check_named_functions
from sympy import Derivative, Function, Lambda, Subs

import sympy_tensordiff as td
from sympy_tensordiff.reference import evaluate
from sympy_tensordiff.symbolic.expressions.partial_derivatives import partial_derivative

i, p, n = td.indices("i p n")
x, y = td.TensorSymbol("x", n), td.TensorSymbol("y", n)
a, s, t, u, w = sympy.symbols("a s t u w")
h, k = Function("h"), Function("k")
MONOMIALS = [(1, 0), (2, 1), (3, 2), (2, 1, 1), (0, 3, 2)]
POINT = Fraction(7, 10)
POINTS = {"plain": lambda v: v, "scaled": lambda v: 2 * v, "squared": lambda v: v**2 + 1}


def formula(powers):
    """A monomial as the value of a function: how it is differentiated is known without SymPy."""
    parameters = (s, t, w)[: len(powers)]
    return Lambda(parameters, sympy.Mul(*(v**power for v, power in zip(parameters, powers, strict=True))))


def monomial_slope(powers, orders, point):
    """The partial derivative of a monomial at equal arguments."""
    value = Fraction(1)
    for power, order in zip(powers, orders, strict=True):
        if order > power:
            return Fraction(0)
        value *= Fraction(factorial(power), factorial(power - order)) * point ** (power - order)
    return value


def total_slope(inner, powers, order):
    """The derivative of the monomial of equal arguments: that of one power of the argument."""
    v = sympy.Symbol("v")
    return sympy.diff(inner(v) ** sum(powers), v, order).subs(v, sympy.Rational(7, 10))


@every("inner", POINTS.values(), ids=POINTS)
@every("powers", MONOMIALS, ids=str, turns=8)
@every("order", [1, 2, 3])
def test_derivatives_of_all_orders(inner, powers, order):
    function = h if len(powers) == 2 else k
    value = function(*[inner(a)] * len(powers))
    expected = total_slope(inner, powers, order)
    direct = td.diff(value, a, order)
    stepwise = sympy.diff(td.diff(value, a), a, order - 1) if order > 1 else direct
    for put in (direct.subs(function, formula(powers)), stepwise.replace(function, formula(powers))):
        assert put.doit().subs(a, sympy.Rational(7, 10)) == expected
    of_entries = td.IndexedSum(function(*[inner(x[i])] * len(powers)), (i, 0, n - 1))
    entry = td.diff(of_entries, x[0], order)
    values = {x: [POINT, 2], function: formula(powers)}
    assert evaluate(entry, values) == Fraction(int(expected.p), int(expected.q))
    assert entry.subs(function, formula(powers)).doit().subs(x[0], sympy.Rational(7, 10)) == expected


def partials(function, count, args):
    """All partial derivatives of orders 1 to 3."""
    for orders in itertools.product(range(4), repeat=count):
        if 1 <= sum(orders) <= 3:
            yield orders, partial_derivative(function, orders, args)


def test_mixed_partials_commute():
    one = td.Subs(Derivative(h(t, u), t, u), (t, u), (a, a))
    assert one == td.Subs(Derivative(h(s, t), t, s), (t, s), (a, a))
    assert one == td.Subs(Derivative(h(a, t), t), t, a).diff(a).args[0] or one in td.diff(h(a, a), a, 2).atoms(td.Subs)


def test_the_derivatives_of_the_issue():
    third = td.diff(td.IndexedSum(h(x[i], x[i]), (i, 0, n - 1)), x[0], 3)
    ttu, tuu = (partial_derivative(h, orders, (x[0], x[0])) for orders in ((2, 1), (1, 2)))
    assert third.coeff(ttu) == third.coeff(tuu) == 3
    point = td.Subs(Derivative(h(t, u), t, u), (t, u), (x[0], x[0]))
    assert sympy.diff(point, x[0]) == td.diff(point, x[0]) == ttu + tuu
    assert td.diff(Subs(Derivative(h(t, u), t, u), (t, u), (x[0], x[0])), x[0]) == ttu + tuu
    twice = td.diff(k(a, a, a), a, 2).subs(k, Lambda((s, t, w), s**2 * t * w)).doit()
    assert twice == 12 * a**2


def test_kernels():
    third = td.TensorComprehension(td.diff(k(x[p], x[p], x[p]), x[p], 3), (p, n))
    orders = {orders: derivative for orders, derivative in partials(k, 3, (x[0],) * 3) if sum(orders) == 3}
    assert set(orders) == {key for key in itertools.product(range(4), repeat=3) if sum(key) == 3}
    functions = {("k", key): partial(monomial, (2, 1, 1), key) for key in orders}
    kernel = td.lambdify([x], third, "numpy", functions=functions)
    np.testing.assert_allclose(kernel(np.array([0.7, 1.0])), [16.8, 24.0])


def monomial(powers, orders, point, *same):
    """A partial derivative of a monomial for kernels."""
    return float(monomial_slope(powers, orders, Fraction(1))) * point ** (sum(powers) - sum(orders))


@every("args", [(x, x), (x, x, x), (x, y, x), (2 * x, 2 * x), (x, 3)], ids=str)
@every("order", [1, 2])
def test_functions_of_whole_tensors(args, order):
    function = h if len(args) == 2 else k
    powers = (3, 2, 2)[: len(args)]
    scalar = td.sum(td.elementwise(function, *args))
    slope = td.gradient(scalar, x) if order == 1 else td.gradient(td.sum(td.gradient(scalar, x)), x)
    values = {x: [POINT, 2, 3], y: [1, 5, 2]}
    v, other = sympy.symbols("v other")
    body = formula(powers)(*({x: v, y: other, 2 * x: 2 * v}.get(arg, arg) for arg in args))
    expected = [
        sympy.diff(body, v, order).subs({v: sympy.Rational(at), other: b})
        for at, b in zip(values[x], values[y], strict=True)
    ]
    values = values if slope.has(y) else {x: values[x]}
    assert list(evaluate(slope.subs(function, formula(powers)).doit(), values)) == expected
    assert list(evaluate(slope, {**values, function: formula(powers)})) == expected


def test_a_formula_with_names_of_its_own():
    """The formula that replaces a function may contain any symbol, and other functions with equal arguments."""
    xi = sympy.Symbol("xi", real=True)
    slope = partial_derivative(h, (1,), (2 * a,))
    assert slope.subs(h, Lambda(t, xi * t**2)).doit() == 4 * xi * a
    third = td.diff(h(2 * a), a, 3).subs(h, Lambda(t, k(t, t, t))).doit()
    assert third.subs(k, Lambda((s, t, w), s**2 * t * w)).doit() == 24 * 8 * 2 * a
    assert td.Subs(t * Derivative(h(t, u), t) + u, (t, u), (a, a)) == a * partial_derivative(h, (1, 0), (a, a)) + a
    assert float(slope.subs(h, sympy.exp).subs(a, 0)) == 1
    assert slope.evalf() == slope


def test_the_notation_of_sympy_is_taken_before_it_merges():
    """SymPy calls these two equal, and so would every cache that holds them."""
    ttu, tuu = (Derivative(h(t, u), *orders) for orders in (((t, 2), u), (t, (u, 2))))
    first, second = (Subs(derivative, (t, u), (x[i], x[i])) for derivative in (ttu, tuu))
    assert first == second
    sums = [td.IndexedSum(part, (i, 0, n - 1)) for part in (first, second)]
    assert sums[0] != sums[1]
    assert [evaluate(part, {x: [POINT, 2], h: formula((2, 1))}) for part in sums] == [4, 0]
    both = td.lift(x[i] * Subs(ttu, (t, u), (x[i], x[i])) + sympy.exp(Subs(tuu, (t, u), (x[i], x[i]))))
    assert len(both.atoms(td.Subs)) == 2
    values = {x: [POINT, 2], i: 0, h: formula((2, 1))}
    assert evaluate(x[i] * first + x[i] ** 2 * second, values) == 2 * POINT
    slope = td.gradient(x[i] * first + x[i] ** 2 * second, x)
    assert list(evaluate(slope, values)) == [2, 0]


@pytest.mark.parametrize("arg", [x, 2 * x, x**2 + 1, y], ids=str)
def test_templates_take_any_operands(arg):
    """The operand for a symbol of a template may depend on the operand for another symbol."""
    slope = td.gradient(td.sum(td.elementwise(h, x, arg) + td.elementwise(k, x)), x)
    moved = slope.subs(y, x) if arg == y else slope
    values = {x: [POINT, 2, 3], p: 1, h: formula((2, 1)), k: Lambda(s, s**3)}
    v = sympy.Symbol("v")
    inner = {x: v, 2 * x: 2 * v, x**2 + 1: v**2 + 1, y: v}[arg]
    expected = (sympy.diff(v**2 * inner, v) if arg != y else 2 * v * inner).subs(v, 2) + 12
    for form in (moved, moved.doit(), moved.subs({h: values[h], k: values[k]}).doit()):
        assert evaluate(form, {key: values[key] for key in values if key != p})[1] == expected
        assert evaluate(form[p].doit(), values) == expected
    assert "k'" in sympy.latex(moved)


@pytest.mark.parametrize("put", [lambda e: e.subs(y, x), lambda e: e.xreplace({y: x}), lambda e: e.subs(y[p], x[p])])
def test_another_tensor_may_be_put_in(put):
    ttu, tuu = (td.diff(h(x[p], y[p]), *by) for by in ((x[p], x[p], y[p]), (x[p], y[p], y[p])))
    assert str(ttu) == "Derivative(h(x[p], y[p]), (x[p], 2), y[p])"
    assert r"\left(\frac{\partial^{3}}" in sympy.latex(ttu**2)
    assert [put(e).subs(h, formula((2, 1))).doit() for e in (ttu, tuu)] == [2, 0]
    whole = [put(td.IndexedSum(e, (p, 0, n - 1))) for e in (ttu, tuu, Derivative(h(x[p], y[p]), (x[p], 2), y[p]))]
    assert whole[0] == whole[2] != whole[1]


def test_points_in_points():
    """SymPy joins a `Subs` of a `Subs`: its points may hold variables."""
    v = sympy.Symbol("v")
    inner = td.Subs(Derivative(h(t, v), t, v), (t, v), (v, v))
    expected = partial_derivative(h, (1, 1), (2 * x[0], 2 * x[0]))
    assert td.Subs(inner, v, 2 * x[0]) == expected
    assert td.Subs(inner, (v,), (2 * x[0],)) == expected
    values = {x: [POINT, 2], h: formula((3, 2))}
    for joined in (Subs(inner, v, 2 * x[0]), Subs(Derivative(h(v, x[0]), v, x[0]), v, 2 * x[0])):
        at = evaluate(joined, values)
        assert at == evaluate(td.lift(joined), values) != 0
    turned = partial_derivative(h, (2, 1), (a, 2 * a)).subs(h, Lambda((s, t), k(t, s, t)))
    assert turned.doit().subs(k, formula((2, 1, 1))).doit() == turned.subs(k, formula((2, 1, 1))).doit() == 0
    turned = partial_derivative(h, (1, 2), (a, 2 * a)).subs(h, Lambda((s, t), k(t, s, t)))
    assert turned.doit().subs(k, formula((2, 1, 1))).doit() == 6 * 2 * a


def test_random_sums_of_named_functions():
    for seed in range(12):
        check_named_functions(seed)
