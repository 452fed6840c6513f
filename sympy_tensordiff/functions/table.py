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

import math
from collections.abc import Callable
from types import MappingProxyType
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


ELEMENTARY_ERROR, SPECIAL_ERROR = 6, 24
"""The errors of computed values in unit roundoffs: 3 and 12 units in the last place, more than those of all
libraries.
"""


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
    c_name : str
        Its name in C's ``math.h``; "" if that does not have it.
    latex : str
        Its name in LaTeX, or a template with ``%s`` for its operands; "" for its name in roman letters.
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
    error : int
        The greatest error of its computed values, in unit roundoffs; 0 if they are exact.
    parity : int
        1 if ``f(-x) = f(x)``, -1 if ``f(-x) = -f(x)``, else 0.
    values : Interval
        An interval with all of its values.
    reciprocal_of : function class of SymPy or None
        The function of which it is the reciprocal, such as `cos` of `sec`.
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
    error: int = SPECIAL_ERROR
    parity: int = 0
    values: Interval = Interval()
    reciprocal_of: Any = None
    c_name: str = ""
    latex: str = ""

    @property
    def is_exact(self) -> bool:
        """Return whether the function is computed without a rounding error of its own, as ``sign`` is."""
        return self.error == 0

    @property
    def math_name(self) -> str:
        """Its name in Python's `math`; "" if that does not have it."""
        return {"tgamma": "gamma"}.get(self.c_name, self.c_name)

    @property
    def numeric(self) -> Callable[..., float] | None:
        """The function of floating-point numbers in Python's `math`; None if that does not have it."""
        return getattr(math, self.math_name, None) if self.c_name else None

    @property
    def is_positive(self) -> bool:
        """Return whether all values are greater than 0."""
        return self.values.low is not None and (self.values.low > 0 or (self.values.low == 0 and self.values.is_open))


MAX_OPERANDS = 100
"""The greatest number of operands of functions such as ``maximum``."""

_POSITIVE, _NONNEGATIVE, _ONE = Interval(0), Interval(0, is_open=False), Interval(-1, 1, is_open=False)


def _of_one(name: str, function: Any, operation: str = "", *aliases: str, **properties: Any) -> RealFunction:
    """Return the record of a function of one argument that users can call as ``td.<name>``; ``operation`` is its name
    in loop nests, "" if they do not have it.
    """
    return RealFunction(name, function, operation, aliases, is_public=True, **properties)


def _bounded_function(name: str, function: Any, operation: str = "", *aliases: str, **properties: Any) -> RealFunction:
    """Return the record of a public function of one argument whose value is finite for all real numbers. ``operation``
    is its name in loop nests, "" if they do not have it.
    """
    return _of_one(name, function, operation, *aliases, is_defined=True, is_finite=True, **properties)


def _elementary(
    name: str, function: Any, operation: str, *aliases: str, is_bounded: bool = False, **properties: Any
) -> RealFunction:
    """Return the record of a function of ``math.h``, which all libraries compute to a few units in the last place.
    ``operation`` is its name in loop nests; ``is_bounded`` says that its value is finite for all real numbers.
    """
    given: dict[str, Any] = {
        "is_public": True,
        "c_name": name,
        "is_defined": is_bounded,
        "is_finite": is_bounded,
    } | properties
    return RealFunction(name, function, operation, aliases, error=ELEMENTARY_ERROR, **given)


def log_of_sum(a: Any, b: Any) -> Any:
    """Return the scalar ``log(exp(a) + exp(b))``; compiled code computes it without overflow."""
    return sympy.log(sympy.exp(a) + sympy.exp(b))


def _extremum(name: str, function: Any, operation: str, *aliases: str, latex: str) -> RealFunction:
    """Return the record of the maximum or minimum ``function`` of any number of arguments. ``operation`` is its name in
    loop nests, ``aliases`` are its names in texts, and ``latex`` is its LaTeX command.
    """
    return _bounded_function(name, function, operation, *aliases, error=0, operands=(1, MAX_OPERANDS), latex=latex)


