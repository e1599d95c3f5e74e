"""Queues, keys and their rules, batches, plans and workers, as operators see them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from . import _nodes, _v1
from ._calls import Caller, unary
from ._costs import Amount, from_millionths, to_millionths
from ._ends import await_end
from ._read import Page, ReadOptions, pages, read_of, settings
from ._values import Span, from_unix_ms, new_id, to_ms, to_seconds, to_unix_ms
from .errors import Timeout
from .records import QueueInfo, WorkerInfo
from .spec import JobSpec, to_wire

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Queues:
    """The calls for queues: `Client.queues`."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def set(
        self,
        name: str,
        preset: str = "",
        policy: Mapping[str, Any] | None = None,
        *,
        dry_run: bool = False,
        if_match: str = "",
    ) -> QueueInfo:
        """Create or change a queue: from a preset if one is named, then key by key.

        Durations in a policy are written as on the command line, such as "30s". With ``if_match``,
        the etag of a queue that was read, only that version is changed: a `Conflict` of ``version``
        means that it has been changed since. A ``dry_run`` stores nothing and returns the queue as
        it would be, with ``changes``.
        """
        request = _v1.SetQueueRequest(
            name=name, preset=preset, set=settings(policy or {}), dry_run=dry_run, if_match=if_match
        )
        return QueueInfo._of(await self._caller.ask("set queue", _v1.QUEUES_SET, request))

    async def get(self, name: str, **read: Unpack[ReadOptions]) -> QueueInfo:
        """Read one queue with its policy and counts."""
        request = _v1.GetQueueRequest(name=name, read=read_of(read))
        got = await self._caller.ask("show queue", _v1.QUEUES_GET, request)
        return QueueInfo._of(got.queue)

    def list(self, **read: Unpack[ReadOptions]) -> AsyncIterator[QueueInfo]:
        """List all queues by name."""

        async def ask(how: _v1.Read, most: int, cursor: str) -> Page[_v1.Queue]:
            request = _v1.ListQueuesRequest(read=how, limit=most, cursor=cursor)
            got = await self._caller.ask("list queues", _v1.QUEUES_LIST, request)
            return got.queues, got.next_cursor, got.at

        return pages(read, None, ask, QueueInfo._of)

    async def delete(self, name: str, *, if_match: str = "") -> None:
        """Delete a queue that no live job, workflow, schedule, batch or rule of keys names."""
        request = _v1.DeleteQueueRequest(name=name, if_match=if_match)
        await self._caller.ask("delete queue", _v1.QUEUES_DELETE, request)


@dataclass(frozen=True)
class KeyBreaker:
    """What stops the jobs of a key after failures.

    Attributes:
        trip: this many failures among the last ``of`` outcomes open the key; at most 64.
        of: 0 for ``trip``.
        open: how long no job starts, 30 s by default; twice as long after each failed probe.
        probes: how many jobs may then start, and how many successes close the key; 0 for 1.
        reasons: which ends count as failures, such as ``PROVIDER_FAIL``; none for the usual ones.
    """

    trip: int
    of: int = 0
    open: Span | None = None
    probes: int = 0
    reasons: Sequence[str] = ()


@dataclass(frozen=True)
class KeyRule:
    """Limits on jobs that share a key.

    Attributes:
        name: of the key, such as ``album``; ``value`` if the rule is for one value only.
        queue: the queue that the rule applies to; empty for all queues together.
        scope: ``tenant`` or ``cluster``: within which equal keys count together.
        concurrency: maximum of open leases; 0 for no limit.
        rate: assignments in a period, at most ``burst`` of them at once.
        sequence: ``block`` or ``skip`` runs the jobs one at a time, in order.
        group: the keys of a queue take turns.
        unit: the cost that ``rate`` and ``burst`` count instead of assignments, in whole units.
        default_cost: how much a job without an estimate of it counts; 0 for one unit.
        breaker: stops the jobs of a key after failures.
        refuse_full: refuses submissions whose job could not start now, instead of queueing them.
        etag: the version of a rule that was read; a rule with one replaces only that version.
    """

    name: str
    queue: str = ""
    value: str = ""
    scope: str = ""
    concurrency: int = 0
    rate: int = 0
    period: Span | None = None
    burst: int = 0
    sequence: str = ""
    group: bool = False
    etag: str = ""
    unit: str = ""
    default_cost: Amount = 0
    breaker: KeyBreaker | None = None
    refuse_full: bool = False

    @staticmethod
    def _of(w: _v1.KeyRule) -> KeyRule:
        b = w.breaker
        breaker = KeyBreaker(b.trip, b.of, b.open_ms / 1000, b.probes, tuple(b.reasons))
        return KeyRule(
            w.name, w.queue, w.value, w.scope, w.concurrency, w.rate, w.period_ms / 1000,
            w.burst, w.sequence, w.group, w.etag, w.unit, from_millionths(w.default_cost),
            breaker if w.HasField("breaker") else None, w.refuse_full,
        )  # fmt: skip

    def _wire(self) -> _v1.KeyRule:
        w = _v1.KeyRule(
            queue=self.queue, name=self.name, value=self.value, scope=self.scope,
            concurrency=self.concurrency, rate=self.rate, period_ms=to_ms(self.period),
            burst=self.burst, sequence=self.sequence, group=self.group, unit=self.unit,
            default_cost=to_millionths("default_cost", self.default_cost),
            refuse_full=self.refuse_full, etag=self.etag,
        )  # fmt: skip
        if b := self.breaker:
            w.breaker.CopyFrom(
                _v1.KeyBreaker(
                    trip=b.trip, of=b.of, open_ms=to_ms(b.open), probes=b.probes, reasons=b.reasons
                )
            )
        return w


