"""A worker's beats: when the next is due, and what a node's answer or silence means."""

from __future__ import annotations

from . import _v1
from ._lease import REPORTING, RUNNING
from ._leases import Host, Leases
from ._view import BEAT_EVERY, BEAT_IDLE_MOST, FAR_FUTURE, now

# A node that left a beat unanswered for so long may be cut off while the stream stands.
_BEAT_SILENCE = 3 * BEAT_EVERY
# How long one may go unheard while a lease has a grace.
_HEAR_SILENCE = 2.5
_LOGS_BEAT = 256 << 10


class Beats(Leases):
    """The beats of a running worker, as often as the cluster needs them."""

    def __init__(self, host: Host, watched: bool) -> None:
        super().__init__(host, watched)
        # Those of this connection without an answer, by the local moment before sending them.
        self._beats: dict[int, float] = {}
        self._beat_sequence = 0
        self._heard_sequence = 0
        # When the latest was sent, and how long after it the next was said to come.
        self._beaten = 0.0
        self._said = 0.0
        # How often the cluster asks for beats while no lease is held.
        self._idle_every = 0.0

    def begin_beats(self) -> None:
        """Have the first beat of a connection sent at once."""
        with self.lock:
            self._beaten, self._said = now(), 0.0

    def beat_sent(self, moment: float) -> _v1.Beat | None:
        """Return a beat that is about to be sent; None says that the node was silent too long."""
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
        """Return when the next beat is due: never later than the latest one said.

        A lease, or a beat without an answer, calls for one sooner. Called under the lock.
        """
        if self.superseded:
            return FAR_FUTURE  # nobody answers a session that is over
        every = BEAT_EVERY if self._beats else self._beat_every()
        return self._beaten + min(self._said, every)

    def _beat_every(self) -> float:
        """Return how often the worker beats while its beats are answered.

        As the cluster asks for, and twice as often with a lease; at the least pause if that has
        a grace or something to log.
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
        """Report whether a handler that runs has logged anything."""
        return any(x.phase == RUNNING and x.log is not None for x in self.leases.values())

    def _logs(self) -> list[_v1.LogPart]:
        """Return what handlers logged since the beat before, as far as one beat brings it."""
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
        """Take the answer to a beat of this connection."""
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
        """Take that the node has heard a beat."""
        with self._locked():
            sent = self._beats.get(sequence)
            if sent is not None:
                self._heard_sequence = max(self._heard_sequence, sequence)
                self._expire_all(now())
                self.view.heard_one(sent)

    def unheard_at(self) -> float:
        """Return when the node's silence has it left for another, for leases with a grace.

        Called under the lock.
        """
        late = [t for s, t in self._beats.items() if s > self._heard_sequence]
        return min(late) + _HEAR_SILENCE if late and self._graced() else FAR_FUTURE
