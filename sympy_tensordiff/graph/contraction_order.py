"""Expected sizes, and the choice of products that are multiplied out in the einsums that use them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import count
from math import prod
from typing import Any

from sympy_tensordiff.graph.contraction_paths import least_work
from sympy_tensordiff.graph.contractions import is_core, is_transpose, is_view, sums_labels
from sympy_tensordiff.graph.interning import Node, Number, reachable
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.indirect import data_entries
from sympy_tensordiff.integer.polynomials import Growth, Polynomial, grows_faster, maximal
from sympy_tensordiff.integer.rows import atoms_in

DEFAULT_SIZE = 100
"""The expected value of a size without a hint."""


class Hints:
    """The expected values of sizes and free indices, from which costs of contractions are estimated: those in `sizes`,
    and a default for others. An instance is called with an extent, and returns its expected value.
    """

    def __init__(self, sizes: Mapping[Any, int] | None = None) -> None:
        self.sizes = dict(sizes or {})
        self.shorter: dict[Any, int] | None = None
        self._values: dict[Affine, int] = {}

    def __call__(self, form: Affine) -> int:
        """The expected value of an extent or of a bound, 1 or more; entries of index arrays count as half of their
        range.
        """
        found = self._values.get(form)
        if found is None:
            found = self._values[form] = self._value(form)
        return found

    def _value(self, form: Affine) -> int:
        """Return the expected value of the extent or bound ``form``, at least 1: sizes have the values in the hints or
        a default, entries of integer arrays half of their range. `__call__` caches it.
        """
        for entry in data_entries([form]):
            length = DEFAULT_SIZE if entry.below is None else self(entry.below)
            form = form.substitute({entry: Affine.of(length // 2)})
        return max(1, form.evaluate({v: self.sizes.get(v, DEFAULT_SIZE) for v in form.atoms()}))

    def for_graph(self, roots: Iterable[Node], nodes: Iterable[Node]) -> Hints:
        """Return these hints with a rule that decides between contraction orders of equal expected cost: extents of the
        results `roots` count as slightly shorter than others, and the most frequent extent of the variables in `nodes`
        as longer.

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

    def tie_breaking_size(self, form: Affine) -> int:
        """Return an integer for the expected size of the extent `form`, by which contractions are compared: the size
        times ``_PARTS``, less a small number that decides between contractions of equal cost.

        This number is the greatest value (up to 3) in the dictionary ``shorter`` for a variable of `form`, or 0.
        """
        shorter = self.shorter or {}
        return _PARTS * self(form) - max((shorter.get(v, 0) for v in form.atoms()), default=0)


_PARTS = 128
"""The number of parts of an extent of 1, see `Hints.tie_breaking_size`."""


Labelled = tuple[Node, tuple[int, ...]]
Extents = dict[Any, Affine]

_MAX_USERS = 16
"""The most einsums that may each multiply out a product; with more users it is computed once."""

_MAX_ESTIMATED_OPERANDS = 16
"""The most operands for which the work of an einsum is estimated."""


_MAX_OUTER_TERMS = 6
"""The most terms of a sum of outer products that is multiplied out."""


