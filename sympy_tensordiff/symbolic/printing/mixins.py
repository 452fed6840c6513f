"""Printing of nodes as text, LaTeX and two-dimensional form: mixins with the methods that SymPy's printers call.

SymPy's code printers know nothing of ranges, guards and shapes, so for them nodes raise an error that names the
functions of this package (`NoCode`). A printer first asks the node for a method of its own name. `sympy.lambdify`
prints code, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from math import gcd, prod
from typing import Any

from sympy import Add, Idx, Integer, Mod, Mul, Piecewise, S, Symbol, latex, srepr
from sympy.core.symbol import Str
from sympy.printing.latex import LatexPrinter
from sympy.printing.precedence import PRECEDENCE, precedence_traditional
from sympy.printing.pretty.stringpict import prettyForm, stringPict
from sympy.printing.str import StrPrinter

from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.symbolic.expressions import hooks
from sympy_tensordiff.symbolic.expressions.depth import MAX_RECURSIVE_SIZE, measures
from sympy_tensordiff.symbolic.expressions.traversal import nodes_in
from sympy_tensordiff.symbolic.index_notation.indices import IndexRenaming
from sympy_tensordiff.symbolic.printing.index_printing import show_index, with_methods
from sympy_tensordiff.symbolic.printing.stack_printing import leading_indices, stacked_parts


def short(tensor: Any) -> str:
    """Return the text of a tensor for an error message: its name, or an expression in parentheses."""
    return str(tensor.name) if tensor.is_symbol else f"({tensor})"


def names_a_point(printer: Any) -> bool:
    """Return whether ``printer`` is the internal one by which SymPy's `Subs` compares points by their texts; it needs
    exact texts.

    Tensors with one name and two shapes need different texts there.
    """
    return type(printer).__qualname__.startswith("Subs.__new__.")


def refuse_unprintable(node: Any, notation: str) -> None:
    """Raise `UnsupportedError` if ``node`` is too deep or too large to be printed; ``notation`` names the form that was
    wanted.

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
    """Return the text to print in place of ``node`` if it is too large to print; None if it can be printed normally.

    A large expression that is printed alone is shown by its parts, one per line; inside of another one it has a short
    text.
    """
    found = measures(node)
    if found.is_unprintable:  # a text all the same: messages and debuggers need one
        is_point = names_a_point(printer)
        lines = None if is_point or printer._print_level > 1 else in_parts(node)
        return described(node, f" ({found.digest.hex()})" if is_point else "") if lines is None else lines
    return str(srepr(node)) if names_a_point(printer) else None


def described(node: Any, end: str = "") -> str:
    """Return a description of an expression by its class and size, such as ``<EinsumProduct of ..., too much to
    print>``; ``end`` is appended.
    """
    return f"<{type(node).__name__} of {measures(node).described}, too much to print{end}>"


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


class Printed:
    """The base of the printing mixins. In text, a node is printed as the call of its constructor."""

    def _sympystr(self: Any, printer: Any) -> str:
        """SymPy's hook for `str`: return the constructor call with body and limits."""
        other = text_instead(self, printer)
        if other is not None:
            return other
        limits = [
            f"({', '.join([printer._print(index), *(show_index(printer, bound) for bound in bounds)])})"
            for index, *bounds in self.limits
        ]
        return f"{type(self).__name__}({', '.join([shown_body(printer, self.body), *limits])})"

    def _sympyrepr(self: Any, printer: Any) -> str:
        """SymPy's hook for `srepr`: the constructor call."""
        refuse_unprintable(self, "srepr")
        parts = (repr(arg.name) if isinstance(arg, Str) else printer._print(arg) for arg in self.args)
        # SymPy exports Piecewise, which takes plain tuples, but not the class of its branches.
        return f"{type(self).__name__}({', '.join(parts)})".replace("ExprCondPair(", "(")


class PrintedSymbol(Printed):
    """The mixin that prints a tensor symbol by its name."""

    @classmethod
    def class_key(cls) -> tuple[int, int, str]:
        """Override `Basic.class_key`: tensor symbols sort with the symbols, before entries and functions."""
        return 2, 0, cls.__name__

    def _sympystr(self: Any, printer: Any) -> str:
        """SymPy's hook for `str`: the name."""
        if names_a_point(printer):
            return str(srepr(self))
        return str(self.name)

    def _sympyrepr(self: Any, printer: Any) -> str:
        """SymPy's hook for `srepr`: the constructor call."""
        dtype = ", dtype=int" if self.dtype is int else ""
        dtype += "" if self.below is None else f", below={printer._print(self.below)}"
        facts = ", symmetric=True" * self.symmetric + ", positive=True" * self.positive
        return f"TensorSymbol({self.name!r}, {printer._print(self.args[1])}{dtype}{facts})"

    def _latex(self: Any, printer: Any) -> str:
        """SymPy's hook for LaTeX: the name, in the printer's style for matrices if it has axes."""
        style = printer._settings.get("mat_symbol_style", "plain") if self.rank else "plain"
        text = str(printer._print_Symbol(self, style=style))
        return upright(text)

    def _pretty(self: Any, printer: Any) -> Any:
        """SymPy's hook for pretty printing: the name."""
        return printer._print(Symbol(self.name))


