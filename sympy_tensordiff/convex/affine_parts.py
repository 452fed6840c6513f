"""A scalar as a smooth function of affine parts and of sums, roots and extrema of the variables.

``log(1 + exp(-y[i]*z)) + w`` with ``z`` affine in the variables is ``g(z, w)``. Hessians are read off ``g`` by the
chain rule: an affine part has a first derivative and no second.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import sympy
from sympy import Dummy, Expr, S

from sympy_tensordiff.symbolic.matrix_functions import TensorDeterminant, TensorInverse
from sympy_tensordiff.symbolic.scalar_functions import sigmoid, softplus
from sympy_tensordiff.symbolic.sums import IndexedReduction, IndexedSum
from sympy_tensordiff.symbolic.tensors import TensorEntry
from sympy_tensordiff.symbolic.traversal import postorder

SMOOTH: frozenset[Any] = frozenset({
    *(sympy.Add, sympy.Mul, sympy.Pow, sympy.exp, sympy.log, sympy.sin, sympy.cos, sympy.sinh, sympy.cosh, sympy.tanh),
    *(sympy.atan, sympy.erf, sigmoid, softplus),
})  # fmt: skip
"""What `g` may be made of: twice differentiable wherever its arguments are in the domain of the function."""

KINKS: frozenset[Any] = frozenset({sympy.Max, sympy.Min, sympy.Abs})


class Cut(NamedTuple):
    """``function`` of symbols that stand for affine ``leaves`` and for ``inner`` scalars of other kinds."""

    function: Expr
    leaves: dict[Expr, Expr]
    inner: dict[Expr, Expr]

    @property
    def back(self) -> dict[Expr, Expr]:
        """What the symbols stand for."""
        return {**self.leaves, **self.inner}


class _Parts(NamedTuple):
    """What a cut has found: leaves and inner scalars by their symbols, and the symbols of both."""

    leaves: dict[Expr, Expr]
    inner: dict[Expr, Expr]
    symbols: dict[Expr, Expr]

    def symbol(self, node: Expr, kind: dict[Expr, Expr], name: str) -> Expr:
        """The symbol for a node, made at its first use."""
        if node not in self.symbols:
            self.symbols[node] = Dummy(name, real=True)
            kind[self.symbols[node]] = node
        return self.symbols[node]


class Variables:
    """The variables of one certificate, and how scalars depend on them.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> n, i = td.indices("n i")
    >>> x, y = td.TensorSymbol("x", n), td.TensorSymbol("y", n)
    >>> by = Variables((x,))
    >>> by.degree(y[i]), by.degree(y[i]*x[i] + 1), by.degree(x[i]**2)
    (0, 1, 2)
    """

    def __init__(self, variables: Sequence[Any], curved: Sequence[Expr] = ()) -> None:
        self.variables = tuple(variables)
        self._degrees: dict[Expr, int] = dict.fromkeys(curved, 2)

    def degree(self, scalar: Expr) -> int:
        """0 where no variable occurs, 1 where the scalar is affine in them, 2 for all others."""
        for node in postorder(scalar, self._degrees, self.arguments):
            self._degrees[node] = self._degree(node, [self._degrees[a] for a in self.arguments(node)])
        return self._degrees[scalar]

    def arguments(self, node: Expr) -> tuple[Expr, ...]:
        """The scalars that a node is computed from."""
        if isinstance(node, IndexedReduction):
            return (node.args[0],)
        return () if isinstance(node, TensorEntry | TensorDeterminant | sympy.Piecewise) else node.args

    def is_variable(self, node: Expr) -> bool:
        """Whether a node is a scalar variable or an entry of a variable."""
        return (node.tensor if isinstance(node, TensorEntry) else node) in self.variables

    def _degree(self, node: Expr, degrees: list[int]) -> int:
        if self.is_variable(node):
            return 1
        if not degrees:
            return 2 * any(node.has(v) for v in self.variables)
        if isinstance(node, IndexedReduction) and self.in_limits(node):
            return 2
        if isinstance(node, sympy.Add | IndexedSum):
            return max(degrees)
        if isinstance(node, sympy.Mul):
            return min(sum(degrees), 2)
        return 2 * any(degrees)

    def in_limits(self, node: Expr) -> bool:
        """Whether a variable occurs in the limits of a reduction."""
        return any(part.has(v) for limit in node.args[1:] for part in limit for v in self.variables)

    # ---------------------------------------------------------------- the cut

    def cut(
        self, scalar: Expr, opaque: Iterable[Expr] = (), *, finest: bool = False, through: frozenset[Any] = SMOOTH
    ) -> Cut:
        """The scalar as a function of affine parts, made of the functions ``through``; all others are inner scalars.

        What is ``opaque`` is an inner scalar as well. An affine part is the largest one, without its numbers; with
        ``finest``, each of its terms is a part.
        """
        opaque = set(opaque)
        parts = _Parts({}, {}, {})
        done: dict[Expr, Expr] = {}

        def is_inner(node: Expr) -> bool:
            return node in opaque or node.func not in through

        for node in postorder(scalar, done, lambda n: () if self.degree(n) < 2 or is_inner(n) else n.args):
            if self.degree(node) == 0:
                done[node] = node
            elif self.degree(node) == 1:
                done[node] = self._affine(node, parts, finest)
            elif is_inner(node):
                done[node] = parts.symbol(node, parts.inner, "s")
            else:
                powers = _powers_of_absolute_values(node, done)
                done[node] = node.func(*(powers.get(a, done[a]) for a in node.args))
        used = done[scalar].free_symbols
        return Cut(done[scalar], *({s: kind[s] for s in kind if s in used} for kind in (parts.leaves, parts.inner)))

    def _affine(self, node: Expr, parts: _Parts, finest: bool) -> Expr:
        """An affine scalar as a number plus a multiple of a part."""
        if self.degree(node) == 0:
            return node
        if isinstance(node, sympy.Mul):
            return sympy.Mul(*(self._affine(a, parts, finest) for a in node.args))
        if not isinstance(node, sympy.Add):
            return parts.symbol(node, parts.leaves, "a")
        moving = [a for a in node.args if self.degree(a)]
        numbers = [a for a in node.args if a.is_Rational]
        if finest or (len(moving) == 1 and len(numbers) == len(node.args) - 1):
            return sympy.Add(*(self._affine(a, parts, finest) for a in node.args))
        first = min(moving, key=sympy.default_sort_key).as_coeff_Mul()[0]
        first = first if first.is_Rational else S.One
        total = node - sympy.Add(*numbers)
        scaled = sympy.Add(*(a / first for a in sympy.Add.make_args(total)))
        return first * parts.symbol(scaled, parts.leaves, "a") + sympy.Add(*numbers)


def _powers_of_absolute_values(product: Expr, done: Mapping[Expr, Expr]) -> dict[Expr, Expr]:
    """The even powers in ``a**2*Abs(a)`` as those of what stands for the absolute value: so SymPy writes its cube."""
    if not isinstance(product, sympy.Mul):
        return {}
    even = {a.base: a for a in product.args if isinstance(a, sympy.Pow) and a.exp.is_Integer and a.exp.is_even}
    found: dict[Expr, Expr] = {}
    for factor in product.args:
        absolute = factor.base if isinstance(factor, sympy.Pow) else factor
        if isinstance(absolute, sympy.Abs) and absolute in done:  # an opaque power of it is not cut
            powers = [even.get(a, even.get(-a)) for a in sympy.Mul.make_args(absolute.args[0])]
            if powers[0] and all(power and power.exp == powers[0].exp for power in powers):
                found |= {**dict.fromkeys(powers, S.One), powers[0]: done[absolute] ** powers[0].exp}
    return found


def in_one_sum(by: Variables, scalar: Expr) -> Expr:
    """A scalar whose terms are multiples of sums over equal ranges, with one sum for each range."""
    limits: dict[Any, Any] = {}
    bodies: dict[Any, list[Expr]] = {}
    for term in sympy.Add.make_args(scalar):
        factors = sympy.Mul.make_args(term)
        sums = [f for f in factors if isinstance(f, IndexedSum) and by.degree(f)]
        rest = sympy.Mul(*(f for f in factors if f not in sums))
        key: Any = term
        if len(sums) == 1 and not by.degree(rest):
            body, *own = sums[0].args
            ends, mine = tuple(end for limit in own for end in limit[1:]), {i for i, *_ in own}
            if not mine & set().union(rest.free_symbols, *(end.free_symbols for end in ends)):
                first = limits.setdefault(ends, own)
                names = {i: j for (i, *_), (j, *_) in zip(own, first, strict=True) if i != j}
                if not (body.atoms(sympy.Symbol) | rest.free_symbols) & set(names.values()):
                    key, term = ends, rest * body.xreplace(names)
        bodies.setdefault(key, []).append(term)
    if all(len(each) == 1 for each in bodies.values()):
        return scalar
    return sympy.Add(*(IndexedSum(sympy.Add(*b), *limits[key]) if key in limits else b[0] for key, b in bodies.items()))


def inverse_of(entry: Expr) -> Any:
    """The matrix of an entry of an inverse, else None."""
    if isinstance(entry, TensorEntry) and isinstance(entry.tensor, TensorInverse):
        return entry.tensor.args[0]
    return None
