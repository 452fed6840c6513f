"""Every input of the appendix of Lippmann's thesis, with the derivative that is printed there.

Inputs and derivatives are those of the thesis, letter by letter. Where the copy at hand has lost letters or
parentheses, the row says what they were; where a number in the derivative gets its order from the context alone,
the row gives the context.

An operand of order 0 fits next to every order here, a tensor as well as a number, which the thesis does for
numbers only: two inputs that have lost letters are therefore well-formed and mean something else.
"""
# ruff: noqa: E501

from typing import NamedTuple

import numpy as np
import pytest
from evaluator import arrays, computed, value
from every import every

import sympy_tensordiff as td
from sympy_tensordiff.errors import ParseError, UnsupportedError


class Row(NamedTuple):
    """An input of the thesis.

    ``signatures`` and ``printed`` are the expression and its derivative in the thesis, ``corrected`` and ``read`` what they
    were before letters were lost; ``lost`` is how the input as typed is refused. ``alike`` says whether the
    printed derivative is the one here once its deltas are gone, entries are from ``low`` on in absolute value,
    and of both signs where ``low`` is negative.
    """

    declared: str
    typed: str
    argument: str
    printed: str
    corrected: str = ""
    lost: str = ""
    read: str = ""
    alike: bool = True
    low: float = -0.2


