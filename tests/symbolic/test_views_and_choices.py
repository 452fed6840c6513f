"""Axes of extent 1, means, choices and entries: texts have the values, derivatives those of differences."""

import random
from functools import cache

import numpy as np
import pytest
import sympy
from every import every
from sympy import Piecewise

import sympy_tensordiff as td
from sympy_tensordiff.reference import evaluate

n, d, i, j = td.indices("n d i j")
X, Y = (td.TensorSymbol(name, (n, d)) for name in "XY")
u, v = (td.TensorSymbol(name, n) for name in "uv")
c = td.TensorSymbol("c", d)
M = td.TensorSymbol("M", (n, n))
r = sympy.Symbol("r")
SIZES = {n: 3, d: 2}
ARGUMENTS = (X, Y, u, v, c, M, r)


def point(seed):
    rng = np.random.default_rng(seed)

    def array(symbol):
        return rng.uniform(0.3, 1.7, [SIZES[extent] for extent in symbol.shape])

    return {symbol: array(symbol) if symbol is not r else 1.25 for symbol in ARGUMENTS}


def value(expr, seed=0):
    return np.array(evaluate(expr, {**SIZES, **point(seed)}), dtype=float)


NAMES: dict = {}
exec("from sympy import *; from sympy_tensordiff import *", NAMES)
NAMES.update({str(index): index for index in td.indices("i j k l m p q i_1 j_1 k_1")})
NAMES.update({str(symbol): symbol for symbol in (*ARGUMENTS, n, d)}, Piecewise=Piecewise)

LEAVES = [
    lambda pick: X,
    lambda pick: Y,
    lambda pick: v[:, None],
    lambda pick: c[None, :],
    lambda pick: c,
    lambda pick: -u[:, None],
    lambda pick: td.einsum("i,j->ij", u, td.ones(d)),
    lambda pick: td.outer(td.ones(n), c),
    lambda pick: td.einsum("i,jk,k->ij", v, td.ones((d, 1)), td.ones(1)),
    lambda pick: td.mean(pick([X, Y]), axis=pick([0, 1]), keepdims=True),
    lambda pick: td.sum(X * v[:, None], axis=1, keepdims=True),
    lambda pick: (M @ v)[:, None],
    lambda pick: td.mean(v),
    lambda pick: r,
    lambda pick: 2,
    lambda pick: td.norm(u),
    lambda pick: td.max(X, axis=0, keepdims=True),
]
JOINED = [
    lambda a, b, pick: a + b,
    lambda a, b, pick: a - b,
    lambda a, b, pick: a * b,
    lambda a, b, pick: a / (b**2 + 1),
    lambda a, b, pick: (a**2 + 1) ** b if pick([0, 1]) else a * r,
    lambda a, b, pick: td.where(pick([td.greater, td.less_equal])(a, pick([1, b])), b, pick([0, a])),
    lambda a, b, pick: td.where(td.logical_and(td.less(a, b), td.logical_not(td.greater(b, 1))), a, 1),
    lambda a, b, pick: td.maximum(a, b) + td.relu(a - 1),
    lambda a, b, pick: pick([td.exp, td.tanh, td.sqrt])(a * a + 1) * b,
]
OUTSIDE = [
    lambda e, pick: td.sum(e, axis=pick([0, 1, None])),
    lambda e, pick: td.mean(e, axis=pick([0, 1, None])) + 1,
    lambda e, pick: e.T,
    lambda e, pick: M @ e if e.shape[0] == n else e @ td.ones((e.shape[1], 2)),
    lambda e, pick: e[pick([0, 1]) if e.shape[0] == n else 0, 0],
    lambda e, pick: td.IndexedSum(e[i if e.shape[0] == n else 0, 0] * v[i], (i, 0, n - 1)),
    lambda e, pick: e / td.norm(X),
    lambda e, pick: e,
]


def expression(seed):
    """A random broadcast expression of rank 2 with what is around it."""
    rng = random.Random(seed)
    pick = rng.choice

    def made(depth):
        return pick(LEAVES)(pick) if not depth else pick(JOINED)(made(depth - 1), made(pick([0, depth - 1])), pick)

    inner = made(pick([1, 2, 3]))
    if getattr(inner, "rank", 0) < 2:
        inner = inner + v[:, None]
    return pick(OUTSIDE)(inner, pick)


