"""The base class of all expression nodes: interned nodes, derivatives through SymPy's hook, and overrides of SymPy
methods that would recurse too deep.

A table with weak values holds every node that is alive. Native SymPy nodes between ours are compared by SymPy, which
stops at the first of ours; so deep and heavily shared expressions compare, hash and serve as keys in constant time and
without recursion.
"""

from __future__ import annotations

import atexit
import sys
from threading import RLock
from typing import Any
from weakref import WeakValueDictionary

from sympy import ITE, Basic, Derivative, Dummy, Expr, Idx, Integer, Mul, S, Subs, Symbol, Tuple, flatten
from sympy.core.function import AppliedUndef
from sympy.core.kind import NumberKind
from sympy.core.rules import Transform
from sympy.matrices.matrixbase import MatrixBase
from sympy.tensor.array.ndim_array import NDimArray

from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError, UnsupportedError
from sympy_tensordiff.symbolic.expressions import depth, hooks, misplaced_tensors, sympy_callers
from sympy_tensordiff.symbolic.expressions.arguments import as_expr
from sympy_tensordiff.symbolic.expressions.canonical import canonical
from sympy_tensordiff.symbolic.expressions.depth import Measures, measures
from sympy_tensordiff.symbolic.expressions.integer_symbols import is_integer_in
from sympy_tensordiff.symbolic.expressions.printable import Printable
from sympy_tensordiff.symbolic.expressions.replacement import IndexRenaming, Replacement, Substitution
from sympy_tensordiff.symbolic.expressions.traversal import parts

_table: WeakValueDictionary[tuple[Any, ...], Any] = WeakValueDictionary()
# After Python's shutdown, SymPy's numbers in keys cannot be hashed: removing an entry then would print an error.
atexit.register(_table.clear)
# Garbage collection while the lock is held may call `interned` again.
_lock = RLock()


def interned(cls: Any, args: tuple[Any, ...]) -> Any:
    """Return the node of class ``cls`` with the arguments ``args``: the existing object if there is one, else a new
    one, which is recorded.
    """
    key = (cls, *args)
    with _lock:
        node = _table.get(key)
        if node is None:
            node = Expr.__new__(cls, *args)
            hash(node)  # the arguments have theirs already
            _table[key] = node
    return node


def argument(position: int, description: str) -> Any:
    """Return a property for a node class that reads the argument at ``position``; ``description`` is its docstring."""
    return property(lambda node: node.args[position], doc=description)


def arguments(first: int, description: str) -> Any:
    """Return a property for a node class that reads the arguments from number ``first`` on as a tuple; ``description``
    is its docstring.
    """
    return property(lambda node: tuple(node.args[first:]), doc=description)


def is_entry(variable: Any) -> bool:
    """Return whether ``variable`` is an entry of a tensor, such as ``x[i]``."""
    return bool(getattr(variable, "is_tensor_entry", False))


def is_variable(variable: Any) -> bool:
    """Return whether ``variable`` is a tensor symbol or an entry of a tensor symbol."""
    return bool((is_entry(variable) or getattr(variable, "is_tensor_expr", False)) and variable.is_symbol)


def refuse_array(variable: Any) -> None:
    """Raise `ArgumentTypeError` if ``variable`` is an explicit matrix or array."""
    if isinstance(variable, (MatrixBase, NDimArray)):
        entries = tuple(flatten(variable))
        raise ArgumentTypeError(
            f"cannot differentiate with respect to {variable}, an explicit array: use a tuple of its entries; "
            f"td.gradient, td.jacobian, td.hessian and td.vjp take {entries}"
        )


def no_variable(value: Any) -> ArgumentTypeError:
    """Return (do not raise) the exception to raise when a user differentiates with respect to ``value``, which is not a
    variable; its text gives advice.
    """
    advice = "give a TensorSymbol or a real scalar symbol"
    if isinstance(value, Symbol):
        advice += f"; {value} is an integer, declared so or by its use"
    if isinstance(value, AppliedUndef):
        name, places = value.func.__name__, ", ".join(map(str, value.args))
        advice = (
            f"it is the value of a function; write IndexedBase({name!r}) with the entries {name}[{places}], or put a "
            f"symbol in its place, .subs({value}, Symbol({name!r}))"
        )
    return ArgumentTypeError(f"cannot differentiate with respect to {value!r}: {advice}")


