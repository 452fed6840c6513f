"""The graph into SymPy expressions, built bottom-up, shared where the nodes are shared.

Reductions must have triangular rows (`simplify.bounds`): each variable bounded in those before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import sympy

from sympy_tensordiff.graph.arithmetic import opposites
from sympy_tensordiff.graph.disequalities import joined_sides, unequal_forms
from sympy_tensordiff.graph.functions import Partial
from sympy_tensordiff.graph.interning import (
    Recursion,
    breadth_first,
    in_turn,
    no_collection,
    outside_of_binders,
    takes_tensors,
    trampoline,
)
from sympy_tensordiff.graph.nodes import Node, replace
from sympy_tensordiff.graph.read import Reader
from sympy_tensordiff.graph.write_forms import Scope
from sympy_tensordiff.graph.write_tensors import TensorWriter, branches_of, number, with_mean
from sympy_tensordiff.integer.affine import Affine, Row
from sympy_tensordiff.integer.data import partition_data
from sympy_tensordiff.integer.implication import implied, is_empty
from sympy_tensordiff.integer.rows import normalise, partition
from sympy_tensordiff.symbolic.base import Node as Own
from sympy_tensordiff.symbolic.depth import BoundedDepth
from sympy_tensordiff.symbolic.einsum import EinsumProduct
from sympy_tensordiff.symbolic.matrix_functions import TensorAdjugate
from sympy_tensordiff.symbolic.partial_derivatives import partial_derivative
from sympy_tensordiff.symbolic.sums import IndexedMax, IndexedMin, IndexedProduct, IndexedSum
from sympy_tensordiff.symbolic.tensors import TensorComprehension, TensorEntry, as_entry

DEEPEST = 50
"""The levels of SymPy's own nodes in one another that a result may have."""


def write(reader: Reader, node: Node) -> Any:
    """The SymPy expression of ``node``."""
    return write_all(reader, [node])[0]


@no_collection()
def write_all(reader: Reader, nodes: Iterable[Node]) -> list[Any]:
    """The SymPy expressions of several nodes; what the nodes share the expressions share."""
    writer = Writer(reader)
    if "add" in reader.graph.kinds:
        nodes = joined_sides(reader.graph, list(nodes))
    return [trampoline(writer.visit(node, ())) for node in nodes]


