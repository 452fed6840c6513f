"""Where functions have a value: logarithms, roots and quotients over open ranges, and what their domains say."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import sympy
from sympy import Dummy, Expr, S

from sympy_tensordiff.convex.affine_parts import Cut
from sympy_tensordiff.convex.conditions import require
from sympy_tensordiff.convex.generators import Range
from sympy_tensordiff.convex.signs import Signs


def enter_domain(signs: Signs, cut: Cut, ranges: Mapping[Expr, Range], is_concave: Callable[[Expr], bool]) -> None:
    """Declare the ranges of the symbols of a cut, and require that its function has a value there.

    Ranges are open: where the least value of a part is taken, a continuous function is convex by continuity. So a
    root needs a value above 0 in the open ranges only; a pole and a logarithm need one at their ends as well.

    Raises
    ------
    NoSign
    """
    closed: dict[Expr, Expr] = {}
    for symbol, known in ranges.items():
        signs.given[symbol] = known
        if not known.strict and known.low != known.high:
            signs.given[symbol] = known._replace(strict=True)
            closed[symbol] = Dummy("closed", real=True)
            signs.given[closed[symbol]] = known
    require_values(signs, cut.function, cut.back, closed, _cut_by_domains(signs, cut, is_concave))


def _cut_by_domains(signs: Signs, cut: Cut, is_concave: Callable[[Expr], bool]) -> set[Expr]:
    """The logarithms and roots of concave arguments in one part, whose domains are convex; they bound the part.

    >>> import sympy_tensordiff as td
    >>> n, = td.indices("n,")
    >>> x = td.TensorSymbol("x", n)
    >>> bool(td.certify_convex(-td.log(1 - td.dot(x, x)), x)), bool(td.certify_convex(-td.log(td.dot(x, x) - 1), x))
    (True, False)
    """
    bounding = set()
    for node in sorted(cut.function.atoms(sympy.log, sympy.Pow), key=sympy.default_sort_key):
        base = node.args[0]
        if isinstance(node, sympy.Pow) and (not node.exp.is_Rational or node.exp.is_Integer):
            continue
        if len(base.free_symbols) != 1 or not base.free_symbols <= cut.back.keys():
            continue
        (part,) = base.free_symbols
        slope, offset = base.coeff(part), base.xreplace({part: S.Zero})
        if slope.is_Rational and slope != 0 and offset.is_Rational and base - slope * part - offset == 0:
            known, end = signs.given[part], -offset / slope
            ends = {known.low if slope > 0 else known.high, end} - {None}
            bound = max(ends) if slope > 0 else min(ends)
            narrower = known._replace(**{"low" if slope > 0 else "high": bound}, strict=True)
            if narrower != known and is_concave(slope * cut.back[part]):
                signs.given[part] = narrower
                bounding.add(node)
    return bounding


def require_values(
    signs: Signs,
    function: Expr,
    back: Mapping[Expr, Expr],
    closed: Mapping[Expr, Expr] | None = None,
    bounding: Collection[Expr] = (),
) -> None:
    """Require that every logarithm, root and quotient in the symbols ``back`` has a value.

    Parameters
    ----------
    closed : mapping
        For symbols with closed ranges, which are declared to be open, symbols with the closed ones.
    bounding : collection of Expr
        Logarithms and roots whose domains bound the ranges.

    Raises
    ------
    NoSign
    """
    closed = dict(closed or {})
    for node in sympy.postorder_traversal(function):
        if node in bounding or node.free_symbols.isdisjoint(back):
            continue
        if isinstance(node, sympy.log):
            sign = signs.of(node.args[0].xreplace(closed))
            require("domain", sign == ">", "no sign of {}", node.args[0].xreplace(dict(back)))
        elif isinstance(node, sympy.Pow) and node.base is not S.Exp1:
            base, exponent = node.args
            shown = base.xreplace(dict(back))
            if exponent.is_Integer:
                has_value = exponent > 0 or signs.of(base.xreplace(closed)) in (">", "<")
                require("pole", has_value, "no sign of {}", shown)
                continue
            is_root = exponent.free_symbols.isdisjoint(back) and signs.of(exponent) == ">"
            sign = signs.of(base if is_root else base.xreplace(closed))
            require("domain", sign == ">", "no sign of {}", shown)


__all__ = ["enter_domain", "require_values"]
