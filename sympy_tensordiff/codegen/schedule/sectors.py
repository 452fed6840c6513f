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
    """Return the number of values that each axis takes among the 32 consecutive entries of a warp. Entries are counted
    along the axis ``first``, then along the other axes, the last one first.
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
    """Return about how many memory sectors a warp reads for ``values``; `lanes` gives the number of values of each
    variable in the warp. A contiguous read costs a quarter per thread, a strided one up to 1.
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
