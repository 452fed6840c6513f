"""Normal form of the operands of an einsum: views are resolved, powers of one base merged, numbers factored out.

The labels of an einsum are arbitrary; `pattern` numbers them in the order of the operands, and splits the einsum
into a *core*, which multiplies and sums, and a *view*, which moves entries, see `graph.contractions`. Both depend on
labels and extents only: a graph of many einsums has few patterns.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from sympy_tensordiff.graph.interning import Node, Number, Shape
from sympy_tensordiff.integer.affine import Affine

Label: TypeAlias = Hashable
Labels: TypeAlias = Sequence[Label]
Extents: TypeAlias = Mapping[Label, Affine]
Operand: TypeAlias = tuple[Node, Labels]
"""A node and one label per axis; labels may repeat."""


class Contraction(NamedTuple):
    """The data of an einsum node: the coefficient, the labels (numbers 0, 1, ...) of each input and of the output, and
    the extent of each label.
    """

    coefficient: Number
    inputs: tuple[tuple[int, ...], ...]
    output: tuple[int, ...]
    extents: tuple[Affine, ...]

    @property
    def shape(self) -> Shape:
        """The shape of the contraction's result."""
        return tuple([self.extents[label] for label in self.output])

    @property
    def is_view(self) -> bool:
        """Return whether the contraction only transposes, repeats, scales or takes a diagonal of its one operand, or
        has no operand (a constant tensor). It then multiplies and sums nothing.
        """
        return len(self.inputs) < 2 and (not self.inputs or set(self.inputs[0]).issubset(self.output))

    @property
    def is_identity(self) -> bool:
        """Return whether the contraction returns its only operand unchanged."""
        return self.coefficient == 1 and self.is_multiple

    @property
    def is_multiple(self) -> bool:
        """Return whether the result is a number times the only operand, with its axes unchanged."""
        return self.inputs == (self.output,) and len(self.extents) == len(self.output)


class Pattern(NamedTuple):
    """An einsum split into two steps: ``core``, a product with sums, and ``view``, which transposes, broadcasts or
    scales the result. A step that does nothing is None.
    """

    core: Contraction | None
    view: Contraction | None


def pattern(coefficient: Number, inputs: Sequence[Labels], output: Labels, extents: Extents) -> Pattern:
    """Split an einsum into a core, which multiplies and sums, and a view, which scales the core's result or rearranges
    its axes. Return both as a `Pattern`.

    ``inputs`` are the labels of the operands, in their final order, ``output`` those of the result, ``coefficient`` is
    the number in front, and ``extents`` has the extents of all labels.
    """
    used = dict.fromkeys([label for labels in inputs for label in labels])
    core, labels = None, inputs[0] if inputs else ()
    if len(inputs) > 1 or not set(used).issubset(output):
        # The axes are in the order of the operands, whatever the output: a product and its transpose share a core.
        labels = [label for label in used if label in output]
        core = _number_labels(1, inputs, labels, used, extents)
    view = _number_labels(coefficient, [labels] if inputs else [], output, dict.fromkeys(output), extents)
    return Pattern(core, view if output and not view.is_identity else None)


def _number_labels(
    coefficient: Number, inputs: Sequence[Labels], output: Labels, order: Iterable[Label], extents: Extents
) -> Contraction:
    """Return the `Contraction` of an einsum ``inputs -> output`` times `coefficient`, with the labels renamed to 0, 1,
    ... in the order in which `order` lists them. ``extents`` has the length of each label.
    """
    number = {label: n for n, label in enumerate(order)}
    return Contraction(
        coefficient,
        tuple([tuple([number[label] for label in labels]) for labels in inputs]),
        tuple([number[label] for label in output]),
        tuple([extents[label] for label in number]),
    )


class Constructors(Protocol):
    """A protocol with the methods of a graph that `Gathering` calls, so that types can be checked."""

    one: Node

    def split_coefficient(self, node: Node) -> tuple[Number, Node]:
        """Return ``(c, rest)`` with node = c * rest, c being a number."""

    def index(self, form: Affine) -> Node:
        """Return the node of an index form used as a number."""

    def add(self, terms: Iterable[Node]) -> Node:
        """Return the node of the sum of ``terms``."""

    def mul(self, factors: Iterable[Node]) -> Node:
        """Return the node of the product of ``factors``."""

    def pow(self, base: Node, exponent: Node) -> Node:
        """Return the node of ``base**exponent``."""

    def inverse(self, matrix: Node) -> Node:
        """Return the node of the inverse of ``matrix``."""

    def cofactor(self, order: int, matrix: Node) -> Node:
        """Return the ``order``-th derivative of the determinant of ``matrix`` with respect to its entries."""


def is_normal_operand_list(operands: Sequence[Operand]) -> bool:
    """Return whether ``operands``, pairs of a node and its labels, are already in the form that `Gathering` makes: none
    is a view, a scalar or a tensor of cofactors, and no two are powers of one base.
    """
    bases = set()
    for node, _ in operands:
        if node.view or not node.shape or node.op == "cof":
            return False
        bases.add(node.args[0] if node.op == "pow" else node)
    return len(bases) == len(operands)


