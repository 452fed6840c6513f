"""``python -m tests.fuzz``: random cases, for as long as one likes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from .run import KINDS, fuzz


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0, 1 where a result was wrong or a check crashed, 2 for a wrong command."""
    parser = _parser()
    options = parser.parse_args(arguments)
    wanted = {kind: getattr(options, kind) for kind in KINDS if getattr(options, kind) is not None}
    if wanted and options.kind is not None:
        parser.error("give either --kind or numbers of cases")
    counts = wanted or {kind: None for kind in KINDS if options.kind in (kind, "all", None)}
    tally = fuzz(counts, options.seed, seconds=options.seconds, limit=options.limit, jobs=options.jobs, write=_write)
    return tally.exit_code


def _write(line: str) -> None:
    print(line, flush=True)


def _number(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{value} is negative")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz",
        description="Random index systems against enumeration; random functions, in index notation and of whole "
        "tensors, against the exact interpreter: values, first and second derivatives. Without --seconds and without "
        "numbers of cases it runs until interrupted. Exit code 1 where a result was wrong or a check crashed.",
    )
    parser.add_argument("--seconds", type=float, help="stop starting cases after so long")
    parser.add_argument("--seed", type=_number, default=0, help="seed of the first case of each kind (default 0)")
    parser.add_argument("--kind", choices=(*KINDS, "all"), help="kind of the cases (default all)")
    for kind in KINDS:
        parser.add_argument(
            f"--{kind}", type=_number, metavar="N", help=f"check N {kind}, and others only if asked for"
        )
    parser.add_argument("--jobs", type=int, choices=(1, 2), default=1, help="processes (default 1)")
    parser.add_argument("--limit", type=float, default=60, help="CPU seconds until a case is given up (default 60)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
