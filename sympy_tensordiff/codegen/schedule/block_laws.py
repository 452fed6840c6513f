"""The laws of nests whose threads share memory: accesses in bounds, no two threads at one entry without a barrier."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement, product
from math import gcd

from sympy_tensordiff.codegen.ir.bounds import check_bounds
from sympy_tensordiff.codegen.ir.facts import Prover, rows_of
from sympy_tensordiff.codegen.ir.laws import NestLaws
from sympy_tensordiff.codegen.ir.loops import Barrier, If, Loop, Set, Statement
from sympy_tensordiff.codegen.ir.nests import ZERO, span
from sympy_tensordiff.codegen.ir.programs import FusedKernels, Kernel
from sympy_tensordiff.codegen.ir.scalars import Load
from sympy_tensordiff.codegen.ir.walk import filled_arrays, forms, loops, subexpressions
from sympy_tensordiff.codegen.schedule.blocks import BlockNest, is_exchange, names_in, shared_size
from sympy_tensordiff.errors import VerificationError
from sympy_tensordiff.integer.affine import Affine, Constraint

SHARED_BYTES = 48 * 1024
"""The most bytes of shared memory of a block that no launch has to ask for."""


def check_blocks(nest: BlockNest, step: Kernel | FusedKernels, prover: Prover, known: Collection[str]) -> None:
    """Raise VerificationError unless ``nest``, the GPU loop nest of a step, is safe: accesses are in bounds, threads do
    not race, and all threads of a block reach its barriers.

    The threads share memory in blocks. ``known`` are the names defined outside of the nest.

    No two threads write one entry of a result, none reads a result, and between two barriers no two threads of a block
    touch one entry of a shared array unless both read. All threads of a block also reach its exchanges of sums, and its
    shared arrays fit into `SHARED_BYTES`.
    """
    _check_reached(nest)
    if (size := 8 * sum(map(shared_size, nest.shared))) > SHARED_BYTES:
        raise VerificationError(f"the shared arrays of {step.array} have {size} bytes, {SHARED_BYTES} are the most")
    coordinates = nest.coordinates
    body: tuple[Statement, ...] = (*nest.shared, *nest.body)
    for name, extent in reversed(coordinates):
        body = (span(name, ZERO, extent, body),)
    sizes = {str(name) for _, extent in coordinates for name in extent.atoms()}
    filled = filled_arrays(step)
    NestLaws({*known, *sizes}, filled, totals=filled).check(body)
    check_bounds(body, step, prover)
    ranges = tuple([row for name, extent in coordinates for row in rows_of(span(name, ZERO, extent))])
    shared = {alloc.name for alloc in nest.shared}
    inside = {nest.x[0], nest.y[0]}
    # The entries determine the block and one of the coordinates of a thread.
    outside = inside - {{"x": nest.x, "y": nest.y}[nest.along][0]} if nest.along else inside
    outside = outside | {name for name, _ in (*nest.blocks, *nest.entries)}
    variables = {name for name, _ in coordinates} | {loop.variable for loop in loops(nest.body)}
    phases = [_merged(accesses) for accesses in _phases(nest.body)]
    pairs = [(pair, inside) for phase in phases for pair in combinations_with_replacement(phase, 2)]
    pairs = [(pair, own) for pair, own in pairs if pair[0].array in shared]
    stores = _merged([access for phase in phases for access in phase if access.array in filled])
    for access in stores:
        if not access.is_write:
            raise VerificationError(f"a thread reads {access.array}, which others fill in the same launch")
    pairs += [(pair, outside) for pair in combinations_with_replacement(stores, 2)]
    sized = {str(name) for form in forms([loop for loop in loops(nest.body)]) for name in form.atoms()} - variables
    strides = {
        loop.variable: Affine.of(loop.step)
        for loop in loops(nest.body)
        if loop.step != 1 and all({*map(str, low.form.atoms())} <= sized for low in loop.lows)
    }
    for (one, other), own in pairs:
        if one.array == other.array and (one.is_write or other.is_write):
            _check_apart(one, other, own, variables, strides, ranges, prover)


def _check_reached(nest: BlockNest) -> None:
    """Raise VerificationError if some threads of a block may not reach a barrier or an exchange of sums in ``nest``: it
    is in a guard, or in a loop whose length differs between the threads.
    """
    own = {nest.x[0], nest.y[0], *(name for name, _ in (nest.entries if nest.along else ()))}
    waiting = [(statement, True) for statement in nest.body]
    while waiting:
        statement, is_reached = waiting.pop()
        if isinstance(statement, Loop | If):
            atoms = names_in(forms([replace(statement, body=())]))
            reached = is_reached and isinstance(statement, Loop) and own.isdisjoint(atoms)
            own |= {statement.variable} if isinstance(statement, Loop) and not reached else set()
            waiting += [(inner, reached) for inner in statement.body]
        elif not is_reached and (isinstance(statement, Barrier) or is_exchange(statement)):
            raise VerificationError("not all threads of a block reach a barrier, or an exchange of their sums")


@dataclass(frozen=True, slots=True)
class _Access:
    """A read or write of the array entry ``array[index]`` in a GPU kernel, and the constraints that hold where it
    happens.
    """

    array: str
    index: tuple[Affine, ...]
    is_write: bool
    rows: tuple[Constraint, ...]


def _phases(body: Sequence[Statement]) -> Iterator[list[_Access]]:
    """Yield lists of the memory accesses in `body` that may be simultaneous, because no barrier separates them.

    The body of a loop is visited twice, since accesses at the end of one iteration may coincide with those at the start
    of the next one.
    """
    found: list[_Access] = []
    waiting: list[tuple[Statement, tuple[Constraint, ...]]] = [(statement, ()) for statement in reversed(body)]
    while waiting:
        statement, rows = waiting.pop()
        if isinstance(statement, Barrier):
            yield found
            found = []
        elif isinstance(statement, Loop | If):
            inner = [(one, (*rows, *rows_of(statement))) for one in reversed(statement.body)]
            waiting += inner * (2 if isinstance(statement, Loop) else 1)
        elif isinstance(statement, Set):
            reads = [node for node in subexpressions(statement.value) if isinstance(node, Load)]
            found += [_Access(load.array, load.index, False, rows) for load in reads]
            if isinstance(statement.target, Load):
                found.append(_Access(statement.name, statement.index, True, rows))
    yield found


def _merged(accesses: Sequence[_Access]) -> list[_Access]:
    """Return fewer accesses that cover all of ``accesses``, so that proofs are quicker: ``a[i + v]`` with ``0 <= v <=
    2`` for ``a[i]``, ``a[i + 1]`` and ``a[i + 2]``.
    """
    alike: dict[object, list[_Access]] = {}
    for access in accesses:
        key = access.array, access.is_write, tuple([form - form.constant for form in access.index])
        alike.setdefault(key, []).append(access)
    found = []
    for group in alike.values():
        first, *others = group
        rows = [row for row in first.rows if all(row in other.rows for other in others)]
        index = []
        for axis, form in enumerate(first.index):
            constants = sorted({access.index[axis].constant for access in group})
            step = gcd(*(constant - constants[0] for constant in constants))
            number = Affine.variable(f"number {axis}")
            if step:
                rows += [Constraint("ge", number), Constraint("ge", (constants[-1] - constants[0]) // step - number)]
                form = form - form.constant + constants[0] + step * number
            index.append(form)
        found.append(_Access(first.array, tuple(index), first.is_write, tuple(rows)))
    return found


def _check_apart(
    one: _Access,
    other: _Access,
    own: Collection[str],
    variables: Collection[str],
    strides: Mapping[str, Affine],
    ranges: Sequence[Constraint],
    prover: Prover,
) -> None:
    """Raise `VerificationError` unless two accesses by different GPU threads provably never concern the same array
    entry. Different threads differ in at least one of the coordinates `own`.

    ``ranges`` are the constraints on coordinates, ``strides`` the steps of the loops that all threads run alike.

    ``variables`` are all coordinates and loop variables.

    Loops with ``strides`` have the same values in all threads: two of these are equal, or a stride apart.
    """
    numbers = [f"number {axis}" for axis in range(len(one.index))]
    # In differences, rows with a factor are tightened to integers.
    step = {name: Affine.variable(f"step of {name}") for name in (*variables, *numbers)}
    second = {name: Affine.variable(name) + step[name] for name in step}
    rows = [*one.rows, *ranges, *(row.substitute(second) for row in (*other.rows, *ranges))]
    same = [a - b.substitute(second) for a, b in zip(one.index, other.index, strict=True)]
    used = names_in((*one.index, *other.index))
    cases: list[list[Constraint]] = [[]]
    for name, stride in strides.items():
        equal, after = Constraint("eq", step[name]), Constraint("ge", step[name] - stride)
        before = Constraint("ge", -step[name] - stride)
        cases = [[*case, row] for case in cases for row in (equal, after, before)] if name in used else cases
    for name, sign, case in product(sorted(own), (1, -1), cases):
        system, equations = [*rows, *case, Constraint("ge", sign * step[name] - 1)], list(same)
        while equations:
            form = equations.pop()
            found = [(v, c) for v, c in form.terms if abs(c) == 1]
            if not found:
                system.append(Constraint("eq", form))
                continue
            variable, factor = found[0]
            value = {variable: Affine.variable(variable) - factor * form}
            system = [row.substitute(value) for row in system]
            equations = [other.substitute(value) for other in equations]
        if not prover.excludes(system):
            raise VerificationError(f"two threads of {one.array} touch the entry {one.index} between two barriers")
