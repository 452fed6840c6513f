"""Random inputs: values against an evaluator of the grammar, and an answer or an error of ours to any text."""

import random

import numpy as np
import pytest
from evaluator import Evaluator, SizeNeeded
from hypothesis import example, given, settings
from hypothesis import strategies as st
from inputs import Inputs, edited

import sympy_tensordiff as td
from sympy_tensordiff.errors import ParseError, SingularMatrixError

SMOOTH = ("sin", "cos", "tanh", "arctan", "exp", "relu", "abs")


def value_and_truth(seed, sizes_differ=True):
    """The value of a random input, and that of the evaluator; None where it is not a moderate number."""
    text = Inputs(seed, SMOOTH).text(5)
    parsed = td.parse(text)
    draw = np.random.default_rng(seed)
    symbols = {size for tensor in parsed.tensors.values() for size in tensor.shape}
    sizes = {symbol: int(draw.integers(2, 5)) if sizes_differ else 3 for symbol in sorted(symbols, key=str)}
    arrays = {
        name: draw.uniform(0.5, 1.5, [sizes[size] for size in tensor.shape]) for name, tensor in parsed.tensors.items()
    }
    expression = text.partition("expression ")[2].partition(" derivative")[0]
    try:
        with np.errstate(all="ignore"):
            truth = Evaluator(expression, arrays, None if sizes_differ else 3).value()
    except SizeNeeded:
        return value_and_truth(seed, False)
    except np.linalg.LinAlgError:
        return None
    if not np.all(np.isfinite(truth)) or np.abs(truth).max() > 1e6:
        return None
    free = sorted(parsed.expression.free_symbols - set(parsed.tensors.values()) - symbols, key=str)
    function = td.lambdify((*parsed.tensors.values(), *free), parsed.expression, backend="numpy")
    try:
        value = function(*arrays.values(), *(3 for _ in free))
    except SingularMatrixError:
        return None
    return value, truth


@pytest.mark.parametrize("start", range(0, 20, 5))
def test_values_are_those_of_the_grammar(start):
    checked = 0
    for seed in range(start, start + 5):
        found = value_and_truth(seed)
        if found is None:
            continue
        value, truth = found
        assert np.shape(value) == np.shape(truth)
        assert np.allclose(value, truth, rtol=1e-6, atol=1e-8)
        checked += 1
    assert checked >= 2


def answered(text):
    """Parses; an error must be ours, and printable."""
    try:
        str(td.parse(text))
    except ParseError as error:
        assert error.line >= 1 and error.column >= 1 and str(error).count("\n") == 2
        str(error).encode()
        return False
    return True


@settings(max_examples=15, deadline=None, derandomize=True)
@given(st.integers(0, 10**9), st.integers(1, 12))
def test_valid_inputs_are_answered(seed, size):
    text = Inputs(seed).text(size)
    try:
        td.parse(text)
    except ParseError as error:
        assert "not a finite real number" in error.message  # an inverse of 0, a logarithm of a negative number, …


@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.integers(0, 10**9), st.integers(1, 8))
def test_edited_inputs_are_answered_or_refused(seed, count):
    source = random.Random(seed)
    answered(edited(Inputs(seed).text(4), source, count))


@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.one_of(st.text(), st.binary().map(lambda data: data.decode("latin-1")), st.text("aAx12.+-*/^(),-> #\n")))
@example("declare \ud800")
def test_any_text_is_answered_or_refused(text):
    answered(text)
    answered(f"declare a 0 x 1 A 2 expression {text} derivative wrt x")


NESTS = [("(", ")"), ("-(", ")"), ("sin(", ")"), ("relu(", "+1)"), ("abs(", "-1)"), ("1/(", "+1)"), ("a^(", ")")]


@pytest.mark.parametrize(("left", "right"), NESTS)
def test_deep_nests_have_derivatives(left, right):
    depth = 16
    parsed = td.parse(f"declare a 0 x 1 expression {left * depth}a{right * depth} derivative wrt a")
    function = td.lambdify((parsed.argument,), (parsed.expression, parsed.derivative()), backend="numpy")
    value, slope, step = *function(0.8), 1e-6
    assert np.isclose(slope, (function(0.8 + step)[0] - function(0.8 - step)[0]) / (2 * step), rtol=1e-4, atol=1e-8)
    assert np.isfinite(value) and len(str(parsed)) < 10_000


@pytest.mark.in_turns(3)
@pytest.mark.parametrize(("left", "right", "by"), [("(", ")", "a"), ("-(", ")", "x"), ("", "+a", "a")])
def test_ten_thousand_levels(left, right, by):
    parsed = td.parse(f"declare a 0 x 1 expression {left * 10_000}{by}{right * 10_000} derivative wrt {by}")
    assert parsed.expression == (10_001 * parsed.argument if right == "+a" else parsed.argument)


@pytest.mark.in_turns(4)
def test_deep_functions_of_whole_tensors():
    depth = 1_000
    parsed = td.parse(f"declare x 1 expression {'sin(' * depth}x{')' * depth} derivative wrt x")
    value = np.array([0.5, 1.0])
    assert np.allclose(
        td.lambdify((parsed.argument,), parsed.expression, backend="numpy")(value), iterated(value, depth)
    )


def iterated(value, depth):
    for _ in range(depth):
        value = np.sin(value)
    return value


# The terms around a nest -> its value and derivative from those of what is inside, at a.
SLOPES = {
    ("exp(-(", "))"): lambda f, df, a: (np.exp(-f), -np.exp(-f) * df),
    ("a^(", ")"): lambda f, df, a: (a**f, a**f * (df * np.log(a) + f / a)),
}


@pytest.mark.parametrize(("left", "right"), SLOPES)
def test_derivatives_of_deep_nests_of_powers(left, right):
    depth, value, slope = 60, 0.7, 1.0
    parsed = td.parse(f"declare a 0 expression {left * depth}a{right * depth} derivative wrt a")
    function = td.lambdify((parsed.argument,), (parsed.expression, parsed.derivative()), backend="numpy")
    for _ in range(depth):
        value, slope = SLOPES[left, right](value, slope, 0.7)
    assert np.allclose(function(0.7), (value, slope), rtol=1e-9, atol=1e-300)


def test_derivatives_of_many_levels_are_written_without_recursion():
    depth = 800
    parsed = td.parse(f"declare a 0 expression {'exp(-(' * depth}a{'))' * depth} derivative wrt a")
    assert 0 < len(str(parsed.derivative())) < 10_000


def test_deep_nests_are_read_back():
    text = f"declare a 0 expression {'sin(-(1+relu(' * 30}a{')' * 3 * 30} derivative wrt a"
    assert td.parse(td.to_text(td.parse(text))) == td.parse(text)
