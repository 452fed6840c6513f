"""Random inputs of the text language that are well-formed, and random edits of texts."""

from __future__ import annotations

import random
from string import ascii_lowercase

FUNCTIONS = ("sin", "cos", "tan", "arcsin", "arccos", "arctan", "tanh", "exp", "log", "sign", "relu", "abs")
DECLARED = {"a": 0, "b": 0, "x": 1, "y": 1, "A": 2, "B": 2, "T": 3}
EXPONENTS = ("2", "3", "(-1)", "a", "0.5")
NUMBERS = ("2", "0.5", "3", "1e-1", "1.25", ".5")


class Inputs:
    """Random inputs out of one seed."""

    def __init__(
        self,
        seed: int,
        functions: tuple[str, ...] = FUNCTIONS,
        numbers: tuple[str, ...] = NUMBERS,
        exponents: tuple[str, ...] = EXPONENTS,
    ) -> None:
        self.random = random.Random(seed)
        self.functions, self.numbers, self.exponents = functions, numbers, exponents

    def text(self, size: int = 6) -> str:
        """A whole input of about ``size`` operations, by an argument that may not occur."""
        expression = self.expression(self.random.choice((0, 0, 1, 1, 2, 2, 3)), size)
        wrt = " ".join(
            f"derivative wrt {self.random.choice(list(DECLARED))}" for _ in range(self.random.choice((1, 1, 2)))
        )
        declared = " ".join(f"{name} {order}" for name, order in DECLARED.items())
        return f"declare {declared} expression {expression} {wrt}"

    def expression(self, order: int, size: int) -> str:
        """An expression of an order; what is below gets the rest of the size."""
        if size <= 0:
            return self.leaf(order)
        forms = [self.total, self.total, self.function, self.negative, self.product, self.product, self.quotient]
        forms += [self.power, self.relabelled]
        if order in (0, 2):
            forms.append(self.matrix)
        return self.random.choice(forms)(order, size - 1)

    def enclosed(self, order: int, size: int) -> str:
        """An expression in parentheses."""
        return f"({self.expression(order, size)})"

    def leaf(self, order: int) -> str:
        """A tensor, a delta or a number."""
        names = [name for name, own in DECLARED.items() if own == order]
        if order == 0 and self.random.random() < 0.4:
            return self.random.choice(self.numbers)
        if order in (0, 2, 4) and (not names or self.random.random() < 0.1):
            return f"delta({order // 2})"
        return self.random.choice(names) if names else self.filled(order)

    def filled(self, order: int) -> str:
        letters = "".join(self.random.sample(ascii_lowercase, order))
        return f"(1 *({letters},->{letters}) 1)"

    def split(self, size: int) -> tuple[int, int]:
        first = self.random.randint(0, size)
        return first, size - first

    def broadcast(self, order: int) -> tuple[int, int]:
        """The orders of the operands of a sum."""
        return self.random.choice(((order, order), (order, order), (order, order), (0, order), (order, 0)))

    def total(self, order: int, size: int) -> str:
        left, right = (self.expression(*pair) for pair in zip(self.broadcast(order), self.split(size), strict=True))
        return f"{left} {self.random.choice('+-')} {f'({right})' if self.random.random() < 0.5 else right}"

    def quotient(self, order: int, size: int) -> str:
        left, right = (self.enclosed(*pair) for pair in zip(self.broadcast(order), self.split(size), strict=True))
        return f"{left}/{right}"

    def function(self, order: int, size: int) -> str:
        return f"{self.random.choice(self.functions)}({self.expression(order, size)})"

    def negative(self, order: int, size: int) -> str:
        return f"-{self.enclosed(order, size)}"

    def power(self, order: int, size: int) -> str:
        return f"{self.enclosed(order, size)}^{self.random.choice(self.exponents)}"

    def matrix(self, order: int, size: int) -> str:
        return f"{'det' if order == 0 else self.random.choice(('inv', 'adj'))}({self.expression(2, size)})"

    def relabelled(self, order: int, size: int) -> str:
        """A unary product of a tensor of an order that may be higher, by a sum or a diagonal."""
        inner = min(order + self.random.choice((0, 0, 1)), 3)
        letters, output = self.letters([inner], order)
        return f"{self.random.choice(('', '*_'))}({letters[0]}->{output}){self.enclosed(inner, size)}"

    def product(self, order: int, size: int) -> str:
        """A binary product."""
        orders = self.random.choice(
            [(p, q) for p in range(4) for q in range(4) if order <= p + q <= order + 3 or (p, q) == (0, order)]
        )
        letters, output = self.letters(list(orders), order)
        left, right = (self.enclosed(*pair) for pair in zip(orders, self.split(size), strict=True))
        return f"{left} *({letters[0]},{letters[1]}->{output}) {right}"

    def letters(self, orders: list[int], order: int) -> tuple[list[str], str]:
        """Letters for operands, and for a result of an order that has at most as many axes as they have."""
        count = sum(orders)
        drawn = self.random.sample(ascii_lowercase, order) + [
            self.random.choice("ijklm") for _ in range(max(0, count - order))
        ]
        while len(set(drawn[:order])) < order:
            drawn = self.random.sample(ascii_lowercase, order) + drawn[order:]
        output = "".join(drawn[:order])
        self.random.shuffle(drawn)
        groups, rest = [], list(drawn)
        for own in orders:
            groups.append("".join(rest[:own]))
            rest = rest[own:]
        if rest:  # letters of an operand without axes
            numbers = [number for number, own in enumerate(orders) if own == 0]
            groups[numbers[0]] += "".join(rest)
        return groups, output


SNIPPETS = (
    *(
        "declare",
        "expression",
        "derivative wrt",
        "delta(",
        "(ij,jk->ik)",
        "*(i,i->i)",
        "*_",
        "(->)",
        "((",
        "))",
        "^^",
        "--",
    ),
    *("1e999", "0.", "..", "#", "\n", "\t", "é", "\0", "\u2028", "sin(", "det(", "->", ",", "x1", "99999", "$"),
)


def edited(text: str, source: random.Random, count: int) -> str:
    """The text after some random edits: pieces left out, repeated, moved, replaced."""
    for _ in range(count):
        first = source.randint(0, len(text))
        last = min(len(text), first + source.choice((1, 1, 2, 5, 20)))
        kind = source.randrange(5)
        if kind == 0:
            text = text[:first] + text[last:]
        elif kind == 1:
            text = text[:first] + text[first:last] * 2 + text[last:]
        elif kind == 2:
            text = text[:first] + source.choice(SNIPPETS) + text[first:]
        elif kind == 3:
            text = (
                text[:first] + chr(source.choice((source.randrange(32, 127), source.randrange(0x3000)))) + text[last:]
            )
        else:
            place = source.randint(0, len(text))
            text = text[:place] + text[first:last] + text[place:]
    return text
