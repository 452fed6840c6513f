"""Convexity certificates: the second derivative along a direction as a sum of nonnegative terms, printed and
checked.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import islice
from typing import Any

import sympy
from sympy import Expr

from sympy_tensordiff.convex.affine_parts import KINKS
from sympy_tensordiff.convex.conditions import ProofTerm
from sympy_tensordiff.convex.generators import FREE, range_of_assumptions
from sympy_tensordiff.derivative.api import hvp, jvp
from sympy_tensordiff.derivative.elementwise import Differentiation
from sympy_tensordiff.errors import CertificateError
from sympy_tensordiff.functions.table import Interval
from sympy_tensordiff.lazy import numpy as np
from sympy_tensordiff.reference import evaluate, symbols_of, tensors_of
from sympy_tensordiff.structure.terms import to_index_notation
from sympy_tensordiff.symbolic.index_notation.sums import IndexedMax, IndexedMin, IndexedSum
from sympy_tensordiff.symbolic.index_notation.tensors import TensorEntry, TensorSymbol
from sympy_tensordiff.symbolic.whole_tensors import reductions

CHECK_POINTS = 3
"""Number of points to compare at if the graph does not prove the difference 0."""
MAX_POINT_ATTEMPTS = 60
"""Number of points to draw at most: the function may be undefined at some."""
MAX_EXPANDED_PRODUCTS = 200
"""A difference with more products is not expanded."""
TOLERANCE = 1e-18
"""Relative tolerance of comparisons that are not exact; the numbers have 30 digits."""


class Certificate:
    """The result of `certify_convex`: true if the function is proved convex, with the terms of the proof.

    Attributes
    ----------
    terms : tuple of Term
        The summands of the second derivative along a direction, each with ``rule``, ``form``, ``factors`` and
        ``facts``. Empty if the function is affine, or piecewise affine.
    reason : str
        The scalar whose sign is unknown if there is no certificate, else empty. A missing proof is not a proof that the
        function is not convex.
    function : Expr
        The function in index notation.
    directions : dict
        The symbol of the direction of each variable.

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
        ranges: Mapping[Any, Interval],
        terms: Sequence[ProofTerm] | None,
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
        """Return the sum of the certificate's terms, the second derivative in a direction v: ``v' H v`` for a convex
        function with the Hessian H, ``-v' H v`` for a concave one.
        """
        return sympy.Add(*(term.form for term in self.terms))

    # ---------------------------------------------------------------- the check

    def check(self, seed: int = 0) -> bool:
        """Compare the sum of the terms with the Hessian, symbolically or at random points; return True, or raise
        `CertificateError` if they differ.

        The difference from the second pushforward is multiplied out and simplified in the graph, for all sizes. Where
        that does not give 0, because the two use different functions, the difference from `td.hvp` is evaluated
        by the exact interpreter at rational points: exactly where the functions are rational, else with 30 digits.

        Raises
        ------
        CertificateError
            If there is no certificate, if it is not the Hessian, or if no point of the domain is found.
        """
        if not self:
            raise CertificateError(f"there is no certificate to check: {self.reason}")
        if self._equals_second_pushforward():
            return True
        hessian = (-1 if self.concave else 1) * self._hessian_form()
        difference = self.form() - hessian
        measured = (
            (at, self._evaluate_difference(difference, hessian, at, sizes)) for at, sizes in self._draw_points(seed)
        )
        found = list(islice(((at, values) for at, values in measured if values is not None), CHECK_POINTS))
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
        """Return ``v' H v``, computed by a Hessian-vector product."""
        variables, directions = tuple(self.directions), tuple(self.directions.values())
        products = hvp(self._original, variables, directions)
        return sympy.Add(*(reductions.sum(v * product) for v, product in zip(directions, products, strict=True)))

    def _equals_second_pushforward(self) -> bool:
        """Return whether the sum of the certificate's terms equals the second derivative along the direction (its
        negative, for a concave function). It is proved symbolically, and so for all sizes.
        """
        variables, directions = tuple(self.directions), tuple(self.directions.values())
        second = jvp(jvp(self.function, variables, directions), variables, directions)
        difference = self.form() - (-1 if self.concave else 1) * to_index_notation(second)
        if _is_zero(difference):
            return True
        return _count_products(difference) <= MAX_EXPANDED_PRODUCTS and _is_zero(sympy.expand(difference))

    def _evaluate_difference(self, difference: Expr, hessian: Expr, point: Any, sizes: Any) -> tuple[Any, Any] | None:
        """Return the values of ``difference`` and ``hessian`` at ``point``, or None if one is undefined or complex."""
        try:
            error, scale = evaluate((difference, hessian), point, sizes, total=True)
            # The root of a negative number is complex.
            is_real = error.imag == scale.imag == 0 and all(math.isfinite(float(abs(v))) for v in (error, scale))
        except (ArithmeticError, ValueError, TypeError):
            return None
        return (error, scale) if is_real else None

    def _draw_points(self, seed: int) -> Iterator[tuple[dict[Any, Any], dict[Any, int]]]:
        """Yield random points of the declared domain, each with random sizes."""
        parts = (self.function, self.form(), *self.directions, *self.directions.values())
        tensors = tensors_of(*parts)
        extents = {s for t in tensors for extent in t.shape for s in sympy.sympify(extent).free_symbols}
        scalars = [s for s in symbols_of(*parts) if s not in extents]
        draw = random.Random(seed)
        for _ in range(MAX_POINT_ATTEMPTS):
            sizes = {s: draw.randint(1, 3) for s in sorted(extents, key=str)}
            point: dict[Any, Any] = {
                s: draw.randint(1, 3) if s.is_integer else self._draw_number(draw, s) for s in scalars
            }
            for tensor in tensors:
                shape = [int(sympy.sympify(extent).xreplace(sizes)) for extent in tensor.shape]
                point[tensor] = self._draw_array(draw, tensor, shape)
            yield point, sizes

    def _draw_array(self, draw: random.Random, tensor: Any, shape: Sequence[int]) -> Any:
        """Return a random array of rational numbers, from the generator ``draw``, for ``tensor``: positive definite or
        symmetric if the tensor is declared so.
        """
        drawn = [self._draw_number(draw, tensor) for _ in range(math.prod(shape))]
        array = np.array(drawn, dtype=object).reshape(shape)
        if tensor.positive:
            return array @ array.T + np.eye(shape[0], dtype=object)
        return array + array.T if tensor.symmetric else array

    def _draw_number(self, draw: random.Random, symbol: Any) -> Fraction:
        """Return a random rational number in the declared range of ``symbol``, by the generator ``draw``."""
        interval = self._ranges.get(symbol) or (
            FREE if isinstance(symbol, TensorSymbol) else range_of_assumptions(symbol)
        )
        # A direction is not 0, and two values hardly ever tie in a maximum: there is no Hessian at a kink.
        share = Fraction(2 * draw.randrange(2**15) + 1, 2**16)
        low, high = (None if end is None else _to_fraction(end) for end in (interval.low, interval.high))
        if low is None and high is None:
            return 4 * share - 2
        if low is not None and high is not None:
            return low + (high - low) * share
        return low + 2 * share if low is not None else high - 2 * share  # type: ignore[operator]

    # ---------------------------------------------------------------- printing

    def latex_lines(self) -> tuple[str, ...]:
        """Return the proof as LaTeX lines without dollar signs."""
        if not self:
            return (rf"\text{{not certified: {_escape_latex(self.reason)}}}",)
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
        """Return the proof as one LaTeX display for notebooks."""
        body = " \\\\\n".join(f"& {line}" for line in self.latex_lines())
        return f"$\\displaystyle \\begin{{aligned}}\n{body}\n\\end{{aligned}}$"


