"""A worker's beats: when the next is due, and what a node's answer or silence means."""

from __future__ import annotations

from . import _v1
from ._lease import REPORTING, RUNNING
from ._leases import Host, Leases
from ._view import BEAT_EVERY, BEAT_IDLE_MOST, FAR_FUTURE, now

# A node that leaves a beat unanswered for this long may be cut off while the stream stays open.
_BEAT_SILENCE = 3 * BEAT_EVERY
# How long a beat may go unacknowledged while a lease has a grace.
_HEAR_SILENCE = 2.5
_LOGS_BEAT = 256 << 10


class Beats(Leases):
    """The beats of a running worker, as often as the cluster needs them."""

    def __init__(self, host: Host, watched: bool) -> None:
        super().__init__(host, watched)
        # This connection's unanswered beats, with the local time before each was sent.
        self._beats: dict[int, float] = {}
        self._beat_sequence = 0
        self._heard_sequence = 0
        # When the latest beat was sent, and the announced time until the next one.
        self._beaten = 0.0
        self._said = 0.0
        # How often the cluster asks for beats while no lease is held.
        self._idle_every = 0.0

    def begin_beats(self) -> None:
        """Make the first beat of a connection due at once."""
        with self.lock:
            self._beaten, self._said = now(), 0.0

    def beat_sent(self, moment: float) -> _v1.Beat | None:
        """Return a beat that is about to be sent; None if the node was silent for too long."""
        with self.lock:
            if any(moment - sent >= _BEAT_SILENCE for sent in self._beats.values()):
                return None
            self._beaten, self._said = moment, self._beat_every()
            self._beat_sequence += 1
            self._beats[self._beat_sequence] = moment
            return _v1.Beat(
                sequence=self._beat_sequence, logs=self._logs(), next_ms=round(self._said * 1000)
            )

    def beat_due(self) -> float:
        """Return when the next beat is due: never later than the latest beat announced.

        A lease, or an unanswered beat, makes it due sooner. Called under the lock.
        """
        if self.superseded:
            return FAR_FUTURE  # beats of a session that is over get no answer
        every = BEAT_EVERY if self._beats else self._beat_every()
        return self._beaten + min(self._said, every)

    def _beat_every(self) -> float:
        """Return the interval between answered beats.

        It is what the cluster asks for, and half of that with a lease; the shortest interval if the
        lease has a grace or something to log.
        """
        every = min(self._idle_every, BEAT_IDLE_MOST)
        if self.leases:
            every /= 2
        if every <= BEAT_EVERY or self._graced() or self._logging():
            return BEAT_EVERY
        return every

    def _graced(self) -> bool:
        """Report whether a lease has a grace that its node's silence may end."""
        return any(
            x.grace > 0 and x.phase != REPORTING and x.lost is None for x in self.leases.values()
        )

    def _logging(self) -> bool:
        """Report whether a running handler has logged anything."""
        return any(x.phase == RUNNING and x.log is not None for x in self.leases.values())

    def _logs(self) -> list[_v1.LogPart]:
        """Return what handlers logged since the previous beat, as much as fits one beat."""
        found: list[_v1.LogPart] = []
        room = _LOGS_BEAT
        for lease in self.leases.values():
            if lease.log is None or lease.phase != RUNNING:
                continue
            for p in lease.log.since(lease.log_sent):
                room -= len(p.text) + len(lease.id)
                if room < 0:
                    return found
                found.append(
                    _v1.LogPart(lease_id=lease.id, at=p.at, cut_lines=p.cut_lines, text=p.text)
                )
                lease.log_sent = p.end
        return found

    def beat(self, answer: _v1.BeatAnswer) -> bool:
        """Handle the answer to a beat of this connection."""
        with self._locked():
            sent = self._beats.get(answer.sequence)
            if sent is None:
                return False
            for s in [s for s in self._beats if s <= answer.sequence]:
                del self._beats[s]
            self._idle_every = answer.every_ms / 1000
            moment = now()
            self._expire_all(moment)  # those that ended by the old view stay ended
            first = not self.view.known
            self.view.answered(sent, answer.clock_ms)
            if first:
                self.watch_wake.notify()
            self._start_more(moment)
            return True

    def heard(self, sequence: int) -> None:
        """Handle the node's receipt for a beat."""
        with self._locked():
            sent = self._beats.get(sequence)
            if sent is not None:
                self._heard_sequence = max(self._heard_sequence, sequence)
                self._expire_all(now())
                self.view.heard_one(sent)

    def unheard_at(self) -> float:
        """Return when the worker leaves a silent node because of leases with a grace.

        Called under the lock.
        """
        late = [t for s, t in self._beats.items() if s > self._heard_sequence]
        return min(late) + _HEAR_SILENCE if late and self._graced() else FAR_FUTURE
