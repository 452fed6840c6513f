"""The reads and operations of one iteration of the innermost loops of a GPU kernel, as compilers leave them.

Short loops are unrolled. A value that is read again is in a register; what does not depend on a loop is read before it.
A store ends both: it may change any array, as compilers see it, but not other entries that are apart for certain.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod
from typing import NamedTuple

from sympy_tensordiff.codegen.ir.loops import If, Loop, Set, Statement
from sympy_tensordiff.codegen.ir.scalars import Ends, Load, Operation, Scalar
from sympy_tensordiff.codegen.ir.walk import forms, loops, statements, subexpressions
from sympy_tensordiff.codegen.schedule.blocks import names_in
from sympy_tensordiff.codegen.schedule.split_reductions import SHORT
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.indirect import data_entries

MAX_UNROLLED = 128
"""The most iterations of a nest of short loops that compilers unroll whole."""


class Iteration(NamedTuple):
    """The work of one iteration of an innermost loop (or of a thread without loops): the numbers of its reads from
    global memory, of its reads from shared memory, and of its operations.
    """

    loads: int
    shared: int
    operations: int


def iterations(body: Sequence[Statement], shared: Collection[str]) -> list[Iteration]:
    """Return the work of one iteration of each innermost loop in ``body``, the loop nest of a GPU thread. ``shared``
    are the arrays in shared memory.

    A loop also counts if the loops in it have constant numbers of iterations; loops that compilers unroll do not count.
    """
    long = [loop for loop in loops(body) if not is_unrolled(loop)]
    if not long:
        return [_Reads(shared).iteration(body)]
    found = []
    for loop in long:
        inner = [one for one in loops(loop.body) if not is_unrolled(one)]
        own = _Reads(shared, "" if _stores(loop.body) else loop.variable).iteration(loop.body)
        if not inner:
            found.append(own)
        elif all(any(high.form.is_constant for high in one.highs) for one in inner):
            for one in inner:
                count = min(high.form.constant for high in one.highs if high.form.is_constant) + 1
                each = _Reads(shared).iteration(one.body)
                own = Iteration(*(a + count * b for a, b in zip(own, each, strict=True)))
            found.append(own)
    return found


def is_unrolled(loop: Loop) -> bool:
    """Return whether a loop has constant bounds, and so few iterations, including those of inner loops, that compilers
    unroll it.
    """
    nest = [loop, *loops(loop.body)]
    return all(map(_is_short, nest)) and prod(map(_length, nest)) <= MAX_UNROLLED


def _is_short(loop: Loop) -> bool:
    """Return whether a loop has constant bounds and few iterations."""
    bounds = (*loop.lows, *loop.highs)
    if len(bounds) > 2 or loop.step != 1 or any(b.divisor > 1 or not b.form.is_constant for b in bounds):
        return False
    return _length(loop) <= SHORT


def _length(loop: Loop) -> int:
    """Return the number of iterations of a loop with constant bounds."""
    return loop.highs[0].form.constant - loop.lows[0].form.constant + 1


def _stores(body: Sequence[Statement]) -> bool:
    """Return whether the statements ``body`` store an entry of an array."""
    return any(isinstance(s, Set) and isinstance(s.target, Load) for s in statements(body))


def work(node: Scalar) -> int:
    """Return the number of operations of `node` itself, without its arguments."""
    if not isinstance(node, Operation):
        return 0
    return len(node.arguments) - 1 if node.function in ("add", "mul") else int(node.function not in ("neg", "select"))


class _Reads:
    """Counts the reads and operations of statements. With a loop ``variable``, it counts only the reads that depend on
    this variable, since the others are moved in front of the loop.

    Reads of arrays in ``shared`` are also counted separately.
    """

    def __init__(self, shared: Collection[str], variable: str = "") -> None:
        self.shared, self.variable = shared, variable
        self.known: set[tuple[str, tuple[Affine, ...]]] = set()
        """The entries that have been read, or stored, since the last store."""
        self.loads = self.shared_loads = self.operations = 0

    def iteration(self, body: Sequence[Statement]) -> Iteration:
        """Return the counts (an `Iteration`) of reads and operations of one run of the statements ``body``, without the
        long loops in them.
        """
        self.count(body, {}, frozenset())
        return Iteration(self.loads, self.shared_loads, self.operations)

    def count(self, body: Sequence[Statement], values: Mapping[str, Affine], guard: frozenset[str]) -> None:
        """Count the reads, stores and operations of the statements ``body`` in ``self``. The body of a loop that
        compilers unroll counts once for each iteration; other loops are left out.

        ``values`` maps the variables of unrolled loops around ``body`` to their values, ``guard`` has the names in
        conditions around it.
        """
        for statement in body:
            if isinstance(statement, Loop):
                if is_unrolled(statement):
                    low = statement.lows[0].form.constant
                    for value in range(low, low + _length(statement)):
                        self.count(statement.body, {**values, statement.variable: Affine.of(value)}, guard)
            elif isinstance(statement, If):
                rows = [row.form.substitute(values) for row in statement.conditions]
                self.read_data(rows, guard)
                self.count(statement.body, values, guard | names_in(rows))
            elif isinstance(statement, Set):
                self.read_data([form.substitute(values) for form in forms([statement])], guard)
                nodes = [] if isinstance(statement.value, Ends) else list(subexpressions(statement.value))
                self.operations += bool(statement.reduction) + sum(map(work, nodes))
                for node in nodes:
                    if isinstance(node, Load):
                        self.read(node.array, [form.substitute(values) for form in node.index], guard)
                if isinstance(statement.target, Load):
                    self.store(statement.name, tuple([form.substitute(values) for form in statement.index]))

    def store(self, array: str, index: tuple[Affine, ...]) -> None:
        """Record that ``array[index]`` is stored: it is now a known entry. Forget all others except entries of the same
        array at a constant distance from it, which this store does not change.
        """
        others = [known for name, known in self.known if name == array]
        near = [known for known in others if all((a - b).is_constant for a, b in zip(known, index, strict=True))]
        self.known = {(array, known) for known in (*near, index)}

    def read_data(self, rows: Sequence[Affine], guard: Collection[str]) -> None:
        """Count the reads of integer arrays in the affine forms ``rows`` as part of the work of one iteration.

        ``guard`` has the names that occur in the conditions under which the forms are evaluated.
        """
        for entry in data_entries(rows):
            self.read(entry.tensor, entry.index, guard)

    def read(self, array: str, index: Sequence[Affine], guard: Collection[str]) -> None:
        """Count the read of the entry of ``array`` at ``index``, unless it has been read already, or can be read before
        the loop.

        It can if neither ``index`` nor the names in conditions around it (``guard``) contain the loop variable.
        """
        entry = array, tuple(index)
        if entry in self.known:
            return
        self.known.add(entry)
        if not self.variable or self.variable in names_in(index) | {*guard}:
            self.shared_loads += array in self.shared
            self.loads += array not in self.shared
