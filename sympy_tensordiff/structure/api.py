"""The public functions: structured Jacobians and Hessians as callables that return operators."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from html import escape
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import sympy

from sympy_tensordiff.codegen.api import generate_code, lambdify
from sympy_tensordiff.codegen.run.compilation import announce_if_slow
from sympy_tensordiff.codegen.run.plan_text import Plan
from sympy_tensordiff.derivative.api import hvp, jvp, vjp
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError, UnsupportedError
from sympy_tensordiff.lazy import numpy as np
from sympy_tensordiff.structure.calls import ArgumentReader, CheckedArguments
from sympy_tensordiff.structure.chain_rule import hessian_terms, jacobian_terms
from sympy_tensordiff.structure.pattern import TermGroup, find_pattern, group_terms
from sympy_tensordiff.structure.points import evaluate
from sympy_tensordiff.structure.terms import DerivativeTerm
from sympy_tensordiff.structure.values import EntryEvaluator, ValueKernel, direction_symbols
from sympy_tensordiff.symbolic.conversion.lift import as_operand
from sympy_tensordiff.symbolic.expressions.call_errors import explained
from sympy_tensordiff.symbolic.expressions.printable import short
from sympy_tensordiff.symbolic.index_notation.tensors import TensorSymbol

if TYPE_CHECKING:
    from numpy.typing import NDArray

if TYPE_CHECKING:
    from sympy_tensordiff.structure.operator import StructuredOperator


BACKENDS = ("llvm", "numba", "numpy")

MAX_SHOWN_TERMS = 30
"""The terms that a notebook shows of a structured derivative."""


class StructuredDerivative:
    """A compiled Jacobian or Hessian whose sparsity pattern is known from its formula; made by `structured_hessian` and
    `structured_jacobian`.

    Calling it with arrays gives a `StructuredOperator`.

    Attributes
    ----------
    args : tuple
        The arguments of a call, in order.
    terms : tuple
        The terms whose sum the matrix is: each with its value, row, column, ranges and conditions; they print as text.
    """

    def __init__(
        self,
        args: Any,
        functions: Sequence[Any],
        wrt: Any,
        terms: tuple[DerivativeTerm, ...],
        symmetric: bool,
        backend: str = "llvm",
        **options: Any,
    ) -> None:
        self.args = tuple(args) if isinstance(args, Sequence | sympy.Tuple) else (args,)
        self.terms = terms
        self.is_symmetric = symmetric
        self._functions = tuple(functions)
        self._variables = check_independent_variables(wrt)
        if backend not in BACKENDS:
            raise ArgumentError(
                f"backend={backend!r}: structured derivatives are computed with 'llvm', 'numba' or 'numpy'; use "
                ".generate_code(backend) for the text for another backend"
            )
        self._options = {"parallel": None if backend == "numpy" else False, "backend": backend, **options}
        self._groups = group_terms(terms)
        self._kernels: dict[Any, Any] = {}
        self._entries: dict[Any, EntryEvaluator] = {}
        self._arguments = ArgumentReader(self.args, self._functions, self._index_expressions())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.terms)} terms)"

    def _repr_html_(self) -> str:
        """IPython's hook for HTML output: the terms as a table of formulas."""
        titles = ("value", "row", "column", "also transposed", "for")
        lines = ["".join(f"<th>{title}</th>" for title in titles)]
        for term in self.terms[:MAX_SHOWN_TERMS]:
            *places, ranges = (f"$\\displaystyle {escape(cell)}$" if cell else "" for cell in term.latex_cells())
            cells = (*places, "yes" if term.mirrored else "no", ranges)
            lines.append("".join(f"<td>{cell}</td>" for cell in cells))
        if len(self.terms) > MAX_SHOWN_TERMS:
            lines.append(f'<td colspan="5">and {len(self.terms) - MAX_SHOWN_TERMS} more terms</td>')
        return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"

    def __call__(self, *arrays: Any) -> StructuredOperator:
        """Return the matrix at ``arrays`` as a SciPy operator; rows and columns count the entries in C order.

        Raises
        ------
        ArgumentError, ArgumentTypeError
            If an array does not fit; the message names it.
        """
        call = self._arguments.read(arrays)
        if self.dense_groups:  # products are computed later; the caller may change the arrays
            call = call._replace(values=tuple(np.array(a) if isinstance(a, np.ndarray) else a for a in call.values))
        from sympy_tensordiff.structure.operator import StructuredOperator  # SciPy takes long to import

        return StructuredOperator(self, call)

    def structure(self, *arrays: Any, lower: bool = False) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the row and column numbers of all entries that are not identically 0, in the order of `values`, given
        the arguments ``arrays``. With ``lower``, entries above the diagonal are left out.

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
        pattern = self.entries(self._arguments.read(arrays), lower=lower).pattern
        return pattern.rows, pattern.columns

    def values(self, *arrays: Any, out: NDArray[Any] | None = None, lower: bool = False) -> NDArray[Any]:
        """Return the values of the entries that `structure` lists, in the same order, for the arguments ``arrays``;
        written to ``out`` if given. With ``lower``, only those of the lower triangle.
        """
        call = self._arguments.read(arrays)
        return self.evaluate_entries(self.entries(call, lower=lower), call, out)

    @property
    def source(self) -> str:
        """Return the source text of the generated module that computes the entries `values`; "" if there are no groups
        of terms to compute.
        """
        return self.kernel(self._groups).function.source if self._groups else ""

    @property
    def plan(self) -> str:
        """A text that describes the computation: the terms of the derivative, each with the name of the kernel's result
        that holds its values, then the plan of the kernel. It is empty for a derivative without terms, which is 0.
        """
        if not self._groups:
            return ""
        kernel = self.kernel(self._groups)
        return Plan("\n".join(["terms:", *(f"  {term}" for term in kernel.terms), kernel.function.plan]))

    def generate_code(self, backend: str = "c", **options: Any) -> str:
        """Return the source text of a function that computes the values of all terms, for the given ``backend``; it
        does not need this package.

        Parameters
        ----------
        backend : str
        **options
            As for `generate_code`.

        Returns
        -------
        str
            Of a function of the arguments, and of the coordinates ``at_…`` of the points of terms with conditions. The
            rows and columns of its results are those that `plan` has under ``terms``.

        Raises
        ------
        UnsupportedError
            If there are no terms.
        """
        if not self._groups:
            raise UnsupportedError("there is no text: the derivative has no terms, all of its entries are 0")
        kernel = self.kernel(self._groups)
        return generate_code(kernel.arguments, kernel.results_of_terms, backend, **options)

    def spy(self, *arrays: Any, ax: Any = None, **options: Any) -> Any:
        """Plot the pattern at the sizes of ``arrays`` with matplotlib, into ``ax`` or a new figure; returns the axes.

        ``options`` are those of ``matplotlib.axes.Axes.spy``.
        """
        import matplotlib.pyplot as plt
        import scipy.sparse

        pattern = self.entries(self._arguments.read(arrays)).pattern
        ones = np.ones(len(pattern.columns))
        axes = plt.figure().add_subplot() if ax is None else ax
        axes.spy(scipy.sparse.csr_array((ones, pattern.columns, pattern.indptr), pattern.shape), **options)
        return axes

    # ------------------------------------------------------------------------ for the operator

    def entries(self, call: CheckedArguments, *, lower: bool = False, dense: bool = True) -> EntryEvaluator:
        """Return the object that computes the matrix entries for the sizes and index arrays in ``call``, from a cache
        if possible. With ``lower``, it computes the lower triangle only; without ``dense``, it leaves out terms that
        fill whole blocks.
        """
        dense = dense or not self.dense_groups
        key = (call.key, lower, dense)
        found = self._entries.get(key)
        if found is None:
            if len(self._entries) >= 8:
                self._entries.pop(next(iter(self._entries)))
            groups = self._groups if dense else [g for g in self._groups if not g.dense]
            with announce_if_slow("finding the entries that are not 0 at these sizes"):
                pattern = find_pattern(groups, self.shapes(call.environment), call.environment, lower=lower)
            found = self._entries[key] = EntryEvaluator(pattern, groups, self.kernel)
        return found

    def evaluate_entries(
        self, entries: EntryEvaluator, call: CheckedArguments, out: NDArray[Any] | None = None
    ) -> NDArray[Any]:
        """Return the values of the matrix entries for the arguments ``call``, written to ``out`` if given; raise
        `ArgumentError` if ``out`` does not fit.
        """
        shape = entries.pattern.columns.shape
        if out is None:
            out = np.empty(shape, call.dtype)
        elif (out.shape, out.dtype) != (shape, call.dtype):
            given, needed = f"{out.shape} and {out.dtype}", f"{shape} and {call.dtype}"
            raise ArgumentError(f"out has the shape and type {given}, the values have {needed}")
        return entries(call.values, out)

    def kernel(self, groups: tuple[TermGroup, ...]) -> ValueKernel:
        """Return the compiled function that computes the values of all terms in ``groups``. It is compiled once and
        then cached.
        """
        if groups not in self._kernels:
            self._kernels[groups] = ValueKernel(self.args, groups, self._options)
        kernel: ValueKernel = self._kernels[groups]
        return kernel

    @cached_property
    def dense_groups(self) -> list[TermGroup]:
        """The groups of terms that fill whole blocks of the matrix. Such blocks are multiplied with vectors, not
        stored.
        """
        return [group for group in self._groups if group.dense]

    def shapes(self, environment: dict[Any, Any]) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
        """Return the shapes, as numbers, of the tensors along the rows of the matrix and of those along its columns.
        ``environment`` maps sizes to their values.
        """
        rows = self._variables if self.is_symmetric else self._functions
        found = [[_numeric_shape(tensor, environment) for tensor in side] for side in (rows, self._variables)]
        return found[0], found[1]

    def multiply(
        self, arrays: Sequence[Any], environment: dict[Any, Any], vector: NDArray[Any], *, transposed: bool
    ) -> Any:
        """Return the matrix, or with ``transposed`` its transpose, times ``vector``, computed as a directional
        derivative without the matrix. ``arrays`` are the arguments of the derivative, ``environment`` maps sizes to
        their values.
        """
        rows, columns = self.shapes(environment)
        kernel = self._kernels.get(transposed)
        if kernel is None:
            kernel = self._kernels[transposed] = self._make_product_kernel(transposed)
        parts = split_flat_vector(vector, rows if transposed else columns)
        result = kernel(*arrays, *parts)
        return to_flat_vector(result)

    # ------------------------------------------------------------------------ helpers

    def _make_product_kernel(self, transposed: bool) -> Any:
        """Return the compiled product of the matrix, or its transpose, with a vector: hvp for a Hessian, jvp for a
        Jacobian, vjp for a transposed Jacobian.
        """
        sides = self._functions if transposed else self._variables
        directions = direction_symbols(sides, self.args)
        if self.is_symmetric:
            results = hvp(self._functions[0], self._variables, directions)
        elif transposed:
            parts = [vjp(f, self._variables, d) for f, d in zip(self._functions, directions, strict=True)]
            results = tuple(sum(column[1:], column[0]) for column in zip(*parts, strict=True))
        else:
            results = tuple(jvp(f, self._variables, directions) for f in self._functions)
        return lambdify((*self.args, *directions), tuple(results), **self._options)

    def _index_expressions(self) -> list[Any]:
        """Return all integer expressions and conditions in the terms: indices, ends of ranges, and conditions on
        indices.
        """
        found: list[Any] = []
        for term in self.terms:
            found += [*term.row.indices, *term.column.indices, *term.conditions]
            found += [end for binder in term.binders for end in (binder.low, binder.high)]
        return found


