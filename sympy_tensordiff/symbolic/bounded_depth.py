"""Scalars of SymPy's own nodes, of bounded depth.

SymPy builds, compares and prints its own nodes by recursion, which overflows from some hundred levels on. A
scalar of many levels is therefore held by an entry of a comprehension without axes, which is a leaf to SymPy and
is read through by everything of this package.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sympy import Add, Basic, Expr, Max, Min, Mul

from sympy_tensordiff.symbolic.base import Node
from sympy_tensordiff.symbolic.depth import measures
from sympy_tensordiff.symbolic.tensors import TensorComprehension
from sympy_tensordiff.symbolic.traversal import postorder

WIDE = 50
"""As many operands count as a level more: what stands above a wide node goes through its operands each time."""


class BoundedDepth:
    """Holds scalars of more than ``deepest`` levels by entries; remembers the levels of those it has seen."""

    def __init__(self, deepest: int) -> None:
        self.deepest = deepest
        self.levels: dict[Any, int] = {}

    def bounded(self, scalar: Any) -> Any:
        """``scalar``, or an entry that is equal to it where it has too many levels."""
        if isinstance(scalar, Node) or not isinstance(scalar, Expr) or not scalar.args:
            return scalar
        for node in postorder(scalar, self.levels, _native):
            below = max((self.levels[part] for part in _native(node)), default=-1)
            self.levels[node] = below + 1 + len(node.args) // WIDE
        if self.levels[scalar] < self.deepest:
            return scalar
        return TensorComprehension._trusted(scalar, ())[()]


def _native(node: Any) -> tuple[Basic, ...]:
    """The parts of a node of SymPy's own; a node of ours is a leaf."""
    return () if isinstance(node, Node) else tuple(part for part in node.args if isinstance(part, Basic))


def applied(function: Callable[..., Any], arguments: Sequence[Any], is_deep: bool = False) -> Any:
    """A function of SymPy's; of deep arguments, through which SymPy's own rules would walk, as it is."""
    if not is_deep and not any(measures(argument).is_deep for argument in arguments):
        return function(*arguments)
    if function in (Add, Mul, Max, Min):
        # SymPy counts or compares the nodes of the arguments to order them, by recursion.
        arguments = sorted(arguments, key=_place)
    if function not in (Max, Min):
        return function(*arguments, evaluate=False)
    result = Expr.__new__(function, *arguments)
    result._argset = frozenset(arguments)
    return result


def _place(argument: Any) -> tuple[bool, int, bytes]:
    """Where an argument stands among others: numbers first, as SymPy looks for them there."""
    return not argument.is_Number, measures(argument).size, measures(argument).digest