class Gathering:
    """Brings the operands of one einsum to normal form: call `add` for each operand, then `result`. Views (transposes,
    broadcasts, multiples) are replaced by their operands, and powers of one base are merged.

    Afterwards ``coefficient`` is the product of all numbers, and ``extents`` are those of all labels.
    """

    def __init__(self, graph: Constructors, coefficient: Number, extents: dict[Label, Affine]) -> None:
        self.graph = graph
        self.coefficient = coefficient
        self.extents = extents
        self.operands: list[Operand] = []
        self._joined: dict[Label, Label] = {}
        self._merges = False
        self._known: set[int] = set()

    def add(self, node: Node, labels: Labels) -> None:
        """Add the factor ``node`` to the product: a scalar, or a tensor whose axes have ``labels``. A transpose or
        another view is replaced by its operand, with the labels rearranged.
        """
        for label, extent in zip(labels, node.shape, strict=True):
            self.extents.setdefault(label, extent)
        if not node.shape:
            factor, node = self.graph.split_coefficient(node)
            self.coefficient *= factor
            if node is self.graph.one:
                return
        elif node.view:
            labels = self._labels_through_view(node, labels)
            if not node.args:
                return
            node = node.args[0]
            self.add(node, labels) if not node.shape else self._append(node, labels)
            return
        self._append(node, labels)

    def _append(self, node: Node, labels: Labels) -> None:
        """Append the operand ``node``, which is not a view, with its ``labels``. Record whether operands must be merged
        later: if it is a power, a tensor of cofactors, or occurs twice.
        """
        base = node.args[0] if node.op == "pow" else node
        self._merges = self._merges or node.op in ("pow", "cof") or base.id in self._known
        self._known.add(base.id)
        self.operands.append((node, labels))

    def _labels_through_view(self, view: Node, labels: Labels) -> Labels:
        """Return the labels of the axes of the operand of ``view``, given the `labels` of the view.

        For a diagonal matrix (``i->ii``), the labels of its two axes are unified. The coefficient of the view becomes a
        factor of the product.
        """
        coefficient, inputs, output, _ = view.data
        self.coefficient *= coefficient
        outer: dict[int, Label] = {}
        for inner, label in zip(output, labels, strict=True):
            if inner in outer:
                self._unify(outer[inner], label)
            else:
                outer[inner] = label
        return [outer[inner] for inner in inputs[0]] if inputs else ()

    def _unify(self, one: Label, other: Label) -> None:
        """Identify the labels ``one`` and ``other``: from now on both have the same representative."""
        one, other = self._representative(one), self._representative(other)
        if one != other:
            self._joined[other] = one

    def _representative(self, label: Label) -> Label:
        """Return the label that now represents `label`, after labels that denote the same index have been merged."""
        while label in self._joined:
            label = self._joined[label]
        return label

    def result(self, output: Labels) -> tuple[list[Operand], list[Label]]:
        """Return ``(operands, output labels)``, the normal form of the einsum with the result labels `output`. There
        are no operands if the coefficient is 0.
        """
        if self._merges and self.coefficient != 0:
            self._merge_powers(output)
        out = [self._representative(label) for label in output]
        if self.coefficient == 0:
            return [], out
        operands = self._relabelled()
        used = {label for _, labels in operands for label in labels}
        for label in self._unused(used.union(out)):
            extent = self.extents[label]
            if extent.is_constant:
                self.coefficient *= extent.constant
            else:
                self._multiply_by_extent(operands, self.graph.index(extent))
        # A node that occurs under several labels comes first under the labels of the output.
        if len({node for node, _ in operands}) < len(operands):
            position = {label: n for n, label in enumerate(label for label in dict.fromkeys(out) if label in used)}
            ranks = label_ranks(operands, position)
            operands.sort(key=lambda part: [ranks[label] for label in part[1]])
        return operands, out

    def _multiply_by_extent(self, operands: list[Operand], size: Node) -> None:
        """Append the factor ``size`` to ``operands`` in place, or cancel it with a factor ``1/size`` among them."""
        for n, (node, labels) in enumerate(operands):
            factors = (node.args if node.op == "mul" else (node,)) if not labels else ()
            if any(factor.op == "pow" and factor.args[0] is size for factor in factors):
                number, rest = self.graph.split_coefficient(self.graph.mul((node, size)))
                self.coefficient *= number
                operands[n : n + 1] = [] if rest is self.graph.one else [(rest, ())]
                return
        operands.append((size, ()))

    def _unused(self, used: set[Label]) -> list[Label]:
        """Return the labels that are summed but occur in no operand, and so are not in ``used``. A sum over one of them
        only multiplies by its extent.
        """
        return [label for label in dict.fromkeys(map(self._representative, self.extents)) if label not in used]

    def _relabelled(self) -> list[Operand]:
        """Replace each label by its representative in ``self.operands``, and return them."""
        if self._joined:
            self.operands = [
                (node, [self._representative(label) for label in labels]) for node, labels in self.operands
            ]
        return self.operands

    def _merge_powers(self, output: Labels) -> None:
        """Merge operands with one base and the same labels into one power: `x` and `x**2` become `x**3`. Then replace
        each pair of operands `cof(1, X)` and `1/det(X)` by the transposed inverse of `X`. `output` are the labels of
        the result.

        Two equal factors that are summed, as in the inner product `x @ x`, are not merged.
        """
        graph = self.graph
        powers: dict[tuple[Node, tuple[Label, ...]], list[Node]] = {}
        for node, labels in self._relabelled():
            base, exponent = node.args if node.op == "pow" else (node, graph.one)
            if base.shape != node.shape or exponent.shape:
                base, exponent = node, graph.one
            powers.setdefault((base, tuple(labels)), []).append(exponent)
        # x_i x_i summed over i stays a product, x @ x, also times scalars.
        is_pair = sum(bool(labels) for _, labels in self.operands) == 2
        output_labels = {self._representative(label) for label in output}
        self.operands = []
        for (base, labels), exponents in powers.items():
            if is_pair and len(exponents) == 2 and not output_labels.issuperset(labels) and not _is_negative(exponents):
                self.operands += [(graph.pow(base, exponent), labels) for exponent in exponents]
                continue
            power = graph.pow(base, graph.add(exponents))
            if power.op == "const" or power.view:
                self.add(power, labels)
            else:
                self.operands.append((power, labels))
        while self._merge_into_inverse():
            pass

    def _merge_into_inverse(self) -> bool:
        """Replace one product ``cof(1, X)/det(X)`` by the transposed inverse of X. Return whether there was one."""
        graph = self.graph
        for n, (node, labels) in enumerate(self.operands):
            if node.op != "cof" or node.data != 1:
                continue
            determinant = graph.cofactor(0, node.args[0])
            for m, (other, other_labels) in enumerate(self.operands):
                if list(other_labels) != list(labels[:-2]):
                    continue
                factors = other.args if other.op == "mul" else (other,)
                divisor = next((f for f in factors if f.op == "pow" and f.args[0] is determinant), None)
                if divisor is None or not _is_negative(divisor.args[1:]):
                    continue
                self.operands = [part for k, part in enumerate(self.operands) if k not in (n, m)]
                self.add(graph.mul((other, determinant)), other_labels)
                self.add(graph.inverse(node.args[0]), (*labels[:-2], labels[-1], labels[-2]))
                return True
        return False


