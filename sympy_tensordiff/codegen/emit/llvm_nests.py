"""Scheduled loop nests as LLVM functions.

A nest has all types, bounds and aliases: scalars are stack slots, which LLVM turns into registers, loop variables are
values, arrays are pointers without aliases with strides from their shapes. Sizes, arrays and numbers become parameters
on their first use, so that functions that differ only in names have the same text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial, reduce

from sympy_tensordiff.codegen.emit.llvm import FLAGS, MAX_INTERLEAVED_VECTORS, UNROLLED_ITERATIONS, is_number
from sympy_tensordiff.codegen.emit.llvm_scalars import LlvmScalarPrinter
from sympy_tensordiff.codegen.ir.facts import is_vectorised
from sympy_tensordiff.codegen.ir.loops import Alloc, If, Loop, Set, Statement, defines
from sympy_tensordiff.codegen.ir.rare_loops import (
    condition_of_loop,
    conditions_outside,
    without_condition,
    without_conditions,
)
from sympy_tensordiff.codegen.ir.scalars import EXTREMA, Ends, Load, Name, Operation
from sympy_tensordiff.codegen.ir.walk import forms, loads, loops, scalars, statements
from sympy_tensordiff.codegen.schedule.rows import has_few_steps, run_of
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.indirect import compounds_in, data_entries
from sympy_tensordiff.integer.products import SymbolicQuotient

MIN_ROLLED_TRIPS = 32
"""The constant number of iterations from which a loop without branches is interleaved, but not unrolled completely.

LLVM would unroll a copy of columns into thousands of instructions: the row mttkrp compiles in 0.2 s instead of 3.3 s.
"""


MAX_VECTOR_BYTES = 64
"""The bytes of the widest vectors.

LLVM unrolls a loop over a row of one or a few vectors, and then vectorises the enclosing loop with gathers: the row
network-hessian-4 takes 1.2 of the time.
"""

MAX_STACK_BYTES = 2**14
"""The most bytes of an array of a nest on the stack, where it is aligned to cache lines.

