"""Whole tensors in arithmetic, functions and conditions, entry by entry.

An element-wise node has the shape of its arguments, of which some may be scalars: those stand for
every entry. The product is an einsum.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import sympy

from sympy_tensordiff.errors import ShapeError
from sympy_tensordiff.graph.contractions import Contractions, is_core, is_view
from sympy_tensordiff.graph.interning import Node, Number, Shape

CHOICES = 8
"""Choices in the branches of choices are joined so many levels deep."""


MOST_FACTORS = 8
"""Longer products are not looked at for a choice among their factors."""


class Elementwise(Contractions):
    """The constructors of element-wise nodes, on scalars those of `Arithmetic`."""

    # -------------------------------------------------------------- arithmetic

    def add(self, terms: Iterable[Node]) -> Node:
        """The sum; equal addends are collected, a view that all addends share stands outside."""
        terms = tuple(terms)
        shape = common_shape(terms)
        if not shape:
            return super().add(terms)
        return self._sum_of_tensors(self._with_joined_choices(terms, CHOICES), shape)

    def _with_joined_choices(self, terms: tuple[Node, ...], levels: int) -> tuple[Node, ...]:
        """The terms, those that choose by one condition as one choice between sums, in which the same is done.

        So that the cotangents of the branches of a choice are one choice again, and chains of choices grow linearly.
        """
        chosen = {term: choice for term in terms if levels and (choice := self.chosen(term)) is not None}
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
            sides = []
            for position in (1, 2):
                parts = tuple([self.broadcast(chosen[term][position], term.shape) for term in group])
                sides.append(self._sum_of_tensors(self._with_joined_choices(parts, levels - 1), group[0].shape))
            joined.append(self.select(condition, *sides))
        return tuple(joined)

    def chosen(self, node: Node) -> tuple[Node, Node, Node] | None:
        """The condition, the value and the rest of a choice, or of a product with one between something and 0."""
        if node.op == "select":
            return node.args[0], node.args[1], node.args[2]
        if node.op not in ("ein", "mul"):
            return None
        factors = self.factors(node)
        choices = [factor for factor in factors if factor.op == "select"] if len(factors) <= MOST_FACTORS else []
        if len(choices) != 1 or not any(map(self.is_zero, choices[0].args[1:])):
            return None
        others = [factor for factor in factors if factor is not choices[0]]
        value, rest = (side if self.is_zero(side) else self.mul((*others, side)) for side in choices[0].args[1:])
        return choices[0].args[0], value, rest

    def _sum_of_tensors(self, terms: Sequence[Node], shape: Shape) -> Node:
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
        if scalar is self.zero and (joined := self._under_one_view(pairs)) is not None:
            return joined
        args = tuple([self.scale(c, rest) for c, rest in pairs])
        if scalar is not self.zero:
            args = (*args, scalar)
        return self._node("add", None, args, args, (), shape)

    def _under_one_view(self, pairs: Sequence[tuple[Number, Node]]) -> Node | None:
        """The view of a sum for a sum of views, or a multiple of a sum for a sum of multiples."""
        factor = pairs[0][0]
        if factor != 1 and all(c == factor for c, _ in pairs):
            return self.scale(factor, self.add([rest for _, rest in pairs]))
        # A delta is the diagonal of ones: it goes under the view of another diagonal.
        view = next((rest for _, rest in pairs if rest.args and is_view(rest) and _moves(rest)), None)
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
        if factor == 1:
            return node
        if not node.shape:
            return super().scale(factor, node)
        labels = tuple(range(len(node.shape)))
        return self.ein(factor, [(node, labels)], labels)

    def mul(self, factors: Iterable[Node]) -> Node:
        """The product, of whole tensors entry by entry."""
        factors = tuple(factors)
        shape = common_shape(factors)
        if not shape:
            return super().mul(factors)
        labels = tuple(range(len(shape)))
        return self.ein(1, [(factor, labels if factor.shape else ()) for factor in factors], labels)

    def factors(self, node: Node) -> tuple[Node, ...]:
        """The factors of a product, of whole tensors of one entry by entry; other nodes are their only one."""
        if node.op == "mul":
            return node.args
        scaled = node.view and node.data.scales
        core = node.args[0] if scaled else node
        if not is_core(core) or not core.shape:
            return (node,)
        if any(labels and labels != core.data.output for labels in core.data.inputs):
            return (node,)
        return (self.const(node.data.coefficient), *core.args) if scaled else core.args

    def pow(self, base: Node, exponent: Node) -> Node:
        shape = common_shape((base, exponent))
        if not shape:
            return super().pow(base, exponent)
        base, exponent = self._narrow(base, shape), self._narrow(exponent, shape)
        return self.broadcast(super().pow(base, exponent), shape)

    # -------------------------------------------------------------- functions and conditions

    def call(self, function: Any, args: Sequence[Node]) -> Node:
        shape = common_shape(args)
        args = [self._narrow(arg, shape) for arg in args] if shape else tuple(args)
        known = _undone(function, args[0]) if len(args) == 1 and (shape or args[0].whole) else None
        value = super().call(function, args) if known is None else known
        return self.broadcast(value, shape) if shape else value

    def compare(self, relation: str, left: Node, right: Node) -> Node:
        shape = common_shape((left, right))
        if not shape:
            return super().compare(relation, left, right)
        return super().compare(relation, self._narrow(left, shape), self._narrow(right, shape))

    def logic(self, op: str, args: Sequence[Node]) -> Node:
        return super().logic(op, [self._without_view(arg) for arg in args])

    def _without_view(self, condition: Node) -> Node:
        """A moved or repeated condition as one between moved or repeated tensors: conditions have no other form."""
        if not (is_view(condition) and condition.args):
            return condition
        inner = condition.args[0]
        args = [self.with_operands(condition, [arg]) if arg.shape == inner.shape else arg for arg in inner.args]
        if inner.op == "compare":
            return self.compare(inner.data, *args)
        return self.logic(inner.op, args) if inner.op in ("and", "or", "not") else condition

    def select(self, condition: Node, value: Node, otherwise: Node) -> Node:
        if otherwise is self.zero and self._is_rectified(condition, value):
            return value
        shape = common_shape((condition, value, otherwise))
        if not shape:
            return super().select(condition, value, otherwise)
        condition, value, otherwise = (self._narrow(arg, shape) for arg in (condition, value, otherwise))
        return self.broadcast(super().select(self._without_view(condition), value, otherwise), shape)

    def _is_rectified(self, condition: Node, value: Node) -> bool:
        """Whether a value has a factor ``max(0, u)``, where the condition is ``u > 0``."""
        if condition.op != "compare" or condition.data != "lt" or condition.args[0] is not self.zero:
            return False
        factors = self.factors(self.split_view(value)[1])
        zero = any(f.op == "call" and f.data is sympy.Max and {*f.args} == {*condition.args} for f in factors)
        return zero and all(factor.total for factor in factors)

    def _narrow(self, node: Node, shape: Shape) -> Node:
        """A repeated scalar as the scalar."""
        if node.shape != shape:
            return node
        inner = _repeated_scalar(self, node)
        return node if inner is None else inner


def common_shape(nodes: Sequence[Node]) -> Shape:
    """The shape of element-wise arguments; ``()`` where all are scalars."""
    shape: Shape = ()
    for node in nodes:
        if node.shape and node.shape is not shape:
            if shape and node.shape != shape:
                raise ShapeError(f"shapes {shape} and {node.shape} differ; only scalars are broadcast")
            shape = node.shape
    return shape


def _repeated_scalar(graph: Contractions, node: Node) -> Node | None:
    """The scalar that a view repeats at every entry; None where it is another node."""
    if node.op != "ein" or len(set(node.data.output)) != len(node.data.output) or len(node.args) > 1:
        return None
    if not node.args:
        return graph.const(node.data.coefficient)
    return graph.scale(node.data.coefficient, node.args[0]) if not node.args[0].shape else None


def _moves(view: Node) -> bool:
    """Whether a view does more than scale."""
    return bool(view.data.inputs[0] != view.data.output)


def _undone(function: Any, argument: Node) -> Node | None:
    """What a function gives that undoes the one before it: ``log(exp(x))``, ``exp(log(x))``."""
    inverse = {sympy.log: sympy.exp, sympy.exp: sympy.log}.get(function)
    return argument.args[0] if inverse is not None and argument.op == "call" and argument.data is inverse else None
