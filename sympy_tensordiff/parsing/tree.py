"""The tree of an input: what the grammar makes, and the passes annotate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal[
    "number", "name", "delta", "function", "negative", "relabelled", "sum", "difference", "product", "quotient", "power"
]
SHOWN = 40
"""Subexpressions longer than these characters are shortened in messages."""


@dataclass(eq=False, slots=True)
class Tree:
    """A subexpression.

    Attributes
    ----------
    kind : str
        What the node is.
    text : str
        The number, the name (of a tensor or a function), the argument of ``delta``, or the letters of
        a product with their parentheses, as they stand in the input.
    parts : tuple of Tree
        The operands, from left to right.
    start, end : int
        Where the subexpression stands in the input, parentheses around it included.
    place : int
        Where the operator or the letters stand: what an error about the operation points at.
    is_enclosed : bool
        Whether parentheses stand around it.
    """

    kind: Kind
    text: str
    parts: tuple[Tree, ...]
    start: int
    end: int
    place: int
    is_enclosed: bool = False


@dataclass(frozen=True, slots=True)
class Declaration:
    """A name at a place of the input; ``order`` is the text of the order of a declared tensor."""

    name: str
    place: int
    order: str = ""
    order_place: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Input:
    """A whole input."""

    declarations: tuple[Declaration, ...]
    expression: Tree
    arguments: tuple[Declaration, ...]


def bottom_up(root: Tree) -> list[Tree]:
    """All nodes, the parts of each before it, from left to right."""
    found, stack = [], [root]
    while stack:
        node = stack.pop()
        found.append(node)
        stack += node.parts
    return found[::-1]


def names_in(root: Tree) -> Iterator[Tree]:
    """The places where tensors stand."""
    return (node for node in bottom_up(root) if node.kind == "name")


def shown(node: Tree, source: str) -> str:
    """The text of a subexpression on one line, shortened."""
    return cut(" ".join(source[node.start : node.end][: 4 * SHOWN].split()))


def cut(text: str) -> str:
    """A text, shortened in the middle."""
    return text if len(text) <= SHOWN else f"{text[: SHOWN // 2]}…{text[-SHOWN // 3 :]}"
