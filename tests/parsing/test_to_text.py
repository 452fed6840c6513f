"""Expressions written in the text language: read back they are the same, and NumPy reads the same values."""

import random
from itertools import permutations

import numpy as np
import pytest
import sympy
from evaluator import arrays, computed, value
from every import every
from inputs import DECLARED as ORDERS
from inputs import Inputs

import sympy_tensordiff as td
from sympy_tensordiff.errors import ArgumentError, ParseError, UnsupportedError
from sympy_tensordiff.functions.table import readable_functions
from sympy_tensordiff.parsing.axes import MAX_INPUT

n, m, k = td.indices("n m k")
a, b = (td.TensorSymbol(name, ()) for name in "ab")
x, y = (td.TensorSymbol(name, n) for name in "xy")
A, B, X = td.TensorSymbol("A", (m, n)), td.TensorSymbol("B", (m, n)), td.TensorSymbol("X", (n, n))
T = td.TensorSymbol("T", (n, n, n))
HERE = {"a": a, "b": b, "x": x, "y": y, "A": A, "B": B, "X": X, "T": T}


DECLARATIONS = " ".join(f"{name} {order}" for name, order in {**ORDERS, "X": 2}.items())


def parsed(text, declarations=DECLARATIONS):
    return td.parse(f"declare {declarations} expression {text} derivative wrt a")


