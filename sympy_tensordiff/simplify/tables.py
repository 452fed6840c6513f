"""Comprehensions split by their guards: dense terms in one, guarded terms in smaller ones read under the guard.

``T[i, j] = [j == f(i)] E(i, j)`` is read as ``[j == f(i)] S[i]`` with a table ``S[i] = E(i, f(i))`` that has lost the
axis: a sum over ``j`` then collapses, where a table of ``T`` would be mostly zeros. The ranges in a comprehension that
is computed for every index around it are repeated at its reads, too, so that the sums there run where it is not zero.

And tensors that are better written into the places where they are read than tabulated (`inline_single_reads`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction

from sympy_tensordiff.graph.einsums import ELEMENTWISE, written_out
from sympy_tensordiff.graph.nodes import BINDERS, RANGED, Graph, Node, ranges, reachable, rewritten
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.implication import merge_parallel
from sympy_tensordiff.integer.rows import substitute_all
from sympy_tensordiff.integer.solving import solve_equations
from sympy_tensordiff.simplify.sign_analysis import sign_facts

SPARSE_SIZE = 200
"""An entry that is written at every read of a table is at most this large, so that chains stay linear."""

TABLE_SIZE = 20
"""The weight of a table of its own within that size."""


WRITTEN_SIZE = 80
"""Operations on comprehensions that have more nodes than this as trees, at all indices at which they are read together,
are written out only if nothing is then computed twice.

