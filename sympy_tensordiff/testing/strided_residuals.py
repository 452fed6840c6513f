"""Random sums of squares of strided sums minus data: values of kernels, and how many steps their loops take."""

from __future__ import annotations

import random
from math import gcd

import numpy as np

from sympy_tensordiff.codegen.api import build_program, lambdify
from sympy_tensordiff.codegen.count import count
from sympy_tensordiff.derivative.api import gradient
from sympy_tensordiff.errors import VerificationError
from sympy_tensordiff.symbolic.indices import indices
from sympy_tensordiff.symbolic.sums import IndexedSum
from sympy_tensordiff.symbolic.tensors import TensorSymbol
from sympy_tensordiff.testing.exact import assert_equal


def check_strides(seed: int) -> None:
    """Check the gradient of ``Sum_i (Sum_k x[a*i + b*k + c]*w[k] - z[i])**2`` by x and w, for coprime a and b.

    The sizes are numbers, or symbols that are tied or independent.

    Raises
    ------
    DerivativeMismatch
        A value differs from that of NumPy, tuple by tuple.
    VerificationError
        The loops take more steps than three for each tuple: an inner sum is computed again and again.
    """
    rng = random.Random(seed)
    a, b = rng.choice([(a, b) for a in range(1, 12) for b in range(1, 12) if gcd(a, b) == 1])
    rows, columns, offset = rng.randint(2, 12), rng.randint(2, 12), rng.choice((0, 0, 1, 5))
    length = a * (rows - 1) + b * (columns - 1) + 1 + offset
    i, k, n, m, p = indices("i k n m p")
    shapes = rng.choice(
        ((length, columns, rows), (a * (p - 1) + b * (m - 1) + 1 + offset, m, p), (n, m, p)),
    )
    x, w, z = (TensorSymbol(name, extent) for name, extent in zip("xwz", shapes, strict=True))
    residual = IndexedSum(x[a * i + b * k + offset] * w[k], (k, 0, shapes[1] - 1)) - z[i]
    by_both = gradient(IndexedSum(residual**2, (i, 0, shapes[2] - 1)), (x, w))

    steps = count(build_program([x, w, z], by_both), {"n": length, "m": columns, "p": rows}).iterations
    if steps > 3 * rows * columns:
        raise VerificationError(f"strides {a} and {b}, {shapes}: {steps} steps for {rows * columns} pairs of i and k")
    draw = np.random.default_rng(seed)
    values = [draw.integers(-4, 5, extent).astype(float) for extent in (length, columns, rows)]
    windows = a * np.arange(rows)[:, None] + b * np.arange(columns) + offset
    slopes = 2 * (values[0][windows] @ values[1] - values[2])
    expected = np.zeros(length)
    np.add.at(expected, windows, np.outer(slopes, values[1]))
    found = lambdify([x, w, z], by_both, "numpy")(*values)
    assert_equal(found[0], expected, f"strides {a} and {b}, {shapes}: the gradient by x", 1e-12)
    assert_equal(found[1], slopes @ values[0][windows], f"strides {a} and {b}, {shapes}: the gradient by w", 1e-12)
