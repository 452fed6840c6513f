"""The text of kernels in tiles: `cuda_tiles` says of which, and when they run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sympy_tensordiff.codegen.loops import Loop
from sympy_tensordiff.codegen.printers import cuda_tiles
from sympy_tensordiff.codegen.printers.cuda_threads import CudaPrinter, Shapes
from sympy_tensordiff.codegen.printers.cuda_tiles import (
    Tiled,
    count_text,
    last_place,
    product_text,
    rounds_text,
    tile_function,
)
from sympy_tensordiff.codegen.printers.driver import task_text
from sympy_tensordiff.codegen.printers.forms import CHOICE, Names
from sympy_tensordiff.codegen.scalars import Load, Scalar
from sympy_tensordiff.codegen.schedule.nests import explicit
from sympy_tensordiff.integer.affine import Affine

_COUNTS = ("row_count", "column_count")


class TilePrinter(CudaPrinter):
    """A kernel with one block per tile, for numbers of so many bytes."""

    def __init__(self, names: Names, tiled: Tiled, shapes: Shapes, size: int) -> None:
        super().__init__(names, tiled.kernel, shapes)
        self.tiled = tiled
        self.size = size
        self.own = (cuda_tiles.TILING.rows[size], cuda_tiles.TILING.columns)
        self.lengths = [cuda_tiles.TILING.across * own for own in self.own]
        self.parts: dict[int, tuple[str, str]] = {}
        """The two numbers that a thread's number is taken apart into, by how many neighbours there are."""
        self.sums: dict[str, str] = {}
        self.part = ""
        """The number of the part of a sum, or that of the batch in it."""

    def print(self, parameters: str) -> str:
        """The text of the function."""
        kernel, (height, width) = self.kernel, self.lengths
        # A thread of double precision has half as many entries, and told of a limit the compiler uses what it allows.
        limit = "(**LIMITED)" if self.size == 4 else ""
        self.line(0, f"@cuda.jit{limit}\ndef {tile_function(kernel, self.size)}({parameters}):")
        self.line(1, f'"""{task_text(kernel, self.names)}, one block per tile of {height} times {width}."""')
        self.line(1, f"real = {self.names(kernel.array)}.dtype.type")
        tiles = []
        for wish, length in (("row_tile", height), ("column_tile", width)):
            shape = f"({cuda_tiles.TILING.depth}, {length + cuda_tiles.TILING.padding})"
            tiles.append(self.named(wish, f"cuda.shared.array({shape}, real)"))
        self.thread, block = self.named("thread", "cuda.threadIdx.x"), self.named("block", "cuda.blockIdx.x")
        counts = [self.named(wish, self.count(axes)) for wish, axes in zip(_COUNTS, self.tiled.sides, strict=True)]
        high, wide = (_quotient(count, length) for count, length in zip(counts, self.lengths, strict=True))
        flat = f"{block}//{wide}"
        if self.tiled.part:
            self.part = self.replace[self.tiled.part] = self.named(self.names(self.tiled.part), "cuda.blockIdx.y")
        if self.tiled.batch:
            batch = self.named("batch", f"{flat}//{high}")
            self.replace |= self.taken_apart(self.tiled.batch, self.extents(self.tiled.batch), batch, 1)
            self.part = f"({self.part}*{self.count(self.tiled.batch)} + {batch})"
            flat = f"{flat} % {high}"
        corners = [self.named("top", f"{flat}*{height}"), self.named("left", f"{block} % {wide}*{width}")]
        sides = [self.side(number, tiles[number], corners[number], counts[number]) for number in (0, 1)]
        places = [
            f"{self.thread}//{cuda_tiles.TILING.across}*{self.own[0]}",
            f"{self.thread} % {cuda_tiles.TILING.across}*{self.own[1]}",
        ]
        places = [self.named(wish, text) for wish, text in zip(("row", "column"), places, strict=True)]
        sums = [
            [self.named(self.names(self.tiled.total), "real(0)") for _ in range(self.own[1])]
            for _ in range(self.own[0])
        ]
        self.tiles(sides, places, sums)
        self.stores([f"{corner} + {place}" for corner, place in zip(corners, places, strict=True)], counts, sums)
        return "\n".join(self.lines)

    def named(self, wish: str, text: str, depth: int = 1) -> str:
        """The name of a value, for which a line is appended, or a value that is a name or a number."""
        if text.isidentifier() or text.isdecimal():
            return text
        name = self.names.fresh(wish)
        self.line(depth, f"{name} = {text}")
        return name

    def count(self, axes: Sequence[str]) -> str:
        """The number of entries along some axes."""
        return count_text(axes, self.kernel, self.shapes, self)

    def extents(self, axes: Sequence[str]) -> list[str]:
        """The number of entries along each of some axes."""
        return [self.count([axis]) for axis in axes]

    def taken_apart(self, variables: Sequence[str], lengths: Sequence[str], flat: str, depth: int) -> dict[str, str]:
        """The values of several variables out of one number, the last one running fastest."""
        found = {}
        for number in range(len(variables) - 1, -1, -1):
            value = f"{flat} % {lengths[number]}" if number else flat
            found[variables[number]] = self.named(f"{self.names(variables[number])}", value, depth)
            flat = f"{flat}//{lengths[number]}"
        return found

    def side(self, number: int, tile: str, corner: str, count: str) -> Side:
        """How threads share the values of one factor; lines for those of their entries that stay the same are appended.

        Neighbours have what lies side by side in memory: rounds, or else entries.
        """
        axes, factor = self.tiled.sides[number], self.tiled.factors[number]
        length, threads = self.lengths[number], cuda_tiles.TILING.across**2
        along_rounds = last_place([factor], self.tiled.loops[1][-1].variable) > last_place([factor], axes[-1])
        neighbours = cuda_tiles.TILING.depth if along_rounds else length
        if neighbours not in self.parts:
            near = self.named("near", f"{self.thread} % {neighbours}")
            self.parts[neighbours] = near, self.named("far", f"{self.thread}//{neighbours}")
        near, far = self.parts[neighbours]
        step = threads // neighbours
        if along_rounds:
            rounds, entries = [near], _steps(far, step, length)
        else:
            rounds, entries = _steps(far, step, cuda_tiles.TILING.depth), [near]
        values = []
        for entry in entries:
            # Threads beyond the edge have the last entry once more; nobody reads it.
            flat = self.named("entry", f"min({corner} + {entry}, {count} - 1)")
            values.append(self.taken_apart(axes, self.extents(axes), flat, 1))
        return Side(tile, factor, rounds, entries, values)

    def tiles(self, sides: Sequence[Side], places: Sequence[str], sums: Sequence[Sequence[str]]) -> None:
        """Append the loop over the rounds, some of them kept at a time, in the loops that are not taken apart."""
        outer, inner = self.tiled.loops
        depth = 1
        for loop in outer:
            first, stop = self.lower(loop.lows), self.named("stop", self.stop(loop.highs), depth)
            variable = self.names.fresh(self.names(loop.variable))
            self.line(depth, f"{variable} = {first}")
            self.line(depth, f"while {variable} < {stop}:")
            self.replace[loop.variable] = variable
            depth += 1
        self.rounds_of(inner, sides, places, sums, depth)
        for loop in reversed(outer):
            depth -= 1
            self.line(depth + 1, f"{self.replace[loop.variable]} += 1")

    def rounds_of(
        self,
        loops: Sequence[Loop],
        sides: Sequence[Side],
        places: Sequence[str],
        sums: Sequence[Sequence[str]],
        depth: int,
    ) -> None:
        """Append the loop over the rounds of several loops as one."""
        lows = [self.named("low", self.lower(loop.lows), depth) for loop in loops]
        lengths = [self.named("length", rounds_text(loop, self), depth) for loop in loops]
        total = self.named("rounds", product_text(lengths), depth)
        first = self.names.fresh("first")
        self.line(depth, f"{first} = 0")
        self.line(depth, f"while {first} < {total}:")
        for side in sides:
            for at in side.rounds:
                flat = self.named("round", f"{first} + {at}", depth + 1)
                values = self.taken_apart([loop.variable for loop in loops], lengths, flat, depth + 1)
                for loop, low in zip(loops, lows, strict=True):
                    if low != "0":
                        shifted = f"{low} + {values[loop.variable]}"
                        values[loop.variable] = self.named(self.names(loop.variable), shifted, depth + 1)
                for entry, own in zip(side.entries, side.values, strict=True):
                    self.replace |= values | own
                    value = self.scalar(side.factor, CHOICE + 1)
                    self.line(depth + 1, f"{side.tile}[{at}, {entry}] = {value} if {flat} < {total} else real(0)")
        self.line(depth + 1, "cuda.syncthreads()")
        self.products(sides, places, sums, depth + 1)
        self.line(depth + 1, "cuda.syncthreads()")
        self.line(depth + 1, f"{first} += {cuda_tiles.TILING.depth}")

    def products(self, sides: Sequence[Side], places: Sequence[str], sums: Sequence[Sequence[str]], depth: int) -> None:
        """Append the additions of all rounds that are kept, to the entries of a thread."""
        at = self.names.fresh("at")
        self.line(depth, f"{at} = 0")
        self.line(depth, f"while {at} < {cuda_tiles.TILING.depth}:")
        read = []
        for side, place, own in zip(sides, places, self.own, strict=True):
            found = [f"{side.tile}[{at}, {place}{f' + {n}' * bool(n)}]" for n in range(own)]
            read.append([self.named(f"{side.tile}_value", text, depth + 1) for text in found])
        for row, line in zip(read[0], sums, strict=True):
            for column, name in zip(read[1], line, strict=True):
                self.line(depth + 1, f"{name} += {row}*{column}")
        self.line(depth + 1, f"{at} += 1")

    def stores(self, places: Sequence[str], counts: Sequence[str], sums: Sequence[Sequence[str]]) -> None:
        """Append the lines that write the entries of a thread, those inside of the array."""
        rows, columns = self.tiled.sides
        entries = [
            [self.named("entry", f"{place}{f' + {n}' * bool(n)}") for n in range(own)]
            for place, own in zip(places, self.own, strict=True)
        ]
        for row, line in zip(entries[0], sums, strict=True):
            self.line(1, f"if {row} < {counts[0]}:")
            self.replace |= {} if self.tiled.part else self.taken_apart(rows, self.extents(rows), row, 2)
            for column, name in zip(entries[1], line, strict=True):
                self.line(2, f"if {column} < {counts[1]}:")
                if self.tiled.part:
                    # Axes of parts are those of the batch, the rows and the columns: nothing is taken apart.
                    place = f"({self.part}*{counts[0]} + {row})*{counts[1]} + {column}"
                    self.line(3, f"{self.names(self.kernel.array)}[uint64({place})] = {name}")
                    continue
                # What all rows need again takes registers, which the sums have.
                self.replace |= self.taken_apart(columns, self.extents(columns), column, 3)
                self.sums = {self.tiled.total: name}
                entry = Load(self.kernel.array, tuple(map(Affine.variable, self.kernel.axes)))
                self.body(explicit(self.kernel.body[-1:], entry), 3)

    def name(self, name: str) -> str:
        return self.sums[name] if name in self.sums else super().name(name)


class Side(NamedTuple):
    """What each thread puts into the tile of one factor."""

    tile: str
    factor: Scalar
    rounds: list[str]
    entries: list[str]
    values: list[dict[str, str]]
    """The axes of the entries."""


def _steps(first: str, step: int, stop: int) -> list[str]:
    return [f"{first}{f' + {n}' * bool(n)}" for n in range(0, stop, step)]


def _quotient(count: str, length: int) -> str:
    """How many tiles there are along a side."""
    return str(-(-int(count) // length)) if count.isdecimal() else f"(({count} + {length - 1})//{length})"
