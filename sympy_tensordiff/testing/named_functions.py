"""Random sums of named functions whose arguments are often equal, against polynomials in their place."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import sympy

from sympy_tensordiff.derivative.native import diff
from sympy_tensordiff.reference import evaluate
from sympy_tensordiff.symbolic.indices import indices
from sympy_tensordiff.symbolic.partial_derivatives import Subs
from sympy_tensordiff.symbolic.sums import IndexedSum
from sympy_tensordiff.symbolic.tensors import TensorSymbol
from sympy_tensordiff.testing.exact import assert_equal

_SIZE = 3


def check_named_functions(seed: int) -> None:
    """Check one derivative of order 1 to 3: its value, after substitution, differentiated by SymPy, and its text.

    Raises
    ------
    DerivativeMismatch
        One of them differs from the derivative of the polynomial, which no part of the package computes.
    """
    rng = random.Random(seed)
    i = indices("i")
    x, y = (TensorSymbol(name, _SIZE) for name in "xy")
    function, count = sympy.Function("f"), rng.choice((2, 2, 3))
    pool = (x[i], x[i], 2 * x[i], x[_SIZE - 1 - i], x[i] * y[i], x[0], y[i])
    args = [rng.choice(pool)]
    while len(args) < count:
        args.append(rng.choice((args[0], args[0], rng.choice(pool))))
    body = function(*args) ** rng.choice((1, 1, 2)) * rng.choice((1, 1, y[i], function(*reversed(args))))
    parameters = sympy.symbols(f"t:{count}")
    terms = [sympy.Mul(rng.randint(1, 3), *(t ** rng.randint(0, 2) for t in parameters)) for _ in range(2)]
    formula = sympy.Lambda(parameters, sympy.Add(*terms))
    entries = [tensor[n] for tensor in (x, y) for n in range(_SIZE)]
    by = [rng.choice((*entries[:_SIZE], rng.choice(entries))) for _ in range(rng.randint(1, 3))]
    numbers = [Fraction(rng.randint(-4, 4), rng.randint(1, 3)) for _ in entries]
    values: dict[Any, Any] = {x: numbers[:_SIZE], y: numbers[_SIZE:]}

    scalar = IndexedSum(body, (i, 0, _SIZE - 1))
    written = diff(scalar, *by)
    symbols = dict(zip(entries, sympy.symbols(f"e:{len(entries)}"), strict=True))
    polynomial = sympy.Add(*(body.subs(i, n).replace(function, formula).xreplace(symbols) for n in range(_SIZE)))
    at = {symbols[entry]: sympy.Rational(*n.as_integer_ratio()) for entry, n in zip(entries, numbers, strict=True)}
    slope = sympy.diff(polynomial, *(symbols[entry] for entry in by)).xreplace(at)
    expected = Fraction(int(slope.p), int(slope.q))

    names: dict[str, Any] = {"Subs": Subs, "Derivative": sympy.Derivative, "f": function, "x": x, "y": y, "i": i}
    names |= {"IndexedSum": IndexedSum, "KroneckerDelta": sympy.KroneckerDelta, "Piecewise": sympy.Piecewise}
    names |= {symbol.name: symbol for symbol in sympy.symbols("xi_1:4")}
    named = {**values, function: formula}
    assert_equal(evaluate(written, named), expected, f"the derivative by {by}")
    assert_equal(evaluate(written.subs(function, formula).doit(), values), expected, f"the substituted one by {by}")
    stepwise = sympy.diff(diff(scalar, *by[:-1]), by[-1]) if by[1:] else written
    assert_equal(evaluate(stepwise, named), expected, f"that of SymPy by {by}")
    assert_equal(evaluate(eval(str(written), names), named), expected, f"the text of the derivative by {by}")
