"""Random functions of one kind each, against polynomials, NumPy, or numbers of any size."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from fractions import Fraction
from math import gcd
from typing import Any

import numpy as np
import sympy
from sympy import Expr, cosh, exp, log

from sympy_tensordiff.codegen.api import lambdify
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.derivative.api import gradient
from sympy_tensordiff.derivative.native import diff
from sympy_tensordiff.errors import VerificationError
from sympy_tensordiff.reference import evaluate, hvp
from sympy_tensordiff.reference.duals import CONTEXT
from sympy_tensordiff.symbolic.expressions.partial_derivatives import Subs
from sympy_tensordiff.symbolic.index_notation.indices import indices
from sympy_tensordiff.symbolic.index_notation.sums import IndexedProduct, IndexedSum
from sympy_tensordiff.symbolic.index_notation.tensors import TensorSymbol

from .count import count
from .equality import assert_equal

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
    rng, size = random.Random(seed), 4
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
    values: dict[Any, Any] = {n: size, x: np.array([rng.uniform(-far, far) for _ in range(size)])}
    values[y] = np.array([rng.uniform(0, 1) for _ in range(size)])
    values[x][rng.randrange(size)] = rng.choice((far, -far))
    with CONTEXT.workdps(_DIGITS):
        ((slope, _),) = hvp(function, {x: np.ones(size)}, values)
        expected = np.array(evaluate(function, values), float), slope.astype(float)
    found = lambdify((x, y), (function, gradient(function, x)), "numpy")(values[x], values[y])
    for what, value, right in zip(("value", "gradient"), found, expected, strict=True):
        # Terms that cancel leave errors of their size.
        assert_equal(value / far**2 if far > 1 else value, right / far**2 if far > 1 else right, f"the {what}", 1e-9)


def check_named_functions(seed: int) -> None:
    """Check one derivative of order 1 to 3: its value, after substitution, differentiated by SymPy, and its text.

    Raises
    ------
    DerivativeMismatch
        One of them differs from the derivative of the polynomial, which no part of the package computes.
    """
    rng, size = random.Random(seed), 3
    i = indices("i")
    x, y = (TensorSymbol(name, size) for name in "xy")
    function, arity = sympy.Function("f"), rng.choice((2, 2, 3))
    pool = (x[i], x[i], 2 * x[i], x[size - 1 - i], x[i] * y[i], x[0], y[i])
    args = [rng.choice(pool)]
    while len(args) < arity:
        args.append(rng.choice((args[0], args[0], rng.choice(pool))))
    body = function(*args) ** rng.choice((1, 1, 2)) * rng.choice((1, 1, y[i], function(*reversed(args))))
    parameters = sympy.symbols(f"t:{arity}")
    terms = [sympy.Mul(rng.randint(1, 3), *(t ** rng.randint(0, 2) for t in parameters)) for _ in range(2)]
    formula = sympy.Lambda(parameters, sympy.Add(*terms))
    entries = [tensor[n] for tensor in (x, y) for n in range(size)]
    by = [rng.choice((*entries[:size], rng.choice(entries))) for _ in range(rng.randint(1, 3))]
    numbers = [Fraction(rng.randint(-4, 4), rng.randint(1, 3)) for _ in entries]
    values: dict[Any, Any] = {x: numbers[:size], y: numbers[size:]}

    scalar = IndexedSum(body, (i, 0, size - 1))
    written = diff(scalar, *by)
    symbols = dict(zip(entries, sympy.symbols(f"e:{len(entries)}"), strict=True))
    polynomial = sympy.Add(*(body.subs(i, n).replace(function, formula).xreplace(symbols) for n in range(size)))
    at = {symbols[entry]: sympy.Rational(*n.as_integer_ratio()) for entry, n in zip(entries, numbers, strict=True)}
    slope = sympy.diff(polynomial, *(symbols[entry] for entry in by)).xreplace(at)
    expected = Fraction(int(slope.p), int(slope.q))

    names: dict[str, Any] = {"Subs": Subs, "Derivative": sympy.Derivative, "f": function, "x": x, "y": y, "i": i}
    names |= {"IndexedSum": IndexedSum, "KroneckerDelta": sympy.KroneckerDelta, "Piecewise": sympy.Piecewise}
    names |= {symbol.name: symbol for symbol in sympy.symbols("xi_1:4")}
    named = {**values, function: formula}
    assert_equal(evaluate(written, named), expected, f"the derivative with respect to {by}")
    assert_equal(evaluate(written.subs(function, formula).doit(), values), expected, f"the substituted one by {by}")
    stepwise = sympy.diff(diff(scalar, *by[:-1]), by[-1]) if by[1:] else written
    assert_equal(evaluate(stepwise, named), expected, f"that of SymPy by {by}")
    assert_equal(
        evaluate(eval(str(written), names), named), expected, f"the text of the derivative with respect to {by}"
    )


def check_strides(seed: int) -> None:
    """Check the gradient of ``Sum_i (Sum_k x[a*i + b*k + c]*w[k] - z[i])**2`` by x and w, for coprime a and b.

    The sizes are numbers, or symbols that are tied or independent.

    Raises
    ------
    DerivativeMismatch
        A value differs from that of NumPy, tuple by tuple.
    VerificationError
        The loops take more steps than three for each tuple: an inner sum is computed again and again.
    """
    rng = random.Random(seed)
    a, b = rng.choice([(a, b) for a in range(1, 12) for b in range(1, 12) if gcd(a, b) == 1])
    rows, columns, offset = rng.randint(2, 12), rng.randint(2, 12), rng.choice((0, 0, 1, 5))
    length = a * (rows - 1) + b * (columns - 1) + 1 + offset
    i, k, n, m, p = indices("i k n m p")
    shapes = rng.choice(
        ((length, columns, rows), (a * (p - 1) + b * (m - 1) + 1 + offset, m, p), (n, m, p)),
    )
    x, w, z = (TensorSymbol(name, extent) for name, extent in zip("xwz", shapes, strict=True))
    residual = IndexedSum(x[a * i + b * k + offset] * w[k], (k, 0, shapes[1] - 1)) - z[i]
    by_both = gradient(IndexedSum(residual**2, (i, 0, shapes[2] - 1)), (x, w))

    steps = count(build_program([x, w, z], by_both), {"n": length, "m": columns, "p": rows}).iterations
    if steps > 3 * rows * columns:
        raise VerificationError(f"strides {a} and {b}, {shapes}: {steps} steps for {rows * columns} pairs of i and k")
    draw = np.random.default_rng(seed)
    values = [draw.integers(-4, 5, extent).astype(float) for extent in (length, columns, rows)]
    windows = a * np.arange(rows)[:, None] + b * np.arange(columns) + offset
    slopes = 2 * (values[0][windows] @ values[1] - values[2])
    expected = np.zeros(length)
    np.add.at(expected, windows, np.outer(slopes, values[1]))
    found = lambdify([x, w, z], by_both, "numpy")(*values)
    assert_equal(found[0], expected, f"strides {a} and {b}, {shapes}: the gradient by x", 1e-12)
    assert_equal(found[1], slopes @ values[0][windows], f"strides {a} and {b}, {shapes}: the gradient by w", 1e-12)
