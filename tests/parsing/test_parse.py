"""The text language: precedence and associativity, axes, numbers, and every error with its place."""

import copy
import pickle

import pytest
import sympy
from every import every

import sympy_tensordiff as td
from sympy_tensordiff.errors import ArgumentTypeError, ParseError, TensorDiffError
from sympy_tensordiff.parsing.axes import MATRIX_FUNCTIONS
from sympy_tensordiff.parsing.numbers import FUNCTIONS

pytestmark = pytest.mark.quick

DECLARED = "a 0 b 0 c 0 x 1 y 1 A 2 B 2"
n, m = td.indices("n m")
a, b, c = (td.TensorSymbol(name, ()) for name in "abc")
x, y = (td.TensorSymbol(name, n) for name in "xy")


def expression(text, declared=DECLARED):
    return td.parse(f"declare {declared} expression {text} derivative wrt a").expression


# ---------------------------------------------------------------------------- precedence

SCALARS = {
    "-a^2": -(a**2),
    "a^b^c": (a**b) ** c,
    "a-b-c": (a - b) - c,
    "a-(b-c)": a - (b - c),
    "a/b/c": (a / b) / c,
    "a/(b/c)": a / (b / c),
    "--a": a,
    "---a": -a,
    "a--b": a + b,
    "a*(,->)b/c": a * b / c,
    "a/b*(,->)c": a / b * c,
    "-a*(,->)b": -a * b,
    "-a+b": b - a,
    "a^(-1)": 1 / a,
    "-a^b*(,->)c": -(a**b) * c,
    "a*(,->)-b": -a * b,
    "a/-b^2": -a / b**2,
    "a*(,->)b^c": a * b**c,
    "a+b*(,->)c": a + b * c,
    "a-b/c": a - b / c,
    "sin(a)^2": sympy.sin(a) ** 2,
    "-sin(a)^2": -(sympy.sin(a) ** 2),
    "arcsin(a)+relu(b)": sympy.asin(a) + sympy.Max(b, 0),
    "(->)a": a,
    "*_(->)-a^2": -(a**2),
    "a * ( , -> ) b": a * b,
    "a *_(,->) b": a * b,
    "delta(0)*(,->)a": a,
    "2*(,->)a - 1/3": 2 * a - sympy.Rational(1, 3),
}


@every("text", [*SCALARS])
def test_scalars_are_those_of_sympy(text):
    assert expression(text) == SCALARS[text]


def test_operands_without_axes_fill_the_letters_that_no_tensor_has():
    A = td.TensorSymbol("A", (n, m))
    k = td.indices("l")
    assert expression("2*(ki,ij->kj)A", "a 0 A 2") == td.einsum("k,ij->kj", td.FilledTensor(2, k), A)
    assert expression("2*(i,j->ij)a", "a 0") == td.FilledTensor(2 * a, (n, m))
    assert expression("2*(i,j->j)a", "a 0") == td.einsum("ij->j", td.FilledTensor(2 * a, (n, m)))
    assert expression("(ii->)a", "a 0") == td.einsum("i->", td.FilledTensor(a, n))
    assert expression("det(2)", "a 0") == td.det(td.FilledTensor(2, (n, n)))


# ---------------------------------------------------------------------------- axes


# ---------------------------------------------------------------------------- numbers


@every("text", ["2", "0.5", "2.", ".5", "1e-3", "1E3", "1.25e+2", "007", "0e999999999", "0.0"])
def test_numbers_are_exact(text):
    value = expression(text)
    assert value.is_Rational and (value == 0 if text.startswith("0e") else value == sympy.Rational(text))


def test_constants_are_computed_exactly():
    assert expression("0.1 + 0.2 - 0.3") == 0
    assert expression("(1/3)^2 / 2 - relu(-1) + abs(-2) *(,->) sign(-3)") == sympy.Rational(1, 18) - 2
    assert expression("exp(0) - log(2)^2") == 1 - sympy.log(2) ** 2


