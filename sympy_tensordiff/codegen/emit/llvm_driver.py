"""Programs as modules of LLVM: a function for each step, and entries that Python calls.

An entry takes Python's objects as they are: it reads pointers and lengths off arrays, converts numbers, lets other
threads run, calls the functions of the steps in order, and raises what they report. A program with steps that are
calls of a library has an entry for each other step, which a driver in Python calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial

from sympy_tensordiff.codegen.emit.driver import (
    Temporaries,
    host_driver,
    module_names,
    module_text,
    scratch_arrays,
)
from sympy_tensordiff.codegen.emit.forms import FormPrinter, Names
from sympy_tensordiff.codegen.emit.helpers import called_by
from sympy_tensordiff.codegen.emit.library import LIBRARY_HELPERS, LIBRARY_NAMES, library_text
from sympy_tensordiff.codegen.emit.llvm import NO_MEMORY, Module, NestPrinter
from sympy_tensordiff.codegen.emit.llvm_products import TOO_LARGE, CorrelationPrinter, ProductPrinter
from sympy_tensordiff.codegen.ir.facts import Prover
from sympy_tensordiff.codegen.ir.programs import (
    Array,
    Contraction,
    Correlation,
    Fused,
    Kernel,
    Program,
    Scatter,
    Step,
    Table,
    Trapezoid,
)
from sympy_tensordiff.codegen.ir.sizes import solve_sizes
from sympy_tensordiff.codegen.ir.steps import not_compiled
from sympy_tensordiff.codegen.ir.walk import all_names, externals, filled_arrays, function_name, scalar_arrays
from sympy_tensordiff.codegen.schedule.cpu import Site
from sympy_tensordiff.codegen.schedule.fusion import fuse, nest_of
from sympy_tensordiff.integer.affine import Affine, Row
from sympy_tensordiff.integer.products import quotient_by

ALIGNMENT = 64
"""Temporaries begin at multiples of so many bytes."""

LARGE = "BLAS counts to 2**31 - 1"


@dataclass(frozen=True)
class Target:
    """What a text depends on besides the program: the type of numbers, the processor, and the layout of objects.

    ``head`` are the bytes of an object of Python's before the pointer to the entries of an array.
    """

    real: str
    is_wide: bool
    head: int


@dataclass
class ModuleText:
    """A module of LLVM: its text, its entries, the driver in Python where there is one."""

    text: str
    entries: list[str] = field(default_factory=list)
    driver: str = ""


@dataclass(frozen=True)
class StepFunction:
    """The function of a step, and what is passed to it: names, and "a" for an array, "r" or "i" for a number."""

    symbol: str
    passed: Mapping[str, str]


def print_llvm(program: Program, target: Target) -> ModuleText:
    """The module for a program."""
    prover = Prover(program)
    program = fuse(program, prover)
    module = Module(target.real, {external: f"user{n}" for n, external in enumerate(externals(program))})
    integers = frozenset(a.name for a in program.arguments if a.dtype == "integer" or a.kind == "integer")
    library = set(not_compiled(program))
    found = [None if step.array in library else step_function(step, module, program, prover, target) for step in program.kernels]
    if library:
        return _called_from_python(program, module, target, found, integers)
    pairs = [(step, one) for step, one in zip(program.kernels, found, strict=True) if one is not None]
    arrays = scratch_arrays(program)
    entries = ["run"]
    tables = [(step, one) for step, one in pairs if isinstance(step, Table)]
    texts = []
    for name, chosen in (("run", [pair for pair in pairs if pair not in tables]), ("tables", tables)):
        if chosen or name == "run":
            printer = EntryPrinter(module, program, prover, integers, target.head)
            printer.driver(chosen, arrays)
            texts.append(printer.text(name))
            entries = list(dict.fromkeys([*entries, name]))
    if arrays:
        printer = EntryPrinter(module, program, prover, integers, target.head)
        printer.size(arrays)
        texts.append(printer.text("scratch"))
        entries.append("scratch")
    return ModuleText("\n\n".join([module.text(), *texts]) + "\n", entries)


def step_function(step: Step, module: Module, program: Program, prover: Prover, target: Target) -> StepFunction:
    """The function of a step."""
    integers = frozenset(a.name for a in program.arguments if a.dtype == "integer")
    bare = scalar_arrays(program.arguments)
    shapes = prover.shapes
    name = function_name(step)
    if isinstance(step, Kernel | Fused):
        names = Names(all_names(program), ())
        nest = nest_of(step, Site(prover, names.fresh, bare))
        printer = NestPrinter(module, shapes, integers, nest.bare)
        if isinstance(step, Table):
            printer.real = "double"  # the angles of sines may be large
        printer.nest(nest.arrays, nest.body)
        text = printer.function()
    elif isinstance(step, Correlation):
        printer = CorrelationPrinter(module, shapes, integers, bare)
        printer.correlation(step, shapes, target.is_wide)
        text = printer.function()
    else:
        assert isinstance(step, Contraction | Trapezoid)
        printer = ProductPrinter(module, shapes, integers, bare)
        printer.contraction(step, shapes)
        text = printer.finished()
    return StepFunction(module.shared(f"{name}.step", text), {name: kind for name, (kind, _) in printer.passed.items()})


class EntryPrinter(NestPrinter):
    """A function that Python calls with arguments as an array of objects."""

    def __init__(self, module: Module, program: Program, prover: Prover, integers: frozenset[str], head: int) -> None:
        super().__init__(module, prover.shapes, integers, frozenset())
        self.program = program
        self.prover = prover
        self.head = head
        self.pointers: dict[str, str] = {}
        self.numbers: dict[str, str] = {}
        self.temporaries = Temporaries(program, FormPrinter(Names((), ())))

    # ------------------------------------------------------------------------ arguments

    def object(self, place: int) -> str:
        """An object that is passed."""
        pointer = self.new(f"getelementptr inbounds ptr, ptr %args, i64 {place}")
        return self.new(f"load ptr, ptr {pointer}")

    def array_of(self, name: str, found: str, rank: int) -> None:
        """Read the pointer of an array off an object, and the lengths of its axes."""
        self.pointers[name] = self.new(f"load ptr, ptr {self.at(found, self.head)}")
        if rank:
            lengths = self.new(f"load ptr, ptr {self.at(found, self.head + 16)}")
            for axis in range(rank):
                place = self.new(f"getelementptr inbounds i64, ptr {lengths}, i64 {axis}")
                self.values[f"{name} {axis}"] = self.new(f"load i64, ptr {place}")

    def at(self, pointer: str, offset: str | int) -> str:
        """A pointer so many bytes further on."""
        return self.new(f"getelementptr inbounds i8, ptr {pointer}, i64 {offset}")

    def real_of(self, found: str) -> str:
        """A number from an object."""
        return self.converted((self.call("double", "PyFloat_AsDouble", [found], "ptr"), "double"), self.module.real)

    def arguments(self) -> None:
        """Read all arguments of the program, and compute all sizes."""
        place = 0
        for argument in self.program.arguments:
            found = self.object(place)
            place += 1
            if argument.kind == "array" and argument.shape:
                self.array_of(argument.name, found, len(argument.shape))
            elif argument.kind == "integer" or argument.dtype == "integer":
                self.values[argument.name] = self.call("i64", "PyLong_AsLongLong", [found], "ptr")
            else:
                self.numbers[argument.name] = self.real_of(found)
        for output in self.program.outputs:
            self.array_of(output.name, self.object(place), 0)
            place += 1
        for solved in solve_sizes(self.program.arguments):
            length = Affine.variable(f"{solved.argument.name} {solved.axis}")
            coefficient, rest = solved.parts
            sign = -1 if coefficient.is_constant and coefficient.constant < 0 else 1
            self.values[solved.name] = self.form(quotient_by((length - rest) * sign, coefficient * sign))
        for size in self.program.sizes:
            forms = [self.form(form) for form in size.lows or size.highs]
            self.values[size.name] = self.greatest(forms, "smax" if size.lows else "smin")

    # ------------------------------------------------------------------------ temporaries

    def bytes(self, array: Array) -> str:
        """The bytes of a temporary, a multiple of the alignment."""
        size = self.times(self.entries(array.shape), str(self.module.size))
        mask = self.add(size, str(ALIGNMENT - 1))
        if mask.isdigit():
            return str(int(mask) // ALIGNMENT * ALIGNMENT)
        return self.new(f"and i64 {mask}, {-ALIGNMENT}")

    def size(self, arrays: Sequence[Array]) -> None:
        """The function that tells the bytes of all temporaries."""
        self.arguments()
        total = str(ALIGNMENT)
        for array in arrays:
            total = self.add(total, self.bytes(array))
        self.result = self.call("ptr", "PyLong_FromLongLong", [total], "i64")

    def scratch(self, arrays: Sequence[Array]) -> None:
        """Find the pointers of all temporaries in the last array that is passed."""
        place = len(self.program.arguments) + len(self.program.outputs)
        self.array_of("scratch", self.object(place), 0)
        address = self.new(f"ptrtoint ptr {self.pointers['scratch']} to i64")
        free = self.new(f"and i64 {self.new(f'sub i64 0, {address}')}, {ALIGNMENT - 1}")
        pointer = self.at(self.pointers["scratch"], free)
        for array in arrays:
            self.pointers[array.name] = pointer
            pointer = self.at(pointer, self.bytes(array))

    # ------------------------------------------------------------------------ steps

    def driver(self, steps: Sequence[tuple[Step, StepFunction]], arrays: Sequence[Array]) -> None:
        """The function that runs steps."""
        self.arguments()
        if arrays:
            self.scratch(arrays)
        self.module.declare("PyEval_SaveThread", "ptr", [])
        self.module.declare("PyEval_RestoreThread", "void", ["ptr"])
        code = self.slot("i32")
        self.line(f"store i32 0, ptr {code}")
        state = self.new("call ptr @PyEval_SaveThread()")
        for step, function in steps:
            with ExitStack() as stack:
                if rows := self.tests(step):
                    stack.enter_context(self.when(*(partial(self.condition, row) for row in rows)))
                self.run(function, code)
        self.line(f"call void @PyEval_RestoreThread(ptr {state})")
        self.report(code)

    def tests(self, step: Step) -> list[Row]:
        """The conditions of a step that has nothing to do in some calls."""
        forms: Sequence[Affine] = ()
        if isinstance(step, Scatter):
            forms = step.extents if step.exclusive else ()
        elif not isinstance(step, Fused):
            made = self.temporaries.get(filled_arrays(step)[0])
            forms = made.shape if made is not None else ()
        return [Row("ge", form - 1) for form in forms if not self.temporaries.is_positive(form)]

    def run(self, function: StepFunction, code: str) -> None:
        """The call of the function of a step."""
        kinds = {"a": "ptr", "r": self.module.real, "i": "i64"}
        values = {"a": lambda n: self.pointers[n], "r": lambda n: self.numbers[n], "i": lambda n: self.form(Affine.variable(n))}
        passed = ", ".join(f"{kinds[kind]} {values[kind](name)}" for name, kind in function.passed.items())
        found = self.new(f"call i32 @{function.symbol}({passed})")
        before = self.new(f"load i32, ptr {code}")
        self.line(f"store i32 {self.new(f'or i32 {before}, {found}')}, ptr {code}")

    def report(self, code: str) -> None:
        """Raise the error of a code; return 0 where there is none."""
        self.module.declare("PyErr_SetString", "void", ["ptr", "ptr"])
        self.module.declared["PyExc_ValueError"] = "@PyExc_ValueError = external global ptr"
        self.module.declared["large"] = f'@large = private constant [{len(LARGE) + 1} x i8] c"{LARGE}\\00"'
        found = self.new(f"load i32, ptr {code}")
        no_memory = self.new(f"icmp sge i32 {found}, {NO_MEMORY}")
        with self.when(lambda: no_memory):
            none = self.new("call ptr @PyErr_NoMemory()")
            self.module.declare("PyErr_NoMemory", "ptr", [])
            self.line(f"ret ptr {none}")
            self.start(self.labels("never")[0])
        with self.when(lambda: self.new(f"icmp eq i32 {found}, {TOO_LARGE}")):
            error = self.new("load ptr, ptr @PyExc_ValueError")
            self.line(f"call void @PyErr_SetString(ptr {error}, ptr @large)")
            self.line("ret ptr null")
            self.start(self.labels("never")[0])
        self.result = self.call("ptr", "PyLong_FromLongLong", ["0"], "i64")

    def text(self, name: str) -> str:
        """The text of the entry."""
        head = f"define ptr @{name}(ptr %self, ptr %args, i64 %count) {{"
        return "\n".join([head, "entry:", *self.slots, *self.lines, f"  ret ptr {self.result}", "}"])


# ---------------------------------------------------------------------------- with a driver in Python


class _Calls:
    """The calls of steps as text for a driver in Python."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts = texts

    def body(self, step: Step) -> list[str]:
        """No function is part of the driver."""
        return []

    def __call__(self, step: Step) -> str:
        """The call of a step."""
        return self.texts[function_name(step)]


