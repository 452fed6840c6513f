"""Certificates of convexity: functions that have one, relatives that have none, side conditions, signs, the front."""

from __future__ import annotations

import pickle

import pytest
import sympy
from every import every
from sympy import Max, Min, Rational

import sympy_tensordiff as td
from sympy_tensordiff.convex import cauchy_schwarz, conditions, domains, pieces, quadratic, rules, signs, slopes
from sympy_tensordiff.convex.generators import POSITIVE, Range
from sympy_tensordiff.convex.signs import Signs
from sympy_tensordiff.errors import (
    ArgumentError,
    ArgumentTypeError,
    CertificateError,
    DerivativeMismatch,
    UnsupportedError,
)
from sympy_tensordiff.testing import convexity, fuzz

n, m, k, i, j = td.indices("n m k i j")
X, A, B = td.TensorSymbol("X", (n, m)), td.TensorSymbol("A", (m, m)), td.TensorSymbol("B", (m, m))
x, u, c, d, y, b = (td.TensorSymbol(s, e) for s, e in zip("xucdyb", (m, m, m, m, n, n), strict=True))
W, Y, C = td.TensorSymbol("W", (m, k)), td.TensorSymbol("Y", (n, k)), td.TensorSymbol("C", (m, k))
S = td.TensorSymbol("S", (m, m), positive=True)
T = td.TensorSymbol("T", (m, m), symmetric=True)
z = X @ x
lam, mu = sympy.symbols("lam mu", positive=True)
s, t, r = sympy.symbols("s t r", real=True)
half = Rational(1, 2)

