"""Signs of scalars over declared domains: a table of ranges, and exact algebra over the rationals.

A scalar is read as a rational function of *generators*: reads, parameters, exponentials, logarithms, roots, sums. Each
generator has an open or half-open interval that holds its values; different generators are taken as independent, which
can lose a proof and never makes one wrong. A sign is then proved by the signs of terms and factors, by coefficients
after a shift of each generator to its bound, by counts of real roots (Sturm), or by a discriminant. SymPy's
assumptions are asked of plain symbols only, and its `simplify` never.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import sympy
from sympy import Dummy, Expr, Poly, Rational, S
from sympy.polys.fields import FracField

from sympy_tensordiff.symbolic.matrix_functions import TensorDeterminant, TensorInverse
from sympy_tensordiff.symbolic.scalar_functions import sigmoid, softplus
from sympy_tensordiff.symbolic.sums import IndexedMax, IndexedMin, IndexedProduct, IndexedReduction, IndexedSum
from sympy_tensordiff.symbolic.tensors import TensorEntry

MOST_OPERATIONS = 120
MOST_TERMS = 100
"""A scalar of more operations, or a polynomial of more terms, is given no sign: a refusal is to take no minutes."""


class Range(NamedTuple):
    """The values between two bounds, None where there is none; ``strict`` excludes the bounds."""

    low: Expr | None = None
    high: Expr | None = None
    strict: bool = True


FREE = Range()
POSITIVE = Range(S.Zero)
AT_LEAST_ZERO = Range(S.Zero, None, False)
AT_LEAST_ONE = Range(S.One, None, False)

RANGES: dict[Any, Range] = {
    **dict.fromkeys((sympy.sin, sympy.cos), Range(-S.One, S.One, False)),
    **dict.fromkeys((sympy.erf,), Range(-S.One, S.One)),
    **dict.fromkeys((sympy.atan,), Range(S(-2), S(2))),
    **dict.fromkeys((sympy.sign,), Range(-S.One, S.One, False)),
    **dict.fromkeys((sympy.KroneckerDelta,), Range(S.Zero, S.One, False)),
}
"""The values of functions at all real numbers."""

_NO_GENERATOR = Dummy("none", real=True)

AS_EXPONENTIALS: dict[Any, Any] = {
    softplus: lambda t: sympy.log(1 + sympy.exp(t)),
    sigmoid: lambda t: sympy.exp(t) / (1 + sympy.exp(t)),
    sympy.cosh: lambda t: (sympy.exp(t) + sympy.exp(-t)) / 2,
    sympy.sinh: lambda t: (sympy.exp(t) - sympy.exp(-t)) / 2,
    sympy.tanh: lambda t: 1 - 2 / (sympy.exp(2 * t) + 1),
}
"""Functions that are rational in an exponential, or its logarithm."""


class Signs:
    """The generators of one certificate and what is known of them.

    Examples
    --------
    >>> import sympy
    >>> x, y = sympy.symbols("x y", real=True)
    >>> signs = Signs({x: POSITIVE})
    >>> signs.of(x**2 - 2*x + 1), signs.of(x + 1), signs.of(1 - x)
    ('>=', '>', None)
    >>> signs.of(sympy.exp(y)/(1 + sympy.exp(y)) - (sympy.exp(y)/(1 + sympy.exp(y)))**2)
    '>'
    """

    def __init__(self, ranges: Mapping[Any, Range]) -> None:
        self.given: dict[Any, Range] = dict(ranges)
        self.ranges: dict[Expr, Range] = {}
        self.sources: dict[Expr, Expr] = {}
        self._generators: dict[Any, Expr] = {}
        self._roots: dict[Expr, tuple[int, Expr]] = {}
        self._logs: dict[Expr, Expr] = {}
        self._exps: dict[Expr, Expr] = {}
        self._forms: dict[Expr, Expr] = {}
        self._signs: dict[Expr, str | None] = {}
        self._fields: dict[tuple[Expr, ...], Any] = {}

    # ---------------------------------------------------------------- questions

    def of(self, scalar: Expr) -> str | None:
        """``'0'``, ``'>'``, ``'>='``, ``'<'``, ``'<='``, or None where no sign is proved."""
        return self._sign(self.form(scalar))

    def is_zero(self, scalar: Expr) -> bool:
        """Whether a scalar is 0 as a rational function of its generators."""
        form = self.form(scalar)
        return _effort(form) <= MOST_OPERATIONS and bool(self._fraction(form)[0] == 0)

    def form(self, scalar: Expr) -> Expr:
        """A scalar as an expression of generators with rational operations only."""
        for node in _post_order(scalar, self._forms):
            self._forms[node] = self._form(node)
        return self._forms[scalar]

    def quotient(self, form: Expr) -> tuple[Expr, Expr]:
        """Numerator and denominator without common factors, powers of roots reduced."""
        top, bottom = self._fraction(form)
        return top.as_expr(), bottom.as_expr()

    def _fraction(self, form: Expr) -> tuple[Any, Any]:
        """Both as polynomials of the ring of all generators that occur."""
        for root, (degree, base) in reversed(self._roots.items()):
            if root in form.free_symbols:
                top, bottom = (_reduced(part.as_expr(), root, degree, base) for part in self._fraction_of(form))
                form = top / bottom
        return self._fraction_of(form)

    def _fraction_of(self, form: Expr) -> tuple[Any, Any]:
        symbols = tuple(sorted(form.free_symbols, key=lambda s: s.dummy_index)) or (_NO_GENERATOR,)
        if symbols not in self._fields:
            self._fields[symbols] = FracField(symbols, sympy.QQ, sympy.lex)
        element = self._fields[symbols].from_expr(form)
        return element.numer, element.denom

    def factored(self, scalar: Expr) -> Expr:
        """A scalar as a quotient of products, where that is shorter."""
        top, bottom = (sympy.factor(part) for part in self.quotient(self.form(scalar)))
        found = self.written(top) / self.written(bottom)
        return found if found.count_ops() < scalar.count_ops() else scalar

    def independent(self, form: Expr, of: set[Expr]) -> bool:
        """Whether no generator of a form has one of these symbols in its source."""
        return not any(self.sources.get(g, g).free_symbols & of or g in of for g in form.free_symbols)

    # ---------------------------------------------------------------- generators

    def generator(self, key: Any, known: Range, source: Expr) -> Expr:
        """The generator of a key, made at its first use."""
        if key not in self._generators:
            made = self._generators[key] = Dummy("t", real=True)
            self.ranges[made], self.sources[made] = known, source
        return self._generators[key]

    def range_of(self, scalar: Expr) -> Range:
        """The range of a scalar: that of a generator, else what its sign says."""
        form = self.form(scalar)
        if form in self.ranges:
            return self.ranges[form]
        ranges = {"0": Range(S.Zero, S.Zero, False), ">": POSITIVE, ">=": AT_LEAST_ZERO}
        ranges |= {"<": Range(None, S.Zero), "<=": Range(None, S.Zero, False)}
        return ranges.get(self._sign(form) or "", FREE)

    def _form(self, node: Expr) -> Expr:
        if node in self.given:
            return self.generator(node, self.given[node], node)
        if isinstance(node, sympy.Float):
            return Rational(node)
        if node.is_Rational:
            return node
        if isinstance(node, sympy.Add | sympy.Mul):
            return node.func(*(self._forms[a] for a in node.args))
        if isinstance(node, sympy.Pow):
            return self._power(node)
        if isinstance(node, sympy.exp):
            return self._exponential(self._forms[node.args[0]])
        if isinstance(node, sympy.log):
            return self._logarithm(self._forms[node.args[0]])
        if (rewritten := AS_EXPONENTIALS.get(node.func)) is not None:
            return self.form(rewritten(node.args[0]))
        if isinstance(node, sympy.Abs) and (sign := self._sign(self._forms[node.args[0]])):
            return self._forms[node.args[0]] * (1 if sign in (">", ">=", "0") else -1)
        if isinstance(node, sympy.cos):
            cosine = self.generator(node, RANGES[sympy.cos], node)
            sine = sympy.sin(node.args[0])
            self._roots[cosine] = (2, 1 - self.generator(sine, RANGES[sympy.sin], sine) ** 2)
            return cosine
        return self.generator(node, self._range(node), node)

    def _range(self, node: Expr) -> Range:
        """What is known of a value that has no arithmetic."""
        if isinstance(node, TensorEntry):
            return self._entry(node)
        if isinstance(node, TensorDeterminant):
            return POSITIVE if getattr(node.args[0], "positive", False) else FREE
        if isinstance(node, sympy.Symbol | sympy.NumberSymbol):
            return _assumed(node)
        if isinstance(node, IndexedReduction):
            return self._reduction(node)
        if isinstance(node, sympy.Abs):
            return AT_LEAST_ZERO
        if isinstance(node, sympy.Max | sympy.Min):
            signs = [self.of(a) for a in node.args]
            if isinstance(node, sympy.Max) and any(s in (">", ">=", "0") for s in signs):
                return Range(S.Zero, None, ">" in signs)
            if isinstance(node, sympy.Min) and any(s in ("<", "<=", "0") for s in signs):
                return Range(None, S.Zero, "<" in signs)
            return FREE
        return RANGES.get(node.func, FREE)

    def _entry(self, node: TensorEntry) -> Range:
        tensor, indices = node.tensor, node.indices
        if tensor in self.given:
            return self.given[tensor]
        inner = tensor.args[0] if isinstance(tensor, TensorInverse) else tensor
        on_diagonal = len(indices) == 2 and indices[0] == indices[1]
        return POSITIVE if on_diagonal and getattr(inner, "positive", False) else FREE

    def _reduction(self, node: IndexedReduction) -> Range:
        """A sum of values of one sign; the least and the greatest of them; a product of positive ones."""
        if isinstance(node, IndexedSum | IndexedProduct | IndexedMax | IndexedMin):
            limits = node.args[1:]
            # A bound index is another symbol here: what is known of it is known in this range alone.
            counts = {i: Dummy(i.name, integer=True, nonnegative=True) for i, low, _ in limits if low == 0}
            sign, filled = self.of(node.args[0].xreplace(counts)), self.filled(limits)
            if isinstance(node, IndexedProduct):
                return POSITIVE if sign == ">" else FREE
            if sign == "0" and isinstance(node, IndexedSum):
                return Range(S.Zero, S.Zero, False)
            if sign in (">", ">=") and (filled or isinstance(node, IndexedSum)):
                return POSITIVE if sign == ">" and filled else AT_LEAST_ZERO
            if sign in ("<", "<=") and (filled or isinstance(node, IndexedSum)):
                return Range(None, S.Zero, sign == "<" and filled)
        return FREE

    def filled(self, limits: Sequence[Any]) -> bool:
        """Whether the range of each limit has a point, for all sizes."""
        return all(self.of(high - low) in (">", ">=", "0") for _, low, high in limits)

    def _power(self, node: Expr) -> Expr:
        base, exponent = self._forms[node.base], node.exp
        if exponent.is_Integer:
            return base**exponent
        if node.base is S.Exp1:
            return self._exponential(self._forms[exponent])
        if exponent.is_Rational:
            return self._root(base, int(exponent.q)) ** int(exponent.p)
        number, rest = exponent.as_coeff_Add()
        whole = sympy.floor(number) if number.is_Rational else S.Zero
        if self._sign(base) != ">":
            return self.generator(node, FREE, node)
        power = self.written(base) ** (number - whole + rest)
        return base**whole * self.generator(("power", base, number - whole + rest), POSITIVE, power)

    def written(self, form: Expr) -> Expr:
        """A form with what its generators stand for."""
        return form.xreplace(self.sources)

    def _root(self, base: Expr, degree: int) -> Expr:
        """The root of a value that is not negative, as a product over the factors of a monomial."""
        parts = _monomial(base)
        if parts is not None and len(parts) > 1 and all(self._sign(g) == ">" for g, _ in parts):
            return sympy.Mul(*(self._root(g, degree) ** e for g, e in parts))
        if base.is_Rational and base >= 0 and sympy.root(base, degree).is_Rational:
            return sympy.root(base, degree)
        sign = self._sign(base)
        known = POSITIVE if sign == ">" else AT_LEAST_ZERO
        if sign == ">" and self._sign(base - 1) in (">", ">=", "0"):
            known = AT_LEAST_ONE
        made = self.generator(("root", base, degree), known, sympy.root(self.written(base), degree))
        self._roots[made] = (degree, base)
        return made

    def _exponential(self, argument: Expr) -> Expr:
        """A product of powers of exponentials, one for each monomial of the argument."""
        factors = []
        terms = [term.as_coeff_Mul() for term in sympy.Add.make_args(sympy.expand(argument))]
        if len(terms) > 2:  # a polynomial to a high power would have a power for each term
            content = Rational(sympy.igcd(*(n.p for n, _ in terms)), sympy.ilcm(*(n.q for n, _ in terms)))
            content *= sympy.sign(min(terms, key=lambda t: sympy.default_sort_key(t[1]))[0])
            terms = [(content, sympy.Add(*(n / content * rest for n, rest in terms)))]
        for number, rest in terms:
            if rest in self._logs:
                power: Expr = self._logs[rest]
            else:
                power = self.generator(("exp", rest), self._range_of_exponential(rest), sympy.exp(self.written(rest)))
                self._exps[power] = rest
            factors.append(self._root(power, int(number.q)) ** int(number.p))
        return sympy.Mul(*factors)

    def _range_of_exponential(self, argument: Expr) -> Range:
        sign = self._sign(argument)
        if sign in (">", ">="):
            return Range(S.One, None, sign == ">")
        return Range(S.Zero, S.One) if sign == "<" else POSITIVE

    def _logarithm(self, argument: Expr) -> Expr:
        """A sum of logarithms, one for each factor of a monomial."""
        parts = _monomial(argument)
        if parts is not None and len(parts) > 1 and all(self._sign(g) == ">" for g, _ in parts):
            return sympy.Add(*(e * self._logarithm(g) for g, e in parts))
        if argument in self._exps:
            return self._exps[argument]
        if argument in self._roots and self._sign(argument) == ">":
            degree, base = self._roots[argument]
            return self._logarithm(base) / degree
        if argument == 1:
            return S.Zero
        over_one = self._sign(argument - 1)
        known = POSITIVE if over_one == ">" else Range(None, S.Zero) if over_one == "<" else FREE
        if over_one == ">=":
            known = AT_LEAST_ZERO
        made = self.generator(("log", argument), known, sympy.log(self.written(argument)))
        self._logs[made] = argument
        return made

    # ---------------------------------------------------------------- proofs

    def _sign(self, form: Expr) -> str | None:
        if form not in self._signs:
            self._signs[form] = self._by_terms(form) or self._by_factors(form)
        return self._signs[form]

    def _by_terms(self, form: Expr) -> str | None:
        """The sign that terms and factors give at once."""
        if form.is_Rational:
            return "0" if form == 0 else ">" if form > 0 else "<"
        if form in self.ranges:
            return _sign_of_range(self.ranges[form])
        if isinstance(form, sympy.Pow) and form.exp.is_Integer:
            sign = self._sign(form.base)
            if form.exp % 2 == 0:
                return ">" if sign in (">", "<") or form.exp < 0 else "0" if sign == "0" else ">="
            return sign
        if isinstance(form, sympy.Mul):
            return _product([self._by_terms(a) for a in form.args])
        if isinstance(form, sympy.Add):
            return _sum([self._by_terms(a) for a in form.args])
        return None

    def _by_factors(self, form: Expr) -> str | None:
        if _effort(form) > MOST_OPERATIONS:
            return None
        top, bottom = self._fraction(form)
        if len(top) > MOST_TERMS:
            return None
        if top == 0:
            return "0"
        signs: list[str | None] = []
        for part in (top, bottom):
            number, factors = part.factor_list()
            signs.append(">" if number > 0 else "<")
            for factor, exponent in factors:
                sign = self._of_factor(factor.as_expr())
                if sign is None and exponent % 2:
                    return None
                if exponent % 2 == 0:
                    sign = ">" if sign in (">", "<") else ">="
                signs.append(sign)
        return _product(signs)

    def _of_factor(self, factor: Expr) -> str | None:
        """The sign of an irreducible polynomial."""
        ways = (self._by_terms, self._by_coefficients, self._by_roots, self._by_square)
        return next((sign for sign in (way(factor) for way in ways) if sign), None)

    def _by_coefficients(self, factor: Expr) -> str | None:
        """All terms of one sign, where each bounded generator counts from its bound."""
        shifts, counted, strict = {}, set(), set()
        for g in factor.free_symbols:
            known = self.ranges.get(g, FREE)
            if known.low is not None or known.high is not None:
                shifts[g] = known.low + g if known.low is not None else known.high - g
                counted.add(g)
                strict |= {g} if known.strict else set()
        shifted = Poly(factor.xreplace(shifts), *sorted(factor.free_symbols, key=sympy.default_sort_key))
        signs = []
        for exponents, coefficient in shifted.terms():
            used = [(g, e) for g, e in zip(shifted.gens, exponents, strict=True) if e]
            if any(e % 2 and g not in counted for g, e in used):
                return None
            positive = all(g in strict for g, _ in used)
            signs.append((">" if positive else ">=") if coefficient > 0 else ("<" if positive else "<="))
        return _sum(signs)

    def _by_roots(self, factor: Expr) -> str | None:
        """A polynomial of one generator has one sign where it has no root in the range."""
        if len(factor.free_symbols) != 1:
            return None
        (g,) = factor.free_symbols
        known, polynomial = self.ranges.get(g, FREE), Poly(factor, g)
        ends = [end for end in (known.low, known.high) if end is not None]
        inside = polynomial.count_roots(known.low, known.high) - sum(polynomial.eval(end) == 0 for end in set(ends))
        if inside:
            return None
        low, high = known.low, known.high
        if low is None or high is None:
            point = low + 1 if low is not None else high - 1 if high is not None else S.Zero
        else:
            point = (low + high) / 2
        at_end = not known.strict and any(polynomial.eval(end) == 0 for end in ends)
        return (">=" if at_end else ">") if polynomial.eval(point) > 0 else ("<=" if at_end else "<")

    def _by_square(self, factor: Expr) -> str | None:
        """A quadratic polynomial of one generator whose discriminant is not positive."""
        for g in sorted(factor.free_symbols, key=sympy.default_sort_key):
            polynomial = Poly(factor, g)
            if polynomial.degree() == 2:
                a, b, c = polynomial.all_coeffs()
                leading, below = self._sign(a), self._sign(4 * a * c - b**2)
                if leading in (">", "<") and below in (">", ">=", "0"):
                    return leading if below == ">" else leading + "="
        return None


def _effort(form: Expr) -> int:
    """Operations of a form, where a power counts as products."""
    return int(form.count_ops()) + sum(abs(int(p.exp)) for p in form.atoms(sympy.Pow) if p.exp.is_Integer)


def _reduced(polynomial: Expr, root: Expr, degree: int, base: Expr) -> Expr:
    """Powers of a root of at least its degree, written with what it is a root of."""
    if root not in polynomial.free_symbols:
        return polynomial
    terms = Poly(polynomial, root).terms()
    return sympy.Add(*(c * base ** (e // degree) * root ** (e % degree) for (e,), c in terms))


def _post_order(scalar: Expr, done: Mapping[Expr, Any]) -> Iterator[Expr]:
    """The nodes below a scalar that have no form yet, arguments first; nothing inside of reductions and reads."""
    stack = [(scalar, False)]
    while stack:
        node, ready = stack.pop()
        if node in done:
            continue
        arithmetic = isinstance(node, sympy.Add | sympy.Mul | sympy.Pow | sympy.exp | sympy.log | sympy.Abs)
        if ready or not arithmetic:
            yield node
        else:
            stack.append((node, True))
            stack += [(a, False) for a in node.args]


def _monomial(form: Expr) -> list[tuple[Expr, Expr]] | None:
    """The factors of a product of integer powers of generators and numbers, with exponents."""
    parts = [(f.base, f.exp) if isinstance(f, sympy.Pow) else (f, S.One) for f in sympy.Mul.make_args(form)]
    return parts if all(b.is_Symbol or b.is_Rational for b, _ in parts) or len(parts) > 1 else None


def _assumed(symbol: Expr) -> Range:
    """The range that a symbol's own assumptions give; a size is at least 1."""
    if isinstance(symbol, sympy.NumberSymbol):
        low = sympy.floor(symbol)
        return Range(low, low + 1)
    if symbol.is_integer and symbol.is_positive:
        return AT_LEAST_ONE
    if symbol.is_positive:
        return POSITIVE
    if symbol.is_nonnegative:
        return AT_LEAST_ZERO
    if symbol.is_nonpositive:
        return Range(None, S.Zero, bool(symbol.is_negative))
    return FREE


def _sign_of_range(known: Range) -> str | None:
    low, high, strict = known
    if low == high == 0:
        return "0"
    if low is not None and low >= 0:
        return ">" if strict or low > 0 else ">="
    if high is not None and high <= 0:
        return "<" if strict or high < 0 else "<="
    return None


def _product(signs: Sequence[str | None]) -> str | None:
    if "0" in signs:
        return "0"
    if None in signs:
        return None
    negative = sum(s[0] == "<" for s in signs if s) % 2
    return ("<" if negative else ">") + ("=" if any(len(s) > 1 for s in signs if s) else "")


def _sum(signs: Sequence[str | None]) -> str | None:
    directions = {s[0] if s else None for s in signs if s != "0"}
    if not directions:
        return "0"
    if len(directions) > 1 or None in directions:
        return None
    (direction,) = directions
    return str(direction) + ("" if direction in signs else "=")


__all__ = ["AT_LEAST_ONE", "AT_LEAST_ZERO", "POSITIVE", "Range", "Signs"]
