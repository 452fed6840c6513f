"""The rules of a certificate: each writes the second derivative in a direction as terms that are not negative.

A condition on signs is asked for all values of generators in open ranges; what follows at their bounds, follows by
continuity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import sympy
from sympy import Expr

from sympy_tensordiff.convex.affine_parts import KINKS, SMOOTH, Cut, Variables, in_one_sum, inverse_of
from sympy_tensordiff.convex.cauchy_schwarz import Bound, bound_of_sum, cut_of_one
from sympy_tensordiff.convex.conditions import NoFit, NoSign, Term, enter_domain, require
from sympy_tensordiff.convex.generators import AT_LEAST_ZERO, FREE
from sympy_tensordiff.convex.matrices import is_affine, is_positive
from sympy_tensordiff.convex.pieces import terms_of_pieces
from sympy_tensordiff.convex.quadratic import active, gram_form, slopes_along
from sympy_tensordiff.convex.signs import Signs
from sympy_tensordiff.symbolic.sums import IndexedMax, IndexedMin, IndexedReduction, IndexedSum
from sympy_tensordiff.symbolic.traversal import nodes_in

MOST_SYMBOLS = 6
"""A function of more affine parts and inner scalars at once is not tried."""

LONG = 15
"""A weight of more operations is factored for readers."""


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
        self.slope = slopes_along(directions, matrices)
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
            return self._first([self.sum_of_terms, self.gram], scalar, way)
        if isinstance(scalar, IndexedMax | IndexedMin) or scalar.func in KINKS:
            return self.kink(scalar, way)
        if scalar in self.matrices:
            return self.log_determinant(scalar, way)
        if inverse_of(scalar) is not None:
            return self.gram(scalar, way)
        if isinstance(scalar, sympy.Piecewise):
            return terms_of_pieces(self.signs, self.by, self.slope, self.terms, scalar, way)
        require("rule", scalar.func in SMOOTH, "{} has no rule", scalar)
        return self._first([self.composition, self.gram, self.of_one_sum], scalar, way)

    def _first(self, rules: Iterable[Callable[[Expr, int], list[Term]]], scalar: Expr, way: int) -> list[Term]:
        """The terms of the first rule that gives some, else the reason of the last one that fits the scalar."""
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

    def of_one_sum(self, scalar: Expr, way: int) -> list[Term]:
        """Law: multiples of sums over one range are one sum; what is not convex in one may be in the other.

        >>> import sympy_tensordiff as td
        >>> n, = td.indices("n,")
        >>> x = td.TensorSymbol("x", n)
        >>> bool(td.certify_convex(td.sum(x**2) + td.sum(td.log(1 + x**2)), x))
        True
        """
        merged = in_one_sum(self.by, scalar)
        if merged == scalar:
            raise NoFit("{} has no sums over one range", scalar)
        return self.terms(merged, way)

    def composition(self, scalar: Expr, way: int) -> list[Term]:
        """Law: ``g(a, s)`` with affine ``a`` has ``v' H v = d' G d + sum(g_s * v' H_s v)``, ``d`` the derivatives in v.

        >>> import sympy, sympy_tensordiff as td
        >>> x, y = sympy.symbols("x y", real=True)
        >>> bool(td.certify_convex(x**2/y, (x, y), positive=(y,))), bool(td.certify_convex(x**2/y, (x, y)))
        (True, False)
        >>> bool(td.certify_convex(sympy.Max(x, 1)**2, x)), bool(td.certify_convex(sympy.Max(x, -1)**2, x))
        (True, False)
        """
        return self._first((partial(self._composition, cut=cut) for cut in self._cuts(scalar)), scalar, way)

    def _cuts(self, scalar: Expr) -> Iterator[Cut]:
        """Ways to cut a scalar: at the arguments of the outermost function, at affine parts, at their terms."""
        inner = [a for a in scalar.args if self.by.degree(a) == 2]
        if isinstance(scalar, sympy.Pow) and self.by.degree(scalar.exp):
            inner = []
        seen: list[set[Expr]] = []
        for opaque, finest in ((inner, False), ((), False), ((), True)):
            cut = self.by.cut(scalar, opaque, finest=finest)
            if set(cut.back.values()) not in seen:
                seen.append(set(cut.back.values()))
                yield cut

    def _composition(self, scalar: Expr, way: int, cut: Cut) -> list[Term]:
        require("rule", self.by.degree(cut.function) == 0, "{} has no rule", scalar)
        symbols = (*cut.leaves, *cut.inner)
        if len(symbols) > MOST_SYMBOLS:
            raise NoSign("{} is a function of more than {} parts at once", scalar, MOST_SYMBOLS)
        self._enter(cut)
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

    def _enter(self, cut: Cut) -> None:
        """The domain of the function of a cut; a quadratic form that is not negative has that range."""
        ranges = {}
        for symbol, node in cut.back.items():
            known = self.signs.range_of(node)
            ranges[symbol] = AT_LEAST_ZERO if known == FREE and self._forms(node) else known
        enter_domain(self.signs, cut, ranges, self._is_concave)

    def _is_concave(self, scalar: Expr) -> bool:
        try:
            self.terms(scalar, -1)
        except NoSign:
            return False
        return True

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
            linear = self.slope(cut.back[symbols[pivot]])
            for b, ratio in ratios.items():
                if not self.signs.is_zero(ratio):
                    linear += ratio.xreplace(cut.back) * self.slope(cut.back[symbols[b]])
            for b in rest:
                for c in rest:
                    matrix[b, c] -= ratios[b] * matrix[pivot, c]
            if shown.count_ops() > LONG:
                shown = self.signs.factored(value).xreplace(cut.back)
            terms.append(Term("square", shown * linear**2, (shown, linear), ((shown, str(sign)),)))
        return terms

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
            sign = self.signs.of(slope)
            alone = all(self.signs.is_zero(matrix[a, b]) for b in range(len(symbols)))
            found = self._bound(node, s) if isinstance(node, IndexedSum) and not alone else None
            if found is None or sign in (None, "0"):
                terms += self._scaled(slope, cut, s)
                continue
            upward = found.sign == str(sign)[0]
            require("slope", upward, "{} times {} has no sign", slope.xreplace(cut.back), node)
            matrix[a, a] += slope / found.ratio
            outer, ratio = slope.xreplace(cut.back), found.ratio.xreplace(cut.back)
            facts = [(outer, str(sign))]
            if found.summand is None:
                squares = found.curvature
            else:
                ((part, inner),) = found.summand.back.items()
                squares = IndexedSum(found.curvature * self.slope(inner) ** 2, *node.args[1:])
                facts = [(found.curvature, found.sign), *facts]
                if part in found.summand.inner:
                    way = 1 if found.sign == ">" else -1
                    rest = self._scaled(way * sympy.diff(found.summand.function, part), found.summand, part)
                    terms += [t._replace(form=way * outer * IndexedSum(t.form, *node.args[1:])) for t in rest]
            product = self.slope(node)
            form = outer * (squares - product**2 / ratio)
            terms.append(Term("Cauchy-Schwarz", form, (outer, squares, product, ratio), tuple(facts)))
        return terms + self._squares(matrix, symbols, cut)

    def _bound(self, node: Expr, symbol: Expr) -> Bound | None:
        """The bound of a sum: twice itself for a quadratic form, else by its summand."""
        forms = self._forms(node)
        if forms:
            # (b' A v)**2 <= b' A b * v' A v, and (b' M V M b)**2 <= b' M b * b' M V M V M b with M an inverse.
            is_quadratic = all(t.rule != "matrix fractional" for t in forms)
            if is_quadratic or self._is_of_inverse(node):
                ratio = 2 * symbol if is_quadratic else symbol / 2
                return Bound(">", ratio, sympy.Add(*(t.form for t in forms)), None)
        summand = cut_of_one(self.by, node.args[0])
        if summand is None:
            return None
        self._enter(summand)
        return bound_of_sum(self.signs, node, symbol, summand)

    def _is_of_inverse(self, node: Expr) -> bool:
        """Whether a sum reads the variables in the inverse of one affine matrix only."""
        parts = nodes_in([node], self.by.arguments)
        read = [a for a in parts if not self.by.arguments(a) and self.by.degree(a)]
        return len({inverse_of(a) for a in read}) == 1 and is_affine(self.by, inverse_of(read[0]))

    def _forms(self, node: Expr) -> list[Term]:
        """The terms of a sum that is a Gram form, and so not negative itself; none for others."""
        if not isinstance(node, IndexedSum) or self.by.degree(node) < 2:
            return []
        try:
            return self.gram(node, 1)
        except NoSign:
            return []

    # ---------------------------------------------------------------- kinks

    def kink(self, scalar: Expr, way: int) -> list[Term]:
        """Law: the greatest of convex scalars is convex; ``abs(a)`` is ``Max(a, -a)``.

        >>> import sympy, sympy_tensordiff as td
        >>> x = sympy.Symbol("x", real=True)
        >>> bool(td.certify_convex(sympy.Max(x**2, 1 - x), x)), bool(td.certify_convex(abs(x**2 - 1), x))
        (True, False)
        """
        if isinstance(scalar, sympy.Abs):
            require("absolute value", self.by.degree(scalar.args[0]) < 2, "{} has an argument of both signs", scalar)
            require("maximum", way == 1, "{} is not concave", scalar)
            return []
        above = 1 if isinstance(scalar, sympy.Max | IndexedMax) else -1
        require("maximum", way == above, "{} is not {}", scalar, "convex" if way == 1 else "concave")
        arguments = scalar.args if scalar.func in KINKS else scalar.args[:1]
        found = [(a, t) for a in arguments for t in self.terms(a, way)]
        return [t._replace(form=active(scalar, {b: t.form}.get)) for b, t in found]

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
            require("middle", is_positive(self.signs, matrix), "{} is not declared positive definite", matrix)
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
        return [Term("log-determinant", -self.slope(self.slope(scalar)), (self.matrices[scalar],), ())]
