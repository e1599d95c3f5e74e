"""The state of a running worker: its leases, its view of time and its outbox.

It is called by the threads of the connection and of the watch, and by handlers as they return;
nothing here blocks.
"""

from __future__ import annotations

import logging

from . import _v1
from ._beats import Beats
from ._calls import retry_delay
from ._lease import REPORTING, RUNNING, WAITING, Command, Lease
from ._leases import VERBS, last_of
from ._rpc import from_refusal
from ._view import BEAT_LOST, FAR_FUTURE, now
from .errors import (
    Conflict,
    Denied,
    Exhausted,
    Internal,
    Invalid,
    LeaseLost,
    NotFound,
    RotaError,
    Stale,
    Timeout,
    Unavailable,
)

log = logging.getLogger("rota.worker")

_RENEW_LEAST = 0.05
_TRIES_MOST = 10
# How late an end is detected where timers do not count suspended time.
_WATCH_MOST = 0.5
_WATCH_IDLE = 5.0
# The minimum time for which a draining worker tries to report an outcome.
_REPORT_LEAST = 10.0


class Table(Beats):
    """Handles the node's messages, the watch and the end."""

    def welcome(self, session: int) -> None:
        """Begin a connection. If the session changed, all leases of the old one are void."""
        with self._locked():
            if self._session not in (0, session):
                self._lose_all("the worker has a new session")
            self._session = session

    def notice(self, notices: _v1.Notices) -> None:
        """Handle the node's notices."""
        with self._locked():
            moment = now()
            for a in notices.assigned:
                self._assigned(a, moment)
            for e in notices.revoked:
                self._revoked(e)
            for e in notices.ended:
                lease = self.leases.get(e.lease_id)
                if lease is not None:
                    why = LeaseLost(lease.job_id, "the cluster ended it", reason=e.reason)
                    self._lose(lease, why, False)
            if notices.draining:
                log.info("an operator drains this worker: it gets no new lease")
            self._start_more(moment)
            self.send_wake.notify()

    def answered(self, w: _v1.LeaseAnswers) -> None:
        """Handle the outcomes of a batch."""
        with self._locked():
            moment = now()
            batch = self.out.landed(w.sequence)
            if batch is None:
                return
            if w.HasField("refusal") or len(w.answers) != len(batch):
                after = w.refusal.retry_after_ms / 1000
                self.out.again(batch)
                self.out.not_before = moment + retry_delay(2, after)
            else:
                again = []
                for c, a in zip(batch, w.answers, strict=True):
                    e = from_refusal(a.refusal) if a.HasField("refusal") else None
                    if not self._settled(c, a, e, moment):
                        c.tries += 1
                        again.append(c)
                        after = e.retry_after if e is not None else 0.0
                        delay = moment + retry_delay(2, after)
                        self.out.not_before = max(self.out.not_before, delay)
                self.out.again(again)
            self._start_more(moment)
            self.send_wake.notify()

    def _settled(self, c: Command, a: _v1.LeaseAnswer, e: RotaError | None, moment: float) -> bool:
        """Handle the outcome of one command, or report that there is none yet."""
        lease = c.lease
        if c.dropped:
            return True
        if isinstance(e, (Unavailable, Timeout, Exhausted)) or (
            isinstance(e, Internal) and c.tries < _TRIES_MOST
        ):
            return False
        # An answer that arrives after the lease ended by the view in force does not save the lease.
        self._expired(lease, moment)
        if c.verb == _v1.LEASE_VERB_ACK:
            lease.ack = None
            self._acknowledged(lease, c, a, e)
        elif c.verb == _v1.LEASE_VERB_RENEW:
            lease.renew = None
            lease.renew_next = moment + max(_RENEW_LEAST, lease.renew_every / 4000)
            self._acknowledged(lease, c, a, e)
        elif c.verb == _v1.LEASE_VERB_PROGRESS:
            lease.progress = None
            if lease.progress_held is not None:
                self.watch_wake.notify()
        else:
            self._reported(lease, c, e)
        return True

    def _acknowledged(
        self, lease: Lease, c: Command, a: _v1.LeaseAnswer, e: RotaError | None
    ) -> None:
        if lease.phase == REPORTING or lease.lost is not None:
            return
        if e is None:
            self._extend(lease, a.deadline_clock_ms, max(a.renewals, c.wire.ordinal))
            self._wake_for(lease)
        elif isinstance(e, (Stale, NotFound)):
            why = LeaseLost(lease.job_id, f"it is no longer this worker's: {e.text}")
            self._lose(lease, why, False)
        else:
            if c.verb == _v1.LEASE_VERB_RENEW:
                lease.renew_over = True
            else:
                lease.ack_refused = e.text
            level = logging.INFO if isinstance(e, Conflict) else logging.WARNING
            log.log(level, "job %s: the lease goes on to its end: %s", lease.job_id, e)
            self._observe("refused", lease, error=e)

    def _reported(self, lease: Lease, c: Command, e: RotaError | None) -> None:
        if c is not lease.outcome:
            return
        asks = c.verb == _v1.LEASE_VERB_COMPLETE or c.wire.pause_key
        if (asks and isinstance(e, Invalid)) or (isinstance(e, Denied) and c.wire.children):
            # The queue or the workflow has a lower limit, or the job lacks the key: fail the
            # attempt, with the reason.
            text = last_of(f"the outcome was refused: {e}")
            self._put_outcome(lease, verb=_v1.LEASE_VERB_FAIL, text=text)
            return
        if isinstance(e, Stale) and c.verb != _v1.LEASE_VERB_DECLINE and self.superseded:
            text = "the outcome came after a takeover"
            self._put_outcome(lease, verb=_v1.LEASE_VERB_DECLINE, text=text)
            return
        if e is not None:
            log.warning("job %s: the outcome is refused: %s", lease.job_id, e)
        self._observe("reported", lease, verb=VERBS[c.verb], error=e)
        self._forget(lease)

    def broken(self) -> None:
        """End a connection: unanswered messages are sent again on the next one."""
        with self.lock:
            self.out.broken()
            self._beats.clear()
            for lease in self.leases.values():
                lease.log_sent = 0  # the next node has received none of it

    def tick(self) -> float:
        """End leases that ran out, request renewals, and return when to look again."""
        with self._locked():
            moment = now()
            at = moment + (_WATCH_MOST if self.leases else _WATCH_IDLE)
            self._start_more(moment)
            if moment >= self.beat_due():
                self.send_wake.notify()  # its wait is late, or a handler has begun to log
            for lease in list(self.leases.values()):
                if lease.phase == REPORTING:
                    if self.draining:
                        give = self._give_up_at(lease)
                        if moment >= give:
                            self._give_up(lease)
                        else:
                            at = min(at, give)
                    continue
                if lease.lost is not None or not self.view.known:
                    continue
                if self._expired(lease, moment) or moment >= lease.end(self.view):
                    continue
                if moment >= lease.too_late(self.view):
                    text = "no slot came free before its max_runtime was about to end"
                    self._decline(lease, text)
                    continue
                at = min(at, lease.end(self.view), lease.too_late(self.view))
                at = min(at, self._renew_due(lease, moment), self._progress_due(lease, moment))
            self._next_tick = at
            return at

    def _renew_due(self, lease: Lease, moment: float) -> float:
        if not lease.renewable():
            return FAR_FUTURE
        at = lease.renew_at(self.view)
        if at > moment:
            return at
        lease.renew = self._put(lease, verb=_v1.LEASE_VERB_RENEW, ordinal=lease.renewals + 1)
        return FAR_FUTURE

    def give_back(self, types: frozenset[str], text: str) -> int:
        """Decline the leases of types whose handlers cannot run, including running ones."""
        with self._locked():
            some = [
                x for x in self.leases.values() if x.phase != REPORTING and x.spec.type in types
            ]
            for lease in some:
                if lease.phase == WAITING:
                    self._decline(lease, text)
                    continue
                why = LeaseLost(lease.job_id, text)
                self._lose(lease, why, True)
                self._report(lease, verb=_v1.LEASE_VERB_DECLINE, text=text)
            return len(some)

    def begin_drain(self) -> int:
        """Decline leases that never started or still arrive; return how many handlers run."""
        with self._locked():
            self._drain()
            for lease in list(self.leases.values()):
                if lease.phase == WAITING:
                    self._decline(lease, "the worker drains")
            self._queue.clear()
            self._check_quiet()
            return self.running

    def stop_handlers(self, why: str) -> None:
        """End all handlers."""
        with self._locked():
            self.stopping = why
            for lease in self.leases.values():
                if lease.phase == RUNNING and lease.cancel is not None:
                    lease.cancel()

    def abandon(self, text: str) -> None:
        """Give up every lease: the session is over."""
        with self._locked():
            self._drain()
            self._lose_all(text)
            self._check_quiet()

    def say_bye(self) -> None:
        """Make the sender send Bye once everything else is sent."""
        with self.lock:
            self.farewell = True
            self.send_wake.notify()

    def _give_up_at(self, lease: Lease) -> float:
        end = lease.end(self.view) if self.view.known else lease.received + BEAT_LOST
        return max(end, self._drained_at + _REPORT_LEAST)

    def _give_up(self, lease: Lease) -> None:
        verb = VERBS[lease.outcome.verb] if lease.outcome is not None else ""
        log.error("job %s: outcome given up, the lease is over: %s", lease.job_id, verb)
        self._observe("given_up", lease, verb=verb)
        if lease.ran:
            self._unreported.append(lease.job_id)
        self._forget(lease)

    def unreported(self) -> list[str]:
        """Return the jobs whose outcomes were given up or are not yet reported."""
        with self.lock:
            # A lease that never ran is declined even if the decline cannot be delivered.
            late = [x.job_id for x in self.leases.values() if x.phase == REPORTING and x.ran]
            return sorted(self._unreported + late)
