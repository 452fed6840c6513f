"""Final form of results for kernels: one sign for equal differences, diagonal terms separate, 0 where a product is
0*inf.

Derivatives are written for readers, with common factors outside of an addition and with signs that read well. In a
kernel ``c*(delta*S + A)`` would ask the condition for each entry; ``c*delta*S + c*A`` adds to a diagonal. Residuals
that differ in their signs are one array.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence, Set
from functools import partial
from itertools import combinations, product

import sympy

from sympy_tensordiff.codegen.lower.carries import chain_factor, is_rescaled
from sympy_tensordiff.codegen.lower.functions import is_user_function
from sympy_tensordiff.codegen.lower.loop_order import is_short_range
from sympy_tensordiff.codegen.lower.materialise import is_dear, is_general_power
from sympy_tensordiff.codegen.lower.plan import Planner, is_never_empty
from sympy_tensordiff.graph.disequalities import coalesce_sides
from sympy_tensordiff.graph.interning import Number, breadth_first
from sympy_tensordiff.graph.nodes import BINDERS, RANGED, Graph, Node, reachable, rewritten
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.rows import Rows, partition
from sympy_tensordiff.simplify.canonical_signs import with_canonical_signs
from sympy_tensordiff.simplify.common_factors import MAX_TERMS


def with_expanded_diagonals(graph: Graph, nodes: Sequence[Node]) -> list[Node]:
    """Return `nodes` with products multiplied out that have a factor like ``f[i] + [i == j]*g[i]``: the diagonal term
    is then computed on the diagonal only. Some terms are joined before, as ``x*s - y*s`` to ``s*(x - y)``.
    """
    if sum(node.op == "sum" for node in reachable(*nodes)) > 1:
        nodes = coalesce_sides(graph, nodes, of_matrices=True)
    nodes = rewritten(graph, nodes, partial(_with_joined_indices, graph))
    nodes = rewritten(graph, nodes, partial(_with_common_factors, graph))
    nodes = rewritten(graph, with_canonical_signs(graph, nodes, for_readers=False), partial(_with_choices, graph))
    return [node if node.has_tensor_ops else _entries_in_terms(graph, node) for node in nodes]


JOINED = frozenset({sympy.sin, sympy.cos})
"""The functions whose arguments have their indices joined: tables of angles."""


def _with_joined_indices(graph: Graph, call: Node) -> Node:
    """Return the sine or cosine ``call`` with each sum of indices in its argument joined to a single index: in
    ``sin(c*(p - 8*i))``, the integer ``p - 8*i`` replaces two terms. Other nodes are returned unchanged.
    """
    if call.op != "call" or call.data not in JOINED or call.shape:
        return call
    number, core = graph.split_coefficient(call.args[0])
    factors = [_joined_index(graph, factor) for factor in graph.factors(core)]
    return graph.call(call.data, [graph.scale(number, graph.mul(factors))])


def _joined_index(graph: Graph, total: Node) -> Node:
    """Return ``total`` as one index if it is an addition of integer multiples of indices, such as ``2*i + j``; other
    nodes unchanged.
    """
    terms = [graph.split_coefficient(term) for term in total.args] if total.op == "add" else []
    if not terms or not all(core.op == "index" and isinstance(c, int) for c, core in terms):
        return total
    return graph.index(sum((c * core.data for c, core in terms), Affine()))


ENTRIES = frozenset({"read", "scalar", "index"})
"""Nodes that may be in front of an addition as its common factors."""


def _with_common_factors(graph: Graph, total: Node) -> Node:
    """Return the scalar addition ``total`` with entries of tensors that all terms have in common taken out, ``x*s -
    y*s`` as ``s*(x - y)``; other nodes unchanged.

    Exponentials and sums stay: their products are computed in forms that do not overflow. So do products like those in
    ``s[k]*x[i, k] - s[k]*x[j, k]``, which are computed before the loops over i and j.
    """
    if total.op != "add" or total.shape:
        return total
    terms = [graph.split_coefficient(term) for term in total.args]
    factors = [graph.factors(core) for _, core in terms]
    common = [factor for factor in factors[0] if factor.op in ENTRIES and all(factor in own for own in factors)]
    if not common or all(_is_invariant(core, own, total) for (_, core), own in zip(terms, factors, strict=True)):
        return total
    rests = [[factor for factor in own if factor not in common] for own in factors]
    inner = [graph.scale(number, graph.mul(rest)) for (number, _), rest in zip(terms, rests, strict=True)]
    return graph.mul([*common, graph.add(inner)])


def _is_invariant(product: Node, factors: Sequence[Node], total: Node) -> bool:
    """Return whether it pays to store `product`, a term of the addition ``total``, in an array: it depends on fewer
    indices than ``total``, so that it can be computed before the inner loops. ``factors`` are its factors.

    It does if the term depends on fewer indices than ``total``, all its ``factors`` are reads with indices, and one of
    them depends on all indices of the term.
    """
    return (
        product.free < total.free
        and all(factor.op == "read" for factor in factors)
        and any(factor.free == product.free for factor in factors)
        and all(factor.free for factor in factors)
    )


def _with_choices(graph: Graph, total: Node) -> Node:
    """Return the addition `total` with ``[f > 0]*x + [f < 0]*x`` written as ``x if f != 0 else 0``, if ``x`` contains a
    reduction: it then needs one loop nest instead of two.
    """
    terms = list(total.args) if total.op == "add" and not total.shape else []
    guards = [n for n, term in enumerate(terms) if term.op == "guard"]
    for n, m in combinations(guards, 2):
        rows, others = terms[n].data, terms[m].data
        if terms[m].op != "guard" or terms[n].args != terms[m].args:
            continue
        own, other = ([row for row in left if row not in right] for left, right in ((rows, others), (others, rows)))
        if len(own) != 1 or len(other) != 1 or {own[0].kind, other[0].kind} != {"ge"}:
            continue
        form, value = own[0].form + 1, terms[n].args[0]
        if form + other[0].form + 1 == Affine() and any(part.op in RANGED for part in reachable(value)):
            unequal = graph.compare("ne", graph.index(form), graph.zero)
            terms[n] = graph.guard([row for row in rows if row in others], graph.select(unequal, value, graph.zero))
            terms[m] = graph.zero
            return _with_choices(graph, graph.add(terms))
    return total


def _entries_in_terms(graph: Graph, node: Node) -> Node:
    """Return `node`, a scalar or comprehension, with its outermost products multiplied out if a factor has a diagonal
    term: ``x*(f + [i == j]*g)`` becomes ``x*f + [i == j]*x*g``.
    """
    if node.op != "comprehension":
        return _in_terms(graph, node)
    variables, _, body = graph.inside(node, ())
    new = _in_terms(graph, body)
    return node if new is body else graph.over(node, variables, new)


def _in_terms(graph: Graph, root: Node) -> Node:
    """Return the scalar `root` with its outermost products multiplied out, if a factor contains a term ``[i == j]*f``,
    which is 0 except on a diagonal.
    """
    outer = {root}
    nodes = reachable(root)
    for node in reversed(nodes):
        if node in outer and node.op in ("add", "mul", "guard"):
            outer.update(node.args)
    done: dict[Node, Node] = {}
    for node in nodes:
        if node in outer:
            new = graph.with_args(node, [done.get(arg, arg) for arg in node.args])
            done[node] = _multiplied_out(graph, new) if new.op == "mul" else new
    return done[root]


def _multiplied_out(graph: Graph, product: Node) -> Node:
    """Return `product` as a sum, ``a*b + a*[i == j]*f`` for ``a*(b + [i == j]*f)``, if exactly one factor is an
    addition with a diagonal term ``[i == j]*f``, of at most `MAX_TERMS` terms; else unchanged.
    """
    factors = graph.factors(product)
    additions = [factor for factor in factors if factor.op == "add" and any(map(_is_diagonal, factor.args))]
    if len(additions) != 1 or len(additions[0].args) > MAX_TERMS:
        return product
    others = [factor for factor in factors if factor is not additions[0]]
    return graph.add([graph.mul([*others, term]) for term in additions[0].args])


def _is_diagonal(term: Node) -> bool:
    """Return whether `term` has a guard with an equation, such as ``[i == j]``, so that most of its entries are 0."""
    return any(map(is_where_equal, term.args if term.op == "mul" else (term,)))


def is_where_equal(node: Node) -> bool:
    """Return whether `node` is a guard with an equation, such as ``[i == j]*f``, which is 0 unless the indices are
    equal.
    """
    return node.op == "guard" and any(row.kind == "eq" for row in node.data)


# ---------------------------------------------------------------------------- powers at base 0
# Derivatives of powers at base 0: a factor that is 0 there wins over one that is infinite.
#
# ``x**y*log(x)``, the derivative of ``x**y`` by ``y``, is 0 at ``x = 0 < y``, and ``y*x**(y - 1)``, the
# one by ``x``, is 0 at ``y = 0``; floating point numbers say ``0*inf``. The formulas stay as they
# are; in kernels the factor that may be 0 becomes the condition of a choice. So does ``p`` in ``p*log(p/q)``,
# which tends to 0 at ``p = 0``: entropies and divergences.


_MOST_ORDERS = 4
"""``y*(y - 1)*x**(y - 2)`` and so on are recognised up to so many factors."""


def defined_at_zero(graph: Graph, roots: Sequence[Node]) -> list[Node]:
    """Return `roots` with products like ``x**2*log(x)``, nan at ``x = 0``, as selects that are 0 there."""
    done: dict[Node, Node] = {}
    for part in reachable(*roots):
        args = [done[arg] for arg in part.args]
        done[part] = _product(graph, part, args) if part.op == "mul" else graph.with_args(part, args)
    return [done[root] for root in roots]


def _product(graph: Graph, node: Node, args: Sequence[Node]) -> Node:
    """Return the product `node` with ``args`` in place of its factors. Where it may be ``0*inf``, as ``x**2*log(x)`` at
    0, a select makes it 0.
    """
    for power in node.args:
        if power.op == "pow" and power.args[0].op != "const" and power.args[1].op not in ("const", "index"):
            logarithms = [n for n, factor in enumerate(node.args) if _is_logarithm(factor, power.args[0])]
            scales = _factors_of_derivatives(graph, node, power)
            if logarithms or scales:
                own = node.args.index(power)
                value = args[own]
                if logarithms:
                    value = _unless_zero(graph, value, graph.mul(args[n] for n in logarithms))
                if scales:
                    value = _unless_zero(graph, graph.mul(args[n] for n in scales), value)
                used = {own, *logarithms, *scales}
                return graph.mul((*(arg for n, arg in enumerate(args) if n not in used), value))
    for n, factor in enumerate(node.args):
        base = factor.args[0] if factor.op == "pow" and _is_positive(factor.args[1]) else factor
        for m, other in enumerate(node.args):
            if base.op != "const" and m != n and _has_logarithm(graph, other, base):
                # A 1 for the logarithm: the product is 0 by its factor, and infinite factors still show.
                finite = graph.select(graph.compare("ne", args[n], graph.zero), args[m], graph.one)
                return graph.mul((*args[:m], finite, *args[m + 1 :]))
    return node if tuple(args) == node.args else graph.mul(args)


def _is_positive(exponent: Node) -> bool:
    """Return whether `exponent` is a positive constant."""
    return exponent.op == "const" and exponent.data > 0


def _has_logarithm(graph: Graph, factor: Node, base: Node) -> bool:
    """Return whether `factor` becomes infinite like a logarithm where `base` is 0: it is, or has a term, ``log(base)``
    or ``log(base*y)``.

    The other terms of the sum are logarithms or finite: times `base`, they tend to 0 as well.
    """
    found = False
    for term in factor.args if factor.op == "add" else (factor,):
        _, rest = graph.split_coefficient(term)
        if rest.op != "call" or rest.data is not sympy.log:
            if not term.total:
                return False
        elif base in graph.factors(rest.args[0]):
            found = True
    return found


def _unless_zero(graph: Graph, factor: Node, other: Node) -> Node:
    """Return ``factor*other`` as a select: 0 where ``factor`` is 0, even if ``other`` is infinite or nan there."""
    return graph.select(graph.compare("ne", factor, graph.zero), graph.mul((factor, other)), graph.zero)


def _is_logarithm(factor: Node, base: Node) -> bool:
    """Return whether `factor` is ``log(base)`` or a positive power of this logarithm."""
    if factor.op == "pow" and factor.args[1].op == "const" and factor.args[1].data > 0:
        factor = factor.args[0]
    return factor.op == "call" and factor.data is sympy.log and factor.args[0] is base


def _factors_of_derivatives(graph: Graph, node: Node, power: Node) -> list[int]:
    """Return the positions in the product `node` of factors ``e + 1``, ``e + 2``, ..., where ``e`` is the exponent of
    its factor `power`. The derivatives of a power have such factors.
    """
    found: list[int] = []
    for order in range(1, _MOST_ORDERS + 1):
        above = graph.add((power.args[1], graph.const(order)))
        wanted = [f for f in (above.args if above.op == "mul" else (above,)) if f.op != "const"]
        if wanted and all(f in node.args and f is not power for f in wanted):
            found += [node.args.index(f) for f in wanted]
    return list(dict.fromkeys(found))


# ---------------------------------------------------------------------------- sums of products of sums, multiplied out
# Sums of products of sums, multiplied out: only for who asks for it, since what is left may cancel.
#
# ``Sum_k (a[i, k] + b[j, k])**2`` is ``Sum_k a[i, k]**2 + Sum_k b[j, k]**2 + 2*Sum_k a[i, k]*b[j, k]``: two sums for
# fewer indices and a product of matrices. Where a and b nearly cancel, the three terms do, too, and their rounding
# errors stay. An addition is multiplied out where one of its terms depends on fewer indices than it does, and no
# factor that is left depends on all of them: that one would be run through as often as before, term by term.


MAX_TERMS_MULTIPLIED_OUT = 16
"""Of more terms than these, none is multiplied out."""

_GREATEST_POWER = 4
_MAX_NESTED_PRODUCTS = 8
"""How many additions and products in each other are multiplied out."""


def expanded(graph: Graph, roots: Sequence[Node], facts: Rows) -> list[Node]:
    """Return `roots` with products inside of sums multiplied out, and with each factor moved out of those sums on whose
    index it does not depend.
    """
    return rewritten(graph, roots, lambda node: _sum(graph, node, facts) if node.op == "sum" else node)


def _sum(graph: Graph, node: Node, facts: Rows) -> Node:
    """Return the sum `node` as nested sums: multiply out products, and move each factor out of the sums over indices
    that it does not contain. Return `node` unchanged if a factor depends on all indices.
    """
    variables, rows, body = graph.open(node)
    indices = frozenset(v for v in body.free if v < 0 or v in variables)
    found = _terms(body, indices)
    if any(factor.free >= indices for factors in found for factor in factors):
        return node
    terms: dict[Node, Number] = {}
    for factors in found:
        coefficient, term = graph.split_coefficient(graph.mul(factors))
        terms[term] = terms.get(term, 0) + coefficient
    sums = [graph.scale(c, _nested(graph, variables, rows, graph.factors(term), facts)) for term, c in terms.items()]
    return graph.add(sums)


def _terms(node: Node, indices: frozenset[int], level: int = 0) -> list[tuple[Node, ...]]:
    """Split `node` into terms, each a tuple of factors, and return them: ``a*(b + c)`` gives ``(a, b)`` and ``(a, c)``.
    An addition is split only if one of its terms depends on fewer of ``indices`` than the whole.

    ``level`` is the depth of the recursion, which is limited.
    """
    if level == _MAX_NESTED_PRODUCTS:
        return [(node,)]
    if node.op == "add" and any(arg.free & indices < node.free & indices for arg in node.args):
        found = [term for arg in node.args for term in _terms(arg, indices, level + 1)]
        return found if len(found) <= MAX_TERMS_MULTIPLIED_OUT else [(node,)]
    factors: Sequence[Node] = node.args if node.op == "mul" else ()
    if node.op == "pow" and node.args[1].data in range(2, _GREATEST_POWER + 1):
        factors = node.args[:1] * node.args[1].data
    choices = [_terms(factor, indices, level + 1) for factor in factors]
    count = 1
    for terms in choices:
        count *= len(terms)
    if not 1 < count <= MAX_TERMS_MULTIPLIED_OUT:
        return [(node,)]
    return [tuple([factor for term in terms for factor in term]) for terms in product(*choices)]


def _nested(graph: Graph, variables: Sequence[int], rows: Rows, factors: Sequence[Node], facts: Rows) -> Node:
    """Return the sum of the product of `factors` over `variables` in the range `rows`, with factors moved out of inner
    sums: ``Sum_i a_i*Sum_j b_ij``. A factor is moved only out of sums that the constraints `facts` prove to be
    nonempty.
    """
    inner: list[int] = []
    for v in reversed(variables):
        inner.insert(0, v)
        summed = [factor for factor in factors if not factor.free.isdisjoint(inner)]
        others = [factor for factor in factors if factor.free.isdisjoint(inner)]
        rest, own = partition(rows, inner)
        if others and summed and is_never_empty(inner, own, (*facts, *rest)):
            factors = [*others, graph.sum(inner, own, graph.mul(summed))]
            rows, inner = rest, []
    return graph.sum(inner, rows, graph.mul(factors)) if inner else graph.mul(factors)


# ---------------------------------------------------------------------------- sums of a tensor and its transpose


def with_sums_split_by_index_order(graph: Graph, roots: Sequence[Node]) -> list[Node]:
    """Return `roots` with ``Sum_i x[i]*(W[i, p] + W[p, i])`` split into two sums, so that each of them reads W along
    its rows.
    """
    return rewritten(graph, roots, lambda node: _split_twins(graph, node) if node.op == "sum" else node)


def _split_twins(graph: Graph, node: Node) -> Node:
    """Return the sum `node` split into several sums, one for each term of a factor like ``W[i, p] + W[p, i]``, whose
    terms differ in the order of the indices; unchanged without such a factor.
    """
    factors, bound = graph.factors(node.args[0]), graph.bound(node)
    twins = next((factor for factor in factors if _are_twins(graph, factor, bound)), None)
    if twins is None:
        return node
    rest = [factor for factor in factors if factor is not twins]
    return graph.add([graph.with_args(node, [graph.mul([*rest, term])]) for term in twins.args])


def _are_twins(graph: Graph, node: Node, bound: Sequence[int]) -> bool:
    """Return whether `node` adds entries of one tensor with permuted indices, such as ``W[i, p] + W[p, i]`` or ``W[i,
    p] - W[p, i]``, where exactly one of the indices depends on the variables ``bound``.

    It runs along the rows of one entry, and along the columns of another.
    """
    if node.op != "add":
        return False
    reads = [graph.split_coefficient(term)[1] for term in node.args]
    if any(read.op != "read" or read.args[0] is not reads[0].args[0] or len(read.data) < 2 for read in reads):
        return False
    if sum(not form.atoms().isdisjoint(bound) for form in reads[0].data) != 1:
        return False
    return all(Counter(read.data) == Counter(reads[0].data) for read in reads)


# ---------------------------------------------------------------------------- calls that several sums need
# Values of functions that several sums need, and that `lower.shifts` does not count: functions of sums, and values that
# are more than those of the arrays that they are made of. A product that is multiplied out is computed in more
# places than its factors.


def repeated_calls(planner: Planner, roots: Sequence[Node], large: bool, choices: Set[Node] = frozenset()) -> set[Node]:
    """Return the costly calls below `roots` that several loops evaluate, so that storing their values pays: calls that
    contain a sum, such as ``exp(Sum ...)``, and powers of entries. With `large`, include calls that depend on more
    indices than each array that they read. Calls that occur only in branches of the selects `choices` do not count.

    Only one branch of a stored select is computed. In the result, indices have standard names.
    """
    places: Counter[Node] = Counter()

    def always(part: Node) -> tuple[Node, ...]:
        """Return the arguments of `part` that are always computed: only the condition of a select in ``choices``, a set
        of nodes, and all arguments of any other node.
        """
        return part.args[:1] if choices and part.op == "select" and _numbered(planner, part) in choices else part.args

    for node in dict.fromkeys(part for root in roots for part in breadth_first(root, always)):
        if node.op in BINDERS:
            calls = [part for part in _nodes_in_body(node) if is_dear(part) and not is_user_function(part)]
            calls = [call for call in calls if call.height or _is_worth_storing(call, large)]
            outer = [v for v in node.free if v < 0]
            if any(is_rescaled(planner.graph, node, v) for v in outer):
                calls = []  # the sum goes on from entry to entry, with one call for each
            elif len(planner.graph.bound(node)) == 1:
                chained = {chain_factor(planner.graph, node, v) for v in outer}
                calls = [call for call in calls if call not in chained]
            places.update({_numbered(planner, call) for call in calls})
    return {call for call, count in places.items() if count > 1}


def repeated_sums(
    planner: Planner, roots: Sequence[Node], calls: Set[Node], large: bool, short: bool = False
) -> set[Node]:
    """Return the sums and extrema below `roots` that several loops, or several of the costly ``calls``, compute, so
    that storing them in arrays pays. A sum that depends on more outer indices than each array that it reads, such as a
    distance, counts only with ``large``.

    In the result, outer indices have standard names. Extrema in branches of a choice do not count. With ``short``,
    short sums count as well, if they have no more outer indices than some tensor has axes.
    """
    seen: set[Node] = set()
    found: dict[Node, list[set[Node]]] = {}
    axes = max((len(part.shape) for part in reachable(*roots) if part.op == "tensor"), default=0)

    def is_small(part: Node) -> bool:
        """Return whether `part`, a sum or extremum, depends on at least one outer index, and on no more of them than
        some tensor has axes.
        """
        return 0 < sum(v < 0 for v in part.free) <= axes

    for node in reachable(*roots):
        if node.op not in BINDERS:
            continue
        own, inside = _nodes_in_body(node), []
        reached = set(own)
        for part in own:
            if not is_dear(part):
                continue
            if (call := _numbered(planner, part)) not in calls:  # computed in this loop
                new = [one for one in _nodes_in_body(part) if one not in reached]
                reached.update(new)
                own += new
            elif call not in seen:
                seen.add(call)
                inside.append(_nodes_in_body(part))
        groups = [own, *inside]
        branches = _parts_of_branches(part for group in groups for part in group)
        found[node] = [
            {
                part
                for part in group
                if (part.op == "sum" or (part.op in ("max", "min") and part not in branches))
                and (_is_covered(part) or (large and _is_long_sum(planner.graph, part)) or (short and is_small(part)))
            }
            for group in groups
        ]
        # A loop inside of this one reads the extrema that this one computes, unless it fills an array of its own.
        extrema = {part for part in found[node][0] if part.op != "sum"}
        for inner in own if extrema else ():
            if found.get(inner) and _numbered(planner, inner) not in calls:
                found[inner][0] -= extrema
    places: Counter[Node] = Counter()
    for sums in (one for groups in found.values() for one in groups):
        places.update({_numbered(planner, part) for part in sums})
    return {node for node, count in places.items() if count > 1}


def repeated_choices(planner: Planner, roots: Sequence[Node]) -> set[Node]:
    """Return the selects below `roots` that are worth storing in an array, since a kernel that stores one computes one
    branch only.

    They occur in several sums or comprehensions, and their branches contain sums over indices that are not in the
    condition.

    Their outer indices have standard names.
    """
    places: Counter[Node] = Counter()
    for node in reachable(*roots):
        parts = _nodes_in_body(node) if node.op in BINDERS else ()
        places.update({_numbered(planner, part) for part in parts if part.op == "select" and _is_choice_of_sums(part)})
    return {node for node, count in places.items() if count > 1}


def _is_choice_of_sums(choice: Node) -> bool:
    """Return whether the select `choice` is worth storing: one of its branches contains a sum or extremum that depends
    on outer indices, and `choice` depends on an outer index that is not in its condition.
    """
    condition, *branches = choice.args
    if all(v in condition.free for v in choice.free if v < 0):
        return False
    return any(part.op in RANGED and any(v < 0 for v in part.free) for part in reachable(*branches))


def _numbered(planner: Planner, part: Node) -> Node:
    """Return `part` with the indices of enclosing sums and comprehensions renamed in a standard way, so that nodes that
    differ only in these names become equal.
    """
    return planner.numbered(part, sorted(v for v in part.free if v < 0))


def _nodes_in_body(node: Node) -> list[Node]:
    """Return the nodes in the body of `node`, a sum, a comprehension or a costly call (its first argument). Inner sums,
    comprehensions and costly calls are included, but the nodes inside of them are not.
    """
    return list(breadth_first(node.args[0], lambda part: () if part.op in BINDERS or is_dear(part) else part.args))


def _parts_of_branches(nodes: Iterable[Node]) -> set[Node]:
    """Return the branches of the selects among `nodes` and all nodes in them. Nodes inside of reductions,
    comprehensions and costly calls are left out.
    """
    stack = [branch for node in nodes if node.op == "select" for branch in node.args[1:]]
    found = set(stack)
    while stack:
        part = stack.pop()
        new = [arg for arg in part.args if arg not in found] if part.op not in BINDERS and not is_dear(part) else []
        found.update(new)
        stack += new
    return found


def _is_covered(part: Node) -> bool:
    """Return whether the sum `part` reads a tensor with all of its outer indices, those that enclosing sums bind, so
    that an array of its values is no larger than this tensor. Return False if it has no outer indices.
    """
    outer = {v for v in part.free if v < 0}
    return bool(outer) and any(read.op == "read" and outer <= read.free for read in reachable(part.args[0]))


def _is_long_sum(graph: Graph, part: Node) -> bool:
    """Return whether the sum `part` is too long to unroll: one of its indices has no small constant range, as in a
    squared distance ``Sum_k (x[i, k] - y[j, k])**2``.
    """
    variables, rows, _ = graph.open(part)
    return not all(is_short_range(rows, v) for v in variables)


def _is_worth_storing(call: Node, large: bool) -> bool:
    """Return whether to store the values of `call`, a costly function of entries that several loops need. If `call`
    depends on more indices than each array that it reads, ``large`` decides. Otherwise, only general powers are stored,
    which take longer than other calls.
    """
    return is_general_power(call) if _is_no_larger(call) else large


def _is_no_larger(call: Node) -> bool:
    """Return whether an array of the values of `call` would have no more axes than some array that it reads."""
    read = max((len(part.data) for part in reachable(call) if part.op == "read"), default=0)
    return sum(1 for v in call.free if v < 0) <= read
