"""The printed forms of nodes as text, LaTeX and two-dimensional form: the base class, and those of symbols and
comprehensions.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import lru_cache
from math import gcd, prod
from types import FrameType
from typing import Any

from sympy import Add, Idx, Integer, KroneckerDelta, Mod, Mul, Piecewise, S, Symbol, latex, srepr
from sympy.core.symbol import Str
from sympy.printing.latex import LatexPrinter
from sympy.printing.precedence import PRECEDENCE, precedence_traditional
from sympy.printing.pretty.stringpict import prettyForm, stringPict
from sympy.printing.printer import Printer
from sympy.printing.str import StrPrinter

from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.symbolic.expressions import hooks
from sympy_tensordiff.symbolic.expressions.depth import MAX_RECURSIVE_SIZE, measures
from sympy_tensordiff.symbolic.expressions.printable import described
from sympy_tensordiff.symbolic.expressions.replacement import IndexRenaming
from sympy_tensordiff.symbolic.expressions.traversal import nodes_in
from sympy_tensordiff.symbolic.index_notation.tensors import TensorSymbol
from sympy_tensordiff.symbolic.printing.index_printing import show_index, with_methods


def names_a_point(printer: Any) -> bool:
    """Return whether ``printer`` is the one that SymPy's `Subs` uses to compare points by their printed texts.
    Different values then need different texts.

    Tensors with one name and two shapes need different texts there.
    """
    return type(printer).__qualname__.startswith("Subs.__new__.")


def refuse_unprintable(node: Any, notation: str) -> None:
    """Raise `UnsupportedError` if ``node`` is too deep or too large to be printed. ``notation`` names the wanted form
    in the message, such as "LaTeX".

    A shared part is printed at each of its occurrences, so that the text of a small graph may be huge.
    """
    found = measures(node)
    if found.is_unprintable:
        raise UnsupportedError(
            f"{notation} of a {type(node).__name__} of {found.described}: that is too much to print as one formula; "
            "td.latex(expr, parts=True) and td.cse(expr) write it in parts, td.name gives parts names; td.vjp, "
            "td.generate_code and td.lambdify take it as it is"
        )


def text_instead(node: Any, printer: Any) -> str | None:
    """Return a replacement for the usual text of ``node``: its parts or a short description if it is too large to
    print. None if the usual text is to be printed.

    For the printer in SymPy's `Subs`, which compares texts, it is the node's `srepr`.

    A large expression that is printed alone is shown by its parts, one per line; inside of another one it has a short
    text.
    """
    found = measures(node)
    if found.is_unprintable:  # a text all the same: messages and debuggers need one
        is_point = names_a_point(printer)
        lines = None if is_point or printer._print_level > 1 else in_parts(node)
        return described(node, f" ({found.digest.hex()})" if is_point else "") if lines is None else lines
    return str(srepr(node)) if names_a_point(printer) else None


def in_parts(node: Any) -> str | None:
    """Return the text of a large expression split into named parts, one on each line; None if even that is too long."""
    if len(nodes_in([node])) > MOST_NODES:
        return None
    lines = hooks.lines(node)
    if lines is None or len(lines) > MOST_LINES or sum(measures(part).size for _, part in lines) > MAX_RECURSIVE_SIZE:
        return None
    if any(measures(part).is_unprintable for _, part in lines):
        return None
    return "\n".join(str(part) if symbol is None else f"{symbol} = {part}" for symbol, part in lines)


MOST_NODES = 2_000
"""An expression of more nodes is not looked through for the sake of a text."""

MOST_LINES = 60
"""More parts are not printed."""


class PrintedForms:
    """The base class of the objects that print a node, with a method for each form: text, LaTeX and others. Here the
    text is the call of the constructor with body and limits, as for a sum; subclasses print other nodes.

    SymPy's printers get the methods of this object in place of methods of the node (see `Printable`).
    """

    def __init__(self, node: Any) -> None:
        self.node = node

    def precedence(self, caller: FrameType) -> int:
        """Return the operator precedence of the printed form, by default that of an atom. ``caller`` is the call frame
        of the SymPy function that asks for it.
        """
        return int(PRECEDENCE["Atom"])

    def text(self, printer: Any) -> str:
        """Return the text of a sum or comprehension for `str`: the call of its constructor, with body and limits."""
        node = self.node
        other = text_instead(node, printer)
        if other is not None:
            return other
        limits = [
            f"({', '.join([printer._print(index), *(show_index(printer, bound) for bound in bounds)])})"
            for index, *bounds in node.limits
        ]
        return f"{type(node).__name__}({', '.join([shown_body(printer, node.body), *limits])})"

    def constructor(self, printer: Any) -> str:
        """Return the constructor call of the node for `srepr`."""
        refuse_unprintable(self.node, "srepr")
        parts = (repr(arg.name) if isinstance(arg, Str) else printer._print(arg) for arg in self.node.args)
        # SymPy exports Piecewise, which takes plain tuples, but not the class of its branches.
        return f"{type(self.node).__name__}({', '.join(parts)})".replace("ExprCondPair(", "(")

    def latex(self, printer: Any) -> str:
        """Return the LaTeX of the node."""
        raise NotImplementedError

    def pretty(self, printer: Any) -> Any:
        """Return the two-dimensional form of the node."""
        raise NotImplementedError


class SymbolForms(PrintedForms):
    """The printed forms of a tensor symbol: its name."""

    def text(self, printer: Any) -> str:
        """Return the name of the node as text; only the printer by which SymPy's `Subs` compares points gets the node's
        `srepr`.
        """
        return str(srepr(self.node)) if names_a_point(printer) else str(self.node.name)

    def constructor(self, printer: Any) -> str:
        """Return the constructor call of the tensor symbol."""
        node = self.node
        dtype = ", dtype=int" if node.dtype is int else ""
        dtype += "" if node.below is None else f", below={printer._print(node.below)}"
        facts = ", symmetric=True" * node.symmetric + ", positive=True" * node.positive
        return f"TensorSymbol({node.name!r}, {printer._print(node.args[1])}{dtype}{facts})"

    def latex(self, printer: Any) -> str:
        """Return the LaTeX of the name. If the tensor has axes, the printer's style for matrix symbols is used."""
        style = printer._settings.get("mat_symbol_style", "plain") if self.node.rank else "plain"
        return upright(str(printer._print_Symbol(self.node, style=style)))

    def pretty(self, printer: Any) -> Any:
        """Return the name of the tensor symbol as the two-dimensional form."""
        return printer._print(Symbol(self.node.name))


