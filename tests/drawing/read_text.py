"""The text of a picture read back and evaluated: the oracle of what its nodes say.

Knows the functions of the tests; repeated axes of whole tensors have one extent.
"""

import itertools
import re
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from math import floor

import numpy as np

LINE = re.compile(r"([│├└─ ]*)(?:see #(\d+): |#(\d+) )?(.*?)(?:   \(pullback of (.*)\))?")


@dataclass
class Written:
    """A node as it is written."""

    text: str
    number: str | None = None
    reference: str | None = None
    pullback_of: str | None = None
    children: list["Written"] = field(default_factory=list)


def trees(text: str) -> tuple[dict[str, list[Written]], dict[str, Written]]:
    """The trees under each title ("" where there is one graph alone), and the nodes with a number."""
    found: dict[str, list[Written]] = {"": []}
    numbered: dict[str, Written] = {}
    title, path = "", []
    for line in text.splitlines():
        if line.endswith(":"):
            title, path = line[:-1], []
            found[title] = []
            continue
        indent, reference, number, label, pullback = LINE.fullmatch(line).groups()
        node = Written(label, number, reference, pullback)
        depth = len(indent) // 3
        del path[depth:]
        (path[-1].children if path else found[title]).append(node)
        path.append(node)
        if number:
            assert number not in numbered
            numbered[number] = node
    return found, numbered


class Evaluation:
    """Values of written nodes; ``values`` of tensors and scalars, ``sizes`` of sizes and free indices."""

    def __init__(self, numbered, values, sizes=None, extent=0) -> None:
        self.numbered, self.values, self.sizes, self.extent = numbered, values, sizes or {}, extent

    def of(self, node: Written, scope=None):
        """The value of a node, where the indices of ``scope`` are known."""
        scope = self.sizes if scope is None else scope
        if node.reference:
            assert node.text == self.numbered[node.reference].text
            node = self.numbered[node.reference]
        if not node.children:
            return self.leaf(node, scope)
        value = self.indexed(node, scope)
        return self.whole(node, scope) if value is None else value

    def leaf(self, node: Written, scope):
        if node.text in self.values:
            return self.values[node.text]
        if found := re.fullmatch(r"(-|\S+ )?δ \[(.*)\]", node.text):
            shape = index(found[2], scope)
            return factor(found[1]) * np.eye(int(np.prod(shape))).reshape(shape * 2)
        if found := re.fullmatch(r"(\S+) \[(.*)\]", node.text):
            return np.full(index(found[2], scope), float(Fraction(found[1])))
        if found := re.fullmatch(r"(-|\S+ )?\(->(\w*)\)", node.text):
            return factor(found[1]) * view("", found[2], 1.0, self.extent)
        return float(number(node.text, scope))

    def indexed(self, node: Written, scope):
        """Index notation, in which what does not hold is not looked at."""
        (child, *_) = node.children
        if found := re.fullmatch(r"Σ (\w.*)", node.text):
            return sum((self.of(child, inner) for inner in points(found[1], scope)), 0.0)
        if node.text.startswith("["):
            names, extents = zip(*(part.split(" < ") for part in node.text[1:-1].split(", ")), strict=True)
            result = np.zeros([int(number(extent, scope)) for extent in extents])
            for place in np.ndindex(result.shape):
                result[place] = self.of(child, {**scope, **dict(zip(names, place, strict=True))})
            return result
        if found := re.fullmatch(r"(?:entry |\w+)\[(.*)\]", node.text):
            place = index(found[1], scope)
            assert all(n >= 0 for n in place)
            return self.of(child, scope)[place]
        if found := re.fullmatch("if (?!… else)(.*)", node.text):
            return self.of(child, scope) if holds(found[1], scope) else 0.0
        if node.text == "if … else" and not np.shape(condition := self.of(child, scope)):
            return self.of(node.children[1 if condition else 2], scope)
        return None

    def whole(self, node: Written, scope):
        args = [self.of(child, scope) for child in node.children]
        if node.text in OPERATIONS:
            return OPERATIONS[node.text](*args)
        if found := re.fullmatch(r"(?:\*|Σ )\((.*)\)", node.text):
            return np.einsum(found[1], *args)
        if found := re.fullmatch(r"\^ (\S+)", node.text):
            return args[0] ** float(Fraction(found[1]))
        if found := re.fullmatch(r"(-|\S+ )?(?:·|\((\w*)->(\w*)\))", node.text):
            value = args[0] if found[2] is None else view(found[2], found[3], args[0], self.extent)
            return factor(found[1]) * value
        return getattr(np, node.text)(*args)


