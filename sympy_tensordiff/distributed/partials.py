"""A result as partial results: which loops are in blocks, what is reduced over them, what becomes an array of its own.

A sum over a split range may stay where the result is linear in it: the kernel sums over one block, and the blocks are
added. Inside of a function it is an array of its own, computed before (a *stage*); so are maxima, minima and products,
except where one of them is the whole result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import sympy
from sympy import Expr, Piecewise

from sympy_tensordiff.distributed.footprints import affine, limit_rows, project, variable
from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.nests import Bounds
from sympy_tensordiff.structure.terms import Binder, written_out
from sympy_tensordiff.symbolic.sums import IndexedMax, IndexedMin, IndexedProduct, IndexedReduction, IndexedSum
from sympy_tensordiff.symbolic.tensors import TensorComprehension, TensorSymbol

OPERATIONS: Mapping[Any, str] = {
    IndexedSum: "add",
    IndexedProduct: "multiply",
    IndexedMax: "maximum",
    IndexedMin: "minimum",
}


@dataclass(frozen=True)
class Loop:
    """A range that is cut into blocks; all axes and sums with this range have the same blocks."""

    range: Bounds = field(hash=False)
    block: int
    number: int
    origin: Expr
    extent: Expr

    def __str__(self) -> str:
        low, high = (", ".join(f"({f})/{d}" if d > 1 else str(f) for f, d in e) for e in self.range[1:])
        return f"{low} .. {high} in blocks of {self.block}"


class Part(NamedTuple):
    """One addend of a result: partial values, reduced over ``loops`` by ``operation``."""

    result: int
    axes: tuple[tuple[Expr, Expr, Loop | None], ...]
    value: Expr
    loops: frozenset[Loop]
    operation: str
    level: int


@cache
def _index(depth: int) -> Expr:
    """One dummy for each depth, so that equal sums in different places are equal expressions."""
    return sympy.Dummy(f"i{depth}", integer=True)


@cache
def _named_index(name: str, depth: int) -> Expr:
    return sympy.Dummy(name, integer=True)


class Splitter:
    """Reads results one after the other; ``parts`` and ``stages`` grow."""

    def __init__(self, blocks: Mapping[str, int | None]) -> None:
        self.blocks = blocks
        self.parts: list[Part] = []
        self.shapes: list[tuple[Expr, ...]] = []
        self.stages: dict[Any, TensorSymbol] = {}
        self.number_of: dict[TensorSymbol, int] = {}
        self.levels: dict[TensorSymbol, int] = {}
        self.loops: dict[Any, Loop] = {}
        self.named: set[Expr] = set()

    def add(self, expr: Any) -> int:
        """The parts of one more result; returns its number."""
        axes, body = self._read(expr)
        return self._add(axes, body)

    def _read(self, expr: Any) -> tuple[tuple[Binder, ...], Expr]:
        expr = written_out(expr)
        limits = [tuple(limit) for limit in expr.args[1:]] if isinstance(expr, TensorComprehension) else []
        names = {index: self._fresh(index, depth) for depth, (index, _) in enumerate(limits)}
        axes = tuple(Binder(names[index], sympy.S.Zero, sympy.sympify(n) - 1) for index, n in limits)
        return axes, self._renamed(expr.args[0] if limits else expr, names, len(limits))

    def _fresh(self, index: Any, depth: int) -> Expr:
        if index.name not in self.blocks:
            return _index(depth)
        self.named.add(index := _named_index(index.name, depth))
        return index

    def _renamed(self, expr: Any, names: Mapping[Any, Expr], depth: int) -> Any:
        if isinstance(expr, IndexedReduction):
            names, limits = dict(names), []
            for index, low, high in reversed(expr.args[1:]):
                low, high = (self._renamed(end, names, depth) for end in (low, high))
                names[index] = self._fresh(index, depth)
                limits.append((names[index], low, high))
                depth += 1
            return expr.func(self._renamed(expr.args[0], names, depth), *reversed(limits))
        if isinstance(expr, TensorSymbol) or not expr.args:
            return names.get(expr, expr)
        whole = getattr(expr, "tensor", expr)
        if (getattr(whole, "is_tensor_expr", False) and not isinstance(whole, TensorSymbol)) or hasattr(expr, "limits"):
            shape = f" of shape {whole.shape}" if getattr(whole, "shape", ()) else ""
            raise UnsupportedError(
                f"{type(whole).__name__} in {expr}: one entry needs the whole array{shape}, which no block of "
                f"{_shown(self.blocks)} holds: compute it with another backend and give it as argument"
            )
        return expr.func(*(self._renamed(arg, names, depth) for arg in expr.args))

    def _add(self, axes: tuple[Binder, ...], body: Expr) -> int:
        number = len(self.shapes)
        self.shapes.append(tuple(axis.high + 1 for axis in axes))
        loops = self._loops(axes, (), ())
        active = tuple(loop for loop in loops if loop)
        whole = type(body) if isinstance(body, IndexedReduction) and not isinstance(body, IndexedSum) else IndexedSum
        if whole is not IndexedSum and any(own := self._loops_of(body, axes, active)):
            inner = self._cut(body.args[0], (*axes, *_binders(body)), (*active, *(o for o in own if o)))
            found = {frozenset(o for o in own if o): self._narrowed(body, inner, own)}
        else:
            found = self._linear(body, axes, active)
        for reduced, value in found.items():
            read = value.atoms(TensorSymbol) & self.levels.keys()
            level = 1 + max((self.levels[t] for t in read), default=-1)
            shown = tuple((a.index, a.high + 1, loop) for a, loop in zip(axes, loops, strict=True))
            self.parts.append(Part(number, shown, value, reduced, OPERATIONS[whole], level))
        return number

    # ------------------------------------------------------------------------ loops

    def _loops_of(self, total: Any, binders: tuple[Binder, ...], active: tuple[Loop, ...]) -> list[Loop | None]:
        """The split loops of a reduction, outermost first."""
        return self._loops(_binders(total), binders, active)

    def _loops(
        self, own: tuple[Binder, ...], outside: tuple[Binder, ...], active: tuple[Loop, ...]
    ) -> list[Loop | None]:
        found: list[Loop | None] = []
        for k, binder in enumerate(own):
            range_of = self._range(binder.index, (*outside, *own[: k + 1]))
            block = self._block(binder.index, range_of)
            if block is None or range_of is None:
                found.append(None)
                continue
            used = (*active, *(loop for loop in found if loop))
            number = sum(loop.range[1:] == range_of[1:] and loop.block == block for loop in used)
            found.append(self._loop(range_of, block, number))
        return found

    def _loop(self, range_of: Bounds, block: int, number: int) -> Loop:
        key = (range_of[1:], block, number)
        if key not in self.loops:
            k = len(self.loops)
            origin = sympy.Dummy(f"block_start{k}", integer=True)
            extent = sympy.Dummy(f"block_size{k}", integer=True, positive=True)
            self.loops[key] = Loop(range_of, block, number, origin, extent)
        return self.loops[key]

    def _range(self, index: Expr, binders: tuple[Binder, ...]) -> Bounds | None:
        rows = [row for binder in binders for row in limit_rows(*binder)]
        sizes = {s for binder in binders for end in binder[1:] for s in end.free_symbols} - {b.index for b in binders}
        facts = tuple(row for s in sizes for row in limit_rows(s, sympy.S.One, s))
        return project(variable(index), rows, {variable(b.index) for b in binders} - {variable(index)}, facts)

    def _block(self, index: Expr, range_of: Bounds | None) -> int | None:
        """The extent of a block: that which ``blocks`` names for an index or, times its coefficient, for a size."""
        if index in self.named:
            return self.blocks[index.name]
        if range_of is None:
            return None
        for size, block in self.blocks.items():
            for form, divisor in (*range_of.highs, *range_of.lows):
                scale = abs(form.coefficient(size))
                if scale and block is not None:
                    return max(1, block * scale // divisor)
        return None

    # ------------------------------------------------------------------------ linear places, cuts

    def _splits(self, expr: Any, binders: tuple[Binder, ...]) -> bool:
        """Whether a reduction over a split range is inside."""
        if isinstance(expr, IndexedReduction):
            own = _binders(expr)
            return any(self._loops(own, binders, ())) or self._splits(expr.args[0], (*binders, *own))
        return any(self._splits(arg, binders) for arg in expr.args) if expr.has(IndexedReduction) else False

    def _linear(self, expr: Any, binders: tuple[Binder, ...], active: tuple[Loop, ...]) -> dict[frozenset[Loop], Expr]:
        """Values whose sum over their loops' blocks is ``expr``."""
        again: Callable[[Any], dict[frozenset[Loop], Expr]] = lambda e: self._linear(e, binders, active)  # noqa: E731
        if not self._splits(expr, binders):
            return {frozenset(): expr}
        if isinstance(expr, sympy.Add):
            found: dict[frozenset[Loop], Expr] = {}
            for term in expr.args:
                for loops, value in again(term).items():
                    found[loops] = found.get(loops, sympy.S.Zero) + value
            return found
        if isinstance(expr, IndexedSum):
            own = self._loops_of(expr, binders, active)
            split = tuple(loop for loop in own if loop)
            inner = self._linear(expr.args[0], (*binders, *_binders(expr)), (*active, *split))
            return {loops.union(split): self._narrowed(expr, value, own) for loops, value in inner.items()}
        if isinstance(expr, sympy.Mul):
            split_factors = [f for f in expr.args if self._splits(f, binders)]
            rest = sympy.Mul(*(f for f in expr.args if f not in split_factors))
            stay = [f for f in split_factors if isinstance(f, IndexedSum | sympy.Add | Piecewise)]
            stay = stay if len(stay) == 1 else []
            rest *= sympy.Mul(*(self._cut(f, binders, active) for f in split_factors if f not in stay))
            return {loops: value * rest for loops, value in again(stay[0]).items()} if stay else {frozenset(): rest}
        if isinstance(expr, Piecewise):
            branches = [(again(value), self._cut(condition, binders, active)) for value, condition in expr.args]
            kinds = dict.fromkeys(loops for values, _ in branches for loops in values)
            return {k: Piecewise(*((values.get(k, sympy.S.Zero), c) for values, c in branches)) for k in kinds}
        return {frozenset(): self._cut(expr, binders, active)}

    def _narrowed(self, total: Any, body: Expr, own: list[Loop | None]) -> Expr:
        """A reduction over ``body`` in one block of its split ranges."""
        limits = []
        for (index, low, high), loop in zip(_binders(total), own, strict=True):
            if loop:
                last = loop.origin + loop.extent - 1
                if _is_range(loop, low, high):
                    low, high = loop.origin, last
                else:
                    low, high = sympy.Max(low, loop.origin), sympy.Min(high, last)
            limits.append((index, low, high))
        return total.func(body, *reversed(limits))

    def _cut(self, expr: Any, binders: tuple[Binder, ...], active: tuple[Loop, ...]) -> Any:
        """``expr`` with entries of stages in place of the outermost split reductions."""
        if not self._splits(expr, binders):
            return expr
        if isinstance(expr, IndexedReduction):
            if any(self._loops_of(expr, binders, active)):
                return self._shifted_exponential(expr, binders) or self._stage(expr, binders)
            return expr.func(self._cut(expr.args[0], (*binders, *_binders(expr)), active), *expr.args[1:])
        args = [self._cut(arg, binders, active) for arg in expr.args]
        if isinstance(expr, sympy.log):
            factors = sympy.Mul.make_args(args[0])
            powers = [f for f in factors if isinstance(f, sympy.exp)]
            rest = sympy.Mul(*(f for f in factors if f not in powers))
            return sympy.Add(*(f.args[0] for f in powers), sympy.log(rest))
        return expr.func(*args)

    def _shifted_exponential(self, total: Any, binders: tuple[Binder, ...]) -> Expr | None:
        """``exp(M)*sum exp(f - M)`` with the maximum ``M`` of ``f`` for ``sum exp(f)``, which may overflow."""
        powers = [f for f in sympy.Mul.make_args(total.args[0]) if isinstance(f, sympy.exp)]
        if not powers or not isinstance(total, IndexedSum):
            return None
        exponent = sympy.Add(*(f.args[0] for f in powers))
        largest = self._stage(IndexedMax(exponent, *total.args[1:]), binders)
        # Where all are infinitely negative there is nothing to take away.
        largest = sympy.Piecewise((largest, largest > -(sympy.Integer(10) ** 308)), (0, True), evaluate=False)
        rest = sympy.Mul(*(f for f in sympy.Mul.make_args(total.args[0]) if f not in powers))
        return self._stage(IndexedSum(rest * sympy.exp(exponent - largest), *total.args[1:]), binders) * sympy.exp(
            largest
        )

    def _stage(self, total: Any, binders: tuple[Binder, ...]) -> Expr:
        """An entry of the array that holds ``total`` for all values of the indices around it."""
        around = [b for b in binders if b.index in total.free_symbols]
        axes, lows, moved = [], [], {}
        for k, binder in enumerate(around):
            range_of = self._range(binder.index, binders)
            low, high = (_one_form(range_of, side, binders) for side in ("lows", "highs"))
            if low is None or high is None:
                raise UnsupportedError(
                    f"{total} is reduced over a split range inside of a function, and the index {binder.index} around "
                    "it has no range with one lower and one upper end: compute the sum as a comprehension of its own "
                    "with backend='dask', and give its result as argument"
                )
            axes.append(Binder(self._fresh(binder.index, k), sympy.S.Zero, high - low))
            lows.append(low)
            moved[binder.index] = sympy.Dummy("moved", integer=True)
        names = {moved[b.index]: axis.index + low for b, axis, low in zip(around, axes, lows, strict=True)}
        own_axes, body = tuple(axes), self._renamed(total.xreplace(moved), names, len(axes))
        key = (own_axes, body)
        if key not in self.stages:
            number = self._add(own_axes, body)
            symbol = TensorSymbol(f"stage{len(self.stages)}_", tuple(a.high + 1 for a in own_axes))
            self.stages[key] = symbol
            self.number_of[symbol] = number
            self.levels[symbol] = max(part.level for part in self.parts if part.result == number)
        places = tuple(b.index - low for b, low in zip(around, lows, strict=True))
        return self.stages[key][places]


def _shown(blocks: Mapping[str, int | None]) -> str:
    return "blocks={" + ", ".join(f"{name}: {block}" for name, block in blocks.items()) + "}"


def _binders(total: Any) -> tuple[Binder, ...]:
    """The limits of a reduction, outermost first."""
    return tuple(Binder(*limit) for limit in reversed(total.args[1:]))


def _is_range(loop: Loop, low: Any, high: Any) -> bool:
    return bool(loop.range[1:] == (((affine(low), 1),), ((affine(high), 1),)))


def _one_form(range_of: Bounds | None, side: str, binders: tuple[Binder, ...]) -> Expr | None:
    """An end of a range as an expression in sizes."""
    ends: Any = getattr(range_of, side, ())
    if len(ends) != 1 or ends[0][1] != 1 or ends[0][0].compounds():
        return None
    form: Affine = ends[0][0]
    symbols = {variable(s): s for b in binders for end in b[1:] for s in end.free_symbols}
    return sympy.Add(form.constant, *(c * symbols[v] for v, c in form.terms))