def _is_negative(exponents: Sequence[Node]) -> bool:
    """Return whether one of the exponents is a negative number."""
    return any(exponent.op == "const" and exponent.data < 0 for exponent in exponents)


def label_ranks(
    operands: Sequence[Operand], place: Mapping[Label, int], symmetric: Container[Node] = ()
) -> dict[Label, int]:
    """Return a sort key (an integer rank) for each label of ``operands``, which does not depend on the order of
    ``operands``. Labels of the result, which are the keys of ``place``, come first, in the order of their positions
    there.

    The axes of matrices in `symmetric` are not distinguished.
    """
    ranks = {label: place.get(label, len(place)) for _, labels in operands for label in labels}
    for _ in range(3):
        uses: dict[Label, list[Any]] = {label: [] for label in ranks}
        for node, labels in operands:
            own = [ranks[label] for label in labels]
            is_one = node in symmetric
            for axis, label in enumerate(labels):
                uses[label].append(((node.id, sorted(own) if is_one else own), 0 if is_one else axis))
        keys = {label: (rank, sorted(uses[label])) for label, rank in ranks.items()}
        order = sorted(keys.values())
        ranks = {label: bisect_left(order, key) for label, key in keys.items()}
    return ranks


def in_order(parts: Sequence[Operand], output: Labels, known: Mapping[Node, bool]) -> list[Operand]:
    """Return the operands ``parts`` of an einsum with the labels of symmetric matrices, to which ``known`` assigns
    True, put in a standard order: ``S[j, i]`` may become ``S[i, j]``. Equal products are then equal nodes. ``output``
    are the labels of the result.

    A label of the first axis of the result comes first, those of other axes come last, as in ``A @ x`` and ``X @ A``.
    """
    place = {label: n for n, label in enumerate(dict.fromkeys(output))}
    symmetric = {arg for arg, labels in parts if len(labels) == 2 and labels[0] != labels[1] and known.get(arg)}
    if not symmetric:
        return list(parts)
    ranks: Mapping[Label, int] = place
    if any(arg in symmetric and not any(label in place for label in labels) for arg, labels in parts):
        ranks = label_ranks(parts, place, symmetric)

    def position(label: Label) -> tuple[int, int]:
        """Return a sort key for ``label``: the label of the first axis of the result comes first, then summed labels,
        then the labels of the other axes.

        The enclosing function's ``place`` has the labels of the result.
        """
        return (1, ranks.get(label, 0)) if label not in place else (2 * min(place[label], 1), place[label])

    return [
        (arg, labels[::-1] if arg in symmetric and position(labels[0]) > position(labels[1]) else labels)
        for arg, labels in parts
    ]
