"""The orders of names that are not declared: those of all readings of a formula against which the least speaks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import NamedTuple

from sympy_tensordiff.errors import ParseError
from sympy_tensordiff.parsing.frontend import Tree, cut
from sympy_tensordiff.parsing.matrix.shapes import COLUMN, MATRIX, NUMBER, ODD, WORDS, Shapes

MOST = 2_000
"""So many readings are compared; with more names, capitals are matrices, and all others vectors or numbers."""
_CAPITAL = {MATRIX: 0, COLUMN: 4, NUMBER: 6}
_OTHER = {COLUMN: 0, NUMBER: 0, MATRIX: 4}
"""How much speaks against an order of a name, because of its first letter."""
_PLURAL = {NUMBER: "numbers", COLUMN: "vectors", MATRIX: "matrices"}


class Reading(NamedTuple):
    """The orders of all names, and how much speaks against them by the formula and by the letters."""

    orders: dict[str, int]
    by_use: int
    by_letters: int

    @property
    def against(self) -> int:
        return self.by_use + self.by_letters


def inferred(
    nodes: Sequence[Tree], names: Mapping[str, Tree], declared: Mapping[str, int], is_numpy: bool
) -> tuple[dict[str, int], dict[str, int]]:
    """The orders of all names, and of those that another reading gives another order, but for their letters.

    ``names`` are all names with a place at which they stand, ``declared`` the orders of some.

    Raises
    ------
    ParseError
        If the formula has no reading, or two that are as good; the message shows both.
    """
    readings = _readings(nodes, names, declared, is_numpy)
    best = readings[0]
    for other in readings[1:]:
        if other.against == best.against:
            raise _ambiguous(nodes[-1], names, bool(declared), best.orders, other.orders)
    assumed = {
        name: order
        for name, order in best.orders.items()
        if any(r.orders[name] != order and r.by_use < ODD for r in readings)
    }
    return best.orders, assumed


def _readings(
    nodes: Sequence[Tree], names: Mapping[str, Tree], declared: Mapping[str, int], is_numpy: bool
) -> list[Reading]:
    """All readings, the best first."""
    free = [name for name in names if name not in declared]
    choices = [_CAPITAL if name[0].isupper() else _OTHER for name in free]
    if prod(map(len, choices)) > MOST:
        choices = [{order: cost for order, cost in choice.items() if not cost} for choice in choices]
    if prod(map(len, choices)) > MOST:
        raise next(iter(names.values())).error(
            f"{len(free)} names are not declared, which is too many to tell their orders; begin with their shapes, as "
            "in declare A[m, n], x[n], a"
        )
    found: list[Reading] = []
    refusal: ParseError | None = None
    for orders in product(*choices):
        given = {**declared, **dict(zip(free, orders, strict=True))}
        shapes = Shapes(given, is_numpy)
        try:
            shapes.run(nodes)
        except ParseError as error:
            refusal = refusal or error
            continue
        by_letters = sum(choice[order] for choice, order in zip(choices, orders, strict=True))
        found.append(Reading(given, shapes.against, by_letters))
    if not found:
        assert refusal is not None
        raise refusal
    return sorted(found, key=lambda reading: reading.against)


def _ambiguous(
    root: Tree,
    names: Mapping[str, Tree],
    has_declarations: bool,
    first: Mapping[str, int],
    second: Mapping[str, int],
) -> ParseError:
    """The error that shows two readings."""
    differing = [name for name in first if first[name] != second[name]]
    listed = " and ".join(map(cut, differing))
    is_one = len(differing) == 1
    words = [order_word(o[differing[0]]) if is_one else order_words(differing, o) for o in (first, second)]
    shown = cut(" ".join(root.source.split()))
    declarations = [", ".join(declaration(name, orders[name]) for name in differing) for orders in (first, second)]
    shown = shown.replace("declare ", "", 1)
    ends = ", " + shown if has_declarations else f" {shown}"
    either = " or ".join(f"`declare {text}{ends}`" for text in declarations)
    return names[differing[0]].error(
        f"{listed} may be {words[0]} or {words[1]}, and nothing here decides; write {either}"
    )


def order_words(names: Sequence[str], orders: Mapping[str, int]) -> str:
    """The orders of some names in words."""
    kinds = {orders[name] for name in names}
    if len(kinds) == 1:
        return _PLURAL[kinds.pop()]
    return " and ".join(order_word(orders[name]) for name in names)


def order_word(order: int) -> str:
    """The order of a name, for which a vector is a column."""
    return WORDS[order].replace("column ", "")


def declaration(name: str, order: int) -> str:
    """How a name is declared with an order."""
    return f"{cut(name)}{('', '[n]', '[n]', '[n, m]')[order]}"
