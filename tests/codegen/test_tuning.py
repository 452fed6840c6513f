"""`td.tune` builds the alternatives of a plan, keeps the fastest and says so; readings are replaced by numbers here."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import sympy_tensordiff as td
from sympy_tensordiff.codegen import tuning
from sympy_tensordiff.errors import ArgumentTypeError

n, m, d = td.indices("n m d")
i, j, k = td.indices("i j k")
X, C, w = td.TensorSymbol("X", (n, d)), td.TensorSymbol("C", (m, d)), td.TensorSymbol("w", m)
A, x = td.TensorSymbol("A", (n, m)), td.TensorSymbol("x", m)
distance = td.IndexedSum((X[i, k] - C[j, k]) ** 2, (k, 0, d - 1))
network = td.TensorComprehension(td.IndexedSum(w[j] * td.exp(-distance), (j, 0, m - 1)), (i, n))
ARGUMENTS = (X, C, w)
random = np.random.default_rng(0)
VALUES = random.normal(size=(5, 3)), random.normal(size=(40, 3)), random.normal(size=40)


@pytest.fixture
def readings(monkeypatch, tmp_path):
    """The names of the rules left out in the functions that were timed; those without "distribute" are the faster."""
    monkeypatch.setenv("SYMPY_TENSORDIFF_CACHE", str(tmp_path))
    found = []

    def ratio(one, other, arrays):
        found.append(one.program.rules_off)
        return 0.5 if "distribute" in one.program.rules_off - other.program.rules_off else 1.0

    monkeypatch.setattr(tuning, "_ratio", ratio)
    return found


def functions():
    return td.lambdify(ARGUMENTS, (network, td.gradient(td.sum(network), C)))


@pytest.mark.in_turns(8)
def test_the_fastest_alternative_is_taken(readings):
    f = functions()
    tuned = td.tune(f, *VALUES)
    assert tuned.program.rules_off == {"distribute"}
    assert "distribute: functions" in f.plan
    assert "distribute: functions" not in tuned.plan
    assert "tuned for n = 5, d = 3, m = 40: without the rule: distribute, in 0.50 of the time" in tuned.plan
    for one, other in zip(tuned(*VALUES), f(*VALUES), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.in_turns(4)
def test_alternatives_with_the_same_text_are_not_timed(readings):
    td.tune(functions(), *VALUES)
    assert 2 < len(readings) < 12
    texts = [off for off in readings if "gather" in off]  # nothing selects entries here
    assert texts == []


@pytest.mark.in_turns(8)
def test_a_choice_is_kept_and_found_again(readings):
    td.tune(functions(), *VALUES)
    count = len(readings)
    again = td.tune(functions(), *VALUES)
    assert len(readings) == count
    assert again.program.rules_off == {"distribute"}
    td.tune(functions(), *VALUES, again=True)
    assert len(readings) == 2 * count
    longer = random.normal(size=(6, 3)), *VALUES[1:]
    td.tune(functions(), *longer)
    assert len(readings) == 3 * count  # other sizes


@pytest.mark.in_turns(10)
@pytest.mark.parametrize("text", ["", "[]", '{"without the rule: distribute": "a"}', "{"])
def test_damaged_choices_are_not_used(readings, tmp_path, text):
    td.tune(functions(), *VALUES)
    (path,) = tmp_path.glob("*.json")
    path.write_text(text)
    count = len(readings)
    assert td.tune(functions(), *VALUES).program.rules_off == {"distribute"}
    assert len(readings) == 2 * count


def test_unknown_names_in_a_kept_choice_change_nothing(readings, tmp_path):
    td.tune(functions(), *VALUES)
    (path,) = tmp_path.glob("*.json")
    path.write_text('{"a rule of another version": 0.5}')
    assert td.tune(functions(), *VALUES).program.rules_off == frozenset()


def test_no_time_no_readings(readings):
    tuned = td.tune(functions(), *VALUES, seconds=1e-9)
    assert readings == []
    assert "as planned" in tuned.plan


def test_tuned_functions_pickle(readings):
    tuned = pickle.loads(pickle.dumps(td.tune(functions(), *VALUES)))
    assert tuned.program.rules_off == {"distribute"}
    np.testing.assert_allclose(tuned(*VALUES)[0], functions()(*VALUES)[0], rtol=1e-12)


def test_wrong_values_are_never_taken(readings, monkeypatch):
    monkeypatch.setattr(tuning, "_agree", lambda one, other: False)
    assert td.tune(functions(), *VALUES).program.rules_off == frozenset()
    assert readings == []


def test_products_may_be_loops(monkeypatch, tmp_path):
    monkeypatch.setenv("SYMPY_TENSORDIFF_CACHE", str(tmp_path))
    monkeypatch.setattr(tuning, "_ratio", lambda one, other, arrays: 0.9 if "np.dot" not in one.source else 1.0)
    f = td.lambdify((A, C), td.TensorComprehension(td.IndexedSum(A[i, k] * C[k, j], (k, 0, m - 1)), (i, n), (j, d)))
    tuned = td.tune(f, random.normal(size=(3, 40)), VALUES[1])
    assert "sums of products in loops" in tuned.plan


def test_real_readings():
    f = td.lambdify((A, x), A @ x, "numpy")
    tuned = td.tune(f, VALUES[0], np.ones(3), seconds=5, again=True)
    np.testing.assert_allclose(tuned(VALUES[0], np.ones(3)), VALUES[0].sum(1))


def test_other_things_are_refused():
    with pytest.raises(ArgumentTypeError, match=r"td.tune takes a function that td.lambdify made .*, not function"):
        td.tune(lambda x: x, 1)
    cuda = td.lambdify((A, x), A @ x, "cuda")
    with pytest.raises(ArgumentTypeError, match=r"not <CompiledFunction.A, x. for cuda>"):
        td.tune(cuda, VALUES[0], np.ones(3))
    f = td.lambdify((A, x), A @ x, "numpy")
    for seconds in (0, -1, "1", True):
        with pytest.raises(ArgumentTypeError, match="seconds must be a positive number"):
            td.tune(f, VALUES[0], np.ones(3), seconds=seconds)