A kernel of squared distances, which its gradient reads at two indices, has 25 at each.
"""


def tabulated(graph: Graph, axes: Sequence[int], extents: Sequence[Affine], entry: Node, sizes: frozenset[int]) -> Node:
    """Rewrite `entry`, the formula of a tensor's entry at the indices `axes`, such that it reads its terms from new
    comprehensions (tables), so that each value is computed once. `extents` are the lengths of the axes; the variables
    in `sizes` are not indices.

    The dense terms share one table; a guarded term gets a smaller one, read under its guard. The indices have the
    ranges ``0 <= axis < extent``.
    """
    terms = entry.args if entry.op == "add" else (entry,)
    dense, sparse, size = [], [], 0
    for term in terms:
        written = _guard_around_smaller_table(graph, axes, extents, term, sizes) if term.op == "guard" else None
        if written is None:
            dense.append(term)
        else:
            sparse.append(written)
            size += _size(written, SPARSE_SIZE)
    if size > SPARSE_SIZE:
        return _table(graph, axes, extents, entry)
    return graph.add([*sparse, _table(graph, axes, extents, graph.add(dense))])


def _table(graph: Graph, axes: Sequence[int], extents: Sequence[Affine], entry: Node) -> Node:
    """Return `entry` as a read, at `axes`, of a new comprehension over `axes` with the body `entry`: a table that can
    be stored. `extents` are the lengths of the axes. Return `entry` itself if it is a number or a read, or if there are
    no axes.
    """
    if not axes or entry.op in ("const", "read"):
        return entry
    return graph.read(graph.comprehension(axes, extents, entry), [Affine.variable(v) for v in axes])


def _guard_around_smaller_table(
    graph: Graph, axes: Sequence[int], extents: Sequence[Affine], term: Node, sizes: frozenset[int]
) -> Node | None:
    """Return the guarded `term` of a formula with the indices `axes` as a guarded read of a smaller table, without the
    axes that the guard determines: ``[i == j]*f(i, j)`` reads a table with the index j alone. None if that saves
    nothing.

    The table has the indices `axes` and lengths ``extents``.
    """
    rows, body = merge_parallel(term.data), term.args[0]
    if rows is None:
        return graph.zero
    solution = solve_equations(graph, axes, [row for row in rows if row.kind == "eq"])
    if solution is None:
        return graph.zero
    left, solved, _ = solution
    if not set(left).issubset(axes):  # there are new unknowns
        left, solved = list(axes), {}
    mapping = {v: solved[v] for v in axes if v in solved}
    once = term.free.issubset(sizes.union(axes))
    if not mapping and (once or all(row.form.atoms().isdisjoint(axes) for row in rows)):
        return None
    body = graph.substitute(body, mapping)
    if not body.free.isdisjoint(left) and not _is_cheap(body):
        # Its reads are inside of their shapes only where the rows hold and the axes that are gone are inside.
        extent = dict(zip(axes, extents, strict=True))
        inside = ranges(list(mapping), [extent[v] for v in mapping])
        inner = substitute_all((*rows, *inside), mapping)
        body = _table(graph, left, [extent[v] for v in left], graph.guard(inner, body))
    return graph.guard(rows, body)


def _is_cheap(body: Node) -> bool:
    """Return whether `body` has few nodes and no sum, function call or select, so that it need not be stored."""
    stack, size = [body], 0
    while stack and size <= TABLE_SIZE:
        node = stack.pop()
        if node.op in RANGED or node.op in ("call", "select"):
            return False
        size += 1
        stack += () if node.op == "read" else node.args
    return size <= TABLE_SIZE


def _size(written: Node, most: int) -> int:
    """Return the number of nodes and constraints in `written`; counting stops above `most`.

    A table counts as ``TABLE_SIZE``; a sum counts as one node, as it is shared.
    """
    stack, size = [written], 0
    while stack and size <= most:
        node = stack.pop()
        size += TABLE_SIZE if node.op == "comprehension" else 1
        size += len(node.data) if node.op == "guard" else 0
        stack += () if node.op in BINDERS else node.args
    return size


def with_cancelled_entries(graph: Graph, roots: Sequence[Node]) -> list[Node]:
    """Return `roots` with the entry ``T[i]`` of a comprehension written out in an addition where its terms cancel
    others: ``a[i] - b - T[i]`` is 0 if ``T[i]`` is ``a[i] - b``.
    """

    def with_cancelled(node: Node) -> Node:
        """Return the addition `node` with entries of comprehensions replaced by their formulas if terms then cancel, so
        that fewer remain. Other nodes are unchanged.
        """
        for term in node.args if node.op == "add" and not node.shape else ():
            number, core = graph.split_coefficient(term)
            if core.op == "read" and core.args[0].op == "comprehension":
                entry = graph.entry(core.args[0], core.data)
                parts = [graph.scale(number, part) for part in (entry.args if entry.op == "add" else (entry,))]
                new = graph.add([*(other for other in node.args if other is not term), *parts])
                if new.op != "add" or len(new.args) < len(node.args):
                    return with_cancelled(new)
        return node

    return rewritten(graph, roots, with_cancelled)


def inline_single_reads(graph: Graph, roots: Sequence[Node], *, is_input: bool = False) -> list[Node]:
    """Return `roots` with entries of comprehensions replaced by the body at the index, for each comprehension that is
    read at a single index. Entries of operations on comprehensions are written in index notation.

    With `is_input`, for a function that will be differentiated, fewer reads are replaced.

    Those read inside of a sum or another reduction stay, unless each of its iterations reads another entry: there an
    entry would be computed once per iteration. An entry that is used several times is at most a sum over one index and
    used in one loop. In a function that is to be differentiated each is such a sum, read at plain indices, as a
    distance ``r[i, j]``: the derivative of a larger one is a table of its own.
    """
    if is_input:
        single = _single_reads(graph, reachable(*roots), is_input)
        return _written_out(graph, roots, single) if single else list(roots)
    while single := _single_reads(graph, nodes := reachable(*roots), is_input) | _mixed_reads(nodes, roots):
        roots = _written_out(graph, roots, single)
    return list(roots)


def _mixed_reads(nodes: Sequence[Node], roots: Sequence[Node]) -> set[Node]:
    """Return the reads among `nodes` that can be replaced by entries of comprehensions, as ``exp(-D)[i, j]`` by
    ``exp(-D[i, j])``.

    The tensor that is read must be an element-wise operation, small or read once, and not in `roots` or used as a
    whole.

    A tensor that is read at several indices, or shares comprehensions with others, must be small: its formula is
    computed, and written, at each of them.
    """
    whole = {arg for node in nodes if node.op != "read" for arg in node.args}.union(roots)
    mixed: dict[Node, bool] = {}
    for node in nodes:
        is_entrywise = node.op in ELEMENTWISE or (node.op == "ein" and len(node.data.output) == len(node.data.extents))
        mixed[node] = node.op == "comprehension" or (is_entrywise and any(mixed[arg] for arg in node.args))
    tensors = {node for node in nodes if node.shape and node.op != "comprehension" and mixed[node]} - whole
    times = Counter(node.args[0] for node in nodes if node.op == "read")
    users = Counter(arg for node in nodes for arg in node.args)
    written = {node for node in tensors if times[node] * _tree_size(node) <= WRITTEN_SIZE}
    written |= {node for node in tensors - written if times[node] == 1 and _has_single_uses(node, mixed, users)}
    return {node for node in nodes if node.op == "read" and node.args[0] in written}


def _tree_size(tensor: Node) -> int:
    """Return the number of nodes of `tensor` written out as a tree, bodies of comprehensions included; counting stops
    above `WRITTEN_SIZE`.
    """
    stack, size = [tensor], 0
    while stack and size <= WRITTEN_SIZE:
        node = stack.pop()
        size += 1
        stack += node.args
    return size


def _has_single_uses(tensor: Node, mixed: Mapping[Node, bool], users: Mapping[Node, int]) -> bool:
    """Return whether `tensor` and the tensors from which it is computed are used only once, so that writing out an
    entry computes nothing twice. `users` has the number of uses of each node; nodes that `mixed` maps to False do not
    count.

    Those that ``mixed`` maps to True are comprehensions and operations on these.
    """
    stack = [tensor]
    while stack:
        node = stack.pop()
        if mixed[node]:
            if users[node] > 1:
                return False
            stack += node.args if node.op != "comprehension" else ()
    return True


def _single_reads(graph: Graph, nodes: list[Node], is_input: bool) -> set[Node]:
    """Return the reads among `nodes` (arguments first) that read a comprehension and can be replaced by the formula of
    the entry without computing anything twice. With `is_input`, for a function that will be differentiated, these are
    only small entries read at plain indices.
    """
    uses = Counter(arg for node in nodes for arg in node.args)
    summed: dict[Node, frozenset[int]] = {}
    binders: dict[Node, frozenset[Node]] = {}
    around_reads: dict[Node, frozenset[int]] = {}
    for node in reversed(nodes):
        around = summed.get(node, frozenset())
        if node.op in RANGED:
            around = around.union(graph.bound(node))
        inside = frozenset({node}) if node.op in BINDERS else binders.get(node, frozenset())
        looped = frozenset() if node.op == "comprehension" else around_reads.get(node, frozenset())
        looped = looped.union(graph.bound(node)) if node.op in BINDERS else looped
        for arg in node.args:
            around_reads[arg] = around_reads.get(arg, frozenset()) | looped
            summed[arg] = summed.get(arg, frozenset()) | around
            binders[arg] = binders.get(arg, frozenset()) | inside

    def is_alone(read: Node) -> bool:
        """Return whether the entry of a table that `read` reads can be written out instead: it is small and needed only
        in the loops over its own indices, or it is read once and the function will not be differentiated.
        """
        height = read.args[0].args[0].height
        is_plain = all(isinstance(v, int) and form == Affine.variable(v) for form in read.data for v, _ in form.terms)
        is_small = is_plain and height == 1 and len(binders.get(read, ())) <= 1
        # In loops over further indices it would be computed again for each of these.
        is_small = is_small and around_reads.get(read, frozenset()) <= {v for form in read.data for v in form.atoms()}
        return is_small or (uses[read] == 1 and not is_input)

    return {
        node
        for node in nodes
        if node.op == "read"
        and uses[node.args[0]] == 1
        and node.args[0].op == "comprehension"
        and is_alone(node)
        and summed.get(node, frozenset())
        <= {v for form in node.data for v, _ in form.terms if form == Affine.variable(v)}
    }


def _written_out(graph: Graph, roots: Sequence[Node], reads: set[Node]) -> list[Node]:
    """Return `roots` with each read in `reads` replaced by the formula of the entry. A power of a root that results,
    such as ``(x**(1/2))**2``, becomes a single power.
    """
    done: dict[Node, Node] = {}
    for node in reachable(*roots):
        args = [done.get(arg, arg) for arg in node.args]
        if node in reads:
            done[node] = written_out(graph, args[0], node.data)
        elif tuple(args) != node.args:
            done[node] = _power_of_root(graph, *args) if node.op == "pow" else graph.with_args(node, args)
    return [done.get(root, root) for root in roots]


def _power_of_root(graph: Graph, base: Node, exponent: Node) -> Node:
    """Return ``base**exponent``. For a root ``x**a`` and an integer n it is ``x**(a*n)``, if that is defined for the
    same x.

    ``sqrt(x)**2`` is ``x`` only where ``x`` is nonnegative.
    """
    if exponent.op == "const" and isinstance(exponent.data, int) and base.op == "pow" and base.args[1].op == "const":
        inner, root = base.args
        power = root.data * exponent.data
        if isinstance(power, Fraction) and (power.denominator > 1 or sign_facts(graph, inner).sign >= 0):
            return graph.pow(inner, graph.const(power))
    return graph.pow(base, exponent)
