"""Kernels whose value is the same when axes are exchanged: half of the entries are computed, the others copied.

So are Gram matrices, kernel matrices and Hessians. In a Hessian by a matrix, two pairs of axes are exchanged at once:
``H_prqs = H_qspr``. A copy waits for memory, so that only what takes longer is worth it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sympy_tensordiff.codegen.facts import Prover
from sympy_tensordiff.codegen.loops import Fused, Kernel, Program, Step
from sympy_tensordiff.codegen.printers.rows import row_plan
from sympy_tensordiff.codegen.symmetry import exchanges
from sympy_tensordiff.codegen.walk import array_shapes, uses
from sympy_tensordiff.codegen.work import entry_work
from sympy_tensordiff.integer.affine import Affine

WORTH = 60
"""What an entry takes at least, as `entry_work` counts it, that is worth a copy."""

FEWEST = 16
"""Of fewer indices all entries are computed."""


def with_mirrored_kernels(program: Program) -> Program:
    """The program in which kernels know their ``mirrored`` axes, where copies are worth it."""
    shapes = array_shapes(program)
    steps = [_mirrored(step, shapes) if isinstance(step, Kernel) else step for step in program.kernels]
    return replace(program, kernels=tuple(steps))


def without_early_reads(program: Program, prover: Prover) -> Program:
    """The program in which those kernels compute all entries that something reads before the copies are made.

    These are the passes of a scan, and other kernels that run for the same value of an axis.
    """
    steps: list[Step] = []
    for step in program.kernels:
        if isinstance(step, Fused):
            read = {name for kernel in step.kernels for name in uses(kernel).arrays}
            kept = read | step.totals | {array.name for array in step.rows}
            kernels = [replace(k, mirrored=()) if k.array in kept else _settled(k, prover) for k in step.kernels]
            steps.append(replace(step, kernels=tuple(kernels)))
        else:
            steps.append(_settled(step, prover) if isinstance(step, Kernel) else step)
    return replace(program, kernels=tuple(steps))


def _settled(kernel: Kernel, prover: Prover) -> Kernel:
    plan = row_plan(kernel, prover) if kernel.mirrored else None
    return replace(kernel, mirrored=()) if plan is not None and plan.scans else kernel


def _mirrored(kernel: Kernel, shapes: Mapping[str, tuple[Affine, ...]]) -> Kernel:
    """The kernel with the axes that can be exchanged, if that is worth it."""
    if len(kernel.axes) < 2 or entry_work(kernel) < WORTH:
        return kernel
    for pairs in exchanges(kernel, shapes):
        if _is_long(shapes[kernel.array][pairs[0][1]]):
            return replace(kernel, mirrored=tuple([(kernel.axes[a], kernel.axes[b]) for a, b in pairs]))
    return kernel


def _is_long(extent: Affine) -> bool:
    return not extent.is_constant or extent.constant >= FEWEST
