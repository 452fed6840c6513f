"""Writing the graph as SymPy expressions, bottom-up, with shared nodes as shared expressions.

Reductions must have triangular rows (`simplify.bounds`): each variable bounded in those before it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Any

import sympy

from sympy_tensordiff.graph.arithmetic import opposites
from sympy_tensordiff.graph.disequalities import coalesce_sides
from sympy_tensordiff.graph.functions import Partial
from sympy_tensordiff.graph.index_tests import is_index_choice, unequal_forms
from sympy_tensordiff.graph.interning import (
    Recursion,
    breadth_first,
    in_turn,
    no_collection,
    outside_of_binders,
    takes_tensors,
    trampoline,
)
from sympy_tensordiff.graph.nodes import Graph, Node, replace
from sympy_tensordiff.graph.read import Reader
from sympy_tensordiff.graph.write_forms import BoundSymbols
from sympy_tensordiff.graph.write_tensors import TensorWriter, branches_of, number, with_mean
from sympy_tensordiff.integer.affine import Affine, Constraint
from sympy_tensordiff.integer.implication import is_empty, is_implied
from sympy_tensordiff.integer.indirect import data_entries, partition_data
from sympy_tensordiff.integer.rows import Rows, normalise, partition
from sympy_tensordiff.symbolic.expressions.base import TensorNode as Own
from sympy_tensordiff.symbolic.expressions.depth import BoundedDepth
from sympy_tensordiff.symbolic.expressions.partial_derivatives import partial_derivative
from sympy_tensordiff.symbolic.expressions.replacement import Replacement
from sympy_tensordiff.symbolic.expressions.traversal import nodes_in
from sympy_tensordiff.symbolic.index_notation.sums import IndexedMax, IndexedMin, IndexedProduct, IndexedSum
from sympy_tensordiff.symbolic.index_notation.tensors import TensorComprehension, TensorEntry, as_entry
from sympy_tensordiff.symbolic.whole_tensors.einsum import EinsumProduct
from sympy_tensordiff.symbolic.whole_tensors.matrix_functions import TensorAdjugate

MAX_DEPTH = 50
"""The most levels of nested SymPy nodes in a result; deeper ones are wrapped in an entry of a tensor."""


def write(reader: Reader, node: Node) -> Any:
    """Return ``node`` as a SymPy expression. ``reader`` is the object that converted the user's expressions to the
    graph; it knows their symbols.
    """
    return write_all(reader, [node])[0]


@no_collection()
def write_all(reader: Reader, nodes: Iterable[Node]) -> list[Any]:
    """Return the SymPy expressions of several nodes; shared nodes become shared expressions."""
    writer = ExpressionWriter(reader)
    if "add" in reader.graph.kinds:
        nodes = coalesce_sides(reader.graph, list(nodes))
    return [trampoline(writer.visit(node, ())) for node in nodes]


class ExpressionWriter(TensorWriter):
    """Writes the nodes of one graph as expressions of SymPy and this package."""

    def __init__(self, reader: Reader) -> None:
        super().__init__(reader)
        self.graph = reader.graph
        self.axis_letters: dict[Node, str] = {}
        self.done: dict[tuple[Node, BoundSymbols], Any] = {}
        self.depth = BoundedDepth(MAX_DEPTH, as_entry)

    # -------------------------------------------------------------- the walk

    def visit(self, node: Node, bound_symbols: BoundSymbols) -> Recursion[Any]:
        """Return the SymPy expression of `node`, where ``bound_symbols`` lists the bound variables with their symbols;
        results are cached.
        """
        if node.op == "comprehension":
            # Enclosing indices that do not occur have no influence on the names inside.
            bound_symbols = tuple(pair for pair in bound_symbols if pair[0] in node.free)
        key = (node, bound_symbols)
        if key not in self.done:
            special = self.whole if takes_tensors(node) else getattr(self, f"write_{node.op}", None)
            if special is not None:
                self.done[key] = self.bounded((yield special(node, bound_symbols)))
            else:
                args = yield from in_turn(self.visit(arg, bound_symbols) for arg in node.args)
                self.done[key] = self.bounded(self.plain(node, args, bound_symbols))
        return self.done[key]

    def bounded(self, expr: Any) -> Any:
        """Return `expr`; if SymPy's own nodes in it are nested too deeply for recursive functions, wrapped in a node of
        this package (a tensor entry) with the same value.
        """
        return expr if isinstance(expr, Own) else self.depth.bounded(expr)

    def plain(self, node: Node, args: list[Any], bound_symbols: BoundSymbols) -> Any:
        """Return the SymPy expression of a `node` that binds no indices, such as a product or a function. `args` are
        the expressions of its arguments.
        """
        match node.op:
            case "const":
                return number(node.data)
            case "scalar":
                return node.data
            case "index":
                return self.form(node.data, bound_symbols)
            case "tensor":
                return self.reader.tensors[node.data[0]]
            case "mul":
                return self.depth.build(sympy.Mul, _absorb_minus(_with_mean(args)))
            case "pow":
                # SymPy makes 0**(-3*c), which is 1 at c = 0, zoo**c.
                if args[0] == 0 and not args[1].is_number:
                    return sympy.Pow(*args, evaluate=False)
                return self.depth.build(sympy.Pow, args)
            case "call":
                if isinstance(node.data, Partial):
                    return partial_derivative(node.data.function, node.data.orders, args)
                return self.depth.build(node.data, args)
            case "and" | "or" | "not":
                return {"and": sympy.And, "or": sympy.Or, "not": sympy.Not}[node.op](*args)
            case _:
                return _related(node.data, *args)

    def write_read(self, node: Node, bound_symbols: BoundSymbols) -> Recursion[Any]:
        """Return the expression of a tensor entry. An entry of a cofactor matrix is written as one of the adjugate."""
        if node.args[0].op == "cof" and node.args[0].data == 1:  # an entry of the adjugate
            matrix = yield self.visit(node.args[0].args[0], bound_symbols)
            *batch, row, column = [self.form(f, bound_symbols) for f in node.data]
            return TensorEntry._trusted(TensorAdjugate(matrix), (*batch, column, row))
        tensor = yield self.visit(node.args[0], bound_symbols)
        if not node.data and node.args[0].op == "tensor":
            return tensor
        return TensorEntry._trusted(tensor, tuple(self.form(form, bound_symbols) for form in node.data))

    def write_select(self, node: Node, bound_symbols: BoundSymbols) -> Recursion[Any]:
        """Return a `select` node as a `Piecewise`."""
        if is_index_choice(node):
            tests, body = self.split_tests(node.args[1])
            value = yield self.visit(body, bound_symbols)
            conditions = yield from in_turn(self.visit(test, bound_symbols) for test in tests)
            return _case(value, *self.unequal(unequal_forms(node.args[0]), bound_symbols), *conditions)
        pairs = []
        branches, node = branches_of(self.graph, node)
        for condition, value in branches:
            pairs.append(((yield self.visit(value, bound_symbols)), (yield self.visit(condition, bound_symbols))))
        if node.op != "const" or node.data == node.data:  # SymPy leaves out an undefined rest
            pairs.append(((yield self.visit(node, bound_symbols)), sympy.true))
        return sympy.Piecewise(*pairs, evaluate=False)

    def write_compare(
        self, node: Node, bound_symbols: BoundSymbols, known: tuple[Constraint, ...] = ()
    ) -> Recursion[Any]:
        """Return the comparison `node` as a SymPy relation; true or false if that is known. If an operand has cases, as
        a select does, join one relation for each case by `sympy.ITE`.

        ``known`` are constraints that hold where the comparison is used.

        A comparison of a product of signs becomes the exclusive "or" of their conditions.
        """
        if (truth := self.graph.truth_value(node)) is not None:
            return sympy.S(truth)
        choices = _choices_by_first_condition(node)
        if odd := _sign_conditions(node):
            conditions = yield from in_turn(self.visit(condition, bound_symbols) for condition in odd)
            return sympy.Xor(*conditions)
        if not choices:
            args = yield from in_turn(self.visit(arg, bound_symbols) for arg in node.args)
            return self.plain(node, args, bound_symbols)
        first, rows = choices[0], choices[0].data if choices[0].op == "guard" else ()
        yes = replace(self.graph, node, {part: part.args[-2 if part.op == "select" else 0] for part in choices})
        no = replace(
            self.graph, node, {part: part.args[-1] if part.op == "select" else self.graph.zero for part in choices}
        )
        if rows and is_empty(rows, known):
            return (yield self.write_compare(no, bound_symbols, known))
        result = yield self.write_compare(yes, bound_symbols, (*known, *rows))
        rows = tuple(row for row in rows if not is_implied(row, known))
        tests = [self.holds(rows, bound_symbols)] if rows else []
        if first.op == "select":
            tests = [(yield self.visit(first.args[0], bound_symbols))]
        otherwise = (yield self.write_compare(no, bound_symbols, known)) if tests else result
        for test in reversed(tests):
            result = sympy.ITE(test, result, otherwise)
        return result

    def write_add(self, node: Node, bound_symbols: BoundSymbols) -> Recursion[Any]:
        """Return the expression of an addition. Two guards by a condition and by its negation become one `Piecewise`;
        conditions that all terms share are written once, around the sum.
        """
        if common := common_rows(node):
            return self.guarded(
                common, (yield self.visit(without_rows(self.graph, node, common), bound_symbols)), bound_symbols
            )
        terms = []
        for term, other, rest in _pair_complements(node.args):
            if other is None:
                terms.append((yield self.visit(term, bound_symbols)))
                continue
            if self.is_written_second(term, rest, bound_symbols):
                term, other = other, term
            body = yield self.visit(term.args[0], bound_symbols)
            otherwise = yield self.visit(other.args[0], bound_symbols)
            pairs = [(body, self.holds(term.data, bound_symbols)), (otherwise, self.holds(rest, bound_symbols))]
            terms.append(sympy.Piecewise(*pairs, *([(sympy.S.Zero, sympy.true)] if rest else []), evaluate=False))
        return self.depth.build(sympy.Add, terms)

    def is_written_second(self, case: Node, rest: tuple[Constraint, ...], bound_symbols: BoundSymbols) -> bool:
        """Return whether ``case``, one of two guards with opposite conditions, becomes the second branch of a
        `Piecewise`: its condition is an upper part of a range, an odd index, or "not divisible". ``rest`` are the
        constraints that both guards share.
        """
        (row,) = (row for row in case.data if row not in rest)
        if row.kind == "mod":
            return row.modulus == 2 and bool(row.form.constant)
        opposite = normalise(row.negation())
        is_congruence = isinstance(opposite, Constraint) and opposite.kind == "mod"
        return is_congruence or self.lead(row.form, bound_symbols)[1] < 0

    def write_guard(self, node: Node, bound_symbols: BoundSymbols) -> Recursion[Any]:
        """Return a guard as a `Piecewise`, or as a product with a `KroneckerDelta` for each equation."""
        body, rows = node.args[0], node.data
        if is_index_choice(body) and all(row.kind != "eq" for row in rows):
            value = yield self.visit(body.args[1], bound_symbols)
            forms = unequal_forms(body.args[0])
            return _case(
                value, *(self.condition(row, bound_symbols) for row in rows), *self.unequal(forms, bound_symbols)
            )
        value = yield self.visit(body, bound_symbols)
        return self.guarded(rows, value, bound_symbols)

    def split_tests(self, product: Node) -> tuple[list[Node], Node]:
        """Return ``(conditions, value)`` for a product in which some factors are selects ``v if c else 0``: the
        conditions c, and the product with v in place of these.
        """
        tests: list[Node] = []
        factors = []
        waiting = [product]
        while waiting:
            factor = waiting.pop()
            if factor.op == "mul":
                waiting += factor.args
            elif factor.op == "select" and factor.args[2] is self.graph.zero:
                tests.append(factor.args[0])
                waiting.append(factor.args[1])
            else:
                factors.append(factor)
        return tests, self.graph.mul(factors) if tests else product

    def unequal(self, forms: Sequence[Affine], bound_symbols: BoundSymbols) -> list[Any]:
        """Return the SymPy conditions that each of ``forms`` is nonzero."""
        return [sympy.Ne(*self.equation(Constraint("eq", form), bound_symbols), evaluate=False) for form in forms]

    def guarded(self, rows: Sequence[Constraint], body: Any, bound_symbols: BoundSymbols) -> Any:
        """Return ``body`` under the constraints ``rows``: times a `KroneckerDelta` for each equation, inside of a
        `Piecewise` for the others.

        A delta of a tensor entry is written inside the case, after conditions on indices; next to other conditions on
        tensor entries it becomes one of them, since an entry that is read outside of its tensor must only count where
        these hold.
        """
        plain, data = partition_data(row for row in rows if row.kind == "eq")
        tests = [row for row in rows if row.kind != "eq"]
        if partition_data(tests)[1]:
            tests, data = tests + data, []
        if tests:
            body = sympy.Mul(*self.deltas(data, bound_symbols), body)
            body = _case(body, *sympy.And.make_args(self.holds(tests, bound_symbols)))
            data = []
        return sympy.Mul(*self.deltas(plain + data, bound_symbols), body)

    def deltas(self, equations: Sequence[Constraint], bound_symbols: BoundSymbols) -> list[Any]:
        """Return a `KroneckerDelta` for each of `equations`; ``bound_symbols`` has the symbols for their variables."""
        return [sympy.KroneckerDelta(*self.equation(row, bound_symbols)) for row in equations]

    def write_sum(self, node: Node, bound_symbols: BoundSymbols) -> Recursion[Any]:
        """Return the expression of a sum over ranges, with a minus sign moved in front of it."""
        nested = self.guarded_before_limits(node)
        if nested is not node:
            written: Any = yield self.visit(nested, bound_symbols)
            return written
        summand, limits = yield self.ranged(node, bound_symbols)
        # SymPy has its own sign for the arguments of odd functions.
        sign = -1 if summand.is_Mul and summand.args[0].is_Rational and summand.args[0].is_negative else 1
        return sign * IndexedSum._trusted(sign * summand, limits)

    def guarded_before_limits(self, node: Node) -> Node:
        """Return a double sum such as ``Sum_(i, j) [h[i] >= 1]*f``, whose limits for j are entries of integer data, as
        ``Sum_i [h[i] >= 1]*Sum_j f``: an entry like ``p[h[i] - 1]`` may exist only where the condition holds. Other
        sums are unchanged.
        """
        graph, count = self.graph, len(self.graph.bound(node))
        if count == 1 or node.args[0].op != "guard" or not any(data_entries([row.form]) for row in node.data):
            return node
        variables, rows, body = graph.open(node)
        visible = [partition(rows, variables[n + 1 :])[0] for n in range(count)]
        first = next(n for n in range(count) if data_entries(row.form for row in visible[n]))
        outside, inside = partition(body.data, variables[first:])
        if not first or not outside:
            return node
        around, own = partition(rows, variables[first:])
        total = graph.sum(variables[first:], own, graph.guard(inside, body.args[0]))
        return graph.sum(variables[:first], around, graph.guard(outside, total))

    def write_reduction(self, node: Node, bound_symbols: BoundSymbols) -> Recursion[Any]:
        """Return the expression of a product, maximum or minimum over ranges."""
        body, limits = yield self.ranged(node, bound_symbols)
        return _REDUCTIONS[node.op]._trusted(body, limits)

    write_prod = write_max = write_min = write_reduction

    def ranged(self, node: Node, bound_symbols: BoundSymbols) -> Recursion[tuple[Any, tuple[Any, ...]]]:
        """Return ``(body, limits)`` of a sum, product or extremum as SymPy expressions, limits innermost first."""
        variables, rows, body = self.graph.open_shared(node, dict(bound_symbols))
        bound_symbols = self.bind(variables, self.graph.hints[node.id], bound_symbols)
        limits = self.limits(node, variables, rows, body, bound_symbols)
        expr = yield self.visit(body, bound_symbols)
        return expr, tuple(reversed(limits))

    def limits(
        self, node: Node, variables: Sequence[int], rows: Sequence[Constraint], body: Node, bound_symbols: BoundSymbols
    ) -> list[tuple[Any, Any, Any]]:
        """Return the limits ``(index, lowest, highest)`` of the reduction `node` over `variables` in the range `rows`,
        outermost first. ``body`` is not used.
        """
        limits = []
        for n, v in enumerate(variables):
            visible, _ = partition(rows, variables[n + 1 :])
            forms = [row.form for row in visible if any(w == v for w, _ in row.form.terms)]
            limits.append((self.symbol(v, bound_symbols), *self.bounds(v, forms, bound_symbols)))
        return limits

    def write_comprehension(self, node: Node, bound_symbols: BoundSymbols) -> Recursion[Any]:
        """Return the expression of a comprehension."""
        variables, _, body = self.graph.open_shared(node, dict(bound_symbols))
        extents = [self.form(extent, bound_symbols) for extent in node.data]
        bound_symbols = self.bind(variables, self.graph.hints[node.id], bound_symbols)
        entry = yield self.visit(body, bound_symbols)
        limits = tuple((self.symbol(v, bound_symbols), extent) for v, extent in zip(variables, extents, strict=True))
        return TensorComprehension._trusted(entry, limits)


def _pair_complements(terms: Sequence[Node]) -> Iterator[tuple[Node, Node | None, tuple[Constraint, ...]]]:
    """Pair the terms of a sum: two guards are a pair if one constraint of the first is negated in the second and all
    others are equal. Yield ``(term, complement, common constraints)``; the complement is None for a term without a
    partner.
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
    """Return a `Piecewise` that is `body` where all `conditions` hold, else 0. If `body` is such a `Piecewise` itself,
    or a product with one, return one `Piecewise` with the conditions of both.
    """
    factors = sympy.Mul.make_args(body)
    cases = [factor for factor in factors if isinstance(factor, sympy.Piecewise)]
    if len(cases) == 1 and len(cases[0].args) == 2 and cases[0].args[1].args == (0, True):
        value, inner = cases[0].args[0].args
        product = sympy.Mul(*(value if factor is cases[0] else factor for factor in factors))
        count = len(sympy.Mul.make_args(product))
        parts = _absorb_minus([*sympy.Mul.make_args(product), *conditions, *sympy.And.make_args(inner)])
        body, conditions = sympy.Mul(*parts[:count]), tuple(parts[count:])
    holds = sympy.And(*conditions, evaluate=False) if len(conditions) > 1 else conditions[0]
    return sympy.Piecewise((body, holds), (sympy.S.Zero, sympy.true), evaluate=False)


