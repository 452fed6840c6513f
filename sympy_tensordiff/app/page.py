"""What the commands print."""

from __future__ import annotations

from typing import Any, TextIO

import sympy

# Formulas wider than this are printed on one line instead of in two dimensions.
WIDTH = 150


class Page:
    """A text stream that gets plain ASCII where it cannot take anything else."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.encoding = getattr(stream, "encoding", None) or "utf-8"

    @property
    def unicode(self) -> bool:
        """Whether the stream can show the signs of two-dimensional formulas."""
        try:
            "∑ ⎛⎞ ─ ⋅ ≤ ∧".encode(self.encoding)
        except (UnicodeEncodeError, LookupError):
            return False
        return True

    def say(self, text: str = "") -> None:
        """One or more lines."""
        if not self.unicode:
            text = text.encode("ascii", "backslashreplace").decode("ascii")
        self.stream.write(text + "\n")
        self.stream.flush()

    def title(self, text: str) -> None:
        """An underlined line."""
        self.say(f"{text}\n{'-' * len(text)}")

    def formula(self, name: str, tensor: Any) -> None:
        """Shape, and ``name[indices] = body`` in two dimensions, or on one line where that is too wide."""
        left = sympy.Symbol(f"{name}[{', '.join(map(str, tensor.indices))}]")
        equation = sympy.Eq(left, tensor.body, evaluate=False)
        text = str(sympy.pretty(equation, use_unicode=self.unicode, wrap_line=False))
        if max(map(len, text.splitlines())) > WIDTH:
            text = f"{left} = {tensor.body}"
        self.say(f"{name}, {' x '.join(map(str, tensor.shape))}:")
        self.say("\n".join("  " + line.rstrip() for line in text.splitlines()) + "\n")
