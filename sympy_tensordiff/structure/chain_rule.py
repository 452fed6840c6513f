"""A derivative as a sum of terms: over the points of a polyhedron, a value at a row and a column.

A function in index notation is a composition of scalar functions and sums. Let ``e = g(r_1, ..., s_1, ...)`` with reads
``r`` of the variables and inner sums ``s`` of them. The first derivative has one term for each read, and the terms of
each inner sum times its partial derivative; the second has one for each pair of reads, the products of the first-order
terms of each pair of sums, and the second-order terms of each sum. This is the structure of partially separable
functions (Griewank & Toint 1982), applied at each sum. No delta appears: the indices of a read are its row.

The derivatives of the scalar functions come from the graph. Their composition is written out here since it gives each
pair of reads once: the gradient's terms, differentiated again, would be more (8 instead of 6 for the Lennard-Jones
potential, with a quarter more operations), and not exactly symmetric.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import sympy
from sympy import Expr, Piecewise

from sympy_tensordiff.derivative.api import gradient, hessian
from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.structure.terms import BlockIndex, DerivativeTerm, normalise_terms, to_index_notation
from sympy_tensordiff.symbolic.expressions.replacement import Replacement, Substitution
from sympy_tensordiff.symbolic.expressions.traversal import free_symbols_in, parts
from sympy_tensordiff.symbolic.index_notation.limits import IndexRange
from sympy_tensordiff.symbolic.index_notation.sums import IndexedMax, IndexedMin, IndexedSum
from sympy_tensordiff.symbolic.index_notation.tensors import TensorComprehension, TensorEntry

REDUCTIONS = (IndexedSum, IndexedMax, IndexedMin)
"""The nodes that a structured derivative differentiates through."""


class _GradientTerm(NamedTuple):
    """A term of a gradient: for all values of the indices in ``binders``, ``value`` is added to the entry of the
    gradient at ``position``.
    """

    binders: tuple[IndexRange, ...]
    value: Expr
    position: BlockIndex


def hessian_terms(loss: Any, variables: Sequence[Expr]) -> tuple[DerivativeTerm, ...]:
    """Return the terms of the Hessian of the scalar ``loss`` with respect to ``variables``. Each term adds a value to
    the entry at a row and a column, for all values of some indices.

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
    return normalise_terms(_second_order_terms(to_index_notation(loss), tuple(variables)))


def jacobian_terms(functions: Sequence[Any], variables: Sequence[Expr]) -> tuple[DerivativeTerm, ...]:
    """Return the terms of the Jacobian of ``functions`` with respect to ``variables``. Its rows are the entries of all
    functions, one function after the other.
    """
    found: list[DerivativeTerm] = []
    for number, function in enumerate(functions):
        shape = tuple(getattr(function, "shape", ()))
        axes = tuple(IndexRange(sympy.Dummy(f"i{a}", integer=True), sympy.S.Zero, n - 1) for a, n in enumerate(shape))
        row = BlockIndex(number, tuple(binder.index for binder in axes))
        body = to_index_notation(function[row.indices] if shape else function)
        for first in _gradient_terms(body, tuple(variables)):
            found.append(DerivativeTerm((*axes, *first.binders), (), first.value, row, first.position))
    return normalise_terms(found)


# ---------------------------------------------------------------------------- the chain rule


class _OuterFunction(NamedTuple):
    """A scalar written as ``function``, a formula in new symbols. A symbol in ``reads`` replaces an entry of a
    variable, a symbol in ``sums`` an inner reduction; ``restore`` replaces all symbols by their expressions again.
    """

    function: Expr
    reads: dict[Expr, BlockIndex]
    sums: dict[Expr, Expr]
    restore: Replacement


def _second_order_terms(scalar: Expr, variables: tuple[Expr, ...]) -> Iterator[DerivativeTerm]:
    """Yield the terms of the Hessian of ``scalar`` with respect to ``variables``. Of two terms that mirror each other
    at the diagonal, one is given and marked as mirrored.
    """
    if isinstance(scalar, REDUCTIONS):
        binders, body, weight = _open_reduction(scalar)
        for term in _second_order_terms(body, variables):
            yield term._replace(binders=(*binders, *term.binders), value=weight * term.value)
        return
    outer = _split_outer_function(scalar, variables)
    symbols = (*outer.reads, *outer.sums)
    if not symbols:
        return
    slopes = gradient(outer.function, tuple(outer.sums)) if outer.sums else ()
    curvature = hessian(outer.function, symbols)
    for a, left in enumerate(symbols):
        for b in range(a, len(symbols)):
            value = curvature[a][b]
            if value != 0:
                yield from _cross_terms(outer, left, symbols[b], outer.restore(value), variables)
    for total, slope in zip(outer.sums.values(), slopes, strict=True):
        for term in _second_order_terms(total, variables):
            yield term._replace(value=outer.restore(slope) * term.value)


def _cross_terms(
    outer: _OuterFunction, left: Expr, right: Expr, value: Expr, variables: tuple[Expr, ...]
) -> Iterator[DerivativeTerm]:
    """Yield the Hessian terms ``value * dl/dx * dr/dy`` for all entries x and y of ``variables``. Here l and r are
    the inner scalars that the symbols ``left`` and ``right`` of ``outer`` replace, and ``value`` is the second
    derivative of ``outer`` with respect to both symbols.
    """
    rights = _gradient_terms_of_symbol(outer, right, variables)
    for a, one in enumerate(_gradient_terms_of_symbol(outer, left, variables)):
        for b, other in enumerate(rights):
            if left != right or a <= b:
                binders, mirrored = (*one.binders, *other.binders), left != right or a < b
                yield DerivativeTerm(
                    binders, (), value * one.value * other.value, one.position, other.position, mirrored
                )


