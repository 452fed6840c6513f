"""Rules for one node of whole tensors: terms that cancel or join, sums that cancel, and symmetric products."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from operator import and_
from typing import NamedTuple

import sympy

from sympy_tensordiff.graph.contractions import is_core, is_view
from sympy_tensordiff.graph.einsum_normal_form import Labels, Operand, in_order
from sympy_tensordiff.graph.einsums import ELEMENTWISE
from sympy_tensordiff.graph.nodes import Graph, Node, reachable
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.simplify.canonical_signs import content_of
from sympy_tensordiff.simplify.products import (
    ContractionParts,
    Uses,
    build,
    cancelled,
    counted,
    inner_parts,
    may_cancel,
    product_of,
    rewritten,
    summed_axes,
    without_factor_of_inverse,
)
from sympy_tensordiff.simplify.symmetry import (
    is_symmetric,
    multiplied_out,
    with_axes_in_order,
    with_equal_terms_joined,
)

LEVELS = 4
"""The depth to which sums within sums are searched for terms that cancel."""


class Facts(NamedTuple):
    """The data that the rules of this module need: how often each node is used, and which matrices are known to be
    symmetric.
    """

    uses: Uses
    symmetric: dict[Node, bool]


Rule = Callable[[Graph, Node, Facts], Node | None]


def recognise(
    graph: Graph, roots: Sequence[Node], nodes: Sequence[Node] | None = None, rules: Rules | None = None
) -> list[Node]:
    """Return `roots` with the rules of this module, such as ``log(sum(exp(u)))`` to log-sum-exp, applied to each node
    until none applies any more.

    A function is better recognised before it is differentiated: the derivatives are short, and finite where an
    exponential overflows.

    `nodes` are all nodes below the roots, arguments first, if known; `rules` are the rules by op (default: all).
    """
    if not any(root.has_tensor_ops for root in roots):
        return list(roots)
    chosen = RULES if rules is None else rules
    nodes = reachable(*roots) if nodes is None else nodes
    facts = Facts(counted(nodes, roots), graph.symmetric | dict.fromkeys(graph.asymmetric, False))

    def rewriting(node: Node) -> Node:
        """Apply the rules for whole tensors to `node` until none applies, and return the result. If it is a square
        matrix, record in ``facts`` whether it is symmetric.
        """
        while True:
            for rule in chosen.get(node.op, ()):
                found = rule(graph, node, facts)
                if found is not None and found is not node:
                    node = found
                    break
            else:
                if len(node.shape) == 2 and node.shape[0] == node.shape[1] and node not in facts.symmetric:
                    facts.symmetric[node] = is_symmetric(graph, node, facts.symmetric)
                return node

    new = rewritten(graph, roots, nodes, rewriting, facts.uses)
    for matrix, answer in facts.symmetric.items():  # being in ``graph.symmetric`` is the test of a symmetric one
        if answer:
            graph.symmetric[matrix] = True
        else:
            graph.asymmetric.add(matrix)
    return new


# ---------------------------------------------------------------- functions


def _logsumexp(graph: Graph, node: Node, facts: Facts) -> Node | None:
    """Return the log-sum-exp node for ``log(sum(exp(u)))``; None for other nodes."""
    axes = summed_axes(node.args[0]) if node.data is sympy.log else None
    return None if axes is None else graph.logsumexp(axes, node.args[0].args[0].args[0])


def _join_in_inner_addition(graph: Graph, node: Node, facts: Facts) -> Node | None:
    """Rewrite an addition such as ``x*(a + b) + c*x*a``, with a number c, as ``x*((1 + c)*a + b)``. Return None if
    `node` has no such terms. ``facts`` is not used here; all rules take it.
    """
    found = with_terms_joined(graph, node)
    return None if found is node else found


def with_terms_joined(graph: Graph, node: Node) -> Node:
    """Return the addition `node` with terms joined as in ``x*(1 - a) - x*a``, which is ``x*(1 - 2*a)``; unchanged
    without such terms.
    """
    split = [graph.split_view(term) for term in node.args]
    products = [graph.factors(core) for _, core in split]
    for n, (number, _) in enumerate(split):
        for addition in products[n] if not isinstance(number, float) else ():
            parts = [graph.split_view(part) for part in addition.args] if addition.op == "add" else []
            rest = [factor for factor in products[n] if factor is not addition]
            for m, (other, _) in enumerate(split) if parts else ():
                left = [factor for factor in products[m] if factor not in rest]
                if m == n or len(left) + len(rest) != len(products[m]) or isinstance(other, float):
                    continue
                product = graph.mul(left)
                if any(core is product for _, core in parts):
                    more = other / Fraction(number)
                    terms = [graph.scale(own + more * (core is product), core) for own, core in parts]
                    new = [graph.mul([*rest, graph.broadcast(graph.add(terms), addition.shape)])] if rest else terms
                    others = [term for k, term in enumerate(node.args) if k not in (n, m)]
                    new = [graph.broadcast(graph.scale(number, term), node.shape) for term in new]
                    found = graph.add([*others, *new])
                    return with_terms_joined(graph, found) if found.op == "add" else found
    return node


def _opposite_terms(graph: Graph, node: Node, facts: Facts) -> Node | None:
    """Rewrite ``(x - y) - (x - z)`` as ``z - y``, where terms of inner additions cancel; None if none do or the result
    has more terms.
    """
    split = [graph.split_view(term) for term in node.args]
    inner = [core.args if core.op == "add" and core.shape == node.shape else (core,) for _, core in split]
    if all(len(terms) == 1 for terms in inner):
        return None
    found = graph.add([graph.scale(c, term) for (c, _), terms in zip(split, inner, strict=True) for term in terms])
    return graph.broadcast(found, node.shape) if _number_of_terms(found) <= len(node.args) else None


def _number_of_terms(node: Node) -> int:
    """Return the number of terms of a sum, also if it is scaled or transposed; 1 for another node."""
    core = node.args[0] if is_view(node) and node.args else node
    return len(core.args) if core.op == "add" else 1


def _equal_products(graph: Graph, node: Node, facts: Facts) -> Node | None:
    """Rewrite ``(A B) C + A (B C)``, one product in two groupings, as ``2 A (B C)``; None without such terms."""
    return with_equal_terms_joined(graph, node, facts.symmetric)


def _unit_circle(graph: Graph, node: Node, facts: Facts) -> Node | None:
    """Rewrite ``a*sin(u)**2 + a*cos(u)**2`` as ``a``; None without such terms."""
    found = without_circles(graph, node)
    return None if found is node else found


def without_circles(graph: Graph, node: Node) -> Node:
    """Return the addition `node` with ``a`` for ``a*sin(u)**2 + a*cos(u)**2``; unchanged without such terms."""
    for term in node.args:
        factors = graph.factors(term)
        for factor in factors:
            if factor.op == "pow" and factor.args[1].data == 2 and getattr(factor.args[0], "data", None) is sympy.sin:
                rest = graph.mul([other for other in factors if other is not factor])
                square = graph.pow(graph.call(sympy.cos, factor.args[0].args), factor.args[1])
                partner = graph.mul((rest, square))
                if partner in node.args:
                    left = [other for other in node.args if other is not term and other is not partner]
                    found = graph.add([graph.broadcast(rest, node.shape), *left])
                    return without_circles(graph, found) if found.op == "add" else found
    return node


def _common_coefficient(graph: Graph, node: Node, facts: Facts) -> Node | None:
    """Return `node`, an addition of tensors such as ``c*y - c*x``, as ``c*(y - x)``. None unless all coefficients are c
    or -c for an exact number c other than 1.

    None, too, unless some ``y`` with the coefficient c is computed, not a view.
    """
    if not node.shape:
        return None
    split = [graph.split_view(term) for term in node.args]
    factor = max(factor for factor, _ in split)
    if isinstance(factor, float) or factor == 1 or any(abs(other) != factor for other, _ in split):
        return None
    if all(is_view(rest) or rest is graph.one or other < 0 for other, rest in split):
        return None
    return graph.scale(factor, graph.add([graph.scale(other / Fraction(factor), rest) for other, rest in split]))


def _function_inside_view(graph: Graph, node: Node, facts: Facts) -> Node | None:
    """Rewrite a function of a transposed or repeated tensor as the transposed or repeated function: ``exp(c*u.T)`` as
    ``exp(c*u).T``. None for other nodes.
    """
    view = node.args[0]
    if not is_view(view) or not view.args or any(arg.shape for arg in node.args[1:]):
        return None
    coefficient, (labels,), output, extents = view.data
    if labels == output or len(set(labels)) != len(labels) or len(set(output)) != len(output):
        return None
    inner = graph.rebuild(node, (graph.scale(coefficient, view.args[0]), *node.args[1:]))
    return graph.ein(1, [(inner, labels)], output, dict(enumerate(extents)))


def _scalar_inside(graph: Graph, node: Node, facts: Facts) -> Node | None:
    """Return an addition of a scalar and a transposed or repeated tensor with the scalar inside, ``(1 + u).T`` for
    ``1 + u.T``; None for other additions.
    """
    terms = [term for term in node.args if term.shape]
    if not terms or len(terms) == len(node.args):
        return None
    view = graph.add(terms)
    if not is_view(view) or not view.args or not view.args[0].shape:
        return None
    coefficient, (labels,), output, extents = view.data
    if labels == output or len(set(labels)) != len(labels) or len(set(output)) != len(output):
        return None
    scalars = [term for term in node.args if not term.shape]
    inner = graph.add([graph.scale(coefficient, view.args[0]), *scalars])
    return graph.ein(1, [(inner, labels)], output, dict(enumerate(extents)))


def _power(graph: Graph, node: Node, facts: Facts) -> Node | None:
    """Rewrite ``(x**a)**n`` as ``x**(a n)``, ``exp(u)**-n`` as ``exp(-u)**n``, ``abs(x)**(2 n)`` as ``x**(2 n)``; None
    for other powers.
    """
    base, power = node.args[0], _integer(node.args[1])
    if not power:
        return None
    if base.op == "pow" and base.args[1].op == "const":
        return graph.pow(base.args[0], graph.mul((base.args[1], node.args[1])))
    if base.op == "call" and base.data is sympy.exp and power < 0:
        return graph.pow(graph.call(sympy.exp, (graph.scale(-1, base.args[0]),)), graph.const(-power))
    if base.op == "call" and base.data is sympy.Abs and power % 2 == 0:
        return graph.pow(base.args[0], node.args[1])
    return None


def _roots_outside(graph: Graph, node: Node, facts: Facts) -> Node | None:
    """Rewrite ``(sqrt(2) x)**2`` as ``2 x**2``, without roots of numbers; None where none can be removed."""
    power = _integer(node.args[1])
    factor, core = graph.split_view(node.args[0])
    if not power or not is_core(core) or len(core.data.output) < len(core.data.extents):
        return None
    roots: list[Node] = []
    rest: list[Operand] = []
    for arg, labels in zip(core.args, core.data.inputs, strict=True):
        own = [] if labels else [f for f in graph.factors(arg) if f.op == "pow" and f.args[0].op == "const"]
        roots += own
        rest.append((graph.mul([f for f in graph.factors(arg) if f not in own]) if own else arg, labels))
    number = graph.pow(graph.mul((graph.const(factor), *roots)), node.args[1])
    if not roots or number.op != "const" or not any(labels for _, labels in rest):
        return None
    inner = graph.ein(1, rest, core.data.output, dict(enumerate(core.data.extents)))
    return graph.scale(number.data, graph.pow(inner, node.args[1]))


def _integer(exponent: Node) -> int:
    """Return the value of a constant integer exponent; 0 for all others."""
    return exponent.data if exponent.op == "const" and isinstance(exponent.data, int) else 0


# ---------------------------------------------------------------- choices


def _before_choice(graph: Graph, node: Node, facts: Facts) -> Node | None:
    """Move finite factors that all branches of a select share in front of it: ``(u if c else u/2)`` is ``u*(1 if c else
    1/2)``. None if there are none.
    """
    leaves = _leaves(graph, node) if node.shape else []
    if len(leaves) < 2:
        return None
    factors = {leaf: Counter(_factors(graph, leaf)) for leaf in leaves}
    common = reduce(and_, factors.values())  # each as often as in every value: r of r**2 and r
    common = Counter({f: count for f, count in common.items() if f.op != "const" and _is_finite(f)})

    def rest(part: Node) -> Node:
        """Return `part`, a select or a value of one, without the factors in ``common``, which all its values have: ``a
        if c else b`` for ``x*a if c else x*b``.

        The enclosing function multiplies the result by ``common``.
        """
        if part is node or (graph.is_choice(part) and part not in factors):
            return graph.select(part.args[0], *map(rest, part.args[1:]))
        return graph.mul([*(factors[part] - common).elements()]) if part in factors else part

    return graph.mul([*common.elements(), rest(node)]) if common else None


def _leaves(graph: Graph, choice: Node) -> list[Node]:
    """Return the nonzero values between which the select `choice`, with the selects nested in its branches, chooses."""
    sides = [side for side in choice.args[1:] if not graph.is_zero(side)]
    return [leaf for side in sides for leaf in (_leaves(graph, side) if graph.is_choice(side) else [side])]


def _factors(graph: Graph, node: Node) -> tuple[Node, ...]:
    """Return the factors of an element-wise product. A factor that is itself a product is replaced by its factors."""
    return tuple(part for factor in graph.factors(node) for part in graph.factors(factor))


def _is_finite(factor: Node) -> bool:
    """Return whether `factor` is known to be finite for all finite inputs. A power of an index with a constant exponent
    counts as finite.
    """
    return factor.total or (factor.op == "pow" and factor.args[0].op == "index" and factor.args[1].op == "const")


# ---------------------------------------------------------------- products


def _with_product_rules(graph: Graph, node: Node, facts: Facts) -> Node | None:
    """Return the product `node` after the rules of `products`, such as ``inv(A) A`` to ``1``; None if none applies.
    ``facts`` is not used.
    """
    return with_factors_cancelled(graph, node)


def with_factors_cancelled(graph: Graph, node: Node) -> Node | None:
    """Return the product `node` without factors that cancel, by the rules of the module `products`: ``x`` for ``x
    exp(u) exp(-u)``. None if no factors cancel, or `node` is not a product.
    """
    if node.op not in ("ein", "mul"):
        return None
    args = node.args if node.op == "ein" else [part for part, _ in product_of(graph, node).parts]
    found = cancelled(graph, product_of(graph, node)) if may_cancel(args) else None
    return None if found is None else build(graph, found)


def _factor_of_inverse(graph: Graph, node: Node, facts: Facts) -> Node | None:
    """Return the product `node` with ``inv(F R) F`` in it, for matrices F and R, replaced by ``inv(R)``; None without
    such operands.
    """
    found = without_factor_of_inverse(graph, product_of(graph, node), facts.uses)
    return None if found is None else build(graph, found)


def _inverse_of_operand(graph: Graph, node: Node, facts: Facts) -> Node | None:
    """Return a product such as ``(1 - inv(F F^T)) F`` multiplied out, here ``F - inv(F)^T``, if an inverse then
    cancels; else None.
    """
    product = product_of(graph, node)
    for n, (addition, own) in enumerate(product.parts):
        if addition.op != "add" or not any(graph.split_view(term)[1].op == "inv" for term in addition.args):
            continue
        rest = product._replace(parts=product.parts[:n] + product.parts[n + 1 :])
        terms = [graph.split_view(_summed(graph, rest, addition.shape, term, own)) for term in addition.args]
        found = [with_factors_cancelled(graph, core) or _factor_of_inverse(graph, core, facts) for _, core in terms]
        if any(found):
            number = Fraction(content_of([c for c, _ in terms]))
            new = [graph.scale(c / number, f or core) for f, (c, core) in zip(found, terms, strict=True)]
            return graph.scale(number, graph.add(new))
    return None


def _cancelling_sums(graph: Graph, node: Node, facts: Facts) -> Node | None:
    """Rewrite the sum over an addition as a sum for each term if terms then cancel: ``sum(x - sum(x)/n)`` becomes 0.
    None if no terms cancel.
    """
    return _cancelled_terms(graph, node, LEVELS)


def _cancelled_terms(graph: Graph, node: Node, levels: int) -> Node | None:
    """Return `node` with sums taken term by term, ``Sum(a + b)`` as ``Sum(a) + Sum(b)``, if terms then cancel, also in
    sums nested up to `levels` deep; None if none cancel.
    """
    for terms in _distributions(graph, node):
        found = graph.add([_without_zero(graph, term, levels) for term in terms])
        has_number = any(term.op == "const" for term in found.args)  # the sum of a softmax
        if _number_of_terms(found) < len(terms) or has_number:
            return found
    return None


def _distributions(graph: Graph, node: Node, *, is_alone: bool = True) -> Iterator[list[Node]]:
    """Multiply out the contraction `node` by one of its operands that is an addition, and yield the resulting terms as
    a list: ``[A x, B x]`` for ``(A + B) x``. There is one list for each such operand. With `is_alone`, the addition
    must have a summed index that no other operand has.
    """
    product = product_of(graph, node)
    product = product._replace(parts=multiplied_out(product.parts))
    labels = Counter(label for _, own in product.parts for label in own)
    for n, (addition, own) in enumerate(product.parts):
        summed = [label for label in own if label not in product.output]
        if addition.op == "add" and any(labels[label] == 1 or not is_alone for label in summed):
            rest = product._replace(parts=product.parts[:n] + product.parts[n + 1 :])
            terms = [_summed(graph, rest, addition.shape, term, own) for term in addition.args]
            cores = [graph.split_view(term) if not term.shape else (1, term) for term in terms]
            yield [graph.scale(number, with_factors_cancelled(graph, core) or core) for number, core in cores]


def _distributed(graph: Graph, node: Node, facts: Facts) -> Node | None:
    """Return the addition `node` with one product in it multiplied out, if the resulting terms cancel with other terms:
    ``(a + b) @ x - a @ x`` becomes ``b @ x``. None if this makes no addition shorter.
    """
    for term in node.args:
        coefficient, core = graph.split_view(term)
        is_sum = core.op in ("ein", "mul") and core.shape == term.shape
        for terms in _distributions(graph, core, is_alone=False) if is_sum else ():
            rest = [other for other in node.args if other is not term]
            found = graph.add([*rest, *(graph.scale(coefficient, own) for own in terms)])
            if _number_of_terms(found) < len(node.args):
                return graph.broadcast(found, node.shape)
    return None


def _without_zero(graph: Graph, term: Node, levels: int) -> Node:
    """Return 0 if `term` is a sum whose terms all cancel, looking at most `levels` nested sums deep; else `term`
    itself.
    """
    _, core = graph.split_view(term)
    found = _cancelled_terms(graph, core, levels - 1) if core.op in ("ein", "mul") and levels else None
    return term if found is None or not graph.is_zero(found) else found


def _summed(graph: Graph, product: ContractionParts, shape: tuple[Affine, ...], term: Node, labels: Labels) -> Node:
    """Return the contraction `product` with one more operand: `term`, whose axes have `labels`. A scalar `term` is
    repeated along these axes by a tensor of ones of this `shape`.
    """
    coefficient, term = graph.split_view(term)
    ones = (graph.filled(1, shape), labels)
    parts: list[Operand] = [(term, labels)] if term.shape else [ones, *((factor, ()) for factor in graph.factors(term))]
    if is_view(term) and term.args and is_core(term.args[0]) and len(set(term.data.output)) == len(labels):
        named = dict(zip(term.data.output, labels, strict=True))
        parts = [ones, *inner_parts(term.args[0], [named[label] for label in term.data.inputs[0]])]
    parts = [*product.parts, *multiplied_out(parts, level=1)]
    return build(graph, product._replace(coefficient=coefficient * product.coefficient, parts=parts))


def _symmetric_transposed(graph: Graph, node: Node, facts: Facts) -> Node | None:
    """Rewrite the transpose of a symmetric matrix S, such as ``S = X^T X``, as S itself, with the same coefficient;
    None for other nodes.
    """
    if not is_view(node) or not node.args:
        return None
    coefficient, (labels,), output, _ = node.data
    if labels == output or len(labels) != 2 or labels != output[::-1] or not facts.symmetric.get(node.args[0]):
        return None
    return graph.scale(coefficient, node.args[0])


def _with_labels_in_order(graph: Graph, node: Node, facts: Facts) -> Node | None:
    """Return the product `node` with symmetric operands ``S[j, i]`` written as ``S[i, j]`` if i comes before j among
    its labels; antisymmetric operands get a minus sign. None if nothing changes.
    """
    if not is_core(node):
        return None
    _, inputs, output, extents = node.data
    given: list[Operand] = list(zip(node.args, inputs, strict=True))
    sign, parts = with_axes_in_order(graph, in_order(given, output, facts.symmetric), output)
    return None if parts == given else graph.ein(sign, parts, output, dict(enumerate(extents)))


def _numbers_outside(graph: Graph, node: Node, facts: Facts) -> Node | None:
    """Move numbers in front of the contraction `node`: ``F (2*A - 2*B)`` becomes ``2*F (A - B)``, because all terms
    have the factor 2 up to the sign. None if no operand has such a number.
    """
    if not is_core(node):
        return None
    parts, factor = list(node.args), Fraction(1)
    for n, arg in enumerate(parts):
        split = [graph.split_view(term) for term in arg.args] if arg.op == "add" else []
        content = content_of([number for number, _ in split]) if split else 1
        if content != 1 and all(abs(number) == content for number, _ in split):
            factor *= content
            parts[n] = graph.add([graph.scale(1 if number > 0 else -1, core) for number, core in split])
    if factor == 1:
        return None
    _, inputs, output, extents = node.data
    return graph.ein(factor, zip(parts, inputs, strict=True), output, dict(enumerate(extents)))


def _diagonal(graph: Graph, node: Node, facts: Facts) -> Node | None:
    """Return the product `node` with the diagonal of an elementwise function replaced by the function of diagonals,
    ``f(x[:, None], y)[i, i]`` by ``f(x, y)[i]``, which needs no matrix. None if no operand is such a diagonal.
    """
    coefficient, inputs, output, extents = node.data
    parts = list(zip(node.args, inputs, strict=True))
    found = [_with_diagonals(graph, arg, labels) for arg, labels in parts]
    if found == parts:
        return None
    return graph.ein(coefficient, found, output, dict(enumerate(extents)))


def _with_diagonals(graph: Graph, arg: Node, labels: tuple[int, ...]) -> Operand:
    """Return the operand ``(arg, labels)`` without its repeated labels: ``exp(A)[i, i]`` becomes ``exp(d)[i]``, where
    ``d`` is the diagonal of ``A``. Only element-wise functions of repeated or transposed tensors are changed.
    """
    own = tuple(dict.fromkeys(labels))
    tensors = [part for part in arg.args if part.shape]
    if len(own) == len(labels) or arg.op not in ELEMENTWISE or not all(map(_is_repeated, tensors)):
        return arg, labels
    parts = [graph.ein(1, [(part, labels)], own) if part.shape else part for part in arg.args]
    # The diagonal of exp(x[:, None] - x) is a number.
    shape = tuple(arg.shape[labels.index(label)] for label in own)
    return graph.broadcast(graph.rebuild(arg, parts), shape), own


def _is_repeated(tensor: Node) -> bool:
    """Return whether `tensor` is a view, such as a vector repeated along an axis, or made of views entry by entry."""
    if tensor.op in ELEMENTWISE:
        return all(_is_repeated(part) for part in tensor.args if part.shape)
    return _is_repeated(tensor.args[0]) if tensor.view and tensor.data.is_multiple else is_view(tensor)


Rules = Mapping[str, Sequence[Rule]]

RULES: Rules = {
    "call": (_logsumexp, _function_inside_view),
    "pow": (_power, _roots_outside, _function_inside_view),
    "add": (
        _scalar_inside,
        _join_in_inner_addition,
        _opposite_terms,
        _distributed,
        _equal_products,
        _unit_circle,
        _common_coefficient,
    ),
    "select": (_before_choice,),
    "ein": (
        _diagonal,
        _symmetric_transposed,
        _with_labels_in_order,
        _with_product_rules,
        _factor_of_inverse,
        _inverse_of_operand,
        _numbers_outside,
        _cancelling_sums,
    ),
}

ORDERED: Rules = {"ein": (_with_labels_in_order,)}
"""What makes two products with a symmetric operand one."""

WITHOUT_TRANSPOSES: Rules = {"ein": (_diagonal, _symmetric_transposed, _with_labels_in_order)}
"""The same rules, without those that drop transposes of symmetric matrices."""

SINGLE: tuple[Rules, ...] = tuple({op: (rule,)} for op, rules in RULES.items() for rule in rules)
"""The rules one by one."""
