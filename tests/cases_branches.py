"""Branches that are not taken contribute nothing: no logarithm of a negative number becomes a derivative."""

from __future__ import annotations

import sympy
from cases_reads import Sum, Table, i, j, k, real, row, where
from sympy import log, sin, sqrt

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
