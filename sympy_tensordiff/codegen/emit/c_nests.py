"""Scheduled loop nests as C99 statements.

Arrays are dense and have one index, integers are ``ptrdiff_t``, numbers are ``real``, which is double or float.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from sympy_tensordiff.codegen.emit.base import NestPrinter, ScalarPrinter
from sympy_tensordiff.codegen.emit.c_special import SPECIAL_NAMES
from sympy_tensordiff.codegen.emit.elementary import FUNCTIONS
from sympy_tensordiff.codegen.emit.forms import ATOM, INDENT, OR, SUM, UNARY, FormNames, FormPrinter
from sympy_tensordiff.codegen.ir.loops import Alloc, If, Loop, Set, Statement, defines
from sympy_tensordiff.codegen.ir.nests import with_scalars
from sympy_tensordiff.codegen.ir.rare_loops import condition_of_loop, without_condition
from sympy_tensordiff.codegen.ir.scalars import Ends, External, Load, Name, Operation, Scalar
from sympy_tensordiff.codegen.ir.walk import forms, scalars, statements
from sympy_tensordiff.codegen.schedule.cpu import Nest
from sympy_tensordiff.codegen.schedule.primitives import add_part
from sympy_tensordiff.codegen.schedule.rows import has_few_steps
from sympy_tensordiff.errors import NotInCError
from sympy_tensordiff.functions.table import operations
from sympy_tensordiff.integer.affine import Affine, Compound, Constraint, Quotient
from sympy_tensordiff.integer.extrema import Extremum
from sympy_tensordiff.integer.indirect import IndirectIndex
from sympy_tensordiff.integer.products import SymbolicQuotient

Shapes = Mapping[str, Sequence[Affine]]
StatementPath = tuple[int, ...]
"""The position of a statement in a nest: the numbers of its enclosing statements in their blocks, then its own."""

MAX_STACK_ENTRIES = 4096
"""The most entries of an array on the stack of a function."""

PARTIAL_SUMS = 64
"""The partial sums of a sum on several cores. Their number does not depend on the machine, so that results do not.

