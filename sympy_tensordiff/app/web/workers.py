"""Processes that answer one request at a time; one that takes too long is killed, and another takes its place."""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from sympy_tensordiff.app.web.requests import Request

MEMORY = 3 * 2**30
"""The most bytes that a worker may ask for."""
LIFE = 500
"""A worker answers so many requests; what caches keep goes with it."""


class BusyError(Exception):
    """More requests are waiting than there may be."""


class SlowError(Exception):
    """The answer takes longer than it may."""


class LostError(Exception):
    """The worker has died, for want of memory for example."""


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
            worker = await self.free.get()
            try:
                return await worker.ask(request, self.seconds)
            finally:
                self.free.put_nowait(self._renewed(worker))
        finally:
            self.taken -= 1

    def _renewed(self, worker: _Worker) -> _Worker:
        """The worker, or another one in the place of one that is of no use any more."""
        if worker.is_fit:
            return worker
        worker.kill()
        fresh = _Worker()
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
        self.is_fit = True
        self.answered = 0

    async def ask(self, request: Request, seconds: float) -> Any:
        loop = asyncio.get_running_loop()
        arrived = asyncio.Event()
        # Whatever ends this early, also a client that has gone, leaves an answer in the pipe.
        self.is_fit = False
        try:
            self.pipe.send(request)
            loop.add_reader(self.pipe.fileno(), arrived.set)
            try:
                await asyncio.wait_for(arrived.wait(), seconds)
            finally:
                loop.remove_reader(self.pipe.fileno())
            answer = self.pipe.recv()
        except (TimeoutError, asyncio.TimeoutError):
            raise SlowError from None
        except (EOFError, OSError):
            raise LostError from None
        self.answered += 1
        self.is_fit = self.answered < LIFE
        return answer

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def work(pipe: Connection) -> None:
    """Answer the requests that come through the pipe, until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server ends its workers
    _limit_memory()
    from sympy_tensordiff.app.web.answers import answer

    with suppress(EOFError, OSError):
        while True:
            request = pipe.recv()
            try:
                found = answer(request)
            except MemoryError:
                found = {"error": "this needs more memory than there is for one answer"}
            pipe.send(found)


def _limit_memory() -> None:
    """No more memory than a worker may have, where the system can say so."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
