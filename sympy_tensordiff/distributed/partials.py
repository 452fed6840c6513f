"""Split results into partial results: block loops, reductions over blocks, and arrays computed beforehand (stages).

A sum over a split range stays in the kernel if the result is linear in it: the kernel sums over one block, and the
blocks are added. Inside a function it becomes an array of its own, computed beforehand (a *stage*); so do maxima,
minima and products, unless one of them is the whole result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import sympy
from sympy import Expr, Piecewise

from sympy_tensordiff.distributed.footprints import PIECEWISE_AFFINE, index_cases, range_constraints
from sympy_tensordiff.distributed.loops import BlockLoop, BlockLoops, range_end, restrict_to_block
from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.structure.terms import to_index_notation
from sympy_tensordiff.symbolic.expressions.traversal import Recursion, names_in, parts, postorder, trampoline
from sympy_tensordiff.symbolic.index_notation.limits import IndexRange
from sympy_tensordiff.symbolic.index_notation.sums import (
    IndexedMax,
    IndexedMin,
    IndexedProduct,
    IndexedReduction,
    IndexedSum,
)
from sympy_tensordiff.symbolic.index_notation.tensors import TensorComprehension, TensorEntry, TensorSymbol

Walk: TypeAlias = Recursion[Any]

OPERATIONS: Mapping[Any, str] = {
    IndexedSum: "add",
    IndexedProduct: "multiply",
    IndexedMax: "maximum",
    IndexedMin: "minimum",
}


class PartialResult(NamedTuple):
    """A part of a result that is computed block by block: each block gives a part of an array or, with ``loops``, a
    value that is reduced over the blocks by ``operation``, such as a sum.
    """

    result: int
    axes: tuple[tuple[Expr, Expr, BlockLoop | None], ...]
    value: Expr
    loops: frozenset[BlockLoop]
    operation: str
    level: int

    @property
    def indices(self) -> list[Expr]:
        """The indices of the partial result's axes."""
        return [index for index, _, _ in self.axes]

    def position(self, loops: Sequence[BlockLoop], block: Sequence[int]) -> tuple[int, ...]:
        """Return the position, in the result, of the chunk to which a block contributes. It has the numbers ``block``
        of the block along ``loops``, except along those over which the result is summed or otherwise reduced.
        """
        return tuple(k for loop, k in zip(loops, block, strict=True) if loop not in self.loops)


@cache
def _numbered_index(name: str, number: int) -> Expr:
    """Return an integer dummy for the key ``(name, number)``: always the same one for the same key, so that sums that
    differ only in their bound indices become equal expressions.
    """
    return sympy.Dummy(name, integer=True)


def memoise_walk(walk: Callable[..., Walk]) -> Callable[..., Walk]:
    """Return the recursive method ``walk`` as one that caches its results by its arguments (a decorator)."""

    def visit(self: ResultSplitter, *args: Any) -> Walk:
        """Return the result of the method ``walk`` for the arguments `args`, from the cache if it is there; otherwise
        call ``walk`` and cache its result.
        """
        key = (walk, *args)
        if key not in self.memo:
            self.memo[key] = yield walk(self, *args)
        return self.memo[key]

    return visit