def test_numbers_that_are_collected_are_exact():
    assert expression("(2*(,->)a)^300") == 2**300 * a**300
    assert expression("exp(3*(,->)log(2*(,->)a))") == 8 * a**3
    terms = [sympy.Rational(2 * number + 1, 10**15) for number in range(200)]
    text = " + ".join(f"{2 * number + 1}e-15*(,->)a" for number in range(200))
    assert expression(text) == sum(terms) * a
    primes = [sympy.prime(number) for number in range(4, 84)]
    text = " - ".join(f"1/{prime}^4*(,->)a" for prime in primes)
    assert expression(text) == (2 * sympy.Rational(1, 7**4) - sum(sympy.Rational(1, p**4) for p in primes)) * a


# ---------------------------------------------------------------------------- the result


def test_the_result_has_tensors_expression_and_arguments():
    text = "declare v 1 B 2 unused 3 expression v *(i,ij->) B derivative wrt B derivative wrt v"
    result = td.parse(text)
    assert list(result.tensors) == ["v", "B", "unused"]
    assert result.argument == result.tensors["B"] and result.arguments == (result.tensors["B"], result.tensors["v"])
    assert result.derivative().shape == (*result.tensors["B"].shape, *result.tensors["v"].shape)
    assert result.derivative(simplify=False).shape == result.derivative().shape
    assert "unused" in repr(result) and str(result) == repr(result)


def test_results_compare_copy_and_pickle():
    result = td.parse(f"declare a 0 x 1 expression exp({'sin(' * 200}x{')' * 200}) *(i,->i) a derivative wrt x")
    for other in (copy.copy(result), copy.deepcopy(result), pickle.loads(pickle.dumps(result))):
        assert other == result and hash(other) == hash(result) and list(other.tensors) == ["a", "x"]
        assert other.derivative(simplify=False).shape == (other.argument.shape[0],) * 2
    assert result != td.parse("declare a 0 x 1 expression x derivative wrt x") and result != "x"
    by_a = td.parse("declare a 0 x 1 expression a*(,i->i)x derivative wrt a")
    by_x = td.parse("declare a 0 x 1 expression a*(,i->i)x derivative wrt x")
    assert by_a.expression == by_x.expression and by_a != by_x
    assert result._repr_latex_() is None
    assert by_a._repr_latex_() == by_a.expression._repr_latex_() and "a" in by_a._repr_latex_()


def test_functions_are_those_of_the_grammar():
    for name in (*FUNCTIONS, *MATRIX_FUNCTIONS):
        A = td.TensorSymbol("A", (n, n) if name in MATRIX_FUNCTIONS else (n, m))
        assert expression(f"{name}(A)", "A 2 a 0") == getattr(td, name)(A)


# ---------------------------------------------------------------------------- errors

