"""Numbers in texts: read exactly, and checked to be finite, real and not too long before SymPy computes with them.

SymPy combines numbers while it builds sums, products and powers, whatever their length.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, NamedTuple

import sympy
from sympy import Add, Mul, Piecewise, Pow, Rational, S
from sympy.core.function import FunctionClass

from sympy_tensordiff.errors import ParseError, TensorDiffError
from sympy_tensordiff.functions.table import (
    CONNECTIVES,
    MAX_OPERANDS,
    RELATIONS,
    by_name,
    readable_functions,
    record_of,
)
from sympy_tensordiff.parsing.frontend import Tree, short
from sympy_tensordiff.symbolic.expressions.depth import BoundedDepth
from sympy_tensordiff.symbolic.expressions.traversal import native_parts, postorder
from sympy_tensordiff.symbolic.index_notation.limits import NOT_FINITE
from sympy_tensordiff.symbolic.index_notation.tensors import as_entry
from sympy_tensordiff.symbolic.whole_tensors import comparisons, entrywise_functions, operators
from sympy_tensordiff.symbolic.whole_tensors.operations import shape_of

MAX_DIGITS = 1_000
"""The greatest number of digits of a number in the text, and of numerators and denominators of computed ones."""
MAX_BITS = MAX_DIGITS * 10 / 3
MAX_ROOT_DIGITS = 100
"""The greatest number of digits of a radicand: SymPy factorizes it."""
MAX_NESTING = 12
"""The greatest nesting of SymPy's own nodes: for each new level SymPy queries assumptions of all levels below."""
MAX_EVALUATED_DEPTH = 5
"""Functions of deeper arguments are not evaluated: SymPy's rules for ``tanh`` and others would take seconds."""

_NAMES = ("sin", "cos", "tan", "arcsin", "arccos", "arctan", "tanh", "exp", "log", "sign", "relu", "abs")
FUNCTIONS: MappingProxyType[str, Any] = MappingProxyType(
    {name: sympy.Max if name == "relu" else readable_functions()[name].function for name in _NAMES}
)
"""The element-wise functions of the thesis; ``relu`` is the maximum of its argument and 0."""

CHOICES: MappingProxyType[str, tuple[int, int]] = MappingProxyType(
    {**dict.fromkeys([*RELATIONS, *CONNECTIVES], (2, 2)), "logical_not": (1, 1), "where": (3, 3)}
)
"""The least and the greatest number of operands of comparisons, operations on conditions, and `where`."""
ENTRYWISE: MappingProxyType[str, tuple[int, int]] = MappingProxyType(
    {
        **{name: record.operands for name, record in readable_functions().items()},
        **dict.fromkeys(("max", "maximum", "min", "minimum"), (2, MAX_OPERANDS)),
        **CHOICES,
    }
)
"""The least and the greatest number of operands of entry-by-entry functions."""


class NumberError(Exception):
    """Raised if a number is too long, or not finite and real. Its message is a predicate: the caller puts the
    expression in front.
    """


@contextmanager
def errors_at(node: Tree) -> Iterator[None]:
    """Return a context manager that converts errors which the package raises in the ``with`` block to a `ParseError` at
    ``node``.
    """
    try:
        yield
    except ParseError:
        raise
    except NumberError as error:
        raise node.error(f"{node.shown} {error}") from None
    except TensorDiffError as error:
        raise node.error(str(error)) from None


def read_number(node: Tree) -> Any:
    """Return the exact value of the number ``node``; raise `ParseError` if it is too long or out of the range of a
    double.
    """
    text = node.text
    if len(text) > MAX_DIGITS:
        raise node.error(f"the number has {len(text):,} characters, and at most {MAX_DIGITS:,} are read")
    if not text.lower().partition("e")[0].strip("0."):
        return S.Zero
    approximate = float(text)
    if math.isinf(approximate) or approximate == 0:
        raise node.error(
            f"the number {short(text)} is too {'large' if approximate else 'small'} for a double, whose range is about "
            "1e-308 to 1e308"
        )
    return Rational(text)


class NumberFacts(NamedTuple):
    """Facts about the numbers in a scalar expression: its value, the length of its longest number, and whether all
    numbers are finite and real.

    ``value`` is its value in float64, or None if it is not a number; ``bits`` the length of its longest number;
    ``is_real`` whether all numbers are finite, real and in the range of a double.
    """

    value: float | None
    bits: int
    is_real: bool


