"""Symbols as most people type them, ``n = symbols("n")``: integers by use, with the results of declared ones."""

from types import SimpleNamespace

import numpy as np
import pytest
import sympy as sp
from every import every

import sympy_tensordiff as td
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError, IndexExpressionError, ShapeError, UnsupportedError
from sympy_tensordiff.graph.nodes import Graph
from sympy_tensordiff.graph.read import Reader
from sympy_tensordiff.reference import evaluate

# What a text for Numba means is asked here, not what a compiler makes of it.
pytestmark = pytest.mark.usefixtures("uncompiled")

NAMES = "i j k l n m p"
ASSUMED = [{}, {"real": True}, {"rational": True}]


def symbols_with(**assumptions):
    """The names of one test: indices and sizes of these assumptions, and tensors of these sizes."""
    s = SimpleNamespace(**{name: sp.Symbol(name, **assumptions) for name in NAMES.split()})
    s.t = sp.Symbol("t")
    s.own = {getattr(s, name) for name in NAMES.split()} | {s.t}
    s.x, s.y = td.TensorSymbol("x", s.n), td.TensorSymbol("y", s.n)
    s.A, s.w = td.TensorSymbol("A", (s.n, s.m)), td.TensorSymbol("w", s.m)
    s.u, s.v = sp.IndexedBase("u", shape=(s.n,)), sp.IndexedBase("v")
    s.M, s.N = sp.MatrixSymbol("M", s.n, s.m), sp.MatrixSymbol("N", s.n, 1)
    s.idx = td.TensorSymbol("idx", s.m, dtype=int)
    return s


def total(s, body, *limits):
    return td.IndexedSum(body, *(limits or [(s.i, 0, s.n - 1)]))


def table(s, body, *axes):
    return td.TensorComprehension(body, *(axes or [(s.i, s.n)]))


def gradient_of_sum(body):
    return lambda s: td.gradient(total(s, body(s)), s.x)


def choice(condition):
    return gradient_of_sum(lambda s: sp.Piecewise((s.x[s.i] ** 2, condition(s)), (s.x[s.i] ** 3, True)))


