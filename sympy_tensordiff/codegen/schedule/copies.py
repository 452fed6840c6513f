"""Arrays that a program does without: copies of products, copies of other arrays, and what no step reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations, product
from math import prod
from typing import TypeAlias

from sympy_tensordiff.codegen.ir.loops import Accumulator, Add, If, Statement, Store
from sympy_tensordiff.codegen.ir.programs import Array, Contraction, Kernel, Operand, Program, Scatter, Step
from sympy_tensordiff.codegen.ir.rename import Renaming, unique
from sympy_tensordiff.codegen.ir.scalars import Load, Name, Number, Operation, Scalar
from sympy_tensordiff.codegen.ir.steps import extents
from sympy_tensordiff.codegen.ir.walk import all_names, array_shapes, filled_arrays, uses, with_values
from sympy_tensordiff.codegen.lower.costs import Hints, is_worth_packing
from sympy_tensordiff.codegen.lower.storage import Entry
from sympy_tensordiff.graph.nodes import Graph
from sympy_tensordiff.integer.affine import Affine, Row, quotient
from sympy_tensordiff.simplify.signs import with_signs

Factor: TypeAlias = "int | Fraction | float"


def without_copies(program: Program) -> Program:
    """The program in which no kernel does nothing but move a product's axes and multiply with a number."""
    shapes = array_shapes(program)
    written = Counter(step.array for step in program.kernels)
    readers = Counter(name for step in program.kernels for name in uses(step).arrays)
    products = {step.array: n for n, step in enumerate(program.kernels) if isinstance(step, Contraction)}
    temporaries = {array.name for array in program.temporaries}
    steps = list(program.kernels)
    gone: dict[str, Kernel] = {}
    for step in program.kernels:
        found = copied(step)
        if found is None or found[1].array not in products or found[1].array not in temporaries:
            continue
        assert isinstance(step, Kernel)
        factor, load = found
        index = [form.terms[0][0] for form in load.index]
        if written[step.array] > 1 or readers[load.array] > 1 or sorted(index) != sorted(step.axes):
            continue
        if any(
            shapes[load.array][index.index(axis)] != extent
            for axis, extent in zip(step.axes, shapes[step.array], strict=True)
        ):
            continue
        product = steps[products[load.array]]
        assert isinstance(product, Contraction)
        output = tuple([product.output[index.index(axis)] for axis in step.axes])
        steps[products[load.array]] = replace(product, array=step.array, output=output, factor=factor * product.factor)
        gone[load.array] = step
    if not gone:
        return program
    return replace(
        program,
        kernels=tuple([step for step in steps if not any(step is copy for copy in gone.values())]),
        temporaries=tuple([array for array in program.temporaries if array.name not in gone]),
        notes=tuple([_renamed(note, gone) for note in program.notes]),
    )


def _renamed(note: str, gone: Mapping[str, Kernel]) -> str:
    """A note on the array that a product fills now."""
    name, mark, text = note.partition(":")
    return f"{gone[name].array}{mark}{text}" if name in gone else note


def copied(step: Step) -> tuple[Factor, Load] | None:
    """The factor and the load of a kernel that does nothing else; each index is a variable."""
    if not isinstance(step, Kernel) or isinstance(step, Scatter) or len(step.body) > 1:
        return None
    store = step.body[0]
    if not isinstance(store, Store):
        return None
    value: Scalar = store.value
    factor: Factor = 1
    while isinstance(value, Operation) and value.function in ("neg", "mul"):
        if value.function == "neg":
            factor, value = -factor, value.arguments[0]
        elif isinstance(value.arguments[0], Number) and len(value.arguments) == 2:
            factor, value = factor * value.arguments[0].value, value.arguments[1]
        else:
            return None
    if not isinstance(value, Load) or any(form.constant or len(form.terms) != 1 for form in value.index):
        return None
    variables = [form.terms[0][0] for form in value.index]
    plain = [Affine.variable(v) for v in variables] == list(value.index)
    return (factor, value) if plain and all(isinstance(v, str) for v in variables) else None


# ---------------------------------------------------------------------------- arrays that no step reads
# Temporaries that no step reads: what was kept for a use that has found another array since.


