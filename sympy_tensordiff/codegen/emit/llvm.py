"""Scheduled loop nests as functions in the language of LLVM.

A nest knows every type, bound and alias: scalars are slots on the stack, of which LLVM makes registers, loop variables
are values, arrays are pointers without aliases whose strides come from their shapes. Sizes, arrays and numbers that a
function turns out to use become its parameters, so that functions that differ in names alone have the same text.
"""

from __future__ import annotations

import itertools
import math
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from functools import partial, reduce
from typing import Any

from sympy_tensordiff.codegen.emit.base import reciprocal, signed_text, split_sign
from sympy_tensordiff.codegen.emit.elementary import FUNCTIONS
from sympy_tensordiff.codegen.emit.llvm_elementary import elementary_text
from sympy_tensordiff.codegen.ir.facts import integer_form
from sympy_tensordiff.codegen.ir.loops import Alloc, If, Loop, Set, Statement
from sympy_tensordiff.codegen.ir.nests import FALSE
from sympy_tensordiff.codegen.ir.scalars import (
    EXTREMA,
    INFINITY,
    Bound,
    Ends,
    External,
    Identity,
    IndexValue,
    Load,
    Name,
    Number,
    Operation,
    Scalar,
)
from sympy_tensordiff.codegen.ir.walk import statements
from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.integer.affine import Affine, Quotient, Row, Variable, quotient
from sympy_tensordiff.integer.data import DataEntry
from sympy_tensordiff.integer.extrema import PositivePart, extrema_in
from sympy_tensordiff.integer.products import Product, SymbolicQuotient

FLAGS = "contract nsz"
"""Fused multiply-add, and ignored signs of zero: what keeps nan and infinities. Sums may be reordered, too."""

INTRINSICS = {"sqrt": "sqrt", "abs": "fabs", "sin": "sin", "cos": "cos", "floor": "floor", "ceil": "ceil"}
INTRINSICS |= {"log2": "log2", "log10": "log10", "pow": "pow", "copysign": "copysign"}
"""The functions that LLVM itself knows."""

LIBRARY = {"arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2", "arcsinh": "asinh"}
LIBRARY |= {"arccosh": "acosh", "arctanh": "atanh", "gamma": "tgamma"}
LIBRARY |= {name: name for name in ("tan", "sinh", "cosh", "erf", "erfc", "lgamma", "cbrt", "hypot")}
"""The functions of the mathematical library of C; those for single precision end in f."""

COMPARED = {"lt": ("slt", "olt"), "le": ("sle", "ole"), "eq": ("eq", "oeq"), "ne": ("ne", "une")}

LONG = 32
"""Loops of more turns, a known number, and without branches gain nothing from being unrolled but vectors side by side.

LLVM makes thousands of instructions of a copy of columns: the row mttkrp is compiled in 0.2 s, otherwise in 3.3 s.
"""

ROLLED = ", !llvm.loop !rolled"
"""At the end of a loop that is not unrolled; the module has a node of its own for each."""

NO_MEMORY = 2
"""The code of a function that finds no memory."""

POWER = """\
define internal {0} @power.{0}({0} %x, i64 %n) alwaysinline {{
entry:
  %size = call i64 @llvm.abs.i64(i64 %n, i1 false)
  br label %turn
turn:
  %e = phi i64 [ %size, %entry ], [ %e.half, %turn ]
  %b = phi {0} [ %x, %entry ], [ %b.square, %turn ]
  %r = phi {0} [ 1.0, %entry ], [ %r.next, %turn ]
  %bit = trunc i64 %e to i1
  %r.times = fmul contract nsz {0} %r, %b
  %r.next = select i1 %bit, {0} %r.times, {0} %r
  %b.square = fmul contract nsz {0} %b, %b
  %e.half = lshr i64 %e, 1
  %goes = icmp ne i64 %e.half, 0
  br i1 %goes, label %turn, label %done
done:
  %inverse = fdiv {0} 1.0, %r.next
  %negative = icmp slt i64 %n, 0
  %value = select i1 %negative, {0} %inverse, {0} %r.next
  ret {0} %value
}}"""
"""A power with an integer by squaring."""