class ResultSplitter:
    """Splits expressions into partial results (``parts``), each computed block by block. A reduction over blocks that
    must be complete before it is used becomes an array of its own, computed before (``stages``).

    ``min_sizes`` are the smallest sizes for which periodic indices are read correctly.
    """

    def __init__(self, blocks: Mapping[str, int | None]) -> None:
        self.blocks = blocks
        self.parts: list[PartialResult] = []
        self.results = 0
        self.stages: dict[Any, TensorSymbol] = {}
        self.result_of_stage: dict[TensorSymbol, int] = {}
        self.levels: dict[TensorSymbol, int] = {}
        self.loops = BlockLoops(blocks)
        self.names: set[str] = set()
        self.min_sizes: dict[str, int] = {}
        self.memo: dict[Any, Any] = {}

    def add(self, expr: Any) -> int:
        """Add the partial results of ``expr``; return the number of the result."""
        axes, body = self.to_entry(expr)
        return int(trampoline(self._add_result(axes, trampoline(self._split_index_cases(body, axes)))))

    def to_entry(self, expr: Any) -> tuple[tuple[IndexRange, ...], Expr]:
        """Return the axes of a tensor expression and the formula of its entry in index notation."""
        expr = to_index_notation(expr)
        if isinstance(expr, TensorSymbol) and expr.rank:
            around = sympy.symbols(f"axis:{expr.rank}", integer=True)
            expr = TensorComprehension(expr[around], *zip(around, expr.shape, strict=True))
        self.names |= names_in([expr])
        ranges = expr.ranges() if isinstance(expr, TensorComprehension) else ()
        fresh = {limit.index: self._number_index(limit.index, "axis", k) for k, limit in enumerate(ranges)}
        axes = tuple(limit._replace(index=fresh[limit.index]) for limit in ranges)
        return axes, self._rename_bound_indices(expr.args[0] if ranges else expr).xreplace(fresh)

    def _number_index(self, index: Any, name: str, number: int) -> Expr:
        """Return a new index to replace ``index``, the same for equal pairs ``(name, number)``, so that sums that
        differ only in index names become equal. If ``self.blocks`` has a block size for ``index``, the new index gets
        it, too.
        """
        own = self.loops.named_indices.get(index, index.name)
        if own not in self.blocks:
            return _numbered_index(name, number)
        index = _numbered_index(f"{name} {own}", number)
        self.loops.named_indices[index] = own
        return index

    def _rename_bound_indices(self, expr: Any) -> Any:
        """Return ``expr`` with its bound indices renamed to numbered ones, so that equal sums are equal expressions.
        Raise `UnsupportedError` for a node that needs a whole array for one entry, such as a recurrence.
        """
        heights: dict[Any, int] = {}

        def change(old: Any, new: Any) -> Any:
            """Return ``new``, the node ``old`` with rebuilt arguments, with standard names for the indices that a
            reduction binds, numbered from the innermost reduction. Raise `UnsupportedError` if an entry of ``old``
            needs a whole array.
            """
            height = max((heights[arg] for arg in parts(old)), default=0)
            if isinstance(old, IndexedReduction):
                fresh = {}
                for index, _, _ in new.args[1:]:
                    fresh[index] = self._number_index(index, "sum", height)
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
                    f"{_blocks_text(self.blocks)} holds: compute it with another backend and give it as argument"
                )
            return new

        return rebuild(expr, change)

    @memoise_walk
    def _split_index_cases(self, expr: Any, binders: tuple[IndexRange, ...]) -> Walk:
        """Return ``expr`` with entries at periodic or clamped indices, such as ``x[(i + 1) mod n]``, written as a
        choice of entries at affine indices. ``binders`` are the index ranges around ``expr``.
        """
        if isinstance(expr, TensorEntry):
            return self._split_entry_cases(expr, binders)
        if not expr.has(*PIECEWISE_AFFINE):
            return expr
        if isinstance(expr, IndexedReduction):
            binders = (*binders, *expr.ranges())
        args = []
        for arg in expr.args:
            args.append((yield self._split_index_cases(arg, binders)))
        return expr if all(a is b for a, b in zip(args, expr.args, strict=True)) else expr.func(*args)

    def _split_entry_cases(self, entry: Any, binders: tuple[IndexRange, ...]) -> Any:
        """Return ``entry``, a read at a periodic or clamped index, as a choice between entries at affine indices.
        Unchanged if its tensor is not split into blocks, or if there is no such choice.

        ``binders`` are the index ranges around it.
        """
        sizes = {str(s) for extent in entry.tensor.shape for s in sympy.sympify(extent).free_symbols}
        is_named = not self.loops.named_indices.keys().isdisjoint(entry.free_symbols)
        is_split = is_named or any(self.blocks.get(size) for size in sizes)
        if entry.tensor.dtype is int or not is_split or not entry.has(*PIECEWISE_AFFINE):
            return entry
        facts = range_constraints(binders)
        found = index_cases(entry, facts, {})
        if found is None:
            found = index_cases(entry, facts, self.blocks)
            if found is None:
                return entry
            self.min_sizes |= {name: block for name, block in self.blocks.items() if block and name in sizes}
        return UnevaluatedPiecewise(*found, (sympy.S.Zero, True))

    @memoise_walk
    def _add_result(self, axes: tuple[IndexRange, ...], body: Expr) -> Walk:
        """Split the array with the index ranges ``axes`` and the entries ``body`` into partial results, which are
        computed block by block, and append these to ``parts``. Return the number of the array.
        """
        loops = self.loops.loops_for(axes, (), ())
        active = tuple(loop for loop in loops if loop)
        reduction_class = (
            type(body) if isinstance(body, IndexedReduction) and not isinstance(body, IndexedSum) else IndexedSum
        )
        if reduction_class is not IndexedSum and any(own := self.loops.loops_for(body.ranges(), axes, active)):
            inner = yield self._replace_by_stages(
                body.args[0], (*axes, *body.ranges()), (*active, *(o for o in own if o))
            )
            found = {frozenset(o for o in own if o): restrict_to_block(body, inner, own)}
        else:
            found = yield self._linear_parts(body, axes, active)
        number, self.results = self.results, self.results + 1
        for reduced, value in found.items():
            stages_read = value.atoms(TensorSymbol) & self.levels.keys()
            level = 1 + max((self.levels[t] for t in stages_read), default=-1)
            named_axes = tuple((a.index, a.high + 1, loop) for a, loop in zip(axes, loops, strict=True))
            self.parts.append(PartialResult(number, named_axes, value, reduced, OPERATIONS[reduction_class], level))
        return number

    # ------------------------------------------------------------------------ linear parts and stages

    @memoise_walk
    def _has_split_reduction(self, expr: Any, binders: tuple[IndexRange, ...]) -> Walk:
        """Return whether ``expr``, inside of the index ranges ``binders``, contains a reduction over a range that is
        split into blocks.
        """
        if not expr.has(IndexedReduction):
            return False
        if isinstance(expr, IndexedReduction):
            own = expr.ranges()
            return any(self.loops.loops_for(own, binders, ())) or (
                yield self._has_split_reduction(expr.args[0], (*binders, *own))
            )
        for arg in expr.args:
            if (yield self._has_split_reduction(arg, binders)):
                return True
        return False

    @memoise_walk
    def _linear_parts(self, expr: Any, binders: tuple[IndexRange, ...], active: tuple[BlockLoop, ...]) -> Walk:
        """Write ``expr`` as a sum of terms, each of which is computed block by block and summed over the blocks of some
        loops. Return a dictionary from sets of loops to terms. ``binders`` and ``active`` are the index ranges and
        block loops around ``expr``.
        """
        if not (yield self._has_split_reduction(expr, binders)):
            return {frozenset(): expr}
        if isinstance(expr, sympy.Add):
            found: dict[frozenset[BlockLoop], Expr] = {}
            for term in expr.args:
                for loops, value in (yield self._linear_parts(term, binders, active)).items():
                    found[loops] = found.get(loops, sympy.S.Zero) + value
            return found
        if isinstance(expr, IndexedSum):
            return (yield self._linear_parts_of_sum(expr, binders, active))
        if isinstance(expr, sympy.Mul):
            return (yield self._linear_parts_of_product(expr, binders, active))
        if isinstance(expr, Piecewise):
            branches = []
            for value, condition in expr.args:
                values = yield self._linear_parts(value, binders, active)
                branches.append((values, (yield self._replace_by_stages(condition, binders, active))))
            kinds = dict.fromkeys(loops for values, _ in branches for loops in values)
            return {
                k: UnevaluatedPiecewise(*((values.get(k, sympy.S.Zero), c) for values, c in branches)) for k in kinds
            }
        return {frozenset(): (yield self._replace_by_stages(expr, binders, active))}

    def _linear_parts_of_sum(self, expr: Any, binders: tuple[IndexRange, ...], active: tuple[BlockLoop, ...]) -> Walk:
        """Write the indexed sum ``expr`` as a sum of terms, each of which is summed over the blocks of some loops.
        Return a dictionary from sets of loops to terms.

        ``binders`` and ``active`` are the ranges and block loops around ``expr``. If it depends on only some of their
        split indices, an array of its own is computed first (a stage).
        """
        own = self.loops.loops_for(expr.ranges(), binders, active)
        split = tuple(loop for loop in own if loop)
        if split and not self.loops.split_indices(binders) <= expr.free_symbols:
            # Computed once for each block of its own indices, not for each block of all indices.
            return {frozenset(): (yield self._replace_by_stages(expr, binders, active))}
        inner = yield self._linear_parts(expr.args[0], (*binders, *expr.ranges()), (*active, *split))
        return {loops.union(split): restrict_to_block(expr, value, own) for loops, value in inner.items()}

    def _linear_parts_of_product(
        self, expr: Any, binders: tuple[IndexRange, ...], active: tuple[BlockLoop, ...]
    ) -> Walk:
        """Write the product ``expr`` as a sum of terms, each of which is summed over the blocks of some loops. Return a
        dictionary from sets of loops to terms.

        ``binders`` and ``active`` are the index ranges and the block loops around ``expr``.

        One factor can be split, if it is the only sum with terms over blocks. A factor that cannot be split so is first
        computed as an array of its own (a stage).
        """
        split_factors = []
        for factor in expr.args:
            if (yield self._has_split_reduction(factor, binders)):
                split_factors.append(factor)
        linear = [f for f in split_factors if isinstance(f, IndexedSum | sympy.Add | Piecewise)]
        linear = linear if len(linear) == 1 else []
        rest = sympy.Mul(*(f for f in expr.args if f not in split_factors))
        for factor in split_factors:
            if factor not in linear:
                rest *= yield self._replace_by_stages(factor, binders, active)
        if not linear:
            return {frozenset(): rest}
        return {k: value * rest for k, value in (yield self._linear_parts(linear[0], binders, active)).items()}

    @memoise_walk
    def _replace_by_stages(self, expr: Any, binders: tuple[IndexRange, ...], active: tuple[BlockLoop, ...]) -> Walk:
        """Return ``expr`` with each outermost reduction over a range that is split into blocks replaced by an entry of
        an array that is computed before (a stage).

        A sum of exponentials is replaced by ``exp(M)`` times such an entry. ``binders`` are the index ranges around
        ``expr``, and ``active`` the block loops around it.
        """
        if not (yield self._has_split_reduction(expr, binders)):
            return expr
        if isinstance(expr, IndexedReduction):
            if any(self.loops.loops_for(expr.ranges(), binders, active)):
                shifted = yield self._shifted_exponential(expr, binders)
                return shifted or (yield self._stage_entry(expr, binders))
            body = yield self._replace_by_stages(expr.args[0], (*binders, *expr.ranges()), active)
            return expr.func(body, *expr.args[1:])
        args = []
        for arg in expr.args:
            args.append((yield self._replace_by_stages(arg, binders, active)))
        if isinstance(expr, sympy.log):
            factors = sympy.Mul.make_args(args[0])
            powers = [f for f in factors if isinstance(f, sympy.exp)]
            rest = sympy.Mul(*(f for f in factors if f not in powers))
            return sympy.Add(*(f.args[0] for f in powers), sympy.log(rest))
        return expr.func(*args)

    def _shifted_exponential(self, total: Any, binders: tuple[IndexRange, ...]) -> Walk:
        """Return ``total``, if it is a sum of ``exp(f)``, as ``exp(M)*sum exp(f - M)`` with the maximum ``M`` of ``f``,
        which does not overflow. Return None for other expressions.

        ``binders`` are the index ranges around it.
        """
        factors = sympy.Mul.make_args(total.args[0])
        powers = [f for f in factors if isinstance(f, sympy.exp)]
        if not powers or not isinstance(total, IndexedSum):
            return None
        exponent = sympy.Add(*(f.args[0] for f in powers))
        largest = yield self._stage_entry(IndexedMax(exponent, *total.args[1:]), binders)
        # If all values are negative infinity, subtract 0.
        largest = UnevaluatedPiecewise((largest, largest > -(sympy.Integer(10) ** 308)), (0, True))
        rest = sympy.Mul(*(f for f in factors if f not in powers))
        shifted = IndexedSum(rest * sympy.exp(exponent - largest), *total.args[1:])
        return (yield self._stage_entry(shifted, binders)) * sympy.exp(largest)

    @memoise_walk
    def _stage_entry(self, total: Any, binders: tuple[IndexRange, ...]) -> Walk:
        """Return the entry of a new array (a stage) that replaces the sum ``total``. The array stores the sum for all
        values of its free indices, whose ranges are among the ``binders`` around it.
        """
        around = [b for b in binders if b.index in total.free_symbols]
        axes, lows, names = [], [], {}
        for k, binder in enumerate(around):
            bounds = self.loops.range_of(binder.index, binders)
            low, high = (range_end(bounds, side, binders) for side in ("lows", "highs"))
            if low is None or high is None:
                raise UnsupportedError(
                    f"{total} is reduced over a split range inside of a function, and the index {binder.index} around "
                    "it has no range with one lower and one upper end: compute the sum as a comprehension of its own "
                    "with backend='dask', and give its result as argument"
                )
            index = self._number_index(binder.index, "axis", k)
            axes.append(IndexRange(index, sympy.S.Zero, high - low))
            lows.append(low)
            names[binder.index] = index + low
        key = tuple(axes), total.xreplace(names)
        if key not in self.stages:
            number = yield self._add_result(*key)
            self.stages[key] = symbol = TensorSymbol(f"stage{len(self.stages)}_", tuple(a.high + 1 for a in axes))
            self.result_of_stage[symbol] = number
            self.levels[symbol] = max(part.level for part in self.parts if part.result == number)
        return self.stages[key][tuple(b.index - low for b, low in zip(around, lows, strict=True))]


