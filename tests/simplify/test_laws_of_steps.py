"""Steps of simplification on their own: counted uses, joined terms, norms, formulas of arrays, series."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import combinations_with_replacement, product
from random import Random

import pytest
import sympy
from every import every

import sympy_tensordiff as td
from sympy_tensordiff.graph.nodes import Graph, reachable
from sympy_tensordiff.graph.read import Reader
from sympy_tensordiff.graph.write import write
from sympy_tensordiff.simplify import (
    common_subexpressions,
    deviances,
    nearby,
    quotients,
    recognition,
    removable,
    sums_over_equal_ranges,
    symmetry,
)
from sympy_tensordiff.simplify.deltas import has_usable_guard
from sympy_tensordiff.simplify.factoring import _replace_uses
from sympy_tensordiff.simplify.removable import MAX_FUNCTIONS, ArithmeticSubexpressions, regular_at_zero

a, b, c, u, v = sympy.symbols("a b c u v")
i, j, k, n = td.indices("i j k n")
w, x, y, z = (td.TensorSymbol(name, n) for name in "wxyz")
A, B, C = (td.TensorSymbol(name, (n, n)) for name in "ABC")
over_i = (i, 0, n - 1)


def graph_and_nodes(*expressions):
    reader = Reader(Graph())
    reader.use(expressions)
    return reader, [reader.read(expression) for expression in expressions]


def test_uses_after_a_replacement_are_counted_anew():
    """The numbers of uses are those of a new count, for random graphs in which only a root is replaced."""
    random = Random(7)
    for _ in range(200):
        graph = Graph()
        nodes = [graph.scalar(sympy.Symbol(name)) for name in "abc"]
        for _ in range(12):
            function = random.choice((sympy.sin, sympy.cos, sympy.exp, None, None))
            operands = random.sample(nodes, 2)
            nodes.append(graph.add(operands) if function is None else graph.call(function, operands[:1]))
        old, new = (graph.mul(random.sample(nodes, 2)) for _ in range(2))
        others = random.sample(nodes, 3)
        if old is new or not {old, new}.isdisjoint(reachable(*others, *old.args, *new.args)):
            continue

        before, after = (
            Counter(others) + Counter(arg for node in reachable(root, *others) for arg in node.args)
            for root in (old, new)
        )
        _replace_uses(before, old, new)
        assert +before == after


@every("numbers, others", list(product(product((1, -2, 3), (1, -1, Fraction(1, 2))), ((), (b,), (b, u * c)))))
def test_terms_that_share_a_part_of_an_addition_are_joined(numbers, others):
    """``p*x*(c + 2*a) + q*x*a`` is ``p*x*(c + (2 + q/p)*a)``, with other terms beside or not."""
    p, q = (sympy.Rational(number) for number in numbers)
    reader, (node, expected) = graph_and_nodes(
        sympy.Add(p * v * (c + 2 * a), q * v * a, *others), sympy.Add(p * v * (c + (2 + q / p) * a), *others)
    )
    assert recognition.with_terms_joined(reader.graph, node) is expected
    assert recognition.with_terms_joined(reader.graph, expected) is expected


def test_a_weighted_mean_of_a_sum_is_split_where_terms_cancel():
    weighted, total = (td.IndexedSum(term, over_i) for term in (w[i] * (sympy.exp(x[i]) + 1), w[i]))
    mean = td.IndexedSum(w[i] * sympy.exp(x[i]), over_i) / total
    for number, others in product((1, -2), ((), (a,), (a, b))):
        reader, (node, expected, uncancelled) = graph_and_nodes(
            sympy.Add(number * (weighted / total - 1), *others).expand(deep=False),
            sympy.Add(number * mean, *others),
            sympy.Add(number * weighted / total, *others, u),
        )
        assert sums_over_equal_ranges._shortened(reader.graph, node) is expected
        assert sums_over_equal_ranges._shortened(reader.graph, uncancelled) is uncancelled


@every("one, other", list(product((a, a * b, sympy.sin(u), a + b, a + b + 1, a - u + v + 1), repeat=2)))
def test_which_sum_has_fewer_terms(one, other):
    """SymPy counts the terms; only an addition has more terms than another node."""
    _, (difference, argument) = graph_and_nodes(one, other)
    expected = len(sympy.Add.make_args(one)) < len(sympy.Add.make_args(other))
    assert nearby.has_fewer_terms(difference, argument) == expected


@every(
    "formula, is_entrywise",
    [(A * B, True), (a * A * B, True), (A @ B, False), (A * B.T, False), (td.trace(A) * A, True), (x * y, True)],
)
def test_which_products_are_entrywise(formula, is_entrywise):
    _, (node,) = graph_and_nodes(formula)
    assert quotients._is_entrywise(node) == is_entrywise


def test_arguments_that_may_be_replaced_separately():
    """All arguments, except those factors of a product that contain exponentials, if there are several."""
    factors = (u, sympy.sin(u), sympy.exp(u), sympy.exp(v) + 1, sympy.sin(sympy.exp(v)), 1 + a)
    for chosen in (*combinations_with_replacement(factors, 2), *combinations_with_replacement(factors, 3)):
        for formula in (sympy.Mul(*chosen), sympy.Add(*chosen)):
            _, (node,) = graph_and_nodes(formula)
            whole = {part: part for part in reachable(node)}
            found = removable._separate_arguments(ArithmeticSubexpressions(frozenset()), whole, node)
            growing = [
                arg for arg in node.args if any(part.op == "call" and part.data is sympy.exp for part in reachable(arg))
            ]
            is_limited = node.op == "mul" and len(growing) > 1
            assert list(found) == [arg for arg in node.args if not is_limited or arg not in growing]


def test_series_of_as_many_functions_as_the_limit():
    """``sin(u) + sin(2*u) + ... - m*u`` has a series near 0; one more function than the limit, and it stays."""
    for count in range(MAX_FUNCTIONS - 1, MAX_FUNCTIONS + 2):
        multiples = range(1, count + 1)
        reader, (node,) = graph_and_nodes(sum(sympy.sin(m * u) for m in multiples) - sum(multiples) * u)
        (found,) = regular_at_zero(reader.graph, [node], {}, {})
        assert (found is node) == (count > MAX_FUNCTIONS)
        if found is not node:
            value = float(write(reader, found).subs(u, 1e-4))
            assert value == pytest.approx(-sum(m**3 for m in multiples) * 1e-12 / 6, rel=1e-6)


def test_reads_of_stored_arrays_are_replaced_by_their_formulas():
    """Also where the entry of an array reads another array; other reads stay."""
    T, U = (td.TensorSymbol(name, n) for name in "TU")
    reader, nodes = graph_and_nodes(
        *(T[i] - sympy.sin(x[i]), T[2 * i] * U[i + 1], x[i] + T[i] * U[n - 1], U[i], x[i]),
        *(sympy.exp(x[i]), T[i] * y[i] + 1, T[i], U[i]),
    )
    graph = reader.graph
    *formulas, first, second, one, other = nodes
    (variable,) = one.free
    size = one.args[0].shape[0]
    tables = [graph.comprehension([variable], [size], body) for body in (first, second)]
    arrays = {one.args[0]: tables[0], other.args[0]: tables[1]}
    found = removable._with_entries_of(graph, formulas, arrays, {}, frozenset())
    own = {T: lambda at: sympy.exp(x[at]), U: lambda at: sympy.exp(x[at]) * y[at] + 1}
    expected = [
        *(own[T](i) - sympy.sin(x[i]), own[T](2 * i) * own[U](i + 1), x[i] + own[T](i) * own[U](n - 1)),
        *(own[U](i), x[i]),
    ]
    for formula, wanted in zip(formulas, expected, strict=True):
        assert found[formula] is reader.read(wanted)


def test_a_quotient_that_several_products_share_is_a_factor_of_each():
    """``exp(x[i])/s`` has a name where two products have it, with any other factors; one product has none."""
    total = td.IndexedSum(sympy.exp(x[k]), (k, 0, n - 1))
    first, second = (
        td.IndexedSum(function(one[i]) * sympy.exp(x[i]) / total * one[i], over_i)
        for function, one in ((sympy.cos, y), (sympy.sin, z))
    )
    ((name, part),), reduced = td.cse([first, second])
    assert part == td.TensorComprehension(sympy.exp(x[i]) / total, (i, n))
    assert reduced == [
        td.IndexedSum(name[i] * function(one[i]) * one[i], over_i) for function, one in ((sympy.cos, y), (sympy.sin, z))
    ]
    assert td.cse([first])[0] == []


def test_choices_that_divide_by_a_norm():
    """``x/norm(x)`` where the norm is not 0: another relation, another number, and an even power are no such choice."""
    graph = Graph()
    reader = Reader(graph)
    reader.use((x @ x, a))
    square, scale = reader.read(x @ x), reader.read(a)
    norm, one = graph.pow(square, graph.const(Fraction(1, 2))), graph.one
    for exponent, relation, number in product((-3, -2, -1, 1), ("ne", "lt", "eq"), (graph.zero, one)):
        value = graph.mul((scale, graph.pow(square, graph.const(Fraction(exponent, 2)))))
        for size in (square, norm):
            choice = graph.select(graph.compare(relation, size, number), value, graph.zero)
            if choice.op == "select" and choice.args[0].op == "compare" and choice.args[0].args == (size, number):
                is_odd = exponent % 2 == 1
                expected = choice.args[0].data == "ne" and number is graph.zero and size is square and is_odd
                assert common_subexpressions._divides_by_norm(graph, choice) == expected


@every(
    "formula",
    {
        "close values": sympy.log(a / b) + sympy.log((2 * b - a) / b),
        "with linear parts": a * sympy.log(a / b) - a + b,
        "with a rest": a * sympy.log(a / b) - a + b + c,
    },
)
def test_sums_of_logarithms_whose_linear_parts_cancel(formula):
    """Near ``a = b`` the form has the digits that the direct one loses, with terms that cancel or without others."""
    reader, (node,) = graph_and_nodes(formula)
    found = deviances.deviance(reader.graph, node, {})
    assert found is not None
    at = {a: sympy.Float(1 + 2.0**-20), b: sympy.Float(1.0), c: sympy.Float(2.0**-60)}
    exact = formula.subs({name: sympy.Rational(value) for name, value in at.items()}).evalf(30)
    assert float(write(reader, found).subs(at)) == pytest.approx(float(exact), rel=1e-9)


@every("formula", [a * sympy.log(b) + c, a + b + c, a * sympy.log(a / b) - 2 * a + b, sympy.log(a / b) + sympy.log(c)])
def test_other_sums_of_logarithms_stay(formula):
    reader, (node,) = graph_and_nodes(formula)
    assert deviances.deviance(reader.graph, node, {}) is None


def test_products_fall_apart_into_groups_that_share_labels():
    """Groups of several operands become products of their own; one group, or single operands only, change nothing."""
    for formula in (
        A @ B,
        A @ x,
        x @ A @ y,
        td.outer(x, y),
        a * td.outer(x, y),
        td.outer(A @ x, y),
        td.outer(A @ x, B @ y),
    ):
        reader, (node,) = graph_and_nodes(formula)
        assert symmetry.with_outer_factors(reader.graph, [node]) == [node]
    reader, (first, second) = graph_and_nodes(A @ x, B @ y)
    graph = reader.graph
    (size,) = first.shape
    operands = [
        (arg, tuple(offset + label for label in labels))
        for offset, node in ((0, first), (10, second))
        for arg, labels in zip(node.args, node.data.inputs, strict=True)
    ]
    (one,), (other,) = ([label + offset for label in node.data.output] for offset, node in ((0, first), (10, second)))
    sizes = {label: size for _, labels in operands for label in labels}
    whole = graph.ein(1, operands, (one, other), sizes)
    (found,) = symmetry.with_outer_factors(graph, [whole])
    assert len(whole.args) == 4 and set(found.args) == {first, second}
    (single,) = symmetry.with_outer_factors(graph, [first])
    assert single is first


def test_a_product_is_cancelled_by_the_sum_that_divides_it():
    """Also where the divisors of two indices are factors of one sum, whose order has another index between them."""
    over_j = (j, 0, n - 1)
    one, other = (td.IndexedSum(sympy.exp(C[index, j]), over_j) for index in (i, k))
    for divisor, left in ((one * other, 1 / other), (one**2 * other, 1 / (one * other))):
        total = td.IndexedSum(sympy.exp(C[i, j]) / divisor, (i, 0, n - 2), (k, 0, n - 1), over_j)
        assert td.simplify_deltas(total) == td.simplify_deltas(td.IndexedSum(left, (i, 0, n - 2), (k, 0, n - 1)))


def test_guards_that_bound_or_end_a_loop():
    """Inequalities between indices and equations that give an index are used; tests of data in the sum's index stay."""
    P, Q = (td.TensorSymbol(name, n, int) for name in "PQ")
    table = {
        P[i] <= j: (False, True),
        sympy.Eq(P[i], j): (False, True),
        sympy.Eq(P[i], 2 * j): (False, True),
        sympy.Eq(P[i], Q[k]): (False, False),
        P[i] <= Q[k]: (False, False),
        sympy.Eq(P[i], k): (False, False),
        i <= j: (True, True),
        sympy.And(P[i] <= 3, i < j): (True, True),
        sympy.And(sympy.Eq(P[i], 2), P[j] < 3): (True, False),
    }
    for condition, expected in table.items():
        reader, (node, one, other) = graph_and_nodes(sympy.Piecewise((x[i] * y[j], condition), (0, True)), x[i], x[j])
        assert node.op == "guard"
        for variables, is_usable in zip((one.free, one.free | other.free), expected, strict=True):
            assert has_usable_guard(reader.graph, sorted(variables), (), node) == is_usable, condition


def test_a_power_less_its_tangent():
    """``c*((1 + u)**p - 1) - c*p*u*(1 + u)**(p - 1)`` has all digits for small u; other differences, too."""
    p = sympy.Symbol("p")
    at = {u: 1e-9, p: 2.5, c: 3.0, a: 0.75}
    exact = {name: sympy.Rational(value) for name, value in at.items()}
    for factor, tangent in product(
        (c, 1 / c, 1 / u, -2 * c), (p * u * (1 + u) ** (p - 1), u * (1 + u) ** (p - 1), a * u)
    ):
        formula = factor * ((1 + u) ** p - 1) - factor * tangent
        value = td.lambdify(tuple(at), formula, backend="numpy")(*at.values())
        assert value == pytest.approx(float(formula.subs(exact).evalf(30)), rel=1e-6)


def test_terms_with_a_transpose_share_their_factors_with_other_terms():
    """Without symmetric matrices a factor is taken out of all terms that have it, also of more than two."""
    written = A * (C @ A @ C) + A * (C @ A.T @ C) + A
    assert str(td.simplify_deltas(written)) == "A*(C @ (A + A.T) @ C + 1)"
