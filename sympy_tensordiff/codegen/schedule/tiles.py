"""Tiles of products: blocks of threads that read the operands once through shared memory.

A tile of 64 x 64 sums belongs to a block of 16 x 16 threads, each of which has 4 x 4 of them in registers. What they
multiply is read once for the block, in the order of memory, into shared arrays of 16 terms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from sympy_tensordiff.codegen.ir.nests import ZERO, exactly
from sympy_tensordiff.codegen.ir.programs import Kernel
from sympy_tensordiff.codegen.ir.rename import Renaming
from sympy_tensordiff.codegen.ir.scalars import Bound, Load, Name, Operation, Scalar
from sympy_tensordiff.codegen.ir.steps import Shapes
from sympy_tensordiff.codegen.ir.walk import (
    declared,
    loops,
    rewrite_scalar,
    scalars,
    statements,
    subexpressions,
    used_names,
)
from sympy_tensordiff.codegen.schedule.blocks import LEAST_IN_USE, SIDE, BlockNest, NameMaker, names_in
from sympy_tensordiff.integer.affine import Affine, Constraint, quotient
from sympy_tensordiff.integer.indirect import data_entries

EACH = 4
"""The sums of a thread along each axis. In double precision, 4 x 4 of them take about 80 registers."""


@dataclass(frozen=True, slots=True)
class _Tiling:
    """A plan to compute a kernel that is like a matrix product in tiles of shared memory: its row and column axis, its
    summed loops, and the reads of both operands.
    """

    row: str
    column: str
    loops: tuple[Loop, ...]
    left: tuple[Load, ...]
    right: tuple[Load, ...]
    of_terms: tuple[Load, ...]
    """The reads that differ between terms only, as weights."""
    each: Mapping[str, int]
    """The sums of a thread along the row and along the column."""

    @property
    def sums(self) -> int:
        """The number of entries of the result (sums) that one block of threads computes."""
        return prod(SIDE * each for each in self.each.values())


def tiling(kernel: Kernel, shapes: Shapes) -> _Tiling | None:
    """Return the plan to compute a kernel such as ``Sum_k a[i, k]*b[k, j]`` in tiles through shared memory. None for
    other kernels, and if no read is shared by several entries. ``shapes`` maps arrays to shapes.
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
        kinds = {load: {row, column, last.variable} & names_in(load.index) for load in reads}
        left = tuple([load for load in reads if kinds[load] == {row, last.variable}])
        right = tuple([load for load in reads if kinds[load] == {column, last.variable}])
        others = [kind for load, kind in kinds.items() if load not in (*left, *right)]
        if left and right and len(left + right) <= EACH and all(kind <= {last.variable} for kind in others):
            of_terms = tuple([load for load, kind in kinds.items() if kind and load not in (*left, *right)])
            return _Tiling(row, column, tuple(chain), left, right, of_terms, each)
    return None


