"""The ranges of indices that are given by name alone: those of the axes that they stand at by themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sympy_tensordiff.errors import ParseError
from sympy_tensordiff.parsing.indexed.syntax import Part
from sympy_tensordiff.parsing.tree import cut
from sympy_tensordiff.symbolic.tensors import TensorSymbol


def extent_of(index: Part, body: Part, tensors: Mapping[str, TensorSymbol], source: str) -> Any:
    """The extent of all axes in ``body`` at which the name of ``index`` stands alone.

    Raises
    ------
    ParseError
        If there is no such axis, or if two have different extents.
    """
    name = index.text
    found: dict[Any, str] = {}
    for part in _parts(body):
        tensor = tensors.get(part.text) if part.kind == "entry" and part.parts[0].kind == "name" else None
        for axis, at in enumerate(part.parts[1:]) if tensor is not None else ():
            if at.kind == "name" and at.text == name and tensor is not None and axis < tensor.rank:
                found.setdefault(tensor.shape[axis], f"{part.text} (axis {axis})")
    if len(found) == 1:
        return next(iter(found))
    if not found:
        what = f"no axis tells how far {cut(name)} runs"
    else:
        what = " and ".join(f"{cut(name)} runs to {extent} along {where}" for extent, where in [*found.items()][:2])
    raise ParseError(
        f"{what}; write its range, as in ({cut(name)}, 0, n - 1) in a sum, or declare the shape of the result",
        source,
        index.place,
    )


def _parts(body: Part) -> Iterable[Part]:
    waiting = [body]
    while waiting:
        part = waiting.pop()
        yield part
        waiting += reversed(part.parts)
