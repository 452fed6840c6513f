"""A result as partial results: which loops are in blocks, what is reduced over them, what becomes an array of its own.

A sum over a split range may stay where the result is linear in it: the kernel sums over one block, and the blocks are
added. Inside of a function it is an array of its own, computed before (a *stage*); so are maxima, minima and products,
except where one of them is the whole result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import sympy
from sympy import Expr, Piecewise

from sympy_tensordiff.distributed.footprints import CASES, index_cases, limit_rows
from sympy_tensordiff.distributed.loops import Loop, Loops, binders_of, narrowed, one_form
from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.structure.terms import Binder, written_out
from sympy_tensordiff.symbolic.sums import IndexedMax, IndexedMin, IndexedProduct, IndexedReduction, IndexedSum
from sympy_tensordiff.symbolic.tensors import TensorComprehension, TensorEntry, TensorSymbol
from sympy_tensordiff.symbolic.traversal import Recursion, names_in, parts, postorder, trampoline

Walk: TypeAlias = Recursion[Any]

OPERATIONS: Mapping[Any, str] = {
    IndexedSum: "add",
    IndexedProduct: "multiply",
    IndexedMax: "maximum",
    IndexedMin: "minimum",
}


class Part(NamedTuple):
    """One addend of a result: partial values, reduced over ``loops`` by ``operation``."""

    result: int
    axes: tuple[tuple[Expr, Expr, Loop | None], ...]
    value: Expr
    loops: frozenset[Loop]
    operation: str
    level: int

    @property
    def indices(self) -> list[Expr]:
        return [index for index, _, _ in self.axes]

    def position(self, loops: Sequence[Loop], block: Sequence[int]) -> tuple[int, ...]:
        """The number of a block along the loops that the part is not reduced over."""
        return tuple(k for loop, k in zip(loops, block, strict=True) if loop not in self.loops)


@cache
def _index(name: str, number: int) -> Expr:
    """One dummy for each number, so that equal sums are equal expressions wherever they are."""
    return sympy.Dummy(name, integer=True)


def once(walk: Callable[..., Walk]) -> Callable[..., Walk]:
    """A walk that is made once for the same arguments."""

    def visit(self: Splitter, *args: Any) -> Walk:
        key = (walk, *args)
        if key not in self.known:
            self.known[key] = yield walk(self, *args)
        return self.known[key]

    return visit


class Splitter:
    """Reads results one after the other; ``parts`` and ``stages`` grow.

    ``least`` has the smallest sizes for which periodic indices are read right.
    """

    def __init__(self, blocks: Mapping[str, int | None]) -> None:
        self.blocks = blocks
        self.parts: list[Part] = []
        self.results = 0
        self.stages: dict[Any, TensorSymbol] = {}
        self.number_of: dict[TensorSymbol, int] = {}
        self.levels: dict[TensorSymbol, int] = {}
        self.loops = Loops(blocks)
        self.names: set[str] = set()
        self.least: dict[str, int] = {}
        self.known: dict[Any, Any] = {}

    def add(self, expr: Any) -> int:
        """The parts of one more result; returns its number."""
        axes, body = self.read(expr)
        return int(trampoline(self._add(axes, trampoline(self._in_cases(body, axes)))))

    def read(self, expr: Any) -> tuple[tuple[Binder, ...], Expr]:
        """The axes and an entry of an expression in index notation, whose indices are numbered."""
        expr = written_out(expr)
        if isinstance(expr, TensorSymbol) and expr.rank:
            around = sympy.symbols(f"axis:{expr.rank}", integer=True)
            expr = TensorComprehension(expr[around], *zip(around, expr.shape, strict=True))
        self.names |= names_in([expr])
        limits = [tuple(limit) for limit in expr.args[1:]] if isinstance(expr, TensorComprehension) else []
        fresh = {index: self._fresh(index, "axis", k) for k, (index, _) in enumerate(limits)}
        axes = tuple(Binder(fresh[index], sympy.S.Zero, sympy.sympify(n) - 1) for index, n in limits)
        return axes, self._renamed(expr.args[0] if limits else expr).xreplace(fresh)

    def _fresh(self, index: Any, name: str, number: int) -> Expr:
        own = self.loops.named.get(index, index.name)
        if own not in self.blocks:
            return _index(name, number)
        index = _index(f"{name} {own}", number)
        self.loops.named[index] = own
        return index

    def _renamed(self, expr: Any) -> Any:
        """``expr`` with bound indices that are numbered from the innermost sum on."""
        heights: dict[Any, int] = {}

        def change(old: Any, new: Any) -> Any:
            height = max((heights[arg] for arg in parts(old)), default=0)
            if isinstance(old, IndexedReduction):
                fresh = {}
                for index, _, _ in new.args[1:]:
                    fresh[index] = self._fresh(index, "sum", height)
                    height += 1
                limits = ((fresh[i], low.xreplace(fresh), high.xreplace(fresh)) for i, low, high in new.args[1:])
                new = new.func(new.args[0].xreplace(fresh), *limits)
            heights[old] = height
            whole = getattr(old, "tensor", old)
            is_composite = getattr(whole, "is_tensor_expr", False) and not isinstance(whole, TensorSymbol)
            if is_composite or (hasattr(old, "limits") and not isinstance(old, IndexedReduction)):
                shape = f" of shape {whole.shape}" if getattr(whole, "shape", ()) else ""
                raise UnsupportedError(
                    f"{type(whole).__name__} in {expr}: one entry needs the whole array{shape}, which no block of "
                    f"{_shown(self.blocks)} holds: compute it with another backend and give it as argument"
                )
            return new

        return rebuilt(expr, change)

    @once
    def _in_cases(self, expr: Any, binders: tuple[Binder, ...]) -> Walk:
        """``expr`` with the cases of periodic and clamped indices as conditions, so that each read is affine."""
        if isinstance(expr, TensorEntry):
            return self._entry_in_cases(expr, binders)
        if not expr.has(*CASES):
            return expr
        if isinstance(expr, IndexedReduction):
            binders = (*binders, *binders_of(expr))
        args = []
        for arg in expr.args:
            args.append((yield self._in_cases(arg, binders)))
        return expr if all(a is b for a, b in zip(args, expr.args, strict=True)) else expr.func(*args)

    def _entry_in_cases(self, entry: Any, binders: tuple[Binder, ...]) -> Any:
        sizes = {str(s) for extent in entry.tensor.shape for s in sympy.sympify(extent).free_symbols}
        is_named = not self.loops.named.keys().isdisjoint(entry.free_symbols)
        is_split = is_named or any(self.blocks.get(size) for size in sizes)
        if entry.tensor.dtype is int or not is_split or not entry.has(*CASES):
            return entry
        facts = tuple(row for binder in binders for row in limit_rows(*binder))
        found = index_cases(entry, facts, {})
        if found is None:
            found = index_cases(entry, facts, self.blocks)
            if found is None:
                return entry
            self.least |= {name: block for name, block in self.blocks.items() if block and name in sizes}
        return Choice(*found, (sympy.S.Zero, True))

    @once
    def _add(self, axes: tuple[Binder, ...], body: Expr) -> Walk:
        loops = self.loops.of(axes, (), ())
        active = tuple(loop for loop in loops if loop)
        whole = type(body) if isinstance(body, IndexedReduction) and not isinstance(body, IndexedSum) else IndexedSum
        if whole is not IndexedSum and any(own := self.loops.of(binders_of(body), axes, active)):
            inner = yield self._cut(body.args[0], (*axes, *binders_of(body)), (*active, *(o for o in own if o)))
            found = {frozenset(o for o in own if o): narrowed(body, inner, own)}
        else:
            found = yield self._linear(body, axes, active)
        number, self.results = self.results, self.results + 1
        for reduced, value in found.items():
            read = value.atoms(TensorSymbol) & self.levels.keys()
            level = 1 + max((self.levels[t] for t in read), default=-1)
            shown = tuple((a.index, a.high + 1, loop) for a, loop in zip(axes, loops, strict=True))
            self.parts.append(Part(number, shown, value, reduced, OPERATIONS[whole], level))
        return number

    # ------------------------------------------------------------------------ linear places, cuts

    @once
    def _splits(self, expr: Any, binders: tuple[Binder, ...]) -> Walk:
        """Whether a reduction over a split range is inside."""
        if not expr.has(IndexedReduction):
            return False
        if isinstance(expr, IndexedReduction):
            own = binders_of(expr)
            return any(self.loops.of(own, binders, ())) or (yield self._splits(expr.args[0], (*binders, *own)))
        for arg in expr.args:
            if (yield self._splits(arg, binders)):
                return True
        return False

    @once
    def _linear(self, expr: Any, binders: tuple[Binder, ...], active: tuple[Loop, ...]) -> Walk:
        """Values whose sum over their loops' blocks is ``expr``, by these loops."""
        if not (yield self._splits(expr, binders)):
            return {frozenset(): expr}
        if isinstance(expr, sympy.Add):
            found: dict[frozenset[Loop], Expr] = {}
            for term in expr.args:
                for loops, value in (yield self._linear(term, binders, active)).items():
                    found[loops] = found.get(loops, sympy.S.Zero) + value
            return found
        if isinstance(expr, IndexedSum):
            return (yield self._linear_sum(expr, binders, active))
        if isinstance(expr, sympy.Mul):
            return (yield self._linear_product(expr, binders, active))
        if isinstance(expr, Piecewise):
            branches = []
            for value, condition in expr.args:
                values = yield self._linear(value, binders, active)
                branches.append((values, (yield self._cut(condition, binders, active))))
            kinds = dict.fromkeys(loops for values, _ in branches for loops in values)
            return {k: Choice(*((values.get(k, sympy.S.Zero), c) for values, c in branches)) for k in kinds}
        return {frozenset(): (yield self._cut(expr, binders, active))}

    def _linear_sum(self, expr: Any, binders: tuple[Binder, ...], active: tuple[Loop, ...]) -> Walk:
        own = self.loops.of(binders_of(expr), binders, active)
        split = tuple(loop for loop in own if loop)
        if split and not self.loops.split_indices(binders) <= expr.free_symbols:
            # Once for each block of the indices that it depends on, not for each block of all.
            return {frozenset(): (yield self._cut(expr, binders, active))}
        inner = yield self._linear(expr.args[0], (*binders, *binders_of(expr)), (*active, *split))
        return {loops.union(split): narrowed(expr, value, own) for loops, value in inner.items()}

    def _linear_product(self, expr: Any, binders: tuple[Binder, ...], active: tuple[Loop, ...]) -> Walk:
        split_factors = []
        for factor in expr.args:
            if (yield self._splits(factor, binders)):
                split_factors.append(factor)
        linear = [f for f in split_factors if isinstance(f, IndexedSum | sympy.Add | Piecewise)]
        linear = linear if len(linear) == 1 else []
        rest = sympy.Mul(*(f for f in expr.args if f not in split_factors))
        for factor in split_factors:
            if factor not in linear:
                rest *= yield self._cut(factor, binders, active)
        if not linear:
            return {frozenset(): rest}
        return {k: value * rest for k, value in (yield self._linear(linear[0], binders, active)).items()}

    @once
    def _cut(self, expr: Any, binders: tuple[Binder, ...], active: tuple[Loop, ...]) -> Walk:
        """``expr`` with entries of stages in place of the outermost split reductions."""
        if not (yield self._splits(expr, binders)):
            return expr
        if isinstance(expr, IndexedReduction):
            if any(self.loops.of(binders_of(expr), binders, active)):
                shifted = yield self._shifted_exponential(expr, binders)
                return shifted or (yield self._stage(expr, binders))
            body = yield self._cut(expr.args[0], (*binders, *binders_of(expr)), active)
            return expr.func(body, *expr.args[1:])
        args = []
        for arg in expr.args:
            args.append((yield self._cut(arg, binders, active)))
        if isinstance(expr, sympy.log):
            factors = sympy.Mul.make_args(args[0])
            powers = [f for f in factors if isinstance(f, sympy.exp)]
            rest = sympy.Mul(*(f for f in factors if f not in powers))
            return sympy.Add(*(f.args[0] for f in powers), sympy.log(rest))
        return expr.func(*args)

    def _shifted_exponential(self, total: Any, binders: tuple[Binder, ...]) -> Walk:
        """``exp(M)*sum exp(f - M)`` with the maximum ``M`` of ``f`` for ``sum exp(f)``, which may overflow."""
        factors = sympy.Mul.make_args(total.args[0])
        powers = [f for f in factors if isinstance(f, sympy.exp)]
        if not powers or not isinstance(total, IndexedSum):
            return None
        exponent = sympy.Add(*(f.args[0] for f in powers))
        largest = yield self._stage(IndexedMax(exponent, *total.args[1:]), binders)
        # Where all are infinitely negative there is nothing to take away.
        largest = Choice((largest, largest > -(sympy.Integer(10) ** 308)), (0, True))
        rest = sympy.Mul(*(f for f in factors if f not in powers))
        shifted = IndexedSum(rest * sympy.exp(exponent - largest), *total.args[1:])
        return (yield self._stage(shifted, binders)) * sympy.exp(largest)

    @once
    def _stage(self, total: Any, binders: tuple[Binder, ...]) -> Walk:
        """An entry of the array that holds ``total`` for all values of the indices around it."""
        around = [b for b in binders if b.index in total.free_symbols]
        axes, lows, names = [], [], {}
        for k, binder in enumerate(around):
            range_of = self.loops.range_of(binder.index, binders)
            low, high = (one_form(range_of, side, binders) for side in ("lows", "highs"))
            if low is None or high is None:
                raise UnsupportedError(
                    f"{total} is reduced over a split range inside of a function, and the index {binder.index} around "
                    "it has no range with one lower and one upper end: compute the sum as a comprehension of its own "
                    "with backend='dask', and give its result as argument"
                )
            index = self._fresh(binder.index, "axis", k)
            axes.append(Binder(index, sympy.S.Zero, high - low))
            lows.append(low)
            names[binder.index] = index + low
        key = tuple(axes), total.xreplace(names)
        if key not in self.stages:
            number = yield self._add(*key)
            self.stages[key] = symbol = TensorSymbol(f"stage{len(self.stages)}_", tuple(a.high + 1 for a in axes))
            self.number_of[symbol] = number
            self.levels[symbol] = max(part.level for part in self.parts if part.result == number)
        return self.stages[key][tuple(b.index - low for b, low in zip(around, lows, strict=True))]


def _shown(blocks: Mapping[str, int | None]) -> str:
    return "blocks={" + ", ".join(f"{name}: {block}" for name, block in blocks.items()) + "}"


# ---------------------------------------------------------------------------- walks


class Choice(Piecewise):  # type: ignore[misc]
    """A `Piecewise` whose conditions stay as they are.

    SymPy writes ``x + 5 == m`` as ``x == m - 5`` whenever it builds one, which is another condition between doubles.
    """

    def __new__(cls, *args: Any) -> Any:
        return super().__new__(cls, *args, evaluate=False)


def rebuilt(expr: Any, change: Callable[[Any, Any], Any]) -> Any:
    """``expr`` with ``change(old, new)`` for each node, arguments first; ``new`` has the changed ones, in `Choice`."""
    done: dict[Any, Any] = {}
    for node in postorder(expr, done):
        old = parts(node)
        new = [done[arg] for arg in old]
        kind = Choice if isinstance(node, Piecewise) else node.func
        same = kind is node.func and all(a is b for a, b in zip(old, new, strict=True))
        done[node] = change(node, node if same else kind(*new))
    return done[expr]
