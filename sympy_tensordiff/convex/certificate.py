"""A certificate: the second derivative in a direction as a sum of terms that are not negative, printed and checked."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import islice
from typing import Any

import numpy as np
import sympy
from sympy import Expr

from sympy_tensordiff.convex.affine_parts import KINKS
from sympy_tensordiff.convex.conditions import Term
from sympy_tensordiff.convex.generators import FREE, Range, assumed
from sympy_tensordiff.derivative.api import hvp, jvp
from sympy_tensordiff.derivative.elementwise import Differentiation
from sympy_tensordiff.errors import CertificateError
from sympy_tensordiff.reference import evaluate, symbols_of, tensors_of
from sympy_tensordiff.structure.terms import written_out
from sympy_tensordiff.symbolic import reductions
from sympy_tensordiff.symbolic.sums import IndexedMax, IndexedMin, IndexedSum
from sympy_tensordiff.symbolic.tensors import TensorEntry, TensorSymbol

POINTS = 3
"""So many points are compared, where the graph does not show the difference to be 0."""
ATTEMPTS = 60
"""So many are tried: a function may have no value at some of them."""
MOST_PRODUCTS = 200
"""A difference of more products is not multiplied out."""
TOLERANCE = 1e-18
"""Of a comparison that is not of rationals; the numbers have 30 digits."""


class Certificate:
    """What `certify_convex` has found.

    Attributes
    ----------
    terms : tuple of Term
        The parts of the second derivative in a direction: ``rule``, ``form``, ``factors`` and ``facts`` of each. No
        term: the function is affine, or affine in pieces.
    reason : str
        The part that has no sign, where there is no certificate, else empty. It is a failure to prove, and no proof
        that the function is not convex.
    function : Expr
        In index notation.
    directions : dict
        For each variable the symbol of its direction.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> n, m = td.indices("n m")
    >>> X, x = td.TensorSymbol("X", (n, m)), td.TensorSymbol("x", m)
    >>> c = td.certify_convex(td.sum(td.softplus(X @ x)), x)
    >>> bool(c), len(c.terms), c.check()
    (True, 1, True)
    """

    def __init__(
        self,
        function: Expr,
        original: Any,
        directions: Mapping[Any, Any],
        ranges: Mapping[Any, Range],
        terms: Sequence[Term] | None,
        reason: str,
        concave: bool,
    ) -> None:
        self.function, self.directions, self.concave, self.reason = function, dict(directions), concave, reason
        self.terms = tuple(terms or ())
        self._original, self._ranges, self._certified = original, dict(ranges), terms is not None

    def __bool__(self) -> bool:
        return self._certified

    def __repr__(self) -> str:
        kind = "concave" if self.concave else "convex"
        if not self:
            return f"not certified {kind}: {self.reason}"
        kinked = self.function.atoms(*KINKS, IndexedMax, IndexedMin, sympy.Piecewise)
        return f"{kind}: " + ("; ".join(map(str, self.terms)) or f"affine{' in pieces' * bool(kinked)}")

    def form(self) -> Expr:
        """The sum of the terms: ``v' H v`` for a convex function, ``-v' H v`` for a concave one."""
        return sympy.Add(*(term.form for term in self.terms))

    # ---------------------------------------------------------------- the check

    def check(self, seed: int = 0) -> bool:
        """Multiply the certificate out and compare it with the Hessian.

        The difference from the second pushforward is multiplied out and simplified in the graph, for all sizes. Where
        it is not 0 there, because the two are written with other functions, the difference from `td.hvp` is evaluated
        by the exact interpreter at rational points: exactly where the functions are rational, else with 30 digits.

        Returns
        -------
        bool
            True.

        Raises
        ------
        CertificateError
            If there is no certificate, if it is not the Hessian, or if no point of the domain is found.
        """
        if not self:
            raise CertificateError(f"there is no certificate to check: {self.reason}")
        if self._is_zero_in_graph():
            return True
        hessian = (-1 if self.concave else 1) * self._hessian_form()
        difference = self.form() - hessian
        measured = ((at, self._values(difference, hessian, at, sizes)) for at, sizes in self._points(seed))
        found = list(islice(((at, values) for at, values in measured if values is not None), POINTS))
        for point, (error, scale) in found:
            is_exact = isinstance(error, int | Fraction)
            if abs(float(error)) > (0 if is_exact else TOLERANCE * (1 + abs(float(scale)))):
                raise CertificateError(f"the terms of {self.function} differ from its Hessian by {error} at {point}")
        if not found:
            raise CertificateError(
                f"no point was drawn at which {self.function} has a value: declare its domain by bounds="
            )
        return True

    def _hessian_form(self) -> Expr:
        """``v' H v``, out of the product of the Hessian and the direction."""
        variables, directions = tuple(self.directions), tuple(self.directions.values())
        products = hvp(self._original, variables, directions)
        return sympy.Add(*(reductions.sum(v * product) for v, product in zip(directions, products, strict=True)))

    def _is_zero_in_graph(self) -> bool:
        """Whether the terms minus the second pushforward are 0 for all sizes."""
        variables, directions = tuple(self.directions), tuple(self.directions.values())
        second = jvp(jvp(self.function, variables, directions), variables, directions)
        difference = self.form() - (-1 if self.concave else 1) * written_out(second)
        if _is_zero(difference):
            return True
        return _products(difference) <= MOST_PRODUCTS and _is_zero(sympy.expand(difference))

    def _values(self, difference: Expr, hessian: Expr, point: Any, sizes: Any) -> tuple[Any, Any] | None:
        """Both at a point, or None where one has no value there."""
        try:
            error, scale = evaluate((difference, hessian), point, sizes, total=True)
            # The root of a negative number is complex.
            is_real = error.imag == scale.imag == 0 and all(math.isfinite(float(abs(v))) for v in (error, scale))
        except (ArithmeticError, ValueError, TypeError):
            return None
        return (error, scale) if is_real else None

    def _points(self, seed: int) -> Iterator[tuple[dict[Any, Any], dict[Any, int]]]:
        """Points of the declared domain, and sizes."""
        parts = (self.function, self.form(), *self.directions, *self.directions.values())
        tensors = tensors_of(*parts)
        extents = {s for t in tensors for extent in t.shape for s in sympy.sympify(extent).free_symbols}
        scalars = [s for s in symbols_of(*parts) if s not in extents]
        draw = random.Random(seed)
        for _ in range(ATTEMPTS):
            sizes = {s: draw.randint(1, 3) for s in sorted(extents, key=str)}
            point: dict[Any, Any] = {s: draw.randint(1, 3) if s.is_integer else self._number(draw, s) for s in scalars}
            for tensor in tensors:
                shape = [int(sympy.sympify(extent).xreplace(sizes)) for extent in tensor.shape]
                point[tensor] = self._array(draw, tensor, shape)
            yield point, sizes

    def _array(self, draw: random.Random, tensor: Any, shape: Sequence[int]) -> Any:
        """An array of rationals of the tensor's domain."""
        drawn = [self._number(draw, tensor) for _ in range(math.prod(shape))]
        array = np.array(drawn, dtype=object).reshape(shape)
        if tensor.positive:
            return array @ array.T + np.eye(shape[0], dtype=object)
        return array + array.T if tensor.symmetric else array

    def _number(self, draw: random.Random, symbol: Any) -> Fraction:
        """A rational number in the range of a symbol."""
        known = self._ranges.get(symbol) or (FREE if isinstance(symbol, TensorSymbol) else assumed(symbol))
        # A direction is not 0, and two values hardly ever tie in a maximum: there is no Hessian at a kink.
        share = Fraction(2 * draw.randrange(2**15) + 1, 2**16)
        low, high = (None if end is None else _fraction(end) for end in (known.low, known.high))
        if low is None and high is None:
            return 4 * share - 2
        if low is not None and high is not None:
            return low + (high - low) * share
        return low + 2 * share if low is not None else high - 2 * share  # type: ignore[operator]

    # ---------------------------------------------------------------- printing

    def latex_lines(self) -> tuple[str, ...]:
        """The proof, a line each, in LaTeX without dollars."""
        if not self:
            return (rf"\text{{not certified: {_plain(self.reason)}}}",)
        names = ", ".join(sympy.latex(v) for v in self.directions)
        sign = "-" if self.concave else ""
        head = rf"{sign}v^T \nabla^2_{{{names}}} f\, v"
        if not self.terms:
            return (rf"{head} = 0",)
        lines = []
        for n, term in enumerate(self.terms):
            facts = ",\\; ".join(f"{sympy.latex(scalar)} {_SIGNS[sign]} 0" for scalar, sign in term.facts)
            reason = rf"\quad (\text{{{term.rule}}}" + (rf";\; {facts}" if facts else "") + ")"
            lines.append(f"{f'{head} =' if n == 0 else '+'} {sympy.latex(term.form)}{reason}")
        return (*lines, r"\geq 0")

    def _repr_latex_(self) -> str:
        body = " \\\\\n".join(f"& {line}" for line in self.latex_lines())
        return f"$\\displaystyle \\begin{{aligned}}\n{body}\n\\end{{aligned}}$"


def _is_zero(form: Expr) -> bool:
    work = Differentiation(form)
    return work.simplified(work.root) is work.graph.zero


def _products(form: Expr) -> int:
    """How many products a scalar has when it is multiplied out, roughly."""
    if isinstance(form, sympy.Add):
        return sum(map(_products, form.args))
    if isinstance(form, sympy.Pow) and form.exp.is_Integer:
        return int(min(_products(form.base) ** min(abs(int(form.exp)), 9), MOST_PRODUCTS + 1))
    if isinstance(form, TensorEntry) or not form.args:
        return 1
    inner = (form.args[0],) if isinstance(form, IndexedSum) else form.args
    return min(math.prod(map(_products, inner)), MOST_PRODUCTS + 1)


def _fraction(end: Expr) -> Fraction:
    return Fraction(int(end.p), int(end.q)) if end.is_Rational else Fraction(str(end.evalf(20)))


_SIGNS = {"0": "=", ">": ">", ">=": r"\geq", "<": "<", "<=": r"\leq"}


def _plain(text: str) -> str:
    return "".join("\\" + c if c in "_&%$#{}" else r"\textasciicircum{}" if c == "^" else c for c in text)
