"""Directional derivatives, and quadratic forms: Gram forms found by an exchange of indices, positive definite
matrices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import sympy
from sympy import Dummy, Expr, S

from sympy_tensordiff.convex.affine_parts import Variables, inverse_of
from sympy_tensordiff.convex.matrices import is_symmetric, is_symmetric_affine, matrix_entry
from sympy_tensordiff.derivative.api import jvp
from sympy_tensordiff.structure.terms import to_index_notation
from sympy_tensordiff.symbolic.expressions.replacement import Substitution
from sympy_tensordiff.symbolic.index_notation.limits import IndexRange
from sympy_tensordiff.symbolic.index_notation.sums import IndexedMax, IndexedMin, IndexedSum
from sympy_tensordiff.symbolic.index_notation.tensors import TensorEntry
from sympy_tensordiff.symbolic.whole_tensors.matrix_functions import TensorInverse


def directional_derivative(directions: Mapping[Any, Any], matrices: Mapping[Expr, Any]) -> Callable[[Expr], Expr]:
    """Return a function that maps a scalar to its derivative along ``directions``, a dictionary from variables to their
    directions. ``matrices`` maps each symbol that stands for ``log(det(M))`` to ``M``. At a kink, the derivative is
    one-sided.

    The symbol of a log-determinant has the derivative ``trace(inv(S)*V)``.

    Examples
    --------
    >>> import sympy
    >>> x, v = sympy.symbols("x v", real=True)
    >>> directional_derivative({x: v}, {})(sympy.exp(2*x))
    2*v*exp(2*x)
    """
    moving = dict(directions)
    for symbol, matrix in matrices.items():
        p, q = (Dummy(name, integer=True) for name in "pq")
        change = _matrix_entry_derivative(matrix, directions, q, p)
        if change != 0:
            limits = [(index, 0, matrix.shape[0] - 1) for index in (p, q)]
            moving[symbol] = IndexedSum(TensorInverse(matrix)[p, q] * change, *limits)
    return lambda scalar: to_index_notation(jvp(scalar, tuple(moving), tuple(moving.values())))


def _matrix_entry_derivative(matrix: Any, directions: Mapping[Any, Any], row: Expr, column: Expr) -> Expr:
    """Return the derivative along ``directions`` of the entry (``row``, ``column``) of ``matrix``, which is affine in
    the variables.
    """
    own: Any = matrix_entry(matrix, row, column)
    return to_index_notation(jvp(own, tuple(directions), tuple(directions.values())))


def active_argument_value(node: Expr, value: Callable[[Expr], Expr | None]) -> Expr:
    """Return an expression that equals ``value(a)`` for the argument ``a`` at which the maximum or minimum ``node`` is
    attained: if ``value`` is a derivative, that is the derivative of ``node``. If several arguments attain it, their
    values are added.

    It is the sum, over all arguments, of a `Piecewise` that is ``value(a)`` where ``a`` attains the extremum, else 0.
    """
    if isinstance(node, IndexedMax | IndexedMin):
        body = node.args[0]
        return IndexedSum(sympy.Piecewise((value(body), sympy.Eq(body, node)), (0, True)), *node.args[1:])
    compare = sympy.Ge if isinstance(node, sympy.Max) else sympy.Le
    parts = []
    for a in node.args:
        others = [compare(a, b) for b in node.args if b != a]
        inner = value(a)
        parts.append(sympy.Piecewise((inner, sympy.And(*others)), (0, True)) if inner else S.Zero)
    return sympy.Add(*parts)


MAX_SUMMED_INDICES = 8
"""Forms with more summed indices are not searched for an exchange."""


class GramForm(NamedTuple):
    """A second derivative, written so that its sign is visible: as ``2*sum(weight*square)``, or as ``r' M r`` with a
    matrix M. It is nonnegative if the weight is, and M is positive definite.
    """

    weight: Expr
    form: Expr
    rule: str
    factors: tuple[Expr, ...]
    middle_matrices: tuple[Any, ...]


class SummedProduct(NamedTuple):
    """A sum over ``limits`` of a product of ``factors``."""

    limits: tuple[IndexRange, ...]
    factors: tuple[Expr, ...]


def gram_form(variables: Variables, directions: Mapping[Any, Any], scalar: Expr) -> GramForm | None:
    """Return the second derivative of ``scalar``, a sum of products, along ``directions`` as a `GramForm`, so that its
    sign is visible: for ``sum(w*B*B')``, where an exchange of indices maps B to B', as ``2*sum(w*D**2)`` with the
    derivative D of B.

    None unless the product is invariant under some exchange of indices.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> from sympy_tensordiff.structure.terms import to_index_notation
    >>> n, = td.indices("n,")
    >>> A, x, v = td.TensorSymbol("A", (n, n)), td.TensorSymbol("x", n), td.TensorSymbol("v", n)
    >>> gram_form(Variables((x,)), {x: v}, to_index_notation(td.dot(x, A @ A.T @ x))).rule
    'Gram form'
    >>> gram_form(Variables((x,)), {x: v}, to_index_notation(td.dot(x, A @ x))) is None
    True
    """
    product = _flatten_product(scalar)
    cores = [f for f in product.factors if is_symmetric_affine(variables, inverse_of(f))]
    ends = [f for f in product.factors if variables.degree(f) and f not in cores]
    bound = [i for i, _, _ in product.limits]
    rectangular = not any(part.free_symbols & set(bound) for limit in product.limits for part in limit[1:])
    if not rectangular or len(bound) > MAX_SUMMED_INDICES or not all(map(variables.is_variable, ends)):
        return None
    if len(cores) > 1 or len(ends) not in ({0, 2} if cores else {2, 3}):
        return None
    if len(ends) == 3:
        return _cubic_form(product, ends, directions)
    rest = list((Counter(product.factors) - Counter(ends) - Counter(cores)).elements())
    if cores and not ends and cores[0].indices[0] == cores[0].indices[1]:
        weight = sympy.Mul(*rest)
        residual = _matrix_residual(cores[0].tensor, directions, cores[0].indices[0])
        form = IndexedSum(2 * weight * residual, *product.limits) if product.limits else 2 * weight * residual
        return GramForm(weight, form, "matrix fractional", (weight, cores[0]), (cores[0].tensor,))
    start = _unify_indices((cores[0].indices,), (cores[0].indices[::-1],), bound) if cores else {}
    return next(_candidate_forms(product.limits, start, ends, rest, cores, directions), None)


def _candidate_forms(
    limits: Any, start: Any, ends: Sequence[Expr], rest: Sequence[Expr], cores: Sequence[Expr], directions: Any
) -> Iterator[GramForm]:
    """Yield formulas of the second derivative, along ``directions``, of a product summed over ``limits``, which show
    its sign (`GramForm`). There is one for each exchange of indices that leaves the product unchanged and splits it in
    two halves.

    The exchanges extend ``start``. The factors of the product are the variables ``ends``, at most one entry of an
    inverse (``cores``), and others (``rest``).
    """
    ranges = {i: (low, high) for i, low, high in limits}
    for exchange in _index_exchanges(start, ends, list(ranges)):
        if all(ranges[a] == ranges[b] for a, b in exchange.items()) and _is_invariant(rest, exchange):
            found = _split_in_halves(limits, exchange, ends, rest, cores)
            if found is not None:
                yield _form_of_halves(found, exchange, directions, cores)


def _cubic_form(product: SummedProduct, ends: Sequence[Expr], directions: Mapping[Any, Any]) -> GramForm | None:
    """Return the second derivative, along `directions`, of a summed `product` with three variable factors `ends`, such
    as ``A[i,j]*A[j,k]*A[k,i]``, as a quadratic form. None if it cannot be written as one.

    It is nonnegative if its weight is and its ``middle_matrices`` are positive definite.

    ``trace(S @ S @ S)`` has the second derivative ``6*trace(V @ S @ V)``.
    """
    rest = list((Counter(product.factors) - Counter(ends)).elements())
    found: list[GramForm] = []
    for n, middle in enumerate(ends):
        others = [*ends[:n], *ends[n + 1 :]]
        forms = _candidate_forms(product.limits, {}, others, [*rest, middle], [], directions)
        form = next((form for form in forms if getattr(middle, "tensor", None) in form.middle_matrices), None)
        if form is None:
            return None
        found.append(form)
    middle_matrices = tuple(dict.fromkeys(tensor for form in found for tensor in form.middle_matrices))
    factors = tuple(factor for form in found for factor in form.factors)
    return GramForm(
        found[0].weight, sympy.Add(*(form.form for form in found)), "quadratic form", factors, middle_matrices
    )


# ---------------------------------------------------------------------------- products


def _flatten_product(scalar: Expr) -> SummedProduct:
    """Return ``scalar`` as one sum over indices of a product of factors; bound indices get new names."""
    limits: list[IndexRange] = []
    factors: list[Expr] = []
    stack = [scalar]
    while stack:
        node = stack.pop()
        if isinstance(node, IndexedSum):
            names = Substitution((limit[0], Dummy(limit[0].name, integer=True)) for limit in node.args[1:])
            limits += [IndexRange(*(end.xreplace(names) for end in limit)) for limit in node.limits]
            stack.append(node.args[0].xreplace(names))
        elif isinstance(node, sympy.Mul):
            stack += node.args
        elif isinstance(node, sympy.Pow) and node.exp == 2:
            stack += [node.base, node.base]
        else:
            factors.append(_canonical_entry(node))
    return SummedProduct(tuple(limits), tuple(factors))


def _canonical_entry(factor: Expr) -> Expr:
    """Return an entry of a symmetric matrix, or of its inverse, with its indices sorted; any other factor unchanged."""
    if not isinstance(factor, TensorEntry) or len(factor.indices) != 2:
        return factor
    is_sorted = is_symmetric(factor.tensor.args[0] if isinstance(factor.tensor, TensorInverse) else factor.tensor)
    return factor.tensor[tuple(sorted(factor.indices, key=sympy.default_sort_key))] if is_sorted else factor


def _indices_of(end: Expr) -> tuple[Expr, ...]:
    """Return the indices of the tensor entry ``end``, such as ``(i, j)`` for ``A[i, j]``; () if ``end`` is a scalar
    variable.
    """
    return tuple(end.indices) if isinstance(end, TensorEntry) else ()


def _is_same_variable(ends: Sequence[Expr]) -> bool:
    """Return whether all of ``ends``, which are symbols or entries, are the same symbol or entries of one tensor."""
    return len({end.tensor if isinstance(end, TensorEntry) else end for end in ends}) <= 1


# ---------------------------------------------------------------------------- the exchange


def _unify_indices(
    left: Sequence[tuple[Expr, ...]], right: Sequence[tuple[Expr, ...]], bound: Sequence[Expr], start: Any = None
) -> dict[Expr, Expr] | None:
    """Return the exchange of indices, such as ``{i: j, j: i}``, that maps the index tuples ``left`` to ``right`` and
    back; None if there is none. It contains the pairs in ``start``, and changes only indices in ``bound``.
    """
    exchange: dict[Expr, Expr] = dict(start or {})
    for a, b in zip(sum(left, ()), sum(right, ()), strict=True):
        if a not in bound or b not in bound:
            if a != b or a.free_symbols & set(bound):
                return None
        elif exchange.setdefault(a, b) != b or exchange.setdefault(b, a) != a:
            return None
    return exchange


def _index_exchanges(start: Any, ends: Sequence[Expr], bound: Sequence[Expr]) -> Iterator[dict[Expr, Expr]]:
    """Yield the exchanges of ``bound`` indices that map one of the two entries ``ends`` to the other, as the exchange
    of i and j maps ``x[i]`` to ``x[j]``. Each contains the pairs in ``start``.

    For an entry of a symmetric matrix, both orders of its indices are tried.
    """
    if start is None or not _is_same_variable(ends):
        return
    if not ends:
        yield from _complete_involutions(start, bound)
        return
    first, second = map(_indices_of, ends)
    orders = [second, second[::-1]] if getattr(getattr(ends[0], "tensor", None), "symmetric", False) else [second]
    for order in orders:
        exchange = _unify_indices([first], [order], bound, start)
        if exchange is not None:
            yield from _complete_involutions(exchange, bound)


def _complete_involutions(start: dict[Expr, Expr], bound: Sequence[Expr]) -> Iterator[dict[Expr, Expr]]:
    """Yield all involutions of the ``bound`` indices that extend ``start``, as dictionaries that map each index to its
    partner. An index may be its own partner.
    """
    rest = [i for i in bound if i not in start]
    if not rest:
        yield start
        return
    for other in rest:
        yield from _complete_involutions({**start, rest[0]: other, other: rest[0]}, bound)


def _is_invariant(factors: Sequence[Expr], exchange: Mapping[Expr, Expr]) -> bool:
    """Return whether ``exchange`` maps the product of ``factors`` to itself."""
    return Counter(_canonical_entry(f.xreplace(Substitution(exchange))) for f in factors) == Counter(factors)


class _HalvedProduct(NamedTuple):
    """A sum of products ``weight*half*half'*links``: an exchange of indices maps ``half`` to ``half'``, and ``links``
    are matrix entries ``M[i, i']`` with an index of each half. Without links it is a sum of squares, else a quadratic
    form with the matrix ``M``.
    """

    fixed_limits: tuple[Any, ...]
    half_limits: tuple[Any, ...]
    half: tuple[Expr, ...]
    weight: Expr
    links: tuple[Expr, ...]


def _split_in_halves(limits: Any, exchange: Any, ends: Any, rest: Any, cores: Any) -> _HalvedProduct | None:
    """Split the factors of a summed product such as ``x[i]*M[i, j]*x[j]`` in two halves that ``exchange`` maps to each
    other, here ``x[i]`` and ``x[j]``, and entries that link them, here ``M[i, j]``. None if there are no such halves.

    ``limits`` are the ranges of its indices; ``ends``, ``rest`` and ``cores`` its factors.
    """
    moved_indices = {a for a, b in exchange.items() if a != b}
    links = [f for f in rest if isinstance(f, TensorEntry) and _links_both_ends(f, exchange)]
    groups: list[set[Expr]] = [{a} for a in moved_indices]
    for factor in [*ends, *(f for f in rest if f not in links)]:
        touched = [g for g in groups if g & factor.free_symbols]
        if touched:
            groups = [g for g in groups if g not in touched] + [set().union(*touched)]
    side: set[Expr] = set()
    first = (ends[0].free_symbols if ends else set()) | (cores[0].indices[0].free_symbols if cores else set())
    for group in sorted(groups, key=lambda g: (not g & first, sorted(map(str, g)))):
        image = {exchange[a] for a in group}
        if image & group or (group & side and not group <= side):
            return None
        if not image <= side:
            side |= group
    if cores and cores[0].indices[0] not in side:
        return None
    own = [f for f in rest if f not in links and f.free_symbols & side]
    if ends:
        own.append(ends[0])
    weight = sympy.Mul(*(f for f in rest if not f.free_symbols & moved_indices))
    fixed_limits = tuple(limit for limit in limits if limit[0] not in moved_indices)
    return _HalvedProduct(
        fixed_limits, tuple(limit for limit in limits if limit[0] in side), tuple(own), weight, tuple(links)
    )


def _links_both_ends(factor: Expr, exchange: Mapping[Expr, Expr]) -> bool:
    """Return whether ``factor`` is a matrix entry ``M[i, j]`` with two different indices that are exchanged with each
    other: ``exchange`` maps i to j.
    """
    a, b = factor.indices if len(factor.indices) == 2 else (None, None)
    return a in exchange and exchange[a] == b and a != b


def _form_of_halves(
    found: _HalvedProduct, exchange: Mapping[Expr, Expr], directions: Mapping[Any, Any], cores: Sequence[Expr]
) -> GramForm:
    """Return the second derivative of the product ``found`` along ``directions`` as a `GramForm`, a formula that shows
    its sign.

    ``found`` is a sum of products ``weight*half*half'*links``, where the two halves differ only in indices that
    ``exchange`` swaps. ``cores`` has the entry of an inverse among the factors, if any.
    """
    half = sympy.Mul(*(_differentiate_factor(f, directions) for f in found.half))
    if cores:
        return _matrix_fractional_form(found, exchange, directions, cores[0], half)
    linear = _sum_over(half, found.half_limits)
    if not found.links:
        form = found.weight * linear**2
        return GramForm(found.weight, 2 * _sum_over(form, found.fixed_limits), "Gram form", (found.weight, linear), ())
    other = half.xreplace(Substitution(exchange))
    both = [*found.half_limits, *((exchange[i], low, high) for i, low, high in found.half_limits)]
    form = found.weight * _sum_over(half * other * sympy.Mul(*found.links), both)
    return GramForm(
        found.weight,
        2 * _sum_over(form, found.fixed_limits),
        "quadratic form",
        (found.weight, linear),
        _link_matrices(found),
    )


def _matrix_fractional_form(
    found: _HalvedProduct, exchange: Mapping[Expr, Expr], directions: Mapping[Any, Any], core: Expr, half: Expr
) -> GramForm:
    """Return the second derivative of the product ``found``, ``w*b' inv(M) b``, as ``2*w*r' inv(M) r`` with ``r = v - V
    inv(M) b``. Here v and V are the derivatives of b and M, given by `directions`.

    ``core`` is the entry of ``inv(M)``, ``half`` is v; ``exchange`` swaps the indices of both b.

    Indices of links stay outside the residual, which is one vector for each of their values.
    """
    (a, _), inverse = core.indices, core.tensor
    size, value = inverse.shape[0], sympy.Mul(*found.half)
    p, q, s = (Dummy(name, integer=True) for name in "pqs")
    linked_indices = {index for link in found.links for index in link.indices}
    outer, inner = (
        [m for m in found.half_limits if (m[0] in linked_indices) == is_linked] for is_linked in (True, False)
    )
    if half == value:  # the ends are constant
        change = S.Zero
    elif a in linked_indices:
        change = sympy.KroneckerDelta(p, a) * _sum_over(half, inner)
    else:
        change = _sum_over(half, [m for m in inner if m[0] != a]).xreplace(Substitution({a: p}))
    matrix_change = _matrix_entry_derivative(inverse.args[0], directions, p, q)
    residual = change - IndexedSum(matrix_change * inverse[q, a] * value, (q, 0, size - 1), *inner)
    exchanged = Substitution({p: s, **{i: exchange[i] for i, _, _ in outer}})
    both = [(p, 0, size - 1), (s, 0, size - 1), *outer, *((exchange[i], low, high) for i, low, high in outer)]
    form = IndexedSum(sympy.Mul(*found.links) * residual * inverse[p, s] * residual.xreplace(exchanged), *both)
    form = 2 * _sum_over(found.weight * form, found.fixed_limits)
    return GramForm(
        found.weight, form, "matrix fractional", (found.weight, residual), (inverse, *_link_matrices(found))
    )


def _link_matrices(found: _HalvedProduct) -> tuple[Any, ...]:
    """Return the matrices ``M`` of the links of `found`: factors ``M[i, i']`` that couple an index i of one half of the
    product with the corresponding index i' of the other half.
    """
    return tuple(link.tensor for link in found.links)


def _differentiate_factor(factor: Expr, directions: Mapping[Any, Any]) -> Expr:
    """Return the derivative of ``factor`` along ``directions``, a dictionary from variables to their directions. A
    variable becomes its direction, and an entry of a variable the entry of the direction; any other factor is returned
    unchanged.
    """
    if isinstance(factor, TensorEntry) and factor.tensor in directions:
        return directions[factor.tensor][factor.indices]
    return directions.get(factor, factor)


def _matrix_residual(inverse: Any, directions: Mapping[Any, Any], a: Expr) -> Expr:
    """Return ``r' inv(S) r``, half of the second derivative of ``inv(S)[a, a]``, where ``r`` is column ``a`` of
    ``V inv(S)``. ``inverse`` is ``inv(S)``, and V is the derivative of the matrix S along ``directions``.
    """
    p, q, s = (Dummy(name, integer=True) for name in "pqs")
    size = inverse.shape[0]
    residual = IndexedSum(_matrix_entry_derivative(inverse.args[0], directions, p, q) * inverse[q, a], (q, 0, size - 1))
    other = residual.xreplace(Substitution({p: s}))
    return IndexedSum(residual * inverse[p, s] * other, (p, 0, size - 1), (s, 0, size - 1))


def _sum_over(body: Expr, limits: Sequence[Any]) -> Expr:
    """Return the sum of ``body`` over ``limits``; ``body`` itself without limits."""
    return IndexedSum(body, *limits) if limits else body
