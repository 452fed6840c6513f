"""Long sums of few entries in two stages: in the simulator, of which kernels and when; and how loops are cut."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from every import every
from races import watched
from sympy import exp

import sympy_tensordiff as td
from sympy_tensordiff.codegen.printers import cuda_parts

i, j, k, n, m, p, b = td.indices("i j k n m p b")
x, y = td.TensorSymbol("x", n), td.TensorSymbol("y", (n, m))
A, B = td.TensorSymbol("A", (n, m)), td.TensorSymbol("B", (m, p))
E, F = td.TensorSymbol("E", (n, b, m)), td.TensorSymbol("F", (m, p, b))
C = td.TensorSymbol("C", (b, n, m))


def matrix(body):
    return td.TensorComprehension(body, (i, n), (j, p))


greatest = td.TensorComprehension(td.IndexedMax(y[i, k], (k, 0, m - 1)), (i, n))

# Arguments, expression, sizes, in what forms, how many parts of which length.
CASES = {
    "product": ((A, B), A @ B, {n: 3, m: 7, p: 5}, "threads blocks", (3, 3)),
    "fewer parts": ((A, B), A @ B, {n: 2, m: 5, p: 3}, "threads", (2, 3)),
    "two sums": ((E, F), td.einsum("ibj,jkb->ik", E, F), {n: 3, b: 5, m: 3, p: 2}, "threads blocks", (5, 1)),
    "more than a sum": (
        (A, B),
        matrix(2 * td.IndexedSum(A[i, k + 1] * B[k, j], (k, 1, m - 3)) + A[i, 0]),
        {n: 1, m: 8, p: 2},
        "threads blocks",
        (2, 3),
    ),
    "no round": (
        (A, B),
        matrix(td.IndexedSum(A[i, k] * B[k, j], (k, 1, m - 3))),
        {n: 2, m: 1, p: 3},
        "threads",
        (1, -2),
    ),
    "maximum": ((y,), greatest, {n: 1, m: 6}, "threads blocks", (3, 2)),
    "number": ((x,), td.IndexedSum(exp(x[i]), (i, 0, n - 1)), {n: 9}, "threads blocks", (4, 3)),
    "inner ranges": ((x,), td.IndexedSum(x[i] * x[k], (k, 0, i), (i, 0, n - 1)), {n: 6}, "threads", (3, 2)),
    "three axes": ((C,), td.einsum("bij->bj", C**2), {b: 2, n: 5, m: 3}, "threads", (2, 3)),
}


def block_per_entry(shape, lengths):
    *others, rows, columns = (1, 1, *shape)
    return (columns, rows, math.prod(others)), (4, 64, 1)


def in_parts(name, form, dtype):
    """How a loop is cut where an array is filled in parts, in one form of the kernel."""
    args, expression, sizes, _, _ = CASES[name]
    rng = np.random.default_rng(5)
    arrays = [rng.uniform(-1, 1, [sizes.get(e, e) for e in arg.shape]).astype(dtype) for arg in args]
    with pytest.MonkeyPatch.context() as patch:
        for limit in ("LEAST_ROUNDS", "LEAST_ROUNDS_OF_BLOCKS"):
            patch.setattr(cuda_parts, limit, 2)
        function = td.lambdify(args, expression, "cuda")
        module = function._cuda
        patch.setattr(module, "shared", block_per_entry if form == "blocks" else lambda *_: None, raising=False)
        others = [other for other in vars(module) if re.fullmatch("fill_.*_parts(_in_blocks)?", other)]
        for other in others:
            if other.endswith("_in_blocks") != (form == "blocks"):
                patch.setattr(module, other, None)
        with watched():
            found = function(*arrays)
    right = td.lambdify(args, expression, "numpy")(*(array.astype(float) for array in arrays))
    assert found.dtype == dtype
    np.testing.assert_allclose(found, right, rtol=1e-12 if dtype == "float64" else 2e-5, atol=1e-6)
    return cut(function.source, {str(size): value for size, value in sizes.items()})


def cut(source, sizes):
    """How many parts there are, and how long they are, for some sizes."""
    scope = dict(sizes)
    for name, text in re.findall(r"^    (\w+_(?:count|length)) = (.*)$", source, re.MULTILINE):
        scope[name] = eval(text, scope)
    return tuple(value for name, value in scope.items() if name.endswith(("_count", "_length")))


FORMS = [(name, form) for name, (_, _, _, forms, _) in CASES.items() for form in forms.split()]


@pytest.mark.parametrize(("name", "form"), FORMS)
def test_parts_in_the_simulator(name, form, simulator):
    """Lengths that parts do not divide, one round in a part, none at all; each form of a kernel fills the parts."""
    dtype = ("float64", "float32")[len(name + form) % 2]
    assert simulator(in_parts, name, form, dtype) == CASES[name][-1]


# Of which sum, for which sizes: parts and their lengths. A device has place for 528 blocks, or for 135168 threads.
NUMBER = ((x,), td.IndexedSum(x[i], (i, 0, n - 1)))
CUTS = {
    "a number": (NUMBER, {"n": 10**7}, (528, 18940)),
    "parts that a block is not too large for": (NUMBER, {"n": 10**6}, (244, 4099)),
    "a short one": (NUMBER, {"n": 8191}, (1, 8191)),
    "no round": (NUMBER, {"n": 0}, (1, 0)),
    "rows": (((y,), td.einsum("ij->i", y)), {"n": 100, "m": 10**5}, (5, 20000)),
    "as many rows as there are blocks": (((y,), td.einsum("ij->i", y)), {"n": 528, "m": 10**5}, (1, 10**5)),
    "columns": (((y,), td.einsum("ij->j", y)), {"n": 10**6, "m": 300}, (450, 2223)),
    "short columns": (((y,), td.einsum("ij->j", y)), {"n": 300, "m": 300}, (3, 100)),
    "as many columns as there are threads": (((y,), td.einsum("ij->j", y)), {"n": 10**3, "m": 135168}, (1, 1000)),
    "sums of sums": (((A, B), A @ B), {"n": 8, "m": 10**6, "p": 8}, (8, 125000)),
}


@every("function, sizes, wanted", CUTS)
def test_how_loops_are_cut(function, sizes, wanted):
    """No part is short, and there are no more parts than a device has place for."""
    assert cut(td.generate_code(*function, "cuda"), sizes) == wanted


def test_which_sums_have_parts():
    """The text has kernels for them, and the plan says so."""

    def has_parts(args, expression):
        function = td.lambdify(args, expression, "cuda")
        assert ("result_parts" in function.source) == ("in parts, of up to 528 blocks in all" in function.plan)
        return "result_parts" in function.source

    small, wide = td.TensorSymbol("S", (9, 300)), td.TensorSymbol("R", (300, 70000))
    long = td.TensorSymbol("L", (200, 70000))
    assert has_parts([y], td.einsum("ij->j", y)) and has_parts([long], td.einsum("ij->i", long))
    assert not has_parts([wide], td.einsum("ij->i", wide))  # as many entries as half of the blocks
    assert not has_parts([small], td.einsum("ij->i", small))  # too short
    assert not has_parts([wide], td.einsum("ij->j", wide))  # as many entries as there are threads
    assert not has_parts([x], td.TensorComprehension(td.IndexedSum(x[k], (k, 0, i)), (i, n)))  # ranges of their own
    assert not has_parts([x], td.IndexedProduct(x[k], (k, 0, n - 1)))  # factors stay in order


def test_columns_are_summed_side_by_side():
    """Neighbours along a row of memory are threads, not blocks, where there may be many of them."""
    few = td.TensorSymbol("few", (n, 3))
    columns, rows, short = (
        td.generate_code([t], td.einsum(f"ij->{axis}", t), "cuda") for t, axis in ((y, "j"), (y, "i"), (few, "j"))
    )
    assert "_in_blocks" not in columns and "_parts_in_blocks" in rows and "_parts_in_blocks" in short
