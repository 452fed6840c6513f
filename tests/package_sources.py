"""The parts of the package's modules that tests of their text are about: each module is parsed once for all of them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import sympy_tensordiff as td

PACKAGE = Path(td.__file__).parent


class Source(NamedTuple):
    """The parts of a module that tests are about."""

    path: str
    text: str
    doc: str
    definitions: list[tuple[str, str]]  # of the module, classes and functions: names and docstrings
    classes: list[str]
    targets: list[str]  # of assignments of the module
    strings: list[str]  # that are statements
    imports: list[ast.Import | ast.ImportFrom]  # those inside of functions, too


def statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """All statements in a list of these, the nested ones too: expressions, which are most nodes, are left out."""
    for one in body:
        yield one
        for field in ("body", "orelse", "finalbody"):
            yield from statements(getattr(one, field, ()))
        for part in (*getattr(one, "handlers", ()), *getattr(one, "cases", ())):
            yield from statements(part.body)


def source(path: Path) -> Source:
    """The parts of the module at a path."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    found = [*statements(tree.body)]
    definitions = [node for node in found if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    values = [node.value for node in found if isinstance(node, ast.Expr)]
    strings = [value.value for value in values if isinstance(value, ast.Constant)]
    targets = [node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None) for node in tree.body]
    doc = ast.get_docstring(tree) or ""
    return Source(
        path.relative_to(PACKAGE).as_posix(),
        text,
        doc,
        [("the module", doc), *((node.name, ast.get_docstring(node) or "") for node in definitions)],
        [node.name for node in definitions if isinstance(node, ast.ClassDef)],
        [target.id for target in targets if isinstance(target, ast.Name)],
        [string for string in strings if isinstance(string, str)],
        [node for node in found if isinstance(node, ast.Import | ast.ImportFrom)],
    )


@cache
def sources() -> dict[Path, Source]:
    """All modules by their paths; their trees would take too much memory."""
    return {path: source(path) for path in sorted(PACKAGE.rglob("*.py"))}
