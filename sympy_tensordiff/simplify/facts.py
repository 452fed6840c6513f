"""Assumptions of an expression: positive extents and divisors, reads in bounds, ranges of integer tensors.

Only reads that happen unconditionally count: those behind guards and conditions on values do not,
and those inside a sum only where the sum is provably not empty.

What an index is divided by, ``D`` in ``floor(i/D)`` and ``Mod(i, D)``, has to be positive. A size that is not an extent
is positive if its symbol is declared so. A divisor that can be 0 and not negative, as ``2*n - 2`` for an extent ``n``,
leaves no value where it is 0: there is nothing to differentiate, and the sizes are assumed to make it positive. If
conditions or ranges already ensure that, nothing is assumed.

The range of an integer tensor is the declared one, or that of the axis that all of its entries index.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.graph.nodes import BINDERS, RANGED, Graph, Node, Substitution, ranges, reachable
from sympy_tensordiff.graph.read import Reader
from sympy_tensordiff.integer.affine import Affine, Constraint
from sympy_tensordiff.integer.extrema import positive_parts_in, split_clamps
from sympy_tensordiff.integer.floor_elimination import symbolic_divisors
from sympy_tensordiff.integer.implication import is_empty, is_implied
from sympy_tensordiff.integer.indirect import IndirectIndex, data_entries
from sympy_tensordiff.integer.products import factors_of_products
from sympy_tensordiff.integer.rows import Rows, atoms_in, linear, normalise_rows, partition, positive_rows
from sympy_tensordiff.integer.values import at_least_slack, has_point
from sympy_tensordiff.simplify.node_properties import inside_shape


def extents_of(nodes: Sequence[Node]) -> list[Affine]:
    """Return the distinct extents of all tensors and comprehensions below `nodes`."""
    found: dict[Affine, None] = {}
    for node in reachable(*nodes):
        found.update(dict.fromkeys(node.shape))
    return list(found)


def size_variables(nodes: Sequence[Node]) -> frozenset[int]:
    """Return the free variables in the extents of all tensors below `nodes`, such as ``n`` of ``x: (n,)``; these are
    never bound.
    """
    return frozenset(v for v in atoms_in(extents_of(nodes)) if v >= 0)


def input_facts(graph: Graph, roots: Sequence[Node], positive: Rows | None = None) -> Rows:
    """Return the constraints on sizes and free indices that the expressions `roots` imply: extents are positive, reads
    in bounds.

    Declared constraints hold; every extent, and each factor of one, is at least 1 (`positive`, if known already); every
    unconditional read lies inside its shape, at the extreme points of the ranges around it. If these contradict each
    other, only those of the sizes are returned: reads that can never be inside have to stay, so that the call can
    refuse them.
    """
    positive = positive_sizes(graph, roots) if positive is None else positive
    if not positive and not any(root.free for root in roots):
        return ()
    rows = dict.fromkeys(positive)
    seen: Seen = set()
    for root in roots:
        for row in unconditional_reads(graph, root, tuple(rows), seen):
            # A constraint with a maximum would split every proof into two cases.
            if linear((row,)) or not positive_parts_in((row.form,)):
                rows[row] = None
    return positive if is_empty(tuple(rows), ()) else tuple(rows)


def positive_sizes(graph: Graph, roots: Sequence[Node]) -> Rows:
    """Return the constraints ``n >= 1`` for each extent below `roots`, and for each factor of a product such as
    ``m*n``, together with the constraints that the user declared.
    """
    extents = extents_of([*roots, *graph.integers.values()])
    sizes = extents if linear(extents) else [*extents, *map(Affine.variable, factors_of_products(extents))]
    # One that is a number says nothing: it may be 0 in a program for calls with empty arrays.
    return normalise_rows((*graph.assumptions, *positive_rows([size for size in sizes if size.terms]))) or ()


Seen = set[tuple[Node, Rows]]
"""Nodes with the ranges around them that have been looked into."""


def unconditional_reads(graph: Graph, root: Node, known: Rows, seen: Seen | None = None) -> Rows:
    """Return the constraints on sizes and free indices that the unconditional reads below `root` need to be in bounds.
    `known` are constraints that hold already.

    Nodes in `seen` are skipped; visited ones are added to it.
    """
    found: list[Constraint] = []
    for node, context, bound in iterate_unconditional(graph, root, known, set() if seen is None else seen):
        for row in inside_shape(graph, node):
            extreme = at_least_slack(row, bound, context)
            if extreme is not None:
                found.append(extreme)
    if not linear(found):
        parts = [part for row in found for part in split_clamps(row, row.form.atoms())]
        found = [row for row in parts if linear((row,)) or not is_implied(row, ())]
    return normalise_rows(found) or ()


def iterate_unconditional(
    graph: Graph, root: Node, known: Rows, seen: Seen
) -> Iterator[tuple[Node, Rows, tuple[int, ...]]]:
    """Yield ``(node, rows, variables)`` for each node below `root` that is certainly evaluated, because it is under no
    condition and in no loop that may be empty. ``rows`` and ``variables`` are the constraints and the variables of the
    loops around it.

    The constraints `known` hold; pairs in `seen` are skipped, new ones are added to it.
    """
    stack: list[tuple[Node, Rows, tuple[int, ...]]] = [(root, (), ())]
    while stack:
        node, context, bound = stack.pop()
        if node.free.isdisjoint(bound):  # what is around does not matter inside
            context, bound = (), ()
        if (node, context) in seen or node.op == "guard":
            continue
        seen.add((node, context))
        if node.op in BINDERS:
            variables, rows, body = graph.inside(node, bound)
            if node.op in RANGED and not has_point(rows, variables, (*known, *context)):
                seen.discard((node, context))  # another expression may know more
                continue
            stack.append((body, context + rows, (*variables, *bound)))
            continue
        yield node, context, bound
        stack += [(arg, context, bound) for arg in (node.args[:1] if node.op == "select" else node.args)]


def require_positive_divisors(graph: Graph, divisors: Collection[Affine], roots: Sequence[Node]) -> None:
    """Raise `UnsupportedError` if one of the `divisors` in indices below `roots`, as ``k`` in ``i//k``, may be
    negative. For one that may be 0, record in the graph the assumption that it is positive.

    They are added to ``graph.assumptions``. The constraints of a read at such a quotient are known only where its
    divisor is positive.
    """
    # A division does not prove that the divisor is positive.
    facts = tuple(row for row in input_facts(graph, roots) if not symbolic_divisors([row.form])) if divisors else ()
    for divisor in sorted(divisors):
        positive = Constraint("ge", divisor - 1)
        if is_implied(positive, facts):
            continue
        if not is_implied(Constraint("ge", divisor), facts):
            shown = divisor.substitute({v: Affine.variable(graph.names[v]) for v in divisor.atoms()})
            is_symbol = len(divisor.terms) == 1 and not divisor.constant
            way_out = "" if is_symbol else f"; give {shown} a name of its own, and write the extents with it"
            raise UnsupportedError(
                f"an index is divided by {shown}, which is not known to be positive: it must be an extent of a tensor, "
                "or made of such extents and of symbols that are declared so, Symbol('m', integer=True, positive=True)"
                + way_out
            )
        if not all(is_implied(positive, (*facts, *around)) for around in _uses(graph, divisor, roots)):
            graph.assumptions.update(dict.fromkeys(normalise_rows([positive]) or ()))


def _uses(graph: Graph, divisor: Affine, roots: Sequence[Node]) -> list[Rows]:
    """Return the constraints of the loops and guards around each index below `roots` that is divided by `divisor`, as
    in ``floor(i/n)``. Constraints that contain quotients are left out.
    """
    found: dict[Rows, None] = {}
    seen: set[tuple[Node, Rows]] = set()
    stack: list[tuple[Node, Rows]] = [(root, ()) for root in roots]
    while stack:
        node, around = stack.pop()
        if (node, around) in seen:
            continue
        seen.add((node, around))
        rows: Rows = node.data if node.op == "guard" else ()
        body = node.args
        if node.op in BINDERS:
            _, rows, inside = graph.open(node)
            body = (inside,)
        plain = tuple(row for row in rows if not symbolic_divisors([row.form]))
        if divisor in symbolic_divisors(_forms(node, rows)):
            conditions = (*around, *(plain if node.op == "guard" else ()))
            found[conditions] = None
        stack += [(arg, (*around, *plain)) for arg in body]
    return list(found)


def has_positive_divisors(body: Node, mapping: Substitution) -> bool:
    """Return whether no symbolic divisor of a floor in `body` becomes a number below 1 when the variables have the
    values in `mapping`; divisors that remain symbolic are accepted.
    """
    forms = [
        form
        for node in reachable(body)
        for form in _forms(node, node.data if node.op in RANGED or node.op == "guard" else ())
    ]
    new = (divisor.substitute(mapping) for divisor in symbolic_divisors(forms))
    return all(not divisor.is_constant or divisor.constant >= 1 for divisor in new)


def _forms(node: Node, rows: Rows) -> list[Affine]:
    """Return the affine forms in `node` itself: the indices of a read, the extents of its shape, those of `rows`."""
    own = node.data if node.op == "read" else (node.data,) if node.op == "index" else ()
    return [*own, *node.shape, *(row.form for row in rows)]


Selection = tuple[Node, int]
"""A read, and the axis that data select from."""


def read_with_ranges(reader: Reader, exprs: Sequence[Any]) -> list[Node]:
    """Convert `exprs` to nodes of the graph of ``reader``. An integer tensor ``p`` without a declared range that is
    used as an index, as in ``x[p[i]]``, gets the range of this axis of ``x``.
    """
    nodes = [reader.read(expr) for expr in exprs]
    found = implied_ranges(reader.graph, nodes)
    if not found:
        return nodes
    reader.declare(found)
    return [reader.read(expr) for expr in exprs]


def implied_ranges(graph: Graph, roots: Sequence[Node]) -> dict[str, Selection]:
    """Return ``{p: (read, axis)}`` for the integer tensors ``p`` in ``roots`` whose entries are all used as an index: a
    read such as ``x[p[i]]``, and the number of the axis that ``p`` indexes. The length of this axis bounds the entries
    of ``p``.

    The read, such as ``x[idx[i]]``, happens unconditionally for each entry of ``idx``, so that no other data are of
    any use. Where entries select from several axes, one is provably not longer than the others; else there is none.
    """
    names = graph.integers.keys() - graph.below.keys()
    names -= _selecting_tensors(roots) if names else set()
    if not names:
        return {}
    facts = positive_sizes(graph, roots)
    found: dict[str, dict[Affine, Selection]] = {}
    for entry, read, axis in _selections(graph, roots, facts):
        if entry.tensor in names:
            found.setdefault(entry.tensor, {}).setdefault(read.args[0].shape[axis], (read, axis))
    return {
        name: selection
        for name, selections in found.items()
        for extent, selection in selections.items()
        if all(is_implied(Constraint("ge", other - extent), facts) for other in selections)
    }


def _selections(graph: Graph, roots: Sequence[Node], facts: Rows) -> Iterator[tuple[IndirectIndex, Node, int]]:
    """Yield ``(entry, read, axis)`` for each unconditional read below `roots` such as ``x[p[i]]`` in which ``i`` runs
    over all of ``p``. The entry is ``p[i]``, the index of the read along the axis.
    """
    seen: Seen = set()
    for root in roots:
        for node, context, _ in iterate_unconditional(graph, root, facts, seen):
            for axis, form in enumerate(node.data) if node.op == "read" else ():
                entry = form.terms[0][0] if form.terms else None
                if (
                    isinstance(entry, IndirectIndex)
                    and form == Affine.variable(entry)
                    and _runs_over_tensor(entry, graph, context)
                ):
                    yield entry, node, axis


def _selecting_tensors(roots: Sequence[Node]) -> set[str]:
    """Return the names of integer tensors that are used in ``roots`` to index a computed tensor, such as ``p`` in
    ``[x[p[i]]]_i[j]``.
    """
    parts = reachable(*roots)
    inner = [arg for node in parts if node.op == "read" or _takes_diagonals(node) for arg in node.args]
    forms = [form for part in reachable(*inner) if part.op == "read" for form in part.data]
    return {entry.tensor for entry in data_entries(forms)}


def _takes_diagonals(node: Node) -> bool:
    """Return whether `node` is an einsum in which an operand has a repeated label."""
    return node.op == "ein" and any(len(set(labels)) < len(labels) for labels in node.data.inputs)


def _runs_over_tensor(entry: IndirectIndex, graph: Graph, context: Rows) -> bool:
    """Return whether `entry` reads each entry of its integer tensor once, as ``p[i]`` does if the constraints `context`
    let ``i`` run over the whole axis of ``p``.
    """
    shape = graph.integers[entry.tensor].shape
    variables = [v for form in entry.index for v, _ in form.terms]
    whole = [row for v, extent in zip(variables, shape, strict=False) for row in ranges((v,), (extent,))]
    around = set(partition(context, variables)[1])
    indices = tuple(map(Affine.variable, variables))
    return entry.index == indices and len(set(variables)) == len(shape) and around == set(whole)
