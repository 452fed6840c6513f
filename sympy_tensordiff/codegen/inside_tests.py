"""Conditions on data beside each other: each is tested where its data are inside of their arrays only.

``idx[i] == 0`` and ``jdx[i - idx[i + 1]] == k`` may each keep the data of the other from being read, and
no order suits both. So what the data need is tested before them. Where they are outside another condition
does not hold, or the call is refused (`data_checks`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from sympy_tensordiff.codegen.facts import Prover, Rows, axis_rows, data_reads, loop_rows
from sympy_tensordiff.codegen.loops import If, Kernel, Loop, Program, Statement
from sympy_tensordiff.integer.affine import Row
from sympy_tensordiff.integer.data import apart, data_depth


def with_inside_tests(program: Program) -> Program:
    """The program, in which no test of data reads outside of an array, whatever the order of the tests."""
    prover = Prover(program)
    steps = []
    for step in program.kernels:
        if isinstance(step, Kernel):
            body = tuple(_tested(prover, statement, axis_rows(step, prover.shapes)) for statement in step.body)
            step = step if body == step.body else replace(step, body=body)
        steps.append(step)
    return replace(program, kernels=tuple(steps))


def inside_rows(prover: Prover, rows: Sequence[Row], known: Rows) -> Rows:
    """What the data in rows need to be inside of their arrays, and is not known; outer data behind those in them."""
    found: dict[Row, None] = {}
    for load in data_reads(row.form for row in rows):
        wanted = prover.axes_inside(load, prover.shapes[load.array], (*known, *found))
        found.update(dict.fromkeys(row for _, row in wanted))
    return tuple(sorted(found, key=lambda row: data_depth(row.form)))


def _tested(prover: Prover, statement: Statement, known: Rows) -> Statement:
    """A statement where some rows hold."""
    if isinstance(statement, Loop):
        inner = (*known, *loop_rows(statement))
        return replace(statement, body=tuple(_tested(prover, part, inner) for part in statement.body))
    if not isinstance(statement, If):
        return statement
    inner = (*known, *statement.conditions)
    result = replace(statement, body=tuple(_tested(prover, part, inner) for part in statement.body))
    plain, data = apart(statement.conditions)
    inside = inside_rows(prover, data, (*known, *plain)) if len(data) > 1 else ()
    if inside:
        tests = [rows for rows in (plain, *_by_depth(inside), data) if rows]
        result = If(tuple(tests[-1]), result.body)
        for rows in reversed(tests[:-1]):
            result = If(tuple(rows), (result,))
    return result


def _by_depth(rows: Rows) -> list[list[Row]]:
    return [list(group) for _, group in groupby(rows, key=lambda row: data_depth(row.form))]
