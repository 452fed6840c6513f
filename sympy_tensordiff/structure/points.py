"""The integer points of a polyhedron as arrays of coordinates, in lexicographic order.

The ranges come from the loop nest of `integer.nests.bounds`, so that few outer points have no inner one: conditions and
limits are rows of one system. Level by level all points are extended at once. What is no affine row (entries of integer
arrays, quotients, alternatives) bounds or removes the points as soon as its indices are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np
import sympy
from numpy.typing import NDArray
from sympy.core.relational import Relational

from sympy_tensordiff.errors import (
    DataIndexError,
    IndexExpressionError,
    LoopBoundError,
    OutOfShapeError,
    UnsupportedError,
)
from sympy_tensordiff.integer.affine import Affine, Row
from sympy_tensordiff.integer.nests import Bounds, bounds
from sympy_tensordiff.structure.terms import Binder
from sympy_tensordiff.symbolic.indices import is_data, parse, relation_row, to_affine
from sympy_tensordiff.symbolic.tensors import TensorEntry, TensorSymbol

Values = Mapping[Any, Any]
"""Sizes and coordinates by their symbols, arrays of integers by their tensors."""


def enumerate_points(binders: Sequence[Binder], conditions: Iterable[Any], known: Values) -> list[NDArray[np.int64]]:
    """The points of the binders' ranges under the conditions: one array of coordinates for each binder.

    Without binders the one point has no coordinates, and the list is empty whether the conditions hold or not: ask
    `holds`.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> i, p, n = td.indices("i p n")
    >>> band = [Binder(i, sympy.S(0), n - 1), Binder(p, sympy.S(0), n - 1)]
    >>> [c.tolist() for c in enumerate_points(band, [(i <= p) & (p <= i + 1)], {n: 3})]
    [[0, 0, 1, 1, 2], [0, 1, 1, 2, 2]]
    """
    conjuncts = [part for condition in conditions for part in sympy.And.make_args(condition)]
    nest, guards = _nest(binders, conjuncts, known)
    coordinates: dict[Any, NDArray[np.int64]] = {}
    count = int(all(evaluate(guard, known) for guard in guards if not _indices(guard, binders)))
    waiting = [guard for guard in guards if _indices(guard, binders)]
    for binder, range_of in zip(binders, nest, strict=True):
        low, high = range_of({**known, **coordinates})
        lengths = np.broadcast_to(np.maximum(high - low + 1, 0), (count,))
        ends = np.cumsum(lengths)
        count = int(ends[-1]) if len(ends) else 0
        coordinates = {index: np.repeat(c, lengths) for index, c in coordinates.items()}
        starts = np.repeat(np.broadcast_to(low, lengths.shape) - (ends - lengths), lengths)
        coordinates[binder.index] = np.arange(count) + starts
        ready = [guard for guard in waiting if _indices(guard, binders) <= coordinates.keys()]
        waiting = [guard for guard in waiting if guard not in ready]
        for guard in ready:
            chosen = np.flatnonzero(np.broadcast_to(evaluate(guard, {**known, **coordinates}), (count,)))
            coordinates = {index: c[chosen] for index, c in coordinates.items()}
            count = len(chosen)
    return list(coordinates.values())


def holds(conditions: Iterable[Any], known: Values) -> bool:
    """Whether conditions without indices hold."""
    return all(bool(evaluate(condition, known)) for condition in conditions)


Range = Callable[[Values], tuple[Any, Any]]


def _nest(binders: Sequence[Binder], conditions: list[Any], known: Values) -> tuple[list[Range], list[Any]]:
    """A range for each level and the conditions that the ranges do not express."""
    names = {binder.index: f"{number:02d}" for number, binder in enumerate(binders)}
    rows, guards = [], []
    for condition in conditions:
        row = _row(condition, names, known)
        rows += [] if row is None else [row]
        guards += [condition] if row is None else []
    try:
        for index, low, high in binders:
            for end in (index - low, high - index):
                rows.append(Row("ge", _affine(end, names, known)))
        nest, rest = bounds(rows, list(names.values()))
    except (IndexExpressionError, LoopBoundError):
        return [_written(binder) for binder in binders], conditions
    if not all(row.holds({}) for row in rest):
        return [lambda _: (0, -1) for _ in binders], []
    symbols = {name: index for index, name in names.items()}
    return [_derived(level, symbols) for level in nest], guards


def _written(binder: Binder) -> Range:
    """The range as it is written, which may hold anything that can be evaluated."""
    return lambda values: (evaluate(binder.low, values), evaluate(binder.high, values))


def _derived(level: Bounds, symbols: Mapping[str, Any]) -> Range:
    def range_of(values: Values) -> tuple[Any, Any]:
        at = {name: values[symbol] for name, symbol in symbols.items() if symbol in values}
        lows = [-(-form.evaluate(at) // divisor) for form, divisor in level.lows]
        highs = [form.evaluate(at) // divisor for form, divisor in level.highs]
        return reduce(np.maximum, lows), reduce(np.minimum, highs)

    return range_of


def _row(condition: Any, names: Mapping[Any, str], known: Values) -> Row | None:
    """An affine inequality or equation as a row, else nothing."""
    if not isinstance(condition, Relational) or isinstance(condition, sympy.Ne):
        return None
    try:
        return relation_row(condition, _affine(condition.lhs - condition.rhs, names, known))
    except IndexExpressionError:
        return None


def _affine(expr: Any, names: Mapping[Any, str], known: Values) -> Affine:
    """The form over the loop variables at the sizes of this call; anything but a sum of multiples is refused."""
    numbers = {s: sympy.Integer(known[s]) for s in expr.free_symbols & known.keys() if s.is_Symbol and s not in names}
    form = to_affine(sympy.expand(expr.xreplace(numbers)), lambda s: names.get(s, str(s)))
    if not set(form.atoms()) <= set(names.values()) or any(not isinstance(v, str) for v, _ in form.terms):
        raise IndexExpressionError(str(expr))
    return form


def _indices(expr: Any, binders: Sequence[Binder]) -> set[Any]:
    return {binder.index for binder in binders if binder.index in expr.free_symbols}


# ---------------------------------------------------------------------------- evaluating at all points


def evaluate(expr: Any, values: Values) -> Any:
    """An integer expression or a condition on integers at all points at once, exactly.

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
        return _COMPARISONS[type(expr)](difference, 0)
    read = {entry: sympy.Dummy(integer=True) for entry in expr.atoms(TensorEntry, TensorSymbol) if is_data(entry)}
    known = {**values, **{symbol: _read(entry, values) for entry, symbol in read.items()}}
    try:
        form, atoms = parse(expr.xreplace(read))
        return form.evaluate({slot: known[atom] for slot, atom in enumerate(atoms)})
    except (IndexExpressionError, KeyError):
        raise UnsupportedError(
            f"{expr} in an index or a condition of a structured derivative: write it with sums, products, floor, Mod, "
            "Max, Min, comparisons and entries of tensors of integers, or take td.hessian or td.jacobian"
        ) from None


