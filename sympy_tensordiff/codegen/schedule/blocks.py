"""Blocks of threads that work together through shared memory: tiles of products, and sums dealt out to the threads.

A tile of 64 x 64 sums belongs to a block of 16 x 16 threads, each of which has 4 x 4 of them in registers. What they
multiply is read once for the block, in the order of memory, into shared arrays of 16 terms. A long sum is dealt out to
the threads of a block, whose totals are added in a tree.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, combinations_with_replacement, product
from math import gcd

from sympy_tensordiff.codegen.ir.bounds import check_bounds
from sympy_tensordiff.codegen.ir.facts import Prover, rows_of
from sympy_tensordiff.codegen.ir.laws import NestLaws
from sympy_tensordiff.codegen.ir.loops import (
    Alloc,
    Barrier,
    If,
    Loop,
    Set,
    Statement,
    add,
    is_accumulator,
    is_addition,
    is_let,
    let,
    reduction_of,
)
from sympy_tensordiff.codegen.ir.nests import ZERO, exactly, span
from sympy_tensordiff.codegen.ir.programs import Kernel, Step
from sympy_tensordiff.codegen.ir.rename import Renaming
from sympy_tensordiff.codegen.ir.scalars import Bound, Load, Name, Operation, Scalar
from sympy_tensordiff.codegen.ir.steps import Shapes
from sympy_tensordiff.codegen.ir.walk import loops, needed, rewrite, rewrite_scalar, subexpressions, used_names
from sympy_tensordiff.errors import VerificationError
from sympy_tensordiff.integer.affine import Affine, Row, quotient
from sympy_tensordiff.integer.data import data_entries
from sympy_tensordiff.integer.implication import is_empty
from sympy_tensordiff.integer.products import quotient_by

SIDE = 16
"""The threads of a block of a product along each axis, and the terms of a shared tile."""

EACH = 4
"""The sums of a thread along each axis. In double precision, 4 x 4 of them take about 80 registers."""

LEAST_SIDE = 48
"""The least constant length of an axis along which there are tiles, of which three quarters are in use then."""

THREADS = 256
"""The threads of a block."""

Fresh = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class BlockNest:
    """The body of a kernel whose threads work together.

    The ``blocks`` are variables with their extents that the number of the block tells, in row-major order. The number
    of the block and the thread coordinate ``along`` ("x" or "y") tell the ``entries``. ``x`` and ``y`` are the
    coordinates of the thread, with the numbers of threads. The arrays ``shared`` belong to the block.
    """

    body: tuple[Statement, ...]
    x: tuple[str, Affine]
    y: tuple[str, Affine]
    shared: tuple[Alloc, ...]
    blocks: tuple[tuple[str, Affine], ...] = ()
    entries: tuple[tuple[str, Affine], ...] = ()
    along: str = ""
    tiles: tuple[tuple[str, Affine, int], ...] = ()
    """The blocks that count tiles, with the lengths of their axes and those of a tile."""

    @property
    def grid(self) -> tuple[Affine, ...]:
        """The factors of the number of blocks; the last of them is rounded up by the threads along `along`."""
        return tuple([extent for _, extent in (*self.blocks, *self.entries)])


@dataclass(frozen=True, slots=True)
class Deal:
    """A loop whose rounds a block deals out to ``threads``; neighbours have other entries if it ``is_across``."""

    variable: str
    threads: Affine
    is_across: bool


# ---------------------------------------------------------------------------- products


@dataclass(frozen=True, slots=True)
class _Tiling:
    """A sum of products: the axes of rows and columns, its loops, the innermost last, and the reads to be shared."""

    row: str
    column: str
    loops: tuple[Loop, ...]
    left: tuple[Load, ...]
    right: tuple[Load, ...]


def tiling(kernel: Kernel, shapes: Shapes) -> _Tiling | None:
    """Return how the sums of a kernel are computed in tiles; None if no value is used in several rows and columns."""
    if type(kernel) is not Kernel or len(kernel.axes) < 2 or len(kernel.body) < 3:
        return None
    start, outer, *rest = kernel.body
    if not (is_accumulator(start) and isinstance(outer, Loop)) or any(isinstance(s, Loop | If) for s in rest):
        return None
    chain = [outer]
    while len(chain[-1].body) == 1 and isinstance(inner := chain[-1].body[0], Loop):
        chain.append(inner)
    last = chain[-1]
    (term,) = last.body if len(last.body) == 1 else (None,)
    if term is None or not is_addition(term) or term.name != start.name:
        return None
    bounds = [bound for loop in chain for bound in (*loop.lows, *loop.highs)]
    if len(last.lows) > 1 or last.step != 1 or any(b.divisor > 1 or data_entries([b.form]) for b in bounds):
        return None
    nodes = [node for node in subexpressions(term.value)]
    if any(isinstance(node, Operation) and node.function == "select" for node in nodes):
        return None
    reads = list(dict.fromkeys(node for node in nodes if isinstance(node, Load)))
    if any(data_entries(load.index) for load in reads) or _is_short(_length(last), SIDE):
        return None
    tied = {atom for bound in bounds for atom in bound.form.atoms()}
    box = dict(zip(kernel.axes, shapes[kernel.array], strict=True))
    for row, column in combinations(kernel.axes[::-1], 2):
        row, column = column, row
        if tied & {row, column} or any(_is_short(box[axis], LEAST_SIDE) for axis in (row, column)):
            continue
        kinds = {load: {row, column, last.variable} & _atoms(load) for load in reads}
        left = tuple([load for load in reads if kinds[load] == {row, last.variable}])
        right = tuple([load for load in reads if kinds[load] == {column, last.variable}])
        others = [kind for load, kind in kinds.items() if load not in (*left, *right)]
        if left and right and len(left + right) <= EACH and all(kind <= {last.variable} for kind in others):
            return _Tiling(row, column, tuple(chain), left, right)
    return None


def _atoms(load: Load) -> set[str]:
    """Return the names in the index of a read."""
    return {str(atom) for form in load.index for atom in form.atoms()}


def _length(loop: Loop) -> Affine:
    """Return the rounds of a loop, by the first of several bounds."""
    return loop.highs[0].form - loop.lows[0].form + 1


def _is_short(length: Affine, least: int) -> bool:
    """Whether a length is a constant below another one."""
    return length.is_constant and length.constant < least


def tile_nest(kernel: Kernel, plan: _Tiling, shapes: Shapes, fresh: Fresh) -> BlockNest:
    """Return the nest of a kernel with sums in tiles."""
    start, _, *rest = kernel.body
    assert isinstance(start, Set)
    names = {wish: fresh(wish) for wish in (f"{plan.row}_tile", f"{plan.column}_tile", "x", "y", "first", "k")}
    row_tile, column_tile, x, y, first, k = map(Affine.variable, names.values())
    box = dict(zip(kernel.axes, shapes[kernel.array], strict=True))
    last, size = plan.loops[-1], SIDE * EACH
    axes = {plan.row: size * row_tile, plan.column: size * column_tile}
    stops = {axis: box[axis] for axis in axes}
    shared: list[Alloc] = []
    copies: list[Statement] = []
    tiles: dict[Load, tuple[str, str]] = {}
    for axis, load in [
        (axis, load) for axis, side in ((plan.row, plan.left), (plan.column, plan.right)) for load in side
    ]:
        name = fresh(f"{load.array}_tile")
        shared.append(Alloc(name, (exactly(Affine.of(SIDE)), exactly(Affine.of(size + 1))), kernel.array))
        tiles[load] = name, axis
        # Neighbours along x read what lies side by side.
        term, place = (x, y) if last.variable in load.index[-1].atoms() else (y, x)
        for number in range(EACH):
            at, own = axes[axis] + place + SIDE * number, first + term
            inside = [Row("ge", stops[axis] - 1 - at), *(Row("ge", high.form - own) for high in last.highs)]
            read = Load(load.array, tuple([form.substitute({axis: at, last.variable: own}) for form in load.index]))
            copies.append(If(tuple(inside), (Set(Load(name, (term, place + SIDE * number)), read),)))
    here = {plan.row: y, plan.column: x}
    terms: list[Statement] = []
    values: dict[tuple[Load, int], str] = {}
    for (load, (name, axis)), number in product(tiles.items(), range(EACH)):
        values[load, number] = fresh(f"{load.array}_{number}")
        terms.append(let(values[load, number], Load(name, (k, here[axis] + SIDE * number))))
    (term_of,) = last.body
    assert isinstance(term_of, Set)
    sums = {(p, q): fresh(f"{start.name}_{p}{q}") for p in range(EACH) for q in range(EACH)}
    for (p, q), own_sum in sums.items():

        def chosen(node: Scalar, p: int = p, q: int = q) -> Scalar:
            """Return a read as the value in a register."""
            if isinstance(node, Load) and node in tiles:
                return Name(values[node, p if tiles[node][1] == plan.row else q])
            return node

        value = Renaming({}, forms={last.variable: first + k}).value(rewrite_scalar(term_of.value, chosen))
        terms.append(add(own_sum, value, reduction_of(start)))
    ends = (Bound(Affine.of(SIDE - 1)), *(Bound(high.form - first) for high in last.highs))
    inner: tuple[Statement, ...] = (*copies, Barrier(), Loop(names["k"], (Bound(ZERO),), ends, tuple(terms)), Barrier())
    nest: Statement = Loop(names["first"], last.lows, last.highs, inner, SIDE)
    for loop in plan.loops[-2::-1]:
        nest = replace(loop, body=(nest,))
    body = [replace(start, target=Name(own_sum)) for own_sum in sums.values()] + [nest]
    own_lets = [s.name for s in rest if is_let(s)]
    for (p, q), own_sum in sums.items():
        entry = {plan.row: axes[plan.row] + y + SIDE * p, plan.column: axes[plan.column] + x + SIDE * q}
        renaming = Renaming({name: fresh(f"{name}_{p}{q}") for name in own_lets} | {start.name: own_sum}, forms=entry)
        rows = tuple([Row("ge", stops[axis] - 1 - form) for axis, form in entry.items()])
        body.append(If(rows, renaming.body(tuple(rest))))
    blocks = [(axis, box[axis]) for axis in kernel.axes if axis not in axes]
    blocks += [(names[f"{axis}_tile"], quotient(box[axis] + (size - 1), size)) for axis in axes]
    side = Affine.of(SIDE)
    counted = tuple([(names[f"{axis}_tile"], box[axis], size) for axis in axes])
    x_side, y_side = (names["x"], side), (names["y"], side)
    return BlockNest(tuple(body), x_side, y_side, tuple(shared), tuple(blocks), tiles=counted)


# ---------------------------------------------------------------------------- sums


def sum_nest(kernel: Kernel, deal: Deal, shapes: Shapes, fresh: Fresh) -> BlockNest:
    """Return the nest of a kernel whose sum is dealt out to the threads of a block."""
    number = next(n for n, s in enumerate(kernel.body) if deal.variable in {loop.variable for loop in loops([s])})
    outer = kernel.body[number]
    before, after = kernel.body[:number], kernel.body[number + 1 :]
    start = next(s for s in before if is_accumulator(s))
    x, y, partial = fresh("x"), fresh("y"), fresh("partial")
    count = deal.threads
    box = list(zip(kernel.axes, shapes[kernel.array], strict=True))
    height = quotient_by(Affine.of(THREADS), count) if box else Affine.of(1)
    is_alone = not deal.is_across and height == Affine.of(1)
    t = Affine.variable(y if deal.is_across else x)
    e = ZERO if is_alone else Affine.variable(x if deal.is_across else y)

    def dealt(statement: Statement, _: object) -> tuple[Statement, ...]:
        """Return the loop with the rounds of one thread; another statement as it is."""
        if not isinstance(statement, Loop) or statement.variable != deal.variable:
            return (statement,)
        step = count.constant if count.is_constant else count
        return (replace(statement, lows=(Bound(statement.lows[0].form + t),), step=step),)

    def place(thread: Affine) -> Load:
        """Return the entry of the shared array for a thread."""
        return Load(partial, (thread, e) if deal.is_across else (e, thread))

    rows = [Row("ge", extent - 1 - Affine.variable(axis)) for axis, extent in box[:1]]
    inside = () if is_alone else tuple(rows)
    lets = [s for s in before if s is not start]
    first = [*needed(lets, used_names(outer)), *rewrite([outer], dealt)]
    body: list[Statement] = [start, *([If(inside, tuple(first))] if inside else first)]
    body += [Set(place(t), Name(start.name)), Barrier()]
    is_power = count.is_constant and count.constant & (count.constant - 1) == 0
    step = (count.constant if is_power else THREADS) // 2
    while step:
        both = [Row("ge", (step - 1) - t), *([] if is_power else [Row("ge", count - 1 - t - step)])]
        body += [If(tuple(both), (Set(place(t), place(t + step), reduction_of(start)),)), Barrier()]
        step //= 2
    body.pop()
    last = (let(start.name, place(ZERO)), *needed(lets, {n for s in after for n in used_names(s)}), *after)
    body.append(If((*inside, Row("eq", t)), last))
    width, height = (Affine.of(32), count) if deal.is_across else (count, height)
    shared = Alloc(partial, (exactly(height), exactly(width)), kernel.array)
    blocks, entries = (tuple(box), ()) if is_alone else ((), tuple(box))
    along = "" if is_alone else "x" if deal.is_across else "y"
    return BlockNest(tuple(body), (x, width), (y, height), (shared,), blocks, entries, along)


def block_nest(step: Step, deals: Mapping[str, Deal], shapes: Shapes, fresh: Fresh) -> BlockNest | None:
    """Return the nest of a step whose blocks share memory; None where threads work for themselves."""
    if not isinstance(step, Kernel):
        return None
    if step.array in deals:
        return sum_nest(step, deals[step.array], shapes, fresh)
    plan = tiling(step, shapes)
    return None if plan is None else tile_nest(step, plan, shapes, fresh)


# ---------------------------------------------------------------------------- laws


def check_blocks(nest: BlockNest, kernel: Kernel, prover: Prover, known: Collection[str]) -> None:
    """Raise VerificationError if a nest of blocks breaks a law.

    All accesses are in bounds, no two threads write one entry of the result, and between two barriers no two threads
    of a block touch one entry of a shared array unless both read.
    """
    coordinates = (*nest.blocks, *nest.entries, nest.x, nest.y)
    body: tuple[Statement, ...] = (*nest.shared, *nest.body)
    for name, extent in reversed(coordinates):
        body = (span(name, ZERO, extent, body),)
    sizes = {str(name) for _, extent in coordinates for name in extent.atoms()}
    NestLaws({*known, *sizes}, [kernel.array], totals=[kernel.array]).check(body)
    check_bounds(body, kernel, prover)
    ranges = tuple([row for name, extent in coordinates for row in rows_of(span(name, ZERO, extent))])
    shared = {alloc.name for alloc in nest.shared}
    inside = {nest.x[0], nest.y[0]}
    # The entries tell the block and one of the coordinates of a thread.
    outside = inside - {{"x": nest.x, "y": nest.y}[nest.along][0]} if nest.along else inside
    outside = outside | {name for name, _ in (*nest.blocks, *nest.entries)}
    variables = {name for name, _ in coordinates} | {loop.variable for loop in loops(nest.body)}
    phases = [merged(accesses) for accesses in _phases(nest.body)]
    pairs = [(pair, inside) for phase in phases for pair in combinations_with_replacement(phase, 2)]
    pairs = [(pair, own) for pair, own in pairs if pair[0].array in shared]
    stores = merged([access for phase in phases for access in phase if access.array == kernel.array])
    pairs += [(pair, outside) for pair in combinations_with_replacement(stores, 2)]
    for (one, other), own in pairs:
        if one.array == other.array and (one.is_write or other.is_write):
            _check_apart(one, other, own, variables, ranges, prover)


@dataclass(frozen=True, slots=True)
class _Access:
    """A read or write of an array entry, and the rows that hold there."""

    array: str
    index: tuple[Affine, ...]
    is_write: bool
    rows: tuple[Row, ...]


def _phases(body: Sequence[Statement]) -> Iterator[list[_Access]]:
    """Yield the accesses between two barriers; a loop is gone through twice, as its end meets its start."""
    found: list[_Access] = []
    waiting: list[tuple[Statement, tuple[Row, ...]]] = [(statement, ()) for statement in reversed(body)]
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


def merged(accesses: Sequence[_Access]) -> list[_Access]:
    """Return accesses that differ only in constants as one, with a variable for the constants of each axis."""
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
                rows += [Row("ge", number), Row("ge", (constants[-1] - constants[0]) // step - number)]
                form = form - form.constant + constants[0] + step * number
            index.append(form)
        found.append(_Access(first.array, tuple(index), first.is_write, tuple(rows)))
    return found


def _check_apart(
    one: _Access,
    other: _Access,
    own: Collection[str],
    variables: Collection[str],
    ranges: Sequence[Row],
    prover: Prover,
) -> None:
    """Raise VerificationError if two threads that differ in a coordinate of ``own`` may make two accesses."""
    numbers = [f"number {axis}" for axis in range(len(one.index))]
    # In differences, rows with a factor are tightened to integers.
    step = {name: Affine.variable(f"step of {name}") for name in (*variables, *numbers)}
    second = {name: Affine.variable(name) + step[name] for name in step}
    rows = [*one.rows, *ranges, *(row.substitute(second) for row in (*other.rows, *ranges))]
    same = [a - b.substitute(second) for a, b in zip(one.index, other.index, strict=True)]
    for name, sign in product(sorted(own), (1, -1)):
        system, equations = [*rows, Row("ge", sign * step[name] - 1)], list(same)
        while equations:
            form = equations.pop()
            found = [(v, c) for v, c in form.terms if abs(c) == 1]
            if not found:
                system.append(Row("eq", form))
                continue
            variable, factor = found[0]
            value = {variable: Affine.variable(variable) - factor * form}
            system = [row.substitute(value) for row in system]
            equations = [other.substitute(value) for other in equations]
        if not is_empty(system, prover.facts):
            raise VerificationError(f"two threads of {one.array} touch the entry {one.index} between two barriers")
