"""Sizes that are rounded quotients of sizes: padded and strided convolutions, pooling, whole tensors."""

import numpy as np
import pytest
from every import every
from exact_checks import assert_kernel_exact
from sympy import Max, Mod, Piecewise, floor

import sympy_tensordiff as td
from sympy_tensordiff.errors import ArgumentError, OutOfShapeError, ShapeError

i, j, k, m, p, q, h, n = td.indices("i j k m p q h n")
x, w, image = td.TensorSymbol("x", h), td.TensorSymbol("w", 3), td.TensorSymbol("image", (h, n))
halves, square = td.TensorSymbol("halves", floor(h / 2)), td.TensorSymbol("square", (floor(h / 2), floor(h / 2)))
padded = Piecewise((x[2 * i + k - 1], (2 * i + k >= 1) & (2 * i + k <= h)), (0, True))
convolved = td.TensorComprehension(td.IndexedSum(padded * w[k], (k, 0, 2)), (i, floor((h - 1) / 2) + 1))
pooled = td.TensorComprehension(
    td.IndexedMax(image[2 * i + k, 2 * j + m], (k, 0, 1), (m, 0, 1)), (i, floor(h / 2)), (j, floor(n / 2))
)
FUNCTIONS = {
    "a padded convolution of stride 2": (convolved, (x, w)),
    "its sum of squares": (td.sum(convolved**2), (x, w)),
    "max pooling": (pooled, (image,)),
    "a sum of pairs": (td.IndexedSum(halves[i] * x[2 * i] * x[2 * i + 1], (i, 0, floor(h / 2) - 1)), (x, halves)),
    "what is repeated": (td.TensorComprehension(halves[floor(i / 2)] ** 2, (i, 2 * floor(h / 2))), (halves,)),
    "a quadratic form": (halves @ square @ halves + td.trace(square.T @ square), (halves, square)),
    "blocks of a product of sizes": (
        td.TensorComprehension(td.IndexedSum(image[i, j] ** 2, (j, 0, n - 1)) * x[i], (i, floor(h * n / n))),
        (image, x),
    ),
    "as many as a remainder": (td.TensorComprehension(x[i] ** 2, (i, Mod(h, 3) + 1)), (x,)),
}


@every("name", [*FUNCTIONS], turns=8)
def test_values_and_derivatives(name):
    function, variables = FUNCTIONS[name]
    for length in (3, 5):
        assert_kernel_exact(function, variables, sizes={h: length, n: 3}, order=1 + (length == 3))


def test_refusals_name_the_size():
    with pytest.raises(ArgumentError, match="h is determined by no array's shape; add it to args"):
        td.lambdify((halves,), td.sum(halves), "numpy")
    run = td.lambdify((halves, x), td.sum(halves) * td.sum(x), "numpy")
    with pytest.raises(
        ArgumentError, match=r"halves has length 3 on axis 0, expected 4, which is floor\(h/2\) with h = 8"
    ):
        run(np.ones(3), np.ones(8))
    with pytest.raises(OutOfShapeError, match=r"write \(i, 0, floor\(h/2\) - 1\)"):
        td.gradient(td.IndexedSum(halves[i] * x[i], (i, 0, h - 1)), x)
    with pytest.raises(
        ShapeError, match=r"extent floor\(h/2\), that of operand 1 \(other\) has extent floor\(h/2\) \+ 1"
    ):
        halves + td.TensorSymbol("other", floor(h / 2) + 1)
    assert halves + td.TensorSymbol("other", floor((h + 2) / 2) - 1) is not None
    assert pooled.shape == (floor(h / 2), floor(n / 2))
    with pytest.raises(td.errors.UnsupportedError, match="maximum"):
        td.TensorSymbol("y", Max(h, n))
