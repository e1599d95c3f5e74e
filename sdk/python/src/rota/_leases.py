"""The leases that a running worker holds and their life cycle, under one lock."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from . import _v1
from ._lease import REPORTING, RUNNING, WAITING, Command, Lease
from ._outbox import Outbox
from ._view import BEAT_LOST, FAR_FUTURE, View, now
from .errors import LeaseLost

log = logging.getLogger("rota.worker")

# A handler that ends sooner acknowledges by completing; in seconds.
_ACK_HOLD = 0.005
_PROGRESS_EVERY = 1.0
# The ordinal of the last progress report before an outcome.
_FINAL_REPORT = 1
_FINISHED_KEPT = 1 << 15
ERROR_MOST = 4 << 10
_NOTE_MOST = 256


@dataclass(frozen=True)
class WorkerEvent:
    """An event that a worker reports to its observer.

    Attributes:
        kind: ``connected``, ``disconnected``, ``turned_away`` (a node does not accept the worker
            for now), ``started``, ``finished``, ``lost``, ``refused`` (the cluster accepts no
            further ack or renewal of a lease), ``reported`` or ``given_up`` (an outcome could not
            be reported).
        verb: ``complete``, ``fail`` or ``decline`` if an outcome is reported or given up.
    """

    kind: str
    job: str = ""
    token: str = ""
    attempt: int = 0
    verb: str = ""
    node: str = ""
    error: BaseException | None = None


class Host(Protocol):
    """Runs handlers for the table."""

    slots: int
    capacity: int

    def runs(self, job_type: str) -> bool:
        """Report whether there is a handler of a type."""

    def start(self, lease: Lease) -> None:
        """Start a lease's handler; called under the table's lock."""

    def changed(self) -> None:
        """Called when the worker may be quiet now, or superseded."""

    def observe(self, event: WorkerEvent) -> None:
        """Pass an event on; called without the lock."""


def last_of(text: str) -> str:
    """Keep the end of an error's text, where the reason is."""
    b = text.encode("utf-8", "replace")
    return b[-ERROR_MOST:].decode("utf-8", "ignore")


