"""SymPy's functions in the terms of the loop nests."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from fractions import Fraction
from math import lcm, nan, pi, prod, sqrt
from typing import Any, NamedTuple

import numpy as np
import sympy
from sympy.codegen import cfunctions

from sympy_tensordiff.codegen.ir.scalars import External, Number, Operation, Scalar
from sympy_tensordiff.graph.functions import Partial, log1mexp, log_ndtr, sigmoid, softplus, xlogy
from sympy_tensordiff.graph.nodes import Node
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.products import times

NAMES: dict[Any, str] = {
    sympy.exp: "exp",
    sympy.log: "log",
    sympy.sin: "sin",
    sympy.cos: "cos",
    sympy.tan: "tan",
    sympy.asin: "arcsin",
    sympy.acos: "arccos",
    sympy.atan: "arctan",
    sympy.atan2: "arctan2",
    sympy.sinh: "sinh",
    sympy.cosh: "cosh",
    sympy.tanh: "tanh",
    sympy.asinh: "arcsinh",
    sympy.acosh: "arccosh",
    sympy.atanh: "arctanh",
    sympy.Abs: "abs",
    sympy.sign: "sign",
    sympy.floor: "floor",
    sympy.ceiling: "ceil",
    sympy.Heaviside: "heaviside",
    sympy.erf: "erf",
    sympy.erfc: "erfc",
    sympy.gamma: "gamma",
    sympy.loggamma: "lgamma",
    cfunctions.expm1: "expm1",
    cfunctions.log1p: "log1p",
    cfunctions.log2: "log2",
    cfunctions.log10: "log10",
    cfunctions.Cbrt: "cbrt",
    cfunctions.hypot: "hypot",
    sigmoid: "sigmoid",
    softplus: "softplus",
    sympy.Max: "max",
    sympy.Min: "min",
}


def _inverse(name: str) -> Callable[..., Scalar]:
    """Return the operation 1 / f(x) for a function by its `name`."""
    return lambda x: Operation("pow", (Operation(name, (x,)), Number(-1)))


def _of_inverse(name: str) -> Callable[..., Scalar]:
    """Return the operation f(1 / x) for a function by its `name`."""
    return lambda x: Operation(name, (Operation("pow", (x, Number(-1))),))


def _sinc(x: Scalar) -> Scalar:
    quotient = Operation("mul", (Operation("sin", (x,)), Operation("pow", (x, Number(-1)))))
    return Operation("select", (Operation("eq", (x, Number(0))), Number(1), quotient))


def _negative(x: Scalar) -> Scalar:
    return Operation("neg", (x,))


def _log1mexp(x: Scalar) -> Scalar:
    """``log(1 - exp(-abs(x)))`` in two branches, which meet near ``log(2)`` (Mächler 2012)."""
    size = Operation("abs", (x,))
    near = Operation("log", (_negative(Operation("expm1", (_negative(size),))),))
    far = Operation("log1p", (_negative(Operation("exp", (_negative(size),))),))
    return Operation("select", (Operation("lt", (size, Number(Fraction(9, 13)))), near, far))


def _xlogy(x: Scalar, y: Scalar) -> Scalar:
    product = Operation("mul", (x, Operation("log", (y,))))
    return Operation("select", (Operation("eq", (x, Number(0))), Number(0), product))


_TAIL_TERMS = 14
"""The terms of the asymptotic series of `log_ndtr`: at -10, the next one is 2e-14, and the value below -50."""


def _log_ndtr(x: Scalar) -> Scalar:
    """Return the logarithm of the normal distribution: by ``erfc``, and below -10 by the asymptotic series of its tail.

    Source: Abramowitz & Stegun 1964, 26.2.12.
    """
    inverse_square = Operation("pow", (x, Number(-2)))
    series: Scalar = Number(0)
    for k in range(_TAIL_TERMS, 0, -1):
        ratio = Operation("mul", (Number(1 - 2 * k), inverse_square))
        series = Operation("mul", (ratio, Operation("add", (Number(1), series))))
    square = Operation("mul", (Number(Fraction(-1, 2)), Operation("pow", (x, Number(2)))))
    scaled = Operation("mul", (_negative(x), Number(sqrt(2 * pi))))
    tail = Operation("add", (square, _negative(Operation("log", (scaled,))), Operation("log1p", (series,))))
    below = Operation("erfc", (Operation("mul", (x, Number(-sqrt(0.5)))),))
    above = Operation("erfc", (Operation("mul", (x, Number(sqrt(0.5)))),))
    half = Number(Fraction(1, 2))
    left = Operation("log", (Operation("mul", (half, below)),))
    right = Operation("log1p", (_negative(Operation("mul", (half, above))),))
    inner = Operation("select", (Operation("lt", (x, Number(0))), left, right))
    return Operation("select", (Operation("lt", (x, Number(-10))), tail, inner))


FORMULAS: dict[Any, Callable[..., Scalar]] = {
    sympy.sec: _inverse("cos"),
    sympy.csc: _inverse("sin"),
    sympy.cot: _inverse("tan"),
    sympy.sech: _inverse("cosh"),
    sympy.csch: _inverse("sinh"),
    sympy.coth: _inverse("tanh"),
    sympy.asec: _of_inverse("arccos"),
    sympy.acsc: _of_inverse("arcsin"),
    sympy.acot: _of_inverse("arctan"),
    sympy.asech: _of_inverse("arccosh"),
    sympy.acsch: _of_inverse("arcsinh"),
    sympy.acoth: _of_inverse("arctanh"),
    sympy.sinc: _sinc,
    log1mexp: _log1mexp,
    log_ndtr: _log_ndtr,
    xlogy: _xlogy,
    sympy.frac: lambda x: Operation("add", (x, Operation("neg", (Operation("floor", (x,)),)))),
    sympy.factorial: lambda x: Operation("gamma", (Operation("add", (x, Number(1))),)),
    sympy.erf2: lambda x, y: Operation("add", (Operation("erf", (y,)), Operation("neg", (Operation("erf", (x,)),)))),
    cfunctions.exp2: lambda x: Operation("pow", (Number(2), x)),
    cfunctions.Sqrt: lambda x: Operation("pow", (x, Number(Fraction(1, 2)))),
    cfunctions.fma: lambda x, y, z: Operation("add", (Operation("mul", (x, y)), z)),
}


_LARGEST_EXPONENT = 16
"""Up to here, products are as exact as a general power for all that is asked of kernels."""


def has_root(exponent: Node) -> bool:
    """Whether `exponent` is half of an odd number, of moderate size greater than 1."""
    value = exponent.data if exponent.op == "const" else 0
    return isinstance(value, Fraction) and value.denominator == 2 and 1 < abs(value) < _LARGEST_EXPONENT


def root(base: Scalar, exponent: Fraction) -> Scalar:
    """Return ``base**exponent`` for one like 3/2, by a root and products: a tenth of the time of a general power."""
    whole = Operation("pow", (base, Number(int(abs(exponent)))))
    product = Operation("mul", (whole, Operation("pow", (base, Number(Fraction(1, 2))))))
    return product if exponent > 0 else Operation("pow", (product, Number(-1)))


def rational_form(node: Node) -> tuple[Affine, int] | None:
    """Return numerator and denominator of a rational combination of indices; None for any other node."""
    if node.op == "index":
        return node.data, 1
    if node.op == "const" and isinstance(node.data, int | Fraction):
        return Affine.of(node.data.numerator), node.data.denominator
    if node.op not in ("add", "mul"):
        return None
    found = [form for arg in node.args if (form := rational_form(arg)) is not None]
    if len(found) < len(node.args):
        return None
    if node.op == "mul":
        return times(*(form for form, _ in found)), prod(below for _, below in found)
    common = lcm(*(below for _, below in found))
    return sum((form * (common // below) for form, below in found), Affine()), common


def is_external(node: Node) -> bool:
    """Whether no backend knows the function of the call `node`."""
    return node.data not in NAMES and node.data not in FORMULAS and not is_spherical_bessel(node)


def is_spherical_bessel(node: Node) -> bool:
    """Whether `node` is a spherical Bessel function whose order is a natural number."""
    if node.data is not sympy.jn or node.args[0].op != "const":
        return False
    order = node.args[0].data
    return isinstance(order, int | Fraction) and order.denominator == 1 and order >= 0


def external(node: Node) -> External:
    """Return the function of a call that no backend knows."""
    derivative = node.data if isinstance(node.data, Partial) else Partial(node.data, (0,) * len(node.args))
    is_special = not any(derivative.orders) and (derivative.function, len(derivative.orders)) in SPECIAL
    return External(str(derivative.function.__name__), derivative.orders, is_special)


def operation(node: Node, args: Sequence[Scalar]) -> Scalar:
    """Return the operation of an arithmetic node, a condition or a function; an unknown function is the user's."""
    if node.op == "call":
        name = NAMES.get(node.data)
        if name is not None:
            return Operation(name, tuple(args))
        if is_spherical_bessel(node):
            return Operation("spherical_bessel", tuple(args))
        if node.data in FORMULAS:
            return FORMULAS[node.data](*args)
        return Operation(external(node), tuple(args))
    if node.op == "pow" and args[0] == Number(0) and isinstance(args[1], Number) and args[1].value < 0:
        return Number(nan)  # of an empty sum, say; Python itself would raise
    return Operation(node.data if node.op == "compare" else node.op, tuple(args))


