"""Tensor symbols, named expressions, and comprehensions, which are tensors given by their entries."""

from __future__ import annotations

import keyword
import re
import sys
import unicodedata
from functools import partial
from typing import Any, ClassVar

from sympy import Basic, Expr, S, Tuple
from sympy.core.symbol import Str

from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError, ShapeError, TensorDiffError
from sympy_tensordiff.symbolic.expressions import sympy_callers
from sympy_tensordiff.symbolic.expressions.arguments import as_expr
from sympy_tensordiff.symbolic.expressions.binders import Binder
from sympy_tensordiff.symbolic.expressions.call_errors import explained
from sympy_tensordiff.symbolic.expressions.replacement import Replacement, Substitution
from sympy_tensordiff.symbolic.expressions.traversal import BoundIndices, Recursion, Rewriting, Rules, named_in
from sympy_tensordiff.symbolic.index_notation.entries import TensorEntry, TensorExpr
from sympy_tensordiff.symbolic.index_notation.indices import is_data
from sympy_tensordiff.symbolic.index_notation.limits import (
    IndexRange,
    check_axes,
    check_names,
    check_reads,
    checked_axis,
    checked_body,
    checked_extent,
)

__all__ = ["NamedTensor", "TensorComprehension", "TensorEntry", "TensorExpr", "TensorSymbol", "in_full"]


MAX_AXES = 64
"""As many axes as an array of NumPy can have."""


