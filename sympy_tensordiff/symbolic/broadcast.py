"""Operands of element-wise operations, repeated to one shape by NumPy's rule.

Shapes meet from the last axis on; an axis that is missing, or whose extent is the number 1, is repeated. A repeated
operand is its einsum product with ones, so that nothing else knows of broadcasts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any

from sympy_tensordiff.errors import ShapeError
from sympy_tensordiff.symbolic.einsum import EinsumProduct, FilledTensor
from sympy_tensordiff.symbolic.operations import Shape, operand, shape_of
from sympy_tensordiff.symbolic.subscripts import axis_labels, unused_labels
from sympy_tensordiff.symbolic.tabulate import namesakes, same_extent


def aligned(values: Iterable[Any], owner: str) -> tuple[Any, ...]:
    """The operands, those of rank > 0 repeated to the shape of all."""
    operands = tuple(operand(value, owner) for value in values)
    shape = broadcast_shape(operands, owner)
    return tuple(repeated(expr, shape) if shape_of(expr) else expr for expr in operands)


def broadcast_shape(operands: Sequence[Any], owner: str) -> Shape:
    """The shape of an element-wise operation; scalars fit every shape."""
    shapes = [shape_of(expr) for expr in operands]
    shape: list[Any] = []
    for back in range(max(map(len, shapes), default=0), 0, -1):
        first: Any = None
        for position, own in enumerate(shapes):
            if len(own) < back or (first is not None and own[-back] == 1):
                continue
            if first is None or shapes[first][-back] == 1:
                first = position
            elif not same_extent(own[-back], shapes[first][-back]):
                raise ShapeError(f"{owner}: {_differ(operands, first, position, back)}")
        shape.append(shapes[first][-back])
    return tuple(shape)


def repeated(tensor: Any, shape: Sequence[Any]) -> Any:
    """A tensor of rank > 0, repeated along its axes of extent 1 and those that it lacks in front."""
    own = shape_of(tensor)
    missing = len(shape) - len(own)
    ones = [axis for axis, extent in enumerate(shape) if axis < missing or (own[axis - missing] == 1 != extent)]
    if not ones:
        return tensor
    output = axis_labels(shape)
    spare = iter(unused_labels(output))
    labels = "".join(next(spare) if axis in ones else output[axis] for axis in range(missing, len(shape)))
    subscripts = f"{labels},{''.join(output[axis] for axis in ones)}->{output}"
    return EinsumProduct(subscripts, tensor, FilledTensor(1, [shape[axis] for axis in ones]))


def _differ(operands: Sequence[Any], first: int, second: int, back: int) -> str:
    """What the message says of two operands of which an axis, counted from the last, has two extents."""
    one, other = operands[first], operands[second]
    here, there = shape_of(one), shape_of(other)
    left, right = here[-back], there[-back]
    axis = "that" if len(here) == len(there) else f"axis {len(there) - back}"
    axes = (
        f"axis {len(here) - back} of {named(first, one)} has extent {left}, "
        f"{axis} of {named(second, other)} has extent {right} (shapes {here} and {there})"
    )
    if len(here) == len(there):
        return f"{axes}; the extents must be equal, or one of them 1{namesakes(left, right)}"
    hint = _product_with_ones(*sorted((one, other), key=lambda expr: len(shape_of(expr))))
    return f"{axes}; axes meet from the last one on, as in NumPy: for others write the broadcast, {hint}"


def _product_with_ones(small: Any, large: Any) -> str:
    """The call that repeats a tensor along the axes that it lacks, where it fits."""
    own, shape = shape_of(small), shape_of(large)
    labels = "ijklmnopqrstuvwxyz"[: len(shape)]
    shown = str(small) if len(str(small)) <= 40 else "x"
    for places in reversed([*combinations(range(len(shape)), len(own))]):
        if all(same_extent(shape[place], extent) for place, extent in zip(places, own, strict=True)):
            missing = [place for place in range(len(shape)) if place not in places]
            ones = ", ".join(str(shape[place]) for place in missing)
            spec = f"{''.join(labels[p] for p in places)},{''.join(labels[p] for p in missing)}->{labels}"
            return f'td.einsum("{spec}", {shown}, td.ones({f"({ones})" if len(missing) > 1 else ones}))'
    return 'e.g. td.einsum("i,j->ij", x, td.ones(m))'


def named(position: int, expr: Any) -> str:
    """An operand in a message: where it stands, and what it is if that is short."""
    text = str(expr)
    return f"operand {position} ({text})" if len(text) <= 40 else f"operand {position}"
