"""Scans: reductions of which each entry of a row takes those of the entry before it a few values further.

``product[p] = x[0]*...*x[p - 1]`` is the product of the entry before times ``x[p - 1]``: one pass along
the row in place of a loop for each entry. Where the loop ends at the same value for all entries and
begins later and later, the pass goes down the row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sympy_tensordiff.codegen.loops import Accumulator, Add, Bound, If, Kernel, Loop, Statement
from sympy_tensordiff.codegen.scalars import Name
from sympy_tensordiff.codegen.walk import added, declared, forms, scalars, statements
from sympy_tensordiff.integer.affine import Row
from sympy_tensordiff.integer.data import data_entries


@dataclass(frozen=True)
class Scan:
    """A loop that goes on where it has stopped at the entry before, where the conditions hold.

    ``downward``: the entry before is the next one of the row, and the loop begins where it has begun there.
    """

    accumulators: tuple[Accumulator, ...]
    loop: Loop
    conditions: tuple[Row, ...]
    downward: bool


def find_scans(kernel: Kernel, outside: Mapping[str, bool]) -> tuple[list[Scan], tuple[Statement, ...]]:
    """The scans of a kernel along its last axis, and its body without them.

    Parameters
    ----------
    kernel : Kernel
    outside : mapping
        For each name that is declared at top level, whether it has one value for a row.
    """
    finder = _Finder(kernel, outside)
    body = finder.block(kernel.body, ())
    return finder.found, body


class _Finder:
    def __init__(self, kernel: Kernel, outside: Mapping[str, bool]) -> None:
        self.axis = kernel.axes[-1]
        self.outside = outside
        self.found: list[Scan] = []
        self.declared = declared(kernel.body)
        # The loops, at any depth, that fill an accumulator on their own.
        self.additions = [s.name for s in statements(kernel.body) if isinstance(s, Add)]

    def block(self, body: tuple[Statement, ...], conditions: tuple[Row, ...]) -> tuple[Statement, ...]:
        """A block, behind conditions, without its scans."""
        outer = {s.name: s for s in body if isinstance(s, Accumulator)}
        taken: set[Statement] = set()
        result: list[Statement] = []
        for statement in body:
            if isinstance(statement, Loop) and (scan := self.scan(statement, outer, conditions)):
                self.found.append(scan)
                taken |= {*scan.accumulators, statement}
            elif isinstance(statement, If):
                inner = self.block(statement.body, (*conditions, *statement.conditions))
                statement = replace(statement, body=inner)
            result.append(statement)
        return tuple(s for s in result if s not in taken)

    def scan(self, loop: Loop, outer: Mapping[str, Accumulator], conditions: tuple[Row, ...]) -> Scan | None:
        """The scan that a loop is; None where it is none."""
        rising = [any(self.axis in bound.form.atoms() for bound in side) for side in (loop.lows, loop.highs)]
        if rising[0] == rising[1] or not all(self.is_rising(bound) for bound in (*loop.lows, *loop.highs)):
            return None
        if conditions and data_entries([bound.form for bound in (loop.highs if rising[0] else loop.lows)]):
            return None  # the first end is computed for all entries; its data may be read behind the conditions only
        filled = added(loop.body)
        alone = all(name in outer and self.is_filled_here(name, loop) for name in filled)
        if not filled or not alone or self.varies(loop):
            return None
        return Scan(tuple(outer[name] for name in filled), loop, conditions, downward=rising[0])

    def is_rising(self, bound: Bound) -> bool:
        """Whether a bound does not become less from one entry to the next."""
        return self.axis not in bound.form.hidden() and bound.form.coefficient(self.axis) >= 0

    def is_filled_here(self, name: str, loop: Loop) -> bool:
        """Whether nothing but a loop adds to an accumulator."""
        here = sum(isinstance(s, Add) and s.name == name for s in statements(loop.body))
        return here == self.additions.count(name)

    def varies(self, loop: Loop) -> bool:
        """Whether what a loop does at one of its values differs between entries."""
        if any(self.axis in form.atoms() for form in forms(loop.body)):
            return True
        used = {node.name for node in scalars(loop.body) if isinstance(node, Name)} - declared(loop.body).keys()
        return any(name in self.declared and not self.outside.get(name) for name in used)
