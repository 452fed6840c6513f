"""Expressions at sizes for which some axes are empty.

All other code assumes that extents are positive. Where some are 0, the sizes in them are numbers here: sums over such
an axis are 0 and products 1, tensors with one have no entries, and the remaining extents are positive.
"""

from __future__ import annotations

from collections.abc import Sequence

from sympy_tensordiff.errors import ArgumentError
from sympy_tensordiff.graph.nodes import RANGED, REDUCTIONS, Graph, Node, Substitution, reachable
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.implication import is_empty
from sympy_tensordiff.integer.rows import substitute_all

EMPTY = Affine()
"""The extent of an axis without entries."""


def at_sizes(graph: Graph, nodes: Sequence[Node], sizes: Substitution) -> list[Node]:
    """Return `nodes` with numbers for the size variables in `sizes`, also in the shapes of tensors. So an expression
    can be examined at size 0.

    Raise `ArgumentError` if the expression has no value at these sizes, such as the maximum of no entries.
    """
    for row in graph.assumptions:
        if not row.form.atoms().isdisjoint(sizes) and is_empty((row.substitute(sizes),), ()):
            named = row.form.substitute({v: Affine.variable(graph.names[v]) for v in row.form.atoms()})
            least, value = -named.constant, (row.form - row.form.constant).substitute(sizes)
            raise ArgumentError(f"{named + least} is declared to be at least {least}, and is {value} in this call")
    work = _AtSizes(graph, sizes)
    results = work.run(nodes)
    for node in reachable(*results):
        if node in work.missing:
            raise ArgumentError(f"{work.missing[node]} has no value where an axis has no entries")
    return results


class _AtSizes:
    """Rewrites expressions at given sizes, such as 0 for an empty axis, in `at_sizes`. Collects the nodes that have no
    value at these sizes, such as a maximum over an empty range.
    """

    def __init__(self, graph: Graph, sizes: Substitution) -> None:
        self.graph = graph
        self.sizes = sizes
        self.missing: dict[Node, str] = {}
        """The nodes that have no value, with their names in messages."""

    def run(self, nodes: Sequence[Node]) -> list[Node]:
        """Return `nodes` rewritten for the sizes ``self.sizes``, some of which may be 0, so that axes are empty. Nodes
        without a value at these sizes, such as an index divided by 0, are recorded in ``self.missing``.
        """
        graph = self.graph
        done: dict[Node, Node] = {}
        for node in reachable(*nodes):
            try:
                done[node] = self.converted(node, tuple([done[arg] for arg in node.args]))
            except ValueError:  # an index is divided by a size that is 0
                done[node] = self.without_value(graph.pow(graph.zero, graph.const(-1)), "an index divided by 0")
        return [done[node] for node in nodes]

    def converted(self, node: Node, args: tuple[Node, ...]) -> Node:
        """Return `node`, with its sizes replaced by given numbers, some of which may be 0. `args` are its converted
        arguments.

        If an argument has no value, as the maximum of no numbers, the result is that argument in the shape of `node`.
        """
        graph = self.graph
        shape = substitute_all(node.shape, self.sizes)
        if node.op == "tensor":
            return graph.tensor(node.data[0], shape, is_integer=graph.integers.get(node.data[0]) is node)
        if EMPTY in shape:
            return graph.filled(0, shape)
        broken = [arg for arg in args if arg in self.missing]
        if broken and node.op in ("add", "mul", "pow", "call", "ein"):
            return graph.broadcast(broken[0], shape)  # not 0, which a product with 0 is
        match node.op:
            case "comprehension":
                return graph.rebind(node, args[0], self.sizes)
            case "ein":
                coefficient, inputs, output, extents = node.data
                lengths = substitute_all(extents, self.sizes)
                factor = 0 if EMPTY in lengths else coefficient
                return graph.ein(factor, zip(args, inputs, strict=True), output, dict(enumerate(lengths)))
            case "cof" if EMPTY in args[0].shape:
                return graph.broadcast(graph.one, shape)  # the determinant of no entries
            case "lse" if any(args[0].shape[axis] == EMPTY for axis in node.data):
                return self.without_value(graph.rebuild(node, args), "logsumexp")
            case "pow" if args[0] is graph.zero and args[1].op == "const" and args[1].data < 0:
                return self.without_value(graph.rebuild(node, args), "a quotient by a size")
        return self.converted_reduction(node, args[0]) if node.op in RANGED else graph.rebuild(node, args, self.sizes)

    def converted_reduction(self, node: Node, body: Node) -> Node:
        """Rebuild the reduction `node` with the converted `body`, and with the numbers in ``self.sizes`` in place of
        sizes. Over a range that is empty then, a sum is 0 and a product 1; a maximum or minimum is recorded as a node
        without a value.
        """
        graph = self.graph
        rows = substitute_all(node.data, self.sizes)
        if is_empty(rows, ()):
            if node.op in ("sum", "prod"):
                return graph.zero if node.op == "sum" else graph.one
            if not is_empty(node.data, ()):
                return self.without_value(graph.rebind(node, body, self.sizes), REDUCTIONS[node.op])
        return graph.rebind(node, body, self.sizes)

    def without_value(self, made: Node, name: str) -> Node:
        """Record that the node `made` has no value, such as a maximum over an empty range, and return it. `name`
        describes it in error messages.
        """
        self.missing[made] = name
        return made
