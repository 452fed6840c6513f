"""Whole tensors as a person would write them: products of matrices where they are, else index notation."""

import pytest
import sympy
from every import every
from sympy import Function, Rational, Symbol, latex, pretty, sin, srepr, symbols

import sympy_tensordiff as td
from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.symbolic.depth import TALLEST, measures

i, j, k, n, m = td.indices("i j k n m")
a, b = symbols("a b", real=True)
A, B, C = (td.TensorSymbol(name, (n, n)) for name in "ABC")
X = td.TensorSymbol("X", (n, m))
T = td.TensorSymbol("T", (n, n, n))
w = td.TensorSymbol("w", m)
x, y, z = (td.TensorSymbol(name, n) for name in "xyz")
t0 = Symbol("t0", real=True)
I = td.DeltaTensor(n)
s = td.sigmoid(X @ w)
p = td.softmax(x)
f = Function("f")
ein = td.einsum

# What is printed, as text and in LaTeX.
PRODUCTS = [
    (2 * ein("ij,i->j", X, X @ w - y), "2*X.T @ (X @ w - y)", r"2 X^{\top} \left(X w - y\right)"),
    (ein("ij,,i->j", X, 2, X @ w - y), "2*X.T @ (X @ w - y)", r"2 X^{\top} \left(X w - y\right)"),
    (ein("i,ij,j->", x, A, x), "x.T @ A @ x", r"x^{\top} A x"),
    (ein("ij,j->i", A + A.T, x), "(A + A.T) @ x", r"\left(A + A^{\top}\right) x"),
    (ein("i,i->", x, y), "x.T @ y", r"x^{\top} y"),
    (ein("i,i,i->", x, y, z), "sum(x*y*z)", r"\mathbf{1}^{\top} \left(x \odot y \odot z\right)"),
    (ein("i,j->ij", x, A @ y), "outer(x, A @ y)", r"x y^{\top} A^{\top}"),
    (ein("j,i->ij", x, x - y), "outer(x - y, x)", r"\left(x - y\right) x^{\top}"),
    (ein("i,j,jk->ik", x, y, A), "outer(x, A.T @ y)", r"x y^{\top} A"),
    (
        -ein("ji,j,kl,l->ik", td.inv(A), x, td.inv(A), y),
        "-outer(inv(A).T @ x, inv(A) @ y)",
        r"- A^{-\top} x y^{\top} A^{-\top}",
    ),
    (
        ein("ij,i,ik->jk", X, s * (1 - s), X),
        "X.T @ diag(sigmoid(X @ w)*(1 - sigmoid(X @ w))) @ X",
        r"X^{\top} \operatorname{diag}\left(\sigma\left(X w\right) \odot "
        r"\left(1 - \sigma\left(X w\right)\right)\right) X",
    ),
    (ein("ij,i,ik,k->j", X, y, X, w), "X.T @ (y*(X @ w))", r"X^{\top} \left(y \odot \left(X w\right)\right)"),
    (
        ein("i,ij,j,jk,k->", x, A, y, B, z),
        "x.T @ A @ diag(y) @ B @ z",
        r"x^{\top} A \operatorname{diag}\left(y\right) B z",
    ),
    (ein("ij,jk,kl->il", A, B, C), "A @ B @ C", "A B C"),
    ((A @ B) @ C, "A @ B @ C", "A B C"),
    (A @ (B @ x), "A @ (B @ x)", "A B x"),
    (ein("ij,ji->", A, B), "trace(A @ B)", r"\operatorname{tr}\left(A B\right)"),
    (ein("ij,ij->", A, B), "trace(A.T @ B)", r"\operatorname{tr}\left(A^{\top} B\right)"),
    (ein("ij,kj,ki->", A, B, C), "trace(A @ B.T @ C)", r"\operatorname{tr}\left(A B^{\top} C\right)"),
    (
        ein("ij,j,jk,ki->", A, x, B, C),
        "trace(A @ diag(x) @ B @ C)",
        r"\operatorname{tr}\left(A \operatorname{diag}\left(x\right) B C\right)",
    ),
    (ein("ij,ij,j->i", A, B, x), "(A*B) @ x", r"\left(A \odot B\right) x"),
    (ein("ij,ji->i", A, B), "sum(A*B.T, axis=1)", r"\left(A \odot B^{\top}\right) \mathbf{1}"),
    (
        ein("i,i,ij,j,j->", x, x, A, y, z),
        "(x*x).T @ A @ (y*z)",
        r"\left(x \odot x\right)^{\top} A \left(y \odot z\right)",
    ),
    (ein("ij,jk,ik->ik", A, B, C), "C*(A @ B)", r"C \odot \left(A B\right)"),
    (ein("ij,kj,ik,ki->ki", A, B, C, A), "C.T*A*(B @ A.T)", r"C^{\top} \odot A \odot \left(B A^{\top}\right)"),
    (ein("ij,jk,ik,k->i", A, B, C, x), "(C*(A @ B)) @ x", r"\left(C \odot \left(A B\right)\right) x"),
    (
        ein("jk,li,lk,lj->ij", A, B, C, A + 1),
        "B.T @ ((C @ A.T)*(A + 1))",
        r"B^{\top} \left(\left(C A^{\top}\right) \odot \left(A + \mathbf{1}_{n \times n}\right)\right)",
    ),
    (
        ein("ij,jk,k,ik->ik", A, B, x, C),
        "(C*(A @ B)) @ diag(x)",
        r"\left(C \odot \left(A B\right)\right) \operatorname{diag}\left(x\right)",
    ),
    (ein("ij,jk->ki", A.T, B.T), "B @ A", "B A"),
    (ein("ij,ij->ji", A.T, B.T), "A*B", r"A \odot B"),
    ((A @ B).T, "(A @ B).T", r"\left(A B\right)^{\top}"),
    (ein("i,i,j->j", x, y, z), "(x.T @ y)*z", r"\left(x^{\top} y\right) z"),
    (
        ein("ij,jk,jl,k,l->i", A, B, C, x, y),
        "A @ ((B @ x)*(C @ y))",
        r"A \left(\left(B x\right) \odot \left(C y\right)\right)",
    ),
    (td.sum(x), "sum(x)", r"\mathbf{1}^{\top} x"),
    (td.sum(A), "sum(A)", r"\mathbf{1}^{\top} A \mathbf{1}"),
    (td.sum(X, axis=0), "sum(X, axis=0)", r"X^{\top} \mathbf{1}"),
    (td.sum(X, axis=1), "sum(X, axis=1)", r"X \mathbf{1}"),
    (ein("i,ij->", x, A), "x.T @ sum(A, axis=1)", r"x^{\top} A \mathbf{1}"),
    (ein("ij,jk->i", A, B), "A @ sum(B, axis=1)", r"A B \mathbf{1}"),
    (td.trace(A), "trace(A)", r"\operatorname{tr}\left(A\right)"),
    (td.diag(x), "diag(x)", r"\operatorname{diag}\left(x\right)"),
    (
        ein("ij,j->ij", I, p),
        "diag(softmax(x))",
        r"\operatorname{diag}\left(\operatorname{softmax}\left(x\right)\right)",
    ),
    (td.diag(A), "diag(A)", r"\operatorname{diag}\left(A\right)"),
    (
        ein("ij,i,j->ij", A, x, y),
        "diag(x) @ A @ diag(y)",
        r"\operatorname{diag}\left(x\right) A \operatorname{diag}\left(y\right)",
    ),
    (
        td.sum(y) * (td.diag(p) - td.outer(p, p)),
        "sum(y)*(diag(softmax(x)) - outer(softmax(x), softmax(x)))",
        r"\left(\mathbf{1}^{\top} y\right) \left("
        r"\operatorname{diag}\left(\operatorname{softmax}\left(x\right)\right) - "
        r"\operatorname{softmax}\left(x\right) \operatorname{softmax}\left(x\right)^{\top}\right)",
    ),
    (td.outer(x, td.ones(m)), "outer(x, ones(m))", r"x \mathbf{1}^{\top}"),
    (td.inv(A).T, "inv(A).T", r"A^{-\top}"),
    (td.inv(A + B) @ x, "inv(A + B) @ x", r"\left(A + B\right)^{-1} x"),
    (ein("ij->ij", A), "A", "A"),
    ((A @ B)[i, j], "(A @ B)[i, j]", r"\left(A B\right)_{i j}"),
    ((A + B)[i, j], "(A + B)[i, j]", r"\left(A + B\right)_{i j}"),
]
ELEMENTWISE = [
    (A * B, "A*B", r"A \odot B"),
    (x * (A @ y), "x*(A @ y)", r"x \odot \left(A y\right)"),
    (A**2, "A**2", r"A^{\odot 2}"),
    (2**x, "2**x", r"2^{\odot x}"),
    ((x + y) ** z, "(x + y)**z", r"\left(x + y\right)^{\odot z}"),
    (1 / x, "1/x", r"\frac{1}{x}"),
    (1 / A, "1/A", r"A^{\odot -1}"),
    (x / y, "x/y", r"\frac{x}{y}"),
    (x / (y * z), "x/(y*z)", r"\frac{x}{y \odot z}"),
    (A / B, "A/B", r"A \oslash B"),
    (a * x / y**2, "a*x/y**2", r"a \frac{x}{y^{\odot 2}}"),
    (1 / td.sqrt(x), "1/sqrt(x)", r"\frac{1}{\sqrt{x}}"),
    (-A, "-A", "- A"),
    (A - B, "A - B", "A - B"),
    (-A - B, "-A - B", "- A - B"),
    (A - (B - C), "A - (B - C)", r"A - \left(B - C\right)"),
    (A + (B + C), "A + B + C", "A + B + C"),
    (1 - x, "1 - x", "1 - x"),
    (x + a - 2, "x + a - 2", "x + a - 2"),
    (A + 1, "A + 1", r"A + \mathbf{1}_{n \times n}"),
    (I - 1 / n, "DeltaTensor(n) - 1/n", r"I - \frac{1}{n} \mathbf{1}_{n \times n}"),
    (Rational(2, 3) * x, "2*x/3", r"\frac{2}{3} x"),
    (-2 * x, "-2*x", "- 2 x"),
    (1.5 * x, "1.5*x", "1.5 x"),
    (2 * a * x / (3 * b), "2*a*x/(3*b)", r"\frac{2 a}{3 b} x"),
    ((a + b) * x, "(a + b)*x", r"\left(a + b\right) x"),
    (td.det(A) * x, "det(A)*x", r"\det\left(A\right) x"),
    (x / td.norm(x), "x/sqrt(x.T @ x)", r"\frac{x}{\sqrt{x^{\top} x}}"),
    (
        td.IndexedSum(x[k], (k, 0, n - 1)) * y,
        "IndexedSum(x[k], (k, 0, n - 1))*y",
        r"\left(\sum_{k=0}^{n - 1} x_{k}\right) y",
    ),
    (td.exp(-(x**2)), "exp(-x**2)", r"\exp\left(- x^{\odot 2}\right)"),
    (td.abs(x), "abs(x)", r"\left|{x}\right|"),
    (td.sqrt(x), "sqrt(x)", r"\sqrt{x}"),
    (td.elementwise(sympy.sqrt, x), "sqrt(x)", r"\sqrt{x}"),
    (td.maximum(x, y, 0), "maximum(x, y, 0)", r"\max\left(x, y, 0\right)"),
    (td.relu(A @ x), "relu(A @ x)", r"\operatorname{relu}\left(A x\right)"),
    (td.maximum(x, y), "maximum(x, y)", r"\max\left(x, y\right)"),
    (td.minimum(x, 1), "minimum(x, 1)", r"\min\left(x, 1\right)"),
    (td.elementwise(lambda t: sympy.Max(t, 1), x), "maximum(x, 1)", r"\max\left(x, 1\right)"),
    (td.softplus(x), "softplus(x)", r"\operatorname{softplus}\left(x\right)"),
    (td.ceiling(x), "ceiling(x)", r"\left\lceil{x}\right\rceil"),
    (td.elementwise(f, x), "elementwise(f, x)", r"f\left(x\right)"),
    (
        td.elementwise(sympy.Lambda(t0, f(t0).diff(t0, 2)), x),
        "elementwise(lambda t0: Derivative(f(t0), (t0, 2)), x)",
        r"f''\left(x\right)",
    ),
    (
        td.elementwise(lambda t: t * sin(t), x),
        "elementwise(lambda t0: t0*sin(t0), x)",
        r"\left( t_{0} \mapsto t_{0} \sin{\left(t_{0} \right)} \right)\left(x\right)",
    ),
]
POSITIVE = sympy.Piecewise((1, t0 > 0), (0, True))
FUNCTIONS = [
    (
        td.elementwise(sympy.Lambda(t0, POSITIVE), A @ x),
        "elementwise(lambda t0: Piecewise((1, t0 > 0), (0, True)), A @ x)",
        r"\left[A x > 0\right]",
    ),
    (td.logsumexp(x), "logsumexp(x)", r"\operatorname{logsumexp}\left(x\right)"),
    (td.logsumexp(T, axis=(0, 2)), "logsumexp(T, axis=(0, 2))", r"\operatorname{logsumexp}_{0, 2}\left(T\right)"),
    (td.softmax(X, axis=0), "softmax(X, axis=0)", r"\operatorname{softmax}_{0}\left(X\right)"),
    (td.softmax(X), "softmax(X, axis=1)", r"\operatorname{softmax}_{1}\left(X\right)"),
    (td.softmax(X, axis=None), "softmax(X, axis=None)", r"\operatorname{softmax}\left(X\right)"),
    (td.softmax(x + y), "softmax(x + y)", r"\operatorname{softmax}\left(x + y\right)"),
    (
        td.exp(x - td.logsumexp(y)),
        "exp(x - logsumexp(y))",
        r"\exp\left(x - \operatorname{logsumexp}\left(y\right)\right)",
    ),
    (
        td.exp(A - td.einsum("i,j->ji", td.logsumexp(A, axis=1), td.ones(n))),
        "exp(A - logsumexp(A, axis=1))",
        r"\exp\left(A - \mathbf{1} \operatorname{logsumexp}_{1}\left(A\right)^{\top}\right)",
    ),
    (sympy.log(td.det(A)), "log(det(A))", r"\log{\left(\det\left(A\right) \right)}"),
    (td.adj(A).T, "adj(A).T", r"\operatorname{adj}\left(A\right)^{\top}"),
    (td.TensorCofactor(2, A), "TensorCofactor(2, A)", r"\operatorname{cof}_{2}\left(A\right)"),
    (td.ones((n, m)), "ones((n, m))", r"\mathbf{1}_{n \times m}"),
    (td.zeros(n), "zeros(n)", r"\mathbf{0}"),
    (td.FilledTensor(a, n), "a*ones(n)", r"a \mathbf{1}"),
    (I, "DeltaTensor(n)", "I"),
    (td.DeltaTensor((n, m)), "DeltaTensor((n, m))", r"\mathbb{I}_{n \times m}"),
    (td.DeltaTensor(()), "DeltaTensor(())", "1"),
]
INDEXED = [
    (
        ein("ijk,j,k->i", T, x, x),
        "EinsumProduct('ijk,j,k->i', T, x, x)",
        r"\left[\sum_{j, k} T_{i j k} x_{j} x_{k}\right]_{i}",
    ),
    (
        ein("ijk,i,j,k->", T, x, x, x),
        "EinsumProduct('ijk,i,j,k->', T, x, x, x)",
        r"\sum_{i, j, k} T_{i j k} x_{i} x_{j} x_{k}",
    ),
    (3 * ein("iij,j->", T, x), "3*EinsumProduct('iij,j->', T, x)", r"3 \sum_{i, j} T_{i i j} x_{j}"),
    (
        ein("ijk,kl->ijl", T, A + B),
        "EinsumProduct('ijk,kl->ijl', T, A + B)",
        r"T *_{\left(ijk, kl \to ijl\right)} \left(A + B\right)",
    ),
    (ein("ijk,k->ij", -2 * T, x), "-2*EinsumProduct('ijk,k->ij', T, x)", r"- 2 T *_{\left(ijk, k \to ij\right)} x"),
    (
        ein("ijk,k->ij", T, x) @ y,
        "EinsumProduct('ijk,k->ij', T, x) @ y",
        r"\left(T *_{\left(ijk, k \to ij\right)} x\right) y",
    ),
    (
        ein("ijk,j,k->i", ein("ijk->kij", T), x, x),
        "EinsumProduct('ijk,j,k->i', EinsumProduct('ijk->kij', T), x, x)",
        r"\left[\sum_{j, k} \left(\left[T_{i j k}\right]_{k i j}\right)_{i j k} x_{j} x_{k}\right]_{i}",
    ),
    (
        ein("ijk,ij,k->i", T, td.zeros((n, n)), x),
        "EinsumProduct('ijk,ij,k->i', T, zeros((n, n)), x)",
        r"\left[\sum_{j, k} T_{i j k} \left(\mathbf{0}_{n \times n}\right)_{i j} x_{k}\right]_{i}",
    ),
    (
        ein("ijk,kj->i", T, td.outer(x, y)),
        "EinsumProduct('ijk,k,j->i', T, x, y)",
        r"\left[\sum_{j, k} T_{i j k} x_{k} y_{j}\right]_{i}",
    ),
    (ein("ijk->kij", T), "EinsumProduct('ijk->kij', T)", r"\left[T_{i j k}\right]_{k i j}"),
    (td.sum(T), "sum(T)", r"\sum_{i, j, k} T_{i j k}"),
    (td.sum(T, axis=1), "sum(T, axis=1)", r"\left[\sum_{j} T_{i j k}\right]_{i k}"),
    (td.sum(T, axis=(0, 2)), "sum(T, axis=(0, 2))", r"\left[\sum_{i, k} T_{i j k}\right]_{j}"),
    (ein("ijk,ijk->ijk", T, T), "T*T", r"T \odot T"),
    (
        ein("ik,jl->ijkl", I, A),
        "EinsumProduct('ik,jl->ijkl', DeltaTensor(n), A)",
        r"\left[\delta_{i k} A_{j l}\right]_{i j k l}",
    ),
    (
        ein("ijkl,kl->ij", td.DeltaTensor((n, m)), X),
        "EinsumProduct('ijkl,kl->ij', DeltaTensor((n, m)), X)",
        r"\left[\sum_{k, l} \delta_{i k} \delta_{j l} X_{k l}\right]_{i j}",
    ),
    (
        ein("ij,jk,kl,li->j", A, B, C, A),
        "sum((A @ A).T*(B @ C), axis=1)",
        r"\left(\left(A A\right)^{\top} \odot \left(B C\right)\right) \mathbf{1}",
    ),
    (
        ein("ij,ik,il,jk,kl,lj->i", A, B, C, A, B, C),
        "EinsumProduct('ij,ik,il,jk,kl,lj->i', A, B, C, A, B, C)",
        r"\left[\sum_{j, k, l} A_{i j} B_{i k} C_{i l} A_{j k} B_{k l} C_{l j}\right]_{i}",
    ),
    (
        ein("jnk,nk,->j", T, A, x[k]),
        "x[k]*EinsumProduct('jnk,nk->j', T, A)",
        r"x_{k} T *_{\left(jnk, nk \to j\right)} A",
    ),
    (
        ein("ikl,k,l->i", T, td.TensorComprehension(x[j] * k, (j, n)), y),
        "EinsumProduct('ikl,k,l->i', T, TensorComprehension(k*x[j], (j, n)), y)",
        r"\left[\sum_{m, l} T_{i m l} \left(\left[k x_{j}\right]_{j < n}\right)_{m} y_{l}\right]_{i}",
    ),
    (
        ein("ijk,i,k->j", T, x**2, td.exp(y)),
        "EinsumProduct('ijk,i,k->j', T, x**2, exp(y))",
        r"\left[\sum_{i, k} T_{i j k} \left(x^{\odot 2}\right)_{i} \exp\left(y\right)_{k}\right]_{j}",
    ),
    (
        ein("ijk,ik,k->j", T, td.softmax(A, axis=1), td.exp(x**2)),
        "EinsumProduct('ijk,ik,k->j', T, softmax(A, axis=1), exp(x**2))",
        r"\left[\sum_{i, k} T_{i j k} \left(\operatorname{softmax}_{1}\left(A\right)\right)_{i k} "
        r"\exp\left(x^{\odot 2}\right)_{k}\right]_{j}",
    ),
    (
        ein("ijk,ikl,l->j", T, ein("ij,ik->ijk", A, B), x),
        "EinsumProduct('ijk,ikl,l->j', T, EinsumProduct('ij,ik->ijk', A, B), x)",
        r"\left[\sum_{i, k, l} T_{i j k} \left(A *_{\left(ij, ik \to ijk\right)} B\right)_{i k l} x_{l}\right]_{j}",
    ),
]
EVERYTHING = PRODUCTS + ELEMENTWISE + FUNCTIONS + INDEXED


