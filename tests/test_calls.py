"""Calls whose arguments do not fit: the error shows the signature and says what to write."""

import inspect
import pickle
import re

import numpy as np
import pytest
from every import every

import sympy_tensordiff as td
from sympy_tensordiff.errors import ArgumentTypeError, UnsupportedError
from sympy_tensordiff.symbolic.expressions.missing_names import NOT_SUPPORTED

i, n, d = td.indices("i n d")
x, y, X = td.TensorSymbol("x", n), td.TensorSymbol("y", n), td.TensorSymbol("X", (n, d))
f = td.sum(x**2 * y)
MISFITS = {
    "several variables": (
        lambda: td.gradient(f, x, y),
        "td.gradient(s, wrt) takes 2 positional arguments but 3 were given: several variables are a tuple, "
        "td.gradient(s, (x, y))",
    ),
    "Hessian": (lambda: td.hessian(f, x, x), "several variables are a tuple, td.hessian(s, (x, y))"),
    "hvp": (lambda: td.hvp(f, x, y, x, y), "several variables are a tuple, td.hvp(s, (x, y), v)"),
    "PyTorch": (
        lambda: td.softmax(X, dim=1),
        "td.softmax(A, axis=-1) got an unexpected keyword argument 'dim': write axis=",
    ),
    "keepdim": (lambda: td.sum(X, keepdim=True), "unexpected keyword argument 'keepdim': write keepdims="),
    "spelling": (lambda: td.lambdify([x], f, bakend="numpy"), "keyword argument 'bakend': write backend="),
    "no such thing": (lambda: td.trace(X, where=1), "td.trace(A) got an unexpected keyword argument 'where'"),
    "missing": (lambda: td.greater(x), "td.greater(A, B) missing 1 required positional argument: 'B'"),
    "no shape": (
        lambda: td.TensorSymbol("X"),
        "td.TensorSymbol(name, shape, dtype=float, below=None, *, symmetric=False, positive=False) missing 1 required "
        "positional argument: 'shape': give the shape, td.TensorSymbol(\"X\", (n, m)) with n, m = td.indices(\"n m\")",
    ),
    "texts": (
        lambda: td.TensorSymbol("X", ("n", "d")),
        "an extent must be a SymPy expression or a number, not 'n'; a text is not a symbol: n = td.indices(\"n\") is",
    ),
    "float": (lambda: float(f), "float of sum(y*x**2): an expression has a value once its variables have, "
              "td.evaluate(e, {x: …, y: …})"),
    "int": (lambda: int(x[i]), "int of x[i]: an expression has a value once its variables have, td.evaluate(e, {i: "),
    "complex": (lambda: complex(td.IndexedSum(x[i], (i, 0, n - 1))), "complex of IndexedSum(x[i], (i, 0, n - 1)): "),
}  # fmt: skip


@every("name", list(MISFITS))
def test_misfits(name):
    call, text = MISFITS[name]
    with pytest.raises(ArgumentTypeError, match=re.escape(text)):
        call()


def test_errors_of_the_function_itself_pass():
    with pytest.raises(ArgumentTypeError, match=r"^sum: an axis must be an int, not 'a'"):
        td.sum(X, "a")

    def broken(a):
        return a + None

    with pytest.raises(ArgumentTypeError, match="cannot be called with 1 scalar expressions"):
        td.elementwise(broken, x)


def test_functions_are_themselves():
    assert pickle.loads(pickle.dumps(td.exp)) is td.exp
    assert [*inspect.signature(td.gradient).parameters] == ["s", "wrt"] and td.gradient.__doc__.startswith(
        "The gradient"
    )
    assert td.arcsin is td.asin and td.gradient.__module__ == "sympy_tensordiff.derivative.api"
    assert td.gradient(f, wrt=x) == td.gradient(s=f, wrt=x) == 2 * x * y


@pytest.mark.parametrize("name", sorted(NOT_SUPPORTED))
def test_what_is_not_supported(name):
    assert name not in td.__all__
    with pytest.raises(AttributeError, match=f"no attribute '{name}': {name} is not supported; compute it with NumPy"):
        getattr(td, name)


def test_whole_tensors_as_bodies():
    with pytest.raises(
        UnsupportedError, match=re.escape("(i, n)), or write an entry of it, x[i]; td.sum adds all entries")
    ):
        td.IndexedSum(x, (i, 0, n - 1))
    with pytest.raises(UnsupportedError, match=re.escape("(i, n), (j, d)), or write an entry of it, T[i, j]")):
        td.TensorComprehension(2 * X, (i, n))
    assert np.asarray(td.evaluate(td.IndexedSum(x[i], (i, 0, n - 1)), {x: [1.0, 2.0]})) == 3
