"""What index expressions divide by, ``floor(i/D)`` and ``Mod(i, D)`` with sizes in ``D``: it has to be positive.

A size that is no extent is positive where its symbol is declared so. A divisor that can be 0 and not negative, as
``2*n - 2`` for an extent ``n``, leaves no value where it is 0: there is nothing to differentiate, and sizes that
make it positive are taken for granted. Where conditions or ranges already see to that, nothing is.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.graph.nodes import BINDERS, RANGED, Graph, Node, Substitution, reachable
from sympy_tensordiff.integer.affine import Affine, Row
from sympy_tensordiff.integer.multiples import divided_by
from sympy_tensordiff.integer.polyhedron import implied
from sympy_tensordiff.integer.rows import Rows, normalise_rows
from sympy_tensordiff.simplify.facts import input_facts


def grant_divisors(graph: Graph, divisors: Collection[Affine], roots: Sequence[Node]) -> None:
    """Refuse an index that is divided by a form that may be negative; grant that one that may be 0 is positive.

    What a read at such a quotient says is known only where its divisor is positive.

    Raises
    ------
    UnsupportedError
        If nothing tells that a divisor is not negative.
    """
    # That something is divided by it is no reason for a divisor to be positive.
    facts = tuple(row for row in input_facts(graph, roots) if not divided_by([row.form])) if divisors else ()
    for divisor in sorted(divisors):
        positive = Row("ge", divisor - 1)
        if implied(positive, facts):
            continue
        if not implied(Row("ge", divisor), facts):
            shown = divisor.substitute({v: Affine.variable(graph.names[v]) for v in divisor.atoms()})
            is_symbol = len(divisor.terms) == 1 and not divisor.constant
            way_out = "" if is_symbol else f"; give {shown} a name of its own, and write the extents with it"
            raise UnsupportedError(
                f"an index is divided by {shown}, which is not known to be positive: it must be an extent of a tensor, "
                "or made of such extents and of symbols that are declared so, Symbol('m', integer=True, positive=True)"
                + way_out
            )
        if not all(implied(positive, (*facts, *around)) for around in _uses(graph, divisor, roots)):
            graph.granted.update(dict.fromkeys(normalise_rows([positive]) or ()))


def _uses(graph: Graph, divisor: Affine, roots: Sequence[Node]) -> list[Rows]:
    """The conditions and ranges without quotients by sizes around each place where a form is divided by ``divisor``."""
    found: dict[Rows, None] = {}
    seen: set[tuple[Node, Rows]] = set()
    stack: list[tuple[Node, Rows]] = [(root, ()) for root in roots]
    while stack:
        node, around = stack.pop()
        if (node, around) in seen:
            continue
        seen.add((node, around))
        rows: Rows = node.data if node.op == "guard" else ()
        body = node.args
        if node.op in BINDERS:
            _, rows, inside = graph.open(node)
            body = (inside,)
        plain = tuple(row for row in rows if not divided_by([row.form]))
        if divisor in divided_by(_forms(node, rows)):
            conditions = (*around, *(plain if node.op == "guard" else ()))
            found[conditions] = None
        stack += [(arg, (*around, *plain)) for arg in body]
    return list(found)


def divides_by_none(body: Node, mapping: Substitution) -> bool:
    """Whether nothing in a body is divided by a number below 1 where variables have the values of ``mapping``."""
    forms = [
        form
        for node in reachable(body)
        for form in _forms(node, node.data if node.op in RANGED or node.op == "guard" else ())
    ]
    new = (divisor.substitute(mapping) for divisor in divided_by(forms))
    return all(not divisor.is_constant or divisor.constant >= 1 for divisor in new)


def _forms(node: Node, rows: Rows) -> list[Affine]:
    """The index forms of a node itself."""
    own = node.data if node.op == "read" else (node.data,) if node.op == "index" else ()
    return [*own, *node.shape, *(row.form for row in rows)]
