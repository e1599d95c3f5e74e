"""Submissions: message by message, repeated if an outcome was lost, held back if refused."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import replace

from . import _trace, _v1
from ._calls import Answer, Caller, retry_delay, same_count, unary
from ._nodes import Node
from ._rpc import from_refusal
from ._values import new_id
from .errors import Exhausted, HeldBack, Invalid, Refused, RotaError, Unavailable
from .records import Submitted
from .spec import JobSpec, to_wire

# The maximum number of jobs, and of bytes, in one message.
BATCH_JOBS = 1_000
MESSAGE_BYTES = (1 << 20) - (16 << 10)
# The kinds of jobs that are held back; jobs of further kinds are sent.
_HELD_KINDS = 1_000
_HELD_MOST = 5.0

# A queue with its urgent jobs or the rest, or a tenant's jobs in one queue.
_Kind = tuple[str, str, bool]


def _queue_kind(w: _v1.JobSpec) -> _Kind:
    return (w.queue or "default", "", w.HasField("priority") and w.priority == 0)


def _tenant_kind(w: _v1.JobSpec) -> _Kind:
    return (w.queue or "default", w.tenant or "default", False)


class Restraint:
    """Holds back submissions that would be refused: full queues set the delay."""

    def __init__(self) -> None:
        self._holds: dict[_Kind, tuple[float, RotaError]] = {}

    def note(self, w: _v1.JobSpec, e: RotaError) -> None:
        """Record the cluster's refusal of a job; the first of several counts."""
        if not isinstance(e, Exhausted) or e.retry_after <= 0:
            return
        delay = min(e.retry_after, _HELD_MOST)
        if e.subject == "queue":
            kind = _queue_kind(w)
            delay += random.uniform(0, delay / 4)  # so that clients do not all return at once
        elif e.subject == "rate_limit_rps":
            kind = _tenant_kind(w)
        else:
            return
        now = time.monotonic()
        if self._holds.get(kind, (0.0, e))[0] > now:
            return
        if len(self._holds) >= _HELD_KINDS:
            self._holds = {k: h for k, h in self._holds.items() if h[0] > now}
        if len(self._holds) < _HELD_KINDS:
            self._holds[kind] = (now + delay, e)

    def refuses(self, w: _v1.JobSpec) -> RotaError | None:
        """Return the refusal of a job with a new id, None if it may be sent."""
        if not self._holds:
            return None
        now = time.monotonic()
        for kind in (_queue_kind(w), _tenant_kind(w)):
            until, e = self._holds.get(kind, (0.0, None))
            if e is None:
                continue
            if until > now:
                return HeldBack(
                    f"{e.text}: held back here until the delay that the cluster named has passed",
                    op=e.op, subject=e.subject, retry_after=until - now,
                )  # fmt: skip
            del self._holds[kind]
        return None


class Submission:
    """One submission in progress."""

    def __init__(self, held: Restraint, jobs: Sequence[JobSpec]) -> None:
        self._held = held
        self._wire: list[_v1.JobSpec] = []
        self._minted: list[bool] = []
        self._open: list[int] = []
        self.outcomes: list[Submitted] = []
        for i, spec in enumerate(jobs):
            w = to_wire(_trace.inject(spec))
            minted = not w.id
            if minted:
                w.id, w.minted = new_id(), True
            self._wire.append(w)
            self._minted.append(minted)
            e = held.refuses(w) if minted else None
            size = w.ByteSize()
            if e is None and size > MESSAGE_BYTES:
                e = Invalid(
                    f"payload too long: the job has {size} bytes, maximum {256 << 10}",
                    subject="payload",
                )
            self.outcomes.append(Submitted(w.id, error=e))
            if e is None:
                self._open.append(i)

    async def run(self, caller: Caller) -> list[Submitted]:
        """Submit until each job has an outcome; refusals are raised together."""
        deadline = caller.deadline()
        tries = 0
        while self._open:
            for part in self._split():
                await self._send(caller, part, deadline)
            last = self._keep_open()
            if last is None:
                break
            delay = retry_delay(tries, last.retry_after)
            if deadline is not None and time.monotonic() + delay >= deadline:
                raise caller.gave_up("submit", last)
            await asyncio.sleep(delay)
            tries += 1
        if any(o.error is not None for o in self.outcomes):
            raise Refused(self.outcomes)
        return self.outcomes

    def _split(self) -> list[list[int]]:
        parts: list[list[int]] = []
        size = MESSAGE_BYTES
        for i in self._open:
            n = self._wire[i].ByteSize() + 8
            if size + n > MESSAGE_BYTES or len(parts[-1]) == BATCH_JOBS:
                parts.append([])
                size = 0
            parts[-1].append(i)
            size += n
        return parts

    async def _send(self, caller: Caller, part: list[int], deadline: float | None) -> None:
        async def attempt(node: Node, timeout: float | None) -> _v1.SubmitResponse:
            request = _v1.SubmitRequest(jobs=[self._wire[i] for i in part])
            for i in part:
                self._wire[i].minted = False  # from now on the cluster may know it
            answer = Answer()
            got = await unary(node, _v1.JOBS_SUBMIT, request, timeout, answer)
            caller.note_lead(answer)
            same_count("submit", len(got.jobs), len(part))
            return got

        got = await caller.call("submit", attempt, at=caller.to_lead, deadline=deadline)
        for i, w in zip(part, got.jobs, strict=True):
            e = from_refusal(w.refusal) if w.HasField("refusal") else None
            # A minted id is new: a job found under it is our own first try, unless it was merged
            # into another one, whose state may be secret.
            existed = w.existed and (not self._minted[i] or w.holder != "" or w.state == "")
            self.outcomes[i] = Submitted(
                self.outcomes[i].id, w.state, existed, e, w.throttle, w.holder, w.index, w.merge
            )
            if e is not None:
                self._held.note(self._wire[i], e)

    def _keep_open(self) -> RotaError | None:
        """Keep the jobs without an outcome open, and return the last error."""
        last: RotaError | None = None
        still = []
        for i in self._open:
            e = self.outcomes[i].error
            if isinstance(e, Unavailable):
                still.append(i)
                last = e
                self.outcomes[i] = replace(self.outcomes[i], error=None)
        self._open = still
        return last
