"""What derivatives cost, counted: a change of operations, memory, steps or length of the text shows as a difference.

`operation_counts.txt` has a line for each row of the benchmarks, at its tiny sizes, and for each function of a corpus.
``python -m pytest tests/test_operation_counts.py --update`` writes it anew; with ``--thorough`` all lines are compared.
Each line is counted in a fork of a process that has differentiated nothing: caches of other lines do not change it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from random import Random

import faults
import pytest
from conftest import another_process
from cost_judge.oracle import executed, figures
from test_corpus import SIZES, forms

from benchmarks.rows import ROWS
from sympy_tensordiff.codegen.ir.programs import Program, Recurrence
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.codegen.schedule.launches import on_device
from sympy_tensordiff.codegen.schedule.passes import prepared
from sympy_tensordiff.graph.interning import NodeTable
from sympy_tensordiff.reference import symbols_of
from sympy_tensordiff.testing.values import call_arguments, random_values

FILE = Path(__file__).parent / "operation_counts.txt"
HEAD = """# Written by: python -m pytest tests/test_operation_counts.py --update
# Of the loops that the default backend runs: scalar operations; bytes of arguments, results and temporaries; entries of
# the largest temporary; loop nests and calls of a library. Launches of kernels on a GPU. Characters of the derivative.
# Symbolic operations, to two digits: nodes of graphs that are made or found again by differentiating, printing and
# planning the loops.
"""
COLUMNS = ("operations", "bytes", "largest", "steps", "launches", "characters", "symbolic")
SAMPLE = 10
"""So many rows and as many functions are compared in each run."""


def counted(arguments, expression, sizes):
    """The numbers of one line, without symbolic operations of the launches."""
    program = executed(arguments, expression)
    text = str(expression)
    symbolic = int(float(f"{Requests.count:.2g}"))  # a sum more or less is no news
    found = figures(program, sizes)
    size = 8 * (found.arguments + found.results + found.memory)
    device = prepared(build_program(arguments, expression, library=False), "cuda")
    return found.operations, size, found.largest, len(program.kernels), launches(device), len(text), symbolic


def launches(program: Program) -> int:
    """The launches of a program on a GPU, those of each step of a recurrence once."""
    steps = on_device(program).program.kernels
    return sum(launches(step.body) if isinstance(step, Recurrence) else 1 for step in steps)


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
    arguments, _ = call_arguments(derivative, random_values((derivative,), sizes, seed=5, kind="float"))
    return counted(arguments, derivative, {str(symbol): size for symbol, size in sizes.items()})


WITH_CONDITIONS_ON_DATA = {
    *("cross entropy by the logits", "matrix factorisation of ratings"),
    *("conditional random field, transitions", "harmonic bonds"),
}
"""Functions whose operations depend on entries of tensors of integers."""


@cache
def counters():
    """The function that counts, and its argument, by the name of a line."""
    return {f"row {name}": (of_row, name) for name in ROWS} | {
        f"form {name}": (of_form, name) for name in forms() if name not in WITH_CONDITIONS_ON_DATA
    }


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


def sample(prefix):
    names = sorted(name for name in recorded() if name.startswith(prefix))
    chosen = Random(prefix).sample(names, SAMPLE)
    return [pytest.param(name, marks=() if name in chosen else pytest.mark.thorough) for name in names]


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("name", [*sample("row"), *sample("form")])
def test_counts_are_those_of_the_file(name, process):
    assert process(line, name) == recorded()[name]
