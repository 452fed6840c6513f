"""Recurrences on a device: the loop over time of the host, in CUDA C on the processor and in Numba's simulator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import in_cuda
import numpy as np
import pytest
import test_scan
import test_scan_data
import test_scan_practice

import sympy_tensordiff as td
from sympy_tensordiff.errors import NotInCError, UnsupportedError

T = td.indices("T")


def recurrences() -> Any:
    """Scans of all kinds, also inside of each other, with derivatives of first and second order."""
    values = {
        t: np.asarray(v, float) for t, v in test_scan.point(3).items() if t in (test_scan.W, test_scan.x, test_scan.h0)
    }
    exprs = [make() for name, make in test_scan.SCANS.items() if name != "scalars"]  # it has a determinant
    loss, (W, x, h0) = td.sum(test_scan.rnn() ** 2), values
    exprs += [*td.gradient(loss, (W, x, h0)), td.hvp(loss, W, W)]
    return [*values], tuple(exprs), [*values.values()]


def volatility() -> Any:
    """A state that is a number, with parameters that are numbers."""
    omega, alpha, beta, v0 = (td.TensorSymbol(name, ()) for name in ("omega", "alpha", "beta", "v0"))
    r = td.TensorSymbol("r", T)
    step = lambda v, r: (omega + alpha * r**2 + beta * v, -(td.log(v) + r**2 / v) / 2)  # noqa: E731
    loss = td.scan(step, v0, r, total=True)[1]
    arrays = [0.1, 0.2, 0.7, 1.0, np.random.default_rng(5).normal(size=6)]
    return [omega, alpha, beta, v0, r], (loss, *td.gradient(loss, (omega, alpha, beta, v0, r))), arrays


def of_data(name: str) -> Any:
    args, _, exprs = test_scan_data.exprs_of(name)
    return args, exprs, test_scan_data.point(args)


def of_practice(name: str) -> Any:
    program = test_scan_practice.PROGRAMS[name]()
    arrays, _ = test_scan_practice.point(program, 3)
    slopes = td.gradient(program.loss, program.tensors[: program.active])
    return [*program.tensors], (program.loss, *slopes), arrays


CASES = {
    "recurrences": recurrences,
    "volatility": volatility,
    **{name: lambda name=name: of_data(name) for name in test_scan_data.PROGRAMS},
    **{name: lambda name=name: of_practice(name) for name in ("soft_dtw", "lqr")},
}


def agree(found: Any, args: Any, exprs: Any, arrays: Any) -> None:
    for own, expected in zip(found, td.lambdify(args, exprs, "numpy")(*arrays), strict=True):
        np.testing.assert_allclose(own, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.in_turns(2)
@pytest.mark.skipif(in_cuda.COMPILER is None, reason="there is no compiler of C++")
@pytest.mark.parametrize("name", CASES)
def test_cuda_c_computes_the_same_in_any_order_of_threads(name: str, tmp_path: Path) -> None:
    args, exprs, arrays = CASES[name]()
    function = in_cuda.compiled(args, exprs, tmp_path, "scan", "float64")
    for function.order in (1, -1):
        agree(function(*arrays), args, exprs, arrays)


def simulate(name: str) -> None:
    args, exprs, arrays = CASES[name]()
    agree(td.lambdify(args, exprs, "cuda")(*arrays), args, exprs, arrays)


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("name", ["recurrences", "volatility", "elo", "soft_dtw"])
def test_simulator_computes_the_same(name: str, simulator: Any) -> None:
    simulator(simulate, name)


def test_steps_allocate_nothing() -> None:
    args, exprs, _ = recurrences()
    text = td.generate_code(args, exprs, "cuda")
    steps = [part for part in text.split("\n\n\n") if part.startswith("def step")]
    assert steps and not any("empty(" in part for part in steps)
    assert any("memory(" in part for part in steps)


def plan_of(name: str) -> str:
    args, exprs, _ = CASES[name]()
    return str(td.lambdify(args, exprs, "cuda").plan)


def test_plan_says_what_the_host_launches(simulator: Any) -> None:
    assert "launched by the host in each step of" in simulator(plan_of, "volatility")


def test_inverses_in_steps_are_refused_without_a_library() -> None:
    args, exprs, _ = of_practice("kalman")
    with pytest.raises(NotInCError, match="CUDA files have no routine"):
        td.generate_code(args, exprs[0], "cuda_c")
    with pytest.raises(UnsupportedError, match="without a library for matrices"):
        td.generate_code(args, exprs[0], "cuda")
