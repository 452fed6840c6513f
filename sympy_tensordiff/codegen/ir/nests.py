"""Explicit loop nests of kernels: axes are loops, and the filled entry is the target of a statement.

Schedules rewrite such nests, and printers print them. The statements are `Loop`, `If`, `Set` and `Alloc`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from sympy_tensordiff.codegen.ir.loops import Loop, Set, Statement
from sympy_tensordiff.codegen.ir.rename import Renaming
from sympy_tensordiff.codegen.ir.scalars import Bound, Ends, Load, Name, Operation, Scalar
from sympy_tensordiff.codegen.ir.walk import Around, rewrite, rewrite_scalar, with_parts
from sympy_tensordiff.integer.affine import Affine, Variable

ZERO = Affine()
"""The first value of all axes."""

TRUE, FALSE = Operation("and", ()), Operation("or", ())
"""The conditions that always hold and never hold."""


def extent(array: str, axis: int) -> Affine:
    """Return a variable for the length of the axis number `axis` of ``array``, as an affine form. It is named
    ``array.shape[axis]``, which no other variable can be.
    """
    return Affine.variable(f"{array}.shape[{axis}]")


def lengths(array: str, shape: Sequence[Affine]) -> dict[Variable, Affine]:
    """Return a dictionary from the variables for the lengths of the axes of ``array``, such as ``x.shape[0]``, to these
    lengths as forms in the sizes, its ``shape``.

    >>> lengths("x", [Affine.variable("n"), Affine.of(3)])
    {'x.shape[0]': n, 'x.shape[1]': 3}
    """
    return {extent(array, axis).terms[0][0]: length for axis, length in enumerate(shape)}


def span(variable: str, start: Affine, stop: Affine, body: Iterable[Statement] = ()) -> Loop:
    """Return the loop ``for variable in range(start, stop)`` around ``body``.

    >>> span("i", Affine(), Affine.variable("n")).highs
    (Bound(form=n - 1, divisor=1),)
    """
    return Loop(variable, (Bound(start),), (Bound(stop - 1),), tuple(body))


def exactly(form: Affine) -> Ends:
    """Return the value of an integer form as a scalar expression, computed in integers without rounding."""
    return Ends((Bound(form),))


def double(value: Scalar) -> Scalar:
    """Return the scalar expression that converts the number ``value`` to double precision."""
    return Operation("double", (value,))


def real(value: Scalar) -> Scalar:
    """Return ``value``, a number, converted to the floating-point type of the results, as a scalar expression."""
    return Operation("real", (value,))


def with_scalars(body: Sequence[Statement], names: Mapping[str, Name | Load]) -> tuple[Statement, ...]:
    """Return the statements ``body`` with each scalar in ``names`` replaced by the name or array entry to which it is
    mapped.

    >>> from sympy_tensordiff.codegen.ir.scalars import Number
    >>> with_scalars([Set(Name("s"), Number(2), "sum")], {"s": Name("t")})
    (Set(target=Name(name='t'), value=Number(value=2), reduction='sum'),)
    """
    return Renaming({}, scalars=names).body(tuple(body))


def with_entries_as_scalars(body: Sequence[Statement], arrays: Collection[str]) -> tuple[Statement, ...]:
    """Return the statements ``body`` with a scalar variable in place of each of ``arrays``, of which only one entry is
    used, such as ``t[i]`` in a loop over i.

    >>> from sympy_tensordiff.codegen.ir.scalars import Number
    >>> (found,) = with_entries_as_scalars([Set(Load("x", ()), Number(2))], {"x"})
    >>> found.target, found.value.function
    (Name(name='x'), 'real')
    """

    def as_scalar(part: Scalar) -> Scalar:
        """Return the scalar variable that replaces the read `part` of one of ``arrays``; other expressions are
        unchanged. Only one entry of each of these arrays is used.
        """
        return Name(part.array) if isinstance(part, Load) and part.array in arrays else part

    def statement(old: Statement, _: Around) -> tuple[Statement, ...]:
        """Return ``(statement,)``: the statement ``old`` with the array entries in it replaced by scalar variables."""
        new = with_parts(old, lambda value: rewrite_scalar(value, as_scalar))
        if isinstance(new, Set) and isinstance(new.target, Load) and new.target.array in arrays:
            new = Set(Name(new.target.array), real(new.value))
        return (new,)

    return rewrite(body, statement) if arrays else tuple(body)