TWO = "(1 *(ij,ij->ij) 1) + (1 *(ij,ij->ij) 1)"
APPENDIX = [
    Row("a 0", "a", "a", "delta(0)"),
    Row("a 1 b 1 c 0", "(a*(i,->)b)*(,->)c", "c", "(a *(i,->) b)", corrected="(a*(i,i->)b)*(,->)c", lost="b has order 1, but (i,->) gives it 0 letters", read="(a *(i,i->) b)"),  # the letters of b are lost, in the derivative too
    Row("a 0", "(a*(,->)a)", "a", "(a + a)"),
    Row("a 0 b 0", "(b*(,->)a) *(,->) a", "a", "((a *(,->) b) + (b *(,->) a))"),
    Row("a 0 b 0", "a + b", "a", "delta(0)"),
    Row("a 0 b 0", "a + a + b", "a", "(delta(0) + delta(0))"),
    Row("a 0 b 0", "a + b + a", "a", "(delta(0) + delta(0))"),
    Row("a 0 b 0", "a - b", "b", "-1"),
    Row("a 0 b 0", "a - a - b", "a", "(delta(0) + -1)"),
    Row("a 0 b 0", "a - b - a", "a", "(delta(0) + -1)"),
    Row("a 1 b 1 c 1", "a*(i,->)a + b + c", "a", "((delta(1) *(ai,i->ai) a) + (delta(1) *(ai,i->ai) a))", corrected="a*(i,i->i)a + b + c", lost="a has order 1, but (i,->) gives it 0 letters"),  # a letter is lost; the derivative says (i,i->i)
    Row("a 1 b 1 c 1", "a*(i,->)b + a*(i,->)c", "a", "((delta(1) *(ai,i->ai) b) + (delta(1) *(ai,i->ai) c))", corrected="a*(i,i->i)b + a*(i,i->i)c", lost="b has order 1, but (i,->) gives it 0 letters"),  # letters are lost; the derivative says (i,i->i)
    Row("a 1 b 1 c 0", "a*(i,->)b + c", "a", "b", corrected="a*(i,i->)b + c", lost="b has order 1, but (i,->) gives it 0 letters"),  # a letter is lost
    Row("a 2 b 1", "a*(ij,j->i)b", "a", "(delta(1) *(ai,j->aij) b)"),
    Row("a 2 b 1", "a*(ij,j->i)b", "a", "(delta(1) *(ai,j->aij) b)"),
    Row("A 2 B 2 x 1", "A*(ij,j->i)x + B*(ij,j->i)x", "x", "((delta(1) *(ai,ij->aj) A) + (delta(1) *(ai,ij->aj) B))"),
    Row("A 2 B 2 x 1", "(A+B)*(ij,j->i)x", "x", "(delta(1) *(ai,ij->aj) (A + B))"),
    Row("A 2 B 2 x 1", "(A*(ij,ij->ij)B) * (ij,j->i)x", "x", "(delta(1) *(ai,ij->aj) (A *(ij,ij->ij) B))"),
    Row("x 1", "x*(i,i->)x", "x", "(x + x)"),
    Row("a 1 b 1 c 1 d 1", "a*(i,i->)b + a*(i,i->)c + a*(i,i->)d", "a", "((b + c) + d)"),
    Row("a 1 b 1 c 1", "a*(i,i->)a - b - c", "a", "((delta(1) *(ai,i->ai) a) + (delta(1) *(ai,i->ai) a))", corrected="a*(i,i->i)a - b - c"),  # well-formed: a number is subtracted from; the derivative says (i,i->i)
    Row("a 1 b 1 c 1", "a*(i,i->)b - a*(i,i->)c", "a", "((delta(1) *(ai,i->ai) b) + ((delta(1) *(ba,a->ba) -1) *(ai,i->ai) c))", corrected="a*(i,i->i)b - a*(i,i->i)c"),  # well-formed, with a derivative of order 1; the derivative says (i,i->i)
    Row("A 2 B 2 x 1", "(A-B)*(ij,j->i)x", "x", "(delta(1) *(ai,ij->aj) (A - B))"),
    Row("x 1", "sin(x)", "x", "(delta(1) *(ba,a->ba) (cos(x)))"),
    Row("A 2 x 1", "A *(ij,j->i) (sin(x))", "x", "((delta(1) *(ai,ij->aj) A) *(ba,a->ba) (cos(x)))"),
    Row("A 2 x 1", "sin( A*(ij,j->i)x )", "x", "((delta(1) *(ba,a->ba) (cos((A *(ij,j->i) x)))) *(ai,ij->aj) A)"),
    Row("x 1", "cos(x) + sin(x)", "x", "((delta(1) *(ba,a->ba) (-((sin(x)))) + (delta(1) *(ba,a->ba) (cos(x))))", read="((delta(1) *(ba,a->ba) (-((sin(x))))) + (delta(1) *(ba,a->ba) (cos(x))))"),  # a parenthesis is missing
    Row("x 1", "exp(x)", "x", "(delta(1) *(ba,a->ba) (exp(x)))"),
    Row("A 2 x 1", "A *(ij,j->i) exp(x)", "x", "((delta(1) *(ai,ij->aj) A) *(ba,a->ba) (exp(x)))"),
    Row("y 1 x 1", "y / x", "x", "((delta(1) *(ba,a->ba) y) *(ba,a->ba) (-((1 / ((x *(a,a->a) x))))))"),
    Row("x 1", "tan(x)", "x", "(delta(1) *(ba,a->ba) (1 / (((cos(x)) *(a,a->a) (cos(x))))))", alike=False),  # 1/cos^2 is 1 + tan^2
    Row("x 1", "arcsin(x)", "x", "(delta(1) *(ba,a->ba) (1 / (((1 - (x ^ 2)) ^ 0.5))))", low=0.2),
    Row("x 1", "arccos(x)", "x", "(delta(1) *(ba,a->ba) (-((1 / (((1 - (x ^ 2)) ^ 0.5))))))", low=0.2),
    Row("x 1", "arctan(x)", "x", "(delta(1) *(ba,a->ba) (1 / (((x *(a,a->a) x) + 1))))"),
    Row("x 1", "log(x)", "x", "(delta(1) *(ba,a->ba) (1 / (x)))", low=0.2),
    Row("x 1", "tanh(x)", "x", "(delta(1) *(ba,a->ba) (1 - ((tanh(x)) *(a,a->a) (tanh(x)))))"),
    Row("x 1", "abs(x)", "x", "(delta(1) *(ba,a->ba) (sign(x)))"),
    Row("x 1", "sign(x)", "x", "(delta(1) *(ba,a->ba) 0)"),
    Row("x 1", "relu(x)", "x", "(delta(1) *(ba,a->ba) (relu((sign(x)))))", alike=False),  # the step is a case of its own here
    Row("x 1 a 0", "x^a", "x", "(delta(1) *(ba,a->ba) (a *(,a->a) (x ^ (a - 1))))", low=0.2),
    Row("x 1 a 0", "(x^a) *(i,i->) x", "x", "((x *(a,a->a) (a *(,a->a) (x ^ (a - 1)))) + (x ^ a))", low=0.2),
    Row("x 0 a 1", "a^x", "x", "((a ^ x) *(b,b->b) (log(a)))", low=0.2),
    Row("x 0 a 1", "x^x", "x", "(((x ^ x) *(, ->) (log(x))) + (((x ^ x) *(, ->) x) *(, ->) (1 / (x))))", low=0.2),
    Row("A 2", "inv(A)", "A", "(delta(2) *(efcd,cdab->efab) ((-((inv(A)))) *(ij,kl->kjli) (inv(A))))"),
    Row("A 2", "det(A)", "A", "((adj(A)) *(ij,->ji) 1)"),
    Row("X 2", "adj(X)", "X", "(((inv(X)) *(cd,ab->cdab) ((adj(X)) *(ij,->ji) 1)) + ((delta(2) *(abij,->abij) (det(X))) *(efcd,cdab->efab) ((-((inv(X)))) *(ij,kl->kjli) (inv(X)))))", alike=False),  # with det and inv, where the matrix has one
    Row("X 2", "1*(ij,->)X", "X", "(1 *(ij,->ij) 1)", corrected="1*(ij,ij->)X", lost="X has order 2, but (ij,->) gives it 0 letters"),  # letters are lost; the derivative says (ij,ij->)
    Row("X 2", "X + X", "X", "(delta(2) + delta(2))"),
    Row("X 2", "1*(ij, ij ->) (X + X)", "X", "(1 + 1)", read=TWO),  # the order of 1 is that of X
    Row("X 2", "1*(ij, ij ->) X + 1*(ij, ij ->) X", "X", "(1 + 1)", read=TWO),  # the order of 1 is that of X
    Row("X 2", "1*(ij, ij -> )X + 1*(ij, ij -> ) (X+1)", "X", "(1 + 1)", read=TWO),  # the order of 1 is that of X
    Row("v 1", "v*(i, i -> )v + 1*(i, i -> )(v)", "v", "((v + v) + 1)"),
    Row("v 1", "(v *(i,i->i) v) + (v *(i,i->i) v)", "v", "(((delta(1) + delta(1)) *(ai,i->ai) v) + ((delta(1) + delta(1)) *(ai,i->ai) v))"),
    Row("v 1", "(delta(0) + 1) *(,i->i) v", "v", "(delta(1) *(ai,->ai) (delta(0) + 1))"),
    Row("X 2", "sin(delta(1)) *(ij,ij->) X", "X", "(sin(delta(1)))"),
    Row("a 2 X 4", "a*(ij,ijkl->ijkl)X + cos(X)", "X", "((delta(4) *(abcdijkl,ij->abcdijkl) a) + (delta(4) *(efghabcd,abcd->efghabcd) (-((sin(X)))))", read="((delta(4) *(abcdijkl,ij->abcdijkl) a) + (delta(4) *(efghabcd,abcd->efghabcd) (-((sin(X))))))"),  # a parenthesis is missing
    Row("X 2", "sin(delta(1)) *(ij,ij->) X", "a", "", lost="the derivative is by a, which is not declared"),  # no derivative is printed
]  # fmt: skip
NUMBERED = {f"{number} {row.typed}": row for number, row in enumerate(APPENDIX)}
WELL_FORMED = {label: row for label, row in NUMBERED.items() if row.printed}


