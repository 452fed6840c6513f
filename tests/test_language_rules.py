"""Names and docstrings follow the rules that a program can check: one class per name, limits with a noun, no "What"."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import defaultdict
from pathlib import Path

from package_sources import sources

NOT_AT_THE_BEGINNING = {"What", "Where", "How", "That", "Which"}
LIMIT_WITHOUT_NOUN = re.compile(r"_?(MOST|LEAST|FEW|LONG|MANY|LARGE|SMALL|NEAR|WIDE|ENOUGH|[A-Z]+EST)$")


def test_no_two_classes_share_a_name():
    places = defaultdict(set)
    for module in sources().values():
        for name in module.classes:
            places[name].add(module.path)
    assert places
    assert not {name for name, where in places.items() if len(where) > 1}


def test_docstrings_begin_with_a_verb_or_a_noun():
    named = [(module.path, name, doc) for module in sources().values() for name, doc in module.definitions if doc]
    assert named and not [(path, name) for path, name, doc in named if doc.split()[0] in NOT_AT_THE_BEGINNING]


def test_limits_say_what_they_limit():
    named = [(module.path, name) for module in sources().values() for name in module.targets]
    assert named and not [(path, name) for path, name in named if LIMIT_WITHOUT_NOUN.match(name)]


DIALECT = ("manieth", "anyway", "by what", "what stands", "taken apart", "is told", "are told", "way of the data")


def test_texts_use_the_words_of_the_field():
    """Keep the private dialect out of docstrings and comments: DESIGN.md lists it under Language."""
    wrong = []
    for module in sources().values():
        words = [word for word in DIALECT if word in " ".join(module.text.split())]
        if words:  # tokens take longer than all else
            tokens = tokenize.generate_tokens(io.StringIO(module.text).readline)
            texts = [*module.strings, *(token.string for token in tokens if token.type == tokenize.COMMENT)]
            wrong += [f"{module.path}: {word}" for word in words for text in texts if word in " ".join(text.split())]
    assert not wrong


def test_a_file_of_tests_says_what_it_protects():
    first = {
        path: path.read_text(encoding="utf-8").partition("\n")[0] for path in Path(__file__).parent.rglob("test_*.py")
    }
    assert first and not [path for path, line in first.items() if not line.startswith('"""')]


def test_the_first_line_of_a_test_file_says_what_it_protects():
    """The line is a sentence; other lines have details."""
    unclear = []
    for path in sorted(Path(__file__).parent.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        first = (ast.literal_eval(text[: text.index('"""', 3) + 3]) if text.startswith('"""') else "").split("\n")[0]
        if len(first) < 25 or not first.endswith((".", ":")):
            unclear.append(f"{path.name}: {first}")
    assert not unclear, unclear
