"""Blocks of threads that work together through shared memory: tiles of products, and sums dealt out to the threads.

A tile of 64 x 64 sums belongs to a block of 16 x 16 threads, each of which has 4 x 4 of them in registers. What they
multiply is read once for the block, in the order of memory, into shared arrays of 16 terms. A long sum is dealt out to
the threads of a block, whose totals are added in a tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from math import prod

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
    let,
    reduction_of,
)
from sympy_tensordiff.codegen.ir.nests import ZERO, exactly, span
from sympy_tensordiff.codegen.ir.programs import Kernel, Step
from sympy_tensordiff.codegen.ir.rename import Renaming
from sympy_tensordiff.codegen.ir.scalars import Bound, Ends, Load, Name, Operation, Scalar
from sympy_tensordiff.codegen.ir.steps import Shapes
from sympy_tensordiff.codegen.ir.walk import (
    added,
    declared,
    loops,
    needed,
    rewrite,
    rewrite_scalar,
    scalars,
    statements,
    subexpressions,
    used_names,
)
from sympy_tensordiff.integer.affine import Affine, Constraint, quotient
from sympy_tensordiff.integer.indirect import data_entries
from sympy_tensordiff.integer.products import quotient_by

SIDE = 16
"""The threads of a block of a product along each axis, and the terms of a shared tile."""

EACH = 4
"""The sums of a thread along each axis. In double precision, 4 x 4 of them take about 80 registers."""

LEAST_IN_USE = 0.6
"""The least part of a tile that a constant length of an axis fills."""

THREADS = 256
"""The threads of a block."""

TURNED, TURNED_ROWS = 32, 8
"""The side of a square of entries that a block fills from transposed reads, and its threads along columns."""

Fresh = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class BlockNest:
    """The body of a GPU kernel whose threads share memory within blocks: thread coordinates, shared arrays, and grid.

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
    def coordinates(self) -> tuple[tuple[str, Affine], ...]:
        """All coordinates of a thread and of its block, with their extents."""
        return (*self.blocks, *self.entries, self.x, self.y)

    @property
    def grid(self) -> tuple[Affine, ...]:
        """The extents whose product is the number of blocks; the last is divided by the number of threads along
        `along`, rounded up.
        """
        return tuple([extent for _, extent in (*self.blocks, *self.entries)])


@dataclass(frozen=True, slots=True)
class Deal:
    """A loop whose iterations are distributed over the ``threads`` of a block.

    With a ``width``, the x axis runs over as many neighbouring entries, and the y axis over the iterations. Entries
    along ``axis`` are neighbours.
    """

    variable: str
    threads: Affine
    width: int
    axis: str

    @property
    def is_across(self) -> bool:
        """Whether the x axis runs over entries instead of the loop."""
        return self.width > 0


# ---------------------------------------------------------------------------- products


@dataclass(frozen=True, slots=True)
class _Tiling:
    """A matrix-product-like sum computed in tiles: its row and column axis, its loops, and the reads of both
    operands.
    """

    row: str
    column: str
    loops: tuple[Loop, ...]
    left: tuple[Load, ...]
    right: tuple[Load, ...]
    each: Mapping[str, int]
    """The sums of a thread along the row and along the column."""

    @property
    def sums(self) -> int:
        """The sums of a block."""
        return prod(SIDE * each for each in self.each.values())


