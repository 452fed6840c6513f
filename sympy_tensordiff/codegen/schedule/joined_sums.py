"""Sums of sums as one accumulation, so that both loops can be distributed over threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sympy_tensordiff.codegen.ir.loops import (
    If,
    Loop,
    Statement,
    is_accumulator,
    is_addition,
    is_let,
    reduction_of,
)
from sympy_tensordiff.codegen.ir.programs import Kernel
from sympy_tensordiff.codegen.ir.scalars import Name
from sympy_tensordiff.codegen.ir.walk import (
    Around,
    rewrite,
    used_names,
)

FREE = frozenset({"sum", "max", "min"})
"""The reductions whose order does not matter. Factors stay in order: zeros and overflows meet as written."""


def with_joined_sums(kernel: Kernel) -> Kernel:
    """Replace the two accumulators of each sum of sums in `kernel` by one, so that both loops can be distributed over
    threads: the inner loop adds to the total directly. Return the new kernel.
    """
    return replace(kernel, body=rewrite(kernel.body, lambda statement, _: (_with_one_accumulator(statement),)))


def _with_one_accumulator(statement: Statement) -> Statement:
    """Return the loop ``for i: s = 0; for j: s += ...; t += s`` as ``for i: for j: t += ...``, without the inner
    accumulator; any other statement unchanged.
    """
    if not isinstance(statement, Loop | If):
        return statement
    lets, rest = split_off_definitions(statement.body)
    if len(rest) != 3:
        return statement
    start, inner, add = rest
    if not (is_accumulator(start) and isinstance(inner, Loop | If) and is_addition(add)):
        return statement
    is_sum = add.value == Name(start.name) and add.reduction == reduction_of(start) and add.reduction in FREE
    if not is_sum or any(start.name in used_names(other) for other in (*lets, inner)):
        return statement

    def adding(part: Statement, _: Around) -> tuple[Statement, ...]:
        """Return ``part``, if it is an addition to the accumulator of the inner sum, as an addition to that of the
        outer sum; return any other statement unchanged. The second argument is not used.

        The enclosing function's ``start`` and ``add`` initialise the inner and update the outer accumulator.
        """
        return (replace(part, target=add.target) if is_addition(part) and part.name == start.name else part,)

    return replace(statement, body=(*lets, *rewrite([inner], adding)))


def split_off_definitions(body: Sequence[Statement]) -> tuple[list[Statement], list[Statement]]:
    """Return ``(definitions, others)``: the statements of `body` that define scalars, and all others."""
    return [s for s in body if is_let(s)], [s for s in body if not is_let(s)]
