"""Reading SymPy expressions into the graph; expressions without a node are refused by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cache, partial
from math import nan
from typing import Any, Literal

import sympy
from sympy.core.function import UndefinedFunction

from sympy_tensordiff.errors import IndexExpressionError, ShapeError, UnsupportedError
from sympy_tensordiff.graph.conditions import ConditionReader
from sympy_tensordiff.graph.functions import Partial
from sympy_tensordiff.graph.interning import Recursion, in_turn, trampoline
from sympy_tensordiff.graph.nodes import Graph, Node
from sympy_tensordiff.graph.read_functions import TENSOR_METHODS, BoundVariables
from sympy_tensordiff.graph.scans import ScanData, step_constants
from sympy_tensordiff.integer.affine import Affine, Compound, Constraint
from sympy_tensordiff.integer.indirect import with_ranges
from sympy_tensordiff.integer.products import IndexProduct, SymbolicQuotient
from sympy_tensordiff.integer.rows import atoms_in, unit_bounds_of
from sympy_tensordiff.integer.system import definitions
from sympy_tensordiff.symbolic.conversion.lift import NATIVE, lift, lift_native, properties_of
from sympy_tensordiff.symbolic.expressions.base import TensorNode as Base
from sympy_tensordiff.symbolic.expressions.binders import Binder
from sympy_tensordiff.symbolic.expressions.integer_symbols import integers_by_use, may_be_real
from sympy_tensordiff.symbolic.expressions.misplaced_tensors import refuse_as_scalar
from sympy_tensordiff.symbolic.expressions.partial_derivatives import distinct
from sympy_tensordiff.symbolic.expressions.real_values import way_out
from sympy_tensordiff.symbolic.expressions.traversal import Below, arguments, free_symbols_in
from sympy_tensordiff.symbolic.index_notation.indices import data_of, to_affine
from sympy_tensordiff.symbolic.index_notation.sums import (
    IndexedMax,
    IndexedMin,
    IndexedProduct,
    IndexedReduction,
    IndexedSum,
)
from sympy_tensordiff.symbolic.index_notation.tensors import NamedTensor, TensorComprehension, TensorEntry, TensorSymbol
from sympy_tensordiff.symbolic.recurrences.scans import Scan
from sympy_tensordiff.symbolic.whole_tensors.operations import TensorOperation, shape_of


class Reader(ConditionReader):
    """Converts SymPy expressions to nodes of one graph, and records which symbol belongs to which variable.

    With ``names``, a named expression becomes a tensor variable; otherwise its definition is read. ``scans`` says what
    becomes of a scan: a tensor variable for "leaf", an operation on its operands for "node"; else it is refused.
    With ``products``, a LeviCivita becomes the product that it is, and not a call. With ``closed_leaves``, a sum or a
    tensor inside of a sum or comprehension is a tensor variable if it contains none of the bound indices.
    """

    def __init__(
        self,
        graph: Graph,
        *,
        names: bool = False,
        scans: Literal["leaf", "node", ""] = "",
        products: bool = False,
        closed_leaves: bool = False,
    ) -> None:
        self.graph = graph
        self._closed_leaves = closed_leaves
        self._products = products
        self._names = names
        self._scans = scans
        self.symbols: dict[int, Any] = {}
        self.free: BoundVariables = {}
        self.tensors: dict[str, Any] = {}
        self._leaves: dict[Any, Node] = {}
        self.scalars: set[str] = set()
        self.limits: set[int] = set()
        self.divisors: set[Affine] = set()
        self.ranges: dict[int, Affine] = {}
        self.selections: dict[str, tuple[Node, int]] = {}
        self.integers: set[Any] = set()  # the symbols that are integers by their use, and not declared so
        self._branches = 0  # the number of enclosing branches of a Piecewise
        self._constants: set[Node] = {graph.zero, graph.one}
        self._used: set[Any] = set()
        self._done: dict[Any, Node] = {}

    def read(self, expr: Any) -> Node:
        """Return the node of a SymPy scalar or tensor expression; raise UnsupportedError if it cannot be converted."""
        if not isinstance(expr, Base):
            expr = distinct(expr)
        # Free symbols are variables in the order of their names, so that no choice that goes by variables
        # depends on the order of terms.
        self.use([expr])
        free = free_symbols_in([expr])
        symbols = [s for s in free if type(s) is sympy.Symbol and self.is_integer(s)]
        labels = {s.name for s in free if isinstance(s, sympy.Idx)}
        for symbol in sorted(symbols, key=str):
            if symbol.name not in labels:
                self.variable(symbol)
        return trampoline(self._visit(expr, {}))

    def use(self, exprs: Iterable[Any]) -> None:
        """Record the symbols that ``exprs`` use as integers, in indices, sizes or bounds. Call this before ``exprs``
        are converted.
        """
        new = [part for part in exprs if isinstance(part, sympy.Basic) and part not in self._used]
        self._used.update(new)
        below = _open_parts(new) if self._closed_leaves else arguments
        for symbol in integers_by_use(new, below) if new else ():
            if symbol.name in self.scalars:
                raise self._mixed_use_error(symbol)
            self.integers.add(symbol)

    def _mixed_use_error(self, symbol: Any) -> IndexExpressionError:
        """Return the exception for a symbol that is used both as a real value and as an integer."""
        return IndexExpressionError(
            f"{symbol} is a value in one place and an index or a size in another: declare it by "
            f"td.indices({symbol.name!r}), or use two names"
        )

    def is_integer(self, symbol: Any) -> bool:
        """Return whether `symbol` stands for an integer, because it is declared so or is used as an index or a size."""
        return bool(symbol.is_integer) or symbol in self.integers

    def affine(self, expr: Any, bound_variables: BoundVariables | None = None) -> Affine:
        """Return the affine form, such as ``2*i + 1``, of an index, an extent or a bound; raise `IndexExpressionError`
        if there is none.
        """
        bound_variables = bound_variables or {}
        form = to_affine(expr, lambda symbol: self.variable(symbol, bound_variables))
        compounds = form.compounds()
        if compounds:
            for tensor in data_of(expr):
                self.tensor(tensor)
            form = with_ranges(form, self.graph.below)
            for compound in form.compounds():
                self.divisors |= _divisors(expr, compound, frozenset(bound_variables.values()))
        return form

    def variable(self, symbol: Any, bound_variables: BoundVariables | None = None) -> int:
        """Return the graph's variable (a number) of an index or size symbol. ``bound_variables`` maps symbols that are
        bound here to their variables.
        """
        if bound_variables and symbol in bound_variables:
            return bound_variables[symbol]
        if symbol not in self.free:
            if not self.is_integer(symbol):  # a form that is only tried may contain values
                raise self._mixed_use_error(symbol)
            for known in self.free:
                if known.name == symbol.name and not (known.is_integer and symbol.is_integer):
                    raise IndexExpressionError(
                        f"two different symbols are called {symbol}: one is declared an integer, the other one is not; "
                        f"use one object everywhere, such as td.indices({symbol.name!r})"
                    )
            self.free[symbol] = variable = self.bind(symbol)
            if symbol.is_nonnegative:
                self.graph.assumptions[Constraint("ge", Affine({variable: 1}, -bool(symbol.is_positive)))] = None
        return self.free[symbol]

    def bind(self, symbol: Any) -> int:
        """Return a new variable (a number) for a symbol that a sum or comprehension is about to bind."""
        variable = self.graph.fresh(str(symbol.name))
        self.symbols[variable] = symbol
        return variable

    def tensor(self, symbol: TensorSymbol | NamedTensor) -> Node:
        """Return the node of a tensor variable; raise ShapeError if another one has the same name."""
        if symbol in self._leaves:
            return self._leaves[symbol]
        self.use([symbol])
        known = self.tensors.setdefault(symbol.name, symbol)
        if known != symbol:
            raise ShapeError(
                f"two different tensors are called {symbol.name}: {_description(known)}, {_description(symbol)}; "
                "give them different names"
            )
        name, below, is_integer = symbol.name, symbol.below, symbol.dtype is int
        is_symmetric, is_positive = symbol.symmetric, symbol.positive
        shape = tuple([self.affine(extent) for extent in symbol.shape])
        if below is not None:
            self.graph.below[name] = self.affine(below)
        node = self.graph.tensor(name, shape, is_integer=is_integer)
        if is_symmetric:
            self.graph.symmetric[node] = True
        if is_positive:
            self.graph.positive.add(node)
        self._leaves[symbol] = node
        return node

    def scan_leaf(self, expr: Any) -> Node:
        """Return the node of a tensor variable that stands for the result of a scan (a loop over time), or for another
        sum or tensor, in the graph; the same one at each call.
        """
        if expr not in self._leaves:
            name = f"scan {len(self.tensors)}"
            self.tensors[name] = expr
            self._leaves[expr] = self.graph.tensor(name, tuple(map(self.affine, getattr(expr, "shape", ()))))
        return self._leaves[expr]

    def _read_scan(self, expr: Scan, bound_variables: BoundVariables) -> Recursion[Node]:
        """Return the node of the scan ``expr``, a loop over time, or a variable for its result if the reader treats
        scans as variables.

        Raise `UnsupportedError` if the scan depends on an index bound around it, or if the public function that was
        called does not support scans.
        """
        indices = [str(symbol) for symbol in bound_variables.keys() & expr.free_symbols]
        if indices:
            raise UnsupportedError(
                f"{expr} depends on the index {', '.join(sorted(indices))} around it: make that an axis of the state"
            )
        if not self._scans:
            raise UnsupportedError(
                f"{expr} is a scan, which this function does not take: td.gradient, td.jacobian, td.hessian, td.vjp, "
                "td.jvp, td.hvp, td.lambdify, td.evaluate and td.check_derivative do"
            )
        if self._scans == "leaf":
            yield from ()
            tensor = self.scan_leaf(expr)
            return tensor if expr.shape else self.graph.read(tensor, ())
        node: Node = yield self._read_scan_node(expr)
        return node

    def _read_scan_node(self, scan: Scan) -> Recursion[Node]:
        """Return the node of a scan, a loop over time. Its operands are the tensors and real numbers that its steps
        use.
        """
        moved, tensors, symbols = step_constants(scan)
        by_variable = {variable: value for value, variable in moved.items()}
        integers = [symbol for symbol in symbols if self.is_integer(symbol)]
        constants = (*tensors, *(symbol for symbol in symbols if symbol not in integers))
        outside = [*scan.outer, *(by_variable.get(variable, variable) for variable in constants)]
        args = []
        for expr in outside:
            node = yield self._visit(expr, {})
            args.append(node if node.shape else self.graph.broadcast(node, (Affine.of(1),)))
        forms = tuple([(symbol, self.affine(symbol)) for symbol in integers])
        own = tuple([self.affine(extent) for extent in shape_of(scan.value)])
        return self.graph.scan(ScanData(scan, constants, self.affine(scan.length), forms, own), args)

    def declare(self, selections: Mapping[str, tuple[Node, int]]) -> None:
        """Record the bounds of integer tensors that are used as indices: their entries are less than the extents of the
        axes that they index. ``selections`` maps names to ``(read, axis)``, as ``{"p": (x[p[i]], 0)}``. All cached
        nodes are dropped.
        """
        self.selections.update(selections)
        self.graph.below.update({name: read.args[0].shape[axis] for name, (read, axis) in selections.items()})
        self._done.clear()

    def leaves(self) -> list[Node]:
        """Return the nodes of all tensor variables read so far."""
        return [*self._leaves.values()]

    # -------------------------------------------------------------- the walk

    def _visit(self, expr: Any, bound_variables: BoundVariables) -> Recursion[Node]:
        """Return the node of `expr`, where ``bound_variables`` maps the symbols bound around it to variables; results
        are cached.
        """
        known = self._done.get(expr)
        if known is not None and all(self.variable(self.symbols[v], bound_variables) == v for v in known.free):
            return known
        is_part = self._closed_leaves and bound_variables and isinstance(expr, Binder | TensorOperation | NamedTensor)
        if is_part and bound_variables.keys().isdisjoint(expr.free_symbols):
            leaf = self.scan_leaf(expr)
            return leaf if leaf.shape else self.graph.read(leaf, ())
        kind: Any = type(expr)
        method = _read_method(kind)
        if method is not None:
            node: Node = yield method(self, expr, bound_variables)
            self._done[expr] = self._check_constant(expr, node)
            return node
        raise UnsupportedError(f"{type(expr).__name__} is not supported in a tensor expression: {expr}")

    def _check_constant(self, expr: Any, node: Node) -> Node:
        """Return ``node``, unless `expr` is a constant that is not a finite real number: then raise
        `UnsupportedError`.
        """
        if node.op in ("const", "scalar"):
            if node.op == "const" or not isinstance(node.data, sympy.Symbol):
                self._constants.add(node)
        elif node.op in ("add", "mul", "pow", "call") and all(arg in self._constants for arg in node.args):
            if node.op == "call" and not _is_known_function(node.data):
                return node
            if node.op in ("pow", "call") and not _is_real_number(expr):
                raise UnsupportedError(f"the constant {expr} is not a finite real number; tensors are real")
            self._constants.add(node)
        return node

    def _read_scalars(self, exprs: Sequence[Any], bound_variables: BoundVariables) -> Recursion[list[Node]]:
        """Return the nodes of scalar operands."""
        nodes = yield from in_turn(self._read_scalar(expr, bound_variables) for expr in exprs)
        return nodes

    def _read_scalar(self, expr: Any, bound_variables: BoundVariables) -> Recursion[Node]:
        """Return the node of `expr`, which must be a scalar; raise an error if it is a whole tensor."""
        node: Node = yield self._visit(expr, bound_variables)
        if node.shape:
            refuse_as_scalar(lift_native(expr, self.tensors.values()), f"{expr} among scalars")
        return node

    def _read_number(self, expr: Any, bound_variables: BoundVariables) -> Recursion[Node]:
        """Return the node of a number, exact if it is rational. Raise `UnsupportedError` for a complex number, and for
        an infinite or undefined one outside of branches of a `Piecewise`.
        """
        yield from ()
        if expr.is_Rational:
            return self.graph.const(Fraction(int(expr.p), int(expr.q)))
        if expr.is_Float and expr.is_finite:
            return self.graph.const(float(expr))
        if expr.is_finite and expr.is_real:
            return self.graph.scalar(expr)
        if self._branches and expr.is_infinite and expr.is_extended_real:
            return self.graph.const(float(expr))  # a score that is left out: its exponential is 0
        if self._branches and expr in (sympy.zoo, sympy.nan):
            # SymPy finds a division by 0 in a branch, such as that of 1/Piecewise(..., (0, True)): it is not taken.
            return self.graph.const(nan)
        raise UnsupportedError(
            f"the constant {expr} is not a finite real number; tensors are real"
            + (": td.where and Piecewise take it as the value of a branch" if expr.is_infinite else "")
            + (f": {way_out(())}" if expr is sympy.I else "")
        )

    def _read_symbol(self, expr: Any, bound_variables: BoundVariables) -> Recursion[Node]:
        """Return the node of an index or size used as a number, or of a real scalar; raise if it is complex."""
        yield from ()
        if expr in bound_variables or self.is_integer(expr):
            return self.graph.index(Affine.variable(self.variable(expr, bound_variables)))
        if not may_be_real(expr):
            raise UnsupportedError(
                f"the symbol {expr} is not real; tensors and scalars are real: declare Symbol({expr.name!r}, real=True)"
            )
        self.scalars.add(expr.name)
        return self.graph.scalar(expr)

    def _read_tensor_symbol(self, expr: TensorSymbol, bound_variables: BoundVariables) -> Recursion[Node]:
        """Return the node of a tensor variable; one of rank 0 is read as a scalar."""
        yield from ()
        tensor = self.tensor(expr)
        return tensor if expr.shape else self.graph.read(tensor, ())

    def _read_named(self, expr: NamedTensor, bound_variables: BoundVariables) -> Recursion[Node]:
        """Return the node of ``expr``, a named expression (`td.name`). If the reader keeps names, this is a variable of
        that name; otherwise it is the node of the definition.

        It is the definition, too, if the expression depends on an enclosing bound index.
        """
        # A definition with an enclosing bound index is read itself: its name does not show the index.
        if not self._names or not bound_variables.keys().isdisjoint(expr.free_symbols):
            node: Node = yield self._visit(expr.definition, bound_variables)
            self.graph.labels.setdefault(node, expr.name)
            return node
        tensor = self.tensor(expr)
        return tensor if expr.shape else self.graph.read(tensor, ())

    def _read_entry(self, expr: TensorEntry, bound_variables: BoundVariables) -> Recursion[Node]:
        """Return the node of a tensor entry."""
        index = [self.affine(i, bound_variables) for i in expr.indices]
        if isinstance(expr.tensor, TensorSymbol):
            return self.graph.read(self.tensor(expr.tensor), index)
        tensor = yield self._visit(expr.tensor, bound_variables)
        return self.graph.read(tensor, index) if index else tensor

    def _read_comprehension(self, expr: TensorComprehension, bound_variables: BoundVariables) -> Recursion[Node]:
        """Return the node of a comprehension."""
        extents = [self.affine(extent, bound_variables) for extent in expr.shape]
        variables = [self.bind(symbol) for symbol in expr.indices]
        self.ranges.update(zip(variables, extents, strict=True))
        body = yield self._visit(expr.body, {**bound_variables, **dict(zip(expr.indices, variables, strict=True))})
        return self.graph.comprehension(variables, extents, body) if extents else body

    def _read_reduction(self, expr: IndexedReduction, bound_variables: BoundVariables) -> Recursion[Node]:
        """Return the node of a sum, product, maximum or minimum over ranges."""
        variables, rows = [], []
        for limit in expr.ranges():
            # Outermost first: the bounds see the variables around them.
            v = self.bind(limit.index)
            own = limit.constraints(v, partial(self.affine, bound_variables=bound_variables))
            lows, highs = unit_bounds_of(v, own)
            if lows == [Affine()] and len(highs) == 1 and highs[0].atoms().isdisjoint(bound_variables.values()):
                self.ranges[v] = highs[0] + 1
            rows += own
            variables.append(v)
            bound_variables = {**bound_variables, limit.index: v}
        self.limits |= atoms_in(rows)
        body = yield self._visit(expr.body, bound_variables)
        return self.graph.reduce(_REDUCTIONS[type(expr)], variables, rows, body)

    def _read_add(self, expr: Any, bound_variables: BoundVariables) -> Recursion[Node]:
        """Return the node of a sum of scalars."""
        return self.graph.add((yield self._read_scalars(expr.args, bound_variables)))

    def _read_mul(self, expr: Any, bound_variables: BoundVariables) -> Recursion[Node]:
        """Return the node of a product of scalars."""
        return self.graph.mul((yield self._read_scalars(expr.args, bound_variables)))

    def _read_pow(self, expr: Any, bound_variables: BoundVariables) -> Recursion[Node]:
        """Return the node of a power of scalars."""
        base, exponent = expr.args
        if base is sympy.zoo:
            # SymPy makes 0**(-3*c), which is 1 at c = 0, zoo**c.
            base, exponent = sympy.S.Zero, -exponent
        nodes = yield self._read_scalars((base, exponent), bound_variables)
        return self.graph.pow(*nodes)

    def _read_native(self, expr: Any, bound_variables: BoundVariables) -> Recursion[Node]:
        """Return the node of an expression of SymPy's own classes, such as ``Indexed`` or ``Sum``."""
        node: Node = yield self._visit(lift_native(expr, self.tensors.values()), bound_variables)
        return node

    def _read_delta(self, expr: Any, bound_variables: BoundVariables) -> Recursion[Node]:
        """Return the node of a `KroneckerDelta`: 1 under a guard with an equation of the two indices. If this equation
        is not linear, the guard is replaced by cases that are.
        """
        yield from ()
        left, right = expr.args[:2]
        if len(expr.args) > 2:
            node: Node = yield self._visit(lift(expr), bound_variables)
            return node
        try:
            row = Constraint("eq", self.affine(left - right, bound_variables))
        except IndexExpressionError:
            condition = self._linearise(sympy.Eq(left, right), bound_variables)
            if condition == sympy.Eq(left, right):
                raise
            cases: Node = yield self._read_branches(
                [(sympy.S.One, condition), (sympy.S.Zero, sympy.true)], bound_variables
            )
            return cases
        return self.graph.guard([row], self.graph.one)


