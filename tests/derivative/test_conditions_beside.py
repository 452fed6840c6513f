"""Conditions on data beside each other: a read outside of its tensor counts where all others hold only."""

import numpy as np
import pytest
from sympy import Abs, And, Eq, KroneckerDelta, Max, Min, Mod, Ne, Or, Piecewise, ceiling, floor

import sympy_tensordiff as td
from sympy_tensordiff.errors import DataIndexError, OutOfShapeError
from sympy_tensordiff.reference import differentiate, evaluate, hvp
from sympy_tensordiff.reference import hessian as exact_hessian
from sympy_tensordiff.testing.exact import as_scalar, assert_equal
from sympy_tensordiff.testing.values import call_arguments, random_values

# What a text for Numba means is asked here, not what a compiler makes of it.
pytestmark = pytest.mark.usefixtures("uncompiled")

i, j, c, k, M, N, P = td.indices("i j c k M N P")
alpha, G = td.TensorSymbol("alpha", ()), td.TensorSymbol("G", 4)


def labels(name, *shape):
    return td.TensorSymbol(name, shape, dtype=int)


def check(function, wrt, sizes, given, backends=("numpy", "numba")):
    """The value and the pullback, exactly and compiled."""
    cotangent = td.TensorSymbol("G", function.shape)
    values = random_values((function, wrt, cotangent), sizes, seed=3, given=given)
    expected = differentiate(as_scalar(function, cotangent), wrt, values)
    simplified, pullback = td.simplify_deltas(function), td.vjp(function, wrt, cotangent)
    assert_equal(evaluate(simplified, values), evaluate(function, values), "value")
    assert_equal(evaluate(pullback, values), expected, "pullback")
    for backend in backends:
        arguments, arrays = call_arguments((pullback,), values)
        (found,) = td.lambdify(arguments, (pullback,), backend)(*arrays)
        np.testing.assert_allclose(found, np.array(expected, dtype=float), rtol=1e-12)


def chosen(first, second, x, y):
    """``x`` where both data select it, of which the second is read where the first is 1, and 0 for no choice at all."""
    inner = Piecewise((x[second[i]], Eq(first[i], 1)), (y[i], True))
    return td.TensorComprehension(Piecewise((inner, y[0] > 0), (0, True)), (i, 4))


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_no_order_of_two_conditions_suits_both(names):
    """Nothing tells that either is inside, whatever they are called."""
    first, second = labels(names[0], N), labels(names[1], M)
    x, y = td.TensorSymbol("x", 3), td.TensorSymbol("y", 4)
    given = {first: np.array([1, 1, 0, 0]), second: np.array([2, 0]), y: np.arange(1, 5)}
    check(chosen(first, second, x, y), x, {N: 4, M: 2}, given)


@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_a_call_is_refused_where_several_conditions_read_outside(backend):
    """None of them is known not to hold."""
    a, b, x = labels("a", N), labels("b", M), td.TensorSymbol("x", 6)
    total = td.IndexedSum(KroneckerDelta(a[i + k], 1) * KroneckerDelta(b[i + k], 1) * x[i], (i, 0, 3))
    kernel = td.lambdify([x, a, b, k], total, backend)
    one = np.ones(4, dtype=int)
    assert kernel(np.ones(6), one, one, 0) == 4
    zeros = np.array([1, 0, 0, 0])
    assert kernel(np.ones(6), zeros, one[:1], 0) == kernel(np.ones(6), one[:1], zeros, 0) == 1
    for arrays in ((one[:1], one), (one, one[:1]), (one[:1], one[:1]), (zeros[:2], one[:1])):
        with pytest.raises(
            DataIndexError, match=r"no condition on data rules out a read outside: the index .* of axis"
        ):
            kernel(np.ones(6), *arrays, 0)