class Writer(TensorWriter):
    """The SymPy expressions of the nodes of one graph."""

    def __init__(self, reader: Reader) -> None:
        super().__init__(reader)
        self.graph = reader.graph
        self.axis_letters: dict[Node, str] = {}
        self.done: dict[tuple[Node, Scope], Any] = {}
        self.depth = BoundedDepth(DEEPEST, as_entry)

    # -------------------------------------------------------------- the walk

    def visit(self, node: Node, scope: Scope) -> Recursion[Any]:
        if node.op == "comprehension":
            # Names inside do not care for indices around that do not occur.
            scope = tuple(pair for pair in scope if pair[0] in node.free)
        key = (node, scope)
        if key not in self.done:
            special = self.whole if takes_tensors(node) else getattr(self, node.op, None)
            if special is not None:
                self.done[key] = self.bounded((yield special(node, scope)))
            else:
                args = yield from in_turn(self.visit(arg, scope) for arg in node.args)
                self.done[key] = self.bounded(self.plain(node, args, scope))
        return self.done[key]

    def bounded(self, expr: Any) -> Any:
        """An expression, or an entry that is equal to it where it has too many levels of SymPy's own nodes."""
        return expr if isinstance(expr, Own) else self.depth.bounded(expr)

    def plain(self, node: Node, args: list[Any], scope: Scope) -> Any:
        match node.op:
            case "const":
                return number(node.data)
            case "scalar":
                return node.data
            case "index":
                return self.form(node.data, scope)
            case "tensor":
                return self.reader.tensors[node.data[0]]
            case "mul":
                return self.depth.applied(sympy.Mul, _without_minus(_with_mean(args)))
            case "pow":
                # SymPy makes 0**(-3*c), which is 1 at c = 0, zoo**c.
                if args[0] == 0 and not args[1].is_number:
                    return sympy.Pow(*args, evaluate=False)
                return self.depth.applied(sympy.Pow, args)
            case "call":
                if isinstance(node.data, Partial):
                    return partial_derivative(node.data.function, node.data.orders, args)
                return self.depth.applied(node.data, args)
            case "and" | "or" | "not":
                return {"and": sympy.And, "or": sympy.Or, "not": sympy.Not}[node.op](*args)
            case _:
                return _related(node.data, *args)

    def read(self, node: Node, scope: Scope) -> Recursion[Any]:
        if node.args[0].op == "cof" and node.args[0].data == 1:  # an entry of the adjugate
            matrix = yield self.visit(node.args[0].args[0], scope)
            *batch, row, column = [self.form(f, scope) for f in node.data]
            return TensorEntry._trusted(TensorAdjugate(matrix), (*batch, column, row))
        tensor = yield self.visit(node.args[0], scope)
        if not node.data and node.args[0].op == "tensor":
            return tensor
        return TensorEntry._trusted(tensor, tuple(self.form(form, scope) for form in node.data))

    def select(self, node: Node, scope: Scope) -> Recursion[Any]:
        if node.args[2] is self.graph.zero and (forms := unequal_forms(node.args[0])):
            body = yield self.visit(node.args[1], scope)
            return _case(body, *self.unequal(forms, scope))
        pairs = []
        branches, node = branches_of(self.graph, node)
        for condition, value in branches:
            pairs.append(((yield self.visit(value, scope)), (yield self.visit(condition, scope))))
        if node.op != "const" or node.data == node.data:  # SymPy leaves out an undefined rest
            pairs.append(((yield self.visit(node, scope)), sympy.true))
        return sympy.Piecewise(*pairs, evaluate=False)

    def compare(self, node: Node, scope: Scope, known: tuple[Row, ...] = ()) -> Recursion[Any]:
        """A comparison; one of values that conditions choose is a choice between comparisons."""
        choices = _one_choice(node)
        if odd := _sign_conditions(node):
            conditions = yield from in_turn(self.visit(condition, scope) for condition in odd)
            return sympy.Xor(*conditions)
        if not choices:
            args = yield from in_turn(self.visit(arg, scope) for arg in node.args)
            return self.plain(node, args, scope)
        first, rows = choices[0], choices[0].data if choices[0].op == "guard" else ()
        yes = replace(self.graph, node, {part: part.args[-2 if part.op == "select" else 0] for part in choices})
        no = replace(
            self.graph, node, {part: part.args[-1] if part.op == "select" else self.graph.zero for part in choices}
        )
        if rows and is_empty(rows, known):
            return (yield self.compare(no, scope, known))
        result = yield self.compare(yes, scope, (*known, *rows))
        rows = tuple(row for row in rows if not implied(row, known))
        tests = [self.holds(rows, scope)] if rows else []
        if first.op == "select":
            tests = [(yield self.visit(first.args[0], scope))]
        otherwise = (yield self.compare(no, scope, known)) if tests else result
        for test in reversed(tests):
            result = sympy.ITE(test, result, otherwise)
        return result

    def add(self, node: Node, scope: Scope) -> Recursion[Any]:
        """A sum, in which a case and its opposite are one choice."""
        terms = []
        for term, other, rest in _merge_complements(node.args):
            if other is None:
                terms.append((yield self.visit(term, scope)))
                continue
            if self.comes_second(term, rest, scope):
                term, other = other, term
            body = yield self.visit(term.args[0], scope)
            otherwise = yield self.visit(other.args[0], scope)
            pairs = [(body, self.holds(term.data, scope)), (otherwise, self.holds(rest, scope))]
            terms.append(sympy.Piecewise(*pairs, *([(sympy.S.Zero, sympy.true)] if rest else []), evaluate=False))
        return self.depth.applied(sympy.Add, terms)

    def comes_second(self, case: Node, rest: tuple[Row, ...], scope: Scope) -> bool:
        """Whether the opposite of a case is written first: the upper part of a range, even indices, one remainder."""
        (row,) = (row for row in case.data if row not in rest)
        if row.kind == "mod":
            return row.modulus == 2 and bool(row.form.constant)
        opposite = normalise(row.negation())
        return (isinstance(opposite, Row) and opposite.kind == "mod") or self.lead(row.form, scope)[1] < 0

    def guard(self, node: Node, scope: Scope) -> Recursion[Any]:
        body, rows = node.args[0], node.data
        forms = unequal_forms(body.args[0]) if self.graph.is_choice(body) and body.args[2] is self.graph.zero else ()
        if forms and all(row.kind != "eq" for row in rows):
            value = yield self.visit(body.args[1], scope)
            return _case(value, *(self.condition(row, scope) for row in rows), *self.unequal(forms, scope))
        value = yield self.visit(body, scope)
        return self.guarded(rows, value, scope)

    def unequal(self, forms: Sequence[Affine], scope: Scope) -> list[Any]:
        """Conditions that forms are not 0."""
        return [sympy.Ne(*self.equation(Row("eq", form), scope), evaluate=False) for form in forms]

    def guarded(self, rows: Sequence[Row], body: Any, scope: Scope) -> Any:
        """The body times a delta for each equation, as a case of the other rows.

        A delta of data stands inside of the case, behind conditions on indices; beside conditions on data it is
        one of them, and what is read outside of its tensor counts where all others hold only.
        """
        plain, data = partition_data(row for row in rows if row.kind == "eq")
        tests = [row for row in rows if row.kind != "eq"]
        if partition_data(tests)[1]:
            tests, data = tests + data, []
        if tests:
            body = sympy.Mul(*self.deltas(data, scope), body)
            body = sympy.Piecewise((body, self.holds(tests, scope)), (sympy.S.Zero, sympy.true), evaluate=False)
            data = []
        return sympy.Mul(*self.deltas(plain + data, scope), body)

    def deltas(self, equations: Sequence[Row], scope: Scope) -> list[Any]:
        """The delta of each equation."""
        return [sympy.KroneckerDelta(*self.equation(row, scope)) for row in equations]

    def sum(self, node: Node, scope: Scope) -> Recursion[Any]:
        summand, limits = yield self.ranged(node, scope)
        # SymPy has its own sign for the arguments of odd functions.
        sign = -1 if summand.is_Mul and summand.args[0].is_Rational and summand.args[0].is_negative else 1
        return sign * IndexedSum._trusted(sign * summand, limits)

    def reduction(self, node: Node, scope: Scope) -> Recursion[Any]:
        body, limits = yield self.ranged(node, scope)
        return _REDUCTIONS[node.op]._trusted(body, limits)

    prod = max = min = reduction

    def ranged(self, node: Node, scope: Scope) -> Recursion[tuple[Any, tuple[Any, ...]]]:
        """The body of a reduction and its limits, the innermost first."""
        variables, rows, body = self.graph.inside(node, dict(scope))
        scope = self.bind(variables, self.graph.hints[node.id], scope)
        limits = self.limits(node, variables, rows, body, scope)
        expr = yield self.visit(body, scope)
        return expr, tuple(reversed(limits))

    def limits(
        self, node: Node, variables: Sequence[int], rows: Sequence[Row], body: Node, scope: Scope
    ) -> list[tuple[Any, Any, Any]]:
        """The limits of a reduction over a body, the outermost first."""
        limits = []
        for n, v in enumerate(variables):
            around, _ = partition(rows, variables[n + 1 :])
            own = [row.form for row in around if any(w == v for w, _ in row.form.terms)]
            limits.append((self.symbol(v, scope), *self.bounds(v, own, scope)))
        return limits

    def comprehension(self, node: Node, scope: Scope) -> Recursion[Any]:
        variables, _, body = self.graph.inside(node, dict(scope))
        extents = [self.form(extent, scope) for extent in node.data]
        scope = self.bind(variables, self.graph.hints[node.id], scope)
        entry = yield self.visit(body, scope)
        limits = tuple((self.symbol(v, scope), extent) for v, extent in zip(variables, extents, strict=True))
        return TensorComprehension._trusted(entry, limits)