class Products:
    """Decides for each product that is an operand of other einsums whether it is computed once and stored, or
    multiplied out in them: ``(A @ B) @ c`` then becomes one einsum of A, B and c. ``absorbed`` is the set of products
    that are multiplied out.

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
        self.given: Growth | None = None
        self.stored: Growth | None = None
        self.nodes = nodes
        self.works: dict[Node, int | None] = {}
        for part in reversed(inner):
            if 1 < self.uses[part] <= _MAX_USERS and self.has_sum(part):
                self.absorb_if_less_work(part)

    def has_sum(self, product: Node) -> bool:
        """Return whether `product`, or a product in it that is multiplied out, sums over a label, as ``c*(A @ B)``."""
        stack = [product]
        while stack:
            part = stack.pop()
            if sums_labels(part):
                return True
            stack += [arg for arg in part.args if arg in self.absorbed]
        return False

    def absorb_if_less_work(self, node: Node) -> None:
        """Decide whether the product ``node`` is stored, or multiplied out in the einsums that use it. If multiplying
        out takes fewer multiplications in all of them together, record ``node`` in ``absorbed``.

        The work of an einsum is estimated again only if a product that it uses was multiplied out; no further einsum is
        looked at where the others take too much work already.
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
            return
        most = 0
        for part in (node, *groups):
            if part not in self.works:
                self.works[part] = self.work(part)
            work = self.works[part]
            if work is None:
                return
            most += work
        self.absorbed.add(node)
        without: dict[Node, int | None] = {}
        total = 0
        for group in groups:
            work = without[group] = self.work(group)
            total += work or 0
            if work is None or total >= most:
                self.absorbed.remove(node)
                return
        self.works.update(without)

    def is_larger_than_others(self, product: Node) -> bool:
        """Return whether the result of `product` grows faster with the sizes than all tensors that are not products, as
        ``A @ A.T`` does for a matrix ``A`` with few columns.
        """
        if self.given is None:
            shapes = {part.shape for part in self.nodes if not is_core(part)}
            self.given = maximal(monomial for shape in shapes for monomial in _volume(shape).growth)
        return grows_faster(_volume(product.shape).growth, self.given)

    def is_larger_than_stored(self, shape: Sequence[Affine]) -> bool:
        """Return whether an array of this `shape` grows faster with the sizes than each array that is needed in any
        case: variables, results, values of functions, and products that are not multiplied out.
        """
        if self.stored is None:
            shapes = {part.shape for part in self.nodes if part not in self.absorbed}
            self.stored = maximal(monomial for shape in shapes for monomial in _volume(shape).growth)
        return grows_faster(_volume(shape).growth, self.stored)

    def work(self, node: Node) -> int | None:
        """Return the estimated number of multiplications to compute the einsum `node`; None if it has too many
        operands.

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
        """Expand an einsum of `operands`, one of which is a sum of outer products: return a term
        ``(coefficient, operands)`` for each outer product, which takes the place of the sum. [] if no operand is a sum
        of outer products. ``extents`` maps labels to extents.
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
        """Return the terms of `root`, a sum of outer products, as pairs ``(coefficient, operands)``. ``labels`` are the
        labels of its axes; ``numbers`` gives new labels for summed axes, whose lengths are added to ``extents``.
        """
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
        """Return how many outer products `node` is a sum of: 2 for ``A @ (outer(x, y) + outer(y, x))``. The result is 0
        if it is not such a sum.
        """
        if node not in self.ranks:
            for part in reachable(node, known=self.ranks):
                self.ranks[part] = self._rank(part)
        return self.ranks[node]

    def _rank(self, node: Node) -> int:
        """Return the number of outer products of which `node` is a sum; 0 if it is not such a sum. ``self.ranks`` must
        contain the numbers of its arguments.
        """
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
        """Return the number of multiplications of an einsum of ``operands`` in the best order of pairwise products.
        ``output`` are the labels of the result, ``extents`` maps labels to extents.
        """
        uses = Counter(label for _, labels in operands for label in set(labels))
        uses.update(output)
        inputs = [frozenset(label for label in labels if uses[label] > 1) for _, labels in operands]
        sizes = {label: self.hints(extent) for label, extent in extents.items()}
        return least_work(inputs, frozenset(output), sizes)

    def gathered(
        self,
        node: Node,
        output: tuple[int, ...],
        done: Mapping[Node, Node],
        max_operands: int | None = None,
        opened: Collection[Node] = (),
    ) -> tuple[list[Labelled], Extents]:
        """Return ``(operands, extents)`` of the einsum `node`, in which inner products in ``self.absorbed`` or
        ``opened`` are replaced by their own operands: a list of operands with their labels, and a dictionary from
        labels to extents. ``output`` are the labels of the result; ``done`` maps other operands to replacements.

        With more than ``max_operands`` the list is incomplete.
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
        """Return the expected number of entries of an array with an axis for each distinct label in ``labels``.
        ``extents`` has the length of each label.
        """
        return prod([self.hints(extents[label]) for label in set(labels)])


def _volume(shape: Sequence[Affine]) -> Polynomial:
    """Return the number of entries of an array of this `shape` as a polynomial in the sizes."""
    return prod(map(Polynomial.of, shape), start=Polynomial.of(1))


def is_separable(core: Node) -> bool:
    """Return whether the einsum ``core`` is an outer product of independent factors, as in ``(A @ x)[:, None]*y[None,
    :]``: its operands form two or more groups that share no label.
    """
    groups: list[set[int]] = []
    for labels in core.data.inputs:
        joined = {*labels}.union(*(group for group in groups if not group.isdisjoint(labels)))
        groups = [*(group for group in groups if group.isdisjoint(labels)), joined]
    return sum(not group.isdisjoint(core.data.output) for group in groups) > 1


def is_outer(node: Node) -> bool:
    """Return whether `node` is an outer product such as ``outer(u, v)/c``: nothing is summed, and each operand has
    fewer axes than the result, or is an outer product itself.
    """
    seen, stack = {node}, [node]
    while stack:
        product = stack.pop()
        if not is_core(product) or sums_labels(product):
            return False
        factors = {arg for arg in product.args if len(arg.shape) >= len(product.shape)} - seen
        seen |= factors
        stack += factors
    return True
