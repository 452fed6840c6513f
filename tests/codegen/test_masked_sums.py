"""Sums that data select, as in networks with relu, run without branches, and compute their values once."""

import re

import numpy as np
import pytest
import sympy

import sympy_tensordiff as td
from sympy_tensordiff.codegen.emit.llvm_driver import print_llvm
from sympy_tensordiff.codegen.ir.programs import ContractionStep, Kernel
from sympy_tensordiff.codegen.ir.scalars import Load
from sympy_tensordiff.codegen.ir.walk import scalars
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.codegen.run import llvm

i, j, k, a, b, p, q = td.indices("i j k a b p q")
n, m, d = td.indices("n m d")
Sum, Entries = td.IndexedSum, td.TensorComprehension
x, u, v = td.TensorSymbol("x", (n, m)), td.TensorSymbol("u", n), td.TensorSymbol("v", m)
image, filters, offset = td.TensorSymbol("I", (n, m, m)), td.TensorSymbol("W", (d, 3, 3)), td.TensorSymbol("B", d)
signal, taps = td.TensorSymbol("s", (n, m)), td.TensorSymbol("h", (d, 4))


def over(index, extent):
    return index, 0, extent - 1


def with_gradient(value, *variables):
    return (value, *td.gradient(value, variables))


def pooled_convolution():
    """A valid convolution, relu, the mean over the image, and squares of it."""
    z = offset[k] + Sum(filters[k, p, q] * image[i, a + p, b + q], (p, 0, 2), (q, 0, 2))
    pooled = Sum(sympy.Max(z, 0), over(a, m - 2), over(b, m - 2))
    value = Sum(pooled**2, over(k, d), over(i, n))
    return (image, filters, offset), with_gradient(value, filters, offset)


def pooled_by_numpy(image, filters, offset):
    size = max(image.shape[1] - 2, 0)
    windows = np.zeros((len(image), size, size, 3, 3))
    for one in range(3 if size else 0):
        for other in range(3):
            windows[..., one, other] = image[:, one : one + size, other : other + size]
    z = np.einsum("kpq,iabpq->kiab", filters, windows) + offset[:, None, None, None]
    pooled = np.maximum(z, 0).sum((2, 3))
    weights = 2 * pooled[..., None, None] * (z > 0)
    return (pooled**2).sum(), np.einsum("kiab,iabpq->kpq", weights, windows), weights.sum((1, 2, 3))


def rectified_filters():
    """The outputs of filters of four taps at all places where they fit, without their negative parts."""
    z = Sum(taps[k, p] * signal[i, a + p], (p, 0, 3)) - offset[k]
    value = Sum(sympy.Max(z, 0) ** 2, over(a, m - 3), over(i, n), over(k, d))
    return (signal, taps, offset), with_gradient(value, taps, offset)


def rectified_by_numpy(signal, taps, offset):
    size = max(signal.shape[1] - 3, 0)
    windows = np.stack([signal[:, p : p + size] for p in range(4)]) if size else np.zeros((4, len(signal), 0))
    z = np.maximum(np.einsum("kp,pia->kia", taps, windows) - offset[:, None, None], 0)
    return (z**2).sum(), np.einsum("kia,pia->kp", 2 * z, windows), -2 * z.sum((1, 2))


FUNCTIONS = {pooled_convolution: pooled_by_numpy, rectified_filters: rectified_by_numpy}


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_values(function, backend):
    """At sizes where windows are longer than the axis, too."""
    arguments, results = function()
    call = td.lambdify(arguments, results, backend)
    rng = np.random.default_rng(3)
    for rows, width, count in ((1, 1, 1), (2, 2, 3), (1, 3, 1), (3, 4, 2), (2, 9, 5), (4, 22, 3)):
        sizes = {n: rows, m: width, d: count}
        values = [rng.normal(size=[int(sympy.sympify(s).subs(sizes)) for s in one.shape]) for one in arguments]
        wanted = FUNCTIONS[function](*values)
        for got, want in zip(call(*values), wanted, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-11)
        single = call(*(one.astype(np.float32) for one in values))
        for got, want in zip(single, wanted, strict=True):
            scale = np.abs(want).max(initial=1)
            np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5 * scale)


@pytest.mark.parametrize(("function", "operands"), [(pooled_convolution, ("I", "W")), (rectified_filters, ("s", "h"))])
def test_windows_that_may_not_fit_are_multiplied_once(function, operands):
    """The axis of ``m - 2`` places may have a negative length for all that is known about m."""
    program = build_program(*function())
    products = [step for step in program.kernels if isinstance(step, ContractionStep)]
    assert len([step for step in products if operands[1] in (step.left.array, step.right.array)]) == 1
    for kernel in program.kernels:
        if isinstance(kernel, Kernel):
            read = {part.array for part in scalars(kernel.body) if isinstance(part, Load)}
            assert not read.issuperset(operands), kernel


Mask = td.TensorSymbol("M", (n, m))


def masked_rows():
    return Sum(sympy.Piecewise((u[i], Mask[i, j] + v[j] > 0), (0, True)), over(i, n), over(j, m))


def masked_band():
    within = (Mask[i, j] > -1) & (Mask[i, j] < 1)
    return Sum(sympy.Piecewise((u[i] * x[i, j], within), (-x[i, j], True)), over(i, n), over(j, m))


@pytest.mark.parametrize("expression", [masked_rows(), masked_band()], ids=["rows", "band"])
def test_both_branches_of_a_short_choice_are_computed_in_vectors(expression):
    function = td.lambdify((Mask, u, v, x), expression, "llvm", parallel=False)
    text = print_llvm(function._fused, llvm.target(np.dtype(float))).text
    assert "select i1" in text
    assert not re.search(r"^(yes|no)[.\d]*:", text, re.MULTILINE)
    rng = np.random.default_rng(1)
    for rows, width in ((1, 1), (3, 5), (2, 33)):
        M, X = rng.normal(size=(2, rows, width))
        U, V = rng.normal(size=rows), rng.normal(size=width)
        wanted = {
            masked_rows(): np.where(M + V > 0, U[:, None], 0).sum(),
            masked_band(): np.where((M > -1) & (M < 1), U[:, None] * X, -X).sum(),
        }[expression]
        np.testing.assert_allclose(function(M, U, V, X), wanted, rtol=1e-12, atol=1e-12)
