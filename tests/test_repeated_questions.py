"""Texts and plans ask a question once: SymPy for the order of terms, a kernel for its scans and its reads."""

from __future__ import annotations

from collections import Counter

import pytest
import sympy

import sympy_tensordiff as td
from sympy_tensordiff.codegen.ir.facts import Prover
from sympy_tensordiff.codegen.ir.loops import Loop, accumulator, add
from sympy_tensordiff.codegen.ir.programs import Array, Program, entrywise
from sympy_tensordiff.codegen.ir.scalars import Bound, Load, Name
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.codegen.schedule import layout, rows
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.symbolic.printing import printed_forms

i, j, n = td.indices("i j n")


@pytest.fixture
def calls(monkeypatch):
    """Count the calls of a function or method from now on, by its name."""
    found = Counter()

    def counting(owner, name):
        given = getattr(owner, name)

        def counted(*args, **how):
            found[name] += 1
            return given(*args, **how)

        monkeypatch.setattr(owner, name, counted)
        return found

    return counting


def test_terms_of_a_sum_are_ordered_once(calls):
    x, y = td.TensorSymbol("x", (n,)), td.TensorSymbol("y_ordered_once", (n,))
    total = td.IndexedSum((sympy.sin(x[i] - y[i]) + y[i] - x[i]) / (x[i] - y[i]), (i, 0, n - 1))
    first = str(total)
    found = calls(sympy.Expr, "as_ordered_terms")
    assert str(total) == first
    assert found["as_ordered_terms"] == 0


def test_integers_are_asked_for_only_with_a_common_number():
    class Term(sympy.Symbol):
        asked = 0

        def _eval_is_integer(self):
            Term.asked += 1

    u, v = Term("u"), Term("v")
    assert printed_forms._content(u - 3 * v) == (1, u - 3 * v)
    assert printed_forms._content(u) == (1, u)
    assert Term.asked == 0
    assert printed_forms._content(2 * u - 6 * v)[0] == 2


def test_scans_are_looked_for_only_where_a_bound_follows_the_row(calls):
    A, x = td.TensorSymbol("A", (n, n)), td.TensorSymbol("x", (n,))
    found = calls(rows, "find_scans")
    plain = td.IndexedSum(sympy.exp(A[i, j] - x[j]), (j, 0, n - 1))
    td.generate_code((A, x), td.TensorComprehension(plain, (i, n)), "llvm")
    assert found["find_scans"] == 0
    running = td.IndexedSum(sympy.exp(x[j]), (j, 0, i))
    td.generate_code((x,), td.TensorComprehension(running, (i, n)), "llvm")
    assert found["find_scans"] > 0


def test_reads_of_kernels_without_axes_count():
    place, column = Affine.variable("p"), Affine.variable("q")
    added = add("s", Load("t", (place, column)))
    ends = (Bound(Affine.of(0)),), (Bound(Affine.variable("n") - 1),)
    loop = Loop("q", *ends, (Loop("p", *ends, (added,)),))
    total = entrywise("y", (), [accumulator("s"), loop], Name("s"))
    size = Affine.variable("n")
    program = Program((), (Array("y", ()),), (Array("t", (size, size)),), (total,))
    found = layout._rows_of_reads(total, Prover(program))
    assert found.votes == {("t", 0): 1}
    assert not found.has_scans


def test_the_reads_of_a_kernel_are_found_once(monkeypatch):
    A, x = td.TensorSymbol("A", (n, n)), td.TensorSymbol("x", (n,))
    inner = td.IndexedSum(sympy.tanh(A[i, j] * x[j]), (j, 0, n - 1))
    f = td.IndexedSum(sympy.exp(sympy.sin(A[i, j] + x[i]) - inner) * sympy.tanh(A[j, i]), (i, 0, n - 1), (j, 0, n - 1))
    seen, rounds = [], Counter()
    rows_of_reads, axis_to_put_last = layout._rows_of_reads, layout._axis_to_put_last

    def recorded(kernel, prover):
        seen.append(kernel)
        return rows_of_reads(kernel, prover)

    def counted(program, settled, known, *options):
        rounds[id(known)] += 1
        return axis_to_put_last(program, settled, known, *options)

    monkeypatch.setattr(layout, "_rows_of_reads", recorded)
    monkeypatch.setattr(layout, "_axis_to_put_last", counted)
    program = build_program((A, x), (f, *td.gradient(f, (A, x))), library=False)
    layout._with_transposed_values(program, frozenset(), {}, True)
    assert sum(rounds.values()) > 1
    assert len(seen) < sum(rounds.values()) * len(program.kernels)
