"""What all classes share: tensor expressions, their entries, and behaving well inside SymPy."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Any

from sympy import (
    Basic,
    Derivative,
    Dummy,
    Expr,
    Function,
    Idx,
    Integer,
    Mul,
    S,
    Subs,
    Sum,
    Symbol,
    Tuple,
    Wild,
)
from sympy.core.kind import NumberKind
from sympy.core.rules import Transform
from sympy.tensor.array.ndim_array import ArrayKind

from sympy_tensordiff.errors import (
    ArgumentTypeError,
    IndexExpressionError,
    OutOfShapeError,
    ShapeError,
    UnsupportedError,
)
from sympy_tensordiff.symbolic import hooks, walkers, whole
from sympy_tensordiff.symbolic.canonical import canonical
from sympy_tensordiff.symbolic.code import NoCode
from sympy_tensordiff.symbolic.indices import Renaming, as_expr, parse
from sympy_tensordiff.symbolic.interning import interned
from sympy_tensordiff.symbolic.measures import Measures, measures
from sympy_tensordiff.symbolic.printing import PrintedEntry, short


class Node(walkers.Shown, NoCode, Expr):
    """Base of all classes: immutable, all state in ``args``, derivatives through the hook."""

    is_commutative = True
    _measures: Measures | None = None
    is_number = False  # no class of ours is one; SymPy would ask all arguments in turn

    @classmethod
    def _unchecked(cls, *args: Basic) -> Any:
        """The node of these arguments without validation; the same object as the validated one."""
        return interned(cls, args)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Node):
            return self is other
        equal: bool = Expr.__eq__(self, other)
        return equal

    __hash__ = Expr.__hash__

    def sort_key(self, order: Any = None) -> Any:
        """As `Basic.sort_key`; that of a node too deep for it holds its digest in place of its parts."""
        if self.is_symbol or not measures(self).is_deep:
            return super().sort_key(order)
        return self.class_key(), (measures(self).size, (measures(self).digest,)), S.One.sort_key(), S.One

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def _eval_derivative(self, variable: Expr) -> Expr | None:
        integer = isinstance(variable, (Symbol, Idx)) and variable.is_integer and variable in self.free_symbols
        scalar_by_tensor = whole.is_whole(variable) and not whole.is_whole(self)
        if (integer or scalar_by_tensor) and walkers.asks_whether_constant(sys._getframe(1)):
            return None  # an unevaluated Derivative, which is not 0
        if scalar_by_tensor:
            entry = f"{short(variable)}[{', '.join('pqrs'[: variable.rank]) or 'p'}]"
            raise UnsupportedError(
                f"the derivative of a scalar by the whole tensor {variable} is a tensor, which SymPy's scalar rules "
                f"would misuse: call td.gradient(expression, {variable}), or differentiate by an entry, e.g. {entry}"
            )
        if integer:
            raise UnsupportedError(f"{self} has no derivative by {variable}, which is an integer")
        return hooks.derivative(self, variable)

    def diff(self, *variables: Any, **assumptions: Any) -> Any:
        """As `Expr.diff`; a tensor keeps its shape where the variable is absent."""
        variables = tuple(map(hooks.lifted, variables))  # SymPy's own x[p] would be another, absent variable
        for variable in variables:
            if isinstance(variable, TensorEntry) and not variable.is_symbol:
                raise UnsupportedError(
                    f"cannot differentiate by {variable}: it is an entry of an expression; name the expression "
                    "as a TensorSymbol, or differentiate by an entry of a variable"
                )
        # Derivative answers an absent variable with the scalar 0, and walks the result twice.
        direct = len(variables) == 1 and isinstance(variables[0], (TensorEntry, TensorExpr)) and variables[0].is_symbol
        if not direct and not whole.is_whole(self):
            return super().diff(*variables, **assumptions)
        if not all(_is_plain(variable) for variable in variables) or not variables:
            return super().diff(*variables, **assumptions)
        result = self
        for variable in _repeated(variables):
            derivative = _next_derivative(result, variable) if variable._diff_wrt else None
            if derivative is None:
                return super().diff(*variables, **assumptions)
            result = derivative
        return result

    def _rewrite(self, pattern: Any, rule: Any, method: str, **hints: Any) -> Any:
        if rule is Sum and (not pattern or isinstance(self, tuple(pattern))):
            return hooks.native(self)  # at once: the parts of a node alone do not know the ranges around them
        return super()._rewrite(pattern, rule, method, **hints)

    def _eval_subs(self, old: Basic, new: Basic) -> Basic | None:
        return self._substituted(old, new) if is_placeholder(new) else None

    def _substituted(self, old: Basic, new: Basic) -> Any:
        """All arguments substituted; validated only where ``new`` is there to stay."""
        args = tuple(arg._subs(old, new) for arg in self.args)
        if args == self.args:
            return self
        return self._unchecked(*args) if is_placeholder(new) else self.func(*args)

    def _xreplace(self, rule: Any) -> tuple[Any, bool]:
        if isinstance(rule, Transform) and self not in rule:
            return self, False  # a function on numbers or products, as in nfloat: indices and bounds stay exact
        if not isinstance(rule, Renaming) or self in rule:
            replaced_natively: tuple[Any, bool] = super()._xreplace(rule)
            return replaced_natively
        replaced = [arg._xreplace(rule) for arg in self.args]
        if not any(changed for _, changed in replaced):
            return self, False
        return self._unchecked(*(new for new, _ in replaced)), True

    def canonical(self) -> Any:
        """The canonical form: one expression for all that differ in names of bound indices only (`td.canonical`)."""
        return canonical(self)

    def as_dummy(self) -> Any:
        """The canonical form, under SymPy's name for it."""
        return canonical(self)

    def dummy_eq(self, other: Any, symbol: Any = None) -> bool:
        """Whether ``other`` differs in names of bound indices only; one free dummy stands for ``symbol``."""
        other = as_expr(other, "the other expression")
        dummies = [free for free in self.free_symbols if isinstance(free, Dummy)]
        if symbol is None or len(dummies) != 1:
            return bool(canonical(self) == canonical(other))
        both = Dummy(**dummies[0]._assumptions_orig)
        return bool(canonical(self.xreplace({dummies[0]: both})) == canonical(other.xreplace({symbol: both})))

    def _eval_evalf(self, precision: int) -> Any:
        # Numbers inside are extents, bounds and coefficients of indices, which stay exact.
        return self

    def _eval_conjugate(self) -> Any:
        return self


