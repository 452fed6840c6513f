"""Variances and covariances written as ``mean(x*y) - mean(x)*mean(y)``, computed from differences from the means.

Both terms may be much larger than their difference. Where the means are over the same range of ``N`` points, and so the
factors fit::

    c*Sum_k a[k]*b[k] - c/N*(Sum_k a[k])*(Sum_k b[k])       c*Sum_k (a[k] - A)*(b[k] - B)

with the means ``A = Sum_k a[k]/N`` and ``B`` likewise. Errors of the means have no effect of first order.

Source: Chan, Golub, LeVeque 1983, *Algorithms for Computing the Sample Variance*.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from sympy_tensordiff.graph.interning import breadth_first, outside_of_binders
from sympy_tensordiff.graph.nodes import BINDERS, Graph, Node, reachable
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.rows import Rows

MAX_TERMS = 6
"""Sums of more terms are left as they are: each term is compared with each other one."""


class ScaledSum(NamedTuple):
    """A product ``factor*total``. Its ``total`` is either the sum ``value`` itself, or the read of an array entry that
    stores this sum.
    """

    factor: Node
    total: Node
    value: Node


def with_covariances(graph: Graph, roots: Sequence[Node], arrays: Mapping[Node, Node]) -> list[Node]:
    """Return `roots` with each covariance outside of sums, ``mean(x*y) - mean(x)*mean(y)``, computed as ``mean((x -
    mean(x))*(y - mean(y)))``, which loses no digits. `arrays` maps stored arrays to the formulas of their entries.
    """
    return [_with_covariances(graph, root, arrays) for root in roots]


def _with_covariances(graph: Graph, root: Node, arrays: Mapping[Node, Node]) -> Node:
    """Return `root`, a number or comprehension, with covariances computed from differences from the means, which keeps
    their digits; those inside of sums are left. `arrays` maps stored arrays to the formulas of their entries.
    """
    is_table = root.op == "comprehension"
    if not any(map(_may_have_covariance, breadth_first(root.args[0] if is_table else root, outside_of_binders))):
        return root
    variables, _, body = graph.open(root) if is_table else ((), (), root)
    outside = set(breadth_first(body, outside_of_binders))
    done: dict[Node, Node] = {}
    for part in reachable(body):
        if part in outside:
            new = part if part.op in BINDERS else graph.with_args(part, [done[arg] for arg in part.args])
            done[part] = _centred(graph, new, arrays) or new
    if done[body] is body:
        return root
    return graph.over(root, variables, done[body]) if is_table else done[body]


def _may_have_covariance(node: Node) -> bool:
    """Return whether `node` may contain a covariance, by a cheap test: it is an addition of at most `MAX_TERMS` terms,
    one of which is a product or square of sums (or of reads of stored sums).
    """
    if node.op != "add" or len(node.args) > MAX_TERMS:
        return False
    for term in node.args:
        factors = term.args if term.op == "mul" else (term,)
        squares = [f.args[0] for f in factors if f.op == "pow" and f.args[1].op == "const" and f.args[1].data == 2]
        if any(square.op in ("sum", "read", "mul") for square in squares):
            return True
        if sum(1 for factor in factors if factor.op in ("sum", "read")) >= 2:
            return True
    return False


def _centred(graph: Graph, node: Node, arrays: Mapping[Node, Node]) -> Node | None:
    """Return the addition `node` with a covariance ``mean(x*y) - mean(x)*mean(y)`` in it replaced by the more accurate
    ``mean((x - mean(x))*(y - mean(y)))``; None if it has no such terms.

    `arrays` maps arrays to the formulas of their entries.
    """
    if not _may_have_covariance(node):
        return None
    for product in node.args:
        for factor, one, other in _products_of_sums(graph, product, arrays):
            for term in node.args:
                found = None if term is product else _scaled_sum(graph, term, arrays)
                joined = None if found is None else _covariance(graph, found, factor, one, other)
                if joined is not None:
                    graph.laws["covariance"] = graph.laws.get("covariance", 0) + 1
                    return graph.add((*(arg for arg in node.args if arg is not product and arg is not term), joined))
    return None


def _products_of_sums(
    graph: Graph, product: Node, arrays: Mapping[Node, Node]
) -> Iterator[tuple[Node, ScaledSum, ScaledSum]]:
    """Yield the ways to write `product` as ``c*s*t`` with two sums s and t, as tuples ``(c, s, t)``; for a square
    ``c*s**2`` both are s. A read of a sum that an array in `arrays` stores counts as a sum.
    """
    factors = graph.factors(product)
    for n, factor in enumerate(factors):
        if factor.op == "pow" and factor.args[1].op == "const" and factor.args[1].data == 2:
            found = _scaled_sum(graph, factor.args[0], arrays)
            if found is not None:
                yield graph.mul([*factors[:n], *factors[n + 1 :]]), found, found
    sums = [(factor, found) for factor in factors if (found := _scaled_sum(graph, factor, arrays)) is not None]
    if len(sums) == 2:
        rest = [factor for factor in factors if factor is not sums[0][0] and factor is not sums[1][0]]
        yield graph.mul(rest), sums[0][1], sums[1][1]


def _scaled_sum(graph: Graph, node: Node, arrays: Mapping[Node, Node]) -> ScaledSum | None:
    """Return `node` as a `ScaledSum`, a factor times one sum. The sum may be stored in an array that `node` reads:
    ``arrays`` maps arrays to formulas. None unless exactly one factor of `node` is such a sum.
    """
    found = [
        (factor, value)
        for factor in graph.factors(node)
        if (value := _formula_of_sum(graph, factor, arrays)) is not None
    ]
    if len(found) != 1:
        return None
    total, value = found[0]
    rest = [factor for factor in graph.factors(node) if factor is not total]
    if value.op == "sum":
        return ScaledSum(graph.mul(rest), total, value)
    inner = _scaled_sum(graph, value, {})
    return None if inner is None else ScaledSum(graph.mul((*rest, inner.factor)), inner.total, inner.value)


def _formula_of_sum(graph: Graph, factor: Node, arrays: Mapping[Node, Node]) -> Node | None:
    """Return `factor` if it is a sum, or the formula of a stored entry `factor`, found in `arrays`, if that is a sum or
    a product with one; else None.
    """
    if factor.op == "sum":
        return factor
    entries = arrays.get(factor.args[0]) if factor.op == "read" else None
    if entries is None or entries.shape != factor.args[0].shape:
        return None
    body = graph.entry(entries, factor.data) if entries.op == "comprehension" else entries
    return body if any(part.op == "sum" for part in graph.factors(body)) else None


def _covariance(graph: Graph, products: ScaledSum, factor: Node, one: ScaledSum, other: ScaledSum) -> Node | None:
    """Return ``products + factor*one*other`` in the more accurate form of a covariance, a multiple of ``sum((x -
    mean(x))*(y - mean(y)))``. None unless `products` is a multiple of ``sum(x*y)``, `one` of ``sum(x)`` and `other` of
    ``sum(y)``.
    """
    variables, rows, body = graph.open(one.value)
    count = _count(graph, variables, rows)
    if count is None:
        return None
    own, rows_of_other, body_of_other = graph.open(other.value)
    if len(own) != len(variables):
        return None
    renamed = {v: Affine.variable(w) for v, w in zip(own, variables, strict=True)}
    if {row.substitute(renamed) for row in rows_of_other} != set(rows):
        return None
    body_of_other = graph.substitute(body_of_other, renamed)
    if graph.sum(variables, rows, graph.mul((body, body_of_other))) is not products.value:
        return None
    of_means = graph.mul((factor, one.factor, other.factor, count))
    if graph.add((products.factor, of_means)) is not graph.zero:
        return None
    inverse = graph.pow(count, graph.const(-1))
    distances = [
        graph.add((part, graph.neg(graph.mul((inverse, mean.total)))))
        for part, mean in ((body, one), (body_of_other, other))
    ]
    return graph.mul((products.factor, graph.sum(variables, rows, graph.mul(distances))))


def _count(graph: Graph, variables: tuple[int, ...], rows: Rows) -> Node | None:
    """Return a node for the number of points of `variables` in the range `rows`, if this is rectangular; else None."""
    extents = []
    for v in variables:
        ends = {row.form.coefficient(v): row.form - row.form.coefficient(v) * Affine.variable(v) for row in rows}
        own = [row for row in rows if row.form.coefficient(v)]
        if len(own) != 2 or not {1, -1} <= ends.keys() or any(row.kind != "ge" for row in own):
            return None
        extent = ends[1] + ends[-1] + 1
        if not extent.atoms().isdisjoint(variables):
            return None
        extents.append(graph.index(extent))
    return graph.mul(extents)
