"""The public ways to differentiate."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, overload

import sympy

from sympy_tensordiff.derivative.elementwise import Derivatives, Differentiation, check_shape, entry_derivative
from sympy_tensordiff.derivative.modes import simplified_jacobians, simplified_products, simplified_slopes
from sympy_tensordiff.derivative.native import as_scalar, in_matrices
from sympy_tensordiff.derivative.through_names import ThroughNames
from sympy_tensordiff.derivative.through_scans import over_unit_tensors, pullbacks, pushforwards
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError, ShapeError
from sympy_tensordiff.graph.to_native import to_einsum, to_native
from sympy_tensordiff.graph.write import write_all
from sympy_tensordiff.simplify.accesses import read_out_of_bounds
from sympy_tensordiff.symbolic.conversion.lift import as_operand
from sympy_tensordiff.symbolic.expressions import hooks
from sympy_tensordiff.symbolic.expressions.call_errors import explained
from sympy_tensordiff.symbolic.expressions.traversal import named_in, scans_and_names, scans_in
from sympy_tensordiff.symbolic.index_notation.signatures import Expression, Scalar, Tensors, Variables
from sympy_tensordiff.symbolic.index_notation.tensors import NamedTensor, TensorEntry, TensorExpr, TensorSymbol, in_full
from sympy_tensordiff.symbolic.whole_tensors.einsum import EinsumProduct
from sympy_tensordiff.symbolic.whole_tensors.operations import shape_of
from sympy_tensordiff.symbolic.whole_tensors.subscripts import LETTERS

hooks.notations.update({EinsumProduct: to_einsum, sympy.Sum: to_native, sympy.Product: to_native})


@overload
def vjp(T: Scalar, wrt: TensorSymbol, cotangent: Scalar) -> TensorExpr:
    """Return the pullback of ``T`` for the given ``cotangent``, with respect to one tensor ``wrt``: an expression of
    its shape.
    """


@overload
def vjp(T: Scalar, wrt: Tensors, cotangent: Scalar) -> tuple[TensorExpr, ...]:
    """Return a tuple with the pullback of the ``cotangent`` of ``T`` to each of the tensors ``wrt``, from one reverse
    sweep.
    """


@overload
def vjp(T: Scalar, wrt: Expression | Variables, cotangent: Scalar) -> Any:
    """Return the pullback of ``T`` for the given ``cotangent``, with respect to a scalar or to variables in SymPy's
    notation; a tuple for several.
    """


@explained
def vjp(T: Any, wrt: Any, cotangent: Any) -> Any:
    """Return the pullback of ``cotangent`` through ``T``: ``sum(cotangent * dT/dwrt)`` over all axes of ``T``.

    Parameters
    ----------
    T : Expr
        A tensor expression, or a scalar.
    wrt : TensorSymbol, Symbol or tuple of them
        What to differentiate by; a tuple gives a tuple out of one reverse sweep.
    cotangent : Expr
        A tensor expression of the shape of ``T`` (a scalar for a scalar ``T``).

    Returns
    -------
    Expr or tuple of Expr
        For each variable a tensor expression of its shape. No Kronecker delta remains under a sum; the ranges are exact
        for all admissible sizes.

    Raises
    ------
    ShapeError
        If ``cotangent`` does not have the shape of ``T``.
    UnsupportedError
        If ``T`` holds something that has no derivative here; the message names it.

    Notes
    -----
    Algorithm 4 of Urban & van der Smagt 2017 with its conditions completed, staged at every node.
    Linear in ``cotangent``.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> i, k = td.indices("i k")
    >>> x, w, df = td.TensorSymbol("x", 10), td.TensorSymbol("w", 3), td.TensorSymbol("df", 4)
    >>> f = td.TensorComprehension(td.IndexedSum(x[2*i + k]*w[k], (k, 0, 2)), (i, 4))
    >>> td.vjp(f, w, df)
    TensorComprehension(IndexedSum(df[i]*x[2*i + p], (i, 0, 3)), (p, 3))
    """
    return _pullbacks(as_operand(T, "the expression"), wrt, cotangent, T)


def _pullbacks(value: Any, wrt: Any, cotangent: Any, given: Any) -> Any:
    """Return the pullbacks (vjp) of `cotangent` through `value` with respect to `wrt`, in a tuple if `wrt` is one. They
    are in SymPy's notation if the user's arguments are; `given` is `value` as the user wrote it.
    """
    own = as_operand(cotangent, "the cotangent")
    check_shape(own, value, "the cotangent")
    variables = _several(wrt)
    scans, names = scans_and_names([value, *(v for v in variables if isinstance(v, NamedTensor))])
    if scans:
        parts = _pullbacks_with_scans(value, own, variables)
    elif names:
        parts = ThroughNames(value, own, *variables).pullbacks([_lifted_variable(value, v) for v in variables], own)
    else:
        work = Differentiation(value, own, by=variables)
        parts = work.finish_all(work.pullbacks([work.leaf(v) for v in variables], work.inputs[0]))
    return _in_form_of_variables(parts, wrt, given, cotangent)


def _tangents_with_scans(values: Sequence[Any], variables: Sequence[Any], directions: Sequence[Any]) -> list[Any]:
    """Return the tangents (jvp) of `values`, which contain scans (loops over time), if `variables` change in these
    `directions`.
    """
    values = [in_full(value) for value in values]
    first, *others = values
    work = Differentiation(first, *others, *directions, by=variables, scans=True)
    moves: dict[Any, Any] = {}
    for v, direction in zip(variables, directions, strict=True):
        leaf = work.leaf(v)
        check_shape(direction, work.variable(v), "the tangent")
        if leaf in work.graph.symmetric:
            direction = (direction + direction.T) / 2
        moves[work.variable(v)] = moves[work.variable(v)] + direction if work.variable(v) in moves else direction
    roots = [work.root, *work.inputs[: len(others)]]
    zeros = write_all(work.reader, [work.graph.filled(0, root.shape) for root in roots])
    tangents = pushforwards(values, moves)
    return [zero if tangent is None else tangent for tangent, zero in zip(tangents, zeros, strict=True)]


def _pullbacks_with_scans(value: Any, cotangent: Any, variables: Sequence[Any]) -> list[Any]:
    """Return the pullbacks (vjp) of `cotangent` through `value`, which contains scans (loops over time): one for each
    variable.
    """
    if variables and all(isinstance(v, NamedTensor) for v in variables):  # by the names: their definitions are not read
        own = {v: TensorSymbol(v.name, v.shape) for v in variables}
        parts = _pullbacks(value.xreplace(own), tuple(own.values()), cotangent.xreplace(own), value)
        return [part.xreplace({symbol: v for v, symbol in own.items()}) for part in parts]
    value, cotangent = in_full(value), in_full(cotangent)
    work = Differentiation(value, cotangent, by=variables, scans=True)
    leaves = [work.leaf(v) for v in variables]
    zeros = write_all(work.reader, [work.graph.filled(0, work.extents(leaf)) for leaf in leaves])
    parts = pullbacks([(value, cotangent)], [work.variable(v) for v in variables])
    return [zero if part is None else part for part, zero in zip(parts, zeros, strict=True)]


@explained
def jvp(T: Scalar, wrt: Expression | Variables, tangent: Scalar | Sequence[Scalar]) -> Any:
    """Return the pushforward of ``tangent`` through ``T``: ``sum(dT/dwrt * tangent)`` over all axes of ``wrt``.

    Parameters
    ----------
    T : Expr
        A tensor expression, or a scalar.
    wrt : TensorSymbol, Symbol or tuple of them
        What moves. Of several variables the contributions are added, out of one forward sweep.
    tangent : Expr or tuple of Expr
        The direction: a tensor expression of the shape of ``wrt`` (a scalar for a scalar), for a
        tuple a tuple of the same length.

    Returns
    -------
    Expr
        A tensor expression of the shape of ``T``, a scalar for a scalar; its sums run over the
        ranges of those in ``T``.

    Raises
    ------
    ShapeError
        If a tangent does not have the shape of its variable.
    ArgumentError
        If there are not as many tangents as variables.
    ArgumentTypeError
        If one of ``wrt`` and ``tangent`` is a tuple and the other is not.
    UnsupportedError
        If ``T`` holds something that has no derivative here; the message names it.

    Notes
    -----
    Forward mode (Griewank & Walther 2008, *Evaluating Derivatives*, section 3.1). Linear in
    ``tangent``, and the transpose of `vjp`: ``<cotangent, jvp(T, x, t)>`` is
    ``<vjp(T, x, cotangent), t>``. Kinks and facts are those of the other functions.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> i, k, p = td.indices("i k p")
    >>> x, w = td.TensorSymbol("x", 4), td.TensorSymbol("w", 2)
    >>> f = td.TensorComprehension(td.IndexedSum(x[i + k]*w[k]**2, (k, 0, 1)), (i, 3))
    >>> dw = td.TensorSymbol("dw", 2)
    >>> td.jvp(f, w, dw)
    TensorComprehension(2*IndexedSum(dw[k]*w[k]*x[i + k], (k, 0, 1)), (i, 3))

    A direction and a cotangent may be taken on either side of the derivative:

    >>> df = td.TensorSymbol("df", 3)
    >>> forward = td.IndexedSum(df[i]*td.jvp(f, w, dw)[i], (i, 0, 2))
    >>> backward = td.IndexedSum(td.vjp(f, w, df)[p]*dw[p], (p, 0, 1))
    >>> law = td.lambdify((x, w, dw, df), (forward, backward), backend="numpy")
    >>> law([1, 2, 3, 4], [5, 6], [7, 8], [9, 10, 11])
    (np.float64(13172.0), np.float64(13172.0))
    """
    variables, given = _variables_and_vectors(wrt, tangent, "tangent")
    directions = tuple(as_operand(direction, "the tangent") for direction in given)
    value = as_operand(T, "the expression")
    if scans_in([value]):
        return _tangents_with_scans([value], variables, directions)[0]
    names = bool(named_in([value, *(v for v in variables if isinstance(v, NamedTensor))]))
    work = Differentiation(value, *directions, names=names)
    leaves = [work.leaf(v) for v in variables]
    for v, direction in zip(variables, directions, strict=True):
        check_shape(direction, work.variable(v), "the tangent")
    if names:
        by = [work.variable(v) for v in variables]
        result = ThroughNames(value, *directions, *by).pushforward(by, directions)
    else:
        result = work.finish(work.pushforward(leaves, work.inputs))
    return in_matrices(result, variables[0], T, *given) if variables else result


@overload
def gradient(s: Scalar, wrt: TensorSymbol) -> TensorExpr:
    """Return the gradient of the scalar ``s`` with respect to one tensor ``wrt``, an expression of its shape."""


@overload
def gradient(s: Scalar, wrt: Tensors) -> tuple[TensorExpr, ...]:
    """Return a tuple with the gradients of ``s`` with respect to the tensors in ``wrt``, one for each, from one reverse
    sweep.
    """


@overload
def gradient(s: Scalar, wrt: Expression | Variables) -> Any:
    """Return the gradient of the scalar ``s`` with respect to ``wrt``, a scalar or a variable in SymPy's notation; a
    tuple for several variables.
    """


@explained
def gradient(s: Any, wrt: Any) -> Any:
    """The gradient of the scalar ``s``: for each variable in ``wrt`` a tensor expression of its shape.

    Parameters
    ----------
    s : Expr
        A scalar expression, a tensor expression of rank 0, or a matrix of SymPy's with one entry.
    wrt : TensorSymbol, Symbol or tuple of them

    Returns
    -------
    Expr or tuple of Expr
        By a `sympy.MatrixSymbol` a matrix of SymPy's, where it has such a form.

    Raises
    ------
    ShapeError
        If ``s`` is not a scalar; the message points to `jacobian` and `vjp`.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> i = td.indices("i")
    >>> x = td.TensorSymbol("x", 5)
    >>> td.gradient(td.IndexedSum(x[i]**3, (i, 1, 3)), x)
    TensorComprehension(Piecewise((3*x[p]**2, (p >= 1) & (p <= 3)), (0, True)), (p, 5))
    """
    value = as_scalar(s, "the expression")
    if shape := getattr(value, "shape", ()):
        raise ShapeError(f"gradient takes a scalar, not a tensor of shape {tuple(shape)}: use td.jacobian or td.vjp")
    return _pullbacks(value, wrt, sympy.S.One, s)


@overload
def jacobian(T: Scalar, wrt: TensorSymbol) -> TensorExpr:
    """Return the full derivative of ``T`` with respect to one tensor: the axes of ``T``, then those of ``wrt``."""


@overload
def jacobian(T: Scalar, wrt: Tensors) -> tuple[TensorExpr, ...]:
    """Return a tuple with the full derivatives of ``T`` with respect to the tensors in ``wrt``, one for each."""


@overload
def jacobian(T: Scalar, wrt: Expression | Variables) -> Any:
    """Return the full derivative of ``T`` with respect to ``wrt``, a scalar or a variable in SymPy's notation; a tuple
    for several variables.
    """


@explained
def jacobian(T: Any, wrt: Any) -> Any:
    """The full derivative: axes of ``T`` first, axes of ``wrt`` last.

    Parameters
    ----------
    T : Expr
        A tensor expression or a scalar.
    wrt : TensorSymbol, Symbol or tuple of them

    Returns
    -------
    Expr or tuple of Expr
        A tensor expression of shape ``T.shape + wrt.shape``; a tuple for a tuple.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> i = td.indices("i")
    >>> x = td.TensorSymbol("x", 7)
    >>> td.jacobian(td.TensorComprehension(x[2*i]**2, (i, 4)), x)
    TensorComprehension(2*KroneckerDelta(2*i, p)*x[2*i], (i, 4), (p, 7))
    """
    given, T = T, as_operand(T, "the expression")
    variables = _several(wrt)
    if scans_in([T]):
        return _in_form_of_variables([_jacobian_with_scans(T, v) for v in variables], wrt, given)
    work = Differentiation(T, by=variables)
    nodes = simplified_jacobians(work, [work.leaf(v) for v in variables])
    return _in_form_of_variables(write_all(work.reader, nodes), wrt, given)


def _jacobian_with_scans(value: Any, variable: Any) -> Any:
    """Return the Jacobian of `value`, which contains scans (loops over time). It is built from pullbacks of all unit
    tensors if the variable has more axes than the value, else from tangents.
    """
    own, other = shape_of(value), shape_of(Differentiation(value, scans=True).variable(variable))
    if len(own) < len(other):
        return over_unit_tensors(own, lambda cotangent: _pullbacks_with_scans(value, cotangent, [variable])[0])
    found = over_unit_tensors(other, lambda tangent: _tangents_with_scans([value], [variable], [tangent])[0])
    if not other or not own:
        return found
    labels = LETTERS[: len(other) + len(own)]
    return EinsumProduct(f"{labels}->{labels[len(other) :]}{labels[: len(other)]}", found)


def _derivative(T: Any, variable: Any, simplify: bool) -> Any:
    """Return the Jacobian of `T` with respect to `variable` (the work behind ``T.diff(variable)``); unsimplified unless
    `simplify` is set.
    """
    if scans_in([T]):
        return _jacobian_with_scans(as_operand(T, "the expression"), variable)
    work = Differentiation(as_operand(T, "the expression"), by=(variable,))
    jacobians = partial(simplified_jacobians, work) if simplify else work.jacobians
    return write_all(work.reader, jacobians([work.leaf(variable)]))[0]


hooks.jacobian.register(_derivative)
hooks.read_out_of_bounds.register(read_out_of_bounds)


def _entry_derivative(expr: Any, variable: Any) -> Any:
    """Return the derivative of `expr` with respect to `variable`: an entry ``x[p]``, a scalar or a whole tensor.
    SymPy's ``diff`` calls it; `expr` may contain scans (loops over time).
    """
    if not scans_in([expr]):
        return entry_derivative(expr, variable)
    tensor, index = (variable.tensor, variable.indices) if isinstance(variable, TensorEntry) else (variable, ())
    found = _jacobian_with_scans(as_operand(expr, "the expression"), tensor)
    return found[(*(slice(None) for _ in shape_of(expr)), *index)] if index else found


hooks.derivative.register(_entry_derivative)


@overload
def hessian(s: Scalar, wrt: TensorSymbol) -> TensorExpr:
    """Return the second derivative of the scalar ``s`` with respect to one tensor, of shape
    ``wrt.shape + wrt.shape``.
    """


@overload
def hessian(s: Scalar, wrt: Tensors) -> tuple[tuple[TensorExpr, ...], ...]:
    """Return the second derivative of the scalar ``s`` for several tensors ``wrt`` as a tuple of rows of blocks, one
    block per pair of tensors.
    """


@overload
def hessian(s: Scalar, wrt: Expression | Variables) -> Any:
    """Return the second derivative of the scalar `s` with respect to `wrt`, which may also be a scalar or in SymPy's
    notation. For several variables, return a tuple of rows of blocks.
    """


@explained
def hessian(s: Any, wrt: Any) -> Any:
    """Return the second derivative of the scalar ``s``, of shape ``wrt.shape + wrt.shape``; for several variables, a
    tuple of rows of blocks.

    Parameters
    ----------
    s : Expr
        A scalar expression.
    wrt : TensorSymbol, Symbol or tuple of them

    Returns
    -------
    Expr or tuple of tuple of Expr
        For a tuple of variables the block in row m and column n is the derivative with respect to ``wrt[m]``, then
        ``wrt[n]``, of shape ``wrt[m].shape + wrt[n].shape``.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> i = td.indices("i")
    >>> x, y = td.TensorSymbol("x", 4), td.TensorSymbol("y", 4)
    >>> td.hessian(td.IndexedSum(x[i]**3, (i, 0, 3)), x)
    TensorComprehension(6*KroneckerDelta(p, q)*x[p], (p, 4), (q, 4))
    >>> blocks = td.hessian(td.IndexedSum(x[i]*y[i], (i, 0, 3)), (x, y))
    >>> blocks[0][1]
    TensorComprehension(KroneckerDelta(p, q), (p, 4), (q, 4))
    """
    variables = _several(wrt)
    if scans_in([value := as_scalar(s, "the expression")]):
        slopes = _pullbacks_with_scans(value, sympy.S.One, variables)
        products = Derivatives(Derivatives(_jacobian_with_scans(slope, v) for v in variables) for slope in slopes)
        return products if _is_tuple(wrt) else products[0][0]
    work = _scalar_work(s, "hessian", by=variables)
    leaves = [work.leaf(v) for v in variables]
    gradients = work.simplified_all(work.pullbacks(leaves, work.graph.one))

    rows = (simplified_slopes(state, leaves) for state in work.states_of_derivatives(gradients))
    blocks = Derivatives(Derivatives(write_all(work.reader, row)) for row in rows)
    return blocks if _is_tuple(wrt) else blocks[0][0]


@overload
def hvp(s: Scalar, wrt: TensorSymbol, v: Expression) -> TensorExpr:
    """Return the Hessian of the scalar ``s`` with respect to one tensor, times ``v``: an expression of the shape of
    ``wrt``.
    """


@overload
def hvp(s: Scalar, wrt: Tensors, v: Sequence[Expression]) -> tuple[TensorExpr, ...]:
    """Return the Hessian of the scalar ``s`` for the tensors ``wrt``, times the vectors ``v``, one per tensor: a tuple
    in the same order.
    """


@overload
def hvp(s: Scalar, wrt: Expression | Variables, v: Scalar | Sequence[Scalar]) -> Any:
    """Return the Hessian of the scalar ``s`` with respect to ``wrt``, a scalar or a variable in SymPy's notation, times
    ``v``; a tuple for several variables.
    """


@explained
def hvp(s: Any, wrt: Any, v: Any) -> Any:
    """The Hessian of the scalar ``s`` with respect to ``wrt``, times ``v``, without building the Hessian.

    Parameters
    ----------
    s : Expr
        A scalar expression.
    wrt : TensorSymbol, Symbol or tuple of them
    v : Expr or tuple of Expr
        A tensor expression of the shape of ``wrt``; a tuple for a tuple.

    Returns
    -------
    Expr or tuple of Expr
        A tensor expression of the shape of ``wrt``; a tuple for a tuple.

    Notes
    -----
    The gradient is moved forward in the direction ``v``: the loops of the result are those of the gradient, and it has
    about twice as many nodes (Griewank & Walther 2008, *Evaluating Derivatives*, chapter 5). That of whole tensors is
    also swept in reverse with ``v`` as its cotangent, and what takes less work is the result.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> i = td.indices("i")
    >>> x, v = td.TensorSymbol("x", 4), td.TensorSymbol("v", 4)
    >>> td.hvp(td.IndexedSum(x[i]**3, (i, 0, 3)), x, v)
    TensorComprehension(6*v[p]*x[p], (p, 4))
    """
    variables, vectors = _variables_and_vectors(wrt, v, "vector")
    if scans_in([value := as_scalar(s, "the expression")]):
        slopes = _pullbacks_with_scans(value, sympy.S.One, variables)
        directions = [as_operand(vector, "the vector") for vector in vectors]
        return _in_form_of_variables(_tangents_with_scans(slopes, variables, directions), wrt, s, *vectors)
    work = _scalar_work(s, "hvp", *(as_operand(vector, "the vector") for vector in vectors), by=variables)
    for variable, vector in zip(variables, vectors, strict=True):
        check_shape(as_operand(vector, "the vector"), work.variable(variable), "the vector")
    if named_in([value, *(v for v in variables if isinstance(v, NamedTensor))]):
        by = [work.variable(v) for v in variables]
        given = tuple(as_operand(vector, "the vector") for vector in vectors)
        slopes = ThroughNames(value, *by, *given).pullbacks(by, sympy.S.One)
        moved = Derivatives(ThroughNames(slope, *by, *given).pushforward(by, given) for slope in slopes)
        return moved if _is_tuple(wrt) else moved[0]
    leaves = [work.leaf(variable) for variable in variables]
    gradients = work.simplified_all(work.pullbacks(leaves, work.graph.one))
    products = write_all(work.reader, simplified_products(work, gradients, leaves))
    return _in_form_of_variables(products, wrt, s, *vectors)


def _lifted_variable(value: Any, wrt: Any) -> Any:
    """Return `wrt`, a variable of the expression `value`, converted from SymPy's notation; a `NamedTensor` is
    unchanged.
    """
    return wrt if isinstance(wrt, NamedTensor) else Differentiation(value).variable(wrt)


def _in_form_of_variables(parts: Sequence[Any], wrt: Any, *given: Any) -> Any:
    """Return the derivatives `parts`, one per variable, in the form of `wrt`: a tuple if `wrt` is one, else a single
    derivative. They are SymPy matrices if the variables and `given`, the user's other arguments, are in SymPy's
    notation.
    """
    pairs = zip(parts, _several(wrt), strict=True)
    found = (in_matrices(part, v, *given) if isinstance(v, sympy.MatrixSymbol) else part for part, v in pairs)
    results = Derivatives(found)
    return results if _is_tuple(wrt) else results[0]


def _is_tuple(argument: Any) -> bool:
    """Return whether `argument` is a sequence (tuple or list) of variables or tangents."""
    return isinstance(argument, tuple | list | sympy.Tuple)


def _several(wrt: Any) -> tuple[Any, ...]:
    """Return the variables in `wrt`, one or several, as a tuple."""
    return tuple(wrt) if _is_tuple(wrt) else (wrt,)


def _variables_and_vectors(wrt: Any, vectors: Any, what: str) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the variables and their vectors, two tuples of equal length. Raise an error, which calls the vectors
    `what`, if they do not match.

    Raises `ArgumentTypeError` if only one is a tuple, `ArgumentError` if the lengths differ.
    """
    if _is_tuple(wrt) != _is_tuple(vectors):
        raise ArgumentTypeError(
            f"wrt and {what} must both be tuples, or none of them, not {wrt!r} and {vectors!r}; "
            f"give one {what} for each variable"
        )
    if not _is_tuple(wrt):
        return (wrt,), (vectors,)
    if len(wrt) != len(vectors):
        raise ArgumentError(f"{len(wrt)} variables {tuple(wrt)} need as many {what}s, not {len(vectors)}")
    return tuple(wrt), tuple(vectors)


def _scalar_work(s: Any, name: str, *also: Any, by: Sequence[Any] = ()) -> Differentiation:
    """Return the `Differentiation` (graph and known constraints) of the scalar `s` with respect to the variables `by`.
    `also` are further inputs, such as a direction. Raise `ShapeError` with ``name``, the name of the public function,
    if `s` is a tensor.
    """
    value = as_scalar(s, "the expression")
    if shape := getattr(value, "shape", ()):
        raise ShapeError(f"td.{name} takes a scalar, not a tensor of shape {tuple(shape)}")
    return Differentiation(value, *also, by=by)
