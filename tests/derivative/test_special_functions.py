"""Functions of SymPy: derivatives as SymPy knows them, unevaluated where it does not, constants, powers."""

from __future__ import annotations

from fractions import Fraction
from math import inf

import mpmath
import numpy as np
import pytest
import sympy
from every import every
from exact_checks import assert_derivative_exact, assert_second_exact
from sympy import Derivative, I, Piecewise, Rational, Subs, Symbol, log, sqrt
from sympy.codegen import cfunctions

import sympy_tensordiff as td
from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.reference import evaluate

i, j, k, n, p = td.indices("i j k n p")
x, y, z = (td.TensorSymbol(name, 4) for name in "xyz")
a, s, t = (Symbol(name, real=True) for name in "ast")


def total(body):
    return td.IndexedSum(body, (k, 0, 3))


KNOWN = {
    f.__name__: f
    for f in (
        *(sympy.airyai, sympy.airybi, sympy.airyaiprime, sympy.airybiprime, sympy.digamma, sympy.trigamma),
        *(sympy.loggamma, sympy.gamma, sympy.erf, sympy.erfc, sympy.erfi, sympy.Si, sympy.Ci, sympy.Ei, sympy.li),
        *(sympy.Shi, sympy.Chi, sympy.fresnels, sympy.fresnelc, sympy.LambertW, sympy.elliptic_k, sympy.elliptic_e),
        *(sympy.sinc, sympy.factorial, sympy.harmonic, sympy.sec, sympy.acoth, sympy.asech, sympy.catalan),
    )
}
TWO = {
    "beta": lambda u, v: sympy.beta(u, v),
    "erf2": lambda u, v: sympy.erf2(u, v),
    "elliptic_f": lambda u, v: sympy.elliptic_f(u, v / 8),
    "binomial": lambda u, v: sympy.binomial(u + 3, v),
}
BY_LAST = {
    "besselj": lambda u, m: sympy.besselj(m, u),
    "bessely": lambda u, m: sympy.bessely(m, u),
    "besseli": lambda u, m: sympy.besseli(m, u),
    "besselk": lambda u, m: sympy.besselk(m, u),
    "polygamma": lambda u, m: sympy.polygamma(m + 1, u),
    "legendre": lambda u, m: sympy.legendre(m, u / 4),
    "chebyshevt": lambda u, m: sympy.chebyshevt(m, u / 4),
    "hermite": lambda u, m: sympy.hermite(m, u),
    "laguerre": lambda u, m: sympy.laguerre(m, u),
    "zeta": lambda u, m: sympy.zeta(m + 3, u),
    "uppergamma": lambda u, m: sympy.uppergamma(m + 1, u),
    "expint": lambda u, m: sympy.expint(m, u),
}
POINT = [Fraction(5, 4), Fraction(3, 2), Fraction(7, 4), Fraction(9, 8)]


def slope_by_sympy(function, at):
    """SymPy's own scalar derivative, as a number."""
    return sympy.N(function(s).diff(s).subs(s, Rational(at.numerator, at.denominator)), 25)


@every("name", [*KNOWN])
def test_known_functions_have_sympys_derivative(name):
    gradient = td.gradient(total(KNOWN[name](x[k] / 2 if name in ("asech", "elliptic_k") else x[k])), x)
    assert not gradient.has(Derivative, Subs)
    got = evaluate(gradient, {x: [v / 2 for v in POINT]})
    inner = Rational(1, 2) if name in ("asech", "elliptic_k") else 1
    for value, at in zip(got, POINT, strict=True):
        expected = slope_by_sympy(lambda u: KNOWN[name](inner * u), at / 2)
        # Where the function is complex the oracle has no number, nor has the derivative a meaning.
        assert value != value or abs(complex(expected - float(value))) < 1e-9 * max(1, abs(complex(expected)))


