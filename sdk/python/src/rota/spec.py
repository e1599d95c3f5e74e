"""What is submitted: a job, its uniqueness, and its retries."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypedDict

from . import _v1
from ._costs import Amount, costs_from_wire, costs_to_wire
from ._values import Span, from_ms, from_unix_ms, to_ms, to_unix_ms
from .errors import Invalid

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True)
class Unique:
    """The uniqueness key of a job, and what happens to a submission that conflicts with it.

    Attributes:
        by: the parts of the job that make the key: ``queue``, ``type``, ``args`` (the payload).
        key: your own key, instead of ``by``.
        period: divides time into buckets, counted from 1970, within which the key holds.
        scope: the phases in which a job holds its key: ``PENDING``, ``RUNNING``, ``COMPLETED``;
            by default the first two.
        keep: how long a completed job holds its key, with ``COMPLETED`` in the scope.
        on_conflict: ``refuse``, ``existing``, ``replace``, ``extend``, ``after`` or ``collect``.
        extend_max: the longest that ``extend`` or ``collect`` delays the holder, counted from the
            holder's submission.
    """

    by: Sequence[str] = ()
    key: str = ""
    period: Span | None = None
    scope: Sequence[str] = ()
    keep: Span | None = None
    on_conflict: str = ""
    extend_max: Span | None = None

    def _wire(self) -> _v1.Unique:
        return _v1.Unique(
            key=self.key, by=self.by, period_ms=to_ms(self.period), scope=self.scope,
            keep_ms=to_ms(self.keep), on_conflict=self.on_conflict,
            extend_max_ms=to_ms(self.extend_max),
        )  # fmt: skip


@dataclass(frozen=True)
class Retry:
    """A job's own retry settings; None leaves a setting to the queue.

    Attributes:
        attempts: how many attempts it has, 1 to 1,000.
        base: the wait after the first failure.
        factor: what each further wait is multiplied by, 1 to 1,000.
        cap: the longest wait.
        jitter: the maximum ratio by which a wait is longer or shorter, 0 (none) to 1.
    """

    attempts: int | None = None
    base: Span | None = None
    factor: float | None = None
    cap: Span | None = None
    jitter: float | None = None

    def _permille(self) -> tuple[int, int]:
        """Return factor and jitter in thousandths: 0 for the queue's, -1 for no jitter."""
        for name, value, least, most in (
            ("factor", self.factor, 1, 1_000),
            ("jitter", self.jitter, 0, 1),
        ):
            if value is not None and not least <= value <= most:
                raise Invalid(
                    f"retry.{name} must be between {least} and {most}, got {value}",
                    subject=f"retry.{name}",
                )
        factor = 0 if self.factor is None else round(self.factor * 1000)
        if self.jitter is None:
            return factor, 0
        return factor, -1 if self.jitter == 0 else max(1, round(self.jitter * 1000))


class JobOptions(TypedDict, total=False):
    """The options of a job besides its type and its value."""

    id: str
    queue: str
    tenant: str
    priority: int
    delay: Span
    at: datetime
    ttl: Span
    start_by: Span
    max_runtime: Span
    retry: Retry | int
    keys: Mapping[str, str] | Sequence[str]
    unique: Unique
    requires: Sequence[str]
    labels: Mapping[str, str]
    batch: str
    expected: Span
    data_keys: Sequence[str]
    cpu_milli: int
    memory_bytes: int
    io_bytes_per_s: int
    limits: Mapping[str, int]
    worker: str
    zone: str
    domain: str
    regions_allow: Sequence[str]
    regions_deny: Sequence[str]
    fee: int
    size_bytes: int
    units: int
    expected_digest: bytes
    retry_on_invalid_proof: bool
    headers: Mapping[str, str]
    costs: Mapping[str, Amount]


@dataclass(frozen=True)
class JobSpec:
    """A job to be submitted. `rota.define` creates typed ones.

    Attributes:
        type: selects the handler.
        payload: the handler's input, at most 256 KiB.
        id: submitting the same id again creates no second job; by default a new one.
        at: delays it until a date; ``delay`` by a duration.
        ttl: makes it expire if it has not ended within this time of its submission.
        start_by: makes it expire if no worker has it within this time of its submission.
        max_runtime: bounds an attempt, at least 3 s.
        keys: what it shares with others, name and value: rules limit how many jobs of a key run
            at once, their rate, or their order.
        costs: how much it is expected to use by name, such as tokens of a model or money, with at
            most six fraction digits: rules with a ``unit`` count it.
    """

    type: str
    payload: bytes = b""
    id: str = ""
    queue: str = ""
    tenant: str = ""
    priority: int | None = None
    delay: Span | None = None
    at: datetime | None = None
    ttl: Span | None = None
    start_by: Span | None = None
    max_runtime: Span | None = None
    retry: Retry | int | None = None
    keys: Mapping[str, str] | Sequence[str] = ()
    unique: Unique | None = None
    requires: Sequence[str] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    batch: str = ""
    expected: Span | None = None
    data_keys: Sequence[str] = ()
    cpu_milli: int = 0
    memory_bytes: int = 0
    io_bytes_per_s: int = 0
    limits: Mapping[str, int] = field(default_factory=dict)
    worker: str = ""
    zone: str = ""
    domain: str = ""
    regions_allow: Sequence[str] = ()
    regions_deny: Sequence[str] = ()
    fee: int = 0
    size_bytes: int = 0
    units: int = 0
    expected_digest: bytes = b""
    retry_on_invalid_proof: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
    costs: Mapping[str, Amount] = field(default_factory=dict)

    def with_options(self, **options: Unpack[JobOptions]) -> JobSpec:
        """Return the job with other options; labels, headers and costs are added to its own."""
        return merged(self, options)


