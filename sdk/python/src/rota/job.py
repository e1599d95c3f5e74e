"""One attempt of a job, as its handler sees it."""

from __future__ import annotations

import contextvars
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from . import _v1, spec
from ._joblog import JobLog
from .errors import LeaseLost
from .records import ParentOutput
from .spec import JobSpec

_current: contextvars.ContextVar[Job | None] = contextvars.ContextVar("rota_job", default=None)


class Token(NamedTuple):
    """Fences an attempt: it is greater than that of any lease before it.

    A system that keeps the last one seen can refuse an older. Its text is what other clients
    show, and numbers compare: ``Token.parse(text) > seen``.
    """

    incarnation: int
    counter: int

    def __str__(self) -> str:
        return f"{self.incarnation}.{self.counter}"

    @classmethod
    def parse(cls, text: str) -> Token:
        """Return the token of its text."""
        a, _, b = text.partition(".")
        return cls(int(a), int(b))


class _Handler(logging.Handler):
    def __init__(self, write: Callable[[str], None]) -> None:
        super().__init__()
        self._write = write
        self.setFormatter(_FORMAT)

    def emit(self, record: logging.LogRecord) -> None:
        self._write(self.format(record))


_FORMAT = logging.Formatter("%(asctime)s %(levelname)s %(message)s")


class Job:
    """One attempt of a job.

    Attributes:
        id: the job's id.
        type: the type that it was submitted with.
        attempt: the attempt's number, from 0.
        payload: what was submitted, as bytes.

    """

    def __init__(
        self,
        wire: _v1.JobSpec,
        token: str = "1.1",
        attempt: int = 0,
        *,
        lease: str = "",
        log: JobLog | None = None,
        progress: Callable[[int, str], None] | None = None,
        parents: Callable[[], Awaitable[Sequence[ParentOutput]]] | None = None,
    ) -> None:
        self.id = wire.id
        self.type = wire.type
        self.attempt = attempt
        self.payload = wire.payload
        self._wire = wire
        self._token = token
        self._lease = lease
        self._log = log
        self._logger: logging.Logger | None = None
        self._progress = progress
        self._parents = parents
        self._lost: LeaseLost | None = None
        self._lost_event = threading.Event()
        self._new_log: Callable[[], JobLog] = JobLog

    @property
    def spec(self) -> JobSpec:
        """All that was submitted."""
        return spec.from_wire(self._wire)

    @property
    def token(self) -> Token:
        """What fences this attempt: pass it on to what the handler writes to."""
        return Token.parse(self._token)

    @property
    def lease(self) -> str:
        """The id of the lease that the attempt runs under."""
        return self._lease

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers that it was submitted with, such as its trace context."""
        return dict(self._wire.headers)

    @property
    def workflow(self) -> tuple[str, str] | None:
        """The workflow that it belongs to and its node there; None where it is no node."""
        flow, slash, node = self.id.partition("/")
        return (flow, node) if slash else None

    @property
    def log(self) -> logging.Logger:
        """A logger of the attempt's own log, which is kept: ``rota job logs`` shows it.

        What it logs goes nowhere else. `JobLogHandler` brings the lines of all loggers there.
        """
        if self._logger is None:
            self._logger = logging.Logger("rota.job", logging.DEBUG)
            self._logger.addHandler(_Handler(self.write_log))
        return self._logger

    def write_log(self, text: str) -> None:
        """Add lines to the attempt's log as they are."""
        if self._log is None:
            self._log = self._new_log()
        self._log.write(text)

    def progress(self, percent: int, note: str = "") -> None:
        """Report 0 to 100 with a note. It never waits: the last of each second is sent."""
        if self._progress is not None:
            self._progress(percent, note)

    async def parents(self) -> Sequence[ParentOutput]:
        """Return what the parents of the job's node put out; none for a job of no workflow."""
        if self.workflow is None or self._parents is None:
            return []
        return await self._parents()

    @property
    def lost(self) -> LeaseLost | None:
        """Why the lease is believed in no more: stop. None while it is."""
        return self._lost

    def raise_if_lost(self) -> None:
        """Raise `LeaseLost` where the lease is lost: what a handler in a thread asks."""
        if self._lost is not None:
            raise self._lost

    def wait_lost(self, timeout: float) -> bool:
        """Wait in a thread, and report whether the lease was lost meanwhile."""
        return self._lost_event.wait(timeout)

    def _lose(self, why: LeaseLost) -> None:
        self._lost = why
        self._lost_event.set()


def current_job() -> Job | None:
    """Return the job whose handler runs this, None outside of one."""
    return _current.get()


class JobLogHandler(logging.Handler):
    """Adds what any logger logs inside of a handler to the log of its attempt.

    ``logging.getLogger().addHandler(rota.JobLogHandler())`` does so for all of them.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record to the attempt that it belongs to, if to any."""
        job = _current.get()
        if job is not None:
            job.write_log(self.format(record))
