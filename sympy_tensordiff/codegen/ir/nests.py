"""Kernels as explicit loop nests: the loops over the axes are loops, and what is filled is the target of a statement.

A schedule rewrites such nests; a printer knows nothing else. The statements are `Loop`, `If`, `Set` and `Alloc`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sympy_tensordiff.codegen.ir.loops import (
    STARTS,
    Accumulator,
    Add,
    AddAt,
    Bound,
    Ends,
    Let,
    Loop,
    Reduction,
    Set,
    Statement,
    Store,
)
from sympy_tensordiff.codegen.ir.scalars import Load, Name, Number, Operation, Scalar
from sympy_tensordiff.codegen.ir.walk import EXTREMA, rewrite, rewrite_scalar, with_parts
from sympy_tensordiff.integer.affine import Affine

ZERO = Affine()
"""Where all axes begin."""

FALSE = Operation("or", ())
"""A condition that does not hold."""


INFINITY = Operation("infinity", ())
"""The least of no numbers. As a `Number` of the user's it is refused."""


def extent(array: str, axis: int) -> Affine:
    """The length of an axis, as the array tells it: a variable whose name no other can have."""
    return Affine.variable(f"{array}.shape[{axis}]")


def span(variable: str, start: Affine, stop: Affine, body: Iterable[Statement] = ()) -> Loop:
    """A loop from ``start`` to ``stop - 1``.

    >>> span("i", Affine(), Affine.variable("n")).highs
    (Bound(form=n - 1, divisor=1),)
    """
    return Loop(variable, (Bound(start),), (Bound(stop - 1),), tuple(body))


def exactly(form: Affine) -> Ends:
    """An integer form as a value."""
    return Ends((Bound(form),))


def start(target: Name | Load, reduction: Reduction) -> Set:
    """What begins a reduction."""
    if reduction in EXTREMA:
        return Set(target, INFINITY if reduction == "min" else Operation("neg", (INFINITY,)))
    return Set(target, Number(STARTS[reduction]))


def double(value: Scalar) -> Scalar:
    """A number in double precision."""
    return Operation("double", (value,))


def real(value: Scalar) -> Scalar:
    """A number in the precision of the results."""
    return Operation("real", (value,))


def explicit(body: Iterable[Statement], target: Name | Load) -> tuple[Statement, ...]:
    """Statements of a kernel that fills ``target``, as those of a nest.

    >>> explicit([Store(Number(1))], Load("x", (Affine.variable("i"),)))
    (Set(target=Load(array='x', index=(i,)), value=Number(value=1), reduction=''),)
    """
    return rewrite(body, lambda statement, _: (_explicit(statement, target),))


def _explicit(statement: Statement, target: Name | Load) -> Statement:
    if isinstance(statement, Accumulator):
        return start(Name(statement.name), statement.reduction)
    if isinstance(statement, Let):
        return Set(Name(statement.name), statement.value)
    if isinstance(statement, Add):
        return Set(Name(statement.name), statement.value, statement.reduction)
    if isinstance(statement, AddAt):
        assert isinstance(target, Load)
        return Set(Load(target.array, statement.index), statement.value, "sum")
    if isinstance(statement, Store):
        return Set(target, statement.value if isinstance(target, Load) else real(statement.value))
    return statement


def with_scalars(body: Sequence[Statement], names: Mapping[str, Name | Load]) -> tuple[Statement, ...]:
    """A nest with other scalars, or entries of arrays, in the place of those with ``names``.

    >>> with_scalars([Set(Name("s"), Number(2), "sum")], {"s": Name("t")})
    (Set(target=Name(name='t'), value=Number(value=2), reduction='sum'),)
    """

    def changed(part: Scalar) -> Scalar:
        return names.get(part.name, part) if isinstance(part, Name) else part

    return rewrite(body, lambda statement, _: (with_parts(statement, lambda value: rewrite_scalar(value, changed)),))
