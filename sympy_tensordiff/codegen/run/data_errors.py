"""The error for an entry of data that leads a read out of its array."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sympy_tensordiff.codegen.ir.programs import DataCheck, Program
from sympy_tensordiff.codegen.run.arguments import outside_range, said_of
from sympy_tensordiff.errors import DataIndexError


def data_error(
    program: Program, check: DataCheck, place: int, args: Sequence[Any], sizes: Mapping[str, int]
) -> DataIndexError:
    """Return the error for the entry of data at a place, in reading order, in a call with ``args``."""
    labels = {a.name: a.label for a in program.arguments}
    array = labels.get(check.load.array) or f"{check.load.array}, which holds computed values,"
    cause = "no condition on data rules out a read outside"
    if check.data:
        data = np.asarray(args[list(labels).index(check.data)])
        cause = said_of(labels[check.data], data, tuple(map(int, np.unravel_index(place, data.shape))))
    selects = f"the index {check.load.index[check.axis]} of axis {check.axis} of {array}"
    return outside_range(cause, selects, check.extent.evaluate(sizes))
