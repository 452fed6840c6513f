"""The steps of a program as C functions: loop nests, matrix products and linear algebra."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import ClassVar, NamedTuple

from sympy_tensordiff.codegen.emit.base import number_text
from sympy_tensordiff.codegen.emit.c_library import COLUMNS, HELPERS, PRODUCT_HELPERS, ROWS, TERMS, TILE
from sympy_tensordiff.codegen.emit.c_nests import FILE_FUNCTIONS, MATH_FUNCTIONS, CForms, CPrinter
from sympy_tensordiff.codegen.emit.c_special import SPECIAL
from sympy_tensordiff.codegen.emit.driver import WORD, task_text
from sympy_tensordiff.codegen.emit.forms import INDENT, UNARY, FormNames
from sympy_tensordiff.codegen.ir.facts import Prover
from sympy_tensordiff.codegen.ir.programs import (
    Apply,
    ContractionStep,
    Correlation,
    FusedKernels,
    Kernel,
    Program,
    Recurrence,
    Solve,
    Step,
)
from sympy_tensordiff.codegen.ir.scalars import Load
from sympy_tensordiff.codegen.ir.steps import Shapes, in_views
from sympy_tensordiff.codegen.ir.walk import filled_arrays, function_name, scalar_arrays
from sympy_tensordiff.codegen.schedule.cpu import ScheduleContext
from sympy_tensordiff.codegen.schedule.fusion import nest_of
from sympy_tensordiff.errors import NotInCError
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.products import slope


class StepText(NamedTuple):
    """A printed C function of a step, with the names of its arguments, the sizes of its scratch arrays, and whether it
    returns an error code.

    ``passed`` are the names of its arguments, and ``work`` maps its scratch arrays to their numbers of entries.
    """

    text: str
    passed: list[str]
    work: dict[str, str]
    has_code: bool


class CStepPrinter:
    """The printer of each step of a program as a C function; ``integers`` are the arguments and sizes that are
    integers.
    """

    storage = "static"
    with_code: ClassVar[tuple[type, ...]] = (Solve, Apply, Recurrence)
    """The kinds of steps whose functions return a code."""

    def __init__(
        self,
        program: Program,
        prover: Prover,
        names: FormNames,
        integers: Sequence[str],
        is_single: bool,
        parallel: bool,
    ) -> None:
        self.program, self.prover, self.names, self.integers = program, prover, names, integers
        self.is_single, self.parallel = is_single, parallel
        self.declarations = self._declarations()

    def _declarations(self) -> dict[str, str]:
        """Return the C declaration of each possible parameter of a step's function, by name. Arrays that the program
        fills are not ``const``, since a step may write to them.
        """
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
        """Return the C function of any step by the printer for its kind; raise NotInCError if C has no routine for the
        step.
        """
        if isinstance(step, Kernel | FusedKernels):
            return self.nest(step)
        if not isinstance(step, Solve | Apply | ContractionStep | Correlation):
            raise NotInCError(
                f"C has no routine for {step.array}, a {type(step).__name__}, which needs singular values: use another "
                "backend, or write det(A)*inv(A) for the derivative of a determinant"
            )
        local, shapes = self.names.copy(), self.prover.shapes
        factor = "" if step.factor == 1 else f"{self.number(step.factor)}*"
        if isinstance(step, ContractionStep | Correlation):
            product = CProductPrinter(step, local, shapes, factor.rstrip("*"))
            return self.function(step, product.printed(), local, {product.work: product.size()})
        printer = CLibraryCallPrinter(step, local, shapes, factor)
        lines = [f"{INDENT}int {printer.code} = 0;", *printer.printed(), f"{INDENT}return {printer.code};"]
        size = " + ".join(printer.forms.entries(shape) for shape in printer.entries)
        return self.function(step, lines, local, {printer.work: size} if size else {})

    def number(self, value: int | Fraction | float) -> str:
        """Return a constant factor as C text."""
        text = number_text(value if value > 0 else -value).replace("/", ".0/")
        return f"{'-' * (value < 0)}((real){text})" if "/" not in text else f"{'-' * (value < 0)}((real)({text}))"

    def nest(self, step: Kernel | FusedKernels) -> StepText:
        """Return the C function of a kernel or of fused kernels."""
        bare = scalar_arrays(self.program.arguments)
        local = self.names.copy()
        off = self.program.rules_off
        if self.parallel:  # threads would share the local array between two loops
            off |= {"distribute"}
        nest = nest_of(step, ScheduleContext(self.prover, local.fresh, bare, off=off))
        printer = CPrinter(local, self.prover.shapes, nest, self.is_single, self.parallel)
        printer.print_block(nest.body)
        work = {}
        for alloc in nest.arrays:
            if alloc.name not in printer.stack:
                sizes = [printer.integer_text(ends) for ends in alloc.shape]
                work[local(alloc.name)] = "*".join(f"greatest(0, {size})" for size in sizes)
        return self.function(step, printer.lines, local, work)

    def function(self, step: Step, lines: Sequence[str], local: FormNames, work: dict[str, str]) -> StepText:
        """Return the text of the C function of ``step`` with the body ``lines``. Its parameters are the arrays, numbers
        and sizes of the program that occur in the lines, and the scratch arrays ``work``.

        ``work`` maps names of arrays to their numbers of entries, as C text; ``local`` has the C names of integer
        forms.
        """
        words = set(WORD.findall("\n".join(lines)))
        filled = {self.names(name) for name in filled_arrays(step)}
        rows = {self.names(array.name) for array in step.rows} if isinstance(step, FusedKernels) else set()
        passed = [name for name in self.declarations if name in words and name not in rows]
        declared = []
        for name in passed:
            kind = self.declarations[name]
            constant = kind.startswith("real *") and name not in filled
            declared.append(f"const {kind}" if constant else kind)
        declared += [f"real *restrict {name}" for name in work]
        what = " and ".join(map(self.names, filled_arrays(step)))
        comment = task_text(step, local) if isinstance(step, Kernel) else f"Fill {what}"
        has_code = isinstance(step, self.with_code)
        head = f"{self.storage} {'int' if has_code else 'void'} {function_name(step)}({', '.join(declared)}) {{"
        text = "\n".join([f"/* {comment}. */", head, *lines, "}"])
        return StepText(text, passed, work, has_code)


# ---------------------------------------------------------------------------- calls of a library


DETERMINANT_KINDS = {"det": 0, "logdet": 1, "logabsdet": 2}


class CLibraryCallPrinter:
    """Prints the C body of the function of a linear-algebra step (inverse, determinant, factors or solution), which
    handles the matrices of a batch one after the other in the scratch memory ``work``.
    """

    def __init__(self, step: Solve | Apply, names: FormNames, shapes: Shapes, factor: str) -> None:
        self.step = step
        self.names = names
        self.forms = CForms(names, shapes)
        self.factor = factor
        self.lines: list[str] = []
        operand = step.operand if isinstance(step, Apply) else step.left.array
        *batch, _, n = shapes[operand]
        self.operand, self.batch, self.n = operand, list(batch), n
        self.work = names.fresh("work")
        self.code = names.fresh("code")
        self.entries: list[list[Affine]] = []
        """The shapes of the arrays within ``work``."""

    def loops(self, axes: Sequence[tuple[str, Affine]], line: str) -> None:
        """Append loops over ``axes``, pairs of a name and a length, to the C code, with the line ``line``
        as the body.
        """
        self.lines += self.forms.loops(axes, [line])

    def array(self, wish: str, shape: Sequence[Affine]) -> str:
        """Print the declaration of an array with this ``shape`` in the scratch memory of the step, and return its name,
        which resembles ``wish``.
        """
        name = self.names.fresh(wish)
        place = "".join(f" + {self.forms.entries(one)}" for one in self.entries)
        self.lines.append(f"real *{name} = {self.work}{place};")
        self.forms.shapes[name] = shape
        self.entries.append(list(shape))
        return name

    def entry(self, array: str, index: Sequence[str]) -> str:
        """Return an array entry as C text; ``index`` are names of loop variables."""
        own = self.names(array)
        return f"{own}[{self.forms.place(array, list(map(Affine.variable, index)))}]"

    def printed(self) -> list[str]:
        """Return the lines of the C function of a linear-algebra step."""
        step, n = self.step, self.n
        fresh = self.names.fresh
        batch = [fresh(f"b{number}") for number in range(len(self.batch))]
        head = list(zip(batch, self.batch, strict=True))
        row, column = fresh("i"), fresh("j")
        if isinstance(step, Apply) and step.function == "factors":
            self.factors(step, batch, row, column)
        else:
            if step.factored:
                factors = fresh("factors")
                self.forms.shapes[factors] = (n + 1, n)
                place = self.forms.place(self.operand, [*map(Affine.variable, batch), Affine(), Affine()])
                self.lines.append(f"const real *{factors} = {self.names(self.operand)} + {place};")
            else:
                factors = self.array("factors", (n + 1, n))
                source = self.entry(self.operand, [*batch, row, column])
                self.loops([(row, n), (column, n)], f"{self.entry(factors, [row, column])} = {source};")
                self.lines.append(f"factorized({factors}, {self.forms.form(n)}, 0);")
            if isinstance(step, Solve):
                self.solve(step, factors, batch)
            else:
                self.apply(step, factors, batch, row, column)
        return [INDENT + line for line in self.forms.loops(head, self.lines)]

    def factors(self, step: Apply, batch: list[str], row: str, column: str) -> None:
        """Append C code that computes the triangular factors of each matrix of a batch: it copies the matrix to the
        result, and factorises it there.

        ``row`` and ``column`` are names of loop variables.
        """
        source = self.entry(self.operand, [*batch, row, column])
        target = self.entry(step.array, [*batch, row, column])
        self.loops([(row, self.n), (column, self.n)], f"{target} = {source};")
        place = self.forms.place(step.array, [*map(Affine.variable, batch), Affine(), Affine()])
        call = f"factorized({self.names(step.array)} + {place}, {self.forms.form(self.n)}, {step.options[0]})"
        self.lines.append(f"{self.code} |= {call};")

    def apply(self, step: Apply, factors: str, batch: list[str], row: str, column: str) -> None:
        """Append C code that computes and stores the inverse or determinant of a matrix, as ``step`` says, from its
        triangular factors, an array with the name ``factors``. Raise NotInCError for other functions of a matrix.

        ``batch``, ``row`` and ``column`` are names of loop variables.
        """
        value = [*batch, row, column] if step.function == "inv" else batch
        index = [value[axis] for axis in step.axes] if step.axes else value
        n = self.forms.form(self.n)
        if step.function in DETERMINANT_KINDS:
            text = f"determinant({factors}, {n}, {DETERMINANT_KINDS[step.function]})"
            self.lines.append(f"{self.entry(step.array, index)} = {self.factor}{text};")
            return
        if step.function != "inv":
            raise NotInCError(
                f"C has no routine for {step.array}, which is a {step.function} (a determinant's derivative, which "
                "holds at singular matrices, too): use another backend, or write det(A)*inv(A) where A is not singular"
            )
        axes = [(row, self.n), (column, self.n)]
        self.solved(factors, axes, f"{row} == {column}", self.entry(step.array, index))

    def solve(self, step: Solve, factors: str, batch: list[str]) -> None:
        """Append C code that solves the step's linear systems with the triangular ``factors`` of their matrix;
        ``batch`` are the loop variables of the batch.
        """
        *labels, first, second = step.left.labels
        summed, free = (second, first) if first in step.output else (first, second)
        names = dict(zip(labels, batch, strict=True))
        extents = dict(zip(step.right.labels, self.forms.shapes[step.right.array], strict=True))
        rest = [label for label in step.output if label != free and label not in labels]
        axes = [(names.setdefault(label, self.names.fresh(f"k{n}")), extents[label]) for n, label in enumerate(rest)]
        names[summed] = names[free] = row = self.names.fresh("k")
        source = self.entry(step.right.array, [names[label] for label in step.right.labels])
        target = self.entry(step.array, [names[label] for label in step.output])
        self.solved(factors, [(row, self.n), *axes], source, target, first == summed)

    def solved(
        self, factors: str, axes: Sequence[tuple[str, Affine]], source: str, target: str, is_transposed: bool = False
    ) -> None:
        """Append C code that solves linear systems with a matrix, given by its triangular ``factors``, or with its
        transpose. The right sides are read from the entry ``source``; the solutions are written to the entry
        ``target``.

        ``axes`` are the axes of the columns.
        """
        columns = self.array("columns", [extent for _, extent in axes])
        own = self.entry(columns, [name for name, _ in axes])
        self.loops(axes, f"{own} = {source};")
        count = self.forms.entries(extent for _, extent in axes[1:])
        call = f"solved({factors}, {columns}, {self.forms.form(self.n)}, {count}, {int(is_transposed)})"
        self.lines.append(f"{self.code} |= {call};")
        self.loops(axes, f"{target} = {self.factor}{own};")


# ---------------------------------------------------------------------------- products of matrices
# Matrix products: contractions and correlations, whose operands are read with strides.
#
# Each label has a stride in the arrays that it indexes. Labels of the left operand and the result are the rows of a
# matrix, labels of the right operand and the result its columns, labels of both operands are summed over; other labels
# are loops. Blocks of both operands are packed in the order of their use.


class CProductPrinter:
    """Prints the body of a contraction or correlation: calls of a blocked matrix product with strided operands."""

    def __init__(self, step: ContractionStep | Correlation, names: FormNames, shapes: Shapes, factor: str) -> None:
        self.names = names
        self.forms = CForms(names, shapes)
        self.shapes = shapes
        self.factor = factor or "1"
        self.work = names.fresh("work")
        found = step if isinstance(step, Correlation) else in_views(step, shapes, names.fresh)
        self.views, self.labels = found.views, found.labels
        self.steps = [{name: self.step(view, name) for name, _ in self.labels} for view in self.views]
        wanted: dict[tuple[int, ...], str] = {(0, 1): "rows", (0, 2): "columns", (1, 2): "terms"}
        self.groups: dict[str, list[tuple[str, Affine]]] = {group: [] for group in (*wanted.values(), "loops")}
        for name, extent in self.labels:
            inside = tuple([n for n in range(3) if self.steps[n][name]])
            self.groups[wanted.get(inside, "loops")].append((name, extent))
        # The last axis of the result is the last of its group.
        index = self.views[0].index
        place = {name: n for n, form in enumerate(index) for name, _ in self.labels if name in form.atoms()}
        for group in self.groups.values():
            group.sort(key=lambda label: place.get(label[0], -1))

    def step(self, view: Load, label: str) -> str:
        """Return as C text by how much the position in memory grows if the index ``label`` of the array that ``view``
        reads grows by 1 (the stride); "" if the read does not depend on ``label``.
        """
        texts = []
        for axis, form in enumerate(view.index):
            if label in form.atoms():
                found = slope(form, label)
                assert found is not None
                own = [found[0], *self.shapes[view.array][axis + 1 :]]
                factors = [self.forms.form(one, UNARY) for one in own if one != Affine.of(1)]
                texts.append("*".join(factors) or "1")
        return " + ".join(texts)

    def size(self) -> str:
        """Return the number of entries of the work memory into which a matrix product packs blocks of its operands, as
        C text.
        """
        terms, columns = (
            self.forms.entries(extent for _, extent in self.groups[group]) for group in ("terms", "columns")
        )
        return f"least({TERMS}, {terms})*({ROWS} + least({COLUMNS}, {columns} + {TILE[1] - 1}))"

    def start(self, view: Load) -> str:
        """Return the C pointer to the first entry of the operand that ``view`` reads, at the current values of the
        outer loops.
        """
        inner = {name: Affine() for group in ("rows", "columns", "terms") for name, _ in self.groups[group]}
        return f"{self.names(view.array)} + {self.forms.place(view.array, [f.substitute(inner) for f in view.index])}"

    def printed(self) -> list[str]:
        """Return the lines of the C function of a contraction or correlation."""
        out = self.views[0]
        count = self.forms.entries(self.shapes[out.array])
        index = self.names.fresh("n")
        lines = [f"for (ptrdiff_t {index} = 0; {index} < {count}; {index}++) {{"]
        lines += [f"{INDENT}{self.names(out.array)}[{index}] = 0;", "}"]
        passed = []
        for group, pair in (("rows", (0, 1)), ("columns", (0, 2)), ("terms", (1, 2))):
            own = [(self.forms.form(e), *(self.steps[n][name] for n in pair)) for name, e in self.groups[group]]
            name = self.names.fresh(group)
            table = ", ".join(f"{{{', '.join(row)}}}" for row in own or [("1", "0", "0")])
            lines.append(f"const ptrdiff_t {name}[][3] = {{{table}}};")
            passed.append(f"{max(1, len(own))}, {name}")
        axes = [(self.names(name), extent) for name, extent in self.groups["loops"]]
        starts = ", ".join(map(self.start, self.views))
        lines += self.forms.loops(axes, [f"multiplied({starts}, {self.factor}, {', '.join(passed)}, {self.work});"])
        return [INDENT + line for line in lines]


# ---------------------------------------------------------------------------- names
# Reserved names, which a C file cannot use for arguments and functions of users.


def _words(text: str) -> frozenset[str]:
    """Return the identifiers and other words in a text."""
    return frozenset(re.findall(r"\w+", text))


KEYWORDS = _words(
    "auto break case char const continue default do double else enum extern float for goto if inline int long register "
    "restrict return short signed sizeof static struct switch typedef union unsigned void volatile while asm typeof "
    "alignas alignof bool catch class compl concept consteval constexpr constinit decltype delete explicit export "
    "false friend mutable namespace new noexcept nullptr operator private protected public requires template this "
    "throw true try typeid typename using virtual xor and or not bitand bitor not_eq or_eq and_eq xor_eq"
)
"""The keywords of C and, for the header, of C++."""

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
"""The names that a file itself defines, other than functions."""

RESERVED = KEYWORDS | MACROS | MATH | OWN_NAMES | {f"{name}{ending}" for name in MATH for ending in "fl"}
RESERVED |= {*HELPERS, *PRODUCT_HELPERS, *SPECIAL, *MATH_FUNCTIONS.values(), *FILE_FUNCTIONS.values()}


class CNames(FormNames):
    """The identifiers of a C file: none begins with an underscore, which C reserves for the compiler."""

    def spelled(self, name: str) -> str:
        """Return ``name`` as a valid C identifier that has no leading or double underscores and does not clash with
        other names in the file.
        """
        name = re.sub("_+", lambda match: "_" if match.start() else "v_", name)
        return f"{name}_value" if re.fullmatch(r"power_\d+|\w+_(of_search|H|RESTRICT)", name) else name
