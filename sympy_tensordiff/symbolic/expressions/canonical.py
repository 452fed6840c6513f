"""The canonical form of an expression: one expression for all that differ only in the names of their bound indices.

Bottom-up: a binder whose parts are in canonical form calls its indices ``_n``, ``_n+1``, …, with the lowest n that no
binder between an index and its binder has taken. A name depends on the nodes below and on nothing that the user chose,
so the order of terms and factors, which SymPy derives from names, depends on nothing else either. Binders side by side
share names; equal ones become one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sympy import Basic, Idx, Symbol

from sympy_tensordiff.symbolic.expressions.arguments import as_expr
from sympy_tensordiff.symbolic.expressions.call_errors import explained
from sympy_tensordiff.symbolic.expressions.traversal import names_in, parts, postorder


@explained
def canonical(expr: Any) -> Any:
    """Return the canonical form of `expr`. Expressions that differ only in the names of bound indices have equal
    canonical forms with equal hashes.

    Parameters
    ----------
    expr : Basic
        Any expression that holds nodes of ours, a native one as well.

    Returns
    -------
    Basic
        The same value. Bound indices are integer symbols ``_0``, ``_1``, … (with more underscores
        where a free name looks like that), the innermost lowest; an `Idx` becomes a symbol. The
        order of the limits of a sum is kept, and so are symbols that SymPy's own classes bind. Labels
        of einsum products are ``i``, ``j``, … in the order in which they appear.

    Raises
    ------
    ArgumentTypeError
        If ``expr`` is not a SymPy object.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> i, j, n = td.indices("i j n")
    >>> x = td.TensorSymbol("x", n)
    >>> td.canonical(td.IndexedSum(x[i], (i, 0, n - 1)) + td.IndexedSum(x[j], (j, 0, n - 1)))
    2*IndexedSum(x[_0], (_0, 0, n - 1))
    """
    return Canonical().form(as_expr(expr, "the expression"))


class CanonicalNames(dict[Any, Any]):
    """A dictionary from bound indices to canonical names. Passed to `xreplace` of the sum or comprehension that binds
    them, it gives the canonical form.
    """


class Canonical:
    """Computes a canonical form, which does not depend on the names of bound indices. It visits each node once, without
    recursion.
    """

    def __init__(self) -> None:
        # Of a node in canonical form: every symbol that is free there, and the lowest number that is
        # not taken by a binder between the symbol and the node.
        self.free: dict[Basic, dict[Any, int]] = {}
        self.stem = ""
        self.top = 0  # one more than the highest number

    def form(self, expr: Basic) -> Basic:
        """Return ``expr`` in canonical form, with standard names for bound indices: expressions that differ only in
        such names become equal.
        """
        self.stem = unused_stem(names_in([expr]))
        done: dict[Basic, Basic] = {}
        for node in postorder(expr, done):
            result = rebuilt(node, [done[arg] for arg in parts(node)])
            if getattr(result, "is_einsum", False):
                result = result.relabelled()
            done[node] = self.with_canonical_indices(result) if getattr(result, "is_binder", False) else result
            self.record_free_symbols(done[node])
        result = done[expr]
        # The names given are new to the expression; those wanted must only be new to its free symbols.
        stem = unused_stem(symbol.name for symbol in self.free[result])
        if stem == self.stem:
            return result
        names = {self.name(number): Symbol(f"{stem}{number}", integer=True) for number in range(self.top)}
        result = self.renamed(result, names, parts)
        self.stem = stem
        self.record_free_symbols(result)
        return result

    def name(self, number: int) -> Symbol:
        """Return the canonical index symbol with number ``number``."""
        return Symbol(f"{self.stem}{number}", integer=True)

    def with_canonical_indices(self, binder: Any) -> Basic:
        """Return the sum or comprehension ``binder``, whose parts are already canonical, with its bound indices renamed
        to canonical names.
        """
        variables: tuple[Any, ...] = binder.variables
        for part in binder.args:
            self.record_free_symbols(part)
        numbers = (self.free[part].get(variable, 0) for part in binder.args for variable in variables)
        lowest = max(numbers, default=0)
        renaming = {variable: self.name(lowest + position) for position, variable in enumerate(variables)}

        self.top = max(self.top, lowest + len(variables))

        def touched(node: Any) -> tuple[Any, ...]:
            """Return the arguments of ``node`` if it contains a bound index of the outer function's ``binder``, a sum
            or comprehension, so that it has to be renamed there. Return () for other nodes.
            """
            if node is not binder:
                self.record_free_symbols(node)
                if self.free[node].keys().isdisjoint(variables):
                    return ()
            return parts(node)

        return self.renamed(binder, renaming, touched)

    def renamed(self, expr: Basic, renaming: Mapping[Any, Basic], touched: Callable[[Any], tuple[Any, ...]]) -> Basic:
        """Return ``expr`` with symbols replaced by ``renaming``. The function ``touched(node)`` returns the arguments
        of a node, or () if nothing is replaced in it.
        """
        done: dict[Basic, Basic] = dict(renaming)
        for node in postorder(expr, done, touched):
            below = touched(node)
            done[node] = rebuilt(node, [done[arg] for arg in below]) if below else node
        return done[expr]

    def record_free_symbols(self, expr: Basic) -> None:
        """Compute the free symbols of every node in ``expr`` and store them in ``self.free``."""
        for node in postorder(expr, self.free):
            is_tensor = getattr(node, "is_tensor_expr", False) and node.is_symbol
            free: dict[Any, int] = {node: 0} if is_tensor or isinstance(node, (Symbol, Idx)) else {}
            if isinstance(node, Idx):
                free.update((symbol, 0) for arg in node.args[1:] for symbol in arg.free_symbols)
            for arg in parts(node):
                for symbol, number in self.free[arg].items():
                    free[symbol] = max(free.get(symbol, 0), number)
            if getattr(node, "is_binder", False):
                own = node.variables
                taken = 1 + max((int(index.name[len(self.stem) :]) for index in own), default=-1)
                free = {symbol: max(number, taken) for symbol, number in free.items() if symbol not in own}
                node.__dict__.setdefault("_free", frozenset(free))  # which nobody asks of a deep node, from the top
            self.free[node] = free


def rebuilt(node: Any, args: list[Basic]) -> Any:
    """Return ``node`` with the arguments ``args``; the same object if they are unchanged. Nodes of this package are not
    validated again.
    """
    # Equal numbers may be two objects.
    if not args or all(new is old or (old.is_Number and new == old) for new, old in zip(args, node.args, strict=True)):
        return node
    return getattr(node, "_unchecked", node.func)(*args)


def unused_stem(names: Iterable[str]) -> str:
    """Return the shortest stem of underscores, ``_`` or ``__`` or ..., such that no name in ``names`` is the stem
    followed by a number. Canonical indices are named by stem and number.
    """
    taken = {len(match[1]) for name in names if (match := re.fullmatch(r"(_+)\d+", name))}
    return "_" * next(length for length in range(1, len(taken) + 2) if length not in taken)
