"""`diff`: the derivative with SymPy's own arguments, of and by SymPy's own notation."""

from __future__ import annotations

from typing import Any

from sympy import Integer, Tuple

from sympy_tensordiff.derivative.elementwise import Differentiation
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError
from sympy_tensordiff.graph.write import write
from sympy_tensordiff.symbolic.lift import as_operand


def diff(e: Any, *variables: Any) -> Any:
    """The derivative of ``e``, as `sympy.diff`, where ``e`` and the variables may be SymPy's own notation.

    Parameters
    ----------
    e : Expr
        A scalar or a tensor expression; lifted first (see `lift`).
    *variables : entry, tensor or scalar symbol, or a pair of one and a count
        As for `sympy.diff`: ``x[p], y[q]``, ``x[p], 2`` or ``(x[p], 2)``. An entry and a scalar
        symbol give an expression of the shape of ``e``, a whole tensor the Jacobian: axes of
        ``e`` first, axes of the variable last.

    Returns
    -------
    Expr
        In the classes of this package. No Kronecker delta stands under a sum, no index is
        captured, and no guard follows from ``0 <= p < n`` of an entry ``x[p]`` differentiated by.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If there is no variable, or something is none.
    UnsupportedError
        If ``e`` holds something that has no derivative here; the message names it.

    Notes
    -----
    Plain `sympy.diff` works as well on the classes of this package, but ``sympy.Sum`` answers it
    by rules of its own: ``Sum(x[i]*y[i], (i, 0, n - 1)).diff(x[i])`` captures ``i``.

    Examples
    --------
    >>> import sympy, sympy_tensordiff as td
    >>> i, p, n = td.indices("i p n")
    >>> x, y = sympy.IndexedBase("x", shape=n), sympy.IndexedBase("y", shape=n)
    >>> dot = sympy.Sum(x[i]*y[i], (i, 0, n - 1))
    >>> td.diff(dot, x[p]), td.diff(dot, x[i]), td.diff(dot, x)
    (y[p], y[i], TensorComprehension(y[p], (p, n)))
    >>> td.diff(sympy.log(dot), x[p], 2)
    -y[p]**2/IndexedSum(x[i]*y[i], (i, 0, n - 1))**2
    """
    work = Differentiation(as_operand(e, "the expression"))
    work.root = work.simplified(work.root)
    facts: tuple[Any, ...] = ()
    for variable, times in _counted(variables):
        for _ in range(times):
            node, known = work.derivative(variable)
            facts += known
            work.root = work.simplified(node, facts)
    return write(work.reader, work.root)


def _counted(variables: tuple[Any, ...]) -> list[tuple[Any, int]]:
    """The variables of a call and how many times each."""
    counted: list[tuple[Any, int | None]] = []
    for variable in variables:
        if isinstance(variable, (int, Integer)):
            if not counted or counted[-1][1] is not None:
                raise ArgumentError(f"diff: the count {variable} in {variables} follows no variable")
            counted[-1] = counted[-1][0], _count(variable, variables)
        elif isinstance(variable, (tuple, Tuple)):
            if len(variable) != 2:
                raise ArgumentTypeError(
                    f"diff: {variable} is no pair of a variable and a count; give several variables one after the "
                    "other, or use td.gradient, which takes a tuple"
                )
            counted.append((variable[0], _count(variable[1], variables)))
        else:
            counted.append((variable, None))
    if not counted:
        raise ArgumentError("diff: there is no variable: give an entry x[p], a tensor, or a scalar symbol")
    return [(variable, 1 if times is None else times) for variable, times in counted]


def _count(value: Any, variables: tuple[Any, ...]) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, Integer)) or value < 0:
        raise ArgumentTypeError(f"diff: {value} in {variables} must be a number of times, 0, 1, 2, …")
    return int(value)
