"""Nodes, and the hash-consing table in which equal nodes are the same object."""

from __future__ import annotations

import gc
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from itertools import chain
from math import inf
from typing import Any, TypeVar

import sympy

from sympy_tensordiff.functions.table import record_of
from sympy_tensordiff.integer.affine import Affine, Constraint
from sympy_tensordiff.integer.extrema import positive_parts_in
from sympy_tensordiff.integer.indirect import IndirectIndex, data_entries
from sympy_tensordiff.integer.products import quotients_in
from sympy_tensordiff.integer.rows import atoms_in, linear, shape_rows
from sympy_tensordiff.symbolic.expressions.traversal import Recursion as Recursion
from sympy_tensordiff.symbolic.expressions.traversal import trampoline as trampoline

T = TypeVar("T")
Number = int | Fraction | float
Shape = tuple[Affine, ...]

REDUCTIONS = {"prod": "IndexedProduct", "max": "IndexedMax", "min": "IndexedMin"}
"""Binders that are not linear in their bodies, with the names of the classes that users write."""
RANGED = frozenset({"sum", *REDUCTIONS})
"""Binders over the points of rows."""
BINDERS = RANGED | {"comprehension"}
_SCOPES = BINDERS | {"guard"}
_WHOLE = frozenset({"ein", "inv", "cof", "lse", "scan"})
"""Kinds of nodes with whole tensors as arguments, whatever their own rank."""
_TENSORS = frozenset({"tensor", "comprehension"})
_TRUTHS = frozenset({"compare", "and", "or", "not"})
"""Conditions on values, which are true or false even if a compared value is undefined."""
EXTREMA = frozenset({sympy.Max, sympy.Min})
"""Functions that are symmetric in their arguments."""
NOTHING: frozenset[int] = frozenset()
"""The free variables of a closed node."""


class Node:
    """One node of a graph, compared by identity; made by `Graph` only.

    ``shape`` are the extents of a tensor, ``()`` of a scalar; ``free`` are its free variables; ``depth`` is greater
    than that of every argument; ``is_guard_free`` says that it contains no guard, no binder, no comparison of indices
    and no index with a maximum or quotient, which known constraints may decide; ``total`` that the value is a finite
    number wherever its reads are (no division, no logarithm, no overflow of an exponential, except in conditions);
    ``view`` that it only moves entries (`graph.contractions`); ``has_tensor_ops`` that it or a node below is an
    operation on whole tensors.
    """

    __slots__ = (
        "args",
        "data",
        "depth",
        "free",
        "has_tensor_ops",
        "height",
        "id",
        "is_guard_free",
        "op",
        "shape",
        "total",
        "view",
    )
    id: int
    op: str
    args: tuple[Node, ...]
    data: Any
    free: frozenset[int]
    depth: int
    height: int
    is_guard_free: bool
    shape: Shape
    total: bool
    view: bool
    has_tensor_ops: bool

    def __repr__(self) -> str:
        data = "" if self.data is None else f"{self.data} "
        return f"<{self.id}: {self.op} {data}{' '.join(str(a.id) for a in self.args)}>"


