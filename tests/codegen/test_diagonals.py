"""Results that are zero but on diagonals and in residue classes: filled with zeros, then one pass along each."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import sympy
from every import every
from fuzz.count import count
from oracle import check
from programs import add_at, owned
from sympy import Eq, KroneckerDelta, Mod, Piecewise

import sympy_tensordiff as td
from sympy_tensordiff.codegen.ir.loops import If, Loop
from sympy_tensordiff.codegen.ir.programs import Scatter
from sympy_tensordiff.codegen.ir.scalars import Bound, Number
from sympy_tensordiff.codegen.ir.verify import verify
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.errors import VerificationError
from sympy_tensordiff.integer.affine import Affine

p, q, r, k, n, m = td.indices("p q r k n m")
x, y, A = td.TensorSymbol("x", n), td.TensorSymbol("y", m), td.TensorSymbol("A", (n, m))

X, Y = np.array([1.5, -2.0, 0.25, 3.0, 7.0]), np.array([0.5, 4.0, -1.0])
VALUES = {x: X, y: Y, A: np.outer(X, Y) + 1}


def where(value, *conditions):
    return Piecewise((value, sympy.And(*conditions)), (0, True))


# A body over (p, n), (q, m), the same as a function of numbers, and how many entries the passes add to.
CASES = {
    "equal axes": (x[p] * KroneckerDelta(p, q), lambda i, j: X[i] * (i == j), 5),
    "next to a dense part": (A[p, q] - x[p] * KroneckerDelta(p, q), lambda i, j: VALUES[A][i, j] - X[i] * (i == j), 5),
    "a shifted diagonal": (y[q] * KroneckerDelta(p, q + 2), lambda i, j: Y[j] * (i == j + 2), 5),
    "a steep one": (x[p] * KroneckerDelta(p, 2 * q), lambda i, j: X[i] * (i == 2 * j), 3),
    "an antidiagonal": (y[q] * KroneckerDelta(p + q, n - 1), lambda i, j: Y[j] * (i + j == 4), 5),
    "an edge": (y[q] * KroneckerDelta(p, 0), lambda i, j: Y[j] * (i == 0), 3),
    "one corner": (y[q] * KroneckerDelta(p, n - 1) * KroneckerDelta(q, 0), lambda i, j: Y[j] * (i == 4) * (j == 0), 1),
    "outside": (y[q] * KroneckerDelta(p, q + n), lambda i, j: 0.0, 0),
    "a residue class": (where(A[p, q], Eq(Mod(p, 3), 1)), lambda i, j: VALUES[A][i, j] * (i % 3 == 1), 6),
    "a scaled residue": (where(x[p], Eq(Mod(2 * p + 1, 5), 0)), lambda i, j: X[i] * ((2 * i + 1) % 5 == 0), 3),
    "two classes": (where(x[p], Eq(Mod(p, 2), 0), Eq(Mod(q, 2), 1)), lambda i, j: X[i] * (not i % 2 and j % 2), 3),
    "a class on a diagonal": (where(x[p], Eq(p, q), Eq(Mod(p, 2), 0)), lambda i, j: X[i] * (i == j) * (i % 2 == 0), 3),
    "a half of a diagonal": (where(x[p], Eq(p, q), p >= 1), lambda i, j: X[i] * (i == j >= 1), 5),
    "two diagonals": (
        x[p] * KroneckerDelta(p, q) - y[q] * KroneckerDelta(p, q + 1),
        lambda i, j: X[i] * (i == j) - Y[j] * (i == j + 1),
        10,
    ),
}


def program_of(body):
    arguments = [t for t in (x, y, A) if body.has(t)]
    arguments += [s for s in (n, m) if not any(s in t.shape for t in arguments)]
    return build_program(arguments, td.TensorComprehension(body, (p, n), (q, m))), arguments


@every("name", [*CASES])
def test_values_and_counts(name):
    body, wanted, added = CASES[name]
    program, arguments = program_of(body)
    assert not any(isinstance(s, If) and s.conditions[0].kind != "ge" for kernel in program.nests for s in kernel.body)
    values = [VALUES.get(argument, {n: 5, m: 3}.get(argument)) for argument in arguments]
    found = td.lambdify(arguments, td.TensorComprehension(body, (p, n), (q, m)), "numpy")(*values)
    np.testing.assert_array_equal(found, [[wanted(i, j) for j in range(3)] for i in range(5)])
    check(program, "numpy", values)
    first, *others = count(program, {"n": 5, "m": 3}).kernels
    assert first.stores == 15
    assert sum(part.stores for part in others) == added


def test_an_axis_without_the_class():
    body = where(x[p], Eq(Mod(p, 3), 2))
    function = td.lambdify([x], td.TensorComprehension(body, (p, n)), "numpy")
    assert function(np.array([5.0])).tolist() == [0.0]
    assert function(np.array([5.0, 6.0, 7.0])).tolist() == [0.0, 0.0, 7.0]


def test_plans_name_diagonals():
    function = td.lambdify([x, n], td.TensorComprehension(x[p] * KroneckerDelta(p, q), (p, n), (q, n)), "numpy")
    assert "diagonal: add to result[p, p] over p" in function.plan
    body = where(x[0], Eq(p, 1), Eq(q, 1))
    one = td.lambdify([x], td.TensorComprehension(body, (p, n), (q, n)), "numpy")
    assert "diagonal: add to result[1, 1] over one point" in one.plan


SHARED = {
    "one index for all": ("pq", (Affine.variable("p"), Affine.of(0)), None),
    "a sum of axes": ("pq", (Affine.variable("p") + Affine.variable("q"), Affine.of(0)), None),
    "a loop around": ("p", (Affine.variable("p"), Affine.of(0)), "k"),
}


@pytest.mark.parametrize("name", SHARED)
def test_two_instances_may_not_add_to_one_entry(name):
    axes, index, variable = SHARED[name]
    program = build_program([A], td.TensorComprehension(sympy.S.Zero, (p, n), (q, m)))
    body = (add_at(index, Number(1)),)
    if variable:
        body = (Loop(variable, (Bound(Affine.of(0)),), (Bound(Affine.of(1)),), body),)
    extents = (Affine.of(1),) * len(axes)
    scatter = owned(Scatter("result", tuple(axes), body, extents, exclusive=True))
    verify(replace(program, kernels=(*program.kernels, replace(scatter, exclusive=False))))
    with pytest.raises(VerificationError, match="two instances of an exclusive scatter may add to one entry"):
        verify(replace(program, kernels=(*program.kernels, scatter)))
