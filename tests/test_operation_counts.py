"""Costs of derivatives, counted: a change of operations, memory, steps or length of the text shows as a difference.

`operation_counts.txt` has a line for each row of the benchmarks, each function of practice and each function of the
boards, at tiny sizes, and for each function of a corpus.
``python -m pytest tests/test_operation_counts.py --update`` writes it anew; with ``--thorough`` all lines are compared.
Each line is counted in a fork of a process that has differentiated nothing: caches of other lines do not change it.
"""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from random import Random

import faults
import numpy as np
import pytest
from conftest import another_process
from cost_judge.oracle import executed, figures
from test_corpus import SIZES, forms

import sympy_tensordiff as td
import sympy_tensordiff.structure.values as structured_values
from benchmarks.boards import evals
from benchmarks.boards.evals import EVALS
from benchmarks.practice.fields import CASES
from benchmarks.rows import ROWS
from sympy_tensordiff.codegen.ir.programs import Program, Recurrence
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.codegen.schedule.launches import on_device
from sympy_tensordiff.codegen.schedule.passes import prepared
from sympy_tensordiff.graph.interning import NodeTable
from sympy_tensordiff.reference import symbols_of
from sympy_tensordiff.structure.api import StructuredDerivative
from sympy_tensordiff.testing.values import call_arguments, random_values

FILE = Path(__file__).parent / "operation_counts.txt"
HEAD = """# Written by: python -m pytest tests/test_operation_counts.py --update
# Of the loops that the default backend runs: scalar operations; bytes of arguments, results and temporaries; entries of
# the largest temporary; loop nests and calls of a library. Launches of kernels on a GPU. Characters of the derivative.
# Symbolic operations, to two digits: nodes of graphs that are made or found again by differentiating, printing and
# planning the loops.
"""
COLUMNS = ("operations", "bytes", "largest", "steps", "launches", "characters", "symbolic")
SAMPLE = {"row": 10, "practice": 4, "board": 4, "form": 10}
"""So many lines of each kind are compared without ``--thorough``, one in eight a day."""


def counted(arguments, expression, sizes):
    """The numbers of one line, without symbolic operations of the launches.

    ``sizes`` also has the arrays of integers on which operations depend.
    """
    program = executed(arguments, expression)
    text = str(expression)
    symbolic = int(float(f"{Requests.count:.2g}"))  # a sum more or less is not news
    found = figures(program, sizes)
    size = 8 * (found.arguments + found.results + found.memory)
    device = prepared(build_program(arguments, expression, library=False), "cuda")
    return found.operations, size, found.largest, steps(program), launches(device), len(text), symbolic


def steps(program: Program) -> int:
    """The loop nests and calls of a program, those of each step of a recurrence once."""
    return sum(steps(step.body) if isinstance(step, Recurrence) else 1 for step in program.kernels)


def launches(program: Program) -> int:
    """The launches of a program on a GPU, those of each step of a recurrence once."""
    on = on_device(program).program.kernels
    return sum(launches(step.body) if isinstance(step, Recurrence) else 1 for step in on)


class Requests:
    """The number of nodes that graphs were asked for in this process."""

    count = 0


def count_requests() -> None:
    """Count nodes from now on."""
    make = NodeTable._node

    def counted(*given, **named):
        Requests.count += 1
        return make(*given, **named)

    NodeTable._node = counted


def of_row(name):
    row = ROWS[name]
    arguments, expression = row.ours(row.quick)
    return counted(arguments, expression, row.quick)


def of_form(name):
    form = forms()[name]
    derivative = form.derivative()
    sizes = {symbol: SIZES.get(symbol, 2) for symbol in symbols_of(derivative) if symbol.is_integer}
    arguments, values = call_arguments(derivative, random_values((derivative,), sizes, seed=5, kind="float"))
    return counted(
        arguments, derivative, {str(symbol): size for symbol, size in sizes.items()} | data(arguments, values)
    )


def of_practice(name):
    case = CASES[name]
    formula = case.build()
    values = formula.arrays(case.quick, "float64")
    return counted(formula.arguments, formula.derive(), {**case.quick} | data(formula.arguments, values))


def data(arguments, values):
    """The arrays of integers among the values of arguments, by the names of these."""
    pairs = zip(arguments, map(np.asarray, values), strict=True)
    return {str(argument): value for argument, value in pairs if value.ndim and value.dtype.kind in "iu"}


