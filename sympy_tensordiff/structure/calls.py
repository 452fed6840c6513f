"""The arguments of a call of a structured derivative: checked once for each combination of sizes and data."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.codegen.run.arguments import ArgumentChecker
from sympy_tensordiff.codegen.run.recent import Recent, remember
from sympy_tensordiff.codegen.run.signature import size_checker
from sympy_tensordiff.symbolic.tensors import TensorSymbol
from sympy_tensordiff.symbolic.traversal import free_symbols_in, nodes_in


class Call(NamedTuple):
    """The arguments of a call as kernels take them.

    Attributes
    ----------
    values : tuple
        Arrays of the type of the results, in C order; numbers.
    known : dict
        The sizes by their symbols, and copies of the arrays of integers by their tensors.
    key : tuple
        Equal for calls of which ``known`` is the same, as far as a pattern depends on it.
    dtype : dtype
        The type of the results.
    """

    values: tuple[Any, ...]
    known: dict[Any, Any]
    key: tuple[Any, ...]
    dtype: np.dtype[Any]


class CallReader:
    """Reads the arguments of calls.

    Parameters
    ----------
    args : tuple
        The symbols of the arguments.
    functions : tuple of Expr
        The expressions whose reads are checked.
    places : sequence of Expr
        The index expressions and conditions on which a pattern depends.
    """

    def __init__(self, args: tuple[Any, ...], functions: Sequence[Any], places: Sequence[Any]) -> None:
        self._args = args
        self._checker = ArgumentChecker(build_program(args, tuple(functions)))
        self._sizes = size_checker(args, functions)
        self._symbols = free_symbols_in([*args, *functions, *places])
        tensors = {node for node in nodes_in(places) if isinstance(node, TensorSymbol)}
        self._is_data = [isinstance(a, TensorSymbol) and a.dtype is int for a in args]
        self._is_key = [data and a in tensors for a, data in zip(args, self._is_data, strict=True)]
        self._last: tuple[Recent, Call] | None = None

    def read(self, arrays: Sequence[Any]) -> Call:
        """Return the checked arguments."""
        last = self._last
        if last is not None and (values := last[0].prepare(arrays)) is not None:
            return last[1]._replace(values=tuple(values))
        prepared = self._checker.prepare(arrays)
        sizes = self._sizes.sizes(prepared.values)  # by the names of symbols, which identifiers need not be
        known: dict[Any, Any] = {s: sizes[str(s)] for s in self._symbols if str(s) in sizes}
        data = zip(self._args, prepared.values, self._is_data, strict=True)
        known |= {argument: np.array(value) for argument, value, is_data in data if is_data}
        digests = [_digest(v) for v, is_key in zip(prepared.values, self._is_key, strict=True) if is_key]
        call = Call(prepared.values, known, (*sorted(sizes.items()), *digests), prepared.dtype)
        recent = remember(self._checker.arguments, arrays, prepared, _nothing)
        self._last = None if recent is None else (recent, call)
        return call


def _digest(array: Any) -> tuple[Any, ...]:
    return np.shape(array), hashlib.blake2b(np.asarray(array).tobytes(), digest_size=16).digest()


def _nothing(*_: Any) -> None:
    """Run nothing: a call is only read."""
