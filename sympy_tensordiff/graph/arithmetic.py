"""Constructors of sums, products, powers and conditions, which apply simplifications that always hold."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from math import inf
from typing import Any

import sympy

from sympy_tensordiff.graph.functions import log_ndtr
from sympy_tensordiff.graph.index_tests import conjuncts, is_index_choice, unequal_forms
from sympy_tensordiff.graph.interning import EXTREMA, Node, NodeTable, Number
from sympy_tensordiff.integer.affine import Constraint
from sympy_tensordiff.integer.rows import normalise, normalise_rows

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "lt": operator.lt, "le": operator.le, "eq": operator.eq, "ne": operator.ne,
}  # fmt: skip

JOINED_LIMIT = 32
"""The most depth and length of terms whose `select` nodes are merged, and of products that are multiplied out."""


_HALF = Fraction(1, 2)

MAX_TESTED_LEVELS = 4
"""The levels of products, sums and choices below a choice in which tests of values for 0 are decided."""

MAX_REPEATED_FACTORS, MAX_REPEATED_DEPTH = 2, 5
"""The most factors of a choice between two values, and their depth, that are repeated in both to merge choices."""


class Arithmetic(NodeTable):
    """The constructors of scalar nodes that bind no variables: sums, products, powers, calls, conditions, guards."""

    # -------------------------------------------------------------- arithmetic

    def add(self, terms: Iterable[Node]) -> Node:
        """Return the sum of `terms`: numbers are added, equal terms collected, terms under equal guards or conditions
        merged.
        """
        coefficients: dict[Node, Number] = {}
        constant: Number = 0
        guarded: dict[tuple[Constraint, ...], list[Node]] = {}
        for term in terms:
            for part in term.args if term.op == "add" else (term,):
                if part.op == "guard":
                    guarded.setdefault(part.data, []).append(part.args[0])
                    continue
                factor, rest = self.split_coefficient(part)
                if rest is self.one:
                    constant += factor
                else:
                    coefficients[rest] = coefficients.get(rest, 0) + factor
        parts = [self.scale(c, node) for node, c in coefficients.items() if c != 0]
        sums = {rows: bodies if len(bodies) == 1 else [self.add(bodies)] for rows, bodies in guarded.items()}
        cases = _merge_opposite_guards(sums)
        unguarded = cases.pop((), [])  # terms added under a guard and under its opposite
        parts += [
            self.guard(rows, bodies[0] if len(bodies) == 1 else self.add(bodies)) for rows, bodies in cases.items()
        ]
        guards = [part.data for part in parts if part.op == "guard"]
        # A guard that bodies have in common may make two cases one.
        if unguarded or len(set(guards)) < len(guards):
            return self.add([*parts, self.const(constant), *unguarded])
        parts = self._merge_choices([part for part in parts if part is not self.zero])
        if constant != 0:
            parts.append(self.const(constant))
        if len(parts) < 2:
            return parts[0] if parts else self.zero
        args = tuple(parts)
        return self._node("add", None, args, args)

    def _merge_choices(self, parts: list[Node]) -> list[Node]:
        """Return the terms `parts` of a sum with those merged that contain a select by the same condition: ``(a if c
        else 0) + (b if c else d)`` becomes ``(a + b) if c else d``.
        """
        groups: dict[Node | None, list[Node]] = {}
        for part in parts:
            groups.setdefault(_choice_condition(part), []).append(part)
        if all(condition is None or len(group) == 1 for condition, group in groups.items()):
            return parts
        joined = []
        for condition, group in groups.items():
            if condition is None or len(group) == 1:
                joined += group
            else:
                sums = [self.add([self._decide(part, condition, position) for part in group]) for position in (1, 2)]
                joined.append(self.select(condition, *sums))
        return [part for part in joined if part is not self.zero]

    def split_coefficient(self, node: Node) -> tuple[Number, Node]:
        """Return ``(c, rest)`` with ``node = c*rest`` and a number c; ``rest`` is `one` if `node` is a number."""
        if node.op == "const":
            return node.data, self.one
        if node.op == "mul" and node.args[0].op == "const":
            rest = node.args[1:]
            return node.args[0].data, rest[0] if len(rest) == 1 else self._node("mul", None, rest, rest)
        return 1, node

    def scale(self, factor: Number, node: Node) -> Node:
        """Return ``factor * node``."""
        return node if factor == 1 else self.mul((self.const(factor), node))

    def mul(self, factors: Iterable[Node]) -> Node:
        """Return the product of `factors`: numbers are multiplied, powers of one base merged, and guards and selects by
        ``i != j`` moved to the outside.

        A long product stays one factor, and so does a power with a long sum as exponent: otherwise the cotangents along
        a chain, each the previous one times a slope, would be of quadratic size altogether.
        """
        constant: Number = 1
        cases: list[Node] = []
        powers: dict[Node, list[Node]] = {}
        stack = list(factors)[::-1]
        while stack:
            factor = stack.pop()
            if factor.op == "const":
                constant *= factor.data
            elif factor.op == "mul" and _is_kept_as_one_factor(factor):
                number, factor = self.split_coefficient(factor)
                constant *= number
                powers.setdefault(factor, []).append(self.one)
            elif factor.op == "mul":
                stack.extend(reversed(factor.args))
            elif factor.op == "guard" or (factor.op == "select" and is_index_choice(factor)):
                cases.append(factor)
                stack.append(factor.args[factor.op != "guard"])
            elif factor.op == "pow" and len(factor.args[1].args) <= JOINED_LIMIT:
                powers.setdefault(factor.args[0], []).append(factor.args[1])
            else:
                powers.setdefault(factor, []).append(self.one)
        if constant == 0:
            return self.zero
        self._join_powers(powers)
        if cases:
            powered = [self.pow(base, self.add(exponents)) for base, exponents in powers.items()]
            return self._under_conditions(cases, self.mul([self.const(constant), *powered]))
        parts = [self.pow(base, e[0] if len(e) == 1 else self.add(e)) for base, e in powers.items()]
        parts = [part for part in parts if part is not self.one]
        if any(part.op == "const" for part in parts):
            return self.mul([self.const(constant), *parts])
        parts = self._without_implied_tests(parts)
        choice = next(filter(self.is_choice, sorted(parts, key=lambda part: part.total)), None)
        if choice is not None and not all(part.total for part in parts if part is not choice):
            return self._push_into_choice(choice, [self.const(constant), *parts])
        if constant != 1 or not parts:
            parts.insert(0, self.const(constant))
        args = tuple(parts)
        return args[0] if len(args) == 1 else self._node("mul", None, args, args)

    def _join_powers(self, powers: dict[Node, list[Node]]) -> None:
        """Write ``(x**u)**n * x**m``, with an integer n, as a power of ``x`` alone. The dictionary `powers` maps each
        base in a product to its exponents: the base ``x**u`` is removed, and ``n*u`` is added to the exponents of
        ``x``.
        """
        for power in [base for base in powers if base.op == "pow" and base.args[0] in powers]:
            base, exponent = power.args
            times = powers[power]
            if all(own.op == "const" and isinstance(own.data, int) for own in times):
                powers[base] += [self.scale(own.data, exponent) for own in powers.pop(power)]

    def _without_implied_tests(self, parts: list[Node]) -> list[Node]:
        """Return the factors `parts` without superfluous tests ``u != 0``. A test is superfluous if another factor is 0
        wherever ``u`` is 0.
        """
        choices = [part for part in parts if self.is_choice(part)]
        if len(choices) < 2:
            return parts
        nonzero: frozenset[Node] = frozenset()
        for choice in choices:
            nonzero |= _nonzero_bases(choice.args[0], choice.args[2] is self.zero)
        return [self._without_zero_tests(part, nonzero, 1) for part in parts]

    def _under_conditions(self, cases: Sequence[Node], value: Node) -> Node:
        """Return `value` where the conditions of all `cases` (guards, and selects with a branch 0) are true, and 0
        elsewhere.
        """
        for case in cases:
            value = self.guard(case.data, value) if case.op == "guard" else self.tested(case.args[0], value)
        return value

    def _push_into_choice(self, choice: Node, factors: Sequence[Node]) -> Node:
        """Return ``choice``, a select with one branch 0, times ``factors``. Factors that may be undefined move into the
        nonzero branch.

        All other choices are moved, too: they may be defined in its branch only.
        """
        inner = [factor for factor in factors if factor is not choice and (self.is_choice(factor) or not factor.total)]
        rest = [factor for factor in factors if factor is not choice and factor not in inner]
        sides = [side if side is self.zero else self.mul((side, *inner)) for side in choice.args[1:]]
        return self.mul((*rest, self.select(choice.args[0], *sides)))

    def is_choice(self, node: Node) -> bool:
        """Return whether `node` is a select with the value 0 on one side, ``v if c else 0``."""
        return node.op == "select" and self.zero in node.args[1:]

    def neg(self, node: Node) -> Node:
        """Return ``-node``."""
        return self.scale(-1, node)

    def pow(self, base: Node, exponent: Node) -> Node:
        """Return ``base**exponent``, simplified by laws that hold for all real bases, such as ``(u**2)**3 = u**6``."""
        if exponent is self.zero or base is self.one:
            return self.one
        if exponent is self.one:
            return base
        if exponent.op == "const" and isinstance(exponent.data, int):
            power = exponent.data
            if base.op == "const" and (base.data != 0 or power > 0):
                exact = Fraction(base.data) if isinstance(base.data, int) else base.data
                return self.const(exact**power)
            if base.op == "pow" and base.args[1].op == "const":
                inner = base.args[1].data
                # (x**(1/2))**2 is x only for x >= 0; integer exponents always multiply.
                is_positive = base.args[0].op == "const" and base.args[0].data > 0 and not isinstance(inner, float)
                if isinstance(inner, int) or is_positive:
                    return self.pow(base.args[0], self.const(inner * power))
            if base.op == "mul" and not _is_kept_as_one_factor(base):
                return self.mul([self.pow(factor, exponent) for factor in base.args])
            if base.op == "guard" and power > 0:
                return self.guard(base.data, self.pow(base.args[0], exponent))
            if power > 0 and self.is_choice(base):
                return self.select(base.args[0], *(self.pow(value, exponent) for value in base.args[1:]))
        return self._plain("pow", None, (base, exponent))

    def call(self, function: Any, args: Sequence[Node]) -> Node:
        """Return the node of ``function(*args)``, simplified: equal arguments of a maximum or minimum are merged,
        ``exp(-oo)`` is 0, and ``exp(log_ndtr(x))`` becomes ``erfc(-x/sqrt(2))/2``, one function call in place of two.
        """
        if function is sympy.exp and (scored := self._exponential_of_scores(args[0])) is not None:
            return scored
        if function is sympy.exp and args[0].op == "call" and args[0].data is log_ndtr:
            root = self.pow(self.const(2), self.const(_HALF))
            return self.scale(_HALF, self.call(sympy.erfc, (self.scale(-_HALF, self.mul((root, args[0].args[0]))),)))
        if function in EXTREMA:
            args = tuple(dict.fromkeys(args))  # equal arguments are one, which is not a tie
            if len(args) == 1:
                return args[0]
        return self._plain("call", function, tuple(args))

    def _exponential_of_scores(self, exponent: Node) -> Node | None:
        """Return ``exp(exponent)`` as 0 if a term of `exponent` is minus infinity, or as a select with an exact 0 if a
        term is a select with minus infinity in a branch, as in masked attention scores; else None.
        """
        terms = exponent.args if exponent.op == "add" else (exponent,)
        for n, term in enumerate(() if exponent.shape else terms):
            if _is_minus_infinity(term):
                return self.zero
            if term.op == "select" and any(map(_is_minus_infinity, term.args[1:])):
                rest = (*terms[:n], *terms[n + 1 :])
                sides = [self.call(sympy.exp, (self.add((side, *rest)),)) for side in term.args[1:]]
                return self.select(term.args[0], *sides)
        return None

    # -------------------------------------------------------------- conditions

    def compare(self, relation: str, left: Node, right: Node) -> Node:
        """Return the condition ``left relation right`` between values, with a relation "lt", "le", "eq" or "ne".

        An index form is compared with 0 by "eq" and "ne" with one of its signs.
        """
        if relation in ("eq", "ne") and left.op == "index" and right is self.zero and left.data.terms[0][1] < 0:
            left = self.index(-left.data)
        return self._plain("compare", relation, (left, right))

    def truth(self, value: bool) -> Node:
        """Return the condition node that is always true or always false."""
        return self.compare("eq", self.zero, self.zero if value else self.one)

    def truth_value(self, condition: Node) -> bool | None:
        """Return whether the comparison `condition` of two numbers is true; None for all other conditions."""
        if condition.op != "compare" or any(arg.op != "const" for arg in condition.args):
            return None
        return _COMPARISONS[condition.data](*(arg.data for arg in condition.args))

    def logic(self, op: str, args: Sequence[Node]) -> Node:
        """Return the node of the conditions ``args`` joined by `op`, "and" or "or"; for "not", of the negation of the
        only condition. Conditions known to be true or false are simplified away.
        """
        if op == "not":
            return (
                self._plain(op, None, tuple(args))
                if (value := self.truth_value(args[0])) is None
                else self.truth(not value)
            )
        args = [arg for arg in args if self.truth_value(arg) is not (op == "and")]
        if not args or any(self.truth_value(arg) is not None for arg in args):
            return self.truth((op == "and") is not bool(args))
        return args[0] if len(args) == 1 else self._plain(op, None, tuple(args))

    def select(self, condition: Node, value: Node, otherwise: Node) -> Node:
        """Return ``value if condition else otherwise``. Guards that both sides share are moved outside, and a condition
        with a known truth value is decided.
        """
        if condition.op == "compare" and condition.args[0] is condition.args[1]:
            return value if condition.data in ("le", "eq") else otherwise
        if (holds := self.truth_value(condition)) is not None:
            return value if holds else otherwise
        value, otherwise = self._decide(value, condition, 1), self._decide(otherwise, condition, 2)
        if not value.shape:
            value = self._without_zero_tests(value, _nonzero_bases(condition, True))
            otherwise = self._without_zero_tests(otherwise, _nonzero_bases(condition, False))
        if value is otherwise:
            return value
        if otherwise is self.zero and is_index_choice(value):
            tests, inner = value.args[:2]
            if unequal_forms(condition):
                every = dict.fromkeys([*conjuncts(condition), *conjuncts(tests)])
                return self.select(self.logic("and", [*every]), inner, otherwise)
            return self.select(tests, self.select(condition, inner, otherwise), otherwise)
        if value.op == otherwise.op == "guard" and value.data == otherwise.data:
            return self.guard(value.data, self.select(condition, value.args[0], otherwise.args[0]))
        if value.op == "guard" and otherwise is self.zero:
            return self.guard(value.data, self.select(condition, value.args[0], otherwise))
        if otherwise.op == "guard" and value is self.zero:
            return self.guard(otherwise.data, self.select(condition, value, otherwise.args[0]))
        cases, others = self.cases(value), self.cases(otherwise)
        if any(term.op == "guard" for term in (*cases, *others)):
            parts = [self.select(condition, term, self.zero) for term in cases]
            return self.add(parts + [self.select(condition, self.zero, term) for term in others])
        return self._plain("select", None, (condition, value, otherwise))

    def split_index_choice(self, node: Node) -> tuple[Node | None, Node]:
        """Return ``(condition, value)`` for ``value if i != j else 0``; ``(None, node)`` for any other node."""
        is_choice = node.op == "select" and is_index_choice(node)
        return (node.args[0], node.args[1]) if is_choice else (None, node)

    def tested(self, condition: Node | None, value: Node) -> Node:
        """Return `value` where `condition` holds and 0 elsewhere; `value` itself if `condition` is None."""
        return value if condition is None else self.select(condition, value, self.zero)

    def cases(self, value: Node) -> list[Node]:
        """Return the terms of the sum `value`, each guard in a term of its own: a product with a sum that contains
        guards is multiplied out, ``a*(b + [c]*d)`` into ``a*b`` and ``a*[c]*d``.
        """
        cases: list[Node] = []
        for term in value.args if value.op == "add" else (value,):
            sums = [n for n, factor in enumerate(term.args) if factor.op == "add" and has_guard(factor)]
            if term.op == "mul" and sums:
                rest, terms = term.args[: sums[0]] + term.args[sums[0] + 1 :], term.args[sums[0]].args
                plain = [part for part in terms if part.op != "guard"]
                guards = [part for part in terms if part.op == "guard"]
                cases += [self.mul((*rest, part)) for part in (*guards, self.add(plain))]
            else:
                cases.append(term)
        return [case for case in cases if case is not self.zero]

    def _decide(self, value: Node, condition: Node, position: int) -> Node:
        """Simplify ``value`` under the assumption that ``condition`` is true (``position`` 1) or false (2): selects on
        this condition are replaced by the branch at ``position``. Only ``value`` itself and its terms and factors are
        examined.
        """

        def taken_branch(node: Node) -> Node:
            """Return the branch of the select `node` that is taken if ``condition`` is true (``position`` 1) or false
            (2). Other nodes, and selects on other conditions, are returned unchanged.
            """
            return node.args[position] if node.op == "select" and node.args[0] is condition else node

        if value.op not in ("add", "mul"):
            return taken_branch(value)
        args = [taken_branch(arg) for arg in value.args]
        if tuple(args) == value.args:
            return value
        return self.add(args) if value.op == "add" else self.mul(args)

    def _without_zero_tests(self, value: Node, nonzero: frozenset[Node], levels: int = MAX_TESTED_LEVELS) -> Node:
        """Return `value` with each ``select`` on ``u != 0`` replaced by its first branch, for each ``u`` in `nonzero`.
        Only `levels` levels of nodes are visited.
        """
        if not nonzero or not levels or value.op not in ("select", "mul", "add"):
            return value
        if value.op == "select" and value.args[0].op == "compare" and value.args[0].args[0] in nonzero:
            test = value.args[0]
            if test.data in ("ne", "eq") and test.args[1] is self.zero:
                return self._without_zero_tests(value.args[1 if test.data == "ne" else 2], nonzero, levels)
        args = [self._without_zero_tests(arg, nonzero, levels - 1) for arg in value.args]
        if tuple(args) == value.args:
            return value
        if value.op == "select":
            return self.select(args[0], args[1], args[2])
        return self.add(args) if value.op == "add" else self.mul(args)

    def guard(self, rows: Iterable[Constraint], body: Node) -> Node:
        """Return a guard: ``body`` where all constraints ``rows`` are true, and 0 elsewhere, where ``body`` is not
        evaluated. Nested guards are merged.
        """
        rows = tuple(rows)
        while body.op == "guard":
            rows += body.data
            body = body.args[0]
        if not rows or body is self.zero:
            return body
        reduced = normalise_rows(rows)
        if reduced is None:
            return self.zero
        if not reduced:
            return body
        key = tuple(sorted(reduced))
        return self._node("guard", key, (body,), key, key)


def _merge_opposite_guards(cases: dict[tuple[Constraint, ...], list[Node]]) -> dict[tuple[Constraint, ...], list[Node]]:
    """Merge guards ``[R and c]*b + [R and not c]*b`` to ``[R]*b``. ``cases`` maps the constraints of each guard to its
    bodies; it is changed in place and returned.
    """
    waiting = list(cases)
    for rows in waiting:
        for rest, other in opposites(rows) if rows in cases else ():
            if cases.get(other) == cases[rows]:
                del cases[other]
                cases.setdefault(rest, []).extend(cases.pop(rows))
                waiting.append(rest)
                break
    return cases


def opposites(rows: tuple[Constraint, ...]) -> Iterator[tuple[tuple[Constraint, ...], tuple[Constraint, ...]]]:
    """Yield ``(rest, opposite)`` for each constraint in `rows` that has a negation: `rows` without it, and `rows` with
    it negated.

    Guards under `rows` and under the opposite, with one body, merge to a guard under the rest.
    """
    for row in rows:
        negation = normalise(row.negation()) if row.kind != "eq" else None
        if isinstance(negation, Constraint):
            rest = tuple(other for other in rows if other is not row)
            yield rest, tuple(sorted((*rest, negation)))


def _nonzero_bases(condition: Node, holds: bool) -> frozenset[Node]:
    """Return the nodes that cannot be 0 if `condition` has the truth value `holds`, because they, or powers of them,
    are then not below a positive number: ``S`` if ``sqrt(S) < 1`` does not hold.
    """
    if condition.op in ("and", "or", "not"):
        inside = [_nonzero_bases(part, holds is (condition.op != "not")) for part in condition.args]
        return frozenset().union(*inside) if holds is not (condition.op == "or") else frozenset()
    if condition.op != "compare" or condition.data not in ("lt", "le"):
        return frozenset()
    lower, upper = condition.args if holds else condition.args[::-1]
    is_strict = holds is (condition.data == "lt")
    if not (_is_positive(lower) or (is_strict and lower.op == "const" and lower.data >= 0)):
        return frozenset()
    while upper.op == "pow" and upper.args[1].op == "const" and upper.args[1].data > 0:
        upper = upper.args[0]
    return frozenset((upper,))


def _is_positive(node: Node) -> bool:
    """Return whether `node` is a positive number, a symbol declared positive, or a product or power of these."""
    if node.op == "const":
        return bool(node.data > 0)
    if node.op == "scalar":
        return bool(node.data.is_positive)
    if node.op == "mul":
        return all(map(_is_positive, node.args))
    return node.op == "pow" and _is_positive(node.args[0])


def _is_minus_infinity(score: Node) -> bool:
    """Return whether `score`, a term of an exponent, is ``-oo``, so that its exponential is 0."""
    return score.op == "const" and score.data == -inf


def _choice_condition(term: Node) -> Node | None:
    """Return the condition ``c`` if `term` is a small select ``a if c else b``, or the product of a small select and
    few other factors; else None. Terms of a sum with equal conditions can then be merged.

    If a branch of the select is 0, there may be more factors.
    """
    if term.depth > JOINED_LIMIT or len(term.args) > JOINED_LIMIT:
        return None
    if term.op == "select":
        return term.args[0]
    choices = [factor for factor in term.args if factor.op == "select"] if term.op == "mul" else []
    for factor in choices:
        # Between two values, the other factors would be there twice: products of many choices would explode.
        if any(value.op == "const" and value.data == 0 for value in factor.args[1:]):
            return factor.args[0]
    others = [factor for factor in term.args if factor.op != "select"] if len(choices) == 1 else ()
    is_light = all(factor.depth <= MAX_REPEATED_DEPTH for factor in others)
    return choices[0].args[0] if choices and is_light and len(others) <= MAX_REPEATED_FACTORS else None


_MAY_CHOOSE = frozenset({"add", "mul", "select", "guard", "sum"})


def _is_kept_as_one_factor(product: Node) -> bool:
    """Return whether `product` stays one factor, and is not flattened, when it is multiplied by others: it has many
    factors, and no select, guard or sum that could be merged with others.
    """
    if len(product.args) <= JOINED_LIMIT + (product.args[0].op == "const"):
        return False
    for factor in product.args:
        if factor.op in ("select", "guard", "sum") or (
            factor.op == "add" and all(term.op in _MAY_CHOOSE for term in factor.args)
        ):
            return False
    return True


def has_guard(total: Node) -> bool:
    """Return whether the sum `total` has a guard among its terms."""
    return any(term.op == "guard" for term in total.args)
