"""Deep and large expressions: their measures, found bottom-up, and what is refused or answered without recursion.

Each of our nodes remembers its measures: how deep, how large, which order, any symmetric tensor. The native nodes
between it and the next ones of ours are walked with a stack. So the cost is one visit per node of the graph, whatever
the number of paths through it.

What SymPy does by recursion, done bottom-up where nodes of ours are too deep for it, or too much shared.

A recursive method enters a node of ours by the method of that node. So where one is asked that is
deep, all nodes of ours below it are asked before, the lowest first, and what they answer is kept
until the answer of the first is there: each is asked once, and none recurses.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from hashlib import blake2b
from threading import local
from typing import Any, NamedTuple, TypeAlias

from sympy import Add, Basic, Expr, Max, Min, Mul

from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.symbolic.traversal import Below, native_parts, nodes_in, parts, postorder

DEEPEST = 100
LARGEST = 10_000
TALLEST = 140
LONGEST = 100_000
STEEPEST = 400
ENDLESS = 1_000_000
_MOST = 10**12


class Measures(NamedTuple):
    """The depth and the size of an expression as a tree, a digest of its structure, and whether a tensor is symmetric.

    The digest is the same in every process. The size stops counting at a large number.
    """

    depth: int
    size: int
    digest: bytes
    has_symmetric: bool

    @property
    def is_deep(self) -> bool:
        """Whether a walk by recursion is out of the question."""
        return self.depth > DEEPEST or self.size > LARGEST

    @property
    def is_unprintable(self) -> bool:
        """Whether a text would overflow the stack or be too long."""
        return self.depth > TALLEST or self.size > LONGEST

    @property
    def is_unwalkable(self) -> bool:
        """Whether a walk over all paths by recursion would overflow the stack or take too long."""
        return self.depth > STEEPEST or self.size > ENDLESS

    @property
    def described(self) -> str:
        """Depth and size in words."""
        size = f"{self.size:,}" if self.size < _MOST else f"more than {_MOST:,}"
        return f"depth {self.depth:,} with {size} nodes as a tree"


KnownMeasures: TypeAlias = dict[int, tuple[Any, Measures]]
"""The measures of nodes by identity, each with the node, so that no other object gets its identity."""


def measures(expr: Any, known: KnownMeasures | None = None) -> Measures:
    """Return the measures of an expression, adding those of all nodes in it to ``known``.

    Nodes of ours remember theirs. Native nodes cannot, so that a caller who builds an expression step by step passes
    one ``known`` to all calls, and each node is visited once.
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
            min(1 + sum(part.size for part in found), _MOST),
            blake2b(b"\0".join(content), digest_size=16).digest(),
            bool(getattr(node, "symmetric", ())) or any(part.has_symmetric for part in found),
        )
        known[id(node)] = node, measured
        if hasattr(node, "_measures"):
            node._measures = measured
    return known[id(expr)][1]


def _without_measures(node: Any) -> tuple[Any, ...]:
    """The arguments of a node that does not remember its measures."""
    return node.args if getattr(node, "_measures", None) is None else ()


class _Passes(local):
    """The passes that are under way in a thread, with the answers so far."""

    def __init__(self) -> None:
        self.running: dict[Hashable, dict[Any, Any]] = {}


_passes = _Passes()


def answered(node: Any, question: Hashable, answer: Callable[[Any], Any], below: Below = parts) -> Any:
    """``answer(node)``, where ``answer`` puts the same question to the nodes of ours below.

    ``below`` gives the arguments of a node that the question is put to.
    """
    known = _passes.running.get(question)
    if known is None:
        if node.is_symbol or not measures(node).is_deep:
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
    """All nodes, each object once, arguments first."""
    done: dict[int, Any] = {}
    for node in postorder(root, done, below, id):
        done[id(node)] = node
    return list(done.values())


def refuse_walk(node: Any, what: str) -> None:
    """Raise where a walk over all paths by recursion would overflow the stack or never end."""
    found = measures(node)
    if found.is_unwalkable:
        raise UnsupportedError(
            f"{what} of a {type(node).__name__} of {found.described}: that is too much for what visits every path; "
            "td.vjp, td.generate_code and td.lambdify take it as it is, and .body and .args hold its parts"
        )


