"""Differences of log-sum-exps of whole tensors, and of softmaxes, whose exponents are close.

With ``d = u - v``, where that has fewer terms than `u` or `v`, and the softmax ``p = exp(v - logsumexp(v))``::

    logsumexp(u) - logsumexp(v)     D = log1p(q), q = sum(p*expm1(d))       where -9/10 < q < 2**20
    softmax(u) - softmax(v)         p*expm1(d - D)                          where abs(d - D) < 1

Elsewhere, both terms are computed, and subtracted. For index notation, there are the same laws in `nearby`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import sympy
from sympy.codegen.cfunctions import expm1, log1p

from sympy_tensordiff.graph.interning import Number
from sympy_tensordiff.graph.nodes import BINDERS, Graph, Node, reachable
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.simplify.nearby import has_fewer_terms, is_log1p_better, minus


class _Term(NamedTuple):
    """A term ``number*core`` of an addition, where ``core`` is a log-sum-exp or the softmax ``exp(u - log_sum)``;
    ``log_sum`` is the log-sum-exp in both cases.
    """

    number: Number
    core: Node
    log_sum: Node


def with_close_log_sums(graph: Graph, roots: Sequence[Node]) -> list[Node]:
    """Return `roots` with differences of two log-sum-exps, or of two softmaxes, rewritten to keep their digits where
    the exponents are close.
    """
    parts = reachable(*roots)
    if sum(part.op == "lse" for part in parts) < 2:
        return list(roots)
    done: dict[Node, Node] = {}
    for part in parts:
        new = part if part.op in BINDERS else graph.with_args(part, [done[arg] for arg in part.args])
        done[part] = _difference(graph, new) if new.op == "add" else new
    return [done[root] for root in roots]


def _difference(graph: Graph, node: Node) -> Node:
    """Return the addition `node` with each difference ``c*logsumexp(u) - c*logsumexp(v)``, or such a difference of
    softmaxes, rewritten as one accurate term if possible; else `node` itself.
    """
    found = [(arg, term) for arg in node.args if (term := _as_term(graph, arg)) is not None]
    for first, one in found:
        for second, other in found:
            if one.number != -other.number or one.core.op != other.core.op:
                continue
            joined = _accurate_sum(graph, one, other)
            if joined is not None:
                graph.laws["log-sum-exps"] = graph.laws.get("log-sum-exps", 0) + 1
                rest = [arg for arg in node.args if arg is not first and arg is not second]
                return _difference(graph, graph.add((*rest, joined))) if rest else joined
    return node


def _as_term(graph: Graph, node: Node) -> _Term | None:
    """Return `node` as a multiple of a log-sum-exp or of a softmax; None for other terms."""
    number, core = graph.split_view(node)
    if core.op == "lse":
        return _Term(number, core, core)
    exponent = core.args[0] if core.op == "call" and core.data is sympy.exp else None
    for part in exponent.args if exponent is not None and exponent.op == "add" else ():
        factor, spread = graph.split_view(part)
        log_sum = spread.args[0] if spread.op == "ein" and len(spread.args) == 1 else spread
        if factor == -1 and log_sum.op == "lse" and _softmax(graph, log_sum) is core:
            return _Term(number, core, log_sum)
    return None


def _accurate_sum(graph: Graph, one: _Term, other: _Term) -> Node | None:
    """Return ``one + other``, a difference of two log-sum-exps or softmaxes, in a form that keeps its digits; None
    unless their exponents differ by an expression with fewer terms.
    """
    (u,), (v,) = one.log_sum.args, other.log_sum.args
    if has_fewer_terms(u, v):  # `v` has fewer rounding errors then
        return _accurate_sum(graph, other, one)
    if one.log_sum.data != other.log_sum.data or u.shape != v.shape:
        return None
    d = minus(graph, u, v)
    if not has_fewer_terms(d, u):
        return None
    softmax, labels = _softmax(graph, other.log_sum), tuple(range(len(v.shape)))
    remaining = tuple([label for label in labels if label not in other.log_sum.data])
    sizes: dict[Hashable, Affine] = dict(enumerate(v.shape))
    share = graph.ein(
        1, [(softmax, labels), (graph.call(expm1, (graph.broadcast(d, v.shape),)), labels)], remaining, sizes
    )
    difference = graph.add((one.log_sum, graph.neg(other.log_sum)))
    logarithm = graph.select(is_log1p_better(graph, share), graph.call(log1p, (share,)), difference)
    if one.core.op == "lse":
        return graph.scale(one.number, logarithm)
    step = graph.add((d, graph.ein(-1, [(logarithm, remaining)], labels, sizes)))
    is_small = graph.compare("lt", graph.call(sympy.Abs, (step,)), graph.one)
    close = graph.ein(1, [(softmax, labels), (graph.call(expm1, (step,)), labels)], labels)
    return graph.scale(one.number, graph.select(is_small, close, graph.add((one.core, graph.neg(other.core)))))


def _softmax(graph: Graph, log_sum: Node) -> Node:
    """Return ``exp(v - logsumexp(v))`` for ``logsumexp(v)``."""
    (v,) = log_sum.args
    labels = tuple(range(len(v.shape)))
    remaining = tuple([label for label in labels if label not in log_sum.data])
    spread = graph.ein(-1, [(log_sum, remaining)], labels, dict(enumerate(v.shape)))
    return graph.call(sympy.exp, (graph.add((v, spread)),))
