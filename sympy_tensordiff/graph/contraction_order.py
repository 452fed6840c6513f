"""The expected sizes, and the order in which the operands of an einsum are multiplied, two at a time.

The orders come from the searches of `opt_einsum`. Its greedy search minimises memory and would multiply the matrices of
a chain with each other although a vector ends it, so it also runs with the number of multiplications; its thorough
searches miss the best order where three operands share a label: the orders are compared with each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import combinations, count
from math import prod
from typing import Any, NamedTuple

from opt_einsum import paths
from opt_einsum.helpers import compute_size_by_dict

from sympy_tensordiff.graph.contractions import is_core, is_transpose, is_view, sums_labels
from sympy_tensordiff.graph.interning import Node, Number, reachable
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.rows import atoms_in

DEFAULT_SIZE = 100
"""The expected value of a size without a hint."""


class Hints:
    """The expected values of sizes and free indices, by which the work of contractions is estimated.

    Parameters
    ----------
    sizes : mapping, optional
        The expected values of variables.
    """

    def __init__(self, sizes: Mapping[Any, int] | None = None) -> None:
        self.sizes = dict(sizes or {})
        self.shorter: dict[Any, int] | None = None

    def __call__(self, form: Affine) -> int:
        """The expected value of an extent, 1 or more."""
        return max(1, form.evaluate({v: self.sizes.get(v, DEFAULT_SIZE) for v in form.atoms()}))

    def for_graph(self, roots: Iterable[Node], nodes: Iterable[Node]) -> Hints:
        """Return hints whose `fine` distinguishes the sizes of a graph; hints that already do so are returned as they
        are.

        Of orders with the same work at the expected sizes, one along the axes of the results is better: its work is
        that of one entry for each of them, however long they are. Otherwise the axes of most variables count as the
        longer ones: a square matrix is multiplied by a vector or a flat matrix rather than by another square one.
        """
        if self.shorter is not None:
            return self
        axes = Counter(v for node in nodes if node.op == "tensor" for extent in node.shape for v in extent.atoms())
        most = max(axes.values(), default=0)
        hints = Hints(self.sizes)
        hints.shorter = {v: int(count < most) for v, count in axes.items()}
        for v in atoms_in(extent for root in roots for extent in root.shape):
            hints.shorter[v] = hints.shorter.get(v, 0) + 2
        return hints

    def fine(self, form: Affine) -> int:
        """Return the expected value of an extent in fractions, slightly less for sizes that count as shorter."""
        shorter = self.shorter or {}
        return _PARTS * self(form) - max((shorter.get(v, 0) for v in form.atoms()), default=0)


_PARTS = 128
"""The number of parts of an extent of 1, see `Hints.fine`."""


# ---------------------------------------------------------------------------- orders


Labels = frozenset[int]
Path = Sequence[tuple[int, ...]]

_MAX_OPTIMAL_OPERANDS = 6
"""The most operands for which all orders are tried."""

_MAX_THOROUGH_OPERANDS = 10
"""The most operands for which the orders of thorough searches are compared as well."""


def contraction_path(inputs: Sequence[Labels], output: Labels, sizes: Mapping[int, int]) -> Path:
    """Return the operands of each multiplication: those of the call are 0, 1, …, each product has the next number.

    Parameters
    ----------
    inputs : sequence of sets of labels
        The labels of each operand. A label that is not in the output occurs in two operands or more.
    output : set of labels
    sizes : mapping
        The extent of each label.
    """
    if len(inputs) < 3:
        return [tuple(range(len(inputs)))] if len(inputs) == 2 else []
    used = sorted(frozenset().union(*inputs))
    return _cheapest_path(tuple(inputs), output, tuple([(label, sizes[label]) for label in used]))


@lru_cache(maxsize=4096)
def _cheapest_path(inputs: tuple[Labels, ...], output: Labels, sizes_of_labels: tuple[tuple[int, int], ...]) -> Path:
    """Return the path of `contraction_path` for three operands or more, cached."""
    operands, sizes = list(inputs), dict(sizes_of_labels)

    def multiplications(_: int, __: int, ___: int, ____: Labels, one: Labels, two: Labels) -> int:
        """Return the number of multiplications for the product of two operands: the cost function of `opt_einsum`."""
        return int(compute_size_by_dict(one | two, sizes))

    searches: list[Any] = [paths.greedy, partial(paths.greedy, cost_fn=multiplications)]
    if len(inputs) <= _MAX_THOROUGH_OPERANDS:
        # All orders of equal cost, as of scalars, would be tried: the best two steps at a time are enough.
        searches += [paths.dynamic_programming, partial(paths.branch, nbranch=2)]
    if len(inputs) <= _MAX_OPTIMAL_OPERANDS:
        searches.append(paths.optimal)
    candidates = (_numbered_path(search(operands, output, sizes)) for search in searches)
    return min(candidates, key=lambda path: _path_cost(operands, output, sizes, path))


class Order(NamedTuple):
    """A path, its number of multiplications, and the label sets of the products of its steps."""

    path: Path
    work: int
    products: tuple[Labels, ...]


def orders_of_least_work(inputs: Sequence[Labels], output: Labels, sizes: Mapping[int, int]) -> tuple[Order, ...]:
    """Return the path of `contraction_path`, then those of no more work that begin with another product which sums a
    label; only the first of more than `_MAX_SHARED_OPERANDS` operands. Cached.
    """
    used = sorted(frozenset().union(*inputs))
    return _orders(tuple(inputs), output, tuple([(label, sizes[label]) for label in used]))


_MAX_SHARED_OPERANDS = 5
"""The most operands for which all first pairs are tried, to share a product with other einsums.

