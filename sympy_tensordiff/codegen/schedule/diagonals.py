"""Sums on diagonals, computed before they are added: ``out[p, 0] += Sum_i exp(a[i, p])`` as ``v[p] = Sum_i exp(a[i,
p])`` and ``out[p, 0] += v[p]``.

A kernel that fills an array entry by entry runs together with others, in loops that compute equal functions once. One
that adds to a diagonal does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sympy_tensordiff.codegen.ir.dataflow import uses
from sympy_tensordiff.codegen.ir.facts import is_vectorised
from sympy_tensordiff.codegen.ir.loops import Loop, Set
from sympy_tensordiff.codegen.ir.programs import Array, Kernel, Program, Scatter, Step, entrywise
from sympy_tensordiff.codegen.ir.rename import reserve_name
from sympy_tensordiff.codegen.ir.scalars import Load
from sympy_tensordiff.codegen.ir.walk import all_names, own_names, scalars, statements


def with_stored_sums(program: Program) -> Program:
    """Return `program` with each scatter to a diagonal split in two if its terms call vectorisable functions: a kernel
    that stores the values in an array, and a scatter that adds them to the diagonal.

    The scatter is moved behind all steps that do not read the result.
    """
    taken = all_names(program)
    steps: list[Step] = []
    arrays: list[Array] = []
    for step in program.kernels:
        is_costly = isinstance(step, Scatter) and any(map(is_vectorised, scalars(step.body)))
        found = values_of(step, taken) if isinstance(step, Scatter) and is_costly else None
        if found is None:
            steps.append(step)
        else:
            steps += found
            arrays.append(Array(found[0].array, step.extents))  # type: ignore[union-attr]
    return program.with_steps(_additions_last(steps), new=arrays) if arrays else program


def values_of(scatter: Scatter, taken: set[str]) -> tuple[Kernel, Scatter] | None:
    """Return ``(kernel, scatter)`` for a scatter that adds a separate sum to each of its entries, such as those of a
    diagonal: the kernel stores the sums in a new array, and the scatter adds them. None for other scatters.

    ``taken`` are names in use.
    """
    *before, last = scatter.body
    is_plain = scatter.exclusive and isinstance(last, Set) and isinstance(last.target, Load)
    if not is_plain or not any(isinstance(s, Loop) for s in statements(before)):
        return None
    assert isinstance(last, Set) and isinstance(last.target, Load)
    inner = {*own_names(scatter)} - {*scatter.axes}
    if any(inner & {*map(str, form.atoms())} for form in last.target.index):
        return None
    kernel = entrywise(reserve_name(f"{scatter.array}_values", taken), scatter.axes, before, last.value)
    return kernel, replace(scatter, body=(replace(last, value=kernel.entry),))


def _additions_last(steps: Sequence[Step]) -> list[Step]:
    """Move each step that only adds stored sums to an array (a `Scatter`) behind the following steps that do not use
    this array. Return the steps in the new order.
    """
    found: list[Step] = []
    waiting: list[Scatter] = []
    for step in steps:
        is_plain = isinstance(step, Scatter) and step.exclusive and len(step.body) == 1
        touched = {*uses(step).arrays} - {step.array} if is_plain else {step.array, *uses(step).arrays}
        found += [one for one in waiting if one.array in touched]
        waiting = [one for one in waiting if one.array not in touched]
        if is_plain:
            assert isinstance(step, Scatter)
            waiting.append(step)
        else:
            found.append(step)
    return [*found, *waiting]
