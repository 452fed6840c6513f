"""`tabulated` against brute force: the same entries, and nothing read outside of a shape on the way."""

import itertools
import random

import pytest
import sympy
from every import every

from sympy_tensordiff.graph.nodes import Graph, reachable
from sympy_tensordiff.integer.affine import Affine, Constraint, quotient
from sympy_tensordiff.simplify.tables import TABLE_SIZE, tabulated

V = Affine.variable
EXTENTS = (4, 3)
LENGTH = 5


def value(graph, node, point):
    """The value of a node of reads; a table is computed as a whole, and so must be meant everywhere."""
    match node.op:
        case "const":
            return node.data
        case "add":
            return sum(value(graph, a, point) for a in node.args)
        case "mul":
            return sympy.prod(value(graph, a, point) for a in node.args)
        case "pow":
            return value(graph, node.args[0], point) ** node.args[1].data
        case "call":
            return value(graph, node.args[0], point) ** 2 + 1
        case "guard":
            return value(graph, node.args[0], point) if all(row.holds(point) for row in node.data) else 0
    assert node.op == "read", node
    (tensor,), index = node.args, tuple(form.evaluate(point) for form in node.data)
    if tensor.op == "tensor":
        assert all(0 <= n < LENGTH for n in index), index
        return sum((3 + 7 * m) ** (n + 1) for m, n in enumerate(index))
    axes, _, body = graph.open(tensor)
    shape = [range(extent.constant) for extent in tensor.data]
    table = {p: value(graph, body, {**point, **dict(zip(axes, p, strict=True))}) for p in itertools.product(*shape)}
    return table[index]


class Random:
    """Sums of guarded reads in two axes and two further indices."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.graph = Graph()
        self.axes = [self.graph.fresh("i"), self.graph.fresh("j")]
        self.around = [self.graph.fresh("p"), self.graph.fresh("n")]
        self.tensor = self.graph.tensor("x", (Affine.of(LENGTH),))
        self.entry = self.graph.add([self.term() for _ in range(self.random.randint(1, 3))])

    def form(self):
        form = Affine.of(self.random.randint(-3, 3))
        for v in (*self.axes, *self.around):
            form = form + self.random.choice((-2, -1, 0, 0, 1, 1)) * V(v)
        if self.random.random() < 0.2:
            return quotient(form, 2) + self.random.choice((0, 1)) * V(self.axes[0])
        return form

    def row(self):
        kind = self.random.choice(("ge", "eq", "eq", "mod"))
        return Constraint(kind, self.form(), self.random.randint(2, 3) if kind == "mod" else 0)

    def term(self):
        rows, factors = [self.row() for _ in range(self.random.randint(0, 2))], []
        for _ in range(self.random.randint(1, 2)):
            form = self.random.choice((V(self.axes[0]), V(self.axes[1]), self.form(), self.form()))
            if form.terms not in [V(axis).terms for axis in self.axes] or form.constant:
                rows += [Constraint("ge", form), Constraint("ge", LENGTH - 1 - form)]
            factors.append(self.graph.read(self.tensor, [form]))
        body = self.graph.mul(factors)
        return self.graph.guard(rows, self.graph.call(sympy.exp, (body,)) if self.random.random() < 0.5 else body)


@every("seed", range(20))
def test_the_entries_are_the_same(seed):
    case = Random(seed)
    sizes = frozenset(case.around[1:]) if seed % 3 else frozenset(case.around)
    extents = [Affine.of(extent) for extent in EXTENTS]
    written = tabulated(case.graph, case.axes, extents, case.entry, sizes)
    for around in itertools.product(range(-2, 4), (1, 2)):
        point = dict(zip(case.around, around, strict=True))
        for index in itertools.product(*map(range, EXTENTS)):
            at = {**point, **dict(zip(case.axes, index, strict=True))}
            assert value(case.graph, written, at) == value(case.graph, case.entry, at), at


def tables(node):
    return [part for part in reachable(node) if part.op == "comprehension"]


def test_a_delta_takes_its_axis_from_the_table():
    graph = Graph()
    i, j, p = (graph.fresh(name) for name in "ijp")
    x = graph.tensor("x", (Affine.of(9), Affine.of(9)))
    function = graph.call(sympy.exp, (graph.read(x, [V(i), V(j)]),))
    entry = graph.add([graph.guard([Constraint("eq", V(j) - V(p))], function), function])
    written = tabulated(graph, [i, j], [Affine.of(9)] * 2, entry, frozenset())
    assert sorted(len(table.data) for table in tables(written)) == [1, 2]
    (guard,) = (part for part in reachable(written) if part.op == "guard" and j in part.free)
    assert guard.data == (Constraint("eq", V(j) - V(p)),) or guard.data == (Constraint("eq", V(p) - V(j)),)
    assert all(j not in table.free for table in tables(written))


@pytest.mark.parametrize("around", [True, False])
def test_reads_of_a_table_that_depends_on_outer_indices_have_ranges(around):
    graph = Graph()
    i, p = graph.fresh("i"), graph.fresh("p")
    x = graph.tensor("x", (Affine.of(9),))
    function = graph.call(sympy.exp, (graph.read(x, [V(i)]),))
    entry = graph.guard([Constraint("ge", V(i) - V(p))], function)
    written = tabulated(graph, [i], [Affine.of(9)], entry, frozenset() if around else frozenset([p]))
    assert written.op == ("guard" if around else "read")


def test_expressions_at_the_reads_are_small():
    graph = Graph()
    i, p = graph.fresh("i"), graph.fresh("p")
    x = graph.tensor("x", (Affine.of(9),))
    for count in (2, 30):
        factors = [graph.call(sympy.exp, (graph.read(x, [V(p) * n]),)) for n in range(TABLE_SIZE)]
        terms = [graph.guard([Constraint("eq", V(i) - V(p) - n)], graph.mul(factors[: n + 1])) for n in range(count)]
        written = tabulated(graph, [i], [Affine.of(9)], graph.add(terms), frozenset())
        assert bool(tables(written)) == (count == 30)