def test_connectives_and_products_ask_no_condition_first():
    a, x = labels("a", N - 3), td.TensorSymbol("x", ())
    outside, inside = Eq(a[5], 1), Eq(a[0], 1)
    values = {a: [0, 1, 2], x: 7, N: 6}
    for condition, expected in ((And(outside, inside), 0), (Or(outside, Ne(a[0], 1)), 7)):
        assert evaluate(Piecewise((x, condition), (0, True)), values) == expected
    guard = Piecewise((x, inside), (0, True))
    assert evaluate(KroneckerDelta(a[5], 1) * guard, values) == 0
    for condition in (And(outside, Ne(a[0], 1)), Or(outside, inside)):
        with pytest.raises(OutOfShapeError, match=r"the read at \(5,\) leaves the shape"):
            evaluate(Piecewise((x, condition), (0, True)), values)
    with pytest.raises(OutOfShapeError, match=r"the read at \(5,\) leaves the shape"):
        evaluate(KroneckerDelta(a[5], 1) * Piecewise((x, Eq(a[1], 1)), (0, True)), values)


def test_what_equations_without_a_solution_protect_is_not_read():
    """``idx[N]`` is outside; the first equation has no solution, for its parity."""
    idx, place, w = labels("idx", M + 8), labels("place", M + 1), td.TensorSymbol("w", 5)
    equations = KroneckerDelta(4 * i + 2 * k - M - 3, place[0]) * KroneckerDelta(idx[N] + 1, Mod(1 - k, 4))
    function = td.TensorComprehension(td.IndexedSum(w[k] * equations, (k, i, 3)), (i, 4))
    check(function, w, {M: 2, N: 20}, {place: np.array([2, 0, 0]), idx: np.arange(10)})
    # There is one for the other parity.
    check(function, w, {M: 2, N: 1}, {place: np.array([1, 0, 0]), idx: np.arange(10) % 3})


def test_an_equation_that_another_one_uses_up_protects():
    """``idx[-2]`` is not read at ``c = 0``, where no ``k`` fulfils the first equation."""
    idx, place, x = labels("idx", 4), labels("place", 1), td.TensorSymbol("x", 4)
    equations = KroneckerDelta(2 * k + 3 * c + 1, place[0]) * KroneckerDelta(idx[3 * c - 2], k)
    function = td.TensorComprehension(td.IndexedSum(equations * x[k] ** 2, (k, 0, 3)), (c, 2))
    check(function, x, {}, {place: np.array([6]), idx: np.array([0, 1, 0, 0])})


def test_data_of_an_equation_that_is_solved_are_not_read_where_others_do_not_hold():
    lab, off, place = labels("lab", N), labels("off", P), labels("place", 1)
    x = td.TensorSymbol("x", 9)
    equations = KroneckerDelta(place[0], lab[M - 1 + i]) * KroneckerDelta(2 * i + j, off[M - 4])
    function = td.TensorComprehension(equations * x[i + j] ** 2, (i, 4), (j, 3))
    check(function, x, {M: 1, N: 4, P: 3}, {place: np.array([7]), lab: np.arange(4), off: np.arange(3)})
    check(function, x, {M: 4, N: 9, P: 3}, {place: np.array([1]), lab: np.ones(9, int), off: np.full(3, 4)})


def test_a_condition_that_leaves_a_sum_is_not_read_where_those_inside_do_not_hold():
    lab, pair, x = labels("lab", 8), labels("pair", 3), td.TensorSymbol("x", 4)
    summand = KroneckerDelta(lab[j + c], 1) * KroneckerDelta(pair[2 * c], 0) * x[c] ** 2
    function = td.TensorComprehension(td.IndexedSum(summand, (c, 0, 3)), (j, 2))
    check(function, x, {}, {lab: np.array([1, 1, 0, 0, 0, 0, 0, 0]), pair: np.array([0, 1, 0])})


