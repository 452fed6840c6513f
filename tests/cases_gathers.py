"""Functions that gather by data, with data of other conditions next to them."""

from __future__ import annotations

import numpy as np
import sympy
from cases_reads import Sum, Table, data, delta, i, indices, j, k, m, n, real, row, where
from sympy import Abs, Eq, Max, Min, Mod, Ne, floor

from sympy_tensordiff.symbolic.index_notation.sums import IndexedProduct

e, t = indices("e t")
x, y, v, z = real("x", 7), real("y", 7), real("v", 5), real("z", n)
idx, jdx, label, pairs = data("idx", 4), data("jdx", 4), data("label", 4), data("pairs", 4, 2)
col, place = data("col", 5), data("place")
squares = Table(x[i] ** 2, (i, 7))

# Others, and all of their second derivatives as kernels, are in codegen/gather_cases.py.
for _name, _function in {
    "next to the index": Sum(x[i + idx[i]] ** 2, (i, 0, 3)),
    "by a remainder": Sum(where(x[k] ** 2 * v[e], Eq(Mod(2 * k + col[e], 3), 0)), (k, 0, 3), (e, 0, 4)),
    "in a case": Table(where(x[idx[i]] ** 2, Eq(idx[i], 1), otherwise=x[i]), (i, 4)),
    "in a range": Sum(where(x[k] ** 2 * x[idx[i]], idx[i] < k), (k, 0, 3), (i, 0, 3)),
    "twice": Sum(x[idx[i]] * x[idx[j]] * y[i], (i, 0, 3), (j, 0, 3)),
    "in a function": sympy.log(Sum(sympy.exp(x[idx[i]] / 8) + y[i] ** 2, (i, 0, 3))),
    "of a table": Table(squares[idx[i]] ** 2, (i, 4)),
    "by two data": Sum(delta(idx[i], jdx[j]) * x[i] ** 2 * y[j], (i, 0, 3), (j, 0, 3)),
    "at a clamp": Sum(x[Min(idx[i] + k, 6)] ** 2 * y[k], (k, 0, 2), (i, 0, 3)),
    "of a table next to an offset": Table(squares[idx[i]] * y[i + idx[i]] ** 2, (i, 4)),
    "by data of data": Sum(y[j + 2 * idx[i]] ** 2 * x[idx[pairs[i, j]]], (j, 0, 1), (i, 0, 3)),
    "in a product": IndexedProduct(x[idx[k]] + y[k], (k, 0, 2)),
    "of one entry": x[idx[0]] ** 2 * y[place],
}.items():
    row(f"a gather {_name}", _function, second=(x, x))

_padded = {x: range(1, 8), idx: [0, -1, 6, 7]}
row("padding next to a delta", Sum(Sum(x[k] * delta(k, idx[i]), (k, 0, 6)) ** 2, (i, 0, 3)), _padded, second=(x, x))

# What is read at i - 2 is inside where the other condition holds, with the data below; SymPy sorts both.
for _name, _function in {
    "next to another": Sum(delta(0, idx[i]) * delta(1, idx[i - 2]) * x[i] ** 2, (i, 0, 3)),
    "sorted the other way": Sum(delta(1, idx[i - 2]) * delta(2, jdx[i]) * x[i] ** 2, (i, 0, 3)),
    "behind a case": Sum(where(delta(1, idx[i - 2]) * x[i] ** 2, Eq(idx[i], 0)), (i, 0, 3)),
    "behind an index": Sum(where(x[i] ** 2, Eq(idx[i - 2], 1) & (i >= 2), otherwise=x[i]), (i, 0, 3)),
    "or another": Sum(where(x[i] ** 2, (idx[i - 2] >= 1) | (i < 2), otherwise=x[i]), (i, 0, 3)),
    "on values": Sum(where(x[i] ** 2, (x[i - 2] >= 1) & (i >= 2), otherwise=x[i]), (i, 0, 3)),
}.items():
    _given = {x: [3, 1, 5, -2, 0, 0, 7], idx: [1, 1, 0, 0], jdx: [1, 1, 1, 2]}
    row(f"a condition {_name}", _function, {s: _given[s] for s in _given if _function.has(s)}, second=(x, x))