class TensorSymbol(TensorExpr):
    r"""A tensor variable; ``A[i, j]`` is its entry.

    Parameters
    ----------
    name : str
        A Python identifier, or a name of LaTeX such as ``\theta``, for which code has a name of its own.
    shape : int, Expr, or sequence of them
        The extents: positive ints, or integer combinations of integer symbols, also rounded as in
        ``floor((h - 1)/2) + 1``; one alone means rank 1, ``()`` rank 0, a scalar.
    dtype : {float, int}
        The type of the entries: real numbers, or integers, which may be used in an index (a gather by data). Nothing is
        differentiated with respect to a tensor of integers.
    below : int or Expr, optional
        Declares that the integers are in ``0 … below - 1``, a positive integer or a size. Derivatives and kernels rely
        on it, and every call refuses other data. Without it, a call refuses data that a read of the function would take
        outside of its tensor.
    symmetric : bool, optional
        Declares a square matrix to be equal to its transpose: ``S.T`` is ``S``, ``S[j, i]`` is ``S[i, j]``, and the
        derivative with respect to it is a symmetric matrix. Calls refuse other matrices.
    positive : bool, optional
        Declares a matrix to be symmetric and positive definite: kernels factorize it by Cholesky's method, and raise
        `NotPositiveDefiniteError` if it has no such factors.

    Raises
    ------
    ArgumentError, ArgumentTypeError, ShapeError
        For a name, an extent, a dtype or a range that there cannot be, or a range of real numbers; for a
        symmetric tensor that is not a square matrix of real numbers.

    Examples
    --------
    >>> from sympy_tensordiff.symbolic.index_notation.indices import indices
    >>> i, n = indices("i n")
    >>> x = TensorSymbol("x", n)
    >>> x.shape, x[2*i + 1]
    ((n,), x[2*i + 1])
    >>> idx = TensorSymbol("idx", 5, dtype=int)
    >>> x[2*idx[i] + 1], idx[i].is_integer, idx.dtype
    (x[2*idx[i] + 1], True, <class 'int'>)
    >>> chosen = TensorSymbol("chosen", 5, dtype=int, below=n)
    >>> chosen.below, chosen.func(*chosen.args) == chosen, idx.below
    (n, True, None)
    >>> S = TensorSymbol("S", (n, n), symmetric=True)
    >>> S.T, S[2*i, i] - S[i, 2*i], S.symmetric, S.positive
    (S, 0, True, False)
    """

    is_symbol = True
    _is_leaf = True
    _diff_wrt = True

    @partial(
        explained,
        name="td.TensorSymbol",
        hints={"shape": 'give the shape, td.TensorSymbol("X", (n, m)) with n, m = td.indices("n m")'},
    )
    def __new__(
        cls,
        name: Any,
        shape: Any,
        dtype: Any = float,
        below: Any = None,
        *,
        symmetric: bool = False,
        positive: bool = False,
    ) -> TensorSymbol:
        extents = shape if isinstance(shape, (tuple, list, Tuple)) else (shape,)
        name = checked_name(name)
        if len(extents) > MAX_AXES:
            raise ShapeError(f"tensor {name} has {len(extents)} axes, and arrays of NumPy have {MAX_AXES} at most")
        parts: tuple[Any, ...] = Str(name), Tuple(*(checked_extent(e, f"tensor {name}") for e in extents))
        symmetry = dtype if dtype in (_SYMMETRIC, _POSITIVE) else _symmetry(symmetric, positive, name)
        if symmetry is not None:
            _check_square(parts[1], name, symmetry, dtype, below)
            parts = *parts, symmetry
        elif not _is_integer(dtype, name):
            if below is not None:
                raise ArgumentError(
                    f"tensor {name} has below={below}, but its entries are real numbers: write dtype=int as well"
                )
        else:  # of real numbers is what a tensor is without a word of it
            parts = *parts, _INT, *(() if below is None else (_checked_range(below, name),))
        result: TensorSymbol = cls._unchecked(*parts)
        return result

    @property
    def name(self) -> str:
        """Return the name of the tensor symbol."""
        return str(self.args[0].name)

    @property
    def shape(self) -> tuple[Expr, ...]:
        """Return the shape of the tensor symbol, a tuple with the extent of each axis."""
        return tuple(self.args[1].args)

    @property
    def index_parts(self) -> tuple[Expr, ...]:
        """Return the index expressions in this node, whose symbols count as integers: the extents and, for an integer
        tensor, the upper bound of its entries.
        """
        return (*self.shape, *self._args[3:])

    @property
    def dtype(self) -> type:
        """Return the type of the entries, ``int`` or ``float``."""
        return int if self._args[2:3] == (_INT,) else float

    @property
    def below(self) -> Any:
        """Return the declared upper bound of the entries of an integer tensor, which they never reach; None if there is
        none.
        """
        return self._args[3] if len(self._args) > 3 else None

    @property
    def symmetric(self) -> bool:
        """Return whether this is declared to be a symmetric matrix."""
        return self._args[2:3] in ((_SYMMETRIC,), (_POSITIVE,))

    @property
    def positive(self) -> bool:
        """Return whether this is declared to be a positive definite matrix, which is symmetric."""
        return self._args[2:3] == (_POSITIVE,)

    @property
    def is_integer(self) -> bool | None:
        """Return True for a scalar of integers, else None (unknown)."""
        return True if self.dtype is int and self.rank == 0 else None

    @property
    def is_positive(self) -> bool | None:
        """Return False for a tensor with axes, as `sympy.solve` would otherwise replace it by a number; None (unknown)
        for a scalar.
        """
        return False if self.rank else None

    @property
    def free_symbols(self) -> set[Basic]:
        """Override `Basic.free_symbols`: return the tensor itself, and the symbols in its shape and in the bound of its
        entries.
        """
        own = {self}.union(*(part.free_symbols for part in self.index_parts))
        return sympy_callers.free_symbols_for_caller(self, own, sys._getframe(1))

    def doit(self, **hints: Any) -> Any:
        """Override `Basic.doit`: return the tensor unchanged."""
        return self

    def _eval_simplify(self, **kwargs: Any) -> Any:
        """SymPy's hook for `simplify`: return the tensor unchanged."""
        return self