@explained
def structured_hessian(args: Any, loss: Any, wrt: Any = None, **options: Any) -> StructuredDerivative:
    """Return a compiled Hessian of the scalar ``loss`` with respect to ``wrt``. Called with arrays for ``args``, it
    gives the matrix as a SciPy linear operator whose sparsity pattern is known from the formula.

    Parameters
    ----------
    args : sequence
        The arguments in call order, as `lambdify` takes them. Without them, in the order of `hessian`,
        ``td.structured_hessian(loss, wrt)``, they are the variables.
    loss : Expr
        A scalar in index notation or of whole tensors, made of scalar functions and sums.
    wrt : TensorSymbol, Symbol or tuple of them
        The variables. Rows and columns count their entries in C order, one variable after the other.
    **options
        Those of `lambdify` for the kernels; ``backend`` is "llvm", "numba" or "numpy".

    Returns
    -------
    StructuredDerivative
        Called with arrays, it gives a `StructuredOperator`, which is a ``scipy.sparse.linalg.LinearOperator`` with
        ``diagonal``, ``block``, ``tocsr``, ``toarray`` and ``solve``. ``structure`` and ``values`` have the
        format of interior point solvers.

    Raises
    ------
    ArgumentError
        If ``loss`` is not a scalar or ``wrt`` is empty.
    UnsupportedError
        If the loss is more than scalar functions, sums, maxima and minima: a product over a range, an inverse. Or if
        a variable is a symmetric matrix.

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
    args, loss, wrt = _normalise_argument_order("hessian", args, loss, wrt)
    own = as_operand(loss, "the loss")
    if shape := tuple(getattr(own, "shape", ())):
        raise ArgumentError(f"the loss has the shape {shape}: a Hessian is that of a scalar, sum it first")
    return StructuredDerivative(args, [own], wrt, hessian_terms(own, check_independent_variables(wrt)), True, **options)


@explained
def structured_jacobian(args: Any, T: Any, wrt: Any = None, **options: Any) -> StructuredDerivative:
    """Return a compiled Jacobian of the tensor ``T`` with respect to ``wrt``. Called with arrays for ``args``, it gives
    the matrix as a SciPy linear operator whose sparsity pattern is known from the formula.

    Parameters
    ----------
    args : sequence
        The arguments in call order, as `lambdify` takes them. Without them, in the order of `jacobian`,
        ``td.structured_jacobian(T, wrt)``, they are the variables.
    T : Expr or tuple of Expr
        Tensors or scalars, made of scalar functions and sums. Rows count the entries of all of them in C order.
    wrt : TensorSymbol, Symbol or tuple of them
        The variables. Columns count their entries in C order, one variable after the other.
    **options
        Those of `lambdify` for the kernels; ``backend`` is "llvm", "numba" or "numpy".

    Returns
    -------
    StructuredDerivative
        As that of `structured_hessian`.

    Raises
    ------
    ArgumentError
        If ``wrt`` or ``T`` is empty.
    UnsupportedError
        If ``T`` is more than scalar functions, sums, maxima and minima.

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
    args, T, wrt = _normalise_argument_order("jacobian", args, T, wrt)
    functions = [as_operand(f, "the function") for f in (T if isinstance(T, tuple | list) else (T,))]
    if not functions:
        raise ArgumentError("structured_jacobian needs at least one function")
    return StructuredDerivative(
        args, functions, wrt, jacobian_terms(functions, check_independent_variables(wrt)), False, **options
    )


