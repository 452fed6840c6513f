"""What rows that multiply an index by symbols, ``M*i <= r``, say of this index, and of those outside of its loop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import permutations
from typing import TypeAlias

from sympy_tensordiff.errors import LoopBoundError

from .affine import Affine, Row, Variable
from .implication import implied
from .products import SymbolicQuotient, quotient_by, slope, times
from .system import definitions

Limits: TypeAlias = list[tuple[Affine, int]]
"""Forms and their divisors, as in `nests.Bounds`."""


def divided_bounds(variable: Variable, row: Row, known: Sequence[Row]) -> tuple[Limits, Limits]:
    """``M*i + r >= 0`` as ``i >= -floor(r/M)``, ``r - M*i >= 0`` as ``i <= floor(r/M)``; ``M >= 1`` has to be known."""
    parts = slope(row.form, variable)
    for sign in (1, -1) if parts is not None else ():
        divisor, rest = (part * sign for part in parts or ())
        if _is_positive(divisor, known):
            low = [(-quotient_by(rest, divisor), 1)] if sign > 0 or row.kind == "eq" else []
            high = [(quotient_by(-rest, divisor), 1)] if sign < 0 or row.kind == "eq" else []
            return low, high
    raise LoopBoundError(
        "the condition {1} gives no bounds of a loop over {0}: the sign of its coefficient is not known, or {0} occurs "
        "in it twice; make the coefficient an extent, and add an index with the coefficient 1",
        variable,
        row,
    )


def positive_divisors(variable: Variable, rows: Sequence[Row], known: Sequence[Row]) -> tuple[Row, ...]:
    """The divisors of `divided_bounds` whose sign only the rows of the loop decide, as conditions ``divisor >= 1``.

    They are tested outside of the loop: where the loop has no points, a divisor may be 0.
    """
    found: dict[Row, None] = {}
    for row in rows if any(variable in row.form.hidden() for row in rows) else ():
        parts = slope(row.form, variable) if variable in row.form.hidden() else None
        signed = (parts[0], -parts[0]) if parts is not None and not parts[0].is_constant else ()
        if not any(_is_positive(divisor, known) for divisor in signed):
            found.update({Row("ge", divisor - 1): None for divisor in signed if _is_positive(divisor, (*rows, *known))})
    return tuple(found)


def multiplied(rows: Iterable[Row]) -> tuple[Row, ...]:
    """The rows times what a quotient by symbols in them divides by, which is positive.

    >>> p, M, i = (Affine.variable(v) for v in "pMi")
    >>> multiplied([Row("ge", i - quotient_by(p, M)), Row("ge", i)])
    (M*i - M*floor((p)/(M)) >= 0,)
    """
    return tuple(
        Row(row.kind, times(row.form, divisor))
        for row in rows
        if row.kind != "mod"
        for divisor in dict.fromkeys(v.divisor for v, _ in row.form.terms if isinstance(v, SymbolicQuotient))
    )


def divided_by(forms: Iterable[Affine]) -> list[Affine]:
    """What quotients by symbols in forms, and inside of these quotients, divide by.

    >>> p, M, N = (Affine.variable(v) for v in "pMN")
    >>> divided_by([quotient_by(2 * quotient_by(p, N), 2 * M - 1) + 3])
    [2*M - 1, N]
    """
    found = definitions(compound for form in forms for compound in form.compounds())
    return sorted({part.divisor for part in found if isinstance(part, SymbolicQuotient)})


def of_multiples(rows: Sequence[Row], variable: Variable, outer: Sequence[Variable], known: Sequence[Row]) -> list[Row]:
    """The bounds of outer loops by rows that multiply the variable by a symbol: of ``r >= M*i`` and ``i >= s``."""
    held = [parts for row in rows if row.kind == "ge" and (parts := slope(row.form, variable)) is not None]
    found = []
    for (a, low), (b, high) in permutations(held, 2):
        if a.is_constant and b.is_constant:
            continue
        if a == -b:
            found.append(low + high)
        elif _is_positive(a, known) and _is_positive(-b, known):
            found.append(times(-b, low) + times(a, high))
    return [Row("ge", form) for form in found if _bounds_innermost(form, outer, known)]


def may_miss(rows: Sequence[Row], variable: Variable, known: Sequence[Row]) -> bool:
    """Whether two of the rows, ``r <= M*i <= s``, may have no ``i`` between them: ``s - r >= M - 1`` is not known.

    >>> p, M, i = (Affine.variable(v) for v in "pMi")
    >>> rest, some = p - times(M, i), [Row("ge", M - 1)]
    >>> may_miss([Row("ge", rest), Row("ge", M - 1 - rest)], "i", some)
    False
    >>> may_miss([Row("ge", rest), Row("ge", 9 - rest)], "i", some)
    True
    """
    held = [parts for row in rows if (parts := slope(row.form, variable)) is not None]
    return any(
        a == -b and _is_positive(a, known) and not implied(Row("ge", low + high - a + 1), known)
        for (a, low), (b, high) in permutations(held, 2)
    )


def _bounds_innermost(form: Affine, variables: Sequence[Variable], known: Sequence[Row]) -> bool:
    """Whether ``form >= 0`` bounds the innermost of the variables in it."""
    innermost = next((v for v in reversed(variables) if v in form.atoms()), None)
    parts = None if innermost is None else slope(form, innermost)
    return parts is not None and (_is_positive(parts[0], known) or _is_positive(-parts[0], known))


def _is_positive(form: Affine, known: Sequence[Row]) -> bool:
    return implied(Row("ge", form - 1), known)
