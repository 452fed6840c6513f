"""Steps of the sweeps on their own: exact projections, guards of sums, orders of products, names, slopes at zeros."""

from __future__ import annotations

from itertools import permutations, product
from math import prod
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest
import sympy
from every import every

import sympy_tensordiff as td
from sympy_tensordiff.derivative import modes, pullbacks, range_pullbacks, sweep, tensor_pullbacks, through_names
from sympy_tensordiff.derivative.product_trees import product_tree
from sympy_tensordiff.graph.contraction_order import Hints
from sympy_tensordiff.graph.nodes import Graph, reachable
from sympy_tensordiff.graph.read import Reader
from sympy_tensordiff.integer.affine import Affine, Constraint

a, b, c, u, v = sympy.symbols("a b c u v")
i, j, k, p, n, m = td.indices("i j k p n m")
x, y, z = (td.TensorSymbol(name, n) for name in "xyz")
A, B = (td.TensorSymbol(name, (n, n)) for name in "AB")


def graph_and_nodes(*expressions):
    reader = Reader(Graph())
    reader.use(expressions)
    return reader, [reader.read(expression) for expression in expressions]


def test_rows_that_project_exactly():
    """Equations, inequalities with coefficients of 1 for the eliminated variables, and rows without these."""
    i, j, p = (Affine.variable(number) for number in range(3))
    for own, other, kind in product(range(-3, 4), (0, 1, 2), ("eq", "ge", "ne")):
        row = Constraint(kind, own * i + other * j + p - 1)
        for variables, coefficients in (({0}, [own]), ({0, 1}, [own, other]), ({1}, [other]), (set(), [])):
            expected = kind == "eq" or (
                all(abs(one) <= 1 for one in coefficients) and (kind == "ge" or not any(coefficients))
            )
            assert sweep._projects_exactly(row, variables) == expected


@every("gap", [1, 2])
def test_points_at_which_a_sum_is_empty_stay_excluded(gap):
    """``log(x[p])`` only for ``3*i - gap < p <= 3*i``: where no i exists, x may be 0, and the derivative is 0 there."""
    condition = sympy.And(p <= 3 * i, p > 3 * i - gap)
    total = td.IndexedSum(sympy.Piecewise((y[i] * sympy.log(x[p]), condition), (0, True)), (i, 0, n - 1), (p, 0, n - 1))
    length = 8
    is_used = np.array([any(3 * one - gap < at <= 3 * one for one in range(length)) for at in range(length)])
    values, weights = np.where(is_used, 2.0, 0.0), np.arange(1.0, length + 1)
    for gradient in (td.gradient(total, x), td.jacobian(total, x)):
        found = td.lambdify((x, y), gradient, backend="numpy")(values, weights)
        expected = [
            sum(weights[one] for one in range(length) if 3 * one - gap < at <= 3 * one) / 2 if is_used[at] else 0
            for at in range(length)
        ]
        assert found == pytest.approx(np.array(expected))


def test_points_at_which_a_sum_over_two_indices_is_empty_stay_excluded():
    """``log(x[p])`` only for ``p <= 5*i + 7*k <= p + 1``: no single value of i or k says for which p these exist."""
    condition = sympy.And(p <= 5 * i + 7 * k, 5 * i + 7 * k <= p + 1)
    ranges = [(index, 0, n - 1) for index in (i, k, p)]
    total = td.IndexedSum(sympy.Piecewise((y[i] * sympy.log(x[p]), condition), (0, True)), *ranges)
    length, weights = 9, np.arange(1.0, 10)
    pairs = [(5 * one + 7 * other, weights[one]) for one, other in product(range(length), repeat=2)]
    sums = np.array([sum(weight for value, weight in pairs if at <= value <= at + 1) for at in range(length)])
    assert not all(sums) and any(sums)
    found = td.lambdify((x, y), td.gradient(total, x), backend="numpy")(np.where(sums, 2.0, 0.0), weights)
    assert found == pytest.approx(sums / 2)


