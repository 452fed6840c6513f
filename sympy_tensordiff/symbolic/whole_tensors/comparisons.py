"""Elementwise comparisons of tensors, logical operations on them, and `where`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, NamedTuple

from sympy import And, Ne, Not, Or, Piecewise, S, sympify
from sympy.logic.boolalg import Boolean

from sympy_tensordiff.functions.table import RELATIONS
from sympy_tensordiff.symbolic.expressions.call_errors import explained
from sympy_tensordiff.symbolic.index_notation.signatures import Scalar, documented
from sympy_tensordiff.symbolic.whole_tensors.elementwise import TensorFunction
from sympy_tensordiff.symbolic.whole_tensors.entrywise_functions import elementwise, public
from sympy_tensordiff.symbolic.whole_tensors.operations import operand

_OF_TWO = """
Parameters
----------
A, B : Expr or number
    Tensors, repeated to one shape as in NumPy, and scalars.

Returns
-------
Expr
    A tensor expression of the broadcast shape; a scalar for scalars.

Raises
------
ShapeError
    If their shapes do not fit.
"""


def _relation(name: str, condition: str) -> Callable[[Scalar, Scalar], Any]:
    """Return the public function ``name``, such as `td.less`, with the value 1 where the relation of that name
    between two operands is true, and 0 elsewhere. ``condition`` is its description for the docstring.
    """
    relation = RELATIONS[name]

    def applied(A: Scalar, B: Scalar) -> Any:
        """Return 1 where the relation between ``A`` and ``B`` holds, 0 elsewhere, entry by entry."""
        return elementwise(lambda a, b: Piecewise((1, relation(a, b)), (0, True)), A, B)

    example = f'>>> td.{name}(td.TensorSymbol("A", (3, 4)), 0).shape\n(3, 4)'
    return public(
        applied, name, f"1 where {condition}, 0 elsewhere, entry by entry; the derivative is 0.", _OF_TWO, example
    )


greater = _relation("greater", "``A > B``")
greater_equal = _relation("greater_equal", "``A >= B``")
less = _relation("less", "``A < B``")
less_equal = _relation("less_equal", "``A <= B``")
equal = _relation("equal", "the entries are equal")
not_equal = _relation("not_equal", "the entries differ")


class _Condition(NamedTuple):
    """An elementwise condition: the tensors that it reads, and a function that returns the SymPy condition for scalars
    in their place.

    An operand that is a plain tensor means "is not 0".
    """

    operands: tuple[Any, ...]
    holds: Callable[..., Any]
    """From scalars in place of the operands to the condition."""


def _condition_of(condition: Any, owner: str) -> _Condition:
    """Return ``condition`` as a `_Condition`. A comparison is used as it is, a bool is constant, and any other tensor
    means ``value != 0``. Errors name ``owner``.
    """
    if isinstance(condition, (bool, Boolean)):
        return _Condition((), lambda: sympify(condition))
    condition = operand(condition, owner)
    if isinstance(condition, Piecewise) and (relation := _relation_of(condition)) is not None:
        return _Condition((), lambda: relation)
    if isinstance(condition, TensorFunction) and (relation := _relation_of(condition.template.expr)) is not None:
        names = condition.template.variables
        return _Condition(condition.operands, lambda *values: relation.xreplace(dict(zip(names, values, strict=True))))
    return _Condition((condition,), lambda value: Ne(value, 0))


def _relation_of(value: Any) -> Any:
    """Return the relation under which the scalar ``value`` is 1 if it is 0 elsewhere; None for other values."""
    branches: Sequence[Any] = value.args if isinstance(value, Piecewise) else ()
    is_indicator = [branch.expr for branch in branches] == [1, 0] and branches[1].cond is S.true
    return branches[0].cond if is_indicator else None


_OF_CONDITIONS = """
Parameters
----------
{}
    Tensors, whose entries hold where they are not 0, repeated to one shape as in NumPy; or relations of scalars.

Returns
-------
Expr
    1 where it holds, 0 elsewhere: a tensor expression of the broadcast shape; a scalar for scalars.

Raises
------
ShapeError
    If the shapes do not fit.