def _blocks_text(blocks: Mapping[str, int | None]) -> str:
    """Return ``blocks`` as text for messages."""
    return "blocks={" + ", ".join(f"{name}: {block}" for name, block in blocks.items()) + "}"


# ---------------------------------------------------------------------------- walks


class UnevaluatedPiecewise(Piecewise):  # type: ignore[misc]
    """A `Piecewise` that is built unevaluated, so that SymPy does not rewrite its conditions.

    SymPy rewrites ``x + 5 == m`` as ``x == m - 5``, which is not the same condition between doubles.
    """

    def __new__(cls, *args: Any) -> Any:
        return super().__new__(cls, *args, evaluate=False)


def rebuild(expr: Any, change: Callable[[Any, Any], Any]) -> Any:
    """Rebuild ``expr`` bottom-up: replace each node ``old`` by ``change(old, new)``, where ``new`` is the node with its
    arguments already replaced. Return the new expression.
    """
    rebuilt: dict[Any, Any] = {}
    for node in postorder(expr, rebuilt):
        old = parts(node)
        new = [rebuilt[arg] for arg in old]
        kind = UnevaluatedPiecewise if isinstance(node, Piecewise) else node.func
        same = kind is node.func and all(a is b for a, b in zip(old, new, strict=True))
        rebuilt[node] = change(node, node if same else kind(*new))
    return rebuilt[expr]