_FLOAT_OPERATIONS: dict[Any, Callable[..., float]] = {
    **{Add: lambda *terms: math.fsum(terms), Mul: lambda *terms: math.prod(terms)},
    **{sympy.Max: max, sympy.Min: min, sympy.sign: lambda x: float((x > 0) - (x < 0))},
}


class NumberChecks:
    """Checks that the numbers in the scalars of one parsed text are finite, real, in the range of a double and not too
    long. Each node is examined once.
    """

    def __init__(self) -> None:
        self.facts: dict[Any, NumberFacts] = {}

    def facts_of(self, scalar: Any) -> NumberFacts:
        """Return the `NumberFacts` (length, finite and real or not) of the numbers in ``scalar``, computed from the
        leaves up and cached.
        """
        for node in postorder(scalar, self.facts, native_parts):
            parts = [self.facts[part] for part in native_parts(node)]
            if node.is_Rational:
                bits = max(node.p.bit_length(), node.q.bit_length())
            else:
                bits = max((part.bits for part in parts), default=0)
            value = _float_value(node, [part.value for part in parts])
            is_real = (value is None or math.isfinite(value)) and all(part.is_real for part in parts)
            self.facts[node] = NumberFacts(value, bits, is_real)
        return self.facts[scalar]

    def check_real(self, scalar: Any) -> Any:
        """Return ``scalar``; raise `NumberError` if a number in it is not finite, real and in the range of a double."""
        if not self.facts_of(scalar).is_real:
            raise NumberError("is not a finite real number in the range of a double, or contains one that is not")
        return scalar

    def check_length(self, scalar: Any) -> Any:
        """Return ``scalar``; raise `NumberError` if a number in it is too long."""
        if self.facts_of(scalar).bits > MAX_BITS:
            raise NumberError(f"collects numbers of more than {MAX_DIGITS:,} digits; write rounded numbers")
        return scalar

    def join_checked(self, function: Callable[..., Any], operands: list[Any]) -> Any:
        """Return ``function(operands)``, the sum or product of a list of numbers or expressions. Raise `NumberError` if
        a number in the result is too long.

        If that may happen, the operands are joined pair by pair.
        """
        while sum(self.facts_of(operand).bits for operand in operands) > MAX_BITS and len(operands) > 1:
            pairs = [operands[first : first + 2] for first in range(0, len(operands), 2)]
            operands = [self.check_length(function(pair)) for pair in pairs]
        return function(operands)

    def check_power(self, base: Any, exponent: Any) -> None:
        """Raise `NumberError` if ``base**exponent`` with a number as ``exponent`` contains a number with too many
        digits, or a root of a number that takes too long to compute.
        """
        own = [self.facts_of(factor) for factor in Mul.make_args(base)]
        bits = sum(known.bits for known in own if known.value is not None and abs(known.value) not in (0, 1))
        times = self.facts_of(exponent).value
        if times is None or not bits:
            return
        if bits * abs(times) > MAX_BITS:
            raise NumberError(f"has a power of a number with more than {MAX_DIGITS:,} digits; write rounded numbers")
        if not exponent.is_Integer and bits > MAX_BITS * MAX_ROOT_DIGITS / MAX_DIGITS:
            raise NumberError(f"has a root of a number with more than {MAX_ROOT_DIGITS} digits; write rounded numbers")

    def check_call(self, name: str, values: Sequence[Any]) -> None:
        """Raise `NumberError` if the function ``name``, applied to ``values``, gives a number with too many digits, as
        ``exp`` may.
        """
        if name in ("exp", "expm1", "logaddexp"):
            for value in values:
                self.check_exponential(value)
        if name == "square":
            self.check_power(values[0], S(2))

    def check_exponential(self, value: Any) -> None:
        """Raise `NumberError` if ``exp(value)`` is a power with too many digits, since SymPy writes ``exp(n*log(b))``
        as ``b**n``.
        """
        for term in Add.make_args(value):
            factors = Mul.make_args(term)
            for logarithm in factors:
                if isinstance(logarithm, sympy.log):
                    self.check_power(logarithm.args[0], Mul(*(part for part in factors if part is not logarithm)))