class NodeTable:
    """The table of nodes and variable names, with the constructors of leaves. Equal nodes are one object
    (hash-consing).

    ``kinds`` are the `op` of all nodes made so far, and "whole" if there is an operation on whole tensors, "entry" if a
    tensor that is not a variable is read, "number" if there is a number besides 0 and 1, "left out" if one is ``-oo``.
    """

    def __init__(self) -> None:
        self._table: dict[tuple[Any, ...], Node] = {}
        self.names: list[str] = []
        self.integers: dict[str, Node] = {}
        self.below: dict[str, Affine] = {}
        self.symmetric: dict[Node, bool] = {}
        self.asymmetric: set[Node] = set()
        self.exchange_signs: dict[tuple[Node, int, int], int] = {}
        self.positive: set[Node] = set()
        self.signs: dict[Node, Any] = {}
        self.assumptions: dict[Constraint, None] = {}
        self.kinds: set[str] = set()
        self.zero = self.const(0)
        self.one = self.const(1)

    # -------------------------------------------------------------- variables

    def fresh(self, name: str) -> int:
        """Return a new variable; ``name`` is the preferred name for printing."""
        self.names.append(name)
        return len(self.names) - 1

    # -------------------------------------------------------------- interning

    def _node(
        self,
        op: str,
        data: Any,
        args: tuple[Node, ...],
        key: Any,
        own: Sequence[Affine | Constraint] = (),
        shape: Shape = (),
    ) -> Node:
        """Return the node of the operation ``op`` with the parameters ``data``, the arguments ``args`` and ``shape``:
        the existing one if the graph has it, else a new one.

        ``key`` stands for ``data`` in the table of nodes. ``own`` are the index forms or constraints of the node
        itself.

        The free variables of the node are those of ``own`` and of the arguments.
        """
        # Nodes hash and compare by identity; arguments whose order does not matter are sorted.
        in_any_order = key is args or (op == "call" and data in EXTREMA)
        full = (op, data, tuple(sorted(args, key=_id_of))) if in_any_order else (op, key, args)
        found = self._table.get(full)
        if found is not None:
            return found
        node = self._table[full] = Node()
        node.id, node.op, node.data, node.args, node.shape = len(self._table) - 1, op, data, args, shape
        free, depth, height = atoms_in(own) if own else NOTHING, 0, 0
        plain = op not in _SCOPES and (
            op not in ("read", "index") or linear(own) or not _has_quotient_or_positive_part(own)
        )
        plain = plain and not (op == "compare" and any(a.op == "index" for a in args))
        total, whole = is_total(op, data, args), _takes_tensors(op, shape)
        for a in args:
            if a.free:
                free = free | a.free
            if a.depth > depth:
                depth = a.depth
            if a.height > height:
                height = a.height
            plain, total, whole = (
                plain and a.is_guard_free,
                total and (a.total or a.op in _TRUTHS),
                whole or a.has_tensor_ops,
            )
        node.free, node.depth, node.height = free, depth + 1, height
        node.is_guard_free, node.total, node.has_tensor_ops = plain, total, whole
        self._note_kinds(node)
        node.view = op == "ein" and len(args) < 2 and data.is_view
        return node

    def _note_kinds(self, node: Node) -> None:
        """Add the kinds of `node` to ``self.kinds``: its op, and properties such as "number" or "whole". A pass skips a
        graph without nodes of the kinds that it rewrites.
        """
        self.kinds.add(node.op)
        if node.has_tensor_ops:
            self.kinds.add("whole")
        if node.op == "const" and node.data not in (0, 1):
            self.kinds.add("left out" if node.data == -inf else "number")
        if node.op == "read" and node.args[0].op != "tensor":
            self.kinds.add("entry")

    def _plain(self, op: str, data: Any, args: tuple[Node, ...]) -> Node:
        """Return the node of the operation ``op`` with the parameters ``data`` and the arguments ``args``, for an
        operation without index forms. Its shape is that of the first argument that is not a scalar.
        """
        shape = next((a.shape for a in args if a.shape), ())
        return self._node(op, data, args, data, (), shape)

    # -------------------------------------------------------------- leaves

    def const(self, value: Number) -> Node:
        """Return the node of a number."""
        if isinstance(value, Fraction) and value.denominator == 1:
            value = value.numerator
        # 0.5 and Fraction(1, 2) are equal keys but print differently.
        return self._node("const", value, (), (type(value).__name__, value))

    def scalar(self, symbol: Any) -> Node:
        """Return the node of a real symbol or constant."""
        return self._plain("scalar", symbol, ())

    def index(self, form: Affine) -> Node:
        """Return the node of an affine index form, such as ``2*i + 1``, used as a number; a constant form becomes a
        number.
        """
        if form.is_constant:
            return self.const(form.constant)
        return self._node("index", form, (), form, (form,))

    def tensor(self, name: str, shape: tuple[Affine, ...], *, is_integer: bool = False) -> Node:
        """Return the node of a tensor variable. One with ``is_integer`` may be used inside of indices, as ``p`` in
        ``x[p[i]]``.
        """
        node = self._node("tensor", (name, shape), (), (name, shape, is_integer), (), shape)
        if is_integer:
            self.integers[name] = node
        return node

    def read(self, tensor: Node, index: Sequence[Affine]) -> Node:
        """Return the node of the entry ``tensor[index]``. For an integer tensor it is an index node; for a computed
        scalar, which has no index, the scalar itself.
        """
        if not index and tensor.op != "tensor":
            return tensor
        if tensor.op == "tensor" and self.integers.get(tensor.data[0]) is tensor:
            name = tensor.data[0]
            return self.index(Affine.variable(IndirectIndex(name, tuple(index), self.below.get(name))))
        if tensor.op == "tensor" and self.symmetric.get(tensor):
            index = sorted(index, key=form_key)
        index = tuple(index)
        return self._node("read", index, (tensor,), index, index)

    def inside_data(self, forms: Iterable[Affine]) -> tuple[Constraint, ...]:
        """Return the constraints that keep all reads of integer tensors in `forms` in bounds, such as ``0 <= i <= n -
        1`` for ``p[i]`` with n entries; () without such reads.
        """
        if not self.integers:
            return ()
        parts = [shape_rows(entry.index, self.integers[entry.tensor].shape) for entry in data_entries(forms)]
        return tuple(chain.from_iterable(parts))


