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

import sympy

from sympy_tensordiff.graph.cofactor_tangents import cofactor_direction, cofactor_tangent
from sympy_tensordiff.graph.congruences import CongruentFactors, congruence
from sympy_tensordiff.graph.contained_products import MAX_OPERANDS, with_contained_products
from sympy_tensordiff.graph.contraction_order import Extents, Hints, Labelled, Products, is_outer
from sympy_tensordiff.graph.contraction_paths import Order, orders_of_least_work
from sympy_tensordiff.graph.contractions import is_core, is_transpose, is_view, sums_labels
from sympy_tensordiff.graph.interning import Number, Recursion, in_turn, trampoline
from sympy_tensordiff.graph.nodes import Graph, Node, reachable
from sympy_tensordiff.graph.sum_parts import core_of
from sympy_tensordiff.graph.term_products import Evaluation, ProductWithSum, TermProducts
from sympy_tensordiff.graph.unit_labels import with_diagonals_inside, without_unit_labels


def in_pairs(
    graph: Graph, roots: Sequence[Node], hints: Hints, known: Collection[Node] = (), shares: bool = True
) -> list[Node]:
    """Return ``roots`` with each einsum of several operands split into products of two, in the cheapest order for the
    sizes expected by ``hints``. Nodes in ``known`` are computed already and stay. With ``shares``, a product of some
    operands that another einsum computes is replaced by that one.
    """
    narrow = with_diagonals_inside(graph, without_unit_labels(graph, roots, known), known)
    products: Products | None = None
    for _ in range(MAX_OPERANDS if shares else 0):  # each time, products of fewer operands are read
        parts = reachable(*narrow, known=known)
        products = Products(parts, narrow, hints.for_graph(narrow, parts))
        before, narrow = narrow, with_contained_products(graph, narrow, parts, products)
        if narrow == before:
            break
        products = None
    work = _Pairing(graph, narrow, hints, known, products)
    found = [work.done[root] for root in narrow]
    if work.multiplied:
        # A product that terms of sums used may be multiplied out, where all of its users are products now.
        products = Products(reachable(*found, known=known), found, work.hints)
        if any(products.uses[product] > 1 for product in products.absorbed):
            again = _Pairing(graph, found, work.hints, known)
            return [again.done[root] for root in found]
    return found