_CONNECTIVES: Mapping[Any, Callable[[list[Any]], Any]] = {
    sympy.And: partial(reduce, np.logical_and),
    sympy.Or: partial(reduce, np.logical_or),
    sympy.Not: lambda args: np.logical_not(args[0]),
}
_COMPARISONS: Mapping[Any, Any] = {
    sympy.Eq: np.equal,
    sympy.Ne: np.not_equal,
    sympy.Le: np.less_equal,
    sympy.Lt: np.less,
    sympy.Ge: np.greater_equal,
    sympy.Gt: np.greater,
}


def _read(entry: Any, values: Values) -> Any:
    tensor = entry.tensor if isinstance(entry, TensorEntry) else entry
    if tensor not in values:
        raise UnsupportedError(
            f"{entry} is in an index or a condition of a structured derivative, but {tensor} is no argument that is a "
            "tensor of integers: give it to td.structured_hessian or td.structured_jacobian as one"
        )
    data = values[tensor]
    indices = [evaluate(index, values) for index in getattr(entry, "indices", ())]
    for axis, (index, length) in enumerate(zip(indices, data.shape, strict=True)):
        check_inside(index, length, f"{entry} on axis {axis}", DataIndexError)
    return data[tuple(indices)]


def check_inside(index: Any, length: int, what: str, error: type[OutOfShapeError] = OutOfShapeError) -> None:
    """Refuse positions that are not in ``0 .. length - 1``."""
    positions = np.asarray(index)
    if positions.size and not (positions.min() >= 0 and positions.max() < length):
        wrong = positions[(positions < 0) | (positions >= length)].flat[0]
        raise error(
            f"{what} reads at {wrong}, but the positions there are 0 to {length - 1}: fix the data or the sizes"
        )
