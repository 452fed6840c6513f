"""Recursive passes without Python's recursion, for the rooms that know the graph."""

from sympy_tensordiff.symbolic.traversal import Recursion as Recursion
from sympy_tensordiff.symbolic.traversal import in_turn as in_turn
from sympy_tensordiff.symbolic.traversal import trampoline as trampoline

__all__ = ["Recursion", "in_turn", "trampoline"]
