"""The elementary functions of Numba's modules: accurate, as NumPy's at special arguments, and done on vectors."""

from __future__ import annotations

import math
import re

import mpmath
import numpy as np
from every import every
from numba import njit, types
from numba.extending import overload
from shared_elementary import library

from sympy_tensordiff.codegen.emit.elementary import FUNCTIONS, PARAMETERS, elementary_functions
from sympy_tensordiff.codegen.ir.scalars import VECTORISED
from sympy_tensordiff.codegen.schedule.angles import MAX_NEAR_ANGLE

PRECISIONS = {np.float64: "double", np.float32: "float"}
DTYPES = list(PRECISIONS)

OF_ONE = [name for name in FUNCTIONS if len(PARAMETERS[name]) == 1]


def polygamma(order):
    """The polygamma function of order 1 or 2, by reflection at negative numbers."""

    def exact(v):
        if v > 0:
            return mpmath.psi(order, v)
        f = v - mpmath.nint(v)
        if not f:
            return mpmath.inf * (-1) ** (order + 1)
        other = mpmath.cos(mpmath.pi * f) if order == 2 else -1
        parts = mpmath.psi(order, 1 - v), order * other * (mpmath.pi / mpmath.sin(mpmath.pi * f)) ** (order + 1)
        return parts[0] - parts[1] if order == 2 else -parts[0] - parts[1]

    return exact


EXACT = {
    "exp": mpmath.exp,
    "expm1": mpmath.expm1,
    "log": mpmath.log,
    "log1p": mpmath.log1p,
    "tanh": mpmath.tanh,
    "sinh": mpmath.sinh,
    "cosh": mpmath.cosh,
    "erf": mpmath.erf,
    "erfc": lambda v: mpmath.erfc(max(min(v, mpmath.mpf(100)), mpmath.mpf(-100))),
    "sigmoid": lambda v: 1 / (1 + mpmath.exp(-v)),
    "softplus": lambda v: mpmath.log1p(mpmath.exp(v)),
    "logistic_density": lambda v: 1 / (2 + 2 * mpmath.cosh(v)),
    "sin_near": mpmath.sin,
    "cos_near": mpmath.cos,
    "tan_near": mpmath.tan,
    "arctan": mpmath.atan,
    "arcsinh": mpmath.asinh,
    "arccosh": mpmath.acosh,
    "arctanh": mpmath.atanh,
    "trigamma": polygamma(1),
    "tetragamma": polygamma(2),
}
"""The functions at a precision that is far beyond."""

EDGES = {
    "exp": [709.782712893384, 709.8, -708.4, -745.13, -745.14, 88.72283, 88.723, -87.34, -103.97, -103.98],
    "expm1": [709.782712893384, 88.72283, -37.4, -17.3, 1.0397, -1.0397],
    "log": [math.sqrt(0.5), math.sqrt(2), 1.0, 2.2250738585072014e-308, 5e-324, 1.1754944e-38, 1e-45],
    "log1p": [math.sqrt(0.5) - 1, math.sqrt(2) - 1, -1 + 2**-24, -1 + 2**-53, 1.7e308, 3e38],
    "tanh": [0.55, -0.55, 19.06, 9.01],
    "sinh": [1.0, -1.0, 710.4758600739439, 710.476, 89.41598, 89.416, *(n / 8 for n in range(-16, 17))],
    "cosh": [710.4758600739439, -710.4758600739439, 710.476, 89.41598, 89.416, *(n / 8 for n in range(-16, 17))],
    "erf": [*(n / 8 for n in range(-32, 56)), -1.0, 5.92, 6.0, 3.92, 4.0],
    "erfc": [*(n / 8 for n in range(-48, 216)), 0.5, -0.5, 9.19, 10.05, 10.06, 26.54, 27.2],
    "sigmoid": [-745.0, 709.0, -103.0, 36.7, 17.3, -2.7267873, -4.1572938, -6.2376990],
    "softplus": [-745.0, 709.0, -103.0, 36.7, 17.3],
    "logistic_density": [-745.0, 709.0, -103.0, 36.7, 17.3, -1e-9, 0.5, 1.5],
    "sin_near": [*(n * math.pi / 4 for n in (*range(-9, 10), 58, 116, 355, 710, 127322)), 56731.005, MAX_NEAR_ANGLE],
    "cos_near": [*(n * math.pi / 4 for n in (*range(-9, 10), 58, 116, 355, 710, 127323)), 97752.351, -MAX_NEAR_ANGLE],
    "tan_near": [*(n * math.pi / 4 for n in (*range(-9, 10), 58, 116, 355, 127323)), 56731.005, 97752.351, 32189.54372],
    "arctan": [*(n / 8 for n in range(-24, 25)), 0.5008005281, 0.5148668885, 1.7e308, 3e38, 2.0**53, 2.0**24],
    "arcsinh": [*(n / 8 for n in range(-12, 13)), 0.51894411449, 2.0**501, 2.0**53, 2.0**63],
    "arccosh": [1.0, 1.1058983407655505, 1.1274834532760265, 1.5, 2.0, 2.0**501, 2.0**53, 2.0**63, 1.7e308, 3e38],
    "trigamma": [*(n / 8 for n in range(-21, 60)), 4.503111124, 6.0, 1e-160, 1e9, -1e9 - 0.25, 2.0**52],
    "tetragamma": [*(n / 8 for n in range(-21, 60)), 4.503111124, 6.0, 1e-110, 1e9, -1e9 - 0.25, 2.0**52],
    "arctanh": [*(n / 8 for n in range(-7, 8)), 0.6808230599, 1 - 2**-24, 1 - 2**-53, 5e-324, 1e-45],
}
"""Where a formula ends or a result begins to overflow or to vanish."""


