"""The order in which the operands of an einsum are multiplied, two at a time.

Of a few operands, all orders are compared by their multiplications. Of many, and among equals, the greedy order is
taken: by entries, which would multiply the matrices of a chain with each other although a vector ends it, or by
multiplications.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from heapq import heapify, heappop, heappush
from itertools import combinations
from math import prod
from typing import NamedTuple

Labels = frozenset[int]
Path = Sequence[tuple[int, ...]]

_MAX_OPTIMAL_OPERANDS = 9
"""The most operands for which all orders are compared: of 9, that takes 4 ms, and three times as long for each more.

Of more operands, the first products are those of a greedy search.
"""


def contraction_path(inputs: Sequence[Labels], output: Labels, sizes: Mapping[int, int]) -> Path:
    """Return the cheapest known order to multiply operands with the labels ``inputs``, as pairs of their numbers. They
    are numbered 0, 1, ..., and each product gets the next number. ``output`` are the labels of the result, ``sizes``
    maps labels to extents.

    A label that is not in the output occurs in two operands or more.
    """
    return _path_and_work(inputs, output, sizes)[0]


def least_work(inputs: Sequence[Labels], output: Labels, sizes: Mapping[int, int]) -> int:
    """Return the number of multiplications in all steps of the cheapest known order to multiply operands with the
    labels ``inputs`` to a result with the labels ``output``.
    """
    return _path_and_work(inputs, output, sizes)[1]


def _path_and_work(inputs: Sequence[Labels], output: Labels, sizes: Mapping[int, int]) -> tuple[Path, int]:
    """Return the cheapest known order to multiply operands with the labels ``inputs`` to the labels ``output``, and its
    number of multiplications, found once for all einsums of the same structure.

    The labels of the same operands count as one, the product of their extents long, and are numbered in a normal order:
    einsums that differ in the names of their labels have the same structure.
    """
    if len(inputs) < 3:
        work = count_entries(frozenset().union(*inputs), sizes) if len(inputs) == 2 else 0
        return ([(0, 1)] if len(inputs) == 2 else []), work
    owners: dict[int, tuple[int, ...]] = {}
    for number in range(len(inputs), -1, -1):
        for label in inputs[number - 1] if number else output:
            owners[label] = (*owners.get(label, ()), number)
    extents: dict[tuple[int, ...], int] = {}
    for label, own in owners.items():
        if own != (0,):
            extents[own] = extents.get(own, 1) * sizes[label]
    return _cheapest_path(len(inputs), tuple(sorted(extents.items())))


@lru_cache(maxsize=16384)
def _cheapest_path(number_of_operands: int, axes: tuple[tuple[tuple[int, ...], int], ...]) -> tuple[Path, int]:
    """Return ``(path, multiplications)`` for the cheapest known order to multiply three or more operands: pairs of
    operand numbers, and the cost. The result is cached.

    ``axes`` has for each axis ``(owners, extent)``: the numbers of the operands with this axis, and its length.

    The owners are counted from 1, in descending order, with a last 0 if the output has the axis.
    """
    sizes = {label: extent for label, (_, extent) in enumerate(axes)}
    labels: list[list[int]] = [[] for _ in range(number_of_operands + 1)]
    for label, (owners, _) in enumerate(axes):
        for number in owners:
            labels[number].append(label)
    output, *inputs = map(frozenset, labels)
    paths = [_GreedySearch(inputs, output, sizes, by_entries).run() for by_entries in (True, False)]
    costs = [_path_cost(inputs, output, sizes, path) for path in paths]
    begin = max(0, len(inputs) - _MAX_OPTIMAL_OPERANDS)
    least = min(costs)
    for path in paths[: 1 if paths[0][:begin] == paths[1][:begin] else 2]:
        better = _with_optimal_end(inputs, output, sizes, path[:begin], least[0])
        if better is not None:
            paths.append(better)
            costs.append(_path_cost(inputs, output, sizes, better))
            least = min(least, costs[-1])
    return paths[costs.index(least)], least[0]


def _with_optimal_end(
    inputs: Sequence[Labels], output: Labels, sizes: Mapping[int, int], begin: Path, most: int
) -> Path | None:
    """Return the contraction path that begins with the steps ``begin`` and then multiplies the operands that are left
    in the best order; None if that takes more than ``most`` multiplications. ``inputs`` and ``output`` are the labels,
    ``sizes`` their extents.
    """
    steps = list(products_of_path(inputs, output, begin))
    known = [*inputs, *(product for _, product in steps)]
    used = {number for step in begin for number in step}
    numbers = [number for number in range(len(known)) if number not in used]
    rest = most - sum(count_entries(frozenset().union(*chosen), sizes) for chosen, _ in steps)
    end = _optimal_path([known[number] for number in numbers], output, sizes, rest)
    if end is None:
        return None
    numbers += range(len(known), len(known) + len(end))
    return [*begin, *(tuple(sorted(numbers[number] for number in step)) for step in end)]


class _GreedySearch:
    """A greedy search for a contraction path: each step multiplies the two operands whose product is cheapest at that
    moment.

    Operands with a common label come first. The cost of a step is the growth of all operands in entries if
    ``by_entries`` is set, else the number of multiplications; the older of equally cheap operands come first.
    """

    def __init__(self, inputs: Sequence[Labels], output: Labels, sizes: Mapping[int, int], by_entries: bool) -> None:
        self.sizes = sizes
        self.by_entries = by_entries
        self.counts = Counter(label for labels in (*inputs, output) for label in labels)
        self.operands: dict[int, Labels] = {}
        self.owners: dict[int, set[int]] = {label: set() for label in self.counts}
        self.queue: list[tuple[bool, int, int, int]] = []
        self.path: list[tuple[int, ...]] = []
        self.next = 0
        for labels in inputs:
            self.add(labels)

    def run(self) -> Path:
        """Return the contraction path: a list of the pairs of operands, by their numbers, to multiply in this order."""
        while self.queue:  # operands with a common label
            *_, two, one = heappop(self.queue)
            if one in self.operands and two in self.operands:
                self.multiply(one, two)
        rest = [(count_entries(labels, self.sizes), number) for number, labels in self.operands.items()]
        heapify(rest)
        while len(rest) > 1:
            (first, one), (second, two) = heappop(rest), heappop(rest)
            heappush(rest, (first * second, self.next))
            self.path.append((min(one, two), max(one, two)))
            self.next += 1
        return self.path

    def add(self, labels: Labels) -> None:
        """Add the operand with the axes ``labels`` to the search, and queue its products with the earlier operands that
        share a label with it.
        """
        for old in sorted({owner for label in labels for owner in self.owners[label]}):
            other = self.operands[old]
            if self.by_entries:
                cost = count_entries(self.product(other, labels), self.sizes)
                cost -= count_entries(other, self.sizes) + count_entries(labels, self.sizes)
            else:
                cost = count_entries(other | labels, self.sizes)
            heappush(self.queue, (other != labels, cost, self.next, old))
        for label in labels:
            self.owners[label].add(self.next)
        self.operands[self.next] = labels
        self.next += 1

    def multiply(self, one: int, two: int) -> None:
        """Append the product of the operands number `one` and `two` to the contraction path, and replace both operands
        by it.
        """
        labels = self.product(self.operands[one], self.operands[two])
        for number in (one, two):
            for label in self.operands[number]:
                self.owners[label].discard(number)
            self.counts.subtract(self.operands.pop(number))
        self.counts.update(labels)
        self.path.append((one, two))
        self.add(labels)

    def product(self, one: Labels, two: Labels) -> Labels:
        """Return the labels of the product of two operands with the labels `one` and `two`. Labels that only these two
        have are summed, and are not among them.
        """
        return (one ^ two) | frozenset(label for label in one & two if self.counts[label] > 2)


def _optimal_path(inputs: Sequence[Labels], output: Labels, sizes: Mapping[int, int], most: int) -> Path | None:
    """Return the contraction path with the fewest multiplications and, among these, with the smallest intermediate
    arrays; None if each path takes more than ``most`` multiplications. Operands have the labels ``inputs``, the result
    ``output``.

    Dynamic programming over the sets of operands, which are the bits of integers, from small to large sets. Sets whose
    product cannot be part of an order of ``most`` multiplications are left out: of a chain, nearly all but the
    intervals.
    """
    search = _OptimalSearch(inputs, output, sizes, most)
    for length in range(2, len(inputs) + 1):
        search.extend(length)
    if len(inputs) > 1 and (1 << len(inputs)) - 1 not in search.splits:
        return None
    return _path_of_splits(len(inputs), search.splits)


class _OptimalSearch:
    """A search for the best contraction order by dynamic programming over sets of operands. It returns no order of more
    than ``most`` multiplications, and drops partial products that exceed this number.

    Sets of operands and of labels are the bits of integers. ``levels`` has for each number of operands the sets,
    ``(work, operands, labels of the product, stored entries)``, least work first; ``splits`` gives for each set one of
    the two factors of its last step.
    """

    def __init__(self, inputs: Sequence[Labels], output: Labels, sizes: Mapping[int, int], most: int) -> None:
        labels = sorted(frozenset().union(*inputs))
        bits = {label: 1 << place for place, label in enumerate(labels)}
        self.most = most
        self.extents = [sizes[label] for label in labels]
        self.half = len(labels) // 2
        self.inner = [
            (bits[label], sum(1 << number for number, own in enumerate(inputs) if label in own))
            for label in labels
            if label not in output
        ]
        self.entries: dict[int, int] = {}
        self.lows: dict[int, int] = {}
        self.highs: dict[int, int] = {}
        self.products: dict[int, int] = {}
        self.splits: dict[int, int] = {}
        for number, own in enumerate(inputs):
            self.products[1 << number] = self.remaining_labels(sum(bits[label] for label in own), 1 << number)
        self.levels: list[list[tuple[int, int, int, int]]] = [
            [],
            [(0, operand, product, 0) for operand, product in self.products.items()],
        ]

    def count(self, labels: int) -> int:
        """Return the number of entries of an array whose axes are the set ``labels`` (the bits of an integer). The
        products of the extents of the lower and of the upper half of the bits are cached.
        """
        low, high = labels & ((1 << self.half) - 1), labels >> self.half
        if low not in self.lows:
            self.lows[low] = prod([extent for place, extent in enumerate(self.extents) if low >> place & 1])
        if high not in self.highs:
            own = self.extents[self.half :]
            self.highs[high] = prod([extent for place, extent in enumerate(own) if high >> place & 1])
        self.entries[labels] = found = self.lows[low] * self.highs[high]
        return found

    def remaining_labels(self, labels: int, operands: int) -> int:
        """Return the labels of the product of the operands ``operands``, whose labels are ``labels`` together: those
        that the output or another operand has, too. The product is summed over the others. Sets of labels and operands
        are the bits of an integer.
        """
        for bit, owners in self.inner:
            if labels & bit and not owners & ~operands:
                labels ^= bit
        return labels

    def extend(self, length: int) -> None:
        """Find the best order of multiplication for each set of ``length`` operands, from those of smaller sets. Append
        the sets to ``levels``, and record in ``splits`` how each is split in two.
        """
        found: dict[int, tuple[int, int, int]] = {}
        for shorter in range(1, length // 2 + 1):
            self.join(shorter, length - shorter, found)
        # a product is read by another step, which takes as many multiplications as it has entries or more
        level = [
            (work, operands, self.products[operands], stored)
            for operands, (work, stored, _) in found.items()
            if work + self.count(self.products[operands]) <= self.most
        ]
        self.levels.append(sorted(level))
        self.splits.update((operands, part) for operands, (_, _, part) in found.items())

    def join(self, shorter: int, longer: int, found: dict[int, tuple[int, int, int]]) -> None:
        """Improve ``found``, a dictionary from sets of operands to ``(work, stored entries, factor)`` of the best order
        known, by orders whose last step multiplies a product of ``shorter`` operands with one of ``longer`` operands.
        """
        entries, products = self.entries, self.products
        for work, one, labels, stored in self.levels[shorter]:
            for added, other, more, remaining in self.levels[longer]:
                total = work + added
                if total > self.most:
                    break
                operands = one | other
                least = found.get(operands)
                limit = self.most if least is None else least[0]
                if one & other or total > limit:
                    continue
                union = labels | more
                total += entries.get(union) or self.count(union)
                if total > limit:
                    continue
                if operands not in products:
                    products[operands] = self.remaining_labels(union, operands)
                product = products[operands]
                # of the two operands of the last step, the one without the lowest bit
                part = other if one & operands & -operands else one
                split = (total, stored + remaining + (entries.get(product) or self.count(product)), part)
                if least is None or split < least:
                    found[operands] = split


def _path_of_splits(count_of_operands: int, splits: Mapping[int, int]) -> Path:
    """Return the contraction path of a binary tree of products. ``splits`` maps each set of operands, as a bit mask, to
    the subset that forms one factor; the rest of the set forms the other.
    """
    numbers = {1 << number: number for number in range(count_of_operands)}
    path: list[tuple[int, ...]] = []
    stack = [(1 << count_of_operands) - 1]
    while stack:
        operands = stack[-1]
        halves = (operands ^ splits[operands], splits[operands])
        missing = [half for half in halves if half not in numbers]
        if operands in numbers or missing:
            stack = stack[:-1] if operands in numbers else [*stack, *reversed(missing)]
            continue
        path.append(tuple(sorted(numbers[half] for half in halves)))
        numbers[operands] = count_of_operands + len(path) - 1
    return path


class Order(NamedTuple):
    """A contraction path, its number of multiplications, and the labels of each intermediate product."""

    path: Path
    work: int
    products: tuple[Labels, ...]


def orders_of_least_work(inputs: Sequence[Labels], output: Labels, sizes: Mapping[int, int]) -> tuple[Order, ...]:
    """Return orders of pairwise products that evaluate an einsum in the fewest operations; ``inputs`` are the labels of
    its operands, ``output`` those of its result.

    After the first one come equally cheap orders that start with a different product over a summed label.

    Results are cached.
    """
    used = sorted(frozenset().union(*inputs))
    return _orders(tuple(inputs), output, tuple([(label, sizes[label]) for label in used]))


_MAX_SHARED_OPERANDS = 5
"""The most operands for which all first pairs are tried, to share a product with other einsums.