class PrintedComprehension(Printed):
    """The mixin that prints a comprehension: the body in brackets with the ranges as a subscript, or a column of
    tensors if it stacks tensors.
    """

    def _sympystr(self: Any, printer: Any) -> str:
        """SymPy's hook for `str`: return a comprehension as a read of leading indices (``A[i]``) or a call of ``stack``
        if it is one, else as the constructor call with body and limits.
        """
        is_plain = measures(self).is_unprintable or names_a_point(printer) or not self.limits
        first = () if is_plain else leading_indices(self)
        if first and self.body.tensor[first] == self:
            return f"{printer._print(self.body.tensor)}[{', '.join(show_index(printer, index) for index in first)}]"
        parts = None if is_plain else stacked_parts(self)
        if parts is None:
            return str(super()._sympystr(printer))
        return f"stack(({', '.join(shown_body(printer, part) for part in parts)}))"

    def _latex(self: Any, printer: Any) -> str:
        """SymPy's hook for LaTeX: return a stack as a column of its parts, a marked variable with its leading indices
        as a subscript, and any other comprehension as its body in brackets with the ranges as a subscript.
        """
        refuse_unprintable(self, "LaTeX")
        this = unlabelled(self)
        show = printer._print
        parts = stacked_parts(this) if this.limits else None
        if parts is not None and not any(type(part) is type(self) and stacked_parts(part) for part in parts):
            rows = r" \\ ".join(shown_body(printer, part) for part in parts)
            return rf"\begin{{pmatrix}} {rows} \end{{pmatrix}}"
        first = leading_indices(this)
        if first and type(this.body.tensor).__name__ == "MarkedVariable":
            text = ", ".join([*(show_index(printer, index) for index in first), *":" * len(this.limits)])
            return rf"\left({show(this.body.tensor)}\right)_{{{text}}}"
        ranges = r",\, ".join(f"{show(index)} < {show(extent)}" for index, extent in this.limits)
        return rf"\left[{shown_body(printer, this.body)}\right]" + (f"_{{{ranges}}}" if ranges else "")

    def _pretty(self: Any, printer: Any) -> Any:
        """SymPy's hook for pretty printing: return the body in brackets with its ranges."""
        refuse_unprintable(self, "pretty")
        this = unlabelled(self)
        form = prettyForm(*shown_body(printer, this.body).parens("[", "]"))
        ranges: list[Any] = []
        for index, extent in this.limits:
            ranges += [", " if ranges else "", printer._print(index), " < ", printer._print(extent)]
        if ranges:
            below = stringPict(*stringPict.next(*ranges))
            below.baseline = form.baseline - form.height()  # one line under the brackets
            form = prettyForm(*form.right(below))
        return form


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
    """Return the printed body of a sum or comprehension, in the format of ``printer``: positive terms first, common
    numbers in front, and rounded indices as one fraction.
    """
    methods = {**_fractions_joined(printer), **_number_outside(printer), **_remainders_without_brackets(printer)}
    with positive_first(printer), with_methods(printer, **methods):
        return printer._print(body)


def in_latex(expr: Any) -> str:
    """Return the LaTeX of any expression, arranged like the body of a sum: positive terms first, common numbers in
    front.
    """
    return str(shown_body(LatexPrinter(), expr))


def positive_first(printer: Any) -> AbstractContextManager[None]:
    """Return a context manager inside of which ``printer`` prints positive terms of a sum before negative ones: ``b -
    a``, not ``-a + b``.
    """

    def ordered(expr: Any, order: Any = None) -> list[Any]:
        """SymPy's hook for the order of terms: positive ones first, numbers last, unless the order is fixed."""
        terms: list[Any] = type(printer)._as_ordered_terms(printer, expr, order)
        fixed = (order or printer.order) == "none"
        return (
            terms
            if fixed
            else sorted(terms, key=lambda term: (bool(term.as_coeff_Mul()[0].is_negative), term.is_Number))
        )

    return with_methods(printer, _as_ordered_terms=ordered)


