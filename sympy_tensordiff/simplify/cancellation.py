"""Differences whose terms nearly cancel, rewritten so that no digits are lost.

``exp(t) - 1`` loses all digits where ``t`` is small, `expm1` none. For entries, which are real numbers::

    c*exp(u) - c                    c*expm1(u), of b**u c*expm1(u*log(b))   with a number b > 0
    c*cos(u) - c                    -2*c*sin(u/2)**2
    c*sqrt(a + b**2) - c*b          c*a/(sqrt(a + b**2) + b)                with a number b > 0
    c*b/sqrt(a + b**2) - c          -c*a/(r*(r + b)) with the root r        with a number b > 0
    c*sqrt(a) - c*sqrt(b)           c*(a - b)/(sqrt(a) + sqrt(b))
    c/a - c/b                       c*(b - a)/(a*b)
    c*a**p - c*b**p                 likewise, for p = -1/2, -2/3, -1, ... and p = 1/3, 1/4, 1/5, 2, 3, 4
    c - c*tanh(u)**2                c/cosh(u)**2, likewise of sin, cos and cosh
    c/tanh(u) - c*tanh(u)           2*c/sinh(2*u)
    c - c*erf(u)                    c*erfc(u), see `WITH_NUMBER` for more functions and numbers
    c - c*expm1(u)**2               c*exp(u)*(1 - expm1(u))
    c*x**p - c                      c*expm1(p*log(x))                       with a number p, abs(p) < 1/4
    (1 + u)*(1 + v) - 1             u*(1 + v) + v, also other products of sums and a term of these multiplied out
    erf(u) - erf(v)                 erfc(v) - erfc(u) where u, v > 1/2, erfc(-u) - erfc(-v) where u, v < -1/2
    acos(1 - u)                     2*asin(sqrt(u/2))                       where u < 1
    acosh(1 + u)                    2*asinh(sqrt(u/2))
    log(p + (1 - p)*exp(u))         log1p((1 - p)*expm1(u))                 where abs((1 - p)*expm1(u)) < 1/2
    x - softplus(x - y)             y - softplus(y - x)                     where x > y, also with factors
    log(1 + u)                      log1p(u)                                where u has no exponential
    log(1 - exp(u))                 log(-expm1(u)) where u > -log(2), else log1p(-exp(u))
    softplus(u) - u                 softplus(-u)
    softplus(u) - softplus(-u)      u
    a**2 - 2*a*b + b**2             (a - b)**2
    f + b, f a choice of a - b      the choice with a in place of a - b, and b added to its other form
    a*(b + c) - a*b                 a*c, also of more products whose terms cancel when they are multiplied out
    softplus(2*u) - u - log(2)      log1p(expm1(u)**2/(2*exp(u))) where 0 < u < 30: this is log(cosh(u))
    log(erfc(u))                    log1p(-erf(u)) where u < 1/2, else log(erfcx(u)) - u**2

Differences of powers are rewritten where ``a - b`` has fewer terms than ``a`` or ``b``, or is itself such a difference.

Each is an identity of real numbers wherever the left side has a value. Kernels take these forms; formulas for readers
stay as they were written.

Sources: Higham 2002, *Accuracy and Stability of Numerical Algorithms*, sections 1.7 and 1.14; Mächler 2012, *Accurately
Computing log(1 - exp(-|a|))*.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType
from typing import Any, NamedTuple

import sympy
from sympy.codegen.cfunctions import Cbrt, expm1, log1p

from sympy_tensordiff.graph.functions import erfcx, softplus
from sympy_tensordiff.graph.interning import Number
from sympy_tensordiff.graph.nodes import Graph, Node, reachable, rewritten
from sympy_tensordiff.simplify.close_values import (
    WITH_NUMBER,
    common_difference,
    complement_of_angle,
    difference_of_close_values,
    excess_over_one,
    has_angle,
    law_of_cosines,
    log_of_mixture,
    logaddexp_in_parts,
    power_less_one,
    power_near_one,
    softplus_less_slope,
    value_less_tangent,
)
from sympy_tensordiff.simplify.deviances import (
    deviance,
    difference_of_quotients,
    log_of_close_quotient,
    quotient_less_one,
    zero_times_logarithm,
)
from sympy_tensordiff.simplify.double_exponentials import DoubleExponentials
from sympy_tensordiff.simplify.gamma_differences import difference_of_gammas, logarithm_of_beta
from sympy_tensordiff.simplify.growing_functions import (
    LOGARITHMS,
    has_exponential,
    integral_of_erfc,
    is_call,
    with_bounded_quotients,
    with_relative_slope,
    with_scaled_bessel,
    with_scaled_erfc,
    with_slopes,
)
from sympy_tensordiff.simplify.growing_quotients import with_bounded_growth, with_bounded_terms
from sympy_tensordiff.simplify.large_squares import log_of_large_product, log_of_large_square, with_large_squares
from sympy_tensordiff.simplify.logistic_densities import with_densities
from sympy_tensordiff.simplify.nearby import has_fewer_terms, minus, nearby, product_less_term, reciprocals
from sympy_tensordiff.simplify.perfect_squares import perfect_square, square_of_roots
from sympy_tensordiff.simplify.removable import is_arithmetic, regular_at_zero
from sympy_tensordiff.simplify.roots import (
    difference_of_powers_by_one,
    is_root_of_sum,
    root_less_sum,
    root_minus_value,
    share_minus_one,
    shares_less_number,
)
from sympy_tensordiff.simplify.variances import with_covariances

MAX_TERMS = 12
"""Sums of more terms are left as they are: pairs of terms are compared."""

_HALF = Fraction(1, 2)

_LINEAR_LOG_COSH = 30
"""From here on log(cosh(u)) is ``u - log(2)``, and both ``exp(u)`` and ``exp(-u)`` are far from the ends of numbers."""

_READ_DEPTH = 5
"""The levels of arguments in which entries of arrays are looked at, such as terms, factors and bases."""

_READS = 3
"""The number of arrays that are looked through one after the other."""

_LEAST_ROOT = Fraction(1, 4)
"""Roots with larger exponents than this one lose at most two bits where 1 is subtracted."""

MAX_POWER = 4
"""Differences of powers below ``-MAX_POWER`` stay as they are: they would have too many terms."""


_NONE: Mapping[Node, Node] = MappingProxyType({})


class ScaledTerm(NamedTuple):
    """The term ``factor*base`` of a sum; ``base`` is 1 for a number."""

    factor: Number
    base: Node


def without_cancellation(
    graph: Graph, roots: Sequence[Node], arrays: Sequence[Node] = (), products: Mapping[Node, Node] = _NONE
) -> list[Node]:
    """Return the formulas `roots` with differences of nearly equal numbers, such as ``exp(u) - 1``, replaced by forms
    that lose no digits, such as ``expm1(u)``.

    `arrays` are the tensors that store the first of the roots; `products` maps other stored tensors to their formulas.

    The rules look into reads of both.
    """
    tables = {**products, **dict(zip(arrays, roots, strict=False))}
    roots = with_covariances(graph, roots, tables)
    rewriter = _Rewriter(graph, tables)
    roots = rewritten(graph, roots, rewriter.form_or_spread)
    roots = regular_at_zero(graph, roots, dict(zip(arrays, roots, strict=False)), rewriter.choices)
    # Series are found where all exponentials have arguments of one sign.
    doubles = DoubleExponentials(graph, tables)
    roots = rewritten(graph, roots, lambda node: _bounded(graph, node, doubles))
    return with_densities(graph, roots, dict(zip(arrays, roots, strict=False)))


def _bounded(graph: Graph, node: Node, doubles: DoubleExponentials) -> Node:
    """Rewrite a product so that it does not overflow, by the first of these rules that changes it:
    `with_bounded_quotients` with powers up to `MAX_POWER`, `with_bounded_terms`, `doubles`. Return another node
    unchanged.
    """
    if node.op != "mul":
        return node
    found = with_bounded_quotients(graph, node, MAX_POWER)
    if found is not node or node.shape:
        return found
    found = with_bounded_terms(graph, node)
    return doubles.limited(node) if found is node else found


class _Rewriter:
    """The rules of `without_cancellation`, such as ``exp(u) - 1`` to ``expm1(u)``."""

    def __init__(self, graph: Graph, arrays: Mapping[Node, Node]) -> None:
        self.graph = graph
        self.entries = {a: table for a, table in arrays.items() if is_arithmetic(body_of(table))}
        self.is_of_arrays = False
        """Whether entries of arrays are looked at, which are stored in any case."""
        self.minus_one = graph.const(-1)
        self.distances: dict[tuple[Node, Node], Node | None] = {}
        self.powers: dict[Node, dict[Node, Number]] = {}
        """The results of `_powers`."""
        self.parts_of_products: dict[Node, bool] = {}
        """The results of `has_parts_of_products`."""
        self.inner_forms: dict[Node, Node] = {}
        """The results of `inner_form`."""
        self.monomials: dict[Node, bool] = {}
        """The results of `is_monomial`."""
        self.bounded_quotients: dict[Node, bool] = {}
        """Whether the formulas of arrays are quotients that `with_large_squares` rewrites."""
        self.close_quotients: dict[Node, Node] = {}
        """From logarithms as `log_of_close_quotient` writes them to their arguments."""
        self.written_sums: dict[Node, Node] = {}
        """From sums ``1 + u``, as they were rewritten, to the sums as written."""
        self.written_logarithms: dict[Node, Node] = {}
        """From logarithms that cannot overflow, as `log_of_large_square` writes them, to the logarithms as written."""
        self.choices: dict[Node, Node] = {}
        """From differences that became choices between two forms to the differences as they were written."""

    def form_or_spread(self, node: Node) -> Node:
        """Return the scalar `node` rewritten by the rules against cancellation. If no rule applies to an addition,
        multiply out its products and try again; if this fails, too, return `node` itself.
        """
        found = self.form(node)
        is_addition = node.op == "add" and not node.shape and len(node.args) <= MAX_TERMS
        if found is node and is_addition:
            found = self.of_terms_multiplied_out(node) or node
        if found is not node and is_addition and self.graph.one in node.args:
            self.written_sums[found] = node
        return found

    def form(self, node: Node) -> Node:
        """Return the scalar `node`, whose arguments are already rewritten, after the first applicable rule against
        cancellation; whole tensors are unchanged.

        Where no rule applies, one may apply to the entries of arrays that `node` reads.
        """
        if node.shape or node.op not in ("add", "mul", "pow", "call"):
            return node
        found = self.form_as_written(node)
        if found is node and self.entries and not _is_multiple(node) and self.may_apply(node):
            whole = self.with_entries(node, _READ_DEPTH, _READS)
            if whole is not node:
                self.is_of_arrays = True
                args = rewritten(self.graph, whole.args, self.inner_form)
                whole = self.without_parentheses(self.graph.with_args(whole, args))
                new = self.form_as_written(whole)
                self.is_of_arrays = False
                return node if new is whole else new
        return found

    def inner_form(self, node: Node) -> Node:
        """Return the scalar `node` rewritten by the rules against cancellation. If none applies, try again with each
        tensor entry ``T[i]`` in it replaced by its formula.
        """
        if node not in self.inner_forms:
            found = self.form_as_written(node)
            is_open = found is node and not node.shape and node.op in ("mul", "add") and not _is_multiple(node)
            if is_open and self.may_apply(node):
                whole = self.with_entries(node, _READ_DEPTH, 1)
                new = node if whole is node else self.form_as_written(whole)
                found = node if new is whole else new
            self.inner_forms[node] = found
        return self.inner_forms[node]

    def may_apply(self, node: Node) -> bool:
        """Return whether a rule against cancellation may apply to `node`, by a quick test. It is False for products
        that contain neither a function with a rule for products nor an addition with a number.

        Formulas of the entries that the product reads are examined, too.
        """
        return node.op != "mul" or self.has_parts_of_products(node)

    def has_parts_of_products(self, node: Node) -> bool:
        """Return whether a rule for products may apply inside of `node`, or inside of the formula of an array entry
        that it reads: a function there has such a rule, or an addition there contains a number.
        """
        pending = [node]
        while pending:
            part = pending[-1]
            inner = (*part.args, self.entries[part.args[0]]) if self.is_read(part) else part.args
            missing = (
                [] if part in self.parts_of_products else [arg for arg in inner if arg not in self.parts_of_products]
            )
            if not missing:
                if part not in self.parts_of_products:
                    own = part.data in _IN_PRODUCTS if part.op == "call" else part.op == "add" and _has_number(part)
                    self.parts_of_products[part] = own or any(self.parts_of_products[arg] for arg in inner)
                pending.pop()
            pending += missing
        return self.parts_of_products[node]

    def is_read(self, node: Node) -> bool:
        """Return whether `node` reads an entry of a stored array whose formula is known; the rules then also look into
        the formula.
        """
        return node.op == "read" and node.args[0] in self.entries

    def with_entries(self, node: Node, depth: int, reads: int) -> Node:
        """Return `node` with reads of stored arrays replaced by the formulas of their entries, so that rules can see
        inside.

        Reads below more than `depth` operations stay; formulas are opened within formulas up to `reads` times, and
        constants such as ``sqrt(2)`` once more.
        """
        if self.is_read(node):
            table = self.entries[node.args[0]]
            entry = self.graph.entry(table, node.data) if table.op == "comprehension" else table
            if reads == 0:
                return entry if _is_constant(entry) else node
            return self.with_entries(entry, depth, reads - 1)
        if depth == 0 or node.op not in ("add", "mul", "pow", "call"):
            return node
        args = [
            arg if node.op == "mul" and self.is_bounded_quotient(arg) else self.with_entries(arg, depth - 1, reads)
            for arg in node.args
        ]
        return self.graph.with_args(node, args)

    def is_bounded_quotient(self, node: Node) -> bool:
        """Return whether `node` reads an array of quotients such as ``(1 - x**2)/(1 + x**2)``, which is computed
        without overflow. A product with the factor `node` may then read the array instead of repeating the formula.
        """
        if not self.is_read(node):
            return False
        array = node.args[0]
        if array not in self.bounded_quotients:
            body = body_of(self.entries[array])
            whole = self.with_entries(body, _READ_DEPTH, _READS) if body.op == "mul" else body
            self.bounded_quotients[array] = body.op == "mul" and with_large_squares(self.graph, whole) is not whole
        return self.bounded_quotients[array]

    def without_parentheses(self, node: Node) -> Node:
        """Multiply out the multiples of inner sums in the sum `node`, and return the result: ``a + 2*(b - c)`` becomes
        ``a + 2*b - 2*c``. Other nodes are unchanged.
        """
        if node.op != "add":
            return node
        terms: list[Node] = []
        for term in node.args:
            factor, base = self.term(term)
            terms += [self.graph.scale(factor, part) for part in (base.args if base.op == "add" else (base,))]
        return self.graph.add(terms)

    def form_as_written(self, node: Node) -> Node:
        """Return the scalar `node` rewritten so that it loses no digits by cancellation, by the rules for its
        operation, such as a sum, a power or a logarithm. Array entries in it are not replaced by their formulas.
        """
        if node.op == "add" and len(node.args) <= MAX_TERMS:
            return self.difference(node)
        if node.op == "pow" and (found := power_near_one(self.graph, node)) is not None:
            self.choices[found] = node
            return self.noted("(1 + u)**p", found)
        if node.op == "mul" or is_call(node, sympy.log):
            node = self.with_plain_exponentials(node)
        if node.op == "call" and node.data is sympy.log:
            return self.logarithm(node)
        if is_call(node, sympy.acos):
            return self.arccosine(node)
        if is_call(node, sympy.acosh) and (excess := excess_over_one(self.graph, node.args[0])) is not None:
            root = self.graph.pow(self.graph.scale(_HALF, excess), self.graph.const(_HALF))
            return self.noted("acosh(1 + u)", self.graph.scale(2, self.graph.call(sympy.asinh, (root,))))
        if node.op == "mul" and (new := zero_times_logarithm(self.graph, node, self.close_quotients)) is not node:
            return new
        for name, rule in _PRODUCTS.items():
            if node.op == "mul" and (new := rule(self.graph, node)) is not node:
                if rule is with_large_squares:
                    self.choices[new] = node
                node = self.noted(name, new)
        return node

    def with_plain_exponentials(self, node: Node) -> Node:
        """Return `node`, a logarithm or a product, with sums of exponentials such as ``exp(a) - exp(b)`` restored where
        a rule has rewritten them. A later pass can then divide all exponentials by the largest one.
        """
        graph, args = self.graph, node.args
        for n, arg in enumerate(args):
            is_power = arg.op == "pow"
            base = arg.args[0] if is_power else arg
            factor, chosen = graph.split_coefficient(base)
            written = self.choices.get(chosen, chosen)
            if written.op != "add" or not all(is_call(graph.factors(term)[-1], sympy.exp) for term in written.args):
                continue
            is_divisor = is_power and not _is_positive_number(arg.args[1])
            if node.op == "call" or is_divisor or any(map(has_exponential, (*args[:n], *args[n + 1 :]))):
                plain = graph.add([graph.scale(factor, term) for term in written.args])
                args = (*args[:n], graph.with_args(arg, (plain, *arg.args[1:])) if is_power else plain, *args[n + 1 :])
        return graph.with_args(node, args)

    def noted(self, law: str, found: Node) -> Node:
        """Count a use of the rewriting rule named `law` in ``graph.laws``, and return `found`, the node that the rule
        gave.
        """
        self.graph.laws[law] = self.graph.laws.get(law, 0) + 1
        return found

    def difference(self, node: Node) -> Node:
        """Return the sum `node` with nearly cancelling terms joined, such as ``exp(u)`` and ``-1`` to ``expm1(u)``;
        unchanged without such terms.
        """
        graph = self.graph
        terms = [self.term(arg) for arg in node.args]
        if (found := self.of_several_terms(node, terms)) is not None:
            return found
        for n, one in enumerate(terms):
            for m, other in enumerate(terms):
                if n != m and (joined := self.joined(one, other)) is not None:
                    rest = [arg for k, arg in enumerate(node.args) if k not in (n, m)]
                    return self.form(graph.add((*rest, joined))) if rest else joined
        return self.of_terms_with_a_factor(node) or node

    def of_several_terms(self, node: Node, terms: Sequence[ScaledTerm]) -> Node | None:
        """Return the addition `node`, with the terms `terms`, rewritten by the first rule for more than two terms that
        applies; None if none does.
        """
        graph = self.graph
        functions = _functions_of_factors(graph, node)
        if softplus in functions:
            if (found := self.log_cosh(node, terms)) is not None:
                return self.noted("log(cosh(u))", found)
            if (found := self.opposite_softplus(node, terms)) is not None:
                return self.form(self.noted("softplus(u) - u", found))
            if (found := logaddexp_in_parts(graph, node)) is not None:
                return self.noted("x - softplus(x - y)", found)
        if (found := self.functions_less_number(terms)) is not None:
            return found
        if (found := reciprocals(graph, node, terms)) is not None:
            return self.noted("sum of reciprocals", found)
        if (found := deviance(graph, node, self.close_quotients)) is not None:
            return self.noted("a*log(a/b) - a + b", found)
        for name, (function, rule) in _SUMS.items():
            if (function is None or function in functions) and (found := rule(graph, node)) is not None:
                return self.form(self.noted(name, found))
        if erfcx in functions and (slopes := with_slopes(graph, node)) is not node:
            return self.form(self.noted("2*u*erfcx(u) - 2/sqrt(pi)", slopes))
        return None

    def of_terms_with_a_factor(self, node: Node) -> Node | None:
        """Return the addition `node` after a rule for several terms is applied to its terms with one common factor, as
        to ``c/(x + 1) - 2*c/x + c/(x - 1)``. None if no rule applies.
        """
        graph = self.graph
        factors = [graph.factors(graph.split_coefficient(arg)[1]) for arg in node.args]
        for factor, count in Counter(part for own in factors for part in own).items():
            if count < 2 or factor.op == "const":
                continue
            inside = [n for n, own in enumerate(factors) if factor in own]
            rests = [
                graph.mul((graph.const(graph.split_coefficient(node.args[n])[0]), *_without(factors[n], factor)))
                for n in inside
            ]
            inner = graph.add(rests)
            found = self.of_several_terms(inner, [self.term(arg) for arg in inner.args]) if inner.op == "add" else None
            if found is not None:
                others = [arg for n, arg in enumerate(node.args) if n not in inside]
                return self.form(graph.add((*others, graph.mul((factor, found)))))
        return None

    def of_terms_multiplied_out(self, node: Node) -> Node | None:
        """Return the addition `node` with its products multiplied out if that simplifies it: ``(1 + x)*exp(x) - 1``
        becomes ``expm1(x) + x*exp(x)``. Else return None.

        It does if a rule applies to two of the terms, or if so many terms cancel that no more remain than before.

        Also None if a rule applies but the result has at least two function calls more.
        """
        graph = self.graph
        terms: list[Node] = []
        for arg in node.args:
            factors = graph.factors(arg)
            total = next((part for part in factors if part.op == "add"), None)
            rest = [part for part in factors if part is not total]
            terms += [arg] if total is None else [graph.mul((*rest, part)) for part in total.args]
        whole = graph.add(terms)
        remaining = len(whole.args) if whole.op == "add" else 1
        if remaining <= min(len(terms) - 2, len(node.args)):
            return self.form(whole)
        if len(terms) == len(node.args) or whole.op != "add" or len(whole.args) > MAX_TERMS:
            return None
        found = self.difference(whole)
        return None if found is whole or _calls(found) > _calls(node) + 1 else found

    def log_cosh(self, node: Node, terms: Sequence[ScaledTerm]) -> Node | None:
        """Return the addition `node` with three of its `terms`, ``c*softplus(2*u) - c*u - c*log(2)``, replaced by a
        form of their sum ``c*log(cosh(u))`` that is also accurate near ``u = 0``. None if there are no such terms.

        With ``m = min(abs(u), 30)`` it is ``abs(u) - m + log(cosh(m))``, and ``cosh(m) - 1`` is
        ``expm1(m)**2/(2*exp(m))``.
        """
        graph = self.graph
        log_2 = graph.call(sympy.log, (graph.const(2),))
        for factor, base in terms:
            if base.op == "call" and base.data is softplus:
                u = graph.scale(_HALF, base.args[0])
                own = [graph.scale(factor, base), graph.scale(-factor, u), graph.scale(-factor, log_2)]
                if all(term in node.args for term in own):
                    size = graph.call(sympy.Abs, (u,))
                    least = graph.call(sympy.Min, (size, graph.const(_LINEAR_LOG_COSH)))
                    grown = graph.call(expm1, (least,))
                    square, below = graph.pow(grown, graph.const(2)), graph.add((grown, graph.one))
                    ratio = graph.scale(_HALF, graph.mul((square, graph.pow(below, graph.const(-1)))))
                    parts = (size, graph.neg(least), graph.call(log1p, (ratio,)))
                    rest = [arg for arg in node.args if arg not in own]
                    return graph.add((*rest, *(graph.scale(factor, part) for part in parts)))
        return None

    def opposite_softplus(self, node: Node, terms: Sequence[ScaledTerm]) -> Node | None:
        """Return the sum `node` with two of its `terms`, ``softplus(u) - u``, replaced by ``softplus(-u)``, which does
        not cancel; None without such terms.
        """
        graph = self.graph
        for factor, base in terms:
            if is_call(base, softplus):
                u = base.args[0]
                own = [graph.scale(-factor, part) for part in (u.args if u.op == "add" else (u,))]
                if all(term in node.args for term in own):
                    joined = graph.scale(factor, graph.call(softplus, (graph.neg(u),)))
                    rest = [arg for arg in node.args if arg not in own and arg is not graph.scale(factor, base)]
                    return graph.add((*rest, joined))
        return None

    def functions_less_number(self, terms: Sequence[ScaledTerm]) -> Node | None:
        """Return the sum of ``terms``, multiples of functions and a number, without cancellation: split the number, as
        in ``2*(cos(u) - 1) + (cos(v) - 1)`` for ``2*cos(u) + cos(v) - 3``, and apply a rule to each difference. None
        for other sums.
        """
        graph = self.graph
        numbers = [term.factor for term in terms if term.base is graph.one]
        others = [term for term in terms if term.base is not graph.one]
        if not numbers or len(others) < 2 or sum(Fraction(term.factor) for term in terms) != 0:
            return None
        found = [self.with_number(base, factor, -factor) for factor, base in others]
        known = [one for one in found if one is not None]
        return graph.add(known) if len(known) == len(found) else None

    def term(self, node: Node) -> ScaledTerm:
        """Return `node`, a term of a sum, as a `ScaledTerm` ``factor*base``; a number has the base 1."""
        if node.op == "const" and isinstance(node.data, int | Fraction):
            return ScaledTerm(node.data, self.graph.one)
        return ScaledTerm(*self.graph.split_coefficient(node))

    def joined(self, one: ScaledTerm, other: ScaledTerm) -> Node | None:
        """Return ``one + other`` in a form that loses no digits; None if no rule applies to the pair.

        If `one` has a choice between a factor and 0, as the derivative of a norm has, it is one of two forms, too.
        """
        graph = self.graph
        if self.is_monomial(one.base) and self.is_monomial(other.base):
            return None
        guarded = next((part for part in graph.factors(one.base) if _is_guarded(part)), None)
        if guarded is not None and one.base is not other.base:
            rest = [part for part in graph.factors(one.base) if part is not guarded]
            inner = self.joined(ScaledTerm(one.factor, graph.mul((*rest, guarded.args[1]))), other)
            outside = graph.scale(other.factor, other.base)
            return None if inner is None else graph.select(guarded.args[0], inner, outside)
        found = self.inside_choice(one, other) or self.difference_of_terms(one, other)
        factor, chosen = (1, graph.one) if found is None else graph.split_coefficient(found)
        if chosen.op == "select":
            terms = [(_as_int(Fraction(term.factor) / Fraction(factor)), term.base) for term in (one, other)]
            self.choices[chosen] = graph.add([graph.scale(*term) for term in terms])
        return found

    def is_monomial(self, base: Node) -> bool:
        """Return whether `base` is 1, or a product of entries and scalars with positive integer exponents: no rule
        joins two of these.
        """
        if base not in self.monomials:
            bases = [part.args[0] if _is_positive_power(part) else part for part in self.graph.factors(base)]
            self.monomials[base] = all(part is self.graph.one or part.op in ("read", "scalar") for part in bases)
        return self.monomials[base]

    def inside_choice(self, one: ScaledTerm, other: ScaledTerm) -> Node | None:
        """Return ``one + other``, with `other` added in both branches of the choice `one`, if that cancels a term:
        ``log(exp(u) - 1) - u`` is ``log1p(-exp(-u))`` in a branch for large u. None if no term cancels.
        """
        graph, choice = self.graph, one.base
        if choice.op != "select" or not any(form.op == "add" for form in choice.args[1:]):
            return None
        value = graph.scale(_as_int(Fraction(other.factor) / Fraction(one.factor)), other.base)
        opposite = graph.neg(value)
        if not any(form.op == "add" and opposite in form.args for form in choice.args[1:]):
            return None
        forms = [graph.add((form, value)) for form in choice.args[1:]]
        return self.noted("(a - b if c else d) + b", graph.scale(one.factor, graph.select(choice.args[0], *forms)))

    def difference_of_terms(self, one: ScaledTerm, other: ScaledTerm) -> Node | None:
        """Return the sum ``one + other`` in a form without cancellation, by the first rule that applies: ``expm1(u)``
        for ``exp(u) - 1``. None if no rule applies to the terms in this order; `joined` tries both orders.
        """
        graph, factor = self.graph, one.factor
        if (found := self.with_common_factors(one, other)) is not None:
            return found
        if other.base is graph.one and (found := self.with_number(one.base, factor, other.factor)) is not None:
            return found
        if any(part.op == "add" for part in graph.factors(one.base)):
            value = graph.scale(_as_int(Fraction(-other.factor) / Fraction(factor)), other.base)
            if (found := product_less_term(graph, one.base, value)) is not None:
                return self.noted("(1 + u)*(1 + v) - 1", graph.scale(factor, found))
        if any(part in self.choices for part in graph.factors(one.base)):
            value = graph.scale(_as_int(Fraction(-other.factor) / Fraction(factor)), other.base)
            if (found := self.less_tangent(factor, one.base, value)) is not None:
                return found
        is_angle = has_angle(graph, one.base)
        if is_angle or is_root_of_sum(graph, one.base):
            value = graph.scale(_as_int(Fraction(other.factor) / Fraction(factor)), other.base)
            if is_angle and (found := complement_of_angle(graph, one.base, value)) is not None:
                return self.noted("pi/2 - atan(u)", graph.scale(factor, rewritten(graph, [found], self.form)[0]))
            if not is_angle and (found := root_minus_value(graph, one.base, graph.neg(value))) is not None:
                return self.noted("sqrt(a + b**2) - b", graph.scale(factor, found))
        return self.opposite_terms(factor, one, other) if other.factor == -factor else None

    def with_number(self, base: Node, factor: Number, number: Number) -> Node | None:
        """Return ``factor*base + number`` without cancellation, such as ``exp(u) - 1`` as ``expm1(u)``; None if there
        is no rule for the function of `base`.
        """
        graph = self.graph
        base = self.choices.get(base, base)
        ratio = _as_int(Fraction(number) / Fraction(factor))
        if base.op == "call" and (base.data, ratio) in WITH_NUMBER:
            name, rule = WITH_NUMBER[base.data, ratio]
            return self.noted(name, graph.scale(factor, rule(graph, base.args[0])))
        if number == -factor and base.op == "mul" and all(is_call(part, sympy.exp) for part in base.args):
            exponent = self.form_or_spread(graph.add([part.args[0] for part in base.args]))
            return self.noted("exp(u) - 1", graph.scale(factor, graph.call(expm1, (exponent,))))
        if number == -factor and base.op == "pow":
            written = self.written_sums.get(base.args[0])
            root = base if written is None else graph.pow(written, base.args[1])
            value = root_minus_value(graph, root, graph.one) if is_root_of_sum(graph, root) else None
            if value is not None:
                return self.noted("sqrt(a + b**2) - b", graph.scale(factor, value))
            found = self.power_minus_one(base.args[0], base.args[1], factor)
            return None if found is None else self.noted("f(u) - 1", found)
        if number == factor and (found := share_minus_one(graph, graph.neg(base))) is not None:
            return self.noted("b/sqrt(a + b**2) - 1", graph.scale(-factor, found))
        return None

    def opposite_terms(self, factor: Number, one: ScaledTerm, other: ScaledTerm) -> Node | None:
        """Return the sum of the terms `one`, which is ``factor*a``, and `other`, which is ``-factor*b``, in a form
        without cancellation. None if no rule applies to the difference ``a - b``.
        """
        graph = self.graph
        if (found := difference_of_powers_by_one(graph, one.base, other.base)) is not None:
            return self.noted("b*a**p - a**(p + 1)", graph.scale(factor, found))
        if (found := self.of_two_values(factor, one.base, other.base)) is not None:
            return found
        if (found := nearby(graph, factor, one.base, other.base, self.distance)) is not None:
            return self.noted("f(a) - f(b)", found)
        if (found := self.close_logarithms(one.base, other.base)) is not None:
            return self.noted("f(a) - f(b)", graph.scale(factor, found))
        found = None if self.is_of_arrays else difference_of_close_values(graph, one.base, other.base)
        if found is not None:  # networks store tanh and the like: other functions would cost as much
            return self.noted("f(a) - f(b)", graph.scale(factor, found))
        if one.base.op != "pow" or other.base.op != "pow":
            return None
        (a, power), (b, same) = one.base.args, other.base.args
        if power is not same or power.op != "const" or not is_difference_power(power.data):
            return None
        distance = self.distance(a, b)
        if distance is None:
            return None
        found = self.difference_of_powers(a, b, distance, Fraction(power.data))
        return self.noted("a**p - b**p", graph.scale(factor, found))

    def close_logarithms(self, one: Node, other: Node) -> Node | None:
        """Return ``one - other`` in a form that is accurate for nearly equal values. None unless both are logarithms,
        such as ``log(k + c*u**2)``, that an earlier rule has rewritten against overflow.
        """
        if one not in self.written_logarithms or other not in self.written_logarithms:
            return None
        written = self.written_logarithms[one], self.written_logarithms[other]
        found = nearby(self.graph, 1, *written, self.distance)
        if found is None or found.op != "select":
            return found
        condition, near, _ = found.args
        return self.graph.select(condition, near, self.graph.add((one, self.graph.neg(other))))

    def with_common_factors(self, one: ScaledTerm, other: ScaledTerm) -> Node | None:
        """Return ``one + other`` as a product of the factors that both have in common and a difference that a rule can
        rewrite: ``y*exp(x) - y`` as ``y*expm1(x)``. None without common factors, or if no rule applies.
        """
        graph = self.graph
        powers = self.powers_of(one.base), self.powers_of(other.base)
        if powers[0].keys().isdisjoint(powers[1]):
            return None
        common = {base: e for base, e in powers[0].items() if base in powers[1] and _is_part(e, powers[1][base])}
        common |= {base: e for base, e in powers[1].items() if base in powers[0] and _is_part(e, powers[0][base])}
        if not common:
            return None
        rests = [
            graph.mul([graph.pow(base, graph.const(e - common.get(base, 0))) for base, e in own.items()])
            for own in powers
        ]
        inner = self.joined(ScaledTerm(one.factor, rests[0]), ScaledTerm(other.factor, rests[1]))
        outside = [graph.pow(base, graph.const(e)) for base, e in common.items()]
        return None if inner is None else graph.mul((*outside, inner))

    def powers_of(self, product: Node) -> dict[Node, Number]:
        """Return the bases of `product` with their exponents, ``{x: 2, y: -1}`` for ``x**2/y``; they are computed once
        and stored.
        """
        if product not in self.powers:
            self.powers[product] = _powers(self.graph, product)
        return self.powers[product]

    def less_tangent(self, factor: Number, one: Node, other: Node) -> Node | None:
        """Return ``factor*(one - other)`` without cancellation if `one` is ``c*((1 + u)**p - 1)`` and `other` its
        linear part, ``c*p*u*(1 + u)**(p - 1)``, as in derivatives of annuities; else None.
        """
        graph = self.graph
        for part in graph.factors(one):
            power = next((term for term in self.choices.get(part, part).args if term.op == "pow"), None)
            u = None if power is None else excess_over_one(graph, power.args[0])
            if u is None or power is None or power.args[1].op == "const":
                continue
            c = graph.mul([factor for factor in graph.factors(one) if factor is not part])
            found = value_less_tangent(graph, u, power.args[1])
            is_written = self.choices.get(part) is graph.add((power, self.minus_one))
            if is_written and graph.mul((c, found[1])) is other:
                below = graph.compare("lt", self.minus_one, u)
                near = graph.scale(factor, graph.mul((c, found[0])))
                return self.noted(
                    "(1 + u)**p - 1 - p*u*(1 + u)**(p - 1)",
                    graph.select(below, near, graph.scale(factor, minus(graph, one, other))),
                )
        return None

    def of_two_values(self, factor: Number, one: Node, other: Node) -> Node | None:
        """Return ``factor*(one - other)`` written without cancellation, for pairs such as ``erf(u) - erf(v)``, ``a/b -
        1`` or ``1/tanh(u) - tanh(u)``; None if no rule applies.
        """
        graph = self.graph
        if (found := difference_of_gammas(graph, one, other)) is not None:
            return self.noted("loggamma(x + a) - loggamma(x)", graph.scale(factor, found))
        if (found := quotient_less_one(graph, one, other)) is not None:
            return self.noted("a/b - 1", graph.scale(factor, found))
        if (found := difference_of_quotients(graph, one, other)) is not None:
            return self.noted("a/b - c/d", graph.scale(factor, found))
        if is_call(one, softplus) and is_call(other, softplus) and graph.neg(one.args[0]) is other.args[0]:
            return self.noted("softplus(u) - u", graph.scale(factor, one.args[0]))
        if is_call(one, sympy.erf) and is_call(other, sympy.erf):
            return self.noted("erf(u) - erf(v)", self.difference_of_tails(factor, one.args[0], other.args[0]))
        if other is graph.one and (found := share_minus_one(graph, one)) is not None:
            return self.noted("b/sqrt(a + b**2) - 1", graph.scale(factor, found))
        if is_call(other, sympy.tanh) and graph.pow(other, self.minus_one) is one:
            double = graph.call(sympy.sinh, (graph.scale(2, other.args[0]),))
            return self.noted("1/tanh(u) - tanh(u)", graph.scale(2 * factor, graph.pow(double, self.minus_one)))
        return None

    def difference_of_tails(self, factor: Number, u: Node, v: Node) -> Node:
        """Return ``factor*(erf(u) - erf(v))`` without cancellation: where `u` and `v` are both above 1/2 or both below
        -1/2, as a difference of the small numbers ``erfc``.
        """
        graph = self.graph

        def difference_of_values(function: Any, sign: int) -> Node:
            """Return the node ``function(sign*u) - function(sign*v)``."""
            one, other = (graph.call(function, (graph.scale(sign, at),)) for at in (u, v))
            return graph.add((one, graph.neg(other)))

        value = difference_of_values(sympy.erf, 1)
        for sign in (1, -1):
            at = [graph.compare("lt", graph.const(_HALF), graph.scale(sign, end)) for end in (u, v)]
            value = graph.select(
                graph.logic("and", at), graph.scale(-sign, difference_of_values(sympy.erfc, sign)), value
            )
        return graph.scale(factor, value)

    def distance(self, a: Node, b: Node) -> Node | None:
        """Return the difference ``a - b`` if it is accurate for close values, because terms of `a` and `b` cancel in it
        or a rule rewrites it; else None.
        """
        if (a, b) not in self.distances:
            self.distances[a, b] = None
            found = minus(self.graph, a, b)
            if found.op != "const" and not has_fewer_terms(found, a) and not has_fewer_terms(found, b):
                new = self.difference(found) if found.op == "add" and len(found.args) == 2 else found
                self.distances[a, b] = None if new is found else new
            elif found is not self.graph.zero:
                self.distances[a, b] = found
        return self.distances[a, b]

    def difference_of_powers(self, a: Node, b: Node, distance: Node, power: Fraction) -> Node:
        """Return ``a**power - b**power`` as ``distance`` times a factor without cancellation, where `distance` is ``a -
        b``: ``a**2 - b**2`` is ``(a - b)*(a + b)``.
        """
        graph = self.graph

        def raised(base: Node, exponent: Fraction) -> Node:
            """Return ``base**exponent``. A multiple of 1/3, which no floating point number equals, is computed as a
            power of the cube root.
            """
            if exponent.denominator == 3:
                base, exponent = graph.call(Cbrt, (base,)), 3 * exponent
            return graph.pow(base, graph.const(_as_int(exponent)))

        unit, steps = Fraction(1, power.denominator), abs(power.numerator)
        sign = 1 if power > 0 else -1
        orders = range(steps) if power > 0 else range(1, steps + 1)
        # No factor is larger than the powers themselves, so that none overflows or underflows before they do.
        terms = [
            (raised(a, sign * order * unit), raised(b, sign * last * unit))
            for order, last in zip(orders, reversed(orders), strict=True)
        ]
        factors = [graph.const(sign), graph.add(map(graph.mul, terms))]
        if unit != 1:
            last = unit.denominator - 1
            roots = [graph.mul((raised(a, (last - k) * unit), raised(b, k * unit))) for k in range(last + 1)]
            factors.append(graph.pow(graph.add(roots), self.minus_one))
        return graph.mul((distance, *factors))

    def power_minus_one(self, base: Node, exponent: Node, factor: Number) -> Node | None:
        """Return ``factor*(base**exponent - 1)`` without cancellation, for squares of functions and for positive
        numbers as bases; None for others.
        """
        graph = self.graph
        if base.op == "const" and base.data > 0 and not _is_of_indices(exponent):
            exponent = graph.mul((exponent, graph.call(sympy.log, (base,))))
            return graph.scale(factor, graph.call(expm1, (exponent,)))
        if is_call(base, expm1) and exponent.op == "const" and exponent.data == 2:
            grown = graph.call(sympy.exp, base.args)
            return graph.scale(factor, graph.mul((grown, graph.add((base, graph.const(-1))))))
        if exponent.op == "const" and base.op == "call" and (base.data, exponent.data) in _SQUARES:
            function, sign, power = _SQUARES[base.data, exponent.data]
            return graph.scale(sign * factor, graph.pow(graph.call(function, base.args), graph.const(power)))
        if is_call(base, sympy.erf) and exponent.op == "const" and exponent.data == 2:
            tail = graph.call(sympy.erfc, (graph.call(sympy.Abs, base.args),))
            return graph.scale(-factor, graph.mul((tail, minus(graph, graph.const(2), tail))))
        excess = excess_over_one(graph, base)
        if excess is None and exponent.op == "const" and abs(exponent.data) < _LEAST_ROOT:
            logarithm = graph.mul((exponent, graph.call(sympy.log, (base,))))
            return graph.scale(factor, graph.call(expm1, (logarithm,)))
        if excess is None or (exponent.op == "const" and abs(exponent.data) == _HALF):  # roots have another rule
            return None
        if exponent.op == "const" and is_difference_power(exponent.data):
            return graph.scale(factor, self.difference_of_powers(base, graph.one, excess, Fraction(exponent.data)))
        found = power_less_one(graph, base, exponent)
        return None if found is None else graph.scale(factor, found)

    def arccosine(self, node: Node) -> Node:
        """Return the arccosine `node`, ``acos(1 - u)``, as a select: ``2*asin(sqrt(u/2))`` where ``u < 1``, else
        `node`. Another arccosine is unchanged.
        """
        graph, (argument,) = self.graph, node.args
        if argument.op != "add" or graph.one not in argument.args:
            return node
        u = graph.neg(graph.add([arg for arg in argument.args if arg is not graph.one]))
        half = graph.pow(graph.scale(_HALF, u), graph.const(_HALF))
        near = graph.scale(2, graph.call(sympy.asin, (half,)))
        return self.noted("acos(1 - u)", graph.select(graph.compare("lt", u, graph.one), near, node))

    def logarithm(self, node: Node) -> Node:
        """Return the logarithm `node` in the form given by the first rule that applies; unchanged if none applies."""
        large = ("log(k + u**2)", log_of_large_square), ("log(f*(k + w))", log_of_large_product)
        for name, rule in (*large, *LOGARITHMS.items()):
            if (found := rule(self.graph, node.args[0])) is not None:
                if rule in (log_of_large_square, log_of_large_product):
                    self.written_logarithms[found] = node
                return self.noted(name, found)
        if (found := log_of_close_quotient(self.graph, node.args[0])) is not None:
            self.close_quotients[found] = node.args[0]
            return self.noted("log(a/b)", found)
        if (found := log_of_mixture(self.graph, node)) is not None:
            return self.noted("log(p + (1 - p)*exp(u))", found)
        argument = node.args[0]
        written = self.written_sums.get(argument, argument)
        if written is not argument and not any(part.op == "call" for part in reachable(written)):
            u = self.graph.add([term for term in written.args if term is not self.graph.one])
            is_near = self.graph.compare("lt", self.graph.call(sympy.Abs, (u,)), self.graph.const(_HALF))
            return self.noted("log(1 + u)", self.graph.select(is_near, self.graph.call(log1p, (u,)), node))
        if argument.op == "add" and self.graph.one in argument.args:  # it keeps its digits when exponentials are scaled
            self.choices[node] = self.graph.call(log1p, (self.graph.add((argument, self.minus_one)),))
        return node


_PRODUCTS = {
    "u**2/(k + u**2)": with_large_squares,
    "exp(u**2)*erfc(u)": with_scaled_erfc,
    "besseli(m, u)/besseli(n, u)": with_scaled_bessel,
    "erfcx_slope(u)/erfcx(u)": with_relative_slope,
    "exp(u)/expm1(u)": with_bounded_quotients,
    "exp(u)/(c + b*expm1(u))": with_bounded_growth,
}
"""The rules of products, by the names that `.plan` shows."""

_SUMS: dict[str, tuple[Any, Callable[[Graph, Node], Node | None]]] = {
    "loggamma(x) + loggamma(y) - loggamma(x + y)": (sympy.loggamma, logarithm_of_beta),
    "a**2 - 2*a*b + b**2": (None, perfect_square),
    "a + b - 2*sqrt(a*b)": (None, square_of_roots),
    "softplus(u) - u*sigmoid(u)": (softplus, softplus_less_slope),
    "a - b + (a - b)**2*c": (None, common_difference),
    "sqrt(a + b**2) - b": (None, root_less_sum),
    "b/sqrt(a + b**2) - 1": (None, shares_less_number),
    "a**2 + b**2 - 2*a*b*cos(u)": (sympy.cos, law_of_cosines),
    "u*erfc(u) - exp(-u**2)/sqrt(pi)": (sympy.erfc, integral_of_erfc),
}
"""The rules of whole sums, by the names that `.plan` shows, each with a function that a term must have, or None."""

_SQUARES: dict[tuple[Any, Any], tuple[Any, int, int]] = {
    (sympy.tanh, 2): (sympy.cosh, -1, -2),
    (sympy.tanh, -2): (sympy.sinh, 1, -2),
    (sympy.cosh, 2): (sympy.sinh, 1, 2),
    (sympy.sin, 2): (sympy.cos, -1, 2),
    (sympy.sin, -2): (sympy.tan, 1, -2),
    (sympy.cos, 2): (sympy.sin, -1, 2),
    (sympy.cos, -2): (sympy.tan, 1, 2),
}
"""From functions f and exponents to the function, the sign and the exponent of ``f**n - 1 = sign*g**exponent``."""


def body_of(table: Node) -> Node:
    """Return the body of a comprehension; if `table` is not a comprehension, return it unchanged."""
    return table.args[0] if table.op == "comprehension" else table


_IN_PRODUCTS = frozenset({sympy.erfc, erfcx, sympy.besseli, expm1, sympy.sinh, sympy.log, log1p})
"""Functions that occur in each product with a rule, if it has no addition with a number."""


def _functions_of_factors(graph: Graph, addition: Node) -> set[Any]:
    """Return the functions that are factors, or bases of factors that are powers, in the terms of ``addition``: exp and
    sin for ``2*exp(u) + sin(v)**2``.
    """
    factors = [part for term in addition.args for part in graph.factors(term)]
    bases = [part.args[0] if part.op == "pow" else part for part in factors]
    return {base.data for base in bases if base.op == "call"}


def _has_number(addition: Node) -> bool:
    """Return whether a term of the addition is a number."""
    return any(arg.op == "const" for arg in addition.args)


def _is_constant(node: Node) -> bool:
    """Return whether `node` is a number, or a sum, product or power of numbers, such as ``2/sqrt(pi)``."""
    if node.op == "scalar":
        return bool(node.data.is_number)
    return node.op == "const" or (node.op in ("add", "mul", "pow") and all(map(_is_constant, node.args)))


def _is_guarded(node: Node) -> bool:
    """Return whether `node` is a choice between a value and 0."""
    return node.op == "select" and node.args[2].op == "const" and node.args[2].data == 0


def _powers(graph: Graph, product: Node) -> dict[Node, Number]:
    """Return the bases of a product with their exponents: ``{x: 2, y: -1}`` for ``x**2/y``."""
    found: dict[Node, Number] = {}
    for factor in graph.factors(product):
        is_power = (
            factor.op == "pow" and factor.args[1].op == "const" and isinstance(factor.args[1].data, int | Fraction)
        )
        base, exponent = (factor.args[0], factor.args[1].data) if is_power else (factor, 1)
        found[base] = found.get(base, 0) + exponent
    return {} if product is graph.one else found


def _is_part(exponent: Number, other: Number) -> bool:
    """Return whether ``b**exponent`` may be taken out of ``b**other``, as for the exponents 1/2 and 3/2, or -1 and -2:
    what remains is 1, or an integer power with the sign of `exponent`.
    """
    rest = Fraction(other) - Fraction(exponent)
    return rest == 0 or (rest.denominator == 1 and rest * exponent > 0)


def _is_positive_number(node: Node) -> bool:
    """Return whether `node` is a positive number."""
    return node.op == "const" and bool(node.data > 0)


def _is_positive_power(node: Node) -> bool:
    """Return whether `node` is a power with a positive integer as exponent."""
    exponent = node.args[1].data if node.op == "pow" and node.args[1].op == "const" else 0
    return isinstance(exponent, int) and exponent > 0


def _is_multiple(node: Node) -> bool:
    """Return whether `node` is a number times one array entry: a product that the rules against cancellation need not
    examine.
    """
    return node.op == "mul" and len(node.args) == 2 and node.args[0].op == "const" and node.args[1].op == "read"


def _without(factors: Sequence[Node], factor: Node) -> list[Node]:
    """Return `factors` without `factor`."""
    return [part for part in factors if part is not factor]


def _calls(node: Node) -> int:
    """Return the number of different function calls in `node`, where absolute values and functions of numbers do not
    count.
    """
    calls = [part for part in reachable(node) if part.op == "call" and part.data is not sympy.Abs]
    return sum(any(arg.op != "const" for arg in part.args) for part in calls)


def _is_of_indices(node: Node) -> bool:
    """Return whether `node` is made of indices and numbers only, so that it is computed in integers."""
    return all(part.op in ("const", "index", "add", "mul") for part in reachable(node))


def is_difference_power(power: object) -> bool:
    """Return whether there is a rewriting rule for ``a**power - b**power``. ``power`` must be 2, 3 or 4; 1/2, 1/3, 1/4
    or 1/5; or a negative rational number that is at least ``-MAX_POWER`` and has a denominator of at most 5.
    """
    if not isinstance(power, int | Fraction):
        return False
    if power in (2, 3, 4):
        return True
    return power != 0 and (1 / Fraction(power) in (2, 3, 4, 5) or (-MAX_POWER <= power < 0 and power.denominator <= 5))


def _as_int(number: Fraction) -> Number:
    """Return the fraction ``number`` as an int if its denominator is 1, else unchanged."""
    return number.numerator if number.denominator == 1 else number
