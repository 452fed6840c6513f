"""Comparisons, logic, unit matrices and products by NumPy's names: its values, and derivatives of what they select."""

import itertools
import math

import numpy as np
import pytest
import sympy
from every import every

import sympy_tensordiff as td
from sympy_tensordiff.errors import ShapeError

n, m, l = td.indices("n m l")
A, B, x = td.TensorSymbol("A", (n, m)), td.TensorSymbol("B", (n, m)), td.TensorSymbol("x", m)
RNG = np.random.default_rng(0)
VALUES = {t: RNG.integers(-1, 2, size=s).astype(float) for t, s in ((A, (4, 5)), (B, (4, 5)), (x, 5))}
COMPARISONS = ["greater", "greater_equal", "less", "less_equal", "equal", "not_equal"]
LOGIC = ["logical_and", "logical_or"]


def check(expr, expected):
    np.testing.assert_array_equal(td.evaluate(expr, VALUES), expected)
    np.testing.assert_array_equal(td.lambdify([*VALUES], expr, "numpy")(*VALUES.values()), expected)


@every("name", COMPARISONS)
@pytest.mark.parametrize("operands", [(A, B), (A, x), (A, 0), (0.5, A)])
def test_comparisons(name, operands):
    numbers = [VALUES.get(operand, operand) for operand in operands]
    check(getattr(td, name)(*operands), getattr(np, name)(*numbers))
    a, b = sympy.symbols("a b", real=True)
    for pair in itertools.product((1, 2), repeat=2):
        assert getattr(td, name)(a, b).subs(dict(zip((a, b), pair, strict=True))) == int(getattr(np, name)(*pair))


@pytest.mark.in_turns(8)
@every("name", LOGIC)
@pytest.mark.parametrize("first", COMPARISONS)
def test_logic(name, first):
    inner, other = getattr(td, first)(A, x), td.greater(B, 0)
    left, right = getattr(np, first)(VALUES[A], VALUES[x]), VALUES[B] > 0
    check(getattr(td, name)(inner, other), getattr(np, name)(left, right))
    check(getattr(td, name)(A, inner), getattr(np, name)(VALUES[A], left))  # a number holds where it is not 0
    check(td.logical_not(getattr(td, name)(inner, B)), ~getattr(np, name)(left, VALUES[B]))
    check(
        td.where(getattr(td, name)(inner, other), A, x), np.where(getattr(np, name)(left, right), VALUES[A], VALUES[x])
    )


def test_logic_of_scalars():
    a, b = sympy.symbols("a b", real=True)
    assert td.logical_and(a > 0, b < 1) == sympy.Piecewise((1, (a > 0) & (b < 1)), (0, True))
    assert td.logical_or(a > 0, False) == td.greater(a, 0)
    assert td.logical_not(True) == 0 and td.logical_and(True, sympy.true) == 1
    check(td.logical_and(A, sympy.true), VALUES[A] != 0)
    with pytest.raises(ShapeError):
        td.logical_and(A, td.TensorSymbol("y", l))


def test_derivatives_of_what_is_selected():
    point = {t: RNG.normal(size=np.shape(v)) for t, v in VALUES.items()}
    inside = td.logical_and(td.greater(A, -1), td.logical_not(td.greater_equal(A, x)))
    loss = td.sum(td.where(inside, A**2 * x, td.sin(A) + B))
    holds = (point[A] > -1) & ~(point[A] >= point[x])
    by_a, by_x, by_b = td.lambdify([*VALUES], td.gradient(loss, (A, x, B)), "numpy")(*point.values())
    np.testing.assert_allclose(by_a, np.where(holds, 2 * point[A] * point[x], np.cos(point[A])), rtol=1e-14)
    np.testing.assert_allclose(by_x, np.where(holds, point[A] ** 2, 0).sum(axis=0), rtol=1e-14)
    np.testing.assert_allclose(by_b, ~holds)
    for name in (*COMPARISONS, *LOGIC):
        assert td.gradient(td.sum(getattr(td, name)(A, x)), A) == td.zeros((n, m))


@pytest.mark.parametrize("arguments", [(3,), (3, 4), (4, 3), (3, 4, 1), (4, 4, -2), (2, 5, 7), (3, None, 1)])
def test_eye(arguments):
    np.testing.assert_array_equal(td.evaluate(td.eye(*arguments), {}), np.eye(*arguments))


def test_eye_of_symbolic_size():
    assert td.eye(n) == td.DeltaTensor(n) == td.eye(n, n) and td.eye(n, m, 1).shape == (n, m)
    check(td.matmul(td.eye(n), A), VALUES[A])
    check(td.matmul(A, td.eye(m, m, 1)), VALUES[A] @ np.eye(5, k=1))
    with pytest.raises(ShapeError, match=r"td.eye has the extent 0"):
        td.eye(0)


def test_matmul():
    stack, other = td.TensorSymbol("S", (l, n, m)), td.TensorSymbol("C", (m, n))
    for left, right in ((A, x), (A, other), (x, x), (stack, other), (stack, x)):
        assert td.matmul(left, right) == left @ right
    check(td.matmul(A, x), np.matmul(VALUES[A], VALUES[x]))
    with pytest.raises(ShapeError, match="a scalar is not a matrix"):
        td.matmul(A, 2)


def test_a_relation_of_scalars_is_the_condition_itself():
    """SymPy asks where the cases of ``Piecewise != 0`` hold, and fails for hyperbolic functions of a maximum."""
    s, r = td.TensorSymbol("s", ()), td.TensorSymbol("r", ())
    value = td.minimum(td.tanh(td.relu(s)), 0.7)
    choice = td.where(td.greater(value, 0.2), value**2, -3 * value)
    assert choice.args[0].cond == (value > 0.2)
    assert td.where(td.logical_and(td.greater(s, 0), td.less(r, 1)), s, r).args[0].cond == (s > 0) & (r < 1)
    function = td.lambdify([s], [choice, td.diff(choice, s)], "numpy")
    for at, expected in ((2.0, (0.49, 0)), (0.1, (-3 * math.tanh(0.1), -3 / math.cosh(0.1) ** 2)), (-1.0, (0, 0))):
        assert function(at) == pytest.approx(expected)