@every("expr, text, formula", EVERYTHING, ids=[text for _, text, _ in EVERYTHING])
def test_text_and_latex(expr, text, formula):
    assert str(expr) == repr(expr) == text
    assert latex(expr) == formula
    assert expr._repr_latex_() == rf"$\displaystyle {formula}$"


NATIVE = [
    (2 * ein("i,ij,j->", x, A, x), "2*(x.T @ A @ x)", r"2 x^{\top} A x"),
    (ein("i,i->", x, y) * td.sum(z), "sum(z)*(x.T @ y)", r"\left(\mathbf{1}^{\top} z\right) x^{\top} y"),
    (ein("i,i->", x, y) ** 2, "(x.T @ y)**2", r"\left(x^{\top} y\right)^{2}"),
    (1 / ein("i,i->", x, y), "1/(x.T @ y)", r"\frac{1}{x^{\top} y}"),
    (1 - ein("i,i->", x, y), "1 - (x.T @ y)", r"1 - x^{\top} y"),
    (td.sum(T) * a, "a*sum(T)", r"a \sum_{i, j, k} T_{i j k}"),
    (
        td.sum(T) * td.trace(A),
        "trace(A)*sum(T)",
        r"\operatorname{tr}\left(A\right) \sum_{i, j, k} T_{i j k}",
    ),
    (
        td.sum(T) * td.sum(T**2),
        "sum(T)*sum(T**2)",
        r"\left(\sum_{i, j, k} T_{i j k}\right) \sum_{i, j, k} \left(T^{\odot 2}\right)_{i j k}",
    ),
]