# ---------------------------------------------------------------------------- special functions by SciPy
# SymPy's special functions by SciPy: its array functions for NumPy, for Numba what it exports to Cython.
#
# A function is made of SciPy's: of one with the same arguments, or by a formula that NumPy and Numba both understand.
# SciPy's functions for Cython are reached by their addresses, as Numba documents it; some are not exported.


Function = Callable[..., Any]


class Special(NamedTuple):
    """How a function is made of SciPy's ``names``, by NumPy and by Numba; None where Numba cannot."""

    names: tuple[str, ...]
    formula: Callable[..., Function]
    compiled: Callable[..., Function] | None


def _of(*names: str, formula: Callable[..., Function] | None = None) -> Special:
    made = formula or (lambda function: function)
    return Special(names, made, made)


def _for_arrays(name: str, formula: Callable[..., Function]) -> Special:
    return Special((name,), formula, None)


def _expint(expn: Function) -> Function:
    """Return the exponential integral for arrays; SciPy has no values for other orders than 0, 1, 2, …."""
    return lambda n, x: np.where((n >= 0) & (np.floor(n) == n), expn(np.floor(n).astype(int), x), np.nan)


def _expint_compiled(expn: Function) -> Function:
    return lambda n, x: expn(n, x) if n >= 0 and np.floor(n) == n else np.nan