Value = tuple[str, str]
"""The text of a value and its type."""


def real_text(value: float, kind: str) -> str:
    """A floating point constant, exactly."""
    if kind == "float" and math.isfinite(value):
        try:
            value = struct.unpack("f", struct.pack("f", value))[0]
        except OverflowError:
            value = math.copysign(math.inf, value)
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


class Module:
    """The functions of one module, for results of type ``real``, and what they call.

    ``externals`` are the symbols of the functions that the user supplies.
    """

    def __init__(self, real: str, externals: Mapping[External, str]) -> None:
        self.real = real
        self.size = 8 if real == "double" else 4
        self.externals = externals
        self.functions: dict[str, str] = {}
        self.declared: dict[str, str] = {}
        self._known: dict[str, str] = {}

    def declare(self, name: str, result: str, kinds: Sequence[str], attributes: str = "") -> str:
        """The symbol of a function of another module."""
        self.declared[name] = f"declare {result} @{name}({', '.join(kinds)}){attributes}"
        return name

    def define(self, name: str, text: str) -> str:
        """The symbol of a function with a text that stands there once."""
        self.functions.setdefault(name, text)
        return name

    def shared(self, name: str, text: str) -> str:
        """The symbol of a function whose text has ``{name}`` for it, or of another one with the same text."""
        own = self._known.setdefault(text, name)
        self.functions.setdefault(own, text.replace("{name}", own))
        return own

    def elementary(self, name: str, kind: str) -> str:
        """The symbol of one of the functions that can be vectorised."""
        symbol = f"{name}.{kind}"
        if symbol not in self.functions:
            text, called = elementary_text(name, kind)
            for other in called:
                self.elementary(other, kind)
            self.functions[symbol] = text
        return symbol

    def text(self) -> str:
        """The whole."""
        declared = {n: line for n, line in self.declared.items() if n not in self.functions}
        used = "\n".join(self.functions.values())
        for name, result, kinds in (("fabs", "{0}", 1), ("copysign", "{0}", 2)):
            for kind, short in (("double", "f64"), ("float", "f32")):
                if f"@llvm.{name}.{short}(" in used:
                    full = f"llvm.{name}.{short}"
                    declared.setdefault(full, f"declare {kind} @{full}({', '.join([kind] * kinds)})")
        count = itertools.count(1)
        text = re.sub(ROLLED, lambda match: f", !llvm.loop !{next(count)}", used)
        nodes = [f"!{n} = distinct !{{!{n}, !0}}" for n in range(1, next(count))]
        nodes = ['!0 = !{!"llvm.loop.unroll.disable"}', *nodes] if nodes else []
        return "\n".join([text, *declared.values(), *nodes]) + "\n"


