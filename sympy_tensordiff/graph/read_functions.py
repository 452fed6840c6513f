"""Reading applied functions, their unevaluated derivatives and operations on whole tensors into the graph.

All values are real: complex functions are refused by name.

Nodes of whole tensors are closed. A tensor that depends on an enclosing index, such as the product of a batch's
matrices inside a comprehension over the batch, is read entry by entry instead. Inverses and determinants have no
entries in index notation: they are computed for the whole batch if its range is simple, and refused otherwise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import sympy
from sympy.core.function import UndefinedFunction

from sympy_tensordiff.errors import IndexExpressionError, UnsupportedError
from sympy_tensordiff.graph.einsums import tensor_of
from sympy_tensordiff.graph.functions import Partial, formula
from sympy_tensordiff.graph.interning import Recursion, in_turn
from sympy_tensordiff.graph.nodes import Graph, Node, replace
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.symbolic.expressions.partial_derivatives import orders_of
from sympy_tensordiff.symbolic.expressions.real_values import OF_COMPLEX, refuse_undeclared
from sympy_tensordiff.symbolic.expressions.traversal import nodes_in
from sympy_tensordiff.symbolic.index_notation.index_conditions import on_indices
from sympy_tensordiff.symbolic.index_notation.tensors import TensorComprehension, TensorExpr
from sympy_tensordiff.symbolic.whole_tensors.einsum import DeltaTensor, EinsumProduct, FilledTensor
from sympy_tensordiff.symbolic.whole_tensors.elementwise import TensorAdd, TensorFunction, TensorMul, TensorPow
from sympy_tensordiff.symbolic.whole_tensors.matrix_functions import (
    TensorAdjugate,
    TensorCofactor,
    TensorDeterminant,
    TensorInverse,
    TensorLogSumExp,
)
from sympy_tensordiff.symbolic.whole_tensors.subscripts import FROM_I

Build = Callable[[Graph, Any, Sequence[Node]], Node]

BoundVariables = dict[Any, int]
"""The symbols bound around an expression: from a SymPy symbol to the graph's variable (a number)."""

IDENTITY_ON_REALS = (sympy.re, sympy.conjugate, sympy.adjoint, sympy.transpose)
"""Functions that return a real argument unchanged."""

_EXTREMA = (sympy.Max, sympy.Min, sympy.Abs)

REFUSED: dict[Any, str] = {
    sympy.arg: "write Piecewise((0, x > 0), (pi, x < 0))",
    sympy.polar_lift: "polar numbers are complex",
    sympy.periodic_argument: "polar numbers are complex",
    sympy.principal_branch: "polar numbers are complex",
    sympy.exp_polar: "polar numbers are complex",
    sympy.Ynm: "spherical harmonics are complex; use assoc_legendre and cos",
    sympy.DiracDelta: "it is not a function; derivatives of steps are 0 here",
    sympy.SingularityFunction: "write it as a Piecewise",
}
"""Functions without a real meaning, and the reason or what to write instead."""


MAX_EXTREMA_IN_INDEX = 6
"""The most maxima and minima in one index form, whose cases double with each; with more it is a function of values."""

MAX_LEVI_CIVITA_INDICES = 6
"""The most indices of a LeviCivita, which has a factor for each pair of them."""


