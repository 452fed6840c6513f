"""What nodes read, where they are 0, which cases they have, and whether they are numbers where they are evaluated."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence

import sympy

from sympy_tensordiff.graph.interning import Recursion, breadth_first, is_total, outside_of_binders, trampoline
from sympy_tensordiff.graph.nodes import BINDERS, Graph, Node, reachable, replace
from sympy_tensordiff.integer.affine import Affine, Row
from sympy_tensordiff.integer.data import DataEntry, data_entries
from sympy_tensordiff.integer.implication import implied, is_empty
from sympy_tensordiff.integer.rows import Rows, atoms_in, linear, positive_rows, shape_rows
from sympy_tensordiff.integer.unfolding import divided_by

LIMIT = 32
"""Cotangents that are made of more choices are left as they are: products with all of them would explode."""


class Choices:
    """Where nodes are 0, as far as their structure shows, and what they read; remembered."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.zero: dict[tuple[Node, Row, Rows], bool] = {}
        self.harmless: dict[tuple[Node, Row | None, Rows], bool] = {}
        self.reads: dict[Node, dict[Node, None]] = {}

    def is_harmless(self, node: Node, facts: Rows, row: Row | None = None) -> Recursion[bool]:
        """Whether evaluating ``node`` where it was not evaluated before can do no harm: a number, read from inside.

        With a ``row``: where that does not hold, so that nothing behind guards and in empty ranges is evaluated.
        """
        if node.op == "comprehension":
            return False
        if node.plain:
            total = node.total or is_reciprocal(node, facts)
            return total and all(implied(needed, facts) for needed in self.read_conditions(node))
        key = (node, row, facts)
        if key not in self.harmless:
            if node.op in ("guard", "sum", "prod"):
                variables, inside, body = self.inside(node, facts)
                rows = inside[len(facts) :]
                # Bounds are computed of empty ranges, too.
                found = all(implied(needed, facts) for needed in divisible([row.form for row in rows]))
                for entry, known in tested_data(self.graph, variables, rows, facts):
                    found = found and all(implied(needed, known) for needed in inside_shape(self.graph, entry))
                found = found and (
                    (row is not None and implied(row, inside)) or (yield self.is_harmless(body, inside, row))
                )
            else:
                found = is_total(node.op, node.data, node.args)
                found = found and all(implied(needed, facts) for needed in definedness(self.graph, node))
                for arg in node.args:
                    found = found and (yield self.is_harmless(arg, facts, row))
            self.harmless[key] = found
        return self.harmless[key]

    def does_no_harm(self, node: Node, facts: Rows) -> bool:
        """As `is_harmless`, for those who do not recurse over the graph themselves."""
        return trampoline(self.is_harmless(node, facts))

    def inside(self, node: Node, facts: Rows) -> tuple[tuple[int, ...], Rows, Node]:
        """The variables of a guard, a sum or a product, outermost first, what is known inside, and the body."""
        if node.op == "guard":
            return (), (*facts, *node.data), node.args[0]
        variables, rows, body = self.graph.inside(node, atoms_in(facts))
        return variables, (*facts, *rows), body

    def read_conditions(self, node: Node) -> Iterator[Row]:
        """The conditions under which all reads in ``node``, outside of its binders, are inside of their shapes."""
        stack = [node]
        while stack:
            top = stack[-1]
            args = () if top.op in BINDERS else top.args
            waiting = [arg for arg in args if arg not in self.reads] if top not in self.reads else []
            stack += waiting
            if not waiting:
                found = dict.fromkeys((top,) if top.op in ("read", "index") else ())
                self.reads.setdefault(stack.pop(), {**found, **{k: None for arg in args for k in self.reads[arg]}})
        for read in self.reads[node]:
            yield from definedness(self.graph, read)

    def is_idle(self, row: Row, node: Node, facts: Rows) -> Recursion[bool]:
        """Whether a guard says nothing new of ``node``, which is 0 without it and can be evaluated."""
        harmless: bool = yield self.is_harmless(node, facts, row)
        return harmless and bool((yield self.needs(node, row, facts)))

    def needs(self, node: Node, row: Row, facts: Rows) -> Recursion[bool]:
        """Whether ``node`` is 0 wherever the facts and not ``row`` hold."""
        if node.plain:
            return node is self.graph.zero
        key = (node, row, facts)
        if key not in self.zero:
            if node.op in ("guard", "sum"):
                _, inside, body = self.inside(node, facts)
                found = implied(row, inside) or (yield self.needs(body, row, inside))
            elif is_power(node):
                found = yield self.needs(node.args[0], row, facts)
            elif node.op in ("add", "mul", "select"):
                found = yield self.parts_need(node, row, facts)
            else:
                found = False
            self.zero[key] = found
        return self.zero[key]

    def parts_need(self, node: Node, row: Row, facts: Rows) -> Recursion[bool]:
        """The same for a product, of which one factor has to be 0, and for an addition or a choice between values."""
        every = node.op != "mul"
        for part in node.args[node.op == "select" :]:
            if (yield self.needs(part, row, facts)) is not every:
                return not every
        return every


