"""The command line: ``python -m sympy_tensordiff``."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import sympy_tensordiff as td
from sympy_tensordiff.app import demo
from sympy_tensordiff.app.forms import (
    FORMS,
    TextOutput,
    certificate,
    certificate_text,
    check_lines,
    form_text,
    parsed_input,
)
from sympy_tensordiff.app.web.site import SiteError, build_site
from sympy_tensordiff.errors import ArgumentError, ParseError, TensorDiffError, UnsupportedError
from sympy_tensordiff.parsing.api import LANGUAGES, language_of
from sympy_tensordiff.parsing.axes import MAX_INPUT

PROGRAM = "python -m sympy_tensordiff"
# Longer inputs exceed the parser's limit of characters in any encoding, so that the rest need not be read.
_MAX_BYTES = 4 * MAX_INPUT + 4

USAGE = f"""{PROGRAM} [options] [INPUT]
       {PROGRAM} demo [--quick] [--cuda] [--seed SEED]
       {PROGRAM} serve [--port PORT]
       {PROGRAM} site FOLDER"""

DESCRIPTION = """\
Differentiates a tensor expression: a matrix formula, index notation, LaTeX, or the text language of Lippmann's thesis:

  x'*A*x
  declare x[n]  s = sum(x[i]**2, i)  derivative wrt x
  declare x 1 expression x *(i,i->) x derivative wrt x

The last two declare tensors with their shapes or orders; those of a matrix formula are inferred where it has no
declare. What to differentiate with respect to is named by --wrt, or by "derivative wrt" at the end, several times
for higher orders. INPUT is such a text in quotes; without it, and for "-", standard input is read, and --file reads
a file. "demo" shows what else the package does; "serve" opens a page in which all this can be tried in a browser;
"site" writes this page as static files, which need no server of their own."""

EPILOG = f"""\
forms:
  matrix   a matrix formula (the default for inputs in matrix formulas)
  text     the text language (the default for inputs in it)
  pretty   in two dimensions, in ASCII where the terminal has nothing else
  latex    LaTeX
  index    index notation: sums over indices (the default for inputs in it)
  python   a program that makes the tensors, the expression and the derivative
  numpy, numba, c, cuda, cuda_c, jax, torch, cupy
           the Python module, or the file in C or CUDA C++, that computes it; its arguments are the tensors in the
           order of their declaration, then sizes that no tensor has

exit codes:
  0  the answer is printed
  1  the check has failed, there is no certificate, the form cannot say the answer, or it is not supported or
     not written
  2  the input or the command is wrong

examples:
  {PROGRAM} "||A*x - y||^2" --wrt x
  {PROGRAM} --form c "f(x) = sin(x)*x^2"
  {PROGRAM} --form numpy --wrt w "sum(log(1 + exp(-y.*(X*w))))"
  {PROGRAM} "declare A 2 x 1 expression x *(i,i->) (A *(ij,j->i) x) derivative wrt x"
  {PROGRAM} --form latex "declare X 2 expression log(det(X)) derivative wrt X"
  {PROGRAM} --convex --wrt w "sum(log(1 + exp(-y.*(X*w))))"
  {PROGRAM} --check "declare X 2 expression inv(X) derivative wrt X"
  {PROGRAM} --form numba "declare x 1 expression exp(x) *(i,i->) x derivative wrt x"
  {PROGRAM} --expression --form index "declare x 1 expression tanh(x) derivative wrt x"
  {PROGRAM} "declare x 1 expression sin(x) *(i,i->) x derivative wrt x derivative wrt x"
  {PROGRAM} "declare w[m] d[n] f[n-m+1]  f[i] = sum(w[k]*d[i+k], k)  derivative wrt d"