class _Pairing(TermProducts):
    """Splits all einsums of a graph into products of two operands, and lets einsums reuse the products of others.
    ``done`` maps each node to its new node.
    """

    def __init__(
        self,
        graph: Graph,
        roots: Sequence[Node],
        hints: Hints,
        known: Collection[Node],
        products: Products | None = None,
    ) -> None:
        self.known = known
        parts = reachable(*roots, known=known)
        self.hints = hints.for_graph(roots, parts)
        super().__init__(graph, products or Products(parts, roots, self.hints))
        self.first: dict[Node, set[Node]] = {}
        """The products with which an order of least work can begin, with the einsum nodes they serve."""
        self.current = graph.zero
        self.computed: dict[Node, int] = {}
        """The products that the results of the last round contain, with their numbers of uses."""
        self.last: dict[Node, Node] = {}
        self.split_all(parts)
        self.find_computed_first(parts, roots)
        is_new = any(len(nodes) > 1 for nodes in self.first.values())
        while is_new or self.find_computed_sums(roots) or self.find_computed_products(roots):
            is_new = False
            self.split_all(parts)

    def find_computed_first(self, parts: Sequence[Node], roots: Sequence[Node]) -> None:
        """Add to ``self.first``, a dictionary from products to the einsums that need them, each einsum in ``parts``
        that is itself one of these products, if the new graph of ``roots`` computes it. Other einsums can then begin
        with this product.
        """
        if self.first:
            results = {*reachable(*(self.done[root] for root in roots))}
            for part in parts:
                product = self.done.get(part)
                if is_core(part) and product in self.first and product in results:
                    self.first[product].add(part)

    def find_computed_sums(self, roots: Sequence[Node]) -> bool:
        """Add to ``self.built`` the sums of matrices that were to be multiplied out term by term, but that the new
        graph of ``roots`` computes as arrays nevertheless. Return whether there are any: then all einsums must be split
        again.
        """
        results = {*reachable(*(self.done[root] for root in roots))} if self.shared else set()
        built = {written for result, written in self.shared.items() if result in results}
        self.built |= built
        return bool(built)

    def find_computed_products(self, roots: Sequence[Node]) -> bool:
        """Record in ``self.computed`` each product in the new graph of ``roots``, with its number of uses. Return True
        if one of them was assumed to be an extra cost when a sum was not multiplied out: then all einsums must be split
        again.
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
        """Return whether ``product`` costs nothing here, because the graph of the last pass computes it for another
        einsum, too: it had several uses there, or the current einsum did not need it.
        """
        if product not in self.computed:
            return False
        return self.computed[product] > 1 or product not in reachable(self.last[self.current])

    def split_all(self, parts: Sequence[Node]) -> None:
        """Rewrite `parts`, arguments first, and store the new nodes in ``done``: einsums are split into products of two
        operands, other nodes get the new arguments.
        """
        self.done = {node: node for node in self.known}
        self.single.clear()
        self.written.clear()
        self.terms.clear()
        self.shared.clear()
        self.rejected.clear()
        self.refused.clear()
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
            if part.op == "add":  # of sums with equal results, one is another with a term that is 0: the first ends
                self.written.setdefault(self.done[part], part)

    def split_core(self, node: Node) -> Node:
        """Return the einsum ``node`` rewritten as a chain of products, each of at most two operands.

        Einsums among its operands are merged into it before, where one multiplication order for all is cheaper; a sum
        among them is multiplied out if that is much cheaper.
        """
        output = tuple(range(len(node.shape)))
        if terms := self.cheaper_terms(node, output):
            split = [self.split_scaled_core(coefficient, term) for coefficient, term in terms]
            self.work[node] = sum(work for work, _ in split)
            return self.graph.add([term for _, term in split])
        self.work[node], result = self.split_gathered(node)
        return result

    def split_scaled_core(self, coefficient: Number, node: Node) -> Evaluation:
        """Return ``(number of operations, new node)`` for ``coefficient*node``, where the einsum in `node`, which may
        be transposed or scaled, is split into products of two operands.
        """
        graph = self.graph
        factor, node = (1, node) if node.shape else graph.split_coefficient(node)
        core = core_of(node)
        if not is_core(core):
            return 0, graph.scale(coefficient * factor, graph.with_args(node, [self.split_new(a) for a in node.args]))
        work, found = self.split_gathered(core)
        new = found if core is node else graph.with_operands(node, [found])
        return work, graph.scale(coefficient * factor, new)

    def split_gathered(self, node: Node) -> Evaluation:
        """Split the einsum `node` into products of two operands, after merging einsums nested in its operands into it.
        Return ``(work, new node)`` with the number of operations of these products.
        """
        output = tuple(range(len(node.shape)))
        operands, extents = self.gathered(node, output)
        return trampoline(self.split_in_order(operands, output, extents))

    def cheaper_terms(self, node: Node, output: tuple[int, ...]) -> list[tuple[Number, Node]]:
        """Multiply out the einsum ``node`` over an operand that is a sum of outer products. Return the terms, pairs of
        a coefficient and an einsum with the result labels ``output``; [] unless they take at most half the work.
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
        """Return ``(number of operations, new node)`` of an einsum with one or two labelled `operands` and the result
        labels `output`. A sum among the operands is multiplied term by term if that is less work. ``extents`` maps
        labels to extents.

        The sum and its terms need not be computed then. ``(diag(u) + A B) x`` is ``u*x + A (B x)``. A product with an
        inverse is the solution of a system, which takes one sum as well as one term, unless the terms are outer
        products: then it is one of vectors.
        """
        work = self.products.volume([label for _, labels in operands for label in labels], extents)
        operands = [operand if operand[0] in self.written else _untransposed(operand) for operand in operands]
        has_inverse = any(core_of(operand).op == "inv" for operand, _ in operands)
        for position, (operand, _) in enumerate(operands):
            written = self.written.get(operand, operand)
            if written.op != "add" or len(operand.shape) < 2:  # a vector costs no more than its products with others
                continue
            if not has_inverse or all(map(_is_product_of_vectors, self.terms_of(written))):
                product = ProductWithSum(operands, position, output, extents)
                found = yield from self.split_by_terms(product, work)
                if found is not None:
                    return found
        return work, self.graph.ein(1, operands, output, extents)

    def split_in_order(
        self, operands: list[Labelled], output: tuple[int, ...], extents: Extents
    ) -> Recursion[Evaluation]:
        """Split an einsum of ``operands`` into products of two, in the cheapest order. Return ``(work, new node)``,
        where ``work`` is the number of multiplications. ``output`` are the labels of the result, ``extents`` maps
        labels to extents.
        """
        found = cofactor_direction(operands, output)
        if found is not None:
            own, direction = yield self.split_in_order(found.factors, tuple(dict.fromkeys(found.pair)), extents)
            tangent = cofactor_tangent(self.graph, found, direction, extents)
            work, node = yield self.split_in_order([*found.others, (tangent, found.rest)], output, extents)
            return work + own + self.products.volume(found.rest, extents) * self.hints(extents[found.pair[0]]), node
        uses = Counter(label for _, labels in operands for label in set(labels))
        uses.update(output)
        remaining = _summed_later(operands, uses, output)
        output_labels, output = output, (*output, *remaining)
        uses.update(remaining)
        operands = yield from in_turn(self.sum_private_labels(part, uses, extents) for part in operands)
        scalars = [part for part in operands if not part[0].shape]
        tensors = [part for part in operands if part[0].shape]
        if {label for _, labels in tensors for label in labels}.issubset(output_labels):
            return self.products.volume(output, extents), self.outer_product(operands, output, extents)
        work, node = yield from self.split_tensors(tensors, output, extents)
        return work, self.graph.ein(1, [(node, output), *scalars], output_labels, extents)

    def outer_product(self, operands: list[Labelled], output: tuple[int, ...], extents: Extents) -> Node:
        """Return the einsum of `operands` with the result labels `output`, which sums over nothing. Vectors along the
        same axis of the result are multiplied first: ``a_i b_j c_j d_j`` is the outer product of ``a`` and ``b*c*d``.

        Divisors that may be small and exponentials stay operands of their own: an inverse norm may underflow before a
        large factor comes.
        """
        groups: dict[frozenset[int], list[Labelled]] = {}
        factors: list[Labelled] = []
        for operand in operands:
            core = core_of(operand[0])
            if (core.op == "pow" and not _is_safe_power(core)) or core.data is sympy.exp:
                factors.append(operand)
            else:
                groups.setdefault(frozenset(operand[1]), []).append(operand)
        for labels, own in groups.items():
            if len(own) > 1 and len(labels) == 1 and len(set(output)) > 1:
                axes = tuple(sorted(labels))
                own = [(self.graph.ein(1, own, axes, extents), axes)]
            factors += own
        return self.graph.ein(1, factors, output, extents)

    def split_tensors(
        self, tensors: list[Labelled], output: tuple[int, ...], extents: Extents
    ) -> Recursion[Evaluation]:
        """Split the einsum of `tensors` with the result labels ``output`` into products of two tensors, in the cheapest
        order. Return ``(work, new node)`` with the number of operations. ``extents`` maps labels to extents.

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
            product = ProductWithSum(tensors, position, output, extents)
            terms = yield from in_turn(self.split_term(product, term, opened) for term in self.terms_of(original))
            total = sum(cost for cost, _ in terms)
            if total < work:
                work, node = total, self.graph.add([part for _, part in terms])
        return work, node

    def split_by_order(
        self, tensors: list[Labelled], output: tuple[int, ...], extents: Extents
    ) -> Recursion[Evaluation]:
        """Return ``(work, node)`` for an einsum of ``tensors`` with the result labels ``output``, as products of two
        operands in the cheapest order. ``work`` is the number of operations. ``extents`` maps labels to extents.
        """
        tensors = list(tensors)
        inputs = [frozenset(labels) for _, labels in tensors]
        sizes = {label: self.hints.tie_breaking_size(extent) for label, extent in extents.items()}
        first, *others = orders_of_least_work(inputs, frozenset(output), sizes)
        order = self.order_with_shared_product(tensors, others, sizes)
        order = order or self.order_with_small_products((first, *others), extents)
        work = 0
        for step, left in zip(order.path, order.products, strict=True):
            labels = tuple(sorted(left))
            own, node = yield self.split_product([tensors[number] for number in step], labels, extents)
            work += own
            tensors.append((node, labels))
        return work, self.graph.ein(1, [tensors[-1]], output, extents)

    def order_with_small_products(self, orders: Sequence[Order], extents: Extents) -> Order:
        """Return the first of ``orders``, the orders in which a product of several tensors can be multiplied. If it
        makes an array that grows faster than all stored arrays, prefer the first equally cheap order that makes none.

        Where ``A @ B`` is computed for a function, ``B @ A @ C`` is ``B @ (A @ C)`` with a result of its shape.
        """
        first, *others = orders

        def is_small(order: Order) -> bool:
            """Return whether all products in `order`, an order of multiplications, are small: none is an array that
            grows faster with the sizes than all stored arrays.
            """
            shapes = [[extents[label] for label in labels] for labels in order.products]
            return not any(map(self.products.is_larger_than_stored, shapes))

        equal = [order for order in others if order.work == first.work]
        return first if not equal or is_small(first) else next(filter(is_small, equal), first)

    def is_less_work_shared(
        self, shared: CongruentFactors, operands: list[Labelled], output: tuple[int, ...], extents: Extents
    ) -> bool:
        """Return whether an einsum of ``operands`` takes fewer operations if two equal products in it, such as ``P`` in
        ``P.T @ M @ P``, are computed once. ``shared`` describes them; ``output`` are the result labels, ``extents``
        maps labels to extents.
        """
        axes, renamed = shared.axes
        zero = self.graph.zero
        work = self.products.work_in_order(shared.first, axes, extents)
        rest = [*shared.others, (zero, axes), (zero, renamed)]
        work += self.products.work_in_order(rest, output, extents)
        return work < self.products.work_in_order(operands, output, extents)

    def order_with_shared_product(
        self, tensors: list[Labelled], orders: Sequence[Order], sizes: Mapping[int, int]
    ) -> Order | None:
        """Return the order in ``orders`` whose first product other einsums need, too, so that it is computed once; of
        several, the one that saves the most operations. None if there is none. Products larger than all other tensors
        do not count.
        """
        best: tuple[int, Order] | None = None
        for order in orders:
            pair = order.path[0]
            node = self.graph.ein(1, [tensors[number] for number in pair], tuple(sorted(order.products[0])))
            node = node.args[0] if is_view(node) and node.args else node
            if self.products.is_larger_than_others(node):
                continue
            others = self.first.setdefault(node, set())
            others.add(self.current)
            labels = {label for number in pair for label in tensors[number][1]}
            saved = (len(others) - 1) * prod(sizes[label] for label in labels)
            if saved and (best is None or saved > best[0]):
                best = saved, order
        return None if best is None else best[1]

    def sum_private_labels(self, part: Labelled, uses: Counter[int], extents: Extents) -> Recursion[Labelled]:
        """Return the operand ``part``, summed over its labels that occur in no other operand and not in the result;
        unchanged if there are none. ``uses`` counts the operands, and the result, that have each label.
        """
        labels = part[1]
        shared = tuple(dict.fromkeys(label for label in labels if uses[label] > 1))
        if len(shared) == len(set(labels)):
            return part
        _, node = yield self.split_product([part], shared, extents)
        return node, shared


def _summed_later(operands: Sequence[Labelled], uses: Counter[int], output: Sequence[int]) -> list[int]:
    """Return the labels of the einsum of ``operands`` over which it is best to sum last: labels ``i`` of inverses
    ``inv(A)[i, j]``. The product over ``j`` then solves a linear system with the matrix A.

    ``uses`` counts the uses of each label, ``output`` are the labels of the result.

    This needs a label ``i`` that no other operand has, and a ``j`` of one other operand, or of vectors only.

    Left out are inverses next to several operands, or to another inverse, if one of these has an axis of `output`: each
    intermediate result would get the axis ``i``. These operands are multiplied by the sums of the inverse instead.
    """
    found = []
    longer = Counter(label for node, labels in operands if len(labels) > 1 for label in set(labels))
    for place, (node, labels) in enumerate(operands):
        if core_of(node).op == "inv" and len(set(labels)) == 2 == len(labels):
            rest = [(other, own) for n, (other, own) in enumerate(operands) if n != place and own]
            ends = not set(output).isdisjoint(label for _, own in rest for label in own)
            if ends and (len(rest) > 1 or core_of(rest[0][0]).op == "inv"):
                continue
            others = [label for label in labels if uses[label] > 1 and label not in output]
            solved = [label for label in others if uses[label] == 2 or longer[label] == 1]
            found += [label for label in labels if uses[label] == 1 and solved]
    return found


def _is_safe_power(power: Node) -> bool:
    """Return whether ``power`` divides by no number below 1: its exponent is positive, or its base is a sum of squares
    and a constant of at least 1, as in ``(1 + s**2)**-2``.
    """
    base, exponent = power.args
    if exponent.op != "const" or exponent.data > 0:
        return exponent.op == "const"
    terms = base.args if base.op == "add" else ()
    constants = [term for term in terms if term.op == "const"]
    squares = [term for term in terms if _is_square(term)]
    return any(term.data >= 1 for term in constants) and len(constants) + len(squares) == len(terms)


def _is_square(term: Node) -> bool:
    """Return whether `term` is certainly not negative by its form: a power with one of the exponents 2, 4, 6 and 8,
    maybe transposed, repeated or multiplied by positive numbers.
    """
    while is_view(term) and term.args and term.data.coefficient > 0:
        term = term.args[0]
    return term.op == "pow" and term.args[1].op == "const" and term.args[1].data in (2, 4, 6, 8)


def _is_product_of_vectors(term: Node) -> bool:
    """Return whether `term` is an outer product, or a vector repeated along another axis."""
    if is_view(term) and not set(term.data.output).issubset(*term.data.inputs or [()]):
        return True
    return is_outer(core_of(term))


def _untransposed(operand: Labelled) -> Labelled:
    """Return the operand ``S.T`` of a sum ``S`` as ``S`` with its labels permuted; other operands unchanged."""
    node, labels = operand
    if not is_transpose(node) or node.args[0].op != "add":
        return operand
    known = dict(zip(node.data.output, labels, strict=True))
    return node.args[0], tuple(known[label] for label in node.data.inputs[0])