Each adds up every `PARTIAL_SUMS`-th iteration of the loop; the partial sums are added in order.
"""

MATH_FUNCTIONS = {name: record.c_name for name, record in operations().items() if record.c_name} | {"pow": "pow"}
"""The names of the functions in ``math.h``; those for float end in f."""

FILE_FUNCTIONS = {"max": "maximum", "min": "minimum", "sign": "sign", "heaviside": "heaviside"}
FILE_FUNCTIONS |= {"spherical_bessel": "spherical_bessel", "cbrt": "cube_root"}
FILE_FUNCTIONS |= {name: f"vector_{name}" for name in FUNCTIONS} | {"pow": "vector_general_power"}
"""The names of the functions that a file defines itself, for both number types."""


class CForms(FormPrinter):
    """Prints integer forms and conditions as C; ``shapes`` are the shapes of the arrays."""

    conjunction = " && "
    choice = "{0} ? {1} : {2}"
    absolute = "greatest({0}, -({0}))"

    def __init__(self, names: FormNames, shapes: Shapes, replace: Mapping[str, str] | None = None) -> None:
        FormPrinter.__init__(self, names, replace)
        self.shapes = dict(shapes)

    def variable(self, name: str) -> str:
        """Return the C text of the integer variable `name`. A name such as ``A.shape[0]`` means an extent of an array,
        and is printed as its formula.
        """
        array, dot, attribute = name.partition(".")
        if not dot or name in self.replace:
            return super().variable(name)
        return self.form(self.shapes[array][int(attribute.strip("shape[]"))], ATOM)

    def place(self, array: str, index: Sequence[Affine]) -> str:
        """Return the offset of the entry at ``index`` in ``array``, in row-major order, as C text."""
        text = "0"
        for form, extent in zip(index, self.shapes[array], strict=True):
            one = self.form(form)
            if text != "0":
                text = text if re.fullmatch(r"\w+", text) else f"({text})"
                one = f"{text}*{self.form(extent, UNARY)}" + f" + {self.form(form, SUM)}" * (one != "0")
            text = one
        return text

    def entries(self, shape: Iterable[Affine]) -> str:
        """Return the C text for the number of entries of an array with this shape."""
        return "*".join(self.form(extent, UNARY) for extent in shape) or "1"

    def loops(self, axes: Sequence[tuple[str, Affine]], lines: Sequence[str]) -> list[str]:
        """Return ``lines`` inside of C loops over ``axes``, given as names and extents."""
        for name, extent in reversed(axes):
            head = f"for (ptrdiff_t {name} = 0; {name} < {self.form(extent)}; {name}++) {{"
            lines = [head, *(INDENT + line for line in lines), "}"]
        return list(lines)

    def data(self, entry: IndirectIndex) -> str:
        """Return an entry of an integer array as text."""
        name = self.names(entry.tensor)
        return f"{name}[{self.place(entry.tensor, entry.index)}]" if entry.index else name

    def conditions(self, rows: Iterable[Constraint]) -> str:
        """Return the conjunction of the constraints ``rows`` as text; "1" for none."""
        return super().conditions(rows) or "1"

    def _term(self, variable: str | Compound | Extremum, factor: int, first_negative: bool) -> str:
        """Return ``factor*variable``, one term of an affine form without its sign, as C text. A floor quotient becomes
        a call of the C function ``divided``. `first_negative`: whether the form begins with this term, after a minus
        sign.
        """
        if not isinstance(variable, Quotient | SymbolicQuotient):
            return super()._term(variable, factor, first_negative)
        text = f"divided({self.form(variable.form)}, {self.form(Affine.of(variable.divisor))})"
        return text if factor == 1 else f"{factor}*{text}"

    def integers(self, function: str, texts: Sequence[str]) -> str:
        """Return nested C calls of ``greatest`` or ``least``: the maximum or minimum, as ``function`` says, of the
        integers ``texts``.
        """
        name = {"max": "greatest", "min": "least"}[function]
        return functools.reduce(lambda one, other: f"{name}({one}, {other})", texts)


class CPrinter(CForms, NestPrinter):
    """Prints nests of `Loop`, `If`, `Set` and `Alloc` as C.

    ``is_single``: numbers are floats. ``parallel``: the outermost loops run on several cores.
    """

    operators: ClassVar[Mapping[str, tuple[str, int]]] = {
        **ScalarPrinter.operators,
        "and": (" && ", OR), "or": (" || ", OR),  # compilers warn about either inside the other without parentheses
    }  # fmt: skip
    negated = ("!{}", UNARY, UNARY)
    truths = ("0", "1")
    language = "C"
    has_pragmas = True

    def __init__(self, names: FormNames, shapes: Shapes, nest: Nest, is_single: bool, parallel: bool) -> None:
        NestPrinter.__init__(self, names, nest.bare)
        self.shapes = dict(shapes)
        self.is_single = is_single
        self.parallel = parallel
        ending = "f" * is_single
        self.functions = {name: text + ending for name, text in MATH_FUNCTIONS.items()} | FILE_FUNCTIONS
        self.functions |= {"real": "(real)", "double": "(double)"}
        self.arrays = {alloc.name: alloc for alloc in nest.arrays}
        self.shapes |= {name: [_extent(ends) for ends in alloc.shape] for name, alloc in self.arrays.items()}
        self.stack = self.arrays_on_stack()
        types = dict.fromkeys((name for name in self.arrays if name in self.stack), "real")
        for statement in filter(defines, statements(nest.body)):
            types.setdefault(statement.name, _c_type(statement))
        self.declared = _declarations(nest.body, types)

    # -------------------------------------------------------------------- scalars

    def constant(self, text: str) -> str:
        """Return a constant as a C literal of the number type."""
        if text in ("math.inf", "math.nan"):
            return {"math.inf": "INFINITY", "math.nan": "NAN"}[text]
        parts = [part if re.search(r"[.e]", part) else f"{part}.0" for part in text.split("/")]
        if len(parts) > 1 or (self.is_single and not 1e-37 < float(parts[0] or 1) < 3e38 and float(parts[0])):
            return f"((real)({'/'.join(parts)}))"
        return parts[0] + "f" * self.is_single

    def index_value(self, form: Affine) -> str:
        """Return the C text of an integer form converted to a floating-point number."""
        return f"(real){self.form(form, ATOM)}"

    def call(self, function: str | External, arguments: tuple[Scalar, ...]) -> str:
        """Return the call of a function with these ``arguments`` as text; raise NotInCError if C has none."""
        if isinstance(function, External) and function.is_special and function.name in SPECIAL_NAMES:
            return f"{SPECIAL_NAMES[function.name]}({', '.join(map(self.scalar, arguments))})"
        if isinstance(function, External) or function not in self.functions:
            # The name that the user wrote: `scaled_besseli` is in place of `besseli`.
            name = function.name.removeprefix("scaled_") if isinstance(function, External) else function
            raise NotInCError(
                f"{self.language} has no function {name}: use another backend, or rewrite it by functions of math.h"
            )
        return ScalarPrinter.call(self, function, arguments)

    def power(self, base: Scalar, exponent: Scalar) -> tuple[str, int]:
        """Return a power as text, with its precedence; general ones call ``pow``."""
        text, own = super().power(base, exponent)
        if "**" not in text:
            return text, own
        return self.call("pow", (base, exponent)), ATOM

    def integer_power(self, base: Scalar, exponent: int) -> tuple[str, int]:
        """Return the call of a ``power_n`` function of the file for ``base`` to the power ``exponent``, with its
        precedence.
        """
        return f"power_{exponent}({self.scalar(base)})", ATOM

    # -------------------------------------------------------------------- statements

    def arrays_on_stack(self) -> frozenset[str]:
        """Return the names of the nest's arrays that are small enough for the stack."""
        sizes = {name: alloc_size(alloc) for name, alloc in self.arrays.items()}
        return frozenset(name for name, size in sizes.items() if size is not None and size <= MAX_STACK_ENTRIES)

    def print_block(self, body: Sequence[Statement], path: StatementPath = ()) -> None:
        """Append the lines of the statements ``body``, with the declarations that they need. ``path`` has the numbers
        of the statements around them in their blocks, outermost first.
        """
        for number, statement in enumerate(body):
            here = (*path, number)
            first = ""
            for name, kind in self.declared.pop(here, {}).items():
                if name in self.arrays:
                    self.line(len(here), f"real {self.names(name)}[{alloc_size(self.arrays[name])}];")
                elif isinstance(statement, Set) and statement.target == Name(name) and not statement.reduction:
                    first = f"{kind} "
                else:
                    self.line(len(here), f"{kind} {self.names(name)} = 0;")
            self.print_statement(statement, here, first)

    def print_statement(self, statement: Statement, path: StatementPath, kind: str) -> None:
        """Append the lines of ``statement`` in C. For an assignment that also declares its target, ``kind`` is the C
        type of the target, else "". ``path`` is the position of the statement in the nest.
        """
        depth = len(path)
        if isinstance(statement, Set):
            self.line(depth, f"{kind}{self.set_text(statement)};")
            return
        assert isinstance(statement, Loop | If)
        test = condition_of_loop(statement) if isinstance(statement, Loop) else None
        if test is None:
            self.print_block_of(statement, path)
            return
        self.line(depth, f"if ({self.scalar(test)}) {{")
        begin = len(self.lines)
        assert isinstance(statement, Loop)
        self.print_block_of(without_condition(statement, test), path)
        self.lines[begin:] = [INDENT + line for line in self.lines[begin:]]
        self.line(depth, "}")

    def print_block_of(self, statement: Loop | If, path: StatementPath) -> None:
        """Print a loop or guard at ``path`` with its body. Pragmas precede a loop that may run in parallel or be
        vectorised.
        """
        depth = len(path)
        if (
            isinstance(statement, Loop)
            and depth == 1
            and self.parallel
            and (totals := self.totals_of_loop(statement, path))
        ):
            self.print_partial_sums(statement, path, totals)
            return
        sums = _vector_sums(statement, self.declared_in(path)) if isinstance(statement, Loop) else []
        if sums and self.has_pragmas:
            self.line(depth, f"SUMS({', '.join(map(self.names, sums))})")
        if isinstance(statement, Loop) and depth == 1 and self.parallel and self.may_run_in_parallel(statement, path):
            self.line(depth, "PARALLEL")
        self.line(depth, self.head_text(statement) + " {")
        self.print_block(statement.body, path)
        self.line(depth, "}")

    def declared_in(self, path: StatementPath) -> set[str]:
        """Return the names that are declared inside of the statement at ``path``: each iteration of a loop has its own
        copies of them.
        """
        inside = [names for place, names in self.declared.items() if place[: len(path)] == path != place]
        return {name for names in inside for name in names}

    def may_run_in_parallel(self, loop: Loop, path: StatementPath) -> bool:
        """Return whether the iterations of ``loop``, an outermost loop, are certainly independent: they assign no outer
        scalar, and access each outer array that they write only at entries whose first index is the loop variable.
        ``path`` is the loop's position in the kernel.
        """
        own = self.declared_in(path)
        written: set[str] = set()
        for statement in statements(loop.body):
            if isinstance(statement, Set):
                if isinstance(statement.target, Name) and statement.name not in own:
                    return False
                written |= {statement.name} - own
        entries = [s.target for s in statements(loop.body) if isinstance(s, Set) and isinstance(s.target, Load)]
        entries += [node for node in scalars(loop.body) if isinstance(node, Load)]
        iteration = Affine.variable(loop.variable)
        return all(entry.index[:1] == (iteration,) for entry in entries if entry.array in written)

    def totals_of_loop(self, loop: Loop, path: StatementPath) -> list[str]:
        """Return the names of the scalars to which each iteration of ``loop`` adds one term, if these additions are its
        only effect on values outside of it; else []. Such a loop can be run in parallel with partial sums.

        ``path`` is the position of ``loop`` in the kernel.
        """
        own, found = self.declared_in(path), list[str]()
        body = loop.body
        while body and isinstance(add := body[-1], Set) and isinstance(add.target, Name) and add.name not in own:
            parts = {node.name for node in scalars([add]) if isinstance(node, Name)} - {add.name}
            if add not in [add_part(add.target, Name(part)) for part in parts]:
                return []
            found.append(add.name)
            body = body[:-1]
        rest = [statement for statement in statements(body) if isinstance(statement, Set)]
        is_own = all(isinstance(s.target, Name | Load) and {s.name} <= own for s in rest)
        is_unread = len(set(found)) == len(found) and _mentioned_names(body).isdisjoint(found)
        return found[::-1] if is_own and is_unread and isinstance(loop.step, int) and loop.step > 0 else []

    def print_partial_sums(self, loop: Loop, path: StatementPath, totals: Sequence[str]) -> None:
        """Print code that computes ``loop`` on several cores: `PARTIAL_SUMS` independent partial sums of each of
        ``totals``, the names that ``loop`` adds to, and a second loop that adds these up.

        ``path`` is the position of ``loop``.
        """
        part, step = self.names.fresh("part"), loop.step
        assert isinstance(step, int)
        names = {total: (self.names.fresh(f"{total}_own"), self.names.fresh(f"{total}_parts")) for total in totals}
        for _, parts in names.values():
            self.line(1, f"double {parts}[{PARTIAL_SUMS}];")
        self.line(1, "PARALLEL")
        self.line(1, f"for (ptrdiff_t {part} = 0; {part} < {PARTIAL_SUMS}; {part}++) {{")
        for own, _ in names.values():
            self.line(2, f"double {own} = 0.0;")
        counter, low, stop = self.names(loop.variable), self.lower(loop.lows), self.stop(loop.highs)
        first = part if step == 1 else f"{part}*{step}"
        first = first if low == "0" else f"{low} + {first}" if re.fullmatch(r"\w+", low) else f"({low}) + {first}"
        self.line(2, f"for (ptrdiff_t {counter} = {first}; {counter} < {stop}; {counter} += {PARTIAL_SUMS * step}) {{")
        begin = len(self.lines)
        self.print_block(with_scalars(loop.body, {total: Name(own) for total, (own, _) in names.items()}), path)
        self.lines[begin:] = [INDENT + line for line in self.lines[begin:]]
        self.line(2, "}")
        for own, parts in names.values():
            self.line(2, f"{parts}[{part}] = {own};")
        self.line(1, "}")
        self.line(1, f"for (ptrdiff_t {part} = 0; {part} < {PARTIAL_SUMS}; {part}++) {{")
        for total, (_, parts) in names.items():
            self.line(2, f"{self.names(total)} += {parts}[{part}];")
        self.line(1, "}")

    def head_text(self, statement: Loop | If) -> str:
        """Return the head of a ``for`` or ``if`` statement, without its brace."""
        if isinstance(statement, If):
            return f"if ({self.conditions(statement.conditions)})"
        own, low, stop = self.names(statement.variable), self.lower(statement.lows), self.stop(statement.highs)
        step = statement.step
        assert isinstance(step, int)
        if step < 0:
            return f"for (ptrdiff_t {own} = {stop} - 1; {own} >= {low}; {own} -= {-step})"
        return f"for (ptrdiff_t {own} = {low}; {own} < {stop}; {own}{'++' if step == 1 else f' += {step}'})"