def _with_mean(factors: list[Any]) -> list[Any]:
    """Return ``factors`` with their only sum over axes and a factor ``1/n`` written as one mean, if the sum has n
    terms; otherwise unchanged.
    """
    parts = [part for factor in factors for part in sympy.Mul.make_args(factor)]
    totals = [part for part in parts if isinstance(part, EinsumProduct)]
    if len(totals) != 1:
        return factors
    factor, means = with_mean(sympy.Mul(*(part for part in parts if part is not totals[0])), totals[0])
    return factors if means == totals else [factor, *means]


def _absorb_minus(factors: list[Any]) -> list[Any]:
    """Return ``factors``, the first of which is a number, with the minus sign of this number moved into a difference:
    ``-(a - b)*x`` becomes ``(b - a)*x``. Unchanged if there is no minus sign or no difference.

    Squares ``(a - b)**2`` in other factors become ``(b - a)**2``.
    """
    if factors[0].is_Rational and factors[0].is_negative:
        for n, factor in enumerate(factors):
            if factor.is_Add and 2 * sum(t.as_coeff_Mul()[0].is_negative for t in factor.args) >= len(factor.args):
                turned = sympy.Add(*(-term for term in factor.args))
                square = sympy.Pow(factor, 2)
                turn = Replacement({square: sympy.Pow(turned, 2)})
                others = [_replaced(other, square, turn) for other in (*factors[1:n], *factors[n + 1 :])]
                return [-factors[0], *others[: n - 1], turned, *others[n - 1 :]]
    return factors


