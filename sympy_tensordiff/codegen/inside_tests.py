"""Conditions on data beside each other: each is tested where its data are inside of their arrays only.

``idx[i] == 0`` and ``jdx[i - idx[i + 1]] == k`` may each keep the data of the other from being read, and
no order suits both. So what the data need is tested before them. Where they are outside another condition
does not hold, or the call is refused (`data_checks`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from sympy_tensordiff.codegen.facts import Prover, Rows, around_rows, axis_rows, data_reads
from sympy_tensordiff.codegen.loops import If, Kernel, Program, Statement
from sympy_tensordiff.codegen.walk import rewrite
from sympy_tensordiff.integer.affine import Row
from sympy_tensordiff.integer.data import apart, data_depth


def with_inside_tests(program: Program) -> Program:
    """The program, in which no test of data reads outside of an array, whatever the order of the tests."""
    prover = Prover(program)
    steps = [_with_tests(prover, step) if isinstance(step, Kernel) else step for step in program.kernels]
    return replace(program, kernels=tuple(steps))


def _with_tests(prover: Prover, kernel: Kernel) -> Kernel:
    start = axis_rows(kernel, prover.shapes)
    body = rewrite(kernel.body, lambda part, around: (_tested(prover, part, around_rows(around, start)),))
    return kernel if body == kernel.body else replace(kernel, body=body)


def inside_rows(prover: Prover, rows: Sequence[Row], known: Rows) -> Rows:
    """What the data in rows need to be inside of their arrays, and is not known; outer data behind those in them."""
    found: dict[Row, None] = {}
    for load in data_reads(row.form for row in rows):
        wanted = prover.axes_inside(load, prover.shapes[load.array], (*known, *found))
        found.update(dict.fromkeys(row for _, row in wanted))
    return tuple(sorted(found, key=lambda row: data_depth(row.form)))


def _tested(prover: Prover, statement: Statement, known: Rows) -> Statement:
    """A statement where some rows hold."""
    if not isinstance(statement, If):
        return statement
    plain, data = apart(statement.conditions)
    inside = inside_rows(prover, data, (*known, *plain)) if len(data) > 1 else ()
    if not inside:
        return statement
    body = statement.body
    for rows in reversed([rows for rows in (plain, *_by_depth(inside), data) if rows]):
        body = (If(tuple(rows), body),)
    return body[0]


def _by_depth(rows: Rows) -> list[list[Row]]:
    return [list(group) for _, group in groupby(rows, key=lambda row: data_depth(row.form))]
