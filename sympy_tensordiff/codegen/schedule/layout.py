"""The order of axes in memory: arrays are copied or transposed so that an innermost loop reads contiguous entries.

A loop over points, the rows of a matrix with three columns, reads every third number, which keeps it from working on
vectors; so does one that runs down a column. An array that an enclosing loop repeatedly reads with a stride is
therefore copied once with that axis last. Loops and last axes of few steps count as unrolled: the loop around them is
the innermost.

Products of matrices and the values of other temporaries are computed in that order in the first place.

If an array is read with a stride along an axis, ``x[3*i + 2*k]`` in a loop over ``k``, its residue classes are copied
(de-interleaved): ``x_classes[(3*i) % 2, 3*i//2 + k]`` runs along rows, whatever else is in the index.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeVar

from sympy_tensordiff.codegen.ir.dataflow import uses
from sympy_tensordiff.codegen.ir.facts import Prover
from sympy_tensordiff.codegen.ir.loops import If, Loop, Set, Statement, accumulator, add
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
from sympy_tensordiff.codegen.ir.rename import reserve_name, unique
from sympy_tensordiff.codegen.ir.scalars import Load, Name, Scalar
from sympy_tensordiff.codegen.ir.walk import Around, all_names, loads, loops, rewrite, rewrite_scalar, with_parts
from sympy_tensordiff.codegen.schedule.rows import (
    MAX_UNROLLED_STEPS,
    SHORT,
    has_few_steps,
    is_short,
    row_plan,
    run_of,
    scans_plan,
    sums_plan,
)
from sympy_tensordiff.integer.affine import Affine, Constraint, quotient

T = TypeVar("T")

MOST_CLASSES = 16
"""Of more residue classes than these, each reads few of the entries of a cache line, and none is copied.

