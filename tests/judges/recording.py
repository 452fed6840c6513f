"""Questions that a run of tests asks the algebra, in a file: ``python -m pytest --record-questions FILE``."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from random import Random

from sympy_tensordiff.graph.nodes import Graph

from .by_isl import Question, verdict
from .questions import recorded


@contextmanager
def written(path: Path) -> Iterator[None]:
    """Write each question that is asked inside to a file, once; a graph, of which only new names come, is left out."""
    known: set[bytes] = set()
    with path.open("wb") as file:

        def record(question: Question) -> None:
            arguments = tuple(None if isinstance(one, Graph) else one for one in question.arguments)
            key = sha256(repr((question.function, arguments, question.keywords)).encode()).digest()
            if key not in known:
                known.add(key)
                pickle.dump(tuple(question._replace(arguments=arguments)), file)

        with recorded(record):
            yield


def read(path: Path) -> list[Question]:
    """Return the questions in a file and in those of the processes of a run, ``FILE.0`` and so on, each once.

    Their order is random, the same each time: the first ones are a sample of all.
    """
    found: dict[str, Question] = {}
    for one in sorted([*path.parent.glob(path.name), *path.parent.glob(f"{path.name}.[0-9]*")]):
        with one.open("rb") as file:
            while file.peek(1):
                question = Question(*pickle.load(file))
                found.setdefault(repr(question[:3]), question)
    questions = list(found.values())
    Random(0).shuffle(questions)
    return questions


def verdicts(questions: Sequence[Question], number: int) -> Counter[str]:
    """Return the verdict of isl on one of the questions."""
    return Counter([verdict(questions[number])])
