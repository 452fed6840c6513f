"""The paper's holes: dropped congruences, unchecked ranges, a summand in place of the sum."""

import itertools

import pytest
import sympy
from derivative_forms import bounds, conditions, congruences, guards, holds, same_form, sums_with, sums_without
from every import every
from exact_checks import assert_derivative_exact
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import Eq, KroneckerDelta, Max, Min, Mod, Piecewise, exp, floor

from sympy_tensordiff import (
    IndexedSum,
    TensorComprehension,
    TensorEntry,
    TensorSymbol,
    gradient,
    hessian,
    indices,
    jacobian,
    simplify_deltas,
    vjp,
)
from sympy_tensordiff.reference import differentiate, evaluate

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


@every("name", [*READS])
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


@every("name", [name for name in READS if not READS[name][4]])
def test_where_no_other_guard_stands_a_sum_or_the_shape_is_tight(name):
    shape, read, extents, _, _ = READS[name]
    *_, result = bare(shape, read, *extents)
    guarded = [entry for entry in itertools.product(*map(range, shape)) if _passes(result, entry)]
    assert set(reached(read, extents)) <= set(guarded)
    if not result.has(IndexedSum):
        assert set(reached(read, extents)) == set(guarded)


def _passes(result, entry):
    values = dict(zip(result.indices, entry, strict=True))
    deltas = (Eq(*delta.args) for delta in result.atoms(KroneckerDelta))
    return holds(sympy.And(*conditions(result), *deltas), values)


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


def test_a_row_of_the_cokernel_is_one_delta():
    by_hand = {
        "2i,i": KroneckerDelta(p, 2 * q),
        "i,i": KroneckerDelta(p, q),
        "4i,6i": KroneckerDelta(q, 6 * floor(p / 4)),
    }
    for name, equation in by_hand.items():
        shape, read, extents, _, _ = READS[name]
        *_, result = bare(shape, read, *extents)
        assert result.atoms(KroneckerDelta) == {equation}
        assert not conditions(result) - congruences(result)
    _, _, df, result = bare((7, 4), (2 * i, i), 4)
    assert same_form(result, TensorComprehension(KroneckerDelta(p, 2 * q) * df[q], (p, 7), (q, 4)))


def test_symbolic_sizes_keep_their_congruence():
    *_, result = bare((2 * n,), (2 * i,), n)
    (axis,) = result.indices
    assert guards(result) == {Eq(Mod(axis, 2), 0)}
    *_, result = bare((2 * n + 2,), (2 * i + 1,), n)
    (axis,) = result.indices
    assert guards(result) == {Eq(Mod(axis, 2), 1), axis <= 2 * n - 1}  # and odd


# ------------------------------------------------------- ranges


def test_a_shifted_read_has_both_ends_and_nothing_else():
    _, _, df, result = bare((10,), (i + 2,), 7)
    assert same_form(result, TensorComprehension(Piecewise((df[p - 2], (p >= 2) & (p <= 8)), (0, True)), (p, 10)))
    *_, result = bare((9,), (i + 2,), 7)
    assert guards(result) == {result.indices[0] >= 2}
    *_, result = bare((7,), (i,), 7)
    assert not guards(result)
    *_, result = bare((n + 2,), (i + 2,), n)
    assert guards(result) == {result.indices[0] >= 2}


def test_a_read_of_the_cotangent_does_not_prove_its_own_guard():
    # df[p - 2] lies inside of its shape only where the guard holds.
    _, x, df, result = bare((10,), (i + 2,), 7)
    again = vjp(result, df, x)
    assert guards(result) == {p >= 2, p <= 8}
    assert evaluate(again, {x: list(range(10))}).tolist() == list(range(2, 9))


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


@pytest.mark.parametrize("spare", [0, 3])
def test_a_window_as_a_pullback(spare):
    d, df = TensorSymbol("d", 9 + spare), TensorSymbol("df", 5)
    result = vjp(TensorComprehension(IndexedSum(d[i + k] ** 3, (k, 0, 4)), (i, 5)), d, df)
    (axis,) = result.indices
    assert bounds(result, df) == [(Max(0, axis - 4), Min(4, axis))]
    assert not guards(result)  # where no row reaches, the range is empty
    values = {d: list(range(1, 10 + spare)), df: [1, 10, 100, 1000, 10000]}
    expected = [3 * (b + 1) ** 2 * sum(10 ** (b - c) for c in range(5) if 0 <= b - c < 5) for b in range(9 + spare)]
    assert evaluate(result, values).tolist() == expected


def test_a_window_of_symbolic_width():
    d, df = TensorSymbol("d", N + K - 1), TensorSymbol("df", N)
    result = vjp(TensorComprehension(IndexedSum(d[i + k] ** 3, (k, 0, K - 1)), (i, N)), d, df)
    (axis,) = result.indices
    assert bounds(result, df) == [(Max(0, axis - N + 1), Min(axis, K - 1))]
    assert not guards(result)


# ------------------------------------------------------- the whole sum


