"""Index notation rewritten into operations on whole tensors: ``expr.rewrite(td.EinsumProduct)``."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sympy_tensordiff.errors import TensorDiffError
from sympy_tensordiff.graph.einsums import Recognition
from sympy_tensordiff.graph.interning import Recursion, no_collection, takes_tensors, trampoline
from sympy_tensordiff.graph.nodes import BINDERS, Graph, Node, reachable
from sympy_tensordiff.graph.read import Reader
from sympy_tensordiff.graph.write import write
from sympy_tensordiff.integer.affine import Affine


@no_collection()
def to_einsum(expr: Any) -> Any:
    """``expr`` as operations on whole tensors, as far as there are such operations.

    Returns
    -------
    Expr
        The same value: of the same shape, or a scalar. Sums over whole axes of products of
        entries are einsum products, functions of entries are element-wise functions. Parts that
        read at other places, or run over parts of an axis, are comprehensions. What the graph does not
        support stays as it is.
    """
    reader = Reader(Graph())
    try:
        root = reader.read(expr)
    except TensorDiffError:
        return expr
    extents = {extent for node in reachable(root) for extent in node.shape if all(v >= 0 for v in extent.atoms())}
    whole = trampoline(_Whole(reader.graph, extents).run(root))
    return expr if whole is root else write(reader, whole)


class _Whole:
    """One pass; ``known`` are the extents of all axes."""

    def __init__(self, graph: Graph, known: Collection[Affine]) -> None:
        self.graph = graph
        self.known = known
        self.done: dict[Node, Node] = {}
        self.around: set[int] = set()

    def run(self, root: Node) -> Recursion[Node]:
        """``root`` with the binders in which no bound variable is free as whole tensors, where they are some."""
        for node in reachable(root):
            if node not in self.done:
                new = self.graph.with_args(node, [self.done[arg] for arg in node.args])
                if new.op in BINDERS and all(v >= 0 for v in new.free):
                    new = yield self.binder(new)
                self.done[node] = self.done[new] = new
        return self.done[root]

    def binder(self, node: Node) -> Recursion[Node]:
        """A closed binder as whole tensors, or with those inside of it."""
        graph = self.graph
        variables, rows, body = graph.open(node)
        whole = self.sum(node) if node.op == "sum" else None
        if node.op == "comprehension":
            work = Recognition(graph, dict(zip(variables, node.data, strict=True)), self.known)
            whole = self.closed(work.tensor(body, variables))
        if whole is not None:
            return whole
        self.around.update(variables)
        inside = yield self.run(body)
        if inside is body:
            return node
        if node.op == "comprehension":
            return graph.comprehension(variables, node.data, inside)
        return graph.reduce(node.op, variables, rows, inside)

    def sum(self, node: Node) -> Node | None:
        """A sum as a contraction, or as an entry of one where free indices only select entries."""
        selected: dict[int, Affine] = {}
        for part in reachable(node):
            for form, extent in zip(part.data, part.args[0].shape, strict=True) if part.op == "read" else ():
                for v in form.atoms():
                    if v >= 0 and form == Affine.variable(v):
                        selected.setdefault(v, extent)
        while True:
            work = Recognition(self.graph, selected, self.known, selected)
            whole = self.closed(work.tensor(node, list(selected)))
            if whole is not None:
                return self.graph.read(whole, [Affine.variable(v) for v in selected])
            if not selected:
                return None
            selected = {v: extent for v, extent in selected.items() if work.refused and v not in work.refused}

    def closed(self, whole: Node | None) -> Node | None:
        """What is found, unless an operation on whole tensors in it depends on an index of a binder around."""
        parts = reachable(whole) if whole is not None and self.around else ()
        return None if any(takes_tensors(part) and not self.around.isdisjoint(part.free) for part in parts) else whole
