"""Worker processes that answer one request at a time; one that exceeds its time limit is killed and replaced."""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
import sys
import traceback
from contextlib import suppress
from functools import cache
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from sympy_tensordiff.app.web.answers import Request

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext, SpawnContext

MAX_MEMORY = 3 * 2**30
"""The memory limit of a worker, in bytes."""
MAX_ANSWERS = 500
"""The number of requests after which a worker is replaced, which frees its caches."""
START_SECONDS = 60
"""The time limit for a worker to import the package, in seconds."""
GRACE_SECONDS = 1
"""A worker whose client has gone is replaced unless it answers within this time, in seconds."""


class BusyError(Exception):
    """Raised when too many requests are waiting."""


class SlowError(Exception):
    """Raised when an answer takes longer than the time limit."""


class LostError(Exception):
    """The worker process has died, for example of lack of memory, or cannot be started."""


class Pool:
    """Worker processes that compute the answers to the requests of the page. Requests wait in a queue for a free
    worker.

    It has ``count`` workers. An answer may take ``seconds``, and ``waiting`` requests may wait for a worker.
    """

    def __init__(self, count: int, seconds: float, waiting: int) -> None:
        self.seconds = seconds
        self.capacity = count + waiting
        self.pending = 0
        self.workers = [_Worker() for _ in range(count)]
        self.free: asyncio.Queue[_Worker] = asyncio.Queue()
        for worker in self.workers:
            self.free.put_nowait(worker)

    async def ask(self, request: Request) -> Any:
        """Return the answer to ``request``.

        Raises
        ------
        BusyError, SlowError, LostError
            If there is no answer.
        """
        if self.pending >= self.capacity:
            raise BusyError
        self.pending += 1
        try:
            worker = self._usable_worker(await self.free.get())
            try:
                return await worker.ask(request, self.seconds)
            finally:
                self.free.put_nowait(self._usable_worker(worker))
        finally:
            self.pending -= 1

    def _usable_worker(self, worker: _Worker) -> _Worker:
        """Return ``worker`` if its process can take another request; else a new worker that replaces it.

        If no process can be started, the old worker stays in its place, and the next request tries again.
        """
        if worker.is_usable:
            return worker
        worker.kill()
        try:
            fresh = _Worker()
        except OSError:
            return worker
        self.workers[self.workers.index(worker)] = fresh
        return fresh

    def close(self) -> None:
        """Stop all workers of the pool."""
        for worker in self.workers:
            worker.kill()


class _Worker:
    """A worker process and the pipe to it."""

    def __init__(self) -> None:
        context = _context()
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=run_worker, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()
        self.is_ready = False
        self.is_usable = True
        self.answered = 0

    async def ask(self, request: Request, seconds: float) -> Any:
        """Return the answer of the process; raise `SlowError` after ``seconds``, or `LostError` if it has died."""
        try:
            if not self.is_ready:
                await self._wait_for_data(START_SECONDS)
                self.pipe.recv()
                self.is_ready = True
            self.is_usable = False  # whatever ends this early leaves an answer in the pipe
            self.pipe.send(request)
            try:
                await self._wait_for_data(seconds)
            except asyncio.CancelledError:
                await self._wait_for_data(GRACE_SECONDS)
                self._receive()
                raise
            return self._receive()
        except (TimeoutError, asyncio.TimeoutError):
            self.is_usable = False
            raise SlowError from None
        except (EOFError, OSError):
            self.is_usable = False
            raise LostError from None

    async def _wait_for_data(self, seconds: float) -> None:
        """Wait until the pipe has data; raise `TimeoutError` after ``seconds``."""
        loop = asyncio.get_running_loop()
        arrived = asyncio.Event()
        loop.add_reader(self.pipe.fileno(), arrived.set)
        try:
            await asyncio.wait_for(arrived.wait(), seconds)
        finally:
            loop.remove_reader(self.pipe.fileno())

    def _receive(self) -> Any:
        """Return the next answer from the worker's pipe. After `MAX_ANSWERS` answers, or one that took much memory, the
        worker is marked as no longer usable.
        """
        answer, is_exhausted = self.pipe.recv()
        self.answered += 1
        self.is_usable = self.answered < MAX_ANSWERS and not is_exhausted
        return answer

    def kill(self) -> None:
        """Kill the worker process and close the pipe to it."""
        if self.pipe.closed:
            return
        self.process.kill()
        self.process.join()
        self.pipe.close()


@cache
def _context() -> SpawnContext | ForkServerContext:
    """Return the multiprocessing context that starts workers. On Linux, it forks one process that has imported the
    package, so that replacing a worker takes a tenth of a second.
    """
    if not sys.platform.startswith("linux"):
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        [__name__, "sympy_tensordiff.app.web.answers", "sympy_tensordiff.app.web.typesetting"]
    )
    return context


def run_worker(pipe: Connection) -> None:
    """Answer the requests that arrive at ``pipe`` until it is closed; this is the main function of a worker process.

    It sends pairs: an answer, and whether the process has used so much memory that another one should replace it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server ends its workers
    _limit_memory()
    from sympy_tensordiff.app.web.answers import answer, formulas, parse_and_derive
    from sympy_tensordiff.app.web.typesetting import to_mathml

    # This builds the tables of the parser, which takes a tenth of a second.
    formulas(*parse_and_derive("matrix", "x'*x", 1, ()))
    with suppress(EOFError, OSError):
        pipe.send("ready")
        while True:
            request = pipe.recv()
            try:
                found = answer(request, to_mathml)
            except MemoryError:
                found = {"error": "this needs more memory than there is for one answer"}
            except Exception as error:
                traceback.print_exc()
                found = {"error": f"this is a mistake of the package ({type(error).__name__}); please report the input"}
            pipe.send((found, _is_exhausted()))


def _is_exhausted() -> bool:
    """Return whether this process has used half of its memory; its caches may keep it from the next answer. False where
    the system does not say.
    """
    try:
        import resource
    except ImportError:
        return False
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit > MAX_MEMORY // 2


def _limit_memory() -> None:
    """Limit the memory of the process, if the system supports it."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
