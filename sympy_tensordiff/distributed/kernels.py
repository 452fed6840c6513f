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
from sympy_tensordiff.codegen.ir.rename import unique
from sympy_tensordiff.distributed.footprints import (
    Ranges,
    affine,
    domains_of,
    limit_rows,
    ranges_of,
    reads_of,
    single_form,
    variable,
    written,
)
from sympy_tensordiff.distributed.loops import Loop
from sympy_tensordiff.distributed.partials import Part, rebuilt
from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.integer.affine import Row
from sympy_tensordiff.integer.nests import Bounds
from sympy_tensordiff.integer.rows import Rows
from sympy_tensordiff.integer.values import never_empty
from sympy_tensordiff.symbolic.sums import IndexedReduction
from sympy_tensordiff.symbolic.tensors import TensorComprehension, TensorEntry, TensorSymbol

SMALL = 4096
"""Tensors of so few entries, by numbers, are an input as they are: to cut them costs more than to copy them."""


class Cut(NamedTuple):
    """The part of an axis that a block reads: its first entry and its extent within the kernel."""

    start: Expr
    extent: Expr


class Input(NamedTuple):
    """An argument of a kernel: a scalar, or the entries of a tensor that blocks read near one another.

    ``x[i] - x[j]`` with both indices in blocks has two parts of ``x`` as inputs, since their hull may be all of ``x``.
    """

    arg: Any
    entries: frozenset[Any] = frozenset()
    cuts: tuple[Cut | None, ...] = ()
    ranges: tuple[Ranges, ...] = ()
    local: Any = None
    """The symbol within the kernel."""

    def slices(self, known: Mapping[str, int], shape: Sequence[int], *, exact: bool = True) -> Any:
        """What a block reads, a slice for each axis, or None."""
        alive = [ranges for read in self.ranges if (ranges := read.at(known, exact=exact)) is not None]
        if not alive:
            return None
        own = []
        for axis, length in enumerate(shape):
            each = [range(length) if ranges[axis] is None else ranges[axis] for ranges in alive]
            own.append(slice(min(r.start for r in each), max(r.stop for r in each)))
        return tuple(own)