def _sums_per_thread(extent: Affine) -> int:
    """Return how many entries of the result each thread computes along an axis of length `extent`: `EACH`, or fewer if
    the axis is short. 0 if too little of a tile would be used.
    """
    if not extent.is_constant:
        return EACH
    each = max(1, min(EACH, -(-extent.constant // SIDE)))
    return each if extent.constant >= LEAST_IN_USE * SIDE * each else 0


def without_guard(kernel: Kernel, shapes: Shapes) -> Kernel | None:
    """Return `kernel`, of the form ``if i >= j: s += a[i]*sum(...)``, with the inner sum computed before the guard, so
    that it can be tiled. None for other kernels, or if the sum might then read out of bounds.
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
    """Return the number of iterations of a loop from 0 to a single upper bound; None for any other loop."""
    plain = len(loop.highs) == 1 == loop.highs[0].divisor == loop.step and loop.lows == (Bound(ZERO),)
    return loop.highs[0].form + 1 if plain else None


def _length(loop: Loop) -> Affine:
    """Return the upper bound of a loop minus its lower bound, plus 1: about its number of iterations. Of several
    bounds, the first upper and the last lower one count.
    """
    return loop.highs[0].form - loop.lows[-1].form + 1


def _is_short(length: Affine, least: int) -> bool:
    """Return whether `length` is a constant below `least`."""
    return length.is_constant and length.constant < least


def tile_nest(kernel: Kernel, plan: _Tiling, shapes: Shapes, fresh: NameMaker) -> BlockNest:
    """Return the GPU nest of `kernel`, whose sums are computed in tiles through shared memory, as `plan` says."""
    return _TileNest(kernel, plan, shapes, fresh).nest()


class _TileNest:
    """Builds the GPU loop nest of a kernel whose result is computed in tiles: each block of threads computes one tile.
    ``entries`` has the row and column of each entry that one thread computes.
    """

    def __init__(self, kernel: Kernel, plan: _Tiling, shapes: Shapes, fresh: NameMaker) -> None:
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
        self.vectors: dict[Load, str] = {}
        """The shared array of each read that differs between terms only."""
        self.entries = {
            (p, q): {
                plan.row: self.starts[plan.row] + self.y + SIDE * p,
                plan.column: self.starts[plan.column] + self.x + SIDE * q,
            }
            for p, q in product(range(plan.each[plan.row]), range(plan.each[plan.column]))
        }

    def nest(self) -> BlockNest:
        """Return the GPU loop nest of the kernel: loops over tiles that copy entries into shared memory and add up
        their products, with barriers in between, and then the stores of the sums.
        """
        start, _, *rest = self.kernel.body
        (term,) = self.last.body
        assert isinstance(start, Set) and isinstance(term, Set)
        copies = [copy for axis, side in self.sides() for load in side for copy in self.copies(load, axis)]
        copies += [self.copy_of_terms(load) for load in self.plan.of_terms]
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
        shared = [Alloc(name, shapes[axis], self.kernel.array) for name, axis in self.tiles.values()]
        shared += [Alloc(name, (exactly(side),), self.kernel.array) for name in self.vectors.values()]
        coordinates = (self.names["x"], side), (self.names["y"], side)
        return BlockNest((*starts, loop, *stores), *coordinates, tuple(shared), tuple(blocks), tiles=tuple(tiles))

    def extreme(self, form: Affine, sign: int) -> Affine:
        """Return the greatest (``sign`` 1) or least (-1) value in a tile of `form`, a bound of the summation loop. In a
        tile with the rows ``r`` to ``r + 15``, the greatest value of ``i + 1`` is ``r + 16``, where ``i`` is the row.
        """
        for axis, start in self.starts.items():
            form = form.substitute({axis: start + (self.size[axis] - 1) * (sign * form.coefficient(axis) > 0)})
        return form

    def tied_rows(self, entry: Mapping[str, Affine]) -> tuple[Constraint, ...]:
        """Return the bounds of the summation index that depend on the row or column, such as ``k <= i`` for a
        triangular matrix, as constraints for one `entry` of the result. `entry` maps the row and column axis to the
        indices of the entry.
        """
        own = self.first + self.k
        rows = [Constraint("ge", high.form.substitute(entry) - own) for high in self.last.highs if self.is_tied(high)]
        rows += [Constraint("ge", own - low.form.substitute(entry)) for low in self.last.lows if self.is_tied(low)]
        return tuple(rows)

    def is_tied(self, bound: Bound) -> bool:
        """Return whether a loop bound depends on the row or column of the tile, as ``k <= i`` does, so that it differs
        between the threads.
        """
        return not {self.plan.row, self.plan.column}.isdisjoint(map(str, bound.form.atoms()))

    def sides(self) -> tuple[tuple[str, tuple[Load, ...]], ...]:
        """Return ``((row axis, reads), (column axis, reads))``: for the left and the right operand of the product that
        is tiled, the axis of the result along which the operand varies, and its reads.
        """
        return (self.plan.row, self.plan.left), (self.plan.column, self.plan.right)

    def copies(self, load: Load, axis: str) -> Iterator[Statement]:
        """Yield the statements by which a thread copies entries of the read ``load`` into a tile in shared memory. The
        read varies along `axis`, the row or column axis of the result. Neighbouring threads copy neighbouring entries.
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

    def copy_of_terms(self, load: Load) -> Statement:
        """Return the statement that copies entries of ``load``, a read that depends on the summation index only, such
        as a weight ``w[k]``, into a new array in shared memory: one for each summation index of the tile. Record the
        array's name in ``vectors``.

        Only the threads with ``y = 0`` copy, each the entry for its own ``x``.
        """
        name = self.vectors[load] = self.fresh(f"{load.array}_terms")
        own = self.first + self.x
        inside = [Constraint("ge", -self.y)]
        inside += [Constraint("ge", self.extreme(high.form, 1) - own) for high in self.last.highs]
        index = [form.substitute({self.last.variable: own}) for form in load.index]
        if any(map(self.is_tied, (*self.last.lows, *self.last.highs))):
            shape = zip(index, self.shapes[load.array], strict=True)
            inside += [row for new, n in shape for row in (Constraint("ge", new), Constraint("ge", n - 1 - new))]
        return If(tuple(inside), (Set(Load(name, (self.x,)), Load(load.array, tuple(index))),))

    def terms(self, term: Set, sums: Mapping[tuple[int, int], str]) -> Iterator[Statement]:
        """Yield the statements by which a GPU thread adds one term to each of its sums: it loads its entries of both
        tiles into registers, and adds their products.

        ``term`` is the addition without tiles; ``sums`` maps pairs of row and column numbers to the names of sums.
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
        for load, own in same.items():
            vector = self.vectors.get(load)
            yield let(own.name, at.value(load) if vector is None else Load(vector, (self.k,)))
        for pair, total in sums.items():
            chosen = dict(same)
            for load, (_, axis) in self.tiles.items():
                chosen[load] = values[load, pair[axis == self.plan.column]]

            def from_register(node: Scalar, chosen: Mapping[Load, Name] = chosen) -> Scalar:
                """Return the scalar variable (register) that stores the value of the read ``node``, according to the
                dictionary ``chosen``; any other expression is returned unchanged.
                """
                return chosen.get(node, node) if isinstance(node, Load) else node

            forms = {**self.entries[pair], self.last.variable: self.first + self.k}
            value_of_pair = Renaming({}, forms=forms).value(rewrite_scalar(term.value, from_register))
            rows = self.tied_rows(self.entries[pair])
            adds.setdefault(rows, []).append(add(total, value_of_pair, reduction_of(term)))
        for rows, inside in adds.items():
            yield from [If(rows, tuple(inside))] if rows else inside

    def store(self, rest: Sequence[Statement], sums: Mapping[str, str], entry: Mapping[str, Affine]) -> Statement:
        """Return the statement by which a GPU thread stores one of its sums in the entry `entry` of the result, if this
        is in bounds. ``rest`` are the kernel's statements after the summation, in which ``sums`` renames the
        accumulators.
        """
        names = {name: self.fresh(name) for name in declared(rest)}
        inside = [Constraint("ge", self.box[axis] - 1 - form) for axis, form in entry.items()]
        return If(tuple(inside), Renaming({**names, **sums}, forms=dict(entry)).body(tuple(rest)))
