"""Indices are read as affine forms with floors and remainders, shown in one form, and refused if no integers."""

import pytest
import sympy
from every import every
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import Mod, Rational, Symbol, ceiling, floor, frac

from sympy_tensordiff.errors import IndexExpressionError
from sympy_tensordiff.reference import evaluate
from sympy_tensordiff.symbolic import TensorSymbol
from sympy_tensordiff.symbolic.index_notation.indices import indices, to_affine

i, j, k, n, p = indices("i j k n p")
x = TensorSymbol("x", n)
real = Symbol("r", integer=False)


@every(
    "expr, shown",
    [
        (i, "i"),
        (sympy.Integer(4), "4"),
        (7, "7"),
        (2 * i - 3 * j + 1, "2*i - 3*j + 1"),
        (-(i + j), "-i - j"),
        (sympy.Mul(2, i + j, evaluate=False), "2*i + 2*j"),
        (floor((p + 1) / 2), "floor((p + 1)/2)"),
        (ceiling(p / 2), "floor((p + 1)/2)"),
        (floor(p + Rational(1, 2)), "p"),
        (floor((3 * p + 4) / 6), "floor((p + 1)/2)"),
        (Mod(p, 3), "p - 3*floor(p/3)"),
        (Mod(p, 1), "0"),
        (Mod(2 * p, 4), "2*p - 4*floor(p/2)"),
        (2 * Mod(p / 2, 3), "p - 6*floor(p/6)"),
        (3 * frac(p / 3), "p - 3*floor(p/3)"),
        ((p - Mod(p, 3)) / 3, "floor(p/3)"),
        ((p + Mod(p, 2)) / 2, "p - floor(p/2)"),
        ((p - Mod(p, n)) / n, "floor((p)/(n))"),
        (ceiling(p / 2 - Rational(1, 3)), "floor((p + 1)/2)"),
        (p // -2, "-floor((p + 1)/2)"),
        (floor(floor(p / 2) / 3 + i), "i + floor(p/6)"),
        (2 * floor(p / 2) + p // 4, "2*floor(p/2) + floor(p/4)"),
        (sympy.Add(i, -i, 2, evaluate=False), "2"),
    ],
)
def test_forms(expr, shown):
    assert repr(to_affine(expr, str)) == shown


@every(
    "expr, message",
    [
        (2**i, r"2\*\*i is a power"),
        (sympy.sqrt(2), r"sqrt\(2\) is a power"),
        (i / 2, r"i/2 is not an integer .* floor\(i/2\)"),
        (i / 2 + j / 3, r"is not an integer for all values"),
        (Rational(1, 2), "1/2 is not an integer"),
        (real, r"r is declared not to be an integer: use td.indices\('r'\) or Symbol\('r', integer=True\)"),
        (i * real, "r is declared not to be an integer"),
        (floor(real), "r is declared not to be an integer"),
        (Symbol("t", imaginary=True) + i, "t is declared not to be an integer"),
        (sympy.Float(1.5), "1.5.* is a float"),
        (i + 2.0, "2.0.* is a float"),
        (2.0 * i, "2.0.* is a float"),
        (x[i], r"x\[i\] is data of a tensor, but no entry of one of integers: .* use such entries"),
        (2 * x[i + 1] + i, r"x\[i \+ 1\] is data of a tensor"),
        (sympy.IndexedBase("c")[i], r"c\[i\] is data of a tensor"),
        (Mod(i, n / 2), r"Mod\(i, n/2\) is not an integer for all values"),
        (Mod(i, -3), r"the modulus of Mod\(i, -3\) must be positive, not -3"),
        (Mod(i, 0, evaluate=False), r"the modulus of Mod\(i, 0\) must be positive, not 0"),
        (Mod(i / 2, 3), r"Mod\(i/2, 3\) is not an integer for all values .* floor\(Mod\(i/2, 3\)\)"),
        (frac(i / 2), r"frac\(i/2\) is not an integer for all values"),
        (frac(i / n), r"frac\(i/n\) \(frac\) is not an index"),
        (i / n, r"i/n is not an integer for all values .* floor\(i/n\)"),
        (i * (i + 1) / 2, r"is not an integer for all values"),
        (floor(i / 2 + x[i]), r"x\[i\] is data of a tensor"),
        (floor(sympy.sqrt(i)), r"sqrt\(i\) is a power"),
        (floor(i / sympy.pi), r"pi \(Pi\) is not an index"),
        (floor(i * sympy.zoo), "zoo .* is not an index"),
        (sympy.Max(i, 2) / 2, r"Max\(2, i\)/2 is not an integer for all values .*round it"),
        (sympy.Max(i, real), "r is declared not to be an integer"),
        (
            sympy.sign(i),
            r"sign\(i\) \(sign\) is not an index: .*floor, ceiling and Mod by a number, and of Max, Min and Abs",
        ),
        (sympy.oo, "oo .* is not an index"),
        (sympy.I, "I .* is not an index"),
        (i > 2, "i > 2 is not an index"),
        (sympy.true, "True is not an index"),
    ],
)
def test_refusals_name_the_culprit_and_the_way_out(expr, message):
    with pytest.raises(IndexExpressionError, match=message):
        to_affine(expr, str)
    with pytest.raises(IndexExpressionError, match=message):
        x[expr]


@every(
    "expr, message",
    [
        (i * j, r"i\*j multiplies indices .* integer combination"),
        (2 * i * j + 1, r"2\*i\*j \+ 1 multiplies indices"),
        (i * n, r"i\*n multiplies indices or sizes"),
        (i * j + 2 * k, r"i\*j \+ 2\*k multiplies indices .* x\[M\*i \+ j\]"),
        (i * j + i, r"i\*j \+ i multiplies indices"),
        (i**2, r"i\*\*2 multiplies indices"),
        (n * (i + 2), r"multiplies indices or sizes"),
    ],
)
def test_a_symbolic_stride_needs_an_index_with_the_coefficient_1(expr, message):
    assert to_affine(expr, str).compounds()
    with pytest.raises(IndexExpressionError, match=message):
        x[expr]
    assert x[expr + Symbol("l", integer=True)] is not None


terms = st.lists(st.tuples(st.integers(-6, 6), st.integers(1, 4), st.sampled_from([i, j, k])), max_size=3)


@settings(deadline=None)
@given(terms, st.integers(-20, 20), st.integers(1, 6), st.tuples(*[st.integers(-9, 9)] * 3))
def test_value_agrees_with_sympys_reading(parts, constant, divisor, point):
    inside = sum(c * symbol for c, _, symbol in parts) + constant
    outside = sum(c * floor(symbol / d) for c, d, symbol in parts)
    values = dict(zip((i, j, k), point, strict=True))
    named = {symbol.name: value for symbol, value in values.items()}
    for expr in (inside, floor(inside / divisor), ceiling(inside / divisor) + outside, Mod(inside, divisor)):
        expr = sympy.sympify(expr)
        assert to_affine(expr, str).evaluate(named) == evaluate(expr, values)
