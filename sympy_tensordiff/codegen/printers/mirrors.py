"""Loops that copy the entries of mirrored kernels to the other side of the diagonal."""

from __future__ import annotations

from collections.abc import Sequence

from sympy_tensordiff.codegen.loops import Kernel
from sympy_tensordiff.codegen.printers.blocks import INDENT
from sympy_tensordiff.codegen.printers.forms import Names

TILE = 32
"""Rows and columns that are copied together: what is read down a column stays in the nearest cache."""


def mirror_lines(kernel: Kernel, names: Names, block: Sequence[str] = ()) -> list[str]:
    """The loops, at the depth of a function's body; none for a kernel of which all entries are computed.

    A ``block``, the first entry of the first axis and the one past the last, copies what it has computed.
    """
    if not kernel.mirrored:
        return []
    array, local = names(kernel.array), names.copy()
    first, second = kernel.mirrored[0]
    places = {axis: local.fresh(f"{names(axis)}_to") for axis in kernel.axes}
    ends = {axis: ("0", f"{array}.shape[{number}]") for number, axis in enumerate(kernel.axes)}
    if block:
        ends[kernel.axes[0]] = (block[0], block[1])
    (start, stop), (i, j) = ends[first], (places[first], places[second])
    row, column = local.fresh("row"), local.fresh("column")
    heads = [
        f"for {row} in range({start}, {stop}, {TILE}):",
        f"for {column} in range(0, min({row} + {TILE}, {stop}), {TILE}):",
        f"for {j} in range({column}, min({column} + {TILE}, {stop})):",
        f"for {i} in range(max({row}, {j} + 1), min({row} + {TILE}, {stop})):",
    ]
    heads += [
        f"for {places[axis]} in range({', '.join(ends[axis]).removeprefix('0, ')}):"
        for axis in kernel.axes
        if axis not in (first, second)
    ]
    exchanged = dict(kernel.mirrored) | {b: a for a, b in kernel.mirrored}
    there, here = (
        ", ".join(f"at({places[axis]})" for axis in order)
        for order in ([exchanged.get(axis, axis) for axis in kernel.axes], kernel.axes)
    )
    lines = [INDENT * depth + head for depth, head in enumerate(heads, 1)]
    return [*lines, f"{INDENT * (len(heads) + 1)}{array}[{there}] = {array}[{here}]"]
