"""The paper's holes: dropped congruences, unchecked ranges, a summand in place of the sum."""

import itertools

import pytest
import sympy
from derivative_forms import conditions, congruences, holds
from every import every
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import Eq, KroneckerDelta, Mod, Piecewise

from sympy_tensordiff import (
    IndexedSum,
    TensorComprehension,
    TensorEntry,
    TensorSymbol,
    indices,
    simplify_deltas,
    vjp,
)
from sympy_tensordiff.reference import evaluate

i, j, k, l, n, p, q = indices("i j k l n p q")
N, K = indices("N K")


def bare(shape, read, *extents):
    """``f[i, j, ...] = x[read]``, its variable and its pullback."""
    x, df = TensorSymbol("x", shape), TensorSymbol("df", extents)
    f = TensorComprehension(x[read], *zip((i, j, k), extents, strict=False))
    return f, x, df, vjp(f, x, df)


def reached(read, extents):
    """The entries that a bare read reaches, with their index tuples."""
    found = {}
    for point in itertools.product(*map(range, extents)):
        entry = tuple(int(sympy.sympify(r).subs(dict(zip((i, j, k), point, strict=False)))) for r in read)
        found.setdefault(entry, []).append(point)
    return found


# name: shape of x, the read, extents of f, the moduli of the congruences, whether another guard is needed
READS = {
    "2i": ((8,), (2 * i,), (4,), [2], False),
    "2i, tight": ((7,), (2 * i,), (4,), [2], False),
    "2i, x too long": ((12,), (2 * i,), (4,), [2], True),
    "2i+1": ((8,), (2 * i + 1,), (4,), [2], False),
    "3i+2": ((12,), (3 * i + 2,), (4,), [3], False),
    "2i+4j": ((15,), (2 * i + 4 * j,), (4, 3), [2], False),
    "2i+4j, x too long": ((21,), (2 * i + 4 * j,), (4, 3), [2], False),
    "6i-4j": ((21,), (6 * i - 4 * j + 8,), (3, 3), [2], True),
    "2i+4j,3j": ((11, 7), (2 * i + 4 * j, 3 * j), (2, 3), [2, 3], True),
    "2i,3j": ((8, 7), (2 * i, 3 * j), (4, 3), [2, 3], False),
    "2i+2j,2i-2j": ((9, 9), (2 * i + 2 * j, 2 * i - 2 * j + 4), (3, 3), [2, 4], True),
    "2i,i": ((7, 4), (2 * i, i), (4,), [], False),
    "4i,6i": ((10, 14), (4 * i, 6 * i), (3,), [4], False),
    "i,i": ((4, 4), (i, i), (4,), [], False),
    "6i+10j+15k": ((63,), (6 * i + 10 * j + 15 * k,), (3, 3, 3), [], True),
    "6i+10j+15k, wide": ((218,), (6 * i + 10 * j + 15 * k,), (8, 8, 8), [], False),
    "2i+3j": ((16,), (2 * i + 3 * j,), (4, 4), [], False),
    "i+2": ((10,), (i + 2,), (7,), [], True),
    "5-i": ((9,), (5 - i,), (6,), [], True),
    "i+j,i-j": ((7, 7), (i + j, i - j + 3), (4, 4), [2], True),
}


@every("name", [*READS])
def test_exactly_the_entries_that_are_reached_get_a_cotangent(name):
    shape, read, extents, _, _ = READS[name]
    _, _, df, result = bare(shape, read, *extents)
    cotangent = sympy.MutableDenseNDimArray.zeros(*extents)
    for number, point in enumerate(itertools.product(*map(range, extents)), start=1):
        cotangent[point] = 2**number
    values = evaluate(result, {df: cotangent.tolist()})
    expected = {entry: sum(cotangent[point] for point in points) for entry, points in reached(read, extents).items()}
    for entry in itertools.product(*map(range, shape)):
        assert values[entry] == expected.get(entry, 0), entry


@every("name", [*READS])
def test_one_congruence_for_each_factor_above_one(name):
    shape, read, extents, moduli, _ = READS[name]
    *_, result = bare(shape, read, *extents)
    found = congruences(result)
    assert all(c.rhs in range(c.lhs.args[1]) for c in found)
    assert sorted(int(c.lhs.args[1]) for c in found) == moduli
    others = [*(conditions(result) - found), *(i for entry in result.atoms(TensorEntry) for i in entry.indices)]
    assert bool(moduli) == bool(result.atoms(Mod) - {m for other in others for m in other.atoms(Mod)})


