"""Functions that read outside of their tensors with the data below, which a call would refuse."""

from __future__ import annotations

import numpy as np
import sympy
from cases_reads import N, Sum, Table, a, b, c, data, i, j, k, m, n, p, q, real, row, where
from sympy import Abs, Eq, KroneckerDelta, Max, Min, Mod, Ne, Piecewise, floor

from sympy_tensordiff.symbolic.index_notation.sums import IndexedMax

x, y, z, u = real("x", n), real("y", n, m), real("z", 12), real("u", 9)
idx, jdx, pairs, ends = data("idx", m), data("jdx", m), data("pairs", 5), data("ends", 3, 2)
SETTING = {
    n: 5, m: 4, x: range(2, 7), y: np.arange(20).reshape(5, 4) - 7, z: range(1, 13), u: range(2, 11),
    idx: [3, -1, 7, 1], jdx: [1, 4, -2, 0], pairs: [0, 2, 1, -2, 7], ends: [[3, 0], [1, 2], [2, 1]],
}  # fmt: skip

near = (pairs[i - 1] <= q) & (q <= pairs[i - 1] + 1) & Eq(idx[i], 1)
square = Table(Sum(z[k + 1] * z[j], (k, 0, ends[idx[0] - 2, Max(0, 1 - j)])), (j, 3))
part = Table(Sum(z[6 * i + 2 * k - 12] * jdx[Abs(3 * i - 6)], (k, 15 * j, 15 * j + 2)), (j, 1))
window = Sum(x[p + k + m - 5] * x[k], (k, 0, 2))
entry = pairs[4 - Mod(p, 2)]
odd = where(sympy.sin(Sum(z[i + 2] * u[p], (i, Max(0, floor(p / 2) + 9 * entry), 4))), Eq(Mod(p, 2), 1) & (entry >= -1))
largest = IndexedMax(Piecewise((Sum(x[j], (j, 0, idx[p - 2])), i <= p - 2), (x[i], True)), (i, 0, 2))

CASES = {
    "a gather": Table(x[idx[i]], (i, m)),
    "of rows": Sum(y[idx[i], j] * x[i + j + m - 5], (i, 0, m - 1), (j, 0, m - 1)),
    "of a gather": Table(x[idx[jdx[i] + 1]], (i, m)),
    "by sizes": Table(x[p + m - 2] + x[p - m], (p, n)),
    "in both factors": Table(x[idx[i]] * y[jdx[i], i + m - 2] + 1, (i, m)),
    "a quotient": Table(1 / (1 + x[idx[i]] ** 2), (i, m)),
    "in a condition": Table(Piecewise((x[0], Eq(idx[p + m - 2], 0)), (2, True)), (p, n)),
    "in the way of another": Table(where(x[i], Eq(idx[i], 3) & Eq(jdx[i + idx[i] - 1], 4)), (i, m)),
    "in the way of each other": Sum(where(x[i], Eq(idx[i + jdx[i]], jdx[i - idx[i]])), (i, 0, m - 1)),
    "or in the way": Table(where(x[idx[i]], (idx[i] < 0) | (jdx[idx[i]] > 0)), (i, m)),
    "as bounds": Table(Sum(x[k], (k, idx[i], jdx[i] + 2)), (i, m)),
    "as bounds from outside": Table(Sum(y[k, i], (k, idx[p + m - 2], 3), (i, 0, jdx[p] + 9)), (p, n)),
    "added up": Table(Sum(x[i] * KroneckerDelta(p, idx[i]), (i, 0, m - 1)), (p, n)),
    "added up outside": Table(Sum(x[idx[i]] * KroneckerDelta(p, jdx[idx[i]]), (i, 0, m - 1)), (p, n)),
    "a window of data": Table(Sum(where(z[i], near), (i, 0, 3)), (q, 3)),
    "sums by value": Table(Sum(x[i] * KroneckerDelta(idx[i], idx[p]), (i, 0, m - 1)), (p, n)),
    "a residual": Sum(window**2, (p, 0, n - 1)),
    "a residual in two places": Table(where(window, p > 1) * x[p] + Sum(window, (p, 0, n + 1)), (p, n)),
    "of a table": Table(Table(x[j] ** 2, (j, n))[idx[i]], (i, m)),
    "of a table of sums": Table(Table(Sum(x[j + k], (k, 0, m)), (j, n))[p + m - 3], (p, n)),
    "a table between data": Sum(z[i] * Sum(z[j + i] * square[j], (j, 0, 2)), (i, 0, floor(idx[0] / 2) - 1)),
    "a table behind an equation": Table(
        z[pairs[4 - i] + 2] ** 2 * where(part[0], Ne(i, 1) & (pairs[4 - i] < 1)), (i, 4)
    ),
    "behind a remainder": Table(odd + u[Mod(p, 2)], (p, 5)),
    "by either branch": Table(
        Piecewise((z[5 * i] ** 2, Ne(Mod(idx[i], 6), 1) | Eq(Abs(Min(j, 2 * i - 1) - 1), 2)), (u[0] ** 2, True)),
        (i, m),
        (j, 2),
    ),
    "what an axis says of a loop": Table(
        Sum(KroneckerDelta(c, 5 - a - pairs[c]) * z[c], (c, Max(2 - 6 * b, 3 - a), Min(4, 5 - a))), (a, 4), (b, 2)
    ),
    "a maximum": Table(IndexedMax(x[idx[i]] - x[p + i], (i, 0, m - 1)), (p, n)),
    "the range of a maximum": Sum(Table(largest, (p, n))[p] * (p + 1), (p, 0, n - 1)),
    "deep in a product": Table(sympy.prod([x[idx[i] + t] + 1 for t in range(-12, 12)]), (i, m)),
}

