"""Recurrences on a device: loops over time of blocks and of the host.

They run in CUDA C on the processor, and in Numba's simulator.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import in_cuda
import numpy as np
import pytest
import test_scan
import test_scan_data
import test_scan_practice
from conftest import another_process

import sympy_tensordiff as td
from sympy_tensordiff.codegen.emit import cuda_c, numba_cuda
from sympy_tensordiff.codegen.ir.programs import Recurrence
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.codegen.schedule import device_loops
from sympy_tensordiff.codegen.schedule.passes import prepared
from sympy_tensordiff.errors import NotInCError, UnsupportedError

n, B, T = td.indices("n B T")


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


def batch(first: bool = True) -> Any:
    """A network for each entry of a batch, the first or the second axis of its states, with the gradients that depend
    on no other entry.
    """
    shape = (B, n) if first else (n, B)
    W, h0, X = (td.TensorSymbol(*one) for one in (("W", (n, n)), ("h0", shape), ("X", (T, *shape))))
    inner = (lambda h: h @ W) if first else (lambda h: W @ h)
    step = lambda h, x: (td.tanh(inner(h) + x), td.sum(h * x, axis=int(first)))  # noqa: E731
    h, costs = td.scan(step, h0, X, total=True)
    loss = td.sum(h**2) + td.sum(costs**2)
    draw = np.random.default_rng(7).normal
    sizes = {n: 3, B: 5, T: 4}
    arrays = [draw(size=[sizes[extent] for extent in one.shape]) for one in (W, h0, X)]
    return [W, h0, X], (h, costs, *td.gradient(loss, (h0, X, W))), arrays


def series() -> Any:
    """A scalar state for each of many series, more than a block has threads."""
    y, v0, a = td.TensorSymbol("y", (T, B)), td.TensorSymbol("v0", B), td.TensorSymbol("a", ())
    v = td.scan(lambda v, y: a * v + (1 - a) * y**2, v0, y, reverse=True)
    arrays = [np.random.default_rng(8).normal(size=size) for size in ((3, 300), 300)]
    return [y, v0, a], (v[0], *td.gradient(td.sum(td.log(v)), (v0, y, a))), [arrays[0], arrays[1] ** 2, 0.3]


def growing() -> Any:
    table, exprs = test_scan.of_growing_arrays(True)
    return [table], exprs, [np.random.default_rng(6).normal(size=(5, 5)) / 5]


def rows() -> Any:
    """Steps that fill short rows of a matrix together with the state; the rows are added over time."""
    W, h0, x = (td.TensorSymbol(*one) for one in (("W", (4, 4)), ("h0", 4), ("x", (T, 4))))

    def step(h: Any, x: Any) -> Any:
        new = td.tanh(W @ h + x)
        return new, td.TensorComprehension(new[i] * (j + 1) + h[i] ** 2, (i, 4), (j, 3))

    i, j = td.indices("i j")
    (last, total), draw = td.scan(step, h0, x, last=True, total=True), np.random.default_rng(9).normal
    return [W, h0, x], (last, total), [draw(size=size) / 2 for size in ((4, 4), 4, (5, 4))]


CASES = {
    "rows": rows,
    "growing": growing,
    "batch": batch,
    "batch last": lambda: batch(False),
    "series": series,
    "recurrences": recurrences,
    "volatility": volatility,
    **{name: lambda name=name: of_data(name) for name in test_scan_data.PROGRAMS},
    **{name: lambda name=name: of_practice(name) for name in ("soft_dtw", "lqr")},
}


def agree(found: Any, args: Any, exprs: Any, arrays: Any) -> None:
    for own, expected in zip(found, td.lambdify(args, exprs, "numpy")(*arrays), strict=True):
        np.testing.assert_allclose(own, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.in_turns(8)
@pytest.mark.skipif(in_cuda.COMPILER is None, reason="there is no compiler of C++")
@pytest.mark.parametrize("most", [0, 20, device_loops.MAX_BLOCK_OPERATIONS])
@pytest.mark.parametrize("name", CASES)
def test_cuda_c_computes_the_same_in_any_order(name: str, most: int, tmp_path: Path, monkeypatch: Any) -> None:
    """The host runs the loops with more operations in a step."""
    monkeypatch.setattr(cuda_c, "MAX_BLOCK_OPERATIONS", most)
    monkeypatch.setattr(device_loops, "MAX_BLOCK_OPERATIONS", most)
    args, exprs, arrays = CASES[name]()
    function = in_cuda.compiled(args, exprs, tmp_path, "scan", "float64")
    for function.order in (1, -1):
        agree(function(*arrays), args, exprs, arrays)


def simulate(name: str, most: int) -> None:
    numba_cuda.MAX_BLOCK_OPERATIONS = device_loops.MAX_BLOCK_OPERATIONS = most
    args, exprs, arrays = CASES[name]()
    agree(td.lambdify(args, exprs, "cuda")(*arrays), args, exprs, arrays)


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("most", [0, 20, device_loops.MAX_BLOCK_OPERATIONS])
@pytest.mark.parametrize("name", ["recurrences", "volatility", "elo", "soft_dtw", "growing", "batch", "batch last"])
def test_simulator_computes_the_same(name: str, most: int, simulator: Any) -> None:
    simulator(simulate, name, most)


def test_steps_allocate_nothing() -> None:
    args, exprs, _ = recurrences()
    text = td.generate_code(args, exprs, "cuda")
    steps = [part for part in text.split("\n\n\n") if part.startswith("def step")]
    assert steps and not any("empty(" in part for part in steps)
    assert any("memory(" in part for part in steps)


@pytest.fixture(scope="module")
def fresh_simulator() -> Any:
    """A process of its own: plans of loops depend on what ran before in a process that tests share."""
    with another_process(NUMBA_ENABLE_CUDASIM="1") as call:
        yield call


def plan_of(name: str) -> str:
    args, exprs, _ = CASES[name]()
    return str(td.lambdify(args, exprs, "cuda").plan)


@pytest.mark.in_turns(4)
@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("volatility", "one block runs the loop for "),
        ("soft_dtw", "one block runs the loop of steps of at most 65536 operations for "),
        ("soft_dtw", "other ones are launched by the host in each step of "),
        ("batch", "blocks run, each for some of B entries, the loop of steps of "),
        ("series", "blocks run, each for some of B entries, the loop for "),
    ],
)
def test_plan_says_what_runs_loops(name: str, line: str, fresh_simulator: Any) -> None:
    assert line in fresh_simulator(plan_of, name)


def test_steps_that_depend_on_other_entries_are_no_batch() -> None:
    """Neighbours, another order, and sums over the batch."""
    x0 = td.TensorSymbol("x0", n)
    for step in (lambda x: td.roll(x, 1) / 2, lambda x: td.flip(x), lambda x: x / td.sum(x)):
        program = prepared(build_program([x0], td.scan(step, x0, length=3), library=False, rows=False), "cuda")
        (found,) = [one for one in program.kernels if isinstance(one, Recurrence)]
        loop = device_loops.block_loop(found)
        assert loop is not None and loop.batch is None and not loop.axes


@pytest.mark.in_turns(8)
def test_inverses_in_steps_are_refused_without_a_library() -> None:
    args, exprs, _ = of_practice("kalman")
    with pytest.raises(NotInCError, match="CUDA files have no routine"):
        td.generate_code(args, exprs[0], "cuda_c")
    with pytest.raises(UnsupportedError, match="without a library for matrices"):
        td.generate_code(args, exprs[0], "cuda")