# Of both indices of a minimum one is outside of the data: an entry of data is one unknown, not a choice of two.
_mirrored, _clamped = label[Min(i, 6 - i)], label[Max(i - 3, 0)]
for _condition in (
    Ne(_mirrored, 2),
    Max(_clamped, i) >= 3,
    floor(_clamped / 2) + floor(Max(i, 2) / 2) >= 2,
):
    row(f"cases by {_condition}", Sum(where(x[i] ** 2, _condition, otherwise=x[i]), (i, 0, 6)), {label: [2, 0, 1, 0]})

_wide, _start = data("wide", 5, 6), 3 * n + 6 * j - 3 * m
_read = x[_wide[Max(0, Min(m - 1, 2 * n + k + 2)), 8 - 2 * m]]
row(
    "a range that shares no index with data next to it",
    Sum(y[j] * Sum(_read, (k, _start, _start + 2)) ** 2, (j, 0, m - 1)),
    {_wide: np.arange(30).reshape(5, 6) % 7, n: 1, m: 3},
    second=(x, x),
    kernel=False,
)
_s, _one = sympy.Symbol("s", real=True), data("one", 1)
_chosen = delta(Mod(n + i, 2), Min(2, floor(Min(2 * m - 1, 3 * n) / 2)))
row(
    "a sum of choices with a factor next to data",
    Sum(_s * z[n - 1] ** 2 / (_chosen * x[_one[-i] + 2] ** 2 + 1) * y[i], (i, 0, m - 1)),
    {_one: [-1], n: 3, m: 3},
    second=(z, x),
)
_first = data("first", n + 5)
_entry, _body = _first[floor(n / 2)], x[i] ** 2 * z[0]
for _condition in (Eq(i, n + _first[_entry]), _entry <= n + 4, _entry >= 0):
    _body = where(_body, _condition)
row(
    "data behind what says that they can be read",
    Sum(_body, (i, 0, 6)),
    *({_first: [9, selected, 9, -2, 9, 9, 9, 9], n: 3} for selected in (-1, 3, 8)),
)
# The unknown has a single value, which the sum would be solved for again, and so on.
_twice = delta(idx[j], Mod(2 * i, n)) * where(x[j - floor(i / 2) + 3], 2 * j > n) * z[0]
row("a remainder next to data", Sum(_twice, (j, 0, 3), (i, 0, n - 1)), {idx: [1, 2, 1, 2], n: 3})
_data, _other, _values = data("data", 5), data("other", 1), real("values", n + 8)
_bounded_condition = Ne(Mod(Max(-1, n - 3) + Max(0, Min(n - 1, _other[0])), 4), 0)
row(
    "a mask around data in an index",
    Table(where(_values[Abs(_data[2 - n])], _bounded_condition), (i, 4))[Min(n, 2)],
    {_data: [1, 2, 0, 1, 1], _other: [0], n: 3},
    {_data: [0, 3, 0, 0, 0], _other: [0], n: 1},
)
_values, _table, _data = real("values", n + 11), real("table", 8, 2 * n + 3), data("data", m + 6)
_sum = Sum(delta(1 - k, _data[Max(5, Min(7, 2 * n + 1)) - 5] + 11), (k, -5 * i, 2 - 5 * i))
_product = IndexedProduct(_values[2 * i + t - 4 * m - 2 * n + 15], (t, m + n + 1, 4 * n + i - m))
row(
    "a product with bounds of sizes next to data",
    Table((_product - _table[6 - 3 * i, floor((m + i) / 5)]) ** 2 * _sum, (i, n)),
    {_data: [0, -40, -1, 1, 1, 0, 1, 2], n: 1, m: 2},
    second=(_table, _values),
)
_pairs, _end, _x = data("pairs", 4, 3), data("end", 1), real("x", 5)
row(
    "a loop that data end, around a clamp",
    Table(Sum(_x[_pairs[Abs(3 * i + j - 2), k]] ** 2, (k, 0, _end[0])), (i, 2), (j, 3)),
    {_end: [1], _pairs: [[0, 1, 9], [2, 2, 9], [3, 0, 9], [1, 4, 9]]},
)
