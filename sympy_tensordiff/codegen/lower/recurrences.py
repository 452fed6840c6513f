"""Scans as steps of a program: the program of one time step, and the run-time checks that it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sympy_tensordiff.codegen.ir.programs import Argument, Carried, Check, Program, Recorded, Recurrence
from sympy_tensordiff.errors import ArgumentError, UnsupportedError
from sympy_tensordiff.graph.interning import Node
from sympy_tensordiff.graph.scans import needed_states, step_constants, variables_in
from sympy_tensordiff.integer.affine import Affine, Constraint
from sympy_tensordiff.integer.fourier_motzkin import project
from sympy_tensordiff.integer.indirect import data_entries
from sympy_tensordiff.integer.rows import Rows

Build = Callable[[Sequence[Any], tuple[Any, ...]], Program]
"""Returns the program of expressions, given its arguments."""


def recurrence(nodes: Sequence[Node], names: Sequence[str], operands: Mapping[Node, str], build: Build) -> Recurrence:
    """Return the step that computes the results of a scan, `nodes`, in one loop over time. `names` are the arrays for
    these results, `operands` maps the nodes that the scan reads to their arrays; ``build`` makes the program of one
    time step.

    Raise `ArgumentError` if the number of steps is 0.
    """
    scan, length = nodes[0].data.scan, nodes[0].data.length
    if length.is_constant and length.constant < 1:
        raise ArgumentError(f"{scan} has {length} steps: a scan needs one at least")
    moved: dict[Any, Any] = {}
    constants: dict[Any, str] = {}
    integers: dict[Any, Affine] = {}
    for node in nodes:
        moved |= step_constants(node.data.scan)[0]
        others = node.args[len(scan.states) + len(scan.sequences) :]
        constants |= {v: operands[arg] for v, arg in zip(node.data.constants, others, strict=True)}
        integers |= dict(node.data.integers)
    values = [node.data.scan.value.xreplace(moved) for node in nodes]
    updates = [(state.variable, state.update.xreplace(moved)) for state in scan.states]
    needed = needed_states(updates, values)
    states = [(variable, update) for variable, update in updates if variable in needed]
    initial = dict(zip([s.variable for s in scan.states], nodes[0].args, strict=False))
    sequences = dict(zip([v for v, _ in scan.sequences], nodes[0].args[len(scan.states) :], strict=False))
    exprs = [*dict.fromkeys([*(update for _, update in states), *values])]
    free = variables_in(exprs)
    rows = {v: operands[node] for v, node in sequences.items() if v in free}
    constants = {v: name for v, name in constants.items() if v in free}
    variables = [v for v, _ in states]
    args = [*variables, *rows, *constants, *integers, *([scan.time] if scan.time in free else [])]
    body = build(args, tuple(exprs))
    argument = {arg: given.name for arg, given in zip(args, body.arguments, strict=True)}
    result = {expr: array.name for expr, array in zip(exprs, body.outputs, strict=True)}
    return Recurrence(
        tuple([Recorded(n, node.data.scan.kind, result[v]) for n, node, v in zip(names, nodes, values, strict=True)]),
        tuple([Carried(argument[v], operands[initial[v]], result[update]) for v, update in states]),
        tuple([(argument[v], array) for v, array in rows.items()]),
        tuple([(argument[v], array) for v, array in constants.items()]),
        tuple([(argument[symbol], form) for symbol, form in integers.items()]),
        replace(body, search=None),
        length,
        scan.reverse,
        argument.get(scan.time, ""),
    )


def over_forms(step: Recurrence, form: Callable[[Affine], Affine]) -> Recurrence:
    """Return the recurrence `step` with the function `form` applied to its length and its integer arguments, as to
    rename sizes.
    """
    integers = tuple([(name, form(one)) for name, one in step.integers])
    return replace(step, length=form(step.length), integers=integers)


def ranges_of_data(arguments: Sequence[Argument], steps: Sequence[Recurrence]) -> tuple[Argument, ...]:
    """Return `arguments` with the range of valid entries (``below``) set for each integer array by which the
    recurrences `steps` select entries. Raise `UnsupportedError` if two uses of an array need different ranges.
    """
    found = {argument.name: argument for argument in arguments}
    for step in steps:
        arrays = dict(step.constants)
        for used in step.body.arguments:
            if used.dtype != "integer" or used.below is None:
                continue
            own, below = found[arrays[used.name]], used.below.substitute(dict(step.integers))
            if own.below not in (None, below):
                raise UnsupportedError(
                    f"{own.label} selects entries in a scan and elsewhere, of axes of the lengths {below} and "
                    f"{own.below}: declare its range, as in td.TensorSymbol('idx', n, dtype=int, below=m)"
                )
            found[own.name] = replace(own, below=below, selects=own.selects or used.selects)
    return tuple(found.values())


def checks_of_steps(step: Recurrence) -> list[Check]:
    """Return the checks of sizes that ensure that all time steps of the recurrence `step` read in bounds. Raise
    `UnsupportedError` if this depends on the entries of an integer array.
    """
    message = f"a scan would have {step.length} steps, which is not positive"
    found = [Check((Constraint("ge", -step.length),), message)] if step.length.terms else []
    for check in (*step.body.assumptions, *step.body.checks, *_guarded_by_data(step)):
        rows, points = _at_some_time(step, check.violation), _at_some_time(step, check.points)
        if any(step.time in row.form.atoms() for row in (*check.violation, *check.points)):
            points = points or rows
            projected = project(rows, [_time(step)])
            if projected is None:
                continue
            rows = tuple(projected)
        found.append(Check(rows, f"in the steps of a scan: {check.message}", points))
    return found


def _guarded_by_data(step: Recurrence) -> list[Check]:
    """Return checks of sizes that replace those run-time checks of a time step that would read integer arrays. They are
    stricter: a read under a condition on data must be in bounds even where the condition does not hold.

    Raise `UnsupportedError` if an index itself contains data and may be out of bounds.
    """
    found = []
    for check in step.body.data_checks:
        load, index = check.load, check.load.index[check.axis]
        if not data_entries([index]):
            rows = tuple(
                [row for row in check.violation if not any(str(v).startswith(_ENDS) for v in row.form.atoms())]
            )
            found.append(Check(rows, f"{load.array}[…, {index}, …] is read outside of the shape of {load.array}", rows))
        elif project(_at_some_time(step, check.violation), [_time(step)]) is not None:
            raise UnsupportedError(
                f"in the steps of a scan, data of {check.data or 'several tensors'} may lead a read out of its "
                "tensor, which no call checks: declare a range of the data that fits, as in "
                "td.TensorSymbol('idx', n, dtype=int, below=m)"
            )
    return found


_ENDS = "least ", "greatest "
"""The beginnings of the names of the extremes of arrays of integers."""


def _at_some_time(step: Recurrence, rows: Rows) -> Rows:
    """Return the constraints `rows` of a time step as constraints on the sizes of the enclosing program and a new
    variable for the time. If they contain the time, its range is added.
    """
    time = Affine.variable(_time(step))
    forms = {**dict(step.integers), step.time: time}
    own = tuple([row.substitute(forms) for row in rows])
    has_time = any(step.time in row.form.atoms() for row in rows)
    return (*own, Constraint("ge", time), Constraint("ge", step.length - 1 - time)) if has_time else own


def _time(step: Recurrence) -> str:
    """Return the name of the variable that represents the time in constraints on a recurrence."""
    return f"time of {step.array}"
