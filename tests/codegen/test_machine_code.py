"""The machine code of CUDA's kernels: counted, where NVIDIA's assembler is installed."""

from __future__ import annotations

import os
import re
from itertools import product

import assembler
import pytest
from programs import CASES

import sympy_tensordiff as td
from benchmarks.rows import ROWS
from sympy_tensordiff.codegen.cache import load_source
from sympy_tensordiff.codegen.compile import print_source
from sympy_tensordiff.codegen.loops import Scatter
from sympy_tensordiff.codegen.walk import function_name

pytestmark = pytest.mark.skipif(
    assembler.tools() is None or "NUMBA_ENABLE_CUDASIM" in os.environ,
    reason="needs pip install '.[ptx]'",
)

SLOW_PATH = re.compile(r"\bmath\.(sin|cos|tan)\(")
"""Of large arguments, these take a way with a table and double precision."""


def printed(name):
    """The program and the module of a row of the benchmarks, or of a small program."""
    if name in CASES:
        program = CASES[name][0]
        return program, print_source(program, "cuda")
    row = ROWS[name]
    function = td.lambdify(*row.ours(row.sizes), "cuda")
    return function._bounded, function.source


def check(name, folder, variants):
    program, source = printed(name)
    module = load_source(source, "test")
    scatters = {function_name(s) for s in program.kernels if isinstance(s, Scatter) and not s.exclusive}
    for number, kernel in enumerate(assembler.kernels(module)):
        text = source[source.index(f"def {kernel}(") :].partition("\n\n\n")[0]
        dtype, capability = variants[number % len(variants)]
        dtype = {"4": "float32", "8": "float64"}[kernel[-1]] if "_in_tiles" in kernel else dtype
        machine = assembler.assemble(module, program, kernel, dtype, capability, folder)
        where = f"{name}: {kernel} for {dtype} on sm_{capability[0]}{capability[1]}"
        assert not machine.is_spilled, where
        assert machine.registers <= 64, where
        assert machine.has_atomics == (kernel in scatters), where
        assert not machine.has_local_memory or SLOW_PATH.search(text), where
        if dtype == "float32":
            assert not machine.has_doubles or SLOW_PATH.search(text), where
        if "_in_tiles" in kernel:
            found = machine.products()
            assert found["integers"] <= 0.6 * found["products"], f"{where}: {found}"
        elif is_counted(text):
            loads, integers = machine.innermost()
            assert integers <= 5 * loads or not loads, f"{where}: {integers} for {loads} loads"


n, m, p, b = td.indices("n m p b")
A, B = td.TensorSymbol("A", (n, m)), td.TensorSymbol("B", (m, p))
G, H = td.TensorSymbol("G", (n, m, b)), td.TensorSymbol("H", (b, p, m))
TILES = {"matrices": ((A, B), A @ B), "several axes": ((G, H), td.einsum("ijb,bkl->ikjl", G, H))}


@pytest.mark.parametrize("size", [4, 8])
@pytest.mark.parametrize("name", TILES)
def test_tiles(name, size, tmp_path, thorough):
    """A number from shared memory enters several products, and few integers are computed for them."""
    function = td.lambdify(*TILES[name], "cuda")
    module = load_source(function.source, "test")
    capabilities = ((8, 0), (9, 0), (10, 0))
    turn = (size // 4 + len(name)) % 3
    chosen = [(("result", "result_parts")[(size // 4 + len(name) // 2) % 2], capabilities[turn])]
    for array, capability in product(("result", "result_parts"), capabilities) if thorough else chosen:
        kernel = f"fill_{array}_in_tiles{size}"
        machine = assembler.assemble(module, function.program, kernel, f"float{8 * size}", capability, tmp_path)
        assert not machine.is_spilled and not machine.has_local_memory and not machine.has_atomics
        assert machine.registers <= 64 and not (size == 4 and machine.has_doubles)
        found = machine.products()
        assert found["products"] >= {4: 8, 8: 1.6}[size] * found["shared"] > 0
        assert found["integers"] <= 0.6 * found["products"]


@pytest.mark.parametrize("number", range(2))
def test_blocks_of_two_loops(number, tmp_path):
    """Where the length of the inner loop is a number, threads go on in steps that are numbers."""
    z = td.TensorSymbol("z", (n, 600))
    function = td.lambdify(z, td.einsum("ij,ij->", z, z), "cuda")
    kernel = ("fill_result_in_blocks", "fill_result_parts_in_blocks")[number]
    module, capability = load_source(function.source, "test"), ((8, 0), (9, 0))[number]
    loads, integers = assembler.assemble(module, function.program, kernel, "float32", capability, tmp_path).innermost()
    assert 0 < integers <= 5 * loads


def is_counted(text):
    """Whether a kernel has long sums whose values take integers for nothing but places, and these are affine."""
    rounds = re.findall(r"while (\w+) < (\w+):", text)
    steps = [(stop, re.search(rf"\b{variable} \+= (1|256)$", text, re.MULTILINE)) for variable, stop in rounds]
    loops = [(stop, int(step[1])) for stop, step in steps if step]
    # Short loops are unrolled, which makes one of those over the grid the innermost, or their counting is most of them.
    is_long = bool(loops) and not (loops[-1][0].isdigit() and int(loops[-1][0]) < 32 * loops[-1][1])
    # Functions take numbers apart as integers; places that data or quotients tell have to be computed. The compiler
    # cannot unroll loops of blocks whose width is found at the call.
    other = re.search(r"math\.|//|%|max\(|min\(|real\([a-z]|uint64\([^)]*\[|\+= cuda", text)
    return is_long and not other and re.search(r" \+= .*\[", text) is not None


# Each kernel is assembled once: types and architectures take turns, single precision twice as often.
VARIANTS = [("float32", (9, 0)), ("float32", (10, 0)), ("float64", (9, 0)), ("float32", (8, 0))]
ALL = [[(dtype, capability)] for dtype in ("float32", "float64") for capability in ((8, 0), (9, 0), (10, 0))]


@pytest.mark.parametrize(
    "name",
    [
        "masks",
        "reductions",
        "scattered_rows",
        *(pytest.param(n, marks=pytest.mark.thorough) for n in ("elementary", "rank_five")),
    ],
)
def test_programs(name, tmp_path):
    check(name, tmp_path, VARIANTS[:2])


# Long sums, tables, windows, quotients, sums in blocks and in parts: the kernels of the other rows, and those of other
# strides and dilations of convolutions, are made of the same.
SOME = ("paper", "logistic-gradient", "cross-entropy", "fir", "conv-W-1-3")


@pytest.mark.parametrize("name", [pytest.param(row, marks=() if row in SOME else pytest.mark.thorough) for row in ROWS])
def test_rows(name, tmp_path, thorough):
    turn = len(name) % 4
    for variants in ALL if thorough else [VARIANTS[turn:] + VARIANTS[:turn]]:
        check(name, tmp_path, variants)