Half and twice as much change no text of the benchmarks.
"""

Visit = Callable[[Load, str | None, tuple[str, ...]], Load]
"""Takes a read, the variable of the innermost loop around it and those of all long ones; returns its replacement."""


def in_reading_order(program: Program) -> Program:
    """Return `program` with temporaries stored in another order of axes, or with copies added, so that innermost loops
    read arrays contiguously; `program` itself if its options do not allow copies.
    """
    if not program.copies:
        return program
    in_rows = _with_sums_along_rows(program)
    settled = {array.name for array in frozenset(in_rows.temporaries).difference(program.temporaries)}
    known: dict[int, _RowsOfReads] = {}
    best = _with_transposed_products(_with_transposed_values(in_rows, settled, known, True))
    if least := _column_reads(best):
        other = _with_transposed_products(_with_transposed_values(in_rows, settled, known, False))
        best = other if _column_reads(other) < least else best
    return _with_copies(_with_turned_groups(best, settled))


def _with_turned_groups(program: Program, settled: AbstractSet[str]) -> Program:
    """Return `program` with results of matrix products stored transposed, each together with the temporaries that are
    computed from it entry by entry, if fewer reads then run down columns. Temporaries named in `settled` stay as they
    are.

    Each alone may be no better: the gradient reads ``x @ W`` along its rows, ``tanh(x @ W)`` is stored by columns.
    """
    least = _column_reads(program)
    for product in [step for step in program.kernels if type(step) is ContractionStep]:
        if not least:
            break
        groups = _groups_of(product)
        if groups is None or product.array not in _turnable(program):
            continue
        turned = _with_turned(program, product.array, groups)
        known: dict[int, _RowsOfReads] = {}
        turned = _with_transposed_products(_with_transposed_values(turned, settled, known, False))
        if (count := _column_reads(turned)) < least:
            note = f"{product.array}: transposed, with the arrays that are computed from it"
            program, least = replace(turned, notes=(*turned.notes, note)), count
    return program


def _turnable(program: Program) -> AbstractSet[str]:
    """Return the names of the matrices among the temporaries that may be stored transposed: only loops and products
    read them.
    """
    own = {array.name for array in program.temporaries if len(array.shape) > 1}
    others = [step for step in program.kernels if type(step) not in (Kernel, ContractionStep)]
    return own - {name for step in others for name in uses(step).arrays}


def _with_sums_along_rows(program: Program) -> Program:
    """Return `program` with sums that read columns computed along rows, where the last axes of their array are short:
    for ``Sum(B[i, p]*x[i, q], i)`` with two values of q, a temporary with the long axis p last is filled, and copied to
    the array.
    """
    prover = Prover(program)
    taken = all_names(program)
    own = frozenset(array.name for array in program.temporaries)
    arrays: list[Array] = []
    notes: list[str] = []
    steps: list[Step] = []
    for step in program.kernels:
        order = _order_for_rows(step, prover, own) if type(step) is Kernel else None
        if order is None or not isinstance(step, Kernel):
            steps.append(step)
            continue
        shape = prover.shapes[step.array]
        array = Array(reserve_name(f"{step.array}_rows", taken), _permuted(shape, order))
        *body, store = step.body
        assert isinstance(store, Set)
        steps.append(entrywise(array.name, _permuted(step.axes, order), body, store.value))
        place = Affine.variable
        copied = Load(array.name, _permuted(tuple(map(place, step.axes)), order))
        steps.append(entrywise(step.array, step.axes, [], copied))
        arrays.append(array)
        notes.append(f"{array.name}: {step.array} with axis {order[-1]} last, along which its sums read")
    return program.with_steps(steps, new=arrays, notes=notes) if arrays else program


def _order_for_rows(kernel: Kernel, prover: Prover, own: AbstractSet[str]) -> list[int] | None:
    """Return the order of the axes of `kernel` in which its sums read contiguous memory: the last long axis is moved
    behind the short axes that follow it. None if no short axis follows it, if this makes no more reads contiguous, or
    if only arrays in ``own``, which can be stored in another order instead, are read down their columns.
    """
    box = kernel.box(prover.shapes)
    long = [n for n, length in enumerate(box) if not is_short(length)]
    last = kernel.body[-1] if kernel.body else None
    if not long or long[-1] == len(box) - 1 or not isinstance(last, Set) or last.target != kernel.entry:
        return None
    row = kernel.axes[long[-1]]
    columns = {
        load.array
        for loop in loops(kernel.body)
        for load in loads(loop.body)
        if any(loop.variable in form.atoms() for form in load.index[:-1]) and row in load.index[-1].atoms()
    }
    if columns <= own:
        return None
    order = _axes_with_last(long[-1], len(box))
    return order if sums_plan(replace(kernel, axes=_permuted(kernel.axes, order)), prover, box[long[-1]]) else None


def _with_transposed_values(
    program: Program, settled: AbstractSet[str], known: dict[int, _RowsOfReads], has_invariants: bool
) -> Program:
    """Return `program` with the axes of some temporaries in another order, so that more reads are contiguous: those of
    the temporaries, and those by the kernels that fill them. Temporaries named in `settled` stay as they are.

    One order changes what is best for the others, so that they are chosen one after the other. `known` and
    ``has_invariants`` are those of `_axis_to_put_last`.
    """
    for _ in program.temporaries:
        found = _axis_to_put_last(program, settled, known, has_invariants)
        if found is None:
            break
        program = _with_last_axis(program, *found)
    return program


def _with_last_axis(program: Program, name: str, last: int) -> Program:
    """Return `program` with the axes of the temporary ``name`` stored in another order: the axis number ``last`` comes
    last.
    """
    rank = next(len(array.shape) for array in program.temporaries if array.name == name)
    order = _axes_with_last(last, rank)

    def entry(load: Name | Load) -> Name | Load:
        """Return `load` with its indices in the new order of axes, if it is an entry of the array ``name`` that gets
        this order. Any other entry or scalar is unchanged.
        """
        is_own = isinstance(load, Load) and load.array == name
        return Load(name, _permuted(load.index, order)) if isinstance(load, Load) and is_own else load

    def with_new_order(statement: Statement, _: Around) -> tuple[Statement, ...]:
        """Return `statement` with the axes of the array ``name`` in their new order: the indices of each of its entries
        are permuted.
        """
        value = partial(rewrite_scalar, change=lambda part: entry(part) if isinstance(part, Load) else part)
        return (with_parts(statement, value, target=entry),)

    kernels: list[Step] = []
    for step in program.kernels:
        if isinstance(step, ContractionStep):
            one, other = (
                replace(operand, labels=_permuted(operand.labels, order)) if operand.array == name else operand
                for operand in step.operands
            )
            kernels.append(replace(step, left=one, right=other))
        elif isinstance(step, Kernel) and (step.array == name or name in uses(step).arrays):
            axes = _permuted(step.axes, order) if step.array == name else step.axes
            kernels.append(replace(step, axes=axes, body=rewrite(step.body, with_new_order)))
        else:
            kernels.append(step)
    arrays = [replace(a, shape=_permuted(a.shape, order)) if a.name == name else a for a in program.temporaries]
    note = f"{name}: stored with axis {last} last, along which loops read"
    return replace(program, temporaries=tuple(arrays), kernels=tuple(kernels), notes=(*program.notes, note))


class _RowsOfReads(NamedTuple):
    """A record of a kernel for `_axis_to_put_last`: whether it has prefix scans, and how many of its reads are
    contiguous for each axis that could be stored last. It is kept while other kernels change.
    """

    kernel: Kernel
    """The kernel itself, so that its id is not given to another one."""
    has_scans: bool
    votes: Counter[tuple[str, int]]
    """For each array and axis, the number of reads that are contiguous if the axis is stored last: reads of the array,
    and reads by the kernel that fills it.
    """
    invariant: Counter[tuple[str, int]]
    """The number of reads by this kernel that do not depend on the axis, so that they are loop-invariant."""


def _rows_of_reads(kernel: Kernel, prover: Prover) -> _RowsOfReads:
    """Count, for each array and axis, the reads in `kernel` that are contiguous if the array is stored with this axis
    last. Return the counts as a record, which also says whether `kernel` has prefix scans.
    """
    votes: Counter[tuple[str, int]] = Counter()
    invariant: Counter[tuple[str, int]] = Counter()

    def vote(load: Load, variable: str | None, around: tuple[str, ...]) -> Load:
        """Count in ``votes`` each axis for which `load` is contiguous if the axis is stored last: an axis of the array
        that `load` reads, along the loop over ``variable``, or of the array that `kernel` fills. Return `load`
        unchanged; ``around`` is not used.
        """
        run = run_of(load, variable)
        if run is not None and run[1] == 1:
            votes[load.array, run[0]] += 1
        if kernel.axes and variable == kernel.axes[-1]:
            for place, axis in enumerate(kernel.axes):
                along = run_of(load, axis)
                votes[kernel.array, place] += along == (len(load.index) - 1, 1)
                invariant[kernel.array, place] += along is None
        return load

    _visited(kernel, prover, vote)
    return _RowsOfReads(kernel, scans_plan(kernel) is not None, votes, invariant)


def _axis_to_put_last(
    program: Program, settled: AbstractSet[str], known: dict[int, _RowsOfReads], has_invariants: bool
) -> tuple[str, int] | None:
    """Return ``(name, axis)``: the temporary, and its axis to be stored last, for which the most additional reads
    become contiguous; None if no change is better. Temporaries named in `settled` are not considered. ``known`` caches
    the counts of reads in kernels, by their ids.

    Reads of the temporary count, and reads by the kernel that fills it. With ``has_invariants``, loop-invariant reads
    by this kernel count like strided ones, otherwise like contiguous ones.

    An axis is not moved if all axes after it are short, since the kernels of one row share its entries.
    """
    prover = Prover(program)
    ranks = {array.name: len(array.shape) for array in program.temporaries if len(array.shape) > 1}
    if ranks.keys() <= settled:
        return None
    for step in program.kernels:
        if type(step) is Kernel and id(step) not in known:
            known[id(step)] = _rows_of_reads(step, prover)
    writers = Counter(step.array for step in program.kernels)
    found = [known[id(step)] for step in program.kernels if type(step) is Kernel]
    filled = {rows.kernel.array for rows in found if not rows.has_scans}
    fixed = {n for step in program.kernels if type(step) not in (Kernel, ContractionStep) for n in uses(step).arrays}
    operands = {o.array for step in program.kernels if isinstance(step, ContractionStep) for o in step.operands}
    fixed |= {name for name in operands if ranks.get(name, 0) > 2}  # a library reads matrices in either order only
    own = {name for name in ranks if name in filled - fixed - settled and writers[name] == 1}
    if not own:
        return None
    votes: Counter[tuple[str, int]] = Counter()
    for rows in found:
        for counted in (rows.votes,) if has_invariants else (rows.votes, rows.invariant):
            votes.update({one: count for one, count in counted.items() if one[0] in own})
    gains = {
        (name, place): votes[name, place] - votes[name, ranks[name] - 1]
        for name, place in sorted(votes)
        if not all(map(is_short, prover.shapes[name][place + 1 :]))
    }
    best = max(gains, key=lambda one: gains[one], default=None)
    return best if best is not None and gains[best] > 0 else None


def _with_transposed_products(program: Program) -> Program:
    """Return `program` with the result of a matrix product stored transposed if loops then read fewer arrays down their
    columns: this result, and the arrays that are read with it. Other products read it in either order.
    """
    own = _turnable(program)
    for product in [step for step in program.kernels if type(step) is ContractionStep and step.array in own]:
        groups = _groups_of(product)
        turned = None if groups is None else _with_turned(program, product.array, groups)
        if turned is not None and _column_reads(turned, product.array) < _column_reads(program, product.array):
            note = f"{product.array}: transposed, since loops read along its columns"
            program = replace(turned, notes=(*program.notes, note))
    return program


def _with_turned(program: Program, name: str, groups: _Groups) -> Program:
    """Return `program` with the array `name`, the result of a matrix product, stored transposed. ``groups`` divides its
    axes.
    """
    prover = Prover(program)

    def turn(load: Load, variable: str | None, around: tuple[str, ...]) -> Load:
        """Return `load` with its row and column indices exchanged if it reads the array ``name`` of the enclosing
        function; ``variable`` and ``around`` are not used.
        """
        return Load(name, groups.turned(load.index)) if load.array == name else load

    def operand(one: Operand) -> Operand:
        """Return the operand ``one`` of a matrix product, with its row and column labels exchanged if it is the array
        ``name`` of the enclosing function.
        """
        return replace(one, labels=groups.turned(one.labels)) if one.array == name else one

    kernels: list[Step] = []
    for step in program.kernels:
        if type(step) is Kernel and name in uses(step).arrays:
            kernels.append(_visited(step, prover, turn))
        elif type(step) is ContractionStep:
            output = groups.turned(step.output) if step.array == name else step.output
            kernels.append(replace(step, output=output, left=operand(step.left), right=operand(step.right)))
        else:
            kernels.append(step)
    arrays = [replace(a, shape=groups.turned(a.shape)) if a.name == name else a for a in program.temporaries]
    return replace(program, temporaries=tuple(arrays), kernels=tuple(kernels))


def _column_reads(program: Program, name: str | None = None) -> int:
    """Return the number of reads in the kernels of `program` that run down the columns of an array, with a stride,
    instead of along its rows. With `name`, only kernels that read this array count.

    The innermost loop on which such a read depends moves it by more than one entry. A product without axes, a sum of
    ``a[i, j]*b[i, j]``, counts one if it reads both in different orders.
    """
    prover = Prover(program)
    count = 0

    def visit(load: Load, variable: str | None, around: tuple[str, ...]) -> Load:
        """Count ``load`` if loops over ``variable`` and ``around`` read it down its columns, and return it."""
        nonlocal count
        runs = (run_of(load, one) for one in (variable, *reversed(around)))
        run = next((run for run in runs if run is not None and run[1] == 1), None)
        count += run is not None and run[0] != len(load.index) - 1
        return load

    for step in program.kernels:
        if name is not None and name not in uses(step).arrays:
            continue
        if type(step) is Kernel:
            _visited(step, prover, visit)
        elif type(step) is ContractionStep and not step.output:
            one, other = step.operands
            count += one.labels != other.labels
    return count


class _Groups(NamedTuple):
    """The two positions that divide the axes of a product's result into batch axes (before ``rows``), row axes (from
    ``rows`` to ``columns``) and column axes (from ``columns`` on).
    """

    rows: int
    columns: int

    def turned(self, items: Sequence[T]) -> tuple[T, ...]:
        """Return `items`, a sequence with one item for each axis of an array, with the items of its row axes and those
        of its column axes exchanged.
        """
        return *items[: self.rows], *items[self.columns :], *items[self.rows : self.columns]


def _groups_of(step: ContractionStep) -> _Groups | None:
    """Return the groups of axes of the result of `step`: batch, rows and columns. None if they are not in this order,
    or if one of the last two is empty.
    """
    left, right = (frozenset(operand.labels) for operand in step.operands)
    both = [label for label in step.output if label in left & right]
    rest = step.output[len(both) :]
    sides = [label in left for label in rest]
    count = sides.index(not sides[0]) if len(set(sides)) == 2 else 0
    is_grouped = step.output[: len(both)] == tuple(both) and len(set(sides[count:])) == 1
    return _Groups(len(both), len(both) + count) if count and is_grouped else None


def _with_copies(program: Program) -> Program:
    """Return `program` with a transposed copy of each array that loops would read with a stride, if they read it
    repeatedly.
    """
    prover = Prover(program)
    taken = all_names(program)
    copies: dict[tuple[str, int, int], Array] = {}
    kernels: list[Step] = []
    first: list[Step] = []
    own = {array.name for array in (*program.temporaries, *program.outputs)}
    for step in program.kernels:
        fresh: list[Step] = []

        def contiguous(load: Load, variable: str | None, around: tuple[str, ...], fresh: list[Step] = fresh) -> Load:
            """Return a contiguous read that replaces ``load``, from a copy of the array with rearranged axes; ``load``
            itself if a copy does not pay.

            A copy pays if the loop over ``variable`` reads with a stride, and the loops ``around`` the read repeat it.

            The step that makes a new copy is added to ``fresh``; for the array of an argument it is added to the first
            steps of the program.
            """
            rank, run = len(load.index), run_of(load, variable)
            if run is None or run == (rank - 1, 1) or run[1] > MOST_CLASSES or not _is_repeated(load, around, run[1]):
                return load
            place, factor = run
            order = _axes_with_last(place, rank)
            shape, index = _permuted(prover.shapes[load.array], order), _permuted(load.index, order)
            if factor > 1:
                if not prover.proves(Constraint("ge", shape[-1] - 1)):
                    return load
                classes = quotient(index[-1], factor)
                shape = (*shape[:-1], Affine.of(factor), quotient(shape[-1] + (factor - 1), factor))
                index = (*index[:-1], index[-1] - factor * classes, classes)
            copy = copies.get((load.array, place, factor))
            if copy is None:
                name = reserve_name(f"{load.array}_{'turned' if factor == 1 else 'classes'}", taken)
                copy = copies[load.array, place, factor] = Array(name, shape)
                made = _copying(copy, load.array, order, taken)
                if factor > 1:
                    made = _classes(copy, load.array, order, prover.shapes[load.array][place], factor, taken)
                # Arguments are copied before all else: nothing comes between kernels that may run together.
                (fresh if load.array in own else first).append(made)
            return Load(copy.name, index)

        kernel = _visited(step, prover, contiguous) if type(step) is Kernel else step
        kernels += [*fresh, kernel]
    if not copies:
        return program
    notes = [
        f"{copy.name}: a copy of {array} with axis {place} last, along which loops read it"
        if factor == 1
        else f"{copy.name}: the residue classes of axis {place} of {array} modulo {factor}, along which loops read it"
        for (array, place, factor), copy in copies.items()
    ]
    return program.with_steps([*first, *kernels], new=copies.values(), notes=notes)


def _is_repeated(load: Load, around: Sequence[str], factor: int) -> bool:
    """Return whether the loops ``around`` the read ``load``, which has the stride `factor`, read each entry several
    times. A copy with contiguous entries then pays.

    With a stride, an entry is repeated where more loops than axes are in the indices, too.
    """
    used = {name for form in load.index for name in form.atoms()}
    is_repeated = not used.issuperset(around) or (factor > 1 and len(used.intersection(around)) > len(load.index))
    return is_repeated and not any(form.is_constant for form in load.index)


def _copying(copy: Array, array: str, order: Sequence[int], taken: set[str]) -> Kernel:
    """Return the kernel that fills the array `copy` with the entries of `array`, its axes in the given `order`.
    ``taken`` are names that it may not use.
    """
    axes = [unique(f"i{n}", taken) for n in range(len(order))]
    index = {place: Affine.variable(axis) for place, axis in zip(order, axes, strict=True)}
    return entrywise(copy.name, axes, [], Load(array, tuple([index[m] for m in range(len(order))])))


def _classes(copy: Array, array: str, order: Sequence[int], extent: Affine, factor: int, taken: set[str]) -> Kernel:
    """Return the kernel that fills `copy` with the entries of ``array``, with the last of the axes `order` split in
    two: the entry at ``factor*q + r`` is stored at ``[..., r, q]``. Reads with stride `factor` become contiguous.

    ``extent`` is the length of that axis, ``taken`` are names in use.
    """
    *axes, residue, row = (unique(f"i{n}", taken) for n in range(len(order) + 1))
    place = factor * Affine.variable(row) + Affine.variable(residue)
    index = dict(zip(order, [*map(Affine.variable, axes), place], strict=True))
    entry = Load(array, tuple([index[m] for m in range(len(order))]))
    total = unique("s", taken)
    inside = If((Constraint("ge", extent - 1 - place),), (add(total, entry),))
    return entrywise(copy.name, (*axes, residue, row), [accumulator(total), inside], Name(total))


# ---------------------------------------------------------------------------- reads


def _visited(kernel: Kernel, prover: Prover, visit: Visit) -> Kernel:
    """Return `kernel` with each read replaced by the scalar ``visit(read, variable, loops)``: ``variable`` is that of
    the innermost loop or axis around the read, and ``loops`` are the variables of the loops and axes around it.

    Short loops, which are unrolled, do not count.

    The row's axis is innermost if the kernel runs row by row; ``variable`` is None if there is no loop.
    """
    extents = kernel.box(prover.shapes)
    axes = list(zip(kernel.axes, extents, strict=True))
    planned = not isinstance(kernel, Scatter) and row_plan(kernel, prover) is not None
    row = kernel.axes[-1] if planned else None

    def change(statement: Statement, loops: Around) -> tuple[Statement, ...]:
        """Return `statement` with each read in it replaced by ``visit(read, variable, around)``, where ``variable`` is
        the innermost long loop or axis around the read, and ``around`` are the long loops and axes around it.

        ``variable`` is longer than `SHORT`, those in ``around`` are longer than `MAX_UNROLLED_STEPS`. `loops` are the
        loops and guards around `statement`.
        """
        inside = [s for s in loops if isinstance(s, Loop)]
        # A loop of up to SHORT steps is unrolled, but one of more than FEW repeats reads often enough for a copy.
        long, around = (
            (
                *(a for a, extent in axes if not is_short(extent, n)),
                *(s.variable for s in inside if not has_few_steps(s, n)),
            )
            for n in (SHORT, MAX_UNROLLED_STEPS)
        )

        def visited(node: Scalar) -> Scalar:
            """Return ``visit(node, variable, around)``, the replacement of the read `node`, where ``variable`` is the
            innermost long loop around the statement, and ``around`` are all long ones. Other nodes are unchanged.
            """
            return visit(node, row or (long[-1] if long else None), around) if isinstance(node, Load) else node

        return (with_parts(statement, lambda value: rewrite_scalar(value, visited)),)

    return replace(kernel, body=rewrite(kernel.body, change))


def _axes_with_last(place: int, rank: int) -> list[int]:
    """Return the axis numbers ``0, ..., rank - 1`` in order, but with the axis `place` moved to the end."""
    return [m for m in range(rank) if m != place] + [place]


def _permuted(items: Sequence[T], order: Sequence[int]) -> tuple[T, ...]:
    """Return `items` in the order of the positions `order`."""
    return tuple([items[m] for m in order])
