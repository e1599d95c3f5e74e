"""One lease at a worker, and the commands about it to be sent to the cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from . import _v1
from ._joblog import JobLog
from ._view import DECLINE_TIMES_OUT_MS, FAR_FUTURE, GRACE_MARGIN, View
from .errors import LeaseLost

if TYPE_CHECKING:
    from .job import Job

# The state of a lease: it waits for a slot; its handler has been started and has not returned; its
# outcome is settled and awaits the cluster's answer.
WAITING, RUNNING, REPORTING = 0, 1, 2


class Command:
    """One verb on one lease. Its content never changes, so sending it again is harmless."""

    __slots__ = ("dropped", "lease", "size", "tries", "verb", "wire")

    def __init__(self, lease: Lease, wire: _v1.LeaseCommand) -> None:
        self.lease = lease
        self.wire = wire
        self.verb = wire.verb
        self.size = wire.ByteSize() + 16
        self.tries = 0
        self.dropped = False


class Lease:
    """One lease that the worker holds. The table's lock guards it."""

    __slots__ = (
        "ack", "ack_by", "ack_refused", "acked", "cancel", "costs", "deadline", "declines", "grace",
        "id", "job", "job_id", "lease_ms", "log", "log_sent", "lost", "outcome", "phase",
        "progress", "progress_held", "progress_next", "ran", "received", "renew", "renew_every",
        "renew_next", "renew_over", "renewals", "renewals_max", "reported", "spec", "times_out",
        "wire",
    )  # fmt: skip

    def __init__(self, a: _v1.Assignment, received: float) -> None:
        w = a.lease
        self.wire = w
        self.spec = a.spec
        self.id = w.id
        self.job_id = w.job
        self.job: Job | None = None
        self.phase = WAITING
        self.ran = False  # its handler was started
        self.received = received
        self.acked = w.acked_clock_ms > 0 or w.renewals > 0
        self.ack_refused: str | None = None
        self.ack_by = w.ack_by_clock_ms
        self.deadline = w.deadline_clock_ms
        self.lease_ms = a.lease_ms
        self.renew_every = a.renew_every_ms
        self.renewals_max = a.renewals_max
        self.renewals = w.renewals
        self.renew_next = 0.0
        self.renew_over = False
        self.grace = a.grace_ms / 1000
        self.times_out = w.started_clock_ms + a.max_runtime_ms if a.max_runtime_ms else 0
        # Ends the handler; set once it runs.
        self.cancel: Callable[[], None] | None = None
        # Why the lease was given up; declines means that it must still be declined.
        self.lost: LeaseLost | None = None
        self.declines = False
        # The commands in progress.
        self.ack: Command | None = None
        self.renew: Command | None = None
        self.progress: Command | None = None
        self.outcome: Command | None = None
        self.progress_next = 0.0
        self.progress_held: tuple[int, str] | None = None
        # The newest report, sent or not; it goes with the outcome.
        self.reported: tuple[int, str] | None = None
        # The newest totals in millionths, sent or not; they go with every report and the outcome.
        self.costs: Mapping[str, int] = {}
        self.log: JobLog | None = None
        self.log_sent = 0

    def end(self, view: View) -> float:
        """Return the local time at which the worker gives the lease up."""
        deadline = self.deadline if self.acked else min(self.ack_by, self.deadline)
        end = min(view.of(deadline), view.lost())
        return min(end, self.broken(view)) if self.grace > 0 else end

    def broken(self, view: View) -> float:
        """Return when a lease with a grace ends if no other beat is acknowledged."""
        return view.heard + self.grace - GRACE_MARGIN

    def timed_out(self, view: View, moment: float) -> bool:
        """Report whether max_runtime is over by the view."""
        return self.times_out != 0 and moment >= view.of(self.times_out)

    def too_late(self, view: View) -> float:
        """Return the time from which a lease waiting for a slot is declined."""
        if self.times_out == 0 or self.phase != WAITING:
            return FAR_FUTURE
        return view.of(self.times_out - DECLINE_TIMES_OUT_MS)

    def renew_at(self, view: View) -> float:
        """Return when the next renewal is due."""
        renew_by = self.deadline - (self.lease_ms - self.renew_every)
        return max(view.of(renew_by), self.renew_next)

    def renewable(self) -> bool:
        """Report whether another renewal may be requested and none is in progress."""
        if self.times_out != 0 and self.deadline >= self.times_out:
            return False  # it ends there, renewed or not
        return (
            self.phase != REPORTING
            and self.lost is None
            and not self.renew_over
            and self.renew is None
            and self.renew_every > 0
            and (self.renewals_max < 0 or self.renewals < self.renewals_max)
        )
