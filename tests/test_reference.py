"""The oracle itself, against values worked out by hand and against SymPy on written-out cases."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest
import sympy
from cases import build
from counting import contributing_tuples
from every import every
from sympy import (
    Abs,
    And,
    Eq,
    Heaviside,
    KroneckerDelta,
    Max,
    Min,
    Mod,
    Piecewise,
    Symbol,
    exp,
    floor,
    log,
    sign,
    sin,
    sqrt,
)

from sympy_tensordiff.errors import (
    ArgumentError,
    ArgumentTypeError,
    IndexExpressionError,
    OutOfShapeError,
    ShapeError,
    TensorDiffError,
    UnsupportedError,
)
from sympy_tensordiff.reference import differentiate, evaluate, points
from sympy_tensordiff.symbolic.index_notation.indices import indices
from sympy_tensordiff.symbolic.index_notation.sums import IndexedMax, IndexedMin, IndexedProduct, IndexedSum
from sympy_tensordiff.symbolic.index_notation.tensors import TensorComprehension, TensorEntry, TensorSymbol

i, j, k, n = indices("i j k n")
x, y, A = TensorSymbol("x", 4), TensorSymbol("y", 4), TensorSymbol("A", (2, 3))
s = TensorSymbol("s", ())
alpha = Symbol("alpha", real=True)
X = [1, 2, 3, 4]


# ---------------------------------------------------------------- values


def test_transcendental_values_have_thirty_digits():
    value = evaluate(exp(x[0]) + sin(x[1]) + sqrt(x[2]), {x: X})
    with mpmath.workdps(40):
        expected = mpmath.exp(1) + mpmath.sin(2) + mpmath.sqrt(3)
        assert abs(mpmath.mpf(value) - expected) < mpmath.mpf(10) ** -28


def test_a_maximum_equals_its_term_in_another_order_of_its_factors():
    """Rounding in the 30th digit must not leave a maximum without a term that it is."""
    w, a, b = TensorSymbol("w", 7), sympy.Symbol("a"), sympy.Symbol("b")
    values = {w: [Fraction(k, 7) for k in range(1, 8)], a: Fraction(1, 3), b: Fraction(5, 9)}
    equal = lambda left, right: evaluate(Piecewise((1, Eq(left, right)), (0, True)), values)  # noqa: E731
    for k in range(7):
        assert equal((exp(a) * w[k]) * exp(b), exp(a + b) * w[k]) == 1
        assert equal(exp(a) * w[k], exp(a) * w[k] + Fraction(1, 10**25)) == 0


def test_any_sympy_function_has_a_value():
    value = evaluate(sympy.besselj(0, x[1]) + sympy.sec(x[0]) + sympy.zeta(x[1]), {x: X})
    with mpmath.workdps(30):
        expected = mpmath.besselj(0, 2) + mpmath.sec(1) + mpmath.zeta(2)
        assert abs(mpmath.mpf(value) - expected) < mpmath.mpf(10) ** -27


@every(
    "expression, expected",
    [
        (Max(x[0], x[1], 0), 2),
        (Min(x[0], x[1], 5), 1),
        (Abs(x[0] - x[3]), 3),
        (sign(x[0] - x[1]), -1),
        (sign(x[0] - 1), 0),
        (Heaviside(x[0] - 1), Fraction(1, 2)),
        (floor(x[0] / 2 - 1), -1),
        (sympy.ceiling(x[0] / 2), 1),
        (Mod(x[0] - 2, 3), 2),
        (x[1] ** -3, Fraction(1, 8)),
        ((x[0] - 1) ** 0 + sympy.Pow(x[0] - 1, x[0] - 1, evaluate=False), 2),
        (Piecewise((x[0], x[0] > 1), (x[1], x[1] > 1), (x[2], True)), 2),
        (sympy.ITE(x[0] > 1, x[0] > 2, x[1] > 1), True),
        (And(x[0] >= 1, sympy.Ne(x[1], 1)), True),
        (sympy.Or(x[0] < 1, sympy.Eq(x[1], 1)), False),
        (sympy.Not(sympy.Lt(x[0], 1)), True),
        (sympy.Rational(3, 4) * x[0], Fraction(3, 4)),
    ],
)
def test_exact_functions(expression, expected):
    assert evaluate(expression, {x: X}) == expected


def test_limits_are_innermost_first_and_inclusive():
    assert points((k, 0, i), (i, 0, 2)) == [(0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2)]
    assert points((k, 0, n), values={n: 1}) == [(0,), (1,)]


# ---------------------------------------------------------------- sizes and errors


def test_sizes_are_read_off_the_shapes():
    N, M = indices("N M")
    B, c = TensorSymbol("B", (N, 2 * M + 1)), TensorSymbol("c", N + M)
    expression = IndexedSum(c[i], (i, 0, N + M - 1)) * N + M
    values = {B: np.ones((2, 7)), c: [1, 2, 3, 4, 5]}
    assert evaluate(expression + B[0, 0] - 1, values) == 15 * 2 + 3
    with pytest.raises(ShapeError, match="c"):
        evaluate(expression + B[0, 0], {B: np.ones((2, 7)), c: [1, 2, 3]})
    with pytest.raises(ShapeError, match="B"):
        evaluate(expression + B[0, 0], {B: np.ones((2, 6)), c: [1, 2, 3]})


@pytest.mark.parametrize("index", [i - 1, i + 1, 2 * i])
def test_a_read_outside_the_shape(index):
    T = TensorComprehension._trusted(x[index], [(i, 4)])
    with pytest.raises(OutOfShapeError, match="x"):
        evaluate(T, {x: X})


def test_a_read_outside_a_comprehension():
    inner = TensorComprehension(x[i], (i, 3))
    with pytest.raises(OutOfShapeError):
        evaluate(inner[j], {x: X, j: 3})


def test_a_read_outside_with_conditions_and_factors():
    data = TensorSymbol("a", n, dtype=int)
    outside, holds, fails = Eq(data[5], 1), Eq(data[0], 0), Eq(data[0], 1)
    values = {data: [0, 1, 2], y: X}
    chosen = [Piecewise((y[0], condition), (0, True)) for condition in (outside & fails, outside | holds)]
    chosen += [KroneckerDelta(data[5], 1) * Piecewise((y[0], fails), (0, True))]
    assert [evaluate(each, values) for each in chosen] == [0, 1, 0]
    refused = [Piecewise((y[0], condition), (0, True)) for condition in (outside & holds, outside | fails)]
    for each in (*refused, KroneckerDelta(data[5], 1) * Piecewise((y[0], holds), (0, True))):
        with pytest.raises(OutOfShapeError, match=r"the read at \(5,\) leaves the shape"):
            evaluate(each, values)


@every(
    "expression, values, error",
    [
        (x[0], {}, ArgumentError),
        (x[i], {x: X}, ArgumentError),
        (alpha * x[0], {x: X}, ArgumentError),
        (x[0], {x: [X]}, ShapeError),
        (x[0], {x: [1, 2, 3]}, ShapeError),
        (x[0], {x: [1, 2, 3, "a"]}, ArgumentTypeError),
        (x[i], {x: X, i: Fraction(1, 2)}, ArgumentTypeError),
        (Symbol("g", real=True) + sympy.Function("f")(x[0]), {x: X, Symbol("g", real=True): 1}, UnsupportedError),
        (sympy.DiracDelta(x[0]), {x: X}, UnsupportedError),
    ],
)
def test_errors(expression, values, error):
    with pytest.raises(error):
        evaluate(expression, values)
    assert issubclass(error, TensorDiffError)


def test_an_index_that_is_no_integer():
    with pytest.raises(IndexExpressionError):
        evaluate(TensorEntry._trusted(x, (i / 2,)), {x: X, i: 1})


# ---------------------------------------------------------------- derivatives


@every(
    "expression, at, slope",
    [
        (lambda u, v: Abs(u), (0, 0), 0),
        (lambda u, v: Abs(u), (-2, 0), -1),
        (lambda u, v: Max(u, 0), (0, 0), 0),
        (lambda u, v: Min(u, 0), (0, 0), 0),
        (lambda u, v: Max(u, 1), (2, 0), 1),
        (lambda u, v: Max(u, v), (3, 3), Fraction(1, 2)),
        (lambda u, v: Min(u, v), (3, 3), Fraction(1, 2)),
        (lambda u, v: Max(u, v, 3), (3, 3), 0),
        (lambda u, v: Max(u, v, 2), (3, 3), Fraction(1, 2)),
        (lambda u, v: Max(u, 2 * v, v + 1), (2, 1), Fraction(1, 3)),
        (lambda u, v: Max(u, alpha), (5, 0), Fraction(1, 2)),
        (lambda u, v: sign(u) * u, (0, 0), 0),
        (lambda u, v: sign(u) * u, (-3, 0), -1),
        (lambda u, v: floor(u) * u, (Fraction(5, 2), 0), 2),
        (lambda u, v: Heaviside(u) * u, (0, 0), Fraction(1, 2)),
        (lambda u, v: Mod(u, 3), (4, 0), 1),
        (lambda u, v: Piecewise((u**2, u > 0), (v * u, True)), (0, 7), 7),
        (lambda u, v: u**3 / v, (2, 3), 4),
        (lambda u, v: u**v, (2, 3), 12),
        (lambda u, v: u ** (v - 3), (0, 3), 0),
        (lambda u, v: (u - 1) ** 1, (1, 0), 1),
        (lambda u, v: log(u) * 1, (4, 0), Fraction(1, 4)),
        (lambda u, v: IndexedProduct(x[k] + 2, (k, 0, 3)), (5, 1), 12),
        (lambda u, v: IndexedProduct(x[k], (k, 0, 1)), (0, 3), 3),
        (lambda u, v: IndexedProduct(x[k] * u, (k, 0, 1)), (2, 3), 36),
        (lambda u, v: IndexedProduct(x[k], (k, 1, 0)) * u, (2, 3), 1),
        (lambda u, v: IndexedMax(x[k] ** 2, (k, 0, 3)), (-3, 2), -6),
        (lambda u, v: IndexedMax(x[k], (k, 0, 3)), (3, 3), Fraction(1, 2)),
        (lambda u, v: IndexedMin(x[k] - u, (k, 0, 3)), (2, 1), -1),
        (lambda u, v: IndexedMin(x[k] * u, (k, 0, 3)), (0, 1), Fraction(1, 4)),
        (lambda u, v: IndexedMax(x[0], (k, 0, 3)), (7, 1), 1),
    ],
)
def test_slopes_worked_out_by_hand(expression, at, slope):
    values = {x: [at[0], at[1], 0, 0], alpha: 5}
    derivative = differentiate(expression(x[0], x[1]), x, values)
    assert derivative[0] == slope


def test_derivative_by_the_exponent():
    derivative = differentiate(x[0] ** x[1], x, {x: [2, 3, 0, 0]})
    assert abs(float(derivative[1]) - 8 * np.log(2)) < 1e-14


def test_what_cannot_be_differentiated_by():
    with pytest.raises(ArgumentError):
        differentiate(x[i], i, {x: X, i: 1})
    with pytest.raises(ArgumentError):
        differentiate(x[0], y, {x: X})
    with pytest.raises(UnsupportedError):
        differentiate(sympy.besselj(x[1], x[0]), x, {x: X})


def test_contributing_tuples():
    T = TensorComprehension(exp(-IndexedSum(x[k] * y[i], (k, 0, i))), (i, 4))
    assert contributing_tuples(T, x, {}) == 1 + 2 + 3 + 4
    guarded = TensorComprehension(Piecewise((x[i - 1], i >= 1), (0, True)), (i, 4), (j, 5))
    assert contributing_tuples(guarded, x, {}) == 15


# ------------------------------------------------ SymPy as a second opinion


def write_out(node, env):
    """The scalar expression without sums and entries: one symbol for each entry of a tensor."""
    if isinstance(node, IndexedSum):
        body, *limits = node.args
        order = list(reversed(limits))
        return sympy.Add(*(write_out(body, inner) for inner in environments(order, env)))
    if isinstance(node, TensorEntry):
        position = [write_out(index, env) for index in node.indices]
        if isinstance(node.tensor, TensorComprehension):
            return write_out(node.tensor.body, {**env, **dict(zip(node.tensor.indices, position, strict=True))})
        return entry_symbol(node.tensor, position)
    if isinstance(node, TensorSymbol):
        return entry_symbol(node, ())
    if isinstance(node, KroneckerDelta):
        left, right = (write_out(arg, env) for arg in node.args)
        return sympy.Integer(left == right)
    if isinstance(node, sympy.Mul) and any(write_out(a, env) == 0 for a in node.args if isinstance(a, KroneckerDelta)):
        return sympy.S.Zero
    if isinstance(node, Piecewise):
        return write_out_pieces(node, env)
    if node in env:
        return sympy.sympify(env[node])
    return node.func(*(write_out(arg, env) for arg in node.args)) if node.args else node


def write_out_pieces(node, env):
    pieces = []
    for value, condition in node.args:
        holds = condition.subs(env)
        if holds == sympy.false:
            continue
        pieces.append((write_out(value, env), write_out(condition, env)))
        if holds == sympy.true:
            break
    return Piecewise(*pieces)


def environments(limits, env):
    if not limits:
        return [env]
    index, lo, hi = limits[0]
    first, last = (int(write_out(bound, env)) for bound in (lo, hi))
    return [e for value in range(first, last + 1) for e in environments(limits[1:], {**env, index: value})]


def entry_symbol(tensor, position):
    return Symbol("_".join([tensor.name, *map(str, position)]), real=True)


SECOND_OPINION = [
    *("T1", "T6", "T8", "T10", "P3", "P7", "P8", "D5", "D6", "V11", "V18", "X2", "X3", "X8", "H1", "H4", "L23"),
    *("hole_range_sum", "hole_whole_sum_indexed", "many_maps", "difference", "padding", "padding_squared", "band"),
    *("piecewise_equal", "piecewise_parity", "delta_in_body", "nested_dependent", "one_name_nested", "chain"),
    *("chain_same_names", "net", "softmax", "powers", "trigonometric", "logarithms", "rank_zero", "symbolic_chain"),
]


@every("name", SECOND_OPINION, turns=8)
def test_derivatives_agree_with_sympy_on_written_out_functions(name):
    case = build(name)
    sizes = dict(case.sizes)
    shape = [int(sympy.sympify(e).subs(sizes)) for e in getattr(case.function, "shape", ())]
    rational = sympy.Rational
    values, numbers = {}, {}
    tensors = sorted(case.function.atoms(TensorSymbol), key=str)
    for m, tensor in enumerate(tensors):
        extents = [int(sympy.sympify(e).subs(sizes)) for e in tensor.shape]
        array = np.empty(extents, dtype=object)
        for count, position in enumerate(np.ndindex(*extents)):
            array[position] = Fraction(3 + (7 * count + 5 * m) % 11, 16)
            numbers[entry_symbol(tensor, position)] = rational(3 + (7 * count + 5 * m) % 11, 16)
        values[tensor] = array
    for position in list(product(*map(range, shape)))[-3:]:
        env = {**sizes, **dict(zip(getattr(case.function, "indices", ()), position, strict=True))}
        scalar = write_out(getattr(case.function, "body", case.function) if shape else case.function, env)
        for wrt in tensors:
            jacobian = differentiate(case.function, wrt, values, sizes)
            for index in list(np.ndindex(values[wrt].shape))[-8:]:
                expected = scalar.diff(entry_symbol(wrt, index)).xreplace(numbers).evalf(25)
                assert abs(expected - sympy.Float(float(jacobian[position + index]), 25)) < 1e-13, (wrt, index)