DOMAINS = {"log": (0, np.inf), "log1p": (-1, np.inf), "arccosh": (1, np.inf), "arctanh": (-1, 1)}
"""The open intervals in which functions are finite, if not all numbers."""

NAMES = {"overload": overload, "types": types}


def loop_of(name):
    """A compiled loop that applies a function of the text to a vector."""
    module = dict(vars(library()))
    exec(f"def loop(x, y):\n    for i in range(x.shape[0]):\n        y[i] = {name}(x[i])", module)
    return njit(error_model="numpy", fastmath={"contract", "nsz", "reassoc"})(module["loop"])


LOOPS = {name: loop_of(name) for name in OF_ONE}


def values(name, x):
    """The values of a function as its loop computes them."""
    y = np.empty_like(x)
    LOOPS[name](x, y)
    return y


def arguments(name, dtype):
    """Dense, random and hard arguments."""
    random = np.random.default_rng(5)
    low, high = (-746, 710) if dtype is np.float64 else (-104, 89)
    halves = (np.arange(-12, 12) + 0.5) * math.log(2)
    wide = random.choice([-1, 1], 20) * np.exp(random.uniform(low, high, 20) * 0.9)
    x = [random.uniform(low, high, 20), random.uniform(-1.5, 1.5, 50), np.linspace(-0.4, 0.4, 20), halves, wide]
    x.append(np.array(EDGES[name]))
    x = np.concatenate(x)
    x = x[abs(x) <= np.finfo(dtype).max].astype(dtype)
    x = np.concatenate([x, np.nextafter(x, dtype(np.inf)), np.nextafter(x, dtype(-np.inf))])
    if name == "arccosh":
        x = 1 + abs(x)
    if name in ("trigamma", "tetragamma"):
        x = x[(x > 0) | (x != np.round(x))]
    if name == "tetragamma":  # not near its zeros
        x = x[(x > 0) | (abs(x - np.round(x)) < 0.45)]
    low, high = DOMAINS.get(name, (-np.inf, np.inf))
    x = x[(x > low) & (x < high)]
    return x[abs(x) <= MAX_NEAR_ANGLE] if name.endswith("_near") else x


def units_off(found, exact):
    """The difference in units in the last place of the exact value."""
    limits = np.finfo(found.dtype)
    if not np.isfinite(found):
        exact = -exact if found < 0 else exact
        return 0 if exact > mpmath.mpf(2) ** limits.maxexp * (1 - mpmath.mpf(2) ** (-limits.nmant - 2)) else math.inf
    exponent = max(int(mpmath.floor(mpmath.log(abs(exact), 2))), limits.minexp) if exact else limits.minexp
    return abs(mpmath.mpf(float(found)) - exact) / mpmath.mpf(2) ** (exponent - limits.nmant)


