"""Entry points of LLVM modules, which Python calls, and the tasks that threads run.

An entry point has Python's objects as arguments: it reads the pointers and lengths of arrays, converts numbers,
releases the interpreter lock, calls the functions of the steps in order, and raises the errors that they report.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf, prod

from sympy_tensordiff.codegen.emit.driver import Temporaries
from sympy_tensordiff.codegen.emit.forms import FormNames, FormPrinter
from sympy_tensordiff.codegen.emit.llvm import NO_MEMORY, OUTSIDE, SINGULAR, TOO_LARGE, Module
from sympy_tensordiff.codegen.emit.llvm_nests import LlvmNestPrinter
from sympy_tensordiff.codegen.emit.matrix_products import MIN_HALF_ROWS, MIN_PANEL_ROWS
from sympy_tensordiff.codegen.emit.numba_cpu import BLOCK_STRIDE, PARTIAL_TOTALS
from sympy_tensordiff.codegen.ir.dataflow import uses
from sympy_tensordiff.codegen.ir.facts import Prover
from sympy_tensordiff.codegen.ir.nests import ZERO
from sympy_tensordiff.codegen.ir.programs import Array, ConstantKernel, FusedKernels, Program, Step
from sympy_tensordiff.codegen.ir.sizes import solve_sizes
from sympy_tensordiff.codegen.ir.walk import filled_arrays
from sympy_tensordiff.codegen.schedule.rows import STRIP
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.products import quotient_by

ALIGNMENT = 64
"""The alignment of temporaries in bytes."""

MESSAGES = {
    TOO_LARGE: "BLAS counts to 2**31 - 1",
    OUTSIDE: "a kernel reads or writes outside an array: this is an error of sympy_tensordiff, please report it",
    SINGULAR: "a matrix in the steps of a scan is singular: it has no inverse",
}
"""The messages of errors by their codes."""


@dataclass(frozen=True)
class StepFunction:
    """A compiled step: the symbol of its function, the kinds of its parameters, and how its work is divided among
    threads.

    ``passed`` are the kinds of its parameters by name: "a" for an array, "r" for a real number, "i" for an integer. If
    it computes a range of parts, ``ends`` are the names of its two ends, and ``extent`` is the number of all parts.
    ``division`` is the division among threads: a number of ranges, "strips", or "panels"; 0 for a single range.
    """

    symbol: str
    passed: Mapping[str, str]
    ends: tuple[str, str] = ("", "")
    extent: Affine = ZERO
    division: int | str = 0


class EntryPrinter(LlvmNestPrinter):
    """Prints an entry point: a function that Python calls with a pointer to its argument objects."""

    def __init__(self, module: Module, program: Program, prover: Prover, head: int) -> None:
        integers = frozenset(a.name for a in program.arguments if a.dtype == "integer")
        super().__init__(module, prover.shapes, integers, frozenset())
        self.program = program
        self.head = head
        self.numbers: dict[str, str] = {}
        self.temporaries = Temporaries(program, FormPrinter(FormNames((), ())))

    # ------------------------------------------------------------------------ arguments

    def argument_object(self, place: int) -> str:
        """Emit the load of the pointer to the Python object that is argument number `place` of the call, and return the
        pointer.
        """
        pointer = self.new(f"getelementptr inbounds ptr, ptr %args, i64 {place}")
        return self.new(f"load ptr, ptr {pointer}")

    def read_array(self, name: str, found: str, rank: int) -> None:
        """Emit code that reads an array's data pointer and the lengths of its first ``rank`` axes from the Python
        object ``found``.
        """
        self.arrays[name] = self.new(f"load ptr, ptr {self.byte_pointer(found, self.head)}")
        if rank:
            lengths = self.new(f"load ptr, ptr {self.byte_pointer(found, self.head + 16)}")
            for axis in range(rank):
                place = self.new(f"getelementptr inbounds i64, ptr {lengths}, i64 {axis}")
                self.values[f"{name} {axis}"] = self.new(f"load i64, ptr {place}")

    def byte_pointer(self, pointer: str, offset: str | int) -> str:
        """Emit the address ``offset`` bytes after a pointer, and return it."""
        return self.new(f"getelementptr inbounds i8, ptr {pointer}, i64 {offset}")

    def read_real(self, found: str) -> str:
        """Emit the conversion of the Python number ``found`` to a floating-point number, and return its value."""
        return self.convert((self.call("double", "PyFloat_AsDouble", [found], "ptr"), "double"), self.module.real)

    def read_arguments(self) -> None:
        """Emit code that reads all Python arguments of the program into values and pointers, and computes all sizes."""
        place = 0
        for argument in self.program.arguments:
            found = self.argument_object(place)
            place += 1
            if argument.kind == "array" and argument.shape:
                self.read_array(argument.name, found, len(argument.shape))
            elif argument.kind == "integer" or argument.dtype == "integer":
                self.values[argument.name] = self.call("i64", "PyLong_AsLongLong", [found], "ptr")
            else:
                self.numbers[argument.name] = self.read_real(found)
        for output in self.program.outputs:
            self.read_array(output.name, self.argument_object(place), 0)
            place += 1
        for solved in solve_sizes(self.program.arguments):
            length = Affine.variable(f"{solved.argument.name} {solved.axis}")
            coefficient, rest = solved.parts
            sign = -1 if coefficient.is_constant and coefficient.constant < 0 else 1
            self.values[solved.name] = self.form(quotient_by((length - rest) * sign, coefficient * sign))
        for size in self.program.sizes:
            forms = [self.form(form) for form in size.lows or size.highs]
            self.values[size.name] = self.greatest(forms, "smax" if size.lows else "smin")

    def read_passed(self, passed: Mapping[str, str]) -> None:
        """Emit code that reads the Python arguments of the entry point of a single step into pointers and values.
        ``passed`` maps each argument, in order, to its kind: ``a`` for an array, ``i`` for an integer, ``r`` for a real
        number.
        """
        for place, (name, kind) in enumerate(passed.items()):
            found = self.argument_object(place)
            if kind == "a":
                self.read_array(name, found, 0)
            elif kind == "i":
                self.values[name] = self.call("i64", "PyLong_AsLongLong", [found], "ptr")
            else:
                self.numbers[name] = self.read_real(found)

    # ------------------------------------------------------------------------ temporaries

    def byte_size(self, array: Array) -> str:
        """Return the number of bytes of the temporary ``array``, rounded up to the alignment, as an LLVM value."""
        size = self.times(self.entries(array.shape), str(self.module.size))
        mask = self.add(size, str(ALIGNMENT - 1))
        if mask.isdigit():
            return str(int(mask) // ALIGNMENT * ALIGNMENT)
        return self.new(f"and i64 {mask}, {-ALIGNMENT}")

    def size_function(self, groups: Sequence[Sequence[Array]]) -> EntryPrinter:
        """Print the body of the entry point that returns the number of bytes needed for all temporaries; return this
        printer. The arrays of each of ``groups``, which have equal sizes, share memory.
        """
        self.read_arguments()
        total = str(ALIGNMENT)
        for array, *_ in groups:
            total = self.add(total, self.byte_size(array))
        self.result = self.call("ptr", "PyLong_FromLongLong", [total], "i64")
        return self

    def locate_temporaries(self, groups: Sequence[Sequence[Array]]) -> None:
        """Emit code that gives each temporary its address in the block of memory passed as the last argument. The
        arrays of a group share one address.
        """
        place = len(self.program.arguments) + len(self.program.outputs)
        self.read_array("scratch", self.argument_object(place), 0)
        address = self.new(f"ptrtoint ptr {self.arrays['scratch']} to i64")
        free = self.new(f"and i64 {self.new(f'sub i64 0, {address}')}, {ALIGNMENT - 1}")
        pointer = self.byte_pointer(self.arrays["scratch"], free)
        for group in groups:
            self.arrays |= dict.fromkeys([array.name for array in group], pointer)
            pointer = self.byte_pointer(pointer, self.byte_size(group[0]))

    # ------------------------------------------------------------------------ steps

    def driver_function(
        self, steps: Sequence[tuple[Step, StepFunction]], groups: Sequence[Sequence[Array]]
    ) -> EntryPrinter:
        """Print the body of the entry point that runs all ``steps``, pairs of a step and its LLVM function, and return
        this printer. ``groups`` are the temporaries: the arrays of one group use the same memory.

        All of the temporaries' memory is passed as the last argument of the call.
        """
        self.read_arguments()
        if groups:
            self.locate_temporaries(groups)
        self.release_gil()
        for step, function in steps:
            with self.when(*(partial(self.condition, row) for row in self.temporaries.work_constraints(step))):
                self.run_step(step, function)
        return self.finish()

    def release_gil(self) -> None:
        """Emit the release of Python's interpreter lock, so that other threads can run."""
        self.module.declare("PyEval_SaveThread", "ptr", [])
        self.module.declare("PyEval_RestoreThread", "void", ["ptr"])
        self.add_code_slot()
        self.state = self.new("call ptr @PyEval_SaveThread()")

    def run_step(self, step: Step, function: StepFunction) -> None:
        """Emit the call of a step's function, on several cores if the step is divided among threads."""
        if function.division:
            self.run_in_parallel(step, function)
            return
        self.values |= dict(zip(function.ends, ("0", self.form(function.extent)), strict=True))
        self.add_code(self.call_step(function, self.argument_value))

    def argument_value(self, name: str, kind: str) -> str:
        """Return the LLVM value to pass for the argument ``name`` in a call of a step's function. Its ``kind`` is "a"
        for an array (a pointer is passed), "r" for a real number, "i" for an integer.
        """
        return self.arrays[name] if kind == "a" else self.numbers[name] if kind == "r" else self.atom(name)

    def run_in_parallel(self, step: Step, function: StepFunction) -> None:
        """Emit code that runs a step, compiled as ``function``, on the threads of Numba's pool. Results do not depend
        on the number of threads.
        """
        totals = [k.array for k in step.kernels if k.array in step.totals] if isinstance(step, FusedKernels) else []
        parts = {
            name: self.allocate(f"{name} parts", [Affine.of(PARTIAL_TOTALS), *self.shapes[name]]) for name in totals
        }
        task = TaskPrinter(self.module, self.shapes, self.integer_arrays, frozenset())
        task.print_ranges(function, dict.fromkeys(totals))
        symbol = self.module.shared(f"{function.symbol}.task", task.task())
        frame = self.slot(f"[{len(task.passed) + 1} x i64]")
        self.line(f"store ptr {self.code}, ptr {frame}")
        for number, (name, (kind, _)) in enumerate(task.passed.items(), 1):
            value = parts[name] if name in parts else self.argument_value(name, kind)
            place = self.new(f"getelementptr inbounds i64, ptr {frame}, i64 {number}")
            self.line(f"store {self.types[kind].removesuffix(' noalias')} {value}, ptr {place}")
        first, count, step_ = self.slot("ptr"), self.slot("i64"), self.slot("i64")
        self.line(f"store ptr null, ptr {first}")
        self.line(f"store i64 {task.range_count(self, function)}, ptr {count}")
        self.line(f"store i64 1, ptr {step_}")
        threads = self.new("call i32 @get_num_threads()")
        self.module.declare("get_num_threads", "i32", [])
        self.module.declare("numba_parallel_for", "void", [*["ptr"] * 5, "i64", "i64", "i32"])
        pointers = ", ".join(f"ptr {one}" for one in (f"@{symbol}", first, count, step_, frame))
        self.line(f"call void @numba_parallel_for({pointers}, i64 0, i64 1, i32 {threads})")
        for name, pointer in parts.items():
            self.add_parts(self.arrays[name], pointer, self.entries(self.shapes[name]))
            self.line(f"call void @free(ptr {pointer})")

    def add_parts(self, target: str, parts: str, entries: str) -> None:
        """Emit code that adds up the partial sums of all threads in ``parts`` and stores the ``entries`` totals in
        ``target``. The order of the additions is fixed: results do not depend on timing.
        """
        real = self.module.real
        with self.loop("0", entries) as place:
            total = self.new(f"load {real}, ptr {self.pointer_at(parts, place)}")
            for number in range(1, PARTIAL_TOTALS):
                pointer = self.pointer_at(parts, self.add(self.times(str(number), entries), place))
                total = self.new(f"fadd {real} {total}, {self.new(f'load {real}, ptr {pointer}')}")
            self.line(f"store {real} {total}, ptr {self.pointer_at(target, place)}")

    def finish(self) -> EntryPrinter:
        """Emit the end of the LLVM function that Python calls: take back Python's interpreter lock, and raise the
        exception if the return code reports an error. Return this printer.
        """
        self.line(f"call void @PyEval_RestoreThread(ptr {self.state})")
        self.module.declare("PyErr_SetString", "void", ["ptr", "ptr"])
        self.module.declare("PyErr_NoMemory", "ptr", [])
        self.module.declared["PyExc_ValueError"] = "@PyExc_ValueError = external global ptr"
        found = self.new(f"load i32, ptr {self.code}")
        if "outside" in self.module.declared:
            found = self.new(f"or i32 {found}, {self.new('atomicrmw xchg ptr @outside, i32 0 monotonic')}")
        solves = any(name.startswith("solved") for name in self.module.functions)
        for code in (NO_MEMORY, *(code for code in MESSAGES if code != SINGULAR or solves)):
            with self.when(partial(self.has_code, found, code)):
                if code == NO_MEMORY:
                    self.new("call ptr @PyErr_NoMemory()")
                else:
                    size, name = len(MESSAGES[code]) + 1, f"message.{code}"
                    self.module.declared[name] = f'@{name} = private constant [{size} x i8] c"{MESSAGES[code]}\\00"'
                    error = self.error_class(code)
                    self.line(f"call void @PyErr_SetString(ptr {error}, ptr @{name})")
                self.line("ret ptr null")
                self.start(*self.labels("never"))
        self.result = self.call("ptr", "PyLong_FromLongLong", ["0"], "i64")
        return self

    def error_class(self, code: int) -> str:
        """Emit instructions that load the exception class for the return code `code`, and return the register with its
        pointer. The class is NumPy's ``LinAlgError`` for ``SINGULAR``, else ``ValueError``.
        """
        if code != SINGULAR:
            return self.new("load ptr, ptr @PyExc_ValueError")
        names = {"module": "numpy.linalg", "class": "LinAlgError"}
        for name, text in names.items():
            self.module.declared[f"error.{name}"] = (
                f'@error.{name} = private constant [{len(text) + 1} x i8] c"{text}\\00"'
            )
        module = self.call("ptr", "PyImport_ImportModule", ["@error.module"], "ptr")
        return self.call("ptr", "PyObject_GetAttrString", [module, "@error.class"], "ptr")

    def has_code(self, found: str, code: int) -> str:
        """Emit a test whether ``found`` contains the return code ``code``, and return the value of the test. The codes
        are bits, and ``found`` is the bitwise "or" of several.
        """
        return self.new(f"icmp ne i32 {self.new(f'and i32 {found}, {code}')}, 0")

    def text(self, name: str) -> str:
        """Return the LLVM text of the entry point ``name`` whose body has been printed before. Python calls it with an
        array of argument objects.
        """
        head = f"define ptr @{name}(ptr %self, ptr %args, i64 %count) {{"
        lines = [head, "entry:", *self.slots, *self.lines, f"  ret ptr {self.result}"]
        if any("label %failed" in line for line in self.lines):
            lines += ["failed:", f"  call void @PyEval_RestoreThread(ptr {self.state})"]
            lines += ["  %none = call ptr @PyErr_NoMemory()", "  ret ptr null"]
        return "\n".join([*lines, "}"])


