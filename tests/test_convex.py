"""Certificates of convexity: functions that have one, relatives that have none, side conditions, signs, the front."""

from __future__ import annotations

import pickle
import zlib

import pytest
import sympy
from cases_convex import CONVEX, NOT_CONVEX, A, B, T, certified, d, i, j, k, lam, m, n, p, x
from every import every
from fuzz import convexity
from fuzz import run as fuzz
from sympy import Max, Min, Rational

import sympy_tensordiff as td
from sympy_tensordiff.convex import (
    affine_parts,
    conditions,
    pieces,
    quadratic,
    rules,
    signs,
)
from sympy_tensordiff.convex.generators import POSITIVE
from sympy_tensordiff.convex.signs import Signs
from sympy_tensordiff.errors import (
    ArgumentError,
    ArgumentTypeError,
    CertificateError,
    DerivativeMismatch,
    UnsupportedError,
)
from sympy_tensordiff.functions.table import Interval

s, t, r = sympy.symbols("s t r", real=True)


@every("case", CONVEX.values(), list(CONVEX), turns=10)
def test_convex_functions_are_certified(case, thorough) -> None:
    certificate = certified(*case)
    assert certificate, certificate.reason
    assert certificate.reason == ""
    assert all(term.rule and term.factors and term.form != 0 for term in certificate.terms)
    number = zlib.crc32(str(case[0]).encode())
    if thorough or number % 6 == 0:
        assert certificate.check()
    if thorough or number % 9 == 0:
        concave = certified(-case[0], *case[1:], concave=True)
        assert concave and concave.check()
        assert certificate._repr_latex_().startswith("$") and certificate.latex_lines()


@every("case", NOT_CONVEX.values(), list(NOT_CONVEX), turns=8)
def test_relatives_that_are_not_convex_are_not(case) -> None:
    certificate = certified(*case)
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

    required = conditions.require

    def without(name, holds, *reason) -> None:
        required(name, holds or name == condition, *reason)

    with monkeypatch.context() as patch:
        for module in (conditions, pieces, rules):
            patch.setattr(module, "require", without)
        try:
            wrong = td.certify_convex(function, wrt, positive=positive)
        except RecursionError:  # a function that has no parts is a part of itself
            wrong = condition == "rule"
    assert wrong


require_values = conditions.require_values

# What is exchanged for what is wrong, and a function that is certified then, with its variables and domain.
MUTANTS = {
    "the exchange need not keep the summand": (
        *(quadratic, "_is_invariant", lambda factors, swap: True),
        *(td.dot(A.T @ x, B.T @ x), x, {}),
    ),
    "a sum over no point is positive": (
        *(Signs, "is_nonempty", lambda self, limits: True),
        *(td.log(td.IndexedSum(td.exp(x[i]), (i, 0, m - 2))), x, {}),
    ),
    "coefficients of odd powers count": (
        *(signs, "_sign_of_sum", lambda found: ">"),
        *(td.sum(x**4 + x**3), x, {}),
    ),
    "a pole may be at the end of a range": (
        *(conditions, "require_values", lambda *given: require_values(*given[:3], {}, given[4])),
        *(1 / td.IndexedSum(x[i], (i, 1, m - 1)), x, {"positive": x}),
    ),
    "the domain of a root is convex for any argument": (
        *(rules.ConvexityRules, "_is_concave", lambda self, scalar: True),
        *((td.dot(x, x) - 1) ** Rational(3, 2), x, {}),
    ),
    "a sine has one sign everywhere": (
        *(Signs, "_range_in_half_period", lambda self, argument, shift: POSITIVE),
        *(-td.sum(td.sin(x)), x, {"bounds": {x: (0, 4)}}),
    ),
    "a function that grows is positive": (
        *(Signs, "_value", lambda self, form, g, end: sympy.S.Zero),
        *(td.sum(td.exp(x) - x**3 / 6 - x**2), x, {"positive": x}),
    ),
    "a function has the sign of its value at an end": (
        *(Signs, "_derivative", lambda self, form, g: sympy.S.NegativeOne),
        *(td.sum(td.exp(x) - x**3), x, {"positive": x}),
    ),
}


@every("mutant", MUTANTS.values(), list(MUTANTS))
def test_mutants_are_caught(mutant, monkeypatch) -> None:
    module, name, wrong, function, wrt, domain = mutant
    assert not td.certify_convex(function, wrt, **domain)
    with monkeypatch.context() as patch:
        patch.setattr(module, name, wrong)
        assert td.certify_convex(function, wrt, **domain)


