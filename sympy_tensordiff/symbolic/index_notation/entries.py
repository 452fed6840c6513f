"""The base class of tensor expressions, and the entry ``T[i, j]`` of one."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from sympy import Basic, Expr, Mod, Symbol, Tuple, Wild, ordered
from sympy.core.kind import NumberKind
from sympy.tensor.array.ndim_array import ArrayKind

from sympy_tensordiff.errors import (
    ArgumentTypeError,
    IndexExpressionError,
    OutOfShapeError,
    ShapeError,
    UnsupportedError,
)
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.indirect import IndirectIndex
from sympy_tensordiff.integer.products import IndexProduct, SymbolicQuotient, divide_with_rest
from sympy_tensordiff.symbolic.expressions import depth, misplaced_tensors, sympy_callers
from sympy_tensordiff.symbolic.expressions.base import RealScalar, TensorNode, argument, arguments
from sympy_tensordiff.symbolic.expressions.missing_names import (
    OPERATORS_OF_NUMPY,
    message_for_ufunc,
    raise_for_attribute,
)
from sympy_tensordiff.symbolic.expressions.missing_names import REPLACED_FUNCTIONS as REPLACED_FUNCTIONS
from sympy_tensordiff.symbolic.expressions.missing_names import REPLACED_METHODS as REPLACED_METHODS
from sympy_tensordiff.symbolic.expressions.printable import short
from sympy_tensordiff.symbolic.expressions.replacement import Substitution
from sympy_tensordiff.symbolic.index_notation.indices import as_index, is_data, parse


class TensorExpr(TensorNode):
    """An expression whose value is a tensor. It has a ``shape``, and ``T[i, j]`` is its entry, a scalar.

    Operators are entry by entry (`operators` has them); SymPy's scalar nodes take those of rank 0 only.
    """

    is_tensor_expr = True

    @classmethod
    def class_key(cls) -> Any:
        """Override `Basic.class_key`: tensors with a name sort with the symbols, before entries and functions."""
        return (2, 0, cls.__name__) if cls.is_symbol else super().class_key()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        # Numbers of NumPy leave their operators to these.
        if ufunc.__name__ in ("equal", "not_equal") and not isinstance(inputs[0], TensorExpr):
            return ufunc.__name__ == "not_equal"  # an array is not an expression, as == of SymPy says
        name = OPERATORS_OF_NUMPY.get(ufunc.__name__)
        if name is None or method != "__call__" or kwargs:
            raise ArgumentTypeError(message_for_ufunc(ufunc.__name__, inputs))
        left, right = inputs
        if isinstance(left, TensorExpr):
            return getattr(left, f"__{name}__")(right)
        return getattr(right, f"__r{name}__")(left)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        # numpy.dot(A, B) would take both for scalars, and multiply entry by entry.
        name = f"numpy.{function.__name__}"
        raise UnsupportedError(
            f"{name} computes with arrays, and {short(self)} is an expression: td has functions of expressions "
            "(td.dot, td.einsum, td.sum, …), and td.lambdify makes a function of arrays of one"
        )

    __iter__ = None  # without it, Python iterates by T[0], T[1], … for ever

    def __getattr__(self, name: str) -> Any:
        raise_for_attribute(self, name)

    @property
    def shape(self) -> tuple[Expr, ...]:
        """Return the shape of the tensor, a tuple with the extent of each axis."""
        raise NotImplementedError

    @property
    def symmetric(self) -> bool:
        """Return whether this is a variable that is declared to be a symmetric matrix."""
        return False

    @property
    def _op_priority(self) -> float:
        """Return the priority for SymPy's binary operations. For rank > 0 it exceeds that of scalars, so that the
        tensor ``T`` handles ``x + T``.
        """
        return 30.0 if self.rank else Expr._op_priority  # x + T asks T first

    @property
    def rank(self) -> int:
        """Return the number of axes."""
        return len(self.shape)

    def __getitem__(self, indices: Any) -> Any:
        places = tuple(indices) if isinstance(indices, (tuple, list, Tuple)) else (indices,)
        fewer = 0 < len(places) < self.rank and not isinstance(indices, list)  # a list is many places to NumPy
        if fewer or any(isinstance(place, slice) or place is Ellipsis or place is None for place in places):
            return self._part(places)
        entry = TensorEntry(self, *places)
        _check_strides(entry)
        return entry

    def _part(self, indices: tuple[Any, ...]) -> Any:
        """Return the value of ``T[indices]`` for this tensor ``T``: an entry, or a tensor if ``indices`` contain
        slices, ``...`` or None. The module `operators` implements it.
        """
        raise NotImplementedError

    def write_out(self, indices: tuple[Expr, ...]) -> Expr | None:
        """Return the entry at ``indices`` in index notation, such as ``Sum_k A[i, k]*B[k, j]``; None for a variable,
        whose entry is not computed.
        """
        return None

    @property
    def is_scalar(self) -> bool:
        """Return whether the rank is 0. Raise `UnsupportedError` if the caller is SymPy code that is about to use a
        whole tensor as a scalar.
        """
        misplaced_tensors.refuse_property_access(self, sys._getframe(1))
        return self.rank == 0

    def _eval_Mod(self, other: Any) -> Any:  # noqa: N802
        """SymPy's hook for `Mod`: return an unevaluated ``Mod(self, other)``, because evaluation would treat the
        tensor, which has ``__iter__``, as a list.
        """
        return Mod(self, other, evaluate=False)  # SymPy's gcd takes what has an __iter__ for a list

    @property
    def is_extended_real(self) -> bool | None:
        """Return True for rank 0, else None (unknown). Raise `UnsupportedError` if the caller is SymPy code that is
        about to use a whole tensor as a scalar.
        """
        misplaced_tensors.refuse_property_access(self, sys._getframe(1))
        return self._eval_is_extended_real()

    def _eval_is_extended_real(self) -> bool | None:
        """SymPy's hook for the assumption `extended_real`: True for rank 0, else None."""
        return True if self.rank == 0 else None

    @property
    def kind(self) -> Any:
        """Return `ArrayKind` for a whole tensor, so that SymPy does not replace it by a number, and `NumberKind` for a
        scalar.
        """
        return ArrayKind(NumberKind) if misplaced_tensors.is_whole(self) else NumberKind

    def match(self, pattern: Any, old: bool = False) -> Any:
        """Override `Basic.match`: a whole tensor does not match a ``pattern`` for scalars, so return None. ``old`` is
        SymPy's option.
        """
        if misplaced_tensors.is_whole(self) and not isinstance(pattern, (Wild, TensorExpr)):
            return None
        return super().match(pattern, old)

    @property
    def is_finite(self) -> bool:
        """Return True, because SymPy should treat an entry as a finite number. Raise `UnsupportedError` if the calling
        frame shows that SymPy is about to use a whole tensor as a scalar.
        """
        misplaced_tensors.refuse_property_access(self, sys._getframe(1))
        return True

    def _eval_is_finite(self) -> bool:
        """SymPy's hook for the assumption `finite`: True."""
        return True

    @property
    def __sympy__(self) -> bool:
        misplaced_tensors.refuse_as_argument(self, sys._getframe(1))
        return True

    def _eval_Eq(self, other: Any) -> None:  # noqa: N802
        """Return None, which means SymPy's default, if neither this entry nor ``other`` is a whole tensor; else raise
        `UnsupportedError`. It is SymPy's hook for `Eq`.
        """
        for side in (self, other):
            misplaced_tensors.refuse_as_scalar(side, "Eq of a whole tensor", misplaced_tensors.comparison("equal"))


