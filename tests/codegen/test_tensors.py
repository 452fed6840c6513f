"""Kernels of whole tensors: values, memory orders, errors, generated text."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import sympy
import tensor_cases
from every import every
from tensor_cases import MATRICES, A, B, S, cases, check, check_together, lam, m, n, p, values, x, y

import sympy_tensordiff as td
from sympy_tensordiff.codegen.ir.programs import ContractionStep
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.errors import ArgumentError, OutOfShapeError, SingularMatrixError, UnsupportedError

BACKENDS = ("numpy", "numba")
AB = td.einsum("ij,jk->ik", A, B)
V = values()


# Together with the programs built by hand, these hold every construct inside of another one (which operator, call,
# condition, loop or read is in which) that the text for Numba of any case holds. All run as plain Python.
COMPILED = [
    *("iji,ij->", "ijk,jil->kl", "bij,bj->bi", "abc,abc,ab,c->a", "bij,bkj->bik", "ij,ik,il->jkl", "iij,j->i"),
    *("iij,kj->ki", "bij,bij->b", "ijb,ijb->b", "a delta", "functions", "a product of functions"),
    *("a part of a product", "a multiple in between", "a scalar and a residual", "a norm", "a softmax", "a mean"),
    *("inverse", "transposed inverse", "multiple of a solution", "from the other side", "of many columns"),
    *("two inverses and a vector", "trace of a solution", "determinant", "logarithm", "logarithm of a square"),
    *("adjugate of a multiple", "multiple of a derivative", "cofactor of order 2"),
]


@every("name", [*cases()], turns=8)
def test_cases(name):
    check(name, "numpy")


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("group", range(3))
def test_compiled_cases(group):
    """Several in one kernel: what they all need is compiled once."""
    check_together(COMPILED[group::3][::2], "numba")


@every("name", [*cases()][1::2], turns=8)
def test_cases_as_python(name, simulator):
    simulator(check, name, "numba")


@every("name", [*cases()], turns=8)
def test_float32_stays(name):
    check(name, "numpy", np.float32)


@every("name", ["ij,jk->ki", "bij,bkj->bik", "a softmax", "solution", "cofactor of order 2", "sigmoid"], turns=8)
def test_compiled_float32_stays(name):
    check(name, "numba", np.float32)


@every("name", [name for name in cases() if name not in MATRICES][::2], turns=8)
def test_cases_on_cuda(name, simulator):
    simulator(check, name, "cuda")


@pytest.mark.in_turns(3)
@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize(("backend", "times"), [("numpy", 30), ("numba", 2)])
def test_random_products(backend, times):
    """Any labels on up to four operands, against NumPy."""
    rng = np.random.default_rng(5)
    lengths = dict(zip("abcde", (2, 3, 4, 5, 1), strict=True))
    for _ in range(times):
        inputs = ["".join(rng.choice(list("abcde"), rng.integers(0, 4))) for _ in range(rng.integers(1, 5))]
        used = sorted(set("".join(inputs)))
        output = "".join(rng.permutation([label for label in used if rng.random() < 0.4]))
        subscripts = f"{','.join(inputs)}->{output}"
        shapes = [tuple(lengths[label] for label in labels) for labels in inputs]
        symbols = [td.TensorSymbol(f"X{number}", shape) for number, shape in enumerate(shapes)]
        arrays = [rng.standard_normal(shape) for shape in shapes]
        function = td.lambdify(symbols, td.einsum(subscripts, *symbols), backend)
        np.testing.assert_allclose(function(*arrays), np.einsum(subscripts, *arrays), rtol=1e-11, atol=1e-11)


# ---------------------------------------------------------------------------- arguments and results


@pytest.mark.usefixtures("uncompiled")
@every("backend", BACKENDS)
@every("subscripts", ["ij,jk->ik", "ij,jk->ki", "ij,jk->", "ij,jk->ijk"])
def test_any_memory_order(backend, subscripts):
    function = td.lambdify([A, B], td.einsum(subscripts, A, B), backend)
    a, b = V["A"], V["B"]
    wanted = np.einsum(subscripts, a, b)
    spread = np.zeros((6, 8))[::2, ::2]
    spread[...] = a
    for first, second in [(np.asfortranarray(a), np.asfortranarray(b)), (spread, b[::-1][::-1]), (a.tolist(), b)]:
        np.testing.assert_allclose(function(first, second), wanted)
    out = np.full(wanted.shape, np.nan, order="F")
    assert function(a, b, out=out) is out
    np.testing.assert_allclose(out, wanted)
    with pytest.raises(ArgumentError, match="shares memory with argument A"):
        td.lambdify([A], td.exp(A), backend)(a, out=a)


@pytest.mark.parametrize("backend", BACKENDS)
def test_wrong_arguments(backend):
    function = td.lambdify([A, B], AB, backend)
    with pytest.raises(ArgumentError, match="argument B has length 3 on axis 0, expected 4, which is m with m = 4"):
        function(V["A"], np.ones((3, 5)))
    with pytest.raises(ArgumentError, match="argument B has length 3 on axis 0, expected 0, which is m with m = 0"):
        function(np.ones((3, 0)), np.ones((3, 5)))
    with pytest.raises(ArgumentError, match="add it to args"):
        td.lambdify([A], AB, backend)


def test_several_results_share_arrays():
    function = td.lambdify([A, B], (AB, td.einsum("ij->ji", AB), td.sum(AB), AB, A), "numpy")
    assert function.source.count("np.matmul(") == 1
    ab = V["A"] @ V["B"]
    for found, wanted in zip(function(V["A"], V["B"]), (ab, ab.T, ab.sum(), ab, V["A"]), strict=True):
        np.testing.assert_allclose(found, wanted)


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("backend", BACKENDS)
def test_pickling(backend):
    function = pickle.loads(pickle.dumps(td.lambdify([S, x], td.einsum("ij,j->i", td.inv(S), td.exp(x)), backend)))
    np.testing.assert_allclose(function(V["S"], V["x"]), np.linalg.solve(V["S"], np.exp(V["x"])))


def test_an_axis_that_may_be_empty():
    i = td.indices("i")
    inner = td.TensorComprehension(x[i] * x[i + 2], (i, n - 2))
    function = td.lambdify([x], td.einsum("i,j->", inner, inner), "numpy")
    assert function(np.array([1.0, 2, 3])) == 9
    assert function(np.array([1.0, 2])) == 0
    function = td.lambdify([x], td.logsumexp(inner), "numpy")
    assert function(np.array([1.0, 2, 3])) == 3
    with pytest.raises(ArgumentError, match="with n = 2: logsumexp has no value where an axis has no entries"):
        function(np.array([1.0, 2]))
    message = r"would have an axis of length n - 2, which is not positive: -1 \(n = 1 from axis 0 of x\)"
    with pytest.raises(OutOfShapeError, match=message):
        function(np.array([1.0]))


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("backend", BACKENDS)
def test_any_names(backend):
    """Names of the module's own and of its temporaries are nobody's."""
    t, solve, result = td.TensorSymbol("t", (n, n)), td.TensorSymbol("solve", n), td.TensorSymbol("result", (n, m))
    i0, total = td.TensorSymbol("i0", (n, m)), td.TensorSymbol("logsumexp", n)
    exprs = (
        td.einsum("ij,j->i", td.inv(t), td.exp(solve)),
        td.TensorMul(td.einsum("ij,jk->ik", t, result), i0),
        td.TensorAdd(td.logsumexp(td.TensorAdd(i0, result), axis=1), total),
    )
    found = td.lambdify([t, solve, result, i0, total], exprs, backend)(V["S"], V["x"], V["A"], V["D"], V["x"] / 2)
    np.testing.assert_allclose(found[0], np.linalg.solve(V["S"], np.exp(V["x"])))
    np.testing.assert_allclose(found[1], (V["S"] @ V["A"]) * V["D"])
    np.testing.assert_allclose(found[2], np.log(np.exp(V["A"] + V["D"]).sum(1)) + V["x"] / 2)


# ---------------------------------------------------------------------------- inverses and determinants


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_singular_matrix_is_named(backend):
    zero = np.zeros((3, 3))
    with pytest.raises(SingularMatrixError, match="the matrix S is singular: it has no inverse"):
        td.lambdify([S], td.inv(S), backend)(zero)
    shifted = td.inv(td.TensorAdd(S, td.DeltaTensor((n,))))
    with pytest.raises(SingularMatrixError, match=r"the matrix t \(see .plan\) is singular"):
        td.lambdify([S, x], td.einsum("ij,j->i", shifted, x), backend)(-np.eye(3), V["x"])


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_conditions_keep_out_is_computed(backend):
    """An inverse is computed, or refused, before any condition is looked at; a determinant of 0 is not an error."""
    positive = lam > 0
    inverse = td.TensorComprehension(sympy.Piecewise((td.inv(S)[i, 0], positive), (x[i], True)), (i, n))
    function = td.lambdify([S, x, lam], inverse, backend)
    zero = np.zeros((3, 3))
    for chosen in (1, -1):
        with pytest.raises(SingularMatrixError, match="the matrix S is singular: it has no inverse"):
            function(zero, V["x"], chosen)
    np.testing.assert_allclose(function(np.eye(3), V["x"], -1), V["x"])
    determinant = sympy.Piecewise((1 / td.det(S) + td.log(td.det(S)), positive), (lam, True))
    assert td.lambdify([S, lam], determinant, backend)(zero, -1) == -1


def test_a_determinant_that_no_float_can_hold():
    size = 400
    big = np.diag(np.full(size, 1e3))
    X = td.TensorSymbol("X", (size, size))
    assert td.lambdify([X], td.log(td.det(X)), "numpy")(big) == pytest.approx(size * np.log(1e3))
    assert np.isnan(td.lambdify([S], td.log(td.det(S)), "numba")(-np.eye(3)))
    assert td.lambdify([S], td.log(td.det(S)), "numba")(np.zeros((3, 3))) == -np.inf


def test_not_a_number_stays_one():
    s = V["S"].copy()
    s[0, 1] = np.nan
    for expr in (td.adj(S), td.det(S), td.log(td.det(S)), td.logsumexp(S), td.einsum("ij,j->i", td.inv(S), x)):
        assert np.isnan(td.lambdify([S, x], expr, "numpy")(s, V["x"])).any()


@every("name", [*MATRICES])
def test_cuda_has_no_matrix_functions(name):
    expr = MATRICES[name][0]
    with pytest.raises(
        UnsupportedError, match="without a library for matrices, which there is none of on a CUDA device"
    ):
        td.generate_code(tensor_cases.arguments_of(expr), expr, "cuda")


# ---------------------------------------------------------------------------- numbers near the limits


# In single precision exponentials overflow where those in double precision do, and far earlier. The logistic loss is
# compiled at such margins in `test_einsum_cases`.
@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize(
    ("backend", "dtype"), [("numpy", np.float64), ("numpy", np.float32), ("numba", np.float32)], ids=str
)
def test_large_margins(backend, dtype):
    """The logistic functions and losses at a thousand, where an exponential overflows."""
    far = np.array([[1000.0, -1000, 50, 0], [-1000, 0, 1000, 1], [1000, 999, 998, -1000]], dtype)
    forms = (td.sigmoid(A), td.softplus(A), td.softmax(A), td.logsumexp(A), td.log(td.softmax(A)))
    loss = td.sum(td.softplus(td.TensorMul(-1, y, td.einsum("ij,i->j", A, x))))
    results = (*forms, loss, td.gradient(loss, x), td.hessian(loss, x))
    # What each kernel is alone, all together are with the same functions, which are compiled once.
    found = td.lambdify([A, x, y], results, backend)(far, np.ones(3, dtype), np.ones(4, dtype))
    assert all(np.isfinite(value).all() and value.dtype == dtype for value in found)
    assert found[1][0, 0] == 1000


i, k = td.indices("i k")
LOGISTIC = {
    "softplus": (sympy.log(1 + sympy.exp(x[i])), lambda t: np.logaddexp(0, t)),
    "of a multiple": (sympy.log(1 + sympy.exp(-2 * x[i])), lambda t: np.logaddexp(0, -2 * t)),
    "two exponentials": (sympy.log(sympy.exp(x[i]) + sympy.exp(x[i] / 2)), lambda t: np.logaddexp(t, t / 2)),
    "sigmoid": (1 / (1 + sympy.exp(-x[i])), lambda t: 0.5 + np.tanh(t / 2) / 2),
    "the other way": (sympy.exp(x[i]) / (1 + sympy.exp(x[i])), lambda t: 0.5 + np.tanh(t / 2) / 2),
    "its derivative": (sympy.exp(-x[i]) / (1 + sympy.exp(-x[i])) ** 2, lambda t: 0.25 / np.cosh(t / 2) ** 2),
    "as SymPy has it": (sympy.diff(1 / (1 + sympy.exp(-x[i])), x[i]), lambda t: 0.25 / np.cosh(t / 2) ** 2),
    "the complement": (1 - td.sigmoid(x[i]), lambda t: 0.5 - np.tanh(t / 2) / 2),
    "a multiple of it": (x[i] - x[i] * td.sigmoid(x[i]), lambda t: t * (0.5 - np.tanh(t / 2) / 2)),
    "logarithm of sigmoid": (sympy.log(td.sigmoid(x[i])), lambda t: -np.logaddexp(0, -t)),
    "two powers": (sympy.exp(2 * x[i]) / (1 + sympy.exp(x[i])) ** 3, lambda t: np.exp(2 * t) / (1 + np.exp(t)) ** 3),
}


@pytest.mark.usefixtures("uncompiled")
@every("backend", BACKENDS)
def test_logistic_forms_in_index_notation(backend):
    """One by one with NumPy; in one kernel with Numba, which compiles it in a tenth of the time."""
    forms = [td.TensorComprehension(body, (i, n)) for body, _ in LOGISTIC.values()]
    near, far = np.linspace(-6, 6, 7), np.array([-1000.0, 1000.0, -700.0, 700.0])
    functions = [td.lambdify([x], part, backend) for part in ([forms] if backend == "numba" else [[f] for f in forms])]
    found = [[value for function in functions for value in function(values)] for values in (near, far)]
    for name, value, wide in zip(LOGISTIC, *found, strict=True):
        np.testing.assert_allclose(value, LOGISTIC[name][1](near), rtol=1e-12, err_msg=name)
        assert np.isfinite(wide).all(), name


@every("name, backend", [*((name, "numpy") for name in LOGISTIC), ("two powers", "numba")], turns=3)
def test_logistic_forms_in_single_precision(name, backend):
    function = td.lambdify([x], td.TensorComprehension(LOGISTIC[name][0], (i, n)), backend)
    assert np.isfinite(function(np.array([-1000, 1000], np.float32))).all()


WHOLE = {
    "softplus": (td.log(td.TensorAdd(1, td.exp(A))), lambda t: np.logaddexp(0, t)),
    "sigmoid": (td.TensorPow(td.TensorAdd(1, td.exp(td.TensorMul(-1, A))), -1), lambda t: 0.5 + np.tanh(t / 2) / 2),
    "the other way": (
        td.TensorMul(td.exp(A), td.TensorPow(td.TensorAdd(1, td.exp(A)), -1)),
        lambda t: 0.5 + np.tanh(t / 2) / 2,
    ),
    "its derivative": (
        td.TensorMul(td.exp(A), td.TensorPow(td.TensorAdd(1, td.exp(A)), -2)),
        lambda t: 0.25 / np.cosh(t / 2) ** 2,
    ),
    "a multiple of the complement": (
        td.TensorAdd(A, td.TensorMul(-1, A, td.sigmoid(A))),
        lambda t: t * (0.5 - np.tanh(t / 2) / 2),
    ),
    "twice, under different labels": (
        td.einsum("ij,kj,ij->ki", td.exp(td.TensorMul(-1, A)), td.sigmoid(A), td.sigmoid(A)),
        lambda t: (0.5 + np.tanh(t / 2) / 2) @ (0.5 - np.tanh(t / 2) / 2).T,
    ),
    "under other labels": (
        td.einsum("ij,kj,ij->ki", td.exp(A), A, td.TensorPow(td.TensorAdd(1, td.exp(A)), -1)),
        lambda t: t @ (0.5 + np.tanh(t / 2) / 2).T,
    ),
}


@every("name", [*WHOLE])
def test_logistic_forms_of_whole_tensors(name):
    expr, expected = WHOLE[name]
    function = td.lambdify([A], expr, "numpy")
    near = np.linspace(-6, 6, 12).reshape(3, 4)
    np.testing.assert_allclose(function(near), expected(near), rtol=1e-12)
    assert np.isfinite(function(near * 200)).all()


def test_what_is_no_logistic_form_stays():
    bodies = [sympy.log(2 + sympy.exp(x[i])), sympy.exp(x[i]) * td.sigmoid(x[i]), sympy.log(sympy.exp(x[i]) - 1),
              sympy.exp(3 * x[i]) / (1 + sympy.exp(x[i])) ** 2, 2 - td.sigmoid(x[i])]  # fmt: skip
    t = np.linspace(0.5, 3, 4)
    for body in bodies:
        found = td.lambdify([x], td.TensorComprehension(body, (i, n)), "numpy")(t)
        plain = sympy.lambdify(sympy.Symbol("t"), body.rewrite(sympy.exp).subs(x[i], sympy.Symbol("t")), "numpy")
        np.testing.assert_allclose(found, plain(t), rtol=1e-13)


# ---------------------------------------------------------------------------- derivatives


@every(
    "expr, wrt",
    [
        (AB, A), (td.sum(td.sin(AB)), B), (td.inv(S), S), (td.det(S), S), (td.adj(S), S), (td.softmax(A), A),
        (td.log(td.det(td.einsum("ij,kj->ik", A, A))), A), (td.norm(AB), A), (td.logsumexp(A, axis=0), A),
    ],
)  # fmt: skip
def test_check_derivative(expr, wrt):
    assert td.check_derivative(expr, wrt, sizes={n: 3, m: 4, p: 2}) < 1e-6


def test_sums_over_an_axis_of_one_operand_run_in_loops():
    """``Sum_ij A[i, j]*v[i]`` is not a matrix product: the second derivatives of a deviation have such a sum."""
    x, y, t = td.TensorSymbol("x", 4), td.TensorSymbol("y", 4), td.TensorSymbol("t", 4)
    value = td.std(td.sin(x[:, None] - y[None, :]))
    results = value, td.gradient(value, x), td.hvp(value, x, t)
    rng = np.random.default_rng(0)
    points, others, along = rng.normal(size=(3, 4))
    found = td.lambdify((x, y, t), results, "numpy")(points, others, along)
    assert found[0] == pytest.approx(np.std(np.sin(points[:, None] - others)), rel=1e-13)
    step, slope = 1e-3, td.lambdify((x, y), results[1], "llvm")
    slopes = [
        (slope(points + h * along, others) - slope(points - h * along, others)) / (2 * h) for h in (step, 2 * step)
    ]
    np.testing.assert_allclose(found[2], (4 * slopes[0] - slopes[1]) / 3, rtol=1e-9, atol=1e-12)


def test_a_product_below_a_mean_of_terms_is_computed_once():
    """The mean of a log-softmax is multiplied out to two sums; both read the product of three that the gradient has."""
    n, d, c = td.indices("n d c")
    X, U, V = td.TensorSymbol("X", (n, n)), td.TensorSymbol("U", (n, d)), td.TensorSymbol("V", (d, c))
    scores = td.einsum("ij,jk,kl->il", X, U, V)
    value = td.mean(scores - td.logsumexp(scores, axis=1)[:, None])
    results = value, *td.gradient(value, (U, V))
    program = build_program((X, U, V), results)
    assert sum(isinstance(step, ContractionStep) for step in program.kernels) == 5
    rng = np.random.default_rng(0)
    arrays = rng.normal(size=(4, 4)), rng.normal(size=(4, 3)), rng.normal(size=(3, 5))
    entries = arrays[0] @ arrays[1] @ arrays[2]
    wanted = (entries - np.log(np.exp(entries).sum(1, keepdims=True))).mean()
    assert td.lambdify((X, U, V), results, "llvm")(*arrays)[0] == pytest.approx(wanted, rel=1e-12)