def _merge_complements(terms: Sequence[Node]) -> Iterator[tuple[Node, Node | None, tuple[Row, ...]]]:
    """The terms of a sum, with two guards that differ in one negated row as one choice.

    Or of the same body with the one that holds on the other side of a single value of a form.
    """
    guards = {term.data: term for term in terms if term.op == "guard"}
    done: set[Node] = set()
    for term in terms:
        if term in done:
            continue
        done.add(term)
        for rest, rows in opposites(term.data) if term.op == "guard" else ():
            other = guards.get(rows)
            if other is not None and other not in done and not any(row.kind == "eq" for row in rest):
                done.add(other)
                yield term, other, rest
                break
        else:
            yield term, None, ()


def _case(body: Any, *conditions: Any) -> Any:
    """A body where conditions on indices hold, and others in it, else 0."""
    if isinstance(body, sympy.Piecewise) and len(body.args) == 2 and body.args[1].args == (0, True):
        value, inner = body.args[0].args
        if not inner.has(TensorEntry, IndexedSum):
            body, conditions = value, (*conditions, *sympy.And.make_args(inner))
    holds = sympy.And(*conditions, evaluate=False) if len(conditions) > 1 else conditions[0]
    return sympy.Piecewise((body, holds), (sympy.S.Zero, sympy.true), evaluate=False)


