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
from sympy_tensordiff.structure.api import flat, independent_variables, split, structured_hessian, structured_jacobian
from sympy_tensordiff.structure.values import directions_of, unused
from sympy_tensordiff.symbolic import reductions
from sympy_tensordiff.symbolic.calls import explained
from sympy_tensordiff.symbolic.lift import as_operand
from sympy_tensordiff.symbolic.tensors import TensorSymbol


class FlatVariables:
    """Variables of known shapes, and their flat vector.

    Parameters
    ----------
    variables : sequence of TensorSymbol or Symbol
    shapes : sequence of tuple of int

    Attributes
    ----------
    names : list of str
    size : int
        The length of the vector.
    """

    def __init__(self, variables: Sequence[Any], shapes: Sequence[tuple[int, ...]]) -> None:
        self.variables, self.shapes = tuple(variables), [tuple(map(int, shape)) for shape in shapes]
        self.names = [str(variable.name) for variable in variables]
        self.size = sum(map(math.prod, self.shapes))

    def parts(self, x: Any) -> list[Any]:
        """The variables in order, each in its shape, as views of ``x`` where it is an array of numbers."""
        vector = np.asarray(x, dtype=float)
        if vector.shape != (self.size,):
            raise ArgumentError(
                f"the vector of unknowns has the shape {vector.shape}, the problem needs ({self.size},)"
            )
        return split(vector, self.shapes)

    def unravel(self, x: Any) -> dict[str, Any]:
        """The variables by name, each in its shape."""
        return dict(zip(self.names, self.parts(x), strict=True))

    def ravel(self, values: Mapping[Any, Any]) -> NDArray[Any]:
        """The flat vector of values, by name or by symbol."""
        given = {str(getattr(key, "name", key)): np.asarray(value, dtype=float) for key, value in values.items()}
        if set(given) != set(self.names):
            raise ArgumentError(f"values are given for {', '.join(given)}, the variables are {', '.join(self.names)}")
        for name, shape in zip(self.names, self.shapes, strict=True):
            if given[name].shape != shape:
                raise ArgumentError(f"the value of {name} has the shape {given[name].shape}, it needs {shape}")
        return flat(given[name] for name in self.names)


def starting_at(variables: Sequence[Any], start: Any, several: bool) -> tuple[FlatVariables, NDArray[Any]]:
    """Variables in the shapes of what they start from, an array for each, and its flat vector."""
    arrays = [np.asarray(array, dtype=float) for array in (start if several else (start,))]
    if len(arrays) != len(variables):
        raise ArgumentError(f"start has {len(arrays)} arrays, there are {len(variables)} variables")
    return FlatVariables(variables, [array.shape for array in arrays]), flat(arrays)


class NonlinearProgram:
    """Minimise an objective where tensors of constraints are within bounds; made by `nlp`.

    The methods are those that cyipopt asks of a problem object, on one flat vector of all variables in C order, one
    after the other. Constraints count in the same way.

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
        factor = sympy.Symbol(unused("obj_factor", arguments), real=True)
        multipliers = directions_of(constraints, arguments, "lagrange")
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
        values = self._constraints(*self._arrays(self.x0)) if self._constraints else ()
        self._constraint_shapes = [np.shape(v) for v in values]
        self.m = sum(map(math.prod, self._constraint_shapes))
        self.lb, self.ub = _bounds(bounds, variables, self._flat.shapes, (-np.inf, np.inf))
        self.cl, self.cu = _bounds(constraint_bounds, constraints, self._constraint_shapes, (0.0, 0.0))

    def objective(self, x: NDArray[Any]) -> float:
        """The objective."""
        return float(self._objective(*self._arrays(x)))

    def gradient(self, x: NDArray[Any]) -> NDArray[Any]:
        """The gradient of the objective."""
        return flat(self._gradient(*self._arrays(x)))

    def constraints(self, x: NDArray[Any]) -> NDArray[Any]:
        """The constraints, one after the other."""
        if self._constraints is None:
            return np.zeros(0)
        return flat(self._constraints(*self._arrays(x)))

    def jacobianstructure(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Rows and columns of the entries of `jacobian`."""
        if self._jacobian is None:
            return np.zeros(0, int), np.zeros(0, int)
        return self._jacobian.structure(*self._arrays(self.x0))

    def jacobian(self, x: NDArray[Any]) -> NDArray[Any]:
        """The derivatives of the constraints, in the order of `jacobianstructure`."""
        return np.zeros(0) if self._jacobian is None else self._jacobian.values(*self._arrays(x))

    def hessianstructure(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Rows and columns of the entries of `hessian`, on and below the diagonal."""
        return self._hessian.structure(*self._lagrangian(self.x0, np.zeros(self.m), 1.0), lower=True)

    def hessian(self, x: NDArray[Any], lagrange: NDArray[Any], obj_factor: float) -> NDArray[Any]:
        """The second derivatives of ``obj_factor*objective + lagrange @ constraints``, lower triangle."""
        return self._hessian.values(*self._lagrangian(x, lagrange, obj_factor), lower=True)

    def hessian_operator(self, x: NDArray[Any], lagrange: Any = None, obj_factor: float = 1.0) -> Any:
        """The same second derivatives as a `StructuredOperator`, for ``scipy.optimize.minimize``."""
        own = np.zeros(self.m) if lagrange is None else lagrange
        return self._hessian(*self._lagrangian(x, own, obj_factor))

    def jacobian_operator(self, x: NDArray[Any]) -> Any:
        """The derivatives of the constraints as a `StructuredOperator`."""
        if self._jacobian is None:
            raise ArgumentError("the problem has no constraints")
        return self._jacobian(*self._arrays(x))

    def unpack(self, x: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """The variables, each in its shape."""
        return tuple(self._flat.parts(x))

    def _arrays(self, x: NDArray[Any]) -> list[Any]:
        return [*self._flat.parts(x), *self._data]

    def _lagrangian(self, x: NDArray[Any], lagrange: Any, factor: float) -> list[Any]:
        own = np.asarray(lagrange, dtype=float)
        if own.shape != (self.m,):
            raise ArgumentError(f"the multipliers have the shape {own.shape}, the problem needs ({self.m},)")
        return [*self._arrays(x), float(factor), *(split(own, self._constraint_shapes) if self.m else [])]


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
    """A nonlinear program as an object that cyipopt, and solvers with its interface, take.

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
    variables = independent_variables(wrt)
    at = starting_at(variables, start, isinstance(wrt, tuple | list | sympy.Tuple))
    return NonlinearProgram(own, tensors, variables, dict(data or {}), at, bounds, constraint_bounds)


def _bounds(
    given: Any, tensors: Sequence[Any], shapes: Sequence[tuple[int, ...]], default: tuple[float, float]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Flat lower and upper bounds of tensors, from a mapping or one pair for each."""
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
