"""Kernels as explicit loop nests: the loops over the axes are loops, and what is filled is the target of a statement.

A schedule rewrites such nests; a printer knows nothing else. The statements are `Loop`, `If`, `Set` and `Alloc`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from sympy_tensordiff.codegen.ir.loops import Loop, Set, Statement
from sympy_tensordiff.codegen.ir.rename import Renaming
from sympy_tensordiff.codegen.ir.scalars import Bound, Ends, Load, Name, Operation, Scalar
from sympy_tensordiff.codegen.ir.walk import Around, rewrite, rewrite_scalar, with_parts
from sympy_tensordiff.integer.affine import Affine, Variable

ZERO = Affine()
"""Where all axes begin."""

FALSE = Operation("or", ())
"""A condition that does not hold."""


def extent(array: str, axis: int) -> Affine:
    """The length of an axis, as the array tells it: a variable whose name no other can have."""
    return Affine.variable(f"{array}.shape[{axis}]")


def lengths(array: str, shape: Sequence[Affine]) -> dict[Variable, Affine]:
    """What the lengths of the axes of an array are.

    >>> lengths("x", [Affine.variable("n"), Affine.of(3)])
    {'x.shape[0]': n, 'x.shape[1]': 3}
    """
    return {extent(array, axis).terms[0][0]: length for axis, length in enumerate(shape)}


def span(variable: str, start: Affine, stop: Affine, body: Iterable[Statement] = ()) -> Loop:
    """A loop from ``start`` to ``stop - 1``.

    >>> span("i", Affine(), Affine.variable("n")).highs
    (Bound(form=n - 1, divisor=1),)
    """
    return Loop(variable, (Bound(start),), (Bound(stop - 1),), tuple(body))


def exactly(form: Affine) -> Ends:
    """An integer form as a value."""
    return Ends((Bound(form),))


def double(value: Scalar) -> Scalar:
    """A number in double precision."""
    return Operation("double", (value,))


def real(value: Scalar) -> Scalar:
    """A number in the precision of the results."""
    return Operation("real", (value,))


def with_scalars(body: Sequence[Statement], names: Mapping[str, Name | Load]) -> tuple[Statement, ...]:
    """A nest with other scalars, or entries of arrays, in the place of those with ``names``.

    >>> from sympy_tensordiff.codegen.ir.scalars import Number
    >>> with_scalars([Set(Name("s"), Number(2), "sum")], {"s": Name("t")})
    (Set(target=Name(name='t'), value=Number(value=2), reduction='sum'),)
    """
    return Renaming({}, scalars=names).body(tuple(body))


def with_numbers(body: Sequence[Statement], arrays: Collection[str]) -> tuple[Statement, ...]:
    """A nest in which arrays, of which it needs one entry only, are scalars.

    >>> from sympy_tensordiff.codegen.ir.scalars import Number
    >>> (found,) = with_numbers([Set(Load("x", ()), Number(2))], {"x"})
    >>> found.target, found.value.function
    (Name(name='x'), 'real')
    """

    def changed(part: Scalar) -> Scalar:
        return Name(part.array) if isinstance(part, Load) and part.array in arrays else part

    def statement(old: Statement, _: Around) -> tuple[Statement, ...]:
        new = with_parts(old, lambda value: rewrite_scalar(value, changed))
        if isinstance(new, Set) and isinstance(new.target, Load) and new.target.array in arrays:
            new = Set(Name(new.target.array), real(new.value))
        return (new,)

    return rewrite(body, statement) if arrays else tuple(body)
