"""Calls in which an axis has no entries: they run a program of their own, in which the sizes in its extent are numbers.

All other programs take extents for positive. Such a program is built once for each choice of these sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from sympy_tensordiff.codegen.loops import Argument, Program
from sympy_tensordiff.errors import ArgumentError
from sympy_tensordiff.integer.affine import Affine

MOST = 16
"""So many programs of one function are kept."""

Sizes: TypeAlias = tuple[tuple[str, int], ...]
"""Names and values."""
Builder: TypeAlias = Callable[[Sizes], Program]
"""Builds the program for the values of some sizes."""


class EmptyAxes(Exception):
    """No error: what the checks of a call say where an axis has no entries, with the sizes in its extent."""

    def __init__(self, forms: Sequence[Affine], values: Mapping[str, int]) -> None:
        super().__init__("an axis has no entries")
        self.values = values
        self.sizes = tuple([(name, values[name]) for name in sorted({name for form in forms for name in form.atoms()})])


def refuse_empty(arguments: Sequence[Argument], given: Mapping[str, Any]) -> None:
    """Refuse an array without entries, but where the extent is the number 0."""
    for argument in arguments:
        shape = given[argument.name].shape if argument.shape else ()
        for axis, (form, length) in enumerate(zip(argument.shape, shape, strict=True)):
            if length == 0 and form != Affine():
                raise ArgumentError(
                    f"argument {argument.label} has length 0 on axis {axis} (shape {tuple(shape)}), "
                    f"where the extent {form} is positive; only functions for 'numpy' and 'numba' take such arrays"
                )
