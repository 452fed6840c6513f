"""Entries of integer tensors in affine forms: what an index is where data select what is read.

A `DataEntry` such as ``idx[i]`` is an unknown integer that its indices determine. Nothing else is
known of it: it is a column of its own in a system, no elimination goes through it, and an equation
``p == idx[i]`` is a condition that is tested, never solved for ``i``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .affine import Affine, Compound, Row, Variable


class DataEntry(Compound):
    """The integer ``tensor[index]``.

    Parameters
    ----------
    tensor : str
        The name of an integer tensor.
    index : tuple of Affine
        One form per axis.

    Examples
    --------
    >>> i, k = Affine.variable("i"), Affine.variable("k")
    >>> form = 2 * Affine.variable(DataEntry("idx", (i + 1,))) + k
    >>> form, form.substitute({"i": 3 * k})
    (k + 2*idx[i + 1], k + 2*idx[3*k + 1])
    >>> form.evaluate({"i": 0, "k": 7, "idx": [5, 6]})
    19
    """

    __slots__ = ("_hash", "index", "tensor")
    rank = 4

    def __init__(self, tensor: str, index: tuple[Affine, ...]) -> None:
        self.tensor = tensor
        self.index = index
        self._hash = hash(("data", tensor, index))

    def key(self) -> tuple[Any, ...]:
        return self.tensor, len(self.index), self.index

    def forms(self) -> tuple[Affine, ...]:
        return self.index

    def substituted(self, mapping: Mapping[Variable, Affine]) -> Affine | None:
        index = tuple([form.substitute(mapping) for form in self.index])
        if all(new is old for new, old in zip(index, self.index, strict=True)):
            return None
        return Affine.variable(DataEntry(self.tensor, index))

    def evaluate(self, values: Mapping[Variable, Any]) -> int:
        """The value, where ``values`` holds the array (or nested sequences) of the tensor under its name."""
        found = values[self.tensor]
        for form in self.index:
            found = found[form.evaluate(values)]
        return int(found)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DataEntry) and self.tensor == other.tensor and self.index == other.index

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return DataEntry, (self.tensor, self.index)

    def __repr__(self) -> str:
        return f"{self.tensor}[{', '.join(map(str, self.index)) or '()'}]"


def data_entries(forms: Iterable[Affine]) -> list[DataEntry]:
    """All entries of data in some forms, those inside of other compounds and of each other too, each once.

    >>> i = Affine.variable("i")
    >>> inner = Affine.variable(DataEntry("jdx", (i,)))
    >>> data_entries([i, 2 * Affine.variable(DataEntry("idx", (inner + 1,)))])
    [idx[jdx[i] + 1], jdx[i]]
    """
    found: dict[Compound, None] = {}
    waiting = [v for form in forms for v, _ in form.terms if isinstance(v, Compound)]
    while waiting:
        compound = waiting.pop()
        if compound not in found:
            found[compound] = None
            waiting += [v for form in compound.forms() for v, _ in form.terms if isinstance(v, Compound)]
    return [compound for compound in found if isinstance(compound, DataEntry)]


def selected(rows: Iterable[Row]) -> frozenset[Variable]:
    """The plain variables that stand in an index of data in some rows: what selects the data."""
    entries = data_entries(row.form for row in rows)
    return frozenset().union(*(entry.atoms() for entry in entries))