def _replaced(factor: Any, old: Any, replacement: Replacement) -> Any:
    """Return ``factor`` with the power ``old`` replaced by an equal one, as ``replacement`` does it. A factor without
    this power is returned unchanged.

    In a `Piecewise`, each value and condition is replaced without evaluation, because SymPy would change the
    conditions.
    """
    # Most factors have no such power, and a replacement renames all indices that they bind.
    if not any(getattr(node, "is_Pow", False) and node == old for node in nodes_in([factor])):
        return factor
    if isinstance(factor, sympy.Piecewise):
        pairs = [(replacement(value), replacement(condition)) for value, condition in factor.args]
        return sympy.Piecewise(*pairs, evaluate=False)
    return replacement(factor)


def _sign_conditions(node: Node) -> list[Node]:
    """Return the conditions ``[c, d, …]`` if `node` is a comparison ``(-1 if c else 1)*(-1 if d else 1)*… < 0``, which
    says that an odd number of them is true. Return [] for another comparison.
    """
    product, limit = node.args
    if node.data != "lt" or limit.op != "const" or limit.data != 0 or product.op != "mul":
        return []
    signs = product.args
    values = [[arg.data for arg in sign.args[1:] if arg.op == "const"] if sign.op == "select" else [] for sign in signs]
    return [sign.args[0] for sign in signs] if all(pair == [-1, 1] for pair in values) else []


