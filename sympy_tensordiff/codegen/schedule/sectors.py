"""Estimates of how many sectors of memory the reads of a warp take, by the variable that its threads differ in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sympy_tensordiff.codegen.ir.scalars import Load, Scalar
from sympy_tensordiff.codegen.ir.walk import (
    subexpressions,
)
from sympy_tensordiff.codegen.schedule.blocks import WARP
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.products import times


def neighbours(box: Mapping[str, Affine], first: str) -> dict[str, int]:
    """Return a dictionary from the axes of an array with the extents ``box`` to the number of different indices along
    them among the 32 entries that a warp of threads computes. These entries are neighbours along the axis ``first``,
    then along the other axes from last to first.
    """
    found: dict[str, int] = {}
    lanes = WARP
    for axis, extent in sorted([*box.items()][::-1], key=lambda pair: pair[0] != first):
        found[axis] = min(lanes, extent.constant) if extent.is_constant else lanes
        lanes //= max(1, found[axis])
        if lanes < 2:
            break
    return found


def width_of(box: Mapping[str, Affine]) -> int:
    """Return the number of entries that a warp of threads computes in an array with the extents ``box``: 32, or all of
    them if there are fewer.
    """
    count = times(*box.values()) if box else Affine.of(1)
    return min(WARP, count.constant) if count.is_constant else WARP


def sectors(values: Sequence[Scalar], lanes: Mapping[str, int]) -> float:
    """Return an estimate of the number of memory sectors that a warp reads to compute ``values``. `lanes` maps
    variables to how many values each takes in the warp. Contiguous reads need a quarter of a sector for each entry,
    strided ones up to one.
    """
    loads = dict.fromkeys(node for value in values for node in subexpressions(value) if isinstance(node, Load))
    total = 0.0
    for load in loads:
        sectors = 1.0
        for variable, count in lanes.items():
            *outer, last = [variable in form.atoms() for form in load.index] or [False]
            stride = abs(load.index[-1].coefficient(variable)) if last else 0
            if any(outer) or (last and not stride):
                sectors *= count
            elif last:
                sectors *= min(count, max(1, count * stride / 4))
        total += sectors
    return total
