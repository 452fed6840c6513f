"""Recurrences in the tools around derivatives: costs, parts, names, texts, indices around a scan, Numba's loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy
import test_scan_practice as practice

import sympy_tensordiff as td
from sympy_tensordiff.drawing.equations import count_signs
from sympy_tensordiff.errors import ParseError

n, m, T = td.indices("n m T")
i, j, t, b = td.indices("i j t b")
W, V, x, h0 = (td.TensorSymbol(*one) for one in (("W", (n, n)), ("V", (n, n)), ("x", (T, n)), ("h0", n)))
DECLARED = "declare W[n, n], x[T, n], h0[n] "


def rnn(**options: Any) -> Any:
    return td.scan(lambda h, x: td.tanh(W @ h + x), h0, x, **options)


def arrays(steps: int = 4, size: int = 2) -> dict[Any, Any]:
    rng = np.random.default_rng(steps)
    return {W: rng.normal(size=(size, size)), x: rng.normal(size=(steps, size)), h0: rng.normal(size=size)}


# ---------------------------------------------------------------------------- costs, parts and names


def test_costs_count_a_step_as_often_as_it_runs() -> None:
    loss = td.sum(rnn() ** 2)
    assert sympy.expand(td.cost(loss).operations - (2 * T * n**2 + 4 * T * n)) == 0
    assert td.cost(loss, {"T": 10, "n": 3}).operations == 300
    gradient, product = td.cost(td.gradient(loss, W)), td.cost(td.hvp(loss, W, V))
    assert sympy.Poly(gradient.operations, T, n).coeff_monomial(T * n**2) == 6
    assert sympy.Poly(product.operations, T, n).coeff_monomial(T * n**2) <= 4 * 6
    assert sympy.Poly(gradient.memory, T, n).coeff_monomial(T * n) <= 4
    unchanged = td.scan(lambda h: td.tanh((W @ W) @ h), h0, length=T, last=True)
    assert td.cost(unchanged).operations.coeff(n**3).is_number  # the product of matrices once, not T times
    by_time = td.scan(lambda h, x, t: h + td.IndexedSum(x[j], (j, 0, t)), h0, x, last=True)
    assert td.cost(by_time).operations.free_symbols <= {T, n}


def test_scans_that_occur_twice_are_parts() -> None:
    loss = td.sum(rnn() ** 2)
    parts, reduced = td.cse([loss, td.gradient(loss, W)])
    assert (parts[0][1], reduced[0]) == (rnn(), td.sum(parts[0][0] ** 2))
    values = arrays()
    known: dict[Any, Any] = {}
    for symbol, part in parts:
        free = [*values, *known]
        function = td.lambdify([s for s in free if s in part.free_symbols], part, "numpy")
        known[symbol] = function(*((values | known)[s] for s in free if s in part.free_symbols))
    free = [s for s in [*values, *known] if s in reduced[1].free_symbols]
    found = td.lambdify(free, reduced[1], "numpy")(*((values | known)[s] for s in free))
    expected = td.lambdify([*values], td.gradient(loss, W), "numpy")(*values.values())
    np.testing.assert_allclose(found, expected, rtol=1e-13)
    assert td.cse([rnn(), loss], names={rnn(): "H"})[0] == [(td.TensorSymbol("H", (T, n)), rnn())]
    named = td.name(rnn(), "H")
    assert td.gradient(td.sum(named**2), named) == 2 * named
    assert td.gradient(td.sum(named**2), W) == td.gradient(loss, W)


def test_messages_have_the_names_of_the_user() -> None:
    with pytest.raises(td.errors.ShapeError, match=r"the state h is outer\(h, x\)"):
        td.scan(lambda h, x: td.outer(h, x), h0, x)


# ---------------------------------------------------------------------------- formulas


@pytest.mark.in_turns(8)
@pytest.mark.parametrize(("name", "longest"), [("lstm", 800), ("kalman", 600), ("lorenz96", 2500)])
def test_adjoints_are_recursions_with_named_parts(name: str, longest: int) -> None:
    program = practice.PROGRAMS[name]()
    formula = td.latex(td.gradient(program.loss, program.tensors[0]))
    assert count_signs(formula) < longest
    lines = [line.partition(" &= ")[0].strip() for line in formula.splitlines() if " &= " in line]
    assert len(lines) == len(set(lines)) > 5  # each name is defined once


# ---------------------------------------------------------------------------- indices around a scan


def test_indices_around_a_scan_are_axes_of_its_states() -> None:
    X = td.TensorSymbol("X", (m, T, n))
    rows = td.TensorComprehension(X[b, t, i], (t, T), (i, n))
    states = td.scan(lambda h, x: td.tanh(W @ h + x), h0, rows)
    loss = td.IndexedSum(states[t, i] ** 2, (b, 1, m - 1), (t, 0, T - 1), (i, 0, n - 1))
    values, batch = arrays(), np.random.default_rng(1).normal(size=(3, 4, 2))
    function = td.lambdify([W, X, h0], (loss, td.gradient(loss, X)))
    value, slope = function(values[W], batch, values[h0])
    own = td.lambdify([W, x, h0], (td.sum(rnn() ** 2), td.gradient(td.sum(rnn() ** 2), x)))
    each = [own(values[W], row, values[h0]) for row in batch]
    np.testing.assert_allclose(value, sum(one for one, _ in each[1:]), rtol=1e-13)
    np.testing.assert_allclose(slope[1:], [one for _, one in each[1:]], rtol=1e-12)
    assert not slope[0].any()
    numbers = td.TensorComprehension(td.scan(lambda s, x: s * W[i, i] + td.sum(x), h0[i], x, last=True), (i, n))
    found = td.lambdify([W, x, h0], numbers)(*values.values())
    expected = values[h0]
    for row in values[x]:
        expected = expected * np.diag(values[W]) + row.sum()
    np.testing.assert_allclose(found, expected, rtol=1e-13)


# ---------------------------------------------------------------------------- texts

AS_TEXT = [
    ("h where h[t] = tanh(W @ h[t-1] + x[t]), h[-1] = h0", rnn()),
    ("sum(h**2) where h[t] = tanh(W @ h[t-1] + x[t]), h[-1] = h0", td.sum(rnn() ** 2)),
    ("h[T-1] where h[t] = tanh(W*h[t-1] + x[t]), h[-1] = h0", rnn(last=True)),
    ("h where h[t] = tanh(W*h[t+1] + x[t]), h[T] = h0", rnn(reverse=True)),
    ("h where h[t] = tanh(z[t]), z[t] = W*h[t-1] + x[t], h[-1] = h0", rnn()),
    (r"\left[h_{t}\right]_{t < T} \;\text{where}\; h_{t} = \tanh\left(x_{t} + W h_{t-1}\right), h_{-1} = h_{0}", rnn()),
]


@pytest.mark.parametrize(("text", "expected"), AS_TEXT)
def test_texts_write_recurrences(text: str, expected: Any) -> None:
    parsed = td.parse(f"{DECLARED}{text} derivative wrt W")
    assert parsed.expression == expected
    assert parsed.argument == W
    if not expected.shape:
        assert parsed.derivative() == td.gradient(expected, W)


def test_index_notation_writes_recurrences() -> None:
    text = "s = sum(h[t, i]^2, t, i) where h[t, i] = tanh(sum(W[i, j]*h[t-1, j], j) + x[t, i]), h[-1, i] = h0[i]"
    values = arrays()
    found = td.lambdify([*values], td.parse(DECLARED + text).expression)(*values.values())
    np.testing.assert_allclose(found, td.lambdify([*values], td.sum(rnn() ** 2))(*values.values()), rtol=1e-13)
    counted = td.parse("declare y[T] s = v[T-1] where v[t] = v[t-1]*y[t] + t, v[-1] = 1").expression
    assert td.evaluate(counted, {td.TensorSymbol("y", T): [2, 3]}) == 7  # (1*2 + 0)*3 + 1


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("name", ["kalman", "markov", "gru", "lqr"])
def test_formulas_of_recurrences_are_read_back(name: str) -> None:
    program = practice.PROGRAMS[name]()
    values, _ = practice.point(program, 4)
    known = dict(zip(program.tensors, values, strict=True))
    for expr in (program.loss, td.gradient(program.loss, program.tensors[0])):
        own = [tensor for tensor in program.tensors if tensor in expr.free_symbols]
        shapes = [f"{s.name}[{', '.join(map(sympy.latex, s.shape))}]" if s.shape else s.name for s in own]
        read = td.parse(f"declare {', '.join(shapes)} {td.latex(expr)}", language="latex").expression
        args = [tensor for tensor in own if tensor in read.free_symbols]
        assert args == own
        found, expected = (td.lambdify(own, e, "numpy")(*(known[s] for s in own)) for e in (read, expr))
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("h where h[t] = W @ h[t-2] + x[t], h[-1] = h0", r"h is read at t-2: a step reads states at t-1"),
        ("h where h[t] = V @ h[t-1] + x[t], h[-1] = h0", "V is not declared: with recurrences, all tensors"),
        ("h where h[t] = W @ h[t-1] + x[t]", r"h is read at t-1, and has no first value: add a line such as h\[-1\]"),
        ("h where h[t] = tanh(h[t] + x[t]), h[-1] = h0", "h needs itself at the same time t"),
        ("h where h[t] = tanh(h[t-1] + x[t]), h[-1] = h0, 3", "3 is not a line of a recurrence"),
        ("h where h[t] = h[t-1] + W, h[-1] = 0, z[-1] = 1", "z has a first value and no step"),
        ("h where h[t] = W*h[t-1], h[-1] = h0", "the number of steps of h is not clear"),
        ("h where h[t] = W*h[t-1] + x[t]*h0', h[-1] = h0", "the operands|do not fit|different"),
        ("h where h[t] = W*g[t] + x[t], g[t] = W*h[t-1] + g[t+1], h[-1] = h0, g[T] = h0", "different directions"),
        ("h where h[t] = W*h[t-1] + x[t], h[-1] = h0 derivative wrt Q", "Q is not declared"),
    ],
)
def test_mistakes_in_recurrences_are_explained(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        td.parse(DECLARED + text)


# ---------------------------------------------------------------------------- Numba


@pytest.mark.in_turns(8)
def test_numba_compiles_the_loop_over_time() -> None:
    """A scan in a scan, stacked numbers, and a sum over the time, which other kernels read."""
    step = lambda s, x, t: (s * td.sum(td.scan(lambda h: h / 2 + x, x, length=2)), s * x + t)  # noqa: E731
    numbers, total = td.scan(step, 1, x, total=True)
    exprs, values = (numbers, td.sum(total * h0), total), arrays()
    function = td.lambdify([x, h0], exprs, "numba")
    assert "np.errstate" not in function.source
    assert "compiled: one function" in function.plan
    expected = td.lambdify([x, h0], exprs)(values[x], values[h0])
    for own, other in zip(function(values[x], values[h0]), expected, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-13)


def test_plans_say_where_steps_run_in_python() -> None:
    inverse = td.scan(lambda h, x: td.inv(W + td.outer(h, h)) @ x, h0, x)
    assert "the steps of result run in Python, with NumPy" in td.lambdify([W, x, h0], inverse, "numba").plan


# ---------------------------------------------------------------------------- trajectories


def defects() -> Any:
    """Return the distances of a trajectory's rows from a step of its dynamics."""
    step = lambda c, now, new: ((c,), td.sum((new - td.tanh(W @ now)) ** 2))  # noqa: E731
    return td.scan(step, {"c": 0}, {"now": x[:-1], "new": x[1:]}, total=True)[1]