@every("dtype", DTYPES)
@every("name", OF_ONE, turns=10)
def test_error_in_units_in_the_last_place(name, dtype):
    """Below 2; for special functions about as much as in other libraries."""
    x = arguments(name, dtype)
    assert len(x) > 100
    with mpmath.workprec(200):
        off = [
            units_off(found, EXACT[name](mpmath.mpf(float(at)))) for at, found in zip(x, values(name, x), strict=True)
        ]
    assert max(off) < {"erfc": 4, "logistic_density": 3, "trigamma": 5, "tetragamma": 8}.get(name, 2), x[np.argmax(off)]


def reference(name, x):
    """The function by those of NumPy."""
    if name == "sigmoid":
        return np.where(x < 0, np.exp(-abs(x)), x.dtype.type(1)) / (1 + np.exp(-abs(x)))
    if name == "logistic_density":
        return np.exp(-abs(x)) / (1 + np.exp(-abs(x))) ** 2
    if name == "softplus":
        return np.maximum(x, 0) + np.log1p(np.exp(-abs(x)))
    if name in ("erf", "erfc"):
        return np.array([getattr(math, name)(at) for at in x], x.dtype)
    if name in ("trigamma", "tetragamma"):
        ends = {np.inf: 0, -np.inf: np.inf if name == "trigamma" else -np.inf}
        exact = [ends[at] if abs(at) == np.inf else EXACT[name](mpmath.mpf(float(at))) for at in x]
        return np.array(exact, float).astype(x.dtype)
    return getattr(np, name.removesuffix("_near"))(x)


@every("dtype", DTYPES)
@every("name", OF_ONE, turns=10)
def test_special_arguments(name, dtype):
    limits = np.finfo(dtype)
    sizes = [0, np.inf, limits.max, limits.tiny, limits.smallest_subnormal, 3 * limits.smallest_subnormal, 1, 800, 1e30]
    if name.endswith("_near"):
        sizes = [size for size in sizes if size <= MAX_NEAR_ANGLE or size == np.inf]
    x = np.array([*sizes, *(-size for size in sizes), np.nan], dtype)
    found = values(name, x)
    with np.errstate(all="ignore"):
        wanted = reference(name, x)
    np.testing.assert_array_max_ulp(found, wanted, 2 if name != "tetragamma" else 4)
    some = ~np.isnan(wanted) & ((wanted != 0) | (name not in ("trigamma", "tetragamma")))
    np.testing.assert_array_equal(np.signbit(found[some]), np.signbit(wanted[some]))


@every("dtype", DTYPES)
@every("name", OF_ONE, turns=10)
def test_functions_are_python_too(name, dtype):
    """Without a compiler, as with NUMBA_DISABLE_JIT."""
    module = {"math": math, "np": np} | NAMES
    exec("\n\n".join(elementary_functions([f"{name}(x)"])), module)
    x = np.array([-0.7, 0.3, 0.9, 1.0, 5.5, 20.0], dtype)
    low, high = DOMAINS.get(name, (-np.inf, np.inf))
    x = x[(x >= low) & (x <= high)]
    found = [module[name](at) for at in x]
    np.testing.assert_array_max_ulp(np.array(found, dtype), values(name, x), 2)


@every("dtype", DTYPES)
@every("name", OF_ONE, turns=10)
def test_loops_work_on_vectors(name, dtype):
    values(name, np.ones(1, dtype))
    signature = next(s for s in LOOPS[name].signatures if s[0].dtype.bitwidth == 8 * np.dtype(dtype).itemsize)
    code = LOOPS[name].inspect_llvm(signature)
    arithmetic = re.findall(rf"= f(?:add|sub|mul) .*<\d+ x {PRECISIONS[dtype]}>", code)
    assert len(arithmetic) >= 10
    assert not re.search(rf"call \S+ @({'|'.join(FUNCTIONS)})f?\(", code)
    # Angles are reduced in double precision.
    if dtype is np.float32 and not name.endswith("_near"):
        assert "double" not in code


