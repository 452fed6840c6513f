"""Decompose a scalar into a smooth function of affine parts and of inner sums, roots and extrema.

``log(1 + exp(-y[i]*z)) + w`` with ``z`` affine in the variables is ``g(z, w)``. Hessians are read off ``g`` by the
chain rule: an affine part has a first derivative and no second.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import sympy
from sympy import Dummy, Expr, S

from sympy_tensordiff.symbolic.expressions.traversal import postorder
from sympy_tensordiff.symbolic.index_notation.sums import IndexedReduction, IndexedSum
from sympy_tensordiff.symbolic.index_notation.tensors import TensorEntry
from sympy_tensordiff.symbolic.whole_tensors.matrix_functions import TensorDeterminant, TensorInverse
from sympy_tensordiff.symbolic.whole_tensors.scalar_functions import sigmoid, softplus

SMOOTH: frozenset[Any] = frozenset({
    *(sympy.Add, sympy.Mul, sympy.Pow, sympy.exp, sympy.log, sympy.sin, sympy.cos, sympy.sinh, sympy.cosh, sympy.tanh),
    *(sympy.atan, sympy.erf, sigmoid, softplus),
})  # fmt: skip
"""The functions that `g` may contain: twice differentiable inside their domains."""

KINKS: frozenset[Any] = frozenset({sympy.Max, sympy.Min, sympy.Abs})


class Decomposition(NamedTuple):
    """A scalar as a ``function`` of symbols, such as ``exp(t)`` for ``exp(2*x + y)``, and the expressions that the
    symbols stand for: ``affine`` has the symbols of affine expressions, ``inner`` those of all others.
    """

    function: Expr
    affine: dict[Expr, Expr]
    inner: dict[Expr, Expr]

    @property
    def parts(self) -> dict[Expr, Expr]:
        """The expressions that the symbols of ``function`` replace, as a dictionary by symbol."""
        return {**self.affine, **self.inner}


class _PartSymbols(NamedTuple):
    """A table of the symbols that replace subexpressions while one scalar is decomposed. ``affine`` and ``inner`` map
    symbols to subexpressions (affine ones and others), ``symbols`` maps subexpressions to symbols.
    """

    affine: dict[Expr, Expr]
    inner: dict[Expr, Expr]
    symbols: dict[Expr, Expr]

    def symbol(self, node: Expr, kind: dict[Expr, Expr], name: str) -> Expr:
        """Return the symbol that replaces the subexpression ``node``. At the first use, create it with the name
        ``name`` and record it in ``kind``, which is ``self.affine`` or ``self.inner``.
        """
        if node not in self.symbols:
            self.symbols[node] = Dummy(name, real=True)
            kind[self.symbols[node]] = node
        return self.symbols[node]


class Variables:
    """The variables for which a certificate of convexity is made. It computes the degree of a scalar in them: 0 if it
    is constant, 1 if it is affine, else 2.

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
        """Return 0 if no variable occurs in ``scalar``, 1 if it is affine in the variables, 2 otherwise."""
        for node in postorder(scalar, self._degrees, self.arguments):
            self._degrees[node] = self._degree(node, [self._degrees[a] for a in self.arguments(node)])
        return self._degrees[scalar]

    def arguments(self, node: Expr) -> tuple[Expr, ...]:
        """Return the arguments of ``node`` that determine its degree in the variables: only the body of a sum or other
        reduction, none for entries, determinants and `Piecewise`, all arguments of other nodes.
        """
        if isinstance(node, IndexedReduction):
            return (node.args[0],)
        return () if isinstance(node, TensorEntry | TensorDeterminant | sympy.Piecewise) else node.args

    def is_variable(self, node: Expr) -> bool:
        """Return whether ``node`` is a scalar variable or an entry of a variable."""
        return (node.tensor if isinstance(node, TensorEntry) else node) in self.variables

    def _degree(self, node: Expr, degrees: list[int]) -> int:
        """Return the degree of ``node`` in the variables (0 constant, 1 affine, 2 other), given the ``degrees`` of its
        arguments.
        """
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
        """Return whether a variable occurs in the index ranges of the sum (or other reduction) ``node``."""
        return any(part.has(v) for limit in node.args[1:] for part in limit for v in self.variables)

    # ---------------------------------------------------------------- the cut

    def decompose(
        self, scalar: Expr, opaque: Iterable[Expr] = (), *, finest: bool = False, through: frozenset[Any] = SMOOTH
    ) -> Decomposition:
        """Write ``scalar`` as a function of symbols: ``exp(2*x + y)`` as ``exp(t)`` with ``t = 2*x + y``. The symbols
        stand for its largest affine parts, and for parts that are not decomposed: those in ``opaque``, and functions
        that are not in ``through``.

        An affine part is as large as possible, without its numbers; with ``finest``, each of its terms has a symbol of
        its own. Functions that are not in ``through``, and the scalars in ``opaque``, are replaced by a symbol as a
        whole.
        """
        opaque = set(opaque)
        part_symbols = _PartSymbols({}, {}, {})
        replaced: dict[Expr, Expr] = {}

        def is_inner(node: Expr) -> bool:
            """Return whether one symbol replaces ``node`` as a whole: it is in ``opaque``, or its function is not in
            ``through``. Its arguments are then not decomposed.
            """
            return node in opaque or node.func not in through

        for node in postorder(scalar, replaced, lambda n: () if self.degree(n) < 2 or is_inner(n) else n.args):
            if self.degree(node) == 0:
                replaced[node] = node
            elif self.degree(node) == 1:
                replaced[node] = self._replace_affine(node, part_symbols, finest)
            elif is_inner(node):
                replaced[node] = part_symbols.symbol(node, part_symbols.inner, "s")
            else:
                powers = _powers_of_absolute_values(node, replaced)
                replaced[node] = node.func(*(powers.get(a, replaced[a]) for a in node.args))
        used = replaced[scalar].free_symbols
        return Decomposition(
            replaced[scalar], *({s: part for s, part in kind.items() if s in used} for kind in part_symbols[:2])
        )

    def _replace_affine(self, node: Expr, part_symbols: _PartSymbols, finest: bool) -> Expr:
        """Return ``node``, which is affine in the variables, with a new symbol in place of its variable part: ``3 + 2*x
        + 2*y`` becomes ``3 + 2*a`` if ``a`` stands for ``x + y``. With ``finest``, each term gets its own symbol.

        New symbols are recorded in ``part_symbols``.
        """
        if self.degree(node) == 0:
            return node
        if isinstance(node, sympy.Mul):
            return sympy.Mul(*(self._replace_affine(a, part_symbols, finest) for a in node.args))
        if not isinstance(node, sympy.Add):
            return part_symbols.symbol(node, part_symbols.affine, "a")
        moving = [a for a in node.args if self.degree(a)]
        numbers = [a for a in node.args if a.is_Rational]
        if finest or (len(moving) == 1 and len(numbers) == len(node.args) - 1):
            return sympy.Add(*(self._replace_affine(a, part_symbols, finest) for a in node.args))
        first = min(moving, key=sympy.default_sort_key).as_coeff_Mul()[0]
        first = first if first.is_Rational else S.One
        total = node - sympy.Add(*numbers)
        scaled = sympy.Add(*(a / first for a in sympy.Add.make_args(total)))
        return first * part_symbols.symbol(scaled, part_symbols.affine, "a") + sympy.Add(*numbers)


