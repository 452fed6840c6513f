"""Temporaries that no step reads: what was kept for a use that has found another array since."""

from __future__ import annotations

from dataclasses import replace

from sympy_tensordiff.codegen.loops import Program, Step
from sympy_tensordiff.codegen.walk import filled_arrays, uses


def without_unread(program: Program) -> Program:
    """The program without steps that only fill temporaries which nothing reads, and without these.

    Law: each step that is left fills a result, or an array that a later step reads.
    """
    needed = {array.name for array in program.outputs}
    kept: list[Step] = []
    for step in reversed(program.kernels):
        if not needed.isdisjoint(filled_arrays(step)):
            kept.append(step)
            needed.update(uses(step).arrays)
    return replace(
        program,
        kernels=tuple(reversed(kept)),
        temporaries=tuple(array for array in program.temporaries if array.name in needed),
        notes=tuple(note for note in program.notes if note.partition(":")[0] in needed or ":" not in note),
    )