class Applications(ABC):
    """The methods of `Reader` that convert function calls, unevaluated derivatives and operations on whole tensors."""

    graph: Graph
    integers: set[Any]
    _products: bool
    ranges: dict[int, Affine]
    """The extents of the variables whose ranges begin at 0."""

    @abstractmethod
    def _visit(self, expr: Any, bound_variables: BoundVariables) -> Recursion[Node]:
        """Return the node of `expr`, where ``bound_variables`` maps the symbols bound around it to variables; raise
        `UnsupportedError` if it cannot be converted.
        """

    @abstractmethod
    def _read_scalar(self, expr: Any, bound_variables: BoundVariables) -> Recursion[Node]:
        """Return the node of `expr`, which must be a scalar; raise an error if it is a whole tensor."""

    @abstractmethod
    def _read_scalars(self, exprs: Sequence[Any], bound_variables: BoundVariables) -> Recursion[list[Node]]:
        """Return the nodes of `exprs`, which must be scalars; raise an error if one is a whole tensor."""

    @abstractmethod
    def affine(self, expr: Any, bound_variables: BoundVariables | None = None) -> Affine:
        """Return the affine form of an index expression, an extent or a bound."""

    @abstractmethod
    def variable(self, symbol: Any, bound_variables: BoundVariables | None = None) -> int:
        """Return the number of the variable for ``symbol``, an index or a size, in index forms. ``bound_variables``
        maps bound symbols to their variables.
        """

    # -------------------------------------------------------------- functions

    def _read_function(self, expr: Any, bound_variables: BoundVariables) -> Recursion[Node]:
        """Return the node of a call of a real function. Raise `UnsupportedError` for complex functions, and for
        functions that take lists of parameters, such as `hyper`.
        """
        refuse_complex(expr)
        if isinstance(expr, OF_COMPLEX):
            refuse_undeclared(expr, bound_variables)
        if isinstance(expr, IDENTITY_ON_REALS):
            node: Node = yield self._visit(expr.args[0], bound_variables)
            return node
        if isinstance(expr, sympy.im):
            return self.graph.zero
        if any(isinstance(arg, sympy.Tuple) for arg in expr.args):
            raise UnsupportedError(
                f"{expr.func.__name__} takes lists of parameters, which is not supported: {expr}; "
                "rewrite it with other functions, e.g. by sympy.hyperexpand"
            )
        if not expr.args:
            raise UnsupportedError(f"{expr} has no arguments, so it is a constant: use a Symbol, or a number")
        args = yield self._read_scalars(expr.args, bound_variables)
        return self.graph.call(expr.func, args)

    def _read_integer_function(self, expr: Any, bound_variables: BoundVariables) -> Recursion[Node]:
        """Return the node of a SymPy floor, ceiling, remainder, maximum or minimum. If its arguments are indices, it is
        an exact index form; otherwise it is a function call, and a remainder is ``x - n*floor(x/n)``.
        """
        if on_indices(expr, self.integers) and _number_of_extrema(expr) <= MAX_EXTREMA_IN_INDEX:
            try:
                return self.graph.index(self.affine(expr, bound_variables))
            except IndexExpressionError:
                pass
        if isinstance(expr, sympy.Mod):  # x - n*floor(x/n), which has the derivatives 1 and -floor(x/n)
            graph, (value, period) = self.graph, (yield self._read_scalars(expr.args, bound_variables))
            periods = graph.call(sympy.floor, (graph.mul((value, graph.pow(period, graph.const(-1)))),))
            return graph.add((value, graph.neg(graph.mul((period, periods)))))
        node: Node = yield self._read_function(expr, bound_variables)
        return node

    def _read_levi_civita(self, expr: Any, bound_variables: BoundVariables) -> Recursion[Node]:
        """Return the node of SymPy's `LeviCivita`: a call of this function, or the equal product of index differences,
        if the reader was asked for products or all indices are numbers.
        """
        if len(expr.args) > MAX_LEVI_CIVITA_INDICES or not all(on_indices(arg, self.integers) for arg in expr.args):
            raise UnsupportedError(
                f"{expr} is not supported in a tensor expression: LeviCivita takes up to "
                f"{MAX_LEVI_CIVITA_INDICES} indices; write its values as a TensorSymbol"
            )
        if self._products or all(arg.is_Integer for arg in expr.args):
            node: Node = yield self._visit(expr.doit(), bound_variables)
            return node
        return self.graph.call(sympy.LeviCivita, (yield self._read_scalars(expr.args, bound_variables)))

    def _read_derivative(self, expr: Any, bound_variables: BoundVariables) -> Recursion[Node]:
        """Return the node of a derivative that SymPy leaves unevaluated, such as the derivative of an undefined
        function. Raise `UnsupportedError` unless it is the derivative of one function by its arguments, none of them an
        integer, and SymPy has no formula for it.
        """
        known = orders_of(expr)
        derivative = None if known is None else Partial(*known)
        if derivative is None or (formula(derivative)[0] is not None) or _has_integer(expr.variables):
            raise UnsupportedError(
                f"{expr} cannot be read as the derivative of one function by its arguments: evaluate it first, "
                "with .doit() (of SymPy's own Sum after td.lift), or write Subs(Derivative(g(t), t), t, x[i])"
            )
        refuse_complex(expr.expr)
        return self.graph.call(derivative, (yield self._read_scalars(expr.expr.args, bound_variables)))

    def _read_subs(self, expr: Any, bound_variables: BoundVariables) -> Recursion[Node]:
        """Return the node of ``Subs(body, variables, point)``: ``body`` with ``variables`` replaced by ``point``."""
        graph = self.graph
        fresh = [sympy.Dummy(f"a{n}", **_assumptions(v)) for n, v in enumerate(expr.variables)]
        body = yield self._visit(expr.expr.xreplace(dict(zip(expr.variables, fresh, strict=True))), bound_variables)
        values: dict[Node, Node] = {}
        forms: dict[Any, Affine] = {}
        for dummy, point in zip(fresh, expr.point, strict=True):
            if dummy.is_integer:
                forms[self.variable(dummy)] = self.affine(point, bound_variables)
            else:
                values[graph.scalar(dummy)] = yield self._visit(point, bound_variables)
        return replace(graph, graph.substitute(body, forms), values)

    # -------------------------------------------------------------- whole tensors

    def _read_whole(self, expr: Any, bound_variables: BoundVariables) -> Recursion[Node]:
        """Return the node of an operation on whole tensors. If an operand depends on an outer index, the operation is
        written entry by entry; a matrix function is applied to the stack of all matrices instead.
        """
        operands = yield from in_turn(self._visit(operand, bound_variables) for operand in expr.operands)
        bound = frozenset(bound_variables.values())
        if bound and any(not operand.free.isdisjoint(bound) for operand in operands):
            if isinstance(expr, _OF_MATRICES) and all(v in self.ranges for v in operands[0].free & bound):
                return self._read_batch_entry(expr, operands[0], sorted(operands[0].free & bound))
            node: Node = yield self._visit(_as_comprehension(expr), bound_variables)
            return node
        return _BUILD[type(expr)](self.graph, expr, operands)

    def _read_batch_entry(self, expr: Any, matrix: Node, batch: Sequence[int]) -> Node:
        """Return the node of ``expr``, a function of a matrix that depends on the indices ``batch``, such as
        ``inv(M_i)``. It is an entry of the same function of the stack of all these matrices. ``matrix`` is the node of
        the matrix.
        """
        graph = self.graph
        variables, _, body = graph.open(matrix)
        extents = *(self.ranges[v] for v in batch), *matrix.shape
        whole = _BUILD[type(expr)](graph, expr, [tensor_of(graph, (*batch, *variables), extents, body)])
        axes = [graph.fresh(name) for name in "ijkl"[: len(expr.shape)]]
        axes += [graph.fresh(f"i{n}") for n in range(4, len(expr.shape))]
        entry = graph.read(whole, [Affine.variable(v) for v in (*batch, *axes)])
        return graph.comprehension(axes, whole.shape[len(batch) :], entry) if axes else entry

    def _read_elementwise(self, expr: TensorFunction, bound_variables: BoundVariables) -> Recursion[Node]:
        """Return the node of a `TensorFunction`, a function that is applied to whole tensors entry by entry."""
        graph = self.graph
        body = yield self._visit(expr.template.expr, bound_variables)
        parameters = [graph.scalar(symbol) for symbol in expr.template.variables]
        operands = yield from in_turn(self._visit(operand, bound_variables) for operand in expr.operands)
        bound = frozenset(bound_variables.values())
        if bound and any(not node.free.isdisjoint(bound) for node in (body, *operands)):
            node: Node = yield self._visit(_as_comprehension(expr), bound_variables)
            return node
        if body.op == "call" and list(body.args) == parameters:
            return graph.call(body.data, operands)
        shape = next(operand.shape for operand in operands if operand.shape)
        return graph.broadcast(replace(graph, body, dict(zip(parameters, operands, strict=True))), shape)

    def _read_constant(self, expr: DeltaTensor | FilledTensor, bound_variables: BoundVariables) -> Recursion[Node]:
        """Return the node of a unit tensor (`DeltaTensor`) or of a tensor filled with one value."""
        if isinstance(expr, DeltaTensor):
            extents = tuple(self.affine(extent, bound_variables) for extent in expr.shape[: expr.rank // 2])
            return self.graph.delta(extents)
        shape = tuple(self.affine(extent, bound_variables) for extent in expr.shape)
        value = yield self._visit(expr.value, bound_variables)
        if not value.free.isdisjoint(bound_variables.values()):
            node: Node = yield self._visit(_as_comprehension(expr), bound_variables)
            return node
        return self.graph.broadcast(value, shape)


def refuse_complex(applied: Any) -> None:
    """Raise `UnsupportedError` if `applied` is a function of complex values, or one without meaning in a tensor
    expression.
    """
    for kind, reason in REFUSED.items():
        if isinstance(applied, kind):
            raise UnsupportedError(f"{kind.__name__} is not supported in a tensor expression: {applied}; {reason}")
    if isinstance(type(applied), UndefinedFunction) and (
        applied.is_commutative is False or applied.is_extended_real is False
    ):
        raise UnsupportedError(f"the function {applied.func} is not real; tensors and scalars are real")


def _number_of_extrema(expr: Any) -> int:
    """Return how many maxima and minima of two operands, and absolute values, `expr` contains; a maximum of three
    operands counts as two.
    """
    return sum(max(1, len(node.args) - 1) for node in nodes_in([expr]) if isinstance(node, _EXTREMA))


def _has_integer(variables: Sequence[Any]) -> bool:
    """Return whether one of the variables is an integer symbol."""
    return any(isinstance(v, sympy.Symbol) and v.is_integer for v in variables)


def _assumptions(variable: Any) -> dict[str, bool]:
    """Return the assumptions of a SymPy dummy that replaces ``variable``: ``{"integer": True}`` for an integer symbol,
    else ``{"real": True}``.
    """
    return {"integer": True} if isinstance(variable, sympy.Symbol) and variable.is_integer else {"real": True}


def _as_comprehension(expr: Any) -> Any:
    """Return `expr`, an operation on whole tensors, as a comprehension of its entries; raise `UnsupportedError` if
    these have no index notation.
    """
    axes = [sympy.Dummy("ijklmnpq"[axis] if axis < 8 else f"i{axis}", integer=True) for axis in range(expr.rank)]
    entry = expr.write_out(tuple(axes))
    if entry is None:
        raise UnsupportedError(
            f"{expr} depends on an index around it, and a {type(expr).__name__} has no entries in index notation; "
            "give the index around it a range that starts at 0 and ends at a size, or the matrix entries that no index "
            "around it changes"
        )
    return TensorComprehension._trusted(entry, zip(axes, expr.shape, strict=True)) if axes else entry


def _einsum(graph: Graph, expr: EinsumProduct, operands: Sequence[Node]) -> Node:
    """Return the einsum node of `expr` with the nodes ``operands``. If the user has chosen letters for axes, remember
    them for printing.
    """
    product = graph.ein(1, zip(operands, expr.inputs, strict=True), expr.output)
    letters = {letter for labels in expr.inputs for letter in labels}
    if letters != set(FROM_I[: len(letters)]):  # a user has chosen them
        for node, labels in ((product, expr.output), *zip(operands, expr.inputs, strict=True)):
            if labels and len(set(labels)) == len(labels):
                graph.letters.setdefault(node, labels)
    return product


def _adjugate(graph: Graph, expr: TensorAdjugate, operands: Sequence[Node]) -> Node:
    """Return the node of the adjugate `expr` of the matrix ``operands[0]``: the transposed matrix of its cofactors."""
    return graph.transposed(graph.cofactor(1, operands[0]))


def _cofactor(graph: Graph, expr: TensorCofactor, operands: Sequence[Node]) -> Node:
    """Return the node of the cofactors `expr`: a derivative, of the order given in it, of the determinant of
    ``operands[0]`` with respect to this matrix.
    """
    return graph.cofactor(int(expr.order), operands[0])


def _logsumexp(graph: Graph, expr: TensorLogSumExp, operands: Sequence[Node]) -> Node:
    """Return the node of the log-sum-exp of ``operands[0]`` over the axes of ``expr``."""
    return graph.logsumexp(tuple(int(axis) for axis in expr.axes), operands[0])


_OF_MATRICES = (TensorInverse, TensorDeterminant, TensorAdjugate, TensorCofactor)

_BUILD: dict[type[TensorExpr], Build] = {
    EinsumProduct: _einsum,
    TensorAdd: lambda graph, expr, operands: graph.add(operands),
    TensorMul: lambda graph, expr, operands: graph.mul(operands),
    TensorPow: lambda graph, expr, operands: graph.pow(operands[0], operands[1]),
    TensorInverse: lambda graph, expr, operands: graph.inverse(operands[0]),
    TensorDeterminant: lambda graph, expr, operands: graph.cofactor(0, operands[0]),
    TensorAdjugate: _adjugate,
    TensorCofactor: _cofactor,
    TensorLogSumExp: _logsumexp,
}

TENSOR_METHODS: list[tuple[Any, Callable[[Any, Any, BoundVariables], Recursion[Node]]]] = [
    (TensorFunction, Applications._read_elementwise),
    ((DeltaTensor, FilledTensor), Applications._read_constant),
    (tuple(_BUILD), Applications._read_whole),
]
