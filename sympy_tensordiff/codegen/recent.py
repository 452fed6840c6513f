"""Calls like the last one: their arguments need no checks, no conversions and no new sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sympy_tensordiff.codegen.arguments import Prepared
from sympy_tensordiff.codegen.loops import Argument


@dataclass(frozen=True, slots=True)
class Recent:
    """What a call was like that needed no conversions: all checks would come out the same for another one like it."""

    expected: tuple[tuple[Any, Any, Any], ...]
    """Of each argument the type; then dtype and shape of an array, or None and the number."""
    has_numbers: bool
    shapes: tuple[tuple[int, ...], ...]
    dtype: np.dtype[Any]
    run: Callable[..., None]

    def prepare(self, values: Sequence[Any]) -> Sequence[Any] | None:
        """What the driver takes; None where the checks have to tell."""
        if len(values) != len(self.expected):
            return None
        for value, (kind, dtype, shape) in zip(values, self.expected, strict=True):
            if type(value) is not kind:
                return None
            if dtype is not None:
                # Behaved: aligned, can be written, and in C order.
                if value.dtype is not dtype or value.shape != shape or not value.flags.carray:
                    return None
            elif kind is int and value != shape:
                return None
        if not self.has_numbers:
            return values
        return [self.dtype.type(value) if type(value) is float else value for value in values]


def remember(
    arguments: Sequence[Argument], values: Sequence[Any], prepared: Prepared, run: Callable[..., None]
) -> Recent | None:
    """What to know of a call to answer the next one sooner; None where that has to be checked, too."""
    expected: list[tuple[Any, Any, Any]] = []
    for argument, value, converted in zip(arguments, values, prepared.values, strict=True):
        kind = type(value)
        if argument.dtype == "integer":  # the entries have to be looked at
            return None
        if kind is np.ndarray and converted is value:
            expected.append((kind, value.dtype, value.shape))
        elif kind is (int if argument.kind == "integer" else float):
            expected.append((kind, None, value))
        else:
            return None
    has_numbers = any(kind is float for kind, _, _ in expected)
    return Recent(tuple(expected), has_numbers, prepared.shapes, prepared.dtype, run)
