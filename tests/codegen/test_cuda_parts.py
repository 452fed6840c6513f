"""Long sums of few entries in two stages: in the simulator, of which kernels and when; and how loops are cut."""

from __future__ import annotations

import math
import re
from itertools import product

import numpy as np
import pytest
from races import watched
from sympy import exp

import sympy_tensordiff as td
from benchmarks.rows import ROWS
from sympy_tensordiff.codegen.cache import load_source
from sympy_tensordiff.codegen.printers import cuda_parts, cuda_tiles

i, j, k, n, m, p, b = td.indices("i j k n m p b")
x, y = td.TensorSymbol("x", n), td.TensorSymbol("y", (n, m))
A, B = td.TensorSymbol("A", (n, m)), td.TensorSymbol("B", (m, p))
E, F = td.TensorSymbol("E", (n, b, m)), td.TensorSymbol("F", (m, p, b))
C = td.TensorSymbol("C", (b, n, m))

SMALL = cuda_tiles.TILING._replace(across=2, columns=2, rows={4: 2, 8: 1}, depth=2, padding=1)


def matrix(body):
    return td.TensorComprehension(body, (i, n), (j, p))


greatest = td.TensorComprehension(td.IndexedMax(y[i, k], (k, 0, m - 1)), (i, n))

# Arguments, expression, sizes, in what forms, how many parts of which lengths.
CASES = {
    "product": ((A, B), A @ B, {n: 3, m: 7, p: 5}, "threads tiles", [4, 2]),
    "fewer parts": ((A, B), A @ B, {n: 2, m: 5, p: 3}, "threads tiles", [3, 2]),
    "two sums": ((E, F), td.einsum("ibj,jkb->ik", E, F), {n: 3, b: 3, m: 3, p: 2}, "threads tiles", [3, 1, 1, 3]),
    "rounds of both": ((E, F), td.einsum("ibj,jkb->ik", E, F), {n: 2, b: 2, m: 5, p: 3}, "threads tiles", [2, 1, 2, 3]),
    "more than a sum": (
        (A, B),
        matrix(2 * td.IndexedSum(A[i, k + 1] * B[k, j], (k, 1, m - 3)) + A[i, 0]),
        {n: 1, m: 8, p: 2},
        "threads blocks tiles",
        [3, 2],
    ),
    "maximum": ((y,), greatest, {n: 1, m: 6}, "threads blocks", [3, 2]),
    "number": ((x,), td.IndexedSum(exp(x[i]), (i, 0, n - 1)), {n: 9}, "threads blocks", [3, 3]),
    "inner ranges": ((x,), td.IndexedSum(x[i] * x[k], (k, 0, i), (i, 0, n - 1)), {n: 6}, "threads", [3, 2]),
    "three axes": ((C,), td.einsum("bij->bj", C**2), {b: 2, n: 5, m: 3}, "threads", [3, 2]),
}


