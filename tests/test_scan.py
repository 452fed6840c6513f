"""Recurrences: their text, derivatives against dual numbers and differences, kernels against the interpreter."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import in_c
import numpy as np
import pytest
import sympy
from sympy import srepr

import sympy_tensordiff as td
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError, OutOfShapeError, ShapeError, UnsupportedError
from sympy_tensordiff.reference import evaluate
from sympy_tensordiff.reference.derivatives import hvp as dual_hvp

n, m, T = td.indices("n m T")
W, V = td.TensorSymbol("W", (n, n)), td.TensorSymbol("V", (n, n))
x, h0, d0 = td.TensorSymbol("x", (T, n)), td.TensorSymbol("h0", n), td.TensorSymbol("d0", n)
NAMES = {name: getattr(td, name) for name in td.__all__} | {"W": W, "x": x, "h0": h0, "n": n, "T": T, "m": m}
VARIABLE = td.ScanVariable("v", ())


def rnn(**options: Any) -> Any:
    return td.scan(lambda h, x: td.tanh(W @ h + x), h0, x, **options)


def nested() -> Any:
    """A scan whose steps contain a scan of the same names, one of which reads the time outside."""
    return td.scan(lambda h, x, t: t * td.scan(lambda h, t: h / (t + 2) + x, W @ h, length=2, last=True), h0, x)


def pair() -> Any:
    return td.scan(
        lambda a, b, x, t: ((a * b / 3, W @ a + x), td.dot(a, b) * t),
        {"a": h0, "b": 2 * h0},
        {"x": x},
        last=True,
        total=True,
        reverse=True,
    )


def outputs() -> Any:
    """Two outputs that read different tensors, of one recurrence; the state is read by none of them."""
    step = lambda h, x: (h * h0, (td.sum(x * h0) ** 2, td.outer(x, W @ x)))  # noqa: E731
    h, (number, matrix) = td.scan(step, h0, x, total=True)
    return number + td.sum(matrix * matrix) + td.sum(h)


def scalars() -> Any:
    return td.scan(lambda s, x: sympy.sin(s) * td.sum(x * h0) + td.det(W @ W) * s / 9, 1, x)


SCANS = {
    "rnn": rnn,
    "last": lambda: rnn(last=True),
    "reverse": lambda: rnn(reverse=True),
    "nested": nested,
    "pair": lambda: pair()[0][1],
    "output": lambda: pair()[1],
    "scalars": scalars,
    "time": lambda: td.scan(lambda h, t: h * t + W @ h, h0, length=3),
}


def point(steps: int, size: int = 2) -> dict[Any, Any]:
    """Values in small integers, on which rational functions are exact."""
    rng = np.random.default_rng(steps)
    shapes = {W: (size, size), x: (steps, size), h0: (size,), V: (size, size), d0: (size,)}
    return {tensor: rng.integers(-2, 3, shape) for tensor, shape in shapes.items()}


# ---------------------------------------------------------------------------- the class


@pytest.mark.parametrize("name", SCANS)
def test_scan_is_a_sympy_citizen(name: str) -> None:
    scan = SCANS[name]()
    assert scan.func(*scan.args) == scan
    assert pickle.loads(pickle.dumps(scan)) == scan
    assert eval(str(scan), dict(NAMES)) == scan
    assert eval(srepr(scan), {**vars(sympy), **NAMES}) == scan
    assert not {str(s) for s in scan.free_symbols} & {"h", "a", "b", "s", "t"}
    assert r"\text{where}" in sympy.latex(scan)


def test_text_and_formula() -> None:
    assert str(rnn()) == "scan(lambda h, x: tanh(x + W @ h), h0, x)"
    formula = sympy.latex(rnn())
    assert r"h_{t} = \tanh\left(x_{t} + W h_{t-1}\right)" in formula
    assert "h_{-1} = h_{0}" in formula


def test_stored_states_have_their_own_names_in_formulas() -> None:
    """The adjoint reads as in a textbook: one recursion forwards, one backwards."""
    formula = td.latex(td.gradient(td.sum(rnn() ** 2), W))
    slope = r"\left(1 - h_{t}^{\odot 2}\right) \odot \left(\mathrm{d}h_{t+1} + 2 h_{t}\right)"
    assert formula == (
        rf"\sum_{{t = 0}}^{{T - 1}} \left({slope}\right) h_{{t-1}}^{{\top}} \;\text{{where}}\; "
        rf"\mathrm{{d}}h_{{t}} = W^{{\top}} \left({slope}\right),\; \mathrm{{d}}h_{{T}} = \mathbf{{0}},\; "
        r"h_{t} = \tanh\left(x_{t} + W h_{t-1}\right),\; h_{-1} = h_{0}"
    )
    last = td.latex(td.gradient(td.sum(rnn(last=True) ** 2), h0))
    assert r"\mathrm{d}h_{T} = 2 h_{T-1}" in last
    assert last.count(r"\text{where}") == 1


def test_running_sums_and_products_are_recognised() -> None:
    y = td.TensorSymbol("y", T)
    assert td.scan(lambda s, x: s + x, 0, y) == td.cumsum(y)
    assert td.scan(lambda s, x: x * s, 1, y, last=True) == td.prod(y)
    values = {y: [2, 3, 5]}
    for options in ({}, {"reverse": True}, {"last": True}, {"last": True, "reverse": True}):
        for step, name in ((lambda s, x: s + x, "cumsum"), (lambda s, x: s * x, "cumprod")):
            found = td.scan(step, 7, y, **options)
            assert not found.has(td.Scan)
            array = np.array(values[y])[:: -1 if options.get("reverse") else 1]
            expected = getattr(np, name)([7, *array])[1:]
            expected = expected[-1] if options.get("last") else expected[:: -1 if options.get("reverse") else 1]
            assert np.all(evaluate(found, values) == expected)
    with pytest.raises(ShapeError, match="has T rows, but the scan has 3 steps"):
        td.scan(lambda s, x: s + x, 0, y, length=3)


def test_substitution_captures_nothing() -> None:
    own = td.TensorSymbol("h", (n, n))
    new = rnn().subs(W, own)
    assert own in new.free_symbols
    assert str(new) == "scan(lambda h_1, x: tanh(x + h @ h_1), h0, x)"
    values = point(2)
    old = evaluate(rnn(), {tensor: values[tensor] for tensor in (W, x, h0)})
    assert (evaluate(new, {own: values[W], x: values[x], h0: values[h0]}) == old).all()
    assert rnn().subs(n, 3).shape == (T, 3)


# ---------------------------------------------------------------------------- derivatives


@pytest.mark.parametrize("name", ["rnn", "nested", "pair", "scalars", "outputs"])
def test_gradient_and_hvp_are_those_of_dual_numbers(name: str) -> None:
    scan = outputs() if name == "outputs" else SCANS[name]()
    loss = scan**2 if name == "outputs" else td.sum(scan * scan)
    gradient, product = td.gradient(loss, (W, h0)), td.hvp(loss, (W, h0), (V, d0))
    for steps in (1, 3):
        values = point(steps)
        known = {tensor: values[tensor] for tensor in (W, x, h0)}
        exact = dual_hvp(loss, {W: values[V], h0: values[d0]}, known)
        for (slope, along), first, second in zip(exact, gradient, product, strict=True):
            for own, expected in ((evaluate(first, values), slope), (evaluate(second, values), along)):
                np.testing.assert_allclose(own.astype(float), expected.astype(float), rtol=1e-12)


def test_tangent_is_the_transposed_pullback() -> None:
    scan = pair()[0][0]
    c = td.TensorSymbol("c", n)
    values = {**point(3), c: [1, -2]}
    forward = td.dot(c, td.jvp(scan, (W, h0), (V, d0)))
    by_w, by_h = td.vjp(scan, (W, h0), c)
    backward = td.sum(by_w * V) + td.dot(by_h, d0)
    assert evaluate(forward, values) == evaluate(backward, values) != 0


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("wrt", [W, x, h0])
def test_jacobians_are_stacked_products(wrt: Any) -> None:
    """Rows of Jacobians are pullbacks, their columns tangents, and Hessians are Jacobians of gradients."""
    names = "abcd"
    c, d = td.TensorSymbol("c", (T, n)), td.TensorSymbol("d", wrt.shape)
    axes, own = names[: len(wrt.shape)], "yz"
    values = {**point(3), c: np.arange(6).reshape(3, 2), d: np.ones(point(3)[wrt].shape, int)}
    states = td.scan(lambda h, x: h**2 / 3 + W @ h + x, h0, x)
    matrix, loss = td.jacobian(states, wrt), td.sum(states**2)
    pairs = [
        (td.einsum(f"{own}{axes},{own}->{axes}", matrix, c), td.vjp(states, wrt, c)),
        (td.einsum(f"{own}{axes},{axes}->{own}", matrix, d), td.jvp(states, wrt, d)),
        (td.einsum(f"{own[:1]}{axes},{axes}->{own[:1]}", td.jacobian(states[0], wrt), d), td.jvp(states[0], wrt, d)),
    ]
    if wrt != x:
        ends = names[2 : 2 + len(axes)]
        product = td.einsum(f"{axes}{ends},{ends}->{axes}", td.hessian(loss, wrt), d)
        pairs.append((product, td.hvp(loss, wrt, d)))
    for found, expected in pairs:
        assert (evaluate(found, values) == evaluate(expected, values)).all()
    one = td.jacobian(states, h0)
    arrays = {tensor: np.asarray(values[tensor], float) for tensor in (W, x, h0)}
    expected = compiled_values((matrix, one), arrays, "llvm")
    for own, other in zip(compiled_values((matrix, one), arrays, "numpy"), expected, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-12)


def test_plain_derivatives_are_entries_of_jacobians() -> None:
    loss, values = td.sum(rnn() ** 2), {tensor: point(2)[tensor] for tensor in (W, x, h0)}
    gradient = evaluate(td.gradient(loss, h0), values)
    assert evaluate(loss.diff(h0[1]), values) == gradient[1] == evaluate(td.diff(loss, h0[1]), values)
    assert (evaluate(td.diff(loss, h0), values) == gradient).all()
    column = evaluate(sympy.diff(rnn(last=True), h0[1]), values)
    assert (column == evaluate(td.jacobian(rnn(last=True), h0), values)[:, 1]).all()


def test_what_does_not_depend_is_zero() -> None:
    y = td.TensorSymbol("y", 3)
    assert td.gradient(td.sum(rnn()), y) == td.zeros(3)
    assert td.gradient(td.sum(td.scan(lambda h, x: x, h0, x)), h0) == td.zeros(n)
    assert td.jvp(rnn(last=True), y, y) == td.zeros(n)
    assert str(td.jacobian(rnn(last=True), y)) == "zeros((n, 3))"


def test_check_derivative_knows_scans() -> None:
    assert td.check_derivative(td.sum(rnn() ** 2), (W, h0), {n: 2, T: 3}) < 1e-6
    assert td.check_derivative(rnn(last=True), h0, {n: 2, T: 3}) < 1e-6


def test_checkpoints_change_no_value() -> None:
    rows = td.TensorSymbol("rows", (3 * m, n))

    def results(**options: Any) -> Any:
        h, cost = td.scan(lambda h, x, t: (td.tanh(W @ h + x), td.dot(h, x) * t), h0, rows, total=True, **options)
        return (h, *td.gradient(td.sum(h**2) + cost, (W, h0)))

    values = {W: point(1)[W] / 2, h0: [1.0, 2.0], rows: np.arange(12).reshape(6, 2) / 5}
    remaining, recomputed = results(reverse=True), results(reverse=True, checkpoint=3)
    known = compiled_values(remaining, values, "numpy")
    for own, expected in zip(compiled_values(recomputed, values, "numpy"), known, strict=True):
        np.testing.assert_allclose(own, expected, rtol=1e-12)


# ---------------------------------------------------------------------------- kernels


def compiled_values(exprs: Any, values: dict[Any, Any], backend: str) -> Any:
    return td.lambdify([*values], exprs, backend)(*(np.asarray(v, float) for v in values.values()))


@pytest.mark.in_turns(10)
@pytest.mark.parametrize("backend", ["numpy", "llvm", "numba"])
def test_kernels_compute_the_same(backend: str) -> None:
    names = [*SCANS] if backend != "numba" else ["rnn", "scalars"]
    exprs = tuple(SCANS[name]() for name in names)
    loss = td.sum(exprs[0] ** 2)
    exprs = (*exprs, *td.gradient(loss, (W, x, h0)))
    values = {tensor: value for tensor, value in point(3).items() if tensor in (W, x, h0)}
    found = compiled_values(exprs, values, backend)
    for own, expected in zip(found, evaluate(exprs, values), strict=True):
        np.testing.assert_allclose(own, np.asarray(expected).astype(float), rtol=1e-12, atol=1e-14)


@pytest.mark.skipif(in_c.COMPILER is None, reason="there is no compiler of C")
def test_c_computes_the_same(tmp_path: Path) -> None:
    exprs = (*(SCANS[name]() for name in SCANS), *td.gradient(td.sum(rnn() ** 2), (W, x, h0)))
    values = {tensor: value for tensor, value in point(3).items() if tensor in (W, x, h0)}
    library = in_c.build({"scan": td.generate_code([*values], exprs, "c", name="scan")}, tmp_path)
    function = in_c.Function(library, "scan", build_program([*values], exprs))
    for own, expected in zip(function(*values.values()), evaluate(exprs, values), strict=True):
        np.testing.assert_allclose(own, np.asarray(expected).astype(float), rtol=1e-12, atol=1e-14)


def test_loop_over_time_is_compiled() -> None:
    function = td.lambdify([W, x, h0], rnn())
    assert function.llvm.count("define ptr") == 1 + ("scratch" in function.llvm)
    assert "def " not in function.llvm
    assert "3 steps" in td.lambdify([W, h0], SCANS["time"]()).plan


# ---------------------------------------------------------------------------- from practice


def of_growing_arrays(is_growing: bool) -> tuple[Any, Any]:
    """A loss of steps whose arrays have more, or fewer, entries from step to step, with its gradient by the table that
    all steps read.
    """
    table, j = td.TensorSymbol("table", (T, T)), td.indices("j")

    def grows(s: Any, t: Any) -> Any:
        return s / 2 + td.sum(td.exp(td.TensorComprehension(table[t, j] * s, (j, t + 1))) ** 2)

    def shrinks(s: Any, t: Any) -> Any:
        row = td.TensorComprehension(td.exp(table[j, t] * s), (j, T - t))
        return s / 2 + td.sum(row / (1 + td.dot(row, row)))

    loss = td.scan(grows if is_growing else shrinks, 1, length=T, last=True) ** 2
    return table, (loss, td.gradient(loss, table))


@pytest.mark.in_turns(10)
@pytest.mark.parametrize("is_growing", [True, False])
@pytest.mark.parametrize("backend", ["llvm", "numba", "c"])
def test_arrays_of_steps_may_grow_and_shrink(backend: str, is_growing: bool, tmp_path: Path) -> None:
    table, exprs = of_growing_arrays(is_growing)
    array = np.random.default_rng(6).normal(size=(5, 5)) / 5
    if backend == "c":
        program = build_program([table], exprs, library=False)
        found = in_c.Function(in_c.build(in_c.sources({"f": program})[0], tmp_path, "-O1"), "f", program)(array)
    else:
        found = td.lambdify([table], exprs, backend)(array)
    for own, expected in zip(found, td.lambdify([table], exprs, "numpy")(array), strict=True):
        np.testing.assert_allclose(own, expected, rtol=1e-12)
    np.testing.assert_allclose(found[0], float(evaluate(exprs[0], {table: array})), rtol=1e-12)


def test_derivatives_of_a_markov_chain_are_posterior_marginals() -> None:
    start, move, seen = td.TensorSymbol("p", n), td.TensorSymbol("A", (n, n)), td.TensorSymbol("B", (T, n))
    forward = td.scan(lambda a, b: td.logsumexp(a[:, None] + move, axis=0) + b, start, seen, last=True)
    marginals = td.gradient(td.logsumexp(forward), (start, move, seen))
    rng = np.random.default_rng(3)
    p, A, B = rng.normal(size=4), rng.normal(size=(4, 4)), rng.normal(size=(6, 4))
    found = td.lambdify([start, move, seen], marginals, "numpy")(p, A, B)
    # forward-backward in probabilities
    alpha = [np.exp(p)]
    for row in B:
        alpha.append(np.exp(row) * (alpha[-1] @ np.exp(A)))
    beta = [np.ones(4)]
    for row in B[::-1]:
        beta.append(np.exp(A) @ (np.exp(row) * beta[-1]))
    beta, total = beta[::-1], alpha[-1].sum()
    posterior = np.array(alpha) * np.array(beta) / total
    pairs = sum(np.outer(alpha[t], np.exp(B[t]) * beta[t + 1]) * np.exp(A) for t in range(6)) / total
    for own, expected in zip(found, (posterior[0], pairs, posterior[1:]), strict=True):
        np.testing.assert_allclose(own, expected, rtol=1e-10)


def test_gradient_of_linear_control_is_that_of_the_unrolled_formula() -> None:
    A, B, Q = td.TensorSymbol("A", (n, n)), td.TensorSymbol("B", (n, m)), td.TensorSymbol("Q", (n, n))
    u = td.TensorSymbol("u", (3, m))
    end, cost = td.scan(lambda s, u: (A @ s + B @ u, td.dot(s, Q @ s) + td.dot(u, u)), h0, u, last=True, total=True)
    loss = cost + td.dot(end, Q @ end)
    state, unrolled = h0, 0
    for t in range(3):
        unrolled += td.dot(state, Q @ state) + td.dot(u[t], u[t])
        state = A @ state + B @ u[t]
    unrolled += td.dot(state, Q @ state)
    rng = np.random.default_rng(4)
    values = {A: rng.integers(-3, 4, (2, 2)), B: rng.integers(-3, 4, (2, 1)), Q: rng.integers(-3, 4, (2, 2))}
    values |= {u: rng.integers(-3, 4, (3, 1)), h0: [1, 2]}
    for own, expected in zip(td.gradient(loss, (u, A)), td.gradient(unrolled, (u, A)), strict=True):
        assert (evaluate(own, values) == evaluate(expected, values)).all()


# ---------------------------------------------------------------------------- misuse


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (ShapeError, r"the step's new value of the state h\w* is .* of shape \(n, n\)", lambda: rnn_of(td.outer)),
        (ShapeError, "has 5 rows, but the scan has 4 steps", lambda: fixed(length=4)),
        (ShapeError, "the length of a scan has the extent 0", lambda: td.scan(lambda h: h, h0, length=0)),
        (ShapeError, "is a scalar: its first axis must be the time", lambda: td.scan(lambda h, x: h, h0, 3)),
        (ArgumentError, "without xs, length= must say", lambda: td.scan(lambda h: h, h0)),
        (ArgumentError, "there is no state", lambda: td.scan(lambda h: h, (), length=3)),
        (ArgumentError, "the step returns .*, but the state is one state", lambda: td.scan(lambda h: (h, h, h), h0, x)),
        (ArgumentError, "but the state is a tuple of 2 states", lambda: td.scan(lambda s, x: s[0], (h0, h0), x)),
        (ArgumentTypeError, "the step must be a function", lambda: td.scan(h0, h0, x)),
        (ArgumentTypeError, "the step takes 4 arguments", lambda: td.scan(lambda h, x, t, u: h, h0, x)),
        (ArgumentTypeError, "it needs one for each of a", lambda: td.scan(lambda b: b, {"a": h0}, length=3)),
        (ArgumentTypeError, "xs is a dict of named sequences", lambda: td.scan(lambda a, x: a, {"a": h0}, x)),
        (ArgumentTypeError, "last must be True or False", lambda: rnn(last=1)),
        (ArgumentError, "checkpoint=2 does not divide the T steps", lambda: rnn(checkpoint=2)),
        (ArgumentTypeError, "checkpoint must be a number of steps", lambda: rnn(checkpoint=0)),
        (ArgumentTypeError, "the kind of a Scan", lambda: changed(0, "first")),
        (ArgumentTypeError, "the variables of a Scan", lambda: changed(2, [(h0, h0, h0)])),
        (ShapeError, "is a scalar: its first axis", lambda: changed(3, [(VARIABLE, n)])),
        (ShapeError, r"the rows of x have shape \(n,\), but v has shape \(\)", lambda: changed(3, [(VARIABLE, x)])),
        (ArgumentTypeError, "the time of a Scan", lambda: changed(4, n)),
        (ArgumentTypeError, "reverse must be True or False", lambda: changed(6, 3)),
        (
            ArgumentError,
            r"has 0 steps: a scan needs one at least",
            lambda: td.lambdify([W, x, h0], rnn(last=True), "numpy")(np.ones((2, 2)), np.ones((0, 2)), np.ones(2)),
        ),
        (OutOfShapeError, "a scan would have T steps, which is not positive", lambda: empty(0)),
        (UnsupportedError, "no text language writes this recurrence", lambda: td.to_text(rnn(), language="index")),
    ],
)
def test_misuse_is_explained(error: type[Exception], message: str, call: Any) -> None:
    with pytest.raises(error, match=message):
        call()


def empty(length: int) -> Any:
    last = td.scan(lambda h: h / 2, h0, length=T, last=True)
    return td.lambdify([h0, T], last, "numpy")(np.ones(2), length)


def changed(place: int, value: Any) -> Any:
    args = [*rnn().args]
    args[place] = value
    return td.Scan(*args)


def rnn_of(function: Any) -> Any:
    return td.scan(lambda h, x: function(h, x), h0, x)


def fixed(**options: Any) -> Any:
    return td.scan(lambda h, x: h + x, td.zeros(2), td.TensorSymbol("z", (5, 2)), **options)


def of_index() -> Any:
    i = td.indices("i")
    entries = td.scan(lambda h, x: h * x[i], 1, x, last=True)
    return td.lambdify([x], td.TensorComprehension(entries, (i, n)))


def test_a_recurrence_without_states_is_printed() -> None:
    """Second derivatives of linear steps are such: what a step returns depends on the time and on sequences only."""
    _, squares = td.scan(lambda t: ((), t**2 * W[0, 0]), {}, length=T)
    assert str(squares) == "scan(lambda t: ((), t**2*W[0, 0]), {}, length=T)[1]"
    assert eval(str(squares), dict(NAMES)) == squares