class TensorEntry(RealScalar):
    """The entry ``T[i, j, …]`` of a tensor expression, a real scalar; written ``T[i, j]``.

    Parameters
    ----------
    tensor : TensorExpr
    *indices : Expr or int
        One per axis; integer combinations of integer symbols.

    Examples
    --------
    >>> from sympy_tensordiff.symbolic import TensorSymbol
    >>> from sympy_tensordiff.symbolic.index_notation.indices import indices
    >>> i, j = indices("i j")
    >>> A = TensorSymbol("A", (3, 4))
    >>> A[i, j + 1]
    A[i, j + 1]
    """

    is_tensor_entry = True
    has_symbols_of_parts = True
    is_zero = None
    _is_leaf = True

    def __new__(cls, tensor: TensorExpr, *indices: Any) -> Any:
        if not isinstance(tensor, TensorExpr):
            hint = ""
            if isinstance(tensor, Symbol):
                hint = "; where sympy.lambdify or diff puts dummies in the place of tensors: use td.lambdify or td.diff"
            raise ArgumentTypeError(f"the tensor of an entry must be a tensor expression, not {tensor!r}{hint}")
        if tensor.rank == 0 and not indices and tensor.is_symbol:
            return tensor
        checked = _checked_indices(tensor, indices)
        return cls._unchecked(tensor, *(ordered(checked) if tensor.symmetric else checked))

    @classmethod
    def _trusted(cls, tensor: TensorExpr, indices: Iterable[Expr]) -> Any:
        """Return the entry of `tensor` at ``indices`` without checking them; for a variable of rank 0 return the
        variable itself.
        """
        indices = tuple(ordered(indices) if tensor.symmetric else indices)
        return cls._unchecked(tensor, *indices) if indices or not tensor.is_symbol else tensor

    tensor = argument(0, "The tensor expression that is read.")
    indices: tuple[Expr, ...] = arguments(1, "The index expressions, one per axis.")

    @property
    def index_parts(self) -> tuple[Expr, ...]:
        """Return the index expressions in this node, whose symbols count as integers: the indices of the entry."""
        return self.indices

    @property
    def is_symbol(self) -> bool:
        """Return whether this is an entry of a tensor symbol, which SymPy's `Derivative` treats as a variable."""
        # An entry of a variable is a variable to Derivative, which would otherwise put a dummy in its place.
        return bool(self.args[0].is_symbol)

    @property
    def is_integer(self) -> bool | None:
        """Return True for an entry of a tensor of integers, else None (unknown)."""
        return True if is_data(self) else None

    @property
    def _diff_wrt(self) -> bool:
        """SymPy's flag for expressions that can be differentiated by: True for an entry of a tensor symbol, such as
        ``x[p]``.

        It is False while SymPy differentiates ``g(x[p], x[q])`` with respect to its first argument only, since ``x[q]``
        may be the same entry.
        """
        return bool(self.args[0].is_symbol) and not sympy_callers.means_one_argument(self, sys._getframe(1))

    @property
    def free_symbols(self) -> set[Basic]:
        """Override `Basic.free_symbols`: return the symbols of the tensor and of the indices."""
        free: set[Basic] = set().union(*(arg.free_symbols for arg in self._args))
        return sympy_callers.free_symbols_for_caller(self, free, sys._getframe(1))

    def doit(self, **hints: Any) -> Any:
        """Override `Basic.doit`: return the entry in index notation, evaluated; an entry of a variable is unchanged."""
        depth.refuse_walk(self, "doit")
        body = self.tensor.write_out(self.indices)
        if body is None:
            return self
        return body.doit(**hints) if hints.get("deep", True) else body

    def _xreplace(self, rule: Any) -> tuple[Any, bool]:
        """Override `Basic._xreplace`. If ``rule`` is a `Substitution` without symbols of the tensor, it is applied to
        the indices only, and the tensor is not walked through.
        """
        if not isinstance(rule, Substitution) or not self.tensor.free_symbols.isdisjoint(rule):
            replaced: tuple[Any, bool] = super()._xreplace(rule)
            return replaced
        # The tensor, which may be deep, is not walked through.
        pairs = [index._xreplace(rule) for index in self.indices]
        if not any(changed for _, changed in pairs):
            return self, False
        return self.func(self.tensor, *(index for index, _ in pairs)), True

    def _eval_simplify(self, **kwargs: Any) -> Any:
        """SymPy's hook for `simplify`: return the entry of the simplified tensor at the same indices."""
        tensor = self.tensor.simplify(**kwargs)
        return self if tensor == self.tensor else self._trusted(tensor, self.indices)


