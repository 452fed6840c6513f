"""Whole tensors in scalar places: refused, with the index notation to write instead.

SymPy takes every `Expr` for a scalar, so ``A + 1`` or ``exp(A)`` would be scalars of no meaning.
Operators are ours to define; for ``Add(A, B)``, ``Mul(2, A)``, ``Pow(2, A)`` SymPy has
postprocessors; functions ask their arguments for ``is_Float`` at construction,
Max, Min and comparisons for ``is_extended_real``: there the asking frame tells what is built.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import Any

from sympy import Basic, Expr

from sympy_tensordiff.errors import UnsupportedError

SIGNS = {
    **{
        "add": "+",
        "sub": "-",
        "mul": "*",
        "truediv": "/",
        "pow": "**",
        "mod": "%",
        "floordiv": "//",
        "divmod": "divmod",
    },
    **{"neg": "unary -", "pos": "unary +", "abs": "abs", "lt": "<", "le": "<=", "gt": ">", "ge": ">="},
}
REFLECTED = ("add", "sub", "mul", "truediv", "pow", "mod", "floordiv", "divmod")

# Constructors of scalar nodes that ask their arguments for a property, and who would take a tensor for an unknown:
# where x is the only free symbol of ``x[0] > 0``, simplify solves for it, unless that is not implemented.
ASKING = {
    ("sympy.core.function", "_should_evalf"): "a function",
    ("sympy.functions.elementary.miscellaneous", "_new_args_filter"): "Max or Min",
    ("sympy.core.relational", "__new__"): "a comparison",
    ("sympy.solvers.inequalities", "solve_univariate_inequality"): "the solution",
}


def is_whole(operand: Any) -> bool:
    """Whether ``operand`` is a tensor of rank > 0."""
    return getattr(operand, "is_tensor_expr", False) and operand.rank > 0


def index_letters(rank: int) -> list[str]:
    """Names of indices for an example in a message."""
    return [f"i{axis}" if rank > 6 else "ijklmn"[axis] for axis in range(rank)]


def refuse_whole(operand: Any, place: str) -> None:
    """Raise where a tensor of rank > 0 stands in for a scalar."""
    if not is_whole(operand):
        return
    name = operand.name if operand.is_symbol else "T"
    letters = index_letters(operand.rank)
    limits = ", ".join(f"({letter}, {extent})" for letter, extent in zip(letters, operand.shape, strict=True))
    entry = f"{name}[{', '.join(letters)}]"
    shown = operand if operand.is_symbol else f"the comprehension T = {operand}"
    raise UnsupportedError(
        f"{place}: whole tensors in scalar expressions are not supported yet, and {shown} has rank {operand.rank}; "
        f"write it entry by entry, e.g. TensorComprehension({entry} + 1, {limits})"
    )


def refuse_asked(tensor: Any, asking: FrameType) -> None:
    """Raise where a property is asked by the constructor of a scalar node, which would take the tensor."""
    place = ASKING.get((asking.f_globals.get("__name__", ""), asking.f_code.co_name))
    if place is not None:
        refuse_whole(tensor, f"{place} of a whole tensor")


def scalar_only(name: str, sign: str) -> Callable[..., Any]:
    """The operator ``name`` of `Expr`, refused for whole tensors."""
    scalar = getattr(Expr, name)

    def operator(self: Any, *operands: Any) -> Any:
        for operand in (self, *operands):
            refuse_whole(operand, f"operator {sign}")
        return scalar(self, *operands)

    operator.__name__ = name
    return operator


def refuse_matmul(self: Any, other: Any) -> Any:
    """``A @ B``."""
    raise UnsupportedError(
        f"{self} @ {other}: products of whole tensors are not supported yet; write the sum, e.g. "
        "TensorComprehension(IndexedSum(A[i, k]*B[k, j], (k, 0, K - 1)), (i, I), (j, J))"
    )


def refuse_constructed(expr: Basic) -> Basic:
    """Postprocessor of Add, Mul and Pow: a whole tensor among the arguments raises."""
    for argument in expr.args:
        refuse_whole(argument, f"{type(expr).__name__}({', '.join(map(str, expr.args))})")
    return expr


def install(tensor_class: Any) -> None:
    """Give the base class of tensors its operators and postprocessors."""
    names = {f"__{name}__": sign for name, sign in SIGNS.items()} | {f"__r{name}__": SIGNS[name] for name in REFLECTED}
    for name, sign in names.items():
        setattr(tensor_class, name, scalar_only(name, sign))
    tensor_class.__matmul__ = tensor_class.__rmatmul__ = refuse_matmul
    Basic._constructor_postprocessor_mapping[tensor_class] = {
        name: [refuse_constructed] for name in ("Add", "Mul", "Pow")
    }
