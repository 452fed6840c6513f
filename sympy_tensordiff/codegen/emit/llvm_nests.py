"""Scheduled loop nests as functions in the language of LLVM.

A nest knows every type, bound and alias: scalars are slots on the stack, of which LLVM makes registers, loop variables
are values, arrays are pointers without aliases whose strides come from their shapes. Sizes, arrays and numbers that a
function turns out to use become its parameters, so that functions that differ in names alone have the same text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial, reduce

from sympy_tensordiff.codegen.emit.llvm import FLAGS, VECTORS, is_number
from sympy_tensordiff.codegen.emit.llvm_scalars import ScalarPrinter
from sympy_tensordiff.codegen.ir.loops import Alloc, If, Loop, Set, Statement
from sympy_tensordiff.codegen.ir.scalars import EXTREMA, Ends, Load, Name
from sympy_tensordiff.codegen.ir.walk import statements
from sympy_tensordiff.integer.affine import Affine

LONG = 32
"""Loops of more turns, a known number, and without branches gain nothing from being unrolled but vectors side by side.

LLVM makes thousands of instructions of a copy of columns: the row mttkrp is compiled in 0.2 s, otherwise in 3.3 s.
"""


WIDTH = 64
"""The bytes of the widest vectors.

LLVM unrolls a loop over a row of one or a few vectors, and then makes vectors of the loop around it, whose entries it
gathers: the row network-hessian-4 takes 1.2 of the time.
"""

SMALL = 2**14
"""Arrays of a nest with a known number of bytes, at most these, are on the stack, where lines of the cache begin.

The row fir takes 0.87 of the time with memory of malloc, whose vectors lie in two lines each.
"""


class NestPrinter(ScalarPrinter):
    """The function of a step, with statements."""

    def nest(self, arrays: Sequence[Alloc], body: Sequence[Statement]) -> None:
        """The instructions of a nest."""
        sets = [s for s in statements(body) if isinstance(s, Set) and isinstance(s.value, Ends)]
        self.changing = frozenset(s.name for s in sets)
        for alloc in arrays:
            extents = [self.greatest(["0", self.ends(ends)]) for ends in alloc.shape]
            self.shapes[alloc.name] = tuple(_extent(ends) for ends in alloc.shape)
            entries = reduce(self.times, extents, "1")
            if is_number(entries) and int(entries) * self.module.size <= SMALL:
                self.arrays[alloc.name] = self.slot(f"[{entries} x {self.module.real}], align 64")
            else:
                self.array(alloc.name, self.shapes[alloc.name], entries)
        self.body(body)

    def body(self, body: Iterable[Statement]) -> None:
        """The instructions of statements."""
        for statement in body:
            if isinstance(statement, Loop):
                self.print_loop(statement)
            elif isinstance(statement, If):
                with self.when(*(partial(self.condition, row) for row in statement.conditions)):
                    self.body(statement.body)
            else:
                assert isinstance(statement, Set)
                self.print_set(statement)

    def print_loop(self, loop: Loop) -> None:
        """The instructions of a loop."""
        assert isinstance(loop.step, int)
        low, stop = self.low(loop.lows), self.stop(loop.highs)
        count = int(stop) - int(low) if is_number(low) and is_number(stop) else 0
        with self.loop(low, stop, loop.step, self.vectors(count, loop.body)) as variable:
            self.values[loop.variable] = variable
            self.depth += 1
            self.body(loop.body)
            self.depth -= 1

    def vectors(self, count: int, body: Sequence[Statement]) -> int:
        """Return how many vectors a loop with a known number of turns computes side by side; 0 where LLVM decides."""
        is_entrywise = all(isinstance(one, Set) and isinstance(one.target, Load) for one in body)
        whole = count * self.module.size // WIDTH
        if any(isinstance(one, Loop | If) for one in body) or not (count > LONG or (is_entrywise and whole)):
            return 0
        return next(number for number in (VECTORS, 2, 1) if number <= whole or number == 1)

    def print_set(self, statement: Set) -> None:
        """The instructions that set a value, or take one more into a reduction."""
        target, reduction = statement.target, statement.reduction
        value = self.scalar(statement.value)
        is_name = isinstance(target, Name) or target.array in self.bare
        if is_name:
            name = statement.name
            if name not in self.scalars:
                self.scalars[name] = self.slot(value[1]), value[1]
            pointer, kind = self.scalars[name]
        else:
            assert isinstance(target, Load)
            pointer, kind = self.place(target.array, target.index), self.kind(target.array)
        if not reduction and is_name:
            self.defined[statement.name] = self.depth
        if reduction:
            own = self.new(f"load {kind}, ptr {pointer}"), kind
            if reduction == "any":
                value = self.new(f"or i1 {own[0]}, {value[0]}"), "i1"
            elif kind == "i64":
                value = self.greatest([own[0], value[0]], f"s{reduction}"), kind
            elif reduction in EXTREMA:
                value = self.extreme(reduction, own, value)
            else:
                is_free = reduction == "sum" and is_name and self.defined.get(statement.name, 0) < self.depth
                flags = f"reassoc {FLAGS}" if is_free else FLAGS
                value = self.binary("fadd" if reduction == "sum" else "fmul", own, value, flags)
        self.line(f"store {kind} {self.converted(value, kind)}, ptr {pointer}")


def _extent(ends: Ends) -> Affine:
    """The extent of an array of a nest, or a bound of it."""
    found = [bound.form + (not ends.lows) for bound in (ends.lows or ends.highs)]
    return next((form for form in found if not form.is_constant), found[0])
