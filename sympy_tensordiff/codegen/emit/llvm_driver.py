"""Programs as modules of LLVM: a function for each step, and entries that Python calls.

A program with steps that are calls of a library has an entry for each other step, which a driver in Python calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sympy_tensordiff.codegen.emit.correlations import BYTES
from sympy_tensordiff.codegen.emit.driver import (
    host_driver,
    module_names,
    module_text,
    scratch_arrays,
)
from sympy_tensordiff.codegen.emit.forms import Names
from sympy_tensordiff.codegen.emit.helpers import called_by
from sympy_tensordiff.codegen.emit.library import LIBRARY_HELPERS, LIBRARY_NAMES, library_text
from sympy_tensordiff.codegen.emit.llvm import Module
from sympy_tensordiff.codegen.emit.llvm_copies import Copies, matrices_of, parts_of
from sympy_tensordiff.codegen.emit.llvm_entries import EntryPrinter, StepFunction
from sympy_tensordiff.codegen.emit.llvm_nests import NestPrinter
from sympy_tensordiff.codegen.emit.llvm_products import HIGH, LOW, ProductPrinter
from sympy_tensordiff.codegen.emit.llvm_windows import CorrelationPrinter
from sympy_tensordiff.codegen.emit.numba_cpu import BLOCKS, PARTIAL_TOTALS, block_ends
from sympy_tensordiff.codegen.ir.facts import Prover
from sympy_tensordiff.codegen.ir.nests import ZERO
from sympy_tensordiff.codegen.ir.programs import (
    Contraction,
    Correlation,
    Fused,
    Kernel,
    Program,
    Step,
    Table,
    Trapezoid,
)
from sympy_tensordiff.codegen.ir.steps import not_compiled
from sympy_tensordiff.codegen.ir.walk import all_names, externals, function_name, scalar_arrays
from sympy_tensordiff.codegen.schedule.correlations import tiling
from sympy_tensordiff.codegen.schedule.cpu import Site
from sympy_tensordiff.codegen.schedule.fusion import fuse, nest_of
from sympy_tensordiff.codegen.schedule.rows import runs_in_strips
from sympy_tensordiff.integer.affine import Affine


@dataclass(frozen=True)
class Target:
    """The inputs of a text besides the program: the type of numbers, the processor, and the layout of objects.

    ``head`` are the bytes of an object of Python's before the pointer to the entries of an array.
    """

    real: str = "double"
    is_wide: bool = False
    head: int = 16


@dataclass(frozen=True)
class ModuleText:
    """A module of LLVM: its text, its entries, the driver in Python where there is one."""

    text: str
    entries: tuple[str, ...]
    driver: str = ""

    def whole(self) -> str:
        """The text, with the driver as comments."""
        return "".join(f"; {line}\n" for line in self.driver.splitlines()) + self.text


def print_llvm(program: Program, target: Target, parallel: frozenset[str] = frozenset()) -> ModuleText:
    """The module for a program; ``parallel`` are the names of the functions that run on several cores."""
    module = Module(target.real, {external: f"user{n}" for n, external in enumerate(externals(program))})
    copies = Copies(fuse(program, Prover(program)), BYTES // module.size)
    program, prover = copies.program, Prover(copies.program)
    parallel |= {function_name(s) for s in program.kernels if s.array in {a.name for a in copies.arrays} and parallel}
    printer = StepPrinter(program, prover, module, target, copies, parallel)
    library = set(not_compiled(program))
    found = [None if step.array in library else printer.function(step) for step in program.kernels]
    pairs = [(step, one) for step, one in zip(program.kernels, found, strict=True) if one is not None]

    def entry() -> EntryPrinter:
        return EntryPrinter(module, program, prover, target.head)

    if library:
        return _called_from_python(program, module, entry, found)
    arrays = scratch_arrays(program)
    tables = [pair for pair in pairs if isinstance(pair[0], Table)]
    entries = {"run": entry().driver([pair for pair in pairs if pair not in tables], arrays)}
    if tables:
        entries["tables"] = entry().driver(tables, arrays)
    if arrays:
        entries["scratch"] = entry().size(arrays)
    return _module_text(module, entries)


def _module_text(module: Module, entries: Mapping[str, EntryPrinter], driver: str = "") -> ModuleText:
    texts = [entry.text(name) for name, entry in entries.items()]
    return ModuleText("\n\n".join([*texts, module.text()]), tuple(entries), driver)


class StepPrinter:
    """Prints the functions of steps."""

    def __init__(
        self, program: Program, prover: Prover, module: Module, target: Target, copies: Copies, parallel: frozenset[str]
    ) -> None:
        self.module, self.target, self.prover, self.copies, self.parallel = module, target, prover, copies, parallel
        self.names = Names(all_names(program), ())
        integers = frozenset(a.name for a in program.arguments if a.dtype == "integer")
        self.site = prover.shapes, integers, scalar_arrays(program.arguments)

    def function(self, step: Step) -> StepFunction:
        """The function of a step."""
        if isinstance(step, Kernel | Fused):
            return self.nest(step)
        shapes, integers, bare = self.site
        if isinstance(step, Correlation):
            windows = CorrelationPrinter(self.module, shapes, integers, bare)
            tiles = tiling(step, shapes)
            assert tiles is not None
            windows.correlation(step, tiles, self.copies.lanes[step.array], self.target.is_wide)
            return self.shared(step, windows, windows.function(), (LOW, HIGH), parts_of(step, shapes))
        assert isinstance(step, Contraction | Trapezoid)
        product = ProductPrinter(self.module, shapes, integers, bare)
        product.contraction(step)
        turns = BLOCKS if matrices_of(step).both or isinstance(step, Trapezoid) else "panels"
        return self.shared(step, product, product.finished(), (LOW, HIGH), parts_of(step, shapes), turns)

    def nest(self, step: Kernel | Fused) -> StepFunction:
        """The function of a nest, or of a block of it."""
        shapes, integers, bare = self.site
        names = self.names.copy()
        ends = block_ends(names) if function_name(step) in self.parallel else None
        nest = nest_of(step, Site(self.prover, names.fresh, bare, block=ends))
        printer = NestPrinter(self.module, shapes, integers, nest.bare)
        if isinstance(step, Table):
            printer.real = "double"  # the angles of sines may be large
        printer.nest(nest.arrays, nest.body)
        text = printer.function()
        if ends is None:
            return self.shared(step, printer, text)
        if isinstance(step, Fused):
            return self.shared(step, printer, text, ends, step.extent, PARTIAL_TOTALS if step.totals else BLOCKS)
        turns = "strips" if runs_in_strips(step, self.prover) else BLOCKS
        return self.shared(step, printer, text, ends, shapes[step.array][0], turns)

    def shared(
        self,
        step: Step,
        printer: NestPrinter,
        text: str,
        ends: tuple[str, str] = ("", ""),
        extent: Affine = ZERO,
        turns: int | str = BLOCKS,
    ) -> StepFunction:
        """Return the attributes of a printed function."""
        name = function_name(step)
        passed = {name: kind for name, (kind, _) in printer.passed.items()}
        turns = turns if name in self.parallel else 0
        return StepFunction(self.module.shared(f"{name}.step", text), passed, ends, extent, turns)


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
    program: Program, module: Module, entry: Callable[[], EntryPrinter], found: Sequence[StepFunction | None]
) -> ModuleText:
    """A module with an entry for each compiled step, and the driver in Python that calls them and the library."""
    names = module_names(program, LIBRARY_NAMES)
    calls, pieces, entries = {}, [], {}
    for step, function in zip(program.kernels, found, strict=True):
        name = function_name(step)
        if function is None:
            pieces.append(library_text(step, program, names))  # type: ignore[arg-type]
            calls[name] = pieces[-1].partition("def ")[2].partition(":")[0]
            continue
        printer = entries[name] = entry()
        wanted = {n: kind for n, kind in function.passed.items() if n not in function.ends}
        for size in sorted(function.extent.atoms() - wanted.keys()):
            wanted[size] = "i"
        printer.given(wanted)
        printer.begin()
        printer.run(step, function)
        printer.end()
        calls[name] = f"{name}({', '.join(map(names, wanted))})"
    helpers = called_by(pieces, LIBRARY_HELPERS).values()
    run = host_driver(program, names, _Calls(calls), 'with np.errstate(all="ignore"):')  # type: ignore[arg-type]
    driver = module_text(program, "llvm", names, [*helpers, *pieces, run])
    return _module_text(module, entries, driver)