class Keys:
    """The calls for keys and their rules: `Client.keys`."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def set_rule(self, rule: KeyRule) -> None:
        """Set the limits on jobs that share a key."""
        request = _v1.SetKeyRuleRequest(rule=rule._wire())
        await self._caller.ask("set key rule", _v1.KEYS_SET, request)

    async def delete_rule(
        self, name: str, *, queue: str = "", value: str = "", if_match: str = ""
    ) -> None:
        """Delete a rule; a missing rule is not an error."""
        request = _v1.DeleteKeyRuleRequest(queue=queue, name=name, value=value, if_match=if_match)
        await self._caller.ask("delete key rule", _v1.KEYS_DELETE, request)

    def rules(self, **read: Unpack[ReadOptions]) -> AsyncIterator[KeyRule]:
        """List the rules of keys by queue, name and value."""

        async def ask(how: _v1.Read, most: int, cursor: str) -> Page[_v1.KeyRule]:
            request = _v1.ListKeyRulesRequest(read=how, limit=most, cursor=cursor)
            got = await self._caller.ask("list key rules", _v1.KEYS_LIST, request)
            return got.rules, got.next_cursor, got.at

        return pages(read, None, ask, KeyRule._of)

    async def pause(
        self,
        key: str,
        *,
        queue: str = "",
        tenant: str = "",
        until: datetime | None = None,
        reason: str = "",
    ) -> None:
        """Hold the jobs of a key until a date, at most a year ahead, or until `resume`.

        ``queue`` and ``tenant`` are those in which the key's rule counts it: no queue for the rule
        of all queues, no tenant for the scope of the cluster. The later of two pauses applies.
        """
        request = _v1.PauseKeyRequest(
            queue=queue, tenant=tenant, key=key, reason=reason, until_ms=to_unix_ms(until, "until")
        )
        await self._caller.ask("pause key", _v1.KEYS_PAUSE, request)

    async def resume(self, key: str, *, queue: str = "", tenant: str = "") -> None:
        """End the pause of a key, and close its breaker."""
        request = _v1.ResumeKeyRequest(queue=queue, tenant=tenant, key=key)
        await self._caller.ask("resume key", _v1.KEYS_RESUME, request)


@dataclass(frozen=True)
class Batch:
    """A batch of jobs: OPEN, SEALED or FINISHED, with how its jobs ended."""

    id: str
    state: str
    size: int
    total: int
    live: int
    completed: int
    dead: int
    expired: int
    cancelled: int
    callback: str
    why: str
    finished: datetime | None

    @classmethod
    def _of(cls, w: _v1.Batch) -> Batch:
        return cls(
            w.id, w.state, w.size, w.total, w.live, w.completed, w.dead, w.expired, w.cancelled,
            w.callback, w.why, from_unix_ms(w.finished_ms),
        )  # fmt: skip


class Batches:
    """The calls for batches: `Client.batches`."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def open(
        self,
        callback: JobSpec,
        *,
        id: str = "",  # noqa: A002 # as everywhere
        size: int = 0,
    ) -> Batch:
        """Open a batch; once it is sealed and all its jobs have ended, ``callback`` is submitted.

        Jobs name it by their option ``batch``. With ``size`` it is sealed at that number of jobs.
        """
        request = _v1.OpenBatchRequest(id=id or new_id(), size=size, callback=to_wire(callback))
        return Batch._of(await self._caller.ask("open batch", _v1.BATCHES_OPEN, request))

    async def seal(self, batch: str) -> Batch:
        """Close a batch to further jobs."""
        request = _v1.SealBatchRequest(id=batch)
        return Batch._of(await self._caller.ask("seal batch", _v1.BATCHES_SEAL, request))

    async def get(self, batch: str, **read: Unpack[ReadOptions]) -> Batch:
        """Read one batch."""
        request = _v1.GetBatchRequest(id=batch, read=read_of(read))
        return Batch._of((await self._caller.ask("show batch", _v1.BATCHES_GET, request)).batch)

    async def wait(self, batch: str, timeout: Span | None = None) -> Batch:
        """Return a batch once all its jobs have ended and its callback was submitted."""
        request = _v1.WaitBatchRequest(id=batch)

        async def look() -> Batch | None:
            got = await self.get(batch)
            return got if got.state == "FINISHED" else None

        async def ask(node: _nodes.Node, seconds: float) -> Batch:
            return Batch._of(await unary(node, _v1.BATCHES_WAIT, request, seconds))

        return await await_end(self._caller, "wait batch", f"batch {batch}", ask, look, timeout)


