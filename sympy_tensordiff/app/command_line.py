"""The command line: ``python -m sympy_tensordiff``."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Sequence

from sympy_tensordiff.app import demo, language_command
from sympy_tensordiff.app.language_command import PROGRAM, complain

QUICK_SIZES = (12, 10, 6)
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return the exit code: 0, 1 where there is no answer, 2 for a wrong input or command."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if sys.stdout is None:
        complain("the answer cannot be written: standard output is closed")
        return 1
    try:
        commands = {"demo": _demo, "serve": _serve}
        command = commands.get(given[0]) if given else None
        code = language_command.run(given) if command is None else command(given[1:])
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        complain("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        _leave_output()
        return 1
    except OSError as error:
        complain(f"the answer cannot be written: {error.strerror or error}")
        _leave_output()
        return 1


def _leave_output() -> None:
    """Nothing more goes to standard output, where nobody reads: not what is left in its buffer either."""
    try:
        target = sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, target)
    os.close(nowhere)


def _demo(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog=f"{PROGRAM} demo", description="Derive, compile, check and time the paper's function of section 6."
    )
    parser.add_argument(
        "--cuda", action="store_true", help="print the CUDA kernel, and run it on a GPU if there is one"
    )
    parser.add_argument("--quick", action="store_true", help="a small size, for a first look")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random inputs (default 0)")
    options = parser.parse_args(arguments)
    sizes = QUICK_SIZES if options.quick else demo.PAPER_SIZES
    return 0 if demo.run(sizes, cuda=options.cuda, seed=options.seed) else 1


def _serve(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog=f"{PROGRAM} serve", description="Serve a page to try the package, to browsers on this machine."
    )
    parser.add_argument(
        "--port", type=_within(0, 65535), default=8765, help="where to listen (default 8765; 0: any free port)"
    )
    parser.add_argument("--workers", type=_within(1, 600), default=2, help="processes that answer (default 2)")
    parser.add_argument("--seconds", type=_within(1, 600), default=10, help="how long an answer may take (default 10)")
    options = parser.parse_args(arguments)
    try:
        from sympy_tensordiff.app.web.server import serve
    except ImportError as error:
        complain(f"the page needs {error.name}: pip install '.[page]'")
        return 1
    try:
        asyncio.run(serve(options.port, options.workers, options.seconds))
    except OSError as error:
        complain(f"port {options.port} cannot be used: {error.strerror or error}; choose another one with --port")
        return 1
    return 0


def _within(least: int, most: int) -> Callable[[str], int]:
    """The reader of a number in a range."""

    def number(text: str) -> int:
        if not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text} is not from {least} to {most}")
        return int(text)

    return number
