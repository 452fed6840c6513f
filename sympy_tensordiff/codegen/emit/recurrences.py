"""Recurrences in texts of Python: a loop over time around a function for one step."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from sympy_tensordiff.codegen.emit.driver import WORD, head_text, passed_names
from sympy_tensordiff.codegen.emit.forms import FormNames, FormPrinter, TextBlock, tuple_text
from sympy_tensordiff.codegen.ir.programs import Recurrence
from sympy_tensordiff.codegen.ir.walk import filled_arrays


def step_function(step: Recurrence) -> str:
    """Return the name of the function that runs one time step of a recurrence. Recurrences nested in its steps have
    other names.
    """
    return f"step{_depth(step) or ''}_{step.array}"


def _depth(step: Recurrence) -> int:
    """Return how deeply recurrences are nested in the body of ``step``; 0 if there are none."""
    return max((1 + _depth(inner) for inner in step.body.kernels if isinstance(inner, Recurrence)), default=0)


def with_own_functions(step: Recurrence, pieces: Sequence[str], entries: Sequence[str]) -> list[str]:
    """Prefix the names of the functions that the texts ``pieces`` define by the array name of the recurrence ``step``,
    so that they are unique in the module. Return the texts ``pieces`` and ``entries`` with the new names.
    """
    own = {name for piece in pieces for name in _FUNCTION.findall(piece)}
    texts = [*pieces, *entries]
    return [WORD.sub(lambda m: f"{step.array}_{m[0]}" if m[0] in own else m[0], text) for text in texts]


_FUNCTION = re.compile(r"^(?:def|static \w+) (\w+)\(", re.MULTILINE)
"""The head of a function in Python or C."""


def recurrence_text(step: Recurrence, names: FormNames) -> str:
    """Return the text of the NumPy function that runs the recurrence ``step``: a loop over time that calls the function
    of one time step, with buffers for the next states.
    """
    return _Loop(step, names.copy()).text()


class _Loop:
    """The printer of the NumPy function of one recurrence. ``values`` and ``results`` map arguments and results of a
    time step to their texts.
    """

    def __init__(self, step: Recurrence, names: FormNames) -> None:
        self.step, self.names = step, names
        self.form = FormPrinter(names).form
        self.shapes = {a.name: a.shape for a in step.body.arguments}
        self.ranks = {output.name: len(output.shape) for output in step.body.outputs}
        self.stacked = {record.result: record.array for record in step.recorded if record.kind == "stack"}
        self.time = names.fresh("time")
        self.values = {name: self.form(value) for name, value in step.integers} | {step.time: self.time}
        self.values |= {state.argument: names.fresh(state.argument) for state in step.carried}
        self.results = {output.name: names.fresh(f"new_{output.name}") for output in step.body.outputs}

    def text(self) -> str:
        """Return the text of the function that runs the recurrence."""
        step, names = self.step, self.names
        block = TextBlock()
        inner = block.child(head_text(step, passed_names(step, names)))
        inner.line(f'"""Fill {" and ".join(map(names, filled_arrays(step)))} step by step."""')
        for line in self.first_lines():
            inner.line(line)
        length = self.form(step.length)
        loop = inner.child(f"for {self.time} in range({f'{length} - 1, -1, -1' if step.is_reversed else length}):")
        for line in (*self.step_lines(), *_next_states(step, self.values, self.results, self.stacked)):
            loop.line(line)
        for record in step.recorded:
            if record.kind == "last":
                inner.line(f"{names(record.array)}[...] = {self.results[record.result]}")
        return "\n".join(block.render())

    def first_lines(self) -> Iterable[str]:
        """Yield the lines before the loop: the first states, buffers, and zeros for sums."""
        step, names = self.step, self.names
        for state in step.carried:
            own = "" if self.shapes[state.argument] else ".reshape(())"
            yield f"{self.values[state.argument]} = {names(state.initial)}{own}.copy()"
        for output in step.body.outputs:
            if output.name not in self.stacked:
                shape = tuple_text(self.form(extent.substitute(dict(step.integers))) for extent in output.shape)
                yield f"{self.results[output.name]} = np.empty({shape}, {names(step.array)}.dtype)"
        for record in step.recorded:
            if record.kind == "sum":
                yield f"{names(record.array)}[...] = 0"

    def step_lines(self) -> Iterable[str]:
        """Yield the lines of one time step: they call the step's function, and store or add its results."""
        step, names, values = self.step, self.names, self.values
        for result, array in self.stacked.items():
            row = ", ..." if self.ranks[result] else f":{self.time} + 1"  # Numba's rows of rank 0 would be numbers
            view = "" if self.ranks[result] else ".reshape(())"
            yield f"{self.results[result]} = {names(array)}[{self.time}{row}]{view}"
        values |= {name: f"{names(array)}[{self.time}]" for name, array in step.rows}
        for name, array in step.constants:
            values[name] = names(array) if self.shapes[name] else f"{names(array)}[0]"
        numbers = {state.argument for state in step.carried if not self.shapes[state.argument]}
        given = [f"{values[a.name]}[()]" if a.name in numbers else values[a.name] for a in step.body.arguments]
        yield f"{step_function(step)}({', '.join([*given, *self.results.values()])})"
        for record in step.recorded:
            if record.kind == "stack" and self.stacked[record.result] != record.array:
                yield f"{names(record.array)}[{self.time}] = {self.results[record.result]}"
            elif record.kind == "sum":
                own, new = ("[:]", "") if self.ranks[record.result] else ("[()]", "[()]")
                yield f"{names(record.array)}{own} += {self.results[record.result]}{new}"


def _next_states(
    step: Recurrence, values: dict[str, str], results: dict[str, str], stacked: dict[str, str]
) -> Iterable[str]:
    """Yield the lines of code that make the results of a time step the states of the next one: they exchange buffers
    where possible, and copy otherwise.

    `values`, `results` and `stacked` map names to texts: of the step's arguments, of its results, and of the arrays of
    results for all times.
    """
    counts: dict[str, int] = {}
    for state in step.carried:
        counts[state.result] = counts.get(state.result, 0) + 1
    record = {one.result for one in step.recorded if one.kind == "last"}
    for state in step.carried:
        old, new = values[state.argument], results[state.result]
        if state.result in stacked and counts[state.result] == 1:
            yield f"{old} = {new}"
        elif counts[state.result] == 1 and state.result not in record:
            yield f"{old}, {new} = {new}, {old}"
        else:
            yield f"{old}[...] = {new}"