def _with_mean(factors: list[Any]) -> list[Any]:
    """The factors, with a mean for the only sum over axes among them where the others divide it by the number."""
    parts = [part for factor in factors for part in sympy.Mul.make_args(factor)]
    totals = [part for part in parts if isinstance(part, EinsumProduct)]
    if len(totals) != 1:
        return factors
    factor, means = with_mean(sympy.Mul(*(part for part in parts if part is not totals[0])), totals[0])
    return factors if means == totals else [factor, *means]


def _without_minus(factors: list[Any]) -> list[Any]:
    """``-(a - b)*x`` as ``(b - a)*x``."""
    if factors[0].is_Rational and factors[0].is_negative:
        for n, factor in enumerate(factors):
            if factor.is_Add and 2 * sum(t.as_coeff_Mul()[0].is_negative for t in factor.args) >= len(factor.args):
                turned = sympy.Add(*(-term for term in factor.args))
                return [-factors[0], *factors[1:n], turned, *factors[n + 1 :]]
    return factors


def _sign_conditions(node: Node) -> list[Node]:
    """The conditions of the signs in a product, which is negative where an odd number of them holds."""
    product, limit = node.args
    if node.data != "lt" or limit.op != "const" or limit.data != 0 or product.op != "mul":
        return []
    signs = product.args
    values = [[arg.data for arg in sign.args[1:] if arg.op == "const"] if sign.op == "select" else [] for sign in signs]
    return [sign.args[0] for sign in signs] if all(pair == [-1, 1] for pair in values) else []


def _related(relation: str, left: Any, right: Any) -> Any:
    """A comparison; 0 < x reads better as x > 0."""
    if relation in ("eq", "ne") and left.is_Symbol and right.is_Symbol:
        left, right = sorted((left, right), key=sympy.default_sort_key)  # as a Piecewise of SymPy's orders them
    if left.is_Number and relation in _TURNED:
        return _TURNED[relation](right, left, evaluate=False)
    return _RELATIONS[relation](left, right, evaluate=False)


_TURNED = {"lt": sympy.Gt, "le": sympy.Ge}


def _one_choice(node: Node) -> list[Node]:
    """The outermost guard or choice in a comparison, and all others by the same condition; those in binders are theirs.

    What is outside is asked first: where it does not hold, the conditions inside may read out of their tensors. A
    delta of a number that nothing chooses is a factor, and no case: many of them would double the cases each.
    """
    scalars = (part for part in breadth_first(node, outside_of_binders) if not part.shape)
    found = [part for part in scalars if part.op == "select" or (part.op == "guard" and _cases(part))]
    return [part for part in found if part.op == found[0].op and _test(part) == _test(found[0])]


def _cases(guard: Node) -> bool:
    """Whether a guard is more than deltas: it holds an inequality, or a choice."""
    inside = any(part.op in ("guard", "select") for part in breadth_first(guard.args[0], outside_of_binders))
    return inside or any(row.kind != "eq" for row in guard.data)


def _test(choice: Node) -> Any:
    return choice.data if choice.op == "guard" else choice.args[0]


_REDUCTIONS = {"prod": IndexedProduct, "max": IndexedMax, "min": IndexedMin}
_RELATIONS = {"lt": sympy.Lt, "le": sympy.Le, "eq": sympy.Eq, "ne": sympy.Ne}
