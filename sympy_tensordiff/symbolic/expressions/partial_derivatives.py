"""Unevaluated partial derivatives of undefined functions, corrected where SymPy confuses equal arguments.

SymPy compares ``Subs(expr, variables, point)`` after it has named each variable by the text of its point, so that
``Subs(Derivative(h(t, u), t), (t, u), (x, x))`` equals the one by ``u``. Here every argument of the function has a
variable of its own, whatever the arguments are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import count
from typing import Any

import sympy
from sympy.core.function import AppliedUndef

from sympy_tensordiff.symbolic.expressions import hooks
from sympy_tensordiff.symbolic.expressions.traversal import Rewriting

_FIRST = 2_900_000
"""The index of the first dummy: the same in every process, so that pickled derivatives are equal."""


class Subs(sympy.Subs):
    """A derivative of a function of several arguments, evaluated at a point. In SymPy's own ``Subs`` two arguments with
    equal values become one; here they stay two.

    The expression is the derivative of a function of variables only; the point holds all arguments. SymPy's own
    `Subs` of one variable is equal to this one.
    """

    is_real = True  # as everything here

    def __new__(cls, expr: Any, variables: Any, point: Any, **assumptions: Any) -> Any:
        if isinstance(expr, Subs):  # SymPy would join the two, which have variables of the same names
            return _evaluate_at(expr, _point_values(sympy.Subs(sympy.S.Zero, variables, point)))
        plain = sympy.Subs(expr, variables, point)
        if not isinstance(plain, sympy.Subs):
            return plain
        rule = _point_values(plain)
        derivative = plain.expr
        if not isinstance(derivative, sympy.Derivative):
            return _evaluate_at(derivative, rule)
        if plain.variables != sympy.Tuple(*_variables(len(rule))) or not derivative.free_symbols <= set(rule):
            known, args = orders_of(derivative), derivative.expr.args
            return plain if known is None else partial_derivative(*known, [_evaluate_at(arg, rule) for arg in args])
        return cls._unchecked(derivative, plain.variables, plain.point)

    @staticmethod
    def _unchecked(derivative: Any, variables: Any, point: Any) -> Any:
        """Return the unevaluated ``derivative``, an expression in ``variables``, at the values ``point`` of these
        variables. It is a `Subs` if a single variable has a value that is not a variable itself, else a `Derivative` of
        this module.
        """
        if len(variables) == 1 and not _is_variable(point, 0):
            return sympy.Subs.__new__(Subs, derivative, variables, point)
        return sympy.Expr.__new__(Derivative, derivative, sympy.Tuple(*variables), sympy.Tuple(*point))

    def __eq__(self, other: Any) -> bool:
        return bool(super().__eq__(other)) and self.point == other.point

    def __ne__(self, other: Any) -> bool:
        return not self == other

    __hash__ = sympy.Subs.__hash__

    def _xreplace(self, rule: Mapping[Any, Any]) -> tuple[Any, bool]:
        """Override `Basic._xreplace`: replace by the dictionary ``rule`` in the point only. The variables are bound,
        and the derivative contains no other symbols.
        """
        if self in rule:
            return rule[self], True
        point, changed = self.point._xreplace(rule)
        return (self._unchecked(self.expr, self.variables, point), True) if changed else (self, False)

    def doit(self, **hints: Any) -> Any:
        """Override `Basic.doit`: return the value of the derivative at the point, if its undefined function has been
        replaced by a formula; else the node with its arguments evaluated.
        """
        point = [arg.doit(**hints) for arg in self.point] if hints.get("deep", True) else self.point
        if orders_of(self.expr) is not None and isinstance(self.expr.expr, AppliedUndef):
            return self.func(self.expr, self.variables, point)
        body = self.expr.expr.doit(**hints)
        for variable, times in self.expr.variable_count:
            for _ in range(int(times)):
                body = _differentiated(body, variable)
        return _evaluate_at(body, dict(zip(self.variables, point, strict=True)))

    evalf = n = sympy.Expr.evalf

    def _eval_evalf(self, prec: int) -> Any:
        """Evaluate the derivative with ``prec`` bits, as SymPy's hook for `evalf`, if `doit` finds a formula for it;
        else return the node itself.
        """
        value = self.doit()
        return self if value == self else value._eval_evalf(prec)

    def _eval_derivative(self, s: Any) -> Any:
        """SymPy's hook for `diff`: return the derivative with respect to ``s`` by the chain rule, with one term for
        each argument.
        """
        known = orders_of(self.expr)
        if known is None:
            value = self.doit()
            return sympy.Derivative(self, s) if value == self else value.diff(s)
        function, orders = known
        terms = []
        for position, arg in enumerate(self.point):
            slope = arg.diff(s)
            if slope != 0:
                more = tuple(order + (n == position) for n, order in enumerate(orders))
                terms.append(slope * partial_derivative(function, more, self.point))
        return sympy.Add(*terms)

    def shown(self) -> Any:
        """Return a `Subs` of SymPy's own, to be printed. Arguments that are variables are written into the derivative
        itself, as ``Derivative(f(x), x)``.
        """
        wrt = {v for n, v in enumerate(self.variables) if v in self.expr.variables and not _is_variable(self.point, n)}
        taken = {symbol.name for symbol in self.point.atoms(sympy.Symbol) | self.free_symbols}
        rule, bound, point = {}, [], []
        for variable, arg in zip(self.variables, self.point, strict=True):
            rule[variable] = arg
            if variable in wrt:
                names = (f"{variable.name}_{n}" if n else variable.name for n in count())
                rule[variable] = sympy.Symbol(next(name for name in names if name not in taken), real=True)
                bound.append(rule[variable])
                point.append(arg)
        return sympy.Subs(self.expr.xreplace(rule), bound, point)

    def _printed(self, printer: Any) -> Any:
        """Print the node in the form that `shown` returns, as SymPy's hook for all printers."""
        return printer._print(self.shown())

    _sympystr = _sympyrepr = _latex = _pretty = _printed