def counted(variables: tuple[Any, ...]) -> list[tuple[Any, int]]:
    """Return the ``(variable, count)`` pairs of a `diff` call: ``x, 2, (y, 3)`` gives ``[(x, 2), (y, 3)]``. Raise
    `ArgumentError` or `ArgumentTypeError` if the arguments are malformed.
    """
    counted: list[tuple[Any, int | None]] = []
    for variable in variables:
        if isinstance(variable, (int, Integer)):
            if not counted or counted[-1][1] is not None:
                raise ArgumentError(f"diff: the count {variable} in {variables} follows no variable")
            counted[-1] = counted[-1][0], _number_of_times(variable, variables)
        elif isinstance(variable, (tuple, Tuple)):
            if len(variable) != 2:
                raise ArgumentTypeError(
                    f"diff: {variable} is not a pair of a variable and a count; give several variables one after the "
                    "other, or use td.gradient, which takes a tuple"
                )
            counted.append((variable[0], _number_of_times(variable[1], variables)))
        else:
            counted.append((variable, None))
    if not counted:
        raise ArgumentError("diff: there is no variable: give an entry x[p], a tensor, or a scalar symbol")
    return [(variable, 1 if times is None else times) for variable, times in counted]


def _number_of_times(value: Any, variables: tuple[Any, ...]) -> int:
    """Return a repetition count of a derivative as an int; raise `ArgumentTypeError`, which quotes all ``variables`` of
    the call, if it is not an integer ≥ 0.
    """
    if isinstance(value, bool) or not isinstance(value, (int, Integer)) or value < 0:
        raise ArgumentTypeError(f"diff: {value} in {variables} must be a number of times, 0, 1, 2, …")
    return int(value)