@pytest.mark.parametrize("name", TWO)
def test_functions_of_two_arguments(name):
    gradients = td.gradient(total(TWO[name](x[k], y[k])), (x, y))
    values = {x: POINT, y: POINT[::-1]}
    for gradient, position in zip(gradients, (s, t), strict=True):
        point = {s: Rational(5, 4), t: Rational(9, 8)}
        expected = float(sympy.N(TWO[name](s, t).diff(position).subs(point), 20))
        assert float(evaluate(gradient, values)[0]) == pytest.approx(expected, rel=1e-12)


def test_the_order_of_a_bessel_function_stays_unevaluated():
    """As SymPy itself leaves it, in first and second derivatives; the argument is differentiated all the same."""
    gradient = td.gradient(total(sympy.besselj(a, x[k])), a)
    assert gradient == total(Derivative(sympy.besselj(a, x[k]), a))
    mixed = td.jacobian(gradient, x)
    difference = mixed.body - sympy.besselj(a, x[p]).diff(a, x[p])
    numeric = difference.replace(
        lambda e: isinstance(e, Subs),
        lambda e: sympy.Float(mpmath.diff(lambda nu: mpmath.besselj(nu, 1.5), float(e.point[0].subs(a, 2)))),
    )
    assert abs(float(numeric)) < 1e-9
    second = td.gradient(gradient, a)
    assert second == total(Derivative(sympy.besselj(a, x[k]), (a, 2)))


@every(
    "body",
    [
        *(sympy.zeta(x[k]), sympy.zeta(x[k], 2), sympy.RisingFactorial(x[k], y[k]), sympy.dirichlet_eta(x[k])),
        *(sympy.polylog(x[k], y[k]), sympy.hermite(x[k], y[k]), sympy.uppergamma(x[k], y[k])),
        *(sympy.gegenbauer(x[k], y[k], a), sympy.polygamma(x[k], y[k])),
    ],
)
def test_no_derivative_is_refused(body):
    gradient = td.gradient(total(body), x)
    assert gradient.has(Derivative)
    assert td.hessian(total(body), x).has(Derivative)
    with pytest.raises(UnsupportedError, match=f"no backend can evaluate .*{type(body).__name__}"):
        td.lambdify([a, x, y], gradient)
    again = td.gradient(td.IndexedSum(gradient[k], (k, 0, 3)), x)
    assert again.has(Derivative)


# ------------------------------------------------------------------ what backends know

BACKENDS = {
    "expm1": cfunctions.expm1(x[k]),
    "log1p": cfunctions.log1p(x[k]),
    "log2": cfunctions.log2(x[k]),
    "log10": cfunctions.log10(x[k]),
    "exp2": cfunctions.exp2(x[k]),
    "Sqrt": cfunctions.Sqrt(x[k]),
    "hypot": cfunctions.hypot(x[k], y[k]),
    "fma": cfunctions.fma(x[k], y[k], x[k]),
    "Cbrt": cfunctions.Cbrt(x[k] - 1),
    "real_root": sympy.real_root(x[k] - 1, 3),
    "frac": sympy.frac(3 * x[k]) * y[k],
    "erf2": sympy.erf2(x[k], y[k]),
    "sinc": sympy.sinc(x[k]),
    "atan2": sympy.atan2(x[k], y[k]),
    "conjugate": sympy.conjugate(a) * sympy.re(a) * x[k] + sympy.im(a),
}


@every("name", [*BACKENDS])
def test_backends(name):
    for check in (assert_derivative_exact, assert_second_exact):
        check(total(BACKENDS[name]), x, low=0.25)


@pytest.mark.in_turns(8)
def test_backends_compiled():
    """All in one kernel, which takes less time to compile."""
    assert_derivative_exact(total(sum(BACKENDS.values())), x, low=0.25, backends=("numba",))


def test_factorial_and_cube_roots_of_negative_numbers():
    numbers = np.array([0.0, 1, 2, 5])
    assert td.lambdify([x], total(sympy.factorial(x[k])), "numpy")(numbers) == 124
    roots = td.TensorComprehension(cfunctions.Cbrt(x[i]), (i, 4))
    for backend in ("numpy", "numba"):
        got = td.lambdify([x], roots, backend)(np.array([-8.0, 0, 27, -1]))
        np.testing.assert_allclose(got, [-2, 0, 3, -1])