class NamedTensorForms(SymbolForms):
    """The printed forms of a `NamedTensor`: its name or, for `srepr`, a constructor call with the name and the
    definition.
    """

    def constructor(self, printer: Any) -> str:
        """Return the constructor call, ``NamedTensor('name', definition)``, as text."""
        return f"NamedTensor({self.node.name!r}, {printer._print(self.node.definition)})"


class ComprehensionForms(PrintedForms):
    """The printed forms of a comprehension: the body in brackets with the ranges as a subscript or, if it stacks
    tensors, a column of these tensors.
    """

    def text(self, printer: Any) -> str:
        """Return the text of a comprehension: ``A[i]`` if it is a part of the variable ``A`` at leading indices,
        ``stack((a, b))`` if it stacks tensors, else the constructor call with body and limits.
        """
        node = self.node
        is_plain = measures(node).is_unprintable or names_a_point(printer) or not node.limits
        first = () if is_plain else leading_indices(node)
        if first and node.body.tensor[first] == node:
            return f"{printer._print(node.body.tensor)}[{', '.join(show_index(printer, index) for index in first)}]"
        parts = None if is_plain else stacked_parts(node)
        if parts is None:
            return super().text(printer)
        return f"stack(({', '.join(shown_body(printer, part) for part in parts)}))"

    def latex(self, printer: Any) -> str:
        """Return the LaTeX of a comprehension: its body in brackets, with the ranges as a subscript.

        A stack of tensors is a column vector of these. A part ``h[i]`` of a `MarkedVariable` has its leading indices as
        a subscript.
        """
        refuse_unprintable(self.node, "LaTeX")
        this = unlabelled(self.node)
        show = printer._print
        parts = stacked_parts(this) if this.limits else None
        if parts is not None and not any(isinstance(part, type(this)) and stacked_parts(part) for part in parts):
            rows = r" \\ ".join(shown_body(printer, part) for part in parts)
            return rf"\begin{{pmatrix}} {rows} \end{{pmatrix}}"
        first = leading_indices(this)
        if first and isinstance(this.body.tensor, MarkedVariable):
            text = ", ".join([*(show_index(printer, index) for index in first), *":" * len(this.limits)])
            return rf"\left({show(this.body.tensor)}\right)_{{{text}}}"
        ranges = r",\, ".join(f"{show(index)} < {show(extent)}" for index, extent in this.limits)
        return rf"\left[{shown_body(printer, this.body)}\right]" + (f"_{{{ranges}}}" if ranges else "")

    def pretty(self, printer: Any) -> Any:
        """Return the two-dimensional form of a comprehension: the body in brackets, with its ranges below."""
        refuse_unprintable(self.node, "pretty")
        this = unlabelled(self.node)
        form = prettyForm(*shown_body(printer, this.body).parens("[", "]"))
        ranges: list[Any] = []
        for index, extent in this.limits:
            ranges += [", " if ranges else "", printer._print(index), " < ", printer._print(extent)]
        if ranges:
            below = stringPict(*stringPict.next(*ranges))
            below.baseline = form.baseline - form.height()  # one line under the brackets
            form = prettyForm(*form.right(below))
        return form


