"""Deep and large expressions: cached size measures, and bottom-up replacements for what SymPy does by recursion.

Each node of this package caches its measures: depth, size, digest, and whether a tensor in it is symmetric. The native
nodes in between are walked with a stack. So the cost is one visit per node of the graph, whatever the number of paths
through it.

A recursive SymPy method enters a node of this package by that node's own method. So when such a method is called on a
deep node, it is first called on all nodes below, the lowest first, and their answers are cached until the first call
returns: each node is asked once, and nothing recurses.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from hashlib import blake2b
from threading import local
from typing import Any, NamedTuple, TypeAlias

from sympy import Add, Basic, Expr, Max, Min, Mul

from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.symbolic.expressions.traversal import Below, native_parts, nodes_in, parts, postorder

MAX_RECURSIVE_DEPTH = 100
MAX_RECURSIVE_SIZE = 10_000
MAX_REPEATED_SIZE = 300
"""The size up to which `answered` visits shared parts once per path: a step of Runge and Kutta's method, 13,000 nodes
as a tree, is renamed in 0.1 s of CPU by 300, in 0.3 s by 10,000.
"""
MAX_PRINTED_DEPTH = 140
MAX_PRINTED_SIZE = 100_000
MAX_WALKED_DEPTH = 400
MAX_WALKED_SIZE = 1_000_000
_MAX_COUNTED_SIZE = 10**12


class Measures(NamedTuple):
    """Measures of an expression: its nesting depth, its size if every use of a shared part is counted, a digest (hash)
    of its structure, and whether it contains a symmetric tensor.

    The digest is the same in every process. The size stops counting at a large number.
    """

    depth: int
    size: int
    digest: bytes
    has_symmetric: bool

    @property
    def is_deep(self) -> bool:
        """Return whether the expression is nested so deeply, or is so large, that recursive functions must be
        avoided.
        """
        return self.depth > MAX_RECURSIVE_DEPTH or self.size > MAX_RECURSIVE_SIZE

    @property
    def is_unprintable(self) -> bool:
        """Return whether the expression is too deep or too large to be printed."""
        return self.depth > MAX_PRINTED_DEPTH or self.size > MAX_PRINTED_SIZE

    @property
    def is_unwalkable(self) -> bool:
        """Return whether the expression is too deep, or too large with all repetitions of shared parts, for SymPy's
        recursive traversals.
        """
        return self.depth > MAX_WALKED_DEPTH or self.size > MAX_WALKED_SIZE

    @property
    def described(self) -> str:
        """Return the depth and size of the expression in words, for messages."""
        size = f"{self.size:,}" if self.size < _MAX_COUNTED_SIZE else f"more than {_MAX_COUNTED_SIZE:,}"
        return f"depth {self.depth:,} with {size} nodes as a tree"


KnownMeasures: TypeAlias = dict[int, tuple[Any, Measures]]
"""The measures of nodes by identity, each with the node, so that no other object gets its identity."""


def measures(expr: Any, known: KnownMeasures | None = None) -> Measures:
    """Return the `Measures` (depth, size, digest, symmetry) of ``expr``. The measures of its parts are computed and
    stored, too: in the nodes of this package, and in ``known`` for SymPy's nodes.

    Nodes of ours remember theirs. Native nodes cannot, so a caller who builds an expression step by step passes one
    ``known`` to all calls, and each node is visited once.
    """
    remembered: Measures | None = getattr(expr, "_measures", None)
    if remembered is not None:
        return remembered
    known = {} if known is None else known
    for node in postorder(expr, known, _without_measures, id):
        if getattr(node, "_measures", None) is not None:
            known[id(node)] = node, node._measures
            continue
        found = [known[id(arg)][1] for arg in node.args]
        content = [type(node).__name__.encode(), *(part.digest for part in found)]
        if not found:
            content.append(repr(node._hashable_content()).encode())
        measured = Measures(
            1 + max((part.depth for part in found), default=0),
            min(1 + sum(part.size for part in found), _MAX_COUNTED_SIZE),
            blake2b(b"\0".join(content), digest_size=16).digest(),
            bool(getattr(node, "symmetric", ())) or any(part.has_symmetric for part in found),
        )
        known[id(node)] = node, measured
        if hasattr(node, "_measures"):
            node._measures = measured
    return known[id(expr)][1]


def _without_measures(node: Any) -> tuple[Any, ...]:
    """Return all arguments of ``node`` for a walk that computes `Measures`; () if the node has stored its measures
    already.
    """
    return node.args if getattr(node, "_measures", None) is None else ()


class _RunningMethods(local):
    """The results of the recursive methods that `answered` is running, stored separately for each thread: ``running``
    maps the key of each method to a dictionary from nodes to results.
    """

    def __init__(self) -> None:
        self.running: dict[Hashable, dict[Any, Any]] = {}


_passes = _RunningMethods()


def answered(node: Any, question: Hashable, answer: Callable[[Any], Any], below: Below = parts) -> Any:
    """Return ``answer(node)`` for a recursive method ``answer``. If the node is deep or large, compute the results for
    all nodes inside first, from the leaves up, so that no recursion is deep. ``question`` is the key under which they
    are stored; ``below(node)`` returns the arguments to enter.
    """
    known = _passes.running.get(question)
    if known is None:
        if node.is_symbol or not (measures(node).is_deep or measures(node).size > MAX_REPEATED_SIZE):
            return answer(node)
        known = _passes.running[question] = {}
        try:
            for part in ordered(node, below):
                if hasattr(part, "_measures"):
                    known[part] = answer(part)
        finally:
            del _passes.running[question]
    elif node not in known:
        known[node] = answer(node)
    return known[node]


def ordered(root: Basic, below: Below = parts) -> list[Any]:
    """Return all nodes of ``root``, each object once, arguments before their node. ``below(node)`` returns the
    arguments to enter.
    """
    done: dict[int, Any] = {}
    for node in postorder(root, done, below, id):
        done[id(node)] = node
    return list(done.values())


def refuse_walk(node: Any, operation: str) -> None:
    """Raise `UnsupportedError` if ``node`` is too deep or too large for ``operation``, which visits every use of a
    shared part.
    """
    found = measures(node)
    if found.is_unwalkable:
        raise UnsupportedError(
            f"{operation} of a {type(node).__name__} of {found.described}: that is too much for what visits every "
            "path; td.vjp, td.generate_code and td.lambdify take it as it is, and .body and .args hold its parts"
        )


def not_walked(node: Any, collected: list[Any]) -> tuple[Any, ...]:
    """Return the arguments of ``node`` that SymPy's breadth-first walk has not yet ``collected``; the walk then visits
    shared nodes once.
    """
    if _seen.collected is not collected:
        _seen.collected, _seen.ids, _seen.count = collected, set(), 0
    _seen.ids.update(map(id, collected[_seen.count :]))
    _seen.count = len(collected)
    return tuple(arg for arg in node._args if id(arg) not in _seen.ids)


class _VisitedNodes(local):
    """Thread-local storage of `not_walked`: the ids of the nodes that SymPy's latest breadth-first walk has visited."""

    def __init__(self) -> None:
        self.collected: list[Any] | None = None
        self.ids: set[int] = set()
        self.count = 0


