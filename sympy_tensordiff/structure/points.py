"""The integer points of a polyhedron as coordinate arrays, in lexicographic order.

The ranges come from the loop nest of `integer.nests.bounds`, so that few outer points have no inner one: conditions and
limits are constraints of one system. Level by level all points are extended at once. A condition that is not affine
(entries of index arrays, quotients, alternatives) filters the points as soon as its indices are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import sympy
from sympy.core.relational import Relational

from sympy_tensordiff.errors import (
    DataIndexError,
    IndexExpressionError,
    LoopBoundError,
    OutOfShapeError,
    UnsupportedError,
)
from sympy_tensordiff.integer.affine import Affine, Constraint
from sympy_tensordiff.integer.nests import Bounds, bounds
from sympy_tensordiff.lazy import numpy as np
from sympy_tensordiff.symbolic.index_notation.constraints import alternatives
from sympy_tensordiff.symbolic.index_notation.indices import is_data, parse, to_affine
from sympy_tensordiff.symbolic.index_notation.limits import IndexRange
from sympy_tensordiff.symbolic.index_notation.tensors import TensorEntry, TensorSymbol

if TYPE_CHECKING:
    from numpy.typing import NDArray

Environment = Mapping[Any, Any]
"""Sizes and coordinates by symbol, index arrays by tensor."""


def enumerate_points(
    binders: Sequence[IndexRange], conditions: Iterable[Any], environment: Environment
) -> list[NDArray[np.int64]]:
    """Return all values of the indices ``binders`` in their ranges that satisfy ``conditions``: one array for each
    index. ``environment`` has the values of sizes and index arrays.

    Without binders the list is empty whether the conditions hold or not: use `all_hold`.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> i, p, n = td.indices("i p n")
    >>> band = [IndexRange(i, sympy.S(0), n - 1), IndexRange(p, sympy.S(0), n - 1)]
    >>> [c.tolist() for c in enumerate_points(band, [(i <= p) & (p <= i + 1)], {n: 3})]
    [[0, 0, 1, 1, 2], [0, 1, 1, 2, 2]]
    """
    conjuncts = [part for condition in conditions for part in sympy.And.make_args(condition)]
    ranges, guards = _loop_ranges(binders, conjuncts, environment)
    coordinates: dict[Any, NDArray[np.int64]] = {}
    count = int(all(evaluate(guard, environment) for guard in guards if not _indices_in(guard, binders)))
    pending_guards = [guard for guard in guards if _indices_in(guard, binders)]
    for binder, range_of in zip(binders, ranges, strict=True):
        low, high = range_of({**environment, **coordinates})
        lengths = np.broadcast_to(np.maximum(high - low + 1, 0), (count,))
        ends = np.cumsum(lengths)
        count = int(ends[-1]) if len(ends) else 0
        coordinates = {index: np.repeat(c, lengths) for index, c in coordinates.items()}
        starts = np.repeat(np.broadcast_to(low, lengths.shape) - (ends - lengths), lengths)
        coordinates[binder.index] = np.arange(count) + starts
        ready = [guard for guard in pending_guards if _indices_in(guard, binders) <= coordinates.keys()]
        pending_guards = [guard for guard in pending_guards if guard not in ready]
        for guard in ready:
            chosen = np.flatnonzero(np.broadcast_to(evaluate(guard, {**environment, **coordinates}), (count,)))
            coordinates = {index: c[chosen] for index, c in coordinates.items()}
            count = len(chosen)
    return list(coordinates.values())


def all_hold(conditions: Iterable[Any], environment: Environment) -> bool:
    """Return whether all ``conditions``, which contain no index, hold at the values of sizes and index arrays in
    ``environment``.
    """
    return all(bool(evaluate(condition, environment)) for condition in conditions)


RangeFunction = Callable[[Environment], tuple[Any, Any]]


def _loop_ranges(
    binders: Sequence[IndexRange], conditions: list[Any], environment: Environment
) -> tuple[list[RangeFunction], list[Any]]:
    """Return ``(ranges, rest)``: one function for each loop over the indices ``binders``, which computes its range from
    the values of outer indices, and those of ``conditions`` that must still be tested. ``environment`` has the values
    of sizes and index arrays.
    """
    loop_variables = {binder.index: f"{number:02d}" for number, binder in enumerate(binders)}
    rows: list[Constraint] = []
    guards = []

    def form(expr: Any) -> Affine:
        """Return ``expr`` as an affine form of the loop variables."""
        return _to_affine_form(expr, loop_variables, environment)

    for condition in conditions:
        found = alternatives(condition, form)
        is_conjunction = found.exact and len(found.systems) == 1
        rows += found.systems[0] if is_conjunction else ()
        guards += [] if is_conjunction else [condition]
    try:
        for binder in binders:
            rows += binder.constraints(loop_variables[binder.index], form)
        ranges, rest = bounds(rows, list(loop_variables.values()))
    except (IndexExpressionError, LoopBoundError):
        return [_explicit_range(binder) for binder in binders], conditions
    if not all(row.holds({}) for row in rest):
        return [lambda _: (0, -1) for _ in binders], []
    symbols = {name: index for index, name in loop_variables.items()}
    return [_range_from_bounds(level, symbols) for level in ranges], guards


def _explicit_range(binder: IndexRange) -> RangeFunction:
    """Return a function that evaluates the ends of the range ``binder``, given the values of outer indices, of sizes
    and of index arrays.
    """
    return lambda values: (evaluate(binder.low, values), evaluate(binder.high, values))


def _range_from_bounds(level: Bounds, symbols: Mapping[str, Any]) -> RangeFunction:
    """Return a function that computes the range of a loop at given values of the outer indices: from the greatest of
    its lower bounds to the least of its upper bounds, both in ``level``. ``symbols`` maps variables in these to
    indices.
    """

    def range_of(values: Environment) -> tuple[Any, Any]:
        """Return ``(lowest, highest)``, the range of the loop index, for the ``values`` of the outer indices."""
        at = {name: values[symbol] for name, symbol in symbols.items() if symbol in values}
        lows = [-(-form.evaluate(at) // divisor) for form, divisor in level.lows]
        highs = [form.evaluate(at) // divisor for form, divisor in level.highs]
        return reduce(np.maximum, lows), reduce(np.minimum, highs)

    return range_of


def _to_affine_form(expr: Any, loop_variables: Mapping[Any, str], environment: Environment) -> Affine:
    """Return ``expr`` as an affine form of the ``loop_variables``, with the sizes replaced by their numbers in
    ``environment``; raise `IndexExpressionError` if it is not affine.
    """
    sizes = {
        s: sympy.Integer(environment[s])
        for s in expr.free_symbols & environment.keys()
        if s.is_Symbol and s not in loop_variables
    }
    form = to_affine(sympy.expand(expr.xreplace(sizes)), lambda s: loop_variables.get(s, str(s)))
    if not set(form.atoms()) <= set(loop_variables.values()) or any(not isinstance(v, str) for v, _ in form.terms):
        raise IndexExpressionError(str(expr))
    return form


def _indices_in(expr: Any, binders: Sequence[IndexRange]) -> set[Any]:
    """Return the indices of ``binders`` that occur in ``expr``."""
    return {binder.index for binder in binders if binder.index in expr.free_symbols}


# ---------------------------------------------------------------------------- evaluating at all points


def evaluate(expr: Any, values: Environment) -> Any:
    """Return the values of ``expr``, an integer expression or a condition on integers, as an exact array with one value
    for each point. Raise `UnsupportedError` for other expressions.

    ``values`` has the values of its symbols at all points.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> i = td.indices("i")
    >>> evaluate(sympy.floor((3*i + 1)/2), {i: np.arange(4)}).tolist()
    [0, 2, 3, 5]
    """
    if expr in (sympy.true, sympy.false):
        return bool(expr)
    if isinstance(expr, sympy.And | sympy.Or | sympy.Not):
        return _CONNECTIVES[type(expr)]([evaluate(arg, values) for arg in expr.args])
    if isinstance(expr, Relational):
        # Denominators are positive integers: they do not change the sign.
        difference = evaluate(sympy.fraction(sympy.together(expr.lhs - expr.rhs))[0], values)
        return getattr(np, _COMPARISONS[type(expr)])(difference, 0)
    symbol_of = {entry: sympy.Dummy(integer=True) for entry in expr.atoms(TensorEntry, TensorSymbol) if is_data(entry)}
    environment = {**values, **{symbol: _read_data(entry, values) for entry, symbol in symbol_of.items()}}
    try:
        form, atoms = parse(expr.xreplace(symbol_of))
        return form.evaluate({slot: environment[atom] for slot, atom in enumerate(atoms)})
    except (IndexExpressionError, KeyError):
        raise UnsupportedError(
            f"{expr} in an index or a condition of a structured derivative: write it with sums, products, floor, Mod, "
            "Max, Min, comparisons and entries of tensors of integers, or take td.hessian or td.jacobian"
        ) from None


_CONNECTIVES: Mapping[Any, Callable[[list[Any]], Any]] = {
    sympy.And: lambda args: reduce(np.logical_and, args),
    sympy.Or: lambda args: reduce(np.logical_or, args),
    sympy.Not: lambda args: np.logical_not(args[0]),
}
_COMPARISONS: Mapping[Any, str] = {
    sympy.Eq: "equal",
    sympy.Ne: "not_equal",
    sympy.Le: "less_equal",
    sympy.Lt: "less",
    sympy.Ge: "greater_equal",
    sympy.Gt: "greater",
}


def _read_data(entry: Any, values: Environment) -> Any:
    """Return the values of ``entry``, an index array or an entry of one, at all points. Raise an error if ``values``
    lacks the array, or if an index is out of bounds.
    """
    tensor = entry.tensor if isinstance(entry, TensorEntry) else entry
    if tensor not in values:
        raise UnsupportedError(
            f"{entry} is in an index or a condition of a structured derivative, but {tensor} is not an argument: "
            "give it to td.structured_hessian or td.structured_jacobian as a tensor of integers"
        )
    data = values[tensor]
    indices = [evaluate(index, values) for index in getattr(entry, "indices", ())]
    for axis, (index, length) in enumerate(zip(indices, data.shape, strict=True)):
        check_inside(index, length, f"{entry} on axis {axis}", DataIndexError)
    return data[tuple(indices)]


def check_inside(index: Any, length: int, description: str, error: type[OutOfShapeError] = OutOfShapeError) -> None:
    """Raise ``error`` if a position in ``index``, an integer or an array of them, is not in ``0 .. length - 1``.
    ``description`` is the beginning of the message.
    """
    positions = np.asarray(index)
    if positions.size and not (positions.min() >= 0 and positions.max() < length):
        wrong = positions[(positions < 0) | (positions >= length)].flat[0]
        raise error(
            f"{description} reads at {wrong}, but the positions there are 0 to {length - 1}: fix the data or the sizes"
        )
