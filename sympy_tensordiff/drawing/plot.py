"""The public way to a picture of an index map."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from sympy_tensordiff.drawing.index_map import points, solutions
from sympy_tensordiff.drawing.index_map_axes import draw_indices, draw_kernel, fit
from sympy_tensordiff.drawing.read_index_map import read_index_map
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError, BackendError, UnsupportedError

OWNER = "plot_index_map"
MOST_LAYERS = 12


def plot_index_map(
    index: Any,
    limits: Any,
    at: Any = None,
    *,
    sizes: Mapping[Any, int] | None = None,
    space: Literal["indices", "kernel"] = "indices",
    ax: Any = None,
) -> Any:
    """A picture of which indices read an entry: the integer solutions of ``A alpha + t == at`` in their ranges.

    Parameters
    ----------
    index : Expr, tuple of Expr, or TensorEntry
        The forms ``A alpha + t``: an index such as ``2*i + k``, one for each axis of what is read, or the entry
        ``x[2*i + k]`` itself.
    limits : sequence of (index, extent) or (index, lower, upper)
        The ranges of one, two or three indices, as in a comprehension or in a sum; a bound may hold other indices.
        The first index is the horizontal axis, the second the vertical one; of a third each value has a layer, side
        by side.
    at : int, tuple of int, optional
        The entry whose readers are sought. Without it the picture has the lattice and its images only.
    sizes : mapping of Symbol or str to int, optional
        Numbers for all other symbols.
    space : {"indices", "kernel"}
        Whether the solutions are drawn as indices ``alpha``, or as the ``z`` of ``alpha = I(at - t) + K z``.
    ax : matplotlib.axes.Axes, optional
        What to draw into; otherwise a figure is made. It is not shown: ``matplotlib.pyplot.show()`` does that.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    BackendError
        If matplotlib is not installed.
    IndexExpressionError, ArgumentError, ArgumentTypeError
        If an index, a limit or ``at`` is none, a symbol has no number, or the ranges are empty.
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
        raise ArgumentError(f"{OWNER}: space is 'indices' or 'kernel', not {space!r}")
    index_map, image = read_index_map(index, limits, at, sizes, OWNER)
    _, inside = points(index_map.rows, index_map.rank)
    if not inside:
        raise ArgumentError(f"{OWNER}: the ranges of {', '.join(index_map.names)} hold no point: nothing to draw")
    solved = None if image is None else solutions(index_map, image)
    if space == "kernel" and (solved is None or solved.failing or not solved.kernel):
        unique = "the solution is unique" if index_map.is_affine else "the index is rounded or clamped"
        reason = "at is not given" if solved is None else "; ".join(solved.failing) or unique
        raise ArgumentError(f"{OWNER}: the kernel has nothing to draw: {reason}; use space='indices'")
    shown = inside if solved is None or space == "indices" else list(solved.by_kernel)
    layers = len({point[2:] for point in shown})
    if layers > MOST_LAYERS:
        raise UnsupportedError(
            f"{OWNER}: {layers} layers are more than {MOST_LAYERS}: choose a shorter range of the third index, or "
            "let another one come last"
        )
    if ax is not None and not hasattr(ax, "annotate"):
        raise ArgumentTypeError(f"{OWNER}: ax must be the axes of a figure of matplotlib, not {ax!r}")
    made = ax is None
    ax = _axes() if made else ax
    if space == "kernel" and solved is not None:
        draw_kernel(ax, index_map, solved)
    else:
        draw_indices(ax, index_map, inside, solved)
    if made:
        fit(ax)
    return ax


def _axes() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError:
        raise BackendError(
            f"{OWNER} draws with matplotlib, which is not installed: pip install 'sympy-tensordiff[plot]'"
        ) from None
    return pyplot.subplots()[1]