def parsed(row, text):
    return td.parse(f"declare {row.declared} expression {text} derivative wrt {row.argument}")


def differences(text, values, name, length, step=1e-6):
    """The derivative of the value of a text by central differences, axes of the value first."""
    columns = []
    for place in np.ndindex(values[name].shape):
        shifted = []
        for sign in (1, -1):
            moved = values[name].copy()
            moved[place] += sign * step
            shifted.append(value(text, {**values, name: moved}, length))
        columns.append(np.asarray((shifted[0] - shifted[1]) / (2 * step)))
    result = np.stack(columns, axis=-1)
    return result.reshape((*result.shape[:-1], *values[name].shape))


@every("row", NUMBERED, turns=8)
def test_inputs_as_typed_are_parsed_or_refused_with_the_reason(row):
    if row.lost:
        with pytest.raises(ParseError, match=f": {row.lost.replace('(', '[(]').replace(')', '[)]')}"):
            parsed(row, row.typed)
        return
    typed = parsed(row, row.typed)
    assert [f"{name} {tensor.rank}" for name, tensor in typed.tensors.items()] == [
        " ".join(pair) for pair in zip(row.declared.split()[::2], row.declared.split()[1::2], strict=True)
    ]
    assert typed.argument is typed.tensors[row.argument]
    check_derivative(row, row.typed)


