"""The public function for a picture of an index map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import index as as_integer
from typing import Any, Literal

from sympy import Idx, S, Symbol, Tuple

from sympy_tensordiff.drawing.index_map import IndexMap, Point, lattice_points, solve_index_map
from sympy_tensordiff.drawing.index_map_axes import draw_indices, draw_kernel, fit_figure
from sympy_tensordiff.errors import (
    ArgumentError,
    ArgumentTypeError,
    BackendError,
    IndexExpressionError,
    UnsupportedError,
)
from sympy_tensordiff.integer.affine import Affine, Constraint
from sympy_tensordiff.integer.floor_elimination import eliminate_floors
from sympy_tensordiff.integer.products import IndexProduct
from sympy_tensordiff.integer.system import definitions
from sympy_tensordiff.symbolic.expressions.arguments import as_expr
from sympy_tensordiff.symbolic.expressions.call_errors import explained
from sympy_tensordiff.symbolic.index_notation.indices import parse
from sympy_tensordiff.symbolic.index_notation.limits import IndexRange, checked_axis, checked_range

CALLER = "plot_index_map"
MAX_INDICES = 3
"""Largest number of indices of a picture."""
MAX_LAYERS = 12


@explained
def plot_index_map(
    index: Any,
    limits: Any,
    at: Any = None,
    *,
    sizes: Mapping[Any, int] | None = None,
    space: Literal["indices", "kernel"] = "indices",
    ax: Any = None,
) -> Any:
    """Plot the indices, within their ranges ``limits``, at which ``index`` reads the entry ``at``: the integer
    solutions of ``A alpha + t == at``. ``space`` selects the coordinates; ``ax`` is the figure's axes.

    Parameters
    ----------
    index : Expr, tuple of Expr, or TensorEntry
        The forms ``A alpha + t``: an index such as ``2*i + k``, one for each axis of the tensor, or the entry
        ``x[2*i + k]`` itself.
    limits : sequence of (index, extent) or (index, lower, upper)
        The ranges of one, two or three indices, as in a comprehension or in a sum; a bound may hold other indices.
        The first index is the horizontal axis, the second the vertical one; of a third each value has a layer, side
        by side.
    at : int, tuple of int, optional
        The entry whose readers are shown. Without it the picture has the lattice and its images only.
    sizes : mapping of Symbol or str to int, optional
        Numbers for all other symbols.
    space : {"indices", "kernel"}
        Whether the solutions are drawn as indices ``alpha``, or as the ``z`` of ``alpha = I(at - t) + K z``.
    ax : matplotlib.axes.Axes, optional
        The axes to draw into; by default those of a new figure, which ``matplotlib.pyplot.show()`` displays.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    BackendError
        If matplotlib is not installed.
    IndexExpressionError, ArgumentError, ArgumentTypeError
        If ``at`` or an argument is not an index or a limit, a symbol has no number, or the ranges are empty.
    UnsupportedError
        If there are more than three indices, more points than one can see, or products of indices.

    Notes
    -----
    Solutions, kernel basis, conditions and ranges are computed as for derivatives: by the Smith normal form and by
    Fourier-Motzkin elimination (Urban & van der Smagt 2017, sections 4 and 5.1, figures 3 and 4). Gray dots are the
    indices in their ranges, with their images; blue dots solve the equation, rings do so outside of the ranges. The
    dashed line is where rational numbers solve it: where a congruence fails, it goes past all dots. Of an index that
    is rounded or clamped, such as ``Min(i + k, 7)``, the solutions are shown alone.

    Examples
    --------
    Figure 3 of the paper:

    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import sympy_tensordiff as td
    >>> i, j = td.indices("i j")
    >>> ax = td.plot_index_map(i - 2*j, [(i, 1, 6), (j, 1, 4)], at=-1)
    >>> print(ax.get_title())
    i - 2*j = -1
    (i, j) = (2*z - 1, z)
    z = 1 … 3
    >>> ax.figure.savefig("figure3.svg")  # doctest: +SKIP
    """
    if space not in ("indices", "kernel"):
        raise ArgumentError(f"{CALLER}: space is 'indices' or 'kernel', not {space!r}")
    index_map, image = read_index_map(index, limits, at, sizes)
    _, inside = lattice_points(index_map.rows, index_map.number_of_indices)
    if not inside:
        raise ArgumentError(f"{CALLER}: the ranges of {', '.join(index_map.names)} contain no point: nothing to draw")
    solved = None if image is None else solve_index_map(index_map, image)
    if space == "kernel" and (solved is None or solved.failing or not solved.kernel):
        unique = "the solution is unique" if index_map.is_affine else "the index is rounded or clamped"
        reason = "at is not given" if solved is None else "; ".join(solved.failing) or unique
        raise ArgumentError(f"{CALLER}: the kernel has nothing to draw: {reason}; use space='indices'")
    shown = inside if solved is None or space == "indices" else list(solved.by_kernel)
    layers = len({point[2:] for point in shown})
    if layers > MAX_LAYERS:
        raise UnsupportedError(
            f"{CALLER}: {layers} layers are more than {MAX_LAYERS}: choose a shorter range of the third index, or "
            "let another one come last"
        )
    if ax is not None and not hasattr(ax, "annotate"):
        raise ArgumentTypeError(f"{CALLER}: ax must be the axes of a figure of matplotlib, not {ax!r}")
    is_new = ax is None
    ax = _new_axes() if is_new else ax
    if space == "kernel" and solved is not None:
        draw_kernel(ax, index_map, solved)
    else:
        draw_indices(ax, index_map, inside, solved)
    if is_new:
        fit_figure(ax)
    return ax


def _new_axes() -> Any:
    """Return the axes of a new figure; raise `BackendError` if matplotlib is missing."""
    try:
        from matplotlib import pyplot
    except ImportError:
        raise BackendError(f"{CALLER} draws with matplotlib, which is not installed: pip install '.[plot]'") from None
    return pyplot.subplots()[1]


# ---------------------------------------------------------------------------- arguments converted to numbers


def read_index_map(index: Any, limits: Any, at: Any, sizes: Any) -> tuple[IndexMap, Point | None]:
    """Convert the arguments of `plot_index_map` to numbers: return the index map and the entry ``at`` (None if not
    given). ``index`` has a form for each axis, ``limits`` the ranges of its indices.

    Raise the errors of `plot_index_map`.
    """
    parts = index.indices if getattr(index, "is_tensor_entry", False) else index
    parts = tuple(parts) if isinstance(parts, (tuple, list, Tuple)) else (parts,)
    if isinstance(at, (tuple, list, Tuple)) and at and isinstance(at[0], Symbol):
        raise ArgumentError(f"{CALLER}: at={at} is a limit and not an entry: all limits are one list, [{limits}, {at}]")
    ranges = _read_limits(limits)
    names = [limit[0] for limit in ranges]
    if not 1 <= len(names) <= MAX_INDICES:
        raise UnsupportedError(
            f"{CALLER}: a picture has one to {MAX_INDICES} indices, not {len(names)} "
            f"({', '.join(map(str, names))}): replace the others by numbers"
        )
    if not parts:
        raise ArgumentError(f"{CALLER}: there is no index; give one form for each axis, e.g. (2*i + k, j)")
    values = {name: Affine.variable(v) for v, name in enumerate(names)} | _read_sizes(sizes, names)
    forms = tuple(_read_form(part, values) for part in parts)
    for part, form in zip(parts, forms, strict=True):
        if any(isinstance(found, IndexProduct) for found in definitions(form.compounds())):
            raise UnsupportedError(
                f"{CALLER}: {part} is not linear in {', '.join(map(str, names))}: leave out products of indices"
            )
    rows = []
    for number, limit in enumerate(ranges):
        _check_not_circular(limit, ranges)
        constraints = limit.constraints(number, lambda end: _read_form(end, values))
        rows += _linear_constraints(constraints, limit.index)
    index_map = IndexMap(tuple(map(str, names)), forms, tuple(rows))
    return index_map, None if at is None else _read_entry(at, forms, values)


def _read_limits(limits: Any) -> list[IndexRange]:
    """Return the range of each index in the user's ``limits``, ``(index, extent)`` or ``(index, first, last)``; raise
    `ArgumentError` if an index is repeated.
    """
    is_sequence = isinstance(limits, (tuple, list, Tuple)) and all(
        isinstance(limit, (tuple, list, Tuple, Idx)) for limit in limits
    )
    found: list[IndexRange] = []
    for limit in limits if is_sequence else (limits,):
        if isinstance(limit, (tuple, list, Tuple)) and len(limit) == 2:
            name, extent = checked_axis(limit, CALLER)
            found.append(IndexRange(name, S.Zero, extent - 1))
        else:
            found.append(IndexRange(*checked_range(limit, CALLER)))
    repeated = [name for number, (name, *_) in enumerate(found) if any(name == other[0] for other in found[:number])]
    if repeated:
        raise ArgumentError(f"{CALLER}: the index {repeated[0]} has two ranges; use two names")
    return found


def _read_sizes(sizes: Mapping[Any, Any] | None, names: Sequence[Any]) -> dict[Any, Affine]:
    """Return the numbers in `sizes` as a dictionary of affine forms; keys are symbols or their names. Raise an error if
    a number is not an int, or if its symbol is in `names`, the indices with ranges.
    """
    if sizes is not None and not isinstance(sizes, Mapping):
        raise ArgumentTypeError(f"{CALLER}: sizes must be a dict from symbols to numbers, not {sizes!r}")
    found: dict[Any, Affine] = {}
    for symbol, number in (sizes or {}).items():
        try:
            found[symbol] = Affine.of(as_integer(number))
        except TypeError:
            raise ArgumentTypeError(f"{CALLER}: the number of {symbol} must be an int, not {number!r}") from None
        if symbol in names or symbol in map(str, names):
            raise ArgumentError(f"{CALLER}: {symbol} has a range and a number; leave one of them out")
    return found


def _read_form(value: Any, values: Mapping[Any, Affine]) -> Affine:
    """Convert the index expression ``value`` to an affine form. ``values`` maps indices to variables and sizes to
    numbers; raise `ArgumentError` if one is missing.
    """
    expr = as_expr(value, f"{CALLER}: an index")
    form, atoms = parse(expr)
    given = {atom: values.get(atom, values.get(str(atom))) for atom in atoms}
    missing = [str(atom) for atom, number in given.items() if number is None]
    if missing:
        example = ", ".join(f"{name!r}: 4" for name in missing)
        raise ArgumentError(
            f"{CALLER}: {', '.join(missing)} in {expr} has neither a range nor a number; give sizes={{{example}}}"
        )
    try:
        return form.substitute({slot: number for slot, number in enumerate(given.values()) if number is not None})
    except ValueError as error:
        raise ArgumentError(f"{CALLER}: {expr} divides by a value that is not positive: {error}") from None


def _check_not_circular(limit: IndexRange, ranges: Sequence[IndexRange]) -> None:
    """Raise `IndexExpressionError` if the ends of the range ``limit`` depend on its index, directly or through others
    of the ``ranges``.
    """
    limits = {other.index: other.low.free_symbols | other.high.free_symbols for other in ranges}
    name, reached = limit.index, set(limits[limit.index])
    for _ in ranges:
        reached |= {s for other in reached for s in limits.get(other, ())}
    if name in reached:
        raise IndexExpressionError(f"{CALLER}: the range of {name} depends on {name} itself, through its bounds")


def _linear_constraints(rows: Sequence[Constraint], name: Any) -> list[Constraint]:
    """Return inequalities equivalent to `rows` without floors and products; raise `UnsupportedError`, which names the
    index `name`, if there are none.
    """
    found: list[Constraint] = []
    for row in rows:
        linear = eliminate_floors(row, frozenset(range(MAX_INDICES)))
        if linear is None or any(part.form.hidden() for part in linear):
            raise UnsupportedError(
                f"{CALLER}: the range of {name} is not linear: it rounds, or multiplies indices, and cannot be drawn"
            )
        found += linear
    return found


def _read_entry(at: Any, forms: Sequence[Affine], values: Mapping[Any, Affine]) -> Point:
    """Return the indices ``at`` of an entry to be drawn, in which sizes may occur, as numbers. Raise `ArgumentError`
    unless there is one number for each of ``forms``, the indices in the plotted expression.

    ``values`` maps sizes to numbers.
    """
    parts = tuple(at) if isinstance(at, (tuple, list, Tuple)) else (at,)
    if len(parts) != len(forms):
        raise ArgumentError(f"{CALLER}: at has {len(parts)} values for {len(forms)} axes")
    found = [_read_form(part, values) for part in parts]
    for part, form in zip(parts, found, strict=True):
        if not form.is_constant:
            raise ArgumentError(f"{CALLER}: at is an entry, so {part} must be a number and not depend on an index")
    return tuple(form.constant for form in found)
