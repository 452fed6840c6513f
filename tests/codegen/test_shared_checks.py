"""A read that occurs under many loops of equal ranges has one check, in any order and under any names of the loops."""

from __future__ import annotations

import numpy as np
import pytest
import sympy

import sympy_tensordiff as td
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.errors import OutOfShapeError

i, j, n, m, T = td.indices("i j n m T")
A, B = td.TensorSymbol("A", (n, n)), td.TensorSymbol("B", (n, m))


def forward(steps, obs):
    """The likelihood of a hidden Markov model: the tables of earlier steps are read in the sums of later ones."""
    a = td.TensorComprehension(B[i, obs[0]], (i, n))
    for step in range(1, steps):
        before = td.IndexedSum(sympy.exp(a[j] + A[j, i]), (j, 0, n - 1))
        a = td.TensorComprehension(sympy.log(before) + B[i, obs[step]], (i, n))
    return td.logsumexp(a)


@pytest.mark.in_turns(8)
def test_checks_grow_with_the_reads_not_with_the_loops_around_them():
    """Each new step brings as many checks as the one before, though it is read under one loop more."""
    obs = td.TensorSymbol("obs", T, dtype=int)
    counts = []
    for steps in (3, 4, 5):
        f = forward(steps, obs)
        program = build_program((A, B, obs), (f, td.gradient(f, A)), rows=True)
        counts.append((len(program.checks), len(program.data_checks)))
    assert all(number > 0 for number in counts[0])
    assert [b - a for a, b in zip(counts[0], counts[1], strict=True)] == [
        b - a for a, b in zip(counts[1], counts[2], strict=True)
    ]


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_each_step_is_checked(wrong):
    """A letter outside of the alphabet, or a text that is too short, is refused at every step."""
    obs = td.TensorSymbol("obs", T, dtype=int)
    f = td.lambdify((A, B, obs), td.gradient(forward(3, obs), A), "numpy")
    data = np.array([1, 0, 2])
    arrays = np.zeros((2, 2)), np.zeros((2, 3))
    assert np.isfinite(f(*arrays, data)).all()
    data[wrong] = 3
    with pytest.raises(IndexError, match=rf"obs\[{wrong}\]"):
        f(*arrays, data)
    with pytest.raises(OutOfShapeError, match="obs"):
        f(*arrays, data[:2])
