"""Runs handlers: coroutine functions on the worker's event loop, others in threads."""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import inspect
import logging
import queue
import threading
import traceback
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from . import _trace, _v1
from ._joblog import JobLog
from ._lease import RUNNING, Lease
from ._leases import ERROR_MOST, WorkerEvent, last_of
from ._table import Table
from ._view import now
from .definition import Definition, Result
from .errors import LeaseLost, RotaError
from .job import Job, _current
from .outcomes import NoRetry, Outcome
from .workflows import Workflows

log = logging.getLogger("rota.worker")

_PAYLOAD_MOST = 256 << 10
_CHILDREN_MOST = 128 << 10
# How long the event loop may be blocked before the leases of its handlers are declined.
LOOP_LOST = 60.0


class Handlers:
    """The handlers of a worker, by type."""

    def __init__(self, definitions: Mapping[str, Definition[Any, Any]]) -> None:
        self.of = definitions
        self.on_loop = frozenset(t for t, d in definitions.items() if is_async(d.run))


def is_async(run: Callable[..., Any] | None) -> bool:
    """Report whether a handler runs on the event loop."""
    return inspect.iscoroutinefunction(run) or inspect.iscoroutinefunction(
        getattr(run, "__call__", None)  # noqa: B004 # an instance with an async __call__
    )


