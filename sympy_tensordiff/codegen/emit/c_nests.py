"""Scheduled loop nests as functions in C99.

All arrays are dense and have one index, integers are ``ptrdiff_t``, numbers are ``real``, which is double or float.
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
from sympy_tensordiff.codegen.emit.forms import ATOM, INDENT, OR, SUM, UNARY, FormPrinter, Names
from sympy_tensordiff.codegen.ir.loops import Alloc, If, Loop, Set, Statement, defines
from sympy_tensordiff.codegen.ir.nests import with_scalars
from sympy_tensordiff.codegen.ir.scalars import Ends, External, Load, Name, Operation, Scalar
from sympy_tensordiff.codegen.ir.walk import forms, scalars, statements
from sympy_tensordiff.codegen.schedule.cpu import Nest
from sympy_tensordiff.codegen.schedule.primitives import add_part
from sympy_tensordiff.codegen.schedule.rows import has_few_steps
from sympy_tensordiff.errors import NotInCError
from sympy_tensordiff.integer.affine import Affine, Compound, Quotient, Row
from sympy_tensordiff.integer.data import DataEntry
from sympy_tensordiff.integer.extrema import Extremum
from sympy_tensordiff.integer.products import SymbolicQuotient

Shapes = Mapping[str, Sequence[Affine]]
Place = tuple[int, ...]
"""Where a statement stands: its number in its block, behind the numbers of the statements around it."""

STACK = 4096
"""Entries of the largest array that a function has on its stack."""

PARTS = 64
"""Parts of a sum on several cores, a few for each core: a file has as many whatever runs it, so that no result differs.