# The differentiable atoms of cvxpy and the papers' examples, as users write them: function, variables, positive ones.
CONVEX = {
    "least squares": (td.sum((z - y) ** 2), x, ()),
    "ridge": (td.sum((z - y) ** 2) + lam * td.dot(x, x), x, ()),
    "logistic": (td.sum(td.softplus(z)) - td.dot(y, z), x, ()),
    "logistic, written out": (td.sum(td.log(1 + td.exp(z))), x, ()),
    "logistic, margin": (td.sum(td.log(1 + td.exp(-y * z))), x, ()),
    "Poisson": (td.sum(td.exp(z)) - td.dot(y, z), x, ()),
    "exponential loss": (td.sum(td.exp(-y * z)), x, ()),
    "logsumexp": (td.logsumexp(z), x, ()),
    "logsumexp, written out": (td.log(td.sum(td.exp(z))), x, ()),
    "entropy": (td.sum(x * td.log(x)), x, (x,)),
    "minus log": (-td.sum(td.log(x)), x, (x,)),
    "relative entropy": (td.sum(x * td.log(x / c)), x, (x, c)),
    "inverse": (td.sum(1 / x), x, (x,)),
    "cube": (td.sum(x**3), x, (x,)),
    "fourth power": (td.sum(x**4), x, ()),
    "power 3/2": (td.sum(x ** Rational(3, 2)), x, (x,)),
    "minus root": (-td.sum(td.sqrt(x)), x, (x,)),
    "smooth norm": (td.sqrt(td.dot(x, x) + 1), x, ()),
    "pseudo-Huber": (td.sum(td.sqrt(1 + (z - y) ** 2)), x, ()),
    "log cosh": (td.sum(td.log(td.cosh(z - y))), x, ()),
    "cosh": (td.sum(td.cosh(x)), x, ()),
    "quadratic form": (td.dot(x, A @ A.T @ x), x, ()),
    "quadratic over linear": (td.dot(x, x) / td.sum(c), x, (c,)),
    "softplus squared": (td.sum(td.softplus(z) ** 2), x, ()),
    "exp of a square": (td.exp(td.dot(x, x)), x, ()),
    "minus geometric mean": (-td.exp(td.sum(td.log(x)) / m), x, (x,)),
    "x log x - x + c": (td.sum(x * td.log(x) - x + c), x, (x, c)),
    "inverse product": (td.exp(-td.sum(td.log(x))), x, (x,)),
    "smooth hinge": (td.sum(td.softplus(1 - y * z)) + lam * td.dot(x, x), x, ()),
    "power 3/2 of 1 + x**2": (td.sum((x**2 + 1) ** Rational(3, 2)), x, ()),
    "exp minus log": (td.sum(td.exp(x) - td.log(x)), x, (x,)),
    # matrices and tensors of higher order as variables
    "matrix least squares": (td.sum((X @ W - Y) ** 2), W, ()),
    "softmax regression": (td.sum(td.logsumexp(X @ W, axis=1)) - td.sum(Y * (X @ W)), W, ()),
    "cross entropy": (-td.sum(Y * td.log(td.softmax(X @ W, axis=1))), W, (Y,)),
    "trace W'W": (td.trace(W.T @ W), W, ()),
    "trace W'SW": (td.trace(W.T @ S @ W), W, ()),
    "minus log det": (-td.logdet(S), S, ()),
    "Gauss": (td.trace(A @ S) - td.logdet(S), S, ()),
    "trace of the inverse": (td.trace(td.inv(S)), S, ()),
    "matrix fractional": (td.dot(x, td.solve(S, x)), (x, S), ()),
    "inverse determinant": (1 / td.det(S), S, ()),
    "matrix entropy": (td.sum(W * td.log(W)), W, (W,)),
    # jointly, index notation, products, p-norms
    "quadratic over linear, jointly": (td.dot(x, x) / td.sum(c), (x, c), (c,)),
    "Kullback-Leibler": (td.sum(x * td.log(x / c)), (x, c), (x, c)),
    "total squares": (td.IndexedSum((x[i + 1] - x[i]) ** 2, (i, 0, m - 2)), x, ()),
    "geometric mean": (-(td.prod(x) ** (1 / m)), x, (x,)),
    "3-norm": (td.sum(x**3) ** Rational(1, 3), x, (x,)),
    "log sum cosh": (td.log(td.sum(td.cosh(x))), x, ()),
    "barrier": (-td.sum(td.log(b - z)), x, ()),
    "variance": (td.var(x), x, ()),
    "definite quadratic": (td.sum(x**2 - x * u + u**2), (x, u), ()),
    # kinks
    "norm": (td.norm(z - y), x, ()),
    "sum of norms": (td.IndexedSum(td.sqrt(td.IndexedSum(W[i, j] ** 2, (j, 0, k - 1))), (i, 0, m - 1)), W, ()),
    "hinge": (td.sum(td.relu(1 - y * z)), x, ()),
    "1-norm": (td.sum(abs(z - y)), x, ()),
    "total variation": (td.IndexedSum(abs(x[i + 1] - x[i]), (i, 0, m - 2)), x, ()),
    "maximum": (td.max(z), x, ()),
    "maximum of convex": (Max(s**2, 1 - s, sympy.exp(s)), s, ()),
    "squared hinge": (td.sum(td.relu(z) ** 2), x, ()),
    "log sum exp of kinks": (td.logsumexp(abs(z - y)), x, ()),
    "log sum exp, jointly": (td.logsumexp(x - u) + td.logsumexp(td.exp(z) - z), (x, u), ()),
    "exp of a norm": (td.exp(td.norm(x)), x, ()),
}

