"""Random functions against the exact interpreter: the value, all first and all second derivatives."""

from __future__ import annotations

import random

import numpy as np
import sympy
from sympy import Expr

from sympy_tensordiff.codegen.api import lambdify
from sympy_tensordiff.derivative.api import gradient, hessian, jacobian, simplify_deltas, vjp
from sympy_tensordiff.reference import differentiate, evaluate
from sympy_tensordiff.reference import hessian as exact_hessian
from sympy_tensordiff.reference import hvp as exact_hvp
from sympy_tensordiff.symbolic.tensors import TensorSymbol
from sympy_tensordiff.testing.exact import as_scalar, assert_equal, assert_kernel_exact
from sympy_tensordiff.testing.generate import Kind, RandomFunction
from sympy_tensordiff.testing.generate_tensors import random_tensors
from sympy_tensordiff.testing.maps import random_maps
from sympy_tensordiff.testing.ranges import random_ranges
from sympy_tensordiff.testing.values import call_arguments, random_values, shape_of, to_double

_DENSE = 1500
"""Full Jacobians and Hessians are compared up to so many entries."""


def check_function(seed: int) -> None:
    """Check one random function of the whole class.

    Raises
    ------
    DerivativeMismatch
        A value or a derivative differs.
    UnsupportedError
        The function is refused.
    """
    made = random_ranges(seed, kinks=seed % 3 == 0, products=seed % 32 == 5, depth=2 + seed // 4 % 3)
    check_orders(made, seed)


def check_maps(seed: int) -> None:
    """Check one random function with wider index maps; as `check_function`."""
    check_orders(random_maps(seed, kinks=seed % 5 == 0, depth=1 + seed // 4 % 3), seed)


def check_tensors(seed: int) -> None:
    """Check one random program of whole tensors, and its kernel; as `check_function`."""
    kind: Kind = "smooth" if seed % 4 == 0 else "rational"
    made = random_tensors(seed, rank=seed % 3, kind=kind, kinks=seed % 5 == 0, depth=2 + seed % 2)
    made.draws = [made.sizes]
    if made.variables:
        check_orders(made, seed)
        assert_kernel_exact(made.function, made.variables, made.sizes, seed, low=-1, high=1, rtol=1e-6)


def check_orders(made: RandomFunction, seed: int) -> None:
    """The value, the pullback by all variables at once, and its derivative along a direction; then one in full.

    The results are derived once and evaluated for all draws of the sizes.
    """
    function, variables = made.function, tuple(made.variables)
    cotangent = TensorSymbol("cotangent", shape_of(function))
    directions = tuple(TensorSymbol(f"along_{n}", shape_of(v)) for n, v in enumerate(variables))
    value = simplify_deltas(function)
    firsts = vjp(function, variables, cotangent)
    slopes = [as_scalar(first, along) for first, along in zip(firsts, directions, strict=True)]
    seconds = gradient(sympy.Add(*slopes), variables)
    for draw in made.draws:
        values = random_values((function, *variables, cotangent, *directions), draw, seed)
        exact = evaluate(function, values)
        assert_equal(evaluate(value, values), exact, f"value at {draw}")
        along = {v: values[direction] for v, direction in zip(variables, directions, strict=True)}
        expected = exact_hvp(as_scalar(function, cotangent), along, values)
        for n, (first, second) in enumerate(expected):
            assert_equal(evaluate(firsts[n], values), first, f"vjp by {variables[n]} at {draw}")
            assert_equal(evaluate(seconds[n], values), second, f"vjp of vjp by {variables[n]} at {draw}")
        if seed % 4 == 0 and draw == made.draws[0]:
            _check_kernel((function, *firsts), (exact, *(first for first, _ in expected)), values)
    _check_dense(function, random.Random(seed).choice(variables), cotangent, made, seed)


def _check_kernel(results: tuple[Expr, ...], exact: tuple[object, ...], values: dict[Expr, object]) -> None:
    """The value and the pullbacks in double precision."""
    arguments, arrays = call_arguments(results, values)
    for got, expected in zip(lambdify(arguments, results, backend="numpy")(*arrays), exact, strict=True):
        assert_equal(got, to_double(expected), "the kernel", 1e-6)


def _check_dense(function: Expr, wrt: Expr, cotangent: TensorSymbol, made: RandomFunction, seed: int) -> None:
    """The full Jacobian and the full Hessian by one variable."""
    values = random_values((function, wrt, cotangent), made.draws[-1], seed + 1)
    entries = np.size(values[wrt])
    expected = differentiate(function, wrt, values)
    if expected.size <= _DENSE:
        assert_equal(evaluate(jacobian(function, wrt), values), expected, f"jacobian by {wrt}")
    if entries**2 <= _DENSE and isinstance(wrt, TensorSymbol):
        scalar = as_scalar(function, cotangent)
        assert_equal(evaluate(hessian(scalar, wrt), values), exact_hessian(scalar, wrt, values), f"hessian by {wrt}")