Of 2, MTTKRP takes twice the time; of 10, no text of the benchmarks changes.
"""


@lru_cache(maxsize=4096)
def _orders(
    inputs: tuple[Labels, ...], output: Labels, sizes_of_labels: tuple[tuple[int, int], ...]
) -> tuple[Order, ...]:
    """Return the orders of `orders_of_least_work`."""
    sizes = dict(sizes_of_labels)

    def order(path: Path) -> Order:
        """Return a path with its work and its products."""
        products = tuple([product for _, product in products_of_path(inputs, output, path)])
        return Order(path, operation_count(inputs, output, sizes, path), products)

    found = [order(contraction_path(inputs, output, sizes))]
    if 3 <= len(inputs) <= _MAX_SHARED_OPERANDS:
        for pair in combinations(range(len(inputs)), 2):
            ((_, product),) = products_of_path(inputs, output, [pair])
            if product != inputs[pair[0]] | inputs[pair[1]]:
                found.append(order(path_from(pair, inputs, output, sizes)))
    return (found[0], *(one for one in found[1:] if one.work <= found[0].work))


def path_from(pair: tuple[int, int], inputs: Sequence[Labels], output: Labels, sizes: Mapping[int, int]) -> Path:
    """Return a path that begins with the product of the operands ``pair``."""
    others = [number for number in range(len(inputs)) if number not in pair]
    ((_, product),) = products_of_path(inputs, output, [pair])
    rest = contraction_path([*(inputs[number] for number in others), product], output, sizes)
    numbers = [*others, *range(len(inputs), len(inputs) + len(rest) + 1)]
    return [pair, *(tuple(sorted(numbers[number] for number in step)) for step in rest)]


def _path_cost(inputs: Sequence[Labels], output: Labels, sizes: Mapping[int, int], path: Path) -> tuple[int, int]:
    """Return the number of multiplications of a path, and that of the entries of its products."""
    entries = sum(compute_size_by_dict(product, sizes) for _, product in products_of_path(inputs, output, path))
    return operation_count(inputs, output, sizes, path), entries


def _numbered_path(path: Any) -> Path:
    """Convert a path of `opt_einsum`, which counts positions among the remaining operands, to operand numbers."""
    return [tuple(sorted(step)) for step in paths.linear_to_ssa(path)]


def products_of_path(inputs: Sequence[Labels], output: Labels, path: Path) -> Iterator[tuple[list[Labels], Labels]]:
    """Yield the label sets of the operands of each step of a path, and those of their product."""
    known = list(inputs)
    counts = Counter(label for labels in (*inputs, output) for label in labels)
    for step in path:
        chosen = [known[number] for number in step]
        for labels in chosen:
            counts.subtract(labels)
        product = frozenset(label for labels in chosen for label in labels if counts[label])
        counts.update(product)
        known.append(product)
        yield chosen, product


def operation_count(inputs: Sequence[Labels], output: Labels, sizes: Mapping[int, int], path: Path) -> int:
    """Return the number of multiplications in all steps of a path."""
    return sum(
        compute_size_by_dict(frozenset().union(*chosen), sizes) for chosen, _ in products_of_path(inputs, output, path)
    )


# ---------------------------------------------------------------------------- absorbed products
# Products that are multiplied out in the einsums that use them, so that these can choose the order.


Labelled = tuple[Node, tuple[int, ...]]
Extents = dict[Any, Affine]

_MAX_USERS = 16
"""The most einsums that may each multiply out a product; with more users it is computed once."""

_MAX_ESTIMATED_OPERANDS = 16
"""The most operands for which the work of an einsum is estimated."""


_MAX_OUTER_TERMS = 6
"""The most terms of a sum of outer products that is multiplied out."""


class Products:
    """Decides which products are ``absorbed``: multiplied out in the einsums that use them.

    These are used once, or by einsums only that take less work in total when each multiplies them out.
    """

    def __init__(self, nodes: Sequence[Node], roots: Sequence[Node], hints: Hints) -> None:
        self.hints = hints
        self.ranks: dict[Node, int] = {}
        self.uses = Counter(roots)
        self.users: dict[Node, list[Node]] = {}
        for part in nodes:
            self.uses.update(part.args)
            for arg in part.args:
                self.users.setdefault(arg, []).append(part)
        results = set(roots)
        inner = [
            part for part in nodes if is_core(part) and part not in results and all(map(is_core, self.users[part]))
        ]
        self.absorbed = {part for part in inner if self.uses[part] == 1}
        for part in reversed(inner):
            if 1 < self.uses[part] <= _MAX_USERS and sums_labels(part) and self.is_less_work_without(part):
                self.absorbed.add(part)

    def is_less_work_without(self, node: Node) -> bool:
        """Return whether the einsums that use the product ``node`` take less work in total if each multiplies
        it out.
        """
        groups: dict[Node, None] = {}
        stack = list(self.users[node])
        while stack and len(groups) <= _MAX_USERS:
            user = stack.pop()
            if user in self.absorbed:
                stack += self.users[user]
            else:
                groups[user] = None
        if len(groups) > _MAX_USERS:
            return False
        own = self.work(node)
        with_it = [self.work(group) for group in groups]
        self.absorbed.add(node)
        without = [self.work(group) for group in groups]
        self.absorbed.remove(node)
        if own is None or None in with_it or None in without:
            return False
        return sum(work or 0 for work in without) < own + sum(work or 0 for work in with_it)

    def work(self, node: Node) -> int | None:
        """Return the estimated number of multiplications of an einsum; None for one of too many operands.

        A sum of outer products among the operands is multiplied term by term if that is less work.
        """
        output = tuple(range(len(node.shape)))
        operands, extents = self.gathered(node, output, {}, _MAX_ESTIMATED_OPERANDS)
        if len(operands) > _MAX_ESTIMATED_OPERANDS:
            return None
        whole = self.work_in_order(operands, output, extents)
        terms = self.in_outer_terms(operands, extents)
        each = sum(self.work_in_order(term, output, extents) for _, term in terms)
        return min(whole, each) if terms else whole

    def in_outer_terms(self, operands: Sequence[Labelled], extents: Extents) -> list[tuple[Number, list[Labelled]]]:
        """Return the coefficient and the operands of each term of an einsum one of whose ``operands`` is a sum of outer
        products, multiplied out; an empty list if none is. New labels are added to ``extents``.
        """
        for position, (node, labels) in enumerate(operands):
            if self.rank(node) > 0:
                others = [*operands[:position], *operands[position + 1 :]]
                terms = self.outer_terms(node, labels, count(max(extents) + 1), extents)
                return [(coefficient, [*others, *term]) for coefficient, term in terms]
        return []

    def outer_terms(
        self, root: Node, labels: tuple[int, ...], numbers: Iterator[int], extents: Extents
    ) -> list[tuple[Number, list[Labelled]]]:
        """Return the coefficient and the operands of each term of a sum of outer products."""
        found: list[tuple[Number, list[Labelled]]] = []
        stack: list[tuple[Node, tuple[int, ...], Number, list[Labelled]]] = [(root, labels, 1, [])]
        while stack:
            node, own, coefficient, others = stack.pop()
            if node.op == "add":
                stack += [(arg, own, coefficient, others) for arg in reversed(node.args)]
                continue
            known = dict(zip(node.data.output, own, strict=True))
            for label, extent in enumerate(node.data.extents):
                if label not in known:
                    known[label] = next(numbers)
                    extents[known[label]] = extent
            inner = [tuple([known[label] for label in arg]) for arg in node.data.inputs]
            factors = list(zip(node.args, inner, strict=True))
            coefficient *= node.data.coefficient
            is_term = is_core(node) and is_separable(node)
            place = -1 if is_term else next(k for k, arg in enumerate(node.args) if self.rank(arg))
            if place < 0:
                found.append((coefficient, [*others, *factors]))
            else:
                rest = [*others, *factors[:place], *factors[place + 1 :]]
                stack.append((*factors[place], coefficient, rest))
        return found

    def rank(self, node: Node) -> int:
        """Return the number of terms of a sum of outer products, such as ``A @ (outer(x, y) + outer(y, x))``; 0 for any
        other node.
        """
        if node not in self.ranks:
            for part in reachable(node, known=self.ranks):
                self.ranks[part] = self._rank(part)
        return self.ranks[node]

    def _rank(self, node: Node) -> int:
        """Return `rank`, given that of the arguments."""
        ranks = [self.ranks.get(arg, 0) for arg in node.args]
        if node.op == "add":
            return sum(ranks) if all(ranks) and node.shape and sum(ranks) <= _MAX_OUTER_TERMS else 0
        if node.op != "ein" or not node.args or len(set(node.data.output)) < len(node.data.output):
            return 0
        if is_view(node) and not set(node.data.output).issuperset(node.data.inputs[0]):
            return 0
        if len(node.shape) < 2:
            return 0
        return int(is_core(node) and is_separable(node)) or next(filter(None, ranks), 0)

    def work_in_order(self, operands: Sequence[Labelled], output: tuple[int, ...], extents: Extents) -> int:
        """Return the number of multiplications of an einsum of ``operands`` in the best order."""
        uses = Counter(label for _, labels in operands for label in set(labels))
        uses.update(output)
        inputs = [frozenset(label for label in labels if uses[label] > 1) for _, labels in operands]
        sizes = {label: self.hints(extent) for label, extent in extents.items()}
        path = contraction_path(inputs, frozenset(output), sizes)
        return operation_count(inputs, frozenset(output), sizes, path)

    def gathered(
        self,
        node: Node,
        output: tuple[int, ...],
        done: Mapping[Node, Node],
        max_operands: int | None = None,
        opened: Collection[Node] = (),
    ) -> tuple[list[Labelled], Extents]:
        """Return the operands of an einsum and of those that it absorbs, under common labels, and the extents of these.

        Operands in ``done`` are replaced. With more than ``max_operands`` operands the search stops unfinished. The
        einsums ``opened`` are absorbed as well.
        """
        numbers = count(len(output))
        extents = dict(zip(output, node.shape, strict=True))
        operands: list[Labelled] = []
        stack = [(node, output)]
        while stack and (max_operands is None or len(operands) <= max_operands):
            inner_node, labels = stack.pop()
            if inner_node is not node and inner_node not in self.absorbed and inner_node not in opened:
                inner_node = done.get(inner_node, inner_node)
                if not is_outer(inner_node.args[0] if is_transpose(inner_node) else inner_node):
                    operands.append((inner_node, labels))
                    continue
            known = dict(zip(inner_node.data.output, labels, strict=True))
            for label, extent in enumerate(inner_node.data.extents):
                if label not in known:
                    known[label] = next(numbers)
                    extents[known[label]] = extent
            inner = [tuple([known[label] for label in labels]) for labels in inner_node.data.inputs]
            stack += reversed(list(zip(inner_node.args, inner, strict=True)))
        return operands, extents

    def volume(self, labels: Sequence[int], extents: Extents) -> int:
        """Return the expected number of entries over the different ones of ``labels``."""
        return prod([self.hints(extents[label]) for label in set(labels)])


def is_separable(core: Node) -> bool:
    """Return whether an einsum is an outer product of einsums: its axes belong to operands that no label connects, as
    in ``(A @ x)[:, None]*y[None, :]``.
    """
    groups: list[set[int]] = []
    for labels in core.data.inputs:
        joined = {*labels}.union(*(group for group in groups if not group.isdisjoint(labels)))
        groups = [*(group for group in groups if group.isdisjoint(labels)), joined]
    return sum(not group.isdisjoint(core.data.output) for group in groups) > 1


def is_outer(node: Node) -> bool:
    """Return whether a node is an outer product: it sums nothing, and all operands have fewer axes than the result."""
    return is_core(node) and not sums_labels(node) and all(len(arg.shape) < len(node.shape) for arg in node.args)