def test_indices_are_not_captured_where_sums_are_joined() -> None:
    by = affine_parts.Variables((x,))
    squares, logs = td.IndexedSum(x[j] ** 2, (j, 0, m - 1)), td.IndexedSum(td.log(1 + x[i] ** 2), (i, 0, m - 1))
    joined = td.IndexedSum(x[j] ** 2 + td.log(1 + x[j] ** 2), (j, 0, m - 1))
    assert affine_parts.merge_sums_over_equal_ranges(by, squares + logs) in (joined, joined.xreplace({j: i}))
    assert affine_parts.merge_sums_over_equal_ranges(
        by, squares + td.IndexedSum(td.log(1 + x[i] ** 2), (i, 0, m - 2))
    ).has(m - 2)
    for loss in (i * squares + logs, i * td.IndexedSum(x[i] ** 2, (i, 0, m - 1)) + squares, squares * logs):
        assert (
            affine_parts.merge_sums_over_equal_ranges(by, loss) == loss
            or i in affine_parts.merge_sums_over_equal_ranges(by, loss).free_symbols
        )


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
        (1 - s**2, {s: Interval(sympy.Integer(-1), sympy.Integer(1))}, ">"),
        (s - 2, {s: Interval(None, sympy.Integer(2))}, "<"),
        (sympy.log(1 + s**2), {}, ">="),
        (sympy.log(2 + s**2), {}, ">"),
        (sympy.sqrt(1 + s**2) - 1, {}, ">="),
        (1 / sympy.sqrt(1 + s**2) - s**2 / (1 + s**2) ** Rational(3, 2), {}, ">"),
        (2 + sympy.sin(s), {}, ">"),
        (1 - sympy.cos(s) ** 2, {}, ">="),
        (sympy.exp(2 * s) - 2 * sympy.exp(s) + 1, {}, ">="),
        (sympy.exp(s) - 1, {s: POSITIVE}, ">"),
        (sympy.exp(s) - 1, {}, None),
        (lam + p, {}, ">"),
        (lam - p, {}, None),
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
    with pytest.raises(ArgumentError, match="wrt contains a variable twice: x, x"):
        td.certify_convex(td.sum(x), (x, x))
    with pytest.raises(ArgumentTypeError, match=r"wrt contains exp\(x\), which is not a tensor symbol"):
        td.certify_convex(td.sum(x), td.exp(x))
    with pytest.raises(ArgumentTypeError, match="declare that of a tensor symbol or a symbol"):
        td.certify_convex(td.sum(x), x, positive=(x[0],))
    with pytest.raises(ArgumentTypeError, match=r"bounds of x are 1: give a pair \(low, high\)"):
        td.certify_convex(td.sum(x), x, bounds={x: 1})
    with pytest.raises(ArgumentTypeError, match="a bound of x is t: give a real number"):
        td.certify_convex(td.sum(x), x, bounds={x: (0, t)})
    with pytest.raises(ArgumentError, match="the domain of x from 1 to 1 has no interior: substitute its value"):
        td.certify_convex(td.sum(x), x, bounds={x: (1, 1)})


@pytest.mark.in_turns(4)
def test_random_functions(monkeypatch) -> None:
    seen = []
    for seed in range(7):
        try:
            convexity.check_convexity(seed)
            seen.append("right")
        except UnsupportedError:
            seen.append("refused")
    assert seen.count("right") > 5
    assert fuzz.check("convexity", 3).verdict == "right"
    with pytest.raises(UnsupportedError, match="is convex at all points that were tried: "):
        convexity.check_convexity(20)
    with monkeypatch.context() as patch:
        patch.setattr(convexity, "least_curvature", lambda *given: -1.0)
        with pytest.raises(DerivativeMismatch, match=r"is certified and has the relative curvature -1\.0"):
            convexity.check_convexity(28)
    # The oracle sees what is wrong: everything is certified.
    case = convexity.random_case(0)._replace(variables=(convexity.x,), bounds={}, positive=())
    assert convexity.least_curvature(case._replace(value=lambda v: -(v[convexity.x] ** 2).sum(-1)), 0) < -0.1
    assert convexity.least_curvature(case._replace(value=lambda v: -abs(v[convexity.x]).sum(-1)), 0) < -0.01
    assert convexity.least_curvature(case._replace(value=lambda v: (v[convexity.x] ** 2).sum(-1)), 0) > -1e-6
