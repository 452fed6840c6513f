"""Tensors made of several tensors: `stack`, `concatenate`, Kronecker and cross products."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from sympy import Expr, Mod, Mul, Piecewise, S

from sympy_tensordiff.errors import ArgumentError, ShapeError
from sympy_tensordiff.symbolic.expressions.arguments import as_int
from sympy_tensordiff.symbolic.expressions.call_errors import explained
from sympy_tensordiff.symbolic.index_notation.signatures import Expression
from sympy_tensordiff.symbolic.index_notation.tabulate import digits, inline_entry, same_extent, tabulate
from sympy_tensordiff.symbolic.whole_tensors.matrix_functions import checked_axis
from sympy_tensordiff.symbolic.whole_tensors.operations import operand, shape_of


@explained
def stack(tensors: Sequence[Expression], axis: int = 0) -> Any:
    """Return the tensor of several tensors of one shape, stacked along a new axis.

    Parameters
    ----------
    tensors : sequence of Expr
        At least one.
    axis : int
        The place of the new axis in the result.

    Raises
    ------
    ArgumentError
        If there is no tensor.
    ShapeError
        If their shapes differ, or there is no such position.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> x, y = td.TensorSymbol("x", 3), td.TensorSymbol("y", 3)
    >>> td.stack((x, y)).shape, td.stack((x, y), axis=-1).shape
    ((2, 3), (3, 2))
    """
    parts = _operands_in(tensors, "stack")
    rank = len(shape_of(parts[0])) + 1
    number = as_int(axis, "stack: an axis")
    if not -rank <= number < rank:
        raise ShapeError(f"stack: the result has rank {rank}, so it has no axis {axis}")
    place = number % rank

    def with_axis(part: Any) -> Any:
        """Return the operand ``part`` with a new axis of extent 1, at the axis number ``place`` that the enclosing
        function has.
        """
        shape = shape_of(part)
        return tabulate(
            (*shape[:place], 1, *shape[place:]),
            (part,),
            lambda *at: inline_entry(part, (*at[:place], *at[place + 1 :])),
        )

    return concatenate([with_axis(part) for part in parts], place)


@explained
def concatenate(tensors: Sequence[Expression], axis: int = 0) -> Any:
    """Return the tensor of several tensors joined along an existing axis; the other axes have equal extents.

    Parameters
    ----------
    tensors : sequence of Expr
        At least one.
    axis : int

    Raises
    ------
    ArgumentError
        If there is no tensor.
    ShapeError
        If the other extents differ, or there is no such axis.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> n, m = td.indices("n m")
    >>> td.concatenate((td.TensorSymbol("x", n), td.TensorSymbol("y", m))).shape
    (m + n,)
    """
    parts = _operands_in(tensors, "concatenate")
    along = checked_axis(axis, parts[0], "concatenate")
    shape = list(shape_of(parts[0]))
    for part in parts[1:]:
        others = shape_of(part)
        pairs = enumerate(zip(shape, others, strict=False))
        if len(others) != len(shape) or not all(n == along or same_extent(*pair) for n, pair in pairs):
            raise ShapeError(
                f"concatenate: {parts[0]} has shape {shape_of(parts[0])}, but {part} has shape {others}; extents must "
                f"be equal along all axes but {along}"
            )
    ends = list(itertools.accumulate(shape_of(part)[along] for part in parts))
    shape[along] = ends[-1]

    def entry(*at: Expr) -> Any:
        """Return the entry of the concatenated tensor at the indices ``at``: a `Piecewise` that picks one of the
        operands ``parts`` by the index along the joined axis.
        """
        place = at[along]
        branches: list[Any] = []
        for part, start, end in zip(parts, [S.Zero, *ends], ends, strict=False):
            branches.append((inline_entry(part, (*at[:along], place - start, *at[along + 1 :])), place < end))
        return Piecewise(*branches[:-1], (branches[-1][0], True))

    return tabulate(shape, parts, entry)


def _operands_in(tensors: Any, owner: str) -> list[Any]:
    """Return the operands in the sequence ``tensors``. Raise `ArgumentError`, which names the function ``owner``, if it
    is empty or not a sequence.
    """
    parts = [operand(part, owner) for part in tensors] if isinstance(tensors, (tuple, list)) else []
    if not parts:
        raise ArgumentError(f"{owner}: give a list of at least one tensor, {owner}([A, B])")
    return parts


@explained
def kron(A: Expression, B: Expression) -> Any:
    """Return the Kronecker product: blocks of ``B``, each times an entry of ``A``.

    Parameters
    ----------
    A, B : Expr
        Tensors; the one of lower rank has axes of extent 1 in front.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> td.kron(td.TensorSymbol("A", (2, 3)), td.TensorSymbol("B", (4, 5))).shape
    (8, 15)
    """
    return kronecker((operand(A, "kron"), operand(B, "kron")))


def kronecker(tensors: Sequence[Any], read: Callable[..., Any] = inline_entry) -> Any:
    """Return the Kronecker product of ``tensors``; ``read(tensor, indices)`` returns an entry of an operand."""
    rank = max(len(shape_of(tensor)) for tensor in tensors)
    shapes = [(S.One,) * (rank - len(shape_of(tensor))) + shape_of(tensor) for tensor in tensors]
    extents = [*zip(*shapes, strict=True)]

    def entry(*indices: Expr) -> Any:
        """Return the entry of the Kronecker product at ``indices``: the product of one entry of each operand."""
        places = [*zip(*map(digits, indices, extents), strict=True)] or [()] * len(tensors)
        pairs = zip(tensors, places, strict=True)
        return Mul(*(read(tensor, place[rank - len(shape_of(tensor)) :]) for tensor, place in pairs))

    return tabulate([Mul(*axis) for axis in extents], tensors, entry)


@explained
def cross(x: Expression, y: Expression) -> Any:
    """Return the cross product of ``x`` and ``y``, vectors with three entries along the last axis.

    Parameters
    ----------
    x, y : Expr
        Of one shape, whose last extent is 3.

    Raises
    ------
    ShapeError
        If the shapes differ, or the last extent is not 3.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> x, y = td.TensorSymbol("x", 3), td.TensorSymbol("y", 3)
    >>> td.cross(x, y)[0].doit()
    x[1]*y[2] - x[2]*y[1]
    """
    x, y = operand(x, "cross"), operand(y, "cross")
    shape = shape_of(x)
    if shape != shape_of(y) or shape[-1:] != (3,):
        raise ShapeError(f"cross: the shapes must be equal and end in 3, not {shape} and {shape_of(y)}")

    def entry(*at: Expr) -> Any:
        """Return the entry of the cross product at the indices ``at``."""
        one, two = ((*at[:-1], Mod(at[-1] + step, 3)) for step in (1, 2))
        return inline_entry(x, one) * inline_entry(y, two) - inline_entry(x, two) * inline_entry(y, one)

    return tabulate(shape, (x, y), entry)