def tiling(kernel: Kernel, shapes: Shapes) -> _Tiling | None:
    """Return the axes and reads for computing a kernel's sum in tiles through shared memory; None if no read is
    reused.
    """
    if type(kernel) is not Kernel or len(kernel.axes) < 2 or len(kernel.body) < 3:
        return None
    start, outer, *rest = kernel.body
    if not (is_accumulator(start) and isinstance(outer, Loop)) or any(isinstance(s, Loop) for s in statements(rest)):
        return None
    chain = [outer]
    while len(chain[-1].body) == 1 and isinstance(inner := chain[-1].body[0], Loop):
        chain.append(inner)
    last = chain[-1]
    (term,) = last.body if len(last.body) == 1 else (None,)
    if term is None or not is_addition(term) or term.name != start.name:
        return None
    bounds = [bound for loop in chain for bound in (*loop.lows, *loop.highs)]
    if last.step != 1 or any(b.divisor > 1 or data_entries([b.form]) for b in bounds):
        return None
    nodes = [node for node in subexpressions(term.value)]
    if any(isinstance(node, Operation) and node.function == "select" for node in nodes):
        return None
    reads = list(dict.fromkeys(node for node in nodes if isinstance(node, Load)))
    if any(data_entries(load.index) for load in reads) or _is_short(_length(last), SIDE):
        return None
    tied = {atom for loop in chain[:-1] for bound in (*loop.lows, *loop.highs) for atom in bound.form.atoms()}
    box = dict(zip(kernel.axes, shapes[kernel.array], strict=True))
    for row, column in combinations(kernel.axes[::-1], 2):
        row, column = column, row
        each = {axis: _sums_per_thread(box[axis]) for axis in (row, column)}
        if tied & {row, column} or 0 in each.values():
            continue
        kinds = {load: {row, column, last.variable} & _atoms(load) for load in reads}
        left = tuple([load for load in reads if kinds[load] == {row, last.variable}])
        right = tuple([load for load in reads if kinds[load] == {column, last.variable}])
        others = [kind for load, kind in kinds.items() if load not in (*left, *right)]
        if left and right and len(left + right) <= EACH and all(kind <= {last.variable} for kind in others):
            return _Tiling(row, column, tuple(chain), left, right, each)
    return None


