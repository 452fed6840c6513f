"""The functions of real numbers: one record each, with all properties except their derivatives.

SymPy's classes know derivatives and values; a record says the rest: names in texts and in kernels, where the function
is finite, its parity, and the interval of its values. The sign rules of simplification, the ranges of convexity
certificates, the printers, the readers of text languages and the loop nests look functions up here.

The records of SymPy's functions are below; functions of the package add theirs where they are defined.

Examples
--------
>>> import sympy
>>> from sympy_tensordiff.functions.table import by_name, record_of
>>> record_of(sympy.tanh).parity, record_of(sympy.tanh).values, by_name("arctan").function
(-1, Interval(low=-1, high=1, is_open=True), atan)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import sympy
from sympy.codegen import cfunctions


class Interval(NamedTuple):
    """An interval of real numbers. An end is None if it is missing; ``is_open`` says that the ends do not
    belong to it.
    """

    low: Any = None
    high: Any = None
    is_open: bool = True


class RealFunction(NamedTuple):
    """The record of a function of real numbers: its name, its SymPy class and its properties, such as the range of its
    values.

    Attributes
    ----------
    name : str
        Its name in texts; if `is_public`, also in the package.
    function : function class of SymPy or callable
        The function of scalar expressions.
    operation : str
        Its name in loop nests; "" if kernels use other functions instead, or do not know it.
    aliases : tuple of str
        Further names in texts.
    operands : tuple of int
        The least and the greatest number of operands.
    is_public : bool
        Whether the package has a function of that name.
    is_readable : bool
        Whether texts may contain it; not where SymPy works out numbers of any length, as for factorials.
    is_defined : bool
        Whether it is defined for all real numbers.
    is_finite : bool
        Whether it is finite for all floating point numbers: `exp` is defined everywhere and overflows.
    is_exact : bool
        Whether its computed values have no rounding errors of their own.
    parity : int
        1 if ``f(-x) = f(x)``, -1 if ``f(-x) = -f(x)``, else 0.
    values : Interval
        An interval with all of its values.
    """

    name: str
    function: Callable[..., Any]
    operation: str = ""
    aliases: tuple[str, ...] = ()
    operands: tuple[int, int] = (1, 1)
    is_public: bool = False
    is_readable: bool = True
    is_defined: bool = False
    is_finite: bool = False
    is_exact: bool = False
    parity: int = 0
    values: Interval = Interval()

    @property
    def is_positive(self) -> bool:
        """Whether all values are greater than 0."""
        return self.values.low is not None and (self.values.low > 0 or (self.values.low == 0 and self.values.is_open))


MAX_OPERANDS = 100
"""The greatest number of operands of functions such as ``maximum``."""

_POSITIVE, _ONE = Interval(0), Interval(-1, 1, is_open=False)


def _of_one(name: str, function: Any, operation: str = "", *aliases: str, **properties: Any) -> RealFunction:
    """Return the record of a function of one argument that users can call as ``td.<name>``; ``operation`` is its name
    in loop nests, "" if they do not have it.
    """
    return RealFunction(name, function, operation, aliases, is_public=True, **properties)


def _bounded(name: str, function: Any, operation: str = "", *aliases: str, **properties: Any) -> RealFunction:
    """Return the record of a public function of one argument whose value is finite for all real numbers."""
    return _of_one(name, function, operation, *aliases, is_defined=True, is_finite=True, **properties)


def log_of_sum(a: Any, b: Any) -> Any:
    """Return the scalar ``log(exp(a) + exp(b))``; compiled code computes it without overflow."""
    return sympy.log(sympy.exp(a) + sympy.exp(b))


def _extremum(name: str, function: Any, operation: str, *aliases: str) -> RealFunction:
    """Return the record of a maximum or minimum of any number of arguments."""
    return _bounded(name, function, operation, *aliases, is_exact=True, operands=(1, MAX_OPERANDS))


_RECORDS = (
    _of_one("exp", sympy.exp, "exp", is_defined=True, values=_POSITIVE),
    _of_one("log", sympy.log, "log", "ln"),
    _bounded("sin", sympy.sin, "sin", parity=-1, values=_ONE),
    _bounded("cos", sympy.cos, "cos", parity=1, values=_ONE),
    _of_one("tan", sympy.tan, "tan", parity=-1),
    _of_one("asin", sympy.asin, "arcsin", "arcsin", parity=-1),
    _of_one("acos", sympy.acos, "arccos", "arccos"),
    _bounded("atan", sympy.atan, "arctan", "arctan", parity=-1, values=Interval(-sympy.pi / 2, sympy.pi / 2)),
    _of_one("sinh", sympy.sinh, "sinh", is_defined=True, parity=-1),
    _of_one("cosh", sympy.cosh, "cosh", is_defined=True, parity=1, values=Interval(1, None, is_open=False)),
    _bounded("tanh", sympy.tanh, "tanh", parity=-1, values=Interval(-1, 1)),
    _bounded("asinh", sympy.asinh, "arcsinh", "arcsinh", parity=-1),
    _of_one("acosh", sympy.acosh, "arccosh", "arccosh"),
    _of_one("atanh", sympy.atanh, "arctanh", "arctanh", parity=-1),
    _of_one("sqrt", sympy.sqrt),
    _bounded("abs", sympy.Abs, "abs", "Abs", is_exact=True, parity=1, values=Interval(0, None, is_open=False)),
    _bounded("sign", sympy.sign, "sign", is_exact=True, parity=-1, values=_ONE),
    _bounded("floor", sympy.floor, "floor", is_exact=True),
    _bounded("ceiling", sympy.ceiling, "ceil", "ceil", is_exact=True),
    _bounded("erf", sympy.erf, "erf", parity=-1, values=Interval(-1, 1)),
    _bounded("relu", lambda x: sympy.Max(x, 0)),
    _of_one("square", lambda x: x**2),
    _of_one("expm1", cfunctions.expm1, "expm1", is_defined=True),
    _of_one("log1p", cfunctions.log1p, "log1p"),
    _extremum("maximum", sympy.Max, "max", "max", "Max"),
    _extremum("minimum", sympy.Min, "min", "min", "Min"),
    RealFunction("hypot", cfunctions.hypot, "hypot", (), (2, 2), is_public=True, is_defined=True, is_finite=True),
    RealFunction("logaddexp", log_of_sum, operands=(2, 2), is_public=True, is_defined=True, is_finite=True),
    RealFunction("clip", lambda x, low, high: sympy.Min(sympy.Max(x, low), high), operands=(3, 3), is_public=True),
    RealFunction("atan2", sympy.atan2, "arctan2", ("arctan2",), (2, 2), is_defined=True, is_finite=True),
    RealFunction("erf2", sympy.erf2, operands=(2, 2), is_readable=False, is_defined=True, is_finite=True),
    RealFunction("fma", cfunctions.fma, operands=(3, 3), is_readable=False, is_defined=True, is_finite=True),
    RealFunction("erfc", sympy.erfc, "erfc", is_defined=True, is_finite=True, values=Interval(0, 2)),
    RealFunction("gamma", sympy.gamma, "gamma", is_readable=False),
    RealFunction("loggamma", sympy.loggamma, "lgamma", is_readable=False),
    RealFunction("factorial", sympy.factorial, is_readable=False),
    RealFunction("exp2", cfunctions.exp2, is_readable=False, is_defined=True, values=_POSITIVE),
    RealFunction("log2", cfunctions.log2, "log2"),
    RealFunction("log10", cfunctions.log10, "log10"),
    RealFunction("cbrt", cfunctions.Cbrt, "cbrt", ("Cbrt",), is_defined=True, is_finite=True),
    RealFunction("Heaviside", sympy.Heaviside, "heaviside", (), (1, 2), is_defined=True, is_finite=True, is_exact=True),
    RealFunction("frac", sympy.frac, is_defined=True, is_finite=True, values=Interval(0, 1, is_open=False)),
    RealFunction(
        "LeviCivita", sympy.LeviCivita, operands=(1, MAX_OPERANDS), is_readable=False, is_defined=True, is_finite=True
    ),
    RealFunction("sinc", sympy.sinc, is_defined=True, is_finite=True, parity=1),
    RealFunction("sec", sympy.sec, parity=1),
    RealFunction("csc", sympy.csc, parity=-1),
    RealFunction("cot", sympy.cot, parity=-1),
    RealFunction("sech", sympy.sech, is_defined=True, is_finite=True, parity=1, values=_POSITIVE),
    RealFunction("csch", sympy.csch, parity=-1),
    RealFunction("coth", sympy.coth, parity=-1),
    RealFunction("asec", sympy.asec),
    RealFunction("acsc", sympy.acsc),
    RealFunction("acot", sympy.acot),
    RealFunction("asech", sympy.asech),
    RealFunction("acsch", sympy.acsch),
    RealFunction("acoth", sympy.acoth),
)

_UNKNOWN = RealFunction("", sympy.Function)
_by_function: dict[Any, RealFunction] = {}
_by_name: dict[str, RealFunction] = {}


def add_record(record: RealFunction) -> None:
    """Add `record` to the table, where it is found by its function, its name and its aliases."""
    _by_function[record.function] = record
    for name in (record.name, *record.aliases):
        _by_name[name] = record


def record_of(function: Any) -> RealFunction:
    """Return the record of `function`, a SymPy class or other callable; for a function that is not in the table, a
    record without known properties.
    """
    return _by_function.get(function, _UNKNOWN)


def by_name(name: str) -> RealFunction | None:
    """Return the record of the function with this name or alias; None if the table has none."""
    return _by_name.get(name)


def readable_functions() -> dict[str, RealFunction]:
    """Return the records of the functions that may be used in parsed texts, by name and by alias."""
    return {name: record for name, record in _by_name.items() if record.is_readable}


for _record in _RECORDS:
    add_record(_record)
