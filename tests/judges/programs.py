"""JAX decides values, gradients and products with Hessians of programs that one generator writes in both languages."""

from __future__ import annotations

from collections import Counter
from typing import Any

import jax
import numpy as np
from cost_judge.generate import random_function
from cost_judge.judge import TOLERANCE, arguments, derivatives, wrong_values

import sympy_tensordiff as td

from .array_programs import TD, XP, Program, random_program
from .report import WrongAnswerError

SHARE_OF_NETWORKS = 8
"""One seed in so many is a network, a solver or a recurrence of `cost_judge`, whose results take seconds."""
SHARE_OF_COMPILED = 16
"""One program in so many is compiled by LLVM, others run in NumPy."""


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
    ours = results(program, tangent, backend)
    expected = results_of_jax(program, tangent)
    unit = max(abs(float(expected["function"])), 1e-6)
    for name, wanted in expected.items():
        scale = max(float(np.abs(wanted).max(initial=0)), 1e-3 * unit)
        error = float(np.abs(ours[name] - wanted).max(initial=0)) if ours[name].shape == wanted.shape else np.inf
        if not error <= TOLERANCE * scale:
            message = f"the {name} ({backend}) differs by {error:.3g} where the largest entry is {scale:.3g}"
            raise WrongAnswerError(f"{message}: {program.text()}")
    found = Counter(f"arrays, {name}: equal" for name in expected)
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


def results_of_jax(program: Program, tangent: Any) -> dict[str, Any]:
    """Return the same results as JAX computes them."""

    def value(x: Any) -> Any:
        inputs = [*program.arrays[: program.wrt], x, *program.arrays[program.wrt + 1 :]]
        return program.values(XP, [jax.numpy.asarray(one) for one in inputs])[-1]

    x = jax.numpy.asarray(program.arrays[program.wrt])
    gradient, product = jax.jvp(jax.grad(value), (x,), (jax.numpy.asarray(tangent),))
    found = {"function": value(x), "gradient": gradient, "hvp": product}
    return {name: np.asarray(one) for name, one in found.items()}
