"""Kernels on several cores: the loop over blocks of the first axis, for Numba.

One function computes the entries of a block, whichever thread calls it: that makes no difference to
a result.
"""

from __future__ import annotations

from collections.abc import Sequence

from sympy_tensordiff.codegen.facts import Prover
from sympy_tensordiff.codegen.loops import Accumulator, Contraction, Correlation, Fused, Kernel, Scatter, Step, Store
from sympy_tensordiff.codegen.printers.blocks import INDENT
from sympy_tensordiff.codegen.printers.driver import call_text, passed_names
from sympy_tensordiff.codegen.printers.forms import FormPrinter, Names
from sympy_tensordiff.codegen.scalars import Name
from sympy_tensordiff.codegen.schedule.rows import STRIP, row_plan, runs_in_strips
from sympy_tensordiff.codegen.walk import filled_arrays, function_name

BLOCKS = 64
"""Blocks of a kernel, a few for each core of a usual machine."""

PARTS = 8
"""Blocks of a step that adds up totals: each has totals of its own, which are added in their order."""

STEP = 39
"""Odd, and near the golden section of the blocks: each thread gets blocks from everywhere, dear and cheap ones."""


def runs_in_blocks(step: Step, prover: Prover) -> bool:
    """Whether the first axis of a step can be cut: no sum runs over it, and it is no row along which a scan runs."""
    if isinstance(step, Correlation):
        return True
    if isinstance(step, Contraction):
        return bool(step.output)
    if isinstance(step, Fused):
        return all(is_plain_total(kernel) for kernel in step.kernels if kernel.array in step.totals)
    if not isinstance(step, Kernel) or isinstance(step, Scatter):
        return False
    plan = row_plan(step, prover)
    return len(step.axes) > (plan is not None and bool(plan.scans))


def is_plain_total(kernel: Kernel) -> bool:
    """Whether the entries of a kernel are sums, for which the parts of several blocks can be added up."""
    accumulators = [s for s in kernel.body if isinstance(s, Accumulator)]
    if not kernel.axes or [a.reduction for a in accumulators] != ["sum"]:
        return False
    last = kernel.body[-1]
    return isinstance(last, Store) and last.value == Name(accumulators[0].name)


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


def blocks_text(step: Step, names: Names, prover: Prover) -> str:
    """The function that calls the one for a block, for all blocks, without decorator."""
    local = names.copy()
    extent, turn, block = (local.fresh(wish) for wish in ("extent", "turn", "block"))
    length = FormPrinter(names).form(step.extent) if isinstance(step, Fused) else f"{names(step.array)}.shape[0]"
    totals = [kernel for kernel in step.kernels if kernel.array in step.totals] if isinstance(step, Fused) else []
    parts = {names(kernel.array): local.fresh(f"{names(kernel.array)}_parts") for kernel in totals}
    count = PARTS if parts else BLOCKS
    head, inside = f"for {turn} in prange({count}):", [f"{block} = {turn}*{STEP} % {count}"]
    ends = f"{extent}*{block}//{count}, {extent}*({block} + 1)//{count}"
    if isinstance(step, Kernel) and runs_in_strips(step, prover):
        head, inside = f"for {turn} in prange(({extent} + {STRIP - 1})//{STRIP}):", []
        ends = f"{turn}*{STRIP}, min({turn}*{STRIP} + {STRIP}, {extent})"
    passed = ", ".join(f"{parts[name]}[{block}]" if name in parts else name for name in passed_names(step, names))
    lines = [
        head_text(step, names),
        f'{INDENT}"""Fill {" and ".join(map(names, filled_arrays(step)))} block by block, on all cores."""',
        f"{INDENT}{extent} = {length}",
        *(f"{INDENT}{part} = np.empty(({count}, *{name}.shape), {name}.dtype)" for name, part in parts.items()),
        INDENT + head,
        *(INDENT * 2 + line for line in inside),
        f"{INDENT * 2}{block_name(step)}({passed}, {ends})",
    ]
    for name, part in parts.items():
        lines.append(f"{INDENT}{name}[...] = {part}[0]")
        lines += [f"{INDENT}for {block} in range(1, {count}):", f"{INDENT * 2}{name} += {part}[{block}]"]
    return "\n".join(lines)
