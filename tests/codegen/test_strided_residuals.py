"""The sum inside of a residual is computed once for each entry of the residual, whatever the strides of its reads."""

from __future__ import annotations

import itertools

import numpy as np
import sympy
from every import every
from fuzz.count import count

import sympy_tensordiff as td
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.errors import OutOfShapeError

i, j, k, l = td.indices("i j k l")
I, K = 7, 8


@every("strides", [(1, 1), (1, 2), (2, 1), (3, 2), (2, 3), (4, 6)], ids=str)
def test_sizes_of_their_own(strides):
    """Where the sizes do not fit, the call is refused with a table of the inner sums as it is without."""
    a, b = strides
    n, m, p = sympy.symbols("n m p", integer=True, positive=True)
    x, w, z = td.TensorSymbol("x", n), td.TensorSymbol("w", m), td.TensorSymbol("z", p)
    y = td.IndexedSum(x[a * i + b * k] * w[k], (k, 0, m - 1))
    gradient = td.gradient(td.IndexedSum((y - z[i]) ** 2, (i, 0, p - 1)), x)
    program = build_program([x, w, z], gradient)
    sizes = {"n": a * 29 + b * 19 + 1, "m": 20, "p": 30}
    assert count(program, sizes).iterations == 2 * 20 * 30
    kernels = [td.lambdify([x, w, z], gradient, "numpy", temporaries=kept) for kept in (True, False)]
    rng = np.random.default_rng(0)
    outcomes = []
    for lengths in itertools.product(range(1, 12), (1, 2, 3), (1, 2, 4)):
        arguments = [rng.integers(-4, 5, length).astype(float) for length in lengths]
        found = []
        for kernel in kernels:
            try:
                found.append(kernel(*arguments).tolist())
            except OutOfShapeError as error:
                assert "the sizes of the arguments do not fit" in str(error)
                found.append("refused")
        assert found[0] == found[1], lengths
        outcomes.append(found[0] == "refused")
    assert 10 < sum(outcomes) < len(outcomes) - 10
