"""Einsum nodes of many operands as products of two, in an order of little work.

A product that is used once is part of the einsum that uses it, so that the order can go across the
nodes as written: a chain of Jacobian matrices with a vector at one end becomes one product of a
matrix and a vector after the other, whichever way the chain was multiplied out. (Choosing between
forward and reverse mode at every place is known as cross-country elimination.) So is an outer
product, however often it is used; and a sum with a diagonal or an outer product among its terms is
multiplied term by term where that is less work: ``(diag(p) - p p^T) A`` needs no square matrix.

Where several orders take as little work, one comes first that multiplies two operands which another einsum node can
multiply first as well: ``Sum_ij T_ijk A_i`` serves the derivatives by b and by c of ``Sum T_ijk A_i b_j c_k``.

Afterwards an einsum node has two operands; or one, of which it sums axes; or sums nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple, TypeAlias

from sympy_tensordiff.graph.contraction_order import (
    Extents,
    Hints,
    Labelled,
    Path,
    Products,
    contraction_path,
    is_outer,
    operation_count,
    path_from,
    products,
)
from sympy_tensordiff.graph.contractions import is_core, is_view
from sympy_tensordiff.graph.einsums import entry
from sympy_tensordiff.graph.interning import Recursion, in_turn, trampoline
from sympy_tensordiff.graph.nodes import Graph, Node, reachable
from sympy_tensordiff.integer.affine import Affine

_FEW = 5
"""Of more operands than these, not all pairs are looked at.

Of 2, MTTKRP takes twice the time; of 10, no text of the benchmarks changes.
"""


Evaluation: TypeAlias = tuple[int, Node]
"""About how much work an einsum takes, and the einsum as products of two operands."""

_EVEN = 0.9
"""Orders whose works are as close as this are even: then a product of a sum is taken term by term.

