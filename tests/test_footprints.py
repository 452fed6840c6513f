"""Blocks read exactly the entries that a damaged argument shows, as slices that could not be shorter."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import sympy
from every import every

import sympy_tensordiff as td

pytest.importorskip("dask")

from test_distributed import (
    ROWS,
    SIZES,
    X,
    dilated,
    gaussian,
    i,
    in_blocks,
    inputs,
    k,
    long,
    m,
    n,
    strided,
    variation,
    w3,
    x,
    y,
)

FOOTPRINTS = {name: ROWS[name] for name in ("strided", "prefix sums", "neighbours", "reversed", "halves", "mttkrp")} | {
    "pullback": ((long, w3, y), td.vjp(strided, long, y), {n: 3}),
    "of a square": ((long, w3), td.gradient(dilated, long), {n: 3}),
    "of variation": ((X,), td.gradient(variation, X), {n: 3, m: 2}),
    "of pairs": ((X, y), td.gradient(gaussian, X), {n: 4}),
    "squares": (
        (x,),
        td.TensorComprehension(
            td.IndexedSum(sympy.Piecewise((x[k], (i - k) ** 2 <= 2), (0, True)), (k, 0, n - 1)), (i, n)
        ),
        {n: 3},
    ),
    "tail": ((x,), td.TensorComprehension(td.IndexedSum(x[k], (k, i, n - 1)), (i, n)), {n: 3}),
}


def assert_tight(args: Any, expr: Any, blocks: Any) -> None:
    """NaN in an entry reaches an output of the single kernel if, and only if, the output reads it."""
    function = td.lambdify(args, expr, "dask-numpy", blocks=blocks)
    arrays = inputs(args)
    function(*arrays)
    single = td.lambdify(args, expr, "numpy")
    kernel = function.kernels[-1]
    loops = [axis[2] for axis in kernel.parts[0].axes]
    for arg, array in zip(args, arrays, strict=True):
        reached: dict[tuple[int, ...], Any] = {}
        for entry in np.ndindex(array.shape):
            damaged = array.copy()
            damaged[entry] = np.nan
            reached[entry] = np.isnan(single(*(damaged if a is array else a for a in arrays)))
        for block in every_block(function, kernel):
            at = dict(zip(kernel.loops, block, strict=True))
            part = tuple(slice(at[o] * o.block, (at[o] + 1) * o.block) if o else slice(None) for o in loops)
            read = [entry for entry, where in reached.items() if where[part].any()]
            hull = [slice(min(c), max(c) + 1) for c in zip(*read, strict=True)] or [slice(0, 0)] * array.ndim
            loaded = union_over_reductions(function, kernel, block, arg.name) or (slice(0, 0),) * array.ndim
            assert loaded == tuple(hull), (expr, arg, block, loaded, hull)


@every("name", list(FOOTPRINTS))
def test_footprints_are_the_entries_that_are_read(name: str) -> None:
    assert_tight(*FOOTPRINTS[name])


def random_reads(rng: random.Random) -> Any:
    """A sum over entries of ``long``, whose index has a stride, an offset, a condition, a clamp, a period."""
    low, high = rng.choice([(0, 2), (0, i), (i, n - 1), (sympy.Max(0, i - 2), i), (0, n - 1), (1, sympy.floor(i / 2))])
    a, b, c = rng.choice([1, 1, 2, -1]), rng.choice([1, 1, 2, 3, -1]), rng.randint(-3, 6)
    index = a * i + b * k + c + (n if a < 0 or b < 0 else 0)
    kind = rng.choice(["plain", "plain", "quotient", "clamped", "periodic"])
    if kind == "quotient":
        index = sympy.floor(index / rng.choice([2, 3]))
    if kind == "clamped":
        index = sympy.Min(sympy.Max(index, 0), 2 * n)
    if kind == "periodic":
        index, low, high = sympy.Mod(i + k + c, 2 * n + 1), 0, rng.randint(0, 3)
    inside = sympy.And(index >= 0, index <= 2 * n)
    body = long[index] if kind in ("periodic", "clamped") else sympy.Piecewise((long[index], inside), (0, True))
    if rng.random() < 0.4:
        condition = rng.choice([i >= k + 1, 2 * k <= i, k > i - 3, i + k < n])
        body = sympy.Piecewise((body, condition), (0, True))
    return td.TensorComprehension(td.IndexedSum(body, (k, low, high)), (i, n))


def test_random_footprints_are_tight() -> None:
    rng = random.Random(0)
    for _ in range(10):
        assert_tight((long,), random_reads(rng), {n: rng.randint(2, 5)})


def every_block(function: Any, kernel: Any) -> list[tuple[int, ...]]:
    counts = []
    for loop in kernel.loops:
        whole = loop.range.range({"n": 11, "m": 5, "r": 2, "p": 3})
        counts.append(-(-len(whole) // loop.block))
    return list(np.ndindex(*counts))


def union_over_reductions(function: Any, kernel: Any, block: Any, name: str) -> tuple[slice, ...]:
    """Return the entries that all blocks of the sums together load for one block of the result."""
    reduced = [o in kernel.parts[0].loops for o in kernel.loops]
    same = [
        b for b in every_block(function, kernel) if all(r or u == v for r, u, v in zip(reduced, b, block, strict=True))
    ]
    cuts = [cut for cut in (function.footprint(b)[name] for b in same) if all(c.stop > c.start for c in cut)]
    return tuple(slice(min(c.start for c in axis), max(c.stop for c in axis)) for axis in zip(*cuts, strict=True))


def runs(kernel: Any, block: Any, arrays: Any) -> Any:
    """The bytes of what a kernel makes of a block."""
    given = [array if cut is None else array[cut] for array, cut in zip(arrays, block.cuts, strict=True)]
    with np.errstate(all="ignore"):
        results = kernel.function(*given, *block.integers)
    return [np.asarray(result).tobytes() for result in results]


def shows(kernel: Any, block: Any, arrays: Any, number: int, slab: Any) -> bool:
    """Return whether other values of a slab of an input change what the kernel makes of the block."""
    before = runs(kernel, block, arrays)
    for change in (1e3, -1e3) if arrays[number].dtype.kind == "f" else (1, 2):
        other = arrays[number].copy()
        other[slab] = other[slab] + change if change in (1e3, -1e3) else (other[slab] + change) % SIZES[m]
        if runs(kernel, block, [other if own is arrays[number] else own for own in arrays]) != before:
            return True
    return False


@every("name", [name for name in ROWS if name != "scatter"])  # there data decide what is read
def test_both_ends_of_each_slice_are_read(name: str) -> None:
    """Of all kernels, stages too. That nothing is missing is seen in the numbers of the single kernel."""
    args = ROWS[name][0]
    function = in_blocks(name)
    function(*inputs(args))
    sizes = {str(size): value for size, value in SIZES.items()}
    count = 0
    for kernel in function.kernels:
        # An input for each part of an argument, so that only this part is changed.
        arrays = [inputs([one.arg])[0] if one.cuts else 1.5 for one in kernel.inputs]
        for block in function._blocks(kernel, sizes):
            at = {loop: loop.grid(sizes)[k] for loop, k in zip(kernel.loops, block.position, strict=True)}
            for place, one in enumerate(kernel.inputs):
                cut = one.slices(kernel.values(at, sizes), np.shape(arrays[place])) or ()
                for axis, own in enumerate(cut):
                    if any(ranges.axes[axis] is None for ranges in one.ranges):  # data select the entries
                        continue
                    for end in {own.start, own.stop - 1}:
                        slab = (*cut[:axis], slice(end, end + 1), *cut[axis + 1 :])
                        assert shows(kernel, block, arrays, place, slab), (block.position, one.arg, cut, slab)
                        count += 1
    assert count > 5
