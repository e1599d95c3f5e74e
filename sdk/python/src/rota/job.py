"""One attempt of a job, as its handler sees it."""

from __future__ import annotations

import contextvars
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

from . import _costs, _v1, spec
from ._costs import Amount
from ._joblog import JobLog
from .errors import LeaseLost
from .records import ParentOutput
from .spec import JobSpec

_current: contextvars.ContextVar[Job | None] = contextvars.ContextVar("rota_job", default=None)


class Token(NamedTuple):
    """Fencing token of an attempt: it is greater than that of any earlier lease.

    A system that remembers the last token it saw can reject an older one. Its text is the form that
    other clients show, and tokens compare: ``Token.parse(text) > seen``.
    """

    incarnation: int
    counter: int

    def __str__(self) -> str:
        return f"{self.incarnation}.{self.counter}"

    @classmethod
    def parse(cls, text: str) -> Token:
        """Return the token that a text stands for."""
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
        type: the job type.
        attempt: the attempt's number, from 0.
        payload: the submitted payload, as bytes.
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
        spend: Callable[[Mapping[str, int]], None] | None = None,
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
        self._spend = spend
        self._spent: Mapping[str, int] = {}
        self._spent_lock = threading.Lock()
        self._parents = parents
        self._lost: LeaseLost | None = None
        self._lost_event = threading.Event()
        self._new_log: Callable[[], JobLog] = JobLog

    @property
    def spec(self) -> JobSpec:
        """The job as it was submitted."""
        return spec.from_wire(self._wire)

    @property
    def token(self) -> Token:
        """The attempt's fencing token: pass it to every system that the handler writes to."""
        return Token.parse(self._token)

    @property
    def lease(self) -> str:
        """The id of the lease that the attempt runs under."""
        return self._lease

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers that the job was submitted with, such as its trace context."""
        return dict(self._wire.headers)

    @property
    def workflow(self) -> tuple[str, str] | None:
        """The job's workflow and its node there; None for a job outside of workflows."""
        flow, slash, node = self.id.partition("/")
        return (flow, node) if slash else None

    @property
    def log(self) -> logging.Logger:
        """A logger of the attempt's own log, which is kept: ``rota job logs`` shows it.

        Its records go nowhere else. `JobLogHandler` adds the records of all loggers to that log.
        """
        if self._logger is None:
            self._logger = logging.Logger("rota.job", logging.DEBUG)
            self._logger.addHandler(_Handler(self.write_log))
        return self._logger

    def write_log(self, text: str) -> None:
        """Add lines to the attempt's log unchanged."""
        if self._log is None:
            self._log = self._new_log()
        self._log.write(text)

    def progress(self, percent: int, note: str = "") -> None:
        """Report 0 to 100 with a note. It never blocks: the last report of each second is sent."""
        if self._progress is not None:
            self._progress(percent, note)

    def spend(self, name: str, total: Amount) -> None:
        """Report how much the attempt has used of a cost so far, rounded to millionths.

        The total replaces the estimate in the job's ``costs``, and is kept with the job. It never
        blocks: the last totals of each second are sent, and the final ones with the outcome. Raises
        `Invalid`, and changes nothing, for a total that is less than an earlier one, out of range,
        or that of a ninth cost.
        """
        with self._spent_lock:  # until it is passed on: a later call has greater totals
            self._spent = _costs.spend(self._spent, name, total)
            if self._spend is not None:
                self._spend(self._spent)

    @property
    def spent(self) -> Mapping[str, Decimal]:
        """The totals that the attempt has reported."""
        return _costs.costs_from_wire(self._spent)

    async def parents(self) -> Sequence[ParentOutput]:
        """Return the outputs of the parents of the job's node; none outside of workflows."""
        if self.workflow is None or self._parents is None:
            return []
        return await self._parents()

    @property
    def lost(self) -> LeaseLost | None:
        """Why the lease was lost, which means: stop. None while it is valid."""
        return self._lost

    def raise_if_lost(self) -> None:
        """Raise `LeaseLost` if the lease is lost: for handlers in threads."""
        if self._lost is not None:
            raise self._lost

    def wait_lost(self, timeout: float) -> bool:
        """Wait in a thread, and report whether the lease was lost meanwhile."""
        return self._lost_event.wait(timeout)

    def _lose(self, why: LeaseLost) -> None:
        self._lost = why
        self._lost_event.set()


def current_job() -> Job | None:
    """Return the job whose handler runs this code, None outside of handlers."""
    return _current.get()


class JobLogHandler(logging.Handler):
    """Adds the records that any logger logs inside of a handler to the log of its attempt.

    ``logging.getLogger().addHandler(rota.JobLogHandler())`` does so for all of them.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record to the attempt that it belongs to, if any."""
        job = _current.get()
        if job is not None:
            job.write_log(self.format(record))
