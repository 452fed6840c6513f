"""The memory of temporaries: kept from call to call, never shared by two calls at once."""

from __future__ import annotations

import re
import threading

import numba
import numpy as np
import pytest
from every import every
from numba.extending import overload

import sympy_tensordiff as td
from sympy_tensordiff.codegen.run import repeated_calls as scratch

i, j, k, n, m = td.indices("i j k n m")
x = td.TensorSymbol("x", (n, m))
SQUARES = td.einsum("ij,kj->ik", x, x)


def quadratic():
    """A function with one temporary, of n by n entries."""
    return td.lambdify([x], td.einsum("ij,jk->ik", td.exp(SQUARES), x), parallel=False)


def expected(value):
    return np.exp(value @ value.T) @ value


def value_of(rows, seed=0):
    return np.random.default_rng(seed).uniform(-0.3, 0.3, (rows, 3))


def test_temporaries_are_kept_for_calls_of_the_same_shapes():
    function = quadratic()
    runs = []
    for rows in (5, 200, 200, 150, 5):
        np.testing.assert_allclose(function(value_of(rows)), expected(value_of(rows)), rtol=1e-12)
        runs.append(function._recent.run)
    assert all(isinstance(run, scratch.Workspace) for run in runs)
    assert runs[1] is runs[2]
    assert len(set(runs)) == 4


def test_what_is_left_from_a_call_does_not_matter():
    """Also after a call that has left nan everywhere, and where the checks run again for arrays of another kind."""
    function = quadratic()
    assert np.isnan(function(np.full((200, 3), np.nan))).all()
    remaining = function._recent.run
    for seed in range(3):
        value = value_of(200, seed)
        for given in (value, np.asfortranarray(value), value[:, ::-1]):
            np.testing.assert_allclose(function(given), expected(given), rtol=1e-12)
    function(value)
    assert function._recent.run is remaining
    with pytest.raises(ValueError, match="read-only"):
        frozen = np.empty((200, 3))
        frozen.flags.writeable = False
        function(value, out=frozen)
    np.testing.assert_allclose(function(value), expected(value), rtol=1e-12)


def test_threads_have_temporaries_of_their_own():
    entered, wrong = threading.Barrier(2, timeout=30), []

    def run_in(value, result, array):
        array[:] = value
        entered.wait()  # the other thread has filled its array by now
        result[:] = array

    remaining = scratch.Workspace(run_in, [np.empty(4)])

    def call(value):
        result = np.empty(4)
        remaining(value, result)
        if not (result == value).all():
            wrong.append(value)

    workers = [threading.Thread(target=call, args=(value,)) for value in (1.0, 2.0)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert wrong == []


def test_very_large_temporaries_are_given_back(monkeypatch):
    monkeypatch.setattr(scratch, "MAX_WORKSPACE_BYTES", 200 * 200 * 8 - 1)
    function = quadratic()
    np.testing.assert_allclose(function(value_of(200)), expected(value_of(200)), rtol=1e-12)
    assert not isinstance(function._recent.run, scratch.Workspace)


@every("name", ["scratch", "run_in", "run", "at", "panels", "first", "start", "t"], turns=4)
def test_tensors_may_have_the_names_of_the_module(name):
    tensor = td.TensorSymbol(name, (n, m))
    value = td.einsum("ij,jk->ik", td.exp(td.einsum("ij,kj->ik", tensor, tensor)), tensor)
    sum_of_entries = td.IndexedSum(tensor[i, j] ** 2, (j, 0, m - 1), (i, 0, n - 1))
    shares = td.TensorComprehension(tensor[j, 0] / sum_of_entries, (j, n))
    for parallel in (False, True):
        source = td.generate_code([tensor], (value, shares), parallel=parallel)
        namespace = {"prange": range, "overload": overload, "types": numba.types}
        exec(re.sub(r"(?m)^(@.*|from numba.*)$", "", source), namespace)
        given = value_of(4)
        results = [np.empty((4, 3)), np.empty(4)]
        namespace["run"](given, *results)
        np.testing.assert_allclose(results[0], expected(given), rtol=1e-12)
        np.testing.assert_allclose(results[1], given[:, 0] / (given**2).sum(), rtol=1e-12)


def test_calls_of_other_shapes_that_come_between(monkeypatch):
    """As a call of another thread may, right after a call has found its temporaries to be of its shapes."""
    runs = scratch.Runs(print, print, lambda rows: [np.empty(rows)])
    short, fits = runs.function_for([2]), scratch.Workspace.fits

    def interrupted(remaining, arrays):
        monkeypatch.setattr(scratch.Workspace, "fits", fits)
        found = fits(remaining, arrays)
        runs.function_for([3])
        return found

    monkeypatch.setattr(scratch.Workspace, "fits", interrupted)
    assert runs.function_for([2]) is short
