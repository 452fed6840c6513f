"""The public door: structured Jacobians and Hessians as callables that return operators."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy
from numpy.typing import NDArray

from sympy_tensordiff.codegen.api import generate_code, lambdify
from sympy_tensordiff.codegen.run.compilation import noticed
from sympy_tensordiff.derivative.api import hvp, jvp, vjp
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError, UnsupportedError
from sympy_tensordiff.structure.calls import Call, CallReader
from sympy_tensordiff.structure.chain_rule import hessian_terms, jacobian_terms
from sympy_tensordiff.structure.pattern import Group, find_pattern, grouped
from sympy_tensordiff.structure.points import evaluate
from sympy_tensordiff.structure.terms import Term
from sympy_tensordiff.structure.values import Entries, ValueKernel, directions_of
from sympy_tensordiff.symbolic.calls import explained
from sympy_tensordiff.symbolic.lift import as_operand
from sympy_tensordiff.symbolic.printing import short
from sympy_tensordiff.symbolic.tensors import TensorSymbol

if TYPE_CHECKING:
    from sympy_tensordiff.structure.operator import StructuredOperator


BACKENDS = ("llvm", "numba", "numpy")


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
        self,
        args: Any,
        functions: Sequence[Any],
        wrt: Any,
        terms: tuple[Term, ...],
        symmetric: bool,
        backend: str = "llvm",
        **options: Any,
    ) -> None:
        self.args = tuple(args) if isinstance(args, Sequence | sympy.Tuple) else (args,)
        self.terms = terms
        self.is_symmetric = symmetric
        self._functions = tuple(functions)
        self._variables = independent_variables(wrt)
        if backend not in BACKENDS:
            raise ArgumentError(
                f"backend={backend!r}: structured derivatives are computed with 'llvm', 'numba' or 'numpy'; their text "
                "for another backend is what .generate_code(backend) returns"
            )
        self._options = {"parallel": None if backend == "numpy" else False, "backend": backend, **options}
        self._groups = grouped(terms)
        self._kernels: dict[Any, Any] = {}
        self._entries: dict[Any, Entries] = {}
        self._calls = CallReader(self.args, self._functions, self._index_parts())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.terms)} terms)"

    def __call__(self, *arrays: Any) -> StructuredOperator:
        """The matrix at ``arrays``, as an operator of SciPy; rows and columns count the entries in C order.

        Raises
        ------
        ArgumentError, ArgumentTypeError
            If an array does not fit; the message names it.
        """
        call = self._calls.read(arrays)
        if self.dense_groups:  # products are computed later, when the caller may have changed the arrays
            call = call._replace(values=tuple(np.array(a) if isinstance(a, np.ndarray) else a for a in call.values))
        from sympy_tensordiff.structure.operator import StructuredOperator  # SciPy takes long to import

        return StructuredOperator(self, call)

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
        pattern = self.entries(self._calls.read(arrays), lower=lower).pattern
        return pattern.rows, pattern.columns

    def values(self, *arrays: Any, out: NDArray[Any] | None = None, lower: bool = False) -> NDArray[Any]:
        """The values in the order of `structure`, into ``out`` where it is given."""
        call = self._calls.read(arrays)
        return self.evaluated(self.entries(call, lower=lower), call, out)

    @property
    def source(self) -> str:
        """The text of the module that computes `values`; empty where there are no terms."""
        return self.kernel(self._groups).function.source if self._groups else ""

    @property
    def plan(self) -> str:
        """The target of each result of the kernel, and the kernel's plan; empty where there are no terms."""
        if not self._groups:
            return ""
        kernel = self.kernel(self._groups)
        return "\n".join(["terms:", *(f"  {term}" for term in kernel.terms), kernel.function.plan])

    def generate_code(self, backend: str = "c", **options: Any) -> str:
        """The text of a function of the values of all terms, for use without this package.

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

        pattern = self.entries(self._calls.read(arrays)).pattern
        ones = np.ones(len(pattern.columns))
        axes = plt.figure().add_subplot() if ax is None else ax
        axes.spy(scipy.sparse.csr_array((ones, pattern.columns, pattern.indptr), pattern.shape), **options)
        return axes

    # ------------------------------------------------------------------------ for the operator

    def entries(self, call: Call, *, lower: bool = False, dense: bool = True) -> Entries:
        """The entries at the sizes and data of a call; without the terms that fill blocks where ``dense`` is false."""
        dense = dense or not self.dense_groups
        key = (call.key, lower, dense)
        found = self._entries.get(key)
        if found is None:
            if len(self._entries) >= 8:
                self._entries.pop(next(iter(self._entries)))
            groups = self._groups if dense else [g for g in self._groups if not g.dense]
            with noticed("finding the entries that are not 0 at these sizes"):
                pattern = find_pattern(groups, self.shapes(call.known), call.known, lower=lower)
            found = self._entries[key] = Entries(pattern, groups, self.kernel)
        return found

    def evaluated(self, entries: Entries, call: Call, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """The values of entries."""
        shape = entries.pattern.columns.shape
        if out is None:
            out = np.empty(shape, call.dtype)
        elif (out.shape, out.dtype) != (shape, call.dtype):
            given, needed = f"{out.shape} and {out.dtype}", f"{shape} and {call.dtype}"
            raise ArgumentError(f"out has the shape and type {given}, the values have {needed}")
        return entries(call.values, out)

    def kernel(self, groups: tuple[Group, ...]) -> ValueKernel:
        """The kernel of groups, compiled once."""
        if groups not in self._kernels:
            self._kernels[groups] = ValueKernel(self.args, groups, self._options)
        kernel: ValueKernel = self._kernels[groups]
        return kernel

    @cached_property
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
        return lambdify((*self.args, *directions), tuple(results), **self._options)

    def _index_parts(self) -> list[Any]:
        found: list[Any] = []
        for term in self.terms:
            found += [*term.row.indices, *term.column.indices, *term.conditions]
            found += [end for binder in term.binders for end in (binder.low, binder.high)]
        return found


@explained
def structured_hessian(args: Any, loss: Any, wrt: Any = None, **options: Any) -> StructuredDerivative:
    """The Hessian of a scalar as a sparse or structured operator, compiled.

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
        ``diagonal``, ``block``, ``tocsr``, ``toarray`` and ``solve``. Its ``structure`` and ``values`` are what
        interior point solvers ask for.

    Raises
    ------
    ArgumentError
        If ``loss`` is no scalar or ``wrt`` is empty.
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
    args, loss, wrt = _in_order("hessian", args, loss, wrt)
    own = as_operand(loss, "the loss")
    if shape := tuple(getattr(own, "shape", ())):
        raise ArgumentError(f"the loss has the shape {shape}: a Hessian is that of a scalar, sum it first")
    return StructuredDerivative(args, [own], wrt, hessian_terms(own, independent_variables(wrt)), True, **options)


