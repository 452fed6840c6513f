"""Kernels that run together as one Numba function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from sympy_tensordiff.codegen.facts import Prover
from sympy_tensordiff.codegen.loops import Accumulator, Fused, Kernel, Loop, Store
from sympy_tensordiff.codegen.printers.base import start_text
from sympy_tensordiff.codegen.printers.blocks import INDENT
from sympy_tensordiff.codegen.printers.driver import without_unused_real
from sympy_tensordiff.codegen.printers.forms import FormPrinter, Names
from sympy_tensordiff.codegen.printers.parallel import block_ends, head_text
from sympy_tensordiff.codegen.rename import Renaming
from sympy_tensordiff.codegen.scalars import Name
from sympy_tensordiff.integer.affine import Affine, Row


class Inner(Protocol):
    """A printer of one kernel, in so far as it is needed here."""

    lines: list[str]
    running: dict[str, str]
    loop_depth: int

    @property
    def counted(self) -> set[str]:
        """The names of integers that begin at 0 or above."""

    def buffers(self, depth: int) -> None:
        """Append the lines that make rows."""

    def nest(self, depth: int) -> None:
        """Append the loops."""


class Together:
    """Prints a fused step; ``printer`` makes the printer of a kernel, with scalar arrays and with axes around it."""

    def __init__(
        self,
        step: Fused,
        names: Names,
        bare: frozenset[str],
        prover: Prover,
        printer: Callable[[Kernel, frozenset[str], tuple[str, ...]], Inner],
        is_block: bool = False,
    ) -> None:
        self.step = step
        self.names = names
        self.prover = prover
        self.rows = frozenset(array.name for array in step.rows)
        self.bare = bare.union(array.name for array in step.rows if not array.shape)
        self.make_printer = printer
        self.is_block = is_block
        self.block = block_ends(names) if is_block else ()
        self.before: list[str] = []
        self.inside: list[str] = []
        self.after: list[str] = []

    def print(self) -> str:
        """The text of the function."""
        step, names, block = self.step, self.names, self.block
        for kernel in step.kernels:
            if kernel.array in step.totals:
                self.total(kernel)
            else:
                self.row(kernel)
        head = [
            head_text(step, names, block),
            f'{INDENT}"""Fill, for one {names(step.axis)} after the other:',
            "",
            *(f"{INDENT}{self.entry_text(kernel)}" for kernel in step.kernels),
            f'{INDENT}"""',
            f"{INDENT}real = {names(step.filled[0])}.dtype.type",
        ]
        for array in step.rows:
            if array.shape:
                shape = [self.length(extent) for extent in array.shape]
                text = f"({', '.join(shape)})" if len(shape) > 1 else shape[0]
                head.append(f"{INDENT}{names(array.name)} = np.empty({text}, {names(step.filled[0])}.dtype)")
        span = ", ".join(block) or FormPrinter(names).form(step.extent)
        loop = [f"{INDENT}for {names(step.axis)} in range({span}):"]
        return "\n".join(without_unused_real([*head, *self.before, *loop, *self.inside, *self.after]))

    def entry_text(self, kernel: Kernel) -> str:
        """The entries of a kernel, for the comment."""
        kept = ", of which one row is kept" * (kernel.array in self.rows)
        added = ", to which each adds" * (kernel.array in self.step.totals)
        axes = f"[{', '.join(map(self.names, kernel.axes))}]" if kernel.axes else ""
        return f"{self.names(kernel.array)}{axes}{kept}{added}"

    def length(self, extent: Affine) -> str:
        """An extent as text, not below 0."""
        text = FormPrinter(self.names).form(extent)
        return text if self.prover.proves(Row("ge", extent)) else f"max(0, {text})"

    def printer(self, kernel: Kernel, outer: tuple[str, ...] = ()) -> Inner:
        """A printer of a kernel inside of the loop, which has lost the axis of the loop."""
        body = Renaming({}, self.rows).body(kernel.body)
        printer = self.make_printer(replace(kernel, body=body), self.bare, outer)
        if not self.is_block:
            printer.counted.add(self.step.axis)
        return printer

    def row(self, kernel: Kernel) -> None:
        """One row of a kernel in each turn."""
        outer = () if kernel.array in self.rows else (self.step.axis,)
        printer = self.printer(replace(kernel, axes=kernel.axes[1:]), outer)
        printer.buffers(1)
        self.before += printer.lines
        printer.lines = []
        printer.nest(2)
        self.inside += printer.lines

    def total(self, kernel: Kernel) -> None:
        """A sum over the turns: each adds to all entries."""
        (accumulator,) = (s for s in kernel.body if isinstance(s, Accumulator))
        (loop,) = (s for s in kernel.body if isinstance(s, Loop))
        store = kernel.body[-1]
        assert isinstance(store, Store)
        array, start = self.names(kernel.array), start_text(accumulator.reduction)
        own = self.names(accumulator.name)
        axes = ", ".join(map(self.names, kernel.axes))
        place = f"{array}[{axes}]" if kernel.axes else own
        self.before.append(f"{INDENT}{array}[:] = {start}" if kernel.axes else f"{INDENT}{own} = real({start})")
        printer = self.printer(replace(kernel, body=loop.body))
        printer.running[accumulator.name] = place
        printer.loop_depth = int(not kernel.axes)
        printer.nest(2)
        self.inside += printer.lines
        if not kernel.axes or store.value != Name(accumulator.name):
            printer = self.printer(replace(kernel, body=(store,)))
            printer.running[accumulator.name] = place
            printer.nest(1)
            self.after += printer.lines
