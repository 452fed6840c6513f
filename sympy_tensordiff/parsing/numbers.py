"""The numbers inside of scalars: whether they are finite and real, and how long they are.

SymPy collects numbers as it builds sums, products and powers, and computes them whatever their length.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import sympy
from sympy import Add, Mul, Pow, S

from sympy_tensordiff.parsing.constants import BITS, FUNCTIONS, LONGEST, length
from sympy_tensordiff.symbolic.base import Node
from sympy_tensordiff.symbolic.limits import NOT_FINITE
from sympy_tensordiff.symbolic.traversal import postorder

LONGEST_ROOT = 100
"""The most digits of a number that SymPy takes roots of: it looks for their factors."""


class TooLongError(Exception):
    """Numbers would become too long; the text says which."""


class Found(NamedTuple):
    """What is known of a node: its value in float64 where it is a number, and the bits of the longest one in it."""

    value: float | None
    bits: int


APPROXIMATE: dict[Any, Callable[..., float]] = {
    **{sympy.sin: math.sin, sympy.cos: math.cos, sympy.tan: math.tan, sympy.tanh: math.tanh},
    **{sympy.asin: math.asin, sympy.acos: math.acos, sympy.atan: math.atan},
    **{sympy.exp: math.exp, sympy.log: math.log, sympy.Abs: abs, sympy.sign: FUNCTIONS["sign"]},
    **{sympy.Max: max, sympy.Min: min, Add: lambda *terms: math.fsum(terms), Mul: lambda *terms: math.prod(terms)},
}


class Numbers:
    """What is known of the scalars of one expression, each node of which is looked at once."""

    def __init__(self) -> None:
        self.found: dict[Any, Found] = {}

    def of(self, scalar: Any) -> Found:
        """What is known of a scalar."""
        for node in postorder(scalar, self.found, native):
            parts = [self.found[part] for part in native(node)]
            bits = length(node) if node.is_Rational else max((part.bits for part in parts), default=0)
            self.found[node] = Found(_value(node, [part.value for part in parts]), bits)
        return self.found[scalar]

    def are_real(self, scalar: Any) -> bool:
        """Whether all numbers in a scalar are finite and real, and in the range of a double."""
        values = {scalar: self.of(scalar).value}
        stack = [scalar]
        while stack:
            node = stack.pop()
            for part in native(node):
                if part not in values:
                    values[part] = self.found[part].value
                    stack.append(part)
        return all(value is None or math.isfinite(value) for value in values.values())

    def check_length(self, scalar: Any) -> Any:
        """The scalar, if no number in it is too long."""
        if self.of(scalar).bits > BITS:
            raise TooLongError(f"collects numbers of more than {LONGEST:,} digits")
        return scalar

    def joined(self, function: Callable[..., Any], operands: list[Any]) -> Any:
        """A sum or a product; where numbers may become long, of two operands at a time."""
        while sum(self.of(operand).bits for operand in operands) > BITS and len(operands) > 1:
            pairs = [operands[first : first + 2] for first in range(0, len(operands), 2)]
            operands = [self.check_length(function(pair)) for pair in pairs]
        return function(operands)

    def check_power(self, base: Any, exponent: Any) -> None:
        """Raise where the numbers of a base have a power that is too long, or a root that takes long."""
        own = [self.of(factor) for factor in Mul.make_args(base)]
        bits = sum(known.bits for known in own if known.value is not None and abs(known.value) != 1)
        times = self.of(exponent).value
        if times is None or not bits:
            return
        if bits * abs(times) > BITS:
            raise TooLongError(f"has a power of a number with more than {LONGEST:,} digits")
        if not exponent.is_Integer and bits > BITS * LONGEST_ROOT / LONGEST:
            raise TooLongError(f"has a root of a number with more than {LONGEST_ROOT} digits")

    def check_exponential(self, value: Any) -> None:
        """The same for ``exp(n*log(b))``, which is ``b**n`` to SymPy."""
        for term in Add.make_args(value):
            factors = Mul.make_args(term)
            for logarithm in factors:
                if isinstance(logarithm, sympy.log):
                    self.check_power(logarithm.args[0], Mul(*(part for part in factors if part is not logarithm)))


def native(node: Any) -> tuple[Any, ...]:
    """The parts of a node of SymPy's own; a node of ours is a leaf."""
    return () if isinstance(node, Node) else node.args


def _value(node: Any, parts: list[float | None]) -> float | None:
    """A node in float64, NaN where it is no finite real number there; None for what is no number."""
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
        return APPROXIMATE[node.func](*known) if parts and node.func in APPROXIMATE else None
    except (ArithmeticError, ValueError, TypeError):
        return math.nan
