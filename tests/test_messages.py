"""Every message of an error of ours is matched by a test.

The messages are read from the source with `ast`: the constant text of each ``OurError(...)``,
also where it is put together in local variables or returned by a function of the same module. A
message counts as matched where three words in a row, which no other message has, stand in a string
of the tests, of the documentation, or in a traceback of a docstring.
"""

import ast
import re
from functools import cache
from pathlib import Path

import sympy_tensordiff as td
from sympy_tensordiff import errors

TESTS = Path(__file__).parent
PACKAGE = Path(td.__file__).parent
OURS = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)}
WORD = re.compile(r"[A-Za-z_]+(?:'[a-z]+)?|\d+")
HOLE = "\0"
Words = tuple[str, ...]


def texts(node: ast.AST | None, scope: ast.AST, module: ast.Module, depth: int = 3) -> list[str]:
    """What an expression may be as text, a hole for all that is not constant."""
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
            values = [n.value for n in ast.walk(scope) if isinstance(n, ast.Assign | ast.AugAssign) and sets(n, name)]
            return [text for value in values for text in texts(value, scope, module, depth - 1)]
        case ast.Call(func=ast.Name(id=name)) if depth:
            found = [n for n in ast.walk(module) if isinstance(n, ast.FunctionDef) and n.name == name]
            values = [(n.value, f) for f in found for n in ast.walk(f) if isinstance(n, ast.Return)]
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


def messages_of(path: Path) -> dict[str, str]:
    """The messages of a module with the places where they are raised."""
    module = ast.parse(path.read_text(encoding="utf-8"))
    functions = [n for n in ast.walk(module) if isinstance(n, ast.FunctionDef)]
    found = {}
    for function in functions:
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and is_ours(node.func):
                for text in texts(node.args[0] if node.args else None, function, module):
                    found[text] = f"{path.relative_to(PACKAGE)}:{node.lineno}"
    return found


def is_ours(function: ast.expr) -> bool:
    return isinstance(function, ast.Name) and function.id in OURS


def grams(text: str) -> set[Words]:
    """Three words in a row; all words of a shorter piece."""
    result: set[Words] = set()
    for piece in re.split(HOLE, text):
        words = tuple(WORD.findall(piece))
        result.update(words[n : n + 3] for n in range(max(1, len(words) - 2)) if words)
    return {gram for gram in result if len(gram) == 3} or result


@cache
def messages() -> dict[str, str]:
    return {text: place for path in sorted(PACKAGE.rglob("*.py")) for text, place in messages_of(path).items()}


@cache
def matched() -> frozenset[Words]:
    """All runs of up to three words in what the tests and the pages say."""
    strings = []
    for path in [*TESTS.rglob("*.py"), *PACKAGE.rglob("*.py")]:
        if path == Path(__file__):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                own = path.is_relative_to(PACKAGE)
                strings.append(tracebacks(node.value) if own else node.value)
    strings += [tracebacks(path.read_text(encoding="utf-8")) for path in (TESTS.parent / "docs").glob("*.md")]
    found = set()
    for string in strings:
        for part in re.split(r"\.[*+]|\|", string.replace("\\", "")):
            words = tuple(WORD.findall(part))
            found.update(words[n : n + size] for size in (1, 2, 3) for n in range(len(words) - size + 1))
    return frozenset(found)


def tracebacks(text: str) -> str:
    """The last lines of the tracebacks in a docstring or on a page."""
    return "\n".join(line for line in text.splitlines() if re.search(r"\b\w+(Error|Mismatch): ", line))


def unmatched() -> list[str]:
    everything = messages()
    raised: dict[Words, set[str]] = {}
    for text, place in everything.items():
        for gram in grams(text):
            raised.setdefault(gram, set()).add(place)
    missing = []
    for text, place in everything.items():
        distinctive = {gram for gram in grams(text) if len(raised[gram]) == 1} or grams(text)
        if distinctive and distinctive.isdisjoint(matched()):
            missing.append(f"{place}: {text.replace(HOLE, '…')}")
    return missing


def test_every_message_is_matched_by_a_test():
    missing = unmatched()
    assert not missing, "no test matches these messages:\n" + "\n".join(missing)


def test_messages_are_found():
    assert len(messages()) > 150
    assert any("whatever the sizes" in text for text in messages())  # put together in a local variable
    assert any("is a float" in text for text in messages())  # returned by a function