def _is_zero(form: Expr) -> bool:
    """Return whether the package's simplification proves that ``form`` is 0."""
    work = Differentiation(form)
    return work.simplified(work.root) is work.graph.zero


def _count_products(form: Expr) -> int:
    """Return about how many products the scalar ``form`` has after multiplying out; counting stops just above
    `MAX_EXPANDED_PRODUCTS`.
    """
    if isinstance(form, sympy.Add):
        return sum(map(_count_products, form.args))
    if isinstance(form, sympy.Pow) and form.exp.is_Integer:
        return int(min(_count_products(form.base) ** min(abs(int(form.exp)), 9), MAX_EXPANDED_PRODUCTS + 1))
    if isinstance(form, TensorEntry) or not form.args:
        return 1
    inner = (form.args[0],) if isinstance(form, IndexedSum) else form.args
    return min(math.prod(map(_count_products, inner)), MAX_EXPANDED_PRODUCTS + 1)


def _to_fraction(end: Expr) -> Fraction:
    """Return the real number ``end`` as a `Fraction`: exact if it is rational, else rounded to 20 digits."""
    return Fraction(int(end.p), int(end.q)) if end.is_Rational else Fraction(str(end.evalf(20)))


_SIGNS = {"0": "=", ">": ">", ">=": r"\geq", "<": "<", "<=": r"\leq"}


def _escape_latex(text: str) -> str:
    """Escape the special characters of LaTeX in ``text``."""
    return "".join("\\" + c if c in "_&%$#{}" else r"\textasciicircum{}" if c == "^" else c for c in text)
