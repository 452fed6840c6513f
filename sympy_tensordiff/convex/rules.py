"""The rules of a certificate, and their side conditions.

A certificate writes the second derivative in a direction, ``v' H v``, as a sum of terms of which each is not negative.
`CONDITIONS` is the table of what the rules ask for; `require` is the one place where it is asked. A condition on signs
is asked for all values of generators in open ranges; what follows at their bounds, follows by continuity.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import sympy
from sympy import Expr, S

from sympy_tensordiff.convex.affine_parts import KINKS, SMOOTH, Cut, Variables, inverse_of
from sympy_tensordiff.convex.quadratic import gram_form, log_determinant_form, matrix_slope
from sympy_tensordiff.convex.signs import Range, Signs
from sympy_tensordiff.symbolic.matrix_functions import TensorInverse
from sympy_tensordiff.symbolic.sums import IndexedMax, IndexedMin, IndexedReduction, IndexedSum

MOST_SYMBOLS = 6
"""A function of more affine parts and inner scalars at once is not tried."""

LONG = 15
"""A weight of more operations is factored for readers."""

SHORT = 25
"""The summand of an exact bound has a second derivative of at most so many operations: squares, powers, logarithms."""

CONDITIONS: dict[str, str] = {
    "rule": "each function is one of the table of smooth functions, a maximum, a minimum, an absolute value or a norm",
    "domain": "the argument of a logarithm or a root is positive, or affine (its domain is a half space)",
    "pole": "a denominator has one sign: a domain with a hole is not convex",
    "slope": "an inner convex scalar is taken by a nondecreasing function, an inner concave one by a nonincreasing one",
    "pivot": "a pivot of the matrix of second derivatives is not negative",
    "zero pivot": "where a pivot is 0, its row is 0",
    "ratio": "h'**2/h'' is c*h + d with c and d that do not depend on the index, or at most h",
    "maximum": "a maximum is convex, a minimum is concave, and never the reverse",
    "absolute value": "an absolute value is taken of an affine scalar, or of one with a sign",
    "norm weight": "the squares under a root have weights that are not negative",
    "middle": "a matrix that ties both ends of a form is positive definite",
    "weight": "the weight of a Gram form is not negative",
}


class NoSign(Exception):
    """No rule gives a sign; the message, a text with places and what stands there, names the term.

    It is printed at the end only: rules fail often before one fits.
    """

    def __str__(self) -> str:
        text, *parts = self.args
        return str(text).format(*parts)


class NoFit(NoSign):
    """The rule is not for a scalar of this kind."""


class Term(NamedTuple):
    """A part of the second derivative in a direction that is not negative.

    Attributes
    ----------
    rule : str
        The law that says so.
    form : Expr
        The part, quadratic in the directions.
    factors : tuple of Expr
        Weight and linear form of a square, or what else the form is made of.
    facts : tuple of (Expr, str)
        Scalars and their signs that were used.
    """

    rule: str
    form: Expr
    factors: tuple[Expr, ...]
    facts: tuple[tuple[Expr, str], ...] = ()

    def __str__(self) -> str:
        facts = ", ".join(f"{scalar} {_relation(sign)} 0" for scalar, sign in self.facts)
        return f"{self.rule}: {self.form}" + (f" since {facts}" if facts else "")


def require(condition: str, holds: bool, text: str, *parts: Any) -> None:
    """One condition of the table.

    Raises
    ------
    NoSign
        If it does not hold.
    """
    if not holds:
        raise NoSign(text + ": {}", *parts, CONDITIONS[condition])


class Rules:
    """The rules over one set of variables, with signs of scalars and directions.

    Parameters
    ----------
    signs : Signs
    variables : Variables
    directions : mapping
        For each variable the tensor or symbol that stands for its direction.
    matrices : mapping
        For each symbol that stands for a logarithm of a determinant its matrix.
    """

    def __init__(
        self, signs: Signs, variables: Variables, directions: Mapping[Any, Any], matrices: Mapping[Expr, Any]
    ) -> None:
        self.signs, self.by, self.directions, self.matrices = signs, variables, dict(directions), dict(matrices)
        self._known: dict[tuple[Expr, int], list[Term] | NoSign] = {}

    def terms(self, scalar: Expr, way: int) -> list[Term]:
        """The terms of ``way`` times the second derivative: 1 for convex, -1 for concave.

        Raises
        ------
        NoSign
        """
        if (scalar, way) not in self._known:
            try:
                self._known[scalar, way] = self._terms(scalar, way)
            except NoSign as failure:
                self._known[scalar, way] = failure
        known = self._known[scalar, way]
        if isinstance(known, NoSign):
            raise known
        return known

    def _terms(self, scalar: Expr, way: int) -> list[Term]:
        if self.by.degree(scalar) < 2:
            return []
        if isinstance(scalar, IndexedReduction) and self.by.in_limits(scalar):
            raise NoSign("{} has a variable in the limits", scalar)
        if isinstance(scalar, IndexedSum):
            return self._first_of([self.sum_of_terms, self.gram], scalar, way)
        if isinstance(scalar, IndexedMax | IndexedMin) or scalar.func in KINKS:
            return self.kink(scalar, way)
        if scalar in self.matrices:
            return self.log_determinant(scalar, way)
        if inverse_of(scalar) is not None:
            return self.gram(scalar, way)
        if self.is_norm(scalar):
            return self.norm(scalar, way)
        require("rule", scalar.func in SMOOTH, "{} has no rule", scalar)
        return self._first_of([self.of_arguments, self.composition, self.of_terms, self.gram], scalar, way)

    def _first_of(self, rules: Sequence[Callable[[Expr, int], list[Term]]], scalar: Expr, way: int) -> list[Term]:
        """The terms by the first rule that gives some, else the reason of the last one that fits the scalar."""
        reason = NoSign("{} has no rule", scalar)
        for rule in rules:
            try:
                return rule(scalar, way)
            except NoFit:
                continue
            except NoSign as failure:
                reason = failure
        raise reason

    # ---------------------------------------------------------------- sums and compositions

    def sum_of_terms(self, scalar: Expr, way: int) -> list[Term]:
        """Law: a sum of convex scalars is convex, with ``v' H v`` the sum of theirs.

        >>> import sympy_tensordiff as td
        >>> n, i = td.indices("n i")
        >>> x = td.TensorSymbol("x", n)
        >>> print(*td.certify_convex(td.IndexedSum(x[i]**4, (i, 0, n - 1)), x).terms)
        square: IndexedSum(12*v_x[i]**2*x[i]**2, (i, 0, n - 1)) since 12*x[i]**2 >= 0
        """
        return [t._replace(form=IndexedSum(t.form, *scalar.args[1:])) for t in self.terms(scalar.args[0], way)]

    def composition(self, scalar: Expr, way: int, opaque: Sequence[Expr] = (), finest: bool = False) -> list[Term]:
        """Law: ``g(a, s)`` with affine ``a`` has ``v' H v = d' G d + sum(g_s * v' H_s v)``, ``d`` the derivatives in v.

        >>> import sympy, sympy_tensordiff as td
        >>> x, y = sympy.symbols("x y", real=True)
        >>> bool(td.certify_convex(x**2/y, (x, y), positive=(y,))), bool(td.certify_convex(x**2/y, (x, y)))
        (True, False)
        """
        cut = self.by.cut(scalar, opaque, finest=finest)
        symbols = (*cut.leaves, *cut.inner)
        if len(symbols) > MOST_SYMBOLS:
            raise NoSign("{} is a function of more than {} parts at once", scalar, MOST_SYMBOLS)
        self._declare(cut)
        self.require_domain(cut)
        function = way * cut.function
        slopes = {s: sympy.diff(function, s) for s in symbols}
        second = sympy.Matrix(len(symbols), len(symbols), lambda a, b: sympy.diff(slopes[symbols[a]], symbols[b]))
        try:
            terms = self._squares(second, symbols, cut)
            for s in cut.inner:
                terms += self._scaled(slopes[s], cut, s)
            return terms
        except NoSign:
            bent = [a for a, s in enumerate(symbols) if isinstance(cut.inner.get(s), IndexedSum)]
            if not any(self.signs.of(second[a, a]) in ("<", "<=", "0") for a in bent if any(second.row(a))):
                raise
            return self._cauchy_schwarz(second, symbols, slopes, cut)

    def of_terms(self, scalar: Expr, way: int) -> list[Term]:
        """Law: as `composition`, where each term of an affine part is a part."""
        if set(self.by.cut(scalar, finest=True).leaves.values()) == set(self.by.cut(scalar).leaves.values()):
            raise NoFit("{} has no other affine parts", scalar)
        return self.composition(scalar, way, finest=True)

    def of_arguments(self, scalar: Expr, way: int) -> list[Term]:
        """Law: as `composition`, where the arguments of the outermost function are inner scalars.

        >>> import sympy, sympy_tensordiff as td
        >>> x = sympy.Symbol("x", real=True)
        >>> bool(td.certify_convex(sympy.Max(x, 1)**2, x)), bool(td.certify_convex(sympy.Max(x, -1)**2, x))
        (True, False)
        """
        opaque = [a for a in scalar.args if self.by.degree(a) == 2]
        if (isinstance(scalar, sympy.Pow) and self.by.degree(scalar.exp)) or not opaque:
            raise NoFit("{} is no function of inner scalars", scalar)
        return self.composition(scalar, way, opaque)

    def _declare(self, cut: Cut) -> None:
        """Ranges of the symbols of a cut, from what they stand for and from the half spaces of logarithms and roots."""
        for symbol, node in cut.back.items():
            known = self.signs.range_of(node)
            self.signs.given[symbol] = known
        for node in cut.function.atoms(sympy.log, sympy.Pow):
            base = node.args[0]
            if isinstance(node, sympy.log) or (node.exp.is_Rational and not node.exp.is_Integer):
                symbols = base.free_symbols & cut.leaves.keys()
                if len(symbols) == 1 and len(base.free_symbols) == 1:
                    (leaf,) = symbols
                    slope, offset = base.coeff(leaf), base.xreplace({leaf: S.Zero})
                    if slope.is_Rational and slope != 0 and offset.is_Rational and base - slope * leaf - offset == 0:
                        self.signs.given[leaf] = _within(self.signs.given[leaf], -offset / slope, slope > 0)

    def require_domain(self, cut: Cut) -> None:
        """Every logarithm, root and quotient has a value, and a convex domain."""
        for node in sympy.postorder_traversal(cut.function):
            if isinstance(node, sympy.log) and not node.free_symbols.isdisjoint(cut.back):
                require("domain", self.signs.of(node.args[0]) == ">", "no sign of {}", node.args[0].xreplace(cut.back))
            if isinstance(node, sympy.Pow) and not node.free_symbols.isdisjoint(cut.back):
                shown = node.base.xreplace(cut.back)
                if not node.exp.is_Integer and node.base is not S.Exp1:
                    require("domain", self.signs.of(node.base) == ">", "no sign of {}", shown)
                elif node.exp.is_negative:
                    require("pole", self.signs.of(node.base) in (">", "<"), "no sign of {}", shown)

    def _scaled(self, slope: Expr, cut: Cut, symbol: Expr) -> list[Term]:
        """The terms of an inner scalar times the slope of the outer function."""
        node, sign = cut.inner[symbol], self.signs.of(slope)
        if sign == "0":
            return []
        shown = slope.xreplace(cut.back)
        require("slope", sign is not None, "the slope {} has no sign", shown)
        upward = sign is None or sign[0] == ">"
        fact = (shown, sign or ">=")
        factor = shown if upward else -shown
        return [
            t._replace(form=factor * t.form, facts=t.facts if shown.is_Rational else (*t.facts, fact))
            for t in self.terms(node, 1 if upward else -1)
        ]

    def _squares(self, matrix: Any, symbols: Sequence[Expr], cut: Cut) -> list[Term]:
        """Law: a symmetric matrix is positive semidefinite if its pivots are not negative; ``d' G d`` as squares.

        >>> import sympy, sympy_tensordiff as td
        >>> x, y = sympy.symbols("x y", real=True)
        >>> print(*td.certify_convex((x - y)**2, (x, y)).terms)
        square: 2*(v_x - v_y)**2 since 2 > 0
        """
        rest, terms = list(range(len(symbols))), []
        matrix = matrix.as_mutable()
        while rest:
            signs = {a: self.signs.of(matrix[a, a]) for a in rest}
            pivot = min(rest, key=lambda a: (signs[a] not in (">", ">=", "0"), signs[a] == "0", a))
            sign, value, shown = signs[pivot], matrix[pivot, pivot], matrix[pivot, pivot].xreplace(cut.back)
            require("pivot", sign in (">", ">=", "0"), "no sign of {}", shown)
            rest.remove(pivot)
            if sign == "0":
                zero = all(self.signs.is_zero(matrix[pivot, b]) for b in rest)
                require("zero pivot", zero, "a product of {} and another part", cut.back[symbols[pivot]])
                continue
            ratios = {b: matrix[pivot, b] / value for b in rest}
            linear = self._slope_of(cut, symbols[pivot])
            for b, ratio in ratios.items():
                if not self.signs.is_zero(ratio):
                    linear += ratio.xreplace(cut.back) * self._slope_of(cut, symbols[b])
            for b in rest:
                for c in rest:
                    matrix[b, c] -= ratios[b] * matrix[pivot, c]
            if shown.count_ops() > LONG:
                shown = self.signs.factored(value).xreplace(cut.back)
            terms.append(Term("square", shown * linear**2, (shown, linear), ((shown, str(sign)),)))
        return terms

    def _slope_of(self, cut: Cut, symbol: Expr) -> Expr:
        """The derivative in the direction of what a symbol stands for."""
        return self.slope(cut.back[symbol])

    def slope(self, node: Expr) -> Expr:
        """The directional derivative of a scalar."""
        if self.by.degree(node) < 2:
            return self.by.along(node, self.directions)
        if isinstance(node, IndexedSum):
            return IndexedSum(self.slope(node.args[0]), *node.args[1:])
        if isinstance(node, sympy.Abs):
            return sympy.sign(node.args[0]) * self.slope(node.args[0])
        if node.func in KINKS or isinstance(node, IndexedMax | IndexedMin):
            return self._active(node, self.slope)
        if node in self.matrices or inverse_of(node) is not None:
            return matrix_slope(node, self.directions, self.matrices)
        require("rule", node.func in SMOOTH, "{} has no rule", node)
        cut = self.by.cut(node)
        return sympy.Add(
            *(sympy.diff(cut.function, s).xreplace(cut.back) * self.slope(part) for s, part in cut.back.items())
        )

    def _active(self, node: Expr, value: Callable[[Expr], Expr | None]) -> Expr:
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

    # ---------------------------------------------------------------- Cauchy and Schwarz

    def _cauchy_schwarz(self, second: Any, symbols: Sequence[Expr], slopes: Any, cut: Cut) -> list[Term]:
        """Law: ``(sum(h'*z))**2 <= sum(h''*z**2) * R`` with ``R = sum(h'**2/h'')``, where all ``h'' > 0``.

        So ``g_s * sum(h''*z**2)`` is at least ``g_s/R * (sum(h'*z))**2``, which is added to the matrix ``G``.

        >>> import sympy_tensordiff as td
        >>> n, = td.indices("n,")
        >>> x = td.TensorSymbol("x", n)
        >>> [term.rule for term in td.certify_convex(td.logsumexp(x), x).terms]
        ['Cauchy-Schwarz']
        >>> bool(td.certify_convex(td.log(td.sum(td.cosh(x))), x)), bool(td.certify_convex(td.log(1 + td.dot(x, x)), x))
        (True, False)
        """
        matrix, terms = second.as_mutable(), []
        for a, s in enumerate(symbols):
            if s in cut.leaves:
                continue
            node, slope = cut.inner[s], slopes[s]
            found = self._bound(node, s) if isinstance(node, IndexedSum) else None
            alone = all(self.signs.is_zero(matrix[a, b]) for b in range(len(symbols)))
            if found is None or self.signs.of(slope) in (None, "0") or alone:
                terms += self._scaled(slope, cut, s)
                continue
            curvature, bound, shown_curvature, body = found
            upward = curvature[0] == str(self.signs.of(slope))[0]
            require("slope", upward, "{} times {} has no sign", slope.xreplace(cut.back), node)
            matrix[a, a] += slope / bound
            outer, shown_bound = slope.xreplace(cut.back), bound.xreplace(cut.back)
            ((part, inner),) = body.back.items()
            squares = IndexedSum(shown_curvature * self.slope(inner) ** 2, *node.args[1:])
            if part in body.inner:
                way = 1 if str(self.signs.of(slope))[0] == ">" else -1
                rest = self._scaled(way * sympy.diff(body.function, part), body, part)
                terms += [t._replace(form=way * outer * IndexedSum(t.form, *node.args[1:])) for t in rest]
            product = self.slope(node)
            form = outer * (squares - product**2 / shown_bound)
            facts = ((shown_curvature, curvature), (outer, str(self.signs.of(slope))))
            terms.append(Term("Cauchy-Schwarz", form, (outer, squares, product, shown_bound), facts))
        return terms + self._squares(matrix, symbols, cut)

    def _bound(self, node: Expr, symbol: Expr) -> tuple[str, Expr, Expr, Cut] | None:
        """The sign of ``h''``, the sum of ``h'**2/h''``, ``h''`` and the cut of the summand, or None."""
        body, limits = node.args[0], node.args[1:]
        cut = self._cut_of_one(body)
        if cut is None:
            return None
        (leaf,) = cut.back
        self._declare(cut)
        self.require_domain(cut)
        first = sympy.diff(cut.function, leaf)
        second = sympy.diff(first, leaf)
        sign = self.signs.of(second)
        if sign in (None, "0"):
            return None
        indices = {limit[0] for limit in limits}
        count = sympy.Mul(*(high - low + 1 for _, low, high in limits))
        factor, offset = S.One, S.Zero
        below = str(sign)[0] == ">" and self.signs.of(cut.function * second - first**2) in (">", ">=", "0")
        if not below and second.count_ops() <= SHORT:
            ratio = first**2 / second
            c = self._exact(sympy.diff(ratio, leaf) / first)
            d = self._exact(ratio - c * cut.function)
            below = all(self.signs.independent(part, {leaf, *indices}) for part in (c, d))
            below = below and (d == 0 or not count.free_symbols & indices)
            factor, offset = (c, d) if below else (factor, offset)
        require("ratio", below, "h'**2/h'' of {}", body)
        factor, offset = (self.signs.written(part) for part in (factor, offset))
        return str(sign)[0], factor * symbol + offset * count, second.xreplace(cut.back), cut

    def _cut_of_one(self, body: Expr) -> Cut | None:
        """A scalar as a function of one part."""
        opaque = [a for a in body.args if self.by.degree(a) == 2] if body.func in SMOOTH else []
        cuts = (self.by.cut(body), self.by.cut(body, finest=True), self.by.cut(body, opaque))
        return next((cut for cut in cuts if len(cut.back) == 1), None)

    def _exact(self, scalar: Expr) -> Expr:
        top, bottom = self.signs.quotient(self.signs.form(scalar))
        return top / bottom

    # ---------------------------------------------------------------- kinks

    def kink(self, scalar: Expr, way: int) -> list[Term]:
        """Law: the greatest of convex scalars is convex; ``abs(a)`` is ``Max(a, -a)``.

        >>> import sympy, sympy_tensordiff as td
        >>> x = sympy.Symbol("x", real=True)
        >>> bool(td.certify_convex(sympy.Max(x**2, 1 - x), x)), bool(td.certify_convex(abs(x**2 - 1), x))
        (True, False)
        """
        if isinstance(scalar, sympy.Abs):
            (inner,) = scalar.args
            sign = self.signs.of(inner)
            affine = self.by.degree(inner) < 2
            require("absolute value", affine or sign is not None, "{} has an argument of both signs", scalar)
            if affine:
                require("maximum", way == 1, "{} is not concave", scalar)
                return []
            return self.terms(inner, way if sign is None or sign[0] != "<" else -way)
        above = 1 if isinstance(scalar, sympy.Max | IndexedMax) else -1
        require("maximum", way == above, "{} is not {}", scalar, "convex" if way == 1 else "concave")
        arguments = scalar.args if scalar.func in KINKS else scalar.args[:1]
        found = [(a, t) for a in arguments for t in self.terms(a, way)]
        return [t._replace(form=self._active(scalar, {b: t.form}.get)) for b, t in found]

    def is_norm(self, scalar: Expr) -> bool:
        """Whether a scalar is the root of a sum of squares that may be 0."""
        return isinstance(scalar, sympy.Pow) and scalar.exp == S.Half and self._squared(scalar.base) is not None

    def _squared(self, scalar: Expr) -> list[Expr] | None:
        """The weights of a sum of squares of affine scalars without constants outside of the squares."""
        if isinstance(scalar, IndexedSum):
            return self._squared(scalar.args[0])
        if isinstance(scalar, sympy.Add):
            parts = [self._squared(a) for a in scalar.args]
            return None if any(p is None for p in parts) else [w for p in parts if p is not None for w in p]
        factors = [f for f in sympy.Mul.make_args(scalar) if self.by.degree(f)]
        if len(factors) != 1 or not isinstance(factors[0], sympy.Pow) or factors[0].exp != 2:
            return None
        return [scalar / factors[0]] if self.by.degree(factors[0].base) == 1 else None

    def norm(self, scalar: Expr, way: int) -> list[Term]:
        """Law: ``sqrt(sum(w*a**2))`` with affine ``a`` and ``w >= 0`` is convex, also where it is 0.

        There it is the limit of ``sqrt(e + sum(w*a**2))``; elsewhere ``v' H v = (Q - d**2/s)/sqrt(s)`` with
        ``Q = sum(w*z**2)``, ``d = sum(w*a*z)``, and ``d**2 <= Q*s``.

        >>> import sympy_tensordiff as td
        >>> n, = td.indices("n,")
        >>> x = td.TensorSymbol("x", n)
        >>> bool(td.certify_convex(td.norm(x - 1), x)), bool(td.certify_convex(-td.norm(x), x))
        (True, False)
        """
        require("maximum", way == 1, "{} is not concave", scalar)
        weights = self._squared(scalar.base) or []
        for weight in weights:
            require("norm weight", self.signs.of(weight) in (">", ">=", "0"), "no sign of {}", weight)
        half = self._halves(scalar.base)
        product = self.slope(scalar.base) / 2
        form = (half - product**2 / scalar.base) / scalar
        facts = tuple((w, ">=") for w in weights if not w.is_Rational)
        return [Term("norm", form, (half, product, scalar.base), facts)]

    def _halves(self, scalar: Expr) -> Expr:
        """``sum(w*z**2)`` of ``sum(w*a**2)``, ``z`` the derivatives of ``a``."""
        if isinstance(scalar, IndexedSum):
            return IndexedSum(self._halves(scalar.args[0]), *scalar.args[1:])
        if isinstance(scalar, sympy.Add):
            return sympy.Add(*map(self._halves, scalar.args))
        return sympy.Mul(*(self.slope(f.base) ** 2 if self.by.degree(f) else f for f in sympy.Mul.make_args(scalar)))

    # ---------------------------------------------------------------- quadratic forms and matrices

    def gram(self, scalar: Expr, way: int) -> list[Term]:
        """Law: ``sum(w*B*B')`` is a square where an exchange of its two ends keeps the summand, and ``w >= 0``.

        >>> import sympy_tensordiff as td
        >>> n, = td.indices("n,")
        >>> A, x = td.TensorSymbol("A", (n, n)), td.TensorSymbol("x", n)
        >>> bool(td.certify_convex(td.dot(x, A @ A.T @ x), x)), bool(td.certify_convex(td.dot(x, A @ x), x))
        (True, False)
        """
        found = gram_form(self.by, self.directions, scalar)
        if found is None:
            raise NoFit("{} is no Gram form", scalar)
        weight, form, rule, factors, tied = found
        for matrix in tied:
            require("middle", _is_positive(matrix), "{} is not declared positive definite", matrix)
        sign = self.signs.of(way * weight)
        require("weight", sign in (">", ">=", "0"), "no sign of {}", way * weight)
        return [Term(rule, way * form, factors, () if weight.is_Rational else ((way * weight, str(sign)),))]

    def log_determinant(self, scalar: Expr, way: int) -> list[Term]:
        """Law: ``-log(det(S))`` is convex: ``v' H v = trace(inv(S)*V*inv(S)*V)``.

        >>> import sympy_tensordiff as td
        >>> n, = td.indices("n,")
        >>> S = td.TensorSymbol("S", (n, n), positive=True)
        >>> bool(td.certify_convex(-td.logdet(S), S)), bool(td.certify_convex(td.logdet(S), S))
        (True, False)
        """
        require("maximum", way == -1, "log(det({})) is not convex", self.matrices[scalar])
        form = log_determinant_form(self.matrices[scalar], self.directions)
        return [Term("log-determinant", form, (self.matrices[scalar],), ())]


def _is_positive(matrix: Any) -> bool:
    return bool(getattr(matrix.args[0] if isinstance(matrix, TensorInverse) else matrix, "positive", False))


def _within(known: Range, bound: Expr, above: bool) -> Range:
    """A range cut by a bound."""
    if above:
        return known._replace(low=bound if known.low is None else max(known.low, bound), strict=True)
    return known._replace(high=bound if known.high is None else min(known.high, bound), strict=True)


def _relation(sign: str) -> str:
    return {"0": "="}.get(sign, sign)


__all__ = ["CONDITIONS", "NoSign", "Rules", "Term", "require"]
