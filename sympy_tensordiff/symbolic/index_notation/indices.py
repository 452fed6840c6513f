"""Index expressions: conversion of SymPy integers to affine forms.

An index is an integer combination of integer symbols, of their products, of quotients
``floor(form / n)`` and ``ceiling(form / n)``, of remainders ``Mod(form, n)``, of ``Max``, ``Min``
and ``Abs`` of such, and of entries ``idx[form]`` of tensors of integers. SymPy writes quotients
its own way (``floor((p + 1)/2)`` becomes ``floor(p/2 + 1/2)``), so the reader carries rational forms.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import lcm, prod
from typing import Any

import sympy
from sympy import Abs, Add, Expr, Idx, Max, Min, Mod, Mul, Pow, Symbol, ceiling, floor

from sympy_tensordiff.errors import IndexExpressionError
from sympy_tensordiff.integer.affine import Affine, Variable
from sympy_tensordiff.integer.extrema import maximum_of, minimum_of
from sympy_tensordiff.integer.indirect import IndirectIndex
from sympy_tensordiff.integer.products import divide_with_rest, quotient_by, times
from sympy_tensordiff.integer.rows import renaming_map
from sympy_tensordiff.symbolic.expressions.arguments import as_expr
from sympy_tensordiff.symbolic.expressions.call_errors import explained
from sympy_tensordiff.symbolic.expressions.hooks import lifted
from sympy_tensordiff.symbolic.expressions.integer_symbols import may_be_integer
from sympy_tensordiff.symbolic.expressions.traversal import nodes_in

Slots = dict[Expr, int]


@explained
def indices(names: str, *others: str) -> Any:
    """Return integer symbols for the names as `sympy.symbols` does: a single symbol for one name.

    Parameters
    ----------
    names, *others : str
        One text with all names, ``"i j"`` or ``"i:3"``, or several texts.

    Examples
    --------
    >>> i, j = indices("i j")
    >>> i.is_integer
    True
    >>> indices("i", "j")
    (i, j)
    """
    return sympy.symbols(" ".join((names, *others)) if others else names, integer=True)


def to_affine(expr: Expr | int, variable: Callable[[Expr], Variable]) -> Affine:
    """Return the affine form of an index expression, such as ``2*i + 1``. ``variable(symbol)`` returns the variable
    that stands for an integer symbol in the form.

    `expr` is an integer combination of integer symbols, of floors and ceilings of rational combinations, of ``Mod`` by
    a positive integer, of ``Max``, ``Min`` and ``Abs``, and of entries of integer tensors, each an `IndirectIndex`.
    `variable` maps a symbol to its variable (hashable and orderable). Raise `IndexExpressionError` for anything else,
    with the part that does not fit in the message.

    Examples
    --------
    >>> from sympy import floor
    >>> i, p = indices("i p")
    >>> to_affine(2*i - 3*p + 1, str)
    2*i - 3*p + 1
    >>> to_affine(floor((p + 1)/2), str)
    floor((p + 1)/2)
    """
    if isinstance(expr, int):
        return Affine.of(expr)
    form, atoms = parse(expr)
    if not atoms:
        return form
    return form.substitute(renaming_map(range(len(atoms)), [variable(atom) for atom in atoms]))


def is_data(expr: Any) -> bool:
    """Return whether ``expr`` is an entry of an integer tensor (or an integer tensor of rank 0), which index
    expressions may contain.
    """
    tensor = expr.tensor if getattr(expr, "is_tensor_entry", False) else expr
    scalar = tensor is not expr or (getattr(expr, "is_tensor_expr", False) and not expr.rank)
    return bool(scalar) and getattr(tensor, "dtype", float) is int


def data_of(expr: Any) -> list[Any]:
    """Return the integer tensors whose entries occur in the index expression `expr`, as ``p`` in ``2*p[i] + 1``.

    >>> from sympy_tensordiff.symbolic.index_notation.tensors import TensorSymbol
    >>> i, idx, jdx = indices("i"), TensorSymbol("idx", 3, dtype=int), TensorSymbol("jdx", 3, dtype=int)
    >>> data_of(2*idx[jdx[i]] + i)
    [idx, jdx]
    """
    found: dict[Any, None] = {}
    stack = [] if isinstance(expr, int) else [expr]
    while stack:
        node = stack.pop()
        if is_data(node):
            found[node.tensor if node.is_tensor_entry else node] = None
            stack += getattr(node, "indices", ())
        elif not node.is_Atom:
            stack += node.args
    return list(found)


def as_index(value: object, description: str) -> Any:
    """Return ``value`` as a SymPy index expression, with entries of an integer ``IndexedBase`` converted to entries of
    index arrays. Raise `ArgumentTypeError`, which names it ``description``, if it is not an expression.
    """
    expr = as_expr(value, description)
    entries = [part for part in nodes_in([expr]) if isinstance(part, sympy.Indexed)] if expr.args else []
    return expr.xreplace({entry: lifted(entry) for entry in entries if entry.is_integer}) if entries else expr


@lru_cache(maxsize=1 << 14)
def parse(expr: Expr) -> tuple[Affine, tuple[Expr, ...]]:
    """Return ``(form, symbols)``: ``expr`` as an affine form of variables 0, 1, ..., and the symbol of each variable.
    Raise `IndexExpressionError` if it is not affine or not always an integer.

    Raises `IndexExpressionError` if ``expr`` is not an integer for all values of its symbols.
    """
    slots: Slots = {}
    whole, rest = divide_with_rest(*_quotient_form(expr, slots))
    if rest != Affine():
        raise IndexExpressionError(
            f"{expr} is not an integer for all values of its symbols: round it, e.g. floor({expr}) or ceiling({expr})"
        )
    return whole, tuple(slots)


def _rational_form(expr: Expr, slots: Slots) -> tuple[Affine, int]:
    """Return ``(form, denominator)``, an affine form and an integer, with ``expr = form/denominator``; raise
    `IndexExpressionError` if there are none. Parts that are not affine, such as ``floor(i/2)`` or ``p[i]``, become
    compounds. ``slots`` maps symbols to variable numbers, and new symbols are added to it.
    """
    if not isinstance(expr, Expr):
        raise IndexExpressionError(
            f"{expr!r} is not an index: an index must be an integer combination of integer symbols"
        )
    if expr.is_Rational:
        return Affine.of(int(expr.p)), int(expr.q)
    if isinstance(expr, (Symbol, Idx)) and may_be_integer(expr):
        return Affine.variable(slots.setdefault(expr, len(slots))), 1
    if isinstance(expr, Add):
        return _sum([_rational_form(term, slots) for term in expr.args])
    if isinstance(expr, Mul):
        return _product(expr, slots)
    if isinstance(expr, Pow) and expr.exp.is_Integer and expr.exp > 0:
        form, denominator = _rational_form(expr.base, slots)
        return times(*[form] * int(expr.exp)), denominator ** int(expr.exp)
    if isinstance(expr, (floor, ceiling, sympy.frac)):
        return _rounding(expr, slots)
    if isinstance(expr, Mod):
        dividend, modulus = expr.args
        return _remainder(*_over_common_denominator(dividend, modulus, slots), expr)
    if is_data(expr):
        return Affine.variable(_data_entry(expr, slots)), 1
    if isinstance(expr, (Max, Min, Abs)):
        return _extremum(expr, slots)
    raise IndexExpressionError(_rejection_reason(expr))


def _sum(terms: list[tuple[Affine, int]]) -> tuple[Affine, int]:
    """Return the sum of fractions as a pair ``(affine form, denominator)``; the terms are such pairs too."""
    common = lcm(*(denominator for _, denominator in terms))
    total = Affine()
    for form, denominator in terms:
        total = total + form * (common // denominator)
    return total, common


def _extremum(expr: Expr, slots: Slots) -> tuple[Affine, int]:
    """Return a `Max`, `Min` or `Abs` of indices as ``(affine form, denominator)``. ``slots`` maps symbols to variable
    numbers, and new symbols are added to it.
    """
    parts = [_rational_form(arg, slots) for arg in expr.args]
    common = lcm(*(denominator for _, denominator in parts))
    forms = [form * (common // denominator) for form, denominator in parts]
    if isinstance(expr, Abs):
        forms.append(-forms[0])
    return minimum_of(forms) if isinstance(expr, Min) else maximum_of(forms), common


def _product(expr: Expr, slots: Slots) -> tuple[Affine, int]:
    """Return the product ``expr`` as ``(affine form, denominator)``. ``slots`` maps SymPy's symbols to the numbers of
    the variables in the form; new symbols are added to it.
    """
    parts = [_rational_form(factor, slots) for factor in expr.args]
    return times(*(form for form, _ in parts)), prod(denominator for _, denominator in parts)


def _quotient_form(expr: Expr, slots: Slots) -> tuple[Affine, Affine]:
    """Return ``(numerator, denominator)`` of ``expr``, both as affine forms; a denominator with symbols is assumed to
    be positive. ``slots`` maps symbols to variable numbers, and new symbols are added to it.
    """
    if not any(
        (isinstance(power, Pow) and not power.exp.is_Integer) or power.exp.is_negative for power in expr.atoms(Pow)
    ):
        form, denominator = _rational_form(expr, slots)
        return form, Affine.of(denominator)
    above, below = expr.as_numer_denom()
    (form, one), (divisor, other) = _rational_form(above, slots), _rational_form(below, slots)
    return form * other, divisor * one


def _rounding(expr: Expr, slots: Slots) -> tuple[Affine, int]:
    """Return the value of a ``floor``, ``ceiling`` or ``frac`` as a quotient ``(affine form, denominator)``;
    ``floor(a/b)`` counts as one variable of the form (a `Compound`). ``slots`` maps symbols to variable numbers, and
    new symbols are added to it.
    """
    form, divisor = _quotient_form(expr.args[0], slots)
    if isinstance(expr, floor):
        return quotient_by(form, divisor), 1
    if isinstance(expr, ceiling):
        return -quotient_by(-form, divisor), 1
    if not divisor.is_constant:
        raise IndexExpressionError(_rejection_reason(expr))
    return _remainder(form, divisor, divisor.constant, expr)


def _over_common_denominator(dividend: Expr, modulus: Expr, slots: Slots) -> tuple[Affine, Affine, int]:
    """Return ``(dividend, modulus, denominator)``: both expressions as affine forms over one common denominator.
    ``slots`` maps symbols to variable numbers, and new symbols are added to it.
    """
    (form, one), (divisor, other) = _rational_form(dividend, slots), _rational_form(modulus, slots)
    denominator = lcm(one, other)
    return form * (denominator // one), divisor * (denominator // other), denominator


def _remainder(form: Affine, divisor: Affine, denominator: int, expr: Expr) -> tuple[Affine, int]:
    """Return ``Mod(form, divisor)/denominator`` as the pair ``(affine form, denominator)``. A divisor with symbols is
    assumed to be positive; raise `IndexExpressionError`, which quotes ``expr``, for a constant divisor less than 1.
    """
    if divisor.is_constant and divisor.constant < 1:
        raise IndexExpressionError(f"the modulus of {expr} must be positive, not {expr.args[1]}")
    return form - times(quotient_by(form, divisor), divisor), denominator


def _data_entry(expr: Any, slots: Slots) -> IndirectIndex:
    """Return the entry ``p[i]`` of an integer tensor as a variable of affine forms (an `IndirectIndex`). ``slots`` maps
    symbols to variable numbers, and new symbols are added to it.
    """
    if not expr.is_tensor_entry:
        return IndirectIndex(expr.name, ())
    forms = [_rational_form(index, slots) for index in expr.indices]
    return IndirectIndex(expr.tensor.name, tuple(form.divided(denominator) for form, denominator in forms))


def _rejection_reason(expr: Any) -> str:
    """Return the error text that says why ``expr`` is not an index expression and what to write instead."""
    if isinstance(expr, Symbol):
        name = expr.name
        return f"{name} is declared not to be an integer: use td.indices({name!r}) or Symbol({name!r}, integer=True)"
    if isinstance(expr, sympy.Float):
        return f"{expr} is a float: an index must be an integer, write it without a decimal point"
    if isinstance(expr, Pow):
        return f"{expr} is a power: an index must be an integer combination of integer symbols, e.g. 2*i + j - 1"
    if (
        getattr(expr, "is_tensor_entry", False)
        or isinstance(expr, sympy.Indexed)
        or getattr(expr, "is_tensor_expr", False)
    ):
        return (
            f"{expr} is data of a tensor, but no entry of one of integers: where data select what is read, use such "
            "entries, as in x[idx[i]] with idx = td.TensorSymbol('idx', n, dtype=int) or "
            "IndexedBase('idx', integer=True)"
        )
    return (
        f"{expr} ({type(expr).__name__}) is not an index: an index must be an integer combination of integer symbols, "
        "of floor, ceiling and Mod by a number, and of Max, Min and Abs, e.g. 2*i + j - 1, floor(p/2) or Min(i, n - 1)"
    )
