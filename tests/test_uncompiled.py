"""The fixture `uncompiled`: kernels run as Python from the text for Numba, and refuse what compiled code gets wrong."""

from types import FunctionType

import numpy as np
import pytest
from uncompiled import Checked

import sympy_tensordiff as td
from sympy_tensordiff.codegen.run import compile as compiling

i, n = td.indices("i n")
x = td.TensorSymbol("x", n)
DOUBLED = td.TensorComprehension(2 * x[i], (i, n))


@pytest.mark.usefixtures("uncompiled")
def test_python_runs_and_positions_below_zero_are_refused(monkeypatch):
    function = td.lambdify([x], DOUBLED, "numba")
    assert list(function(np.arange(4.0))) == [0, 2, 4, 6]
    assert isinstance(function._load(np.dtype(float)).run, FunctionType)
    wrong = td.lambdify([x], DOUBLED, "numba")
    load = compiling.load_source

    def load_mutant(source, *more):
        mutant = source.replace("x[i]", "x[i - 1]")
        assert mutant != source
        return load(mutant, *more)

    monkeypatch.setattr(compiling, "load_source", load_mutant)
    with pytest.raises(IndexError, match="at the negative position -1"):
        wrong(np.arange(4.0))


def test_arrays_of_several_axes_and_slices():
    array = np.zeros((2, 3)).view(Checked)
    array[1, 2], array[0, :2] = 5, 7
    assert array.tolist() == [[7, 7, 0], [0, 0, 5]]
    for at in (-1, (0, -1), np.int64(-2)):
        with pytest.raises(IndexError, match="at the negative position"):
            array[at]
        with pytest.raises(IndexError, match="at the negative position"):
            array[at] = 1
