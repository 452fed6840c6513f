"""Directional derivatives, and quadratic forms: squares by an exchange of both ends, and positive definite matrices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import sympy
from sympy import Dummy, Expr, S

from sympy_tensordiff.convex.affine_parts import Variables, inverse_of
from sympy_tensordiff.convex.matrices import entry, is_affine, is_symmetric
from sympy_tensordiff.derivative.api import jvp
from sympy_tensordiff.structure.terms import written_out
from sympy_tensordiff.symbolic.indices import Substitution
from sympy_tensordiff.symbolic.matrix_functions import TensorInverse
from sympy_tensordiff.symbolic.sums import IndexedMax, IndexedMin, IndexedSum
from sympy_tensordiff.symbolic.tensors import TensorEntry


def slopes_along(directions: Mapping[Any, Any], matrices: Mapping[Expr, Any]) -> Callable[[Expr], Expr]:
    """The directional derivative of scalars, by the pushforward; at a kink it speaks for one side.

    What stands for the logarithm of a determinant changes by ``trace(inv(S)*V)``.

    Examples
    --------
    >>> import sympy
    >>> x, v = sympy.symbols("x v", real=True)
    >>> slopes_along({x: v}, {})(sympy.exp(2*x))
    2*v*exp(2*x)
    """
    moving = dict(directions)
    for symbol, matrix in matrices.items():
        p, q = (Dummy(name, integer=True) for name in "pq")
        change = _change(matrix, directions, q, p)
        if change != 0:
            limits = [(index, 0, matrix.shape[0] - 1) for index in (p, q)]
            moving[symbol] = IndexedSum(TensorInverse(matrix)[p, q] * change, *limits)
    return lambda scalar: written_out(jvp(scalar, tuple(moving), tuple(moving.values())))


def _change(matrix: Any, directions: Mapping[Any, Any], row: Expr, column: Expr) -> Expr:
    """The directional derivative of an entry of an affine matrix."""
    own: Any = entry(matrix, row, column)
    return written_out(jvp(own, tuple(directions), tuple(directions.values())))


def active(node: Expr, value: Callable[[Expr], Expr | None]) -> Expr:
    """The value of that argument of a maximum which is equal to it, away from ties."""
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


MOST_INDICES = 8
"""A form with more summed indices is not searched for an exchange."""


class Gram(NamedTuple):
    """``form`` is 2*sum(weight*square), or of a form of the ``tied`` matrices, each at an index and its exchange."""

    weight: Expr
    form: Expr
    rule: str
    factors: tuple[Expr, ...]
    tied: tuple[Any, ...]


class Product(NamedTuple):
    """A sum over ``limits`` of a product of ``factors``."""

    limits: tuple[tuple[Expr, Expr, Expr], ...]
    factors: tuple[Expr, ...]


def gram_form(by: Variables, directions: Mapping[Any, Any], scalar: Expr) -> Gram | None:
    """The second derivative of a sum of products as a Gram form, or None where no exchange keeps the summand.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> from sympy_tensordiff.structure.terms import written_out
    >>> n, = td.indices("n,")
    >>> A, x, v = td.TensorSymbol("A", (n, n)), td.TensorSymbol("x", n), td.TensorSymbol("v", n)
    >>> gram_form(Variables((x,)), {x: v}, written_out(td.dot(x, A @ A.T @ x))).rule
    'Gram form'
    >>> gram_form(Variables((x,)), {x: v}, written_out(td.dot(x, A @ x))) is None
    True
    """
    product = _product(scalar)
    cores = [f for f in product.factors if is_affine(by, inverse_of(f))]
    ends = [f for f in product.factors if by.degree(f) and f not in cores]
    bound = [i for i, _, _ in product.limits]
    rectangular = not any(part.free_symbols & set(bound) for limit in product.limits for part in limit[1:])
    if not rectangular or len(bound) > MOST_INDICES or not all(map(by.is_variable, ends)):
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
        return Gram(weight, form, "matrix fractional", (weight, cores[0]), (cores[0].tensor,))
    start = _unified((cores[0].indices,), (cores[0].indices[::-1],), bound) if cores else {}
    return next(_forms_of(product.limits, start, ends, rest, cores, directions), None)


def _forms_of(
    limits: Any, start: Any, ends: Sequence[Expr], rest: Sequence[Expr], cores: Sequence[Expr], directions: Any
) -> Iterator[Gram]:
    """The forms of a product, one for each exchange of its ends that keeps it."""
    ranges = {i: (low, high) for i, low, high in limits}
    for swap in _exchanges(start, ends, list(ranges)):
        if all(ranges[a] == ranges[b] for a, b in swap.items()) and _is_invariant(rest, swap):
            found = _split(limits, swap, ends, rest, cores)
            if found is not None:
                yield _written(found, swap, directions, cores)


def _cubic_form(product: Product, ends: Sequence[Expr], directions: Mapping[Any, Any]) -> Gram | None:
    """The form of a product of three entries of positive matrices: each in turn ties the other two.

    ``trace(S @ S @ S)`` has the second derivative ``6*trace(V @ S @ V)``.
    """
    rest = list((Counter(product.factors) - Counter(ends)).elements())
    found: list[Gram] = []
    for n, held in enumerate(ends):
        others = [*ends[:n], *ends[n + 1 :]]
        forms = _forms_of(product.limits, {}, others, [*rest, held], [], directions)
        form = next((form for form in forms if getattr(held, "tensor", None) in form.tied), None)
        if form is None:
            return None
        found.append(form)
    tied = tuple(dict.fromkeys(tensor for form in found for tensor in form.tied))
    factors = tuple(factor for form in found for factor in form.factors)
    return Gram(found[0].weight, sympy.Add(*(form.form for form in found)), "quadratic form", factors, tied)


# ---------------------------------------------------------------------------- products


def _product(scalar: Expr) -> Product:
    """A scalar as one sum of products, each sum under indices of its own."""
    limits: list[tuple[Expr, Expr, Expr]] = []
    factors: list[Expr] = []
    stack = [scalar]
    while stack:
        node = stack.pop()
        if isinstance(node, IndexedSum):
            names = Substitution((limit[0], Dummy(limit[0].name, integer=True)) for limit in node.args[1:])
            limits += [(names[i], low.xreplace(names), high.xreplace(names)) for i, low, high in node.args[1:]]
            stack.append(node.args[0].xreplace(names))
        elif isinstance(node, sympy.Mul):
            stack += node.args
        elif isinstance(node, sympy.Pow) and node.exp == 2:
            stack += [node.base, node.base]
        else:
            factors.append(_ordered(node))
    return Product(tuple(limits), tuple(factors))


def _ordered(factor: Expr) -> Expr:
    """An entry of a symmetric matrix, or of its inverse, with its indices in one order."""
    if not isinstance(factor, TensorEntry) or len(factor.indices) != 2:
        return factor
    is_sorted = is_symmetric(factor.tensor.args[0] if isinstance(factor.tensor, TensorInverse) else factor.tensor)
    return factor.tensor[tuple(sorted(factor.indices, key=sympy.default_sort_key))] if is_sorted else factor


def _indices(end: Expr) -> tuple[Expr, ...]:
    return tuple(end.indices) if isinstance(end, TensorEntry) else ()


def _tensor(ends: Sequence[Expr]) -> bool:
    """Whether two ends are of one variable."""
    return len({end.tensor if isinstance(end, TensorEntry) else end for end in ends}) <= 1


# ---------------------------------------------------------------------------- the exchange


def _unified(
    left: Sequence[tuple[Expr, ...]], right: Sequence[tuple[Expr, ...]], bound: Sequence[Expr], start: Any = None
) -> dict[Expr, Expr] | None:
    """The exchange of bound indices that takes ``left`` to ``right`` and back, or None."""
    swap: dict[Expr, Expr] = dict(start or {})
    for a, b in zip(sum(left, ()), sum(right, ()), strict=True):
        if a not in bound or b not in bound:
            if a != b or a.free_symbols & set(bound):
                return None
        elif swap.setdefault(a, b) != b or swap.setdefault(b, a) != a:
            return None
    return swap


def _exchanges(start: Any, ends: Sequence[Expr], bound: Sequence[Expr]) -> Iterator[dict[Expr, Expr]]:
    """The exchanges that take one end to the other; an entry of a symmetric matrix has two orders of its indices."""
    if start is None or not _tensor(ends):
        return
    if not ends:
        yield from _involutions(start, bound)
        return
    first, second = map(_indices, ends)
    orders = [second, second[::-1]] if getattr(getattr(ends[0], "tensor", None), "symmetric", False) else [second]
    for order in orders:
        swap = _unified([first], [order], bound, start)
        if swap is not None:
            yield from _involutions(swap, bound)


def _involutions(start: dict[Expr, Expr], bound: Sequence[Expr]) -> Iterator[dict[Expr, Expr]]:
    """All exchanges of indices that continue one."""
    rest = [i for i in bound if i not in start]
    if not rest:
        yield start
        return
    for other in rest:
        yield from _involutions({**start, rest[0]: other, other: rest[0]}, bound)


def _is_invariant(factors: Sequence[Expr], swap: Mapping[Expr, Expr]) -> bool:
    """Whether an exchange takes the product of factors to itself."""
    return Counter(_ordered(f.xreplace(Substitution(swap))) for f in factors) == Counter(factors)


class _Split(NamedTuple):
    """Limits that stay and those of one end, the factors of that end, of the weight, and of both ends."""

    fixed: tuple[Any, ...]
    moved: tuple[Any, ...]
    end: tuple[Expr, ...]
    weight: Expr
    ties: tuple[Expr, ...]


def _split(limits: Any, swap: Any, ends: Any, rest: Any, cores: Any) -> _Split | None:
    """The factors by the end they belong to; None where a factor that is no tie holds indices of both ends."""
    moved = {a for a, b in swap.items() if a != b}
    ties = [f for f in rest if isinstance(f, TensorEntry) and _is_tie(f, swap)]
    groups: list[set[Expr]] = [{a} for a in moved]
    for factor in [*ends, *(f for f in rest if f not in ties)]:
        touched = [g for g in groups if g & factor.free_symbols]
        if touched:
            groups = [g for g in groups if g not in touched] + [set().union(*touched)]
    side: set[Expr] = set()
    first = (ends[0].free_symbols if ends else set()) | (cores[0].indices[0].free_symbols if cores else set())
    for group in sorted(groups, key=lambda g: (not g & first, sorted(map(str, g)))):
        image = {swap[a] for a in group}
        if image & group or (group & side and not group <= side):
            return None
        if not image <= side:
            side |= group
    if cores and cores[0].indices[0] not in side:
        return None
    own = [f for f in rest if f not in ties and f.free_symbols & side]
    if ends:
        own.append(ends[0])
    weight = sympy.Mul(*(f for f in rest if not f.free_symbols & moved))
    fixed = tuple(limit for limit in limits if limit[0] not in moved)
    return _Split(fixed, tuple(limit for limit in limits if limit[0] in side), tuple(own), weight, tuple(ties))


def _is_tie(factor: Expr, swap: Mapping[Expr, Expr]) -> bool:
    """Whether a factor is an entry of a matrix at an index and what this is exchanged with."""
    a, b = factor.indices if len(factor.indices) == 2 else (None, None)
    return a in swap and swap[a] == b and a != b


def _written(found: _Split, swap: Mapping[Expr, Expr], directions: Mapping[Any, Any], cores: Sequence[Expr]) -> Gram:
    """The second derivative of a form whose factors are split."""
    end = sympy.Mul(*(_along(f, directions) for f in found.end))
    if cores:
        return _fractional(found, swap, directions, cores[0], end)
    linear = _summed(end, found.moved)
    if not found.ties:
        form = found.weight * linear**2
        return Gram(found.weight, 2 * _summed(form, found.fixed), "Gram form", (found.weight, linear), ())
    other = end.xreplace(Substitution(swap))
    both = [*found.moved, *((swap[i], low, high) for i, low, high in found.moved)]
    form = found.weight * _summed(end * other * sympy.Mul(*found.ties), both)
    return Gram(found.weight, 2 * _summed(form, found.fixed), "quadratic form", (found.weight, linear), _tensors(found))


def _fractional(found: _Split, swap: Mapping[Expr, Expr], directions: Mapping[Any, Any], core: Expr, end: Expr) -> Gram:
    """The form of ``b' inv(M) b``: that of ``inv(M)`` with the residual ``v - V inv(M) b``.

    Indices of ties stay outside of the residual, which is one vector for each of their values.
    """
    (a, _), inverse = core.indices, core.tensor
    size, value = inverse.shape[0], sympy.Mul(*found.end)
    p, q, s = (Dummy(name, integer=True) for name in "pqs")
    tied = {index for tie in found.ties for index in tie.indices}
    outer, loose = ([m for m in found.moved if (m[0] in tied) == is_tied] for is_tied in (True, False))
    if end == value:  # the ends are constant
        change = S.Zero
    elif a in tied:
        change = sympy.KroneckerDelta(p, a) * _summed(end, loose)
    else:
        change = _summed(end, [m for m in loose if m[0] != a]).xreplace(Substitution({a: p}))
    moved = _change(inverse.args[0], directions, p, q)
    residual = change - IndexedSum(moved * inverse[q, a] * value, (q, 0, size - 1), *loose)
    exchanged = Substitution({p: s, **{i: swap[i] for i, _, _ in outer}})
    both = [(p, 0, size - 1), (s, 0, size - 1), *outer, *((swap[i], low, high) for i, low, high in outer)]
    form = IndexedSum(sympy.Mul(*found.ties) * residual * inverse[p, s] * residual.xreplace(exchanged), *both)
    form = 2 * _summed(found.weight * form, found.fixed)
    return Gram(found.weight, form, "matrix fractional", (found.weight, residual), (inverse, *_tensors(found)))


def _tensors(found: _Split) -> tuple[Any, ...]:
    return tuple(tie.tensor for tie in found.ties)


def _along(factor: Expr, directions: Mapping[Any, Any]) -> Expr:
    """The direction in place of a variable."""
    if isinstance(factor, TensorEntry) and factor.tensor in directions:
        return directions[factor.tensor][factor.indices]
    return directions.get(factor, factor)


def _matrix_residual(inverse: Any, directions: Mapping[Any, Any], a: Expr) -> Expr:
    """``r' inv(S) r`` with ``r`` the column ``a`` of ``V inv(S)``."""
    p, q, s = (Dummy(name, integer=True) for name in "pqs")
    size = inverse.shape[0]
    residual = IndexedSum(_change(inverse.args[0], directions, p, q) * inverse[q, a], (q, 0, size - 1))
    other = residual.xreplace(Substitution({p: s}))
    return IndexedSum(residual * inverse[p, s] * other, (p, 0, size - 1), (s, 0, size - 1))


def _summed(body: Expr, limits: Sequence[Any]) -> Expr:
    return IndexedSum(body, *limits) if limits else body
