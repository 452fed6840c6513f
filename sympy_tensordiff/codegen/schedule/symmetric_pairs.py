"""Packed storage of symmetric pairs: products over ``(a, b)`` in ``Sum_i S_abi*R_ci`` with ``S_abi = S_bai``.

Of the pairs (a, b) and (b, a) one is enough. They are counted by their distance round a circle and where it begins:
``P_dai`` is ``S_abi`` with ``b = (a + d) mod n``, for the offsets up to ``n/2``. That is a box as well, of about half
the entries, and so the product stays a product of matrices. Its entries are spread over all pairs afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from math import prod

from sympy_tensordiff.codegen.ir.dataflow import Dataflow
from sympy_tensordiff.codegen.ir.loops import If, Set, Statement, accumulator, add
from sympy_tensordiff.codegen.ir.programs import (
    Array,
    ContractionStep,
    Kernel,
    Operand,
    Program,
    Scatter,
    Step,
    entrywise,
)
from sympy_tensordiff.codegen.ir.rename import Renaming, reserve_name, unique
from sympy_tensordiff.codegen.ir.scalars import Load, Name
from sympy_tensordiff.codegen.ir.steps import extents
from sympy_tensordiff.codegen.ir.walk import all_names
from sympy_tensordiff.codegen.lower.costs import is_worth_packing
from sympy_tensordiff.codegen.lower.temporaries import Entry
from sympy_tensordiff.graph.contraction_order import Hints
from sympy_tensordiff.graph.nodes import Graph
from sympy_tensordiff.integer.affine import Affine, Constraint, quotient
from sympy_tensordiff.simplify.canonical_signs import with_canonical_signs

_MIN_PACKED_INDICES = 4
"""Of fewer indices no pairs are left out."""


@dataclass(frozen=True)
class CirculantPacking:
    """A packed storage of an array that is symmetric in two ``axes``, so that ``a[i, j] == a[j, i]`` is stored once:
    its entry ``[d, j]`` is ``a[j, (j + d) mod extent]``, for distances ``d`` up to half of the extent.
    """

    name: str
    axes: tuple[int, int]
    extent: int

    @property
    def offsets(self) -> int:
        """The number of rows of the packed array, one for each cyclic distance between two indices: ``extent // 2 +
        1``.
        """
        return self.extent // 2 + 1


def with_packed_pairs(program: Program, hints: Hints, graph: Graph, entries: Mapping[str, Entry]) -> Program:
    """Change ``program`` to store symmetric arrays packed, with each pair of equal entries once, if this saves work in
    matrix products. Return the new program.

    ``hints`` are the expected sizes; ``entries`` maps arrays to their entries, nodes of ``graph``.
    """
    work = _Packing(program, hints, graph, entries)
    return work.result() if work.packed else program


def exchangeable_axes(graph: Graph, entry: Entry) -> Iterator[tuple[int, int]]:
    """Yield the pairs of axes of an array that can be exchanged without changing it, because the expression `entry`
    stays the same.
    """
    plain, *_ = with_canonical_signs(graph, [entry.node])
    for first, second in combinations(range(len(entry.axes)), 2):
        one, other = entry.axes[first], entry.axes[second]
        exchanged = graph.substitute(entry.node, {one: Affine.variable(other), other: Affine.variable(one)})
        if with_canonical_signs(graph, [exchanged])[0] is plain:
            yield first, second


class _Packing:
    """Decides which symmetric arrays of a program to store packed, and rewrites the steps that fill and read them."""

    def __init__(self, program: Program, hints: Hints, graph: Graph, entries: Mapping[str, Entry]) -> None:
        self.program = program
        self.graph = graph
        self.entries = entries
        self.hints = hints
        self.flow = Dataflow(program)
        self.shapes = self.flow.shapes
        self.taken = all_names(program)
        self.packed: dict[str, CirculantPacking] = {}
        for step in program.kernels:
            if isinstance(step, Kernel) and self.flow.writer(step.array):
                self.consider(step)

    def consider(self, kernel: Kernel) -> None:
        """Mark the array of `kernel` for packed storage if it is symmetric, only matrix products read it, and they save
        enough.
        """
        name = kernel.array
        readers = self.flow.readers[name]
        if not readers or not all(isinstance(step, ContractionStep) for step in readers):
            return
        for axes in exchangeable_axes(self.graph, self.entries[name]) if name in self.entries else ():
            extent = self.shapes[name][axes[0]]
            if extent != self.shapes[name][axes[1]] or not extent.is_constant or extent.constant < _MIN_PACKED_INDICES:
                continue
            found = CirculantPacking(reserve_name(f"{name}_pairs", self.taken), axes, extent.constant)
            if self.is_worth(found, name, [step for step in readers if isinstance(step, ContractionStep)]):
                self.packed[name] = found
                return

    def is_worth(self, found: CirculantPacking, name: str, readers: Sequence[ContractionStep]) -> bool:
        """Return whether storing the symmetric array `name` packed, as described by `found`, pays: it saves more
        operations in the matrix products `readers` than it takes to unpack their results.
        """
        before = after = entries = 0
        for step in readers:
            labels = {label: self.hints(extent) for label, extent in extents(step, self.shapes).items()}
            halved = [
                own
                for operand in step.operands
                if operand.array == name and (own := _packed_labels(operand, step, found))
            ]
            if len(halved) < sum(operand.array == name for operand in step.operands):
                return False
            before += prod(labels.values())
            entries += prod(labels[label] for label in step.output)
            after += prod({**labels, **dict.fromkeys([own[0] for own in halved], found.offsets)}.values())
        return is_worth_packing(before, after, entries)

    # ------------------------------------------------------------------------ the new program

    def result(self) -> Program:
        """Return the program with packed arrays, products over them, and kernels that unpack the results."""
        steps: list[Step] = []
        arrays, notes = list[Array](), list[str]()
        for step in self.program.kernels:
            if isinstance(step, Kernel) and not isinstance(step, Scatter) and step.array in self.packed:
                found = self.packed[step.array]
                steps.append(self.filled(step, found))
                shape = list(self.shapes[step.array])
                shape[found.axes[0]] = Affine.of(found.offsets)
                arrays.append(Array(found.name, tuple(shape)))
                pairs = f"{found.offsets * found.extent} of {found.extent**2} pairs of indices"
                notes.append(f"{found.name}: {pairs}, which may be exchanged")
            elif isinstance(step, ContractionStep) and any(operand.array in self.packed for operand in step.operands):
                array, kernels = self.multiplied(step)
                steps += kernels
                arrays.append(array)
                notes.append(f"{array.name}: a product of pairs of indices, spread over {step.array}")
            else:
                steps.append(step)
        return self.program.with_steps(steps, self.packed, arrays, notes)

    def filled(self, kernel: Kernel, found: CirculantPacking) -> Kernel:
        """Return `kernel`, which fills a symmetric array, changed to fill its packed array ``found``. Packed entry
        ``[d, j]`` is the entry ``(j, (d + j) mod extent)`` of the full array.
        """
        first, second = (kernel.axes[axis] for axis in found.axes)
        distance = unique("distance", self.taken | set(kernel.axes))
        end = Affine.variable(distance) + Affine.variable(second)
        places = {first: Affine.variable(second), second: end - found.extent * quotient(end, found.extent)}
        axes = tuple([distance if axis == first else axis for axis in kernel.axes])
        *body, store = Renaming({}, forms=places).body(kernel.body)
        assert isinstance(store, Set)
        return entrywise(found.name, axes, body, store.value)

    def multiplied(self, step: ContractionStep) -> tuple[Array, list[Step]]:
        """Return ``(new array, [product, unpacking kernel])`` for the product `step`: the product of its packed
        operands, in which only one of the equal entries ``a[i, j]`` and ``a[j, i]`` is stored.

        The new array is packed, too, and the kernel unpacks it into the array of `step`.
        """
        name = reserve_name(f"{step.array}_pairs", self.taken)
        pairs: list[tuple[int, int, CirculantPacking]] = []
        for operand in step.operands:
            found = self.packed.get(operand.array)
            own = None if found is None else _packed_labels(operand, step, found)
            if found is not None and own is not None:
                pairs.append((step.output.index(own[0]), step.output.index(own[1]), found))
        left, right = (
            Operand(self.packed[operand.array].name if operand.array in self.packed else operand.array, operand.labels)
            for operand in step.operands
        )
        shape = list(self.shapes[step.array])
        for place, _, found in pairs:
            shape[place] = Affine.of(found.offsets)
        return Array(name, tuple(shape)), [
            replace(step, array=name, left=left, right=right),
            _unpacking_kernel(step, name, pairs),
        ]


def _packed_labels(operand: Operand, step: ContractionStep, found: CirculantPacking) -> tuple[int, int] | None:
    """Return the labels of the two axes of `operand` that ``found`` stores packed. None unless these labels differ, are
    in the result of the product, and occur nowhere else in its operands.
    """
    first, second = (operand.labels[axis] for axis in found.axes)
    everywhere = Counter((*step.left.labels, *step.right.labels))
    if first == second or everywhere[first] > 1 or everywhere[second] > 1:
        return None
    return (first, second) if {first, second} <= set(step.output) else None


def _unpacking_kernel(step: ContractionStep, name: str, pairs: Sequence[tuple[int, int, CirculantPacking]]) -> Kernel:
    """Return the kernel that unpacks the result of the product `step`. The array ``name`` stores one number for both
    ``(i, j)`` and ``(j, i)``; ``pairs`` are the symmetric axes.

    Both entries read the number at their distance, counted modulo the extent of the axis.
    """
    axes = tuple([f"i{n}" for n in range(len(step.output))])
    choices: list[list[tuple[Constraint, dict[int, Affine]]]] = []
    for place, other, found in pairs:
        ahead = Affine.variable(axes[other]) - Affine.variable(axes[place])
        ahead = ahead - found.extent * quotient(ahead, found.extent)
        near = Constraint("ge", found.offsets - 1 - ahead)
        there = {place: ahead, other: Affine.variable(axes[place])}
        back = {place: found.extent - ahead, other: Affine.variable(axes[other])}
        choices.append([(near, there), (near.negation(), back)])
    body: list[Statement] = [accumulator("entry")]
    for chosen in product(*choices):
        index = dict(enumerate(map(Affine.variable, axes)))
        for _, places in chosen:
            index |= places
        load = Load(name, tuple(index.values()))
        body.append(If(tuple([row for row, _ in chosen]), (add("entry", load),)))
    return entrywise(step.array, axes, body, Name("entry"))