@every("name", [*READS], turns=8)
def test_nothing_is_guarded_without_need(name):
    shape, read, extents, _, others = READS[name]
    *_, result = bare(shape, read, *extents)
    inequalities = conditions(result) - congruences(result)
    assert bool(inequalities) == others
    every = sorted(conditions(result), key=str)
    axes = result.indices
    entries = [dict(zip(axes, entry, strict=True)) for entry in itertools.product(*map(range, shape))]
    deltas = [Eq(*delta.args) for delta in result.atoms(KroneckerDelta)]
    for guard in every:
        rest = sympy.And(*(other for other in every if other != guard), *deltas)
        assert any(holds(rest, entry) and not holds(guard, entry) for entry in entries), f"{guard} is implied"


def test_the_congruences_as_they_are_printed():
    def printed(name):
        shape, read, extents, _, _ = READS[name]
        *_, result = bare(shape, read, *extents)
        return congruences(result), result.indices

    assert printed("2i") == ({Eq(Mod(p, 2), 0)}, (p,))
    assert printed("2i+1") == ({Eq(Mod(p, 2), 1)}, (p,))
    assert printed("2i+4j") == ({Eq(Mod(p, 2), 0)}, (p,))
    assert printed("2i+4j,3j") == ({Eq(Mod(p, 2), 0), Eq(Mod(q, 3), 0)}, (p, q))
    assert printed("2i,i") == printed("i,i") == (set(), (p, q))
    assert printed("6i+10j+15k") == printed("6i+10j+15k, wide") == (set(), (p,))


# ------------------------------------------------------- ranges


@pytest.mark.parametrize("spare", [0, 3])
def test_a_window_by_an_entry_plainly(spare):
    d = TensorSymbol("d", 9 + spare)
    total = IndexedSum(d[i + k] ** 3, (k, 0, 4))
    derivative = sympy.diff(total, d[p])
    assert conditions(derivative) == {i <= p, i >= p - 4}
    assert not derivative.has(IndexedSum)
    values = {d: list(range(1, 10 + spare))}
    for a, b in itertools.product(range(5), range(9 + spare)):
        expected = 3 * (b + 1) ** 2 if a <= b <= a + 4 else 0
        assert evaluate(derivative, {**values, i: a, p: b}) == expected


# ------------------------------------------------------- deltas that a user writes


def test_the_trap_of_sympys_own_delta_summation():
    # SymPy's deltasummation gives 1 at j = 3.
    result = simplify_deltas(IndexedSum(KroneckerDelta(2 * i, j), (i, 0, 10)))
    assert not result.has(IndexedSum, KroneckerDelta)
    for value in range(-5, 27):
        assert evaluate(result, {j: value}) == (1 if value % 2 == 0 and 0 <= value <= 20 else 0), value
        assert result.subs(j, value) == (1 if value % 2 == 0 and 0 <= value <= 20 else 0), value


@every("stride", [-4, -3, -2, -1, 1, 2, 3, 5])
@every("multiple", [1, 2, 3, -2], turns=8)
def test_a_delta_under_a_sum_at_every_index(stride, multiple):
    x = TensorSymbol("x", 9)
    total = IndexedSum((i + 1) ** 2 * KroneckerDelta(stride * i + 3, multiple * j), (i, -2, 6))
    result = simplify_deltas(total)
    assert not result.has(IndexedSum, KroneckerDelta)
    read = simplify_deltas(IndexedSum(x[i + 2] * KroneckerDelta(stride * i + 3, multiple * j), (i, -2, 6)))
    assert not read.has(IndexedSum, KroneckerDelta)
    values = list(range(1, 10))
    for b in range(-40, 41):
        hits = [a for a in range(-2, 7) if stride * a + 3 == multiple * b]
        assert evaluate(result, {j: b}) == sum((a + 1) ** 2 for a in hits)
        assert evaluate(read, {j: b, x: values}) == sum(values[a + 2] for a in hits)


forms = st.tuples(*[st.integers(-4, 4)] * 3, st.integers(-6, 6))


@pytest.mark.in_turns(4)
@settings(max_examples=15, deadline=None, derandomize=True)
@given(forms, forms)
def test_two_deltas_under_two_sums(first, second):
    def delta(form, right):
        return KroneckerDelta(form[0] * i + form[1] * k + form[3], form[2] * right)

    body = (2 * i + 3 * k + 7) * delta(first, p) * delta(second, q)
    total = IndexedSum(body, (i, -1, k + 1), (k, 0, 3))
    result = simplify_deltas(total)
    for node in result.atoms(IndexedSum):
        assert not node.has(KroneckerDelta, Piecewise)
    for a, b in itertools.product(range(-7, 8, 2), range(-6, 9, 3)):
        values = {p: a, q: b}
        assert evaluate(result, values) == evaluate(total, values)
