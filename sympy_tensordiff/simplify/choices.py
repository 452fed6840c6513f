"""Products in which a factor chooses: it is 0 unless conditions hold, and the others are meant only where they do.

The sweep makes such products: a cotangent that arrives over several uses is an addition of guards,
times a slope that reads where one of the uses does. A guard that is a factor protects the others as
it stands. From additions, sums and powers of guards, the conditions that hold wherever one of them
does come out, and protect them too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from sympy_tensordiff.graph.interning import is_total
from sympy_tensordiff.graph.nodes import BINDERS, RANGED, Graph, Node
from sympy_tensordiff.graph.trampoline import Recursion, trampoline
from sympy_tensordiff.integer.affine import Affine, Row
from sympy_tensordiff.integer.data import apart
from sympy_tensordiff.integer.fourier_motzkin import project
from sympy_tensordiff.integer.multiples import divided_by
from sympy_tensordiff.integer.polyhedron import implied, is_empty
from sympy_tensordiff.simplify.clamps import decided

Facts = tuple[Row, ...]

MOST_PIECES = 32


class Choices:
    """Where nodes are 0, as far as their structure shows, and what they read; remembered."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.zero: dict[tuple[Node, Row, Facts], bool] = {}
        self.harmless: dict[tuple[Node, Row | None, Facts], bool] = {}
        self.reads: dict[Node, dict[Node, None]] = {}

    def is_harmless(self, node: Node, facts: Facts, row: Row | None = None) -> Recursion[bool]:
        """Whether evaluating ``node`` where it was not evaluated before can do no harm: a number, read from inside.

        With a ``row``: where that does not hold, so that nothing behind guards and in empty ranges is evaluated.
        """
        if node.op == "comprehension":
            return False
        if node.plain:
            total = node.total or is_reciprocal(node, facts)
            return total and all(implied(needed, facts) for needed in self.needed_by(node))
        key = (node, row, facts)
        if key not in self.harmless:
            if node.op in ("guard", "sum", "prod"):
                variables, inside, body = self.inside(node, facts)
                rows = inside[len(facts) :]
                found = reads_no_data_outside(self.graph, rows, facts, variables)
                # Bounds are computed of empty ranges, too.
                found = found and all(implied(needed, facts) for needed in divisible([row.form for row in rows]))
                found = found and (
                    (row is not None and implied(row, inside)) or (yield self.is_harmless(body, inside, row))
                )
            else:
                found = is_total(node.op, node.data, node.args)
                found = found and all(implied(needed, facts) for needed in number_at(self.graph, node))
                for arg in node.args:
                    found = found and (yield self.is_harmless(arg, facts, row))
            self.harmless[key] = found
        return self.harmless[key]

    def does_no_harm(self, node: Node, facts: Facts) -> bool:
        """As `is_harmless`, for those who do not recurse over the graph themselves."""
        return trampoline(self.is_harmless(node, facts))

    def inside(self, node: Node, facts: Facts) -> tuple[tuple[int, ...], Facts, Node]:
        """The variables of a guard, a sum or a product, outermost first, what is known inside, and the body."""
        if node.op == "guard":
            return (), (*facts, *node.data), node.args[0]
        variables, rows, body = self.graph.inside(node, frozenset().union(*(row.form.atoms() for row in facts)))
        return variables, (*facts, *rows), body

    def needed_by(self, node: Node) -> Iterator[Row]:
        """What has to hold for the reads in ``node``, but for those inside of binders."""
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
            yield from number_at(self.graph, read)

    def conditions(self, product: Node, factor: Node, others: Sequence[Node], facts: Facts) -> Recursion[list[Row]]:
        """Rows, not known from ``facts``, outside of which ``factor`` is 0 and the product does harm.

        They are among the rows that say that reads of the ``others`` stay inside their shapes, those of guards, and
        those without which a sum has no values. Loops around such a guard may be empty where its data cannot be read:
        the rows that say it come along.
        """
        found: list[Row] = []
        needed = chain.from_iterable(map(self.needed_by, others))
        for row in dict.fromkeys((*needed, *first_guard(factor), *self.without_which_empty(factor))):
            # A guard is told what is known of its maxima and minima, the product not yet.
            known = implied(row, facts) or implied(row._replace(form=decided(row.form, facts)), facts)
            harm = not known and not (yield self.is_harmless(product, facts, row))
            if harm and (yield self.needs(factor, row, facts)):
                found += [row, *unprotected(self.graph, (row,), (*facts, *found), ())]
        return found

    def without_which_empty(self, factor: Node) -> Facts:
        """What the ranges of a sum say about what is outside of it, as far as data end them."""
        if factor.op != "sum" or not self.graph.integers:
            return ()
        variables, rows, _ = self.graph.open(factor)
        return tuple(apart(project(rows, variables) or ())[1])

    def is_idle(self, row: Row, node: Node, facts: Facts) -> Recursion[bool]:
        """Whether a guard says nothing new of ``node``, which is 0 without it and can be evaluated."""
        harmless: bool = yield self.is_harmless(node, facts, row)
        return harmless and bool((yield self.needs(node, row, facts)))

    def needs(self, node: Node, row: Row, facts: Facts) -> Recursion[bool]:
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

    def parts_need(self, node: Node, row: Row, facts: Facts) -> Recursion[bool]:
        """The same for a product, of which one factor has to be 0, and for an addition or a choice between values."""
        every = node.op != "mul"
        for part in node.args[node.op == "select" :]:
            if (yield self.needs(part, row, facts)) is not every:
                return not every
        return every


