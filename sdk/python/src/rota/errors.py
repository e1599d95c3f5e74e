"""The errors of rota: one tree, each class named after what a caller can do about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from .records import JobInfo, Submitted


class RotaError(Exception):
    """An error of the cluster, of the way to it, or of a value that was to be sent there.

    The text says what was refused, which value, which limit, and what to do next.

    Attributes:
        kind: what can be done about it, such as ``NOT_FOUND``.
        op: the call that it ended, such as ``submit``; may be empty.
        subject: the field or the id that was refused; may be empty.
        text: the sentence, without the call.
        retry_after: seconds to wait before another try; 0 where waiting does not help.

    """

    kind: ClassVar[str] = "INTERNAL"

    def __init__(
        self, text: str, *, op: str = "", subject: str = "", retry_after: float = 0.0
    ) -> None:
        super().__init__(text)
        self.text = text
        self.op = op
        self.subject = subject
        self.retry_after = retry_after

    def __str__(self) -> str:
        return f"{self.op}: {self.text}" if self.op else self.text

    def __reduce__(self) -> tuple[object, ...]:
        return _again, (type(self), self.text, self.__dict__)


def _again(cls: type[RotaError], text: str, state: dict[str, object]) -> RotaError:
    e = cls.__new__(cls)
    Exception.__init__(e, text)
    e.__dict__.update(state)
    return e


class Invalid(RotaError):
    """The call is wrong in itself: correct the field that the text names."""

    kind = "INVALID"


class NotFound(RotaError):
    """There is no such job, queue, worker, schedule."""

    kind = "NOT_FOUND"


class Conflict(RotaError):
    """It clashes with what is there: look first."""

    kind = "CONFLICT"


class Stale(RotaError):
    """The lease, the session or the version meant is no longer the caller's."""

    kind = "STALE"


class Mode(RotaError):
    """The cluster's mode does not admit it."""

    kind = "MODE"


class Exhausted(RotaError):
    """A cap, a rate or backpressure refused it: wait for ``retry_after`` seconds."""

    kind = "EXHAUSTED"


class HeldBack(Exhausted):
    """This client refused a submission itself: the delay that the cluster named is not over."""


class Unavailable(RotaError):
    """No node answered, or the outcome is unknown: try again with the same id."""

    kind = "UNAVAILABLE"


class Timeout(RotaError, TimeoutError):
    """The caller's own waiting time is over."""

    kind = "TIMEOUT"


class OutOfRange(RotaError):
    """What was asked for is no longer kept, or still to come."""

    kind = "OUT_OF_RANGE"


class Denied(RotaError):
    """This caller may not do it."""

    kind = "DENIED"


class Internal(RotaError):
    """A fault of the cluster or of this library."""

    kind = "INTERNAL"


class Unauthenticated(RotaError):
    """The caller showed no credential that counts."""

    kind = "UNAUTHENTICATED"


KINDS: dict[str, type[RotaError]] = {
    e.kind: e
    for e in (
        Invalid, NotFound, Conflict, Stale, Mode, Exhausted, Unavailable, Timeout, OutOfRange,
        Denied, Internal, Unauthenticated,
    )
}  # fmt: skip


def of_kind(
    kind: str, text: str, *, op: str = "", subject: str = "", retry_after: float = 0.0
) -> RotaError:
    """Return an error of a kind by its name; one that is not known is Internal."""
    return KINDS.get(kind, Internal)(text, op=op, subject=subject, retry_after=retry_after)


class Refused(RotaError):
    """Some jobs of a submission were refused; the others were taken.

    Attributes:
        jobs: the outcomes of those that were refused, in the order of submission.
        outcomes: the outcomes of all, in the order of submission.

    """

    def __init__(self, outcomes: Sequence[Submitted]) -> None:
        jobs = [o for o in outcomes if o.error is not None]
        first = jobs[0].error
        assert first is not None
        who = f"job {jobs[0].id} is refused"
        if len(outcomes) > 1:
            who = f"{len(jobs)} of {len(outcomes)} jobs are refused, first {jobs[0].id}"
        super().__init__(
            f"{who}: {first.text}",
            op="submit",
            subject=first.subject,
            retry_after=first.retry_after,
        )
        self.kind = first.kind  # type: ignore[misc] # that of the first refusal
        self.jobs = tuple(jobs)
        self.outcomes = tuple(outcomes)


class JobFailed(RotaError):
    """A job that was waited for ended otherwise than COMPLETED.

    Attributes:
        job: the job as it ended; its state, reason, error and attempts say how.

    """

    kind = "CONFLICT"

    def __init__(self, job: JobInfo) -> None:
        text = f"job {job.id} is {job.state}"
        if job.reason and job.reason != job.state:
            text += f" ({job.reason})"
        if job.error:
            text += f": {job.error}"
        super().__init__(text, subject=job.id)
        self.job = job


class Unreported(Unavailable):
    """A worker had to stop before the cluster took the outcomes of some jobs.

    Attributes:
        jobs: the ids of those jobs. Their leases run out, and they run again.

    """

    def __init__(self, jobs: Sequence[str]) -> None:
        named = ", ".join(jobs[:50])
        more = f" and {len(jobs) - 50} more" if len(jobs) > 50 else ""
        noun = "job" if len(jobs) == 1 else "jobs"
        super().__init__(
            f"the cluster did not take the outcome of {len(jobs)} {noun}, which may run again: "
            f"{named}{more}",
            op="work",
        )
        self.jobs = tuple(jobs)


class LeaseLost(Exception):
    """Why a handler was cancelled: ``job.lost`` has it.

    Attributes:
        reason: the cluster's reason, such as ``CANCELLED``; empty where the worker's own view of
            time ended the handler, but ``TIMED_OUT`` where that was at ``max_runtime``.
        revoked: the lease is not over before the handler has returned.

    """

    def __init__(self, job: str, text: str, *, reason: str = "", revoked: bool = False) -> None:
        super().__init__(f"lease of job {job} lost: {text}" + (f" ({reason})" if reason else ""))
        self.job = job
        self.text = text
        self.reason = reason
        self.revoked = revoked
