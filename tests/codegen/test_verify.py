"""The laws of the loop nests, reads that are not provable, and the counting of iterations."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from every import every
from programs import CASES, N, array, at_least, i, j, k, left, load, loop, only_where, op, result, single, store, total

from sympy_tensordiff.codegen.ir.loops import If, Loop, Set, accumulator, add, let
from sympy_tensordiff.codegen.ir.programs import Check, Kernel, Program, Size
from sympy_tensordiff.codegen.ir.scalars import Bound, IndexValue, Name, Number, Operation
from sympy_tensordiff.codegen.ir.verify import verify, with_masks
from sympy_tensordiff.errors import VerificationError
from sympy_tensordiff.integer.affine import Affine, Constraint, quotient

X = load("x", i)


ONE_ARRAY = (array("x", N),)


def one_kernel(*body, arguments=ONE_ARRAY, shape=(N,), axes="i"):
    return single(arguments, result("y", *shape), axes, *body)


BROKEN = {
    "its own entry is set once": one_kernel(let("t", X)),
    "set once, at top level": one_kernel(Set(load("y", i + 1), X)),
    "at top level, last": one_kernel(If((at_least(i, 1),), (store(X),))),
    "y: 2 axes for rank 1": one_kernel(store(X), axes="ij"),
    "no array of this name is declared": replace(one_kernel(store(X)), outputs=()),
    "no kernel writes z": replace(one_kernel(store(X)), temporaries=(result("z", N),)),
    "y is an argument or has been written before": replace(
        one_kernel(store(X)), kernels=one_kernel(store(X)).kernels * 2
    ),
    "step y: y is read before it is complete": one_kernel(store(load("y", i))),
    "kernel y reads x at 2 indices": one_kernel(store(load("x", i, i))),
    "kernel y uses j before it is set": one_kernel(store(load("x", j))),
    "kernel y uses k before it is set": one_kernel(If((at_least(k, 1),), (let("t", X),)), store(X)),
    "kernel y uses t before it is set": one_kernel(If((at_least(i, 1),), (let("t", X),)), store(Name("t"))),
    "kernel y: t is declared twice": one_kernel(let("t", X), let("t", X), store(Name("t"))),
    "kernel y: x is declared twice": one_kernel(let("x", X), store(X)),
    "kernel y: i is declared twice": one_kernel(loop("i", 0, 3, let("t", X)), store(X)),
    "N is declared twice": one_kernel(let("N", X), store(X)),
    "a name is declared twice among": one_kernel(store(X), arguments=(array("x", N), array("x", N))),
    "t is both an integer and a number": one_kernel(let("t", X), store(IndexValue(Affine.variable("t")))),
    "N is both an integer and a number": one_kernel(store(Name("N"))),
    "s is not an accumulator declared before": one_kernel(let("s", X), add("s", X), store(X)),
    "s is a max, not a min": one_kernel(accumulator("s", "max"), add("s", X, "min"), store(X)),
    "s has been read before": one_kernel(accumulator("s"), let("t", Name("s")), add("s", X), store(X)),
    "s is read in the loop that fills it": one_kernel(
        accumulator("s"), loop("k", 0, 3, add("s", X), let("t", Name("s"))), store(X)
    ),
    "a loop without bounds on both sides with positive divisors": one_kernel(
        Loop("k", (), (Bound(N),), (let("t", X),)), store(X)
    ),
    "no operation 'sin' with 2 arguments": one_kernel(store(op("sin", X, X))),
    "no operation 'foo' with 1 arguments": one_kernel(store(op("foo", X))),
    "no operation 'add' with 1 arguments": one_kernel(store(op("add", X))),
    "is not a condition": one_kernel(store(op("select", X, X, X))),
    "is a condition": one_kernel(store(op("add", op("lt", X, 1), X))),
    "a condition is not a number": one_kernel(store(op("lt", X, 1))),
    "'x);import os' is not an identifier": one_kernel(let("x);import os", X), store(X)),
    "'lambda' is not an identifier": one_kernel(let("lambda", X), store(X)),
    "size h: exactly one of lows and highs": replace(one_kernel(store(X)), sizes=(Size("h"),)),
    "size h: g in g is not an integer defined before": replace(
        one_kernel(store(X)), sizes=(Size("h", lows=(Affine.variable("g"),)),)
    ),
    "array y: g in g is not an integer defined before": one_kernel(store(Number(0)), shape=(Affine.variable("g"),)),
    "a check: g in g is not an integer defined before": replace(
        one_kernel(store(X)), checks=(Check((Constraint("ge", Affine.variable("g")),), ""),)
    ),
}


@every("reason", [*BROKEN])
def test_broken_laws(reason):
    with pytest.raises(VerificationError, match=re.escape(reason)):
        verify(BROKEN[reason])


# ---------------------------------------------------------------------------- reads


def choice(function, right, value, otherwise):
    return store(op("select", op(function, IndexValue(i), IndexValue(Affine.of(right))), value, otherwise))


OUTSIDE = {
    "one past the end": ((store(load("x", i + 1)),), "()"),
    "before the start": ((store(load("x", i - 1)),), "()"),
    "a loop one too long": ((*total("s", load("x", k), ("k", 0, N)), store(Name("s"))), "()"),
    "a guard too weak": ((*only_where("s", load("x", i - 2), at_least(i, 1)), store(Name("s"))), "(N - 2 >= 0,)"),
    "a floor that reaches past": ((store(load("x", quotient(2 * i + 2, 2))),), "()"),
    "a choice with <= for <": ((choice("le", N - 1, load("x", i + 1), 0),), "()"),
    "the other branch": ((choice("lt", 1, load("x", i), load("x", i - 2)),), "(N - 2 >= 0,)"),
    "a constant": ((store(load("x", 3)),), "(-N + 3 >= 0,)"),
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
        verify(replace(program, checks=(Check(escape.violation, "too small", escape.points),)))
        # A check refuses a call only where its own points are.
        k = Affine.variable("k")
        other = Check(escape.violation, "no such call", (Constraint("ge", 2 * k - 1), Constraint("ge", 1 - 2 * k)))
        with pytest.raises(VerificationError, match="no check covers it"):
            verify(replace(program, checks=(other,)))


INSIDE = {
    "the other branch of a comparison": store(op("select", op("lt", IndexValue(i), 1), X, load("x", i - 1))),
    "not and or": store(
        op("select", op("or", op("lt", IndexValue(i), 1), op("not", op("lt", X, 2))), X, load("x", i - 1))
    ),
    "equal": store(op("select", op("ne", IndexValue(i), IndexValue(N - 1)), X, load("x", 2 * i - N + 1))),
    "unequal": store(op("select", op("ne", IndexValue(i), 0), load("x", i - 1), X)),
    "either of two": store(
        op("select", op("or", op("lt", 1, IndexValue(i)), op("eq", IndexValue(i), 1)), load("x", i - 1), X)
    ),
    "integers added and multiplied": store(
        op("select", op("lt", op("add", op("mul", 2, IndexValue(i)), 1), 2), X, load("x", i - 1))
    ),
    "a chain": store(op("select", op("lt", X, 1), op("select", op("le", 2, IndexValue(i)), load("x", i - 2), 1), X)),
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
