"""What a user writes of an index map, read into numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import index as as_integer
from typing import Any

from sympy import Expr, Idx, Max, Min, S, Tuple

from sympy_tensordiff.drawing.index_map import IndexMap, Point
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError, IndexExpressionError, UnsupportedError
from sympy_tensordiff.integer.affine import Affine, Row
from sympy_tensordiff.integer.products import Product
from sympy_tensordiff.integer.system import definitions
from sympy_tensordiff.integer.unfolding import unfolded
from sympy_tensordiff.symbolic.indices import as_expr, parse
from sympy_tensordiff.symbolic.limits import bound_forms, checked_axis, checked_range

MOST = 3
"""Indices of a picture."""

Limit = tuple[Any, tuple[Expr, ...], tuple[Expr, ...]]


def read_index_map(index: Any, limits: Any, at: Any, sizes: Any, owner: str) -> tuple[IndexMap, Point | None]:
    """The map in numbers, and the image that is asked for.

    Raises
    ------
    IndexExpressionError, ArgumentError, ArgumentTypeError, UnsupportedError
        As `plot_index_map`.
    """
    parts = index.indices if getattr(index, "is_tensor_entry", False) else index
    parts = tuple(parts) if isinstance(parts, (tuple, list, Tuple)) else (parts,)
    ranges = _ranges(limits, owner)
    names = [limit[0] for limit in ranges]
    if not 1 <= len(names) <= MOST:
        raise UnsupportedError(
            f"{owner}: a picture has one to {MOST} indices, not {len(names)} ({', '.join(map(str, names))}): put "
            "numbers in the place of the others"
        )
    if not parts:
        raise ArgumentError(f"{owner}: there is no index; give one form for each axis, e.g. (2*i + k, j)")
    values = {name: Affine.variable(v) for v, name in enumerate(names)} | _numbers(sizes, names, owner)
    forms = tuple(_form(part, values, owner) for part in parts)
    for part, form in zip(parts, forms, strict=True):
        if any(isinstance(found, Product) for found in definitions(form.compounds())):
            raise UnsupportedError(
                f"{owner}: {part} is not linear in {', '.join(map(str, names))}: leave out products of indices"
            )
    rows = []
    for number, (name, lows, highs) in enumerate(ranges):
        variable = Affine.variable(number)
        _check_scope(name, (*lows, *highs), ranges, owner)
        limits_of_it = [Row("ge", variable - _form(low, values, owner)) for low in lows]
        limits_of_it += [Row("ge", _form(high, values, owner) - variable) for high in highs]
        rows += _plain(limits_of_it, name, owner)
    index_map = IndexMap(tuple(map(str, names)), forms, tuple(rows))
    return index_map, None if at is None else _image(at, forms, values, owner)


def _ranges(limits: Any, owner: str) -> list[Limit]:
    """Limits of a comprehension or of a sum; one alone need not stand in a sequence."""
    several = isinstance(limits, (tuple, list, Tuple)) and all(
        isinstance(limit, (tuple, list, Tuple, Idx)) for limit in limits
    )
    found: list[Limit] = []
    for limit in limits if several else (limits,):
        if isinstance(limit, (tuple, list, Tuple)) and len(limit) == 2:
            name, extent = checked_axis(limit, owner)
            found.append((name, (S.Zero,), (extent - 1,)))
        else:
            name, low, high = checked_range(limit, owner)
            found.append((name, bound_forms(low, Max), bound_forms(high, Min)))
    repeated = [name for number, (name, *_) in enumerate(found) if any(name == other[0] for other in found[:number])]
    if repeated:
        raise ArgumentError(f"{owner}: the index {repeated[0]} has two ranges; use two names")
    return found


def _numbers(sizes: Mapping[Any, Any] | None, names: Sequence[Any], owner: str) -> dict[Any, Affine]:
    """The numbers of symbols, which may be given by their names."""
    if sizes is not None and not isinstance(sizes, Mapping):
        raise ArgumentTypeError(f"{owner}: sizes must be a dict from symbols to numbers, not {sizes!r}")
    found: dict[Any, Affine] = {}
    for symbol, number in (sizes or {}).items():
        try:
            found[symbol] = Affine.of(as_integer(number))
        except TypeError:
            raise ArgumentTypeError(f"{owner}: the number of {symbol} must be an int, not {number!r}") from None
        if symbol in names or symbol in map(str, names):
            raise ArgumentError(f"{owner}: {symbol} has a range and a number; leave one of them out")
    return found


def _form(value: Any, values: Mapping[Any, Affine], owner: str) -> Affine:
    """An index expression with numbers for all symbols but the indices."""
    expr = as_expr(value, f"{owner}: an index")
    form, atoms = parse(expr)
    given = {atom: values.get(atom, values.get(str(atom))) for atom in atoms}
    missing = [str(atom) for atom, number in given.items() if number is None]
    if missing:
        example = ", ".join(f"{name!r}: 4" for name in missing)
        raise ArgumentError(
            f"{owner}: {', '.join(missing)} in {expr} has neither a range nor a number; give sizes={{{example}}}"
        )
    try:
        return form.substitute({slot: number for slot, number in enumerate(given.values()) if number is not None})
    except ValueError as error:
        raise ArgumentError(f"{owner}: {expr} divides by what is not positive: {error}") from None


def _check_scope(name: Any, bounds: Sequence[Expr], ranges: Sequence[Limit], owner: str) -> None:
    """No bound of an index depends on the index, directly or by others."""
    limits = {other: {s for bound in (*lows, *highs) for s in bound.free_symbols} for other, lows, highs in ranges}
    reached = {s for bound in bounds for s in bound.free_symbols}
    for _ in ranges:
        reached |= {s for other in reached for s in limits.get(other, ())}
    if name in reached:
        raise IndexExpressionError(f"{owner}: the range of {name} depends on {name} itself, by way of its bounds")


def _plain(rows: Sequence[Row], name: Any, owner: str) -> list[Row]:
    """Inequalities without rounding and products."""
    found: list[Row] = []
    for row in rows:
        written = unfolded(row, frozenset(range(MOST)))
        if written is None or any(part.form.hidden() for part in written):
            raise UnsupportedError(
                f"{owner}: the range of {name} rounds or has a product of indices in a way that no straight line shows"
            )
        found += written
    return found


def _image(at: Any, forms: Sequence[Affine], values: Mapping[Any, Affine], owner: str) -> Point:
    parts = tuple(at) if isinstance(at, (tuple, list, Tuple)) else (at,)
    if len(parts) != len(forms):
        raise ArgumentError(f"{owner}: at has {len(parts)} values for {len(forms)} axes")
    found = [_form(part, values, owner) for part in parts]
    for part, form in zip(parts, found, strict=True):
        if not form.is_constant:
            raise ArgumentError(f"{owner}: at is an entry, so {part} must be a number and not depend on an index")
    return tuple(form.constant for form in found)
