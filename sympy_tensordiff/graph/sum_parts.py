"""The parts of a sum of tensors: its terms, and the sums and products that nothing else uses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from sympy_tensordiff.graph.contraction_order import Products, is_outer
from sympy_tensordiff.graph.contractions import is_core, is_view, sums_labels
from sympy_tensordiff.graph.interning import Number
from sympy_tensordiff.graph.nodes import Graph, Node

_STORED = frozenset({"tensor", "inv", "scan"})
"""Nodes whose entries are in memory before a sum reads them."""


class PrivateParts(NamedTuple):
    """The sums and products below one sum that no other expression uses. If this sum is multiplied out,
    ``A @ x + B @ x`` for ``(A + B) @ x``, they need not be computed.
    """

    sums: Collection[Node]
    """Sums among the terms of the sum, and among their terms."""
    products: Sequence[frozenset[Node]]
    """Sets of products that may be multiplied out: terms of sums, also with their own products."""


class SumParts:
    """Analyses the sums in a graph: finds their terms, and the inner sums and products that nothing else uses. ``work``
    maps each einsum that has been split into products of two to its number of operations.
    """

    def __init__(self, graph: Graph, products: Products) -> None:
        self.graph = graph
        self.products = products
        self.work: dict[Node, int] = {}
        self.private: dict[Node, PrivateParts] = {}
        self.shares: dict[Node, Mapping[Node, Fraction]] = {}

    def private_parts(self, total: Node) -> PrivateParts:
        """Return the sums and products below the sum ``total`` that nothing else uses. They need not be computed if
        ``total`` is multiplied out term by term.
        """
        if total not in self.private:
            found: dict[Node, None] = {}
            waiting, uses = [*total.args], Counter(total.args)
            direct: frozenset[Node] = frozenset()
            for is_part in (_is_sum_or_view, is_core):
                stack, waiting = waiting, []
                while stack:
                    node = stack.pop()
                    if is_part(node) and node not in found and uses[node] == self.products.uses[node]:
                        found[node] = None
                        stack += node.args
                        uses.update(node.args)
                    else:
                        waiting.append(node)
                direct = direct or frozenset(n for n in waiting if is_core(n) and uses[n] == self.products.uses[n])
            sums = {part for part in found if part.op == "add"}
            every = frozenset(part for part in found if is_core(part) and part not in self.products.absorbed)
            self.private[total] = PrivateParts(sums, [direct] if every <= direct else [direct, every | direct])
        return self.private[total]

    def shared_terms(self, total: Node) -> Mapping[Node, Fraction]:
        """Return the products that are terms of ``total`` and of other sums, but are used nowhere else. Each is mapped
        to the fraction of its uses that is in ``total``: 1/2 if another sum uses it once, too.

        If all these sums are multiplied out term by term, the products need not be computed.
        """
        if total not in self.shares:
            own = Counter(core_of(term) for term in self.terms_of(total))
            private = self.private_parts(total).products[-1]
            found = {part: self.uses_in_sums(part) for part in own if part not in private and sums_labels(part)}
            self.shares[total] = {part: Fraction(own[part], uses) for part, uses in found.items() if uses}
        return self.shares[total]

    def uses_in_sums(self, product: Node) -> int:
        """Return how often ``product`` is a term of a sum, perhaps scaled or transposed; 0 if it has any other use."""
        users = self.products.users
        own = users.get(product, ())
        views = [user for user in own if is_view(user)]
        direct = [user for user in own if not is_view(user)]
        outer = [user for view in views for user in users.get(view, ())]
        is_term = len(direct) + len(views) == self.products.uses[product] and all(
            len(users.get(view, ())) == self.products.uses[view] for view in views
        )
        return len(direct) + len(outer) if is_term and all(user.op == "add" for user in (*direct, *outer)) else 0

    def terms_of(self, total: Node) -> list[Node]:
        """Return the terms of the sum ``total``. If a term is a scaled or transposed sum without other uses, its own
        terms are returned instead.
        """
        inside = self.private_parts(total).sums
        terms: list[Node] = []
        stack = [*reversed(total.args)]
        while stack:
            term = stack.pop()
            inner = core_of(term)
            if inner.op == "add" and inner in inside:
                own = (self.graph.broadcast(part, inner.shape) for part in reversed(inner.args))
                stack += own if inner is term else (self.graph.with_operands(term, [part]) for part in own)
            else:
                terms.append(term)
        return terms

    def is_sparse(self, node: Node) -> bool:
        """Return whether the tensor ``node`` is broadcast, diagonal or an outer product, so that multiplying by it
        takes fewer operations than by a full matrix.
        """
        core = node
        if is_view(node):
            output = node.data.output
            if not node.args or len(set(output)) < len(output) or not set(output).issubset(node.data.inputs[0]):
                return True
            core = node.args[0]
        return is_outer(core) or self.products.rank(core) > 0

    def mixes_orders(self, terms: Sequence[Node]) -> bool:
        """Return whether ``terms`` are multiples of stored tensors, with axes in different orders, as in ``A + A.T``:
        no order of loops reads all of them contiguously. False if terms may cancel, as in ``A - A.T``.
        """
        found: dict[Node, list[Number]] = {}
        orders = set()
        for term in terms:
            core = core_of(term)
            if core.op not in _STORED or not (core is term or _permutes(term)):
                return False
            orders.add(_axes_of(term))
            found.setdefault(core, []).append(1 if core is term else term.data.coefficient)
        cancels = any(-number in numbers for numbers in found.values() for number in numbers)
        return len(orders) > 1 and not cancels

    def work_of_sum(self, total: Node, products: Collection[Node], volume: int) -> int:
        """Return the number of operations that compute the sum ``total`` with ``volume`` entries: its additions, those
        of inner sums that nothing else uses, and the work for ``products``.
        """
        additions = sum(len(part.args) for part in (total, *self.private_parts(total).sums))
        return additions * volume + sum(self.work.get(product, 0) for product in products)


def core_of(node: Node) -> Node:
    """Return the operand of `node` if `node` is a transposed, repeated or scaled tensor: ``A`` for ``2*A.T``. Another
    node is returned unchanged.
    """
    return node.args[0] if is_view(node) and node.args else node


def _permutes(view: Node) -> bool:
    """Return whether the einsum ``view`` of one operand only permutes the axes of the operand, and perhaps scales it;
    other views repeat it or take diagonals.
    """
    labels, output = view.data.inputs[0], view.data.output
    return len(set(labels)) == len(labels) and sorted(labels) == sorted(output)


def _axes_of(term: Node) -> tuple[int, ...]:
    """Return the order in which ``term``, a view of a tensor, has the axes of that tensor: for each axis of the tensor,
    its position in the view. The identity if ``term`` is not a view.
    """
    if not is_view(term):
        return tuple(range(len(term.shape)))
    return tuple([term.data.output.index(label) for label in term.data.inputs[0]])


def _is_sum_or_view(node: Node) -> bool:
    """Return whether a node is a sum of tensors or a view of a tensor. A view of a sum only counts if it scales or
    transposes the sum.
    """
    if is_view(node) and node.args and node.args[0].op == "add":
        return sorted(node.data.inputs[0]) == sorted(node.data.output)
    return is_view(node) or (node.op == "add" and bool(node.shape))