# Options that add to those of the job instead of replacing them.
_ADDED = ("labels", "headers", "costs")


def merged(spec: JobSpec, options: JobOptions) -> JobSpec:
    """Return a spec with options applied over its own."""
    changes: dict[str, Any] = dict(options)
    for name in _ADDED:
        if name in changes:
            changes[name] = {**getattr(spec, name), **changes[name]}
    for name in changes:
        if name not in JobOptions.__annotations__:
            near = difflib.get_close_matches(name, JobOptions.__annotations__, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise Invalid(f"a job has no option {name}{hint}", subject=name)
    return replace(spec, **changes)


def _keys(keys: Mapping[str, str] | Sequence[str]) -> Iterable[str]:
    if isinstance(keys, str):
        raise Invalid(
            f'keys: got {keys!r}; use a mapping of names to values, such as {{"album": "7"}}',
            subject="keys",
        )
    return [f"{k}:{v}" for k, v in keys.items()] if isinstance(keys, Mapping) else keys


def to_wire(s: JobSpec) -> _v1.JobSpec:
    """Return a job as a protocol message; raise an error for a value that does not fit."""
    retry = Retry(attempts=s.retry) if isinstance(s.retry, int) else s.retry or Retry()
    factor, jitter = retry._permille()
    try:
        return _v1.JobSpec(
            id=s.id, queue=s.queue, type=s.type, tenant=s.tenant, priority=s.priority,
            fee=s.fee, size_bytes=s.size_bytes, payload=s.payload, delay_ms=to_ms(s.delay),
            not_before_ms=to_unix_ms(s.at, "at"), ttl_ms=to_ms(s.ttl),
            start_by_ms=to_ms(s.start_by), max_runtime_ms=to_ms(s.max_runtime),
            cpu_milli=s.cpu_milli, memory_bytes=s.memory_bytes, io_bytes_per_s=s.io_bytes_per_s,
            requires=s.requires, regions_allow=s.regions_allow, regions_deny=s.regions_deny,
            zone=s.zone, domain=s.domain, worker=s.worker, expected_digest=s.expected_digest,
            units=s.units, labels=s.labels, limits=s.limits, expected_ms=to_ms(s.expected),
            retry_on_invalid_proof=s.retry_on_invalid_proof, data_keys=s.data_keys,
            keys=_keys(s.keys), batch=s.batch, retry_attempts=retry.attempts or 0,
            retry_base_ms=to_ms(retry.base), retry_factor_permille=factor,
            retry_cap_ms=to_ms(retry.cap), retry_jitter_permille=jitter,
            unique=s.unique._wire() if s.unique is not None else None,
            headers=s.headers, costs=costs_to_wire(s.costs),
        )  # fmt: skip
    except (TypeError, ValueError) as e:
        raise Invalid(f"job {s.id or s.type!r} is refused: {e}", subject="spec") from e


def from_wire(w: _v1.JobSpec) -> JobSpec:
    """Return a job read from a protocol message."""
    u = w.unique
    retry = Retry(
        w.retry_attempts or None, from_ms(w.retry_base_ms),
        w.retry_factor_permille / 1000 or None, from_ms(w.retry_cap_ms),
        0.0 if w.retry_jitter_permille < 0 else w.retry_jitter_permille / 1000 or None,
    )  # fmt: skip
    return JobSpec(
        type=w.type, payload=w.payload, id=w.id, queue=w.queue, tenant=w.tenant,
        priority=w.priority if w.HasField("priority") else None, delay=from_ms(w.delay_ms),
        at=from_unix_ms(w.not_before_ms), ttl=from_ms(w.ttl_ms), start_by=from_ms(w.start_by_ms),
        max_runtime=from_ms(w.max_runtime_ms), retry=None if retry == Retry() else retry,
        keys=tuple(w.keys), requires=tuple(w.requires), labels=dict(w.labels), batch=w.batch,
        unique=Unique(
            tuple(u.by), u.key, from_ms(u.period_ms), tuple(u.scope), from_ms(u.keep_ms),
            u.on_conflict, from_ms(u.extend_max_ms),
        ) if w.HasField("unique") else None,
        expected=from_ms(w.expected_ms), data_keys=tuple(w.data_keys), cpu_milli=w.cpu_milli,
        memory_bytes=w.memory_bytes, io_bytes_per_s=w.io_bytes_per_s, limits=dict(w.limits),
        worker=w.worker, zone=w.zone, domain=w.domain, regions_allow=tuple(w.regions_allow),
        regions_deny=tuple(w.regions_deny), fee=w.fee, size_bytes=w.size_bytes, units=w.units,
        expected_digest=w.expected_digest, retry_on_invalid_proof=w.retry_on_invalid_proof,
        headers=dict(w.headers), costs=costs_from_wire(w.costs),
    )  # fmt: skip
