"""Recursive passes without Python's recursion, for the rooms that know the graph."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from sympy_tensordiff.symbolic.traversal import Recursion as Recursion
from sympy_tensordiff.symbolic.traversal import trampoline as trampoline

T = TypeVar("T")


def in_turn(calls: Iterable[Recursion[T]]) -> Recursion[list[T]]:
    """The answers of several recursive calls: ``results = yield from in_turn(self.visit(arg) for arg in args)``."""
    results = []
    for call in calls:
        results.append((yield call))
    return results


__all__ = ["Recursion", "in_turn", "trampoline"]