BATCHES = [range(start, start + 25) for start in range(0, 150, 25)]


@every("seeds", BATCHES, ids=str, turns=8)
def test_text(seeds):
    for seed in seeds:
        expr = expression(seed)
        again = value(eval(str(expr), dict(NAMES)), seed)
        assert np.allclose(again, value(expr, seed), rtol=1e-9), (seed, str(expr))


@cache
def derivative(seed):
    """The sum of the entries, the symbol by which it is derived, and its gradient."""
    total, symbol = td.sum(expression(seed)), random.Random(seed).choice([X, v, c])
    return total, symbol, td.gradient(total, symbol)


@every("seeds", BATCHES, ids=str, turns=8)
def test_text_of_derivatives(seeds):
    for seed in seeds:
        _, _, expr = derivative(seed)
        again = value(eval(str(expr), dict(NAMES)), seed)
        assert np.allclose(again, value(expr, seed), rtol=1e-9), (seed, str(expr))


@every("seeds", BATCHES, ids=str, turns=10)
def test_derivatives_are_those_of_differences(seeds):
    for seed in seeds:
        rng, at = random.Random(seed), point(seed)
        total, symbol, gradient = derivative(seed)
        slope = value(gradient, seed)
        if not np.isfinite(value(total, seed)) or not np.isfinite(slope).all():
            continue
        place = tuple(rng.randrange(size) for size in slope.shape)

        sides = []
        for step in (1e-6, -1e-6):
            array = at[symbol].copy()
            array[place] += step
            sides.append(float(evaluate(total, {**SIZES, **at, symbol: array})))
        assert np.isclose(slope[place], (sides[0] - sides[1]) / 2e-6, rtol=1e-4, atol=1e-5), (seed, str(total))


@pytest.mark.parametrize("size", [3, 5])
def test_numbers_with_conditions_on_sizes_are_chosen_entry_by_entry(size):
    """The condition of a number stays inside of the choice, which is a tensor."""
    s = sympy.Symbol("s", real=True)
    number = sympy.Piecewise((s, n > 3), (0, True))
    at = np.linspace(-1, 1, size)
    value = 2.0 if size > 3 else 0.0
    for other, otherwise in ((0, 0 * at), (u, at)):
        choices = (td.where(td.greater(u, 0), number, other), td.where(td.greater(u, 0), 2 + number * s, other))
        one, two = td.lambdify([u, s], choices, "numpy")(at, 2.0)
        np.testing.assert_array_equal(one, np.where(at > 0, value, otherwise))
        np.testing.assert_array_equal(two, np.where(at > 0, 2 + 2 * value, otherwise))


@pytest.mark.in_turns(8)
def test_conditions_are_printed_as_they_are():
    """A norm in a condition keeps its form: SymPy would evaluate the condition again."""
    q, W0, W1 = td.TensorSymbol("q", d), td.TensorSymbol("W0", (n, d)), td.TensorSymbol("W1", (n, n))
    penalty = td.sum(td.gradient(td.norm(td.log(1 + (W1 @ td.sigmoid(W0 @ q)) ** 2)), q) ** 2)
    for notation in (str, td.latex):
        assert "norm" in str(penalty) and notation(td.hvp(penalty, W1, M))


def spline(distance):
    """A function of a distance with two branches, the second one away from 0."""
    return Piecewise(
        (1 - distance**2 / 2 + distance**3, distance < 1), ((2 - distance) ** 3 / 4, distance < 2), (0, True)
    )


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
def test_branches_away_from_zero_are_not_tested_for_zero(backend):
    k = td.indices("k")
    distance = sympy.sqrt(td.IndexedSum((X[i, k] - Y[j, k]) ** 2, (k, 0, d - 1)))
    gradient = td.gradient(td.IndexedSum(spline(distance), (j, 0, n - 1), (i, 0, n - 1)), X)
    assert str(gradient).count("Piecewise") == 1 and "Ne(" not in str(gradient)
    x = np.array([[0.0, 0.0], [0.6, 0.8], [1.2, 1.6], [0.3, 0.1]])
    y = np.array([[0.0, 0.0], [0.6, 0.0], [1.0, 1.0], [3.0, 3.0]])
    difference = x[:, None] - y
    r = np.sqrt((difference**2).sum(axis=2))
    slope = np.where(r < 1, -1 + 3 * r, np.where(r < 2, -3 * (2 - r) ** 2 / (4 * np.where(r == 0, 1, r)), 0))
    found = td.lambdify((X, Y), gradient, backend)(x, y)
    np.testing.assert_allclose(found, (slope[..., None] * difference).sum(axis=1), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    ("bound", "is_tested"), [(1, False), (r, True), (0, True), (-1, True), (sympy.Symbol("R", positive=True), False)]
)
def test_only_positive_bounds_show_that_a_distance_is_not_zero(bound, is_tested):
    k = td.indices("k")
    distance = sympy.sqrt(td.IndexedSum((X[i, k] - Y[j, k]) ** 2, (k, 0, d - 1)))
    total = td.IndexedSum(Piecewise((distance, distance >= bound), (0, True)), (j, 0, n - 1), (i, 0, n - 1))
    assert ("Ne(" in str(td.gradient(total, X))) is is_tested