class MarkedVariable(TensorSymbol):
    """A variable printed in a formula under a name that is already LaTeX, such as ``h_{t-1}``."""


class MarkedVariableForms(SymbolForms):
    """The printed forms of a `MarkedVariable`: in LaTeX its name unchanged, such as ``h_{t-1}``; other printers write
    it like a symbol.
    """

    def latex(self, printer: Any) -> str:
        """Return the name of the variable, unchanged, as its LaTeX form."""
        return str(self.node.name)


def upright(name: str) -> str:
    """Return ``name`` in LaTeX. A word gets upright letters, since italics would look like a product, and ``dx`` and
    ``ddx`` are set as differentials.
    """
    for differential in _DIFFERENTIALS:
        if found := differential.fullmatch(name):
            base = latex(Symbol(found[2]))
            if len(found[2]) == 1 or base.startswith("\\"):
                return rf"\mathrm{{{found[1]}}}{base}{found[3]}"
    return rf"\mathrm{{{name}}}" if name.isalpha() and name.isascii() and len(name) > 1 else name


_DIFFERENTIALS = tuple(re.compile(rf"({d})([A-Za-z]+)((?:_\{{[^{{}}]*\}})?)") for d in ("d", "dd"))
"""The text of a first and of a second derivative: ``d`` or ``dd``, its name, and a subscript in LaTeX."""


def shown_body(printer: Any, body: Any) -> Any:
    """Print the body of a sum or comprehension with ``printer``: positive terms first, common numbers in front of a
    sum, and the argument of a rounded index as one fraction, ``floor((i + 1)/2)``.
    """
    methods = {**_fractions_joined(printer), **_number_outside(printer), **_remainders_without_brackets(printer)}
    with positive_first(printer), with_methods(printer, **methods):
        return printer._print(body)


def in_latex(expr: Any) -> str:
    """Return the LaTeX of the expression ``expr``, arranged like the body of a sum: positive terms first, common
    numbers in front.
    """
    return str(shown_body(LatexPrinter(), expr))


def positive_first(printer: Any) -> AbstractContextManager[None]:
    """Return a context manager inside of which ``printer`` prints positive terms of a sum before negative ones: ``b -
    a``, not ``-a + b``.
    """

    def ordered(expr: Any, order: Any = None) -> list[Any]:
        """SymPy's hook for the order of terms: positive ones first, numbers last, unless the order is fixed."""
        order = order or printer.order
        is_plain = order in (None, "lex") and type(printer)._as_ordered_terms is Printer._as_ordered_terms
        own = type(printer)._as_ordered_terms
        terms: list[Any] = list(_terms_in_order(expr, order)) if is_plain else own(printer, expr, order)
        fixed = order == "none"
        return (
            terms
            if fixed
            else sorted(terms, key=lambda term: (bool(term.as_coeff_Mul()[0].is_negative), term.is_Number))
        )

    return with_methods(printer, _as_ordered_terms=ordered)


@lru_cache(maxsize=1 << 11)
def _terms_in_order(expr: Any, order: Any) -> tuple[Any, ...]:
    """Return the terms of the sum ``expr`` in SymPy's ``order``. They are cached, since printers ask for them at each
    occurrence of the sum.
    """
    return tuple(expr.as_ordered_terms(order=order))


