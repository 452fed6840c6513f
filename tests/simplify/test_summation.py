"""`summation` against brute force: random systems of equations, inequalities and congruences."""

import itertools
import random

from every import every
from fuzz.systems import count_points

from sympy_tensordiff.graph.nodes import Graph, reachable
from sympy_tensordiff.integer.affine import Affine, Constraint
from sympy_tensordiff.simplify.bounds import tighten
from sympy_tensordiff.simplify.deltas import summation

V = Affine.variable


def value(graph, node, point):
    """The exact value of a node without reads, with all sums run by enumeration."""
    if node.op == "const":
        return node.data
    if node.op == "index":
        return node.data.evaluate(point)
    if node.op == "add":
        return sum(value(graph, a, point) for a in node.args)
    if node.op == "mul":
        result = 1
        for a in node.args:
            result *= value(graph, a, point)
        return result
    if node.op == "pow":
        return value(graph, node.args[0], point) ** value(graph, node.args[1], point)
    if node.op == "guard":
        return value(graph, node.args[0], point) if all(row.holds(point) for row in node.data) else 0
    assert node.op == "sum"
    variables, rows, body = graph.open(node)
    runs = itertools.product(range(-40, 41), repeat=len(variables))
    points = ({**point, **dict(zip(variables, run, strict=True))} for run in runs)
    return sum(value(graph, body, p) for p in points if all(row.holds(p) for row in rows))


def random_problem(seed):
    """A sum over a box with a random equation and perhaps a congruence, of a product of indices."""
    rng = random.Random(seed)
    graph = Graph()
    variables = [graph.fresh(name) for name in "ij"]
    outer = graph.fresh("p")
    rows = []
    for v in variables:
        low = rng.randint(-2, 1)
        rows += [Constraint("ge", V(v) - low), Constraint("ge", low + rng.randint(0, 4) - V(v))]
    c = [rng.randint(-4, 4) for _ in variables]
    form = sum((a * V(v) for a, v in zip(c, variables, strict=True)), Affine.of(rng.randint(-3, 3)))
    rows.append(Constraint("eq", form - rng.choice([1, 1, 2]) * V(outer)))
    if rng.random() < 0.4:
        rows.append(Constraint("mod", V(variables[0]) + rng.randint(0, 2) * V(variables[1]), rng.randint(2, 3)))
    body = graph.mul([graph.index(V(v) + rng.randint(1, 3)) for v in variables])
    if rng.random() < 0.4:
        body = graph.add([body, graph.guard([Constraint("ge", V(variables[1]) - 1)], graph.index(V(variables[0]) + 5))])
    return graph, variables, outer, rows, body


@every("seed", range(50))
def test_value_is_kept_and_no_equation_holds_a_bound_variable(seed):
    graph, variables, outer, rows, body = random_problem(seed)
    raw = graph.sum(variables, rows, body)
    facts = (Constraint("ge", V(outer) + 12), Constraint("ge", 12 - V(outer)))
    result = tighten(graph, [summation(graph, variables, rows, body)], facts, frozenset())[0]
    for node in reachable(result):
        if node.op == "sum":
            bound = set(range(-node.height, -node.args[0].height))
            assert all(row.kind == "ge" for row in node.data if row.form.atoms() & bound)
    for p in range(-12, 13):
        small = graph.substitute(raw, {outer: Affine.of(p)})
        expected = 0 if small is graph.zero else brute(graph, small)
        got = graph.substitute(result, {outer: Affine.of(p)})
        assert value(graph, got, {}) == expected, (seed, p)


def brute(graph, node):
    variables, rows, body = graph.open(node)
    runs = itertools.product(range(-3, 7), repeat=len(variables))
    points = (dict(zip(variables, run, strict=True)) for run in runs)
    return sum(value(graph, body, p) for p in points if all(row.holds(p) for row in rows))


def test_loops_run_over_the_points_only():
    graph = Graph()
    i, j, p = (graph.fresh(name) for name in "ijp")
    rows = [
        Constraint("ge", V(i)),
        Constraint("ge", 5 - V(i)),
        Constraint("ge", V(j)),
        Constraint("ge", 7 - V(j)),
        Constraint("eq", V(i) + 2 * V(j) - V(p)),
    ]
    facts = (Constraint("ge", V(p)), Constraint("ge", 19 - V(p)))
    result = tighten(graph, [summation(graph, [i, j], rows, graph.index(V(i) + 100))], facts, frozenset())[0]
    assert result.op == "sum"
    for at in range(20):
        variables, left, _ = graph.open(graph.substitute(result, {p: Affine.of(at)}))
        assert len(variables) == 1
        assert count_points(left, variables) == count_points([r.substitute({p: Affine.of(at)}) for r in rows], [i, j])