def first_guard(factor: Node) -> Facts:
    """The rows of a guard inside of a node that may choose, as far as they are about the node."""
    node = factor
    while node.op in ("add", "mul", "sum", "pow", "select"):
        inner = next((arg for arg in node.args if not arg.plain), None)
        if inner is None:
            break
        node = inner
    return tuple(row for row in node.data if row.form.atoms() <= factor.free) if node.op == "guard" else ()


def is_reciprocal(node: Node, facts: Facts) -> bool:
    """Whether a node is a power of an integer that is known to be positive, as ``1/m`` of a size."""
    base, exponent = node.args if node.op == "pow" else (node, node)
    return base.op == "index" and exponent.op == "const" and implied(Row("ge", base.data - 1), facts)


def is_power(node: Node) -> bool:
    """Whether a node is a power with a whole positive exponent, which is 0 where the base is."""
    exponent = node.args[1] if node.op == "pow" else None
    return exponent is not None and exponent.op == "const" and isinstance(exponent.data, int) and exponent.data > 0


def inside_shape(graph: Graph, node: Node) -> Facts:
    """The rows that say that a read stays inside the shape of its tensor, and so do the data in an index."""
    if node.op not in ("read", "index"):
        return ()
    found = graph.inside_data(node.data if node.op == "read" else (node.data,))
    for form, extent in zip(node.data, node.args[0].shape, strict=True) if node.op == "read" else ():
        found += [Row("ge", form), Row("ge", extent - 1 - form)]
    return tuple(found)


def number_at(graph: Graph, node: Node) -> Facts:
    """The rows that say that a read or an integer is a number: inside of its shape, and divided by what is positive."""
    forms = node.data if node.op == "read" else (node.data,) if node.op == "index" else ()
    return (*inside_shape(graph, node), *divisible(forms))


def divisible(forms: Iterable[Affine]) -> Facts:
    """The rows that say that what forms divide by is positive."""
    return tuple(Row("ge", divisor - 1) for divisor in divided_by(forms))


def reads_no_data_outside(graph: Graph, rows: Facts, facts: Facts, variables: Sequence[int] = ()) -> bool:
    """Whether conditions or ranges can be tested: what selects data in them is inside where the others hold."""
    return not graph.integers or next(unprotected(graph, rows, facts, variables), None) is None


def never_tested(graph: Graph, rows: Facts, facts: Facts) -> bool:
    """Whether data in conditions lie outside of their tensors wherever conditions without data hold.

    Other data see to it then that they are not read: what stands behind the conditions never counts.
    """
    plain, data = apart(rows) if graph.integers else ((), ())
    return bool(data) and is_empty(graph.inside_data([row.form for row in data]), (*facts, *plain))


def inside_conditions(graph: Graph, node: Node) -> Facts:
    """The rows that say that the data in the conditions of a guard or in ranges are read inside of their tensors.

    What the other conditions protect is not among them, nor what depends on the variables of the ranges.
    """
    if node.op != "guard" and node.op not in RANGED:
        return ()
    own = graph.bound(node) if node.op in RANGED else ()
    return tuple(row for row in unprotected(graph, node.data, (), own) if row.form.atoms().isdisjoint(own))


def unprotected(graph: Graph, rows: Facts, facts: Facts, variables: Sequence[int]) -> Iterator[Row]:
    """The rows that say that data in conditions are read inside, without those that the other conditions tell.

    The data in the ranges of loops over ``variables``, outermost first, are read where the loops around
    run, and whether the loop has values itself or not.
    """
    plain, data = apart(rows)
    place = {v: n for n, v in enumerate(variables)}

    def level(row: Row) -> int:
        return max((place[v] for v in row.form.atoms() if v in place), default=-1)

    for row in data:
        known = (*facts, *(other for other in plain if not variables or level(other) < level(row)))
        yield from (needed for needed in graph.inside_data([row.form]) if not implied(needed, known))


def pieces(graph: Graph, node: Node) -> list[Node] | None:
    """The guards that a node is the sum of, products with additions among their factors written out; None if it is not.

    Nothing is written out to more than `MOST_PIECES`.
    """
    found: list[Node] = []
    waiting = [node]
    while waiting:
        term = waiting.pop()
        if term.op == "guard":
            found.append(term)
        elif term.op == "add":
            waiting += reversed(term.args)
        else:
            sums = (
                [factor for factor in term.args if factor.op == "add" and not factor.plain] if term.op == "mul" else []
            )
            if not sums:
                return None
            # One that is an addition of guards already makes all of the product one.
            total = next((factor for factor in sums if all(part.op == "guard" for part in factor.args)), sums[0])
            if len(found) + len(waiting) + len(total.args) > MOST_PIECES:
                return None
            rest = [factor for factor in term.args if factor is not total]
            waiting += [graph.mul((*rest, part)) for part in reversed(total.args)]
    return found
