"""What holds of all points of several systems."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .affine import Affine, Row, Variable
from .extrema import greatest
from .implication import complexity


def joined(systems: Sequence[Sequence[Row]], variables: Iterable[Variable]) -> tuple[Row, ...]:
    """Rows that hold wherever those of one of the systems do: common rows, and bounds that each system has of its own.

    A variable that all systems bound is bounded, by the greatest or least of these bounds.

    Examples
    --------
    >>> i, k, n = (Affine.variable(v) for v in "ikn")
    >>> joined([[Row("ge", k), Row("ge", i - k)], [Row("ge", k), Row("ge", n - k)]], ["k"])
    (k >= 0, -k + n + max(0, i - n) >= 0)
    """
    first, *others = systems
    found = [row for row in first if all(row in other for other in others)]
    for v in variables:
        for sign in (1, -1):
            if not any(_bounding(row, v, sign) for row in found):
                bounds = [_simplest_bounds(system, v, sign) for system in systems]
                slopes = set(bounds[0]).intersection(*bounds[1:])
                if slopes:
                    slope = min(slopes, key=abs)
                    found.append(Row("ge", Affine({v: slope}) + greatest(own[slope] for own in bounds)))
    return tuple(found)


def _bounding(row: Row, variable: Variable, sign: int) -> Affine | None:
    """The form of an inequality that bounds the variable from below (1) or above (-1); None where the row has none."""
    if row.kind == "mod" or variable in row.form.hidden():
        return None
    form = -row.form if row.kind == "eq" and row.form.coefficient(variable) * sign < 0 else row.form
    return form if form.coefficient(variable) * sign > 0 else None


def _simplest_bounds(rows: Iterable[Row], variable: Variable, sign: int) -> dict[int, Affine]:
    """Of each slope of the variable the simplest bound, without the variable."""
    forms = [form for row in rows if (form := _bounding(row, variable, sign)) is not None]
    forms.sort(key=lambda form: complexity(Row("ge", form)), reverse=True)
    return {c: form - Affine({variable: c}) for form in forms if (c := form.coefficient(variable))}