def _polygamma_compiled(psi: Function) -> Function:
    """Return polygamma by the sum of n! (-1)**(n + 1)/(x + k)**(n + 1), behind its first terms by Euler and
    Maclaurin.
    """
    ratios = tuple(float(sympy.bernoulli(k) / sympy.factorial(k)) for k in range(2, 22, 2))

    def polygamma(n: float, x: float) -> Any:
        if n == 0:
            return psi(x)
        if n < 0 or np.floor(n) != n:
            return np.nan
        if x <= 0 and np.floor(x) == x:
            return np.inf if n % 2 else -np.inf
        total, factorial = 0.0, 1.0
        for k in range(1, int(n) + 1):
            factorial *= k
        while x < 10 + n:
            total += x ** (-n - 1)
            x += 1.0
        total += x ** (-n) / n + x ** (-n - 1) / 2
        term = (n + 1) * x ** (-n - 2)
        for position in range(len(ratios)):
            total += ratios[position] * term
            term *= (n + 2 * position + 2) * (n + 2 * position + 3) / x**2
        return (factorial if n % 2 else -factorial) * total

    return polygamma


def _principal(lambertw: Function) -> Function:
    def of_reals(x: Any) -> Any:
        value = lambertw(x)
        return np.where(value.imag == 0, value.real, np.nan)

    return of_reals


def _whole_order(function: Function) -> Function:
    return lambda n, x: function(n.astype(int), x)


def _difference(betainc: Function, beta: Function) -> Function:
    return lambda a, b, low, high: (betainc(a, b, high) - betainc(a, b, low)) * beta(a, b)


