"""Validation of the parts of a binder: its body, indices, extents and bounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from sympy import Add, Expr, Idx, Max, Min, S, Symbol, Tuple

from sympy_tensordiff.errors import (
    ArgumentError,
    ArgumentTypeError,
    IndexExpressionError,
    OutOfShapeError,
    ShapeError,
    UnsupportedError,
)
from sympy_tensordiff.integer.affine import Affine, Constraint, Variable
from sympy_tensordiff.integer.extrema import positive_parts_in
from sympy_tensordiff.integer.indirect import data_entries
from sympy_tensordiff.integer.rows import linear, range_rows
from sympy_tensordiff.symbolic.expressions import hooks
from sympy_tensordiff.symbolic.expressions.arguments import as_expr
from sympy_tensordiff.symbolic.expressions.integer_symbols import is_integer_in, may_be_integer
from sympy_tensordiff.symbolic.expressions.misplaced_tensors import index_letters, is_whole, refuse_as_scalar
from sympy_tensordiff.symbolic.expressions.real_values import refuse_imaginary
from sympy_tensordiff.symbolic.expressions.traversal import free_symbols_in, native_parts, nodes_in
from sympy_tensordiff.symbolic.index_notation.indices import as_index, parse, to_affine


class IndexRange(NamedTuple):
    """An index and its range from ``low`` to ``high``, both included, as in the limit ``(k, 0, n - 1)`` of a sum. The
    ends are any integer expressions, of sizes, outer indices and index arrays.

    Examples
    --------
    >>> from sympy_tensordiff.symbolic.index_notation.indices import indices, to_affine
    >>> k, p, n = indices("k p n")
    >>> IndexRange(k, Max(0, p - 2), n - 1).constraints("k", lambda end: to_affine(end, str))
    [k >= 0, k - p + 2 >= 0, -k + n - 1 >= 0]
    """

    index: Expr
    low: Expr
    high: Expr

    @property
    def lows(self) -> tuple[Expr, ...]:
        """The lower bounds of the range: the arguments of ``low`` if it is a maximum, else ``low`` alone."""
        return bound_forms(self.low, Max)

    @property
    def highs(self) -> tuple[Expr, ...]:
        """The upper bounds of the index: the operands of ``high`` if it is a minimum, else ``high`` alone."""
        return bound_forms(self.high, Min)

    def constraints(self, variable: Variable, form: Callable[[Expr], Affine | None]) -> list[Constraint]:
        """Return this range as constraints on ``variable``. ``form`` converts a bound to an affine form of variables; a
        bound for which it returns None gives no constraint.
        """
        lows, highs = ([found for end in ends if (found := form(end)) is not None] for ends in (self.lows, self.highs))
        return range_rows(Affine.variable(variable), lows, highs)


NOT_FINITE = frozenset((S.Infinity, S.NegativeInfinity, S.ComplexInfinity, S.NaN))


def checked_body(value: Any, owner: str) -> Expr:
    """Return ``value`` as a real scalar expression, to be the body of a sum or tensor; raise an error that names
    ``owner`` if it is not one.

    Raises `ArgumentTypeError` for anything else, and an error for a whole tensor or an imaginary unit in it.
    """
    body = as_expr(value, f"the body of {owner}")
    if not isinstance(body, Expr) or getattr(body, "is_Matrix", False):
        raise ArgumentTypeError(
            f"the body of {owner} must be a scalar expression, not {body} ({type(body).__name__}); "
            "use a tensor's entries, e.g. A[i, j]"
        )
    for node in nodes_in([body], native_parts):
        if is_whole(node):
            entry = f"{node.name if node.is_symbol else 'T'}[{', '.join(index_letters(node.rank))}]"
            refuse_as_scalar(
                node, f"the body of {owner}", also=f", or write an entry of it, {entry}; td.sum adds all entries"
            )
        elif node is S.ImaginaryUnit:
            refuse_imaginary(body, owner)
    return body


def checked_extent(value: Any, owner: str) -> Expr:
    """Return ``value`` as an extent: a positive integer expression such as ``2*n + 1``. Raise an error that names
    ``owner`` if it is not one.

    Raises `ShapeError` for anything else, and `UnsupportedError` for a maximum or minimum.
    """
    extent = as_expr(value, "an extent")
    if not isinstance(extent, Expr) or (extent.is_Number and not (extent.is_Integer and extent > 0)):
        raise ShapeError(f"{owner} has the extent {extent}: an extent must be a positive integer")
    if extent.is_nonpositive:
        raise ShapeError(f"{owner} has the extent {extent}, which is not positive by its assumptions")
    try:
        form, _ = parse(extent)
    except IndexExpressionError as error:
        raise ShapeError(f"{owner} has the extent {extent}: {error}") from None
    if not linear([form]) and data_entries([form]):
        raise ShapeError(f"{owner} has the extent {extent}, which is data: an extent must be a number, or a symbol")
    if not linear([form]) and positive_parts_in((form,)):
        raise UnsupportedError(f"{owner} has the extent {extent}: use a symbol of its own for a maximum or minimum")
    if form.is_constant and form.constant < 1:
        raise ShapeError(f"{owner} has the extent {extent} = {form.constant}: an extent must be a positive integer")
    return extent


def checked_axis(limit: Any, owner: str) -> Tuple:
    """Return ``limit`` as the tuple ``(index, extent)`` of a comprehension; raise an error that names ``owner`` if it
    is not valid.
    """
    parts = _parts_of_limit(limit)
    if len(parts) == 1 and isinstance(parts[0], Idx) and parts[0].lower is not None:
        index = parts[0]
        if index.lower != 0:
            raise ShapeError(
                f"{owner}: the range of {index} starts at {index.lower}, but the axes of a tensor start at 0; "
                f"give Idx({str(index)!r}, extent) and shift the index in the body"
            )
        parts = (index, index.upper + 1)
    if len(parts) != 2:
        raise ArgumentError(
            f"{owner}: the limit {_limit_text(parts)} must be (index, extent), e.g. (i, n) for i = 0 … n - 1"
        )
    index = checked_index(parts[0], owner)
    _check_assumptions(index, S.Zero, owner)
    return Tuple(index, checked_extent(parts[1], owner))


def checked_range(limit: Any, owner: str) -> Tuple:
    """Return ``limit`` as the tuple ``(index, lower, upper)`` of a sum or other reduction; raise an error that names
    ``owner`` if it is not valid.
    """
    parts = _parts_of_limit(limit)
    if len(parts) == 1 and isinstance(parts[0], Idx) and parts[0].lower is not None:
        parts = (parts[0], parts[0].lower, parts[0].upper)
    if len(parts) != 3 or any(part is None for part in parts):
        raise ArgumentError(
            f"{owner}: the limit {_limit_text(parts)} has no complete range; write (index, first, last), "
            "e.g. (k, 0, n - 1), the last value included"
        )
    index = checked_index(parts[0], owner)
    low = _checked_bound(parts[1], Max, index, owner)
    _check_assumptions(index, low, owner)
    return Tuple(index, low, _checked_bound(parts[2], Min, index, owner))


def checked_index(value: Any, owner: str) -> Expr:
    """Return ``value`` as an index, a symbol that may be an integer; raise `IndexExpressionError`, which names
    ``owner``, for anything else.
    """
    index = as_expr(value, "an index of a limit")
    if not isinstance(index, (Symbol, Idx)):
        raise IndexExpressionError(
            f"{owner}: {index} is not an index; an index is an integer symbol, e.g. td.indices('i')"
        )
    if not may_be_integer(index):
        raise IndexExpressionError(
            f"{owner}: the index {index} is declared not to be an integer: use td.indices({index.name!r}) "
            f"or Symbol({index.name!r}, integer=True)"
        )
    return index


def _check_assumptions(index: Any, low: Expr, owner: str) -> None:
    """Raise `ArgumentError`, which names ``owner``, if a declared assumption on ``index``, such as positive, is false
    for a value in its range, which starts at ``low``; SymPy would simplify wrongly.
    """
    if isinstance(index, Idx):
        return
    wrong = [name for name in ("even", "odd", "prime", "composite") if getattr(index, f"is_{name}") is not None]
    if index.is_zero is False and not low.is_positive:
        wrong.append("positive" if index.is_positive else "negative" if index.is_negative else "nonzero")
    elif index.is_nonnegative and not low.is_nonnegative:
        wrong.append("nonnegative")
    elif index.is_nonpositive:
        wrong.append("nonpositive")
    if wrong:
        raise ArgumentError(
            f"{owner}: the index {index} is declared {' and '.join(wrong)}, but its range starts at {low}; "
            f"declare it an integer only: td.indices({index.name!r})"
        )


def check_scopes(limits: tuple[Tuple, ...], owner: str) -> None:
    """Raise `IndexExpressionError`, which names ``owner``, if the range of an index depends on the index itself or on
    an inner one (earlier in ``limits``).
    """
    inner: list[Expr] = []
    for index, *bounds in limits:
        inner.append(index)
        for other in inner:
            if any(other in bound.free_symbols for bound in bounds):
                reason = "itself" if other == index else f"{other}, which is bound further inside"
                raise IndexExpressionError(
                    f"{owner}: the range of {index} depends on {reason}; the first limit is the innermost, "
                    "so outer ranges come later"
                )


def check_axes(axes: tuple[Tuple, ...], owner: str) -> None:
    """Raise `ShapeError`, which names ``owner``, if an extent in ``axes``, pairs ``(index, extent)``, depends on one of
    these indices.
    """
    for index, extent in axes:
        for other, _ in axes:
            if other in extent.free_symbols:
                raise ShapeError(f"{owner}: the extent {extent} of {index} depends on the index {other}")


def check_names(body: Expr, limits: tuple[Tuple, ...], owner: str) -> None:
    """Raise `ArgumentError`, which names ``owner``, if a name is ambiguous: two ``limits`` have indices of one name, or
    ``body`` contains another symbol that is printed like an index, for example an `Idx` for a plain symbol.
    """
    indices = [limit[0] for limit in limits]
    labels = [_label(index) for index in indices]
    for position, label in enumerate(labels):
        if label in labels[:position]:
            raise ArgumentError(f"{owner}: the index {label} occurs in two limits; use two names")
    names = {index.name for index in indices}
    for symbol in free_symbols_in([body]):
        if symbol not in indices and _label(symbol) in labels:
            raise ArgumentError(
                f"{owner}: {symbol} in the body {body} is not the index {symbol} of the limit: one of the two is a "
                "sympy.Idx, or has another range; use the same object in both places"
            )
        if getattr(symbol, "name", None) in names and symbol not in indices and _is_mistaken(symbol, body, indices):
            raise ArgumentError(
                f"{owner}: {symbol} in the body {body} is not the index {symbol} of the limit: one of the two is "
                "declared an integer, the other one is not; use the same object in both places, e.g. "
                f"td.indices({symbol.name!r})"
            )


def check_reads(binder: Any) -> None:
    """Raise `OutOfShapeError` if a read in ``binder``, a new sum or comprehension, is out of bounds for some values of
    the indices in ranges of numbers. Reads behind conditions on values are not checked.
    """
    if all(limit.low.free_symbols or limit.high.free_symbols for limit in binder.ranges()):
        return  # ranges of sizes: derivatives and kernels check them
    found = hooks.read_out_of_bounds(binder)
    if found is None:
        return
    tensor, forms, shape, axis, point = found
    texts = [*map(str, forms)]
    read, indices = f"{tensor or 'a table'}[{', '.join(texts)}]", forms
    for node in nodes_in([binder]):
        is_entry = getattr(node, "is_tensor_entry", False) and tensor in (None, node.tensor)
        if is_entry and [str(to_affine(index, str)) for index in node.indices] == texts:
            read, indices = node, node.indices  # as the user wrote it
    where = ", ".join(f"{name} = {value}" for name, value in point.items())
    raise OutOfShapeError(
        f"{read} leaves the shape {shape}: at {where} its index {indices[axis]} of axis {axis} is "
        f"{forms[axis].evaluate(point)}, outside of 0 … {shape[axis] - 1}; fix the range, the index or the shape"
    )


def _is_mistaken(symbol: Any, body: Expr, indices: list[Any]) -> bool:
    """Return whether ``symbol`` has the name of one of ``indices`` and is used as an integer in ``body``, but is
    another symbol (declared differently): the user probably meant the index.
    """
    declared = symbol.is_integer and all(index.is_integer for index in indices if index.name == symbol.name)
    return isinstance(symbol, Symbol) and not declared and is_integer_in(symbol, body)


def _label(symbol: Any) -> Any:
    """Return the label of an `Idx`; another symbol is returned unchanged."""
    return symbol.label if isinstance(symbol, Idx) else symbol


def bound_forms(bound: Expr, extremum: Any) -> tuple[Expr, ...]:
    """Split a bound of an index into its parts: ``(a, b)`` for the lower bound ``Max(a, b)`` (``extremum`` is `Max`) or
    the upper bound ``Min(a, b)`` (it is `Min`), else ``(bound,)``. A constant in front, as in ``1 + Max(a, b)``, is
    added to each part.

    The other extremum is not split.

    >>> from sympy import Max
    >>> from sympy_tensordiff.symbolic.index_notation.indices import indices
    >>> p = indices("p")
    >>> sorted(map(str, bound_forms(1 + Max(0, p - 2), Max)))
    ['1', 'p - 1']
    """
    for term in Add.make_args(bound):
        coefficient, rest = term.as_coeff_Mul()
        kind = {Max: Min, Min: Max}[extremum] if coefficient.is_negative else extremum
        if isinstance(rest, kind) and coefficient.is_Integer:
            return tuple(bound - term + coefficient * form for form in rest.args)
    return (bound,)


def _checked_bound(value: Any, extremum: Any, index: Expr, owner: str) -> Expr:
    """Return ``value`` as a bound of ``index``, a lower one if ``extremum`` is `Max`. Raise `ArgumentError` if it is
    not finite and `IndexExpressionError` if it is not an index expression; messages begin with ``owner``.
    """
    side = "lower" if extremum is Max else "upper"
    bound = as_index(value, "a bound of a range")
    if not isinstance(bound, Expr) or bound in NOT_FINITE:
        raise ArgumentError(
            f"{owner}: the {side} bound of {index} is {bound}; a finite range is needed, e.g. ({index}, 0, n - 1)"
        )
    for form in bound_forms(bound, extremum):
        try:
            parse(form)
        except IndexExpressionError as error:
            raise IndexExpressionError(f"{owner}: the {side} bound of {index}: {error}") from None
    return bound


def _parts_of_limit(limit: Any) -> tuple[Any, ...]:
    """Return the components of a limit that the user wrote, such as ``(k, 0, n)``; those of a bare index ``k`` are
    ``(k,)``.
    """
    return tuple(limit) if isinstance(limit, (tuple, list, Tuple)) else (limit,)


def _limit_text(parts: tuple[Any, ...]) -> str:
    """Return the text of the limit ``parts``, such as ``(i, 0, n)``, for messages."""
    return f"({', '.join(map(str, parts))})"
