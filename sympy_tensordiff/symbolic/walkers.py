"""What the walkers of SymPy that know no scopes see of our nodes.

Most functions of SymPy take a node apart by ``args``, put it together by ``func``, and come to the
same value whatever stands between. Two do not, since a term under a binder means something else
outside: `sympy.cse` names terms that hold a bound index, and `replace` lets a bound index capture
the free symbols of what it puts in. Both ask the node first; the asking frame tells them apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import CodeType, FrameType
from typing import Any

from sympy import Basic, Symbol
from sympy.simplify import cse_main

CSE = vars(cse_main)
REPLACE = Basic.replace.__code__
WALK = next((c for c in REPLACE.co_consts if isinstance(c, CodeType) and c.co_name == "walk"), None)


def asked_by_cse(asking: FrameType) -> bool:
    """Whether the frame is one of `sympy.cse`, which may name a binder as a whole but no term inside."""
    return asking.f_globals is CSE


def reserve_names(node: Basic, asking: FrameType) -> None:
    """No name that occurs in a node which `cse` does not look into is given to a common subexpression."""
    taken = asking.f_locals.get("excluded_symbols") if asked_by_cse(asking) else None
    if taken is not None:
        taken.update(names_in((node,)))


def replaced_symbols(walk: FrameType) -> set[Any]:
    """The free symbols of the pattern and the expression of the call of `replace` that a walk belongs to.

    None where they are functions: what a function brings in cannot be known.
    """
    frame: FrameType | None = walk
    while frame is not None and frame.f_code is not REPLACE:
        frame = frame.f_back
    both = [] if frame is None else [frame.f_locals.get(name) for name in ("query", "value")]
    return set().union(*(expr.free_symbols for expr in both if isinstance(expr, Basic)))


def names_in(expressions: Iterable[Basic]) -> set[str]:
    """The names of all symbols and tensors, free or bound, in the expressions."""
    names, seen, stack = set(), set(), list(expressions)
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if isinstance(node, Symbol) or (getattr(node, "is_tensor_expr", False) and node.is_symbol):
            names.add(node.name)
        stack.extend(node.args)
    return names