"""


def run(arguments: list[str]) -> int:
    """Run the command line given by ``arguments`` and return its exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if len(options.input) > 1:
        parser.error(f"one INPUT is needed, in quotes, and {len(options.input)} are given")
    (given,) = options.input or [None]
    if given is None and options.file is None and is_interactive():
        parser.print_help()
        return 2
    origin = ""
    try:
        text, origin = read_input(given, options.file)
        language = options.language or language_of(text)
        options.by_default = options.form is None
        options.form = options.form or ("text" if language == "thesis" else language)
        with progress_notice():
            return _print_answer(_parse_input(text, language, options), options)
    except UnreadableError as error:
        print_error(str(error))
        return 2
    except ParseError as error:
        print_error(f"{origin}, {error}" if origin else str(error))
        if given and given != "-" and os.path.exists(given):
            print_error(f"there is a file {given}: an argument is a formula, and --file reads a file")
        return 2
    except TensorDiffError as error:
        print_error(str(error))
    except RecursionError:
        print_error("the expression or its derivative is nested too deeply for SymPy")
    return 1


def _parse_input(text: str, language: str, options: argparse.Namespace) -> Any:
    """Return ``text`` parsed in ``language``, with the variables of the option ``--wrt``. Names whose order (scalar,
    vector or matrix) was only guessed are reported on standard error.
    """
    parsed = parsed_input(text, language)
    if parsed.assumed:
        print(f"assumed: {', '.join(parsed.assumed)}", file=sys.stderr)
    wrt = [name for names in options.wrt for name in names.split(",")]
    if options.expression and not wrt:
        return parsed
    try:
        return parsed.with_respect_to(wrt or None)
    except ArgumentError as error:
        raise UnreadableError(str(error).replace("wrt names", "--wrt names").replace("wrt=", "--wrt")) from None


@contextmanager
def progress_notice(seconds: float = 2.0) -> Iterator[None]:
    """Return a context manager that prints a notice on the terminal if its block takes longer than ``seconds``."""
    timer = None
    if sys.stderr is not None and sys.stderr.isatty():
        timer = threading.Timer(seconds, lambda: print("still working; Ctrl-C stops it", file=sys.stderr, flush=True))
        timer.daemon = True
        timer.start()
    try:
        yield
    finally:
        if timer is not None:
            timer.cancel()