def test_schedules_know_the_functions_that_have_a_text() -> None:
    assert {*OF_ONE} <= VECTORISED
    # `is_vectorised` knows a power by its exponent
    assert FUNCTIONS.keys() - VECTORISED == {"general_power"}
    assert VECTORISED.issubset(FUNCTIONS)


# ---------------------------------------------------------------------------- angles of points


def angle_loop():
    """A compiled loop that computes the angles of points, and the function of one point."""
    module = dict(vars(library()))
    exec("def loop(y, x, z):\n    for i in range(x.shape[0]):\n        z[i] = arctan2(y[i], x[i])", module)
    return njit(error_model="numpy", fastmath={"contract", "nsz", "reassoc"})(module["loop"]), module["arctan2"]


ANGLE_LOOP, ANGLE = angle_loop()


def angles(y, x):
    """The angles as the loop computes them."""
    z = np.empty_like(x)
    ANGLE_LOOP(y, x, z)
    return z


def points(dtype):
    """Points of all sizes in all quadrants, also with coordinates near each other, 1 to x, or x to 1."""
    random, largest = np.random.default_rng(8), math.log(np.finfo(dtype).max)
    size = np.exp(random.uniform(-1.05 * largest, 0.99 * largest, 200))
    ratio = np.concatenate([random.uniform(0.4, 2.5, 100), np.exp(random.uniform(-9, 9, 100))])
    x = np.concatenate([size, np.exp(random.uniform(-4, 4, 200)), np.ones(50)]) * random.choice([-1, 1], 450)
    y = np.concatenate([x[:200] * ratio, np.ones(200), np.exp(random.uniform(-4, 4, 50))]) * random.choice([-1, 1], 450)
    remaining = (abs(x) < np.finfo(dtype).max) & (abs(y) < np.finfo(dtype).max)
    return y[remaining].astype(dtype), x[remaining].astype(dtype)


@every("dtype", DTYPES, turns=4)
def test_angles_are_less_than_two_units_off(dtype):
    y, x = points(dtype)
    with mpmath.workprec(300):
        exact = [mpmath.atan2(mpmath.mpf(float(up)), mpmath.mpf(float(right))) for up, right in zip(y, x, strict=True)]
        off = [units_off(found, wanted) for found, wanted in zip(angles(y, x), exact, strict=True)]
    assert len(off) > 400 and max(off) < 2, (y[np.argmax(off)], x[np.argmax(off)])


@every("dtype", DTYPES)
def test_angles_of_special_points(dtype):
    limits = np.finfo(dtype)
    sizes = [0, np.inf, limits.max, limits.tiny, limits.smallest_subnormal, 3 * limits.smallest_subnormal, 1, 2, 0.5]
    numbers = np.array([*sizes, *(-size for size in sizes), np.nan], dtype)
    y, x = (part.ravel() for part in np.meshgrid(numbers, numbers))
    found, wanted = angles(y, x), np.array([math.atan2(*point) for point in zip(y, x, strict=True)]).astype(dtype)
    np.testing.assert_array_max_ulp(found, wanted, 2)
    some = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found[some]), np.signbit(wanted[some]))


@every("dtype", DTYPES)
def test_angles_are_python_too(dtype):
    y, x = (part[::10] for part in points(dtype))
    found = np.array([ANGLE(up, right) for up, right in zip(y, x, strict=True)], dtype)
    np.testing.assert_array_max_ulp(found, angles(y, x), 2)


@every("dtype", DTYPES)
def test_loops_over_angles_work_on_vectors(dtype):
    angles(*np.ones((2, 1), dtype))
    signature = next(s for s in ANGLE_LOOP.signatures if s[0].dtype.bitwidth == 8 * np.dtype(dtype).itemsize)
    code = ANGLE_LOOP.inspect_llvm(signature)
    assert len(re.findall(rf"= f(?:add|sub|mul) .*<\d+ x {PRECISIONS[dtype]}>", code)) >= 10
    assert not re.search(r"call \S+ @atan", code)


# ---------------------------------------------------------------------------- powers


