"""Reads that provably leave a shape of numbers raise when the expression is built; no others do."""

import pytest
import sympy
from every import every
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import Abs, Eq, KroneckerDelta, Max, Min, Mod, Ne, Piecewise, floor

import sympy_tensordiff as td
from sympy_tensordiff.errors import OutOfShapeError
from sympy_tensordiff.reference import evaluate, points
from sympy_tensordiff.symbolic import IndexedSum, TensorComprehension, TensorSymbol
from sympy_tensordiff.symbolic.index_notation.indices import indices

i, j, k, n, p = indices("i j k n p")
x = TensorSymbol("x", n)
z = TensorSymbol("z", 3)
w = TensorSymbol("w", 10)
idx = TensorSymbol("idx", 4, dtype=int)


def table(body, *limits):
    return lambda: TensorComprehension(body, *limits)


def total(body, *limits):
    return lambda: IndexedSum(body, *limits)


LEAVES = {
    "axis too long": (table(z[i], (i, 4)), r"z\[i\] leaves the shape \(3,\): at i = 3 its index i of axis 0 is 3"),
    "behind": (table(z[i + 1], (i, 3)), r"at i = 2 its index i \+ 1 of axis 0 is 3, outside of 0 … 2; fix"),
    "before": (table(z[i - 1], (i, 3)), "at i = 0 its index i - 1 of axis 0 is -1"),
    "stride": (total(z[2 * i], (i, 0, 2)), "at i = 2 its index 2*"),
    "sum": (total(sympy.exp(z[i]) + 1, (i, 2, 5)), "at i = 5"),
    "two indices": (total(w[i + j], (j, 0, 5), (i, 0, 5)), "at i = 5, j = 5 its index i \\+ j of axis 0 is 10"),
    "dependent": (total(w[i + j], (j, 0, i), (i, 0, 5)), "at i = 5, j = 5"),
    "nested": (
        total(IndexedSum(w[i - j], (j, 0, i + 1)), (i, 0, 9)),
        "at i = 0, j = 1 its index i - j of axis 0 is -1",
    ),
    "nested with a gap": (table(IndexedSum(z[p - k], (k, Max(0, p - 3), Min(4, p))), (p, 7)), "at p = 3, k = 0"),
    "negative in a symbolic shape": (total(x[i - 1], (i, 0, 3)), "outside of 0 … n - 1"),
    "quotient": (table(z[floor(i / 2)], (i, 7)), r"at i = 6 its index floor\(i/2\) of axis 0 is 3"),
    "remainder": (table(z[Mod(i, 4)], (i, 7)), "at i = 3"),
    "branch": (table(Piecewise((z[i - 1], i > 0), (0, True)), (i, 5)), "at i = 4"),
    "last branch": (table(Piecewise((0, i < 1), (z[i - 1], True)), (i, 5)), "at i = 4"),
    "second branch": (table(Piecewise((z[0], i <= 2), (z[i], i <= 5), (0, True)), (i, 9)), "at i = [345] "),
    "all but one": (table(Piecewise((z[i], Ne(i, 1)), (0, True)), (i, 4)), "at i = 3"),
    "one of two ranges": (table(Piecewise((z[i], (i < 1) | (i > 5)), (0, True)), (i, 7)), "at i = 6"),
    "neither of two ranges": (table(Piecewise((0, (i < 2) | (i > 3)), (z[i], True)), (i, 4)), "at i = 3"),
    "last branch behind an equation": (table(Piecewise((0, Eq(i, 3)), (z[i], True)), (i, 5)), "at i = 4"),
    "half an index": (table(Piecewise((z[i], i / 2 < 2), (0, True)), (i, 4)), "at i = 3"),
    "band": (table(Piecewise((z[i], Abs(i - 2) <= 1), (0, True)), (i, 4)), "at i = 3"),
    "delta": (total(KroneckerDelta(i, k) * z[i], (i, 0, 4), (k, 2, 3)), "at i = 3"),
    "as the user wrote it": (table(z[floor((i + 1) / 2)], (i, 6)), r"z\[floor\(\(i \+ 1\)/2\)\] .* at i = 5"),
    "named": (table(td.name(table(w[i], (i, 5))(), "N")[j], (j, 7)), r"^N\[j\] leaves the shape \(5,\): at j = 6 "),
    "condition": (table(Piecewise((1, z[i] > 0), (0, True)), (i, 9)), "at i = 8"),
    "next to a condition": (table(Piecewise((1, (i >= 1) & (z[i - 1] > 0)), (0, True)), (i, 5)), "at i = 4"),
    "in one of two": (table(Piecewise((1, (i < 1) | (z[i - 1] > 0)), (0, True)), (i, 5)), "at i = 4"),
    "of a comprehension": (table(TensorComprehension(w[i], (i, 5))[j], (j, 7)), r"\[j\] leaves the shape \(5,\)"),
    "inside a comprehension": (total(TensorComprehension(w[i + k], (i, 5))[0], (k, 0, 6)), "at k = 6, i = 4"),
    "by substitution": (lambda: table(z[i], (i, n))().subs(n, 4), "at i = 3"),
    "second axis": (table(TensorSymbol("B", (5, 2))[i, j], (i, 5), (j, 3)), "at j = 2 its index j of axis 1"),
    "far away": (table(w[i + j], (i, 10**6), (j, 10**6)), "at i = 999999, j = 999999"),
}