class NamedTensor(TensorExpr):
    """An expression that is printed as a name, made by `td.name`.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> x = td.TensorSymbol("x", 3)
    >>> y = td.name(2*x, "y")
    >>> y, y.shape, y.definition, y.doit()
    (y, (3,), 2*x, 2*x)
    >>> y.func(*y.args) == y, y.free_symbols == {x}
    (True, True)
    """

    is_symbol = True
    is_named = True

    def __new__(cls, name: Any, definition: Any) -> NamedTensor:
        result: NamedTensor = cls._unchecked(Str(checked_name(name)), as_expr(definition, "the definition"))
        return result

    @property
    def name(self) -> str:
        """Return the name by which the expression is printed."""
        return str(self._args[0].name)

    @property
    def definition(self) -> Any:
        """Return the expression that the name abbreviates."""
        return self._args[1]

    @property
    def shape(self) -> tuple[Expr, ...]:
        """Return the shape of the named expression: the extent of each axis; () for a scalar."""
        return tuple(getattr(self.definition, "shape", ()))

    @property
    def index_parts(self) -> tuple[Expr, ...]:
        """Return the index expressions in this node, whose symbols count as integers: the extents."""
        return self.shape

    @property
    def free_symbols(self) -> set[Basic]:
        """Override `Basic.free_symbols`: return those of the definition."""
        return sympy_callers.free_symbols_for_caller(self, set(self.definition.free_symbols), sys._getframe(1))

    dtype = float
    below = None
    symmetric = False
    positive = False

    def doit(self, **hints: Any) -> Any:
        """Override `Basic.doit`: return the definition, evaluated."""
        return self.definition.doit(**hints)

    def _eval_simplify(self, **kwargs: Any) -> Any:
        """SymPy's hook for `simplify`: return the tensor unchanged."""
        return self


class TensorComprehension(TensorExpr, Binder):
    """The tensor whose entry at the bound indices ``i, j, ...`` is the scalar ``body``.

    Parameters
    ----------
    body : Expr
        A scalar expression.
    *limits : (index, extent)
        One per axis, the first is the first axis; the index runs over ``0 … extent - 1``. A
        bare `sympy.Idx` with a range that starts at 0 works as well.

    Examples
    --------
    >>> from sympy_tensordiff.symbolic.index_notation.indices import indices
    >>> i, j = indices("i j")
    >>> x = TensorSymbol("x", 6)
    >>> T = TensorComprehension(x[i + j]**2, (i, 2), (j, 4))
    >>> T.shape, T[1, 3], T[1, 3].doit()
    ((2, 4), x[4]**2, x[4]**2)
    """

    def __new__(cls, body: Any, *limits: Any) -> Any:
        owner = "TensorComprehension"
        body = checked_body(body, owner)
        axes = tuple(checked_axis(limit, owner) for limit in limits)
        check_names(body, axes, owner)
        check_axes(axes, owner)
        result = cls._unchecked(body, *axes)
        check_reads(result)
        return result

    def ranges(self) -> tuple[IndexRange, ...]:
        """Return the ranges ``0, ..., extent - 1`` of the indices, the first axis first."""
        return tuple(IndexRange(index, S.Zero, extent - 1) for index, extent in self.limits)

    @property
    def indices(self) -> tuple[Any, ...]:
        """Return the bound indices, one per axis."""
        return self.variables

    @property
    def shape(self) -> tuple[Expr, ...]:
        """Return the shape of the comprehension, a tuple with the extent of each axis."""
        return tuple(limit.args[1] for limit in self.args[1:])

    def __getitem__(self, indices: Any) -> Any:
        """Return an entry or a part; an entry of a tensor of integers in index notation, as it is an index."""
        entry = super().__getitem__(indices)
        return self.write_out(entry.indices) if is_data(self.body) and isinstance(entry, TensorEntry) else entry

    def write_out(self, indices: tuple[Expr, ...]) -> Expr:
        """Return the body with ``indices`` substituted for the bound ones."""
        written: Expr = Replacement(Substitution(zip(self.indices, indices, strict=True)))(self.body)
        return written


_INT, _SYMMETRIC, _POSITIVE = Str("int"), Str("symmetric"), Str("positive")
_LATEX_NAME = re.compile(r"(?:[^\W\d]|\\[A-Za-z])(?:\w|\\[A-Za-z]|[{}^',])*")


