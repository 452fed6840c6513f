"""The Python program of an input runs, and gives the same derivative."""

import json
from importlib.resources import files

import pytest
import sympy
from every import every

import sympy_tensordiff as td
from sympy_tensordiff.app.forms import form_text, parsed_input
from sympy_tensordiff.errors import UnsupportedError

EXAMPLES = json.loads(files("sympy_tensordiff.app.web").joinpath("static", "examples.json").read_text("utf-8"))
SOURCES = {example["title"]: (example["language"], example["source"]) for example in EXAMPLES} | {
    "a rational number": ("index", "declare x[n] s = sum(2*x[i]/3 - x[i]**(1/2), i) derivative wrt x"),
    "a mixed derivative": ("matrix", "declare A[m, n], x[n], c  c*norm2(A*x)^2/2  derivative wrt x derivative wrt A"),
    "integers": ("index", "declare int w[m], x[n] s = sum(x[w[i]]**3, i) derivative wrt x"),
    "rounded and clamped indices": (
        "index",
        "declare x[n] s = sum(x[floor(i/2)]*x[min(i + 1, n - 1)], (i, 0, n - 1)) derivative wrt x",
    ),
    "a constant": ("matrix", "vector(1)'*x*pi derivative wrt x"),
    "names of letters": ("matrix", "declare S[n], E[n, n]  S'*E*S + pi  derivative wrt S"),
    "names of SymPy": ("index", "declare beta[gamma] s = sum(beta[N]**2, N) derivative wrt beta"),
}


def program(language: str, source: str) -> tuple:
    parsed = parsed_input(source, {"text": "thesis"}.get(language, language))
    derivative = parsed.derivative()
    return parsed, derivative, form_text(parsed, derivative, "python")


@every("language, source", SOURCES, turns=8)
def test_the_program_gives_the_same(language, source, capsys) -> None:
    parsed, derivative, text = program(language, source)
    names: dict = {}
    exec(text, names)
    assert names["derivative"] == derivative, text
    assert str(names["expression"]) == str(parsed.expression)
    assert capsys.readouterr().out == f"{derivative}\n"


def test_what_it_looks_like() -> None:
    _, _, text = program("matrix", "norm2(A*x - y)^2 derivative wrt x")
    assert text == (
        "import sympy_tensordiff as td\n\n"
        'm, n = td.indices("m n")\n'
        'A = td.TensorSymbol("A", (n, m))\n'
        'x = td.TensorSymbol("x", m)\n'
        'y = td.TensorSymbol("y", n)\n\n'
        "expression = (A @ x - y).T @ (A @ x - y)\n"
        "derivative = td.gradient(expression, x)\n"
        "print(derivative)\n\n"
        "# Compiled at its first call:\n"
        "function = td.lambdify((A, x, y), (expression, derivative))\n"
    )


@pytest.mark.parametrize("name", ["td", "derivative"])
def test_names_that_python_does_not_allow(name) -> None:
    x = td.TensorSymbol(name, 3)
    with pytest.raises(UnsupportedError, match=f"the tensor {name} cannot have this name in a Python program"):
        form_text(td.ParsedExpression({name: x}, td.sin(x), (x,)), td.jacobian(td.sin(x), x), "python")


def test_expressions_that_python_cannot_name() -> None:
    x, theta, i = td.TensorSymbol("x", 3), td.TensorSymbol(r"\theta", 3), td.indices("i")
    named = td.IndexedSum(sympy.Function("h")(x[i]), (i, 0, 2))
    for tensor, expression, message in [
        (x, named, "h has no name in Python; see the index notation"),
        (theta, td.sin(theta), "this cannot be written in Python; see the index notation"),
    ]:
        with pytest.raises(UnsupportedError, match=message):
            form_text(td.ParsedExpression({tensor.name: tensor}, expression, (tensor,)), expression, "python")
