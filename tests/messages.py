"""The messages of the errors of the package, read from its source with `ast`.

The constant text of each ``OurError(...)`` is a message, also where it is put together in local
variables or returned by a function of the same module. The page of errors lists them.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from package_sources import PACKAGE, statements

from sympy_tensordiff import errors

OURS = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)}
CALL = re.compile(rf"\b({'|'.join(sorted(OURS))})\(")
HOLE = "\0"


@cache
def nodes(scope: ast.AST) -> tuple[ast.AST, ...]:
    """All nodes inside, which are walked again and again."""
    return tuple(ast.walk(scope))


@cache
def functions(module: ast.Module) -> tuple[ast.FunctionDef, ...]:
    """All functions of a module, the nested ones too."""
    return tuple(node for node in statements(module.body) if isinstance(node, ast.FunctionDef))


def texts(node: ast.AST | None, scope: ast.AST, module: ast.Module, depth: int = 3) -> list[str]:
    """Return the possible texts of an expression, with a hole for every part that is not constant."""
    match node:
        case ast.Constant(value=str() as value):
            return [value]
        case ast.JoinedStr(values=values):
            pieces = [texts(part, scope, module, depth) for part in values]
            return joined(pieces)
        case ast.FormattedValue(value=value) if depth:
            found = texts(value, scope, module, depth - 1)
            return found or [HOLE]
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return joined([texts(part, scope, module, depth) or [HOLE] for part in (left, right)])
        case ast.IfExp(body=body, orelse=orelse):
            return texts(body, scope, module, depth) + texts(orelse, scope, module, depth)
        case ast.Name(id=name) if depth:
            values = [n.value for n in nodes(scope) if isinstance(n, ast.Assign | ast.AugAssign) and sets(n, name)]
            return [text for value in values for text in texts(value, scope, module, depth - 1)]
        case ast.Call(func=ast.Name(id=name)) if depth:
            found = [function for function in functions(module) if function.name == name]
            values = [(n.value, f) for f in found for n in nodes(f) if isinstance(n, ast.Return)]
            return [text for value, function in values for text in texts(value, function, module, depth - 1)]
    return []


def joined(pieces: list[list[str]]) -> list[str]:
    """All alternatives of the pieces in their places; once each, not in every combination."""
    result = []
    for n in range(max((len(piece) for piece in pieces), default=0)):
        result.append("".join(piece[min(n, len(piece) - 1)] if piece else HOLE for piece in pieces))
    return result


def sets(node: ast.Assign | ast.AugAssign, name: str) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return any(isinstance(target, ast.Name) and target.id == name for target in targets)


class Message(NamedTuple):
    """A message: its text with holes, the class that carries it, and the place where it is raised."""

    text: str
    error: str
    place: str


def messages_of(path: Path) -> Iterator[Message]:
    """The messages of a module."""
    text = path.read_text(encoding="utf-8")
    if not CALL.search(text):
        return
    module, lines = ast.parse(text), text.splitlines()
    for function in functions(module):
        if not CALL.search("\n".join(lines[function.lineno - 1 : function.end_lineno])):
            continue  # to walk through all functions takes a second
        for node in nodes(function):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in OURS:
                for text in texts(node.args[0] if node.args else None, function, module):
                    yield Message(text, node.func.id, f"{path.relative_to(PACKAGE)}:{node.lineno}")


@cache
def all_messages() -> tuple[Message, ...]:
    """The messages of the package."""
    return tuple(message for path in sorted(PACKAGE.rglob("*.py")) for message in messages_of(path))