def without_unread(program: Program) -> Program:
    """The program without steps that only fill temporaries which nothing reads, and without these.

    Law: each step that is left fills a result, or an array that a later step reads.
    """
    needed = {array.name for array in program.outputs}
    kept: list[Step] = []
    for step in reversed(program.kernels):
        if not needed.isdisjoint(filled_arrays(step)):
            kept.append(step)
            needed.update(uses(step).arrays)
    return replace(
        program,
        kernels=tuple(reversed(kept)),
        temporaries=tuple(array for array in program.temporaries if array.name in needed),
        notes=tuple(note for note in program.notes if note.partition(":")[0] in needed or ":" not in note),
    )


# ---------------------------------------------------------------------------- arrays that are copies of others
# Temporaries that hold the entries of another array, perhaps with the other sign: what they copy is read instead.


Aliases = Mapping[str, tuple[str, int]]
"""For an array, the one whose entries it holds, and the sign: 1 or -1."""


def without_aliases(program: Program) -> Program:
    """The program without temporaries ``t[i, j] = ±a[i, j]`` that loops or products of matrices read.

    Law: every result is the same; what ``a`` holds is never changed after it has been filled.
    """
    shapes = array_shapes(program)
    written = Counter(step.array for step in program.kernels)
    temporaries = {array.name for array in program.temporaries}
    others = {
        name
        for step in program.kernels
        if not isinstance(step, Kernel | Contraction)
        for name in (step.array, *uses(step).arrays)
    }
    aliases: dict[str, tuple[str, int]] = {}
    steps: list[Step] = []
    for step in program.kernels:
        found = _copied(step) if step.array in temporaries - others and written[step.array] == 1 else None
        if found is not None and written[found[0]] <= 1 and shapes[found[0]] == shapes[step.array]:
            name, sign = found
            first, before = aliases.get(name, (name, 1))
            aliases[step.array] = first, sign * before
        else:
            steps.append(_reading(step, aliases) if aliases else step)
    return replace(
        program,
        kernels=tuple(steps),
        temporaries=tuple([array for array in program.temporaries if array.name not in aliases]),
        notes=tuple([note for note in program.notes if note.partition(":")[0] not in aliases]),
    )


def _copied(step: Step) -> tuple[str, int] | None:
    """The array that a kernel copies entry by entry, and the sign of the copies."""
    found = copied(step)
    if found is None or found[0] not in (1, -1):
        return None
    assert isinstance(step, Kernel)
    factor, load = found
    return (load.array, int(factor)) if load.index == tuple(map(Affine.variable, step.axes)) else None


def _reading(step: Step, aliases: Aliases) -> Step:
    """A step that reads other arrays in the place of their copies."""
    if isinstance(step, Kernel):
        return replace(step, body=with_values(step.body, lambda value: _read(value, aliases)))
    if isinstance(step, Contraction):
        signs = [aliases.get(operand.array, ("", 1))[1] for operand in (step.left, step.right)]
        left, right = (
            Operand(aliases.get(operand.array, (operand.array, 1))[0], operand.labels)
            for operand in (step.left, step.right)
        )
        return replace(step, left=left, right=right, factor=signs[0] * signs[1] * step.factor)
    return step


def _read(value: Scalar, aliases: Aliases) -> Scalar:
    """What is read in the place of a copy; two signs are none."""
    if isinstance(value, Load) and value.array in aliases:
        name, sign = aliases[value.array]
        load = Load(name, value.index)
        return load if sign == 1 else Operation("neg", (load,))
    if isinstance(value, Operation) and value.function == "neg":
        (inner,) = value.arguments
        return inner.arguments[0] if isinstance(inner, Operation) and inner.function == "neg" else value
    return value


# ---------------------------------------------------------------------------- products of pairs
# Products of matrices of which each row stands for a pair of indices, ``Sum_i S_abi*R_ci`` with ``S_abi = S_bai``.
#
# Of the pairs (a, b) and (b, a) one is enough. They are counted by their distance round a circle and where it begins:
# ``P_dai`` is ``S_abi`` with ``b = (a + d) mod n``, for the distances up to ``n/2``. That is a box as well, of about
# half the entries, and so the product stays a product of matrices. Its entries are spread over all pairs afterwards.


