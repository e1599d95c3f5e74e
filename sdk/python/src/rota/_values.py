"""Durations and moments, as Python and as the protocol represent them."""

from __future__ import annotations

import os
import re
import time
from datetime import datetime, timedelta, timezone
from typing import TypeAlias

from .errors import Invalid

# A duration: seconds, or a timedelta.
Span: TypeAlias = float | timedelta

# The digits of ULIDs.
_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+")
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


def parse_seconds(field: str, text: str) -> float:
    """Return a positive duration such as 300ms, 30s or 1d12h in seconds."""
    seconds = sum(float(n) * _UNITS[unit] for n, unit in _PART.findall(text))
    if not _DURATION.fullmatch(text) or seconds <= 0:
        raise Invalid(
            f"{field} cannot be used: got {text!r}, want a duration such as 300ms, 30s or 1d12h",
            subject=field,
        )
    return seconds


def to_seconds(span: Span) -> float:
    """Return a duration in seconds."""
    return span.total_seconds() if isinstance(span, timedelta) else float(span)


def to_ms(span: Span | None) -> int:
    """Return a duration in milliseconds, 0 for none; less than 1 ms becomes 1 ms."""
    if span is None:
        return 0
    seconds = to_seconds(span)
    ms = round(seconds * 1000)
    return 1 if ms == 0 and seconds > 0 else ms


def to_unix_ms(moment: datetime | None, field: str) -> int:
    """Return a moment in Unix milliseconds; one without a time zone is rejected."""
    if moment is None:
        return 0
    if moment.tzinfo is None:
        raise Invalid(
            f"{field} is {moment.isoformat()}, which has no time zone: give one, such as "
            "datetime.now(timezone.utc)",
            subject=field,
        )
    return int(moment.timestamp() * 1000)


_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def from_unix_ms(ms: int) -> datetime | None:
    """Return the moment of Unix milliseconds, None for 0."""
    if ms == 0:
        return None
    try:
        return _EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return datetime.max.replace(tzinfo=timezone.utc)


def from_ms(ms: int) -> timedelta | None:
    """Return a duration, None for 0."""
    return timedelta(milliseconds=ms) if ms else None


def new_id() -> str:
    """Return a new id: a ULID, so ids sort by creation time."""
    n = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10), "big")
    return "".join(_CROCKFORD[n >> shift & 31] for shift in range(125, -5, -5))
