"""What a call of `diff` differentiates by."""

from __future__ import annotations

from typing import Any

from sympy import Integer, Symbol, Tuple, flatten
from sympy.core.function import AppliedUndef
from sympy.matrices.matrixbase import MatrixBase
from sympy.tensor.array.ndim_array import NDimArray

from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError


def is_entry(variable: Any) -> bool:
    """Whether a variable is an entry of a tensor."""
    return bool(getattr(variable, "is_tensor_entry", False))


def is_variable(variable: Any) -> bool:
    """Whether a variable is a tensor symbol, or an entry of one."""
    return bool((is_entry(variable) or getattr(variable, "is_tensor_expr", False)) and variable.is_symbol)


def refuse_array(variable: Any) -> None:
    """Raise where several variables are given as an explicit array."""
    if isinstance(variable, (MatrixBase, NDimArray)):
        entries = tuple(flatten(variable))
        raise ArgumentTypeError(
            f"cannot differentiate by {variable}, an explicit array: use a tuple of its entries; td.gradient, "
            f"td.jacobian, td.hessian and td.vjp take {entries}"
        )


def no_variable(value: Any) -> ArgumentTypeError:
    """The error that a value is not a variable."""
    way_out = "give a TensorSymbol or a real scalar symbol"
    if isinstance(value, Symbol):
        way_out += f"; {value} is an integer, declared so or by its use"
    if isinstance(value, AppliedUndef):
        name, places = value.func.__name__, ", ".join(map(str, value.args))
        way_out = (
            f"it is the value of a function; write IndexedBase({name!r}) with the entries {name}[{places}], or put a "
            f"symbol in its place, .subs({value}, Symbol({name!r}))"
        )
    return ArgumentTypeError(f"cannot differentiate by {value!r}: {way_out}")


def counted(variables: tuple[Any, ...]) -> list[tuple[Any, int]]:
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