NOT_CONVEX = {
    "cube": (td.sum(x**3), x, ()),
    "sine": (td.sum(td.sin(x)), x, ()),
    "double well": (td.dot(x, x) ** 2 - td.dot(x, x), x, ()),
    "tanh": (td.sum(td.tanh(z)), x, ()),
    "sigmoid": (td.sum(td.sigmoid(z)), x, ()),
    "Cauchy": (td.sum(td.log(1 + (z - y) ** 2)), x, ()),
    "log": (td.sum(td.log(x)), x, (x,)),
    "log of squares": (-td.sum(td.log(x**2)), x, ()),
    "inverse square": (td.sum(1 / x**2), x, ()),
    "inverse": (td.sum(1 / x), x, ()),
    "bump": (td.exp(-td.dot(x, x)), x, ()),
    "exp of minus a norm": (td.exp(-td.norm(x)), x, ()),
    "distance from a sphere": ((td.norm(x) - 1) ** 2, x, ()),
    "factorization": (td.sum((X @ W - Y) ** 2), (X, W), ()),
    "bilinear": (td.dot(x, A @ u), (x, u), ()),
    "indefinite form": (td.dot(x, A @ x), x, ()),
    "symmetric form": (td.dot(x, T @ x), x, ()),
    "log det": (td.logdet(S), S, ()),
    "determinant": (td.det(S), S, ()),
    "smallest": (td.min(z), x, ()),
    "abs of a difference": (abs(s**2 - 1), s, ()),
    "Rosenbrock": (td.IndexedSum((x[i + 1] - x[i] ** 2) ** 2, (i, 0, m - 2)), x, ()),
    "square over anything": (s**2 / t, (s, t), ()),
    "indefinite quadratic": (td.sum(x**2 - 3 * x * u + u**2), (x, u), ()),
    "log of 1 + squares": (td.log(1 + td.dot(x, x)), x, ()),
    "trace of the inverse of any matrix": (td.trace(td.inv(A)), A, ()),
    "inverse form of a symmetric matrix": (td.dot(x, td.solve(T, x)), T, ()),
    "entropy of anything but positive": (td.sum(abs(x) * td.log(1 + x**2)), x, ()),
}


@every("case", CONVEX.values(), list(CONVEX))
def test_convex_functions_are_certified(case) -> None:
    function, wrt, positive = case
    certificate = td.certify_convex(function, wrt, positive=positive)
    assert certificate, certificate.reason
    assert certificate.check()
    assert certificate.reason == ""
    assert all(term.rule and term.factors and term.form != 0 for term in certificate.terms)
    concave = td.certify_convex(-function, wrt, positive=positive, concave=True)
    assert concave and concave.check()
    assert certificate._repr_latex_().startswith("$") and certificate.latex_lines()


@every("case", NOT_CONVEX.values(), list(NOT_CONVEX))
def test_relatives_that_are_not_convex_are_not(case) -> None:
    function, wrt, positive = case
    certificate = td.certify_convex(function, wrt, positive=positive)
    assert not certificate and certificate.reason and certificate.terms == ()
    with pytest.raises(CertificateError, match="there is no certificate to check: "):
        certificate.check()


# ---------------------------------------------------------------- side conditions

weighted = td.IndexedSum(d[k] * A[i, k] * A[j, k] * x[i] * x[j], (i, 0, m - 1), (j, 0, m - 1), (k, 0, m - 1))

# For each condition a function that only this condition refuses, with its variables and positive tensors.
WITNESSES = {
    "rule": (sympy.tan(s), s, ()),
    "domain": (-td.sum(td.log(x**2)), x, ()),
    "pole": (td.sum(1 / x**2), x, ()),
    "slope": (Max(s, -1) ** 2, s, ()),
    "pivot": (td.sum(x**3), x, ()),
    "zero pivot": (s * t, (s, t), ()),
    "ratio": (td.log(1 + td.sum(x**4 + x**2)), x, ()),
    "maximum": (Min(s, 1 - s), s, ()),
    "absolute value": (abs(s**2 - 1), s, ()),
    "order": (sympy.Piecewise((0, s * t < 0), (s, True)), s, ()),
    "meeting": (sympy.Piecewise((0, s < 0), (1, True)), s, ()),
    "corner": (sympy.Piecewise((0, s < 0), (-s, True)), s, ()),
    "middle": (td.dot(x, T @ x), x, ()),
    "weight": (weighted, x, ()),
}


def test_each_condition_has_a_witness() -> None:
    assert WITNESSES.keys() == conditions.CONDITIONS.keys()


@every("condition", list(WITNESSES))
def test_each_dropped_condition_is_caught(condition, monkeypatch) -> None:
    function, wrt, positive = WITNESSES[condition]
    assert not td.certify_convex(function, wrt, positive=positive)

    def without(name, holds, *reason) -> None:
        conditions.require(name, holds or name == condition, *reason)

    with monkeypatch.context() as patch:
        for module in (cauchy_schwarz, domains, pieces, rules, slopes):
            patch.setattr(module, "require", without)
        try:
            wrong = td.certify_convex(function, wrt, positive=positive)
        except RecursionError:  # a function that has no parts is a part of itself
            wrong = condition == "rule"
    assert wrong


