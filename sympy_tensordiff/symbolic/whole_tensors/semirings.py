"""Products of tensors over other semirings: log-sum-exp of sums, max-plus and min-plus."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sympy import Add, Expr, exp, log

from sympy_tensordiff.errors import ArgumentError
from sympy_tensordiff.symbolic.index_notation.sums import IndexedMax, IndexedMin, IndexedSum
from sympy_tensordiff.symbolic.index_notation.tabulate import entry_indices, fresh_indices, inline_entry, tabulate
from sympy_tensordiff.symbolic.whole_tensors.operations import shape_of
from sympy_tensordiff.symbolic.whole_tensors.subscripts import Subscripts, label_extents


def _log_sum_exp(value: Expr, *limits: Any) -> Expr:
    """Return ``log(sum(exp(value)))`` over `limits`; kernels compute it without overflow."""
    return log(IndexedSum(exp(value), *limits))


SEMIRINGS = {"log": _log_sum_exp, "max": IndexedMax, "min": IndexedMin}
"""The reductions of semirings whose products are sums."""


def semiring_product(subscripts: Subscripts, operands: Sequence[Any], semiring: Any) -> Any:
    """Return the einsum of ``operands`` in which other operations replace plus and times, as ``semiring`` says: maximum
    and plus, for example.

    The `operands` fit the `subscripts`. The result is in index notation, a scalar without labels in the output. Raise
    `ArgumentError` if `semiring` is not a key of `SEMIRINGS`.
    """
    if not isinstance(semiring, str) or semiring not in SEMIRINGS:
        raise ArgumentError(
            f'td.einsum has no semiring {semiring!r}; write "log" (log-sum-exp of sums), "max" (max-plus), '
            '"min" (min-plus), or leave it out for sums of products'
        )
    inputs, output = subscripts
    extents = label_extents(subscripts, [shape_of(operand) for operand in operands])
    summed = [label for label in extents if label not in output]
    lengths = [extents[label] for label in summed]

    def entry(*indices: Expr) -> Expr:
        """Return the entry of the semiring product at ``indices``."""
        own = entry_indices(fresh_indices(len(summed), (*operands, *indices, *lengths), summed), lengths)
        at = {**dict(zip(output, indices, strict=True)), **dict(zip(summed, own, strict=True))}
        terms = [
            inline_entry(operand, [at[label] for label in labels]) if labels else operand
            for operand, labels in zip(operands, inputs, strict=True)
        ]
        limits = [(index, 0, length - 1) for index, length in zip(own, lengths, strict=True) if length != 1]
        return SEMIRINGS[semiring](Add(*terms), *limits) if limits else Add(*terms)

    return tabulate([extents[label] for label in output], operands, entry, names=output)
