"""Scalars as rational functions of generators, each with an interval that has all its values.

Generators are reads, parameters, exponentials, logarithms, roots, sums. Different ones are taken as independent, which
can lose a proof and never makes one wrong. SymPy's assumptions are asked of plain symbols only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import sympy
from sympy import Dummy, Expr, Rational, S

from sympy_tensordiff.convex.matrices import is_positive
from sympy_tensordiff.symbolic.matrix_functions import TensorDeterminant
from sympy_tensordiff.symbolic.scalar_functions import sigmoid, softplus
from sympy_tensordiff.symbolic.sums import IndexedMax, IndexedMin, IndexedProduct, IndexedReduction, IndexedSum
from sympy_tensordiff.symbolic.tensors import TensorEntry
from sympy_tensordiff.symbolic.traversal import postorder

FINE = 2**20
"""An irrational end of a range is rounded to a multiple of one over this, away from the range."""


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

AS_EXPONENTIALS: dict[Any, Any] = {
    softplus: lambda t: sympy.log(1 + sympy.exp(t)),
    sigmoid: lambda t: sympy.exp(t) / (1 + sympy.exp(t)),
    sympy.cosh: lambda t: (sympy.exp(t) + sympy.exp(-t)) / 2,
    sympy.sinh: lambda t: (sympy.exp(t) - sympy.exp(-t)) / 2,
    sympy.tanh: lambda t: 1 - 2 / (sympy.exp(2 * t) + 1),
}
"""Functions that are rational in an exponential, or its logarithm."""


class Generators:
    """The generators of one certificate and what is known of them.

    Examples
    --------
    >>> import sympy
    >>> y = sympy.symbols("y", real=True)
    >>> from sympy_tensordiff.convex.signs import Signs
    >>> generators = Signs({})
    >>> form = generators.form(sympy.exp(2*y)/(1 + sympy.exp(y)))
    >>> generators.written(form), len(form.free_symbols)
    (exp(2*y)/(exp(y) + 1), 1)
    """

    def __init__(self, ranges: Mapping[Any, Range]) -> None:
        self.given: dict[Any, Range] = dict(ranges)
        self.ranges: dict[Expr, Range] = {}
        self.sources: dict[Expr, Expr] = {}
        self._generators: dict[Any, Expr] = {}
        self._roots: dict[Expr, tuple[int, Expr]] = {}
        self._logs: dict[Expr, Expr] = {}
        self._exps: dict[Expr, Expr] = {}
        self.functions: dict[Expr, Expr] = {}
        self._forms: dict[Expr, Expr] = {}
        self._exact: dict[Expr, Range] = {}

    def of(self, scalar: Expr) -> str | None:
        """``'0'``, ``'>'``, ``'>='``, ``'<'``, ``'<='``, or None where no sign is proved."""
        return self.sign_of(self.form(scalar))

    def sign_of(self, form: Expr) -> str | None:
        """The sign of a form, where one is proved."""
        raise NotImplementedError

    def form(self, scalar: Expr) -> Expr:
        """A scalar as an expression of generators with rational operations only."""
        for node in postorder(scalar, self._forms, _operands):
            self._forms[node] = self._form(node)
        return self._forms[scalar]

    def independent(self, form: Expr, of: set[Expr]) -> bool:
        """Whether no generator of a form has one of these symbols in its source."""
        return not any(self.sources.get(g, g).free_symbols & of or g in of for g in form.free_symbols)

    # ---------------------------------------------------------------- generators

    def generator(self, key: Any, known: Range, source: Expr) -> Expr:
        """The generator of a key, made at its first use."""
        if key not in self._generators:
            made = self._generators[key] = Dummy("t", real=True)
            self.ranges[made], self.sources[made] = _outward(known), source
            self._exact[made] = known
            self._forms[made] = made
        return self._generators[key]

    def range_of(self, scalar: Expr) -> Range:
        """The range of a scalar: that of a generator, else what its sign says."""
        form = self.form(scalar)
        if form in self._exact:
            return self._exact[form]
        ranges = {"0": Range(S.Zero, S.Zero, False), ">": POSITIVE, ">=": AT_LEAST_ZERO}
        ranges |= {"<": Range(None, S.Zero), "<=": Range(None, S.Zero, False)}
        return ranges.get(self.sign_of(form) or "", FREE)

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
        if isinstance(node, sympy.Abs) and (sign := self.sign_of(self._forms[node.args[0]])):
            return self._forms[node.args[0]] * (1 if sign in (">", ">=", "0") else -1)
        if isinstance(node, sympy.cos):
            cosine = self.generator(node, self._range(node), node)
            sine = sympy.sin(node.args[0])
            self._roots[cosine] = (2, 1 - self.generator(sine, self._range(sine), sine) ** 2)
            return cosine
        return self.generator(node, self._range(node), node)

    def _range(self, node: Expr) -> Range:
        """What is known of a value that has no arithmetic."""
        if isinstance(node, TensorEntry):
            return self._entry(node)
        if isinstance(node, TensorDeterminant):
            return POSITIVE if getattr(node.args[0], "positive", False) else FREE
        if isinstance(node, sympy.Symbol | sympy.NumberSymbol):
            return assumed(node)
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
        if isinstance(node, sympy.sin | sympy.cos):
            shift = S.Zero if isinstance(node, sympy.sin) else sympy.pi / 2
            return self._half_period(node.args[0], shift) or RANGES[node.func]
        return RANGES.get(node.func, FREE)

    def _half_period(self, argument: Expr, shift: Expr) -> Range | None:
        """The values of the sine of an argument plus a shift which stays between two zeros of the sine, else None."""
        form = sympy.expand(self.form(argument))
        moving = [g for g in form.free_symbols if not self.sources[g].is_number]
        if len(moving) != 1:
            return None
        (g,) = moving
        slope, known = form.coeff(g), self._exact[g]
        offset = self.written(sympy.expand(form - slope * g)) + shift
        if known.low is None or known.high is None or not slope.is_Rational or not offset.is_number:
            return None
        low, high = sorted((slope * known.low + offset, slope * known.high + offset))
        zero = sympy.floor(low / sympy.pi)
        if not high <= (zero + 1) * sympy.pi:
            return None
        return Range(S.Zero, S(2), known.strict) if zero % 2 == 0 else Range(S(-2), S.Zero, known.strict)

    def _entry(self, node: TensorEntry) -> Range:
        tensor, indices = node.tensor, node.indices
        if tensor in self.given:
            return self.given[tensor]
        on_diagonal = len(indices) == 2 and indices[0] == indices[1]
        return POSITIVE if on_diagonal and is_positive(self, tensor) else FREE

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
        if (sign := self.sign_of(base)) not in (">", ">="):
            return self.generator(node, FREE, node)
        factors = [base**whole]
        for term in sympy.Add.make_args(number - whole + rest):
            times, exponent = term.as_coeff_Mul()
            known = POSITIVE if sign == ">" else AT_LEAST_ZERO
            power = self.generator(("power", base, exponent), known, self.written(base) ** exponent)
            factors.append(self._root(power, int(times.q)) ** int(times.p) if times.is_Rational else power**times)
        return sympy.Mul(*factors)

    def written(self, form: Expr) -> Expr:
        """A form with what its generators stand for."""
        return form.xreplace(self.sources)

    def _root(self, base: Expr, degree: int) -> Expr:
        """The root of a value that is not negative, as a product over the factors of a monomial."""
        parts = _monomial(base)
        if parts is not None and len(parts) > 1 and all(self.sign_of(g) == ">" for g, _ in parts):
            return sympy.Mul(*(self._root(g, degree) ** e for g, e in parts))
        if base.is_Rational and base >= 0 and sympy.root(base, degree).is_Rational:
            return sympy.root(base, degree)
        sign = self.sign_of(base)
        known = POSITIVE if sign == ">" else AT_LEAST_ZERO
        if sign == ">" and self.sign_of(base - 1) in (">", ">=", "0"):
            known = AT_LEAST_ONE
        made = self.generator(("root", base, degree), known, sympy.root(self.written(base), degree))
        self._roots[made], self.functions[made] = (degree, base), sympy.root(base, degree)
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
                # The exponential that is seen first is the generator, so that exp(-exp(-t)) is a function of exp(-t).
                if ("exp", -rest) in self._generators or (number < 0 and ("exp", rest) not in self._generators):
                    number, rest = -number, -rest
                power = self.generator(("exp", rest), self._range_of_exponential(rest), sympy.exp(self.written(rest)))
                self._exps[power], self.functions[power] = rest, sympy.exp(rest)
            factors.append(self._root(power, int(number.q)) ** int(number.p))
        return sympy.Mul(*factors)

    def _range_of_exponential(self, argument: Expr) -> Range:
        sign = self.sign_of(argument)
        if sign in (">", ">="):
            return Range(S.One, None, sign == ">")
        return Range(S.Zero, S.One) if sign == "<" else POSITIVE

    def _logarithm(self, argument: Expr) -> Expr:
        """A sum of logarithms, one for each factor of a monomial."""
        parts = _monomial(argument)
        if parts is not None and len(parts) > 1 and all(self.sign_of(g) == ">" for g, _ in parts):
            return sympy.Add(*(e * self._logarithm(g) for g, e in parts))
        if argument in self._exps:
            return self._exps[argument]
        if argument in self._roots and self.sign_of(argument) == ">":
            degree, base = self._roots[argument]
            return self._logarithm(base) / degree
        if argument == 1:
            return S.Zero
        over_one = self.sign_of(argument - 1)
        known = POSITIVE if over_one == ">" else Range(None, S.Zero) if over_one == "<" else FREE
        if over_one == ">=":
            known = AT_LEAST_ZERO
        made = self.generator(("log", argument), known, sympy.log(self.written(argument)))
        self._logs[made], self.functions[made] = argument, sympy.log(argument)
        return made


def _operands(node: Expr) -> tuple[Expr, ...]:
    """The scalars that arithmetic is done with; none of reductions and reads."""
    return node.args if isinstance(node, sympy.Add | sympy.Mul | sympy.Pow | sympy.exp | sympy.log | sympy.Abs) else ()


def _monomial(form: Expr) -> list[tuple[Expr, Expr]] | None:
    """The factors of a product of integer powers of generators and numbers, with exponents."""
    parts = [(f.base, f.exp) if isinstance(f, sympy.Pow) else (f, S.One) for f in sympy.Mul.make_args(form)]
    return parts if all(b.is_Symbol or b.is_Rational for b, _ in parts) or len(parts) > 1 else None


def assumed(symbol: Expr) -> Range:
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


def _outward(known: Range) -> Range:
    """A range with rational ends around one with any."""
    low = known.low if known.low is None or known.low.is_Rational else sympy.floor(known.low * FINE) / FINE
    high = known.high if known.high is None or known.high.is_Rational else sympy.ceiling(known.high * FINE) / FINE
    return known._replace(low=low, high=high)