SPECIAL: dict[tuple[Any, int], Special] = {
    (sympy.beta, 2): _of("beta"),
    (sympy.binomial, 2): _of("binom"),
    (sympy.besselj, 2): _of("jv"),
    (sympy.bessely, 2): _of("yv"),
    (sympy.besseli, 2): _of("iv"),
    (sympy.besselk, 2): _of("kv"),
    (sympy.jn, 2): _for_arrays("spherical_jn", _whole_order),
    (sympy.yn, 2): _for_arrays("spherical_yn", _whole_order),
    (sympy.airyai, 1): _of("airy 0"),
    (sympy.airyaiprime, 1): _of("airy 1"),
    (sympy.airybi, 1): _of("airy 2"),
    (sympy.airybiprime, 1): _of("airy 3"),
    (sympy.erfi, 1): _of("erfi"),
    (sympy.erfinv, 1): _of("erfinv"),
    (sympy.erfcinv, 1): _of("erfcinv"),
    (sympy.fresnels, 1): _of("fresnel 0"),
    (sympy.fresnelc, 1): _of("fresnel 1"),
    (sympy.Ei, 1): _of("expi"),
    (sympy.li, 1): _of("expi", formula=lambda expi: lambda x: expi(np.log(x))),
    (sympy.expint, 2): Special(("expn",), _expint, _expint_compiled),
    (sympy.Si, 1): _of("sici 0"),
    (sympy.Ci, 1): _of("sici 1"),
    (sympy.Shi, 1): _of("shichi 0"),
    (sympy.Chi, 1): _of("shichi 1"),
    (sympy.polygamma, 2): Special(("polygamma",), lambda polygamma: polygamma, _polygamma_compiled),
    (sympy.lowergamma, 2): _of("gammainc", "gamma", formula=lambda part, all_: lambda a, x: part(a, x) * all_(a)),
    (sympy.uppergamma, 2): _of("gammaincc", "gamma", formula=lambda part, all_: lambda a, x: part(a, x) * all_(a)),
    (sympy.betainc, 4): _of("betainc", "beta", formula=_difference),
    (sympy.elliptic_k, 1): _of("ellipk"),
    (sympy.elliptic_e, 1): _of("ellipe"),
    (sympy.elliptic_e, 2): _of("ellipeinc"),
    (sympy.elliptic_f, 2): _of("ellipkinc"),
    (sympy.zeta, 1): _for_arrays("zeta", lambda zeta: zeta),
    (sympy.zeta, 2): _for_arrays("zeta", lambda zeta: zeta),
    (sympy.LambertW, 1): _for_arrays("lambertw", _principal),
}
"""By the function and the number of its arguments. A number behind a name: which one of several results."""

_BY_NAME = {(function.__name__, count): special for (function, count), special in SPECIAL.items()}


def implementation(name: str, count: int, backend: str) -> Function | None:
    """Return SciPy's function of arrays, or for compiled code, by SymPy's name; None where a backend has none.

    >>> float(implementation("besselj", 2, "numpy")(0, 0.0))
    1.0
    """
    special = _BY_NAME[name, count]
    if backend == "numpy":
        return special.formula(*map(_array_function, special.names))
    if backend == "cuda" or special.compiled is None:
        return None
    names = ("psi",) if name == "polygamma" else special.names
    return special.compiled(*map(_compiled_function, names))


def _array_function(name: str) -> Function:
    from scipy import special

    name, _, part = name.partition(" ")
    function: Function = getattr(special, name)
    return (lambda x: function(x)[int(part)]) if part else function


def _compiled_function(name: str) -> Function:
    """Return a function of doubles that SciPy exports to Cython, compiled by Numba."""
    import numba
    from numba.extending import get_cython_function_address
    from scipy.special import cython_special

    name, _, part = name.partition(" ")
    signatures = {key: repr(capsule).split('"')[1] for key, capsule in cython_special.__pyx_capi__.items()}
    found = [key for key in (name, f"__pyx_fuse_0{name}", f"__pyx_fuse_1{name}") if key in signatures]
    key = next(key for key in found if {"complex", "float"}.isdisjoint(signatures[key].replace("_", " ").split()))
    address = get_cython_function_address("scipy.special.cython_special", key)
    count = signatures[key].count("double") - (not part)
    if part:
        results = count - 1
        with_results = ctypes.CFUNCTYPE(None, ctypes.c_double, *[ctypes.c_void_p] * results)(address)
        return numba.njit(_PARTS[results](with_results, int(part)))  # type: ignore[no-any-return]
    # The last argument says whether Cython looks for a method of Python instead, which is for classes.
    plain = ctypes.CFUNCTYPE(ctypes.c_double, *[ctypes.c_double] * count, ctypes.c_int)(address)
    return numba.njit(_PLAIN[count](plain))  # type: ignore[no-any-return]


_PLAIN: dict[int, Callable[[Any], Function]] = {
    1: lambda function: lambda x: function(x, 0),
    2: lambda function: lambda x, y: function(x, y, 0),
    3: lambda function: lambda x, y, z: function(x, y, z, 0),
}


def _two(function: Any, part: int) -> Function:
    def of_two(x: float) -> Any:
        results = np.empty(2)
        function(x, results.ctypes, results[1:].ctypes)
        return results[part]

    return of_two


def _four(function: Any, part: int) -> Function:
    def of_four(x: float) -> Any:
        results = np.empty(4)
        function(x, results.ctypes, results[1:].ctypes, results[2:].ctypes, results[3:].ctypes)
        return results[part]

    return of_four


_PARTS = {2: _two, 4: _four}