"""


def _indicator_of(connective: Any, conditions: Sequence[Any], owner: str) -> Any:
    """Return the tensor that is 1 where ``connective`` (And, Or or Not) of all ``conditions``, taken entry by entry, is
    true, and 0 elsewhere. Errors name the public function ``owner``.
    """
    truths = [_condition_of(condition, owner) for condition in conditions]

    def indicator(*values: Any) -> Any:
        """Return the scalar expression that is 1 where conditions on the scalars ``values`` hold, joined by And, Or or
        Not, and 0 elsewhere. ``values`` are the operands of all conditions in order.
        """
        rest = iter(values)
        relations = [truth.holds(*islice(rest, len(truth.operands))) for truth in truths]
        return Piecewise((1, connective(*relations)), (0, True))

    operands = [operand for truth in truths for operand in truth.operands]
    return elementwise(indicator, *operands) if operands else indicator()


@documented(_OF_CONDITIONS.format("A, B : Expr"))
def logical_and(A: Any, B: Any) -> Any:
    """Return 1 where both conditions ``A`` and ``B`` hold, 0 elsewhere, entry by entry; the derivative is 0.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> x = td.TensorSymbol("x", 3)
    >>> inside = td.logical_and(td.greater(x, 0), td.less(x, 1))
    >>> td.evaluate(td.where(inside, x, 0), {x: [-0.5, 0.5, 1.5]})
    array([0. , 0.5, 0. ])
    """
    return _indicator_of(And, (A, B), "logical_and")


@documented(_OF_CONDITIONS.format("A, B : Expr"))
def logical_or(A: Any, B: Any) -> Any:
    """Return 1 where one of the conditions ``A`` and ``B`` holds, 0 elsewhere, entry by entry; the derivative is 0.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> x = td.TensorSymbol("x", 3)
    >>> td.evaluate(td.logical_or(td.less(x, 0), td.greater(x, 1)), {x: [-0.5, 0.5, 1.5]})
    array([1., 0., 1.])
    """
    return _indicator_of(Or, (A, B), "logical_or")


@documented(_OF_CONDITIONS.format("A : Expr"))
def logical_not(A: Any) -> Any:
    """Return 1 where the condition ``A`` does not hold, 0 elsewhere, entry by entry; the derivative is 0.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> x = td.TensorSymbol("x", 3)
    >>> td.evaluate(td.logical_not(x), {x: [-0.5, 0, 1.5]})
    array([0., 1., 0.])
    """
    return _indicator_of(Not, (A,), "logical_not")


@explained
def where(condition: Any, A: Scalar, B: Scalar) -> Any:
    """Return ``A`` where ``condition`` holds, else ``B``, entry by entry.

    Parameters
    ----------
    condition : Expr
        A tensor, whose entries hold where they are not 0, as those of `greater`, `less_equal` and `logical_and`
        are 1 or 0; or a relation between scalars.
    A, B : Expr or number
        They and the condition are repeated to one shape as in NumPy. A score that is left out is ``-oo``: its
        exponential is 0, and `softmax` of a row of such scores is 0.

    Returns
    -------
    Expr
        A tensor expression of the broadcast shape; a scalar for scalars.

    Raises
    ------
    ShapeError
        If the shapes do not fit.

    Notes
    -----
    The derivative is that of the branch that is taken; the other one may not be a number there.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> x, y = td.TensorSymbol("x", 4), td.TensorSymbol("y", 4)
    >>> td.gradient(td.sum(td.where(td.greater(x, 0), td.log(x), y)), y)
    where(greater(x, 0), 0, 1)
    """
    operands, holds = _condition_of(condition, "where")
    sides = [sympify(side) for side in (A, B)]
    infinite = [side in (S.Infinity, S.NegativeInfinity) for side in sides]

    def choice(*values: Any) -> Any:
        """Return ``where`` for one entry, a `Piecewise`. ``values`` are the entries of the operands: of the two sides,
        then of the condition. A side that is infinite is a constant and takes none of the ``values``.
        """
        rest = iter(values)
        a, b = (side if is_infinite else next(rest) for side, is_infinite in zip(sides, infinite, strict=True))
        return Piecewise((a, holds(*rest)), (b, True))

    finite = [side for side, is_infinite in zip((A, B), infinite, strict=True) if not is_infinite]
    return elementwise(choice, *finite, *operands)