def in_parts(name, form, dtype):
    """How loops are cut where an array is filled in parts, in one form of the kernel."""
    args, expression, sizes, _, _ = CASES[name]
    rng = np.random.default_rng(5)
    arrays = [rng.uniform(-1, 1, [sizes.get(e, e) for e in arg.shape]).astype(dtype) for arg in args]
    tail = {"threads": "_parts", "blocks": "_parts_in_blocks", "tiles": f"_parts_in_tiles{np.dtype(dtype).itemsize}"}
    cuts = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuda_tiles, "TILING", SMALL)
        patch.setattr(cuda_parts, "BLOCKS", 64)
        function = td.lambdify(args, expression, "cuda")
        module = function._cuda
        parted = module.parted

        def chosen(blocks, least, rounds, *lengths):
            cuts.append(parted(16, 1, rounds, *lengths) if blocks else None)
            return cuts[-1]

        def tiled(batch, rows, columns, rounds, height):
            return batch * -(-rows // height) * -(-columns // SMALL.width) if form == "tiles" else 0

        others = [other for other in vars(module) if other.startswith("fill_") and not other.endswith(tail[form])]
        choices = {"parted": chosen, "tiled": tiled, "shared": lambda shape, lengths: form == "blocks"}
        for other, value in (choices | dict.fromkeys(others)).items():
            patch.setattr(module, other, value, raising=False)
        with watched():
            found = function(*arrays)
    right = td.lambdify(args, expression, "numpy")(*(array.astype(float) for array in arrays))
    assert found.dtype == dtype
    np.testing.assert_allclose(found, right, rtol=1e-12 if dtype == "float64" else 2e-5, atol=1e-6)
    return [cut for cut in cuts if cut]


FORMS = [(name, form) for name, (_, _, _, forms, _) in CASES.items() for form in forms.split()]


@pytest.mark.parametrize(("name", "form"), FORMS)
def test_parts_in_the_simulator(name, form, simulator):
    """Lengths that parts do not divide, one round in a part; each form of a kernel fills the parts."""
    dtype = ("float64", "float32")[len(name + form) % 2]
    assert simulator(in_parts, name, form, dtype) == [CASES[name][-1]]


SOURCE = td.generate_code((A, B), A @ B, "cuda")
PARTED = load_source(SOURCE, "test").parted


def test_how_loops_are_cut():
    """All rounds are in one part, no part is empty or short, and no more blocks than a device has place for."""
    assert PARTED(1, 128, 1, 10**6) == [528, 1894] and PARTED(5, 128, 1, 4, 62, 62) == [4, 1, 21, 3, 1, 62]
    assert PARTED(1, 4096, 9, 100, 3000) == [100, 1, 5, 600]
    assert PARTED(265, 128, 1, 10**6) is None  # each multiprocessor has two blocks already
    assert PARTED(8, 128, 1, 255) is None and PARTED(7, 128, 1, 383) is None and PARTED(8, 128, 1, 384) is not None
    for blocks, rounds, *lengths in product((0, 1, 5, 100), (0, 1, 9), (-1, 0, 1, 4, 700), (1, 62, 10**6)):
        cut = PARTED(blocks, 128, rounds, *lengths)
        if cut is None:
            continue
        parts = math.prod(cut[::2])
        assert 16 <= parts * blocks <= 528 and rounds * math.prod(lengths) >= 128 * parts
        for length, number, size in zip(lengths, cut[::2], cut[1::2], strict=True):
            assert (number - 1) * size < length <= number * size


def test_which_sums_have_parts():
    """The text has kernels for them, and the plan says so."""

    def has_parts(args, expression):
        function = td.lambdify(args, expression, "cuda")
        assert ("parted(" in function.source) == ("in parts, where fewer than 264 blocks have work" in function.plan)
        return "parted(" in function.source

    small, wide = td.TensorSymbol("S", (9, 300)), td.TensorSymbol("R", (300, 70000))
    assert has_parts([y], td.einsum("ij->j", y)) and has_parts([wide], td.einsum("ij->i", wide))
    assert not has_parts([small], td.einsum("ij->i", small))  # too short
    assert not has_parts([wide], td.einsum("ij->j", wide))  # as many entries as there are threads
    assert not has_parts([x], td.TensorComprehension(td.IndexedSum(x[k], (k, 0, i)), (i, n)))  # ranges of their own
    assert not has_parts([x], td.IndexedProduct(x[k], (k, 0, n - 1)))  # factors stay in order


def test_columns_are_summed_side_by_side():
    """Neighbours along a row of memory are threads, not blocks, where there are as many of them."""
    columns, rows = (td.generate_code([y], td.einsum(f"ij->{axis}", y), "cuda") for axis in "ji")
    first = re.search(r"cut = parted\((.*), 96, 1, n\)", columns)[1]
    assert eval(first, {"m": 256}) == 1 and eval(first, {"m": 257}) == 2 and eval(first, {"m": 255}) == 0
    assert columns.index("cut = parted(") < columns.index("blocks = shared(")
    assert rows.index("cut = parted(") > rows.index("blocks = shared(")


@pytest.mark.parametrize("name", [name for name in ROWS if name.startswith("conv-W")])
def test_convolutions_by_weights_fill_a_device(name):
    """In both precisions there are more blocks than multiprocessors."""
    row = ROWS[name]
    source = td.generate_code(*row.ours(row.sizes), "cuda")
    scope = vars(load_source(source, "test"))
    tiled, cut = (re.search(rf" = ({word}.*)", source)[1] for word in ("tiled", "parted"))
    for size in (4, 8):
        tiles = eval(tiled, scope, {"size": size})
        assert tiles * math.prod(eval(cut, scope, {"tiles": tiles})[::2]) >= 132


def test_small_products_of_long_sums_fill_a_device():
    scope = load_source(SOURCE, "test")
    for height in (64, 32):
        tiles = scope.tiled(1, 64, 64, 10**6, height)
        assert tiles * scope.parted(tiles, 128, 1, 10**6)[0] == 528