def _open_parts(exprs: Iterable[Any]) -> Below:
    """Return a function that returns the arguments of a node in `exprs`, or () for a sum or comprehension that contains
    none of the indices that `exprs` bind themselves.
    """
    bound = {symbol for expr in exprs if isinstance(expr, Binder) for symbol in expr.variables}
    return lambda node: () if isinstance(node, Binder) and bound.isdisjoint(node.free_symbols) else node.args


def _is_known_function(function: Any) -> bool:
    """Return whether `function` is a defined function of SymPy, and not an undefined function ``f``, a `Partial` or a
    name.
    """
    return not isinstance(function, Partial | UndefinedFunction | str)


def _is_real_number(expr: Any) -> bool:
    """Return whether a constant is finite and real, as far as SymPy can decide."""
    if expr.is_real is None:
        expr = expr.evalf(15)
    return expr.is_real is not False and expr.is_finite is not False


def _description(tensor: TensorSymbol | NamedTensor) -> str:
    """Return the shape and kind (real or integer) of `tensor` as text for an error message."""
    return f"one of shape {tensor.shape}{properties_of(tensor)}"


def _divisors(expr: Any, compound: Compound, bound: frozenset[int]) -> set[Affine]:
    """Return the symbolic divisors in `compound`, such as ``m`` in ``floor(i/m)``. Raise `IndexExpressionError` if
    `compound` is not linear in the ``bound`` variables; ``expr`` is the user's expression, for the message.
    """
    found: set[Affine] = set()
    for compound_inside in definitions([compound]):
        ranged = [form for form in compound_inside.forms() if not form.atoms().isdisjoint(bound)]
        if isinstance(compound_inside, IndexProduct) and len(ranged) > 1:
            raise IndexExpressionError(
                f"{expr} is not linear in its indices: one factor of a product may be an index in a range, the others "
                "are sizes"
            )
        if isinstance(compound_inside, SymbolicQuotient):
            if compound_inside.divisor in ranged:
                raise IndexExpressionError(f"{expr} divides by an index in a range: only numbers and sizes divide")
            found.add(compound_inside.divisor)
    return found


