"""The letters of products, ``(ij,jk->ik)``, which the grammar takes as one token."""

from __future__ import annotations

from typing import NamedTuple

from sympy_tensordiff.parsing.front import Tree


class Letters(NamedTuple):
    """The letters of each operand, and those of the result."""

    inputs: tuple[str, ...]
    output: str

    def __str__(self) -> str:
        return f"{','.join(self.inputs)}->{self.output}"


def letters_of(node: Tree) -> Letters:
    """The letters of a product, binary or unary."""
    arrow = node.text.index("->")
    groups = [""]
    for number, character in enumerate(node.text[:-1]):
        if number in (0, arrow + 1) or character.isspace():
            continue
        is_next = number == arrow or (character == "," and number < arrow)
        complaint = _of_group(groups, character, len(node.parts)) if is_next else _of_letter(character)
        if number > arrow and not complaint:
            complaint = _of_output(character, groups)
        if complaint:
            raise node.error(complaint, node.place + number)
        if is_next:
            groups.append("")
        else:
            groups[-1] += character
    return Letters(tuple(groups[:-1]), groups[-1])


def _of_group(groups: list[str], character: str, operands: int) -> str:
    """What is wrong with a comma between the letters of two operands, or with the arrow behind those of the last."""
    if character == "-":
        return (
            "the product has two operands, so a comma stands between their letters, as in `(ij,j->i)`; an operand "
            "without axes has no letters, as in `(,i->i)`"
        ) * (len(groups) < operands)
    if operands == 1:
        return (
            "a product of one operand has no comma between its letters, as in `(ij->ji)A`; of two operands it reads "
            "`A *(ij,j->i) x`"
        )
    return (
        "the product has two operands, so one comma stands between their letters; write a product of three as "
        "`a *(i,i->i) b *(i,i->i) c`"
    ) * (len(groups) == 2)


def _of_letter(character: str) -> str:
    """What is wrong with a letter."""
    if "a" <= character <= "z":
        return ""
    if "A" <= character <= "Z":
        return f"the letters of a product are lower case: write {character.lower()} for {character}"
    if character == ",":
        return "behind the arrow stand the letters of one result, without a comma"
    return f"{character!r} is no letter of a product, which reads as in `(ij,jk->ik)`: letters a-z, a comma, an arrow"


def _of_output(letter: str, groups: list[str]) -> str:
    """What is wrong with a letter of the result."""
    *inputs, output = groups
    if letter in output:
        return (
            f"the letter {letter} is repeated in the result, which is a diagonal: use two letters and multiply by "
            "`delta(1)`, as in `x *(i,ij->ij) delta(1)`"
        )
    return (
        f"the letter {letter} of the result is in no operand, so the length of this axis is unknown; write it at an "
        "operand without axes, as in `x *(i,j->ij) 1`"
    ) * (not any(letter in group for group in inputs))
