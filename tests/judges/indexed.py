"""JAX decides values, gradients and products with Hessians of programs in index notation."""

from __future__ import annotations

from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import sympy_tensordiff as td
from sympy_tensordiff.errors import TensorDiffError, VerificationError

from .index_programs import SHAPES, SYMBOLS, VARIABLES, Program, random_arrays, random_program
from .report import WrongAnswerError

jax.config.update("jax_enable_x64", True)

TOLERANCE = 1e-8
SHARE_OF_PRODUCTS = 4
"""One program in so many is differentiated twice."""
BACKENDS = ("llvm", "llvm", "llvm", "numpy")


def judge(seed: int) -> Counter[str]:
    """Compare the program of a seed, its gradients and, for some, a product with its Hessian with JAX."""
    program = random_program(seed)
    backend, is_twice = BACKENDS[seed // SHARE_OF_PRODUCTS % len(BACKENDS)], seed % SHARE_OF_PRODUCTS == 0
    try:
        function, names = compiled(program, backend, is_twice)
    except TensorDiffError as error:
        if isinstance(error, VerificationError):
            raise
        return Counter({f"refused: {type(error).__name__}": 1})
    for shape in SHAPES:
        arrays = random_arrays(shape, seed)
        tangent = np.random.default_rng(seed + 1).standard_normal(shape)
        found = function(*arrays.values(), tangent)
        wanted = results_of_jax(program, arrays, tangent, is_twice)
        for name, ours in zip(names, found, strict=True):
            breach = difference(np.asarray(ours), wanted[name], abs(float(wanted["value"])))
            if breach:
                raise WrongAnswerError(f"{name} {breach}, shape {shape} ({backend}): {program.text()}")
    return Counter(f"{backend}, {'value' if name == 'value' else name.split()[0]}: equal" for name in names)


def compiled(program: Program, backend: str, is_twice: bool) -> tuple[Any, list[str]]:
    """Return a function of all inputs and a tangent of x, and the names of its results."""
    value = program.expression()
    used = {str(symbol) for symbol in value.atoms(td.TensorSymbol)}
    variables = [name for name in VARIABLES if name in used]
    results = [value, *(td.gradient(value, SYMBOLS[name]) for name in variables)]
    names = ["value", *(f"gradient by {name}" for name in variables)]
    tangent = td.TensorSymbol("tangent", SYMBOLS["x"].shape)
    if is_twice:
        results.append(td.hvp(value, SYMBOLS["x"], tangent))
        names.append("product with the Hessian")
    return td.lambdify([*SYMBOLS.values(), tangent], tuple(results), backend), names


def results_of_jax(program: Program, arrays: dict[str, Any], tangent: Any, is_twice: bool) -> dict[str, Any]:
    """Return the same results as JAX computes them."""

    def value(variables: dict[str, Any]) -> Any:
        return program.number(jnp, arrays | variables)

    variables = {name: jnp.asarray(arrays[name]) for name in VARIABLES}
    number, gradients = jax.value_and_grad(value)(variables)
    found = {"value": number} | {f"gradient by {name}": one for name, one in gradients.items()}
    if is_twice:
        by_x = jax.grad(lambda one: value(variables | {"x": one}))
        found["product with the Hessian"] = jax.jvp(by_x, (variables["x"],), (jnp.asarray(tangent),))[1]
    return {name: np.asarray(one) for name, one in found.items()}


def difference(ours: Any, wanted: Any, unit: float) -> str:
    """Return a text about a result that differs, or an empty text."""
    if ours.shape != wanted.shape:
        return f"has the shape {ours.shape}, not {wanted.shape}"
    scale = max(float(np.abs(wanted).max(initial=0)), 1e-3 * unit, 1e-6)
    error = float(np.abs(ours - wanted).max(initial=0))
    return "" if error <= TOLERANCE * scale else f"differs by {error:.3g} where the largest entry is {scale:.3g}"
