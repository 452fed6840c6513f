"""NumPy and Numba against the interpreter, on programs built by hand and on random ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
from as_python import as_python
from every import every
from generator import Generator
from oracle import check, expected
from programs import (
    CASES,
    REDUCTIONS,
    L,
    M,
    N,
    array,
    i,
    j,
    k,
    load,
    loop,
    op,
    owned,
    result,
    single,
    store,
    total,
)

from sympy_tensordiff.codegen.ir.laws import check_laws
from sympy_tensordiff.codegen.ir.loops import accumulator, add, let
from sympy_tensordiff.codegen.ir.programs import Kernel, Program, entrywise
from sympy_tensordiff.codegen.ir.scalars import IndexValue, Name, Number
from sympy_tensordiff.codegen.ir.verify import verify, with_masks
from sympy_tensordiff.codegen.run.compile import CompiledFunction, print_source

# Chosen greedily, at the least time: their texts hold every construct inside of every other one (which operator, call,
# condition, loop or read is in which) that those of all programs hold, together with the texts that are compiled
# for single precision and for numbers at the limits, below. All run as Python in `test_parallel.py`.
COMPILED = [
    "dependent_bounds",
    "elementary",
    "masks",
    "mixed_forms",
    "rank_five",
    "scalar_arguments",
    "scattered_in_loops",
    "scattered_rows",
    "strided_adjoint",
]
SINGLE = ["section_six", "select_values", "long_sums"]


def by_hand(name, backend):
    program, arguments = CASES[name]
    verify(with_masks(program))
    check(program, backend, arguments(np.random.default_rng(1)))


@every("name", [*CASES], turns=8)
def test_programs_by_hand(name):
    by_hand(name, "numpy")


@pytest.mark.in_turns(10)
@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in COMPILED else pytest.mark.thorough) for n in CASES])
def test_compiled_programs_by_hand(name):
    by_hand(name, "numba")


@every("name", [n for n in CASES if n != "arithmetic"], turns=4)
def test_single_precision_numpy(name):
    program, arguments = CASES[name]
    values = [
        v.astype(np.float32) if isinstance(v, np.ndarray | np.float64) and v.dtype == float else v
        for v in arguments(np.random.default_rng(2))
    ]
    check(program, "numpy", values, 2e-5, np.float32)


@pytest.mark.in_turns(10)
@pytest.mark.parametrize("name", SINGLE)
def test_single_precision_numba_stays_single(name):
    program, arguments = CASES[name]
    values = [v.astype(np.float32) if isinstance(v, np.ndarray) else v for v in arguments(np.random.default_rng(2))]
    check(program, "numba", values, 2e-5, np.float32)
    kernel = CompiledFunction(program, "numba")
    run = kernel._load(np.dtype(np.float32))
    run = run.run_in or run.run
    dispatcher = run if hasattr(run, "signatures") else run.__globals__[f"fill_{program.kernels[0].array}"]
    (signature,) = dispatcher.signatures
    # But for the totals of long sums, to which parts are added.
    assert dispatcher.inspect_llvm(signature).count(" fpext ") <= kernel.source.count(" + np.float64(")


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("first", range(0, 40, 20))
def test_random_programs_numpy(first):
    for seed in range(first, first + 20):
        _check_random(seed, "numpy")


@pytest.mark.in_turns(8)
@pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=() if n < 202 else pytest.mark.thorough) for n in range(200, 208)]
)
def test_random_programs_numba(seed):
    _check_random(seed, "numba")


def _check_random(seed, backend):
    generator = Generator(seed)
    program = generator.program()
    check_laws(program)
    rng = np.random.default_rng(seed)
    check(
        program,
        backend,
        [rng.uniform(-1, 1, [f.evaluate(generator.sizes) for f in a.shape]) for a in program.arguments],
        1e-9,
    )


@pytest.mark.usefixtures("uncompiled")
def test_rows_with_scalars_around_the_sum():
    product = op("mul", Name("f"), load("b", k, j))
    body = (
        let("front", op("mul", load("a", i, 0), 2)),
        let("own", load("b", 0, j)),
        accumulator("s"),
        loop("k", 0, M - 1, let("f", load("a", i, k)), loop("q", 0, 1, add("s", product))),
        let("t", op("mul", Name("own"), Name("front"))),
        *total("u", op("mul", load("b", k, j), Name("t")), ("k", 0, M - 1)),
        *total("v", load("a", i, k), ("k", 0, M - 1)),
        store(op("add", Name("s"), Name("u"), Name("v"), Name("own"))),
    )  # fmt: skip
    program = single((array("a", L, M), array("b", M, N)), result("c", L, N), "ij", *body)
    verify(with_masks(program))
    rng = np.random.default_rng(0)
    for backend in ("numba", "numpy"):
        check(program, backend, [rng.random((3, 4)), rng.random((4, 5))])
    assert "s[j] += f*b[k, j]" in CompiledFunction(program, "numba").source


def test_scans_pass_once_along_a_row():
    """A loop over a row carries its total, forward or backward, behind a condition too; no other loop does."""
    source = CompiledFunction(CASES["scans"][0], "numba").source
    for line in (
        "for k in range(k_stop, j):",
        "k_stop = max(k_stop, j)",
        "for k in range(max(j + 1, (i + j + 1)//2), k_low):",
        "for j in range(y.shape[1] - 1, -1, -1):",
        "between_so_far *= x[at(k)]",
        "before_so_far *= x[at(k)]",
    ):
        assert line in source
    assert not any(f"{name}_so_far" in source for name in ("inner", "far", "window", "changing"))


# ---------------------------------------------------------------------------- the limits of the number range


def _gamma(value):
    return math.inf if value in (0, math.inf, 800.0, 1e300) else math.nan if value < -1e3 else math.gamma(value)


LIMITS = {
    "max": (("x", "y"), np.maximum), "min": (("y", "x"), lambda x, y: np.minimum(y, x)), "sign": (("x",), np.sign),
    "heaviside": (("x", 0.5), lambda x: np.heaviside(x, 0.5)), "pow": (("x", "y"), np.power), "log": (("x",), np.log),
    "floor": (("x",), np.floor), "exp": (("x",), np.exp), "mul": (("x", 0), lambda x: x * 0),
    "gamma": (("x",), np.vectorize(_gamma)), "add": (("x", "y"), np.add), "sqrt": (("x",), np.sqrt),
}  # fmt: skip


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_nan_and_infinity_pass_without_warnings(backend):
    special = np.array([0.0, np.nan, np.inf, -np.inf, 1e300, -1e300, 800.0, 0.5, -2.5])
    turned = special[::-1].copy()
    kernels = []
    for name, (operands, _) in LIMITS.items():
        term = op(name, *(load(operand, i) if isinstance(operand, str) else operand for operand in operands))
        inverse = op("pow", load("x", i), -1)
        kernels.append(entrywise(f"{name}_of_x", ("i",), [], op("add", term, op("mul", 0.0, inverse))))
    outputs = tuple(result(kernel.array, N) for kernel in kernels)
    structure = f"({'.' * len(kernels)})"
    program = Program((array("x", N), array("y", N)), outputs, (), tuple(kernels), structure=structure)
    every_found = CompiledFunction(program, backend)(special, turned)
    for (name, (operands, function)), found in zip(LIMITS.items(), every_found, strict=True):
        with np.errstate(all="ignore"):
            wanted = function(*((special, turned)[: sum(isinstance(o, str) for o in operands)])) + 0 * special**-1.0
        np.testing.assert_allclose(found, wanted, rtol=1e-12, err_msg=name)


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_a_sum_with_infinite_terms(backend):
    body = (*total("s", load("x", i), ("i", 0, N - 1)), store(Name("s")))
    function = CompiledFunction(single((array("x", N),), result("y"), "", *body), backend)
    assert function(np.array([1.0, np.inf] + [2.0] * 40)) == np.inf
    assert np.isnan(function(np.array([np.inf, -np.inf] + [2.0] * 40)))
    assert np.isnan(function(np.array([np.nan] + [2.0] * 40)))


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("backend", ["numpy", "numba"])
@pytest.mark.parametrize("count", [3, 40])  # a loop in Python, and an operation on a block
def test_nan_and_infinity_in_other_reductions(backend, count):
    """As NumPy reduces; and 0 times what overflows is 0, which needs the factors in order."""
    kernels = []
    for reduction in REDUCTIONS:
        body = (*total("s", load("x", i), ("i", 0, N - 1), reduction=reduction), store(Name("s")))
        kernels.append(owned(Kernel(f"{reduction}_of_x", (), body)))
    outputs = tuple(result(kernel.array) for kernel in kernels)
    program = Program((array("x", N),), outputs, (), tuple(kernels), structure="(....)")
    verify(with_masks(program))
    function = CompiledFunction(program, backend)
    for special in ([], [np.nan], [np.inf], [-np.inf], [np.inf, -np.inf], [np.inf, np.nan], [0.0], [0.0, np.inf]):
        for dtype in (np.float32, np.float64):
            values = np.array([-1.5, *special, *[2.0] * count], dtype)
            with np.errstate(all="ignore"):
                wanted = [values.sum(), values.prod(), values.max(), values.min()]
            found = function(values)
            assert [value.dtype for value in found] == [dtype] * 4
            np.testing.assert_allclose(found, wanted, rtol=1e-6, err_msg=str(values))
    assert function(np.array([0.0] + [1e200] * count))[1] == 0


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_reductions_of_nothing(backend):
    kernels = []
    for reduction in REDUCTIONS:
        body = (*total("s", load("x", k), ("k", 1, i), reduction=reduction), store(Name("s")))
        kernels.append(owned(Kernel(f"{reduction}_of_x", ("i",), body)))
    outputs = tuple(result(kernel.array, N) for kernel in kernels)
    program = Program((array("x", N),), outputs, (), tuple(kernels), structure="(....)")
    found = CompiledFunction(program, backend)(np.array([5.0, 2.0, 3.0]))
    np.testing.assert_array_equal(found, [[0, 2, 5], [1, 2, 6], [-np.inf, 2, 3], [np.inf, 2, 2]])


def test_large_integers_are_compared_exactly():
    """float32 cannot tell 2**24 from 2**24 + 1."""
    value = op("select", op("lt", IndexValue(i + 2**24), Number(2**24 + 1)), load("x", i), 0)
    program = single((array("x", N),), result("y", N), "i", store(value))
    for backend in ("numpy", "numba"):
        found = CompiledFunction(program, backend)(np.ones(3, np.float32))
        assert found.tolist() == [1, 0, 0]


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_values_that_nest_deeply(backend):
    """Deeper than Python's parser goes; a read that loses its condition is tested."""
    value = guarded = load("x", i)
    for _ in range(120):
        value = op("sin", op("add", value, Name("part1")))
        guarded = op("cos", op("add", guarded, load("x", i - 1)))
    deep = op("select", op("le", 1, IndexValue(i)), op("add", op("mul", 2, load("x", i - 1)), value), value)
    program = single((array("x", N),), result("y", N), "i", let("part1", Number(1)), store(op("neg", deep)))
    verify(with_masks(program))
    check(program, backend, [np.linspace(0, 1, 5)])
    chosen = op("select", op("le", 1, IndexValue(i)), guarded, 0)
    program = single((array("x", N),), result("y", N), "i", store(chosen))
    verify(with_masks(program))
    if backend == "numpy":
        check(program, backend, [np.linspace(0, 1, 5)])
    else:  # A compiler takes many seconds for its hundred tests.
        found = np.full(5, np.nan)
        as_python(print_source(program, "numba"))(np.linspace(0, 1, 5), found)
        np.testing.assert_allclose(found, expected(program, [np.linspace(0, 1, 5)])[0], rtol=1e-11)
