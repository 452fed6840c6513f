"""Processes that answer one request at a time; one that takes too long is killed, and another takes its place."""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from sympy_tensordiff.app.web.answers import Request

MEMORY = 3 * 2**30
"""The most bytes that a worker may ask for."""
LIFE = 500
"""A worker answers so many requests; what caches keep goes with it."""
STARTING = 60
"""So many seconds may pass until a worker has imported the package."""
GRACE = 1
"""A worker whose client has gone is replaced, unless it answers within so many seconds."""


class BusyError(Exception):
    """More requests are waiting than there may be."""


class SlowError(Exception):
    """The answer takes longer than it may."""


class LostError(Exception):
    """The worker has died, for want of memory for example, or cannot be started."""


class Pool:
    """Workers, and the requests that wait for one.

    Parameters
    ----------
    count : int
        The number of workers, 1 or more.
    seconds : float
        How long an answer may take.
    waiting : int
        So many requests may wait for a worker.
    """

    def __init__(self, count: int, seconds: float, waiting: int) -> None:
        self.seconds = seconds
        self.places = count + waiting
        self.taken = 0
        self.workers = [_Worker() for _ in range(count)]
        self.free: asyncio.Queue[_Worker] = asyncio.Queue()
        for worker in self.workers:
            self.free.put_nowait(worker)

    async def ask(self, request: Request) -> Any:
        """The answer.

        Raises
        ------
        BusyError, SlowError, LostError
            If there is none.
        """
        if self.taken >= self.places:
            raise BusyError
        self.taken += 1
        try:
            worker = self._renewed(await self.free.get())
            try:
                return await worker.ask(request, self.seconds)
            finally:
                self.free.put_nowait(self._renewed(worker))
        finally:
            self.taken -= 1

    def _renewed(self, worker: _Worker) -> _Worker:
        """The worker, or another one in the place of one that is of no use any more.

        Where none can be started the old one keeps the place, and the next request tries again.
        """
        if worker.is_fit:
            return worker
        worker.kill()
        try:
            fresh = _Worker()
        except OSError:
            return worker
        self.workers[self.workers.index(worker)] = fresh
        return fresh

    def close(self) -> None:
        """End all workers."""
        for worker in self.workers:
            worker.kill()


class _Worker:
    """One process and the pipe to it."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()
        self.is_ready = False
        self.is_fit = True
        self.answered = 0

    async def ask(self, request: Request, seconds: float) -> Any:
        try:
            if not self.is_ready:
                await self._arrival(STARTING)
                self.pipe.recv()
                self.is_ready = True
            self.is_fit = False  # whatever ends this early leaves an answer in the pipe
            self.pipe.send(request)
            try:
                await self._arrival(seconds)
            except asyncio.CancelledError:
                await self._arrival(GRACE)
                self._received()
                raise
            return self._received()
        except (TimeoutError, asyncio.TimeoutError):
            self.is_fit = False
            raise SlowError from None
        except (EOFError, OSError):
            self.is_fit = False
            raise LostError from None

    async def _arrival(self, seconds: float) -> None:
        """Wait until there is something in the pipe."""
        loop = asyncio.get_running_loop()
        arrived = asyncio.Event()
        loop.add_reader(self.pipe.fileno(), arrived.set)
        try:
            await asyncio.wait_for(arrived.wait(), seconds)
        finally:
            loop.remove_reader(self.pipe.fileno())

    def _received(self) -> Any:
        answer = self.pipe.recv()
        self.answered += 1
        self.is_fit = self.answered < LIFE
        return answer

    def kill(self) -> None:
        """End the process."""
        if self.pipe.closed:
            return
        self.process.kill()
        self.process.join()
        self.pipe.close()


def work(pipe: Connection) -> None:
    """Answer the requests that come through the pipe, until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server ends its workers
    _limit_memory()
    from sympy_tensordiff.app.web.answers import answer, derived, formulas

    formulas(*derived("matrix", "x'*x", 1, ()))  # builds the tables of the parser, which takes a tenth of a second
    with suppress(EOFError, OSError):
        pipe.send("ready")
        while True:
            request = pipe.recv()
            try:
                found = answer(request)
            except MemoryError:
                found = {"error": "this needs more memory than there is for one answer"}
            except Exception as error:
                traceback.print_exc()
                found = {"error": f"this is a mistake of the package ({type(error).__name__}); please report the input"}
            pipe.send(found)


def _limit_memory() -> None:
    """No more memory than a worker may have, where the system can say so."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
