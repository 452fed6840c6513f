"""The arguments of the kernels of an input."""

from __future__ import annotations

from typing import Any

from sympy_tensordiff.testing.values import size_symbols


def arguments_of(parsed: Any, expression: Any) -> tuple[Any, ...]:
    """All tensors in the order of their declarations, then the sizes that none of them has."""
    tensors = tuple(parsed.tensors.values())
    known = size_symbols(*tensors)
    return (*tensors, *(size for size in size_symbols(expression) if size not in known))
