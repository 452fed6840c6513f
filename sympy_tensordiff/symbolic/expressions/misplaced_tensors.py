"""Whole tensors used as scalars: errors that say what to write instead.

SymPy takes every `Expr` for a scalar, so ``exp(A)`` or ``Max(A, 0)`` would be meaningless scalars. SymPy first converts
an argument to a SymPy object, which asks for ``__sympy__``; Max, Min and comparisons ask for ``is_extended_real``,
products with 0 for ``is_finite``. The calling frame shows the object under construction. (Operators, Add, Mul and Pow
have a meaning, see `operators`.)
"""

from __future__ import annotations

from types import FrameType
from typing import Any

from sympy import Abs, adjoint, conjugate, transpose
from sympy.core.function import Application

from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.symbolic.expressions import sympy_callers

CASES = "select entries by td.where(td.greater(A, B), A, B)"


def comparison(name: str) -> str:
    """Return advice for the error about a Python comparison of tensors such as ``A < B``: to call ``td.name(A, B)``
    instead. If ``name`` is empty, the advice lists several comparison functions.
    """
    names = "td.greater(A, B), td.less_equal(A, B), td.equal(A, B), …" if not name else f"td.{name}(A, B)"
    return (
        f"a comparison of tensors is one truth for each entry: write {names}, 1 where it holds and 0 elsewhere, and "
        + CASES.replace("greater", name or "greater")
    )


SUM = (
    "write td.sum(A, axis) for a sum over axes, or sum entries: td.IndexedSum(A[i, j], (i, 0, n - 1)); "
    "the derivative of a sum by a whole tensor is td.gradient(expression, X)"
)
ARRAY = "write td.lift(array) in place of the array"

# Who asks a tensor for a property, by module and name: constructors of scalar nodes, and solvers that would take it for
# an unknown: where x is the only free symbol of ``x[0] > 0``, simplify solves for it, unless that is not implemented.
PROPERTY_READERS = {
    ("sympy.functions.elementary.miscellaneous", "_new_args_filter"): (
        "Max or Min of a whole tensor",
        "write td.maximum(A, B) or td.minimum(A, B), which are entry by entry",
    ),
    ("sympy.core.relational", "__new__"): ("a comparison of a whole tensor", comparison("")),
    ("sympy.solvers.inequalities", "solve_univariate_inequality"): ("the solution for a whole tensor", ""),
    ("sympy.tensor.array.arrayop", "tensorproduct"): ("tensorproduct of whole tensors", "write td.outer(A, B)"),
    ("sympy.tensor.array.array_derivatives", "_dispatch_eval_derivative_n_times"): (
        "SymPy's derivative of or with respect to its own matrices and arrays",
        "write td.diff(td.lift(M), X), or differentiate with respect to entries, X[i, j]",
    ),
    ("sympy.core.mul", "<genexpr>"): ("Mul with 0", "SymPy makes it the scalar 0: write 0*A or td.zeros(A.shape)"),
}
# Who makes a SymPy object of it, directly or through a function or two.
ARGUMENT_TAKERS = {
    ("sympy.concrete.expr_with_limits", "_common_new"): ("a sum or an integral of SymPy over a whole tensor", SUM),
    ("sympy.tensor.array.ndim_array", "__mul__"): ("an array times a whole tensor", ARRAY),
    ("sympy.tensor.array.ndim_array", "__truediv__"): ("an array divided by a whole tensor", ARRAY),
    **{
        (module, name): ("an entry of SymPy's own matrix or array", "entries are scalars, e.g. A[0, 1]")
        for module, name in (
            ("sympy.matrices.matrixbase", "_handle_creation_inputs"),
            ("sympy.matrices.sparse", "_handle_creation_inputs"),
            ("sympy.tensor.array.dense_ndim_array", "_new"),
            ("sympy.tensor.array.sparse_ndim_array", "_new"),
        )
    },
    ("sympy.matrices.expressions.matmul", "__new__"): ("SymPy's MatMul of a whole tensor", "write A @ B"),
    ("sympy.matrices.expressions.hadamard", "__new__"): (
        "SymPy's Hadamard product of a whole tensor",
        "write A*B or A**p",
    ),
    ("sympy.matrices.expressions.diagonal", "__new__"): ("SymPy's DiagMatrix of a whole tensor", "write td.diag(x)"),
    ("sympy.core.expr", "__new__"): (
        "UnevaluatedExpr of a whole tensor",
        "write the tensor itself: nothing evaluates it",
    ),
    ("sympy.series.order", "__new__"): ("an order of SymPy of a whole tensor", "give entries"),
    ("sympy.core.basic", "as_Basic"): (
        "a case of Piecewise",
        f"{CASES}; the derivative of a scalar with cases is td.gradient(expression, X)",
    ),
}
ENTRYWISE = (Abs, adjoint, conjugate, transpose)
"""Functions of SymPy that ask a tensor for properties of its entries, or of the whole."""