The row fir takes 0.87 of the time with malloc, where each vector is in two cache lines.
"""


class LlvmNestPrinter(LlvmScalarPrinter):
    """The base of printers of a step's LLVM function that contains statements: it emits loops, conditions and
    assignments.
    """

    def print_nest(self, arrays: Sequence[Alloc], body: Sequence[Statement]) -> None:
        """Append the instructions of a loop nest: allocate its local ``arrays`` on the stack (small ones) or on the
        heap, then run the statements ``body``.
        """
        sets = [s for s in statements(body) if isinstance(s, Set) and isinstance(s.value, Ends)]
        self.changing = frozenset(s.name for s in sets)
        for alloc in arrays:
            extents = [self.greatest(["0", self.ends(ends)]) for ends in alloc.shape]
            self.shapes[alloc.name] = tuple(_upper_extent(ends) for ends in alloc.shape)
            entries = reduce(self.times, extents, "1")
            if is_number(entries) and int(entries) * self.module.size <= MAX_STACK_BYTES:
                self.arrays[alloc.name] = self.slot(f"[{entries} x {self.module.real}], align 64")
            else:
                self.allocate(alloc.name, self.shapes[alloc.name], entries)
        self.print_body(body)

    def print_body(self, body: Iterable[Statement]) -> None:
        """Append the LLVM instructions of the statements ``body``."""
        for statement in body:
            if isinstance(statement, Loop):
                if (test := condition_of_loop(statement)) is None:
                    self.print_loop_behind_conditions(statement)
                    continue
                condition = self.scalar(test)[0]
                with self.when(partial(str, condition)):
                    self.print_loop_behind_conditions(without_condition(statement, test))
            elif isinstance(statement, If):
                with self.when(*(partial(self.condition, row) for row in statement.conditions)):
                    self.print_body(statement.body)
            else:
                assert isinstance(statement, Set)
                self.print_set(statement)

    def print_loop_behind_conditions(self, loop: Loop) -> None:
        """Append the LLVM instructions of ``loop``. If it has an effect only where a loop-invariant condition is true,
        test this condition once, before the loop.
        """
        names = () if self.is_branch_free or has_few_steps(loop) else conditions_outside(loop)
        with self.when(*(partial(self.truth, name) for name in names)):
            self.print_loop(without_conditions(loop, names) if names else loop)

    def print_loop(self, loop: Loop) -> None:
        """Append the LLVM instructions of a loop and its body."""
        assert isinstance(loop.step, int)
        low, stop = self.low(loop.lows), self.stop(loop.highs)
        count = int(stop) - int(low) if is_number(low) and is_number(stop) else 0
        mark = self.interleaved_vectors(count, loop.body) if self.hoist_quotients(loop) else "0s"
        is_row = self.depth and not count and is_number(low) and loop.step == 1
        if is_row and mark == "0" and self.is_costly(loop):
            # LLVM would compute the rest of a row number by number, which is all of a short one.
            middle = self.last_multiple(low, stop, 2 * MAX_VECTOR_BYTES // self.module.size)
            self.print_range(loop, low, middle, mark)
            self.print_range(loop, middle, stop, "0p")
        else:
            self.print_range(loop, low, stop, mark)

    def print_range(self, loop: Loop, low: str, stop: str, mark: str) -> None:
        """Append the instructions of `loop` over the values from ``low`` up to, but not including, ``stop``. ``mark``
        is a hint for LLVM how to vectorise it, see `LOOP_MARK`.
        """
        assert isinstance(loop.step, int)
        around = self.is_branch_free
        self.is_branch_free = not any(isinstance(s, If) for s in statements(loop.body)) and all(
            map(has_few_steps, loops(loop.body))
        )
        with self.loop(low, stop, loop.step, mark) as variable:
            self.values[loop.variable] = variable
            self.depth += 1
            self.print_body(loop.body)
            self.depth -= 1
        self.is_branch_free = around

    def is_costly(self, loop: Loop) -> bool:
        """Return whether `loop`, an innermost loop without conditions, should run in vectors of iterations: it calls a
        function that LLVM computes in vectors, and all reads that depend on its variable are contiguous.

        Vectors of entries from different rows gain nothing: with two loops over such entries, the gradient of UMAP's
        loss takes 1.3 times as long.
        """
        if any(isinstance(one, Loop | If) for one in loop.body) or not any(map(is_vectorised, scalars(loop.body))):
            return False
        if any(data_entries(forms(loop.body))):
            return False
        places = ((load, run_of(load, loop.variable)) for load in loads(loop.body))
        own = [(load, run) for load, run in places if any(loop.variable in form.atoms() for form in load.index)]
        return all(run is not None and run == (len(load.index) - 1, 1) for load, run in own)

    def last_multiple(self, low: str, stop: str, count: int) -> str:
        """Emit the end of the last whole group of ``count`` iterations, a power of 2, in a loop from ``low`` to
        ``stop``, and return its value: ``low`` plus the greatest multiple of ``count`` that is not beyond ``stop``.
        """
        length = self.greatest(["0", self.new(f"sub nsw i64 {stop}, {low}")])
        whole = self.new(f"and i64 {length}, {-count}")
        return self.new(f"add nsw i64 {low}, {whole}")

    def hoist_quotients(self, loop: Loop) -> bool:
        """Emit the loop-invariant integer quotients in `loop` before the loop, if its body contains conditions. Return
        False if one of them cannot be moved: the loop must then not be vectorised, because LLVM 22.1 would miscompile
        it.
        """
        if not any(isinstance(one, If) for one in statements(loop.body)) and not any(
            isinstance(value, Operation) and value.function == "select" for value in scalars(loop.body)
        ):
            return True
        parts = [part for part in compounds_in(forms(loop.body)) if isinstance(part, SymbolicQuotient)]
        same = [part for part in parts if loop.variable not in part.atoms()]
        inside = {one.variable for one in loops(loop.body)} | {
            one.name for one in statements(loop.body) if defines(one)
        }
        ready = [part for part in same if inside.isdisjoint(map(str, part.atoms())) and not data_entries(part.forms())]
        for part in ready:
            self.form(Affine.variable(part))
        return len(ready) == len(same) and all(Affine.variable(part) in self.known for part in ready)

    def interleaved_vectors(self, count: int, body: Sequence[Statement]) -> str:
        """Return the number of vectors that LLVM should compute per iteration of a vectorised loop, as a hint (see
        `LOOP_MARK`); "0" lets LLVM decide. The loop has `count` iterations (0 if unknown) and the statements ``body``.
        """
        is_entrywise = all(isinstance(one, Set) and isinstance(one.target, Load) for one in body)
        whole = count * self.module.size // MAX_VECTOR_BYTES
        if any(isinstance(one, Loop | If) for one in body) or not (
            count > MIN_ROLLED_TRIPS or (is_entrywise and whole)
        ):
            return "0"
        if whole >= MAX_INTERLEAVED_VECTORS * UNROLLED_ITERATIONS:
            return f"{MAX_INTERLEAVED_VECTORS}u"
        return next(str(number) for number in (MAX_INTERLEAVED_VECTORS, 2, 1) if number <= whole or number == 1)

    def print_set(self, statement: Set) -> None:
        """Append the instructions of an assignment, or of an accumulator's update."""
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
            pointer, kind = self.entry_pointer(target.array, target.index), self.entry_type(target.array)
        if not reduction and is_name:
            self.defined[statement.name] = self.depth
            if kind == "i1":
                self.booleans[statement.name] = statement.value
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
        self.line(f"store {kind} {self.convert(value, kind)}, ptr {pointer}")


def _upper_extent(ends: Ends) -> Affine:
    """Return the length `ends` of a local array's axis, which may be a maximum or minimum of forms, as a single form:
    ``n`` for ``max(n, 0)``. It is the first form that is not constant, if there is one.
    """
    found = [bound.form + (not ends.lows) for bound in (ends.lows or ends.highs)]
    return next((form for form in found if not form.is_constant), found[0])
