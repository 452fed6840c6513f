"""Loop nests as Python text, row by row: sums over rows, windows that move with them, scans along them (`rows`).

A row that is a whole array, and so may be long, runs in strips, whose sums stay in the nearest cache.
"""

from __future__ import annotations

from collections.abc import Sequence

from sympy_tensordiff.codegen.facts import Prover
from sympy_tensordiff.codegen.loops import Accumulator, If, Kernel, Loop, Scatter, Statement
from sympy_tensordiff.codegen.printers.base import start_text
from sympy_tensordiff.codegen.printers.forms import Names
from sympy_tensordiff.codegen.printers.nests import NestPrinter
from sympy_tensordiff.codegen.printers.once import Entry, Once, entry_name, gathers_apart
from sympy_tensordiff.codegen.printers.parallel import block_ends
from sympy_tensordiff.codegen.printers.rows import STRIP, RowPlan, row_plan, untied
from sympy_tensordiff.codegen.printers.scans import Scan
from sympy_tensordiff.codegen.printers.short_rows import short_row
from sympy_tensordiff.codegen.scalars import Load
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.data import DataEntry

Ends = tuple[tuple[Affine, ...], tuple[Affine, ...]]
"""Entries of a row which are the first, and the last, of a loop: the greatest and the least of them are."""