def _number_outside(printer: Any) -> dict[str, Callable[..., Any]]:
    """Return a dictionary of print methods of ``printer`` for sums and products, which print the common numeric factor
    of a sum in front, as in ``2*(a - b)``; SymPy itself multiplies it out. It is empty for printers other than text and
    LaTeX.
    """
    own = type(printer)

    def added(expr: Any, **how: Any) -> Any:
        """Print the sum ``expr`` with the common numeric factor of its terms in front, such as ``2*(x + y)``. SymPy's
        printer calls this for each `Add`; ``how`` are its options.
        """
        number, inner = _content(expr)
        if number == 1 or printer.order == "none":
            return own._print_Add(printer, expr, **how)
        if all(term.as_coeff_Mul()[0].is_negative for term in inner.args):
            number, inner = -number, Add(*(-term for term in inner.args), evaluate=False)
        return printer._print(Mul(number, inner, evaluate=False))

    def multiplied(expr: Any, **how: Any) -> Any:
        """SymPy's hook for `Mul`: print the product with the numbers that divide all terms of a factor moved into its
        coefficient, ``2*x*(y + 1)`` for ``x*(2*y + 2)``.
        """
        # SymPy prints quotients, which may be powers, in the same way.
        parts = [_content(factor) for factor in (expr.args if expr.is_Mul else ()) if not factor.is_Rational]
        if printer.order == "none" or all(number == 1 for number, _ in parts):
            return own._print_Mul(printer, expr, **how)
        number = prod((number for number, _ in parts), start=expr.as_coeff_Mul()[0])
        return own._print_Mul(printer, Mul(*[number] * (number != 1), *(f for _, f in parts), evaluate=False), **how)

    return {"_print_Add": added, "_print_Mul": multiplied} if isinstance(printer, (LatexPrinter, StrPrinter)) else {}


def _remainders_without_brackets(printer: Any) -> dict[str, Callable[..., Any]]:
    """Return a dictionary of methods for ``printer``, which set LaTeX brackets around remainders (``Mod``) only; SymPy
    sets them around every term that contains one.
    """

    # A node that is asked for its precedence looks for a frame of this name (`position_in_formula`).
    def _needs_mul_brackets(expr: Any, first: bool = False, last: bool = False) -> bool:
        """SymPy's hook: return whether `expr` needs brackets as a factor of a product. ``first`` and ``last`` say
        whether it is the first or the last factor.
        """
        if not expr.has(Mod):
            return bool(LatexPrinter._needs_mul_brackets(printer, expr, first, last))
        if expr.is_Mul:
            return bool(not first and expr.could_extract_minus_sign())
        return (
            isinstance(expr, (Mod, Piecewise)) or expr.is_Relational or precedence_traditional(expr) < PRECEDENCE["Mul"]
        )

    def _needs_add_brackets(expr: Any) -> bool:
        """SymPy's hook: return whether `expr` needs brackets as a term of a sum."""
        return bool(expr.is_Add or expr.is_Relational or isinstance(expr, Mod))

    if not isinstance(printer, LatexPrinter):
        return {}
    return {"_needs_mul_brackets": _needs_mul_brackets, "_needs_add_brackets": _needs_add_brackets}


def _content(expr: Any) -> tuple[Any, Any]:
    """Split off a common factor of the coefficients, the gcd of integers or a fraction that all terms share up to sign:
    return ``(2, a - b)`` for ``2*a - 2*b``, and ``(1, expr)`` if there is none.

    Indices stay as they are, and so do multiples of fractions that would become nested fractions.
    """
    if not expr.is_Add:
        return S.One, expr
    parts = [term.as_coeff_Mul() for term in expr.args]
    if not all(c.is_Rational for c, _ in parts):
        return S.One, expr
    whole = all(c.is_Integer for c, _ in parts)
    number = Integer(gcd(*(int(c) for c, _ in parts))) if whole else abs(parts[0][0])
    if number == 1 or any(not (whole or abs(c) == number) for c, _ in parts):
        return S.One, expr
    if any(rest.is_integer for _, rest in parts):  # last, since SymPy searches long for an answer
        return S.One, expr
    factors = [factor for _, rest in parts for factor in Mul.make_args(rest)]
    if not number.is_Integer and any(f.is_Pow and f.exp.could_extract_minus_sign() for f in factors):
        return S.One, expr
    return number, Add(*(c / number * rest for c, rest in parts), evaluate=False)


