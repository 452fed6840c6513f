"""The nest of a kernel whose blocks of threads share memory, by the first schedule that applies."""

from __future__ import annotations

from collections.abc import Mapping

from sympy_tensordiff.codegen.ir.programs import FusedKernels, Kernel, Step
from sympy_tensordiff.codegen.ir.steps import Shapes
from sympy_tensordiff.codegen.schedule.blocks import BlockNest, Fresh
from sympy_tensordiff.codegen.schedule.row_blocks import row_nest
from sympy_tensordiff.codegen.schedule.shared_sums import Deal, sum_nest
from sympy_tensordiff.codegen.schedule.tiles import tile_nest, tiling
from sympy_tensordiff.codegen.schedule.transposes import transposed_reads, turn_nest


def block_nest(step: Step, deals: Mapping[str, Deal], shapes: Shapes, fresh: Fresh) -> BlockNest | None:
    """Return the nest of a step with shared memory, by rows, tiles, a distributed sum or transposed reads; None for
    another step.
    """
    if isinstance(step, FusedKernels) and step.array in deals:
        return row_nest(step, deals, shapes, fresh)
    if not isinstance(step, Kernel):
        return None
    if step.array in deals:
        return sum_nest(step, deals[step.array], shapes, fresh)
    if (plan := tiling(step, shapes)) is not None:
        return tile_nest(step, plan, shapes, fresh)
    turned = transposed_reads(step, shapes)
    return turn_nest(step, *turned, shapes, fresh) if turned else None


def shares_memory(step: Step, deals: Mapping[str, Deal], shapes: Shapes) -> bool:
    """Whether the blocks of a step share memory."""
    if isinstance(step, FusedKernels):
        return step.array in deals
    return isinstance(step, Kernel) and (
        step.array in deals or tiling(step, shapes) is not None or transposed_reads(step, shapes) is not None
    )