def is_whole(operand: Any) -> bool:
    """Return whether ``operand`` is a tensor of rank > 0."""
    return getattr(operand, "is_tensor_expr", False) and operand.rank > 0


def index_letters(rank: int) -> list[str]:
    """Return ``rank`` index names for an example in an error message."""
    return [f"i{axis}" if rank > 6 else "ijklmn"[axis] for axis in range(rank)]


def refuse_as_scalar(operand: Any, place: str, way_out: str = "", also: str = "") -> None:
    """Raise `UnsupportedError` if ``operand`` is a whole tensor in a place where a scalar is needed. The message begins
    with ``place``, the function or operation, and ends with the advice ``way_out`` and ``also``.

    The default advice is to write the expression entry by entry.
    """
    if not is_whole(operand):
        return
    name = operand.name if operand.is_symbol else "T"
    letters = index_letters(operand.rank)
    limits = ", ".join(f"({letter}, {extent})" for letter, extent in zip(letters, operand.shape, strict=True))
    entry = f"{name}[{', '.join(letters)}]"
    shown = operand if operand.is_symbol else f"the tensor T = {operand}"
    way_out = way_out or f"write it entry by entry, e.g. TensorComprehension({entry} + 1, {limits})"
    raise UnsupportedError(f"{place}: a scalar is needed, and {shown} has rank {operand.rank}; {way_out}{also}")


def refuse_property_access(tensor: Any, caller: FrameType) -> None:
    """Raise `UnsupportedError` if ``tensor`` has axes and a SymPy function that would treat it as a scalar is reading
    one of its properties. ``caller`` is the call frame that reads the property.
    """
    found = PROPERTY_READERS.get(sympy_callers.function_of(caller))
    if found is not None:
        refuse_as_scalar(tensor, *found)


def refuse_as_argument(tensor: Any, caller: FrameType) -> None:
    """Raise `UnsupportedError` if one of the SymPy functions around the call frame ``caller`` would use the whole
    ``tensor`` as a scalar argument, as ``sympy.erf(A)`` does.
    """
    frames = sympy_callers.frames_around(caller, 3) if is_whole(tensor) else []
    if not frames:
        return
    kind, args = sympy_callers.class_under_construction(frames[0])
    if isinstance(kind, type) and issubclass(kind, Application) and kind not in ENTRYWISE:
        operands = ", ".join("ABCDEFGH"[: len(args)]) or "A"
        refuse_as_scalar(
            tensor,
            f"{kind.__name__} of a whole tensor",
            f"entry by entry it is td.elementwise({kind.__name__}, {operands}); td.exp, td.log, td.sin and others "
            "have names",
        )
    for frame in frames:
        place = sympy_callers.function_of(frame)
        if place == ("sympy.core.power", "__new__"):
            _refuse_trivial_power(tensor, *sympy_callers.base_and_exponent(frame))
        if place in ARGUMENT_TAKERS:
            refuse_as_scalar(tensor, *ARGUMENT_TAKERS[place])


def _refuse_trivial_power(tensor: Any, base: Any, exponent: Any) -> None:
    """Raise `UnsupportedError` for the powers ``1**tensor`` and ``tensor**0``, given by ``base`` and ``exponent``:
    SymPy would replace them by the scalar 1.
    """
    if base == 1 or exponent == 0:
        refuse_as_scalar(
            tensor, f"Pow({base}, {exponent})", "SymPy makes it the scalar 1: write ** or td.ones(A.shape)"
        )
