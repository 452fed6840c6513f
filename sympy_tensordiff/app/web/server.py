"""The server of the page: files and answers, for this machine only."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from contextlib import suppress
from importlib.resources import files
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPServerRequest
from tornado.iostream import IOStream
from tornado.web import Application, HTTPError, RequestHandler

from sympy_tensordiff.app.web.answers import LONGEST_SOURCE, RequestError, request_of
from sympy_tensordiff.app.web.workers import BusyError, LostError, Pool, SlowError

HOST = "127.0.0.1"
LARGEST_BODY = 8 * LONGEST_SOURCE
"""The most bytes of a request: JSON may write a character in six, and one outside of the first plane in twelve."""
CONNECTIONS = 100
"""The most connections; systems that allow few open files allow 256."""
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json; charset=utf-8",
    "svg": "image/svg+xml",
    "woff2": "font/woff2",
}


class _Handler(RequestHandler):
    """What all answers have in common: who may ask, and the headers."""

    def set_default_headers(self) -> None:
        for name, value in HEADERS.items():
            self.set_header(name, value)
        self.clear_header("Server")

    def prepare(self) -> None:
        if not is_own(self.request, self.settings["port"]):
            raise HTTPError(403, reason="Only this page may ask")

    def write_error(self, status_code: int, **details: Any) -> None:
        self.tell({"error": self._reason})

    def tell(self, answer: Any) -> None:
        self.set_header("Content-Type", "application/json; charset=utf-8")
        self.finish(json.dumps(answer))


class _Files(_Handler):
    """The files of the page, which are read when the server starts: a name is a key, and no path."""

    def get(self, name: str) -> None:
        content = self.settings["page"].get(name or "index.html")
        if content is None:
            raise HTTPError(404)
        self.set_header("Content-Type", _TYPES[(name or "index.html").rpartition(".")[2]])
        self.finish(content)


class _Answers(_Handler):
    asked: asyncio.Future[Any] | None = None

    async def post(self) -> None:
        if self.request.headers.get("Content-Type", "").partition(";")[0].strip() != "application/json":
            raise HTTPError(415, reason="A request is JSON")
        try:
            request = request_of(self.request.body)
        except RequestError as error:
            self.set_status(400)
            self.tell({"error": str(error)})
            return
        pool: Pool = self.settings["pool"]
        self.asked = asyncio.ensure_future(pool.ask(request))
        try:
            self.tell(await self.asked)
        except asyncio.CancelledError:
            return  # nobody is there to be told
        except BusyError:
            self.set_status(503)
            self.tell({"error": "too many requests are waiting; ask again"})
        except SlowError:
            self.tell({"error": f"this takes longer than {pool.seconds:g} seconds; use the package itself for it"})
        except LostError:
            self.tell({"error": "the process that computes this has died, for want of memory perhaps"})

    def on_connection_close(self) -> None:
        """A page asks no longer for what has been typed over."""
        if self.asked is not None:
            self.asked.cancel()


def is_own(request: HTTPServerRequest, port: int) -> bool:
    """Whether a request is to this machine by name, and no other site has made it.

    The name is looked at since any site may let its own lead to this machine (DNS rebinding).
    """
    own = {f"{name}:{port}" for name in ("localhost", HOST)}
    origin = request.headers.get("Origin")
    site = request.headers.get("Sec-Fetch-Site", "none")
    is_link = site == "cross-site" and request.headers.get("Sec-Fetch-Mode") == "navigate"
    return (
        request.headers.get("Host", "").lower() in own
        and (origin is None or origin.lower() in {f"http://{name}" for name in own})
        and (site in ("none", "same-origin") or is_link)
    )


class _HTTPServer(HTTPServer):
    """A server that hangs up where more connections are open than there are files for."""

    connections = 0

    def handle_stream(self, stream: IOStream, address: tuple[Any, ...]) -> None:
        if self.connections >= CONNECTIONS:
            stream.close()
            return
        self.connections += 1
        super().handle_stream(stream, address)

    def on_close(self, server_conn: object) -> None:
        self.connections -= 1
        super().on_close(server_conn)


def page_files() -> dict[str, bytes]:
    """The files of the page by their names."""
    found: dict[str, bytes] = {}
    waiting = [("", files(__package__).joinpath("static"))]
    while waiting:
        prefix, folder = waiting.pop()
        for entry in folder.iterdir():
            if entry.is_dir():
                waiting.append((f"{prefix}{entry.name}/", entry))
            elif entry.name.rpartition(".")[2] in _TYPES:
                found[prefix + entry.name] = entry.read_bytes()
    return found


class Server:
    """A server that listens on this machine.

    Parameters
    ----------
    port : int
        0: any that is free.
    workers : int
        The number of processes that answer.
    seconds : float
        How long an answer may take.
    waiting : int
        So many requests may wait for a worker.

    Raises
    ------
    OSError
        If the port is taken.
    """

    def __init__(self, port: int = 0, workers: int = 2, seconds: float = 10, waiting: int = 32) -> None:
        listener = socket.create_server((HOST, port), backlog=128)
        listener.setblocking(False)
        self.port: int = listener.getsockname()[1]
        self.pool = Pool(workers, seconds, waiting)
        application = Application(
            [(r"/api/answer", _Answers), (r"/(.*)", _Files)],
            page=page_files(),
            pool=self.pool,
            port=self.port,
            log_function=lambda handler: None,
        )
        self._server = _HTTPServer(
            application,
            max_body_size=LARGEST_BODY,
            max_buffer_size=2 * LARGEST_BODY,
            max_header_size=16_384,
            body_timeout=10,
            idle_connection_timeout=60,
        )
        self._server.add_socket(listener)

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://{HOST}:{self.port}/"

    async def close(self) -> None:
        """Stop listening, and end the workers."""
        self._server.stop()
        await self._server.close_all_connections()
        self.pool.close()


async def serve(port: int, workers: int, seconds: float) -> None:
    """Say where the page is, and serve it until the process is interrupted or told to end."""
    ended = asyncio.Event()
    names = ["SIGINT", "SIGTERM"]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup
        names.append("SIGHUP")
    for name in names:
        with suppress(NotImplementedError):  # elsewhere the interrupt comes as KeyboardInterrupt
            asyncio.get_running_loop().add_signal_handler(getattr(signal, name), ended.set)
    server = Server(port, workers, seconds)
    try:
        print(f"{server.url}  (Ctrl-C ends it)", flush=True)
        await ended.wait()
    finally:
        await server.close()