EXPRESSIONS = {
    "sum": lambda s: total(s, s.x[s.i] ** 2),
    "sum of SymPy": lambda s: td.lift(sp.Sum(s.u[s.i] ** 2, (s.i, 0, s.n - 1))),
    "sum to a size that no shape has": lambda s: total(s, s.x[s.i] / s.k, (s.i, 0, s.k - 1)),
    "product of SymPy": lambda s: td.lift(sp.Product(s.u[s.i] + 1, (s.i, 0, s.n - 1))),
    "base without a shape": lambda s: td.gradient(sp.Sum(s.v[s.i] ** 3, (s.i, 0, 2)), s.v),
    "comprehension": lambda s: table(s, s.x[s.i] * s.i + s.n),
    "free index": lambda s: s.x[s.j] * total(s, s.x[s.i] * s.x[s.j]),
    "index as a value": lambda s: total(s, s.x[s.i] * s.i / (s.i + s.n)),
    "maximum": lambda s: td.IndexedMax(s.x[s.i] * s.j, (s.i, 0, s.n - 1)),
    "triangle": lambda s: total(s, s.x[s.i] * s.x[s.j], (s.j, 0, s.i), (s.i, 0, s.n - 1)),
    "bounds of bounds": lambda s: total(s, s.x[s.i], (s.i, sp.Max(0, s.j - 2), sp.Min(s.n - 1, s.j + 1))),
    "entry by data": lambda s: td.IndexedSum(s.x[s.idx[s.k]] ** 2, (s.k, 0, s.m - 1)),
    "condition on data": lambda s: td.IndexedSum(
        sp.Piecewise((s.w[s.k], sp.Eq(s.idx[s.k], s.j)), (0, True)), (s.k, 0, s.m - 1)
    ),
    "gradient": gradient_of_sum(lambda s: s.x[s.i] ** 2 / s.n),
    "gradient with a scalar": lambda s: td.gradient(total(s, s.t * s.x[s.i] ** 2), (s.t, s.x))[1],
    "gradient by a scalar": lambda s: td.gradient(total(s, sp.exp(s.t * s.x[s.i]) / s.n), s.t),
    "gradient of SymPy's": lambda s: td.gradient(sp.Sum(s.u[s.i] ** 2 / s.n, (s.i, 0, s.n - 1)), s.u),
    "shifted": lambda s: td.gradient(total(s, s.x[s.i + 1] * s.x[s.i], (s.i, 0, s.n - 2)), s.x),
    "strides": lambda s: td.gradient(total(s, s.x[2 * s.i] ** 2, (s.i, 0, sp.floor((s.n - 1) / 2))), s.x),
    "remainder": gradient_of_sum(lambda s: s.x[sp.Mod(s.i + 1, s.n)] * s.x[s.i]),
    "quotient": gradient_of_sum(lambda s: s.x[sp.floor(s.i / 2)] ** 2),
    "rounded value": gradient_of_sum(lambda s: s.x[s.i] * sp.floor(s.i / 2)),
    "entry": lambda s: td.diff(total(s, s.x[s.i] ** 2), s.x[s.j]),
    "entry of SymPy's": lambda s: td.diff(sp.Sum(s.u[s.i] ** 3 * s.j, (s.i, 0, s.n - 1)), s.u[s.j]),
    "hessian": lambda s: td.hessian(total(s, s.x[s.i] ** 3), s.x),
    "hvp": lambda s: td.hvp(total(s, s.x[s.i] ** 3 / s.n), s.x, s.y),
    "jvp": lambda s: td.jvp(table(s, s.x[s.i] ** 2 / s.n), s.x, s.y),
    "vjp": lambda s: td.vjp(table(s, total(s, s.A[s.i, s.j] * s.w[s.j], (s.j, 0, s.m - 1))), s.w, s.x),
    "jacobian": lambda s: td.jacobian(table(s, s.x[s.i] ** 2 * s.i), s.x),
    "delta": lambda s: td.gradient(total(s, sp.KroneckerDelta(s.i, s.j) * s.x[s.i] ** 2), s.x),
    "deltas alone": lambda s: td.simplify_deltas(td.IndexedSum(sp.KroneckerDelta(2 * s.i, s.j), (s.i, 0, 5))),
    "delta with a range": lambda s: s.t * sp.KroneckerDelta(s.j, s.k, (0, s.n)) * s.x[0],
    "permutations": lambda s: table(s, sp.LeviCivita(s.i, s.j, 1) * s.x[s.i]),
    "first": choice(lambda s: sp.Eq(s.i, 0)),
    "all but one": choice(lambda s: sp.Ne(s.i, s.j) & (s.x[s.j] > 0)),
    "inner": choice(lambda s: (s.i > 0) & (s.i < s.n - 1)),
    "outer": choice(lambda s: (s.i < 1) | (s.i >= s.n - 1)),
    "square": choice(lambda s: s.i**2 > 3),
    "distance": choice(lambda s: (sp.Abs(s.i - s.j) <= 1) & (s.x[s.j] > 0)),
    "even": choice(lambda s: sp.Eq(sp.Mod(s.i, 2), 0)),
    "many": choice(lambda s: sp.And(*(sp.Ne(s.i, 3 * q + 1) for q in range(20)))),
    "sign": gradient_of_sum(lambda s: sp.sign(s.i - s.j) * s.x[s.i] ** 2 * s.x[s.j + 1]),
    "step": gradient_of_sum(lambda s: sp.Heaviside(s.i - 1, 1) * s.x[s.i] ** 2),
    "step of a size": lambda s: sp.Piecewise((s.t, s.n > 2), (0, True)) * total(s, s.x[s.i]),
    "whole": lambda s: td.gradient(td.sum(s.x**2) / s.n, s.x),
    "filled": lambda s: s.x + td.FilledTensor(s.t, (s.n,)),
    "einsum": lambda s: td.gradient(s.x @ s.A @ s.w, s.A),
    "matrices": lambda s: td.gradient((s.N.T * s.M * s.M.T * s.N)[0, 0], s.M),
    "trace": lambda s: td.gradient(sp.Trace(s.M * s.M.T) / s.n, s.M),
    "function": lambda s: td.gradient(total(s, sp.sin(s.x[s.i] * s.i / s.n)), s.x),
    "bound as a value": lambda s: td.gradient(total(s, s.x[s.i] ** s.n), s.x),
}
SIZES = {"n": 5, "m": 2, "j": 2, "k": 3}


