"""Sliding-window products that read the input in place, without an im2col copy.

``Sum_ij dY[f, i, j]*X[q, 2*i + a, 2*j + b]`` is planned as a matrix product, one operand of which contains the windows
of X: each entry once for every window that it is in. Sums over windows of a matrix product, the derivative with respect
to X, are planned as a matrix product followed by a loop that adds its entries. Here both become one step, which knows
all three arrays by their index forms: a `Correlation`. It is taken where loops over blocks of it, which stay in
registers, run as fast as a library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

from sympy_tensordiff.codegen.ir.dataflow import Dataflow
from sympy_tensordiff.codegen.ir.facts import Prover, axis_rows, loop_rows
from sympy_tensordiff.codegen.ir.loops import Loop, Set, is_accumulator, is_addition, is_store, reduction_of
from sympy_tensordiff.codegen.ir.programs import ContractionStep, Correlation, Kernel, Program, Scatter, Step
from sympy_tensordiff.codegen.ir.rename import reserve_name
from sympy_tensordiff.codegen.ir.scalars import Load, Number
from sympy_tensordiff.codegen.ir.steps import Shapes, in_views, uncompiled_arrays
from sympy_tensordiff.codegen.ir.verify import check_correlation
from sympy_tensordiff.codegen.ir.walk import all_names, filled_arrays
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.rows import ranges
from sympy_tensordiff.integer.smith import solve

Forms = dict[str, Affine]


def with_correlations(program: Program) -> Program:
    """Return the program in which matrix products over sliding windows read the input in place, without im2col
    copies.
    """
    if uncompiled_arrays(program) or not any(isinstance(step, ContractionStep) for step in program.kernels):
        return program
    finder = _CorrelationFinder(program)
    steps: list[Step] = list(program.kernels)
    gone_arrays: set[str] = set()
    new: list[str] = []
    for step in program.kernels:
        found = finder.correlation(step) if isinstance(step, ContractionStep) else None
        if found is not None:
            correlation, gone, last = found
            left = [other for other in steps if not any(other is part for part in gone)]
            steps = [correlation if other is last else other for other in left]
            gone_arrays.update(part.array for part in gone)
            copies = ", ".join(part.array for part in gone if part.array != correlation.array)
            new.append(f"{correlation.array}: windows where they lie, in place of {copies}")
    filled = {name for step in steps for name in filled_arrays(step)}
    arrays = tuple([array for array in program.temporaries if array.name in filled])
    notes = [note for note in program.notes if note.partition(":")[0] not in gone_arrays]
    return replace(program, kernels=tuple(steps), temporaries=arrays, notes=(*notes, *new))


class _CorrelationFinder:
    """Finds contractions of copies of sliding windows (im2col). The copies and the contraction are replaced by
    correlations, which read the windows in place.
    """

    def __init__(self, program: Program) -> None:
        self.prover = Prover(program)
        self.flow = Dataflow(program)
        self.taken = all_names(program)

    def correlation(self, step: ContractionStep) -> tuple[Correlation, list[Step], Step] | None:
        """Convert a contraction that reads arrays with copies of sliding windows to a correlation that reads the
        original array. Return ``(correlation, replaced steps, last of these)``; None for other contractions.
        """
        plain = in_views(step, self.prover.shapes, partial(reserve_name, taken=set(self.taken)))
        gone: list[Step] = []
        views = []
        for view in (plain.left, plain.right):
            copy = self.copied(view.array, step)
            if copy is not None:
                kernel, load = copy
                index = dict(zip(kernel.axes, view.index, strict=True))
                view = Load(load.array, tuple([form.substitute(index) for form in load.index]))
                gone.append(kernel)
            views.append(view)
        output = plain.output
        last: Step = step
        windows = self.windows(step, output, plain.labels)
        if windows is not None:
            output, last, others = windows
            gone += [step, *others]
        found = replace(plain, output=output, left=views[0], right=views[1])
        forms = [form for view in found.views for form in view.index]
        if not any(form.constant or len(form.terms) > 1 for form in forms) or any(form.hidden() for form in forms):
            return None
        if tiling(found, self.prover.shapes) is None:
            return None
        copied = [self.prover.shapes[part.array] for part in gone if part.array in self.flow.temporaries]
        if not spares_copies(found, copied):
            return None
        check_correlation(found, self.prover)
        return found, gone, last

    def copied(self, array: str, by: Step) -> tuple[Kernel, Load] | None:
        """Return ``(kernel, read)``: the kernel that fills `array` by copying entries, and the read of these entries.
        None if `array` is filled in another way, or is read by another step than ``by``.
        """
        kernel = self.only_source(array, by)
        if kernel is None or not is_store(store := kernel.body[0]) or not isinstance(store.value, Load):
            return None
        return kernel, store.value

    def only_source(self, array: str, by: Step) -> Kernel | None:
        """Return the kernel that fills `array`, if no other step fills it and only the step `by` reads it; else
        None.
        """
        writer = self.flow.writer(array)
        return writer if type(writer) is Kernel and self.flow.reader(array) is by else None

    def windows(
        self, step: ContractionStep, output: Load, labels: Sequence[tuple[str, Affine]]
    ) -> tuple[Load, Kernel, list[Step]] | None:
        """Find the kernel that adds the entries of the product `step` to overlapping windows of an array (col2im).
        Return ``(entry, kernel, fills)``: the entry to which it adds, the kernel, and the steps that first set the
        array to 0. None if there is none.

        ``output`` is the entry of the product at ``labels``.

        A correlation can replace all these steps.
        """
        kernel = self.flow.reader(step.array)
        if not isinstance(kernel, Kernel) or self.flow.writer(step.array) is not step:
            return None
        found = _window_sum(kernel)
        if found is None:
            return None
        load, loops, index = found
        fills = self.zeros(kernel) if isinstance(kernel, Scatter) else []
        values = _solved(load, output.index, [*kernel.axes, *(loop.variable for loop in loops)])
        if values is None or fills is None:
            return None
        # Whatever the labels are, the kernel adds their entry up: that it reads no others has been verified.
        rows = [row for loop in loops for row in loop_rows(loop)]
        box = ranges(list(dict(labels)), list(dict(labels).values()))
        if not all(
            self.prover.proves(row.substitute(values), box) for row in (*axis_rows(kernel, self.prover.shapes), *rows)
        ):
            return None
        return Load(kernel.array, tuple([form.substitute(values) for form in index])), kernel, fills

    def zeros(self, scatter: Scatter) -> list[Step] | None:
        """Return ``[step]`` with the step that fills the array of `scatter` with zeros, if nothing else writes to the
        array and the scatter adds to each entry once; else None.
        """
        writers = self.flow.writers[scatter.array]
        first = writers[0]
        is_zero = type(first) is Kernel and first.body == (Set(first.entry, Number(0)),)
        is_next = all(self.flow.is_before(scatter, reader) for reader in self.flow.readers[scatter.array])
        return [first] if is_zero and len(writers) == 2 and scatter.exclusive and is_next else None


def _window_sum(kernel: Kernel) -> tuple[Load, list[Loop], tuple[Affine, ...]] | None:
    """Return ``(load, loops, index)`` for a kernel that does nothing but sum ``load`` over ``loops`` into its entry at
    ``index``; None for any other kernel.
    """
    if len(kernel.body) != 3:
        return None
    start, statement, end = kernel.body
    if not is_accumulator(start) or reduction_of(start) != "sum":
        return None
    if not isinstance(end, Set) or end.value != start.target:
        return None
    loops: list[Loop] = []
    while isinstance(statement, Loop) and len(statement.body) == 1:
        loops.append(statement)
        statement = statement.body[0]
    if not is_addition(statement) or statement.name != start.name or not isinstance(statement.value, Load):
        return None
    return statement.value, loops, end.index


def _solved(load: Load, labels: Sequence[Affine], variables: Sequence[str]) -> Forms | None:
    """Solve for the values of `variables` at which `load` reads the entry with the indices `labels`: ``i = a, k = b -
    a`` for the load ``x[i, i + k]`` and the labels a, b. Return them as a dictionary; None if the labels do not
    determine them.
    """
    matrix = [[form.coefficient(v) for v in variables] for form in load.index]
    found = solve(matrix, len(variables))
    is_rounded = any(not form.hidden().isdisjoint(variables) for form in load.index)
    if is_rounded or found.congruences or found.equations or found.kernel:
        return None
    at_zero = dict.fromkeys(variables, Affine())
    right = [label - form.substitute(at_zero) for label, form in zip(labels, load.index, strict=True)]
    values = dict(at_zero)
    for term in found.particular:
        total = sum((entry * form for entry, form in zip(term.row, right, strict=True)), Affine())
        values = {v: value + entry * total for (v, value), entry in zip(values.items(), term.column, strict=True)}
    return values


# ---------------------------------------------------------------------------- how blocks lie in arrays
# How the blocks of a `Correlation` lie in its arrays: which labels run inside of a block, and which count blocks.


ROWS = 8
"""Rows of a block, each of which is multiplied by a number of the other operand."""

LANES = 16
"""Numbers side by side, in single precision. Half and twice as much change no text of the benchmarks."""

UNKNOWN = 32
"""How long axes of unknown length are taken for. Half and twice as much change no text of the benchmarks."""

TASKS = 8
"""At least so many blocks of the result are computed side by side, where that can be.

