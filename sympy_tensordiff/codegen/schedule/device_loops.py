"""Recurrences on a device: the host runs the loop over time and launches the kernels of each step.

The host does not read the device's memory, so that the numbers of a step are arrays of one entry for its kernels.
"""

from __future__ import annotations

from dataclasses import replace

from sympy_tensordiff.codegen.ir.programs import Argument, Kernel, Recurrence
from sympy_tensordiff.codegen.ir.scalars import Load, Name, Scalar
from sympy_tensordiff.codegen.ir.walk import with_values
from sympy_tensordiff.integer.affine import Affine


def with_numbers_in_memory(step: Recurrence) -> Recurrence:
    """Return a recurrence whose body has arrays of one entry in place of the real numbers among its arguments."""
    numbers = {a.name for a in step.body.arguments if _is_number(a)}

    def read(value: Scalar) -> Scalar:
        """Return the entry of an array in place of a number; other nodes unchanged."""
        name = value.name if isinstance(value, Name) else value.array if isinstance(value, Load) else ""
        return Load(name, (Affine(),)) if name in numbers else value

    body = step.body
    kernels = [replace(k, body=with_values(k.body, read)) if isinstance(k, Kernel) else k for k in body.kernels]
    arguments = [replace(a, kind="array", shape=(Affine.of(1),)) if a.name in numbers else a for a in body.arguments]
    return replace(step, body=replace(body, kernels=tuple(kernels), arguments=tuple(arguments)))


def _is_number(argument: Argument) -> bool:
    """Return whether an argument is a real number."""
    return argument.kind != "integer" and not argument.shape and argument.dtype == "real"