STAYS = {
    "exact fit": table(z[i], (i, 3)),
    "stride": total(z[2 * i], (i, 0, 1)),
    "empty range": total(z[i], (i, 5, 2)),
    "empty inner range": total(IndexedSum(z[i + 5], (i, k, 1)), (k, 2, 4)),
    "dependent": total(w[i - j], (j, 0, i), (i, 0, 9)),
    "nested": total(IndexedSum(z[i], (i, 0, k)), (k, 0, 2)),
    "max and min": table(IndexedSum(z[p - k], (k, Max(0, p - 2), Min(4, p))), (p, 7)),
    "free index": total(w[p - k], (k, 0, 4)),
    "symbolic size": table(z[i], (i, n)),
    "symbolic inner range": total(z[i + k], (i, 0, k), (k, 0, n)),
    "branch": table(Piecewise((z[i - 1], i > 0), (0, True)), (i, 4)),
    "inner range that may be empty": total(IndexedSum(z[j + 3], (i, k, j)), (j, 0, 2)),
    "next to a condition": table(Piecewise((1, (i >= 1) & (z[i - 1] > 0)), (0, True)), (i, 4)),
    "in one of two": table(Piecewise((1, (i < 1) | (z[i - 1] > 0)), (0, True)), (i, 4)),
    "behind data": table(Piecewise((1, Eq(idx[i], 0) & (z[i - 1] > 0)), (0, True)), (i, 4)),
    "two conditions": table(Piecewise((z[i], (i >= 0) & (i < 3)), (0, True)), (i, 9)),
    "last branch": table(Piecewise((0, i < 1), (z[i - 1], True)), (i, 4)),
    "equation": table(Piecewise((z[i - 4], Eq(i, 4)), (0, True)), (i, 9)),
    "behind an equation": table(Piecewise((0, Eq(i, 3)), (z[i], True)), (i, 4)),
    "inequation": table(Piecewise((z[i], Ne(i, 3)), (0, True)), (i, 4)),
    "behind a symbolic size": table(x[n + i], (i, 3)),
    "unknown function": table(sympy.Function("f")(z[i]), (i, 3)),
    "beyond the graph": table(sympy.Derivative(z[i] ** 2, z[i], evaluate=False) * w[i], (i, 3)),
    "one of two ranges": table(Piecewise((z[i], (i < 1) | (i > 5)), (0, True)), (i, 6)),
    "half an index": table(Piecewise((z[i], i / 2 < 1), (0, True)), (i, 4)),
    "band": table(Piecewise((z[i], Abs(i) <= 2), (0, True)), (i, 4)),
    "data": table(Piecewise((0, x[i] < 1), (z[i - 1], True)), (i, 5)),
    "delta": table(KroneckerDelta(i, 2) * z[i], (i, 5)),
    "quotient": table(z[floor(i / 2)], (i, 6)),
    "remainder": table(z[Mod(i, 3)], (i, 70)),
    "parity": table(w[i - 2 * floor(i / 2) + 8], (i, 7)),
    "shadowed": total(z[i] * IndexedSum(x[i], (i, 0, n - 1)), (i, 0, 2)),
    "shadowed by a wider range": total(z[i] * IndexedSum(w[i], (i, 0, 9)), (i, 0, 2)),
    "of a comprehension": table(TensorComprehension(w[i + j], (i, 5))[j], (j, 5)),
    "large and coupled": total(w[i - j], (j, Max(0, i - 9), i), (i, 0, 10**6)),
}


@every("case", [*LEAVES])
def test_provable_violations_raise_with_a_witness(case):
    build, message = LEAVES[case]
    with pytest.raises(OutOfShapeError, match=message):
        build()


@every("case", [*STAYS])
def test_everything_else_is_built(case):
    build = STAYS[case]
    expr = build()
    assert expr.func(*expr.args) == expr


coefficients = st.integers(-2, 2)
forms = st.tuples(coefficients, coefficients, st.integers(-2, 4)).map(lambda c: c[0] * i + c[1] * j + c[2])
bounds = st.tuples(coefficients, st.integers(-1, 3)).map(lambda c: c[0] * i + c[1])


@settings(max_examples=50, deadline=None)
@given(forms, bounds, bounds, st.integers(0, 3), st.sampled_from([1, 1, 2, 3]))
def test_against_enumeration(form, low, high, top, divisor):
    index = floor(form / divisor)
    limits = ((j, low, high), (i, 0, top))
    read = z[i].xreplace({i: index}) if not index.is_number else None
    if read is None:
        return
    values = [evaluate(index, dict(zip((j, i), point, strict=True))) for point in points(*limits)]
    if all(0 <= value < 3 for value in values):
        IndexedSum(IndexedSum(read, limits[0]), limits[1])
        IndexedSum(read, *limits)
    else:
        with pytest.raises(OutOfShapeError):
            IndexedSum(IndexedSum(read, limits[0]), limits[1])
        with pytest.raises(OutOfShapeError):
            IndexedSum(read, *limits)