def _related(relation: str, left: Any, right: Any) -> Any:
    """Return the comparison of ``left`` and ``right`` as a SymPy relation, with a number on the right: ``0 < x``
    becomes ``x > 0``.
    """
    if relation in ("eq", "ne") and left.is_Symbol and right.is_Symbol:
        left, right = sorted((left, right), key=sympy.default_sort_key)  # as a Piecewise of SymPy's orders them
    if left.is_Number and relation in _TURNED:
        return _TURNED[relation](right, left, evaluate=False)
    return _RELATIONS[relation](left, right, evaluate=False)


_TURNED = {"lt": sympy.Gt, "le": sympy.Ge}


def _choices_by_first_condition(node: Node) -> list[Node]:
    """Find the outermost guard or select in the comparison ``node``, and return it with all others that test the same
    condition. The comparison can then be split into two cases, by whether this condition holds.

    Return [] if there are none. Sums are not searched.

    Outer conditions are tested first: if one fails, the conditions inside may read outside of their tensors. A guard by
    equations only is a factor and not a case: many of them would double the cases each.
    """
    scalars = (part for part in breadth_first(node, outside_of_binders) if not part.shape)
    choices = [part for part in scalars if part.op == "select" or (part.op == "guard" and _is_case(part))]
    return [part for part in choices if part.op == choices[0].op and _test_of(part) == _test_of(choices[0])]


