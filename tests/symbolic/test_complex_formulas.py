"""Formulas of complex numbers: refused of what nobody has declared real, and never read as real ones."""

import re

import numpy as np
import pytest
import sympy
from every import every
from sympy import Abs, Function, I, IndexedBase, MatrixSymbol, Sum, Symbol, Trace, arg, conjugate, exp, im, sqrt

import sympy_tensordiff as td
from sympy_tensordiff.errors import UnsupportedError

i, p, N = *sympy.symbols("i p", integer=True), Symbol("N", integer=True, positive=True)
psi, phi, r = IndexedBase("psi", shape=N), IndexedBase("phi", shape=N), IndexedBase("r", shape=N, real=True)
z, c, x, f, g = Symbol("z"), Symbol("c", real=True), td.TensorSymbol("x", N), Function("f"), Function("g", real=True)
TWO = "or write two real tensors, one for the real part and one for the imaginary part"


def total(body):
    return Sum(body, (i, 0, N - 1))


REFUSED = {
    "conjugate": (lambda: td.diff(total(conjugate(psi[i]) * psi[i]), psi[p]), "conjugate(psi[i])", ["psi"]),
    "neighbours": (
        lambda: td.diff(Sum(conjugate(psi[i]) * psi[i + 1], (i, 0, N - 2)), psi[p]),
        "conjugate(psi[i])",
        ["psi"],
    ),
    "imaginary part": (lambda: td.gradient(total(im(psi[i])), psi), "im(psi[i])", ["psi"]),
    "real part": (lambda: td.lift(total(sympy.re(psi[i]) * phi[i])), "re(psi[i])", ["psi"]),
    "phase": (lambda: td.diff(total(arg(psi[i])), psi[p]), "arg(psi[i])", ["psi"]),
    "power": (lambda: td.diff(total(conjugate(psi[i] ** c)), psi[p]), "conjugate(psi[i]**c)", ["psi"]),
    "symbol": (lambda: td.diff(conjugate(z) * z, z), "conjugate(z)", ["z"]),
    "adjoint": (lambda: td.diff(sympy.adjoint(z) * z, z), "conjugate(z)", ["z"]),
    "whole base": (lambda: td.jacobian(conjugate(psi), psi), "conjugate(psi)", ["psi"]),
    "whole tensor": (lambda: sympy.re(z) * x, "re(z)", ["z"]),
    "in a template": (lambda: td.elementwise(lambda a: a * conjugate(z), x), "conjugate(z)", ["z"]),
    "around a sum": (lambda: td.lift(conjugate(total(z * r[i]))), "conjugate(z)", ["z"]),
    "in a sum of ours": (
        lambda: sympy.diff(td.IndexedSum(conjugate(z) * x[i], (i, 0, N - 1)), x[p]),
        "conjugate(z)",
        ["z"],
    ),
    "compiled": (lambda: td.lambdify([x, z], x[0] * im(z), "numpy"), "im(z)", ["z"]),
    "evaluated": (lambda: td.evaluate(x[0] * im(z), {x: [1.0], z: 2.0}), "im(z)", ["z"]),
    "function": (lambda: td.diff(conjugate(f(c)) * c, c), "conjugate(f(c))", ["f"]),
    "several": (lambda: td.diff(sympy.re(f(z), evaluate=False) * c, c), "re(f(z))", ["f", "z"]),
}


@every("name", list(REFUSED))
def test_refused(name):
    build, applied, names = REFUSED[name]
    with pytest.raises(UnsupportedError) as caught:
        build()
    message = str(caught.value)
    assert message.startswith(f"{applied} is about complex numbers, and tensors and scalars are real: declare "), (
        message
    )
    assert message.endswith(f"({names[-1]!r}, real=True), {TWO}"), message
    assert re.findall(r"\('(\w+)', real=True\)", message) == names


@every("body", [exp(2 * I * i / N) * psi[i], Abs(psi[i] + I * phi[i]) ** 2, I * psi[i]])
def test_the_imaginary_unit_names_the_bases(body):
    for build in (lambda: td.diff(total(body), psi[p]), lambda: td.IndexedSum(body, (i, 0, N - 1))):
        with pytest.raises(
            UnsupportedError, match=r"the body of .* is complex: .*IndexedBase\('psi', real=True\), or wri"
        ):
            build()
    real = r"is not a finite real number; tensors are real: "
    for build, message in (
        (lambda: td.diff(I * x[0], x[0]), f"the constant I {real}write two real tensors"),
        (lambda: I * td.sin(x), f"the operand I {real}write two real tensors"),
        (
            lambda: td.softmax(-sympy.oo * x),
            f"the operand -oo {real}td.where and Piecewise take it as the value of a branch",
        ),
    ):
        with pytest.raises(UnsupportedError, match=message):
            build()


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (conjugate(r[i]) * r[i] + im(r[i]), lambda r: 2 * r),
        (sympy.re(exp(I * r[i])), lambda r: -np.sin(r)),  # the cosine, which SymPy finds
        (c * im(exp(I * r[i] * c)), lambda r: 0.25 * np.cos(r / 2)),
        (sqrt(r[i]) * conjugate(sqrt(r[i])), np.ones_like),
        (Abs(psi[i]) ** 2, lambda r: 2 * r),
        (conjugate(g(r[i]), evaluate=False) * 0 + r[i], np.ones_like),
        (sympy.transpose(psi[i]), np.ones_like),
        (sympy.re(i) * conjugate(N) * r[i], lambda r: len(r) * np.arange(len(r))),
    ],
)
def test_what_is_declared_real(body, value):
    base = psi if body.has(psi) else r
    at = np.array([0.3, 1.2, 2.1])
    compiled = td.lambdify([base, c], td.gradient(total(body), base), "numpy")
    np.testing.assert_allclose(compiled(at, 0.5), value(at), rtol=1e-14)


def test_matrices_are_real():
    X = MatrixSymbol("X", 3, 3)
    assert td.diff(Trace(sympy.Adjoint(X) * X), X) == 2 * X
    with pytest.raises(UnsupportedError, match=re.escape("conjugate(z) is about complex numbers")):
        td.diff(Trace(sympy.Adjoint(z * X) * X), X)
