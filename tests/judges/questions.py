"""Questions for isl: about random systems, and those that derivatives of random functions ask.

`of_system` asks each function of the algebra about the system of a seed. `recorded` collects all calls that are made
while something runs; `recording` writes those of a run of tests to a file.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import Any

from fuzz import systems
from fuzz.function_checks import GENERATORS, data_of
from fuzz.systems import random_form, random_system

import sympy_tensordiff as td
from sympy_tensordiff.errors import LoopBoundError, UnsupportedError
from sympy_tensordiff.graph.nodes import Graph
from sympy_tensordiff.integer import fourier_motzkin, implication, nests, solving
from sympy_tensordiff.integer.affine import Affine, Constraint
from sympy_tensordiff.symbolic.index_notation.tensors import TensorSymbol
from sympy_tensordiff.testing.values import call_arguments, random_values, shape_of

from .by_isl import VERDICTS, Question, verdict

SHARE_OF_FUNCTIONS = 100
"""One seed in so many is a function, whose derivatives ask hundreds of questions."""
MAX_QUESTIONS = 400
"""Judge at most so many questions of one function, drawn at random."""

_MODULES: dict[str, ModuleType] = {
    **dict.fromkeys(("is_empty", "is_implied", "minimum", "maximum", "remove_redundant"), implication),
    **dict.fromkeys(("project", "project_exactly", "constraints_on_union"), fourier_motzkin),
    "bounds": nests,
    "count_points": systems,
    "solve_equations": solving,
}
assert set(_MODULES) == set(VERDICTS)


def judge(seed: int) -> Counter[str]:
    """Return the verdicts of isl on the questions of a seed."""
    questions = of_system(seed) if seed % SHARE_OF_FUNCTIONS else of_function(seed)
    return Counter(verdict(question) for question in questions)


def _ask(name: str, *arguments: Any) -> Question:
    return Question(name, arguments, {}, getattr(_MODULES[name], name)(*arguments))


def of_system(seed: int) -> list[Question]:
    """Ask each function of the algebra about the random system of a seed."""
    generator = random.Random(seed)
    system = random_system(seed)
    names = (*system.loops, *system.parameters)
    rows, facts = system.rows, system.facts
    known = (*rows, *facts)
    form = random_form(generator, names, 2)
    questions = [_ask("is_empty", rows, facts), _ask("remove_redundant", rows, facts)]
    questions += [_ask("minimum", form, known), _ask("maximum", form, known)]
    for row in (
        Constraint("ge", form),
        Constraint("mod", form, generator.randint(2, 4)),
        Constraint("eq", random_form(generator, names, 1, 1)),
    ):
        questions.append(_ask("is_implied", row, known))
    for row in generator.sample(rows, 2):
        # A row that nearly follows: it is implied by the rest, or just not.
        weaker = row._replace(form=row.form + generator.choice((0, 1, 2))) if row.kind == "ge" else row
        questions.append(_ask("is_implied", weaker, tuple(r for r in known if r is not row)))
    drop = generator.sample(system.loops, generator.randint(1, len(system.loops)))
    affine = [r for r in rows if r.form.atoms().isdisjoint(drop) or (r.kind != "mod" and not r.form.quotients())]
    questions.append(_ask("project", affine, drop, facts))
    questions.append(_ask("project_exactly", affine, drop))
    half = len(rows) // 2
    questions.append(_ask("constraints_on_union", (rows[:half], rows[half:]), names))
    for draw in system.draws[:1]:
        fixed = (*rows, *(Constraint("eq", Affine({v: 1}, -c)) for v, c in draw.items()))
        questions.append(_ask("count_points", fixed, names))
    graph = Graph()
    fresh = {v: graph.fresh(v) for v in names}
    renaming = {v: Affine.variable(w) for v, w in fresh.items()}
    renamed = tuple(row.substitute(renaming) for row in rows)
    context = tuple(row.substitute(renaming) for row in facts)
    solution = _ask("solve_equations", graph, [fresh[v] for v in system.loops], renamed)
    questions.append(solution)
    if solution.answer is not None:
        remaining, _, solved = solution.answer
        with suppress(LoopBoundError):
            questions.append(_ask("bounds", solved, nests.order(solved, remaining, context), context))
    return questions


def of_function(seed: int) -> list[Question]:
    """Return calls that the derivatives and kernels of the random function of a seed make, each once."""
    made = GENERATORS["maps" if seed // SHARE_OF_FUNCTIONS % 2 else "functions"](seed)
    questions: dict[str, Question] = {}

    def record(question: Question) -> None:
        questions.setdefault(repr((question.function, *question.arguments, question.keywords)), question)

    with recorded(record), suppress(UnsupportedError):
        cotangent = TensorSymbol("cotangent", shape_of(made.function))
        results = made.function, *td.vjp(made.function, tuple(made.variables), cotangent)
        draw = made.draws[-1]
        values = random_values((*results, *made.variables), draw, seed, given=data_of(made, draw, seed))
        td.generate_code(call_arguments(results, values)[0], results, "numba")
    chosen = list(questions.values())
    random.Random(seed).shuffle(chosen)
    return chosen[:MAX_QUESTIONS]


@contextmanager
def recorded(record: Callable[[Question], None]) -> Iterator[None]:
    """Pass each call of the judged functions, by the package or a test, to ``record`` once it has returned."""
    patched: list[tuple[ModuleType, str, Any]] = []

    def recording(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **keywords: Any) -> Any:
            arguments = tuple(tuple(a) if isinstance(a, Iterator) else a for a in arguments)
            answer = function(*arguments, **keywords)
            record(Question(name, arguments, keywords, answer))
            return answer

        return call

    for name, home in _MODULES.items():
        function = getattr(home, name)
        replacement = recording(name, function)
        for module in list(sys.modules.values()):
            if getattr(module, "__dict__", {}).get(name) is function:
                patched.append((module, name, function))
                setattr(module, name, replacement)
    try:
        yield
    finally:
        for module, name, function in patched:
            setattr(module, name, function)
