"""Parts of tensors, ``A[0]``, ``A[1:-1]``, ``A[:, ::2]``: comprehensions of entries at other places."""

from __future__ import annotations

from operator import index as as_int
from typing import Any

from sympy import Expr, Integer, S, floor

from sympy_tensordiff.errors import IndexExpressionError, ShapeError
from sympy_tensordiff.symbolic.entries import TensorEntry
from sympy_tensordiff.symbolic.indices import as_expr
from sympy_tensordiff.symbolic.printing import short
from sympy_tensordiff.symbolic.tabulate import read, tabulate


def part(tensor: Any, indices: tuple[Any, ...]) -> Any:
    """What NumPy's basic indexing selects: an index takes an axis away, None makes one of extent 1.

    Parameters
    ----------
    tensor : Expr
    indices : tuple of Expr, int, slice, None or Ellipsis
        Axes that have none are taken whole.

    Raises
    ------
    ShapeError
        If there are more indices than axes, or a part has no entries.
    IndexExpressionError
        If there are two ellipses, or a step is 0.
    OutOfShapeError
        If an index lies outside of the shape.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> n, m = td.indices("n m")
    >>> A = td.TensorSymbol("A", (n, m))
    >>> A[0], A[1:-1, 2].shape, A[..., ::-1]
    (TensorComprehension(A[0, i], (i, m)), (n - 2,), TensorComprehension(A[i, m - j - 1], (i, n), (j, m)))
    """
    shape: list[Any] = []
    places: list[Any] = []  # an index, or the start and the step of an axis of the result
    extents = iter(tensor.shape)
    for index in _for_all_axes(tensor, indices):
        if index is None:
            shape.append(S.One)
        elif isinstance(index, slice):
            start, step, length = _range(index, next(extents), tensor)
            places.append((start, step, len(shape)))
            shape.append(length)
        else:
            next(extents)
            places.append(as_expr(index, "an index"))

    def entry(*at: Expr) -> Any:
        full = [place[0] + place[1] * at[place[2]] if isinstance(place, tuple) else place for place in places]
        return read(tensor, TensorEntry(tensor, *full).indices)

    names = [place for place in places if not isinstance(place, tuple)]
    return tabulate(shape, (tensor, *names), entry)


def _for_all_axes(tensor: Any, indices: tuple[Any, ...]) -> list[Any]:
    """The indices with one for each axis: whole axes in place of an ellipsis, and at the end."""
    given = sum(index is not None and index is not Ellipsis for index in indices)
    dots = [place for place, index in enumerate(indices) if index is Ellipsis]
    if given > tensor.rank or len(dots) > 1:
        problem = (
            "two ellipses leave open which axes they mean" if len(dots) > 1 else "there are more indices than axes"
        )
        error: type[Exception] = IndexExpressionError if len(dots) > 1 else ShapeError
        raise error(f"{short(tensor)} has rank {tensor.rank} (shape {tensor.shape}): {problem}")
    place = dots[0] if dots else len(indices)
    return [*indices[:place], *[slice(None)] * (tensor.rank - given), *indices[place + 1 :]]


def _range(index: slice, extent: Any, tensor: Any) -> tuple[Any, int, Any]:
    """The start, the step and the length of a slice; negative numbers count from the end of the axis."""
    step = 1 if index.step is None else as_int(index.step)
    bounds = [None if bound is None else as_expr(bound, "a bound of a slice") for bound in (index.start, index.stop)]
    if step == 0:
        raise IndexExpressionError(f"{short(tensor)}: the step of a slice is 0; it must be another integer")
    if isinstance(extent, Integer) and all(bound is None or isinstance(bound, Integer) for bound in bounds):
        numbers = range(int(extent))[index]
        length: Any = Integer(len(numbers))
        start: Any = Integer(numbers.start)
    else:
        first, last = (S.Zero, extent) if step > 0 else (extent - 1, S.NegativeOne)
        start, stop = (
            default if bound is None else extent + bound if isinstance(bound, Integer) and bound < 0 else bound
            for bound, default in zip(bounds, (first, last), strict=True)
        )
        distance = stop - start if step > 0 else start - stop
        length = distance if abs(step) == 1 else floor((distance + abs(step) - 1) / Integer(abs(step)))
    if length.is_nonpositive:
        raise ShapeError(f"{short(tensor)}: the slice {index.start}:{index.stop} has no entries; no axis is empty")
    return start, step, length