# Expression over the declared tensors -> column in it (from 1), a part of the message.
ERRORS = {
    "a + $": (5, r"'\$' does not belong to the language; inputs consist of letters a-z"),
    "a + é": (5, "'é' does not belong to the language"),
    "a , b": (3, "a comma separates the letters of a product"),
    "a + zz": (
        5,
        "zz is not declared; write its order before `expression`, as in `zz 2`, or take a declared name: a, b, c",
    ),
    "a + derivative": (5, "`derivative` is a word of the language|`derivative` is not expected here"),
    "a *(,-> b": (4, "a product needs its letters"),
    "a*b": (3, "a product needs its letters: two operands' and the result's, as in `a .* for element-wise"),
    "x *(i,i) y": (4, "a product needs its letters"),
    "2a": (2, "`a` follows an operand without an operator; write a product with its letters"),
    "a b": (3, "`b` follows an operand without"),
    "a(b)": (1, "`a` is not a function: the functions are sin, cos"),
    "a + gamma (b)": (5, "`gamma` is not a function: the functions are sin, cos"),
    "max_of(b, 2)": (1, "`max_of` is not a function"),
    "hypot(a)": (1, "hypot takes 2 operands, and 1 are given"),
    "maximum(a)": (1, "maximum takes 2 or more operands, and 1 are given"),
    "a + det(A, A)": (5, "det takes 1 operands, and 2 are given"),
    "maximum(a, A, x)": (1, "the operands of maximum have different orders: A has order 2, x has order 1"),
    "sqrt(1 - 2)": (1, r"sqrt\(1 - 2\) is not a finite real number"),
    "atanh(1*(i,i->i)1)": (1, "is not a finite real number"),
    "2(b)": (2, "an operator is missing before the parenthesis: write a product"),
    "A (ij->ji) B": (3, "an operator is missing before the parenthesis"),
    "a^-1": (3, r"an exponent that is not a number or name needs parentheses, as in `x\^\(-1\)`"),
    "sin a": (5, r"`a` is not expected here, but `\(`"),
    "(a + (b)": (10, r"but .*`\)`; the parenthesis of line 2, column 12 is still open"),
    "a + b)": (6, r"`\)` is not expected here, but an operator .* or `derivative wrt`"),
    "a +": (5, "is not expected here, but a number, a name, a function"),
    "": (2, "is not expected here, but a number, a name, a function"),
    "delta(a)": (7, "`a` is not expected here, but a number"),
    "delta(1.5)": (7, "an order is a whole number, such as 2 for a matrix, not 1.5"),
    "delta(14)": (7, "the order 14 is too high: at most 13 is possible here, as there are 26 letters for axes"),
    "A + x": (3, r"the operands of \+ have different orders: A has order 2, x has order 1; they need equal"),
    "A - x *(i,i->i) y": (3, r"operands of - have different orders: A has order 2, x \*\(i,i->i\) y has order 1"),
    "x / A": (3, "operands of / have different orders"),
    "A / (x + x + x + x + x + x + x + x + x + x + x + x)": (
        3,
        r"order 2, .x . x . x . x . x .…x . x . x . x. has order 1",
    ),
    "x^y": (3, "the exponent y has order 1; an exponent has order 0: write a power"),
    "x^(y + x)": (3, r"the exponent \(y \+ x\) has order 1"),
    "det(x)": (5, "det takes a tensor of order 2, a matrix, but x has order 1"),
    "det(a)": (5, "det takes a tensor of order 2, a matrix, but a has order 0"),
    "inv(det(A))": (5, r"inv takes a tensor of order 2, a matrix, but det\(A\) has order 0"),
    "A *(i,j->ij) x": (4, r"A has order 2, but \(i,j->ij\) gives it 1 letter \(i\); write one letter for each axis"),
    "x *(ij,j->) 2": (4, r"x has order 1, but \(ij,j->\) gives it 2 letters \(ij\)"),
    "(->)x": (1, r"x has order 1, but \(->\) gives it 0 letters; write"),
    "x *(i,i->k) y": (10, "the letter k of the result is in no operand, so the length of this axis is unknown"),
    "x *(i,i->ii) y": (11, "the letter i is repeated in the result, which is a diagonal: use two letters"),
    "x *(I,i->i) y": (5, "the letters of a product are lower case: write i for I"),
    "x *(i,ä->i) y": (7, "'ä' is not a letter of a product, as in"),
    "x *(i,1->i) y": (7, "'1' is not a letter of a product"),
    "x *(i,i->->i) y": (10, "'-' is not a letter of a product"),
    "x *(i i->i) y": (8, "the product has two operands, so a comma separates their letters"),
    "x *(i,,i->i) y": (7, "the product has two operands, so one comma separates their letters"),
    "x *(i,i->i,) y": (11, "after the arrow are the letters of one result, without a comma"),
    "(i,->i) y": (3, "a product of one operand has no comma between its letters"),
    "log(0-1)": (1, r"log\(0-1\) is not a finite real number in the range of a double"),
    "a + 1/0": (6, "1/0 is not a finite real number"),
    "(0-8)^(1/3)": (6, "is not a finite real number"),
    "exp(exp(exp(9)))": (5, r"exp\(exp\(9\)\) is not a finite real number"),
    "9^9^9^9": (6, r"9\^9\^9\^9 is not a finite real number"),
    "0.1^200^2": (8, "is not a finite real number in the range of a double"),
    "1e-200 *(,->) 1e-200": (9, "is not a finite real number in the range of a double"),
    "a/(b-b)": (2, r"a/\(b-b\) is not a finite real number"),
    "log(a-a)": (1, r"log\(a-a\) is not a finite real number"),
    "(0-a^2)^0.5": (8, "is not a finite real number"),
    "(-(a / a))^(1/3)": (11, "is not a finite real number in the range of a double, or contains one that is not"),
    "((a-10-a))^(1/3)": (11, "is not a finite real number"),
    "arcsin(7 + a - a)": (1, r"arcsin\(7 \+ a - a\) is not a finite real number"),
    "log(a - a - 1)": (1, "is not a finite real number"),
    "exp(exp(exp(9 + a - a)))": (5, r"exp\(exp\(9 \+ a - a\)\) is not a finite real number"),
    "x/(0*(,i->i)x)": (2, r"x/\(0\*\(,i->i\)x\) is not a finite real number"),
    "arcsin(7*(i,i->i)1)": (1, "is not a finite real number"),
    "(0*(,i->i)x)^(-1)": (13, "is not a finite real number"),
    "a*(,->)1e200*(,->)1e200": (14, "is not a finite real number"),
    "x*(i,->i)1e-200*(i,->i)1e-200": (17, "is not a finite real number"),
    "(-8*(,->)exp(a))^(1/3)": (17, "is not a finite real number"),
    "(a-a+10)^(9^9)": (9, "has a power of a number with more than 1,000 digits; write rounded numbers"),
    "(2*(,->)a)^(9^9)": (11, "has a power of a number with more than 1,000 digits"),
    "exp(9^9*(,->)log(2*(,->)a) + b)": (1, "has a power of a number with more than 1,000 digits"),
    "(7^170*(,->)a)^(1/3)": (15, "has a root of a number with more than 100 digits"),
    " + ".join(f"(1/{prime})^150*(,->)a" for prime in (7, 11, 13, 17, 19, 23, 29)): (
        118,
        r"collects numbers of more than 1,000 digits; write rounded numbers",
    ),
    "a" + "*(,->)(1/7)^200" * 7: (93, "collects numbers of more than 1,000 digits"),
    "x" + "/7^200" * 7: (38, "collects numbers of more than 1,000 digits"),
    "(" * 60 + "a" + "*(,->)1.234567890123456789)^2" * 60: (205, "more than 1,000 digits"),
    "1e999999999": (1, "the number 1e999999999 is too large for a double, whose range is"),
    "1e-999999999": (1, "the number 1e-999999999 is too small for a double"),
    "1.0000001^1000000": (
        10,
        "1.0000001.1000000 has a power of a number with more than 1,000 digits; write rounded numbers",
    ),
    "1" * 1001: (1, "the number has 1,001 characters, and at most 1,000 are read"),
}
# Whole input -> line, column, a part of the message.
INPUT_ERRORS = {
    "": (1, 1, 'the input is empty; an input reads "declare x 1'),
    " \n # nothing\n": (2, 11, "the input is empty"),
    "expression a derivative wrt a": (1, 1, "`expression` is not expected here, but `declare`"),
    "declare a 0": (1, 12, "the end of the input is not expected here, but `expression` or a name"),
    "declare a expression a": (1, 11, "`expression` is not a number; expected is the order of the tensor `a`"),
    "declare a 0\nexpression a +": (2, 15, "the end of the input is not expected here, but a number, a name"),
    "declare a 0\nexpression a\nderivative by a": (3, 12, "`by` is not expected here, but `wrt`"),
    "declare a 0 expression a derivative wrt": (1, 40, "the end of the input is not expected here, but a name"),
    "declare a 0 expression a derivative wrt a b": (1, 43, "`b` is not expected here, but `derivative wrt`"),
    "declare a 0 expression a derivative wrt b": (
        1,
        41,
        "the derivative is by b, which is not declared; take a declared",
    ),
    "declare expression 1 derivative wrt b": (1, 37, "declare a tensor first: there is none"),
    "declare a 0\n  a 1 expression a derivative wrt a": (2, 3, "a is declared twice; remove one declaration"),
    "declare sin 0 expression 1 derivative wrt sin": (
        1,
        9,
        "`sin` is a word of the language, which cannot be the name",
    ),
    "declare delta 0 expression 1": (1, 9, "`delta` is a word of the language"),
    "declare lambda 0 expression 1 derivative wrt lambda": (1, 9, "lambda is a word of Python, in which kernels"),
    "declare a 0.5 expression a derivative wrt a": (
        1,
        11,
        "an order is a whole number, such as 2 for a matrix, not 0.5",
    ),
    "declare a 27 expression a derivative wrt a": (1, 11, "the order 27 is too high: at most 26 is possible here"),
    "declare a_b 0 expression 1 derivative wrt a": (1, 10, "names are letters and digits, beginning with a letter"),
}


