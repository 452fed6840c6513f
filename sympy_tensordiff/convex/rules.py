"""The rules of a certificate: each writes the second derivative along a direction as a sum of nonnegative terms.

A sign condition must hold for all values of the generators in open ranges; at the bounds, convexity follows by
continuity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import sympy
from sympy import Expr, S

from sympy_tensordiff.convex.affine_parts import (
    KINKS,
    SMOOTH,
    Decomposition,
    Variables,
    inverse_of,
    merge_sums_over_equal_ranges,
)
from sympy_tensordiff.convex.conditions import ProofTerm, RuleDoesNotApply, SignUnknown, enter_domain, require
from sympy_tensordiff.convex.generators import AT_LEAST_ZERO, FREE
from sympy_tensordiff.convex.matrices import is_positive_definite, is_symmetric_affine
from sympy_tensordiff.convex.pieces import terms_of_pieces
from sympy_tensordiff.convex.quadratic import active_argument_value, directional_derivative, gram_form
from sympy_tensordiff.convex.signs import Signs
from sympy_tensordiff.symbolic.expressions.traversal import nodes_in
from sympy_tensordiff.symbolic.index_notation.sums import IndexedMax, IndexedMin, IndexedReduction, IndexedSum

MAX_PARTS = 6
"""Functions of more affine parts and inner scalars are not tried."""

MAX_UNFACTORED_OPERATIONS = 15
"""Weights with more operations are factored for readers."""


class ConvexityRules:
    """The rules that prove a scalar convex or concave, and return the terms of the proof. `directions` maps the
    variables to the directions of the second derivative; ``signs`` proves signs of scalars.

    `directions` maps each variable to the tensor or symbol of its direction, `matrices` maps each symbol that stands
    for a log-determinant to its matrix.
    """

    def __init__(
        self, signs: Signs, variables: Variables, directions: Mapping[Any, Any], matrices: Mapping[Expr, Any]
    ) -> None:
        self.signs, self.variables, self.directions, self.matrices = signs, variables, dict(directions), dict(matrices)
        self.slope = directional_derivative(directions, matrices)
        self._memo: dict[tuple[Expr, int], list[ProofTerm] | SignUnknown] = {}

    def terms(self, scalar: Expr, curvature: int) -> list[ProofTerm]:
        """Return nonnegative terms whose sum is the second derivative of ``scalar``, times ``curvature`` (1: convex,
        -1: concave). Raise `SignUnknown` if no rule finds them.
        """
        if (scalar, curvature) not in self._memo:
            try:
                self._memo[scalar, curvature] = self._terms(scalar, curvature)
            except SignUnknown as failure:
                self._memo[scalar, curvature] = failure
        result = self._memo[scalar, curvature]
        if isinstance(result, SignUnknown):
            raise result
        return result

    def _terms(self, scalar: Expr, curvature: int) -> list[ProofTerm]:
        """Return the terms of a proof that ``scalar`` is convex (``curvature`` 1) or concave (-1), by the rule for its
        outermost operation; [] if ``scalar`` is affine. Raise `SignUnknown` if the rule does not prove it.
        """
        if self.variables.degree(scalar) < 2:
            return []
        if isinstance(scalar, IndexedReduction) and self.variables.in_limits(scalar):
            raise SignUnknown("{} has a variable in the limits", scalar)
        if isinstance(scalar, IndexedSum):
            return self._first_applicable([self.apply_sum, self.apply_gram_form], scalar, curvature)
        if isinstance(scalar, IndexedMax | IndexedMin) or scalar.func in KINKS:
            return self.apply_kink(scalar, curvature)
        if scalar in self.matrices:
            return self.apply_log_determinant(scalar, curvature)
        if inverse_of(scalar) is not None:
            return self.apply_gram_form(scalar, curvature)
        if isinstance(scalar, sympy.Piecewise):
            return terms_of_pieces(self.signs, self.variables, self.slope, self.terms, scalar, curvature)
        require("rule", scalar.func in SMOOTH, "{} has no rule", scalar)
        rules = [self.apply_composition, self.apply_gram_form, self.apply_merged_sum]
        return self._first_applicable(rules, scalar, curvature)

    def _first_applicable(
        self, rules: Iterable[Callable[[Expr, int], list[ProofTerm]]], scalar: Expr, curvature: int
    ) -> list[ProofTerm]:
        """Return the proof terms of the first of ``rules`` that proves ``scalar`` convex (``curvature`` 1) or concave
        (-1). If none does, raise `SignUnknown` with the reason of the last rule that applies to the form of ``scalar``.
        """
        reason = SignUnknown("{} has no rule", scalar)
        for rule in rules:
            try:
                return rule(scalar, curvature)
            except RuleDoesNotApply:
                continue
            except SignUnknown as failure:
                reason = failure
        raise reason

    # ---------------------------------------------------------------- sums and compositions

    def apply_sum(self, scalar: Expr, curvature: int) -> list[ProofTerm]:
        """Return the proof terms that a sum is convex (``curvature`` 1) or concave (-1), from those of its summand.
        Law: a sum of convex scalars is convex, since its second derivative ``v' H v`` is the sum of theirs.

        >>> import sympy_tensordiff as td
        >>> n, i = td.indices("n i")
        >>> x = td.TensorSymbol("x", n)
        >>> print(*td.certify_convex(td.IndexedSum(x[i]**4, (i, 0, n - 1)), x).terms)
        square: IndexedSum(12*v_x[i]**2*x[i]**2, (i, 0, n - 1)) since 12*x[i]**2 >= 0
        """
        return [t._replace(form=IndexedSum(t.form, *scalar.args[1:])) for t in self.terms(scalar.args[0], curvature)]

    def apply_merged_sum(self, scalar: Expr, curvature: int) -> list[ProofTerm]:
        """Return the proof terms that the sum ``scalar`` is convex (``curvature`` 1) or concave (-1), after merging the
        sums over equal ranges in it. Raise `RuleDoesNotApply` if there is nothing to merge.

        Law: ``sum(f) + sum(g)`` is ``sum(f + g)``, which may be convex although f is not.

        >>> import sympy_tensordiff as td
        >>> n, = td.indices("n,")
        >>> x = td.TensorSymbol("x", n)
        >>> bool(td.certify_convex(td.sum(x**2) + td.sum(td.log(1 + x**2)), x))
        True
        """
        merged = merge_sums_over_equal_ranges(self.variables, scalar)
        if merged == scalar:
            raise RuleDoesNotApply("{} has no sums over one range", scalar)
        return self.terms(merged, curvature)

    def apply_composition(self, scalar: Expr, curvature: int) -> list[ProofTerm]:
        """Return terms that prove the function ``scalar`` of affine parts and other scalars to be convex (``curvature``
        1) or concave (-1), by the chain rule; raise `SignUnknown` if there is no proof.

        Law: ``v' H v = d' G d + sum(g_s * v' H_s v)`` with ``d`` the derivatives along ``v``.

        >>> import sympy, sympy_tensordiff as td
        >>> x, y = sympy.symbols("x y", real=True)
        >>> bool(td.certify_convex(x**2/y, (x, y), positive=(y,))), bool(td.certify_convex(x**2/y, (x, y)))
        (True, False)
        >>> bool(td.certify_convex(sympy.Max(x, 1)**2, x)), bool(td.certify_convex(sympy.Max(x, -1)**2, x))
        (True, False)
        """
        rules = (partial(self._terms_of_composition, outer=d) for d in self._decompositions(scalar))
        return self._first_applicable(rules, scalar, curvature)

    def _decompositions(self, scalar: Expr) -> Iterator[Decomposition]:
        """Yield several ways to write ``scalar`` as a function of simpler scalars: of the nonlinear arguments of its
        outermost function, of affine scalars, or of single terms of affine scalars.
        """
        inner = [a for a in scalar.args if self.variables.degree(a) == 2]
        if isinstance(scalar, sympy.Pow) and self.variables.degree(scalar.exp):
            inner = []
        seen: list[set[Expr]] = []
        for opaque, finest in ((inner, False), ((), False), ((), True)):
            outer = self.variables.decompose(scalar, opaque, finest=finest)
            if set(outer.parts.values()) not in seen:
                seen.append(set(outer.parts.values()))
                yield outer

    def _terms_of_composition(self, scalar: Expr, curvature: int, outer: Decomposition) -> list[ProofTerm]:
        """Return proof terms that ``scalar`` is convex (``curvature`` 1) or concave (-1), from ``outer``, which writes
        it as a function of other scalars.

        The second derivative is written as sums of squares or, if that fails, bounded by Cauchy-Schwarz.
        """
        require("rule", self.variables.degree(outer.function) == 0, "{} has no rule", scalar)
        symbols = (*outer.affine, *outer.inner)
        if len(symbols) > MAX_PARTS:
            raise SignUnknown("{} is a function of more than {} parts at once", scalar, MAX_PARTS)
        self._enter_domain(outer)
        function = curvature * outer.function
        slopes = {s: sympy.diff(function, s) for s in symbols}
        second = sympy.Matrix(len(symbols), len(symbols), lambda a, b: sympy.diff(slopes[symbols[a]], symbols[b]))
        try:
            terms = self._sum_of_squares(second, symbols, outer)
            for s in outer.inner:
                terms += self._terms_times_slope(slopes[s], outer, s)
            return terms
        except SignUnknown:
            nonlinear_sums = [a for a, s in enumerate(symbols) if isinstance(outer.inner.get(s), IndexedSum)]
            if not any(self.signs.of(second[a, a]) in ("<", "<=", "0") for a in nonlinear_sums if any(second.row(a))):
                raise
            return self._cauchy_schwarz(second, symbols, slopes, outer)

    def _enter_domain(self, outer: Decomposition) -> None:
        """Declare the ranges of the arguments of the function ``outer`` in ``self.signs``, so that signs can be proved.
        An argument of unknown range counts as >= 0 if it is a nonnegative quadratic form. Raise `SignUnknown` unless
        the function is proved to be defined there.
        """
        ranges = {}
        for symbol, node in outer.parts.items():
            interval = self.signs.range_of(node)
            ranges[symbol] = AT_LEAST_ZERO if interval == FREE and self._terms_of_nonnegative_form(node) else interval
        enter_domain(self.signs, outer, ranges, self._is_concave)

    def _is_concave(self, scalar: Expr) -> bool:
        """Return whether the rules prove ``scalar`` concave."""
        try:
            self.terms(scalar, -1)
        except SignUnknown:
            return False
        return True

    def _terms_times_slope(self, slope: Expr, outer: Decomposition, symbol: Expr) -> list[ProofTerm]:
        """Return the proof terms that the inner expression f = ``outer.inner[symbol]`` contributes by the chain rule:
        those of the convexity of f, or of its concavity if ``slope`` is negative, times ``abs(slope)``. ``slope`` is
        the derivative of the function of ``outer`` with respect to ``symbol``.

        For a slope of 0 there are none.
        """
        node, sign = outer.inner[symbol], self.signs.of(slope)
        if sign == "0":
            return []
        printed = slope.xreplace(outer.parts)
        require("slope", sign is not None, "the slope {} has no sign", printed)
        is_increasing = sign is None or sign[0] == ">"
        fact = (printed, sign or ">=")
        factor = printed if is_increasing else -printed
        return [
            t._replace(form=factor * t.form, facts=t.facts if printed.is_Rational else (*t.facts, fact))
            for t in self.terms(node, 1 if is_increasing else -1)
        ]

    def _sum_of_squares(self, matrix: Any, symbols: Sequence[Expr], outer: Decomposition) -> list[ProofTerm]:
        """Write the quadratic form ``d' G d`` of the symmetric ``matrix`` G as a sum of squares by symmetric
        elimination, and return one proof term for each nonzero pivot. ``d[k]`` is the directional derivative of the
        part of ``outer`` that ``symbols[k]`` stands for; raise `SignUnknown` if a pivot is not known to be nonnegative.

        ``d`` has the derivatives of these parts along the direction. Law: a symmetric matrix is positive semidefinite
        if its pivots are not negative.

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
            sign, value, printed = (signs[pivot], matrix[pivot, pivot], matrix[pivot, pivot].xreplace(outer.parts))
            require("pivot", sign in (">", ">=", "0"), "no sign of {}", printed)
            rest.remove(pivot)
            if sign == "0":
                zero = all(self.signs.is_zero(matrix[pivot, b]) for b in rest)
                require("zero pivot", zero, "a product of {} and another part", outer.parts[symbols[pivot]])
                continue
            ratios = {b: matrix[pivot, b] / value for b in rest}
            linear = self.slope(outer.parts[symbols[pivot]])
            for b, ratio in ratios.items():
                if not self.signs.is_zero(ratio):
                    linear += ratio.xreplace(outer.parts) * self.slope(outer.parts[symbols[b]])
            for b in rest:
                for c in rest:
                    matrix[b, c] -= ratios[b] * matrix[pivot, c]
            if printed.count_ops() > MAX_UNFACTORED_OPERATIONS:
                printed = self.signs.factored(value).xreplace(outer.parts)
            terms.append(ProofTerm("square", printed * linear**2, (printed, linear), ((printed, str(sign)),)))
        return terms

    # ---------------------------------------------------------------- Cauchy and Schwarz

    def _cauchy_schwarz(
        self, second: Any, symbols: Sequence[Expr], slopes: Any, outer: Decomposition
    ) -> list[ProofTerm]:
        """Return proof terms for a function ``g`` of sums ``s = sum(h(x))``, given as ``outer``, although its second
        derivatives ``second`` may be negative on the diagonal: by the Cauchy-Schwarz inequality, the curvature of ``h``
        makes up for that.

        ``slopes`` are its first derivatives with respect to ``symbols``.

        ``(sum(h'*z))**2 <= R*sum(h''*z**2)`` with ``R = sum(h'**2/h'')``.

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
            if s in outer.affine:
                continue
            node, slope = outer.inner[s], slopes[s]
            sign = self.signs.of(slope)
            is_isolated = all(self.signs.is_zero(matrix[a, b]) for b in range(len(symbols)))
            found = self._bound(node, s) if isinstance(node, IndexedSum) and not is_isolated else None
            if found is None or sign in (None, "0"):
                terms += self._terms_times_slope(slope, outer, s)
                continue
            has_equal_signs = found.sign == str(sign)[0]
            require("slope", has_equal_signs, "{} times {} has no sign", slope.xreplace(outer.parts), node)
            matrix[a, a] += slope / found.ratio
            outer_slope, ratio = slope.xreplace(outer.parts), found.ratio.xreplace(outer.parts)
            facts = [(outer_slope, str(sign))]
            if found.summand is None:
                squares = found.curvature
            else:
                ((part, inner),) = found.summand.parts.items()
                squares = IndexedSum(found.curvature * self.slope(inner) ** 2, *node.args[1:])
                facts = [(found.curvature, found.sign), *facts]
                if part in found.summand.inner:
                    curvature = 1 if found.sign == ">" else -1
                    rest = self._terms_times_slope(
                        curvature * sympy.diff(found.summand.function, part), found.summand, part
                    )
                    terms += [
                        t._replace(form=curvature * outer_slope * IndexedSum(t.form, *node.args[1:])) for t in rest
                    ]
            product = self.slope(node)
            form = outer_slope * (squares - product**2 / ratio)
            terms.append(ProofTerm("Cauchy-Schwarz", form, (outer_slope, squares, product, ratio), tuple(facts)))
        return terms + self._sum_of_squares(matrix, symbols, outer)

    def _bound(self, node: Expr, symbol: Expr) -> CauchySchwarzBound | None:
        """Return a Cauchy-Schwarz bound for the sum ``node``, which ``symbol`` represents: an upper bound of its
        squared slope by a multiple of its second derivative. None if no bound is found.

        The bound follows from a visibly nonnegative second derivative, or from the summand as a function of one scalar.
        """
        forms = self._terms_of_nonnegative_form(node)
        if forms:
            # (b' A v)**2 <= b' A b * v' A v, and (b' M V M b)**2 <= b' M b * b' M V M V M b with M an inverse.
            is_quadratic = all(t.rule != "matrix fractional" for t in forms)
            if is_quadratic or self._depends_on_one_inverse(node):
                ratio = 2 * symbol if is_quadratic else symbol / 2
                return CauchySchwarzBound(">", ratio, sympy.Add(*(t.form for t in forms)), None)
        summand = decompose_univariate(self.variables, node.args[0])
        if summand is None:
            return None
        self._enter_domain(summand)
        return bound_of_sum(self.signs, node, symbol, summand)

    def _depends_on_one_inverse(self, node: Expr) -> bool:
        """Return whether the variables occur in the sum ``node`` only inside of ``inv(M)``, for one symmetric matrix M
        that is affine in them.
        """
        nodes = nodes_in([node], self.variables.arguments)
        read = [a for a in nodes if not self.variables.arguments(a) and self.variables.degree(a)]
        return len({inverse_of(a) for a in read}) == 1 and is_symmetric_affine(self.variables, inverse_of(read[0]))

    def _terms_of_nonnegative_form(self, node: Expr) -> list[ProofTerm]:
        """Return the proof terms that the sum ``node`` is convex, because it is quadratic in the variables and visibly
        never negative (a Gram form); [] if that cannot be proved.
        """
        if not isinstance(node, IndexedSum) or self.variables.degree(node) < 2:
            return []
        try:
            return self.apply_gram_form(node, 1)
        except SignUnknown:
            return []

    # ---------------------------------------------------------------- kinks

    def apply_kink(self, scalar: Expr, curvature: int) -> list[ProofTerm]:
        """Return the proof terms that a maximum, minimum or absolute value is convex (``curvature`` 1) or concave (-1).
        Law: the greatest of convex scalars is convex; ``abs(a)`` is ``Max(a, -a)``.

        >>> import sympy, sympy_tensordiff as td
        >>> x = sympy.Symbol("x", real=True)
        >>> bool(td.certify_convex(sympy.Max(x**2, 1 - x), x)), bool(td.certify_convex(abs(x**2 - 1), x))
        (True, False)
        """
        if isinstance(scalar, sympy.Abs):
            require(
                "absolute value", self.variables.degree(scalar.args[0]) < 2, "{} has an argument of both signs", scalar
            )
            require("maximum", curvature == 1, "{} is not concave", scalar)
            return []
        above = 1 if isinstance(scalar, sympy.Max | IndexedMax) else -1
        require("maximum", curvature == above, "{} is not {}", scalar, "convex" if curvature == 1 else "concave")
        arguments = scalar.args if scalar.func in KINKS else scalar.args[:1]
        found = [(a, t) for a in arguments for t in self.terms(a, curvature)]
        return [t._replace(form=active_argument_value(scalar, {b: t.form}.get)) for b, t in found]

    # ---------------------------------------------------------------- quadratic forms and matrices

    def apply_gram_form(self, scalar: Expr, curvature: int) -> list[ProofTerm]:
        """Return the proof terms that the sum of products ``scalar`` is convex (``curvature`` 1) or concave (-1)
        because it is a square in disguise, such as ``x @ A @ A.T @ x`` (a Gram form). Raise `RuleDoesNotApply` for any
        other scalar.

        Law: ``sum(w*B*B')`` is a square if an exchange of indices maps ``B`` to ``B'``, and ``w >= 0``.

        >>> import sympy_tensordiff as td
        >>> n, = td.indices("n,")
        >>> A, x = td.TensorSymbol("A", (n, n)), td.TensorSymbol("x", n)
        >>> bool(td.certify_convex(td.dot(x, A @ A.T @ x), x)), bool(td.certify_convex(td.dot(x, A @ x), x))
        (True, False)
        """
        found = gram_form(self.variables, self.directions, scalar)
        if found is None:
            raise RuleDoesNotApply("{} is not a Gram form", scalar)
        weight, form, rule, factors, middle_matrices = found
        for matrix in middle_matrices:
            require("middle", is_positive_definite(self.signs, matrix), "{} is not declared positive definite", matrix)
        sign = self.signs.of(curvature * weight)
        require("weight", sign in (">", ">=", "0"), "no sign of {}", curvature * weight)
        return [
            ProofTerm(rule, curvature * form, factors, () if weight.is_Rational else ((curvature * weight, str(sign)),))
        ]

    def apply_log_determinant(self, scalar: Expr, curvature: int) -> list[ProofTerm]:
        """Return the proof term that the log-determinant ``scalar`` is concave, as a list of one item; raise
        `SignUnknown` unless ``curvature`` is -1 (concave).

        Law: ``-log(det(S))`` is convex: ``v' H v = trace(inv(S)*V*inv(S)*V)``.

        >>> import sympy_tensordiff as td
        >>> n, = td.indices("n,")
        >>> S = td.TensorSymbol("S", (n, n), positive=True)
        >>> bool(td.certify_convex(-td.logdet(S), S)), bool(td.certify_convex(td.logdet(S), S))
        (True, False)
        """
        require("maximum", curvature == -1, "log(det({})) is not convex", self.matrices[scalar])
        return [ProofTerm("log-determinant", -self.slope(self.slope(scalar)), (self.matrices[scalar],), ())]


MAX_EXACT_OPERATIONS = 25
"""Largest second derivative of a summand for which the exact ratio is computed."""


class CauchySchwarzBound(NamedTuple):
    """The Cauchy-Schwarz bound ``(sum(h'*z))**2 <= ratio*sum(h''*z**2)`` for a sum of values of a function h: it bounds
    the squared slope of the sum in the direction z by its second derivative. ``sign`` is the sign of h''.

    ``curvature`` is ``h''``; for a quadratic form it is ``sum(h''*z**2)``, and ``summand`` is None.
    """

    sign: str
    ratio: Expr
    curvature: Expr
    summand: Decomposition | None


def decompose_univariate(variables: Variables, body: Expr) -> Decomposition | None:
    """Return ``body`` as a function of exactly one symbol, such as ``exp(t)`` for ``exp(2*x + y)``; None if that is
    impossible. The symbol stands for an affine expression, or for one that is not decomposed further.
    """
    opaque = [a for a in body.args if variables.degree(a) == 2] if body.func in SMOOTH else []
    decompositions = (
        variables.decompose(body),
        variables.decompose(body, finest=True),
        variables.decompose(body, opaque),
    )
    return next((outer for outer in decompositions if len(outer.parts) == 1), None)


def bound_of_sum(signs: Signs, node: Expr, symbol: Expr, outer: Decomposition) -> CauchySchwarzBound | None:
    """Return the Cauchy-Schwarz bound for the sum ``node`` of values ``h(a)``, which ``symbol`` represents; ``outer``
    has the function h and its argument a. None if ``h''`` is 0 or its sign is not known. Raise `SignUnknown` if the
    ratio ``sum(h'**2/h'')`` has no suitable form.

    The ratio is ``sum(h'**2/h'')``, written as a multiple of the sum plus a constant; if that is not possible, the sum
    itself where it is larger. A sum that is 0 inside the domain is least there (``h = h' = 0``): the bound then holds
    for ``e + sum`` with every ``e > 0``, and a limit of convex functions is convex.
    """
    ((part, _),) = outer.parts.items()
    first = sympy.diff(outer.function, part)
    second = sympy.diff(first, part)
    sign = signs.of(second)
    if sign in (None, "0"):
        return None
    limits = node.args[1:]
    count = sympy.Mul(*(high - low + 1 for _, low, high in limits))
    coefficients = _exact_ratio(signs, outer.function, first, second, part, {limit[0] for limit in limits}, count)
    if coefficients is None or coefficients[1] != 0:
        below = str(sign)[0] == ">" and signs.of(outer.function * second - first**2) in (">", ">=", "0")
        require("ratio", below or coefficients is not None, "h'**2/h'' of {}", node.args[0])
        coefficients = (S.One, S.Zero) if below or coefficients is None else coefficients
    factor, offset = coefficients
    ratio = signs.to_expression(factor) * symbol + signs.to_expression(offset) * count
    return CauchySchwarzBound(str(sign)[0], ratio, second.xreplace(outer.parts), outer)


def _exact_ratio(
    signs: Signs, h: Expr, first: Expr, second: Expr, part: Expr, indices: set[Any], count: Expr
) -> tuple[Expr, Expr] | None:
    """Return coefficients ``(c, d)`` with ``h'**2/h'' == c*h + d``, so that the sum of these ratios follows from the
    sum of h; None if there are none. ``first`` is h' and ``second`` is h'', the derivatives with respect to ``part``.

    c and d must be independent of ``part`` and ``indices``, and d must be 0 if ``count``, the number of summands,
    depends on ``indices``. None, too, if ``second`` has too many operations.
    """
    if second.count_ops() > MAX_EXACT_OPERATIONS:
        return None
    ratio = first**2 / second
    c = _without_common_factors(signs, sympy.diff(ratio, part) / first)
    d = _without_common_factors(signs, ratio - signs.to_expression(c) * h)
    constant = all(signs.is_independent(each, {part, *indices}) for each in (c, d))
    return (c, d) if constant and (d == 0 or not count.free_symbols & indices) else None


def _without_common_factors(signs: Signs, scalar: Expr) -> Expr:
    """Return ``scalar`` as a quotient of two polynomials without common factors. ``signs`` replaces subexpressions that
    are not rational, such as ``exp(x)``, by symbols (generators).
    """
    top, bottom = signs.quotient(signs.form(scalar))
    return top / bottom
