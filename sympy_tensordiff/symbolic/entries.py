"""Tensor expressions and their entries."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable
from types import MappingProxyType
from typing import Any, NoReturn

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
from sympy_tensordiff.integer.data import DataEntry
from sympy_tensordiff.integer.products import Product, SymbolicQuotient, divided
from sympy_tensordiff.symbolic import depth, walkers, whole
from sympy_tensordiff.symbolic.base import Node, RealScalar, argument, arguments
from sympy_tensordiff.symbolic.depth import measures
from sympy_tensordiff.symbolic.indices import Substitution, as_expr, is_data, parse
from sympy_tensordiff.symbolic.printing import PrintedEntry, short


class TensorExpr(Node):
    """A tensor-valued expression: has a ``shape``; ``T[i, j]`` is its entry, a scalar.

    Operators are entry by entry (`operators` has them); SymPy's scalar nodes take those of rank 0 only.
    """

    is_tensor_expr = True
    __array_ufunc__ = None  # NumPy arrays would take a tensor for a scalar of dtype object

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        # numpy.dot(A, B) would take both for scalars, and multiply entry by entry.
        name = f"numpy.{function.__name__}"
        raise UnsupportedError(
            f"{name} computes with arrays, and {short(self)} is an expression: td has functions of expressions "
            "(td.dot, td.einsum, td.sum, …), and td.lambdify makes a function of arrays of one"
        )

    __iter__ = None  # without it, Python iterates by T[0], T[1], … for ever

    def __getattr__(self, name: str) -> Any:
        of_tensor(self, name)

    @property
    def shape(self) -> tuple[Expr, ...]:
        """The extents, one per axis."""
        raise NotImplementedError

    @property
    def symmetric(self) -> bool:
        """Whether this is a variable that is declared to be a symmetric matrix."""
        return False

    @property
    def _op_priority(self) -> float:
        return 30.0 if self.rank else Expr._op_priority  # x + T asks T first

    @property
    def rank(self) -> int:
        """The number of axes."""
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
        """The part that slices select (`operators` has it)."""
        raise NotImplementedError

    def write_out(self, indices: tuple[Expr, ...]) -> Expr | None:
        """The entry at ``indices`` in index notation; None where it is a variable."""
        return None

    @property
    def is_scalar(self) -> bool:
        whole.refuse_asked(self, sys._getframe(1))
        return self.rank == 0

    def _eval_Mod(self, other: Any) -> Any:  # noqa: N802
        return Mod(self, other, evaluate=False)  # SymPy's gcd takes what has an __iter__ for a list

    @property
    def is_extended_real(self) -> bool | None:
        whole.refuse_asked(self, sys._getframe(1))
        return self._eval_is_extended_real()

    def _eval_is_extended_real(self) -> bool | None:
        return True if self.rank == 0 else None

    @property
    def kind(self) -> Any:
        """Array of numbers, so that SymPy puts no number in its place."""
        return ArrayKind(NumberKind) if whole.is_whole(self) else NumberKind

    def match(self, pattern: Any, old: bool = False) -> Any:
        """As `Basic.match`; a pattern for scalars does not fit a whole tensor."""
        if whole.is_whole(self) and not isinstance(pattern, (Wild, TensorExpr)):
            return None
        return super().match(pattern, old)

    @property
    def is_finite(self) -> bool:
        whole.refuse_asked(self, sys._getframe(1))
        return True

    def _eval_is_finite(self) -> bool:
        return True

    @property
    def __sympy__(self) -> bool:
        whole.refuse_taken(self, sys._getframe(1))
        return True

    def _eval_Eq(self, other: Any) -> None:  # noqa: N802
        for side in (self, other):
            whole.refuse_whole(side, "Eq of a whole tensor", whole.COMPARISON)


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
        """The entry at indices known to be valid SymPy expressions, without validation."""
        indices = tuple(ordered(indices) if tensor.symmetric else indices)
        return cls._unchecked(tensor, *indices) if indices or not tensor.is_symbol else tensor

    tensor = argument(0, "The tensor expression that is read.")
    indices: tuple[Expr, ...] = arguments(1, "The index expressions, one per axis.")

    @property
    def index_parts(self) -> tuple[Expr, ...]:
        return self.indices

    @property
    def is_symbol(self) -> bool:
        # An entry of a variable is a variable to Derivative, which would otherwise put a dummy in its place.
        return bool(self.args[0].is_symbol)

    @property
    def is_integer(self) -> bool | None:
        """Whether this is an entry of a tensor of integers."""
        return True if is_data(self) else None

    @property
    def _diff_wrt(self) -> bool:
        return bool(self.args[0].is_symbol) and not walkers.means_one_argument(self, sys._getframe(1))

    @property
    def free_symbols(self) -> set[Basic]:
        free: set[Basic] = set().union(*(arg.free_symbols for arg in self._args))
        return walkers.shown_symbols(self, free, sys._getframe(1))

    def doit(self, **hints: Any) -> Any:
        """The entry of a comprehension written out in index notation; a variable's as it is."""
        depth.refuse_walk(self, "doit")
        body = self.tensor.write_out(self.indices)
        if body is None:
            return self
        return body.doit(**hints) if hints.get("deep", True) else body

    def _xreplace(self, rule: Any) -> tuple[Any, bool]:
        if not isinstance(rule, Substitution) or not self.tensor.free_symbols.isdisjoint(rule):
            replaced: tuple[Any, bool] = super()._xreplace(rule)
            return replaced
        # The tensor, which may be deep, is not walked through.
        pairs = [index._xreplace(rule) for index in self.indices]
        if not any(changed for _, changed in pairs):
            return self, False
        return self.func(self.tensor, *(index for index, _ in pairs)), True

    def _eval_simplify(self, **kwargs: Any) -> Any:
        tensor = self.tensor.simplify(**kwargs)
        return self if tensor == self.tensor else self._trusted(tensor, self.indices)


