"""Names and indices of a LaTeX formula: letters, accents and subscripts, before shapes are known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sympy.printing.latex import greek_letters_set

from sympy_tensordiff.parsing.frontend import Tree, bottom_up, short

GREEK = (
    frozenset(greek_letters_set)
    | {letter.capitalize() for letter in greek_letters_set}
    | frozenset(
        ["ell", "hbar", "varepsilon", "varphi", "vartheta", "varrho", "varsigma", "varpi", "omicron", "digamma"]
    )
)
ACCENTS = {
    **{"hat": "hat", "widehat": "hat", "bar": "bar", "overline": "bar", "tilde": "tilde", "widetilde": "tilde"},
    **{"vec": "vec", "dot": "dot", "ddot": "ddot"},
}
"""Accents, and how SymPy spells a name that has them."""
WORDS = frozenset({"mathrm", "mathit", "mathsf", "text", "textbf", "operatorname", "bold"})
"""Fonts whose letters are one word."""
FREE_INDICES = frozenset("ijklpq")
"""Letters that are indices although nothing binds them."""

PAIR_INDICES = frozenset("ijklpqrst")
"""Letters that are indices at the right of ``i < j`` below a sum; others are sizes."""


@dataclass(eq=False, slots=True)
class LatexBinder:
    """A bound index: its letter and the trees of its first and last value, which are None if it runs over a whole axis.

    ``axis`` is the number of this axis, once shapes are inferred.
    """

    letter: str
    node: Tree
    lower: Tree | None = None
    upper: Tree | None = None
    is_open: bool = False
    axis: int | None = None


def command_of(text: str) -> str:
    """Return the name of the command that ``text`` begins with, without backslash."""
    return text.lstrip("\\").split("{")[0].strip()


def name_of(node: Tree) -> str | None:
    """Return the name that the LaTeX tree ``node`` spells: a letter, a Greek letter, a letter with a font or accent, or
    a number. None if it spells no single name, as a product of letters.

    Raise `ParseError` for a command that is not a letter.
    """
    match node.kind:
        case "letter":
            return node.text
        case "command":
            command = node.text[1:]
            if command not in GREEK:
                raise node.error(
                    f"`{short(node.text)}` is not read: commands are Greek letters, fonts, accents, functions and "
                    "operators of formulas; macros are not expanded"
                )
            return "lamda" if command == "lambda" else command
        case "font":
            return _name_in_font(node)
        case "bare" | "chain" if len(node.children) == 1 and not node.tokens:
            return name_of(node.children[0])
        case "number" if node.text.isdecimal():
            return node.text
    return None


def _name_in_font(node: Tree) -> str | None:
    """Return the name that ``node``, letters with a font or an accent, spells: ``xhat`` for an x with a hat. None if it
    spells no single name: several bold letters are a product.
    """
    font = command_of(node.text)
    scripts = [part for part in node.children if part.kind in ("subscript", "superscript")]
    parts = [name_of(part) for part in node.children if part not in scripts]
    if scripts:
        return None
    if font == "mathbb":
        raise node.error(f"`\\mathbb{{{parts[0]}}}` is not read: neither are expectations and sets of numbers")
    if None in parts or (len(parts) > 1 and font not in WORDS):
        return None
    return "".join(map(str, parts)) + ACCENTS.get(font, "")


def leaf(kind: str, text: str, at: Tree) -> Tree:
    """Return a node of this ``kind``, with ``text`` and without children, at the position of ``at``."""
    return Tree(kind, text, (), (), at.start, at.end, at.position, 1, source=at.source)


def items_of(script: Tree) -> list[Tree]:
    """Return the trees of the indices in the subscript ``script``, which are separated by commas, as in ``x_{i, j}``,
    or written side by side, as in ``x_{i j}``.
    """
    if not script.children:  # one character, as in x_i
        text = script.text[1:].strip()
        return [leaf("number" if text.isdigit() else "letter", text, script)]
    if len(script.children) != 1 or script.children[0].kind != "chain":
        return list(script.children)
    (chain,) = script.children
    simple = [part for part in chain.children if name_of_index(part) is not None]
    is_list = len(simple) == len(chain.children) and not chain.tokens and chain.children[0].kind == "bare"
    if is_list and len(simple) > 1 and chain.children[0].children[0].kind != "number":
        return list(chain.children)
    return [chain]


def name_of_index(node: Tree) -> str | None:
    """Return the name of an index that is written alone, such as ``i`` or ``i_1``; None for any other expression."""
    while node.kind in ("bare", "chain", "plain", "round", "braced") and len(node.children) == 1:
        if node.kind == "chain" and node.tokens:
            return None
        (node,) = node.children
    if node.kind == "bare" and len(node.children) == 2 and node.children[1].kind == "subscript":  # i_{1}
        letter, number = name_of_index(node.children[0]), name_of_index(items_of(node.children[1])[0])
        return f"{letter}{number}" if letter and number and number.isdigit() else None
    return name_of(node) if node.kind in ("letter", "font", "number") or _is_greek(node) else None


def _is_greek(node: Tree) -> bool:
    """Return whether ``node`` is the command of a Greek letter."""
    return node.kind == "command" and node.text[1:] in GREEK


def letters_in(node: Tree) -> Iterator[str]:
    """Yield the letters that occur in ``node``."""
    for part in bottom_up(node):
        if part.kind == "letter" or _is_greek(part):
            yield str(name_of(part))
        elif part.kind == "subscript" and not part.children and not part.text[-1].isdigit():
            yield part.text[-1]


def bound_letters(root: Tree) -> set[str]:
    """Return the letters that a sum, product, extremum or comprehension of ``root`` binds."""
    found: set[str] = set()
    for node in bottom_up(root):
        if node.kind == "binder" or (node.kind in ("closed_call", "open_call") and is_extremum(node)):
            for script in node.of_kind("subscript"):
                found.update(_bound_by(script, True))
        if node.kind in ("plain", "bare") and node.children[0].kind == "square":
            for script in node.of_kind("subscript"):
                found.update(_bound_by(script, False))
    return found


def is_extremum(node: Tree) -> bool:
    r"""Return whether `node` is a call of ``\max`` or ``\min`` with a subscript, the indices over which the extremum is
    taken.
    """
    return command_of(node.text) in ("max", "min") and bool(node.children) and node.children[0].kind == "subscript"


def _bound_by(script: Tree, has_conditions: bool) -> Iterator[str]:
    """Yield the names of the indices that the subscript ``script`` of a sum or comprehension binds, such as ``i`` for
    ``i=1``. With ``has_conditions``, a comparison such as ``i < j`` binds ``j`` too, if this letter usually is an
    index.
    """
    for item in items_of(script):
        if item.kind == "relation":
            position = len(item.tokens) > 1
            left = item.children[position]
            yield from (str(name_of_index(part)) for part in (left.children if left.kind == "chain" else [left]))
            if has_conditions and _is_condition(item) and name_of_index(item.children[1]) in PAIR_INDICES:
                yield str(name_of_index(item.children[1]))
        else:
            yield from filter(None, [name_of_index(item)])


def _is_condition(relation: Tree) -> bool:
    """Return whether a relation is a single comparison other than an equation, such as ``i < j``."""
    return len(relation.tokens) == 1 and "=" not in relation.tokens[0]


def first_limits(root: Tree) -> list[Any]:
    r"""Return the lower limits of all sums, products, extrema and comprehensions in the tree, such as 1 for
    ``\sum_{i=1}^n``; None for each that is not a number. They show whether indices count from 0 or from 1.
    """
    found: list[Any] = []
    for node in bottom_up(root):
        if node.kind != "binder" and not (node.kind in ("closed_call", "open_call") and is_extremum(node)):
            continue
        for script in node.of_kind("subscript"):
            for item in items_of(script):
                if item.kind == "relation" and (len(item.tokens) == 2 or item.tokens[0].strip("& ") == "="):
                    lower = item.children[0 if len(item.tokens) == 2 else 1]
                    text = name_of_index(lower)
                    found.append(int(text) if text is not None and text.isdecimal() else None)
    return found
