"""Tables of the parts of random functions in index notation: a wider class of functions is one more entry."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias

import sympy
from sympy import Expr, Symbol

from sympy_tensordiff.symbolic.index_notation.sums import IndexedMax, IndexedMin, IndexedProduct, IndexedSum

Kind = Literal["rational", "smooth"]
Language = Literal["tables", "sizes", "ranges", "maps"]


@dataclass
class RandomFunction:
    """A generated function.

    Attributes
    ----------
    function : scalar or tensor expression
    variables : list of TensorSymbol and Symbol
        What it can be differentiated by.
    sizes : dict
        The values of the symbols in its shapes and ranges, for which it reads inside.
    draws : list of dict
        All such values; the first are ``sizes``.
    data : dict
        The entries of tensors of integers that it was made with, by their place.
    """

    function: Expr
    variables: list[Expr] = field(default_factory=list)
    sizes: dict[Symbol, int] = field(default_factory=dict)
    draws: list[dict[Symbol, int]] = field(default_factory=list)
    data: dict[Expr, dict[tuple[int, ...], int]] = field(default_factory=dict)


class Traits(NamedTuple):
    """The parts that functions of a language are drawn from, and their sizes."""

    level: int
    ranks: tuple[int, ...] = (1, 2, 3)
    coefficients: tuple[int, ...] = (0, 0, 1, 1, 1, 2, 3, -1, -1, -2, -3)
    numbers_of_limits: tuple[int, ...] = (1, 1, 2)
    most_points: int = 240
    widest_axis: tuple[int, ...] = (0, 14, 8, 5)  # by rank, so that no tensor has many more entries than another
    longest_axis: tuple[int, ...] = (4, 4, 4, 4)  # of the function itself, by its rank

    def has(self, language: Language) -> bool:
        """Return whether the functions have what those of another language have."""
        return self.level >= LANGUAGES[language].level


_RANGES = Traits(
    level=2,
    ranks=(1, 1, 1, 2, 2, 3, 4),
    coefficients=(*(0,) * 12, *(1,) * 5, -1, -1, 2, 2, -2, 3, -3, 4, -4, 5, -5, 6, -6),
    numbers_of_limits=(1, 1, 2, 2, 3, 4),
    most_points=400,
    widest_axis=(0, 30, 11, 6),
    longest_axis=(4, 4, 4, 3, 2),
)
LANGUAGES: Mapping[Language, Traits] = MappingProxyType(
    {
        "tables": Traits(level=0),
        "sizes": Traits(level=1),
        "ranges": _RANGES,
        "maps": _RANGES._replace(level=3, ranks=(1, 1, 2, 2, 3), numbers_of_limits=(1, 1, 1, 1, 2, 3)),
    }
)
"""The classes of functions, from the narrowest to the widest: each has all that is before it."""

BINDERS = (IndexedSum, IndexedSum, IndexedSum, IndexedProduct, IndexedProduct, IndexedMax, IndexedMin)
"""What reduces; the last two not where a range is empty."""

FUNCTIONS: Mapping[str, Sequence[Callable[[Expr, Expr], Expr]]] = {
    "rational": (lambda u, v: u**2, lambda u, v: u**3, lambda u, v: v / (1 + u**2), lambda u, v: (u - v) ** 2),
    "kinks": (
        *(lambda u, v: sympy.Abs(u), lambda u, v: sympy.Max(u, 0), lambda u, v: sympy.Min(u, v)),
        *(lambda u, v: sympy.Max(u, v, 1), lambda u, v: sympy.sign(u) * v),
        lambda u, v: sympy.Piecewise((u, v > 0), (2 * v, True)),
    ),
    "smooth": (
        *(lambda u, v: sympy.sin(u), lambda u, v: v * sympy.cos(u), lambda u, v: sympy.tanh(u)),
        *(lambda u, v: sympy.exp(-(u**2)), lambda u, v: sympy.sqrt(1 + u**2), lambda u, v: u**2),
        lambda u, v: sympy.log(1 + u**2),
    ),
}

_Relation: TypeAlias = Callable[[Any, int, int], Any]
_AT_LEAST: _Relation = lambda f, p, m: f >= p  # noqa: E731
_SHARED: tuple[_Relation, ...] = (
    *(lambda f, p, m: sympy.Eq(f, p), lambda f, p, m: sympy.Ne(f, p)),
    lambda f, p, m: sympy.Eq(sympy.Mod(f, m), p % m),
)
RELATIONS: Mapping[Language, Sequence[_Relation]] = {
    "tables": (
        *(_AT_LEAST, lambda f, p, m: f < p + 1, *_SHARED),
        *(lambda f, p, m: (f >= p) & (f <= p + 2), lambda f, p, m: (f < p) | (f > p + 1)),
    ),
    "ranges": (_AT_LEAST, lambda f, p, m: f < p, *_SHARED, lambda f, p, m: sympy.Ne(sympy.Mod(f, m), p % m)),
}
"""Between a form, or one of its values, and a number that is one of these; with a modulus."""