class Leases:
    """The leases of a running worker."""

    def __init__(self, host: Host, watched: bool) -> None:
        self._host = host
        self._watched = watched  # there is an observer
        self._news: list[WorkerEvent] = []
        self.lock = threading.Lock()
        self.send_wake = threading.Condition(self.lock)
        self.watch_wake = threading.Condition(self.lock)
        self.view = View()
        self.leases: dict[bytes, Lease] = {}
        self._session = 0
        self._queue: deque[Lease] = deque()
        self._waiting = 0
        self.running = 0
        # The jobs whose handlers have not returned, even if their leases were given up.
        self._busy: set[str] = set()
        self._finished: list[set[bytes]] = [set(), set()]
        self.out = Outbox()
        self.draining = False
        self._drained_at = 0.0
        self._unreported: list[str] = []
        self.stopping: str | None = None  # why handlers end
        self.farewell = False
        self.quiet = False
        self.superseded = False
        self._next_tick = 0.0

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock, then call the observer with the new events."""
        with self.lock:
            yield
            news, self._news = self._news, []
        for event in news:
            self._host.observe(event)

    def _observe(self, kind: str, lease: Lease, **more: Any) -> None:
        if self._watched:
            w = lease.wire
            self._news.append(WorkerEvent(kind, lease.job_id, w.token, w.attempt, **more))

    def _assigned(self, a: _v1.Assignment, moment: float) -> None:
        lease = self.leases.get(a.lease.id)
        if lease is not None:
            self._given_back(lease, a.lease, moment)
            return
        if any(a.lease.id in part for part in self._finished):
            return  # the replica lags behind an answer already received
        lease = Lease(a, moment)
        self.leases[lease.id] = lease
        self._waiting += 1
        if a.lease.revoked:
            self._revoke(lease, a.lease.revoked)
        elif self.draining:
            self._decline(lease, "the worker drains")
        elif self._waiting > self._host.capacity:
            self._decline(lease, "the worker has no room left for it")
        elif not self._host.runs(lease.spec.type):
            self._decline(lease, f"the worker has no handler for type {lease.spec.type}")
        else:
            self._queue.append(lease)
            self.out.hold_ack(lease, moment + _ACK_HOLD)
            self._wake_for(lease)

    def _given_back(self, lease: Lease, w: _v1.Lease, moment: float) -> None:
        """Handle a replica's row of a lease that is held: only steps forward count."""
        if self._expired(lease, moment) or lease.lost is not None:
            lease.declines = True
        elif lease.phase == REPORTING:
            pass
        elif w.revoked:
            self._revoke(lease, w.revoked)
        elif w.acked_clock_ms > 0 or w.renewals > 0:
            self._extend(lease, w.deadline_clock_ms, w.renewals)

    def _revoked(self, e: _v1.LeaseEnd) -> None:
        if e.reason == "TAKEN_OVER" and not self.superseded:
            self.superseded = True
            self._drain()
            self._host.changed()
            log.warning("another process has taken this worker's id over")
        lease = self.leases.get(e.lease_id)
        if lease is not None:
            self._revoke(lease, e.reason)
            return
        # A lease that is not known here has no handler: that is confirmed at once.
        a = _v1.Assignment(lease=_v1.Lease(id=e.lease_id, job=e.job))
        lease = self.leases[e.lease_id] = Lease(a, now())
        self._waiting += 1
        self._decline(lease, "no handler runs under it here")

    def _extend(self, lease: Lease, deadline: int, renewals: int) -> None:
        lease.acked = True
        lease.deadline = max(lease.deadline, deadline)
        lease.renewals = max(lease.renewals, renewals)

    def _expire_all(self, moment: float) -> None:
        for lease in list(self.leases.values()):
            self._expired(lease, moment)

    def _expired(self, lease: Lease, moment: float) -> bool:
        """Give up a lease whose end has passed by the view in force until now."""
        view = self.view
        if not view.known or lease.phase == REPORTING or lease.lost is not None:
            return False
        if moment < lease.end(view):
            return False
        if (
            lease.phase == WAITING
            and view.sent < lease.received
            and (moment < lease.received + BEAT_LOST)
        ):
            return False  # the view is older than the lease, and does not cover it
        reason, text = "", "its deadline has come by the worker's view"
        if lease.timed_out(view, moment):
            reason = "TIMED_OUT"
            text = "max_runtime is over but for the second that the worker keeps to report it"
        elif lease.grace > 0 and moment >= lease.broken(view):
            text = "no beat was heard for so long that the stream may be taken for broken"
        elif moment >= view.lost():
            text = "no beat was answered for too long"
        elif not lease.acked:
            text = "its ack was not answered in time"
            if lease.ack_refused:
                text = f"its ack was refused: {lease.ack_refused}"
        self._lose(lease, LeaseLost(lease.job_id, text, reason=reason), True)
        return True

    def _revoke(self, lease: Lease, reason: str) -> None:
        text = "the cluster revoked it"
        self._lose(lease, LeaseLost(lease.job_id, text, reason=reason, revoked=True), True)

    def _lose_all(self, text: str) -> None:
        for lease in list(self.leases.values()):
            if lease.phase == REPORTING:
                self._forget(lease)
            else:
                self._lose(lease, LeaseLost(lease.job_id, text), False)

    def _lose(self, lease: Lease, why: LeaseLost, declines: bool) -> None:
        """Give up a lease forever.

        If the cluster may still count on it, it is declined once its handler has returned: not
        sooner, because then another worker may begin.
        """
        if lease.phase == REPORTING:
            return
        lease.declines = lease.declines or declines
        if lease.lost is not None:
            return
        lease.lost = why
        log.warning("%s", why)
        self._observe("lost", lease, error=why)
        if lease.phase == RUNNING:
            if lease.cancel is not None:
                lease.cancel()
        elif lease.declines:
            self._decline(lease, why.text)
        else:
            self._waiting -= 1
            self._forget(lease)

    def _decline(self, lease: Lease, text: str) -> None:
        """Decline a lease whose handler never started."""
        self._waiting -= 1
        self._report(lease, verb=_v1.LEASE_VERB_DECLINE, text=text)

    def _report(self, lease: Lease, **fields: Any) -> None:
        """Settle a lease's outcome; its queued commands are dropped."""
        lease.phase = REPORTING
        for c in (lease.ack, lease.renew, lease.progress):
            if c is not None:
                c.dropped = True
        lease.ack = lease.renew = lease.progress = lease.progress_held = None
        if lease.reported is not None and lease.lost is None:
            # Send it again: a report less than a second after another was not kept.
            percent, note = lease.reported
            self._put(
                lease,
                verb=_v1.LEASE_VERB_PROGRESS,
                progress=percent,
                text=note,
                ordinal=_FINAL_REPORT,
                costs=lease.costs,
            )
        self._put_outcome(lease, **fields)

    def _put_outcome(self, lease: Lease, **fields: Any) -> None:
        if lease.log is not None:
            fields["log"] = lease.log.encoded()
        lease.outcome = self._put(lease, costs=lease.costs, **fields)

    def _put(self, lease: Lease, **fields: Any) -> Command:
        wire = _v1.LeaseCommand(lease_id=lease.id, job=lease.job_id, **fields)
        c = Command(lease, wire)
        self.out.push(c)
        self.send_wake.notify()
        return c

    def _forget(self, lease: Lease) -> None:
        if self.leases.pop(lease.id, None) is None:
            return
        lease.phase = REPORTING
        for c in (lease.ack, lease.renew, lease.progress, lease.outcome):
            if c is not None:
                c.dropped = True
        if len(self._finished[0]) >= _FINISHED_KEPT:
            self._finished = [set(), self._finished[0]]
        self._finished[0].add(lease.id)
        self._check_quiet()

    def _check_quiet(self) -> None:
        if self.draining and not self.leases and not self.quiet:
            self.quiet = True
            self._host.changed()

    def _wake_for(self, lease: Lease) -> None:
        """Move the next check forward if the lease needs one sooner than planned."""
        if not self.view.known:
            return
        at = min(lease.end(self.view), lease.too_late(self.view))
        if lease.renewable():
            at = min(at, lease.renew_at(self.view))
        if at < self._next_tick:
            self.watch_wake.notify()

    def _start_more(self, moment: float) -> None:
        """Start handlers while slots are free: only for leases that are valid by the view."""
        if not self.view.known:
            return
        held: list[Lease] = []
        while self._queue and self.running < self._host.slots:
            lease = self._queue.popleft()
            if lease.phase != WAITING or lease.id not in self.leases:
                continue
            if self._expired(lease, moment):
                continue
            if moment >= lease.end(self.view):
                held.append(lease)
            elif lease.job_id in self._busy:
                text = "the handler of an attempt given up before has not returned here"
                self._decline(lease, text)
            else:
                self._busy.add(lease.job_id)
                lease.phase, lease.ran = RUNNING, True
                self._waiting -= 1
                self.running += 1
                self._host.start(lease)
        self._queue.extendleft(reversed(held))

    def returned(self, lease: Lease, failed: bool, outcome: dict[str, Any]) -> None:
        """Settle a lease after its handler."""
        with self._locked():
            self.running -= 1
            self._busy.discard(lease.job_id)
            lost = lease.lost
            if lease.phase != RUNNING:
                pass  # it was declined while its handler blocked
            elif lost is not None and lease.declines and lost.reason == "TIMED_OUT":
                text = outcome.get("text", "") if failed else ""
                self._report(
                    lease,
                    verb=_v1.LEASE_VERB_FAIL,
                    fail=_v1.FAIL_KIND_TIMED_OUT,
                    text=text,
                )
            elif lost is not None and lease.declines:
                self._report(lease, verb=_v1.LEASE_VERB_DECLINE, text=last_of(lost.text))
            elif lost is not None:
                self._forget(lease)
            elif self.stopping is not None and failed:
                text = last_of(f"{self.stopping}: {outcome.get('text', '')}")
                self._report(lease, verb=_v1.LEASE_VERB_DECLINE, text=text)
            else:
                self._report(lease, **outcome)
            if self._queue:
                self._start_more(now())
            self._check_quiet()

    def progress(self, lease: Lease, percent: int, note: str) -> None:
        """Accept a handler's report; the last of each second is sent."""
        note = note.encode("utf-8", "replace")[:_NOTE_MOST].decode("utf-8", "ignore")
        with self._locked():
            if lease.phase == RUNNING and lease.lost is None:
                lease.reported = (max(0, min(percent, 100)), note)
                self._hold_progress(lease)

    def spend(self, lease: Lease, costs: Mapping[str, int]) -> None:
        """Accept an attempt's totals: they are sent with its next report, or its confirmation."""
        with self._locked():
            if lease.phase == RUNNING:
                lease.costs = costs
                if lease.lost is None:
                    self._hold_progress(lease)

    def _hold_progress(self, lease: Lease) -> None:
        lease.progress_held = lease.reported or (0, "")
        if self._progress_due(lease, now()) < FAR_FUTURE:
            self.watch_wake.notify()

    def _progress_due(self, lease: Lease, moment: float) -> float:
        held = lease.progress_held
        if held is None or lease.progress is not None or lease.phase != RUNNING:
            return FAR_FUTURE
        if lease.progress_next > moment:
            return lease.progress_next
        lease.progress_held, lease.progress_next = None, moment + _PROGRESS_EVERY
        lease.progress = self._put(
            lease,
            verb=_v1.LEASE_VERB_PROGRESS,
            progress=held[0],
            text=held[1],
            costs=lease.costs,
        )
        return FAR_FUTURE

    def _drain(self) -> None:
        if not self.draining:
            self.draining, self._drained_at = True, now()
            self.watch_wake.notify()


VERBS = {
    _v1.LEASE_VERB_COMPLETE: "complete",
    _v1.LEASE_VERB_FAIL: "fail",
    _v1.LEASE_VERB_DECLINE: "decline",
}