Each takes every `PARTS`-th round of the loop and has a total of its own; these are added in their order.
"""

LIBRARY = {name: text[5:] for name, text in NestPrinter.functions.items() if text.startswith("math.")}
LIBRARY |= {"gamma": "tgamma", "abs": "fabs"} | {name: name for name in ("cbrt", "floor", "ceil", "pow")}
"""The functions of ``math.h``; those for float end in f."""

OWN = {"max": "maximum", "min": "minimum", "sign": "sign", "heaviside": "heaviside"}
OWN |= {"spherical_bessel": "spherical_bessel"}
OWN |= {name: f"vector_{name}" for name in FUNCTIONS}
"""The functions that a file brings along, for both types."""


class CForms(FormPrinter):
    """Integer forms and conditions as C. ``shapes`` are those of the arrays."""

    conjunction = " && "
    choice = "{0} ? {1} : {2}"
    absolute = "greatest({0}, -({0}))"

    def __init__(self, names: Names, shapes: Shapes, replace: Mapping[str, str] | None = None) -> None:
        FormPrinter.__init__(self, names, replace)
        self.shapes = dict(shapes)

    def variable(self, name: str) -> str:
        array, dot, attribute = name.partition(".")
        if not dot or name in self.replace:
            return super().variable(name)
        return self.form(self.shapes[array][int(attribute.strip("shape[]"))], ATOM)

    def place(self, array: str, index: Sequence[Affine]) -> str:
        """The place of an entry in the memory of an array."""
        text = "0"
        for form, extent in zip(index, self.shapes[array], strict=True):
            one = self.form(form)
            if text != "0":
                text = text if re.fullmatch(r"\w+", text) else f"({text})"
                one = f"{text}*{self.form(extent, UNARY)}" + f" + {self.form(form, SUM)}" * (one != "0")
            text = one
        return text

    def entries(self, shape: Iterable[Affine]) -> str:
        """The number of entries of an array."""
        return "*".join(self.form(extent, UNARY) for extent in shape) or "1"

    def loops(self, axes: Sequence[tuple[str, Affine]], lines: Sequence[str]) -> list[str]:
        """Lines, in loops over axes with these names and extents."""
        for name, extent in reversed(axes):
            head = f"for (ptrdiff_t {name} = 0; {name} < {self.form(extent)}; {name}++) {{"
            lines = [head, *(INDENT + line for line in lines), "}"]
        return list(lines)

    def data(self, entry: DataEntry) -> str:
        name = self.names(entry.tensor)
        return f"{name}[{self.place(entry.tensor, entry.index)}]" if entry.index else name

    def conditions(self, rows: Iterable[Row]) -> str:
        return super().conditions(rows) or "1"

    def _term(self, variable: str | Compound | Extremum, factor: int, first_negative: bool) -> str:
        if not isinstance(variable, Quotient | SymbolicQuotient):
            return super()._term(variable, factor, first_negative)
        text = f"divided({self.form(variable.form)}, {self.form(Affine.of(variable.divisor))})"
        return text if factor == 1 else f"{factor}*{text}"

    def integers(self, function: str, texts: Sequence[str]) -> str:
        name = {"max": "greatest", "min": "least"}[function]
        return functools.reduce(lambda one, other: f"{name}({one}, {other})", texts)


class CPrinter(CForms, NestPrinter):
    """Nests of `Loop`, `If`, `Set` and `Alloc`.

    ``is_single``: whether numbers are floats. ``parallel``: whether the outermost loops run on several cores.
    """

    operators: ClassVar[Mapping[str, tuple[str, int]]] = {
        **ScalarPrinter.operators,
        "and": (" && ", OR), "or": (" || ", OR),  # compilers warn of one inside of the other without parentheses
    }  # fmt: skip
    negated = ("!{}", UNARY, UNARY)
    false = "0"

    def __init__(self, names: Names, shapes: Shapes, nest: Nest, is_single: bool, parallel: bool) -> None:
        NestPrinter.__init__(self, names, nest.bare)
        self.shapes = dict(shapes)
        self.is_single = is_single
        self.parallel = parallel
        ending = "f" * is_single
        self.functions = {name: text + ending for name, text in LIBRARY.items()} | OWN
        self.functions |= {"real": "(real)", "double": "(double)"}
        self.arrays = {alloc.name: alloc for alloc in nest.arrays}
        self.shapes |= {name: [_extent(ends) for ends in alloc.shape] for name, alloc in self.arrays.items()}
        self.stack = self.on_stack()
        types = dict.fromkeys((name for name in self.arrays if name in self.stack), "real")
        for statement in filter(defines, statements(nest.body)):
            types.setdefault(statement.name, _type(statement))
        self.declared = _scopes(nest.body, types)

    # -------------------------------------------------------------------- scalars

    def constant(self, text: str) -> str:
        if text in ("math.inf", "math.nan"):
            return {"math.inf": "INFINITY", "math.nan": "NAN"}[text]
        parts = [part if re.search(r"[.e]", part) else f"{part}.0" for part in text.split("/")]
        if len(parts) > 1 or (self.is_single and not 1e-37 < float(parts[0] or 1) < 3e38 and float(parts[0])):
            return f"((real)({'/'.join(parts)}))"
        return parts[0] + "f" * self.is_single

    def index_value(self, form: Affine) -> str:
        return f"(real){self.form(form, ATOM)}"

    def call(self, function: str | External, arguments: tuple[Scalar, ...]) -> str:
        if isinstance(function, External) and function.is_special and function.name in SPECIAL_NAMES:
            return f"{SPECIAL_NAMES[function.name]}({', '.join(map(self.scalar, arguments))})"
        if isinstance(function, External) or function not in self.functions:
            name = function.name if isinstance(function, External) else function
            raise NotInCError(f"C has no function {name}: use another backend, or rewrite it by functions of math.h")
        return ScalarPrinter.call(self, function, arguments)

    def power(self, base: Scalar, exponent: Scalar) -> tuple[str, int]:
        text, own = super().power(base, exponent)
        if "**" not in text:
            return text, own
        return self.call("pow", (base, exponent)), ATOM

    def integer_power(self, base: Scalar, exponent: int) -> tuple[str, int]:
        return f"power_{exponent}({self.scalar(base)})", ATOM

    # -------------------------------------------------------------------- statements

    def on_stack(self) -> frozenset[str]:
        """The arrays that a function makes on its stack."""
        sizes = {name: alloc_size(alloc) for name, alloc in self.arrays.items()}
        return frozenset(name for name, size in sizes.items() if size is not None and size <= STACK)

    def block(self, body: Sequence[Statement], place: Place = ()) -> None:
        """Append the lines of a block."""
        for number, statement in enumerate(body):
            here = (*place, number)
            first = ""
            for name, kind in self.declared.pop(here, {}).items():
                if name in self.arrays:
                    self.line(len(here), f"real {self.names(name)}[{alloc_size(self.arrays[name])}];")
                elif isinstance(statement, Set) and statement.target == Name(name) and not statement.reduction:
                    first = f"{kind} "
                else:
                    self.line(len(here), f"{kind} {self.names(name)} = 0;")
            self.one(statement, here, first)

    def one(self, statement: Statement, here: Place, first: str) -> None:
        """Append the lines of a statement, which ``first`` makes a declaration."""
        depth = len(here)
        if isinstance(statement, Set):
            self.line(depth, f"{first}{self.set_text(statement)};")
            return
        assert isinstance(statement, Loop | If)
        if isinstance(statement, Loop) and depth == 1 and self.parallel and (totals := self.totals(statement, here)):
            self.in_parts(statement, here, totals)
            return
        if isinstance(statement, Loop) and (sums := _vector_sums(statement, self.declared_in(here))):
            self.line(depth, f"SUMS({', '.join(map(self.names, sums))})")
        if isinstance(statement, Loop) and depth == 1 and self.parallel and self.may_run_in_parallel(statement, here):
            self.line(depth, "PARALLEL")
        self.line(depth, self.head_text(statement) + " {")
        self.block(statement.body, here)
        self.line(depth, "}")

    def declared_in(self, here: Place) -> set[str]:
        """What is declared inside of a statement: each turn of a loop has its own."""
        inside = [names for place, names in self.declared.items() if place[: len(here)] == here != place]
        return {name for names in inside for name in names}

    def may_run_in_parallel(self, loop: Loop, here: Place) -> bool:
        """Whether no turn of an outermost loop writes what another one reads or writes."""
        own = self.declared_in(here)
        written: set[str] = set()
        for statement in statements(loop.body):
            if isinstance(statement, Set):
                if isinstance(statement.target, Name) and statement.name not in own:
                    return False
                written |= {statement.name} - own
        entries = [s.target for s in statements(loop.body) if isinstance(s, Set) and isinstance(s.target, Load)]
        entries += [node for node in scalars(loop.body) if isinstance(node, Load)]
        turn = Affine.variable(loop.variable)
        return all(entry.index[:1] == (turn,) for entry in entries if entry.array in written)

    def totals(self, loop: Loop, here: Place) -> list[str]:
        """Return the totals to which each turn of `loop` adds a part; [] where it does more for others."""
        own, found = self.declared_in(here), list[str]()
        body = loop.body
        while body and isinstance(add := body[-1], Set) and isinstance(add.target, Name) and add.name not in own:
            parts = {node.name for node in scalars([add]) if isinstance(node, Name)} - {add.name}
            if add not in [add_part(add.target, Name(part)) for part in parts]:
                return []
            found.append(add.name)
            body = body[:-1]
        rest = [statement for statement in statements(body) if isinstance(statement, Set)]
        is_own = all(isinstance(s.target, Name | Load) and {s.name} <= own for s in rest)
        is_apart = len(set(found)) == len(found) and _mentioned(body).isdisjoint(found)
        return found[::-1] if is_own and is_apart and isinstance(loop.step, int) and loop.step > 0 else []

    def in_parts(self, loop: Loop, here: Place, totals: Sequence[str]) -> None:
        """Append a sum in `PARTS` parts, whose turns are independent, and what adds these to the totals."""
        part, step = self.names.fresh("part"), loop.step
        assert isinstance(step, int)
        names = {total: (self.names.fresh(f"{total}_own"), self.names.fresh(f"{total}_parts")) for total in totals}
        for _, parts in names.values():
            self.line(1, f"double {parts}[{PARTS}];")
        self.line(1, "PARALLEL")
        self.line(1, f"for (ptrdiff_t {part} = 0; {part} < {PARTS}; {part}++) {{")
        for own, _ in names.values():
            self.line(2, f"double {own} = 0.0;")
        counter, low, stop = self.names(loop.variable), self.lower(loop.lows), self.stop(loop.highs)
        first = part if step == 1 else f"{part}*{step}"
        first = first if low == "0" else f"{low} + {first}" if re.fullmatch(r"\w+", low) else f"({low}) + {first}"
        self.line(2, f"for (ptrdiff_t {counter} = {first}; {counter} < {stop}; {counter} += {PARTS * step}) {{")
        begin = len(self.lines)
        self.block(with_scalars(loop.body, {total: Name(own) for total, (own, _) in names.items()}), here)
        self.lines[begin:] = [INDENT + line for line in self.lines[begin:]]
        self.line(2, "}")
        for own, parts in names.values():
            self.line(2, f"{parts}[{part}] = {own};")
        self.line(1, "}")
        self.line(1, f"for (ptrdiff_t {part} = 0; {part} < {PARTS}; {part}++) {{")
        for total, (_, parts) in names.items():
            self.line(2, f"{self.names(total)} += {parts}[{part}];")
        self.line(1, "}")

    def head_text(self, statement: Loop | If) -> str:
        if isinstance(statement, If):
            return f"if ({self.conditions(statement.conditions)})"
        own, low, stop = self.names(statement.variable), self.lower(statement.lows), self.stop(statement.highs)
        step = statement.step
        assert isinstance(step, int)
        if step < 0:
            return f"for (ptrdiff_t {own} = {stop} - 1; {own} >= {low}; {own} -= {-step})"
        return f"for (ptrdiff_t {own} = {low}; {own} < {stop}; {own}{'++' if step == 1 else f' += {step}'})"


def alloc_size(alloc: Alloc) -> int | None:
    """The number of entries of an array of a nest, None where a call decides."""
    size = 1
    for ends in alloc.shape:
        form = _extent(ends)
        if not form.is_constant:
            return None
        size *= max(1, form.constant)
    return size


def _extent(ends: Ends) -> Affine:
    """The extent of an array of a nest, or a bound of it."""
    found = [bound.form + (not ends.lows) for bound in (ends.lows or ends.highs)]
    return next((form for form in found if not form.is_constant), found[0])


def _type(statement: Set) -> str:
    value = statement.value
    if isinstance(value, Ends):
        return "ptrdiff_t"
    function = value.function if isinstance(value, Operation) else ""
    if statement.reduction == "any" or function in ("lt", "le", "eq", "ne", "and", "or", "not"):
        return "int"
    return "double" if function == "double" else "real"


def _scopes(body: Sequence[Statement], wanted: Mapping[str, str]) -> dict[Place, dict[str, str]]:
    """Where scalars, and arrays on the stack, are declared: before the first use in the least block of all uses.

    What a turn of a loop sets and no other reads so belongs to the turn, which may run on another core.
    """
    found: dict[Place, dict[str, str]] = {}
    mentioned = {id(statement): _mentioned([statement]) for statement in statements(body)}
    for name, kind in wanted.items():
        place: Place = ()
        block = body
        while True:
            first, *others = [number for number, one in enumerate(block) if name in mentioned[id(one)]]
            place, only = (*place, first), block[first]
            if others or not isinstance(only, Loop | If) or name in _mentioned([replace(only, body=())]):
                break
            block = only.body
        found.setdefault(place, {})[name] = kind
    return found


def _mentioned(body: Sequence[Statement]) -> set[str]:
    """The names of scalars and arrays that statements mention."""
    entries = [node for node in scalars(body) if isinstance(node, Name | Load)]
    entries += [statement.target for statement in statements(body) if isinstance(statement, Set)]
    names = {entry.name if isinstance(entry, Name) else entry.array for entry in entries}
    return names | {str(atom).partition(".")[0] for form in forms(body) for atom in form.atoms()}


def _vector_sums(loop: Loop, inside: Container[str]) -> list[str]:
    """The sums of a loop whose turns may run as one vector: what else they set is declared ``inside``."""
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
