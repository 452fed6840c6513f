"""Block loops: which ranges are split into blocks, and sums restricted to one block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import sympy
from sympy import Expr

from sympy_tensordiff.distributed.footprints import (
    range_constraints,
    range_nest,
    single_end,
    to_affine_form,
    to_expression,
    variable_name,
)
from sympy_tensordiff.integer.nests import Bounds
from sympy_tensordiff.symbolic.index_notation.limits import IndexRange


@dataclass(frozen=True)
class BlockLoop:
    """A loop over the blocks of an index range, shared by all axes and sums with this range. The symbols ``origin`` and
    ``extent`` are the first index and the length of a block.
    """

    range: Bounds = field(hash=False)
    block: int
    number: int
    origin: Expr
    extent: Expr

    def is_range(self, low: Any, high: Any) -> bool:
        """Return whether the range that the loop splits is exactly ``low, ..., high``."""
        return bool(self.range[1:] == (((to_affine_form(low), 1),), ((to_affine_form(high), 1),)))

    def grid(self, sizes: Mapping[str, int]) -> list[tuple[int, int]]:
        """Return ``(first index, length)`` of each block of the index range, where ``sizes`` has the values of the
        sizes; the last block may be shorter.
        """
        whole = self.range.range(sizes)
        return [(o, min(self.block, whole.stop - o)) for o in range(whole.start, whole.stop, self.block)]

    def __str__(self) -> str:
        low, high = (", ".join(f"({f})/{d}" if d > 1 else str(f) for f, d in e) for e in self.range[1:])
        return f"{low} .. {high} in blocks of {self.block}"


class BlockLoops:
    """The loops over the blocks into which index ranges are split, created when first needed and shared by all results.
    ``named_indices`` maps indices to the names by which the user gave their block sizes.
    """

    def __init__(self, blocks: Mapping[str, int | None]) -> None:
        self.blocks = blocks
        self.loop_of_key: dict[Any, BlockLoop] = {}
        self.named_indices: dict[Expr, str] = {}
        self._split_indices: dict[Any, set[Expr]] = {}

    def loops_for(
        self, ranges: tuple[IndexRange, ...], outside: tuple[IndexRange, ...], active: tuple[BlockLoop, ...]
    ) -> list[BlockLoop | None]:
        """Return for each of the nested index ``ranges``, outermost first, the loop over its blocks; None for a range
        that is not split. ``outside`` are the index ranges around them, ``active`` the block loops around them.
        """
        found: list[BlockLoop | None] = []
        for k, binder in enumerate(ranges):
            bounds = self.range_of(binder.index, (*outside, *ranges[: k + 1]))
            block = self._block_size(binder.index, bounds)
            if block is None or bounds is None or self._follows_outer_block(binder, (*outside, *ranges[:k])):
                found.append(None)
                continue
            used = (*active, *(loop for loop in found if loop))
            number = sum(loop.range[1:] == bounds[1:] and loop.block == block for loop in used)
            found.append(self._loop(bounds, block, number))
        return found

    def _loop(self, bounds: Bounds, block: int, number: int) -> BlockLoop:
        """Return the loop over the range ``bounds`` in blocks of ``block`` values; equal arguments give the same
        object. ``number`` counts nested loops over one range: 0 for the outermost one, 1 for the next one, and so on.
        """
        key = (bounds[1:], block, number)
        if key not in self.loop_of_key:
            k = len(self.loop_of_key)
            origin = sympy.Dummy(f"block_start{k}", integer=True)
            extent = sympy.Dummy(f"block_size{k}", integer=True, positive=True)
            self.loop_of_key[key] = BlockLoop(bounds, block, number, origin, extent)
        return self.loop_of_key[key]

    def range_of(self, index: Expr, binders: tuple[IndexRange, ...]) -> Bounds | None:
        """Return the least and the greatest value of ``index`` as bounds that depend on sizes only, for the nested
        ranges ``binders``, which contain the range of ``index``. None if there are no such bounds.
        """
        rows = range_constraints(binders)
        sizes = {s for binder in binders for end in binder[1:] for s in end.free_symbols} - {b.index for b in binders}
        facts = range_constraints(IndexRange(s, sympy.S.One, s) for s in sizes)
        nest = range_nest(
            variable_name(index), rows, {variable_name(b.index) for b in binders} - {variable_name(index)}, facts
        )
        return nest[0] if nest else None

    def split_indices(self, binders: tuple[IndexRange, ...]) -> set[Expr]:
        """Return the indices of the nested ranges ``binders`` whose ranges are split into blocks."""
        if binders not in self._split_indices:
            loops = self.loops_for(binders, (), ())
            self._split_indices[binders] = {b.index for b, loop in zip(binders, loops, strict=True) if loop}
        return self._split_indices[binders]

    def _follows_outer_block(self, binder: IndexRange, binders: tuple[IndexRange, ...]) -> bool:
        """Return whether the range ``binder`` needs no blocks of its own: it has a constant length and moves with an
        outer index that is split into blocks, as ``p - 1 <= i <= p`` moves with ``p``. ``binders`` are the outer
        ranges.
        """
        rows = range_constraints([binder])
        outer = {variable_name(index) for index in self.split_indices(binders)}
        variable = variable_name(binder.index)
        lows, highs = ([row.form for row in rows if sign * row.form.coefficient(variable) > 0] for sign in (1, -1))
        return any(
            low.atoms() & outer and (low * -high.coefficient(variable) + high * low.coefficient(variable)).is_constant
            for low in lows
            for high in highs
        )

    def _block_size(self, index: Expr, bounds: Bounds | None) -> int | None:
        """Return the number of values of ``index`` in one block; None if its range is not split into blocks.

        The user may give it for the index itself. Otherwise the block size b of a size n gives it: ``abs(c)*b // d``,
        at least 1, for a term ``c*n/d`` in ``bounds``.
        """
        if index in self.named_indices:
            return self.blocks[self.named_indices[index]]
        if bounds is None:
            return None
        for size, block in self.blocks.items():
            for form, divisor in (*bounds.highs, *bounds.lows):
                scale = abs(form.coefficient(size))
                if scale and block is not None:
                    return max(1, block * scale // divisor)
        return None


def restrict_to_block(total: Any, body: Expr, loops: list[BlockLoop | None]) -> Expr:
    """Return the reduction ``total`` with the new ``body``, and with each range that has a loop in ``loops`` restricted
    to one block of it.
    """
    limits = []
    for (index, low, high), loop in zip(total.ranges(), loops, strict=True):
        if loop:
            last = loop.origin + loop.extent - 1
            if loop.is_range(low, high):
                low, high = loop.origin, last
            else:
                low, high = sympy.Max(low, loop.origin), sympy.Min(high, last)
        limits.append((index, low, high))
    return total.func(body, *reversed(limits))


def range_end(bounds: Bounds | None, side: str, binders: tuple[IndexRange, ...]) -> Expr | None:
    """Return an end of the range ``bounds`` as an expression in the symbols of ``binders``: the lower end if ``side``
    is "lows", the upper one if it is "highs". None if there are no bounds, or the end is not a single form.
    """
    form = single_end([bounds], side) if bounds else None
    symbols = {variable_name(s): s for b in binders for end in b[1:] for s in end.free_symbols}
    return None if form is None else to_expression(form, symbols)