def _is_case(guard: Node) -> bool:
    """Return whether `guard` is written as a `Piecewise`, because it has a condition other than an equation or contains
    another guard or select. Otherwise it is written with Kronecker deltas.
    """
    inside = any(part.op in ("guard", "select") for part in breadth_first(guard.args[0], outside_of_binders))
    return inside or any(row.kind != "eq" for row in guard.data)


def _test_of(choice: Node) -> Any:
    """Return the constraints of ``choice`` if it is a guard, or its condition if it is a select."""
    return choice.data if choice.op == "guard" else choice.args[0]


_REDUCTIONS = {"prod": IndexedProduct, "max": IndexedMax, "min": IndexedMin}
_RELATIONS = {"lt": sympy.Lt, "le": sympy.Le, "eq": sympy.Eq, "ne": sympy.Ne}


MAX_TERMS = 16
"""The most guarded terms whose constraints are compared."""


def common_rows(addition: Node) -> Rows:
    """Return the inequalities that hold for every term of ``addition``, so that one guard around the addition can test
    them: the guards around each term state or imply them. () if there are none.

    A constraint that some guards only imply is taken if two state it, and if it is all that one states: then the sum
    has as many guards as before, or fewer.
    """
    paths = list(_guards(addition, ()))
    if len(paths) > MAX_TERMS or not all(paths):
        return ()
    stated = dict.fromkeys(row for path in paths for row in path if row.kind != "eq")
    common = [row for row in stated if all(row in path for path in paths)]
    if partition_data(common)[1]:
        return ()
    rest = [row for row in partition_data(stated)[0] if sum(row in path for path in paths) >= 2]
    implied = [row for row in rest if row not in common and all(row in p or is_implied(row, p) for p in paths)]
    more = (*common, *implied)
    freed = any(all(row in more or row.kind == "eq" for row in path) for path in paths)
    return more if freed else tuple(common)


def without_rows(graph: Graph, node: Node, rows: Container[Constraint]) -> Node:
    """Return `node`, a guard or an addition of guards, without the constraints `rows` in its guards; other nodes are
    unchanged.
    """
    if node.op == "add":
        return graph.add([without_rows(graph, term, rows) for term in node.args])
    if node.op == "guard":
        return graph.guard([row for row in node.data if row not in rows], without_rows(graph, node.args[0], rows))
    return node


def _guards(node: Node, rows: Rows) -> Iterator[Rows]:
    """Yield, for each term of `node`, the constraints that must hold for the term to be added: ``rows`` and those of
    all guards around the term.
    """
    if node.op == "guard":
        yield from _guards(node.args[0], (*rows, *node.data))
    elif node.op == "add":
        for term in node.args:
            yield from _guards(term, rows)
    else:
        yield rows