def print_error(message: str) -> None:
    """Print ``message`` as an error on standard error; characters outside its encoding become question marks."""
    if sys.stderr is not None:
        encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
        shown = f"error: {message}".encode(encoding, "replace").decode(encoding)
        print(shown, file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    """Return the argument parser of the command."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        usage=USAGE,
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("input", nargs="*", metavar="INPUT", help="a text in one of the languages, or -")
    parser.add_argument("--file", metavar="FILE", help="read the input from this file")
    parser.add_argument("--language", choices=tuple(LANGUAGES), help="of the input (default: decided by the text)")
    parser.add_argument(
        "--wrt",
        metavar="NAME",
        action="append",
        default=[],
        help="differentiate with respect to this; several times, or NAME,NAME, for higher orders",
    )
    parser.add_argument("--form", choices=FORMS, help="how the answer is printed (see below)")
    simple = parser.add_mutually_exclusive_group()
    simple.add_argument(
        "--simplify", dest="simplify", action="store_true", default=True, help="simplify the derivative (default)"
    )
    simple.add_argument("--raw", dest="simplify", action="store_false", help="print it as the rules give it")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--expression", action="store_true", help="print the expression instead of the derivative")
    what.add_argument("--check", action="store_true", help="compare the derivative with differences, for several sizes")
    what.add_argument("--convex", action="store_true", help="certify that the expression is convex, by its Hessian")
    what.add_argument("--concave", action="store_true", help="certify that it is concave")
    for domain in ("positive", "nonnegative"):
        words = "positive" if domain == "positive" else "not negative"
        parser.add_argument(
            f"--{domain}", metavar="NAMES", default="", help=f"tensors whose entries are {words}, for a certificate"
        )
    parser.add_argument(
        "--bounds",
        metavar="NAME=LOW:HIGH",
        action="append",
        default=[],
        help="the interval of a tensor's entries, for a certificate; one end may be left out: x=0:pi, x=-1:",
    )
    parser.add_argument(
        "--graph", metavar="FILE", help="draw the expression and its first derivative (.svg, .png, .dot, .txt)"
    )
    parser.add_argument("--version", action="version", version=f"sympy-tensordiff {td.__version__}")
    return parser


def _print_answer(parsed: Any, options: argparse.Namespace) -> int:
    """Print the answer for the input ``parsed``: its derivative or, as ``options`` say, the expression itself or a
    certificate of convexity. Also save the graph and print checks if they ask for it. Return the exit code: 0, 1 for
    "not certified", 2 for a file that cannot be written.
    """
    page = TextOutput(sys.stdout)
    if options.convex or options.concave:
        kinds = ("positive", "nonnegative")
        domains = [(name, kind) for kind in kinds for name in getattr(options, kind).split(",") if name]
        domains += [(name, domain) for name, _, domain in (text.partition("=") for text in options.bounds)]
        text = certificate_text(certificate(parsed, domains, concave=options.concave), options.form)
        page.write_line(text)
        return int(text.removeprefix(r"\text{").startswith("not certified"))
    expression = parsed.expression if options.expression else parsed.derivative(simplify=options.simplify)
    try:
        text = form_text(parsed, expression, options.form, unicode=page.unicode)
    except UnsupportedError as error:
        if options.form not in ("text", "matrix"):
            raise
        if not options.by_default:
            raise UnsupportedError(f"{error}; another --form can say it: index, latex or pretty") from None
        print(f"--form {options.form} cannot say this, here is --form index", file=sys.stderr)
        text = form_text(parsed, expression, "index", unicode=page.unicode)
    page.write_line("\n".join(line.rstrip() for line in text.splitlines()).rstrip())
    if options.graph is not None:
        graph = td.draw_graph(parsed.expression if options.expression else parsed, simplify=options.simplify)
        try:
            graph.save(options.graph)
        except (ArgumentError, OSError, ValueError) as error:
            print_error(f"{options.graph}: {getattr(error, 'strerror', None) or error}")
            return 2
    for line in check_lines(parsed, expression) if options.check else ():
        page.write_line(
            f"{'%' if options.form == 'latex' else '#'} checked for {line}"
        )  # a comment: the answer is an input
    return 0


# ---------------------------------------------------------------------------- the input


class UnreadableError(Exception):
    """The input or its variables cannot be read. The message is one line for the user."""


def read_input(argument: str | None, file: str | None) -> tuple[str, str]:
    """Return the input text and the name of its file ("" for an argument).

    The text is ``argument``, the content of ``file``, or standard input if both are missing or "-".

    Raise `UnreadableError` if the file does not exist, cannot be read, or is not UTF-8.
    """
    if file is not None and argument is not None:
        raise UnreadableError("an input and --file are given: give one of them")
    if argument is not None and argument != "-":
        return argument, ""
    if file is None or file == "-":
        return _read_standard_input(), "standard input"
    try:
        with open(file, "rb") as stream:
            return _decode(stream, file), file
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UnreadableError(f"{file}: {reason}") from None


def is_interactive() -> bool:
    """Return whether there is no text to read from standard input, because it is a terminal, closed or unreadable."""
    return sys.stdin is None or sys.stdin.closed or sys.stdin.isatty() or not sys.stdin.readable()


def _read_standard_input() -> str:
    """Return the text of standard input."""
    if sys.stdin is None:
        raise UnreadableError("standard input is closed: give the input as an argument, or --file")
    buffer = getattr(sys.stdin, "buffer", None)
    try:
        return sys.stdin.read(MAX_INPUT + 1) if buffer is None else _decode(buffer, "standard input")
    except OSError as error:
        raise UnreadableError(f"standard input: {error.strerror or error}") from None


def _decode(stream: BinaryIO, name: str) -> str:
    """Return the UTF-8 text of ``stream``, whose name in errors is ``name``. Raise `UnreadableError` for another
    encoding. At most ``_MAX_BYTES`` are read, which is more than the parser accepts.
    """
    data = stream.read(_MAX_BYTES)
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise UnreadableError(f"{name} is UTF-16, and inputs are UTF-8: save it in this encoding")
    try:
        text = data.decode("utf-8-sig", "replace" if len(data) == _MAX_BYTES else "strict")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UnreadableError(
            f"{name} is not UTF-8: line {line} holds the byte 0x{data[error.start]:02x}; save it in this encoding"
        ) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


QUICK_SIZES = (12, 10, 6)
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with ``arguments``, by default those of the process, and return the exit code: 0, 1 if there is
    no answer, 2 for an invalid input or command, 130 if interrupted.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if sys.stdout is None:
        print_error("the answer cannot be written: standard output is closed")
        return 1
    try:
        commands = {"demo": _demo, "serve": _serve, "site": _site}
        command = commands.get(given[0]) if given else None
        code = run(given) if command is None else command(given[1:])
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print_error("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        _discard_output()
        return 1
    except OSError as error:
        print_error(f"the answer cannot be written: {error.strerror or error}")
        _discard_output()
        return 1


def _discard_output() -> None:
    """Redirect standard output to the null device, so that flushing it at exit does not fail if its reader has gone."""
    try:
        target = sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, target)
    os.close(nowhere)


def _demo(arguments: list[str]) -> int:
    """Run the command ``demo`` with the command-line ``arguments``: it differentiates, compiles and times an example.
    Return the exit code.
    """
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
    """Run the command ``serve`` with its ``arguments``: serve the page to try the package to browsers on this machine.
    Return the exit code.
    """
    parser = argparse.ArgumentParser(
        prog=f"{PROGRAM} serve", description="Serve a page to try the package, to browsers on this machine."
    )
    parser.add_argument(
        "--port", type=_integer_between(0, 65535), default=8765, help="where to listen (default 8765; 0: any free port)"
    )
    parser.add_argument("--workers", type=_integer_between(1, 600), default=2, help="processes that answer (default 2)")
    parser.add_argument(
        "--seconds", type=_integer_between(1, 600), default=10, help="how long an answer may take (default 10)"
    )
    options = parser.parse_args(arguments)
    try:
        from sympy_tensordiff.app.web.server import serve
    except ImportError as error:
        print_error(f"the page needs {error.name}: pip install '.[page]'")
        return 1
    try:
        asyncio.run(serve(options.port, options.workers, options.seconds))
    except OSError as error:
        print_error(f"port {options.port} cannot be used: {error.strerror or error}; choose another one with --port")
        return 1
    return 0


def _site(arguments: list[str]) -> int:
    """Run the command ``site``, which writes the page to try the package as static files, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog=f"{PROGRAM} site", description="Write the page as static files, which compute in the browser by Pyodide."
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="a new or an empty folder")
    parser.add_argument(
        "--pyodide",
        type=Path,
        metavar="FOLDER",
        help="Pyodide, from npm or a full distribution with NumPy (default: npm installs it for this site)",
    )
    parser.add_argument(
        "--temml", type=Path, metavar="FOLDER", help="npm's package temml (default: npm installs it for this site)"
    )
    options = parser.parse_args(arguments)
    try:
        build_site(options.folder, options.pyodide, options.temml)
    except SiteError as error:
        print_error(str(error))
        return 1
    return 0


def _integer_between(least: int, most: int) -> Callable[[str], int]:
    """Return a parser of integers from ``least`` to ``most``."""

    def number(text: str) -> int:
        """Return ``text`` as an integer; raise `ArgumentTypeError` if it is out of range."""
        if not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text} is not from {least} to {most}")
        return int(text)

    return number
