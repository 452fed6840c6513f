"""Constructors of element-wise arithmetic, functions and conditions of whole tensors.

An element-wise node has the shape of its arguments; scalars among these are broadcast. The product is an einsum.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import sympy

from sympy_tensordiff.errors import ShapeError
from sympy_tensordiff.graph.arithmetic import has_guard
from sympy_tensordiff.graph.contractions import Contractions, is_core, is_view
from sympy_tensordiff.graph.interning import Node, Number, Shape

MAX_MERGED_LEVELS = 8
"""The levels of nested `select` nodes to which terms of a sum are merged."""


MAX_FACTORS = 8
"""The factors of a product in which a choice is looked for."""


class Elementwise(Contractions):
    """The constructors of element-wise nodes of whole tensors. For scalars they are those of `Arithmetic`."""

    # -------------------------------------------------------------- arithmetic

    def add(self, terms: Iterable[Node]) -> Node:
        """Return the sum of `terms`: equal terms are collected, selects by one condition merged, and a transpose that
        all terms share is applied to their sum.
        """
        terms = tuple(terms)
        shape = common_shape(terms)
        if not shape:
            return super().add(terms)
        return self._sum_of_tensors(self._merge_select_terms(terms, MAX_MERGED_LEVELS), shape)

    def _merge_select_terms(self, terms: tuple[Node, ...], levels: int) -> tuple[Node, ...]:
        """Merge the selects with the same condition among the ``terms`` of a sum: ``(a if c else b) + (d if c else e)``
        becomes ``a + d if c else b + e``. Selects in the branches are merged as well, ``levels`` deep.

        So the cotangents of the branches of a choice become one choice again, and chains of choices grow linearly.
        """
        chosen = {term: choice for term in terms if levels and (choice := self.split_select(term)) is not None}
        if len(chosen) < 2:
            return terms
        groups: dict[Node, list[Node]] = {}
        for term in terms:
            groups.setdefault(chosen[term][0] if term in chosen else term, []).append(term)
        joined: list[Node] = []
        for condition, group in groups.items():
            if len(group) == 1 or group[0] is condition:
                joined += group
                continue
            branches = []
            for position in (1, 2):
                parts = tuple([self.broadcast(chosen[term][position], term.shape) for term in group])
                branches.append(self._sum_of_tensors(self._merge_select_terms(parts, levels - 1), group[0].shape))
            joined.append(self.select(condition, *branches))
        return tuple(joined)

    def split_select(self, node: Node) -> tuple[Node, Node, Node] | None:
        """Return ``(condition, value, otherwise)`` of a select, or of a product that contains one select with a branch
        0: the other factors are then multiplied into the branches. None for other nodes.

        The choices of a tensor are by entries: a condition on a scalar is a factor in front.
        """
        if node.op == "select":
            return node.args[0], node.args[1], node.args[2]
        if node.op not in ("ein", "mul"):
            return None
        factors = self.factors(node)
        choices = [factor for factor in factors if factor.op == "select"] if len(factors) <= MAX_FACTORS else []
        if len(choices) != 1 or choices[0].shape != node.shape or not any(map(self.is_zero, choices[0].args[1:])):
            return None
        others = [factor for factor in factors if factor is not choices[0]]
        value, rest = (side if self.is_zero(side) else self.mul((*others, side)) for side in choices[0].args[1:])
        return choices[0].args[0], value, rest

    def _sum_of_tensors(self, terms: Sequence[Node], shape: Shape) -> Node:
        """Return the sum of ``terms``, tensors of the given shape and scalars, which are added to all entries."""
        coefficients: dict[Node, Number] = {}
        scalars: list[Node] = []
        for term in terms:
            if term.shape and not term.view:
                coefficients[term] = coefficients.get(term, 0) + 1
                continue
            factor, rest = self.split_view(term)
            if not rest.shape or (inner := _repeated_scalar(self, rest)) is not None:
                scalars.append(self.scale(factor, inner if rest.shape and inner is not None else rest))
            elif not self.is_zero(rest):
                coefficients[rest] = coefficients.get(rest, 0) + factor
        pairs = [(c, rest) for rest, c in coefficients.items() if c != 0]
        scalar = super().add(scalars) if scalars else self.zero
        if not pairs:
            return self.broadcast(scalar, shape)
        if scalar is self.zero and len(pairs) == 1:
            return self.scale(*pairs[0])
        if scalar is self.zero and (joined := self._factor_out_view(pairs)) is not None:
            return joined
        args = tuple([self.scale(c, rest) for c, rest in pairs])
        if scalar is not self.zero:
            args = (*args, scalar)
        return self._node("add", None, args, args, (), shape)

    def _factor_out_view(self, pairs: Sequence[tuple[Number, Node]]) -> Node | None:
        """Return the sum of ``pairs``, each a number times a node, with a common number or transposition taken out:
        ``c*(a + b)`` for ``c*a + c*b``, and ``(a + b).T`` for ``a.T + b.T``. None if the terms share neither.
        """
        factor = pairs[0][0]
        if factor != 1 and all(c == factor for c, _ in pairs):
            return self.scale(factor, self.add([rest for _, rest in pairs]))
        # A delta is the diagonal of ones: it joins the view of another diagonal.
        view = next((rest for _, rest in pairs if rest.args and is_view(rest) and _moves_entries(rest)), None)
        if view is None:
            return None
        inner = []
        for c, rest in pairs:
            if not is_view(rest) or (rest.args and rest.args[0].shape != view.args[0].shape):
                return None
            if rest.data != view.data and rest.data != view.data._replace(inputs=()):
                return None
            inner.append(self.scale(c, rest.args[0]) if rest.args else self.const(c))
        return self.with_operands(view, [self.add(inner)])

    def scale(self, factor: Number, node: Node) -> Node:
        """Return ``factor * node``."""
        if factor == 1:
            return node
        if not node.shape:
            return super().scale(factor, node)
        labels = tuple(range(len(node.shape)))
        return self.ein(factor, [(node, labels)], labels)

    def mul(self, factors: Iterable[Node]) -> Node:
        """Return the element-wise product."""
        factors = tuple(factors)
        shape = common_shape(factors)
        if not shape:
            return super().mul(factors)
        labels = tuple(range(len(shape)))
        return self.ein(1, [(factor, labels if factor.shape else ()) for factor in factors], labels)

    def factors(self, node: Node) -> tuple[Node, ...]:
        """Return the factors of an element-wise product; for another node, the node as its only factor."""
        if node.op == "mul":
            return node.args
        scaled = node.view and node.data.is_multiple
        core = node.args[0] if scaled else node
        if not is_core(core) or not core.shape:
            return (node,)
        if any(labels and labels != core.data.output for labels in core.data.inputs):
            return (node,)
        return (self.const(node.data.coefficient), *core.args) if scaled else core.args

    def pow(self, base: Node, exponent: Node) -> Node:
        """Return ``base**exponent``, entry by entry."""
        shape = common_shape((base, exponent))
        if not shape:
            return super().pow(base, exponent)
        base, exponent = self._unbroadcast(base, shape), self._unbroadcast(exponent, shape)
        return self.broadcast(super().pow(base, exponent), shape)

    # -------------------------------------------------------------- functions and conditions

    def call(self, function: Any, args: Sequence[Node]) -> Node:
        """Return the function applied to tensors entry by entry; ``log(exp(x))`` and ``exp(log(x))`` become ``x``."""
        shape = common_shape(args)
        args = [self._unbroadcast(arg, shape) for arg in args] if shape else tuple(args)
        known = _cancel_inverse(function, args[0]) if len(args) == 1 and (shape or args[0].has_tensor_ops) else None
        value = super().call(function, args) if known is None else known
        return self.broadcast(value, shape) if shape else value

    def compare(self, relation: str, left: Node, right: Node) -> Node:
        """Return the comparison ``left relation right`` of tensors, entry by entry; ``relation`` is "lt", "le", "eq" or
        "ne".
        """
        shape = common_shape((left, right))
        if not shape:
            return super().compare(relation, left, right)
        return super().compare(relation, self._unbroadcast(left, shape), self._unbroadcast(right, shape))

    def logic(self, op: str, args: Sequence[Node]) -> Node:
        """Return the conditions ``args`` joined by `op`, "and", "or" or "not", entry by entry."""
        return super().logic(op, [self._push_view_into_condition(arg) for arg in args])

    def _push_view_into_condition(self, condition: Node) -> Node:
        """Move a transpose or repetition from a condition to the operands that it compares: ``(x < y).T`` becomes ``x.T
        < y.T``. Another condition is unchanged.
        """
        if not (is_view(condition) and condition.args):
            return condition
        inner = condition.args[0]
        args = [self.with_operands(condition, [arg]) if arg.shape == inner.shape else arg for arg in inner.args]
        if inner.op == "compare":
            return self.compare(inner.data, *args)
        return self.logic(inner.op, args) if inner.op in ("and", "or", "not") else condition

    def select(self, condition: Node, value: Node, otherwise: Node) -> Node:
        """Return ``value if condition else otherwise``, entry by entry."""
        if otherwise is self.zero and self._is_rectified(condition, value):
            return value
        shape = common_shape((condition, value, otherwise))
        if not shape:
            return super().select(condition, value, otherwise)
        condition, value, otherwise = (self._unbroadcast(arg, shape) for arg in (condition, value, otherwise))
        condition = self._push_view_into_condition(condition)
        if any(arg.op == "guard" or has_guard(arg) for arg in (value, otherwise)):  # of numbers: they stay inside
            return self.broadcast(self._plain("select", None, (condition, value, otherwise)), shape)
        return self.broadcast(super().select(condition, value, otherwise), shape)

    def _is_rectified(self, condition: Node, value: Node) -> bool:
        """Return whether a select of ``value`` and 0 needs no condition: the ``condition`` is ``u > 0``, and ``value``
        is a product of ``max(0, u)`` and finite factors, which is 0 itself wherever the condition fails.
        """
        if condition.op != "compare" or condition.data != "lt" or condition.args[0] is not self.zero:
            return False
        factors = self.factors(self.split_view(value)[1])
        zero = any(f.op == "call" and f.data is sympy.Max and {*f.args} == {*condition.args} for f in factors)
        return zero and all(f.total or _is_parameter(f) for f in factors)

    def _unbroadcast(self, node: Node, shape: Shape) -> Node:
        """Return the scalar ``c`` if `node` is a tensor of the given `shape` in which each entry is ``c``; otherwise
        `node` itself.
        """
        if node.shape != shape:
            return node
        inner = _repeated_scalar(self, node)
        return node if inner is None else inner


def common_shape(nodes: Sequence[Node]) -> Shape:
    """Return the shape of element-wise arguments, ``()`` if all are scalars; raise ShapeError if two shapes differ."""
    shape: Shape = ()
    for node in nodes:
        if node.shape and node.shape is not shape:
            if shape and node.shape != shape:
                raise ShapeError(f"shapes {shape} and {node.shape} differ; only scalars are broadcast")
            shape = node.shape
    return shape


def _is_parameter(node: Node) -> bool:
    """Return whether `node` is a number, a scalar symbol, an index form, or a power of these."""
    return node.op in ("const", "scalar", "index") or (node.op == "pow" and all(map(_is_parameter, node.args)))


def _repeated_scalar(graph: Contractions, node: Node) -> Node | None:
    """Return the scalar that a tensor contains at every entry; None if the tensor is not constant."""
    if node.op != "ein" or len(set(node.data.output)) != len(node.data.output) or len(node.args) > 1:
        return None
    if not node.args:
        return graph.const(node.data.coefficient)
    return graph.scale(node.data.coefficient, node.args[0]) if not node.args[0].shape else None


def _moves_entries(view: Node) -> bool:
    """Return whether `view` transposes or repeats its operand, so that entries change their positions. False if it only
    multiplies the operand by a number.
    """
    return bool(view.data.inputs[0] != view.data.output)


def _cancel_inverse(function: Any, argument: Node) -> Node | None:
    """Return ``x`` for ``log(exp(x))`` and ``exp(log(x))``; None for any other `function` of an `argument`."""
    inverse = {sympy.log: sympy.exp, sympy.exp: sympy.log}.get(function)
    return argument.args[0] if inverse is not None and argument.op == "call" and argument.data is inverse else None
