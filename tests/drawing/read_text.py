"""The text of a picture read back and evaluated: the oracle of what its nodes say.

Knows whole tensors whose axes all have the same extent.
"""

import re
from dataclasses import dataclass, field
from fractions import Fraction

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


def evaluate(node: Written, numbered: dict[str, Written], values: dict[str, np.ndarray], extent: int):
    """The value of a written node."""
    if node.reference:
        assert node.text == numbered[node.reference].text
        node = numbered[node.reference]
    args = [evaluate(child, numbered, values, extent) for child in node.children]
    text = node.text
    if text in values:
        return values[text]
    if not args and re.fullmatch(r"-?\d+(/\d+)?", text):
        return float(Fraction(text))
    if text in OPERATIONS:
        return OPERATIONS[text](*args)
    if found := re.fullmatch(r"(?:\*|Σ )\((.*)\)", text):
        return np.einsum(found[1], *args)
    if found := re.fullmatch(r"\^ (\S+)", text):
        return args[0] ** float(Fraction(found[1]))
    if found := re.fullmatch(r"(-|\S+ )?(?:·|\((\w*)->(\w*)\))", text):
        value = args[0] if args else 1.0
        moved = value if found[2] is None else view(found[2], found[3], value, extent)
        return factor(found[1]) * moved
    if found := re.fullmatch(r"(-|\S+ )?δ \[(.*)\]", text):
        rank = found[2].count(",") + 1
        return factor(found[1]) * np.eye(extent**rank).reshape((extent,) * 2 * rank)
    if found := re.fullmatch(r"(\S+) \[(.*)\]", text):
        return np.full((extent,) * (found[2].count(",") + 1), float(Fraction(found[1])))
    return getattr(np, text)(*args)


def factor(text: str | None) -> float:
    return {None: 1.0, "-": -1.0}.get(text) or float(Fraction(text.strip()))


def view(labels: str, output: str, value, extent: int):
    """Entry by entry, by the meaning of the letters."""
    result = np.zeros((extent,) * len(output))
    for index in np.ndindex(result.shape):
        place = dict(zip(output, index, strict=True))
        if all(place[letter] == i for letter, i in zip(output, index, strict=True)):
            result[index] = np.asarray(value)[tuple(place[letter] for letter in labels)]
    return result


OPERATIONS = {
    "+": lambda *args: sum(args),
    "*": lambda *args: np.prod(args),
    "-": lambda value: -value,
    "^": lambda base, exponent: base**exponent,
    "max": lambda *args: np.maximum(*args),
    "<": lambda left, right: left < right,
    "if … else": lambda condition, value, otherwise: np.where(condition, value, otherwise),
    "inv": np.linalg.inv,
    "det": np.linalg.det,
    "adjᵀ": lambda matrix: np.linalg.det(matrix) * np.linalg.inv(matrix).T,
    "logsumexp": lambda value: np.log(np.sum(np.exp(value))),
    "sigmoid": lambda value: 1 / (1 + np.exp(-value)),
    "softplus": lambda value: np.log1p(np.exp(value)),
}
