"""The client: submits, reads and changes jobs through any node of a cluster."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from types import EllipsisType
from typing import TYPE_CHECKING

import grpc

from . import _trace, _v1
from ._calls import Caller, answers, retry_delay, same_count, unary
from ._nodes import TLS, Node, TokenFile, TokenSource, nodes_of
from ._read import Page, ReadOptions, pages, read_of
from ._rpc import from_refusal
from ._submit import BATCH_JOBS, Restraint, Submission
from ._values import Span, parse_seconds, to_ms, to_seconds
from ._waits import Waits
from .budgets import Budgets
from .errors import Invalid, NotFound, RotaError, Timeout, Unavailable
from .queues import Batches, Keys, Plans, Queues, Workers
from .records import TERMINAL, AttemptLog, Eta, Event, JobCount, JobInfo, JobOutcome, Submitted, Why
from .schedules import Schedules
from .spec import JobSpec
from .workflows import Workflows

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

DEFAULT_ADDRESS = "127.0.0.1:6470"
# How often a followed log is read, in seconds: workers send new output every 2 s.
_FOLLOW_EVERY = 1.0
_READS_AT_ONCE = 32


class Client:
    """Calls a cluster through any of its nodes. `connect` creates it.

    Its coroutines run on the event loop that calls them. If a node fails, a call continues at
    another node with the same ids, so that nothing is done twice.

    Attributes:
        queues, keys, budgets, schedules, batches, workflows, plans, workers: the calls for each of
            these.
    """

    def __init__(
        self,
        addrs: str | Sequence[str],
        *,
        token: TokenSource | None = None,
        tls: TLS | None = None,
        timeout: Span | None = 30.0,
    ) -> None:
        patience = None if timeout is None else to_seconds(timeout)
        self._caller = Caller(nodes_of(addrs, tls, token), patience)
        self._held = Restraint()
        self._waits: Waits | None = None
        self._waits_loop: asyncio.AbstractEventLoop | None = None
        self.queues = Queues(self._caller)
        self.keys = Keys(self._caller)
        self.budgets = Budgets(self._caller)
        self.schedules = Schedules(self._caller)
        self.batches = Batches(self._caller)
        self.workflows = Workflows(self._caller)
        self.plans = Plans(self._caller)
        self.workers = Workers(self._caller)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End all connections and calls. Let workers finish first."""
        if self._waits is not None and self._waits_loop is asyncio.get_running_loop():
            self._waits.close()
        self._caller.close()

    async def submit(self, *jobs: JobSpec) -> list[Submitted]:
        """Submit jobs and return the outcome of each at its index.

        Missing ids are set before the first try; jobs with an unknown outcome are submitted again
        with the same ids, to other nodes too. `Refused` names the refused jobs; the others were
        accepted.
        """
        with _trace.submission([j.type for j in jobs]):
            return await Submission(self._held, jobs).run(self._caller)

    async def job(self, job: str, **read: Unpack[ReadOptions]) -> JobInfo:
        """Read one job; raise `NotFound` if the id is unknown."""
        request = _v1.GetJobRequest(id=job, read=read_of(read))
        return JobInfo._of((await self._caller.ask("show job", _v1.JOBS_GET, request)).job)

    def jobs(
        self,
        where: str = "",
        *,
        queue: str = "",
        state: str = "",
        type: str = "",  # noqa: A002 # what it is called everywhere
        tenant: str = "",
        limit: int | None = None,
        **read: Unpack[ReadOptions],
    ) -> AsyncIterator[JobInfo]:
        """List the jobs that a filter selects, the newest first.

        ``where`` adds terms to the filter, such as ``label.team=film age>1h``.
        """

        async def ask(how: _v1.Read, most: int, cursor: str) -> Page[_v1.Job]:
            request = _v1.ListJobsRequest(
                queue=queue, state=state, tenant=tenant, type=type, limit=most, cursor=cursor,
                read=how, where=where,
            )  # fmt: skip
            got = await self._caller.ask("list jobs", _v1.JOBS_LIST, request)
            return got.jobs, got.next_cursor, got.at

        return pages(read, limit, ask, JobInfo._of)

    async def count_jobs(
        self,
        where: str = "",
        *,
        queue: str = "",
        state: str = "",
        group_by: str = "",
        **read: Unpack[ReadOptions],
    ) -> JobCount:
        """Count the jobs that a filter selects, by group if ``group_by`` is fingerprint."""
        request = _v1.ListJobsRequest(
            queue=queue, state=state, where=where, count=True, group_by=group_by,
            read=read_of(read),
        )  # fmt: skip
        got = await self._caller.ask("count jobs", _v1.JOBS_LIST, request)
        return JobCount._of(got.counted)

    async def wait(self, job: str, timeout: Span | None = None) -> JobInfo:
        """Return a job once it has ended, in whatever state."""
        loop = asyncio.get_running_loop()
        if self._waits is None or self._waits_loop is not loop:
            self._waits, self._waits_loop = Waits(self._caller, self.job), loop
        try:
            return await asyncio.wait_for(
                self._waits.wait(job), None if timeout is None else to_seconds(timeout)
            )
        except RotaError:
            raise
        except (asyncio.TimeoutError, TimeoutError):
            raise Timeout(f"job {job} did not end in time", op="wait", subject=job) from None

    async def cancel(self, *jobs: str) -> list[JobOutcome]:
        """Cancel jobs and return the outcome of each at its index."""

        async def ask(node: Node, part: Sequence[str], t: float | None) -> _v1.JobOutcomes:
            return await unary(node, _v1.JOBS_CANCEL, _v1.CancelJobsRequest(ids=part), t)

        return await self._change("cancel", jobs, ask)

    async def delete(self, *jobs: str) -> list[JobOutcome]:
        """Delete jobs that have ended; their ids become free."""

        async def ask(node: Node, part: Sequence[str], t: float | None) -> _v1.JobOutcomes:
            return await unary(node, _v1.JOBS_DELETE, _v1.DeleteJobsRequest(ids=part), t)

        return await self._change("delete", jobs, ask)

    async def retry(self, *jobs: str) -> list[JobOutcome]:
        """Revive jobs that are DEAD, EXPIRED or CANCELLED.

        The life that a retry follows is read first and sent with every try, so that a repeated
        retry revives no job twice.
        """
        gate = asyncio.Semaphore(_READS_AT_ONCE)

        async def life(job: str) -> int:
            async with gate:
                request = _v1.GetJobRequest(id=job, brief=True)
                try:
                    got = (await self._caller.ask("retry", _v1.JOBS_GET, request)).job
                except (NotFound, Invalid):
                    return -1  # the retry's outcome reports the problem
                return got.life if got.state in TERMINAL else max(0, got.life - 1)

        lives = dict(zip(jobs, await asyncio.gather(*map(life, jobs)), strict=True))

        async def ask(node: Node, part: Sequence[str], t: float | None) -> _v1.JobOutcomes:
            request = _v1.RetryJobsRequest(ids=part, lives=[lives[j] for j in part])
            return await unary(node, _v1.JOBS_RETRY, request, t)

        return await self._change("retry", jobs, ask)

    async def interrupt(self, *jobs: str, counted: bool = False) -> list[JobOutcome]:
        """End the current attempt of each job so that the job is tried again.

        Its handler is cancelled, and the job is queued once the handler has stopped. The attempt is
        used up only if it is ``counted``. A job without an open lease is refused as a Conflict.
        """

        async def ask(node: Node, part: Sequence[str], t: float | None) -> _v1.JobOutcomes:
            request = _v1.InterruptJobsRequest(ids=part, counted=counted)
            return await unary(node, _v1.JOBS_INTERRUPT, request, t)

        return await self._change("interrupt", jobs, ask)

    async def run_now(self, *jobs: str) -> list[JobOutcome]:
        """Queue DELAYED jobs before their time, with the attempts that they have left."""

        async def ask(node: Node, part: Sequence[str], t: float | None) -> _v1.JobOutcomes:
            return await unary(node, _v1.JOBS_RUN_NOW, _v1.RunJobsNowRequest(ids=part), t)

        return await self._change("run now", jobs, ask)

    async def change(
        self,
        job: str,
        *,
        priority: int | None = None,
        fee: int | None = None,
        labels: Mapping[str, str] | None = None,
        ttl: Span | None = None,
        start_by: Span | None = None,
        payload: bytes | None = None,
    ) -> JobOutcome:
        """Change a pending job; values of None are left as they are, an empty label is removed."""
        got = (
            await self._caller.ask(
                "change job", _v1.JOBS_GET, _v1.GetJobRequest(id=job, brief=True)
            )
        ).job
        request = _v1.ChangeJobRequest(
            id=job, priority=priority, fee=fee, labels=labels or {},
            ttl_ms=None if ttl is None else to_ms(ttl),
            start_by_ms=None if start_by is None else to_ms(start_by), payload=payload,
            life=got.life, changes=got.changes,
        )  # fmt: skip
        w = await self._caller.ask("change job", _v1.JOBS_CHANGE, request)
        if w.HasField("refusal"):
            raise from_refusal(w.refusal)
        return JobOutcome._of(w)

    async def why(self, job: str, **read: Unpack[ReadOptions]) -> Why:
        """Read why a job does not run, and what would make it run."""
        request = _v1.WhyRequest(id=job, read=read_of(read))
        return Why._of((await self._caller.ask("why", _v1.EXPLAIN_WHY, request)).explanation)

    async def eta(self, job: str, **read: Unpack[ReadOptions]) -> Eta:
        """Forecast when a job starts, and what the forecast depends on."""
        request = _v1.EtaRequest(id=job, read=read_of(read))
        return Eta._of((await self._caller.ask("eta", _v1.EXPLAIN_ETA, request)).eta)

    async def log(
        self, job: str, attempt: int | None = None, **read: Unpack[ReadOptions]
    ) -> AttemptLog:
        """Read the log of an attempt; by default the newest attempt."""
        request = _v1.JobLogRequest(id=job, attempt=attempt, read=read_of(read))
        got = await self._caller.ask("read log", _v1.JOBS_LOG, request)
        return AttemptLog._of(job, got)

    async def follow_log(self, job: str, attempt: int | None = None) -> AsyncIterator[AttemptLog]:
        """Yield the log of an attempt until it has ended, each time the new part."""
        request = _v1.JobLogRequest(id=job, attempt=attempt)
        while True:
            got = await self._caller.ask("read log", _v1.JOBS_LOG, request)
            if got.parts or not got.open:
                yield AttemptLog._of(job, got)
            if not got.open:
                return
            request = _v1.JobLogRequest(id=job, lease_id=got.lease_id, after=request.after)
            if got.parts:
                request.after = got.parts[-1].at + len(got.parts[-1].text)
            await asyncio.sleep(_FOLLOW_EVERY)

    async def events(
        self,
        *,
        after: str = "",
        follow: bool = True,
        kinds: Sequence[str] = (),
        job: str = "",
        queue: str = "",
        type: str = "",  # noqa: A002 # what it is called everywhere
        tenant: str = "",
        worker: str = "",
        workflow: str = "",
        actor: str = "",
    ) -> AsyncIterator[Event]:
        """Yield events in the order in which they happened, the same from every node.

        ``after`` is the id of the last event seen, ``oldest`` (the same as empty) or ``latest``. If
        its node fails, it continues at another node after the last event, without a gap or a
        repeat.
        """
        tries = 0
        while True:
            node = self._caller.present()
            err: RotaError | grpc.RpcError = Unavailable("the stream ended")
            try:
                request = _v1.TailRequest(
                    follow=follow, kinds=kinds, job=job, queue=queue, type=type, tenant=tenant,
                    worker=worker, workflow=workflow, actor=actor,
                )  # fmt: skip
                setattr(request, "from", after)
                async for batch in answers(node, _v1.EVENTS_TAIL, request):
                    tries = 0
                    for w in batch.events:
                        after = w.event_id
                        yield Event._of(w)
                    after = batch.scanned or after
                if not follow:
                    return
            except (grpc.RpcError, RotaError) as failed:
                err = failed
            e = self._caller.judge(node, err, False)
            if self._caller.closed or not isinstance(e, (Unavailable, Timeout)):
                e.op = e.op or "tail events"
                raise e
            self._caller.move_on(node)
            await asyncio.sleep(retry_delay(tries, e.retry_after))
            tries += 1

    async def _change(
        self,
        op: str,
        jobs: Sequence[str],
        ask: _Change,
    ) -> list[JobOutcome]:
        """Send ids in parts; ids without an outcome are sent again."""
        outcomes = [JobOutcome(j) for j in jobs]
        left, tries, deadline = list(range(len(jobs))), 0, self._caller.deadline()
        while left:
            again, last = [], None
            for at in range(0, len(left), BATCH_JOBS):
                part = left[at : at + BATCH_JOBS]
                ids = [jobs[i] for i in part]
                got = await self._caller.call(op, partial(_part, ask, ids), deadline=deadline)
                same_count(op, len(got.jobs), len(part))
                for i, w in zip(part, got.jobs, strict=True):
                    outcomes[i] = JobOutcome._of(w)
                    if isinstance(outcomes[i].error, Unavailable):
                        again.append(i)
                        last = outcomes[i].error
            left = again
            if last is not None:
                delay = retry_delay(tries, last.retry_after)
                if deadline is not None and time.monotonic() + delay >= deadline:
                    raise self._caller.gave_up(op, last)
                await asyncio.sleep(delay)
                tries += 1
        return outcomes


