"""Formulas in LaTeX: as papers print them, as the package prints them, and hostile texts."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import sympy

import sympy_tensordiff as td
from sympy_tensordiff import reference
from sympy_tensordiff.errors import ParseError
from sympy_tensordiff.parsing.api import language_of
from tests import test_printed

FILE = Path(__file__).with_name("latex_formulas.txt")


def formulas() -> list[tuple[str, str]]:
    """The formulas with the NumPy expression or the message of each."""
    sections = re.split(r"^# .*\n", FILE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    lines = [line for section in sections for line in section.splitlines() if line]
    return [*zip(lines[::2], lines[1::2], strict=True)]


def filled(random: Random, shape: tuple[int, ...]) -> Any:
    """Positive fractions; of a square matrix with a larger diagonal, so that its determinant is positive."""
    array = np.array([Fraction(random.randint(300, 900), 1000) for _ in range(int(np.prod(shape)))], dtype=object)
    array = array.reshape(shape)
    return array + 3 * np.eye(shape[0], dtype=int) if len(shape) == 2 and shape[0] == shape[1] else array


def compared(parsed: Any, expected: str) -> None:
    """Compare values of the parsed formula and of a NumPy expression at small sizes."""
    random = Random(1)
    symbols = {s for s in reference.symbols_of(parsed.expression) if isinstance(s, sympy.Symbol)}
    symbols |= {s for t in parsed.tensors.values() for extent in t.shape for s in extent.free_symbols}
    sizes = {s: {"n": 5, "i": 1, "k": 1}.get(s.name, 4) for s in symbols}
    arrays = {
        name: filled(random, tuple(int(extent.subs(sizes)) for extent in tensor.shape))
        for name, tensor in parsed.tensors.items()
    }
    values = {tensor: arrays[name].tolist() for name, tensor in parsed.tensors.items()}
    value = np.array(reference.evaluate(parsed.expression, {**values, **sizes}), dtype=object).astype(complex)
    names = {name: array.astype(float) for name, array in arrays.items()}
    names |= {s.name: k for s, k in sizes.items() if s.name not in names}
    other = np.asarray(eval(expected, {"np": np, **names}))
    assert value.shape == other.shape
    np.testing.assert_allclose(value, other, rtol=1e-9)


@pytest.mark.in_turns(8)
@pytest.mark.parametrize(("formula", "expected"), formulas())
def test_formulas_of_papers_have_their_values(formula: str, expected: str) -> None:
    if expected.startswith("refused: "):
        with pytest.raises(ParseError, match=re.escape(expected.removeprefix("refused: "))):
            td.parse(formula, language="latex")
    else:
        compared(td.parse(formula, language="latex"), expected)


def test_most_formulas_of_papers_are_read() -> None:
    table = formulas()
    assert len(table) >= 100
    assert sum(expected.startswith("refused: ") for _, expected in table) <= 5


# ---------------------------------------------------------------------------- printed forms

LOST = {
    "A[row, j]": "an index of several letters is printed as a product",
    "x[s]": "the name of an integer tensor is printed as an index",
    "elementwise(f, x)": "the name of a function is printed as a factor",
    "elementwise(lambda t0: Derivative(f(t0), (t0, 2)), x)": "the same",
    "elementwise(lambda t0: t0*sin(t0), x)": "functions written out",
    "elementwise(lambda t0, t1: Piecewise((t1, t0 > 0), (-t1, True)), x, y)": "the same",
    "TensorCofactor(2, A)": "cofactors are not a function of formulas",
    "EinsumProduct('axb,b->ab', ones((n, m, n)), x)/2": "the size of an axis is not printed",
    "A + EinsumProduct('axb,b->ab', ones((n, m, n)), x)": "the same",
    "EinsumProduct('ik,jl->ijkl', DeltaTensor(n), A)": "the same",
    "v[:, None]": "an axis of extent 1 is not printed",
    "v[None, :]": "the same",
    "X[:, None, :]": "the same",
    "EinsumProduct('ikl,k,l->i', T, TensorComprehension(k*x[j], (j, n)), y)": "an integer is printed as a number",
    "EinsumProduct('bhkd,bhqk->bhqd', K, softmax(EinsumProduct('bhkd,bhqd->bhqk', K, Q), axis=3)*(S - sum(S*softmax("
    "EinsumProduct('bhkd,bhqd->bhqk', K, Q), axis=3), axis=3)[:, :, :, None]))": "an index of a sum is named as a size",
}
"""Printed forms that lose what is needed to read them."""
SECTIONS = (
    "Entries, sums and comprehensions",
    "Products, maxima and minima over ranges",
    "Whole tensors: products of matrices where they are, else index notation",
    "Repeated tensors, as they are written",
    "Axes of extent 1, means and choices",
)


def declared(value: Any) -> tuple[str, dict[Any, Any]]:
    """The declarations of the tensors and numbers of ``value``, and what replaces the tensors that are read."""
    tensors = {t.name: t for t in [*value.atoms(td.TensorSymbol), *reference.tensors_of(value)]}
    numbers = [s for s in reference.symbols_of(value) if s.is_Symbol and not s.is_integer and s.name not in tensors]
    texts = [
        "int " * (t.dtype is int) + name + f"[{', '.join(map(sympy.latex, t.shape))}]" * bool(t.shape)
        for name, t in tensors.items()
    ]
    named = {s.name.replace("lambda", "lamda"): s for s in numbers}
    texts += named
    back = {td.TensorSymbol(t.name, t.shape, dtype=t.dtype): t for t in tensors.values()}
    back |= {td.TensorSymbol(name, ()): s for name, s in named.items()}
    return f"declare {', '.join(texts)} " if texts else "", back


def have_equal_values(first: Any, second: Any) -> bool:
    """Return whether two expressions of the same tensors have equal shapes and values at small sizes."""
    random = Random(2)
    tensors = {*first.atoms(td.TensorSymbol), *reference.tensors_of(first)}
    symbols = {s for e in (first, second) for s in reference.symbols_of(e)}
    symbols |= {s for t in tensors for extent in t.shape for s in extent.free_symbols}
    sizes = {s: (2 if s.name in "ijklpq" else 4) if s.is_integer else Fraction(7, 5) for s in symbols}
    values = dict(sizes)
    for t in tensors:
        array = filled(random, tuple(int(extent.subs(sizes)) for extent in t.shape))
        array = array + array.T if array.ndim == 2 and td.TensorSymbol(t.name, t.shape) != t else array
        values[t] = (array * 0 + 1 if t.dtype is int else array).tolist()
    one, other = (np.array(reference.evaluate(e, values, total=True), dtype=object) for e in (first, second))
    return one.shape == other.shape and np.allclose(one.astype(float), other.astype(float), rtol=1e-9, atol=0)


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("section", SECTIONS)
def test_printed_forms_are_read_back(section: str) -> None:
    for entry in test_printed.entries(section):
        value = entry.value
        if sympy.latex not in entry.forms or not isinstance(value, sympy.Basic) or value.has(sympy.Idx):
            continue
        declarations, back = declared(value)
        try:
            read = td.parse(declarations + sympy.latex(value), language="latex").expression.xreplace(back)
            is_equal = read == value or (str(value) not in LOST and have_equal_values(value, read))
        except ParseError:
            is_equal = False
        assert is_equal == (str(value) not in LOST), sympy.latex(value)


def test_parts_after_where_are_read_back() -> None:
    i, j, k, n, d, h = td.indices("i j k n d h")
    X, W, Y, y = (
        td.TensorSymbol(name, shape) for name, shape in [("X", (n, d)), ("W_q", (d, h)), ("Y", (n, h)), ("y", n)]
    )
    ell = td.TensorSymbol("ell", ())
    distances = td.TensorComprehension(td.IndexedSum((X[i, k] - X[j, k]) ** 2, (k, 0, d - 1)), (i, n), (j, n))
    K = td.exp(-distances / ell) + td.DeltaTensor(n)
    softmax = td.softmax(X @ W)
    hidden = td.name(td.exp(X @ W), "k1")
    for answer in [
        td.gradient(td.sum((softmax * Y - softmax) ** 2), W),
        td.gradient(y @ td.inv(K) @ y + td.logdet(K), ell),
        td.gradient(td.sum(td.log(td.name(td.sum(hidden**2, axis=1), "sigma"))), W),
    ]:
        text = td.latex(answer, "g", parts=True)
        assert "where" in text
        read = td.parse(declared(answer)[0] + text, language="latex").expression
        assert have_equal_values(answer, read)


# ---------------------------------------------------------------------------- assumptions, limits and messages


def test_the_result_says_what_was_assumed() -> None:
    assert td.parse(r"\sum_{i=1}^{n} i x_i").assumed == ("indices start at 1 in the text and at 0 in the expression",)
    assert td.parse(r"\sum_{i=0}^{n-1} i x_i").assumed == ()
    assert td.parse(r"\sum_{i=1}^{n-1} x_{i-1} x_{i}").assumed == ("indices start at 0 in the text",)
    i, n = td.indices("i n")
    x = td.TensorSymbol("x", n)
    interior = r"declare x[n] \sum_{i=1}^{n-2} x_{i+1}"
    assert td.parse(interior).expression == td.IndexedSum(x[i + 1], (i, 1, n - 2))
    assert td.parse(interior.replace("n-2", "n-1")).expression == td.IndexedSum(x[i + 1], (i, 0, n - 2))
    assert "sigma is the logistic function" in td.parse(r"\sigma(A \mathbf{x})").assumed
    rests = td.parse(r"y_i - \hat{y}_i").tensors
    assert rests["y"].shape == rests["yhat"].shape
    assert td.parse(r"\log p").assumed == ("p is a number",)
    assert td.parse(r"\log \mathbf{p}").assumed == ("p is a vector",)


def test_declarations_and_derivatives() -> None:
    parsed = td.parse(r"declare A[m, n], x[n]  \|A x\|^2  derivative wrt x", language="latex")
    assert str(parsed.derivative()) == "2*A.T @ A @ x"
    assert td.parse(r"declare \theta[n] \theta^\top \theta").tensors["theta"].rank == 1
    x, idx = td.TensorSymbol("x", 4), td.TensorSymbol("idx", 3, dtype=int)
    i = td.indices("i")
    assert td.parse(r"declare x[4], int idx[3] \sum_{i=0}^{2} x_{\mathrm{idx}_{i}}").expression == td.IndexedSum(
        x[idx[i]], (i, 0, 2)
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"declare dr, r  3 dr r^{2}", "3*dr*r**2"),
        (r"declare dx[4]  \mathrm{d}x_{3} + {x}_{i}", "dx[3] + x[i]"),
        (r"declare W_1[n, n], x[n]  W_1 x", "W_1 @ x"),
        (r"W^{(1)} \mathbf{x}", "W1 @ x"),
        (r"\hat{y}_i + \bar{\mathbf{y}}_i", "ybar[i] + yhat[i]"),
        (r"\sin^2 a + \log\det A", "log(det(A)) + sin(a)**2"),
        (r"\frac12 \sqrt[3]{a}", "a**(1/3)/2"),
        (r"a/b \cdot c", "a*c/b"),
    ],
)
def test_names_and_forms(text: str, expected: str) -> None:
    assert str(td.parse(text, language="latex").expression) == expected


@pytest.mark.parametrize(
    ("text", "language"),
    [
        (r"\frac{x}{y}", "latex"),
        (r"x^{2}", "latex"),
        (r"\|x\|", "latex"),
        ("norm2(A*x)^2", "matrix"),
        ("x^2", "matrix"),
        ("declare x[n]  s = sum(x[i]**2, i)  derivative wrt x", "index"),
        ("declare x 1 expression x *(i,i->) x derivative wrt x", "thesis"),
    ],
)
def test_a_command_makes_a_text_latex(text: str, language: str) -> None:
    assert language_of(text) == language


HOSTILE = {
    "x" * 10**5: "100,000 characters",
    "(" * 2000 + "x" + ")" * 2000: "more than 120 levels",
    r"\frac{" * 400 + "1" + "}{2}" * 400: "more than 120 levels",
    "x_{" * 1000 + "i" + "}" * 1000: "more than 120 levels",
    r"\exp" * 1000 + "(x)": "more than 120 levels",
    r"\sum_{i=1}^{n}" * 300 + "x_i": "more than 120 levels",
    r"\input{/etc/passwd}": r"`\input` is not read; macros are not expanded",
    r"\write18{ls}": r"`\write` is not read",
    r"\newcommand{\f}[1]{#1#1}\f{\f{x}}": r"`\newcommand` is not read",
    r"\def\a{\a\a}\a": r"`\def` is not read",
    "9^{9^9}": "more than 1,000 digits",
    r"2^{999999}": "more than 1,000 digits",
    r"\exp(\exp(\exp(9)))": "range of a double",
    "9" * 4000: "at most 1,000",
    r"\frac{1}{0}": "divides by 0",
    "|" * 4000: "end of the input",
    "$" * 4000: "the input is empty",
    r"\begin{pmatrix} a & b \end{pmatrix}": "environment pmatrix",
    r"\sum_{i \in S} x_i": "sets of indices",
    r"\operatorname{foo}(x)": "foo is not a function",
    r"\|x\|_3": "the norms are",
    r"\sum x_i": "one subscript with its index",
    r"\sum_{i=1} x_i": "upper limit is missing",
    "x^*": "is not read",
    "x_{i} + x_{i j}": "has 2 indices here and 1 elsewhere",
    r"\sum_{i=1}^n x_i + \sum_{i=1}^m x_i": "as long as",
    r"x^\top x \\ y": "second line",
    r"declare A[n, n, n] \det(A)": "det takes a matrix, not a tensor with 3 axes",
    r"declare A[n, n, n], x[n] \operatorname{solve}(A, x)": "solve takes a matrix, not a tensor with 3 axes",
    "": "the input is empty",
}


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_errors_of_other_texts_have_positions(text: str) -> None:
    with pytest.raises(ParseError, match=re.escape(HOSTILE[text])) as caught:
        td.parse(text, language="latex")
    assert re.match(r"line \d+, column \d+: ", str(caught.value))


@pytest.mark.parametrize("written", ["entr(A)", "logaddexp(A, B)", "logaddexp(B, 2)", "xlogy(B, A)"])
def test_functions_of_several_operands_are_read_back(written: str) -> None:
    A, B = (td.TensorSymbol(name, td.indices("n m")) for name in "AB")
    names = {**{name: getattr(td, name) for name in ("entr", "logaddexp", "xlogy")}, "A": A, "B": B}
    expr = eval(written, names)
    assert str(expr) == written
    assert td.parse(f"declare A[n, m], B[n, m] {td.latex(expr)}", language="latex").expression == expr