@every("expr, text, formula", NATIVE, ids=[text for _, text, _ in NATIVE])
def test_scalars_in_expressions_of_sympy(expr, text, formula):
    """Sympy orders the factors of a product by its own rules."""
    assert str(expr) == text
    assert latex(expr) == formula


t1 = sympy.Symbol("t1", real=True)
CHOICE = td.elementwise(sympy.Lambda((t0, t1), sympy.Piecewise((t1, t0 > 0), (0, True))), x, 1 / y)
CASES = r"\begin{cases} \frac{1}{y} & \text{for}\: x > 0 \\ 0 & \text{otherwise} \end{cases}"


@every(
    "expr, formula",
    [
        (CHOICE, CASES),
        (x - 2 * CHOICE, rf"x - 2 \left({CASES}\right)"),
        (CHOICE + x, rf"x + \left({CASES}\right)"),
        (td.exp(CHOICE), rf"\exp\left({CASES}\right)"),
        (CHOICE / x, rf"\frac{{{CASES}}}{{x}}"),
        (CHOICE**2, rf"\left({CASES}\right)^{{\odot 2}}"),
        (
            td.elementwise(
                sympy.Lambda((t0, t1), sympy.Piecewise((t1, t0 >= 1), (2, t0 < 0), (t0, True))), x, td.exp(y)
            ),
            r"\begin{cases} \exp\left(y\right) & \text{for}\: x \geq 1 \\ 2 & \text{for}\: x < 0 \\ "
            r"x & \text{otherwise} \end{cases}",
        ),
        (
            td.elementwise(sympy.Lambda((t0, t1), sympy.Piecewise((t1, t0 > 0), (-t1, True))), x, y),
            r"\left( \left( t_{0}, \  t_{1}\right) \mapsto \begin{cases} t_{1} & \text{for}\: t_{0} > 0 \\- t_{1} & "
            r"\text{otherwise} \end{cases} \right)\left(x, y\right)",
        ),
    ],
    ids=str,
)
def test_choices_between_arguments(expr, formula):
    """Text is Python and keeps the function; formulas have its cases with the arguments in them."""
    assert "elementwise(lambda t0, t1: Piecewise(" in str(expr)
    assert latex(expr) == formula