def is_chosen(graph: Graph, node: Node) -> bool:
    """Whether a node is 0 unless conditions choose otherwise, as far as few steps show."""
    return _is_chosen(graph, node, [LIMIT])


def _is_chosen(graph: Graph, node: Node, room: list[int]) -> bool:
    """Whether a node is 0 unless conditions choose otherwise; it is looked at within the ``room`` left."""
    room[0] -= 1
    if room[0] < 0:
        return False
    match node.op:
        case "add":
            return all(_is_chosen(graph, term, room) for term in node.args)
        case "select":
            sides = node.args[1:]
            return any(map(graph.is_zero, sides)) or any(_is_chosen(graph, side, room) for side in sides)
        case "mul" | "sum" | "ein" | "comprehension":
            return any(_is_chosen(graph, part, room) for part in node.args)
    return node.op == "guard"


def number_chosen(graph: Graph, node: Node) -> Node:
    """Return how many terms of a node conditions choose: 0 only where they leave nothing; 1 without conditions.

    The shape is that of the node. Of a value alone this cannot be told: chosen terms may cancel, and a derivative of
    their sum is not 0 there.
    """
    if graph.is_zero(node):
        return node
    if not is_chosen(graph, node):
        return graph.broadcast(graph.one, node.shape) if node.shape else graph.one
    match node.op:
        case "select":
            return graph.select(node.args[0], *(number_chosen(graph, side) for side in node.args[1:]))
        case "guard":
            return graph.guard(node.data, number_chosen(graph, node.args[0]))
        case "add":
            return graph.add([number_chosen(graph, term) for term in node.args])
        case "sum":
            variables, rows, body = graph.open(node)
            return graph.sum(variables, rows, number_chosen(graph, body))
        case "mul":
            return graph.mul([number_chosen(graph, factor) for factor in node.args])
        case "ein":
            operands = list(zip(node.args, node.data.inputs, strict=True))
            extents: dict[Hashable, Affine] = dict(enumerate(node.data.extents))
            chosen = [(number_chosen(graph, part), own) for part, own in operands if is_chosen(graph, part)]
            return graph.ein(1, chosen, node.data.output, extents)
        case "comprehension":
            variables, _, body = graph.open(node)
            return graph.comprehension(variables, node.data, number_chosen(graph, body))
    return graph.select(graph.compare("ne", node, graph.zero), graph.one, graph.zero)


def is_reciprocal(node: Node, facts: Rows) -> bool:
    """Whether a node is a power of an integer that is known to be positive, as ``1/m`` of a size."""
    base, exponent = node.args if node.op == "pow" else (node, node)
    return base.op == "index" and exponent.op == "const" and implied(Row("ge", base.data - 1), facts)


def is_power(node: Node) -> bool:
    """Whether a node is a power with a whole positive exponent, which is 0 where the base is."""
    exponent = node.args[1] if node.op == "pow" else None
    return exponent is not None and exponent.op == "const" and isinstance(exponent.data, int) and exponent.data > 0


def inside_shape(graph: Graph, node: Node) -> Rows:
    """The rows that say that a read stays inside the shape of its tensor, and so do the data in an index."""
    if node.op not in ("read", "index"):
        return ()
    data = graph.inside_data(node.data if node.op == "read" else (node.data,)) if graph.integers else ()
    return (*data, *shape_rows(node.data, node.args[0].shape)) if node.op == "read" else data