BOARDS = {
    "hello": (evals.squares, {}),
    "llsq": (evals.least_squares, {"m": 3, "n": 5}),
    "lse": (evals.log_sum, {"n": 5}),
    "ode": (evals.runge_kutta, {"n": 4, "s": 3}),
    "det": (evals.minors, {"l": 3, "s": 8}),
    "kmeans": (evals.clusters, {"n": 5, "m": 3, "d": 2}),
    "gmm": (evals.mixture, {"n": 4, "m": 2, "d": 3}),
    "ba": (evals.bundle, {"n": 2, "m": 3, "p": 4}),
    "ht": (partial(evals.hand, True), {"n": 4, "m": 5, "p": 3}),
    "lstm": (partial(evals.memory, 2), {"n": 3, "b": 2}),
    "saddle": (evals.saddle, {"n": 3}),
    "particle": (evals.particle, {"n": 3}),
}
"""The formulas of the evals of GradBench, and tiny sizes."""
DESCENTS = {"saddle": "outer", "particle": "slope"}
"""The derivatives, by two modes, in evals that are minima by descent."""


def of_board(name):
    """Count a function of an eval; called in a fork, where nothing is compiled."""
    module, function = name.split()
    evals.kernel = lambda arguments, result: (arguments, result)
    make, sizes = BOARDS[module]
    formulas = make(*function) if module in DESCENTS else make()
    found = getattr(formulas, DESCENTS.get(module, function))
    if isinstance(found, StructuredDerivative):  # the entries of a sparse matrix
        structured_values.lambdify = lambda arguments, results, **_options: None
        kernel = found.kernel(tuple(found._groups))
        found = kernel.arguments, kernel.results_of_terms
        sizes = sizes | {f"points_{number}": sizes["p"] for number in range(len(kernel.groups))}
    return counted(*found, sizes)


@cache
def counters():
    """The function that counts, and its argument, by the name of a line."""
    found = {f"row {name}": (of_row, name) for name in ROWS}
    found |= {f"practice {name}": (of_practice, name) for name in CASES}
    found |= {
        f"board {name} {function}": (of_board, f"{name} {function}") for name in EVALS for function in EVALS[name]
    }
    return found | {f"form {name}": (of_form, name) for name in forms()}


def line(name):
    """A name and its numbers; called in a process of its own."""

    def numbers():
        function, argument = counters()[name]
        count_requests()
        return function(argument)

    forms()  # once for all lines
    kind, found = faults.in_fork(numbers, "off")
    assert kind == "value", found
    return " ".join([name + ":", *(f"{label} {n}" for label, n in zip(COLUMNS, found, strict=True))])


@pytest.fixture(scope="module")
def process():
    """A process that has imported all and differentiated nothing."""
    with another_process(PYTHONHASHSEED="1") as call:
        yield call


def recorded():
    lines = [text for text in FILE.read_text(encoding="utf-8").splitlines() if not text.startswith("#")]
    return {text.split(":")[0]: text for text in lines}


def test_the_file_has_all_names(request):
    if request.config.getoption("--update"):
        process = request.getfixturevalue("process")
        FILE.write_text(HEAD + "".join(f"{process(line, name)}\n" for name in counters()), encoding="utf-8")
    assert list(recorded()) == list(counters())


def test_recurrences_and_data_are_counted_as_by_hand():
    i, j, m, n = td.indices("i j m n")
    w, rows, first = td.TensorSymbol("w", n), td.TensorSymbol("rows", (m, n)), td.TensorSymbol("first", n)
    last = td.scan(lambda y, row: w * y + row, first, rows, last=True)
    found = figures(executed([w, rows, first], last), {"m": 5, "n": 3})
    assert found.operations == 2 * 5 * 3 and found.largest == 3
    _, total = td.scan(lambda y, row: (row * y, td.sum(row)), first, rows, last=True, total=True)
    assert figures(executed([w, rows, first], total), {"m": 5, "n": 3}).operations == 5 * (3 + 1)
    _, total = td.scan(lambda y, row, t: (y, td.IndexedSum(row[i], (i, 0, t))), first, rows, last=True, total=True)
    found = figures(executed([w, rows, first], total), {"m": 3, "n": 3})
    assert found.operations == (1 + 2 + 3) + 3
    to = td.TensorSymbol("to", n, dtype=int, below=n)
    program = executed([w, to], td.TensorComprehension(td.IndexedSum(td.maximum(w[i], w[j]), (j, 0, to[i])), (i, n)))
    assert [figures(program, {"n": 3, "to": np.array(to)}).operations for to in ([0, 0, 0], [1, 0, 2])] == [6, 12]


def sample(prefix):
    names = sorted(name for name in recorded() if name.startswith(prefix))
    chosen = Random(prefix).sample(names, min(SAMPLE[prefix], len(names)))
    return [pytest.param(name, marks=() if name in chosen else pytest.mark.thorough) for name in names]


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("name", [one for kind in SAMPLE for one in sample(kind)])
def test_counts_are_those_of_the_file(name, process):
    assert process(line, name) == recorded()[name]