def values_of(tensor, sizes):
    shape = [int(extent.subs(sizes)) for extent in tensor.shape]
    size = int(np.prod(shape, dtype=int))
    return np.arange(size).reshape(shape) % 2 if tensor.dtype is int else np.linspace(0.3, 1.7, size).reshape(shape)


def evaluated(expr, call):
    """The value that a call of the arguments gives, all of them by name."""
    expr = td.lift(expr)
    sizes = {s: SIZES[s.name] for s in td_free(expr) if s.name in SIZES}
    tensors = sorted((s for s in expr.free_symbols if isinstance(s, td.TensorSymbol)), key=str)
    sizes |= {s: SIZES.get(s.name, 3) for t in tensors for extent in t.shape for s in extent.free_symbols}
    scalars = sorted((s for s in td_free(expr) if s.name == "t"), key=str)
    integers = sorted((s for s in sizes), key=str)
    arguments = [values_of(t, sizes) for t in tensors] + [0.7 for _ in scalars] + [sizes[s] for s in integers]
    return np.asarray(call([*tensors, *scalars, *integers], expr)(*arguments), dtype=float)


def td_free(expr):
    return [s for s in expr.free_symbols if isinstance(s, sp.Symbol)]


def interpreted(args, expr):
    return lambda *values: evaluate(expr, dict(zip(args, values, strict=True)))


CASES = [(name, ASSUMED[number % 3]) for number, name in enumerate(EXPRESSIONS)]


@every("name, assumptions", CASES, ids=EXPRESSIONS, turns=8)
def test_results_are_those_of_declared_symbols(name, assumptions):
    declared, plain = symbols_with(integer=True), symbols_with(**assumptions)
    wanted, result = EXPRESSIONS[name](declared), EXPRESSIONS[name](plain)
    assert str(result) == str(wanted)
    assert set(td_free(result)) <= plain.own | {sp.Symbol("n_v", integer=True, positive=True)}
    assert {s.name for s in td_free(result)} == {s.name for s in td_free(wanted)}
    kernels = [evaluated(expr, lambda args, e: td.lambdify(args, e, backend="numpy")) for expr in (wanted, result)]
    np.testing.assert_allclose(kernels[1], kernels[0], rtol=1e-13)
    np.testing.assert_allclose(evaluated(result, interpreted), kernels[0], rtol=1e-12)


@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_kernels_and_their_text(backend):
    declared, plain = symbols_with(integer=True), symbols_with()
    for s in (declared, plain):
        s.sum = total(s, s.x[s.i] ** 2 * s.t / s.n + s.x[s.i] * s.k, (s.i, 0, s.k - 1))
    sources = [td.generate_code([s.x, s.t, s.k], s.sum, backend) for s in (declared, plain)]
    assert sources[0] == sources[1]
    kernel = td.lambdify([plain.x, plain.t, plain.k], plain.sum, backend)
    np.testing.assert_allclose(kernel([1.0, 2, 3, 4], 0.5, 3), 19.75)
    with pytest.raises(ArgumentTypeError, match="k"):
        kernel([1.0, 2, 3, 4], 0.5, 2.5)


def test_sizes_hints_and_checks_take_the_symbol():
    s = symbols_with()
    loss = total(s, s.x[s.i] ** 2 * s.k)
    assert td.check_derivative(td.IndexedSum(s.x[s.i] ** 2 / s.n, (s.i, 0, s.n - 1)), s.x, {s.n: 3}) < 1e-9
    assert td.lambdify([s.x, s.k], loss, "numpy", sizes={s.n: 300})(np.ones(3), 2) == 6
    with pytest.raises(ArgumentTypeError, match="cannot differentiate with respect to n"):
        td.check_derivative(td.IndexedSum(s.x[s.i] ** 2 / s.n, (s.i, 0, s.n - 1)), s.n)


