"""The letters of products, ``(ij,jk->ik)``, which the grammar takes as one token."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from sympy_tensordiff.errors import ParseError
from sympy_tensordiff.parsing.tree import Tree


class Letters(NamedTuple):
    """The letters of each operand, and those of the result."""

    inputs: tuple[str, ...]
    output: str

    def __str__(self) -> str:
        return f"{','.join(self.inputs)}->{self.output}"


def letters_of(nodes: Iterable[Tree], source: str) -> dict[Tree, Letters]:
    """The letters of all products, binary and unary."""
    return {node: _read(node, source) for node in nodes if node.kind in ("product", "relabelled")}


def _read(node: Tree, source: str) -> Letters:
    binary = node.kind == "product"
    arrow = node.text.index("->")
    groups = [""]
    for number, character in enumerate(node.text[:-1]):
        if number in (0, arrow + 1) or character.isspace():
            continue
        if number == arrow:
            _check_count(groups, binary, source, node.place + arrow)
            groups.append("")
        elif character == "," and number < arrow:
            _check_comma(groups, binary, source, node.place + number)
            groups.append("")
        else:
            _check_letter(character, source, node.place + number)
            if number > arrow:
                _check_output(character, groups, source, node.place + number)
            groups[-1] += character
    return Letters(tuple(groups[:-1]), groups[-1])


def _check_count(groups: list[str], binary: bool, source: str, place: int) -> None:
    if binary and len(groups) == 1:
        raise ParseError(
            "the product has two operands, so a comma stands between their letters, as in `(ij,j->i)`; an operand "
            "without axes has no letters, as in `(,i->i)`",
            source,
            place,
        )


def _check_comma(groups: list[str], binary: bool, source: str, place: int) -> None:
    if not binary:
        raise ParseError(
            "a product of one operand has no comma between its letters, as in `(ij->ji)A`; of two operands it reads "
            "`A *(ij,j->i) x`",
            source,
            place,
        )
    if len(groups) == 2:
        raise ParseError(
            "the product has two operands, so one comma stands between their letters; write a product of three as "
            "`a *(i,i->i) b *(i,i->i) c`",
            source,
            place,
        )


def _check_letter(character: str, source: str, place: int) -> None:
    if "a" <= character <= "z":
        return
    if "A" <= character <= "Z":
        raise ParseError(
            f"the letters of a product are lower case: write {character.lower()} for {character}", source, place
        )
    if character == ",":
        raise ParseError("behind the arrow stand the letters of one result, without a comma", source, place)
    raise ParseError(
        f"{character!r} is no letter of a product, which reads as in `(ij,jk->ik)`: letters a-z, a comma, an arrow",
        source,
        place,
    )


def _check_output(letter: str, groups: list[str], source: str, place: int) -> None:
    *inputs, output = groups
    if letter in output:
        raise ParseError(
            f"the letter {letter} is repeated in the result, which is a diagonal: use two letters and multiply by "
            "`delta(1)`, as in `x *(i,ij->ij) delta(1)`",
            source,
            place,
        )
    if not any(letter in group for group in inputs):
        raise ParseError(
            f"the letter {letter} of the result is in no operand, so the length of this axis is unknown; write it at "
            "an operand without axes, as in `x *(i,j->ij) 1`",
            source,
            place,
        )
