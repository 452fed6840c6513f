"""Rearrangements of entries as in NumPy (`reshape`, `flip`, `roll`, `pad`, …), each a comprehension over an
index map.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from sympy import And, Expr, Mod, Mul, Piecewise, S

from sympy_tensordiff.errors import ArgumentError, ShapeError
from sympy_tensordiff.symbolic.expressions.arguments import as_expr, as_int
from sympy_tensordiff.symbolic.expressions.call_errors import explained
from sympy_tensordiff.symbolic.index_notation.signatures import Expression, documented
from sympy_tensordiff.symbolic.index_notation.tabulate import digits, inline_entry, same_extent, tabulate
from sympy_tensordiff.symbolic.whole_tensors.functions import transpose
from sympy_tensordiff.symbolic.whole_tensors.matrix_functions import checked_axes
from sympy_tensordiff.symbolic.whole_tensors.operations import operand, shape_of, shape_tuple

_TRIANGLE = """
Parameters
----------
A : Expr
    Of rank 2 or more; the last two axes are those of matrices.
k : int
    The diagonal, counted from the main one to the right.

Returns
-------
Expr
    A tensor expression of the shape of ``A``.

Raises
------
ShapeError
    If the rank is less than 2.
"""


@explained
def reshape(A: Expression, shape: Any) -> Any:
    """Return a tensor of another shape with the same entries in row-major order.

    Parameters
    ----------
    A : Expr
        A tensor expression.
    shape : int, Expr, or sequence of them
        One extent may be -1: it is the remaining length.

    Raises
    ------
    ShapeError
        If the numbers of entries differ.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> n, m = td.indices("n m")
    >>> A = td.TensorSymbol("A", (n, m))
    >>> td.reshape(A, n * m), td.reshape(A, (m, -1)).shape
    (TensorComprehension(A[floor(i/m), Mod(i, m)], (i, m*n)), (m, n))
    """
    A = operand(A, "reshape")
    extents = list(shape) if isinstance(shape, (tuple, list)) else [shape]
    if -1 in extents:
        known = Mul(*(extent for extent in extents if extent != -1))
        extents[extents.index(-1)] = Mul(*shape_of(A)) / known
    new = tuple(shape_tuple(extents, "reshape").args)
    reshaped = in_shape(A, new)
    if reshaped is None:
        raise ShapeError(f"reshape: {shape_of(A)} and {new} have different numbers of entries; make them equal")
    return reshaped


@explained
def ravel(A: Expression) -> Any:
    """Return all entries as a vector, in row-major order.

    Parameters
    ----------
    A : Expr
        A tensor expression, or a scalar.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> td.ravel(td.TensorSymbol("A", (3, 4))).shape
    (12,)
    """
    return reshape(A, -1)


def in_shape(tensor: Any, new: Sequence[Expr]) -> Any | None:
    """Return ``tensor`` reshaped to ``new``, in row-major order; None if the numbers of entries differ."""
    old = shape_of(tensor)
    if not old:
        return tabulate(new, (tensor,), lambda *indices: tensor) if Mul(*new) == 1 else None
    groups = _groups(old, new)
    if groups is None:
        return None

    def entry(*indices: Expr) -> Expr:
        """Return the entry of the reshaped tensor at ``indices``, as an entry of the original ``tensor``."""
        place: list[Expr] = [S.Zero] * len(old)
        for inner, outer in groups:
            flat: Expr = S.Zero
            for axis in outer:
                flat = flat * new[axis] + indices[axis]
            for axis, digit in zip(inner, digits(flat, [old[axis] for axis in inner]), strict=True):
                place[axis] = digit
        result: Expr = inline_entry(tensor, place)
        return result

    return tabulate(new, (tensor,), entry)


def _groups(old: Sequence[Expr], new: Sequence[Expr]) -> list[tuple[list[int], list[int]]] | None:
    """Return pairs ``(axes of old, axes of new)`` of axes that a reshape merges or splits: ``([0], [0, 1])`` and
    ``([1], [2])`` for the shapes ``(6, n)`` and ``(2, 3, n)``. None if the axes do not correspond like this.
    """
    axes = [[axis for axis, extent in enumerate(shape) if extent != 1] for shape in (old, new)]
    groups: list[tuple[list[int], list[int]]] = []
    starts: tuple[int, ...] = (0, 0)
    for ends in itertools.product(*(range(1, len(side) + 1) for side in axes)):
        inner, outer = (side[start:end] for side, start, end in zip(axes, starts, ends, strict=True))
        if inner and outer and same_extent(Mul(*(old[n] for n in inner)), Mul(*(new[n] for n in outer))):
            groups.append((inner, outer))
            starts = ends
    return groups if starts == (len(axes[0]), len(axes[1])) else None


# ---------------------------------------------------------------------------- moves


@explained
def moveaxis(A: Expression, source: Any, destination: Any) -> Any:
    """Return the tensor ``A`` with the axes ``source`` moved to the positions ``destination``; the others keep their
    order.

    Parameters
    ----------
    A : Expr
        A tensor expression.
    source, destination : int or tuple of int
        The axes, and where each of them goes; negative ones count from the last.

    Raises
    ------
    ShapeError
        If there is no such axis, or one is named twice.
    ArgumentError
        If there are more sources than destinations, or fewer.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> td.moveaxis(td.TensorSymbol("T", (2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    A = operand(A, "moveaxis")
    sources, places = checked_axes(source, A, "moveaxis"), checked_axes(destination, A, "moveaxis")
    if len(sources) != len(places):
        raise ArgumentError(f"moveaxis: {len(sources)} axes cannot go to {len(places)} places; name one for each")
    order = [axis for axis in range(len(shape_of(A))) if axis not in sources]
    for place, axis in sorted(zip(places, sources, strict=True)):
        order.insert(place, axis)
    return transpose(A, tuple(order))


@explained
def flip(A: Expression, axis: Any = None) -> Any:
    """Return the tensor ``A`` with the entries in reverse order along all axes, or along those in ``axis``.

    Parameters
    ----------
    A : Expr
        A tensor expression.
    axis : int or tuple of int, optional
        By default all.

    Raises
    ------
    ShapeError
        If there is no such axis, or one is named twice.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> td.flip(td.TensorSymbol("x", 4))
    TensorComprehension(x[3 - i], (i, 4))
    """
    A = operand(A, "flip")
    turned, shape = checked_axes(axis, A, "flip"), shape_of(A)

    def entry(*indices: Expr) -> Any:
        """Return the entry of the flipped tensor at ``indices``: the entry of ``A`` with ``n - 1 - k`` in place of the
        index ``k`` on each flipped axis of length ``n``.
        """
        return inline_entry(A, [shape[n] - 1 - index if n in turned else index for n, index in enumerate(indices)])

    return tabulate(shape, (A,), entry)


@explained
def roll(A: Expression, shift: Any, axis: Any = None) -> Any:
    """Return the tensor ``A`` with its entries shifted cyclically by ``shift`` places along the axes in ``axis``.

    Parameters
    ----------
    A : Expr
        A tensor expression.
    shift : int or tuple of int
        By how many places, for each axis.
    axis : int or tuple of int, optional
        By default, all entries move in the order of `ravel`.

    Raises
    ------
    ArgumentError
        If there are not as many shifts as axes.
    ShapeError
        If there is no such axis, or one is named twice.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> td.roll(td.TensorSymbol("x", 4), 1)
    TensorComprehension(x[Mod(i + 3, 4)], (i, 4))
    """
    A = operand(A, "roll")
    shape = shape_of(A)
    if axis is None and len(shape) != 1:
        return reshape(roll(ravel(A), shift, 0), shape)
    axes = checked_axes(axis, A, "roll")
    shifts = shift if isinstance(shift, (tuple, list)) else [shift] * len(axes)
    if len(shifts) != len(axes):
        raise ArgumentError(f"roll: {len(shifts)} shifts are not for {len(axes)} axes; give one shift for each")
    by = {axis: as_int(by, "roll: a shift") for axis, by in zip(axes, shifts, strict=True)}

    def entry(*indices: Expr) -> Any:
        """Return the entry at ``indices`` of the rolled tensor: the entry of ``A`` whose indices are shifted back,
        modulo the extents, along the rolled axes.
        """
        return inline_entry(A, [Mod(at - by[n], shape[n]) if by.get(n) else at for n, at in enumerate(indices)])

    return tabulate(shape, (A,), entry)


@documented(_TRIANGLE)
def tril(A: Expression, k: int = 0) -> Any:
    """Return ``A`` with 0 above the diagonal number ``k``, in the last two axes. Number 0 is the main diagonal, 1 the
    one above it.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> td.tril(td.TensorSymbol("A", (3, 3)))
    TensorComprehension(Piecewise((A[i, j], i >= j), (0, True)), (i, 3), (j, 3))
    """
    return _triangle(A, "tril", lambda i, j: j <= i + as_int(k, "tril: k"))


@documented(_TRIANGLE)
def triu(A: Expression, k: int = 0) -> Any:
    """Return ``A`` with 0 below the diagonal number ``k``, in the last two axes. Number 0 is the main diagonal, 1 the
    one above it.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> td.triu(td.TensorSymbol("A", (3, 3)), 1).shape
    (3, 3)
    """
    return _triangle(A, "triu", lambda i, j: j >= i + as_int(k, "triu: k"))


def _triangle(A: Any, owner: str, condition: Any) -> Any:
    """Return ``A`` with 0 at all entries where ``condition(row, column)`` is false; raise `ShapeError`, with the
    function's name `owner`, if it has fewer than two axes.
    """
    A = operand(A, owner)
    if len(shape_of(A)) < 2:
        raise ShapeError(f"{owner} needs matrices along the last two axes, but {A} has rank {len(shape_of(A))}")
    return tabulate(
        shape_of(A), (A,), lambda *at: Piecewise((inline_entry(A, at), condition(*at[-2:])), (S.Zero, True))
    )


@explained
def pad(A: Expression, pad_width: Any, constant_values: Any = 0) -> Any:
    """Return the tensor ``A`` with entries equal to ``constant_values`` added before and after along its axes;
    ``pad_width`` says how many.

    Parameters
    ----------
    A : Expr
        A tensor expression.
    pad_width : int or Expr, pair of them, or sequence of pairs
        How many entries before and behind: for all axes, or for each.
    constant_values : Expr or number
        A scalar.

    Raises
    ------
    ArgumentError
        If there are not as many pairs as axes, or a width is negative.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> td.pad(td.TensorSymbol("A", (3, 4)), 1).shape, td.pad(td.TensorSymbol("A", (3, 4)), ((0, 1), (2, 0))).shape
    ((5, 6), (4, 6))
    """
    A = operand(A, "pad")
    shape = shape_of(A)
    pair = pad_width if isinstance(pad_width, (tuple, list)) and pad_width else (pad_width, pad_width)
    pairs = list(pair) if isinstance(pair[0], (tuple, list)) else [pair] * len(shape)
    if len(pairs) != len(shape) or any(not isinstance(both, (tuple, list)) or len(both) != 2 for both in pairs):
        raise ArgumentError(f"pad: {pad_width} has no pair of widths for each axis of {A}, whose shape is {shape}")
    pairs = [[as_expr(width, "pad: a width") for width in both] for both in pairs]
    if any(width.is_negative for both in pairs for width in both):
        raise ArgumentError(f"pad: {pad_width} has a negative width; a slice, A[1:-1], takes entries away")

    def entry(*at: Expr) -> Any:
        """Return the entry of the padded tensor at the indices ``at``: an entry of ``A``, or ``constant_values`` in the
        padding.

        ``pairs``, of the enclosing function, has the widths of the padding before and behind each axis.
        """
        places = [index - before for index, (before, _) in zip(at, pairs, strict=True)]
        bounds = [
            And(place >= 0 if before != 0 else S.true, place < extent if behind != 0 else S.true)
            for place, extent, (before, behind) in zip(places, shape, pairs, strict=True)
        ]
        return Piecewise((inline_entry(A, places), And(*bounds)), (constant_values, True))

    return tabulate(
        [before + extent + behind for extent, (before, behind) in zip(shape, pairs, strict=True)], (A,), entry
    )