def test_a_sum_over_a_part_of_an_axis_may_be_empty():
    """The derivative of ``S**a`` is 0 where ``S`` is an empty sum."""
    p, a = td.indices("p"), sympy.Rational(1, 2)
    for first, is_tested in ((0, False), (1, True)):
        power = td.IndexedSum(sympy.exp(u[i]), (i, first, n - 1)) ** a
        assert ("Ne(" in str(td.diff(power, u[p]))) is is_tested
        assert np.isfinite(td.evaluate(td.gradient(power, u), {u: np.array([0.5])})).all()


def test_entries_of_joined_vectors_are_printed():
    """The entry of the other part does not exist: `x[i - 4]` for i = 1."""
    x = td.TensorSymbol("x", 4)
    joined = td.concatenate([x, x**2])
    assert [str(joined[place]) for place in (1, 6)] == ["x[1]", "x[2]**2"]
    assert str(td.sin(joined)[1]) == "sin(x[1])"
    assert td.TensorComprehension(Piecewise((x[i - 1], i > 0), (0, True)), (i, 4)).write_out((0,)) == 0


def test_a_choice_inside_of_a_whole_tensor_in_a_condition():
    """SymPy converts a `Piecewise` in a condition to an `ITE`; that of a whole tensor's function is none of them."""
    x, s = td.TensorSymbol("x", 3), td.TensorSymbol("s", ())
    largest = td.logsumexp(td.where(td.less(x, 0.1), 0, td.exp(x)))
    value = td.where(td.greater(s, largest), s * td.sum(x), largest**2)
    found = td.lambdify([x, s], (value, td.gradient(value, x)), "numpy")
    at = np.array([0.0, 0.5, 1.0])
    total = np.log(np.exp(np.where(at < 0.1, 0, np.exp(at))).sum())
    weights = np.where(at < 0.1, 0, np.exp(at) * np.exp(np.exp(at) - total))
    for number, wanted, slopes in ((9.0, 13.5, np.full(3, 9.0)), (0.0, total**2, 2 * total * weights)):
        result = found(at, np.array(number))
        np.testing.assert_allclose(result[0], wanted, rtol=1e-13)
        np.testing.assert_allclose(result[1], slopes, rtol=1e-13)


def test_logarithms_of_choices_with_zero():
    """For readers the logarithm of the choice stays as it is: log(0) is not a real number."""
    x = td.TensorSymbol("x", td.indices("n"))
    value = td.var(td.log(td.where(td.less(x, 0.1), 0, td.exp(x / 2))))
    gradient = td.gradient(value, x)
    assert not gradient.has(sympy.zoo, sympy.oo)
    at = np.array([0.5, 1.0, 2.5])
    np.testing.assert_allclose(td.lambdify([x], gradient, "numpy")(at), (at - at.mean()) / 6, rtol=1e-13)


def test_a_matrix_of_which_only_the_size_is_left():
    """The divisor of a flattened matrix is an extent, although its entries cancel."""
    A, x = td.TensorSymbol("A", td.indices("n m")), td.TensorSymbol("x", 2)
    value = td.mean(td.softmax(td.ravel(A))) * td.sum(x)
    assert td.gradient(value, A) == td.zeros(A.shape)
    found = td.lambdify([A, x], td.gradient(value, x), "numpy")(np.ones((2, 3)), np.ones(2))
    np.testing.assert_allclose(found, np.full(2, 1 / 6), rtol=1e-14)
