"""Loops over a reduction and a function of its result, as two loops (loop distribution).

``Sum_j w[j]*exp(-Sum_k (x[k] - c[j, k])**2)`` has a loop over k in the loop over j, which is therefore no vector, and
each exponential takes as long as several of a vector. The inner sums of some hundred j are stored in a local array; a
second loop over them computes the functions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sympy_tensordiff.codegen.ir.facts import is_vectorised
from sympy_tensordiff.codegen.ir.loops import Alloc, Loop, Set, Statement, defines, is_addition
from sympy_tensordiff.codegen.ir.nests import exactly, with_scalars
from sympy_tensordiff.codegen.ir.scalars import Load, Name
from sympy_tensordiff.codegen.ir.walk import loads, loops, scalars, statements, used_names
from sympy_tensordiff.codegen.schedule.primitives import split
from sympy_tensordiff.codegen.schedule.rows import STRIP, has_few_steps, runs_less_often
from sympy_tensordiff.integer.affine import Affine

MAX_STORED = 4
"""The most scalars that are stored for the second loop: writing and reading more takes longer than is gained."""


def distributed(loop: Loop, like: str, fresh: Callable[[str], str]) -> tuple[list[Alloc], Loop] | None:
    """Return `loop` in strips of two loops, of its reductions and of the functions of their results, with the local
    arrays between them.

    ``like`` is an array of the dtype of the local ones. None if no vectorised function follows a reduction in the
    loop, if the loop is short, or if one part depends on what another iteration of the other computes.
    """
    inner = [number for number, statement in enumerate(loop.body) if isinstance(statement, Loop)]
    if not inner or loop.step != 1 or has_few_steps(loop) or runs_less_often(loop, STRIP // 8):
        return None
    reductions, functions = loop.body[: inner[-1] + 1], loop.body[inner[-1] + 1 :]
    if all(map(has_few_steps, loops(reductions))) or any(True for _ in loops(functions)):
        return None  # an unrolled loop does not keep the one around it from being a vector
    if not any(map(is_vectorised, scalars(functions))):
        return None
    parts = list(statements(reductions))
    made = {part.name: part for part in parts if defines(part)}
    if any(
        isinstance(part, Set) and (not isinstance(part.target, Name) or part.target.name not in made) for part in parts
    ):
        return None
    written = [part.target for part in statements(functions) if isinstance(part, Set)]
    arrays = {target.array for target in written if isinstance(target, Load)}
    names = {target.name for target in written if isinstance(target, Name)}
    if any(load.array in arrays for load in loads(reductions)) or any(
        map(names.intersection, map(used_names, reductions))
    ):
        return None
    used = {name for part in functions for name in used_names(part)}
    stored = [name for name in made if name in used]
    if not 0 < len(stored) <= MAX_STORED or any(
        is_addition(part) and part.name in stored for part in statements(functions)
    ):
        return None
    first = fresh(f"{loop.variable}_first")
    strips = split(loop, STRIP, first)
    (strip,) = strips.body
    assert isinstance(strip, Loop)
    entry = (Affine.variable(loop.variable) - Affine.variable(first),)
    entries = {name: Load(fresh(f"{name}_row"), entry) for name in stored}
    stores: list[Statement] = [Set(load, Name(name)) for name, load in entries.items()]
    both = (
        replace(strip, body=(*reductions, *stores)),
        replace(strip, body=with_scalars(functions, entries)),
    )
    buffers = [Alloc(load.array, (exactly(Affine.of(STRIP)),), like) for load in entries.values()]
    return buffers, replace(strips, body=both)
