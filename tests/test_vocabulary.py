"""The words that people know from NumPy: each with its value, its gradient and its kernels, in one table."""

from typing import Any

import numpy as np
import pytest
import sympy

import sympy_tensordiff as td

n, m = td.indices("n m")
SIZES = {n: 3, m: 4}
A, B, S = td.TensorSymbol("A", (n, m)), td.TensorSymbol("B", (n, m)), td.TensorSymbol("S", (n, n))
x, y, b = td.TensorSymbol("x", n), td.TensorSymbol("y", n), td.TensorSymbol("b", m)
row, column = td.TensorSymbol("row", (1, m)), td.TensorSymbol("column", (n, 1))
SYMBOLS = [A, B, S, x, y, b, row, column]

WORDS = {
    "a bias": (lambda l: l.S @ l.A + l.b, lambda l: l.S @ l.A + l.b),
    "a row and a column": (lambda l: l.row * l.column - l.b, lambda l: l.row * l.column - l.b),
    "quotient and power": (lambda l: (l.A / l.column) ** l.row, lambda l: (l.A / l.column) ** l.row),
    "extrema": (lambda l: td.maximum(l.A, l.b, l.column), lambda l: np.maximum(np.maximum(l.A, l.b), l.column)),
}  # fmt: skip


class _Letters:
    """The tensors, or arrays, by their names."""

    def __init__(self, values: dict[Any, Any]) -> None:
        vars(self).update({symbol.name: value for symbol, value in values.items()})


@pytest.fixture(scope="module")
def arrays():
    rng = np.random.default_rng(5)
    return {
        symbol: rng.uniform(0.5, 2, [int(sympy.sympify(e).subs(SIZES)) for e in symbol.shape]) for symbol in SYMBOLS
    }


@pytest.mark.parametrize("word", WORDS)
def test_value_gradient_and_kernels(word, arrays):
    expr, by_numpy = WORDS[word][0](_Letters(dict(zip(SYMBOLS, SYMBOLS, strict=True)))), WORDS[word][1]
    expected = by_numpy(_Letters(arrays))
    assert expr.shape == () or len(expr.shape) == np.ndim(expected)
    used = [symbol for symbol in SYMBOLS if symbol in expr.free_symbols]
    weights = td.TensorSymbol("weights", expr.shape)
    fixed = np.random.default_rng(7).uniform(-1, 1, np.shape(expected))
    gradients = td.vjp(expr, tuple(used), weights)
    for backend in ("numpy", "numba"):
        sizes = [size for size in SIZES if not any(size in symbol.shape for symbol in used)]
        sizes = [size for size in sizes if size in expr.free_symbols]
        kernel = td.lambdify((*used, weights, *sizes), (expr, *gradients), backend=backend)
        values = kernel(*(arrays[symbol] for symbol in used), fixed, *(SIZES[size] for size in sizes))
        np.testing.assert_allclose(values[0], expected, rtol=1e-12, atol=1e-13)
        for symbol, gradient in zip(used, values[1:], strict=True):
            np.testing.assert_allclose(gradient, _differences(by_numpy, arrays, symbol, fixed), rtol=1e-6, atol=1e-7)
    assert sympy.latex(expr)
    read = eval(str(expr), {**vars(td), **{symbol.name: symbol for symbol in SYMBOLS}, "n": n, "m": m})
    assert read.shape == expr.shape


def _differences(f, arrays, symbol, weights):
    """Central differences of the sum of weights times the value."""
    result = np.zeros_like(arrays[symbol])
    for at in np.ndindex(result.shape):
        sides = []
        for step in (1e-5, -1e-5):
            moved = arrays[symbol].copy()
            moved[at] += step
            sides.append(np.sum(weights * f(_Letters({**arrays, symbol: moved}))))
        result[at] = (sides[0] - sides[1]) / 2e-5
    return result


@pytest.mark.parametrize(
    ("expr", "text", "formula"),
    [
        (S @ A + b, "S @ A + b", r"S A + \mathbf{1} b^{\top}"),
        (S @ A - 2 * b, "S @ A - 2*b", r"S A - 2 \mathbf{1} b^{\top}"),
        (row * column, "column*row", None),
        (td.gradient(td.sum(td.exp(A + b)), b), "sum(exp(A + b), axis=0)", None),
        (td.exp(A + td.einsum("j,i->ij", b, td.ones(n))), "exp(A + b)", None),
        (td.einsum("j,i->ij", b, td.ones(n)) + 1, "outer(ones(n), b) + 1", None),
    ],
)
def test_repeated_tensors_are_printed_as_they_are_written(expr, text, formula):
    assert str(expr) == text
    assert formula is None or sympy.latex(expr) == formula
