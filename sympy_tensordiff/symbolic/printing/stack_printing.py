"""Comprehensions that stack a few tensors, as ``stack((a, b, c))`` makes them, or that are rows of a variable, as
``A[2]``, in texts and formulas.
"""

from __future__ import annotations

from typing import Any

from sympy import Add, Integer, KroneckerDelta, Mul, Piecewise, S

MAX_ROWS = 8
"""Longer stacks are printed by their entries."""


def stacked_parts(tensor: Any) -> list[Any] | None:
    """Return the tensors or scalars that a comprehension stacks along its first axis; None for another comprehension.

    They are the choices of its first index, ``Piecewise((a, i < 1), (b, i < 2), (c, True))``, or the factors of
    ``KroneckerDelta(i, 0)``, ``KroneckerDelta(i, 1)``, ….
    """
    (index, extent), *rest = [limit.args for limit in tensor.limits]
    if not isinstance(extent, Integer) or not 2 <= int(extent) <= MAX_ROWS:
        return None
    body = tensor.body
    found = _choices(body, index, int(extent)) if isinstance(body, Piecewise) else _terms(body, index, int(extent))
    if found is None or any(index in part.free_symbols for part in found):
        return None
    return [_as_variable(tensor.func(part, *rest)) if rest else part for part in found]


def _as_variable(tensor: Any) -> Any:
    """Return the comprehension ``tensor``; if it has just the entries of a variable, return that variable."""
    entry = tensor.body
    if not getattr(entry, "is_tensor_entry", False) or not entry.tensor.is_symbol:
        return tensor
    is_whole = tuple(entry.indices) == tuple(tensor.indices) and tuple(entry.tensor.shape) == tuple(tensor.shape)
    return entry.tensor if is_whole else tensor


def _choices(body: Piecewise, index: Any, count: int) -> list[Any] | None:
    """Return the values ``[a, b, c]`` of ``Piecewise((a, i < 1), (b, i < 2), (c, True))`` for an ``index`` with
    ``count`` values; None for another `Piecewise`.
    """
    *first, last = body.args
    is_ladder = len(body.args) == count and last.args[1] == S.true
    if is_ladder and all(pair.args[1] == (index < n) for n, pair in enumerate(first, 1)):
        return [pair.args[0] for pair in body.args]
    return None


def _terms(body: Any, index: Any, count: int) -> list[Any] | None:
    """Return ``[a, b, ...]`` for a body ``a*delta(index, 0) + b*delta(index, 1) + ...``; None if a term has no such
    delta.
    """
    rows: list[Any] = [[] for _ in range(count)]
    for term in Add.make_args(body):
        factors = Mul.make_args(term)
        deltas = [f for f in factors if isinstance(f, KroneckerDelta) and index in f.args]
        if len(deltas) != 1:
            return None
        (place,) = (arg for arg in deltas[0].args if arg != index)
        if not isinstance(place, Integer) or not 0 <= int(place) < count:
            return None
        rows[int(place)].append(Mul(*(factor for factor in factors if factor is not deltas[0])))
    return [Add(*row) for row in rows]


def leading_indices(tensor: Any) -> tuple[Any, ...]:
    """Return the leading indices ``(2,)`` if a comprehension has just the entries of ``A[2]``, part of a variable; ()
    for any other comprehension.
    """
    own, entry = tuple(tensor.indices), tensor.body
    if not own or not getattr(entry, "is_tensor_entry", False) or not entry.tensor.is_symbol:
        return ()
    first, last = entry.indices[: -len(own)], entry.indices[-len(own) :]
    is_whole = tuple(last) == own and tuple(entry.tensor.shape[-len(own) :]) == tuple(tensor.shape)
    return tuple(first) if is_whole and not any(index.has(*own) for index in first) else ()
