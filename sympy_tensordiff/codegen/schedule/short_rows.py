"""Unroll-and-jam of short rows: one pass of a long sum adds to all entries of the row.

Sums for the coordinates of a point, or for the weights of a small window, read much in common. With
one accumulator for each entry this is read and computed once, and all sums stay in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from sympy_tensordiff.codegen.ir.facts import Prover
from sympy_tensordiff.codegen.ir.loops import If, Loop, Statement, defines, is_addition
from sympy_tensordiff.codegen.ir.programs import Kernel, Scatter
from sympy_tensordiff.codegen.ir.rename import Renaming
from sympy_tensordiff.codegen.ir.scalars import Load
from sympy_tensordiff.codegen.ir.walk import added, loops, rewrite, scalars, statements
from sympy_tensordiff.codegen.schedule.angles import works_on_near_angles
from sympy_tensordiff.codegen.schedule.rows import (
    MIN_VECTOR_ROW,
    RowPlanner,
    has_few_steps,
    most_steps,
    run_of,
    runs_less_often,
)
from sympy_tensordiff.integer.affine import Affine

TOGETHER = 8
"""As many sums are added up in one pass at most.

Half and twice as many take 0.95 to 1.03 of the time of the three benchmarks that change.
"""


def short_row(kernel: Kernel, prover: Prover, fresh: Callable[[str], str]) -> tuple[Statement, ...] | None:
    """Return statements that compute all entries along the last axis of `kernel`, which is short, in the same loops, so
    that reads are shared. None if the axis is not short, or if there is nothing to share.

    ``fresh`` returns new names for the scalars of each entry.
    """
    if not kernel.axes or isinstance(kernel, Scatter):
        return None
    extent, planner = prover.shapes[kernel.array][-1], RowPlanner(kernel, is_long=False)
    if not extent.is_constant or not 2 <= extent.constant <= TOGETHER or not _gains(planner, extent.constant):
        return None
    own = [
        part.name for part in statements(kernel.body) if defines(part) and planner.axis in planner.depends[part.name]
    ]
    entries = [
        Renaming({name: fresh(f"{name}_{number}") for name in own}, forms={planner.axis: Affine({}, number)})
        for number in range(extent.constant)
    ]
    return rewrite(kernel.body, lambda s, _: _copies_per_entry(s, planner, entries))


def _copies_per_entry(statement: Statement, planner: RowPlanner, entries: list[Renaming]) -> tuple[Statement, ...]:
    """Return the copies of `statement` for the entries of a short axis, made by the renamings ``entries``; a loop, a
    guard, or a statement that does not depend on the axis is returned once.
    """
    if isinstance(statement, Loop | If) or not planner.varies(statement):
        return (statement,)
    return tuple([entry.statement(statement) for entry in entries])


def _gains(planner: RowPlanner, count: int) -> bool:
    """Return whether it pays to compute the `count` entries of a short row in common loops: the row has long sums that
    share reads, and the number of accumulators stays small.
    """
    varying = [part for part in statements(planner.kernel.body) if planner.varies(part)]
    if any(isinstance(part, Loop | If) and planner.is_tied(part) for part in varying):
        return False
    adds = [part for part in varying if is_addition(part)]
    if any(part.reduction != "sum" for part in adds):
        return False
    found = [part for part in varying if isinstance(part, Loop) and not has_few_steps(part)]
    long = [loop for loop in found if all(map(has_few_steps, loops(loop.body)))]
    sums = {part.name for loop in long for part in statements(loop.body) if is_addition(part) and part in adds}
    if not sums or len(sums) * count > TOGETHER or any(runs_less_often(loop, MIN_VECTOR_ROW) for loop in long):
        return False
    return all(_shares(planner, loop) for loop in long)


def _shares(planner: RowPlanner, loop: Loop) -> bool:
    """Return whether the entries of a short row read common data in `loop`: all reads that depend on its variable are
    contiguous, and at least one is the same for all entries of the row.
    """
    loads = [node for node in scalars(loop.body) if isinstance(node, Load)]
    moving = [node for node in loads if any(loop.variable in form.atoms() for form in node.index)]
    along = (run_of(node, loop.variable) == (len(node.index) - 1, 1) for node in moving)
    return all(along) and any(all(planner.axis not in form.atoms() for form in node.index) for node in moving)


# ---------------------------------------------------------------------------- long sums in parts
# Long sums in parts: the terms of a part are added to each other, the parts to a total of double precision.
#
# The error of a sum in single precision grows with the number of its terms, which here is that of a part.


PART = 1024
"""The terms of a part: few enough for the error, and so many that the loop over the parts takes no time.

Beside one loop over 5,000 to 10**6 terms (entries, exponentials, cosines), parts take 0 to 4 % longer, of 1024 as of
4096 terms; up to 200 terms, and sums of double precision alike. Rounds of nested loops take 0.3 to 1.06 of the time.
10**6 float32 of 0.1 have a relative error of 3e-7 in parts of 1024, 1e-6 in parts of 4096, and 2e-4 in one.
"""


def long_sums(loop: Loop) -> list[str]:
    """Return the names of the sums, declared outside of `loop`, to which it adds many terms. Return [] if it has few
    iterations, or if it contains loops and may use the fast sines and cosines of `works_on_near_angles`.
    """
    steps = [most_steps(inner) for inner in (loop, *loops(loop.body))]
    known = [count for count in steps if count is not None]
    if len(known) == len(steps) and prod(known) <= PART:
        return []
    if contains_loop(loop.body) and works_on_near_angles(loop.body):  # vectors hold several rounds after all
        return []
    return [name for name, add in added(loop.body).items() if add.reduction == "sum"]


def contains_loop(body: Sequence[Statement]) -> bool:
    """Return whether ``body`` contains a loop, so that compilers do not vectorise the loop around ``body``.

    Where that adds to the same sum, it is faster so, since no round waits for the one before.
    """
    return any(True for _ in loops(body))
