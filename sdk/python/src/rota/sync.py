"""The same API for programs without an event loop.

    from rota import sync

    with sync.connect("a:6470,b:6470") as c:
        h = sync.submit(c, resize, photo, id="photo-4711")
        thumb = h.result(timeout=30)

Calls run on an event loop in a thread that all clients share. For everything without a function of
its own here, use `Client.call` with a coroutine and `Client.iterate` with an iterator::

    c.call(c.aio.queues.set("images"))
    for w in c.iterate(c.aio.workflows.list()): ...
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from . import client as _client
from . import definition as _definition
from . import worker as _worker
from ._leases import WorkerEvent
from ._nodes import TLS, TokenSource
from ._values import Span
from .records import AttemptLog, Eta, JobInfo, JobOutcome, Submitted, Why
from .spec import JobOptions, JobSpec

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from ._read import ReadOptions

_T = TypeVar("_T")
In = TypeVar("In")
Out = TypeVar("Out")

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_pid = 0


def _shared() -> asyncio.AbstractEventLoop:
    """Return the event loop that all clients of this process share."""
    global _loop, _pid  # one for each process
    with _lock:
        if _loop is None or _pid != os.getpid():
            _loop, _pid = asyncio.new_event_loop(), os.getpid()
            threading.Thread(target=_loop.run_forever, name="rota-sync", daemon=True).start()
        return _loop


class Client:
    """Calls a cluster through any of its nodes; it is safe to use from several threads.

    Attributes:
        aio: the client whose coroutines it runs.
    """

    def __init__(self, aio: _client.Client) -> None:
        self.aio = aio
        self._loop = _shared()

    def call(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine to its end and return its result."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def iterate(self, items: AsyncIterator[_T]) -> Iterator[_T]:
        """Yield the items of an asynchronous iterator."""

        async def following() -> _T:
            return await items.__anext__()

        async def close() -> None:
            end = getattr(items, "aclose", None)
            if end is not None:
                await end()

        try:
            while True:
                try:
                    item = self.call(following())
                except StopAsyncIteration:
                    return
                yield item
        finally:
            self.call(close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all connections and calls."""
        self.call(self.aio.close())

    def submit(self, *jobs: JobSpec) -> list[Submitted]:
        """Submit jobs and return the outcome of each; see `rota.Client.submit`."""
        return self.call(self.aio.submit(*jobs))

    def job(self, job: str, **read: Unpack[ReadOptions]) -> JobInfo:
        """Read one job."""
        return self.call(self.aio.job(job, **read))

    def jobs(
        self,
        where: str = "",
        *,
        queue: str = "",
        state: str = "",
        limit: int | None = None,
        **read: Unpack[ReadOptions],
    ) -> Iterator[JobInfo]:
        """List the jobs that a filter selects, the newest first."""
        return self.iterate(self.aio.jobs(where, queue=queue, state=state, limit=limit, **read))

    def wait(self, job: str, timeout: Span | None = None) -> JobInfo:
        """Return a job once it has ended, in whatever state."""
        return self.call(self.aio.wait(job, timeout))

    def cancel(self, *jobs: str) -> list[JobOutcome]:
        """Cancel jobs and return the outcome of each at its index."""
        return self.call(self.aio.cancel(*jobs))

    def retry(self, *jobs: str) -> list[JobOutcome]:
        """Revive jobs that are DEAD, EXPIRED or CANCELLED."""
        return self.call(self.aio.retry(*jobs))

    def interrupt(self, *jobs: str, counted: bool = False) -> list[JobOutcome]:
        """End the current attempt of each job so that the job is tried again."""
        return self.call(self.aio.interrupt(*jobs, counted=counted))

    def run_now(self, *jobs: str) -> list[JobOutcome]:
        """Queue DELAYED jobs before their time."""
        return self.call(self.aio.run_now(*jobs))

    def delete(self, *jobs: str) -> list[JobOutcome]:
        """Delete jobs that have ended."""
        return self.call(self.aio.delete(*jobs))

    def why(self, job: str, **read: Unpack[ReadOptions]) -> Why:
        """Read why a job does not run."""
        return self.call(self.aio.why(job, **read))

    def eta(self, job: str, **read: Unpack[ReadOptions]) -> Eta:
        """Forecast when a job starts."""
        return self.call(self.aio.eta(job, **read))

    def log(self, job: str, attempt: int | None = None) -> AttemptLog:
        """Read the log of an attempt."""
        return self.call(self.aio.log(job, attempt))


class Handle(Generic[Out]):
    """A submitted job.

    Attributes:
        id: the job's id.
        submitted: the outcome of the submission.
    """

    def __init__(self, client: Client, aio: _definition.Handle[Out]) -> None:
        self._client = client
        self._aio = aio
        self.id = aio.id
        self.submitted = aio.submitted

    def result(self, timeout: Span | None = None) -> Out:
        """Wait until the job has ended and return its output; see `rota.Handle.result`."""
        return self._client.call(self._aio.result(timeout))

    def job(self, **read: Unpack[ReadOptions]) -> JobInfo:
        """Read the job."""
        return self._client.call(self._aio.job(**read))

    def cancel(self) -> None:
        """Cancel the job."""
        self._client.call(self._aio.cancel())


def submit(
    client: Client,
    definition: _definition.Definition[In, Out],
    value: In,
    **options: Unpack[JobOptions],
) -> Handle[Out]:
    """Submit one job of a definition and return its handle."""
    return Handle(client, client.call(definition.submit(client.aio, value, **options)))


def connect(
    addrs: str | Sequence[str],
    *,
    token: TokenSource | None = None,
    tls: TLS | None = None,
    timeout: Span | None = 30.0,
) -> Client:
    """Return a client of the nodes at these addresses; see `rota.connect`."""
    return Client(_client.connect(addrs, token=token, tls=tls, timeout=timeout))


def connect_env(
    *, timeout: Span | EllipsisType | None = ..., environ: Mapping[str, str] = os.environ
) -> Client:
    """Return a client configured from the environment; see `rota.connect_env`."""
    return Client(_client.connect_env(timeout=timeout, environ=environ))


def work(
    client: Client,
    definitions: Sequence[_definition.Definition[Any, Any]],
    *,
    concurrency: int = 1,
    queues: Sequence[str] | None = None,
    id: str = "",  # noqa: A002 # as everywhere
    drain: Span = 30.0,
    observer: Callable[[WorkerEvent], None] | None = None,
) -> None:
    """Run jobs until SIGTERM or SIGINT, then drain; see `rota.Worker`.

    Handlers that are not coroutine functions run in threads, ``concurrency`` at once.
    """
    worker = _worker.Worker(
        client.aio, definitions, concurrency=concurrency, queues=queues, id=id, drain=drain,
        observer=observer,
    )  # fmt: skip
    asyncio.run(worker.run())