_Change = Callable[[Node, Sequence[str], float | None], Awaitable[_v1.JobOutcomes]]


async def _part(
    ask: _Change, ids: Sequence[str], node: Node, timeout: float | None
) -> _v1.JobOutcomes:
    return await ask(node, ids, timeout)


def connect(
    addrs: str | Sequence[str],
    *,
    token: TokenSource | None = None,
    tls: TLS | None = None,
    timeout: Span | None = 30.0,
) -> Client:
    """Return a client of the nodes at these addresses, host:port separated by commas.

    It connects on first use: an unreachable cluster shows as an error of the first call. The
    address unix:PATH is a node's own socket.

    Args:
        addrs: the nodes; name all of them, so that others answer when one fails.
        token: an access token, or a function that returns it at each call. It is sent over TLS,
            or in clear text to loopback addresses only.
        tls: encrypts the connections.
        timeout: bounds each call, None for no bound. Waits and streams have their own timeouts.
    """
    return Client(addrs, token=token, tls=tls, timeout=timeout)


def connect_env(
    *, timeout: Span | EllipsisType | None = ..., environ: Mapping[str, str] = os.environ
) -> Client:
    """Return a client configured from the environment, as the rota command is.

    ROTA_ADDR has the nodes; the default is 127.0.0.1:6470. ROTA_TLS_CA, ROTA_TLS_CERT and
    ROTA_TLS_KEY name files in PEM. ROTA_TOKEN_FILE names a file with an access token, which is read
    again when it changes; otherwise ROTA_TOKEN has the token. ROTA_TIMEOUT bounds each call, such
    as 30s. An argument overrides the environment. Raises `Invalid` with the variable as the subject
    if a value is unusable.
    """
    ca, cert, key = (environ.get(f"ROTA_TLS_{n}") or None for n in ("CA", "CERT", "KEY"))
    token: TokenSource | None = environ.get("ROTA_TOKEN") or None
    if path := environ.get("ROTA_TOKEN_FILE"):
        file = TokenFile(path)
        try:
            file()
        except (OSError, Invalid) as e:
            raise Invalid(f"ROTA_TOKEN_FILE cannot be used: {e}", subject="ROTA_TOKEN_FILE") from e
        token = file
    if isinstance(timeout, EllipsisType):
        text = environ.get("ROTA_TIMEOUT")
        timeout = parse_seconds("ROTA_TIMEOUT", text) if text else 30.0
    for name, file_named in (("CA", ca), ("CERT", cert), ("KEY", key)):
        if file_named is not None and not os.access(file_named, os.R_OK):
            variable = f"ROTA_TLS_{name}"
            raise Invalid(
                f"{variable} cannot be used: {file_named} cannot be read", subject=variable
            )
    return Client(
        environ.get("ROTA_ADDR") or DEFAULT_ADDRESS,
        token=token,
        tls=TLS(ca, cert, key) if ca or cert or key else None,
        timeout=timeout,
    )
