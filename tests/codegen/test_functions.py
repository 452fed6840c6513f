"""Functions that the user supplies, in every backend: keys, implementations, names, laziness."""

from __future__ import annotations

import ast
import math
import pickle

import numba
import numpy as np
import pytest
import sympy
from every import every
from function_cases import CASES, S, X, Y, check, g, h, i, k, n, x, y
from sympy import Derivative, Function

import sympy_tensordiff as td
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError, UnsupportedError

GRADIENT = td.gradient(S(g(x[k]) * h(x[k], y[k])), x)
FUNCTIONS = {"g": np.sin, "g'": np.cos, "h": lambda s, t: s * s * t, ("h", (1, 0)): lambda s, t: 2 * s * t}
SLOPE = Y * (2 * X * np.sin(X) + X**2 * np.cos(X))


def square(t):
    return t * t


def twice(t):
    return 2 * t


@every("name", [*CASES])
def test_cases(name):
    check(name, "numpy")


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("name", ["a branch", "by x: two conditions", "by x: nested"])
def test_compiled_cases(name):
    """The text is that of CUDA, which runs them all."""
    check(name, "numba")


@every("name", [*CASES], turns=8)
def test_cases_on_cuda(name, simulator):
    simulator(check, name, "cuda")


@pytest.mark.parametrize("backend", ["numpy", "numba"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_dtype_stays(backend, dtype):
    wide = {**FUNCTIONS, "g": lambda t: np.float64(1) * np.sin(t)}
    result = td.lambdify([x, y], GRADIENT, backend, functions=wide)(X.astype(dtype), Y.astype(dtype))
    assert result.dtype == dtype
    np.testing.assert_allclose(result, SLOPE, rtol=1e-5)


def test_derivatives_are_looked_up_by_their_orders():
    f = td.hessian(S(h(x[k], y[k] ** 2)), y)
    keys = {("h", (0, 1)): lambda s, t: s + t, ("h", (0, 2)): lambda s, t: s * t}
    got = td.lambdify([x, y], f, "numpy", functions=keys)(X, Y)
    np.testing.assert_allclose(np.diag(got), 2 * (X + Y**2) + 4 * Y**2 * X * Y**2)


@pytest.mark.parametrize("key", ["g''", ("g", (2,)), ("g", [2])])
def test_short_keys(key):
    expression = Derivative(g(x[0]), (x[0], 2))
    functions = {("g", (2,)) if isinstance(key, tuple) else key: twice}
    assert td.lambdify([x], expression, "numpy", functions=functions)(X) == 2 * X[0]


def test_one_key_for_all_numbers_of_arguments():
    total = td.lambdify([x], g(x[0]) + g(x[0], x[1]), "numpy", functions={"g": lambda *a: sum(a)})(X)
    assert total == 2 * X[0] + X[1]


def test_spare_derivatives_do_no_harm():
    assert td.lambdify([x], g(x[0]), "numpy", functions={"g": np.sin, "g'": np.cos})(X) == math.sin(X[0])


def test_functions_of_sympy_that_no_backend_knows():
    T = td.TensorComprehension(sympy.besselj(x[i], 2 * y[i]), (i, n))
    derived = td.jacobian(T, x)
    keys = {("besselj", (1, 0)): lambda nu, z: nu + 2 * z}
    np.testing.assert_allclose(np.diag(td.lambdify([x, y], derived, "numpy", functions=keys)(X, Y)), X + 4 * Y)
    with pytest.raises(UnsupportedError, match=r"evaluate besselj: .*functions=\{\('besselj', \(1, 0\)\): ...\}"):
        td.lambdify([x, y], derived)


# ------------------------------------------------------------------ keys

MISSING = r"no backend can evaluate g, h: .*functions=\{'g': ..., \"g'\": ..., 'h': ..., \('h', \(1, 0\)\): ...\}"


@every(
    "functions, kind, message",
    [
        (None, UnsupportedError, MISSING),
        ({"g": np.sin}, UnsupportedError, r"evaluate g, h: .*\{\"g'\": ..., 'h': ..., "),
        ({**FUNCTIONS, "k": np.sin}, ArgumentError, r"functions\['k'\] is not in the expression: it calls g, h"),
        ({**FUNCTIONS, ("g", (0,)): np.sin}, ArgumentError, r"two keys that mean \('g', \(0,\)\)"),
        ({**FUNCTIONS, ("g", (1,)): np.sin}, ArgumentError, "two keys that mean"),
        ({**FUNCTIONS, "g": 3}, ArgumentTypeError, r"functions\['g'\] is 3, which cannot be called"),
        ({**FUNCTIONS, "g": None}, ArgumentTypeError, "is None, which cannot be called"),
        ({**FUNCTIONS, 3: np.sin}, ArgumentTypeError, "has the key 3: a key is a name, 'g', or"),
        ({**FUNCTIONS, "": np.sin}, ArgumentTypeError, "has the key ''"),
        ({**FUNCTIONS, "'": np.sin}, ArgumentTypeError, "has the key"),
        ({**FUNCTIONS, ("g", (-1,)): np.sin}, ArgumentTypeError, "has the key"),
        ({**FUNCTIONS, ("g", ()): np.sin}, ArgumentTypeError, "has the key"),
        ({**FUNCTIONS, ("g", "1"): np.sin}, ArgumentTypeError, "has the key"),
        ({**FUNCTIONS, ("g", (True,)): np.sin}, ArgumentTypeError, "has the key"),
        ([("g", np.sin)], ArgumentTypeError, "functions must be a mapping from names to callables"),
        ("g", ArgumentTypeError, "functions must be a mapping"),
    ],
)
def test_keys(functions, kind, message):
    value = (S(g(x[k])), GRADIENT)
    with pytest.raises(kind, match=message):
        td.lambdify([x, y], value, "numpy", functions=functions)


def test_no_function_is_needed():
    with pytest.raises(ArgumentError, match="it calls no function that has to be supplied"):
        td.lambdify([x], S(sympy.sin(x[k])), functions={"sin": np.sin})


@pytest.mark.parametrize("other", [Function("g", real=True)(x[1]), Function("besselj")(x[0], x[1])])
def test_one_name_is_one_function(other):
    with pytest.raises(ArgumentError, match="two different functions are called"):
        td.lambdify([x], g(x[0]) + sympy.besselj(x[0], x[1]) + other)


# ------------------------------------------------------------------ implementations

BAD = {
    "shape": ("numpy", lambda t: 1.0, ArgumentError, r"of \"g'\" returned shape \(\) for arguments of .*np.vectorize"),
    "sum": ("numpy", np.sum, ArgumentError, "np.vectorize"),
    "numbers only": ("numpy", math.cos, ArgumentError, r"of \"g'\" failed for arguments of shape \(4,\): .*vectorize"),
    "complex": ("numpy", lambda t: 1j * t, ArgumentTypeError, "returned dtype complex128; real numbers are needed"),
    "objects": ("numpy", np.frompyfunc(math.cos, 1, 1), ArgumentTypeError, "returned dtype object"),
    "no arguments": ("numpy", lambda: 1.0, ArgumentError, r"failed .*TypeError"),
    "not compiled": (
        "numba",
        lambda t: ast.parse(t),
        ArgumentError,
        r"of \"g'\" is not for this backend: Numba cannot",
    ),
    "compiled complex": ("numba", lambda t: 1j * t, ArgumentTypeError, r"of \"g'\" returns complex128 for numbers"),
    "wrong number": ("numba", lambda s, t: s, ArgumentError, "Numba cannot compile it"),
    "a vectorised one": ("numba", np.vectorize(math.cos), ArgumentError, "give a function of numbers"),
}


@every("name", [*BAD])
def test_implementations_that_do_not_fit(name):
    backend, bad, kind, message = BAD[name]
    function = td.lambdify([x, y], GRADIENT, backend, functions={**FUNCTIONS, "g'": bad})
    with pytest.raises(kind, match=message):
        function(X, Y)


def test_numbers_are_passed_as_numbers():
    seen = []
    function = td.lambdify([x], g(x[0]) + g(2), "numpy", functions={"g": lambda t: seen.append(np.shape(t)) or t})
    assert function(X) == X[0] + 2
    assert seen == [(), ()]


def test_arguments_are_not_written_to():
    given = np.array([1.0, 2.0])
    function = td.lambdify([x], td.TensorComprehension(g(x[i]), (i, n)), "numpy", functions={"g": square_in_place})
    with pytest.raises(ArgumentError, match=r"failed for arguments of shape \(2,\): ValueError: .*read-only"):
        function(given)
    assert given.tolist() == [1, 2]


def square_in_place(t):
    t *= t
    return t


def test_the_users_own_error_comes_through():
    def fail(t):
        raise KeyError("mine")

    with pytest.raises(ArgumentError, match="KeyError: 'mine'") as caught:
        td.lambdify([x], g(x[0]), "numpy", functions={"g": fail})(X)
    assert isinstance(caught.value.__cause__, KeyError)


def test_two_functions_with_one_text():
    """The generated text is the same; neither Numba's cache nor that of modules may mix them up."""
    for backend in ("numpy", "numba"):
        one, two = (td.lambdify([x], g(x[0]), backend, functions={"g": f}) for f in (square, twice))
        assert one.source == two.source
        assert (one(X), two(X), one(X)) == (X[0] ** 2, 2 * X[0], X[0] ** 2)


@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_pickle(backend):
    function = td.lambdify([x], g(x[0]), backend, functions={"g": square})
    assert pickle.loads(pickle.dumps(function))(X) == X[0] ** 2
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(td.lambdify([x], g(x[0]), backend, functions={"g": lambda t: t}))


def test_dispatchers_are_taken_as_they_are():
    compiled = numba.njit(square)
    assert td.lambdify([x], g(x[0]), functions={"g": compiled})(X) == X[0] ** 2
    assert compiled.nopython_signatures


# ------------------------------------------------------------------ branches that are not taken


def test_a_choice_is_computed_once():
    """Values that both branches need are computed before them, so that nested choices stay small."""
    node = x[i]
    for level in range(8):
        node = sympy.Piecewise((sympy.log(2 + node), y[i] > level), (sympy.sqrt(3 + node), True), evaluate=False)
    text = td.generate_code([x, y], td.TensorComprehension(node, (i, n)))
    text = text[text.index("def fill_") :]
    assert text.count(" log(") + text.count("(log(") == 8
    assert text.count("math.sqrt(") == 8
