"""Blocks of statements under construction: of a kernel, a loop, a guard or a branch of a choice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sympy_tensordiff.codegen.ir import loops, scalars
from sympy_tensordiff.codegen.lower.plan import EnclosingLoops
from sympy_tensordiff.graph.nodes import Node
from sympy_tensordiff.integer.rows import Rows


@dataclass
class CodeBlock:
    """A block of code under construction: its statements, the loops around it, and the values of nodes that it has
    computed already.
    """

    context: EnclosingLoops
    own: frozenset[int]
    parent: CodeBlock | None = None
    statements: list[loops.Statement] = field(default_factory=list)
    values: dict[Node, scalars.Scalar] = field(default_factory=dict)
    uses: Counter[Node] | None = None
    """Of a kernel and of a loop: how often each node is an argument in the computations there."""
    private: frozenset[Node] | None = None
    """Of a branch of a choice: what nothing else needs."""
    is_common: bool = False
    """Of a branch of a choice: whether its condition is the same in all iterations of one of the loops."""

    def outwards(self) -> Iterator[CodeBlock]:
        """Yield this block and its enclosing blocks, innermost first."""
        block: CodeBlock | None = self
        while block is not None:
            yield block
            block = block.parent


def nested_blocks(variables: Sequence[int], rows: Rows, block: CodeBlock) -> list[CodeBlock]:
    """Return a chain of blocks, each inside of the one before: `block` itself, then a new block for the loop over each
    of `variables`. The context of a new block has the constraints among `rows` that bound its loop.
    """
    found = [block]
    for n, v in enumerate(variables):
        inner = frozenset(variables[n + 1 :])
        own = [row for row in rows if row.form.coefficient(v) and row.form.atoms().isdisjoint(inner)]
        found.append(CodeBlock(found[-1].context.inside([v], own), frozenset([v]), found[-1]))
    return found