# ------------------------------------------------------------------ constants


@every(
    "constant, named",
    [
        (I, "I"),
        (sqrt(-2), "I"),
        ((-1) ** Rational(1, 3), r"\(-1\)\*\*\(1/3\)"),
        ((-2) ** Rational(3, 4), r"\(-2\)\*\*\(3/4\)"),
        (log(-1), "I"),
        (log(-2), "I"),
        (sympy.acos(2), r"acos\(2\)"),
        (sympy.acosh(log(2) - 1), r"acosh\(-1 \+ log\(2\)\)"),
        (sympy.loggamma(Rational(-1, 2)), r"loggamma\(-1/2\)"),
        (sympy.zoo, "zoo"),
        (sympy.oo, "oo"),
        (-sympy.oo, "-oo"),
        (sympy.nan, "nan"),
        (sympy.Float("inf"), "inf|oo"),
    ],
)
def test_constants_that_are_not_real(constant, named):
    places = [x[0] + constant, sympy.sin(x[0] ** constant)]
    # SymPy writes some into branches that are not taken, and an infinite one is a score that is left out.
    if constant not in (sympy.zoo, sympy.nan) and not constant.is_infinite:
        places.append(Piecewise((constant, x[0] > 0), (x[0], True)))
    places += [sympy.Function("g")(x[0], constant), Subs(Derivative(sympy.Function("g")(s), s), s, x[0] + constant)]
    found = 0
    for expression in places:
        if expression.has(constant) or expression.has(I):
            found += 1
            with pytest.raises(UnsupportedError, match=f"the constant ({named}) is not a finite real number"):
                td.gradient(expression, x)
            with pytest.raises(UnsupportedError, match=f"the constant ({named}) is not|is complex"):
                td.lambdify([x], td.TensorComprehension(expression, (i, 4)))
    assert found >= 2


@every(
    "body, message",
    [
        (sympy.arg(a), r"arg is not supported in a tensor expression: arg\(a\); write Piecewise"),
        (sympy.polar_lift(a), "polar_lift is not supported .*complex"),
        (sympy.exp_polar(a), "exp_polar is not supported"),
        (sympy.principal_branch(a, 1), "principal_branch is not supported|exp_polar"),
        (sympy.DiracDelta(x[0]), "DiracDelta is not supported"),
        (sympy.Ynm(1, 0, a, s), "Ynm is not supported .*complex"),
        (sympy.SingularityFunction(a, 0, 2), "SingularityFunction is not supported .*Piecewise"),
        (sympy.hyper((1, a), (2,), x[0]), "hyper takes lists of parameters"),
        (sympy.meijerg(((), (1, 1)), ((0, 0, 2), ()), a), "meijerg takes lists of parameters"),
    ],
)
def test_functions_without_a_meaning_for_reals(body, message):
    with pytest.raises(UnsupportedError, match=message):
        td.gradient(body * x[0], x)


# ------------------------------------------------------------------ powers

POWERS = {
    "tensor exponent": x[k] ** y[3 - k],
    "constant base": 2 ** x[k] + Rational(1, 3) ** y[k],
    "absolute base": sympy.Abs(x[k]) ** y[k],
    "negative": x[k] ** -2,
    "rational": x[k] ** Rational(-3, 2),
    "twice": x[k] ** (2 * y[k]),
    "product": x[k] ** (y[k] * y[3 - k] + 1),
    "index": x[k] ** k,
    "index and value": x[k] ** (k + y[k]),
    "both": x[k] ** x[k],
    "tower": x[k] ** (y[k] ** z[k]),
    "e": sympy.E ** (x[k] * y[k]),
}


@every("name", [*POWERS], turns=8)
def test_powers(name):
    for variable in (x, y):
        if POWERS[name].has(variable):
            for check in (assert_derivative_exact, assert_second_exact):
                check(total(POWERS[name]), variable, low=0.25)


