"""A derivative as a sum of terms: over the points of a polyhedron, a value at a row and a column.

A function in index notation is a composition of scalar functions and sums. Let ``e = g(r_1, ..., s_1, ...)`` with reads
``r`` of the variables and inner sums ``s`` of them. The first derivative has one term for each read, and the terms of
each inner sum times its partial derivative; the second has one for each pair of reads, the products of the first-order
terms of each pair of sums, and the second-order terms of each sum. This is the structure of partially separable
functions (Griewank & Toint 1982), applied at each sum. No delta appears: a read says itself to which row it belongs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import sympy
from sympy import Expr, Piecewise

from sympy_tensordiff.derivative.api import gradient, hessian
from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.structure.terms import Binder, BlockIndex, Term, normalised, written_out
from sympy_tensordiff.symbolic.indices import Substitution
from sympy_tensordiff.symbolic.replacement import Replacement
from sympy_tensordiff.symbolic.sums import IndexedMax, IndexedMin, IndexedSum
from sympy_tensordiff.symbolic.tensors import TensorComprehension, TensorEntry
from sympy_tensordiff.symbolic.traversal import free_symbols_in, parts

REDUCTIONS = (IndexedSum, IndexedMax, IndexedMin)
"""The nodes that a structured derivative differentiates through."""


class _First(NamedTuple):
    """One term of a first derivative."""

    binders: tuple[Binder, ...]
    value: Expr
    place: BlockIndex


def hessian_terms(loss: Any, variables: Sequence[Expr]) -> tuple[Term, ...]:
    """The terms of the second derivative of a scalar.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> k, n = td.indices("k n")
    >>> x = td.TensorSymbol("x", n)
    >>> for term in hessian_terms(td.IndexedSum(x[k]**2 * x[k + 1], (k, 0, n - 2)), (x,)):
    ...     print(term)
    2*x[k + 1] at [0, k] x [0, k] for k = 0 .. n - 2
    2*x[k] at [0, k] x [0, k + 1] and transposed for k = 0 .. n - 2
    """
    return normalised(_second(written_out(loss), tuple(variables)))


def jacobian_terms(functions: Sequence[Any], variables: Sequence[Expr]) -> tuple[Term, ...]:
    """The terms of the first derivatives of tensors or scalars, whose rows are the entries of all of them in turn."""
    found: list[Term] = []
    for number, function in enumerate(functions):
        shape = tuple(getattr(function, "shape", ()))
        axes = tuple(Binder(sympy.Dummy(f"i{a}", integer=True), sympy.S.Zero, n - 1) for a, n in enumerate(shape))
        row = BlockIndex(number, tuple(binder.index for binder in axes))
        body = written_out(function[row.indices] if shape else function)
        for first in _first(body, tuple(variables)):
            found.append(Term((*axes, *first.binders), (), first.value, row, first.place))
    return normalised(found)


# ---------------------------------------------------------------------------- the chain rule


class _Cut(NamedTuple):
    """A scalar with symbols in place of the reads of the variables and of the sums that hold them."""

    function: Expr
    reads: dict[Expr, BlockIndex]
    sums: dict[Expr, Expr]
    back: Replacement


def _second(scalar: Expr, variables: tuple[Expr, ...]) -> Iterator[Term]:
    """The second derivative of one scalar; of a pair of places that differ, one is given and mirrored."""
    if isinstance(scalar, REDUCTIONS):
        binders, body, weight = _opened(scalar)
        for term in _second(body, variables):
            yield term._replace(binders=(*binders, *term.binders), value=weight * term.value)
        return
    cut = _cut(scalar, variables)
    symbols = (*cut.reads, *cut.sums)
    if not symbols:
        return
    slopes = gradient(cut.function, tuple(cut.sums)) if cut.sums else ()
    curvature = hessian(cut.function, symbols)
    for a, left in enumerate(symbols):
        for b in range(a, len(symbols)):
            value = curvature[a][b]
            if value != 0:
                yield from _products(cut, left, symbols[b], cut.back(value), variables)
    for total, slope in zip(cut.sums.values(), slopes, strict=True):
        for term in _second(total, variables):
            yield term._replace(value=cut.back(slope) * term.value)


def _products(cut: _Cut, left: Expr, right: Expr, value: Expr, variables: tuple[Expr, ...]) -> Iterator[Term]:
    """All terms of one second partial derivative; of a pair that differs, the other order is the mirrored one."""
    rights = _reads_of(cut, right, variables)
    for a, one in enumerate(_reads_of(cut, left, variables)):
        for b, other in enumerate(rights):
            if left != right or a <= b:
                binders, mirrored = (*one.binders, *other.binders), left != right or a < b
                yield Term(binders, (), value * one.value * other.value, one.place, other.place, mirrored)


def _reads_of(cut: _Cut, symbol: Expr, variables: tuple[Expr, ...]) -> list[_First]:
    if symbol in cut.reads:
        return [_First((), sympy.S.One, cut.reads[symbol])]
    return list(_first(cut.sums[symbol], variables))


def _first(scalar: Expr, variables: tuple[Expr, ...]) -> Iterator[_First]:
    """The first derivative of one scalar; each call has indices of its own."""
    if isinstance(scalar, REDUCTIONS):
        binders, body, weight = _opened(scalar)
        for first in _first(body, variables):
            yield first._replace(binders=(*binders, *first.binders), value=weight * first.value)
        return
    cut = _cut(scalar, variables)
    symbols = (*cut.reads, *cut.sums)
    if not symbols:
        return
    for symbol, slope in zip(symbols, gradient(cut.function, symbols), strict=True):
        if slope != 0:
            for first in _reads_of(cut, symbol, variables):
                yield first._replace(value=cut.back(slope) * first.value)


def _cut(scalar: Expr, variables: tuple[Expr, ...]) -> _Cut:
    """Put real symbols in place of what the derivative goes through."""
    reads: dict[Expr, BlockIndex] = {}
    sums: dict[Expr, Expr] = {}
    stand_ins: dict[Expr, Expr] = {}
    stack, seen = [scalar], set[int]()
    while stack:
        node = stack.pop()
        if id(node) in seen or node in stand_ins:
            continue
        seen.add(id(node))
        tensor = node.tensor if isinstance(node, TensorEntry) else node
        if tensor in variables:
            indices = tuple(node.indices) if isinstance(node, TensorEntry) else ()
            stand_ins[node] = symbol = sympy.Dummy("r", real=True)
            reads[symbol] = BlockIndex(variables.index(tensor), indices)
        elif isinstance(node, REDUCTIONS) and _reads_any(node, variables):
            stand_ins[node] = symbol = sympy.Dummy("s", real=True)
            sums[symbol] = node
        elif _binds(node) and _reads_any(node, variables):
            raise UnsupportedError(
                f"{type(node).__name__} in {node}: a structured derivative goes through scalar functions, sums, maxima "
                "and minima in index notation only; take td.hessian or td.jacobian, or td.hvp in an operator of SciPy"
            )
        elif not _binds(node):
            stack += reversed(parts(node))
    function = Replacement(stand_ins)(scalar)
    return _Cut(function, reads, sums, Replacement({symbol: node for node, symbol in stand_ins.items()}))


def _binds(node: Any) -> bool:
    """Whether a node is more than a scalar function of its arguments."""
    return (
        hasattr(node, "limits")
        or isinstance(node, TensorComprehension | TensorEntry)
        or (getattr(node, "is_tensor_expr", False))
    )


def _reads_any(node: Expr, variables: tuple[Expr, ...]) -> bool:
    return not free_symbols_in([node]).isdisjoint(variables)


def _opened(reduction: Any) -> tuple[tuple[Binder, ...], Expr, Expr]:
    """Return the binders of a sum or an extremum, outermost first, under names of their own, its body, and a weight.

    The derivative is the sum of the weight times that of the body. In an extremum the bodies that are equal to it share
    the weight 1, and their choice is constant: so is the weight.
    """
    binders, body = _renamed(reduction)
    if isinstance(reduction, IndexedSum):
        return binders, body, sympy.S.One
    own, *limits = reduction.args
    is_chosen = Piecewise((sympy.S.One, sympy.Eq(own, reduction)), (sympy.S.Zero, True), evaluate=False)
    share = 1 / IndexedSum(is_chosen, *limits)
    return binders, body, Piecewise((share, sympy.Eq(body, reduction)), (sympy.S.Zero, True), evaluate=False)


def _renamed(total: Any) -> tuple[tuple[Binder, ...], Expr]:
    """The binders of a reduction, outermost first, under names of their own, and its body."""
    body, limits = total.args[0], [tuple(limit) for limit in reversed(total.args[1:])]
    names = Replacement(Substitution({limit[0]: sympy.Dummy(limit[0].name, integer=True) for limit in limits}))
    return tuple(Binder(*map(names, limit)) for limit in limits), names(body)
