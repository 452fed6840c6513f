"""The statements of loop nests: `Loop`, `If`, `Set`, `Alloc` and, for blocks of threads, `Barrier`.

All integer expressions are `Affine` forms over *names* (Python identifiers that the lowering has
made safe): sizes, integer arguments, axes of the kernel and loop variables; a `Quotient` in a form
is a floor division, an `IndirectIndex` an entry of an integer array, by the array's name. Scalar
expressions are the trees of `scalars`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeGuard

from sympy_tensordiff.codegen.ir.scalars import Bound, Ends, Identity, Load, Name, Reduction, Scalar
from sympy_tensordiff.integer.affine import Affine, Constraint


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop of ``variable`` from the maximum of ``lows`` to the minimum of ``highs``, both included; it may be empty.

    After scheduling, the ``step`` may differ from 1; -1 runs backwards. With a ``bind``, the values are a coordinate of
    threads: "grid.x", "grid.y", "grid.z".
    """

    variable: str
    lows: tuple[Bound, ...]
    highs: tuple[Bound, ...]
    body: tuple[Statement, ...]
    step: int | Affine = 1
    bind: str = ""


@dataclass(frozen=True, slots=True)
class If:
    """A guard: the statements in ``body`` run only if all ``conditions`` hold."""

    conditions: tuple[Constraint, ...]
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Set:
    """An assignment ``target = value``, or an update of the target such as ``target += value`` (with a ``reduction``).
    The target is a scalar or an array entry.

    A scalar that starts with an `Identity` is an accumulator; other scalars do not change before scheduling. Names are
    unique in a kernel. A maximum or minimum of `Ends` is one of integers; "any" notes whether a condition has been
    true.
    """

    target: Name | Load
    value: Scalar
    reduction: Reduction | Literal["any", ""] = ""

    @property
    def name(self) -> str:
        """The name of the scalar or array that the statement sets."""
        return self.target.name if isinstance(self.target, Name) else self.target.array

    @property
    def index(self) -> tuple[Affine, ...]:
        """The index of the array entry that the statement sets; () for a scalar."""
        return self.target.index if isinstance(self.target, Load) else ()


@dataclass(frozen=True, slots=True)
class Alloc:
    """A statement that allocates a local array in the function of a loop nest. ``like`` names an array with the same
    dtype.
    """

    name: str
    shape: tuple[Ends, ...]
    like: str


@dataclass(frozen=True, slots=True)
class Barrier:
    """A barrier: each thread of a block waits until all threads of the block have reached it."""


Statement: TypeAlias = "Loop | If | Set | Alloc | Barrier"


def let(name: str, value: Scalar) -> Set:
    """Return the statement ``name = value``, which defines a scalar."""
    return Set(Name(name), value)


def accumulator(name: str, reduction: Reduction = "sum") -> Set:
    """Return the initialisation of an accumulator: ``name`` is set to the neutral element of ``reduction``."""
    return Set(Name(name), Identity(reduction))


def add(name: str, value: Scalar, reduction: Reduction = "sum") -> Set:
    """Return the update ``name += value``; for another ``reduction`` of the accumulator, such as "max", ``name =
    max(name, value)``.
    """
    return Set(Name(name), value, reduction)


def reduction_of(statement: Set) -> Reduction:
    """Return the reduction, such as "sum", that a statement initialises or updates."""
    if isinstance(statement.value, Identity):
        return statement.value.reduction
    assert statement.reduction and statement.reduction != "any"
    return statement.reduction


def defines(statement: Statement) -> TypeGuard[Set]:
    """Return whether a statement is the first one to set its scalar: it initialises an accumulator, or sets a scalar
    that never changes.
    """
    return isinstance(statement, Set) and isinstance(statement.target, Name) and not statement.reduction


def is_let(statement: Statement) -> TypeGuard[Set]:
    """Return whether a statement sets a scalar that does not change afterwards."""
    return defines(statement) and not isinstance(statement.value, Identity)


def is_accumulator(statement: Statement) -> TypeGuard[Set]:
    """Return whether a statement initialises an accumulator."""
    return defines(statement) and isinstance(statement.value, Identity)


def is_addition(statement: Statement) -> TypeGuard[Set]:
    """Return whether a statement updates an accumulator."""
    return isinstance(statement, Set) and isinstance(statement.target, Name) and bool(statement.reduction)


def is_store(statement: Statement) -> TypeGuard[Set]:
    """Return whether a statement assigns a value to an array entry, without accumulating into it (a reduction)."""
    return isinstance(statement, Set) and isinstance(statement.target, Load) and not statement.reduction


def is_scatter(statement: Statement) -> TypeGuard[Set]:
    """Return whether a statement adds to an array entry."""
    return isinstance(statement, Set) and isinstance(statement.target, Load) and bool(statement.reduction)