@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_a_scatter_reads_data_inside_of_loops_that_may_be_empty(backend):
    """``lab[-1]`` is not read at ``i = 0, j = 1``: no ``k`` lies between 2/4 and 3/4, which no projection tells."""
    lab, weights = labels("lab", 5), td.TensorSymbol("w", (3, 2))
    limits = (k, ceiling((3 * i + 2 * j) / 4), floor((3 * i + 2 * j + 1) / 4))
    total = td.IndexedSum(KroneckerDelta(c, lab[2 * i - j]) * weights[i, j], limits, (i, 0, 2))
    function = td.TensorComprehension(total, (j, 2), (c, 4))
    given = {lab: np.array([1, 0, 3, 2, 1]), weights: np.arange(1.0, 7.0).reshape(3, 2)}
    found = td.lambdify([lab, weights], function, backend)(*given.values())
    np.testing.assert_array_equal(found, [[0, 1, 0, 3], [0, 0, 6, 0]])
    assert_equal(evaluate(function, given), found, "exactly")


def test_the_range_of_a_sum_that_data_end_protects_the_factors_beside_it():
    """``z[4 - c]``, for ``j = 1``, is read where some ``i`` fulfils ``floor(i/6) == pairs[0, 1]``: nowhere."""
    pairs, place = labels("pairs", 1, 2), labels("place", 1)
    z, direction, cotangent = (td.TensorSymbol(*given) for given in (("z", (3, 1, 1)), ("D", (3, 1, 1)), ("G", (3, 2))))
    delta = KroneckerDelta(Mod(floor(i / 6), 4), pairs[floor(j / 3), j])
    read = z[5 - c - j, Abs(place[0] - 1), Min(-3, j - 3) + 3]
    total = td.IndexedSum(delta * read, (c, Abs(3 * j - 3), Abs(3 * j - 3) + 2))
    scalar = as_scalar(td.TensorComprehension(alpha / (total**2 + 1), (i, 3), (j, 2)), cotangent)
    second = td.gradient(as_scalar(td.gradient(scalar, z), direction), z)
    given = {pairs: np.array([[0, 1]]), place: np.array([1])}
    values = random_values((scalar, z, alpha, direction), {}, seed=1, given=given)
    (_, expected), _ = hvp(scalar, {z: values[direction], alpha: 0}, values)
    assert_equal(evaluate(second, values), expected, "second")


@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_a_scatter_tests_what_bounds_an_axis_by_its_own_remainder(backend):
    """``i >= Mod(q + 3, 6) - 3`` holds the axis ``q``, whose loop the data bound, in a quotient too."""
    a, y = labels("a", 5), td.TensorSymbol("y", 9)
    limits = (i, Max(0, Mod(c + 3, 6) - 3), Min(2, Mod(c + 3, 6) - 1))
    within = (c >= -6 * a[4 - 2 * i] - 3) & (c <= 14 - 6 * a[4 - 2 * i])
    function = td.TensorComprehension(td.IndexedSum(Piecewise((y[i] ** 2, within), (0, True)), limits), (c, 21))
    values = {a: np.array([1, 0, -1, 2, 0]), y: np.arange(1.0, 10.0)}
    found = td.lambdify([a, y], function, backend)(*values.values())
    np.testing.assert_array_equal(found, np.array(evaluate(function, values), dtype=float))


def test_an_equation_with_data_does_not_stand_for_what_protects_the_data_in_others():
    """``Min(2*i - 1, idx[..]) == q - 2`` implies ``i >= 0``, and is itself read only behind a test of ``pairs[i]``."""
    idx, pairs, x, g = labels("idx", 12), labels("pairs", 5), td.TensorSymbol("x", 6), td.TensorSymbol("g", M + 1)
    body = KroneckerDelta(-1, pairs[i]) * g[i] * x[5 * N - i - 17] * x[Min(2 * i - 1, idx[2 * i - 4]) + 2]
    total = td.IndexedSum(body, (i, 0, M))
    wrong = [-1, 40, 1, 0, 2, 40, -40, 0, -40, 40, 40, -40]
    values = random_values((total,), {N: 4, M: 4}, seed=5, given={idx: np.array(wrong), pairs: [0, 3, -1, -1, 7]})
    assert_equal(evaluate(td.hessian(total, x), values), exact_hessian(total, x, values), "hessian")
    beyond = random_values((total,), {N: 1, M: 0}, seed=5, given={idx: np.array(wrong), pairs: [0, 3, -1, -1, 7]})
    assert not np.any(evaluate(td.hessian(total, x), beyond))


