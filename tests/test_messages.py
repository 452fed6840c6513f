"""Every message of an error of ours is matched by a test.

A message counts as matched where three words in a row, which no other message has, are in a string
of the tests, of the documentation, or in a traceback of a docstring.
"""

import re
from collections.abc import Iterator
from functools import cache
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any

from messages import HOLE, PACKAGE, all_messages

TESTS = Path(__file__).parent
WORD = re.compile(r"[A-Za-z_]+(?:'[a-z]+)?|\d+")
Words = tuple[str, ...]


def grams(text: str) -> set[Words]:
    """Three words in a row; all words of a shorter piece."""
    result: set[Words] = set()
    for piece in re.split(HOLE, text):
        words = tuple(WORD.findall(piece))
        result.update(words[n : n + 3] for n in range(max(1, len(words) - 2)) if words)
    return {gram for gram in result if len(gram) == 3} or result


@cache
def messages() -> dict[str, str]:
    return {message.text: message.place for message in all_messages()}


@cache
def matched() -> frozenset[Words]:
    """All runs of up to three words in what the tests and the pages say."""
    strings = []
    for path in [*TESTS.rglob("*.py"), *PACKAGE.rglob("*.py")]:
        if path == Path(__file__):
            continue
        own = path.is_relative_to(PACKAGE)
        found = constants(SourceFileLoader(path.stem, str(path)).get_code(path.stem))  # its bytecode, if that is there
        strings += map(tracebacks, found) if own else found
    strings += [tracebacks(path.read_text(encoding="utf-8")) for path in (TESTS.parent / "docs").glob("*.md")]
    found = set()
    for string in strings:
        for part in re.split(r"\.[*+]|\|", string.replace("\\", "")):
            words = tuple(WORD.findall(part))
            found.update(words[n : n + size] for size in (1, 2, 3) for n in range(len(words) - size + 1))
    return frozenset(found)


def constants(value: Any) -> Iterator[str]:
    """The strings in a compiled module: to compile it and look there is faster than to walk its syntax tree."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, CodeType | tuple | frozenset):
        for part in value.co_consts if isinstance(value, CodeType) else value:
            yield from constants(part)


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
