"""Random loop nests that read inside their arrays, to compare printers on what nobody thought of."""

from __future__ import annotations

import random
from collections.abc import Sequence

from programs import REDUCTIONS, array, checked, load, op, owned, result, store

from sympy_tensordiff.codegen.ir.loops import If, Loop, Statement, accumulator, add, let
from sympy_tensordiff.codegen.ir.programs import Kernel, Program
from sympy_tensordiff.codegen.ir.scalars import Bound, IndexValue, Name, Number, Reduction, Scalar
from sympy_tensordiff.integer.affine import Affine, Constraint, quotient

CENTRE = 200
"""Reads of ``x`` are moved to its middle: no form of the generator gets as far as its ends."""


class Generator:
    """Makes one random program."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0
        self.sizes = {"N": self.random.randint(1, 6), "M": self.random.randint(1, 6)}

    def program(self) -> Program:
        rank = self.random.choice([0, 1, 1, 2, 2, 2, 3])
        axes = list("ijk"[:rank])
        extents = [self.random.choice([Affine.variable("N"), Affine.variable("M"), Affine.of(4)]) for _ in axes]
        self.extents = dict(zip(axes, extents, strict=True))
        body, names = self.block(axes, [], 0)
        body = (*body, store(self.value(axes, names, 2)))
        arguments = (array("x", 2 * CENTRE), array("a", Affine.variable("N"), Affine.variable("M")))
        arguments += (
            array("w", 2 * CENTRE, 2 * CENTRE),
            array("b", Affine.variable("M"), Affine.variable("N"), 4),
        )
        return checked(Program(arguments, (result("y", *extents),), (), (owned(Kernel("y", tuple(axes), body)),)))

    def fresh(self, base: str) -> str:
        self.count += 1
        return f"{base}{self.count}"

    def form(self, variables: Sequence[str], deep: bool = True) -> Affine:
        """A small form over axes, loop variables and sizes."""
        chosen = self.random.sample(variables, min(len(variables), self.random.choice([1, 1, 2])))
        form = Affine({v: self.random.choice([1, 1, 1, -1, 2]) for v in chosen}, self.random.randint(-2, 2))
        if self.random.random() < 0.2:
            form = form + Affine({self.random.choice(["N", "M"]): self.random.choice([1, -1])})
        if deep and self.random.random() < 0.2:
            form = quotient(form, self.random.choice([2, 3])) + self.form(variables, deep=False)
        return form

    def row(self, variables: Sequence[str]) -> Constraint:
        kind = self.random.choice(["ge", "ge", "ge", "eq", "mod"])
        return Constraint(kind, self.form(variables), self.random.choice([2, 3]) if kind == "mod" else 0)

    def block(self, variables: list[str], names: list[str], depth: int) -> tuple[tuple[Statement, ...], list[str]]:
        """Some statements, and the scalars that are known behind them."""
        body: list[Statement] = []
        names = list(names)
        for _ in range(self.random.choice([1, 1, 2, 3] if depth == 0 else [0, 1, 1, 2])):
            if self.random.random() < 0.3:
                name = self.fresh("t")
                body.append(let(name, self.value(variables, names, 2)))
            else:
                name = self.fresh("s")
                reduction = self.random.choice(REDUCTIONS)
                body.append(accumulator(name, reduction))
                if reduction in ("max", "min"):  # so that it is finite
                    body.append(add(name, self.leaf(variables, names), reduction))
                body.append(self.filler(name, reduction, variables, names, depth))
                if self.random.random() < 0.3:
                    body.append(self.filler(name, reduction, variables, names, depth))
            names.append(name)
        return tuple(body), names

    def filler(self, name: str, reduction: Reduction, variables: list[str], names: list[str], depth: int) -> Statement:
        """A loop or a guard that adds to an accumulator."""
        if self.random.random() < 0.4 and variables:
            body, known = self.block(variables, names, depth + 1) if depth < 2 else ((), names)
            rows = tuple(self.row(variables) for _ in range(self.random.choice([1, 1, 2])))
            return If(rows, (*body, add(name, self.value(variables, known, 2), reduction)))
        variable = self.fresh("v")
        low = [
            Bound(self.bound(variables), self.random.choice([1, 1, 2])) for _ in range(self.random.choice([1, 1, 2]))
        ]
        high = [
            Bound(self.bound(variables) + 3, self.random.choice([1, 1, 2])) for _ in range(self.random.choice([1, 2]))
        ]
        if self.random.random() < 0.3:
            low, high = [Bound(Affine.of(0))], [Bound(self.random.choice([Affine.of(29), 5 * Affine.variable("N")]))]
        inside = [*variables, variable]
        body, known = self.block(inside, names, depth + 1) if depth < 2 else ((), names)
        term: Statement = add(name, self.value(inside, known, 2), reduction)
        if self.random.random() < 0.4:
            term = If((self.row(inside),), (term,))
        return Loop(variable, tuple(low), tuple(high), (*body, term))

    def bound(self, variables: list[str]) -> Affine:
        if not variables or self.random.random() < 0.5:
            return Affine({"N": self.random.choice([0, 0, 1])}, self.random.randint(-1, 2))
        return self.form(variables)

    def value(self, variables: list[str], names: list[str], depth: int) -> Scalar:
        kind = self.random.random()
        if depth == 0 or kind < 0.4:
            return self.leaf(variables, names)
        parts = [self.value(variables, names, depth - 1) for _ in range(2)]
        if kind < 0.6:
            return op("add", *parts)
        if kind < 0.8:
            return op("mul", *parts)
        if kind < 0.9 and variables:
            compare = self.random.choice(["lt", "le", "eq", "ne"])
            left, right = IndexValue(self.form(variables)), IndexValue(self.form(variables))
            condition = op(compare, left, right)
            if self.random.random() < 0.4:
                condition = op(self.random.choice(["and", "or"]), condition, op("lt", *parts))
            if self.random.random() < 0.2:
                condition = op("not", condition)
            return op("select", condition, *parts)
        return op(self.random.choice(["max", "min"]), *parts) if kind < 0.95 else op("sin", parts[0])

    def leaf(self, variables: list[str], names: list[str]) -> Scalar:
        kind = self.random.random()
        own = [v for v in variables if v in self.extents]
        if kind < 0.25 and names:
            return Name(self.random.choice(names))
        if kind < 0.35 and variables:
            row = Affine.variable(self.random.choice(variables))
            column = (
                Affine.variable(self.random.choice(own)) if own and self.random.random() < 0.7 else self.form(variables)
            )
            return load("w", row + CENTRE, column + CENTRE)
        if kind < 0.5 and variables:
            return load("x", self.form(variables) + CENTRE)
        if kind < 0.85:
            for name, shape in self.random.sample([("a", "NM"), ("b", "MN4")], 2):
                index = []
                for letter in shape:
                    extent = Affine.of(4) if letter == "4" else Affine.variable(letter)
                    fitting = [v for v in own if self.extents[v] == extent]
                    index.append(Affine.variable(self.random.choice(fitting)) if fitting else Affine.of(0))
                return load(name, *index)
        if kind < 0.92 and variables:
            return IndexValue(self.form(variables))
        return Number(self.random.choice([0, 1, -2, 0.5]))
