"""Branches that are not taken contribute nothing: no logarithm of a negative number; and what random tests found."""

from __future__ import annotations

import sympy
from cases_reads import M, N, Sum, Table, a, alpha, b, c, data, delta, i, indices, j, k, p, real, row, where
from sympy import Eq, Min, Mod, Ne, floor, log, sin, sqrt

import sympy_tensordiff as td

x, y, A = real("x", 3), real("y", 3), real("A", 3, 3)
VALUES = {x: [0.3, -0.5, 0.7], y: [0.4, -0.6, 1.2], A: [[0.5, 0.9, 0.3], [-1, -2, -3], [2, 0.4, 1]]}


def _vector(value, *conditions):
    return Table(where(value, *conditions), (i, 3))


_whole = td.elementwise(lambda t: where(t * log(t), t > 0), x)
_outer = td.outer(td.log(y), x)
_value = sin(td.tanh(x)[k])
_chosen = Sum(where(log(_value) * sqrt(_value), _value > 0), (k, 0, 2))
_both, _either = (x[i] > 0) & (y[j] > 0), (x[i] > y[j]) | (y[i] > 0)
CHOICES = {
    "a product": _whole,
    "its power": _whole**3,
    "two operands": td.elementwise(lambda t, s: where(t * sqrt(s), s > 0, otherwise=t), x, y),
    "entries of a product": _vector((td.log(y) * x)[i] * (td.log(y) * x * y)[i], y[i] > 0),
    "entries of many factors": _vector((td.log(y) * td.sqrt(y) * x * td.diag(A) * td.sin(y))[i], y[i] > 0),
    "entries of a matrix product": _vector(td.einsum("ij,j->i", td.log(A), x)[i] * x[i], y[i] > 0),
    "entries of an outer product": Table(where(_outer[i, j] ** 2, y[i] > 0, otherwise=x[j]), (i, 3), (j, 3)),
    "entries elsewhere": _vector(td.einsum("i,ij->ij", td.log(y), A)[2 - i, i], y[2 - i] > 0),
    "functions of functions": td.elementwise(
        lambda t: where(sin(sqrt(t) * log(t)), t > 0, otherwise=sqrt(-t)), td.einsum("ij,j->i", A, x)
    ),
    "a quotient of sums": _chosen / (_chosen + 2) * x[0],
    "a repeated condition": Table(
        sympy.Piecewise((x[i] * y[j], _both), (x[j] ** 2, _either), (y[i], True)), (i, 3), (j, 3)
    ),
}
for _name, _choice in CHOICES.items():
    _given = {s: VALUES[s] for s in VALUES if _choice.has(s)}
    _first, _last = (*_given,)[0], (*_given,)[-1]
    row(f"no branch of {_name}", _choice, _given, second=(_last, _first))
    if getattr(_choice, "shape", ()):
        row(f"no branch of the sum of {_name}", td.sum(_choice) ** 2, _given, second=(_first, _first))

# ---------------------------------------------------------------- sums in which no condition holds

_idx, _label, _c = data("idx", 2), data("label", 3), real("c", 5)
_powers = Table((floor(N / 5) * y[sympy.Max(0, i - 3)]) ** (_idx[0] - 1) / (_label[Mod(i, 3)] ** 2 + 1), (i, 5))
_pulled = td.vjp(_powers, y, _c)
row(
    "a pullback through powers, again",
    Sum(_pulled[i] * x[i], (i, 0, 2)),
    *({N: size, _idx: [power, 0], y: [2, 3, 5]} for size, power in ((4, 1), (4, 2), (4, 3), (6, 1), (6, 4))),
    first=(x, y),
)
_selected = Sum(where(log(alpha), x[i] > 0), (i, 0, 2)) * Sum(where(log(alpha), _label[i] > 0), (i, 0, 2))
_off, _on = {x: [-1, -2, -1], _label: [0, 0, 0]}, {x: [1, 2, -1], _label: [0, 1, 0]}
row("a product of sums of logarithms", _selected, {**_off, alpha: 0}, {**_on, alpha: 2}, first=(alpha, x))

