"""Blocks of threads that share memory: their coordinates, shared arrays and bodies."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import prod

from sympy_tensordiff.codegen.ir.loops import Alloc, Set, Statement
from sympy_tensordiff.codegen.ir.scalars import IndexValue, Name, Operation, Reduction
from sympy_tensordiff.integer.affine import Affine

THREADS = 256
"""The threads of a block."""

WARP = 32
"""The threads of a warp."""

SIDE = 16
"""The side of a square of entries, or of sums, that a block computes: a row of it is a whole number of sectors."""

LEAST_IN_USE = 0.6
"""The least part of a tile that a constant length of an axis fills."""

NameMaker = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class BlockNest:
    """The body of a GPU kernel whose threads share memory within blocks, with the coordinates of its threads and
    blocks, and the shared arrays.

    The ``blocks`` are variables with their extents, which the number of the block determines in row-major order. The
    number of the block and the thread coordinate ``along`` ("x" or "y") determine the ``entries``. ``x`` and ``y`` are
    the coordinates of the thread, with the numbers of threads. The arrays ``shared`` belong to the block.
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
        """The coordinates of a thread and of its block as pairs of name and extent."""
        return (*self.blocks, *self.entries, self.x, self.y)

    @property
    def grid(self) -> tuple[Affine, ...]:
        """The numbers of blocks to launch, one for each block coordinate. In the direction ``self.along``, the number
        counts entries: the launch divides it by the number of threads of a block in that direction.
        """
        return tuple([extent for _, extent in (*self.blocks, *self.entries)])


def names_in(forms: Iterable[Affine]) -> set[str]:
    """Return the names in affine forms."""
    return {str(atom) for form in forms for atom in form.atoms()}


def alloc_shape(alloc: Alloc) -> tuple[Affine, ...]:
    """Return the shape of the array in shared memory that ``alloc`` declares."""
    return tuple([end.lows[0].form for end in alloc.shape])


def exchange(total: str, part: str, threads: Affine, reduction: Reduction) -> Set:
    """Return the statement that sets the scalar ``total``, in each thread, to the sum of ``part`` over `threads`
    neighbouring threads of a warp, or over the whole warp.

    By ``reduction``, it may also be the maximum or the minimum.
    """
    return Set(Name(total), Operation(f"warp_{reduction}", (Name(part), IndexValue(threads))))


def is_exchange(statement: Statement) -> bool:
    """Return whether ``statement`` sets a scalar to a sum or extremum over threads of a warp, as made by `exchange`."""
    value = statement.value if isinstance(statement, Set) else None
    return isinstance(value, Operation) and str(value.function).startswith("warp_")


def shared_size(alloc: Alloc) -> int:
    """Return the number of entries to allocate for a shared array: the product of its extents, or `THREADS` if they
    depend on sizes.
    """
    shape = alloc_shape(alloc)
    return prod(extent.constant for extent in shape) if all(extent.is_constant for extent in shape) else THREADS
