"""Undefined functions of entries: read, differentiated, written in SymPy's own terms, read again."""

from __future__ import annotations

import copy
import pickle
from fractions import Fraction

import pytest
import sympy
from every import every
from exact_checks import assert_derivative_exact, assert_second_exact
from sympy import Derivative, Function, Lambda, Piecewise, Subs, Symbol

import sympy_tensordiff as td
from sympy_tensordiff.errors import ArgumentTypeError, UnsupportedError
from sympy_tensordiff.reference import differentiate, evaluate, hessian

i, j, k, p, q, n = td.indices("i j k p q n")
x, y, A = td.TensorSymbol("x", 5), td.TensorSymbol("y", 5), td.TensorSymbol("A", (3, 4))
a, u, v, w = (Symbol(name, real=True) for name in "auvw")
xi = Symbol("xi", real=True)
g, h, f3 = Function("g"), Function("h"), Function("f3")
CUBIC = {g: Lambda((u, v), u**3 * v + v**2 * u), h: Lambda(u, u**3 - u), f3: Lambda((u, v, w), u * v**2 * w**3)}


def total(body):
    return td.IndexedSum(body, (k, 0, 4))


BODIES = {
    "two entries": g(x[k], y[k]),
    "scaled and reversed": g(2 * x[k], x[4 - k]),
    "composed": g(h(x[k]) + k, a * y[k]),
    "the same twice": g(x[k], x[k]),
    "a product of calls": h(x[k]) * h(x[4 - k]),
    "three arguments": f3(x[k], y[k], x[k] * y[k]),
    "an index": g(k, x[k]),
    "a constant": g(2, x[k]),
    "in a choice": Piecewise((h(x[k]), x[k] > y[k]), (g(x[k], 2), True)),
    "in a condition": Piecewise((x[k], h(x[k]) > y[k]), (y[k] * x[k], True)),
    "of a sum": h(td.IndexedSum(x[j] * y[k], (j, 0, k))),
    "of a case": h(Piecewise((x[k], k < 3), (y[k], True))),
    "guarded": Piecewise((g(x[k + 1], x[k]), k < 4), (0, True)),
    "inside of a function": sympy.Max(h(x[k]), x[k]) + h(x[k]) ** 2,
    "of an entry of a comprehension": h(td.TensorComprehension(x[i] * x[4 - i], (i, 5))[k]),
}


@every("name", [*BODIES], turns=8)
def test_derivatives_are_exact(name):
    scalar = total(BODIES[name])
    for variable in (x, y):
        if scalar.has(variable):
            assert_derivative_exact(scalar, variable, values=CUBIC, backends=())
            assert_second_exact(scalar, variable, values=CUBIC, backends=())


def test_a_table_of_calls_of_sums():
    T = td.TensorComprehension(total(g(h(x[k] * y[i]), x[i])), (i, 5))
    for variable in (x, y):
        assert_derivative_exact(T, variable, values=CUBIC, backends=())
    assert_second_exact(T, x, values=CUBIC, backends=())


def test_forward_mode_has_the_same_rules():
    scalar, dx = total(g(2 * x[k], x[4 - k])), td.TensorSymbol("dx", 5)
    values = {x: [1, 2, Fraction(1, 2), -1, 3], dx: [1, 0, 2, -1, 1], **CUBIC}
    slope = differentiate(scalar, x, values)
    assert evaluate(td.jvp(scalar, x, dx), values) == sum(s * d for s, d in zip(slope, values[dx], strict=True))


@pytest.mark.parametrize(
    ("body", "by", "written"),
    [
        (h(x[k]), x, Derivative(h(x[p]), x[p])),
        (h(2 * x[k]), x, 2 * Subs(Derivative(h(xi), xi), xi, 2 * x[p])),
        (g(x[k], y[k]), x, Derivative(g(x[p], y[p]), x[p])),
    ],
)
def test_written_in_terms_of_sympy(body, by, written):
    assert td.gradient(total(body), by) == td.TensorComprehension(written, (p, 5))


def test_names_are_the_same_in_every_run():
    expression = total(g(2 * x[k], 3 * x[k]) * h(x[k] + xi))
    texts = {str(td.gradient(expression, x)) for _ in range(3)}
    assert len(texts) == 1
    assert "Dummy" not in sympy.srepr(td.gradient(expression, x))
    assert "xi_1_1" not in next(iter(texts))
    assert "Subs(Derivative(h(xi_1), xi_1), xi_1, xi + x[p])" in next(iter(texts)), "xi is a symbol of the user's"


@every("name", [*BODIES])
def test_substitution_and_doit_give_the_derivative(name):
    """The substitution is SymPy's: into Derivative and Subs, under our binders."""
    scalar = total(BODIES[name])
    real = {g: sympy.atan2, h: sympy.sinh, f3: sympy.Max}
    if scalar.has(f3):
        real[f3] = Lambda((u, v, w), u * v * sympy.sin(w))
    derived, direct = td.gradient(scalar, x), scalar
    for function, replacement in real.items():
        derived, direct = derived.replace(function, replacement).doit(), direct.replace(function, replacement)
    values = {x: [1, 2, Fraction(1, 2), 3, 4], y: [2, 1, 3, Fraction(5, 2), 1], a: 2}
    got, expected = evaluate(derived, values), differentiate(direct, x, values)
    assert max(abs(float(s) - float(t)) for s, t in zip(got, expected, strict=True)) < 1e-12


def test_subs_of_a_class():
    result = td.gradient(total(h(2 * x[k])), x).subs(h, sympy.sin).doit()
    assert result == td.TensorComprehension(2 * sympy.cos(2 * x[p]), (p, 5))