# ---------------------------------------------------------------- numbers and conditions


def number(text: str, scope) -> Fraction:
    """An affine form, with floors of such."""
    assert re.fullmatch(r"(floor|min|max|\w|[ +\-*/(),])+", text), text
    exact = {name: Fraction(int(value)) for name, value in scope.items()}
    return Fraction(eval(text, {"floor": floor, "min": min, "max": max}, exact))


def index(text: str, scope) -> tuple[int, ...]:
    return tuple(int(number(part, scope)) for part in text.split(", "))


def holds(text: str, scope) -> bool:
    return all(_holds(part, scope) for part in text.split(" and "))


def _holds(text: str, scope) -> bool:
    left, relation, right = re.fullmatch(r"(.*) ([=≤≥≡]) (.*)", text).groups()
    if relation == "≡":
        rest, modulus = re.fullmatch(r"(\d+) \(mod (\d+)\)", right).groups()
        return number(left, scope) % int(modulus) == int(rest)
    a, b = number(left, scope), number(right, scope)
    return {"=": a == b, "≤": a <= b, "≥": a >= b}[relation]


def points(text: str, scope):
    """All scopes of a sum ``i = 0 … n - 1, j = 0 … i where i ≤ 3``, the first variable outermost."""
    ranges, _, conditions = text.partition(" where ")
    found = [dict(scope)]
    for part in re.split(r", (?=\w+(?: = |, |$))", ranges):
        name, _, limits = part.partition(" = ")
        # What the conditions bound alone is somewhere near 0.
        low, _, high = (limits or "-30 … 30").partition(" … ")
        inner = [(outer, range(int(number(low, outer)), int(number(high, outer)) + 1)) for outer in found]
        found = [{**outer, name: n} for outer, values in inner for n in values]
    return [point for point in found if not conditions or holds(conditions, point)]


def factor(text: str | None) -> float:
    return {None: 1.0, "-": -1.0}.get(text) or float(Fraction(text.strip()))


def view(labels: str, output: str, value, extent: int):
    """Entry by entry, by the meaning of the letters."""
    known = dict(zip(labels, np.shape(value), strict=True))
    shape = [known.get(letter, extent) for letter in output]
    result = np.zeros(shape)
    for place in itertools.product(*map(range, shape)):
        of = dict(zip(output, place, strict=True))
        if all(of[letter] == n for letter, n in zip(output, place, strict=True)):
            result[place] = np.asarray(value)[tuple(of[letter] for letter in labels)]
    return result


OPERATIONS = {
    "+": lambda *args: sum(args),
    "*": lambda *args: np.prod(args),
    "-": lambda value: -value,
    "^": lambda base, exponent: base**exponent,
    "max": lambda *args: reduce(np.maximum, args),
    "min": lambda *args: reduce(np.minimum, args),
    "<": lambda left, right: left < right,
    "≤": lambda left, right: left <= right,
    "=": lambda left, right: left == right,
    "≠": lambda left, right: left != right,
    "if … else": lambda condition, value, otherwise: np.where(condition, value, otherwise),
    "inv": np.linalg.inv,
    "det": np.linalg.det,
    "adjᵀ": lambda matrix: np.linalg.det(matrix) * np.linalg.inv(matrix).T,
    "logsumexp": lambda value: np.log(np.sum(np.exp(value))),
    "sigmoid": lambda value: 1 / (1 + np.exp(-value)),
    "softplus": lambda value: np.log1p(np.exp(value)),
}