def not_walked(node: Any, walk: Any) -> tuple[Any, ...]:
    """The arguments that a breadth-first walk, which has collected all nodes in a list, has not come by yet."""
    collected = walk.f_locals["args"]
    if _seen.collected is not collected:
        _seen.collected, _seen.ids, _seen.count = collected, set(), 0
    _seen.ids.update(map(id, collected[_seen.count :]))
    _seen.count = len(collected)
    return tuple(arg for arg in node._args if id(arg) not in _seen.ids)


class _Seen(local):
    """What the latest walk has come by."""

    def __init__(self) -> None:
        self.collected: list[Any] | None = None
        self.ids: set[int] = set()
        self.count = 0


_seen = _Seen()


def atoms(node: Any, types: tuple[Any, ...]) -> set[Any]:
    """As `Basic.atoms`, by one visit to each node."""
    kinds = tuple(kind if isinstance(kind, type) else type(kind) for kind in types)
    return {part for part in nodes_in([node]) if (isinstance(part, kinds) if kinds else not part.args)}


# ---------------------------------------------------------------------------- scalars of bounded depth

WIDE = 50
"""As many operands count as a level more: what stands above a wide node goes through its operands each time."""


class BoundedDepth:
    """Holds scalars of more than ``deepest`` levels by entries; remembers the levels of those it has seen.

    SymPy builds, compares and prints its own nodes by recursion, which overflows from some hundred levels on. What
    ``hold`` makes of a scalar, the entry of a comprehension without axes, is a leaf to SymPy, and is read through by
    everything of this package.
    """

    def __init__(self, deepest: int, hold: Callable[[Any], Any]) -> None:
        self.deepest = deepest
        self.hold = hold
        self.levels: dict[Any, int] = {}
        self.measures: KnownMeasures = {}

    def applied(self, function: Callable[..., Any], arguments: Sequence[Any], is_deep: bool = False) -> Any:
        """Return ``applied(...)``, with the measures of all scalars so far."""
        return applied(function, arguments, is_deep, self.measures)

    def bounded(self, scalar: Any) -> Any:
        """``scalar``, or an entry that is equal to it where it has too many levels."""
        if hasattr(scalar, "_measures") or not isinstance(scalar, Expr) or not scalar.args:
            return scalar
        for node in postorder(scalar, self.levels, native_parts):
            below = max((self.levels[part] for part in native_parts(node)), default=-1)
            self.levels[node] = below + 1 + len(node.args) // WIDE
        if self.levels[scalar] < self.deepest:
            return scalar
        return self.hold(scalar)


def applied(
    function: Callable[..., Any], arguments: Sequence[Any], is_deep: bool = False, known: KnownMeasures | None = None
) -> Any:
    """A function of SymPy's; of deep arguments, through which SymPy's own rules would walk, as it is."""
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


def _operand_order(argument: Any, found: Measures) -> tuple[bool, int, bytes]:
    """The key by which an argument is ordered among others: numbers first, as SymPy looks for them there."""
    return not argument.is_Number, found.size, found.digest


# ---------------------------------------------------------------------------- pickles


def packed(root: Basic) -> list[tuple[Any, tuple[int, ...] | None]]:
    """The nodes in an order of which each names those before it: leaves as they are, others by class and numbers."""
    numbers: dict[int, int] = {}
    result: list[tuple[Any, tuple[int, ...] | None]] = []
    for node in ordered(root):
        numbers[id(node)] = len(result)
        args = parts(node)
        result.append((type(node), tuple(numbers[id(arg)] for arg in args)) if args else (node, None))
    return result


def unpacked(table: list[tuple[Any, tuple[int, ...] | None]]) -> Any:
    """The last node of a packed table."""
    nodes: list[Any] = []
    for head, numbers in table:
        if numbers is None:
            nodes.append(head)
        else:
            nodes.append(getattr(head, "_unchecked", head)(*(nodes[number] for number in numbers)))
    return nodes[-1]
