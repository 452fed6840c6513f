"""Special functions implemented by SciPy: its array functions for NumPy, its exports to Cython for Numba.

A special function of SymPy's is one of SciPy's, or a formula of such that NumPy and Numba both understand. SciPy's
functions for Cython are reached by their addresses, as Numba documents it; some are not exported.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import sympy

from sympy_tensordiff.graph.functions import scaled_besseli
from sympy_tensordiff.lazy import numpy as np

Function = Callable[..., Any]


class Special(NamedTuple):
    """A special function that SciPy computes: the names of the SciPy functions used, a function that builds its formula
    for arrays from these, and one for compiled code (None if there is none).
    """

    names: tuple[str, ...]
    formula: Callable[..., Function]
    compiled: Callable[..., Function] | None


def _from_scipy(*names: str, formula: Callable[..., Function] | None = None) -> Special:
    """Return the record of a function that `formula` builds from SciPy's functions `names`, both for arrays and for
    compiled code.
    """
    made = formula or (lambda function: function)
    return Special(names, made, made)


def _for_arrays(name: str, formula: Callable[..., Function]) -> Special:
    """Return the record of a special function for arrays only, not for compiled code: ``formula(f)`` makes it from
    ``f``, the SciPy function `name`.
    """
    return Special((name,), formula, None)


def _log_integral(expi: Function) -> Function:
    """Return the logarithmic integral as a function, ``li(x) = expi(log(x))``, from the exponential integral `expi`."""
    log = np.log
    return lambda x: expi(log(x))


def _expint(expn: Function) -> Function:
    """Return the function ``(n, x)`` of arrays that computes the exponential integral E_n(x) by SciPy's `expn`; nan
    unless n is 0, 1, 2, …
    """
    return lambda n, x: np.where((n >= 0) & (np.floor(n) == n), expn(np.floor(n).astype(int), x), np.nan)


def _expint_compiled(expn: Function) -> Function:
    """Return the exponential integral E_n(x) for compiled code, for n = 0, 1, 2, …, and nan for other n. ``expn``
    computes it for the valid n.
    """
    return lambda n, x: expn(n, x) if n >= 0 and n % 1 == 0 else math.nan


def _polygamma_compiled(psi: Function) -> Function:
    """Return polygamma for compiled code: ``psi`` for order 0, otherwise the sum of ``n!*(-1)**(n + 1)/(x + k)**(n +
    1)`` over k, with the Euler-Maclaurin formula for large k.

    At negative x, a part of the sum over all integers k that does not depend on how far x is from 0::

        zeta(s, x) = zeta(s, f) + (-1)**s*(zeta(s, 1 - f) - zeta(s, 1 - x))    with f = x - floor(x)
    """
    ratios = tuple(float(sympy.bernoulli(k) / sympy.factorial(k)) for k in range(2, 22, 2))

    def polygamma(n: float, x: float) -> Any:
        """Return ``polygamma(n, x)``; nan for other orders than 0, 1, 2, …."""
        if n == 0:
            return psi(x)
        if n < 0 or n % 1 != 0:
            return math.nan
        if x <= 0 and (x % 1 == 0 or x == -math.inf):
            return math.inf if n % 2 else -math.inf
        total, factorial = 0.0, 1.0
        for k in range(1, int(n) + 1):
            factorial *= k
        mirrored = 1.0 if n % 2 else -1.0
        for part in range(1 if x > 0 else 3):
            sign = 1.0 if part == 0 else mirrored if part == 1 else -mirrored
            at = x if x > 0 else x - math.floor(x) if part == 0 else math.ceil(x) - x if part == 1 else 1.0 - x
            value = 0.0
            while at < 10 + n:
                value += at ** (-n - 1)
                at += 1.0
            value += at ** (-n) / n + at ** (-n - 1) / 2
            term = (n + 1) * at ** (-n - 2)
            for position in range(len(ratios)):
                value += ratios[position] * term
                term *= (n + 2 * position + 2) * (n + 2 * position + 3) / at**2
            total += sign * value
        return (factorial if n % 2 else -factorial) * total

    return polygamma


def _polygamma(polygamma: Function) -> Function:
    """Return polygamma for arrays, reflected at negative arguments, since the time of SciPy's function grows with
    ``abs(x)`` there.
    """

    def of_arrays(n: Any, x: Any) -> Any:
        """Return ``polygamma(n, x)``. Its values at negative x are computed from three values at positive numbers
        (reflection).
        """
        is_mirrored = (n > 0) & (x < 0) & (x != np.floor(x)) & np.isfinite(x)
        if not np.any(is_mirrored):
            return polygamma(n, x)
        below, above = x - np.floor(x), np.ceil(x) - x
        first, second, third = (polygamma(n, np.where(is_mirrored, at, 0.5)) for at in (below, above, 1 - x))
        sign = np.where(n % 2 == 1, 1, -1)
        return np.where(is_mirrored, first + sign * second - sign * third, polygamma(n, np.where(is_mirrored, 0.5, x)))

    return of_arrays


def _principal(lambertw: Function) -> Function:
    """Return a real-valued principal branch of Lambert's W, nan where it is complex, made from SciPy's complex one."""

    def of_reals(x: Any) -> Any:
        """Return the principal branch of Lambert's W at `x`; nan where it is complex."""
        value = lambertw(x)
        return np.where(value.imag == 0, value.real, np.nan)

    return of_reals


