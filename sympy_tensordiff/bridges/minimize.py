"""A loss, or a tensor of residuals, as functions of one flat vector for SciPy's optimisers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import sympy
from numpy.typing import NDArray

from sympy_tensordiff.codegen.api import lambdify
from sympy_tensordiff.codegen.run.signature import size_checker
from sympy_tensordiff.derivative.api import gradient, hessian, hvp, jacobian
from sympy_tensordiff.errors import ArgumentError, UnsupportedError
from sympy_tensordiff.structure.api import (
    BACKENDS,
    check_independent_variables,
    structured_hessian,
    structured_jacobian,
    to_flat_vector,
)
from sympy_tensordiff.structure.nlp import FlatVariables, variables_at_start
from sympy_tensordiff.structure.points import evaluate
from sympy_tensordiff.structure.values import direction_symbols
from sympy_tensordiff.symbolic.conversion.lift import as_operand
from sympy_tensordiff.symbolic.expressions.call_errors import explained
from sympy_tensordiff.symbolic.index_notation.tensors import TensorSymbol


class MinimizeProblem:
    """The loss and its derivatives as functions of one flat vector of all variables; made by `minimize_problem`.

    All methods compile their kernels when they are first called. Vectors are float64.
    """

    def __init__(self, loss: Any, wrt: Any, data: Mapping[Any, Any], start: Any, options: Mapping[str, Any]) -> None:
        self._loss, self._variables, self._options = loss, check_independent_variables(wrt), dict(options)
        self._kernels: dict[Callable[..., Any], Any] = {}
        self._is_scalar = not tuple(getattr(loss, "shape", ()))
        self._args = (*self._variables, *data)
        self._data = [np.asarray(v) if isinstance(a, TensorSymbol) else v for a, v in data.items()]
        if both := [str(v) for v in self._variables if v in data]:
            raise ArgumentError(f"{', '.join(both)} is in wrt and in data: give what does not change in data")
        try:
            self._value = self._compile(loss)
        except ArgumentError as error:
            raise ArgumentError(str(error).replace("in args", "in wrt or data").replace("to args", "to data")) from None
        self._known_sizes = _known_sizes(loss, tuple(data), self._data)
        self._flat: FlatVariables | None = None
        self._has_start = start is not None
        if start is not None:
            self._flat, _ = variables_at_start(self._variables, start, isinstance(wrt, tuple | list | sympy.Tuple))

    # ------------------------------------------------------------------------ the functions

    def fun(self, x: Any) -> Any:
        """Return the value to minimise at the point ``x``: the loss as a float, or the residuals of a least-squares
        problem as a vector.
        """
        value = self._value(*self._call_arguments(x))
        return float(value) if self._is_scalar else np.ravel(value)

    def jac(self, x: Any) -> Any:
        """Return the gradient of the loss at ``x``, the vector of all variables. For a vector of residuals, return
        their Jacobian, as a sparse matrix if its pattern is known.
        """
        if self._is_scalar:
            return to_flat_vector(self._kernel(gradient)(*self._call_arguments(x)))
        arrays = self._call_arguments(x)
        if self._structured_jacobian is not None:
            return self._structured_jacobian(*arrays).tocsr()
        rows = math.prod(np.shape(self._value(*arrays)))
        return np.concatenate([np.reshape(block, (rows, -1)) for block in self._kernel(jacobian)(*arrays)], axis=1)

    def fun_and_jac(self, x: Any) -> tuple[float, NDArray[Any]]:
        """Return ``(loss, gradient)``, computed together, for ``minimize(problem.fun_and_jac, x0, jac=True)``."""
        self._check_scalar("fun_and_jac")
        value, *parts = self._value_and_gradient(*self._call_arguments(x))
        return float(value), to_flat_vector(parts)

    def hess(self, x: Any) -> NDArray[Any]:
        """Return the Hessian of the loss at the point ``x`` as a full matrix."""
        self._check_scalar("hess")
        blocks = self._kernel(hessian)(*self._call_arguments(x))
        rows = zip(blocks, map(math.prod, self._flat_variables(x).shapes), strict=True)
        return np.block([[np.reshape(block, (n, -1)) for block in row] for row, n in rows])

    def hessp(self, x: Any, p: Any) -> NDArray[Any]:
        """Return the Hessian of the loss at ``x`` times the vector ``p``, without forming the Hessian."""
        self._check_scalar("hessp")
        return to_flat_vector(self._hessian_product(*self._call_arguments(x), *self._flat_variables(x).parts(p)))

    def hess_operator(self, x: Any) -> Any:
        """Return the Hessian at the point ``x`` as a `StructuredOperator`, for ``method="trust-constr"`` and for Newton
        steps by ``.solve``.
        """
        self._check_scalar("hess_operator")
        return self._structured_hessian(*self._call_arguments(x))

    def ravel(self, values: Mapping[Any, Any]) -> NDArray[Any]:
        """Return the flat vector of ``values``, ``{"W": array, ...}`` by name or by symbol."""
        if not self._has_start:
            shape_of = {str(getattr(key, "name", key)): np.shape(value) for key, value in values.items()}
            shapes = [shape_of.get(str(v.name), ()) for v in self._variables]
            self._flat = FlatVariables(self._variables, shapes)
        assert self._flat is not None
        return self._flat.ravel(values)

    def unravel(self, x: Any) -> dict[str, Any]:
        """Return the variables in the flat vector ``x`` by name, each in its shape."""
        return self._flat_variables(x).unravel(x)

    # ------------------------------------------------------------------------ kernels

    def _compile(self, outputs: Any, *more: Any) -> Any:
        """Return the compiled function of ``outputs``; its arguments are those of the problem, followed by ``more``."""
        return lambdify((*self._args, *more), outputs, **self._options)

    def _kernel(self, derivative: Callable[..., Any]) -> Any:
        """Return the compiled function that computes ``derivative(loss, variables)``, for instance the gradient. It is
        compiled at the first call.
        """
        if derivative not in self._kernels:
            self._kernels[derivative] = self._compile(derivative(self._loss, self._variables))
        return self._kernels[derivative]

    @cached_property
    def _value_and_gradient(self) -> Any:
        """The compiled function that returns the loss and its gradient."""
        return self._compile((self._loss, *gradient(self._loss, self._variables)))

    @cached_property
    def _hessian_product(self) -> Any:
        """The compiled Hessian-vector product."""
        directions = direction_symbols(self._variables, self._args)
        return self._compile(hvp(self._loss, self._variables, directions), *directions)

    @cached_property
    def _structured_hessian(self) -> Any:
        """The Hessian of the loss as a compiled `StructuredDerivative`, which returns sparse operators."""
        return structured_hessian(self._args, self._loss, self._variables, **self._structured_options)

    @cached_property
    def _structured_jacobian(self) -> Any:
        """The Jacobian of the residuals as a structured derivative; None if their formula has no known sparsity."""
        try:
            return structured_jacobian(self._args, self._loss, self._variables, **self._structured_options)
        except UnsupportedError:
            return None

    @property
    def _structured_options(self) -> dict[str, Any]:
        """The options of `lambdify` for sparse derivatives, which run on the CPU."""
        if self._options.get("backend", "llvm") in BACKENDS:
            return self._options
        return {name: value for name, value in self._options.items() if name != "backend"}

    # ------------------------------------------------------------------------ the vector

    def _call_arguments(self, x: Any) -> list[Any]:
        """Return the arguments of the kernels: the variables in ``x``, then the data."""
        return [*self._flat_variables(x).parts(x), *self._data]

    def _flat_variables(self, x: Any) -> FlatVariables:
        """Return the layout that converts between the flat vector ``x`` of a solver and the variables with their
        shapes. Unknown extents follow from the length of ``x``.
        """
        if self._flat is None or not (self._has_start or np.size(x) == self._flat.size):
            self._flat = FlatVariables(self._variables, self._shapes_for_length(np.size(x)))
        return self._flat

    def _shapes_for_length(self, length: int) -> list[tuple[int, ...]]:
        """Return the shapes of the variables, given the ``length`` of the flat vector that contains them all. One size
        may be unknown; raise `ArgumentError` if the length does not determine it.
        """
        extents = [[sympy.sympify(extent) for extent in getattr(v, "shape", ())] for v in self._variables]
        unknown = {s for shape in extents for e in shape for s in e.free_symbols if str(s) not in self._known_sizes}
        if len(unknown) > 1:
            names = ", ".join(sorted(map(str, unknown)))
            raise ArgumentError(f"a vector of length {length} does not determine the sizes {names}: give start")

        sizes: Any = np.arange(1, length + 1) if unknown else np.zeros(1, dtype=np.int64)
        values = {s: self._known_sizes.get(str(s), sizes) for shape in extents for e in shape for s in e.free_symbols}
        shapes = [[np.broadcast_to(evaluate(e, values), sizes.shape) for e in shape] for shape in extents]
        counts = sum(np.prod([*shape, np.ones_like(sizes)], axis=0) for shape in shapes)
        matches = np.flatnonzero(counts == length)
        if len(matches) != 1:
            raise ArgumentError(f"a vector of length {length} fits the variables in {len(matches)} ways: give start")
        return [tuple(int(extent[matches[0]]) for extent in shape) for shape in shapes]

    def _check_scalar(self, name: str) -> None:
        """Raise `ArgumentError`, with the name of the method that was called, if the loss is not a scalar."""
        if not self._is_scalar:
            shape = tuple(self._loss.shape)
            raise ArgumentError(f"{name} is for a scalar loss, and this one has the shape {shape}: use fun and jac")


@explained
def minimize_problem(
    loss: Any, wrt: Any, *, data: Mapping[Any, Any] | None = None, start: Any = None, **options: Any
) -> MinimizeProblem:
    """Return the scalar or tensor ``loss`` and its derivatives as functions of one flat vector of the variables
    ``wrt``, for SciPy's optimisers. ``data`` has the values of all other symbols, ``start`` the initial values of the
    variables.

    Parameters
    ----------
    loss : Expr
        A scalar to minimise with ``scipy.optimize.minimize``, or a tensor of residuals for
        ``scipy.optimize.least_squares``.
    wrt : TensorSymbol, Symbol or tuple of them
        The variables. The vector has the entries of each in C order, one variable after the other.
    data : mapping, optional
        The values of all other symbols in the loss: tensors, scalars, and sizes.
    start : array_like or sequence of them, optional
        An array for each variable, used for its shape only; needed if two or more sizes of the variables follow neither
        from ``data`` nor from the length of the vector.
    **options
        Those of `lambdify`, ``backend`` among them.

    Returns
    -------
    MinimizeProblem
        With ``fun(x)``, ``jac(x)``, ``fun_and_jac(x)``, ``hess(x)``, ``hessp(x, p)``, ``hess_operator(x)``, and
        ``ravel({name: array})`` and ``unravel(x)``.

    Raises
    ------
    ArgumentError
        If a symbol has no value, or an array or the vector does not fit.

    Examples
    --------
    >>> import numpy as np, scipy.optimize
    >>> import sympy_tensordiff as td
    >>> n, m = td.indices("n m")
    >>> A, x, y, b = td.TensorSymbol("A", (n, m)), td.TensorSymbol("x", m), td.TensorSymbol("y", n), sympy.Symbol("b")
    >>> residuals = A @ x + b*td.ones(n) - y
    >>> data = {A: np.array([[1.0], [2.0], [3.0]]), y: np.array([5.0, 7.0, 9.0])}
    >>> problem = td.minimize_problem(td.dot(residuals, residuals), (x, b), data=data, backend="numpy")
    >>> result = scipy.optimize.minimize(
    ...     problem.fun, np.zeros(2), jac=problem.jac, hess=problem.hess, method="trust-exact")
    >>> {name: np.round(value, 6).tolist() for name, value in problem.unravel(result.x).items()}
    {'x': [2.0], 'b': 3.0}
    >>> problem = td.minimize_problem(residuals, (x, b), data=data, backend="numpy")
    >>> scipy.optimize.least_squares(problem.fun, np.zeros(2), jac=problem.jac).x.round(6).tolist()
    [2.0, 3.0]
    """
    return MinimizeProblem(as_operand(loss, "the loss"), wrt, dict(data or {}), start, options)


def _known_sizes(loss: Any, args: tuple[Any, ...], values: list[Any]) -> dict[str, int]:
    """Return the values of sizes in ``loss`` by their names, found from ``values``, the arrays and integers for the
    symbols ``args``, and the shapes of these. Return {} if a shape has two unknown sizes.
    """
    try:
        checker = size_checker(args, [loss])
    except ArgumentError:  # a shape with two unknown sizes, which a variable may determine
        return {}
    checker.prepare(values)
    return checker.known_sizes()
