"""Where the input of the text language comes from: an argument, a file or standard input."""

from __future__ import annotations

import os
import sys
from typing import BinaryIO, NamedTuple

from sympy_tensordiff.parsing.language import LONGEST

# No longer text has as few bytes: whatever is longer than this, the parser refuses.
_ENOUGH = 4 * LONGEST + 4


class Input(NamedTuple):
    """A text, and the name of the file that it stands in (nothing for an argument)."""

    text: str
    origin: str


class UnreadableError(Exception):
    """The input cannot be read; the message is one line for the user."""


def read_input(argument: str | None, file: str | None) -> Input:
    """The text of an argument, of the file that it names, of ``file`` or, for neither and for ``-``, of standard input.

    Raises
    ------
    UnreadableError
        If there is no such file, if it cannot be read, or if it is not UTF-8.
    """
    if file is not None and argument is not None:
        raise UnreadableError("an input and --file are given: give one of them")
    if file is None and argument is not None and argument != "-":
        if not os.path.exists(argument):
            return Input(_typed(argument), "")
        file = argument
    if file is None or file == "-":
        return Input(_standard_input(), "standard input")
    try:
        with open(file, "rb") as stream:
            return Input(_decoded(stream, file), file)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UnreadableError(f"{file}: {reason}") from None


def is_interactive() -> bool:
    """Whether nobody sends anything to standard input."""
    return sys.stdin is None or sys.stdin.closed or sys.stdin.isatty() or not sys.stdin.readable()


def _typed(text: str) -> str:
    """An argument that is no file; one word is no input either."""
    if text and len(text.split()) == 1:
        raise UnreadableError(
            f"there is no file {text!r}, and an input of the language reads "
            '"declare x 1 expression x *(i,i->) x derivative wrt x" (in quotes)'
        )
    return text


def _standard_input() -> str:
    if sys.stdin is None:
        raise UnreadableError("standard input is closed: give the input as an argument, or --file")
    buffer = getattr(sys.stdin, "buffer", None)
    try:
        return sys.stdin.read(LONGEST + 1) if buffer is None else _decoded(buffer, "standard input")
    except OSError as error:
        raise UnreadableError(f"standard input: {error.strerror or error}") from None


def _decoded(stream: BinaryIO, name: str) -> str:
    """The text of a stream, or so much of it that the parser refuses its length."""
    data = stream.read(_ENOUGH)
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise UnreadableError(f"{name} is UTF-16, and inputs are UTF-8: save it in this encoding")
    try:
        text = data.decode("utf-8-sig", "replace" if len(data) == _ENOUGH else "strict")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UnreadableError(
            f"{name} is not UTF-8: line {line} holds the byte 0x{data[error.start]:02x}; save it in this encoding"
        ) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")
