"""An infinite slope times an exact 0 is 0: a point's distance from itself has no derivative of any order."""

from __future__ import annotations

import numpy as np
from every import every
from kink_cases import FUNCTIONS, POINTS, WEIGHTS, X, computed, d, derivatives, entries, i, n, over, pairs, square, v, w
from sympy import Piecewise, Symbol, acos, exp, log, sqrt
from sympy.codegen.cfunctions import Cbrt

import sympy_tensordiff as td
from sympy_tensordiff.reference import evaluate
from sympy_tensordiff.reference.derivatives import derivative, hvp

VALUES = {X: POINTS.tolist(), v: np.ones_like(POINTS), w: WEIGHTS.tolist()}


def floats(arrays):
    return [np.array(array.tolist(), float) for array in arrays]


@every("name", [*FUNCTIONS], turns=8)
def test_both_orders_in_every_backend_by_turns(name, simulator):
    (pair,) = hvp(FUNCTIONS[name], {X: VALUES[v]}, {X: VALUES[X], w: VALUES[w]})
    wanted = floats(pair)
    assert np.isfinite(wanted).all()
    found = [floats(evaluate(derivatives(name), VALUES)), computed(name, "numpy")]
    found.append(simulator(computed, name, ("numba", "cuda")[[*FUNCTIONS].index(name) % 2]))
    for parts in found:
        np.testing.assert_allclose(parts, wanted, rtol=1e-9, atol=1e-9)


def test_distances_by_hand():
    """At two equal points: what other points contribute, and nothing of each other."""
    points = np.array([[1.0, 2.0], [4.0, 6.0], [1.0, 2.0]])
    first, second = td.gradient(FUNCTIONS["distances"], X), td.hessian(FUNCTIONS["distances"], X)
    gradient, hessian = td.lambdify(X, (first, second), "numpy")(points)
    np.testing.assert_allclose(gradient, [[-1.2, -1.6], [2.4, 3.2], [-1.2, -1.6]])
    block = 2 * (np.eye(2) - np.outer([0.6, 0.8], [0.6, 0.8])) / 5
    wanted = np.einsum("pr,qs->pqrs", [[1, -1, 0], [-1, 2, -1], [0, -1, 1]], block)
    np.testing.assert_allclose(hessian, wanted, atol=1e-12)


def test_the_third_order():
    """It is that of other pairs alone."""
    values = {X: [[0, 0], [1, 0], [0, 0]]}
    third = derivative(FUNCTIONS["distances"], (X, X, X), values)
    assert third[0, 0, 0, 0, 2, 0] == 0 and third[0, 0, 0, 1, 0, 1] == -third[1, 0, 0, 1, 0, 1] != 0
    written = td.diff(td.diff(td.diff(FUNCTIONS["distances"], X[0, 0]), X[0, 1]), X[0, 1])
    assert float(evaluate(written, values, {n: 3, d: 2})) == float(third[0, 0, 0, 1, 0, 1])


DISTANCE = "IndexedSum((X[p, k] - X[j, k])**2, (k, 0, d - 1))"
PLAIN = {
    "a root": (over(sqrt(X[i, 0]), i), "/(2*sqrt(X[p, 0]))"),
    "never 0": (pairs(lambda s: sqrt(1 + s)), f"/sqrt({DISTANCE} + 1)"),
    "a positive symbol": (pairs(lambda s: sqrt(s + Symbol("e", positive=True))), f"/sqrt(e + {DISTANCE})"),
    "an exponential": (over(sqrt(exp(X[i, 0]) + square(i)), i), "exp(X[p, 0])"),
    "not flat": (over(sqrt(X[i, 0] + X[i, 1] ** 2), i), "/sqrt(X[p, 0] + X[p, 1]**2)"),
    "a square": (pairs(lambda s: s**2), f"*{DISTANCE}"),
    "of both signs": (entries(lambda u: Cbrt(u**3)), "X[p, q]**2"),
    "infinite itself": (over(log(square(i)), i), "2*X[p, q]/"),
    "divided by": (over(1 / sqrt(square(i)), i), "**(3/2)"),
}


@every("name", [*PLAIN])
def test_other_roots_are_written_as_ever(name):
    function, part = PLAIN[name]
    gradient = td.gradient(function, X)
    assert part in str(gradient) and not gradient.has(Piecewise)


def test_a_root_of_what_is_flat_is_a_choice():
    root = f"Piecewise((1/sqrt({DISTANCE}), Ne({DISTANCE}, 0)), (0, True))"
    expected = f"2*IndexedSum((X[p, q] - X[j, q])*{root}, (j, 0, n - 1))"
    assert str(td.gradient(FUNCTIONS["distances"], X).body) == expected
    assert str(td.gradient(entries(lambda u: sqrt(abs(u))), X).body).count("Ne(X[p, q], 0)") == 1


def test_a_text_of_whole_tensors_has_the_values_of_the_choice():
    x = td.TensorSymbol("x", n)
    roots = td.norm(x), td.sum(td.elementwise(acos, td.exp(-(x**2))))
    for root in roots:
        gradient = td.gradient(root, x)
        read = td.parse(f"declare x 1 expression {td.to_text(gradient)} derivative wrt x")
        for point in ([0, 0, 0], [3, 0, -4]):
            values = [evaluate(gradient, {x: point}), evaluate(read.expression, {read.tensors["x"]: point})]
            np.testing.assert_allclose(*floats(values), rtol=1e-12)
