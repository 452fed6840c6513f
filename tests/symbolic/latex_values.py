"""Values of formulas of matrix calculus in LaTeX, as a reader understands the text alone.

Side by side is the product of matrices, vectors are columns, `\\odot` binds less tightly than that.
Only for square matrices and vectors of one size, so that ``\\mathbf{1}`` has a shape.
"""

import re

import numpy as np

TOKEN = re.compile(
    r"\\left[(|\[]|\\right[)|\]]|\\operatorname\{\w+\}|\\mathbf\{1\}|\\mathrm\{\w+\}|\\[a-zA-Z]+|\d+|[A-Za-z]|[-+^_{},]"
)
FUNCTIONS = {
    r"\exp": np.exp,
    r"\log": np.log,
    r"\sin": np.sin,
    r"\det": np.linalg.det,
    r"\operatorname{tr}": np.trace,
    r"\operatorname{diag}": lambda a: np.diag(a[:, 0]) if a.shape[1] == 1 else np.diag(a)[:, None],
}


class Reader:
    """A reader by recursive descent; one method for each kind of phrase."""

    def __init__(self, text, values, size):
        text = text.replace(r"\,", "")  # a thin space
        self.tokens = TOKEN.findall(text)
        assert "".join(self.tokens) == text.replace(" ", ""), text
        self.values = values
        self.size = size

    def next(self):
        return self.tokens[0] if self.tokens else None

    def take(self, expected=None):
        token = self.tokens.pop(0)
        assert expected in (None, token), f"{token} in place of {expected}"
        return token

    def braces(self):
        self.take("{")
        value = self.sum()
        self.take("}")
        return value

    def sum(self):
        minus = self.next() == "-" and self.take()
        value = -self.elementwise() if minus else self.elementwise()
        while self.next() in ("+", "-"):
            value = value + self.elementwise() if self.take() == "+" else value - self.elementwise()
        return value

    def elementwise(self):
        value = self.product()
        while self.next() in (r"\odot", r"\oslash"):
            sign, other = self.take(), self.product()
            assert value.ndim == 0 or value.shape == other.shape, "only tensors of one shape"
            value = value * other if sign == r"\odot" else value / other
        return value

    def product(self):
        value = self.factor()
        while self.next() not in (None, "+", "-", "}", ",", r"\right)", r"\right|", r"\odot", r"\oslash"):
            if self.next() == r"\cdot":
                self.take()
            other = self.factor()
            value = value @ other if value.ndim and other.ndim else value * other
            value = value[0, 0] if value.shape == (1, 1) else value
        return value

    def factor(self):
        value = self.atom()
        while self.next() == "^":
            self.take()
            self.take("{")
            value = self.power(value)
            self.take("}")
        return value

    def power(self, base):
        if self.next() == r"\odot":
            self.take()
            return base ** self.sum()
        inverse = self.tokens[:2] in (["-", r"\top"], ["-", "1"]) and base.ndim
        base = np.linalg.inv(base) if inverse else base
        if inverse:
            self.take("-")
        if inverse and self.next() == "1":
            self.take()
            return base
        if self.next() == r"\top":
            self.take()
            return base.T
        assert base.ndim == 0, "a power of a matrix"
        return base ** self.sum()

    def atom(self):
        token = self.take()
        match token:
            case r"\left(":
                return self.closed(r"\right)")
            case "{":
                value = self.sum()
                self.take("}")
                return value
            case r"\left|":
                return np.abs(self.closed(r"\right|"))
            case r"\frac":
                return self.braces() / self.braces()
            case r"\sqrt":
                return np.sqrt(self.braces())
            case r"\mathbf{1}":
                return np.ones((self.size, self.size if self.subscript() else 1))
            case _ if token.startswith(r"\mathrm"):
                return self.values[token[8:-1] + self.subscript()]
            case "I":
                return np.eye(self.size)
        if token in FUNCTIONS:
            return self.applied(FUNCTIONS[token])
        return np.asarray(float(token)) if token.isdigit() else self.values[token + self.subscript()]

    def applied(self, function):
        bare = self.next() == "{" and self.take()
        self.take(r"\left(")
        value = np.asarray(function(self.closed(r"\right)")))
        if bare:
            self.take("}")
        return value

    def subscript(self):
        if self.next() != "_":
            return ""
        self.take()
        self.take("{")
        text = ""
        while self.next() != "}":
            text += self.take()
        self.take("}")
        return text

    def closed(self, bracket):
        value = self.sum()
        self.take(bracket)
        return value


def latex_value(text, values, size):
    """The value of a formula; ``values`` holds columns and matrices by name."""
    reader = Reader(text, values, size)
    value = reader.sum()
    assert not reader.tokens, f"{text}: {reader.tokens} are left"
    return value
