"""Random functions against the exact interpreter: the value, all first and all second derivatives."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from types import MappingProxyType

import numpy as np
import sympy
from numpy.typing import NDArray
from sympy import Expr, Symbol

from sympy_tensordiff.codegen.api import lambdify
from sympy_tensordiff.derivative.api import gradient, hessian, jacobian, vjp
from sympy_tensordiff.derivative.native import simplify_deltas
from sympy_tensordiff.reference import differentiate, evaluate
from sympy_tensordiff.reference import hessian as exact_hessian
from sympy_tensordiff.reference import hvp as exact_hvp
from sympy_tensordiff.symbolic.index_notation.tensors import TensorSymbol
from sympy_tensordiff.testing.values import call_arguments, concrete_shape, random_values, shape_of, to_double

from .costs import assert_within_law
from .equality import as_scalar, assert_equal
from .generate_tensors import random_tensors
from .languages import RandomFunction
from .printed import assert_printed
from .random_functions import random_function

_DENSE = 1500
"""Full Jacobians and Hessians are compared up to so many entries."""
_KERNELS = {"numpy": 2, "numba": 16, "llvm": 2}
"""One in so many functions is compiled, for one of the draws of its sizes."""
_MODULES = {"numpy": "numpy", "numba": "numba", "llvm": "llvmlite"}
"""The module that each of these backends needs."""
_LENGTHS = (9, 40)
"""Least and greatest size at which two backends are compared: loops of vectors have whole and partial vectors."""
_ANYTHING = (0, 1, 2, -40, 40)


GENERATORS: Mapping[str, Callable[[int], RandomFunction]] = MappingProxyType(
    {
        "functions": lambda n: random_function(
            n, "ranges", kinks=n % 3 == 0, products=n % 32 == 5, depth=2 + n // 4 % 3
        ),
        "tensors": lambda n: random_tensors(
            n, rank=n % 3, kind="rational" if n % 4 else "smooth", kinks=n % 5 == 0, depth=2 + n % 2
        ),
        "maps": lambda n: random_function(n, "maps", kinks=n % 5 == 0, depth=1 + n // 4 % 3),
    }
)
"""What makes the function of a seed: in index notation, of whole tensors, of all index maps and reductions."""


def check_function(seed: int, kind: str = "functions") -> None:
    """Check one random function of a kind of `GENERATORS`; of whole tensors its texts and its kernel too.

    Raises
    ------
    DerivativeMismatch
        A value or a derivative differs.
    UnsupportedError
        The function is refused.
    """
    made = GENERATORS[kind](seed)
    if made.variables:
        check_orders(made, seed, has_law=kind == "tensors")
        if kind == "tensors":
            _check_first(made, seed)


def _check_first(made: RandomFunction, seed: int) -> None:
    """The texts of the function and of its pullbacks, read as Python, and the kernel that holds all of them."""
    cotangent = TensorSymbol("cotangent", shape_of(made.function))
    results = made.function, *vjp(made.function, tuple(made.variables), cotangent)
    values = random_values((made.function, *made.variables, cotangent), made.sizes, seed, low=-1, high=1)
    exact = tuple(evaluate(expr, values) for expr in results)
    for n, (expr, value) in enumerate(zip(results, exact, strict=True)):
        assert_printed(expr, value, values, f"pullback {n}" if n else "function")
    for backend in ("numpy", "llvm"):
        _check_kernel(backend, results, exact, values)
    if made.sizes:
        _compare_backends(results, made, seed)


def _compare_backends(results: tuple[Expr, ...], made: RandomFunction, seed: int) -> None:
    """Compare the LLVM kernel with the NumPy one at sizes that the exact interpreter would be too slow for."""
    chosen = random.Random(seed)
    sizes = {size: chosen.randint(*_LENGTHS) for size in made.sizes}
    values = random_values((*results, *made.variables), sizes, seed, low=-1, high=1)
    arguments, arrays = call_arguments(results, values)
    expected = lambdify(arguments, results, "numpy")(*arrays)
    got = lambdify(arguments, results, "llvm")(*arrays)
    for n, (own, other) in enumerate(zip(got, expected, strict=True)):
        assert_equal(own, other, f"result {n} of the llvm kernel at {sizes}", 1e-6)


def check_orders(made: RandomFunction, seed: int, *, has_law: bool = False) -> None:
    """The value, the pullback by all variables at once, and its derivative along a direction; then one in full.

    The results are derived once and evaluated for all draws of the sizes; with `has_law` their cost obeys the law.
    """
    function, variables = made.function, tuple(made.variables)
    cotangent = TensorSymbol("cotangent", shape_of(function))
    directions = tuple(TensorSymbol(f"along_{n}", shape_of(v)) for n, v in enumerate(variables))
    value = simplify_deltas(function)
    firsts = vjp(function, variables, cotangent)
    slopes = [as_scalar(first, along) for first, along in zip(firsts, directions, strict=True)]
    seconds = gradient(sympy.Add(*slopes), variables)
    if has_law:
        assert_within_law(function, variables, firsts, seconds)
    for draw in made.draws:
        inputs = (function, *variables, cotangent, *directions)
        values = random_values(inputs, draw, seed, given=data_of(made, draw, seed))
        exact = evaluate(function, values)
        assert_equal(evaluate(value, values), exact, f"value at {draw}")
        along = {v: values[direction] for v, direction in zip(variables, directions, strict=True)}
        expected = exact_hvp(as_scalar(function, cotangent), along, values)
        for n, (first, second) in enumerate(expected):
            assert_equal(evaluate(firsts[n], values), first, f"vjp by {variables[n]} at {draw}")
            assert_equal(evaluate(seconds[n], values), second, f"vjp of vjp by {variables[n]} at {draw}")
        for backend, one_in in _KERNELS.items():
            is_chosen = seed % one_in == 0 and draw is made.draws[seed // one_in % len(made.draws)]
            if is_chosen and find_spec(_MODULES[backend]):
                _check_kernel(backend, (function, *firsts), (exact, *(first for first, _ in expected)), values)
    _check_dense(function, random.Random(seed).choice(variables), cotangent, made, seed)


def data_of(made: RandomFunction, draw: Mapping[Symbol, int], seed: int) -> dict[Expr, NDArray[np.int64]]:
    """Tensors of integers with the entries that a function was made with; what it does not read is anything."""
    generator, result = random.Random(seed), {}
    for tensor, entries in made.data.items():
        shape = concrete_shape(tensor, draw)
        drawn = [entries.get(place, generator.choice(_ANYTHING)) for place in np.ndindex(shape)]
        result[tensor] = np.array(drawn, dtype=np.int64).reshape(shape)
    return result


def _check_kernel(
    backend: str, results: tuple[Expr, ...], exact: tuple[object, ...], values: dict[Expr, object]
) -> None:
    """The value and the pullbacks in double precision."""
    arguments, arrays = call_arguments(results, values)
    for got, expected in zip(lambdify(arguments, results, backend=backend)(*arrays), exact, strict=True):
        assert_equal(got, to_double(expected), f"the {backend} kernel", 1e-6)


def _check_dense(function: Expr, wrt: Expr, cotangent: TensorSymbol, made: RandomFunction, seed: int) -> None:
    """The full Jacobian and the full Hessian by one variable."""
    draw = made.draws[-1]
    values = random_values((function, wrt, cotangent), draw, seed + 1, given=data_of(made, draw, seed))
    entries = np.size(values[wrt])
    expected = differentiate(function, wrt, values)
    if expected.size <= _DENSE:
        assert_equal(evaluate(jacobian(function, wrt), values), expected, f"jacobian by {wrt}")
    if entries**2 <= _DENSE and isinstance(wrt, TensorSymbol):
        scalar = as_scalar(function, cotangent)
        assert_equal(evaluate(hessian(scalar, wrt), values), exact_hessian(scalar, wrt, values), f"hessian by {wrt}")