@every("expr", [expr for expr, _, _ in EVERYTHING + NATIVE])
def test_srepr_gives_the_object_back(expr):
    names: dict = {}
    exec("from sympy import *\nfrom sympy_tensordiff import *", names)
    assert eval(srepr(expr), names) == expr


def test_words_do_not_touch():
    """Roman letters that touch others read as one word."""
    core, keys, A = (td.TensorSymbol(name, (3, 3)) for name in ("core", "keys", "A"))
    assert latex(A @ A @ core.T @ keys @ A) == r"A A \, \mathrm{core}^{\top} \, \mathrm{keys} \, A"


def test_a_sum_over_ones_is_more_than_a_repetition():
    summed = ein("axb,b->ab", td.ones((n, m, n)), x)
    assert str(summed / 2) == "EinsumProduct('axb,b->ab', ones((n, m, n)), x)/2"
    assert str(A + summed) == "A + EinsumProduct('axb,b->ab', ones((n, m, n)), x)"
    assert str(A + ein("axb,b->ab", td.ones((n, 1, n)), x)) == "A + x"


def test_latex_is_typeset():
    """Every command and bracket is one that a typesetter knows."""
    mathtext = pytest.importorskip("matplotlib.mathtext")
    parser = mathtext.MathTextParser("path")
    for expr, _, formula in EVERYTHING + NATIVE:
        assert parser.parse(f"${formula}$").width > 0, expr


