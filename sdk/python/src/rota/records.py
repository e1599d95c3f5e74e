"""Answers of the cluster: jobs, attempts and outcomes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from . import _v1, spec
from ._costs import costs_from_wire
from ._rpc import from_refusal
from ._values import from_ms, from_unix_ms
from .errors import RotaError
from .spec import JobSpec

# : The states in which a job has ended.
TERMINAL = frozenset({"COMPLETED", "DEAD", "EXPIRED", "CANCELLED"})


@dataclass(frozen=True)
class Submitted:
    """The outcome of one submission.

    Attributes:
        existed: the same job was already known.
        error: why it was refused; None if it was accepted.
        throttle: it was accepted, and the producer is asked to slow down.
        holder: the job that it was merged into, which holds its key.
        merge: what happened to the payload of a merged job: ``TAKEN``, or why it was dropped.
        index: a read of at least this index sees it.
    """

    id: str
    state: str = ""
    existed: bool = False
    error: RotaError | None = None
    throttle: bool = False
    holder: str = ""
    index: int = 0
    merge: str = ""


@dataclass(frozen=True)
class JobOutcome:
    """The outcome of one change of a job."""

    id: str
    state: str = ""
    error: RotaError | None = None
    index: int = 0

    @classmethod
    def _of(cls, w: _v1.JobOutcome) -> JobOutcome:
        error = from_refusal(w.refusal) if w.HasField("refusal") else None
        return cls(w.id, w.state, error, w.index)


@dataclass(frozen=True)
class Attempt:
    """One attempt of a job; ``end`` is empty while it runs."""

    attempt: int
    life: int
    worker: str
    lease: str
    token: str
    renewals: int
    end: str
    error: str
    logged: bool
    started: datetime | None
    acked: datetime | None
    ended: datetime | None

    @classmethod
    def _of(cls, w: _v1.Attempt) -> Attempt:
        return cls(
            w.attempt, w.life, w.worker, w.lease_id.hex(), w.token, w.renewals, w.end, w.error,
            w.log, from_unix_ms(w.started_ms), from_unix_ms(w.acked_ms), from_unix_ms(w.ended_ms),
        )  # fmt: skip


@dataclass(frozen=True)
class LeaseInfo:
    """The current lease of a job."""

    id: str
    token: str
    worker: str
    attempt: int
    state: str
    renewals: int
    revoked: str
    started: datetime | None
    deadline: datetime | None

    @classmethod
    def _of(cls, w: _v1.Lease) -> LeaseInfo:
        return cls(
            w.id.hex(), w.token, w.worker, w.attempt, w.state, w.renewals, w.revoked,
            from_unix_ms(w.started_ms), from_unix_ms(w.deadline_ms),
        )  # fmt: skip


@dataclass(frozen=True)
class JobInfo:
    """A job as the cluster knows it.

    Attributes:
        state: BLOCKED, DELAYED, QUEUED, ASSIGNED, RUNNING, COMPLETED, DEAD, EXPIRED or CANCELLED.
        reason: why it ended, or why it waits.
        error: the error of its last attempt.
        progress: 0 to 100, with a note.
        output: what its handler returned, as bytes.
        spent: the totals that all its attempts have reported, by the names of costs.
        life: how often it was retried; changes: how often it was changed since then.
        unique_holder: the job that holds its key.
    """

    id: str
    spec: JobSpec
    state: str
    attempt: int
    reason: str
    error: str
    progress: int
    progress_note: str
    output: bytes
    output_digest: bytes
    record_dropped: bool
    meta: Mapping[str, str]
    spent: Mapping[str, Decimal]
    attempts: tuple[Attempt, ...]
    lease: LeaseInfo | None
    life: int
    changes: int
    fingerprint: str
    unique_holder: str
    submitted: datetime | None
    first_lease: datetime | None
    finished: datetime | None
    due: datetime | None
    expires: datetime | None

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self.state in TERMINAL

    @classmethod
    def _of(cls, w: _v1.Job) -> JobInfo:
        return cls(
            id=w.spec.id, spec=spec.from_wire(w.spec), state=w.state, attempt=w.attempt,
            reason=w.reason, error=w.error, progress=w.progress, progress_note=w.progress_note,
            output=w.output, output_digest=w.output_digest, record_dropped=w.record_dropped,
            meta=dict(w.meta), spent=costs_from_wire(w.spent),
            attempts=tuple(Attempt._of(a) for a in w.attempts),
            lease=LeaseInfo._of(w.lease) if w.HasField("lease") else None, life=w.life,
            changes=w.changes, fingerprint=w.fingerprint.hex(), unique_holder=w.unique_holder,
            submitted=from_unix_ms(w.submitted_ms), first_lease=from_unix_ms(w.first_lease_ms),
            finished=from_unix_ms(w.finished_ms), due=from_unix_ms(w.due_ms),
            expires=from_unix_ms(w.expires_ms),
        )  # fmt: skip


@dataclass(frozen=True)
class JobGroup:
    """Dead jobs with the same error, and one of them."""

    fingerprint: str
    count: int
    job: str
    type: str
    reason: str
    error: str


@dataclass(frozen=True)
class JobCount:
    """How many jobs a filter selects; if incomplete, ``cursor`` continues the count."""

    count: int
    groups: tuple[JobGroup, ...]
    complete: bool
    cursor: str

    @classmethod
    def _of(cls, w: _v1.JobCount) -> JobCount:
        groups = tuple(
            JobGroup(g.fingerprint.hex(), g.count, g.job, g.type, g.reason, g.error)
            for g in w.groups
        )
        return cls(w.count, groups, w.complete, w.next_cursor)


@dataclass(frozen=True)
class LogPart:
    """A part of an attempt's log: whole lines, and how many bytes before them are not kept."""

    at: int
    cut_lines: int
    text: bytes

    @property
    def end(self) -> int:
        """The position of its end in the log, in bytes."""
        return self.at + len(self.text)