def is_placeholder(new: Basic) -> bool:
    """Whether ``new`` is the ``subs_d0*subs_m`` that simultaneous `subs` inserts for a moment.

    It is no integer and no tensor, so that no validated node could hold it; `subs` replaces it
    by the final value, which is validated.
    """
    return isinstance(new, Mul) and all(isinstance(a, Dummy) and a.name.startswith("subs_") for a in new.args)


class RealScalar(Node):
    """A real number of unknown sign: says so at once, where SymPy would deduce it anew for every node."""

    kind = NumberKind
    is_real = True
    is_scalar = True
    is_nonzero = is_positive = is_negative = is_nonpositive = is_nonnegative = None
    is_extended_positive = is_extended_negative = is_extended_nonpositive = is_extended_nonnegative = None
    is_extended_nonzero = is_integer = is_noninteger = is_rational = is_irrational = is_algebraic = None
    is_even = is_odd = is_prime = is_composite = is_transcendental = None


class TensorExpr(Node):
    """A tensor-valued expression: has a ``shape``; ``T[i, j]`` is its entry, a scalar.

    Whole tensors take part in scalar arithmetic only at rank 0; everything else raises and
    points to index notation.
    """

    is_tensor_expr = True
    __array_ufunc__ = None  # NumPy arrays would take a tensor for a scalar of dtype object
    __iter__ = None  # without it, Python iterates by T[0], T[1], … for ever
    _op_priority = 30.0  # x + T asks T first

    @property
    def shape(self) -> tuple[Expr, ...]:
        """The extents, one per axis."""
        raise NotImplementedError

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def __getitem__(self, indices: Any) -> Any:
        return TensorEntry(self, *(indices if isinstance(indices, (tuple, list, Tuple)) else (indices,)))

    def write_out(self, indices: tuple[Expr, ...]) -> Expr | None:
        """The entry at ``indices`` in index notation; None where it is a variable."""
        return None

    @property
    def is_scalar(self) -> bool:
        return self.rank == 0

    @property
    def is_Float(self) -> bool:  # noqa: N802
        whole.refuse_asked(self, sys._getframe(1))
        return False

    @property
    def is_extended_real(self) -> bool:
        whole.refuse_asked(self, sys._getframe(1))
        return self.rank == 0

    def _eval_is_extended_real(self) -> bool:
        return self.rank == 0

    def _eval_is_finite(self) -> bool:
        return True

    @property
    def kind(self) -> Any:
        """Array of numbers, so that SymPy puts no number in its place."""
        return ArrayKind(NumberKind) if whole.is_whole(self) else NumberKind

    def match(self, pattern: Any, old: bool = False) -> Any:
        """As `Basic.match`; a pattern for scalars does not fit a whole tensor."""
        if whole.is_whole(self) and not isinstance(pattern, (Wild, TensorExpr)):
            return None
        return super().match(pattern, old)

    def _eval_Eq(self, other: Any) -> None:  # noqa: N802
        whole.refuse_whole(self, "Eq")

    def _eval_Abs(self) -> None:  # noqa: N802
        whole.refuse_whole(self, "Abs")

    def _eval_transpose(self) -> Any:
        whole.refuse_whole(self, "transpose")
        return self

    _eval_adjoint = _eval_transpose