# ---------------------------------------------------------------- found by random functions

d = indices("d")
_x, _z = real("x", 4), real("z", 6, 3)
_table = Table(Min(_x[3 - i], _z[i + 1, Mod(c, 2)]), (c, 4))
row(
    "a choice where no guard of a factor holds",
    Table(Table(2 * c, (c, 2))[0] * _table[1] * _table[3 - i], (i, 4)),
    second=(_z, _z),
)
row("an empty sum to the power of an index", Table(Sum(_z[2 * i, 0], (c, 1, 0)) ** (-3 * i), (i, 1)), first=())
_w = real("w", N)
_inner = Table(_w[1 - N] * _x[c], (c, 4))
_outer = Table(_x[2] / (_inner[c] ** 2 + 1), (c, 4))
for _second in ((_x, _w), (_x, _x)):
    row(
        f"a table for some sizes, by {_second}",
        Table(delta(1, N) * _outer[2 * i + 1], (i, 2)),
        *({N: size} for size in (1, 3)),
        second=_second,
    )
_s, _y = real("s"), real("y", N + 1)
_inner = Table(where(_s * _y[M - 1], M <= 2), (a, 2), (b, 3))
_middle = Table(_inner[floor(a / 2), 0], (a, 2 * N + 1))
_outer = Table(_middle[floor(d / 2)], (d, 3))
for _second in ((_y, _s), (_y, _y)):
    row(
        f"terms of a cotangent with guards of their own, by {_second}",
        Table(_outer[0] * _outer[3 * N + 2 * j - 3], (j, 2)),
        *({N: 1, M: size} for size in (1, 3)),
        second=_second,
    )
_v, _y = real("v", 2 * N + 5, N + 10), real("y", M + 20)
_inner = Table(_s * _v[a, a + b + 1] * _y[M + b - 3 * a + 14], (a, M + 3), (b, 5))
_outer = Table(_inner[2 * i + j - N + 4, M + N - j - 2], (i, 1))
_other = Table(_v[2 * N + d + 4 * i + 2 * j - 2, Mod(2 * N + p, 3)], (d, 3))
_body = (delta(i + p - 1, Mod(5 * M + 3 * j, 2)) * _y[4 * i - 6 * N - 6 * j + 30]) ** i * _outer[i]
_body += Min(alpha, _other[4 * i - N + 3] * _other[M + N + i - 4])
row("loops that run once or never", Table(_body, (i, 1), (j, 3), (p, N)), {N: 2, M: 4}, second=(_v, _y))
_v, _y = real("v", N + 5), real("y", 8)
_second = where(_s, Eq(2 * i, N + 2) | Ne(Mod(i, 3), 1))
_body = (where(i, Ne(N + i, 3)) - 3 * _y[1] / 2) * _second * _v[M + i - 1] / (_s**2 * _y[2 * i] ** 2 + 1)
row("a product of sums of guards", Table(_body, (i, M)), {N: 2, M: 4}, {N: 4, M: 2}, second=(_y, _s))
_v, _y = real("v", M * N + 4), real("y", M * N + 3)
row(
    "a bound and its own products",
    Table(_v[5 - N] + _y[i * N + j], (i, M), (j, 4)),
    *({N: size, M: other} for size, other in ((1, 4), (3, 1), (2, 3))),
)
_y, _w = real("y", 5), real("w", 3 * M + 2, M + 2, M + 5)
_below = where(_w[3 * M + floor(j / 2) - 6, M + N - 4, N - j - 1] ** 2, Ne(N + j, 2), otherwise=1) + 1
row(
    "rows that come out of a sum again",
    Table(Sum(where(_y[d], Eq(2 * i + 6 * d - 5 * N, 12)), (d, 1, 4)) / _below, (i, 4), (j, N)),
    *({N: size, M: 2} for size in (2, 4)),
)
