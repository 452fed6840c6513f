"""Recurrences in modules for ``numba.cuda``: the host runs the loop over time, each step launches its kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sympy_tensordiff.codegen.emit.driver import passed_names
from sympy_tensordiff.codegen.emit.forms import PRODUCT, SUM, UNARY, FormNames, FormPrinter, TextBlock
from sympy_tensordiff.codegen.emit.recurrences import step_function
from sympy_tensordiff.codegen.ir.programs import Recurrence
from sympy_tensordiff.codegen.ir.walk import filled_arrays, function_name
from sympy_tensordiff.integer.affine import Affine

HELPERS = '''
class Memory(dict):
    """The arrays of a loop over time, which are allocated once for all steps."""

    def __init__(self, empty, stream):
        self.empty, self.stream = empty, stream

    def __call__(self, name, entries, dtype):
        if name not in self:
            self[name] = self.empty(entries, dtype, stream=self.stream)
        return self[name]

    def inside(self, name):
        """The arrays of a loop in the steps."""
        return self.setdefault(("inside", name), Memory(self.empty, self.stream))


@cuda.jit
def fill_zeros(to):
    place = cuda.grid(1)
    if place < to.size:
        to[place] = 0


@cuda.jit
def copy_entries(to, source):
    place = cuda.grid(1)
    if place < to.size:
        to[place] = source[place]


@cuda.jit
def add_entries(to, source):
    place = cuda.grid(1)
    if place < to.size:
        to[place] += source[place]
'''
"""The memory of loops over time, and the kernels between the steps."""

OWN_NAMES = frozenset({"Memory", "memory", "fill_zeros", "copy_entries", "add_entries"})


def loop_text(step: Recurrence, names: FormNames) -> str:
    """Return the function that runs a recurrence on flat arrays on the device."""
    return _DeviceLoop(step, names.copy()).text()


class _DeviceLoop:
    """Prints the function of one recurrence. It maps the names of the body to variables of the function: ``states`` for
    arguments, ``results`` for results, and ``spare`` for the second buffer of results that become states.
    """

    def __init__(self, step: Recurrence, names: FormNames) -> None:
        self.step, self.names, self.form = step, names, FormPrinter(names).form
        self.integers = dict(step.integers)
        self.shapes = {a.name: a.shape for a in step.body.arguments}
        self.shapes |= {output.name: output.shape for output in step.body.outputs}
        self.stacked = {kept.result: kept.array for kept in step.recorded if kept.kind == "stack"}
        self.time = names.fresh("time")
        self.states = {state.argument: names.fresh(state.argument) for state in step.carried}
        self.results = {output.name: names.fresh(f"new_{output.name}") for output in step.body.outputs}
        carried = dict.fromkeys(state.result for state in step.carried if state.result not in self.stacked)
        self.spare = {name: names.fresh(f"next_{name}") for name in carried}

    def text(self) -> str:
        """Return the text of the function that runs the recurrence."""
        step, names, block = self.step, self.names, TextBlock()
        head = f"{function_name(step)}({', '.join(passed_names(step, names))}, stream, memory)"
        inner = block.child(f"def {head}:")
        inner.line(f'"""Fill {" and ".join(map(names, filled_arrays(step)))} step by step."""')
        for state in step.carried:
            inner.line(f"{self.states[state.argument]} = {names(state.initial)}")
        for name, own in (*self.results.items(), *self.spare.items()):
            if name not in self.stacked:
                inner.line(f'{own} = memory("{own}", {self.entries(name)}, {names(step.array)}.dtype)')
        for kept in step.recorded:
            if kept.kind == "sum":
                inner.line(self.launch("fill_zeros", kept.result, names(kept.array)))
        length = self.form(step.length)
        loop = inner.child(f"for {self.time} in range({f'{length} - 1, -1, -1' if step.is_reversed else length}):")
        for line in self.step_lines():
            loop.line(line)
        for kept in step.recorded:
            if kept.kind == "last":
                last = self.spare.get(kept.result, self.results[kept.result])
                inner.line(self.launch("copy_entries", kept.result, names(kept.array), last))
        return "\n".join(block.render())

    def entries(self, name: str, level: int = 0) -> str:
        """Return the number of entries of the array ``name`` of the recurrence's body as text."""
        shape: Sequence[Affine] = [extent.substitute(self.integers) for extent in self.shapes[name]]
        return "*".join(self.form(extent, UNARY if shape[1:] else level) for extent in shape) or "1"

    def row(self, array: str, name: str) -> str:
        """Return the text of the slice for the current time of ``array``, which stores the values at all times. The
        recurrence's body reads or fills it as its array ``name``.
        """
        count = self.entries(name, PRODUCT)
        if count == "1":
            return f"{self.names(array)}[{self.time}:{self.time} + 1]"
        return f"{self.names(array)}[{self.time}*{count}:({self.time} + 1)*{count}]"

    def launch(self, kernel: str, name: str, *arrays: str) -> str:
        """Return the line that launches a kernel with one thread per entry of the array ``name`` of the body."""
        return f"{kernel}[(*launch(({self.entries(name, SUM)},)), stream)]({', '.join(arrays)})"

    def step_lines(self) -> Iterator[str]:
        """Yield the lines of one step: the call, the additions to stacks and sums, and the exchange of buffers."""
        step, names = self.step, self.names
        for result, array in self.stacked.items():
            yield f"{self.results[result]} = {self.row(array, result)}"
        values = {name: self.form(form) for name, form in step.integers} | {step.time: self.time} | self.states
        values |= {name: self.row(array, name) for name, array in step.rows}
        values |= {name: names(array) for name, array in step.constants}
        passed = [*(values[a.name] for a in step.body.arguments), *self.results.values()]
        yield f'{step_function(step)}({", ".join(passed)}, stream, memory.inside("steps"))'
        for kept in step.recorded:
            own = self.results[kept.result]
            if kept.kind == "sum":
                yield self.launch("add_entries", kept.result, names(kept.array), own)
            elif kept.kind == "stack" and self.stacked[kept.result] != kept.array:
                yield self.launch("copy_entries", kept.result, self.row(kept.array, kept.result), own)
        for state in step.carried:
            yield f"{self.states[state.argument]} = {self.results[state.result]}"
        for name, own in self.spare.items():
            new = self.results[name]
            yield f"{new}, {own} = {own}, {new}"
