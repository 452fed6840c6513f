"""Names and docstrings follow the rules that a program can check: one class per name, limits with a noun, no "What"."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import defaultdict
from functools import cache
from pathlib import Path

import sympy_tensordiff

PACKAGE = Path(sympy_tensordiff.__file__).parent
NOT_AT_THE_BEGINNING = {"What", "Where", "How", "That", "Which"}
LIMIT_WITHOUT_NOUN = re.compile(r"_?(MOST|LEAST|FEW|LONG|MANY|LARGE|SMALL|NEAR|WIDE|ENOUGH|[A-Z]+EST)$")


@cache
def trees() -> dict[str, ast.Module]:
    """Return the syntax tree of each module: parsed by the tests, not by each process that collects them."""
    paths = sorted(PACKAGE.rglob("*.py"))
    return {path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def test_no_two_classes_share_a_name():
    places = defaultdict(set)
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].add(path)
    assert not {name for name, where in places.items() if len(where) > 1}


def test_docstrings_begin_with_a_verb_or_a_noun():
    wrong = []
    for path, tree in trees().items():
        for node in ast.walk(tree):
            doc = ast.get_docstring(node) if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Module)) else None
            if doc and doc.split()[0] in NOT_AT_THE_BEGINNING:
                wrong.append(f"{path}: {getattr(node, 'name', 'the module')}")
    assert not wrong


def test_limits_say_what_they_limit():
    wrong = []
    for path, tree in trees().items():
        for node in tree.body:
            target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
            if isinstance(target, ast.Name) and LIMIT_WITHOUT_NOUN.match(target.id):
                wrong.append(f"{path}: {target.id}")
    assert not wrong


DIALECT = ("manieth", "anyway", "by what", "what stands", "taken apart", "is told", "are told", "way of the data")


def test_texts_use_the_words_of_the_field():
    """Keep the private dialect out of docstrings and comments: DESIGN.md lists it under Language."""
    wrong = []
    for path, tree in trees().items():
        texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)]
        texts = [text.value for text in texts if isinstance(text, ast.Constant) and isinstance(text.value, str)]
        lines = io.StringIO((PACKAGE / path).read_text()).readline
        texts += [token.string for token in tokenize.generate_tokens(lines) if token.type == tokenize.COMMENT]
        wrong += [f"{path}: {word}" for word in DIALECT for text in texts if word in " ".join(text.split())]
    assert not wrong