def drawn(expr, **settings):
    return [line.rstrip() for line in pretty(expr, **{"use_unicode": True, **settings}).splitlines()]


PRETTY = [
    (
        2 * ein("ij,i->j", X, X @ w - y),
        """
   T
2⋅X ⋅(X⋅w - y)
""",
    ),
    (
        td.sum(y) * (td.diag(p) - td.outer(p, p)),
        """
       ⎛                                        T⎞
sum(y)⋅⎝diag(softmax(x)) - softmax(x)⋅softmax(x) ⎠
""",
    ),
    (
        -ein("ji,j,kl,l->ik", td.inv(A), x, td.inv(A), y),
        """
  -T    T  -T
-A  ⋅x⋅y ⋅A
""",
    ),
    (
        a * x / y**2,
        """
a⋅x
───
 ⊙2
y
""",
    ),
    (
        x / td.norm(x),
        """
    x
─────────
   ______
  ╱  T
╲╱  x ⋅x
""",
    ),
    (
        ein("ijk,j,k->i", T, x, x) - y,
        """
⎡ ∑   T[i, j, k]⋅x[j]⋅x[k]⎤  - y
⎣j, k                     ⎦
                           i
""",
    ),
    (
        ein("ik,jl->ijkl", I, A),
        """
[δ[i, k]⋅A[j, l]]
                 i, j, k, l
""",
    ),
    (
        td.IndexedSum(x[k], (k, 0, 1)) * y,
        """
⎛  1       ⎞
⎜ ___      ⎟
⎜ ╲        ⎟
⎜  ╲       ⎟
⎜  ╱   x[k]⎟⋅y
⎜ ╱        ⎟
⎜ ‾‾‾      ⎟
⎝k = 0     ⎠
""",
    ),
    (td.elementwise(sympy.Lambda(t0, POSITIVE), A @ x), "[A⋅x > 0]"),
    (1 - A * B, "𝟙 - A⊙B"),
    (
        x - CHOICE,
        """
    ⎛⎧1           ⎞
    ⎜⎪─  for x > 0⎟
    ⎜⎨y           ⎟
x - ⎜⎪0  otherwise⎟
    ⎝⎩            ⎠
""",
    ),
    (td.abs(x) + td.exp(y), "exp(y) + │x│"),
    ((A @ B)[i, j], "(A⋅B)[i, j]"),
    (td.softmax(X, axis=0), "softmax(X, axis=0)"),
]


