"""Traversals of expressions without Python's recursion: depth costs memory, never a stack overflow.

The nodes of expressions, each once however many paths lead to it, and the names in them; and `trampoline`, which runs
recursive passes.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Generator, Iterable, Iterator, Sequence
from functools import cache
from operator import attrgetter
from typing import Any, ClassVar, TypeAlias, TypeVar

from sympy import Basic, Idx, Piecewise, Symbol

Below: TypeAlias = Callable[[Any], Sequence[Any]]
"""From a node to its arguments, or to some of them."""

arguments: Below = attrgetter("args")
"""All parts of a node."""


def parts(node: Any) -> tuple[Any, ...]:
    """Return the arguments of ``node``; () for an `Idx`, which counts as a symbol, and for anything that is not
    SymPy's.
    """
    return () if isinstance(node, Idx) or not isinstance(node, Basic) else node.args


def native_parts(node: Any) -> tuple[Any, ...]:
    """Return the arguments of ``node`` if its class is one of SymPy's own; () for a node of this package, which a
    traversal with this function does not enter.
    """
    return () if hasattr(node, "is_tensor_entry") or not isinstance(node, Basic) else node.args


def nodes_in(exprs: Iterable[Basic], below: Below = arguments) -> list[Any]:
    """Return all nodes of ``exprs``, each once. ``below(node)`` returns the arguments of a node that are visited.

    Nodes are compared by identity: comparing and hashing deep ones is a recursion of its own.
    """
    stack = list(exprs)
    seen = {id(expr): expr for expr in stack}
    while stack:
        for arg in below(stack.pop()):
            if id(arg) not in seen:
                seen[id(arg)] = arg
                stack.append(arg)
    return list(seen.values())


def symbols_in(exprs: Iterable[Basic]) -> set[Any]:
    """Return all symbols in ``exprs``, free or bound."""
    return {node for node in nodes_in(exprs) if isinstance(node, Symbol)}


def free_symbols_in(exprs: Iterable[Basic]) -> set[Any]:
    """Return the free symbols of ``exprs``, computed without recursion, so that expressions may be deeply nested.

    Nodes that bind symbols, or are symbols, give their own ``free_symbols``; the arguments of others are visited.
    """
    seen = nodes_in(exprs, lambda node: node.args if _inherits_free_symbols(node.__class__) else ())
    return set().union(*(node.free_symbols for node in seen if not _inherits_free_symbols(node.__class__)))


@cache
def _inherits_free_symbols(kind: type) -> bool:
    """Return whether the free symbols of every instance of the class ``kind`` are exactly those of its arguments: the
    class is not a symbol and binds none.
    """
    # By the namespaces: a function class has free symbols of its own.
    owner = next(base for base in kind.__mro__ if "free_symbols" in vars(base))
    return owner is Basic or getattr(kind, "has_symbols_of_parts", False)


def names_in(exprs: Iterable[Basic]) -> set[str]:
    """Return the names of all symbols, tensors and functions in ``exprs``, free or bound."""
    names = (node.name for node in nodes_in(exprs) if hasattr(type(node), "name"))
    return {name for name in names if isinstance(name, str)}


def itself(node: Any) -> Any:
    """Return ``node`` unchanged; the default ``key`` of `postorder`."""
    return node


def postorder(
    expr: Any, done: Container[Any], below: Below = parts, key: Callable[[Any], Any] = itself
) -> Iterator[Any]:
    """Yield the nodes of ``expr``, each after its arguments, except those whose ``key(node)`` is in ``done``. The
    caller must add the key of each yielded node to ``done``; ``below(node)`` returns the arguments to visit.

    The caller adds each node to ``done`` before it asks for the next; ``below`` gives the arguments of a node.
    """
    stack = [expr]
    while stack:
        node = stack[-1]
        missing = [arg for arg in below(node) if key(arg) not in done] if key(node) not in done else []
        stack.extend(missing)
        if not missing:
            stack.pop()
            if key(node) not in done:
                yield node


T = TypeVar("T")
Recursion: TypeAlias = Generator["Recursion[Any]", Any, T]
"""A pass over one node: ``result = yield self.visit(child)`` recurses, ``return`` answers."""


def trampoline(first: Recursion[T]) -> T:
    """Run a recursive function without Python's recursion and return its result. ``first`` is a generator that yields a
    generator for each recursive call.

    >>> def depth(n):
    ...     return 0 if n == 0 else 1 + (yield depth(n - 1))
    >>> trampoline(depth(100_000))
    100000
    """
    stack: list[Recursion[Any]] = [first]
    value: Any = None
    while True:
        try:
            call = stack[-1].send(value)
        except StopIteration as stop:
            stack.pop()
            value = stop.value
            if not stack:
                return value  # type: ignore[no-any-return]
        else:
            stack.append(call)
            value = None


def named_in(exprs: Iterable[Any]) -> list[Any]:
    """Return the named tensors (made by `td.name`) in ``exprs`` and in their definitions; a tensor comes after the ones
    that its definition uses.
    """
    order: dict[Any, None] = {}
    named = [node for node in nodes_in(exprs) if getattr(node, "is_named", False)]
    below = {node: [part for part in nodes_in([node.definition]) if getattr(part, "is_named", False)] for node in named}
    for root in reversed(named):
        order.update((node, None) for node in postorder(root, order, below.__getitem__))
    return [*order]


def scans_in(exprs: Iterable[Any]) -> list[Any]:
    """Return the scans (recurrences over time) in ``exprs`` that are not inside of other scans."""
    found = nodes_in(exprs, lambda node: () if getattr(node, "is_scan", False) else node.args)
    return [node for node in found if getattr(node, "is_scan", False)]


def scans_and_names(exprs: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    """Return ``(scans, named tensors)`` of ``exprs``, as `scans_in` and `named_in` do."""
    exprs = [*exprs]
    return scans_in(exprs), named_in(exprs)


BoundIndices: TypeAlias = frozenset[tuple[Any, Any]]
"""Pairs ``(index, new symbol)``: the indices bound around an expression and the symbols that replace them."""

EMPTY: BoundIndices = frozenset()

Rules: TypeAlias = dict[type, Callable[..., Any]]
"""From classes of nodes to the rules of a pass."""


class Rewriting:
    """A traversal that rebuilds an expression by its ``rules``, one method for each class of nodes. A shared node is
    visited once for each set of indices bound around it.

    Subclasses give ``rules`` from a class of nodes to a method, which answers or is a recursion; a node without a rule
    is rebuilt from its arguments.
    """

    rules: ClassVar[Rules] = {}

    def __init__(self) -> None:
        # Nodes are known by identity: comparing and hashing deep ones is a recursion of its own.
        self._done: dict[tuple[int, Any], tuple[Any, Any]] = {}

    def run(self, expr: Any, bound_indices: Any = EMPTY) -> Any:
        """Return ``expr`` rebuilt by the rules of this traversal."""
        return trampoline(self.visit(expr, bound_indices))

    def visit(self, expr: Any, bound_indices: Any) -> Recursion[Any]:
        """Return ``expr`` rebuilt, for use in a recursive rule: ``result = yield self.visit(child, bound_indices)``.
        Results are cached by node and by ``bound_indices``, which describe the indices bound around ``expr``.
        """
        key = (id(expr), bound_indices)
        if key not in self._done:
            if isinstance(expr, (Symbol, Idx)):
                result = self.symbol(expr, bound_indices)
            else:
                rule = next((self.rules[kind] for kind in type(expr).__mro__ if kind in self.rules), type(self).rebuilt)
                result = rule(self, expr, bound_indices)
                result = (yield result) if isinstance(result, Generator) else result
            self._done[key] = expr, result
        return self._done[key][1]

    def all(self, exprs: Iterable[Any], bound_indices: Any) -> Recursion[list[Any]]:
        """Return the list of rebuilt ``exprs``, for use in a recursive rule: ``args = yield self.all(exprs,
        bound_indices)``.
        """
        results = []
        for expr in exprs:
            results.append((yield self.visit(expr, bound_indices)))
        return results

    def symbol(self, expr: Any, bound_indices: Any) -> Any:
        """Return the replacement of a symbol in ``bound_indices``; the symbol itself if it has none."""
        return next((new for old, new in bound_indices if old == expr), expr)

    def rebuilt(self, expr: Any, bound_indices: Any) -> Any:
        """Return ``expr`` with rebuilt arguments; itself if nothing has changed."""
        args = yield self.all(expr.args, bound_indices)
        return with_args(expr, args)


def with_args(expr: Any, args: Sequence[Any]) -> Any:
    """Return ``expr`` with the arguments ``args``; itself if they are the same objects."""
    if all(new is old for new, old in zip(args, expr.args, strict=True)):
        return expr
    # SymPy would rewrite conditions on its own terms, over the reals.
    return expr.func(*args, evaluate=False) if isinstance(expr, Piecewise) else expr.func(*args)


def rebound(bound_indices: BoundIndices, bound: Any, new: Any) -> BoundIndices:
    """Return ``bound_indices``, a set of pairs (bound index, new symbol), updated for the body of a sum or
    comprehension: the index ``bound`` that it binds is rewritten as ``new``. If both are equal, ``bound`` gets no pair.
    """
    rest = frozenset([pair for pair in bound_indices if pair[0] != bound])
    return rest if new == bound else rest | {(bound, new)}