def _gradient_terms_of_symbol(outer: _OuterFunction, symbol: Expr, variables: tuple[Expr, ...]) -> list[_GradientTerm]:
    """Return the terms of the gradient with respect to ``variables`` of the inner scalar that ``symbol`` replaces in
    the function ``outer``: an entry of a variable, or a sum.
    """
    if symbol in outer.reads:
        return [_GradientTerm((), sympy.S.One, outer.reads[symbol])]
    return list(_gradient_terms(outer.sums[symbol], variables))


def _gradient_terms(scalar: Expr, variables: tuple[Expr, ...]) -> Iterator[_GradientTerm]:
    """Yield the terms of the gradient of ``scalar`` with respect to ``variables``. Each call uses new names for bound
    indices, so that terms of two gradients can be multiplied.
    """
    if isinstance(scalar, REDUCTIONS):
        binders, body, weight = _open_reduction(scalar)
        for first in _gradient_terms(body, variables):
            yield first._replace(binders=(*binders, *first.binders), value=weight * first.value)
        return
    outer = _split_outer_function(scalar, variables)
    symbols = (*outer.reads, *outer.sums)
    if not symbols:
        return
    for symbol, slope in zip(symbols, gradient(outer.function, symbols), strict=True):
        if slope != 0:
            for first in _gradient_terms_of_symbol(outer, symbol, variables):
                yield first._replace(value=outer.restore(slope) * first.value)


def _split_outer_function(scalar: Expr, variables: tuple[Expr, ...]) -> _OuterFunction:
    """Return ``scalar`` as a function of new symbols: one for each entry of ``variables`` in it, and one for each
    reduction of such entries. Raise `UnsupportedError` if another tensor operation depends on ``variables``.
    """
    reads: dict[Expr, BlockIndex] = {}
    sums: dict[Expr, Expr] = {}
    symbol_of: dict[Expr, Expr] = {}
    stack, seen = [scalar], set[int]()
    while stack:
        node = stack.pop()
        if id(node) in seen or node in symbol_of:
            continue
        seen.add(id(node))
        tensor = node.tensor if isinstance(node, TensorEntry) else node
        if tensor in variables:
            indices = tuple(node.indices) if isinstance(node, TensorEntry) else ()
            symbol_of[node] = symbol = sympy.Dummy("r", real=True)
            reads[symbol] = BlockIndex(variables.index(tensor), indices)
        elif isinstance(node, REDUCTIONS) and _depends_on(node, variables):
            symbol_of[node] = symbol = sympy.Dummy("s", real=True)
            sums[symbol] = node
        elif _is_opaque(node) and _depends_on(node, variables):
            raise UnsupportedError(
                f"{type(node).__name__} in {node}: a structured derivative goes through scalar functions, sums, maxima "
                "and minima in index notation only; take td.hessian or td.jacobian, or td.hvp in an operator of SciPy"
            )
        elif not _is_opaque(node):
            stack += reversed(parts(node))
    function = Replacement(symbol_of)(scalar)
    return _OuterFunction(function, reads, sums, Replacement({symbol: node for node, symbol in symbol_of.items()}))


def _is_opaque(node: Any) -> bool:
    """Return whether ``node`` has to be replaced by a symbol before differentiation: a sum, an entry or a whole
    tensor.
    """
    return (
        hasattr(node, "limits")
        or isinstance(node, TensorComprehension | TensorEntry)
        or (getattr(node, "is_tensor_expr", False))
    )


def _depends_on(node: Expr, variables: tuple[Expr, ...]) -> bool:
    """Return whether any of ``variables`` is free in ``node``."""
    return not free_symbols_in([node]).isdisjoint(variables)


def _open_reduction(reduction: Any) -> tuple[tuple[IndexRange, ...], Expr, Expr]:
    """Return ``(ranges, body, weight)`` for ``reduction``, a sum or extremum: its derivative is the sum of ``weight``
    times the derivative of ``body`` over ``ranges``.

    The weight of an extremum is 1 shared equally among the bodies that attain it; it is treated as constant.
    """
    binders, body = _rename_bound_indices(reduction)
    if isinstance(reduction, IndexedSum):
        return binders, body, sympy.S.One
    inner_body, *limits = reduction.args
    attains = Piecewise((sympy.S.One, sympy.Eq(inner_body, reduction)), (sympy.S.Zero, True), evaluate=False)
    share = 1 / IndexedSum(attains, *limits)
    return binders, body, Piecewise((share, sympy.Eq(body, reduction)), (sympy.S.Zero, True), evaluate=False)


def _rename_bound_indices(total: Any) -> tuple[tuple[IndexRange, ...], Expr]:
    """Return ``(ranges, body)`` of the sum or other reduction ``total``, with its bound indices renamed to new ones.
    The ranges are given outermost first.
    """
    ranges = total.ranges()
    names = Replacement(Substitution({index: sympy.Dummy(index.name, integer=True) for index, _, _ in ranges}))
    return tuple(IndexRange(*map(names, limit)) for limit in ranges), names(total.body)
