"""Forms of the corpus of readable derivatives, and the length of a form as a reader counts it."""

from __future__ import annotations

import ast
from typing import Any, NamedTuple

import sympy_tensordiff as td
from sympy_tensordiff.symbolic.expressions.traversal import named_in


class Form(NamedTuple):
    """A function, the variable, and the derivative as a person writes it.

    ``wrt`` is a tensor, a scalar, or an entry ``X[p, q]``: then the form is that of an entry. With ``along`` the
    derivative is the Hessian, with ``kind="jvp"`` or ``"gauss-newton"`` the Jacobian or the product of it and its
    transpose, times that tensor. Names in ``person`` are the parts that follow after "where". The numbers are drawn
    between ``low`` and ``high``; 9 is added to the tensor ``raised``, or to the diagonal of a matrix.
    """

    name: str
    function: Any
    wrt: Any
    person: Any
    along: Any = None
    kind: str = "gradient"
    low: float = -2.0
    high: float = 2.0
    raised: Any = None

    @property
    def variable(self) -> Any:
        """The tensor or scalar by which the function is differentiated."""
        return self.wrt.tensor if isinstance(self.wrt, td.TensorEntry) else self.wrt

    def derivative(self) -> Any:
        """The derivative that the package finds, as a tensor or as an entry like ``person``."""
        if self.kind == "jvp":
            return td.jvp(self.function, self.wrt, self.along)
        if self.kind == "gauss-newton":
            return td.vjp(self.function, self.wrt, td.jvp(self.function, self.wrt, self.along))
        if self.along is not None:
            return td.hvp(self.function, self.wrt, self.along)
        if isinstance(self.wrt, td.TensorEntry):
            return td.diff(self.function, self.wrt)
        if getattr(self.function, "shape", ()):
            return td.jacobian(self.function, self.wrt)
        return td.gradient(self.function, self.wrt)

    def whole(self, form: Any) -> Any:
        """A form of an entry as a tensor."""
        if not isinstance(self.wrt, td.TensorEntry):
            return form
        return td.TensorComprehension(form, *zip(self.wrt.indices, self.variable.shape, strict=True))


def vectors(names: str, extent: Any) -> list[td.TensorSymbol]:
    """Tensors of one shape."""
    return [td.TensorSymbol(name, extent) for name in names.split()]


def at(expression: Any, indices: dict[Any, Any]) -> Any:
    """An expression at other indices."""
    return expression.subs(indices)


def length(expression: Any) -> int:
    """The operations that a reader sees: signs, functions, sums, conditions, transposes. The last entry ``n - 1`` of a
    range has none, nor has the tensor itself whose entries a form gives."""
    if isinstance(expression, td.TensorComprehension):
        expression = expression.body
    return _count(ast.parse(str(expression), mode="eval").body)


def _count(node: ast.AST) -> int:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.startswith("Indexed"):
        # A range (i, 0, n - 1): one sign for each.
        return _count(node.args[0]) + sum(
            1 + sum(_count(_below(bound)) for bound in limit.elts) for limit in node.args[1:]
        )
    own = isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Call, ast.Compare, ast.Attribute))
    return own + sum(_count(child) for child in ast.iter_child_nodes(node))


def _below(bound: ast.expr) -> ast.AST:
    last = isinstance(bound, ast.BinOp) and isinstance(bound.op, ast.Sub)
    return bound.left if last and ast.unparse(bound.right) == "1" else bound


def of_person(form: Form) -> int:
    """The length of the form and of the parts that it names, or of the parts that it has."""
    return _least(form.person)


def of_ours(derivative: Any) -> int:
    """The length of the derivative: as it is, or in the parts that `td.cse` finds."""
    return _least(derivative)


def _least(form: Any) -> int:
    parts, (reduced,) = td.cse([form])
    named = length(form) + sum(length(unit.definition) for unit in named_in([form]))
    return min(named, length(reduced) + sum(length(part) for _, part in parts))