def _powers_of_absolute_values(product: Expr, replaced: Mapping[Expr, Expr]) -> dict[Expr, Expr]:
    """Return ``{a**2: t**2}`` if ``product`` contains ``a**2*Abs(a)``, and ``replaced`` maps ``Abs(a)`` to the symbol
    t; else {}. SymPy writes ``Abs(a)**3`` in this form; the replacement makes it ``t**3``.
    """
    if not isinstance(product, sympy.Mul):
        return {}
    even = {a.base: a for a in product.args if isinstance(a, sympy.Pow) and a.exp.is_Integer and a.exp.is_even}
    found: dict[Expr, Expr] = {}
    for factor in product.args:
        absolute = factor.base if isinstance(factor, sympy.Pow) else factor
        if isinstance(absolute, sympy.Abs) and absolute in replaced:  # opaque powers are not decomposed
            powers = [even.get(a, even.get(-a)) for a in sympy.Mul.make_args(absolute.args[0])]
            if powers[0] and all(power and power.exp == powers[0].exp for power in powers):
                found |= {**dict.fromkeys(powers, S.One), powers[0]: replaced[absolute] ** powers[0].exp}
    return found


def merge_sums_over_equal_ranges(variables: Variables, scalar: Expr) -> Expr:
    """Return ``scalar`` with terms ``c*Sum f`` and ``d*Sum g`` over equal ranges merged into one sum; unchanged if
    there are none.
    """
    limits: dict[Any, Any] = {}
    bodies: dict[Any, list[Expr]] = {}
    for term in sympy.Add.make_args(scalar):
        factors = sympy.Mul.make_args(term)
        sums = [f for f in factors if isinstance(f, IndexedSum) and variables.degree(f)]
        rest = sympy.Mul(*(f for f in factors if f not in sums))
        key: Any = term
        if len(sums) == 1 and not variables.degree(rest):
            body, *own_limits = sums[0].args
            ends, indices = tuple(end for limit in own_limits for end in limit[1:]), {i for i, *_ in own_limits}
            if not indices & set().union(rest.free_symbols, *(end.free_symbols for end in ends)):
                first_limits = limits.setdefault(ends, own_limits)
                names = {i: j for (i, *_), (j, *_) in zip(own_limits, first_limits, strict=True) if i != j}
                if not (body.atoms(sympy.Symbol) | rest.free_symbols) & set(names.values()):
                    key, term = ends, rest * body.xreplace(names)
        bodies.setdefault(key, []).append(term)
    if all(len(each) == 1 for each in bodies.values()):
        return scalar
    return sympy.Add(*(IndexedSum(sympy.Add(*b), *limits[key]) if key in limits else b[0] for key, b in bodies.items()))


def inverse_of(entry: Expr) -> Any:
    """Return the matrix ``M`` if ``entry`` is an entry of ``inv(M)``, else None."""
    if isinstance(entry, TensorEntry) and isinstance(entry.tensor, TensorInverse):
        return entry.tensor.args[0]
    return None
