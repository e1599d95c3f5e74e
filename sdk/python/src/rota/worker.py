"""A worker: runs jobs of the types that it has handlers for."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from . import _v1
from ._host import Handlers, Runner
from ._leases import WorkerEvent
from ._link import Hello, Link
from ._table import Table
from ._values import Span, to_seconds
from .client import Client
from .definition import Definition
from .errors import Conflict, Invalid, RotaError, Stale, Timeout, Unreported

log = logging.getLogger("rota.worker")

# How long handlers may take to return once they were cancelled, in seconds.
_STOP_GRACE = 10.0
_BYE_MOST = 5.0
# When a silent worker's leases end, in seconds.
_SILENCE_ENDS = 40.0


def _new_id() -> str:
    host = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in _host())
    tail = f"-{os.getpid()}-{secrets.token_hex(4)}"
    return host[: 64 - len(tail)] + tail


def _host() -> str:
    try:
        return socket.gethostname() or "worker"
    except OSError:
        return "worker"


class Worker:
    """Runs jobs of the given definitions. It can be run once.

    Args:
        client: of the cluster. Several workers may share one.
        definitions: the job types to run; each has a handler.
        concurrency: how many handlers run at once.
        queues: the queues to take jobs from; by default those of the definitions.
        id: its name, unique in the cluster; by default a new one. With the same id and
            ``secret`` a restarted process gets its open leases back.
        drain: how long handlers may run after the worker was asked to stop.
        prefetch: how many leases it may hold that wait for a handler to end.
        takeover: takes over an id that another process uses; ``old_secret`` proves that it
            may.
        retry_refused: tries again after the cluster refused the worker, for example because its
            token does not exist yet; by default `run` raises the refusal.
        observer: is called for each event, from any thread; it must return at once.
    """

    def __init__(
        self,
        client: Client,
        definitions: Sequence[Definition[Any, Any]],
        *,
        concurrency: int = 1,
        queues: Sequence[str] | None = None,
        id: str = "",  # noqa: A002 # as everywhere
        secret: bytes | None = None,
        takeover: bool = False,
        old_secret: bytes = b"",
        retry_refused: bool = False,
        drain: Span = 30.0,
        prefetch: int = 0,
        region: str = "",
        zone: str = "",
        capabilities: Sequence[str] = (),
        cpu_milli: int = 0,
        memory_bytes: int = 0,
        io_bytes_per_s: int = 0,
        limits: Mapping[str, int] | None = None,
        observer: Callable[[WorkerEvent], None] | None = None,
    ) -> None:
        by_type: dict[str, Definition[Any, Any]] = {}
        for d in definitions:
            if d.run is None:
                raise Invalid(
                    f"type {d.type} has no handler: write one with its decorator handler",
                    subject="definitions",
                )
            if d.type in by_type:
                raise Invalid(f"type {d.type} is defined twice", subject="definitions")
            by_type[d.type] = d
        if not by_type:
            raise Invalid("a worker needs a definition at least", subject="definitions")
        if concurrency < 1:
            raise Invalid(f"concurrency: got {concurrency}, want 1 or more",
                          subject="concurrency")  # fmt: skip
        secret = secrets.token_bytes(32) if secret is None else secret
        for name, value in (("secret", secret), ("old_secret", old_secret)):
            if value and not 16 <= len(value) <= 64:
                raise Invalid(f"{name}: got {len(value)} bytes, want 16 to 64",
                              subject=name)  # fmt: skip
        self.id = id or _new_id()
        named = queues or list(dict.fromkeys(d.queue for d in by_type.values()))
        self._client = client
        self._handlers = Handlers(by_type)
        self._concurrency = concurrency
        self._prefetch = prefetch
        self._drain = to_seconds(drain)
        self._observer = observer
        self._retry_refused = retry_refused
        spec = _v1.WorkerSpec(
            id=self.id, queues=named, slots=concurrency, prefetch=prefetch, region=region,
            zone=zone, capabilities=capabilities, cpu_milli=cpu_milli, memory_bytes=memory_bytes,
            io_bytes_per_s=io_bytes_per_s, limits=limits or {}, types=sorted(by_type),
        )  # fmt: skip
        self._hello = Hello(spec, secret, takeover, old_secret)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake: asyncio.Event | None = None
        self._stops = 0
        self._gone: tuple[RotaError | None] | None = None
        self._table: Table | None = None
        self._link: Link | None = None

    def stop(self) -> None:
        """Drain the worker: accept no new lease and let handlers finish; called again, cancel them.

        It may be called from any thread.
        """
        self._stops += 1
        self._look()

    def _look(self) -> None:
        loop, wake = self._loop, self._wake
        if loop is not None and wake is not None:
            try:
                loop.call_soon_threadsafe(wake.set)
            except RuntimeError:
                pass  # its event loop has closed

    def _ended(self, e: RotaError | None) -> None:
        self._gone = (e,)
        self._look()

    async def run(self, *, signals: bool = True) -> None:
        """Run jobs until `stop` or a signal, then drain and sign off.

        SIGTERM and SIGINT drain the worker, a second signal cancels the running handlers;
        ``signals=False`` installs no signal handlers. Cancelling `run` cancels the handlers and
        declines their leases.

        Raises `Unreported` with the jobs whose outcomes the cluster did not accept;
        `Unauthenticated`, `Denied`, `Conflict` or `Invalid` if the cluster refuses the worker
        (unless ``retry_refused``); `Stale` if its id was taken over; `Timeout` if handlers did not
        return in time.
        """
        if self._loop is not None:
            raise Conflict(f"worker {self.id} ran already: make a new one", subject="worker")
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        runner = Runner(
            self._handlers, self._concurrency, self._prefetch, self._observer, self._wake.set,
            self._client.workflows,
        )  # fmt: skip
        table = runner.table = self._table = Table(runner, self._observer is not None)
        link = Link(self._client._caller, table, self._hello, runner.observe, self._ended,
                    self._retry_refused)  # fmt: skip
        self._link = link
        link.pulse = runner.pulse
        link.start()
        try:
            with self._signals(signals):
                await self._serve(table)
        except asyncio.CancelledError:
            self._stops += 2
            try:
                await asyncio.shield(self._loop.create_task(self._finish(table)))
            except RotaError as e:
                log.error("%s", e)
            raise
        finally:
            link.stop()
            runner.close()
            await self._loop.run_in_executor(None, link.join, 2.0)

    @contextmanager
    def _signals(self, wanted: bool) -> Iterator[None]:
        """Stop the worker on signals, where that is possible: on the main thread."""
        caught = []
        loop = self._loop
        assert loop is not None
        if wanted and threading.current_thread() is threading.main_thread():
            for s in (signal.SIGTERM, signal.SIGINT):
                try:
                    loop.add_signal_handler(s, self.stop)
                    caught.append(s)
                except (NotImplementedError, RuntimeError, ValueError):
                    break  # an event loop without signals, as on Windows
        try:
            yield
        finally:
            for s in caught:
                loop.remove_signal_handler(s)

    async def _until(self, done: Callable[[], bool], seconds: float | None) -> bool:
        """Wait until a condition holds, and report whether it did in time."""
        wake = self._wake
        assert wake is not None
        loop = asyncio.get_running_loop()
        deadline = None if seconds is None else loop.time() + seconds
        while not done():
            left = None if deadline is None else deadline - loop.time()
            if left is not None and left <= 0:
                return False
            try:
                await asyncio.wait_for(wake.wait(), left)
            except (asyncio.TimeoutError, TimeoutError):
                return done()
            wake.clear()
        return True

    async def _serve(self, table: Table) -> None:
        await self._until(
            lambda: self._stops > 0 or self._gone is not None or table.superseded, None
        )
        if self._stops == 0 and table.superseded:
            await self._yield(table)
        elif self._stops == 0:
            await self._over(table)
        else:
            await self._finish(table)

    async def _over(self, table: Table) -> None:
        """Stop the worker after the cluster ended or refused its session."""
        table.abandon("the worker's session is over")
        await self._until(lambda: table.quiet, _STOP_GRACE)
        e = self._gone[0] if self._gone is not None else None
        if e is not None:
            raise e

    async def _yield(self, table: Table) -> None:
        """Confirm that this process has stopped, because another one has taken over its id."""
        await self._until(lambda: table.quiet or self._gone is not None, _SILENCE_ENDS)
        table.abandon("another process has taken the worker's id over")
        raise Stale(
            f"another process has taken the id of worker {self.id} over",
            op="work",
            subject="session",
        )

    async def _finish(self, table: Table) -> None:
        """Drain, and sign off."""
        handlers = table.begin_drain()
        told: asyncio.Task[Any] | None = None
        if handlers:
            log.info("draining: %d handlers have up to %.0f s", handlers, self._drain)
            # Stop new leases now: they would be declined at once.
            told = asyncio.get_running_loop().create_task(self._tell_drain())
        try:
            hard = self._stops
            await self._until(
                lambda: table.quiet or self._gone is not None or self._stops > max(1, hard),
                self._drain if hard == 1 else 0.0,
            )
            if not table.quiet and self._gone is not None:
                await self._over(table)
                return
            if not table.quiet:
                table.stop_handlers("the worker stops")
                await self._until(lambda: table.quiet, _STOP_GRACE)
            if not table.quiet and table.running:
                raise Timeout(
                    f"{table.running} handlers did not return in time: their leases run out by "
                    "silence",
                    op="work",
                    subject="worker",
                )
            unreported = table.unreported()
            if unreported:
                raise Unreported(unreported)
        finally:
            if told is not None:
                told.cancel()
        if self._link is None or not self._link.taken:
            return
        table.say_bye()
        if not await self._until(lambda: self._gone is not None, _BYE_MOST):
            log.info("left without a farewell: no node answered")

    async def _tell_drain(self) -> None:
        try:
            await self._client.workers.drain(self.id)
        except RotaError as e:
            log.debug("the cluster did not take the drain: %s", e)
