"""Random expressions of the text language, by order: every operation, letters repeated, summed and in any order."""

import re

ORDERS = {"a": 0, "b": 0, "x": 1, "y": 1, "A": 2, "B": 2, "T": 3}
DECLARED = " ".join(f"{name} {order}" for name, order in ORDERS.items())
LETTERS = "ijklmnabcdefgh"
ENTRYWISE = ("sin", "cos", "tan", "arcsin", "arccos", "arctan", "tanh", "exp", "log", "sign", "relu", "abs")
NUMBERS = ("2", "3", "0.5", "1", "7", "1.25", "(1/3)", "10", "0", "1e-3", "(2^0.5)")
EXPONENTS = ("2", "3", "0.5", "(-1)", "(-2)", "a", "(1/3)", "(a+1)", "(-a)")


def text(rng, order, depth):
    """An expression of an order."""
    if depth <= 0:
        return leaf(rng, order)
    kinds = [sum_text, sum_text, power, function, function, negative, quotient, entrywise, product, unary]
    kinds += [of_matrix] * (order in (0, 2))
    return rng.choice(kinds)(rng, order, depth - 1)


def enclosed(part):
    return part if re.fullmatch(r"[A-Za-z0-9.]+", part) else f"({part})"


def leaf(rng, order):
    names = [name for name, own in ORDERS.items() if own == order]
    if order == 0:
        names += rng.sample(NUMBERS, 2)
    if order in (2, 4):
        names.append(f"delta({order // 2})")
    return rng.choice(names) if names else product(rng, order, 0)


def sum_text(rng, order, depth):
    count = rng.randint(2, 3)
    whole = rng.randrange(count)
    orders = [order if number == whole or rng.random() < 0.8 else 0 for number in range(count)]
    first, *others = (text(rng, own, depth) for own in orders)
    return enclosed(first) + "".join(rng.choice((" + ", " - ")) + enclosed(other) for other in others)


def power(rng, order, depth):
    return f"{enclosed(text(rng, order, depth))}^{rng.choice(EXPONENTS)}"


def function(rng, order, depth):
    return f"{rng.choice(ENTRYWISE)}({text(rng, order, depth)})"


def of_matrix(rng, order, depth):
    name = "det" if order == 0 else rng.choice(("inv", "adj"))
    return f"{name}({text(rng, 2, depth)})"


def negative(rng, order, depth):
    return f"-{enclosed(text(rng, order, depth))}"


def quotient(rng, order, depth):
    above = order if rng.random() < 0.7 else 0
    return f"{enclosed(text(rng, above, depth))} / {enclosed(text(rng, order, depth))}"


def entrywise(rng, order, depth):
    own = LETTERS[:order]
    left, right = text(rng, order, depth), text(rng, order if rng.random() < 0.6 else 0, depth)
    chained = left if rng.random() < 0.3 and re.fullmatch(r"[^-+]*", left) else enclosed(left)
    return f"{chained} *({own},{own}->{own}) {enclosed(right)}"


def unary(rng, order, depth):
    rank = rng.randint(max(order, 1), max(order, 3))
    own = [rng.choice(LETTERS[:4]) for _ in range(rank)]
    if len(set(own)) < order:
        own = list(LETTERS[:rank])
    output = sorted(set(own))
    rng.shuffle(output)
    return f"({''.join(own)}->{''.join(output[:order])}) {enclosed(text(rng, rank, depth))}"


def product(rng, order, depth):
    ranks = [rng.randint(0, 3), rng.randint(0, 3)]
    while sum(ranks) < order:
        ranks[rng.randrange(2)] += 1
    groups = [[rng.choice(LETTERS[:5]) for _ in range(rank)] for rank in ranks]
    if len(set(groups[0] + groups[1])) < order:
        groups = [list(LETTERS[: ranks[0]]), list(LETTERS[ranks[0] : sum(ranks)])]
    output = sorted(set(groups[0] + groups[1]))
    rng.shuffle(output)
    left, right = (enclosed(text(rng, rank if rng.random() < 0.85 else 0, depth)) for rank in ranks)
    return f"{left} *({''.join(groups[0])},{''.join(groups[1])}->{''.join(output[:order])}) {right}"


def random_text(rng, depth=3):
    """An expression of a random order."""
    return text(rng, rng.choice((0, 0, 1, 1, 2, 2, 3)), rng.randint(1, depth))
