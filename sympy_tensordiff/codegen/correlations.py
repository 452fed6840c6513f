"""Products of matrices with windows of an array, without a copy of the windows.

``Sum_ij dY[f, i, j]*X[q, 2*i + a, 2*j + b]`` is planned as a product of matrices, one of which holds the windows of X:
each entry once for every window that it is in. Sums over windows of a product of matrices, the derivative by X, are
planned as such a product that a loop adds up. Here both become one step, which knows all three arrays by their index
forms: a `Correlation`. It is taken where loops over blocks of it, which stay in registers, run as fast as a library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sympy_tensordiff.codegen.facts import Prover, axis_rows, loop_rows
from sympy_tensordiff.codegen.identifiers import unique
from sympy_tensordiff.codegen.loops import (
    Accumulator,
    Add,
    AddAt,
    Contraction,
    Correlation,
    Kernel,
    Loop,
    Program,
    Scatter,
    Step,
    Store,
)
from sympy_tensordiff.codegen.scalars import Load, Name, Number
from sympy_tensordiff.codegen.steps import extents, not_compiled
from sympy_tensordiff.codegen.tiling import spares_copies, tiling
from sympy_tensordiff.codegen.walk import all_names, filled_arrays, uses
from sympy_tensordiff.errors import VerificationError
from sympy_tensordiff.integer.affine import Affine, Row

Forms = dict[str, Affine]


def with_correlations(program: Program) -> Program:
    """The program in which products read and add up windows in place, where all of it is compiled."""
    if not_compiled(program) or not any(isinstance(step, Contraction) for step in program.kernels):
        return program
    finder = _Finder(program)
    steps: list[Step] = list(program.kernels)
    gone_arrays: set[str] = set()
    new: list[str] = []
    for step in program.kernels:
        found = finder.correlation(step) if isinstance(step, Contraction) else None
        if found is not None:
            correlation, gone, last = found
            place = next(n for n, other in enumerate(steps) if other is last)
            steps[place] = correlation
            steps = [other for other in steps if not any(other is part for part in gone)]
            gone_arrays.update(part.array for part in gone)
            copies = ", ".join(part.array for part in gone if part.array != correlation.array)
            new.append(f"{correlation.array}: windows where they lie, in place of {copies}")
    left = {name for step in steps for name in filled_arrays(step)}
    arrays = tuple([array for array in program.temporaries if array.name in left])
    notes = [note for note in program.notes if note.partition(":")[0] not in gone_arrays]
    return replace(program, kernels=tuple(steps), temporaries=arrays, notes=(*notes, *new))


class _Finder:
    def __init__(self, program: Program) -> None:
        self.prover = Prover(program)
        self.temporaries = {array.name for array in program.temporaries}
        self.places = {id(step): place for place, step in enumerate(program.kernels)}
        self.writers: dict[str, list[Step]] = {}
        self.readers: dict[str, list[Step]] = {}
        for step in program.kernels:
            for name in filled_arrays(step):
                self.writers.setdefault(name, []).append(step)
            for name in uses(step).arrays:
                self.readers.setdefault(name, []).append(step)
        self.taken = all_names(program)

    def correlation(self, step: Contraction) -> tuple[Correlation, list[Step], Step] | None:
        """What takes the place of a product of matrices, the steps that go, and the last one of all."""
        lengths = extents(step, self.prover.shapes)
        names: dict[int, str] = {}
        for label in lengths:
            names[label] = unique(f"i{label}", self.taken, names.values())
        labels = tuple([(names[label], extent) for label, extent in lengths.items()])
        gone: list[Step] = []
        views = []
        for operand in step.operands:
            forms = [Affine.variable(names[label]) for label in operand.labels]
            copy = self.copied(operand.array, step)
            view = Load(operand.array, tuple(forms))
            if copy is not None:
                kernel, load = copy
                index = dict(zip(kernel.axes, forms, strict=True))
                view = Load(load.array, tuple([form.substitute(index) for form in load.index]))
                gone.append(kernel)
            views.append(view)
        output = Load(step.array, tuple([Affine.variable(names[label]) for label in step.output]))
        last: Step = step
        windows = self.windows(step, output, labels)
        if windows is not None:
            output, last, others = windows
            gone += [step, *others]
        if not any(form.constant or len(form.terms) > 1 for view in (output, *views) for form in view.index):
            return None
        found = Correlation(output, views[0], views[1], labels, step.factor)
        if (
            any(form.hidden() for view in (output, *views) for form in view.index)
            or tiling(found, self.prover.shapes) is None
        ):
            return None
        kept = [self.prover.shapes[part.array] for part in gone if part.array in self.temporaries]
        if not spares_copies(found, kept):
            return None
        check_correlation(found, self.prover)
        return found, gone, last

    def copied(self, array: str, by: Step) -> tuple[Kernel, Load] | None:
        """The step that copies entries into a temporary, which one other step reads, from an array that is complete."""
        filling = self.only(array, by)
        if filling is None or len(filling.body) > 1 or not isinstance(filling.body[0], Store):
            return None
        value = filling.body[0].value
        if not isinstance(value, Load):
            return None
        writers = self.writers.get(value.array, [])
        return (filling, value) if all(self.places[id(w)] < self.places[id(filling)] for w in writers) else None

    def only(self, array: str, by: Step) -> Kernel | None:
        """The kernel that fills a temporary which nothing but one step reads."""
        writers, readers = self.writers.get(array, []), self.readers.get(array, [])
        if array not in self.temporaries or len(writers) != 1 or len(readers) != 1 or readers[0] is not by:
            return None
        return writers[0] if type(writers[0]) is Kernel else None

    def windows(
        self, step: Contraction, output: Load, labels: Sequence[tuple[str, Affine]]
    ) -> tuple[Load, Kernel, list[Step]] | None:
        """Where a kernel that sums windows of a product has its sums, that kernel, and others that go with it."""
        readers = self.readers.get(step.array, [])
        if step.array not in self.temporaries or len(readers) != 1 or len(self.writers[step.array]) != 1:
            return None
        kernel = readers[0]
        found = _window_sum(kernel) if isinstance(kernel, Kernel) else None
        if found is None or not self.is_earlier(step):
            return None
        assert isinstance(kernel, Kernel)
        load, loops, index = found
        fills = self.zeros(kernel) if isinstance(kernel, Scatter) else []
        values = _solved(load, output.index, [*kernel.axes, *(loop.variable for loop in loops)])
        if values is None or fills is None:
            return None
        # Whatever the labels are, the kernel adds their entry up: that it reads no others has been verified.
        rows = [row for loop in loops for row in loop_rows(loop)]
        box = _box(labels)
        if not all(
            self.prover.proves(row.substitute(values), box) for row in (*axis_rows(kernel, self.prover.shapes), *rows)
        ):
            return None
        return Load(kernel.array, tuple([form.substitute(values) for form in index])), kernel, fills

    def zeros(self, scatter: Scatter) -> list[Step] | None:
        """What fills an array with the zeros to which a scatter adds, where nothing else does; else None."""
        writers = self.writers[scatter.array]
        first = writers[0]
        is_zero = type(first) is Kernel and first.body == (Store(Number(0)),)
        readers = self.readers.get(scatter.array, [])
        is_next = all(self.places[id(reader)] > self.places[id(scatter)] for reader in readers)
        return [first] if is_zero and len(writers) == 2 and scatter.exclusive and is_next else None

    def is_earlier(self, step: Contraction) -> bool:
        """Whether all that a product reads is complete where it runs."""
        writers = [w for name in uses(step).arrays for w in self.writers.get(name, [])]
        return all(self.places[id(w)] < self.places[id(step)] for w in writers)


def _window_sum(kernel: Kernel) -> tuple[Load, list[Loop], tuple[Affine, ...]] | None:
    """The one read of a kernel that does nothing but to sum it, the loops of the sum, and the index of the sum."""
    if len(kernel.body) != 3:
        return None
    start, statement, end = kernel.body
    if not isinstance(start, Accumulator) or start.reduction != "sum":
        return None
    if not isinstance(end, Store | AddAt) or end.value != Name(start.name):
        return None
    loops: list[Loop] = []
    while isinstance(statement, Loop) and len(statement.body) == 1:
        loops.append(statement)
        statement = statement.body[0]
    if not isinstance(statement, Add) or statement.name != start.name or not isinstance(statement.value, Load):
        return None
    index = end.index if isinstance(end, AddAt) else tuple(map(Affine.variable, kernel.axes))
    return statement.value, loops, index


def _solved(load: Load, labels: Sequence[Affine], variables: Sequence[str]) -> Forms | None:
    """The variables of a read as forms of the labels that stand for its indices, if these determine each other."""
    values: Forms = {}
    waiting = list(zip(load.index, labels, strict=True))
    while waiting:
        left = []
        for form, label in waiting:
            known = form.substitute(values)
            unknown = [v for v in variables if v not in values and v in known.atoms()]
            if len(unknown) > 1:
                left.append((form, label))
                continue
            if not unknown or abs(known.coefficient(unknown[0])) != 1 or unknown[0] in known.hidden():
                return None
            sign = known.coefficient(unknown[0])
            values[unknown[0]] = sign * (label - (known - sign * Affine.variable(unknown[0])))
        if len(left) == len(waiting):
            return None
        waiting = left
    return values if len(values) == len(variables) else None


def _box(labels: Sequence[tuple[str, Affine]]) -> list[Row]:
    """The rows that labels fulfil."""
    variables = [(Affine.variable(label), extent) for label, extent in labels]
    return [row for v, extent in variables for row in (Row("ge", v), Row("ge", extent - v - 1))]


def check_correlation(step: Correlation, prover: Prover) -> None:
    """Raise `VerificationError` where a step would read or write outside of an array."""
    box = _box(step.labels)
    for view in (step.output, step.left, step.right):
        for axis, row in prover.axes_inside(view, prover.shapes[view.array], box):
            raise VerificationError(
                f"correlation {step.array}: axis {axis} of {view.array} at {view.index[axis]} needs {row}"
            )
