"""Programs as LLVM modules: a function for each step, and entry points that Python calls.

A program with library calls has an entry point for each other step, which a driver in Python calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from sympy_tensordiff.codegen.emit.arrays import block_constant, recurrence_pieces
from sympy_tensordiff.codegen.emit.correlations import BYTES
from sympy_tensordiff.codegen.emit.driver import host_driver, module_names, module_text, scratch_arrays
from sympy_tensordiff.codegen.emit.forms import FormNames
from sympy_tensordiff.codegen.emit.helpers import NUMPY_HELPERS, called_by
from sympy_tensordiff.codegen.emit.library import LIBRARY_HELPERS, LIBRARY_NAMES, library_text
from sympy_tensordiff.codegen.emit.llvm import Module
from sympy_tensordiff.codegen.emit.llvm_algebra import LlvmAlgebraPrinter
from sympy_tensordiff.codegen.emit.llvm_copies import Copies, matrices_of, part_count
from sympy_tensordiff.codegen.emit.llvm_entries import EntryPrinter, StepFunction, shared_memory
from sympy_tensordiff.codegen.emit.llvm_nests import LlvmNestPrinter
from sympy_tensordiff.codegen.emit.llvm_products import HIGH, LOW, LlvmProductPrinter
from sympy_tensordiff.codegen.emit.llvm_recurrences import LlvmRecurrencePrinter
from sympy_tensordiff.codegen.emit.llvm_windows import LlvmCorrelationPrinter
from sympy_tensordiff.codegen.emit.numba_cpu import BLOCKS, PARTIAL_TOTALS, block_ends
from sympy_tensordiff.codegen.ir.bounds import unproved_arrays
from sympy_tensordiff.codegen.ir.facts import Prover
from sympy_tensordiff.codegen.ir.nests import ZERO
from sympy_tensordiff.codegen.ir.programs import (
    Apply,
    ConstantKernel,
    ContractionStep,
    Correlation,
    FusedKernels,
    Kernel,
    Program,
    Recurrence,
    Solve,
    Step,
    Trapezoid,
)
from sympy_tensordiff.codegen.ir.steps import uncompiled_arrays
from sympy_tensordiff.codegen.ir.walk import all_names, externals, function_name, scalar_arrays
from sympy_tensordiff.codegen.schedule.correlations import tiling
from sympy_tensordiff.codegen.schedule.cpu import ScheduleContext
from sympy_tensordiff.codegen.schedule.fusion import fuse, nest_of
from sympy_tensordiff.codegen.schedule.rows import runs_in_strips
from sympy_tensordiff.integer.affine import Affine


@dataclass(frozen=True)
class Target:
    """The machine for which an LLVM module is printed: the type of numbers, whether it has wide vectors, and the size
    of the header of Python's array objects.

    ``head`` is the number of bytes of an array object before the pointer to its entries. ``is_checked``: all indices
    are checked, to find errors of this package.
    """

    real: str = "double"
    is_wide: bool = False
    head: int = 16
    is_checked: bool = False


@dataclass(frozen=True)
class ModuleText:
    """The text of an LLVM module and the names of its entry points, with the text of a driver in Python if it needs
    one.
    """

    text: str
    entries: tuple[str, ...]
    driver: str = ""

    def whole(self) -> str:
        """Return the text of the module for display: the Python driver as comments, then the LLVM code."""
        return "".join(f"; {line}\n" for line in self.driver.splitlines()) + self.text


def print_llvm(program: Program, target: Target, parallel: frozenset[str] = frozenset()) -> ModuleText:
    """Return the LLVM module for a program whose kernels have been fused already, on the machine ``target``;
    ``parallel`` are the names of the functions that run on several cores.
    """
    functions = {external: f"user{n}" for n, external in enumerate(externals(program))}
    module = Module(target.real, functions, target.is_checked)
    copies = Copies(program, BYTES // module.size)
    program, prover = copies.program, Prover(copies.program)
    parallel |= {function_name(s) for s in program.kernels if s.array in {a.name for a in copies.arrays} and parallel}
    printer = LlvmStepPrinter(program, prover, module, target, copies, parallel)
    library = set(uncompiled_arrays(program, recurrences=True))
    found = [None if step.array in library else printer.function(step) for step in program.kernels]
    pairs = [(step, one) for step, one in zip(program.kernels, found, strict=True) if one is not None]

    def new_entry_printer() -> EntryPrinter:
        """Return a new printer for an entry point: a function of the LLVM module that Python can call."""
        return EntryPrinter(module, program, prover, target.head)

    if library:
        return _module_with_python_driver(program, module, new_entry_printer, found)
    groups = shared_memory(program, scratch_arrays(program))
    tables = [pair for pair in pairs if isinstance(pair[0], ConstantKernel)]
    entries = {"run": new_entry_printer().driver_function([pair for pair in pairs if pair not in tables], groups)}
    if tables:
        entries["tables"] = new_entry_printer().driver_function(tables, groups)
    if groups:
        entries["scratch"] = new_entry_printer().size_function(groups)
    return _module_text(module, entries)


def _module_text(module: Module, entries: Mapping[str, EntryPrinter], driver: str = "") -> ModuleText:
    """Return the text of the LLVM ``module`` with the functions that Python calls, ``entries`` (printers by name), and
    with its Python ``driver``, as a `ModuleText`.
    """
    texts = [entry.text(name) for name, entry in entries.items()]
    return ModuleText(module.text(texts), tuple(entries), driver)


class LlvmStepPrinter:
    """Prints the functions that compute the steps of a program into one LLVM module."""

    def __init__(
        self, program: Program, prover: Prover, module: Module, target: Target, copies: Copies, parallel: frozenset[str]
    ) -> None:
        self.module, self.target, self.prover, self.copies, self.parallel = module, target, prover, copies, parallel
        self.is_body = False
        self.names, self.rules_off = FormNames(all_names(program), ()), program.rules_off
        integers = frozenset(a.name for a in program.arguments if a.dtype == "integer")
        self.site = prover.shapes, integers, scalar_arrays(program.arguments)

    def function(self, step: Step) -> StepFunction:
        """Add to the module the LLVM function that computes `step`, a step of any kind, and return it as a
        `StepFunction`.
        """
        if isinstance(step, Kernel | FusedKernels):
            return self.nest_function(step)
        shapes, integers, bare = self.site
        if isinstance(step, Recurrence):
            return self.recurrence_function(step)
        if isinstance(step, Solve | Apply):
            algebra = LlvmAlgebraPrinter(self.module, shapes, integers, bare)
            algebra.print_algebra(step)
            return self.shared_function(step, algebra, algebra.function())
        if isinstance(step, Correlation):
            windows = LlvmCorrelationPrinter(self.module, shapes, integers, bare)
            tiles = tiling(step, shapes)
            assert tiles is not None
            windows.print_correlation(step, tiles, self.copies.lanes[step.array], self.target.is_wide)
            return self.shared_function(step, windows, windows.function(), (LOW, HIGH), part_count(step, shapes))
        assert isinstance(step, ContractionStep | Trapezoid)
        product = LlvmProductPrinter(self.module, shapes, integers, bare)
        product.is_inlined = self.is_body
        product.print_contraction(step)
        division = BLOCKS if matrices_of(step).both or isinstance(step, Trapezoid) else "panels"
        return self.shared_function(step, product, product.function(), (LOW, HIGH), part_count(step, shapes), division)

    def recurrence_function(self, step: Recurrence) -> StepFunction:
        """Define the LLVM function of a recurrence, which calls the functions of a time step in a loop, and return its
        `StepFunction`.
        """
        body = step.body
        copies = Copies(fuse(body, Prover(body)), BYTES // self.module.size)
        body = copies.program
        printer = LlvmStepPrinter(body, Prover(body), self.module, self.target, copies, frozenset())
        printer.is_body = True
        functions = [(inner, printer.function(inner)) for inner in body.kernels]
        loop = LlvmRecurrencePrinter(self.module, self.site[0], step, body, functions)
        loop.print_recurrence()
        return self.shared_function(step, loop, loop.function())

    def nest_function(self, step: Kernel | FusedKernels) -> StepFunction:
        """Define the LLVM function of a kernel or of fused kernels, and return its `StepFunction`. If the step runs on
        several cores, each call of the function computes one block of rows.
        """
        shapes, integers, bare = self.site
        names = self.names.copy()
        ends = block_ends(names) if function_name(step) in self.parallel else None
        nest = nest_of(step, ScheduleContext(self.prover, names.fresh, bare, block=ends, off=self.rules_off))
        printer = LlvmNestPrinter(self.module, shapes, integers, nest.bare)
        printer.is_inlined = self.is_body
        unproved = cache(lambda: unproved_arrays(step, self.prover))
        printer.is_inside = lambda array: array not in unproved()
        if isinstance(step, ConstantKernel):
            printer.real = "double"  # the angles of sines may be large
        printer.print_nest(nest.arrays, nest.body)
        text = printer.function()
        if ends is None:
            return self.shared_function(step, printer, text)
        if isinstance(step, FusedKernels):
            return self.shared_function(
                step, printer, text, ends, step.extent, PARTIAL_TOTALS if step.totals else BLOCKS
            )
        division = "strips" if runs_in_strips(step, self.prover) else BLOCKS
        return self.shared_function(step, printer, text, ends, shapes[step.array][0], division)

    def shared_function(
        self,
        step: Step,
        printer: LlvmNestPrinter,
        text: str,
        ends: tuple[str, str] = ("", ""),
        extent: Affine = ZERO,
        division: int | str = BLOCKS,
    ) -> StepFunction:
        """Add the LLVM function ``text`` of `step` to the module, unless the module has an equal one, and return it as
        a `StepFunction`. `printer` is the object that has printed the text.

        If the function computes a range of parts of the result, `ends` are the names of its parameters for the range,
        `extent` is the number of all parts, and `division` says how threads divide them.
        """
        name = function_name(step)
        passed = {name: kind for name, (kind, _) in printer.passed.items()}
        division = division if name in self.parallel else 0
        return StepFunction(self.module.shared(f"{name}.step", text), passed, ends, extent, division)


# ---------------------------------------------------------------------------- drivers in Python


def _module_with_python_driver(
    program: Program, module: Module, entry: Callable[[], EntryPrinter], found: Sequence[StepFunction | None]
) -> ModuleText:
    """Return a module with an entry point for each compiled step of `program`, and a driver in Python that calls these
    and the functions of libraries.

    ``found`` has the compiled function of each step, None for a step that Python computes. ``entry`` makes the printer
    of an entry point.
    """
    names = module_names(program, LIBRARY_NAMES)
    calls, pieces, entries = {}, [], {}
    for step, function in zip(program.kernels, found, strict=True):
        name = function_name(step)
        if function is None:
            if isinstance(step, Recurrence):
                pieces += recurrence_pieces(step, names)
            else:
                pieces.append(library_text(step, program, names))  # type: ignore[arg-type]
            calls[name] = pieces[-1].partition("def ")[2].partition(":")[0]
            continue
        printer = entries[name] = entry()
        wanted = {n: kind for n, kind in function.passed.items() if n not in function.ends}
        for size in sorted(function.extent.atoms() - wanted.keys()):
            wanted[size] = "i"
        printer.read_passed(wanted)
        printer.release_gil()
        printer.run_step(step, function)
        printer.finish()
        calls[name] = f"{name}({', '.join(map(names, wanted))})"
    helpers = called_by(pieces, NUMPY_HELPERS | LIBRARY_HELPERS).values()
    run = host_driver(program, names, lambda step: calls[function_name(step)], 'with np.errstate(all="ignore"):')
    driver = module_text(program, "llvm", names, [*helpers, *pieces, run], constants=block_constant(pieces))
    return _module_text(module, entries, driver)