def test_trees_of_products_have_the_fewest_operations():
    """Among all orders of pairwise products, by enumeration, for random labels, extents and results."""
    random, sizes = Random(2), dict(zip("ijkl", td.indices("i4 j9 k2 l7"), strict=True))

    def least(inputs, output, extents):
        if len(inputs) == 1:
            return 0
        best = None
        for one, other in permutations(range(len(inputs)), 2):
            if one < other:
                rest = [labels for number, labels in enumerate(inputs) if number not in (one, other)]
                own = inputs[one] | inputs[other]
                needed = output.union(*rest)
                work = prod(extents[label] for label in own) + least([*rest, own & needed], output, extents)
                best = work if best is None else min(best, work)
        return best

    for _ in range(60):
        graph = Graph()
        reader = Reader(graph)
        labels = [tuple(random.sample("ijkl", random.randint(1, 3))) for _ in range(random.randint(3, 4))]
        once = {one for one in "ijkl" if sum(one in own for own in labels) == 1}
        output = {*once, *random.sample([one for one in "ijkl" if any(one in own for own in labels)], 1)}
        tensors = [td.TensorSymbol(f"T{number}", [sizes[one] for one in own]) for number, own in enumerate(labels)]
        reader.use(tensors)
        operands = [(reader.read(tensor), own) for tensor, own in zip(tensors, labels, strict=True)]
        tree = product_tree(graph, operands, sorted(output), lambda number: number == 1)
        hints = Hints()
        extents = {one: hints(extent) for node, own in operands for one, extent in zip(own, node.shape, strict=True)}
        work, pending = 0, [tree]
        while pending:
            part = pending.pop()
            pending += part.factors
            if part.factors:
                work += prod(extents[one] for one in {one for factor in part.factors for one in factor.labels})
                assert part.is_active == any(factor.is_active for factor in part.factors)
            else:
                assert part.is_active == (part.place == 1)
        assert work == least([frozenset(own) for own in labels], frozenset(output), extents)


def test_additions_whose_terms_are_all_guarded():
    """They are those that become 0 if each guard is replaced by 0."""
    random = Random(5)
    for _ in range(300):
        graph = Graph()
        index = graph.fresh("i")
        rows = [Constraint("ge", Affine.variable(index) - number) for number in range(1, 4)]
        leaves = [graph.scalar(sympy.Symbol(name)) for name in "ab"]
        nodes = [*leaves, *(graph.guard([row], leaf) for row in rows for leaf in leaves)]
        additions = []
        for _ in range(4):
            additions.append(graph.add(random.sample(nodes, 2)))
            nodes.append(random.choice((additions[-1], graph.mul((leaves[0], additions[-1])))))
        for node in (*additions, *(graph.mul((leaf, one)) for leaf in leaves for one in additions)):
            if node.op in ("add", "mul") and any(part.op == "add" for part in reachable(node)):
                done = {}
                for part in reachable(node):
                    is_guard = part.op == "guard"
                    done[part] = graph.zero if is_guard else graph.with_args(part, [done[arg] for arg in part.args])
                outside = part_outside_of_guards(node)
                if any(part.op == "add" for part in outside):
                    assert pullbacks._is_guarded(node) == (done[node] is graph.zero)


def part_outside_of_guards(node):
    """Return the nodes inside of additions and products of `node`, guards excepted."""
    return [node, *(part for arg in node.args if node.op in ("add", "mul") for part in part_outside_of_guards(arg))]


def test_finite_slopes_leave_cotangents_whole():
    """A rule is applied once to a cotangent without guards, and to each term of one with guards."""
    reader, (one, other, slope, guarded, second) = graph_and_nodes(
        a, b, sympy.sin(u), sympy.Piecewise((a, i < j), (0, True)), sympy.Piecewise((b, i > k), (0, True))
    )
    graph, seen = reader.graph, []

    def rule(part):
        seen.append(part)
        return graph.mul((part, slope))

    for cotangent, expected in (
        (graph.add((one, other)), None),
        (one, None),
        (graph.add((one, guarded)), None),
        (graph.add((guarded, second)), {one, other}),
    ):
        seen.clear()
        pullbacks.pull_through_choices(graph, cotangent, rule, certain=True)
        assert cotangent in seen if expected is None else expected <= set(seen) and cotangent not in seen


@every(
    "formula", [(a - b) ** 2, sympy.Max(a**2, b**2), sympy.Abs(a - b), sympy.cbrt((a - b) ** 2), sympy.Min(a**2, b**2)]
)
def test_slopes_at_zeros_of_nonnegative_values(formula):
    """The slope is 0 exactly where the value is 0."""
    reader, (base, slope) = graph_and_nodes(formula, u)
    found = pullbacks.zero_at_kink(reader.graph, base, slope)
    assert found.op == "select" and found.args[1:] == (slope, reader.graph.zero)
    condition = found.args[0]
    assert condition.op == "compare" and condition.data == "ne" and condition.args[1] is reader.graph.zero
    if base.data in (sympy.Max, sympy.Min):
        assert condition.args[0] is base


