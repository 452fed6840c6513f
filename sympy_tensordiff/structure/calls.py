"""Check the arguments of a call of a structured derivative, and reuse the checks for equal sizes and index arrays."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.codegen.run.arguments import ArgumentChecker
from sympy_tensordiff.codegen.run.repeated_calls import LastCall, remember
from sympy_tensordiff.codegen.run.signature import size_checker
from sympy_tensordiff.lazy import numpy as np
from sympy_tensordiff.symbolic.expressions.traversal import free_symbols_in, nodes_in
from sympy_tensordiff.symbolic.index_notation.tensors import TensorSymbol


class CheckedArguments(NamedTuple):
    """The arguments of one call, checked and converted for the kernels, with the sizes read off their shapes.

    `values` are numbers, and arrays of the `dtype` of the results in C order. `environment` has the sizes by symbol,
    and copies of the integer arrays by tensor. `key` is equal for calls whose sizes and index arrays give the same
    sparsity pattern.
    """

    values: tuple[Any, ...]
    environment: dict[Any, Any]
    key: tuple[Any, ...]
    dtype: np.dtype[Any]


class ArgumentReader:
    """Checks and converts the arguments of the calls of one structured derivative. The result for the last call is
    cached.

    `args` are the symbols of the arguments. The reads of `functions` are checked; a pattern depends on the conditions
    and indices in `index_expressions`.
    """

    def __init__(self, args: tuple[Any, ...], functions: Sequence[Any], index_expressions: Sequence[Any]) -> None:
        self._args = args
        self._checker = ArgumentChecker(build_program(args, tuple(functions)))
        self._sizes = size_checker(args, functions)
        self._symbols = free_symbols_in([*args, *functions, *index_expressions])
        tensors = {node for node in nodes_in(index_expressions) if isinstance(node, TensorSymbol)}
        self._is_index_array = [isinstance(a, TensorSymbol) and a.dtype is int for a in args]
        self._is_key = [is_index and a in tensors for a, is_index in zip(args, self._is_index_array, strict=True)]
        self._last: tuple[LastCall, CheckedArguments] | None = None

    def read(self, arrays: Sequence[Any]) -> CheckedArguments:
        """Return the arguments ``arrays``, checked and converted, with the sizes. Raise `ArgumentError` or a subclass
        if one does not fit.
        """
        last = self._last
        if last is not None and (values := last[0].prepare(arrays)) is not None:
            return last[1]._replace(values=tuple(values))
        prepared = self._checker.prepare(arrays)
        sizes = self._sizes.sizes(prepared.values)  # by the names of symbols, which identifiers need not be
        environment: dict[Any, Any] = {s: sizes[str(s)] for s in self._symbols if str(s) in sizes}
        arguments = zip(self._args, prepared.values, self._is_index_array, strict=True)
        environment |= {argument: np.array(value) for argument, value, is_index_array in arguments if is_index_array}
        digests = [_digest(v) for v, is_key in zip(prepared.values, self._is_key, strict=True) if is_key]
        call = CheckedArguments(prepared.values, environment, (*sorted(sizes.items()), *digests), prepared.dtype)
        recent = remember(self._checker.arguments, arrays, prepared, _do_nothing)
        self._last = None if recent is None else (recent, call)
        return call


def _digest(array: Any) -> tuple[Any, ...]:
    """Return the shape and a hash of the entries of ``array``, so that calls with equal index arrays have the same
    cache key.
    """
    return np.shape(array), hashlib.blake2b(np.asarray(array).tobytes(), digest_size=16).digest()


def _do_nothing(*_: Any) -> None:
    """Do nothing, where `remember` takes the function that computes the results of a call: the arguments are only
    checked.
    """
