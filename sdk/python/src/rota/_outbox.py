"""The commands of a worker that are to be sent, and the unanswered ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from . import _v1
from ._lease import REPORTING, Command, Lease

# One message of commands is half an entry of the log, so that no node has to split it.
_BATCH_COMMANDS = 512
_BATCH_BYTES = 256 << 10
# Beyond this number of unanswered messages commands accumulate, so messages grow.
_FLYING = 2


class Outbox:
    """Holds at most four commands a lease. The table's lock guards it."""

    def __init__(self) -> None:
        self._queue: deque[Command] = deque()
        self._held: deque[tuple[Lease, float]] = deque()
        self._flying: dict[int, list[Command]] = {}
        self._sequence = 0
        # Delays everything after a batch was refused.
        self.not_before = 0.0

    def push(self, c: Command) -> None:
        """Queue a command."""
        self._queue.append(c)

    def hold_ack(self, lease: Lease, due: float) -> None:
        """Delay an ack briefly: a completion makes it needless."""
        self._held.append((lease, due))

    def _release_acks(self, moment: float) -> None:
        while self._held and self._held[0][1] <= moment:
            lease, _ = self._held.popleft()
            if lease.phase == REPORTING or lease.lost or lease.acked or lease.ack:
                continue
            lease.ack = Command(
                lease,
                _v1.LeaseCommand(verb=_v1.LEASE_VERB_ACK, lease_id=lease.id, job=lease.job_id),
            )
            self.push(lease.ack)

    def next(self, moment: float) -> tuple[_v1.WorkRequest | None, float | None]:
        """Return a message to send, or none and when to ask again."""
        if moment < self.not_before:
            return None, self.not_before
        self._release_acks(moment)
        at = self._held[0][1] if self._held else None
        if len(self._flying) >= _FLYING:
            return None, None
        batch: list[Command] = []
        size = 0
        queue = self._queue
        while queue and len(batch) < _BATCH_COMMANDS:
            c = queue[0]
            if c.dropped:
                queue.popleft()
                continue
            if batch and size + c.size > _BATCH_BYTES:
                break
            queue.popleft()
            batch.append(c)
            size += c.size
        if not batch:
            return None, at
        self._sequence += 1
        self._flying[self._sequence] = batch
        commands = _v1.LeaseCommands(sequence=self._sequence, commands=[c.wire for c in batch])
        return _v1.WorkRequest(commands=commands), None

    def landed(self, sequence: int) -> list[Command] | None:
        """Remove and return a batch that was answered."""
        return self._flying.pop(sequence, None)

    def again(self, batch: Iterable[Command]) -> None:
        """Put a batch without an outcome back in front of later commands."""
        self._queue.extendleft(reversed([c for c in batch if not c.dropped]))

    def broken(self) -> None:
        """Put all unanswered commands back: the connection is gone."""
        lost = [c for s in sorted(self._flying) for c in self._flying[s]]
        self._flying.clear()
        self.again(lost)
        self.not_before = 0.0

    def empty(self) -> bool:
        """Report whether nothing is left to send and nothing is unanswered."""
        return not self._flying and all(c.dropped for c in self._queue)
