"""The error for data that make a read out of bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sympy_tensordiff.codegen.ir.programs import DataCheck, Program
from sympy_tensordiff.codegen.run.arguments import entry_text, out_of_range_error
from sympy_tensordiff.errors import DataIndexError
from sympy_tensordiff.lazy import numpy as np


def data_error(
    program: Program, check: DataCheck, place: int, args: Sequence[Any], sizes: Mapping[str, int]
) -> DataIndexError:
    """Return the error for a call of `program` with the arguments ``args`` and ``sizes`` in which an integer array has
    an entry that leads out of bounds. ``place`` is the entry's position, in row-major order; ``check`` is the check
    that it fails.
    """
    labels = {a.name: a.label for a in program.arguments}
    array = labels.get(check.load.array) or f"{check.load.array}, which holds computed values,"
    cause = "no condition on data rules out a read outside"
    if check.data:
        data = np.asarray(args[list(labels).index(check.data)])
        cause = entry_text(labels[check.data], data, tuple(map(int, np.unravel_index(place, data.shape))))
    selects = f"the index {check.load.index[check.axis]} of axis {check.axis} of {array}"
    return out_of_range_error(cause, selects, check.extent.evaluate(sizes))