_FEWEST = 4
"""Of fewer indices no pairs are left out."""


@dataclass(frozen=True)
class Packed:
    """An array that holds pairs of the indices at two ``axes``, of ``extent`` each, once: the distances come first."""

    name: str
    axes: tuple[int, int]
    extent: int

    @property
    def distances(self) -> int:
        return self.extent // 2 + 1


def with_packed_pairs(program: Program, hints: Hints, graph: Graph, entries: Mapping[str, Entry]) -> Program:
    """The program in which products of matrices take one of two equal rows, where that is less work.

    ``hints`` are the expected sizes by their names, ``entries`` of the arrays stand in the ``graph``.
    """
    work = _Packing(program, hints, graph, entries)
    return work.result() if work.packed else program


def exchangeable_axes(graph: Graph, entry: Entry) -> Iterator[tuple[int, int]]:
    """The pairs of axes that can be exchanged: the entry is the same node then, but for the sign of even powers."""
    plain, *_ = with_signs(graph, [entry.node])
    for first, second in combinations(range(len(entry.axes)), 2):
        one, other = entry.axes[first], entry.axes[second]
        exchanged = graph.substitute(entry.node, {one: Affine.variable(other), other: Affine.variable(one)})
        if with_signs(graph, [exchanged])[0] is plain:
            yield first, second


class _Packing:
    def __init__(self, program: Program, hints: Hints, graph: Graph, entries: Mapping[str, Entry]) -> None:
        self.program = program
        self.graph = graph
        self.entries = entries
        self.hints = hints
        self.shapes = array_shapes(program)
        self.taken = all_names(program)
        self.readers: dict[str, list[Step]] = {}
        for step in program.kernels:
            for name in uses(step).arrays:
                self.readers.setdefault(name, []).append(step)
        self.packed: dict[str, Packed] = {}
        writers = Counter(step.array for step in program.kernels)
        temporaries = {array.name for array in program.temporaries}
        for step in program.kernels:
            if isinstance(step, Kernel) and step.array in temporaries and writers[step.array] == 1:
                self.consider(step)

    def consider(self, kernel: Kernel) -> None:
        """Pack an array if all that reads it are products of matrices, and these become smaller by enough."""
        name = kernel.array
        readers = self.readers.get(name, [])
        if not readers or not all(isinstance(step, Contraction) for step in readers):
            return
        for axes in exchangeable_axes(self.graph, self.entries[name]) if name in self.entries else ():
            extent = self.shapes[name][axes[0]]
            if extent != self.shapes[name][axes[1]] or not extent.is_constant or extent.constant < _FEWEST:
                continue
            found = Packed(self.fresh(name), axes, extent.constant)
            if self.is_worth(found, name, [step for step in readers if isinstance(step, Contraction)]):
                self.packed[name] = found
                return

    def is_worth(self, found: Packed, name: str, readers: Sequence[Contraction]) -> bool:
        """Whether the products lose more work than the spreading of their entries takes."""
        before = after = entries = 0
        for step in readers:
            labels = {label: self.hints(extent) for label, extent in extents(step, self.shapes).items()}
            halved = [own for operand in step.operands if operand.array == name and (own := _own(operand, step, found))]
            if len(halved) < sum(operand.array == name for operand in step.operands):
                return False
            before += prod(labels.values())
            entries += prod(labels[label] for label in step.output)
            after += prod({**labels, **dict.fromkeys([own[0] for own in halved], found.distances)}.values())
        return is_worth_packing(before, after, entries)

    def fresh(self, name: str) -> str:
        name = unique(f"{name}_pairs", self.taken)
        self.taken.add(name)
        return name

    # ------------------------------------------------------------------------ the new program

    def result(self) -> Program:
        """The program with packed arrays, and the products of them."""
        steps: list[Step] = []
        temporaries = [array for array in self.program.temporaries if array.name not in self.packed]
        notes = [note for note in self.program.notes if note.partition(":")[0] not in self.packed]
        for step in self.program.kernels:
            if isinstance(step, Kernel) and not isinstance(step, Scatter) and step.array in self.packed:
                found = self.packed[step.array]
                steps.append(self.filled(step, found))
                shape = list(self.shapes[step.array])
                shape[found.axes[0]] = Affine.of(found.distances)
                temporaries.append(Array(found.name, tuple(shape)))
                pairs = f"{found.distances * found.extent} of {found.extent**2} pairs of indices"
                notes.append(f"{found.name}: {pairs}, which may be exchanged")
            elif isinstance(step, Contraction) and any(operand.array in self.packed for operand in step.operands):
                array, kernels = self.multiplied(step)
                steps += kernels
                temporaries.append(array)
                notes.append(f"{array.name}: a product of pairs of indices, spread over {step.array}")
            else:
                steps.append(step)
        return replace(self.program, kernels=tuple(steps), temporaries=tuple(temporaries), notes=tuple(notes))

    def filled(self, kernel: Kernel, found: Packed) -> Kernel:
        """The kernel of a packed array: the second index of a pair is the first and the distance, round the circle."""
        first, second = (kernel.axes[axis] for axis in found.axes)
        distance = unique("distance", self.taken | set(kernel.axes))
        end = Affine.variable(distance) + Affine.variable(second)
        places = {first: Affine.variable(second), second: end - found.extent * quotient(end, found.extent)}
        axes = tuple([distance if axis == first else axis for axis in kernel.axes])
        return Kernel(found.name, axes, Renaming({}, forms=places).body(kernel.body))

    def multiplied(self, step: Contraction) -> tuple[Array, list[Step]]:
        """The array of a product of packed arrays, the product, and the kernel that spreads it."""
        name = self.fresh(step.array)
        pairs: list[tuple[int, int, Packed]] = []
        for operand in step.operands:
            found = self.packed.get(operand.array)
            own = None if found is None else _own(operand, step, found)
            if found is not None and own is not None:
                pairs.append((step.output.index(own[0]), step.output.index(own[1]), found))
        left, right = (
            Operand(self.packed[operand.array].name if operand.array in self.packed else operand.array, operand.labels)
            for operand in step.operands
        )
        shape = list(self.shapes[step.array])
        for place, _, found in pairs:
            shape[place] = Affine.of(found.distances)
        return Array(name, tuple(shape)), [
            replace(step, array=name, left=left, right=right),
            _spread(step, name, pairs),
        ]


