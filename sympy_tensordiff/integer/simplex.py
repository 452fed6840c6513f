"""The exact simplex method on small dense systems ``a*x + b >= 0`` of free rational variables.

Everything is an integer: a row of a dictionary reads ``scale * basic = sum(a_j * column_j) + b``
with its own positive ``scale``, kept in lowest terms. Bland's rule, in both phases, is what makes
every run end.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import gcd, lcm

Vector = list[int]


class Dictionary:
    """A basis of the system ``row[:n] * x + row[n] >= 0``, moved to a feasible one where there is one.

    The variables have the labels ``0 .. n-1`` and are free: each is moved into the basis once and
    never leaves it. The slack of row ``i`` has the label ``n + i`` and is never negative.

    Parameters
    ----------
    rows : sequence of integer vectors of length ``n + 1``, the constant last
    size : int
        The number ``n`` of variables.

    Attributes
    ----------
    feasible : bool
        Whether a rational point fulfils all rows; decided exactly.

    Examples
    --------
    >>> square = Dictionary([[1, 0, 0], [-1, 0, 4], [0, 1, 0], [-1, -2, 5]], 2)
    >>> square.feasible, square.minimum([0, -1, 0])
    (True, Fraction(-5, 2))
    >>> square.minimum([0, -1, 0], enough=Fraction(-1)) <= -1, square.minimum([1, 0, 0])
    (True, Fraction(0, 1))
    >>> Dictionary([[2, 2, -5], [-1, -1, 2]], 2).feasible
    False
    """

    __slots__ = ("basis", "columns", "feasible", "rows", "size")

    def __init__(self, rows: Sequence[Sequence[int]], size: int) -> None:
        self.size = size
        self.columns = list(range(size))
        self.basis = list(range(size, size + len(rows)))
        self.rows: list[Vector] = [[*row, 1] for row in rows]
        self._free_variables_into_basis()
        self.feasible = self._find_feasible()

    def minimum(self, form: Sequence[int], enough: Fraction | int | None = None) -> Fraction | None:
        """The least value of ``form`` over the feasible system; None where it is unbounded below.

        With ``enough`` the search stops at the first value that is not above it.
        """
        work = Dictionary.__new__(Dictionary)
        work.size, work.columns, work.basis = self.size, self.columns.copy(), [*self.basis, -1]
        work.rows = [*self.rows, self._in_columns(form)]
        return work._descend(enough)

    def _in_columns(self, form: Sequence[int]) -> Vector:
        """The row of ``form`` over the present columns."""
        place = {label: r for r, label in enumerate(self.basis) if label < self.size and form[label]}
        scale = lcm(*(self.rows[r][-1] for r in place.values()))
        result = [form[label] * scale if label < self.size else 0 for label in self.columns]
        result += [form[-1] * scale, scale]
        for label, r in place.items():
            row = self.rows[r]
            factor = form[label] * (scale // row[-1])
            for j in range(len(result) - 1):
                result[j] += factor * row[j]
        return result

    def _free_variables_into_basis(self) -> None:
        """Each variable becomes basic in the sparsest row that holds it; one that no row holds stays a column."""
        for e in range(self.size):
            best: tuple[int, int] | None = None
            leaving = -1
            for r, row in enumerate(self.rows):
                if row[e] and self.basis[r] >= self.size:
                    cost = (len(row) - row.count(0), abs(row[e]))
                    if best is None or cost < best:
                        best, leaving = cost, r
            if best is not None:
                self._pivot(leaving, e)

    def _find_feasible(self) -> bool:
        """Repair violated rows, least label first, until none is left or one cannot be repaired."""
        constant = self.size
        while True:
            leaving = -1
            for r, label in enumerate(self.basis):
                if label >= self.size and self.rows[r][constant] < 0 and (leaving < 0 or label < self.basis[leaving]):
                    leaving = r
            if leaving < 0:
                return True
            row = self.rows[leaving]
            entering = min((j for j in range(self.size) if row[j] > 0), key=self.columns.__getitem__, default=-1)
            if entering < 0:
                return False
            self._pivot(leaving, entering)

    def _descend(self, enough: Fraction | int | None) -> Fraction | None:
        """Minimise the last row by Bland's rule from a feasible basis."""
        constant = self.size
        while True:
            cost = self.rows[-1]
            if enough is not None and cost[constant] <= enough * cost[-1]:
                return Fraction(cost[constant], cost[-1])
            entering = -1
            for j in range(self.size):
                if cost[j] and self.columns[j] < self.size:
                    return None
                if cost[j] < 0 and (entering < 0 or self.columns[j] < self.columns[entering]):
                    entering = j
            if entering < 0:
                return Fraction(cost[constant], cost[-1])
            leaving = self._tightest(entering)
            if leaving < 0:
                return None
            self._pivot(leaving, entering)

    def _tightest(self, entering: int) -> int:
        """The row that first stops an increase of the entering column; -1 where none does."""
        constant = self.size
        leaving, above, below = -1, 0, 1
        for r, label in enumerate(self.basis):
            row = self.rows[r]
            if label >= self.size and row[entering] < 0:
                difference = row[constant] * below + row[entering] * above
                if leaving < 0 or difference < 0 or (difference == 0 and label < self.basis[leaving]):
                    leaving, above, below = r, row[constant], -row[entering]
        return leaving

    def _pivot(self, leaving: int, entering: int) -> None:
        """Swap a basic label with a column; rows are replaced, never changed in place (copies share them)."""
        old = self.rows[leaving]
        pivot = old[entering]
        new = [-a for a in old] if pivot > 0 else old.copy()
        new[entering] = old[-1] if pivot > 0 else -old[-1]
        scale = new[-1] = abs(pivot)
        common = gcd(*new)
        if common > 1:
            new = [a // common for a in new]
            scale = new[-1]
        for r, row in enumerate(self.rows):
            factor = row[entering]
            if factor and r != leaving:
                changed = [scale * a + factor * b for a, b in zip(row, new, strict=True)]
                changed[entering] = factor * new[entering]
                changed[-1] = scale * row[-1]
                common = gcd(*changed)
                self.rows[r] = changed if common == 1 else [a // common for a in changed]
        self.rows[leaving] = new
        self.basis[leaving], self.columns[entering] = self.columns[entering], self.basis[leaving]
