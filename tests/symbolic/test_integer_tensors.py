"""Tensors of integers: who they are, how their entries are in indices, and what is refused."""

import pickle

import pytest
import sympy
from every import every
from sympy import srepr

import sympy_tensordiff as td
from sympy_tensordiff.drawing import labels
from sympy_tensordiff.errors import (
    ArgumentError,
    ArgumentTypeError,
    IndexExpressionError,
    OutOfShapeError,
    ShapeError,
    UnsupportedError,
)
from sympy_tensordiff.graph.nodes import Graph
from sympy_tensordiff.graph.read import Reader
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.indirect import IndirectIndex
from sympy_tensordiff.reference import differentiate, evaluate

i, j, k, n, p = td.indices("i j k n p")
x = td.TensorSymbol("x", 7)
idx = td.TensorSymbol("idx", 4, dtype=int)
jdx = td.TensorSymbol("jdx", 3, dtype=int)
place = td.TensorSymbol("s", (), dtype=int)

VALUES = {x: [2, 3, 5, 7, 11, 13, 17], idx: [1, 1, 3, 0], jdx: [2, 0, 2], place: 4}


def test_names_of_bound_indices_do_not_matter():
    f = td.IndexedSum(x[idx[jdx[i]]], (i, 0, 2))
    g = td.IndexedSum(x[idx[jdx[k]]], (k, 0, 2))
    assert f.canonical() == g.canonical()
    assert f.free_symbols == {x, idx, jdx}
    graph = Graph()
    reader = Reader(graph)
    assert reader.read(f) is reader.read(g)
    inner = td.IndexedSum(x[idx[i] + k], (i, 0, 2))
    assert inner.subs(k, i).canonical() != f.canonical()
    assert evaluate(inner.subs(k, i), {**VALUES, i: 2}) == evaluate(inner, {**VALUES, k: 2})


REFUSALS = {
    "another dtype": (
        lambda: td.TensorSymbol("x", 3, dtype=complex),
        ArgumentTypeError,
        "dtype must be float or int, got <class",
    ),
    "as an extent": (lambda: td.TensorSymbol("y", idx[0]), ShapeError, r"idx\[0\], which is data: an extent must be"),
    "two dtypes": (
        lambda: td.gradient(x[idx[0]] * td.TensorSymbol("idx", 4)[0], x),
        ShapeError,
        r"of shape \(4,\) (of integers and idx of shape \(4,\);|and idx of shape \(4,\) of integers;)",
    ),
    "two dtypes, read": (
        lambda: td.gradient(td.IndexedSum(x[idx[i]] * td.TensorSymbol("idx", 4)[i], (i, 0, 3)), x),
        ShapeError,
        r"tensors are called idx: one of shape \(4,\)( of integers)?, one of shape \(4,\)",
    ),
    "outside": (lambda: td.IndexedSum(x[idx[i]], (i, 0, 4)), OutOfShapeError, r"idx\[i\] leaves the shape \(4,\)"),
    "outside, of one": (lambda: idx[4], OutOfShapeError, "index 4 of axis 0 lies outside"),
    "no integers": (lambda: evaluate(x[place], {**VALUES, place: 1.5}), ArgumentTypeError, "but s is of integers"),
    "a product of data": (
        lambda: x[idx[i] * jdx[i]],
        IndexExpressionError,
        "multiplies indices or sizes with each other",
    ),
    "by one": (
        lambda: td.gradient(x[idx[0]], idx),
        UnsupportedError,
        "nothing has a derivative with respect to idx, a tensor of",
    ),
    "by an entry": (
        lambda: sympy.diff(x[idx[0]], idx[0]),
        UnsupportedError,
        "nothing has a derivative with respect to idx",
    ),
    "as text": (
        lambda: td.to_text(td.sum(idx)),
        UnsupportedError,
        "to_text: idx is a tensor of integers, which the text",
    ),
    "an expression of data": (
        lambda: x[(idx + 1)[i]],
        IndexExpressionError,
        "is data of a tensor, but no entry of one",
    ),
    "jvp": (lambda: td.jvp(x[idx[0]], idx, idx), UnsupportedError, "between two integers there is no value"),
    "by one, in the oracle": (
        lambda: differentiate(x[place], place, VALUES),
        ArgumentError,
        "s is a tensor of integers: there is no derivative with respect to it",
    ),
}


@every("name", [*REFUSALS])
def test_refused(name):
    make, error, message = REFUSALS[name]
    with pytest.raises(error, match=message):
        make()


def test_labels_of_pictures_name_data():
    entry = Affine.variable(IndirectIndex("idx", (Affine.variable(1) + 1,)))
    assert labels.form_text(2 * entry - Affine.variable(0), {0: "p", 1: "i"}) == "2*idx[i + 1] - p"


def test_a_declared_range_is_part_of_the_identity():
    declared = td.TensorSymbol("idx", 4, dtype=int, below=n)
    assert (declared.below, idx.below) == (n, None)
    assert declared != idx
    assert declared.free_symbols == {declared, n}
    assert declared.func(*declared.args) is declared
    assert declared.subs(n, 7) is td.TensorSymbol("idx", 4, dtype=int, below=7)
    assert pickle.loads(pickle.dumps(x[declared[i]])) is x[declared[i]]
    assert eval(srepr(declared), {**vars(sympy), "TensorSymbol": td.TensorSymbol}) is declared
    with pytest.raises(ShapeError, match=r"two different tensors are called idx: .* of integers below n"):
        td.diff(x[idx[i]] + x[declared[i]], x[p])


@pytest.mark.parametrize(
    ("below", "dtype", "message"),
    [
        (3, float, "tensor x has below=3, but its entries are real numbers: write dtype=int as well"),
        (0, int, "tensor x has below=0, which is not a size: .*must be a positive integer"),
        (sympy.Rational(1, 2), int, "tensor x has below=1/2, which is not a size"),
        (idx[0], int, r"tensor x has below=idx\[0\], which is not a size: .*which is data"),
    ],
)
def test_a_declared_range_that_is_none(below, dtype, message):
    with pytest.raises((ArgumentError, ShapeError), match=message):
        td.TensorSymbol("x", 4, dtype=dtype, below=below)
