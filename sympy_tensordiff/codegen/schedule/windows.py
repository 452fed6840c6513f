"""Loops along a window that moves with an axis, and the same steps with the axis innermost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

from sympy_tensordiff.codegen.ir.loops import Bound, Loop
from sympy_tensordiff.codegen.ir.rename import Renaming
from sympy_tensordiff.integer.affine import Affine


def most_steps(loop: Loop) -> int | None:
    """How many steps a loop has at most; None where that is no number."""
    pairs = product(loop.lows, loop.highs)
    spans = [high.form - low.form for low, high in pairs if low.divisor == high.divisor == 1]
    return min((max(span.constant + 1, 0) for span in spans if span.is_constant), default=None)


@dataclass(frozen=True, slots=True)
class Untied:
    """A loop whose bounds do not depend on an axis, and the entries of the axis for which it runs in each step."""

    loop: Loop
    lows: tuple[Affine, ...]
    highs: tuple[Affine, ...]

    @property
    def steps(self) -> int | None:
        """How many steps the loop has at most; None where that is no number."""
        return most_steps(self.loop)


def untied(loop: Loop, axis: str) -> Untied | None:
    """The same steps for the same entries, with the axis innermost; None where bounds do not allow for that."""
    variable, place = Affine.variable(loop.variable), Affine.variable(axis)
    ends: tuple[list[Affine], list[Affine]] = [], []
    kept: tuple[list[Bound], list[Bound]] = [], []
    for side, found in enumerate((loop.lows, loop.highs)):
        for bound in found:
            factor = bound.form.coefficient(axis)
            if axis not in bound.form.atoms():
                kept[side].append(bound)
            elif abs(factor) == 1 and bound.divisor == 1 and axis not in bound.form.hidden():
                # variable >= axis + rest is axis <= variable - rest, and so on.
                ends[side ^ (factor == 1)].append((variable - bound.form) * factor + place)
            else:
                return None
    if not all(kept):
        return None
    return Untied(replace(loop, lows=tuple(kept[0]), highs=tuple(kept[1])), tuple(ends[0]), tuple(ends[1]))


def windowed(loop: Loop, axis: str) -> Loop:
    """The same loop counted from the start of a window that moves with an axis, where that has fewer steps.

    >>> from sympy_tensordiff.codegen.ir.loops import Let
    >>> from sympy_tensordiff.codegen.ir.scalars import Load
    >>> i, p, last = Affine.variable("i"), Affine.variable("p"), Bound(Affine.of(99))
    >>> body = (Let("v", Load("x", (i,))),)
    >>> found = windowed(Loop("i", (Bound(Affine.of(0)), Bound(p - 2)), (last, Bound(p)), body), "p")
    >>> [str(bound.form) for bound in (*found.lows, *found.highs)], str(found.body[0].value.index[0])
    (['0', '-p + 2', '2', '-p + 101'], 'i + p - 2')
    """
    (lows, low_ends), (highs, high_ends) = (
        ([b for b in side if axis not in b.form.atoms()], [b for b in side if axis in b.form.atoms()])
        for side in (loop.lows, loop.highs)
    )
    if len(low_ends) != 1 or len(high_ends) != 1 or any(b.divisor > 1 for b in (*loop.lows, *loop.highs)):
        return loop
    first, width = low_ends[0].form, high_ends[0].form - low_ends[0].form
    whole = most_steps(replace(loop, lows=tuple(lows), highs=tuple(highs)))
    if not width.is_constant or (whole is not None and whole <= width.constant + 1):
        return loop
    lows, highs = ([Bound(b.form - first) for b in side] for side in (lows, highs))
    moved = Renaming({}, forms={loop.variable: Affine.variable(loop.variable) + first}).body(loop.body)
    return replace(loop, lows=(Bound(Affine()), *lows), highs=(Bound(width), *highs), body=moved)
