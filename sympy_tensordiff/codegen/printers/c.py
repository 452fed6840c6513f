"""A C99 file: a function of the loop nests, that of the sizes of its scratch memory, and the checks of a call.

The file needs ``math.h`` only. Nothing is allocated, unless it is asked for; nothing is global.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from sympy_tensordiff.codegen.correlations import with_correlations
from sympy_tensordiff.codegen.facts import Prover
from sympy_tensordiff.codegen.fusion import fuse
from sympy_tensordiff.codegen.in_loops import calls_in_loops
from sympy_tensordiff.codegen.loops import NOWHERE, Apply, Contraction, Correlation, Fused, Kernel, Program, Scatter, Solve, Step
from sympy_tensordiff.codegen.partition import split_large
from sympy_tensordiff.codegen.printers.base import number_text
from sympy_tensordiff.codegen.printers.blocks import INDENT
from sympy_tensordiff.codegen.printers.c_elementary import c_functions
from sympy_tensordiff.codegen.printers.c_library import HELPERS, CallPrinter, helpers
from sympy_tensordiff.codegen.printers.c_nests import LIBRARY, OWN, CForms, CPrinter
from sympy_tensordiff.codegen.printers.c_products import MULTIPLIED, ProductPrinter, is_product
from sympy_tensordiff.codegen.printers.driver import WORD, Functions, Temporaries, module_names, task_text
from sympy_tensordiff.codegen.printers.forms import UNARY, Names
from sympy_tensordiff.codegen.printers.layout import in_reading_order
from sympy_tensordiff.codegen.schedule.cpu import Place, scheduled
from sympy_tensordiff.codegen.schedule.together import scheduled_together
from sympy_tensordiff.codegen.schedule.verify import NestLaws
from sympy_tensordiff.codegen.sizes import check_determined, solve_sizes
from sympy_tensordiff.codegen.softmax import softmax_in_loops
from sympy_tensordiff.codegen.split import split_deep
from sympy_tensordiff.codegen.walk import filled_arrays, function_name, scalar_arrays, uses
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError, NotInCError
from sympy_tensordiff.integer.affine import Affine

KEYWORDS = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if inline int long register "
    "restrict return short signed sizeof static struct switch typedef union unsigned void volatile while asm typeof "
    "alignas alignof bool catch class compl concept consteval constexpr constinit decltype delete explicit export "
    "false friend mutable namespace new noexcept nullptr operator private protected public requires template this "
    "throw true try typeid typename using virtual xor and or not bitand bitor not_eq or_eq and_eq xor_eq".split()
)
"""Those of C and, for the header, of C++."""

MACROS = frozenset(
    "I NAN INFINITY NULL EOF HUGE_VAL HUGE_VALF HUGE_VALL EDOM ERANGE errno assert complex imaginary isnan isinf "
    "isfinite isnormal signbit fpclassify offsetof unix linux near far min max small BUFSIZ RAND_MAX stdin stdout "
    "stderr va_arg setjmp DOMAIN SING OVERFLOW UNDERFLOW PLOSS TLOSS".split()
)
"""Names that may be macros where the file or the header is compiled."""

MATH = frozenset(
    "acos asin atan atan2 cos sin tan acosh asinh atanh cosh sinh tanh exp exp2 expm1 frexp ilogb ldexp log log10 log1p "
    "log2 logb modf scalbn scalbln cbrt fabs hypot pow sqrt erf erfc lgamma tgamma ceil floor nearbyint rint lrint "
    "llrint round lround llround trunc fmod remainder remquo copysign nan nextafter nexttoward fdim fmax fmin fma "
    "j0 j1 jn y0 y1 yn gamma drem significand scalb signgam pow10 exp10 sincos finite abs labs malloc free".split()
)

RESERVED = KEYWORDS | MACROS | MATH | {f"{name}{ending}" for name in MATH for ending in "fl"} | frozenset(HELPERS) | frozenset(MULTIPLIED)
RESERVED |= set(LIBRARY.values()) | set(OWN.values()) | {"real", "scratch", "SUMS", "VECTOR", "PARALLEL", "PRAGMA", "LARGEST", "SIMD"}
RESERVED |= {"work", "count", "code"}
RESERVED |= {"ptrdiff_t", "size_t", "int32_t", "int64_t", "uint32_t", "uint64_t", "bits_of", "of_bits", "bits_of_double"}


class CNames(Names):
    """Identifiers of C: none begins with an underscore, which C leaves to the compiler."""

    def spelled(self, name: str) -> str:
        name = re.sub("_+", lambda match: "_" if match.start() else "v_", name)
        return f"{name}_value" if re.fullmatch(r"power_\d+", name) else name


class CSource(str):
    """The text of a C file.

    Attributes
    ----------
    header : str
        The text of the header with the functions' prototypes, which C++ can include, too.
    """

    __slots__ = ("header",)
    header: str


@dataclass(frozen=True)
class COptions:
    """What a C file is like: the name of the function, its numbers, whether it allocates and has pragmas."""

    name: str = "compute"
    dtype: str = "float64"
    allocate: bool = False
    parallel: bool | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", self.name):
            raise ArgumentError(f"name={self.name!r} is no name of a C function: letters, digits and underscores")
        if self.name in RESERVED or self.name.startswith(("fill_", "power_", "vector_")):
            raise ArgumentError(f"name={self.name!r} is a name that C, math.h or the file has: give another one")
        if self.dtype not in ("float64", "float32"):
            raise NotInCError(f"dtype={self.dtype!r} is no type of numbers in C files: they have float64 or float32")
        if self.parallel is not None and not isinstance(self.parallel, bool):
            raise ArgumentTypeError(f"parallel must be None, True or False, not {self.parallel!r}")
        if not isinstance(self.allocate, bool):
            raise ArgumentTypeError(f"allocate must be True or False, not {self.allocate!r}")


@dataclass
class _Step:
    """The function of a step: its text, what is passed, and the entries of memory it works in, by parameters."""

    text: str
    passed: list[str]
    work: dict[str, str] = field(default_factory=dict)
    powers: frozenset[int] = frozenset()
    has_code: bool = False


def print_c(program: Program, options: COptions) -> CSource:
    """The text of a C file, with its header."""
    check_determined(program)
    return _file(program, options).printed()


def _file(program: Program, options: COptions) -> _File:
    program = with_correlations(softmax_in_loops(program, rows=True))
    pairs = zip(program.kernels, calls_in_loops(program).kernels, strict=True)
    program = replace(program, kernels=tuple([step if is_product(step) else loops for step, loops in pairs]))
    program = in_reading_order(split_large(split_deep(program)))
    prover = Prover(program)
    return _File(fuse(program, prover), prover, options)


class _File:
    def __init__(self, program: Program, prover: Prover, options: COptions) -> None:
        self.program, self.prover, self.options = program, prover, options
        own = {options.name, f"{options.name}_scratch", f"{options.name}_unchecked"}
        self.names = module_names(program, RESERVED | own, CNames)
        self.forms = CForms(self.names, prover.shapes)
        self.temporaries = Temporaries(program, self.names)
        given = [a.name for a in program.arguments if a.kind == "integer"]
        solved = [one.name for one in solve_sizes(program.arguments)]
        self.integers = list(dict.fromkeys([*given, *solved]))
        self.sizes = [name for name in self.integers if name not in given]
        self.kinds = self._kinds()
        self.is_search = False
        self.searched: tuple[str, list[str]] | None = None
        """The name of the search for wrong data, and those of the places that it finds."""

    def _kinds(self) -> dict[str, str]:
        """The declaration of whatever may be passed to a function of a kernel, by its text; arrays without const."""
        names, found = self.names, {}
        for array in (*self.program.outputs, *self.program.temporaries):
            found[names(array.name)] = f"real *restrict {names(array.name)}"
        for argument in self.program.arguments:
            own = names(argument.name)
            kind = "int64_t" if argument.dtype == "integer" else "real"
            if argument.kind == "integer":
                continue
            found[own] = f"const {kind} *restrict {own}" if argument.shape else f"{kind} {own}"
        for name in (*self.integers, *(size.name for size in self.program.sizes)):
            found[names(name)] = f"ptrdiff_t {names(name)}"
        return found

    # ------------------------------------------------------------------------ steps

    def step(self, step: Step) -> _Step:
        """The function of a step."""
        if isinstance(step, Kernel | Fused):
            return self.nest(step)
        if not isinstance(step, Solve | Apply | Contraction | Correlation):
            raise NotInCError(
                f"C has no routine for {step.array}, a {type(step).__name__}, which needs singular values: use another "
                "backend, or write det(A)*inv(A) for the derivative of a determinant"
            )
        local, shapes = self.names.copy(), self.prover.shapes
        factor = "" if step.factor == 1 else f"{self.number(step.factor)}*"
        if isinstance(step, Contraction | Correlation):
            product = ProductPrinter(step, local, shapes, factor.rstrip("*"))
            return self.function(step, product.printed(), local, {product.work: product.size()})
        printer = CallPrinter(step, local, shapes, factor)
        lines = [f"{INDENT}int {printer.code} = 0;", *printer.printed(), f"{INDENT}return {printer.code};"]
        size = " + ".join(printer.size(shape) for shape in printer.entries)
        found = self.function(step, lines, local, {printer.work: size} if size else None)
        found.has_code = True
        return found

    def number(self, value: object) -> str:
        text = number_text(abs(value))  # type: ignore[arg-type]
        return f"{'-' * (value < 0)}((real)({text if '/' not in text else text.replace('/', '.0/') + '.0'}))"  # type: ignore[operator]

    def nest(self, step: Kernel | Fused) -> _Step:
        bare = scalar_arrays(self.program.arguments)
        local = self.names.copy()
        place = Place(self.prover, local.fresh, bare)
        nest = scheduled_together(step, place) if isinstance(step, Fused) else scheduled(step, place)
        used, totals = uses(step), step.totals if isinstance(step, Fused) else ()
        NestLaws({*used.scalars, *used.integers}, filled_arrays(step), None, totals).check((*nest.arrays, *nest.body))
        single, parallel = self.options.dtype == "float32", bool(self.options.parallel)
        printer = CPrinter(local, self.prover.shapes, nest, single, parallel)
        printer.block(nest.body)
        work = {}
        for alloc in nest.arrays:
            if alloc.name not in printer.stack:
                sizes = [printer.integer_text(ends) for ends in alloc.shape]
                work[local(alloc.name)] = "*".join(f"greatest(0, {size})" for size in sizes)
        found = self.function(step, printer.lines, local, work)
        found.powers = frozenset(printer.powers)
        return found

    def function(self, step: Step, lines: Sequence[str], local: Names, work: dict[str, str] | None = None) -> _Step:
        """The function with these lines."""
        work = work or {}
        words = set(WORD.findall("\n".join(lines)))
        filled = {self.names(name) for name in filled_arrays(step)}
        rows = {self.names(array.name) for array in step.rows} if isinstance(step, Fused) else set()
        passed = [name for name in self.kinds if name in words and name not in rows]
        declared = []
        for name in passed:
            kind = self.kinds[name]
            constant = kind.startswith("real *") and name not in filled
            declared.append(f"const {kind}" if constant else kind)
        declared += [f"real *restrict {name}" for name in work]
        what = " and ".join(map(self.names, filled_arrays(step)))
        comment = task_text(step, local) if isinstance(step, Kernel) else f"Fill {what}"
        result = "int" if isinstance(step, Solve | Apply) else "void"
        head = f"static {result} {function_name(step)}({', '.join(declared)}) {{"
        text = "\n".join([f"/* {comment}. */", head, *lines, "}"])
        return _Step(text, passed, dict(work))

    # ------------------------------------------------------------------------ the file

    def printed(self) -> CSource:
        options = self.options
        search = self.search()
        pieces, powers = [], frozenset[int]()
        if search is not None:
            *found, powers = search.parts()
            pieces = [text.replace(f"\nint {options.name}", f"\nstatic int {options.name}") for text in found[0] + found[1]]
            pieces = [re.sub(rf"^(?=(int|ptrdiff_t) {options.name})", "static ", text) for text in pieces]
            self.searched = search.options.name, [search.names(one.name) for one in search.program.outputs]
        functions, entries, more = self.parts()
        entries.append(self.checked())
        pieces += [*functions, *entries]
        elementary = c_functions(pieces, options.dtype == "float32")
        own = helpers([*pieces, *elementary], powers | more)
        pieces = [*own, *elementary, *pieces]
        title = self.title()
        source = CSource("\n\n".join([title, self.top(pieces), *pieces]) + "\n")
        guard = f"{options.name.upper()}_H"
        lines = [title, "", f"#ifndef {guard}", f"#define {guard}", "", "#include <stddef.h>", "#include <stdint.h>", ""]
        lines += ["#ifndef __cplusplus", f"#define {guard}_RESTRICT restrict", '#else', f"#define {guard}_RESTRICT",
                  'extern "C" {', "#endif", ""]  # fmt: skip
        entries = [text for text in entries if not text.startswith("static ")]
        heads = [re.sub(r"\breal\b", self.type, text.partition(" {")[0]) + ";" for text in entries]
        lines += [head.replace("*restrict ", f"*{guard}_RESTRICT ").replace("/* ", "\n/* ") for head in heads]
        lines += ["", "#ifdef __cplusplus", "}", "#endif", "", "#endif", ""]
        source.header = "\n".join(lines)
        return source

    def parts(self) -> tuple[list[str], list[str], frozenset[int]]:
        """The functions of the steps, those that tell the size of the scratch memory and run the steps, and powers."""
        functions = Functions()
        steps = [(step, self.step(step)) for step in self.program.kernels]
        for step, found in steps:
            functions.add(step, found.text, [*found.passed, *found.work])
        memory = self.memory(steps)
        texts = [functions.texts, [self.scratch(memory), self.unchecked(steps, functions, memory)]]
        if self.is_search:
            own = "|".join({functions(step) for step, _ in steps})
            texts = [[re.sub(rf"\b({own})\(", r"\1_of_search(", text) for text in part] for part in texts]
        return texts[0], texts[1], frozenset().union(*(found.powers for _, found in steps))

    def search(self) -> _File | None:
        """What looks for data that lead a read out of its array, where a glance at their range does not tell."""
        numbers = tuple(dict.fromkeys(check.number for check in self.program.data_checks))
        if not numbers:
            return None
        assert self.program.search is not None
        found = _file(self.program.search(numbers), replace(self.options, name=f"{self.options.name}_search"))
        found.is_search = True
        return found

    @property
    def type(self) -> str:
        return "float" if self.options.dtype == "float32" else "double"

    def title(self) -> str:
        """The comment on top."""
        lines = ["/* Generated by sympy_tensordiff: C99.", ""]
        for argument in self.program.arguments:
            kind = "entries" if argument.dtype == "integer" else "numbers"
            shape = f"array of {kind}, shape {self.shape(argument.shape)}" if argument.shape else argument.kind
            shape = shape.replace("array of entries", "array of integers, which select entries")
            label = re.sub(r"[^\w ]", "_", argument.label, flags=re.ASCII)
            own = self.names(argument.name)
            lines.append(f"   {own}{f' ({label})' * (label != own)}: {'number' if shape in ('array', 'scalar') else shape}")
        lines += [f"   {self.names(name)}: size" for name in self.sizes]
        lines += [f"   {self.names(one.name)}: result, shape {self.shape(one.shape)}" for one in self.program.outputs]
        lines += [
            "",
            f"   Arrays are dense, the last axis first in memory, and share none. {self.options.name} returns",
            "   0, or 1 where sizes do not fit (an axis without entries, too), 2 where integers may lead a read out of",
            "   an array, or a matrix is not symmetric as declared, 3 where a matrix is singular or is not positive",
            f"   definite{', 4 where there is no memory' * self.options.allocate}"
            + ", 5 where it does not know whether sizes fit" * any(check.points for check in self.program.checks) + ".",
            f"   {self.options.name}_unchecked does not look for 1, 2 and 5.",
        ]
        if not self.options.allocate:
            lines.append(f"   scratch: as many numbers as {self.options.name}_scratch says.")
        lines.append("   Not for -ffast-math. Vectors: -O3 -fno-math-errno -fno-trapping-math -fopenmp-simd -DSIMD. */")
        return "\n".join(lines)

    def shape(self, shape: Sequence[Affine]) -> str:
        return f"({', '.join(map(self.forms.form, shape))})"

    def top(self, pieces: Sequence[str]) -> str:
        """Includes, the type of numbers, and macros."""
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

    def memory(self, steps: Sequence[tuple[Step, _Step]]) -> tuple[dict[str, str], list[str]]:
        """The entries of the temporaries, by their texts, and of what each function works in."""
        tables = {self.names(array.name): self.entries(array.shape) for array in self.program.temporaries}
        rows = {name for step, _ in steps if isinstance(step, Fused) for name in (self.names(r.name) for r in step.rows)}
        work = [" + ".join(found.work.values()) for _, found in steps if found.work]
        return {name: size for name, size in tables.items() if name not in rows}, list(dict.fromkeys(work))

    def entries(self, shape: Sequence[Affine]) -> str:
        form, proves = self.forms.form, self.temporaries.is_positive
        return "*".join(form(f, UNARY) if proves(f) else f"greatest(0, {form(f)})" for f in shape) or "1"

    def size_lines(self) -> list[str]:
        """The integers that are computed from others."""
        lines = []
        for size in self.program.sizes:
            function, forms = ("max", size.lows) if size.lows else ("min", size.highs)
            lines.append(f"{INDENT}const ptrdiff_t {self.names(size.name)} = {self.forms.extreme(function, list(forms))};")
        return lines

    def scratch(self, memory: tuple[dict[str, str], list[str]]) -> str:
        """The function that tells how many numbers the scratch memory holds."""
        tables, work = memory
        text = " + ".join(tables.values()) or "0"
        if work:
            most = work[0]
            for other in work[1:]:
                most = f"greatest({most}, {other})"
            text = most if text == "0" else f"{text} + {most}"
        if self.searched and not self.options.allocate:
            sizes = ", ".join(map(self.names, self.integers))
            text = f"greatest({text}, {self.searched[0]}_scratch({sizes}))"
        passed = ", ".join(f"ptrdiff_t {self.names(name)}" for name in self.integers) or "void"
        storage = "static " * self.options.allocate
        lines = [*self.size_lines(), f"{INDENT}return {text};"]
        return self.defined(f"{storage}ptrdiff_t {self.options.name}_scratch({passed})", lines, self.integers)

    def defined(self, head: str, lines: Sequence[str], parameters: Sequence[str]) -> str:
        """A function, of whose parameters and constants none is unused for compilers."""
        text = "\n".join(lines)
        sizes = [size.name for size in self.program.sizes]
        unused = []
        for name in (*map(self.names, parameters), *map(self.names, sizes)):
            if len(re.findall(rf"\b{name}\b", text)) <= (name in map(self.names, sizes) and f" {name} = " in text):
                unused.append(f"{INDENT}(void){name};")
        *body, last = lines
        return "\n".join([f"{head} {{", *body, *unused, last, "}"])

    def parameters(self) -> list[str]:
        """The parameters of the functions, declared."""
        found = [a.name for a in self.program.arguments] + self.sizes + [a.name for a in self.program.outputs]
        texts = [self.kinds[self.names(name)] for name in found]
        return texts if self.options.allocate else [*texts, "real *restrict scratch"]

    def passed(self) -> list[str]:
        found = [a.name for a in self.program.arguments] + self.sizes + [a.name for a in self.program.outputs]
        return [*map(self.names, found), *(["scratch"] if not self.options.allocate else [])]

    def unchecked(
        self,
        steps: Sequence[tuple[Step, _Step]],
        functions: Functions,
        memory: tuple[dict[str, str], list[str]],
    ) -> str:
        """The function that runs the steps."""
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
            lines += self.call(step, found, functions)
        lines += [f"{INDENT}free(scratch);"] if allocate else []
        lines.append(f"{INDENT}return code ? 3 : 0;")
        if not any(found.has_code for _, found in steps):
            lines = [*lines[1:-1], f"{INDENT}return 0;"]
        head = f"int {name}_unchecked({', '.join(self.parameters())})"
        names = [*(a.name for a in self.program.arguments), *self.sizes, *(a.name for a in self.program.outputs)]
        text = self.defined(head, lines, names)
        if "scratch" not in "\n".join(lines):
            text = text.replace(f"\n{INDENT}return", f"\n{INDENT}(void)scratch;\n{INDENT}return")
        return text

    def call(self, step: Step, found: _Step, functions: Functions) -> Iterator[str]:
        """The lines that call the function of a step, where its array has entries."""
        places, offset = [], "work"
        for size in found.work.values():
            places.append(offset)
            offset += f" + {size}"
        text = f"{functions(step)}({', '.join([*found.passed, *places])});"
        text = f"code |= {text}" if found.has_code else text
        uncertain: list[Affine] = []
        if isinstance(step, Scatter):
            uncertain = [form for form in step.extents if step.exclusive and not self.temporaries.is_positive(form)]
        elif not isinstance(step, Fused) and (array := self.temporaries.get(step.array)) is not None:
            uncertain = [form for form in array.shape if not self.temporaries.is_positive(form)]
        if uncertain:
            yield f"{INDENT}if ({' && '.join(f'{self.forms.form(form)} > 0' for form in uncertain)}) {{"
            yield f"{INDENT * 2}{text}"
            yield f"{INDENT}}}"
        else:
            yield INDENT + text

    def checked(self) -> str:
        """The function that refuses sizes and data, and calls the other."""
        lines = []
        for condition, code in self.refusals():
            lines += [f"{INDENT}if ({condition}) {{", f"{INDENT * 2}return {code};", f"{INDENT}}}"] if code else [condition]
        lines.append(f"{INDENT}return {self.options.name}_unchecked({', '.join(self.passed())});")
        return self.defined(f"int {self.options.name}({', '.join(self.parameters())})", lines, ())

    def refusals(self) -> Iterator[tuple[str, int]]:
        """Conditions on sizes and data, with the codes that are returned where they hold; lines have the code 0."""
        program, names, form = self.program, self.names, self.forms.form
        positive = [Affine.variable(name) for name in self.sizes]
        positive += [*program.extents, *(extent for output in program.outputs for extent in output.shape)]
        positive += [extent for argument in program.arguments for extent in argument.shape]
        for one in dict.fromkeys(text for f in positive if f.atoms() for text in [form(f)]):
            yield f"{one} < 1", 1
        for check in program.granted:
            yield self.forms.conditions(check.violation), 1
        yield from ((line, 0) for line in self.size_lines())
        for check in program.checks:
            yield self.forms.conditions(check.violation), 5 if check.points else 1
        extremes = {}
        for argument in program.arguments:
            own = names(argument.name)
            if argument.symmetric:
                yield f"!is_symmetric({own}, {form(argument.shape[0])})", 2
            if argument.dtype == "integer":
                count = "*".join(form(f, UNARY) for f in argument.shape)
                few = (own, own) if not argument.shape else (f"least_of({own}, {count})", f"greatest_of({own}, {count})")
                extremes[f"least {argument.name}"], extremes[f"greatest {argument.name}"] = few
                if argument.below is not None:
                    yield f"{few[0]} < 0 || {few[1]} >= {form(argument.below)}", 2
        if self.searched is not None:
            yield from self.found(CForms(names, self.prover.shapes, extremes))

    def found(self, forms: CForms) -> Iterator[tuple[str, int]]:
        """The search for data that lead a read out of its array, where their range does not rule it out."""
        assert self.searched is not None
        name, places = self.searched
        own = [self.names.fresh(place) for place in places]
        yield "\n".join(f"{INDENT}real {place} = (real){NOWHERE!r};" for place in own), 0
        suspects = " || ".join(f"({forms.conditions(check.violation)})" for check in self.program.data_checks)
        *arguments, last = self.passed()
        count = len(self.program.outputs) - self.options.allocate
        given = arguments[: len(arguments) - count] + [f"&{place}" for place in own]
        call = f"{name}_unchecked({', '.join(given if self.options.allocate else [*given, last])})"
        yield f"({suspects}) && {call}", 3
        yield " || ".join(f"{place} < (real){NOWHERE!r}" for place in own), 2
