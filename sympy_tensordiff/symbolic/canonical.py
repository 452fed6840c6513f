"""One form of all expressions that differ in nothing but the names of their bound indices.

Bottom-up: a binder whose parts are in canonical form calls its indices ``_n``, ``_n+1``, …, where
n is the number of names that stand below it. A name depends on what is below and on nothing that
the user chose, so the order of terms and factors, which SymPy makes from names, depends on nothing
else either. Binders side by side share names; equal ones become one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sympy import Basic, Idx, Symbol
from sympy.core.symbol import Str

from sympy_tensordiff.symbolic.indices import as_expr


def canonical(expr: Any) -> Any:
    """The canonical form of an expression: equal, with an equal hash, for all alpha-equivalent ones.

    Parameters
    ----------
    expr : Basic
        Any expression that holds nodes of ours, a native one as well.

    Returns
    -------
    Basic
        The same value. Bound indices are integer symbols ``_0``, ``_1``, … (with more underscores
        where a free name looks like that), the innermost lowest; an `Idx` becomes a symbol. The
        order of the limits of a sum is kept, and so are symbols that SymPy's own classes bind.

    Raises
    ------
    ArgumentTypeError
        If ``expr`` is no SymPy object.

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
    """A rule for `xreplace`, names of bound indices to canonical ones, that stands for the canonical form."""


class Canonical:
    """The work on one expression; every node is visited once, shared ones too, and nothing recurses."""

    def __init__(self) -> None:
        self.symbols: dict[Basic, frozenset[Any]] = {}  # all that occur in a node, free or bound
        self.height: dict[Basic, int] = {}  # how many bound names stand on a path from a node to its leaves
        self.stem = ""

    def form(self, expr: Basic) -> Basic:
        """The canonical form of the whole expression."""
        self.read(expr)
        self.stem = unused_stem(self.symbols[expr])
        done: dict[Basic, Basic] = {}
        for node in postorder(expr, done):
            result = rebuilt(node, [done[arg] for arg in parts(node)])
            if getattr(result, "is_binder", False):
                result = self.closed(result)
            self.read(result)
            done[node] = result
        result = done[expr]
        # The names given are new to the expression; those wanted must only be new to its free symbols.
        names = {Symbol(f"{self.stem}{number}", integer=True) for number in range(self.height[result])}
        stem = unused_stem(self.symbols[result] - names)
        if stem == self.stem:
            return result
        return self.renamed(result, {n: Symbol(stem + n.name[len(self.stem) :], integer=True) for n in names})

    def closed(self, binder: Any) -> Basic:
        """A binder with canonical parts under canonical names."""
        self.read(binder)
        height = self.height[binder] - len(binder.variables)
        names = (Symbol(f"{self.stem}{height + number}", integer=True) for number in range(len(binder.variables)))
        return self.renamed(binder, dict(zip(binder.variables, names, strict=True)))

    def renamed(self, expr: Basic, renaming: Mapping[Any, Basic]) -> Basic:
        """The expression with other names; what does not hold them is not entered."""
        self.read(expr)
        done: dict[Basic, Basic] = dict(renaming)

        def touched(node: Any) -> tuple[Any, ...]:
            return () if self.symbols[node].isdisjoint(renaming) else parts(node)

        for node in postorder(expr, done, touched):
            done[node] = rebuilt(node, [done[arg] for arg in touched(node)])
        return done[expr]

    def read(self, expr: Basic) -> None:
        """Find out the symbols and the height of every node inside."""
        for node in postorder(expr, self.symbols):
            below = parts(node)
            own = {node} if isinstance(node, (Symbol, Str, Idx)) else set()
            if isinstance(node, Idx):
                own |= set().union(*(arg.free_symbols for arg in node.args[1:]))
            self.symbols[node] = frozenset(own).union(*(self.symbols[arg] for arg in below))
            bound = len(node.variables) if getattr(node, "is_binder", False) else 0
            self.height[node] = bound + max((self.height[arg] for arg in below), default=0)


def parts(node: Any) -> tuple[Any, ...]:
    """The arguments; none of an `Idx`, which is a symbol with a range."""
    return () if isinstance(node, Idx) else node.args


def postorder(expr: Basic, done: Mapping[Basic, Any], below: Callable[[Any], tuple[Any, ...]] = parts) -> Iterable[Any]:
    """The nodes of an expression, arguments first, that are not ``done`` (and are, when the next is asked for)."""
    stack = [expr]
    while stack:
        node = stack[-1]
        missing = [arg for arg in below(node) if arg not in done] if node not in done else []
        stack.extend(missing)
        if not missing:
            stack.pop()
            if node not in done:
                yield node


def rebuilt(node: Any, args: list[Basic]) -> Any:
    """The node with other arguments; ours are not validated again, since only names differ."""
    if not args or all(new is old for new, old in zip(args, node.args, strict=True)):
        return node
    return getattr(node, "_unchecked", node.func)(*args)


def unused_stem(symbols: Iterable[Any]) -> str:
    """The shortest ``_``, ``__``, … such that no symbol is called so with a number behind."""
    taken = {len(match[1]) for symbol in symbols if (match := re.fullmatch(r"(_+)\d+", symbol.name))}
    return "_" * next(length for length in range(1, len(taken) + 2) if length not in taken)
