"""Scatters that add at the same places, as one scatter of the sum of their values.

An array library takes many times as long to add at index arrays as to add values. (Loops of compiled backends are fused
in any case.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from sympy_tensordiff.codegen.ir.dataflow import uses
from sympy_tensordiff.codegen.ir.loops import Set, is_scatter
from sympy_tensordiff.codegen.ir.programs import Program, Scatter, Step
from sympy_tensordiff.codegen.ir.rename import renamed
from sympy_tensordiff.codegen.ir.scalars import Operation
from sympy_tensordiff.codegen.ir.walk import all_names, filled_arrays, statements


def with_joined_scatters(program: Program) -> Program:
    """Return the program with scatters to equal entries of an array, such as ``y[p[k]] += a[k]`` and ``y[p[k]] +=
    b[k]``, joined into one. Steps between them that do not use the array, such as one that fills ``b``, are moved in
    front of it.
    """
    taken = all_names(program)
    steps: list[Step] = []
    waiting: dict[str, list[Scatter]] = {}
    """The scatters to each array that are not yet in ``steps``."""

    def finish(arrays: Iterable[str]) -> None:
        """Append to ``steps`` the joined scatters to ``arrays`` that are waiting."""
        for array in arrays:
            steps.extend(_join_scatters(waiting.pop(array), taken))

    for step in program.kernels:
        own = step.array if isinstance(step, Scatter) else ""
        used, filled = set(uses(step).arrays), set(filled_arrays(step))
        finish(
            [
                array
                for array, scatters in waiting.items()
                if (array != own and array in used | filled)
                or any(not filled.isdisjoint(uses(one).arrays) for one in scatters if one.array not in filled)
            ]
        )
        if isinstance(step, Scatter):
            waiting.setdefault(own, []).append(step)
        else:
            steps.append(step)
    finish(list(waiting))
    return program if len(steps) == len(program.kernels) else replace(program, kernels=tuple(steps))


def _join_scatters(scatters: Iterable[Scatter], taken: set[str]) -> Iterator[Scatter]:
    """Yield ``scatters``, which all add to one array, but with scatters that add to the same entries joined into one.
    ``taken`` are the names in use.
    """
    found: list[Scatter] = []
    for scatter in scatters:
        for place, other in enumerate(found):
            if len(other.axes) == len(scatter.axes) and (both := _join(other, scatter, taken)) is not None:
                found[place] = both
                break
        else:
            found.append(scatter)
    yield from found


def _join(one: Scatter, other: Scatter, taken: set[str]) -> Scatter | None:
    """Return one scatter that adds the sum of the values of ``one`` and ``other``; None unless each adds one value and
    both add to the same entries. New names are added to ``taken``.
    """
    if one.extents != other.extents or one.exclusive != other.exclusive:
        return None
    last = one.body[-1]
    if not all(is_scatter(part.body[-1]) and _count(part) == 1 for part in (one, other)):
        return None
    moved = renamed(other, dict(zip(other.axes, one.axes, strict=True)), names := set(taken))
    added = moved.body[-1]
    assert isinstance(last, Set) and isinstance(added, Set)
    if last.target != added.target:
        return None
    taken |= names
    whole = replace(last, value=Operation("add", (last.value, added.value)))
    return replace(one, body=(*one.body[:-1], *moved.body[:-1], whole))


def _count(scatter: Scatter) -> int:
    """Return the number of statements that add to the array of a scatter."""
    return sum(is_scatter(statement) for statement in statements(scatter.body))
