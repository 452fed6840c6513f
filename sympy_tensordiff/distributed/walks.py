"""Walks over expressions without recursion: bottom-up, and top-down with what is around a node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sympy import Piecewise

from sympy_tensordiff.symbolic.traversal import parts, postorder


class Choice(Piecewise):  # type: ignore[misc]
    """A `Piecewise` whose conditions stay as they are.

    SymPy writes ``x + 5 == m`` as ``x == m - 5`` whenever it builds one, which is another condition between doubles.
    """

    def __new__(cls, *args: Any) -> Any:
        return super().__new__(cls, *args, evaluate=False)


def rebuilt(expr: Any, change: Callable[[Any, Any], Any]) -> Any:
    """``expr`` with ``change(old, new)`` for each node, arguments first; ``new`` has the changed ones, in `Choice`."""
    done: dict[Any, Any] = {}
    for node in postorder(expr, done):
        old = parts(node)
        new = [done[arg] for arg in old]
        kind = Choice if isinstance(node, Piecewise) else node.func
        same = kind is node.func and all(a is b for a, b in zip(old, new, strict=True))
        done[node] = change(node, node if same else kind(*new))
    return done[expr]


def finished(known: dict[Any, Any], function: Any, *args: Any) -> Any:
    """What a walk returns: a generator that yields ``(function, *args)`` for each other walk whose result it needs.

    ``known`` has the results by these tuples, so that no walk is made twice.

    >>> def depth(expr):
    ...     below = 0
    ...     for arg in expr.args:
    ...         below = max(below, (yield depth, arg))
    ...     return below + 1
    >>> from sympy.abc import x, y
    >>> finished({}, depth, 2*x + x*y**3)
    4
    """
    first = (function, *args)
    stack = [] if first in known else [(first, function(*args))]
    answer = None
    while stack:
        call, walk = stack[-1]
        try:
            needed = walk.send(answer)
        except StopIteration as end:
            answer = known[call] = end.value
            stack.pop()
            continue
        answer = known.get(needed)
        if answer is None:
            stack.append((needed, needed[0](*needed[1:])))
    return known[first]
