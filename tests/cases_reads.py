"""Functions that read by data, behind conditions on data, in ranges that data end, and outside of their tensors."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import sympy
from sympy import Abs, Eq, Expr, KroneckerDelta, Max, Min, Mod, Ne, Piecewise, ceiling, floor

from sympy_tensordiff.symbolic.index_notation.indices import indices
from sympy_tensordiff.symbolic.index_notation.sums import IndexedMax, IndexedMin, IndexedProduct
from sympy_tensordiff.symbolic.index_notation.sums import IndexedSum as Sum
from sympy_tensordiff.symbolic.index_notation.tensors import TensorComprehension as Table
from sympy_tensordiff.symbolic.index_notation.tensors import TensorSymbol


class Row(NamedTuple):
    """A function, at some sizes and data; what it is differentiated by once, all where nothing is said, and twice.

    Kernels compute the derivatives too, but not where they are refused or take seconds to write.
    """

    function: Expr
    settings: tuple[dict[Any, Any], ...] = ({},)
    first: tuple[Any, ...] | None = None
    second: tuple[Any, Any] | None = None
    kernel: bool = True


ROWS: dict[str, Row] = {}


def row(name: str, function: Any, *settings: dict[Any, Any], **more: Any) -> None:
    """Add a row."""
    assert name not in ROWS
    ROWS[name] = Row(function, settings or ({},), **more)


def real(name: str, *shape: Any) -> TensorSymbol:
    return TensorSymbol(name, shape)


def data(name: str, *shape: Any) -> TensorSymbol:
    return TensorSymbol(name, shape, dtype=int)


def where(value: Any, *conditions: Any, otherwise: Any = 0) -> Expr:
    return Piecewise((value, sympy.And(*conditions)), (otherwise, True), evaluate=False)


delta: Callable[..., Any] = KroneckerDelta
a, b, c, i, j, k, l, p, q, r = indices("a b c i j k l p q r")
M, N, P, n, m = indices("M N P n m")
alpha = real("alpha")

# ---------------------------------------------------------------- conditions on data next to each other

_a, _b, x, y, z = data("a", N), data("b", M), real("x", 3), real("y", 4), real("z", 9)
_inner = Piecewise((x[_b[i]], Eq(_a[i], 1)), (y[i], True))
row(
    "data that others choose",
    Table(where(_inner, y[0] > 0), (i, 4)),
    {N: 4, M: 2, _a: [1, 1, 0, 0], _b: [2, 0], y: [1, 2, 3, 4]},
)
_idx, _place, _w = data("idx", M + 8), data("place", M + 1), real("w", 5)
_both = delta(4 * i + 2 * k - M - 3, _place[0]) * delta(_idx[N] + 1, Mod(1 - k, 4))
row(
    "equations with a solution for one parity",
    Table(Sum(_w[k] * _both, (k, i, 3)), (i, 4)),
    {M: 2, N: 20, _place: [2, 0, 0], _idx: range(10)},
    {M: 2, N: 1, _place: [1, 0, 0], _idx: [0, 1, 2, 0, 1, 2, 0, 1, 2, 0]},
)
_idx, _place = data("idx", 4), data("place", 1)
row(
    "an equation that another one uses up",
    Table(Sum(delta(2 * k + 3 * c + 1, _place[0]) * delta(_idx[3 * c - 2], k) * y[k] ** 2, (k, 0, 3)), (c, 2)),
    {_place: [6], _idx: [0, 1, 0, 0]},
)
_lab, _off = data("lab", N), data("off", P)
row(
    "data of an equation that is solved",
    Table(delta(_place[0], _lab[M - 1 + i]) * delta(2 * i + j, _off[M - 4]) * z[i + j] ** 2, (i, 4), (j, 3)),
    {M: 1, N: 4, P: 3, _place: [7], _lab: range(4), _off: range(3)},
    {M: 4, N: 9, P: 3, _place: [1], _lab: [1] * 9, _off: [4] * 3},
)
_lab, _pair = data("lab", 8), data("pair", 3)
row(
    "a condition that leaves a sum",
    Table(Sum(delta(_lab[j + c], 1) * delta(_pair[2 * c], 0) * y[c] ** 2, (c, 0, 3)), (j, 2)),
    {_lab: [1, 1, 0, 0, 0, 0, 0, 0], _pair: [0, 1, 0]},
)
_lab, _w = data("lab", 5), real("w", 3, 2)
_limits = (k, ceiling((3 * i + 2 * j) / 4), floor((3 * i + 2 * j + 1) / 4))
row(
    "a scatter in loops that may be empty",
    Table(Sum(delta(c, _lab[2 * i - j]) * _w[i, j], _limits, (i, 0, 2)), (j, 2), (c, 4)),
    {_lab: [1, 0, 3, 2, 1]},
)
_pairs, _place, _z = data("pairs", 1, 2), data("place", 1), real("z", 3, 1, 1)
_read = _z[5 - c - j, Abs(_place[0] - 1), Min(-3, j - 3) + 3]
_sum = Sum(delta(Mod(floor(i / 6), 4), _pairs[floor(j / 3), j]) * _read, (c, Abs(3 * j - 3), Abs(3 * j - 3) + 2))
row(
    "a factor next to a range that data end",
    Table(alpha / (_sum**2 + 1), (i, 3), (j, 2)),
    {_pairs: [[0, 1]], _place: [1]},
    second=(_z, _z),
)
_a = data("a", 5)
_limits = (i, Max(0, Mod(c + 3, 6) - 3), Min(2, Mod(c + 3, 6) - 1))
row(
    "an axis with a remainder that data bound",
    Table(Sum(where(z[i] ** 2, c >= -6 * _a[4 - 2 * i] - 3, c <= 14 - 6 * _a[4 - 2 * i]), _limits), (c, 21)),
    {_a: [1, 0, -1, 2, 0]},
)
_idx, _pairs, _x, _g = data("idx", 12), data("pairs", 5), real("x", 6), real("g", M + 1)
_body = delta(-1, _pairs[i]) * _g[i] * _x[5 * N - i - 17] * _x[Min(2 * i - 1, _idx[2 * i - 4]) + 2]
_given = {_idx: [-1, 40, 1, 0, 2, 40, -40, 0, -40, 40, 40, -40], _pairs: [0, 3, -1, -1, 7]}
row(
    "an equation with data for what others need",
    Sum(_body, (i, 0, M)),
    {N: 4, M: 4, **_given},
    {N: 1, M: 1, **_given},
    first=(_x,),
    second=(_x, _x),
)
_idx, _ends, _low, _y = data("idx", 8), data("ends", 5), data("low", 1), real("y", 14)
_inner = Sum(_y[i + 3 * l], (k, _low[0], _ends[_idx[i - l + 2]]))
row(
    "what elimination loses of a remainder",
    Table(Sum(_inner, (l, Mod(j, 2), Mod(j, 2) + 1)) ** 2, (i, 4), (j, 4)),
    {_idx: [0, 4, 1, 0, 2, 3, -40, 40], _ends: [1, 1, 0, 40, 2], _low: [0]},
)
_idx, _place, _y = data("idx", 2 * N + 8), data("place", 1), real("y", N + 5, 2)
_near = Mod(2 - 2 * i - floor(Min(N - 1, Abs(2 * M - 4)) / 2), 3) >= 2
_chosen = Piecewise((M - 4 * N - 6 * j, _near), (x[floor((i + 2 * j + 1) / M) - 1], True))
_below = where(_y[floor((j + 2) / M), floor(Min(i, i + j) / M)] ** 2, Eq(Mod(2 * j, 5), 4)) + 1
row(
    "multiples by symbols that no projection tells",
    Table(_chosen * _y[floor((M + 3 * N - 3) / M) + 2 * _idx[3 * i] - 1, _place[0] - 3] / _below, (i, M), (j, 3)),
    {N: 4, M: 2, _idx: [0, 2, -40, 2, 2, 40, -1, 1, -40, 1, 0, 2, 40, 2, 0, 1], _place: [4]},
    first=(),
    second=(_y, x),
    kernel=False,
)
_idx, _place, _y = data("idx", 1), data("place", 3), real("y", 3)
row(
    "a power with data in its exponent",
    Table((floor(N / 5) * _y[Max(0, i - 3)]) ** (_idx[0] - 1) / (_place[Mod(i, 3)] ** 2 + 1), (i, 5)),
    *({N: 4, _idx: [power], _place: [2, 0, 1]} for power in (1, 2, 3, 5)),
    first=(),
    second=(_y, _y),
)
_pairs, _x, _y, _g = data("pairs", 5), real("x", 7), real("y", 4), real("g", M)
_value = alpha * _g[i] * _y[Mod(_pairs[2 * Abs(N - 4)], 3) - 1] ** 3 * _x[Max(0, Min(5 - 2 * i, N - 1))]
row(
    "a remainder that says more than a projection",
    Sum(Piecewise((alpha * _g[i] * _x[0], 5 * N + i < 11), (_value, True)), (i, 0, M - 1)),
    *({N: size, M: 4, _pairs: [1, 2, 1, 1, 2]} for size in (1, 2, 4)),
    second=(_x, alpha),
)
_pairs, _y, _z = data("pairs", 5, 3), real("y", 3), real("z", 4, 6, 4)
_chosen = delta(_pairs[Min(i, j), 2 - 2 * j] + 3, ceiling((3 * i + 1) / 4))
_inner = Sum(_chosen * _z[i - 2 * j, 3 * i - c - 2, c + 6 * i - 6 * j - 15], (c, 2 * i - 1, i + 2))
row(
    "ranges around data and those inside",
    Table(_y[1 - j] ** 2 * _inner, (i, 4), (j, 2)),
    {_pairs: [[0, 1, -1], [0, 0, -40], [2, 1, 2], [-40, 1, -40], [2, 2, 1]]},
    second=(_z, _y),
)

# ---------------------------------------------------------------- ranges that end at data

_place, _x, _y = data("place", 5), real("x", 8), real("y", 8)
for _selected in (floor(c / 2), Mod(c, 3)):
    row(
        f"a range that ends at data, with {_selected}",
        Table(_x[i] ** 2 * Sum(delta(_selected, _place[-2 * i]) * _y[c], (c, 3 * i, _place[0])), (i, 2)),
        {_place: [2, 1, 1, 1, 1]},
    )
_places, _pairs, _x = data("place", N + 1), data("pairs", 5, 3), real("x", 2 * N + 5)
_elsewhere = (M + j - 3 * i < 1) | Ne(Mod(i - j, 6), 0) | Eq(Mod(floor((j + 1) / M), 3), 1)
_chosen = delta(_places[M + j - 4], 0) * Sum(_x[_pairs[3 - c, Mod(2 * i, 3)] + 2], (c, 0, 3))
row(
    "contributions with reasons of their own to be 0",
    Table((alpha - _x[2 * j]) ** 2 * Piecewise((1, _elsewhere), (_chosen, True)), (i, M), (j, 4)),
    *({N: 3, M: size, _places: [1, 0, 2, 0], _pairs: [[1] * 3] * 5} for size in (1, 4)),
    second=(_x, alpha),
    kernel=False,
)
_idx, _jdx, _x = data("idx", 8), data("jdx", 6), real("x", 8)
_squares = Table(_x[5 * c] ** 2, (c, 2))
row(
    "loops around an addition to an entry",
    Table(Sum(delta(floor(c / 2) + 1, _idx[i] + 2) * _squares[Mod(_jdx[2 * c - 4], 2)], (c, 0, 2)), (i, 2)),
    {_idx: [2, 0, 1, 0, 1, 0, 0, 0], _jdx: [3] * 6},
)
_z, _least = real("z", 7, 5, 2), j + ceiling(i / 2)
_read = _z[5 * j - 6 * i - 4, _pairs[j - 1, Mod(Max(c - i, Min(2, j)) + 2, 3)], floor(Max(0, i) / 5)]
_inner = Sum(delta(_jdx[4 - 2 * j] + 1, Mod(c, 4)) * _read, (c, 2 * i - 1, 2 * j - 3 * i))
row(
    "a table behind a congruence",
    Table(IndexedMin(j - 4 * i - c, (c, _least + 1, _least + 3)) * _inner**2, (i, 2), (j, 3)),
    {_jdx: [0, 1, 2, 1, 0, 0], _pairs: [[0, 1, 2], [3, 4, 0], [1, 2, 3], [4, 0, 1], [2, 3, 4]]},
)
_inner = Sum(delta(_jdx[i - 2 * j + 4] - 5, floor(j / 2 - c / 2)) * z[i], (c, j, 3))
row(
    "one of several cases next to data",
    Table(where(_inner, Ne(Mod(M, 4), 2), otherwise=z[0]), (i, 2), (j, N)),
    *({**sizes, _jdx: [3, 4, 1, 3, 4, 3]} for sizes in ({N: 3, M: 4}, {N: 4, M: 2})),
)
_jdx, _y = data("jdx", 3), real("y", 21)
_inner = Sum(delta(k, _jdx[j + l - 2] + 1) * _y[3 * c + j], (c, Mod(Max(3, Min(6, 3 * k)), 5), 4 * l - k - 2))
row(
    "a rounded range around data",
    Table(Sum(_inner, (l, 0, 2), (k, 0, 2)), (j, 3)),
    *({_jdx: entries} for entries in itertools.product((-1, 0, 1), repeat=3)),
)
_x, _y = real("x", 4), real("y", 5)
_inner = Sum(delta(_pairs[2 - 2 * p, j - 1] - 4, Mod(i, 2)) * _x[i - 3 * p + 3], (c, i - p + 3, 4 * j + p - 2))
_chosen = where(_y[Max(j, 2 * p - 2 * j)], Eq(Mod(3 * j - 3 * i - 6 * p, 5), 0))
row(
    "a quotient that data stand for",
    Table(_chosen * _inner**3, (i, 3), (j, 3), (p, 2)),
    {_pairs: [[0, 4, 9], [9, 9, 9], [9, -1, 9], [9, 9, 9], [9, 9, 9]]},
    second=(_y, _x),
)
_jdx, _y = data("jdx", 6), real("y", 8, 4)
_greatest = Max(3 * c - 1, _jdx[floor((c + 2) / 4)])
_chosen = delta(_idx[3 * i] - 1, floor(c / 2)) * _y[c + 3 * _greatest - i + 1, 3 * c - 3 * i + 3]
row(
    "equations next to conditions of many cases",
    Table(Sum(where(_chosen, Mod(i, 5) >= 1), (c, 0, 2)), (i, 2)),
    {_idx: [0, 9, 9, 1, 9, 9, 9, 9], _jdx: [0, 1, 9, 9, 9, 9]},
)
_z, _even = real("z", 2, 3), Eq(Mod(j + Max(i - 3, Abs(Min(i + j - 1, 3 * i + j + 5) + 1)), 2), 0)
_above = _z[1 - 4 * i, j]
row(
    "a condition that is computed once",
    Table(x[i] * where(_above, _even, otherwise=x[1]) ** 2 + where(_above, _even, otherwise=x[0]), (i, 2), (j, 2)),
)
_jdx, _y = data("jdx", 5), real("y", 8)
_leaving, _last = z[3 * p - _idx[c]], _jdx[4 - 2 * p]
for _name, _squared in {
    "entries": Sum(_leaving, (c, 0, _last)),
    "a window": Sum(_leaving, (c, Max(0, _last - 1), 2)),
    "several": Sum(Sum(_y[i] * _leaving, (c, 0, Min(2, _last))), (i, 0, 1)),
}.items():
    row(
        f"the square of a sum of {_name} that data end",
        Table(_squared**2, (p, 3)),
        {_idx: [0, -1, -2, -1, 0, -1, 0, -2], _jdx: [1, 0, 2, 0, 1]},
        second=(z, z),
    )
_width, _x = data("width", 4), real("x", 8)
_windows = Sum(_y[i + k + l], (l, 0, _width[k]))
for _name, _of_windows in {
    "a sum": Sum(_windows, (k, 0, _width[i])) ** 2,
    "a product": IndexedProduct(_windows, (k, 0, _width[i])),
    "a maximum": IndexedMax(Sum(_x[k] * _y[i + k + l], (l, 0, _width[k])), (k, 0, _width[i])),
    "with lengths in the index": Sum(_y[i - _width[k] + 3] * _x[k + _width[i]], (k, 0, _width[i])) ** 2,
}.items():
    _by: dict[str, Any] = {"first": (_x,), "kernel": False} if "maximum" in _name else {"second": (_y, _y)}
    row(f"windows of windows, {_name}", Table(_of_windows, (i, 4)), {_width: [2, 0, 1, 1]}, **_by)

# ---------------------------------------------------------------- empty ranges, which no linear condition tells

_x, _y = real("x", 4), real("y", N + 3)
_sizes = tuple({N: size} for size in (1, 3))
_squares = Sum(_y[2 - i + k] ** 2, (k, 0, N))
for _name, _total in {
    "between the integers": Sum(_x[i] * m / (_squares + 1), (m, ceiling(i / 2), floor((i + 2) / 3))),
    "over some remainders": Sum(where(m * _x[i] / (_squares + 1), Mod(m, 4) <= 1), (m, 2 * i, 2 * i + 1)),
}.items():
    row(f"a node in a sum {_name}", Table(_total, (i, 4)), *_sizes, second=(_y, _y))
_many = where(m * _x[i] * sympy.log(y[i]), Mod(11 * m, 40) <= 17)
row("no number next to many remainders", Table(Sum(_many, (m, 2 * i, 2 * i + 1)), (i, 4)), {y: [2, 0, 4, 0]})
_entry = Table(z[0] ** (k + 3 * m), (k, 3))[m - 2 * N]
_never = Sum(IndexedProduct(_entry, (N, -2 * i, 1 - 2 * i)), (m, floor(i / 2) + 2, floor(i / 2)))
row("a range that its quotients show to be empty", Table(_never + z[0] ** 2, (i, 1)), second=(z, z))
_a, _c, _w = sympy.Symbol("a", real=True), real("c", 2 * N + 1), real("w", N + 9)
_outside, _less = _w[5 * M - N - 6], _a < _c[N - M - i + 3]
_some = (Eq(N - 5 * i, 2) | (N + 2 * i > 4)) & _less
for _name, _entry in {
    "a condition": where(where(_w[20 - 3 * M - 2 * N], _outside > 0), _some, otherwise=_a),
    "an inner condition": where(where(where(_w[0], _outside > 0), _a > -1), _some),
    "a maximum": where(Max(_outside, _w[0]), _some),
    "a product": where(where(_w[0] * _outside**2, _a > 0), _less),
}.items():
    row(f"nothing is chosen around {_name}", Table(_entry, (i, M)), {N: 3, M: 1}, {N: 5, M: 1}, {N: 4, M: 4})
_z = real("z", N + 15)
_table = Table(where(_z[3 * M + 2 * k - 5 * N + 14], Ne(Mod(N - M, 3), 1)), (k, M + 8))
row(
    "a table that some sizes need",
    Table(_z[i] * _table[m - 3 * M - 4 * N + 22] ** 3, (i, 2), (m, 2)),
    *({N: size, M: other} for size, other in ((2, 4), (4, 2), (1, 3))),
    second=(_z, _z),
)
_u, _v, _s = real("u", 11), real("v", 3 * N + 1), real("s", M + 1, 2)
_chosen = where(_u[M - 5 * i + 8], Eq(2 * M - 6 * N, -14), otherwise=_v[floor((5 * M + 4 * N) / 3) - 6])
_equation = delta(2 * N - 5 * M - 2 * n, m - i - 26)
_table = Table(_s[M, 1], (k, N + 7))[N + floor(-5 * M / 2) + 9]
row(
    "conditions over a sum's own indices",
    Table(_chosen * _table * Sum((2 * M + i + 2 * n) * _equation, (n, 2 - i, 4 - i), (m, 0, 2)), (i, N)),
    {N: 3, M: 2},
)

# ---------------------------------------------------------------- rewriting that comes to an end

_x, _z, _jdx = real("x", 3 * M + 8, 3 * N + 1), real("z", 4, N + 4, N + 3), data("jdx", N + 6)
_entries = _x[Abs(3 * M - 12) + 1, 3 * N + j - M - i + 1] - _x[0, Max(i - 3, Min(2 - M, 2 - 2 * i)) + 2]
row(
    "inner guards that say more of sizes",
    Table((_entries + _z[M + N - 4, 0, M]) ** 2 * _z[floor((i - _jdx[6 - 2 * N] - 1) / 3) + 2, 0, 0], (i, 4), (j, M)),
    *({N: 3, M: size, _jdx: [1, 0, 0, 0, 2, 0, 2, 0, 1]} for size in (1, 3)),
    first=(),
    second=(_x, _x),
)
_pairs = data("pairs", N, M)
_summand = delta(_pairs[2 * j, 4 - 2 * M], 1) * z[Mod(N + 3 * i, M) + Max(0, 2 * c + i + 2)]
row(
    "a sum with a remainder next to data",
    Table(Sum(_summand, (c, 2 * i - 2 * M - 1, 2 * i - 2 * M + 1)), (i, M), (j, 2)),
    {M: 2, N: 3, _pairs: [[1, 0], [0, 0], [1, 2]]},
    kernel=False,
)

# ---------------------------------------------------------------- guards next to guards

_data, _x, _y = data("data", 3), real("x", N), real("y", N)
_sizes = ({N: 1, M: 3, _data: [2, 9, 0]}, {N: 2, M: 5, _data: [2, 9, 0]})
_chosen = where(_y[i] * _x[_data[-2 * i]], ~(Eq(Mod(M, 2), 0) & Ne(floor((M + 5) / N), 9)))
row(
    "an addition of guards",
    Table(_chosen, (i, N)),
    *({N: size, M: other, _data: [0, 9, 9]} for size, other in ((4, 4), (1, 4), (1, 3))),
)
_limits = (i, N, j + _data[M - 3]), (j, N, 2 * M - 1)
for _name, _over in {
    "a sum": Sum(_y[0] ** 2, *_limits),
    "a maximum": IndexedMax(_y[0] * j, *_limits),
    "sums": Sum(k * _y[0], (k, 0, i), *_limits),
}.items():
    row(f"{_name} over loops that data bound", _over, *_sizes)


def _chosen_by(place: Any, read: Any) -> Expr:
    """Two entries that data choose: the delta becomes ends of the range of j."""
    return delta(floor(j / 2), _data[place]) * read


_x, _y = real("x", 9), real("y", 7)
for _name, _terms in {
    "next to a factor": _x[i] * Sum(_chosen_by(i - 4, _x[j] ** 2), (j, 3 - i, i - 4)),
    "of two indices": Sum(_chosen_by(i - 4, _x[j + k] ** 2), (j, 0, i - k - 4), (k, 0, 3)),
    "that is clamped": Sum(Sum(_chosen_by(k - 4, _x[j + k] ** 2), (j, 0, k - 4)), (k, 0, Min(i, 6))),
    "around data": Sum(Sum(_chosen_by(2 * k - i, _x[j] ** 2), (j, i, 2 * k)), (k, -2, 1)),
    "that bounds another": Sum(Sum(_chosen_by(i - 4, _x[j] ** 2), (j, k, i - 6 + k)), (k, 1, i)),
    "of another factor": Sum(Sum(_chosen_by(i - 4, _x[j] ** 2 * _y[k]), (j, 0, 3)), (k, 0, i - 4)),
}.items():
    row(f"data in a range {_name}", Table(_terms, (i, 7)), {_data: [0, 2, 1]})
_a, _z, _w = real("a", 5), real("z", 6, 4), real("w", 6, 4)
_chosen = delta(j, _data[floor(i / 5)]) * _a[3 - i] * _z[floor(-j / 2) - 2 * i + 5, j + 1]
row("an index that becomes data", Sum(_chosen, (i, 0, 2), (j, 0, 2)), {_data: [2, -9, 9]}, second=(_z, _a))
_z = real("z", 2 * M + 9)
_square = where(_z[3 * N + 3 * c + j + 5 * p - 12] ** 2, Ne(Mod(N + c - 6 * i, 5), 1))
_table = Table(_z[N + c + 4 * i - 3] * _square, (i, 3), (c, 4))
_first = _table[floor((p - 4 * M - 4 * N) / 3) - i + 14, 3 * i + p - 6 * M - 5 * N - j + 38]
_second = _table[i + p - 2, floor((i - 2 * p) / 3) - 2 * M + 8]
_asked = Eq(5 * i + 2 * j, 10) | (Eq(j, 1) & Eq(M + i + 2 * p, 9))
row(
    "an entry of a table for two conditions",
    Table(where(_first * _second, _asked), (i, N), (j, 2), (p, 2)),
    *({N: size, M: other} for size, other in ((1, 3), (4, 4))),
    kernel=False,
)
_d, _w, _v = data("D", 8), real("w", 3), real("v", 3)
_count = Sum(delta(1, _d[_d[6 - i - 2 * j]]), (k, i, 2))
row(
    "a test of data that leaves a sum", Table(_count / (_w[j] ** 2 + 1), (i, 4), (j, 3)), {_d: [1, 0, 2, 1, 0, 1, 3, 1]}
)
for _name, _condition in {"indices": i >= 2, "data": Eq(_d[i], 0)}.items():
    _value = sympy.exp(where(_w[k], _condition, Eq(_d[i - 2], k)) + 1) * _v[k]
    row(f"cases by data next to {_name}", Table(Sum(_value, (k, 0, 2)), (i, 8)), {_d: [1, 2, 0, 1, 0, 2, 1, 0]})
_total = Sum(delta(1, _d[Min(i, 2)]) * _v[k], (k, 0, i)) / _w[i]
row("a clamp that ranges decide", Table(_total, (i, 3)), {_d: [1, 0, 1, 3, 2, 0, 0, 0]})