def check_value(expr, low=0.2):
    """The text, by NumPy alone and read back, has the value of the expression."""
    values = arrays(HERE, low=low)
    expected = computed(expr, HERE, values)
    by_numpy = value(td.to_text(expr), values, 2)
    again = parsed(td.to_text(expr))
    assert len(getattr(again.expression, "shape", ())) == len(getattr(expr, "shape", ()))
    np.testing.assert_allclose(np.broadcast_to(by_numpy, np.shape(expected)), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(computed(again.expression, again.tensors, values), expected, rtol=1e-9, atol=1e-12)


def same(first, second, tensors):
    """Return whether two expressions are equal, whatever the sizes are called that no tensor fixes."""
    if first == second:
        return True
    fixed = {symbol for tensor in tensors.values() for extent in tensor.shape for symbol in extent.free_symbols}
    old, new = (sorted((s for s in e.atoms(sympy.Symbol) - fixed if s.is_integer), key=str) for e in (first, second))
    if len(old) != len(new) or len(old) > 5:
        return False
    return any(first.xreplace(dict(zip(old, names, strict=True))) == second for names in permutations(new))


# ---------------------------------------------------------------------------- the shortest text

TEXTS = [
    "-a ^ 2",
    "(-x) ^ 2",
    "a - b",
    "x - (y - 1)",
    "x - y - 1",
    "-x + 0.5 + 2",
    "2 - x",
    "-1 *(,->) det(X) / x",
    "x - y / 2",
    "0.75 *(,i->i) x - y / 2",
    "-x",
    "-(x + y)",
    "x ^ 2 ^ a",
    "x ^ (a + 1)",
    "x ^ (-2)",
    "x ^ 0.5",
    "x ^ (1 / 3)",
    "x ^ (-1 / 3)",
    "1 / x",
    "x / y",
    "x / (y / x)",
    "x / a",
    "x / 3",
    "2 *(,i->i) x / 3",
    "2 / x",
    "a / b",
    "-2 *(,ij->ij) A",
    "-A *(ij,ij->ij) B",
    "-(A *(ij,ij->ij) B)",
    "A *(ij,ij->ij) B *(ij,ij->ij) B",
    "A *(ij,ij->ij) (B *(ij,ij->ij) B)",
    "a *(,ij->ij) A",
    "A *(ij,j->i) x",
    "A *(pq,q->p) x *(i,i->) y",
    "A *(ij,jk->ik) (B *(ij,jk->ik) A)",
    "(ij->ji) A",
    "(ij->ji) (A + B)",
    "A *(ij,->ji) 2",
    "A + delta(1)",
    "delta(2)",
    "delta(1) *(ij,j->i) x",
    "x *(i,j->ij) 1",
    "3 *(ij,ij->ij) 1",
    "a *(i,i->i) 1",
    "x *(i,j->ij) (a + 1)",
    "exp(1) + arccos(-1) + sin(A)",
    "relu(x) - abs(y)",
    "sqrt(x) + erf(y)",
    "minimum(0.5, a) *(,i->i) maximum(y, x, 0)",
    "where(greater(x, 0), sqrt(x), y)",
    "where(less(a, 0.5), greater_equal(a, b), -1)",
    "logaddexp(x, y) / entr(x)",
    "log(det(A)) *(,ij->ij) inv(A)",
    "(ij->ji) adj(A)",
    "2 ^ 0.5 *(,i->i) x",
    "A *(ij,i->ij) tanh(A *(ij,j->i) x)",
    "T + x *(i,jk->ijk) A",
]


@every("text", TEXTS)
def test_the_text_of_what_a_text_says_is_the_text(text):
    assert td.to_text(parsed(text).expression) == text
    assert td.to_text(parsed(text)) == f"declare {DECLARATIONS} expression {text} derivative wrt a"


def test_a_whole_input_keeps_its_declarations_and_arguments():
    text = "declare x 1 A 2 c 0 expression A *(ij,j->i) x derivative wrt x derivative wrt A"
    assert td.to_text(td.parse(text)) == text


RECORDS = {record.name: record.operands for record in readable_functions().values()}


@every("name", [*RECORDS])
def test_every_function_of_the_table_is_read_and_written(name):
    """As index notation and matrix formulas, of tensors and of scalars; the text is read back as the same."""
    least, most = RECORDS[name]
    counts = {max(least, 2)} if most > 3 else {least, most}
    for count in counts:
        for operands, form in (("A B A", "(ij->ji) {}"), ("a b a", "{} *(,i->i) x"), ("x a y", "{}")):
            call = f"{name}({', '.join(operands.split()[:count])})"
            first = parsed(form.format(call)).expression
            assert parsed(td.to_text(first)).expression == first
        call = f"{name}({', '.join('aba'[:count])})"
        assert td.parse(f"declare a, b  s = {call}").expression == parsed(call).expression


# ---------------------------------------------------------------------------- what the language composes

COMPOSED = {
    "einsum of three": td.einsum("ij,jk,k->i", A, X, x),
    "einsum of four": td.einsum("i,,jk,ik->j", x, sympy.Rational(3, 4), X, X),
    "einsum with a diagonal": td.einsum("iij,jk->ki", T, X),
    "capital letters": td.einsum("IJ,Jj->Ij", A, X),
    "labels in another order": td.einsum("ij->ji", td.einsum("ab,b->ba", A, x)),
    "a sum of everything": td.sum(A),
    "transposed": A.T @ B,
    "trace": td.trace(X),
    "diagonal": td.diag(x),
    "filled": td.einsum("ij,j->i", A, td.ones(n)),
    "filled alone": td.FilledTensor(-3, (n, m)),
    "filled with an expression": td.FilledTensor(a + b, n),
    "filled and filled": td.einsum("i,j->ij", td.FilledTensor(2, n), td.FilledTensor(3, m)),
    "delta of rank 0": td.DeltaTensor(()) + a,
    "determinant of a sum": td.det(td.ones((n, n)) + X) * x,
    "cofactor 0": td.TensorCofactor(0, X),
    "cofactor 1": td.TensorCofactor(1, X),
    "softmax": td.softmax(x),
    "softmax of rows": td.softmax(A, axis=1),
    "log-sum-exp": td.logsumexp(A, axis=0),
    "norm": td.norm(A),
    "a third": x / 3 + sympy.Rational(-2, 7) * y,
    "decimals": sympy.Rational(3, 8) * x - sympy.Rational(1, 40),
    "small": x + sympy.Rational(1, 2**30),
    "floats": x * sympy.Float(0.1) - sympy.Float(2.5e-7) + sympy.Float(1e22) * a / 10**22,
    "pi": sympy.pi * x + sympy.E,
    "roots": td.sqrt(x) + sympy.sqrt(2) / sympy.sqrt(a + 1),
    "scalar powers": a ** (-b) + sympy.Rational(1, 3) ** (-a) - 2 / a**3,
    "scalar sums": -(a + b) * (a - 2 * b) / 3,
    "maximum with a number": td.maximum(x, sympy.S.Half) + td.minimum(y, sympy.S.Half) - td.minimum(x, 0),
    "sigmoid": td.elementwise(lambda t: t**2 / (1 + sympy.exp(-t)), x) + td.sigmoid(x - y) - td.softplus(3 * x),
    "sigmoid of opposites": td.sigmoid(-(x + y)) - td.softplus(-x * y) / td.sigmoid(-3 * x) + td.sigmoid(-a / 3),
    "hyperbolic": td.sinh(x) + td.cosh(x) - td.asinh(x) + td.atanh(x) * td.acosh(x + 1),
    "quotients of sines": td.elementwise(lambda s, t: sympy.sec(s) + sympy.csc(s) - sympy.cot(t) * sympy.coth(t), x, y),
    "quotients of hyperbolic functions": td.elementwise(lambda s: sympy.sech(s) - sympy.csch(s), x),
    "steps": td.elementwise(lambda t: sympy.Piecewise((1, t > 0.5), (0, True)), x),
    "a case of sines": td.elementwise(lambda s, t: sympy.Piecewise((t, s > t), (s, True)), x, td.cos(y)),
    "other steps": td.elementwise(lambda s, t: sympy.Piecewise((2, s <= t), (-1, True)), x, y),
    "error function and floor": td.erf(x) + td.floor(3 * a),
    "two operands": td.elementwise(sympy.atan2, x, y) - td.hypot(x, a) * td.xlogy(x, y),
    "maximum of two": td.maximum(x, y) + td.minimum(y, a, x),
    "two conditions": td.elementwise(lambda s, t: sympy.Piecewise((s, (t > 0.5) & (s > 0.4)), (t, True)), x, y),
    "three cases": td.elementwise(lambda s, t: sympy.Piecewise((s, t > 0.6), (2, s >= 0.5), (t, True)), x, y),
    "a choice of a logarithm": td.where(td.greater(x, y), td.log(x), 0),
    "a derivative at a kink": td.gradient(td.sum(td.sqrt(td.abs(x))), x),
    "a case that divides": sympy.Piecewise((1 / a, a > 0), (0, True)) * x,
    "a constant function": td.elementwise(sympy.Lambda(sympy.Symbol("t"), sympy.Integer(2)), x),
    "index notation": td.IndexedSum(x[k] * y[k], (k, 0, n - 1)),
    "a comprehension": td.TensorComprehension(x[k] * sympy.exp(y[k]), (k, n)),
}  # fmt: skip


@every("name", [*COMPOSED], turns=8)
def test_other_expressions_have_the_value_of_their_text(name):
    check_value(COMPOSED[name])


# ---------------------------------------------------------------------------- refusals

f = sympy.Function("f")
WIDE = [td.TensorSymbol(f"W{number}", (n,) * 14) for number in (1, 2)]
REFUSED = {
    "gamma": (td.elementwise(sympy.gamma, x), "it has no function gamma; its functions are sin, cos"),
    "user function": (td.elementwise(f, x), "it has no function f; its functions are"),
    "no last case": (sympy.Piecewise((a, a > 0), (b, b > 1)), "it has no value where no condition holds; add a last"),
    "exclusive or": (sympy.Piecewise((a, sympy.Xor(a > 0, b > 0)), (b, True)), "there is no Xor in it"),
    "exponent with axes": (x**y, "an exponent of the language has order 0; write td.exp"),
    "number to the power of a tensor": (2**x, "an exponent of the language has order 0"),
    "size": (td.mean(x), "it is an integer, a size or an index, and these are not numbers"),
    "size in a sum": (x + n, "n has no text in the text language of td.parse: it is an integer"),
    "derivative of adj": (td.TensorCofactor(2, X), "it has no derivatives of adj; write the adjugate of an invertible"),
    "entry": (x[0] * a, "it reads single entries or a part of an axis, and the language has whole tensors only"),
    "part of an axis": (td.IndexedSum(x[k] ** 2, (k, 1, n - 1)), "it reads single entries or a part of an axis"),
    "product over a range": (td.IndexedProduct(x[k], (k, 0, n - 1)), "there is no IndexedProduct in it"),
    "unevaluated": (sympy.Derivative(f(a), a), "there is no Derivative in it; write it with sums, products"),
    "euler": (sympy.EulerGamma * x, "the language has rational numbers, and what functions make of them"),
    "infinite": (sympy.oo, "it is not a finite real number; tensors are real"),
    "without a direction": (sympy.zoo, "zoo has no text in the text language of td.parse: it is not a finite real"),
    "imaginary": (2 * sympy.I + a, "it is not a finite real number; tensors are real"),
    "long number": (10**309 * x, "a number has more than 308 digits, which no floating-point number holds"),
    "letters of a product": (td.outer(*WIDE), "28 axes need more than the 26 letters a-z of the text language"),
    "axes of a delta": (td.DeltaTensor((n,) * 14), "28 axes need more than the 26 letters"),
    "a number that no double holds": (
        td.FilledTensor(sympy.exp(1000), n),
        r"td.parse would not read the text: exp\(1000\) is not a finite real number in the range of a double",
    ),
    "a length of nothing": (td.sum(td.ones(5)), "the extent 5 of a repeated number or delta is summed over"),
    "a length twice": (td.sum(td.ones(k)) * td.det(td.DeltaTensor(k)), "the extent k of a repeated number"),
    "a length in a length": (td.sum(td.ones(2 * n)) * a + td.sum(x), "the extent 2.n of a repeated number"),
}  # fmt: skip


@every("name", [*REFUSED])
def test_what_the_language_cannot_say_is_refused_by_name(name):
    expr, message = REFUSED[name]
    with pytest.raises(UnsupportedError, match=f"^to_text: .*{message}"):
        td.to_text(expr)


@every("name", ["x_1", "sin", "delta", "wrt", "lambda"])
def test_names_that_the_language_does_not_have_are_refused(name):
    with pytest.raises(
        ArgumentError, match=f"'{name}' is not a name of the text language: names are letters and digits"
    ):
        td.to_text(sympy.Symbol(name, real=True) * x)


def test_two_things_of_one_name_are_refused():
    with pytest.raises(ArgumentError, match=r"x names two things, of the shapes \(n,\) and \(m,\), so that the text"):
        td.to_text(td.einsum("i,j->", x, td.TensorSymbol("x", m)))


def test_the_text_of_what_is_shared_too_often_is_refused_at_once():
    expr = x
    for _ in range(200):
        expr = expr * expr + 1
    with pytest.raises(UnsupportedError, match=f"longer than {MAX_INPUT:,} characters, the most that td.parse reads"):
        td.to_text(expr)


# ---------------------------------------------------------------------------- extents that nothing fixes


def test_a_sum_over_a_length_that_no_tensor_gives_it_is_refused():
    refusal = r"the extent [nm] of a repeated number or delta is summed over, .* write the sum as a number"
    for expr in (td.sum(td.ones(n)) * td.sum(x), td.trace(td.DeltaTensor(m)) * A, td.det(td.ones((n, n))) * x):
        with pytest.raises(UnsupportedError, match=refusal):
            td.to_text(expr)
    with pytest.raises(UnsupportedError, match=refusal):
        td.to_text(td.parse("declare x 1 y 1 expression (x *(i,->i) 0 + 2) *(i,j->j) y derivative wrt y"))
    assert td.to_text(td.einsum("i,j->j", td.ones(n), td.TensorSymbol("w", m))) == "1 *(i,j->j) w"


VANISHED = {
    "x *(i,i->) x + y *(i,i->) y + 0 *(,->) (x *(i,i->) y)": "axis 0 of x and axis 0 of y",
    "x + 0 *(,i->i) y": "axis 0 of x and axis 0 of y",
    "x + y *(i,->i) 0": "axis 0 of x and axis 0 of y",
    "x *(i,->i) 0 + 1": "axis 0 of x and axis 0 of the expression",
    "exp(0 *(,i->i) x)": "axis 0 of x and axis 0 of the expression",
    "(ij->ji) (0 *(,ij->ij) A) + 2": "axis 1 of A and axis 0 of the expression",
    "x *(i,i->i) y + 0 *(,j->j) (A *(ij,i->j) x)": "axis 0 of x and axis 0 of A",
    "x *(i,ij->j) (A *(ij,->ij) 0)": "axis 0 of x and axis 0 of A",
}


@every("text", [*VANISHED])
def test_a_size_that_only_a_vanished_term_gives_is_refused(text):
    declarations = "".join(f"{name} {order} " for name, order in (("x", 1), ("y", 1), ("A", 2)) if name in text)
    first = td.parse(f"declare {declarations}expression {text} derivative wrt {declarations[0]}")
    with pytest.raises(UnsupportedError, match=f"whether {VANISHED[text]} are equally long: a term .* has vanished"):
        td.to_text(first)


def test_terms_that_stay_keep_the_sizes():
    for text in ("x - x + y *(i,i->) (x - z)", "x *(i,i->) x + (x - y) *(i,i->) (x - x) + z *(i,->) 0", "0"):
        first = td.parse(f"declare x 1 y 1 z 1 expression {text} derivative wrt x")
        assert td.parse(td.to_text(first)) == first


# ---------------------------------------------------------------------------- random texts

NUMBERS = ("2", "3", "0.5", "1", "7", "1.25", "(1/3)", "10", "0", "1e-3", "(2^0.5)")
EXPONENTS = ("2", "3", "0.5", "(-1)", "(-2)", "a", "(1/3)", "(a+1)", "(-a)")
INPUTS = 120
DERIVATIVES = 25


def random_text(seed, size=8):
    """An expression of a random order."""
    inputs = Inputs(seed, exponents=EXPONENTS, numbers=NUMBERS)
    return inputs.expression(inputs.random.choice((0, 0, 1, 1, 2, 2, 3)), size)


@pytest.mark.in_turns(4)
def test_random_texts_are_read_back_as_the_same_expression():
    read = 0
    for seed in range(INPUTS):
        try:
            first = parsed(random_text(seed))
        except ParseError:
            continue  # such as 1/0
        try:
            again = td.parse(td.to_text(first))
        except UnsupportedError as error:
            assert "the text " in str(error), seed
            continue
        assert same(first.expression, again.expression, first.tensors), seed
        read += 1
    assert read > 0.9 * INPUTS


def test_random_texts_have_the_value_of_what_they_are_written_as():
    compared = 0
    for seed in range(INPUTS, 2 * INPUTS):
        text = random_text(seed)
        try:
            written = td.to_text(parsed(text).expression)
        except ParseError:
            continue
        values = arrays(HERE, seed=seed)
        with np.errstate(all="ignore"):
            expected, found = value(text, values, 2), value(written, values, 2)
        if np.all(np.isfinite(expected)) and np.max(np.abs(expected), initial=0) < 1e8:
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8, err_msg=str(seed))
            compared += 1
    assert compared > 0.4 * INPUTS


@pytest.mark.in_turns(4)
def test_derivatives_of_random_texts_have_the_value_of_their_text():
    compared = 0
    for seed in range(DERIVATIVES):
        rng = random.Random(seed)
        text = random_text(seed, 3)
        name = rng.choice([name for name in ORDERS if name in text.replace("(", " ")] or ["x"])
        try:
            derivative = td.parse(f"declare {DECLARATIONS} expression {text} derivative wrt {name}").derivative()
            written = td.to_text(derivative)
        except (ParseError, UnsupportedError):
            continue
        tensors = td.parse(f"declare {DECLARATIONS} expression {text} derivative wrt {name}").tensors
        values = arrays(tensors, seed=seed)
        with np.errstate(all="ignore"):
            expected = computed(derivative, tensors, values)
            again = parsed(written)
            found = computed(again.expression, again.tensors, values)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9, err_msg=str(seed))
        compared += 1
    assert compared > 0.6 * DERIVATIVES