def _checked_indices(tensor: TensorExpr, indices: tuple[Any, ...]) -> tuple[Expr, ...]:
    if len(indices) != tensor.rank:
        raise ShapeError(
            f"{_shown(tensor, indices)}: {short(tensor)} has rank {tensor.rank} (shape {tensor.shape}), so an entry "
            f"needs {tensor.rank} {'index' if tensor.rank == 1 else 'indices'}, not {len(indices)}"
        )
    result = []
    for axis, (value, extent) in enumerate(zip(indices, tensor.shape, strict=True)):
        index = as_expr(value, "an index")
        try:
            form, _ = parse(index)
        except IndexExpressionError as error:
            raise IndexExpressionError(f"{_shown(tensor, indices)}: {error}") from None
        if form.is_constant and (form.constant < 0 or (extent.is_Integer and form.constant >= extent)):
            raise OutOfShapeError(
                f"{_shown(tensor, indices)}: index {form.constant} of axis {axis} lies outside of 0 … {extent - 1} "
                f"(shape {tensor.shape}); indices count from 0 and negative ones do not wrap around"
            )
        result.append(index)
    return tuple(result)


def _products_of_remainders(form: Affine) -> set[Product]:
    """The products in multiples of ``n*floor(e/n)``, which remainders by ``n`` are made of."""
    factors: dict[SymbolicQuotient, Affine] = {}
    products: dict[SymbolicQuotient, set[Product]] = {}
    for v, c in form.terms:
        for found in v.factors if isinstance(v, Product) else (v,):
            if isinstance(found, SymbolicQuotient):
                factor = v.without(found) if isinstance(v, Product) else Affine.of(1)
                factors[found] = factors.get(found, Affine()) + factor * c
                products.setdefault(found, set()).update([v] if isinstance(v, Product) else [])
    result: set[Product] = set()
    for found, factor in factors.items():
        multiple, rest = divided(factor, found.divisor)
        if multiple.is_constant and rest == Affine():
            result |= products[found]
    return result


def _check_strides(entry: Any) -> None:
    """An index that multiplies symbols has one with the coefficient 1, or multiplies sizes of the tensor only."""
    for index in entry.indices if entry.is_tensor_entry else ():
        form, atoms = parse(index)
        remainders = _products_of_remainders(form)
        products = [v for v in form.compounds() if isinstance(v, Product) and v not in remainders]
        loose = {factor for product in products for factor in product.factors if isinstance(factor, int)}
        if not products or any(abs(c) == 1 and v not in loose and v not in products for v, c in form.terms):
            continue
        sizes = set().union(*(extent.free_symbols for extent in entry.tensor.shape))
        # Nothing is solved for data, so one entry beside sizes needs no such index.
        others = [f for product in products for f in product.factors if not isinstance(f, DataEntry)]
        several = any(sum(isinstance(f, DataEntry) for f in product.factors) > 1 for product in products)
        if several or not {atoms[slot] for f in others for slot in Affine.variable(f).atoms()} <= sizes:
            raise IndexExpressionError(
                f"{entry}: {index} multiplies indices or sizes with each other: an index must be an integer "
                "combination of integer symbols, e.g. 2*i + j - 1; beside a symbolic stride, as in M*i, one index "
                "needs the coefficient 1, as in x[M*i + j]"
            )


def _shown(tensor: TensorExpr, indices: tuple[Any, ...]) -> str:
    return f"{short(tensor)}[{', '.join(map(str, indices)) or '()'}]"


_LARGE = 30
"""The nodes of an expression that a hint repeats."""

