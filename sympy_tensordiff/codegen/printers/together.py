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
from sympy_tensordiff.codegen.printers.sums import PART, in_rounds
from sympy_tensordiff.codegen.rename import Renaming
from sympy_tensordiff.codegen.scalars import Name
from sympy_tensordiff.integer.affine import Affine, Row


class Inner(Protocol):
    """A printer of one kernel, in so far as it is needed here."""

    lines: list[str]
    running: dict[str, str]
    loop_depth: int
    is_within: bool

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
        self.starts: list[str] = []
        """What begins the part of each sum, for so many turns."""
        self.inside: list[str] = []
        self.ends: list[str] = []
        self.after: list[str] = []
        has_vectors = not any(map(self.has_loops, step.kernels))
        self.depth = 2 + (has_vectors and any(map(self.adds, step.kernels)))

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
        if self.depth > 2:
            low = names.fresh(f"{names(step.axis)}_low")
            self.starts.insert(0, f"{INDENT}for {low} in range({span if block else f'0, {span}'}, {PART}):")
            span = f"{low}, min({low} + {PART}, {block[1] if block else span})"
        loop = [f"{INDENT * (self.depth - 1)}for {names(step.axis)} in range({span}):"]
        lines = [*head, *self.before, *self.starts, *loop, *self.inside, *self.ends, *self.after]
        return "\n".join(without_unused_real(lines))

    def has_loops(self, kernel: Kernel) -> bool:
        """Whether there is a loop for a kernel in each turn."""
        is_total = kernel.array in self.step.totals
        body = next(s.body for s in kernel.body if isinstance(s, Loop)) if is_total else kernel.body
        return len(kernel.axes) > (not is_total) or in_rounds(body)

    def adds(self, kernel: Kernel) -> bool:
        """Whether a kernel is one sum, perhaps a long one, to which each turn adds."""
        if kernel.array not in self.step.totals or kernel.axes:
            return False
        few = self.step.extent.is_constant and self.step.extent.constant <= PART
        return not few and next(s for s in kernel.body if isinstance(s, Accumulator)).reduction == "sum"

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
        printer.is_within = True
        if not self.is_block and self.depth == 2:
            printer.counted.add(self.step.axis)
        return printer

    def row(self, kernel: Kernel) -> None:
        """One row of a kernel in each turn."""
        outer = () if kernel.array in self.rows else (self.step.axis,)
        printer = self.printer(replace(kernel, axes=kernel.axes[1:]), outer)
        printer.buffers(1)
        self.before += printer.lines
        printer.lines = []
        printer.nest(self.depth)
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
        if self.adds(kernel):
            place = f"real({self.add_parts(replace(kernel, body=loop.body), accumulator.name)})"
        else:
            self.before.append(f"{INDENT}{array}[:] = {start}" if kernel.axes else f"{INDENT}{own} = real({start})")
            self.inside += self.added(replace(kernel, body=loop.body), {accumulator.name: place}, self.depth)
        if not kernel.axes or store.value != Name(accumulator.name):
            self.after += self.added(replace(kernel, body=(store,)), {accumulator.name: place}, 1)

    def add_parts(self, kernel: Kernel, accumulator: str) -> str:
        """The name of a total, with the lines in which turns add to parts of it (`sums`)."""
        own = self.names(accumulator)
        total, part = self.names.fresh(f"{own}_total"), self.names.fresh(f"{own}_part")
        self.before.append(f"{INDENT}{total} = 0.0")
        start, end = f"{part} = real(0)", f"{total} += {part}"
        lines = self.added(kernel, {accumulator: part}, self.depth)
        if self.depth == 2:
            inner = INDENT * self.depth
            self.inside += [inner + start, *lines, inner + end]
        else:
            self.starts.append(INDENT * 2 + start)
            self.inside += lines
            self.ends.append(INDENT * 2 + end)
        return total

    def added(self, kernel: Kernel, places: dict[str, str], depth: int) -> list[str]:
        """The lines of a kernel in a turn or behind the last, with accumulators at other ``places``."""
        printer = self.printer(kernel)
        printer.running |= places
        printer.loop_depth = int(not kernel.axes and depth > 1)
        printer.nest(depth)
        return printer.lines
