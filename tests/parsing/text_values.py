"""What a text of the language means, by plain NumPy: an oracle that shares nothing with the package.

All axes have one length, so that a number with letters is that number repeated along axes of it.
"""

import re

import numpy as np

TOKEN = re.compile(
    r"\s*(?:(?P<letters>\([^()>]*->[^()]*\))|(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z][A-Za-z0-9]*)|(?P<sign>.))"
)


def adjugate(matrix):
    """By cofactors, so that singular matrices have one."""
    rows = range(len(matrix))
    minor = np.array(
        [[np.linalg.det(np.delete(np.delete(matrix, i, 0), j, 1)) * (-1) ** (i + j) for j in rows] for i in rows]
    )
    return minor.T


FUNCTIONS = {
    **{name: getattr(np, name) for name in ("sin", "cos", "tan", "arcsin", "arccos", "arctan", "tanh", "exp", "log")},
    **{"sign": np.sign, "abs": np.abs, "relu": lambda x: np.maximum(x, 0)},
    **{"det": np.linalg.det, "inv": np.linalg.inv, "adj": adjugate},
}


class TextValue:
    """A parser by recursive descent that computes as it goes."""

    def __init__(self, text, tensors, length):
        self.tokens = [(match.lastgroup, match[match.lastgroup]) for match in TOKEN.finditer(text.strip())]
        self.tensors, self.length = tensors, length

    def peek(self, *signs):
        return bool(self.tokens) and self.tokens[0][1] in signs

    def take(self):
        return self.tokens.pop(0)

    def whole(self):
        result = self.expr()
        assert not self.tokens, self.tokens
        return result

    def expr(self):
        result = self.term()
        while self.peek("+", "-"):
            sign = self.take()[1]
            other = self.term()
            result = result + other if sign == "+" else result - other
        return result

    def term(self):
        result = self.factor()
        while self.peek("*", "/"):
            if self.take()[1] == "/":
                result = result / self.factor()
            else:
                letters = self.take()[1]
                result = self.product(letters, result, self.factor())
        return result

    def factor(self):
        if self.peek("-"):
            self.take()
            return -self.factor()
        if self.tokens[0][0] == "letters":
            return self.product(self.take()[1], self.factor())
        result = self.atom()
        while self.peek("^"):
            self.take()
            result = np.power(result, self.atom())
        return result

    def atom(self):
        kind, text = self.take()
        if kind == "number":
            return np.float64(text)
        if kind == "name" and text == "delta":
            self.take()
            order = int(self.take()[1])
            self.take()
            return np.eye(self.length**order).reshape((self.length,) * (2 * order))
        if kind == "name" and text in FUNCTIONS:
            self.take()
            argument = self.expr()
            self.take()
            if text in ("det", "inv", "adj") and not np.ndim(argument):
                argument = np.full((self.length, self.length), argument)
            return FUNCTIONS[text](argument)
        if kind == "name":
            return self.tensors[text]
        assert text == "(", text
        result = self.expr()
        assert self.take()[1] == ")"
        return result

    def product(self, letters, *operands):
        inputs, output = letters.replace(" ", "")[1:-1].split("->")
        groups = inputs.split(",")
        full = [
            operand if np.ndim(operand) else np.full((self.length,) * len(set(group)), operand)
            for operand, group in zip(operands, groups, strict=True)
        ]
        groups = [
            group if np.ndim(operand) else "".join(dict.fromkeys(group))
            for operand, group in zip(operands, groups, strict=True)
        ]
        given = "".join(groups)
        # A letter of a number that the other operand has as well repeats nothing; one that it has alone does.
        for number, operand in enumerate(operands):
            others = "".join(group for other, group in enumerate(groups) if other != number)
            if not np.ndim(operand):
                kept = "".join(letter for letter in groups[number] if letter not in others)
                full[number], groups[number] = np.full((self.length,) * len(kept), operand), kept
        assert set(output) <= set(given)
        return np.einsum(f"{','.join(groups)}->{output}", *full)


def value(text, tensors, length):
    """The value of an expression at some arrays, all of whose axes have one length."""
    return TextValue(text, tensors, length).whole()