@dataclass(frozen=True)
class Plan:
    """One verb for all jobs that a filter selects: RUNNING, DONE or CANCELLED."""

    id: str
    state: str
    why: str
    done: int
    refused: int
    passed: int
    refusals: tuple[tuple[str, str], ...]

    @classmethod
    def _of(cls, w: _v1.Plan) -> Plan:
        refusals = tuple((r.job, r.text) for r in w.refusals)
        return cls(w.spec.id, w.state, w.why, w.done, w.refused, w.passed, refusals)


class Plans:
    """The calls for plans: `Client.plans`."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def start(
        self,
        verb: str,
        filter: str,  # noqa: A002 # what it is called everywhere
        *,
        id: str = "",  # noqa: A002 # as everywhere
        to: str = "",
        priority: int | None = None,
        most: int = 0,
    ) -> Plan:
        """Start a plan: ``cancel``, ``retry``, ``delete``, ``move`` or ``reprioritise``."""
        request = _v1.PlanSpec(
            id=id or new_id(), verb=verb, filter=filter, to=to, priority=priority, max=most
        )
        return Plan._of(await self._caller.ask("start plan", _v1.PLANS_START, request))

    async def preview(self, verb: str, filter: str) -> tuple[int, Sequence[str]]:  # noqa: A002
        """Return how many jobs a plan would go through, and the first of them."""
        request = _v1.PlanSpec(id=new_id(), verb=verb, filter=filter)
        got = await self._caller.ask("preview plan", _v1.PLANS_PREVIEW, request)
        return got.count, list(got.jobs)

    async def get(self, plan: str, **read: Unpack[ReadOptions]) -> Plan:
        """Read one plan."""
        request = _v1.GetPlanRequest(id=plan, read=read_of(read))
        return Plan._of((await self._caller.ask("show plan", _v1.PLANS_GET, request)).plan)

    async def wait(self, plan: str, timeout: Span | None = None) -> Plan:
        """Return a plan once it no longer runs."""
        deadline = None if timeout is None else time.monotonic() + to_seconds(timeout)
        while (got := await self.get(plan)).state == "RUNNING":
            if deadline is not None and time.monotonic() >= deadline:
                raise Timeout(f"plan {plan} runs still", op="wait plan", subject="plan")
            await asyncio.sleep(0.25)
        return got

    async def cancel(self, plan: str, reason: str) -> Plan:
        """Stop a plan; what it has done stays."""
        request = _v1.CancelPlanRequest(id=plan, reason=reason)
        return Plan._of(await self._caller.ask("cancel plan", _v1.PLANS_CANCEL, request))


class Workers:
    """The calls that manage workers, wherever these run: `Client.workers`."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def get(self, worker: str, **read: Unpack[ReadOptions]) -> WorkerInfo:
        """Read one worker."""
        request = _v1.GetWorkerRequest(id=worker, read=read_of(read))
        got = await self._caller.ask("show worker", _v1.WORKERS_GET, request)
        return WorkerInfo._of(got.worker)

    def list(self, **read: Unpack[ReadOptions]) -> AsyncIterator[WorkerInfo]:
        """List all workers by id."""

        async def ask(how: _v1.Read, most: int, cursor: str) -> Page[_v1.Worker]:
            request = _v1.ListWorkersRequest(read=how, limit=most, cursor=cursor)
            got = await self._caller.ask("list workers", _v1.WORKERS_LIST, request)
            return got.workers, got.next_cursor, got.at

        return pages(read, None, ask, WorkerInfo._of)

    async def drain(self, worker: str) -> WorkerInfo:
        """Let a worker keep its leases and get no new one."""
        request = _v1.DrainWorkerRequest(id=worker)
        return WorkerInfo._of(await self._caller.ask("drain worker", _v1.WORKERS_DRAIN, request))

    async def suspend(self, worker: str) -> WorkerInfo:
        """Cancel a worker's leases, whose jobs are queued again, and give it none."""
        request = _v1.SuspendWorkerRequest(id=worker)
        return WorkerInfo._of(
            await self._caller.ask("suspend worker", _v1.WORKERS_SUSPEND, request)
        )

    async def resume(self, worker: str) -> WorkerInfo:
        """Make a DRAINING or SUSPENDED worker ACTIVE again."""
        request = _v1.ResumeWorkerRequest(id=worker)
        return WorkerInfo._of(await self._caller.ask("resume worker", _v1.WORKERS_RESUME, request))

    async def retire(self, worker: str) -> WorkerInfo:
        """Retire a worker for good; its leases are cancelled."""
        request = _v1.RetireWorkerRequest(id=worker)
        return WorkerInfo._of(await self._caller.ask("retire worker", _v1.WORKERS_RETIRE, request))
