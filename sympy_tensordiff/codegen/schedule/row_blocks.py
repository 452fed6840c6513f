"""Row-wise functions, such as softmax and layer norm, in one launch: the threads of a block share a row.

The block computes the sums along its row one after the other, and then the entries of the row. What the row has one of,
such as its greatest entry, is a number of each thread; what it has many of and computes cheaply, such as exponentials,
is computed again where it is used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from sympy_tensordiff.codegen.ir.dataflow import uses
from sympy_tensordiff.codegen.ir.loops import Alloc, Barrier, If, Loop, Statement, is_accumulator
from sympy_tensordiff.codegen.ir.nests import ZERO, exactly, with_entries_as_scalars
from sympy_tensordiff.codegen.ir.programs import Array, FusedKernels, Kernel, Program, Size, Step
from sympy_tensordiff.codegen.ir.rename import Renaming, renamed, reserve_name
from sympy_tensordiff.codegen.ir.scalars import Bound, Load
from sympy_tensordiff.codegen.ir.steps import Shapes
from sympy_tensordiff.codegen.ir.walk import added, all_names, array_shapes, loads, loops
from sympy_tensordiff.codegen.schedule.blocks import WARP, BlockNest, NameMaker
from sympy_tensordiff.codegen.schedule.recompute import with_values
from sympy_tensordiff.codegen.schedule.shared_sums import SharedLoop, iterations_of_thread, threads_of_sum, totals
from sympy_tensordiff.codegen.schedule.transposes import transposed_reads
from sympy_tensordiff.integer.affine import Affine, Constraint

MAX_TIMES = 2
"""How often an entry of a row is computed at most."""


class RowBlocks(NamedTuple):
    """A GPU program and the loops that its threads share. Each function that is computed row by row, such as a softmax,
    is one launch with a block of threads for each row.

    ``shared_loops`` maps an array to the loop of its kernel whose iterations the threads of a block share.
    """

    program: Program
    shared_loops: Mapping[str, SharedLoop]


def with_row_launches(program: Program, shared_loops: Mapping[str, SharedLoop], excluded: Collection[str]) -> RowBlocks:
    """Join GPU kernels over the same rows, such as those for the sums and the entries of a softmax, to single launches
    with one block of threads for each row. Return the new program and the loops that the threads share.

    Kernels that fill arrays in ``excluded`` are not joined.

    Law: every result is the same.
    """
    return _RowGroups(program, shared_loops).grouped(excluded)


class _RowGroups:
    """Finds groups of kernels of a program that run directly one after the other over the same rows, and joins each
    group into one GPU launch.
    """

    def __init__(self, program: Program, shared_loops: Mapping[str, SharedLoop]) -> None:
        self.program, self.shapes, self.taken = program, array_shapes(program), all_names(program)
        self.old_shared_loops, self.shared_loops, self.sizes = shared_loops, dict(shared_loops), list(program.sizes)
        self.gone: set[str] = set()
        """The temporaries that are not stored any more, and the sizes that nothing uses."""
        self.users = Counter(name for step in program.kernels for name in {step.array, *uses(step).arrays})
        self.temporaries = {array.name for array in program.temporaries}

    def grouped(self, excluded: Collection[str]) -> RowBlocks:
        """Join consecutive row-wise kernels of the program to single launches, with as many kernels in each as
        possible, and return the new program with its shared loops. Kernels that fill arrays in ``excluded`` are not
        joined.
        """
        groups: list[list[Step]] = []
        for step in self.program.kernels:
            if groups and _joins(groups[-1], step, self.old_shared_loops, self.shapes, excluded):
                groups[-1].append(step)
            else:
                groups.append([step])
        steps: list[Step] = []
        for group in groups:
            while group:
                for length in range(len(group), 0, -1):
                    if (made := self.joined(group[:length])) is not None:
                        break
                steps.append(made or group[0])
                group = group[length:]
        used = {str(atom) for shared in self.shared_loops.values() for atom in shared.threads.atoms()}
        sizes = [size for size in self.sizes if size.name not in self.gone - used]
        program = replace(self.program, sizes=tuple(sizes)).with_steps(steps, gone=self.gone)
        return RowBlocks(program, self.shared_loops)

    def joined(self, group: Sequence[Step]) -> FusedKernels | None:
        """Return the kernels of `group`, which run over the same rows, as one launch (`FusedKernels`), with cheap
        kernels inlined into their readers. None if they cannot be joined.

        They cannot if fewer than two remain, if one reads an array that another one stores in memory, or if the first
        has no sum for threads to share.
        """
        kernels = [step for step in group if isinstance(step, Kernel)]
        if len(kernels) < 2 or kernels[0].array not in self.old_shared_loops:
            return None
        own = Counter(name for kernel in kernels for name in {kernel.array, *uses(kernel).arrays})
        inner = {k.array for k in kernels if k.array in self.temporaries and own[k.array] == self.users[k.array]}
        kernels = _recomputed(kernels, inner, self.taken)
        axes, rank = kernels[0].axes, len(kernels[0].axes)
        numbers = [kernel.array for kernel in kernels if kernel.array in inner and len(kernel.axes) == rank]
        stored = {kernel.array for kernel in kernels} - {*numbers}
        if len(kernels) < 2 or any(stored & {*uses(kernel).arrays} for kernel in kernels):
            return None
        known = {*self.taken, *axes}
        new = [renamed(kernel, dict(zip(kernel.axes, axes, strict=False)), known) for kernel in kernels]
        length = self.old_shared_loops[kernels[0].array].length
        assert length is not None
        threads = threads_of_sum(length)
        if threads.is_constant:
            threads = Affine.of(max(WARP, threads.constant))
        else:
            self.sizes.append(Size(reserve_name(f"{kernels[0].array}_row", self.taken), (threads, Affine.of(WARP))))
            threads = Affine.variable(self.sizes[-1].name)
        for old, kernel in zip(kernels, new, strict=True):
            if (shared := self.old_shared_loops.get(kernel.array)) is not None:
                self.gone |= {str(atom) for atom in shared.threads.atoms()}
                variable = _renamed_variable(old, kernel, shared.variable)
                self.shared_loops[kernel.array] = replace(shared, variable=variable, threads=threads)
        self.gone |= inner - {kernel.array for kernel in kernels}
        rows = tuple([Array(number, ()) for number in numbers])
        return FusedKernels(axes[0], kernels[0].box(self.shapes)[0], tuple(new), rows=rows)


def _renamed_variable(old: Kernel, new: Kernel, variable: str) -> str:
    """Return the new name of the loop variable `variable`, where `old` and `new` are a kernel before and after
    renaming.
    """
    names = zip([loop.variable for loop in loops(old.body)], [loop.variable for loop in loops(new.body)], strict=True)
    return dict(names)[variable]


def _joins(
    group: Sequence[Step], step: Step, shared_loops: Mapping[str, SharedLoop], shapes: Shapes, excluded: Collection[str]
) -> bool:
    """Return whether `step` can be added to `group`, the kernels of one GPU launch with a block of threads for each
    row. It must read the arrays of the group only in its own row.

    It must fill no array in ``excluded``. ``shared_loops`` and ``shapes`` map arrays to loops that threads share and to
    shapes.
    """
    first = group[0]
    if (
        type(first) is not Kernel
        or type(step) is not Kernel
        or not first.axes
        or {first.array, step.array} & {*excluded}
    ):
        return False
    shared, rank = shared_loops.get(first.array), len(first.axes)
    if (
        shared is None
        or shared.length is None
        or shared.is_across
        or shared.jam
        or shapes[step.array][:rank] != shapes[first.array]
    ):
        return False
    own = shared_loops.get(step.array)
    if own is not None and (own.is_across or own.jam or len(step.axes) != rank or own.length != shared.length):
        return False
    if own is None and (any(loops(step.body)) or len(step.axes) > rank + 1 or transposed_reads(step, shapes)):
        return False
    filled = {one.array for one in group}
    reads = [load for load in loads(step.body) if load.array in filled]
    rows = tuple(map(Affine.variable, step.axes[:rank]))
    return bool(reads) and all(load.index[:rank] == rows for load in reads)


def _recomputed(kernels: list[Kernel], inner: Collection[str], taken: Collection[str]) -> list[Kernel]:
    """Return `kernels` without some that fill a temporary array in ``inner``: the kernels that read this array compute
    its entries again instead.

    This is done for temporaries with several entries per row that have at most `MAX_TIMES` reads; ``taken`` are the
    names in use.
    """
    rank = len(kernels[0].axes)
    for array in [kernel.array for kernel in kernels]:
        kernel = next(one for one in kernels if one.array == array)
        users = [one for one in kernels if one is not kernel and kernel.array in uses(one).arrays]
        count = sum(load.array == kernel.array for one in users for load in loads(one.body))
        if len(kernel.axes) > rank and kernel.array in inner and count <= MAX_TIMES:
            new = {one.array: with_values(one, kernel, taken) for one in users}
            kernels = [new.get(one.array, one) for one in kernels if one.array != kernel.array]
    return kernels


def row_nest(step: FusedKernels, shared_loops: Mapping[str, SharedLoop], shapes: Shapes, fresh: NameMaker) -> BlockNest:
    """Return the loop nest of the fused kernels ``step`` for the GPU: a block of threads computes each row, first the
    sums along the row, then its entries. ``shared_loops`` are the loops that the threads of a block share.
    """
    first = step.kernels[0]
    count, rank = shared_loops[first.array].threads, len(first.axes)
    box = list(zip(first.axes, shapes[first.array], strict=True))
    x, y = fresh("x"), fresh("y")
    t = Affine.variable(x)
    numbers = {array.name for array in step.rows}
    stored: set[str] = set()
    body: list[Statement] = []
    shared: list[Alloc] = []
    for kernel in step.kernels:
        if stored & {*uses(kernel).arrays}:
            body.append(Barrier())
            stored = set()
        inside = with_entries_as_scalars(kernel.body, numbers)
        if kernel.array in shared_loops:
            partial = fresh("partial")
            if not count.is_constant or count.constant > WARP:
                shared.append(Alloc(partial, (exactly(count),), kernel.array))
            variable = shared_loops[kernel.array].variable
            number = next(n for n, s in enumerate(inside) if variable in {loop.variable for loop in loops([s])})
            begin = next(s for s in inside[:number] if is_accumulator(s) and s.name in added([inside[number]]))
            mine = fresh(f"{begin.name}_part")

            def place(thread: Affine, name: str = partial) -> Load:
                """Return the entry of the shared array ``name`` in which ``thread`` stores its partial sum."""
                return Load(name, (thread,))

            part = Renaming({begin.name: mine})
            body += [
                *part.body(inside[:number]),
                *part.body(iterations_of_thread([inside[number]], variable, count, t)),
            ]
            body += totals({begin.name: mine}, {begin.name: place}, t, count, begin, fresh)
            inside = inside[number + 1 :]
        elif len(kernel.axes) > rank:
            axis, last = kernel.axes[-1], shapes[kernel.array][-1] - 1
            chunk = fresh(f"{axis}_first")
            at = Affine.variable(chunk) + t
            inside = Renaming({}, forms={axis: at}).body(inside)
            guarded = If((Constraint("ge", last - at),), inside)
            stride = count.constant if count.is_constant else count
            inside = (Loop(chunk, (Bound(ZERO),), (Bound(last),), (guarded,), stride),)
        if len(kernel.axes) == rank and kernel.array not in numbers:
            *others, store = inside
            inside = (*others, If((Constraint("eq", t),), (store,)))
        body += inside
        stored |= set() if kernel.array in numbers else {kernel.array}
    return BlockNest(tuple(body), (x, count), (y, Affine.of(1)), tuple(shared), tuple(box))