def _whole_order(function: Function) -> Function:
    """Return `function` wrapped so that its first argument, an order, is converted to an integer."""
    return lambda n, x: function(n.astype(int), x)


def _difference(betainc: Function, beta: Function) -> Function:
    """Return the function for the incomplete beta integral between two limits: a difference of SciPy's regularised
    integrals (``betainc``) times the beta function.
    """
    return lambda a, b, low, high: (betainc(a, b, high) - betainc(a, b, low)) * beta(a, b)


SPECIAL: dict[tuple[Any, int], Special] = {
    (sympy.beta, 2): _from_scipy("beta"),
    (sympy.binomial, 2): _from_scipy("binom"),
    (sympy.besselj, 2): _from_scipy("jv"),
    (sympy.bessely, 2): _from_scipy("yv"),
    (sympy.besseli, 2): _from_scipy("iv"),
    (scaled_besseli, 2): _from_scipy("ive"),
    (sympy.besselk, 2): _from_scipy("kv"),
    (sympy.jn, 2): _for_arrays("spherical_jn", _whole_order),
    (sympy.yn, 2): _for_arrays("spherical_yn", _whole_order),
    (sympy.airyai, 1): _from_scipy("airy 0"),
    (sympy.airyaiprime, 1): _from_scipy("airy 1"),
    (sympy.airybi, 1): _from_scipy("airy 2"),
    (sympy.airybiprime, 1): _from_scipy("airy 3"),
    (sympy.erfi, 1): _from_scipy("erfi"),
    (sympy.erfinv, 1): _from_scipy("erfinv"),
    (sympy.erfcinv, 1): _from_scipy("erfcinv"),
    (sympy.fresnels, 1): _from_scipy("fresnel 0"),
    (sympy.fresnelc, 1): _from_scipy("fresnel 1"),
    (sympy.Ei, 1): _from_scipy("expi"),
    (sympy.li, 1): _from_scipy("expi", formula=_log_integral),
    (sympy.expint, 2): Special(("expn",), _expint, _expint_compiled),
    (sympy.Si, 1): _from_scipy("sici 0"),
    (sympy.Ci, 1): _from_scipy("sici 1"),
    (sympy.Shi, 1): _from_scipy("shichi 0"),
    (sympy.Chi, 1): _from_scipy("shichi 1"),
    (sympy.polygamma, 2): Special(("polygamma",), _polygamma, _polygamma_compiled),
    (sympy.lowergamma, 2): _from_scipy(
        "gammainc", "gamma", formula=lambda part, all_: lambda a, x: part(a, x) * all_(a)
    ),
    (sympy.uppergamma, 2): _from_scipy(
        "gammaincc", "gamma", formula=lambda part, all_: lambda a, x: part(a, x) * all_(a)
    ),
    (sympy.betainc, 4): _from_scipy("betainc", "beta", formula=_difference),
    (sympy.elliptic_k, 1): _from_scipy("ellipk"),
    (sympy.elliptic_e, 1): _from_scipy("ellipe"),
    (sympy.elliptic_e, 2): _from_scipy("ellipeinc"),
    (sympy.elliptic_f, 2): _from_scipy("ellipkinc"),
    (sympy.zeta, 1): _for_arrays("zeta", lambda zeta: zeta),
    (sympy.zeta, 2): _for_arrays("zeta", lambda zeta: zeta),
    (sympy.LambertW, 1): _for_arrays("lambertw", _principal),
}
"""By the function and the number of its arguments. A number behind a name: which one of several results."""