@pytest.mark.in_turns(8)
def test_powers_compiled(thorough):
    every = total(sum(POWERS.values()))
    assert_derivative_exact(every, x, low=0.25, backends=("numba",))
    if thorough:
        assert_second_exact(every, y, low=0.25, backends=("numba",))


def test_zeroth_power():
    assert td.gradient(total(x[k] ** 0 * y[k]), x).body == 0
    for exponent in range(4):
        assert_second_exact(total(x[k] ** n), x, sizes={n: exponent})


ZEROS = {x: [0, 0, 0, 2], y: [2, 0, Fraction(1, 2), 3]}


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_powers_of_zero(backend):
    """Kernels have the derivative at base 0 if it exists: no 0*inf."""
    by_x, by_y = td.gradient(total(x[k] ** y[k]), (x, y))
    by_yy = td.jacobian(by_y, y)
    by_xx = td.jacobian(by_x, x)
    arrays = [np.array(ZEROS[v], dtype=float) for v in (x, y)]
    first, second, twice, twice_x = td.lambdify([x, y], (by_x, by_y, by_yy, by_xx), backend)(*arrays)
    np.testing.assert_allclose(first, [0, 0, inf, 12])
    np.testing.assert_allclose(second, [0, -inf, 0, 8 * np.log(2)])
    np.testing.assert_allclose(np.diag(twice), [0, inf, 0, 8 * np.log(2) ** 2])
    np.testing.assert_allclose(np.diag(twice_x)[[0, 1, 3]], [2, 0, 12])
    assert by_y == td.TensorComprehension(log(x[p]) * x[p] ** y[p], (p, 4)), "the formula stays"


def test_powers_of_zero_are_those_of_the_oracle():
    values = {x: [0, 0, 0, 2], y: [2, 3, 4, 3]}
    for check in (assert_derivative_exact, assert_second_exact):
        check(total(x[k] ** y[k]), y, values=values)


def test_a_base_that_is_no_variable():
    assert td.gradient(total(0 ** x[k]), x) == td.TensorComprehension(0, (p, 4))
    with pytest.raises(
        UnsupportedError, match=r"\(-2\)\*\*b has no derivative with respect to b: .* write Abs\(-2\)\*\*b"
    ):
        td.gradient(total((-2) ** x[k]), x)


def test_an_exact_zero_annihilates_a_number_that_is_computed_does_not():
    """A choice of 0 next to 1/0 is 0, as in the interpreter; 0/0 of two numbers is not a number."""
    chosen = td.TensorComprehension(Piecewise((x[i], x[i] > 0), (0, True)) / y[i], (i, 4))
    computed = td.TensorComprehension(td.relu(x[i]) / y[i], (i, 4))
    zero, one = np.zeros(4), np.ones(4)
    for backend in ("numpy", "numba"):
        assert (td.lambdify([x, y], chosen, backend)(zero, zero) == 0).all()
        assert np.isnan(td.lambdify([x, y], computed, backend)(zero, zero)).all()
        assert (td.lambdify([x, y], chosen, backend)(zero, one) == 0).all()


def test_conditions_of_a_cotangent_count_once():
    """A tensor that is read several times behind one condition is tested by one count, without numbers in front."""
    rates, times = td.TensorSymbol("rates", (n, 2)), td.TensorSymbol("times", (n, k))
    first, second = td.exp(rates)[i, 0], td.exp(rates)[i, 1]
    term = Piecewise((first * times[i, j] / second + log(first) * second, times[i, j] > 0), (0, True))
    gradient = td.gradient(td.IndexedSum(term, (i, 0, n - 1), (j, 0, k - 1)), rates)
    assert str(gradient).startswith("where(greater(sum(greater(times, 0), axis=1)[:, None], 0), ")
    found = td.lambdify((rates, times), gradient, "numpy")(np.array([[1e3, 1e3], [0, 1]]), np.array([[-1.0], [2]]))
    np.testing.assert_allclose(found, [[0, 0], [2 / np.e + np.e, -2 / np.e]])


