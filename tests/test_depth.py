"""Deep and shared expressions: linear passes, no recursion, kernels of bounded size, texts that say no."""

from __future__ import annotations

import copy
import inspect
import re
import sys

import numpy as np
import pytest
import sympy
from sympy import cos, sin, tanh

import sympy_tensordiff as td
from sympy_tensordiff.codegen import api as codegen_api
from sympy_tensordiff.derivative.elementwise import Differentiation
from sympy_tensordiff.errors import ShapeError, UnsupportedError
from sympy_tensordiff.graph.interning import NodeTable
from sympy_tensordiff.integer import implication

i, k, n = td.indices("i k n")


def chain(depth, size=n):
    """``h[i]`` becomes ``sin(h[i]) + h[i]*w[i]``."""
    x, w = td.TensorSymbol("x", size), td.TensorSymbol("w", size)
    h = x
    for _ in range(depth):
        h = td.TensorComprehension(sin(h[i]) + h[i] * w[i], (i, size))
    return h, (x, w)


def net(depth, size=n, shared=True):
    """Layers ``tanh(W h)`` with one matrix, or with one for each."""
    x = td.TensorSymbol("x", size)
    weights = [td.TensorSymbol(f"W{layer}", (size, size)) for layer in range(1 if shared else depth)]
    h = x
    for layer in range(depth):
        W = weights[0 if shared else layer]
        h = td.TensorComprehension(tanh(td.IndexedSum(W[i, k] * h[k], (k, 0, size - 1))), (i, size))
    return h, (x, *weights)


def two_maps(depth, size=n):
    """Each layer reads the one before forwards and backwards."""
    x = td.TensorSymbol("x", size)
    h = x
    for _ in range(depth):
        h = td.TensorComprehension(sin(h[i]) + h[size - 1 - i] / 2, (i, size))
    return h, (x,)


def shrinking(depth, size=n):
    """Each layer reads the one before at two places, and is one shorter."""
    x = td.TensorSymbol("x", size + depth)
    h = x
    for layer in range(depth):
        h = td.TensorComprehension(sin(h[i]) + h[i + 1] / 2, (i, size + depth - layer - 1))
    return h, (x,)


def fibonacci(depth, size=n):
    """Each layer reads the two before: as a tree it is of exponential size."""
    x, w = td.TensorSymbol("x", size), td.TensorSymbol("w", size)
    a, b = x, w
    for _ in range(depth):
        a, b = b, td.TensorComprehension(sin(a[i]) * b[i] + w[i], (i, size))
    return b, (x, w)


FAMILIES = {
    "chain": chain,
    "net": net,
    "nets": lambda depth, size=n: net(depth, size, shared=False),
    "two maps": two_maps,
    "shrinking": shrinking,
    "fibonacci": fibonacci,
}


def cotangent(f):
    return td.TensorSymbol("df", f.shape)


# ---------------------------------------------------------------------------- growth


class Work:
    """The cost of a run: nodes made, questions to the integer solver, characters of the kernels."""

    def __init__(self, family, depth, size, monkeypatch):
        counts = {"nodes": 0, "questions": 0}

        def counting(name, function):
            def counted(*args, **kwargs):
                counts[name] += 1
                return function(*args, **kwargs)

            return counted

        with monkeypatch.context() as patch:
            patch.setattr(NodeTable, "_node", counting("nodes", NodeTable._node))
            patch.setattr(implication, "_system_with", counting("questions", implication._system_with))
            f, variables = FAMILIES[family](depth, size)
            df = cotangent(f)
            gradients = td.vjp(f, variables, df)
            text = td.generate_code((*variables, df), (f, *gradients), "numpy")
        self.counts = (counts["nodes"], counts["questions"], len(text))


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("family", FAMILIES)
def test_work_grows_with_the_depth(family, monkeypatch, thorough):
    """Sizes are symbols and numbers by turns."""
    sizes = n, sympy.Integer(4)
    for size in sizes if thorough else (sizes[[*FAMILIES].index(family) % 2],):
        small, large = (Work(family, depth, size, monkeypatch).counts for depth in (6, 12))
        for before, after in zip(small, large, strict=True):
            assert after <= 2.3 * before


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("family", ["chain", "net", "two maps", "fibonacci"])
def test_forward_and_second_derivatives_grow_with_the_depth(family, monkeypatch):
    counts = []
    for depth in (7, 14):
        made = []
        node = NodeTable._node
        with monkeypatch.context() as patch:
            patch.setattr(NodeTable, "_node", lambda *args, node=node, made=made: made.append(0) or node(*args))
            f, (x, *_) = FAMILIES[family](depth)
            v = td.TensorSymbol("v", x.shape)
            td.jvp(f, x, v)
            td.hvp(td.IndexedSum(f[k], (k, 0, n - 1)), x, v)
        counts.append(len(made))
    assert counts[1] <= 2.4 * counts[0]


