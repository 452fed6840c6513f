"""Products with a sum of tensors, multiplied term by term: ``(diag(u) + A B) x`` is ``u*x + A (B x)``."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection
from typing import NamedTuple, TypeAlias

from sympy_tensordiff.graph.contraction_order import Extents, Labelled, Products
from sympy_tensordiff.graph.contractions import is_core
from sympy_tensordiff.graph.interning import Number, Recursion
from sympy_tensordiff.graph.multiplied_sums import MultipliedSum, multiplied_sums
from sympy_tensordiff.graph.nodes import Graph, Node, reachable
from sympy_tensordiff.graph.sum_parts import SumParts, core_of

Evaluation: TypeAlias = tuple[int, Node]
"""The estimated work of an einsum, and its node as products of two operands."""

OpenedTerm: TypeAlias = tuple[Evaluation, MultipliedSum | None]
"""A term of a product with a sum; of one that multiplies another sum, the factor of that sum, and the product."""

_TERMWISE_FACTOR = 0.9
"""A product with a sum is multiplied term by term if that takes at most 1/0.9 times the work.

The matrix of the sum may be much larger than the result, if a size is not as expected.
"""

_STRIDED_READ = 4
"""The work of an entry of ``A + A.T``, of which a term is read down columns: 3 ns for 1000 rows, a term of ``A @ x``
takes 0.5.
"""


class ProductWithSum(NamedTuple):
    """An einsum of ``operands``; the operand at ``position`` is a sum of tensors, which may be multiplied out term by
    term.
    """

    operands: list[Labelled]
    position: int
    output: tuple[int, ...]
    extents: Extents

    def with_term(self, graph: Graph, term: Node) -> Node:
        """Return the einsum with its sum, the operand at ``position``, replaced by the single ``term``, broadcast to
        the shape of the sum.
        """
        total, labels = self.operands[self.position]
        operands = list(self.operands)
        operands[self.position] = graph.broadcast(term, total.shape), labels
        return graph.ein(1, operands, self.output, self.extents)


class TermProducts(SumParts):
    """Decides whether a product with a sum of tensors is multiplied out term by term, ``(A + B) @ x`` as ``A @ x + B @
    x``; the base class of `_Pairing`, which splits einsums into products of two operands.
    """

    def __init__(self, graph: Graph, products: Products) -> None:
        super().__init__(graph, products)
        self.done: dict[Node, Node] = {}
        self.single: set[Node] = set()
        self.written: dict[Node, Node] = {}
        """The sums of tensors before their terms were split into products of two."""
        self.terms: dict[tuple[Node, frozenset[Node]], Evaluation] = {}
        self.shared: dict[Node, Node] = {}
        """Sums that are multiplied term by term in all their uses, and products that are terms of such sums only, by
        their results.
        """
        self.multiplied = False
        """Whether a sum is multiplied term by term."""
        self.built: set[Node] = set()
        """Sums and products with several uses that are computed as matrices nevertheless."""
        self.rejected: set[Node] = set()
        """The products of terms of sums that are not multiplied term by term."""
        self.refused: dict[tuple[Node, Node, int], set[Node]] = {}
        """The products with a sum that are not multiplied term by term, with those of the terms that take too much
        work.
        """

    @abstractmethod
    def split_in_order(
        self, operands: list[Labelled], output: tuple[int, ...], extents: Extents
    ) -> Recursion[Evaluation]:
        """Split an einsum of ``operands`` into products of two, in the order with the fewest multiplications. Return
        ``(number of multiplications, node)``. ``output`` are the labels of the result, ``extents`` maps labels to
        extents.
        """

    @abstractmethod
    def is_computed_elsewhere(self, product: Node) -> bool:
        """Return whether ``product`` is computed in any case, because another part of the result than the current one
        uses it.
        """

    def split_by_terms(self, product: ProductWithSum, work: int) -> Recursion[Evaluation | None]:
        """Return ``(multiplications, node)`` for ``product`` with its sum multiplied out: the number of
        multiplications, and the new node. None if it takes more of them than ``work`` and the savings allow.

        Sums with several uses in its terms are multiplied out in turn, each once, with the sum of all that multiplies
        it, as in a reverse sweep: the number of products in nested sums would grow exponentially otherwise.
        """
        terms = yield from self.opened_sum(product, work)
        if terms is None:
            return None
        total, found = 0, []
        waiting: dict[Labelled, list[tuple[Evaluation, MultipliedSum]]] = {}
        axes = tuple(range(len(product.output)))
        while True:
            for evaluation, factored in terms:
                total += evaluation[0]
                if factored is None:
                    found.append(evaluation[1])
                else:
                    waiting.setdefault(factored.operand, []).append((evaluation, factored))
            if not waiting:
                break
            factors = waiting.pop(max(waiting, key=lambda operand: self.written[operand[0]].id))
            first = factors[0][1]
            factor = self.graph.add([node for (_, node), _ in factors])
            total += (len(factors) - 1) * self.products.volume(first.axes, first.extents)
            together = ProductWithSum([(factor, first.axes), first.operand], 1, axes, first.extents)
            direct = self.work_with_sum(first)
            terms = yield from self.opened_sum(together, direct)
            if terms is None:
                terms = [((direct, self.graph.ein(1, together.operands, axes, first.extents)), None)]
        self.multiplied = True
        return total, self.graph.add(found)

    def opened_sum(self, product: ProductWithSum, work: int) -> Recursion[list[OpenedTerm] | None]:
        """Distribute ``product``, an einsum with a sum as one operand, over the terms of this sum. Return
        ``((operations, node), factor)`` for each term, where ``factor`` is None or a shared sum by which ``node`` must
        still be multiplied; None if the terms cost more than ``work`` plus the operations that are no longer needed.

        ``operations`` is the number of multiplications for ``node``. ``sum`` is None, or a factor by which ``node``
        must still be multiplied: a `MultipliedSum` that several terms share.

        The work for the sum itself is saved, and that for the products in its terms that nothing else uses. A sum with
        several uses is saved only if all of them are multiplied term by term: each counts its share, also where it is
        a term of the sum. A term that multiplies a sum with several uses is the factor of that sum.
        """
        operand, labels = product.operands[product.position]
        key = core_of(self.graph.ein(1, product.operands, product.output, product.extents)), operand, work
        if key in self.refused and not any(map(self.is_computed_elsewhere, self.refused[key])):
            return None
        original = self.written.get(operand, operand)
        uses = 1 if operand in self.single else self.products.uses[original]
        is_saved = uses > 0 and (uses == 1 or original not in self.built)
        summands = self.terms_of(original)
        is_sparse = any(map(self.is_sparse, summands))
        is_mixed = self.mixes_orders(summands)
        inner = [one for one in map(core_of, summands) if one.op == "add" and one not in self.built]
        inner = [one for one in inner if self.private_parts(one).products[0]]
        volume = self.products.volume(labels, product.extents)
        shared = [one for one in inner if self.products.uses[one] > 1]
        # A term that is a sum with several uses has many terms of its own: it comes last.
        order = sorted(range(len(summands)), key=lambda n: self.is_shared_sum(core_of(summands[n])))
        best: tuple[int, list[OpenedTerm]] | None = None
        refused: set[Node] = set()
        open_now = frozenset[Node]()
        common = self.shared_products(original)
        options = self.private_parts(original).products if is_saved else [frozenset[Node]()]
        for opened in [*options, options[-1].union(common)] if is_saved and common else options:
            if not (opened or is_sparse or inner or is_mixed):
                continue
            strided = _STRIDED_READ * volume if is_mixed else 0
            own = opened.difference(common)
            saved = (self.work_of_sum(original, own, volume) + strided) // uses if is_saved else 0
            saved += sum(common[part] // uses for part in opened - own)
            shares = {one: self.share_of_sum(one, volume) // uses for one in shared if is_saved}
            is_cheap = opened or inner or (is_saved and (is_sparse or is_mixed))
            factor = 2 if not is_cheap else _TERMWISE_FACTOR if is_sparse else 1
            total, terms = 0, dict[int, OpenedTerm]()
            for n in order:
                terms[n] = (work_of_term, node), factored = yield self.opened_term(product, summands[n], opened)
                if factored is not None:
                    work_of_term += self.products.volume([*factored.axes, *factored.operand[1]], factored.extents)
                elif self.is_computed_elsewhere(core_of(node)):
                    continue
                else:
                    refused.add(core_of(node))
                total += work_of_term
                if factor * total > work + saved + sum(shares.values()):
                    break
            saved += sum(share for one, share in shares.items() if self.done[one] in self.shared)
            if factor * total <= work + saved and (best is None or total - saved < best[0]):
                best = total - saved, [terms[n] for n in range(len(summands))]
                open_now = opened
        if best is None:
            self.rejected |= refused
            self.refused[key] = refused
            return None
        if uses > 1 and is_saved:
            self.shared[operand] = original
        self.shared.update((self.done[part], part) for part in open_now if part in common)
        return best[1]

    def shared_products(self, total: Node) -> dict[Node, int]:
        """Return how many operations the sum ``total`` saves for each product among its terms that other sums contain,
        too, if the product is not computed by itself: a dictionary from products to numbers.

        That is possible if ``total`` and all other sums with these terms are multiplied out term by term.

        ``total`` counts only its share of the saving.
        """
        return {
            part: int(self.work.get(part, 0) * share)
            for part, share in self.shared_terms(total).items()
            if part not in self.built
        }

    def share_of_sum(self, total: Node, volume: int) -> int:
        """Return the number of operations that compute the sum `total`, divided by the number of its uses.

        Each use saves this share if all of them multiply the terms one by one, so that the sum itself is not computed.
        ``volume`` is its number of entries.
        """
        every = self.private_parts(total).products[-1]
        return self.work_of_sum(total, every, volume) // self.products.uses[total]

    def opened_term(self, product: ProductWithSum, term: Node, opened: frozenset[Node]) -> Recursion[OpenedTerm]:
        """Return ``((work, node), sum)`` for the einsum ``product`` with ``term`` in place of its sum: the number of
        operations and the new node. If ``sum``, a `MultipliedSum`, is not None, the caller must still multiply the node
        by it.

        The products in `opened` are multiplied out.
        """
        found = self.multiplied_sum(product.with_term(self.graph, term), opened)
        if found is None:
            return (yield from self.split_term(product, term, opened)), None
        work, node = yield self.split_in_order(found.others, found.axes, found.extents)
        return (work, self.graph.scale(found.coefficient, node)), found

    def multiplied_sum(self, whole: Node, opened: frozenset[Node]) -> MultipliedSum | None:
        """Return the einsum ``whole`` as the product of two factors: a sum with several uses, and the einsum of the
        other operands. None if it has no such sum, or if it is cheaper to multiply in another order. Products in
        ``opened`` are replaced by their factors first.
        """
        core, order = core_of(whole), tuple(range(len(whole.shape)))
        if not whole.shape or not is_core(core) or len(core.shape) != len(order):
            return None
        coefficient: Number = 1
        if core is not whole:
            coefficient, labels = whole.data.coefficient, whole.data.inputs[0]
            if sorted(labels) != sorted(whole.data.output):
                return None
            order = tuple([whole.data.output.index(label) for label in labels])
        operands, extents = self.gathered(core, tuple(range(len(order))), opened)
        found = multiplied_sums(coefficient, operands, order, extents, self.is_shared_sum)
        return next((one for one in found if self.is_no_more_work_first(one, tuple(range(len(order))))), None)

    def is_shared_sum(self, node: Node) -> bool:
        """Return whether `node` is a sum of tensors that has several uses and may be multiplied out term by term."""
        original = self.written.get(node)
        return original is not None and self.products.uses[original] > 1 and original not in self.built

    def work_with_sum(self, product: MultipliedSum) -> int:
        """Return the number of multiplications in the last step of evaluating `product`, one operand of which is a sum:
        the einsum of the other operands is multiplied by this sum.
        """
        return self.products.volume([*product.axes, *product.operand[1]], product.extents)

    def is_no_more_work_first(self, product: MultipliedSum, output: tuple[int, ...]) -> bool:
        """Return whether multiplying the sum in ``product`` last, after all other operands, takes no more work than the
        best order. ``output`` are the labels of the result.
        """
        zero, extents = self.graph.zero, product.extents
        separate_work = self.products.work_in_order([*product.others, product.operand], output, extents)
        first = self.products.work_in_order(product.others, product.axes, extents)
        return (
            first + self.products.work_in_order([(zero, product.axes), product.operand], output, extents)
            <= separate_work
        )

    def split_term(self, product: ProductWithSum, term: Node, opened: frozenset[Node]) -> Recursion[Evaluation]:
        """Return ``(number of operations, node)`` for the einsum ``product`` with ``term`` in place of its sum, split
        into products of two operands.

        Operands in `opened`, which are products themselves, are first replaced by their factors.
        """
        graph = self.graph
        whole = product.with_term(graph, term)
        key = whole, opened
        if key not in self.terms:
            factor, node = (1, whole) if whole.shape else graph.split_coefficient(whole)
            core = core_of(node)
            if is_core(core):
                inner = tuple(range(len(core.shape)))
                gathered, lengths = self.gathered(core, inner, opened)
                work, found = yield self.split_in_order(gathered, inner, lengths)
                work += self.products.volume(product.output, product.extents) if core is not node else 0
                new = graph.scale(factor, found if core is node else graph.with_operands(node, [found]))
                self.terms[key] = work, new
            else:
                self.terms[key] = self.products.volume(product.output, product.extents), self.split_new(whole)
        return self.terms[key]

    def gathered(
        self, node: Node, output: tuple[int, ...], opened: Collection[Node] = ()
    ) -> tuple[list[Labelled], Extents]:
        """Return ``(operands, extents)`` of the einsum `node` whose result has the labels ``output``: pairs of an
        operand and its labels, and the extent of each label. Products in ``opened`` are replaced by their own operands.

        Operands that are einsums are already split into products of two.
        """
        operands, extents = self.products.gathered(node, output, self.done, opened=opened)
        return [(one if one in self.done else self.split_new(one), labels) for one, labels in operands], extents

    def split_new(self, node: Node) -> Node:
        """Return ``node`` after the splitting of products into products of two operands, as the dictionary ``done``
        records it. A node without an entry there is rebuilt from its split arguments.

        Nodes without an entry are made while products are multiplied out: a product of a term and the other operands
        may have two equal factors, which are a power, and a sum of several terms becomes one sum for each.
        """
        if node in self.done:
            return self.done[node]
        made: dict[Node, Node] = {}
        for part in reachable(node, known=self.done):
            args = [self.done[arg] if arg in self.done else made[arg] for arg in part.args]
            made[part] = self.graph.with_args(part, args) if args else part
        return made[node]
