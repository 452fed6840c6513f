"""No two threads write one entry: kernels of all ranks on small grids; and each way to break one is seen."""

from __future__ import annotations

import numpy as np
import pytest
from races import Race, watched

import sympy_tensordiff as td

INDICES = td.indices("i j k l")
k = td.indices("q")

# Shapes, and grids and blocks of which the last ones have fewer threads than entries along y and z.
GRIDS = {
    (): ((2,), (2,)),
    (7,): ((2,), (4,)),
    (3, 5): ((2, 2), (4, 2)),
    (5, 3): ((1, 1), (4, 2)),
    (3, 5, 2): ((1, 1, 2), (2, 2, 1)),
    (2, 3, 3, 2): ((1, 1, 4), (2, 2, 1)),
}


def filled(shape, grid, block, old="", new=""):
    """Run a kernel, perhaps with ``new`` in the place of ``old`` in its text."""
    from numba import cuda

    axes = list(zip(INDICES, shape, strict=False))
    x = td.TensorSymbol("x", (12,))
    body = td.IndexedSum(x[k] ** (1 + sum(n * index for n, (index, _) in enumerate(axes, 1))), (k, 0, 11))
    function = td.lambdify([x], td.TensorComprehension(body, *axes) if axes else body, "cuda")
    text = function.source[function.source.index("@cuda.jit\ndef fill_result(") :].partition("\n\n\n")[0]
    assert old in text, text
    exec(text.replace(old, new, 1), vars(function._cuda))
    out, given = cuda.to_device(np.full(int(np.prod(shape)), np.nan)), cuda.to_device(np.full(12, 1.5))
    with watched():
        function._cuda.fill_result[grid, block](out, given)
    weights = sum(n * index for n, index in enumerate(np.indices(shape), 1))
    np.testing.assert_allclose(out.copy_to_host(), np.ravel(12 * 1.5 ** (1 + weights)), rtol=1e-12)


@pytest.mark.parametrize("shape", GRIDS)
def test_each_entry_is_written_once(shape, simulator):
    simulator(filled, shape, *GRIDS[shape])


# The shape, the replaced text, the new text.
BROKEN = {
    "a coordinate that nothing tells": ((3, 5, 2), "i = cuda.grid(3)", "i_ = cuda.grid(3)\n    i = 0"),
    "rounds that meet": ((5, 3), "i += step_y", "i += 1"),
    "no condition for a number": ((), "if flat == 0:", "if flat >= 0:"),
    "a remainder by another number": ((2, 3, 3, 2), " % 3", " % 2"),
    "one place for all": ((7,), "[uint64(i)]", "[0]"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_threads_that_meet(name, simulator):
    shape, old, new = BROKEN[name]
    with pytest.raises(Race):
        simulator(filled, shape, *GRIDS[shape], old, new)