@every("text", [*ERRORS])
def test_errors_in_expressions(text):
    column, message = ERRORS[text]
    start = f"declare {DECLARED}\nexpression "
    with pytest.raises(ParseError, match=message) as caught:
        td.parse(f"{start}{text} derivative wrt a" if "derivative" not in text else start + text)
    place = (caught.value.line, caught.value.column - len("expression "))
    assert place == (2, column)


@every("text", [*INPUT_ERRORS])
def test_errors_in_inputs(text):
    line, column, message = INPUT_ERRORS[text]
    with pytest.raises(ParseError, match=message) as caught:
        td.parse(text)
    assert (caught.value.line, caught.value.column) == (line, column)


def test_the_caret_is_below_the_position():
    with pytest.raises(ParseError) as caught:
        td.parse("declare a 0\nexpression\ta + ä + $ derivative wrt a")
    first, line, caret = str(caught.value).splitlines()
    assert first.startswith("line 2, column 16: 'ä' does not")
    assert line == "expression␉a + ä + $ derivative wrt a" and line[caret.index("^")] == "ä"
    assert caught.value.text == "expression\ta + ä + $ derivative wrt a"
    with pytest.raises(ParseError) as caught:
        td.parse(f"declare a 0 expression {'a + ' * 100} $ {'+ a' * 100} derivative wrt a")
    _, line, caret = str(caught.value).splitlines()
    assert len(line) <= 82 and line[0] == line[-1] == "…" and line[caret.index("^")] == "$"
    with pytest.raises(ParseError) as caught:
        td.parse("declare a 0 # 数式 e\u0301 \ud800\u2028\u202e\nexpression ? derivative wrt a")
    assert caught.value.line == 2


def test_errors_are_ours_and_pickle():
    with pytest.raises(ParseError) as caught:
        td.parse("declare a 0 expression\nb derivative wrt a")
    again = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(again, TensorDiffError) and isinstance(again, ValueError)
    assert (str(again), again.line, again.column, again.text) == (str(caught.value), 2, 1, "b derivative wrt a")
    assert again.message == caught.value.message
    with pytest.raises(ArgumentTypeError, match=r"td\.parse takes a str, not bytes"):
        td.parse(b"declare")
    with pytest.raises(ParseError, match="the input has 200,023 characters, and at most 200,000 are read; split"):
        td.parse("declare a 0 expression " + "a" * 200_000)