def _normalise_argument_order(kind: str, args: Any, function: Any, wrt: Any) -> tuple[Any, Any, Any]:
    """Return ``(args, function, wrt)`` for a call of ``structured_<kind>`` with its arguments in either order, ``(args,
    function, wrt)`` or ``(function, wrt)``. Raise `ArgumentTypeError` if an argument is not a symbol.
    """
    if wrt is None:
        args, function, wrt = function, args, function
    given = tuple(args) if isinstance(args, Sequence | sympy.Tuple) else (args,)
    for arg in given:
        if isinstance(arg, sympy.Expr) and not isinstance(arg, TensorSymbol) and not arg.is_symbol:
            raise ArgumentTypeError(
                f"{short(arg)} is not an argument of a call: the order is td.structured_{kind}(args, f, wrt), with "
                f"args as td.lambdify takes them, or td.structured_{kind}(f, wrt) where the variables are all arguments"
            )
    return given, function, wrt


def check_variables(wrt: Any) -> tuple[Any, ...]:
    """Return ``wrt`` as a tuple of tensor symbols and scalar symbols. Raise if it is empty, repeats one, or has
    anything but real symbols.
    """
    variables = tuple(wrt) if isinstance(wrt, tuple | list | sympy.Tuple) else (wrt,)
    if not variables:
        raise ArgumentError("wrt is empty: name at least one variable")
    for variable in variables:
        if not isinstance(variable, TensorSymbol | sympy.Symbol) or getattr(variable, "dtype", float) is int:
            raise ArgumentTypeError(f"wrt contains {variable}, which is not a tensor symbol or symbol of real numbers")
    if len(set(variables)) < len(variables):
        raise ArgumentError(f"wrt contains a variable twice: {', '.join(map(str, variables))}")
    return variables


