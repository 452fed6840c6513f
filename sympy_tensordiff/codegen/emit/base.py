"""Printers of scalar expressions and loop nests as Python text; backends override reads, constants and functions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import ClassVar

from sympy_tensordiff.codegen.emit.forms import (
    AND,
    ATOM,
    CHOICE,
    COMPARE,
    INDENT,
    NOT,
    OR,
    POWER,
    PRODUCT,
    SUM,
    UNARY,
    FormNames,
    FormPrinter,
)
from sympy_tensordiff.codegen.ir.facts import integer_form
from sympy_tensordiff.codegen.ir.loops import If, Loop, Set, Statement
from sympy_tensordiff.codegen.ir.nests import FALSE, TRUE
from sympy_tensordiff.codegen.ir.rare_loops import condition_of_loop, without_condition
from sympy_tensordiff.codegen.ir.scalars import (
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
    Reduction,
    Scalar,
)
from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.functions.table import operations
from sympy_tensordiff.integer.affine import Affine

_MAX_EXACT_INTEGER = 2**53


def fraction_text(value: Fraction) -> str:
    """Return the positive fraction ``value`` as text: ``0.25`` if a short decimal is exact, else a division such as
    ``1/3``.
    """
    decimal = repr(float(value))
    if Fraction(decimal) == value and len(decimal) <= 12:
        return decimal
    if max(value.numerator, value.denominator) <= _MAX_EXACT_INTEGER:
        return f"{value.numerator}/{value.denominator}"
    return decimal


def number_text(value: int | Fraction | float) -> str:
    """Return the text of a non-negative constant, such as ``0.5`` or ``math.nan``. Raise UnsupportedError if it is too
    large for a double.
    """
    if value != value:
        return "math.nan"
    try:
        as_float = float(value)
    except OverflowError:
        as_float = math.inf
    if not math.isfinite(as_float):
        raise UnsupportedError(f"the constant {value} is not a finite double: kernels have no infinite constants")
    if isinstance(value, Fraction) and value.denominator != 1:
        return fraction_text(value)
    if not isinstance(value, float) and value <= _MAX_EXACT_INTEGER:
        return str(int(value))
    return repr(as_float)


def initial_value_text(reduction: Reduction) -> str:
    """Return the value that a reduction starts with as text: its neutral element."""
    return {"sum": "0", "prod": "1", "max": "-math.inf", "min": "math.inf"}[reduction]


def signed_text(value: int | Fraction | float) -> str:
    """Return a constant of either sign as text; raise UnsupportedError if it is too large for a double."""
    return number_text(value) if value > 0 else "-" + number_text(-value)


class ScalarPrinter(FormPrinter):
    """Prints scalar expressions as Python text; a backend overrides how loads, constants and functions look."""

    functions: Mapping[str, str] = {}
    """The texts of ``max``, ``min``, ``sqrt`` and the elementary functions in calls."""

    truths: ClassVar[tuple[str, str]] = ("False", "True")
    """The conditions that never hold and always hold."""
    operators: ClassVar[Mapping[str, tuple[str, int]]] = {
        "lt": (" < ", COMPARE), "le": (" <= ", COMPARE), "eq": (" == ", COMPARE), "ne": (" != ", COMPARE),
        "and": (" and ", AND), "or": (" or ", OR),
    }  # fmt: skip

    negated: ClassVar[tuple[str, int, int]] = ("not {}", NOT, NOT)
    """The text of ``not``, the precedence that its argument needs, and its own precedence."""

    def load(self, node: Load) -> str:
        """Return the text of a read of an array entry."""
        raise NotImplementedError

    def constant(self, text: str) -> str:
        """Return a constant, given as ``text``, in the type of the result."""
        return f"real({text})"

    def index_value(self, form: Affine) -> str:
        """Return the text of an integer form that is used as a real number, converted to the type of the results."""
        return f"real({self.form(form)})"

    def integer_text(self, ends: Ends) -> str:
        """Return ``ends``, the start or the stop of a range, as text: ``max(a, b)`` for the lower bounds a and b,
        ``min(a, b) + 1`` for upper bounds.
        """
        return self.lower(ends.lows) if ends.lows else self.stop(ends.highs)

    def name(self, name: str) -> str:
        """Return the text of a scalar variable of the loop nest."""
        return self.names(name)

    def select(self, condition: Scalar, value: Scalar, otherwise: Scalar) -> tuple[str, int]:
        """Return ``(text, precedence)`` of the conditional expression ``value if condition else otherwise``. Only the
        chosen value is computed when it runs.
        """
        first, second = self.scalar(condition, CHOICE + 1), self.scalar(value, CHOICE + 1)
        return self.choice.format(first, second, self.scalar(otherwise)), CHOICE

    def scalar(self, node: Scalar, level: int = CHOICE) -> str:
        """Return ``node`` as text, in parentheses if it binds less tightly than ``level``."""
        text, own = self._scalar(node)
        return f"({text})" if own < level else text

    def _scalar(self, node: Scalar) -> tuple[str, int]:
        """Return the text of ``node``, without parentheses, and its precedence."""
        if isinstance(node, Number):
            value = node.value
            text = self.constant(number_text(-value if value < 0 else value))
            own = PRODUCT if text[-1].isdigit() and "/" in text else ATOM
            return (f"-{text}", min(own, UNARY)) if value < 0 else (text, own)
        if isinstance(node, IndexValue):
            return self.index_value(node.form), ATOM
        if isinstance(node, Name):
            return self.name(node.name), ATOM
        if isinstance(node, Load):
            return self.load(node), ATOM
        if isinstance(node, Identity):
            return self._scalar(node.value)
        if isinstance(node, Ends):
            return self.integer_text(node), ATOM
        return self.operation(node)

    def operation(self, node: Operation) -> tuple[str, int]:
        """Return the text of an operation and its precedence."""
        function, arguments = node.function, node.arguments
        if node == INFINITY:
            return self.constant("math.inf"), ATOM
        if node in (TRUE, FALSE):
            return self.truths[node == TRUE], ATOM
        if function == "add":
            return self._sum(arguments), SUM
        if function in ("mul", "neg"):
            return self._product(node)
        if function == "pow":
            return self.power(*arguments)
        if function == "select":
            return self.select(*arguments)
        if function == "not":
            text, level, own = self.negated
            return text.format(self.scalar(arguments[0], level)), own
        if function in ("lt", "le", "eq", "ne"):
            return self._comparison(function, *arguments)
        if isinstance(function, str) and function in self.operators:
            operator, own = self.operators[function]
            return operator.join(self.scalar(a, own + 1) for a in arguments), own
        return self.call(function, arguments), ATOM

    def call(self, function: str | External, arguments: tuple[Scalar, ...]) -> str:
        """Return the text of the call of ``function`` with ``arguments``; ``max`` and ``min`` of more than two are
        nested.

        Raise UnsupportedError for a function that the backend does not know.
        """
        if isinstance(function, External):
            return f"real({self.names.functions[function]}({', '.join(self.argument(a) for a in arguments)}))"
        if function not in self.functions:
            raise UnsupportedError(f"the function {function!r} is not known to the {type(self).__name__}")
        texts = [self.argument(a) for a in arguments]
        while function in ("max", "min") and len(texts) > 2:
            texts[:2] = [f"{self.functions[function]}({texts[0]}, {texts[1]})"]
        return f"{self.functions[function]}({', '.join(texts)})"

    def argument(self, argument: Scalar) -> str:
        """Return the text of an argument of a function."""
        return self.scalar(argument)

    def _comparison(self, function: str, left: Scalar, right: Scalar) -> tuple[str, int]:
        """Return the text of the comparison ``function`` (such as "lt") of ``left`` and ``right``, and its precedence.
        Two integers are compared without conversion to real numbers.
        """
        operator, own = self.operators[function]
        if (a := integer_form(left)) is not None and (b := integer_form(right)) is not None:
            # Integers are compared as integers: float32 cannot distinguish the large ones.
            return f"{self.form(a)}{operator}{self.form(b)}", own
        return f"{self.scalar(left, SUM)}{operator}{self.scalar(right, SUM)}", own

    def _sum(self, arguments: tuple[Scalar, ...]) -> str:
        """Return the text of the sum of ``arguments``; negated terms are subtracted."""
        texts: list[str] = []
        for argument in arguments:
            negative, positive = split_off_sign(argument)
            sign = (" - " if negative else " + ") if texts else "-" if negative else ""
            texts.append(sign + self.scalar(positive, PRODUCT if negative else SUM))
        return "".join(texts)

    def _product(self, node: Scalar) -> tuple[str, int]:
        """Return the text and the precedence of a product; factors with negative exponents are written after ``/``."""
        negative, node = split_off_sign(node)
        if not isinstance(node, Operation) or node.function != "mul":
            text, own = self._scalar(node)
            if negative:
                return (f"-({text})", UNARY) if own < PRODUCT else (f"-{text}", min(own, UNARY))
            return text, own
        above: list[str] = []
        below: list[str] = []
        for factor in node.arguments:
            inverse = divisor_of_power(factor)
            if inverse is None:
                above.append(self.scalar(factor, PRODUCT if not above else PRODUCT + 1))
            else:
                below.append(self.scalar(inverse, PRODUCT + 1))
        text = "*".join(above) if above else self.constant("1")
        text = "/".join([text, *below])
        return ("-" if negative else "") + text, PRODUCT

    def power(self, base: Scalar, exponent: Scalar) -> tuple[str, int]:
        """Return the text of the power ``base**exponent`` and its precedence. A square root, a reciprocal or a small
        integer power is not written as a general power.
        """
        if not isinstance(exponent, Number):
            return f"{self.scalar(base, POWER + 1)}**{self.scalar(exponent, POWER)}", POWER
        value = exponent.value
        if value == 1:
            return self._scalar(base)
        if value == 0:
            return self.constant("1"), ATOM
        if value < 0:
            inverse = self.scalar(Operation("pow", (base, Number(-value))), PRODUCT + 1)
            return f"{self.constant('1')}/{inverse}", PRODUCT
        if value == Fraction(1, 2):
            return self.call("sqrt", (base,)), ATOM
        if value == int(value) and value < 2**16:
            return self.integer_power(base, int(value))
        return f"{self.scalar(base, POWER + 1)}**{self.scalar(exponent, POWER)}", POWER

    def integer_power(self, base: Scalar, exponent: int) -> tuple[str, int]:
        """Return the text of ``base`` to a power with a positive integer exponent, and its precedence."""
        return f"{self.scalar(base, POWER + 1)}**{exponent}", POWER


def split_off_sign(node: Scalar) -> tuple[bool, Scalar]:
    """Return ``(is_negative, rest)``: ``(True, a*b)`` for ``-a*b``. The rest has no minus sign, neither in front nor in
    its factors.
    """
    negative = False
    while isinstance(node, Operation) and node.function == "neg":
        negative = not negative
        node = node.arguments[0]
    if isinstance(node, Number) and node.value < 0:
        return not negative, Number(-node.value)
    if isinstance(node, Operation) and node.function == "mul":
        factors: list[Scalar] = []
        for factor in node.arguments:
            flipped, positive = split_off_sign(factor)
            negative ^= flipped
            if not flipped or positive != Number(1):
                factors.append(positive)
        if not factors:
            return negative, Number(1)
        return negative, factors[0] if len(factors) == 1 else Operation("mul", tuple(factors))
    return negative, node


def divisor_of_power(node: Scalar) -> Scalar | None:
    """Return ``x**2`` for ``x**-2``, so that it can be printed as a divisor; None unless ``node`` is a power with a
    negative constant exponent.
    """
    if not isinstance(node, Operation) or node.function != "pow":
        return None
    base, exponent = node.arguments
    if not isinstance(exponent, Number) or exponent.value >= 0:
        return None
    return base if exponent.value == -1 else Operation("pow", (base, Number(-exponent.value)))


# ---------------------------------------------------------------------------- nests
# Nests as Python loops, for the backends that compile scalar Python (Numba on CPU and GPU).


_HELPERS = frozenset({"sign", "heaviside", "cbrt", "logistic_density", "sigmoid", "softplus", "spherical_bessel"})
"""Functions that modules define themselves."""

WIDENED = _HELPERS | {"floor", "ceil"}
"""Functions whose value may differ from their argument in its type."""


_IN_PYTHON = {name: f"math.{record.math_name}" for name, record in operations().items() if record.c_name}
_IN_PYTHON |= {name: name for name in sorted(_HELPERS)} | {"abs": "abs", "max": "maximum", "min": "minimum"}
del _IN_PYTHON["floor"], _IN_PYTHON["ceil"]  # integers in `math`


class NestPrinter(ScalarPrinter):
    """Prints nests of `Loop`, `If` and `Set` as Python loops.

    ``bare`` has the names of arrays without axes, which are numbers: their reads have no subscript.
    """

    functions: Mapping[str, str] = _IN_PYTHON

    def __init__(self, names: FormNames, bare: frozenset[str]) -> None:
        super().__init__(names)
        self.bare = bare
        self.lines: list[str] = []

    def call(self, function: str | External, arguments: tuple[Scalar, ...]) -> str:
        """Return the text of the call of ``function`` with ``arguments``, converted to the type of the results if its
        own type may be another one.
        """
        text = super().call(function, arguments)
        return f"real({text})" if function in WIDENED else text

    def load(self, node: Load) -> str:
        """Return a read as text; an array without axes has no subscript."""
        name = self.names(node.array)
        return name if node.array in self.bare else f"{name}[{self.place(node.array, node.index)}]"

    def place(self, array: str, index: Sequence[Affine]) -> str:
        """Return the text of ``index`` as a subscript, without brackets, such as ``i, j + 1``. ``array`` is used only
        by printers for languages in which arrays are flat.
        """
        return ", ".join(map(self.form, index)) or "()"

    def body(self, body: Iterable[Statement], depth: int) -> None:
        """Append the lines of the statements in ``body``, indented by ``depth`` levels."""
        for statement in body:
            self.statement(statement, depth)

    def line(self, depth: int, text: str) -> None:
        """Append one line of code, indented by ``depth`` levels."""
        self.lines.append(INDENT * depth + text)

    def statement(self, statement: Statement, depth: int) -> None:
        """Append the lines of one statement, indented by ``depth`` levels."""
        if isinstance(statement, Loop | If):
            if isinstance(statement, Loop) and (test := condition_of_loop(statement)) is not None:
                self.line(depth, f"if {self.scalar(test)}:")
                statement, depth = without_condition(statement, test), depth + 1
            self.line(depth, self.head_text(statement))
            self.body(statement.body, depth + 1)
        elif isinstance(statement, Set):
            self.line(depth, self.set_text(statement))

    def head_text(self, statement: Loop | If) -> str:
        """Return the first line of a loop or guard."""
        if isinstance(statement, If):
            return f"if {self.conditions(statement.conditions)}:"
        low, stop = self.lower(statement.lows), self.stop(statement.highs)
        span = stop if low == "0" else f"{low}, {stop}"
        return f"for {self.names(statement.variable)} in range({span}):"

    def set_text(self, statement: Set) -> str:
        """Return an assignment, or the update of a reduction with one more value, as text."""
        target, reduction, value = statement.target, statement.reduction, statement.value
        own = self.name(target.name) if isinstance(target, Name) else self.load(target)
        text = self.scalar(value)
        if reduction in EXTREMA:
            is_integer = isinstance(value, Ends)
            extreme = (
                self.integers(reduction, [own, text]) if is_integer else f"{self.functions[reduction]}({own}, {text})"
            )
            return f"{own} = {extreme}"
        # With "or", LLVM would see a branch.
        operator = {"any": "|", "sum": "+", "prod": "*"}.get(reduction, "")
        return f"{own} {operator}= {text}"
