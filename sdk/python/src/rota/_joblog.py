"""The log of an attempt, of which the first and the last lines are kept."""

from __future__ import annotations

import threading
from collections import deque

from . import _v1
from .records import LogPart

LINE_MOST = 4 << 10
HEAD_MOST = 16 << 10
TAIL_MOST = 48 << 10
# Space kept at the end of a line for a note on how much of it was cut.
_ROOM_FOR_CUT = 64


class JobLog:
    """Keeps what a handler logs. It accepts anything, from any thread, and never fails."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._head = bytearray()
        self._full = False
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._cut_lines = 0
        self._cut_bytes = 0

    def write(self, text: str) -> None:
        """Add lines; the beginning of a too long line is kept."""
        with self._lock:
            for line in text.removesuffix("\n").encode("utf-8", "replace").split(b"\n"):
                self._add(line)

    def _add(self, line: bytes) -> None:
        room = LINE_MOST - _ROOM_FOR_CUT
        if len(line) > room:
            line = line[:room] + b" [%d bytes of this line were cut]" % (len(line) - room)
        line += b"\n"
        if not self._full and len(self._head) + len(line) <= HEAD_MOST:
            self._head += line
            return
        self._full = True
        self._tail.append(line)
        self._tail_size += len(line)
        while self._tail_size > TAIL_MOST:
            cut = len(self._tail.popleft())
            self._tail_size -= cut
            self._cut_lines += 1
            self._cut_bytes += cut

    def encoded(self) -> bytes:
        """Return it as an AttemptLog."""
        with self._lock:
            return _v1.AttemptLog(
                head=bytes(self._head), tail=b"".join(self._tail), cut_lines=self._cut_lines,
                cut_bytes=self._cut_bytes,
            ).SerializeToString()  # fmt: skip

    def since(self, at: int) -> list[LogPart]:
        """Return what is kept from a position on, which is the end of an earlier part."""
        with self._lock:
            parts = [LogPart(0, 0, bytes(self._head))]
            if self._tail:
                start = len(self._head) + self._cut_bytes
                parts.append(LogPart(start, self._cut_lines, b"".join(self._tail)))
        found = []
        for p in parts:
            if p.end <= at or not p.text:
                continue
            if at > p.at:
                p = LogPart(at, p.cut_lines, p.text[at - p.at :])  # noqa: PLW2901
            found.append(p)
        return found
