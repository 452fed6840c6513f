"""Detection of conditions that SymPy has moved out of a sum or product whose index they contain.

While SymPy's `Sum` and `Product` are built, `piecewise_fold` moves each `Piecewise` with their index to the front of
the body. It also moves it out of the sums and products inside of the body, whose indices become free symbols in its
conditions: ``Sum(f(Sum(Piecewise((a, x[i] <= x[j]), (0, True)), (j, …))), (i, …))`` becomes
``Sum(Piecewise((f(Sum(a, (j, …))), x[i] <= x[j]), (f(Sum(0, (j, …))), True)), (i, …))``. This has another value.
"""

from __future__ import annotations

from typing import Any

import sympy
from sympy import And, Piecewise

from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.symbolic.expressions.traversal import free_symbols_in, nodes_in, parts, postorder

_REDUCTIONS = (sympy.Sum, sympy.Product)


def refuse_moved_conditions(expr: Any) -> None:
    """Raise `UnsupportedError` if SymPy has moved a condition of a `Piecewise` in ``expr`` out of a `Sum` or `Product`
    whose index it contains, because the expression then has another value.

    It is recognised by a free symbol of the condition that a `Sum` or `Product` in a branch of the same `Piecewise`
    binds.

    SymPy makes this of a condition inside of that sum. It does not move a `Piecewise` out of an `IndexedSum`, so that
    the index of an `IndexedSum` may also be a free symbol of a condition outside.
    """
    cases = [node for node in nodes_in([expr], parts) if isinstance(node, Piecewise)]
    bound = _bound_indices(expr) if cases else {}
    for node in cases:
        inside = frozenset().union(*(bound[id(value)][1] for value, _ in node.args))
        moved = inside & free_symbols_in([condition for _, condition in node.args]) if inside else inside
        if moved:
            reductions = (part for value, _ in node.args for part in nodes_in([value], parts) if _binds(part, moved))
            innermost = next(part for part in reductions if not bound[id(part.function)][1] & moved)
            raise _moved_condition_error(node, innermost, moved)


def _bound_indices(expr: Any) -> dict[int, tuple[Any, frozenset[Any]]]:
    """Return a dictionary from the ``id`` of each node of ``expr`` to a pair: the node, and the indices that SymPy's
    sums and products in it bind.
    """
    arguments: dict[int, tuple[Any, tuple[Any, ...]]] = {}

    def below(node: Any) -> tuple[Any, ...]:
        """Return the arguments of ``node`` from a cache, so that each call returns the same objects: a matrix of SymPy
        would make new ones.
        """
        if id(node) not in arguments:
            arguments[id(node)] = node, parts(node)
        return arguments[id(node)][1]

    found: dict[int, tuple[Any, frozenset[Any]]] = {}
    for node in postorder(expr, found, below, id):
        own = frozenset(node.variables if isinstance(node, _REDUCTIONS) else ())
        found[id(node)] = node, own.union(*(found[id(part)][1] for part in below(node)))
    return found


def _binds(node: Any, indices: frozenset[Any]) -> bool:
    """Return whether ``node`` is one of SymPy's sums or products and binds one of the ``indices``."""
    return isinstance(node, _REDUCTIONS) and not indices.isdisjoint(node.variables)


def _moved_condition_error(cases: Any, reduction: Any, moved: frozenset[Any]) -> UnsupportedError:
    """Return the exception for conditions of the Piecewise ``cases`` that SymPy has moved out of the sum or product
    ``reduction``, although they contain its index. ``moved`` has the indices in such conditions.
    """
    index = next(index for index in reduction.variables if index in moved)
    name, limits = type(reduction).__name__, ", ".join(map(str, reduction.limits))
    conditions = (condition for _, condition in cases.args)
    terms = (term for condition in conditions for term in And.make_args(condition))
    term = next(term for term in terms if index in free_symbols_in([term]))
    return UnsupportedError(
        f"the condition {term} contains {index}, the index of {reduction}, but is outside of this {name}: SymPy moves "
        f"a Piecewise out of an inner {name} while it builds the outer sum or product; write td.Indexed{name}"
        f"(Piecewise(…), {limits}) for the inner one, or, if the {index} of the condition is another symbol, give the "
        f"{name} another index"
    )
