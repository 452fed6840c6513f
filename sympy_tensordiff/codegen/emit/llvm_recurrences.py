"""Recurrences in LLVM modules: a loop over time that calls the functions of the steps of its body.

The rows of sequences and of stacked results are pointers into whole arrays. A result that is the next state has two
buffers, which take turns, unless all of its values are stacked: then a state is the row that the step before has
filled. Only numbers, and the last value of a result that is stored, are copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Any

from sympy_tensordiff.codegen.emit.driver import Temporaries
from sympy_tensordiff.codegen.emit.forms import FormNames, FormPrinter
from sympy_tensordiff.codegen.emit.llvm import Module, is_number
from sympy_tensordiff.codegen.emit.llvm_nests import MAX_STACK_BYTES, LlvmNestPrinter
from sympy_tensordiff.codegen.ir.programs import Program, Recurrence, Step
from sympy_tensordiff.codegen.ir.steps import Shapes
from sympy_tensordiff.integer.affine import Affine


class LlvmRecurrencePrinter(LlvmNestPrinter):
    """Prints the function of a recurrence: a loop over time that calls the functions of the body's steps.

    ``body`` is its body in printed form, ``functions`` are the functions of its steps.
    """

    def __init__(
        self, module: Module, shapes: Shapes, step: Recurrence, body: Program, functions: Sequence[tuple[Step, Any]]
    ) -> None:
        super().__init__(module, shapes, frozenset(), frozenset())
        self.step, self.body, self.functions = replace(step, body=body), body, functions
        self.forms: dict[Any, Affine] = dict(step.integers)
        self.pointers: dict[str, str] = {}
        """The pointers of arrays of the body; those of states and of results with buffers are slots."""
        self.slotted: set[str] = set()
        self.numbers: dict[str, str] = {}
        """The pointers of numbers that the body has as arguments."""
        self.given = {a.name: a.shape for a in body.arguments}
        self.results = {a.name: a.shape for a in body.outputs}
        self.stacked = {one.result: one.array for one in step.recorded if one.kind == "stack"}
        self.states: dict[str, str] = {}
        """The slots of the pointers of states."""
        self.buffers: dict[str, tuple[str, str]] = {}
        """The two buffers of each result that is a state."""
        self.lasts: dict[str, str] = {}
        """The slots of the pointers of the last values that are kept, by array."""

    def form_in_body(self, form: Affine) -> str:
        """Emit the value of `form`, an integer form over the sizes of a time step, and return it."""
        return self.form(form.substitute(self.forms))

    def count_entries_in_body(self, shape: Sequence[Affine]) -> str:
        """Emit the product of the extents `shape` of an array, computed in the body of a time step, and return the LLVM
        value: the array's number of entries.
        """
        return reduce(self.times, [self.greatest(["0", self.form_in_body(extent)]) for extent in shape], "1")

    def body_variable(self, name: str) -> Affine:
        """Return the integer `name` of a time step as a variable under a new name, so that it differs from all
        variables of the enclosing program.
        """
        return Affine.variable(f"body {name}")

    def print_recurrence(self) -> None:
        """Append the LLVM instructions of a recurrence: the loop over time."""
        step = self.step
        self.add_code_slot()
        length = self.form(step.length)
        self.prepare_arguments()
        self.prepare_results()
        temporaries = Temporaries(self.body, FormPrinter(FormNames((), ())))
        with self.loop("0", length, -1 if step.is_reversed else 1) as time:
            self.move_to(time)
            for inner, function in self.functions:
                rows = [row.substitute(self.forms) for row in temporaries.work_constraints(inner)]
                with self.when(*(partial(self.condition, row) for row in rows)):
                    self.run_step(function)
            self.record(time)
            self.exchange()
        for one in step.recorded:
            if one.kind == "last":
                last = self.new(f"load ptr, ptr {self.lasts[one.array]}")
                self.copy(self.base(one.array), last, self.count_entries_in_body(self.results[one.result]))

    def prepare_arguments(self) -> None:
        """Emit code for the sizes in the recurrence's body, and for the pointers to constants and first states."""
        self.compute_sizes(timed=False)
        for name, array in self.step.constants:
            self.point(name, self.base(array))
        for state in self.step.carried:
            name = state.argument
            if not self.given[name]:
                self.numbers[name] = self.slot(self.module.real)
                self.copy(self.numbers[name], self.base(state.initial), "1")
                continue
            self.states[name] = self.slot("ptr")
            self.line(f"store ptr {self.base(state.initial)}, ptr {self.states[name]}")
            self.point(name, self.states[name])
            self.slotted.add(name)

    def compute_sizes(self, timed: bool) -> None:
        """Emit code that computes sizes of a time step: those that change with the time if ``timed`` is True, else all
        others.
        """
        for size in self.body.sizes:
            if (size.name in self.step.timed) == timed:
                ends = [self.form_in_body(form) for form in size.lows or size.highs]
                self.forms[size.name] = self.body_variable(size.name)
                self.values[f"body {size.name}"] = self.greatest(ends, "smax" if size.lows else "smin")

    def point(self, name: str, pointer: str) -> None:
        """Record ``pointer`` as the address from which a time step reads its argument `name`, an array or a scalar."""
        (self.pointers if self.given[name] else self.numbers)[name] = pointer

    def prepare_results(self) -> None:
        """Emit code that allocates temporaries and buffers for results, and fills the sums with zeros."""
        for array in self.body.temporaries:
            self.pointers[array.name] = self.memory(array.name, array.shape)
        carried = {state.result for state in self.step.carried if self.given[state.argument]}
        for name, shape in self.results.items():
            if name not in self.stacked:
                self.pointers[name] = first = self.memory(name, shape)
                if name in carried:
                    self.buffers[name] = first, self.memory(f"{name} next", shape)
                    self.pointers[name] = self.slot("ptr")
                    self.slotted.add(name)
                    self.line(f"store ptr {first}, ptr {self.pointers[name]}")
        for one in self.step.recorded:
            if one.kind == "last":
                self.lasts[one.array] = self.slot("ptr")
            elif one.kind == "sum":
                self.fill_zeros(self.base(one.array), self.count_entries_in_body(self.results[one.result]))

    def move_to(self, time: str) -> None:
        """Begin the time step ``time``: emit the addresses of its rows in the arrays that store values for all times;
        the body reads and fills these rows.
        """
        self.set_time(time)
        for name, array in self.step.rows:
            self.point(name, self.row(array, time, self.given[name]))
        for name, array in self.stacked.items():
            self.pointers[name] = self.row(array, time, self.results[name])

    def set_time(self, time: str) -> None:
        """Record ``time`` as the current time of a recurrence, and emit code for the sizes that depend on the time.
        Nothing is done if the step does not use the time.
        """
        if self.step.time:
            self.forms[self.step.time] = self.body_variable("time")
            self.values["body time"] = time
            self.compute_sizes(timed=True)

    def row(self, array: str, time: str, shape: Sequence[Affine]) -> str:
        """Emit the address of the row for one time in an array that stores values at all times, and return the pointer.
        ``shape`` is the shape of a row.
        """
        return self.pointer_at(self.base(array), self.times(time, self.count_entries_in_body(shape)))

    def record(self, time: str) -> None:
        """Emit code that stores the results of one time step in the results of the recurrence: adds them to a sum,
        copies them to the row for ``time`` of a stack, or notes the pointer to a last value.
        """
        for one in self.step.recorded:
            shape = self.results[one.result]
            if one.kind == "sum":
                self.add_to(self.base(one.array), self.place(one.result), self.count_entries_in_body(shape))
            elif one.kind == "last":
                self.line(f"store ptr {self.place(one.result)}, ptr {self.lasts[one.array]}")
            elif self.stacked[one.result] != one.array:
                self.copy(self.row(one.array, time, shape), self.place(one.result), self.count_entries_in_body(shape))

    def exchange(self) -> None:
        """Emit code that makes the results of a step the states of the next one, by exchanging the pointers to their
        buffers.
        """
        for state in self.step.carried:
            if state.argument in self.states:
                self.line(f"store ptr {self.place(state.result)}, ptr {self.states[state.argument]}")
            else:
                self.copy(self.numbers[state.argument], self.place(state.result), "1")
        for name, (first, second) in self.buffers.items():
            is_first = self.new(f"icmp eq ptr {self.place(name)}, {first}")
            other = self.new(f"select i1 {is_first}, ptr {second}, ptr {first}")
            self.line(f"store ptr {other}, ptr {self.pointers[name]}")

    def run_step(self, function: Any) -> None:
        """Emit a call of `function`, which computes one kernel or library call of the recurrence's time step."""
        self.values |= dict(zip(function.ends, ("0", self.form_in_body(function.extent)), strict=True))
        self.add_code(self.call_step(function, self.argument_value))

    def argument_value(self, name: str, kind: str) -> str:
        """Emit the pointer or value to pass for `name`, a parameter of a function of the time step, and return it.
        ``kind`` is "a" for an array, "i" for an integer, "r" for a real number.
        """
        if kind == "a":
            return self.place(name)
        if kind == "i":
            return self.values[name] if name in self.values else self.form_in_body(Affine.variable(name))
        pointer = self.numbers[name]
        pointer = self.new(f"load ptr, ptr {pointer}") if name in self.slotted else pointer
        return self.new(f"load {self.module.real}, ptr {pointer}")

    def place(self, name: str) -> str:
        """Return the pointer to the array `name` of the time step. If a stack slot contains the pointer, because
        buffers are exchanged, emit its load first.
        """
        pointer = self.pointers[name]
        return self.new(f"load ptr, ptr {pointer}") if name in self.slotted else pointer

    # -------------------------------------------------------------- memory

    def memory(self, name: str, shape: Sequence[Affine]) -> str:
        """Emit the allocation of the array `name` of a time step, on the stack if it is small; return its pointer."""
        entries = self.most_entries(shape) if self.step.is_timed(shape) else self.count_entries_in_body(shape)
        if is_number(entries) and int(entries) * self.module.size <= MAX_STACK_BYTES:
            return self.slot(f"[{entries} x {self.module.real}], align 64")
        return self.allocate(f"body {name}", [extent.substitute(self.forms) for extent in shape], entries)

    def most_entries(self, shape: Sequence[Affine]) -> str:
        """Emit code that computes the greatest number of entries that an array of the recurrence's body, with this
        `shape`, has in any time step. Return its value.
        """
        most, forms, values = self.slot("i64"), dict(self.forms), dict(self.values)
        self.line(f"store i64 0, ptr {most}")
        with self.loop("0", self.form(self.step.length)) as time:
            self.set_time(time)
            entries = self.greatest([self.new(f"load i64, ptr {most}"), self.count_entries_in_body(shape)])
            self.line(f"store i64 {entries}, ptr {most}")
        self.forms, self.values = forms, values
        return self.new(f"load i64, ptr {most}")

    def fill_zeros(self, target: str, count: str) -> None:
        """Emit instructions that fill ``count`` entries at ``target`` with zeros."""
        self.module.declare("llvm.memset.p0.i64", "void", ["ptr", "i8", "i64", "i1"])
        size = self.times(count, str(self.module.size))
        self.line(f"call void @llvm.memset.p0.i64(ptr {target}, i8 0, i64 {size}, i1 false)")

    def copy(self, target: str, source: str, count: str) -> None:
        """Emit instructions that copy ``count`` entries from ``source`` to ``target``."""
        self.module.declare("llvm.memcpy.p0.p0.i64", "void", ["ptr", "ptr", "i64", "i1"])
        size = self.times(count, str(self.module.size))
        self.line(f"call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {source}, i64 {size}, i1 false)")

    def add_to(self, target: str, source: str, count: str) -> None:
        """Emit instructions that add ``count`` entries at ``source`` to those at ``target``."""
        real = self.module.real
        with self.loop("0", count) as place:
            pointer = self.pointer_at(target, place)
            own = self.new(f"load {real}, ptr {pointer}")
            other = self.new(f"load {real}, ptr {self.pointer_at(source, place)}")
            self.line(f"store {real} {self.new(f'fadd {real} {own}, {other}')}, ptr {pointer}")