_seen = _VisitedNodes()


def atoms(node: Any, types: tuple[Any, ...]) -> set[Any]:
    """Return the nodes of the classes ``types`` in ``node``, as `Basic.atoms` does; each shared part is visited only
    once.
    """
    kinds = tuple(kind if isinstance(kind, type) else type(kind) for kind in types)
    return {part for part in nodes_in([node]) if (isinstance(part, kinds) if kinds else not part.args)}


# ---------------------------------------------------------------------------- scalars of bounded depth

OPERANDS_PER_LEVEL = 50
"""As many operands count as a level more: each ancestor of a wide node goes through its operands."""


class BoundedDepth:
    """Limits how deeply SymPy's scalar expressions are nested, because SymPy would overflow the stack. A scalar with
    ``deepest`` or more levels is wrapped by the function ``hold`` in a tensor entry, which is a leaf for SymPy.

    SymPy builds, compares and prints its own nodes by recursion, which overflows from some hundred levels on. A wrapped
    scalar, the entry of a comprehension without axes, is a leaf for SymPy, and this package reads through it.
    """

    def __init__(self, deepest: int, hold: Callable[[Any], Any]) -> None:
        self.deepest = deepest
        self.hold = hold
        self.levels: dict[Any, int] = {}
        self.measures: KnownMeasures = {}

    def build(self, function: Callable[..., Any], arguments: Sequence[Any], is_deep: bool = False) -> Any:
        """Return ``function(*arguments)``, where ``function`` is a SymPy function or class. It is not evaluated if an
        argument is deeply nested, or if ``is_deep``, because SymPy's evaluation would overflow the stack.
        """
        return build_unrecursively(function, arguments, is_deep, self.measures)

    def bounded(self, scalar: Any) -> Any:
        """Return ``scalar`` if it is nested less than ``deepest`` levels. Otherwise return a tensor entry that replaces
        it, so that SymPy's recursive functions do not exceed the recursion limit.
        """
        if hasattr(scalar, "_measures") or not isinstance(scalar, Expr) or not scalar.args:
            return scalar
        for node in postorder(scalar, self.levels, native_parts):
            below = max((self.levels[part] for part in native_parts(node)), default=-1)
            self.levels[node] = below + 1 + len(node.args) // OPERANDS_PER_LEVEL
        if self.levels[scalar] < self.deepest:
            return scalar
        return self.hold(scalar)