Half and twice as many take 0.94 to 1.06 of the time of the eight convolutions.
"""

_WORTH = 0.2
"""The part of a block that has to be in use."""

_SERVES = 128
"""Products that an entry serves, beyond which a library is faster, which lays out blocks first."""


def spares_copies(step: Correlation, copied: Sequence[tuple[Affine, ...]]) -> bool:
    """Return whether to compute the correlation `step` directly from sliding windows, instead of copying the windows
    for a library product. This is faster if the copies, with the shapes `copied`, are large compared with the
    number of multiplications.

    Where it serves many, a library, which lays out both operands in blocks first, is faster than blocks in place.
    """
    entries = sum(prod(map(length, shape)) for shape in copied)
    return prod(length(extent) for _, extent in step.labels) <= _SERVES * entries


@dataclass(frozen=True)
class Tiling:
    """An assignment of the labels of a correlation to the loops that compute it in blocks of registers, ``output[rows,
    lanes] += left[rows, terms]*right[terms, lanes]``, with vector instructions along the lanes.

    ``lanes`` are an axis of the output and of ``right``. For each of the ``tasks``, which are axes of the output, an
    array with the other axes is filled separately. One of them may be an index with several labels, from which
    ``solved`` is computed.
    """

    left: Load
    right: Load
    rows: str
    lanes: str
    terms: str
    tasks: tuple[int, ...]
    solved: str | None


def tiling(step: Correlation, shapes: Shapes) -> Tiling | None:
    """Return a `Tiling` of the correlation ``step``: the assignment of its labels to rows, lanes (for vector
    instructions) and summed terms that uses blocks of registers best. None if blocks would be mostly empty, or if no
    label fits a role.
    """
    lengths = {label: length(extent) for label, extent in step.labels}
    own = {
        label: place
        for label, extent in step.labels
        if (place := _axis_of_whole_extent(step.output, label, extent, shapes)) is not None
    }
    best: tuple[tuple[float, int], Tiling] | None = None
    for left, right in ((step.left, step.right), (step.right, step.left)):
        inside = [_labels(view, lengths) for view in (step.output, left, right)]
        lanes = [v for v, n in step.labels if v in own and _axis_of_whole_extent(right, v, n, shapes) is not None]
        rows = [v for v in lengths if v in inside[0] and v in inside[1] and v not in inside[2]]
        terms = [v for v in lengths if v not in inside[0]]
        lane = _longest([v for v in lanes if v not in inside[1]], lengths)
        row, term = _longest(rows, lengths), _longest(terms, lengths)
        if lane is None or row is None or term is None:
            continue
        use = (
            _block_utilisation(lengths[lane], LANES)
            * _block_utilisation(lengths[row], ROWS)
            * min(lengths[term], UNKNOWN)
            / UNKNOWN
        )
        rank = use, -prod(lengths[v] for v in inside[2])  # the second operand is copied
        if use >= _WORTH and (best is None or rank > best[0]):
            best = rank, Tiling(left, right, row, lane, term, *_tasks(step, row, lane, lengths, own))
    return None if best is None else best[1]


def own_axis(view: Load, label: str) -> int | None:
    """Return the axis of `view` whose index is `label` alone. None if there is no such axis, or `label` occurs in
    another index too.
    """
    places = [place for place, form in enumerate(view.index) if label in form.atoms()]
    return places[0] if len(places) == 1 and view.index[places[0]] == Affine.variable(label) else None


def length(extent: Affine) -> int:
    """Return the number of entries to assume for an axis with this `extent`: the extent itself if it is constant, else
    a typical one.
    """
    return extent.constant if extent.is_constant else UNKNOWN


def _axis_of_whole_extent(view: Load, label: str, extent: Affine, shapes: Shapes) -> int | None:
    """Return the axis of the array `view` that is indexed by `label` alone, if ``extent``, the number of values of the
    label, is the length of the axis; else None.
    """
    place = own_axis(view, label)
    return place if place is not None and shapes[view.array][place] == extent else None


def _tasks(
    step: Correlation, row: str, lane: str, lengths: Mapping[str, int], axis_of_label: Mapping[str, int]
) -> tuple[tuple[int, ...], str | None]:
    """Choose the axes of the result along which the correlation ``step`` is cut into tasks. Return ``(axes, label)``:
    if the last of the axes has a composite index such as ``i + k``, each task solves it for ``label``; otherwise
    ``label`` is None. ``row`` and ``lane`` are the labels of the rows and lanes of a block.

    ``lengths`` has the length of each label. ``axis_of_label`` has the labels that alone are the index of an axis of
    the result.
    """
    found, number = [], 1
    counts = {
        axis_of_label[v]: -(-n // ROWS) if v == row else n
        for v, n in lengths.items()
        if v in axis_of_label and v != lane
    }
    for place in sorted(counts, key=lambda place: -counts[place]):
        if number < TASKS:
            found.append(place)
            number *= max(counts[place], 1)
    for place, form in enumerate(step.output.index):
        if number < TASKS and place not in counts and place != axis_of_label[lane]:
            inside = [v for v in form.variables() if v in lengths and v != row]
            solved = _longest(inside, lengths)
            if solved is not None and row not in form.atoms() and _occurs_once(step.output, solved):
                return (*found, place), solved
    return tuple(found), None


def _occurs_once(view: Load, label: str) -> bool:
    """Return whether `label` occurs in exactly one index of `view`."""
    return sum(label in form.atoms() for form in view.index) == 1


def _longest(labels: Sequence[str], lengths: Mapping[str, int]) -> str | None:
    """Return the label with the greatest length in `lengths`, the last one of `labels` on a tie; None if `labels` is
    empty.
    """
    return max(reversed(labels), key=lambda v: lengths[v]) if labels else None


def _labels(view: Load, lengths: Mapping[str, int]) -> set[str]:
    """Return the labels of a correlation that occur in the indices of the read ``view``. ``lengths`` has all labels of
    the correlation as keys.
    """
    return {name for form in view.index for name in form.atoms() if name in lengths}


def _block_utilisation(size: int, block: int) -> float:
    """Return the average utilisation of blocks of length `block` along an axis of length `size`: 0.75 for 12 and 16, 1
    for whole blocks.
    """
    return size / (max(-(-size // block), 1) * block)