class RowPrinter(NestPrinter):
    """A kernel whose sums over rows have the loop over the row inside of them."""

    def __init__(
        self,
        names: Names,
        kernel: Kernel,
        bare: frozenset[str],
        prover: Prover,
        outer: tuple[str, ...] = (),
        is_block: bool = False,
    ) -> None:
        super().__init__(names.copy() if is_block else names, kernel, bare)
        self.block: tuple[str, str] | tuple[()] = block_ends(self.names) if is_block else ()
        """The first entry of the first axis and the one past the last, of a function that fills a block."""
        self.outer = outer
        """Axes of the array in front of those of the kernel, over which something else loops."""
        self.rows = row_plan(kernel, prover)
        apart = gathers_apart(kernel, self.names.fresh) if self.rows is None else None
        if apart is not None:
            self.kernel, self.rows = apart
        self.strip = self.strip_ends() if not outer else ()
        has_short = self.rows is None and not (self.block and len(kernel.axes) == 1)
        self.short = short_row(kernel, prover, self.names.fresh) if has_short else None
        self.entry: Affine | None = None
        """The entry of a short row that is stored."""
        self.prover = prover
        self.once: dict[str, list[Entry]] = {}
        """What a pass of a loop reads first, by its variable."""
        self.kept: dict[Entry, str] = {}
        """The names of such entries."""
        self.running: dict[str, str] = {}
        """The names of accumulators in the pass that fills their arrays."""

    def begin(self, variable: str, depth: int) -> None:
        for entry in self.once.get(variable, ()):
            name = self.kept.pop(entry, "") or self.names.fresh(entry_name(entry))
            text = self.load(entry) if isinstance(entry, Load) else self.data(entry)
            self.line(depth, f"{name} = {text}")
            self.kept[entry] = name

    def data(self, entry: DataEntry) -> str:
        return self.kept.get(entry) or super().data(entry)

    def load(self, node: Load) -> str:
        return self.kept.get(node) or super().load(node)

    def extent(self, number: int) -> str:
        """The extent of an axis."""
        if isinstance(self.kernel, Scatter):
            return self.form(self.kernel.extents[number])
        return f"{self.names(self.kernel.array)}.shape[{len(self.outer) + number}]"

    def strip_ends(self) -> tuple[str, str] | tuple[()]:
        """Names for the ends of a strip of a row that is the whole array, and so may be long; none elsewhere."""
        if len(self.kernel.axes) != 1 or self.rows is None or self.rows.scans:
            return ()
        if self.block:
            return self.block
        self.names = self.names.copy()
        return self.names.fresh("first"), self.names.fresh("last")

    def buffers(self, depth: int) -> None:
        """Append the lines that make rows for what has one value for each entry of a row."""
        for name in sorted(self.rows.expanded) if self.rows is not None else ():
            length, array = self.extent(len(self.kernel.axes) - 1), self.names(self.kernel.array)
            if self.strip:
                length = f"{self.strip[1]} - {self.strip[0]}" if self.block else str(STRIP)
            self.line(depth, f"{self.names(name)} = np.empty({length}, {array}.dtype)")

    def nest(self, depth: int) -> None:
        """Append the loops over the axes and what runs inside of them."""
        body = (*self.short.body, *self.short.stores) if self.short is not None else self.kernel.body
        self.once = Once(self.kernel, body, self.outer, self.prover, self.rows).entries
        if any(self.once.values()):
            self.names = self.names.copy()
        self.begin("", depth)
        heads = []
        for number, axis in enumerate(self.kernel.axes):
            span = ", ".join(self.block) if self.block and not number else self.extent(number)
            heads.append(f"for {self.names(axis)} in range({span}):")
        for number, head in enumerate(heads[:-1]):
            self.line(depth + number, head)
            self.begin(self.kernel.axes[number], depth + number + 1)
        if self.short is not None:
            self.body(self.short.body, depth + len(heads) - 1)
            for number, store in enumerate(self.short.stores):
                self.entry = Affine({}, number)
                self.statement(store, depth + len(heads) - 1)
        elif self.rows is None and heads:
            self.loop(heads[-1], self.kernel.body, depth + len(heads) - 1, self.kernel.axes[-1])
        elif self.rows is None:
            self.body(self.kernel.body, depth)
        elif self.strip and not self.block:
            first, last = self.strip
            self.line(depth, f"for {first} in range(0, {self.extent(0)}, {STRIP}):")
            self.line(depth + 1, f"{last} = min({first} + {STRIP}, {self.extent(0)})")
            self.segments(self.rows, depth + 1)
        else:
            self.segments(self.rows, depth + len(heads) - 1)

    def segments(self, plan: RowPlan, depth: int) -> None:
        """Append the segments of a kernel that runs row by row."""
        for number, segment in enumerate(plan.segments):
            for scan in plan.scans if number == len(plan.segments) - 1 else ():
                self.scan(scan, depth)
            if segment.kind == "row":
                self.body(segment.body, depth)
            elif segment.kind == "sum":
                self.row_sum(segment.body, depth)
            else:
                whole = [s for s in segment.body if isinstance(s, Accumulator) and s.name in plan.expanded]
                for statement in whole:
                    self.line(depth, f"{self.names(statement.name)}[:] = {start_text(statement.reduction)}")
                self.along_row([s for s in segment.body if s not in whole], depth)

    def along_row(self, body: Sequence[Statement], depth: int, ends: Ends = ((), ())) -> None:
        """Append statements that run once per entry of a row, between ``ends`` of it."""
        if not body:
            return
        last = len(self.kernel.axes) - 1
        lows, stops = [self.form(low) for low in ends[0]], [self.form(high + 1) for high in ends[1]]
        begin, end = self.strip or ("0", self.extent(last))
        low = f"max({', '.join([begin, *lows])})" if lows else begin
        stop = f"min({', '.join([end, *stops])})" if stops else end
        span = stop if low == "0" else f"{low}, {stop}"
        axis = self.kernel.axes[last]
        self.loop(f"for {self.names(axis)} in range({span}):", body, depth, axis)

    def scan(self, scan: Scan, depth: int) -> None:
        """Append one pass along a row, which goes on with the loop of a scan from entry to entry."""
        loop, last = scan.loop, len(self.kernel.axes) - 1
        axis, variable, local = self.names(self.kernel.axes[last]), self.names(loop.variable), self.names.copy()
        extent = self.extent(last)
        low, stop = self.lower(loop.lows), self.stop(loop.highs)
        end = local.fresh(f"{variable}_{'low' if scan.downward else 'stop'}")
        self.line(depth, f"{end} = {stop if scan.downward else low}")
        for accumulator in scan.accumulators:
            self.running[accumulator.name] = local.fresh(f"{self.names(accumulator.name)}_so_far")
            self.line(depth, f"{self.running[accumulator.name]} = real({start_text(accumulator.reduction)})")
        span = f"{extent} - 1, -1, -1" if scan.downward else extent
        self.line(depth, f"for {axis} in range({span}):")
        if scan.conditions:
            self.line(depth + 1, self.head_text(If(scan.conditions, ())))
        inner = depth + 1 + bool(scan.conditions)
        self.line(inner, f"for {variable} in range({f'{low}, {end}' if scan.downward else f'{end}, {stop}'}):")
        self.loop_depth += 1
        self.body(loop.body, inner + 1)
        self.loop_depth -= 1
        self.line(inner, f"{end} = {f'min({end}, {low})' if scan.downward else f'max({end}, {stop})'}")
        for accumulator in scan.accumulators:
            running = self.running.pop(accumulator.name)
            self.line(inner, f"{self.name(accumulator.name)} = {running}")

    def row_sum(self, body: Sequence[Statement], depth: int, ends: Ends = ((), ())) -> None:
        """Append loops with the loop over the row inside of them, between ``ends`` of it."""
        assert self.rows is not None
        leaf: list[Statement] = []
        for statement in body:
            if not self.rows.planner.varies(statement):
                self.statement(statement, depth)
            elif isinstance(statement, Loop | If):
                self.along_row(leaf, depth, ends)
                leaf, inner = [], ends
                if isinstance(statement, Loop) and (window := untied(statement, self.rows.planner.axis)) is not None:
                    statement, inner = window.loop, ((*ends[0], *window.lows), (*ends[1], *window.highs))
                self.line(depth, self.head_text(statement))
                if isinstance(statement, Loop):
                    self.begin(statement.variable, depth + 1)
                self.row_sum(statement.body, depth + 1, inner)
            else:
                leaf.append(statement)
        self.along_row(leaf, depth, ends)

    def name(self, name: str) -> str:
        if name in self.running:
            return self.running[name]
        text = super().name(name)
        if self.rows is not None and name in self.rows.expanded:
            axis = self.names(self.kernel.axes[-1])
            return f"{text}[at({axis} - {self.strip[0]})]" if self.strip else f"{text}[{axis}]"
        return text
