"""Several variables as one flat vector, in C order, one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sympy_tensordiff.errors import ArgumentError
from sympy_tensordiff.structure.api import split


class FlatVariables:
    """Variables of known shapes, and their flat vector.

    Parameters
    ----------
    variables : sequence of TensorSymbol or Symbol
    shapes : sequence of tuple of int

    Attributes
    ----------
    names : list of str
    size : int
        The length of the vector.
    """

    def __init__(self, variables: Sequence[Any], shapes: Sequence[tuple[int, ...]]) -> None:
        self.variables, self.shapes = tuple(variables), [tuple(map(int, shape)) for shape in shapes]
        self.names = [str(variable.name) for variable in variables]
        self.size = sum(int(np.prod(shape, dtype=np.int64)) for shape in self.shapes)

    def parts(self, x: Any) -> list[Any]:
        """The variables in order, each in its shape, as views of ``x`` where it is an array of numbers."""
        vector = np.asarray(x, dtype=float)
        if vector.shape != (self.size,):
            raise ArgumentError(
                f"the vector of unknowns has the shape {vector.shape}, the problem needs ({self.size},)"
            )
        return split(vector, self.shapes)

    def unravel(self, x: Any) -> dict[str, Any]:
        """The variables by name, each in its shape."""
        return dict(zip(self.names, self.parts(x), strict=True))

    def ravel(self, values: Mapping[Any, Any]) -> NDArray[Any]:
        """The flat vector of values, by name or by symbol."""
        given = {str(getattr(key, "name", key)): np.asarray(value, dtype=float) for key, value in values.items()}
        if set(given) != set(self.names):
            raise ArgumentError(f"values are given for {', '.join(given)}, the variables are {', '.join(self.names)}")
        for name, shape in zip(self.names, self.shapes, strict=True):
            if given[name].shape != shape:
                raise ArgumentError(f"the value of {name} has the shape {given[name].shape}, it needs {shape}")
        return flat(given[name] for name in self.names)


def flat(parts: Any) -> NDArray[Any]:
    """Arrays and numbers, one after the other."""
    return np.concatenate([np.ravel(part) for part in parts])
