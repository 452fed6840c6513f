"""A derivative against central differences, for several choices of the symbolic sizes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, TypeAlias

import sympy_tensordiff as td
from sympy_tensordiff.errors import DerivativeMismatch, OutOfShapeError, TensorDiffError
from sympy_tensordiff.testing.differences import SizeError
from sympy_tensordiff.testing.values import shape_of, size_symbols

Sizes: TypeAlias = dict[Any, int]

ROUNDS = 3
"""So many choices of the sizes are checked, where there are as many that fit the expression."""
ATTEMPTS = 30
"""So many are tried."""
# What one array of a check may hold, and the largest size that is tried.
_ENTRIES = 50_000
_LARGEST = 6


def worst_errors(parsed: Any, derivative: Any) -> Iterator[tuple[str, float]]:
    """For each choice of sizes its name and the largest relative error.

    A derivative of higher order is compared with differences of the one before it, and that one
    likewise.

    Parameters
    ----------
    parsed : ParsedExpression
    derivative : Expr
        What is to be its derivative by all arguments in turn.

    Raises
    ------
    DerivativeMismatch
        At the first choice at which a derivative is wrong; the message begins with the sizes.
    ArgumentError
        If no inputs are found at which the expression is differentiable, or no sizes that fit it.
    OutOfShapeError
        If it reads outside of a shape for all sizes that are tried.
    """
    steps = []
    value = parsed.expression
    for argument in parsed.arguments[:-1]:
        following = td.jacobian(value, argument)
        steps.append((value, argument, following))
        value = following
    steps.append((value, parsed.arguments[-1], derivative))
    symbols = size_symbols(*parsed.tensors.values(), parsed.expression, derivative)
    found = 0
    refusal: TensorDiffError | None = None
    for seed, sizes in enumerate(choices(symbols, len(shape_of(derivative)))):
        name = ", ".join(f"{symbol} = {size}" for symbol, size in sizes.items()) or f"seed {seed}"
        try:
            errors = [td.check_derivative(*step[:2], sizes, seed, derivative=step[2]) for step in steps]
        except DerivativeMismatch as error:
            raise DerivativeMismatch(f"{name}: {error}") from error
        except (SizeError, OutOfShapeError) as error:
            refusal = error  # for an extent n - m, or an entry x[1]
            continue
        yield name, max(errors)
        found += 1
        if found == ROUNDS:
            return
    if refusal is not None and not found:
        raise refusal


def choices(symbols: list[Any], order: int) -> Iterator[Sizes]:
    """Sizes to try: 1 everywhere, then random ones, all different where that is possible, and larger by and by.

    Of tensors of so high an order that arrays of size 2 would be large, size 1 is the only choice.
    """
    yield dict.fromkeys(symbols, 1)
    limit = int(_ENTRIES ** (1 / max(order, 1)))
    if symbols and limit < 2:
        return
    for seed in range(1, ATTEMPTS if symbols else ROUNDS):
        candidates = range(2, max(min(_LARGEST + max(seed - ROUNDS, 0), limit), 2) + 1)
        generator = random.Random(seed)
        different = len(symbols) <= len(candidates)
        sizes = (
            generator.sample(candidates, len(symbols)) if different else generator.choices(candidates, k=len(symbols))
        )
        yield dict(zip(symbols, sizes, strict=True))
