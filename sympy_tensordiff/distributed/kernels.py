"""One compiled function for all blocks of the parts that share their loops.

The origin and the extent of a block and the first entries of what it reads are integer arguments. Where the footprint
begins and ends at one form each, the kernel knows these forms: a row of a block is then a row of its part of the
argument, and products of matrices stay calls of the library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import sympy
from sympy import Expr

from sympy_tensordiff.codegen.api import lambdify
from sympy_tensordiff.distributed.footprints import (
    Ranges,
    Rows,
    affine,
    limit_rows,
    never_empty,
    ranges_of,
    reads_of,
    single_form,
    variable,
)
from sympy_tensordiff.distributed.partials import Loop, Part
from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.integer.affine import Row
from sympy_tensordiff.symbolic.sums import IndexedReduction
from sympy_tensordiff.symbolic.tensors import TensorComprehension, TensorEntry, TensorSymbol


class Cut(NamedTuple):
    """The part of an axis that a block reads: its first entry and its extent within the kernel."""

    start: Expr
    extent: Expr


class Kernel:
    """The function of one group of parts; ``cuts`` has, for each argument it reads, one cut or None for each axis."""

    def __init__(
        self, parts: Sequence[Part], args: Sequence[Any], split: Mapping[str, Any], backend: str, options: Any
    ):
        self.parts = tuple(parts)
        self.loops = loops_of(parts[0])
        self.sizes = sorted(
            {
                s
                for a in args
                if isinstance(a, TensorSymbol)
                for n in (*a.shape, a.below or 0)
                for s in sympy.sympify(n).free_symbols
            }
            | {s for part in parts for _, n, _ in part.axes for s in sympy.sympify(n).free_symbols},
            key=str,
        )
        self.facts = self._facts()
        self.args: list[Any] = []
        self.cuts: dict[Any, list[Cut | None]] = {}
        self.reads: dict[Any, tuple[Ranges, ...]] = {}
        for arg in args:
            if any(part.value.has(arg) or _shape_has(part, arg) for part in parts):
                self.args.append(arg)
                if isinstance(arg, TensorSymbol):
                    self.cuts[arg] = self._cuts(arg, split)
        self.local = {arg: _block_of(arg, cuts) for arg, cuts in self.cuts.items()}
        results = tuple(self._shifted(part) for part in parts)
        given = [self.local.get(arg, arg) for arg in self.args]
        present = {s for e in results for s in e.free_symbols}
        for tensor in self.local.values():
            present |= {s for n in (*tensor.shape, tensor.below or 0) for s in sympy.sympify(n).free_symbols}
        own = [s for loop in self.loops for s in (loop.origin, loop.extent)]
        starts = [c.start for cuts in self.cuts.values() for c in cuts if c and c.start in present.difference(own)]
        self.numbers = [s for s in (*own, *starts, *self.sizes) if s in present and s not in given]
        self.function = lambdify([*given, *self.numbers], results, backend, **options)

    def _facts(self) -> Rows:
        """Sizes are positive; a block is in the range of its loop."""
        rows = [Row("ge", affine(size - 1)) for size in self.sizes]
        for loop in self.loops:
            first, last = affine(loop.origin), affine(loop.origin + loop.extent - 1)
            rows.append(Row("ge", affine(loop.extent - 1)))
            rows += [Row("ge", d * first - form) for form, d in loop.range.lows]
            rows += [Row("ge", form - d * last) for form, d in loop.range.highs]
        return tuple(rows)

    def _cuts(self, tensor: TensorSymbol, split: Mapping[str, Any]) -> list[Cut | None]:
        found: dict[Ranges, None] = {}
        for part in self.parts:
            outer = [index for index, _, _ in part.axes]
            rows: list[Row] = []
            for index, extent, loop in part.axes:
                ends = (loop.origin, loop.origin + loop.extent - 1) if loop else (sympy.S.Zero, extent - 1)
                rows += limit_rows(index, *ends)
            for read in dict.fromkeys(reads_of(part.value, tuple(rows))):
                if read.entry.tensor == tensor:
                    found[ranges_of(read, self.facts, outer)] = None
        self.reads[tensor] = tuple(found)
        always = all(
            not r.others and not r.rows and all(a and never_empty(a, self.facts) for a in r.axes) for r in found
        )
        return [
            self._cut(tensor, axis, tuple(dict.fromkeys(r.axes[axis] for r in found)), split, always)
            for axis in range(tensor.rank if found else 0)
        ] or [None] * tensor.rank

    def _cut(self, tensor: TensorSymbol, axis: int, ranges: Any, split: Mapping[str, Any], always: bool) -> Cut | None:
        extent = sympy.sympify(tensor.shape[axis])
        if None in ranges:
            if any(split.get(s.name) is not None for s in extent.free_symbols):
                raise UnsupportedError(
                    f"data or an index that is not affine select the entries of {tensor} on axis {axis}, whose extent "
                    f"{extent} is split: every block may need all of it. Do not split this size (blocks={{{extent}: "
                    f"None}}), so that every worker loads all of {tensor}, or gather {tensor} by data before the call "
                    "and give the gathered array"
                )
            return None
        low, high = single_form(ranges, "lows"), single_form(ranges, "highs")
        symbols = {variable(s): s for s in (*self.sizes, *(s for p in self.loops for s in (p.origin, p.extent)))}
        if low is not None and high is not None and always and low.atoms() | high.atoms() <= symbols.keys():
            first, last = (sympy.Add(f.constant, *(c * symbols[v] for v, c in f.terms)) for f in (low, high))
            whole = first == 0 and sympy.expand(last - extent + 1) == 0
            return None if whole else Cut(first, sympy.expand(last - first + 1))
        start = sympy.Dummy(f"{tensor.name}_start{axis}", integer=True)
        return Cut(start, sympy.Dummy(f"{tensor.name}_size{axis}", integer=True, positive=True))

    # ------------------------------------------------------------------------ the expression of one block

    def _shifted(self, part: Part) -> Any:
        """The part with indices that count from the block's origin and entries of the arguments' parts."""
        body = self._relative(part.value)
        body = body.xreplace({index: index + loop.origin for index, _, loop in part.axes if loop})
        body = body.replace(lambda e: isinstance(e, TensorEntry) and e.tensor in self.cuts, self._local_entry)
        limits = [(index, loop.extent if loop else extent) for index, extent, loop in part.axes]
        return TensorComprehension(body, *limits) if limits else body

    def _relative(self, expr: Any) -> Any:
        """Sums over a block as sums from 0 on."""
        if not expr.has(IndexedReduction):
            return expr
        args = [self._relative(arg) for arg in expr.args] if not isinstance(expr, IndexedReduction) else []
        if args:
            return expr.func(*args)
        moved, limits = {}, []
        for index, low, high in expr.args[1:]:
            loop = next((one for one in self.loops if low.has(one.origin)), None)
            if loop:
                moved[index] = index + loop.origin
                lows = low.args if isinstance(low, sympy.Max) else (low,)
                highs = high.args if isinstance(high, sympy.Min) else (high,)
                low = sympy.Max(*(sympy.expand(end - loop.origin) for end in lows))
                high = sympy.Min(*(sympy.expand(end - loop.origin) for end in highs))
            limits.append((index, low, high))
        body = self._relative(expr.args[0]).xreplace(moved)
        return expr.func(body, *((i, low.xreplace(moved), high.xreplace(moved)) for i, low, high in limits))

    def _local_entry(self, entry: Any) -> Any:
        cuts = self.cuts[entry.tensor]
        places = [sympy.expand(i - c.start) if c else i for i, c in zip(entry.indices, cuts, strict=True)]
        return self.local[entry.tensor][tuple(places)]

    # ------------------------------------------------------------------------ one block in numbers

    def values(self, block: Mapping[Loop, tuple[int, int]], sizes: Mapping[str, int]) -> dict[str, int]:
        """The integers of a block, ``(origin, extent)`` for each loop, by the names of their variables."""
        known = dict(sizes)
        for loop, (origin, extent) in block.items():
            known[variable(loop.origin)], known[variable(loop.extent)] = origin, extent
        return known

    def slices(
        self, known: dict[str, int], shapes: Mapping[Any, tuple[int, ...]], *, load: bool = True
    ) -> dict[Any, tuple[slice, ...]]:
        """What the block reads of each argument; ``known`` gets the first entries.

        A block that reads nothing of an argument loads one entry, since kernels take no empty array; without ``load``
        its slices are empty.
        """
        found = {}
        for arg, cuts in self.cuts.items():
            alive = [ranges for read in self.reads[arg] if (ranges := read.at(known)) is not None]
            own = []
            for axis, (cut, length) in enumerate(zip(cuts, shapes[arg], strict=True)):
                each = [ranges[axis] for ranges in alive] if cut else []
                first = max(0, min((r.start for r in each if r), default=0))
                stop = min(length, max((r.stop for r in each if r), default=1)) if cut else length
                own.append(slice(first, max(first + 1, stop)))
                if cut and cut.start.is_Dummy and variable(cut.start) not in known:
                    known[variable(cut.start)] = first
            nothing = not alive and not load
            found[arg] = tuple(slice(0, 0) for _ in own) if nothing else tuple(own)
        return found

    def integers(self, known: Mapping[str, int]) -> list[int]:
        return [known[variable(number)] for number in self.numbers]


def loops_of(part: Part) -> tuple[Loop, ...]:
    """The loops of a part in the order in which they were read."""
    loops = {loop for _, _, loop in part.axes if loop} | part.loops
    return tuple(sorted(loops, key=lambda loop: str(loop.origin)))


def _shape_has(part: Part, arg: Any) -> bool:
    return isinstance(arg, sympy.Symbol) and any(sympy.sympify(n).has(arg) for _, n, _ in part.axes)


def _block_of(tensor: TensorSymbol, cuts: Sequence[Cut | None]) -> TensorSymbol:
    if not any(cuts):
        return tensor
    shape = tuple(cut.extent if cut else n for cut, n in zip(cuts, tensor.shape, strict=True))
    integers = {"dtype": int, "below": tensor.below} if tensor.dtype is int else {}
    return TensorSymbol(f"{tensor.name}_block", shape, **integers)
