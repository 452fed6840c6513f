"""Expected costs of plans: a model of a processor, the same on every machine, in which only ratios matter.

One unit is one multiplication with one addition in a loop. A library for matrices makes the same in a tenth of that
where all three of its axes are long: it keeps the values that it reads in registers. Where one axis is short it waits
for memory as a loop does. An entry that is copied, or kept for a later loop, is written and read.

With half and twice as much of each constant, one at a time, the texts of two benchmarks change: with `_WORTH` at 0.25 a
factorization machine takes 1.3 times as long (twice in NumPy), with `_ENTRY` at 1 a tensor train 0.94.
"""

from __future__ import annotations

from dataclasses import dataclass

LIBRARY_AXIS_LENGTH = 16
"""Axes of this length or more let a library for matrices run at full speed."""

_LIBRARY = 0.1
_ENTRY = 0.5
_CALL = 2000.0
_SPREAD = 4.0
_WORTH = 0.5
_MOST_ENTRIES = 2**25
"""Of more entries than these (256 MiB in double precision) no copy is made for the sake of a product."""


@dataclass(frozen=True, slots=True)
class ProductCost:
    """The data by which the cost of a matrix product in a library is estimated: ``batch`` products of a ``rows`` by
    ``summed`` matrix with a ``summed`` by ``columns`` matrix, and the number of entries that are ``copied``.

    ``results`` are the entries of the product that a loop reads again, 0 where the product is the result.
    """

    batch: int
    rows: int
    columns: int
    summed: int
    copied: int
    results: int

    @property
    def products(self) -> int:
        """The number of scalar multiplications of the matrix product."""
        return self.batch * self.rows * self.columns * self.summed

    @property
    def units(self) -> float:
        """The expected cost of the matrix product, with the calls, copies and results. The unit is the time of one
        multiplication in a plain loop.
        """
        shortest = min(self.rows, self.columns, self.summed, LIBRARY_AXIS_LENGTH)
        calls = _CALL * self.batch
        return self.products * _LIBRARY * LIBRARY_AXIS_LENGTH / shortest + _ENTRY * (self.copied + self.results) + calls

    def __str__(self) -> str:
        number = f"{self.batch} products" if self.batch > 1 else "a product"
        text = f"{number} of matrices, {self.rows} by {self.columns} entries, sums of {self.summed}"
        text += f": {self.products} products, {self.copied} entries copied"
        return text + (f" and {self.results} read again" if self.results else "")


def is_worth(product: ProductCost, iterations: int) -> bool:
    """Return whether a library should compute a matrix product, of the cost `product`, instead of a loop nest with
    ``iterations`` iterations in all.
    """
    small = product.copied + product.results <= _MOST_ENTRIES
    return small and product.units < _WORTH * iterations


def is_worth_packing(before: int, after: int, entries: int) -> bool:
    """Return whether it pays to reduce the multiplications of a matrix product from `before` to `after`, at the price
    of a copy of `entries` entries of its result.
    """
    return _LIBRARY * (before - after) > _SPREAD * entries