def gated(steps):
    """A recurrence whose gate reads the state: the state is used four times in each step."""
    h, W, G = td.TensorSymbol("h", n), td.TensorSymbol("W", (n, n)), td.TensorSymbol("G", (n, n))
    state = h
    for _ in range(steps):
        gate = td.sigmoid(G @ state)
        state = gate * td.exp((W @ state) / 4) + (state - gate * state)
    return td.norm(state), h


def attention(layers):
    state = X = td.TensorSymbol("X", (n, td.indices("d")))
    for _ in range(layers):
        state = state + td.softmax(state @ state.T, axis=1) @ state
    return td.sum(state**2), X


def normalised(layers):
    state, W = td.TensorSymbol("h", n), td.TensorSymbol("W", (n, n))
    h = state
    for _ in range(layers):
        h = h + W @ td.tanh((h - td.mean(h)) / td.sqrt(td.var(h) + 1))
    return td.sum(h**2), state


def product_with_hessian(f, x):
    return td.hvp(f, x, td.TensorSymbol("v", x.shape))


@pytest.mark.in_turns(8)
@pytest.mark.parametrize(
    ("derivative", "family", "depths", "most"),
    [
        (td.hessian, gated, (3, 6), 3),
        (td.gradient, attention, (3, 6), 2.8),
        (product_with_hessian, attention, (2, 4), 3.5),
        (product_with_hessian, normalised, (2, 4), 2.6),
    ],
)
def test_planning_grows_with_the_depth(derivative, family, depths, most, monkeypatch):
    """Sums that use one another several times are multiplied out once each, not once for each path.

    Common factors of sums that use one another are taken out in one pass, not in one for each layer.
    """
    counts, made = [], []
    node = NodeTable._node
    for depth in depths:
        made.clear()
        with monkeypatch.context() as patch:
            patch.setattr(NodeTable, "_node", lambda *args: made.append(0) or node(*args))
            derivative(*family(depth))
        counts.append(len(made))
    assert counts[1] <= most * counts[0]


@pytest.mark.in_turns(8)
def test_conditions_on_deep_values_are_read():
    """The derivative of a norm is a choice whose condition has 3 million nodes as a tree."""
    value, h = gated(8)
    assert td.cost(td.gradient(value, h)).operations.coeff(n, 2) > 0


# ---------------------------------------------------------------------------- values


def layers(family, depth, x, *weights):
    """Value and gradients of a family by plain loops forwards and backwards over NumPy arrays."""
    if family == "chain":
        (w,) = weights
        states = [x]
        for _ in range(depth):
            states.append(np.sin(states[-1]) + states[-1] * w)

        def back(bar):
            dw = np.zeros_like(w)
            for h in reversed(states[:-1]):
                dw += bar * h
                bar = bar * (np.cos(h) + w)
            return bar, dw

    else:
        (W,) = weights
        states = [x]
        for _ in range(depth):
            states.append(np.tanh(W @ states[-1]))

        def back(bar):
            dW = np.zeros_like(W)
            for h, new in zip(reversed(states[:-1]), reversed(states[1:]), strict=True):
                inner = bar * (1 - new**2)
                dW += np.outer(inner, h)
                bar = W.T @ inner
            return bar, dW

    return states[-1], back


def check_against_loops(family, depth, backend, size):
    f, variables = FAMILIES[family](depth, sympy.Integer(size))
    df = cotangent(f)
    function = td.lambdify((*variables, df), (f, *td.vjp(f, variables, df)), backend)
    random = np.random.default_rng(0)
    values = [random.uniform(-0.5, 0.5, [int(e) for e in v.shape]) for v in variables]
    if family == "chain":
        values[1] = random.uniform(0, 1 / depth, size)
    else:
        values[1] = 2 * np.linalg.qr(random.normal(size=(size, size)))[0]
    bar = random.uniform(-1, 1, size)
    expected, back = layers(family, depth, *values)
    results = function(*values, bar)
    for result, wanted in zip(results, (expected, *back(bar)), strict=True):
        assert np.abs(wanted).max() > 1e-200
        assert np.allclose(result, wanted, rtol=1e-9, atol=1e-9 * np.abs(wanted).max())
    return function