for _name, _case in CASES.items():
    _by = {"first": ()} if _name == "deep in a product" else {}  # of 24 factors
    row(_name, _case, {key: value for key, value in SETTING.items() if _case.has(key)}, **_by)

# Tables inside of y for N = 1 and N = 3 only, in two ways that no single check of the sizes can say.
_x, _y, _w = real("x", N), real("y", N), real("w", m)
_next, _past = Table(_y[i + Mod(N, 2) - 1], (i, N)), Table(_y[3 * N + i], (i, 4))


def _squared(table, last):
    """A sum of which the slope holds the sum again, so that the table is in both."""
    total = Sum(table[i] * _x[j] ** 2, (i, 0, last), (j, 0, N - 1))
    return total / sympy.sqrt(1 + total**2)


GUARDED = {
    "one remainder": where(_squared(_next, N - 1), Eq(Mod(N, 2), 1)),
    "other remainders": where(_squared(_past, 3), Ne(Mod(N, 3), 1), otherwise=1),
    "a number": where(_squared(_past, 3), Eq(N, 5), otherwise=1),
    "at least": where(_squared(_past, 3), N >= 5, otherwise=1),
    "a loop index": Sum(where(_squared(_past, 3) * _x[k], N + k >= 9), (k, 0, N - 1)),
}
for _name, _case in GUARDED.items():
    row(f"a table behind {_name}", _case, *({N: size} for size in (1, 2, 3, 4, 5)))
# The first reader needs the table for few sizes, and the second one its entries for all of them.
_table = Table(Sum(_x[i] * _w[j] ** 2, (j, 0, m - 1)), (i, N))
_even = where(_table[floor(p / 2)], Eq(Mod(p, 2), 0), p <= 2 * N - 2)
_both = where(_table[N - 1], m <= N) * KroneckerDelta(p, 1) + _even
row("a table that some sizes leave empty", Table(_both, (p, 9)), {N: 2, m: 3}, {N: 3, m: 3})
REFUSED = [*CASES, *(f"a table behind {name}" for name in GUARDED)]
