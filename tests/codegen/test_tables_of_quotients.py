"""A table has an axis for each combination of indices that its entries depend on, and no more.

Indices inside of quotients may cancel once the equations around them are solved: ``floor((p + q)/2) - floor(q/2)`` is
``p/2`` where q is even.
"""

from __future__ import annotations

import sympy

import sympy_tensordiff as td
from sympy_tensordiff.codegen.program import build_program

i, j, k, l = td.indices("i j k l")
x, y = td.TensorSymbol("x", 12), td.TensorSymbol("y", (16, 10))
w = td.TensorSymbol("w", (4, 1, 1))


def found_by_random_programs():
    u = x[i + k + l - j - 2]
    v = y[j + 4 * k - 2 * i - 2 * l + 12, 7 - j - 2 * l]
    inner = td.IndexedSum((u + v**2) / ((u + v**2) ** 2 + 2), (l, 2, 3))
    return td.IndexedSum(w[i, j, k] * (i + 1) * sympy.sin(inner), (i, 0, 3), (j, 0, 0), (k, 0, 0))


def nested(a, b, c):
    """``Sum_i w_i*sin(Sum_l x[i + l]*y[a*i + b*l, c*l]**2)``: the index of the sine is a quotient in the derivative."""
    inner = td.IndexedSum(x[i + l] * y[a * i + b * l, c * l] ** 2, (l, 0, 2))
    return td.IndexedSum(w[i, 0, 0] * sympy.sin(inner), (i, 0, 3))


CASES = {"found": found_by_random_programs(), **{str(f): nested(*f) for f in [(2, 2, 2), (3, 3, 2), (2, 4, 3)]}}


def test_no_copy_is_longer_than_the_loops_run():
    """``100*i + k`` takes 5,903 values for 180 pairs of indices."""
    signal, weights = td.TensorSymbol("s", 7), td.TensorSymbol("h", 3)
    value = td.IndexedSum(weights[k] * signal[(100 * i + k) % 7], (k, 0, 2))
    program = build_program([signal, weights], td.TensorComprehension(value, (i, 60)))
    assert not program.temporaries
