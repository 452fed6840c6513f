"""Scalar expressions in loop nests, as trees.

Integer expressions in them are `Affine` forms over names; a `Load` happens only if it is reached: inside its loops and
if its conditions hold.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import inf
from typing import Any, Literal, TypeAlias

from sympy_tensordiff.functions.table import operations
from sympy_tensordiff.integer.affine import Affine, Constraint, Variable
from sympy_tensordiff.integer.indirect import IndirectIndex


@dataclass(frozen=True, slots=True)
class Number:
    """A real constant. A `Fraction` is exact; printers decide how to write it."""

    value: int | Fraction | float


@dataclass(frozen=True, slots=True)
class IndexValue:
    """An integer form used as a real number, such as ``i`` in ``i*x[i]``."""

    form: Affine


@dataclass(frozen=True, slots=True)
class Name:
    """A scalar variable of a kernel, by its name: a scalar argument, or a variable that a `Set` statement assigns."""

    name: str


@dataclass(frozen=True, slots=True)
class Load:
    """A read of one entry of an array argument or temporary."""

    array: str
    index: tuple[Affine, ...]


class MaskedEntry(IndirectIndex):
    """An entry of an integer array that is read only where the constraints ``inside`` hold, and counts as 0 elsewhere,
    so that no read is out of bounds.
    """

    __slots__ = ("inside",)
    fields: tuple[str, ...] = (*IndirectIndex.fields, "inside")

    def __init__(
        self, tensor: str, index: tuple[Affine, ...], below: Affine | None, inside: tuple[Constraint, ...]
    ) -> None:
        super().__init__(tensor, index, below)
        self.inside = inside

    def key(self) -> tuple[Any, ...]:
        """Return the key by which masked entries are compared and sorted: the key of the entry, followed by the
        constraints ``inside``.
        """
        return (*super().key(), self.inside)

    def forms(self) -> tuple[Affine, ...]:
        """Return all affine forms in this entry: those of its index, and those in the constraints of its mask."""
        return (*self.index, *(row.form for row in self.inside))

    def substituted(self, mapping: Mapping[Variable, Affine]) -> Affine | None:
        """Return the entry with `mapping` substituted in its index and in the constraints under which it is read, as an
        affine form; None if that changes nothing.
        """
        index = tuple([form.substitute(mapping) for form in self.index])
        inside = tuple([row.substitute(mapping) for row in self.inside])
        changed = (index, inside) != (self.index, self.inside)
        return Affine.variable(MaskedEntry(self.tensor, index, self.below, inside)) if changed else None

    def evaluate(self, values: Mapping[Variable, Any]) -> int:
        """Return the value of the integer-array entry for numeric ``values`` of its variables; 0 where its mask, the
        constraints ``inside``, does not hold.
        """
        is_inside = all(row.form.evaluate(values) >= 0 for row in self.inside)
        return super().evaluate(values) if is_inside else 0


@dataclass(frozen=True, slots=True)
class External:
    """A function of real numbers that the user supplies under ``name``, or a partial derivative of it. ``orders`` are
    the orders of differentiation with respect to each argument.

    ``name`` is the user's own, data and never code. ``is_special``: SciPy may have it, see `special`.
    """

    name: str
    orders: tuple[int, ...]
    is_special: bool = False


@dataclass(frozen=True, slots=True)
class Bound:
    """A loop bound: ``ceil(form / divisor)`` as a lower, ``floor(form / divisor)`` as an upper bound; divisor >= 1."""

    form: Affine
    divisor: int = 1


@dataclass(frozen=True, slots=True)
class Ends:
    """One end of an integer range ``range(start, stop)`` as an expression: ``start`` is the maximum of the bounds
    ``lows``, or ``stop`` is one more than the minimum of the bounds ``highs``. The other field is empty.
    """

    lows: tuple[Bound, ...] = ()
    highs: tuple[Bound, ...] = ()


Reduction: TypeAlias = Literal["sum", "prod", "max", "min"]
"""The reductions; as in NumPy, nan among the values makes a maximum or minimum nan."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The neutral element of a ``reduction``: 0, 1, or an infinity."""

    reduction: Reduction = "sum"

    @property
    def value(self) -> Scalar:
        """Return the neutral element as an expression: 0, 1, or an infinity."""
        if self.reduction in EXTREMA:
            return INFINITY if self.reduction == "min" else Operation("neg", (INFINITY,))
        return Number(int(self.reduction == "prod"))


@dataclass(frozen=True, slots=True)
class Operation:
    """A scalar expression: the operation or function ``function`` applied to ``arguments``.

    ``add mul max min and or`` take two or more arguments; ``neg not`` one; ``pow`` two; ``lt le eq ne`` two (booleans);
    ``select`` (condition, value, otherwise) evaluates the chosen value only; other names are elementary functions, see
    `ELEMENTARY`. An `External` is a function of the user.
    """

    function: str | External
    arguments: tuple[Scalar, ...]


Scalar: TypeAlias = "Number | IndexValue | Name | Load | Operation | Ends | Identity"
"""A scalar expression; `Ends` and `Identity` occur only as values of statements."""

INFINITY = Operation("infinity", ())
"""The minimum of no numbers, and with a minus a score that is left out."""


def constant(value: int | Fraction | float) -> Scalar:
    """Return a constant as a scalar expression: a `Number`, or `INFINITY` with its sign for an infinite float."""
    if value not in (inf, -inf):
        return Number(value)
    return INFINITY if value > 0 else Operation("neg", (INFINITY,))


EXTREMA = frozenset({"max", "min"})
"""The reductions that are also operations on two numbers."""

ELEMENTARY = {name: record.operands[1] for name, record in operations().items() if name not in EXTREMA}
ELEMENTARY |= {"spherical_bessel": 2}
"""The elementary functions and their numbers of arguments. ``sign(0) = 0``; ``heaviside(x, h)`` is h at 0."""

VECTORISED = frozenset({"exp", "expm1", "log", "log1p", "tanh", "sinh", "cosh", "erf", "erfc", "sigmoid", "softplus"})
VECTORISED |= {"sin_near", "cos_near", "tan_near", "arctan", "arctan2", "arcsinh", "arccosh", "arctanh"}
VECTORISED |= {"logistic_density", "trigamma", "tetragamma"}
"""The elementary functions that can be vectorised."""

OF_ONE_EXPONENTIAL = frozenset({"tanh", "sigmoid", "logistic_density"})
"""Functions that are computed from the exponential of an absolute value, once for all of them in one loop."""

CONDITIONS = frozenset({"lt", "le", "eq", "ne", "and", "or", "not"})
"""The operations whose values are conditions."""


def is_condition(value: Scalar, conditions: Container[str]) -> bool:
    """Return whether a value is a condition: an operation that gives one, or a name in ``conditions``."""
    if isinstance(value, Name):
        return value.name in conditions
    return isinstance(value, Operation) and value.function in CONDITIONS
