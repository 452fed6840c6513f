"""Recomputation of values of pairs where they are summed: O(n) memory for sums over n x n.

Distances, kernels of Gaussians and other values of two points are large arrays of small ones. A device computes such a
value several times in less time than it takes to write and read it, and for many points they do not fit in memory.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace
from math import prod

from sympy_tensordiff.codegen.ir.dataflow import uses
from sympy_tensordiff.codegen.ir.loops import Loop, Set, Statement, let
from sympy_tensordiff.codegen.ir.programs import Kernel, Program, Scatter
from sympy_tensordiff.codegen.ir.rename import Renaming, unique
from sympy_tensordiff.codegen.ir.scalars import Load, Name, Operation, Scalar
from sympy_tensordiff.codegen.ir.steps import Shapes
from sympy_tensordiff.codegen.ir.walk import (
    Around,
    all_names,
    array_shapes,
    loads,
    loops,
    operations,
    own_names,
    rewrite,
    rewrite_scalar,
    scalars,
    subexpressions,
    walk,
)
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.indirect import data_entries

MAX_TIMES = 8
"""The most times that a value is computed."""

MAX_ROUNDS = 24
"""The most rounds of the loops in one value."""


def recomputed(program: Program) -> Program:
    """Return a program without arrays over pairs that are cheap to compute, such as ``d[i, j] = x[i] - x[j]``. Their
    readers compute the values instead.

    Law: every result is the same. A program that compares numbers for equality is returned unchanged: compilers may
    round a value in two kernels in two ways.
    """
    if not {"eq", "ne"}.isdisjoint(map(str, operations(program))):
        return program
    for array in program.temporaries:
        shapes = array_shapes(program)
        steps = [step for step in program.kernels if array.name in (step.array, *uses(step).arrays)]
        first, *users = steps
        if not (type(first) is Kernel and first.array == array.name and _is_of_pairs(first, shapes)):
            continue
        if users and all(type(user) is Kernel for user in users):
            kernels = [user for user in users if isinstance(user, Kernel)]
            times = [_times(user, array.name, shapes) for user in kernels]
            if None not in times and sum(filter(None, times)) <= MAX_TIMES:
                new = {user.array: with_values(user, first, all_names(program)) for user in kernels}
                remaining = [step for step in program.kernels if step is not first]
                named = {user.array for user in kernels}
                changed = [new[step.array] if step.array in named and step in users else step for step in remaining]
                program = program.with_steps(changed, gone={array.name})
    return program


def _degree(shape: Sequence[Affine]) -> int:
    """Return the number of long axes in `shape`: those whose extent is not a small constant."""
    return sum(not _is_small(extent) for extent in shape)


def _is_small(length: Affine) -> bool:
    """Return whether `length` is a constant of at most `MAX_ROUNDS`."""
    return length.is_constant and length.constant <= MAX_ROUNDS


def _is_of_pairs(kernel: Kernel, shapes: Shapes) -> bool:
    """Return whether `kernel` fills an array cheaply from arrays with fewer long axes, as ``d[i, j]`` from ``x[i]`` and
    ``x[j]``. It can then be computed again instead of being stored.
    """
    own = _degree(shapes[kernel.array])
    lengths = [_rounds(loop) for loop in loops(kernel.body)]
    if own < 2 or None in lengths or prod(filter(None, lengths)) > MAX_ROUNDS:
        return False
    reads = [load for load in loads(kernel.body) if load.array != kernel.array]
    return all(_degree(shapes[load.array]) < own and not data_entries(load.index) for load in reads)


def _rounds(loop: Loop) -> int | None:
    """Return the number of iterations of `loop` if that is a small constant; else None."""
    forms = [loop.highs[0].form, loop.lows[0].form]
    is_plain = len(loop.highs) == len(loop.lows) == loop.highs[0].divisor == loop.lows[0].divisor == 1
    length = forms[0] - forms[1] + 1
    return length.constant if is_plain and _is_small(length) else None


def _times(user: Kernel, array: str, shapes: Shapes) -> int | None:
    """Return how often the kernel `user` would compute each value of `array` if it computed them itself instead of
    reading them. None if that is not a constant, or if some reads are conditional or outside of sums.
    """
    total = 0
    for statement, around in walk(user.body):
        found = _reads(statement, array)
        if not found:
            continue
        around_loops = [one for one in around if isinstance(one, Loop)]
        ranges = {loop.variable: _rounds(loop) for loop in around_loops}
        ranges |= {
            axis: extent.constant if _is_small(extent) else None
            for axis, extent in zip(user.axes, shapes[user.array], strict=True)
        }
        is_summed = any(_rounds(loop) is None for loop in around_loops)
        assert isinstance(statement, Set)
        nodes = list(subexpressions(statement.value))
        is_chosen = any(isinstance(node, Operation) and node.function == "select" for node in nodes)
        if isinstance(user, Scatter) or not is_summed or is_chosen:
            return None
        for load in found:
            atoms = {str(atom) for form in load.index for atom in form.atoms()}
            outside = [length for name, length in ranges.items() if name not in atoms]
            if None in outside or data_entries(load.index):
                return None
            total += prod(filter(None, outside))
    return total


def _reads(statement: Statement, array: str) -> list[Load]:
    """Return the different reads of `array` in an assignment; [] for a loop or guard, whose body is not searched."""
    if not isinstance(statement, Set):
        return []
    found = [node for node in scalars([statement]) if isinstance(node, Load) and node.array == array]
    return list(dict.fromkeys(found))


def with_values(user: Kernel, kernel: Kernel, taken: Container[str]) -> Kernel:
    """Return the kernel `user` with the statements of `kernel` inlined: it computes each value that it would otherwise
    read from the array of `kernel`. New scalars get no name in ``taken``.
    """
    used = set(own_names(user))
    *before, store = kernel.body
    assert isinstance(store, Set)

    def fresh(name: str) -> str:
        """Return ``name``, or a similar name that no array or loop of the program has yet, and record that it is in
        use.
        """
        used.add(found := unique(name, taken, used))
        return found

    def with_recomputed_entries(statement: Statement, _: Around) -> tuple[Statement, ...]:
        """Return ``statement`` with its reads of the array that is computed again replaced by new variables, preceded
        by statements that compute these entries.
        """
        made: list[Statement] = []
        values: dict[Load, Name] = {}
        for load in _reads(statement, kernel.array):
            names = {name: fresh(name) for name in own_names(kernel) if name not in kernel.axes}
            renaming = Renaming(names, forms=dict(zip(kernel.axes, load.index, strict=True)))
            values[load] = Name(fresh(f"{kernel.array}_value"))
            made += [*renaming.body(tuple(before)), let(values[load].name, renaming.value(store.value))]
        if isinstance(statement, Set) and values:

            def chosen(part: Scalar) -> Scalar:
                """Return the scalar in ``values`` that replaces the read ``part``, since its value is computed again
                instead of stored; other nodes unchanged.
                """
                return values.get(part, part) if isinstance(part, Load) else part

            statement = replace(statement, value=rewrite_scalar(statement.value, chosen))
        return (*made, statement)

    return replace(user, body=rewrite(user.body, with_recomputed_entries))
