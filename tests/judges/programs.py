"""JAX decides values, gradients and products with Hessians of programs that one generator writes in both languages."""

from __future__ import annotations

from collections import Counter
from typing import Any

import jax
import numpy as np
from cost_judge.generate import random_function
from cost_judge.judge import TOLERANCE, arguments, derivatives, wrong_values

import sympy_tensordiff as td
from sympy_tensordiff.errors import UnsupportedError

from .array_programs import NP, TD, XP, Program, random_program
from .report import WrongAnswerError

SHARE_OF_NETWORKS = 64
"""One seed in so many is a network, a solver or a recurrence of `cost_judge`, whose results take seconds."""
SHARE_OF_COMPILED = 16
"""One program in so many is compiled by LLVM, others run in NumPy."""

QUICKLY = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


def judge(seed: int) -> Counter[str]:
    """Compare the program of a seed, its gradient and a product with its Hessian with JAX."""
    return judge_network(seed) if seed % SHARE_OF_NETWORKS == 0 else judge_arrays(seed)


def judge_network(seed: int) -> Counter[str]:
    """Judge a function of `cost_judge.generate`."""
    function = random_function(seed)
    symbols = function.symbols()
    found = derivatives(function, symbols, "fgh")
    breaches = wrong_values(function, arguments(function, symbols), found, seed, by_jax=True)
    if breaches:
        raise WrongAnswerError(f"{'; '.join(breach.text for breach in breaches)}: {function.text()}")
    return Counter(f"network, {name}: equal" for name in found)


def judge_arrays(seed: int) -> Counter[str]:
    """Judge a program of `array_programs`."""
    program = random_program(seed)
    tangent = np.random.default_rng(seed).standard_normal(program.arrays[program.wrt].shape)
    backend = "llvm" if seed % SHARE_OF_COMPILED == 1 else "numpy"
    try:
        ours = results(program, tangent, backend)
    except UnsupportedError as error:
        return Counter({f"arrays, refused: {type(error).__name__}": 1})
    largest = max(float(np.abs(value).max(initial=0)) for value in program.values(NP, program.arrays))
    breach = difference(ours, results_of_jax(program, tangent, is_compiled=True), largest)
    if breach:  # XLA computes fused values twice, with two roundings: a value may differ from its own maximum
        breach = difference(ours, results_of_jax(program, tangent), largest)
    if breach:
        raise WrongAnswerError(f"{breach} ({backend}): {program.text()}")
    found = Counter(f"arrays, {name}: equal" for name in ours)
    found["arrays, steps"] += len(program.steps)
    found["arrays, steps refused here"] += len(program.refusals)
    found[f"arrays, by {backend}"] += 1
    return found


def results(program: Program, tangent: Any, backend: str) -> dict[str, Any]:
    """Return the value, the gradient and a product with the Hessian as this package computes them."""
    value, wrt = program.values(TD, program.symbols)[-1], program.symbols[program.wrt]
    along = td.TensorSymbol("tangent", wrt.shape)
    outputs = value, td.gradient(value, wrt), td.hvp(value, wrt, along)
    function = td.lambdify([*program.symbols, along], outputs, backend)
    found = function(*program.arrays, tangent)
    return dict(zip(("function", "gradient", "hvp"), map(np.asarray, found), strict=True))


def difference(ours: dict[str, Any], expected: dict[str, Any], largest: float) -> str:
    """Return a text about the first result that differs, or an empty text; `largest` is the largest value of a step.

    A function whose value is zero by cancellation, such as the sum of centred values, has the rounding of its steps.
    """
    unit = max(abs(float(expected["function"])), 1e-3 * largest, 1e-6)
    for name, wanted in expected.items():
        scale = max(float(np.abs(wanted).max(initial=0)), 1e-3 * unit)
        error = float(np.abs(ours[name] - wanted).max(initial=0)) if ours[name].shape == wanted.shape else np.inf
        if not error <= TOLERANCE * scale:
            return f"the {name} differs by {error:.3g} where the largest entry is {scale:.3g}"
    return ""


def results_of_jax(program: Program, tangent: Any, is_compiled: bool = False) -> dict[str, Any]:
    """Return the same results as JAX computes them, step by step or compiled as one function (four times as fast)."""

    def value(x: Any) -> Any:
        inputs = [*program.arrays[: program.wrt], x, *program.arrays[program.wrt + 1 :]]
        return program.values(XP, [jax.numpy.asarray(one) for one in inputs])[-1]

    def derivatives(x: Any, tangent: Any) -> Any:
        return value(x), *jax.jvp(jax.grad(value), (x,), (tangent,))

    at = jax.numpy.asarray(program.arrays[program.wrt]), jax.numpy.asarray(tangent)
    compiled = jax.jit(derivatives).lower(*at).compile(compiler_options=QUICKLY) if is_compiled else derivatives
    return dict(zip(("function", "gradient", "hvp"), map(np.asarray, compiled(*at)), strict=True))