def test_hessians_of_trajectories_are_block_banded() -> None:
    loss, values = defects() + td.sum(x**4), arrays(5)
    found = td.structured_hessian([W, x], loss, x)(values[W], values[x])
    dense = td.lambdify([W, x], td.hessian(loss, x), "numpy")(values[W], values[x]).reshape(10, 10)
    np.testing.assert_allclose(found.toarray(), dense, rtol=1e-12, atol=1e-12)
    rows, columns = td.structured_hessian([W, x], loss, x).structure(values[W], values[x])
    assert max(abs(rows // 2 - columns // 2)) == 1
    with pytest.raises(td.errors.UnsupportedError, match="each state depends on all rows before it"):
        td.structured_hessian([W, x, h0], td.sum(rnn() ** 2), x)


# ---------------------------------------------------------------------------- running sums and products


@pytest.mark.parametrize("options", [{}, {"reverse": True}, {"last": True}, {"last": True, "reverse": True}])
@pytest.mark.parametrize(
    ("step", "first"),
    [
        (lambda s, y, t: s + 2 * y**2, 0),
        (lambda s, y, t: s - t * y, 3),
        (lambda s, y, t: s * (1 + y), 5),
    ],
)
def test_running_sums_and_products_of_any_term(step: Any, first: int, options: dict[str, Any]) -> None:
    y, numbers = td.TensorSymbol("y", T), [2, 3, -5]
    found = td.scan(step, first, y, **options)
    state: Any = first
    states = [0, 0, 0]
    for time in range(3)[:: -1 if options.get("reverse") else 1]:
        states[time] = state = step(state, numbers[time], time)
    expected = state if options.get("last") else states
    assert np.all(td.evaluate(found, {y: numbers}) == expected)
    assert not found.has(td.Scan)


def test_steps_that_raise_are_explained() -> None:
    with pytest.raises(td.errors.ArgumentTypeError, match=r"called with \(a0, a1\), b, as step\(state, x, t\)"):
        td.scan(lambda a, b: (b, a + b), (h0, h0), length=T)


# ---------------------------------------------------------------------------- stacks and rows


def test_stacks_and_rows_are_printed_as_they_are_written() -> None:
    y, z = td.TensorSymbol("y", n), td.TensorSymbol("z", n)
    stack, row = td.stack((y, 2 * z)), td.TensorSymbol("A", (3, n))[2]
    assert str(stack) == "stack((y, TensorComprehension(2*z[j], (j, n))))"
    assert str(row) == "A[2]"
    known = {"y": y, "z": z, "n": n, "A": td.TensorSymbol("A", (3, n)), "j": j}
    for expr in (td.stack((y, z)), row, td.stack((y[0], y[1]))):
        assert eval(str(expr), {**vars(td), **known}) == expr
    formula = td.latex(stack)
    assert formula.startswith(r"\begin{pmatrix} y \\ ")
    found = td.parse(f"declare y[n], z[n]\n{formula}", language="latex").expression
    values = {"y": [1.0, 2.0], "z": [3.0, 5.0]}
    own = {symbol: values[symbol.name] for symbol in found.free_symbols if symbol.name in values}
    assert (td.evaluate(found, own) == [[1, 2], [6, 10]]).all()
    unequal = td.TensorComprehension(sympy.Piecewise((y[0], i < 2), (y[1], True)), (i, 3))
    by_index = td.TensorComprehension(sympy.KroneckerDelta(i, 1) * i * y[0], (i, 2))
    assert "stack" not in str((unequal, by_index))


def test_parts_of_a_gradient_with_entries_are_a_stack() -> None:
    program = practice.PROGRAMS["lstm"]()
    formula = td.latex(td.gradient(program.loss, program.tensors[0]))
    assert formula.count(r"\begin{pmatrix}") == 1
    assert r"\delta" not in formula
    assert r"\sigma\left(\left(u_{t}\right)_{0, :}\right)" in formula


# ---------------------------------------------------------------------------- texts of long steps


def read_back(expr: Any) -> Any:
    """Return what Python reads in the text of ``expr``, with the names of the package and the symbols in it."""
    symbols = {**{name: td.indices(name) for name in "ijpq"}, **{str(symbol): symbol for symbol in expr.free_symbols}}
    return eval(str(expr), {name: getattr(td, name) for name in td.__all__} | {"Mod": sympy.Mod} | symbols)


@pytest.mark.in_turns(8)
@pytest.mark.parametrize(("name", "longest"), [("lstm", 1000), ("kalman", 800), ("lorenz96", 3000), ("gru", 550)])
def test_texts_name_the_common_parts_of_steps(name: str, longest: int) -> None:
    program = practice.PROGRAMS[name]()
    values, _ = practice.point(program, 3)
    for expr in (program.loss, td.gradient(program.loss, program.tensors[0])):
        assert len(str(expr)) < longest
        args = [tensor for tensor in program.tensors if tensor in expr.free_symbols]
        given = [value for tensor, value in zip(program.tensors, values, strict=True) if tensor in args]
        found, expected = (td.lambdify(args, e, "numpy")(*given) for e in (read_back(expr), expr))
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


def long_step(u: Any, x: Any) -> Any:
    """A step with a part that occurs several times, whose state has the name that parts have."""
    part = td.tanh(W @ u + V @ x + td.sum(x) * td.sin(u))
    return part * (1 + td.exp(part)) / (2 + part**2)


@pytest.mark.in_turns(8)
def test_names_of_parts_are_those_of_nothing_else() -> None:
    inner = td.scan(long_step, h0, x)
    outer = td.scan(lambda h, x, t: long_step(h + td.scan(long_step, h, td.stack((x, h)), last=True), x) * t, h0, x)
    gradient = td.gradient(td.sum(td.scan(long_step, h0, inner) ** 2), h0)
    assert str(gradient).count("states :=") == 2
    for expr in (inner, outer, gradient):
        text = str(expr)
        assert "v := tanh(" in text
        assert "lambda u, x: (u :=" not in text
        symbols = [s for s in (W, V, x, h0) if s in expr.free_symbols]
        rng = np.random.default_rng(0)
        given = [rng.normal(size=(4, 2) if s == x else (2, 2) if s in (W, V) else 2) for s in symbols]
        found, expected = (td.lambdify(symbols, e, "numpy")(*given) for e in (read_back(expr), expr))
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_the_last_value_of_steps_that_is_no_state_is_an_entry_in_texts() -> None:
    full = rnn()
    last = full.result("last", td.sum(full.states[0].update ** 2))
    assert str(last) == "scan(lambda h, x: (tanh(x + W @ h), sum(tanh(x + W @ h)**2)), h0, x)[1][T - 1]"
    values = arrays()
    found, expected = (td.lambdify([*values], e, "numpy")(*values.values()) for e in (read_back(last), last))
    np.testing.assert_allclose(found, expected, rtol=1e-13)


def test_cotangents_of_stacked_states_are_written_in_the_recursion() -> None:
    """Backpropagation through time as in a textbook: no rows of differences."""
    y = td.TensorSymbol("y", (T, n))
    formula = td.latex(td.gradient(td.sum((rnn() - y) ** 2) / 2, h0))
    assert r"\left(\mathrm{d}h_{t+1} + h_{t} - y_{t}\right)" in formula
    assert r"\mathrm{d}y" not in formula
    numbers = td.scan(lambda s, x: td.sum(x) * sympy.sin(s), 1, x)
    formula = td.latex(td.gradient(td.sum(numbers**2 * td.exp(numbers)), x))
    assert r"e^{s_{t}}" in formula


def test_filters_are_written_with_their_gain() -> None:
    program = practice.PROGRAMS["kalman"]()
    formula = td.latex(td.gradient(program.loss, program.tensors[-1]))
    assert r"P_{t} &= g_{t} - f_{t} H g_{t} \\" in formula
