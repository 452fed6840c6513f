"""The arguments of the kernels of an input, and whether its expression can be computed at all."""

from __future__ import annotations

from typing import Any

from sympy_tensordiff.codegen.api import build_program
from sympy_tensordiff.errors import OutOfShapeError, TensorDiffError
from sympy_tensordiff.testing.values import size_symbols


def arguments_of(parsed: Any, expression: Any) -> tuple[Any, ...]:
    """All tensors in the order of their declarations, then the sizes that none of them has."""
    tensors = tuple(parsed.tensors.values())
    known = size_symbols(*tensors)
    return (*tensors, *(size for size in size_symbols(expression) if size not in known))


def check_reads(parsed: Any) -> None:
    """Refuse an expression that reads outside of a shape: a derivative takes it for granted that none does.

    Raises
    ------
    OutOfShapeError
        If a read leaves its tensor whatever the sizes are, as ``x[i + 1]`` does for all ``i < n``.
    """
    try:
        build_program(arguments_of(parsed, parsed.expression), parsed.expression)
    except OutOfShapeError:
        raise
    except (TensorDiffError, RecursionError):
        return  # what has no kernel may have a derivative