whole.install(TensorExpr)


class TensorEntry(PrintedEntry, RealScalar):
    """The entry ``T[i, j, …]`` of a tensor expression, a real scalar; written ``T[i, j]``.

    Parameters
    ----------
    tensor : TensorExpr
    *indices : Expr or int
        One per axis; integer combinations of integer symbols.

    Examples
    --------
    >>> from sympy_tensordiff.symbolic import TensorSymbol, indices
    >>> i, j = indices("i j")
    >>> A = TensorSymbol("A", (3, 4))
    >>> A[i, j + 1]
    A[i, j + 1]
    """

    is_tensor_entry = True
    is_zero = None
    _is_leaf = True

    def __new__(cls, tensor: TensorExpr, *indices: Any) -> Any:
        if not isinstance(tensor, TensorExpr):
            hint = ""
            if isinstance(tensor, Symbol):
                hint = "; where sympy.lambdify puts dummies in the place of tensors: use td.lambdify"
            raise ArgumentTypeError(f"the tensor of an entry must be a tensor expression, not {tensor!r}{hint}")
        if tensor.rank == 0 and not indices and tensor.is_symbol:
            return tensor
        return cls._unchecked(tensor, *_checked_indices(tensor, indices))

    @classmethod
    def _trusted(cls, tensor: TensorExpr, indices: Iterable[Expr]) -> Any:
        """The entry at indices known to be valid SymPy expressions, without validation."""
        indices = tuple(indices)
        return cls._unchecked(tensor, *indices) if indices or not tensor.is_symbol else tensor

    @property
    def tensor(self) -> Any:
        """The tensor expression that is read."""
        return self.args[0]

    @property
    def indices(self) -> tuple[Expr, ...]:
        """The index expressions, one per axis."""
        return tuple(self.args[1:])

    @property
    def is_symbol(self) -> bool:
        # An entry of a variable is a variable to Derivative, which would otherwise put a dummy in its place.
        return bool(self.args[0].is_symbol)

    @property
    def _diff_wrt(self) -> bool:
        return bool(self.args[0].is_symbol) and not _has_alias(self, sys._getframe(1))

    @property
    def free_symbols(self) -> set[Basic]:
        return set().union(*(arg.free_symbols for arg in self.args))

    def doit(self, **hints: Any) -> Any:
        """The entry of a comprehension written out in index notation; a variable's as it is."""
        body = self.tensor.write_out(self.indices)
        if body is None:
            return self
        return body.doit(**hints) if hints.get("deep", True) else body

    def _eval_simplify(self, **kwargs: Any) -> Any:
        tensor = self.tensor.simplify(**kwargs)
        return self if tensor == self.tensor else self._trusted(tensor, self.indices)