def power_loop():
    """A compiled loop that raises the numbers of a vector to those of another one."""
    module = dict(vars(library()))
    text = "def loop(x, y, z):\n    for i in range(x.shape[0]):\n        z[i] = general_power(x[i], y[i])"
    exec(text, module)
    return njit(error_model="numpy", fastmath={"contract", "nsz", "reassoc"})(module["loop"]), module["general_power"]


POWER_LOOP, POWER = power_loop()


def powers(x, y):
    """The powers as the loop computes them."""
    z = np.empty_like(x)
    POWER_LOOP(x, y, z)
    return z


def bases_and_exponents(dtype):
    """Bases near 1 with large exponents, bases and exponents of all sizes, and common exponents."""
    random, largest = np.random.default_rng(3), math.log(np.finfo(dtype).max)
    near = random.uniform(0.7, 1.42, 60)
    closer = 1 + random.choice([-1, 1], 60) * 10.0 ** random.uniform(-7, -2, 60)
    wide = np.exp(random.uniform(-0.95 * largest, 0.95 * largest, 60))
    middle = np.exp(random.uniform(-3, 3, 120))
    common = random.choice([1.5, 2.5, 1 / 3, 0.7, -0.3, 7.0, -12.5], 60)
    bases = np.concatenate([near, closer, wide, middle]).astype(dtype)
    logs = np.log(bases[:180].astype(float))
    exponents = random.uniform(-0.99, 0.99, 180) * largest / np.where(logs == 0, 1, logs)
    return bases, np.concatenate([exponents, random.uniform(-4, 4, 60), common]).astype(dtype)


@every("dtype", DTYPES, turns=8)
def test_powers_are_less_than_two_units_off(dtype):
    x, y = bases_and_exponents(dtype)
    with mpmath.workprec(300):
        exact = [mpmath.mpf(float(base)) ** mpmath.mpf(float(one)) for base, one in zip(x, y, strict=True)]
        off = [units_off(found, wanted) for found, wanted in zip(powers(x, y), exact, strict=True)]
    assert max(off) < 2, (x[np.argmax(off)], y[np.argmax(off)])


@every("dtype", DTYPES, turns=2)
def test_powers_of_special_numbers(dtype):
    limits = np.finfo(dtype)
    sizes = [0, np.inf, limits.max, limits.tiny, limits.smallest_subnormal, 1, 2, 3, 0.5, 1e9, 2.0**limits.nmant + 1]
    numbers = np.array([*sizes, *(-size for size in sizes), np.nan], dtype)
    x, y = (part.ravel() for part in np.meshgrid(numbers, numbers))
    found = powers(x, y)
    for base, exponent, value in zip(x, y, found, strict=True):
        try:
            wanted = math.pow(base, exponent)  # C's rules, but for the errors
        except OverflowError:
            wanted = math.copysign(math.inf, -1 if base < 0 and exponent % 2 == 1 else 1)
        except ValueError:
            is_odd = exponent % 2 == 1
            wanted = math.nan if base < 0 else math.copysign(math.inf, base if is_odd else 1)
        with np.errstate(over="ignore"):
            wanted = dtype(wanted)
        np.testing.assert_array_max_ulp(value, wanted, 2)
        assert np.isnan(wanted) or np.signbit(value) == np.signbit(wanted), (base, exponent)


@every("dtype", DTYPES)
def test_powers_are_python_too(dtype):
    x, y = (part[::10] for part in bases_and_exponents(dtype))
    found = np.array([POWER(base, one) for base, one in zip(x, y, strict=True)], dtype)
    np.testing.assert_array_max_ulp(found, powers(x, y), 2)


@every("dtype", DTYPES)
def test_loops_over_powers_work_on_vectors(dtype):
    powers(*np.ones((2, 1), dtype))
    signature = next(s for s in POWER_LOOP.signatures if s[0].dtype.bitwidth == 8 * np.dtype(dtype).itemsize)
    code = POWER_LOOP.inspect_llvm(signature)
    assert len(re.findall(rf"= f(?:add|sub|mul) .*<\d+ x {PRECISIONS[dtype]}>", code)) >= 10
    assert not re.search(r"call \S+ @(pow|exp|log)f?\(", code)
