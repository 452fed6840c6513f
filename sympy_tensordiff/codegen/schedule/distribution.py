"""Loop distribution: a loop over a reduction and a function of its result becomes two loops.

``Sum_j w[j]*exp(-Sum_k (x[k] - c[j, k])**2)`` has a loop over k in the loop over j, so that compilers do not vectorise
the loop over j, and each exponential takes as long as several of a vector. The inner sums of some hundred j are stored
in a local array; a second loop over them computes the functions.

A loop that adds functions to entries that data select, as ``t[p[k]] += exp(x[k])``, is not vectorised either. There the
first loop computes the functions, and the second one adds them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from sympy_tensordiff.codegen.ir.facts import is_vectorised
from sympy_tensordiff.codegen.ir.loops import Alloc, Loop, Set, Statement, defines, is_let, let
from sympy_tensordiff.codegen.ir.nests import exactly, with_scalars
from sympy_tensordiff.codegen.ir.scalars import Load, Name, Scalar
from sympy_tensordiff.codegen.ir.walk import filled, forms, loads, loops, scalars, statements, used_names, with_values
from sympy_tensordiff.codegen.schedule.primitives import split
from sympy_tensordiff.codegen.schedule.rows import STRIP, has_few_steps, runs_less_often
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.indirect import data_entries

MAX_STORED = 4
"""The most scalars that are stored for the second loop: writing and reading more takes longer than is gained."""


def distributed(loop: Loop, like: str, fresh: Callable[[str], str]) -> tuple[list[Alloc], Loop] | None:
    """Split `loop` into one loop for reductions and a vectorised loop for functions of their results, both in strips.
    Return ``(local arrays, loop)``, or None if that is illegal or does not pay. The local arrays, of the dtype of the
    array ``like``, pass the results from one loop to the other.

    ``fresh`` makes new names.

    None if no vectorised function follows a reduction in the loop, if the loop is short, or if one part depends on what
    another iteration of the other computes.
    """
    if loop.step != 1 or has_few_steps(loop) or runs_less_often(loop, STRIP // 8):
        return None
    if (parts := _scattered(loop, fresh)) is not None:
        return _in_strips(loop, *parts, like, fresh)
    inner = [number for number, statement in enumerate(loop.body) if isinstance(statement, Loop)]
    if not inner:
        return None
    made = {part.name for part in statements(loop.body[: inner[-1] + 1]) if defines(part)}
    body = _with_names(loop.body, made)
    reductions, functions = body[: inner[-1] + 1], body[inner[-1] + 1 :]
    if all(map(has_few_steps, loops(reductions))) or any(True for _ in loops(functions)):
        return None  # an unrolled loop does not keep the one around it from being a vector
    positions = {name for form in forms(functions) for name in form.atoms()} & made
    lets = [part for part in reductions if is_let(part) and part.name in positions]
    if len(lets) < len(positions) or any(not made.isdisjoint(_names_in(part)) for part in lets):
        return None
    functions = (*lets, *functions)  # positions that data select are read again
    stored = [name for name in made - positions if any(name in used_names(part) for part in functions)]
    if not any(map(is_vectorised, scalars(functions))) or not 0 < len(stored) <= MAX_STORED:
        return None
    if not _are_independent(reductions, functions[len(lets) :], made):
        return None
    return _in_strips(loop, reductions, functions, stored, like, fresh)


def _scattered(
    loop: Loop, fresh: Callable[[str], str]
) -> tuple[Sequence[Statement], Sequence[Statement], Sequence[str]] | None:
    """Split the body of a loop such as ``y[p[i]] += exp(x[i])``, which adds function values to entries with indices
    from data. Return the statements that compute the values, those that add them, and the names of the scalars that
    pass the values; None for other loops.
    """
    *functions, last = loop.body
    targets = [part.target for part in statements([last]) if isinstance(part, Set) and isinstance(part.target, Load)]
    if len(targets) != 1 or not all(map(is_let, functions)) or not any(data_entries(targets[0].index)):
        return None
    if isinstance(last, Set) and any(map(is_vectorised, scalars([last]))):
        value = fresh("v")
        functions, last = [*functions, let(value, last.value)], replace(last, value=Name(value))
    made = {part.name for part in functions if isinstance(part, Set)}
    positions = {name for form in forms([last]) for name in form.atoms()} & made
    stored = sorted(made & used_names(last))
    if positions or not any(map(is_vectorised, scalars(functions))) or not 0 < len(stored) <= MAX_STORED:
        return None
    if any(load.array == targets[0].array for load in loads(functions)):
        return None
    return functions, [last], stored


def _in_strips(
    loop: Loop,
    first: Sequence[Statement],
    second: Sequence[Statement],
    stored: Sequence[str],
    like: str,
    fresh: Callable[[str], str],
) -> tuple[list[Alloc], Loop]:
    """Split ``loop`` into strips, in each of which one inner loop runs the statements ``first`` and a second one
    ``second``. Return ``(local arrays, loop)``; the local arrays pass the scalars ``stored`` from the first to the
    second.

    They have the dtype of the array ``like``. ``fresh`` returns new names.
    """
    start = fresh(f"{loop.variable}_first")
    strips = split(loop, STRIP, start)
    (strip,) = strips.body
    assert isinstance(strip, Loop)
    entry = (Affine.variable(loop.variable) - Affine.variable(start),)
    entries = {name: Load(fresh(f"{name}_row"), entry) for name in sorted(stored)}
    stores: list[Statement] = [Set(load, Name(name)) for name, load in entries.items()]
    both = replace(strip, body=(*first, *stores)), replace(strip, body=with_scalars(second, entries))
    buffers = [Alloc(load.array, (exactly(Affine.of(STRIP)),), like) for load in entries.values()]
    return buffers, replace(strips, body=both)


def _names_in(statement: Statement) -> set[str]:
    """Return the names of scalars and integers that a statement reads."""
    return used_names(statement) - set(filled(statement)) | {
        str(name) for form in forms([statement]) for name in form.atoms()
    }


def _with_names(body: Sequence[Statement], made: Collection[str]) -> tuple[Statement, ...]:
    """Return the statements ``body`` with scalars in place of arrays without axes: the read ``s[]`` of a name ``s`` in
    ``made`` becomes the scalar ``s``.
    """

    def by_name(part: Scalar) -> Scalar:
        """Return the scalar with the name of the array that ``part`` reads if this array is in ``made``, the local
        arrays without axes; return any other node unchanged.
        """
        return Name(part.array) if isinstance(part, Load) and not part.index and part.array in made else part

    return with_values(body, by_name)


def _are_independent(reductions: Sequence[Statement], functions: Sequence[Statement], made: Collection[str]) -> bool:
    """Return whether a loop can first run the statements ``reductions`` in all its iterations, and then the statements
    ``functions``. The reductions may only define the scalars ``made``.

    The reductions read nothing that the functions write.
    """
    targets = [part.target for part in statements(reductions) if isinstance(part, Set)]
    if not all(isinstance(target, Name) and target.name in made for target in targets):
        return False
    written = [part.target for part in statements(functions) if isinstance(part, Set)]
    arrays = {target.array for target in written if isinstance(target, Load)}
    names = {target.name for target in written if isinstance(target, Name)}
    used = {name for part in reductions for name in used_names(part)}
    return names.isdisjoint(used | set(made)) and not any(load.array in arrays for load in loads(reductions))
