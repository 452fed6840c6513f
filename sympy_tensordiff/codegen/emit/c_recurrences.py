"""Recurrences in C: a loop over time that calls the function of one step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from sympy_tensordiff.codegen.emit.c_nests import CForms
from sympy_tensordiff.codegen.emit.forms import INDENT, UNARY, FormNames
from sympy_tensordiff.codegen.ir.programs import Recurrence
from sympy_tensordiff.codegen.schedule.device_loops import without_axis
from sympy_tensordiff.integer.affine import Affine


class CRecurrencePrinter:
    """Prints the C function of a recurrence: a loop over time with exchanged buffers for the states.

    ``function`` is the C function of one step, which has memory of its own after its results: as many numbers as the
    text ``scratch`` says.
    """

    has_code: ClassVar[bool] = True
    """Whether the function of a step returns a code."""
    axes: Mapping[str, int] = {}
    """The axes of the batch of a recurrence that blocks of a device run, see `BlockRecurrence`."""

    def __init__(self, step: Recurrence, names: FormNames, forms: CForms, function: str, scratch: str) -> None:
        self.step, self.names, self.forms, self.function = step, names, forms, function
        self.code, self.time, self.work = names.fresh("code"), names.fresh("time"), names.fresh("work")
        self.integers = dict(step.integers)
        self.given = {a.name: a.shape for a in step.body.arguments}
        self.results = {a.name: a.shape for a in step.body.outputs}
        self.stacked = {record.result: record.array for record in step.recorded if record.kind == "stack"}
        self.states = {state.argument: names.fresh(state.argument) for state in step.carried}
        self.pointers = {name: names.fresh(f"new_{name}") for name in self.results}
        self.spare = {state.result: names.fresh(f"next_{state.result}") for state in step.carried}
        self.spare = {name: own for name, own in self.spare.items() if name not in self.stacked}
        self.index = names.fresh("i")
        self.passed: tuple[str, ...] = ()
        """The arguments of the function of one step after its memory."""
        sizes = [self.entries(shape) for name, shape in self.results.items() if name not in self.stacked]
        sizes += [self.entries(self.results[name]) for name in self.spare]
        self.size = " + ".join([*sizes, scratch])

    def entries(self, shape: Sequence[Affine]) -> str:
        """Return the C text of the number of entries of an array of a time step."""
        return "*".join(self.forms.form(extent.substitute(self.integers), UNARY) for extent in shape) or "1"

    def row(self, array: str, shape: Sequence[Affine]) -> str:
        """Return the C pointer to the row for the current time of an array that stores the values at all times."""
        return f"{self.names(array)} + {self.time}*{self.entries(shape)}"

    def lines(self) -> Iterator[str]:
        """Yield the lines of the C function that runs a recurrence."""
        step = self.step
        if self.has_code:
            yield f"{INDENT}int {self.code} = 0;"
        for state in step.carried:
            yield f"{INDENT}const real *{self.states[state.argument]} = {self.names(state.initial)};"
        place = self.work
        for name, shape in self.results.items():
            first = "0" if name in self.stacked else place
            yield f"{INDENT}real *{self.pointers[name]} = {first};"
            if name not in self.stacked:
                place = f"{place} + {self.entries(shape)}"
        for name, own in self.spare.items():
            yield f"{INDENT}real *{own} = {place};"
            place = f"{place} + {self.entries(self.results[name])}"
        for record in step.recorded:
            if record.kind == "sum":
                yield from self.zeroed(self.names(record.array), record.result)
        length = self.forms.form(step.length)
        first, test, change = ("0", f"< {length}", "++") if not step.is_reversed else (f"{length} - 1", ">= 0", "--")
        yield f"{INDENT}for (ptrdiff_t {self.time} = {first}; {self.time} {test}; {self.time}{change}) {{"
        for line in self.step_lines(place):
            yield INDENT + line
        yield f"{INDENT}}}"
        for record in step.recorded:
            if record.kind == "last":
                yield from self.copied(self.names(record.array), self.last_value(record.result), record.result)
        if self.has_code:
            yield f"{INDENT}return {self.code};"

    def last_value(self, result: str) -> str:
        """Return the C pointer to the value of `result`, an array of a time step, after the last step. If its two
        buffers are exchanged after each step, the value is in the second one.
        """
        return self.spare.get(result, self.pointers[result])

    def zeroed(self, target: str, result: str) -> list[str]:
        """Return the C lines that set the array at the pointer `target` to 0; it has the shape of the array named
        `result`.
        """
        return self.loop_over_entries(result, f"{target}[{self.index}] = 0;")

    def copied(self, target: str, source: str, result: str) -> list[str]:
        """Return the C lines that copy an array of a time step from the pointer `source` to the pointer `target`. It
        has the shape of the array `result`.
        """
        return self.loop_over_entries(result, f"{target}[{self.index}] = {source}[{self.index}];")

    def added(self, target: str, source: str, result: str) -> list[str]:
        """Return the C lines that add the array at the pointer `source`, entry by entry, to the one at `target`. Both
        have the shape of `result`, the name of an array that a time step fills.
        """
        return self.loop_over_entries(result, f"{target}[{self.index}] += {source}[{self.index}];")

    def loop_over_entries(self, result: str, text: str) -> list[str]:
        """Return a C loop that runs the statement `text` once for each entry of `result`, the name of an array that a
        time step fills.
        """
        i = self.index
        return [f"{INDENT}for (ptrdiff_t {i} = 0; {i} < {self.entries(self.results[result])}; {i}++) {{ {text} }}"]

    def step_lines(self, scratch: str) -> Iterator[str]:
        """Yield the lines of one time step: the call of the step's function, the additions to sums, and the exchange of
        buffers. ``scratch`` is the C pointer to the step's memory.
        """
        step, names = self.step, self.names
        for result, array in self.stacked.items():
            yield f"{INDENT}{self.pointers[result]} = {self.row(array, self.results[result])};"
        values = {name: self.forms.form(form) for name, form in step.integers} | {step.time: self.time}
        for name, own in self.states.items():
            values[name] = own if self.given[name] else f"{own}[0]"
        for name, array in step.rows:
            values[name] = self.row(array, self.given[name]) if self.given[name] else f"{names(array)}[{self.time}]"
        for name, array in step.constants:
            values[name] = names(array) if self.given[name] else f"{names(array)}[0]"
        passed = [*(values[a.name] for a in step.body.arguments), *self.pointers.values(), scratch, *self.passed]
        yield f"{INDENT}{f'{self.code} |= ' * self.has_code}{self.function}({', '.join(passed)});"
        for record in step.recorded:
            own = self.pointers[record.result]
            if record.kind == "sum":
                yield from self.added(names(record.array), own, record.result)
            elif record.kind == "stack" and self.stacked[record.result] != record.array:
                yield from self.copied(f"({self.row(record.array, self.results[record.result])})", own, record.result)
        for state in step.carried:
            yield f"{INDENT}{self.states[state.argument]} = {self.pointers[state.result]};"
        for name, own in self.spare.items():
            yield f"{INDENT}{self.pointers[name]} = {own};"
            state = next(s for s in step.carried if s.result == name)
            yield f"{INDENT}{own} = (real *){self.states[state.argument]};"


class CudaRecurrencePrinter(CRecurrencePrinter):
    """Prints the function of the host that runs a recurrence on a device: its steps launch kernels on the stream."""

    has_code = False

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.passed = ("stream",)

    def zeroed(self, target: str, result: str) -> list[str]:
        """Return the C line that sets the array at the device pointer `target` to 0. It has the shape of `result`, the
        name of an array that a time step fills.
        """
        size = f"sizeof(real)*(size_t)({self.entries(self.results[result])})"
        return [f"{INDENT}cudaMemsetAsync({target}, 0, {size}, stream);"]

    def copied(self, target: str, source: str, result: str) -> list[str]:
        """Return the C line that copies the array at the device pointer `source` to the one at `target`. Both have the
        shape of `result`, the name of an array that a time step fills.
        """
        size = f"sizeof(real)*(size_t)({self.entries(self.results[result])})"
        return [f"{INDENT}cudaMemcpyAsync({target}, {source}, {size}, cudaMemcpyDeviceToDevice, stream);"]

    def added(self, target: str, source: str, result: str) -> list[str]:
        """Return the C line that adds the array at the device pointer `source`, entry by entry, to the one at `target`.
        Both have the shape of `result`, the name of an array that a time step fills.
        """
        return [f"{INDENT}add_entries({target}, {source}, {self.entries(self.results[result])}, stream);"]


class CudaBlockRecurrencePrinter(CRecurrencePrinter):
    """Prints the kernel in which blocks of threads run a recurrence, see `BlockRecurrence`."""

    has_code = False

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.entry = self.names.fresh("entry")

    def loop_over_entries(self, result: str, text: str) -> list[str]:
        """Return CUDA lines in which the threads of a block together run the statement `text` once for each entry of
        `result`, an array of a time step, and then wait at a barrier.

        If the array has a batch axis, each block runs it for the entries of one batch index.
        """
        shape, axis, i = self.results[result], self.axes.get(result), self.index
        own = without_axis(shape, axis)
        lines = [f"for (ptrdiff_t {i} = threadIdx.x; {i} < {self.entries(own)}; {i} += blockDim.x) {{ {text} }}"]
        if axis is not None:
            entry, row, batch = self.entry, self.entries(shape[axis + 1 :]), self.entries(shape[axis:][:1])
            place = f"({entry}/({row})*{batch} + {BATCH})*({row}) + {entry} % ({row})"
            head = f"for (ptrdiff_t {entry} = threadIdx.x; {entry} < {self.entries(own)}; {entry} += blockDim.x) {{"
            lines = [f"if ({BATCH} < {batch}) {{", INDENT + head, f"{INDENT * 2}const ptrdiff_t {i} = {place};"]
            lines += [f"{INDENT * 2}{text}", f"{INDENT}}}", "}"]
        return [INDENT + line for line in (*lines, "__syncthreads();")]


BATCH = "((ptrdiff_t)blockIdx.x*blockDim.y + threadIdx.y)"
"""The entry of the batch that a thread of a loop over time works on."""
