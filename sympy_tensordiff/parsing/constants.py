"""Numbers and what is computed from numbers alone: exact where it is rational, and in float64 on the way.

What is no finite real number is refused here, and what would be too long, before anything computes it.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any, NamedTuple

from sympy_tensordiff.errors import ParseError
from sympy_tensordiff.parsing.letters import Letters
from sympy_tensordiff.parsing.tree import Tree, cut, shown

LONGEST = 1_000
"""The most digits of a number, and of the numerator and the denominator of one that is computed."""
BITS = LONGEST * 10 / 3


class Constant(NamedTuple):
    """A number: its value where it is known to be rational, and its value in float64."""

    exact: Fraction | None
    approximate: float


FUNCTIONS: dict[str, Callable[[float], float]] = {
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "arcsin": math.asin,
    "arccos": math.acos,
    "arctan": math.atan,
    "tanh": math.tanh,
    "exp": math.exp,
    "log": math.log,
    "sign": lambda x: float((x > 0) - (x < 0)),
    "relu": lambda x: max(x, 0.0),
    "abs": abs,
}
RATIONAL: dict[str, Callable[[Fraction], Fraction]] = {
    "sign": lambda x: Fraction((x > 0) - (x < 0)),
    "relu": lambda x: max(x, Fraction(0)),
    "abs": abs,
}
OPERATORS: dict[str, Callable[..., Any]] = {
    "sum": operator.add,
    "difference": operator.sub,
    "product": operator.mul,
    "quotient": operator.truediv,
    "negative": operator.neg,
    "relabelled": operator.pos,
    "power": operator.pow,  # complex where it is not real
}


def constants(nodes: Iterable[Tree], letters: dict[Tree, Letters], source: str) -> dict[Tree, Constant]:
    """The subexpressions that are numbers whatever the sizes of axes are."""
    found: dict[Tree, Constant] = {}
    for node in nodes:
        if node.kind == "number":
            found[node] = _number(node, source)
        elif node.parts and all(part in found for part in node.parts) and not _has_axes(node, letters):
            found[node] = _computed(node, [found[part] for part in node.parts], source)
    return found


def _has_axes(node: Tree, letters: dict[Tree, Letters]) -> bool:
    if node.kind == "function":
        return node.text not in FUNCTIONS
    return node in letters and str(letters[node]) not in (",->", "->")


def _number(node: Tree, source: str) -> Constant:
    if len(node.text) > LONGEST:
        raise ParseError(
            f"the number has {len(node.text):,} characters, and at most {LONGEST:,} are read", source, node.place
        )
    approximate = float(node.text)
    mantissa = node.text.lower().partition("e")[0]
    if not mantissa.strip("0."):
        return Constant(Fraction(0), 0.0)
    if math.isinf(approximate) or approximate == 0:
        raise ParseError(
            f"the number {cut(node.text)} is too {'large' if approximate else 'small'} for a double, whose range is "
            "about 1e-308 to 1e308",
            source,
            node.place,
        )
    return Constant(Fraction(node.text), approximate)


def _computed(node: Tree, values: list[Constant], source: str) -> Constant:
    try:
        exact = _exact(node, values, source)
        approximate = float(exact) if exact is not None else float(_approximate(node, [v.approximate for v in values]))
    except ParseError:
        raise
    except (ArithmeticError, ValueError, TypeError):
        approximate = math.nan
    if not math.isfinite(approximate) or _vanishes(node, exact, values, approximate):
        raise ParseError(f"{shown(node, source)} is no finite real number in the range of a double", source, node.place)
    return Constant(exact, approximate)


def _exact(node: Tree, values: list[Constant], source: str) -> Fraction | None:
    numbers = [value.exact for value in values if value.exact is not None]
    if len(numbers) < len(values):
        return None
    if node.kind == "power":
        return _power(node, numbers, source)
    if node.kind == "function":
        return RATIONAL[node.text](*numbers) if node.text in RATIONAL else None
    result = Fraction(OPERATORS[node.kind](*numbers))
    if length(result) > BITS:
        raise ParseError(_too_long(node, source), source, node.place)
    return result


def length(number: Fraction) -> int:
    """The bits of a rational number."""
    return max(number.numerator.bit_length(), number.denominator.bit_length())


def _power(node: Tree, numbers: list[Fraction], source: str) -> Fraction | None:
    base, exponent = numbers
    if abs(base) != 1 and base and length(base) * abs(exponent) > BITS:
        raise ParseError(_too_long(node, source), source, node.place)
    if exponent.denominator != 1:
        return None
    if abs(base) == 1:
        return base if exponent.numerator % 2 else Fraction(1)
    return Fraction(base**exponent.numerator)


def _too_long(node: Tree, source: str) -> str:
    return f"the exact value of {shown(node, source)} has more than {LONGEST:,} digits; write a rounded number"


def _approximate(node: Tree, values: list[float]) -> Any:
    return (FUNCTIONS[node.text] if node.kind == "function" else OPERATORS[node.kind])(*values)


def _vanishes(node: Tree, exact: Fraction | None, values: list[Constant], approximate: float) -> bool:
    """Whether a number other than 0 is smaller than any double."""
    if exact is not None:
        return exact != 0 and approximate == 0
    return node.kind == "power" and values[0].approximate != 0 and approximate == 0