class _Threads:
    """Threads kept for handlers. They do not keep the process from exiting."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0
        self._idle = 0
        self._lock = threading.Lock()
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()

    def submit(self, work: Callable[[], None]) -> None:
        """Run a function on an idle thread, or on a new one."""
        with self._lock:
            if self._idle > 0:
                self._idle -= 1
            elif self._count < self._most:
                self._count += 1
                name = f"rota-handler-{self._count}"
                threading.Thread(target=self._run, name=name, daemon=True).start()
        self._work.put(work)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()
            with self._lock:
                self._idle += 1

    def close(self) -> None:
        """Let the threads end once their handlers have returned."""
        for _ in range(self._count):
            self._work.put(None)


class Runner:
    """Runs the handlers of one worker; the table's host."""

    def __init__(
        self,
        handlers: Handlers,
        slots: int,
        prefetch: int,
        observer: Callable[[WorkerEvent], None] | None,
        changed: Callable[[], None],
        workflows: Workflows,
    ) -> None:
        self.slots = slots
        self.capacity = slots + prefetch
        self._handlers = handlers
        self._observer = observer
        self._changed = changed
        self._workflows = workflows
        self._loop = asyncio.get_running_loop()
        self._threads = _Threads(slots)
        self._fresh: deque[Lease] = deque()
        self._called = False
        self._tasks: dict[bytes, asyncio.Task[None]] = {}
        self._answered = now()
        self._asked = False
        self.stuck = False
        self.table: Table

    # The table's interface, callable from any thread.

    def runs(self, job_type: str) -> bool:
        """Report whether there is a handler of a type."""
        return job_type in self._handlers.of

    def changed(self) -> None:
        """Make the worker check its state."""
        self._soon(self._changed)

    def observe(self, event: WorkerEvent) -> None:
        """Pass an event on."""
        if self._observer is not None:
            try:
                self._observer(event)
            except Exception:
                log.exception("the observer failed")

    def _soon(self, f: Callable[..., None], *args: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(f, *args)
        except RuntimeError:
            pass  # the loop is closed: the worker has ended

    def start(self, lease: Lease) -> None:
        """Start a lease's handler."""
        lease.job = job = self._job_of(lease)
        if lease.spec.type in self._handlers.on_loop:
            lease.cancel = lambda: self._cancel(lease, job)
            self._fresh.append(lease)
            if not self._called:
                self._called = True
                self._soon(self._launch)
            return
        lease.cancel = lambda: job._lose(self._why(lease))
        self._threads.submit(lambda: self._in_thread(lease, job))

    def _job_of(self, lease: Lease) -> Job:
        def progress(percent: int, note: str) -> None:
            self.table.progress(lease, percent, note)

        def spend(costs: Mapping[str, int]) -> None:
            self.table.spend(lease, costs)

        async def parents() -> Any:
            return await self._workflows.parent_outputs(lease.job_id)

        def new_log() -> JobLog:
            lease.log = JobLog()
            return lease.log

        job = Job(
            lease.spec, lease.wire.token, lease.wire.attempt, lease=lease.id.hex(),
            progress=progress, spend=spend, parents=parents,
        )  # fmt: skip
        job._new_log = new_log
        return job

    def _why(self, lease: Lease) -> LeaseLost:
        return lease.lost or LeaseLost(lease.job_id, self.table.stopping or "the worker stops")

    def _cancel(self, lease: Lease, job: Job) -> None:
        job._lose(self._why(lease))
        self._soon(self._cancel_task, lease)

    # On the event loop.

    def _launch(self) -> None:
        self._called = False
        while self._fresh:
            lease = self._fresh.popleft()
            task = self._loop.create_task(self._on_loop(lease))
            self._tasks[lease.id] = task

    def _cancel_task(self, lease: Lease) -> None:
        task = self._tasks.get(lease.id)
        if task is not None:
            task.cancel()

    async def _on_loop(self, lease: Lease) -> None:
        job = lease.job
        assert job is not None
        _current.set(job)
        failed = True
        outcome: dict[str, Any] = {}
        try:
            if job.lost is not None or lease.phase != RUNNING:
                return  # it was lost before it began
            self._tell("started", lease)
            d = self._handlers.of[lease.spec.type]
            assert d.run is not None
            if _trace.INSTALLED:
                with _trace.attempt(job.type, job.id, job.headers):
                    outcome = _completed(d, job, await d.run(job, _decoded(d, job)))
            else:
                outcome = _completed(d, job, await d.run(job, _decoded(d, job)))
            failed = False
            self._tell("finished", lease)
        except asyncio.CancelledError as e:
            outcome = {"verb": _v1.LEASE_VERB_FAIL}
            if job.lost is None:  # the handler's own cancellation, or the end of the loop
                outcome["text"] = "the handler was cancelled"
            self._tell("finished", lease, e)
        except Exception as e:
            outcome = _raised(lease, e)
            self._tell("finished", lease, e)
        finally:
            self._tasks.pop(lease.id, None)
            self.table.returned(lease, failed, outcome)

    # In a thread.

    def _in_thread(self, lease: Lease, job: Job) -> None:
        failed = True
        outcome: dict[str, Any] = {}
        try:
            if job.lost is not None:
                return
            self._tell("started", lease)
            context = contextvars.Context()
            context.run(_current.set, job)
            outcome = context.run(self._call, job)
            failed = False
            self._tell("finished", lease)
        except BaseException as e:
            lost = isinstance(e, LeaseLost)
            outcome = {"verb": _v1.LEASE_VERB_FAIL} if lost else _raised(lease, e)
            self._tell("finished", lease, e)
        finally:
            self.table.returned(lease, failed, outcome)

    def _call(self, job: Job) -> dict[str, Any]:
        d = self._handlers.of[job.type]
        assert d.run is not None
        with _trace.attempt(job.type, job.id, job.headers):
            return _completed(d, job, d.run(job, _decoded(d, job)))

    def _tell(self, kind: str, lease: Lease, e: BaseException | None = None) -> None:
        if self._observer is not None:
            w = lease.wire
            self.observe(
                WorkerEvent(kind, job=lease.job_id, token=w.token, attempt=w.attempt, error=e)
            )

    # Whether the event loop responds.

    def pulse(self) -> None:
        """Check that the event loop responds, and decline leases if it is blocked for too long."""
        moment = now()
        if not self._asked:
            self._asked = True
            self._soon(self._alive)
        elif self.running_on_loop() and moment - self._answered >= LOOP_LOST:
            text = (
                f"the event loop of the worker has not answered for {LOOP_LOST:.0f} s: a handler "
                "blocks it; a handler that is no coroutine function runs in a thread"
            )
            given = self.table.give_back(self._handlers.on_loop, text)
            if given:
                log.error("%d leases are given back: %s", given, text)

    def running_on_loop(self) -> bool:
        """Report whether there is a handler that needs the loop."""
        return bool(self._handlers.on_loop)

    def _alive(self) -> None:
        self._asked = False
        self._answered = now()

    def close(self) -> None:
        """Let threads end that no longer have a handler."""
        self._threads.close()


def _decoded(d: Definition[Any, Any], job: Job) -> Any:
    try:
        return d.input.decode(job.payload)
    except (TypeError, ValueError) as e:
        raise NoRetry(f"decode payload: {e}") from e


def _completed(d: Definition[Any, Any], job: Job, value: Any) -> dict[str, Any]:
    """Convert what a handler returned."""
    fields: dict[str, Any] = {"verb": _v1.LEASE_VERB_COMPLETE}
    if isinstance(value, Result):
        if value.meta:
            fields["meta"] = value.meta
        if value.children:
            fields["children"] = _children(job, value)
        value = value.value
    try:
        output = b"" if value is None else d.output.encode(value)
    except (TypeError, ValueError) as e:
        raise NoRetry(f"encode output: {e}") from e
    if len(output) > _PAYLOAD_MOST:
        raise RotaError(
            f"the output has {len(output)} bytes: at most {_PAYLOAD_MOST} are kept, put larger "
            "ones elsewhere and name the place"
        )
    fields["output"] = output
    fields["output_digest"] = hashlib.sha256(output).digest()
    return fields


def _children(job: Job, result: Result[Any]) -> bytes:
    if job.workflow is None:
        raise RotaError(f"job {job.id} is no node of a workflow: only such a one has children")
    nodes = [n._wire() for n in result.children]
    wire = _v1.Children(nodes=nodes, detached=result.detached).SerializeToString()
    if len(wire) > _CHILDREN_MOST:
        raise RotaError(
            f"children too long: got {len(wire)} bytes, maximum {_CHILDREN_MOST}; let payloads "
            "name large data instead of holding it"
        )
    return wire


def _raised(lease: Lease, e: BaseException) -> dict[str, Any]:
    """Convert what a handler raised, and write it to the worker's own log."""
    if isinstance(e, Outcome):
        log.info("job %s: %s: %s", lease.job_id, type(e).__name__, e)
    else:
        log.warning("job %s failed in attempt %d", lease.job_id, lease.wire.attempt, exc_info=e)
    return outcome_of(e)


def outcome_of(e: BaseException) -> dict[str, Any]:
    """Convert what a handler raised."""
    if isinstance(e, Outcome):
        text = last_of(str(e))
        if e._fail < 0:
            return {"verb": _v1.LEASE_VERB_DECLINE, "text": text}
        return {
            "verb": _v1.LEASE_VERB_FAIL,
            "text": text,
            "fail": e._fail,
            "after_ms": e._after_ms,
            "pause_key": e._pause_key,
        }
    name = type(e).__name__
    if type(e).__module__ not in ("builtins", "rota.errors"):
        name = f"{type(e).__module__}.{name}"
    head = f"{name}: {e}" if str(e) else name
    frames = "".join(traceback.format_tb(e.__traceback__)[1:])
    text = f"{head}\n\n{frames}" if frames else head
    return {
        "verb": _v1.LEASE_VERB_FAIL,
        "text": text.encode()[:ERROR_MOST].decode("utf-8", "ignore"),
    }
