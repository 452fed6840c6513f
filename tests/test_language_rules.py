"""Names and docstrings follow the rules that a program can check: one class per name, limits with a noun, no "What"."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
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


EVERYDAY_WORDS = {"told", "beside", "apart", "anyway", "held", "kept", "stands", "way", "harmless", "idle"}
ROOT = Path(__file__).parents[1]
FOLDERS = ("sympy_tensordiff", "tests", "benchmarks", "examples")


def modules() -> Iterator[tuple[str, str]]:
    """The path and the text of each module of the checkout."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")


def bound_names(tree: ast.AST) -> Iterator[str]:
    """The names of functions, classes, arguments, variables and attributes that a module binds."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def wrong_names(text: str) -> list[str]:
    """The names that a module binds and DESIGN.md forbids, under Language; other modules are not parsed."""
    if not any(re.search(rf"\b_*{word}_*\b", text) for word in EVERYDAY_WORDS):
        return []
    return [name for name in bound_names(ast.parse(text)) if name.strip("_") in EVERYDAY_WORDS]


def test_names_are_no_everyday_words_for_technical_things():
    assert wrong_names("def f(_held):\n    way = x.apart = 2") == ["_held", "way", "apart"]
    assert not [f"{path}: {name}" for path, text in modules() for name in wrong_names(text)]


DIALECT = ("manieth", "anyway", "by what", "what stands", "taken apart", "is told", "are told", "way of the data")
IS_NO = re.compile(
    r"(?<![Tt]here )(?<!may )\b(is|are|be) no (?!(longer|more|less|greater|larger|smaller|other|need|such)\b)"
)
PHRASES = (IS_NO, re.compile(r"\btold by\b"), re.compile(r"\bderivatives? by [a-z]\b"))


def texts_of(text: str) -> list[str]:
    """The comments and the strings of a module, docstrings and the parts of messages included."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [token.string for token in tokens if token.type in (tokenize.COMMENT, tokenize.STRING)]


def wrong_phrases(text: str) -> list[str]:
    """The phrases of the private dialect in the texts of a module; tokens take longer than all else."""
    whole = " ".join(text.split())
    phrases = [*(re.compile(re.escape(word)) for word in DIALECT), *PHRASES]
    found = [phrase for phrase in phrases if phrase.search(whole)]
    if not found:
        return []
    texts = [" ".join(one.split()) for one in texts_of(text)]
    return [match[0] for phrase in found for one in texts if (match := phrase.search(one))]


def test_texts_use_the_words_of_the_field():
    """Keep the private dialect out of docstrings, comments and messages: DESIGN.md lists it under Language."""
    assert wrong_phrases('x = "i is no index"  # the derivative by x') == ["is no ", "derivative by x"]
    assert not [f"{path}: {phrase}" for path, text in modules() for phrase in wrong_phrases(text) if path != HERE]


HERE = Path(__file__).relative_to(ROOT).as_posix()


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