def _called_from_python(
    program: Program, module: Module, target: Target, found: Sequence[StepFunction | None], integers: frozenset[str]
) -> ModuleText:
    """A module with an entry for each compiled step, and the driver in Python that calls them and the library."""
    names = module_names(program, LIBRARY_NAMES)
    prover = Prover(program)
    calls, pieces, entries, texts = {}, [], [], []
    for step, function in zip(program.kernels, found, strict=True):
        name = function_name(step)
        if function is None:
            text = library_text(step, program, names)  # type: ignore[arg-type]
            pieces.append(text)
            calls[name] = text.partition("def ")[2].partition(":")[0]
            continue
        printer = EntryPrinter(module, program, prover, integers, target.head)
        for place, (wanted, kind) in enumerate(function.passed.items()):
            passed = printer.object(place)
            if kind == "a":
                printer.array_of(wanted, passed, 0)
            elif kind == "i":
                printer.values[wanted] = printer.call("i64", "PyLong_AsLongLong", [passed], "ptr")
            else:
                printer.numbers[wanted] = printer.real_of(passed)
        printer.module.declare("PyEval_SaveThread", "ptr", [])
        printer.module.declare("PyEval_RestoreThread", "void", ["ptr"])
        code = printer.slot("i32")
        printer.line(f"store i32 0, ptr {code}")
        state = printer.new("call ptr @PyEval_SaveThread()")
        printer.run(function, code)
        printer.line(f"call void @PyEval_RestoreThread(ptr {state})")
        printer.report(code)
        texts.append(printer.text(name))
        entries.append(name)
        calls[name] = f"{name}({', '.join(map(names, function.passed))})"
    helpers = called_by(pieces, LIBRARY_HELPERS).values()
    run = host_driver(program, names, _Calls(calls), 'with np.errstate(all="ignore"):')  # type: ignore[arg-type]
    driver = module_text(program, "llvm", names, [*helpers, *pieces, run])
    return ModuleText("\n\n".join([module.text(), *texts]) + "\n", entries, driver)
