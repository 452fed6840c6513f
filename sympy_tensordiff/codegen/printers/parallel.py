"""Kernels on several cores: the loop over blocks of the first axis, for Numba.

One function computes the entries of a block, whichever thread calls it: that makes no difference to
a result.
"""

from __future__ import annotations

from collections.abc import Sequence

from sympy_tensordiff.codegen.facts import Prover
from sympy_tensordiff.codegen.loops import Contraction, Fused, Kernel, Scatter, Step
from sympy_tensordiff.codegen.printers.blocks import INDENT
from sympy_tensordiff.codegen.printers.driver import call_text
from sympy_tensordiff.codegen.printers.forms import FormPrinter, Names
from sympy_tensordiff.codegen.printers.rows import row_plan
from sympy_tensordiff.codegen.walk import filled_arrays, function_name

BLOCKS = 64
"""Blocks of a kernel, a few for each core of a usual machine."""

STEP = 39
"""Odd, and near the golden section of the blocks: each thread gets blocks from everywhere, dear and cheap ones."""


def runs_in_blocks(step: Step, prover: Prover) -> bool:
    """Whether the first axis of a step can be cut: no sum runs over it, and it is no row along which a scan runs."""
    if isinstance(step, Contraction):
        return bool(step.output)
    if isinstance(step, Fused):
        return not step.totals
    if not isinstance(step, Kernel) or isinstance(step, Scatter):
        return False
    plan = row_plan(step, prover)
    return len(step.axes) > (plan is not None and bool(plan.scans))


def block_name(step: Step) -> str:
    """The name of the function that computes a block."""
    return f"{function_name(step)}_block"


def block_ends(names: Names) -> tuple[str, str]:
    """Names for the first entry of a block and for the one past its last."""
    return names.fresh("start"), names.fresh("stop")


def head_text(step: Step, names: Names, block: Sequence[str] = ()) -> str:
    """The first line of the function of a step, or of the one that computes a block of it."""
    passed = call_text(step, names)
    if not block:
        return f"def {function_name(step)}{passed}:"
    return f"def {block_name(step)}{passed[:-1]}, {', '.join(block)}):"


def blocks_text(step: Step, names: Names) -> str:
    """The function that calls the one for a block, for all blocks, without decorator."""
    local = names.copy()
    extent, turn, block = (local.fresh(wish) for wish in ("extent", "turn", "block"))
    length = FormPrinter(names).form(step.extent) if isinstance(step, Fused) else f"{names(step.array)}.shape[0]"
    ends = f"{extent}*{block}//{BLOCKS}, {extent}*({block} + 1)//{BLOCKS}"
    lines = [
        head_text(step, names),
        f'{INDENT}"""Fill {" and ".join(map(names, filled_arrays(step)))} block by block, on all cores."""',
        f"{INDENT}{extent} = {length}",
        f"{INDENT}for {turn} in prange({BLOCKS}):",
        f"{INDENT * 2}{block} = {turn}*{STEP} % {BLOCKS}",
        f"{INDENT * 2}{block_name(step)}{call_text(step, names)[:-1]}, {ends})",
    ]
    return "\n".join(lines)