@pytest.mark.in_turns(8)
def test_a_chain_of_thousands(thorough):
    """Of nodes, and of far more than there are frames for: each level of the chain has four."""
    depth, limit = 260 if thorough else 90, sys.getrecursionlimit()
    assert limit <= 1000
    sys.setrecursionlimit(min(limit, len(inspect.stack()) + 2 * depth))
    try:
        function = check_against_loops("chain", depth, "numpy", 5)
    finally:
        sys.setrecursionlimit(limit)
    assert function.source.count("\ndef ") < 60
    assert max(map(len, function.source.splitlines())) < 2000


@pytest.mark.in_turns(4)
def test_a_net_of_many_layers():
    check_against_loops("net", 30, "numpy", 4)


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("family", ["two maps", "shrinking", "fibonacci"])
def test_shared_layers(family):
    f, variables = FAMILIES[family](6, sympy.Integer(3))
    td.check_derivative(f, variables[0])
    deep, variables = FAMILIES[family](30, sympy.Integer(3))
    s = td.IndexedSum(deep[i], (i, 0, 2))
    gradient = td.lambdify(variables, td.gradient(s, variables), "numpy")
    value = td.lambdify(variables, s, "numpy")
    random = np.random.default_rng(1)
    values = [random.uniform(-0.5, 0.5, [int(e) for e in v.shape]) for v in variables]
    step = 1e-6
    for number, slope in enumerate(gradient(*values)):
        direction = random.uniform(-1, 1, values[number].shape)
        moved = [[v + sign * step * direction if m == number else v for m, v in enumerate(values)] for sign in (1, -1)]
        measured = (value(*moved[0]) - value(*moved[1])) / (2 * step)
        assert np.isclose((slope * direction).sum(), measured, rtol=1e-5, atol=1e-9)


@pytest.mark.in_turns(4)
def test_results_share_what_they_have_in_common():
    f, variables = net(30, sympy.Integer(3), shared=False)
    graph = Differentiation(f).graph
    assert len(graph._table) < 30 * 40
    gradients = td.vjp(f, variables, cotangent(f))
    program = codegen_api.build_program((*variables, cotangent(f)), gradients)
    assert len(program.kernels) < 5 * 30


# ---------------------------------------------------------------------------- a good citizen


def test_equal_nodes_are_one_object():
    assert chain(300)[0] is chain(300)[0]
    f = chain(5, sympy.Integer(3))[0]
    assert copy.copy(f) is f and copy.deepcopy(f) is f
    assert f != sin(f[0]) and f == f


@pytest.mark.in_turns(8)
def test_deep_nodes_answer_without_recursion():
    f, (x, w) = chain(1500)
    assert f.free_symbols == {x, w, n}
    assert f[0].is_zero is None and not f[0].is_number
    other = two_maps(1500)[0]
    ordered = [sympy.Add(*terms) for terms in ((cos(f[i]), cos(other[i])), (cos(other[i]), cos(f[i])))]
    assert ordered[0] == ordered[1] and ordered[0].args == ordered[1].args
    assert f.sort_key() != other.sort_key() and hash(f) == hash(chain(1500)[0])


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("family", [chain, fibonacci, net])
def test_texts_that_nobody_could_read_are_refused(family):
    f = family(1000, sympy.Integer(3))[0]
    for text in (sympy.latex, sympy.pretty, sympy.srepr):
        for expr in (f, sin(f[0]) + 1):
            with pytest.raises(UnsupportedError, match=r"of depth [\d,]+ with .* nodes as a tree: that is too much to"):
                text(expr)
    for text in (str(f), repr(f), str(sin(f[0]) + 1)):
        assert len(text) < 200 and re.search(r"depth [\d,]+ with .* too much to print", text)
    with pytest.raises(ShapeError, match=r"the shape of <TensorComprehension of depth .* too much to print>"):
        td.vjp(f, td.TensorSymbol("x", 3), td.TensorSymbol("df", 7))


def test_what_can_be_read_is_printed():
    f = net(12, sympy.Integer(3))[0]
    assert all(len(text(f)) > 300 for text in (str, sympy.latex, sympy.pretty, sympy.srepr))