def check_derivative(row, text, length=2):
    """The expression and its derivative have the values that NumPy gives the text."""
    found = parsed(row, text)
    values = arrays(found.tensors, length, low=row.low)
    np.testing.assert_allclose(computed(found.expression, found.tensors, values, length), value(text, values, length))
    derivative = computed(found.derivative(), found.tensors, values, length)
    expected = differences(text, values, row.argument, length)
    np.testing.assert_allclose(derivative, expected, rtol=1e-6, atol=1e-7)
    return derivative, values


@every("row", WELL_FORMED, turns=8)
def test_derivatives_are_right_and_those_of_the_thesis(row):
    derivative, values = check_derivative(row, row.corrected or row.typed)
    printed = row.read or row.printed
    thesis = value(printed, values, 2)
    np.testing.assert_allclose(thesis, derivative, rtol=1e-9, atol=1e-12)
    read = parsed(row, printed)
    np.testing.assert_allclose(computed(read.expression, read.tensors, values), thesis, rtol=1e-9, atol=1e-12)


def of_sizes(expr, tensors, like, own):
    """An expression with the sizes of other tensors, and of a result of the shape of another one."""
    pairs = [(tensors[name], own[name]) for name in tensors] + [(expr, like)]
    shapes = [(getattr(new, "shape", ()), getattr(old, "shape", ())) for new, old in pairs]
    renaming: dict = {}
    for new, old in shapes:
        for size, other in zip(new, old, strict=True):
            assert renaming.setdefault(size, other) == other
    return expr.xreplace(renaming)


@every("row", WELL_FORMED)
def test_printed_derivatives_are_these_once_their_deltas_are_gone(row):
    found, read = parsed(row, row.corrected or row.typed), parsed(row, row.read or row.printed)
    derivative = found.derivative()
    printed = of_sizes(read.expression, read.tensors, derivative, found.tensors)
    is_alike = td.canonical(td.simplify_deltas(printed)) == td.canonical(derivative)
    assert is_alike == row.alike


@every("row", {label: row for label, row in WELL_FORMED.items() if "adj(X)" not in label}, turns=8)
def test_derivatives_have_a_text(row):
    found = parsed(row, row.corrected or row.typed)
    values = arrays(found.tensors, 2, low=row.low)
    expected = computed(found.derivative(), found.tensors, values)
    text = td.to_text(found.derivative())
    np.testing.assert_allclose(value(text, values, 2), expected, rtol=1e-9, atol=1e-12)
    assert td.to_text(parsed(row, text).expression) == text


def test_the_derivative_of_the_adjugate_has_none():
    found = td.parse("declare X 2 expression adj(X) derivative wrt X")
    with pytest.raises(UnsupportedError, match="it has no derivatives of adj; write the adjugate of an invertible"):
        td.to_text(found.derivative())
