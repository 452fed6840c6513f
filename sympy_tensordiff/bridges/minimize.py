"""A loss, or a tensor of residuals, as functions of one flat vector: what SciPy's optimisers ask for."""

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
    flat,
    independent_variables,
    structured_hessian,
    structured_jacobian,
)
from sympy_tensordiff.structure.nlp import FlatVariables, starting_at
from sympy_tensordiff.structure.points import evaluate
from sympy_tensordiff.structure.values import directions_of
from sympy_tensordiff.symbolic.calls import explained
from sympy_tensordiff.symbolic.lift import as_operand
from sympy_tensordiff.symbolic.tensors import TensorSymbol


class MinimizeProblem:
    """Functions of one flat vector of all variables; made by `minimize_problem`.

    All methods compile their kernels when they are first called. Vectors are float64.
    """

    def __init__(self, loss: Any, wrt: Any, data: Mapping[Any, Any], start: Any, options: Mapping[str, Any]) -> None:
        self._loss, self._variables, self._options = loss, independent_variables(wrt), dict(options)
        self._kernels: dict[Callable[..., Any], Any] = {}
        self._is_scalar = not tuple(getattr(loss, "shape", ()))
        self._args = (*self._variables, *data)
        self._data = [np.asarray(v) if isinstance(a, TensorSymbol) else v for a, v in data.items()]
        if both := [str(v) for v in self._variables if v in data]:
            raise ArgumentError(f"{', '.join(both)} is in wrt and in data: give what does not change in data")
        try:
            self._value = self._compiled(loss)
        except ArgumentError as error:
            raise ArgumentError(str(error).replace("in args", "in wrt or data").replace("to args", "to data")) from None
        self._sizes = _sizes(loss, tuple(data), self._data)
        self._flat: FlatVariables | None = None
        self._has_start = start is not None
        if start is not None:
            self._flat, _ = starting_at(self._variables, start, isinstance(wrt, tuple | list | sympy.Tuple))

    # ------------------------------------------------------------------------ the functions

    def fun(self, x: Any) -> Any:
        """The loss, a float; or the residuals, a vector."""
        value = self._value(*self._arrays(x))
        return float(value) if self._is_scalar else np.ravel(value)

    def jac(self, x: Any) -> Any:
        """The gradient of the loss, a vector; of residuals the Jacobian, as a sparse matrix where it has a pattern."""
        if self._is_scalar:
            return flat(self._kernel(gradient)(*self._arrays(x)))
        arrays = self._arrays(x)
        if self._structured_jacobian is not None:
            return self._structured_jacobian(*arrays).tocsr()
        rows = math.prod(np.shape(self._value(*arrays)))
        return np.concatenate([np.reshape(block, (rows, -1)) for block in self._kernel(jacobian)(*arrays)], axis=1)

    def fun_and_jac(self, x: Any) -> tuple[float, NDArray[Any]]:
        """The loss and its gradient out of one kernel, for ``minimize(problem.fun_and_jac, x0, jac=True)``."""
        self._needs_scalar("fun_and_jac")
        value, *parts = self._both(*self._arrays(x))
        return float(value), flat(parts)

    def hess(self, x: Any) -> NDArray[Any]:
        """The Hessian of the loss, a matrix with all entries."""
        self._needs_scalar("hess")
        blocks = self._kernel(hessian)(*self._arrays(x))
        rows = zip(blocks, map(math.prod, self._at(x).shapes), strict=True)
        return np.block([[np.reshape(block, (n, -1)) for block in row] for row, n in rows])

    def hessp(self, x: Any, p: Any) -> NDArray[Any]:
        """The Hessian of the loss times a vector, without the Hessian."""
        self._needs_scalar("hessp")
        return flat(self._product(*self._arrays(x), *self._at(x).parts(p)))

    def hess_operator(self, x: Any) -> Any:
        """The Hessian as a `StructuredOperator`, for ``method="trust-constr"`` and for Newton steps by ``.solve``."""
        self._needs_scalar("hess_operator")
        return self._structured_hessian(*self._arrays(x))

    def ravel(self, values: Mapping[Any, Any]) -> NDArray[Any]:
        """The flat vector of values, ``{"W": array, ...}`` by name or by symbol."""
        if not self._has_start:
            known = {str(getattr(key, "name", key)): np.shape(value) for key, value in values.items()}
            shapes = [known.get(str(v.name), ()) for v in self._variables]
            self._flat = FlatVariables(self._variables, shapes)
        assert self._flat is not None
        return self._flat.ravel(values)

    def unravel(self, x: Any) -> dict[str, Any]:
        """The variables by name, each in its shape."""
        return self._at(x).unravel(x)

    # ------------------------------------------------------------------------ kernels

    def _compiled(self, outputs: Any, *more: Any) -> Any:
        return lambdify((*self._args, *more), outputs, **self._options)

    def _kernel(self, derivative: Callable[..., Any]) -> Any:
        """The derivative of the loss by the variables, compiled once."""
        if derivative not in self._kernels:
            self._kernels[derivative] = self._compiled(derivative(self._loss, self._variables))
        return self._kernels[derivative]

    @cached_property
    def _both(self) -> Any:
        return self._compiled((self._loss, *gradient(self._loss, self._variables)))

    @cached_property
    def _product(self) -> Any:
        directions = directions_of(self._variables, self._args)
        return self._compiled(hvp(self._loss, self._variables, directions), *directions)

    @cached_property
    def _structured_hessian(self) -> Any:
        return structured_hessian(self._args, self._loss, self._variables, **self._structured_options)

    @cached_property
    def _structured_jacobian(self) -> Any:
        try:
            return structured_jacobian(self._args, self._loss, self._variables, **self._structured_options)
        except UnsupportedError:
            return None

    @property
    def _structured_options(self) -> dict[str, Any]:
        """The options for sparse kernels, which run on the host."""
        if self._options.get("backend", "llvm") in BACKENDS:
            return self._options
        return {name: value for name, value in self._options.items() if name != "backend"}

    # ------------------------------------------------------------------------ the vector

    def _arrays(self, x: Any) -> list[Any]:
        return [*self._at(x).parts(x), *self._data]

    def _at(self, x: Any) -> FlatVariables:
        if self._flat is None or not (self._has_start or np.size(x) == self._flat.size):
            self._flat = FlatVariables(self._variables, self._shapes(np.size(x)))
        return self._flat

    def _shapes(self, length: int) -> list[tuple[int, ...]]:
        """The shapes of the variables, whose vector has a length; one size may be unknown."""
        extents = [[sympy.sympify(extent) for extent in getattr(v, "shape", ())] for v in self._variables]
        unknown = {s for shape in extents for e in shape for s in e.free_symbols if str(s) not in self._sizes}
        if len(unknown) > 1:
            names = ", ".join(sorted(map(str, unknown)))
            raise ArgumentError(f"a vector of length {length} does not tell the sizes {names}: give start")

        sizes: Any = np.arange(1, length + 1) if unknown else np.zeros(1, dtype=np.int64)
        known = {s: self._sizes.get(str(s), sizes) for shape in extents for e in shape for s in e.free_symbols}
        shapes = [[np.broadcast_to(evaluate(e, known), sizes.shape) for e in shape] for shape in extents]
        counts = sum(np.prod([*shape, np.ones_like(sizes)], axis=0) for shape in shapes)
        fitting = np.flatnonzero(counts == length)
        if len(fitting) != 1:
            raise ArgumentError(f"a vector of length {length} fits the variables in {len(fitting)} ways: give start")
        return [tuple(int(extent[fitting[0]]) for extent in shape) for shape in shapes]

    def _needs_scalar(self, name: str) -> None:
        if not self._is_scalar:
            shape = tuple(self._loss.shape)
            raise ArgumentError(f"{name} is for a scalar loss, and this one has the shape {shape}: use fun and jac")


@explained
def minimize_problem(
    loss: Any, wrt: Any, *, data: Mapping[Any, Any] | None = None, start: Any = None, **options: Any
) -> MinimizeProblem:
    """The functions of a flat vector that SciPy's optimisers ask for.

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
        An array for each variable, of which the shape matters: it is needed where two or more sizes of the variables
        follow neither from ``data`` nor from the length of the vector.
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


def _sizes(loss: Any, args: tuple[Any, ...], values: list[Any]) -> dict[str, int]:
    """The sizes that the shapes of arrays determine, and integers."""
    try:
        checker = size_checker(args, [loss])
    except ArgumentError:  # a shape with two unknown sizes, which a variable may determine
        return {}
    checker.prepare(values)
    return checker.known_sizes()
