"""Nodes and the table in which equal ones are the same."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from sympy_tensordiff.graph.functions import TOTAL
from sympy_tensordiff.integer.affine import Affine

Number = int | Fraction | float

_SCOPES = frozenset({"guard", "sum", "comprehension"})


class Node:
    """One node; made by `Graph` only.

    ``free`` are the variables that stand free in it; ``depth`` is greater than that of every
    argument; ``plain`` says that no guard and no binder is below; ``total`` that the value is a
    number wherever its reads are (no division, no logarithm, no overflow of an exponential).
    """

    __slots__ = ("args", "data", "depth", "free", "height", "id", "op", "plain", "total")
    id: int
    op: str
    args: tuple[Node, ...]
    data: Any
    free: frozenset[int]
    depth: int
    height: int
    plain: bool
    total: bool

    def __repr__(self) -> str:
        data = "" if self.data is None else f"{self.data} "
        return f"<{self.id}: {self.op} {data}{' '.join(str(a.id) for a in self.args)}>"


class Table:
    """Interned nodes, the names of variables, and the leaves."""

    def __init__(self) -> None:
        self._table: dict[tuple[Any, ...], Node] = {}
        self.names: list[str] = []
        self.zero = self.const(0)
        self.one = self.const(1)

    # -------------------------------------------------------------- variables

    def fresh(self, name: str) -> int:
        """A new variable; ``name`` is what a reader would like to see."""
        self.names.append(name)
        return len(self.names) - 1

    # -------------------------------------------------------------- interning

    def _node(self, op: str, data: Any, args: tuple[Node, ...], key: Any, own: frozenset[int]) -> Node:
        full = (op, key, tuple(a.id for a in args)) if key is not args else (op, tuple(sorted(a.id for a in args)))
        node = self._table.get(full)
        if node is None:
            node = Node()
            node.id, node.op, node.data, node.args = len(self._table), op, data, args
            node.free = own.union(*(a.free for a in args))
            node.depth = 1 + max((a.depth for a in args), default=0)
            node.height = max((a.height for a in args), default=0)
            node.total = _is_total(op, data, args) and all(a.total for a in args)
            node.plain = op not in _SCOPES and all(a.plain for a in args)
            self._table[full] = node
        return node

    def _plain(self, op: str, data: Any, args: tuple[Node, ...]) -> Node:
        return self._node(op, data, args, data, frozenset())

    # -------------------------------------------------------------- leaves

    def const(self, value: Number) -> Node:
        if isinstance(value, Fraction) and value.denominator == 1:
            value = value.numerator
        # 0.5 and Fraction(1, 2) are equal keys but print differently.
        return self._node("const", value, (), (type(value).__name__, value), frozenset())

    def scalar(self, symbol: Any) -> Node:
        return self._plain("scalar", symbol, ())

    def index(self, form: Affine) -> Node:
        if form.is_constant:
            return self.const(form.constant)
        return self._node("index", form, (), form, form.atoms())

    def tensor(self, name: str, shape: tuple[Affine, ...]) -> Node:
        return self._node("tensor", (name, shape), (), (name, shape), frozenset())

    def read(self, tensor: Node, index: Sequence[Affine]) -> Node:
        own = frozenset().union(*(form.atoms() for form in index))
        return self._node("read", tuple(index), (tensor,), tuple(index), own)


def _is_total(op: str, data: Any, args: tuple[Node, ...]) -> bool:
    if op == "pow":
        exponent = args[1].data
        return args[1].op == "const" and isinstance(exponent, int) and exponent >= 0
    if op == "const":
        return bool(data == data)  # not for nan
    return op != "call" or data in TOTAL


def reachable(*roots: Node, keys: frozenset[int] | None = None) -> list[Node]:
    """The nodes below and including ``roots``, arguments first; only those with ``keys`` free, if given."""
    seen = set(roots)
    stack = list(roots)
    while stack:
        for arg in stack.pop().args:
            if arg not in seen and (keys is None or keys & arg.free):
                seen.add(arg)
                stack.append(arg)
    return sorted(seen, key=lambda n: n.id)