def test_what_elimination_loses_of_a_remainder_keeps_no_data_inside():
    """``l >= Mod(j, 2)`` says ``l >= 0``, but not once ``j`` is gone: ``ends[idx[i - l + 2]]`` is guarded."""
    idx, ends, low = labels("idx", 8), labels("ends", 5), labels("low", 1)
    y, far = td.TensorSymbol("y", 14), td.indices("l")
    inner = td.IndexedSum(y[i + 3 * far], (k, low[0], ends[idx[i - far + 2]]))
    total = td.IndexedSum(inner, (far, Mod(j, 2), Mod(j, 2) + 1)) ** 2
    given = {idx: np.array([0, 4, 1, 0, 2, 3, -40, 40]), ends: np.array([1, 1, 0, 40, 2]), low: np.array([0])}
    check(td.TensorComprehension(total, (i, 4), (j, 4)), y, {}, given)


def test_multiples_by_symbols_that_no_projection_tells_keep_no_data_inside():
    """``2*M*q <= 3*j - M + 4`` bounds ``j``, but no elimination of ``q`` tells: what ``idx[3*j + ..]`` needs stays."""
    m, n = td.indices("M N")
    idx, place = labels("idx", 2 * n + 8), labels("place", 1)
    x, y = td.TensorSymbol("x", 3), td.TensorSymbol("y", (n + 5, 2))
    near = Mod(2 - 2 * i - floor(Min(n - 1, Abs(2 * m - 4)) / 2), 3) >= 2
    chosen = Piecewise((m - 4 * n - 6 * j, near), (x[floor((i + 2 * j + 1) / m) - 1], True))
    below = Piecewise((y[floor((j + 2) / m), floor(Min(i, i + j) / m)] ** 2, Eq(Mod(2 * j, 5), 4)), (0, True)) + 1
    body = chosen * y[floor((m + 3 * n - 3) / m) + 2 * idx[3 * i] - 1, place[0] - 3] / below
    function = td.TensorComprehension(body, (i, m), (j, 3))
    cotangent, along = td.TensorSymbol("G", function.shape), td.TensorSymbol("along", y.shape)
    slope = td.gradient(as_scalar(td.vjp(function, y, cotangent), along), x)
    given = {idx: np.array([0, 2, -40, 2, 2, 40, -1, 1, -40, 1, 0, 2, 40, 2, 0, 1]), place: np.array([4])}
    values = random_values((function, cotangent, along), {n: 4, m: 2}, seed=3, given=given)
    (_, second), _ = hvp(as_scalar(function, cotangent), {x: np.zeros(3, dtype=int), y: values[along]}, values)
    assert_equal(evaluate(slope, values), second, "slope")


def test_a_power_with_data_in_its_exponent_is_protected_inside_of_a_sum_that_chooses():
    """The slope ``0**(idx[0] - 3)`` is no number for ``idx[0] == 1``, where the cotangent, a sum, is 0."""
    idx, place, y, g = labels("idx", 1), labels("place", 3), td.TensorSymbol("y", 3), td.TensorSymbol("g", 5)
    base = floor(N / 5) * y[Max(0, i - 3)]
    function = td.TensorComprehension(base ** (idx[0] - 1) / (place[Mod(i, 3)] ** 2 + 1), (i, 5))
    scalar = as_scalar(function, g)
    hessian = td.hessian(scalar, y)
    for power in (1, 2, 3, 5):
        given = {idx: np.array([power]), place: np.array([2, 0, 1])}
        values = random_values((scalar, y), {N: 4}, seed=power, given=given)
        expected = exact_hessian(scalar, y, values)
        assert_equal(evaluate(hessian, values), expected, f"hessian, idx[0] = {power}")