@dataclass(frozen=True)
class AttemptLog:
    """The log of an attempt; ``open`` means that more may follow."""

    job: str
    attempt: int
    lease: str
    worker: str
    open: bool
    parts: tuple[LogPart, ...]

    @property
    def text(self) -> str:
        """The whole kept log, with a line in place of each gap."""
        pieces = []
        for p in self.parts:
            if p.cut_lines:
                pieces.append(f"[{p.cut_lines} lines were cut]\n")
            pieces.append(p.text.decode("utf-8", "replace"))
        return "".join(pieces)

    @classmethod
    def _of(cls, job: str, w: _v1.JobLogResponse) -> AttemptLog:
        parts = tuple(LogPart(p.at, p.cut_lines, p.text) for p in w.parts)
        return cls(job, w.attempt, w.lease_id.hex(), w.worker, w.open, parts)


@dataclass(frozen=True)
class WhyReason:
    """One reason why a job waits, and how many workers it applies to."""

    reason: str
    workers: int
    detail: str


@dataclass(frozen=True)
class Why:
    """Why a job does not run, and what would make it run."""

    job: str
    state: str
    reasons: tuple[WhyReason, ...]
    would_run_if: tuple[str, ...]
    unique_holder: str

    @classmethod
    def _of(cls, w: _v1.Explanation) -> Why:
        reasons = tuple(WhyReason(r.reason, r.workers, r.detail) for r in w.reasons)
        return cls(w.job, w.state, reasons, tuple(w.would_run_if), w.unique_holder)


@dataclass(frozen=True)
class HangsOn:
    """Jobs of a tenant that come before another job: at a worker, or pending.

    A tenant ``""`` is one that the caller may not read.
    """

    tenant: str
    jobs: int
    running: bool
    worker: str


@dataclass(frozen=True)
class Eta:
    """When a job should start.

    Dates are in ms since 1970, 0 for none: ``reasons`` then has what prevents a start. At least 9
    of 10 jobs should start from ``earliest_start_ms`` to ``latest_start_ms``.
    """

    job: str
    state: str
    started_ms: int
    expected_start_ms: int
    earliest_start_ms: int
    latest_start_ms: int
    hangs_on: tuple[HangsOn, ...]
    basis: tuple[str, ...]
    reasons: tuple[WhyReason, ...]
    would_run_if: tuple[str, ...]

    @classmethod
    def _of(cls, w: _v1.JobEta) -> Eta:
        return cls(
            w.job, w.state, w.started_ms, w.expected_start_ms, w.earliest_start_ms,
            w.latest_start_ms,
            tuple(HangsOn(h.tenant, h.jobs, h.running, h.worker) for h in w.hangs_on),
            tuple(w.basis),
            tuple(WhyReason(r.reason, r.workers, r.detail) for r in w.reasons),
            tuple(w.would_run_if),
        )  # fmt: skip


@dataclass(frozen=True)
class Event:
    """One event. ``data`` depends on its kind; it is a JSON object as text."""

    id: str
    kind: str
    job: str
    type: str
    queue: str
    tenant: str
    worker: str
    attempt: int
    reason: str
    status: str
    actor: str
    date: datetime | None
    data: str

    @classmethod
    def _of(cls, w: _v1.ServedEvent) -> Event:
        return cls(
            w.event_id, w.kind, w.job, w.type, w.queue, w.tenant, w.worker, w.attempt, w.reason,
            w.status, w.actor, from_unix_ms(w.date_ms), w.payload,
        )  # fmt: skip


@dataclass(frozen=True)
class WorkerInfo:
    """A worker as the cluster sees it."""

    id: str
    status: str
    load: str
    queues: tuple[str, ...]
    types: tuple[str, ...]
    slots: int
    open_leases: int
    health: int
    completed: int
    failed: int

    @classmethod
    def _of(cls, w: _v1.Worker) -> WorkerInfo:
        return cls(
            w.spec.id, w.status, w.load, tuple(w.spec.queues), tuple(w.spec.types), w.spec.slots,
            w.open_leases, w.health, w.completed_total, w.failed_total,
        )  # fmt: skip


@dataclass(frozen=True)
class SettingChange:
    """A setting that would change.

    Attributes:
        key: of the setting.
        before: its present value; empty if it is not set yet.
        after: its new value; empty if it would be removed.
    """

    key: str
    before: str
    after: str


@dataclass(frozen=True)
class QueueInfo:
    """A queue with its whole policy and its counts."""

    name: str
    preset: str
    policy: Mapping[str, str]
    pending: int
    blocked: int
    delayed: int
    queued: int
    assigned: int
    running: int
    workers: int
    backpressure: str
    oldest_wait: timedelta | None
    # : The version of its settings, for ``if_match``.
    etag: str
    # : What the call would change; only set in the answer to a dry run.
    changes: tuple[SettingChange, ...]

    @classmethod
    def _of(cls, w: _v1.Queue) -> QueueInfo:
        return cls(
            w.name, w.preset, {s.key: s.value for s in w.policy}, w.pending, w.blocked, w.delayed,
            w.queued, w.assigned, w.running, w.workers, w.backpressure, from_ms(w.oldest_wait_ms),
            w.etag, tuple(SettingChange(c.key, getattr(c, "from"), c.to) for c in w.changes),
        )  # fmt: skip


@dataclass(frozen=True)
class ParentOutput:
    """The output of a parent of a workflow's node; a parent that did not complete has none."""

    node: str
    job: str
    output: bytes
    state: str = "COMPLETED"
