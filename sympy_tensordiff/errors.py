"""The exceptions of the package: each says who caused it and what to do.

Every message carries the offending values; every class is a `TensorDiffError`, and
also the built-in exception a Python programmer would expect in its place. The page of
errors (``docs/errors.md``) has a section for each class, under the name that tracebacks print.
"""

import unicodedata
from collections.abc import Callable
from typing import Any


class TensorDiffError(Exception):
    """Base class of all errors raised by this package."""


class ShapeError(TensorDiffError, ValueError):
    """A shape, rank or extent is invalid or does not fit; the expression must be changed."""


class IndexExpressionError(TensorDiffError, ValueError):
    """An index is not an affine form of integer symbols; the index must be rewritten."""


class OutOfShapeError(TensorDiffError, IndexError):
    """A read is out of bounds of its tensor; the range, the index or the shape must be changed."""


class DataIndexError(OutOfShapeError):
    """An entry of an index array is out of its range or makes a read out of bounds; the data must be changed."""


class UnsupportedError(TensorDiffError, NotImplementedError):
    """The expression is not supported; the message names the part, the reason and an alternative."""


class NotInCError(UnsupportedError):
    """C99 with ``math.h`` does not have the function, routine or number type that is needed; the message names it and
    an alternative.
    """


class LoopBoundError(UnsupportedError, ValueError):
    """The range of a sum cannot be written as loop bounds; the message names the condition and a way to rewrite it.

    The message is a text with placeholders for the given variables and conditions.
    """

    def __str__(self) -> str:
        text, *parts = self.args
        return str(text).format(*parts)

    def named(self, name: Callable[[Any], Any]) -> "LoopBoundError":
        """Return a copy of this error whose message shows ``name(part)`` for each variable or constraint that it
        mentions, so that users read their own names.
        """
        text, *parts = self.args
        return type(self)(text, *map(name, parts))


class ArgumentError(TensorDiffError, ValueError):
    """An argument of a call (a name, an array, a scalar, an option) does not fit; the message names it."""


class ArgumentTypeError(TensorDiffError, TypeError):
    """An argument of a call has the wrong type or dtype; the message names it."""


class SingularMatrixError(TensorDiffError, ValueError):
    """A matrix of a call has no inverse; the message names it."""


class NotPositiveDefiniteError(SingularMatrixError):
    """A matrix of a call that is declared positive definite is not; the message names it."""


class CertificateError(TensorDiffError, ValueError):
    """The terms of a convexity certificate do not sum to the Hessian, or there is no certificate to check; the message
    says which.
    """


class ParseError(TensorDiffError, ValueError):
    """A text is invalid in its language, or its tensors do not fit; the message points at the position.

    Attributes
    ----------
    message : str
        The mistake and the expected input.
    line, column : int
        The place in the text, both from 1 on.
    text : str
        The line of the text.
    """

    def __init__(self, message: str, source: str = "", place: int = 0) -> None:
        super().__init__(message, source, place)
        self.message = message
        start = source.rfind("\n", 0, place) + 1
        end = source.find("\n", place)
        self.line = source.count("\n", 0, place) + 1
        self.column = place - start + 1
        self.text = source[start : len(source) if end < 0 else end]

    def __str__(self) -> str:
        line, caret = _excerpt(self.text, self.column - 1)
        return f"line {self.line}, column {self.column}: {self.message}\n{line}\n{caret}"


class BackendError(TensorDiffError, ImportError):
    """The backend asked for is not installed or has no device; the message names what to install."""


class DeviceMemoryError(TensorDiffError, MemoryError):
    """The memory of the device does not hold the arrays of a call; the message says how much these need."""


class DerivativeMismatch(TensorDiffError, AssertionError):
    """A derivative disagrees with central differences; the message names the worst entry."""


class VerificationError(TensorDiffError, AssertionError):
    """Generated loops are wrong (a read out of bounds, or two writers of one entry). This is a bug of the package."""


_WIDTH = 80


def _excerpt(text: str, place: int) -> tuple[str, str]:
    """Return two lines for an error message: the part of `text` around the position `place`, and a caret below that
    position.
    """
    first = max(0, min(place - _WIDTH // 2, len(text) - _WIDTH))
    last = min(len(text), first + _WIDTH)
    line = "…" * (first > 0) + "".join(map(_visible, text[first:last])) + "…" * (last < len(text))
    before = "…" * (first > 0) + "".join(map(_visible, text[first:place]))
    width = sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in before)
    return line, " " * width + "^"


def _visible(character: str) -> str:
    """Return ``character``, or a visible replacement if it is a control, format or combining character or a line
    separator, so that the result is one or two columns wide.
    """
    if character < " " or character == "\x7f":
        return chr(0x2421 if character == "\x7f" else 0x2400 + ord(character))
    kind = unicodedata.category(character)
    return "\ufffd" if kind[0] in "CM" or kind in ("Zl", "Zp") else character
