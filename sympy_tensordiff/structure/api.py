"""The public door: structured Jacobians and Hessians as callables that return operators."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy
from numpy.typing import NDArray

from sympy_tensordiff.codegen.api import lambdify
from sympy_tensordiff.codegen.run.arguments import ArgumentChecker
from sympy_tensordiff.codegen.run.compilation import noticed
from sympy_tensordiff.codegen.run.signature import size_checker
from sympy_tensordiff.derivative.api import hvp, jvp, vjp
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError, UnsupportedError
from sympy_tensordiff.structure.pattern import Group, Pattern, find_pattern, grouped
from sympy_tensordiff.structure.points import evaluate
from sympy_tensordiff.structure.terms import Term, hessian_terms, jacobian_terms
from sympy_tensordiff.structure.values import Assembler, GroupKernel, directions_of
from sympy_tensordiff.symbolic.calls import explained
from sympy_tensordiff.symbolic.lift import as_operand
from sympy_tensordiff.symbolic.tensors import TensorSymbol

if TYPE_CHECKING:
    from sympy_tensordiff.structure.operator import StructuredOperator

Call = tuple[tuple[Any, ...], dict[Any, Any]]


class StructuredDerivative:
    """A Jacobian or Hessian of known structure; made by `structured_hessian` and `structured_jacobian`.

    Calling it with arrays gives a `StructuredOperator`.

    Attributes
    ----------
    args : tuple
        The arguments of a call, in order.
    terms : tuple
        The terms whose sum the matrix is: each with its value, row, column, ranges and conditions; they print as text.
    """

    def __init__(
        self, args: Any, functions: Sequence[Any], wrt: Any, terms: tuple[Term, ...], symmetric: bool, **options: Any
    ) -> None:
        self.args = tuple(args) if isinstance(args, Sequence | sympy.Tuple) else (args,)
        self.terms = terms
        self.is_symmetric = symmetric
        self._functions = tuple(functions)
        self._variables = independent_variables(wrt)
        self._options = {"parallel": False, **options}
        self._groups = grouped(terms)
        self._assembler = Assembler()
        self._kernels: dict[Any, Any] = {}
        self._patterns: dict[Any, Pattern] = {}
        outputs = self._functions if len(self._functions) > 1 else self._functions[0]
        self._checker = ArgumentChecker(lambdify(self.args, outputs, "numba", **self._options).program)
        self._sizes = size_checker(self.args, self._functions)
        read = set().union(*(expr.atoms(TensorSymbol) for expr in self._index_parts()))
        self._data = [a for a in self.args if a in read and a.dtype is int]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.terms)} terms)"

    def __call__(self, *arrays: Any) -> StructuredOperator:
        """The matrix at ``arrays``, as an operator of SciPy; rows and columns count the entries in C order.

        Raises
        ------
        ArgumentError, ArgumentTypeError
            If an array does not fit; the message names it.
        """
        arrays, known = self._prepared(arrays)
        if self.dense_groups:  # products are computed later, when the caller may have changed the arrays
            arrays = tuple(np.array(a) if isinstance(a, np.ndarray) else a for a in arrays)
        from sympy_tensordiff.structure.operator import StructuredOperator  # SciPy takes long to import

        return StructuredOperator(self, arrays, known)

    def structure(self, *arrays: Any, lower: bool = False) -> tuple[NDArray[Any], NDArray[Any]]:
        """Rows and columns of all entries that are not 0 for structural reasons, in the order of `values`.

        Parameters
        ----------
        *arrays
            The arguments; only their shapes and the entries of arrays of integers matter.
        lower : bool
            Without the entries above the diagonal, as interior point solvers ask for.

        Returns
        -------
        rows, columns : ndarray of int
            Sorted by row, then by column, each pair once.
        """
        _, known = self._prepared(arrays)
        pattern = self.pattern(known, lower=lower)
        return pattern.rows, pattern.columns

    def values(self, *arrays: Any, out: NDArray[Any] | None = None, lower: bool = False) -> NDArray[Any]:
        """The values in the order of `structure`, into ``out`` where it is given."""
        arrays, known = self._prepared(arrays)
        return self.evaluated(self.pattern(known, lower=lower), arrays, out)

    def spy(self, *arrays: Any, ax: Any = None, **options: Any) -> Any:
        """Plot the pattern at the sizes of ``arrays`` with matplotlib, into ``ax`` or a new figure; returns the axes.

        ``options`` are those of ``matplotlib.axes.Axes.spy``.
        """
        import matplotlib.pyplot as plt
        import scipy.sparse

        _, known = self._prepared(arrays)
        pattern = self.pattern(known)
        ones = np.ones(len(pattern.columns))
        axes = plt.figure().add_subplot() if ax is None else ax
        axes.spy(scipy.sparse.csr_array((ones, pattern.columns, pattern.indptr), pattern.shape), **options)
        return axes

    # ------------------------------------------------------------------------ for the operator

    def pattern(self, known: dict[Any, Any], *, lower: bool = False, dense: bool = True) -> Pattern:
        """The pattern at these sizes and data; without the terms that fill blocks where ``dense`` is false."""
        sizes = tuple(sorted((str(k), v) for k, v in known.items() if not isinstance(v, np.ndarray)))
        data = tuple(hashlib.blake2b(known[a].tobytes(), digest_size=16).digest() for a in self._data)
        dense = dense or not any(group.dense for group in self._groups)
        key = (sizes, data, lower, dense)
        if key not in self._patterns:
            if len(self._patterns) >= 8:
                self._patterns.pop(next(iter(self._patterns)))
            groups = self._groups if dense else [g for g in self._groups if not g.dense]
            with noticed("finding the entries that are not 0 at these sizes"):
                self._patterns[key] = find_pattern(groups, self.shapes(known), known, lower=lower)
        return self._patterns[key]

    def evaluated(self, pattern: Pattern, arrays: Sequence[Any], out: NDArray[Any] | None = None) -> NDArray[Any]:
        """The values of a pattern."""
        dense = len(pattern.points) == len(self._groups)
        kernels = [self.kernel(group) for group in self._groups if dense or not group.dense]
        if out is None:
            out = np.empty(len(pattern.columns), _dtype(arrays))
        elif (out.shape, out.dtype) != (pattern.columns.shape, _dtype(arrays)):
            given, needed = f"{out.shape} and {out.dtype}", f"{pattern.columns.shape} and {_dtype(arrays)}"
            raise ArgumentError(f"out has the shape and type {given}, the values have {needed}")
        return self._assembler.assemble(kernels, pattern, arrays, out)

    def kernel(self, group: Group) -> GroupKernel:
        """The kernel of a group, compiled once."""
        if group not in self._kernels:
            self._kernels[group] = GroupKernel(self.args, group, self._options)
        kernel: GroupKernel = self._kernels[group]
        return kernel

    @property
    def dense_groups(self) -> list[Group]:
        """The groups whose terms fill blocks."""
        return [group for group in self._groups if group.dense]

    def shapes(self, known: dict[Any, Any]) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
        """The shapes of what the rows and what the columns count."""
        rows = self._variables if self.is_symmetric else self._functions
        found = [[_shape(tensor, known) for tensor in side] for side in (rows, self._variables)]
        return found[0], found[1]

    def product(self, arrays: Sequence[Any], known: dict[Any, Any], vector: NDArray[Any], *, transposed: bool) -> Any:
        """The matrix, or its transpose, times a vector, by the derivative along a direction."""
        rows, columns = self.shapes(known)
        kernel = self._kernels.get(transposed)
        if kernel is None:
            kernel = self._kernels[transposed] = self._product_kernel(transposed)
        parts = split(vector, rows if transposed else columns)
        result = kernel(*arrays, *parts)
        return flat(result)

    # ------------------------------------------------------------------------ helpers

    def _product_kernel(self, transposed: bool) -> Any:
        sides = self._functions if transposed else self._variables
        directions = directions_of(sides, self.args)
        if self.is_symmetric:
            results = hvp(self._functions[0], self._variables, directions)
        elif transposed:
            parts = [vjp(f, self._variables, d) for f, d in zip(self._functions, directions, strict=True)]
            results = tuple(sum(column[1:], column[0]) for column in zip(*parts, strict=True))
        else:
            results = tuple(jvp(f, self._variables, directions) for f in self._functions)
        return lambdify((*self.args, *directions), tuple(results), "numba", **self._options)

    def _index_parts(self) -> list[Any]:
        found: list[Any] = []
        for term in self.terms:
            found += [*term.row.indices, *term.column.indices, *term.conditions]
            found += [end for binder in term.binders for end in (binder.low, binder.high)]
        return found

    def _prepared(self, arrays: Sequence[Any]) -> Call:
        """The checked arguments, and the values of sizes and of tensors of integers."""
        prepared = self._checker.prepare(arrays)
        sizes = self._sizes.sizes(prepared.values)  # by the names of symbols, which identifiers need not be
        symbols = set().union(*(a.free_symbols for a in (*self.args, *self._functions, *self._index_parts())))
        known: dict[Any, Any] = {s: sizes[str(s)] for s in symbols if str(s) in sizes}
        for argument, value in zip(self.args, arrays, strict=True):
            if isinstance(argument, TensorSymbol) and argument.dtype is int:
                known[argument] = np.asarray(value)
        return prepared.values, known


@explained
def structured_hessian(args: Any, loss: Any, wrt: Any, **options: Any) -> StructuredDerivative:
    """The Hessian of a scalar as a sparse or structured operator, compiled.

    Parameters
    ----------
    args : sequence
        The arguments in call order, as `lambdify` takes them.
    loss : Expr
        A scalar in index notation or of whole tensors, made of scalar functions and sums.
    wrt : TensorSymbol, Symbol or tuple of them
        The variables. Rows and columns count their entries in C order, one variable after the other.
    **options
        Those of `lambdify` for the kernels.

    Returns
    -------
    StructuredDerivative
        Called with arrays, it gives a `StructuredOperator`, which is a ``scipy.sparse.linalg.LinearOperator`` with
        ``diagonal``, ``block``, ``tocsr``, ``toarray`` and ``solve``. Its ``structure`` and ``values`` are what
        interior point solvers ask for.

    Raises
    ------
    ArgumentError
        If ``loss`` is no scalar or ``wrt`` is empty.
    UnsupportedError
        If the loss is more than scalar functions and sums: a product over a range, a maximum, an inverse. Or if a
        variable is a symmetric matrix.

    Notes
    -----
    The pattern is known from the index maps, for any size: nothing is probed or coloured. It holds all entries that are
    not 0 for structural reasons, also where their value is 0 at a point. Where all products of two first derivatives
    fill a block (``X.T @ diag(w) @ X``, an outer product), the block is not stored: products go through `hvp`.

    References
    ----------
    A. Griewank, Ph. L. Toint, *On the unconstrained optimization of partially separable functions*, 1982.

    Examples
    --------
    >>> import numpy as np
    >>> import sympy_tensordiff as td
    >>> i, n = td.indices("i n")
    >>> x = td.TensorSymbol("x", n)
    >>> H = td.structured_hessian((x,), td.IndexedSum((x[i + 1] - x[i]**2)**2, (i, 0, n - 2)), x)
    >>> rows, columns = H.structure(np.ones(3), lower=True)
    >>> list(zip(rows.tolist(), columns.tolist()))
    [(0, 0), (1, 0), (1, 1), (2, 1), (2, 2)]
    >>> H(np.ones(3)).toarray()
    array([[ 8., -4.,  0.],
           [-4., 10., -4.],
           [ 0., -4.,  2.]])
    """
    own = as_operand(loss, "the loss")
    if shape := tuple(getattr(own, "shape", ())):
        raise ArgumentError(f"the loss has the shape {shape}: a Hessian is that of a scalar, sum it first")
    return StructuredDerivative(args, [own], wrt, hessian_terms(own, independent_variables(wrt)), True, **options)


@explained
def structured_jacobian(args: Any, T: Any, wrt: Any, **options: Any) -> StructuredDerivative:
    """The Jacobian of a tensor as a sparse or structured operator, compiled.

    Parameters
    ----------
    args : sequence
        The arguments in call order, as `lambdify` takes them.
    T : Expr or tuple of Expr
        Tensors or scalars, made of scalar functions and sums. Rows count the entries of all of them in C order.
    wrt : TensorSymbol, Symbol or tuple of them
        The variables. Columns count their entries in C order, one variable after the other.
    **options
        Those of `lambdify` for the kernels.

    Returns
    -------
    StructuredDerivative
        As that of `structured_hessian`.

    Raises
    ------
    ArgumentError
        If ``wrt`` or ``T`` is empty.
    UnsupportedError
        If ``T`` is more than scalar functions and sums.

    Examples
    --------
    >>> import numpy as np
    >>> import sympy_tensordiff as td
    >>> i, n = td.indices("i n")
    >>> x = td.TensorSymbol("x", n)
    >>> J = td.structured_jacobian((x,), td.TensorComprehension(x[i + 1]*x[i], (i, n - 1)), x)
    >>> J(np.array([1.0, 2.0, 3.0])).toarray()
    array([[2., 1., 0.],
           [0., 3., 2.]])
    """
    functions = [as_operand(f, "the function") for f in (T if isinstance(T, tuple | list) else (T,))]
    if not functions:
        raise ArgumentError("structured_jacobian needs at least one function")
    return StructuredDerivative(
        args, functions, wrt, jacobian_terms(functions, independent_variables(wrt)), False, **options
    )


def variables_of(wrt: Any) -> tuple[Any, ...]:
    """The variables, each once, as a tuple."""
    variables = tuple(wrt) if isinstance(wrt, tuple | list | sympy.Tuple) else (wrt,)
    if not variables:
        raise ArgumentError("wrt is empty: name at least one variable")
    for variable in variables:
        if not isinstance(variable, TensorSymbol | sympy.Symbol) or getattr(variable, "dtype", float) is int:
            raise ArgumentTypeError(f"wrt holds {variable}, which is no tensor symbol or symbol of real numbers")
    if len(set(variables)) < len(variables):
        raise ArgumentError(f"wrt holds a variable twice: {', '.join(map(str, variables))}")
    return variables


def independent_variables(wrt: Any) -> tuple[Any, ...]:
    """The variables, whose entries do not depend on one another."""
    variables = variables_of(wrt)
    for variable in variables:
        if getattr(variable, "symmetric", False):
            raise UnsupportedError(
                f"wrt holds {variable}, a symmetric matrix: its entries are not independent of one another, so that a "
                "row for each has no pattern of its own; take a matrix that is not declared symmetric"
            )
    return variables


def _dtype(arrays: Sequence[Any]) -> Any:
    """That of the kernels' results."""
    real = [a.dtype for a in arrays if isinstance(a, np.ndarray) and a.dtype.kind == "f"]
    return np.result_type(*real) if real else np.dtype(np.float64)


def _shape(tensor: Any, known: dict[Any, Any]) -> tuple[int, ...]:
    return tuple(int(evaluate(sympy.sympify(extent), known)) for extent in getattr(tensor, "shape", ()))


def split(vector: NDArray[Any], shapes: Sequence[tuple[int, ...]]) -> list[Any]:
    """The parts of a flat vector, each in its shape."""
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    return [part.reshape(shape) for part, shape in zip(np.split(vector, ends[:-1]), shapes, strict=True)]


def flat(parts: Any) -> NDArray[Any]:
    """Arrays and numbers, one after the other."""
    return np.concatenate([np.ravel(part) for part in parts])
