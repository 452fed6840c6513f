"""Scheduled loop nests as functions for Numba."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sympy_tensordiff.codegen.emit.driver import call_text, passed_names, task_text, without_unused_real
from sympy_tensordiff.codegen.emit.elementary import FUNCTIONS
from sympy_tensordiff.codegen.emit.forms import ATOM, INDENT, POWER, FormPrinter, Names
from sympy_tensordiff.codegen.emit.nests import NestPrinter
from sympy_tensordiff.codegen.ir.facts import Prover, integer_form
from sympy_tensordiff.codegen.ir.loops import Accumulator, Alloc, Ends, If, Loop, Set, Statement, Store
from sympy_tensordiff.codegen.ir.programs import (
    Contraction,
    Correlation,
    Fused,
    Kernel,
    Scatter,
    Step,
    Table,
    Trapezoid,
)
from sympy_tensordiff.codegen.ir.scalars import Name, Number, Scalar
from sympy_tensordiff.codegen.ir.walk import filled_arrays, function_name
from sympy_tensordiff.codegen.schedule.cpu import Nest
from sympy_tensordiff.codegen.schedule.rows import STRIP, row_plan, runs_in_strips
from sympy_tensordiff.integer.affine import Affine


class NumbaPrinter(NestPrinter):
    """Nests of `Loop`, `If`, `Set` and `Alloc`."""

    functions: Mapping[str, str] = {
        **NestPrinter.functions, **{name: name for name in FUNCTIONS}, "floor": "np.floor", "ceil": "np.ceil",
        "real": "real", "double": "np.float64",
    }  # fmt: skip

    def __init__(self, names: Names, kernel: Kernel, bare: frozenset[str]) -> None:
        super().__init__(names, kernel, bare)
        self.loop_depth = 0
        self.counted: set[str] = set()
        """The names of integers that LLVM sees to have no sign."""
        self.defined: dict[str, int] = {}
        """The number of loops around what begins a scalar."""

    def variable(self, name: str) -> str:
        array, dot, attribute = name.partition(".")
        return super().variable(array) + dot + attribute

    def subscript(self, index: tuple[Affine, ...]) -> str:
        return ", ".join(self.place(form) for form in index) or "()"

    def place(self, form: Affine) -> str:
        """One index of a read or of a target: an entry of the array, as the verifier has proven."""
        counts = form.constant >= 0 and all(factor > 0 and atom in self.counted for atom, factor in form.terms)
        return self.form(form) if counts else f"at({self.form(form)})"

    def power(self, base: Scalar, exponent: Scalar) -> tuple[str, int]:
        form = integer_form(exponent)
        if isinstance(exponent, Number) or form is None:
            return super().power(base, exponent)
        # Products by squaring: in loops of few steps, LLVM sees how many. Of 0, Numba raises no negative power.
        value = self.scalar(base, POWER + 1)
        text = f"{value}**({self.form(form)})"
        if form.constant < 0 or any(v not in self.counted or c < 0 for v, c in form.terms):
            text += f" if {self.form(form)} >= 0 else real(1)/{value}**({self.form(-1 * form)})"
        return f"real({text})", ATOM

    def head_text(self, statement: Loop | If) -> str:
        if isinstance(statement, If) or statement.step == 1:
            return super().head_text(statement)
        assert isinstance(statement.step, int)
        low, stop = self.lower(statement.lows), self.stop(statement.highs)
        span = f"{low}, {stop}, {statement.step}"
        if statement.step < 0:
            below = self.lower(statement.lows) + " - 1" if low != "0" else "-1"
            span = f"{stop} - 1, {below}, {statement.step}"
        return f"for {self.names(statement.variable)} in range({span}):"

    def statement(self, statement: Statement, depth: int) -> None:
        if isinstance(statement, Loop):
            self.line(depth, self.head_text(statement))
            low = statement.lows[0].form
            counts = len(statement.lows) == 1 and low.is_constant and low.constant >= 0 and statement.step != -1
            outside = self.counted
            self.counted = outside | {statement.variable} if counts else outside - {statement.variable}
            self.loop_depth += 1
            self.body(statement.body, depth + 1)
            self.loop_depth -= 1
            self.counted = outside
        elif isinstance(statement, Alloc):
            shape = ", ".join(map(self.integer_text, statement.shape))
            text = f"({shape})" if len(statement.shape) > 1 else shape
            self.line(depth, f"{self.names(statement.name)} = np.empty({text}, {self.names(statement.like)}.dtype)")
        else:
            super().statement(statement, depth)

    def set_text(self, statement: Set) -> str:
        target, value = statement.target, statement.value
        if isinstance(target, Name) and not isinstance(value, Ends):
            if not statement.reduction:
                self.defined[target.name] = self.loop_depth
            elif statement.reduction == "sum" and self.defined.get(target.name, 0) < self.loop_depth:
                # The factors of a product stay in order: 0*1e200*1e200 is 0, 0*(1e200*1e200) is nan.
                return f"{self.name(target.name)} = plus({self.name(target.name)}, {self.scalar(value)})"
        return super().set_text(statement)


def function_text(step: Kernel | Fused, nest: Nest, names: Names, block: tuple[str, str] | None) -> str:
    """The function of a step, or the one that computes a block of it, without decorator."""
    first = step.kernels[0] if isinstance(step, Fused) else step
    printer = NumbaPrinter(names, first, nest.bare)
    printer.line(0, head_text(step, names, block or ()))
    if isinstance(step, Fused):
        entries = [f"{INDENT}{_entry_text(step, kernel, names)}" for kernel in step.kernels]
        printer.lines += [f'{INDENT}"""Fill, for one {names(step.axis)} after the other:', "", *entries, f'{INDENT}"""']
    else:
        printer.line(1, f'"""{task_text(step, names)}."""')
    printer.line(1, f"real = {names(filled_arrays(step)[0])}.dtype.type")
    printer.body((*nest.arrays, *nest.body), 1)
    return "\n".join(without_unused_real(printer.lines))


def _entry_text(step: Fused, kernel: Kernel, names: Names) -> str:
    """The entries of a kernel, for the comment."""
    kept = ", of which one row is kept" * any(array.name == kernel.array for array in step.rows)
    added = ", to which each adds" * (kernel.array in step.totals)
    axes = f"[{', '.join(map(names, kernel.axes))}]" if kernel.axes else ""
    return f"{names(kernel.array)}{axes}{kept}{added}"


# ---------------------------------------------------------------------------- blocks on several cores
# Kernels on several cores: the loop over blocks of the first axis, for Numba.
#
# One function computes the entries of a block, whichever thread calls it: that makes no difference to
# a result.


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
    if isinstance(step, Contraction | Trapezoid):
        return bool(step.output)
    if isinstance(step, Fused):
        return all(is_plain_total(kernel) for kernel in step.kernels if kernel.array in step.totals)
    if not isinstance(step, Kernel) or isinstance(step, Scatter | Table):
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
