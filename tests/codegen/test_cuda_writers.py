"""That no two threads write one entry: kernels of all shapes pass, and each way to break one is seen."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

import sympy_tensordiff as td
from sympy_tensordiff.codegen.printers.cuda_blocks import COMBINED
from sympy_tensordiff.codegen.printers.cuda_writers import check_writers
from sympy_tensordiff.errors import VerificationError

INDICES = td.indices("i j k l")
k, n = td.indices("q n")
x = td.TensorSymbol("x", (300,))
NAMES = ["i", "j", "k", "l"]


def texts(rank):
    """The kernel with one thread per entry and that with one block per entry, of a sum with so many axes."""
    body = td.IndexedSum(x[k] ** (1 + sum(INDICES[:rank])), (k, 0, 299))
    axes = [(index, 2 + number) for number, index in enumerate(INDICES[:rank])]
    source = td.generate_code([x], td.TensorComprehension(body, *axes) if axes else body, "cuda")
    found = re.findall(r"@cuda\.jit\n(def \w+\(.*?)(?=\n\n\n)", source, re.DOTALL)
    assert len(found) == 2
    return [text.replace("result[", "y[") for text in found]


def check(text, rank, is_block):
    check_writers(text, "y", NAMES[:rank], tuple(COMBINED.values()) if is_block else ())


@pytest.mark.parametrize("rank", range(5))
def test_printed_kernels_pass(rank):
    for is_block, text in enumerate(texts(rank)):
        check(text, rank, bool(is_block))


# What is replaced by what in the text of rank, and what is said then.
THREADS = {
    "a coordinate that nothing tells": (
        3,
        "i = cuda.grid(3)",
        "i_ = cuda.grid(3)\n    i = 0",
        "no coordinate of a thread tells i",
    ),
    "rounds that meet": (2, "i += step_y", "i += 1", "no coordinate of a thread tells i"),
    "rounds of another coordinate": (2, "_, step_y", "step_y, _", "no coordinate of a thread tells i"),
    "no condition for a number": (0, "if flat == 0:", "if flat >= 0:", "differ in grid x only"),
    "a remainder by another number": (4, " % 3", " % 2", "differ in grid z only"),
    "a quotient by another number": (4, "//3", "//2", "differ in grid z only"),
    "one place for all": (1, "y[uint64(i)]", "y[0]", "does not depend on i"),
    "a second place": (1, "y[uint64(i)] =", "y[0] = y[uint64(i)] =", "is written in 2 places, not in one"),
}
BLOCKS = {
    "all threads of a row write": (
        1,
        "if cuda.threadIdx.x == 0 and cuda.threadIdx.y == 0:",
        "if cuda.threadIdx.x == 0:",
        "differ in thread y only",
    ),
    "all threads write": (2, "cuda.threadIdx.x == 0 and", "cuda.threadIdx.x >= 0 and", "differ in thread x only"),
    "blocks that compute the same": (2, "i = cuda.blockIdx.y", "i = cuda.blockIdx.x", "differ in block x only"),
    "threads that wait alone": (
        1,
        "    s += block",
        "    if cuda.threadIdx.x:\n        s += block",
        "wait in block_sum",
    ),
}


@pytest.mark.parametrize("name", THREADS)
def test_threads_that_meet(name):
    rank, old, new, message = THREADS[name]
    text = texts(rank)[0]
    assert old in text
    with pytest.raises(VerificationError, match=message):
        check(text.replace(old, new), rank, False)


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_that_meet(name):
    rank, old, new, message = BLOCKS[name]
    text = texts(rank)[1]
    assert old in text
    with pytest.raises(VerificationError, match=message):
        check(text.replace(old, new), rank, True)


def writes(shape, grid, block):
    """How often each entry is written by a kernel of one thread per entry, on a grid that is given."""
    from numba import cuda
    from numba.cuda.simulator.cudadrv.devicearray import FakeCUDAArray

    axes = list(zip(INDICES, shape, strict=False))
    y = td.TensorSymbol("z", shape)
    function = td.lambdify([y], td.TensorComprehension(2 * y[INDICES[: len(shape)]], *axes), "cuda")
    count: Counter[int] = Counter()

    class Counted(np.ndarray):
        def __setitem__(self, place, value):
            count[int(place)] += 1
            super().__setitem__(place, value)

    given = np.arange(float(np.prod(shape)))
    out = FakeCUDAArray(np.zeros(given.shape).view(Counted))
    names = [name for name in vars(function._cuda) if name.startswith("fill_")]
    getattr(function._cuda, names[0])[grid, block](out, cuda.to_device(given))
    assert (out.copy_to_host() == 2 * given).all()
    return sorted(count.items())


# The last ones have fewer threads than entries along y and z.
GRIDS = {
    (7,): (2, 4),
    (3, 5): ((2, 2), (4, 2)),
    (5, 3): ((1, 1), (4, 2)),
    (3, 5, 2): ((1, 1, 2), (2, 2, 1)),
    (2, 3, 3, 2): ((1, 1, 4), (2, 2, 1)),
}


@pytest.mark.parametrize("shape", GRIDS)
def test_each_entry_is_written_once(shape, simulator):
    assert simulator(writes, shape, *GRIDS[shape]) == [(place, 1) for place in range(int(np.prod(shape)))]