Of 2, MTTKRP takes twice the time; of 10, no text of the benchmarks changes.
"""


TIE = 1.001
"""Orders of equal work at the expected sizes differ by less than this ratio in sizes that break ties."""


@lru_cache(maxsize=4096)
def _orders(
    inputs: tuple[Labels, ...], output: Labels, sizes_of_labels: tuple[tuple[int, int], ...]
) -> tuple[Order, ...]:
    """Return the best orders of pairwise products for an einsum with the operand labels ``inputs`` and the result
    labels ``output``: the cheapest one, then those of (nearly) equal cost that start with another product over a summed
    label.

    ``sizes_of_labels`` has pairs ``(label, size)``. The arguments are hashable, so that results can be cached.
    """
    sizes = dict(sizes_of_labels)

    def order(path: Path) -> Order:
        """Return the contraction path ``path`` as an `Order`, with its number of multiplications and the labels of its
        products.
        """
        products = tuple([product for _, product in products_of_path(inputs, output, path)])
        return Order(path, operation_count(inputs, output, sizes, path), products)

    found = [order(contraction_path(inputs, output, sizes))]
    if 3 <= len(inputs) <= _MAX_SHARED_OPERANDS:
        for pair in combinations(range(len(inputs)), 2):
            ((_, product),) = products_of_path(inputs, output, [pair])
            if product != inputs[pair[0]] | inputs[pair[1]]:
                found.append(order(path_from(pair, inputs, output, sizes)))
    return (found[0], *(one for one in found[1:] if one.work <= TIE * found[0].work))


def path_from(pair: tuple[int, int], inputs: Sequence[Labels], output: Labels, sizes: Mapping[int, int]) -> Path:
    """Return the contraction path that first multiplies the two operands numbered ``pair``, and then the rest in the
    cheapest known order. ``inputs`` are the labels of the operands, ``output`` those of the result; ``sizes`` has their
    lengths.
    """
    others = [number for number in range(len(inputs)) if number not in pair]
    ((_, product),) = products_of_path(inputs, output, [pair])
    rest = contraction_path([*(inputs[number] for number in others), product], output, sizes)
    numbers = [*others, *range(len(inputs), len(inputs) + len(rest) + 1)]
    return [pair, *(tuple(sorted(numbers[number] for number in step)) for step in rest)]


def _path_cost(inputs: Sequence[Labels], output: Labels, sizes: Mapping[int, int], path: Path) -> tuple[int, int]:
    """Return the number of multiplications of a contraction path, and the total number of entries of its products.
    ``inputs`` are the labels of the operands, ``output`` those of the result; ``sizes`` maps labels to extents.
    """
    entries = sum(count_entries(product, sizes) for _, product in products_of_path(inputs, output, path))
    return operation_count(inputs, output, sizes, path), entries


def count_entries(labels: Iterable[int], sizes: Mapping[int, int]) -> int:
    """Return the number of entries of an array with the axes ``labels``."""
    return prod([sizes[label] for label in labels])


def products_of_path(inputs: Sequence[Labels], output: Labels, path: Path) -> Iterator[tuple[list[Labels], Labels]]:
    """Yield ``(labels of the operands, labels of the product)`` for each multiplication of the contraction path `path`.
    The operands have the labels ``inputs``, the final result ``output``.
    """
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
    """Return the number of multiplications in all steps of a contraction path, for the operand labels ``inputs`` and
    the result labels ``output``.
    """
    return sum(count_entries(frozenset().union(*chosen), sizes) for chosen, _ in products_of_path(inputs, output, path))
