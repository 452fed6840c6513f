"""Recurrences in C: a loop over time that calls the function of one step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sympy_tensordiff.codegen.emit.c_nests import CForms
from sympy_tensordiff.codegen.emit.forms import INDENT, UNARY, FormNames
from sympy_tensordiff.codegen.ir.programs import Recurrence
from sympy_tensordiff.integer.affine import Affine


class CRecurrencePrinter:
    """Prints the C function of a recurrence: a loop over time with exchanged buffers for the states.

    ``function`` is the C function of one step, which has memory of its own after its results: as many numbers as the
    text ``scratch`` says.
    """

    def __init__(self, step: Recurrence, names: FormNames, forms: CForms, function: str, scratch: str) -> None:
        self.step, self.names, self.forms, self.function = step, names, forms, function
        self.code, self.time, self.work = names.fresh("code"), names.fresh("time"), names.fresh("work")
        self.integers = dict(step.integers)
        self.given = {a.name: a.shape for a in step.body.arguments}
        self.results = {a.name: a.shape for a in step.body.outputs}
        self.stacked = {kept.result: kept.array for kept in step.recorded if kept.kind == "stack"}
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
        """Return the number of entries of an array of the recurrence's body as C text."""
        return "*".join(self.forms.form(extent.substitute(self.integers), UNARY) for extent in shape) or "1"

    def row(self, array: str, shape: Sequence[Affine]) -> str:
        """Return the C pointer to the row for the current time of an array that stores the values at all times."""
        return f"{self.names(array)} + {self.time}*{self.entries(shape)}"

    def lines(self) -> Iterator[str]:
        """Yield the lines of the C function that runs a recurrence."""
        step = self.step
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
        for kept in step.recorded:
            if kept.kind == "sum":
                yield self.zeroed(self.names(kept.array), self.results[kept.result])
        length = self.forms.form(step.length)
        first, test, change = ("0", f"< {length}", "++") if not step.is_reversed else (f"{length} - 1", ">= 0", "--")
        yield f"{INDENT}for (ptrdiff_t {self.time} = {first}; {self.time} {test}; {self.time}{change}) {{"
        for line in self.step_lines(place):
            yield INDENT + line
        yield f"{INDENT}}}"
        for kept in step.recorded:
            if kept.kind == "last":
                yield self.copied(self.names(kept.array), self.last_value(kept.result), self.results[kept.result])
        yield f"{INDENT}return {self.code};"

    def last_value(self, result: str) -> str:
        """Return the C pointer to the last value of a result, after the loop over time has exchanged the buffers."""
        return self.spare.get(result, self.pointers[result])

    def zeroed(self, target: str, shape: Sequence[Affine]) -> str:
        """Return the line that sets the entries at a pointer to 0."""
        return self.loop_over_entries(shape, f"{target}[{self.index}] = 0;")

    def copied(self, target: str, source: str, shape: Sequence[Affine]) -> str:
        """Return the line that copies entries from one pointer to another."""
        return self.loop_over_entries(shape, f"{target}[{self.index}] = {source}[{self.index}];")

    def added(self, target: str, source: str, shape: Sequence[Affine]) -> str:
        """Return the line that adds the entries at one pointer to those at another."""
        return self.loop_over_entries(shape, f"{target}[{self.index}] += {source}[{self.index}];")

    def loop_over_entries(self, shape: Sequence[Affine], text: str) -> str:
        """Return a C loop that runs the statement `text` for each entry of an array with this shape."""
        i = self.index
        return f"{INDENT}for (ptrdiff_t {i} = 0; {i} < {self.entries(shape)}; {i}++) {{ {text} }}"

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
        yield f"{INDENT}{self.code} |= {self.function}({', '.join(passed)});"
        for kept in step.recorded:
            own, shape = self.pointers[kept.result], self.results[kept.result]
            if kept.kind == "sum":
                yield self.added(names(kept.array), own, shape)
            elif kept.kind == "stack" and self.stacked[kept.result] != kept.array:
                yield self.copied(f"({self.row(kept.array, shape)})", own, shape)
        for state in step.carried:
            yield f"{INDENT}{self.states[state.argument]} = {self.pointers[state.result]};"
        for name, own in self.spare.items():
            yield f"{INDENT}{self.pointers[name]} = {own};"
            state = next(s for s in step.carried if s.result == name)
            yield f"{INDENT}{own} = (real *){self.states[state.argument]};"


class CudaRecurrencePrinter(CRecurrencePrinter):
    """Prints the function of the host that runs a recurrence on a device: its steps launch kernels on the stream."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.passed = ("stream",)

    def zeroed(self, target: str, shape: Sequence[Affine]) -> str:
        """Return the line that sets the entries at a pointer to 0, on the device."""
        return f"{INDENT}cudaMemsetAsync({target}, 0, sizeof(real)*(size_t)({self.entries(shape)}), stream);"

    def copied(self, target: str, source: str, shape: Sequence[Affine]) -> str:
        """Return the line that copies entries from one pointer to another, on the device."""
        size = f"sizeof(real)*(size_t)({self.entries(shape)})"
        return f"{INDENT}cudaMemcpyAsync({target}, {source}, {size}, cudaMemcpyDeviceToDevice, stream);"

    def added(self, target: str, source: str, shape: Sequence[Affine]) -> str:
        """Return the line that adds the entries at one pointer to those at another, on the device."""
        return f"{INDENT}add_entries({target}, {source}, {self.entries(shape)}, stream);"
