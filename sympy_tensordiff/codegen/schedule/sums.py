"""Long sums in parts: the terms of a part are added to each other, the parts to a total of double precision.

The error of a sum in single precision grows with the number of its terms, which here is that of a part.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from sympy_tensordiff.codegen.loops import Loop, Statement
from sympy_tensordiff.codegen.schedule.angles import works_on_near_angles
from sympy_tensordiff.codegen.schedule.rows import most_steps
from sympy_tensordiff.codegen.walk import added, loops

PART = 1024
"""The terms of a part: few enough for the error, and so many that the loop over the parts takes no time.

Beside one loop over 5,000 to 10**6 terms (entries, exponentials, cosines), parts take 0 to 4 % longer, of 1024 as of
4096 terms; up to 200 terms, and sums of double precision alike. Rounds of nested loops take 0.3 to 1.06 of the time.
10**6 float32 of 0.1 have a relative error of 3e-7 in parts of 1024, 1e-6 in parts of 4096, and 2e-4 in one.
"""


def long_sums(loop: Loop) -> list[str]:
    """The accumulators of sums that a loop, perhaps a long one, adds to and does not begin."""
    steps = [most_steps(inner) for inner in (loop, *loops(loop.body))]
    known = [count for count in steps if count is not None]
    if len(known) == len(steps) and prod(known) <= PART:
        return []
    if in_rounds(loop.body) and works_on_near_angles(loop.body):  # vectors hold several rounds after all
        return []
    return [name for name, add in added(loop.body).items() if add.reduction == "sum"]


def in_rounds(body: Sequence[Statement]) -> bool:
    """Whether each round of a loop over ``body`` is a part of its own: no vector holds several, for there is a loop.

    Where that adds to the same sum, it is faster so, since no round waits for the one before.
    """
    return any(True for _ in loops(body))
