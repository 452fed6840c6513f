"""The function of the paper's section 6, with inputs of a chosen size: what demo and benchmark run.

``f[i, j] = exp(-Sum_k ((a[i, k] + b[j, k])**2 * c[i, i] + d[i + k]**3))``
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import sympy

import sympy_tensordiff as td

Array: TypeAlias = npt.NDArray[np.float64]
Sizes: TypeAlias = tuple[int, int, int]

PAPER_SIZES: Sizes = (300, 300, 64)
# Both parts of the exponent stay within +-EXPONENT, so f lies in exp(-2.2) ... exp(2.2).
EXPONENT = 1.1


class Problem(NamedTuple):
    """The function ``f``, its four variables and the cotangent ``df``."""

    function: Any
    variables: tuple[Any, ...]
    cotangent: Any


def problem(sizes: Sizes = PAPER_SIZES) -> Problem:
    """The function with extents ``sizes = (I, J, K)``.

    >>> problem((3, 4, 5)).variables
    (a, b, c, d)
    """
    rows, columns, terms = sizes
    i, j, k = td.indices("i j k")
    a = td.TensorSymbol("a", (rows, terms))
    b = td.TensorSymbol("b", (columns, terms))
    c = td.TensorSymbol("c", (rows, rows))
    d = td.TensorSymbol("d", rows + terms - 1)
    body = (a[i, k] + b[j, k]) ** 2 * c[i, i] + d[i + k] ** 3
    total = td.IndexedSum(body, (k, 0, terms - 1))
    f = td.TensorComprehension(sympy.exp(-total), (i, rows), (j, columns))
    return Problem(f, (a, b, c, d), td.TensorSymbol("df", (rows, columns)))


def inputs(sizes: Sizes = PAPER_SIZES, seed: int = 0) -> tuple[Array, ...]:
    """Random ``a, b, c, d, df``, scaled so that f lies within 0.1 ... 10 at any size.

    The entries of c and d keep away from 0, where their derivatives vanish and a relative error
    of a difference quotient says nothing.
    """
    rows, columns, terms = sizes
    rng = np.random.default_rng(seed)
    a = rng.uniform(-0.3, 0.3, (rows, terms))
    b = rng.uniform(-0.3, 0.3, (columns, terms))
    c = _away_from_zero(rng, (rows, rows))
    d = _away_from_zero(rng, (rows + terms - 1,))
    squares = (a * a).sum(1)[:, None] + (b * b).sum(1)[None, :] + 2 * a @ b.T
    c *= EXPONENT / np.abs(np.diag(c)[:, None] * squares).max()
    cubes = np.convolve(d**3, np.ones(terms), mode="valid")
    d *= np.cbrt(EXPONENT / np.abs(cubes).max())
    return a, b, c, d, rng.standard_normal((rows, columns))


def _away_from_zero(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    signs = rng.choice(np.array([-1.0, 1.0]), shape)
    return np.asarray(signs * rng.uniform(0.5, 1.0, shape))