@every("expr, shown", PRETTY, ids=[str(expr) for expr, _ in PRETTY])
def test_pretty(expr, shown):
    assert drawn(expr) == shown.strip("\n").splitlines()


def test_pretty_in_ascii():
    assert drawn(1 - A * B.T, use_unicode=False) == ["        T", "1 - A.*B"]
    assert drawn(ein("ijk,il->jkl", T, I), use_unicode=False) == [
        "[Sum T[i, j, k]*delta[i, l]]",
        "[ i                        ]",
        "                            j, k, l",
    ]


def test_no_printer_fails():
    for expr, _, _ in EVERYTHING + NATIVE:
        for printer in (pretty, sympy.dotprint, lambda e: pretty(e, use_unicode=False)):
            assert printer(expr)


STEPS = {
    "functions": td.sin,
    "sums": lambda e: td.cos(e) + x,
    "products": lambda e: e * x,
    "matrix products": lambda e: A @ e,
    "signs": lambda e: -(td.cos(e) + x),
    "scalars of SymPy's": lambda e: sin(ein("i,i->", e, x)) * x,
    "inverses": lambda e: td.inv(td.diag(e)) @ x,
    "index notation": lambda e: ein("i,jk,k,kj->i", e, A, x, A),
}


def last_printable(step):
    expr = x
    while measures(step(expr)).depth <= TALLEST:
        expr = step(expr)
    return expr


@every("name", [*STEPS])
def test_the_deepest_that_is_printed(name):
    """No printer overflows the stack below the depth at which all refuse."""
    expr = last_printable(STEPS[name])
    for printer in (str, latex, pretty, srepr):
        assert len(printer(expr)) > 70
    taller = STEPS[name](STEPS[name](expr))
    assert "too much to print" in str(taller)
    for printer in (latex, pretty, srepr):
        with pytest.raises(UnsupportedError, match="that is too much to print"):
            printer(taller)


def test_shared_graphs_are_not_written_out():
    expr = x
    for _ in range(40):
        expr = td.sin(expr) * td.cos(expr) + expr
    assert "nodes as a tree, too much to print" in str(expr)
    assert "too much to print" in str(2 * td.sum(expr))
    for printer in (latex, pretty, srepr):
        with pytest.raises(UnsupportedError, match="that is too much to print"):
            printer(td.sum(expr) ** 2)
