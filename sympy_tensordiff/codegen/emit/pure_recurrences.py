"""Recurrences in array libraries whose functions change no array: ``jax.lax.scan``, or a loop in Python."""

from __future__ import annotations

from collections import Counter

from sympy_tensordiff.codegen.emit.dialects import Dialect
from sympy_tensordiff.codegen.emit.driver import head_text, passed_names
from sympy_tensordiff.codegen.emit.forms import FormNames, FormPrinter, TextBlock, tuple_text
from sympy_tensordiff.codegen.emit.recurrences import step_function
from sympy_tensordiff.codegen.ir.programs import Recurrence
from sympy_tensordiff.codegen.ir.scalars import IndexValue
from sympy_tensordiff.codegen.ir.walk import filled_arrays, forms, scalars


def selects_by_time(step: Recurrence) -> bool:
    """Return whether an index, a bound or a condition in a step depends on the time. JAX cannot trace such a step,
    since the time is an array there.
    """
    for kernel in step.body.nests:
        values = Counter(node.form for node in scalars(kernel.body) if isinstance(node, IndexValue))
        if any(step.time in form.atoms() for form in Counter(forms(kernel.body)) - values):
            return True
    return any(
        isinstance(inner, Recurrence) and any(step.time in form.atoms() for form in inner.forms)
        for inner in step.body.kernels
    )


def pure_recurrence(step: Recurrence, names: FormNames, dialect: Dialect) -> tuple[str, str, list[str]]:
    """Return ``(text, "", parameters)``: the text of the function that computes a recurrence and returns its results as
    new arrays (for JAX and PyTorch), an empty text in place of a decorator, and the names of its parameters.

    Its loop carries the states, the sums, and last values that are not states. With JAX it is ``jax.lax.scan``, unless
    the time selects entries.
    """
    printer = _PureLoop(step, names.copy(), dialect)
    filled = {*map(names, filled_arrays(step))}
    passed = [*(name for name in passed_names(step, names) if name not in filled), *dialect.preamble]
    return dialect.text(printer.text(passed)), "", passed


class _PureLoop:
    """The printer of a recurrence's function without side effects, for JAX or PyTorch. ``carried`` maps each variable
    that the loop passes from step to step to ``(first value, update)``; ``returned`` has the results.
    """

    def __init__(self, step: Recurrence, names: FormNames, dialect: Dialect) -> None:
        self.step, self.names, self.dialect = step, names, dialect
        self.form = FormPrinter(names).form
        self.is_number = {a.name: not a.shape for a in step.body.arguments}
        self.shapes = {output.name: output.shape for output in step.body.outputs}
        self.time, self.states, self.given = (names.fresh(wish) for wish in ("time", "states", "given"))
        self.results = {name: names.fresh(f"new_{name}") for name in self.shapes}
        self.rows = {name: names.fresh(name) for name, _ in step.rows}
        self.values = {name: self.form(value) for name, value in step.integers} | {step.time: self.time} | self.rows
        for name, array in step.constants:
            self.values[name] = f"{names(array)}[0]" if self.is_number[name] else names(array)
        self.carried: dict[str, tuple[str, str]] = {}
        of_result: dict[str, str] = {}
        for state in step.carried:
            own = self.values[state.argument] = of_result[state.result] = names.fresh(state.argument)
            shape = ".reshape(())" if self.is_number[state.argument] else ""
            self.carried[own] = f"{names(state.initial)}{shape}", self.results[state.result]
        self.stacked = list(dict.fromkeys(record.result for record in step.recorded if record.kind == "stack"))
        stacks = {result: names.fresh(f"all_{result}") for result in self.stacked}
        self.stacks = [*stacks.values()]
        self.returned = {record.array: stacks[record.result] for record in step.recorded if record.kind == "stack"}
        for record in step.recorded:
            if record.kind == "last" and record.result in of_result:
                self.returned[record.array] = of_result[record.result]
            elif record.kind != "stack":
                self.returned[record.array] = self.carry(record.result, is_sum=record.kind == "sum")

    def carry(self, result: str, is_sum: bool) -> str:
        """Make the loop over time pass on one more variable: the latest value of the array ``result`` of a step or,
        with ``is_sum``, its sum over the steps. Return the name of the variable.
        """
        own, new = self.names.fresh("total" if is_sum else "last"), self.results[result]
        extents = [self.form(extent.substitute(dict(self.step.integers))) for extent in self.shapes[result]]
        zero = f"np.broadcast_to(real(0), {tuple_text(extents)})" if extents else "real(0)"
        self.carried[own] = zero, f"{own} + {new}" if is_sum else new
        return own

    def text(self, passed: list[str]) -> str:
        """Return the text of the generated function that runs the recurrence; ``passed`` are its parameters."""
        step, names, block = self.step, self.names, TextBlock()
        inner = block.child(head_text(step, passed))
        arrays = [names(array) for array in filled_arrays(step)]
        inner.line(f'"""Return {" and ".join(arrays)}, step by step."""')
        body = inner.child(f"def step({self.states}, {self.given}):")
        body.line('"""Return the next states, and results of one step."""')
        if self.carried:
            body.line(f"{tuple_text(self.carried)} = {self.states}")
        if self.rows:
            body.line(f"{tuple_text(self.rows.values())} = {self.given}[0]")
        if step.time:
            body.line(f"{self.time} = {self.given}[1]")
        given = [*(self.values[a.name] for a in step.body.arguments), *self.dialect.preamble]
        body.line(f"{tuple_text(self.results.values())} = {step_function(step)}({', '.join(given)})")
        stacked = tuple_text(self.results[result] for result in self.stacked)
        body.line(f"return {tuple_text(new for _, new in self.carried.values())}, {stacked}")
        first = tuple_text(value for value, _ in self.carried.values())
        rows, length = tuple_text(names(array) for _, array in step.rows), self.form(step.length)
        if self.dialect.backend == "jax" and not selects_by_time(step):
            call = f"jax.lax.scan(step, {first}, ({rows}, np.arange({length})), reverse={step.is_reversed})"
        else:
            call = f"over_time(step, {first}, {rows}, {length}, {step.is_reversed})"
        inner.line(f"{tuple_text(self.carried) or '_'}, {tuple_text(self.stacks) if self.stacks else '_'} = {call}")
        inner.line(f"return {', '.join(self.returned[array] for array in filled_arrays(step))}")
        return "\n".join(block.render())