@every("formula, is_divided", [(1, False), (v, False), (v / u, True), (u, False), (u**-2, True), (u**-3 * v, True)])
def test_terms_that_are_divided_by_a_value(formula, is_divided):
    reader, (node, term, root) = graph_and_nodes(u, v * sympy.Integer(1) * formula, u ** sympy.Rational(-1, 2))
    graph = reader.graph
    assert range_pullbacks._is_divided(graph, node, term) == is_divided
    index = graph.fresh("i")
    guarded = graph.guard([Constraint("ge", Affine.variable(index))], term)
    assert range_pullbacks._is_divided(graph, node, guarded) == is_divided
    assert not range_pullbacks._is_divided(graph, node, root)


@every(
    "entry, is_infinite",
    [
        (1 / (x[i] - x[j]), True),
        (y[i] / (x[i] - x[j]) ** 2, True),
        (sympy.exp(x[i] - x[j]), False),
        (1 / (x[i] + x[j]), False),
        (x[i] * x[j], False),
        (1 / (x[i] - y[j]), False),
    ],
)
def test_definitions_that_are_infinite_on_a_diagonal(entry, is_infinite):
    definition = td.TensorComprehension(entry, (i, n), (j, n))
    assert through_names._is_infinite_on_a_diagonal(definition) == is_infinite


def test_names_under_the_conditions_of_their_values():
    reader, (one, entry, guarded, second, select) = graph_and_nodes(
        *(a * b, u, sympy.Piecewise((a, i < j), (0, True)), sympy.Piecewise((b, i > j), (0, True))),
        sympy.Piecewise((a, u < v), (0, True)),
    )
    graph = reader.graph
    under = through_names._name_under_conditions
    assert under(graph, one, entry) is entry
    for condition in (guarded, second):
        assert under(graph, condition, entry) is graph.guard(condition.data, entry)
        assert under(graph, graph.mul((entry, condition)), entry) is graph.guard(condition.data, entry)
    assert under(graph, select, entry) is graph.select(select.args[0], entry, graph.zero)
    both = graph.add((guarded, second))
    assert under(graph, both, entry) is graph.add([graph.guard(term.data, entry) for term in both.args])
    assert under(graph, graph.add((guarded, one)), entry) in (None, entry)
    overlapping = reader.read(_where(b, i < k))
    assert under(graph, graph.add((guarded, overlapping)), entry) is None


def test_only_active_arguments_have_cotangents():
    reader, (node, cotangent) = graph_and_nodes(td.hypot(A, B), A * B)
    for active in product((False, True), repeat=2):
        is_active = dict(zip(node.args, active, strict=True)).__getitem__
        found = tensor_pullbacks._elementwise(reader.graph, node, cotangent, 0, is_active, True)
        assert [arg for arg, _ in found] == [arg for arg, own in zip(node.args, active, strict=True) if own]


@every("name", [sympy.Symbol("t0"), td.TensorSymbol("t0", n), td.indices("t0")])
def test_names_of_common_subexpressions_are_new(name):
    """No part has the name of a scalar, of a tensor, or of a bound index of the expressions."""
    used = td.IndexedSum(x[name], (name, 0, n - 1)) if getattr(name, "is_integer", False) else name
    used = td.IndexedSum(name[i], (i, 0, n - 1)) if isinstance(name, td.TensorSymbol) else used
    shared = sympy.exp(td.IndexedSum(y[i] ** 2, (i, 0, n - 1)) + a)
    parts, _ = td.cse([shared * used, sympy.sin(shared) + used])
    assert parts and "t0" not in {symbol.name for symbol, _ in parts}


def test_the_cheaper_of_two_forms_is_chosen():
    """Of a matrix product and a product with a vector the second one, whichever is preferred; costs alone count."""
    reader, (slow, fast) = graph_and_nodes(A @ B, A @ x)
    graph = reader.graph
    work = SimpleNamespace(graph=graph)
    assert modes._less_work(work, [slow], [fast]) == [fast]
    assert modes._less_work(work, [fast], [slow]) == [fast]
    same = [fast]
    assert modes._less_work(work, same, [fast]) is same


