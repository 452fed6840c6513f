"""The machine code of CUDA's kernels: counted, where NVIDIA's assembler is installed."""

from __future__ import annotations

import os
import re

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
    reason="needs pip install 'sympy-tensordiff[ptx]'",
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
    scatters = {function_name(s) for s in program.kernels if isinstance(s, Scatter) and not s.exclusive}
    for number, kernel in enumerate(assembler.kernels(module)):
        text = source[source.index(f"def {kernel}(") :].partition("\n\n\n")[0]
        for shift, dtype in variants:
            capability = assembler.ARCHITECTURES[(number + shift) % len(assembler.ARCHITECTURES)]
            machine = assembler.assemble(module, program, kernel, dtype, capability, folder)
            where = f"{name}: {kernel} for {dtype} on sm_{capability[0]}{capability[1]}"
            assert not machine.is_spilled, where
            assert machine.registers <= 64, where
            assert machine.has_atomics == (kernel in scatters), where
            assert not machine.has_local_memory or SLOW_PATH.search(text), where
            if dtype == "float32":
                assert not machine.has_doubles or SLOW_PATH.search(text), where
            loads, integers = machine.innermost()
            # Functions take numbers apart as integers; places that data or quotients tell have to be computed.
            if not re.search(r"math\.|//|%|uint64\([^)]*\[", text):
                assert integers <= 5 * loads or not loads, f"{where}: {integers} for {loads} loads"


@pytest.mark.parametrize("name", CASES)
def test_programs(name, tmp_path):
    check(name, tmp_path, [(len(name), "float32")])


@pytest.mark.parametrize("name", ROWS)
def test_rows(name, tmp_path):
    check(name, tmp_path, [(1, "float32"), (2, "float64")])
