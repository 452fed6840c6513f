"""Accurate and canonical forms on their own: entropies, angles, densities, signs, terms far out, limits of lengths."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from functools import partial
from itertools import product
from random import Random

import pytest
import sympy
from every import every
from sympy.codegen.cfunctions import expm1

import sympy_tensordiff as td
from sympy_tensordiff.graph.functions import logistic_density
from sympy_tensordiff.graph.nodes import Graph, reachable
from sympy_tensordiff.graph.read import Reader
from sympy_tensordiff.graph.write import write
from sympy_tensordiff.simplify import (
    algebra,
    canonical_signs,
    close_values,
    growing_quotients,
    logistic,
    products,
    removable,
)
from sympy_tensordiff.simplify.cancellation import MAX_TERMS, _Rewriter, without_cancellation
from sympy_tensordiff.simplify.double_exponentials import DoubleExponentials
from sympy_tensordiff.simplify.logistic_densities import with_densities

a, b, c, u, v = sympy.symbols("a b c u v")
n, i = td.indices("n i")
A, B = (td.TensorSymbol(name, (n, n)) for name in "AB")
x = td.TensorSymbol("x", n)


def graph_and_nodes(*expressions):
    reader = Reader(Graph())
    reader.use(expressions)
    return reader, [reader.read(expression) for expression in expressions]


def value_of(reader, node, at):
    return float(write(reader, node).subs(at).evalf())


@every("factor, others", list(product((1, -2, a, a * b), ((), (c,), (c, a * c)))))
def test_the_entropy_of_two_states_keeps_its_other_terms(factor, others):
    """``softplus(u) - u*sigmoid(u)`` with any factor and any other terms has their value in the other form, too."""
    entropy = factor * td.softplus(u) - factor * u * td.sigmoid(u)
    reader, (node,) = graph_and_nodes(sympy.Add(entropy, *others))
    found = close_values.softplus_less_slope(reader.graph, node)
    assert found is not None
    for at in (-1.5, 0.75, 3.0):
        own = {a: 0.5, b: 3.0, c: -0.25, u: at}
        direct = float(factor * 1.0 if isinstance(factor, int) else factor.subs(own)) * (
            math.log1p(math.exp(at)) - at / (1 + math.exp(-at))
        )
        assert value_of(reader, found, own) == pytest.approx(direct + sum(float(one.subs(own)) for one in others))
    reader, (node,) = graph_and_nodes(factor * td.softplus(u) + factor * u * td.sigmoid(u))
    assert close_values.softplus_less_slope(reader.graph, node) is None


@every("function", [sympy.atan, sympy.asin, sympy.acos], ids=str)
def test_angles_less_a_right_angle(function):
    """``c*f(u) + c*q*pi`` in another form, or unchanged: both have one value; other sums have no such form."""
    own = {c: 1.25, u: 0.375}
    for factor, quarter in product((1, -1, 2, c, -c / 3), (2, -2, -1, 1)):
        reader, (term, other, wrong) = graph_and_nodes(factor * function(u), factor * quarter * sympy.pi / 4, c * a)
        found = close_values.complement_of_angle(reader.graph, term, other)
        assert quarter == 2 or function is not sympy.atan or (found is None) == (quarter == 1)
        if found is not None:
            direct = float((factor * function(u) + factor * quarter * sympy.pi / 4).subs(own))
            assert value_of(reader, found, own) == pytest.approx(direct)
        assert close_values.complement_of_angle(reader.graph, term, wrong) is None
    reader, (term, other) = graph_and_nodes(c * sympy.asin(u), c * sympy.pi / 2)
    assert close_values.complement_of_angle(reader.graph, term, other) is not None


@every("power", [2, 4])
def test_secants_are_densities_unless_the_cosine_is_needed(power):
    reader, (secant, cosine, other) = graph_and_nodes(
        sympy.cosh(u) ** -power, sympy.cosh(u) + v, (4 * logistic_density(2 * u)) ** (power // 2)
    )
    assert with_densities(reader.graph, [secant], {}) == [other]
    assert with_densities(reader.graph, [secant, cosine], {}) == [secant, cosine]


def _replaced(table, node):
    return table.get(node, node)


def test_rewritten_nodes_take_over_the_uses():
    """The uses of a new node are its own and those of the node it replaces; nodes with bound variables stay."""
    random = Random(4)
    for _ in range(50):
        reader, leaves = graph_and_nodes(A, B, A.T, x, a)
        graph = reader.graph
        nodes = list(leaves[:3])
        for _ in range(4):
            nodes.append(graph.add(random.sample(nodes, 2)))
        nodes = [*reachable(*nodes)]
        old, new = random.sample([node for node in nodes if node.op != "tensor"], 2)
        if old in reachable(new):
            continue
        before = Counter({node: random.randint(0, 4) for node in nodes})
        uses = +before  # nodes that are not used have no entry
        change = partial(_replaced, {old: new})
        (found,) = products.rewritten(graph, [old], reachable(old), change, uses)
        assert found is new and uses[new] == before[new] + before[old]
        assert all(uses[node] == before[node] for node in nodes if node is not new)


def test_numbers_in_front_that_must_be_written():
    """Each of numerator and denominator counts if it is not 1, twice in front of a sum."""
    for numerator, denominator in product(range(1, 5), repeat=2):
        number = Fraction(numerator, denominator)
        expected = sum(part != 1 for part in (number.numerator, number.denominator))
        assert canonical_signs._signs_of(number, False) == expected
        assert canonical_signs._signs_of(number, True) == 2 * expected


@every("number", [Fraction(1, 2), Fraction(-1, 3), Fraction(2, 3), Fraction(4), Fraction(-3)])
def test_numbers_in_front_of_choices(number):
    """A fraction in front of the only value that is not 0 is in front of the choice; a whole number stays inside."""
    q = sympy.Rational(number)
    for values, is_alone in (((q * a, 0), True), ((0, q * a), True), ((q * a, q * b), False)):
        reader, (one, other, low, high) = graph_and_nodes(*map(sympy.sympify, values), u, v)
        graph = reader.graph
        node = graph.select(graph.compare("lt", low, high), one, other)
        (found,) = canonical_signs.with_canonical_signs(graph, [node])
        is_outside = is_alone and number.denominator != 1
        assert (found.op == "mul") == is_outside
        at = {a: 0.75, b: 2.0, u: 1.0, v: 3.0}
        assert value_of(reader, found, at) == pytest.approx(value_of(reader, node, at))


@every(
    "formula",
    {
        "power": u**2 / (u + 1) ** 3,
        "roots": sympy.sqrt(u**2 + 1) * u,
        "odd root": (u + 3) ** sympy.Rational(1, 2) / u**3,
        "logarithm": sympy.log(u + 2) * a,
        "quotient": a * u**3 / (u + 1),
        "two roots": sympy.sqrt(u**2 + 1) / sympy.sqrt(u + 2),
    },
)
def test_terms_far_out_have_the_value_of_the_term(formula):
    """The sum of ``rest*u**order*f(u)*...`` over the found terms is the term, for each variable ``u = 1/b``."""
    reader, (node,) = graph_and_nodes(formula)
    graph, parts = reader.graph, removable.ArithmeticSubexpressions(frozenset())
    variables = [one for one in removable.variables_far_out(graph, parts, node) if one.lead.op == "scalar"]
    assert variables
    for variable in variables:
        terms = removable._terms_far_out(graph, parts, node, variable)
        total = graph.add(
            graph.mul((term.rest, graph.pow(variable.node, graph.const(term.order)), *term.factors)) for term in terms
        )
        for size in (20.0, 1000.0):
            at = {u: -size if variable.side < 0 and "sqrt(u + 2)" not in str(formula) else size, a: 0.75}
            if variable.side < 0 and at[u] > 0:
                continue
            direct = complex(formula.subs(at).evalf())
            assert complex(write(reader, total).subs(at).evalf()) == pytest.approx(direct)


@every("whole, growing", [(2, 1.0), (1, 1.0), (1, -1.0)])
def test_exponentials_that_multiply_falling_terms(whole, growing):
    """``exp(m*u)`` is multiplied into a sum of terms that fall at least as fast, without changing the value."""
    reader, (node, other) = graph_and_nodes(
        sympy.exp(whole * u) * (a * td.sigmoid(-u) ** whole + td.sigmoid(-u) ** (whole + 1)), sympy.exp(u) * (a + b)
    )
    found = growing_quotients.with_bounded_terms(reader.graph, node)
    assert found is not node and growing_quotients.with_bounded_terms(reader.graph, other) is other
    at = {a: 0.5, u: growing}
    assert value_of(reader, found, at) == pytest.approx(value_of(reader, node, at))


@every(
    "formula, rest",
    [
        (u * (a - 1), u),
        (u * v * (a + b + 2), u * v),
        (u * (a + b), None),
        (u * v, None),
        (a - 1, 1),
        (u * expm1(a), None),
    ],
)
def test_factors_beside_a_sum_with_a_number(formula, rest):
    reader, (node, *expected) = graph_and_nodes(formula, *([] if rest is None else [sympy.sympify(rest)]))
    assert algebra._multiplied(reader.graph, node) is (expected[0] if expected else None)


def test_additions_as_long_as_the_limit_are_rewritten():
    """``exp(u) - 1`` among other terms is ``expm1(u)``, up to the limit of the number of terms."""
    others = sympy.symbols("p:16")
    for count in (2, MAX_TERMS - 1, MAX_TERMS, MAX_TERMS + 1):
        formula = sympy.Add(*others[: count - 2]) + sympy.exp(u) - 1
        reader, (node,) = graph_and_nodes(formula)
        found = _Rewriter(reader.graph, {}).form_as_written(node)
        is_rewritten = any(part.op == "call" and part.data is expm1 for part in reachable(found))
        assert len(node.args) == count and is_rewritten == (count <= MAX_TERMS)


@every("one, other", list(product((2, 3.5, Fraction(1, 3)), (4, 0.1, Fraction(5, 2)))))
def test_numbers_of_tangents_are_floats_if_one_of_them_is(one, other):
    """``(c*sinh(u))**3/(d*cosh(u))**2`` is ``(c/d)**2*tanh(u)**2*c*sinh(u)``: exact for fractions."""
    graph = Graph()
    u = graph.scalar(sympy.Symbol("u"))
    exponentials = [graph.call(sympy.exp, (argument,)) for argument in (u, graph.neg(u))]
    sine, cosine = (
        graph.add(
            (
                graph.scale(number / 2 if isinstance(number, float) else Fraction(number) / 2, exponentials[0]),
                graph.scale(
                    sign * (number / 2 if isinstance(number, float) else Fraction(number) / 2), exponentials[1]
                ),
            )
        )
        for number, sign in ((one, -1), (other, 1))
    )
    work = logistic._Logistic(graph, True)
    found = work.tangent(graph.pow(sine, graph.const(3)), graph.pow(cosine, graph.const(-2)))
    number = next((part.data for part in found if part.op == "const"), 1)
    is_float = isinstance(one, float) or isinstance(other, float)
    assert isinstance(number, float) == is_float
    assert number == pytest.approx((float(one) / float(other)) ** 2)
    assert any(part.op == "pow" and part.args[0].data is sympy.tanh for part in found)


def test_entries_of_arrays_inside_of_functions_are_opened():
    """In an argument of a function, ``T[i] - 1`` for ``T[i] = exp(x[i])`` is ``expm1(x[i])``, as outside of it."""
    T = td.TensorSymbol("T", n)
    for formula, expected in (
        (sympy.sin(T[i] - 1), sympy.sin(expm1(x[i]))),
        (T[i] - 1, expm1(x[i])),
        (sympy.cos(sympy.sin(T[i] - 1)), sympy.cos(sympy.sin(expm1(x[i])))),
        (sympy.sin(T[i] + a), sympy.sin(T[i] + a)),
    ):
        reader, (node, wanted, entry, body) = graph_and_nodes(formula, expected, T[i], sympy.exp(x[i]))
        graph = reader.graph
        table = graph.comprehension([*entry.free], entry.args[0].shape, body)
        assert without_cancellation(graph, [table, node], [entry.args[0]])[1] is wanted


def test_entries_behind_several_arrays_are_opened():
    """``T[i] - 1`` with ``T = exp(V)``, ``V = 2*U``, ``U = W - 1``, ``W = exp(x)`` is ``expm1(2*expm1(x[i]))``."""
    T, U, V, W = (td.TensorSymbol(name, n) for name in "TUVW")
    bodies = (sympy.exp(x[i]), W[i] - 1, 2 * U[i], sympy.exp(V[i]))
    reader, nodes = graph_and_nodes(T[i] - 1, expm1(2 * expm1(x[i])), W[i], U[i], V[i], T[i], *bodies)
    graph, (node, expected, *rest) = reader.graph, nodes
    entries, bodies = rest[:4], rest[4:]
    tables = [
        graph.comprehension([*entry.free], entry.args[0].shape, body)
        for entry, body in zip(entries, bodies, strict=True)
    ]
    assert without_cancellation(graph, [*tables, node], [entry.args[0] for entry in entries])[-1] is expected


def test_numbers_in_front_of_two_branches():
    """The number with which the fewest numbers are written: the front, and what is left of each branch."""
    _, (plain, total) = graph_and_nodes(a, a + b)
    fractions = [Fraction(1, 2), Fraction(2, 3), Fraction(4, 3), Fraction(3), Fraction(1)]
    for pair, cores in product(product(fractions, repeat=2), product((plain, total), repeat=2)):
        values = [canonical_signs.Signed(core, number, core) for number, core in zip(pair, cores, strict=True)]

        def written(front, pair=pair, cores=cores):
            left = [(number / front, 1 + (core is total)) for number, core in zip(pair, cores, strict=True)]
            return sum(
                ((n.numerator != 1) + (n.denominator != 1)) * times for n, times in [(Fraction(front), 1), *left]
            )

        found = canonical_signs._front_number(values)
        content = canonical_signs.content_of(pair)
        if content.denominator == 1:
            assert found == content
        else:
            assert written(found) == min(map(written, (1, *pair)))


def test_entries_that_grow_are_opened():
    """An entry of an array of exponentials is its formula; one of an array of other values stays a read."""
    T = td.TensorSymbol("T", n)
    for body, is_opened in ((sympy.exp(x[i]), True), (sympy.sin(x[i]), False), (a * x[i], False)):
        reader, (entry, formula) = graph_and_nodes(T[i], body)
        graph = reader.graph
        table = graph.comprehension([*entry.free], entry.args[0].shape, formula)
        found = DoubleExponentials(graph, {entry.args[0]: table}).entry(entry)
        assert found is (formula if is_opened else entry)