class Derivative(Subs):
    """A partial derivative of an undefined function of several arguments. Two different derivatives stay different when
    arguments become equal, while SymPy's own nodes would become equal.
    """

    def _hashable_content(self) -> Any:
        """SymPy's hook for hashing and comparison: the arguments of the node."""
        return self.args

    def __eq__(self, other: Any) -> bool:
        return type(other) is Derivative and self.args == other.args

    __hash__ = sympy.Subs.__hash__


def partial_derivative(function: Any, orders: Sequence[int], args: Sequence[Any]) -> Any:
    """Return the derivative of ``function(*args)``, ``orders[n]`` times with respect to its argument ``n``.

    It is SymPy's ``Derivative(g(a, b), a)`` if each of these arguments is a symbol that no other argument depends on.
    Entries of tensors may become equal when other tensors or indices are substituted, which SymPy does not know.
    """
    wrt = [(n, order) for n, order in enumerate(orders) if order]
    if all(_is_variable(args, n) and (len(args) == 1 or args[n].is_Symbol) for n, _ in wrt):
        return sympy.Derivative(_unevaluated_call(function, args), *((args[n], order) for n, order in wrt))
    return _distinct_derivative((function, orders), args)


def _distinct_derivative(known: Any, args: Sequence[Any]) -> Any:
    """Return the partial derivative of a function at the values ``args``, as an unevaluated `Subs` of this module: a
    `Derivative` with respect to standard variables, one for each argument, with ``args`` for these variables. ``known``
    is ``(function, orders)``, with the order of differentiation for each argument.

    ``known`` is ``(function, orders)``: the orders say how often it is differentiated with respect to each argument.
    """
    function, orders = known
    variables = _variables(len(args))
    wrt = ((v, order) for v, order in zip(variables, orders, strict=True) if order)
    return Subs._unchecked(sympy.Derivative(_unevaluated_call(function, variables), *wrt), variables, args)


def distinct(expr: Any, *, template: bool = False) -> Any:
    """Return ``expr`` with derivative nodes of this package in place of SymPy's, wherever SymPy could take two
    different derivatives for equal, now or after a substitution. With ``template``, any value may replace the symbols
    of ``expr``.

    Nodes are compared by identity, since two that SymPy calls equal may be different. Nodes of this package are not
    entered: they are made of such expressions.
    """
    return _DistinctDerivatives(template).run(expr)


class _DistinctDerivatives(Rewriting):
    """The traversal of `distinct`, which replaces SymPy's derivative classes by those of this module."""

    def __init__(self, template: bool) -> None:
        super().__init__()
        self.template = template

    def rebuilt(self, expr: Any, bound_indices: Any) -> Any:
        """Return ``expr`` with rebuilt arguments. A derivative or a `Subs` that SymPy would compare wrongly becomes an
        object of a class of this module.
        """
        if hasattr(expr, "is_tensor_entry") or not isinstance(expr, sympy.Basic):
            return expr
        parts = expr.args[2:] if isinstance(expr, Subs) else expr.args
        args = [*expr.args[: -len(parts)], *(yield self.all(parts, bound_indices))] if parts else []
        is_doubtful = _is_confusable(expr, self.template)
        if not is_doubtful and all(new is old for new, old in zip(args, expr.args, strict=True)):
            return expr
        if is_doubtful and isinstance(expr, sympy.Derivative):
            return _distinct_derivative(orders_of(expr), args[0].args)
        return (Subs if type(expr) is sympy.Subs else expr.func)(*args)


