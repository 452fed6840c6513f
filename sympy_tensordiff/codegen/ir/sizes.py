"""The sizes of a program and the axes of arguments that determine them.

A size is a name in the shapes of the arguments. It is an integer argument, or solved from an axis whose form has no
other unknown. The order is that of the arguments, so that messages and generated text are stable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from sympy_tensordiff.codegen.ir.dataflow import uses
from sympy_tensordiff.codegen.ir.programs import Argument, Program
from sympy_tensordiff.codegen.ir.walk import array_shapes
from sympy_tensordiff.errors import ArgumentError
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.products import quotients_in, slope


@dataclass(frozen=True, slots=True)
class Solved:
    """A size that an argument determines: ``name`` is solved for in the equation between one axis of ``argument`` and
    its length, as n in ``2*n + 1 == x.shape[0]``.
    """

    name: str
    argument: Argument
    axis: int

    @property
    def form(self) -> Affine:
        """The extent of the axis as a form of the sizes."""
        return self.argument.shape[self.axis]

    @property
    def parts(self) -> tuple[Affine, Affine]:
        """The pair of forms ``(c, rest)`` such that the extent of the axis is ``c*name + rest``, where ``name`` is the
        size.
        """
        found = slope(self.form, self.name)
        assert found is not None
        return found


def solve_sizes(arguments: tuple[Argument, ...]) -> tuple[Solved, ...]:
    """Return the sizes that follow from the shapes of the arguments, in an order in which they can be computed."""
    known = {a.name for a in arguments if a.kind == "integer"}
    axes = [(a, axis) for a in arguments if a.kind == "array" for axis in range(len(a.shape))]
    result: list[Solved] = []
    while True:
        for argument, axis in axes:
            form = argument.shape[axis]
            unknown = sorted(form.atoms() - known)
            if len(unknown) == 1 and _is_linear(form, unknown[0]):
                result.append(Solved(unknown[0], argument, axis))
                known.add(unknown[0])
                break
        else:
            return tuple(result)


def _is_linear(form: Affine, name: str) -> bool:
    """Return whether ``form`` is linear in the size ``name``, so that the equation ``form == length`` can be solved for
    it.
    """
    found = slope(form, name)
    return found is not None and not quotients_in(form) and found[0] != Affine()


def check_determined(program: Program) -> None:
    """Raise ArgumentError if a program has a size that the shapes of its arguments do not determine."""
    known = {a.name for a in program.arguments if a.kind == "integer"}
    known |= {solved.name for solved in solve_sizes(program.arguments)} | {size.name for size in program.sizes}
    needed = {name for shape in array_shapes(program).values() for form in shape for name in form.atoms()}
    needed |= {name for argument in program.arguments for form in argument.shape for name in form.atoms()}
    needed |= {name for argument in program.arguments if argument.below for name in argument.below.atoms()}
    needed |= {name for size in program.sizes for form in size.lows + size.highs for name in form.atoms()}
    needed |= {name for check in program.checks for row in check.violation for name in row.form.atoms()}
    needed |= {name for kernel in program.nests for name in uses(kernel).integers}
    for name in sorted(needed - known):
        raise ArgumentError(f"{name} is determined by no array's shape; add it to args")


# ---------------------------------------------------------------------------- axes without entries
# Calls in which an axis has no entries run a program of their own, in which the sizes in its extent are numbers.
#
# All other programs assume positive extents. Such a program is built once for each choice of these sizes.


MAX_EMPTY_AXIS_PROGRAMS = 16
"""The number of such programs that are cached per function."""

Sizes: TypeAlias = tuple[tuple[str, int], ...]
"""The names and values of sizes."""
Builder: TypeAlias = Callable[[Sizes], Program]
"""Builds the program for the values of some sizes."""


class EmptyAxes(Exception):
    """Raised within the package, not for the user, if an array argument has an axis of length 0. ``sizes`` are pairs
    (name, value) of the sizes from which this length follows.
    """

    def __init__(self, forms: Sequence[Affine], values: Mapping[str, int]) -> None:
        super().__init__("an axis has no entries")
        self.values = values
        self.sizes = tuple([(name, values[name]) for name in sorted({name for form in forms for name in form.atoms()})])


def refuse_empty_axes(arguments: Sequence[Argument], given: Mapping[str, Any]) -> None:
    """Raise ArgumentError if an array in ``given`` (the arguments by name) has an axis of length 0, unless the extent
    of this axis is declared as 0.
    """
    for argument in arguments:
        shape = given[argument.name].shape if argument.shape else ()
        for axis, (form, length) in enumerate(zip(argument.shape, shape, strict=True)):
            if length == 0 and form != Affine():
                raise ArgumentError(
                    f"argument {argument.label} has length 0 on axis {axis} (shape {tuple(shape)}), "
                    f"where the extent {form} is positive; only functions for 'numpy' and 'numba' take such arrays"
                )
