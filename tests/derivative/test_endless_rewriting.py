"""Guards in guards whose rows follow from each other: rewriting them comes to an end."""

import numpy as np
from sympy import Abs, KroneckerDelta, Max, Min, Mod, floor

import sympy_tensordiff as td
from sympy_tensordiff.reference import differentiate, evaluate, hvp
from sympy_tensordiff.simplify import bounds
from sympy_tensordiff.testing.exact import as_scalar, assert_equal
from sympy_tensordiff.testing.values import random_values

i, j, c, M, N = td.indices("i j c M N")
x, z = td.TensorSymbol("x", (3 * M + 8, 3 * N + 1)), td.TensorSymbol("z", (4, N + 4, N + 3))
jdx = td.TensorSymbol("jdx", N + 6, dtype=int)
G, along = td.TensorSymbol("G", (4, M)), td.TensorSymbol("along", x.shape)


def test_what_inner_guards_say_of_sizes_is_said_once(monkeypatch):
    # Each round brought the rows over sizes of an inner guard back into the outer one.
    seen = []
    visit = bounds._Tighten.guard
    monkeypatch.setattr(bounds._Tighten, "guard", lambda *given: (_not_too_many(seen), visit(*given))[1])
    entries = x[Abs(3 * M - 12) + 1, 3 * N + j - M - i + 1] - x[0, Max(i - 3, Min(2 - M, 2 - 2 * i)) + 2]
    factor = z[floor((i - jdx[6 - 2 * N] - 1) / 3) + 2, 0, 0]
    function = td.TensorComprehension((entries + z[M + N - 4, 0, M]) ** 2 * factor, (i, 4), (j, M))
    second = td.gradient(as_scalar(td.vjp(function, x, G), along), x)
    assert seen
    for sizes in ({N: 3, M: 1}, {N: 3, M: 3}):
        given = {jdx: np.array([1, 0, 0, 0, 2, 0, 2, 0, 1])}
        values = random_values((function, x, z, G, along), sizes, seed=1, given=given)
        ((_, exact),) = hvp(as_scalar(function, G), {x: values[along]}, values)
        assert_equal(evaluate(second, values), exact, f"second, {sizes}")


def _not_too_many(seen):
    seen.append(1)
    assert len(seen) < 2_000


def test_what_protects_data_is_said_where_equations_are_solved_only(monkeypatch):
    # Each round of a sum with a remainder added what its ranges say, and left it out again.
    seen = []
    visit = bounds._Tighten.sum
    monkeypatch.setattr(bounds._Tighten, "sum", lambda *given: (_not_too_many(seen), visit(*given))[1])
    pairs, y = td.TensorSymbol("pairs", (N, M), dtype=int), td.TensorSymbol("y", 9)
    summand = KroneckerDelta(pairs[2 * j, 4 - 2 * M], 1) * y[Mod(N + 3 * i, M) + Max(0, 2 * c + i + 2)]
    function = td.TensorComprehension(td.IndexedSum(summand, (c, 2 * i - 2 * M - 1, 2 * i - 2 * M + 1)), (i, M), (j, 2))
    cotangent = td.TensorSymbol("G", (M, 2))
    pullback = td.vjp(function, y, cotangent)
    assert seen
    given = {pairs: np.array([[1, 0], [0, 0], [1, 2]])}
    values = random_values((function, y, cotangent), {M: 2, N: 3}, seed=1, given=given)
    expected = differentiate(as_scalar(function, cotangent), y, values)
    assert expected.any()
    assert_equal(evaluate(pullback, values), expected, "pullback")
