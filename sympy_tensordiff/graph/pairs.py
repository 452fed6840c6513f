"""Splitting einsum nodes of many operands into products of two, in an order of little work.

A product that is used once is part of the einsum that uses it, so that the order can go across the
nodes as written: a chain of Jacobian matrices with a vector at one end becomes one product of a
matrix and a vector after the other, whichever way the chain was multiplied out. (Choosing between
forward and reverse mode at every place is known as cross-country elimination.) So is an outer
product, however often it is used; and a sum with a diagonal or an outer product among its terms is
multiplied term by term where that is less work: ``(diag(p) - p p^T) A`` needs no square matrix.

A congruence ``P.T @ M @ P`` computes ``P`` once (`congruences`), and multiplies a sum ``M`` term by term where its
terms are congruences again: the Hessian of a network needs each product with a weight once.

Where several orders take as little work, one comes first that multiplies two operands which another einsum node can
multiply first as well: ``Sum_ij T_ijk A_i`` serves the derivatives with respect to b and c of
``Sum T_ijk A_i b_j c_k``.

Afterwards an einsum node has two operands; or one, whose axes it sums; or sums nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from math import prod
from typing import NamedTuple, TypeAlias

from sympy_tensordiff.graph.cofactor_tangents import cofactor_direction, cofactor_tangent
from sympy_tensordiff.graph.congruences import CongruentFactors, congruence
from sympy_tensordiff.graph.contraction_order import Extents, Hints, Labelled, Products, is_outer
from sympy_tensordiff.graph.contraction_paths import Order, orders_of_least_work
from sympy_tensordiff.graph.contractions import is_core, is_transpose, is_view, sums_labels
from sympy_tensordiff.graph.interning import Number, Recursion, in_turn, trampoline
from sympy_tensordiff.graph.multiplied_sums import MultipliedSum, multiplied_sums
from sympy_tensordiff.graph.nodes import Graph, Node, reachable
from sympy_tensordiff.graph.unit_labels import without_unit_labels

Evaluation: TypeAlias = tuple[int, Node]
"""The estimated work of an einsum, and its node as products of two operands."""

OpenedTerm: TypeAlias = tuple[Evaluation, MultipliedSum | None]
"""A term of a product with a sum; of one that multiplies another sum, the factor of that sum, and the product."""

_TERMWISE_FACTOR = 0.9
"""A product with a sum is multiplied term by term if that takes at most 1/0.9 times the work.