The matrix of the sum may be much larger than the result, where a size is not what it is taken for.
"""


def in_pairs(graph: Graph, roots: Sequence[Node], hints: Hints, known: Collection[Node] = ()) -> list[Node]:
    """Return ``roots`` with all einsum nodes as products of two operands at most, but for those that sum nothing.

    The nodes ``known`` stay as they are.
    """
    work = _Pairing(graph, roots, hints, known)
    return [work.done[root] for root in roots]


class _Pairing:
    def __init__(self, graph: Graph, roots: Sequence[Node], hints: Hints, known: Collection[Node]) -> None:
        self.graph = graph
        self.known = known
        parts = reachable(*roots, known=known)
        self.hints = hints.for_graph(roots, parts)
        self.products = Products(parts, roots, self.hints)
        self.done: dict[Node, Node] = {}
        self.single: set[Node] = set()
        self.first: dict[Node, set[Node]] = {}
        """The products of two operands with which an order of least work can begin, and the einsum nodes of these."""
        self.written: dict[Node, Node] = {}
        """The sums of tensors as they were before their terms were products of two."""
        self.work: dict[Node, int] = {}
        self.terms: dict[tuple[Node, frozenset[Node]], Evaluation] = {}
        self.current = graph.zero
        self.shared: dict[Node, Node] = {}
        """Sums that all their products take term by term, so that none pays alone for the matrix; by their results."""
        self.built: set[Node] = set()
        """Sums used more than once whose matrix is computed anyway."""
        self.pair_up(parts)
        is_new = any(len(nodes) > 1 for nodes in self.first.values())
        while is_new or self.is_built_anyway(roots):
            is_new = False
            self.pair_up(parts)

    def is_built_anyway(self, roots: Sequence[Node]) -> bool:
        """Whether one of the sums taken term by term at each other use is computed nevertheless; note these."""
        results = {*reachable(*(self.done[root] for root in roots))} if self.shared else set()
        built = {written for result, written in self.shared.items() if result in results}
        self.built |= built
        return bool(built)

    def pair_up(self, parts: Sequence[Node]) -> None:
        """Find the products of all nodes, in the order of their arguments."""
        self.done = {node: node for node in self.known}
        self.single.clear()
        self.written.clear()
        self.terms.clear()
        self.shared.clear()
        for part in parts:
            if part in self.products.absorbed:
                continue
            self.current = part
            self.done[part] = (
                self.core(part) if is_core(part) else self.graph.with_args(part, [self.done[arg] for arg in part.args])
            )
            if self.products.uses[part] == 1:
                self.single.add(self.done[part])
            if part.op == "add":
                self.written[self.done[part]] = part

    def core(self, node: Node) -> Node:
        """An einsum with all that is absorbed by it."""
        output = tuple(range(len(node.shape)))
        operands, extents = self.products.gathered(node, output, self.done)
        self.work[node], result = trampoline(self.ordered(operands, output, extents))
        return result

    def product(self, operands: list[Labelled], output: tuple[int, ...], extents: Extents) -> Recursion[Evaluation]:
        """About the work of a product of two operands, or of a sum over axes of one, and itself.

        A sum of tensors among the operands is multiplied term by term where that is less work: the sum and its terms
        need not be computed then. ``(diag(u) + A B) x`` is ``u*x + A (B x)``. A product with an inverse is the solution
        of a system, which takes one sum as well as one term.
        """
        work = self.products.volume([label for _, labels in operands for label in labels], extents)
        if any(_core_of(operand).op == "inv" for operand, _ in operands):
            return work, self.graph.ein(1, operands, output, extents)
        for place, (operand, _) in enumerate(operands):
            if self.written.get(operand, operand).op == "add" and operand.shape:
                found = yield from self.by_terms(operands, place, output, extents, work)
                if found is not None:
                    return found
        return work, self.graph.ein(1, operands, output, extents)

    def by_terms(
        self, operands: list[Labelled], place: int, output: tuple[int, ...], extents: Extents, work: int
    ) -> Recursion[Evaluation | None]:
        """About the work of a product with each term of the sum at ``place``, and their sum; None where it is more.

        The sum itself is saved, and of the products in its terms those that nothing else uses. A sum with several
        uses is saved where all of them take it term by term: each counts its share.
        """
        operand, labels = operands[place]
        written = self.written.get(operand, operand)
        uses = 1 if operand in self.single else self.products.uses[written]
        is_saved = uses > 0 and (uses == 1 or written not in self.built)
        is_sparse = any(map(_is_sparse, written.args))
        best: tuple[int, int, list[Evaluation], frozenset[Node]] | None = None
        for opened in self.only_in(written) if is_saved else [frozenset[Node]()]:
            if opened or is_sparse:
                saved = len(written.args) * self.products.volume(labels, extents) if is_saved else 0
                saved = (saved + sum(self.work.get(core, 0) for core in opened)) // max(uses, 1)
                terms = yield from in_turn(
                    self.term(operands, place, term, output, extents, opened) for term in written.args
                )
                total = sum(cost for cost, _ in terms)
                if best is None or total - saved < best[0] - best[1]:
                    best = total, saved, terms, opened
        if best is None:
            return None
        total, saved, terms, opened = best
        if (2 if not opened else _EVEN if is_sparse else 1) * total > work + saved:
            return None
        if uses > 1 and is_saved:
            self.shared[operand] = written
        return total, self.graph.add([part for _, part in terms])

    def only_in(self, total: Node) -> list[frozenset[Node]]:
        """Return two choices of products in a sum: terms that it alone uses; and with these what they alone use."""
        own = {core for core in map(_core_of, total.args) if is_core(core) and self.products.uses[core] == 1}
        found: set[Node] = set()
        stack = [_core_of(term) for term in total.args]
        uses = Counter(stack)
        while stack:
            node = stack.pop()
            if is_core(node) and node not in found and uses[node] == self.products.uses[node]:
                found.add(node)
                stack += node.args
                uses.update(node.args)
        found = {node for node in found if node not in self.products.absorbed}
        return [frozenset(own)] if found <= own else [frozenset(own), frozenset(found | own)]

    def term(
        self,
        operands: list[Labelled],
        place: int,
        term: Node,
        output: tuple[int, ...],
        extents: Extents,
        opened: frozenset[Node],
    ) -> Recursion[Evaluation]:
        """About the work of an einsum, and itself, with one term for a sum; the products ``opened`` are part of it."""
        graph = self.graph
        old, labels = operands[place]
        changed = [*operands[:place], (graph.broadcast(term, old.shape), labels), *operands[place + 1 :]]
        whole = graph.ein(1, changed, output, extents)
        key = whole, opened
        if key not in self.terms:
            factor, node = (1, whole) if whole.shape else graph.split_coefficient(whole)
            core = _core_of(node)
            if is_core(core):
                inner = tuple(range(len(core.shape)))
                gathered, lengths = self.products.gathered(core, inner, self.done, opened=opened)
                work, found = yield self.ordered(gathered, inner, lengths)
                work += self.products.volume(output, extents) if core is not node else 0
                new = graph.scale(factor, found if core is node else graph.with_operands(node, [found]))
                self.terms[key] = work, new
            else:
                self.terms[key] = self.products.volume(output, extents), whole
        return self.terms[key]

    def ordered(self, operands: list[Labelled], output: tuple[int, ...], extents: Extents) -> Recursion[Evaluation]:
        """About the work of an einsum, and itself in products of two operands."""
        found = cofactor_direction(operands, output)
        if found is not None:
            own, direction = yield self.ordered(found.factors, tuple(dict.fromkeys(found.pair)), extents)
            tangent = cofactor_tangent(self.graph, found, direction, extents)
            work, node = yield self.ordered([*found.others, (tangent, found.rest)], output, extents)
            return work + own + self.products.volume(found.rest, extents) * self.hints(extents[found.pair[0]]), node
        held = Counter(label for _, labels in operands for label in set(labels))
        held.update(output)
        operands = yield from in_turn(self.reduced(part, held, extents) for part in operands)
        scalars = [part for part in operands if not part[0].shape]
        tensors = [part for part in operands if part[0].shape]
        if {label for _, labels in tensors for label in labels}.issubset(output):
            return self.products.volume(output, extents), self.graph.ein(1, operands, output, extents)
        inputs = [frozenset(labels) for _, labels in tensors]
        sizes = {label: self.hints.fine(extent) for label, extent in extents.items()}
        path = contraction_path(inputs, frozenset(output), sizes)
        work = operation_count(inputs, frozenset(output), sizes, path)
        if 3 <= len(inputs) <= _FEW:
            path = self.common(tensors, output, sizes, work) or path
        work = 0
        for step, (_, left) in zip(path, products(inputs, frozenset(output), path), strict=True):
            labels = tuple(sorted(left))
            own, node = yield self.product([tensors[number] for number in step], labels, extents)
            work += own
            tensors.append((node, labels))
        return work, self.graph.ein(1, [tensors[-1], *scalars], output, extents)

    def common(
        self, tensors: list[Labelled], output: tuple[int, ...], sizes: Mapping[int, int], least: int
    ) -> Path | None:
        """A path of least work that begins with a product of which others can make use, too; None without one."""
        inputs, kept = [frozenset(labels) for _, labels in tensors], frozenset(output)
        best: tuple[int, Path] | None = None
        for pair in combinations(range(len(inputs)), 2):
            ((_, product),) = products(inputs, kept, [pair])
            if product == inputs[pair[0]] | inputs[pair[1]]:
                continue
            path = path_from(pair, inputs, kept, sizes)
            if operation_count(inputs, kept, sizes, path) > least:
                continue
            node = self.graph.ein(1, [tensors[number] for number in pair], tuple(sorted(product)))
            node = node.args[0] if is_view(node) and node.args else node
            others = self.first.setdefault(node, set())
            others.add(self.current)
            saved = (len(others) - 1) * operation_count(inputs, kept, sizes, [pair])
            if saved and (best is None or saved > best[0]):
                best = saved, path
        return None if best is None else best[1]

    def reduced(self, part: Labelled, held: Counter[int], extents: Extents) -> Recursion[Labelled]:
        """An operand summed over the labels that nothing else has."""
        labels = part[1]
        kept = tuple(dict.fromkeys(label for label in labels if held[label] > 1))
        if len(kept) == len(set(labels)):
            return part
        _, node = yield self.product([part], kept, extents)
        return node, kept


def _core_of(node: Node) -> Node:
    """The operand of a view; another node itself."""
    return node.args[0] if is_view(node) and node.args else node


def _is_sparse(node: Node) -> bool:
    """Whether a term repeats entries, has them on a diagonal only, or is an outer product."""
    if not is_view(node):
        return is_outer(node)
    output = node.data.output
    if not node.args or len(set(output)) < len(output) or not set(output).issubset(node.data.inputs[0]):
        return True
    return is_outer(node.args[0])


# ---------------------------------------------------------------------------- cofactors in a direction
# Cofactors of order 2 contracted with a matrix: the derivative of the cofactors in its direction.
#
# Products with Hessians of determinants and derivatives of adjugates sum an index pair of a tensor of
# four axes, which is never built: the sum takes no more than a few products of matrices.


class Direction(NamedTuple):
    """An operand of an einsum, and what it is contracted with along one of its index pairs."""

    cofactors: Node
    pair: tuple[int, ...]
    """The labels of the pair, that nothing else has but ``factors``."""
    rest: tuple[int, ...]
    """Those of the other pair."""
    factors: list[Labelled]
    """The operands that depend on the pair."""
    others: list[Labelled]


def cofactor_direction(operands: Sequence[Labelled], output: Sequence[int]) -> Direction | None:
    """The first cofactors of order 2 that are contracted with a matrix, whatever the einsum does besides."""
    for place, (node, labels) in enumerate(operands):
        if node.op == "cof" and node.data == 2 and len(labels) == 4:
            others = [*operands[:place], *operands[place + 1 :]]
            for pair, rest in ((labels[:2], labels[2:]), (labels[2:], labels[:2])):
                factors, apart, known = _connected(others, pair)
                if known.isdisjoint(output) and known.isdisjoint(rest):
                    return Direction(node, pair, rest, factors, apart)
    return None


def _connected(operands: Sequence[Labelled], labels: Sequence[int]) -> tuple[list[Labelled], list[Labelled], set[int]]:
    """The operands that labels lead to, the others, and all labels on the way."""
    known, found, rest = set(labels), [], list(operands)
    while near := [part for part in rest if not known.isdisjoint(part[1])]:
        found += near
        rest = [part for part in rest if known.isdisjoint(part[1])]
        known.update(label for _, own in near for label in own)
    return found, rest, known


def cofactor_tangent(graph: Graph, found: Direction, factors: Node, extents: Extents) -> Node:
    """The contraction over the pair, of ``factors`` over the labels of it; under the labels of the rest."""
    own = tuple(dict.fromkeys(found.pair))
    coefficient, matrix = graph.split_view(graph.ein(1, [(factors, own)], found.pair, extents))
    if is_view(matrix) and not _is_transpose(matrix):
        # Ones and diagonals would vanish in the product, which would then be no contraction with a matrix.
        axes = [graph.fresh(name) for name in "kl"]
        body = entry(graph, matrix, [Affine.variable(axis) for axis in axes])
        matrix = graph.comprehension(axes, matrix.shape, body)
    return graph.ein(coefficient, [(found.cofactors, (0, 1, 2, 3)), (matrix, (2, 3))], (0, 1))


def _is_transpose(view: Node) -> bool:
    return bool(view.args) and len(view.args[0].shape) == 2 == len(set(view.data.inputs[0]) & set(view.data.output))