def shared_memory(program: Program, arrays: Sequence[Array]) -> list[list[Array]]:
    """Return groups of temporaries that can share memory: the arrays of a group have the same size, and no two of them
    are needed at the same time.

    Constant tables have memory of their own, and so have temporaries that no step reads.
    """
    first: dict[str, int] = {}
    last: dict[str, float] = {}
    unread = {array.name for array in arrays}
    for position, step in enumerate(program.kernels):
        names = filled_arrays(step)
        first |= {name: position for name in names if name not in first}
        last |= dict.fromkeys((*names, *uses(step).arrays), position)
        unread -= set(uses(step).arrays)
    for step in program.kernels:
        last |= dict.fromkeys(unread.union(filled_arrays(step)) if isinstance(step, ConstantKernel) else unread, inf)
        first |= (
            dict.fromkeys(filled_arrays(step), -1) if isinstance(step, ConstantKernel) else {}
        )  # before all other steps
    groups: list[list[Array]] = []
    by_size: dict[tuple[int, tuple[str, ...]], list[list[Array]]] = {}
    for array in arrays:
        equal = by_size.setdefault(_sorted_extents(array), [])
        fitting = [group for group in equal if last[group[-1].name] < first[array.name]]
        if fitting:
            max(fitting, key=lambda group: last[group[-1].name]).append(array)
        else:
            groups.append([array])
            equal.append(groups[-1])
    return groups


