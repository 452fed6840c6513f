"""Random requests to the page: examples with random changes. ``python tests/app/page_fuzz.py 0 1000`` runs so many.

An answer is a formula or an explanation: no request makes the package fail, takes more time or memory than one may, or
ends the server. A worker that takes too long is replaced.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import random
import sys
import time
from collections import Counter
from typing import Any

from sympy_tensordiff.app.web.answers import WANTS, Request, parse_request
from sympy_tensordiff.app.web.server import page_files
from sympy_tensordiff.app.web.workers import LostError, Pool, SlowError

PIECES = [
    *(
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "^",
        "**",
        "'",
        "_",
        "\\",
        "\n",
        " ",
        ",",
        ";",
        ":",
        "0",
        "1e9",
        "99999999999",
        "1/0",
    ),
    *("i", "x", "n", "sum", "exp(", "inv(", "max", "sum(x[i], i)", "\\frac", "\\sum_{i=1}^{n}", "norm2(", "det(", "if"),
    *(
        "__class__",
        "import os",
        "declare x[n]",
        "derivative wrt x",
        "\x00",
        "é",
        "∑",
        "𝟙",
        "x'",
        "-",
        "/",
        "//",
        "%",
        "@",
    ),
]


def random_request(seed: int) -> Request:
    """Return an example with up to six random changes of its text, and random options."""
    chance = random.Random(seed)
    example = chance.choice(json.loads(page_files()["examples.json"]))
    text = example["source"]
    for _ in range(chance.choice((0, 1, 1, 2, 3, 6))):
        start = chance.randrange(len(text) + 1)
        end = min(len(text), start + chance.choice((0, 0, 1, 1, 4, 20)))
        piece = chance.choice(PIECES) * chance.choice((1, 1, 1, 1, 2, 30))
        if chance.random() < 0.2:
            piece = text[chance.randrange(len(text) + 1) :][:30] if text else ""
        text = text[:start] + piece + text[end:]
    language = (
        example["language"] if chance.random() < 0.8 else chance.choice(("any", "index", "matrix", "latex", "text"))
    )
    wrt = chance.choice(([], [], ["x"], ["w", "x"], ["__init__"]))
    sizes = {name: chance.choice((0, 1, 3, 1000)) for name in chance.sample(["n", "m", "d"], chance.randint(0, 2))}
    domains = chance.choice(({}, {}, {"x": ">0"}, {"x": "[0, 1]"}, {"x": "]["}))
    fields = {"language": language, "source": text[:20_000], "order": chance.choice((1, 1, 2)), "wrt": wrt}
    fields |= {"sizes": sizes, "domains": domains, "want": chance.choice(WANTS)}
    return parse_request(json.dumps(fields).encode())


async def answers_to(seeds: range, seconds: float) -> tuple[Counter[str], list[str]]:
    """Return how often each kind of answer came, and a line for each failure."""
    pool = Pool(1, seconds, 4)
    counts: Counter[str] = Counter()
    failures = []
    try:
        for seed in seeds:
            request, start = random_request(seed), time.monotonic()
            kind, found = await _asked(pool, request)
            counts[kind] += 1
            if "mistake of the package" in json.dumps(found) or time.monotonic() - start > seconds + 30:
                failures.append(f"seed {seed}: {request}: {str(found)[:400]}")
    finally:
        pool.close()
    return counts, failures


async def _asked(pool: Pool, request: Request) -> tuple[str, Any]:
    try:
        found = await pool.ask(request)
    except SlowError:
        return "too slow", None
    except LostError:
        return "a worker died", None
    return ("an explained error" if "error" in found else "an answer"), found


if __name__ == "__main__":
    first, count = map(int, sys.argv[1:])
    verdicts, wrong = asyncio.run(answers_to(range(first, first + count), 20))
    print(dict(verdicts), *wrong, sep="\n")
    sys.exit(bool(wrong) or bool(multiprocessing.active_children()))
