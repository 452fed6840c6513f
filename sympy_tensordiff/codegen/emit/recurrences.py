"""Recurrences in texts of Python: a loop over time around a function for one step."""

from __future__ import annotations

from collections.abc import Iterable

from sympy_tensordiff.codegen.emit.driver import WORD, head_text, passed_names
from sympy_tensordiff.codegen.emit.forms import Block, FormPrinter, Names, tuple_text
from sympy_tensordiff.codegen.ir.programs import Recurrence
from sympy_tensordiff.codegen.ir.walk import filled_arrays, function_name


def step_function(step: Recurrence) -> str:
    """Return the name of the function that runs one step of a recurrence."""
    return f"step_{step.array}"


def with_own_functions(step: Recurrence, pieces: Iterable[str]) -> list[str]:
    """Return the texts of the functions of a body, whose names start with that of the array of the recurrence."""
    own = set(map(function_name, step.body.kernels))
    return [WORD.sub(lambda m: f"{step.array}_{m[0]}" if m[0] in own else m[0], piece) for piece in pieces]


def recurrence_text(step: Recurrence, names: Names) -> str:
    """Return the function of a recurrence: it calls that of one step with buffers for the next states."""
    names = names.copy()
    form = FormPrinter(names).form
    block = Block()
    passed = passed_names(step, names)
    inner = block.child(head_text(step, passed)[:-1] + ":")
    inner.line(f'"""Fill {" and ".join(map(names, filled_arrays(step)))} step by step."""')
    dtype = f"{names(step.array)}.dtype"
    shapes = {a.name: a.shape for a in (*step.body.arguments, *step.body.outputs)}
    integers = dict(step.integers)
    values: dict[str, str] = {name: form(value) for name, value in integers.items()}
    time = names.fresh("time")
    values[step.time] = time
    for state in step.carried:
        values[state.argument] = names.fresh(state.argument)
        own = "" if shapes[state.argument] else ".reshape(())"
        inner.line(f"{values[state.argument]} = {names(state.initial)}{own}.copy()")
    stacked = {kept.result: kept.array for kept in step.recorded if kept.kind == "stack"}
    results: dict[str, str] = {}
    for output in step.body.outputs:
        results[output.name] = names.fresh(f"new_{output.name}")
        if output.name not in stacked:
            shape = tuple_text(form(extent.substitute(integers)) for extent in output.shape)
            inner.line(f"{results[output.name]} = np.empty({shape}, {dtype})")
    sums = [kept for kept in step.recorded if kept.kind == "sum"]
    for kept in sums:
        inner.line(f"{names(kept.array)}[...] = 0")
    length = form(step.length)
    loop = inner.child(f"for {time} in range({f'{length} - 1, -1, -1' if step.is_reversed else length}):")
    for result, array in stacked.items():
        loop.line(f"{results[result]} = {names(array)}[{time}, ...]")
    for name, array in step.rows:
        values[name] = f"{names(array)}[{time}]"
    for name, array in step.constants:
        values[name] = names(array) if shapes[name] else f"{names(array)}[0]"
    scalars = {state.argument for state in step.carried if not shapes[state.argument]}
    given = [f"{values[a.name]}[()]" if a.name in scalars else values[a.name] for a in step.body.arguments]
    loop.line(f"{step_function(step)}({', '.join([*given, *results.values()])})")
    for kept in step.recorded:
        if kept.kind == "stack" and stacked[kept.result] != kept.array:
            loop.line(f"{names(kept.array)}[{time}] = {results[kept.result]}")
    for kept in sums:
        loop.line(f"{names(kept.array)}[...] += {results[kept.result]}")
    for line in _next_states(step, values, results, stacked):
        loop.line(line)
    for kept in step.recorded:
        if kept.kind == "last":
            inner.line(f"{names(kept.array)}[...] = {results[kept.result]}")
    return "\n".join(block.render())


def _next_states(
    step: Recurrence, values: dict[str, str], results: dict[str, str], stacked: dict[str, str]
) -> Iterable[str]:
    """Yield the lines that make results of a step the states before the next one, by exchange of buffers if nothing
    else reads them.
    """
    counts: dict[str, int] = {}
    for state in step.carried:
        counts[state.result] = counts.get(state.result, 0) + 1
    kept = {one.result for one in step.recorded if one.kind == "last"}
    for state in step.carried:
        old, new = values[state.argument], results[state.result]
        if state.result in stacked and counts[state.result] == 1:
            yield f"{old} = {new}"
        elif counts[state.result] == 1 and state.result not in kept:
            yield f"{old}, {new} = {new}, {old}"
        else:
            yield f"{old}[...] = {new}"