def _number_outside(printer: Any) -> dict[str, Callable[..., Any]]:
    """Return methods for ``printer`` that print the number that all terms of a sum share in front of the sum: ``2*(a -
    b)``, which SymPy itself multiplies out.
    """
    own = type(printer)

    def added(expr: Any, **how: Any) -> Any:
        """SymPy's hook for `Add`: print the number that all terms share, then the rest in parentheses."""
        number, inner = _content(expr)
        if number == 1 or printer.order == "none":
            return own._print_Add(printer, expr, **how)
        if all(term.as_coeff_Mul()[0].is_negative for term in inner.args):
            number, inner = -number, Add(*(-term for term in inner.args), evaluate=False)
        return printer._print(Mul(number, inner, evaluate=False))

    def multiplied(expr: Any, **how: Any) -> Any:
        """SymPy's hook for `Mul`: print the product with numbers that all terms of a factor share moved into its
        coefficient.
        """
        # SymPy prints quotients, which may be powers, in the same way.
        parts = [_content(factor) for factor in (expr.args if expr.is_Mul else ()) if not factor.is_Rational]
        if printer.order == "none" or all(number == 1 for number, _ in parts):
            return own._print_Mul(printer, expr, **how)
        number = prod((number for number, _ in parts), start=expr.as_coeff_Mul()[0])
        return own._print_Mul(printer, Mul(*[number] * (number != 1), *(f for _, f in parts), evaluate=False), **how)

    return {"_print_Add": added, "_print_Mul": multiplied} if isinstance(printer, (LatexPrinter, StrPrinter)) else {}


def _remainders_without_brackets(printer: Any) -> dict[str, Callable[..., Any]]:
    """Return methods for ``printer`` that set LaTeX brackets around remainders (``Mod``) only; SymPy sets them around
    every term that contains one.
    """

    # A node that is asked for its precedence looks for a frame of this name (`position_in_formula`).
    def _needs_mul_brackets(expr: Any, first: bool = False, last: bool = False) -> bool:
        """SymPy's hook: return whether `expr` needs brackets as a factor of a product."""
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
    """Return ``(number, rest)`` with the rational number that all terms of a sum share, up to signs; ``(1, expr)`` if
    there is none.

    Indices stay as they are, and so do multiples of fractions that would become nested fractions.
    """
    parts = [term.as_coeff_Mul() for term in expr.args] if expr.is_Add else [(S.One, expr)]
    if any(not c.is_Rational or rest.is_integer for c, rest in parts):
        return S.One, expr
    whole = all(c.is_Integer for c, _ in parts)
    number = Integer(gcd(*(int(c) for c, _ in parts))) if whole else abs(parts[0][0])
    if number == 1 or any(not (whole or abs(c) == number) for c, _ in parts):
        return S.One, expr
    factors = [factor for _, rest in parts for factor in Mul.make_args(rest)]
    if not number.is_Integer and any(f.is_Pow and f.exp.could_extract_minus_sign() for f in factors):
        return S.One, expr
    return number, Add(*(c / number * rest for c, rest in parts), evaluate=False)


def _fractions_joined(printer: Any) -> dict[str, Callable[..., Any]]:
    """Return methods for ``printer`` that print ``floor(p/2 + 1/2)`` of an index as ``floor((p + 1)/2)``; roundings of
    real values are printed as usual.
    """

    def rounded(expr: Any, **how: Any) -> Any:
        """SymPy's hook for `floor` and `ceiling`: print the argument as one fraction if it is an index."""
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


def joined(printer: Any, parts: Any) -> str:
    """Return the printed forms of ``parts``, separated by commas."""
    return ", ".join(printer._print(part) for part in parts)


# ``printmethod`` of every printer of SymPy that does not write for people.
METHODS = (
    *("_pythoncode", "_numpycode", "_cupycode", "_jaxcode", "_mpmathcode", "_cmathcode", "_lambdacode"),
    *("_numexprcode", "_tensorflowcode", "_torchcode", "_theano", "_aesara", "_llvmcode", "_ccode", "_cxxcode"),
    *("_fcode", "_rust_code", "_glsl", "_javascript", "_julia", "_octave", "_maple", "_mcode", "_rcode", "_smtlib"),
    *("_mathml_content", "_mathml_presentation"),
)


def print_code(node: Any, printer: Any, *args: Any, **options: Any) -> Any:
    """SymPy's hook for its code printers: return the name of a scalar variable; for any other node raise
    `UnsupportedError`, which suggests `td.lambdify`.
    """
    if node.is_symbol and not node.is_tensor_entry and node.rank == 0 and node in node.free_symbols:
        return printer._print(Symbol(node.name, real=True))
    what = f"the entry of {short(node.tensor)}" if node.is_tensor_entry else f"{short(node)} ({type(node).__name__})"
    raise UnsupportedError(
        f"{type(printer).__name__} of SymPy cannot print {what} as code: evaluate with "
        "td.lambdify(arguments, expression) in place of sympy.lambdify, and read the text of a kernel with "
        "td.generate_code(arguments, expression, backend)"
    )


class NoCode:
    """The mixin of all nodes that SymPy's code printers cannot print: they raise an error with advice."""

    is_tensor_entry = False

    def __format__(self: Any, spec: str) -> str:
        """Return the text; in messages, an expression too large for one line is named by its class and size."""
        return described(self) if not spec and measures(self).is_unprintable else format(str(self), spec)


for _name in METHODS:
    setattr(NoCode, _name, print_code)