# ------------------------------------------------------------------ what SciPy knows

T = Symbol("T", real=True)
ELEMENTARY = {"harmonic", "catalan", "sinc", "sec", "acoth", "asech", "factorial", "li"}
SMALL = ("elliptic_k", "elliptic_e")
OF_SCIPY = {
    **{name: f(T) for name, f in KNOWN.items() if name not in ELEMENTARY and name not in SMALL},
    **{name: KNOWN[name](T / 3) for name in SMALL},
    "li": sympy.li(T / 3 + 1),
    **{name: f(T, T + 1) for name, f in TWO.items() if name != "erf2"},
    **{name: f(T, 2) for name, f in BY_LAST.items() if name.startswith("bessel") or name == "expint"},
    "polygamma": sympy.polygamma(4, T),
    "polygamma of negative numbers": sympy.polygamma(1, -T),
    "erfinv": sympy.erfinv(T / 3),
    "lowergamma": sympy.lowergamma(T, T + 2),
    "uppergamma": sympy.uppergamma(T, 2),
    "betainc": sympy.betainc(T, 2, T / 5, T / 4),
    "elliptic_e by two": sympy.elliptic_e(T, T / 3),
    "zeta": sympy.zeta(T / 2),
    "zeta by two": sympy.zeta(T + 1, 3),
    "jn": sympy.jn(1, T),
    "yn": sympy.yn(2, T),
}  # fmt: skip
FOR_ARRAYS = ("LambertW", "zeta", "jn", "yn")
# One of each number of arguments and of results, and all that are formulas of several functions.
WAYS = ("Ei", "airyaiprime", "fresnelc", "li", "expint", "polygamma", "lowergamma", "betainc", "elliptic_e by two")


def test_what_scipy_knows(monkeypatch, uncompiled):
    """By NumPy, and by the functions that SciPy exports to Cython, which Python calls by its address."""
    check_values("numpy", OF_SCIPY)
    monkeypatch.setattr("numba.config.DISABLE_JIT", 1)
    check_values("numba", {name: e for name, e in OF_SCIPY.items() if not name.startswith(FOR_ARRAYS)})


@pytest.mark.in_turns(8)
def test_what_scipy_exports_is_called_from_compiled_code():
    check_values("numba", {name: OF_SCIPY[name] for name in WAYS})


def check_values(backend, chosen):
    """All in one kernel; the values by mpmath, through SymPy's evalf."""
    points = np.array([0.3, 1.75, 0.9])
    bodies = [td.TensorComprehension(e.subs(T, x[i]), (i, 4)) for e in chosen.values()]
    got = td.lambdify([x], tuple(bodies), backend)(np.array([*points, 1.2]))
    for (name, e), values in zip(chosen.items(), got, strict=True):
        known = e.rewrite(sympy.besselj) if name in ("jn", "yn") else e
        exact = [sympy.N(known.subs(T, sympy.Float(repr(float(at)), 25)), 20) for at in points]
        np.testing.assert_allclose(values[:3], [float(sympy.re(v)) for v in exact], rtol=1e-10, err_msg=name)


def test_what_only_some_backends_know():
    for backend, body in (("numba", sympy.zeta(a)), ("cuda", sympy.besselj(0, a)), ("numba", sympy.LambertW(a))):
        with pytest.raises(
            UnsupportedError, match=f"backend='{backend}' cannot evaluate {type(body).__name__}, backend"
        ):
            td.lambdify([a], body, backend)
    assert td.lambdify([a], sympy.zeta(a), "numba", functions={"zeta": lambda t: t + 1})(2.0) == 3
    assert td.lambdify([a], sympy.besselj(0, a), "numpy", functions={"besselj": lambda nu, t: t + 7})(2.0) == 9
    outside = td.lambdify([a], (sympy.expint(Rational(5, 2), a), sympy.LambertW(a)), "numpy")(-2.0)
    assert np.isnan(outside).all()  # not a number: another order than SciPy has, and a complex value


