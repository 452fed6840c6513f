"""Reads at the entries of an array of integers, and sums over equal entries, in the way that suits each library."""

from __future__ import annotations

from typing import Any

import numpy as np


def at(xp: Any, x: Any, places: Any) -> Any:
    """``x[places]``, along the first axis, without a test of the places where a library leaves it out."""
    if xp is np:
        return x[places]
    if xp.__name__ == "torch":  # the derivative of `x[places]` sorts the places, that of a selection does not
        return x.index_select(0, places.reshape(-1)).reshape(*places.shape, *x.shape[1:])
    return x.at[places].get(mode="promise_in_bounds")


def totals(xp: Any, values: Any, places: Any, length: int, *, ordered: bool = False) -> Any:
    """For each number below ``length`` the sum of the values, along the first axis, at the places of the number.

    ``ordered``: no place is less than the one before.
    """
    if xp is np or xp.__name__ == "cupy":
        result = xp.zeros((length, *values.shape[1:]), values.dtype)
        xp.add.at(result, places, values)
        return result
    if xp.__name__ == "torch":
        return values.new_zeros((length, *values.shape[1:])).index_add(0, places, values)
    import jax

    return jax.ops.segment_sum(values, places, length, indices_are_sorted=ordered, mode="promise_in_bounds")
