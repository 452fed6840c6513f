"""The reverse sweep over whole tensors; parts in index notation are swept by Algorithm 4.

The nodes above index notation (`graph.contractions`, `graph.elementwise`) have one cotangent each, a whole tensor that
begins with the axes of the differentiated expression; it is complete when the node is visited, since nodes are taken by
falling depth. A comprehension, a sum or a read is a node of this sweep, too: its rule is an element-wise sweep
(`derivative.sweep`) from its entries down to the largest parts in it that no index around them touches. These are nodes
of this sweep again.

One pullback per node, so the growth is linear (Lippmann 2022, section 4.8). The Jacobian of a part
is never built to be contracted, and a cotangent that is zero is not handed on.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence

from sympy_tensordiff.derivative.sweep import ReverseSweep, Sweep
from sympy_tensordiff.derivative.tensor_pullbacks import pull_tensor
from sympy_tensordiff.graph.contractions import is_view
from sympy_tensordiff.graph.einsums import entry, tensor_of
from sympy_tensordiff.graph.interning import Shape, breadth_first, no_collection
from sympy_tensordiff.graph.nodes import BINDERS, Graph, Node
from sympy_tensordiff.integer.affine import Affine, Constraint
from sympy_tensordiff.simplify.node_properties import FiniteNodes
from sympy_tensordiff.simplify.tables import tabulated

ENTRYWISE = BINDERS | {"read", "guard"}
"""The nodes of index notation that the scalar rules do not cover."""

DIAGONALS = 8
"""A cotangent with more diagonal terms is handed on as one sum."""

Names = Callable[[int], list[str]]


class TensorSweep(ReverseSweep[Node]):
    """One reverse sweep over whole tensors to all of ``leaves``. ``names(count)`` returns names for new axes.

    After the sweep, `cotangents` maps every visited node with a nonzero cotangent to that, of shape
    ``prefix + node.shape``.
    """

    def __init__(self, graph: Graph, leaves: Iterable[Node], sizes: frozenset[int], names: Names) -> None:
        super().__init__(graph, leaves, sizes)
        self._names = names
        self.cotangents: dict[Node, Node] = {}
        self._prefix: Shape = ()

    @no_collection()
    def start(
        self, root: Node, cotangent: Node, prefix: Shape = (), numbers: Container[Node] | None = None
    ) -> TensorSweep:
        """Run the reverse sweep from `root`, whose cotangent is `cotangent` of the shape ``prefix + root.shape``, and
        return the sweep. `prefix` is () for a gradient, and the shape of the value for a Jacobian. `numbers` are the
        nodes known to be finite where `root` is finite (None: a new `FiniteNodes`).
        """
        self._prefix = prefix
        self._numbers = FiniteNodes(self.graph, root) if numbers is None else numbers
        if root in self.graph.letters and not prefix and cotangent.op == "tensor":
            self.graph.letters.setdefault(cotangent, self.graph.letters[root])
        self._add_cotangent(root, cotangent)
        return self._run()

    def of(self, leaf: Node) -> Node:
        """Return the cotangent of the variable `leaf`, zeros if there is none. Its axes are those of the value that is
        differentiated (``prefix``), then those of `leaf`.
        """
        found = self.cotangents.get(leaf)
        if found is None:
            return self.graph.filled(0, (*self._prefix, *leaf.shape))
        return found

    # -------------------------------------------------------------- the sweep

    def _add_cotangent(self, node: Node, cotangent: Node) -> None:
        """Add `cotangent` to that of `node`; do nothing if it is 0 or if `node` does not depend on a leaf."""
        if self._is_active(node) and not self.graph.is_zero(cotangent):
            self._contribute(node, cotangent)

    def _visit(self, node: Node) -> None:
        """Add up the contributions to the cotangent of `node`, which are complete now, and contribute to the cotangents
        of its operands.
        """
        cotangent = total(self.graph, self._contributions.pop(node))
        if self.graph.is_zero(cotangent):
            return
        self.cotangents[node] = cotangent
        if node in self._leaves:
            return
        if node.op in ENTRYWISE:
            self._entries(node, cotangent)
        else:
            certain = node in self._numbers
            prefix = len(self._prefix)
            for part in diagonal_terms(self.graph, cotangent) if self._prefix else [cotangent]:
                for arg, contribution in pull_tensor(self.graph, node, part, prefix, self._is_active, certain=certain):
                    self._add_cotangent(arg, contribution)

    # -------------------------------------------------------------- index notation

    def _entries(self, node: Node, cotangent: Node) -> None:
        """Add the contributions of `node`, a scalar or comprehension given by a formula, to the cotangents of the whole
        tensors in the formula.

        A `Sweep` over the formula, from its entries and their cotangents, computes the contributions.
        """
        graph = self.graph
        variables: tuple[int, ...] = ()
        outer = [graph.fresh(name) for name in self._names(len(self._prefix))]
        rows: tuple[Constraint, ...] = ()
        body = node
        if node.op == "comprehension":
            variables, rows, body = graph.open(node)
        index = [Affine.variable(v) for v in (*outer, *variables)]
        found = closed_parts(body, frozenset(variables), node)
        parts = [part for part in found if self._is_active(part)]
        sweep = Sweep(graph, parts, self._sizes, constants=found)
        sweep.start(variables, rows, body, at(graph, cotangent, index, self._sizes), self._numbers)
        for part in parts:
            axes = [graph.fresh(name) for name in self._names(len(part.shape))]
            value = sweep.at(part, [Affine.variable(v) for v in axes])
            if value is not graph.zero:
                self._add_cotangent(part, tensor_of(graph, (*outer, *axes), (*self._prefix, *part.shape), value))


def diagonal_terms(graph: Graph, tensor: Node) -> list[Node]:
    """Split `tensor` into summands: each diagonal one, such as ``diag(x)``, by itself, since products with it need no
    sum, and one with all others added up.

    A tensor without diagonals, or with too many of them, is its only term.
    """
    factor, terms = graph.split_view(tensor)
    if terms.op != "add":
        return [tensor]
    diagonals = [term for term in terms.args if is_view(term) and len(set(term.data.output)) < len(term.shape)]
    rest = [term for term in terms.args if term not in diagonals]
    if not diagonals or len(diagonals) > DIAGONALS:
        return [tensor]
    parts = [*diagonals, graph.broadcast(graph.add(rest), tensor.shape)] if rest else diagonals
    return [graph.scale(factor, part) for part in parts]


def total(graph: Graph, parts: Sequence[Node]) -> Node:
    """Return the sum of the contributions `parts` to one cotangent; comprehensions among them become one."""
    if len(parts) == 1:
        return parts[0]
    tables = [part for part in parts if part.op == "comprehension"]
    if len(tables) < 2:
        return graph.add(parts)
    variables, _, body = graph.open(tables[0])
    bodies, forms = [body], [Affine.variable(v) for v in variables]
    for table in tables[1:]:
        bodies.append(graph.entry(table, forms))
    joined = graph.comprehension(variables, tables[0].data, graph.add(bodies))
    return graph.add([*(part for part in parts if part.op != "comprehension"), joined])


def closed_parts(body: Node, bound: frozenset[int], around: Node) -> list[Node]:
    """Return the largest nodes in `body` that can be differentiated as whole tensors, because they depend on no index
    that is in `bound` or that a sum or comprehension around them binds.

    `around`, the sum or comprehension that contains `body`, is not among them.
    """

    def is_closed(node: Node) -> bool:
        """Return whether `node` can be computed outside of the sum or comprehension ``around``: it is not ``around``
        itself, and depends on no index that is in ``bound`` or that a sum or comprehension around it binds.
        """
        return node is not around and all(v >= 0 for v in node.free) and node.free.isdisjoint(bound)

    inside = breadth_first(body, lambda node: () if is_closed(node) else node.args)
    return sorted(filter(is_closed, inside), key=lambda node: node.id)


def at(graph: Graph, tensor: Node, index: Sequence[Affine], sizes: frozenset[int]) -> Node:
    """Return the entry at `index` of `tensor`, a cotangent or tangent: its formula for a transpose, a scaled copy or a
    comprehension, else a read. `sizes` are the variables that are sizes.

    The dense terms of a comprehension are read from a stored table.
    """
    if not tensor.shape:
        return tensor
    if is_view(tensor):
        return entry(graph, tensor, index)
    if tensor.op == "comprehension":
        variables, _, body = graph.open(tensor)
        written = tabulated(graph, variables, tensor.data, body, sizes)
        return graph.substitute(written, dict(zip(variables, index, strict=True)))
    return graph.read(tensor, index)
