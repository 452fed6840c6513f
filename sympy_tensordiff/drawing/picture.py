"""What a picture shows: the nodes of one or two graphs with their texts, children, numbers and pullbacks.

A node of the graph is drawn once. Below a sum or a table its text holds the names of the indices that
are bound around it, so that a node two sums share, which call their index by different names, is drawn
for each of the names.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sympy_tensordiff.drawing.labels import children, is_ordered, label, shape_text, view_text, without_read
from sympy_tensordiff.graph.nodes import BINDERS, Graph, Node, reachable
from sympy_tensordiff.graph.write_forms import unlike
from sympy_tensordiff.integer.rows import atoms_in

Scope = tuple[tuple[int, str], ...]
"""The names of the bound variables that are free in a node."""


@dataclass
class Drawn:
    """One node of a picture.

    ``number`` is what others refer to it by, 0 where none does; ``pullback_of`` are those names of nodes
    of the expression that it is the pullback of; ``has_pullback`` says that such a node is there; ``colour`` is
    the same for a node and its pullback, 0 for none.
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
        return not self.children

    @property
    def name(self) -> str:
        """How others refer to the node: a leaf by its own text."""
        return f"#{self.number}" if self.number else self.text


@dataclass
class Cluster:
    """A graph of a picture: its nodes in the order in which a reader meets them, and where to begin."""

    title: str
    nodes: list[Drawn] = field(default_factory=list)
    roots: list[int] = field(default_factory=list)


def cluster(graph: Graph, title: str, roots: Sequence[Node]) -> Cluster:
    """The nodes below ``roots``, depth first from left to right, without recursion."""
    found = Cluster(title)
    roots = [without_read(root) for root in roots]
    taken = _names(graph, roots)
    free = dict(enumerate(graph.names))
    index: dict[tuple[Node, Scope], int] = {}
    below: list[list[tuple[Node, Scope]]] = []
    stack: list[tuple[Node, Scope]] = [(root, ()) for root in reversed(roots)]
    while stack:
        key = stack.pop()
        if key in index:
            continue
        index[key] = len(index)
        node, scope = key
        names = ChainMap(dict(scope), free)
        own = graph.bound(node) if node.op in BINDERS else ()
        for v, hint in zip(own, graph.hints.get(node.id, ()), strict=True):
            names[v] = unlike(hint, taken, set(names.maps[0].values()))
        args = children(node)
        below.append([(arg, tuple((v, names[v]) for v in sorted(arg.free) if v < 0)) for arg in args])
        found.nodes.append(Drawn(node, label(node, own, names), shape_text(node, names), ordered=is_ordered(node)))
        stack += reversed(below[-1])
    for drawn, keys in zip(found.nodes, below, strict=True):
        drawn.children = tuple([index[key] for key in keys])
        for child in drawn.children:
            found.nodes[child].parents += 1
    found.roots = [index[root, ()] for root in roots]
    return found


def _names(graph: Graph, roots: Iterable[Node]) -> set[str]:
    """The names that no bound index may have: those of tensors, scalars and free variables."""
    used: set[str] = set()
    for node in reachable(*roots):
        if node.op in ("tensor", "scalar"):
            used.add(label(node, (), {}))
        forms = atoms_in(node.shape)
        used.update(graph.names[v] for v in node.free | forms if v >= 0)
    return used


def name_pullbacks(
    expression: Cluster, derivative: Cluster, pullbacks: dict[Node, Node], variables: Sequence[str]
) -> None:
    """Says of the nodes of the derivative which are pullbacks, and of which nodes of the expression.

    The roots are those of ``variables``, which the expression need not hold. A pullback that moves the entries
    of a node, and is itself not there, is named at that node. Numbers and tensors of numbers, such as the delta
    that the sweep begins with, are named at no place but a root: they are there for other reasons, too.
    """
    ours = {drawn.node: drawn for drawn in expression.nodes}
    theirs = {drawn.node: n for n, drawn in enumerate(derivative.nodes)}
    named: dict[int, list[tuple[Drawn, str]]] = {}
    for node, found in pullbacks.items():
        if node not in ours:
            continue
        pullback = without_read(found)
        place, how = theirs.get(pullback), ""
        if place is None and pullback.view and pullback.args and pullback.args[0] not in ours:
            place, how = theirs.get(pullback.args[0]), f" as {view_text(pullback)}"
        constant = pullback.op == "const" or (pullback.view and not pullback.args)
        if place is not None and (not constant or place in derivative.roots):
            named.setdefault(place, []).append((ours[node], how))
    for colour, place in enumerate(sorted(named), start=1):
        derivative.nodes[place].colour = colour
        for drawn, _ in named[place]:
            drawn.colour, drawn.has_pullback = colour, True
    number_nodes([expression])
    for place, those in named.items():
        derivative.nodes[place].pullback_of = tuple(drawn.name + how for drawn, how in those)
    for place, name in zip(derivative.roots, variables, strict=True):
        root = derivative.nodes[place]
        if name not in root.pullback_of:
            root.pullback_of += (name,)


def number_nodes(clusters: Sequence[Cluster]) -> None:
    """Numbers the nodes that something refers to, through all clusters, in the order of reading."""
    count = max((drawn.number for part in clusters for drawn in part.nodes), default=0)
    for part in clusters:
        for place, drawn in enumerate(part.nodes):
            if drawn.is_leaf or drawn.number:
                continue
            if drawn.parents + part.roots.count(place) > 1 or drawn.has_pullback:
                count += 1
                drawn.number = count