def _next_derivative(expr: Any, variable: Any) -> Any:
    """One more derivative of what may be SymPy's own node; unevaluated ones in it are for our rules."""
    if not isinstance(expr, Node) and isinstance(variable, TensorEntry) and expr.has(Derivative, Subs):
        return hooks.derivative(expr, variable)
    return expr._eval_derivative(variable)


def _has_alias(entry: Any, asking: FrameType) -> bool:
    """Whether SymPy is about to write ``Derivative(g(x[p], x[q]), x[p])`` and mean the first argument only.

    Both may be the same entry, so that this would be another derivative; where the entry is no
    variable to SymPy, it writes ``Subs(Derivative(g(xi, x[q]), xi), xi, x[p])``.
    """
    names = asking.f_locals
    if asking.f_code is Function.fdiff.__code__:
        others = [arg for n, arg in enumerate(names["self"].args) if n != names["ix"]]
    elif asking.f_code is Derivative._eval_subs.__code__ and "newargs" in names:
        others = [arg for arg in names["newargs"][0].args if arg != entry]
    elif asking.f_code is Derivative._eval_subs.__code__:
        others = [arg for arg in names["self"].expr.args if arg != names["old"]]
    else:
        return False
    return any(entry.tensor in arg.free_symbols for arg in others)


def _is_plain(variable: Any) -> bool:
    """Whether an argument of `diff` is a variable, a positive number of times, or both as a pair."""
    if isinstance(variable, (tuple, Tuple)):
        return len(variable) == 2 and isinstance(variable[1], (int, Integer)) and variable[1] > 0
    return not isinstance(variable, (int, Integer)) or variable > 0


def _repeated(variables: tuple[Any, ...]) -> Iterator[Any]:
    """The variables of a call of `diff`, one by one: ``x, 2`` and ``(x, 2)`` are x twice."""
    for position, variable in enumerate(variables):
        following = variables[position + 1] if position + 1 < len(variables) else None
        if isinstance(variable, (int, Integer)):
            continue
        variable, times = variable if isinstance(variable, (tuple, Tuple)) else (variable, following)
        yield from [as_expr(variable, "a variable")] * (int(times) if isinstance(times, (int, Integer)) else 1)


def _checked_indices(tensor: TensorExpr, indices: tuple[Any, ...]) -> tuple[Expr, ...]:
    if len(indices) != tensor.rank:
        raise ShapeError(
            f"{_shown(tensor, indices)}: {short(tensor)} has rank {tensor.rank} (shape {tensor.shape}), so an entry "
            f"needs {tensor.rank} {'index' if tensor.rank == 1 else 'indices'}, not {len(indices)}"
        )
    result = []
    for axis, (value, extent) in enumerate(zip(indices, tensor.shape, strict=True)):
        if isinstance(value, slice) or value is Ellipsis or value is None:
            raise IndexExpressionError(
                f"{_shown(tensor, indices)}: slices are not supported; write the part as a comprehension, "
                f"e.g. TensorComprehension({short(tensor)}[i + 1], (i, n))"
            )
        index = as_expr(value, "an index")
        try:
            form, atoms = parse(index)
        except IndexExpressionError as error:
            raise IndexExpressionError(f"{_shown(tensor, indices)}: {error}") from None
        if not atoms and (form.constant < 0 or (extent.is_Integer and form.constant >= extent)):
            raise OutOfShapeError(
                f"{_shown(tensor, indices)}: index {form.constant} of axis {axis} lies outside of 0 … {extent - 1} "
                f"(shape {tensor.shape}); indices count from 0 and negative ones do not wrap around"
            )
        result.append(index)
    return tuple(result)


def _shown(tensor: TensorExpr, indices: tuple[Any, ...]) -> str:
    return f"{short(tensor)}[{', '.join(map(str, indices)) or '()'}]"