def takes_tensors(node: Node) -> bool:
    """Return whether `node` is an operation on whole tensors, and neither a scalar operation nor a variable or
    comprehension.
    """
    return _takes_tensors(node.op, node.shape)


def _takes_tensors(op: str, shape: Shape) -> bool:
    """Return whether a node with this `op` and shape is an operation on whole tensors, and not a scalar operation or a
    tensor variable.
    """
    return op in _WHOLE or (bool(shape) and op not in _TENSORS)


def _has_quotient_or_positive_part(forms: Sequence[Any]) -> bool:
    """Return whether one of ``forms`` contains a floor quotient or ``max(0, form)``; known constraints may simplify
    these.
    """
    return any(quotients_in(form) or positive_parts_in((form,)) for form in forms)


def form_key(form: Affine) -> tuple[Any, ...]:
    """Return a sort key for affine forms."""
    return form.terms, form.constant


def _id_of(node: Node) -> int:
    """Return the id of a node, a sort key."""
    return node.id


def is_total(op: str, data: Any, args: tuple[Node, ...]) -> bool:
    """Return whether the operation ``op`` with ``data`` has a finite value for all finite ``args``: true of a sum,
    false of ``1/x``.
    """
    if op == "pow":
        exponent = args[1].data
        return args[1].op == "const" and isinstance(exponent, int) and exponent >= 0
    if op == "const":
        return bool(data == data)  # not for nan
    if op in ("max", "min"):
        return False  # infinite over an empty range
    return op != "call" or record_of(data).is_finite


def reachable(*roots: Node, keys: frozenset[int] | None = None, known: Container[Node] = ()) -> list[Node]:
    """Return ``roots`` and all nodes below them, each after its arguments. The search stops at nodes in ``known``,
    which are left out; with ``keys``, it also leaves out arguments in which none of these variables is free.
    """
    seen = {root for root in roots if root not in known}
    stack = list(seen)
    while stack:
        for arg in stack.pop().args:
            if arg not in seen and arg not in known and (keys is None or keys & arg.free):
                seen.add(arg)
                stack.append(arg)
    return sorted(seen, key=lambda n: n.id)


def breadth_first(root: Node, below: Callable[[Node], Sequence[Node]]) -> Iterator[Node]:
    """Yield ``root`` and the nodes found from it by the function ``below``, which returns the nodes to visit next; each
    once, the nearest first.
    """
    found = {root}
    waiting = [root]
    for node in waiting:
        yield node
        new = dict.fromkeys(arg for arg in below(node) if arg not in found)
        found.update(new)
        waiting += new


def outside_of_binders(node: Node) -> Sequence[Node]:
    """Return the arguments of `node`, but () for a sum or other binder, so that `breadth_first` does not enter it."""
    return () if node.op in BINDERS else node.args


def in_turn(calls: Iterable[Recursion[T]]) -> Recursion[list[T]]:
    """Run recursive `calls` one after the other and return the list of their results, in a function that `trampoline`
    runs: ``results = yield from in_turn(self.visit(arg) for arg in args)``.
    """
    results = []
    for call in calls:
        results.append((yield call))
    return results


@contextmanager
def no_collection() -> Iterator[None]:
    """Switch off Python's garbage collector, as a context manager or decorator. This makes it faster to create many
    nodes.

    Nodes are many, live long and are in no cycles: the collector would visit all of them again and again, for a third
    of the time of a large sweep. Its former state is restored in any case.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