def build_unrecursively(
    function: Callable[..., Any], arguments: Sequence[Any], is_deep: bool = False, known: KnownMeasures | None = None
) -> Any:
    """Return ``function(*arguments)`` for a SymPy function or class, unevaluated if an argument is deep (or ``is_deep``
    says so), because SymPy's evaluation would recurse. ``known`` caches measured depths.
    """
    known = {} if known is None else known
    if not is_deep and not any(measures(argument, known).is_deep for argument in arguments):
        return function(*arguments)
    if function in (Add, Mul, Max, Min):
        # SymPy counts or compares the nodes of the arguments to order them, by recursion.
        arguments = sorted(arguments, key=lambda argument: _operand_order(argument, measures(argument, known)))
    if function not in (Max, Min):
        return function(*arguments, evaluate=False)
    result = Expr.__new__(function, *arguments)
    result._argset = frozenset(arguments)
    return result


def _operand_order(argument: Any, measured: Measures) -> tuple[bool, int, bytes]:
    """Return the sort key of ``argument`` among the operands of a node, from its `Measures`: numbers first, where SymPy
    expects them, then by size and digest.
    """
    return not argument.is_Number, measured.size, measured.digest


# ---------------------------------------------------------------------------- pickles


def packed(root: Basic) -> list[tuple[Any, tuple[int, ...] | None]]:
    """Return the nodes of ``root`` as a flat list for pickling. An item is ``(leaf, None)``, or ``(class, positions of
    its arguments in the list)``.
    """
    numbers: dict[int, int] = {}
    result: list[tuple[Any, tuple[int, ...] | None]] = []
    for node in ordered(root):
        numbers[id(node)] = len(result)
        args = parts(node)
        result.append((type(node), tuple(numbers[id(arg)] for arg in args)) if args else (node, None))
    return result


def unpacked(table: list[tuple[Any, tuple[int, ...] | None]]) -> Any:
    """Return the expression that `packed` converted to the list ``table``."""
    nodes: list[Any] = []
    for head, numbers in table:
        if numbers is None:
            nodes.append(head)
        else:
            nodes.append(getattr(head, "_unchecked", head)(*(nodes[number] for number in numbers)))
    return nodes[-1]
