"""About how long axes are, where plans are compared: sizes that are symbols are taken for what the user expects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sympy_tensordiff.integer.affine import Affine

SIZE = 100
"""What a size is taken for of which nothing is said."""


class Hints:
    """The expected values of forms over sizes and free indices.

    Parameters
    ----------
    sizes : mapping, optional
        The expected values of variables.
    """

    def __init__(self, sizes: Mapping[Any, int] | None = None) -> None:
        self.sizes = dict(sizes or {})

    def __call__(self, form: Affine) -> int:
        """The expected value of an extent, 1 or more."""
        return max(1, form.evaluate({v: self.sizes.get(v, SIZE) for v in form.atoms()}))