def _fractions_joined(printer: Any) -> dict[str, Callable[..., Any]]:
    """Return a dictionary of print methods for ``printer``, which print ``floor(p/2 + 1/2)`` of an index as
    ``floor((p + 1)/2)``; roundings of real values are printed as usual.
    """

    def rounded(expr: Any, **how: Any) -> Any:
        """Print ``expr``, a `floor` or `ceiling`, for SymPy: as a single fraction, ``floor((i + 1)/2)``, if the
        argument is an index, and as SymPy prints it otherwise. ``how`` are the printer's options.
        """
        own = getattr(type(printer), f"_print_{type(expr).__name__}", type(printer)._print_Function)
        is_index = all(symbol.is_integer or getattr(symbol, "dtype", None) is int for symbol in expr.free_symbols)
        joined = is_index and printer.order != "none"
        return show_index(printer, expr, **how) if joined else own(printer, expr, **how)

    return {"_print_floor": rounded, "_print_ceiling": rounded}


def unlabelled(expr: Any) -> Any:
    """Return ``expr`` with each `Idx` replaced by its plain symbol, because SymPy would print the range of an `Idx`
    everywhere.
    """
    return expr.xreplace(IndexRenaming((index, index.label) for index in expr.atoms(Idx)))


MAX_ROWS = 8
"""Longer stacks are printed by their entries."""


def stacked_parts(tensor: Any) -> list[Any] | None:
    """Return ``[a, b]`` if the comprehension ``tensor`` stacks the tensors or scalars ``a`` and ``b`` (or more) along
    its first axis; None for another comprehension.

    They are the choices of its first index, ``Piecewise((a, i < 1), (b, i < 2), (c, True))``, or the factors of
    ``KroneckerDelta(i, 0)``, ``KroneckerDelta(i, 1)``, ….
    """
    (index, extent), *rest = [limit.args for limit in tensor.limits]
    if not isinstance(extent, Integer) or not 2 <= int(extent) <= MAX_ROWS:
        return None
    body = tensor.body
    found = _choices(body, index, int(extent)) if isinstance(body, Piecewise) else _terms(body, index, int(extent))
    if found is None or any(index in part.free_symbols for part in found):
        return None
    return [_as_variable(tensor.func(part, *rest)) if rest else part for part in found]


def _as_variable(tensor: Any) -> Any:
    """Return the variable that the comprehension ``tensor`` copies, if its entries are just those of the variable in
    the same order; else ``tensor`` itself.
    """
    entry = tensor.body
    if not getattr(entry, "is_tensor_entry", False) or not entry.tensor.is_symbol:
        return tensor
    is_whole = tuple(entry.indices) == tuple(tensor.indices) and tuple(entry.tensor.shape) == tuple(tensor.shape)
    return entry.tensor if is_whole else tensor


def _choices(body: Piecewise, index: Any, count: int) -> list[Any] | None:
    """Return ``[a, b, c]`` if ``body`` is ``Piecewise((a, i < 1), (b, i < 2), (c, True))``, which lists the values for
    each of the ``count`` values of ``index``, here i; None for another `Piecewise`.
    """
    *first, last = body.args
    is_ladder = len(body.args) == count and last.args[1] == S.true
    if is_ladder and all(pair.args[1] == (index < n) for n, pair in enumerate(first, 1)):
        return [pair.args[0] for pair in body.args]
    return None


def _terms(body: Any, index: Any, count: int) -> list[Any] | None:
    """Return ``[a, b, ...]``, one value for each of the ``count`` values of ``index``, for a body ``a*delta(index, 0) +
    b*delta(index, 1) + ...``; None if a term has no such delta.
    """
    rows: list[Any] = [[] for _ in range(count)]
    for term in Add.make_args(body):
        factors = Mul.make_args(term)
        deltas = [f for f in factors if isinstance(f, KroneckerDelta) and index in f.args]
        if len(deltas) != 1:
            return None
        (place,) = (arg for arg in deltas[0].args if arg != index)
        if not isinstance(place, Integer) or not 0 <= int(place) < count:
            return None
        rows[int(place)].append(Mul(*(factor for factor in factors if factor is not deltas[0])))
    return [Add(*row) for row in rows]


def leading_indices(tensor: Any) -> tuple[Any, ...]:
    """Return the fixed leading indices of the comprehension ``tensor`` if it is a slice of a tensor symbol: ``(2,)``
    for the slice ``A[2]``. Return () for any other comprehension.
    """
    own, entry = tuple(tensor.indices), tensor.body
    if not own or not getattr(entry, "is_tensor_entry", False) or not entry.tensor.is_symbol:
        return ()
    first, last = entry.indices[: -len(own)], entry.indices[-len(own) :]
    is_whole = tuple(last) == own and tuple(entry.tensor.shape[-len(own) :]) == tuple(tensor.shape)
    return tuple(first) if is_whole and not any(index.has(*own) for index in first) else ()