class Kernel:
    """The function of one group of parts, on the parts of arguments that ``inputs`` lists."""

    def __init__(
        self, parts: Sequence[Part], args: Sequence[Any], split: Mapping[str, Any], backend: str, options: Any
    ) -> None:
        self.parts = tuple(parts)
        self.loops = loops_of(parts[0])
        extents = [n for a in args if isinstance(a, TensorSymbol) for n in (*a.shape, a.below or 0)]
        extents += [n for part in parts for _, n, _ in part.axes]
        self.sizes = sorted({s for n in extents for s in sympy.sympify(n).free_symbols}, key=str)
        self.facts = self._facts()
        self.domains = [
            [ranges_of(domain, self.facts, part.indices) for domain in domains] if domains else None
            for part in parts
            for domains in [domains_of(part.value, _rows_of(part), {loop.origin for loop in part.loops})]
        ]
        self.starts = 0
        names = {str(arg.name) for arg in args}
        self.inputs: list[Input] = []
        for arg in args:
            if isinstance(arg, TensorSymbol) and arg.rank:
                for number, one in enumerate(self._inputs(arg, split)):
                    name = unique(f"{arg.name}_block{number or ''}", names)
                    names.add(name)
                    self.inputs.append(one._replace(local=_block_of(arg, one.cuts, name)))
            elif any(part.value.has(arg) or _shape_has(part, arg) for part in parts):
                self.inputs.append(Input(arg, local=arg))
        self._input_of = {entry: one for one in self.inputs for entry in one.entries}
        results = tuple(map(self._shifted, parts))
        given = [one.local for one in self.inputs]
        present = {s for e in results for s in e.free_symbols}
        for tensor in given:
            if isinstance(tensor, TensorSymbol):
                present |= {s for n in (*tensor.shape, tensor.below or 0) for s in sympy.sympify(n).free_symbols}
        own = [s for loop in self.loops for s in (loop.origin, loop.extent)]
        starts = [c.start for one in self.inputs for c in one.cuts if c and c.start in present.difference(own)]
        self.numbers = [s for s in dict.fromkeys((*own, *starts, *self.sizes)) if s in present and s not in given]
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

    def _inputs(self, tensor: TensorSymbol, split: Mapping[str, Any]) -> list[Input]:
        """The entries of a tensor in groups whose ranges move together from block to block."""
        found: dict[Any, dict[Ranges, None]] = {}
        for part in self.parts:
            for read in reads_of(part.value, _rows_of(part)):
                if read.entry.tensor == tensor:
                    found.setdefault(read.entry, {})[ranges_of(read, self.facts, part.indices)] = None
        if all(sympy.sympify(n).is_Integer for n in tensor.shape) and sympy.prod(tensor.shape) <= SMALL:
            every = tuple(dict.fromkeys(ranges for own in found.values() for ranges in own))
            return [Input(tensor, frozenset(found), (None,) * tensor.rank, every)] if found else []
        groups: dict[Any, list[Any]] = {}
        for entry, own in found.items():
            directions = tuple(map(self._directions, zip(*(ranges.axes for ranges in own), strict=True)))
            groups.setdefault(directions, []).append(entry)
        inputs = [self._input(tensor, entries, found, split) for entries in groups.values()]
        is_whole = any(not any(one.cuts) for one in inputs)
        return [self._input(tensor, list(found), found, split)] if is_whole and len(inputs) > 1 else inputs

    def _directions(self, ranges: Sequence[Bounds | None]) -> frozenset[Any]:
        """How the ends of ranges change with the origins of blocks."""
        origins, extents = ({variable(getattr(o, side)) for o in self.loops} for side in ("origin", "extent"))
        ends = [end for one in ranges if one for end in (*one.lows, *one.highs) if end[0].atoms() & origins]
        return frozenset((tuple((v, c) for v, c in form.terms if v not in extents), by) for form, by in ends)

    def _input(self, tensor: TensorSymbol, entries: Any, found: Any, split: Mapping[str, Any]) -> Input:
        ranges = tuple(dict.fromkeys(r for entry in entries for r in found[entry]))
        always = all(
            not r.others and not r.rows and all(a and never_empty([a], self.facts) for a in r.axes) for r in ranges
        )
        cuts = tuple(
            self._cut(tensor, axis, tuple(dict.fromkeys(r.axes[axis] for r in ranges)), split, always)
            for axis in range(tensor.rank)
        )
        return Input(tensor, frozenset(entries), cuts, ranges)

    def _cut(self, tensor: TensorSymbol, axis: int, ranges: Any, split: Mapping[str, Any], always: bool) -> Cut | None:
        extent = sympy.sympify(tensor.shape[axis])
        if None in ranges:
            own = sorted(s.name for s in extent.free_symbols if split.get(s.name) is not None)
            if own:
                unsplit = ", ".join(f"{name}: None" for name in own)
                rest = any(block is not None for name, block in split.items() if name not in own)
                raise UnsupportedError(
                    f"data or an index that is not affine select the entries of {tensor} on axis {axis}, whose extent "
                    f"{extent} is split: every block may need all of it. "
                    + f"Do not split this size (blocks={{{unsplit}}}), so that every worker loads all of {tensor}, or "
                    * rest
                    + f"{'g' if rest else 'G'}ather {tensor} by data before the call and give the gathered array"
                    + ", or take another backend" * (not rest)
                )
            return None
        low, high = single_form(ranges, "lows"), single_form(ranges, "highs")
        symbols = {variable(s): s for s in (*self.sizes, *(s for p in self.loops for s in (p.origin, p.extent)))}
        if low is not None and high is not None and always and low.atoms() | high.atoms() <= symbols.keys():
            first, last = written(low, symbols), written(high, symbols)
            whole = first == 0 and sympy.expand(last - extent + 1) == 0
            return None if whole else Cut(first, sympy.expand(last - first + 1))
        self.starts += 1
        start = sympy.Dummy(f"{tensor.name}_start{self.starts}", integer=True)
        return Cut(start, sympy.Dummy(f"{tensor.name}_size{self.starts}", integer=True, positive=True))

    # ------------------------------------------------------------------------ the expression of one block

    def _shifted(self, part: Part) -> Any:
        """The part with indices that count from the block's origin and entries of the arguments' parts."""
        body = rebuilt(part.value, self._from_origin)
        body = body.xreplace({index: index + loop.origin for index, _, loop in part.axes if loop})
        body = rebuilt(body, _expanded)
        limits = [(index, loop.extent if loop else extent) for index, extent, loop in part.axes]
        return TensorComprehension(body, *limits) if limits else body

    def _from_origin(self, old: Any, new: Any) -> Any:
        """Entries of the inputs in place of those of arguments, and sums over a block from 0 on."""
        if old in self._input_of:
            one = self._input_of[old]
            return one.local[tuple(i - c.start if c else i for i, c in zip(new.indices, one.cuts, strict=True))]
        if not isinstance(old, IndexedReduction):
            return new
        moved, limits = {}, []
        for (index, low, high), (_, before, _) in zip(new.args[1:], old.args[1:], strict=True):
            loop = next((one for one in self.loops if before.has(one.origin)), None)
            if loop:
                moved[index] = index + loop.origin
                lows = low.args if isinstance(low, sympy.Max) else (low,)
                highs = high.args if isinstance(high, sympy.Min) else (high,)
                low = sympy.Max(*(sympy.expand(end - loop.origin) for end in lows))
                high = sympy.Min(*(sympy.expand(end - loop.origin) for end in highs))
            limits.append((index, low, high))
        return new.func(new.args[0].xreplace(moved), *((i, a.xreplace(moved), b.xreplace(moved)) for i, a, b in limits))

    # ------------------------------------------------------------------------ one block in numbers

    def values(self, block: Mapping[Loop, tuple[int, int]], sizes: Mapping[str, int]) -> dict[str, int]:
        """The integers of a block, ``(origin, extent)`` for each loop, by the names of their variables."""
        known = dict(sizes)
        for loop, (origin, extent) in block.items():
            known[variable(loop.origin)], known[variable(loop.extent)] = origin, extent
        return known

    def is_empty(self, known: Mapping[str, int]) -> bool:
        """Whether a block has nothing to reduce, as those of ``k <= i`` above the diagonal."""
        return all(domains and not any(one.at(known) is not None for one in domains) for domains in self.domains)

    def slices(self, known: dict[str, int], shapes: Mapping[Any, tuple[int, ...]]) -> list[tuple[slice, ...] | None]:
        """What the block loads of each input, None for a scalar; ``known`` gets the first entries.

        A block that reads nothing of an input loads one entry, since kernels take no empty array.
        """
        found: list[tuple[slice, ...] | None] = []
        for one in self.inputs:
            if not one.ranges:
                found.append(None)
                continue
            shape = shapes[one.arg]
            exact = not any(cut and not cut.start.is_Dummy for cut in one.cuts)  # else forms give the first entries
            read = one.slices(known, shape, exact=exact) or tuple(slice(0, 1) for _ in shape)
            cuts = [(cut, own, n) for cut, own, n in zip(one.cuts, read, shape, strict=True)]
            found.append(tuple(own if cut else slice(0, n) for cut, own, n in cuts))
            for cut, own, _ in cuts:
                if cut and cut.start.is_Dummy:
                    known.setdefault(variable(cut.start), own.start)
        return found

    def integers(self, known: Mapping[str, int]) -> list[int]:
        return [known[variable(number)] for number in self.numbers]


