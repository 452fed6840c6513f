"""Scalars as rational functions of generators, each with an interval that contains all of its values.

Generators are reads, parameters, exponentials, logarithms, roots, sums. Different generators are treated as
independent, which can lose a proof and never makes one wrong. SymPy's assumptions are used for plain symbols only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sympy
from sympy import Dummy, Expr, Rational, S

from sympy_tensordiff.convex.matrices import is_positive_definite
from sympy_tensordiff.functions.table import Interval, record_of
from sympy_tensordiff.symbolic.expressions.traversal import postorder
from sympy_tensordiff.symbolic.index_notation.sums import (
    IndexedMax,
    IndexedMin,
    IndexedProduct,
    IndexedReduction,
    IndexedSum,
)
from sympy_tensordiff.symbolic.index_notation.tensors import TensorEntry
from sympy_tensordiff.symbolic.whole_tensors.matrix_functions import TensorDeterminant
from sympy_tensordiff.symbolic.whole_tensors.scalar_functions import sigmoid, softplus

ROUNDING_DENOMINATOR = 2**20
"""An irrational end of a range is rounded outward to a multiple of one over this."""


FREE = Interval()
POSITIVE = Interval(S.Zero)
AT_LEAST_ZERO = Interval(S.Zero, None, False)
AT_LEAST_ONE = Interval(S.One, None, False)

AS_EXPONENTIALS: dict[Any, Any] = {
    softplus: lambda t: sympy.log(1 + sympy.exp(t)),
    sigmoid: lambda t: sympy.exp(t) / (1 + sympy.exp(t)),
    sympy.cosh: lambda t: (sympy.exp(t) + sympy.exp(-t)) / 2,
    sympy.sinh: lambda t: (sympy.exp(t) - sympy.exp(-t)) / 2,
    sympy.tanh: lambda t: 1 - 2 / (sympy.exp(2 * t) + 1),
}
"""Functions that are rational in an exponential, or its logarithm."""


def range_of_values(function: Any) -> Interval:
    """Return the interval that contains all values of ``function``, a function class of one real number."""
    if function is sympy.KroneckerDelta:
        return Interval(S.Zero, S.One, False)
    low, high, is_open = record_of(function).values
    return Interval(None if low is None else sympy.floor(low), None if high is None else sympy.ceiling(high), is_open)


class Generators:
    """Converts scalars to rational functions of new symbols, called generators, which stand for entries, exponentials,
    logarithms, roots and so on. An interval is known for each generator.

    Examples
    --------
    >>> import sympy
    >>> y = sympy.symbols("y", real=True)
    >>> from sympy_tensordiff.convex.signs import Signs
    >>> generators = Signs({})
    >>> form = generators.form(sympy.exp(2*y)/(1 + sympy.exp(y)))
    >>> generators.to_expression(form), len(form.free_symbols)
    (exp(2*y)/(exp(y) + 1), 1)
    """

    def __init__(self, ranges: Mapping[Any, Interval]) -> None:
        self.declared: dict[Any, Interval] = dict(ranges)
        self.ranges: dict[Expr, Interval] = {}
        self.sources: dict[Expr, Expr] = {}
        self._generators: dict[Any, Expr] = {}
        self._roots: dict[Expr, tuple[int, Expr]] = {}
        self._logs: dict[Expr, Expr] = {}
        self._exps: dict[Expr, Expr] = {}
        self.functions: dict[Expr, Expr] = {}
        self._forms: dict[Expr, Expr] = {}
        self._exact_ranges: dict[Expr, Interval] = {}

    def of(self, scalar: Expr) -> str | None:
        """Return the sign of ``scalar``: ``'0'``, ``'>'``, ``'>='``, ``'<'``, ``'<='``, or None if none is proved."""
        return self.sign_of(self.form(scalar))

    def sign_of(self, form: Expr) -> str | None:
        """Return the sign of ``form``, a rational function of generators (symbols for entries, exponentials and so on):
        ``'>'``, ``'>='`` and so on, or None if none is proved.
        """
        raise NotImplementedError

    def form(self, scalar: Expr) -> Expr:
        """Convert ``scalar`` to a rational function of generators: symbols that stand for entries, exponentials,
        logarithms and so on.
        """
        for node in postorder(scalar, self._forms, _arithmetic_args):
            self._forms[node] = self._form_of_node(node)
        return self._forms[scalar]

    def is_independent(self, form: Expr, symbols: set[Expr]) -> bool:
        """Return whether ``form``, in generators (symbols for entries, exponentials and so on), depends on none of
        ``symbols``.
        """
        return not any(self.sources.get(g, g).free_symbols & symbols or g in symbols for g in form.free_symbols)

    # ---------------------------------------------------------------- generators

    def generator(self, key: Any, interval: Interval, source: Expr) -> Expr:
        """Return the symbol (generator) that stands for the expression ``source``: the same one at each call with an
        equal ``key``. The first call creates it, and records ``source`` and the ``interval`` of its values.
        """
        if key not in self._generators:
            symbol = self._generators[key] = Dummy("t", real=True)
            self.ranges[symbol], self.sources[symbol] = _round_outward(interval), source
            self._exact_ranges[symbol] = interval
            self._forms[symbol] = symbol
        return self._generators[key]

    def range_of(self, scalar: Expr) -> Interval:
        """Return an interval that contains all values of ``scalar``: its known range, or the half-line that its sign
        implies.
        """
        form = self.form(scalar)
        if form in self._exact_ranges:
            return self._exact_ranges[form]
        ranges = {"0": Interval(S.Zero, S.Zero, False), ">": POSITIVE, ">=": AT_LEAST_ZERO}
        ranges |= {"<": Interval(None, S.Zero), "<=": Interval(None, S.Zero, False)}
        return ranges.get(self.sign_of(form) or "", FREE)

    def _form_of_node(self, node: Expr) -> Expr:
        """Return ``node`` as a rational function of generators (symbols that stand for exponentials, roots and the
        like), given the forms of its arguments.
        """
        if node in self.declared:
            return self.generator(node, self.declared[node], node)
        if isinstance(node, sympy.Float):
            return Rational(node)
        if node.is_Rational:
            return node
        if isinstance(node, sympy.Add | sympy.Mul):
            return node.func(*(self._forms[a] for a in node.args))
        if isinstance(node, sympy.Pow):
            return self._form_of_power(node)
        if isinstance(node, sympy.exp):
            return self._form_of_exponential(self._forms[node.args[0]])
        if isinstance(node, sympy.log):
            return self._form_of_logarithm(self._forms[node.args[0]])
        if (rewritten := AS_EXPONENTIALS.get(node.func)) is not None:
            return self.form(rewritten(node.args[0]))
        if isinstance(node, sympy.Abs) and (sign := self.sign_of(self._forms[node.args[0]])):
            return self._forms[node.args[0]] * (1 if sign in (">", ">=", "0") else -1)
        if isinstance(node, sympy.cos):
            cosine = self.generator(node, self._range_of_leaf(node), node)
            sine = sympy.sin(node.args[0])
            self._roots[cosine] = (2, 1 - self.generator(sine, self._range_of_leaf(sine), sine) ** 2)
            return cosine
        return self.generator(node, self._range_of_leaf(node), node)

    def _range_of_leaf(self, node: Expr) -> Interval:
        """Return the range of a node that is not arithmetic, such as an entry or a sine, and is therefore replaced by a
        generator (symbol).
        """
        if isinstance(node, TensorEntry):
            return self._range_of_entry(node)
        if isinstance(node, TensorDeterminant):
            return POSITIVE if getattr(node.args[0], "positive", False) else FREE
        if isinstance(node, sympy.Symbol | sympy.NumberSymbol):
            return range_of_assumptions(node)
        if isinstance(node, IndexedReduction):
            return self._range_of_reduction(node)
        if isinstance(node, sympy.Abs):
            return AT_LEAST_ZERO
        if isinstance(node, sympy.Max | sympy.Min):
            signs = [self.of(a) for a in node.args]
            if isinstance(node, sympy.Max) and any(s in (">", ">=", "0") for s in signs):
                return Interval(S.Zero, None, ">" in signs)
            if isinstance(node, sympy.Min) and any(s in ("<", "<=", "0") for s in signs):
                return Interval(None, S.Zero, "<" in signs)
            return FREE
        if isinstance(node, sympy.sin | sympy.cos):
            shift = S.Zero if isinstance(node, sympy.sin) else sympy.pi / 2
            return self._range_in_half_period(node.args[0], shift) or range_of_values(node.func)
        return range_of_values(node.func)

    def _range_in_half_period(self, argument: Expr, shift: Expr) -> Interval | None:
        """Return an `Interval` that contains all values of ``sin(argument + shift)``, if the angle is known to stay
        between two neighbouring zeros of the sine; else None.

        The sign of the sine is then known.
        """
        form = sympy.expand(self.form(argument))
        moving = [g for g in form.free_symbols if not self.sources[g].is_number]
        if len(moving) != 1:
            return None
        (g,) = moving
        slope, interval = form.coeff(g), self._exact_ranges[g]
        offset = self.to_expression(sympy.expand(form - slope * g)) + shift
        if interval.low is None or interval.high is None or not slope.is_Rational or not offset.is_number:
            return None
        low, high = sorted((slope * interval.low + offset, slope * interval.high + offset))
        zero = sympy.floor(low / sympy.pi)
        if not high <= (zero + 1) * sympy.pi:
            return None
        return Interval(S.Zero, S(2), interval.is_open) if zero % 2 == 0 else Interval(S(-2), S.Zero, interval.is_open)

    def _range_of_entry(self, node: TensorEntry) -> Interval:
        """Return the declared range of a tensor entry; positive on the diagonal of a positive definite matrix."""
        tensor, indices = node.tensor, node.indices
        if tensor in self.declared:
            return self.declared[tensor]
        on_diagonal = len(indices) == 2 and indices[0] == indices[1]
        return POSITIVE if on_diagonal and is_positive_definite(self, tensor) else FREE

    def _range_of_reduction(self, node: IndexedReduction) -> Interval:
        """Return the range of a sum or other reduction over an index, from the sign of its body; `FREE` if this sign is
        not known.
        """
        if isinstance(node, IndexedSum | IndexedProduct | IndexedMax | IndexedMin):
            limits = node.args[1:]
            # The bound index gets a new symbol: its range is known inside this reduction only.
            counts = {i: Dummy(i.name, integer=True, nonnegative=True) for i, low, _ in limits if low == 0}
            sign, has_points = self.of(node.args[0].xreplace(counts)), self.is_nonempty(limits)
            if isinstance(node, IndexedProduct):
                return POSITIVE if sign == ">" else FREE
            if sign == "0" and isinstance(node, IndexedSum):
                return Interval(S.Zero, S.Zero, False)
            if sign in (">", ">=") and (has_points or isinstance(node, IndexedSum)):
                return POSITIVE if sign == ">" and has_points else AT_LEAST_ZERO
            if sign in ("<", "<=") and (has_points or isinstance(node, IndexedSum)):
                return Interval(None, S.Zero, sign == "<" and has_points)
        return FREE

    def is_nonempty(self, limits: Sequence[Any]) -> bool:
        """Return whether the range of each index in ``limits`` contains at least one value, for all sizes."""
        return all(self.of(high - low) in (">", ">=", "0") for _, low, high in limits)

    def _form_of_power(self, node: Expr) -> Expr:
        """Return a power as a rational function of generators. If its exponent is fractional or symbolic, they stand
        for roots such as ``x**(1/2)`` and powers such as ``x**a``.
        """
        base, exponent = self._forms[node.base], node.exp
        if exponent.is_Integer:
            return base**exponent
        if node.base is S.Exp1:
            return self._form_of_exponential(self._forms[exponent])
        if exponent.is_Rational:
            return self._form_of_root(base, int(exponent.q)) ** int(exponent.p)
        number, rest = exponent.as_coeff_Add()
        whole = sympy.floor(number) if number.is_Rational else S.Zero
        if (sign := self.sign_of(base)) not in (">", ">="):
            return self.generator(node, FREE, node)
        factors = [base**whole]
        for term in sympy.Add.make_args(number - whole + rest):
            times, exponent = term.as_coeff_Mul()
            interval = POSITIVE if sign == ">" else AT_LEAST_ZERO
            power = self.generator(("power", base, exponent), interval, self.to_expression(base) ** exponent)
            factors.append(
                self._form_of_root(power, int(times.q)) ** int(times.p) if times.is_Rational else power**times
            )
        return sympy.Mul(*factors)

    def to_expression(self, form: Expr) -> Expr:
        """Return ``form`` with each generator replaced by the expression that it stands for."""
        return form.xreplace(self.sources)

    def _form_of_root(self, base: Expr, degree: int) -> Expr:
        """Return the root of order `degree` of a nonnegative ``base`` as a generator, a symbol for it whose range is
        known. A product of positive symbols gives one generator for each factor; a rational root is returned as a
        number.
        """
        parts = _monomial_factors(base)
        if parts is not None and len(parts) > 1 and all(self.sign_of(g) == ">" for g, _ in parts):
            return sympy.Mul(*(self._form_of_root(g, degree) ** e for g, e in parts))
        if base.is_Rational and base >= 0 and sympy.root(base, degree).is_Rational:
            return sympy.root(base, degree)
        sign = self.sign_of(base)
        interval = POSITIVE if sign == ">" else AT_LEAST_ZERO
        if sign == ">" and self.sign_of(base - 1) in (">", ">=", "0"):
            interval = AT_LEAST_ONE
        symbol = self.generator(("root", base, degree), interval, sympy.root(self.to_expression(base), degree))
        self._roots[symbol], self.functions[symbol] = (degree, base), sympy.root(base, degree)
        return symbol

    def _form_of_exponential(self, argument: Expr) -> Expr:
        """Return ``exp(argument)`` as a product of powers of symbols that stand for exponentials (generators):
        ``g**2*h`` for ``exp(2*x - y)``, with g for ``exp(x)`` and h for ``exp(-y)``.

        An argument of more than two terms gets one generator for the whole polynomial.
        """
        factors = []
        terms = [term.as_coeff_Mul() for term in sympy.Add.make_args(sympy.expand(argument))]
        if len(terms) > 2:  # otherwise a power of a polynomial has one generator for each term
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
                power = self.generator(
                    ("exp", rest), self._range_of_exponential(rest), sympy.exp(self.to_expression(rest))
                )
                self._exps[power], self.functions[power] = rest, sympy.exp(rest)
            factors.append(self._form_of_root(power, int(number.q)) ** int(number.p))
        return sympy.Mul(*factors)

    def _range_of_exponential(self, argument: Expr) -> Interval:
        """Return the range of ``exp(argument)`` that the sign of ``argument`` implies."""
        sign = self.sign_of(argument)
        if sign in (">", ">="):
            return Interval(S.One, None, sign == ">")
        return Interval(S.Zero, S.One) if sign == "<" else POSITIVE

    def _form_of_logarithm(self, argument: Expr) -> Expr:
        """Return ``log(argument)`` in terms of generators (symbols that stand for logarithms): for a product of
        positive factors as the sum of their logarithms, for ``exp(x)`` as ``x``.
        """
        parts = _monomial_factors(argument)
        if parts is not None and len(parts) > 1 and all(self.sign_of(g) == ">" for g, _ in parts):
            return sympy.Add(*(e * self._form_of_logarithm(g) for g, e in parts))
        if argument in self._exps:
            return self._exps[argument]
        if argument in self._roots and self.sign_of(argument) == ">":
            degree, base = self._roots[argument]
            return self._form_of_logarithm(base) / degree
        if argument == 1:
            return S.Zero
        over_one = self.sign_of(argument - 1)
        interval = POSITIVE if over_one == ">" else Interval(None, S.Zero) if over_one == "<" else FREE
        if over_one == ">=":
            interval = AT_LEAST_ZERO
        symbol = self.generator(("log", argument), interval, sympy.log(self.to_expression(argument)))
        self._logs[symbol], self.functions[symbol] = argument, sympy.log(argument)
        return symbol


def _arithmetic_args(node: Expr) -> tuple[Expr, ...]:
    """Return the operands of an arithmetic expression: a sum, product, power, `exp`, `log` or `Abs`. Return () for any
    other node, such as an indexed sum or a tensor entry.
    """
    return node.args if isinstance(node, sympy.Add | sympy.Mul | sympy.Pow | sympy.exp | sympy.log | sympy.Abs) else ()


def _monomial_factors(form: Expr) -> list[tuple[Expr, Expr]] | None:
    """Return the factors of ``form`` as pairs ``(base, exponent)``, with exponent 1 for a factor that is not a power.
    None for a single factor, such as a sum, that is not a power of a symbol or of a rational number.
    """
    parts = [(f.base, f.exp) if isinstance(f, sympy.Pow) else (f, S.One) for f in sympy.Mul.make_args(form)]
    return parts if all(b.is_Symbol or b.is_Rational for b, _ in parts) or len(parts) > 1 else None


def range_of_assumptions(symbol: Expr) -> Interval:
    """Return the interval that SymPy's assumptions on ``symbol`` imply, such as ``(0, oo)`` for a positive one; a
    positive integer is at least 1.
    """
    if isinstance(symbol, sympy.NumberSymbol):
        low = sympy.floor(symbol)
        return Interval(low, low + 1)
    if symbol.is_integer and symbol.is_positive:
        return AT_LEAST_ONE
    if symbol.is_positive:
        return POSITIVE
    if symbol.is_nonnegative:
        return AT_LEAST_ZERO
    if symbol.is_nonpositive:
        return Interval(None, S.Zero, bool(symbol.is_negative))
    return FREE


def _round_outward(interval: Interval) -> Interval:
    """Return a range with rational ends that contains ``interval``."""
    low, high, n = interval.low, interval.high, ROUNDING_DENOMINATOR
    low = low if low is None or low.is_Rational else sympy.floor(low * n) / n
    high = high if high is None or high.is_Rational else sympy.ceiling(high * n) / n
    return interval._replace(low=low, high=high)
