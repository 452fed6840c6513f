"""A nonlinear program with exact sparse derivatives, in the interface of cyipopt."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import sympy
from numpy.typing import NDArray

from sympy_tensordiff.codegen.api import lambdify
from sympy_tensordiff.derivative.api import gradient
from sympy_tensordiff.errors import ArgumentError
from sympy_tensordiff.structure.api import (
    check_independent_variables,
    split_flat_vector,
    structured_hessian,
    structured_jacobian,
    to_flat_vector,
)
from sympy_tensordiff.structure.values import direction_symbols, unused_name
from sympy_tensordiff.symbolic.conversion.lift import as_operand
from sympy_tensordiff.symbolic.expressions.call_errors import explained
from sympy_tensordiff.symbolic.index_notation.tensors import TensorSymbol
from sympy_tensordiff.symbolic.whole_tensors import reductions


class FlatVariables:
    """Converts between the values of several variables and the flat vector of all their entries that solvers use.

    `shapes` are those of the `variables`, `names` their names, and `size` is the length of the vector.
    """

    def __init__(self, variables: Sequence[Any], shapes: Sequence[tuple[int, ...]]) -> None:
        self.variables, self.shapes = tuple(variables), [tuple(map(int, shape)) for shape in shapes]
        self.names = [str(variable.name) for variable in variables]
        self.size = sum(map(math.prod, self.shapes))

    def parts(self, x: Any) -> list[Any]:
        """Return the values of the variables in the flat vector ``x``, as views in their shapes; raise `ArgumentError`
        if its length is wrong.
        """
        vector = np.asarray(x, dtype=float)
        if vector.shape != (self.size,):
            raise ArgumentError(
                f"the vector of unknowns has the shape {vector.shape}, the problem needs ({self.size},)"
            )
        return split_flat_vector(vector, self.shapes)

    def unravel(self, x: Any) -> dict[str, Any]:
        """Return the values of the variables in the flat vector ``x`` as a dictionary by name, each in its shape."""
        return dict(zip(self.names, self.parts(x), strict=True))

    def ravel(self, values: Mapping[Any, Any]) -> NDArray[Any]:
        """Return the flat vector of ``values``, a dictionary by name or by symbol. Raise `ArgumentError` for wrong
        names or shapes.
        """
        given = {str(getattr(key, "name", key)): np.asarray(value, dtype=float) for key, value in values.items()}
        if set(given) != set(self.names):
            raise ArgumentError(f"values are given for {', '.join(given)}, the variables are {', '.join(self.names)}")
        for name, shape in zip(self.names, self.shapes, strict=True):
            if given[name].shape != shape:
                raise ArgumentError(f"the value of {name} has the shape {given[name].shape}, it needs {shape}")
        return to_flat_vector(given[name] for name in self.names)


def variables_at_start(variables: Sequence[Any], start: Any, is_sequence: bool) -> tuple[FlatVariables, NDArray[Any]]:
    """Return ``(layout, vector)``: the layout of ``variables`` in a flat vector, and the vector of the start values.
    ``start`` is one array or, with ``is_sequence``, one array for each variable; the arrays give the shapes.
    """
    arrays = [np.asarray(array, dtype=float) for array in (start if is_sequence else (start,))]
    if len(arrays) != len(variables):
        raise ArgumentError(f"start has {len(arrays)} arrays, there are {len(variables)} variables")
    return FlatVariables(variables, [array.shape for array in arrays]), to_flat_vector(arrays)


class NonlinearProgram:
    """A nonlinear program: minimise an objective such that tensors of constraints stay within bounds. `nlp` makes it.

    The methods are those of a cyipopt problem object, on one flat vector of all variables in C order, concatenated.
    Constraints are concatenated in the same way.

    Attributes
    ----------
    n, m : int
        The numbers of unknowns and of constraints.
    lb, ub : ndarray
        Bounds of the unknowns.
    cl, cu : ndarray
        Bounds of the constraints.
    """

    def __init__(
        self,
        objective: Any,
        constraints: Sequence[Any],
        variables: tuple[Any, ...],
        data: Mapping[Any, Any],
        start: tuple[FlatVariables, NDArray[Any]],
        bounds: Any,
        constraint_bounds: Any,
    ) -> None:
        others = [a for a in data if a not in variables]
        arguments = (*variables, *others)
        self._data = [np.asarray(data[a]) if isinstance(a, TensorSymbol) else data[a] for a in others]
        factor = sympy.Symbol(unused_name("obj_factor", arguments), real=True)
        multipliers = direction_symbols(constraints, arguments, "lagrange")
        lagrangian = factor * objective
        for constraint, multiplier in zip(constraints, multipliers, strict=True):
            lagrangian += reductions.sum(constraint * multiplier)
        self._objective = lambdify(arguments, objective, parallel=False)
        self._gradient = lambdify(arguments, gradient(objective, variables), parallel=False)
        self._constraints = lambdify(arguments, tuple(constraints), parallel=False) if constraints else None
        self._jacobian = structured_jacobian(arguments, list(constraints), variables) if constraints else None
        self._hessian = structured_hessian((*arguments, factor, *multipliers), lagrangian, variables)
        self._flat, self.x0 = start
        self.n = self._flat.size
        values = self._constraints(*self._call_arguments(self.x0)) if self._constraints else ()
        self._constraint_shapes = [np.shape(v) for v in values]
        self.m = sum(map(math.prod, self._constraint_shapes))
        self.lb, self.ub = _flat_bounds(bounds, variables, self._flat.shapes, (-np.inf, np.inf))
        self.cl, self.cu = _flat_bounds(constraint_bounds, constraints, self._constraint_shapes, (0.0, 0.0))

    def objective(self, x: NDArray[Any]) -> float:
        """Return the value of the objective at ``x``, the flat vector of the variables."""
        return float(self._objective(*self._call_arguments(x)))

    def gradient(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return the gradient of the objective at ``x``, as a flat vector like ``x``."""
        return to_flat_vector(self._gradient(*self._call_arguments(x)))

    def constraints(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return the values of all constraints at ``x``, concatenated."""
        if self._constraints is None:
            return np.zeros(0)
        return to_flat_vector(self._constraints(*self._call_arguments(x)))

    def jacobianstructure(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return ``(rows, columns)``: the positions in the Jacobian of the values that `jacobian` returns, in the same
        order.
        """
        if self._jacobian is None:
            return np.zeros(0, int), np.zeros(0, int)
        return self._jacobian.structure(*self._call_arguments(self.x0))

    def jacobian(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return the derivatives of the constraints at the point ``x``, in the order of `jacobianstructure`."""
        return np.zeros(0) if self._jacobian is None else self._jacobian.values(*self._call_arguments(x))

    def hessianstructure(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the rows and the columns of the values that `hessian` returns: the lower triangle."""
        return self._hessian.structure(*self._lagrangian_arguments(self.x0, np.zeros(self.m), 1.0), lower=True)

    def hessian(self, x: NDArray[Any], lagrange: NDArray[Any], obj_factor: float) -> NDArray[Any]:
        """Return the second derivatives of ``obj_factor*objective + lagrange @ constraints`` at ``x``: the values of
        the lower triangle, in the order of `hessianstructure`.
        """
        return self._hessian.values(*self._lagrangian_arguments(x, lagrange, obj_factor), lower=True)

    def hessian_operator(self, x: NDArray[Any], lagrange: Any = None, obj_factor: float = 1.0) -> Any:
        """Return the matrix of second derivatives of ``obj_factor*objective + lagrange @ constraints`` at ``x``, with
        both triangles, as a `StructuredOperator` for ``scipy.optimize.minimize``. Without ``lagrange``, the multipliers
        are 0.
        """
        own = np.zeros(self.m) if lagrange is None else lagrange
        return self._hessian(*self._lagrangian_arguments(x, own, obj_factor))

    def jacobian_operator(self, x: NDArray[Any]) -> Any:
        """Return the derivatives of the constraints at the point ``x`` as a `StructuredOperator`; raise `ArgumentError`
        without constraints.
        """
        if self._jacobian is None:
            raise ArgumentError("the problem has no constraints")
        return self._jacobian(*self._call_arguments(x))

    def unpack(self, x: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """Return the values of the variables in the flat vector ``x``, each in its shape."""
        return tuple(self._flat.parts(x))

    def _call_arguments(self, x: NDArray[Any]) -> list[Any]:
        """Return the arguments of the compiled functions: the variables in ``x``, then the data."""
        return [*self._flat.parts(x), *self._data]

    def _lagrangian_arguments(self, x: NDArray[Any], lagrange: Any, factor: float) -> list[Any]:
        """Return the arguments of the Hessian kernel: the variables in ``x``, the data, the objective's ``factor`` and
        the multipliers ``lagrange``; raise `ArgumentError` if the multipliers do not fit.
        """
        own = np.asarray(lagrange, dtype=float)
        if own.shape != (self.m,):
            raise ArgumentError(f"the multipliers have the shape {own.shape}, the problem needs ({self.m},)")
        return [
            *self._call_arguments(x),
            float(factor),
            *(split_flat_vector(own, self._constraint_shapes) if self.m else []),
        ]


@explained
def nlp(
    objective: Any,
    constraints: Any = (),
    wrt: Any = (),
    *,
    start: Any,
    data: Mapping[Any, Any] | None = None,
    bounds: Mapping[Any, Any] | None = None,
    constraint_bounds: Sequence[Any] | None = None,
) -> NonlinearProgram:
    """Return the problem to minimise ``objective`` over ``wrt`` from ``start``, with ``constraints`` within
    ``constraint_bounds`` and variables within ``bounds``. It has the methods that cyipopt and similar solvers call.
    ``data`` has the values of all other symbols.

    Parameters
    ----------
    objective : Expr
        A scalar to minimise, made of scalar functions and sums.
    constraints : Expr or sequence of Expr
        Tensors or scalars whose entries are bounded.
    wrt : TensorSymbol, Symbol or tuple of them
        The unknowns.
    start : array_like or sequence of them
        Where to start, one array for each unknown; it fixes the sizes.
    data : mapping, optional
        The values of all other symbols in the formulas: tensors, scalars, and sizes that no shape determines.
    bounds : mapping, optional
        ``{unknown: (low, high)}``; numbers or arrays of its shape, None for no bound.
    constraint_bounds : sequence, optional
        ``(low, high)`` for each of ``constraints``; 0 and 0 for all by default, which are equations.

    Returns
    -------
    NonlinearProgram
        With ``objective``, ``gradient``, ``constraints``, ``jacobian``, ``jacobianstructure``,
        ``hessian(x, lagrange, obj_factor)``, ``hessianstructure``, and ``n``, ``m``, ``lb``, ``ub``, ``cl``, ``cu``,
        ``x0``.

    Raises
    ------
    ArgumentError
        If a symbol has no value, or an array does not fit.

    Examples
    --------
    >>> import numpy as np
    >>> import sympy_tensordiff as td
    >>> i, n = td.indices("i n")
    >>> x = td.TensorSymbol("x", n)
    >>> problem = td.nlp(
    ...     td.IndexedSum((x[i] - 1)**2, (i, 0, n - 1)), td.TensorComprehension(x[i + 1]*x[i] - 2, (i, n - 1)), x,
    ...     start=np.ones(3), bounds={x: (0, None)})
    >>> problem.constraints(problem.x0).tolist(), problem.jacobian(problem.x0).tolist()
    ([-1.0, -1.0], [1.0, 1.0, 1.0, 1.0])
    >>> [part.tolist() for part in problem.hessianstructure()]
    [[0, 1, 1, 2, 2], [0, 0, 1, 1, 2]]

    With cyipopt (or another solver of this interface):

    >>> import cyipopt  # doctest: +SKIP
    >>> solver = cyipopt.Problem(
    ...     n=problem.n, m=problem.m, problem_obj=problem, lb=problem.lb, ub=problem.ub, cl=problem.cl, cu=problem.cu
    ... )  # doctest: +SKIP
    >>> x, info = solver.solve(problem.x0)  # doctest: +SKIP
    """
    own = as_operand(objective, "the objective")
    if shape := tuple(getattr(own, "shape", ())):
        raise ArgumentError(f"the objective has the shape {shape}: it must be a scalar, sum it first")
    tensors = list(constraints) if isinstance(constraints, tuple | list) else [constraints]
    tensors = [as_operand(c, "the constraint") for c in tensors]
    variables = check_independent_variables(wrt)
    at = variables_at_start(variables, start, isinstance(wrt, tuple | list | sympy.Tuple))
    return NonlinearProgram(own, tensors, variables, dict(data or {}), at, bounds, constraint_bounds)


def _flat_bounds(
    given: Any, tensors: Sequence[Any], shapes: Sequence[tuple[int, ...]], default: tuple[float, float]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return two flat arrays, the lower and the upper bounds of all entries of ``tensors``. ``given`` has a pair
    ``(lower, upper)`` for each tensor; tensors without a pair get ``default``.

    ``given`` is a mapping, a sequence, or None for no pairs. ``shapes`` are the shapes of the tensors.
    """
    if given is None:
        pairs = [default] * len(tensors)
    elif isinstance(given, Mapping):
        if unknown := [str(t) for t in given if t not in tensors]:
            raise ArgumentError(f"bounds are given for {', '.join(unknown)}, which wrt does not hold")
        pairs = [given.get(tensor, default) for tensor in tensors]
    else:
        pairs = list(given)
        if len(pairs) != len(tensors):
            raise ArgumentError(f"constraint_bounds has {len(pairs)} pairs, there are {len(tensors)} constraints")
    sides: list[list[NDArray[Any]]] = [[], []]
    for pair, tensor, shape in zip(pairs, tensors, shapes, strict=True):
        for side, (end, missing) in enumerate(zip(pair, (-np.inf, np.inf), strict=True)):
            value = np.asarray(missing if end is None else end, dtype=float)
            if value.shape not in ((), shape):
                raise ArgumentError(f"a bound of {tensor} has the shape {value.shape}, it needs {shape} or one number")
            sides[side].append(np.broadcast_to(value, shape).ravel())
    empty = [np.zeros(0)]
    return np.concatenate(sides[0] or empty), np.concatenate(sides[1] or empty)
