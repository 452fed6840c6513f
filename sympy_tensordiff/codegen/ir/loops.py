"""The statements of loop nests: those of a kernel, and those that schedules make of them.

All integer expressions are `Affine` forms over *names* (Python identifiers that the lowering has
made safe): sizes, integer arguments, axes of the kernel and loop variables; `Quotient` in a form
is the floor division, a `DataEntry` the entry of an array of integers, by the array's name. Scalar
expressions are the trees of `scalars`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

from sympy_tensordiff.codegen.ir.scalars import Load, Name, Scalar
from sympy_tensordiff.integer.affine import Affine, Row


@dataclass(frozen=True, slots=True)
class Bound:
    """``ceil(form / divisor)`` as a lower, ``floor(form / divisor)`` as an upper bound; divisor >= 1."""

    form: Affine
    divisor: int = 1


@dataclass(frozen=True, slots=True)
class Let:
    """``name = value``, a scalar that does not change afterwards; names are unique in a kernel."""

    name: str
    value: Scalar


Reduction: TypeAlias = Literal["sum", "prod", "max", "min"]
"""How values become one: nan among the values of a maximum or a minimum is its value, as in NumPy."""

STARTS: dict[Reduction, int | float] = {"sum": 0, "prod": 1, "max": -math.inf, "min": math.inf}
"""The value of a reduction of no values."""


@dataclass(frozen=True, slots=True)
class Accumulator:
    """``name = 0``, or whatever a ``reduction`` of nothing is: declares what `Add` statements further down fill."""

    name: str
    reduction: Reduction = "sum"


@dataclass(frozen=True, slots=True)
class Add:
    """``name += value``; of another ``reduction``, which is that of the accumulator, one more of its values."""

    name: str
    value: Scalar
    reduction: Reduction = "sum"


@dataclass(frozen=True, slots=True)
class Loop:
    """``for variable`` from the greatest of ``lows`` to the least of ``highs``, both included; may be empty.

    After scheduling, a ``step`` other than 1 takes every so manieth value; -1 runs from the last value to the first.
    With a ``bind``, its values are those of a coordinate of threads: "grid.x", "grid.y", "grid.z".
    """

    variable: str
    lows: tuple[Bound, ...]
    highs: tuple[Bound, ...]
    body: tuple[Statement, ...]
    step: int | Affine = 1
    bind: str = ""


@dataclass(frozen=True, slots=True)
class If:
    """``body`` where all ``conditions`` hold, nothing otherwise."""

    conditions: tuple[Row, ...]
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Store:
    """``array[axes] = value`` at the kernel's own entry."""

    value: Scalar


@dataclass(frozen=True, slots=True)
class AddAt:
    """``array[index] += value``, in a scatter only."""

    index: tuple[Affine, ...]
    value: Scalar


@dataclass(frozen=True, slots=True)
class Ends:
    """An integer: the first value of a loop with these ``lows``, or one more than the last with these ``highs``."""

    lows: tuple[Bound, ...] = ()
    highs: tuple[Bound, ...] = ()


@dataclass(frozen=True, slots=True)
class Set:
    """``target = value``, or one more value of a ``reduction``: of a scalar, or of an entry of any array.

    After scheduling, it takes the place of `Let`, `Accumulator`, `Add`, `Store` and `AddAt`. A maximum or minimum of
    `Ends` is one of integers; "any" notes whether a condition has been true.
    """

    target: Name | Load
    value: Scalar | Ends
    reduction: Reduction | Literal["any", ""] = ""


@dataclass(frozen=True, slots=True)
class Alloc:
    """After scheduling: a new array inside of a function, with entries like those of the array ``like``."""

    name: str
    shape: tuple[Ends, ...]
    like: str


Statement: TypeAlias = "Let | Accumulator | Add | Loop | If | Store | AddAt | Set | Alloc"