def test_the_whole_sum_stays_in_the_exponent():
    y = TensorSymbol("y", 6)
    f = exp(IndexedSum(y[k], (k, 0, 5)))
    assert same_form(gradient(f, y), TensorComprehension(f, (p, 6)))
    assert same_form(sympy.diff(f, y[p]), f)


@every("outer", [exp, lambda s: s**3, lambda s: 1 / (1 + s**2), sympy.sin, lambda s: s * exp(s)])
def test_the_outer_function_is_differentiated_at_the_whole_sum(outer):
    y, w, df = TensorSymbol("y", 8), TensorSymbol("w", 3), TensorSymbol("df", 6)
    inner = IndexedSum(y[i + k] * w[k], (k, 0, 2))
    f = TensorComprehension(outer(inner), (i, 6))
    for variable in (y, w):
        values = sums_without(vjp(f, variable, df), df)
        assert values, "the sum is gone"
        for total in values:
            assert [bounds for _, *bounds in total.limits] == [[0, 2]]
            assert total.body.has(y) and total.body.has(w)
        assert_derivative_exact(f, variable, low=-0.75, high=0.75)


def test_the_whole_sum_at_second_order():
    y = TensorSymbol("y", 3)
    f = IndexedSum(y[k] ** 2, (k, 0, 2)) ** 3
    values = {y: [1, 2, -3]}
    total = 14
    expected = [
        [6 * total * 4 * a * b + (6 * total**2 if m == r else 0) for r, b in enumerate(values[y])]
        for m, a in enumerate(values[y])
    ]
    assert evaluate(hessian(f, y), values).tolist() == expected


def test_a_sum_inside_a_function_inside_a_sum():
    y, A = TensorSymbol("y", 3), TensorSymbol("A", (4, 3))
    f = IndexedSum(IndexedSum(A[i, k] * y[k], (k, 0, 2)) ** 3, (i, 0, 3))
    values = {y: [1, -2, 3], A: [[1, 2, 3], [4, -5, 6], [-7, 8, 9], [2, 0, -1]]}
    rows = [sum(a * b for a, b in zip(row, values[y], strict=True)) for row in values[A]]
    by_y = [sum(3 * r**2 * row[m] for r, row in zip(rows, values[A], strict=True)) for m in range(3)]
    by_A = [[3 * r**2 * b for b in values[y]] for r in rows]
    assert evaluate(gradient(f, y), values).tolist() == by_y
    assert evaluate(gradient(f, A), values).tolist() == by_A


# ------------------------------------------------------- deltas that a user writes


def test_the_trap_of_sympys_own_delta_summation():
    # SymPy's deltasummation gives 1 at j = 3.
    result = simplify_deltas(IndexedSum(KroneckerDelta(2 * i, j), (i, 0, 10)))
    assert not result.has(IndexedSum, KroneckerDelta)
    for value in range(-5, 27):
        assert evaluate(result, {j: value}) == (1 if value % 2 == 0 and 0 <= value <= 20 else 0), value
        assert result.subs(j, value) == (1 if value % 2 == 0 and 0 <= value <= 20 else 0), value


@every("stride", [-4, -3, -2, -1, 1, 2, 3, 5])
@every("multiple", [1, 2, 3, -2])
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


def test_deltas_between_free_indices_stay_deltas():
    x = TensorSymbol("x", 5)
    total = IndexedSum(KroneckerDelta(i, p) * KroneckerDelta(p, q) * x[i], (i, 0, 4))
    result = simplify_deltas(total)
    assert result.atoms(KroneckerDelta) == {KroneckerDelta(p, q)}
    assert not result.has(IndexedSum)


def test_deltas_in_sums_of_sympy_keep_their_congruence():
    # SymPy's own doit() is 1 at j = 3.
    result = simplify_deltas(sympy.Sum(KroneckerDelta(2 * i, j), (i, 0, 10)))
    assert result == simplify_deltas(IndexedSum(KroneckerDelta(2 * i, j), (i, 0, 10)))
    assert [result.subs(j, n) for n in range(-1, 4)] == [0, 1, 0, 1, 0]


@every("name", ["2i", "2i+4j", "2i+4j,3j", "2i,i", "6i+10j+15k", "i+2"])
def test_jacobians_of_the_bare_reads(name):
    shape, read, extents, _, _ = READS[name]
    f, x, _, _ = bare(shape, read, *extents)
    filled = sympy.MutableDenseNDimArray.zeros(*shape).tolist()
    assert evaluate(jacobian(f, x), {}).tolist() == differentiate(f, x, {x: filled}).tolist()


def test_bounds_are_read_off_the_sums_that_hold_the_cotangent():
    # The helpers of this file see what they are asked for.
    x, df = TensorSymbol("x", 4), TensorSymbol("df", 4)
    node = IndexedSum(df[k] * IndexedSum(x[l], (l, 0, 3)), (k, 1, 2))
    assert bounds(node, df) == [(1, 2)]
    assert [total.variables for total in sums_with(node, df)] == [(k,)]
    assert [total.variables for total in sums_without(node, df)] == [(l,)]