def _sums_per_thread(extent: Affine) -> int:
    """Return how many sums a thread computes along an axis, so that a block fills most of its tile; 0 if none does."""
    if not extent.is_constant:
        return EACH
    each = max(1, min(EACH, -(-extent.constant // SIDE)))
    return each if extent.constant >= LEAST_IN_USE * SIDE * each else 0


def without_guard(kernel: Kernel, shapes: Shapes) -> Kernel | None:
    """Return a kernel whose sum inside of a guard, ``if i >= j: s += a[i]*sum(...)``, is computed before the guard, as
    in ``s0 = sum(...); if i >= j: s += a[i]*s0``; None for other kernels. All reads have to be in bounds everywhere.
    """
    number = next((n for n, s in enumerate(kernel.body) if isinstance(s, If)), None)
    if number is None or any(isinstance(s, Loop) for s in statements(kernel.body[:number])):
        return None
    guard = kernel.body[number]
    assert isinstance(guard, If)
    start, loop = (*guard.body, None, None)[:2]
    if not (start and loop and is_accumulator(start) and isinstance(loop, Loop)):
        return None
    box = dict(zip(kernel.axes, kernel.box(shapes), strict=True))
    extents = {**box, **{one.variable: _extent(one) for one in loops([loop])}}
    reads = [node for node in scalars([loop]) if isinstance(node, Load)]
    for load in reads:
        for form, extent in zip(load.index, shapes[load.array], strict=True):
            if extents.get(str(form)) != extent or data_entries([form]):
                return None
    own = {name for s in (*kernel.body[:number],) for name in used_names(s)}
    if own & set(used_names(loop)):
        return None
    body = (start, loop, *kernel.body[:number], replace(guard, body=guard.body[2:]), *kernel.body[number + 1 :])
    return replace(kernel, body=body)


def _extent(loop: Loop) -> Affine | None:
    """Return the length of a loop from 0 to one bound; None for another loop."""
    plain = len(loop.highs) == 1 == loop.highs[0].divisor == loop.step and loop.lows == (Bound(ZERO),)
    return loop.highs[0].form + 1 if plain else None


def _atoms(load: Load) -> set[str]:
    """Return the names in the index of a read."""
    return {str(atom) for form in load.index for atom in form.atoms()}


def _length(loop: Loop) -> Affine:
    """Return the number of iterations of a loop, by its first upper bound."""
    return loop.highs[0].form - loop.lows[-1].form + 1


def _is_short(length: Affine, least: int) -> bool:
    """Whether `length` is a constant below `least`."""
    return length.is_constant and length.constant < least


def tile_nest(kernel: Kernel, plan: _Tiling, shapes: Shapes, fresh: Fresh) -> BlockNest:
    """Return the nest of a kernel whose sums are computed in tiles through shared memory."""
    return _TileNest(kernel, plan, shapes, fresh).nest()


class _TileNest:
    """Builds the nest of one kernel computed in tiles; ``entries`` has the row and column of each sum that a thread
    computes.
    """

    def __init__(self, kernel: Kernel, plan: _Tiling, shapes: Shapes, fresh: Fresh) -> None:
        self.kernel, self.plan, self.fresh, self.last = kernel, plan, fresh, plan.loops[-1]
        self.shapes, self.box = shapes, dict(zip(kernel.axes, shapes[kernel.array], strict=True))
        self.names = {wish: fresh(wish) for wish in ("x", "y", "first", "k")}
        self.numbers = {axis: fresh(axis) for axis in (plan.row, plan.column)}
        """The names of the numbers of the tile along each axis."""
        self.x, self.y, self.first, self.k = map(Affine.variable, self.names.values())
        row, column = map(Affine.variable, self.numbers.values())
        self.size = {axis: SIDE * each for axis, each in plan.each.items()}
        self.starts = {plan.row: self.size[plan.row] * row, plan.column: self.size[plan.column] * column}
        self.places = {plan.row: self.y, plan.column: self.x}
        self.tiles: dict[Load, tuple[str, str]] = {}
        """The shared array and the axis of each read."""
        self.entries = {
            (p, q): {
                plan.row: self.starts[plan.row] + self.y + SIDE * p,
                plan.column: self.starts[plan.column] + self.x + SIDE * q,
            }
            for p, q in product(range(plan.each[plan.row]), range(plan.each[plan.column]))
        }

    def nest(self) -> BlockNest:
        """Return the nest: loops over tiles, copies into shared memory, barriers, sums and stores."""
        start, _, *rest = self.kernel.body
        (term,) = self.last.body
        assert isinstance(start, Set) and isinstance(term, Set)
        copies = [copy for axis, side in self.sides() for load in side for copy in self.copies(load, axis)]
        sums = {pair: self.fresh(f"{start.name}_{pair[0]}{pair[1]}") for pair in self.entries}
        lows = tuple([Bound(self.extreme(low.form, -1)) for low in self.last.lows])
        highs = [self.extreme(high.form, 1) for high in self.last.highs]
        last = (Bound(Affine.of(SIDE - 1)), *(Bound(high - self.first) for high in highs))
        terms = Loop(self.names["k"], (Bound(ZERO),), last, tuple(self.terms(term, sums)))
        inner = (*copies, Barrier(), terms, Barrier())
        loop: Statement = Loop(self.names["first"], lows, tuple(map(Bound, highs)), inner, SIDE)
        for outer in self.plan.loops[-2::-1]:
            loop = replace(outer, body=(loop,))
        starts = [replace(start, target=Name(own)) for own in sums.values()]
        stores = [self.store(rest, {start.name: own}, self.entries[pair]) for pair, own in sums.items()]
        blocks = [(axis, extent) for axis, extent in self.box.items() if axis not in self.starts]
        side = Affine.of(SIDE)
        tiles = [(self.numbers[axis], self.box[axis], self.size[axis]) for axis in self.starts]
        blocks += [(name, quotient(extent + (size - 1), size)) for name, extent, size in tiles]
        shapes = {axis: (exactly(side), exactly(Affine.of(size + 1))) for axis, size in self.size.items()}
        shared = tuple([Alloc(name, shapes[axis], self.kernel.array) for name, axis in self.tiles.values()])
        coordinates = (self.names["x"], side), (self.names["y"], side)
        return BlockNest((*starts, loop, *stores), *coordinates, shared, tuple(blocks), tiles=tuple(tiles))

    def extreme(self, form: Affine, sign: int) -> Affine:
        """Return the greatest value of a loop's bound in the tile, or the least one if `sign` is -1."""
        for axis, start in self.starts.items():
            form = form.substitute({axis: start + (self.size[axis] - 1) * (sign * form.coefficient(axis) > 0)})
        return form

    def tied_rows(self, entry: Mapping[str, Affine]) -> tuple[Constraint, ...]:
        """Return the constraints of a sum's terms that differ between the entries of a tile, as of triangles."""
        own = self.first + self.k
        rows = [Constraint("ge", high.form.substitute(entry) - own) for high in self.last.highs if self.is_tied(high)]
        rows += [Constraint("ge", own - low.form.substitute(entry)) for low in self.last.lows if self.is_tied(low)]
        return tuple(rows)

    def is_tied(self, bound: Bound) -> bool:
        """Whether a bound of the loop depends on the row or the column."""
        return not {self.plan.row, self.plan.column}.isdisjoint(map(str, bound.form.atoms()))

    def sides(self) -> tuple[tuple[str, tuple[Load, ...]], ...]:
        """Return the row axis with the reads of the left operand, and the column axis with those of the right one."""
        return (self.plan.row, self.plan.left), (self.plan.column, self.plan.right)

    def copies(self, load: Load, axis: str) -> Iterator[Statement]:
        """Yield the statements by which a thread copies its entries of ``load`` into the shared tile; neighbouring
        threads read contiguously.
        """
        name = self.fresh(f"{load.array}_tile")
        self.tiles[load] = name, axis
        variable = self.last.variable
        term, place = (self.x, self.y) if variable in load.index[-1].atoms() else (self.y, self.x)
        own = self.first + term
        for number in range(self.plan.each[axis]):
            at = self.starts[axis] + place + SIDE * number
            inside = [
                Constraint("ge", self.box[axis] - 1 - at),
                *(Constraint("ge", self.extreme(high.form, 1) - own) for high in self.last.highs),
            ]
            read = Load(load.array, tuple([form.substitute({axis: at, variable: own}) for form in load.index]))
            if any(map(self.is_tied, (*self.last.lows, *self.last.highs))):
                shape = zip(load.index, read.index, self.shapes[load.array], strict=True)
                moving = [(new, extent) for old, new, extent in shape if variable in old.atoms()]
                inside += [row for new, n in moving for row in (Constraint("ge", new), Constraint("ge", n - 1 - new))]
            yield If(tuple(inside), (Set(Load(name, (term, place + SIDE * number)), read),))

    def terms(self, term: Set, sums: Mapping[tuple[int, int], str]) -> Iterator[Statement]:
        """Yield the statements that load one term of each tile into registers, and add the products to all sums of the
        thread.
        """
        values: dict[tuple[Load, int], Name] = {}
        for load, (name, axis) in self.tiles.items():
            for number in range(self.plan.each[axis]):
                values[load, number] = Name(self.fresh(f"{load.array}_{number}"))
                yield let(values[load, number].name, Load(name, (self.k, self.places[axis] + SIDE * number)))
        adds: dict[tuple[Constraint, ...], list[Statement]] = {}
        others = [node for node in subexpressions(term.value) if isinstance(node, Load) and node not in self.tiles]
        at = Renaming({}, forms={self.last.variable: self.first + self.k})
        same = {load: Name(self.fresh(f"{load.array}_k")) for load in dict.fromkeys(others)}
        yield from (let(name.name, at.value(load)) for load, name in same.items())
        for pair, own in sums.items():
            chosen = dict(same)
            for load, (_, axis) in self.tiles.items():
                chosen[load] = values[load, pair[axis == self.plan.column]]

            def value(node: Scalar, chosen: Mapping[Load, Name] = chosen) -> Scalar:
                """Return a read of a tile as the name of its register; other nodes unchanged."""
                return chosen.get(node, node) if isinstance(node, Load) else node

            forms = {**self.entries[pair], self.last.variable: self.first + self.k}
            value_of_pair = Renaming({}, forms=forms).value(rewrite_scalar(term.value, value))
            rows = self.tied_rows(self.entries[pair])
            adds.setdefault(rows, []).append(add(own, value_of_pair, reduction_of(term)))
        for rows, inside in adds.items():
            yield from [If(rows, tuple(inside))] if rows else inside

    def store(self, rest: Sequence[Statement], sums: Mapping[str, str], entry: Mapping[str, Affine]) -> Statement:
        """Return the statement that stores a thread's sum in the result, guarded against positions outside of the
        array.
        """
        names = {name: self.fresh(name) for name in declared(rest)}
        inside = [Constraint("ge", self.box[axis] - 1 - form) for axis, form in entry.items()]
        return If(tuple(inside), Renaming({**names, **sums}, forms=dict(entry)).body(tuple(rest)))


# ---------------------------------------------------------------------------- transposed reads


def transposed_reads(kernel: Kernel, shapes: Shapes) -> tuple[str, tuple[Load, ...]] | None:
    """Return the axis along which some reads of a kernel are contiguous while its entries are so along the last axis,
    and these reads; None if there are none, or too many for shared memory.
    """
    if type(kernel) is not Kernel or len(kernel.axes) < 2:
        return None
    box = dict(zip(kernel.axes, shapes[kernel.array], strict=True))
    column, inner = last_axis(box), {loop.variable for loop in loops(kernel.body)}
    reads = dict.fromkeys(node for node in scalars(kernel.body) if isinstance(node, Load) and len(node.index) > 1)
    found: dict[str, list[Load]] = {}
    for load in reads:
        row = str(load.index[-1] - load.index[-1].constant)
        others = {str(atom) for form in load.index[:-1] for atom in form.atoms()}
        if (
            row in kernel.axes
            and row != column
            and column in others
            and not {row, *inner} & others
            and not data_entries(load.index)
        ):
            found.setdefault(row, []).append(load)
    for row, loads in found.items():
        if len(loads) <= EACH and not any(_is_short(box[axis], TURNED // 2) for axis in (row, column)):
            return row, tuple(loads)
    return None


def last_axis(box: Mapping[str, Affine]) -> str:
    """Return the axis of an array along which neighbouring entries lie: the last one with more than one entry."""
    return next((axis for axis, extent in reversed(box.items()) if extent != Affine.of(1)), "")


def turn_nest(kernel: Kernel, row: str, reads: Sequence[Load], shapes: Shapes, fresh: Fresh) -> BlockNest:
    """Return the nest of a kernel whose blocks fill squares of its entries, and first copy what they read down columns
    into shared memory, along rows.
    """
    box = dict(zip(kernel.axes, shapes[kernel.array], strict=True))
    column = last_axis(box)
    tiles = {axis: fresh(axis) for axis in (row, column)}
    number, x, y = (fresh(wish) for wish in ("number", "x", "y"))
    across, down = Affine.variable(x), Affine.variable(y) + TURNED_ROWS * Affine.variable(number)
    starts = {axis: TURNED * Affine.variable(tile) for axis, tile in tiles.items()}
    names = {load: fresh(f"{load.array}_tile") for load in reads}

    def inside(entry: Mapping[str, Affine]) -> list[Constraint]:
        """Return the constraints that an entry of the square is one of the array."""
        return [Constraint("ge", box[axis] - 1 - form) for axis, form in entry.items()]

    at = {row: starts[row] + across, column: starts[column] + down}
    copies: list[Statement] = []
    for load, name in names.items():
        index = tuple([form.substitute(at) for form in load.index])
        shape = list(zip(index, shapes[load.array], strict=True))
        rows = [row for form, n in shape for row in (Constraint("ge", form), Constraint("ge", n - 1 - form))]
        copies.append(If((*inside(at), *rows), (Set(Load(name, (down, across)), Load(load.array, index)),)))
    entry = {row: starts[row] + down, column: starts[column] + across}

    def from_tile(node: Scalar) -> Scalar:
        """Return a transposed read as one of its tile."""
        return Load(names[node], (across, down)) if isinstance(node, Load) and node in names else node

    def changed(statement: Statement, _: object) -> tuple[Statement, ...]:
        """Return a statement that reads the tiles."""
        if isinstance(statement, Set) and not isinstance(statement.value, Ends):
            statement = replace(statement, value=rewrite_scalar(statement.value, from_tile))
        return (statement,)

    body = Renaming({}, forms=entry).body(rewrite(kernel.body, changed))
    last = Affine.of(TURNED // TURNED_ROWS - 1)
    again = fresh("number")
    loop = span(again, ZERO, last + 1, [If(tuple(inside(entry)), body)])
    loop = Renaming({}, forms={number: Affine.variable(again)}).body((loop,))[0]
    nest = (span(number, ZERO, last + 1, copies), Barrier(), loop)
    blocks = [(axis, extent) for axis, extent in box.items() if axis not in tiles]
    blocks += [(tiles[axis], quotient(box[axis] + (TURNED - 1), TURNED)) for axis in tiles]
    shape_of_tile = (exactly(Affine.of(TURNED)), exactly(Affine.of(TURNED + 1)))
    shared = tuple([Alloc(name, shape_of_tile, kernel.array) for name in names.values()])
    used = tuple([(tiles[axis], box[axis], TURNED) for axis in tiles])
    coordinates = (x, Affine.of(TURNED)), (y, Affine.of(TURNED_ROWS))
    return BlockNest(nest, *coordinates, shared, tuple(blocks), tiles=used)


# ---------------------------------------------------------------------------- sums


def sum_nest(kernel: Kernel, deal: Deal, shapes: Shapes, fresh: Fresh) -> BlockNest:
    """Return the nest of a kernel whose sum is distributed over the threads of a block and reduced in shared memory."""
    number = next(n for n, s in enumerate(kernel.body) if deal.variable in {loop.variable for loop in loops([s])})
    outer = kernel.body[number]
    before, after = kernel.body[:number], kernel.body[number + 1 :]
    start = next(s for s in before if is_accumulator(s) and s.name in added([outer]))
    x, y, partial = fresh("x"), fresh("y"), fresh("partial")
    count = deal.threads
    box = sorted(zip(kernel.axes, shapes[kernel.array], strict=True), key=lambda pair: pair[0] == deal.axis)
    height = quotient_by(Affine.of(THREADS), count) if box else Affine.of(1)
    is_alone = not deal.is_across and height == Affine.of(1)
    t = Affine.variable(y if deal.is_across else x)
    e = ZERO if is_alone else Affine.variable(x if deal.is_across else y)

    def dealt(statement: Statement, _: object) -> tuple[Statement, ...]:
        """Return the loop restricted to the iterations of one thread; another statement unchanged."""
        if not isinstance(statement, Loop) or statement.variable != deal.variable:
            return (statement,)
        step = count.constant if count.is_constant else count
        first, *others = statement.lows
        own = Affine.variable(statement.variable)
        rows = tuple([Constraint("ge", low.divisor * own - low.form) for low in others])
        body = (If(rows, statement.body),) if rows else statement.body
        return (replace(statement, lows=(Bound(first.form + t),), body=body, step=step),)

    def place(thread: Affine) -> Load:
        """Return the entry of the shared array in which a thread stores its partial sum."""
        return Load(partial, (thread, e) if deal.is_across else (e, thread))

    rows = [Constraint("ge", extent - 1 - Affine.variable(axis)) for axis, extent in box[:1]]
    inside = () if is_alone else tuple(rows)
    lets = [s for s in before if s is not start]
    first = [*needed(lets, used_names(outer)), *rewrite([outer], dealt)]
    body: list[Statement] = [start, *([If(inside, tuple(first))] if inside else first)]
    body += [Set(place(t), Name(start.name)), Barrier()]
    is_power = count.is_constant and count.constant & (count.constant - 1) == 0
    step = (count.constant if is_power else THREADS) // 2
    while step:
        both = [Constraint("ge", (step - 1) - t), *([] if is_power else [Constraint("ge", count - 1 - t - step)])]
        body += [If(tuple(both), (Set(place(t), place(t + step), reduction_of(start)),)), Barrier()]
        step //= 2
    body.pop()
    last = (let(start.name, place(ZERO)), *needed(lets, {n for s in after for n in used_names(s)}), *after)
    body.append(If((*inside, Constraint("eq", t)), last))
    width, height = (Affine.of(deal.width), count) if deal.is_across else (count, height)
    shared = Alloc(partial, (exactly(height), exactly(width)), kernel.array)
    blocks, entries = (tuple(box), ()) if is_alone else ((), tuple(box))
    along = "" if is_alone else "x" if deal.is_across else "y"
    return BlockNest(tuple(body), (x, width), (y, height), (shared,), blocks, entries, along)


def alloc_shape(alloc: Alloc) -> tuple[Affine, ...]:
    """Return the shape of a shared array."""
    return tuple([end.lows[0].form for end in alloc.shape])


def shared_size(alloc: Alloc) -> int:
    """Return the number of entries of a shared array: one for each thread if its shape depends on sizes."""
    shape = alloc_shape(alloc)
    return prod(extent.constant for extent in shape) if all(extent.is_constant for extent in shape) else THREADS


def block_nest(step: Step, deals: Mapping[str, Deal], shapes: Shapes, fresh: Fresh) -> BlockNest | None:
    """Return the nest of a step with shared memory, by tiles or by a distributed sum; None if neither applies."""
    if not isinstance(step, Kernel):
        return None
    if step.array in deals:
        return sum_nest(step, deals[step.array], shapes, fresh)
    if (plan := tiling(step, shapes)) is not None:
        return tile_nest(step, plan, shapes, fresh)
    turned = transposed_reads(step, shapes)
    return turn_nest(step, *turned, shapes, fresh) if turned else None


def shares_memory(step: Step, deals: Mapping[str, Deal], shapes: Shapes) -> bool:
    """Whether the blocks of a step share memory."""
    return isinstance(step, Kernel) and (
        step.array in deals or tiling(step, shapes) is not None or transposed_reads(step, shapes) is not None
    )
