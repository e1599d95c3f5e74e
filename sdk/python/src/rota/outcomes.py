"""Exceptions that a handler raises to decide what happens to its job.

Any other exception fails the attempt, which is repeated as the retry policy sets.
"""

from __future__ import annotations

from datetime import timedelta

from . import _v1
from ._values import Span, to_ms

# The longest delay of a job, in ms.
_WAIT_MOST_MS = 30 * 24 * 3600 * 1000


class Outcome(Exception):
    """Base class of the exceptions that decide what happens to a job."""

    _fail = 0
    _after_ms = 0
    _pause_key = ""


def _wait(after: Span) -> int:
    return max(1, min(to_ms(after), _WAIT_MOST_MS))


class RetryAfter(Outcome):
    """Fail the attempt, which counts, and delay the next one: 1 ms to 30 days.

    Use it for a service that returns when to try again.
    """

    _fail = _v1.FAIL_KIND_RETRY_AFTER

    def __init__(self, after: Span, text: str = "to be tried again later") -> None:
        super().__init__(text)
        self.after = timedelta(milliseconds=_wait(after))
        self._after_ms = _wait(after)


class Snooze(Outcome):
    """Delay the attempt without counting it: 1 ms to 30 days, 1,000 times an attempt.

    Use it when something else must happen first.
    """

    _fail = _v1.FAIL_KIND_SNOOZE

    def __init__(self, after: Span, text: str = "put off") -> None:
        super().__init__(text)
        self.after = timedelta(milliseconds=_wait(after))
        self._after_ms = _wait(after)


class RetryAfterKey(Snooze):
    """Snooze, and pause a key of the job for every worker, for a service that all its jobs use.

    The key, ``name:value``, is paused until the later of this date and that of an earlier pause. A
    key without a rule is not paused.
    """

    def __init__(self, key: str, after: Span, text: str = "put off with its key") -> None:
        super().__init__(after, text)
        self.key = self._pause_key = key


class NoRetry(Outcome):
    """Fail the attempt and make the job DEAD: another try would not help."""

    _fail = _v1.FAIL_KIND_NO_RETRY

    def __init__(self, text: str = "failed for good") -> None:
        super().__init__(text)


class Cancel(Outcome):
    """Make the job CANCELLED: there is nothing left to do."""

    _fail = _v1.FAIL_KIND_CANCEL

    def __init__(self, text: str = "cancelled by its handler") -> None:
        super().__init__(text)


class Decline(Outcome):
    """Return the lease: the job is queued again, uncounted, up to 20 times an attempt."""

    _fail = -1

    def __init__(self, text: str = "declined") -> None:
        super().__init__(text)
