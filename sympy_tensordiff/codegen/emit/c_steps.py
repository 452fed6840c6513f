"""The functions of the steps of a program in C: those of nests, and those of calls of a library."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from sympy_tensordiff.codegen.emit.base import number_text
from sympy_tensordiff.codegen.emit.c_library import HELPERS, CallPrinter
from sympy_tensordiff.codegen.emit.c_nests import LIBRARY, OWN, CPrinter
from sympy_tensordiff.codegen.emit.c_products import MULTIPLIED, ProductPrinter
from sympy_tensordiff.codegen.emit.driver import WORD, task_text
from sympy_tensordiff.codegen.emit.forms import INDENT, Names
from sympy_tensordiff.codegen.ir.facts import Prover
from sympy_tensordiff.codegen.ir.programs import Apply, Contraction, Correlation, Fused, Kernel, Program, Solve, Step
from sympy_tensordiff.codegen.ir.walk import filled_arrays, function_name, scalar_arrays
from sympy_tensordiff.codegen.schedule.cpu import Place
from sympy_tensordiff.codegen.schedule.together import nest_of
from sympy_tensordiff.errors import NotInCError


@dataclass
class StepText:
    """The function of a step.

    Its text, the names that are passed to it, and the entries of the arrays it works in, by their names; the exponents
    of its powers; whether it returns a code.
    """

    text: str
    passed: list[str]
    work: dict[str, str] = field(default_factory=dict)
    powers: frozenset[int] = frozenset()
    has_code: bool = False


class StepPrinter:
    """Prints the functions of the steps of a program. ``integers`` are the arguments and sizes that are integers."""

    def __init__(
        self, program: Program, prover: Prover, names: Names, integers: Sequence[str], is_single: bool, parallel: bool
    ) -> None:
        self.program, self.prover, self.names, self.integers = program, prover, names, integers
        self.is_single, self.parallel = is_single, parallel
        self.kinds = self._kinds()

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

    def step(self, step: Step) -> StepText:
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
        size = " + ".join(printer.forms.entries(shape) for shape in printer.entries)
        found = self.function(step, lines, local, {printer.work: size} if size else None)
        found.has_code = True
        return found

    def number(self, value: int | Fraction | float) -> str:
        """A factor."""
        text = number_text(value if value > 0 else -value).replace("/", ".0/")
        return f"{'-' * (value < 0)}((real){text})" if "/" not in text else f"{'-' * (value < 0)}((real)({text}))"

    def nest(self, step: Kernel | Fused) -> StepText:
        """The function of a nest."""
        bare = scalar_arrays(self.program.arguments)
        local = self.names.copy()
        nest = nest_of(step, Place(self.prover, local.fresh, bare))
        printer = CPrinter(local, self.prover.shapes, nest, self.is_single, self.parallel)
        printer.block(nest.body)
        work = {}
        for alloc in nest.arrays:
            if alloc.name not in printer.stack:
                sizes = [printer.integer_text(ends) for ends in alloc.shape]
                work[local(alloc.name)] = "*".join(f"greatest(0, {size})" for size in sizes)
        found = self.function(step, printer.lines, local, work)
        found.powers = frozenset(printer.powers)
        return found

    def function(self, step: Step, lines: Sequence[str], local: Names, work: dict[str, str] | None = None) -> StepText:
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
        return StepText(text, passed, dict(work))


# ---------------------------------------------------------------------------- names
# The names that a C file cannot give to what users name.


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text))


KEYWORDS = _words(
    "auto break case char const continue default do double else enum extern float for goto if inline int long register "
    "restrict return short signed sizeof static struct switch typedef union unsigned void volatile while asm typeof "
    "alignas alignof bool catch class compl concept consteval constexpr constinit decltype delete explicit export "
    "false friend mutable namespace new noexcept nullptr operator private protected public requires template this "
    "throw true try typeid typename using virtual xor and or not bitand bitor not_eq or_eq and_eq xor_eq"
)
"""Those of C and, for the header, of C++."""

MACROS = _words(
    "I NAN INFINITY NULL EOF HUGE_VAL HUGE_VALF HUGE_VALL EDOM ERANGE errno assert complex imaginary isnan isinf "
    "isfinite isnormal signbit fpclassify offsetof unix linux near far min max small BUFSIZ RAND_MAX stdin stdout "
    "stderr va_arg setjmp DOMAIN SING OVERFLOW UNDERFLOW PLOSS TLOSS"
)
"""Names that may be macros where the file or the header is compiled."""

MATH = _words(
    "acos asin atan atan2 cos sin tan acosh asinh atanh cosh sinh tanh exp exp2 expm1 frexp ilogb ldexp log log10 "
    "log1p log2 logb modf scalbn scalbln cbrt fabs hypot pow sqrt erf erfc lgamma tgamma ceil floor nearbyint rint "
    "lrint llrint round lround llround trunc fmod remainder remquo copysign nan nextafter nexttoward fdim fmax fmin "
    "fma j0 j1 jn y0 y1 yn gamma drem significand scalb signgam pow10 exp10 sincos finite abs labs malloc free"
)

OWN_NAMES = _words(
    "real scratch work count code SUMS VECTOR PARALLEL PRAGMA LARGEST SIMD ptrdiff_t size_t int32_t int64_t uint32_t "
    "uint64_t bits_of of_bits bits_of_double"
)
"""What a file itself has, besides functions."""

RESERVED = KEYWORDS | MACROS | MATH | OWN_NAMES | {f"{name}{ending}" for name in MATH for ending in "fl"}
RESERVED |= {*HELPERS, *MULTIPLIED, *LIBRARY.values(), *OWN.values()}


class CNames(Names):
    """Identifiers of C: none begins with an underscore, which C leaves to the compiler."""

    def spelled(self, name: str) -> str:
        name = re.sub("_+", lambda match: "_" if match.start() else "v_", name)
        return f"{name}_value" if re.fullmatch(r"power_\d+|\w+_(of_search|H|RESTRICT)", name) else name
