"""The exact simplex method on small dense systems ``a*x + b >= 0`` of free rational variables.

All entries are integers: a row of a dictionary reads ``scale * basic = sum(a_j * column_j) + b``
with its own positive ``scale``, in lowest terms. Bland's rule in both phases guarantees termination.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import gcd, lcm
from operator import mul

Vector = list[int]

_COST = -1


class Dictionary:
    """A system of linear inequalities, ready for the simplex method: a dictionary in Chvátal's sense, with exact
    integer rows. It decides feasibility and finds least values.

    The variables have the labels ``0 .. n-1`` and are free: once in the basis, they never leave it.
    The slack of row ``i`` has the label ``n + i`` and is never negative. A form that is minimised
    is one more free variable of the basis, with the label -1.

    The `rows` are integer vectors of length ``n + 1``, the constant last; `size` is ``n``, the number of variables.

    Attributes
    ----------
    feasible : bool
        Whether a rational point satisfies all rows, decided exactly.

    Examples
    --------
    >>> square = Dictionary([[1, 0, 0], [-1, 0, 4], [0, 1, 0], [-1, -2, 5]], 2)
    >>> square.feasible, square.minimum([0, -1, 0])
    (True, Fraction(-5, 2))
    >>> square.minimum([0, -1, 0], stop_at=-1) <= -1, square.minimum([1, 0, 0])
    (True, Fraction(0, 1))
    >>> Dictionary([[2, 2, -5], [-1, -1, 2]], 2).feasible
    False
    """

    __slots__ = ("basis", "columns", "feasible", "rows", "size")

    def __init__(self, rows: Sequence[Sequence[int]], size: int) -> None:
        self.size = size
        self._choose_first_basis(rows)
        self._make_free_variables_basic()
        self.feasible = self._make_feasible()

    def minimum(self, form: Sequence[int], stop_at: int | None = None) -> Fraction | None:
        """Return the least value of the linear ``form`` over the system, which must be feasible; None if it is
        unbounded. If ``stop_at`` is given, the search ends at the first value that is not greater.
        """
        work = self._copy()
        work.basis.append(_COST)
        work.rows.append(self._row_of(form))
        return work._descend(stop_at)

    def without(self, row: int, stop_at: int) -> tuple[Fraction | None, Dictionary]:
        """Test whether inequality number ``row`` is redundant. Return ``(value, dictionary)``: the least value of its
        form under the other inequalities (None if unbounded below), and the simplex dictionary without it.

        It is redundant if the value is not negative. The search stops at a value of at most ``stop_at``.

        >>> strip = Dictionary([[1, 0], [-1, 4], [-1, 6]], 1)
        >>> value, rest = strip.without(2, -1)
        >>> value, rest.without(1, -1)[0]
        (Fraction(2, 1), None)
        """
        work = self._copy()
        label = self.size + row
        if label in work.columns:  # at value 0; it decreases until another row stops it
            entering = work.columns.index(label)
            leaving = work._leaving_row(entering, -1)
            if leaving < 0:
                return None, self
            work._pivot(leaving, entering)
        place = work.basis.index(label)
        work.basis[place] = _COST
        value = work._descend(stop_at)
        del work.basis[place], work.rows[place]
        return value, work

    def point(self) -> list[Fraction]:
        """Return the values of the variables at the current basic solution, where all nonbasic variables are 0."""
        values = [Fraction(0)] * self.size
        for label, row in zip(self.basis, self.rows, strict=True):
            if label < self.size:
                values[label] = Fraction(row[self.size], row[-1])
        return values

    def _copy(self) -> Dictionary:
        """Return a copy of the dictionary. Pivots in the copy leave this one unchanged."""
        copy = Dictionary.__new__(Dictionary)
        copy.size, copy.feasible = self.size, self.feasible
        copy.columns, copy.basis, copy.rows = self.columns.copy(), self.basis.copy(), self.rows.copy()
        return copy

    def _choose_first_basis(self, rows: Sequence[Sequence[int]]) -> None:
        """Set up the first dictionary from the inequalities `rows`, one slack variable for each. A variable with a
        bound ``x + b >= 0`` or ``b - x >= 0`` becomes basic in this row.
        """
        size = self.size
        anchors: dict[int, int] = {}
        for r, row in enumerate(rows):
            nonzero = [j for j in range(size) if row[j]]
            if len(nonzero) == 1 and abs(row[nonzero[0]]) == 1:
                anchors.setdefault(nonzero[0], r)
        signs = [rows[anchors[e]][e] if e in anchors else 1 for e in range(size)]
        shifts = [-sign * rows[anchors[e]][size] if e in anchors else 0 for e, sign in enumerate(signs)]
        self.columns = [size + anchors[e] if e in anchors else e for e in range(size)]
        self.basis = list(range(size, size + len(rows)))
        self.rows = [[*map(mul, row, signs), row[size] + sum(map(mul, row, shifts)), 1] for row in rows]
        for e, r in anchors.items():
            self.basis[r] = e
            self.rows[r] = [0] * e + [signs[e]] + [0] * (size - 1 - e) + [shifts[e], 1]

    def _make_free_variables_basic(self) -> None:
        """Pivot until the unrestricted variables are basic, each in exchange for the slack of the row with the fewest
        entries that contains it. A variable that no row contains stays nonbasic.
        """
        for e in range(self.size):
            if self.columns[e] == e:
                found = [
                    (len(row) - row.count(0), abs(row[e]), r)
                    for r, (label, row) in enumerate(zip(self.basis, self.rows, strict=True))
                    if row[e] and label >= self.size
                ]
                if found:
                    self._pivot(min(found)[2], e)

    def _row_of(self, form: Sequence[int]) -> Vector:
        """Return the linear form ``form``, given by its coefficients and its constant, in terms of the nonbasic
        variables: their integer coefficients, the constant, and a common denominator.
        """
        size = self.size
        involved = [(form[x], row) for x, row in zip(self.basis, self.rows, strict=True) if x < size and form[x]]
        scale = lcm(*(row[-1] for _, row in involved))
        result = [form[x] * scale if x < size else 0 for x in self.columns]
        result += [form[-1] * scale, scale]
        for c, row in involved:
            factor = c * (scale // row[-1])
            for j in range(size + 1):
                result[j] += factor * row[j]
        return result

    def _make_feasible(self) -> bool:
        """Pivot until no basic variable is negative; return False if that is impossible."""
        size = self.size
        while True:
            violated = [(x, r) for r, x in enumerate(self.basis) if x >= size and self.rows[r][size] < 0]
            if not violated:
                return True
            leaving = min(violated)[1]
            rising = [(x, j) for j, x in enumerate(self.columns) if self.rows[leaving][j] > 0]
            if not rising:
                return False
            self._pivot(leaving, min(rising)[1])

    def _descend(self, stop_at: int | None) -> Fraction | None:
        """Minimise the objective by Bland's rule, from a feasible basis. Return its least value, or None if it is
        unbounded; as soon as the value is at most ``stop_at``, stop and return it.
        """
        size = self.size
        cost_row = self.basis.index(_COST)
        while True:
            cost = self.rows[cost_row]
            if stop_at is not None and cost[size] <= stop_at * cost[-1]:
                break
            if any(c and x < size for c, x in zip(cost, self.columns, strict=False)):
                return None
            falling = [(x, j) for j, x in enumerate(self.columns) if cost[j] < 0]
            if not falling:
                break
            entering = min(falling)[1]
            leaving = self._leaving_row(entering, 1)
            if leaving < 0:
                return None
            self._pivot(leaving, entering)
        return Fraction(cost[size], cost[-1])

    def _leaving_row(self, entering: int, sign: int) -> int:
        """Return the number of the row whose basic variable is the first to reach 0 when the variable of the column
        `entering` increases (``sign`` 1) or decreases (-1); -1 if none does.
        """
        size = self.size
        leaving, above, below = -1, 0, 1
        for r, label in enumerate(self.basis):
            slope = sign * self.rows[r][entering]
            if slope < 0 and label >= size:
                constant = self.rows[r][size]
                difference = constant * below + slope * above
                if leaving < 0 or difference < 0 or (difference == 0 and label < self.basis[leaving]):
                    leaving, above, below = r, constant, -slope
        return leaving

    def _pivot(self, leaving: int, entering: int) -> None:
        """Exchange the basic variable of row ``leaving`` with column ``entering``."""
        old = self.rows[leaving]
        pivot = old[entering]
        new = [-a for a in old] if pivot > 0 else old.copy()
        new[entering] = old[-1] if pivot > 0 else -old[-1]
        new[-1] = abs(pivot)
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
