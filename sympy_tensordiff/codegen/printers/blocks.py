"""Text of nested blocks, with places that are filled later."""

from __future__ import annotations

INDENT = "    "


class Block:
    """Lines of one indentation, blocks inside it, and slots that receive lines later."""

    def __init__(self) -> None:
        self._items: list[str | tuple[str, Block] | Block] = []

    def line(self, text: str) -> None:
        """Append one line."""
        self._items.append(text)

    def child(self, head: str) -> Block:
        """Append ``head`` and an indented block behind it."""
        inner = Block()
        self._items.append((head, inner))
        return inner

    def slot(self) -> Block:
        """Append a place for lines of the same indentation that turn out to be needed further down."""
        inner = Block()
        self._items.append(inner)
        return inner

    def render(self, depth: int = 0) -> list[str]:
        """All lines, indented."""
        lines: list[str] = []
        for item in self._items:
            if isinstance(item, str):
                lines.append(INDENT * depth + item if item else item)
            elif isinstance(item, Block):
                lines += item.render(depth)
            else:
                head, inner = item
                lines += [INDENT * depth + head, *(inner.render(depth + 1) or [INDENT * (depth + 1) + "pass"])]
        return lines