def _float_value(node: Any, parts: list[float | None]) -> float | None:
    """Return the number ``node`` as a float, given the floats ``parts`` of its arguments; NaN if it is not finite and
    real, None if it is not a number.
    """
    if node is S.ImaginaryUnit or node in NOT_FINITE:
        return math.nan
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    try:
        if node.is_Rational:
            value = node.p / node.q
            return value if value or not node.p else math.nan
        if isinstance(node, Pow):
            value = float(known[0] ** known[1])
            return value if value or not known[0] else math.nan
        if isinstance(node, sympy.NumberSymbol):
            return float(node)
        function = _FLOAT_OPERATIONS.get(node.func) or record_of(node.func).numeric
        return function(*known) if parts and function else None
    except (ArithmeticError, ValueError, TypeError):
        return math.nan


def comparable(value: Any) -> Any:
    """Return the scalar ``value`` as an operand of a comparison: a choice as an entry of a tensor, because SymPy would
    compare each of its cases.
    """
    return as_entry(value) if value.has(Piecewise) else value


class Operations:
    """The arithmetic operations by which a parser computes values. They check that numbers are not too long; a scalar
    that is nested too deeply for SymPy's recursion is wrapped as an entry of a tensor.
    """

    def __init__(self) -> None:
        self.depth = BoundedDepth(MAX_NESTING, as_entry)
        self.numbers = NumberChecks()

    def bounded(self, scalar: Any) -> Any:
        """Return ``scalar`` after checking that its numbers are not too long. If it is nested too deeply for SymPy's
        recursion, return it as an entry of a tensor, which SymPy does not walk through.
        """
        result = self.depth.bounded(self.numbers.check_length(scalar))
        if result is not scalar:
            self.numbers.facts[result] = self.numbers.facts[scalar]
        return result

    def add(self, terms: Sequence[Any]) -> Any:
        """Return the sum of ``terms``, scalars or tensors."""
        if any(map(shape_of, terms)):
            return operators.add(*terms)
        return self.bounded(self.numbers.join_checked(lambda some: self.depth.build(Add, some), list(terms)))

    def multiply(self, factors: Sequence[Any]) -> Any:
        """Return the element-wise product of ``factors``."""
        if any(map(shape_of, factors)):
            return operators.multiply(*factors)
        return self.bounded(self.numbers.join_checked(lambda some: self.depth.build(Mul, some), list(factors)))

    def power(self, base: Any, exponent: Any) -> Any:
        """Return ``base**exponent``, entry by entry."""
        if shape_of(base) or shape_of(exponent):
            return operators.power(base, exponent)
        self.numbers.check_power(base, exponent)
        return self.bounded(self.depth.build(Pow, (base, exponent)))

    def negated(self, value: Any) -> Any:
        """Return ``-value``."""
        return self.multiply([S.NegativeOne, value])

    def entrywise(self, name: str, values: Sequence[Any]) -> Any:
        """Return the function ``name``, one of `ENTRYWISE`, of the scalars ``values``, or of tensors entry by entry."""
        is_tensor = any(map(shape_of, values))
        if name in RELATIONS and not is_tensor:
            values = [*map(comparable, values)]
        if name in CHOICES:
            value = getattr(comparisons, name)(*values)
            return value if is_tensor else self.bounded(value)
        record = by_name(name)
        assert record is not None
        if is_tensor:
            public = getattr(entrywise_functions, record.name, None) if record.is_public else None
            return entrywise_functions.elementwise(record.function, *values) if public is None else public(*values)
        common = name if name in FUNCTIONS else record.name
        if common in FUNCTIONS:
            return self.function(common, values[0])
        match record.name:
            case "sqrt":
                return self.power(values[0], S.Half)
            case "square":
                return self.power(values[0], S(2))
            case "clip":
                return self.entrywise("minimum", [self.entrywise("maximum", values[:2]), values[2]])
            case "logaddexp":
                return self.function("log", self.add([self.function("exp", value) for value in values]))
        self.numbers.check_call(name, values)
        if isinstance(record.function, FunctionClass):
            is_deep = any(self.is_deep(value) for value in values)
            return self.bounded(self.depth.build(record.function, values, is_deep))
        return self.bounded(record.function(*values))

    def is_deep(self, value: Any) -> bool:
        """Return whether functions of ``value`` are left unevaluated, because it is nested deeply."""
        return self.depth.levels.get(value, 0) >= MAX_EVALUATED_DEPTH

    def function(self, name: str, value: Any) -> Any:
        """Return the function ``name`` of the scalar ``value``; it is left unevaluated if the scalar is nested
        deeply.
        """
        self.numbers.check_call(name, (value,))
        return self.bounded(
            self.depth.build(FUNCTIONS[name], (value, S.Zero) if name == "relu" else (value,), self.is_deep(value))
        )