def test_tangents_have_unused_names():
    """Numbers and symbols need no name; others get the wanted one, or one with the first free number."""
    names = through_names.ThroughNames.__new__(through_names.ThroughNames)
    names._taken = {"dg", "dh", "dh_1"}
    for plain in (sympy.Integer(2), sympy.Float(0.5), a):
        assert names._with_unused_name("dg", plain) is plain
    for wanted, name in (("df", "df"), ("dg", "dg_1"), ("dh", "dh_2"), ("df", "df_1")):
        found = names._with_unused_name(wanted, x * y)
        assert found.name == name and found.definition == x * y


def test_finite_slopes_leave_sums_of_guarded_terms_whole():
    """A slope that is known to be finite is multiplied by the sum; one that may be infinite, by each guarded term."""
    graph = Graph()
    index, node, slope = graph.fresh("p"), graph.scalar(a), graph.pow(graph.scalar(u), graph.const(-1))
    row = Constraint("ge", Affine.variable(graph.fresh("q")) - Affine.variable(index))
    ends = [Constraint("ge", Affine.variable(index)), Constraint("ge", 3 - Affine.variable(index))]
    cotangent, seen = graph.sum([index], ends, graph.guard([row], node)), []

    def rule(part):
        seen.append(part)
        return graph.mul((part, slope))

    assert cotangent.op == "sum" and cotangent.args[0].op == "guard"
    assert pullbacks.pull_through_choices(graph, cotangent, rule, certain=True) is graph.mul((cotangent, slope))
    assert seen == [cotangent]
    assert pullbacks.pull_through_choices(graph, cotangent, rule, certain=False) is not graph.mul((cotangent, slope))


def test_letters_of_users_name_the_axes_of_parts():
    """In a product with a named part, its axes have the letters of the einsum that the user has written for it."""
    T = td.TensorSymbol("T", (n, n, n))
    square = td.einsum("apq,aqr->apr", T, T)
    for shared in (square, td.exp(square)):
        ((name, part),), reduced = td.cse([td.einsum("apr,pr->a", shared, A), td.einsum("apr,r->ap", shared, x)])
        assert part == shared
        assert sorted("".join(one.inputs) + "".join(one.output) for one in reduced) == [
            "apr" + "r" + "ap",
            "pr" + "apr" + "a",
        ]
        assert all(name in one.args for one in reduced)


def _where(value, condition):
    return sympy.Piecewise((value, condition), (0, True))


def singular_name(case):
    """Return a formula of a named logarithm that no term reads at an entry 0 of x."""
    whole = td.name(td.log(x), "L")
    if case == "scalar":
        return _where(td.name(sympy.log(x[0]), "S") ** 2, x[1] > 2) + x[2]
    positive, large = (
        td.elementwise(lambda one, other, level=level: _where(other, one > level), x, whole) for level in (0, 1)
    )
    if case.startswith("whole"):
        return td.sum(y * positive) + (td.sum(large) if case == "whole, two choices" else 0)
    entry = td.name(td.TensorComprehension(sympy.log(x[i]), (i, n)), "M")[i]
    return td.IndexedSum(_where(entry**2, x[i] > 0) + _where(entry, x[i] > 1), (i, 0, n - 1))


@pytest.mark.parametrize("case", ["scalar", "whole", "whole, two choices", "entries"])
def test_named_logarithms_at_entries_that_are_not_read(case):
    """The derivative is 0 there; elsewhere it is that of the formula without a name."""
    at, weights = np.array([0.0, 0.5, 2.0, 3.0]), np.array([1.0, 2.0, 3.0, 4.0])
    gradient = td.gradient(singular_name(case), x)
    found = td.lambdify((x, y), gradient, backend="numpy")(at, weights)
    inside = at > 0
    slope, logarithm = np.divide(1, at, where=inside, out=np.zeros(4)), np.log(at, where=inside, out=np.zeros(4))
    expected = {
        "scalar": np.array([0.0, 0.0, 1.0, 0.0]),
        "whole": slope * weights,
        "whole, two choices": slope * (weights + (at > 1)),
        "entries": slope * (2 * logarithm + (at > 1)),
    }[case]
    assert found == pytest.approx(expected)
