"""The errors of rota: one class tree, each class named after what a caller can do about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from .records import JobInfo, Submitted


class RotaError(Exception):
    """An error of the cluster, of the connection to it, or of a value to be sent to it.

    The text names what was refused, the value, the limit, and what to do next.

    Attributes:
        kind: the class of error, such as ``NOT_FOUND``.
        op: the call that failed, such as ``submit``; may be empty.
        subject: the field or the id that was refused; may be empty.
        text: the message, without the call.
        retry_after: seconds to wait before another try; 0 if waiting does not help.
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
    """The call itself is wrong: correct the field that the text names."""

    kind = "INVALID"


class NotFound(RotaError):
    """There is no such job, queue, worker or schedule."""

    kind = "NOT_FOUND"


class Conflict(RotaError):
    """The call conflicts with the present state: read it first."""

    kind = "CONFLICT"


class Stale(RotaError):
    """The lease, the session or the version no longer belongs to the caller."""

    kind = "STALE"


class Mode(RotaError):
    """The cluster's mode does not admit the call."""

    kind = "MODE"


class Exhausted(RotaError):
    """A cap, a rate limit or backpressure refused the call: wait for ``retry_after`` seconds."""

    kind = "EXHAUSTED"


class HeldBack(Exhausted):
    """The client itself refused a submission: the delay that the cluster set is not over."""


class Unavailable(RotaError):
    """No node answered, or the outcome is unknown: try again with the same id."""

    kind = "UNAVAILABLE"


class Timeout(RotaError, TimeoutError):
    """The caller's own time for the call is over."""

    kind = "TIMEOUT"


class OutOfRange(RotaError):
    """The requested data is no longer kept, or does not exist yet."""

    kind = "OUT_OF_RANGE"


class Denied(RotaError):
    """The caller does not have the right to do this."""

    kind = "DENIED"


class Internal(RotaError):
    """A fault of the cluster or of this library."""

    kind = "INTERNAL"


class Unauthenticated(RotaError):
    """The caller sent no valid credential."""

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
    """Return an error of a kind by its name; an unknown kind becomes Internal."""
    return KINDS.get(kind, Internal)(text, op=op, subject=subject, retry_after=retry_after)


class Refused(RotaError):
    """Some jobs of a submission were refused; the others were accepted.

    Attributes:
        jobs: the outcomes of the refused jobs, in the order of submission.
        outcomes: the outcomes of all jobs, in the order of submission.
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
    """An awaited job ended in a state other than COMPLETED.

    Attributes:
        job: the job as it ended; see its state, reason, error and attempts.
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
    """A worker had to stop before the cluster accepted the outcomes of some jobs.

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
    """Why a handler was cancelled: see ``job.lost``.

    Attributes:
        reason: the cluster's reason, such as ``CANCELLED``; empty if the handler ended by the
            worker's own view of time, but ``TIMED_OUT`` if that was at ``max_runtime``.
        revoked: the lease is not over before the handler has returned.
    """

    def __init__(self, job: str, text: str, *, reason: str = "", revoked: bool = False) -> None:
        super().__init__(f"lease of job {job} lost: {text}" + (f" ({reason})" if reason else ""))
        self.job = job
        self.text = text
        self.reason = reason
        self.revoked = revoked
