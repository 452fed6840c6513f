"""What SymPy would find out by recursion, found bottom-up: how deep, how large, which order, any symmetric tensor.

Each of our nodes remembers its measures; the native nodes between it and the next ones of ours
are walked with a stack. So the cost is one visit per node of the graph, whatever the number of
paths through it.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, NamedTuple

from sympy import Basic

DEEPEST = 100
LARGEST = 10_000
TALLEST = 140
LONGEST = 100_000
STEEPEST = 400
ENDLESS = 1_000_000
_MOST = 10**12


class Measures(NamedTuple):
    """The depth and the size of an expression as a tree, a digest of its structure, and whether a tensor is symmetric.

    The digest is the same in every process. The size stops counting at a large number.
    """

    depth: int
    size: int
    digest: bytes
    has_symmetric: bool

    @property
    def is_deep(self) -> bool:
        """Whether a walk by recursion is out of the question."""
        return self.depth > DEEPEST or self.size > LARGEST

    @property
    def is_unprintable(self) -> bool:
        """Whether a text would overflow the stack or be too long."""
        return self.depth > TALLEST or self.size > LONGEST

    @property
    def is_unwalkable(self) -> bool:
        """Whether a walk over all paths by recursion would overflow the stack or take too long."""
        return self.depth > STEEPEST or self.size > ENDLESS

    @property
    def described(self) -> str:
        """Depth and size in words."""
        size = f"{self.size:,}" if self.size < _MOST else f"more than {_MOST:,}"
        return f"depth {self.depth:,} with {size} nodes as a tree"


def measures(expr: Any) -> Measures:
    """The measures of an expression; nodes of ours remember theirs."""
    remembered: Measures | None = getattr(expr, "_measures", None)
    if remembered is not None:
        return remembered
    known: dict[int, Measures] = {}
    for node in bottom_up(expr, known):
        parts = [known[id(arg)] for arg in node.args]
        content = [type(node).__name__.encode(), *(part.digest for part in parts)]
        if not parts:
            content.append(repr(node._hashable_content()).encode())
        found = Measures(
            1 + max((part.depth for part in parts), default=0),
            min(1 + sum(part.size for part in parts), _MOST),
            blake2b(b"\0".join(content), digest_size=16).digest(),
            bool(getattr(node, "symmetric", ())) or any(part.has_symmetric for part in parts),
        )
        known[id(node)] = found
        if hasattr(node, "_measures"):
            node._measures = found
    return known[id(expr)]


def bottom_up(expr: Any, known: dict[int, Measures]) -> Iterator[Basic]:
    """The nodes below ``expr`` without measures, each once, arguments first; ``known`` receives what is remembered."""
    stack = [expr]
    while stack:
        node = stack[-1]
        if id(node) not in known:
            remembered = getattr(node, "_measures", None)
            if remembered is not None:
                known[id(node)] = remembered
            else:
                missing = [arg for arg in node.args if id(arg) not in known]
                if missing:
                    stack += missing
                    continue
                yield node
        stack.pop()