@explained
def structured_jacobian(args: Any, T: Any, wrt: Any = None, **options: Any) -> StructuredDerivative:
    """The Jacobian of a tensor as a sparse or structured operator, compiled.

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
    args, T, wrt = _in_order("jacobian", args, T, wrt)
    functions = [as_operand(f, "the function") for f in (T if isinstance(T, tuple | list) else (T,))]
    if not functions:
        raise ArgumentError("structured_jacobian needs at least one function")
    return StructuredDerivative(
        args, functions, wrt, jacobian_terms(functions, independent_variables(wrt)), False, **options
    )


def _in_order(kind: str, args: Any, function: Any, wrt: Any) -> tuple[Any, Any, Any]:
    """Return arguments, function and variables, where the arguments may be missing."""
    if wrt is None:
        args, function, wrt = function, args, function
    given = tuple(args) if isinstance(args, Sequence | sympy.Tuple) else (args,)
    for arg in given:
        if isinstance(arg, sympy.Expr) and not isinstance(arg, TensorSymbol) and not arg.is_symbol:
            raise ArgumentTypeError(
                f"{short(arg)} is no argument of a call: the order is td.structured_{kind}(args, f, wrt), with args as "
                f"td.lambdify takes them, or td.structured_{kind}(f, wrt) where the variables are all arguments"
            )
    return given, function, wrt


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


def _shape(tensor: Any, known: dict[Any, Any]) -> tuple[int, ...]:
    return tuple(int(evaluate(sympy.sympify(extent), known)) for extent in getattr(tensor, "shape", ()))


def split(vector: NDArray[Any], shapes: Sequence[tuple[int, ...]]) -> list[Any]:
    """The parts of a flat vector, each in its shape."""
    ends = [*accumulate(map(math.prod, shapes), initial=0)]
    return [vector[a:b].reshape(shape) for (a, b), shape in zip(pairwise(ends), shapes, strict=True)]


def flat(parts: Any) -> NDArray[Any]:
    """Arrays and numbers, one after the other."""
    return np.concatenate([np.ravel(part) for part in parts])