_RECORDS = (
    _elementary("exp", sympy.exp, "exp", latex=r"\exp", is_defined=True, values=_POSITIVE),
    _elementary("log", sympy.log, "log", "ln"),
    _elementary("sin", sympy.sin, "sin", parity=-1, values=_ONE, is_bounded=True),
    _elementary("cos", sympy.cos, "cos", parity=1, values=_ONE, is_bounded=True),
    _elementary("tan", sympy.tan, "tan", parity=-1),
    _elementary("asin", sympy.asin, "arcsin", "arcsin", parity=-1),
    _elementary("acos", sympy.acos, "arccos", "arccos"),
    _elementary(
        "atan", sympy.atan, "arctan", "arctan", parity=-1, values=Interval(-sympy.pi / 2, sympy.pi / 2), is_bounded=True
    ),
    _elementary("sinh", sympy.sinh, "sinh", is_defined=True, parity=-1),
    _elementary("cosh", sympy.cosh, "cosh", is_defined=True, parity=1, values=Interval(1, None, is_open=False)),
    _elementary("tanh", sympy.tanh, "tanh", parity=-1, values=Interval(-1, 1), is_bounded=True),
    _elementary("asinh", sympy.asinh, "arcsinh", "arcsinh", parity=-1, is_bounded=True),
    _elementary("acosh", sympy.acosh, "arccosh", "arccosh"),
    _elementary("atanh", sympy.atanh, "arctanh", "arctanh", parity=-1),
    _of_one("sqrt", sympy.sqrt, "sqrt", c_name="sqrt", latex=r"\sqrt{%s}"),
    _bounded_function(
        *("abs", sympy.Abs, "abs", "Abs"),
        error=0,
        parity=1,
        values=_NONNEGATIVE,
        c_name="fabs",
        latex=r"\left|{%s}\right|",
    ),
    _bounded_function("sign", sympy.sign, "sign", error=0, parity=-1, values=_ONE),
    _bounded_function("floor", sympy.floor, "floor", error=0, c_name="floor", latex=r"\left\lfloor{%s}\right\rfloor"),
    _bounded_function(
        "ceiling", sympy.ceiling, "ceil", "ceil", error=0, c_name="ceil", latex=r"\left\lceil{%s}\right\rceil"
    ),
    _elementary("erf", sympy.erf, "erf", parity=-1, values=Interval(-1, 1), is_bounded=True),
    _bounded_function("relu", lambda x: sympy.Max(x, 0)),
    _of_one("square", lambda x: x**2),
    _elementary("expm1", cfunctions.expm1, "expm1", latex=r"\operatorname{expm1}", is_defined=True),
    _elementary("log1p", cfunctions.log1p, "log1p", latex=r"\operatorname{log1p}"),
    _extremum("maximum", sympy.Max, "max", "max", "Max", latex=r"\max"),
    _extremum("minimum", sympy.Min, "min", "min", "Min", latex=r"\min"),
    _elementary("hypot", cfunctions.hypot, "hypot", operands=(2, 2), is_bounded=True),
    RealFunction("logaddexp", log_of_sum, operands=(2, 2), is_public=True, is_defined=True, is_finite=True),
    RealFunction("clip", lambda x, low, high: sympy.Min(sympy.Max(x, low), high), operands=(3, 3), is_public=True),
    _elementary("atan2", sympy.atan2, "arctan2", "arctan2", operands=(2, 2), is_public=False, is_bounded=True),
    RealFunction("erf2", sympy.erf2, operands=(2, 2), is_readable=False, is_defined=True, is_finite=True),
    RealFunction("fma", cfunctions.fma, operands=(3, 3), is_readable=False, is_defined=True, is_finite=True),
    RealFunction(
        "erfc",
        sympy.erfc,
        "erfc",
        c_name="erfc",
        is_public=True,
        is_defined=True,
        is_finite=True,
        values=Interval(0, 2),
    ),
    RealFunction("gamma", sympy.gamma, "gamma", c_name="tgamma", is_readable=False),
    RealFunction("loggamma", sympy.loggamma, "lgamma", c_name="lgamma", is_readable=False),
    RealFunction("factorial", sympy.factorial, is_readable=False),
    RealFunction("exp2", cfunctions.exp2, is_readable=False, error=ELEMENTARY_ERROR, is_defined=True, values=_POSITIVE),
    _elementary("log2", cfunctions.log2, "log2", is_public=False),
    _elementary("log10", cfunctions.log10, "log10", is_public=False),
    _elementary("cbrt", cfunctions.Cbrt, "cbrt", "Cbrt", is_public=False, is_bounded=True),
    RealFunction("Heaviside", sympy.Heaviside, "heaviside", (), (1, 2), is_defined=True, is_finite=True, error=0),
    RealFunction("frac", sympy.frac, is_defined=True, is_finite=True, values=Interval(0, 1, is_open=False)),
    RealFunction(
        "LeviCivita", sympy.LeviCivita, operands=(1, MAX_OPERANDS), is_readable=False, is_defined=True, is_finite=True
    ),
    RealFunction("sinc", sympy.sinc, is_defined=True, is_finite=True, parity=1),
    RealFunction("sec", sympy.sec, reciprocal_of=sympy.cos, parity=1),
    RealFunction("csc", sympy.csc, reciprocal_of=sympy.sin, parity=-1),
    RealFunction("cot", sympy.cot, reciprocal_of=sympy.tan, parity=-1),
    RealFunction(
        "sech", sympy.sech, reciprocal_of=sympy.cosh, is_defined=True, is_finite=True, parity=1, values=_POSITIVE
    ),
    RealFunction("csch", sympy.csch, reciprocal_of=sympy.sinh, parity=-1),
    RealFunction("coth", sympy.coth, reciprocal_of=sympy.tanh, parity=-1),
    RealFunction("Sqrt", cfunctions.Sqrt, is_readable=False, error=ELEMENTARY_ERROR),
    RealFunction("asec", sympy.asec),
    RealFunction("acsc", sympy.acsc),
    RealFunction("acot", sympy.acot),
    RealFunction("asech", sympy.asech),
    RealFunction("acsch", sympy.acsch),
    RealFunction("acoth", sympy.acoth),
)

RELATIONS: MappingProxyType[str, Any] = MappingProxyType(
    {
        **{"greater": sympy.Gt, "greater_equal": sympy.Ge, "less": sympy.Lt, "less_equal": sympy.Le},
        **{"equal": sympy.Eq, "not_equal": sympy.Ne},
    }
)
"""The comparisons of two numbers by their names in the package and in texts."""
CONNECTIVES: MappingProxyType[str, Any] = MappingProxyType(
    {"logical_and": sympy.And, "logical_or": sympy.Or, "logical_not": sympy.Not}
)
"""The operations on conditions by their names in the package and in texts; `logical_not` takes one, the others two."""

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


def operations() -> dict[str, RealFunction]:
    """Return the records of the functions that loop nests have, by their names there."""
    return {record.operation: record for record in _by_function.values() if record.operation}


def reciprocals() -> dict[Any, Any]:
    """Return a dictionary from each function that is the reciprocal of another one, such as `sec`, to that one."""
    return {function: record.reciprocal_of for function, record in _by_function.items() if record.reciprocal_of}


def readable_functions() -> dict[str, RealFunction]:
    """Return the records of the functions that may be used in parsed texts, by name and by alias."""
    return {name: record for name, record in _by_name.items() if record.is_readable}


for _record in _RECORDS:
    add_record(_record)
