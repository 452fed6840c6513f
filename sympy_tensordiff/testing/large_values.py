"""Random logarithms of products and quotients at large and tiny values, against numbers of any size."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import sympy
from sympy import Expr, cosh, exp, log

from sympy_tensordiff.codegen.api import lambdify
from sympy_tensordiff.derivative.api import gradient
from sympy_tensordiff.reference import evaluate, hvp
from sympy_tensordiff.reference.duals import CONTEXT
from sympy_tensordiff.symbolic.indices import indices
from sympy_tensordiff.symbolic.sums import IndexedProduct, IndexedSum
from sympy_tensordiff.symbolic.tensors import TensorSymbol
from sympy_tensordiff.testing.exact import assert_equal

_SIZE = 4
_DIGITS = 2000
"""Enough for ``1 - 1/(1 + exp(-4000))``."""
_FARTHEST = 1000
_FACTORS: Sequence[Callable[[Expr], Expr]] = (
    exp,
    lambda u: exp(-(u**2) / 10),
    lambda u: exp(-sympy.Abs(u)),
    cosh,
    lambda u: 1 / (1 + exp(u)),
    lambda u: 1 - 1 / (1 + exp(u)),
    lambda u: 1 + exp(u),
    lambda u: exp(u) + exp(-u / 2),
    lambda u: u + 3 * _FARTHEST,
    lambda u: u - 3 * _FARTHEST,
    lambda u: sympy.Piecewise((exp(u), u > 0), (exp(-2 * u), True)),
)


def check_large_values(seed: int) -> None:
    """Check the value and the gradient of one logarithm as NumPy computes them.

    Raises
    ------
    DerivativeMismatch
        One of them differs from that in thousands of digits, with exponents of any size.
    """
    rng = random.Random(seed)
    i, j, n = indices("i j n")
    x, y = TensorSymbol("x", n), TensorSymbol("y", n)

    def factor(at: Any) -> Expr:
        u = rng.choice((x[at], -x[at], x[at] / 3, x[at] - x[0], x[at] * y[at])) * rng.choice((1, 1, 2))
        return rng.choice(_FACTORS)(u)

    def quotient() -> Expr:
        made = sympy.Mul(*(factor(i) ** rng.choice((1, 1, -1, 2, -2, 31)) for _ in range(rng.randint(1, 3))))
        others = IndexedSum(exp(x[j]), (j, 0, n - 1)), IndexedProduct(factor(j) ** 2, (j, 0, i)), sympy.Rational(1, 7)
        # Squares, and all that is made of them, have logarithms.
        return made**2 * rng.choice((1, 1, *others)) ** rng.choice((1, -1))

    limits = (i, 0, n - 1)
    forms = log(IndexedProduct(quotient(), limits)), IndexedSum(rng.choice((1, y[i])) * log(quotient()), limits)
    function = rng.choice(forms) + rng.choice((0, log(exp(x[1]) / 3)))
    far = rng.choice((1e-8, 1.0, 40.0, float(_FARTHEST)))
    values: dict[Any, Any] = {n: _SIZE, x: np.array([rng.uniform(-far, far) for _ in range(_SIZE)])}
    values[y] = np.array([rng.uniform(0, 1) for _ in range(_SIZE)])
    values[x][rng.randrange(_SIZE)] = rng.choice((far, -far))
    with CONTEXT.workdps(_DIGITS):
        ((slope, _),) = hvp(function, {x: np.ones(_SIZE)}, values)
        expected = np.array(evaluate(function, values), float), slope.astype(float)
    found = lambdify((x, y), (function, gradient(function, x)), "numpy")(values[x], values[y])
    for what, value, right in zip(("value", "gradient"), found, expected, strict=True):
        # Terms that cancel leave errors of their size.
        assert_equal(value / far**2 if far > 1 else value, right / far**2 if far > 1 else right, f"the {what}", 1e-9)
