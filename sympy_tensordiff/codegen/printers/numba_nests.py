"""Scheduled loop nests as functions for Numba."""

from __future__ import annotations

from sympy_tensordiff.codegen.loops import Alloc, Ends, Fused, If, Kernel, Loop, Set, Statement
from sympy_tensordiff.codegen.printers.blocks import INDENT
from sympy_tensordiff.codegen.printers.driver import task_text, without_unused_real
from sympy_tensordiff.codegen.printers.elementary import FUNCTIONS
from sympy_tensordiff.codegen.printers.forms import ATOM, POWER, Names
from sympy_tensordiff.codegen.printers.nests import NestPrinter
from sympy_tensordiff.codegen.printers.parallel import head_text
from sympy_tensordiff.codegen.scalars import IndexValue, Name, Number, Operation, Scalar
from sympy_tensordiff.codegen.schedule.cpu import Nest
from sympy_tensordiff.codegen.walk import filled_arrays
from sympy_tensordiff.integer.affine import Affine


def integer_form(value: Scalar) -> Affine | None:
    """A value as an integer form; None where it is none.

    >>> k = Affine.variable("k")
    >>> print(integer_form(Operation("add", (IndexValue(k), Number(-1)))))
    k - 1
    """
    if isinstance(value, IndexValue):
        return value.form
    if isinstance(value, Number) and isinstance(value.value, int):
        return Affine.of(value.value)
    if not isinstance(value, Operation) or value.function not in ("add", "neg"):
        return None
    total = Affine()
    for part in map(integer_form, value.arguments):
        if part is None:
            return None
        total += part
    return total if value.function == "add" else total * -1


class NumbaPrinter(NestPrinter):
    """Nests of `Loop`, `If`, `Set` and `Alloc`."""

    functions = NestPrinter.functions | {"floor": "np.floor", "ceil": "np.ceil"} | {name: name for name in FUNCTIONS}
    functions |= {"real": "real", "double": "np.float64"}

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
        # Products by squaring: in loops of few steps, LLVM sees how many.
        return f"real({self.scalar(base, POWER + 1)}**({self.form(form)}))", ATOM

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
