"""Programs as C99 files: a function that computes, one that returns the size of its scratch memory, and checks.

A file needs ``math.h`` only. It allocates no memory unless asked to, and has no global variables.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from sympy_tensordiff.codegen.emit.c_elementary import c_functions
from sympy_tensordiff.codegen.emit.c_library import c_helpers
from sympy_tensordiff.codegen.emit.c_nests import CForms
from sympy_tensordiff.codegen.emit.c_recurrences import CRecurrencePrinter
from sympy_tensordiff.codegen.emit.c_steps import RESERVED, CNames, CStepPrinter, StepText
from sympy_tensordiff.codegen.emit.driver import Functions, Temporaries, module_names
from sympy_tensordiff.codegen.emit.forms import INDENT, UNARY
from sympy_tensordiff.codegen.emit.helpers import called_by
from sympy_tensordiff.codegen.emit.recurrences import step_function, with_own_functions
from sympy_tensordiff.codegen.ir.facts import Prover
from sympy_tensordiff.codegen.ir.programs import NO_POSITION, FusedKernels, Program, Recurrence, Step
from sympy_tensordiff.codegen.ir.sizes import check_determined, solve_sizes
from sympy_tensordiff.codegen.schedule.fusion import fuse
from sympy_tensordiff.codegen.schedule.passes import prepared
from sympy_tensordiff.codegen.schedule.polygammas import with_polygammas
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError, NotInCError
from sympy_tensordiff.integer.affine import Affine

MemoryEntries = tuple[dict[str, str], list[str]]
"""The numbers of entries of the temporaries, by their names, and of the work memory of each function."""


class Refusal(NamedTuple):
    """A check at the beginning of a C function: if the C condition ``text`` is true, the function refuses the call and
    returns ``code``. If ``code`` is 0, ``text`` is instead a line of C, such as a declaration, that the next checks
    need.
    """

    text: str
    code: int | str


class CSource(str):
    """The text of a generated C file and of its header.

    `header` is the text of the header with the functions' prototypes, which C++ can include, too.
    """

    __slots__ = ("header",)
    header: str


@dataclass(frozen=True)
class COptions:
    """The options of a C file: the name of its function, its number type, and whether it allocates and has pragmas."""

    name: str = "compute"
    dtype: str = "float64"
    allocate: bool = False
    parallel: bool | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", self.name):
            raise ArgumentError(f"name={self.name!r} is not a name of a C function: letters, digits and underscores")
        if self.name in RESERVED or self.name.startswith(("fill_", "power_", "vector_")):
            raise ArgumentError(f"name={self.name!r} is a name of C, math.h or the file itself: give another one")
        if self.dtype not in ("float64", "float32"):
            raise NotInCError(f"dtype={self.dtype!r} is not a number type of C files: use float64 or float32")
        if self.parallel is not None and not isinstance(self.parallel, bool):
            raise ArgumentTypeError(f"parallel must be None, True or False, not {self.parallel!r}")
        if not isinstance(self.allocate, bool):
            raise ArgumentTypeError(f"allocate must be True or False, not {self.allocate!r}")


def print_c(program: Program, options: COptions) -> CSource:
    """Return a program as the text of a C file, with its header. ``options`` has the name of its function and its
    number type.
    """
    check_determined(program)
    return CFile(with_polygammas(program), options).file_text()


class CFile:
    """Prints a program as a C file. If the file has to find an out-of-bounds index in integer data, this search is a
    program of its own, which a second `CFile` prints as static functions of the same file.
    """

    language = "C99"
    own_names: frozenset[str] = frozenset()
    """The names that the file defines in addition to those of all C files."""
    loop_printer: type[CRecurrencePrinter] = CRecurrencePrinter
    """The printer of loops over time."""
    batch_axes: Mapping[str, int] = {}
    """In the body of a recurrence that blocks of a device run, the axes of the batch, see `BlockRecurrence`."""
    entry_storage = "static"
    """The storage of the function of a step of a recurrence."""
    is_body = False
    """Whether the program is the body of a recurrence."""
    stream_parameters: tuple[str, ...] = ()
    """The declarations of the parameters after the scratch memory."""

    def __init__(self, program: Program, options: COptions, is_search: bool = False) -> None:
        self.program, self.prover = program, prover = self.scheduled(program)
        self.options, self.is_search = options, is_search
        functions = ("", "_scratch", "_unchecked", "_search_scratch", "_search_unchecked")
        own = {f"{options.name}{ending}" for ending in functions}
        self.names = module_names(program, RESERVED | self.own_names | own, CNames)
        self.forms = CForms(self.names, prover.shapes)
        self.temporaries = Temporaries(program, self.forms)
        given = [a.name for a in program.arguments if a.kind == "integer"]
        solved = [one.name for one in solve_sizes(program.arguments)]
        self.integers = list(dict.fromkeys([*given, *solved]))
        self.sizes = [name for name in self.integers if name not in given]
        single, parallel = options.dtype == "float32", bool(options.parallel)
        self.printer = CStepPrinter(program, prover, self.names, self.integers, single, parallel)
        self.declarations = self.printer.declarations
        self.search_file: CFile | None = None
        """The search for data that make a read out of bounds, if their range alone does not rule that out."""

    def scheduled(self, program: Program) -> tuple[Program, Prover]:
        """Return the program after all scheduling passes for C, and a prover of constraints for its loop nests."""
        program = prepared(program, "c")
        prover = Prover(program)
        return fuse(program, prover), prover

    # ------------------------------------------------------------------------ the file

    def file_text(self) -> CSource:
        """Return the text of the whole file, with its header."""
        options = self.options
        pieces = []
        if numbers := tuple(dict.fromkeys(check.number for check in self.program.data_checks)):
            assert self.program.search is not None
            own = replace(options, name=f"{options.name}_search")
            self.search_file = type(self)(self.program.search(numbers), own, is_search=True)
            found = self.search_file.function_texts()
            pieces = [re.sub(rf"^(?=(int|ptrdiff_t) {options.name})", "static ", text) for text in found[0] + found[1]]
        functions, entries = self.function_texts()
        entries.append(self.checked_function())
        pieces += [*functions, *entries]
        pieces = self.with_helpers(pieces)
        title = self.file_comment()
        source = CSource("\n\n".join([title, self.preamble(pieces), *pieces]) + "\n")
        guard = f"{options.name.upper()}_H"
        lines = [title, "", f"#ifndef {guard}", f"#define {guard}", "", "#include <stddef.h>", "#include <stdint.h>"]
        lines += ["", "#ifndef __cplusplus", f"#define {guard}_RESTRICT restrict", "#else"]
        lines += [f"#define {guard}_RESTRICT", 'extern "C" {', "#endif", ""]
        entries = [text for text in entries if not text.startswith("static ")]
        heads = [re.sub(r"\breal\b", self.type, text.partition(" {")[0]) + ";" for text in entries]
        lines += [self.prototype(head).replace("*restrict ", f"*{guard}_RESTRICT ") for head in heads]
        lines += ["", "#ifdef __cplusplus", "}", "#endif", "", "#endif", ""]
        source.header = "\n".join(lines)
        return source

    def with_helpers(self, pieces: list[str]) -> list[str]:
        """Return the texts ``pieces`` of functions, preceded by the texts of the helper functions that they call."""
        known = c_helpers(pieces) | c_functions(self.options.dtype == "float32")
        return [*called_by(pieces, known).values(), *pieces]

    def prototype(self, head: str) -> str:
        """Return the prototype for the header file of the function with the first line ``head``."""
        return head

    def function_texts(self) -> tuple[list[str], list[str]]:
        """Return two lists of C functions: one function per step, and the functions that return the size of the scratch
        memory and run all steps.
        """
        functions = Functions(self.names)
        steps = [(step, self.step_text(step)) for step in self.program.kernels]
        for step, found in steps:
            offsets = [" + ".join(["work", *list(found.work.values())[:number]]) for number in range(len(found.work))]
            functions.add(step, found.text, passed=[*found.passed, *offsets])
        memory = self.memory_entries(steps)
        texts = [functions.texts, [self.scratch_function(memory), self.unchecked_function(steps, functions, memory)]]
        if steps:
            own = "|".join({functions(step).partition("(")[0] for step, _ in steps})
            texts = [
                [re.sub(rf"\b({own})(?=[(,])", self.function_name_pattern, text) for text in part] for part in texts
            ]
        return texts[0], texts[1]

    def step_text(self, step: Step) -> StepText:
        """Return the C function that computes a step of the program. For a recurrence, the functions that compute one
        time step come first.
        """
        return self.recurrence(step) if isinstance(step, Recurrence) else self.printer.step(step)

    def recurrence(self, step: Recurrence) -> StepText:
        """Return the C function of a recurrence, a loop over time, preceded by the functions that compute one time
        step.
        """
        name = f"{self.options.name}_{step_function(step)}"
        body = type(self)(step.body, replace(self.options, name=name, allocate=False, parallel=False))
        return self.loop_over_time(step, body, self.loop_printer)

    def loop_over_time(self, step: Recurrence, body: CFile, printer: type[CRecurrencePrinter]) -> StepText:
        """Return the C function of a recurrence, printed by the class ``printer``, together with the functions of one
        time step, which come before it. ``body`` is the `CFile` that prints the time step.
        """
        name, body.is_body = body.options.name, True
        pieces, entries = body.function_texts()
        entries = [re.sub(rf"^(?=int {name})", f"{body.entry_storage} ", text) for text in entries]
        entries = [re.sub(rf"^(?=ptrdiff_t {name})", "static ", text) for text in entries]
        forms = dict(step.integers) | ({step.time: Affine.of(0)} if step.time else {})
        sizes = [self.forms.form(forms[one]) for one in body.integers]
        scratch = f"{name}_scratch({', '.join(sizes)})"
        if step.time and f"(void){body.names(step.time)};" not in entries[0]:
            entries.insert(1, body.most_scratch_function(step.time))
            sizes[body.integers.index(step.time)] = self.forms.form(step.length)
            scratch = f"{name}_most({', '.join(sizes)})"
        local = self.names.copy()
        loop = printer(step, local, self.forms, f"{name}_unchecked", scratch)
        loop.axes = body.batch_axes
        found = self.printer.function(step, [*loop.lines()], local, {loop.work: loop.size})
        return found._replace(text="\n\n".join([*with_own_functions(step, pieces, entries), found.text]))

    @property
    def last_code(self) -> str:
        """The return code, as a C expression, that the function of all steps returns after they have succeeded."""
        return "0"

    @property
    def function_name_pattern(self) -> str:
        r"""The replacement by which ``re.sub`` renames a function, in which ``\1`` is the old name. Functions of the
        search for out-of-bounds indices get a suffix, so that all names in the file differ; others keep their names.
        """
        return r"\1_of_search" if self.is_search else r"\1"

    @property
    def type(self) -> str:
        """Return the C type of real numbers, ``double`` or ``float``."""
        return "float" if self.options.dtype == "float32" else "double"

    def file_comment(self) -> str:
        """Return the comment at the top of the file: arguments, results and return codes."""
        lines = [f"/* Generated by sympy_tensordiff: {self.language}.", ""]
        for argument in self.program.arguments:
            kind = "entries" if argument.dtype == "integer" else "numbers"
            shape = f"array of {kind}, shape {self.shape(argument.shape)}" if argument.shape else argument.kind
            shape = shape.replace("array of entries", "array of integers, which select entries")
            label = re.sub(r"[^\w ]", "_", argument.label, flags=re.ASCII)
            own = self.names(argument.name)
            what = "number" if shape in ("array", "scalar") else shape
            lines.append(f"   {own}{f' ({label})' * (label != own)}: {what}")
        lines += [f"   {self.names(name)}: size" for name in self.sizes]
        lines += [f"   {self.names(one.name)}: result, shape {self.shape(one.shape)}" for one in self.program.outputs]
        unknown = ", 5 where it does not know whether sizes fit" * any(check.points for check in self.program.checks)
        return "\n".join([*lines, "", *self.usage_lines(unknown)])

    def usage_lines(self, unknown: str) -> list[str]:
        """Return the lines of the C comment on arrays, return codes, scratch memory and compilers. ``unknown`` is text
        about return code 5, or "".
        """
        lines = [
            f"   Arrays are dense, the last axis first in memory, and share none. {self.options.name} returns",
            "   0, or 1 where sizes do not fit (an axis without entries, too), 2 where integers may lead a read out of",
            "   an array, or a matrix is not symmetric as declared, 3 where a matrix is singular or is not positive",
            f"   definite{', 4 where there is no memory' * self.options.allocate}{unknown}.",
            f"   {self.options.name}_unchecked does not look for 1, 2 and 5.",
        ]
        if not self.options.allocate:
            lines.append(f"   scratch: as many numbers as {self.options.name}_scratch says.")
        return [
            *lines,
            "   Not for -ffast-math. Vectors: -O3 -fno-math-errno -fno-trapping-math -fopenmp-simd -DSIMD. */",
        ]

    def shape(self, shape: Sequence[Affine]) -> str:
        """Return a shape as C text for a comment."""
        return f"({', '.join(map(self.forms.form, shape))})"

    def preamble(self, pieces: Sequence[str]) -> str:
        """Return the includes, the number type and the macros that ``pieces`` use."""
        text = "\n".join(pieces)
        lines = ["#include <math.h>", "#include <stddef.h>", "#include <stdint.h>"]
        lines += ["#include <stdlib.h>"] if "malloc(" in text else []
        lines += ["", f"typedef {self.type} real;"]
        if "LARGEST" in text:
            lines += [f"#define LARGEST {'3.402823466e+38f' if self.type == 'float' else '1.7976931348623157e+308'}"]
        if "SUMS(" in text or "PARALLEL" in text or "VECTOR" in text:
            lines += ["", "#if defined(_OPENMP) || defined(SIMD)", "#define PRAGMA(text) _Pragma(#text)",
                      "#define SUMS(...) PRAGMA(omp simd reduction(+:__VA_ARGS__))", "#define VECTOR PRAGMA(omp simd)",
                      "#else", "#define SUMS(...)", "#define VECTOR", "#endif"]  # fmt: skip
        if "PARALLEL" in text:
            lines += ["#ifdef _OPENMP", "#define PARALLEL PRAGMA(omp parallel for schedule(static))", "#else",
                      "#define PARALLEL", "#endif"]  # fmt: skip
        return "\n".join(lines)

    # ------------------------------------------------------------------------ functions of the file

    def memory_entries(self, steps: Sequence[tuple[Step, StepText]]) -> MemoryEntries:
        """Return ``(temporaries, work)`` as C expressions: a dictionary from temporaries to their numbers of entries,
        and a list with the number of entries of scratch memory for each step that needs some.
        """
        tables = {self.names(array.name): self.temporaries.entries(array) for array in self.program.temporaries}
        rows = {self.names(row.name) for step, _ in steps if isinstance(step, FusedKernels) for row in step.rows}
        work = [" + ".join(found.work.values()) for _, found in steps if found.work]
        return {name: size for name, size in tables.items() if name not in rows}, list(dict.fromkeys(work))

    def size_lines(self) -> list[str]:
        """Return the C declarations of the integer sizes that are the maximum or minimum of other expressions."""
        lines = []
        for size in self.program.sizes:
            text = self.forms.extreme("max" if size.lows else "min", size.lows or size.highs)
            lines.append(f"{INDENT}const ptrdiff_t {self.names(size.name)} = {text};")
        return lines

    def scratch_function(self, memory: MemoryEntries) -> str:
        """Return the function that computes the number of entries of the scratch memory."""
        tables, work = memory
        text = " + ".join(tables.values()) or "0"
        if work:
            most = self.forms.integers("max", work)
            text = most if text == "0" else f"{text} + {most}"
        if self.search_file and not self.options.allocate:
            text = f"greatest({text}, {self.search_entries(self.search_file)})"
        passed = ", ".join(f"ptrdiff_t {self.names(name)}" for name in self.integers) or "void"
        storage = "static " * self.options.allocate
        lines = [*self.size_lines(), f"{INDENT}return {text};"]
        return self.function_text(f"{storage}ptrdiff_t {self.options.name}_scratch({passed})", lines, self.integers)

    def most_scratch_function(self, time: str) -> str:
        """Return the C function that computes how many numbers of scratch memory a recurrence needs: the maximum over
        its time steps. In place of ``time``, the name of the variable that counts the steps, the function takes the
        number of steps.
        """
        names, name = self.names.copy(), self.options.name
        own, most, length = names(time), names.fresh("most"), names.fresh("length")
        sizes = list(map(names, self.integers))
        passed = ", ".join(f"ptrdiff_t {length if one == own else one}" for one in sizes)
        call = f"{name}_scratch({', '.join(sizes)})"
        lines = [
            f"static ptrdiff_t {name}_most({passed}) {{",
            f"{INDENT}ptrdiff_t {most} = 0;",
            f"{INDENT}for (ptrdiff_t {own} = 0; {own} < {length}; {own}++) {{",
            f"{INDENT * 2}{most} = greatest({most}, {call});",
            f"{INDENT}}}",
            f"{INDENT}return {most};",
            "}",
        ]
        return "\n".join(lines)

    def search_entries(self, search: CFile) -> str:
        """Return the C call ``<name>_scratch(sizes)`` that gives the number of entries of scratch memory for the search
        for out-of-bounds indices. ``search`` is the C file of the function that searches.
        """
        return f"{search.options.name}_scratch({', '.join(map(self.names, self.integers))})"

    def function_text(self, head: str, lines: Sequence[str], parameters: Sequence[str]) -> str:
        """Return a C function with the first line ``head`` and the body ``lines``; parameters and sizes that it does
        not use are marked as unused.
        """
        text = "\n".join(lines)
        sizes = [size.name for size in self.program.sizes]
        unused = []
        for name in (*map(self.names, parameters), *map(self.names, sizes)):
            if len(re.findall(rf"\b{name}\b", text)) <= (name in map(self.names, sizes) and f" {name} = " in text):
                unused.append(f"{INDENT}(void){name};")
        *body, last = lines
        return "\n".join([f"{head} {{", *body, *unused, last, "}"])

    @property
    def parameter_names(self) -> list[str]:
        """The parameters of the C function: arguments, sizes and results. Its versions with and without checks have the
        same ones.
        """
        return [*(a.name for a in self.program.arguments), *self.sizes, *(a.name for a in self.program.outputs)]

    def parameter_declarations(self) -> list[str]:
        """Return the declarations of the parameters."""
        texts = [self.declarations[self.names(name)] for name in self.parameter_names]
        return texts if self.options.allocate else [*texts, "real *restrict scratch", *self.stream_parameters]

    def argument_texts(self) -> list[str]:
        """Return the C texts by which a function passes all of its own parameters on to another function."""
        after = [] if self.options.allocate else ["scratch", *(text.split()[-1] for text in self.stream_parameters)]
        return [*map(self.names, self.parameter_names), *after]

    def unchecked_function(
        self,
        steps: Sequence[tuple[Step, StepText]],
        functions: Functions,
        memory: MemoryEntries,
    ) -> str:
        """Return the text of the C function that runs all ``steps`` of the program without checks of its arguments.
        ``memory`` has the sizes of the temporaries and the scratch memory, as `memory_entries` returns them.
        """
        name, allocate = self.options.name, self.options.allocate
        tables, work = memory
        lines = [f"{INDENT}int code = 0;", *self.size_lines()]
        if allocate:
            sizes = ", ".join(map(self.names, self.integers))
            lines += [
                f"{INDENT}const ptrdiff_t count = {name}_scratch({sizes});",
                f"{INDENT}real *const scratch = malloc((count ? (size_t)count : 1)*sizeof(real));",
                f"{INDENT}if (!scratch) {{", f"{INDENT * 2}return 4;", f"{INDENT}}}",
            ]  # fmt: skip
        place = "scratch"
        for own, size in tables.items():
            lines.append(f"{INDENT}real *restrict {own} = {place};")
            place = f"{own} + {size}"
        if work:
            lines.append(f"{INDENT}real *restrict work = {place};")
        for step, found in steps:
            lines += self.step_call(step, found, functions)
        lines += [f"{INDENT}free(scratch);"] if allocate else []
        lines.append(f"{INDENT}return code ? 3 : 0;")
        if not any(found.has_code for _, found in steps):
            lines = [*lines[1:-1], f"{INDENT}return {self.last_code};"]
        head = f"int {name}_unchecked({', '.join(self.parameter_declarations())})"
        text = self.function_text(head, lines, self.parameter_names)
        if "scratch" not in "\n".join(lines):
            text = text.replace(f"\n{INDENT}return", f"\n{INDENT}(void)scratch;\n{INDENT}return")
        return text

    def step_call(self, step: Step, found: StepText, functions: Functions) -> Iterator[str]:
        """Yield the lines of C that call the function of `step`, under a condition if an array in it may be empty.
        ``found`` is the printed function, and ``functions(step)`` returns the call.
        """
        text = f"{'code |= ' * found.has_code}{functions(step)};"
        if some := self.temporaries.nonempty_condition(self.temporaries.work_extents(step)):
            yield f"{INDENT}if ({some}) {{"
            yield f"{INDENT * 2}{text}"
            yield f"{INDENT}}}"
        else:
            yield INDENT + text

    def checked_function(self) -> str:
        """Return the text of the public C function: it checks sizes and index data, and returns an error code or calls
        the unchecked function.
        """
        lines = []
        for condition, code in self.refusals():
            test = [f"{INDENT}if ({condition}) {{", f"{INDENT * 2}return {code};", f"{INDENT}}}"]
            lines += test if code else [condition]
        lines.append(f"{INDENT}return {self.options.name}_unchecked({', '.join(self.argument_texts())});")
        return self.function_text(f"int {self.options.name}({', '.join(self.parameter_declarations())})", lines, ())

    def refusals(self) -> Iterator[Refusal]:
        """Yield the checks of the C function as `Refusal` objects: conditions under which it refuses a call, each after
        the lines, such as declarations, that the condition needs.
        """
        program, names, form = self.program, self.names, self.forms.form
        positive = [Affine.variable(name) for name in self.sizes]
        positive += [*program.extents, *(extent for output in program.outputs for extent in output.shape)]
        positive += [extent for argument in program.arguments for extent in argument.shape]
        for one in dict.fromkeys(text for f in positive if f.atoms() for text in [form(f)]):
            yield Refusal(f"{one} < 1", 1)
        for check in program.assumptions:
            yield Refusal(self.forms.conditions(check.violation), 1)
        yield from (Refusal(line, 0) for line in self.size_lines())
        for check in program.checks:
            yield Refusal(self.forms.conditions(check.violation), 5 if check.points else 1)
        extremes = {}
        for argument in program.arguments:
            own = names(argument.name)
            if argument.symmetric:
                yield from self.asymmetry_refusals(own, form(argument.shape[0]))
            if argument.dtype == "integer":
                few = own, own
                if argument.shape:
                    few = yield from self.range_of_data(own, "*".join(form(f, UNARY) for f in argument.shape))
                extremes[f"least {argument.name}"], extremes[f"greatest {argument.name}"] = few
                if argument.below is not None:
                    yield Refusal(f"{few[0]} < 0 || {few[1]} >= {form(argument.below)}", 2)
        if self.search_file is not None:
            yield from self.search_refusals(self.search_file, CForms(names, self.prover.shapes, extremes))

    def asymmetry_refusals(self, array: str, length: str) -> Iterator[Refusal]:
        """Yield the `Refusal` of a call if the array ``array``, a matrix that is declared to be symmetric, is not.
        ``length`` is the number of rows.
        """
        yield Refusal(f"!is_symmetric({array}, {length})", 2)

    def range_of_data(self, array: str, count: str) -> Generator[Refusal, None, tuple[str, str]]:
        """Return ``(least, greatest)``, the C expressions for the least and the greatest of the ``count`` entries of
        the integer array ``array``. This is a generator: a subclass may first yield lines (`Refusal`) that compute
        both.
        """
        yield from ()
        return f"least_of({array}, {count})", f"greatest_of({array}, {count})"

    def search_refusals(self, search: CFile, forms: CForms) -> Iterator[Refusal]:
        """Yield the declarations and checks, each a `Refusal`, that refuse a call if an entry of an integer array is
        out of bounds as an index. ``search`` is the C file of the functions that search for such entries.

        ``forms`` prints conditions.

        The search runs only if the range of the data does not rule them out.
        """
        own = [self.names.fresh(search.names(place.name)) for place in search.program.outputs]
        yield Refusal("\n".join(f"{INDENT}real {place} = (real){NO_POSITION!r};" for place in own), 0)
        suspects = " || ".join(f"({forms.conditions(check.violation)})" for check in self.program.data_checks)
        *arguments, last = self.argument_texts()
        count = len(self.program.outputs) - self.options.allocate
        given = arguments[: len(arguments) - count] + [f"&{place}" for place in own]
        call = f"{search.options.name}_unchecked({', '.join(given if self.options.allocate else [*given, last])})"
        yield Refusal(f"({suspects}) && {call}", 3)
        yield Refusal(" || ".join(f"{place} < (real){NO_POSITION!r}" for place in own), 2)
