"""Loop fusion inside of a row: loops over the same entries that compute the same value are one loop.

Kernels that run row by row have a loop over the entries of the row each, and each loop would compute
``log(c[i] - x[i, j])`` again where an earlier one has done so. As one loop they compute it once, in a scalar. A loop is
moved to an earlier one if it reads what that one stores at the same entry only, and nothing in between is needed or
changed by it.

Sums over two indices are loops in loops: the outer ones are joined where inner ones can be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeAlias, TypeGuard

from sympy_tensordiff.codegen.ir.loops import Loop, Set, Statement, is_accumulator, is_let, is_store, let
from sympy_tensordiff.codegen.ir.rename import Renaming
from sympy_tensordiff.codegen.ir.scalars import (
    Bound,
    Ends,
    External,
    Identity,
    IndexValue,
    Load,
    Name,
    Operation,
    Scalar,
)
from sympy_tensordiff.codegen.ir.walk import filled, forms, loads, parts, scalars, statements, used_names
from sympy_tensordiff.integer.affine import Affine, Variable
from sympy_tensordiff.integer.indirect import data_entries

_CHEAP = frozenset({"add", "mul", "neg", "max", "min", "abs", "sign", "floor", "ceil", "heaviside", "infinity"})
_CHEAP |= {"and", "or", "not", "lt", "le", "eq", "ne", "select"}
"""Operations that do not alone make it worth while to join two loops."""

Key: TypeAlias = Hashable
"""A value in one iteration: equal keys are equal numbers."""


def with_common_loops(
    body: Sequence[Statement], lengths: Mapping[Variable, Affine], fresh: Callable[[str], str]
) -> tuple[Statement, ...] | None:
    """Return `body` with loops over the same range joined if they compute the same costly value, which one loop then
    computes once; None if no loops can be joined. ``lengths`` has the extents of array axes, ``fresh`` makes names of
    new scalars.
    """
    found = _with_distinct_scalars(body)
    count, place = len(found), 1
    while place < len(found):
        first = _join_with_earlier(found, place, lengths, fresh)
        place = place + 1 if first is None else first + 1
    return tuple(found) if len(found) < count else None


def _join_with_earlier(
    found: list[Statement], place: int, lengths: Mapping[Variable, Affine], fresh: Callable[[str], str]
) -> int | None:
    """Join the loop ``found[place]`` with the first earlier loop in the list ``found`` for which this is possible, and
    update the list. Return the new position, or None if there is none.

    ``lengths`` has the values of sizes, ``fresh`` returns new names.
    """
    later = found[place]
    is_kind, join = (_is_flat, _join_loops) if _is_flat(later) else (_is_nest, partial(_joined_nests, lengths))
    if not isinstance(later, Loop) or not is_kind(later):
        return None
    for first, earlier in enumerate(found[:place]):
        if not isinstance(earlier, Loop) or not is_kind(earlier) or _range(earlier, lengths) != _range(later, lengths):
            continue
        joined = join(earlier, found[first + 1 : place], later, fresh)
        if joined is not None:
            found[first : place + 1] = joined
            return first
    return None


def _join_loops(
    earlier: Loop, between: Sequence[Statement], later: Loop, fresh: Callable[[str], str]
) -> list[Statement] | None:
    """Join the loops `earlier` and `later`, and return the statements that replace both and the statements ``between``
    them. None if this would change results, or if the loops have no costly value in common. ``fresh`` returns new
    names.
    """
    own = Renaming({}, forms={later.variable: Affine.variable(earlier.variable)}).body(later.body)
    moved = _statements_to_move(earlier, between, replace(later, body=own))
    if moved is None or not _have_common_values(earlier, own):
        return None
    body = _Computed(earlier.variable, fresh).once((*earlier.body, *own))
    return [*moved, replace(earlier, body=body), *(part for part in between if part not in moved)]


def _joined_nests(
    lengths: Mapping[Variable, Affine],
    earlier: Loop,
    between: Sequence[Statement],
    later: Loop,
    fresh: Callable[[str], str],
) -> list[Statement] | None:
    """Join inner loops of the nested loops `earlier` and `later` that compute the same costly value. Return the
    statements of the joined nest, which also replace the statements ``between`` them; None if this would change results
    or joins no loops.

    ``lengths`` maps names of axis lengths to forms; ``fresh`` returns new names.
    """
    own = Renaming({}, forms={later.variable: Affine.variable(earlier.variable)}).body(later.body)
    moved = _statements_to_move(earlier, between, replace(later, body=own))
    body = None if moved is None else with_common_loops((*earlier.body, *own), lengths, fresh)
    if moved is None or body is None or _count_loops(body) == _count_loops(earlier.body) + _count_loops(own):
        return None
    return [*moved, replace(earlier, body=body), *(part for part in between if part not in moved)]


def _count_loops(body: Iterable[Statement]) -> int:
    """Return the number of loops among the statements of `body`."""
    return sum(isinstance(part, Loop) for part in body)


def _with_distinct_scalars(body: Sequence[Statement]) -> list[Statement]:
    """Return `body` with a single scalar in place of all scalars that are defined by the same value and never change.

    A scalar that goes on from entry to entry of a row, as a running sum does, keeps its own name, although it may begin
    with the same value as another one.
    """
    arrays = {part.name for part in statements(body) if isinstance(part, Set) and isinstance(part.target, Load)}
    times_set = Counter(part.name for part in statements(body) if isinstance(part, Set))
    still_set = Counter(times_set)
    names: dict[str, str] = {}
    values: dict[int, str] = {}
    numbering = _Numbering("", has_entries=False)
    found: list[Statement] = []
    for statement in body:
        still_set.subtract(part.name for part in statements([statement]) if isinstance(part, Set))
        (new,) = Renaming(names).body((statement,)) if names else (statement,)
        if is_let(new) and times_set[new.name] == 1 and arrays.isdisjoint(load.array for load in loads([new])):
            is_final = not any(still_set[name] for name in _used(new))
            number = numbering.read(new) if is_final else None
            first = new.name if number is None else values.setdefault(number, new.name)
            if first != new.name:
                names[new.name] = first
                continue
        found.append(new)
    return found


def _is_flat(statement: Statement) -> TypeGuard[Loop]:
    """Return whether `statement` is a serial loop with step 1 around assignments only, without user functions, where no
    iteration reads a scalar that another one has set.
    """
    if not isinstance(statement, Loop) or statement.step != 1 or statement.bind or _has_carries(statement.body):
        return False
    return all(isinstance(part, Set) for part in statement.body) and not any(
        isinstance(value, Operation) and isinstance(value.function, External) for value in scalars(statement.body)
    )


def _has_carries(body: Sequence[Statement]) -> bool:
    """Return whether the assignments in the `body` of a loop change a scalar that they also read, so that their order
    and the order of iterations matter: a running sum that is stored, for example.
    """
    updated = {part.name for part in body if isinstance(part, Set) and part.reduction}
    read, defined = set[str](), set[str]()
    for part in body:
        read |= _used(part)
        if is_let(part):
            if part.name in read or part.name in defined:
                return True
            defined.add(part.name)
    return not updated.isdisjoint(read)


def _is_nest(statement: Statement) -> TypeGuard[Loop]:
    """Return whether `statement` is a loop with step 1 around innermost loops. Apart from these, its body contains only
    assignments, and all targets are scalars.
    """
    if not isinstance(statement, Loop) or statement.step != 1 or statement.bind:
        return False
    inner = [part for part in statement.body if not isinstance(part, Set)]
    targets = [part.target for part in statements(statement.body) if isinstance(part, Set)]
    return bool(inner) and all(map(_is_flat, inner)) and all(isinstance(target, Name) for target in targets)


def _range(loop: Loop, lengths: Mapping[Variable, Affine]) -> tuple[frozenset[Bound], frozenset[Bound]]:
    """Return ``(lower bounds, upper bounds)`` of a loop as forms in the sizes, so that loops over axes of different
    arrays can be compared. ``lengths`` maps the variables for axis lengths to their values.
    """
    lows, highs = (
        frozenset(Bound(bound.form.substitute(lengths), bound.divisor) for bound in side)
        for side in (loop.lows, loop.highs)
    )
    return lows, highs


# ---------------------------------------------------------------------------- which loops can be joined


def _statements_to_move(earlier: Loop, between: Sequence[Statement], later: Loop) -> list[Statement] | None:
    """Return the statements in ``between`` that the loop `later` needs. They must move in front of the loop `earlier`
    if the two loops are joined. None if the loops cannot be joined.
    """
    stores = [part for part in earlier.body if isinstance(part, Set) and isinstance(part.target, Load)]
    if not _agree(earlier, stores, later) or not set(filled(earlier)).isdisjoint(_used(later)):
        return None
    moved: list[Statement] = []
    changed = _changed(later)
    wanted = _used(later) | changed
    for statement in reversed(between):
        if _changed(statement).isdisjoint(wanted):
            if not _used(statement).isdisjoint(changed):
                return None
            continue
        if not (is_let(statement) or is_accumulator(statement)):
            return None
        if not _used(statement).isdisjoint(_changed(earlier)):
            return None
        wanted |= _used(statement)
        moved.insert(0, statement)
    return moved


def _agree(earlier: Loop, stores: Sequence[Set], later: Loop) -> bool:
    """Return whether the loops `earlier` and `later` can be joined to one that runs both bodies in each iteration,
    without changing results. ``stores`` are the statements of `earlier` that set array entries.

    `later` may read an entry that the statements ``stores`` of `earlier` set only in the same iteration, and may not
    change anything that `earlier` uses.
    """
    if not all(is_store(store) for store in stores):
        return False
    entries = {store.name: store.index for store in stores}
    if len(entries) < len(stores) or not _changed(later).isdisjoint(_used(earlier) | _changed(earlier)):
        return False
    if any(str(entry.tensor) in entries for entry in data_entries(forms(later.body))):
        return False
    variable = earlier.variable
    is_own = all(any(variable in form.atoms() for form in index) for index in entries.values())
    return is_own and all(entries.get(load.array, load.index) == load.index for load in loads(later.body))


def _used(statement: Statement) -> set[str]:
    """Return the names of all scalars, integers and arrays that a statement reads, and of the arrays that it fills."""
    names = used_names(statement) | {load.array for load in loads([statement])}
    own = {*forms([statement])}
    return names | {str(atom) for form in own for atom in form.atoms()} | {str(e.tensor) for e in data_entries(own)}


def _changed(statement: Statement) -> set[str]:
    """Return the names of the scalars and arrays that a statement defines, adds to or fills."""
    return {*filled(statement), *(part.name for part in statements([statement]) if isinstance(part, Set))}


def _have_common_values(earlier: Loop, own: Sequence[Statement]) -> bool:
    """Return whether it pays to join the loop ``earlier`` with a later loop that has the body `own`: both compute the
    same costly value, which differs between iterations. Their memory access must be alike: both read along rows, or
    neither does.

    Both read along rows or neither does: one that reads down columns keeps functions of the other from being vectors.
    """
    work = _Numbering(earlier.variable, has_entries=False)
    first = {*work.costly(earlier.body)}
    is_along, is_other_along = (_reads_along_rows(body, earlier.variable) for body in (earlier.body, own))
    return is_along == is_other_along and any(key in first for key in work.costly(own))


def _reads_along_rows(body: Sequence[Statement], variable: str) -> bool:
    """Return whether each read in the statements `body` of a loop over ``variable`` is contiguous along this loop, or
    loop-invariant.
    """
    for load in loads(body):
        own = [n for n, form in enumerate(load.index) if variable in map(str, form.atoms())]
        if own and (own != [len(load.index) - 1] or load.index[-1].coefficient(variable) not in (1, -1)):
            return False
    return True


# ---------------------------------------------------------------------------- values that are computed once


class _Value(NamedTuple):
    """A value in value numbering: an expression node, the numbers of its arguments, and whether it differs (``varies``)
    between iterations of the loop.
    """

    scalar: Scalar
    arguments: tuple[int, ...]
    varies: bool


class _Numbering:
    """Assigns value numbers to the scalar expressions of one iteration of a loop: equal expressions have the same
    number.

    With ``has_entries``, a read of an entry that was stored before is the stored value.
    """

    def __init__(self, variable: str, has_entries: bool = True) -> None:
        self.variable = variable
        self.has_entries = has_entries
        self.values: list[_Value] = []
        self.numbers: dict[Key, int] = {}
        self.names: dict[str, int] = {}
        """The numbers of the scalars that are defined in the loop."""
        self.stored: dict[Load, int] = {}

    def number(self, scalar: Scalar) -> int:
        """Return the value number of a scalar expression, a new one if no equal expression was seen."""
        done: dict[int, int] = {}
        for node in parts(scalar):
            arguments = tuple([done[id(a)] for a in node.arguments]) if isinstance(node, Operation) else ()
            done[id(node)] = self._of_node(node, arguments)
        return done[id(scalar)]

    def _of_node(self, node: Scalar, arguments: tuple[int, ...]) -> int:
        """Return the value number of an expression node, given those of its arguments."""
        if isinstance(node, Name) and node.name in self.names:
            return self.names[node.name]
        if isinstance(node, Load) and node in self.stored:
            return self.stored[node]
        varies = any(self.values[a].varies for a in arguments)
        if isinstance(node, Load | IndexValue):
            own = node.index if isinstance(node, Load) else (node.form,)
            varies = any(self.variable in map(str, form.atoms()) for form in own)
        key = (node.function, arguments) if isinstance(node, Operation) else node
        if key not in self.numbers:
            self.numbers[key] = len(self.values)
            self.values.append(_Value(node, arguments, varies))
        return self.numbers[key]

    def read(self, statement: Statement) -> int | None:
        """Return the value number of the value that `statement` assigns; None if it assigns none. Record the number for
        the target of the statement, so that later uses of the target get the same one.
        """
        if not isinstance(statement, Set) or isinstance(statement.value, Ends | Identity):
            return None
        number = self.number(statement.value)
        if is_let(statement):
            self.names[statement.name] = number
        elif self.has_entries and is_store(statement) and isinstance(statement.target, Load):
            self.stored[statement.target] = number
        return number

    def costly(self, body: Iterable[Statement]) -> Iterator[int]:
        """Yield the value numbers of the costly expressions, such as divisions, that the statements in `body` compute
        and whose values differ between iterations of the loop.
        """
        for statement in body:
            number = self.read(statement)
            for one in () if number is None else self.below(number):
                value = self.values[one]
                if value.varies and isinstance(value.scalar, Operation) and value.scalar.function not in _CHEAP:
                    yield one

    def below(self, number: int) -> Iterator[int]:
        """Yield `number`, which identifies a value, and the numbers of all values that it depends on, each once."""
        seen, stack = {number}, [number]
        while stack:
            one = stack.pop()
            yield one
            new = [a for a in self.values[one].arguments if a not in seen]
            seen.update(new)
            stack += new


class _Computed(_Numbering):
    """Rewrites the body of a loop so that each value is computed once and stored in a scalar if it is needed several
    times.
    """

    def __init__(self, variable: str, fresh: Callable[[str], str]) -> None:
        super().__init__(variable)
        self.fresh = fresh
        self.uses: Counter[int] = Counter()
        self.counted: set[int] = set()
        self.always: set[int] = set()
        """The values that are computed in each iteration, not only where a choice takes them."""
        self.scalar: dict[int, Scalar] = {}
        self.body: list[Statement] = []

    def once(self, body: Sequence[Statement]) -> tuple[Statement, ...]:
        """Return `body` with each value computed once: scalars store the values that are needed several times."""
        roots = [self.read(statement) for statement in body]
        for root, statement in zip(roots, body, strict=True):
            if root is not None:
                self._count(root, is_root=not is_let(statement))
        for root, statement in zip(roots, body, strict=True):
            assert isinstance(statement, Set)
            if root is None:
                self.body.append(statement)
            elif not is_let(statement):
                value = self._written(root)
                self.body.append(replace(statement, value=value))
        return tuple(self.body)

    def _count(self, root: int, is_root: bool) -> None:
        """Count in ``self.uses`` the uses of each value from which the value number `root` is computed. Record in
        ``self.always`` the values that are needed whatever branches selects take. With ``is_root``, count a use of
        `root` itself, too.
        """
        self.uses[root] += is_root
        stack = [root] if root not in self.counted else []
        while stack:
            one = stack.pop()
            if one not in self.counted:
                self.counted.add(one)
                self.uses.update(self.values[one].arguments)
                stack += self.values[one].arguments
        stack = [root]
        while stack:
            one = stack.pop()
            if one not in self.always:
                self.always.add(one)
                value = self.values[one]
                is_choice = isinstance(value.scalar, Operation) and value.scalar.function == "select"
                stack += value.arguments[:1] if is_choice else value.arguments

    def _written(self, root: int) -> Scalar:
        """Return value number `root` as a scalar expression. A subexpression that is always needed, and used more than
        once, is assigned to a new scalar in ``self.body``.
        """
        for one in self._in_order(root):
            value = self.values[one]
            if not isinstance(value.scalar, Operation):
                self.scalar[one] = value.scalar
                continue
            new: Scalar = Operation(value.scalar.function, tuple([self.scalar[a] for a in value.arguments]))
            if one in self.always and self.uses[one] > 1:
                name = self.fresh("v")
                self.body.append(let(name, new))
                new = Name(name)
            self.scalar[one] = new
        return self.scalar[root]

    def _in_order(self, root: int) -> list[int]:
        """Return the numbers of the values that must be computed for the value number ``root``, arguments before their
        uses and ``root`` last. Values that have an expression already are left out.
        """
        found: list[int] = []
        stack = [root]
        while stack:
            one = stack[-1]
            missing = [a for a in self.values[one].arguments if a not in self.scalar and a not in found]
            if one in self.scalar or one in found:
                stack.pop()
            elif missing:
                stack += reversed(missing)
            else:
                found.append(stack.pop())
        return found
