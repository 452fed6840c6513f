"""The declared names with their orders, and that every name in use is one of them."""

from __future__ import annotations

import keyword

from sympy_tensordiff.errors import ParseError
from sympy_tensordiff.parsing.tree import Input, cut, names_in

HIGHEST = 26
"""The highest order of a tensor: there are as many letters."""


def declared(parsed: Input, source: str) -> dict[str, int]:
    """The order of each declared tensor, in the order of the declarations."""
    orders: dict[str, int] = {}
    for declaration in parsed.declarations:
        name = declaration.name
        if name in orders:
            raise ParseError(f"{cut(name)} is declared twice; leave one of the two away", source, declaration.place)
        if keyword.iskeyword(name):
            raise ParseError(
                f"{name} is a word of Python, in which kernels are written, so no tensor has this name; "
                f"take another, e.g. {name}1",
                source,
                declaration.place,
            )
        orders[name] = order(declaration.order, source, declaration.order_place)
    for node in names_in(parsed.expression):
        if node.text not in orders:
            raise ParseError(_undeclared(node.text, orders), source, node.place)
    for argument in parsed.arguments:
        if argument.name not in orders:
            raise ParseError(
                f"the derivative is by {cut(argument.name)}, which is not declared; {_known(orders)}",
                source,
                argument.place,
            )
    return orders


def order(text: str, source: str, place: int, highest: int = HIGHEST) -> int:
    """The number that a text stands for."""
    if not text.isdecimal():
        raise ParseError(f"an order is a whole number, such as 2 for a matrix, not {cut(text)}", source, place)
    if len(text.lstrip("0")) > 2 or int(text) > highest:
        raise ParseError(
            f"the order {cut(text)} is too high: at most {highest} is possible here, as there are {HIGHEST} letters "
            "for axes",
            source,
            place,
        )
    return int(text)


def _undeclared(name: str, orders: dict[str, int]) -> str:
    name = cut(name)
    return f"{name} is not declared; write its order before `expression`, as in `{name} 2`, or {_known(orders)}"


def _known(orders: dict[str, int]) -> str:
    if not orders:
        return "declare a tensor first: nothing is declared"
    names = list(orders)
    return f"take a declared name: {', '.join(map(cut, names[:10]))}{', …' if len(names) > 10 else ''}"