MUTANTS = {
    "the exchange need not keep the summand": (
        *(quadratic, "_kept", lambda factors, swap: True),
        (td.dot(A.T @ x, B.T @ x), x),
    ),
    "a sum over no point is positive": (
        *(Signs, "filled", lambda self, limits: True),
        (td.log(td.IndexedSum(td.exp(x[i]), (i, 0, m - 2))), x),
    ),
    "coefficients of odd powers count": (
        *(signs, "_sum", lambda found: ">"),
        (td.sum(x**4 + x**3), x),
    ),
}


@every("mutant", MUTANTS.values(), list(MUTANTS))
def test_mutants_are_caught(mutant, monkeypatch) -> None:
    place, name, wrong, (function, wrt) = mutant
    assert not td.certify_convex(function, wrt)
    with monkeypatch.context() as patch:
        patch.setattr(place, name, wrong)
        assert td.certify_convex(function, wrt)


def test_a_certificate_that_is_not_the_hessian_fails_its_check() -> None:
    certificate = td.certify_convex(td.sum(td.exp(x)), x)
    (term,) = certificate.terms
    certificate.terms = (term._replace(form=2 * term.form),)
    with pytest.raises(CertificateError, match=r"the terms of IndexedSum\(.*\) differ from its Hessian by .* at "):
        certificate.check()
    nowhere = td.certify_convex(-td.sqrt(s - 10**6), s)
    assert nowhere.check()  # the graph shows it
    nowhere.terms = tuple(term._replace(form=2 * term.form) for term in nowhere.terms)
    with pytest.raises(CertificateError, match=r"no point was drawn at which .* has a value"):
        nowhere.check()


# ---------------------------------------------------------------- signs


@every(
    "case",
    [
        (s**2 - 2 * s + 1, {}, ">="),
        (s**2 - 2 * s + 2, {}, ">"),
        (s**2 - s * t + t**2, {}, ">="),
        (s**2 - 3 * s * t + t**2, {}, None),
        (s**3 - 3 * s + 3, {s: POSITIVE}, ">"),
        (s**3 - 3 * s + 2, {s: POSITIVE}, ">="),
        (s**3 - 3 * s + 1, {s: POSITIVE}, None),
        (1 - s**2, {s: Range(sympy.Integer(-1), sympy.Integer(1))}, ">"),
        (s - 2, {s: Range(None, sympy.Integer(2))}, "<"),
        (sympy.log(1 + s**2), {}, ">="),
        (sympy.log(2 + s**2), {}, ">"),
        (sympy.sqrt(1 + s**2) - 1, {}, ">="),
        (1 / sympy.sqrt(1 + s**2) - s**2 / (1 + s**2) ** Rational(3, 2), {}, ">"),
        (2 + sympy.sin(s), {}, ">"),
        (1 - sympy.cos(s) ** 2, {}, ">="),
        (sympy.exp(2 * s) - 2 * sympy.exp(s) + 1, {}, ">="),
        (sympy.exp(s) - 1, {s: POSITIVE}, ">"),
        (sympy.exp(s) - 1, {}, None),
        (lam + mu, {}, ">"),
        (lam - mu, {}, None),
        (s - s, {}, "0"),
        (abs(s) + 1, {}, ">"),
        (Max(s, 1), {}, ">"),
        (sympy.pi - 3, {}, ">"),
        (s**lam, {s: POSITIVE}, ">"),
        (0.5 * s**2 + 0.25, {}, ">"),
    ],
)
def test_signs(case) -> None:
    scalar, ranges, expected = case
    assert Signs(ranges).of(scalar) == expected