class TensorNode(sympy_callers.CallerDependent, Printable, Expr):
    """The base class of all expression nodes of this package. They are immutable, equal ones are one object, and all
    state is in ``args``.
    """

    is_commutative = True
    is_tensor_entry = False
    is_named = False
    is_scan = False
    _measures: Measures | None = None
    is_number = False  # no class of ours is one; SymPy would ask all arguments in turn

    @property
    def index_parts(self) -> tuple[Any, ...]:
        """Return the index expressions of the node: those in its indices, loop bounds and extents; () by default."""
        return ()

    @classmethod
    def _unchecked(cls, *args: Basic) -> Any:
        """Return the node of this class with these arguments, without checking them."""
        return interned(cls, args)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TensorNode):
            return self is other
        equal: bool = Expr.__eq__(self, other)
        return equal

    __hash__ = Expr.__hash__

    def sort_key(self, order: Any = None) -> Any:
        """Override `Basic.sort_key`, SymPy's key for ordering operands. For a deeply nested node it consists of the
        node's size and a digest (hash) of its structure, as SymPy's own key would recurse.
        """
        if self.is_symbol or not measures(self).is_deep:
            return super().sort_key(order)
        return self.class_key(), (measures(self).size, (measures(self).digest,)), S.One.sort_key(), S.One

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        if self.is_symbol or not measures(self).is_deep:
            return super().__reduce_ex__(protocol)
        return depth.unpacked, (depth.packed(self),)

    def _repr_latex_(self) -> str:
        """IPython's hook for LaTeX output: return the formula of the node in ``$``."""
        return f"$\\displaystyle {hooks.formula([self])}$"

    def has_free(self, *patterns: Any) -> bool:
        """Override `Basic.has_free`. If all patterns are symbols, they are looked up in the stored free symbols,
        without a walk through the node.
        """
        if all(
            isinstance(pattern, Symbol) or (misplaced_tensors.is_whole(pattern) and pattern.is_symbol)
            for pattern in patterns
        ):
            return not self.free_symbols.isdisjoint(patterns)
        depth.refuse_walk(self, "has_free")
        return bool(super().has_free(*patterns))

    def count_ops(self, visual: Any = None) -> Any:
        """Override `Expr.count_ops`, SymPy's number of operations: raise `UnsupportedError` if counting would take too
        long, since SymPy counts a shared part at each occurrence. ``visual`` is SymPy's option.
        """
        depth.refuse_walk(self, "the number of operations")
        return super().count_ops(visual)

    def _eval_derivative(self, variable: Expr) -> Expr | None:
        """SymPy's hook for `diff`: return the derivative with respect to ``variable``. Return None, so that it stays
        unevaluated, if SymPy only asks whether the node is constant. Raise `UnsupportedError` if the variable is an
        integer.
        """
        is_symbol = isinstance(variable, (Symbol, Idx)) and variable in self.free_symbols
        integer = is_symbol and is_integer_in(variable, self)
        scalar_by_tensor = misplaced_tensors.is_whole(variable) and not misplaced_tensors.is_whole(self)
        if (integer or scalar_by_tensor) and sympy_callers.asks_whether_constant(sys._getframe(1)):
            return None  # an unevaluated Derivative, which is not 0
        if integer:
            raise UnsupportedError(f"{self} has no derivative with respect to {variable}, which is an integer")
        return hooks.derivative(self, variable)

    def diff(self, *variables: Any, **assumptions: Any) -> Any:
        """Override `Expr.diff`. The derivative of a tensor keeps the tensor's shape, also when it is 0. Raise
        `UnsupportedError` for a derivative with respect to an entry of a computed tensor.
        """
        variables = tuple(map(hooks.lifted, variables))  # SymPy's own x[p] would be another, absent variable
        for variable in variables:
            if is_entry(variable) and not variable.is_symbol:
                raise UnsupportedError(
                    f"cannot differentiate with respect to {variable}: it is an entry of an expression; name the "
                    "expression as a TensorSymbol, or differentiate with respect to an entry of a variable"
                )
        # Derivative answers an absent variable with the scalar 0, and walks the result twice.
        direct = len(variables) == 1 and is_variable(variables[0])
        if not direct and not misplaced_tensors.is_whole(self):
            return super().diff(*variables, **assumptions)
        try:
            pairs = counted(variables)
        except (ArgumentError, ArgumentTypeError):
            return super().diff(*variables, **assumptions)
        result = self
        for variable, times in pairs:
            variable = as_expr(variable, "a variable")
            for _ in range(times):
                derivative = _next_derivative(result, variable) if variable._diff_wrt else None
                if derivative is None:
                    return super().diff(*variables, **assumptions)
                result = derivative
        return result

    def is_constant(self, *wrt: Any, **flags: Any) -> bool | None:
        """Override `Expr.is_constant`; return None ("unknown") instead of True if a tensor is among the symbols asked
        for, because SymPy would ignore it.
        """
        answer: bool | None = super().is_constant(*wrt, **flags)
        asked = self.free_symbols.intersection(wrt) if wrt else self.free_symbols
        # SymPy differentiates with respect to symbols that are numbers, and takes the others for absent.
        return None if answer and any(symbol.kind is not NumberKind for symbol in asked) else answer

    def _rewrite(self, pattern: Any, rule: Any, method: str, **hints: Any) -> Any:
        """SymPy's hook for ``expr.rewrite(rule)``. If ``rule`` is a class that this package registers as a notation,
        such as `EinsumProduct`, convert the whole expression at once; otherwise SymPy rewrites node by node, by
        ``method``. ``pattern`` limits the classes of nodes.
        """
        if rule is ITE:
            return self  # what SymPy asks of conditions; the cases of numbers inside are none of them
        notation = hooks.notation(rule)
        if notation is not None and (not pattern or isinstance(self, tuple(pattern))):
            return notation(self)  # at once: the parts of a node alone do not know the ranges around them
        return super()._rewrite(pattern, rule, method, **hints)

    def _subs(self, old: Basic, new: Basic, **hints: Any) -> Any:
        """Override `Basic._subs`: substitute ``new`` for ``old`` in a deeply nested node from the bottom up, without
        recursion.
        """
        if self is old:
            return new
        question = ("subs", old, new)  # whatever the hints, which are about the node that SymPy asks first
        return depth.answered(self, question, lambda node: Expr._subs(node, old, new, **hints))

    def _eval_subs(self, old: Basic, new: Basic) -> Basic | None:
        """SymPy's hook for `subs`. If ``new`` is a temporary placeholder of SymPy's, return the node with ``old``
        replaced by it, without validation. Otherwise return None, so that SymPy proceeds by its default.
        """
        return self._substituted(old, new) if is_placeholder(new) else None

    def _substituted(self, old: Basic, new: Basic) -> Any:
        """Return the node with ``old`` replaced by ``new`` in all arguments, validated unless ``new`` is a placeholder
        of `subs`.
        """
        args = tuple(arg._subs(old, new) for arg in self.args)
        if args == self.args:
            return self
        return self._unchecked(*args) if is_placeholder(new) else self.func(*args)

    def _xreplace(self, rule: Any) -> tuple[Any, bool]:
        """Override `Basic._xreplace`: replace by the dictionary ``rule`` in a deeply nested node from the bottom up,
        without recursion.
        """

        def parts_to_enter(node: Any) -> tuple[Any, ...]:
            """Return the arguments of ``node`` in which to replace symbols by the dictionary ``rule`` of the enclosing
            method. () for a sum or comprehension that contains none of the replaced symbols as a free symbol.
            """
            is_left = getattr(node, "is_binder", False) and node.free_symbols.isdisjoint(rule)
            return () if is_left else parts(node)

        below = parts_to_enter if isinstance(rule, Substitution) else parts
        question = ("xreplace", id(rule))
        replaced: tuple[Any, bool] = depth.answered(self, question, lambda node: node._replaced(rule), below)
        return replaced

    def _replaced(self, rule: Any) -> tuple[Any, bool]:
        """Apply the mapping or transform ``rule`` of `xreplace` to this node, or else to its arguments. Return
        ``(result, whether it changed)``.
        """
        if isinstance(rule, Transform) and self not in rule:
            return self, False  # a function on numbers or products, as in nfloat: indices and bounds stay exact
        if self in rule:
            return rule[self], True
        if measures(self).is_deep:
            args = [*map(Replacement(rule), self.args)]  # SymPy's own would walk through every path
        elif isinstance(rule, IndexRenaming):
            args = [arg._xreplace(rule)[0] for arg in self.args]
        else:
            replaced_natively: tuple[Any, bool] = Expr._xreplace(self, rule)
            return replaced_natively
        if all(new is old for new, old in zip(args, self.args, strict=True)):
            return self, False
        return (self._unchecked if isinstance(rule, IndexRenaming) else self.func)(*args), True

    def canonical(self) -> Any:
        """Return the canonical form: expressions that differ only in the names of bound indices have the same one
        (`td.canonical`).
        """
        return canonical(self)

    def as_dummy(self) -> Any:
        """Override `Basic.as_dummy`: return the canonical form."""
        return canonical(self)

    def dummy_eq(self, other: Any, symbol: Any = None) -> bool:
        """Override `Basic.dummy_eq`: return whether ``other`` differs at most in the names of bound indices. A single
        free dummy in this expression may correspond to ``symbol`` in the other.
        """
        other = as_expr(other, "the other expression")
        dummies = [free for free in self.free_symbols if isinstance(free, Dummy)]
        if symbol is None or len(dummies) != 1:
            return bool(canonical(self) == canonical(other))
        both = Dummy(**dummies[0]._assumptions_orig)
        return bool(canonical(self.xreplace({dummies[0]: both})) == canonical(other.xreplace({symbol: both})))

    def _eval_evalf(self, precision: int) -> Any:
        """SymPy's hook for `evalf`: return the node unchanged, whatever the ``precision``."""
        # Numbers inside are extents, bounds and coefficients of indices, which stay exact.
        return self

    def _eval_conjugate(self) -> Any:
        """SymPy's hook for `conjugate`: return the node unchanged, as all values are real."""
        return self

    def __float__(self) -> float:
        raise self._without_value("float")

    def __int__(self) -> int:
        raise self._without_value("int")

    def __complex__(self) -> complex:
        raise self._without_value("complex")

    def _without_value(self, conversion: str) -> ArgumentTypeError:
        """Return the exception for converting the expression to a number by ``conversion`` (such as ``float``); it
        shows the `td.evaluate` call to write instead.
        """
        free = self.free_symbols
        sizes = {symbol for part in free for extent in getattr(part, "shape", ()) for symbol in extent.free_symbols}
        arrays = ", ".join(f"{name}: …" for name in sorted(map(str, free - sizes)))
        shown = self if not measures(self).size > 30 else f"the {type(self).__name__}"
        return ArgumentTypeError(
            f"{conversion} of {shown}: an expression has a value once its variables have, td.evaluate(e, {{{arrays}}})"
        )