def check_independent_variables(wrt: Any) -> tuple[Any, ...]:
    """Return the variables ``wrt`` as a tuple, after checks. Raise `UnsupportedError` for a symmetric matrix, whose
    entries cannot vary independently.
    """
    variables = check_variables(wrt)
    for variable in variables:
        if getattr(variable, "symmetric", False):
            raise UnsupportedError(
                f"wrt contains {variable}, a symmetric matrix: its entries are not independent of one another, so that "
                "a row for each has no pattern of its own; take a matrix that is not declared symmetric"
            )
    return variables


def _numeric_shape(tensor: Any, environment: dict[Any, Any]) -> tuple[int, ...]:
    """Return the shape of ``tensor`` at the sizes of ``environment``; () for a scalar."""
    return tuple(int(evaluate(sympy.sympify(extent), environment)) for extent in getattr(tensor, "shape", ()))


def split_flat_vector(vector: NDArray[Any], shapes: Sequence[tuple[int, ...]]) -> list[Any]:
    """Return the arrays of the given ``shapes`` that the flat ``vector`` contains one after the other, as views."""
    ends = [*accumulate(map(math.prod, shapes), initial=0)]
    return [vector[a:b].reshape(shape) for (a, b), shape in zip(pairwise(ends), shapes, strict=True)]


def to_flat_vector(parts: Any) -> NDArray[Any]:
    """Flatten each array or number in the iterable ``parts``, and return them concatenated as one vector."""
    return np.concatenate([np.ravel(part) for part in parts])
