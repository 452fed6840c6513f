"""Nested tuples of results: flat in programs, nested for callers.

A structure is a text, ``.`` for one result and parentheses around those of a tuple: ``"."`` is a bare result,
``"((..)(..))"`` the four blocks of a Hessian with respect to two variables. It is a text so that nothing recurses:
tuples may be nested arbitrarily deep.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import sympy

from sympy_tensordiff.codegen.run.device_arrays import check_dense
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError
from sympy_tensordiff.lazy import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

SINGLE = "."


class _TupleEnd(NamedTuple):
    """A marker on the stack of `flatten` for the end of a tuple."""

    identity: int


def flatten(expr: Any) -> tuple[list[Any], str]:
    """Return ``(expressions, structure)`` for ``expr``, nested tuples of expressions: the leaves from left to right,
    and a string that describes the nesting. Raise `ArgumentError` for an empty or cyclic one.

    >>> flatten((1, [2, 3]))
    ([1, 2, 3], '(.(..))')
    """
    leaves: list[Any] = []
    structure: list[str] = []
    todo: list[Any] = [expr]
    inside: set[int] = set()
    while todo:
        value = todo.pop()
        if isinstance(value, _TupleEnd):
            inside.remove(value.identity)
            structure.append(")")
        elif isinstance(value, tuple | list | sympy.Tuple):
            if not len(value):
                raise ArgumentError(
                    "there is no expression in an empty tuple: give one, or a tuple of them, "
                    "and leave out the tuples that have none"
                )
            if id(value) in inside:
                raise ArgumentError("a list of expressions contains itself: give tuples of expressions")
            inside.add(id(value))
            structure.append("(")
            todo += [_TupleEnd(id(value)), *reversed(value)]
        else:
            leaves.append(value)
            structure.append(SINGLE)
    return leaves, "".join(structure)


def nesting(structure: str) -> Callable[[Sequence[Any]], Any]:
    """Return the function that arranges a flat sequence of results as the nested tuples that ``structure``
    describes.
    """
    if structure == SINGLE:
        return lambda values: values[0]
    return tuple if structure == f"({SINGLE * (len(structure) - 2)})" else partial(nest, structure)


def nest(structure: str, values: Sequence[Any]) -> Any:
    """Return the sequence ``values`` as nested tuples, by the pattern ``structure``: a dot stands for the next value.

    >>> nest("(.(..))", [1, 2, 3])
    (1, (2, 3))
    """
    assert structure.count(SINGLE) == len(values)
    rest = iter(values)
    levels: list[list[Any]] = [[]]
    for mark in structure:
        if mark == "(":
            levels.append([])
        else:
            value = tuple(levels.pop()) if mark == ")" else next(rest)
            levels[-1].append(value)
    return levels[0][0]


def fit(structure: str, out: Any) -> list[Any]:
    """Return the arrays in ``out``, a nested tuple or list, as a flat list. Raise an error unless it is nested as
    ``structure`` says: ``"(.(..))"`` is a pair of an array and a pair of arrays.
    """
    leaves: list[Any] = []
    todo: list[tuple[Any, Any, str]] = [(nest(structure, [None] * structure.count(SINGLE)), out, "out")]
    while todo:
        wanted, value, place = todo.pop()
        if wanted is None:
            leaves.append(value)
            continue
        if not isinstance(value, tuple | list):
            raise ArgumentTypeError(
                f"{place} is {type(value).__name__}, a tuple of {len(wanted)} {_noun(structure)} is needed"
            )
        if len(value) != len(wanted):
            raise ArgumentError(f"{place} has {len(value)} {_noun(structure)}, {len(wanted)} are needed")
        parts = zip(wanted, value, [f"{place}[{n}]" for n in range(len(value))], strict=True)
        todo += reversed([*parts])
    return leaves


def _noun(structure: str) -> str:
    """Return the noun for the elements of ``out`` in messages: "entries" if ``structure`` says that they are nested
    tuples, "arrays" if not.
    """
    return "entries" if "(" in structure[1:] else "arrays"


# ---------------------------------------------------------------------------- arrays of the caller
# Checks of the arrays that a caller gives for the results: shape, dtype, writable, no shared memory.


def check_out(
    name: str, out: Any, shape: tuple[int, ...], dtype: np.dtype[Any], others: Sequence[tuple[str, Any]]
) -> None:
    """Raise if ``out``, the array of the host or a device for the result ``name``, has a wrong shape or dtype, cannot
    be written, or shares memory with one of ``others``, pairs of label and array.
    """
    is_host = isinstance(out, np.ndarray)
    if out.shape != shape:
        raise ArgumentError(f"out for {name} has shape {out.shape}, expected {shape}")
    if out.dtype != dtype:
        raise ArgumentTypeError(f"out for {name} has dtype {out.dtype}, expected {dtype}")
    if not out.flags.writeable if is_host else out.is_readonly:
        raise ArgumentError(f"out for {name} is read-only")
    if not is_host:
        check_dense(f"out for {name}", out)
    elif not out.flags.c_contiguous and _overlaps_itself(out):
        raise ArgumentError(f"out for {name} has entries that share memory; pass an array without overlapping entries")
    for label, other in others:
        if _share_memory(out, other) if is_host else out.overlaps(other):
            raise ArgumentError(f"out for {name} shares memory with {label}; pass an array of its own")


def _overlaps_itself(out: NDArray[Any]) -> bool:
    """Return whether two entries of the array ``out`` share memory."""
    places = np.zeros((), np.int64)
    for length, stride in zip(out.shape, out.strides, strict=True):
        places = np.add.outer(places, np.arange(length) * stride)
    return bool(np.unique(places).size != out.size)


def _share_memory(a: NDArray[Any], b: Any) -> bool:
    """Return whether two host arrays share memory; True if deciding this takes too long."""
    if not isinstance(b, np.ndarray) or not np.may_share_memory(a, b):
        return False
    try:
        # The typed signature of max_work knows two constants only.
        return np.shares_memory(a, b, max_work=100_000)  # type: ignore[arg-type, unused-ignore]
    except RuntimeError:  # TooHardError, which has moved between the versions of NumPy
        return True
