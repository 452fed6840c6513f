"""``python -m benchmarks.boards.gradbench``: a tool of GradBench, which answers the board's messages on its input.

``--eval COMMAND`` runs a command of the board that sends the messages of one eval, answers it, and prints the times.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import time
import traceback
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.boards.evals import EVALS


def answer(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return the response to a message."""
    response: dict[str, Any] = {"id": message["id"]}
    if message["kind"] == "start":
        return response | {"tool": "sympy_tensordiff"}
    if message["kind"] == "define":
        return response | {"success": message["module"] in EVALS}
    if message["kind"] != "evaluate":
        return response
    try:
        return response | {"success": True} | evaluate(message)
    except Exception:
        return response | {"success": False, "error": traceback.format_exc()}


def evaluate(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of a function, and the time of each run but the first, which compiles."""
    given = message["input"]
    call, result = EVALS[message["module"]][message["function"]]()(given)
    call()
    runs, seconds = (given["min_runs"], given["min_seconds"]) if isinstance(given, dict) else (1, 0)
    times: list[int] = []
    while len(times) < max(runs, 1) or sum(times) < 1e9 * seconds:
        begin = time.perf_counter_ns()
        found = call()
        times.append(time.perf_counter_ns() - begin)
    return {"output": result(found), "timings": [{"name": "evaluate", "nanoseconds": one} for one in times]}


def serve(lines: Iterator[str], write: Any) -> None:
    """Answer each line."""
    for line in lines:
        write(json.dumps(answer(json.loads(line))) + "\n")


def judged(command: Sequence[str]) -> tuple[dict[str, list[tuple[str, float]]], list[str]]:
    """Run an eval of the board; return the least seconds of each input, by function, and the mistakes that it found."""
    times, mistakes, asked = defaultdict(list), [], {}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as board:
        assert board.stdin is not None and board.stdout is not None
        for line in board.stdout:
            message = json.loads(line)
            response = answer(message)
            if message["kind"] == "evaluate":
                asked[message["id"]] = f"{message['function']} {message.get('description', '')}"
                if response["success"]:
                    least = min(one["nanoseconds"] for one in response["timings"]) / 1e9
                    times[message["function"]].append((message.get("description", ""), least))
                else:
                    mistakes.append(f"{asked[message['id']]}: {response['error']}")
            elif message["kind"] == "analysis" and not message["valid"]:
                mistakes.append(f"{asked[message['of']]}: {message.get('error', 'wrong')[:300]}")
            board.stdin.write(json.dumps(response) + "\n")
            board.stdin.flush()
    if board.returncode or not times:
        mistakes.append(f"the command ended with the code {board.returncode}, after {len(asked)} questions")
    return dict(times), mistakes


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 1 if the board found a mistake."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.boards.gradbench", description=__doc__)
    parser.add_argument("--eval", metavar="COMMAND", help="the command that runs an eval of the board")
    options = parser.parse_args(arguments)
    if not options.eval:
        serve(iter(sys.stdin), lambda text: print(text, end="", flush=True))
        return 0
    times, mistakes = judged(shlex.split(options.eval))
    for function, found in times.items():
        for description, seconds in found:
            print(f"{function:10} {description:30} {1e3 * seconds:12.4f} ms")
    print("\n".join(mistakes) or "the board found no mistake")
    return int(bool(mistakes))


if __name__ == "__main__":
    sys.exit(main())
