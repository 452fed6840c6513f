"""The schedules of kernels on a device: loops that are bound to the coordinates of threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sympy_tensordiff.codegen.loops import Kernel, Statement
from sympy_tensordiff.codegen.scalars import Load
from sympy_tensordiff.codegen.schedule.nests import ZERO, explicit, span
from sympy_tensordiff.integer.affine import Affine


def thread_nest(kernel: Kernel, box: Sequence[Affine]) -> tuple[Statement, ...]:
    """A kernel with one thread for each entry: the last axis along x, the one before along y, the others along z."""
    body = explicit(kernel.body, Load(kernel.array, tuple(map(Affine.variable, kernel.axes))))
    for number, (axis, extent) in enumerate(zip(reversed(kernel.axes), reversed(box), strict=True)):
        body = (replace(span(axis, ZERO, extent, body), bind=f"grid.{'xyz'[min(number, 2)]}"),)
    return body