def test_results_are_good_citizens():
    result = td.hessian(total(g(2 * x[k], x[4 - k]) * h(y[k])), x)
    assert result.free_symbols == {x, y}
    assert result.func(*result.args) == result
    assert pickle.loads(pickle.dumps(result)) == result
    assert copy.copy(result) == result
    assert sympy.sympify(result.xreplace({x: y})).free_symbols == {y}
    moved = td.gradient(total(h(2 * x[k] * y[k])), x)[q].doit()
    assert moved == 2 * y[q] * Subs(Derivative(h(xi), xi), xi, 2 * x[q] * y[q])
    assert moved.subs(q, 3).free_symbols == {x, y}


def test_no_capture_under_a_binder():
    """An index that is put into a derivative under a sum over an index of its name."""
    inside = Derivative(h(x[p]), x[p])
    scalar = td.IndexedSum(inside * y[k], (k, 0, 4))
    moved = scalar.subs(p, k)
    (bound,) = moved.variables
    assert bound != k and moved.has(Derivative(h(x[k]), x[k])) and k in moved.free_symbols
    values = {x: [1, 2, 3, 4, 5], y: [1, 1, 1, 1, 1], k: 2, **CUBIC}
    assert evaluate(moved, values) == 5 * (3 * 9 - 1)


def test_the_notation_of_sympy_itself_is_read():
    """Dummies and several variables, as plain diff writes them where SymPy's own node is outermost."""
    outer = sympy.diff(g(2 * x[p], y[p]) * h(x[p]), x[p])
    values = {x: [1, 2, 3, 4, 5], y: [2, 2, 1, 1, 1], p: 1, **CUBIC}
    got = evaluate(td.gradient(outer, y), values)
    expected = hessian(g(2 * x[p], y[p]) * h(x[p]), x, values, second=y)[1]
    assert list(got) == list(expected)
    both = Subs(Derivative(g(u, v), u, v), (u, v), (x[0], 2 * x[0]))
    assert evaluate(td.gradient(both, x), values)[0] == differentiate(both, x, values)[0]
    counted = Subs(n * h(x[0]) * g(n, x[0]), n, p + 1)
    assert evaluate(td.gradient(counted, x), values)[0] == differentiate(2 * h(x[0]) * g(2, x[0]), x, values)[0]


def test_plain_diff_of_sympys_node_distinguishes_aliases():
    """SymPy writes Derivative(g(x[p], x[q]), x[p]) for the first partial; at p = q that would be another one."""
    result = g(x[p], x[q]).diff(x[p])
    assert result.has(Subs)
    values = {x: [1, 2, 3, 4, 5], p: 1, q: 1, **CUBIC}
    assert evaluate(result, values) == differentiate(g(x[p], x[q]), x, values)[1]
    assert evaluate(g(x[p], 2 * x[p]).diff(x[p]), values) == differentiate(g(x[p], 2 * x[p]), x, values)[1]
    moved = Subs(Derivative(g(u, x[q]), u), u, x[p])
    assert moved.doit() == moved
    renamed = Derivative(g(y[p], x[q]), y[p]).subs(y[p], x[p])
    assert evaluate(renamed, values) == evaluate(moved, values)


def test_plain_diff_twice():
    scalar = total(g(x[k], x[4 - k]))
    twice = sympy.diff(scalar, x[p], x[q])
    values = {x: [1, 2, Fraction(1, 2), -1, 3], **CUBIC}
    expected = hessian(scalar, x, values)
    for row in range(5):
        for column in range(5):
            assert evaluate(twice, {**values, p: row, q: column}) == expected[row, column]


def test_latex_and_text():
    result = td.gradient(total(h(2 * x[k]) + g(x[k], y[k])), x).body
    assert r"\frac{\partial}{\partial x_{p}} g{\left(x_{p},y_{p} \right)}" in sympy.latex(result)
    assert r"\left. \frac{d}{d \xi} h{\left(\xi \right)} \right|_{\substack{ \xi=2 x_{p} }}" in sympy.latex(result)
    assert "Subs(Derivative(h(xi), xi), xi, 2*x[p])" in str(result)
    assert "xi=2" in sympy.pretty(result, use_unicode=False).replace(" ", "")


x9 = Derivative(g(x[0], x[q]), x[0])


@every(
    "expression, message",
    [
        (x9, r"x\[0\]\) cannot be read as the derivative .*evaluate it first, with .doit\(\)"),
        (Derivative(g(2 * a, u), a), "cannot be read as the derivative of one function"),
        (Derivative(sympy.sin(a), a), "cannot be read"),
        (Derivative(sympy.Abs(a), a), "cannot be read"),
        (Derivative(a * h(a), a), "cannot be read"),
        (Derivative(h(n), n), "cannot be read"),
        (Function("g", imaginary=True)(x[0]), "the function g is not real"),
        (Function("g", commutative=False)(x[0]), "the function g is not real"),
        (g(), r"g\(\) has no arguments, so it is a constant"),
        (h(x[0] > 1), "StrictGreaterThan is not supported"),
    ],
)
def test_what_is_refused(expression, message):
    with pytest.raises(UnsupportedError, match=message):
        td.gradient(expression, x)


def test_the_reference_interpreter_wants_formulas():
    with pytest.raises(ArgumentTypeError, match=r"function h must be a sympy\.Lambda"):
        evaluate(h(x[0]), {x: range(5), h: sympy.sin})
    with pytest.raises(UnsupportedError, match="no value for h"):
        evaluate(h(x[0]), {x: range(5)})
    with pytest.raises(UnsupportedError, match="cannot tell the argument"):
        evaluate(Derivative(h(2 * a), a), {a: 1, **CUBIC})