def test_domains() -> None:
    cube = td.sum(x**3)
    assert td.certify_convex(cube, x, nonnegative=(x,)) and td.certify_convex(cube, x, nonnegative=x)
    assert td.certify_convex(cube, x, bounds={x: (0, None)}) and td.certify_convex(cube, x, bounds={x: (0.5, 1)})
    assert not td.certify_convex(cube, x, bounds={x: (-1, None)})
    assert td.certify_convex(td.sum(x**3 + 3 * x**2), x, bounds={x: (-1, 1)}).check()
    assert td.certify_convex(td.sum(x**lam), x, positive=(x,), bounds={lam: (1, None)}).check()
    assert not td.certify_convex(td.sum(x**lam), x, positive=(x,))
    assert td.certify_convex(td.sum(td.log(x)), x, positive=(x,), concave=True).check()
    assert td.certify_convex(td.sum(x) + 3, x).terms == ()


def test_a_variable_in_the_limits_or_in_a_condition_is_refused() -> None:
    assert not td.certify_convex(td.IndexedSum(i, (i, 0, n)), n)
    assert "no rule" in td.certify_convex(sympy.Piecewise((s, t > 0), (0, True)) + s**2, (s, t)).reason


def test_printed() -> None:
    certificate = td.certify_convex(td.logsumexp(x), x)
    assert repr(certificate).startswith("convex: Cauchy-Schwarz: ")
    assert r"\nabla^2_{x}" in certificate.latex_lines()[0] and certificate.latex_lines()[-1] == r"\geq 0"
    assert repr(td.certify_convex(td.sum(x), x)) == "convex: affine"
    assert repr(td.certify_convex(td.sum(abs(x)), x)) == "convex: affine in pieces"
    failed = td.certify_convex(td.sum(x**3), x)
    assert repr(failed) == f"not certified convex: {failed.reason}"
    assert failed.latex_lines()[0].startswith(r"\text{not certified: no sign of 6*x[i]")
    assert bool(pickle.loads(pickle.dumps(certificate)))


def test_bad_arguments() -> None:
    with pytest.raises(ArgumentError, match="convexity is that of a scalar, sum it first"):
        td.certify_convex(td.exp(x), x)
    with pytest.raises(ArgumentError, match="wrt is empty: name at least one variable"):
        td.certify_convex(td.sum(x), ())
    with pytest.raises(ArgumentError, match="wrt holds a variable twice: x, x"):
        td.certify_convex(td.sum(x), (x, x))
    with pytest.raises(ArgumentTypeError, match=r"wrt holds exp\(x\), which is no tensor symbol"):
        td.certify_convex(td.sum(x), td.exp(x))
    with pytest.raises(ArgumentTypeError, match="declare that of a tensor symbol or a symbol"):
        td.certify_convex(td.sum(x), x, positive=(x[0],))
    with pytest.raises(ArgumentTypeError, match=r"bounds of x are 1: give a pair \(low, high\)"):
        td.certify_convex(td.sum(x), x, bounds={x: 1})
    with pytest.raises(ArgumentTypeError, match="a bound of x is t: give a real number"):
        td.certify_convex(td.sum(x), x, bounds={x: (0, t)})
    with pytest.raises(ArgumentError, match="the domain of x from 1 to 1 has no interior: substitute its value"):
        td.certify_convex(td.sum(x), x, bounds={x: (1, 1)})


def test_random_functions(monkeypatch) -> None:
    seen = []
    for seed in range(12):
        try:
            convexity.check_convexity(seed)
            seen.append("right")
        except UnsupportedError:
            seen.append("refused")
    assert seen.count("right") > 8
    assert fuzz.check("convexity", 3).verdict == "right"
    with pytest.raises(UnsupportedError, match="is convex at all points that were tried: "):
        convexity.check_convexity(37)
    with monkeypatch.context() as patch:
        patch.setattr(convexity, "least_curvature", lambda *given: -1.0)
        with pytest.raises(DerivativeMismatch, match=r"is certified and has the relative curvature -1\.0"):
            convexity.check_convexity(28)
    # The oracle sees what is wrong: everything is certified.
    case = convexity.random_case(0)
    assert convexity.least_curvature(case._replace(value=lambda v: -(v[convexity.x] ** 2).sum(-1)), 0) < -0.1
    assert convexity.least_curvature(case._replace(value=lambda v: -abs(v[convexity.x]).sum(-1)), 0) < -0.01
    assert convexity.least_curvature(case._replace(value=lambda v: (v[convexity.x] ** 2).sum(-1)), 0) > -1e-6
