"""What an einsum does, apart from the operands it does it to.

The labels of an einsum may be any; `pattern` numbers them in the order of the operands, and tells
apart what multiplies and sums (a *core*) from what moves entries (a *view*), see `graph.contractions`.
Both depend on labels and extents only: a graph of many einsums has few patterns.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from sympy_tensordiff.graph.interning import Node, Number, Shape
from sympy_tensordiff.integer.affine import Affine

Label: TypeAlias = Hashable
Labels: TypeAlias = Sequence[Label]
Extents: TypeAlias = Mapping[Label, Affine]
Operand: TypeAlias = tuple[Node, Labels]
"""A node and one label per axis; labels may repeat."""


class Contraction(NamedTuple):
    """What an ``ein`` node does; labels are ``0, 1, …``, of ``extents[label]``."""

    coefficient: Number
    inputs: tuple[tuple[int, ...], ...]
    output: tuple[int, ...]
    extents: tuple[Affine, ...]

    @property
    def shape(self) -> Shape:
        """The extents of the result."""
        return tuple([self.extents[label] for label in self.output])

    @property
    def moves(self) -> bool:
        """Whether it only moves, repeats and scales the entries of one operand, or of none."""
        return len(self.inputs) < 2 and (not self.inputs or set(self.inputs[0]).issubset(self.output))

    @property
    def is_identity(self) -> bool:
        """Whether the result is the one operand itself."""
        return self.coefficient == 1 and self.inputs == (self.output,) and len(self.extents) == len(self.output)


class Pattern(NamedTuple):
    """An einsum as a core, where it multiplies or sums, and a view of it, where it does more than that."""

    core: Contraction | None
    view: Contraction | None


def pattern(coefficient: Number, inputs: Sequence[Labels], output: Labels, extents: Extents) -> Pattern:
    """The core and the view of operands with the labels ``inputs``, none of which is a view.

    Parameters
    ----------
    coefficient : number
    inputs : sequence of labels
        Labels of the operands, in the order in which they are to stand.
    output : labels
    extents : mapping
        The extents of all labels.
    """
    used = dict.fromkeys([label for labels in inputs for label in labels])
    core, labels = None, inputs[0] if inputs else ()
    if len(inputs) > 1 or not set(used).issubset(output):
        # The axes stand in the order of the operands, whatever is wanted: a product and its transpose are one core.
        labels = [label for label in used if label in output]
        core = _numbered(1, inputs, labels, used, extents)
    view = _numbered(coefficient, [labels] if inputs else [], output, dict.fromkeys(output), extents)
    return Pattern(core, view if output and not view.is_identity else None)


def _numbered(
    coefficient: Number, inputs: Sequence[Labels], output: Labels, order: Iterable[Label], extents: Extents
) -> Contraction:
    number = {label: n for n, label in enumerate(order)}
    return Contraction(
        coefficient,
        tuple([tuple([number[label] for label in labels]) for labels in inputs]),
        tuple([number[label] for label in output]),
        tuple([extents[label] for label in number]),
    )
