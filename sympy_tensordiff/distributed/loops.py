"""Which ranges are cut into blocks, and the sums over one block of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import sympy
from sympy import Expr

from sympy_tensordiff.distributed.footprints import affine, limit_rows, nest_of, single_form, variable, written
from sympy_tensordiff.integer.nests import Bounds
from sympy_tensordiff.structure.terms import Binder


@dataclass(frozen=True)
class Loop:
    """A range that is cut into blocks; all axes and sums with this range have the same blocks."""

    range: Bounds = field(hash=False)
    block: int
    number: int
    origin: Expr
    extent: Expr

    def is_range(self, low: Any, high: Any) -> bool:
        """Whether the range is ``low .. high``."""
        return bool(self.range[1:] == (((affine(low), 1),), ((affine(high), 1),)))

    def grid(self, sizes: Mapping[str, int]) -> list[tuple[int, int]]:
        """The origin and the extent of each block."""
        whole = self.range.range(sizes)
        return [(o, min(self.block, whole.stop - o)) for o in range(whole.start, whole.stop, self.block)]

    def __str__(self) -> str:
        low, high = (", ".join(f"({f})/{d}" if d > 1 else str(f) for f, d in e) for e in self.range[1:])
        return f"{low} .. {high} in blocks of {self.block}"


class Loops:
    """The loops of all results; ``named`` has the names of indices that ``blocks`` gives."""

    def __init__(self, blocks: Mapping[str, int | None]) -> None:
        self.blocks = blocks
        self.known: dict[Any, Loop] = {}
        self.named: dict[Expr, str] = {}
        self._split: dict[Any, set[Expr]] = {}

    def of(self, own: tuple[Binder, ...], outside: tuple[Binder, ...], active: tuple[Loop, ...]) -> list[Loop | None]:
        """The loop of each binder of ``own``, outermost first; None where its range is not cut into blocks."""
        found: list[Loop | None] = []
        for k, binder in enumerate(own):
            range_of = self.range_of(binder.index, (*outside, *own[: k + 1]))
            block = self._block(binder.index, range_of)
            if block is None or range_of is None or self._is_local(binder, (*outside, *own[:k])):
                found.append(None)
                continue
            used = (*active, *(loop for loop in found if loop))
            number = sum(loop.range[1:] == range_of[1:] and loop.block == block for loop in used)
            found.append(self._loop(range_of, block, number))
        return found

    def _loop(self, range_of: Bounds, block: int, number: int) -> Loop:
        key = (range_of[1:], block, number)
        if key not in self.known:
            k = len(self.known)
            origin = sympy.Dummy(f"block_start{k}", integer=True)
            extent = sympy.Dummy(f"block_size{k}", integer=True, positive=True)
            self.known[key] = Loop(range_of, block, number, origin, extent)
        return self.known[key]

    def range_of(self, index: Expr, binders: tuple[Binder, ...]) -> Bounds | None:
        """The range of an index in terms of sizes."""
        rows = [row for binder in binders for row in limit_rows(*binder)]
        sizes = {s for binder in binders for end in binder[1:] for s in end.free_symbols} - {b.index for b in binders}
        facts = tuple(row for s in sizes for row in limit_rows(s, sympy.S.One, s))
        nest = nest_of(variable(index), rows, {variable(b.index) for b in binders} - {variable(index)}, facts)
        return nest[0] if nest else None

    def split_indices(self, binders: tuple[Binder, ...]) -> set[Expr]:
        """The indices whose ranges are in blocks."""
        if binders not in self._split:
            loops = self.of(binders, (), ())
            self._split[binders] = {b.index for b, loop in zip(binders, loops, strict=True) if loop}
        return self._split[binders]

    def _is_local(self, binder: Binder, binders: tuple[Binder, ...]) -> bool:
        """Whether a block of the indices around it leaves an index about a block: ``p/2 - 1 <= i <= p/2``."""
        rows = [row for row in limit_rows(*binder) if row.kind == "ge"]
        outer = {variable(index) for index in self.split_indices(binders)}
        own = variable(binder.index)
        lows, highs = ([row.form for row in rows if sign * row.form.coefficient(own) > 0] for sign in (1, -1))
        return any(
            low.atoms() & outer and (low * -high.coefficient(own) + high * low.coefficient(own)).is_constant
            for low in lows
            for high in highs
        )

    def _block(self, index: Expr, range_of: Bounds | None) -> int | None:
        """The extent of a block: that which ``blocks`` names for an index or, times its coefficient, for a size."""
        if index in self.named:
            return self.blocks[self.named[index]]
        if range_of is None:
            return None
        for size, block in self.blocks.items():
            for form, divisor in (*range_of.highs, *range_of.lows):
                scale = abs(form.coefficient(size))
                if scale and block is not None:
                    return max(1, block * scale // divisor)
        return None


def binders_of(total: Any) -> tuple[Binder, ...]:
    """The limits of a reduction, outermost first."""
    return tuple(Binder(*limit) for limit in reversed(total.args[1:]))


def narrowed(total: Any, body: Expr, own: list[Loop | None]) -> Expr:
    """A reduction over ``body`` in one block of its split ranges."""
    limits = []
    for (index, low, high), loop in zip(binders_of(total), own, strict=True):
        if loop:
            last = loop.origin + loop.extent - 1
            if loop.is_range(low, high):
                low, high = loop.origin, last
            else:
                low, high = sympy.Max(low, loop.origin), sympy.Min(high, last)
        limits.append((index, low, high))
    return total.func(body, *reversed(limits))


def one_form(range_of: Bounds | None, side: str, binders: tuple[Binder, ...]) -> Expr | None:
    """An end of a range as an expression in sizes."""
    form = single_form([range_of], side) if range_of else None
    symbols = {variable(s): s for b in binders for end in b[1:] for s in end.free_symbols}
    return None if form is None else written(form, symbols)