def _checked_indices(tensor: TensorExpr, indices: tuple[Any, ...]) -> tuple[Expr, ...]:
    """Return ``indices`` as SymPy expressions. Raise an error if there are too many or too few for ``tensor``, or if
    one is not an integer expression.

    Raises `ShapeError` if their number is not the rank, `OutOfShapeError` if a constant index is out of range, and
    `IndexExpressionError` if one is not an index expression.
    """
    if len(indices) != tensor.rank:
        raise ShapeError(
            f"{_text_of(tensor, indices)}: {short(tensor)} has rank {tensor.rank} (shape {tensor.shape}), so an entry "
            f"needs {tensor.rank} {'index' if tensor.rank == 1 else 'indices'}, not {len(indices)}"
        )
    result = []
    for axis, (value, extent) in enumerate(zip(indices, tensor.shape, strict=True)):
        index = as_index(value, "an index")
        try:
            form, _ = parse(index)
        except IndexExpressionError as error:
            raise IndexExpressionError(f"{_text_of(tensor, indices)}: {error}") from None
        if form.is_constant and (form.constant < 0 or (extent.is_Integer and form.constant >= extent)):
            place = extent + form.constant
            last = f"; write {place}" if form.constant < 0 and not place.is_negative else ""
            raise OutOfShapeError(
                f"{_text_of(tensor, indices)}: index {form.constant} of axis {axis} lies outside of 0 … {extent - 1} "
                f"(shape {tensor.shape}); indices count from 0 and negative ones do not wrap around{last}"
            )
        result.append(index)
    return tuple(result)


