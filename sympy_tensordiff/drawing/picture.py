"""The content of a picture: the nodes of one or two graphs with their labels, children, numbers and pullbacks.

A node of the graph is drawn once. Below a sum or a comprehension its label contains the names of the enclosing bound
indices: a node that two sums share, which name their index differently, is drawn once for each name.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sympy_tensordiff.drawing.labels import children, is_ordered, node_label, shape_text, skip_scalar_read, view_text
from sympy_tensordiff.graph.nodes import BINDERS, Graph, Node, reachable
from sympy_tensordiff.graph.write_forms import distinct_name
from sympy_tensordiff.integer.rows import atoms_in

BoundNames = tuple[tuple[int, str], ...]
"""The names of the enclosing bound variables that are free in a node."""


@dataclass
class DrawnNode:
    """One node of a picture: its label, the positions of its children, its number for references from other nodes, and
    the names of the nodes whose pullback (cotangent) it is.

    ``number`` identifies a node that others refer to (0: none does); ``pullback_of`` are the names of the nodes whose
    pullback it is; ``has_pullback`` says that the pullback of this node is drawn; ``colour`` is equal for a node and
    its pullback, 0 for none.
    """

    node: Node
    text: str
    hint: str
    children: tuple[int, ...] = ()
    ordered: bool = False
    parents: int = 0
    number: int = 0
    pullback_of: tuple[str, ...] = ()
    has_pullback: bool = False
    colour: int = 0

    @property
    def is_leaf(self) -> bool:
        """Return whether the node has no children."""
        return not self.children

    @property
    def name(self) -> str:
        """The text by which other nodes refer to the node: its number, or its label if it has no number."""
        return f"#{self.number}" if self.number else self.text


@dataclass
class Cluster:
    """One graph of a picture: its nodes in the order in which they are read, and the positions of its roots
    among them.
    """

    title: str
    nodes: list[DrawnNode] = field(default_factory=list)
    roots: list[int] = field(default_factory=list)


def make_cluster(graph: Graph, title: str, roots: Sequence[Node]) -> Cluster:
    """Return the `Cluster` with this ``title`` of the nodes of ``graph`` below ``roots``, in depth-first order from
    left to right.
    """
    result = Cluster(title)
    roots = [skip_scalar_read(root) for root in roots]
    reserved = _reserved_names(graph, roots)
    free = dict(enumerate(graph.names))
    index: dict[tuple[Node, BoundNames], int] = {}
    child_keys: list[list[tuple[Node, BoundNames]]] = []
    stack: list[tuple[Node, BoundNames]] = [(root, ()) for root in reversed(roots)]
    while stack:
        key = stack.pop()
        if key in index:
            continue
        index[key] = len(index)
        node, scope = key
        names = ChainMap(dict(scope), free)
        bound_variables = graph.bound(node) if node.op in BINDERS else ()
        for v, hint in zip(bound_variables, graph.hints.get(node.id, ()), strict=True):
            names[v] = distinct_name(hint, reserved, set(names.maps[0].values()))
        args = children(node)
        child_keys.append([(arg, tuple((v, names[v]) for v in sorted(arg.free) if v < 0)) for arg in args])
        result.nodes.append(
            DrawnNode(node, node_label(node, bound_variables, names), shape_text(node, names), ordered=is_ordered(node))
        )
        stack += reversed(child_keys[-1])
    for drawn, keys in zip(result.nodes, child_keys, strict=True):
        drawn.children = tuple([index[key] for key in keys])
        for child in drawn.children:
            result.nodes[child].parents += 1
    result.roots = [index[root, ()] for root in roots]
    return result


def _reserved_names(graph: Graph, roots: Iterable[Node]) -> set[str]:
    """Return the names that no bound index may get in a picture of the nodes below ``roots``: those of tensors, scalars
    and free variables.
    """
    used: set[str] = set()
    for node in reachable(*roots):
        if node.op in ("tensor", "scalar"):
            used.add(node_label(node, (), {}))
        forms = atoms_in(node.shape)
        used.update(graph.names[v] for v in node.free | forms if v >= 0)
    return used


def name_pullbacks(
    expression: Cluster, derivative: Cluster, pullbacks: dict[Node, Node], variables: Sequence[str]
) -> None:
    """Mark each node of the drawn graph ``derivative`` that is the cotangent of a node of ``expression`` with the name
    of that node. ``pullbacks`` maps nodes to cotangents; the roots of ``derivative`` get the names ``variables``.

    The roots belong to ``variables``, which the expression need not contain. A pullback that is a view of a node, and
    is not drawn itself, is named at that node. Constants, such as the delta that the sweep starts from, are named at a
    root only: they have other uses, too.
    """
    expression_nodes = {drawn.node: drawn for drawn in expression.nodes}
    position_of = {drawn.node: n for n, drawn in enumerate(derivative.nodes)}
    named: dict[int, list[tuple[DrawnNode, str]]] = {}
    for node, result in pullbacks.items():
        if node not in expression_nodes:
            continue
        pullback = skip_scalar_read(result)
        position, view_suffix = position_of.get(pullback), ""
        if position is None and pullback.view and pullback.args and pullback.args[0] not in expression_nodes:
            position, view_suffix = position_of.get(pullback.args[0]), f" as {view_text(pullback)}"
        constant = pullback.op == "const" or (pullback.view and not pullback.args)
        if position is not None and (not constant or position in derivative.roots):
            named.setdefault(position, []).append((expression_nodes[node], view_suffix))
    for colour, position in enumerate(sorted(named), start=1):
        derivative.nodes[position].colour = colour
        for drawn, _ in named[position]:
            drawn.colour, drawn.has_pullback = colour, True
    number_nodes([expression])
    for position, uses in named.items():
        derivative.nodes[position].pullback_of = tuple(drawn.name + view_suffix for drawn, view_suffix in uses)
    for position, name in zip(derivative.roots, variables, strict=True):
        root = derivative.nodes[position]
        if name not in root.pullback_of:
            root.pullback_of += (name,)


def number_nodes(clusters: Sequence[Cluster]) -> None:
    """Number the nodes that are shown in several places or have a pullback, so that other nodes can refer to them.
    Numbers count through all clusters in reading order.
    """
    count = max((drawn.number for part in clusters for drawn in part.nodes), default=0)
    for part in clusters:
        for position, drawn in enumerate(part.nodes):
            if drawn.is_leaf or drawn.number:
                continue
            if drawn.parents + part.roots.count(position) > 1 or drawn.has_pullback:
                count += 1
                drawn.number = count