def is_placeholder(new: Basic) -> bool:
    """Return whether ``new`` is a temporary product of dummies, ``subs_d0*subs_m``, that SymPy inserts while it
    replaces several symbols at once.

    No validated node accepts it; `subs` replaces it by the final value, which is validated.
    """
    return isinstance(new, Mul) and all(isinstance(a, Dummy) and a.name.startswith("subs_") for a in new.args)


class RealScalar(TensorNode):
    """The base class of scalar nodes. They are real numbers of unknown sign; SymPy's assumptions are constants of the
    class, so that they need not be deduced for each node.
    """

    kind = NumberKind
    is_real = True
    is_scalar = True
    is_nonzero = is_positive = is_negative = is_nonpositive = is_nonnegative = None
    is_extended_positive = is_extended_negative = is_extended_nonpositive = is_extended_nonnegative = None
    is_extended_nonzero = is_noninteger = is_rational = is_irrational = is_algebraic = None
    is_even = is_odd = is_prime = is_composite = is_transcendental = None

    @property
    def is_integer(self) -> bool | None:
        """Return None: unknown, unless a subclass says more."""
        return None


def _next_derivative(expr: Any, variable: Any) -> Any:
    """Return the derivative of ``expr``, a node of this package or of SymPy's own, with respect to ``variable``; None
    if SymPy knows none.
    """
    if not isinstance(expr, TensorNode) and is_entry(variable) and expr.has(Derivative, Subs):
        return hooks.derivative(expr, variable)
    return expr._eval_derivative(variable)
