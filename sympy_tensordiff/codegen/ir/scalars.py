"""The scalar expressions in loop nests: trees over the numbers that stand in a kernel's loops.

Integer expressions in them are `Affine` forms over names; a `Load` happens only where it is reached, i.e. inside of its
loops and behind its conditions.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from sympy_tensordiff.integer.affine import Affine, Row, Variable
from sympy_tensordiff.integer.data import DataEntry


@dataclass(frozen=True, slots=True)
class Number:
    """A real constant. A `Fraction` is exact; printers decide how to write it."""

    value: int | Fraction | float


@dataclass(frozen=True, slots=True)
class IndexValue:
    """An integer form used as a real number, ``i`` in ``i*x[i]``."""

    form: Affine


@dataclass(frozen=True, slots=True)
class Name:
    """A scalar by name: an argument, or what a `Set` gives its value."""

    name: str


@dataclass(frozen=True, slots=True)
class Load:
    """One entry of an array argument or of a temporary."""

    array: str
    index: tuple[Affine, ...]


class MaskedEntry(DataEntry):
    """An integer of an array where the rows ``inside`` hold, and 0 elsewhere."""

    __slots__ = ("inside",)
    fields: tuple[str, ...] = (*DataEntry.fields, "inside")

    def __init__(self, tensor: str, index: tuple[Affine, ...], below: Affine | None, inside: tuple[Row, ...]) -> None:
        super().__init__(tensor, index, below)
        self.inside = inside

    def key(self) -> tuple[Any, ...]:
        return (*super().key(), self.inside)

    def forms(self) -> tuple[Affine, ...]:
        return (*self.index, *(row.form for row in self.inside))

    def substituted(self, mapping: Mapping[Variable, Affine]) -> Affine | None:
        index = tuple([form.substitute(mapping) for form in self.index])
        inside = tuple([row.substitute(mapping) for row in self.inside])
        changed = (index, inside) != (self.index, self.inside)
        return Affine.variable(MaskedEntry(self.tensor, index, self.below, inside)) if changed else None

    def evaluate(self, values: Mapping[Variable, Any]) -> int:
        is_inside = all(row.form.evaluate(values) >= 0 for row in self.inside)
        return super().evaluate(values) if is_inside else 0


@dataclass(frozen=True, slots=True)
class External:
    """A function of real numbers whose implementation the user supplies: ``name``, or a derivative of it.

    ``name`` is the user's own, data and never code; ``orders`` say how often it is differentiated
    by each of its arguments. ``is_special``: SciPy may have it, see `special`.
    """

    name: str
    orders: tuple[int, ...]
    is_special: bool = False


@dataclass(frozen=True, slots=True)
class Bound:
    """``ceil(form / divisor)`` as a lower, ``floor(form / divisor)`` as an upper bound; divisor >= 1."""

    form: Affine
    divisor: int = 1


@dataclass(frozen=True, slots=True)
class Ends:
    """An integer: the first value of a loop with these ``lows``, or one more than the last with these ``highs``."""

    lows: tuple[Bound, ...] = ()
    highs: tuple[Bound, ...] = ()


Reduction: TypeAlias = Literal["sum", "prod", "max", "min"]
"""How values become one: nan among the values of a maximum or a minimum is its value, as in NumPy."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The value of a ``reduction`` of no values: 0, 1, or an infinity."""

    reduction: Reduction = "sum"

    @property
    def value(self) -> Scalar:
        """The same as an expression."""
        if self.reduction in EXTREMA:
            return INFINITY if self.reduction == "min" else Operation("neg", (INFINITY,))
        return Number(int(self.reduction == "prod"))


@dataclass(frozen=True, slots=True)
class Operation:
    """``function`` applied to ``arguments``.

    ``add mul max min and or`` take two or more arguments; ``neg not`` one; ``pow`` two;
    ``lt le eq ne`` two (booleans); ``select`` (condition, value, otherwise), only the chosen
    value counts; any other name is an elementary function of `ELEMENTARY` with its own arity.
    An `External` is a function of the user's.
    """

    function: str | External
    arguments: tuple[Scalar, ...]


Scalar: TypeAlias = "Number | IndexValue | Name | Load | Operation | Ends | Identity"
"""`Ends` and `Identity` are values of statements, and stand in no other expression."""

INFINITY = Operation("infinity", ())
"""The least of no numbers. As a `Number` of the user's it is refused."""

EXTREMA = frozenset({"max", "min"})
"""The reductions that are operations on two numbers, too."""

ELEMENTARY: dict[str, int] = {
    "exp": 1, "log": 1, "sin": 1, "cos": 1, "tan": 1, "arcsin": 1, "arccos": 1, "arctan": 1,
    "arctan2": 2, "sinh": 1, "cosh": 1, "tanh": 1, "arcsinh": 1, "arccosh": 1, "arctanh": 1,
    "abs": 1, "sign": 1, "floor": 1, "ceil": 1, "heaviside": 2, "sqrt": 1, "erf": 1, "erfc": 1,
    "gamma": 1, "lgamma": 1, "expm1": 1, "log1p": 1, "log2": 1, "log10": 1, "cbrt": 1, "hypot": 2,
    "sigmoid": 1, "softplus": 1, "spherical_bessel": 2,
}  # fmt: skip
"""The elementary functions and their numbers of arguments. ``sign(0) = 0``; ``heaviside(x, h)`` is h at 0."""

VECTORISED = frozenset({"exp", "expm1", "log", "log1p", "tanh", "sigmoid", "softplus", "sin_near", "cos_near"})
"""Those that a loop computes for several entries at once, in registers of vectors."""

CONDITIONS = frozenset({"lt", "le", "eq", "ne", "and", "or", "not"})
"""What is true or false."""


def is_condition(value: Scalar, conditions: Container[str]) -> bool:
    """Whether a value is true or false: one of these names, or what an operation finds out."""
    if isinstance(value, Name):
        return value.name in conditions
    return isinstance(value, Operation) and value.function in CONDITIONS
