"""Bounds of rounding errors of recurrences: those of the unrolled formulas, and larger than the errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy

import sympy_tensordiff as td
from sympy_tensordiff.errors import UnsupportedError

n, T = td.indices("n T")
s = sympy.Symbol("s", real=True)
W, x, h0, y = (td.TensorSymbol(*one) for one in (("W", (n, n)), ("x", (3, n)), ("h0", n), ("y", 3)))


def numbers() -> tuple[Any, Any]:
    """A state that is a number, and the same unrolled."""
    step = lambda a, y: s * sympy.sin(a) + y  # noqa: E731
    a = s
    for t in range(3):
        a = step(a, y[t])
    return td.scan(step, s, y, last=True), a


def network(**options: Any) -> tuple[Any, Any]:
    """States that are vectors, from a sequence that is computed."""
    step = lambda h, x: td.tanh(W @ h + x)  # noqa: E731
    h = h0
    for t in range(3):
        h = step(h, x[t] ** 2)
    return td.scan(step, h0, x**2, last=True, **options), h


def backwards() -> tuple[Any, Any]:
    """Outputs that are added, backwards in time."""
    step = lambda h, x: (h * x + W @ h, td.sum(h**2))  # noqa: E731
    h, total = h0, []
    for t in (2, 1, 0):
        total.append(td.sum(h**2))
        h = step(h, x[t])[0]
    return td.scan(step, h0, x, total=True, reverse=True)[1], sum(total)


def point() -> dict[Any, Any]:
    rng = np.random.default_rng(1)
    return {
        W: rng.normal(size=(2, 2)),
        x: rng.normal(size=(3, 2)),
        h0: rng.normal(size=2),
        y: rng.normal(size=3),
        s: 0.7,
    }


def bound(expr: Any, **options: Any) -> Any:
    values = {symbol: value for symbol, value in point().items() if symbol in expr.free_symbols}
    return td.error_bound(expr, values, **options)


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("pair", [numbers, network])
def test_bounds_are_those_of_unrolled_formulas(pair: Any) -> None:
    own, other = map(bound, pair())
    np.testing.assert_allclose(own.bound, other.bound, rtol=1e-12)
    np.testing.assert_allclose(sum(term.bound for term in own.data), sum(term.bound for term in other.data), rtol=1e-12)


@pytest.mark.in_turns(4)
def test_bounds_of_totals_count_the_additions_of_a_loop() -> None:
    own, other = map(bound, backwards())
    assert 0.5 < own.bound / other.bound < 1.5
    assert len(own.terms) == len({str(term.part) for term in own.terms})


@pytest.mark.in_turns(8)
def test_errors_in_single_precision_are_below_the_bound() -> None:
    h, _ = network()
    rng, worst = np.random.default_rng(2), 0.0
    for _ in range(5):
        values = {W: rng.normal(size=(2, 2)), x: rng.normal(size=(3, 2)), h0: rng.normal(size=2)}
        single = {symbol: value.astype(np.float32) for symbol, value in values.items()}
        found = td.error_bound(h, single, dtype="float32")
        state, exact = single[h0], single[h0].astype(float)
        for row in single[x]:
            state = np.tanh(single[W] @ state + row**2)
            exact = np.tanh(single[W].astype(float) @ exact + row.astype(float) ** 2)
        assert state.dtype == np.float32
        errors = np.abs(state - exact) / found.bound
        assert np.all(errors <= 1)
        worst = max(worst, float(errors.max()))
    assert worst > 0.01


def test_the_bound_of_a_state_is_a_recurrence() -> None:
    z = td.TensorSymbol("z", T)
    found = td.error_bound(td.scan(lambda a, z: s * a + z, 1, z, last=True))
    assert [str(term.part) for term in found.terms] == ["a*s", "a*s + z"]
    assert "reverse=True" in str(found.bound)


def test_recurrences_inside_of_each_other_are_refused() -> None:
    inner = lambda h, x: td.scan(lambda a, y: sympy.sin(a) * y, 1, h * x, last=True) * h  # noqa: E731
    with pytest.raises(UnsupportedError, match="depends on indices or steps around it"):
        td.error_bound(td.scan(inner, h0, x, last=True))