def loops_of(part: Part) -> tuple[Loop, ...]:
    """The loops of a part in the order in which they were read."""
    loops = {loop for _, _, loop in part.axes if loop} | part.loops
    return tuple(sorted(loops, key=lambda loop: str(loop.origin)))


def _shape_has(part: Part, arg: Any) -> bool:
    return isinstance(arg, sympy.Symbol) and any(sympy.sympify(n).has(arg) for _, n, _ in part.axes)


def _rows_of(part: Part) -> Rows:
    """The ranges of the axes in one block."""
    rows: Rows = ()
    for index, extent, loop in part.axes:
        ends = (loop.origin, loop.origin + loop.extent - 1) if loop else (sympy.S.Zero, extent - 1)
        rows += limit_rows(index, *ends)
    return rows


def _expanded(old: Any, new: Any) -> Any:
    return new.tensor[tuple(map(sympy.expand, new.indices))] if isinstance(new, TensorEntry) else new


def _block_of(tensor: TensorSymbol, cuts: Sequence[Cut | None], name: str) -> TensorSymbol:
    if not any(cuts):
        return tensor
    shape = tuple(cut.extent if cut else n for cut, n in zip(cuts, tensor.shape, strict=True))
    integers = {"dtype": int, "below": tensor.below} if tensor.dtype is int else {}
    return TensorSymbol(name, shape, **integers)