def alloc_size(alloc: Alloc) -> int | None:
    """Return the number of entries of the local array that `alloc` declares; None if an extent is not a constant."""
    size = 1
    for ends in alloc.shape:
        form = _extent(ends)
        if not form.is_constant:
            return None
        size *= max(1, form.constant)
    return size


def _extent(ends: Ends) -> Affine:
    """Return `ends`, the extent of an axis of a local array, as a single form. For a maximum or minimum of several
    forms, such as ``max(n, 0)``, it is the one that is not constant.
    """
    found = [bound.form + (not ends.lows) for bound in (ends.lows or ends.highs)]
    return next((form for form in found if not form.is_constant), found[0])


def _c_type(statement: Set) -> str:
    """Return the C type of the scalar that a statement sets."""
    value = statement.value
    if isinstance(value, Ends):
        return "ptrdiff_t"
    function = value.function if isinstance(value, Operation) else ""
    if statement.reduction == "any" or function in ("lt", "le", "eq", "ne", "and", "or", "not"):
        return "int"
    return "double" if function == "double" else "real"


def _declarations(body: Sequence[Statement], wanted: Mapping[str, str]) -> dict[StatementPath, dict[str, str]]:
    """Choose where to declare the scalars ``wanted``, a dictionary from names to C types: each in the innermost block
    of ``body`` with all its uses. Return a dictionary from positions of statements to the names and types declared
    before them.

    So each iteration of a loop has its own copy of a scalar that no other iteration reads, and may run on another core.
    """
    found: dict[StatementPath, dict[str, str]] = {}
    mentioned = {id(statement): _mentioned_names([statement]) for statement in statements(body)}
    for name, kind in wanted.items():
        path: StatementPath = ()
        block = body
        while True:
            first, *others = [number for number, one in enumerate(block) if name in mentioned[id(one)]]
            path, only = (*path, first), block[first]
            if others or not isinstance(only, Loop | If) or name in _mentioned_names([replace(only, body=())]):
                break
            block = only.body
        found.setdefault(path, {})[name] = kind
    return found


def _mentioned_names(body: Sequence[Statement]) -> set[str]:
    """Return the names of all scalars, arrays and variables of integer forms that occur in the statements `body`."""
    entries = [node for node in scalars(body) if isinstance(node, Name | Load)]
    entries += [statement.target for statement in statements(body) if isinstance(statement, Set)]
    names = {entry.name if isinstance(entry, Name) else entry.array for entry in entries}
    return names | {str(atom).partition(".")[0] for form in forms(body) for atom in form.atoms()}


def _vector_sums(loop: Loop, inside: Container[str]) -> list[str]:
    """Return the names of the accumulators to which the innermost ``loop`` adds, so that a pragma can tell the compiler
    to vectorise these sums. [] if the loop does anything else, or is short.

    ``inside`` are the names of scalars declared in the loop.
    """
    if has_few_steps(loop):
        return []
    sums: dict[str, None] = {}
    for statement in loop.body:
        if not isinstance(statement, Set) or not isinstance(statement.target, Name):
            return []
        if statement.name not in inside:
            sums[statement.name] = None
            if statement.reduction != "sum":
                return []
    return [] if any(isinstance(node, Name) and node.name in sums for node in scalars(loop.body)) else list(sums)