def definedness(graph: Graph, node: Node) -> Rows:
    """The rows under which a read is inside of its shape, and the divisors in an integer are positive."""
    forms = node.data if node.op == "read" else (node.data,) if node.op == "index" else ()
    return (*inside_shape(graph, node), *(() if linear(forms) else divisible(forms)))


def divisible(forms: Iterable[Affine]) -> Rows:
    """The rows that say that what forms divide by is positive."""
    return positive_rows(divided_by(forms))


def tested_data(graph: Graph, variables: Sequence[int], rows: Rows, facts: Rows) -> Iterator[tuple[Node, Rows]]:
    """The data in the rows of a range or a guard, as indices; each with what holds where they are read.

    The rows of a range are read where the loops around it run, those of a guard where the others hold.
    """
    for row in rows if graph.integers else ():
        for entry in data_entries([row.form]):
            yield graph.index(Affine.variable(entry)), (*facts, *context_of(row, rows, variables, entry))


def context_of(row: Row, rows: Rows, variables: Sequence[int], entry: DataEntry | None = None) -> Iterator[Row]:
    """The other rows of a range or a guard that hold where one of them is read; those that read an entry too aside."""
    place = {v: n for n, v in enumerate(variables)}

    def level(row: Row) -> int:
        return max((place[v] for v in row.form.atoms() if v in place), default=-1)

    around = (other for other in rows if other is not row and (not variables or level(other) < level(row)))
    return (other for other in around if entry is None or entry not in data_entries([other.form]))


MOST_CASES = 8
"""Values that are chosen among more stay whole."""


def cases_of(graph: Graph, value: Node) -> list[tuple[Rows, Node]]:
    """The cases of a value, which exclude each other and leave nothing out; the guards in them hold or are gone.

    Guards inside of binders are theirs.
    """
    found: list[tuple[Rows, Node]] = []
    waiting: list[tuple[Rows, Node]] = [((), value)]
    while waiting:
        rows, case = waiting.pop()
        guard = _outermost_guard(case)
        if guard is None:
            found.append((rows, case))
            continue
        parts = [((*rows, *guard.data), replace(graph, case, {guard: guard.args[0]}))]
        elsewhere = replace(graph, case, {guard: graph.zero})
        parts += [((*rows, *piece), elsewhere) for piece in _outside(guard.data)]
        waiting += [part for part in reversed(parts) if not is_empty(part[0])]
        if len(found) + len(waiting) > MOST_CASES:
            return [((), value)]
    return found


def _outermost_guard(node: Node) -> Node | None:
    guarded = breadth_first(node, lambda part: [arg for arg in outside_of_binders(part) if not arg.plain])
    return next((part for part in guarded if part.op == "guard"), None)


def _outside(rows: Rows) -> list[Rows]:
    """Where the rows do not all hold, in pieces that exclude each other."""
    pieces: list[Rows] = []
    for n, row in enumerate(rows):
        opposites = [Row("ge", row.form - 1), Row("ge", -row.form - 1)] if row.kind == "eq" else [row.negation()]
        pieces += [(*rows[:n], opposite) for opposite in opposites]
    return pieces


def unconditional(root: Node) -> set[Node]:
    """The nodes evaluated under no condition on values or data; those on indices travel with cotangents."""
    found = {root}
    stack = [root]
    while stack:
        node = stack.pop()
        if node.op == "guard" and data_entries(row.form for row in node.data):
            continue
        new = [arg for arg in node.args[: 1 if node.op == "select" else None] if arg not in found]
        found.update(new)
        stack += new
    return found


def may_be_infinite(nodes: Sequence[Node]) -> bool:
    """Whether a quotient, or a function that is not finite everywhere, differs from entry to entry.

    Overflow does not count, nor the slope of a root at 0, which is chosen to be 0.
    """
    parts = reachable(*nodes)
    tested = {arg for part in parts if part.op == "compare" and part.data == "ne" for arg in part.args}
    varying: set[Node] = set()
    for part in parts:
        if part.op == "tensor" or not varying.isdisjoint(part.args):
            varying.add(part)
            if part.args and part.args[0] not in tested and _may_be_infinite(part):
                return True
    return False


def _may_be_infinite(node: Node) -> bool:
    """The same of one node."""
    base = node.args[0] if node.op == "pow" else node
    is_exponential = base.op == "call" and base.data is sympy.exp
    return node.op in ("pow", "call") and not is_exponential and not is_total(node.op, node.data, node.args)
