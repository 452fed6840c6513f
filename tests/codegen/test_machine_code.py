"""The machine code of CUDA's kernels: counted, where NVIDIA's assembler is installed."""

from __future__ import annotations

import os
import re
from functools import partial

import assembler
import pytest
from programs import CASES

import sympy_tensordiff as td
from benchmarks.rows import ROWS
from sympy_tensordiff.codegen.ir.programs import Scatter
from sympy_tensordiff.codegen.ir.walk import function_name
from sympy_tensordiff.codegen.run.cache import load_source
from sympy_tensordiff.codegen.run.compile import print_source
from sympy_tensordiff.codegen.schedule.gpu_model import REGISTERS, TILE_REGISTERS, figures
from sympy_tensordiff.codegen.schedule.launches import on_device
from sympy_tensordiff.codegen.schedule.passes import prepared

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
    return function.program, function.source


def check(name, folder, variants):
    program, source = printed(name)
    module = load_source(source, "test")
    sizes = {str(atom) for argument in program.arguments for form in argument.shape for atom in form.atoms()}
    sizes |= {argument.name for argument in program.arguments if argument.kind == "integer"}
    costs = figures(on_device(prepared(program, "cuda")), dict.fromkeys(sizes, 99))
    model = {one.name: one.iterations for one in costs}
    scatters = {function_name(s) for s in program.kernels if isinstance(s, Scatter) and not s.exclusive}
    for number, kernel in enumerate(assembler.kernels(module)):
        text = source[source.index(f"def {kernel}(") :].partition("\n\n\n")[0]
        dtype, capability = variants[number % len(variants)]
        machine = assembler.assemble(module, program, kernel, dtype, capability, folder)
        where = f"{name}: {kernel} for {dtype} on sm_{capability[0]}{capability[1]}"
        assert not machine.is_spilled, where
        # The program "reductions" has twenty of them in one thread.
        most = TILE_REGISTERS if "shared.array" in text or name == "reductions" else REGISTERS
        assert machine.registers <= most, where
        assert machine.has_atomics == (kernel in scatters), where
        assert not machine.has_local_memory or SLOW_PATH.search(text), where
        if dtype == "float32":
            assert not machine.has_doubles or SLOW_PATH.search(text), where
        if (name, kernel) not in DUPLICATED and not SLOW_PATH.search(text):
            found = machine.reads(dtype)
            agree = all(any(map(partial(is_unrolled, pair), model[kernel])) for pair in found)
            assert agree, f"{where}: {found}, and by the model {model[kernel]}"
        if is_counted(text):
            loads, integers = machine.innermost()
            assert integers <= 5 * loads or not loads, f"{where}: {integers} for {loads} loads"


DUPLICATED = {("variation", "fill_result")}
"""Kernels in which the compiler copies what follows a guard into both of its branches, with the reads there."""


def is_unrolled(pair, iteration):
    """Return whether the reads of a loop in machine code are those of some iterations of the model's."""
    own = iteration[:2]
    rounds = max(a // b if b else 0 for a, b in zip(pair, own, strict=True))
    return pair == (own[0] * rounds, own[1] * rounds)


def is_counted(text):
    """Return whether a kernel has long sums whose values take integers for nothing but places, and these are affine."""
    rounds = re.findall(r"while (\w+) < (\w+):", text)
    steps = [(stop, re.search(rf"\b{name} \+= (\d+)$", text, re.MULTILINE)) for name, stop in rounds]
    # Those over the sums of warps are short.
    loops = [
        str(int(stop) // int(step[1])) if stop.isdigit() else stop for stop, step in steps if step and step[1] != "32"
    ]
    # Short loops are unrolled, which makes one of those over the grid the innermost, or their counting is most of them.
    is_long = bool(loops) and not (loops[-1].isdigit() and int(loops[-1]) < 32)
    # Functions take numbers apart as integers; places that data or quotients tell have to be computed. The compiler
    # cannot unroll loops of parts whose number is found at the call.
    other = re.search(r"math\.|//|%|max\(|min\(|real\([a-z]|uint64\([^)]*\[|\+= \w+_count", text)
    return is_long and not other and re.search(r" \+= .*\[", text) is not None


# Each kernel is assembled once: types and architectures take turns, single precision twice as often.
VARIANTS = [("float32", (9, 0)), ("float32", (10, 0)), ("float64", (9, 0)), ("float32", (8, 0))]
ALL = [[(dtype, capability)] for dtype in ("float32", "float64") for capability in ((8, 0), (9, 0), (10, 0))]


@pytest.mark.parametrize(
    "name",
    [
        "scattered_rows",
        *(pytest.param(n, marks=pytest.mark.thorough) for n in ("masks", "reductions", "elementary", "rank_five")),
    ],
)
def test_programs(name, tmp_path):
    check(name, tmp_path, VARIANTS[:2])


# Long sums in parts, functions, windows; the others are thorough.
SOME = ("logistic-gradient", "conv-W-1-3")


LIBRARY = ("gaussian-process", "batch-inverse", "process-hessian", "logdet-hvp", "inverse-hvp")
"""These need CuPy's factors of matrices; there is no kernel of ours to assemble."""


@pytest.mark.parametrize(
    "name", [pytest.param(row, marks=() if row in SOME else pytest.mark.thorough) for row in ROWS if row not in LIBRARY]
)
def test_rows(name, tmp_path, thorough):
    turn = len(name) % 4
    for variants in ALL if thorough else [VARIANTS[turn:] + VARIANTS[:turn]]:
        check(name, tmp_path, variants)
