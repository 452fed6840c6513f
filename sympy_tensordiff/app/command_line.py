"""The command line: ``python -m sympy_tensordiff``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from sympy_tensordiff import __version__
from sympy_tensordiff.app import demo
from sympy_tensordiff.app.section6 import PAPER_SIZES

QUICK_SIZES = (12, 10, 6)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return the exit code: 0, 1 where a check failed, 2 for a wrong command."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return 2
    sizes = QUICK_SIZES if options.quick else PAPER_SIZES
    return 0 if demo.run(sizes, seed=options.seed) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m sympy_tensordiff",
        description="Derivatives of tensor functions in index notation, and their kernels.",
    )
    parser.add_argument("--version", action="version", version=f"sympy-tensordiff {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command")
    demo = commands.add_parser("demo", help="derive, compile, check and time the paper's function of section 6")
    demo.add_argument("--quick", action="store_true", help="a small size, for a first look")
    demo.add_argument("--seed", type=int, default=0, help="seed of the random inputs (default 0)")
    return parser