class Builder:
    """The blocks of a function, one line after the other."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.lines: list[str] = []
        self.slots: list[str] = []
        self.label = "entry"
        self.count = 0
        self.known: dict[Affine, str] = {}
        """The values of forms, as far as they have been computed on the way to here."""

    # ------------------------------------------------------------------------ blocks

    def new(self, text: str) -> str:
        """A new value."""
        self.count += 1
        self.lines.append(f"  %v{self.count} = {text}")
        return f"%v{self.count}"

    def line(self, text: str) -> None:
        """An instruction without a value."""
        self.lines.append(f"  {text}")

    def slot(self, kind: str) -> str:
        """A place on the stack."""
        self.count += 1
        self.slots.append(f"  %s{self.count} = alloca {kind}")
        return f"%s{self.count}"

    def labels(self, *words: str) -> list[str]:
        """New labels."""
        self.count += 1
        return [f"{word}{self.count}" for word in words]

    def start(self, label: str) -> None:
        """Begin a block."""
        self.lines.append(f"{label}:")
        self.label = label

    def branch(self, condition: str, yes: str, no: str) -> None:
        """End a block."""
        self.line(f"br i1 {condition}, label %{yes}, label %{no}")

    @contextmanager
    def when(self, *conditions: Callable[[], str]) -> Iterator[None]:
        """What runs where all conditions hold; each is asked where those before it hold."""
        (after,) = self.labels("after")
        outside = dict(self.known)
        for condition in conditions:
            (yes,) = self.labels("then")
            self.branch(condition(), yes, after)
            self.start(yes)
        yield
        self.known = outside
        self.line(f"br label %{after}")
        self.start(after)

    @contextmanager
    def loop(self, low: str, stop: str, step: int = 1, is_rolled: bool = False) -> Iterator[str]:
        """What runs for all values from ``low`` to ``stop - 1``, or from the last one on where ``step`` is -1.

        One that ``is_rolled`` is not unrolled.
        """
        body, latch, after = self.labels("loop", "latch", "after")
        first, end = (low, stop) if step > 0 else (self.add(stop, "-1"), low)
        test = "slt" if step > 0 else "sge"
        self.branch(self.new(f"icmp {test} i64 {first}, {end}"), body, after)
        before = self.label
        self.start(body)
        self.count += 1
        variable, following = f"%i{self.count}", f"%n{self.count}"
        self.line(f"{variable} = phi i64 [ {first}, %{before} ], [ {following}, %{latch} ]")
        outside = dict(self.known)
        yield variable
        self.known = outside
        self.line(f"br label %{latch}")
        self.start(latch)
        self.line(f"{following} = add nsw i64 {variable}, {step}")
        self.branch(self.new(f"icmp {test} i64 {following}, {end}"), body, after)
        self.lines[-1] += ROLLED * is_rolled
        self.start(after)

    def choice(self, condition: str, yes: Callable[[], Value], no: Callable[[], Value]) -> Value:
        """One of two values; only that one is computed."""
        first, second, after = self.labels("yes", "no", "chosen")
        self.branch(condition, first, second)
        found = []
        for label, value in ((first, yes), (second, no)):
            self.start(label)
            outside = dict(self.known)
            found.append((*value(), self.label, len(self.lines)))
            self.known = outside
            self.line(f"br label %{after}")
        (one, kind, here, place), (other, second_kind, there, _) = found
        if kind != second_kind:  # at most one of them is a float
            if kind == "float":
                self.count += 1
                self.lines.insert(place, f"  %w{self.count} = fpext float {one} to double")
                one, kind = f"%w{self.count}", "double"
            else:
                self.count += 1
                self.lines.insert(-1, f"  %w{self.count} = fpext float {other} to double")
                other = f"%w{self.count}"
        self.start(after)
        return self.new(f"phi {kind} [ {one}, %{here} ], [ {other}, %{there} ]"), kind

    # ------------------------------------------------------------------------ integers

    def add(self, left: str, right: str) -> str:
        """A sum."""
        if _is_number(left) and _is_number(right):
            return str(int(left) + int(right))
        if "0" in (left, right):
            return left if right == "0" else right
        return self.new(f"add nsw i64 {left}, {right}")

    def times(self, left: str, right: str) -> str:
        """A product."""
        if _is_number(left) and _is_number(right):
            return str(int(left) * int(right))
        if "1" in (left, right):
            return left if right == "1" else right
        return "0" if "0" in (left, right) else self.new(f"mul nsw i64 {left}, {right}")

    def greatest(self, values: Iterable[str], function: str = "smax") -> str:
        """The greatest integer, or the least."""
        name = f"llvm.{function}.i64"
        return reduce(lambda one, other: self.call("i64", name, [one, other], "i64"), dict.fromkeys(values))

    def divided(self, value: str, divisor: str) -> str:
        """A quotient by a positive number, rounded down."""
        if divisor.isdigit() and not int(divisor) & int(divisor) - 1:
            return self.new(f"ashr i64 {value}, {int(divisor).bit_length() - 1}")
        rest = self.new(f"srem i64 {value}, {divisor}")
        below = self.new(f"icmp slt i64 {rest}, 0")
        whole = self.new(f"sdiv i64 {value}, {divisor}")
        return self.new(f"add nsw i64 {whole}, {self.new(f'sext i1 {below} to i64')}")

    def call(self, result: str, name: str, values: Sequence[str], kind: str) -> str:
        """The value of a function of numbers of one type that is declared."""
        self.module.declare(name, result, [kind] * len(values))
        return self.new(f"call {result} @{name}({', '.join(f'{kind} {value}' for value in values)})")


class NestPrinter(Builder):
    """The function of a step.

    ``shapes`` are those of the arrays, ``integers`` the names of arrays of integers, ``bare`` arrays that are numbers.
    """

    def __init__(
        self, module: Module, shapes: Mapping[str, Sequence[Affine]], integers: frozenset[str], bare: frozenset[str]
    ) -> None:
        super().__init__(module)
        self.real = module.real
        self.shapes = dict(shapes)
        self.integral = integers
        self.bare = bare
        self.passed: dict[str, tuple[str, str]] = {}
        """The parameters in order of their use: of each name the kind, "a" for arrays, "r", "i", and the value."""
        self.values: dict[str, str] = {}
        """The values of loop variables."""
        self.scalars: dict[str, Value] = {}
        """The slots of scalars, and their types."""
        self.arrays: dict[str, str] = {}
        """The pointers of arrays that the function makes."""
        self.changing: frozenset[str] = frozenset()
        self.depth = 0
        self.defined: dict[str, int] = {}

    @property
    def types(self) -> dict[str, str]:
        """The types of parameters by their kinds."""
        return {"a": "ptr noalias", "r": self.module.real, "i": "i64"}

    def called(self, function: Any, value: Callable[[str, str], str]) -> str:
        """The code that the function of a step returns; ``value`` tells what is passed by name and kind."""
        kinds = {**self.types, "a": "ptr"}
        passed = ", ".join(f"{kinds[kind]} {value(name, kind)}" for name, kind in function.passed.items())
        return self.new(f"call i32 @{function.symbol}({passed})")

    def parameter(self, name: str, kind: str) -> str:
        """The value of a parameter."""
        if name not in self.passed:
            self.passed[name] = kind, f"%{kind}.{len(self.passed)}"
        return self.passed[name][1]

    def function(self, result: str = "i32 0") -> str:
        """The text of the function, whose name is ``{name}``."""
        declared = ", ".join(f"{self.types[kind]} {value}" for kind, value in self.passed.values())
        for pointer in self.arrays.values():
            self.line(f"call void @free(ptr {pointer})")
        body = ["entry:", *self.slots, *self.lines, f"  ret {result}"]
        body += ["failed:", f"  ret i32 {NO_MEMORY}"] if self.arrays else []
        return "\n".join([f"define internal i32 @{{name}}({declared}) noinline {{", *body, "}"])

    # ------------------------------------------------------------------------ integers

    def form(self, form: Affine) -> str:
        """An integer form."""
        if form.is_constant:
            return str(form.constant)
        found = self.known.get(form)
        if found is None:
            found = self._form(form)
            if self.changing.isdisjoint(form.atoms()):
                self.known[form] = found
        return found

    def _form(self, form: Affine) -> str:
        rest, extrema = extrema_in(form) if any(isinstance(v, PositivePart) for v, _ in form.terms) else (form, ())
        total = "0"
        for atom, factor in sorted(rest.terms, key=lambda term: term[1] < 0):
            total = self._more(total, self.atom(atom), factor)
        for factor, function, one, other in extrema:
            name = "smin" if function == "min" else "smax"
            total = self._more(total, self.greatest([self.form(one), self.form(other)], name), factor)
        return self.add(total, str(rest.constant))

    def _more(self, total: str, value: str, factor: int) -> str:
        if factor < 0 and total != "0":
            return self.new(f"sub nsw i64 {total}, {self.times(value, str(-factor))}")
        return self.add(total, self.times(value, str(factor)))

    def atom(self, atom: Variable) -> str:
        """A variable, or what is computed from some."""
        if isinstance(atom, Product):
            return reduce(self.times, [self.form(Affine.variable(factor)) for factor in atom.factors])
        if isinstance(atom, Quotient | SymbolicQuotient):
            return self.divided(self.form(atom.form), self.form(Affine.of(atom.divisor)))
        if isinstance(atom, DataEntry):
            inside: Sequence[Row] = getattr(atom, "inside", ())
            if not inside:
                return self.data(atom)
            return self.choice(self.conditions(inside), lambda: (self.data(atom), "i64"), lambda: ("0", "i64"))[0]
        name = str(atom)
        array, dot, attribute = name.partition(".")
        if dot:
            return self.form(self.shapes[array][int(attribute.strip("shape[]"))])
        if name in self.values:
            return self.values[name]
        if name in self.scalars:
            return self.new(f"load i64, ptr {self.scalars[name][0]}")
        return self.parameter(name, "i")

    def data(self, entry: DataEntry) -> str:
        """An entry of an array of integers."""
        if not entry.index:
            return self.parameter(entry.tensor, "i")
        return self.new(f"load i64, ptr {self.place(entry.tensor, entry.index)}")

    def low(self, bounds: Iterable[Bound]) -> str:
        """The first value of a loop."""
        return self.greatest([self.form(quotient(b.form + (b.divisor - 1), b.divisor)) for b in bounds])

    def stop(self, bounds: Iterable[Bound]) -> str:
        """One more than the last value of a loop."""
        return self.greatest([self.form(quotient(b.form, b.divisor) + 1) for b in bounds], "smin")

    def ends(self, ends: Ends) -> str:
        """An integer."""
        return self.low(ends.lows) if ends.lows else self.stop(ends.highs)

    def conditions(self, rows: Sequence[Row]) -> str:
        """Whether all of some rows hold; what data tell is asked behind what stands before it."""
        found = self.condition(rows[0])
        for number, row in enumerate(rows[1:], 1):
            if row.form.hidden():
                rest = rows[number:]
                return self.choice(found, lambda rest=rest: (self.conditions(rest), "i1"), lambda: ("false", "i1"))[0]  # type: ignore[misc]
            found = self.new(f"and i1 {found}, {self.condition(row)}")
        return found

    def condition(self, row: Row) -> str:
        """Whether a row holds."""
        if row.kind == "mod":
            return self.new(f"icmp eq i64 {self.new(f'srem i64 {self.form(row.form)}, {row.modulus}')}, 0")
        # Each side positive, as in the texts: optimisers know bounds of what is not negated.
        left = Affine({v: c for v, c in row.form.terms if c > 0}, row.form.constant)
        right = left - row.form
        return self.new(f"icmp {'sge' if row.kind == 'ge' else 'eq'} i64 {self.form(left)}, {self.form(right)}")

    # ------------------------------------------------------------------------ arrays

    def base(self, array: str) -> str:
        """The pointer to the first entry of an array."""
        return self.arrays[array] if array in self.arrays else self.parameter(array, "a")

    def kind(self, array: str) -> str:
        """The type of the entries of an array."""
        return "i64" if array in self.integral else self.module.real

    def place(self, array: str, index: Sequence[Affine]) -> str:
        """The pointer to an entry."""
        offset = "0"
        for form, extent in zip(index, self.shapes[array], strict=True):
            offset = self.add(self.times(offset, self.form(extent)), self.form(form))
        return self.shifted(self.base(array), offset, self.kind(array))

    def shifted(self, pointer: str, offset: str, kind: str = "") -> str:
        """A pointer so many entries further on."""
        if offset == "0":
            return pointer
        return self.new(f"getelementptr inbounds {kind or self.module.real}, ptr {pointer}, i64 {offset}")

    def entries(self, shape: Iterable[Affine]) -> str:
        """The number of entries of a shape."""
        return reduce(self.times, [self.greatest(["0", self.form(e)]) if not e.is_constant else str(e) for e in shape], "1")

    def array(self, name: str, shape: Sequence[Affine], entries: str = "", is_zero: bool = False) -> str:
        """The pointer of a new array."""
        self.module.declare("malloc", "noalias ptr", ["i64"])
        self.module.declare("calloc", "noalias ptr", ["i64", "i64"])
        self.module.declare("free", "void", ["ptr"])
        self.shapes[name] = shape
        count = entries or self.entries(shape)
        size = self.module.size
        count = self.greatest(["1", count])
        text = f"calloc(i64 {count}, i64 {size})" if is_zero else f"malloc(i64 {self.times(count, str(size))})"
        found = self.new(f"call noalias ptr @{text}")
        (after,) = self.labels("made")
        self.branch(self.new(f"icmp ne ptr {found}, null"), after, "failed")
        self.start(after)
        self.arrays[name] = found
        return found

    # ------------------------------------------------------------------------ scalars

    def converted(self, value: Value, kind: str) -> str:
        """A number as one of another type."""
        text, own = value
        if own == kind:
            return text
        if own in ("i1", "i64"):
            return self.new(f"{'uitofp' if own == 'i1' else 'sitofp'} {own} {text} to {kind}")
        return self.new(f"{'fpext' if kind == 'double' else 'fptrunc'} {own} {text} to {kind}")

    def unified(self, *values: Value) -> tuple[list[str], str]:
        """Numbers in the widest of their types."""
        kind = "double" if "double" in {kind for _, kind in values} else values[0][1]
        return [self.converted(value, kind) for value in values], kind

    def binary(self, operation: str, left: Value, right: Value, flags: str = FLAGS) -> Value:
        """The value of an operation on two numbers."""
        (one, other), kind = self.unified(left, right)
        return self.new(f"{operation} {flags} {kind} {one}, {other}"), kind

    def number(self, value: int | Fraction | float) -> Value:
        """A constant in the type of the result."""
        if value == value:
            signed_text(value)  # refuses what is too large
        return real_text(float(value), self.real), self.real

    def scalar(self, node: Scalar) -> Value:
        """The value of an expression."""
        if isinstance(node, Number):
            return self.number(node.value)
        if isinstance(node, IndexValue):
            return self.converted((self.form(node.form), "i64"), self.real), self.real
        if isinstance(node, Load):
            if node.array in self.bare:
                return self.name(node.array)
            kind = self.kind(node.array)
            return self.new(f"load {kind}, ptr {self.place(node.array, node.index)}"), kind
        if isinstance(node, Name):
            return self.name(node.name)
        if isinstance(node, Identity):
            return self.scalar(node.value)
        if isinstance(node, Ends):
            return self.ends(node), "i64"
        return self.operation(node)

    def name(self, name: str) -> Value:
        """A scalar by name."""
        if name in self.scalars:
            slot, kind = self.scalars[name]
            return self.new(f"load {kind}, ptr {slot}"), kind
        return self.parameter(name, "r"), self.module.real

    def operation(self, node: Operation) -> Value:
        """The value of an operation."""
        function, arguments = node.function, node.arguments
        if node == INFINITY:
            return real_text(math.inf, self.real), self.real
        if node == FALSE:
            return "false", "i1"
        if function == "add":
            return self.sum(arguments)
        if function in ("mul", "neg"):
            return self.product(node)
        if function == "pow":
            return self.power(*arguments)
        if function == "select":
            condition, value, otherwise = arguments
            test = self.scalar(condition)[0]
            if isinstance(value, Number | Name) and isinstance(otherwise, Number | Name):
                (one, other), kind = self.unified(self.scalar(value), self.scalar(otherwise))
                return self.new(f"select i1 {test}, {kind} {one}, {kind} {other}"), kind
            return self.choice(test, lambda: self.scalar(value), lambda: self.scalar(otherwise))
        if function == "not":
            return self.new(f"xor i1 {self.scalar(arguments[0])[0]}, true"), "i1"
        if isinstance(function, str) and function in COMPARED:
            return self.comparison(function, *arguments), "i1"
        if function in ("and", "or"):
            return self.condition_of(function, arguments), "i1"
        if function == "real":
            return self.converted(self.scalar(arguments[0]), self.real), self.real
        if function == "double":
            return self.converted(self.scalar(arguments[0]), "double"), "double"
        return self.applied(function, [self.scalar(argument) for argument in arguments])

    def condition_of(self, function: str, arguments: Sequence[Scalar]) -> str:
        """Whether all, or any, of some conditions hold; only what decides is computed."""
        first = self.scalar(arguments[0])[0]
        if len(arguments) == 1:
            return first

        def rest() -> Value:
            return self.condition_of(function, arguments[1:]), "i1"

        if function == "and":
            return self.choice(first, rest, lambda: ("false", "i1"))[0]
        return self.choice(first, lambda: ("true", "i1"), rest)[0]

    def comparison(self, function: str, left: Scalar, right: Scalar) -> str:
        """A comparison; integers are compared as integers."""
        of_integers, of_numbers = COMPARED[function]
        if (a := integer_form(left)) is not None and (b := integer_form(right)) is not None:
            return self.new(f"icmp {of_integers} i64 {self.form(a)}, {self.form(b)}")
        (one, other), kind = self.unified(self.scalar(left), self.scalar(right))
        return self.new(f"fcmp {of_numbers} {kind} {one}, {other}")

    def negative(self, value: Value) -> Value:
        """A number with the other sign."""
        return self.new(f"fneg {FLAGS} {value[1]} {value[0]}"), value[1]

    def sum(self, arguments: Sequence[Scalar]) -> Value:
        """A sum, from left to right."""
        total: Value | None = None
        for argument in arguments:
            negative, positive = split_sign(argument)
            value = self.scalar(positive)
            if total is None:
                total = self.negative(value) if negative else value
            else:
                total = self.binary("fsub" if negative else "fadd", total, value)
        assert total is not None
        return total

    def product(self, node: Scalar) -> Value:
        """A product, from left to right, then divided by what stands below."""
        negative, node = split_sign(node)
        factors = node.arguments if isinstance(node, Operation) and node.function == "mul" else (node,)
        inverses = [reciprocal(factor) if len(factors) > 1 else None for factor in factors]
        above = [self.scalar(f) for f, inverse in zip(factors, inverses, strict=True) if inverse is None]
        below = [self.scalar(inverse) for inverse in inverses if inverse is not None]
        value = reduce(lambda one, other: self.binary("fmul", one, other), above or [self.number(1)])
        value = self.negative(value) if negative else value
        return reduce(lambda one, other: self.binary("fdiv", one, other), below, value)

    def power(self, base: Scalar, exponent: Scalar) -> Value:
        """A power: roots, reciprocals and integer powers are computed without logarithms."""
        if not isinstance(exponent, Number):
            form = integer_form(exponent)
            if form is None:
                return self.applied("pow", [self.scalar(base), self.scalar(exponent)])
            value, kind = self.scalar(base)
            self.module.define(f"power.{kind}", POWER.format(kind))
            self.module.declare("llvm.abs.i64", "i64", ["i64", "i1"])
            return self.new(f"call {kind} @power.{kind}({kind} {value}, i64 {self.form(form)})"), kind
        number = exponent.value
        if number < 0:
            return self.binary("fdiv", self.number(1), self.power(base, Number(-number)))
        if number == 0:
            return self.number(1)
        if number == Fraction(1, 2):
            return self.applied("sqrt", [self.scalar(base)])
        if number != int(number) or number >= 2**16:
            return self.applied("pow", [self.scalar(base), self.number(number)])
        value = result = self.scalar(base)
        for bit in bin(int(number))[3:]:
            result = self.binary("fmul", result, result)
            result = self.binary("fmul", result, value) if bit == "1" else result
        return result

    def applied(self, function: str | External, arguments: Sequence[Value]) -> Value:
        """The value of a function."""
        texts, kind = self.unified(*arguments)
        if isinstance(function, External):
            given = [self.converted(value, self.module.real) for value in arguments]
            return self.call(self.module.real, self.module.externals[function], given, self.module.real), self.module.real
        if function in FUNCTIONS:
            return self.new(f"call {kind} @{self.module.elementary(function, kind)}({kind} {texts[0]})"), kind
        if function in INTRINSICS:
            name = f"llvm.{INTRINSICS[function]}.{'f64' if kind == 'double' else 'f32'}"
            return self.call(kind, name, texts, kind), kind
        if function in LIBRARY:
            return self.call(kind, LIBRARY[function] + "f" * (kind == "float"), texts, kind), kind
        if function in EXTREMA:
            return reduce(lambda one, other: self.extreme(function, one, other), [(t, kind) for t in texts])
        one, zero = real_text(1.0, kind), real_text(0.0, kind)
        if function in ("sign", "heaviside"):
            below, at_zero = (real_text(-1.0, kind), zero) if function == "sign" else (zero, texts[1])
            (x, *_), middle = texts, at_zero
            for test, value in (("olt", below), ("ogt", one), ("uno", x)):
                asked = self.new(f"fcmp {test} {kind} {x}, {zero if test != 'uno' else x}")
                middle = self.new(f"select i1 {asked}, {kind} {value}, {kind} {middle}")
            return middle, kind
        raise UnsupportedError(f"the function {function!r} is not known to the {type(self).__name__}")

    def extreme(self, function: str, left: Value, right: Value) -> Value:
        """The greater ("max") or the lesser of two numbers; nan where one of them is nan."""
        (x, y), kind = self.unified(left, right)
        beyond = self.new(f"fcmp {'oge' if function == 'max' else 'ole'} {kind} {x}, {y}")
        taken = self.new(f"or i1 {beyond}, {self.new(f'fcmp uno {kind} {x}, {x}')}")
        return self.new(f"select i1 {taken}, {kind} {x}, {kind} {y}"), kind

    # ------------------------------------------------------------------------ statements

    def nest(self, arrays: Sequence[Alloc], body: Sequence[Statement]) -> None:
        """The instructions of a nest."""
        sets = [s for s in statements(body) if isinstance(s, Set) and isinstance(s.value, Ends)]
        self.changing = frozenset(s.name for s in sets)
        for alloc in arrays:
            extents = [self.greatest(["0", self.ends(ends)]) for ends in alloc.shape]
            shape = [_extent(ends) for ends in alloc.shape]
            self.array(alloc.name, shape, reduce(self.times, extents, "1"))
        self.body(body)

    def body(self, body: Iterable[Statement]) -> None:
        """The instructions of statements."""
        for statement in body:
            if isinstance(statement, Loop):
                self.print_loop(statement)
            elif isinstance(statement, If):
                with self.when(*(partial(self.condition, row) for row in statement.conditions)):
                    self.body(statement.body)
            else:
                assert isinstance(statement, Set)
                self.print_set(statement)

    def print_loop(self, loop: Loop) -> None:
        """The instructions of a loop."""
        assert isinstance(loop.step, int)
        low, stop = self.low(loop.lows), self.stop(loop.highs)
        is_long = _is_number(low) and _is_number(stop) and int(stop) - int(low) > LONG
        is_rolled = is_long and not any(isinstance(one, Loop | If) for one in loop.body)
        with self.loop(low, stop, loop.step, is_rolled) as variable:
            self.values[loop.variable] = variable
            self.depth += 1
            self.body(loop.body)
            self.depth -= 1

    def print_set(self, statement: Set) -> None:
        """The instructions that set a value, or take one more into a reduction."""
        target, reduction = statement.target, statement.reduction
        value = self.scalar(statement.value)
        is_name = isinstance(target, Name) or target.array in self.bare
        if is_name:
            name = statement.name
            if name not in self.scalars:
                self.scalars[name] = self.slot(value[1]), value[1]
            pointer, kind = self.scalars[name]
        else:
            assert isinstance(target, Load)
            pointer, kind = self.place(target.array, target.index), self.kind(target.array)
        if not reduction and is_name:
            self.defined[statement.name] = self.depth
        if reduction:
            own = self.new(f"load {kind}, ptr {pointer}"), kind
            if reduction == "any":
                value = self.new(f"or i1 {own[0]}, {value[0]}"), "i1"
            elif kind == "i64":
                value = self.greatest([own[0], value[0]], f"s{reduction}"), kind
            elif reduction in EXTREMA:
                value = self.extreme(reduction, own, value)
            else:
                is_free = reduction == "sum" and is_name and self.defined.get(statement.name, 0) < self.depth
                flags = f"reassoc {FLAGS}" if is_free else FLAGS
                value = self.binary("fadd" if reduction == "sum" else "fmul", own, value, flags)
        self.line(f"store {kind} {self.converted(value, kind)}, ptr {pointer}")


def _is_number(text: str) -> bool:
    return text.lstrip("-").isdigit()


def _extent(ends: Ends) -> Affine:
    """The extent of an array of a nest, or a bound of it."""
    found = [bound.form + (not ends.lows) for bound in (ends.lows or ends.highs)]
    return next((form for form in found if not form.is_constant), found[0])
