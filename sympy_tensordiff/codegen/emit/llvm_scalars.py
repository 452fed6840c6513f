"""Scalar expressions as LLVM values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import reduce

from sympy_tensordiff.codegen.emit.base import divisor_of_power, signed_text, split_off_sign
from sympy_tensordiff.codegen.emit.c_nests import MATH_FUNCTIONS
from sympy_tensordiff.codegen.emit.elementary import FUNCTIONS
from sympy_tensordiff.codegen.emit.llvm import FLAGS, Value
from sympy_tensordiff.codegen.emit.llvm_elementary import real_text
from sympy_tensordiff.codegen.emit.llvm_forms import LlvmFormPrinter
from sympy_tensordiff.codegen.ir.facts import integer_form, is_vectorised
from sympy_tensordiff.codegen.ir.nests import FALSE, TRUE
from sympy_tensordiff.codegen.ir.scalars import (
    CONDITIONS,
    EXTREMA,
    INFINITY,
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
from sympy_tensordiff.codegen.ir.walk import subexpressions
from sympy_tensordiff.errors import UnsupportedError

INTRINSICS = frozenset({"sqrt", "abs", "sin", "cos", "floor", "ceil", "log2", "log10", "copysign"})
"""The functions that are intrinsics of LLVM, by the names of the C library."""

_TOTAL = CONDITIONS | EXTREMA | {"add", "mul", "neg", "pow", "sqrt", "abs", "select", "sign", "heaviside"}
"""The operations that may be computed for all entries of a vector, needed or not."""

_CHEAP = EXTREMA | {"add", "mul", "neg", "abs", "real", "double"}

MAX_UNCONDITIONAL_OPERATIONS = 4
"""The branches of a select that take no more products and additions than these are both computed in vectors."""

COMPARISONS = {"lt": ("slt", "olt"), "le": ("sle", "ole"), "eq": ("eq", "oeq"), "ne": ("ne", "une")}

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
"""A power with an integer exponent by repeated squaring."""


class LlvmScalarPrinter(LlvmFormPrinter):
    """Emits scalar expressions as LLVM instructions."""

    def convert(self, value: Value, kind: str) -> str:
        """Return the text of the number ``value`` in the LLVM type ``kind``; emit a conversion if its type differs."""
        text, own = value
        if own == kind:
            return text
        if own in ("i1", "i64"):
            return self.new(f"{'uitofp' if own == 'i1' else 'sitofp'} {own} {text} to {kind}")
        return self.new(f"{'fpext' if kind == 'double' else 'fptrunc'} {own} {text} to {kind}")

    def unify(self, *values: Value) -> tuple[list[str], str]:
        """Convert numbers to a common type: double if one of them is a double, else the type of the first. Return
        ``(texts, type)``.
        """
        kind = "double" if "double" in {kind for _, kind in values} else values[0][1]
        return [self.convert(value, kind) for value in values], kind

    def binary(self, operation: str, left: Value, right: Value, flags: str = FLAGS) -> Value:
        """Emit a floating-point ``operation`` such as ``fadd`` on the numbers ``left`` and ``right``, converted to a
        common type, with LLVM's fast-math ``flags``. Return the result as ``(text, type)``.
        """
        (one, other), kind = self.unify(left, right)
        return self.new(f"{operation} {flags} {kind} {one}, {other}"), kind

    def number(self, value: int | Fraction | float) -> Value:
        """Return a constant as ``(text, type of the results)``; raise UnsupportedError if it is too large."""
        if value == value:
            signed_text(value)  # refuses what is too large
        return real_text(float(value), self.real), self.real

    def scalar(self, node: Scalar) -> Value:
        """Emit the instructions that compute the expression ``node``, and return its value as ``(text, type)``."""
        if isinstance(node, Number):
            return self.number(node.value)
        if isinstance(node, IndexValue):
            return self.convert((self.form(node.form), "i64"), self.real), self.real
        if isinstance(node, Load):
            if node.array in self.bare:
                return self.name(node.array)
            kind = self.entry_type(node.array)
            return self.new(f"load {kind}, ptr {self.entry_pointer(node.array, node.index)}"), kind
        if isinstance(node, Name):
            return self.name(node.name)
        if isinstance(node, Identity):
            return self.scalar(node.value)
        if isinstance(node, Ends):
            return self.ends(node), "i64"
        return self.operation(node)

    def name(self, name: str) -> Value:
        """Emit the read of the scalar `name`, from its stack slot or (if no statement sets it) from a parameter of the
        function, and return its value.
        """
        if name in self.scalars:
            slot, kind = self.scalars[name]
            return self.new(f"load {kind}, ptr {slot}"), kind
        return self.parameter(name, "r"), self.module.real

    def operation(self, node: Operation) -> Value:
        """Emit the instructions for an operation, such as a sum, a select or a function call. Return its value as
        ``(text, type)``.
        """
        function, arguments = node.function, node.arguments
        if node == INFINITY:
            return real_text(math.inf, self.real), self.real
        if function in ("add", "mul", "neg", "pow"):
            if function == "pow":
                return self.power(*arguments)
            return self.sum(arguments) if function == "add" else self.product(node)
        if function in CONDITIONS:
            return self.condition_of(node), "i1"
        if function == "select":
            return self.select(*arguments)
        if function == "spherical_bessel":
            assert isinstance(arguments[0], Number)
            return self.spherical_bessel(int(arguments[0].value), self.scalar(arguments[1]))
        values = [self.scalar(argument) for argument in arguments]
        if function in ("real", "double"):
            kind = self.real if function == "real" else "double"
            return self.convert(values[0], kind), kind
        return self.call_function(function, values)

    def select(self, condition: Scalar, value: Scalar, otherwise: Scalar) -> Value:
        """Emit ``value if condition else otherwise``, and return its value. Both branches are computed if they are
        numbers or names, or if `is_computed_unconditionally` allows it; otherwise only the selected one.
        """
        is_free = isinstance(value, Number | Name) and isinstance(otherwise, Number | Name)
        if is_free or self.is_computed_unconditionally(condition, value, otherwise):
            is_total = self.is_branch_free and all(self.is_total(part) for part in subexpressions(condition))
            is_safe = self.is_nearly_always_true(condition) or self.compares_data(condition)
            test = self.truth_without_branches(condition) if is_total and is_safe else self.truth(condition)
            (one, other), kind = self.unify(self.scalar(value), self.scalar(otherwise))
            return self.new(f"select i1 {test}, {kind} {one}, {kind} {other}"), kind
        test = self.truth(condition)
        return self.choice(test, lambda: self.scalar(value), lambda: self.scalar(otherwise))

    def truth(self, condition: Scalar) -> str:
        """Emit a condition, and return the text of its boolean (i1) value. A condition that is stored as a number is
        compared with 0.
        """
        value, kind = self.scalar(condition)
        if kind == "i1":
            return value
        return self.new(f"icmp ne {kind} {value}, 0" if kind == "i64" else f"fcmp une {kind} {value}, 0.0")

    def is_computed_unconditionally(self, condition: Scalar, value: Scalar, otherwise: Scalar) -> bool:
        """Return whether to compute ``value if condition else otherwise`` without a branch, so that LLVM can vectorise
        the loop.

        All parts of the three must be safe to compute in all iterations (`is_total`). Also, the condition must be true
        in nearly all iterations, or compare data and choose between few products and additions.

        Behind a branch, LLVM would need masked reads, and most often decides against vectors: sums over triples of
        atoms take 0.4 of the time, the sum of ``x[i]`` where ``m[i] > 0`` a tenth.
        """
        if not self.is_branch_free or not all(
            self.is_total(part) for one in (condition, value, otherwise) for part in subexpressions(one)
        ):
            return False
        if isinstance(otherwise, Number | Name) and self.is_nearly_always_true(condition):
            return True
        if not self.compares_data(condition):
            return False
        parts = [part for one in (value, otherwise) for part in subexpressions(one) if isinstance(part, Operation)]
        return len(parts) <= MAX_UNCONDITIONAL_OPERATIONS and all(part.function in _CHEAP for part in parts)

    def is_nearly_always_true(self, condition: Scalar) -> bool:
        """Return whether ``condition`` consists of inequations between integers, as ``i != j and i != k``, and is
        therefore true in nearly all iterations of a loop.
        """
        if isinstance(condition, Name):
            return condition.name in self.booleans and self.is_nearly_always_true(self.booleans[condition.name])
        if not isinstance(condition, Operation):
            return False
        if condition.function == "and":
            return all(map(self.is_nearly_always_true, condition.arguments))
        found = [integer_form(argument) for argument in condition.arguments]
        return condition.function == "ne" and all(form is not None and not form.hidden() for form in found)

    def compares_data(self, condition: Scalar) -> bool:
        """Return whether each comparison in ``condition`` involves a real number, as in ``m[i] > 0``, so that it cannot
        be a bounds check of indices.
        """
        if isinstance(condition, Name):
            return condition.name in self.booleans and self.compares_data(self.booleans[condition.name])
        if not isinstance(condition, Operation):
            return False
        if condition.function in ("and", "or", "not"):
            return all(map(self.compares_data, condition.arguments))
        return any(self.is_real(part) for part in subexpressions(condition))

    def is_real(self, part: Scalar) -> bool:
        """Return whether ``part`` is an entry of an array of real numbers, or a real number that the nest stores."""
        if isinstance(part, Name):
            return part.name in self.scalars and self.scalars[part.name][1] not in ("i1", "i64")
        return isinstance(part, Load)

    def is_total(self, part: Scalar) -> bool:
        """Return whether ``part``, one node of an expression, is safe to compute in iterations that do not need it: it
        never reads out of bounds, divides no integers, and calls no function that LLVM cannot vectorise.
        """
        if isinstance(part, Load):
            return self.is_inside(part.array) and not any(form.hidden() for form in part.index)
        if isinstance(part, IndexValue):
            return not part.form.hidden()
        if isinstance(part, Operation):
            return part.function in _TOTAL or is_vectorised(part)
        return isinstance(part, Number | Name | Identity)

    def truth_without_branches(self, condition: Scalar) -> str:
        """Emit a condition, and return the text of its boolean (i1) value. All operands of "and" and "or" are
        evaluated, so that they need no branches.
        """
        if condition in (TRUE, FALSE) or not isinstance(condition, Operation):
            return self.truth(condition)
        if condition.function not in ("and", "or", "not"):
            return self.truth(condition)
        found = list(map(self.truth_without_branches, condition.arguments))
        if condition.function == "not":
            return self.new(f"xor i1 {found[0]}, true")
        return reduce(lambda one, other: self.new(f"{condition.function} i1 {one}, {other}"), found)

    def condition_of(self, node: Operation) -> str:
        """Emit a comparison, "not", "and" or "or", and return the text of its boolean (i1) value. Operands of "and" and
        "or" are evaluated only if needed.
        """
        function, arguments = node.function, node.arguments
        if node in (TRUE, FALSE):
            return "true" if node == TRUE else "false"
        if function == "not":
            return self.new(f"xor i1 {self.truth(arguments[0])}, true")
        if function not in ("and", "or"):
            assert isinstance(function, str)
            return self.comparison(function, *arguments)
        first = self.truth(arguments[0])
        if len(arguments) == 1:
            return first

        def rest() -> Value:
            """Emit the "and" or "or" of all arguments of the condition but the first, and return its value as ``(text,
            type)``.
            """
            return self.condition_of(Operation(function, arguments[1:])), "i1"

        if function == "and":
            return self.choice(first, rest, lambda: ("false", "i1"))[0]
        return self.choice(first, lambda: ("true", "i1"), rest)[0]

    def comparison(self, function: str, left: Scalar, right: Scalar) -> str:
        """Emit the comparison of ``left`` and ``right`` by ``function``: "lt", "le", "eq" or "ne". Return the text of
        its boolean (i1) value. Integers are compared as integers.
        """
        of_integers, of_numbers = COMPARISONS[function]
        if (a := integer_form(left)) is not None and (b := integer_form(right)) is not None:
            return self.new(f"icmp {of_integers} i64 {self.form(a)}, {self.form(b)}")
        (one, other), kind = self.unify(self.scalar(left), self.scalar(right))
        return self.new(f"fcmp {of_numbers} {kind} {one}, {other}")

    def negative(self, value: Value) -> Value:
        """Emit the negation of the number ``value``, and return the result as ``(text, type)``."""
        return self.new(f"fneg {FLAGS} {value[1]} {value[0]}"), value[1]

    def sum(self, arguments: Sequence[Scalar]) -> Value:
        """Emit the sum of ``arguments``, added from left to right, and return its value as ``(text, type)``."""
        total: Value | None = None
        for argument in arguments:
            negative, positive = split_off_sign(argument)
            value = self.scalar(positive)
            if total is None:
                total = self.negative(value) if negative else value
            else:
                total = self.binary("fsub" if negative else "fadd", total, value)
        assert total is not None
        return total

    def product(self, node: Scalar) -> Value:
        """Emit a product, and return its value as ``(text, type)``. Factors with negative exponents become divisions at
        the end: ``x*y**-1`` is ``x/y``.
        """
        negative, node = split_off_sign(node)
        factors = node.arguments if isinstance(node, Operation) and node.function == "mul" else (node,)
        inverses = [divisor_of_power(factor) if len(factors) > 1 else None for factor in factors]
        above = [self.scalar(f) for f, inverse in zip(factors, inverses, strict=True) if inverse is None]
        below = [self.scalar(inverse) for inverse in inverses if inverse is not None]
        value = reduce(lambda one, other: self.binary("fmul", one, other), above or [self.number(1)])
        value = self.negative(value) if negative else value
        return reduce(lambda one, other: self.binary("fdiv", one, other), below, value)

    def power(self, base: Scalar, exponent: Scalar) -> Value:
        """Emit ``base**exponent``, and return its value as ``(text, type)``. Square roots, reciprocals and integer
        powers are computed without logarithms, unless the integer is a constant of 2**16 or more.
        """
        if not isinstance(exponent, Number):
            form = integer_form(exponent)
            if form is None:
                return self.call_function("general_power", [self.scalar(base), self.scalar(exponent)])
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
            return self.call_function("sqrt", [self.scalar(base)])
        if number != int(number) or number >= 2**16:
            return self.call_function("general_power", [self.scalar(base), self.number(number)])
        factor = result = self.scalar(base)
        for bit in bin(int(number))[3:]:
            result = self.binary("fmul", result, result)
            result = self.binary("fmul", result, factor) if bit == "1" else result
        return result

    def call_function(self, function: str | External, arguments: Sequence[Value]) -> Value:
        """Emit the call of ``function`` (a name, or a function of the user) with the values ``arguments``, and return
        its value. Raise UnsupportedError if the function is unknown.
        """
        texts, kind = self.unify(*arguments)
        if isinstance(function, External):
            given = [self.convert(value, self.module.real) for value in arguments]
            return self.call(
                self.module.real, self.module.externals[function], given, self.module.real
            ), self.module.real
        if function in FUNCTIONS:
            passed = ", ".join(f"{kind} {text}" for text in texts)
            return self.new(f"call {kind} @{self.module.elementary(function, kind)}({passed})"), kind
        if function in INTRINSICS:
            name = f"llvm.{MATH_FUNCTIONS.get(function, function)}.{'f64' if kind == 'double' else 'f32'}"
            return self.call(kind, name, texts, kind), kind
        if function in MATH_FUNCTIONS:
            return self.call(kind, MATH_FUNCTIONS[function] + "f" * (kind == "float"), texts, kind), kind
        if function in EXTREMA:
            return reduce(lambda one, other: self.extreme(function, one, other), [(t, kind) for t in texts])
        one, zero = real_text(1.0, kind), real_text(0.0, kind)
        if function in ("sign", "heaviside"):
            below, at_zero = (real_text(-1.0, kind), zero) if function == "sign" else (zero, texts[1])
            x, middle = texts[0], at_zero
            for test, value in (("olt", below), ("ogt", one), ("uno", x)):
                asked = self.new(f"fcmp {test} {kind} {x}, {zero if test != 'uno' else x}")
                middle = self.new(f"select i1 {asked}, {kind} {value}, {kind} {middle}")
            return middle, kind
        raise UnsupportedError(f"the function {function!r} is not known to the {type(self).__name__}")

    def spherical_bessel(self, order: int, x: Value) -> Value:
        """Emit the spherical Bessel function j of the given ``order`` at ``x``, and return its value: the series for
        small ``x``, a recurrence for larger ``x``, 0 at infinity.
        """
        x = self.convert(x, "double"), "double"

        def number(value: float) -> Value:
            """Return ``value`` as the text of a number in double precision, and the LLVM type "double"."""
            return real_text(value, "double"), "double"

        def series() -> Value:
            """Emit the power series of the spherical Bessel function of the enclosing method's ``order`` at its ``x``,
            for small ``x``, and return its value.
            """
            term, square = number(1), self.binary("fmul", x, x)
            for k in range(1, order + 1):
                term = self.binary("fmul", term, self.binary("fdiv", x, number(2 * k + 1)))
            total = term
            for k in range(1, order + 11):
                term = self.binary("fmul", term, self.binary("fdiv", square, number(-2 * k * (2 * (order + k) + 1))))
                total = self.binary("fadd", total, term)
            return total

        def recurrence() -> Value:
            """Emit code that computes the spherical Bessel function of the enclosing method's ``order`` at its ``x`` by
            the upward recurrence, which suits larger ``x``; return the value.
            """
            before, value = (self.binary("fdiv", self.call_function(name, [x]), x) for name in ("cos", "sin"))
            for k in range(order):
                product = self.binary("fmul", self.binary("fdiv", number(2 * k + 1), x), value)
                before, value = value, self.binary("fsub", product, before)
            return value

        size = self.call_function("abs", [x])[0]
        is_near = self.new(f"fcmp ole double {size}, {number(order + 1)[0]}")
        is_wide = self.new(f"fcmp oeq double {size}, {number(math.inf)[0]}")
        found = self.choice(is_near, series, lambda: self.choice(is_wide, lambda: number(0), recurrence))
        return self.convert(found, self.real), self.real

    def extreme(self, function: str, left: Value, right: Value) -> Value:
        """Emit the maximum (``function`` "max") or minimum of the numbers ``left`` and ``right``, nan if one of them is
        nan, and return its value.
        """
        (x, y), kind = self.unify(left, right)
        name = f"llvm.{function}imum.f{64 if kind == 'double' else 32}"
        self.module.declare(name, kind, [kind, kind])
        return self.new(f"call nsz {kind} @{name}({kind} {x}, {kind} {y})"), kind
