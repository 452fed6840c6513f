"""Tensors built entry by entry from other tensors: fresh index names, and reads of entries.

Sharing is kept: a read of a comprehension is written out only if that is short and computes no sum twice; otherwise the
comprehension stays, to be computed once and read as a tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, count
from typing import Any

from sympy import Basic, Expr, Mod, S, Symbol, expand, floor, sympify

from sympy_tensordiff.symbolic.expressions.misplaced_tensors import is_whole
from sympy_tensordiff.symbolic.index_notation.entries import TensorEntry
from sympy_tensordiff.symbolic.index_notation.indices import parse
from sympy_tensordiff.symbolic.index_notation.sums import IndexedReduction
from sympy_tensordiff.symbolic.index_notation.tensors import TensorComprehension

NAMES = "ijklmnpqrstuvw"
"""Names of indices, in this order."""
WRITTEN_OUT = 40
"""Bodies of more nodes than these are read as tensors, so that the result grows linearly."""


def same_extent(first: Expr, second: Expr) -> bool:
    """Return whether the extents ``first`` and ``second`` are equal for all values of their symbols."""
    return bool(first == second or expand(first - second) == 0)


def namesakes(first: Expr, second: Expr) -> str:
    """Return a hint for an error about two different extents, ``first`` and ``second``, that are printed alike, because
    their symbols have different assumptions; "" if they are printed differently.
    """
    if str(first) != str(second):
        return ""
    return "; they are named alike, but differ in their assumptions: make the symbol of the size once"


def fresh_indices(number: int, avoid: Iterable[Basic], wanted: Sequence[str] = ()) -> list[Any]:
    """Return ``number`` integer symbols, named as in ``wanted`` or else ``i``, ``j``, ..., none of which has the name
    of a symbol in ``avoid``.

    Bound indices of sums in ``avoid`` would be other symbols, but are avoided for the reader.
    """
    avoid = list(avoid)
    taken = {symbol.name for expr in avoid for symbol in expr.free_symbols}
    taken |= {
        part.name for expr in avoid if not is_whole(expr) for part in upper_nodes(expr) if isinstance(part, Symbol)
    }
    others = chain(NAMES, (f"i_{n}" for n in count(1)))
    names = [name if name not in taken else "" for name in (*wanted[:number], *[""] * (number - len(wanted)))]
    taken.update(names)
    return [Symbol(name or next(name for name in others if name not in taken), integer=True) for name in names]


def tabulate(
    shape: Sequence[Expr], operands: Iterable[Basic], entry: Callable[..., Expr], names: Sequence[str] = ()
) -> Any:
    """Return the tensor of `shape` with the entries ``entry(i, j, ...)``, or the scalar ``entry()`` if ``shape`` is
    ``()``. The indices have the preferred `names` unless these occur in the expressions `operands`.

    `entry` takes one index per axis; that of an axis of extent 1 is the number 0. The indices have the preferred
    `names`, or others that do not occur in `operands`, the expressions that the entry is made of.
    """
    shape = tuple(map(sympify, shape))  # SymPy's shapes may be Python integers
    indices = fresh_indices(len(shape), (*operands, *shape), names)
    body = entry(*entry_indices(indices, shape))
    if isinstance(body, TensorEntry) and body.indices == entry_indices(indices, shape) and body.tensor.shape == shape:
        return body.tensor
    return TensorComprehension(body, *zip(indices, shape, strict=True)) if shape else body


def entry_indices(indices: Iterable[Any], shape: Iterable[Expr]) -> tuple[Expr, ...]:
    """Return ``indices`` with 0 along each axis whose extent in ``shape`` is 1, so that a tensor of this shape is read
    as NumPy broadcasts it.
    """
    return tuple(S.Zero if extent == 1 else index for index, extent in zip(indices, shape, strict=True))


def digits(index: Expr, extents: Sequence[Expr]) -> list[Expr]:
    """Return the indices, one per axis, of the entry that has the row-major number ``index`` in a tensor with these
    ``extents``: ``[floor(index/n), Mod(index, n)]`` for the extents ``(m, n)``.
    """
    result, stride = [S.Zero] * len(extents), S.One
    wide = [axis for axis, extent in enumerate(extents) if extent != 1]
    for axis in reversed(wide):
        digit = floor(index / stride)
        result[axis] = digit if axis == wide[0] else Mod(digit, extents[axis])
        stride *= extents[axis]
    return result


def inline_entry(
    tensor: Any,
    indices: Sequence[Expr],
    scope: Iterable[Expr] | None = None,
    *,
    once: bool = True,
    keeps_sums: bool = True,
) -> Any:
    """Return the entry of ``tensor`` at ``indices``; if ``tensor`` is a small comprehension, return the formula of this
    entry instead of a read.

    With ``keeps_sums``, a formula with sums is used only if the entry occurs ``once``, and is a different one for all
    values of the indices ``scope``.

    Otherwise the sums would be computed several times.
    """
    if not is_whole(tensor):
        return tensor
    indices = entry_indices(indices, tensor.shape)
    if not isinstance(tensor, TensorComprehension):
        return tensor[indices]
    nodes = upper_nodes(tensor.body)
    if len(nodes) > WRITTEN_OUT:
        return tensor[indices]
    has_sums = any(isinstance(node, IndexedReduction) for node in nodes)
    cheap = not has_sums or (once and _reads_once(indices, tensor.shape, scope))
    return tensor.write_out(indices) if cheap or not keeps_sums else tensor[indices]


def _reads_once(indices: Sequence[Expr], shape: Sequence[Expr], scope: Iterable[Expr] | None) -> bool:
    """Return whether each entry at ``indices`` is read at most once while the symbols in ``scope`` vary (None: all
    symbols of ``indices``). It may then be replaced by its formula without computing anything twice. Sizes in ``shape``
    do not vary.
    """
    sizes = set().union(*(extent.free_symbols for extent in shape))
    varying = set().union(*(index.free_symbols for index in (indices if scope is None else scope))) - sizes
    forms = [parse(index) for index in indices]
    found = [(form, [atom for atom in atoms if atom not in sizes]) for form, atoms in forms]
    return varying <= {atoms[0] for form, atoms in found if len(atoms) == 1 and not form.compounds()}


def upper_nodes(body: Basic) -> list[Any]:
    """Return the first `WRITTEN_OUT` + 1 nodes of ``body`` from the top, or all if there are fewer, so that the caller
    can test whether it is small. Tensors whose entries it reads do not count.
    """
    nodes: list[Any] = []
    stack: list[Any] = [body]
    while stack and len(nodes) <= WRITTEN_OUT:
        node = stack.pop()
        nodes.append(node)
        stack.extend(node.indices if isinstance(node, TensorEntry) else node.args)
    return nodes
