"""The statements of loop nests: `Loop`, `If`, `Set` and `Alloc`.

All integer expressions are `Affine` forms over *names* (Python identifiers that the lowering has
made safe): sizes, integer arguments, axes of the kernel and loop variables; `Quotient` in a form
is the floor division, a `DataEntry` the entry of an array of integers, by the array's name. Scalar
expressions are the trees of `scalars`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeGuard

from sympy_tensordiff.codegen.ir.scalars import Bound, Ends, Identity, Load, Name, Reduction, Scalar
from sympy_tensordiff.integer.affine import Affine, Row


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
class Set:
    """``target = value``, or one more value of a ``reduction``: of a scalar, or of an entry of any array.

    A scalar that begins with an `Identity` is an accumulator; any other one does not change before scheduling. Names
    are unique in a kernel. A maximum or minimum of `Ends` is one of integers; "any" notes whether a condition has been
    true.
    """

    target: Name | Load
    value: Scalar
    reduction: Reduction | Literal["any", ""] = ""

    @property
    def name(self) -> str:
        """The scalar that is set, or the array of the entry."""
        return self.target.name if isinstance(self.target, Name) else self.target.array

    @property
    def index(self) -> tuple[Affine, ...]:
        """The index of the entry; empty for a scalar."""
        return self.target.index if isinstance(self.target, Load) else ()


@dataclass(frozen=True, slots=True)
class Alloc:
    """After scheduling: a new array inside of a function, with entries like those of the array ``like``."""

    name: str
    shape: tuple[Ends, ...]
    like: str


Statement: TypeAlias = "Loop | If | Set | Alloc"


def let(name: str, value: Scalar) -> Set:
    """``name = value``, a scalar."""
    return Set(Name(name), value)


def accumulator(name: str, reduction: Reduction = "sum") -> Set:
    """``name = 0``, or whatever a ``reduction`` of nothing is."""
    return Set(Name(name), Identity(reduction))


def add(name: str, value: Scalar, reduction: Reduction = "sum") -> Set:
    """``name += value``; of another ``reduction``, which is that of the accumulator, one more of its values."""
    return Set(Name(name), value, reduction)


def reduction_of(statement: Set) -> Reduction:
    """The reduction that a statement begins, or takes a value into."""
    if isinstance(statement.value, Identity):
        return statement.value.reduction
    assert statement.reduction and statement.reduction != "any"
    return statement.reduction


def defines(statement: Statement) -> TypeGuard[Set]:
    """Whether a statement gives a scalar its first value: that of an accumulator, or its only one."""
    return isinstance(statement, Set) and isinstance(statement.target, Name) and not statement.reduction


def is_let(statement: Statement) -> TypeGuard[Set]:
    """Whether a statement sets a scalar that does not change afterwards."""
    return defines(statement) and not isinstance(statement.value, Identity)


def is_accumulator(statement: Statement) -> TypeGuard[Set]:
    """Whether a statement begins a reduction into a scalar."""
    return defines(statement) and isinstance(statement.value, Identity)


def is_addition(statement: Statement) -> TypeGuard[Set]:
    """Whether a statement takes one more value into an accumulator."""
    return isinstance(statement, Set) and isinstance(statement.target, Name) and bool(statement.reduction)


def is_store(statement: Statement) -> TypeGuard[Set]:
    """Whether a statement sets an entry of an array."""
    return isinstance(statement, Set) and isinstance(statement.target, Load) and not statement.reduction


def is_scatter(statement: Statement) -> TypeGuard[Set]:
    """Whether a statement adds to an entry of an array."""
    return isinstance(statement, Set) and isinstance(statement.target, Load) and bool(statement.reduction)