_REDUCTIONS = {IndexedSum: "sum", IndexedProduct: "prod", IndexedMax: "max", IndexedMin: "min"}

_METHODS: list[tuple[Any, Callable[[Reader, Any, BoundVariables], Recursion[Node]]]] = [
    (TensorEntry, Reader._read_entry),
    (IndexedReduction, Reader._read_reduction),
    (TensorComprehension, Reader._read_comprehension),
    (TensorSymbol, Reader._read_tensor_symbol),
    (NamedTensor, Reader._read_named),
    (Scan, Reader._read_scan),
    *TENSOR_METHODS,
    ((sympy.Number, sympy.NumberSymbol, type(sympy.I), type(sympy.zoo)), Reader._read_number),
    ((sympy.Symbol, sympy.Idx), Reader._read_symbol),
    (NATIVE, Reader._read_native),  # before Add: a sum of matrices is one, too
    (sympy.Add, Reader._read_add),
    (sympy.Mul, Reader._read_mul),
    (sympy.Pow, Reader._read_pow),
    (sympy.KroneckerDelta, Reader._read_delta),
    (sympy.LeviCivita, Reader._read_levi_civita),
    (sympy.Piecewise, Reader._read_piecewise),
    ((sympy.floor, sympy.ceiling, sympy.Mod, sympy.Max, sympy.Min, sympy.Abs), Reader._read_integer_function),
    ((sympy.sign, sympy.Heaviside), Reader._read_indicator),
    (sympy.Function, Reader._read_function),
    (sympy.Derivative, Reader._read_derivative),
    (sympy.Subs, Reader._read_subs),
]


@cache
def _read_method(kind: type) -> Callable[[Reader, Any, BoundVariables], Recursion[Node]] | None:
    """Return the method of `Reader` for instances of the class `kind`, the one of the first matching base class in a
    table; None if there is none.
    """
    return next((method for base, method in _METHODS if issubclass(kind, base)), None)