def _is_integer(dtype: Any, name: str) -> bool:
    """Return whether ``dtype`` is ``int``. Raise `ArgumentTypeError`, whose message contains ``name``, if it is neither
    ``int`` nor ``float``.
    """
    if dtype is not float and dtype is not int and dtype != _INT:
        raise ArgumentTypeError(
            f"tensor {name}: dtype must be float or int, got {dtype!r}; a shape of several axes is a tuple, as in "
            f'TensorSymbol("{name}", (n, m)), and the precision follows the arrays of the call'
        )
    return dtype is not float


def _symmetry(symmetric: bool, positive: bool, name: str) -> Str | None:
    """Return the SymPy argument that marks a tensor symbol as positive definite or symmetric; None if both flags are
    False. Raise `ArgumentTypeError`, with the symbol's ``name``, if a flag is not a bool.
    """
    for word, value in (("symmetric", symmetric), ("positive", positive)):
        if not isinstance(value, bool):
            raise ArgumentTypeError(f"tensor {name} has {word}={value!r}: it must be True or False")
    return _POSITIVE if positive else _SYMMETRIC if symmetric else None


def _check_square(shape: Tuple, name: str, symmetry: Str, dtype: Any, below: Any) -> None:
    """Raise `ShapeError` or `ArgumentError` if a tensor declared symmetric (or positive definite, as ``symmetry`` says)
    has another shape than a square matrix, integer entries, or a bound ``below``.
    """
    if len(shape) != 2 or shape[0] != shape[1]:
        meant = "positive definite" if symmetry == _POSITIVE else "symmetric"
        raise ShapeError(
            f"tensor {name} is declared {symmetry}=True, which means a {meant} matrix, but its shape is "
            f"{tuple(shape)}: give it two equal extents, or leave out {symmetry}=True"
        )
    if dtype is int or below is not None:
        raise ArgumentError(f"tensor {name} is declared {symmetry}=True and of integers: only real matrices are that")


def _checked_range(below: Any, name: str) -> Expr:
    """Return ``below``, the upper bound of a tensor's entries, as an extent; raise an error that contains the tensor's
    ``name`` if it is not one.
    """
    try:
        return checked_extent(below, f"tensor {name}")
    except TensorDiffError as error:
        raise type(error)(f"tensor {name} has below={below}, which is not a size: {error}") from None


def checked_name(name: Any) -> str:
    """Return ``name`` in Python's normal form of identifiers; raise `ArgumentTypeError` or `ArgumentError` if it cannot
    be the name of a tensor.
    """
    if isinstance(name, Str):
        name = name.name
    if not isinstance(name, str):
        raise ArgumentTypeError(f"the name of a tensor must be a str, not {name!r}")
    # As Python does with its own names, so that two spellings of one name stay one tensor in the kernels.
    normalised = unicodedata.normalize("NFKC", name)
    if not (normalised.isidentifier() or _LATEX_NAME.fullmatch(normalised)) or keyword.iskeyword(normalised):
        raise ArgumentError(
            f"{name!r} is not a name for a tensor: use a Python identifier that is not a keyword, e.g. 'x' or "
            r"'weight', or a name of LaTeX, e.g. r'\theta' or r'\hat{x}_{1}'"
        )
    return normalised


def as_entry(scalar: Any) -> Any:
    """Return ``scalar`` as the entry of a comprehension without axes. SymPy treats this entry as a leaf, and so does
    not recurse into a deeply nested ``scalar``.
    """
    return TensorComprehension._trusted(scalar, ())[()]


class _DefinitionExpansion(Rewriting):
    """Replaces named tensors by their definitions, also inside of definitions; `in_full` uses it."""

    def visit_named_tensor(self, expr: NamedTensor, bound_indices: BoundIndices) -> Recursion[Any]:
        """Return the definition of a named tensor, in which named tensors are replaced too."""
        return (yield self.visit(expr.definition, bound_indices))

    rules: ClassVar[Rules] = {NamedTensor: visit_named_tensor}


def in_full(expr: Any) -> Any:
    """Return ``expr`` with every named tensor replaced by its definition."""
    return _DefinitionExpansion().run(expr) if named_in([expr]) else expr