def test_the_bounds_of_a_loop_say_of_data_inside_of_it_what_only_integers_tell():
    """``3*j <= 4*l <= 3*j + 1`` leaves ``j = 1`` of 1 and 2: data in the range of ``l`` are read there alone."""
    place, z, g = labels("place", 1), td.TensorSymbol("z", ()), td.TensorSymbol("g", (3, 3))
    delta = KroneckerDelta(8 - 4 * j - 2 * c, Mod(floor((3 * j - 3) / 2), 4))
    total = td.IndexedSum(delta * g[j, c] * z ** (j + 2 * c - place[j - 1] - 4), (j, 0, 2), (c, 0, 2))
    second = td.gradient(td.gradient(total, z), z)
    for shift in (-1, 0, 3):
        values = {place: np.array([shift]), z: 2, g: np.arange(9).reshape(3, 3)}
        assert evaluate(second, values) == exact_hessian(total, z, values)


def test_a_projection_keeps_data_inside_where_a_remainder_says_more_than_it():
    """``5 - 2*i <= N - 1`` for an odd number from 1 on says ``N >= 2``, of which a projection leaves ``N >= 1``."""
    pairs, x, y = labels("pairs", 5), td.TensorSymbol("x", 7), td.TensorSymbol("y", 4)
    g, a = td.TensorSymbol("g", M), td.TensorSymbol("a", 7)
    value = alpha * g[i] * y[Mod(pairs[2 * Abs(N - 4)], 3) - 1] ** 3 * x[Max(0, Min(5 - 2 * i, N - 1))]
    total = td.IndexedSum(Piecewise((alpha * g[i] * x[0], 5 * N + i < 11), (value, True)), (i, 0, M - 1))
    mixed = td.gradient(as_scalar(td.gradient(total, x), a), alpha)
    for size in (1, 2, 4):
        values = random_values((total, a), {N: size, M: 4}, seed=size, given={pairs: np.array([1, 2, 1, 1, 2])})
        _, (_, expected) = hvp(total, {x: values[a], alpha: 0}, values)
        assert evaluate(mixed, values) == expected


def test_the_ranges_around_data_are_told_what_integers_leave_of_those_inside():
    """``9*l`` from 11 to 14 has no value, so ``pairs[1 - p, 2*p]`` in the range of ``l`` is not read for ``p = 2``."""
    pairs, y = labels("pairs", 5, 3), td.TensorSymbol("y", 3)
    z, direction = td.TensorSymbol("z", (4, 6, 4)), td.TensorSymbol("a", (4, 6, 4))
    delta = KroneckerDelta(pairs[Min(i, j), 2 - 2 * j] + 3, ceiling((3 * i + 1) / 4))
    inner = td.IndexedSum(delta * z[i - 2 * j, 3 * i - c - 2, c + 6 * i - 6 * j - 15], (c, 2 * i - 1, i + 2))
    function = td.TensorComprehension(y[1 - j] ** 2 * inner, (i, 4), (j, 2))
    scalar = as_scalar(function, td.TensorSymbol("g", (4, 2)))
    mixed = td.gradient(as_scalar(td.gradient(scalar, z), direction), y)
    given = {pairs: np.array([[0, 1, -1], [0, 0, -40], [2, 1, 2], [-40, 1, -40], [2, 2, 1]])}
    values = random_values((scalar, direction), {}, seed=1, given=given)
    _, (_, expected) = hvp(scalar, {z: values[direction], y: np.zeros(3, dtype=int)}, values)
    assert_equal(evaluate(mixed, values), expected, "mixed")
