"""The laws of the loop nests, reads that are not provable, and the counting of iterations."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from every import every
from programs import (
    CASES,
    N,
    array,
    at_least,
    i,
    j,
    k,
    left,
    load,
    loop,
    only_where,
    op,
    result,
    single,
    total,
)

from sympy_tensordiff.codegen.ir.loops import Accumulator, Add, Bound, If, Let, Loop, Store
from sympy_tensordiff.codegen.ir.programs import Check, Kernel, Program, Size
from sympy_tensordiff.codegen.ir.scalars import IndexValue, Name, Number, Operation
from sympy_tensordiff.codegen.ir.verify import verify, with_masks
from sympy_tensordiff.errors import VerificationError
from sympy_tensordiff.integer.affine import Affine, Row, quotient

X = load("x", i)


ONE_ARRAY = (array("x", N),)


def one_kernel(*body, arguments=ONE_ARRAY, shape=(N,), axes="i"):
    return single(arguments, result("y", *shape), axes, *body)


BROKEN = {
    "exactly one Store is needed": one_kernel(Let("t", X)),
    "at top level, last": one_kernel(If((at_least(i, 1),), (Store(X),))),
    "y: 2 axes for rank 1": one_kernel(Store(X), axes="ij"),
    "no array of this name is declared": replace(one_kernel(Store(X)), outputs=()),
    "no kernel writes z": replace(one_kernel(Store(X)), temporaries=(result("z", N),)),
    "y is an argument or has been written before": replace(
        one_kernel(Store(X)), kernels=one_kernel(Store(X)).kernels * 2
    ),
    "y is read before it is written": one_kernel(Store(load("y", i))),
    "2 indices for x of rank 1": one_kernel(Store(load("x", i, i))),
    "j in j is no integer defined before": one_kernel(Store(load("x", j))),
    "k in k - 1 is no integer defined before": one_kernel(If((at_least(k, 1),), (Let("t", X),)), Store(X)),
    "t is no scalar defined before": one_kernel(If((at_least(i, 1),), (Let("t", X),)), Store(Name("t"))),
    "Let: t is declared twice": one_kernel(Let("t", X), Let("t", X), Store(Name("t"))),
    "Let: x is declared twice": one_kernel(Let("x", X), Store(X)),
    "Loop: i is declared twice": one_kernel(loop("i", 0, 3, Let("t", X)), Store(X)),
    "N is declared twice": one_kernel(Let("N", X), Store(X)),
    "a name is declared twice among": one_kernel(Store(X), arguments=(array("x", N), array("x", N))),
    "s is no accumulator declared before": one_kernel(Let("s", X), Add("s", X), Store(X)),
    "s is a max, no min": one_kernel(Accumulator("s", "max"), Add("s", X, "min"), Store(X)),
    "s has been read before": one_kernel(Accumulator("s"), Let("t", Name("s")), Add("s", X), Store(X)),
    "s is read in the loop that fills it": one_kernel(
        Accumulator("s"), loop("k", 0, 3, Add("s", X), Let("t", Name("s"))), Store(X)
    ),
    "bounds on both sides": one_kernel(Loop("k", (), (Bound(N),), (Let("t", X),)), Store(X)),
    "no operation 'sin' with 2 arguments": one_kernel(Store(op("sin", X, X))),
    "no operation 'foo' with 1 arguments": one_kernel(Store(op("foo", X))),
    "no operation 'add' with 1 arguments": one_kernel(Store(op("add", X))),
    "is no condition": one_kernel(Store(op("select", X, X, X))),
    "is a condition": one_kernel(Store(op("add", op("lt", X, 1), X))),
    "a condition is no number": one_kernel(Store(op("lt", X, 1))),
    "'x);import os' is no identifier": one_kernel(Let("x);import os", X), Store(X)),
    "'lambda' is no identifier": one_kernel(Let("lambda", X), Store(X)),
    "size h: exactly one of lows and highs": replace(one_kernel(Store(X)), sizes=(Size("h"),)),
    "size h: g in g is no integer": replace(one_kernel(Store(X)), sizes=(Size("h", lows=(Affine.variable("g"),)),)),
    "array y: g in g is no integer": one_kernel(Store(Number(0)), shape=(Affine.variable("g"),)),
    "a check: g in g is no integer": replace(
        one_kernel(Store(X)), checks=(Check((Row("ge", Affine.variable("g")),), ""),)
    ),
}


@every("reason", [*BROKEN])
def test_broken_laws(reason):
    with pytest.raises(VerificationError, match=re.escape(reason)):
        verify(BROKEN[reason])


def test_errors_name_kernel_and_statement():
    with pytest.raises(VerificationError, match="kernel y, Let: "):
        verify(one_kernel(Let("t", Name("u")), Store(X)))


# ---------------------------------------------------------------------------- reads


def choice(function, right, value, otherwise):
    return Store(op("select", op(function, IndexValue(i), IndexValue(Affine.of(right))), value, otherwise))


OUTSIDE = {
    "one past the end": ((Store(load("x", i + 1)),), "()"),
    "before the start": ((Store(load("x", i - 1)),), "()"),
    "a loop one too long": ((*total("s", load("x", k), ("k", 0, N)), Store(Name("s"))), "()"),
    "a guard too weak": ((*only_where("s", load("x", i - 2), at_least(i, 1)), Store(Name("s"))), "(N - 2 >= 0,)"),
    "a floor that reaches past": ((Store(load("x", quotient(2 * i + 2, 2))),), "()"),
    "a choice with <= for <": ((choice("le", N - 1, load("x", i + 1), 0),), "()"),
    "the other branch": ((choice("lt", 1, load("x", i), load("x", i - 2)),), "(N - 2 >= 0,)"),
    "a constant": ((Store(load("x", 3)),), "(-N + 3 >= 0,)"),
}


@every("name", [*OUTSIDE])
def test_reads_outside(name):
    body, violation = OUTSIDE[name]
    program = one_kernel(*body)
    ((_, axis, escape),) = left(program)
    assert (axis, repr(escape.violation)) == (0, violation)
    with pytest.raises(VerificationError, match="is not provably inside, and no check covers it"):
        verify(program)
    if escape.violation:
        verify(replace(program, checks=(Check(escape.violation, "too small"),)))


INSIDE = {
    "the other branch of a comparison": Store(op("select", op("lt", IndexValue(i), 1), X, load("x", i - 1))),
    "not and or": Store(
        op("select", op("or", op("lt", IndexValue(i), 1), op("not", op("lt", X, 2))), X, load("x", i - 1))
    ),
    "equal": Store(op("select", op("ne", IndexValue(i), IndexValue(N - 1)), X, load("x", 2 * i - N + 1))),
    "unequal": Store(op("select", op("ne", IndexValue(i), 0), load("x", i - 1), X)),
    "either of two": Store(
        op("select", op("or", op("lt", 1, IndexValue(i)), op("eq", IndexValue(i), 1)), load("x", i - 1), X)
    ),
    "integers added and multiplied": Store(
        op("select", op("lt", op("add", op("mul", 2, IndexValue(i)), 1), 2), X, load("x", i - 1))
    ),
    "a chain": Store(op("select", op("lt", X, 1), op("select", op("le", 2, IndexValue(i)), load("x", i - 2), 1), X)),
}


@every("name", [*INSIDE])
def test_reads_inside(name):
    verify(one_kernel(INSIDE[name]))


# ---------------------------------------------------------------------------- counting


def test_every_program_by_hand_is_lawful():
    for program, _ in CASES.values():
        verify(with_masks(program))
        assert isinstance(program, Program)
        assert all(isinstance(kernel, Kernel) for kernel in program.kernels)
    assert isinstance(op("add", 1, 2), Operation)
