"""The order of the simplification passes: before differentiation, and over derivatives.

Each pass looks for nodes of some kinds. A graph knows the kinds of its nodes (`Table.kinds`), and a pass whose kinds do
not occur is skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from sympy_tensordiff.graph.nodes import Graph, Node, reachable
from sympy_tensordiff.graph.read import Reader
from sympy_tensordiff.integer.rows import Rows
from sympy_tensordiff.simplify.accesses import check_reads
from sympy_tensordiff.simplify.algebra import simplify
from sympy_tensordiff.simplify.arccosines import with_finite_quotients
from sympy_tensordiff.simplify.bounds import tighten
from sympy_tensordiff.simplify.canonical_signs import with_canonical_signs, without_minus
from sympy_tensordiff.simplify.einsums import as_einsums, without_sparse_operands
from sympy_tensordiff.simplify.facts import input_facts, positive_sizes, read_with_ranges, require_positive_divisors
from sympy_tensordiff.simplify.logistic import for_readers, without_overflow
from sympy_tensordiff.simplify.quotients import with_short_quotients
from sympy_tensordiff.simplify.reads import explicit_reads, with_forward_reads
from sympy_tensordiff.simplify.recognition import recognise
from sympy_tensordiff.simplify.sums_over_equal_ranges import merged_sums
from sympy_tensordiff.simplify.symmetry import with_symmetric_reads
from sympy_tensordiff.simplify.tables import inline_single_reads, with_cancelled_entries

Pass = Callable[[Graph, Sequence[Node]], list[Node]]
Passes = tuple[tuple[Pass, frozenset[str]], ...]
"""Passes in their order, each with the kinds of nodes without which it changes nothing."""

ROUNDS = 4
"""The maximal number of rounds in which guards are put around reads, and then into their final form."""

WHOLE, CALLS, SIGNS = frozenset({"whole"}), frozenset({"call"}), frozenset({"add", "number"})

INPUT: Passes = (
    (partial(inline_single_reads, is_input=True), frozenset({"entry"})),
    (recognise, WHOLE),
    (partial(without_overflow, numbers=False), CALLS),
    (recognise, WHOLE),
    (with_finite_quotients, CALLS),
)

DERIVATIVES: Passes = (
    (without_sparse_operands, frozenset({"ein"})),
    (inline_single_reads, frozenset({"entry"})),
    (for_readers, CALLS),
    (with_short_quotients, frozenset({"pow"})),
    (simplify, WHOLE),
    (with_finite_quotients, CALLS),
)


FINAL: Passes = (
    (with_symmetric_reads, frozenset({"ein", "inv"})),
    (with_forward_reads, frozenset({"sum"})),
    (with_short_quotients, frozenset({"pow"})),
    (with_canonical_signs, SIGNS),
)


def _run(passes: Passes, graph: Graph, nodes: Sequence[Node]) -> list[Node]:
    """Return `nodes` after all `passes`, in order. A pass is skipped if the graph has no node with an operation that
    the pass rewrites.
    """
    for step, kinds in passes:
        if not kinds.isdisjoint(graph.kinds):
            nodes = step(graph, nodes)
    return list(nodes)


def read_function(reader: Reader, exprs: Iterable[Any]) -> tuple[list[Node], list[Node]]:
    """Convert the SymPy expressions `exprs` to nodes. Return ``(nodes as written, simplified nodes)``; the latter are
    to be differentiated.
    """
    exprs = tuple(exprs)
    given = [reader.read(expr) for expr in exprs]
    if reader.graph.integers:
        given = read_with_ranges(reader, exprs)
    return given, _run(INPUT, reader.graph, given)


def checked_facts(reader: Reader, given: Sequence[Node], known: Sequence[Node]) -> Rows:
    """Check `given`, the nodes of the user's expressions: raise an error if a read is out of bounds for all sizes or an
    index divisor may be negative. Return the constraints on sizes that the nodes `known` imply.

    Raises `OutOfShapeError` if a read in `given` always leaves its shape, `UnsupportedError` for a divisor that may be
    negative.
    """
    if reader.divisors:
        require_positive_divisors(reader.graph, reader.divisors, [*given, *known])
    positive = positive_sizes(reader.graph, [*given, *known, *reader.leaves()])
    check_reads(reader, given, positive)
    return input_facts(reader.graph, known, positive)


def simplify_derivatives(
    graph: Graph, nodes: Sequence[Node], facts: Rows, sizes: frozenset[int], function: Sequence[Node]
) -> list[Node]:
    """Return `nodes`, the derivatives of `function`, in a simple form for readers: without Kronecker deltas under sums,
    with tight index ranges, and with guards only around reads that may be out of bounds. `facts` are known constraints,
    `sizes` the variables that are sizes.

    `facts` are the constraints on sizes and free indices; the variables in `sizes` are never bound. `function` is the
    differentiated expression, with other inputs such as cotangents.
    """
    written = frozenset(reachable(*function))
    nodes = _run(DERIVATIVES, graph, nodes)
    nodes = tighten(graph, nodes, facts, sizes, written)
    for _ in range(ROUNDS):
        explicit = explicit_reads(graph, nodes, facts, function)
        if explicit == nodes:
            break
        nodes = tighten(graph, explicit, facts, sizes, written)
    nodes = _run(((with_cancelled_entries, frozenset({"entry"})), *FINAL), graph, nodes)
    for _ in range(ROUNDS):  # with (x - y)*(y - x) as -(x - y)**2, another quotient is the shortest
        shorter = _run(((with_short_quotients, frozenset({"pow"})),), graph, nodes)
        if shorter == nodes:
            break
        nodes = shorter
    if "add" in graph.kinds:
        merged = merged_sums(graph, nodes, sizes, selected=bool(graph.integers))
        if graph.integers and explicit_reads(graph, merged, facts, function) != merged:
            merged = merged_sums(graph, nodes, sizes)
        if merged != nodes and not graph.integers:  # what is left of terms may not depend on the indices of their sum
            merged = tighten(graph, merged, facts, sizes, written)
        if merged != nodes:  # the terms left of common factors may be fractions of one denominator
            merged = _run(((with_short_quotients, frozenset({"pow"})),), graph, merged)
        nodes = _run(((with_canonical_signs, SIGNS),), graph, merged)
    if is_whole(function[0]):
        # Without the deltas and guards of the sweep, more of it is an einsum.
        found = as_einsums(graph, nodes, written)
        nodes = nodes if found == nodes else simplify(graph, found)
    return _run(((without_minus, frozenset({"number", "ein"})),), graph, nodes)


def is_whole(root: Node) -> bool:
    """Return whether `root` contains operations on whole tensors, such as ``A @ x``, or is itself a tensor. Otherwise
    it is in index notation.
    """
    return root.has_tensor_ops or bool(root.op == "tensor" and root.shape)
