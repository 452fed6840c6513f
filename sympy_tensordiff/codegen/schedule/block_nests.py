"""The nest of a kernel whose blocks of threads share memory, by the first schedule that applies."""

from __future__ import annotations

from collections.abc import Mapping

from sympy_tensordiff.codegen.ir.programs import FusedKernels, Kernel, Scatter, Step
from sympy_tensordiff.codegen.ir.steps import Shapes
from sympy_tensordiff.codegen.schedule.blocks import BlockNest, NameMaker
from sympy_tensordiff.codegen.schedule.row_blocks import row_nest
from sympy_tensordiff.codegen.schedule.shared_sums import SharedLoop, sum_nest
from sympy_tensordiff.codegen.schedule.tiles import tile_nest, tiling
from sympy_tensordiff.codegen.schedule.transposes import transposed_reads, transposing_nest


def block_nest(
    step: Step, shared_loops: Mapping[str, SharedLoop], shapes: Shapes, fresh: NameMaker
) -> BlockNest | None:
    """Return the loop nest of a GPU step whose threads share memory in blocks: fused row-wise kernels, sums distributed
    over threads (``shared_loops``), products in tiles, or transposed reads. None for other steps and for scatters.
    """
    if isinstance(step, FusedKernels) and step.array in shared_loops:
        return row_nest(step, shared_loops, shapes, fresh)
    if not isinstance(step, Kernel) or isinstance(step, Scatter):
        return None
    if step.array in shared_loops:
        return sum_nest(step, shared_loops[step.array], shapes, fresh)
    if (plan := tiling(step, shapes)) is not None:
        return tile_nest(step, plan, shapes, fresh)
    turned = transposed_reads(step, shapes)
    return transposing_nest(step, *turned, shapes, fresh) if turned else None


def shares_memory(step: Step, shared_loops: Mapping[str, SharedLoop], shapes: Shapes) -> bool:
    """Return whether the threads of a block share memory in the GPU kernel of `step`. ``shared_loops`` maps the name of
    an array to the loop that the threads share to compute its entries.
    """
    if isinstance(step, FusedKernels):
        return step.array in shared_loops
    return (isinstance(step, Kernel) and not isinstance(step, Scatter)) and (
        step.array in shared_loops or tiling(step, shapes) is not None or transposed_reads(step, shapes) is not None
    )
