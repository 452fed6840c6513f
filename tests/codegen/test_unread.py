"""Temporaries that nothing reads are not computed."""

from dataclasses import replace

import sympy_tensordiff as td
from sympy_tensordiff.codegen.api import build_program
from sympy_tensordiff.codegen.loops import Array
from sympy_tensordiff.codegen.unread import without_unread


def test_what_nothing_reads_goes_with_what_only_it_reads():
    i, j, n = td.indices("i j n")
    a, x = td.TensorSymbol("a", (n, n)), td.TensorSymbol("x", n)
    total = td.IndexedSum(a[i, j] * x[j], (j, 0, n - 1))
    program = build_program([a, x], td.TensorComprehension(total / td.IndexedSum(total, (i, 0, n - 1)), (i, n)))
    assert program.temporaries
    assert without_unread(program) == program
    last = program.kernels[-1]
    more = (*program.temporaries, Array("dead", program.outputs[0].shape))
    unread = replace(program, kernels=(*program.kernels, replace(last, array="dead")), temporaries=more)
    assert without_unread(unread) == program
    nothing = replace(program, outputs=(), kernels=program.kernels)
    assert without_unread(nothing).kernels == without_unread(nothing).temporaries == ()
