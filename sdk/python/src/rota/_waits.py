"""Waits for jobs: many waiters share few streams."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import grpc

from . import _v1
from ._calls import Caller, answers, retry_delay
from .errors import NotFound, RotaError, Timeout, Unavailable
from .records import JobInfo

# One stream waits for no more jobs, and more streams than these are made one.
_STREAM_JOBS = 1_000
_STREAMS = 8
# How long one node may wait before the next is tried: one that hangs never answers.
_ASK_MOST = 20.0
# Waiters that arrive within this time, in seconds, share a stream.
_GATHER = 0.002


class Waits:
    """The waiters of one event loop."""

    def __init__(self, caller: Caller, look: Callable[[str], Awaitable[JobInfo]]) -> None:
        self._caller = caller
        self._look = look
        self._waiters: dict[str, set[asyncio.Future[JobInfo]]] = {}
        self._fresh: set[str] = set()
        self._flush: asyncio.TimerHandle | None = None
        self._streams: dict[asyncio.Task[None], set[str]] = {}

    async def wait(self, job: str) -> JobInfo:
        """Return a job once it has ended."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[JobInfo] = loop.create_future()
        waiters = self._waiters.get(job)
        if waiters is None:
            waiters = self._waiters[job] = set()
            self._fresh.add(job)
            if self._flush is None:
                self._flush = loop.call_later(_GATHER, self._subscribe)
        waiters.add(future)
        try:
            return await future
        finally:
            waiters.discard(future)
            if not waiters and self._waiters.get(job) is waiters:
                self._forget(job)

    def _forget(self, job: str) -> None:
        del self._waiters[job]
        self._fresh.discard(job)
        for task, jobs in list(self._streams.items()):
            jobs.discard(job)
            if not jobs:
                del self._streams[task]
                task.cancel()

    def close(self) -> None:
        """End all streams, and raise an error in all waiters."""
        if self._flush is not None:
            self._flush.cancel()
        for task in self._streams:
            task.cancel()
        self._streams.clear()
        for job in list(self._waiters):
            self._settle(job, None, Unavailable("the client is closed", op="wait"))

    def _subscribe(self) -> None:
        self._flush = None
        jobs, self._fresh = self._fresh, set()
        while len(self._streams) >= _STREAMS:
            task = min(self._streams, key=lambda t: len(self._streams[t]))
            if len(self._streams[task]) > _STREAM_JOBS // 2:
                break  # all are well filled
            jobs |= self._streams.pop(task)
            task.cancel()
        ordered = list(jobs)
        loop = asyncio.get_running_loop()
        for at in range(0, len(ordered), _STREAM_JOBS):
            part = set(ordered[at : at + _STREAM_JOBS])
            task = loop.create_task(self._run(part))
            self._streams[task] = part
            task.add_done_callback(lambda t: self._streams.pop(t, None))

    def _settle(self, job: str, got: JobInfo | None, e: RotaError | None) -> None:
        for f in self._waiters.pop(job, ()):
            if f.done():
                continue
            if got is not None:
                f.set_result(got)
            elif e is not None:
                f.set_exception(e)

    async def _run(self, left: set[str]) -> None:
        """Listen until each job of a stream has ended, at one node after another."""
        tries = 0
        sure: set[str] = set()
        while left:
            node = self._caller.present()
            err: RotaError | grpc.RpcError = Unavailable("the stream ended before the jobs did")
            try:
                request = _v1.WaitJobsRequest(ids=sorted(left))
                async for w in answers(node, _v1.JOBS_WAIT, request, _ASK_MOST):
                    tries = 0
                    if w.spec.id in left:
                        left.discard(w.spec.id)
                        self._settle(w.spec.id, JobInfo._of(w), None)
            except (grpc.RpcError, RotaError) as failed:
                err = failed
            if not left:
                return
            e = self._caller.judge(node, err, False)
            if self._caller.closed:
                e = Unavailable("the client is closed", op="wait")
            elif isinstance(e, NotFound):
                await self._believe(e, left, sure)
                continue
            elif isinstance(e, (Unavailable, Timeout)):
                self._caller.move_on(node)
                await asyncio.sleep(retry_delay(tries, e.retry_after))
                tries += 1
                continue
            # An error of one job ends the wait for that job only.
            e.op = e.op or "wait"
            for job in {e.subject} & left or set(left):
                left.discard(job)
                self._settle(job, None, e)

    async def _believe(self, e: NotFound, left: set[str], sure: set[str]) -> None:
        """Look for a job that a node does not know: its replica may lag behind."""
        job = e.subject if e.subject in left else next(iter(left))
        try:
            if job in sure:
                await asyncio.sleep(retry_delay(2, 0))
            sure.add(job)
            got = await self._look(job)
            if got.ended:
                left.discard(job)
                self._settle(job, got, None)
        except RotaError as lasting:
            left.discard(job)
            self._settle(job, None, lasting)


def remaining(deadline: float | None) -> float | None:
    """Return the seconds until a local time."""
    return None if deadline is None else max(0.0, deadline - time.monotonic())
