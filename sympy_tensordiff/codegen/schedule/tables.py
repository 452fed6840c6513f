"""Constant tables such as ``cos(2*pi*i*j/256)``: filled once and reused by all calls."""

from __future__ import annotations

from dataclasses import replace

from sympy_tensordiff.codegen.ir.dataflow import Dataflow, is_same_in_all_calls
from sympy_tensordiff.codegen.ir.programs import ConstantKernel, Kernel, Program, Step


def with_tables(program: Program) -> Program:
    """Return the program with temporaries that depend on no argument and no size turned into tables, which are computed
    once for all calls.

    Law: a table reads nothing but tables.
    """
    flow = Dataflow(program)
    tables: set[str] = set()
    steps: list[Step] = []
    for step in program.kernels:
        if type(step) is Kernel and flow.writer(step.array) and is_same_in_all_calls(step, flow.shapes, tables):
            step = ConstantKernel(step.array, step.axes, step.body)
            tables.add(step.array)
        steps.append(step)
    notes = [note for note in program.notes if note.partition(":")[0] not in tables]
    notes += [f"{name}: depends on no argument" for name in sorted(tables)]
    return replace(program, kernels=tuple(steps), notes=tuple(notes))