def _sorted_extents(array: Array) -> tuple[int, tuple[str, ...]]:
    """Return a key that is equal for two arrays only if they have equally many entries: the product of the constant
    extents of ``array``, and its other extents as sorted texts.
    """
    numbers = [form.constant for form in array.shape if form.is_constant]
    return prod(numbers), tuple(sorted(str(form) for form in array.shape if not form.is_constant))


class TaskPrinter(LlvmNestPrinter):
    """Prints the LLVM function that each thread of a parallel step runs: it calls the function of the step for each
    range of rows, entries or blocks that is assigned to the thread.
    """

    def range_count(self, driver: LlvmNestPrinter, function: StepFunction) -> str:
        """Emit code that computes into how many ranges the work of the step ``function`` is divided for threads, and
        return the value. The code becomes part of the function that ``driver`` prints.
        """
        extent = driver.form(function.extent)
        if function.division == "strips":
            return driver.divided(driver.add(extent, str(STRIP - 1)), str(STRIP))
        if function.division != "panels":
            return str(function.division)
        count = "1"
        for number in (2**n for n in range(6)):
            least = 2 * number * (MIN_HALF_ROWS if number == 1 else MIN_PANEL_ROWS)
            test = driver.new(f"icmp sge i64 {extent}, {least}")
            count = driver.new(f"select i1 {test}, i64 {2 * number}, i64 {count}")
        return count

    def print_ranges(self, function: StepFunction, totals: Container[str]) -> None:
        """Append the loop in which one thread calls the step's ``function`` for each range of iterations assigned to
        it. ``totals`` names the arrays that are sums over all ranges: each range adds to a copy of its own.
        """
        first = self.new("ptrtoint ptr %first to i64")
        last = self.add(first, "%number")
        extent, count = self.form(function.extent), self.range_count(self, function)
        with self.loop(first, last) as turn:
            if function.division == "strips":
                low = self.times(turn, str(STRIP))
                high = self.greatest([self.add(low, str(STRIP)), extent], "smin")
            else:
                # Each thread gets blocks from everywhere, so that their costs are balanced.
                block = turn
                if function.division != "panels":
                    block = self.new(f"srem i64 {self.times(turn, str(BLOCK_STRIDE))}, {count}")
                low, high = (
                    self.new(f"sdiv i64 {self.times(extent, one)}, {count}") for one in (block, self.add(block, "1"))
                )
            self.values |= dict(zip(function.ends, (low, high), strict=True))

            def passed_value(name: str, kind: str) -> str:
                """Return the LLVM value that a thread passes for the parameter ``name`` of the step's function;
                ``kind`` is "i" for an integer.

                For an array in ``totals``, of the enclosing method, it is the pointer to the copy that collects the
                partial sums of this range of iterations.
                """
                pointer = self.atom(name) if kind == "i" else self.parameter(name, kind)
                return (
                    self.pointer_at(pointer, self.times(block, self.entries(self.shapes[name])))
                    if name in totals
                    else pointer
                )

            found = self.call_step(function, passed_value)
            self.line(f"%old = atomicrmw or ptr %code, i32 {found} monotonic")

    def task(self) -> str:
        """Return the LLVM text of the function that each thread runs for its share of a step. The placeholder
        ``{name}`` in the text stands for the function's symbol.
        """
        lines = ["define internal void @{name}(ptr %args, ptr %dims, ptr %steps, ptr %frame) {", "entry:", *self.slots]
        lines += ["  %first = load ptr, ptr %args", "  %number = load i64, ptr %dims", "  %code = load ptr, ptr %frame"]
        for number, (kind, value) in enumerate(self.passed.values(), 1):
            lines.append(f"  {value}.place = getelementptr inbounds i64, ptr %frame, i64 {number}")
            lines.append(f"  {value} = load {self.types[kind].removesuffix(' noalias')}, ptr {value}.place")
        return "\n".join([*lines, *self.lines, "  ret void", "}"])