The matrix of the sum may be much larger than the result, if a size is not as expected.
"""


class PrivateParts(NamedTuple):
    """The sums and products that only one sum uses. If that sum is multiplied out term by term, they need not be
    computed.
    """

    sums: Collection[Node]
    """Sums among the terms of the sum, and among their terms."""
    products: Sequence[frozenset[Node]]
    """Sets of products that may be multiplied out: terms of sums, also with their own products."""


def in_pairs(graph: Graph, roots: Sequence[Node], hints: Hints, known: Collection[Node] = ()) -> list[Node]:
    """Return ``roots`` with each einsum of several operands split into products of two, in the cheapest order. Nodes in
    ``known`` are computed already and stay as they are.
    """
    narrow = without_unit_labels(graph, roots, known)
    work = _Pairing(graph, narrow, hints, known)
    found = [work.done[root] for root in narrow]
    if work.multiplied:
        # A product that terms of sums used may be multiplied out, where all of its users are products now.
        products = Products(reachable(*found, known=known), found, work.hints)
        if any(products.uses[product] > 1 for product in products.absorbed):
            again = _Pairing(graph, found, work.hints, known)
            return [again.done[root] for root in found]
    return found


class _Pairing:
    """The splitting of all einsums of a graph into products of two operands; ``done`` maps each node to its result."""

    def __init__(self, graph: Graph, roots: Sequence[Node], hints: Hints, known: Collection[Node]) -> None:
        self.graph = graph
        self.known = known
        parts = reachable(*roots, known=known)
        self.hints = hints.for_graph(roots, parts)
        self.products = Products(parts, roots, self.hints)
        self.done: dict[Node, Node] = {}
        self.single: set[Node] = set()
        self.first: dict[Node, set[Node]] = {}
        """The products with which an order of least work can begin, with the einsum nodes they serve."""
        self.written: dict[Node, Node] = {}
        """The sums of tensors before their terms were split into products of two."""
        self.work: dict[Node, int] = {}
        self.terms: dict[tuple[Node, frozenset[Node]], Evaluation] = {}
        self.opened_terms: dict[tuple[Node, frozenset[Node]], OpenedTerm] = {}
        self.current = graph.zero
        self.shared: dict[Node, Node] = {}
        """Sums that are multiplied term by term in all their uses, by their results."""
        self.private: dict[Node, PrivateParts] = {}
        self.multiplied = False
        """Whether a sum is multiplied term by term."""
        self.built: set[Node] = set()
        """Sums with several uses that are computed as matrices nevertheless."""
        self.computed: dict[Node, int] = {}
        """The products that the results of the last round contain, with their numbers of uses."""
        self.rejected: set[Node] = set()
        """The products of terms of sums that are not multiplied term by term."""
        self.last: dict[Node, Node] = {}
        self.split_all(parts)
        is_new = any(len(nodes) > 1 for nodes in self.first.values())
        while is_new or self.find_computed_sums(roots) or self.find_computed_products(roots):
            is_new = False
            self.split_all(parts)

    def find_computed_sums(self, roots: Sequence[Node]) -> bool:
        """Record the sums of matrices that were multiplied out term by term although the result also contains them as a
        whole. Return whether there are any, so that splitting is repeated.
        """
        results = {*reachable(*(self.done[root] for root in roots))} if self.shared else set()
        built = {written for result, written in self.shared.items() if result in results}
        self.built |= built
        return bool(built)

    def find_computed_products(self, roots: Sequence[Node]) -> bool:
        """Record the products that the result computes. Return whether some of them are new and may change a decision
        about multiplying out a sum, so that splitting is repeated.
        """
        if not self.rejected:
            return False
        results = reachable(*(self.done[root] for root in roots))
        uses = Counter(arg for node in results for arg in node.args)
        found = {node: uses[node] for node in results if is_core(node)}
        is_new = not self.rejected.isdisjoint(found.keys() - self.computed.keys())
        self.computed, self.last = found, self.done
        return is_new

    def is_computed_elsewhere(self, product: Node) -> bool:
        """Return whether a part of the result other than the current one also computes `product`."""
        if product not in self.computed:
            return False
        return self.computed[product] > 1 or product not in reachable(self.last[self.current])

    def split_all(self, parts: Sequence[Node]) -> None:
        """Split all einsums among `parts`, arguments first, and store the results in ``done``."""
        self.done = {node: node for node in self.known}
        self.single.clear()
        self.written.clear()
        self.terms.clear()
        self.opened_terms.clear()
        self.shared.clear()
        self.rejected.clear()
        for part in parts:
            if part in self.products.absorbed:
                continue
            self.current = part
            self.done[part] = (
                self.split_core(part)
                if is_core(part)
                else self.graph.with_args(part, [self.done[arg] for arg in part.args])
            )
            if self.products.uses[part] == 1:
                self.single.add(self.done[part])
            if part.op == "add":
                self.written[self.done[part]] = part

    def split_core(self, node: Node) -> Node:
        """Return the einsum `node` as products of at most two operands. Inner products that are cheaper to multiply out
        are merged into it first.
        """
        output = tuple(range(len(node.shape)))
        if terms := self.cheaper_terms(node, output):
            split = [self.split_scaled_core(coefficient, term) for coefficient, term in terms]
            self.work[node] = sum(work for work, _ in split)
            return self.graph.add([term for _, term in split])
        self.work[node], result = self.split_gathered(node)
        return result

    def split_scaled_core(self, coefficient: Number, node: Node) -> Evaluation:
        """Return ``(work, new node)`` of ``coefficient*node``, split into products of two operands; `node` may be a
        transposed or scaled einsum.
        """
        graph = self.graph
        factor, node = (1, node) if node.shape else graph.split_coefficient(node)
        core = _core_of(node)
        if not is_core(core):
            return 0, graph.scale(coefficient * factor, graph.with_args(node, [self.done.get(a, a) for a in node.args]))
        work, found = self.split_gathered(core)
        new = found if core is node else graph.with_operands(node, [found])
        return work, graph.scale(coefficient * factor, new)

    def split_gathered(self, node: Node) -> Evaluation:
        """Return ``(work, new node)`` of the einsum `node`: inner products are merged into it, then it is split into
        products of two operands.
        """
        output = tuple(range(len(node.shape)))
        operands, extents = self.products.gathered(node, output, self.done)
        return trampoline(self.split_in_order(operands, output, extents))

    def cheaper_terms(self, node: Node, output: tuple[int, ...]) -> list[tuple[Number, Node]]:
        """Return the terms of an einsum, ``(coefficient, term)``, multiplied out over an operand that is a sum of outer
        products; [] unless that takes at most half the work.
        """
        if not any(map(self.products.rank, node.args)) or not sums_labels(node):
            return []
        operands, extents = self.products.gathered(node, output, {})
        terms = self.products.in_outer_terms(operands, extents)
        if len(terms) < 2:
            return []
        whole = self.products.work_in_order(operands, output, extents)
        if 2 * sum(self.products.work_in_order(term, output, extents) for _, term in terms) > whole:
            return []
        return [(coefficient, self.graph.ein(1, term, output, extents)) for coefficient, term in terms]

    def split_product(
        self, operands: list[Labelled], output: tuple[int, ...], extents: Extents
    ) -> Recursion[Evaluation]:
        """Return ``(work, new node)`` of an einsum with one or two operands.

        A sum of tensors among the operands is multiplied term by term where that is less work: the sum and its terms
        need not be computed then. ``(diag(u) + A B) x`` is ``u*x + A (B x)``. A product with an inverse is the solution
        of a system, which takes one sum as well as one term, unless the terms are outer products: then it is one of
        vectors.
        """
        work = self.products.volume([label for _, labels in operands for label in labels], extents)
        operands = [operand if operand[0] in self.written else _untransposed(operand) for operand in operands]
        has_inverse = any(_core_of(operand).op == "inv" for operand, _ in operands)
        for position, (operand, _) in enumerate(operands):
            written = self.written.get(operand, operand)
            if written.op != "add" or len(operand.shape) < 2:  # a vector costs no more than its products with others
                continue
            if not has_inverse or all(is_outer(_core_of(term)) for term in self.terms_of(written)):
                found = yield from self.split_by_terms(operands, position, output, extents, work)
                if found is not None:
                    return found
        return work, self.graph.ein(1, operands, output, extents)

    def split_by_terms(
        self, operands: list[Labelled], position: int, output: tuple[int, ...], extents: Extents, work: int
    ) -> Recursion[Evaluation | None]:
        """Return ``(work, new node)`` of a product in which the sum at ``position`` is multiplied out term by term;
        None if that takes more than ``work``.

        Sums with several uses in its terms are multiplied out in turn, each once, with the sum of all that multiplies
        it, as in a reverse sweep: the number of products in nested sums would grow exponentially otherwise.
        """
        terms = yield from self.opened_sum(operands, position, output, extents, work)
        if terms is None:
            return None
        total, found = 0, []
        waiting: dict[Labelled, list[tuple[Evaluation, MultipliedSum]]] = {}
        axes = tuple(range(len(output)))
        while True:
            for evaluation, product in terms:
                total += evaluation[0]
                if product is None:
                    found.append(evaluation[1])
                else:
                    waiting.setdefault(product.operand, []).append((evaluation, product))
            if not waiting:
                break
            factors = waiting.pop(max(waiting, key=lambda operand: self.written[operand[0]].id))
            first = factors[0][1]
            factor = self.graph.add([node for (_, node), _ in factors])
            total += (len(factors) - 1) * self.products.volume(first.axes, first.extents)
            together = [(factor, first.axes), first.operand]
            direct = self.work_with_sum(first)
            terms = yield from self.opened_sum(together, 1, axes, first.extents, direct)
            if terms is None:
                terms = [((direct, self.graph.ein(1, together, axes, first.extents)), None)]
        self.multiplied = True
        return total, self.graph.add(found)

    def opened_sum(
        self, operands: list[Labelled], position: int, output: tuple[int, ...], extents: Extents, work: int
    ) -> Recursion[list[OpenedTerm] | None]:
        """Return the terms of a product in which the sum at ``position`` is multiplied out; None if they take more than
        ``work`` in total.

        The work for the sum itself is saved, and that for the products in its terms that nothing else uses. A sum with
        several uses is saved only if all of them are multiplied term by term: each counts its share, also where it is
        a term of the sum. A term that multiplies a sum with several uses is the factor of that sum.
        """
        operand, labels = operands[position]
        original = self.written.get(operand, operand)
        uses = 1 if operand in self.single else self.products.uses[original]
        is_saved = uses > 0 and (uses == 1 or original not in self.built)
        summands = self.terms_of(original)
        is_sparse = any(map(self.is_sparse, summands))
        inner = [one for one in map(_core_of, summands) if one.op == "add" and one not in self.built]
        inner = [one for one in inner if self.private_parts(one).products[0]]
        volume = self.products.volume(labels, extents)
        best: tuple[int, int, list[OpenedTerm], frozenset[Node]] | None = None
        for opened in self.private_parts(original).products if is_saved else [frozenset[Node]()]:
            if opened or is_sparse or inner:
                saved_work = self.work_of_sum(original, opened, volume) // uses if is_saved else 0
                terms = yield from in_turn(
                    self.opened_term(operands, position, term, output, extents, opened) for term in summands
                )
                total = sum(cost for (cost, _), _ in terms)
                total += sum(
                    self.products.volume([*one.axes, *one.operand[1]], one.extents)
                    for _, one in terms
                    if one is not None
                )
                for one in inner if is_saved else ():
                    if self.done[one] in self.shared:
                        every = self.private_parts(one).products[-1]
                        saved_work += self.work_of_sum(one, every, volume) // (uses * self.products.uses[one])
                if best is None or total - saved_work < best[0] - best[1]:
                    best = total, saved_work, terms, opened
        if best is None:
            return None
        total, saved_work, terms, opened = best
        is_cheap = opened or inner or (is_saved and is_sparse)
        products = [(cost, _core_of(part)) for (cost, part), factored in terms if factored is None]
        known = sum(cost for cost, one in products if self.is_computed_elsewhere(one))
        if (2 if not is_cheap else _TERMWISE_FACTOR if is_sparse else 1) * (total - known) > work + saved_work:
            self.rejected.update(one for _, one in products)
            return None
        if uses > 1 and is_saved:
            self.shared[operand] = original
        return terms

    def is_sparse(self, node: Node) -> bool:
        """Return whether a product with `node` takes less work than one with a full matrix, because it is broadcast,
        diagonal or an outer product.
        """
        core = node
        if is_view(node):
            output = node.data.output
            if not node.args or len(set(output)) < len(output) or not set(output).issubset(node.data.inputs[0]):
                return True
            core = node.args[0]
        return is_outer(core) or self.products.rank(core) > 0

    def work_of_sum(self, total: Node, products: Collection[Node], volume: int) -> int:
        """Return the number of operations of ``total``, a sum with ``volume`` entries, including ``products`` and inner
        sums that only it uses.
        """
        additions = sum(len(part.args) for part in (total, *self.private_parts(total).sums))
        return additions * volume + sum(self.work.get(product, 0) for product in products)

    def private_parts(self, total: Node) -> PrivateParts:
        """Return the sums and products that are used only to compute the sum ``total``."""
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

    def terms_of(self, total: Node) -> list[Node]:
        """Return the terms of the sum ``total``. An inner sum that nothing else uses, also scaled or transposed, is
        replaced by its own terms.
        """
        inside = self.private_parts(total).sums
        terms: list[Node] = []
        stack = [*reversed(total.args)]
        while stack:
            term = stack.pop()
            inner = _core_of(term)
            if inner.op == "add" and inner in inside:
                own = (self.graph.broadcast(part, inner.shape) for part in reversed(inner.args))
                stack += own if inner is term else (self.graph.with_operands(term, [part]) for part in own)
            else:
                terms.append(term)
        return terms

    def opened_term(
        self,
        operands: list[Labelled],
        position: int,
        term: Node,
        output: tuple[int, ...],
        extents: Extents,
        opened: frozenset[Node],
    ) -> Recursion[OpenedTerm]:
        """Return an einsum with ``term`` in place of the sum at ``position``. If this multiplies a further sum that is
        used elsewhere too, return only the factor of that sum.
        """
        changed = [
            *operands[:position],
            (self.graph.broadcast(term, operands[position][0].shape), operands[position][1]),
        ]
        whole = self.graph.ein(1, [*changed, *operands[position + 1 :]], output, extents)
        found = self.multiplied_sum(whole, opened)
        if found is None:
            return (yield from self.split_term(operands, position, term, output, extents, opened)), None
        work, node = yield self.split_in_order(found.others, found.axes, found.extents)
        return (work, self.graph.scale(found.coefficient, node)), found

    def multiplied_sum(self, whole: Node, opened: frozenset[Node]) -> MultipliedSum | None:
        """Return the einsum `whole` as a product with a sum that is used several times, ``(A + B) @ C``; None if no
        operand is such a sum.
        """
        core, order = _core_of(whole), tuple(range(len(whole.shape)))
        if not whole.shape or not is_core(core) or len(core.shape) != len(order):
            return None
        coefficient: Number = 1
        if core is not whole:
            coefficient, labels = whole.data.coefficient, whole.data.inputs[0]
            if sorted(labels) != sorted(whole.data.output):
                return None
            order = tuple([whole.data.output.index(label) for label in labels])
        operands, extents = self.products.gathered(core, tuple(range(len(order))), self.done, opened=opened)
        found = multiplied_sums(coefficient, operands, order, extents, self.is_shared_sum)
        return next((one for one in found if self.is_no_more_work_first(one, tuple(range(len(order))))), None)

    def is_shared_sum(self, node: Node) -> bool:
        """Return whether `node` is a sum of tensors that is used several times and may be multiplied out term
        by term.
        """
        original = self.written.get(node)
        return original is not None and self.products.uses[original] > 1 and original not in self.built

    def work_with_sum(self, product: MultipliedSum) -> int:
        """Return the number of multiplications of the sum in `product` with its factor."""
        return self.products.volume([*product.axes, *product.operand[1]], product.extents)

    def is_no_more_work_first(self, product: MultipliedSum, output: tuple[int, ...]) -> bool:
        """Return whether it takes the least work to multiply all other operands of `product` first and the sum last."""
        zero, extents = self.graph.zero, product.extents
        apart = self.products.work_in_order([*product.others, product.operand], output, extents)
        first = self.products.work_in_order(product.others, product.axes, extents)
        return first + self.products.work_in_order([(zero, product.axes), product.operand], output, extents) <= apart

    def split_term(
        self,
        operands: list[Labelled],
        position: int,
        term: Node,
        output: tuple[int, ...],
        extents: Extents,
        opened: frozenset[Node],
    ) -> Recursion[Evaluation]:
        """Return ``(work, new node)`` of an einsum with ``term`` in place of the sum at ``position``. Products in
        ``opened`` are multiplied out in it.
        """
        graph = self.graph
        total, labels = operands[position]
        changed = [*operands[:position], (graph.broadcast(term, total.shape), labels), *operands[position + 1 :]]
        whole = graph.ein(1, changed, output, extents)
        key = whole, opened
        if key not in self.terms:
            factor, node = (1, whole) if whole.shape else graph.split_coefficient(whole)
            core = _core_of(node)
            if is_core(core):
                inner = tuple(range(len(core.shape)))
                gathered, lengths = self.products.gathered(core, inner, self.done, opened=opened)
                work, found = yield self.split_in_order(gathered, inner, lengths)
                work += self.products.volume(output, extents) if core is not node else 0
                new = graph.scale(factor, found if core is node else graph.with_operands(node, [found]))
                self.terms[key] = work, new
            else:
                self.terms[key] = self.products.volume(output, extents), whole
        return self.terms[key]

    def split_in_order(
        self, operands: list[Labelled], output: tuple[int, ...], extents: Extents
    ) -> Recursion[Evaluation]:
        """Return ``(work, new node)`` of an einsum as products of two operands in the cheapest order."""
        found = cofactor_direction(operands, output)
        if found is not None:
            own, direction = yield self.split_in_order(found.factors, tuple(dict.fromkeys(found.pair)), extents)
            tangent = cofactor_tangent(self.graph, found, direction, extents)
            work, node = yield self.split_in_order([*found.others, (tangent, found.rest)], output, extents)
            return work + own + self.products.volume(found.rest, extents) * self.hints(extents[found.pair[0]]), node
        uses = Counter(label for _, labels in operands for label in set(labels))
        uses.update(output)
        kept = _summed_later(operands, uses)
        output_labels, output = output, (*output, *kept)
        uses.update(kept)
        operands = yield from in_turn(self.sum_private_labels(part, uses, extents) for part in operands)
        scalars = [part for part in operands if not part[0].shape]
        tensors = [part for part in operands if part[0].shape]
        if {label for _, labels in tensors for label in labels}.issubset(output_labels):
            return self.products.volume(output, extents), self.graph.ein(1, operands, output, extents)
        work, node = yield from self.split_tensors(tensors, output, extents)
        return work, self.graph.ein(1, [(node, output), *scalars], output_labels, extents)

    def split_tensors(
        self, tensors: list[Labelled], output: tuple[int, ...], extents: Extents
    ) -> Recursion[Evaluation]:
        """Return ``(work, new node)`` of an einsum of tensors that sums over labels: in the cheapest order, or with a
        product ``P`` that occurs twice, as in ``P.T @ M @ P``, computed once.

        The product that a congruence contains twice is computed once, and a sum between is multiplied term by term:
        ``P' (D + Q' C Q) P`` is ``P' D P + (Q P)' C (Q P)``, which needs ``Q P`` once.
        """
        shared = congruence(tensors, output)
        if shared is None:
            return (yield from self.split_by_order(tensors, output, extents))
        axes, renamed = shared.axes
        if len(shared.first) > 1 and self.is_less_work_shared(shared, tensors, output, extents):
            own, product = yield self.split_in_order(shared.first, axes, extents)
            operands = [*shared.others, (product, axes), (product, renamed)]
            work, node = yield self.split_in_order(operands, output, extents)
            return own + work, node
        work, node = yield from self.split_by_order(tensors, output, extents)
        for position, (operand, labels) in enumerate(tensors):
            original = self.written.get(operand, operand)
            is_single = operand in self.single or self.products.uses[original] == 1
            if original.op != "add" or len(labels) < 2 or not is_single:
                continue
            opened = self.private_parts(original).products[-1]
            terms = yield from in_turn(
                self.split_term(tensors, position, term, output, extents, opened) for term in self.terms_of(original)
            )
            total = sum(cost for cost, _ in terms)
            if total < work:
                work, node = total, self.graph.add([part for _, part in terms])
        return work, node

    def split_by_order(
        self, tensors: list[Labelled], output: tuple[int, ...], extents: Extents
    ) -> Recursion[Evaluation]:
        """Return ``(work, node)`` for an einsum of tensors by products of two operands in the cheapest order."""
        tensors = list(tensors)
        inputs = [frozenset(labels) for _, labels in tensors]
        sizes = {label: self.hints.fine(extent) for label, extent in extents.items()}
        first, *others = orders_of_least_work(inputs, frozenset(output), sizes)
        order = self.order_with_shared_product(tensors, others, sizes) or first
        work = 0
        for step, left in zip(order.path, order.products, strict=True):
            labels = tuple(sorted(left))
            own, node = yield self.split_product([tensors[number] for number in step], labels, extents)
            work += own
            tensors.append((node, labels))
        return work, self.graph.ein(1, [tensors[-1]], output, extents)

    def is_less_work_shared(
        self, shared: CongruentFactors, operands: list[Labelled], output: tuple[int, ...], extents: Extents
    ) -> bool:
        """Return whether it takes less work to compute the product that occurs twice in ``operands`` first, once."""
        axes, renamed = shared.axes
        zero = self.graph.zero
        work = self.products.work_in_order(shared.first, axes, extents)
        rest = [*shared.others, (zero, axes), (zero, renamed)]
        work += self.products.work_in_order(rest, output, extents)
        return work < self.products.work_in_order(operands, output, extents)

    def order_with_shared_product(
        self, tensors: list[Labelled], orders: Sequence[Order], sizes: Mapping[int, int]
    ) -> Order | None:
        """Return one of ``orders`` that starts with a product which other einsums need as well; None if there
        is none.
        """
        best: tuple[int, Order] | None = None
        for order in orders:
            pair = order.path[0]
            node = self.graph.ein(1, [tensors[number] for number in pair], tuple(sorted(order.products[0])))
            node = node.args[0] if is_view(node) and node.args else node
            others = self.first.setdefault(node, set())
            others.add(self.current)
            labels = {label for number in pair for label in tensors[number][1]}
            saved = (len(others) - 1) * prod(sizes[label] for label in labels)
            if saved and (best is None or saved > best[0]):
                best = saved, order
        return None if best is None else best[1]

    def sum_private_labels(self, part: Labelled, uses: Counter[int], extents: Extents) -> Recursion[Labelled]:
        """Return an operand summed over those of its labels that no other operand and not the output has."""
        labels = part[1]
        shared = tuple(dict.fromkeys(label for label in labels if uses[label] > 1))
        if len(shared) == len(set(labels)):
            return part
        _, node = yield self.split_product([part], shared, extents)
        return node, shared


def _core_of(node: Node) -> Node:
    """Return ``A`` for a transposed or scaled tensor such as ``2*A.T``; another node unchanged."""
    return node.args[0] if is_view(node) and node.args else node


def _is_sum_or_view(node: Node) -> bool:
    """Return whether `node` is a sum of tensors or a view (transpose, multiple, broadcast or diagonal); a view of a sum
    must only scale or transpose it.
    """
    if is_view(node) and node.args and node.args[0].op == "add":
        return sorted(node.data.inputs[0]) == sorted(node.data.output)
    return is_view(node) or (node.op == "add" and bool(node.shape))


def _summed_later(operands: Sequence[Labelled], uses: Counter[int]) -> list[int]:
    """Return the labels on one axis of an inverse that are summed only after ``inv(A) @ b`` is solved as a linear
    system, since another operand has the other axis.
    """
    found = []
    for node, labels in operands:
        if _core_of(node).op == "inv" and len(set(labels)) == 2 == len(labels):
            shared = [label for label in labels if uses[label] > 1]
            found += [label for label in labels if uses[label] == 1 and shared]
    return found


def _untransposed(operand: Labelled) -> Labelled:
    """Return the operand ``S.T`` of a sum ``S`` as ``S`` with its labels permuted; other operands unchanged."""
    node, labels = operand
    if not is_transpose(node) or node.args[0].op != "add":
        return operand
    known = dict(zip(node.data.output, labels, strict=True))
    return node.args[0], tuple(known[label] for label in node.data.inputs[0])