def test_texts():
    declared, plain = symbols_with(integer=True), symbols_with()
    assert td.to_text(td.gradient(td.sum(plain.x**3), plain.x)) == td.to_text(
        td.gradient(td.sum(declared.x**3), declared.x)
    )
    for s in (declared, plain):
        with pytest.raises(UnsupportedError, match=r"n has no text .* it is an integer, a size or an index"):
            td.to_text(td.sum(s.x) / s.n)


def test_a_sign_is_known_of_sizes():
    """Other assumptions of a symbol that is an integer by use hold: the size is positive."""
    n, i = sp.Symbol("n", positive=True), sp.Symbol("i", nonnegative=True)
    x = td.TensorSymbol("x", 3)
    result = td.gradient(td.IndexedSum(x[sp.Mod(i, n)], (i, 0, 2)), x)
    assert [s for s in result.free_symbols if s.name == "n"] == [n]
    assert list(td.lambdify([x, n], result, "numpy")(np.zeros(3), 2)) == [2, 1, 0]


NOT = [{"integer": False}, {"imaginary": True}, {"complex": True}, {"commutative": False}, {"irrational": True}]


@every("assumptions", NOT, ids=str)
def test_what_is_declared_to_be_no_integer_is_refused(assumptions):
    s, h = symbols_with(), sp.Symbol("h", **assumptions)
    for use in (lambda: s.x[h], lambda: total(s, s.x[s.i], (s.i, 0, h)), lambda: td.IndexedSum(s.x[0], (h, 0, 3))):
        with pytest.raises(IndexExpressionError, match=r"h is declared not to be an integer: use td.indices\('h'\)"):
            use()
    with pytest.raises(ShapeError, match="h is declared not to be an integer"):
        td.TensorSymbol("z", h)
    for own in (sp.Sum(s.u[0], (h, 0, 3)), sp.Sum(s.u[s.i], (s.i, 0, h))):
        with pytest.raises(IndexExpressionError, match="h is declared not to be an integer"):
            td.lift(own)


def test_an_integer_is_no_variable():
    s = symbols_with()
    for size in (s.n, s.i):
        with pytest.raises(
            ArgumentTypeError, match=f"with respect to {size}: .*; {size} is an integer, declared so or by its use"
        ):
            td.gradient(size * total(s, s.x[s.i]), size)
    with pytest.raises(UnsupportedError, match="has no derivative with respect to n, which is an integer"):
        total(s, s.x[s.i]).diff(s.n)
    assert td.gradient(s.t * td.sum(s.x), s.t) == td.sum(s.x)


MISTAKEN = (
    r"i in the body .* is not the index i of the limit: one of the two is declared an integer, the other one is not"
)


def test_two_symbols_of_one_name():
    """A declared one and another that is an integer by use are meant to be one, and are two."""
    i, n = td.indices("i n")
    s = symbols_with()
    for body, index in ((s.x[s.i], i), (s.x[i], s.i), (td.TensorSymbol("z", 3)[s.i + 1] * s.t, i)):
        with pytest.raises(ArgumentError, match=MISTAKEN):
            td.IndexedSum(body, (index, 0, 2))
    with pytest.raises(IndexExpressionError, match="two different symbols are called n: one is declared an integer"):
        td.gradient(td.IndexedSum(s.x[i] ** 2, (i, 0, n - 1)), s.x)
    value = td.IndexedSum(sp.Symbol("i") * td.TensorSymbol("z", 3)[i], (i, 0, 2))  # a number that is called i, too
    assert td.gradient(value, sp.Symbol("i")).dummy_eq(td.IndexedSum(td.TensorSymbol("z", 3)[i], (i, 0, 2)))


def test_parameters_of_functions_are_values():
    s = symbols_with()
    half = td.elementwise(sp.Lambda(s.t, sp.Piecewise((s.t**2, s.t > 0), (0, True))), s.x)
    assert str(td.gradient(td.sum(half), s.x)) == "2*x*greater(x, 0)"


def test_a_value_does_not_become_an_integer_later():
    s, reader = symbols_with(), Reader(Graph())
    reader.read(s.t * s.x[s.i])
    with pytest.raises(IndexExpressionError, match="t is a value in one place and an index or a size in another"):
        reader.read(s.x[s.t])
    assert td.diff(s.t * total(s, s.x[s.i] ** 2), s.x[s.t]).free_symbols == {s.t, s.n, s.x}
