"""Sums of products in tiles: in the simulator, of which kernels and when; and each way to break them is seen."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest
from races import Race, watched
from sympy import exp

import sympy_tensordiff as td
from sympy_tensordiff.codegen.cache import load_source
from sympy_tensordiff.codegen.printers import cuda_tiles

i, j, k, n, m, p, b, q = td.indices("i j k n m p b q")
A, B = td.TensorSymbol("A", (n, m)), td.TensorSymbol("B", (m, p))
C, D = td.TensorSymbol("C", (b, n, m)), td.TensorSymbol("D", (b, m, p))
E, F = td.TensorSymbol("E", (n, b, m)), td.TensorSymbol("F", (m, p, b))
H = td.TensorSymbol("H", (m, p, b, q))
X, Y = td.TensorSymbol("X", (2, 2, 7, 8)), td.TensorSymbol("dY", (2, 3, 3, 4))

TINY = cuda_tiles.TILING._replace(across=2, columns=2, rows={4: 2, 8: 1}, depth=2, padding=1)
SMALL = TINY._replace(least_tiles=0, least_rounds=0)
"""Blocks of four threads: in the simulator, each is one of Python."""


def matrix(body, columns=p):
    return td.TensorComprehension(body, (i, n), (j, columns))


def weights():
    """Of a convolution with stride 2, by its weights: rows are features, columns channels and offsets."""
    c, f, r, s = td.indices("c f r s")
    W = td.TensorSymbol("W", (3, 2, 2, 2))
    terms = td.IndexedSum(X[b, c, 2 * i + r, 2 * j + s] * W[f, c, r, s], (c, 0, 1), (r, 0, 1), (s, 0, 1))
    return td.vjp(td.TensorComprehension(terms, (b, 2), (f, 3), (i, 3), (j, 4)), W, Y)


# Arguments, expression, sizes.
CASES = {
    "matrices": ((A, B), A @ B, {n: 5, m: 3, p: 7}),
    "numbers": ((A, B), A @ B, {n: 1, m: 1, p: 1}),
    "turned": ((A, B), -3 * td.einsum("ij,jk->ki", A, B), {n: 5, m: 4, p: 3}),
    "batch": ((C, D), td.einsum("bij,bjk->ibk", C, D), {b: 2, n: 3, m: 5, p: 2}),
    "two sums": ((E, F), td.einsum("ibj,jkb->ik", E, F), {n: 3, b: 3, m: 2, p: 5}),
    "several axes": ((E, H), td.einsum("ibj,jklm->iklbm", E, H), {n: 2, b: 3, m: 2, p: 3, q: 2}),
    "convolution": ((X, Y), weights(), {}),
    "functions": ((A, B), matrix(td.IndexedSum(exp(A[i, k]) * B[k, j], (k, 0, m - 1))), {n: 3, m: 3, p: 2}),
    "part of a range": (
        (A, B),
        matrix(2 * td.IndexedSum(A[i, k + 1] * B[k, j], (k, 1, m - 3)) + A[i, 0]),
        {n: 3, m: 6, p: 3},
    ),
    "empty range": ((A, B), matrix(td.IndexedSum(A[i, k] * B[k, j], (k, 1, m - 3))), {n: 2, m: 1, p: 3}),
    "rounds of all offsets": (
        (A, B),
        matrix(td.IndexedSum(A[i, k] * B[k, j] * exp(B[q, j]), (q, 0, 1), (k, 0, 2))),
        {n: 3, m: 3, p: 3},
    ),
}


def grid(batch, rows, columns, rounds, height):
    """However few entries and rounds there are."""
    return batch * -(-rows // height) * -(-columns // SMALL.width)


def in_tiles(name, dtype, old="", new=""):
    """One in which nobody meets; else with ``new`` in the place of ``old`` in the text of the kernel."""
    args, expression, sizes = CASES[name]
    rng = np.random.default_rng(5)
    arrays = [rng.uniform(-1, 1, [sizes.get(e, e) for e in arg.shape]).astype(dtype) for arg in args]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuda_tiles, "TILING", SMALL)
        function = td.lambdify(args, expression, "cuda")
        module = function._cuda
        tiled = [name.partition("_in_tiles")[0] for name in vars(module) if name.endswith("_in_tiles4")]
        assert tiled
        patch.setattr(module, "tiled", grid)
        patch.setattr(module, "parted", lambda *numbers: None, raising=False)
        for other in [one + tail for one in tiled for tail in ("", "_in_blocks")]:
            patch.setattr(module, other, None, raising=False)
        if old:
            text = function.source[function.source.index("@cuda.jit(**LIMITED)") :].partition("\n\n\n")[0]
            text, count = re.subn(old, new, text, count=1)
            assert count == 1, text
            exec(text, vars(module))
        with watched():
            found = function(*arrays)
    right = td.lambdify(args, expression, "numpy")(*(array.astype(float) for array in arrays))
    assert found.dtype == dtype
    np.testing.assert_allclose(found, right, rtol=1e-12 if dtype == "float64" else 2e-5, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_tiles_in_the_simulator(name, simulator):
    """Sizes that tiles do not divide, one entry, no round; each type of numbers has tiles of its own height."""
    simulator(in_tiles, name, ("float64", "float32")[len(name) % 2])


def test_which_kernels_have_tiles():
    def has_tiles(args, expression):
        return "in_tiles" in td.generate_code(args, expression, "cuda")

    x, y = td.TensorSymbol("x", n), td.TensorSymbol("y", m)
    assert has_tiles((A, B), A @ B)
    others = [
        ((A, y), A @ y),  # no entries share the matrix
        ((x, y), td.einsum("i,j->ij", x, y)),  # no sum
        ((C, D), td.einsum("bij,bjk->ikb", C, D)),  # neighbours share nothing
        ((A, B), matrix(td.IndexedSum((A[i, k] + B[k, j]) ** 2, (k, 0, m - 1)))),  # no product
        ((A, B), matrix(td.IndexedSum(A[i, k] * B[k, j], (k, 0, i)))),  # ranges of their own
        ((A, B), matrix(td.IndexedMax(A[i, k] * B[k, j], (k, 0, m - 1)))),
    ]
    assert not any(has_tiles(*other) for other in others)
    small, wide = (td.TensorSymbol(name, (extent, extent)) for name, extent in (("S", 60), ("R", 600)))
    assert not has_tiles([small], small @ small) and has_tiles([wide], wide @ wide)


def test_when_there_are_tiles():
    """The plan says it, and the rule for sizes that are numbers is the one that the module has."""
    function = td.lambdify((A, B), A @ B, "cuda")
    assert "in tiles, from 16 tiles of 64 (numbers of 4 bytes) or 32 (numbers of 8 bytes) times 64" in function.plan
    assert function.plan.count("in tiles") == 1 and "in tiles" not in td.lambdify([A], 2 * A, "cuda").plan
    tiled = load_source(function.source, "test").tiled
    assert tiled(3, 257, 500, 16, 64) == 3 * 5 * 8
    sizes = [(1, 3), (1, 31, 33, 255, 256), (8, 33, 256), (15, 16), (32, 64)]
    for numbers in product(*sizes):
        assert tiled(*numbers) == cuda_tiles.tile_number(*numbers)


# What is replaced by what in the text, and what is said then.
ENTRY, TILE, WAITS = "meet at entry .* of an array", "meet at entry .* of shared", "wait where others do not come by"
BROKEN = {
    "entries of neighbours": (r"thread//2\*2", "thread//2*1", ENTRY),
    "tiles that overlap": (r"% \(\(p \+ 3\)//4\)\*4", "% ((p + 3)//4)*2", ENTRY),
    "blocks that do the same": (r"left = block % \(\(p \+ 3\)//4\)\*4", "left = 0", ENTRY),
    "threads that do the same": (r"column = thread % 2", "column = thread % 1", ENTRY),
    "one place of shared memory": (r"row_tile\[near, far", "row_tile[near, 0", TILE),
    "no wait for what is read": (r"\n +cuda\.syncthreads\(\)(\n +at = 0)", r"\1", TILE),
    "no wait for those who read": (r"\n +cuda\.syncthreads\(\)(\n +first \+= 2)", r"\1", TILE),
    "some wait": (r"( +)cuda\.syncthreads\(\)", r"\1if thread < 2:\n\1    cuda.syncthreads()", f"{TILE}|{WAITS}"),
    "rounds of their own": ("while first < m:", "while first < m + thread:", f"{TILE}|{WAITS}"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_tiles_that_meet(name, simulator):
    old, new, message = BROKEN[name]
    with pytest.raises(Race, match=message):
        simulator(in_tiles, "matrices", "float32", old, new)