INSTEAD = MappingProxyType(
    {
        **dict.fromkeys(("grad", "derive", "differentiate"), "td.gradient(s, x)"),
        **dict.fromkeys(("value_and_grad", "value_and_gradient"), "td.lambdify((x, y), (s, td.gradient(s, x)))"),
        **dict.fromkeys(("jac", "jacfwd", "jacrev"), "td.jacobian(x, x)"),
        "hess": "td.hessian(s, x)",
        **dict.fromkeys(("Tensor", "tensor", "array", "Variable", "Matrix"), 'td.TensorSymbol("A", (n, m))'),
        **dict.fromkeys(("Vector", "vector", "IndexedBase"), 'td.TensorSymbol("x", n)'),
        **dict.fromkeys(("symbols", "index", "sizes", "Idx"), 'td.indices("i j n")'),
        **dict.fromkeys(("Sum", "sigma"), "td.IndexedSum(x[i], (i, 0, n - 1))"),
        "Product": "td.IndexedProduct(x[i], (i, 0, n - 1))",
        **dict.fromkeys(("amax", "Max"), "td.max(x), or by entries td.maximum(x, y)"),
        **dict.fromkeys(("amin", "Min"), "td.min(x), or by entries td.minimum(x, y)"),
        "power": "x**2",
        "add": "x + y",
        "subtract": "x - y",
        "multiply": "x*y",
        "divide": "x/y",
        **dict.fromkeys(("cholesky", "cholesky_solve", "cho_solve", "cho_factor"), "td.solve(S, x), td.logdet(S)"),
        "cov": "(A - td.mean(A, axis=0)).T @ (A - td.mean(A, axis=0))/(n - 1)",
        **dict.fromkeys(("cat", "hstack"), "td.concatenate((x, y))"),
        "vstack": "td.stack((x, y))",
        **dict.fromkeys(("expand_dims", "unsqueeze"), "x[:, None]"),
        "flatten": "td.ravel(A)",
        "slogdet": "td.log(td.abs(td.det(S)))",
        "lstsq": "td.inv(A.T @ A) @ (A.T @ x)",
        **dict.fromkeys(("matmul", "mm"), "A.T @ A"),
        **dict.fromkeys(("tensordot", "inner", "contract"), 'td.einsum("ij,ik->jk", A, A)'),
        "tr": "td.trace(S)",
        **dict.fromkeys(("eye", "identity", "Identity"), "td.DeltaTensor(n)"),
        **dict.fromkeys(("zeros_like", "ones_like", "full"), "td.zeros(A.shape)"),
        **dict.fromkeys(("jit", "compile", "function"), "td.lambdify((x, y), s)"),
        "vmap": "td.TensorComprehension(td.sum(A[i, j]), (i, n), (j, m))",
        "eval": "td.evaluate(s, {x: [1, 2], y: [3, 4]})",
        **{name: f"sympy.{name}, as everything of SymPy's" for name in ("pi", "Piecewise", "Symbol", "Function")},
    }
)
"""What to write, by the name that is missing: for vectors ``x`` and ``y``, matrices ``A`` and ``S``, a scalar ``s``."""

METHODS = MappingProxyType(
    {
        **{name: f"td.{name}({{}})" for name in ("sum", "mean", "max", "min", "prod", "inv", "det", "trace", "norm")},
        **dict.fromkeys(("dot", "matmul", "mm"), "{} @ …, or td.einsum"),
        "t": "{}.T, or td.transpose({}, axes)",
        "softmax": "td.softmax({})",
        "ndim": "{}.rank",
        **dict.fromkeys(("grad", "backward", "gradient"), "td.gradient({}, x) for a variable x"),
        **dict.fromkeys(("numpy", "item"), "td.evaluate({}, {{x: array, …}})"),
        "reshape": "td.reshape({}, shape)",
        **dict.fromkeys(("flatten", "ravel"), "td.ravel({})"),
    }
)
"""What to write in place of a method of a tensor."""


def of_module(name: str) -> NoReturn:
    """What ``td.name`` does where there is no such name."""
    module = sys.modules["sympy_tensordiff"]
    text = f"module 'sympy_tensordiff' has no attribute {name!r}"
    if name in INSTEAD:
        text += f"; write {INSTEAD[name]}"
    elif not name.startswith("_"):
        near = difflib.get_close_matches(name, module.__all__, 1, 0.75)
        text += f"; did you mean td.{near[0]}?" if near else ""
    raise AttributeError(text, name=name, obj=module)


def of_tensor(tensor: Any, name: str) -> NoReturn:
    """What ``tensor.name`` does where there is no such attribute."""
    text = f"{type(tensor).__name__!r} object has no attribute {name!r}"
    if name in METHODS:
        shown = str(tensor) if measures(tensor).size <= _LARGE else "A"
        text += f"; write {METHODS[name].format(*[shown] * 2)}"
    raise AttributeError(text, name=name, obj=tensor)


# By assignment: to a type checker, a module with a function of this name would have all names.
vars(sys.modules["sympy_tensordiff"])["__getattr__"] = of_module