_BY_NAME = {(function.__name__, count): special for (function, count), special in SPECIAL.items()}


def implementation(name: str, count: int, backend: str) -> Function | None:
    """Return SciPy's implementation of the function that SymPy calls `name`, with `count` arguments; None if there is
    none for this `backend`.

    >>> float(implementation("besselj", 2, "numpy")(0, 0.0))
    1.0
    """
    special = _BY_NAME[name, count]
    if backend == "numpy":
        return special.formula(*map(_array_function, special.names))
    if backend in LIBRARIES:
        return _of_library(special, name, count, backend)
    if backend == "cuda" or special.compiled is None:
        return None  # the compiled functions take single numbers
    names = ("psi",) if name == "polygamma" else special.names
    return special.compiled(*map(_compiled_function, names))


LIBRARIES = {"cupy": "cupyx.scipy.special", "jax": "jax.scipy.special", "torch": "torch.special"}
"""The modules of array libraries that have functions of ``scipy.special`` under the same names."""

_WITHOUT_NUMPY = frozenset({"beta", "erfi", "erfinv", "erfcinv", "fresnels", "fresnelc", "Ei", "Si", "Ci"})
_WITHOUT_NUMPY |= {"lowergamma", "uppergamma", "betainc", "elliptic_k", "elliptic_e", "elliptic_f"}
"""The functions whose formulas call nothing of NumPy."""


def _of_library(special: Special, name: str, count: int, backend: str) -> Function | None:
    """Return the function `name` of `count` arguments by the array library of `backend`; None if the library lacks one
    of SciPy's functions of which it is made.
    """
    module = import_module(LIBRARIES[backend])
    if not all(hasattr(module, one.partition(" ")[0]) for one in special.names):
        return None
    functions = [_array_function(one, module) for one in special.names]
    if name in _WITHOUT_NUMPY:
        return special.formula(*functions)
    (function,) = functions
    if name == "zeta":
        return function if count == 2 else lambda x: function(x, 1)
    if name != "polygamma":
        return None
    return _polygamma_of_torch(module) if backend == "torch" else lambda n, x: function(n.astype(int), x)


def _polygamma_of_torch(module: Any) -> Function:
    """Return polygamma by functions of ``torch.special``, from zeta for orders above 0: the trigamma function of
    PyTorch 2.13 has nine digits in double precision.
    """

    def polygamma(n: Any, x: Any) -> Any:
        """Return ``polygamma(n, x)``."""
        order = int(n)
        return module.digamma(x) if not order else (-1) ** (order + 1) * math.factorial(order) * module.zeta(n + 1, x)

    return polygamma


def _array_function(name: str, module: Any = None) -> Function:
    """Return the function `name` of ``module``, which is ``scipy.special`` if it is not given. For a `name` with a
    number, such as "sici 1", return the function that computes this one of its several results.
    """
    name, _, part = name.partition(" ")
    function: Function = getattr(module or import_module("scipy.special"), name)
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


def _result_of_two(function: Any, part: int) -> Function:
    """Return a function of x that calls the C function `function`, which writes two results, and returns the one at
    position `part`, 0 or 1.
    """
    empty = np.empty

    def one_of_two(x: float) -> Any:
        """Return one of the two results that the C function ``function`` computes at `x`: the first one if ``part`` is
        0, the second if it is 1.
        """
        results = empty(2)
        function(x, results.ctypes, results[1:].ctypes)
        return results[part]

    return one_of_two


def _result_of_four(function: Any, part: int) -> Function:
    """Return a function of x that calls `function`, which writes four results to memory, and returns result number
    `part`.
    """
    empty = np.empty

    def of_four(x: float) -> Any:
        """Return the result number ``part`` of the C function ``function`` at `x`, which writes four
        results to memory.
        """
        results = empty(4)
        function(x, results.ctypes, results[1:].ctypes, results[2:].ctypes, results[3:].ctypes)
        return results[part]

    return of_four


_PARTS = {2: _result_of_two, 4: _result_of_four}