def test_remainders_of_values():
    gradient = td.gradient(total(sympy.Mod(x[k], y[k]) ** 2), y)
    kernel = td.lambdify([x, y], (td.TensorComprehension(sympy.Mod(x[i], y[i]), (i, 4)), gradient), "numpy")
    at, by = np.array([5.5, -2.25, 7.0, 0.5]), np.array([2.0, 1.5, -3.0, 4.0])
    remainders, slopes = kernel(at, by)
    np.testing.assert_allclose(remainders, np.mod(at, by))
    np.testing.assert_allclose(slopes, -2 * np.mod(at, by) * np.floor(at / by))


@every("backend", ["numpy", "llvm"])
def test_an_exponential_of_log_ndtr_is_one_function(backend):
    n = td.indices("n")
    x = td.TensorSymbol("x", n)
    value = td.sum(x * td.exp(td.log_ndtr(x)))
    gradient = td.gradient(value, x)
    assert not gradient.has(td.log_ndtr, td.erfcx)
    points = np.array([-30.0, -8.5, -1.25, 0.0, 0.75, 12.0])
    results = td.lambdify((x,), (value, gradient), backend)(points)
    cdf = [float(mpmath.ncdf(p)) for p in points]
    slopes = [float(mpmath.ncdf(p) + p * mpmath.npdf(p)) for p in points]
    np.testing.assert_allclose(results[0], np.dot(points, cdf), rtol=1e-14)
    np.testing.assert_allclose(results[1], slopes, rtol=1e-12)


@every("backend", ["numpy", "llvm", "numba"])
def test_log_ndtr_of_a_number(backend):
    """The accurate formula of a number is decided when the kernel is built: its other branch divides by zero."""
    x = td.TensorSymbol("x", 3)
    value = td.sum(td.log_ndtr(td.diag(x)))
    points = np.array([0.5, -1.0, 30.0])
    results = td.lambdify([x], (value, td.gradient(value, x)), backend)(points)
    terms = [mpmath.log(mpmath.ncdf(p)) for p in [*points, *[0] * 6]]
    np.testing.assert_allclose(results[0], float(sum(terms)), rtol=1e-13)
    slopes = [float(mpmath.npdf(p) / mpmath.ncdf(p)) for p in points]
    np.testing.assert_allclose(results[1], slopes, rtol=1e-12)


@every("backend", ["numpy", "llvm", "numba"])
def test_second_derivatives_of_log_ndtr_far_from_zero(backend):
    """``exp(-x**2/2)`` and ``1/erfc(-x/sqrt(2))`` overflow there one after the other; their quotient does not."""
    n = td.indices("n")
    x, t = td.TensorSymbol("x", n), td.TensorSymbol("t", n)
    points = np.array([-300.0, -38.5, -37.0, -2.0, 0.0, 3.0, 36.5, 37.5, 38.0, 38.5, 100.0, 1e4])
    found = td.lambdify([x, t], td.hvp(td.sum(td.log_ndtr(x)), x, t), backend)(points, np.ones(len(points)))

    def second(p):
        ratio = mpmath.npdf(p) / mpmath.ncdf(p)
        return float(-ratio * (p + ratio))

    with mpmath.workdps(120):
        wanted = [second(mpmath.mpf(p)) for p in points]
    np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-300)


@every("backend", ["numpy", "llvm", "numba"])
def test_erfcx_of_large_negative_numbers(backend):
    """It is infinite there, never not a number."""
    x = td.TensorSymbol("x", td.indices("n"))
    found = td.lambdify([x], td.erfcx(x), backend)(np.array([-1e300, -123456789.01, -30.0, -26.0, 0.0]))
    assert np.isinf(found[:3]).all() and found[4] == 1
    np.testing.assert_allclose(found[3], float(2 * mpmath.exp(676)), rtol=1e-12)