def _products_of_remainders(form: Affine) -> set[IndexProduct]:
    """Return the products of symbols in ``form`` that come from a remainder: ``Mod(e, n)`` is stored as ``e -
    n*floor(e/n)``. Such products are allowed in indices, others are not.
    """
    factors: dict[SymbolicQuotient, Affine] = {}
    products: dict[SymbolicQuotient, set[IndexProduct]] = {}
    for v, c in form.terms:
        for found in v.factors if isinstance(v, IndexProduct) else (v,):
            if isinstance(found, SymbolicQuotient):
                factor = v.without(found) if isinstance(v, IndexProduct) else Affine.of(1)
                factors[found] = factors.get(found, Affine()) + factor * c
                products.setdefault(found, set()).update([v] if isinstance(v, IndexProduct) else [])
    result: set[IndexProduct] = set()
    for found, factor in factors.items():
        multiple, rest = divide_with_rest(factor, found.divisor)
        if multiple.is_constant and rest == Affine():
            result |= products[found]
    return result


def _check_strides(entry: Any) -> None:
    """Raise `IndexExpressionError` if an index of `entry` contains a product of symbols, such as ``n*i``. Allowed are
    products of sizes alone, and indices like ``n*i + j``, in which one symbol has the coefficient 1 or -1.
    """
    for index in entry.indices if entry.is_tensor_entry else ():
        form, atoms = parse(index)
        remainders = _products_of_remainders(form)
        products = [v for v in form.compounds() if isinstance(v, IndexProduct) and v not in remainders]
        loose = {factor for product in products for factor in product.factors if isinstance(factor, int)}
        if not products or any(abs(c) == 1 and v not in loose and v not in products for v, c in form.terms):
            continue
        sizes = set().union(*(extent.free_symbols for extent in entry.tensor.shape))
        # No index is solved for data, so a single entry times sizes needs no term with coefficient 1.
        others = [f for product in products for f in product.factors if not isinstance(f, IndirectIndex)]
        several = any(sum(isinstance(f, IndirectIndex) for f in product.factors) > 1 for product in products)
        if several or not {atoms[slot] for f in others for slot in Affine.variable(f).atoms()} <= sizes:
            raise IndexExpressionError(
                f"{entry}: {index} multiplies indices or sizes with each other: an index must be an integer "
                "combination of integer symbols, e.g. 2*i + j - 1; next to a symbolic stride, as in M*i, one index "
                "needs the coefficient 1, as in x[M*i + j]"
            )


def _text_of(tensor: TensorExpr, indices: tuple[Any, ...]) -> str:
    """Return the text of the entry ``tensor[indices]`` for messages."""
    return f"{short(tensor)}[{', '.join(map(str, indices)) or '()'}]"
