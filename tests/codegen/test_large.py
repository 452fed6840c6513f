"""Large kernels and long values are cut into several, and compute the same."""

from __future__ import annotations

import numpy as np
import pytest
import sympy
from fuzz import random_function

import sympy_tensordiff as td
from sympy_tensordiff.codegen.ir.verify import verify
from sympy_tensordiff.codegen.ir.walk import scalars
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.codegen.run.compile import BACKENDS, CompiledFunction, print_source
from sympy_tensordiff.codegen.schedule import split
from sympy_tensordiff.codegen.schedule import split as partition
from sympy_tensordiff.codegen.schedule.split import split_deep, split_large

TINY = {"MAX_KERNEL_OPERATIONS": 4, "PIECE": 4, "SHARED": 1}
SHORT = {"DEPTH": 3, "SIZE": 4, "WIDTH": 2}


def cut_finely(monkeypatch):
    for module, limits in ((partition, TINY), (split, SHORT)):
        for name, value in limits.items():
            monkeypatch.setattr(module, name, value)


@pytest.mark.parametrize("temporaries", [True, False])
def test_cut_kernels_compute_the_same(temporaries, monkeypatch):
    made = 0
    for seed in range(8):
        random = random_function(seed, "tables", depth=4, kinks=False)
        program = build_program(random.variables, random.function, temporaries=temporaries)
        values = np.random.default_rng(seed)
        arrays = [values.uniform(0.5, 1.5, [int(e) for e in getattr(v, "shape", ())]) for v in random.variables]
        expected = CompiledFunction(program, "numpy")(*arrays)
        with monkeypatch.context() as patch:
            cut_finely(patch)
            cut = split_large(split_deep(program))
            verify(cut)
            made += len(cut.kernels) - len(program.kernels)
            assert np.allclose(CompiledFunction(program, "numpy")(*arrays), expected, rtol=1e-13)
    assert made > 0


def test_long_expressions_with_infinity_are_split(monkeypatch):
    x = td.TensorSymbol("x", 5)
    slope = td.gradient(td.norm(td.log_ndtr(x)), x)
    values = np.linspace(-40, 9, 5)
    expected = td.lambdify([x], slope, "numpy")(values)
    cut_finely(monkeypatch)
    got = td.lambdify([x], slope, "numpy")(values)
    assert np.allclose(got, expected, rtol=1e-13, atol=0)


def large_sum(count):
    """An entry of many terms, each with its own numbers, shared parts among them."""
    i = td.indices("i")
    x, y = td.TensorSymbol("x", 7), td.TensorSymbol("y", 7)
    shared = sympy.exp(x[i] * y[6 - i]) + td.IndexedSum(x[i] * y[i] ** 2, (i, 0, 6))
    terms = [
        sympy.sin(sympy.Rational(n, 7) * x[i] + n) * shared ** (1 + n % 3) + y[(n * 5 + 1) % 7] for n in range(count)
    ]
    return td.TensorComprehension(sympy.Add(*terms), (i, 7)), (x, y)


@pytest.mark.in_turns(4)
def test_kernels_have_bounded_size():
    f, variables = large_sum(200)
    whole = build_program(variables, f)
    program = split_large(split_deep(whole))
    verify(program)
    assert len(program.kernels) > 10
    sizes = [sum(1 for _ in scalars(kernel.body)) for kernel in program.kernels]
    assert max(sizes) <= 2 * partition.MAX_KERNEL_OPERATIONS
    for backend in BACKENDS:
        assert max(map(len, print_source(whole, backend).splitlines())) < 8000


def test_a_large_sum_is_right():
    f, variables = large_sum(300)
    x, y = np.random.default_rng(0).uniform(-1, 1, (2, 7))
    shared = np.exp(x * y[::-1]) + (x * y**2).sum()
    expected = sum(np.sin(n / 7 * x + n) * shared ** (1 + n % 3) + y[(n * 5 + 1) % 7] for n in range(300))
    assert np.allclose(td.lambdify(variables, f, "numpy")(x, y), expected, rtol=1e-12)