def _own(operand: Operand, step: Contraction, found: Packed) -> tuple[int, int] | None:
    """The labels of a pair of axes of an operand; None where they are not axes of the product, and of nothing else."""
    first, second = (operand.labels[axis] for axis in found.axes)
    everywhere = Counter((*step.left.labels, *step.right.labels))
    if first == second or everywhere[first] > 1 or everywhere[second] > 1:
        return None
    return (first, second) if {first, second} <= set(step.output) else None


def _spread(step: Contraction, name: str, pairs: Sequence[tuple[int, int, Packed]]) -> Kernel:
    """The kernel that reads, for each two indices, the entry of their pair: its distance, and where it begins."""
    axes = tuple([f"i{n}" for n in range(len(step.output))])
    choices: list[list[tuple[Row, dict[int, Affine]]]] = []
    for place, other, found in pairs:
        ahead = Affine.variable(axes[other]) - Affine.variable(axes[place])
        ahead = ahead - found.extent * quotient(ahead, found.extent)
        near = Row("ge", found.distances - 1 - ahead)
        there = {place: ahead, other: Affine.variable(axes[place])}
        back = {place: found.extent - ahead, other: Affine.variable(axes[other])}
        choices.append([(near, there), (near.negation(), back)])
    body: list[Statement] = [Accumulator("entry")]
    for chosen in product(*choices):
        index = dict(enumerate(map(Affine.variable, axes)))
        for _, places in chosen:
            index |= places
        load = Load(name, tuple(index.values()))
        body.append(If(tuple([row for row, _ in chosen]), (Add("entry", load),)))
    return Kernel(step.array, axes, (*body, Store(Name("entry"))))
