"""The CUDA printer: its text, and what it means in the simulator, no GPU needed."""

from __future__ import annotations

import os
import re

import numpy as np
import pytest
from every import every
from generator import Generator
from oracle import check
from programs import CASES

from sympy_tensordiff.codegen.ir.programs import Scatter
from sympy_tensordiff.codegen.ir.walk import function_name
from sympy_tensordiff.codegen.run.cache import load_source
from sympy_tensordiff.codegen.run.compile import CompiledFunction, print_source
from sympy_tensordiff.codegen.schedule.gpu_model import block_shape
from sympy_tensordiff.errors import BackendError

SIMULATED = "NUMBA_ENABLE_CUDASIM" in os.environ


def simulate(name):
    program, arguments = CASES[name]
    check(program, "cuda", arguments(np.random.default_rng(1)))


def simulate_random(seed):
    generator = Generator(seed)
    program = generator.program()
    rng = np.random.default_rng(seed)
    arrays = [rng.uniform(-1, 1, [f.evaluate(generator.sizes) for f in a.shape]) for a in program.arguments]
    check(program, "cuda", arrays)


@every("name", [*CASES], turns=8)
def test_simulator(name, simulator):
    """The text that runs on a device, one Python thread for each of its threads."""
    simulator(simulate, name)


@pytest.mark.parametrize("seed", range(0, len(CASES), 4))
def test_random_programs_in_the_simulator(seed, simulator):
    simulator(simulate_random, seed)


@every("name", [*CASES], turns=8)
def test_kernels_need_no_locks_and_only_scatters_atomics(name):
    source = print_source(CASES[name][0], "cuda")
    assert ("atomic" in source) == any(isinstance(step, Scatter) for step in CASES[name][0].kernels)
    functions = dict(re.findall(r"^@cuda\.jit\ndef (\w+)\((.*?)(?=\n\n\n)", source, re.MULTILINE | re.DOTALL))
    assert not any("mutex" in text for text in functions.values())
    for kernel in CASES[name][0].kernels:
        text = functions.get(function_name(kernel), "")
        if kernel.axes and "one thread per entry" in text:
            grid = re.search(r"(\w+)(, \w+){0,2} = cuda\.grid", text)
            assert grid.group(1).rstrip("_") == kernel.axes[-1]  # the last axis is on threadIdx.x


def _launch(source):
    """The launch configuration that is printed into a module, without CUDA."""
    text = source[source.index("@functools.cache") : source.index("def run_on_device(")]
    return load_source(f"import functools\nimport math\n\n\n{text}", "test").launch


@pytest.mark.parametrize(
    "shape",
    [
        (),
        (1,),
        (5,),
        (1000,),
        (10**9,),
        (3, 4),
        (10**6, 3),
        (300, 301),
        (2, 70000, 5),
        (70000, 2, 3, 4),
        (32, 32, 3, 3),
        (640, 20),
        (700, 129),
        (257,),
        (40, 33),
    ],
)
def test_launch_configuration(shape):
    grid, block = _launch(print_source(CASES["matmul"][0], "cuda"))(shape)
    blocks, threads = (grid, block) if isinstance(grid, tuple) else ((grid,), (block,))
    entries, warps = np.prod(shape), -(-np.prod(threads) // 32) * np.prod(blocks)
    assert np.prod(threads) <= 256 and np.prod(threads) >= min(128, entries)
    strides = len(shape) > 1 and (shape[-2] > 65535 or np.prod(shape[:-2]) > 65535)
    assert strides or warps == 1 or entries / (32 * warps) > 0.75  # lanes in use
    outer = int(np.prod(shape[:-2]))
    assert tuple(threads) == block_shape(*(*shape[::-1], 1, 1)[:2], outer)  # as the model says
    assert len(threads) < 3 or threads[2] <= 64
    assert blocks[0] * threads[0] >= (shape[-1] if shape else 1) > (blocks[0] - 1) * threads[0]
    assert blocks[0] < 2**31
    assert all(0 < b <= 65535 for b in blocks[1:])
    if len(shape) >= 2 and shape[-2] <= 65535:
        assert blocks[1] * threads[1] >= shape[-2]


@pytest.mark.skipif(SIMULATED, reason="the simulator is a device")
def test_without_a_device():
    from numba import cuda

    if cuda.is_available():
        pytest.skip("there is a device")
    program, arguments = CASES["matmul"]
    function = CompiledFunction(program, "cuda")
    assert "cuda.grid" in function.source
    with pytest.raises(BackendError, match=r"found no CUDA device.*(pip install .\.\[cuda\]|with its driver)"):
        function(*arguments(np.random.default_rng(0)))


def test_on_a_device():
    from numba import cuda

    if SIMULATED or not cuda.is_available():
        pytest.skip("no CUDA device: the simulator and the assembler stand in for one")
    for program, arguments in CASES.values():
        check(program, "cuda", arguments(np.random.default_rng(1)), 1e-10)
