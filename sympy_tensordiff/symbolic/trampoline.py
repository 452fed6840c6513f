"""Recursive passes without Python's recursion: depth costs memory, never a stack overflow."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
Recursion: TypeAlias = Generator["Recursion[Any]", Any, T]
"""A pass over one node: ``result = yield self.visit(child)`` recurses, ``return`` answers."""


def trampoline(first: Recursion[T]) -> T:
    """Runs a pass written as a generator that yields the generators of its recursive calls.

    >>> def depth(n):
    ...     return 0 if n == 0 else 1 + (yield depth(n - 1))
    >>> trampoline(depth(100_000))
    100000
    """
    stack: list[Recursion[Any]] = [first]
    value: Any = None
    while True:
        try:
            call = stack[-1].send(value)
        except StopIteration as stop:
            stack.pop()
            value = stop.value
            if not stack:
                return value  # type: ignore[no-any-return]
        else:
            stack.append(call)
            value = None
