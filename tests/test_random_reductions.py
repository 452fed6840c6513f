"""Random sums, products, maxima and minima in one another: simplified, differentiated and compiled, against loops."""

import random
from fractions import Fraction
from math import isfinite

import numpy as np
from every import every
from sympy import KroneckerDelta, Max, Min, Piecewise

import sympy_tensordiff as td
from sympy_tensordiff.reference import differentiate, evaluate

i, j, k, p, q = td.indices("i j k p q")
d = td.TensorSymbol("d", 30)
SMOOTH = (td.IndexedProduct, td.IndexedSum)
ALL = (*SMOOTH, td.IndexedMax, td.IndexedMin)
POINTS = [(-2, 2), (0, -1), (1, 2), (3, 2)]


def bound(rng, around, extremum):
    forms = [rng.choice([0, 2, *around, p, q]) + rng.randint(-1, 2) for _ in range(rng.choice([1, 1, 2]))]
    return extremum(*forms)


def body(rng, around, depth, classes):
    entry = d[12 + sum(rng.randint(-1, 1) * v for v in around)]
    kind = rng.randrange(6) if depth else 0
    if kind == 0:
        return entry
    if kind > 3:
        return reduction(rng, around, depth - 1, classes) if len(around) < 3 else entry
    inner = body(rng, around, depth - 1, classes)
    if kind == 1:
        return entry * inner
    if kind == 2:
        return Piecewise((inner, around[-1] >= rng.choice([p, 1])), (rng.choice([0, 1]), True))
    return KroneckerDelta(around[0], rng.choice([q, 1])) * inner


def reduction(rng, around, depth, classes):
    """One with one or two ranges, whose bounds depend on those around it and may be empty."""
    limits, inner = [], list(around)
    for index in [i, j, k][len(around) : len(around) + rng.randint(1, 2)]:
        limits.append((index, bound(rng, inner, Max), bound(rng, inner, Min)))
        inner.append(index)
    return rng.choice(classes)(body(rng, inner, depth, classes), *reversed(limits))


def at(expr, values, first, second):
    known = {d: values, p: first, q: second}
    return {symbol: value for symbol, value in known.items() if symbol is d or symbol in expr.free_symbols}


@every("seed", range(8))
def test_simplified_values(seed):
    rng = random.Random(seed)
    expr = reduction(rng, [], 2, ALL)
    result = td.simplify_deltas(expr)
    values = [Fraction(rng.randint(-3, 4), rng.choice([1, 2])) for _ in range(30)]
    for point in POINTS:
        expected = evaluate(expr, at(expr, values, *point))
        if expected == expected:  # not 0 times infinity
            assert evaluate(result, at(result, values, *point)) == expected


@every("seed", range(8))
def test_derivatives_and_kernels(seed):
    rng = random.Random(seed)
    expr = reduction(rng, [], 2, SMOOTH)
    gradient = td.gradient(expr, d)
    values = [Fraction(rng.randint(-2, 3), rng.choice([1, 2])) for _ in range(30)]
    run = td.lambdify([d, p, q], (expr, gradient), "numpy")
    for point in POINTS:
        value, slopes = evaluate(expr, at(expr, values, *point)), differentiate(expr, d, at(expr, values, *point))
        assert (evaluate(gradient, at(gradient, values, *point)) == slopes).all()
        assert isfinite(value)
        found = run(np.array(values, float), *point)
        np.testing.assert_allclose(found[0], float(value), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(found[1], slopes.astype(float), rtol=1e-9, atol=1e-9)
