"""Subscripts of einsum products, as in ``"ij,jk->ik"``: parsing, validation, and labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from string import ascii_letters
from typing import Any, NamedTuple

from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError, ShapeError
from sympy_tensordiff.symbolic.index_notation.tabulate import namesakes, same_extent

LETTERS = ascii_letters
FROM_I = ascii_letters[8:26] + ascii_letters[:8] + ascii_letters[26:]
"""The letters in the order in which results use them."""


class Subscripts(NamedTuple):
    """The parsed subscripts of an einsum: the labels of each operand, and the labels of the result."""

    inputs: tuple[str, ...]
    output: str

    def __str__(self) -> str:
        return f"{','.join(self.inputs)}->{self.output}"


def written_out(text: str, ranks: Sequence[int]) -> str:
    """Return the einsum subscripts ``text`` in full: ``...`` is replaced by labels, and if there is no ``->``, the
    result labels are added by NumPy's rule. ``ranks`` are the ranks of the operands.
    """
    inputs, arrow, output = "".join(text.split()).partition("->")
    names = inputs.split(",")
    rests = [rank - len(labels) + 3 if "..." in labels else 0 for labels, rank in zip(names, ranks, strict=False)]
    letters = "".join(unused_labels(text)[: max(rests, default=0)])
    full = [labels.replace("...", letters[len(letters) - rest :]) for labels, rest in zip(names, rests, strict=False)]
    counts = Counter(inputs)
    once = "".join(sorted(label for label in counts if counts[label] == 1 and label in LETTERS))
    return f"{','.join(full + names[len(full) :])}->{output.replace('...', letters) if arrow else letters + once}"


def parse_subscripts(text: Any) -> Subscripts:
    """Return the subscripts in ``text``, blanks ignored; raise `ArgumentTypeError` if it is not a str and
    `ArgumentError` if it is malformed.
    """
    if not isinstance(text, str):
        raise ArgumentTypeError(
            f'EinsumProduct: the first argument must be the subscripts, e.g. "ij,jk->ik", not {text!r}'
        )
    return _parsed("".join(text.split()))


@lru_cache(maxsize=1 << 12)
def _parsed(text: str) -> Subscripts:
    """Return the subscripts in ``text``, which has no blanks; raise `ArgumentError` if it is malformed."""
    owner = f'EinsumProduct("{text}")'
    wrong = sorted(set(text.replace("->", "")) - set(LETTERS) - {","})
    if wrong:
        raise ArgumentError(f"{owner}: {wrong[0]!r} is not a label: labels are letters a-z and A-Z")
    inputs, _, output = text.partition("->")
    if "->" in output or "," in output:
        raise ArgumentError(f'{owner}: there is one result, after the only "->", e.g. "ij,jk->ik"')
    return Subscripts(tuple(inputs.split(",")), output)


def check_subscripts(subscripts: Subscripts, shapes: Sequence[Sequence[Any]]) -> None:
    """Raise `ArgumentError` or `ShapeError` if ``subscripts`` do not fit operands of the given ``shapes``."""
    owner = f'EinsumProduct("{subscripts}")'
    inputs, output = subscripts
    if len(inputs) != len(shapes):
        raise ArgumentError(
            f"{owner}: the subscripts name {counted(len(inputs), 'operand')}, but {len(shapes)} "
            f"{'is' if len(shapes) == 1 else 'are'} given; "
            'numbers and scalars have empty labels, as in ",i->i"'
        )
    for position, (labels, shape) in enumerate(zip(inputs, shapes, strict=True)):
        if len(labels) != len(shape):
            raise ShapeError(
                f"{owner}: operand {position} has rank {len(shape)} (shape {tuple(shape)}), so it needs "
                f'{counted(len(shape), "label")}, not {len(labels)} ("{labels}")'
            )
    extents = label_extents(subscripts, shapes)
    for label in output:
        if output.count(label) > 1:
            _refuse_repeated(subscripts, label, extents.get(label), owner)
        if label not in extents:
            ones = f'"{",".join((*inputs, label))}->{output}"'
            raise ArgumentError(
                f"{owner}: the label {label} of the result is in no operand, so its extent is unknown: add an operand "
                f"of ones, td.einsum({ones}, …, td.ones(n))"
            )


def counted(number: int, noun: str) -> str:
    """Return a text such as ``1 axis`` or ``2 operands``: ``number``, then ``noun`` with an s if the number is
    not 1.
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _refuse_repeated(subscripts: Subscripts, label: str, extent: Any, owner: str) -> None:
    """Raise `ArgumentError`, which names the operation ``owner``, because ``label`` is repeated in the result of
    ``subscripts``. The message suggests an einsum with a `DeltaTensor` of size ``extent``.
    """
    inputs, output = subscripts
    free = unused_labels(str(subscripts))
    first = output.index(label) + 1
    renamed = output[:first] + "".join(free.pop(0) if other == label else other for other in output[first:])
    new = next(other for old, other in zip(output[first:], renamed[first:], strict=True) if old == label)
    raise ArgumentError(
        f"{owner}: the label {label} is repeated in the result, which is a diagonal: write "
        f'td.einsum("{",".join((*inputs, label + new))}->{renamed}", …, td.DeltaTensor(({extent},)))'
    )


def unused_labels(used: Iterable[str]) -> list[str]:
    """Return the letters that are not in ``used``, in the order i, j, k, ..."""
    taken = set(used)
    return [label for label in FROM_I if label not in taken]


def axis_labels(shape: Sequence[Any]) -> str:
    """Return a letter for each axis of ``shape``: i, j, k, ... Raise `ArgumentError` if there are too many axes."""
    if len(shape) > len(LETTERS):
        raise ArgumentError(f"the shape {tuple(shape)} has {len(shape)} axes, more than the {len(LETTERS)} labels")
    return "".join(unused_labels("")[: len(shape)])


def label_extents(subscripts: Subscripts, shapes: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Return the extent of each label in ``subscripts``, from the operands' ``shapes``; raise `ShapeError` if one label
    has two extents.
    """
    found: dict[str, tuple[Any, int, int]] = {}
    for position, (labels, shape) in enumerate(zip(subscripts.inputs, shapes, strict=True)):
        for axis, (label, extent) in enumerate(zip(labels, shape, strict=True)):
            known, where, which = found.setdefault(label, (extent, position, axis))
            if known != extent and not same_extent(known, extent):
                raise ShapeError(
                    f'EinsumProduct("{subscripts}"): the label {label} is axis {which} of operand {where} with extent '
                    f"{known}, and axis {axis} of operand {position} with extent {extent}; the extents must be equal"
                    f"{namesakes(known, extent)}"
                )
    return {label: extent for label, (extent, _, _) in found.items()}
