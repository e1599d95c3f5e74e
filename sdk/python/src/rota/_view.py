"""A worker's view of time: when it gives a lease up.

All moments are seconds of one monotonic clock, which counts suspended time if the system has such a
clock; the cluster's are milliseconds of its own clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable

# The least time between two beats of a worker, and the most without a lease; with one it is half as
# much.
BEAT_EVERY = 2.0
BEAT_IDLE_MOST = 10.0
# What is subtracted from its view of any deadline.
VIEW_MARGIN = 1.0
# Handlers end when no beat was answered for this long, counted from sending the last one.
BEAT_LOST = 30.0
# How long before the end of its grace a worker ends running handlers.
GRACE_MARGIN = 3.0
# How long before max_runtime a decline counts as an overrun.
DECLINE_TIMES_OUT_MS = 2_000

FAR_FUTURE = float("inf")

if hasattr(time, "CLOCK_BOOTTIME"):

    def now() -> float:
        """Return the local time."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)
else:
    now: Callable[[], float] = time.monotonic  # type: ignore[no-redef]


class View:
    """The newest answered beat: when it was sent, and the cluster's clock afterwards.

    The cluster's clock reaches D no sooner than sent + (D - clock), however long the answer took.
    """

    __slots__ = ("clock", "heard", "known", "sent")

    def __init__(self) -> None:
        self.known = False
        self.sent = 0.0
        self.clock = 0
        self.heard = 0.0

    def answered(self, sent: float, clock: int) -> None:
        """Apply an answered beat; the one that was sent later counts."""
        self.heard_one(sent)
        if not self.known or sent > self.sent:
            self.known, self.sent, self.clock = True, sent, clock

    def heard_one(self, sent: float) -> None:
        """Record that a node received a beat."""
        self.heard = max(self.heard, sent)

    def of(self, deadline: int) -> float:
        """Return the local time at which a deadline counts as passed."""
        return self.sent + (deadline - self.clock) / 1000 - VIEW_MARGIN

    def lost(self) -> float:
        """Return the local time at which silence ends every handler."""
        return self.sent + BEAT_LOST
