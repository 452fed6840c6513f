"""Products with windows of a vector, ``sum_k x[i + k]*w[k]``, by NumPy's ``correlate`` and ``convolve``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sympy_tensordiff.codegen.printers.lanes import Dim, Span
from sympy_tensordiff.codegen.printers.vectors import VectorPrinter, rise
from sympy_tensordiff.codegen.scalars import Load, Scalar
from sympy_tensordiff.integer.affine import Affine


class Window(NamedTuple):
    """The part of a vector that windows run along, which of the two functions, and whether the result is turned."""

    text: str
    function: str
    is_turned: bool


def find_window(factor: Scalar, weights: frozenset[Dim], out: Sequence[Dim], values: VectorPrinter) -> Window | None:
    """The windows that ``factor`` reads along one summed and one other index; None for any other factor."""
    if not isinstance(factor, Load) or len(factor.index) != 1 or len(weights) != 1 or len(out) != 1:
        return None
    (summed,), (kept,) = weights, out
    if not isinstance(summed, Span) or not isinstance(kept, Span):
        return None
    form = values.lanes.image(factor.index[0])
    if values.lanes.dims_of(form) != {summed, kept} or not all(rise(form, span) in (1, -1) for span in (summed, kept)):
        return None
    first = form
    for span in (summed, kept):
        last = span.low + span.step * (span.length - 1)
        first = first.substitute({span.axis: span.low if rise(form, span) == 1 else last})
    stop = first + kept.length + summed.length - 1
    name, extent = values.names(factor.array), values.shapes[factor.array][0]
    text = name if first == Affine.of(0) and stop == extent else f"{name}[{values.form(first)}:{values.form(stop)}]"
    function = "np.correlate" if rise(form, summed) == 1 else "np.convolve"
    return Window(text, function, rise(form, kept) == -1)