def _is_confusable(node: Any, template: bool) -> bool:
    """Return whether SymPy could take ``node``, a `Derivative` or `Subs` of its own, for equal to a different
    derivative because two arguments are equal, now or after a substitution. With ``template``, any value may replace
    its symbols.
    """
    if type(node) is sympy.Subs and len(node.point) > 1:
        is_one_in_another = any(arg.has(*node.variables) for arg in node.point)
        return isinstance(node.expr, sympy.Derivative) or is_one_in_another or len(set(node.point)) < len(node.point)
    if type(node) is not sympy.Derivative or not isinstance(node.expr, AppliedUndef):
        return False
    may_become_equal = len(node.expr.args) > 1 and not all(v.is_Symbol for v in node.variables)
    return (template or may_become_equal) and orders_of(node) is not None


def orders_of(derivative: Any) -> tuple[Any, tuple[int, ...]] | None:
    """Return ``(f, orders)`` of an unevaluated derivative such as ``Derivative(f(a, b), a)``: here the orders are ``(1,
    0)``. None if it is not a derivative with respect to arguments of one function.

    None if a variable is not exactly one argument, if another argument may depend on it, or if an order is symbolic.
    """
    applied = derivative.expr
    if not isinstance(applied, sympy.Function):
        return None
    orders = [0] * len(applied.args)
    for variable, times in derivative.variable_count:
        places = [n for n, arg in enumerate(applied.args) if arg == variable]
        if len(places) != 1 or not times.is_Integer or _is_shared(applied.args, places[0]):
            return None
        orders[places[0]] += int(times)
    return applied.func, tuple(orders)


def _unevaluated_call(function: Any, args: Sequence[Any]) -> Any:
    """Return the call ``function(*args)`` as an expression, also if SymPy would evaluate it to something else."""
    applied = function(*args)
    if isinstance(applied, function) and applied.args == tuple(args):
        return applied
    return function(*args, evaluate=False)


@cache
def _variables(size: int) -> tuple[Any, ...]:
    """Return dummy symbols for the arguments of a function of ``size`` arguments; each call returns the same ones."""
    names = ["xi"] if size == 1 else [f"xi_{n + 1}" for n in range(size)]
    return tuple(sympy.Dummy(name, dummy_index=_FIRST + n, real=True) for n, name in enumerate(names))


def _is_variable(args: Sequence[Any], position: int) -> bool:
    """Return whether argument number ``position`` is a real symbol or an entry of a tensor symbol, on which no other
    argument depends.
    """
    arg = args[position]
    is_symbol = isinstance(arg, sympy.Symbol) and not arg.is_integer
    return (
        is_symbol
        or bool(getattr(arg, "is_tensor_entry", False) and arg.tensor.is_symbol)
        or (getattr(arg, "is_tensor_expr", False) and arg.is_symbol)
    ) and not _is_shared(args, position)


def _is_shared(args: Sequence[Any], position: int) -> bool:
    """Return whether the symbol ``args[position]`` (for a tensor entry, its tensor) also occurs in another one of
    ``args``.
    """
    arg = args[position]
    base = arg.tensor if getattr(arg, "is_tensor_entry", False) else arg
    return any(base in other.free_symbols for n, other in enumerate(args) if n != position)


def _differentiated(formula: Any, variable: Any) -> Any:
    """Return the derivative of ``formula`` with respect to ``variable``, by the rules of this package if it has
    undefined functions.
    """
    if formula.has(AppliedUndef, sympy.Subs):
        return hooks.derivative(formula, variable)
    return formula.diff(variable)


def _point_values(plain: sympy.Subs) -> dict[Any, Any]:
    """Return a dictionary from the variables of ``plain``, a `Subs` of SymPy's, to their values. Later values are
    substituted into earlier ones, as SymPy does for nested `Subs`.
    """
    rule: dict[Any, Any] = {}
    for variable, value in reversed([*zip(plain.variables, plain.point, strict=True)]):
        rule[variable] = value.xreplace(rule)
    return rule


def _evaluate_at(expr: Any, rule: Mapping[Any, Any]) -> Any:
    """Return ``expr`` with variables replaced by their values in ``rule``. An unevaluated derivative with respect to
    such a variable becomes a derivative evaluated at that point.
    """
    changed = dict(rule)
    walk = sympy.preorder_traversal(expr)
    for node in walk:
        if isinstance(node, Subs):
            walk.skip()
        elif isinstance(node, sympy.Derivative) and not rule.keys().isdisjoint(node.variables):
            known = orders_of(node)
            walk.skip()
            changed[node] = (
                sympy.Subs(node, *zip(*rule.items(), strict=True))
                if known is None
                else partial_derivative(*known, [_evaluate_at(arg, rule) for arg in node.expr.args])
            )
    return expr.xreplace(changed)
